#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 OR MIT
"""One ctest over several build trees.

    merge.py OUT [--modules a,b] [--day TURN [--rotate NAME=K[@LABEL],...]] [--resume DIR]
             [--night-in a,b] [--cost PROGRAM] NAME=BUILD[:SKIP_LABELS[:ONLY_LABELS]] ...

writes OUT/CTestTestfile.cmake with every test of every build, named NAME/test, plus NAME/build,
which is red when OUT/NAME.rc is not 0. The labels are regular expressions that match a whole
label. --modules keeps only tests that carry one of these labels. --resume DIR: a test that
passed leaves a stamp there and is not run again. --night-in: only these builds run the night's
tests and scopes, the others what is not labelled `nightly`, with the scopes of the day.
--cost: this program (tools/cost.c) runs each test and records its CPU time in OUT/costs.

The builds need to be configured only. OUT/NAME.targets lists the targets that the tests of NAME
start, one a line, so that nothing else has to be compiled.

--day leaves out what its labels leave to the night, with a line for each build:
`nightly` and, in the build NAME, `nightly@NAME`; of the tests of one build with the same label
`eachK_WHAT` (`eachK_WHAT@NAME`) all but every K-th, beginning with number TURN modulo K; a second
such label of a test looks at TURN / K, and so on. --rotate:
the build NAME runs the tests of every K-th module (a test's first label), or with LABEL all but
those that carry it, and of these every K-th. With the LABEL `commits` it runs at every K-th commit
only, which is the caller's to see to. A build may have several, of which the first looks at TURN.
"""
import os
import re
import sys

NAME = r"(?:\[=*\[)?(.*?)(?:\]=*\])?"
ADD = re.compile(rf"add_test\({NAME} (.*)\)$", re.S)
SET = re.compile(rf"set_tests_properties\({NAME} PROPERTIES (.*)\)$", re.S)
# Rough seconds by label and build. The longest start first, so that the end is not one test on one
# core; those that wait begin at once, a few at a time, and others have the CPUs meanwhile.
COST = {"waits": 1000, "kv": 100, "tsan": 60, "rooms": 50, "slow": 40, "director": 20, "asan": 10}
ALONE = 2000  # before all others: later it would have to wait until each has ended
WAITING = max(2, os.cpu_count() or 2)  # how many that wait run at a time
# The output is the stamp, so that its counts are printed again (summarize.py).
ONCE = (r'test -e \"$0\" && { echo passed in an earlier run; cat \"$0\"; exit 0; }; '
        r'{ \"$@\"; echo $? >\"$0.rc\"; } 2>&1 | tee \"$0.out\"; '
        r'rc=$(cat \"$0.rc\"); rm -f \"$0.rc\"; test -n \"$rc\" || rc=1; '
        r'test $rc = 0 && mv \"$0.out\" \"$0\"; exit $rc')


def statements(text):
    """add_test and set_tests_properties calls, which may span lines."""
    held = ""
    for line in text.splitlines():
        if not held and not line.startswith(("add_test(", "set_tests_properties(")):
            continue
        held += ("\n" if held else "") + line
        if held.endswith(")") and held.count('"') % 2 == 0:
            yield held
            held = ""


def label_match(pattern, labels):
    return pattern and any(re.fullmatch(pattern, l) for l in labels)


class Day:
    """Which tests are the day's."""

    def __init__(self, turn):
        self.turn, self.seen, self.left = turn, {}, {}
        self.rotate, self.modules, self.resting = {}, [], {}

    def takes(self, build, test, labels):
        taken = True
        turn = self.turn
        for every, kind in self.rotate.get(build, ()):
            if kind == "commits":
                turn //= every
            elif kind:
                labels = labels + [f"each{every}_{build}"] if kind in labels else labels
            elif labels:
                number = self.modules.index(labels[0])
                if number % every != turn % every:
                    self.resting.setdefault(build, set()).add(labels[0])
                    return False
                turn //= every
        for label in labels:
            kind, _, where = label.partition("@")
            if where not in ("", build):
                continue
            each = re.fullmatch(r"each(\d+)_\w+", kind)
            if each:
                every = int(each.group(1))
                number = self.seen[build, label] = self.seen.get((build, label), -1) + 1
                taken = taken and number % every == turn % every
                turn //= every  # a digit for each: else two may leave a test out each time
            taken = taken and kind != "nightly"
        if not taken:
            self.left.setdefault(build, []).append(test)
        return taken

    def say(self):
        for build, tests in self.left.items():
            print(f"== {build:9} left to the night: {' '.join(tests)}")
        for build, names in self.resting.items():
            print(f"== {build:9} modules left to other commits: {' '.join(sorted(names))}")


def rotations(text):
    """NAME=K[@LABEL],... as {NAME: [(K, LABEL), ...]}."""
    out = {}
    for one in filter(None, text.split(",")):
        name, _, every = one.partition("=")
        every, _, label = every.partition("@")
        out.setdefault(name, []).append((int(every), label))
    return out


def targets(folder, text):
    """The targets whose files the text names: programs of the build, and static libraries."""
    for path in re.findall(rf"{re.escape(folder)}/((?:tests|bin|fuzz|lib|bench)/[\w.-]+)", text):
        file = os.path.basename(path)
        archive = re.fullmatch(r"lib([\w-]+)\.a", file)
        if archive:
            yield archive.group(1).replace("-", "_")
        elif "." not in file:
            yield file


