#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 OR MIT
"""The house rules that a script can check.

    tidy.py rules            names, lengths, includes, banned functions, lists against folders,
                             private words (words.py), layers inside modules (layers.py)
    tidy.py layers FOLDER    the uses between files of a folder, and its circles
    tidy.py headers          each public header alone, as C99, C11, C++11, C++17 and C++20
    tidy.py format           clang-format 14
    tidy.py globals LIB.a    no writable data in the core

Prints one line per offence. Exit code: 0, 1, or 77 when a tool is missing.
"""
import glob
import os
import re
import shutil
import subprocess
import sys
import tempfile

import layers
import words

ROOT = os.path.dirname(os.path.dirname(os.path.realpath(__file__)))

# The floor plan: what each module may include, those included that have not moved in yet.
BASE = ["base"]
STRUCTURES = BASE + ["ring", "cuckoo", "hcache", "ebs"]
DOOR = BASE + ["loop"]
FLOOR = {
    "base": [],
    "ssd": BASE, "kvop": BASE, "fsop": BASE, "nvme": BASE,
    "loop": BASE,
    "io": DOOR + ["ssd"], "dma": DOOR, "net": DOOR, "kv": DOOR + ["io", "kvop"],
    "ring": BASE, "cuckoo": BASE, "hcache": BASE, "ebs": BASE,
    "gimbal": STRUCTURES, "credit": BASE,
    "ddp": STRUCTURES, "ddpnic": STRUCTURES + ["ddp"], "member": STRUCTURES, "solar": STRUCTURES,
    "luna": STRUCTURES, "kvfs": STRUCTURES + ["kvop", "fsop"],
    "fuse": BASE,
    "nvmefs": STRUCTURES + ["fsop", "nvme"], "nvmesub": STRUCTURES + ["nvme"],
    "nvmetcp": STRUCTURES + ["nvme"], "nvmeauth": BASE, "blob": STRUCTURES, "ec": STRUCTURES,
    "qos": DOOR + ["io", "gimbal"],
    "nvmet": DOOR + ["io", "net", "nvme", "nvmesub", "nvmetcp", "nvmeauth"],
    "nvmehost": DOOR + ["io", "net", "nvme", "nvmetcp", "nvmeauth", "credit"],
    "wal": DOOR + ["io"],
    "segments": DOOR + ["io", "wal"],
    "volume": DOOR + ["io", "net", "ebs", "solar", "luna", "wal", "segments"],
    "control": DOOR + ["io", "net", "ebs", "solar", "luna", "wal", "segments", "volume"],
    "replica": DOOR + ["io", "net", "ebs", "ddp", "member", "wal"],
    "store": DOOR + ["io", "net", "ebs", "ddp", "member", "wal", "replica"],
    "storeclient": DOOR + ["io", "net", "ebs", "ddp", "member", "wal", "replica", "store"],
    "fs": DOOR + ["io", "kv", "kvop", "fsop", "kvfs"],
    "fusedev": DOOR + ["fuse"],
    "nvmefslink": DOOR + ["dma", "fsop", "nvmefs"],
    "fsdispatch": DOOR + ["dma", "nvmefs", "nvmefslink", "io", "kv", "kvop", "fsop",
                            "kvfs", "fs"],
    "hcachelink": DOOR + ["dma", "hcache", "io", "kv", "kvop", "fsop", "kvfs", "fs"],
    "fscache": DOOR + ["dma", "hcache", "hcachelink", "kvop", "fsop", "kvfs"],
    "channel": DOOR + ["dma", "ring"],
    "files": DOOR + ["io", "dma", "ring", "cuckoo", "channel"],
    "filelib": DOOR + ["dma", "ring", "credit", "channel", "files"],
    "offload": DOOR + ["io", "cuckoo", "files"],
    "director": DOOR + ["net", "dma", "ring", "cuckoo", "channel", "files", "offload"],
}
# Names a header has beside its module's: what its simulated backend is made of.
CONCEPTS = {"loop": ["world"], "io": ["disk"], "kv": ["kvmem"]}
DOORS = ["loop", "io", "dma", "net", "kv"]
# Headers under lib/ made for another module: the loop's io_uring, which all backends share, and
# the encoding that both sides of the file service speak, what all block transports have in common
# (I/Os on their way to RPCs, lookups), and what both replication engines have in common.
SHARED = {"loop/uring.h", "files/wire.h", "ebs/queue.h", "ebs/lookup.h", "ebs/opts.h", "ddp/core.h"}
# The only foreign headers in the core; operating-system and vendor headers are for backends.
FREE = {"stddef.h", "stdint.h", "string.h", "stdatomic.h", "limits.h", "stdbool.h", "stdarg.h"}
INTRINSICS = {"immintrin.h", "nmmintrin.h", "emmintrin.h", "x86intrin.h", "arm_neon.h",
              "arm_acle.h", "cpuid.h"}
