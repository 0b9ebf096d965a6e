#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 OR MIT
"""redis-py, as programs use it, with three nodes. Skipped without it (Debian: python3-redis).

    test_ddp_redis.py BINARY
"""
import os
import re
import sys
import time

try:
    import redis
except ImportError:
    SYSTEM = "/usr/bin/python3"  # its packages are the distribution's
    if os.path.exists(SYSTEM) and os.environ.get("SNIC_REDIS_TRIED") is None:
        os.environ["SNIC_REDIS_TRIED"] = "1"
        os.execv(SYSTEM, [SYSTEM, *sys.argv])
    print("skipped: no module redis (Debian: python3-redis)")
    sys.exit(77)

from ddpserver import WAIT, Client, Cluster, carry_out, evidence  # noqa: E402


def raises(kind, text, call, *arguments, **more):
    try:
        call(*arguments, **more)
    except kind as e:
        if text not in str(e):
            raise
        return
    raise AssertionError("%s: no error" % text)


def strings(a, b):
    assert a.ping() and a.set("a", "1") and b.get("a") == b"1"
    assert a.incr("a", 41) == 42 and b.incrbyfloat("f", 1.5) == 1.5 and a.decr("a") == 41
    assert a.set("a", "2", nx=True) is None and a.set("a", "2", xx=True, get=True) == b"41"
    assert b.getset("a", "3") == b"2" and a.append("a", "45") == 3 and b.strlen("a") == 3
    assert a.getrange("a", 1, 2) == b"45" and a.setrange("a", 1, "x") == 3 and b.get("a") == b"3x5"
    assert a.setnx("n", "1") and not b.setnx("n", "2") and a.getdel("n") == b"1"
    assert a.mget("a", "n", "f") == [b"3x5", None, b"1.5"]
    assert a.exists("a", "n", "f") == 2 and b.delete("a", "f", "n") == 2
    data = bytes(range(256)) * 200
    assert a.set(b"\x00\xff key", data) and b.get(b"\x00\xff key") == data
    assert a.unlink(b"\x00\xff key") == 1


def times(a, b):
    assert a.setex("t", 1000, "v") and 1000 - WAIT <= b.ttl("t") <= 1000
    assert (1000 - WAIT) * 1000 <= b.pttl("t") <= 1000000
    assert b.persist("t") and a.ttl("t") == -1 and a.expire("t", 500)
    assert 500 - WAIT <= b.ttl("t") <= 500
    assert a.getex("t", px=90000) == b"v" and 0 < b.pttl("t") <= 90000 and a.ttl("none") == -2
    assert a.type("t") == b"string" and a.delete("t") == 1
    assert isinstance(a.time(), tuple)


def keys(a, b):
    with a.pipeline(transaction=False) as p:
        for i in range(300):
            p.set("k:%d" % i, i).get("k:%d" % i)
        got = p.execute()
    assert got == [x for i in range(300) for x in (True, b"%d" % i)]
    want = sorted(b"k:%d" % i for i in range(300))
    assert sorted(b.scan_iter("k:*", count=17)) == want and sorted(a.keys("k:*")) == want
    assert b.dbsize() == 300 and b.randomkey().startswith(b"k:")
    assert a.delete(*want) == 300


def refusals(a):
    with a.pipeline() as p:  # MULTI, EXEC
        p.set("a", 1)
        raises(redis.ResponseError, "not supported", p.execute)
    raises(redis.ResponseError, "'mset' is not supported", a.mset, {"a": 1, "b": 2})
    raises(redis.ResponseError, "'eval' is not supported", a.eval, "return 1", 0)
    raises(redis.ResponseError, "not an integer", lambda: a.set("s", "x") and a.incr("s"))
    assert a.get("a") is None and a.delete("s") == 1


def server(a):
    assert a.client_setname("me") and a.client_getname() == "me" and a.client_id() > 0
    assert any(c["name"] == "me" for c in a.client_list())
    info = a.info()
    assert info["redis_mode"] == "standalone" and info["snicstore_shards"] == 2
    assert a.config_get("maxmemory-policy") == {"maxmemory-policy": "noeviction"}
    assert a.config_resetstat() and a.echo("x") == b"x"
    assert a.command_count() > 50 and "get" in a.command()
    assert a.execute_command("DURABILITY", "memory", "SET", "d", "1") == b"OK"
    assert a.execute_command("READLEVEL", "all", "CONFIRM", "GET", "d") == b"1"


def monitoring(a, b):
    """What monitoring tools and redis-cli send."""
    a.set("o", "12")
    assert a.object("encoding", "o") == b"int" and a.object("refcount", "o") == 1
    for what in ("idletime", "freq"):
        raises(redis.ResponseError, "OBJECT %s is not supported" % what, a.object, what, "o")
    assert a.config_set("slowlog-log-slower-than", 0) and a.slowlog_reset()
    a.set("slow", "x" * 200)
    b.set("slow", "other")
    slow = a.slowlog_get(-1)
    assert a.slowlog_len() == len(slow) == 1, slow
    assert slow[0]["command"] == b"SET slow " + b"x" * 128 + b"... (72 more bytes)", slow
    assert slow[0]["duration"] > 0 and slow[0]["start_time"] > 1_000_000_000
    a.config_set("slowlog-max-len", 2)
    a.delete("slow", "s1", "s2")
    a.set("s1", 1)
    assert [e["command"][:4] for e in a.slowlog_get()] == [b"SET ", b"DEL "]
    a.config_set("slowlog-log-slower-than", -1)
    assert a.slowlog_reset() and a.slowlog_len() == 0 and a.delete("s1") == 1
    assert a.slowlog_len() == 0
    assert a.execute_command("LATENCY LATEST") == [] and a.execute_command("LATENCY RESET") == 0
    assert a.execute_command("LATENCY HISTORY", "command") == []
    assert a.execute_command("LATENCY HISTOGRAM") == []
    assert b"not recorded" in a.execute_command("LATENCY DOCTOR")
    assert a.config_get("latency-*") == {"latency-monitor-threshold": "0",
                                         "latency-tracking": "no"}
    a.set("big", bytes(5000))
    assert 5000 < a.memory_usage("big") < 6000 and b.memory_usage("big", samples=0) > 5000
    assert a.memory_usage("none") is None
    want = a.dbsize()
    while (s := a.memory_stats())["keys.count"] != want or s["dataset.bytes"] < 5000:
        time.sleep(0.02)  # it is of the last publication
    raises(redis.ResponseError, "unknown subcommand", a.memory_purge)
    a.delete("o", "big")


