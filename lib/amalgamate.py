#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Write single headers: declarations, and the implementation behind SNIC_IMPLEMENTATION.

    amalgamate.py OUT [--root DIR] [--commit TEXT] [--only MODULE | --each]
                  @NAME[:NEED,...] [SOURCE.c ...] [+BACKEND.c ...] ...

The arguments after the options are CMake's module list in floor order: `@ring:base` opens a module
and names what it needs, a plain path is one of its core sources, `+path` one of its io_uring
backends. Without --only OUT holds every module named; with it MODULE and what it needs. With --each
OUT is a folder, and its snic_MODULE.h is written for every module, as --only would. Quoted
includes are inlined once each and must resolve to exactly one file; system includes stay. (A
private header that several modules read is inlined once in each, because SNIC_MODULES may leave
one of them out; its include guard does the rest.) Same arguments and tree, same bytes: OUT carries
the version and the commit, and no date, and ends with the licences.
"""
import functools
import os
import re
import subprocess
import sys

QUOTED = re.compile(r'^\s*#\s*include\s+"([^"]+)"\s*(?:/[/*].*)?$')
IFNDEF = re.compile(r"^\s*#\s*ifndef\s+(\w+)")
OPENS = re.compile(r"^\s*#\s*if")
CLOSES = re.compile(r"^\s*#\s*endif")
# A function's declaration in a private header, and data that several files share.
PROTOTYPE = re.compile(r"^(?:SNIC_NODISCARD )?(?!static\b|typedef\b|extern\b)[a-z][\w ]*[ *]\w+\(")
DEFINITION = re.compile(r"^const [^=;]*?\b(\w+)(?:\[.*\])?(?: =.*|;)$")
SHARED = re.compile(r"^extern (const .*?\b(\w+)(?:\[.*\])?;.*)$")


class Failure(Exception):
    """Invalid input, with a message for its author."""


class Module:
    """One module of CMake's list."""

    def __init__(self, name, needs):
        self.name, self.needs, self.core, self.backends = name, needs, [], []


def parse(args):
    """The module list, in the order given."""
    modules = {}
    current = None
    for a in args:
        if a.startswith("@"):
            name, _, needs = a[1:].partition(":")
            current = modules[name] = Module(name, [n for n in needs.split(",") if n])
        elif current is None:
            raise Failure(f"{a}: a source before any @MODULE")
        elif a.startswith("+"):
            current.backends.append(a[1:])
        else:
            current.core.append(a)
    for m in modules.values():
        for n in m.needs:
            if n not in modules:
                raise Failure(f"module {m.name} needs {n}, which is not in the list")
    return modules


def closure(modules, name):
    """NAME and everything it needs, in floor order."""
    wanted, todo = set(), [name]
    while todo:
        m = todo.pop()
        if m not in wanted:
            wanted.add(m)
            todo += modules[m].needs
    return [m for m in modules if m in wanted]


class Line:
    """A line of a source, and what it is."""

    def __init__(self, text):
        include = QUOTED.match(text)
        shared = SHARED.match(text)
        name = DEFINITION.match(text)
        self.text = text
        self.include = include.group(1) if include else None
        self.depth = 1 if OPENS.match(text) else -1 if CLOSES.match(text) else 0
        self.shared = shared.groups() if shared else None
        self.prototype = bool(PROTOTYPE.match(text))
        self.defines = name.group(1) if name else None


@functools.lru_cache(maxsize=None)
def read(path):
    """The lines of a file, and whether its first directive opens an include guard."""
    try:
        with open(path, encoding="utf-8") as f:
            lines = f.read().splitlines()
    except OSError as e:
        raise Failure(str(e)) from e
    return [Line(l) for l in lines], is_guarded(lines)


def is_guarded(lines):
    directives = [l for l in lines if l.lstrip().startswith("#")]
    guard = IFNDEF.match(directives[0]) if directives else None
    return bool(guard and len(directives) > 1
                and re.match(rf"^\s*#\s*define\s+{guard.group(1)}\b", directives[1]))


