#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Transactions, passwords, RESP3, limits of connections: kv_server beside redis-server.

    test_kv_session.py BINARY MODE

Where redis-server is installed, each conversation below is held with both and the bytes are the
same, but for the numbers of connections and what their texts list. Its clients, redis-cli and
redis-benchmark, are required with RESP2 and RESP3 where it is.
"""
import os
import re
import shutil
import socket
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.realpath(__file__)), "../../support"))
from kvnode import WAIT, Closed, Conn, Server, encode, free_port  # noqa: E402


class Raw(Conn):
    """Replies as the bytes they are, RESP3's too."""

    def one(self):
        line = self.line()
        kind, rest = line[:1], line[1:]
        out = line + b"\r\n"
        if kind in b"$=" and rest != b"-1":
            out += self.bulk(int(rest)) + b"\r\n"
        elif kind in b"*~" and rest != b"-1":
            for _ in range(int(rest)):
                out += self.one()
        elif kind == b"%":
            for _ in range(2 * int(rest)):
                out += self.one()
        return out


def redis_server():
    binary = shutil.which("redis-server")
    if binary is None:
        return None
    directory = tempfile.mkdtemp(prefix="kvsession.")
    port = free_port()
    p = subprocess.Popen([binary, "--port", str(port), "--save", "", "--dir", directory],
                         stdout=subprocess.DEVNULL)
    end = time.monotonic() + WAIT
    while True:
        try:
            Raw(port).close()
            return port, p, directory
        except OSError:
            assert time.monotonic() < end and p.poll() is None, "no redis-server"
            time.sleep(0.02)


