#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 OR MIT
"""solar_volume_many.py PROGRAM: a disk on more block servers than sixteen, which was once the most
that a client was connected to at a time, and on more than its option --servers: how often
connections are made is counted, and no I/O fails or is wrong."""
import os
import random
import re
import subprocess
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../support"))
from solarnode import LONG, Nbd, figures, free_port, run_tests, until  # noqa: E402
from solar_volume_ctl import SEGMENT, World  # noqa: E402

DEPTH = 32


def fill(world, servers, segments):
    for n in range(servers):
        world.server(n + 1, size="32M")
    world.up(servers)
    world.ok("create", "root", str(segments * SEGMENT))


def client(world, name, *words):
    metrics = f"127.0.0.1:{free_port()}"
    p = world.begin(name, "client", "--control", world.catalog.at, "--disk", "root", "--socket",
                    f"{world.work}/nbd", "--metrics", metrics, "--take", *words)
    return p, Nbd(f"{world.work}/nbd"), metrics


def value(segment):
    return bytes([segment % 251 + 1]) * 4096


def random_reads(disk, segments, count):
    """DEPTH at a time, answers in any order."""
    rng, pending = random.Random(1), {}
    for _ in range(count):
        if len(pending) == DEPTH:
            answer(disk, pending)
        segment = rng.randrange(segments)
        disk.ask(0, segment * SEGMENT, 4096)
        pending[disk.handle] = segment
    while pending:
        answer(disk, pending)


def answer(disk, pending):
    head = disk.take(16)
    error, handle = int.from_bytes(head[4:8], "big"), int.from_bytes(head[8:16], "big")
    assert error == 0, error
    assert disk.take(4096) == value(pending.pop(handle))


def used(world):
    return {int(s) for s in re.findall(r"^segment \d+ server=(\d+) ", world.ok("show", "root"),
                                       re.M)}


def case_all_at_once(world):
    """24 servers: each is connected to once, with as many greetings as it has paths."""
    servers, segments = 24, 96
    fill(world, servers, segments)
    p, disk, metrics = client(world, "client")
    for i in range(segments):
        assert disk.write(i * SEGMENT, value(i)) == 0, i
    assert len(used(world)) == servers, used(world)
    random_reads(disk, segments, 2000)

    def unchanged():  # a server without CPU for seconds is greeted again: then once more
        before = figures(metrics)["hellos"]
        random_reads(disk, segments, 2000)
        return figures(metrics)["hellos"] == before

    until(unchanged, "reads greet no server")
    after = figures(metrics)
    assert after["servers_released"] == 0 and after["servers_crowded"] == 0, after
    p.end()


def case_more_than_numbers(world):
    """12 servers and numbers for 4: all I/O ends well, the servers change places, and what does not
    need a new place does not make one."""
    servers, segments = 12, 24
    fill(world, servers, segments)
    p, disk, metrics = client(world, "client", "--servers", "4")
    for i in range(segments):
        assert disk.write(i * SEGMENT, value(i)) == 0, i
    assert len(used(world)) == servers, used(world)
    random_reads(disk, segments, 600)
    assert figures(metrics)["servers_released"] > servers, figures(metrics)
    # Those of one server, again and again: it keeps its connections beside others that come once.
    at = {}
    for i, s in re.findall(r"^segment (\d+) server=(\d+) ", world.ok("show", "root"), re.M):
        at.setdefault(int(s), []).append(int(i))
    hot, *others = sorted(at)
    assert disk.read(at[hot][0] * SEGMENT, 4096) == value(at[hot][0])
    before = figures(metrics)["servers_released"]
    for other in others:
        for i in at[hot]:
            assert disk.read(i * SEGMENT, 4096) == value(i)
        i = at[other][0]
        assert disk.read(i * SEGMENT, 4096) == value(i)
    released = figures(metrics)["servers_released"] - before
    assert released <= len(others), (released, len(others))
    p.end()


def case_option(world):
    """What is no number of servers is refused."""
    for n in ("1", "257", "x"):
        r = subprocess.run([world.program, "client", "--control", world.catalog.at, "--disk",
                            "root", "--socket", f"{world.work}/nbd", "--servers", n],
                           capture_output=True, text=True, timeout=LONG, check=False)
        assert r.returncode != 0 and "--servers" in r.stderr, r


CASES = [case_all_at_once, case_more_than_numbers, case_option]

if __name__ == "__main__":
    sys.exit(run_tests(sys.argv[1], sys.argv[2:], CASES, World))
