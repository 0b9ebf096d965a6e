#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Every limit of the library and its programs stands in tests/limits/, with a test that meets it.

    limits.py            checks the tables against the tree; red where one of them lacks something
    limits.py --missing  lists the candidates that stand in no row, by file

A candidate is a constant of include/, lib/ or examples/ whose name shows that it bounds something
(_MAX, _LIMIT, _DEPTH, ... and times), a field of a public options struct with such a name, and an
option of a program that takes a number, a size or a time. A test that a row names is one that
ctest has, by day or by night: its file stands in a list of tests, or in a script of such a list,
and its function in a table of tests. A candidate has a row in a table of limits, which
names the test that meets it, or stands in the list of constants that bound nothing a user or a
peer can reach, with the reason.
"""
import os
import re
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.realpath(__file__)))
DOCUMENTS = "tests/limits"
WORDS = (r"(?:MAX|LIMIT|DEPTH|POOL|SLOTS|ENTRIES|WINDOW|BUFFERS|PLACES|SERVERS|CONNS|TRIES|NS|MS|"
         r"SECONDS)")
MACRO = re.compile(rf"^\s*#\s*define\s+(\w*_{WORDS}(?:_[A-Z]+)?)\s+\(?[\dUS(]")
CONSTANT = re.compile(rf"\b([A-Z][A-Z0-9_]*_{WORDS})\s*=\s*[\dA-Z(]")
FIELD = re.compile(r"^\s+(?:uint32_t|uint64_t|uint16_t|size_t|unsigned|int)\s+"
                   r"(\w*(?:_max|_min|depth|_ms|_ns|_us|_slots|_buffers|entries|_timeout)\w*)\s*;")
OPTS = re.compile(r"^struct (snic_\w+_opts) \{")
# An entry of an option table, with and without designators; of EX_PARSE, one that takes a number.
OPTION = re.compile(r'\{\s*(?:\.name\s*=\s*)?"([\w-]+)",\s*(?:\.kind\s*=\s*)?EX_(\w+),'
                    r'\s*(?:\.target\s*=\s*)?[^,"]*,\s*(?:\.value\s*=\s*)?("[^"]*")?')
# Programs that read their options by hand: what is read as a number, or refused as none.
BY_HAND = re.compile(r'strcmp\([^()]*"--([\w-]+)"\) == 0\)\s*\{?\s*(?:\w[\w.]* = |if \(!?)'
                     r'\w*number\(|"--([\w-]+): \'%s\' is not a number')
NUMERIC = re.compile(r"BYTES|SECONDS|PERCENT|SIZE|\bN\b|=MS\b|\d\.\.")
ROW = re.compile(r"^\|\s*`([^`]+)`")
TEST = re.compile(r"`([\w./-]+?)(?::(\w+))?`")


# Folders of examples/ whose options are those of several programs.
SHARED = {"server": ("kv_server", "page_server")}


def files():
    for top in ("include", "lib", "examples"):
        for folder, _, names in sorted(os.walk(f"{ROOT}/{top}")):
            for n in sorted(names):
                if n.endswith((".c", ".h")):
                    yield os.path.relpath(f"{folder}/{n}", ROOT)


def candidates():
    """name -> the file it stands in; options are PROGRAM --NAME, fields STRUCT.FIELD."""
    found = {}
    for path in files():
        with open(f"{ROOT}/{path}", encoding="utf-8") as f:
            lines = f.read().splitlines()
        struct = None
        program = path.split("/")[1].removesuffix(".c") if path.startswith("examples/") else None
        for line in lines:
            for pattern in (MACRO, CONSTANT):
                for m in pattern.finditer(line):
                    found.setdefault(m.group(1), path)
            if path.startswith("include/"):
                opts = OPTS.match(line)
                struct = opts.group(1) if opts else None if line.startswith("}") else struct
                field = FIELD.match(line)
                if struct and field:
                    found.setdefault(f"{struct}.{field.group(1)}", path)
        text = "\n".join(lines) if program else ""
        for m in BY_HAND.finditer(text):
            found.setdefault(f"{program} --{m.group(1) or m.group(2)}", path)
        for m in OPTION.finditer(text):
            name, kind, value = m.groups()
            if kind in ("NUMBER", "SIZE") or \
                    (kind == "PARSE" and NUMERIC.search(value or "")):
                for p in SHARED.get(program, (program,)):
                    found.setdefault(f"{p} --{name}", path)
    return found


def identifiers():
    """Every name in include, lib and examples, and every option."""
    out = set()
    for path in files():
        with open(f"{ROOT}/{path}", encoding="utf-8") as f:
            out.update(re.findall(r"[\w-]+", f.read()))
    return out | {n.removesuffix(".c") for n in os.listdir(f"{ROOT}/examples")}


def documents():
    """Rows of the limits, name -> (place, cells); and those of the lists of other constants."""
    rows, others, problems = {}, {}, []
    for name in sorted(os.listdir(f"{ROOT}/{DOCUMENTS}")):
        if name != "README.md":
            document(f"{DOCUMENTS}/{name}", rows, others, problems)
    return rows, others, problems


def document(path, rows, others, problems):
    table = rows
    with open(f"{ROOT}/{path}", encoding="utf-8") as f:
        for number, line in enumerate(f, 1):
            if line.startswith("## "):
                table = others if line.startswith("## Constants that bound nothing") else rows
            if not ROW.match(line):
                continue
            cells = [c.strip() for c in line.strip().strip("|").split("|")]
            for name in re.findall(r"`([^`]+)`", cells[0]):
                if name in rows or name in others:
                    problems.append(f"{path}:{number}: {name} stands in two rows")
                table[name] = (f"{path}:{number}", cells)


def lists(scripts):
    """What registers tests, without comments; and what the scripts there start."""
    text = "\n".join(re.sub(r"#.*", "", t) for suffix in (".cmake", "Lists.txt")
                     for t in sources(suffix).values())
    return "\n".join([text] + [t for n, t in scripts.items() if n in text])


def sources(suffix):
    """The text of all files below tests/ with this suffix, name without folder -> text."""
    out = {}
    for folder, dirs, names in os.walk(f"{ROOT}/tests"):
        dirs.sort()
        for n in sorted(names):
            if n.endswith(suffix):
                with open(f"{folder}/{n}", encoding="utf-8") as f:
                    out[n] = out.get(n, "") + f.read()
    return out


DEFINED = re.compile(r"^(?:static )?(?:void|int) (\w+)\(", re.M)
NET_TEST = re.compile(r"\bCONF_CASE\((\w+)\)")  # a macro of conformance_net.c makes the names


def used_names(everything):
    """Every name in the tests' C sources and headers at another place than its definition."""
    out = set()
    for suffix in ("c", "h"):
        for text in everything[suffix].values():
            out.update(re.findall(r"\w{6,}", DEFINED.sub("", text)))
            out.update("conf_test_" + n for n in NET_TEST.findall(text))
    return out


