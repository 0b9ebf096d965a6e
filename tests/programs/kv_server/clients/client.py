# SPDX-License-Identifier: Apache-2.0 OR MIT
"""redis-py with its defaults: client.py PORT"""
import sys

import redis

r = redis.Redis(port=int(sys.argv[1]))
r.flushall()
binary = bytes(range(256)) * 100
assert r.set("binary", binary) and r.get("binary") == binary
assert r.set("k", "1", nx=True) and r.set("k", "2", nx=True) is None
assert r.set("k", "3", get=True, keepttl=True) == b"1" and r.incrby("k", 4) == 7
assert r.mset({"a": 1, "b": 2}) and r.mget("a", "b", "none") == [b"1", b"2", None]
assert r.expire("a", 100) and 90 < r.ttl("a") <= 100 and r.persist("a") and r.ttl("a") == -1
assert sorted(r.scan_iter(match="*", count=2)) == sorted(r.keys()) == [b"a", b"b", b"binary", b"k"]

with r.pipeline(transaction=False) as p:
    for i in range(2000):
        p.set("p%d" % i, i)
        p.get("p%d" % i)
    assert p.execute() == [x for i in range(2000) for x in (True, b"%d" % i)]
with r.pipeline() as p:
    p.set("t", 5).incr("t").get("t")
    assert p.execute() == [True, 6, b"6"]
with r.pipeline() as p:
    p.watch("t")
    p.multi()
    p.incr("t")
    r.set("t", 50)
    try:
        p.execute()
        raise AssertionError("a watched key changed, and EXEC ran")
    except redis.WatchError:
        pass
assert r.get("t") == b"50"
assert r.transaction(lambda p: (p.multi(), p.incr("t")), "t") == [51]
try:
    with r.pipeline() as p:
        p.set("k", "text").incr("k").set("after", 1)
        p.execute()
    raise AssertionError("INCR of a text")
except redis.ResponseError as e:
    assert "not an integer" in str(e), e
assert r.get("after") == b"1"

lock = r.lock("lock", timeout=20)
assert lock.acquire(blocking=False) and not r.lock("lock", timeout=5).acquire(blocking=False)
assert lock.owned() and lock.extend(30) and 40 < r.ttl("lock") <= 50
assert lock.reacquire() and 10 < r.ttl("lock") <= 20
lock.release()
assert r.get("lock") is None
with r.lock("lock", timeout=9) as other:
    r.set("lock", "stolen")
    try:
        other.release()
        raise AssertionError("a lock of another was released")
    except redis.exceptions.LockError:
        other.local.token = b"stolen"

payload = r.dump("binary")
assert r.restore("again", 0, payload) and r.get("again") == binary
assert r.object("encoding", "t") in (b"int", "int") and r.type("t") == b"string"
assert r.rename("again", "twice") and r.copy("twice", "again") and r.lcs("a", "b") == b""
print("redis-py", redis.__version__, "ok")
