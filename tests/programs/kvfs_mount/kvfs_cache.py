#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 OR MIT
"""kvfs_cache.py MNT FIGURES COMMAND...: the commands of kvfs_cache.sh for a mount, whose figures
are served at FIGURES.

on, off         wait until the cache is in use, or not any more
hits            what was read once is read again, by O_DIRECT, without a request to the file system
same            random operations on a file by all ways to its bytes, beside a copy
times           sizes and times of what was just written are those that stay
back            writes wait in the cache, and close waits for them
long, sequence  what long wrote is read in sequence, and nothing of it is cached: it is prefetched
before, both OTHER  a file that this mount has cached, changed by the other one, and the reverse
die PID N       PID dies while only the cache has bytes; they are there
left PID, found PID, the host, dies; what it left is in the file system
full STORE      STORE, a folder, has no more room for bytes of files
"""
import errno
import mmap
import os
import random
import signal
import sys
import threading
import time
import urllib.request

mnt, figures = sys.argv[1], sys.argv[2]
PAGE = 8192
LIMIT = 600  # seconds, for what never happens
FILES = 8


def metrics():
    with urllib.request.urlopen(f"http://{figures}/metrics", timeout=600) as f:
        lines = [line.split() for line in f.read().decode().splitlines() if line[:1] != "#"]
    return {name.replace("kvfs_", "", 1): int(value) for name, value in lines}


def wait_for(what, condition):
    until = time.monotonic() + LIMIT
    while not condition():
        assert time.monotonic() < until, (what, metrics())
        time.sleep(0.05)


def wait(name, value):
    wait_for(f"{name} is not {value}", lambda: metrics()[name] == value)


def on():
    wait("cache_on", 1)


def off():
    wait("cache_on", 0)


def direct(path, offset, length):
    fd = os.open(path, os.O_RDONLY | os.O_DIRECT)
    room = mmap.mmap(-1, (length + 4095) // 4096 * 4096)
    n = os.preadv(fd, [room], offset)
    os.close(fd)
    return room[: min(n, length)]


def hits():
    path, data = f"{mnt}/hits", os.urandom(40 * PAGE + 1000)
    with open(path, "wb") as f:
        f.write(data)
    assert open(path, "rb").read() == data
    assert direct(path, 0, len(data)) == data
    fd = os.open(path, os.O_RDONLY)
    os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_DONTNEED)  # the kernel's pages
    assert os.pread(fd, len(data), 0) == data
    os.close(fd)
    before = metrics()
    for _ in range(20):
        assert direct(path, 0, len(data)) == data
        at = random.randrange(40) * 4096
        assert direct(path, at, PAGE) == data[at : at + PAGE]
    after = metrics()
    new = {name: after[name] - before[name] for name in after}
    assert new["cache_hits"] == new["cache_reads"] >= 40, new
    assert new["cache_miss_pages"] == 0 and new["cache_around"] == 0, new
    if "nvmefs_commands" in new:  # opening and closing, and what the shell may look at
        assert new["nvmefs_commands"] <= 40 * 4, new


