#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 OR MIT
"""What clients may hold: client-output-buffer-limit, maxmemory-clients, client-query-buffer-limit,
CLIENT NO-EVICT, CLIENT KILL. In every role CONFIG SET acts.

    test_kv_memory.py BINARY MODE
"""
import os
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.realpath(__file__)), "../../support"))
from kvnode import WAIT, Closed, Server, encode  # noqa: E402

MIB = 1 << 20
SANITIZED = os.environ.get("SNIC_SANITIZED", "") != ""


def until(what, node, holds):
    end = time.monotonic() + WAIT
    while not holds():
        assert time.monotonic() < end, "%s\n%s" % (what, node.log())
        time.sleep(0.05)


def counter(node, name):
    """Of INFO; it may be half a second old."""
    return int(node.info(name) or 0)


def config(c, *args):
    assert c.cmd("CONFIG", "SET", *args) == "OK"
    time.sleep(0.3)  # until the other role knows


def asleep(node):
    """Does no thread of the server run, or wait for a processor?"""
    for pid in node.pids():
        for thread in os.listdir("/proc/%d/task" % pid):
            try:
                with open("/proc/%d/task/%s/stat" % (pid, thread), encoding="ascii") as f:
                    state = f.read().rsplit(")", 1)[1].split()[0]
            except OSError:  # it has just ended
                return False
            if state != "S":
                return False
    return True


def all_held(node):
    """Until the replies to clients that do not read are there."""
    end = time.monotonic() + WAIT
    held = looks = 0
    while looks < 3:
        assert time.monotonic() < end
        now = node.rss_kib()
        looks = looks + 1 if now == held and asleep(node) else 0
        held = now
        time.sleep(0.15)


def test_whole_pipeline(node):
    """At default settings replies of 190 MiB wait while the client still writes 19 MiB."""
    with node.conn() as c:
        c.cmd("SET", "mega", b"m" * MIB)
        before = node.rss_kib()
        one = encode("GET", "mega") + encode("SET", "hundred", b"h" * 100000)
        c.raw(one * 190)
        for _ in range(190):
            assert len(c.reply()) == MIB and c.reply() == "OK"
        after = node.rss_kib()
        if not SANITIZED:
            assert after - before < (256 + 64) << 10, (before, after)


def test_hard_limit(node):
    """At the hard limit a client is not read from; it is ended when it takes nothing."""
    with node.conn() as a:
        config(a, "client-output-buffer-limit", "normal 16mb 0 0")
        before = node.rss_kib()
        with node.conn() as c, node.conn() as slow:
            c.raw(encode("GET", "mega") * 400)
            slow.raw(encode("GET", "mega") * 60)
            for _ in range(60):  # this one reads: it is not ended, whatever it asks for
                assert len(slow.reply()) == MIB
                assert a.cmd("PING") == "PONG"
            until("a client at the hard limit that reads nothing is not closed", node,
                  lambda: "client-output-buffer-limit" in node.log())
            until("the client is not counted", node,
                  lambda: counter(node, "output_limit_resets") == 1)
            assert counter(node, "clients_memory_resets") == 0
            assert counter(node, "clients_share_resets") == 0
            assert slow.cmd("PING") == "PONG"
        if not SANITIZED:
            assert node.rss_kib() - before < (2 * 16 + 64) << 10, (before, node.rss_kib())
        config(a, "client-output-buffer-limit", "normal 256mb 64mb 60")


