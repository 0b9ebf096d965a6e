#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 OR MIT
"""test_lossfs.py LOSSFS: what the file system of the harness keeps and loses."""
import errno
import fcntl
import mmap
import os
import subprocess
import sys
import threading
import time

import ddpbox

PAGE = 4096


def check(condition, text):
    if not condition:
        sys.exit("FAILED: " + text)


def refused(number, call, *arguments):
    try:
        call(*arguments)
    except OSError as e:
        check(e.errno == number, f"{call.__name__}: {e}, not {errno.errorcode[number]}")
        return
    check(False, f"{call.__name__} succeeded, not {errno.errorcode[number]}")


class File:
    def __init__(self, path, flags=os.O_RDWR | os.O_CREAT):
        self.fd = os.open(path, flags, 0o644)

    def __enter__(self):
        return self.fd

    def __exit__(self, *_):
        os.close(self.fd)


def content(path):
    with open(path, "rb") as f:
        return f.read()


def lose(disk, seed=1, keep=0, torn=0):
    got = disk(f"lose {seed} {keep} {torn}")
    disk("power on")
    return got


def aligned(data):
    m = mmap.mmap(-1, len(data))
    m.write(data)
    return m


def test_unflushed_pages_are_lost(disk):
    lose(disk)
    path = disk.path + "/a"
    with File(path) as fd:
        os.write(fd, b"1" * 3 * PAGE)
        os.fsync(fd)
        os.pwrite(fd, b"2" * 2 * PAGE, 0)
        check(content(path)[:1] == b"2", "a read before the loss")
        check(content(disk.lower + "/a") == b"1" * 3 * PAGE, "the lower file")
    got = lose(disk)
    check(got["lost"] == "2" and got["kept"] == "0", f"counts {got}")
    check(content(path) == b"1" * 3 * PAGE, "after the loss")


def test_flushed_pages_stay(disk):
    path = disk.path + "/b"
    for flush in (os.fsync, os.fdatasync, None):
        flags = os.O_RDWR | os.O_CREAT | (0 if flush else os.O_DSYNC)
        data = os.urandom(100_000)
        with File(path, flags) as fd:
            os.pwrite(fd, data, 5)
            if flush:
                flush(fd)
        lose(disk)
        check(content(path)[5:] == data, f"after {flush}")


def test_seeds_choose_pages(disk):
    path = disk.path + "/c"

    def trial(seed, keep, torn):
        with File(path) as fd:
            os.pwrite(fd, b"o" * 64 * PAGE, 0)
            os.fsync(fd)
            os.pwrite(fd, b"n" * 64 * PAGE, 0)
        lose(disk, seed, keep, torn)
        return content(path)

    whole = trial(7, 50, 0)
    pages = {whole[i:i + PAGE] for i in range(0, len(whole), PAGE)}
    check(pages == {b"o" * PAGE, b"n" * PAGE}, "whole pages")
    check(trial(7, 50, 0) == whole and trial(8, 50, 0) != whole, "the seed decides")
    torn = trial(9, 0, 100)
    sectors = [torn[i:i + 512] for i in range(0, len(torn), 512)]
    check(set(sectors) == {b"o" * 512, b"n" * 512}, "whole sectors")
    check(any(len(set(sectors[i:i + 8])) == 2 for i in range(0, 512, 8)), "torn pages")


def test_size_is_kept_or_not(disk):
    sizes = set()
    for seed in range(20):
        path = f"{disk.path}/size{seed}"
        with File(path) as fd:
            os.write(fd, b"x" * 100)
            os.fsync(fd)
            os.write(fd, b"y" * 10_000)
        lose(disk, seed, 50, 25)
        data = content(path)
        check(data[:100] == b"x" * 100 and set(data[100:]) <= set(b"y\0"), "content")
        sizes.add(len(data))
    check(sizes == {100, 10_100}, f"sizes {sizes}")


def test_direct_io(disk):
    path = disk.path + "/d"
    with File(path, os.O_RDWR | os.O_CREAT | os.O_DIRECT) as fd:
        os.posix_fallocate(fd, 0, 1 << 20)
        check(os.pwritev(fd, [aligned(b"d" * 8192)], 4096) == 8192, "a write with O_DIRECT")
        refused(errno.EINVAL, os.pwritev, fd, [aligned(b"d" * PAGE)[:100]], 0)
        to = aligned(b"\0" * 8192)
        check(os.preadv(fd, [to], 4096) == 8192 and to[:] == b"d" * 8192, "a read with O_DIRECT")
        os.fdatasync(fd)
        os.pwritev(fd, [aligned(b"e" * 512)], 4096)
    lose(disk)
    data = content(path)
    check(len(data) == 1 << 20 and data[4096:12288] == b"d" * 8192, "after the loss")
    check(data[:4096] == b"\0" * 4096, "what was only allocated reads as zeros")


