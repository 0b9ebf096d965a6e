#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 OR MIT
"""What kv_server reports of its commands, beside redis-server's reports of the same ones.

    test_kv_commands.py BINARY

COMMAND DOCS has Redis' arguments (its summaries are our own words), COMMAND GETKEYS, SLOWLOG and
LATENCY answer the same, redis-cli has help, lock scripts are known and others are refused. Exit
code 77 without redis-server or redis-cli.
"""
import os
import shutil
import struct
import subprocess
import sys

sys.path.insert(0, os.path.dirname(os.path.realpath(__file__)))
from test_kv_diff import Conn, Redis, Server  # noqa: E402
from kvscripts import SEVERAL, SINGLE, UNKNOWN  # noqa: E402

SAME = """COMMAND GETKEYS mset a 1 b 2 | COMMAND GETKEYS eval x 2 a b c | COMMAND GETKEYS get
COMMAND GETKEYS nope x | COMMAND GETKEYS ping x | COMMAND GETKEYS copy a b db 1
COMMAND GETKEYS object encoding k | COMMAND GETKEYS memory usage k | COMMAND GETKEYS lcs a b len
COMMAND GETKEYS get a b | COMMAND INFO nope | COMMAND COUNT x | COMMAND GETKEYS | COMMAND NOPE
COMMAND LIST FILTERBY PATTERN getra* | COMMAND LIST FILTERBY NOPE x | COMMAND LIST x
SLOWLOG LEN | SLOWLOG GET -2 | SLOWLOG GET x | SLOWLOG GET | SLOWLOG GET 1 2 | SLOWLOG RESET
SLOWLOG NOPE | LATENCY LATEST | LATENCY HISTORY x | LATENCY RESET | LATENCY RESET a | LATENCY NOPE
LATENCY GRAPH x | LATENCY GRAPH | LATENCY HISTOGRAM get
LATENCY | SCRIPT | SCRIPT NOPE | SCRIPT EXISTS | SCRIPT FLUSH x | EVALSHA x 0 | EVAL x -1
EVAL x 1 | EVAL x y | OBJECT HELP x | MEMORY DOCTOR x | MEMORY USAGE absent
SET t 1 EX 1000 | SET t 2 KEEPTTL | PERSIST t | GETEX t EX 1000 | PERSIST t | GETEX t PERSIST
PERSIST t | SET t 3 GET | SET t 4 XX GET | SET n 1 XX | SET t 5 NX | GET t | SETRANGE t 2 x
GETRANGE t 0 -1 | GETDEL t | GET t | APPEND t a | INCRBYFLOAT t 1 | MSETNX t 1 u 2 | EXISTS u
EXPIRE t 1000 XX | EXPIRE t 1000 NX | EXPIRE t 1000 NX | EXPIRE t 500 GT | EXPIRE t 500 LT
EXPIREAT t 33177117420 | EXPIRETIME t | PEXPIRETIME t | RENAME t u | EXPIRETIME u | RENAMENX u t
COPY t u | EXPIRETIME u | COPY t u | COPY t u REPLACE | TOUCH t u v | OBJECT ENCODING t | TYPE t
KEYS [t] | LCS t u | DEL t u | RANDOMKEY | EVALSHA x y | EVALSHA x 5 | COMMAND INFO nosuch ping x
CONFIG HELP x | CONFIG SET a b c"""
REFUSED = [("SORT", "k"), ("SORT_RO", "k"), ("WAIT", "1", "0"),
           ("MIGRATE", "h", "1", "k", "0", "1"), ("EVAL", "return 1", "0")]


def pairs(flat):
    return dict(zip(flat[::2], flat[1::2]))


def docs(conn):
    """The arguments of every command and subcommand."""
    out = {}
    for name, doc in pairs(conn.cmd("COMMAND", "DOCS")).items():
        doc = pairs(doc)
        out[name] = doc.get(b"arguments")
        assert doc[b"summary"] and doc[b"since"] and doc[b"group"], name
        for sub, text in pairs(doc.get(b"subcommands", [])).items():
            out[sub] = pairs(text).get(b"arguments")
    return out


def compare_docs(ours, theirs):
    mine, real = docs(ours), docs(theirs)
    for name in mine:
        assert mine[name] == real[name], "%r: %r, redis has %r" % (name, mine[name], real[name])
    for name in ours.cmd("COMMAND", "LIST"):
        assert name in mine, "no documentation of %r" % name
        info, other = ours.cmd("COMMAND", "INFO", name)[0], theirs.cmd("COMMAND", "INFO", name)[0]
        assert info[:2] == other[:2] and info[3:6] == other[3:6], (name, info, other)
    assert ours.cmd("COMMAND", "COUNT") == len(ours.cmd("COMMAND", "LIST"))
    return len(mine)


# Of COMMAND INFO: what has other keys behind its options there, which are not supported here.
INFO_KEYS = ("migrate", "sort", "sort_ro")


