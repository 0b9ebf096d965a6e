#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Tenants of kv_server from outside: options, which client is whose tenant, INFO's report of them.

    test_kv_tenants.py BINARY MODE [--only NAME]     MODE: single, two

Exit code: 0 or 1. No check depends on timing.
"""
import os
import re
import subprocess
import sys
import threading
import time
import traceback
import urllib.request

sys.path.insert(0, os.path.join(os.path.dirname(os.path.realpath(__file__)), "../../support"))
from kvnode import WAIT, Server, encode, free_port  # noqa: E402

KEYS, SIZE = 4000, 12000  # 48 MB: more than the 32 MiB of memory


def equal(a, b, what=""):
    assert a == b, "%s: %.300r is not %.300r" % (what, a, b)


def value_of(database, i):
    return (b"%d/%d:" % (database, i) * SIZE)[:SIZE]


def fill(c, database, count=KEYS):
    for at in range(0, count, 64):
        n = min(64, count - at)
        c.raw(b"".join(encode("SET", "k%d" % (at + i), value_of(database, at + i))
                       for i in range(n)))
        for _ in range(n):
            equal(c.reply(), "OK", "fill")


def section(c, name):
    """The lines of an INFO section: {first: {field: value}}."""
    out = {}
    for line in c.cmd("INFO", name).decode().split("\r\n"):
        if ":" in line and not line.startswith("#"):
            first, rest = line.split(":", 1)
            out[first] = dict(p.split("=", 1) for p in rest.split(",")) if "=" in rest else rest
    return out


def tenants(c, name, least):
    """The tenant's line once it shows @least operations: the figures come twice a second."""
    end = time.monotonic() + WAIT
    while True:
        lines = section(c, "tenants")
        if name in lines and int(lines[name]["ops"]) >= least:
            return lines
        assert time.monotonic() < end, "no %d operations of %s in %r" % (least, name, lines)
        c.cmd("PING")  # figures are sent when there was a message
        time.sleep(0.1)


def settled(c, *names):
    """The lines when nothing has moved for a while: all that was done is counted."""
    end = time.monotonic() + WAIT
    before = None
    while True:
        lines = section(c, "tenants")
        if before is not None and all(n in lines and lines[n]["ops"] == before[n]["ops"]
                                      for n in names):
            return lines
        assert time.monotonic() < end, "%r does not settle: %r" % (names, lines)
        before = lines if all(n in lines for n in names) else None
        c.cmd("PING")
        time.sleep(1.2)


def test_options(binary, mode):
    """Each mistake is named, before anything is opened."""
    node = Server(binary, mode)

    def fails(message, *extra):
        r = subprocess.run(node.args(extra), capture_output=True, text=True, timeout=WAIT,
                           check=False)
        assert r.returncode != 0, extra
        assert message in r.stderr, "%r: %s" % (extra, r.stderr)
        assert not os.path.exists(os.path.join(node.directory, "img")), extra
    on = ("--qos", "gimbal")
    by_client = on + ("--tenant-by", "client")
    fails("--qos: 'fair' is not one of off|gimbal", "--qos", "fair")
    fails("--tenant-by: 'address'", *on, "--tenant-by", "address")
    fails("need --qos gimbal", "--tenant", "0")
    fails("need --qos gimbal", "--tenant-by", "client")
    fails("--write-cost need --qos gimbal", "--thresh-min", "100")
    fails("--thresh-min must be less than --thresh-max", *on, "--thresh-max", "250")
    fails("which begins with 1500 unless it is set, too", *on, "--thresh-min", "3700")
    fails("--write-cost", *on, "--write-cost", "33")
    fails("--tenant: '16' is not a database from 0 to 15", *on, "--tenant", "16")
    fails("'x' is not a database", *on, "--tenant", "x:weight=2")
    fails("'01' is not a database", *on, "--tenant", "01")
    fails("'1' is set twice", *on, "--tenant", "1", "--tenant", "1:weight=3")
    fails("'weight=0' is not a number from 1 to 256", *on, "--tenant", "1:weight=0")
    fails("'weight=257' is not", *on, "--tenant", "1:weight=257")
    fails("'weight=' is not", *on, "--tenant", "1:weight=")
    fails("'bytes=3X' is not", *on, "--tenant", "1:bytes=3X")
    fails("'ios=99999999999999999999999' is not", *on, "--tenant",
          "1:ios=99999999999999999999999")
    fails("'speed=3' is neither", *on, "--tenant", "1:speed=3")
    fails("'a.b' and 'a_b' would have the same name in the metrics", *by_client, "--tenant", "a.b",
          "--tenant", "a_b")
    fails("'server' is reserved for the server's own", *by_client, "--tenant", "server:weight=2")
    fails("': the name of a tenant must have 1 to 63 bytes", *by_client, "--tenant", ":weight=1")
    fails("': the name of a tenant must have 1 to 63 bytes", *by_client, "--tenant", "n" * 64)
    fails("more than 64 tenants", *by_client,
          *sum((["--tenant", "t%d" % i] for i in range(65)), []))
    fails("--databases", *on, "--databases", "4096")
    mono = Server(binary, "monolith")
    r = subprocess.run(mono.args(on), capture_output=True, text=True, timeout=WAIT, check=False)
    assert r.returncode != 0 and "--monolith exclude each other" in r.stderr, r.stderr
    mono.destroy()
    node.destroy()


