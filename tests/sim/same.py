#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Is a seed the same run with every compiler, at every level of optimisation?

    same.py [--lives N] [--cc CC]...

Compiles the nodes, their world and sim/same.c by each compiler (those of gcc and clang that are
there) at -O0 and -O2, at night at -O3 and with the undefined behaviour sanitizer, too; runs the
same runs in each (at night 1000); prints the hash of all that the engines did. Exit code 1 when
two differ or a run went wrong, 77 when there is one compiler only.
"""
import argparse
import concurrent.futures
import glob
import os
import shutil
import subprocess
import sys
import tempfile

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.realpath(__file__))))
MODULES = ["base", "ssd", "loop", "io", "net", "ebs", "wal", "ddp", "member", "replica"]
TESTS = ["cluster.c", "cluster_judge.c", "lin.c", "lin_search.c", "swarm.c", "swarm_hard.c",
         "swarm_real.c", "solar_cipher.c", "same.c"]
LEVELS = [["-O0"], ["-O2"], ["-O3"], ["-O1", "-fsanitize=undefined", "-fno-sanitize-recover=all"]]


def sources():
    """What needs no operating system of the modules, and the world."""
    for module in MODULES:
        for path in sorted(glob.glob(f"{ROOT}/lib/{module}/*.c")):
            if not os.path.basename(path).startswith("uring"):
                yield path
    for name in TESTS:
        yield f"{ROOT}/tests/sim/{name}"


def build(cc, flags, folder):
    os.makedirs(folder)
    objects = []
    include = [f"-I{ROOT}/{d}" for d in ("include", "lib", "tests", "tests/sim")]
    for i, path in enumerate(sources()):
        objects.append(f"{folder}/{i}.o")
        subprocess.run([cc, "-std=gnu11", "-w", *flags, *include, "-c", path, "-o", objects[-1]],
                       check=True)
    program = f"{folder}/same"
    subprocess.run([cc, *flags, *objects, "-o", program, "-lpthread"], check=True)
    return program


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--cc", action="append", default=[])
    parser.add_argument("--lives", type=int, default=40)
    parser.add_argument("--jobs", type=int, default=1)
    a = parser.parse_args()
    night = os.environ.get("SNIC_NIGHTLY", "") not in ("", "0")
    if night:
        a.lives = 1000
    compilers = [cc for cc in dict.fromkeys(a.cc or ["gcc", "clang"]) if shutil.which(cc)]
    print(f"{a.lives} lives each")
    hashes = set()
    with tempfile.TemporaryDirectory(prefix="same_") as top:
        ways = [(cc, flags) for cc in compilers for flags in (LEVELS if night else LEVELS[:2])]

        def live(way):
            cc, flags = ways[way]
            program = build(cc, flags, f"{top}/{way}")
            r = subprocess.run([program, str(a.lives)], capture_output=True, text=True, check=False)
            return r.stdout.strip() if r.returncode == 0 else f"FAILED {r.stdout}{r.stderr}"

        with concurrent.futures.ThreadPoolExecutor(a.jobs) as pool:
            for (cc, flags), line in zip(ways, pool.map(live, range(len(ways)))):
                print(f"{cc:8} {' '.join(flags[:2]):24} {line}", flush=True)
                hashes.add(line)
    if len(hashes) != 1 or any(h.startswith("FAILED") for h in hashes):
        print("not the same")
        return 1
    return 0 if len(compilers) > 1 else 77


if __name__ == "__main__":
    sys.exit(main())
