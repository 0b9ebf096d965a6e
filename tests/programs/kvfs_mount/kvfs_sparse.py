#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 OR MIT
"""kvfs_sparse.py FILE WHAT [READY]: what kvfs_sparse.sh does to a file.

map, mapped-only, write, old-empty
        write few bytes to a file of 1 MiB, by a mapping, by one whose descriptor is closed, by
        write(), by a mapping of a file of which it is known that it had no block; make READY, and
        keep it until READY is gone
same    a copy of what SEEK_DATA and SEEK_HOLE call data is the file
holes   there is one
"""
import errno
import mmap
import os
import sys
import time

path, what = sys.argv[1:3]
SIZE, STEP = 1 << 20, 1 << 17


def write(fd):
    if what == "write":
        for at in range(0, SIZE, STEP):
            os.pwrite(fd, b"HELLO", at)
        return None
    m = mmap.mmap(fd, SIZE)
    if what == "mapped-only":
        os.close(fd)
    for at in range(0, SIZE, STEP):
        m[at : at + 5] = b"WORLD"
    return m


def writer():
    fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_TRUNC)
    os.ftruncate(fd, SIZE)
    if what == "old-empty":
        os.close(fd)
        assert os.stat(path).st_blocks == 0
        fd = os.open(path, os.O_RDWR)
    kept = write(fd)
    assert os.stat(path).st_blocks > 0
    with open(sys.argv[3], "w", encoding="ascii"):
        pass
    while os.path.exists(sys.argv[3]):
        time.sleep(0.02)
    del kept


def extents(fd):
    at, size = 0, os.fstat(fd).st_size
    while at < size:
        try:
            data = os.lseek(fd, at, os.SEEK_DATA)
        except OSError as e:
            assert e.errno == errno.ENXIO, e
            return
        at = os.lseek(fd, data, os.SEEK_HOLE)
        assert data < at <= size, (data, at)
        yield data, at


def reader():
    fd = os.open(path, os.O_RDONLY)
    all_bytes = os.pread(fd, SIZE, 0)
    assert len(all_bytes) == SIZE and all_bytes.count(b"L") + all_bytes.count(b"W") >= 8
    copy = bytearray(SIZE)
    found = list(extents(fd))
    for begin, end in found:
        copy[begin:end] = os.pread(fd, end - begin, begin)
    assert copy == all_bytes, found
    assert what != "holes" or sum(end - begin for begin, end in found) < SIZE, found
    assert what != "holes" or os.fstat(fd).st_blocks < SIZE // 512


(reader if what in ("same", "holes") else writer)()