def test_device_reads(node):
    """400 GETs of 1 MiB that only the device has: what is being read is bounded, too."""
    with node.conn() as a, node.conn() as c:
        for i in range(120):
            assert a.cmd("SET", "cold%d" % i, b"%d " % i * (MIB // 4)) == "OK"
        config(a, "client-output-buffer-limit", "normal 64mb 0 0")
        before = most = node.rss_kib()
        c.raw(b"".join(encode("GET", "cold%d" % (i % 60)) for i in range(400)))
        for i in range(20):
            time.sleep(0.02)
            most = max(most, node.rss_kib())
        for i in range(400):
            value = c.reply()
            assert value == (b"%d " % (i % 60)) * (MIB // 4), i
            most = max(most, node.rss_kib())
        if not SANITIZED:  # replies, what is being read, and that again as a reply
            assert most - before < (64 + 2 * 64 + 32) << 10, (before, most)
        config(a, "client-output-buffer-limit", "normal 256mb 64mb 60")
        assert a.cmd("FLUSHALL") == "OK" and a.cmd("SET", "mega", b"m" * MIB) == "OK"


def test_all_clients(node):
    """Above maxmemory-clients the client that holds most is ended, but not one with NO-EVICT. Those
    that hold a fair share for 60 s are, too: few MiB, so that a slow machine has them before."""
    with node.conn() as a, node.conn() as spared, node.conn() as most:
        assert spared.cmd("CLIENT", "NO-EVICT", "ON") == "OK"
        spared.raw(encode("GET", "mega") * 24)
        most.raw(encode("GET", "mega") * 16)
        all_held(node)
        config(a, "maxmemory-clients", "8mb")
        until("no client is ended for maxmemory-clients", node,
              lambda: "maxmemory-clients" in node.log())
        until("the client is not counted", node,
              lambda: counter(node, "clients_memory_resets") == 1)
        assert counter(node, "output_limit_resets") == 1  # test_hard_limit's
        for _ in range(24):
            assert len(spared.reply()) == MIB
        assert spared.cmd("PING") == "PONG"
        try:
            most.eof()
            most.send("PING")
            most.reply()
            raise AssertionError("the largest was not ended")
        except Closed:
            pass
        config(a, "maxmemory-clients", "25%")


def test_two_limits_at_once(node):
    """Clients that two limits end in the same second: the log names both limits."""
    before = len(node.log())
    with node.conn() as a, node.conn() as some, node.conn() as most:
        assert a.cmd("CLIENT", "NO-EVICT", "ON") == "OK"
        some.raw(encode("GET", "mega") * 6)
        most.raw(encode("GET", "mega") * 24)
        all_held(node)
        time.sleep(1.2)  # longer than the soft time
        config(a, "maxmemory-clients", "8mb", "client-output-buffer-limit", "normal 0 1mb 1")
        for name in ("clients_memory_resets", "output_limit_resets"):
            until("no client is ended: %s" % name, node, lambda: counter(node, name) == 2)
        for name in ("maxmemory-clients", "client-output-buffer-limit"):
            until("no line about %s" % name, node, lambda: name in node.log()[before:])
        config(a, "maxmemory-clients", "25%", "client-output-buffer-limit",
               "normal 256mb 64mb 60")


def test_query_limit(node):
    """An unfinished command longer than client-query-buffer-limit ends its client, as in Redis."""
    with node.conn() as a, node.conn() as c:
        config(a, "client-query-buffer-limit", "1mb")
        assert c.cmd("SET", "k", b"k" * (MIB // 2)) == "OK"
        try:
            c.raw(b"*3\r\n$3\r\nSET\r\n$1\r\nk\r\n$%d\r\n" % (6 * MIB) + b"x" * (5 * MIB))
            assert c.eof() == b""
        except Closed:
            pass
        until("no line about it", node, lambda: "client-query-buffer-limit" in node.log())
        assert a.cmd("STRLEN", "k") == MIB // 2
        config(a, "client-query-buffer-limit", "1gb")


def test_kill(node):
    """CLIENT KILL ends a client that sends nothing more."""
    with node.conn() as a, node.conn() as idle:
        ident = idle.cmd("CLIENT", "ID")
        assert a.cmd("CLIENT", "KILL", "ID", ident) == 1
        assert idle.eof() == b""
        assert a.cmd("CLIENT", "KILL", "ID", ident) == 0 or node.mode != "monolith"
        assert a.cmd("PING") == "PONG"


def test_list(node):
    """CLIENT LIST has numbers where there are some."""
    with node.conn() as a, node.conn() as b:
        port = b.sock.getsockname()[1]
        b.cmd("CLIENT", "SETNAME", "bee")
        b.cmd("CLIENT", "SETINFO", "LIB-NAME", "lib")
        b.cmd("HELLO", "3")
        b.cmd("MULTI")
        b.cmd("SET", "k", "v")
        b.raw(b"*2\r\n$3\r\nGET\r\n$1000\r\n" + b"x" * 500)
        time.sleep(0.2)
        line = [x for x in a.cmd("CLIENT", "LIST").decode().split("\n") if "name=bee" in x][0]
        got = dict(x.split("=", 1) for x in line.split(" "))
        assert got["cmd"] == "set" and got["resp"] == "3" and got["multi"] == "1", line
        assert got["flags"] == "x" and got["lib-name"] == "lib", line
        assert int(got["multi-mem"]) > 0 and int(got["tot-mem"]) > int(got["multi-mem"]), line
        if node.mode == "monolith":
            assert got["addr"] == "127.0.0.1:%d" % port, line
            assert got["laddr"] == "127.0.0.1:%d" % node.port, line
            assert int(got["qbuf"]) > 500 and int(got["rbs"]) >= int(got["qbuf"]), line
            assert a.cmd("CLIENT", "KILL", "ADDR", "127.0.0.1:%d" % port) == 1


def main():
    binary, mode = sys.argv[1:3]
    with Server(binary, mode, memory="32M", segment="16M", size="512M", **{"log-level": "info"}) \
            as node:
        for t in (test_whole_pipeline, test_hard_limit, test_device_reads, test_all_clients,
                  test_two_limits_at_once, test_query_limit, test_kill, test_list):
            print(t.__name__, flush=True)
            t(node)
        assert node.stop() == 0


if __name__ == "__main__":
    main()
