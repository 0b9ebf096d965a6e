#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 OR MIT
"""kvfs_deaths.py MNT COMMAND...: the requests of kvfs_deaths.sh to a mount.

die PID VIEW N LOG  change names in a folder N, kill PID, continue, and record its contents; exit
                code 3: the kernel's refresh was ended by its time limit (LOG has a line of it)
same VIEW N     it is what was recorded
refresh HOST LOG  open files, kill the file system's process, stop the one that makes the kernel ask
                anew for them when it is at it, and print its number
cancel PID HOST a waiter for a lock is interrupted, PID dies before it knows: EINTR, no lock
waits HOST N    N threads wait for one lock: others are served; some are interrupted, the file
                system's process dies, and all the others get the lock in the end
load HOST N     files are written, synced and read by several threads, the file system's process
                dies N times meanwhile: what was synced is there
traced PID LOG  PID is in a debugger until LOG shows it; waiting calls continue then
stalled         the file system's process is stopped: waiting calls end, and the mount works on

Each waits for events as long as it takes; what has not come after LIMIT seconds never does.
"""
import ctypes
import errno
import faulthandler
import fcntl
import json
import os
import resource
import signal
import sys
import threading
import time
import traceback

LIMIT = 900
mnt = sys.argv[1]


def hang_later():
    """A request without an answer blocks its thread for ever: then this shows which, and ends."""
    faulthandler.dump_traceback_later(LIMIT + 60, exit=True)


def wait_for(what, condition, pause=0.05):
    """@return what condition() gives when it is true"""
    hang_later()
    until = time.monotonic() + LIMIT
    while True:
        got = condition()
        if got:
            return got
        assert time.monotonic() < until, f"after {LIMIT} s: {what() if callable(what) else what}"
        time.sleep(pause)


def status(pid, key):
    """A field of /proc/PID/status; empty: there is no such process."""
    try:
        with open(f"/proc/{pid}/status", encoding="utf-8") as f:
            for line in f:
                if line.startswith(key + ":"):
                    return line.split()[1]
    except OSError:
        pass
    return ""


def wait_for_state(pid, states):
    wait_for(lambda: f"process {pid} is '{status(pid, 'State')}', not one of '{states}'",
             lambda: status(pid, "State") in states)


def in_fuse(task):
    """It waits for an answer of the mount. @p task below /proc"""
    try:
        with open(f"/proc/{task}/wchan", encoding="ascii") as f:
            return f.read().startswith(("request_wait_answer", "fuse"))
    except OSError:
        return False


def wait_for_rounds(pid):
    """Until its loop has taken all that had been sent to it: it has slept and woken up twice."""
    key = "voluntary_ctxt_switches"
    before = int(status(pid, key))
    wait_for(f"process {pid} does not wake up", lambda: int(status(pid, key)) >= before + 3)


def log_count(log, text):
    with open(log, encoding="utf-8", errors="replace") as f:
        return f.read().count(text)


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
    """What an open file has, when the kernel was made to forget."""
    found = [number, os.pread(fd, 4, 0).decode()]
    try:
        os.close(fd)
    except OSError as e:
        assert e.errno == errno.EIO, e
    return found


REFRESHED = "the kernel's attributes and data from before the death are refreshed"
NOT_REFRESHED = "the kernel may keep stale attributes"
TOO_LONG = "from before the death: refreshing them took more than"


def refreshes(log):
    """How many were logged: done, not done, and of those because of the time that they took"""
    return tuple(log_count(log, text) for text in (REFRESHED, NOT_REFRESHED, TOO_LONG))


def too_long(log, before):
    """Was one not done since? Only the time that it takes is no fault."""
    now = refreshes(log)
    assert now[1] - before[1] == now[2] - before[2], "the kernel was not refreshed: see the log"
    return now[1] != before[1]


def die(pid, out, n, log):
    folder = f"{mnt}/d{n}"
    os.mkdir(folder)
    for name, data in ("A", b"old"), ("t", b"new"), ("u", b"u"), ("o", b"safe"):
        put(f"{folder}/{name}", data)
    before = refreshes(log)
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
    wait_for("the end of a refresh is not logged", lambda: refreshes(log) != before)
    if too_long(log, before):
        sys.exit(3)
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
        links = [os.readlink(f"/proc/{pid}/fd/{n}") for n in os.listdir(f"/proc/{pid}/fd")]
    except OSError:
        return False
    return any(link == "/" or link.startswith(mnt) for link in links)


def refreshers(host):
    """The processes that refresh the kernel."""
    for task in os.listdir(f"/proc/{host}/task"):
        try:
            with open(f"/proc/{host}/task/{task}/children", encoding="ascii") as f:
                children = [int(child) for child in f.read().split()]
            for child in children:
                with open(f"/proc/{child}/cmdline", "rb") as f:
                    if b"--refresh" in f.read():
                        yield child
        except OSError:
            continue  # it has ended


def kill_dpu(host):
    with open(f"/proc/{host}/stat", encoding="utf-8") as f:
        supervisor = int(f.read().rpartition(")")[2].split()[1])
    with open(f"/proc/{supervisor}/task/{supervisor}/children", encoding="ascii") as f:
        for child in map(int, f.read().split()):
            if child != host:
                os.kill(child, signal.SIGKILL)


def stop_refresh(host):
    """Stop the process that refreshes the kernel, if it is at work."""
    for child in filter(at_work, refreshers(host)):
        try:
            os.kill(child, signal.SIGSTOP)
            wait_for_state(child, "TZX")
            if status(child, "State") == "T" and at_work(child):
                return child
            os.kill(child, signal.SIGCONT)
        except ProcessLookupError:
            continue  # it has ended
    return 0