EXTRA_INCLUDES = {
    "lib/base/error.c": {"stdio.h", "stdlib.h"},  # the default assertion handler
    "lib/dma/local.c": {"sched.h"},  # a backend that needs nothing else: two loops of a process
    "lib/base/xxh.h": {"xxhash.h"},  # its comment has the reason why no other file may
    "lib/kv/mem_slab.c": {"sys/mman.h"},  # asks for huge pages, of the store in memory alone
    "lib/kv/rados_priv.h": {"pthread.h", "rados/librados.h"},  # shared by the backend's files
    "lib/kv/lmdb_priv.h": {"pthread.h", "lmdb.h"},
    "lib/kv/lmdb_check.h": {"lmdb.h"},
}
TOP = {"include", "lib", "examples", "fuzz", "bench", "tests", "pkgconfig", "CMakeLists.txt",
       "README.md", "LICENSE"}
KEYS = ["Depends on", "Memory", "Threads", "Progress", "Errors", "Units"]

BANNED = {
    "strcpy": "memcpy with a checked length", "strcat": "memcpy with a checked length",
    "strncpy": "memcpy with a checked length", "strncat": "memcpy with a checked length",
    "sprintf": "snprintf", "vsprintf": "vsnprintf", "gets": "fgets", "atoi": "strtol, checked",
    "atol": "strtol, checked", "atof": "strtod, checked", "strtok": "an explicit scan",
    "rand": "snic_rng_next", "srand": "snic_rng_init", "random": "snic_rng_next",
    "alloca": "caller memory",
}
BANNED_LIB = {
    "assert": "SNIC_ASSERT or SNIC_DASSERT", "time": "now_ns as a parameter",
    "getenv": "an option", "signal": "nothing: the program's business",
    "setjmp": "an error return", "longjmp": "an error return",
}
BANNED_CORE = {
    "printf": "the trace callback", "fprintf": "the trace callback", "puts": "the trace callback",
    "clock_gettime": "now_ns as a parameter", "usleep": "the loop", "sleep": "the loop",
    "nanosleep": "the loop", "abort": "SNIC_ASSERT", "exit": "an error return",
}
# The wall clock goes back and jumps: no part of a node may depend on it, but these.
NODE = ("lib/", "include/", "examples/ddp_server/", "examples/resp/", "examples/server/",
        "examples/common")
WALL_CLOCK = re.compile(r"\bCLOCK_REALTIME\b|\b(?:time|gettimeofday|timespec_get|ftime)\s*\(")
WALL_CLOCK_USERS = {
    "lib/net/uring_dgram_recv.c", # the kernel's stamps of datagrams, as ages
    "examples/common.c", # times in a log
    "examples/ddp_server/error.c", # clients' times of day: TIME, EXPIREAT
}
MALLOC = ["malloc", "calloc", "realloc", "free", "aligned_alloc", "posix_memalign", "strdup"]

offences = []


def offend(path, line, text):
    where = os.path.relpath(path, ROOT) if os.path.isabs(path) else path
    offences.append(f"{where}:{line}: {text}" if line else f"{where}: {text}")


def files(*suffixes, under=("include", "lib", "examples", "fuzz", "bench", "tests", "pkgconfig")):
    """Source files, in a fixed order."""
    for top in under:
        for folder, dirs, names in os.walk(f"{ROOT}/{top}"):
            dirs[:] = sorted(d for d in dirs if d not in ("__pycache__", "corpus"))
            for n in sorted(names):
                if n.endswith(suffixes):
                    yield f"{folder}/{n}"


