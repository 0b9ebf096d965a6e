#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Random commands on kv_server and on a real redis-server: the replies are the same bytes.

    test_kv_diff.py BINARY MODE [--seed N] [--count N]

The exceptions, all in same(): times that are answered (TTL, OBJECT IDLETIME) may differ by the
time between the two; SCAN's cursors and the order of SCAN and KEYS are each server's own, so whole
scans are compared as sets; RANDOMKEY answers any key; MEMORY USAGE is each server's own; DUMP of
what Redis compresses is another string of the same meaning, which the other server restores;
RESTORE of another type than a string is an error here; errors inside of a script have other texts;
OBJECT REFCOUNT does not know of copies. More than 1048576 arguments are an error here. Exit code
77 without redis-server.
"""
import collections
import hashlib
import os
import random
import shutil
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.realpath(__file__)), "../../support"))
from kvscripts import SEVERAL, SINGLE  # noqa: E402
from kvnode import WAIT, Closed, Conn, Server, encode, free_port  # noqa: E402

NIGHTLY = os.environ.get("SNIC_NIGHTLY", "") not in ("", "0")
NUMBERS = ["0", "1", "-1", "10", "007", "+5", "", " 1", "1.5", "abc", "9223372036854775807",
           "-9223372036854775808", "9223372036854775808", "99999999999999999999", "1e3"]
FAR = ["10000000", "100000000", "5000000"]  # nothing shall expire during the run


class Raw(Conn):
    """Replies as the bytes they are."""

    def raw_reply(self):
        line = self.line()
        out = line + b"\r\n"
        if line[:1] == b"$" and line != b"$-1":
            out += self.bulk(int(line[1:])) + b"\r\n"
        elif line[:1] == b"=":
            out += self.bulk(int(line[1:])) + b"\r\n"
        elif line[:1] in b"*%~>" and line != b"*-1":
            for _ in range(int(line[1:]) * (2 if line[:1] == b"%" else 1)):
                out += self.raw_reply()
        return out


class Redis:
    def __init__(self):
        binary = shutil.which("redis-server")
        if binary is None:
            print("skipped: redis-server is not installed")
            sys.exit(77)
        self.directory = tempfile.mkdtemp(prefix="kvdiff.")
        self.port = free_port()
        self.process = subprocess.Popen([binary, "--port", str(self.port), "--save", "",
                                         "--proto-max-bulk-len", "8mb", "--dir",
                                         self.directory], stdout=subprocess.DEVNULL)
        end = time.monotonic() + WAIT
        while True:
            try:
                Raw(self.port).close()
                return
            except OSError:
                assert time.monotonic() < end and self.process.poll() is None, "no redis-server"
                time.sleep(0.02)

    def destroy(self):
        self.process.kill()
        self.process.wait()
        shutil.rmtree(self.directory, ignore_errors=True)


KEYS = (["k%d" % i for i in range(30)] + [""] + ["k:%d" % i for i in range(5)] +
        [b"\x00\xff\r\n", "a b"])


class Maker:
    """Random commands, most of them meaningful."""

    def __init__(self, rng):
        self.rng = rng
        self.pending = []  # of a transaction
        self.payloads = [b"", b"x"]  # of DUMP, both servers'; see same()

    def number(self):
        r = self.rng
        return r.choice([str(r.randrange(-30, 30)), str(r.randrange(-30, 30)), r.choice(NUMBERS)])

    def float(self):
        r = self.rng
        return r.choice([repr(r.uniform(-100, 100)), "%d" % r.randrange(-9, 9),
                         "1e%d" % r.randrange(-30, 40), "0x1p%d" % r.randrange(-70, 70), "inf",
                         "-inf", "nan", " 1", "1 ", "", "3.", ".5", "-0", "1e5000", "1e-5000",
                         "99999999999999999999.5", "1.7976931348623157e308"])

    def payload(self):
        r = self.rng
        p = bytearray(r.choice(self.payloads))
        if r.random() < 0.2 and p:  # broken: mostly by its checksum
            p[r.randrange(len(p))] ^= 1 << r.randrange(8)
        if r.random() < 0.05:
            p += b"x"
        return bytes(p)

    def restore(self):
        r = self.rng
        options = r.choice([[], [], ["replace"], ["replace"], ["replace", "absttl"],
                            ["idletime", r.choice(["0", "100", "-1", "x"])],
                            ["freq", r.choice(["0", "255", "256", "-1", "x"])],
                            ["idletime", "1", "freq", "1"], ["nope"], ["freq"]])
        ttl = r.choice(["0", "0", "5000000", "-1", "x", "9223372036854775807"])
        if "absttl" in options:
            ttl = r.choice(["0", "5", str(int(time.time() * 1000) + 9000000)])
        return ["restore", self.key(), ttl, self.payload()] + [
            self.case(o) if isinstance(o, str) else o for o in options]

    def getex(self):
        r = self.rng
        now = int(time.time()) + r.choice([-100, 5000])
        return ["getex", self.key()] + r.choice([
            [], ["persist"], ["persist"], ["ex", r.choice(FAR)], ["px", r.choice(FAR)],
            ["exat", str(now)], ["pxat", str(now * 1000)], ["ex", r.choice(["0", "-1", "x", ""])],
            ["ex"], ["nx"], ["keepttl"], ["persist", "ex", "1000000"], ["get"],
            ["ex", "1000000", "px", "1"], ["ex", "5", "ex", "5000000"]])

    def lcs(self):
        r = self.rng
        options = []
        for _ in range(r.choice([0, 0, 1, 1, 2, 3])):
            options += r.choice([["len"], ["idx"], ["idx"], ["withmatchlen"],
                                 ["minmatchlen", r.choice(["0", "1", "2", "-1", "x"])],
                                 ["minmatchlen"], ["nope"]])
        return ["lcs", self.key(), self.key()] + [self.case(o) for o in options]

    def eval(self):
        r = self.rng
        if r.random() < 0.7:
            text, keys = r.choice(SINGLE), [self.key()]
        else:
            text, keys = r.choice(SEVERAL), [self.key() for _ in range(r.randrange(4))]
        value = r.choice([self.value(), "held", "held", "held"])
        args = [value, r.choice(FAR + ["0", "-5", "x"]), r.choice(["0", "1"])]
        if r.random() < 0.4:  # so that there is something to hold
            return ["set", self.key(), "held"] + r.choice([[], ["px", r.choice(FAR)]])
        name = hashlib.sha1(text.encode()).hexdigest()
        return r.choice([["eval", text, str(len(keys))] + keys + args] * 3 +
                        [["evalsha", r.choice([name, name.upper()]), str(len(keys))] + keys + args,
                         ["script", "load", text], ["script", "exists", name, "x"],
                         ["script", "flush"] + r.choice([[], ["sync"], ["nope"]]),
                         ["eval", text, r.choice(["-1", "9", "x"]), "k"],
                         ["evalsha", "x", "0"], ["script", "kill"], ["script", "nope"]])

    def copy(self):
        r = self.rng
        return ["copy", self.key(), self.key()] + r.choice(
            [[], [], ["replace"], ["db", r.choice(["0", "1", "2", "16", "-1", "x", "3000000000"])],
             ["db", "1", "replace"], ["replace", "db", "2"], ["db"], ["nope"]])

    def key(self):
        return self.rng.choice(["k%d" % self.rng.randrange(30), "", "k:%d" % self.rng.randrange(5),
                                b"\x00\xff\r\n", "a b"][:1 if self.rng.random() < 0.9 else 5])

    def value(self):
        r = self.rng.random()
        if r < 0.4:
            return str(self.rng.randrange(-50, 50))
        if r < 0.6:
            return self.rng.choice(NUMBERS)
        if r < 0.62:
            return b"x" * self.rng.randrange(200000)
        return bytes(self.rng.randrange(256) for _ in range(self.rng.randrange(20)))

    def case(self, word):
        return "".join(c.upper() if self.rng.random() < 0.5 else c for c in word)

    def set_options(self):
        out = []
        for _ in range(self.rng.choice([0, 0, 0, 1, 1, 2, 3])):
            o = self.rng.choice(["nx", "xx", "get", "keepttl", "ex", "px", "exat", "pxat", "bogus"])
            out.append(self.case(o))
            if o in ("ex", "px"):
                out.append(self.rng.choice(FAR * 4 + NUMBERS))
                if out[-1] in ("1", "10"):  # would expire meanwhile, here or there first
                    out[-1] = "7000000"
            elif o in ("exat", "pxat"):
                now = int(time.time()) + self.rng.choice([-100, 5000])
                out.append(self.rng.choice([str(now * (1000 if o == "pxat" else 1)), "abc", "0"]))
        return out

    def expire(self):
        name = self.rng.choice(["expire", "pexpire", "expireat", "pexpireat"])
        if name.endswith("at"):
            now = int(time.time()) + self.rng.choice([-100, 5000, 9000])
            when = str(now * (1000 if name[0] == "p" else 1))
        else:
            when = self.rng.choice(["5000000", "100000000", "-5", "0"])
        if self.rng.random() < 0.2:
            when = self.rng.choice([n for n in NUMBERS if n not in ("1", "10")])
        flags = [self.case(self.rng.choice(["nx", "xx", "gt", "lt", "zz", "\r\nz\r\n"]))
                 for _ in range(self.rng.choice([0, 0, 0, 1, 2]))]
        return [self.case(name), self.key(), when] + flags

    def transaction(self):
        """MULTI, what has the same reply on both sides, and an end."""
        r = self.rng
        exact = ("get set mget mset del exists incr decr incrby append setrange getrange strlen "
                 "type persist expire touch rename renamenx copy move getdel lcs swapdb select "
                 "msetnx incrbyfloat setnx getset nosuch watch multi").split()
        self.pending.append(["multi"] + ["x"] * (r.random() < 0.05))
        for _ in range(r.randrange(5)):
            c = self.single()
            while str(c[0]).lower() not in exact:
                c = self.single()
            self.pending.append(c)
        self.pending.append([r.choice(["exec"] * 4 + ["discard", "unwatch"])])
        if self.pending[-1] == ["unwatch"]:
            self.pending.append(["exec"])
        return ["watch", self.key()] if r.random() < 0.3 else ["unwatch"]

    def command(self):
        if self.pending:
            return self.pending.pop(0)
        if self.rng.random() < 0.02:
            return self.transaction()
        if self.rng.random() < 0.01:
            return self.rng.choice([["exec"], ["exec", "x"], ["discard"], ["discard", "x"],
                                    ["unwatch"], ["unwatch", "x"], ["multi", "x"], ["watch"]])
        return self.single()

    def single(self):
        r = self.rng
        k, v = self.key, self.value
        many = range(r.randrange(1, 5))
        make = r.choice([
            lambda: ["get", k()], lambda: ["get", k()], lambda: ["set", k(), v()],
            lambda: ["set", k(), v()] + self.set_options(),
            lambda: ["set", k(), v()] + self.set_options(),
            lambda: ["mget"] + [k() for _ in many],
            lambda: ["mset"] + [f() for _ in many for f in (k, v)] + ([k()] * (r.random() < 0.1)),
            lambda: [r.choice(["del", "unlink"])] + [k() for _ in many],
            lambda: ["exists"] + [k() for _ in many],
            lambda: [r.choice(["incr", "decr"]), k()],
            lambda: [r.choice(["incrby", "decrby"]), k(), r.choice(NUMBERS)],
            lambda: ["setnx", k(), v()], lambda: ["getset", k(), v()],
            lambda: [r.choice(["setex", "psetex"]), k(), r.choice(["900000", "-1", "0", "a"]), v()],
            lambda: ["getdel", k()], self.getex, self.lcs, self.copy, self.eval,
            self.eval, self.restore, self.restore,
            lambda: ["append", k(), v()], lambda: ["append", k(), v()],
            lambda: ["setrange", k(), self.number(), v()],
            lambda: ["setrange", k(), r.choice(["8388607", "8388608", "9223372036854775807"]), v()]
            if r.random() < 0.02 else ["strlen", k()],
            lambda: [r.choice(["getrange", "substr"]), k(), self.number(), self.number()],
            lambda: ["incrbyfloat", k(), self.float()],
            lambda: ["msetnx"] + [f() for _ in many for f in (k, v)] + (
                [k()] * (r.random() < 0.1)),
            lambda: [r.choice(["expiretime", "pexpiretime"]), k()],
            lambda: [r.choice(["rename", "renamenx"]), k(), k()],
            lambda: ["move", k(), r.choice(["0", "1", "2", "16", "-1", "x"])],
            lambda: ["swapdb", r.choice("012"), r.choice(["0", "1", "2", "16", "-1", "x"])]
            if r.random() < 0.2 else ["touch"] + [k() for _ in many],
            lambda: ["dump", k()], lambda: ["dump", k()],
            lambda: ["object", self.case(r.choice(["encoding", "encoding", "refcount", "idletime",
                                                   "freq", "nope"])), k()],
            lambda: r.choice([["object"], ["object", "encoding"], ["memory", "usage", k()],
                              ["memory", "usage", k(), "samples", r.choice(["5", "-1", "x"])],
                              ["memory", "nope"], ["memory", "usage"], ["object", "help", "x"]]),
            lambda: ["keys", r.choice(["*", "k*", "k?", "k[1-3]*", "nothing", "[a", "\\"])],
            lambda: ["randomkey"],
            lambda: ["strlen", k()], lambda: ["type", k()], lambda: ["persist", k()],
            self.expire, self.expire,
            lambda: [r.choice(["ttl", "pttl"]), k()],
            lambda: ["dbsize"], lambda: ["ping"] + [v()] * r.randrange(3),
            lambda: ["echo"] + [v()] * r.choice([1, 1, 1, 0, 2]),
            lambda: ["select", r.choice(["0", "0", "1", "2", "16", "-1", "x"])],
            lambda: ["scan", r.choice(["x", "0 ", " 0", "99999999999999999999999"])],
            lambda: ["scan", "0"] + r.choice([["count"], ["count", "0"], ["count", "x"],
                                              ["match"], ["nope", "1"]]),
            lambda: ["config"], lambda: ["config", "nope"], lambda: ["config", "get"],
            lambda: ["config", "get", "databases"], lambda: ["command", "count", "x"],
            lambda: ["client", "setname", r.choice(["ab", "a b", ""])],
            lambda: ["client", "getname"],
            lambda: ["client"], lambda: ["client", "nope"], lambda: ["client", "id", "x"],
            lambda: ["client", "setname"], lambda: ["hello", "4"], lambda: ["hello", "x"],
            lambda: ["hello", "2", "bogus"],
            lambda: ["nosuch"] + [v() for _ in range(r.randrange(4))], lambda: ["no such", "x"],
            lambda: [r.choice(["get", "set", "mget", "mset", "del", "exists", "incr", "expire",
                               "ttl", "dbsize", "select", "type", "strlen", "setex",
                               "getset", "persist", "incrby", "append", "getrange", "getex",
                               "getdel",
                               "incrbyfloat", "lcs", "rename", "copy", "move", "swapdb", "dump",
                               "restore", "keys", "randomkey", "touch"])] + [k()] * r.randrange(3),
            lambda: [r.choice(["flushall", "flushdb"])] + r.choice(
                [[], ["async"], ["sync"], ["nope"], ["sync", "async"]]) if r.random() < 0.1
            else ["get", k()],
        ])
        c = make()
        if isinstance(c[0], str) and r.random() < 0.3:
            c[0] = self.case(c[0])
        return c


def parts(reply):
    """The elements of an array of bulk strings."""
    out, at = [], reply.index(b"\r\n") + 2
    while at < len(reply):
        end = reply.index(b"\r\n", at)
        n = int(reply[at + 1:end])
        out.append(reply[end + 2:end + 2 + n])
        at = end + 4 + n
    return out


def same_numbers(a, b, slack):
    x, y = int(a[1:]), int(b[1:])
    return x >= 0 and y >= 0 and abs(x - y) <= slack


class Judge:
    """Are the replies the same, but for what cannot be?"""

    def __init__(self, maker, ours, theirs):
        self.maker = maker
        self.ours = ours
        self.theirs = theirs

    def dumped(self, a, b):
        """What the other server restores is the same value."""
        text = [bytes(x[x.index(b"\r\n") + 2:-2]) for x in (a, b)]
        if len(self.maker.payloads) > 40:
            self.maker.payloads = self.maker.payloads[:2]
        self.maker.payloads += [t for t in text if len(t) < 100000]
        if len(text[0]) > 8 << 20:
            return True  # ours is not compressed, and longer than an argument may be
        got = []
        for conn, payload in ((self.ours, text[1]), (self.theirs, text[0])):
            assert conn.cmd("RESTORE", "of the judge", "0", payload) == "OK"
            got.append((conn.cmd("GET", "of the judge"), conn.cmd("DEL", "of the judge")))
        # Redis compresses from 21 bytes on.
        return got[0] == got[1] and (a == b or len(got[0][0]) > 20)

    def same(self, command, a, b):
        name = command[0].lower() if isinstance(command[0], str) else ""
        if name == "dump" and a[:1] == b[:1] == b"$" and a != b"$-1\r\n" != b:
            return self.dumped(a, b)
        if a == b:
            return True
        if name in ("ttl", "expiretime", "pttl", "pexpiretime") and a[:1] == b[:1] == b":":
            return same_numbers(a, b, 60000 if name[0] == "p" else 60)
        if name == "object" and a[:1] == b[:1] == b":":
            return command[1].lower() == "refcount" or same_numbers(a, b, 60)
        if name in ("eval", "evalsha") and a[:1] == b[:1] == b"-":
            return True
        if name in ("eval", "evalsha") and a[:1] == b[:1] == b":":  # PTTL of a lock
            return min(int(a[1:]), int(b[1:])) > 1000 and same_numbers(a, b, 60000)
        if name == "memory" and a[:1] == b[:1] == b":":
            return True
        if name == "keys" and a[:1] == b[:1] == b"*":
            return sorted(parts(a)) == sorted(parts(b))
        if name == "randomkey" and a[:1] == b[:1] == b"$" and a != b"$-1\r\n" != b:
            return True
        if name == "restore" and a[:1] == b[:1] == b"-":
            return a.startswith(b"-ERR Bad data format: RDB type") or a == b
        return name == "hello" and a[:1] == b[:1] == b"*"


def scan(c, *options):
    cursor, found = b"0", []
    while True:
        cursor, part = c.cmd("SCAN", cursor, *options)
        found += part
        if cursor == b"0":
            return sorted(set(found))


def compare_scans(ours, theirs, rng):
    for d in range(3):
        for c in (ours, theirs):
            assert c.cmd("SELECT", str(d)) == "OK"
        for options in ((), ("COUNT", "1000"), ("MATCH", rng.choice(
                ["k*", "k?", "k[1-3]*", "*[^2]", "k\\:*", "nothing", "*", "[a"])),
                ("MATCH", "k1*", "COUNT", "3"), ("TYPE", "string"), ("TYPE", "list")):
            a, b = scan(ours, *options), scan(theirs, *options)
            assert a == b, "scan of %d %r: %r, redis has %r" % (d, options, a, b)
        for k in scan(theirs):
            a, b = ours.cmd("GET", k), theirs.cmd("GET", k)
            assert a == b, "%r is %r, in redis %r" % (k, a, b)
    for c in (ours, theirs):
        c.cmd("SELECT", "0")


def protocol(ours, theirs, rng):
    """Broken input: the same last words."""
    cases = [b"*-x\r\n", b"*3000000000\r\n", b"*1\r\nx\r\n", b"*1\r\n$x\r\n", b"*1\r\n$-1\r\n",
             b"*2\r\n$3\r\nGET\r\n:1\r\n", b'SET "a\r\n', b"GET 'a'b\r\n", b"GET k\r\n",
             b"*0\r\n", b"*-1\r\nGET k\r\n", b"\r\n\r\nGET k\r\n", b"  GET   k  \r\n",
             b'ECHO "\\x41\\n\\"b"\r\n', b"ECHO 'a\\'b'\r\n", b"*1\r\n$4\r\nping\r\n",
             b"*2\r\n$4\r\nECHO\r\n$600000000\r\n", b"* 1\r\n", b"*01\r\n",
             b"*1\r\n$04\r\nping\r\n", b"get\tk\r\n", b"y" * 66000, b"*1\r\n$" + b"2" * 66000]
    for _ in range(20):
        cases.append(bytes(rng.choice(b"*$:\r\n19-GETx \"'") for _ in range(12)) + b"\r\n\r\n")
    for data in cases:
        answers = []
        for port in (ours, theirs):
            with Raw(port) as c:
                got = b""
                try:
                    c.raw(data)
                    c.sock.shutdown(1)
                    got = c.eof()
                except (Closed, OSError):
                    pass
                answers.append(got)
        assert answers[0] == answers[1], "input %r: %r, redis replies %r" % (
            data[:60], answers[0][:200], answers[1][:200])


def settled(command):
    """DBSIZE counts keys whose time is over until a command looks at them or a sweep comes, which
    is a matter of time on both sides: look at all keys first. In Redis MEMORY USAGE, too, knows
    such a key, and is no look at it."""
    if str(command[0]).lower() == "dbsize":
        return [["EXISTS"] + KEYS, command]
    if str(command[0]).lower() == "memory" and len(command) > 2:
        return [["EXISTS", command[2]], command]
    return [command]


class Replay:
    """What a failure needs to be seen again: the number of the command, and those before it."""

    def __init__(self):
        self.number = 0
        self.recent = collections.deque(maxlen=40)
        self.shown = 0

    def add(self, command, ours, theirs):
        self.number += 1
        self.recent.append((self.number, command, ours, theirs))

    def show(self):
        """Those that were not shown before."""
        for number, command, ours, theirs in self.recent:
            if number > self.shown:
                print("%7d %.300r: %.80r%s" % (number, command, ours, "" if ours == theirs else
                                               "; redis %.80r" % theirs))
        self.shown = self.number


def run(node, redis, seed, count, replay):
    rng = random.Random(seed)
    maker = Maker(rng)
    ours, theirs = Raw(node.port), Raw(redis.port)
    protocol3 = rng.random() < 0.5
    if protocol3:
        print("RESP3")
        for c in (ours, theirs):
            c.send("HELLO", "3")
            assert c.raw_reply().startswith(b"%7\r\n")
    judge = Judge(maker, Raw(node.port), Raw(redis.port))
    differences = 0
    for at in range(0, count, 50):
        batch = [c for _ in range(50) for c in settled(maker.command())]
        depth = rng.choice([1, 50])
        for i in range(0, len(batch), depth):
            data = b"".join(encode(*c) for c in batch[i:i + depth])
            ours.raw(data)
            theirs.raw(data)
            replies = [(c, ours.raw_reply(), theirs.raw_reply()) for c in batch[i:i + depth]]
            for c, a, b in replies:
                replay.add(c, a, b)
                if not judge.same(c, a, b):
                    differences += 1
                    replay.show()
                    print("command %d differs, %d in one piece: %r\n    ours  %r\n    redis %r" % (
                        replay.number, depth, c, a[:200], b[:200]), flush=True)
                    if differences >= 12:
                        return differences
        if at % 1000 == 0 and not maker.pending:
            for c in (ours, theirs):
                c.cmd("DISCARD")  # of a MULTI by itself
            compare_scans(ours, theirs, rng)
            if rng.random() < 0.3:
                for c in (ours, theirs):
                    assert c.cmd("FLUSHALL") == "OK"
    for c in (ours, theirs):
        c.cmd("DISCARD")
    compare_scans(ours, theirs, rng)
    protocol(node.port, redis.port, rng)
    return differences


def main():
    args = sys.argv[1:]
    seed, count = int.from_bytes(os.urandom(4), "little"), 200000 if NIGHTLY else 10000
    for name in ("--seed", "--count"):
        if name in args:
            at = args.index(name)
            if name == "--seed":
                seed = int(args[at + 1])
            else:
                count = int(args[at + 1])
            del args[at:at + 2]
    print("mode %s, seed %d, %d commands" % (args[1], seed, count), flush=True)
    redis = Redis()
    node = Server(args[0], args[1], offload="all")  # both paths, on so little data
    replay = Replay()
    differences = 1  # what raises is one, too
    try:
        node.start()
        differences = run(node, redis, seed, count, replay)
        if node.stop() != 0:
            differences += 1
            print(node.log())
    finally:
        if differences:  # at the end, which a log that is cut still has
            if replay.shown == 0:
                replay.show()
            print("failed at command %d of this run, Unix time %.3f; the same commands:\n"
                  "    test_kv_diff.py %s %s --seed %d --count %d" % (
                      replay.shown, time.time(), args[0], args[1], seed, count), flush=True)
        redis.destroy()
        node.destroy()
    return 1 if differences else 0


if __name__ == "__main__":
    sys.exit(main())