@functools.lru_cache(maxsize=None)
def resolve(root, name, folder):
    """The files that include "NAME" of a file in FOLDER may mean."""
    places = [folder, f"{root}/include", f"{root}/lib"]
    return {os.path.realpath(f"{p}/{name}") for p in places if os.path.isfile(f"{p}/{name}")}


class Inliner:
    """Copies files, inlining each quoted include at its first use."""

    def __init__(self, root):
        self.root = os.path.realpath(root)
        self.done = set()
        self.private = set()
        self.shared = set()
        self.out = []

    def resolve(self, name, origin):
        found = resolve(self.root, name, os.path.dirname(origin))
        if len(found) != 1:
            raise Failure(f'{self.short(origin)}: include "{name}" resolves to {len(found)} files')
        return next(iter(found))

    def short(self, path):
        return os.path.relpath(path, self.root)

    def enter_module(self):
        """From here on private headers are inlined anew."""
        self.done -= self.private
        self.private = set()

    def add(self, path):
        """Append PATH between seam comments, unless it is there already."""
        path = os.path.realpath(path)
        if path in self.done:
            return
        self.done.add(path)
        is_private = path.endswith(".h") and path.startswith(f"{self.root}/lib/")
        if is_private:
            self.private.add(path)
        lines, guarded = read(path)
        if is_private and not guarded:
            raise Failure(f"{self.short(path)}: a private header needs an include guard")
        depth = 0
        self.out.append(f"/* ---- {self.short(path)} ---- */")
        for number, line in enumerate(lines, 1):
            depth += line.depth
            if line.include is None:
                self.out.append(self.linkage(line, is_private))
                continue
            target = self.resolve(line.include, path)
            if target not in self.done and depth != (1 if guarded else 0):
                raise Failure(f"{self.short(path)}:{number}: a conditional include of our own file "
                              "cannot be inlined once")
            self.add(target)
        self.out.append(f"/* ---- end of {self.short(path)} ---- */")

    def linkage(self, line, is_private):
        """LINE with the linkage that private names get in a single header (see the preamble)."""
        if is_private and line.shared:
            self.shared.add(line.shared[1])
            return f"SNIC_PRIVATE_DATA {line.shared[0]}"
        if is_private and line.prototype:
            return f"SNIC_PRIVATE {line.text}"
        if line.defines in self.shared:
            return f"SNIC_PRIVATE_DEFINITION {line.text}"
        return line.text


def public_headers(root, name):
    """include/snicstore/NAME.h, then NAME_*.h."""
    folder = f"{root}/include/snicstore"
    more = sorted(h for h in os.listdir(folder) if re.match(rf"{name}_\w+\.h$", h))
    return [f"{folder}/{h}" for h in [f"{name}.h"] + more if os.path.isfile(f"{folder}/{h}")]


def version(root):
    with open(f"{root}/include/snicstore/base.h", encoding="utf-8") as f:
        text = f.read()
    return ".".join(re.search(rf"#define SNIC_VERSION_{p} (\d+)", text).group(1)
                    for p in ("MAJOR", "MINOR", "PATCH"))


def commit(root):
    try:
        run = subprocess.run(["git", "-C", root, "describe", "--always", "--dirty", "--abbrev=40",
                              "--exclude", "*"], capture_output=True, text=True, check=True)
        return run.stdout.strip()
    except (OSError, subprocess.CalledProcessError):
        return "unknown"


