#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 OR MIT
"""One vocabulary of options over all programs, as their --help lists them.

  options.py PROGRAM...          check it; exit code 1 where a rule is broken
  options.py --list PROGRAM...   print a table: option, value, programs

The rules: no two options differ by hyphens only; an option has the same value in all programs that
have it, but for those of OTHERS; values are ADDRESS:PORT, BYTES, SECONDS, US and the like, each
under one name; what each server has is the same everywhere.
"""
import os
import re
import subprocess
import sys

# The same word for things that are different, each the usual one where it stands.
OTHERS = {
    "clients": "kv_load, page_load: how many; solar_volume: the file of their rights; ddp_server: "
               "the nodes' addresses for them",
    "disk": "solar_volume server: its size, too, which the client's catalog knows",
    "name": "solar_volume ctl: of a disk",
    "segment": "kv_server: size of a log file; solar_volume ctl: the one to move",
    "server": "solar_volume ctl: its number in the catalog",
    "ssd": "tenants: a model; nvme_target: its size, too, as each is a namespace",
    "store": "solar_volume: a file; the file system: a key-value store",
}
VALUES = {"ADDR:PORT": "ADDRESS:PORT", "ADDR": "ADDRESS", "SIZE": "BYTES", "N:SIZE": "N:BYTES",
          "SEC": "SECONDS", "S": "SECONDS", "MB": "BYTES", "FILENAME": "FILE"}
EVERYWHERE = {"listen": "ADDRESS:PORT", "metrics": "ADDRESS:PORT", "stats": "SECONDS",
              "timeout": "SECONDS", "log-level": "error|warning|info|debug", "seed": "N",
              "connections": "N", "size": "BYTES"}
COMMANDS = {"solar_volume": [["server"], ["client"], ["ctl", "serve"], ["ctl", "create"]]}
LINE = re.compile(r"^  (--?)([a-z][a-z-]*)(?: (\S+))?(?:  |$)")


def options(programs):
    """(option, value or None, program) of each line of help that shows one."""
    for path in programs:
        for command in COMMANDS.get(os.path.basename(path), [[]]):
            out = subprocess.run([path, *command, "--help"], capture_output=True, text=True,
                                 check=True, timeout=60).stdout
            found = [m.groups() for m in map(LINE.match, out.splitlines()) if m]
            assert found, f"{path} {command} --help lists no option"
            for dashes, name, value in found:
                if dashes == "--":
                    yield name, value, " ".join([os.path.basename(path), *command])


def check(table):
    wrong = []
    bare = {}
    for name in table:
        other = bare.setdefault(name.replace("-", ""), name)
        if other != name:
            wrong.append(f"--{name} and --{other} differ by hyphens only")
    for name, uses in sorted(table.items()):
        for value, program in uses:
            if value in VALUES:
                wrong.append(f"{program} --{name}: {value} is written {VALUES[value]}")
            if name in EVERYWHERE and value != EVERYWHERE[name]:
                wrong.append(f"{program} --{name}: its value is {EVERYWHERE[name]} elsewhere")
        values = {"|" if value and "|" in value else value for value, _ in uses}
        if len(values) > 1 and name not in OTHERS:
            wrong.append(f"--{name}: has different values: " +
                         ", ".join(f"{p}: {v}" for v, p in uses))
    return wrong


def main(argv):
    table = {}
    for name, value, program in options([a for a in argv if a != "--list"]):
        table.setdefault(name, []).append((value, program))
    if "--list" in argv:
        for name, uses in sorted(table.items()):
            values = " or ".join(sorted({v or "" for v, _ in uses}))
            print(f"--{name} {values}: {', '.join(p for _, p in uses)}")
        return 0
    wrong = check(table)
    print("\n".join([*wrong, f"{len(table)} options, {len(wrong)} offences"]))
    return bool(wrong)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
