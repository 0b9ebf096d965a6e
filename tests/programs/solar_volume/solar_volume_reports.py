#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 OR MIT
"""solar_volume_reports.py PROGRAM [TEST]...: what solar_volume's client reports to its operator of
I/O that waits: for what, at which server, and why; and when it is over."""
import errno
import os
import re
import resource
import signal
import subprocess
import sys
import threading
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../support"))
from solarnode import BLOCK, LONG, Nbd, fail, free_port, run_tests, until  # noqa: E402

SEGMENT = 2 << 20


class Later(threading.Thread):
    """A write that may take its time."""

    def __init__(self, path, offset):
        super().__init__(daemon=True)
        self.nbd, self.offset, self.error = Nbd(path), offset, None
        self.start()

    def run(self):
        try:
            self.error = self.nbd.write(self.offset, b"x" * BLOCK)
        except (EOFError, OSError):
            pass  # the test is over


def begun(t, disk, segment, after=0):
    """The lines that report I/O waiting there, of those behind so many characters of the log."""
    return [line for line in t.log("client")[after:].splitlines()
            if re.search(f"disk {disk}: segment {segment} waits,", line)]


def over(t, disk, segment, after=0):
    return len(re.findall(f"disk {disk}: segment {segment} waits no more", t.log("client")[after:]))


def failure(t, at):
    """Characters of the log before what reports the store's failure; 0: it is not there."""
    return max(t.log("client").find(f"{at} reports that its store failed"), 0)


def known_to_fail(t, at):
    """Of I/O that waits nothing else is logged once that is known; a busy machine may lose a path
    for a while."""
    for line in t.log("client")[failure(t, at):].splitlines():
        waits = "waits," in line and "the store of" not in line
        if waits or "no answer" in line:
            fail("the store's failure is not the reason reported: " + line)


def store_dead(t, transport):
    t.ignore = True
    server, at = t.server("--transport", transport)
    _, path = t.client(at, "--transport", transport)
    nbd = Nbd(path)
    assert nbd.write(0, b"x" * BLOCK) == 0
    resource.prlimit(server.pid, resource.RLIMIT_FSIZE, (0, resource.RLIM_INFINITY))
    return server, at, path


def test_store_dead_solar(t):
    """A server that answers, and whose store failed, differs from a silent one:
    it is reported with the server; the write waits, and that is reported."""
    server, at, path = store_dead(t, "solar")
    write = Later(path, 0)
    until(lambda: failure(t, at), "the store's failure is logged")
    lines = until(lambda: begun(t, "1", 0, failure(t, at)), "the waiting write is logged")
    assert f"the store of " in lines[0], lines
    known_to_fail(t, at)
    server.kill()
    server.wait()
    t.server("--transport", "solar", at=at, name="server2")
    write.join(LONG)
    assert write.error is not None, "it never ends"
    until(lambda: over(t, "1", 0), "the end of the wait is logged")
    assert Nbd(path).write(0, b"y" * BLOCK) == 0
    until(lambda: f"the store of {at} works again" in t.log("client"),
          "the store's recovery is logged")
    assert t.log("client").count("reports that its store failed") == 1, t.log("client")


def test_store_dead_luna(t):
    """Where no request waits for it, too."""
    _, at, path = store_dead(t, "luna")
    write = Later(path, 0)
    write.join(LONG)
    assert write.error == errno.EIO, write.error
    until(lambda: failure(t, at), "the store's failure is logged")
    known_to_fail(t, at)


def catalog(t, servers=1):
    # Ports that no other program gets while one of them is down.
    ctl, at = t.begin("ctl", "ctl", "serve", "--listen", f"127.0.0.1:{free_port()}", "--catalog",
                      t.path("catalog"), "--catalog-size", "8M")
    found = []
    for n in range(servers):
        found.append(t.begin(f"server{n}", "server", "--listen", f"127.0.0.1:{free_port()}",
                             "--store", t.path(f"store{n}"), "--store-size", "64M",
                             "--control", at))
    until(lambda: t.run("ctl", "list", "--control", at)[1].count(" up") == servers, "servers")
    assert t.run("ctl", "create", "d", "16M", "--control", at)[0] == 0
    _, path = t.begin("client", "client", "--control", at, "--disk", "d", "--socket",
                      t.path("nbd"))
    return ctl, at, found, path


