#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 OR MIT
"""solar_volume_ctl.py PROGRAM: what an operator says to the catalog, and what he is told: a catalog
and block servers as processes."""
import os
import re
import subprocess
import sys
import tempfile
import time


class Process:
    """A catalog, a server or a client, ready at .at; what it logs is in .log()."""

    def __init__(self, work, name, *words, may_say=None):
        self.path = f"{work}/{name}.log"
        with open(self.path, "a", encoding="utf-8") as log:
            self.p = subprocess.Popen(words, stdout=subprocess.PIPE, stderr=log, text=True)
        line = self.p.stdout.readline()
        if not line.startswith("ready "):
            self.p.wait(30)
            if may_say is not None and may_say in self.log():
                return
            if "io_uring" in self.log():
                print("skipped: " + self.log())
                sys.exit(77)
            sys.exit(f"FAILED: {name} is not ready: {line}{self.log()}")
        self.at = line.split()[1]

    def log(self):
        with open(self.path, encoding="utf-8") as log:
            return log.read()

    def end(self, hard=False):
        if self.p.poll() is None:
            self.p.kill() if hard else self.p.terminate()
            self.p.wait(30)


class World:
    def __init__(self, program, work):
        self.program, self.work, self.all = program, work, []
        self.catalog = self.begin("catalog", "ctl", "serve", "--listen", "127.0.0.1:0",
                                  "--catalog", f"{work}/catalog", "--catalog-size", "8M")

    def begin(self, name, *words, **more):
        p = Process(self.work, name, self.program, *words, **more)
        self.all.append(p)
        return p

    def server(self, n, size="64M", listen="127.0.0.1:0"):
        return self.begin(f"server{n}", "server", "--listen", listen, "--store",
                          f"{self.work}/store{n}", "--store-size", size, "--control",
                          self.catalog.at)

    def ctl(self, *words, seconds=60):
        """Its exit code, and all it says."""
        r = subprocess.run([self.program, "ctl", *words, "--control", self.catalog.at],
                           capture_output=True, text=True, timeout=seconds, check=False)
        return r.returncode, r.stdout + r.stderr

    def ok(self, *words):
        code, text = self.ctl(*words)
        if code != 0:
            sys.exit(f"FAILED: ctl {' '.join(words)}: {text}")
        return text

    def refused(self, *words, says, seconds=60):
        """It fails, in one line for each of the texts, which are in it."""
        code, text = self.ctl(*words, seconds=seconds)
        if code == 0 or any(s not in text for s in says):
            sys.exit(f"FAILED: ctl {' '.join(words)} ({code}) should say {says}, and says: {text}")
        return text

    def up(self, n):
        end = time.monotonic() + 30
        while len(re.findall(r"^server \d+ up", self.ok("list"), re.M)) != n:
            if time.monotonic() > end:
                sys.exit(f"FAILED: not {n} servers: {self.ok('list')}")
            time.sleep(0.05)

    def close(self):
        for p in reversed(self.all):
            p.end()


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
    world.refused("qos", "limits", says=["--iops", "--bandwidth"])
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
        world.refused("create", "large", size, says=[size, str(most)])
    assert "disk large" not in world.ok("list")
    world.ok("create", "large", "1024T")
    server = world.server(1)
    world.up(1)
    # It has room for where 2^29 segments are, which not every machine can promise.
    client = world.begin("client", "client", "--control", world.catalog.at, "--disk", "large",
                         "--socket", f"{world.work}/nbd", may_say="no memory")
    client.end()
    server.end()


CASES = [case_qos, case_create]


def main():
    program = sys.argv[1]
    chosen = sys.argv[2:]
    for case in CASES:
        if chosen and case.__name__ not in chosen:
            continue
        print(f"== {case.__doc__}", flush=True)
        with tempfile.TemporaryDirectory(prefix="volume_ctl_",
                                         dir=os.environ.get("TMPDIR", "/tmp")) as work:
            world = World(program, work)
            try:
                case(world)
            finally:
                world.close()
    print("all well")
    return 0


if __name__ == "__main__":
    sys.exit(main())