def read(path):
    with open(path, encoding="utf-8") as f:
        return f.read()


def strip(text):
    """C text with comments and literals blanked, line numbers kept."""
    def blank(m):
        s = m.group(0)
        if s[0] in "\"'":
            return s[0] * 2
        return re.sub(r"[^\n]", " ", s)
    return re.sub(r'//[^\n]*|/\*.*?\*/|"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])*\'', blank, text,
                  flags=re.S)


def modules():
    """name -> (core sources, backend sources, needs) from lib/*/CMakeLists.txt, in floor order."""
    order = re.search(r"set\(SNIC_ALL_MODULES ([^)]*)\)", read(f"{ROOT}/lib/CMakeLists.txt"))
    found = {}
    for name in order.group(1).split():
        text = read(f"{ROOT}/lib/{name}/CMakeLists.txt")
        call = re.search(rf"snic_module\(\s*{name}\b([^)]*)\)", text)
        kinds = {"SOURCES": [], "URING": [], "VENDOR": [], "CRYPTO": [], "NEEDS": []}
        kind = None
        for word in (call.group(1).split() if call else []):
            if word in kinds:
                kind = word
            elif kind:
                kinds[kind].append(word)
        backends = kinds["URING"] + kinds["VENDOR"] + kinds["CRYPTO"]
        found[name] = (kinds["SOURCES"], backends, kinds["NEEDS"])
    return found


def module_of(path):
    rel = os.path.relpath(path, ROOT)
    m = re.match(r"lib/(\w+)/", rel) or re.match(r"include/snicstore/(\w+?)(?:_\w+)?\.h$", rel)
    return m.group(1) if m else None


def check_top():
    names = {n for n in os.listdir(ROOT) if not n.startswith("build")}
    if shutil.which("git"):
        git = subprocess.run(["git", "-C", ROOT, "ls-files"], capture_output=True, text=True,
                             check=False)
        if git.returncode == 0 and git.stdout:
            names = {p.split("/")[0] for p in git.stdout.splitlines()}
    for n in sorted(names - TOP):
        if not n.startswith("."):
            offend(n, 0, "not in the fixed top level")
    for n in sorted(TOP - set(os.listdir(ROOT))):
        offend(n, 0, "missing at the top level")


def check_text():
    """Every file of ours: licence line, line length, leftovers, white space."""
    suffixes = (".c", ".h", ".cc", ".py", ".sh", ".cmake", "CMakeLists.txt", ".in")
    for path in list(files(*suffixes)) + [f"{ROOT}/CMakeLists.txt"]:
        text = read(path)
        lines = text.split("\n")
        if "SPDX-License-Identifier: Apache-2.0 OR MIT" not in "\n".join(lines[:3]) and \
                not path.endswith(".pc.in"):
            offend(path, 1, "no SPDX line")
        if not text.endswith("\n"):
            offend(path, len(lines), "no newline at the end")
        for i, line in enumerate(lines, 1):
            if len(line) > 100:
                offend(path, i, f"{len(line)} columns, at most 100")
            if line != line.rstrip():
                offend(path, i, "white space at the end of the line")
            if re.search(r"\b(TODO|FIXME|XXX|HACK)\b", line) and not path.endswith("tidy.py"):
                offend(path, i, "leftover note")
        most = 800
        if path.endswith((".c", ".h")) and len(lines) > most:
            offend(path, 0, f"{len(lines)} lines: is it one concept?")


def functions(code):
    """(name, first line, last line, is static) of function bodies whose brace is in column 0."""
    lines = code.split("\n")
    start = None
    for i, line in enumerate(lines):
        if line.startswith("{"):
            start = i
        elif line.startswith("}") and start is not None:
            head = []
            for h in reversed(lines[:start]):
                if not h.strip() or h.startswith(("#", "}")) or h.rstrip().endswith((";", "*/")):
                    break
                head.insert(0, h)
            text = " ".join(head)
            name = re.search(r"(\w+)\s*\((?!\()", re.sub(r"__attribute__\s*\(\(.*?\)\)", "", text))
            if name:
                yield name.group(1), start + 1, i + 1, bool(re.match(r"\s*static\b", text))
            start = None


