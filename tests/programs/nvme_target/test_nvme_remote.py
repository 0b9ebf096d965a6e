#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 OR MIT
"""kv_server on a namespace of nvme_target: format, kill -9 of the target while keys are written and
its restart, kill -9 of the server and its restart. What was acknowledged is there.

    test_nvme_remote.py NVME_TARGET KV_SERVER

Exit code: 0, 1, or 77: the file system cannot zero ranges. No check depends on timing.
"""
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.realpath(__file__)), "../../support"))
from kvnode import WAIT, Server, free_port  # noqa: E402

NQN = "nqn.2026-11.example:disk"
KEYS = 1000


SECRET = "DHHC-1:00:AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh+KfiaR:"
OTHER = "DHHC-1:01:YIxnmbFpBiH8Ci+rnzvuh8NUXTVlsR4BhLR9AZDNIthSZgxm:"


class Target:
    def __init__(self, binary, folder):
        self.binary, self.folder, self.port = binary, folder, free_port()
        self.process = None

    def start(self, options=()):
        with open(os.path.join(self.folder, "target.log"), "ab") as log:
            self.process = subprocess.Popen(
                [self.binary, "--listen", "127.0.0.1:%d" % self.port, "--subsystem", NQN,
                 "--host", "any", "--namespace", os.path.join(self.folder, "disk"), "--size",
                 "512M", *options], stdout=subprocess.PIPE, stderr=log)
        line = self.process.stdout.readline().decode()
        if not line and "cannot zero ranges" in self.log():
            sys.exit(77)  # not on this file system
        assert line.startswith("ready "), "the target does not start"

    def kill(self):
        self.process.send_signal(signal.SIGKILL)
        self.process.wait()

    def log(self):
        with open(os.path.join(self.folder, "target.log"), encoding="utf-8") as f:
            return f.read()


class Remote(Server):
    """A kv_server whose image is remote; its files are in its own folder."""

    def __init__(self, binary, mode, uri):
        super().__init__(binary, mode, sync="always")
        self.uri = uri

    def args(self, extra=()):
        out = super().args(extra)
        out[out.index("--file") + 1] = self.uri
        return out + ["--socket", os.path.join(self.directory, "sock")]


def value(i):
    return b"%d:" % i + bytes([65 + i % 26]) * (i % 700)


def write(server, acked, stop):
    with server.conn(timeout=WAIT) as c:
        for i in range(KEYS):
            assert c.cmd("SET", "key%d" % i, value(i)) == "OK", "a key was refused"
            acked.append(i)
            if stop is not None and len(acked) >= stop:
                return


def check(server, acked):
    with server.conn(timeout=WAIT) as c:
        for i in acked:
            assert c.cmd("GET", "key%d" % i) == value(i), "key%d is lost or wrong" % i


def run(target, binary, mode):
    uri = "nvme-tcp://127.0.0.1:%d/%s?queues=2&kato=1000&host=nqn.2026-11.example:%s" % (
        target.port, NQN, mode)
    acked = []
    server = Remote(binary, mode, uri)
    try:
        server.start()
        writer = threading.Thread(target=write, args=(server, acked, None))
        writer.start()
        while len(acked) < KEYS // 4 and writer.is_alive():
            time.sleep(0.01)
        target.kill()
        time.sleep(0.3)
        target.start()
        writer.join()
        assert len(acked) == KEYS, "the writer ended early:\n" + server.log()
        check(server, acked)
        server.process.send_signal(signal.SIGKILL)
        for pid in server.pids()[1:]:
            try:
                os.kill(pid, signal.SIGKILL)
            except OSError:
                pass
        server.process.wait()
        server.start()
        check(server, acked)
        assert server.stop() == 0, "the server's exit code"
        print("ok", mode, flush=True)
    except AssertionError:
        print(server.log(), target.log(), flush=True)
        raise
    finally:
        server.destroy()


def refusals(target, binary):
    """Names that are wrong, or of what the target does not have: one clear line each."""
    where = "127.0.0.1:%d" % target.port
    for uri, line in (
            ("nvme-tcp://nowhere/%s" % NQN, "not an address"),
            ("nvme-tcp://%s/%s?nsid=x" % (where, NQN), "nsid: not"),
            ("nvme-tcp://%s/%s2" % (where, NQN), "no such subsystem or namespace"),
            ("nvme-tcp://%s/%s?nsid=9" % (where, NQN), "no such subsystem or namespace")):
        server = Remote(binary, "single", uri)
        p = subprocess.run(server.args(), stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                           timeout=WAIT, check=False)
        server.destroy()
        assert p.returncode == 1 and line in p.stdout.decode(), (uri, p.stdout)
    print("ok refusals", flush=True)


def start_fails(binary, uri, line, options=(), inside=()):
    server = Remote(binary, "single", uri)
    p = subprocess.run([*inside, *server.args(options)], stdout=subprocess.PIPE,
                       stderr=subprocess.STDOUT, timeout=WAIT, check=False)
    server.destroy()
    assert p.returncode == 1 and line in p.stdout.decode(), (uri, line, p.stdout)


