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


class Target:
    def __init__(self, binary, folder):
        self.binary, self.folder, self.port = binary, folder, free_port()
        self.process = None

    def start(self):
        with open(os.path.join(self.folder, "target.log"), "ab") as log:
            self.process = subprocess.Popen(
                [self.binary, "--listen", "127.0.0.1:%d" % self.port, "--subsystem", NQN,
                 "--host", "any", "--namespace", os.path.join(self.folder, "disk"), "--size",
                 "512M"], stdout=subprocess.PIPE, stderr=log)
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


def main():
    folder = tempfile.mkdtemp(prefix="nvmeremote.")
    target = Target(sys.argv[1], folder)
    try:
        target.start()
        refusals(target, sys.argv[2])
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