def test_failed_flush_leaves_ghosts(disk):
    path = disk.path + "/m7"
    with File(path) as fd:
        os.pwrite(fd, b"old!" * 1024, 0)
        os.fsync(fd)
        os.pwrite(fd, b"new!" * 1024, 0)
        disk("fail fsync EIO once")
        refused(errno.EIO, os.fsync, fd)
        os.fsync(fd)  # reports success: the pages are clean
        check(disk("stats")["ghosts"] == "1", "a ghost")
        check(content(path)[:4] == b"new!", "a buffered read returns the ghost")
        with File(path, os.O_RDONLY | os.O_DIRECT) as direct:
            to = aligned(b"\0" * PAGE)
            os.preadv(direct, [to], 0)
            check(to[:4] == b"old!", "O_DIRECT reads the disk")
        disk("drop")
        check(content(path)[:4] == b"old!", "without the cache the disk shows")
        os.pwrite(fd, b"x", 100)
        os.fsync(fd)
    lose(disk)
    check(content(path)[:4] == b"old!" and content(path)[100:101] == b"x", "at the end")


def test_failed_synchronous_write(disk):
    path = disk.path + "/dsync"
    with File(path, os.O_RDWR | os.O_CREAT | os.O_DSYNC) as fd:
        os.pwrite(fd, b"old!" * 1024, 0)
        disk("fail fsync EIO once")
        refused(errno.EIO, os.pwrite, fd, b"new!" * 1024, 0)
        os.fsync(fd)
    check(content(path)[:4] == b"new!", "a buffered read returns the ghost")
    lose(disk)
    check(content(path)[:4] == b"old!", "the disk does not have it")


def test_rewritten_ghost_is_whole(disk):
    path = disk.path + "/m7b"
    with File(path) as fd:
        os.pwrite(fd, b"new!" * 1024, 0)
        disk("fail fsync EIO once")
        refused(errno.EIO, os.fsync, fd)
        os.pwrite(fd, b"x", 0)  # the cached page is dirty again, whole
        os.fsync(fd)
    lose(disk)
    check(content(path)[:8] == b"xew!new!", "the rewritten tail")


def test_errors(disk):
    path = disk.path + "/e"
    with File(path) as fd:
        os.pwrite(fd, b"1" * PAGE, 0)
        for kind, call in (("read", lambda: os.pread(fd, 10, 0)),
                           ("write", lambda: os.pwrite(fd, b"2", 0))):
            disk(f"fail {kind} EIO once")
            refused(errno.EIO, call)
            call()
            disk(f"fail {kind} EIO")
            refused(errno.EIO, call)
            refused(errno.EIO, call)
            disk(f"fail {kind} off")
            call()


def test_space(disk):
    path = disk.path + "/full"
    with File(path) as fd:
        os.pwrite(fd, b"1" * 10 * PAGE, 0)
        used = 0
        for name in os.listdir(disk.path):
            used += os.stat(f"{disk.path}/{name}").st_size
        disk(f"limit {used + 2 * PAGE}")
        refused(errno.ENOSPC, os.pwrite, fd, b"1" * 3 * PAGE, 10 * PAGE)
        refused(errno.ENOSPC, os.posix_fallocate, fd, 0, 1 << 20)
        os.pwrite(fd, b"2" * PAGE, 0)
        os.pwrite(fd, b"1" * PAGE, 10 * PAGE)
        os.unlink(path)
        with File(path + "2") as other:
            refused(errno.ENOSPC, os.pwrite, other, b"1" * 30 * PAGE, 0)
    disk("limit 0")
    with File(path) as fd:
        os.pwrite(fd, b"1" * 30 * PAGE, 0)


def test_stall(disk):
    path = disk.path + "/s"
    with File(path) as fd:
        os.write(fd, b"1" * PAGE)
        done = []
        disk("stall fsync 600000")
        thread = threading.Thread(target=lambda: (os.fsync(fd), done.append(1)))
        thread.start()
        with File(path) as other:  # reads and writes pass
            os.pread(other, 10, 0)
        time.sleep(0.2)
        check(not done, "the flush waits")
        disk("stall fsync 0")
        thread.join()
        check(done, "the flush is done")