def preamble(title, names, out_name):
    return f"""/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * {title}.
 * Generated by lib/amalgamate.py; change the sources, not this file.
 *
 * Modules: {" ".join(names)}.
 *
 * Include it wherever the declarations are needed (C99 and later, C++11 and
 * later). In exactly one C11 file of the program write
 *
 *     #define SNIC_IMPLEMENTATION
 *     #include "{out_name}"
 *
 * before any other include. Several of these headers may be instantiated in
 * that one file. 64-bit targets only. Linkage: the functions are hidden, so that a
 * shared library that vendors this file exports none of them. Optional, defined
 * before that include (SNIC_STATIC and SNIC_API in every file that includes it):
 *   SNIC_STATIC          every function is static: a copy for this one file, which
 *                        defines SNIC_IMPLEMENTATION too. Two libraries of one
 *                        program that each vendor a module need it.
 *   SNIC_API             a linkage of your own for the public functions, such as
 *                        __attribute__((visibility("default"))) to export them
 *   SNIC_WITH_IO_URING   also the io_uring backends (link with -luring -pthread):
 *                        without it the linker finds no snic_*_uring_open()
 *                        and no snic_dma_shm_*()
 *   SNIC_WITH_LMDB, SNIC_WITH_RADOS
 *                        with the above: the stores that need -llmdb, -lrados;
 *                        without, their open returns SNIC_ENOTSUP
 *   SNIC_WITH_OPENSSL    likewise: the ciphers that need -lcrypto
 *   SNIC_MODULES         only the modules M with SNIC_MODULE_M defined, and
 *                        what they need, instead of all
 */
#if defined(SNIC_STATIC) && !defined(SNIC_IMPLEMENTATION)
#error "SNIC_STATIC: this file needs SNIC_IMPLEMENTATION, too: static functions are its own"
#endif
#if !defined(SNIC_PRIVATE)
#if defined(SNIC_STATIC)
#define SNIC_PRIVATE static __attribute__((unused))
#define SNIC_PRIVATE_DATA static __attribute__((unused))
#define SNIC_PRIVATE_DEFINITION static
#if !defined(SNIC_API)
#define SNIC_API static __attribute__((unused))
#endif
#else
#define SNIC_PRIVATE __attribute__((visibility("hidden")))
#define SNIC_PRIVATE_DATA extern __attribute__((visibility("hidden")))
#define SNIC_PRIVATE_DEFINITION
#if !defined(SNIC_API)
#define SNIC_API __attribute__((visibility("hidden")))
#endif
#endif
#endif
#if defined(SNIC_IMPLEMENTATION) && defined(SNIC_WITH_IO_URING) && !defined(_GNU_SOURCE)
#define _GNU_SOURCE
#endif
#if defined(SNIC_IMPLEMENTATION) && defined(SNIC_WITH_IO_URING) && defined(__GLIBC__) && \\
    !defined(__USE_GNU)
#error "SNIC_WITH_IO_URING: include this before any other header, or compile with -D_GNU_SOURCE"
#endif
""".splitlines()


def selection(modules, names):
    """Preprocessor text that turns the caller's choice into SNIC_MODULE_* of its closure."""
    lines = ["#if !defined(SNIC_MODULES)"]
    for n in names:
        lines += [f"#if !defined(SNIC_MODULE_{n.upper()})", f"#define SNIC_MODULE_{n.upper()}",
                  "#endif"]
    lines += ["#else"]
    for n in names:
        needs = [x for x in closure(modules, n) if x != n]
        if not needs:
            continue
        lines.append(f"#if defined(SNIC_MODULE_{n.upper()})")
        for x in needs:
            lines += [f"#if !defined(SNIC_MODULE_{x.upper()})", f"#define SNIC_MODULE_{x.upper()}",
                      "#endif"]
        lines.append("#endif")
    return lines + ["#endif"]


