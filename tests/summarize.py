#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Runs ctest and prints, before ctest's own summary, totals of what the tests did and cost.

    summarize.py ctest ARGUMENT...

ctest shows the output of failures only, and keeps all of it in Testing/Temporary/LastTest.log. From
there come the states of explorers (tests/mc), the seeds of simulations, the planted bugs tried and
found: a line for each such test, with its seconds, and sums. CPU times come from the file `costs`
(tools/cost.c): minutes for each configuration, and the ten tests that took most.
"""
import os
import re
import subprocess
import sys

COSTS = "costs"
LOG = "Testing/Temporary/LastTest.log"
TEST = re.compile(r'^\d+/\d+ Test: (.*?)\n.*?^Output:\n-+\n(.*?)^<end of output>\n'
                  r'Test time = +([\d.]+) sec\n-+\n(Test \w+)', re.M | re.S)
STATES = re.compile(r"^.* clean +(\d+) states +(\d+) edges .* ([\d.]+) s, [\d.]+ of CPUs", re.M)
LIVES = re.compile(r"^(\d+) (?:lives:|seeds,) .*$", re.M)
BUGS = re.compile(r"^(\d+)(?: of \d+)? bugs tried, (\d+) not found$", re.M)


def count(text, sums):
    """The counts in one test's output, as lines."""
    scopes = [(int(s), int(e), float(t)) for s, e, t in STATES.findall(text)]
    if scopes:
        states, edges = sum(s for s, _, _ in scopes), sum(e for _, e, _ in scopes)
        yield f"{len(scopes)} scopes, {states} states, {edges} transitions"
        sums["scopes"] += len(scopes)
        sums["states"] += states
    for found in LIVES.finditer(text):
        yield found.group(0)
        sums["seeds"] += int(found.group(1))
    for tried, missed in BUGS.findall(text):
        yield f"{tried} planted bugs, {int(tried) - int(missed)} found"
        sums["bugs"] += int(tried)
        sums["killed"] += int(tried) - int(missed)


def totals(log, out):
    sums = dict.fromkeys(("scopes", "states", "seeds", "bugs", "killed"), 0)
    for name, text, seconds, end in TEST.findall(log):
        again = ", in an earlier run" if text.startswith("passed in an earlier run") else ""
        for line in count(text, sums) if end == "Test Passed" else ():
            out.write(f"== {name}{again}: {line}; {seconds} s\n")
    if any(sums.values()):
        out.write("== in all {scopes} scopes with {states} states, {seeds} seeds, {killed} of "
                  "{bugs} planted bugs found\n".format(**sums))


def costs(lines, out):
    """CPU time of configurations and of the dearest tests. A line: user ms, system ms, name."""
    builds, tests, dearest = {}, {}, []
    for line in lines:
        user, system, name = line.split(maxsplit=2)
        user, system, name = int(user), int(system), name.strip()
        configuration, _, test = name.partition("/")
        kind = builds if test == "build" else tests
        for key in (configuration, "all"):
            sums = kind.setdefault(key, [0, 0])
            sums[0] += user
            sums[1] += system
        if kind is tests:
            dearest.append((user + system, system, name))
    minutes = "{:9.1f}".format
    out.write(f"== {'CPU-minutes':11} {'build':>9} {'tests':>9} {'all':>9} {'of system':>9}\n")
    for key in sorted({**builds, **tests}, key=lambda k: k == "all"):
        b, t = builds.get(key, [0, 0]), tests.get(key, [0, 0])
        columns = (sum(b), sum(t), sum(b) + sum(t), b[1] + t[1])
        out.write(f"== {key:11} {' '.join(minutes(c / 60000) for c in columns)}\n")
    for total, system, name in sorted(dearest, reverse=True)[:10]:
        out.write(f"== {total / 1000:7.1f} s of CPU, {system / 1000:6.1f} of system: {name}\n")


def main(argv):
    ctest = subprocess.Popen(argv, stdout=subprocess.PIPE, text=True, errors="replace")
    summary = []
    for line in ctest.stdout:
        if summary or re.match(r"\d+% tests passed", line):
            summary.append(line)
            continue
        sys.stdout.write(line)
        sys.stdout.flush()
    code = ctest.wait() # only now its log is there
    if summary and os.path.exists(LOG):
        with open(LOG, encoding="utf-8", errors="replace") as f:
            totals(f.read(), sys.stdout)
    if summary and os.path.exists(COSTS):
        with open(COSTS, encoding="utf-8", errors="replace") as f:
            costs(f, sys.stdout)
    sys.stdout.write("".join(["\n"] + summary))
    return code


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
