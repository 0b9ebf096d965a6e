#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 OR MIT
"""The limits of ddp_server: options, and clients that do not read, flood, or send too much.

    test_ddp_limits.py BINARY [NAME ...]
"""
import os
import resource
import socket
import subprocess
import sys
import time

from ddpserver import (WAIT, Closed, Cluster, Error, carry_out, conclusive, refused,
                       tests_of)

sys.path.insert(0, os.path.join(os.path.dirname(os.path.realpath(__file__)), "../../support"))
from kvnode import encode, rss_kib  # noqa: E402

RANGES = {"node": (0, 15), "shards": (1, 64), "cluster": (1, 2 ** 63 - 1), "witness": (0, 15),
          "log-size": (64 << 20, 1 << 40), "keys": (1024, 4000000000),
          "memory": (64 << 20, 1 << 40),
          "value-max": (1024, 8 << 20), "message-max": (9 << 20, 1 << 30), "min-full": (1, 16),
          "connections": (1, 60000), "timeout": (0, 4000000), "spin": (0, 1000000),
          "stats": (0, 86400), "request-timeout": (1, 3600)}
TEXTS = {"requirepass": "x" * 512, "protected-mode": "maybe", "maxmemory-clients": "101%",
         "client-output-buffer-limit": "normal 1", "client-query-buffer-limit": "1"}


def test_options(binary):
    def output(*options):
        p = subprocess.run([binary, *options], stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                           timeout=WAIT, check=False)
        assert p.returncode == 2, options
        return p.stdout.decode()
    for name, (least, most) in RANGES.items():
        for value in (least - 1, most + 1, 10 * most):
            if value >= 0:
                assert "--" + name in output("--" + name, str(value)), (name, value)
    for name, value in TEXTS.items():
        assert "--" + name in output("--" + name, value)
    many = ",".join("127.0.0.1:%d" % (20000 + i) for i in range(17))
    assert "16 nodes" in output("--peers", many, "--node", "0")
    for verb, name, value in (("found", "shards", "65"), ("found", "value-max", "1"),
                              ("found", "witness", "16"), ("found", "min-full", "0"),
                              ("ctl", "node", "16")):
        assert "--" + name in output(verb, "--" + name, value)
    assert "--config or --cluster-key" in output("ctl", "status")
    assert "--peers of all nodes" in output("--peers", "127.0.0.1:20000", "--node", "1")


def figure(c, name):
    text = c.cmd("INFO", "stats").decode()
    return int(dict(line.split(":") for line in text.split() if ":" in line)[name])