def test_off(binary, mode):
    """Without a switch nothing is reported of it."""
    with Server(binary, mode) as node, node.conn() as c:
        text = c.cmd("INFO").decode()
        assert "# Tenants" not in text and "# Device" not in text, text


def test_databases(binary, mode):
    """Reads and log writes are those of the requesting database."""
    node = Server(binary, mode, qos="gimbal", tenant="1:weight=3:bytes=900M",
                  **{"thresh-min": "100000", "thresh-max": "200000", "write-cost": "3"})
    with node, node.conn() as zero, node.conn() as one:
        equal(one.cmd("SELECT", "1"), "OK")
        fill(zero, 0)
        fill(one, 1)
        before = settled(zero, "db0", "db1")
        assert int(before["db1"]["bytes"]) > KEYS * SIZE // 2, before  # the log, mostly its own
        for i in range(300):
            equal(zero.cmd("GET", "k%d" % i), value_of(0, i), "db0")
        lines = tenants(zero, "db0", int(before["db0"]["ops"]) + 300)
        equal(lines["db1"]["weight"], "3")
        equal(lines["db0"]["weight"], "1")
        assert int(lines["db1"]["ops"]) < int(before["db1"]["ops"]) + 100, lines
        before = settled(zero, "db0", "db1")
        for i in range(300):
            equal(one.cmd("GET", "k%d" % i), value_of(1, i), "db1")
        lines = tenants(one, "db1", int(before["db1"]["ops"]) + 300)
        for name in ("server", "db0", "db1"):
            for field in ("ops", "bytes", "wait_p50_us", "wait_p99_us", "part_wait_mean_us",
                          "device_mean_us", "queued", "inflight", "credit", "weight", "errors"):
                assert lines[name][field].isdigit(), lines[name]
            equal(lines[name]["errors"], "0", name)
        assert int(lines["db0"]["credit"]) >= 1
        assert "db2" not in lines
        device = section(one, "device")
        assert device["read_state"] in ("underutilised", "avoidance", "congested", "overloaded")
        assert int(device["rate"]) > 0 and 1.0 <= float(device["write_cost"]) <= 3.0, device
        for field in ("read_threshold_us", "write_threshold_us"):
            assert 100000 <= int(device[field]) <= 200000, device
        text = one.cmd("INFO").decode()
        assert "# Tenants\r\n" in text and "# Device\r\n" in text
        equal(node.stop(), 0, "exit status")


def test_clients(binary, mode):
    """CLIENT SETNAME and HELLO SETNAME choose the tenant; all others are `default`."""
    # Two tenants in one option's place: Server writes each option once.
    node = Server(binary, mode, qos="gimbal", **{"tenant-by": "client", "tenant": "alice:weight=5"})
    node.start(extra=("--tenant", "default:weight=2"))
    try:
        with node.conn() as a, node.conn() as b:
            fill(a, 0)
            before = settled(a, "default")
            assert "alice" not in before, before
            equal(a.cmd("CLIENT", "SETNAME", "alice"), "OK")
            for i in range(200):
                equal(a.cmd("GET", "k%d" % i), value_of(0, i), "alice")
            lines = tenants(a, "alice", 200)
            equal(lines["alice"]["weight"], "5")
            equal(lines["default"]["weight"], "2")
            equal(a.cmd("CLIENT", "SETNAME", "bob"), "OK")  # no tenant's name
            had = int(lines["default"]["ops"])
            for i in range(200):
                equal(a.cmd("GET", "k%d" % i), value_of(0, i), "bob")
            lines = tenants(a, "default", had + 200)
            alice = int(lines["alice"]["ops"])
            equal(b.cmd("HELLO", "2", "SETNAME", "alice")[1], b"redis")
            equal(b.cmd("SELECT", "3"), "OK")  # the name stays
            equal(b.cmd("SET", "x", "y"), "OK")
            equal(b.cmd("SELECT", "0"), "OK")
            for i in range(200):
                equal(b.cmd("GET", "k%d" % i), value_of(0, i), "alice again")
            tenants(b, "alice", alice + 200)
        equal(node.stop(), 0, "exit status")
    finally:
        node.destroy()


