#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Texts that a user of the programs can meet: string literals of two words or more in examples/.

  messages.py           check them; exit code 1 where a rule is broken
  messages.py --list    print all, one a line: file:line: call: text

The rules are those that a script can check. A message names what is wrong with its option, path,
address or value, and what to do about it where that is not evident; that is for its author.
"""
import os
import re
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
TOKEN = re.compile(r"//[^\n]*|/\*.*?\*/" r'|"(?:[^"\\\n]|\\.)*"' r"|'(?:[^'\\\n]|\\.)*'"
                   r"|[A-Za-z_]\w*|\d[\w.]*|[^\s\w]|\n", re.S)
# Calls that end in stderr, in a log or in a program's last words.
SINKS = re.compile(r"^(ex_(die|log|usage)|die|say|mistake|failed|km_wrong|tool_bad|kv_store_log|"
                   r"fsck_(finding|note)|bytes_finding|parse_(fail|fail_line|ignored)|"
                   r"options_error|nbd_end|replay_failed|load_is_wrong|lost_overflow)$")
# Words of replies that are Redis' own, byte for byte: they are not ours to choose.
REDIS = re.compile(r"^-?(ERR|WRONGPASS|NOAUTH|NOPROTO|NOSCRIPT|NOTBUSY|EXECABORT|BUSYKEY|MISCONF|"
                   r"OOM|ABORTED|LOADING|WRONGTYPE)\b")
REDIS_FILES = ("kv_server/command", "resp/settings.c", "resp/")
PRIVATE = re.compile(
    r"\b(said|told|whoever|nobody|somebody|goes on|going on|stranger|lately|guests?|no memory|"
    r"nonsense|makes no sense|is not there|was not asked|is here|talks|a life|in the air|in vain|"
    r"given up|is no)\b", re.I)
NAMES = re.compile(r"\b(SNIC_[A-Z]\w+|EX_[A-Z]\w+|K[VMTS]_[A-Z]\w+|KVFS_[A-Z]\w+|"
                   r"[a-z]+_opts|struct \w+|errno %)")


def tokens(text):
    line = 1
    for m in TOKEN.finditer(text):
        if not m.group().startswith(("//", "/*", "\n")):
            yield m.group(), line
        line += m.group().count("\n")


def literals(text):
    """(line, the call whose argument it is, text); neighbours and PRI macros between are one."""
    stack, before, got = [], "", None
    for t, line in [*tokens(text), (";", 0)]:
        if t[0] == '"':
            got = got or [line, stack[-1] if stack else "", ""]
            got[2] += t[1:-1]
        elif got and re.match(r"(PRI|SCN)[diuxX]", t):
            got[2] += "d"
        else:
            if got:
                yield tuple(got)
            got = None
            if t in "({[":
                stack.append(before if t == "(" else "")
            elif t in ")}]" and stack:
                stack.pop()
        before = t


def messages():
    for folder, _, names in sorted(os.walk(os.path.join(ROOT, "examples"))):
        for name in sorted(n for n in names if n.endswith((".c", ".h"))):
            path = os.path.join(folder, name)
            with open(path, encoding="utf-8") as f:
                text = re.sub(r"(?m)^[ \t]*#[ \t]*(include|error)[^\n]*", "", f.read())
            for line, call, s in literals(text):
                if call == "SNIC_STATIC_ASSERT" or name == "docs_data.c":
                    continue
                if SINKS.match(call) or re.search(r"[A-Za-z%]\S* +\S*[A-Za-z%]", s):
                    yield os.path.relpath(path, ROOT), line, call, s


def wrong(path, call, text):
    """What is wrong with it, or None."""
    bare = text.replace("\\n", "").replace("\\r", "").strip()
    if bare.startswith(("<", ",", "{")) or "/svg" in bare:  # pictures and JSON
        return None
    if REDIS.match(bare) or any(f in path for f in REDIS_FILES):
        return None
    found = PRIVATE.search(bare)
    if found:
        return f"'{found.group()}' is not a term of the field (tests/messages.py)"
    found = NAMES.search(bare)
    if found:
        return f"'{found.group()}' is a name of the source"
    if not SINKS.match(call):
        return None
    if bare.endswith(".") and not bare.endswith(("...", "etc.")):
        return "a message has no full stop"
    if re.match(r"[A-Z][a-z]", bare):
        return "a message begins in lower case"
    if re.search(r"\bcan't\b|\bcan not\b|\bunable to\b|\bcould not\b|\bfailed to\b", bare, re.I):
        return "it is 'cannot'"
    if call in ("ex_die", "ex_usage") and re.fullmatch(r"%s|out of memory", bare) and \
            "kv_server/monolith.c" not in path:  # there the text is whole
        return "a reason without its object"
    if re.search(r"\berrno\b|\berror %d", bare):
        return "an error is its text, not its number"
    return None


def main(argv):
    count = bad = 0
    for path, line, call, text in messages():
        count += 1
        if "--list" in argv:
            print(f"{path}:{line}: {call}: {text}")
            continue
        why = wrong(path, call, text)
        if why:
            bad += 1
            print(f"{path}:{line}: {why}: {text}")
    if "--list" not in argv:
        print(f"{count} texts, {bad} offences")
    return bad > 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