def check_functions(path, code):
    for name, first, last, _ in functions(code):
        if last - first + 1 > 70:
            offend(path, first, f"{name}: {last - first + 1} lines, at most 70")
        body = "\n".join(code.split("\n")[first - 1:last])
        labels = set(re.findall(r"\bgoto\s+(\w+)", body))
        if len(labels) > 1:
            offend(path, first, f"{name}: goto to more than one label: {' '.join(sorted(labels))}")


def check_banned(path, code, in_lib, in_backend, may_allocate):
    banned = dict(BANNED)
    if in_lib:
        banned.update(BANNED_LIB)
        if not in_backend and os.path.relpath(path, ROOT) not in EXTRA_INCLUDES:
            banned.update(BANNED_CORE)
        if not may_allocate:
            banned.update({f: "memory of the caller (memsize, init)" for f in MALLOC})
    for i, line in enumerate(code.split("\n"), 1):
        for call in re.finditer(r"(?<![\w.>])(\w+)\s*\(", line):
            if call.group(1) in banned:
                offend(path, i, f"{call.group(1)}(): use {banned[call.group(1)]}")


def check_wall_clock(rel, code):
    if not rel.startswith(NODE) or rel in WALL_CLOCK_USERS:
        return
    for i, line in enumerate(code.split("\n"), 1):
        use = WALL_CLOCK.search(line)
        if use:
            offend(os.path.join(ROOT, rel), i, f"{use.group(0)}: the wall clock, in a node")


def check_includes(path, table, backends):
    """The floor plan, and whose headers may be read where."""
    rel = os.path.relpath(path, ROOT)
    mine = module_of(path)
    for i, line in enumerate(read(path).split("\n"), 1):
        m = re.match(r'\s*#\s*include\s+([<"])([^>"]+)[>"]', line)
        if not m:
            continue
        kind, name = m.groups()
        target = name.split("/")
        if mine:
            if kind == "<":
                allowed = FREE | EXTRA_INCLUDES.get(rel, set())
                if mine == "base":
                    allowed = allowed | INTRINSICS
                if mine in DOORS:
                    allowed = allowed | {"stdlib.h"}
                if path not in backends and name not in allowed:
                    offend(path, i, f"<{name}>: only a backend may include it")
                continue
            other = None
            if target[0] == "snicstore":
                other = re.match(r"(\w+?)(_\w+)?\.h$", target[-1]).group(1)
            elif len(target) > 1:
                other = target[0]
                if other != mine and other in table and other != "base" and name not in SHARED:
                    offend(path, i, f'"{name}": a private header is read by its own module only')
            if other and other != mine and other not in FLOOR.get(mine, []):
                offend(path, i, f'"{name}": {mine} may include {" ".join(FLOOR.get(mine, []))}')
            elif other and other != mine and other not in needs_closure(table, mine):
                offend(path, i, f'"{name}": {other} is not in the NEEDS of lib/{mine}')
        elif rel.startswith(("examples/", "bench/")) and kind == '"':
            own = os.path.isfile(f"{os.path.dirname(path)}/{name}")
            if not own and (target[0] in table or "_priv.h" in name):
                offend(path, i, f'"{name}": examples and benches use public headers only')
        elif rel.startswith("tests/") and "_priv.h" in name:
            if target[0] in table and not rel.startswith(f"tests/{target[0]}/") and \
                    f"test_{target[0]}" not in rel:
                offend(path, i, f'"{name}": only the module\'s own tests may read it')


def needs_closure(table, name):
    seen, todo = set(), [name]
    while todo:
        n = todo.pop()
        if n not in seen and n in table:
            seen.add(n)
            todo += table[n][2]
    return seen


