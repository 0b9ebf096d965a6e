#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Large direct reads of one file, many at once.

    kvfs_large.py fill FILE MIB          each 4 KiB page holds its number and else repeats one byte
    kvfs_large.py read FILE MIB SECONDS  readers of 64 KiB to 1 MiB, beside some that are killed in
                                         the middle and small requests; all bytes are looked at
    kvfs_large.py drain FILE MIB         print "reading" and read on for a while; the mount may be
                                         detached meanwhile
"""
import mmap
import os
import random
import signal
import sys
import time

PAGE = 4096
READERS = 12


def page(n):
    return n.to_bytes(8, "little") + bytes([n % 251 + 1]) * (PAGE - 8)


def fill(path, mib):
    with open(path, "wb") as f:
        for n in range(int(mib) * 256):
            f.write(page(n))
        os.fsync(f.fileno())


def reader(path, pages, seed, until, many=None):
    """Reads, of as many bytes as the file has behind the place, until the time is over."""
    rng = random.Random(seed)
    room = mmap.mmap(-1, 1 << 20)
    fd = os.open(path, os.O_RDONLY | os.O_DIRECT)
    done = 0
    while time.monotonic() < until and done != many:
        n = rng.choice([16, 17, 32, 64, 256, 256])
        at = rng.randrange(pages)
        want = min(n, pages - at) * PAGE
        got = os.preadv(fd, [memoryview(room)[: n * PAGE]], at * PAGE)
        assert got == want, f"{got} bytes of {want} at page {at}"
        for i in range(got // PAGE):
            if room[i * PAGE : (i + 1) * PAGE] != page(at + i):
                raise AssertionError(f"page {at + i} is {room[i * PAGE : i * PAGE + 16]!r}")
        done += 1
    os.close(fd)
    return done


def child(function, *args):
    pid = os.fork()
    if pid == 0:
        rc = 1
        try:
            function(*args)
            rc = 0
        except BaseException as e:
            print(f"{type(e).__name__}: {e}", flush=True)
        os._exit(rc)
    return pid


def read(path, mib, seconds):
    until = time.monotonic() + float(seconds)
    seed = time.time_ns()
    print("seed", seed, flush=True)
    pages = int(mib) * 256
    all_ = [child(reader, path, pages, seed + i, until) for i in range(READERS)]
    rng = random.Random(seed - 1)
    small, killed = 0, 0
    while killed == 0 or time.monotonic() < until:
        victim = child(reader, path, pages, rng.random(), until)
        for _ in range(20):
            os.stat(path)
            small += 1
        time.sleep(rng.random() * 0.02)
        os.kill(victim, signal.SIGKILL)
        os.waitpid(victim, 0)
        killed += 1
    bad = [p for p in all_ if os.waitpid(p, 0)[1] != 0]
    print(f"{killed} readers killed beside {READERS}, {small} small requests")
    return 1 if bad or killed == 0 else 0


def drain(path, mib):
    pages = int(mib) * 256
    end = time.monotonic() + 600
    all_ = [child(reader, path, pages, i, end, 4 * int(mib)) for i in range(READERS)]
    time.sleep(0.2)
    print("reading", flush=True)
    return 1 if [p for p in all_ if os.waitpid(p, 0)[1] != 0] else 0


def main(argv):
    return {"fill": fill, "read": read, "drain": drain}[argv[0]](*argv[1:])


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