def locks(props):
    found = re.search(r'\bRESOURCE_LOCK "([^"]*)"', props)
    return found.group(1).split(";") if found else []


def read_tests(folder):
    """(folder, name, command, properties) of all tests of a build."""
    for where, dirs, names in os.walk(folder):
        dirs[:] = sorted(d for d in dirs if d != "CMakeFiles")
        if "CTestTestfile.cmake" not in names:
            continue
        with open(f"{where}/CTestTestfile.cmake", encoding="utf-8") as f:
            calls = list(statements(f.read()))
        commands = {m.group(1): m.group(2) for m in map(ADD.match, calls) if m}
        properties = {m.group(1): m.group(2) for m in map(SET.match, calls) if m}
        for test, command in commands.items():
            props = properties.get(test, "")
            found = re.search(r'\bLABELS "([^"]*)"', props)
            labels = [l for l in (found.group(1) if found else "").split(";") if l]
            yield where, test, command, props, labels


def main(argv):
    out, builds, modules, resume, day, night, cost = argv[0], [], None, None, None, None, None
    rotate = ""
    args = iter(argv[1:])
    for a in args:
        if a == "--modules":
            modules = [m for m in next(args).split(",") if m]
        elif a == "--day":
            day = Day(int(next(args)))
        elif a == "--resume":
            resume = next(args)
        elif a == "--night-in":
            night = next(args).split(",")
        elif a == "--rotate":
            rotate = next(args)
        elif a == "--cost":
            cost = next(args)
        else:
            builds.append(a)
    if day:
        day.rotate = rotations(rotate)
    lines, waiting = [], 0
    for b in builds:
        name, _, rest = b.partition("=")
        folder, skip, only = (rest.split(":") + ["", ""])[:3]
        rc = f"{out}/{name}.rc"
        lines.append(f'add_test([=[{name}/build]=] "sh" "-c" "tail -n 80 {out}/{name}.log; '
                     f'exit $(cat {rc} || echo 1)")')
        lines.append(f'set_tests_properties([=[{name}/build]=] PROPERTIES LABELS "{name}")')
        needed, tests = set(), list(read_tests(folder))
        if day:
            day.modules = sorted({labels[0] for *_, labels in tests if labels})
        for where, test, command, props, labels in tests:
            if label_match(skip, labels) or (only and not label_match(only, labels)):
                continue
            if modules and not set(labels) & set(modules + ["single", "static"]):
                continue
            if day and not day.takes(name, test, labels):
                continue
            if night is not None and name not in night and command != "NOT_AVAILABLE":
                if "nightly" in labels:
                    continue
                command = f'"env" "SNIC_NIGHTLY=0" {command}'
            if resume and "FIXTURES_SETUP" not in props and command != "NOT_AVAILABLE":
                stamp = f"{resume}/{name}.{re.sub(r'[^0-9A-Za-z_.-]', '_', test)}"
                command = f'"sh" "-c" "{ONCE}" "{stamp}" {command}'
            if command != "NOT_AVAILABLE":
                needed.update(targets(folder, command + props))
                if cost:
                    command = f'"{cost}" "{out}/costs" "{name}/{test}" {command}'
            lines.append(f"add_test([=[{name}/{test}]=] {command})")
            if "WORKING_DIRECTORY" not in props:
                props += f' WORKING_DIRECTORY "{where}"'
            props = re.sub(r'\b(LABELS|_BACKTRACE_TRIPLES) "([^"]*)"', "", props)
            props += f' LABELS "{";".join(labels + [name])}"'
            weight = max(COST.get(l, 0) for l in labels + [name])
            if "RUN_SERIAL" in props:
                weight = ALONE
            if weight and " COST " not in props:
                props += f' COST "{weight}"'
            if day and "waits" in labels:
                mine = ";".join([f"waits{waiting % WAITING}", *locks(props)])
                props = re.sub(r'\bRESOURCE_LOCK "[^"]*"', "", props) + f' RESOURCE_LOCK "{mine}"'
                waiting += 1
            # ctest -j counts half processors: what is labelled `waits` takes one of them.
            taken = re.search(r'\bPROCESSORS "(\d+)"', props)
            halves = 1 if "waits" in labels else 2 * int(taken.group(1) if taken else 1)
            props = re.sub(r'\bPROCESSORS "\d+"', "", props) + f' PROCESSORS "{halves}"'
            # Fixtures belong to one build.
            props = re.sub(r'\b(FIXTURES_\w+) "([^"]*)"', lambda m: '{} "{}"'.format(
                m.group(1), ";".join(f"{name}.{x}" for x in m.group(2).split(";"))), props)
            lines.append(f"set_tests_properties([=[{name}/{test}]=] PROPERTIES {props})")
        with open(f"{out}/{name}.targets", "w", encoding="utf-8") as f:
            f.writelines(f"{t}\n" for t in sorted(needed))
    if day:
        day.say()
    os.makedirs(out, exist_ok=True)
    with open(f"{out}/CTestTestfile.cmake", "w", encoding="utf-8") as f:
        f.write("\n".join(lines) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
