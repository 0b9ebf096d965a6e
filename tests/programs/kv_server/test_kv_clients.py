#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Client libraries of Redis against kv_server, each with its defaults: values, pipelines,
transactions, locks.

    test_kv_clients.py BINARY MODE BUILD_FOLDER [HIREDIS_CLIENT]

npm's clients are installed into BUILD_FOLDER from clients/package-lock.json. Whatever is not
installed, or cannot be had without network, is reported as skipped by its name. SNIC_KV_REDIS=1
runs them against redis-server instead, which shows what is the clients' own.
"""
import os
import shutil
import subprocess
import sys

sys.path.insert(0, os.path.dirname(os.path.realpath(__file__)))
from test_kv_diff import Raw, Redis, Server, encode  # noqa: E402

HERE = os.path.join(os.path.dirname(os.path.realpath(__file__)), "clients")


def run(command, timeout=120, **kw):
    return subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                          timeout=timeout, check=False, **kw)


def npm(folder):
    """The folder of npm's modules, or None and why not."""
    if shutil.which("node") is None or shutil.which("npm") is None:
        return None, "node and npm are not installed"
    target = os.path.join(folder, "npm")
    stamp = os.path.join(target, "installed")
    with open(os.path.join(HERE, "package-lock.json"), encoding="utf-8") as f:
        lock = f.read()
    if os.path.exists(stamp):
        with open(stamp, encoding="utf-8") as f:
            if f.read() == lock:
                return os.path.join(target, "node_modules"), None
    os.makedirs(target, exist_ok=True)
    for name in ("package.json", "package-lock.json"):
        shutil.copy(os.path.join(HERE, name), target)
    done = run(["npm", "ci", "--no-audit", "--no-fund", "--ignore-scripts", "--fetch-retries=1",
                "--fetch-timeout=30000"], timeout=300, cwd=target)
    if done.returncode != 0:
        return None, "npm ci failed: %s" % done.stdout.decode(errors="replace")[-300:]
    with open(stamp, "w", encoding="utf-8") as f:
        f.write(lock)
    return os.path.join(target, "node_modules"), None


def clients(folder, hiredis):
    """Name, command without the port, environment; or why not."""
    probes = [("redis-py", ["/usr/bin/python3", "-c", "import redis"], "client.py"),
              ("ruby-redis", ["ruby", "-e", "require 'redis'"], "client.rb"),
              ("libredis-perl", ["perl", "-MRedis", "-e", "1"], "client.pl"),
              ("php-redis", ["php", "-r", "exit(class_exists('Redis') ? 0 : 1);"], "client.php")]
    for name, probe, script in probes:
        try:
            found = run(probe).returncode == 0
        except OSError:
            found = False
        yield (name, [probe[0], os.path.join(HERE, script)], {},
               None if found else "not installed")
    yield ("hiredis", [hiredis], {},
           None if hiredis and os.path.exists(hiredis) else "libhiredis-dev is not installed")
    modules, why = npm(folder)
    for name, script in (("npm redis", "client_redis.js"), ("npm ioredis", "client_ioredis.js")):
        yield name, ["node", os.path.join(HERE, script)], {"NODE_PATH": modules or ""}, why


def greeting(port):
    """What redis-py 8 sends first, in one piece: HELLO 3 and CLIENT SETINFO twice."""
    with Raw(port) as c:
        c.raw(encode("HELLO", "3") + encode("CLIENT", "SETINFO", "LIB-NAME", "redis-py") +
              encode("CLIENT", "SETINFO", "LIB-VER", "8.0.0") + encode("GET", "no such key"))
        got = b""
        while not got.endswith(b"+OK\r\n+OK\r\n_\r\n"):
            part = c.sock.recv(4096)
            assert part, "closed after %r" % got
            got += part
    assert got.startswith(b"%7\r\n$6\r\nserver\r\n$5\r\nredis\r\n$7\r\nversion\r\n$6\r\n7.0.15\r\n"
                          b"$5\r\nproto\r\n:3\r\n$2\r\nid\r\n:"), got
    assert b"$4\r\nmode\r\n$10\r\nstandalone\r\n$4\r\nrole\r\n$6\r\nmaster\r\n" in got, got
    assert b"$7\r\nmodules\r\n*0\r\n+OK" in got, got


def main():
    real = os.environ.get("SNIC_KV_REDIS", "") not in ("", "0")
    node = Redis() if real else Server(sys.argv[1], sys.argv[2], offload="all")
    failed = 0
    try:
        if not real:
            node.start()
            greeting(node.port)
            print("greeting of redis-py 8 ok")
        for name, command, extra, why in clients(sys.argv[3], "".join(sys.argv[4:5])):
            if why is not None:
                print("skipped: %s: %s" % (name, why))
                continue
            done = run(command + [str(node.port)], env=dict(os.environ, **extra))
            print(done.stdout.decode(errors="replace").strip(), flush=True)
            if done.returncode != 0:
                failed += 1
                print("failed: %s" % name)
        if not real and node.stop() != 0:
            failed += 1
    finally:
        node.destroy()
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
