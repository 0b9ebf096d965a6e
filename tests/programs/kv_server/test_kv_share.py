#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 OR MIT
"""kv_server: what clients share (the DPU's cache, its memory, places for clients) stays useful.

    test_kv_share.py BINARY MODE [--only NAME] [--seed N]     MODE: monolith, single, two

Exit code: 0, 1, or 77 when everything was skipped. Counts are checked, never times.
"""
import os
import random
import sys
import time
import traceback

sys.path.insert(0, os.path.join(os.path.dirname(os.path.realpath(__file__)), "../../support"))
from kvnode import WAIT, Closed, Server, encode, rss_kib  # noqa: E402


class Skip(Exception):
    pass


def figures(node, *names):
    """Of INFO, once they stand still from one exchange of the roles to the next: twice a second, or
    later if a role is not scheduled. `messages` shows an exchange, since INFO is one."""
    with node.conn() as c:
        last, messages = None, None
        end = time.monotonic() + WAIT
        while time.monotonic() < end:
            lines = c.cmd("INFO").decode().splitlines()
            info = dict(line.split(":", 1) for line in lines if ":" in line)
            if info["messages"] != messages:
                now = [int(info[n]) for n in names] if messages is not None else None
                if now is not None and now == last:
                    return now
                last, messages = now, info["messages"]
            time.sleep(0.1)
    raise AssertionError("the figures do not come to rest")


def test_cache_smaller_than_keys(ctx):
    """One and a half times as many keys as cache entries: the DPU answers nearly what fits."""
    if ctx.mode == "monolith":
        raise Skip("nothing is offloaded")
    rng = random.Random(ctx.seed)
    entries, keys = 2048, 3000
    with Server(ctx.binary, ctx.mode, **{"cache-entries": entries, "offload": "all",
                                         "sync": "always"}) as node, node.conn() as c:
        def run(count, writes):
            for at in range(0, count, 100):
                batch = [(rng.randrange(keys), rng.random() < writes) for _ in range(100)]
                c.raw(b"".join(encode("SET", "k%d" % k, "v%d" % k) if w
                               else encode("GET", "k%d" % k) for k, w in batch))
                for k, w in batch:
                    got = c.reply()
                    assert got == ("OK" if w else b"v%d" % k), (k, w, got)

        for at in range(0, keys, 100):
            c.raw(b"".join(encode("SET", "k%d" % k, "v%d" % k) for k in range(at, at + 100)))
            for k in range(at, at + 100):
                assert c.reply() == "OK"
        for i in range(20000, 20000 + 3 * entries):  # keys that take the others' places, and
            c.send("SET", "k%d" % i, "x")            # every other of them leaves again
            c.send("DEL", "k%d" % (i - i % 2))
        for i in range(2 * 3 * entries):
            c.reply()
        run(10000, 0.01)
        before = figures(node, "offloaded")[0]
        run(10000, 0)  # reads alone, so that none is with the host behind a write
        share = (figures(node, "offloaded")[0] - before) / 10000
        print("  %.1f %% of reads offloaded; an LRU of the same size: %.1f %%" %
              (100 * share, 100.0 * entries / keys))
        assert share > entries / keys - 0.05


def value(c, name, size):
    assert c.cmd("SET", name, b"v" * size) == "OK"


def test_paused_clients(ctx):
    """Eight clients that ask for 160 MiB and pause: none is reset, others continue."""
    if ctx.mode == "monolith":
        raise Skip("no director")
    with Server(ctx.binary, ctx.mode) as node, node.conn() as c:
        size, gets = 1 << 20, 20
        for i in range(8):
            value(c, "v%d" % i, size)
        slow = [node.conn() for _ in range(8)]
        for i, s in enumerate(slow):
            s.raw(encode("GET", "v%d" % i) * gets)
        for i in range(2000):
            assert c.cmd("INCR", "n") == i + 1
        for s in slow:
            for _ in range(gets):
                assert s.reply() == b"v" * size
            s.close()
        stalls, resets = figures(node, "reply_stalls", "hog_resets")
        print("  %d stalls, %d resets" % (stalls, resets))
        assert stalls == 0 and resets == 0


def test_paused_readers_of_device(ctx):
    """150 clients that do not read what the DPU answers: others' reads are still offloaded."""
    if ctx.mode == "monolith":
        raise Skip("nothing is offloaded")
    with Server(ctx.binary, ctx.mode, offload="all", sync="always") as node, node.conn() as c:
        for i in range(16):
            value(c, "v%d" % i, 65000)
        value(c, "small", 4096)
        slow = [node.conn() for _ in range(150)]
        for i, s in enumerate(slow):
            s.raw(encode("GET", "v%d" % (i % 16)) * 50)
        for _ in range(100):
            assert c.cmd("PING") == "PONG"
        before = figures(node, "offloaded")[0]
        print("  %d offloaded for those that do not read" % before)
        for _ in range(1000):
            assert c.cmd("GET", "small") == b"v" * 4096
        offloaded = figures(node, "offloaded")[0] - before
        free, stalls, resets = figures(node, "offload_pool_free", "reply_stalls", "hog_resets")
        print("  %d of 1000 offloaded, %d bytes of the pool free, %d stalls, %d resets" %
              (offloaded, free, stalls, resets))
        assert offloaded >= 950 and free > 0 and resets == 0
        for i, s in enumerate(slow):
            for _ in range(50):
                assert s.reply() == b"v" * 65000
            s.close()