def refresh(host, log):
    for n in range(900):
        os.open(f"{mnt}/open{n}", os.O_CREAT | os.O_RDWR)
    put(f"{mnt}/after", b"")  # and all before it is durable
    found, end = True, time.monotonic() + LIMIT
    while found is True:  # it was too fast to be seen
        assert time.monotonic() < end, f"in {LIMIT} s no process that refreshes was seen at work"
        wait_for("the kernel is refreshed for ever", lambda: not any(refreshers(host)))
        before = refreshes(log)
        kill_dpu(host)
        found = wait_for("no process refreshes the kernel",
                         lambda: stop_refresh(host) or refreshes(log) != before, 0.005)
        too_long(log, before)
    print(found)


def cancel(pid, host):
    fd = os.open(f"{mnt}/lock", os.O_CREAT | os.O_RDWR)
    os.fsync(fd)
    fcntl.lockf(fd, fcntl.LOCK_EX)
    signal.signal(signal.SIGALRM, lambda _number, _frame: None)
    lockf = ctypes.CDLL(None, use_errno=True).lockf
    child = os.fork()
    if child == 0:  # locks are a process's: to it the descriptor is another one's
        rc = lockf(fd, 1, ctypes.c_long(0))
        os._exit(0 if rc == -1 and ctypes.get_errno() == errno.EINTR else 1)
    wait_for("no wait for the lock", lambda: in_fuse(child))
    wait_for_rounds(host)
    wait_for_rounds(pid)  # it has the request, and does not answer
    assert status(child, "State") == "S", "the lock is not waited for"
    os.kill(pid, signal.SIGSTOP)
    wait_for_state(pid, "T")
    os.kill(child, signal.SIGALRM)
    wait_for_state(child, "D")  # the kernel has notified the host
    wait_for_rounds(host)  # which has notified the process, which does not listen
    os.kill(pid, signal.SIGKILL)
    rc = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    assert rc == 0, f"it has the lock ({rc})"


def waits(host, count):
    flock = ctypes.CDLL(None, use_errno=True).flock
    signal.signal(signal.SIGALRM, lambda _number, _frame: None)
    threading.stack_size(256 << 10)
    most = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    ends = {}

    def wait(n, fd):
        rc = flock(fd, fcntl.LOCK_EX)
        ends[n] = 0 if rc == 0 else ctypes.get_errno()
        os.close(fd)  # and the lock passes to the next

    def begun(threads):
        for t in threads:
            t.start()
        wait_for(lambda: f"{waiting()} of {count} wait", lambda: waiting() == count)

    def ended(threads):
        wait_for(lambda: f"{sum(t.is_alive() for t in threads)} of {len(threads)} have no answer",
                 lambda: not any(t.is_alive() for t in threads))

    def waiting():  # for the lock
        return sum(in_fuse(f"self/task/{task}") for task in os.listdir("/proc/self/task"))

    fd = os.open(f"{mnt}/many", os.O_CREAT | os.O_RDWR)
    os.fsync(fd)  # it outlives the death, as os.sync() does not promise
    for death in False, True:
        ends.clear()
        fcntl.flock(fd, fcntl.LOCK_EX)
        threads = [threading.Thread(target=wait, args=(n, os.open(f"{mnt}/many", os.O_RDWR)))
                   for n in range(count)]
        going = [t for n, t in enumerate(threads) if n % 6]
        begun(threads)
        put(f"{mnt}/beside", b"x" * 300000)  # others are served
        with open(f"{mnt}/beside", "rb") as f:
            assert len(f.read()) == 300000
        assert not ends, list(ends.items())[:9]
        for t in going:
            signal.pthread_kill(t.ident, signal.SIGALRM)
        ended(going)
        wrong = [(n, ends.get(n)) for n in range(count)
                 if ends.get(n) != (errno.EINTR if n % 6 else None)]
        assert not wrong, wrong[:9]
        if death:
            kill_dpu(host)  # the lock that was held is gone
        else:
            fcntl.flock(fd, fcntl.LOCK_UN)
        ended(threads)
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
        wait_for("no progress", lambda: sum(synced) >= before + 12)
        kill_dpu(host)
    time.sleep(0.5)
    over.set()
    wait_for("a request has no answer", lambda: not any(t.is_alive() for t in threads))
    assert not wrong, wrong[:5]


def traced(pid, log):
    attach, detach, every_thread = 16, 17, 0x40000000
    ptrace = ctypes.CDLL(None, use_errno=True).ptrace
    assert ptrace(attach, pid, None, None) == 0, os.strerror(ctypes.get_errno())
    os.waitpid(pid, every_thread)
    t = threading.Thread(target=os.path.exists, args=(f"{mnt}/nobody-{pid}",))
    t.start()
    word = f"process {pid} has not responded for 30 s: it is stopped by a debugger"
    wait_for("the debugger is not logged", lambda: log_count(log, word))
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


def main(command, *args):
    if command == "die":
        die(int(args[0]), *args[1:])
    elif command == "same":
        same(*args)
    elif command == "refresh":
        refresh(int(args[0]), args[1])
    elif command == "traced":
        traced(int(args[0]), args[1])
    else:
        {"cancel": cancel, "waits": waits, "load": load, "stalled": stalled}[command](
            *map(int, args))


if __name__ == "__main__":
    hang_later()
    try:
        main(*sys.argv[2:])
    except Exception:
        traceback.print_exc()
        sys.stderr.flush()
        os._exit(1)  # not waiting for threads whose requests have no answer