# Each line is "CONNECTION command ..."; a connection begins with its first line. "!" after the
# connection: no reply comes.
TALKS = {
    "transaction": """
a MULTI|a SET x 1|a INCR x|a GET x|b GET x|a EXEC|b GET x|a EXEC|a DISCARD
a MULTI|a MULTI|a SET x 5|a DISCARD|a GET x|a MULTI|a EXEC
a MULTI|a SET x 6|a NOSUCH|a SET x 7|a EXEC|a GET x
a MULTI|a SET x|a SET x 8|a EXEC|a GET x
a MULTI|a INCR|a DISCARD|a MULTI|a SET y abc|a INCR y|a SET y 2|a EXEC|a GET y
a WATCH x|b SET x 9|a MULTI|a SET x 10|a EXEC|a GET x
a WATCH x|b GET x|a MULTI|a SET x 10|a EXEC|a GET x
a WATCH x y|b DEL y|a UNWATCH|a MULTI|a SET x 11|a EXEC
a WATCH nokey|b SET nokey 1|a MULTI|a PING|a EXEC|a MULTI|a PING|a EXEC
a FLUSHALL|a WATCH nokey|b SET nokey 1|b DEL nokey|a MULTI|a PING|a EXEC|a MULTI|a PING|a EXEC
a WATCH nokey|b SET nokey 1|b FLUSHDB|a MULTI|a PING|a EXEC|a WATCH nokey|b SET other 1|b DEL other
a MULTI|a PING|a EXEC|a WATCH nokey|b DEL nokey|a MULTI|a PING|a EXEC|b SELECT 1|b SET nokey 1
b SELECT 0|a WATCH nokey|b SWAPDB 0 1|b DEL nokey|a MULTI|a PING|a EXEC|a WATCH nokey
a SET nokey 1|a DEL nokey|a MULTI|a PING|a EXEC|a WATCH nokey|b MULTI|b INCR nokey|b DEL nokey
b EXEC|a MULTI|a PING|a EXEC|a WATCH nokey|b SET p 1|b RENAME p nokey|b DEL nokey|a UNWATCH
a WATCH p|a MULTI|a PING|a EXEC|a WATCH nokey|b SET nokey 1|b DEL nokey|a DISCARD|a WATCH q
a MULTI|a EXEC
a WATCH nokey|b SET nokey 1|b DEL nokey|a UNWATCH|a MULTI|a PING|a EXEC
a WATCH nokey|a MULTI|a WATCH x|a SET x 3|b EXPIRE nokey 1000|a EXEC|a GET x
a MULTI|a SELECT 3|a SET z 1|a EXEC|a GET z|a SELECT 0|a GET z
a MULTI|a MSET p 1 q 2|a MGET p q r|a DEL p q|a EXISTS p q|a EXEC
a WATCH x|b FLUSHALL|a MULTI|a PING|a EXEC|a WATCH|a MULTI x
a MULTI|a SET x 1|a RESET|a EXEC|a GET x
a MULTI|a SET x 12|a CONFIG NOSUCH|a EXEC|a MULTI|a SET x 13|a OBJECT ENCODING|a EXEC|a GET x
a MULTI|a SET x 14|a CLIENT GETNAME y|a EXEC|a MULTI|a CLIENT NOSUCH|a EXEC|a MULTI|a SLOWLOG LEN x
a EXEC|a MULTI|a SCRIPT NOSUCH x|a DISCARD|a MULTI|a LATENCY GRAPH|a EXEC|a MULTI|a MEMORY USAGE
a EXEC|a MULTI|a COMMAND COUNT x|a EXEC|a MULTI|a SLOWLOG GET 1 2|a EXEC|a GET x
""",
    "hello": """
a HELLO 3|a GET none|a SET k v|a GET k|a MGET k none|a CONFIG GET maxmemory-policy
a MULTI|a GET none|a EXEC|a WATCH k|b SET k w|a MULTI|a EXEC
a HELLO 2|a GET none|a HELLO 4|a HELLO x|a HELLO 3 SETNAME me|a CLIENT GETNAME
a HELLO 3 FOO|a HELLO 3 SETNAME|a HELLO 3 AUTH a|a RESET|a CLIENT GETNAME|a GET none
a HELLO 3 AUTH default anything|a HELLO 3 AUTH unknown x|a AUTH x|a AUTH default x|a AUTH a b c
a LCS k k IDX|a CLIENT TRACKINGINFO|a CLIENT GETREDIR
""",
    "reply": """
a SET k v|!a CLIENT REPLY OFF|!a SET k w|!a GET k|a CLIENT REPLY ON|a GET k
!a CLIENT REPLY SKIP|!a SET k x|a GET k|!a CLIENT REPLY SKIP|!a GET k|a PING|a CLIENT REPLY NO
a CLIENT NO-EVICT ON|a CLIENT NO-EVICT X|a CLIENT NOSUCH|a CLIENT SETNAME|a CLIENT KILL 1:2
a CLIENT KILL ID 999999999|a CLIENT KILL TYPE pubsub|a CLIENT KILL ID 0|a CLIENT LIST TYPE x
a CLIENT UNBLOCK 12345|a CLIENT LIST ID x|a QUIT
""",
    "config": """
a CONFIG SET client-output-buffer-limit "normal 100mb 50mb 10"
a CONFIG GET client-output-buffer-limit
a CONFIG SET maxmemory-clients 10%|a CONFIG GET maxmemory-clients|a CONFIG SET maxmemory-clients 1gb
a CONFIG GET maxmemory-clients|a CONFIG SET client-query-buffer-limit 2mb
a CONFIG GET client-query-buffer-limit|a CONFIG SET nosuch 1|a CONFIG SET x|a CONFIG GET maxmemory
a CONFIG SET x y z|a CONFIG SET slowlog-max-len x nosuch 1|a CONFIG HELP x
a CONFIG SET slowlog-max-len 5 SLOWLOG-max-len 6|a CONFIG SET databases 3 nosuch 1
a CONFIG SET slowlog-max-len x databases 3|a CONFIG GET slowlog-max-len
a CONFIG SET client-query-buffer-limit 1gb protected-mode no|a CONFIG GET protected-mode
a CONFIG SET requirepass secret|a GET x|b GET x|b MULTI|b NOSUCH|b AUTH wrong|b HELLO 3|b PING
b AUTH secret|b PING|c HELLO 3 AUTH default secret|c PING|d AUTH default secret|d GET x
e HELLO 2 AUTH default bad|e GET x|e AUTH default secret|e RESET|e GET x|e QUIT
a CONFIG SET requirepass ""|f GET x|a CONFIG RESETSTAT
a SELECT 15|a SELECT 16|a SELECT 160|a SELECT 2147483647|a SELECT 2147483648|a SELECT -1|a SELECT x
""",
    "slow": """
a CONFIG GET slowlog-max-len|a CONFIG GET slowlog-log-slower-than|a CONFIG SET slowlog-max-len -1
a CONFIG SET slowlog-max-len x
a CONFIG SET slowlog-max-len 9223372036854775808|a CONFIG SET slowlog-log-slower-than -2
a CONFIG SET slowlog-log-slower-than 10x|a CONFIG SET slowlog-log-slower-than 010
a CONFIG SET slowlog-log-slower-than -1|a SLOWLOG RESET|a PING|a SLOWLOG LEN
a CONFIG SET slowlog-max-len 4 slowlog-log-slower-than 0|a SLOWLOG LEN|a PING|a PING|a SLOWLOG LEN
a PING|a SLOWLOG LEN|a PING|a PING|a SLOWLOG LEN|a CONFIG SET slowlog-max-len 2|a SLOWLOG LEN
a CONFIG SET slowlog-max-len 0|a PING|a SLOWLOG LEN|a CONFIG SET slowlog-max-len 40
""" + "|a PING" * 400 + """|a SLOWLOG LEN|a SLOWLOG RESET|a SLOWLOG LEN|a CONFIG SET requirepass ""
a DEL """ + " ".join("k%d" % i for i in range(31)) + "|a DEL " + " ".join(
        "k%d" % i for i in range(32)) + "|a DEL " + " ".join("k%d" % i for i in range(320)) + """
a ECHO """ + "e" * 128 + "|a ECHO " + "e" * 129 + "|a ECHO " + "e" * 1280 + """|a SLOWLOG GET 7
a CONFIG SET slowlog-log-slower-than 10000 slowlog-max-len 128|a SLOWLOG RESET
""",
}