def dumps(a, b):
    """Payloads are Redis' own, of strings; those of others are refused by name."""
    for value in (b"", b"hello", b"-77", b"abc" * 3000):
        a.set("d", value)
        payload = a.dump("d")
        assert b.restore("e", 0, payload, replace=True) == b"OK" and a.get("e") == value
    raises(redis.ResponseError, "BUSYKEY", a.restore, "e", 0, payload)
    assert a.dump("none") is None and a.ttl("e") == -1
    assert a.restore("e", 500_000, payload, replace=True) and 500 - WAIT <= b.ttl("e") <= 500
    assert a.restore("e", a.time()[0] * 1000 + 900_000, payload, replace=True, absttl=True)
    assert 900 - WAIT <= b.ttl("e") <= 900
    assert a.restore("e", 1, payload, replace=True, absttl=True) and a.get("e") is None
    raises(redis.ResponseError, "version or checksum", a.restore, "e", 0, payload[:-1] + b"x")
    raises(redis.ResponseError, "version or checksum", a.restore, "e", 0, b"")
    raises(redis.ResponseError, "TTL value", a.restore, "e", -1, payload)
    raises(redis.ResponseError, "RESTORE IDLETIME is not supported", a.restore, "e", 0, payload,
           idletime=5)
    raises(redis.ResponseError, "RDB version 80, and the newest that is understood is 12",
           a.restore, "e", 0, bytes.fromhex("00056e6577657250004dcc2d1673d826e4"))
    # Of redis-server 7.0: a list of one element, and two strings, the second compressed; of 8.0 a
    # plain one.
    raises(redis.ResponseError, "RDB type 18 (list) is not a string", a.restore, "e", 0,
           bytes.fromhex("1201020a0a0000000100817802ff0a00d17b3fb85c03060e"))
    for value, dump in ((b"hello", "000568656c6c6f0a006372df766534200a"),
                        (b"ab" * 100, "00c30a40c802616261e0ba010161620a0024a6e84170c0c68c"),
                        (b"newer", "00056e657765720c004990d04717a0df59")):
        assert a.restore("e", 0, bytes.fromhex(dump), replace=True) and b.get("e") == value
    a.delete("d", "e")


def node_clients(k):
    """CLIENT LIST and KILL see the clients of all loops."""
    many = [redis.Redis(port=k.ports[0], single_connection_client=True,
                        client_name="many%d" % i) for i in range(24)]
    a = many[0]
    seen = {c["name"]: c for c in a.client_list() if c["name"].startswith("many")}
    assert len(seen) == len(many) and len({c["id"] for c in seen.values()}) == len(many)
    assert {int(c["id"]) % 2 for c in seen.values()} == {0, 1}  # of both loops
    ids = [seen["many%d" % i]["id"] for i in range(24)]
    some = a.execute_command("CLIENT", "LIST", "ID", *ids[3:6]).decode().splitlines()
    assert {line.split()[0] for line in some} == {"id=" + i for i in ids[3:6]}
    assert a.client_list(_type="pubsub") == [] and len(a.client_list(_type="normal")) >= 24
    for i in range(1, 8):  # wherever they are
        assert a.client_kill_filter(_id=ids[i]) == 1
    assert a.client_kill_filter(_id=ids[1]) == 0
    assert a.client_kill(seen["many8"]["addr"])
    raises(redis.ResponseError, "No such client", a.client_kill, "1.2.3.4:5")
    left = {c["name"] for c in a.client_list() if c["name"].startswith("many")}
    assert left == {"many0"} | {"many%d" % i for i in range(9, 24)}, left
    assert a.client_kill_filter(_id=ids[0]) == 0  # SKIPME is the default
    assert a.execute_command("CLIENT", "KILL", "ID", ids[0], "SKIPME", "no") == 1
    assert a.connection._sock.recv(1) == b""  # closed behind the reply
    while ids[0] in {c["id"] for c in many[9].client_list()}:
        time.sleep(0.02)
    assert many[9].client_kill_filter(_type="normal", laddr=seen["many9"]["laddr"]) >= 14
    for c in many:
        c.close()


def all_of_it(binary):
    with Cluster(binary, shards=2).found() as k:
        a, b = (redis.Redis(port=k.ports[i], single_connection_client=i == 0) for i in (0, 1))
        try:
            strings(a, b)
            times(a, b)
            keys(a, b)
            refusals(a)
            server(a)
            monitoring(a, b)
            dumps(a, b)
            for c in (a, b):
                c.close()
            node_clients(k)
        except redis.BusyLoadingError as e:
            evidence.inconclusive(e)
        except redis.ResponseError as e:
            if not re.search("|".join(Client.INCONCLUSIVE), str(e)):
                raise
            evidence.inconclusive(e)


if __name__ == "__main__":
    carry_out({"redis-py " + redis.__version__: all_of_it}, [], sys.argv[1])
