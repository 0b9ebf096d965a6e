#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Virtual disks of solar_volume's block server as namespaces:
test_nvme_solar.py NVME_TARGET NVME_DRIVER SOLAR_VOLUME

Exit code: 0, 1, or 77: no io_uring. No check depends on timing."""
import os
import socket
import subprocess
import sys

from nvmectl import HOST_A, NQN, Host, Target, run

sys.path.insert(0, os.path.join(os.path.dirname(os.path.realpath(__file__)), "../../support"))
from freeport import free_port  # noqa: E402

LINES = ["subsystem " + NQN, "host %s %s" % (NQN, HOST_A)]


class Server:
    """A block server with two disks."""

    def __init__(self, binary, folder):
        self.at = "127.0.0.1:%d" % free_port()
        self.log = open(os.path.join(folder, "server"), "ab")
        self.process = subprocess.Popen(
            [binary, "server", "--listen", self.at, "--store", os.path.join(folder, "store"),
             "--store-size", "256M", "--disk", "1:16M", "--disk", "2:16M"],
            stdout=subprocess.PIPE, stderr=self.log)
        line = self.process.stdout.readline().decode()
        assert line.startswith("ready"), line

    def close(self):
        self.process.kill()
        self.process.wait()
        self.process.stdout.close()
        self.log.close()


def line(server, disk, *words):
    return "namespace %s solar=%s disk=%d size=8M %s" % (NQN, server.at, disk, " ".join(words))


def test_data_and_lease_through_restarts(target, driver, solar):
    """What was written is there after a kill of the target, which takes the next lease each time,
    and after a removal; a target that takes a later lease stops the writes of the one before."""
    t, other = Target(target, LINES), Target(target, LINES)
    server = Server(solar, t.dir)
    try:
        t.write([*LINES, line(server, 1), line(server, 2)])
        for i in range(3):
            error = t.start()
            assert error is None, error
            a = Host(driver, t)
            a.good("connect")
            assert a.good("size", 1) == "2048"
            for k in range(i):
                assert a.good("read", 1, k) == str(k + 1) and a.good("read", 2, 2047) == str(i)
            a.good("write", 1, i, i + 1)
            a.good("write", 2, 2047, i + 1)
            a.close()
            if i < 2:
                t.kill()
        a = Host(driver, t)
        a.good("connect")
        t.bad("belong together", "namespace", "add", NQN, "solar=" + server.at, "size=8M")
        t.bad("needs its size=", "namespace", "add", NQN, "solar=" + server.at, "disk=1")
        t.bad("not ADDRESS:PORT", "namespace", "add", NQN, "solar=x", "disk=1", "size=8M")
        t.bad("has 8388608 bytes", "namespace", "resize", NQN, "2", "16M")
        t.good("namespace", "remove", NQN, "2")
        t.good("namespace", "add", *line(server, 2).split()[1:])
        assert a.good("read", 2, 2047) == "3"
        a.good("write", 2, 2047, 9)
        other.write([*LINES, line(server, 1, "epoch=100")])
        error = other.start()
        assert error is None, error
        b = Host(driver, other)
        b.good("connect")
        assert b.good("read", 1, 2) == "3"
        b.good("write", 1, 0, 77)
        assert a.call("write", 1, 0, 1)[0] != 0
        assert b.good("read", 1, 0) == "77"
        assert a.good("read", 2, 2047) == "9"
        a.close()
        b.close()
        other.stop()
        t.stop()
        name = [f for f in os.listdir(t.dir) if ".disk-1-" in f and f.endswith(".lease")][0]
        for content, text in (("65535\n", "its leases are used up"), ("x\n", "is damaged")):
            with open(t.path(name), "w", encoding="utf-8") as f:
                f.write(content)
            error = t.start()
            assert error is not None and text in error, error
    finally:
        other.close()
        server.close()
        t.close()


def test_leases_are_not_wasted(target, driver, solar):
    """A start that fails takes none; two namespaces on a disk have two; the last ones come with a
    warning, and so many removals with an error."""
    del driver
    t = Target(target, LINES)
    server = Server(solar, t.dir)
    try:
        with socket.create_server(("127.0.0.1", 0)) as taken:
            t.write([*LINES, line(server, 1), line(server, 1)])
            error = t.start(["--listen", "127.0.0.1:%d" % taken.getsockname()[1]])
            assert error is not None and "cannot listen" in error, error
            assert not [f for f in os.listdir(t.dir) if f.endswith(".lease")]
        assert t.start() is None
        name = [f for f in os.listdir(t.dir) if f.endswith(".lease")][0]
        with open(t.path(name), encoding="utf-8") as f:
            assert f.read() == "2\n"
        for i in range(16):
            t.good("namespace", "remove", NQN, "2")
            if i < 15:
                t.good("namespace", "add", *line(server, 1).split()[1:])
        t.bad("too many virtual disks were removed", "namespace", "add",
              *line(server, 1).split()[1:])
        t.stop()
        with open(t.path(name), "w", encoding="utf-8") as f:
            f.write("65000\n")
        assert "leases are left" not in t.log()
        assert t.start() is None and "534 of its 65535 leases are left" in t.log(), t.log()
        t.stop()
    finally:
        server.close()
        t.close()


if __name__ == "__main__":
    sys.exit(run([f for n, f in list(globals().items()) if n.startswith("test_")], sys.argv, 3))
