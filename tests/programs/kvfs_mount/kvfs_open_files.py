#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 OR MIT
"""kvfs_open_files.py FOLDER FIGURES: what kvfs_open_files.sh does in a mount with at most 160 open
files, 100 of a user."""
import errno
import os
import sys
import time
import urllib.request

folder, figures = sys.argv[1:]
ALL, USER, ROOT = 160, 100, 10


def metrics():
    with urllib.request.urlopen(f"http://{figures}/metrics", timeout=600) as f:
        lines = [line.split() for line in f.read().decode().splitlines() if line[:1] != "#"]
    return {name.replace("kvfs_", "", 1): int(value) for name, value in lines}


def as_user(uid):
    os.seteuid(0)
    os.setegid(uid)
    os.seteuid(uid)


def create(name):
    """A descriptor, or minus the error."""
    try:
        return os.open(f"{folder}/{name}", os.O_RDWR | os.O_CREAT | os.O_EXCL)
    except OSError as e:
        return -e.errno


def until_refused(prefix, most):
    opened = []
    for n in range(most + 1):
        fd = create(f"{prefix}{n}")
        if fd < 0:
            return opened, -fd
        opened.append(fd)
    return opened, 0


def count(opened):
    until = time.monotonic() + 600
    while metrics()["open_files"] != opened:  # the kernel reports a close later
        assert time.monotonic() < until, (metrics()["open_files"], opened)
        time.sleep(0.02)


count(0)
before = metrics()
as_user(1234)
first, error = until_refused("a", USER)
assert (len(first), error) == (USER, errno.EMFILE), (len(first), error)
for i in range(10 * USER):
    assert create(f"more{i}") == -errno.EMFILE
try:
    os.listdir(folder)
    raise AssertionError("a folder is opened all the same")
except OSError as e:
    assert e.errno == errno.EMFILE, e
assert os.stat(f"{folder}/a0").st_uid == 1234  # what opens nothing is done
os.rename(f"{folder}/a0", f"{folder}/b0")
assert os.pread(first[0], 1, 0) == b"" and os.write(first[0], b"x") == 1
as_user(1235)
second, error = until_refused("c", ALL)
assert (len(second), error) == (ALL - ROOT - USER, errno.ENFILE), (len(second), error)
os.seteuid(0)
root, error = until_refused("r", ROOT)
assert (len(root), error) == (ROOT, errno.ENFILE), (len(root), error)
count(ALL)
after = metrics()
assert after["open_refused_user"] - before["open_refused_user"] == 10 * USER + 2, after
assert after["open_refused_all"] - before["open_refused_all"] == 2, after
os.close(root.pop())
count(ALL - 1)
names = os.listdir(folder)
assert len(names) == ALL, len(names)  # those that were refused were not made
os.close(first.pop())
count(ALL - 2)
as_user(1235)
assert create("again") == -errno.ENFILE  # of all but root's
os.seteuid(0)
for fd in first + second + root:
    os.close(fd)
count(0)
as_user(1234)
third, error = until_refused("d", USER)
assert (len(third), error) == (USER, errno.EMFILE), (len(third), error)
