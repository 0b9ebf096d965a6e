#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 OR MIT
"""solar_volume_ctl.py PROGRAM: an operator's commands to the catalog, and the replies: a catalog
and block servers as processes."""
import os
import re
import resource
import signal
import subprocess
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../support"))
from solarnode import LONG, Nbd, Process, run_tests, until  # noqa: E402


class World:
    def __init__(self, program, work):
        self.program, self.work, self.all = program, work, []
        self.begin_catalog("127.0.0.1:0")

    def begin_catalog(self, listen, **more):
        self.catalog = self.begin("catalog", "ctl", "serve", "--listen", listen, "--catalog",
                                  f"{self.work}/catalog", "--catalog-size", "8M", **more)
        return hasattr(self.catalog, "at")

    def begin(self, name, *words, **more):
        p = Process(self.work, name, self.program, *words, **more)
        self.all.append(p)
        return p

    def server(self, n, size="64M", listen="127.0.0.1:0"):
        return self.begin(f"server{n}", "server", "--listen", listen, "--store",
                          f"{self.work}/store{n}", "--store-size", size, "--control",
                          self.catalog.at)

    def ctl(self, *words):
        """Its exit code and its output."""
        try:
            r = subprocess.run([self.program, "ctl", *words, "--control", self.catalog.at],
                               capture_output=True, text=True, timeout=LONG, check=False)
        except subprocess.TimeoutExpired:
            sys.exit(f"FAILED: ctl {' '.join(words)}: no end in {LONG} s")
        return r.returncode, r.stdout + r.stderr

    def start(self, *words):
        return subprocess.Popen([self.program, "ctl", *words, "--control", self.catalog.at],
                                stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)

    def ok(self, *words):
        code, text = self.ctl(*words)
        if code != 0:
            sys.exit(f"FAILED: ctl {' '.join(words)}: {text}")
        return text

    def refused(self, *words, prints, at_once=False):
        """It fails, in one line for each of the texts, which are in it. At once: it does not try
        again for seconds, for which it would sleep more often."""
        before = resource.getrusage(resource.RUSAGE_CHILDREN).ru_nvcsw
        code, text = self.ctl(*words)
        slept = resource.getrusage(resource.RUSAGE_CHILDREN).ru_nvcsw - before
        assert not at_once or slept < 40, f"ctl {' '.join(words)}: slept {slept} times"
        if code == 0 or any(s not in text for s in prints):
            sys.exit(f"FAILED: ctl {' '.join(words)} ({code}) should print {prints}: {text}")
        return text

    def up(self, n):
        until(lambda: len(re.findall(r"^server \d+ up", self.ok("list"), re.M)) == n,
              f"{n} servers are up")

    def end(self):
        for p in reversed(self.all):
            p.end()


SEGMENT = 2 << 20


def used_disk(world, servers, segments):
    """Disk root, of which each segment has a block of its own, on so many servers."""
    up = []
    for n in range(1, servers + 1): # the catalog numbers them in the order of their registration
        up.append(world.server(n))
        world.up(n)
    world.ok("create", "root", str(segments * SEGMENT))
    world.begin("client", "client", "--control", world.catalog.at, "--disk", "root", "--socket",
                f"{world.work}/nbd")
    disk = Nbd(f"{world.work}/nbd")
    for i in range(segments):
        assert disk.write(i * SEGMENT, bytes([i + 1]) * 4096) == 0, i
    return up, disk


def used_disk_is(disk, segments):
    for i in range(segments):
        assert disk.read(i * SEGMENT, 4096) == bytes([i + 1]) * 4096, i


def places(world):
    return {int(a): int(b) for a, b in
            re.findall(r"^segment (\d+) server=(\d+) ", world.ok("show", "root"), re.M)}


def limits(world, name):
    line = re.search(rf"^disk {name} .*$", world.ok("list"), re.M).group(0)
    return tuple(int(re.search(rf" {k}=(\d+)", line).group(1)) for k in ("iops", "bandwidth"))


