#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 OR MIT
"""redis-py, as programs use it, with three nodes. Skipped without it (Debian: python3-redis).

    test_ddp_redis.py BINARY
"""
import os
import sys

try:
    import redis
except ImportError:
    SYSTEM = "/usr/bin/python3"  # its packages are the distribution's
    if os.path.exists(SYSTEM) and os.environ.get("SNIC_REDIS_TRIED") is None:
        os.environ["SNIC_REDIS_TRIED"] = "1"
        os.execv(SYSTEM, [SYSTEM, *sys.argv])
    print("skipped: no module redis (Debian: python3-redis)")
    sys.exit(77)

from ddpserver import Cluster  # noqa: E402


def raises(kind, text, call, *arguments, **more):
    try:
        call(*arguments, **more)
    except kind as e:
        assert text in str(e), e
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
    assert a.setex("t", 100, "v") and 98 <= b.ttl("t") <= 100 and 98000 <= b.pttl("t") <= 100000
    assert b.persist("t") and a.ttl("t") == -1 and a.expire("t", 50) and 48 <= b.ttl("t") <= 50
    assert a.getex("t", px=9000) == b"v" and b.pttl("t") <= 9000 and a.ttl("none") == -2
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


def main():
    with Cluster(sys.argv[1], shards=2).found() as k:
        a, b = (redis.Redis(port=k.ports[i], single_connection_client=i == 0) for i in (0, 1))
        strings(a, b)
        times(a, b)
        keys(a, b)
        refusals(a)
        server(a)
        for c in (a, b):
            c.close()
    print("ok redis-py", redis.__version__)


if __name__ == "__main__":
    main()