def test_flood(binary, mode):
    """Everything is answered, and rightly, while one database floods the device."""
    node = Server(binary, mode, qos="gimbal", **{"device-depth": "2"})
    with node:
        with node.conn() as c:
            fill(c, 0)
            equal(c.cmd("SELECT", "1"), "OK")
            fill(c, 1)
        wrong = []
        stop = threading.Event()

        def flood(number):
            try:
                with node.conn() as c:
                    equal(c.cmd("SELECT", "1"), "OK")
                    at = number * 37
                    while not stop.is_set():
                        keys = [(at + i * 13) % KEYS for i in range(64)]
                        c.raw(b"".join(encode("GET", "k%d" % k) if k % 9 else
                                       encode("SET", "k%d" % k, value_of(1, k)) for k in keys))
                        for k in keys:
                            r = c.reply()
                            equal(r, value_of(1, k) if k % 9 else "OK", "flood")
                        at += 64
            except Exception as e:  # reported by the main thread
                wrong.append(e)
        threads = [threading.Thread(target=flood, args=(i,)) for i in range(8)]
        for t in threads:
            t.start()
        try:
            with node.conn() as c:
                for i in range(400):
                    equal(c.cmd("GET", "k%d" % (i * 7 % KEYS)), value_of(0, i * 7 % KEYS), "quiet")
                    if i % 10 == 0:
                        equal(c.cmd("SET", "q%d" % i, "v"), "OK")
                lines = tenants(c, "db0", 100)
                assert int(lines["db1"]["ops"]) > 0, lines
        finally:
            stop.set()
            for t in threads:
                t.join()
        assert not wrong, wrong[0]
        equal(node.stop(), 0, "exit status")


def test_metrics(binary, mode):
    """The page and the lines have the switch's figures."""
    port = free_port()
    node = Server(binary, mode, qos="gimbal", stats="1", metrics="127.0.0.1:%d" % port)
    with node, node.conn() as c:
        fill(c, 0)
        for i in range(50):
            c.cmd("GET", "k%d" % i)
        with urllib.request.urlopen("http://127.0.0.1:%d/metrics" % port, timeout=WAIT) as r:
            page = r.read().decode()
        for name in ("tenant_db0_reads", "tenant_db0_writes", "tenant_server_bytes",
                     "tenant_db0_wait_ns", "device_rate_bytes", "device_write_cost_sixteenths"):
            assert re.search(r"^\w*%s(\{.*\})? \d+$" % name, page, re.M), name + "\n" + page
        end = time.monotonic() + WAIT
        while "tenant_db0_reads=" not in node.out():
            assert time.monotonic() < end, node.out()
            time.sleep(0.1)


def shown_and_left_out(c, port, used):
    end = time.monotonic() + WAIT
    while len(section(c, "tenants")) < used:
        assert time.monotonic() < end, len(section(c, "tenants"))
        time.sleep(0.2)
    with urllib.request.urlopen("http://127.0.0.1:%d/metrics" % port, timeout=WAIT) as r:
        page = r.read().decode()
    shown = len(re.findall(r"^\w*tenant_\w+_credit \d+$", page, re.M))
    left_out = int(re.search(r"^\w*tenants_not_shown (\d+)$", page, re.M).group(1))
    assert 60 < shown < used <= shown + left_out <= 1001, (shown, left_out)


def test_many_tenants(binary, mode):
    """More tenants than a page of figures has room for: it counts those that are left out; INFO has
    them all."""
    port = free_port()
    node = Server(binary, mode, qos="gimbal", databases="1000",
                  metrics="127.0.0.1:%d" % port)
    used = 200
    with node:
        with node.conn() as c:
            c.raw(b"".join(encode("SELECT", "%d" % i) + encode("SET", "k", "v")
                           for i in range(used)))
            for _ in range(2 * used):
                equal(c.reply(), "OK")
        equal(node.stop(), 0, "exit status")
        node.start()  # all is on the device only
        with node.conn() as c:
            c.raw(b"".join(encode("SELECT", "%d" % i) + encode("GET", "k") for i in range(used)))
            for _ in range(used):
                equal((c.reply(), c.reply()), ("OK", b"v"))
            shown_and_left_out(c, port, used)


def test_end(binary, mode):
    """The drain does not wait for caps: what was inside took hours at a byte a second."""
    node = Server(binary, mode, qos="gimbal", tenant="1:bytes=1:ios=1")

    def reads():
        try:
            with node.conn() as c:
                equal(c.cmd("SELECT", "1"), "OK")
                for i in range(200):
                    c.cmd("GET", "k%d" % i)
        except Exception:  # the server ends meanwhile
            pass

    with node:
        with node.conn() as c:
            equal(c.cmd("SELECT", "1"), "OK")
            for i in range(200):
                equal(c.cmd("SET", "k%d" % i, value_of(1, i)), "OK")
        readers = [threading.Thread(target=reads, daemon=True) for _ in range(8)]
        for t in readers:
            t.start()
        time.sleep(1)
        equal(node.stop(), 0, "exit status")
        for t in readers:
            t.join()


TESTS = [test_options, test_off, test_databases, test_clients, test_flood, test_metrics,
         test_many_tenants, test_end]


def main():
    args = sys.argv[1:]
    only = None
    if "--only" in args:
        at = args.index("--only")
        only = args[at + 1]
        del args[at:at + 2]
    failed = 0
    for test in TESTS:
        if only is not None and test.__name__ != "test_" + only:
            continue
        began = time.monotonic()
        try:
            test(args[0], args[1])
            result = "ok"
        except Exception:  # whatever it was, the others run
            traceback.print_exc()
            failed += 1
            result = "FAILED"
        print("%-20s %6.2f s  %s" % (test.__name__[5:], time.monotonic() - began, result),
              flush=True)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