def test_server_gone(t):
    """A server of a catalog is gone: what waits, and for which server, is reported once, and the
    end of the wait once."""
    _, control, ((server, at),), path = catalog(t)
    nbd = Nbd(path)
    assert nbd.write(3 * SEGMENT, b"x" * BLOCK) == 0
    server.kill()
    server.wait()
    was = len(t.log("client"))
    write = Later(path, 3 * SEGMENT)
    lines = until(lambda: begun(t, "d", 3, was), "the wait is logged")
    assert f"block server 1 at {at}" in lines[0], lines
    time.sleep(8)
    assert over(t, "d", 3, was) == 0 and len(begun(t, "d", 3, was)) <= 2, t.log("client")
    t.begin("server9", "server", "--listen", at, "--store", t.path("store0"), "--store-size",
            "64M", "--control", control)
    write.join(LONG)
    assert write.error == 0, write.error
    until(lambda: over(t, "d", 3, was) == 1, "the end of the wait is logged")
    time.sleep(3)
    assert over(t, "d", 3, was) == 1 and len(begun(t, "d", 3, was)) <= 2, t.log("client")
    assert "longer than a second" not in t.log("client")[was:], t.log("client")


def test_catalog_gone(t):
    """A catalog that is gone, or there and silent, is what a new segment waits for."""
    ctl, control, _, path = catalog(t)
    nbd = Nbd(path)
    assert nbd.write(0, b"x" * BLOCK) == 0
    ctl.send_signal(signal.SIGSTOP)
    write = Later(path, 2 * SEGMENT)
    lines = until(lambda: begun(t, "d", 2), "the wait is logged")
    assert f"the catalog at {control}" in lines[0], lines
    until(lambda: f"the catalog at {control} does not respond" in begun(t, "d", 2)[-1],
          "it is known to be silent")
    ctl.send_signal(signal.SIGCONT)
    write.join(LONG)
    assert write.error == 0, write.error
    until(lambda: over(t, "d", 2) == 1, "the end of the wait is logged")


def test_no_room(t):
    """A segment that the catalog cannot place: the writer has ENOSPC, and the operator a line."""
    _, control, _, _ = catalog(t)
    assert t.run("ctl", "create", "big", "1G", "--control", control)[0] == 0
    _, path = t.begin("client2", "client", "--control", control, "--disk", "big", "--socket",
                      t.path("nbd2"))
    nbd, error, segment, began = Nbd(path), 0, 0, time.monotonic()
    while error == 0 and segment < 64:
        error = nbd.write(segment * SEGMENT, b"x" * BLOCK)
        segment += 1
    assert error == 28, error
    for more in range(segment, segment + 20):
        assert nbd.write(more * SEGMENT, b"x" * BLOCK) == 28
    lines = re.findall(r"disk big: no space left \(ENOSPC\) for writes to segment \d+: no block "
                       r"server has room", t.log("client2"))
    assert 1 <= len(lines) <= 2 + (time.monotonic() - began) / 5, t.log("client2")


def test_no_catalog(t):
    """A client that begins where there is no catalog reports what it waits for."""
    at = f"127.0.0.1:{free_port()}"
    with open(t.path("client.log"), "wb") as log:
        p = subprocess.Popen([t.program, "client", "--control", at, "--disk", "d", "--socket",
                              t.path("nbd")], stdout=log, stderr=subprocess.STDOUT)
    t.children.append(p)
    what = f"disk d waits for its lease: the catalog at {at} does not respond"
    until(lambda: what in t.log("client") or p.poll() is not None, "it reports the catalog")
    time.sleep(1)
    assert p.poll() is None and what in t.log("client"), t.log("client")


TESTS = [test_store_dead_solar, test_store_dead_luna, test_server_gone, test_catalog_gone,
         test_no_room, test_no_catalog]

if __name__ == "__main__":
    sys.exit(run_tests(sys.argv[1], sys.argv[2:], TESTS))