def words(text):
    return [w.strip('"') for w in re.findall(r'"[^"]*"|\S+', text)]


def known(reply):
    """Without what is each server's own."""
    # An entry of the slow log: number, time, duration; the address, which is not noted here.
    reply = re.sub(rb"\*6\r\n:\d+\r\n:\d+\r\n:\d+\r\n", b"*6\r\n:N\r\n:N\r\n:N\r\n", reply)
    reply = re.sub(rb"\$\d+\r\n127\.0\.0\.1:\d+\r\n", b"$0\r\n\r\n", reply)
    return re.sub(rb"\r\n\$2\r\nid\r\n:\d+", b"\r\n$2\r\nid\r\n:N", reply)


def hold(port, text):
    conns, out = {}, []
    for line in text.replace("\n", "|").split("|"):
        if not line.strip():
            continue
        silent = line.startswith("!")
        name, *command = words(line.lstrip("!"))
        c = conns.setdefault(name, None) or Raw(port)
        conns[name] = c
        c.send(*command)
        if silent:
            continue
        out.append((line, known(c.one())))
        if command[0] == "QUIT":
            c.eof()
            c.close()
            del conns[name]
    for c in conns.values():
        c.close()
    return out


def test_talks(node, real):
    for name, text in TALKS.items():
        with Raw(node.port) as c:
            c.cmd("FLUSHALL")
        ours = hold(node.port, text)
        if real is None:
            continue
        for (line, a), (_, b) in zip(ours, hold(real, text)):
            assert a == b, "%s: %r: here %r, redis-server %r" % (name, line, a, b)


def test_one_at_a_time(node):
    """Transactions of two clients on the same counters are never mixed, also not on the device."""
    a, b = Raw(node.port), Raw(node.port)
    a.cmd("MSET", "n1", "0", "n2", "0")
    for i in range(200):
        for c in (a, b):
            c.raw(b"".join(encode(*x) for x in (
                ("MULTI",), ("INCR", "n1"), ("GET", "n1"), ("INCR", "n2"), ("GET", "n2"),
                ("EXEC",))))
    for i in range(200):
        for c in (a, b):
            assert c.one() == b"+OK\r\n"
            for _ in range(4):
                assert c.one() == b"+QUEUED\r\n"
            lines = c.one().split(b"\r\n")
            assert lines[0] == b"*4" and lines[1][1:] == lines[3] == lines[4][1:] == lines[6], lines
    assert a.cmd("MGET", "n1", "n2") == [b"400", b"400"]
    # A client that goes away behind its EXEC: all of it is done.
    for i in range(20):
        with Raw(node.port) as c:
            c.raw(b"".join(encode(*x) for x in (
                ("MULTI",), ("INCR", "m1"), ("SET", "big", b"x" * 1000000), ("INCR", "m2"),
                ("EXEC",))))
            if i == 19:  # a close with replies unread resets the connection: all before may be lost
                c.sock.shutdown(1)
                c.eof()
    end = time.monotonic() + WAIT
    while True:
        m = a.cmd("MGET", "m1", "m2")
        if m[0] == m[1] is not None:
            break
        assert time.monotonic() < end, "half a transaction, or none of 20: %r" % m
        time.sleep(0.05)
    a.close()
    b.close()