def test_what_an_iteration_copies(binary):
    """64 clients with 2 MiB each, at once, on keys of two shards: bounded, whatever they do."""
    size, keys = 2 << 20, ["big:%d" % i for i in range(8)]
    with Cluster(binary, nodes=1, shards=2, options=["--value-max", "2M", "--memory", "1G",
                                                     "--log-size", "256M"]).found() as k:
        c = k.conn(0)
        for n in keys:
            k.until(0, "SET", n, n * (size // len(n)), want=lambda r: r == "OK")
        clients = [k.conn(0) for _ in range(64)]

        def at_once(count, *command):
            """Each client sends it, on one of so many keys; all arrive while the node stops."""
            with k.stopped(0):
                for i, d in enumerate(clients):
                    d.send(command[0], keys[i % count], *command[1:])
            return [d.reply() for d in clients]

        for i, r in enumerate(at_once(8, "GET") + at_once(1, "GET")):
            assert isinstance(r, Error) or r.startswith(b"big:"), i
        for count, command in ((8, ("SETRANGE", "0", "x")), (1, ("GETSET", "v" * 5)),
                               (8, ("GETDEL",)), (1, ("GET",))):
            at_once(count, *command)
        for i, d in enumerate(clients):
            d.send("SET", keys[i % 8], "v" * size)
        for d in clients:
            d.reply()
        for d in clients:
            d.close()
        most = 0
        for _ in range(20):  # of both shards, published
            most = max(most, figure(c, "loop_bytes_max"))
        assert size < most <= 16 << 20, most


def test_keys_and_scans(binary):
    with Cluster(binary, nodes=1, options=["--value-max", "2048"]).found() as k:
        c = k.conn(0)
        key = "k" * 1024
        assert c.cmd("SET", key, "v" * 2048) == "OK" and c.cmd("GET", key) == b"v" * 2048
        refused(c.cmd("SET", key + "k", "v"), "1024")
        for long in (["SETRANGE", key, "2048", "x"], ["SETRANGE", key, "2049", "x"],
                     ["APPEND", key, "x"]):
            refused(c.cmd(*long), "longer than 2048 bytes (--value-max)")
        refused(c.cmd("SET", key, "v" * 2049), "than 2048 (--value-max)")
        assert c.cmd("EXISTS", *[key] * 4096) == 4096
        refused(c.cmd("EXISTS", *[key] * 10000), "at most 4096 keys")
        refused(c.cmd("CLIENT", "SETNAME", "n" * 64), "63 bytes")
        refused(k.until(0, "DURABILITY", "all", "COPIES", "2", "SET", key, "v",
                        want=lambda r: "NOREPLICAS" in str(r)),
                "1 node has all keys, 2 needed (COPIES)")
        assert c.cmd("SET", key, "v", "PX", str(2 ** 62)) == "OK"  # a hundred years
        assert 3155000000000 < c.cmd("PTTL", key) <= 3155760000000
        for i in range(1500):
            c.send("SET", "s%d" % i, "v")
        for i in range(1500):
            assert conclusive(c.reply()) == "OK"
        cursor, keys = c.cmd("SCAN", "0", "COUNT", "100000")
        assert cursor != b"0" and len(keys) == 1000
        first = c.cmd("SCAN", "0", "COUNT", "1")[0]
        for _ in range(1100):  # places of scans are forgotten, the oldest first
            last = c.cmd("SCAN", "0", "COUNT", "1")[0]
        refused(c.cmd("SCAN", first), "too old")
        assert not isinstance(c.cmd("SCAN", last), Error)
        assert c.cmd("SET", "", "v") == "OK"  # the empty key is the first one
        for cursor, want in (("", [b"", key.encode()]), (b"0:" + key.encode(), [b"s0"])):
            cursor, keys = c.cmd("SCANKEYS", cursor, "COUNT", "1")
            assert keys == want and cursor == b"0:" + want[-1], (cursor, keys)
        for i in range(64):
            c.send("WATCHKEY", "w%d" % i)
        c.send("WATCHKEY", "more")
        errors = [r for r in (c.reply() for _ in range(129)) if isinstance(r, Error)]
        assert len(errors) == 1 and "at most 64" in str(errors[0])


def test_scans_of_costly_patterns(binary):
    """A loop that compares for long is late, and its node loses its lease."""
    with Cluster(binary, nodes=1, options=["--request-timeout", "240"]).found() as k:
        c = k.conn(0)
        for i in range(1000):
            c.send("SET", "a" * 1000 + "%d" % i, "v")
        assert all(conclusive(c.reply()) == "OK" for _ in range(1000))
        costly = "*" + "a" * 500 + "b"
        cursor, keys = c.cmd("SCAN", "0", "MATCH", costly, "COUNT", "1000")
        assert cursor != b"0" and not keys  # a short page
        for _ in range(20):
            c.send("SCAN", "0", "MATCH", costly, "COUNT", "1000")
            c.send("SCANKEYS", "", "PREFIX", "a" * 1000, "COUNT", "10")
        replies = [conclusive(c.reply()) for _ in range(40)]
        assert all(r[0] != b"0" and not r[1] for r in replies[::2])
        assert all(len(r[1]) > 0 for r in replies[1::2])
        for pattern, count in ((costly, 0), ("a*9", 100), ("*" * 1024, 1000)):
            got = c.cmd("KEYS", pattern)
            assert len(got) == count, got
        refused(c.cmd("KEYS", "*" * 1025), "1024")
        refused(c.cmd("SCAN", "0", "MATCH", "*" * 10000), "1024")


def test_scans_that_are_late(binary):
    """Nothing was to be written, and the node had room for them."""
    with Cluster(binary, nodes=1, options=["--request-timeout", "1"]).found() as k:
        k.put(0, (("a" * 1000 + "%d" % i, "v") for i in range(1000)))
        costly = "*" + "a" * 500 + "b"
        late = []
        with k.conn(0) as c:
            while not late:
                for _ in range(10):
                    c.send("KEYS", costly)
                replies = [conclusive(c.reply()) for _ in range(10)]
                late = [r for r in replies if r != []]
        for reply in late:
            refused(reply, "TRYAGAIN", "not answered in time", "--request-timeout")


def test_large_replies(binary):
    with Cluster(binary, nodes=1, options=["--value-max", "1M", "--maxmemory-clients", "0"]
                 ).found() as k:
        c = k.conn(0)
        assert c.cmd("SET", "v", "x" * (1 << 20)) == "OK"
        k.until(0, "MGET", *["v"] * 32, want=lambda r: not isinstance(r, Error) and len(r) == 32)
        for count in (33, 1000):
            k.until(0, "MGET", *["v"] * count, want=lambda r: "several commands" in str(r))
        k.until(0, "EXISTS", *["v"] * 1000, want=lambda r: r == 1000)
        # Of long values and others; and behind another reply.
        k.until(0, "MGET", *["v", "none"] * 32,
                want=lambda r: r == [b"x" * (1 << 20), None] * 32)
        assert c.cmd("SET", "w", "short") == "OK"
        c.send("GET", "v")
        c.send("MGET", "w", "none", "v")
        assert c.reply() == b"x" * (1 << 20) and c.reply() == [b"short", None, b"x" * (1 << 20)]
        # All of it leaves the engine in one iteration, and none is copied there.
        time.sleep(0.3)  # published
        most = figure(c, "loop_bytes_max")
        assert most <= 16 << 20, most
        # What one iteration of the loop answers is bounded: here another client is served while
        # the first one's pipeline is worked off.
        many, light = k.conn(0), k.conn(0)
        many.cmd("CLIENT", "SETNAME", "many")
        with k.stopped(0):
            for _ in range(200):
                many.send("GET", "v")
            light.send("CLIENT", "LIST")
        line = [x for x in light.reply().split(b"\n") if b"name=many" in x][0]
        unsent = int(line.split(b" omem=")[1].split()[0])
        assert unsent < 64 << 20, unsent
        assert all(len(many.reply()) == 1 << 20 for _ in range(200))


def test_many_watches(binary):
    """Each change looks at all that wait."""
    with Cluster(binary, nodes=1).found() as k:
        conns = [k.conn(0) for _ in range(512)]
        for n, c in enumerate(conns):
            for i in range(64):
                c.send("WATCHKEY", "w%d.%d" % (n, i))
        for c in conns:
            replies = [conclusive(c.reply()) for _ in range(128)]
            assert not any(isinstance(r, Error) for r in replies)
        more = k.conn(0)
        refused(more.cmd("WATCHKEY", "more"), "32768 watches")
        refused(more.cmd("WATCHPREFIX", ""), "32768 watches")
        assert more.cmd("SET", "w511.63", "v") == "OK"
        assert conns[511].reply()[2] == b"put"
        conns[0].close()
        k.until(0, "WATCHKEY", "more", want=lambda r: r == 1)


def test_scopes_beyond_the_table(binary):
    with Cluster(binary, nodes=1, options=["--request-timeout", "1"]).found() as k:
        conns = [k.conn(0) for _ in range(300)]  # the store has 256: the others are refused
        replies = [c.cmd("DURABILITY", "scope", "SET", "a%d" % i, "v")
                   for i, c in enumerate(conns[:200])]
        assert replies == ["OK"] * 200
        assert conns[0].cmd("SCOPE", "SYNC") == "OK"
        more = [k.conn(0) for _ in range(1100)]
        for i, c in enumerate(more):  # each has another scope: the node keeps the newest 1024
            c.send("DURABILITY", "scope", "SET", "b%d" % i, "v")
        for c in more:
            c.reply()
        refused(conns[1].ask("SCOPE", "SYNC"), "UNKNOWN", "forgotten")
        assert conns[1].cmd("SCOPE", "SYNC") == "OK"  # another one, without writes
        for c in conns + more:
            c.close()
        k.until(0, "DURABILITY", "scope", "SET", "c", "v", want=lambda r: r == "OK")


def test_scopes_that_clients_leave(binary):
    """Without SCOPE SYNC. The store has 256 of a shard: none stays open for ever."""
    options = ["--request-timeout", "3"]
    with Cluster(binary, nodes=1, shards=2, options=options).found() as k:
        c = k.conn(0)
        for i in range(300):
            assert c.cmd("DURABILITY", "scope", "SET", "a%d" % i, "v") == "OK"
            assert c.cmd("RESET") == "RESET"
        for i in range(300):
            with k.conn(0) as d:
                assert d.cmd("DURABILITY", "scope", "SET", "b%d" % i, "v") == "OK"
        for i in range(300):  # and with commands under way
            c.send("DURABILITY", "scope", "SET", "c%d" % i, "v")
            c.send("RESET")
        for i in range(600):
            c.reply()
        k.until(0, "DURABILITY", "scope", "SET", "d", "v", want=lambda r: r == "OK")
        assert c.cmd("DURABILITY", "scope", "SET", "d", "v") == "OK"
        assert c.cmd("SCOPE", "SYNC") == "OK"


def test_deletions_of_which_some_fail(binary):
    """The store has no scope for them at one of two shards: the error is not that nothing was
    written."""
    options = ["--request-timeout", "3"]
    with Cluster(binary, nodes=1, shards=2, options=options).found() as k:
        a = k.conn(0)
        keys = {}  # by shard: one page of SCANKEYS has keys of one
        for i in range(100):
            assert a.cmd("SET", "k%d" % i, "v") == "OK"
        keys[0] = a.cmd("SCANKEYS", "", "COUNT", "1000")[1]
        keys[1] = a.cmd("SCANKEYS", "1:", "COUNT", "1000")[1]
        assert len(keys[0]) + len(keys[1]) == 100 and keys[0] and keys[1]
        conns = [k.conn(0) for _ in range(256)]
        for c in conns:
            assert c.cmd("DURABILITY", "scope", "SET", keys[0][0], "v") == "OK"
        refused(a.ask("DURABILITY", "scope", "DEL", keys[0][1]), "TRYAGAIN", "nothing was written")
        reply = a.ask("DURABILITY", "scope", "DEL", keys[1][0], keys[0][1], keys[1][1])
        refused(reply, "UNKNOWN outcome unknown: 2 of 3 keys were deleted", "TRYAGAIN")
        assert a.cmd("EXISTS", keys[1][0], keys[1][1], keys[0][1]) == 1


def test_clients_that_do_not_read(binary):
    options = ["--client-output-buffer-limit", "normal 4mb 1mb 2", "--maxmemory-clients", "64mb"]
    with Cluster(binary, nodes=1, shards=2, options=options).found() as k:
        light = k.conn(0)
        for i in range(8):
            assert light.cmd("SET", "v%d" % i, "x" * 60000) == "OK"
        before = rss_kib(k.processes[0].pid)
        paused = [k.conn(0) for _ in range(20)]
        for c in paused:
            c.sock.settimeout(0.2)
            try:
                for i in range(4000):
                    c.send("GET", "v%d" % (i % 8))
            except (OSError, Closed):
                pass
            assert light.cmd("GET", "v1") == b"x" * 60000
        assert rss_kib(k.processes[0].pid) - before < 300 * 1024
        k.until(0, "INFO", "stats", want=lambda r: b"output_limit_resets:0" not in r or
                b"clients_memory_resets:0" not in r)
        assert light.cmd("GET", "v2") == b"x" * 60000


def test_a_drain_with_a_client_that_does_not_read(binary):
    for count, left in ((30, 0), (400, 1)):  # the kernel takes all replies, or not
        with Cluster(binary, nodes=1) as k:
            k.found()
            with socket.create_connection(("127.0.0.1", k.ports[0])) as s:
                s.sendall(encode("SET", "v", "x" * 60000) + encode("GET", "v") * count)
                k.until(0, "CLIENT", "LIST", want=lambda r, left=left: any(
                    b"cmd=get" in c and (b" oll=0" not in c) == left and (left or b" qbuf=0" in c)
                    for c in r.split(b"\n")))
                k.processes[0].terminate()
                assert k.processes[0].wait(WAIT) == 0  # the client is still there
                k.processes[0] = None


def test_a_flood_beside_a_light_client(binary):
    with Cluster(binary, shards=2).found() as k:
        c = k.conn(0)
        for i in range(128):  # of a connection for each shard
            c.send("WATCHKEY", "w%d" % i)
        replies = [conclusive(c.reply()) for _ in range(256)]
        assert not any(isinstance(r, Error) for r in replies)
        refused(c.cmd("WATCHKEY", "more"), "at most 128 watches")
        c.close()
        flood, light = k.conn(0), k.conn(0)
        sent = 0
        for _ in range(40):
            for i in range(500):
                flood.send("SET" if i % 2 else "GET", "f%d" % (i % 100), *(["v" * 100] * (i % 2)))
            sent += 500
            assert light.cmd("SET", "light", "1") == "OK" and light.cmd("GET", "light") == b"1"
        assert not any(isinstance(conclusive(flood.reply()), Error) for _ in range(sent))


def test_a_command_of_512_mib(binary):
    with Cluster(binary, nodes=1, options=["--message-max", "16M"]).found() as k:
        c, light = k.conn(0), k.conn(0)
        before = rss_kib(k.processes[0].pid)
        c.raw(b"*3\r\n$3\r\nSET\r\n$1\r\nk\r\n$%d\r\n" % (512 << 20))
        piece = b"x" * (1 << 20)
        for i in range(512):
            c.raw(piece)
            if i % 128 == 0:
                assert light.cmd("PING") == "PONG"
        c.raw(b"\r\n")
        refused(c.reply(), "--message-max")
        assert c.cmd("PING") == "PONG"
        assert rss_kib(k.processes[0].pid) - before < 100 * 1024


def test_commands_of_many_arguments(binary):
    """What an iteration takes apart and looks up is bounded, or its loop loses the lease."""
    def many(count, *words):
        return encode(*words).replace(b"*%d" % len(words), b"*%d" % (len(words) + count), 1) + (
            b"$1\r\n1\r\n" * count)
    with Cluster(binary, nodes=1).found() as k:
        c = k.conn(0)
        before = rss_kib(k.processes[0].pid)
        for words in (("DEL",), ("CONFIG", "GET"), ("CLIENT", "LIST", "ID")):
            c.raw(many(4000000, *words))
            refused(c.reply(), "more than 16384 of them")
            c.raw(many(16384 - len(words), *words))
            refused(c.reply(), "at most")
        assert rss_kib(k.processes[0].pid) - before < 30 * 1024
        assert len(c.cmd("COMMAND", "INFO", *["get"] * 1022)) == 1022
        refused(c.cmd("COMMAND", "INFO", *["get"] * 1023), "'command'", "at most 1024 arguments")
        refused(c.cmd("CLIENT", "LIST", "ID", "1" * 1025), "1024 bytes")
        assert c.cmd("EXISTS", *["a"] * 4096) == 0


def test_a_long_slowlog(binary):
    """It has so many commands at most, and a reply so many bytes."""
    with Cluster(binary, nodes=1).found() as k:
        c = k.conn(0)
        refused(c.cmd("CONFIG", "SET", "slowlog-max-len", "10001"), "at most 10000")
        assert c.cmd("CONFIG", "SET", "slowlog-max-len", "10000") == "OK"
        assert c.cmd("CONFIG", "SET", "slowlog-log-slower-than", "0") == "OK"
        for _ in range(2000):
            c.send("EXISTS", *["k" * 128] * 40)
        assert all(not isinstance(conclusive(c.reply()), Error) for _ in range(2000))
        assert c.cmd("SLOWLOG", "LEN") >= 2000
        assert 800 < len(c.cmd("SLOWLOG", "GET", "-1")) < 1200
        assert len(c.cmd("SLOWLOG", "GET", "5")) == 5


def test_watches_that_are_not_read(binary):
    """What a client has not taken is counted, and nothing beside it is kept."""
    with Cluster(binary, nodes=1, options=["--value-max", "1M"]).found() as k:
        slow, c = k.conn(0), k.conn(0)
        for _ in range(64):
            slow.send("WATCHKEY", "w")
        k.until(0, "CLIENT", "LIST", want=lambda r: b"cmd=watchkey" in r)
        before = rss_kib(k.processes[0].pid)
        assert c.cmd("SET", "w", "v" * (1 << 20)) == "OK"
        held = 0
        while held < 50 << 20:
            lines = k.conn(0).cmd("CLIENT", "LIST").decode().splitlines()
            held = max(int(f[5:]) for line in lines for f in line.split() if f[:5] == "omem=")
        assert rss_kib(k.processes[0].pid) - before < held // 1024 + 32 * 1024


def test_deletions_at_a_full_log(binary):
    """Also those that compare before they delete, and the ends of TTLs: they are the way out."""
    value = "v" * (900 << 10)
    with Cluster(binary, options=["--value-max", "1M", "--request-timeout", "2", "--min-full",
                                  "1"]).found() as k:
        conns = [k.conn(i) for i in range(3)]

        def anywhere(*command, want):
            """At whichever node serves: one that was late learns until there is room."""
            for i in range(1000):
                if want(conns[i % 3].ask(*command)):
                    return
                time.sleep(0.03)
            raise AssertionError(command)

        anywhere("SET", "ttl", value, "PX", "15000", want=lambda r: r == "OK")
        reply, keys = "", 0
        while "OOM" not in reply and keys < 1000:
            reply = conns[keys % 3].ask("SET", "k%d" % keys, value)
            keys += 1
        refused(reply, "OOM")
        anywhere("EXISTS", "ttl", want=lambda r: r == 0)
        for i in range(8):
            anywhere(("DEL", "GETDEL")[i % 2], "k%d" % i, want=lambda r: not isinstance(r, Error))
        for i in range(3):
            k.until(i, "SET", "more", value, want=lambda r: r == "OK")


def test_many_connections(binary):
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    count = min(10000, hard // 2 - 500)
    with Cluster(binary, nodes=1, options=["--connections", str(count)]).found() as k:
        conns = [socket.create_connection(("127.0.0.1", k.ports[0])) for _ in range(count - 1)]
        with k.conn(0) as c:
            assert c.cmd("SET", "a", "1") == "OK" and c.cmd("GET", "a") == b"1"
            with socket.create_connection(("127.0.0.1", k.ports[0])) as one_more:
                assert b"max number of clients reached" in one_more.recv(100)
            conns[0].sendall(b"PING\r\n")
            assert conns[0].recv(100) == b"+PONG\r\n"
        for s in conns:
            s.close()
        k.until(0, "PING", want=lambda r: r == "PONG")


if __name__ == "__main__":
    carry_out(tests_of(globals()), sys.argv[2:], sys.argv[1])
