#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Checks of the generated single headers, one per run:

    check.py CHECK --dir build/single --root DIR [--lib libX.a ...] [--uring] -- AMALGAMATION...

AMALGAMATION is the source list that lib/amalgamate.py got. Exit code 77: a compiler is missing.
"""
import argparse
import filecmp
import os
import re
import shutil
import subprocess
import sys
import tempfile

WARN = ("-Werror -Wall -Wextra -Wpedantic -Wshadow -Wundef -Wredundant-decls -Wcast-qual "
        "-Wswitch-default").split()
STRICT = WARN + "-Wconversion -Wstrict-prototypes -Wmissing-prototypes -Wvla -Wcast-align".split()
C_MODES = ["c99", "c11"]
CXX_MODES = ["c++11", "c++17", "c++20"]


def run(*command, **kw):
    """Run it; on failure show it with its output and end red."""
    r = subprocess.run(command, capture_output=True, text=True, check=False, **kw)
    if r.returncode != 0:
        sys.exit(f"$ {' '.join(command)}\n{r.stdout}{r.stderr}")
    return r.stdout


def need(*names):
    for n in names:
        if shutil.which(n):
            return n
    print("skip: none of", *names)
    sys.exit(77)


class Checks:
    def __init__(self, args, tmp):
        self.a, self.tmp = args, tmp
        self.modules = [x[1:].partition(":")[0] for x in args.list if x.startswith("@")]
        self.headers = ["snicstore.h"] + [f"snic_{m}.h" for m in self.modules]
        self.sources = [x.lstrip("+") for x in args.list if not x.startswith("@")]
        self.uring = args.uring and any(x.startswith("+") for x in args.list)

    def write(self, name, *lines):
        path = f"{self.tmp}/{name}"
        with open(path, "w", encoding="utf-8") as f:
            f.write("\n".join(lines) + "\n")
        return path

    def compilers(self):
        return [c for c in ("gcc", "clang") if shutil.which(c)] or [need("cc")]

    def twice(self):
        """The same tree gives the same bytes."""
        call = [sys.executable, f"{self.a.root}/lib/amalgamate.py", "--root", self.a.root,
                "--commit", "fixed"]
        for name in ("first", "second"):
            run(*call, f"{self.tmp}/{name}/snicstore.h", *self.a.list)
            run(*call, f"{self.tmp}/{name}", "--each", *self.a.list)
        last = self.modules[-1] # which is the same when it is asked for alone
        run(*call, f"{self.tmp}/second/snic_{last}.h", "--only", last, *self.a.list)
        for h in self.headers:
            if not filecmp.cmp(f"{self.tmp}/first/{h}", f"{self.tmp}/second/{h}", shallow=False):
                sys.exit(f"{h}: two generations differ")

    def declarations(self):
        """Declarations alone, as every C and C++ promised, also included twice."""
        cxx = need("c++", "g++", "clang++")
        cc = need("cc", "gcc", "clang")
        for h in self.headers:
            c = self.write(f"{h}.c", f'#include "{h}"', f'#include "{h}"', "int main(void);")
            x = self.write(f"{h}.cc", f'#include "{h}"', f'#include "{h}"', "int main();")
            for mode in C_MODES:
                run(cc, f"-std={mode}", *WARN, "-fsyntax-only", "-I", self.a.dir, c)
            for mode in CXX_MODES:
                run(cxx, f"-std={mode}", *WARN, "-fsyntax-only", "-I", self.a.dir, x)

    def implementation(self):
        """Strict C11 (the whole with each compiler), after its declarations, and in two files.

        By day a quarter of the modules' headers."""
        chosen = self.headers[1:]
        if os.environ.get("SNIC_NIGHTLY", "") in ("", "0"): # others at each commit
            chosen = chosen[int(os.environ.get("SNIC_TURN") or 0) % 4::4]
        for h in self.headers[:1] + chosen:
            one = self.write("one.c", f'#include "{h}"', "#define SNIC_IMPLEMENTATION",
                             f'#include "{h}"', f'#include "{h}"')
            two = self.write("two.c", f'#include "{h}"', "int main(void)",
                             "{ return snic_version() == SNIC_VERSION ? 0 : 1; }")
            first, *others = self.compilers()
            run(first, "-std=c11", *STRICT, "-I", self.a.dir, one, two, "-o", f"{self.tmp}/a")
            run(f"{self.tmp}/a")
            if h != "snicstore.h":  # whose text is that of all
                continue
            for cc in others:
                run(cc, "-std=c11", *STRICT, "-fsyntax-only", "-I", self.a.dir, one)
        if self.uring:
            one = self.write("one.c", "#define SNIC_IMPLEMENTATION", *self.backends(),
                             '#include "snicstore.h"')
            for cc in self.compilers():
                run(cc, "-std=gnu11", *STRICT, "-I", self.a.dir, one, two, "-luring", "-pthread",
                    *[f"-l{v.partition(':')[2]}" for v in self.a.vendor], "-o", f"{self.tmp}/a")
            self.late_include()

    def refused(self, words, *command):
        """The compiler ends with an error of ours."""
        r = subprocess.run(command, capture_output=True, text=True, check=False)
        if r.returncode == 0 or words not in r.stderr:
            sys.exit(f"$ {' '.join(command)}\nno error that says {words!r}:\n{r.stderr}")

    def embed(self):
        """Libraries that vendor modules live side by side in one program, and keep them inside."""
        cc = need("cc", "gcc", "clang")
        objects = []
        for number, m in enumerate(self.modules[:3] + self.modules[-1:]):
            c = self.write(f"own{number}.c", "#define SNIC_STATIC", "#define SNIC_IMPLEMENTATION",
                           f'#include "snic_{m}.h"', f"uint32_t own{number}(void);",
                           f"uint32_t own{number}(void) {{ return snic_version(); }}")
            objects.append(f"{c}.o")
            run(cc, "-std=c11", *STRICT, "-I", self.a.dir, "-c", c, "-o", objects[-1])
            if self.nm(objects[-1]) != {f"own{number}"}:
                sys.exit(f"SNIC_STATIC: snic_{m}.h defines {self.nm(objects[-1])}")
        main = self.write("main.c", "#include <stdint.h>", "uint32_t own0(void), own1(void);",
                          "int main(void) { return own0() == own1() ? 0 : 1; }")
        run(cc, main, *objects, "-o", f"{self.tmp}/a")
        run(f"{self.tmp}/a")
        whole = ["#define SNIC_IMPLEMENTATION", *(self.backends() if self.uring else []),
                 '#include "snicstore.h"', "int own(void);", "int own(void) { return 1; }"]
        c = self.write("static.c", "#define SNIC_STATIC", *whole)
        run(cc, "-std=gnu11", "-w", "-I", self.a.dir, "-c", c, "-o", f"{self.tmp}/s.o")
        if self.nm(f"{self.tmp}/s.o") != {"own"}:
            sys.exit(f"SNIC_STATIC: snicstore.h defines {self.nm(f'{self.tmp}/s.o')}")
        for lines, exported in (([], {"own"}), (self.exporting(), {"own", "snic_version"})):
            c = self.write("shared.c", *lines, "#define SNIC_IMPLEMENTATION",
                           '#include "snic_base.h"', "int own(void);",
                           "int own(void) { return 1; }")
            run(cc, "-std=c11", "-shared", "-fPIC", "-I", self.a.dir, c, "-o", f"{self.tmp}/s.so")
            table = run("nm", "-D", "--defined-only", f"{self.tmp}/s.so")
            out = {line.split()[-1] for line in table.splitlines()}
            if not exported <= out or (not lines and out != exported):
                sys.exit(f"a shared library that vendors snic_base.h exports {sorted(out)}")
        c = self.write("c.c", "#define SNIC_STATIC", '#include "snic_base.h"')
        self.refused("SNIC_STATIC: this file needs", cc, "-c", "-I", self.a.dir, c)
        c = self.write("c.c", "#define SNIC_IMPLEMENTATION", '#include "snic_base.h"')
        self.refused("is C11", cc, "-std=c99", "-fsyntax-only", "-I", self.a.dir, c)
        narrow = ["-U__SIZEOF_POINTER__", "-D__SIZEOF_POINTER__=4", "-U__SIZEOF_INT128__"]
        self.refused("64-bit target", cc, "-w", *narrow, "-fsyntax-only", "-I", self.a.dir, c)

    @staticmethod
    def exporting():
        return ['#define SNIC_API __attribute__((visibility("default")))']

    def backends(self):
        """The lines that ask for all backends that the libraries were built with."""
        vendors = [v.partition(":")[0] for v in self.a.vendor]
        return [f"#define SNIC_WITH_{b}" for b in ["IO_URING"] + vendors]

    def late_include(self):
        """With io_uring, and glibc's headers before it: a message of ours, or none at all."""
        late = self.write("late.c", "#include <stdio.h>", "#define SNIC_IMPLEMENTATION",
                          "#define SNIC_WITH_IO_URING", '#include "snicstore.h"')
        command = [self.compilers()[0], "-std=gnu11", "-fsyntax-only", "-I", self.a.dir, late]
        r = subprocess.run(command, capture_output=True, text=True, check=False)
        if r.returncode != 0 and "before any other header" not in r.stderr:
            sys.exit(f"late include: {r.stderr}")
        run(*command, "-D_GNU_SOURCE")

    def several(self):
        """All module headers instantiated in one file, and the whole by module choice."""
        cc = need("cc", "gcc", "clang")
        one = self.write("one.c", "#define SNIC_IMPLEMENTATION",
                         *[f'#include "{h}"' for h in reversed(self.headers)], "int main(void)",
                         "{ return snic_version() == SNIC_VERSION ? 0 : 1; }")
        run(cc, "-std=c11", *STRICT, "-I", self.a.dir, one, "-o", f"{self.tmp}/a")
        run(f"{self.tmp}/a")
        for m in self.modules:
            def sources(header, *lines):
                c = self.write("choice.c", "#define SNIC_IMPLEMENTATION", *lines,
                               f'#include "{header}"')
                out = run(cc, "-std=c11", "-dM", "-E", "-I", self.a.dir, c)
                return set(re.findall(r"#define (SNIC_DONE__\w+)", out))
            chosen = sources("snicstore.h", "#define SNIC_MODULES",
                             f"#define SNIC_MODULE_{m.upper()}")
            alone = sources(f"snic_{m}.h")
            if chosen != alone or not alone:
                sys.exit(f"{m}: SNIC_MODULES and snic_{m}.h differ: {sorted(chosen ^ alone)}")

    @staticmethod
    def nm(*files):
        lines = run(need("nm"), "-g", "--defined-only", *files).split("\n")
        return {line.split()[-1] for line in lines if len(line.split()) == 3}

    def symbols(self):
        """The object has the symbols of the libraries: no source forgotten, none doubled."""
        c = self.write("s.c", "#define SNIC_IMPLEMENTATION",
                       *(self.backends() if self.uring else []), '#include "snicstore.h"')
        run(need("cc", "gcc", "clang"), "-std=gnu11", "-c", "-I", self.a.dir, c, "-o",
            f"{self.tmp}/s.o")
        one, lib = self.nm(f"{self.tmp}/s.o"), self.nm(*self.a.lib)
        if one != lib:
            sys.exit(f"only in the single header: {sorted(one - lib)}\n"
                     f"only in the library: {sorted(lib - one)}")

    def macros(self):
        """What our lines leave defined begins SNIC_ (the system headers' macros are theirs)."""
        gcc = need("gcc")
        for h in self.headers:
            with open(f"{self.a.dir}/{h}", encoding="utf-8") as f:
                own = f.read()
            # The backends' text is the same in a module's header and in the whole.
            for uring in ([False, True] if self.uring and h == "snicstore.h" else [False]):
                c = self.write("m.c", "#define SNIC_IMPLEMENTATION",
                               *(self.backends() if uring else []), f'#include "{h}"')
                text = run(gcc, "-std=gnu11", "-dD", "-E", "-I", self.a.dir, c)
                file, left = "", set()
                for line in text.splitlines():
                    mark = re.match(r'# \d+ "([^"]*)"', line)
                    macro = re.match(r"#(define|undef) (\w+)", line)
                    if mark:
                        file = mark.group(1)
                    elif macro and macro.group(1) == "undef":
                        left.discard(macro.group(2))
                    elif macro and file in (f"{self.a.dir}/{h}", c):
                        left.add(macro.group(2))
                # What a backend defines where an older system header lacks it is not ours.
                bad = {m for m in left if not re.match(r"SNIC_|SNICSTORE_H$", m)
                       and f"#ifndef {m}\n#define {m} " not in own}
                if uring:
                    bad.discard("_GNU_SOURCE")
                if bad:
                    sys.exit(f"{h} leaves macros behind: {' '.join(sorted(bad))}")

    def seams(self):
        """Every source is named in a seam comment, in the whole and in its module's header."""
        with open(f"{self.a.dir}/snicstore.h", encoding="utf-8") as f:
            text = f.read()
        module = None
        for x in self.a.list:
            if x.startswith("@"):
                module = x[1:].partition(":")[0]
                with open(f"{self.a.dir}/snic_{module}.h", encoding="utf-8") as f:
                    own = f.read()
                continue
            seam = f"/* ---- {os.path.relpath(x.lstrip('+'), self.a.root)} ---- */"
            if seam not in text or seam not in own:
                sys.exit(f"no seam: {seam}")

    def program(self):
        """The short ring program: only build/single/snic_ring.h and cc -std=c11."""
        if "ring" not in self.modules:
            print("skip: the ring is not built here")
            sys.exit(77)
        shutil.copy(f"{self.a.dir}/snic_ring.h", self.tmp)
        shutil.copy(f"{self.a.root}/tests/single/ring_program.c", self.tmp)
        run(need("cc"), "-std=c11", "-Wall", "-Wextra", "-Werror", "-o", "p", "ring_program.c",
            cwd=self.tmp)
        if run(f"{self.tmp}/p") != "hello\n":
            sys.exit("the ring program does not say hello")


def main():
    p = argparse.ArgumentParser()
    p.add_argument("check")
    p.add_argument("--dir", required=True)
    p.add_argument("--root", required=True)
    p.add_argument("--lib", action="append", default=[])
    p.add_argument("--uring", action="store_true")
    p.add_argument("--vendor", action="append", default=[], help="NAME:LIBRARY of a wrapped one")
    p.add_argument("list", nargs="+")
    args = p.parse_args()
    with tempfile.TemporaryDirectory() as tmp:
        getattr(Checks(args, tmp), args.check)()


if __name__ == "__main__":
    main()