def same():
    seed = time.time_ns()
    print("seed", seed, flush=True)
    rng = random.Random(seed)
    path = f"{mnt}/same"
    model = bytearray()
    fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_TRUNC)
    dd = os.open(path, os.O_RDWR | os.O_DIRECT)
    ad = os.open(path, os.O_WRONLY | os.O_APPEND)
    room = mmap.mmap(-1, 16 * 4096)

    def put(at, data):
        model.extend(bytes(max(0, at + len(data) - len(model))))
        model[at : at + len(data)] = data

    for _ in range(400):
        what = rng.randrange(10)
        at, n = rng.randrange(30 * 4096), rng.randrange(1, 5 * 4096)
        data = rng.randbytes(n)
        if what < 3:
            os.pwrite(fd, data, at)
            put(at, data)
        elif what == 3:
            at, n = at // 4096 * 4096, rng.randrange(1, 5) * 4096
            room[:n] = rng.randbytes(n)
            assert os.pwritev(dd, [memoryview(room)[:n]], at) == n
            put(at, room[:n])
        elif what == 4:
            os.write(ad, data)
            put(len(model), data)
        elif what == 5:
            os.ftruncate(fd, at)
            del model[at:]
            model.extend(bytes(at - len(model)))
        elif what == 6 and model:
            m = mmap.mmap(fd, len(model))
            at = rng.randrange(len(model))
            n = min(n, len(model) - at)
            m[at : at + n] = data[:n]
            put(at, data[:n])
            m.close()
        elif what == 7 and model:
            to = rng.randrange(30 * 4096)
            n = min(n, len(model))
            src = f"{mnt}/same.from"
            with open(src, "wb") as f:
                f.write(model[:n])
                f.flush()
                sfd = os.open(src, os.O_RDONLY)
                done = 0
                while done < n:
                    done += os.copy_file_range(sfd, fd, n - done, done, to + done)
                os.close(sfd)
            put(to, bytes(model[:n]))
        elif what == 8:
            os.system(f"fallocate -p -o {at} -l {n} {path}")
            end = min(at + n, len(model))
            if end > at:
                model[at:end] = bytes(end - at)
        if rng.randrange(3) == 0:
            size = os.fstat(fd).st_size
            assert size == len(model), (what, size, len(model))
            at = rng.randrange(len(model) + 1) // 4096 * 4096
            got = os.preadv(dd, [room], at)
            assert room[:got] == model[at : at + got], ("direct", what, at)
            assert got == min(len(room), len(model) - at), (got, at, len(model))
        if rng.randrange(3) == 0:
            assert os.pread(fd, len(model) + 1, 0) == model, ("kernel", what)
    for x in (fd, dd, ad):
        os.close(x)
    assert direct(path, 0, len(model) + 4096) == model


def stamp(st):
    return st.st_size, st.st_mtime_ns, st.st_ctime_ns


def times():
    path = f"{mnt}/times"
    fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_TRUNC)
    os.fsync(fd)
    old = time.time_ns()
    time.sleep(0.02)
    os.write(fd, b"x" * 100)
    now = stamp(os.fstat(fd))
    assert now[0] == 100 and now[1] > old and now[2] == now[1], (now, old)
    time.sleep(0.3)  # it is written out meanwhile
    assert stamp(os.fstat(fd)) == now, (stamp(os.fstat(fd)), now)
    os.fsync(fd)
    assert stamp(os.fstat(fd)) == now
    os.write(fd, b"y" * 50)
    now = stamp(os.fstat(fd))
    assert now[0] == 150 and os.stat(path).st_size == 150
    assert {e.name: e.stat().st_size for e in os.scandir(mnt)}["times"] == 150
    os.close(fd)
    assert stamp(os.stat(path)) == now, (stamp(os.stat(path)), now)
    fd = os.open(path, os.O_WRONLY | os.O_APPEND)
    os.write(fd, b"z" * 10)
    os.utime(path, ns=(5, 7))
    os.chmod(path, 0o600)
    st = os.fstat(fd)
    assert (st.st_size, st.st_mtime_ns, st.st_mode & 0o777) == (160, 7, 0o600), st
    os.link(path, path + ".link")
    linked = os.fstat(fd).st_ctime_ns
    assert linked > now[2], (linked, now)
    os.close(fd)
    time.sleep(0.2)
    st = os.stat(path)
    assert (st.st_size, st.st_mtime_ns, st.st_ctime_ns) == (160, 7, linked), st
    os.utime(path, ns=(5, time.time_ns()))  # older: the next read counts
    assert open(path, "rb").read() == b"x" * 100 + b"y" * 50 + b"z" * 10
    direct(path, 0, 100)
    assert os.stat(path).st_atime_ns > 5
    os.unlink(path + ".link")


def back():
    path = f"{mnt}/back"
    fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_TRUNC)
    os.fsync(fd)
    before = metrics()
    for i in range(8):
        os.pwrite(fd, bytes([i]) * PAGE, i * PAGE)
    after = metrics()
    assert after["cache_writes"] - before["cache_writes"] == 8, (before, after)
    assert after["cache_around"] == before["cache_around"]
    os.close(fd)
    assert metrics()["cache_dirty_bytes"] == 0, metrics()
    wait_for("no pages are flushed", lambda: metrics()["cache_flushed_pages"] >=
             before["cache_flushed_pages"] + 8)
    # more than there is room for
    data = os.urandom(9 << 20)
    with open(path, "wb") as f:
        f.write(data)
    assert open(path, "rb").read() == data


