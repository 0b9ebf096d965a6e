#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 OR MIT
"""What one of two mounts of a store on RADOS may still answer, or change, after it was stopped.

    kvfs_two_rados.py stale FILE NOTES   know FILE (NOTES/known); when NOTES/go exists, look at it
                                         again; NOTES/result is "silent" if nothing is answered
    kvfs_two_rados.py late FOLDER NOTES COUNT
                                         begin to write FOLDER/late.0 and so on, a MiB each, all at
                                         the same time (NOTES/begun), until all have ended
    kvfs_two_rados.py over FOLDER COUNT  write other bytes to those
    kvfs_two_rados.py append FILE NOTES NAME COUNT
                                         append COUNT records, fsync every ten: NOTES/synced.NAME is
                                         how many are acknowledged
    kvfs_two_rados.py appended FILE NOTES FROM
                                         of all these, none is lost or twice in the file from there
"""
import os
import random
import select
import signal
import sys
import threading
import time

LINE = 512
MIB = 1 << 20


def wait_for(path):
    until = time.monotonic() + 600
    while not os.path.exists(path):
        if time.monotonic() > until:
            sys.exit(f"{path} does not appear in 600 s")
        time.sleep(0.05)


def note(path, text):
    with open(path + ".part", "w", encoding="ascii") as f:
        f.write(text)
    os.rename(path + ".part", path)


def ask(what, seconds):
    """Its result, in a process of its own; None: an error, or no answer."""
    r, w = os.pipe()
    pid = os.fork()
    if pid == 0:
        try:
            os.write(w, repr(what()).encode())
        except OSError:
            pass
        os._exit(0)
    os.close(w)
    # Not its end: that closes files, which may wait for the mount.
    ready, _, _ = select.select([r], [], [], seconds)
    text = os.read(r, 1 << 16).decode() if ready else ""
    os.close(r)
    os.kill(pid, signal.SIGKILL)
    return text or None


def stale(path, notes):
    fd = os.open(path, os.O_RDONLY)
    known = {
        "stat": lambda: os.stat(path).st_size,
        "fstat": lambda: os.fstat(fd).st_size,
        "read": lambda: os.pread(fd, 100, 0),
        "open": lambda: os.close(os.open(path, os.O_RDONLY)),
        "listdir": lambda: os.path.basename(path) in os.listdir(os.path.dirname(path)),
        "absent": lambda: not os.path.exists(path + ".new"),
    }
    before = {name: ask(what, 60) for name, what in known.items()}
    if None in before.values():
        sys.exit(f"it cannot be looked at: {before}")
    note(f"{notes}/known", "")
    wait_for(f"{notes}/go")
    after = {name: ask(what, 1) for name, what in known.items()}
    answered = any(v is not None for v in after.values())
    # The mount is stopped: this process does not end before it resumes.
    note(f"{notes}/result", f"before {before}, dead {after}" if answered else "silent")
    return 0


def late(folder, notes, count):
    ends = {}

    def write(i):
        try:
            fd = os.open(f"{folder}/late.{i}", os.O_WRONLY)
            os.pwrite(fd, b"A" * MIB, 0)
            os.fsync(fd)
            ends[i] = "done"
        except OSError as e:
            ends[i] = os.strerror(e.errno)

    threads = [threading.Thread(target=write, args=(i,)) for i in range(int(count))]
    for t in threads:
        t.start()
    time.sleep(2)  # they are under way
    note(f"{notes}/begun", "")
    for t in threads:
        t.join()
    print(ends, flush=True)
    return 0


def over(folder, count):
    for i in range(int(count)):
        fd = os.open(f"{folder}/late.{i}", os.O_WRONLY)
        os.pwrite(fd, b"B" * MIB, 0)
        os.close(fd)
    return 0


def lines_of(name, n):
    """How many lines record n has: now and then more than go with a commit."""
    return random.Random(f"{name}{n}").choice([1, 1, 1, 2, 8, 8, 150])


def append(path, notes, name, count):
    fd = os.open(path, os.O_WRONLY | os.O_APPEND)
    for n in range(int(count)):
        record = "".join(
            f"{name} {n} {i} ".ljust(LINE - 1, ".") + "\n" for i in range(lines_of(name, n))
        ).encode()
        if os.write(fd, record) != len(record):
            sys.exit(f"{name} {n}: a short write")
        if n % 10 == 9:
            os.fsync(fd)
            note(f"{notes}/synced.{name}", str(n + 1))
    os.close(fd)
    return 0


def appended(path, notes, start):
    want = set()
    for entry in os.listdir(notes):
        if entry.startswith("synced."):
            name = entry[len("synced."):]
            with open(f"{notes}/{entry}", encoding="ascii") as f:
                for n in range(int(f.read())):
                    want.update((name, n, i) for i in range(lines_of(name, n)))
    found, twice, zeros, at = set(), 0, 0, int(start)
    with open(path, "rb") as f:
        f.seek(at)
        while line := f.read(LINE):
            at += LINE
            if line == bytes(len(line)):
                zeros += 1
                continue
            words = line.decode("latin1").split()
            if len(line) != LINE or len(words) != 4:
                sys.exit(f"no whole line at {at - LINE}: {line[:80]!r}")
            record = (words[0], int(words[1]), int(words[2]))
            twice += record in found
            found.add(record)
    lost = want - found
    print(f"{len(want)} synced lines: {len(lost)} lost, {twice} twice, {zeros} of zeros")
    return 1 if lost or twice or zeros else 0


if __name__ == "__main__":
    commands = {"stale": stale, "late": late, "over": over, "append": append, "appended": appended}
    sys.exit(commands[sys.argv[1]](*sys.argv[2:]))
