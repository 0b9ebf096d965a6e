#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Private words: expressions of this source that an engineer of the field would not use.

  words.py              count per room and in total
  words.py -l [ROOM..]  each one, as file:line: word: the line
  words.py -w           count per expression
  words.py --lower ROOM..  write these rooms' present, lower counts into tests/words.txt

Comments, strings and documents: each occurrence counts. Names in code: each name once per file.
tests/words.txt has the largest count that a room may have, and `tidy.py rules` refuses more. A
room that is not in that list may have none. PROSE and NAMES below are the list of expressions.

A room is a module with its public headers (lib/NAME), a folder of tests, fuzz targets or
benches (by the longest module name after fuzz_ or bench_), a program (examples/NAME), or what is
left of a folder.
"""
import collections
import os
import re
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.realpath(__file__)))
TABLE = f"{ROOT}/tests/words.txt"

# Expression -> what to write. A space stands for white space and a comment's new line. Words with
# a use in the field (a lock kept, a turn of a weighted round robin, room for a record, a lookup
# asked for, an option given) are listed only in the phrases in which they are private. Case does
# not matter, but words in capitals (the WHO of a usage text) do not count.
PROSE = {
    r"(un)?said|say|(?<!\.h\s)(?<!\.md\s)says|saying":
        "report, respond, state, request; or the fact itself",
    r"(un)?told|tell|tells|telling": "notify, report, send, reply; distinguish",
    r"asked(?! for)|asks of|ask of": "query, look up, request",
    r"whoever|whomever": "the caller, any peer that, the owner of",
    r"nobody('s)?|somebody('s)?|anybody('s)?|someone('s)?": "no thread, a client, any peer",
    r"(what|which|who|that|it|one|they|and|never) came|came (of|in|by|with|is)":
        "arrived, received",
    r"what (is|was|are|were|else is) (there|here)": "the existing entry, the contents",
    r"(is|are|was|were|been|be|being|what) given(?! (the|a|an|that)\b)":
        "passed, returned, granted, assigned, released",
    r"given (up|back|out|away)": "abandoned, returned, released, assigned",
    r"kept from": "denied, hidden from",
    r"(go|goes|went|going) on(?! (the|a|to)\b)": "continue, resume",
    r"done with": "finished, released",
    r"in the air": "in flight",
    r"of late|lately": "recently, in the last n",
    r"(a|one|this|its|each|the|same|next|last|of|another|earlier|former) life":
        "incarnation, run, lifetime",
    r"guests?(?! (kernel|system|machine|OS)\b)": "client, client session",
    r"desks?": "operator session",
    r"strangers?": "unknown peer, unauthenticated client",
    r"obey|obeys|obeyed": "apply, execute",
    r"rooms? of memory|(a|the|its|whose|one|each|this) rooms?":
        "space, buffer, slot, quota; module",
    r"(a|one|each|every|this|per|next|same) turn|turns? of (the|a|its) loop":
        "iteration, round, service slot",
    r"in vain": "without effect, failed",
    r"(of|for|by|from|with|to|at|than) who": "the peer that, whichever client",
    r"(?-i:Whom?)(?= (?!are\b|may\b|is (it|this)\b)\w)(?![^.;*\"]*\?)":
        "the client that; a question",
}
# Parts of names, between underscores; in code each such name counts once per file.
NAMES = ("said|say|says|told|tell|tells|asked|ask|asks|asking|whoever|nobody|somebody|came|given|"
         "obey|obeys|desk|desks|guest|guests|stranger|strangers|lately|life|lives|hurry")

PROSE_RE = re.compile("|".join(
    rf"(?<![\w'/-])(?P<p{i}>{p})(?![\w'-])" for i, p in enumerate(PROSE)).replace(
    " ", r"(?:[ \t]|\n[ \t]*(?:\*|//|#)?[ \t]*)+"), re.I)
NAME_RE = re.compile(rf"(?:^|_)(?:{NAMES})(?=_|\d|$)", re.I)
TOKEN = re.compile(r"//[^\n]*|/\*.*?\*/" r'|"(?:[^"\\\n]|\\.)*"' r"|'(?:[^'\\\n]|\\.)*'"
                   r"|[A-Za-z_]\w*", re.S)
SUFFIXES = (".c", ".h", ".cc", ".js", ".py", ".sh", ".md", ".cmake", "CMakeLists.txt", ".in")
# The lists of such words, replies that are Redis' own, and the command lists of another project.
SKIP = ("tests/words.py", "tests/messages.py", "examples/resp/docs_data.c")
TOPS = ("include", "lib", "examples", "fuzz", "bench", "tests", "pkgconfig")


def files():
    yield f"{ROOT}/README.md"
    for top in TOPS:
        for folder, dirs, names in os.walk(f"{ROOT}/{top}"):
            dirs[:] = sorted(d for d in dirs if d not in ("__pycache__", "corpus", "single"))
            for n in sorted(names):
                path = f"{folder}/{n}"
                if n.endswith(SUFFIXES) and os.path.relpath(path, ROOT) not in SKIP:
                    yield path


def room(rel, modules):
    """The room of a file."""
    top, _, rest = rel.partition("/")
    if top in ("lib", "examples"):
        return f"{top}/{rest.split('/')[0]}" if "/" in rest else top
    stem = re.sub(r"^(test|fuzz|bench|conformance|explore)_", "", os.path.basename(rel))
    found = [m for m in modules if re.match(rf"{m}(?![a-z0-9])", stem)]
    if found and top == "include":
        return f"lib/{max(found, key=len)}"
    if top in ("tests", "fuzz", "bench"):
        folder = rest.split("/")[0] if "/" in rest else ""
        if top == "tests":
            depth = 3 if folder == "programs" else 2
            return "/".join(rel.split("/")[:-1][:depth])
        return f"{top}/{max(found, key=len)}" if found else top
    return top if rest else rel


def prose(text, start, end):
    for m in PROSE_RE.finditer(text, start, end):
        if not any(w.isupper() and len(w) > 1 for w in m.group().split()):  # WHO of a usage text
            yield m.start(), m.group(), list(PROSE)[int(m.lastgroup[1:])]


def find(path, text):
    """(offset, words, expression) of each private expression of a file."""
    names = set()

    def name(m):
        if NAME_RE.search(m.group()) and m.group() not in names:
            names.add(m.group())
            return True
        return False

    if path.endswith((".c", ".h", ".cc")):
        for m in TOKEN.finditer(text):
            if m.group()[0] in "/\"'":
                yield from prose(text, m.start(), m.end())
                for n in re.finditer(r"[A-Za-z]\w*_\w+", m.group()):
                    if name(n):
                        yield m.start() + n.start(), n.group(), "names"
            elif name(m):
                yield m.start(), m.group(), "names"
    else:
        yield from prose(text, 0, len(text))
        for m in re.finditer(r"[A-Za-z]\w*_\w+", text):
            if name(m):
                yield m.start(), m.group(), "names"


def count():
    """room -> [(file, line, words, expression, text of the line)]"""
    modules = [d for d in os.listdir(f"{ROOT}/lib") if os.path.isdir(f"{ROOT}/lib/{d}")]
    found = collections.defaultdict(list)
    for path in files():
        with open(path, encoding="utf-8") as f:
            text = f.read()
        rel = os.path.relpath(path, ROOT)
        for at, words, expression in find(path, text):
            first, last = text.rfind("\n", 0, at) + 1, text.find("\n", at)
            found[room(rel, modules)].append((rel, text.count("\n", 0, at) + 1, words,
                                              expression, text[first:last].strip()))
    return found


def allowed():
    with open(TABLE, encoding="utf-8") as f:
        rows = [line.split() for line in f if line.strip() and not line.startswith("#")]
    return {r[0]: int(r[1]) for r in rows}


def excess():
    """(room, count, most) of the rooms that have more private words than tests/words.txt allows."""
    most = allowed()
    return [(r, len(found), most.get(r, 0)) for r, found in sorted(count().items())
            if len(found) > most.get(r, 0)]


def lower(found, rooms):
    with open(TABLE, encoding="utf-8") as f:
        head = [line for line in f if line.startswith("#")]
    rows = [(r, min(n, len(found.get(r, []))) if r in rooms else n)
            for r, n in sorted(allowed().items())]
    with open(TABLE, "w", encoding="utf-8") as f:
        f.writelines(head + [f"{r} {n}\n" for r, n in rows if n])


def main(argv):
    found = count()
    if argv[:1] == ["-l"]:
        for r in argv[1:] or sorted(found):
            for rel, line, words, _, text in found.get(r, []):
                print(f"{rel}:{line}: {' '.join(words.split())}: {text}")
    elif argv == ["-w"]:
        each = collections.Counter(f[3] for rows in found.values() for f in rows)
        for text, n in each.most_common():
            print(f"{n:6} {text}")
    elif argv[:1] == ["--lower"] and len(argv) > 1:
        lower(found, argv[1:])
    elif argv:
        print(__doc__, file=sys.stderr)
        return 2
    else:
        for r in sorted(found):
            print(f"{r} {len(found[r])}")
        print("total", sum(map(len, found.values())))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