def case_qos(world):
    """Only what is named of a disk's limits changes."""
    world.ok("create", "limits", "8M", "--iops", "1000", "--bandwidth", "4M")
    assert limits(world, "limits") == (1000, 4 << 20), limits(world, "limits")
    world.ok("qos", "limits", "--iops", "2000")
    assert limits(world, "limits") == (2000, 4 << 20), limits(world, "limits")
    world.ok("qos", "limits", "--bandwidth", "8M")
    assert limits(world, "limits") == (2000, 8 << 20), limits(world, "limits")
    world.ok("qos", "limits", "--iops", "0")
    assert limits(world, "limits") == (0, 8 << 20), limits(world, "limits")
    world.refused("qos", "limits", prints=["--iops", "--bandwidth"])
    assert limits(world, "limits") == (0, 8 << 20), limits(world, "limits")
    world.ok("qos", "limits", "--iops", "5", "--bandwidth", "0")
    assert limits(world, "limits") == (5, 0), limits(world, "limits")
    world.ok("create", "free", "8M")
    assert limits(world, "free") == (0, 0), limits(world, "free")
    world.ok("delete", "free")
    world.ok("delete", "limits")


def case_create(world):
    """A disk that no client could open is not created; the largest one is opened."""
    most = 1 << 50
    for size in (str(most + 4096), "4096T", str(1 << 60)):
        world.refused("create", "large", size, prints=[size, "1024T"])
    assert "disk large" not in world.ok("list")
    world.ok("create", "large", "1024T")
    server = world.server(1)
    world.up(1)
    # It has room for where 2^29 segments are, which not every machine can promise.
    client = world.begin("client", "client", "--control", world.catalog.at, "--disk", "large",
                         "--socket", f"{world.work}/nbd", may_print="out of memory")
    client.end()
    server.end()


def case_move_hopeless(world):
    """What cannot be moved is reported at once: unknown server, segment and disk, a full server."""
    _, disk = used_disk(world, 2, 8)
    before = places(world)
    for what in ("all", "3"):
        world.refused("move", "root", what, "9", at_once=True,
                      prints=["disk root", what, "no server 9 in the catalog"])
    world.refused("move", "missing", "all", "1", prints=["disk missing"], at_once=True)
    world.refused("move", "missing", "3", "1", prints=["disk missing", "segment 3"], at_once=True)
    world.refused("move", "root", "99", "1", prints=["disk root", "segment 99"], at_once=True)
    assert places(world) == before
    world.server(3, size="16M")  # with room for a few
    world.up(3)
    text = world.refused("move", "root", "all", "3", prints=["disk root", "server 3", "no room"],
                         at_once=True)
    at = places(world)
    there = [s for s in at if at[s] == 3]
    left = min(s for s in at if at[s] != 3)
    assert 0 < len(there) < 8, at
    assert f"of 8 segments of disk root {len(there)} were moved" in text, text
    world.refused("move", "root", str(left), "3", at_once=True,
                  prints=[f"segment {left} of disk root", "no room"])
    used_disk_is(disk, 8)


def move_meets(world, at):
    """1: while a move waits for server 2, it connects, and is used; 0: it was too late for that."""
    world.up(1)
    waits = world.start("move", "root", "all", "1")
    time.sleep(1)
    server = world.server(2, listen=at)
    text = waits.communicate(timeout=LONG)[0]
    if waits.returncode == 0:
        return 1
    assert "server 2" in text, text
    server.end(hard=True)
    return 0


def case_move_absent(world):
    """An absent server is waited for, not for ever, and reported; one that connects is used."""
    servers, disk = used_disk(world, 2, 8)
    servers[1].end(hard=True)
    world.refused("move", "root", "all", "2", prints=["disk root", "server 2 is not connected"])
    # Of what is at the server that is not here each segment stays; one of them is waited for.
    at = places(world)
    gone = min(s for s in at if at[s] == 2)
    world.refused("move", "root", "all", "1", prints=[f"segment {gone} of disk root", "server 2"])
    world.refused("move", "root", str(gone), "1", at_once=True,
                  prints=[f"segment {gone} of disk root"])
    until(lambda: move_meets(world, servers[1].at), "a move meets a server that connects")
    assert set(places(world).values()) == {1}
    log = world.catalog.log()
    for what in (f"server 2 at {servers[1].at} is disconnected", "disk root: lease 1 is granted"):
        assert what in log, log
    used_disk_is(disk, 8)


