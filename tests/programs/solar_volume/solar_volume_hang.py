#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 OR MIT
"""solar_volume_hang.py PROGRAM: a network that silently swallows one TCP connection, in a network
namespace of its own. LUNA's writes complete while it does; as published (--paper) they hang until
it ends. Root only, for the namespace and the rule; else skipped (77)."""
import os
import re
import shutil
import subprocess
import sys
import tempfile
import threading
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../support"))
from solarnode import BLOCK, LONG, Nbd, fail, until  # noqa: E402

THREADS, DISK = 4, 64 << 20


class Writer(threading.Thread):
    """One write after the other."""

    def __init__(self, path, number):
        super().__init__(daemon=True)
        self.nbd = Nbd(path)
        assert self.nbd.size == DISK, self.nbd.size
        self.done, self.number, self.stop = 0, number, False

    def run(self):
        while not self.stop:
            at = (self.done * THREADS + self.number) * BLOCK % DISK
            error = self.nbd.write(at, bytes([self.number + 1]) * BLOCK)
            assert error == 0, error
            self.done += 1


def ready(process):
    line = process.stdout.readline()
    if not line.startswith("ready "):
        fail("not ready: " + line)
    return line.split()[1]


def connections(port):
    r = subprocess.run(["ss", "-tnH", "state", "established", f"( dport = :{port} )"],
                       capture_output=True, text=True, check=True)
    return sorted(line.split()[2].rsplit(":", 1)[1] for line in r.stdout.splitlines())


def nft(*words):
    subprocess.run(["nft", *words], check=True)


def dropped():
    r = subprocess.run(["nft", "list", "table", "inet", "hole"], capture_output=True, text=True,
                       check=True)
    return sum(int(n) for n in re.findall(r"packets (\d+)", r.stdout))


def swallow(port, count):
    """One of so many connections from now on; @return its port. A client that had no CPU may have
    replaced it meanwhile: another one then."""
    nft("add", "table", "inet", "hole")
    nft("add", "chain", "inet", "hole", "in", "{ type filter hook input priority 0; }")
    while True:
        until(lambda: len(connections(port)) == count, "its connections")
        victim = connections(port)[0]
        for side in ("sport", "dport"):
            nft("add", "rule", "inet", "hole", "in", "tcp", side, victim, "counter", "drop")
        until(lambda: dropped() > 0 or victim not in connections(port), "it is used")
        if dropped() > 0:
            return victim
        nft("flush", "chain", "inet", "hole", "in")


def one(program, work, paper):
    children = []
    try:
        server = subprocess.Popen(
            [program, "server", "--listen", "127.0.0.1:0", "--store", f"{work}/store{paper}",
             "--store-size", "256M", "--disk", "1:64M"], stdout=subprocess.PIPE, text=True)
        children.append(server)
        at = ready(server)
        client = subprocess.Popen(
            [program, "client", "--transport", "luna", "--server", at, "--disk", "1", "--size",
             "64M", "--epoch", "1", "--socket", f"{work}/nbd{paper}"] + ["--paper"] * paper,
            stdout=subprocess.PIPE, text=True)
        children.append(client)
        path = ready(client)
        writers = [Writer(path, i) for i in range(THREADS)]
        for w in writers:
            w.start()

        def progress():
            return all(w.done >= b + 20 for w, b in zip(writers, begun))

        begun = [0] * THREADS
        until(progress, "every writer makes progress")
        port = at.rsplit(":", 1)[1]
        victim = swallow(port, 1 if paper else 2)
        time.sleep(0.2)
        begun = [w.done for w in writers]
        if paper:
            for _ in range(10):  # answers that have arrived may still be on their way to a writer
                begun = [w.done for w in writers]
                time.sleep(4)
                after = [w.done for w in writers]
                if after == begun:
                    break
            assert after == begun, (begun, after)
            print("--paper: no write ended in 4 s")
        else:
            began = time.monotonic()
            until(progress, "every writer makes progress")
            assert victim not in connections(port), "it is still used"
            print(f"luna: all writers make progress after {time.monotonic() - began:.1f} s, on "
                  "another connection")
        nft("delete", "table", "inet", "hole")
        begun = [w.done for w in writers]
        until(progress, "every writer makes progress")
        for w in writers:
            w.stop = True
        for w in writers:
            w.join(LONG)
        for p in reversed(children):
            p.terminate()
            if p.wait(LONG) != 0:
                fail(f"it ended with {p.returncode}")
    finally:
        for p in children:
            if p.poll() is None:
                p.kill()


def main():
    program = sys.argv[1]
    if os.geteuid() != 0 or not all(shutil.which(p) for p in ("unshare", "nft", "ss", "ip")):
        print("skipped: root, unshare, nft, ss and ip are needed")
        return 77
    if len(sys.argv) == 2:
        os.execvp("unshare", ["unshare", "-n", sys.executable, *sys.argv, "inside"])
    subprocess.run(["ip", "link", "set", "lo", "up"], check=True)
    if subprocess.run(["nft", "add", "table", "inet", "probe"], check=False).returncode != 0:
        print("skipped: the kernel has no nftables")
        return 77
    with tempfile.TemporaryDirectory(prefix="hang_") as work:
        for paper in (0, 1):
            one(program, work, paper)
    print("all well")
    return 0


if __name__ == "__main__":
    sys.exit(main())
