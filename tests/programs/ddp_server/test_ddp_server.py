#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Three real nodes: commands, durability, watches, start-up errors.

    test_ddp_server.py BINARY [NAME ...]
"""
import os
import shutil
import socket
import subprocess
import sys
import time

from ddpserver import (WAIT, Cluster, Error, carry_out, conclusive, ends, evidence, free_ports,
                       refused, tests_of)
from kvnode import encode


def test_commands_of_one_key(binary):
    with Cluster(binary, shards=2).found() as k:
        a, b = k.conn(0), k.conn(1)
        assert a.cmd("SET", "a", "1") == "OK" and b.cmd("GET", "a") == b"1"
        assert b.cmd("INCR", "a") == 2 and a.cmd("INCRBY", "a", "40") == 42
        refused(a.cmd("INCR", "nope", "x"), "wrong number")
        assert a.cmd("APPEND", "a", "xy") == 4 and b.cmd("GETRANGE", "a", "1", "2") == b"2x"
        refused(a.cmd("INCR", "a"), "not an integer")
        assert a.cmd("SET", "t", "v", "EX", "1000", "NX") == "OK"
        assert a.cmd("SET", "t", "v", "NX") is None and 1000 - WAIT <= b.cmd("TTL", "t") <= 1000
        assert b.cmd("PERSIST", "t") == 1 and a.cmd("TTL", "t") == -1
        assert a.cmd("PEXPIRE", "t", "1") == 1
        k.until(1, "EXISTS", "t", want=lambda r: r == 0)  # the nodes delete it
        assert a.cmd("DEL", "a", "t", "none") == 1
        for i in range(50):
            assert a.cmd("SET", "key:%d" % i, "v%d" % i) == "OK"
        assert b.cmd("MGET", *["key:%d" % i for i in range(50)]) == [b"v%d" % i for i in range(50)]
        assert b.cmd("DBSIZE") == 50 and len(b.cmd("KEYS", "key:*")) == 50
        seen, cursor = [], b"0"
        while True:
            cursor, keys = a.cmd("SCAN", cursor, "COUNT", "7")
            seen += keys
            if cursor == b"0":
                break
        assert sorted(seen) == sorted(b"key:%d" % i for i in range(50))
        places = [c.cmd("SCAN", "0", "COUNT", "1")[0] for c in (a, b)]
        refused(a.cmd("SCAN", places[1]), "another node's")
        refused(b.cmd("SCAN", places[0]), "another node's")
        seen, cursor, n = [], b"", 0
        while True:  # any node continues
            cursor, keys = (a, b)[n % 2].cmd("SCANKEYS", cursor, "COUNT", "9", "PREFIX", "key:1")
            seen, n = seen + keys, n + 1
            if cursor == b"":
                break
        assert sorted(seen) == sorted(b"key:%d" % i for i in [1] + list(range(10, 20)))
        assert a.cmd("RANDOMKEY").startswith(b"key:")


def test_a_scan_of_the_empty_key(binary):
    """It is the first of its shard, and ends a page: the next one begins behind it."""
    with Cluster(binary, nodes=1, shards=2).found() as k:
        c = k.conn(0)
        keys = [b""] + [b"key:%d" % i for i in range(9)]
        assert [c.cmd("SET", n, "v") for n in keys] == ["OK"] * len(keys)
        seen, cursor = [], b""
        for _ in range(3 * len(keys)):
            cursor, page = c.cmd("SCANKEYS", cursor, "COUNT", "1")
            seen += page
            if cursor == b"":
                break
        assert cursor == b"" and sorted(seen) == sorted(keys), (cursor, seen)
        refused(c.cmd("SCANKEYS", "0.key:1"), "invalid cursor")


def test_pipelines_keep_their_order(binary):
    with Cluster(binary, shards=2).found() as k:
        c = k.conn(0)
        want = []
        for i in range(400):
            key = "p%d" % (i % 7)
            for command, reply in ((("SET", key, str(i)), "OK"), (("GET", key), b"%d" % i),
                                   (("INCR", key), i + 1), (("GET", key), b"%d" % (i + 1)),
                                   (("ECHO", key), key.encode()), (("DEL", key), 1),
                                   (("GET", key), None)):
                c.send(*command)
                want.append(reply)
        for i, w in enumerate(want):
            got = conclusive(c.reply())
            assert got == w, "reply %d: %r, not %r" % (i, got, w)


def test_reads_in_a_row(binary):
    with Cluster(binary, nodes=3).found() as k:
        c = k.conn(0)
        other = k.conn(0)
        want = []
        data = bytearray()

        def send(reply, *command):
            data.extend(encode(*command))
            want.append(reply)

        for i in range(40):
            send("OK", "SET", "r%d" % i, str(i) * 50)
        for turn in range(5):
            for i in range(60):  # some of them do not exist
                text = str(i) * 50 if i > 0 else str(max(turn - 1, 0)) * 50
                send(text.encode() if i < 40 else None, "GET", "r%d" % i)
                send(len(text) if i < 40 else 0, "STRLEN", "r%d" % i)
            send(str(max(turn - 1, 0)).encode() * 50, "GET", "r0")
            send("OK", "SET", "r0", str(turn) * 50)  # only those behind it see it
            for _ in range(20):
                send(str(turn).encode() * 50, "GET", "r0")
            send(str(turn).encode() * 9, "GETRANGE", "r0", "1", "9")
            send(b"", "GETRANGE", "r0", "60", "70")
            send(None, "GET", "l" * 300)
            send(-1, "PTTL", "r1")
            send("PONG", "PING")
            send(b"1" * 50, "GET", "r1")
            data.extend(encode("CLIENT", "REPLY", "SKIP") + encode("GET", "r0"))
            send(b"1" * 50, "GET", "r1")
        c.raw(data)
        for i, w in enumerate(want):
            got = conclusive(c.reply())
            assert got == w, "reply %d: %r, not %r" % (i, got, w)
        # replies are in the protocol's version of their command
        c.raw(encode("GET", "r100") + encode("HELLO", "3") + encode("GET", "r100") +
              encode("GET", "r1"))
        assert c.line() == b"$-1"
        assert c.reply()[1] is not None
        assert c.line() == b"_" and c.reply() == b"1" * 50
        for i in range(20):  # of several clients together, one of which goes
            other.send("GET", "r2")
            c.send("GET", "r3")
        other.close()
        for i in range(20):
            assert conclusive(c.reply()) == b"3" * 50


def test_refused_by_name(binary):
    with Cluster(binary, nodes=1).found() as k:
        c = k.conn(0)
        for name in ("MSET", "MSETNX", "RENAME", "RENAMENX", "COPY", "MOVE", "SWAPDB", "FLUSHALL",
                     "FLUSHDB", "WATCH", "EVAL", "WAIT", "SORT"):
            refused(c.cmd(name, "a", "b"), "'%s' is not supported" % name.lower())
        refused(c.cmd("MULTI"), "not supported")
        refused(c.cmd("SET", "a", "1"), "not run")
        refused(c.cmd("EXEC"), "EXECABORT")
        assert c.cmd("GET", "a") is None
        docs = c.cmd("COMMAND", "DOCS")
        assert b"get" in docs and b"mset" not in docs
        refused(c.cmd("SELECT", "1"), "out of range")
        refused(c.cmd("NOPE", "x"), "unknown command")
        refused(c.cmd("SET", "k" * 1025, "v"), "1024")
        refused(c.cmd("SET", "k", "v" * 65537), "--message-max")
        refused(c.cmd("SETRANGE", "k", "65530", "0123456789"), "--value-max")
        with k.conn(0) as web:  # a web page made a browser send this
            web.raw(b"POST / HTTP/1.1\r\nHost: x\r\n\r\nSET a 1\r\n")
            assert web.eof() == b""
        assert c.cmd("GET", "a") is None


def test_connections(binary):
    with Cluster(binary, nodes=1, options=["--requirepass", "secret"]).found_alone() as k:
        c = k.conn(0)
        refused(c.cmd("GET", "a"), "NOAUTH")
        refused(c.cmd("AUTH", "wrong"), "WRONGPASS")
        hello = c.cmd("HELLO", "3", "AUTH", "default", "secret", "SETNAME", "me")
        assert hello[hello.index(b"proto") + 1] == 3 and c.cmd("CLIENT", "GETNAME") == b"me"
        while isinstance(c.ask("GET", "a"), Error):  # it does not serve yet
            time.sleep(0.02)
        assert c.cmd("CONFIG", "GET", "requirepass") == [b"requirepass", b"secret"]
        assert 0 < int(c.cmd("CONFIG", "GET", "maxmemory-clients")[1]) <= 1 << 30  # the default
        assert c.cmd("RESET") == "RESET"
        refused(c.cmd("GET", "a"), "NOAUTH")
        assert c.cmd("AUTH", "secret") == "OK"

        def count(name):
            text = c.cmd("INFO", "stats").decode()
            return int(dict(line.split(":") for line in text.split() if ":" in line)[name])

        k.until(0, "AUTH", "wrong", want=lambda _: count("acl_access_denied_auth") > 0)
        assert count("total_error_replies") > 0
        assert c.cmd("CONFIG", "RESETSTAT") == "OK"
        assert count("acl_access_denied_auth") == count("total_error_replies") == 0
        assert count("total_commands_processed") < 10
        k.until(0, "AUTH", "wrong", want=lambda _: count("acl_access_denied_auth") > 0)
        c.send("CLIENT", "REPLY", "OFF")
        c.send("SET", "a", "1")
        assert c.cmd("CLIENT", "REPLY", "ON") == "OK"
        c.send("CLIENT", "REPLY", "SKIP")
        c.send("SET", "a", "2")
        assert c.cmd("GET", "a") == b"2"
        c.send("QUIT")
        c.send("SET", "a", "3")
        assert c.reply() == "OK" and c.eof() == b""
        with k.conn(0) as d:
            assert d.cmd("AUTH", "secret") == "OK" and d.cmd("GET", "a") == b"2"


def test_durability_of_a_command(binary):
    with Cluster(binary).found() as k:
        c = k.conn(0)
        assert c.cmd("DURABILITY") == [b"default", 0]
        for level in ("memory", "here", "all"):
            assert c.cmd("DURABILITY", level, "SET", "d", level) == "OK"
            assert k.conn(1).cmd("GET", "d") == level.encode()
        assert c.cmd("DURABILITY", "memory", "COPIES", "3", "INCR", "n") == 1
        refused(c.ask("DURABILITY", "all", "COPIES", "4", "SET", "d", "x"), "NOREPLICAS")
        assert c.cmd("READLEVEL", "all", "GET", "d") == b"all"
        assert c.cmd("DURABILITY", "scope") == "OK"
        assert c.cmd("SET", "s1", "1") == "OK" and c.cmd("SET", "s2", "2") == "OK"
        assert c.cmd("SCOPE", "SYNC") == "OK" and c.cmd("SCOPE", "SYNC") == "OK"
        refused(c.cmd("DURABILITY", "sometimes"), "durability")


def test_store_for_client_libraries(binary):
    with Cluster(binary).found() as k:
        a, b = k.conn(0), k.conn(1)
        serves, *addresses = a.cmd("STORE", "NODES")
        assert serves == 1 and len(addresses) == 3
        put = ("STORE", "PUT", "s", "v1", "SESSION", "77", "1", "0", "0")
        first = a.cmd(*put)
        assert first[0] == 0 and first[1] == 0 and first[5] == 3
        again = b.cmd(*put)  # executed once: the same version, marked as a repetition
        assert again[0] == 0 and again[1] == 1 and again[2] == first[2]
        got = b.cmd("STORE", "GET", "s")
        assert got[7] == b"v1" and got[2] == first[2]
        assert a.cmd("STORE", "PUT", "s", "v2", "IFVERSION", str(got[2]))[0] == 0
        refusal = b.cmd("STORE", "PUT", "s", "v3", "IFVERSION", str(got[2]))
        assert refusal[0] == -125 and refusal[7] == b"v2"
        assert a.cmd("STORE", "PUT", "s", "x", "IF", "absent")[0] == -125
        assert a.cmd("STORE", "DEL", "s", "SESSION", "77", "2", str(got[2]), "0")[0] == 0
        assert b.cmd("STORE", "GET", "s")[0] == -2


def changes(conn, count, overflows=False):
    """The next changes: (id, kind, key, value), and the last position."""
    out, position = [], None
    for _ in range(count):
        word, number, kind, key, value, _, position = conn.reply()
        assert word == b"watch"
        if kind == b"overflow" and not overflows:
            evidence.inconclusive("a watch has overflowed: a node was out, and has learned")
        out.append((number, kind.decode(), key, value))
    return out, position


def test_watches(binary):
    with Cluster(binary, shards=2).found() as k:
        a, w = k.conn(0), k.conn(1)  # writes at one node are seen at another
        assert w.cmd("WATCHKEY", "a") == 1
        assert changes(w, 1)[0] == [(1, "begin", b"a", None)]
        for command in (("SET", "a", "1"), ("INCR", "a"), ("DEL", "a"), ("SET", "b", "1")):
            a.cmd(*command)
        got, position = changes(w, 3)
        assert got == [(1, "put", b"a", b"1"), (1, "put", b"a", b"2"), (1, "delete", b"a", None)]
        refused(w.cmd("GET", "a"), "only WATCHKEY")
        assert w.cmd("PING") == [b"pong", b""]
        assert w.cmd("UNWATCHKEY", "1") == 1 and w.cmd("GET", "b") == b"1"
        a.cmd("SET", "a", "3")
        assert w.cmd("WATCHKEY", "a", "FROM", position) == 2  # no gap
        assert changes(w, 2)[0] == [(2, "begin", b"a", None), (2, "put", b"a", b"3")]
        assert w.cmd("RESET") == "RESET"
        refused(w.cmd("WATCHKEY", "a", "FROM", "x"), "positions")
        assert w.cmd("WATCHPREFIX", "a", "FROM", position) == 3  # of one shard; changes of the
        assert sorted(changes(w, 3, True)[0], key=str) == [  # other may be missing
            (3, "begin", b"a", None), (3, "overflow", b"a", None), (3, "put", b"a", b"3")]
        assert w.cmd("RESET") == "RESET"
        assert w.cmd("WATCHPREFIX", "p:") == 4
        assert sorted(changes(w, 2)[0]) == [(4, "begin", b"p:", None)] * 2
        k.put(0, (("p:%d" % i, str(i)) for i in range(100)))
        got, want = [], {(4, "put", b"p:%d" % i, b"%d" % i) for i in range(100)}
        while len(set(got)) < 100:
            got += changes(w, 1)[0]
        assert set(got) == want
        slow = k.conn(1)  # it does not read: it gets `overflow`, others do not
        assert slow.cmd("WATCHKEY", "p:1") == 1
        for i in range(3000):
            a.send("SET", "p:1", "%d" % i + "x" * 4000)
        for i in range(3000):
            a.reply()  # without a lease for a moment, a node refuses
        k.put(0, [("p:1", "last")])
        got = changes(slow, 1, True)[0]
        while got[-1][1] != "overflow" and got[-1][3] != b"last":
            got += changes(slow, 1, True)[0]
        assert got[0][1] == "begin"
        w.close()
        slow.close()
        k.until(1, "INFO", "clients", want=lambda r: b"connected_clients:1\r\n" in r)


def test_a_port_of_a_killed_node(binary):
    """What it had in an io_uring the kernel closes some time later: its successor waits."""
    with Cluster(binary, 1) as k:
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as s:
            s.bind(("127.0.0.1", k.peers[0]))
            k.start(0, True)
            time.sleep(0.5)
        k.wait(0)


def test_start_up_errors(binary):
    with Cluster(binary, nodes=1).found() as k:
        other = os.path.join(k.directory, "other")
        ends(k, 0, ["--listen", "127.0.0.1:0"], "locked", "running already")
        # a port that is taken
        with socket.socket() as s:
            s.bind(("127.0.0.1", 0))
            s.listen()
            ends(k, 0, ["--dir", other, "--listen", "127.0.0.1:%d" % s.getsockname()[1], "--peers",
                        "127.0.0.1:%d" % free_ports(1, 2)[0]], "cannot listen", "--listen")
        ends(k, 0, ["--dir", "/nowhere/at/all"], "/nowhere/at/all")
        ends(k, 0, ["--node", "5"], "--node", "5")
        ends(k, 0, ["--listen", "0.0.0.0:0"], "--requirepass")
        k.kill(0)
        ends(k, 0, ["--witness", "0"], "witness")
        ends(k, 0, ["--peers", "127.0.0.1:65535", "--shards", "2"], "--peers", "65535",
             "the port plus S")
        log = os.path.join(k.directory, "0", "shard-0.log")
        # another cluster's log
        ends(k, 0, ["--cluster", "99"], "another cluster")
        ends(k, 0, ["--shards", "2"], "--shards", "cannot be changed")
        # another size than that of the log, which stays as it is
        ends(k, 0, ["--log-size", "128M"], "--log-size", "67108864", "134217728")
        assert os.stat(log).st_size == 64 << 20
        # a new log that is too small for the values: it would be made, and stay so
        new = os.path.join(k.directory, "new")
        ends(k, 0, ["--dir", new, "--value-max", "8M", "--log-size", "256M"], "--log-size",
             "8388608", "--value-max", "at least 257M")
        assert not os.path.exists(os.path.join(new, "shard-0.log"))
        shutil.rmtree(os.path.join(k.directory, "0"))
        os.makedirs(os.path.join(k.directory, "0"))
        with open(log, "wb") as f:
            f.write(b"x" * 100000)
        ends(k, 0, [], "not a log")


def test_starts_again(binary):
    """Without --log-size a log keeps its size; --found is ignored with a warning."""
    with Cluster(binary, nodes=1).found() as k:
        assert k.conn(0).cmd("SET", "key", "value") == "OK"
        log = os.path.join(k.directory, "0", "shard-0.log")
        for grown in (64 << 20, 96 << 20):
            k.kill(0)
            os.truncate(log, grown)
            command = k.command(0, True)
            at = command.index("--log-size")
            with open(os.path.join(k.directory, "0.log"), "ab") as f:
                k.processes[0] = subprocess.Popen(command[:at] + command[at + 2:], stdout=f,
                                                  stderr=f)
            k.wait(0)
            assert k.conn(0).cmd("GET", "key") == b"value" and os.stat(log).st_size == grown
            assert "--found is ignored" in k.log(0), k.log(0)
            assert ("of the log's file are not used" in k.log(0)) == (grown > 64 << 20), k.log(0)


def test_a_log_for_the_longest_values(binary):
    """Without --log-size a new log has room for them."""
    with Cluster(binary, nodes=1, options=["--value-max", "8M"]) as k:
        command = k.command(0, True)
        at = command.index("--log-size")
        with open(os.path.join(k.directory, "0.log"), "ab") as f:
            k.processes[0] = subprocess.Popen(command[:at] + command[at + 2:], stdout=f, stderr=f)
        k.wait(0)
        assert os.stat(os.path.join(k.directory, "0", "shard-0.log")).st_size == 512 << 20


def listeners(port):
    """How many sockets listen on the port."""
    with open("/proc/net/tcp", encoding="ascii") as f:
        rows = [line.split() for line in f.readlines()[1:]]
    return sum(int(r[1].split(":")[1], 16) == port and r[3] == "0A" for r in rows)


def test_the_port_opens_when_all_loops_accept(binary):
    with Cluster(binary, nodes=1, shards=4).found() as k:
        k.kill(0)
        while listeners(k.ports[0]):
            pass
        with socket.socket() as left:  # as those of a killed node: it answers nothing
            left.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            left.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
            left.bind(("127.0.0.1", k.ports[0]))
            left.listen()
            ends(k, 0, [], "cannot listen", "--listen")  # never beside it
            k.start(0)
        for _ in range(4):
            taken = False
            for _ in range(200):  # from the first that is taken on each is answered
                while True:
                    try:
                        c = socket.create_connection(("127.0.0.1", k.ports[0]), WAIT)
                        break
                    except ConnectionRefusedError:
                        assert not taken and k.processes[0].poll() is None, k.log(0)
                taken = True
                with c:
                    c.sendall(b"PING\r\n")
                    assert c.recv(64) == b"+PONG\r\n"
            k.kill(0)
            while listeners(k.ports[0]):
                pass
            k.start(0)


if __name__ == "__main__":
    carry_out(tests_of(globals()), sys.argv[2:], sys.argv[1])