def test_power_ends_stalls(disk):
    path = disk.path + "/p"
    with File(path) as fd:
        os.write(fd, b"1" * PAGE)
        os.fsync(fd)
        os.pwrite(fd, b"2" * PAGE, 0)
        disk("stall all 600000")
        got = []

        def flush():
            try:
                os.fsync(fd)
            except OSError as e:
                got.append(e.errno)

        thread = threading.Thread(target=flush)
        thread.start()
        time.sleep(0.2)
        disk("lose 1 0 0")
        thread.join()
        check(got == [errno.EIO], "a flush that waited")
        refused(errno.EIO, os.pwrite, fd, b"3", 0)
        disk("power on")
    check(content(path) == b"1" * PAGE, "after the loss")


def test_lies(disk):
    path = disk.path + "/l"
    with File(path) as fd:
        os.write(fd, b"1" * PAGE)
        os.fsync(fd)
        disk("lie on")
        os.pwrite(fd, b"2" * PAGE, 0)
        os.fsync(fd)
        disk("lie off")
    lose(disk)
    check(content(path) == b"1" * PAGE, "after the loss")


def test_names(disk):
    folder = disk.path + "/names"
    os.mkdir(folder)
    for name in ("old", "target", "victim"):
        with open(f"{folder}/{name}", "w") as f:
            f.write(name)
            f.flush()
            os.fsync(f.fileno())
    disk("names strict")
    with File(folder, os.O_RDONLY | os.O_DIRECTORY) as fd:
        os.fsync(fd)
    seen = set()
    for seed in range(30):
        with open(folder + "/new", "w") as f:
            f.write("new")
            f.flush()
            os.fsync(f.fileno())
        os.rename(folder + "/old", folder + "/target")
        os.unlink(folder + "/victim")
        got = lose(disk, seed)
        seen.add(got["names"])
        if got["names"] == "3":
            check(sorted(os.listdir(folder)) == ["old", "target", "victim"], "all undone")
            check(content(folder + "/target") == b"target", "the replaced file")
            continue
        for name in ("old", "target", "victim"):  # as it was, durable
            with open(f"{folder}/{name}", "w") as f:
                f.write(name)
                f.flush()
                os.fsync(f.fileno())
        if os.path.exists(folder + "/new"):
            check(content(folder + "/new") == b"new", "a flushed file")
            os.unlink(folder + "/new")
        with File(folder, os.O_RDONLY | os.O_DIRECTORY) as fd:
            os.fsync(fd)
    check(seen == {"0", "1", "2", "3"}, f"prefixes {seen}")
    disk("names journal")
    with File(folder + "/journal") as fd:
        os.fsync(fd)
    lose(disk)
    check(os.path.exists(folder + "/journal"), "a flush of the file keeps its name")


def test_locks_and_folders(disk):
    path = disk.path + "/lock"
    with File(path) as fd:
        fcntl.lockf(fd, fcntl.LOCK_EX)
        again = ("import fcntl, os, sys\nf = os.open(sys.argv[1], os.O_RDWR)\n"
                 "fcntl.lockf(f, fcntl.LOCK_EX | fcntl.LOCK_NB)")
        r = subprocess.run([sys.executable, "-c", again, path], stderr=subprocess.DEVNULL)
        check(r.returncode != 0, "a record lock of another process is refused")
    os.makedirs(disk.path + "/x/y/z")
    refused(errno.ENOTEMPTY, os.rmdir, disk.path + "/x/y")
    for d in ("/x/y/z", "/x/y", "/x"):
        os.rmdir(disk.path + d)
    check(".lossfs" not in os.listdir(disk.path), "the hidden folder")
    with File(path) as fd:
        os.ftruncate(fd, 10_000)
        os.pwrite(fd, b"1" * 10_000, 0)
        os.ftruncate(fd, 5)
        os.ftruncate(fd, 10)
        check(content(path) == b"11111" + b"\0" * 5, "truncation")


def main():
    ddpbox.enter(network=False)
    program = os.path.abspath(sys.argv[1])
    disk = ddpbox.Disk(program, ddpbox.work_folder())
    tests = [v for k, v in sorted(globals().items()) if k.startswith("test_")]
    for test in tests:
        test(disk)
        print("ok", test.__name__)
    disk.close()
    print(f"{len(tests)} passed")


if __name__ == "__main__":
    main()