def test_cold(node):
    """EXEC of values that only the device has."""
    with Raw(node.port) as c:
        for i in range(48):
            c.cmd("SET", "cold%d" % i, b"%d" % i * 500000)
        for i in range(120):
            c.cmd("SET", "fill%d" % i, b"f" * 1000000)
        c.raw(b"".join(encode(*x) for x in [("MULTI",)] +
                       [("STRLEN" if i % 3 == 0 else "GET", "cold%d" % i) for i in range(24)] +
                       [("APPEND", "cold0", "end"), ("GET", "cold0"), ("EXEC",)]))
        assert c.one() == b"+OK\r\n"
        for _ in range(26):
            assert c.one() == b"+QUEUED\r\n"
        r = c.reply()
        for i in range(24):
            value = b"%d" % i * 500000
            assert r[i] == (len(value) if i % 3 == 0 else value), i
        assert r[24] == 500003 and r[25] == b"0" * 500000 + b"end"


def test_redis_py_8(node):
    """The greeting of redis-py 8, byte for byte."""
    with Raw(node.port) as c:
        c.raw(b"*2\r\n$5\r\nHELLO\r\n$1\r\n3\r\n")
        assert c.one().startswith(b"%7\r\n$6\r\nserver\r\n$5\r\nredis\r\n")
        c.raw(b"*4\r\n$6\r\nCLIENT\r\n$7\r\nSETINFO\r\n$8\r\nLIB-NAME\r\n$8\r\nredis-py\r\n"
              b"*4\r\n$6\r\nCLIENT\r\n$7\r\nSETINFO\r\n$7\r\nLIB-VER\r\n$5\r\n8.0.0\r\n")
        assert c.one() == b"+OK\r\n" and c.one() == b"+OK\r\n"
        c.send("CLIENT", "LIST")
        assert b"lib-name=redis-py lib-ver=8.0.0" in c.one()


def test_write_all_then_read(node):
    """Clients that write a whole pipeline before they read."""
    with Raw(node.port) as c:
        c.raw(b"".join(encode("SET", "w%d" % (i % 50), b"v" * 10000) +
                       encode("GET", "w%d" % (i % 50)) for i in range(1000)))
        for i in range(1000):
            assert c.reply() == "OK" and len(c.reply()) == 10000
        big = b"b" * (8 << 20)
        assert c.cmd("SET", "big", big) == "OK"
        c.raw(encode("GET", "big") * 2 + encode("SET", "big2", big) * 4)
        for _ in range(2):
            assert len(c.reply()) == len(big)
        for _ in range(4):
            assert c.reply() == "OK"
        c.raw(encode("INCR", "many") * 200000)
        for i in range(200000):
            assert c.reply() == i + 1


def test_output_limit(node):
    """A client that never reads is closed; another does not notice, nor does memory."""
    with Raw(node.port) as a:
        a.cmd("SET", "mega", b"m" * (1 << 20))
        before = node.rss_kib()
        assert a.cmd("CONFIG", "SET", "client-output-buffer-limit", "normal 64mb 8mb 1") == "OK"
        time.sleep(0.3)  # until the other role knows
        with Raw(node.port) as c:
            c.raw(encode("GET", "mega") * 400)
            end = time.monotonic() + WAIT
            while "client-output-buffer-limit" not in node.log():
                assert a.cmd("PING") == "PONG"
                assert time.monotonic() < end, "a client that reads nothing is not closed"
                time.sleep(0.05)
        after = node.rss_kib()
        # ThreadSanitizer keeps four bytes of its own for each byte that was touched.
        room = (32 + 64) << (10 if os.environ.get("SNIC_SANITIZED", "") != "thread" else 12)
        assert after - before < room, (before, after)
        a.cmd("CONFIG", "SET", "client-output-buffer-limit", "normal 256mb 64mb 60")


