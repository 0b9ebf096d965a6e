#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 OR MIT
"""kvfs_deaths.py MNT COMMAND...: what kvfs_deaths.sh asks a mount.

die PID VIEW N  change names in a folder N, kill PID, go on, and write down what is there
same VIEW N     it is what was written down
stalled         the file system's process is stopped: what waits ends, and the mount goes on
"""
import errno
import json
import os
import signal
import sys
import threading
import time

mnt = sys.argv[1]


def put(path, data):
    fd = os.open(path, os.O_CREAT | os.O_TRUNC | os.O_WRONLY)
    os.write(fd, data)
    os.fsync(fd)
    os.close(fd)


def look(path):
    """Inode, size and bytes; both ways to ask must agree on whether it is there."""
    try:
        number, size = os.stat(path).st_ino, os.stat(path).st_size
    except FileNotFoundError:
        number = None
    try:
        with open(path, "rb") as f:
            data = f.read().decode()
    except FileNotFoundError:
        data = None
    assert (number is None) == (data is None), (path, number, data)
    if number is None:
        return None
    assert size == len(data), (path, size, data)
    return [number, data]


def view(folder):
    names = ["A", "t", "u", "c", "n", "o"]
    found = {name: look(f"{folder}/{name}") for name in names}
    listed = sorted(os.listdir(folder))
    assert listed == sorted(n for n in names if found[n]), (listed, found)
    return found


def by_descriptor(fd, number):
    """What an open file has in the end; the kernel is made to forget soon, not at once."""
    until = time.monotonic() + 10
    while os.pread(fd, 4, 0) == b"lost" and time.monotonic() < until:
        time.sleep(0.05)
    found = [number, os.pread(fd, 4, 0).decode()]
    try:
        os.close(fd)
    except OSError as e:
        assert e.errno == errno.EIO, e
    return found


def die(pid, out, n):
    folder = f"{mnt}/d{n}"
    os.mkdir(folder)
    for name, data in ("A", b"old"), ("t", b"new"), ("u", b"u"), ("o", b"safe"):
        put(f"{folder}/{name}", data)
    os.sync()
    assert not os.path.exists(f"{folder}/n")  # the kernel remembers that, too
    opened = os.open(f"{folder}/o", os.O_RDWR)
    os.pwrite(opened, b"lost", 0)
    for _ in range(2):  # so that the kernel has page and attributes
        assert os.pread(opened, 4, 0) == b"lost" and os.fstat(opened).st_size == 4
    os.rename(f"{folder}/t", f"{folder}/A")
    os.close(os.open(f"{folder}/c", os.O_CREAT | os.O_WRONLY))
    os.unlink(f"{folder}/u")
    os.kill(pid, signal.SIGKILL)
    fd = os.open(f"{folder}/A", os.O_WRONLY | os.O_APPEND)  # at once, by what was a name before
    there = os.fstat(fd).st_ino
    try:
        os.write(fd, b"+precious")
        os.fsync(fd)
    except OSError as e:
        assert e.errno == errno.EIO, e  # earlier changes may be lost: told once
        os.fsync(fd)
    os.close(fd)
    fd = os.open(folder, os.O_RDONLY)
    for _ in range(2):
        try:
            os.fsync(fd)
        except OSError as e:
            assert e.errno == errno.EIO, e
    os.close(fd)
    number = os.fstat(opened).st_ino
    kept = by_descriptor(opened, number)
    found = view(folder)
    assert kept == found["o"], (kept, found)
    assert found["A"][0] == there and found["A"][1] in ("old+precious", "new+precious"), found
    with open(out, "w", encoding="utf-8") as f:
        json.dump(found, f)


def same(out, n):
    with open(out, encoding="utf-8") as f:
        before = json.load(f)
    now = view(f"{mnt}/d{n}")
    assert now == before, (before, now)


def stalled():
    end = []

    def make():
        try:
            os.mkdir(f"{mnt}/stalled")
            end.append(0)
        except OSError as e:
            end.append(e.errno)

    t = threading.Thread(target=make)
    t.start()
    assert not os.path.exists(f"{mnt}/nobody")
    t.join()
    assert end[0] == errno.EIO or end == [0] and os.path.isdir(f"{mnt}/stalled"), end
    put(f"{mnt}/after", b"after")


if sys.argv[2] == "die":
    die(int(sys.argv[3]), sys.argv[4], sys.argv[5])
elif sys.argv[2] == "same":
    same(sys.argv[3], sys.argv[4])
else:
    stalled()
