#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 OR MIT
"""kv_server from outside: protocol, bounds, life and death, in every mode.

    test_kv_server.py BINARY MODE [--only NAME] [--seed N]     MODE: monolith, single, two

Exit code: 0, 1, or 77 when everything was skipped. No check depends on timing.
"""
import os
import random
import resource
import shutil
import signal
import socket
import struct
import subprocess
import sys
import threading
import time
import traceback
import urllib.error
import urllib.request

sys.path.insert(0, os.path.join(os.path.dirname(os.path.realpath(__file__)), "../../support"))
from kvnode import WAIT, Closed, Conn, Error, Server, encode, free_port  # noqa: E402

MIB = 1 << 20
# Under ThreadSanitizer a server takes seconds to start, and by day its threads alone count.
THREADS_ONLY = os.environ.get("SNIC_SANITIZED", "") == "thread"
NIGHTLY = os.environ.get("SNIC_NIGHTLY", "") not in ("", "0")


class Skip(Exception):
    pass


class Tonight(Exception):
    pass


def by_turns(number):
    """With a sanitizer, by day, every other one of what takes long, by SNIC_TURN; not by its last
    digits, which chose the mode."""
    if os.environ.get("SNIC_SANITIZED") and not NIGHTLY and \
            (int(os.environ.get("SNIC_TURN") or 0) // 5 + number) % 2:
        raise Tonight


def no_threads():
    """What the test is about has nothing to do with threads."""
    if THREADS_ONLY and not NIGHTLY:
        raise Tonight


class Context:
    def __init__(self, binary, mode, seed):
        self.binary, self.mode, self.seed = binary, mode, seed
        self.shared = None

    def server(self, **options):
        return Server(self.binary, self.mode, **options)

    def node(self):
        """The server that tests share which leave it as they found it."""
        if self.shared is None:
            self.shared = self.server().start()
        return self.shared

    def rng(self):
        return random.Random(self.seed)


def is_in(part, whole):
    assert part in whole, "%r is not in %r" % (part, whole)


def equal(a, b, what=""):
    def short(v):
        t = repr(v)
        return t if len(t) < 300 else t[:300] + "... (%d)" % len(t)
    assert a == b, "%s: %s, expected %s" % (what, short(a), short(b))


def value_of(i, size):
    return (b"%d:" % i * (size // 2 + 1))[:size]


def fill(c, count, size, prefix="f"):
    """So much that the first records are on the device only (memory is 32 MiB)."""
    for at in range(0, count, 64):
        n = min(64, count - at)
        c.raw(b"".join(encode("SET", "%s%d" % (prefix, at + i), value_of(at + i, size))
                       for i in range(n)))
        for _ in range(n):
            equal(c.reply(), "OK", "fill")


def on_device(node, c, keys):
    """GET keys until the offloaded figure has moved by as many, for a mode that offloads."""
    end = time.monotonic() + WAIT
    while True:
        before = int(node.info("offloaded"))
        for k in keys:
            c.cmd("GET", k)
        time.sleep(0.6)  # the figures come twice a second
        node_now = int(node.info("offloaded"))
        if node_now - before >= len(keys):
            return
        assert time.monotonic() < end, "not offloaded: %d of %d" % (node_now - before, len(keys))
        fill(c, 640, 64 * 1024)  # compaction may have copied them to the end of the log


# ---- Protocol ----

def test_pipeline(ctx):
    """Replies in the order of the requests, whether from DPU, host memory or device."""
    rng = ctx.rng()
    node = ctx.node()
    with node.conn() as c:
        fill(c, 700, 64 * 1024, "p")
        model = {b"p%d" % i: value_of(i, 64 * 1024) for i in range(700)}
        for turn in range(4 if NIGHTLY else 2):
            sent, expected = [], []
            for i in range(250):
                k = b"p%d" % rng.randrange(720)
                what = rng.randrange(10)
                if what < 5:
                    sent.append(encode("GET", k))
                    expected.append(model.get(k))
                elif what == 5:
                    v = b"%d.%d" % (turn, i)
                    sent.append(encode("SET", k, v))
                    model[k] = v
                    expected.append("OK")
                elif what == 6:
                    ks = [b"p%d" % rng.randrange(720) for _ in range(3)]
                    sent.append(encode("MGET", *ks))
                    expected.append([model.get(x) for x in ks])
                elif what == 7:
                    sent.append(encode("DEL", k))
                    expected.append(int(model.pop(k, None) is not None))
                elif what == 8:
                    sent.append(b"PING\r\n")
                    expected.append("PONG")
                else:
                    sent.append(encode("ECHO", "%d" % i))
                    expected.append(b"%d" % i)
            sender = threading.Thread(target=c.raw, args=(b"".join(sent),))
            sender.start()
            for i, e in enumerate(expected):
                equal(c.reply(), e, "turn %d reply %d %r" % (turn, i, sent[i][:60]))
            sender.join()
        equal(c.cmd("FLUSHALL"), "OK")


def test_oversized(ctx):
    """Too long keys and values are refused, the connection lives, memory stays bounded."""
    node = ctx.node()
    with node.conn() as c:
        big = os.urandom(4096) * 2048
        key = b"k" * 65536
        equal(c.cmd("SET", key, big), "OK")
        equal(c.cmd("GET", key), big, "the largest key and value")
        for args in (("SET", "k", big + b"x"), ("SET", key + b"x", "v"), ("GET", key + b"x"),
                     ("MSET", "a", "1", "b", big + b"x"), ("DEL", key + b"x")):
            r = c.cmd(*args)
            assert isinstance(r, Error), "%s: %r" % (args[0], r)
            equal(c.cmd("PING"), "PONG", "after an oversized " + args[0])
        equal(c.cmd("MGET", "a", "b", "k"), [None, None, None])
        before = node.rss_kib()
        # 192 MiB in one value, and the next command behind it
        c.raw(b"*3\r\n$3\r\nSET\r\n$1\r\nh\r\n$%d\r\n" % (192 * MIB))
        for _ in range(192):
            c.raw(b"x" * MIB)
        c.raw(b"\r\n" + encode("PING"))
        assert isinstance(c.reply(), Error)
        equal(c.reply(), "PONG")
        assert node.rss_kib() < before + 96 * 1024, "memory grew from %d to %d KiB" % (
            before, node.rss_kib())
        equal(c.cmd("EXISTS", "h"), 0)
        equal(c.cmd("DEL", key), 1)


PROTOCOL_ERRORS = [
    (b"*-x\r\n", b"-ERR Protocol error: invalid multibulk length\r\n"),
    (b"*99999999999\r\n", b"-ERR Protocol error: invalid multibulk length\r\n"),
    (b"*1\r\nfoo\r\n", b"-ERR Protocol error: expected '$', got 'f'\r\n"),
    (b"*1\r\n$-5\r\n", b"-ERR Protocol error: invalid bulk length\r\n"),
    (b"*1\r\n$abc\r\n", b"-ERR Protocol error: invalid bulk length\r\n"),
    (b"*2\r\n$3\r\nGET\r\n$99999999999\r\n", b"-ERR Protocol error: invalid bulk length\r\n"),
    (b'GET "unbalanced\r\n', b"-ERR Protocol error: unbalanced quotes in request\r\n"),
    (b"x" * 70000, b"-ERR Protocol error: too big inline request\r\n"),
    (b"*" + b"1" * 70000, b"-ERR Protocol error: too big mbulk count string\r\n"),
    (b"*1\r\n$" + b"1" * 70000, b"-ERR Protocol error: too big bulk count string\r\n"),
]


def test_protocol_errors(ctx):
    """Each breach gets Redis's own line, after the replies before it, and a close."""
    node = ctx.node()
    for data, expected in PROTOCOL_ERRORS:
        with node.conn() as c:
            c.raw(encode("ECHO", "first") + data)
            equal(c.eof(), b"$5\r\nfirst\r\n" + expected, "input %r" % data[:40])
    with node.conn() as c:
        equal(c.cmd("PING"), "PONG")


def test_framing(ctx):
    """Inline commands, empty messages, one byte at a time, half-closed connections."""
    node = ctx.node()
    with node.conn() as c:
        c.raw(b"SET inl \"a\\x41 b\"\r\nGET inl\r\n\r\n*0\r\n*-1\r\nPING\nECHO 'it\\'s'\r\n")
        equal([c.reply() for _ in range(4)], ["OK", b"aA b", "PONG", b"it's"])
        for b in encode("SET", "bytes", "v" * 10) + encode("GET", "bytes") + b"PING\r\n":
            c.raw(bytes([b]))
        equal([c.reply() for _ in range(3)], ["OK", b"v" * 10, "PONG"])
    with node.conn() as c:
        c.raw(encode("SET", "half", "closed") + encode("GET", "half") + b"*1\r\n$4\r\nPI")
        c.sock.shutdown(socket.SHUT_WR)
        equal(c.eof(), b"+OK\r\n$6\r\nclosed\r\n", "after a half-close")
    with node.conn() as c:
        c.send("QUIT")
        equal(c.eof(), b"+OK\r\n", "QUIT")


def test_slow_reader(ctx):
    """A client that reads slowly is paused, others are served, memory stays bounded."""
    node = ctx.node()
    value = os.urandom(1024) * 1024
    with node.conn() as slow, node.conn() as other:
        equal(slow.cmd("SET", "large", value), "OK")
        before = node.rss_kib()
        slow.raw(encode("GET", "large") * 12)  # it stops at once
        for i in range(300):
            equal(other.cmd("SET", "o%d" % i, "v"), "OK")
        for i in range(12):
            assert slow.reply() == value, "reply %d differs" % i
        slow.raw(encode("GET", "large") * 400)  # 400 MiB, taken slowly
        most = 0
        for i in range(400):
            assert slow.reply() == value, "reply %d differs" % i
            equal(other.cmd("GET", "o%d" % (i % 300)), b"v")
            most = max(most, node.rss_kib())
        # ThreadSanitizer keeps four bytes of its own for each byte that was touched.
        room = (256 + 64) * 1024 * (5 if THREADS_ONLY else 1)
        assert most < before + room, "memory grew from %d to %d KiB" % (before, most)
        equal(slow.cmd("PING"), "PONG")
        equal(slow.cmd("FLUSHALL"), "OK")


def test_clients(ctx):
    """256 clients at once, each with a pipeline of its own."""
    node = ctx.node()
    conns = [node.conn() for _ in range(256)]
    for turn in range(4):
        for i, c in enumerate(conns):
            c.raw(encode("SET", "c%d" % i, "%d.%d" % (i, turn)) + encode("GET", "c%d" % i) +
                  encode("INCR", "count"))
        for i, c in enumerate(conns):
            equal(c.reply(), "OK")
            equal(c.reply(), b"%d.%d" % (i, turn), "client %d" % i)
            assert isinstance(c.reply(), int)
    equal(conns[0].cmd("GET", "count"), b"1024")
    for c in conns[1::2]:  # half of them by reset
        c.sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    for c in conns[1:]:
        c.close()
    equal(conns[0].cmd("FLUSHALL"), "OK")
    conns[0].close()


def test_commands(ctx):
    """What the differential test cannot compare: this server's own replies."""
    node = ctx.node()
    with node.conn() as c:
        hello = c.cmd("HELLO", "2", "SETNAME", "me")
        equal(hello[:6], [b"server", b"redis", b"version", hello[3], b"proto", 2])
        equal(c.cmd("CLIENT", "GETNAME"), b"me")
        assert c.cmd("CLIENT", "ID") > 0
        is_in("NOPROTO", c.cmd("HELLO", "4"))
        for section in ("server", "clients", "stats", "keyspace", "snicstore"):
            is_in(b"# " + section.capitalize().encode(), c.cmd("INFO", section))
        for name in (b"offloaded_share:", b"total_cpu_us:", b"host_cpu_us:"):
            is_in(name, c.cmd("INFO", "snicstore"))
        equal(c.cmd("CONFIG", "GET", "databases"), [b"databases", b"16"])
        count = c.cmd("COMMAND", "COUNT")
        equal(len(c.cmd("COMMAND")), count)
        equal(c.cmd("COMMAND", "INFO", "get")[0][:2], [b"get", 2])
        equal(c.cmd("SELECT", "3"), "OK")
        equal(c.cmd("SET", "in3", "v"), "OK")
        equal(c.cmd("SELECT", "0"), "OK")
        equal(c.cmd("GET", "in3"), None)
        equal(c.cmd("FLUSHALL"), "OK")


def tool(name):
    path = shutil.which(name)
    if path is None:
        raise Skip("%s is not installed (redis-tools)" % name)
    return path


def test_redis_tools(ctx):
    """redis-cli and redis-benchmark work unchanged."""
    cli, bench = tool("redis-cli"), tool("redis-benchmark")
    node = ctx.node()

    def run(*args):
        return subprocess.run([cli, "-p", str(node.port), *args], capture_output=True, text=True,
                              timeout=WAIT, check=True).stdout.strip()
    equal(run("set", "cli", "value"), "OK")
    equal(run("get", "cli"), "value")
    equal(run("--scan"), "cli")
    is_in("snicstore_version", run("info"))
    out = subprocess.run([bench, "-p", str(node.port), "-t", "ping,set,get,incr,mset", "-n", "5000",
                          "-c", "50", "-P", "16", "-r", "1000", "-q"], capture_output=True,
                         text=True, timeout=WAIT, check=True)
    for name in ("PING_MBULK", "SET", "GET", "INCR", "MSET"):
        is_in(name, out.stdout)
    assert "rror" not in out.stdout + out.stderr, out.stdout + out.stderr
    equal(run("flushall"), "OK")


# ---- Records on the device ----

def test_offloaded_expiry(ctx):
    """A key that expires is gone on the offloaded path too; EXPIRE and DEL reach it."""
    if ctx.mode == "monolith":
        raise Skip("nothing is offloaded")
    node = ctx.node()
    with node.conn() as c:
        for i in range(8):
            equal(c.cmd("SET", "e%d" % i, value_of(i, 1000)), "OK")
        now = int(time.time() * 1000)
        equal(c.cmd("SET", "px", "v", "PXAT", now + 2000), "OK")
        fill(c, 640, 64 * 1024)
        on_device(node, c, ["e%d" % i for i in range(8)])
        while True:
            v = c.cmd("GET", "px")
            late = int(time.time() * 1000) > now + 2000 + 4000
            if v is None:
                assert int(time.time() * 1000) >= now + 2000 - 1000, "expired early"
                break
            equal(v, b"v")
            assert not late, "not expired %d ms after its time" % (time.time() * 1000 - now - 2000)
            time.sleep(0.01)
        equal(c.cmd("SET", "e0", "new"), "OK")
        equal(c.cmd("GET", "e0"), b"new", "overwritten")
        equal(c.cmd("DEL", "e1"), 1)
        equal(c.cmd("GET", "e1"), None, "deleted")
        equal(c.cmd("PEXPIRE", "e2", "600000"), 1)
        equal(c.cmd("GET", "e2"), value_of(2, 1000))
        assert 0 < c.cmd("TTL", "e2") <= 600
        equal(c.cmd("PEXPIREAT", "e3", "1"), 1)
        equal(c.cmd("GET", "e3"), None, "expired at once")
        is_in("not an integer", c.cmd("INCR", "e4"))
        equal(c.cmd("GET", "e4"), value_of(4, 1000), "after a failed INCR")
        equal(c.cmd("FLUSHALL"), "OK")
        equal(c.cmd("MGET", "e5", "e6"), [None, None], "flushed")


def test_offload_of_memory(ctx):
    """What the host has in memory it answers itself, unless all is to be offloaded."""
    by_turns(4)
    if ctx.mode == "monolith":
        raise Skip("nothing is offloaded")
    for offload in ("on", "all"):
        node = ctx.server(offload=offload, sync="always")  # on the device when acknowledged
        with node, node.conn() as c:
            keys = ["m%d" % i for i in range(20)]
            for k in keys:
                equal(c.cmd("SET", k, "v"), "OK")
            if offload == "all":
                on_device(node, c, keys)
            else:
                for _ in range(5):
                    for k in keys:
                        equal(c.cmd("GET", k), b"v")
                time.sleep(1.1)  # the figures come twice a second
                equal(int(node.info("offloaded")), 0, "offloaded what is in memory")
                fill(c, 640, 64 * 1024)
                on_device(node, c, keys)
            equal(node.stop(), 0)


def test_compaction(ctx):
    """Overwriting several times the device's size keeps working, and nothing is lost."""
    by_turns(1)
    rng = ctx.rng()
    node = ctx.server(size="192M")
    with node, node.conn() as c:
        model = {}
        total = (2500 if NIGHTLY else 300) * MIB
        while total > 0:
            batch = []
            for _ in range(32):
                k = b"c%d" % rng.randrange(600)
                v = b"%d:" % rng.getrandbits(60) + b"z" * rng.randrange(150000)
                model[k] = v
                total -= len(v)
                batch.append(encode("SET", k, v))
            c.raw(b"".join(batch))
            for _ in batch:
                equal(c.reply(), "OK", "under compaction")
            k = rng.choice(list(model))
            equal(c.cmd("GET", k), model[k], "%r while compacting" % k)
        for k, v in model.items():
            assert c.cmd("GET", k) == v, "%r is wrong" % k
        assert int(node.info("log_compactions")) > 0
        equal(c.cmd("DBSIZE"), len(model))
        equal(node.stop(), 0, "exit status")
        node.start()
        with node.conn() as again:
            equal(again.cmd("DBSIZE"), len(model), "after the restart")
            for k, v in model.items():
                assert again.cmd("GET", k) == v, "%r is wrong after the restart" % k


def test_full_device(ctx):
    """Without space writes get an error, reads continue, deletes make room again."""
    by_turns(3)
    if ctx.mode == "monolith":
        raise Skip("its files share a file system with everything else")
    node = ctx.server(size="160M")
    with node, node.conn() as c:
        stored = []
        while len(stored) < 400:
            k = b"u%d" % len(stored)
            r = c.cmd("SET", k, value_of(len(stored), MIB))
            if isinstance(r, Error):
                is_in("no space", r)
                break
            stored.append(k)
        assert 40 < len(stored) < 400, "%d MiB fitted" % len(stored)
        for i, k in enumerate(stored):
            assert c.cmd("GET", k) == value_of(i, MIB), "%r while full" % k
        is_in("no space", c.cmd("SET", "more", value_of(0, MIB)))
        equal(node.log().count("img': writes are refused"), 1, "lines about it")
        equal(node.info("log_write_status"), "full")
        equal(c.cmd("DEL", *stored[:len(stored) // 2]), len(stored) // 2, "DEL while full")
        end = time.monotonic() + WAIT
        while isinstance(c.cmd("SET", "more", value_of(0, MIB)), Error):
            assert time.monotonic() < end, "deleting made no room"
            time.sleep(0.05)
        while node.info("log_write_status") != "ok":
            assert time.monotonic() < end, "still full"
            time.sleep(0.05)
        equal(node.log().count("writes are accepted again"), 1, "lines about the end of it")
        equal(node.stop(), 0, "exit status")
        node.start()
        with node.conn() as again:
            for i, k in enumerate(stored):
                expected = None if i < len(stored) // 2 else value_of(i, MIB)
                assert again.cmd("GET", k) == expected, "%r after the restart" % k
            equal(again.cmd("FLUSHALL"), "OK")
            equal(again.cmd("SET", "last", "v"), "OK")


# ---- Life and death ----

def test_restart(ctx):
    """What was written is there after SIGTERM, SHUTDOWN and, under sync always, kill -9."""
    by_turns(0)
    node = ctx.server(sync="always")
    far = int(time.time()) + 100000
    with node:
        with node.conn() as c:
            equal(c.cmd("MSET", "a", "1", "b", "2", "c", "3"), "OK")
            equal(c.cmd("SET", "t", "v", "EXAT", far), "OK")
            equal(c.cmd("SET", "gone", "v", "PX", "1"), "OK")
            equal(c.cmd("DEL", "b"), 1)
            c.cmd("SELECT", "5")
            equal(c.cmd("SET", "five", "5"), "OK")
        equal(node.stop(), 0, "SIGTERM")
        node.start()
        with node.conn() as c:
            equal(c.cmd("MGET", "a", "b", "c", "gone"), [b"1", None, b"3", None])
            assert 99000 < c.cmd("TTL", "t") <= 100000
            equal(c.cmd("INCR", "a"), 2)
            c.cmd("SELECT", "5")
            equal(c.cmd("GET", "five"), b"5")
            c.send("SHUTDOWN")
            equal(c.eof(), b"", "SHUTDOWN")
        equal(node.wait(), 0, "SHUTDOWN's exit status")
        node.start()
        with node.conn() as c:
            equal(c.cmd("GET", "a"), b"2")
            for i in range(50):
                equal(c.cmd("SET", "n%d" % i, "x" * i * 100), "OK")
            for pid in reversed(node.pids()):  # the supervisor last
                if pid != node.process.pid or ctx.mode != "two":
                    os.kill(pid, 9)
            node.process.kill()
            node.wait()
        node.start()
        with node.conn() as c:
            for i in range(50):
                equal(c.cmd("GET", "n%d" % i), b"x" * i * 100, "after kill -9")
            equal(c.cmd("GET", "a"), b"2")
            equal(c.cmd("FLUSHALL"), "OK")
        equal(node.stop(), 0)
        node.start()
        with node.conn() as c:
            equal(c.cmd("DBSIZE"), 0, "flushed for good")


def test_drain(ctx):
    """SIGTERM while clients pipeline: each gets whole replies, then the end; nothing is lost."""
    node = ctx.server(sync="always")
    with node:
        done = []

        def client(n):
            acked = -1
            with node.conn() as c:
                try:
                    for i in range(100000):
                        if c.cmd("SET", "d%d" % n, "%d" % i) != "OK":
                            break
                        acked = i
                except Closed:
                    pass
            done.append((n, acked))
        threads = [threading.Thread(target=client, args=(n,)) for n in range(8)]
        for t in threads:
            t.start()
        with node.conn() as c:
            while int(c.cmd("GET", "d0") or 0) < 20:
                time.sleep(0.01)
        equal(node.stop(), 0, "exit status")
        for t in threads:
            t.join()
        node.start()
        with node.conn() as c:
            for n, acked in done:
                assert int(c.cmd("GET", "d%d" % n)) in (acked, acked + 1), "client %d" % n


def test_hangup(ctx):
    """The terminal closes: as SIGTERM, also when only the first process hears of it."""
    no_threads()
    node = ctx.server(sync="none")
    with node:
        with node.conn() as c:
            equal(c.cmd("SET", "k", "v"), "OK")
        node.process.send_signal(signal.SIGHUP)
        equal(node.wait(), 0, "exit status")
        node.start()
        with node.conn() as c:
            equal(c.cmd("GET", "k"), b"v")
            for pid in node.pids():
                os.kill(pid, signal.SIGHUP)
        equal(node.wait(), 0, "exit status, SIGHUP to all processes")


def run_once(ctx, node, *extra):
    r = subprocess.run(node.args(extra), capture_output=True, text=True, timeout=WAIT, check=False,
                       env=node.environment())
    return r.returncode, r.stdout, r.stderr


def test_start_errors(ctx):
    """Each mistake ends in one clear line and an exit status that is not 0."""
    by_turns(2)
    no_threads()
    node = ctx.server()
    code, out, _ = run_once(ctx, node, "--help")
    equal(code, 0, "--help")
    for name in ("--listen", "--file", "--sync", "--monolith", "--stats", "--metrics"):
        is_in(name, out)
    for line in out.splitlines():
        assert len(line) <= 100 or line.startswith("Usage:"), line

    def fails(message, *extra, at=node):
        code, _, err = run_once(ctx, at, *extra)
        assert code != 0, "%r exited with 0" % (extra,)
        is_in(message, err)
        assert "  error:" not in err and "no such file, directory" not in err, err
        assert len(err.splitlines()) <= 8, err
    fails("--nonsense", "--nonsense")
    fails("--size", "--size", "12")
    fails("--sync", "--sync", "sometimes")
    fails("power of two", "--segment", "17000000")
    fails("--listen", "--listen", "nowhere")
    fails("--metrics", "--metrics", "nowhere")
    fails("--hash-seed", "--hash-seed", "0" * 31 + "g")
    if ctx.mode == "two":
        fails("--socket", "--socket", "s" * 108)
    busy = socket.socket()
    busy.bind(("127.0.0.1", 0))
    busy.listen(1)
    fails("cannot listen on", "--listen", "127.0.0.1:%d" % busy.getsockname()[1])
    busy.close()
    fails("no/such", *(["--dir", "/no/such/directory/d"] if ctx.mode == "monolith" else
                       ["--file", "/no/such/directory/img"]))
    few = subprocess.run(node.args(), stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                         stderr=subprocess.PIPE, timeout=WAIT, env=node.environment(),
                         preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (40, 40)))
    assert few.returncode != 0, "served with 40 descriptors"
    is_in(b"ulimit -n", few.stderr)
    with node:
        second = free_port()
        # two processes: its own socket, so that it comes as far as the file
        extra = ["--listen", "127.0.0.1:%d" % second]
        if ctx.mode != "monolith":
            extra += ["--socket", os.path.join(node.directory, "other.sock")]
        fails("in use", *extra)
        with node.conn() as c:
            equal(c.cmd("PING"), "PONG", "after a second one has tried")
    if ctx.mode != "monolith":
        spoilt = ctx.server()
        try:
            fails("it needs 80 MiB at least (--size)", "--size", "79M", at=spoilt)
            fails("needs 4112 MiB at least (--size)", "--segment", "1G", "--size", "4G", at=spoilt)
            assert not os.path.exists(os.path.join(spoilt.directory, "img")), "an image too small"
            path = os.path.join(spoilt.directory, "notes.tar")
            for data in (os.urandom(MIB), os.urandom(100)):
                with open(path, "wb") as f:
                    f.write(data)
                fails("it is left as it is", "--file", path, at=spoilt)
                with open(path, "rb") as f:
                    assert f.read() == data, "a file of another program was changed"
            spoilt.start()
            equal(spoilt.stop(), 0)
            path = os.path.join(spoilt.directory, "img")
            size = os.path.getsize(path)
            spoilt.options["size"] = "512M"  # of new images only
            spoilt.start()
            equal(spoilt.stop(), 0)
            equal(os.path.getsize(path), size, "an image has grown")
            is_in("img' has 256 MiB: --size is ignored, it is for new images only", spoilt.log())
            equal(spoilt.log().count("--size is ignored"), 1, "lines about the size")
            os.truncate(path, size // 2)
            code, _, err = run_once(ctx, spoilt)
            assert code != 0, "half an image was served"
            is_in("truncated", err)
            equal(os.path.getsize(path), size // 2, "half an image has grown")
            with open(path, "r+b") as f:
                f.seek(0)
                f.write(b"\xff" * 65536)
            code, _, err = run_once(ctx, spoilt)
            assert code != 0, "a spoilt image was served"
            is_in("img", err)
            with open(path, "r+b") as f:  # its end, too, is gone: tables and data are left
                f.write(bytes(MIB))
            fails("it is left as it is", at=spoilt)
        finally:
            spoilt.destroy()
    node.destroy()


def test_read_only_file_system(ctx):
    """A server whose files cannot be written is refused, and the message has the reason."""
    no_threads()
    if ctx.mode == "two" or shutil.which("unshare") is None:
        raise Skip("as in a single process")
    node = ctx.server()
    try:
        node.start()
        with node.conn() as c:
            equal(c.cmd("SET", "a", "b"), "OK")
        equal(node.stop(), 0)
        mount = 'mount --bind "$0" "$0" && mount -o remount,bind,ro "$0" || exit 77; exec "$@"'
        r = subprocess.run(["unshare", "-m", "sh", "-c", mount, node.directory, *node.args()],
                           stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=WAIT,
                           check=False, env=node.environment())
        if r.returncode in (1, 77) and "error:" not in r.stderr:
            raise Skip("a mount namespace is refused here: " + r.stderr)
        assert r.returncode == 1, r
        is_in("ead-only file system", r.stderr)
    finally:
        node.destroy()


def test_fsck(ctx):
    """snic_fsck distinguishes an image from other data, names the file, and changes neither."""
    no_threads()
    if ctx.mode == "monolith":
        raise Skip("it has no image")
    program = os.path.join(os.path.dirname(ctx.binary), "snic_fsck")
    if not os.path.exists(program):
        raise Skip("snic_fsck is not built")

    def run(*args):
        r = subprocess.run([program, *args], capture_output=True, text=True, timeout=WAIT,
                           check=False)
        return r.returncode, r.stdout, r.stderr
    code, out, err = run("--help")
    equal((code, err), (0, ""), "--help")
    is_in("Exit code", out)
    node = ctx.server()
    try:
        image = os.path.join(node.directory, "img")
        node.start()
        with node.conn() as c:
            equal(c.cmd("SET", "k", "v"), "OK")
        equal(run(image),
              (8, "", "snic_fsck: %s: in use by another process: stop it first\n" % image))
        equal(node.stop(), 0)
        code, out, err = run("--list", image)
        equal((code, err), (0, ""), "a whole image")
        is_in("clean", out)
        is_in("file log-", out)
        assert "no valid" not in out, out
        other = os.path.join(node.directory, "other")
        with open(other, "wb") as f:
            f.write(os.urandom(MIB))
        equal(run(other), (8, "", "snic_fsck: %s: not an image of the file service\n" % other))
        none = os.path.join(node.directory, "none")
        equal(run(none), (8, "", "snic_fsck: %s: No such file or directory\n" % none))
    finally:
        node.destroy()


def test_figures(ctx):
    """--stats lines are name=value pairs; --metrics is a page Prometheus reads."""
    port = free_port()
    node = ctx.server(stats="1", metrics="127.0.0.1:%d" % port)
    with node, node.conn() as c:
        equal(c.cmd("SET", "k", "v"), "OK")
        end = time.monotonic() + WAIT
        while node.out().count("\n") < 2:
            assert time.monotonic() < end, "no statistics"
            time.sleep(0.1)
        for line in node.out().splitlines():
            pairs = [w for w in line.split() if "=" in w]
            assert len(pairs) >= 3, line  # a host that is not attached yet has few
            for p in pairs:
                name, value = p.split("=", 1)
                assert name.replace("_", "").isalnum(), line
                float(value)
        with urllib.request.urlopen("http://127.0.0.1:%d/metrics" % port, timeout=WAIT) as r:
            page = r.read().decode()
        values = 0
        for line in page.splitlines():
            if line.startswith("#") or not line:
                continue
            name, value = line.rsplit(" ", 1)
            float(value)
            values += 1
            is_in("# TYPE %s " % name.split("{")[0], page)
            is_in("# HELP %s " % name.split("{")[0], page)
        assert values > 10, page
        for path, status in (("/", 200), ("/metrics?x=1", 200), ("/metric", 404), ("/x/", 404)):
            try:
                with urllib.request.urlopen("http://127.0.0.1:%d%s" % (port, path),
                                            timeout=WAIT) as r:
                    equal(r.status, status, path)
            except urllib.error.HTTPError as e:
                equal(e.code, status, path)
        equal(node.stop(), 0)


def sigkill(node, role):
    pid = node.role_pid(role)
    assert pid, "no %s role:\n%s" % (role, node.log())
    os.kill(pid, 9)
    return pid


def wait_role(node, role, old):
    end = time.monotonic() + WAIT
    while node.role_pid(role) in (0, old):
        assert time.monotonic() < end, "the %s role is not started again:\n%s" % (role, node.log())
        time.sleep(0.01)


def test_host_killed(ctx):
    """The DPU answers what is on the device, the rest is an error until the host is back."""
    if ctx.mode != "two":
        raise Skip("one process")
    node = ctx.server(sync="always")
    with node, node.conn() as c:
        keys = ["h%d" % i for i in range(20)]
        for i, k in enumerate(keys):
            equal(c.cmd("SET", k, value_of(i, 5000)), "OK")
        fill(c, 640, 64 * 1024)
        on_device(node, c, keys)
        equal(c.cmd("SET", "fresh", "acknowledged"), "OK")
        host = node.role_pid("host")
        os.kill(host, 19)  # stopped: it cannot die before the supervisor is stopped too
        os.kill(node.process.pid, 19)
        os.kill(host, 9)
        while True:  # the DPU notices by itself
            r = c.cmd("SET", "x", "y")
            if isinstance(r, Error):
                is_in("LOADING", r)
                break
        for i, k in enumerate(keys):
            equal(c.cmd("GET", k), value_of(i, 5000), "without the host")
        is_in("LOADING", c.cmd("PING"))
        os.kill(node.process.pid, 18)
        wait_role(node, "host", host)
        node.wait_ready()
        equal(c.cmd("GET", "fresh"), b"acknowledged")
        for i, k in enumerate(keys):
            equal(c.cmd("GET", k), value_of(i, 5000), "with the new host")
        equal(c.cmd("SET", keys[0], "new"), "OK")
        equal(c.cmd("GET", keys[0]), b"new")
        on_device(node, c, keys[1:])  # its walk fills the DPU's table again
        equal(node.stop(), 0)


def test_dpu_killed(ctx):
    """Clients see the connection end; the host re-attaches with what it holds in memory."""
    by_turns(6)
    if ctx.mode != "two":
        raise Skip("one process")
    for sync in ("always", "none"):
        node = ctx.server(sync=sync)
        with node:
            c = node.conn()
            for i in range(200):
                equal(c.cmd("SET", "k%d" % i, value_of(i, 3000)), "OK")
            pid = sigkill(node, "dpu")
            try:
                for _ in range(1000):
                    c.cmd("GET", "k0")
                raise AssertionError("the connection outlived its process")
            except (Closed, OSError):
                pass
            wait_role(node, "dpu", pid)
            node.wait_ready()
            with node.conn() as again:
                for i in range(200):
                    equal(again.cmd("GET", "k%d" % i), value_of(i, 3000), "sync %s" % sync)
                fill(again, 640, 64 * 1024)
                on_device(node, again, ["k%d" % i for i in range(10)])
            equal(node.stop(), 0)


def test_less_than_before(ctx):
    """Smaller segments or fewer databases than the log has would lose keys: refused."""
    by_turns(5)
    no_threads()
    node = ctx.server(segment="32M", size="512M")
    try:
        node.start()
        with node.conn() as c:
            fill(c, 400, 64 * 1024)  # beyond the first 16 MiB
            equal(c.cmd("SELECT", 5), "OK")
            equal(c.cmd("SET", "five", "5"), "OK")
        equal(node.stop(), 0)
        for name, value in (("segment", "16M"), ("databases", "5")):
            code, _, err = run_once(ctx, node, "--" + name, value)
            assert code != 0, "served with --%s %s" % (name, value)
            is_in("--" + name, err)
        node.options.update(segment="64M", databases=6)
        node.start()
        with node.conn() as c:
            for i in range(400):
                equal(c.cmd("GET", "f%d" % i), value_of(i, 64 * 1024))
            equal(c.cmd("SELECT", 5), "OK")
            equal(c.cmd("GET", "five"), b"5")
            equal(c.cmd("FLUSHALL"), "OK")
        equal(node.stop(), 0)
        node.options["databases"] = 2  # nothing of the others is left
        node.start()
        equal(node.stop(), 0)
    finally:
        node.destroy()


def fake_host(path):
    """A process that is no host takes the place of one: the socket of its link."""
    hello = struct.pack("<IHHIIQQQQ", 0x616d4453, 1, 1, 0, 0, 0, 0, 0, 0)
    end = time.monotonic() + WAIT
    while time.monotonic() < end:
        s = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        s.settimeout(WAIT)
        s.connect(path)
        s.send(hello)
        answer = s.recv(512)  # the descriptors that come along are not taken
        if len(answer) == len(hello):
            return s
        s.close()  # the one before is not gone yet
        time.sleep(0.01)
    raise AssertionError("never taken for a host")


def test_strange_hosts(ctx):
    """A peer that takes the host's place and is cut off, or is silent, loses it to a real one."""
    by_turns(7)
    if ctx.mode != "two":
        raise Skip("one process")
    node = ctx.server(sync="always")
    with node:
        with node.conn() as c:
            equal(c.cmd("SET", "k", "v"), "OK")
        for behave in ("close", "nonsense", "silence"):
            host = node.role_pid("host")
            os.kill(node.process.pid, 19)  # no new host yet
            os.kill(host, 9)
            s = fake_host(os.path.join(node.directory, "img.sock"))
            if behave == "close":
                s.close()
            elif behave == "nonsense":
                s.send(b"nonsense")
            os.kill(node.process.pid, 18)
            wait_role(node, "host", host)
            node.wait_ready()  # this process, which is the fake host, stays
            with node.conn() as c:
                equal(c.cmd("GET", "k"), b"v", behave)
            s.close()
        equal(node.stop(), 0)


TESTS = [v for k, v in list(globals().items()) if k.startswith("test_")]


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
        except Tonight:
            result = "left to the night"
        except Skip as e:
            result = "skipped: %s" % e
        except Exception:  # whatever it was, the others run
            traceback.print_exc()
            if ctx.shared is not None:
                print(ctx.shared.log(), file=sys.stderr)
            failed += 1
            result = "FAILED"
        print("%-20s %6.2f s  %s" % (name, time.monotonic() - began, result), flush=True)
        if result == "FAILED" and ctx.shared is not None:
            ctx.shared.destroy()
            ctx.shared = None
    if ctx.shared is not None:
        try:
            if ctx.shared.stop() != 0:
                failed += 1
                print("the shared server did not end well\n" + ctx.shared.log())
        finally:
            ctx.shared.destroy()
    return 1 if failed else 0 if ran else 77


if __name__ == "__main__":
    sys.exit(main())