def implementation(inliner, modules, names):
    """Each source once per program file, however many single headers bring it."""
    out = inliner.out
    out += ["#if defined(SNIC_IMPLEMENTATION)", "#if defined(__cplusplus)",
            '#error "SNIC_IMPLEMENTATION is C11: define it in a .c file"',
            "#elif __STDC_VERSION__ < 201112L",
            '#error "SNIC_IMPLEMENTATION is C11: compile this file with -std=c11 or later"',
            "#endif"]
    # GCC's -Wmisleading-indentation reads the file again from its beginning for most statements,
    # which is two thirds of what a compilation takes, but not after a #line. The number is right.
    out.append(f"#line {len(out) + 2}")
    out += selection(modules, names)
    for kind in ("core", "backends"):
        sources = [(n, s) for n in names for s in getattr(modules[n], kind)]
        if kind == "backends" and sources:
            out.append("#if defined(SNIC_WITH_IO_URING)")
        entered = None
        for n, source in sources:
            if n != entered:
                inliner.enter_module()
                entered = n
            short = inliner.short(os.path.realpath(source))
            done = "SNIC_DONE__" + re.sub(r"\W", "_", short).upper()
            out += [f"#if defined(SNIC_MODULE_{n.upper()}) && !defined({done})", f"#define {done}"]
            inliner.add(source)
            out.append(f"#endif /* {done} */")
        if kind == "backends" and sources:
            out.append("#endif /* SNIC_WITH_IO_URING */")
    out.append("#endif /* SNIC_IMPLEMENTATION */")


def licences(root):
    """LICENSE as a comment: the file may travel alone."""
    with open(f"{root}/LICENSE", encoding="utf-8") as f:
        text = f.read()
    if "/*" in text or "*/" in text:
        raise Failure("LICENSE cannot stand in a comment")
    return ["", "/*"] + [f" * {line}".rstrip() for line in text.splitlines()] + [" */"]


def generate(root, out, modules, only, revision):
    names = closure(modules, only) if only else list(modules)
    title = f"libsnicstore: the {only} module in one file" if only else "libsnicstore in one file"
    inliner = Inliner(root)
    title += f", version {version(root)}, commit {revision}"
    inliner.out += preamble(title, names, os.path.basename(out))
    umbrella = f"{root}/include/snicstore.h"
    headers = [h for n in names for h in public_headers(root, n)]
    everything = {os.path.realpath(f"{root}/include/snicstore/{h}")
                  for h in os.listdir(f"{root}/include/snicstore")}
    # A backend that is not asked for leaves static declarations without a definition. GCC reports
    # them at the end of the file, so the warning stays off for all of it.
    inliner.out += ["#if defined(SNIC_STATIC)",
                    '#pragma GCC diagnostic ignored "-Wunused-function"', "#endif"]
    if everything == {os.path.realpath(h) for h in headers}:
        inliner.add(umbrella)
        missing = everything - inliner.done
        if missing:
            raise Failure("include/snicstore.h lacks " + " ".join(sorted(missing)))
    else:
        for h in headers:
            inliner.add(h)
    implementation(inliner, modules, names)
    unlisted = (everything & inliner.done) - {os.path.realpath(h) for h in headers}
    if unlisted:
        raise Failure(f"{only or 'a module'} includes what its NEEDS do not name: "
                      + " ".join(sorted(inliner.short(h) for h in unlisted)))
    text = "\n".join(inliner.out + licences(root)) + "\n"
    os.makedirs(os.path.dirname(os.path.abspath(out)), exist_ok=True)
    with open(out, "w", encoding="utf-8") as f:
        f.write(text)


def main(argv):
    root = os.path.dirname(os.path.dirname(os.path.realpath(__file__)))
    only, each, revision, out, rest = None, False, None, None, []
    args = iter(argv)
    for a in args:
        if a == "--root":
            root = next(args)
        elif a == "--commit":
            revision = next(args)
        elif a == "--only":
            only = next(args)
        elif a == "--each":
            each = True
        elif out is None:
            out = a
        else:
            rest.append(a)
    if out is None or not rest:
        print(__doc__, file=sys.stderr)
        return 2
    try:
        modules = parse(rest)
        if only and only not in modules:
            raise Failure(f"no module {only} in the list")
        revision = revision or commit(root)
        if each:
            for name in modules:
                generate(root, f"{out}/snic_{name}.h", modules, name, revision)
        else:
            generate(root, out, modules, only, revision)
    except Failure as e:
        print(f"amalgamate: {e}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