def long():
    """What sequence() reads."""
    for n in range(FILES):
        with open(f"{mnt}/sequence{n}", "wb") as f:
            f.write(random.Random(n).randbytes(2 << 20))


def sequence():
    """Nothing of the files is cached. One read after another uses pages that were fetched ahead,
    unless the reader is ahead of them: then another file."""
    before = metrics()
    for n in range(FILES):
        data = random.Random(n).randbytes(2 << 20)
        fd = os.open(f"{mnt}/sequence{n}", os.O_RDONLY)
        os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_RANDOM)
        got = b""
        while len(got) < len(data):
            got += os.pread(fd, 4096, len(got))
            if len(got) % (1 << 16) == 0:
                time.sleep(0.002)
        os.close(fd)
        assert got == data
        time.sleep(1.2)  # until the other side has reported
        after = metrics()
        print({n: after[n] - before[n] for n in after if "fetch" in n or "page" in n}, flush=True)
        if after["cache_prefetched_used"] > before["cache_prefetched_used"]:
            return
    raise AssertionError((before, after))


def before():
    for name in "a", "b":
        with open(f"{mnt}/{name}", "wb") as f:
            f.write(name.encode() * 3 * PAGE)
        assert direct(f"{mnt}/{name}", 0, 3 * PAGE) == name.encode() * 3 * PAGE


def both(other):
    def put(path, data):
        with open(path, "r+b") as f:
            f.write(data)

    kept = os.open(f"{mnt}/a", os.O_RDWR)
    for n in range(10):
        put(f"{other}/a", bytes([n]) * 100)
        assert open(f"{mnt}/a", "rb").read()[:101] == bytes([n]) * 100 + b"a"
        assert direct(f"{mnt}/a", 0, 100) == bytes([n]) * 100
        os.pwrite(kept, bytes([n + 100]) * 100, 200)
        put(f"{mnt}/b", bytes([n]) * 300)
        assert open(f"{other}/b", "rb").read()[:301] == bytes([n]) * 300 + b"b"
        assert open(f"{other}/a", "rb").read()[199:301] == b"a" + bytes([n + 100]) * 100 + b"a"
        os.truncate(f"{other}/b", 5 * PAGE + n)
        assert os.stat(f"{mnt}/b").st_size == 5 * PAGE + n
        assert len(open(f"{mnt}/b", "rb").read()) == 5 * PAGE + n
    os.close(kept)


def die(pid, n):
    path = f"{mnt}/die{n}"
    fd = os.open(path, os.O_RDWR | os.O_CREAT)
    os.write(fd, b"old" * 10000)
    os.fsync(fd)
    data = os.urandom(60000)
    os.pwrite(fd, data, 5000)  # faster than it is written out, most often
    os.kill(int(pid), signal.SIGKILL)
    assert os.pread(fd, 60000, 5000) == data  # the kernel's pages
    os.fstat(fd)
    assert direct(path, 0, 65000) == (b"old" * 10000)[:5000] + data
    os.pwrite(fd, b"more", 70000)
    try:
        os.fsync(fd)
    except OSError as e:
        assert e.errno == errno.EIO, e  # it cannot know that nothing was
    os.fsync(fd)
    os.close(fd)
    assert direct(path, 4096, 60904) == ((b"old" * 10000)[:5000] + data)[4096:]
    assert os.stat(path).st_size == 70004


def left(pid):
    fd = os.open(f"{mnt}/left", os.O_RDWR | os.O_CREAT)
    os.fsync(fd)
    os.pwrite(fd, b"left" * 10000, 0)
    os.kill(int(pid), signal.SIGKILL)


def found():
    assert open(f"{mnt}/left", "rb").read() == b"left" * 10000


def error_of(call, *arguments):
    try:
        call(*arguments)
        return 0
    except OSError as e:
        return e.errno


def soon(call):
    """A thread does it, so that one that hangs is seen."""
    ended = []
    t = threading.Thread(target=lambda: ended.append(call()), daemon=True)
    t.start()
    t.join(LIMIT)
    assert not t.is_alive(), f"{call.__name__} hangs"
    assert ended, f"{call.__name__} fails"


