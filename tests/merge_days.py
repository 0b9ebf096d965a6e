#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Every test that is not the night's has its day: merge.py leaves none out at each commit."""
import itertools
import sys

import merge

ROTATE = {"": "", "asan": "asan=2,asan=3@slow", "single": "single=2@commits,single=3",
          "noassert": "noassert=2@commits,noassert=3"}
TURNS = {"single": 0, "noassert": 1}  # of two commits, as in run.sh


def tests():
    """Labels in all pairs of rotations, in modules of one and of several tests."""
    groups = ["each2_a", "each3_b", "each4_c", "each6_d", "each12_e", "slow", "each2_f@single"]
    for m, pair in enumerate(itertools.combinations(groups, 2)):
        for i in range(1 + m % 3):
            yield f"t{m}.{i}", [f"m{m}", *pair]
            yield f"u{m}.{i}", [f"m{m}", pair[0]]


def main():
    wrong = 0
    for build, rotate in ROTATE.items():
        never = {name for name, _ in tests()}
        for turn in range(4 * 12 * 12):
            if turn % 2 != TURNS.get(build, turn % 2):
                continue
            day = merge.Day(turn)
            day.rotate = merge.rotations(rotate)
            day.modules = sorted({labels[0] for _, labels in tests()})
            never -= {name for name, labels in tests() if day.takes(build, name, labels)}
        if never:
            print(f"in {build or 'any build'} never by day: {' '.join(sorted(never))}")
            wrong = 1
    return wrong


if __name__ == "__main__":
    sys.exit(main())
