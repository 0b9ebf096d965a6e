#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 OR MIT
"""solar_volume_limits.py PROGRAM: limits of solar_volume that its options set, met by processes:
a refusal names the option, others continue, and all is well when there is room again."""
import os
import re
import subprocess
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../support"))
from solarnode import LONG, Nbd, Process, figures, free_port, run_tests, until  # noqa: E402
from solar_volume_ctl import SEGMENT, World  # noqa: E402

ENOSPC = 28


def refused(program, *words):
    """It ends at once: its output."""
    r = subprocess.run([program, *words], stdin=subprocess.DEVNULL, capture_output=True, text=True,
                       timeout=LONG, check=False)
    assert r.returncode != 0, words
    return r.stdout + r.stderr


class Small(World):
    """Worlds whose catalogs have other limits: self.serve() begins one."""

    def __init__(self, program, work):
        self.program, self.work, self.all, self.catalog = program, work, [], None

    def serve(self, *words):
        self.metrics = f"127.0.0.1:{free_port()}"
        self.catalog = self.begin(
            "catalog", "ctl", "serve", "--listen", "127.0.0.1:0", "--catalog",
            f"{self.work}/catalog", "--catalog-size", "4M", "--metrics", self.metrics, *words)

    def client(self, name, disk, *words):
        with open(f"{self.work}/{name}.log", "w", encoding="utf-8") as log:
            return subprocess.Popen(
                [self.program, "client", "--control", self.catalog.at, "--disk", disk, "--socket",
                 f"{self.work}/{name}", *words],
                stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=log)

    def log(self, name):
        with open(f"{self.work}/{name}.log", encoding="utf-8") as f:
            return f.read()


def lines(log, text):
    """When the log had it, in seconds of the day."""
    return [int(m[1]) * 3600 + int(m[2]) * 60 + float(m[3])
            for m in re.finditer(r"^\S+ (\d+):(\d+):([\d.]+) .*" + text, log, re.M)]


def seldom(log, text):
    """One in a second; any of them may have been written late."""
    at = lines(log, text)
    assert at, (text, log)
    assert len(at) <= 2 + (at[-1] - at[0]) / 0.9, (text, log)


def case_options(w):
    """A number below the least, beyond the most, ten times that, and no number."""
    def bad(least, most):
        numbers = [most + 1, 10 * most] + ([least - 1] if least else [])
        return ["x", "-1", *map(str, numbers)]

    serve = ["ctl", "serve", "--catalog", f"{w.work}/catalog"]
    verb = ["--control", "127.0.0.1:1"]
    server = ["server", "--store", f"{w.work}/store"]
    for words, option, least, most in (
            (serve, "--catalog-size", 4 << 20, 1 << 40), (serve, "--disks", 1, 65536),
            (serve, "--segments", 1, 1 << 28), (serve, "--connections", 4, 4096),
            (serve, "--lease", 4, 3600), (server, "--store-size", 16 << 20, 1 << 46),
            (server, "--connections", 1, 4096),
            (["ctl", "qos", "root", *verb], "--iops", 0, (1 << 32) - 1),
            (["ctl", "qos", "root", *verb], "--bandwidth", 0, 1 << 40),
            (["ctl", "forget", *verb], "--server", 1, 256)):
        for n in bad(least, most):
            text = refused(w.program, *words, option, n)
            assert option in text and n in text, (option, n, text)
    assert not os.path.exists(f"{w.work}/catalog") and not os.path.exists(f"{w.work}/store")


def case_sessions(w):
    """All connections of the catalog are in use: ctl, a client and a server report it, and which
    option; they are served when there is room. A place that a server leaves no client gets."""
    w.serve("--connections", "4")
    for n in (1, 2):
        w.server(n, size="32M")
    w.up(2)
    w.ok("create", "root", "16M")
    first = w.begin("first", "client", "--control", w.catalog.at, "--disk", "root", "--socket",
                    f"{w.work}/first")
    third = w.server(3, size="32M")
    until(lambda: figures(w.metrics)["servers_up"] == 3, "a third server")
    for _ in range(40):
        w.refused("list", prints=["--connections", w.catalog.at])
    fourth = w.server(4, size="32M")
    until(lambda: "--connections" in fourth.log(), "the server logs why")
    second = w.client("second", "root", "--take")
    until(lambda: "--connections" in w.log("second"), "the client logs why")
    assert Nbd(f"{w.work}/first").write(0, bytes(4096)) == 0
    third.end(hard=True)
    until(lambda: "as server 4" in fourth.log(), "the server that waited is here")
    first.end()
    time.sleep(1.5)  # the client asks every second, and a place is free: the third server's
    assert not os.path.exists(f"{w.work}/second")
    third = w.server(3, size="32M")
    until(lambda: figures(w.metrics)["servers_up"] == 4, "it is there again")
    fourth.end(hard=True)
    until(lambda: w.ctl("forget", "4")[0] == 0, "a place is free, and not for a client")
    served = until(lambda: Nbd(f"{w.work}/second"), "the client is served")
    assert served.write(4096, bytes(4096)) == 0
    second.terminate()
    second.wait(LONG)
    seldom(w.catalog.log(), "connections are in use")
    seldom(fourth.log(), "--connections")
    seldom(w.log("second"), "--connections")
    assert figures(w.metrics)["turned_away"] > 40