def compare_info(ours, theirs):
    """All of COMMAND INFO but subcommands."""
    names = [r[0] for r in ours.cmd("COMMAND")]
    for name, a, b in zip(names, ours.cmd("COMMAND", "INFO", *names),
                          theirs.cmd("COMMAND", "INFO", *names)):
        for i in range(8 if name.decode() in INFO_KEYS else 9):
            x, y = (sorted(a[i]), sorted(b[i])) if i in (2, 6) else (a[i], b[i])
            assert x == y, (name, i, x, y)
    for category in ("string", "transaction", "write", "nosuch"):
        mine = ours.cmd("COMMAND", "LIST", "FILTERBY", "ACLCAT", category)
        other = theirs.cmd("COMMAND", "LIST", "FILTERBY", "ACLCAT", category)
        assert sorted(mine) == sorted(x for x in other if x in names), category


def redis_cli(port):
    def help_of(text):
        return subprocess.run(["redis-cli", "-p", str(port)], input=text.encode() + b"\n",
                              stdout=subprocess.PIPE, timeout=60, check=True).stdout.decode()

    assert "key value [NX|XX] [GET] [EX seconds|PX" in help_of("help set")
    for word in ("GETRANGE", "LCS", "SUBSTR"):
        assert word in help_of("help @string"), word


def scripts(conn):
    for text in SINGLE + SEVERAL:
        name = conn.cmd("SCRIPT", "LOAD", text)
        assert isinstance(name, bytes), (name, text)
        assert conn.cmd("SCRIPT", "EXISTS", name) == [1]
    for text in UNKNOWN:
        assert "not supported" in conn.cmd("SCRIPT", "LOAD", text), text


def slowlog(conn, node):
    """A command that keeps the engine busy is noted: SETs of the largest values do sooner or
    later; how long 10 ms are is the machine's affair."""
    conn.cmd("SLOWLOG", "RESET")
    conn.cmd("SET", "big", b"x" * (2 << 20))
    conn.cmd("SET", "a", b"ab" * 700)
    for _ in range(200):
        conn.cmd("LCS", "a", "a")
        if conn.cmd("SLOWLOG", "LEN") > 0:
            break
    for entry in conn.cmd("SLOWLOG", "GET", "-1"):
        assert len(entry) == 6 and entry[2] >= 10000 and entry[3], entry
    assert conn.cmd("DEL", "big", "a") == 2


def log_records(path):
    """Type, database and number of bytes of each record of a log segment."""
    with open(path, "rb") as f:
        data = f.read()
    at = 0
    while at + 48 <= len(data) and data[at:at + 4] == b"SKV1":
        key, value, kind, database = struct.unpack_from("<IIHH", data, at + 24)
        size = (48 + key + value + 7) // 8 * 8
        yield kind, database, size
        at += size


def swapdb_mark(binary):
    """Servers that do not know SWAPDB's record refuse its log: a key of a database that there
    cannot be lies before each of them in the same segment. This one opens it."""
    node = Server(binary, "monolith", sync="always", segment="16M")
    try:
        node.start()
        with node.conn() as c:
            assert c.cmd("SET", "k", "zero") == "OK"
            for i in range(3):
                assert c.cmd("SWAPDB", "0", "1") == "OK"
                assert c.cmd("SET", "behind%d" % i, "v") == "OK"
        assert node.stop() == 0
        swaps = 0
        for name in os.listdir(os.path.join(node.directory, "d")):
            marked = False
            for kind, database, _ in log_records(os.path.join(node.directory, "d", name)):
                marked = marked or (kind == 1 and database == 0xfffe)
                assert kind != 5 or marked, name
                swaps += kind == 5
        assert swaps == 3, swaps
        node.start()
        with node.conn() as c:
            assert c.cmd("GET", "k") is None and c.cmd("DBSIZE") == 2
            assert c.cmd("SELECT", "1") == "OK" and c.cmd("GET", "k") == b"zero"
        assert node.stop() == 0
    finally:
        node.destroy()


def main():
    if shutil.which("redis-cli") is None:
        print("skipped: redis-cli is not installed")
        return 77
    redis = Redis()
    node = Server(sys.argv[1], "monolith")
    try:
        node.start()
        ours, theirs = node.conn(), Conn(redis.port)
        for line in SAME.split("\n"):
            for text in line.split(" | "):
                a, b = ours.cmd(*text.split()), theirs.cmd(*text.split())
                assert a == b, "%s: %r, redis answers %r" % (text, a, b)
        print("%d commands and subcommands documented" % compare_docs(ours, theirs))
        compare_info(ours, theirs)
        for command in REFUSED:
            assert " not supported" in ours.cmd(*command), command
        redis_cli(node.port)
        scripts(ours)
        slowlog(ours, node)
        assert node.stop() == 0
        swapdb_mark(sys.argv[1])
    finally:
        redis.destroy()
        node.destroy()
    return 0


if __name__ == "__main__":
    sys.exit(main())