def clones(target, binary):
    """Machines of one name are two hosts; what has one host id is one; one without
    an id and a name needs host= or hostid=."""
    uri = "nvme-tcp://127.0.0.1:%d/%s" % (target.port, NQN)
    inside = ["unshare", "-m", "-u", "--propagation", "private"]
    if not os.path.isfile("/etc/machine-id") or subprocess.run(
            [*inside, "true"], stderr=subprocess.DEVNULL, check=False).returncode != 0:
        print("skipped: clones need root and /etc/machine-id", flush=True)
        return
    path = os.path.join(target.folder, "id")
    with open(path, "w", encoding="utf-8") as f:
        f.write("0123456789abcdef" * 2 + "\n")
    other = [*inside, "sh", "-ec", 'mount --bind "$0" /etc/machine-id; exec "$@"', path]
    nameless = [*inside, "sh", "-ec", 'mount --bind /dev/null /etc/machine-id; '
              'hostname localhost.localdomain; exec "$@"', "sh"]
    given = uri + "?hostid=0f6c1e2d-0000-4000-8000-000000000001"
    for first_uri, second_uri, words in (
            (uri, uri, "another host has the namespace"),
            (uri + "?host=nqn.2026-11.example:a", uri + "?host=nqn.2026-11.example:a",
             "another host has the namespace"),
            (given, given + "&host=nqn.2026-11.example:a", "in use by another process")):
        first = Remote(binary, "single", first_uri)
        try:
            first.start()
            start_fails(binary, second_uri, words, inside=other)
            assert first.stop() == 0
        finally:
            first.destroy()
    start_fails(binary, uri, "cannot be known from others", inside=nameless)
    print("ok clones", flush=True)


def locked(target, binary):
    """A second server is kept out, of the same host and of another, until the first has ended or
    another takes the namespace."""
    uri = "nvme-tcp://127.0.0.1:%d/%s" % (target.port, NQN)
    first = Remote(binary, "single", uri)
    second = Remote(binary, "single", uri + "?host=nqn.2026-11.example:b&lock=take")
    try:
        first.start()
        write(first, [], 10)
        start_fails(binary, uri, "in use by another process of this machine")
        start_fails(binary, uri + "?host=nqn.2026-11.example:b", "another host has the namespace")
        assert first.stop() == 0
        second.start()
        check(second, range(10))
        second.process.kill()
        second.process.wait()
        start_fails(binary, uri, "another host has the namespace")
        first.uri = uri + "?lock=take"
        first.start()
        check(first, range(10))
        assert first.stop() == 0, "the server's exit code"
        print("ok locked", flush=True)
    except AssertionError:
        print(first.log(), second.log(), target.log(), flush=True)
        raise
    finally:
        first.destroy()
        second.destroy()


def authenticated(target, binary):
    """--auth-keys on both sides: with the right secret, and mistakes that are named."""
    uri = "nvme-tcp://127.0.0.1:%d/%s?host=nqn.2026-11.example:a" % (target.port, NQN)

    def keys(name, text, mode=0o600):
        path = os.path.join(target.folder, name)
        with open(path, "w", encoding="utf-8") as f:
            f.write(text)
        os.chmod(path, mode)
        return path

    line = "nqn.2026-11.example:a " + SECRET + "\n"
    good = keys("keys", "# secrets\n" + line)
    target.kill()
    target.start(["--auth-keys", good])
    start_fails(binary, uri, "requires a secret")
    start_fails(binary, uri, "or another one",
                ["--auth-keys", keys("other", line.replace(SECRET, OTHER))])
    start_fails(binary, uri, "others may read it", ["--auth-keys", keys("open", line, 0o644)])
    start_fails(binary, uri, "bad:1: the host's secret is not",
                ["--auth-keys", keys("bad", "nqn.2026-11.example:a x\n")])
    start_fails(binary, uri, "no line for this host",
                ["--auth-keys", keys("none", line.replace(":a", ":b"))])
    server = Remote(binary, "single", uri)
    try:
        server.start(extra=["--auth-keys", good])
        write(server, [], 10)
        assert server.stop() == 0
        assert "DHHC" not in server.log()
        print("ok authenticated", flush=True)
    finally:
        server.destroy()


def main():
    folder = tempfile.mkdtemp(prefix="nvmeremote.")
    target = Target(sys.argv[1], folder)
    try:
        target.start()
        refusals(target, sys.argv[2])
        clones(target, sys.argv[2])
        locked(target, sys.argv[2])
        target.kill()
        os.unlink(os.path.join(folder, "disk"))
        target.start()
        authenticated(target, sys.argv[2])
        target.kill()
        os.unlink(os.path.join(folder, "disk"))
        target.start()
        run(target, sys.argv[2], "single")
        target.kill()
        os.unlink(os.path.join(folder, "disk"))
        target.start()
        run(target, sys.argv[2], "two")
    finally:
        target.kill()
        shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    main()