def test_nothing_behind(node):
    """What stands behind QUIT or in a browser's POST is not run."""
    post = b"POST / HTTP/1.1\r\nHost: x\r\n\r\nSET evil 1\r\nSHUTDOWN\r\n"
    for data, reply in ((encode("QUIT") + encode("SET", "evil", "1"), b"+OK\r\n"), (post, b""),
                        (post[17:], b"")):
        with Raw(node.port) as c:
            c.raw(data)
            try:
                assert c.eof() == reply
            except Closed:
                pass
    with Raw(node.port) as c:
        assert c.cmd("EXISTS", "evil") == 0


def test_replication(node, real):
    """INFO replication and ROLE are those of a master without replicas."""
    def names(port):
        with Conn(port) as c:
            text = c.cmd("INFO", "replication").decode()
            return re.sub("master_replid:[0-9a-f]{40}", "master_replid:ID", text), c.cmd("ROLE")
    ours = names(node.port)
    assert ours[1] == [b"master", 0, []], ours
    assert "role:master\r\nconnected_slaves:0\r\n" in ours[0], ours
    with Conn(node.port) as c:
        text = c.cmd("INFO").decode()
        assert len(re.findall(r"^role:", text, re.M)) == 1, text
    if real is not None:
        theirs = names(real)
        assert [s.strip() for s in ours[0].split("\r\n") if s] == \
            [s.strip() for s in theirs[0].split("\r\n") if s], (ours, theirs)
        assert ours[1] == theirs[1]


def test_texts(node, real):
    """Names, settings and numbers of the longest length are taken, longer ones refused by name."""
    with Raw(node.port) as a:
        for size in (255, 256, 2560):
            got = a.cmd("CLIENT", "SETNAME", "n" * size)
            assert got == ("OK" if size < 256 else "ERR Client names are limited to 255 bytes"), got
        assert a.cmd("CLIENT", "GETNAME") == b"n" * 255
        for what in ("LIB-NAME", "LIB-VER"):
            for size in (63, 64, 640):
                got = a.cmd("CLIENT", "SETINFO", what, "l" * size)
                assert got == ("OK" if size < 64 else
                               "ERR %s is limited to 63 bytes" % what.lower()), got
        for size in (1023, 1024, 10240):
            text = "normal 100mb 50mb 10"
            text = " " * (size - len(text)) + text
            got = a.cmd("CONFIG", "SET", "client-output-buffer-limit", text)
            assert got == "OK" if size < 1024 else "'client-output-buffer-limit'" in got and \
                "too long" in got, got
        assert a.cmd("CONFIG", "SET", "client-output-buffer-limit", "normal 256mb 64mb 60") == "OK"
        for size in (511, 512, 5120):
            got = a.cmd("CONFIG", "SET", "requirepass", "p" * size)
            assert got == "OK" if size < 512 else "'requirepass'" in got, got
            with Raw(node.port) as b:
                assert b.cmd("AUTH", "p" * 510).startswith("WRONGPASS")
                assert b.cmd("AUTH", "p" * 511) == "OK"
        assert a.cmd("CONFIG", "SET", "requirepass", "") == "OK"
    talk = ""
    for size in (5119, 5120, 51200):
        talk += "|a SET f 1|a INCRBYFLOAT f %s|a SET f %s|a INCRBYFLOAT f 1" % (
            "0" * size, "0" * (size - 1) + "7")
    ours = hold(node.port, talk)
    assert ours[1][1] == b"$1\r\n1\r\n" and ours[3][1] == b"$1\r\n8\r\n", ours
    assert b"not a valid float" in ours[5][1] and b"not a valid float" in ours[7][1], ours
    for (line, x), (_, y) in zip(ours, hold(real, talk) if real is not None else ours):
        assert x == y, "%r: here %r, redis-server %r" % (line[:40], x, y)


