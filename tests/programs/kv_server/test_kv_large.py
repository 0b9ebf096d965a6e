#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Commands of many keys: kv_server executes what redis-server does at its default settings.

    test_kv_large.py BINARY MODE
"""
import os
import subprocess
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.realpath(__file__)), "../../support"))
from kvnode import WAIT, Error, Server  # noqa: E402

MIB = 1 << 20
KEYS = 1 << 20  # with the command's name one more than 2^20 arguments
PAIRS = 400000


def command(name, parts):
    """The command's bytes; the parts are framed already."""
    return b"*%d\r\n$%d\r\n%s\r\n" % (len(parts) + 1, len(name), name) + b"".join(parts)


def keys(count):
    return [b"$8\r\nk%07d\r\n" % i for i in range(count)]


def test_long_values(c):
    """More than 9 MiB in one command."""
    value = [bytes([65 + i]) * (4 * MIB) for i in range(3)]
    assert c.cmd("MSET", "a", value[0], "b", value[1], "c", value[2]) == "OK"
    assert c.cmd("MGET", "a", "b", "c") == value
    assert c.cmd("DEL", "a", "b", "c") == 3


def test_many_keys(c):
    """More than 2^20 arguments; all keys or none, over several segments of the log."""
    names = keys(KEYS)
    pairs = [p + b"$3\r\nabc\r\n" for p in names[:PAIRS]]
    c.raw(b"*%d\r\n$6\r\nMSETNX\r\n" % (2 * PAIRS + 1) + b"".join(pairs))
    assert c.reply() == 1
    c.raw(b"*%d\r\n$6\r\nMSETNX\r\n" % (2 * PAIRS + 1) + b"".join(pairs))
    assert c.reply() == 0
    assert c.cmd("DBSIZE") == PAIRS
    c.raw(command(b"MGET", names))
    head = c.line()
    assert head == b"*%d" % KEYS, head
    values = c.bulk(9 * PAIRS + 5 * (KEYS - PAIRS) - 2)
    assert values == (b"$3\r\nabc\r\n" * PAIRS + b"$-1\r\n" * (KEYS - PAIRS))[:-2]
    c.raw(command(b"DEL", names))
    assert c.reply() == PAIRS
    assert c.cmd("DBSIZE") == 0
    # More records than --memory holds: refused as a whole, and deletions count what exists.
    big = [b"$2\r\nb%d\r\n$%d\r\n" % (i, 7 * MIB) + b"b" * (7 * MIB) + b"\r\n" for i in range(10)]
    c.raw(b"*21\r\n$4\r\nMSET\r\n" + b"".join(big))
    r = c.reply()
    assert isinstance(r, Error) and "--memory" in r, r
    assert c.cmd("DBSIZE") == 0


def test_too_long(c, node):
    """Longer than --message-max: an error that names it, in bounded memory, and the next works."""
    before = node.rss_kib()
    part = (b"$4096\r\n" + b"x" * 4096 + b"\r\n") * 256
    c.raw(b"*%d\r\n$3\r\nDEL\r\n" % (256 * 160 + 1))
    for _ in range(160):
        c.raw(part)
    r = c.reply()
    assert isinstance(r, Error) and "--message-max" in r and str(80 * MIB) in r, r
    assert c.cmd("PING") == "PONG"
    # One message may be held, by either role; sanitizers keep memory of their own for each byte.
    room = (2 * 80 + 32) * 1024 * (5 if os.environ.get("SNIC_SANITIZED") else 1)
    assert node.rss_kib() < before + room, (before, node.rss_kib())


def test_roles_differ(binary):
    """The roles were started with other --message-max: the smaller counts, and the log has that."""
    dpu = Server(binary, "two", **{"message-max": str(40 * MIB)})
    host = None
    try:
        dpu.start(wait=False, extra=("--role", "dpu"))
        args = dpu.args(("--role", "host", "--message-max", str(10 * MIB)))
        with open(dpu.log_path, "ab") as log:
            host = subprocess.Popen(args, stdout=log, stderr=log, env=dpu.environment())
        end = time.monotonic() + WAIT
        text = "the host takes messages up to %d bytes, this role up to %d" % (10 * MIB, 40 * MIB)
        while text not in dpu.log():
            assert time.monotonic() < end and host.poll() is None, dpu.log()
            time.sleep(0.05)
        dpu.wait_ready()
        with dpu.conn() as c:
            names = keys(8 * MIB // 15)
            c.raw(command(b"DEL", names))
            assert c.reply() == 0
            c.raw(command(b"DEL", names * 2))
            r = c.reply()
            assert isinstance(r, Error) and str(10 * MIB) in r, r
        with dpu.conn() as c:
            assert c.cmd("SET", "a", "b") == "OK"
        assert dpu.stop() == 0
        host.terminate()
        assert host.wait(WAIT) == 0
        host = None
    finally:
        if host is not None:
            host.kill()
            host.wait()
        dpu.destroy()


def main():
    binary, mode = sys.argv[1:3]
    options = {"memory": "64M", "segment": "16M", "size": "512M", "message-max": str(80 * MIB)}
    with Server(binary, mode, **options) as node:
        with node.conn() as c:
            test_long_values(c)
            test_many_keys(c)
            test_too_long(c, node)
        assert node.stop() == 0
    if mode == "two":
        test_roles_differ(binary)


if __name__ == "__main__":
    main()
