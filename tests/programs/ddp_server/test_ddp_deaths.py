#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Real nodes that end, by a signal or at a stop longer than their lease, and return.

    test_ddp_deaths.py BINARY [NAME ...]
"""
import signal
import sys
import time

from ddpserver import (Closed, Cluster, Error, carry_out, evidence, fields, refused, tests_of)


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
            evidence.inconclusive("a shard has learned more than once")
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
            evidence.inconclusive("the TTL was over before a node's end was noticed")
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
        began = time.monotonic()
        k.kill(1)
        for _ in range(3):
            c.send("SET", "a", "2")  # the last one is answered, too, though it waits for others
        c.send("MGET", "a", "b")
        evidence.waits.add(time.monotonic() - began)
        first = c.reply()
        if isinstance(first, Error) and first.split()[0] in ("CLUSTERDOWN", "NOREPLICAS"):
            evidence.inconclusive("the node's end was noticed before the command came")
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
                evidence.inconclusive("node 0 was out when node 1 ended")
            return reply == "OK"
        k.until(0, "SET", "a", "2", want=takes)
        refused(k.conn(2).ask("GET", "a"), "CLUSTERDOWN")


def test_a_lease_that_has_just_ended(binary):
    """The error does not contradict itself: the node is stopped for longer than its lease."""
    with Cluster(binary, nodes=1).found() as k:
        c, errors = k.conn(0), []
        while len(errors) < 3:
            with k.stopped(0):
                for i in range(20):
                    c.send("GET", "k%d" % i)
                    c.send("SET", "k%d" % i, "v")
                time.sleep(0.6)
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


if __name__ == "__main__":
    carry_out(tests_of(globals()), sys.argv[2:], sys.argv[1])