def check_names(path, code, owners):
    """Statics carry the module's (or the file's concept's) name: one-file builds share a scope."""
    mine = module_of(path)
    stem = os.path.basename(path).rsplit(".", 1)[0]
    def prefixed(name):
        first = name.split("_")[0]
        return first == mine or (len(first) > 2 and
                                 (stem.startswith(first) or mine.startswith(first)))

    for name, line, _, is_static in functions(code):
        if is_static and name.startswith("snic_") and path.endswith(".c"):
            offend(path, line, f"{name}: a private function does not begin with snic_")
        if not name.startswith("snic_") and not prefixed(name):
            offend(path, line, f"{name}: begins neither with {mine}_ nor with {stem}_")
        if path.endswith(".c"):
            if name in owners and owners[name] != path:
                offend(path, line, f"{name}: also in {os.path.relpath(owners[name], ROOT)}")
            owners[name] = path
    left, before = {}, ""  # a fall-back for what an older system header lacks is not ours
    for i, text in enumerate(code.split("\n"), 1):
        macro = re.match(r"\s*#\s*(define|undef)\s+(\w+)", text)
        if macro and macro.group(1) == "define" and before != f"#ifndef {macro.group(2)}":
            left[macro.group(2)] = i
        elif macro:
            left.pop(macro.group(2), None)
        before = text.strip()
    for name, line in left.items():
        if not re.match(r"SNIC_[A-Z0-9]+__|SNIC_", name):
            offend(path, line, f"macro {name}: SNIC_MODULE__NAME, or #undef it at the end")


def check_header(path):
    text = read(path)
    comment = re.search(r"/\*\*.*?\*/", text, flags=re.S)
    for key in KEYS:
        if not comment or not re.search(rf"^ \* {key}\s", comment.group(0), flags=re.M):
            offend(path, 1, f"the opening comment lacks the key '{key}'")
    doc = None
    # Comments and declarations in turn. A comment serves the declarations right below it.
    for m in re.finditer(r"(?P<doc>/\*\*.*?\*/)|(?P<api>^SNIC_API[^;{]*;)", text,
                         flags=re.S | re.M):
        if m.group("doc"):
            doc = m
            continue
        name = re.search(r"(snic_\w+)\s*\(", m.group("api"))
        line = text.count("\n", 0, m.start()) + 1
        if not name:
            continue
        between = text[doc.end():m.start()] if doc else "x"
        adjacent = re.sub(r"^SNIC_API[^;{]*;", "", between, flags=re.S | re.M)
        if adjacent.strip() or "\n\n" in between:
            offend(path, line, f"{name.group(1)}: no comment of its own")
        elif not re.search(r"\[[a-z][a-z, ]*\]", doc.group("doc").replace("\n", " ")):
            offend(path, line, f"{name.group(1)}: no thread tag ([any], [owner], ...)")
    structs = set(re.findall(r"^struct (snic_\w+)", text, flags=re.M))
    for m in re.finditer(r"^SNIC_API[^;{]*?\b(snic_\w+)\s*\(", text, flags=re.M):
        if m.group(1) in structs:
            line = text.count("\n", 0, m.start()) + 1
            offend(path, line, f"{m.group(1)}: a function with a struct's name hides it in C++")
    mine = module_of(path)
    for name in re.findall(r"^SNIC_API[^;{]*?\b(\w+)\s*\(", text, flags=re.M):
        stems = [mine] + CONCEPTS.get(mine, [])
        if mine != "base" and not any(name.startswith(f"snic_{s}_") for s in stems):
            offend(path, 0, f"{name}: public functions of {mine} begin with snic_{mine}_")