def function_runs(path, function, everything, used):
    """FUNCTION is defined in PATH, and something runs it. None, or what is wrong."""
    text = everything[path.rpartition(".")[2]].get(path)
    if text is None:
        return f"functions of {path} cannot be named"
    if path.endswith(".py"):
        if not re.search(rf"^def {function}\(", text, re.M):
            return f"{path} defines no {function}"
        # main() takes all that are called test_*, or each is named once more.
        taken = function.startswith("test_") and re.search(r"startswith\(.test_|tests_of\(g", text)
        if not taken and len(re.findall(rf"\b{function}\b", text)) < 2:
            return f"{path} does not run {function}"
        return None
    if path.endswith(".sh"):
        return None if function in text else f"{path} has no {function}"
    if function not in DEFINED.findall(text):
        return f"{path} defines no {function}"
    return None if function in used else f"no table of tests has {function} of {path}"


def test_exists(path, function, listed, everything, used):
    """PATH names a file below tests/ that a run takes; FUNCTION a test in it, in scripts, too."""
    if path not in everything[path.rpartition(".")[2]]:
        return f"no file {path} below tests/"
    if function:
        wrong = function_runs(path, function, everything, used)
        if wrong:
            return wrong
    base = os.path.basename(path)
    if base in listed:
        return None
    name = base.rsplit(".", 1)[0].removeprefix("test_")
    first, _, last = name.rpartition("_")
    # Written out, or as FIRST_${t} in a loop over names of which LAST is one.
    looped = first and f"{first}_${{" in listed and \
        re.search(rf"foreach\(\w+ [^)]*\b{re.escape(last)}\b", listed)
    # A C file's name: a test's, a program's or a source's.
    named = base.endswith(".c") and re.search(rf"\b(?:test_)?{re.escape(name)}\b", listed)
    return None if looped or named else f"{path} is in no list of tests"


def check():
    found, (rows, others, problems) = candidates(), documents()
    everything = {k: sources("." + k) for k in ("c", "h", "py", "sh")}
    listed, used = lists(everything["sh"]), used_names(everything)
    for name, path in found.items():
        if name not in rows and name not in others:
            problems.append(f"{path}: {name} has no row in {DOCUMENTS}/")
    tree = identifiers()
    for name, (place, cells) in {**rows, **others}.items():
        # A limit whose name does not indicate one may have a row, too.
        if name not in found and not set(re.split(r"\.| --", name)) <= tree:
            problems.append(f"{place}: {name} is nowhere in the tree")
    for name, (place, cells) in rows.items():
        if len(cells) != 6 or not all(cells):
            problems.append(f"{place}: {name}: six cells, none of them empty")
            continue
        tests = TEST.findall(cells[5])
        if not tests:
            problems.append(f"{place}: {name} names no test")
        for path, function in tests:
            wrong = test_exists(path, function, listed, everything, used)
            if wrong:
                problems.append(f"{place}: {name}: {wrong}")
    for name, (place, cells) in others.items():
        if len(cells) < 2 or not cells[1]:
            problems.append(f"{place}: {name}: no reason")
    print("\n".join(problems + [f"{len(rows)} limits, {len(others)} other constants, "
                                f"{len(problems)} offences"]))
    return 1 if problems else 0


def main(argv):
    if argv == ["--missing"]:
        rows, others, _ = documents()
        left = {n: p for n, p in candidates().items() if n not in rows and n not in others}
        for path in sorted(set(left.values())):
            print(path, *sorted(n for n in left if left[n] == path))
        print(len(left), "missing")
        return 0
    return check()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