def test_scripts(node):
    """512 scripts are kept, the oldest goes; longer texts and names are none of those known."""
    script = 'if redis.call("get", KEYS[1]) == ARGV[1] then return redis.call("del", KEYS[1]) ' \
        'else return 0 end'
    with Raw(node.port) as c:
        def load(first, count):
            c.raw(b"".join(encode("SCRIPT", "LOAD", "-- %d\n%s" % (i, script))
                           for i in range(first, first + count)))
            return [c.reply() for _ in range(count)]

        assert c.cmd("SCRIPT", "FLUSH") == "OK"
        names = load(0, 512)
        assert c.cmd("SCRIPT", "EXISTS", *names) == [1] * 512
        names += load(512, 1)
        assert c.cmd("SCRIPT", "EXISTS", *names) == [0] + [1] * 512
        assert c.cmd("EVALSHA", names[0], 1, "k", "v").startswith("NOSCRIPT")
        names += load(513, 5120 - 513)
        assert c.cmd("SCRIPT", "EXISTS", *names) == [0] * (5120 - 512) + [1] * 512
        assert c.cmd("SET", "k", "v") == "OK"
        assert c.cmd("EVALSHA", names[-1], 1, "k", "v") == 1 and c.cmd("GET", "k") is None
        for size in (4096, 4097, 40960):
            got = c.cmd("EVAL", script + " " * (size - len(script)), 1, "k", "v")
            assert got == 0 if size == 4096 else "not supported" in got, (size, got)
        for size in (32, 33, 320):
            text = 'local V = redis.call("get", KEYS[1])\nif V == ARGV[1] then ' \
                'return redis.call("del", KEYS[1]) else return 0 end'
            got = c.cmd("EVAL", text.replace("V =", "v" * size + " ="), 1, "k", "v")
            assert got == 0 if size == 32 else "not supported" in got, (size, got)


def test_much_from_device(node):
    """More than the 64 MiB that are read ahead for EXEC and for MGET, and that wait for the DPU
    role: all is right, others continue."""
    count, size = 9, 8 << 20
    others = 9 if os.environ.get("SNIC_NIGHTLY", "0") not in ("", "0") else 1
    with Raw(node.port) as a:
        keys = ["much%d" % i for i in range(count)]
        for i, k in enumerate(keys):
            assert a.cmd("SET", k, b"%d" % i * size) == "OK"
        a.raw(encode("MULTI") + b"".join(encode("GETRANGE", k, 0, 3) for k in keys * 10) +
              encode("EXEC"))
        for _ in range(1 + 10 * count):
            assert a.one() in (b"+OK\r\n", b"+QUEUED\r\n")
        assert a.reply() == [b"%d" % i * 4 for i in range(count)] * 10
        conns = [Raw(node.port) for _ in range(others)]
        for c in [a] + conns[:-1]:
            c.send("MGET", *keys)
        conns[-1].send("GET", keys[0])
        assert conns[-1].reply() == b"0" * size
        for c in [a] + conns[:-1]:
            assert c.reply() == [b"%d" % i * size for i in range(count)]
        for c in conns:
            c.close()
        assert a.cmd("DEL", *keys) == count


def test_many_databases(binary, mode):
    """INFO has a line of each of 4096 databases; one more is refused at the start."""
    with Server(binary, mode, databases=4096) as node, Raw(node.port) as c:
        c.raw(b"".join(encode("SELECT", i) + encode("SET", "k", "v") for i in range(4096)))
        for _ in range(2 * 4096):
            assert c.reply() == "OK"
        text = c.cmd("INFO", "keyspace").decode()
        assert len(re.findall(r"^db\d+:keys=1,", text, re.M)) == 4096, text[-100:]
        assert c.cmd("SELECT", 4096) == "ERR DB index is out of range"


def test_full(binary, mode):
    """A client too many gets Redis' error before its connection is closed."""
    with Server(binary, mode, connections=4) as node:
        held = []
        end = time.monotonic() + WAIT
        while len(held) < 4:  # those that waited for the start may not be gone yet
            c = node.conn()
            if c.cmd("PING") == "PONG":
                held.append(c)
            assert time.monotonic() < end
        for _ in range(40):
            with node.conn() as c:
                assert c.eof() == b"-ERR max number of clients reached\r\n"
        for c in held:
            c.close()
        while True:
            with node.conn() as c:
                if c.cmd("PING") == "PONG":
                    break
            assert time.monotonic() < end
        # Once a second, when none of them is connected: the line names the limit.
        while not re.search("clients were refused: all 4 connections (were|are) in use",
                            node.log()):
            assert time.monotonic() < end, node.log()
            time.sleep(0.05)
        assert node.stop() == 0


