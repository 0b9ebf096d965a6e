#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Mixed load on kv_server while a random role is killed every few seconds.

    kv_kill.py BINARY [--seconds N] [--every S] [--seed N] [--roles dpu,host] [--offload on|all|off]
               [--qos off|gimbal]

Every key has one writer, which writes growing numbers under --sync always, and any number of
readers: a register. A read must give at least the newest number acknowledged before it was
sent, and at most the newest number sent before its answer came; and readers of a key, one
after the other, never go back. In the end every key must hold a number from the newest
acknowledged to the newest sent. Nothing may hang, memory and descriptors stay flat.
"""
import os
import random
import socket
import sys
import threading
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.realpath(__file__)), "../../support"))
from kvnode import WAIT, Closed, Error, Server, encode, fd_count, rss_kib  # noqa: E402

WRITERS, READERS, KEYS, DEPTH = 3, 3, 400, 16


class Register:
    """What is known of one key. Its values are its numbers; every 8th number is a deletion."""

    def __init__(self):
        self.sent = self.acked = self.seen = 0


def value_of(number, size):
    return b"%d:" % number + b"v" * size


class Load:
    def __init__(self, node, seed):
        self.node, self.seed = node, seed
        self.lock = threading.Lock()
        self.stop = False
        self.registers = [Register() for _ in range(KEYS)]
        self.failures = []
        self.counts = {"writes": 0, "reads": 0, "refused": 0, "lost": 0}

    def fail(self, text):
        with self.lock:
            self.failures.append(text)
        self.stop = True

    def session(self, work, rng):
        """Run work(conn) on one connection after another."""
        while not self.stop:
            try:
                with self.node.conn(timeout=WAIT) as c:
                    while not self.stop:
                        work(c, rng)
            except socket.timeout:
                self.fail("no answer within %d s" % WAIT)
            except (Closed, OSError):
                with self.lock:
                    self.counts["lost"] += 1
                time.sleep(0.01)
            except AssertionError as e:
                self.fail(str(e))

    def write(self, c, rng, mine):
        """A pipeline of writes of keys of ours, each key once."""
        batch = rng.sample(mine, min(DEPTH, len(mine)))
        out, jobs = [], []
        for k in batch:
            r = self.registers[k]
            with self.lock:
                number = r.sent + 1
                r.sent = number
            if number % 8 == 0:
                out.append(encode("DEL", "r%d" % k))
            else:
                out.append(encode("SET", "r%d" % k, value_of(number, rng.randrange(30000))))
            jobs.append((r, number))
        c.raw(b"".join(out))
        for r, number in jobs:
            got = c.reply()
            if isinstance(got, Error):
                assert "LOADING" in got, "a write was answered: %s" % got
                with self.lock:
                    self.counts["refused"] += 1
                continue
            with self.lock:
                r.acked = max(r.acked, number)
                self.counts["writes"] += 1

    def check(self, k, got, floor, sent):
        """@p got was read of key k when `floor` was already known and `sent` was sent."""
        assert not isinstance(got, int), "r%d: %r" % (k, got)
        if isinstance(got, Error):
            assert "LOADING" in got, "a read was answered: %s" % got
            with self.lock:
                self.counts["refused"] += 1
            return
        if got is None:  # the newest deletion that may have been seen
            number = sent - sent % 8
            assert number >= floor or floor == 0, \
                "r%d is gone, but %d was acknowledged (sent %d)" % (k, floor, sent)
            return
        number = int(got.split(b":", 1)[0])
        assert number >= floor, "r%d is %d, older than %d" % (k, number, floor)
        assert number <= sent, "r%d is %d, only %d was sent" % (k, number, sent)
        with self.lock:
            self.registers[k].seen = max(self.registers[k].seen, number)

    def read(self, c, rng):
        """A pipeline of reads; several keys at once now and then."""
        jobs, out = [], []
        for _ in range(DEPTH):
            ks = [rng.randrange(KEYS) for _ in range(1 if rng.random() < 0.9 else 3)]
            with self.lock:
                floors = [max(self.registers[k].acked, self.registers[k].seen) for k in ks]
            jobs.append((ks, floors))
            out.append(encode("GET" if len(ks) == 1 else "MGET", *["r%d" % k for k in ks]))
        c.raw(b"".join(out))
        for ks, floors in jobs:
            got = c.reply()
            with self.lock:
                sent = [self.registers[k].sent for k in ks]
                self.counts["reads"] += 1
            if isinstance(got, Error) or len(ks) == 1:
                got = [got] * len(ks)
            for k, g, f, s in zip(ks, got, floors, sent):
                self.check(k, g, f, s)

    def threads(self):
        out = []
        for w in range(WRITERS):
            mine = list(range(w, KEYS, WRITERS))
            rng = random.Random(self.seed * 100 + w)
            out.append(threading.Thread(target=self.session, daemon=True, args=(
                lambda c, g, m=mine: self.write(c, g, m), rng)))
        for i in range(READERS):
            rng = random.Random(self.seed * 100 + 50 + i)
            out.append(threading.Thread(target=self.session, daemon=True, args=(self.read, rng)))
        return out

    def final(self):
        with self.node.conn() as c:
            for k, r in enumerate(self.registers):
                self.check(k, c.cmd("GET", "r%d" % k), max(r.acked, r.seen), r.sent)


def usage(node):
    """Memory of the supervisor and the larger descriptor count: the roles come and go."""
    pids = node.pids()
    return sum(rss_kib(p) for p in pids), sum(fd_count(p) for p in pids)


def option(name, default):
    if name in sys.argv:
        at = sys.argv.index(name)
        value = sys.argv[at + 1]
        del sys.argv[at:at + 2]
        return type(default)(value)
    return default


def run(node, load, seconds, every, roles, rng):
    """Kill and watch; what was used after the first and after the last recovery."""
    for t in load.threads():
        t.start()
    end = time.monotonic() + seconds
    kills, figures = 0, []
    while time.monotonic() < end and not load.stop:
        time.sleep(every * (0.5 + rng.random()))
        role = rng.choice(roles)
        pid = node.role_pid(role)
        if pid:
            os.kill(pid, 9)
            kills += 1
        time.sleep(min(0.5, every / 4))
        node.wait_ready()
        with load.lock:
            before = load.counts["writes"] + load.counts["reads"]
        limit = time.monotonic() + WAIT
        while not load.stop:  # the load continues by itself
            with load.lock:
                if load.counts["writes"] + load.counts["reads"] > before + 500:
                    break
            if time.monotonic() > limit:
                load.fail("no progress after the %s role was killed" % role)
            time.sleep(0.02)
        figures.append(usage(node))
        if node.process.poll() is not None:
            load.fail("the supervisor ended")
    load.stop = True
    return kills, figures


def main():
    seed = option("--seed", int.from_bytes(os.urandom(4), "little"))
    nightly = os.environ.get("SNIC_NIGHTLY", "") not in ("", "0")
    seconds = option("--seconds", 20.0 if nightly else 10.0)
    every = option("--every", 2.0 if nightly else 1.0)
    roles = option("--roles", "dpu,host").split(",")
    offload = option("--offload", "all")
    qos = option("--qos", "off")
    rng = random.Random(seed)
    print("seed %d, %g s, a kill every %g s of %s" % (seed, seconds, every, roles), flush=True)
    node = Server(sys.argv[1], "two", sync="always", size="512M", offload=offload, qos=qos)
    status = 1
    try:
        node.start()
        load = Load(node, seed)
        kills, figures = run(node, load, seconds, every, roles, rng)
        if not load.failures:
            node.wait_ready()
            load.final()
            half = max(1, len(figures) // 2)
            early = max(f[0] for f in figures[:half])
            late = max(f[0] for f in figures[half:] or figures)
            if late > early * 1.5 + 65536:
                load.failures.append("memory grew from %d to %d KiB" % (early, late))
            early = max(f[1] for f in figures[:half])
            late = max(f[1] for f in figures[half:] or figures)
            if late > early + 16:
                load.failures.append("descriptors grew from %d to %d" % (early, late))
            share = node.info("offloaded_share")
            if node.stop() != 0:
                load.failures.append("the end was not orderly")
            print("%d kills, %s, offloaded share since the last one %s, last use %d KiB %d fds" % (
                kills, load.counts, share, figures[-1][0], figures[-1][1]))
        for f in load.failures:
            print("FAILED: " + f)
        status = 1 if load.failures else 0
    finally:
        if status:
            print(node.log()[-4000:])
        node.destroy()
    return status


if __name__ == "__main__":
    sys.exit(main())
