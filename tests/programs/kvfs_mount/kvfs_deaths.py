#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 OR MIT
"""kvfs_deaths.py MNT COMMAND...: the requests of kvfs_deaths.sh to a mount.

die PID VIEW N  change names in a folder N, kill PID, continue, and record its contents
same VIEW N     it is what was recorded
refresh HOST    open files, kill the file system's process, stop the one that makes the kernel ask
                anew for them when it is at it, and print its number
cancel PID      a waiter for a lock is interrupted, PID dies before it knows: EINTR, no lock
waits HOST N    N threads wait for one lock: others are served; some are interrupted, the file
                system's process dies, and all the others get the lock in the end
load HOST N     files are written, synced and read by several threads, the file system's process
                dies N times meanwhile: what was synced is there
traced PID LOG  PID is in a debugger until LOG shows it; waiting calls continue then
stalled         the file system's process is stopped: waiting calls end, and the mount works on
"""
import ctypes
import errno
import fcntl
import json
import os
import resource
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
        assert e.errno == errno.EIO, e  # earlier changes may be lost: reported once
        os.fsync(fd)
    os.close(fd)
    fd = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(fd)
    except OSError as e:
        assert e.errno == errno.EIO, e  # reported once, too
    os.fsync(fd)
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


def at_work(pid):
    try:
        with open(f"/proc/{pid}/cmdline", "rb") as f:
            if b"--refresh" not in f.read():
                return False
        links = [os.readlink(f"/proc/{pid}/fd/{n}") for n in os.listdir(f"/proc/{pid}/fd")]
    except OSError:
        return False
    return any(link == "/" or link.startswith(mnt) for link in links)


def kill_dpu(host):
    with open(f"/proc/{host}/stat", encoding="utf-8") as f:
        supervisor = int(f.read().rpartition(")")[2].split()[1])
    with open(f"/proc/{supervisor}/task/{supervisor}/children", encoding="ascii") as f:
        for child in map(int, f.read().split()):
            if child != host:
                os.kill(child, signal.SIGKILL)


def stop_refresh(host):
    until = time.monotonic() + 5
    while time.monotonic() < until:
        for task in os.listdir(f"/proc/{host}/task"):
            try:
                with open(f"/proc/{host}/task/{task}/children", encoding="ascii") as f:
                    children = [int(child) for child in f.read().split()]
            except OSError:
                continue  # the thread has ended
            for child in filter(at_work, children):
                os.kill(child, signal.SIGSTOP)
                if at_work(child):
                    return child
                os.kill(child, signal.SIGCONT)
    return 0


def refresh(host):
    for n in range(900):
        os.open(f"{mnt}/open{n}", os.O_CREAT | os.O_RDWR)
    os.sync()
    for _ in range(10):  # it may be too fast to be seen
        kill_dpu(host)
        found = stop_refresh(host)
        if found:
            print(found)
            return
    raise AssertionError("no process that refreshes the kernel was seen")


def interrupted(fd):
    """Wait for the lock until SIGALRM. @return exit code: 0 it was interrupted"""
    signal.signal(signal.SIGALRM, lambda _number, _frame: None)
    lock = 1
    rc = ctypes.CDLL(None, use_errno=True).lockf(fd, lock, ctypes.c_long(0))
    return 0 if rc == -1 and ctypes.get_errno() == errno.EINTR else 1


def cancel(pid):
    fd = os.open(f"{mnt}/lock", os.O_CREAT | os.O_RDWR)
    os.sync()
    fcntl.lockf(fd, fcntl.LOCK_EX)
    child = os.fork()
    if child == 0:
        os._exit(interrupted(os.open(f"{mnt}/lock", os.O_RDWR)))
    time.sleep(0.3)  # it waits
    os.kill(pid, signal.SIGSTOP)
    os.kill(child, signal.SIGALRM)
    time.sleep(0.3)  # the host has notified the process, which does not listen
    os.kill(pid, signal.SIGKILL)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0, "it has the lock"