def full(store):
    old = os.urandom(2 << 20)
    with open(f"{mnt}/old", "wb") as f:
        f.write(old)
        f.flush()
        os.fsync(f.fileno())
    fd = os.open(f"{mnt}/full", os.O_RDWR | os.O_CREAT)
    twin = os.open(f"{mnt}/full", os.O_RDWR)
    os.pwrite(fd, b"0" * 100000, 0)
    os.fsync(fd)
    with open(f"{store}/ballast", "wb") as ballast:  # what is left is not for bytes of files
        while os.statvfs(store).f_bavail * os.statvfs(store).f_bsize > 24 << 20:
            ballast.write(b"x" * 65536)
            ballast.flush()
    filler = os.open(f"{mnt}/filler", os.O_WRONLY | os.O_CREAT | os.O_SYNC)
    for piece in 1 << 20, 1 << 16, PAGE:
        while error_of(os.write, filler, bytes([1]) * piece) == 0:
            pass
    os.close(filler)
    # each gets the error once, and then has what the store has
    os.pwrite(fd, os.urandom(1 << 20), 0)
    assert error_of(os.fsync, fd) == errno.ENOSPC
    assert os.fstat(fd).st_size >= 100000  # a part of it may have had room
    assert error_of(os.fsync, fd) == 0
    assert error_of(os.fsync, twin) == errno.ENOSPC
    assert error_of(os.fsync, twin) == 0
    size = os.fstat(fd).st_size
    assert os.pread(fd, 2 << 20, 0) == direct(f"{mnt}/full", 0, size)
    # more pages than there are cannot be written out: others are not blocked
    held, refused = [], 0  # small0 and so on
    wait("cache_full", 0)  # pages take writes again
    for i in range(700):
        small = os.open(f"{mnt}/small{i}", os.O_WRONLY | os.O_CREAT)
        error = error_of(os.write, small, b"y" * 2 * PAGE)
        assert error in (0, errno.ENOSPC), error
        if error == 0 and len(held) < 200:
            held.append(small)
        else:
            error = max(error, error_of(os.close, small))
            assert error == errno.ENOSPC, error
            refused += 1
    assert held and refused, (len(held), refused)

    def reads():
        there = os.open(f"{mnt}/old", os.O_RDONLY)
        os.posix_fadvise(there, 0, 0, os.POSIX_FADV_DONTNEED)
        assert os.pread(there, len(old), 0) == old
        assert direct(f"{mnt}/old", 0, len(old)) == old

    def overwrites():
        there = os.open(f"{mnt}/old", os.O_RDWR)
        for at in range(0, len(old), 4 * PAGE):
            os.pwrite(there, old[at : at + 4096], at)
        os.fsync(there)
        os.close(there)

    def appends():
        there = os.open(f"{mnt}/old", os.O_WRONLY | os.O_APPEND)
        assert error_of(os.write, there, bytes(1 << 20)) == errno.ENOSPC

    for what in reads, overwrites, appends, reads:
        soon(what)
    for i in range(700):  # as far as there was room
        assert os.stat(f"{mnt}/small{i}").st_size in (0, PAGE, 2 * PAGE)
    failed = 0
    for i, small in enumerate(held):
        error = error_of(os.close, small)
        whole = open(f"{mnt}/small{i}", "rb").read() == b"y" * 2 * PAGE
        assert (error, whole) in ((0, True), (errno.ENOSPC, False)), (i, error, whole)
        failed += error != 0
    assert failed > len(held) / 2, (failed, len(held))
    assert metrics()["cache_dirty_bytes"] == 0, metrics()
    assert metrics()["cache_lost_files"] >= failed, metrics()
    os.unlink(f"{store}/ballast")
    data = os.urandom(1 << 20)
    wait_for("the space is not the store's again", lambda: error_of(os.pwrite, fd, data, 0) == 0 and
             error_of(os.fsync, fd) == 0)
    os.close(fd)
    os.close(twin)
    assert direct(f"{mnt}/full", 0, len(data)) == data
    assert open(f"{mnt}/old", "rb").read() == old
    assert metrics()["cache_dirty_bytes"] == 0
    wait("cache_full", 0)


globals()[sys.argv[3]](*sys.argv[4:])