def case_disks(w):
    """One disk more than --disks, and twenty: refused, naming it; a deletion makes room."""
    w.serve("--disks", "2")
    w.ok("create", "a", "4M")
    w.ok("create", "b", "4M")
    for n in range(20):
        w.refused("create", f"c{n}", "4M", prints=["--disks", f"c{n}"])
    w.ok("delete", "a")
    w.ok("create", "c", "4M")
    w.catalog.end()
    text = refused(w.program, "ctl", "serve", "--catalog", f"{w.work}/catalog", "--disks", "1",
                   "--listen", "127.0.0.1:0")
    assert "--disks" in text, text


def case_named_disks(w):
    """64 disks can be named where no catalog has them, and not one more."""
    def words(count):
        return ["server", "--listen", "127.0.0.1:0", "--store", f"{w.work}/store", "--store-size",
                "160M", *(word for n in range(count) for word in ("--disk", f"{n + 1}:2M"))]

    for count in (65, 640):
        text = refused(w.program, *words(count))
        assert "--disk 65:2M" in text and "64" in text and "catalog" in text, text
    assert not os.path.exists(f"{w.work}/store")
    server = w.begin("server", *words(64))
    client = w.begin("client", "client", "--server", server.at, "--disk", "64", "--size", "2M",
                     "--epoch", "1", "--socket", f"{w.work}/nbd")
    assert Nbd(f"{w.work}/nbd").write(0, b"x" * 4096) == 0
    client.end()


def case_segments(w):
    """All --segments are placed: writes that need one more end with ENOSPC at once, catalog and
    client report which limit it is, once in a while; a deletion makes room."""
    w.serve("--segments", "2")
    w.server(1, size="64M")
    w.up(1)
    w.ok("create", "one", "2M")
    w.ok("create", "root", "64M")
    one = w.begin("one", "client", "--control", w.catalog.at, "--disk", "one", "--socket",
                  f"{w.work}/one")
    assert Nbd(f"{w.work}/one").write(0, bytes(4096)) == 0
    one.end()
    root = w.begin("root", "client", "--control", w.catalog.at, "--disk", "root", "--socket",
                   f"{w.work}/root")
    disk = Nbd(f"{w.work}/root")
    assert disk.write(0, b"1" * 4096) == 0
    for n in range(20):
        assert disk.write((1 + n) * SEGMENT, b"2" * 4096) == ENOSPC, n
    assert disk.write(0, b"3" * 4096) == 0 and disk.read(5 * SEGMENT, 4096) == bytes(4096)
    seldom(w.catalog.log(), "--segments")
    seldom(root.log(), "--segments")
    w.ok("delete", "one")
    assert disk.write(SEGMENT, b"4" * 4096) == 0


def case_connections(w):
    """A server with two connections for clients: SOLAR's third and LUNA's second client wait, and
    are served when another one leaves; the server names the option."""
    for transport in ("solar", "luna"):
        metrics = f"127.0.0.1:{free_port()}"
        server = Process(w.work, transport, w.program, "server", "--listen", "127.0.0.1:0",
                         "--store", f"{w.work}/{transport}.store", "--store-size", "32M", "--disk",
                         "1:4M", "--disk", "2:4M", "--disk", "3:4M", "--connections", "2",
                         "--transport", transport, "--metrics", metrics)
        w.all.append(server)
        lanes = ("--paths", "1") if transport == "luna" else ()
        clients, disks = [], []
        for n in (1, 2, 3):
            name = f"{transport}{n}"
            clients.append(w.begin(name, "client", "--server", server.at, "--disk", str(n),
                                   "--size", "4M", "--epoch", "1", "--transport", transport,
                                   "--socket", f"{w.work}/{name}", *lanes))
            disks.append(Nbd(f"{w.work}/{name}"))
            if n < 3:
                assert disks[-1].write(0, bytes([n]) * 4096) == 0
        disks[2].ask(1, 0, 4096, bytes([3]) * 4096)
        turned = "luna_turned_away" if transport == "luna" else "turned_away"
        until(lambda: figures(metrics)[turned] > 0, "one is turned away")
        until(lambda: "--connections" in server.log(), "the server logs it")
        until(lambda: "all its connections are in use" in clients[2].log(), "so does the client")
        for n in (1, 2):  # the others are served
            assert disks[n - 1].read(0, 4096) == bytes([n]) * 4096
        clients[0].end()
        assert disks[2].answer()[0] == 0
        seldom(server.log(), "--connections")
        for p in clients:
            p.end()
        server.end()


CASES = [case_options, case_sessions, case_disks, case_named_disks, case_segments, case_connections]

if __name__ == "__main__":
    sys.exit(run_tests(sys.argv[1], sys.argv[2:], CASES, Small))