def check_rooms(table):
    """Header, code and test for each module; lists against folders."""
    for name, (core, uring, needs) in table.items():
        if name not in FLOOR:
            offend(f"lib/{name}", 0, "not in tidy.py's floor plan")
            continue
        for n in needs:
            if n not in FLOOR[name]:
                offend(f"lib/{name}/CMakeLists.txt", 0, f"NEEDS {n}: arrows point down only")
        if not os.path.isfile(f"{ROOT}/include/snicstore/{name}.h"):
            offend(f"lib/{name}", 0, f"no include/snicstore/{name}.h")
        if not core + uring:
            offend(f"lib/{name}", 0, "no code")
        if not glob.glob(f"{ROOT}/tests/{name}/test_{name}*.c"):
            offend(f"lib/{name}", 0, f"no tests/{name}/test_{name}.c")
        if name in DOORS and name != "loop" and \
                not os.path.isfile(f"{ROOT}/tests/conformance/conformance_{name}.c"):
            offend(f"lib/{name}", 0, f"no tests/conformance/conformance_{name}.c")
        folder = {f for f in os.listdir(f"{ROOT}/lib/{name}") if f.endswith(".c")}
        for f in sorted(folder ^ set(core + uring)):
            offend(f"lib/{name}/{f}", 0, "in the folder or in CMake's list, not in both")
        for f in sorted(set(core) & set(uring)):
            offend(f"lib/{name}/{f}", 0, "listed twice")
    for d in sorted(os.listdir(f"{ROOT}/lib")):
        if os.path.isdir(f"{ROOT}/lib/{d}") and d not in table and d != "__pycache__":
            offend(f"lib/{d}", 0, "not in SNIC_ALL_MODULES")


def check_documents(table):
    """README.md and FORMAT.md: lengths that make them readable, and links that lead somewhere."""
    for name in table:
        path = f"{ROOT}/lib/{name}/README.md"
        if not os.path.isfile(path):
            offend(f"lib/{name}", 0, "no README.md")
        elif read(path).count("\n") > 40:
            offend(path, 0, "more than 40 lines: the header is the manual")
    if read(f"{ROOT}/README.md").count("\n") > 250:
        offend("README.md", 0, "more than 250 lines: examples/, bench/ and tests/ have their own")
    for path in [f"{ROOT}/README.md", *files("README.md"), *files("FORMAT.md")]:
        for i, line in enumerate(read(path).split("\n"), 1):
            if len(line) > 100:
                offend(path, i, f"{len(line)} columns, at most 100")
            for link in re.findall(r"\]\(([^)#\s]+)", line):
                target = os.path.join(os.path.dirname(path), link)
                if "://" not in link and not os.path.exists(target):
                    offend(path, i, f"no such file: {link}")


def check_words():
    """Private words: none in new text, no more than tests/words.txt allows a module."""
    for room, count, most in words.excess():
        offend(room, 0, f"{count} private words, at most {most}: python3 tests/words.py -l {room}")


def sources(room):
    """Name -> text without comments: the C files of a folder, or those that begin so."""
    folder, start = (room, "") if os.path.isdir(f"{ROOT}/{room}") else room.rsplit("/", 1)
    names = sorted(os.listdir(f"{ROOT}/{folder}")) if os.path.isdir(f"{ROOT}/{folder}") else []
    return folder, {n: strip(read(f"{ROOT}/{folder}/{n}")) for n in names
                    if n.startswith(start) and n.endswith((".c", ".h"))}


def check_layers():
    """Files of big modules use only what stands below them."""
    for text in layers.problems(functions):
        offend("tests/layers.py", 0, text)
    for room, rows in layers.LAYERS.items():
        folder, code = sources(room)
        for name, line, text in layers.check(code, functions, rows):
            offend(f"{folder}/{name}" if name else folder, line, text)


def check_lists():
    """Every test, fuzz target and bench program is built by some list."""
    for folder, prefix, call in (("tests", "test_", "snic_test"), ("fuzz", "fuzz_", "snic_fuzz"),
                                 ("bench", "bench_", "snic_bench")):
        text = read(f"{ROOT}/{folder}/CMakeLists.txt")
        for path in files(".cmake", under=(folder,)):
            text += read(path)
        for path in files(".c", under=(folder,)):
            f = os.path.basename(path)
            if not f.startswith(prefix):
                continue
            name = f[len(prefix):-2]
            if not re.search(rf"{call}\(\s*{name}\b", text) and not re.search(rf"\b{f}", text):
                offend(path, 0, f"no {call}({name} ...) builds it")
            if folder == "fuzz":
                corpus = f"{ROOT}/fuzz/corpus/{name}"
                sizes = [os.path.getsize(f"{corpus}/{c}") for c in os.listdir(corpus)] \
                    if os.path.isdir(corpus) else []
                if not sizes or sum(sizes) > 1 << 20:
                    offend(f"fuzz/corpus/{name}", 0, "no corpus, or more than 1 MiB of it")


