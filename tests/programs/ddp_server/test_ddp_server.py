#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Three real nodes: commands, durability, deaths, start-up errors.

    test_ddp_server.py BINARY [NAME ...]
"""
import os
import shutil
import signal
import socket
import subprocess
import sys
import time

from ddpserver import (WAIT, Client, Closed, Cluster, Disturbed, Error, encode, free_ports, refused,
                       repeated, undisturbed)
from stopped import stop_and_continue


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
            got = undisturbed(c.reply())
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
            got = undisturbed(c.reply())
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
            assert undisturbed(c.reply()) == b"3" * 50


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
        refused(c.cmd("SETRANGE", "k", "65530", "0123456789"), "exceeds")
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
        while isinstance(c.cmd("GET", "a"), Error):  # it does not serve yet
            pass
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
            raise Disturbed("a node was out, and has learned what it missed")
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
        assert w.cmd("WATCHPREFIX", "p:") == 3
        assert sorted(changes(w, 2)[0]) == [(3, "begin", b"p:", None)] * 2
        k.put(0, (("p:%d" % i, str(i)) for i in range(100)))
        got, want = [], {(3, "put", b"p:%d" % i, b"%d" % i) for i in range(100)}
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


def fields(reply):
    """An array of names and values."""
    return dict(zip((n.decode() for n in reply[::2]), reply[1::2]))


def test_a_node_dies_and_returns(binary):
    with Cluster(binary, shards=2).found() as k:
        c = k.conn(0)
        k.put(0, (("k%d" % i, "before%d" % i) for i in range(300)))
        k.kill(2)
        k.until(0, "SET", "k0", "while", want=lambda r: r == "OK")
        k.put(0, (("k%d" % i, "while%d" % i) for i in range(1, 100)))
        assert c.cmd("DEL", "k299") == 1
        k.start(2)
        k.wait(2)
        d = k.conn(2)
        assert d.cmd("GET", "k0") == b"while" and d.cmd("GET", "k299") is None
        for i in range(1, 299):
            assert d.cmd("GET", "k%d" % i) == b"%s%d" % (b"while" if i < 100 else b"before", i)
        if k.log(2).count("is learning the keys") > 2:
            raise Disturbed("a shard has learned more than once")
        got = [fields(fields(s)["progress"]) for s in d.cmd("CLUSTER", "STATE")[5]]
        assert all(p["learning"] == p["unconfirmed"] == p["reading"] == 0 for p in got), got
        assert sum(p["confirmed"] for p in got) >= 199 and all(p["read_total"] for p in got), got
        assert 100 <= sum(p["pulled"] for p in got) <= 101, got
        assert k.log(2).count("has opened its log") >= 2 and "has learned" in k.log(2), k.log(2)
        for i in range(3):  # all at once, as by a power failure
            k.kill(i)
        for i in range(3):
            k.start(i)
        for i in range(3):
            k.wait(i)
        c = k.conn(1)
        for i in range(1, 299):
            assert c.cmd("GET", "k%d" % i) == b"%s%d" % (b"while" if i < 100 else b"before", i)


def test_one_of_three_refuses_writes(binary):
    with Cluster(binary).found() as k:
        c = k.conn(0)
        assert c.cmd("SET", "a", "1") == "OK"
        k.kill(1)
        k.kill(2)
        k.until(0, "GET", "a", want=lambda r: isinstance(r, Error))
        refused(c.ask("SET", "a", "2"), "CLUSTERDOWN")
        assert c.cmd("PING") == "PONG"
        k.start(1)
        k.wait(0)
        assert c.cmd("GET", "a") == b"1"
        k.until(0, "SET", "a", "3", want=lambda r: r == "OK")


def test_a_ttl_that_is_over(binary):
    """The key is there until its deletion is possible again; it is none that has no TTL."""
    with Cluster(binary, options=["--min-full", "3"]).found() as k:
        c = k.conn(0)
        for ttl in (1.5, 6, 24):  # it is over when no deletion is possible
            began = time.monotonic()
            assert c.cmd("SET", "a", "1", "PX", "%d" % (ttl * 1000)) == "OK"
            k.kill(2)
            k.until(0, "SET", "b", "1", want=lambda r: "NOREPLICAS" in str(r))
            left = began + ttl - time.monotonic()
            if left > 0:
                break
            k.start(2)
            k.wait(2)
        else:
            raise Disturbed("the TTL was over before a node's end was noticed")
        time.sleep(left + 0.5)
        assert c.cmd("GET", "a") == b"1" and c.cmd("PTTL", "a") in (0, 1)
        assert c.cmd("STORE", "GET", "a")[4] == 1
        assert c.cmd("SCANKEYS", "", "PREFIX", "a", "VALUES") == [b"", [b"a", b"1", 1]]
        k.start(2)
        k.until(0, "EXISTS", "a", want=lambda r: r == 0)


def test_two_nodes(binary):
    """One death stops writes, unless there is a witness and --min-full 1."""
    with Cluster(binary, nodes=2, options=["--request-timeout", "2"]).found() as k:
        c = k.conn(0)
        assert c.cmd("SET", "a", "1") == "OK"
        k.kill(1)
        for _ in range(3):
            c.send("SET", "a", "2")  # the last one is answered, too, though it waits for others
        c.send("MGET", "a", "b")
        first = c.reply()
        if isinstance(first, Error) and first.split()[0] in ("CLUSTERDOWN", "NOREPLICAS"):
            raise Disturbed("the node's end was noticed before the command came")
        refused(first, "UNKNOWN")
        while isinstance(c.reply(), Error) and len(c.data) > c.at:
            pass
        k.until(0, "SET", "a", "2", want=lambda r: isinstance(r, Error))
        k.start(1)
        k.until(0, "SET", "a", "3", want=lambda r: r == "OK")
    with Cluster(binary, options=["--witness", "2", "--min-full", "1"]) as k:
        for i in range(3):
            k.start(i, True)
        k.wait(0)
        c = k.conn(0)
        assert c.cmd("SET", "a", "1") == "OK"
        k.kill(1)

        def takes(reply):
            if "waits for the nodes of the last membership" in str(reply):
                raise Disturbed("node 0 was out when node 1 ended")
            return reply == "OK"
        k.until(0, "SET", "a", "2", want=takes)
        refused(k.conn(2).ask("GET", "a"), "CLUSTERDOWN")


def test_a_lease_that_has_just_ended(binary):
    """The error does not contradict itself: the node is stopped for longer than its lease."""
    with Cluster(binary, nodes=1).found() as k:
        c, errors = k.conn(0), []
        while len(errors) < 3:
            k.processes[0].send_signal(signal.SIGSTOP)
            for i in range(20):
                c.send("GET", "k%d" % i)
                c.send("SET", "k%d" % i, "v")
            time.sleep(0.6)
            k.processes[0].send_signal(signal.SIGCONT)
            errors += [r for r in (c.reply() for _ in range(40)) if isinstance(r, Error)]
        for e in errors:
            assert "lease" in str(e), e


def test_orderly_end(binary):
    with Cluster(binary).found() as k:
        c = k.conn(2)
        for i in range(200):
            c.send("SET", "e%d" % i, "v")
        assert c.reply() == "OK"
        assert k.kill(2, signal.SIGTERM) == 0
        done = 1
        try:
            while c.reply() == "OK":
                done += 1
        except Closed:
            pass
        k.until(0, "GET", "e0", want=lambda r: r == b"v")
        d = k.conn(0)
        assert sum(d.cmd("GET", "e%d" % i) == b"v" for i in range(200)) >= done


def run(*command, code=0):
    p = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=WAIT,
                       check=False)
    text = p.stdout.decode()
    if p.returncode == 1 != code and any(": %s " % w in text for w in Client.DISTURBED):
        raise Disturbed(text)
    assert p.returncode == code, (p.returncode, text)
    return text


def shows(*command, code=0, want):
    """What it prints once that is as wanted: a node may have no lease for a moment."""
    end = time.monotonic() + WAIT
    while True:
        p = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=WAIT,
                           check=False)
        text = p.stdout.decode()
        if p.returncode == code and want(text):
            return text
        assert time.monotonic() < end, (p.returncode, text)
        time.sleep(0.1)


def test_founding_ctl_and_backup(binary):
    with Cluster(binary, shards=2) as k:
        conf = os.path.join(k.directory, "c.conf")
        run(binary, "found", "--file", conf, "--shards", "2", "--peers",
            ",".join("127.0.0.1:%d" % p for p in k.peers), "--clients",
            ",".join("127.0.0.1:%d" % p for p in k.ports))
        assert "exists" in run(binary, "found", "--file", conf, "--peers", "127.0.0.1:1", code=1)
        assert os.stat(conf + ".key").st_mode & 0o777 == 0o600
        k.config = conf
        k.found()
        c = k.conn(0)
        k.put(0, (("k%d" % i, "value %d" % i * (i % 50)) for i in range(1500)))
        assert c.cmd("SET", "ttl", "x", "PX", "1000000") == "OK"
        refused(c.cmd("ADMIN", "DRAIN"), "NOPERM")
        refused(c.cmd("MEMBERS", "REMOVE", "1"), "NOPERM")
        refused(c.cmd("ADMIN", "PROVE", "00" * 32), "WRONGPASS")
        shows(binary, "ctl", "status", "--config", conf, want=lambda text: (
            text.count("serves"), text.count("full 0,1,2"), text.count(": up")) == (6, 6, 12))
        other = os.path.join(k.directory, "other.key")
        with open(other, "w", encoding="utf-8") as f:
            f.write("ab" * 32 + "\n")
        assert "read by others" in run(binary, "ctl", "status", "--cluster-key", other, code=1)
        os.chmod(other, 0o600)
        at = "127.0.0.1:%d" % k.ports[1]
        text = run(binary, "ctl", "drain", "--config", conf, code=2)
        assert "--connect is missing" in text, text
        text = run(binary, "ctl", "drain", "--config", conf, "--connect", at, "--node", "2", code=2)
        assert "--node is of add, remove and replace" in text, text
        wrong = run(binary, "ctl", "drain", "--cluster-key", other, "--connect", at, code=1)
        assert "not the cluster's key" in wrong, wrong
        backup = os.path.join(k.directory, "backup")
        assert "1501 keys" in run(binary, "ctl", "backup", "--config", conf, "--file", backup)
        fifo = os.path.join(k.directory, "fifo")
        os.mkfifo(fifo)
        text = run(binary, "ctl", "backup", "--config", conf, "--file", fifo, code=1)
        assert "not a regular file" in text, text
        for i in range(0, 1500, 2):
            c.cmd("DEL", "k%d" % i)
        assert c.cmd("SET", "k1", "newer") == "OK"
        text = run(binary, "ctl", "restore", "--config", conf, "--file", backup, "--if-absent")
        assert "750 keys restored" in text and "751 existed" in text, text
        assert c.cmd("GET", "k1") == b"newer" and c.cmd("DBSIZE") == 1501
        text = run(binary, "ctl", "restore", "--config", conf, "--file", backup)
        assert "1501 keys" in text and "kept" not in text, text
        assert c.cmd("SET", "newer", "1") == c.cmd("SET", "newest", "1") == "OK"
        text = run(binary, "ctl", "restore", "--config", conf, "--file", backup)
        assert "1501 keys" in text and "2 that the file does not have are kept" in text, text
        assert c.cmd("DEL", "newer", "newest") == 2
        for i in range(1500):
            assert c.cmd("GET", "k%d" % i) == b"value %d" % i * (i % 50)
        assert 900000 < c.cmd("PTTL", "ttl") <= 1000000
        with open(backup, "r+b") as f:
            f.seek(5000)
            f.write(b"\xff")
        text = run(binary, "ctl", "restore", "--config", conf, "--file", backup, code=1)
        assert "damaged" in text, text
        assert "ends" in run(binary, "ctl", "drain", "--config", conf, "--connect", at)
        assert k.processes[1].wait(WAIT) == 0
        k.processes[1] = None
        # its disk is lost: the node is replaced by one with an empty directory
        shutil.rmtree(os.path.join(k.directory, "1"))
        run(binary, "ctl", "replace", "--config", conf, "--node", "1")
        k.start(1)
        k.wait(1)
        with k.conn(1) as d:
            assert d.cmd("DBSIZE") == 1501 and d.cmd("GET", "k42") == b"value 42" * 42
        settled(k, 0, full=[0, 1, 2])
        text = shows(binary, "ctl", "status", "--config", conf, want=lambda text: (
            text.count("min_full 2,") == 6 and "refused" not in text))
        own = text.split(": node 1 of 3\n")[1].split(": node 2 of 3\n")[0]
        assert own.count("has learned: 100% of the keys compared") == 2, text
        k.kill(1)
        # a node with another key is no node of this cluster
        k.start(1, options=["--cluster-key", other])
        k.until(0, "CLUSTER", "STATE", want=lambda r: b"down" in str(r).encode())
        refused(k.until(1, "GET", "k1", want=lambda r: "cluster key" in str(r)), "CLUSTERDOWN")
        for key, words in ((["--cluster-key", other],
                            "has another cluster key than the other nodes (--cluster-key)"),
                           ([], "not the cluster's key that this node has")):
            shows(binary, "ctl", "status", "--config", k.config, *key, code=1,
                  want=lambda text, words=words: words in text)
        k.logs(1, "no connection with node 0: key:", "node 2: key:",
               "no other node has this node's cluster key")
        k.logs(0, "no connection with node 1: key:")


def test_ctl_is_stopped(binary):
    """And continued, as by the terminal, while it waits for a node."""
    with Cluster(binary, nodes=1) as k, socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        s.listen()
        key = os.path.join(k.directory, "key")
        with open(key, "w", encoding="utf-8", opener=lambda n, f: os.open(n, f, 0o600)) as f:
            f.write("ab" * 32 + "\n")
        p = subprocess.Popen([binary, "ctl", "drain", "--cluster-key", key, "--connect",
                              "127.0.0.1:%d" % s.getsockname()[1]], stdout=subprocess.PIPE,
                             stderr=subprocess.STDOUT)
        with s.accept()[0] as node:
            assert b"CHALLENGE" in node.recv(100)
            stop_and_continue(p)
            node.sendall(b"-ERR tomorrow\r\n")
            text = p.communicate(timeout=WAIT)[0]
        assert p.returncode == 1 and b"is not a ddp_server" in text, text  # not: interrupted


def test_a_lost_disk_has_no_vote(binary):
    """A node that was started with an empty directory and without `replace`."""
    with Cluster(binary) as k:
        k.config = os.path.join(k.directory, "c.conf")
        run(binary, "found", "--file", k.config, "--peers",
            ",".join("127.0.0.1:%d" % p for p in k.peers), "--clients",
            ",".join("127.0.0.1:%d" % p for p in k.ports))
        k.found()
        status = (binary, "ctl", "status", "--config", k.config)
        shows(*status, want=lambda text: "no vote" not in text)
        k.kill(1)
        shutil.rmtree(os.path.join(k.directory, "1"))
        k.start(1)
        k.wait(1)
        text = shows(*status, code=1, want=lambda text: (
            text.count("serves"), text.count("has no vote")) == (3, 1))
        assert "`ddp_server ctl replace --node 1`" in text, text
        assert "has no vote" in k.log(1), k.log(1)
        run(binary, "ctl", "replace", "--config", k.config, "--node", "1")
        k.until(1, "CLUSTER", "STATE",
                want=lambda r: all(fields(s)["vote"] == 1 and fields(s)["serves"] for s in r[5]))
        settled(k, 0, full=[0, 1, 2])
        k.kill(0)  # the two others are a majority
        k.until(1, "SET", "k", "v", want=lambda r: r == "OK")


def test_replace_of_a_node_that_learns(binary):
    """Started with an empty directory, replaced while it learns: the directory is not void. Of the
    two shards one may be heard, or learn, before the other."""
    with Cluster(binary, shards=2) as k:
        k.config = os.path.join(k.directory, "c.conf")
        run(binary, "found", "--file", k.config, "--shards", "2", "--peers",
            ",".join("127.0.0.1:%d" % p for p in k.peers), "--clients",
            ",".join("127.0.0.1:%d" % p for p in k.ports))
        k.found()
        k.put(0, (("k%d" % i, "v" * 4000) for i in range(8000)))
        k.kill(1)
        k.until(0, "CLUSTER", "STATE", want=lambda r: not any(
            1 in fields(s)["hears"] + fields(s)["full"] for s in r[5]))
        shutil.rmtree(os.path.join(k.directory, "1"))
        k.start(1)
        at = ("--config", k.config, "--connect", "127.0.0.1:%d" % k.ports[0])
        refusals = []

        def replaced(reply):
            if not refusals and not any(fields(s)["learners"] for s in reply[5]):
                return False
            p = subprocess.run([binary, "ctl", "replace", *at, "--node", "1"],
                               stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=WAIT,
                               check=False)
            refusals.append(p.stdout.decode())
            # the shards refuse each for itself: the last try of a ctl may have been the change
            return p.returncode == 0 or len(refusals) > 1 and "has its vote" in refusals[-1]

        def votes(reply):
            shards = [fields(s) for s in reply[5]]
            if any(b"was removed or replaced" in s["state"] for s in shards):
                raise Disturbed("replaced a second time: a shard took the node for dead")
            return all(s["vote"] == 1 and s["serves"] for s in shards)
        k.until(0, "CLUSTER", "STATE", want=replaced)
        k.until(1, "CLUSTER", "STATE", want=votes)
        settled(k, 0, full=[0, 1, 2])
        p = subprocess.run([binary, "ctl", "replace", *at, "--node", "1"], stdout=subprocess.PIPE,
                           stderr=subprocess.STDOUT, timeout=WAIT, check=False)
        text = p.stdout.decode()
        if p.returncode == 0 or "TRYAGAIN" in text:
            raise Disturbed("a shard has taken the node for dead")
        assert "ERR node 1 is alive" in text and "stop it first" in text, text


def test_status_of_a_witness(binary):
    """It serves no client, and that is no error."""
    with Cluster(binary) as k:
        k.config = os.path.join(k.directory, "c.conf")
        run(binary, "found", "--file", k.config, "--witness", "2", "--min-full", "1", "--peers",
            ",".join("127.0.0.1:%d" % p for p in k.peers), "--clients",
            ",".join("127.0.0.1:%d" % p for p in k.ports))
        for i in range(3):
            k.start(i, True)
        k.until(2, "GET", "k", want=lambda r: "is a witness" in str(r))
        k.wait(0)
        k.wait(1)
        shows(binary, "ctl", "status", "--config", k.config,
              want=lambda text: "is a witness" in text and "refused" not in text)
        third = "127.0.0.1:%d" % k.ports[2]
        backup = ["--config", k.config, "--file", os.path.join(k.directory, "backup"), "--connect",
                  "%s,127.0.0.1:%d" % (third, k.ports[0])]
        assert "0 keys" in run(binary, "ctl", "backup", *backup)  # of one that serves
        k.kill(0)
        k.kill(1)
        k.until(2, "CLUSTER", "STATE", want=lambda r: len(fields(r[5][0])["hears"]) == 1)
        assert "cannot connect" in run(binary, "ctl", "backup", *backup, code=1)
        assert "does not serve" in run(binary, "ctl", "backup", *backup[:4], "--connect", third,
                                       code=1)
        run(binary, "ctl", "status", "--config", k.config, "--connect", third, code=1)


def test_a_port_of_a_killed_node(binary):
    """What it had in an io_uring the kernel closes some time later: its successor waits."""
    with Cluster(binary, 1) as k:
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as s:
            s.bind(("127.0.0.1", k.peers[0]))
            k.start(0, True)
            time.sleep(0.5)
        k.wait(0)


def settled(k, i, **want):
    """Until each shard of node i reports these, and nothing is vacant."""
    def right(reply):
        for s in reply[5]:
            s = fields(s)
            if s["vacant"] or any(s[n] != v for n, v in want.items()):
                return False
        return True
    k.until(i, "CLUSTER", "STATE", want=right)


def test_two_of_three_disks_are_lost(binary):
    """The third one continues after an override, whether it ran on or was started again."""
    for again in (False, True):
        with Cluster(binary, shards=2) as k:
            k.config = os.path.join(k.directory, "c.conf")
            run(binary, "found", "--file", k.config, "--shards", "2", "--peers",
                ",".join("127.0.0.1:%d" % p for p in k.peers), "--clients",
                ",".join("127.0.0.1:%d" % p for p in k.ports))
            k.found()
            k.put(0, (("k%d" % i, "v%d" % i) for i in range(400)))
            settled(k, 0, full=[0, 1, 2])  # the third one has them
            for i in (0, 1, 2) if again else (0, 1):
                k.kill(i)
            for i in (0, 1):
                shutil.rmtree(os.path.join(k.directory, str(i)))
            if again:
                k.start(2)
            k.until(2, "GET", "k1", want=lambda r: "CLUSTERDOWN" in str(r))
            k.until(2, "CLUSTER", "STATE", want=lambda r: all(
                fields(fields(s)["progress"])["reading"] == 0 for s in r[5]))
            ctl = (binary, "ctl", "override", "--config", k.config)
            third = "127.0.0.1:%d" % k.ports[2]
            assert "--connect" in run(*ctl, "--ended", "0,1", code=2)
            text = run(*ctl, "--ended", "0,1", "--connect", third, code=1)
            assert "WARNING" in text and "nothing was done" in text and "--yes" in text, text
            refused(k.conn(2).ask("GET", "k1"), "CLUSTERDOWN")
            assert "this node itself" in run(*ctl, "--ended", "0,2", "--yes", "--connect", third,
                                             code=1)
            text = run(*ctl, "--ended", "0,1", "--yes", "--connect", third)
            assert "WARNING" in text and "replace" in text, text
            k.wait(2)
            with k.conn(2) as d:
                assert d.cmd("DBSIZE") == 400
                assert d.cmd("MGET", *["k%d" % i for i in range(400)]) == [
                    b"v%d" % i for i in range(400)]
            # at first the node may count the others still: then its write is unknown
            k.until(2, "SET", "k0", "x", want=lambda r: "NOREPLICAS" in str(r))
            for i in (0, 1):
                run(binary, "ctl", "replace", "--config", k.config, "--connect", third, "--node",
                    str(i))
                k.start(i)
                k.wait(i)
                settled(k, 2, full=[0, 2] if i == 0 else [0, 1, 2])
            with k.conn(1) as d:
                assert d.cmd("SET", "k0", "x") == "OK" and d.cmd("DBSIZE") == 400
                assert d.cmd("MGET", *["k%d" % i for i in range(1, 400)]) == [
                    b"v%d" % i for i in range(1, 400)]


def test_override_with_an_old_log(binary):
    with Cluster(binary) as k:
        k.config = os.path.join(k.directory, "c.conf")
        run(binary, "found", "--file", k.config, "--peers",
            ",".join("127.0.0.1:%d" % p for p in k.peers))
        k.found()
        with k.conn(0) as c:
            assert c.cmd("DURABILITY", "all", "COPIES", "3", "SET", "old", "1") == "OK"
            k.kill(2)
            k.until(0, "SET", "new", "1", want=lambda r: r == "OK")  # without node 2
        for i in (0, 1):
            k.kill(i)
            shutil.rmtree(os.path.join(k.directory, str(i)))
        k.start(2)
        k.until(2, "GET", "old", want=lambda r: "CLUSTERDOWN" in str(r))
        ctl = (binary, "ctl", "override", "--config", k.config, "--yes", "--ended", "0,1",
               "--connect", "127.0.0.1:%d" % k.ports[2])
        run(*ctl)
        time.sleep(1)  # it must not begin
        refused(k.conn(2).ask("GET", "old"), "CLUSTERDOWN")
        assert "may be lost" in run(*ctl, "--any-log")
        k.wait(2)
        with k.conn(2) as d:
            assert d.cmd("GET", "old") == b"1" and d.cmd("GET", "new") is None


def test_add_and_remove(binary):
    with Cluster(binary, nodes=4) as k:
        conf = os.path.join(k.directory, "c.conf")
        run(binary, "found", "--file", conf, "--peers",
            ",".join("127.0.0.1:%d" % p for p in k.peers[:3]))
        k.config = conf
        for i in range(3):
            k.start(i, True)
        k.wait(0)
        at = ["--config", conf, "--connect", "127.0.0.1:%d" % k.ports[0]]
        c = k.conn(0)
        k.put(0, (("k%d" % i, str(i)) for i in range(500)))
        text = run(binary, "ctl", "add", *at, "--node", "3", "--address",
                   "127.0.0.1:%d" % k.peers[3])
        assert "writes will need 3 nodes with all keys instead of 2" in text, text
        assert "--client was not given" in text, text
        assert "configured already" in run(binary, "ctl", "add", *at, "--node", "1", "--address",
                                           "127.0.0.1:1", code=1)
        k.start(3, options=["--peers", ",".join("127.0.0.1:%d" % p for p in k.peers)])
        settled(k, 0, full=[0, 1, 2, 3])
        k.wait(3)
        assert k.conn(3).cmd("DBSIZE") == 500
        assert c.cmd("CLUSTER", "STATE")[:4] == [b"node", 0, b"nodes", 4]
        text = run(binary, "ctl", "remove", *at, "--node", "1")
        assert "writes will need 2 nodes with all keys instead of 3" in text, text
        settled(k, 0, full=[0, 2, 3], configured=[0, 2, 3])
        refused(k.conn(1).ask("GET", "k1"), "CLUSTERDOWN")
        k.until(1, "GET", "k1", want=lambda r: "was removed" in str(r))
        k.logs(1, "was removed")
        k.kill(1)
        assert "no such node" in run(binary, "ctl", "remove", *at, "--node", "9", code=1)
        k.kill(2)  # the new node counts
        k.until(0, "SET", "k1", "x", want=lambda r: r == "OK")
        assert k.conn(3).cmd("GET", "k1") == b"x"


def ends(k, i, options, *words, found=False):
    p = subprocess.run(k.command(i, found, options), stdout=subprocess.PIPE,
                       stderr=subprocess.STDOUT, timeout=WAIT, check=False)
    text = p.stdout.decode()
    assert p.returncode in (1, 2), (p.returncode, text)
    for w in words:
        assert w in text, "%r without %r" % (text, w)


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
        log = os.path.join(k.directory, "0", "shard-0.log")
        # another cluster's log
        ends(k, 0, ["--cluster", "99"], "another cluster")
        ends(k, 0, ["--shards", "2"], "--shards", "cannot be changed")
        # another size than that of the log, which stays as it is
        ends(k, 0, ["--log-size", "128M"], "--log-size", "67108864", "134217728")
        assert os.stat(log).st_size == 64 << 20
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


def main():
    binary = sys.argv[1]
    tests = {n[5:]: f for n, f in globals().items() if n.startswith("test_")}
    for name in sys.argv[2:] or tests:
        repeated(tests[name], binary)
        print("ok", name, flush=True)


if __name__ == "__main__":
    main()
