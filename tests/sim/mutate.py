#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Bugs put into copies of sources, each of which a test must find.

    mutate.py TABLE [--cc CC] --lib SUPPORT.a --lib SNICSTORE.a [--by-day N] [FILTER]

(ctest -R _mutants -V has the libraries.) TABLE is a file beside this one: solar_bugs, control_bugs,
replica_bugs, ... A bug is text of a source (any white space stands for
white space) and what stands there instead; the test named beside it is then expected to fail. Exit
code 1 when one passed, or when its text is not in the source any more. Of a module's sources in
lib/ all are built anew, in one, and take the library's place; a test's own are taken with the bug
in them.
"""
import argparse
import glob
import importlib
import os
import re
import subprocess
import sys
import tempfile

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.realpath(__file__))))
FLAGS = ["-std=gnu11", "-O1", "-w"]


def apply(text, old, new):
    """The text with the bug, or None: not exactly one place."""
    place = re.compile(r"\s+".join(re.escape(word) for word in old.split()))
    return place.sub(lambda _: new, text) if len(place.findall(text)) == 1 else None


def read(file):
    with open(f"{ROOT}/{file}", encoding="utf-8") as f:
        return f.read()


def write(path, text):
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "w", encoding="utf-8") as f:
        f.write(text)


class Builder:
    """Compiles what has no bug once for all."""

    def __init__(self, cc, top, libs):
        self.cc, self.top, self.libs, self.objects = cc, top, libs, {}

    def run(self, arguments, trees):
        for tree in trees:
            arguments = arguments + [f"-I{tree}/{d}" for d in (
                "include", "lib", "tests", "tests/sim", "tests/support")]
        r = subprocess.run([self.cc, *FLAGS, *arguments], capture_output=True, text=True,
                           check=False)
        if r.returncode != 0:
            raise RuntimeError(r.stderr[:300])

    def compile(self, source, out, trees, *flags):
        self.run([*flags, "-c", source, "-o", out], trees)
        return out

    def plain(self, file):
        if file not in self.objects:
            out = f"{self.top}/{file.replace('/', '_')}.o"
            self.objects[file] = self.compile(f"{ROOT}/{file}", out, [ROOT])
        return self.objects[file]

    def program(self, folder, file, sources):
        """A test of @sources, with what the folder has instead of the tree's @file."""
        parts, header = [], file.endswith(".h")
        module = re.match(r"lib/(\w+)/", file)
        for i, s in enumerate(sources):
            if s == file:
                parts.append(self.compile(f"{folder}/{s}", f"{folder}/own.o", [folder, ROOT],
                                          f"-I{ROOT}/{os.path.dirname(s)}")) # headers beside it
            elif header: # each source that may include it is built with it
                parts.append(self.compile(f"{ROOT}/{s}", f"{folder}/{i}.o", [folder, ROOT]))
            else:
                parts.append(self.plain(s))
        if module:
            name = module.group(1)
            whole = ""
            for path in sorted(glob.glob(f"{ROOT}/lib/{name}/*.c")):
                own = os.path.relpath(path, ROOT)
                whole += f'#include "{folder if own == file else ROOT}/{own}"\n'
            write(f"{folder}/module.c", whole)
            parts.append(self.compile(f"{folder}/module.c", f"{folder}/module.o", [folder, ROOT],
                                      f"-I{folder}/lib/{name}", f"-I{ROOT}/lib/{name}"))
        self.run([*parts, *self.libs, "-o", f"{folder}/test", "-lcmocka", "-lpthread"], [])


def try_one(builder, table, bug, a_while):
    name, file, old, new, (program, *filters) = bug
    text = apply(read(file), old, new)
    if text is None:
        return "DOES NOT APPLY"
    with tempfile.TemporaryDirectory(dir=builder.top) as folder:
        write(f"{folder}/{file}", text)
        try:
            builder.program(folder, file, table.PROGRAMS[program])
        except RuntimeError as e:
            return f"DOES NOT COMPILE: {e}"
        env = {**os.environ, **getattr(table, "ENVIRONMENT", {})}
        try:
            r = subprocess.run([f"{folder}/test", *filters], capture_output=True, text=True,
                               check=False, timeout=a_while, env=env)
        except subprocess.TimeoutExpired:
            return "NO END" # it may be slow, and find nothing
    found = re.search(r"(?:I/Os: |clients \d+: |run test: |ERROR +\] --- )(.*)$",
                     r.stdout + r.stderr, re.M)
    if r.returncode in (0, 77):
        return "NOT FOUND"
    seed = re.search(r"--seed \d+ one", r.stdout + r.stderr)
    return "found: " + (found.group(1).strip() if found else f"exit code {r.returncode}") + (
        f" ({seed.group(0)})" if seed else "")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("table")
    parser.add_argument("--cc", default="cc")
    parser.add_argument("--lib", action="append", required=True,
                        help="what to link, in this order")
    parser.add_argument("--seconds", type=float, default=600, help="after which it has no end")
    parser.add_argument("--by-day", type=int, default=1, metavar="N",
                        help="one bug in N, others at each commit (SNIC_TURN); by night all")
    parser.add_argument("filter", nargs="?", default="")
    a = parser.parse_intermixed_args()
    bad = 0
    table = importlib.import_module(a.table)
    chosen = [bug for bug in table.BUGS if a.filter in bug[0]]
    if os.environ.get("SNIC_NIGHTLY", "") in ("", "0"):
        chosen = chosen[int(os.environ.get("SNIC_TURN") or 0) % a.by_day::a.by_day]
    if not chosen:
        sys.exit("no bug to be tried")
    for bug in table.BUGS: # all of them at each commit: one that is stale is seen before its turn
        if bug not in chosen and apply(read(bug[1]), bug[2], bug[3]) is None:
            bad += 1
            print(f"{bug[0]:52} DOES NOT APPLY to {bug[1]}", flush=True)
    with tempfile.TemporaryDirectory(prefix="mutate_") as top:
        builder = Builder(a.cc, top, a.lib)
        for bug in chosen:
            verdict = try_one(builder, table, bug, a.seconds)
            bad += not verdict.startswith("found")
            print(f"{bug[0]:52} {verdict}", flush=True)
    print(f"{len(chosen)} bugs tried, {bad} not found")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