def test_idle(binary, mode):
    """--timeout closes a client on which nothing moves: by director or front."""
    with Server(binary, mode, timeout=1) as node:
        end, answered = time.monotonic() + WAIT, None
        while answered is None:  # closed before: we sent nothing for a second
            assert time.monotonic() < end, node.log()
            begin = time.monotonic()
            with node.conn() as c:
                try:
                    answered = c.cmd("PING")
                    assert answered == "PONG" and c.eof() == b""
                except Closed:
                    pass
            # The server's loop may have read the clock some time before it took the connection.
            assert time.monotonic() - begin >= 0.5, "closed before it was idle for a second"
        assert node.stop() == 0


def test_password_stays(binary, mode):
    """CONFIG SET does not open a server that other machines reach."""
    for extra, refused in (([], True), (["--protected-mode", "no"], False)):
        node = Server(binary, mode, requirepass="secret")
        try:
            args = node.args(extra)
            args[args.index("--listen") + 1] = "0.0.0.0:%d" % node.port
            node.args = lambda extra, a=args: a
            node.start(wait=False)
            end = time.monotonic() + WAIT
            while True:
                try:
                    c = node.conn()
                    if c.cmd("AUTH", "secret") == "OK":
                        break
                except (OSError, Closed):
                    pass
                assert time.monotonic() < end and node.process.poll() is None, node.log()
                time.sleep(0.05)
            assert c.cmd("CONFIG", "SET", "protected-mode", "no") == "OK"
            for args in (("requirepass", ""), ("protected-mode", "no", "requirepass", "")):
                got = c.cmd("CONFIG", "SET", *args)
                assert (got != "OK" and "password" in got) if refused else got == "OK", got
            with node.conn() as other:
                assert (other.cmd("GET", "x") is None) != refused
            c.close()
        finally:
            node.destroy()


def test_tools(node):
    if shutil.which("redis-benchmark") is None:
        print("skipped: redis-cli and redis-benchmark are not installed")
        return
    for three in ([], ["-3"]):
        out = subprocess.run(["redis-cli", "-p", str(node.port), *three], timeout=WAIT,
                             input="MULTI\nSET t 1\nGET t\nEXEC\nGET none\nCONFIG GET save\n",
                             stdout=subprocess.PIPE, text=True, check=True).stdout
        assert out.split("\n")[:4] == ["OK", "QUEUED", "QUEUED", "OK"], out
        out = subprocess.run(["redis-benchmark", "-p", str(node.port), *three, "-n", "2000", "-q",
                              "-t", "ping,set,get,incr,mset", "-P", "8"], timeout=WAIT,
                             stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                             check=True).stdout
        assert "Error" not in out and "MSET" in out, out


def main():
    binary, mode = sys.argv[1:3]
    real = redis_server()
    try:
        with Server(binary, mode, memory="32M", segment="16M", size="1G") as node:
            for t in (test_one_at_a_time, test_cold, test_redis_py_8, test_write_all_then_read,
                      test_output_limit, test_nothing_behind, test_tools):
                print(t.__name__, flush=True)
                t(node)
            print("test_talks", flush=True)
            test_talks(node, real[0] if real is not None else None)
            print("test_texts", flush=True)
            test_texts(node, real[0] if real is not None else None)
            for t in {"monolith": [test_scripts], "two": [test_much_from_device]}.get(mode, []):
                print(t.__name__, flush=True)
                t(node)  # the engine's, which is the same in all modes
            print("test_replication", flush=True)
            test_replication(node, real[0] if real is not None else None)
        for t in (test_full, test_idle, test_password_stays) + (
                (test_many_databases,) if mode == "monolith" else ()):
            print(t.__name__, flush=True)
            t(binary, mode)
    finally:
        if real is not None:
            real[1].kill()
            real[1].wait()
            shutil.rmtree(real[2], ignore_errors=True)


if __name__ == "__main__":
    main()
