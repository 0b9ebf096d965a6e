#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 OR MIT
"""kvfs_big_folder.py DIR ENTRIES

A folder of so many entries loses half of them to two processes and then all to two rm -rf, while
two others list it and one makes more. A listing names nothing twice, nothing that was gone when
it began, and all that was there from its beginning to its end. At the end the folder goes.
"""
import collections
import mmap
import os
import subprocess
import sys
import time

STAYS, GOES = 0, 1
FAILED = 3


class Folder:
    """What all processes know: entry n is "s<n>" or "g<n>" (it goes), made ones are "m<n>"."""

    def __init__(self, path, count):
        self.path, self.count, self.more = path, count, max(count // 10, 100)
        self.gone = mmap.mmap(-1, count)  # by entry: 1 after its removal was answered
        self.counts = memoryview(mmap.mmap(-1, 64)).cast("Q")  # made and answered; stop; ...

    MADE, TRIED, STOP, LISTED = range(4)

    def fill(self):
        os.mkdir(self.path)
        for n in range(self.count):
            make(f"{self.path}/{'sg'[n % 2]}{n}")


def make(path):
    os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o644))


def fail(text):
    print("FAILED:", text, flush=True)
    os._exit(FAILED)


def listing(folder, pause):
    """All names as they come, or None when there is no such folder any more."""
    names = []
    try:
        with os.scandir(folder.path) as entries:
            for e in entries:
                names.append(e.name)
                if pause and len(names) % 1000 == 0:
                    time.sleep(pause)  # what comes later was removed meanwhile, or was made
    except FileNotFoundError:
        return None
    return names


def look(folder, pause, complete):
    """List once and judge. complete: what is not removed by the two has to be there."""
    gone, made = folder.gone[:], folder.counts[Folder.MADE]
    names = listing(folder, pause)
    tried = folder.counts[Folder.TRIED]
    if names is None:
        if complete:
            fail("the folder is not there")
        return False
    seen = set(names)
    if len(seen) != len(names):
        twice = [n for n, times in collections.Counter(names).items() if times > 1]
        fail(f"{len(names) - len(seen)} names twice in one listing: {twice[:5]}")
    for name in names:
        kind, n = name[0], int(name[1:])
        if kind == "m" and n < tried:
            continue
        if kind not in "sg" or n >= folder.count or kind != "sg"[n % 2]:
            fail(f"lists {name}, which was never created")
        if gone[n]:
            fail(f"lists {name}, which was removed before")
    if complete:
        missed = [f"s{n}" for n in range(0, folder.count, 2) if f"s{n}" not in seen]
        missed += [f"m{n}" for n in range(made) if f"m{n}" not in seen]
        if missed:
            fail(f"{len(missed)} of {len(names)} names are missed: {missed[:5]}")
    return True


def reader(folder, pause, complete):
    began = time.monotonic()
    while not folder.counts[Folder.STOP] and look(folder, pause, complete):
        folder.counts[Folder.LISTED] += 1  # a figure for people: lost additions do no harm
        took = time.monotonic() - began
        time.sleep(min(3 * took, 1))  # most of the time is the others'
        began = time.monotonic()


def deleter(folder):
    """As rm -rf: removes while it reads. The other one may have been there before."""
    with os.scandir(folder.path) as entries:
        for e in entries:
            if e.name[0] != "g":
                continue
            try:
                os.unlink(f"{folder.path}/{e.name}")
            except FileNotFoundError:
                pass
            folder.gone[int(e.name[1:])] = 1


def maker(folder, count, complete):
    first = folder.counts[Folder.MADE]
    for n in range(first, first + count):
        folder.counts[Folder.TRIED] = n + 1
        try:
            make(f"{folder.path}/m{n}")
        except FileNotFoundError:
            if complete:
                raise
            return
        folder.counts[Folder.MADE] = n + 1


def start(what, *args):
    pid = os.fork()
    if pid == 0:
        try:
            what(*args)
        except BaseException as e:  # pylint: disable=broad-except
            fail(f"{what.__name__}: {e!r}")
        os._exit(0)
    return pid


def wait(pids):
    ends = [os.waitpid(p, 0)[1] for p in pids]
    if any(ends):
        sys.exit(f"processes ended with {ends}")


def phase(folder, workers, complete):
    """Readers from before the workers' first step until after their last."""
    folder.counts[Folder.STOP] = folder.counts[Folder.LISTED] = 0
    readers = [start(reader, folder, pause, complete) for pause in (0, 0.002)]
    began = [start(*w) for w in workers]
    try:
        wait(began)
    finally:
        folder.counts[Folder.STOP] = 1
    wait(readers)
    print(f"{folder.counts[Folder.LISTED]} listings", flush=True)


def remove(folder):
    """rm -rf, which the maker may disturb, but with nothing else than more entries."""
    r = subprocess.run(["rm", "-rf", folder.path], capture_output=True, text=True, check=False)
    for line in r.stderr.splitlines():
        if not line.endswith("Directory not empty"):
            fail(line)


def main():
    folder = Folder(sys.argv[1], int(sys.argv[2]))
    folder.fill()
    look(folder, 0, True)
    print(f"{folder.count} entries; half of them go", flush=True)
    phase(folder, [(deleter, folder), (deleter, folder), (maker, folder, folder.more, True)], True)
    left = len(os.listdir(folder.path))
    if left != (folder.count + 1) // 2 + folder.more:
        fail(f"{left} entries are left")
    look(folder, 0, True)
    print("all go", flush=True)
    phase(folder, [(remove, folder), (remove, folder), (maker, folder, folder.more, False)], False)
    if os.path.exists(folder.path):
        subprocess.run(["rm", "-rf", folder.path], check=True)
    if os.path.lexists(folder.path):
        fail("it is still there")


main()
