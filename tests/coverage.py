#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Which branches of modules their everyday tests take.

    coverage.py [--build DIR] [--jobs N] [--keep] [--tests REGEX] MODULE...

Builds MODULE... with clang's coverage mapping and without assertions in a folder of its own, runs
the tests that tests/run.sh runs by day, except those that build mutants, and prints for each file
the branches taken, a total for each module, and each branch that was not: file:line:column, and
which of its outcomes is missing. A branch is one outcome of one condition, && and || apart. The
explorers compile the engines once more (tests/mc); what these copies do counts, too. Programs that
have nothing but copies with defects are left out.

--keep reports on what ran before and runs nothing; --tests runs only those (ctest -R). Simulations
are shortened by SNIC_SIM_COUNT, as always. Exit code 77: clang or llvm-cov is missing.
"""
import argparse
import json
import os
import shutil
import subprocess
import sys

PLANTED = "^(member_teeth|ddpnic_h1)$"
ROOT = os.path.dirname(os.path.dirname(os.path.realpath(__file__)))


def build(folder, modules, jobs):
    flags = "-fprofile-instr-generate -fcoverage-mapping"
    subprocess.run(
        ["cmake", "-S", ROOT, "-B", folder, "-DCMAKE_C_COMPILER=clang", "-DCMAKE_C_FLAGS=" + flags,
         "-DCMAKE_BUILD_TYPE=Release", "-DCMAKE_C_FLAGS_RELEASE=-O1", "-DSNIC_NO_ASSERT=ON",
         "-DSNIC_BUILD_BENCH=OFF", "-DSNIC_BUILD_EXAMPLES=OFF", "-DSNIC_BUILD_FUZZ=OFF",
         "-DSNIC_MODULES=" + ";".join(modules)], check=True, stdout=subprocess.DEVNULL)
    subprocess.run(["cmake", "--build", folder, "-j", str(jobs)], check=True)


def run(folder, modules, jobs, only):
    """Each program adds to the file of its own build (%m), also in several processes."""
    profiles = os.path.join(folder, "profiles")
    shutil.rmtree(profiles, ignore_errors=True)
    env = dict(os.environ, LLVM_PROFILE_FILE=os.path.join(profiles, "%m.profraw"))
    labels = "^(" + "|".join(modules) + ")$"
    ctest = ["ctest", "-L", labels, "-LE", "^nightly$", "-E", PLANTED, "--output-on-failure", "-j",
             str(jobs)] + (["-R", only] if only else [])
    done = subprocess.run(ctest, cwd=folder, env=env)
    raw = [os.path.join(profiles, f) for f in sorted(os.listdir(profiles))]
    subprocess.run(["llvm-profdata", "merge", "-o", os.path.join(folder, "profile")] + raw,
                   check=True)
    return done.returncode


def branches(folder, programs):
    """{(file, line, column, end line, end column): [taken, not taken]}, of all copies together."""
    cmd = ["llvm-cov", "export", "-instr-profile", os.path.join(folder, "profile"), programs[0]]
    for p in programs[1:]:
        cmd += ["-object", p]
    out = json.loads(subprocess.run(cmd, check=True, stdout=subprocess.PIPE,
                                    stderr=subprocess.DEVNULL).stdout)
    found = {}
    for f in out["data"][0]["functions"]:
        for line, col, line2, col2, yes, no, where, _, _ in f["branches"]:
            sums = found.setdefault(
                (os.path.normpath(f["filenames"][where]), line, col, line2, col2), [0, 0])
            sums[0] += yes
            sums[1] += no
    return found


def text(path, line, col, line2, col2):
    with open(path) as f:
        lines = f.read().split("\n")[line - 1:line2]
    lines[-1] = lines[-1][:col2 - 1]
    lines[0] = lines[0][col - 1:]
    return " ".join(part.strip() for part in lines)


def report(folder, modules):
    """The library determines which branches exist; programs have assertions in their copies."""
    library = os.path.join(folder, "lib", "libsnicstore.so")
    tests = os.path.join(folder, "tests")
    programs = [os.path.join(tests, t) for t in sorted(os.listdir(tests)) if t.startswith("test_")]
    programs = [p for p in programs if os.path.isfile(p) and os.access(p, os.X_OK)]
    known = branches(folder, [library])
    counts = branches(folder, [library] + programs)
    missing = []
    for m in modules:
        sums = {}
        for key in sorted(known):
            path = os.path.relpath(key[0], ROOT)
            if not path.startswith("lib/%s/" % m):
                continue
            of = sums.setdefault(path, [0, 0])
            of[0] += sum(count != 0 for count in counts[key])
            of[1] += 2
            never = [what for what, count in zip(("true", "false"), counts[key]) if count == 0]
            if never:
                missing.append("%s:%d:%d: never %s: %s" % (
                    path, key[1], key[2], " or ".join(never), text(*key)))
        sums["lib/%s" % m] = [sum(s[i] for s in sums.values()) for i in (0, 1)]
        for path, (taken, all_) in sums.items():
            print("%-28s %5d of %5d  %6.2f %%" % (path, taken, all_, 100 * taken / max(all_, 1)))
    print("\n".join(missing))


def main():
    p = argparse.ArgumentParser(usage=__doc__)
    p.add_argument("--build", default=os.path.join(ROOT, "build", "coverage"))
    p.add_argument("--jobs", type=int, default=os.cpu_count())
    p.add_argument("--keep", action="store_true")
    p.add_argument("--tests", default="")
    p.add_argument("modules", nargs="+")
    a = p.parse_args()
    for tool in ("clang", "llvm-cov", "llvm-profdata", "cmake", "ctest"):
        if not shutil.which(tool):
            print("no %s" % tool)
            return 77
    for m in a.modules:
        if not os.path.isdir(os.path.join(ROOT, "lib", m)):
            print("no module '%s'" % m)
            return 2
    rc = 0
    if not a.keep:
        build(a.build, a.modules, a.jobs)
        rc = run(a.build, a.modules, a.jobs, a.tests)
    report(a.build, a.modules)
    return rc


if __name__ == "__main__":
    sys.exit(main())
