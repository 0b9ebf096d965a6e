#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Every limit of the library and its programs stands in tests/limits/, with a test that meets it.

    limits.py            checks the tables against the tree; red where one of them lacks something
    limits.py --missing  lists the candidates that stand in no row, by file

A candidate is a constant of include/, lib/ or examples/ whose name says that it bounds something
(_MAX, _LIMIT, _DEPTH, ... and times), a field of a public options struct with such a name, and an
option of a program that takes a number, a size or a time. It has a row in a table of limits, which
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
OPTION = re.compile(r'\{"([\w-]+)",\s*EX_(?:NUMBER|SIZE|TIME)\b')
ROW = re.compile(r"^\|\s*`([^`]+)`")
TEST = re.compile(r"`([\w./-]+?)(?::(\w+))?`")


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
        for number, line in enumerate(lines):
            for pattern in (MACRO, CONSTANT):
                for m in pattern.finditer(line):
                    found.setdefault(m.group(1), path)
            if path.startswith("include/"):
                opts = OPTS.match(line)
                struct = opts.group(1) if opts else None if line.startswith("}") else struct
                field = FIELD.match(line)
                if struct and field:
                    found.setdefault(f"{struct}.{field.group(1)}", path)
            elif program:
                # A table's entry may go on in the next line.
                joined = line + " " + (lines[number + 1].strip() if number + 1 < len(lines) else "")
                option = OPTION.search(joined) if OPTION.match(line.strip() + " ") or \
                    line.strip().startswith('{"') else None
                if option:
                    found.setdefault(f"{program} --{option.group(1)}", path)
    return found


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


def test_exists(path, function):
    """PATH is a file below tests/; FUNCTION a test in it. A script is a test as a whole."""
    full = f"{ROOT}/tests/{path}"
    if not os.path.isfile(full):
        return f"no file tests/{path}"
    if function:
        with open(full, encoding="utf-8") as f:
            text = f.read()
        if not re.search(rf"\b{function}\b", text):
            return f"tests/{path} has no {function}"
    name = os.path.basename(path).rsplit(".", 1)[0].removeprefix("test_")
    listed = []
    for folder in ("tests/list", "tests"):
        for n in os.listdir(f"{ROOT}/{folder}"):
            if n.endswith((".cmake", ".txt")):
                with open(f"{ROOT}/{folder}/{n}", encoding="utf-8") as f:
                    listed.append(f.read())
    text, (first, _, last) = "\n".join(listed), name.rpartition("_")
    # Written out, or as FIRST_${t} in a loop over names of which LAST is one.
    looped = first and f"{first}_${{" in text and \
        re.search(rf"foreach\(\w+ [^)]*\b{re.escape(last)}\b", text)
    if not looped and not re.search(rf"\b(?:test_)?{re.escape(name)}\b", text):
        return f"tests/{path} is in no list of tests"
    return None


def check():
    found, (rows, others, problems) = candidates(), documents()
    for name, path in found.items():
        if name not in rows and name not in others:
            problems.append(f"{path}: {name} has no row in {DOCUMENTS}/")
    for name, (place, cells) in {**rows, **others}.items():
        if name not in found:
            problems.append(f"{place}: {name} is nowhere in the tree")
    for name, (place, cells) in rows.items():
        if len(cells) != 6 or not all(cells):
            problems.append(f"{place}: {name}: six cells, none of them empty")
            continue
        tests = TEST.findall(cells[5])
        if not tests:
            problems.append(f"{place}: {name} names no test")
        for path, function in tests:
            wrong = test_exists(path, function)
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