def unread(node, clients, gets, size):
    """Clients that do not read @p gets values of @p size, until the server holds them."""
    slow = [node.conn() for _ in range(clients)]
    for s in slow:
        s.raw(encode("GET", "v") * gets)
    want = node_base = rss(node)
    end = time.monotonic() + WAIT
    while want - node_base < clients * gets * size // 1024 // 2:
        want = rss(node)
        assert time.monotonic() < end, "%d KiB are not held, but %d" % (want, node_base)
        time.sleep(0.1)
    return slow


def rss(node):
    """KiB of the process that holds replies."""
    return rss_kib(node.role_pid("dpu") if node.mode == "two" else node.process.pid)


def test_memory_goes_back(ctx):
    """What clients that do not read have cost goes back to the system when they have gone."""
    kept = 64 << 10  # KV_TRIM_KEEP, FRONT_TRIM_BYTES
    with Server(ctx.binary, ctx.mode) as node, node.conn() as c:
        value(c, "v", 4 << 20)
        before = rss(node)
        slow = unread(node, 10, 10, 4 << 20)
        peak = rss(node)
        for s in slow:
            s.close()
        end = time.monotonic() + WAIT
        while rss(node) - before > 2 * kept:
            assert c.cmd("PING") == "PONG"
            assert time.monotonic() < end, "%d KiB before, at most %d, now %d" % (
                before, peak, rss(node))
            time.sleep(0.2)
        print("  %d KiB before, at most %d, then %d" % (before, peak, rss(node)))
        assert len(c.cmd("GET", "v")) == 4 << 20


def test_full(ctx):
    """One client too many hears Redis' words, and one that is idle gives its place away."""
    if ctx.mode == "monolith":
        raise Skip("no director")
    with Server(ctx.binary, ctx.mode, connections=4, timeout=2) as node:
        held, text, last = [], None, 0
        end = time.monotonic() + WAIT
        while text is None:
            assert time.monotonic() < end
            begin = time.monotonic()
            c = node.conn()
            try:
                if len(held) == 4:
                    text = c.reply()
                elif c.cmd("PING") == "PONG":  # those that waited for the start may not be gone yet
                    held.append(c)
                    last = begin if len(held) == 1 else last
            except Closed:  # refused, and reset for what it had sent; or idle for two seconds
                assert len(held) < 4 or time.monotonic() - last >= 1, "one was closed too early"
                held = []
        assert text == "ERR max number of clients reached", text
        assert c.eof() == b""
        for h in held:  # two seconds later
            assert h.eof() == b"" and time.monotonic() - last >= 1
        while True:
            assert time.monotonic() < end
            try:
                c = node.conn()
                if c.cmd("PING") == "PONG":
                    break
            except Closed:  # refused, and reset for what it had sent
                pass
        assert "clients were refused" in node.log()
        while int(node.info("clients_idle_closed")) < 4:  # the figures come twice a second
            assert time.monotonic() < end
            time.sleep(0.2)


TESTS = [v for k, v in list(globals().items()) if k.startswith("test_")]


class Context:
    def __init__(self, binary, mode, seed):
        self.binary, self.mode, self.seed = binary, mode, seed


def main():
    args = sys.argv[1:]
    seed, only = int.from_bytes(os.urandom(4), "little"), None
    if "--seed" in args:
        at = args.index("--seed")
        seed = int(args[at + 1])
        del args[at:at + 2]
    if "--only" in args:
        at = args.index("--only")
        only = args[at + 1]
        del args[at:at + 2]
    ctx = Context(args[0], args[1], seed)
    print("mode %s, seed %d" % (ctx.mode, seed), flush=True)
    failed = ran = 0
    for test in TESTS:
        name = test.__name__[5:]
        if only is not None and name != only:
            continue
        began = time.monotonic()
        try:
            test(ctx)
            ran += 1
            result = "ok"
        except Skip as e:
            result = "skipped: %s" % e
        except Exception:  # whatever it was, the others run
            traceback.print_exc()
            failed += 1
            result = "FAILED"
        print("%-28s %6.2f s  %s" % (name, time.monotonic() - began, result), flush=True)
    return 1 if failed else 0 if ran else 77


if __name__ == "__main__":
    sys.exit(main())