def waits(host, count):
    flock = ctypes.CDLL(None, use_errno=True).flock
    signal.signal(signal.SIGALRM, lambda _number, _frame: None)
    threading.stack_size(256 << 10)
    most = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    opened = set()
    ends = {}

    def wait(n):
        fd = os.open(f"{mnt}/many", os.O_RDWR)
        opened.add(n)
        rc = flock(fd, fcntl.LOCK_EX)
        ends[n] = 0 if rc == 0 else ctypes.get_errno()
        os.close(fd)  # and the lock passes to the next

    def begun(threads):
        for t in threads:
            t.start()
        until = time.monotonic() + 60
        while len(opened) < count or waiting() < count:
            assert time.monotonic() < until, (len(opened), waiting())
            time.sleep(0.05)

    def waiting():  # of those who have opened it, for the lock
        n = 0
        for task in os.listdir("/proc/self/task"):
            with open(f"/proc/self/task/{task}/wchan", encoding="ascii") as f:
                n += f.read().startswith(("request_wait_answer", "fuse"))
        return n

    fd = os.open(f"{mnt}/many", os.O_CREAT | os.O_RDWR)
    os.fsync(fd)  # it outlives the death, as os.sync() does not promise
    for death in False, True:
        ends.clear()
        opened.clear()
        fcntl.flock(fd, fcntl.LOCK_EX)
        threads = [threading.Thread(target=wait, args=(n,)) for n in range(count)]
        going = [t for n, t in enumerate(threads) if n % 6]
        begun(threads)
        put(f"{mnt}/beside", b"x" * 300000)  # others are served
        with open(f"{mnt}/beside", "rb") as f:
            assert len(f.read()) == 300000
        assert not ends, ends
        for t in going:
            signal.pthread_kill(t.ident, signal.SIGALRM)
        for t in going:
            t.join(60)
        assert ends == {n: errno.EINTR for n in range(count) if n % 6}, ends
        if death:
            kill_dpu(host)  # the lock that was held is gone
        else:
            fcntl.flock(fd, fcntl.LOCK_UN)
        for t in threads:
            t.join(120)
        want = {n: errno.EINTR if n % 6 else 0 for n in range(count)}
        assert ends == want, [(n, ends.get(n)) for n in want if ends.get(n) != want[n]][:9]


def load(host, deaths):
    over = threading.Event()
    wrong = []
    synced = [0] * 6

    def write(path, data):
        fd = os.open(path, os.O_CREAT | os.O_TRUNC | os.O_RDWR)
        try:
            for at in range(0, len(data), 1 << 20):
                os.pwrite(fd, data[at : at + (1 << 20)], at)
            os.fsync(fd)
        finally:
            os.close(fd)

    def work(n):
        serial = 0
        while not over.is_set():
            serial += 1
            data = os.urandom(4096) * (1 + (serial * 97 + n * 31) % 700)
            path = f"{mnt}/load{n}_{serial % 4}"
            try:
                write(path, data)
            except OSError as e:  # reported: it is done once more, elsewhere
                # A file that was made and not synced may be no more, and its descriptor is none.
                if e.errno not in (errno.EIO, errno.ESTALE, errno.ENOENT, errno.EBADF):
                    wrong.append((path, e))
                continue
            synced[n] += 1
            with open(path, "rb") as f:
                found = f.read()
            if found != data:
                wrong.append((path, len(found), len(data)))

    threads = [threading.Thread(target=work, args=(n,)) for n in range(len(synced))]
    for t in threads:
        t.start()
    for _ in range(deaths):
        before = sum(synced)
        until = time.monotonic() + 60
        while sum(synced) < before + 12 and time.monotonic() < until:
            time.sleep(0.03)
        assert sum(synced) >= before + 12, "no progress"
        kill_dpu(host)
    time.sleep(0.5)
    over.set()
    for t in threads:
        t.join(120)
        assert not t.is_alive(), "a request has no answer"
    assert not wrong, wrong[:5]


def traced(pid, log):
    attach, detach, every_thread = 16, 17, 0x40000000
    ptrace = ctypes.CDLL(None, use_errno=True).ptrace
    assert ptrace(attach, pid, None, None) == 0, os.strerror(ctypes.get_errno())
    os.waitpid(pid, every_thread)
    t = threading.Thread(target=os.path.exists, args=(f"{mnt}/nobody-{pid}",))
    t.start()
    until = time.monotonic() + 60
    while time.monotonic() < until:
        with open(log, encoding="utf-8") as f:
            if f"process {pid} has not responded for 30 s: it is stopped by a debugger" in f.read():
                break
        time.sleep(0.5)
    else:
        raise AssertionError("no word of the debugger")
    assert ptrace(detach, pid, None, None) == 0, os.strerror(ctypes.get_errno())
    t.join()


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
elif sys.argv[2] == "refresh":
    refresh(int(sys.argv[3]))
elif sys.argv[2] == "cancel":
    cancel(int(sys.argv[3]))
elif sys.argv[2] == "waits":
    waits(int(sys.argv[3]), int(sys.argv[4]))
elif sys.argv[2] == "load":
    load(int(sys.argv[3]), int(sys.argv[4]))
elif sys.argv[2] == "traced":
    traced(int(sys.argv[3]), sys.argv[4])
else:
    stalled()