def case_move_together(world):
    """Two operators move the same segments to one server: each waits for the other's moves."""
    _, disk = used_disk(world, 2, 16)
    for to in "1", "2":
        both = [world.start("move", "root", "all", to) for _ in range(2)]
        for p in both:
            text = p.communicate(timeout=LONG)[0]
            assert p.returncode == 0, text
        assert set(places(world).values()) == {int(to)}
    used_disk_is(disk, 16)


def move_loses(world, what, to, server):
    """The catalog is killed while the segments move to a server that is stopped. @return what that
    prints; None: it was killed too early, or when the server was silent for long: it is back."""
    server.p.send_signal(signal.SIGSTOP)
    try:
        move = world.start("move", "root", what, str(to))
        time.sleep(1)
        world.catalog.end(hard=True)
        text = move.communicate(timeout=LONG)[0]
    finally:
        server.p.send_signal(signal.SIGCONT)
    assert move.returncode == 1, text
    if "the outcome is unknown" in text:
        return text
    at = world.catalog.at
    until(lambda: world.begin_catalog(at, may_print="in use"), "the catalog is back")
    world.up(2)
    return None


def move_lost(world, what):
    servers, _ = used_disk(world, 2, 2)
    to = 3 - places(world)[0]
    text = until(lambda: move_loses(world, what, to, servers[to - 1]), "a move loses its catalog")
    for part in (world.catalog.at, "lost (connection reset"):
        assert part in text, text
    assert "was not moved" not in text, text


def case_move_lost(world):
    """The catalog dies while a segment moves: the outcome is reported as unknown."""
    move_lost(world, "0")


def case_move_all_lost(world):
    """The same of all."""
    move_lost(world, "all")


def case_thin(world):
    """A disk that is read and discarded takes no place, however large it is beside its servers."""
    segments = 96  # three times what the store has room for
    world.server(1)
    world.up(1)
    world.ok("create", "root", str(segments * SEGMENT))
    for transport in ("solar", "luna"):
        client = world.begin(transport, "client", "--control", world.catalog.at, "--disk", "root",
                             "--socket", f"{world.work}/{transport}", "--transport", transport)
        disk = Nbd(f"{world.work}/{transport}")
        for i in range(0, segments, 16):
            assert disk.read(i * SEGMENT, 16 * SEGMENT) == bytes(16 * SEGMENT), i
        for kind in (4, 6):  # TRIM, WRITE_ZEROES
            disk.ask(kind, 0, segments * SEGMENT)
            assert disk.answer()[0] == 0
        assert places(world) == {}, places(world)
        at = 7 if transport == "solar" else 8
        assert disk.write(at * SEGMENT + 4096, b"x" * 4096) == 0
        got = disk.read(at * SEGMENT, 3 * 4096)
        assert got == bytes(4096) + b"x" * 4096 + bytes(4096), got[:16]
        assert set(places(world)) == {at}, places(world)
        client.end()
        world.ok("delete", "root")
        world.ok("create", "root", str(segments * SEGMENT))


def case_gone(world):
    """A verb without an answer names the catalog's address."""
    world.catalog.end(hard=True)
    # The kernel closes the address a little later than the exit.
    until(lambda: "cannot connect" in world.refused("list", prints=["list", world.catalog.at]),
          "its address is closed")
    for words in (["list"], ["delete", "root"], ["move", "root", "all", "1"]):
        world.refused(*words, prints=[words[0], world.catalog.at, "cannot connect"])


CASES = [case_qos, case_create, case_move_hopeless, case_move_absent, case_move_together,
         case_thin, case_move_lost, case_move_all_lost, case_gone]

if __name__ == "__main__":
    sys.exit(run_tests(sys.argv[1], sys.argv[2:], CASES, World))