def rules():
    table = modules()
    backends = {f"{ROOT}/lib/{m}/{f}" for m, (_, u, _) in table.items() for f in u}
    backends |= {p for p in files(".h", under=("lib",))
                 if re.search(r"uring|shm", os.path.basename(p)) and module_of(p) in DOORS}
    owners = {}
    check_top()
    check_text()
    check_rooms(table)
    check_documents(table)
    check_words()
    check_layers()
    check_lists()
    for path in files(".c", ".h"):
        code = strip(read(path))
        rel = os.path.relpath(path, ROOT)
        in_lib = rel.startswith(("lib/", "include/"))
        check_functions(path, code)
        check_banned(path, code, in_lib, path in backends, module_of(path) in DOORS)
        check_wall_clock(rel, code)
        check_includes(path, table, backends)
        if rel.startswith("lib/"):
            check_names(path, code, owners)
        if rel.startswith("include/snicstore/"):
            check_header(path)


def tool(*names):
    for n in names:
        if shutil.which(n):
            return n
    print("skip: none of", *names)
    sys.exit(77)


def headers():
    warn = "-Werror -Wall -Wextra -Wpedantic -Wshadow -Wundef -fsyntax-only".split()
    cc, cxx = tool("cc", "gcc", "clang"), tool("c++", "g++", "clang++")
    with tempfile.TemporaryDirectory() as tmp:
        for path in files(".h", under=("include",)):
            name = os.path.relpath(path, f"{ROOT}/include")
            for mode in ("c99", "c11", "c++11", "c++17", "c++20"):
                source = f"{tmp}/a.{'cc' if '+' in mode else 'c'}"
                with open(source, "w", encoding="utf-8") as f:
                    f.write(f'#include "{name}"\n')
                r = subprocess.run([cxx if "+" in mode else cc, f"-std={mode}", *warn, "-I",
                                    f"{ROOT}/include", source], capture_output=True, text=True,
                                   check=False)
                if r.returncode:
                    offend(path, 0, f"not {mode} by itself:\n{r.stderr}")


def layout():
    name = tool("clang-format-14", "clang-format")
    version = subprocess.run([name, "--version"], capture_output=True, text=True, check=True)
    if not re.search(r"version 14\.", version.stdout):
        print("skip: clang-format is not version 14")
        sys.exit(77)
    r = subprocess.run([name, "--dry-run", "-Werror", *files(".c", ".h")], capture_output=True,
                       text=True, check=False, cwd=ROOT)
    if r.returncode:
        for m in re.finditer(r"^(/\S+?):(\d+):", r.stderr, flags=re.M):
            offend(m.group(1), int(m.group(2)), "clang-format -i would change this")


def writable(library):
    r = subprocess.run([tool("nm"), "--format=sysv", "--defined-only", library],
                       capture_output=True, text=True, check=True)
    member = ""
    for line in r.stdout.splitlines():
        m = re.match(r"Symbols from .*\[(.*)\]:", line)
        if m:
            member = m.group(1)
        fields = [f.strip() for f in line.split("|")]
        if len(fields) == 7 and re.match(r"\.(bss|data|tbss|tdata)(?!\.rel\.ro)|\*COM\*",
                                         fields[6]):
            offend(member, 0, f"{fields[0]}: writable data in {fields[6]}; const tables only")


def main(argv):
    if len(argv) == 2 and argv[0] == "globals":
        writable(argv[1])
    elif len(argv) == 2 and argv[0] == "layers":
        print("\n".join(layers.describe(sources(argv[1].rstrip("/"))[1], functions)))
        return 0
    elif len(argv) == 1 and argv[0] in ("rules", "headers", "format"):
        {"rules": rules, "headers": headers, "format": layout}[argv[0]]()
    else:
        print(__doc__, file=sys.stderr)
        return 2
    for o in offences:
        print(o)
    print(f"{len(offences)} offences")
    return 1 if offences else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
