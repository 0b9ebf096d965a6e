#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Two mounts of one store, used at the same time.

    kvfs_two_mounts.py work MOUNT NOTES NAME COUNT   work there as NAME until NOTES/stop exists, or
                                                 until the mount is no more
    kvfs_two_mounts.py hold MOUNT NOTES NAME         hold a lock until killed; NOTES/NAME: it has it
    kvfs_two_mounts.py lock MOUNT                    wait for that lock
    kvfs_two_mounts.py gone MOUNT OTHER              what OTHER removes of what MOUNT knows
    kvfs_two_mounts.py check MOUNT NOTES             what was acknowledged is there, and is there
                                                     once

NOTES is a folder on another file system. There each worker writes what it will do ("?") and what it
knows to be done ("+") or refused ("-"): a "?" without an answer may have happened or not.
"""
import errno
import fcntl
import mmap
import os
import random
import sys
import time

END = (errno.ENOTCONN, errno.EIO, errno.ECONNABORTED, errno.ETIMEDOUT)
FOLDERS = 4
RACES = 40  # names that all want
LINE = 64  # bytes; divides a block, so that none is half there
# No log grows past it: on RADOS appends of several sessions may overwrite each other behind the
# first stripe, 4 MiB (kvfs.h).
LOG_BYTES = int(os.environ.get("LOG_BYTES", 1 << 40))


class Over(Exception):
    """The mount is no more."""


class Worker:
    def __init__(self, mount, notes, name):
        self.mount, self.name, self.count = mount, name, 0
        self.random = random.Random(name)
        self.notes = open(f"{notes}/notes.{name}", "a", encoding="ascii", buffering=1)
        self.own = None  # path of the file that moves around
        self.log = 0  # number of the log that was not full yet

    def note(self, mark, *words):
        print(mark, *words, file=self.notes)

    def path(self, *parts):
        return os.path.join(self.mount, *parts)

    def append(self):
        """A record of its own in the shared file, the first one that is not full: a line, now and
        then more of them than go with a commit."""
        self.count += 1
        lines = self.random.randrange(1200, 3000) if self.random.randrange(40) == 0 else 1
        record = "".join(
            f"{self.name} {self.count} {i} ".ljust(LINE - 1, ".") + "\n" for i in range(lines)
        ).encode()
        self.note("?", "append", self.name, self.count, lines)
        while True:
            path = self.path(f"log{self.log}")
            fd = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
            try:
                if os.fstat(fd).st_size < LOG_BYTES:
                    break
            except BaseException:
                os.close(fd)
                raise
            os.close(fd)
            self.log += 1
        try:
            assert os.write(fd, record) == len(record)
            os.fsync(fd)
        finally:
            os.close(fd)
        self.note("+", "append", self.name, self.count, lines)

    def race(self):
        """One of all makes a name."""
        which = self.random.randrange(RACES)
        round_ = self.count // 20
        what = f"{round_}.{which}"
        self.note("?", "race", what)
        try:
            fd = os.open(self.path("race", what), os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o644)
        except FileExistsError:
            self.note("-", "race", what)
            return
        try:
            os.write(fd, self.name.encode())
            os.fsync(fd)
        finally:
            os.close(fd)
        self.note("+", "race", what)

    def counter(self):
        """Under a lock: one more."""
        lock = os.open(self.path("counter.lock"), os.O_RDWR | os.O_CREAT, 0o644)
        try:
            fcntl.lockf(lock, fcntl.LOCK_EX)
            self.note("?", "counter")
            fd = os.open(self.path("counter"), os.O_RDWR | os.O_CREAT, 0o644)
            try:
                n = int(os.pread(fd, 100, 0) or b"0")
                os.pwrite(fd, b"%020d" % (n + 1), 0)
                os.fsync(fd)
            finally:
                os.close(fd)
            self.note("+", "counter", n + 1)
        finally:
            os.close(lock)

    def move(self):
        """A file of its own goes from folder to folder, over another name of its own."""
        to = f"d{self.random.randrange(FOLDERS)}/{self.name}.{self.random.randrange(3)}"
        if self.own is None:
            to = f"d0/{self.name}.0"
            with open(self.path(to), "wb") as f:
                f.write(self.name.encode())
                f.flush()
                os.fsync(f.fileno())
        elif to != self.own:
            os.rename(self.path(self.own), self.path(to))
            try:
                os.lstat(self.path(self.own))
            except FileNotFoundError:
                pass
            else:
                sys.exit(f"{self.own} is there after it was renamed to {to}")
        with open(self.path(to), "rb") as f:
            assert f.read() == self.name.encode(), to
        self.own = to

    def look(self):
        """Each name is listed once; what is listed can be looked at unless it has gone."""
        folder = self.path(f"d{self.random.randrange(FOLDERS)}")
        names = os.listdir(folder)
        assert len(names) == len(set(names)), names
        for name in names:
            try:
                os.stat(os.path.join(folder, name))
            except FileNotFoundError:
                pass

    def step(self):
        try:
            self.random.choice(
                [self.append, self.append, self.race, self.counter, self.move, self.move, self.look]
            )()
        except OSError as e:
            if e.errno in END:
                self.note("!", e.errno)
                raise Over from e
            raise


def work(mount, notes, name, count):
    workers = []
    for i in range(int(count)):
        pid = os.fork()
        if pid == 0:
            w = Worker(mount, notes, f"{name}{i}")
            try:
                while not os.path.exists(f"{notes}/stop"):
                    w.step()
            except Over:
                os._exit(3)
            except BaseException as e:
                print(f"{name}{i}: {type(e).__name__}: {e}", flush=True)
                os._exit(1)
            os._exit(0)
        workers.append(pid)
    ends = {os.waitstatus_to_exitcode(os.waitpid(p, 0)[1]) for p in workers}
    return max(ends - {3}, default=0) or (3 if 3 in ends else 0)


def hold(mount, notes, name):
    fd = os.open(f"{mount}/held.lock", os.O_RDWR | os.O_CREAT, 0o644)
    fcntl.lockf(fd, fcntl.LOCK_EX)
    with open(f"{notes}/{name}", "w", encoding="ascii"):
        pass
    time.sleep(3600)


def lock(mount):
    fd = os.open(f"{mount}/held.lock", os.O_RDWR | os.O_CREAT, 0o644)
    fcntl.lockf(fd, fcntl.LOCK_EX)
    return 0


def gone(mount, other):
    """An open file stays; one that is only known here, which others cannot see, is stale."""
    for name in "opened", "known":
        with open(f"{mount}/{name}", "w", encoding="ascii") as f:
            f.write(name)
    os.mkdir(f"{mount}/folder")
    opened = os.open(f"{mount}/opened", os.O_RDWR)
    known = [os.open(f"{mount}/{name}", os.O_PATH) for name in ("known", "folder")]
    for name in "opened", "known":
        os.unlink(f"{other}/{name}")
    os.rmdir(f"{other}/folder")
    for fd in known:
        until = time.monotonic() + 600
        while True:  # until the kernel asks again
            try:
                os.fstat(fd)
            except OSError as e:
                if e.errno != errno.ESTALE:
                    sys.exit(f"removed elsewhere, and known here: {e}")
                break
            if time.monotonic() > until:
                sys.exit("removed elsewhere, and known here: it is still there")
            time.sleep(0.1)
        os.close(fd)
    os.pwrite(opened, b"it is", 0)
    if os.pread(opened, 100, 0) != b"it isd":
        sys.exit("removed elsewhere, and open here: other bytes")
    os.close(opened)
    for name in "opened", "known", "folder":
        if os.path.exists(f"{mount}/{name}"):
            sys.exit(f"{name} is there again")
    return 0


def notes_of(folder):
    """(worker, mark, words) of all notes."""
    for name in sorted(os.listdir(folder)):
        if name.startswith("notes."):
            with open(f"{folder}/{name}", encoding="ascii") as f:
                for line in f:
                    mark, *words = line.split()
                    yield name[6:], mark, words


def logs_of(mount):
    """The logs, in the order in which they were filled."""
    n = 0
    while os.path.exists(f"{mount}/log{n}"):
        yield f"{mount}/log{n}"
        n += 1


def twice(mount, log, found, done):
    """A report of lines that are twice in the logs, taken as one."""
    first, text = {}, []
    for i, record in enumerate(found):
        if record in first and record is not None:
            text.append(f"{' '.join(record)} at {first[record] * LINE} and {i * LINE}")
        first.setdefault(record, i)
    stored = bytearray()
    page = mmap.mmap(-1, 1 << 16)  # for its alignment
    for path in logs_of(mount):
        fd = os.open(path, os.O_RDONLY | os.O_DIRECT)
        at = 0
        while n := os.preadv(fd, [page], at):
            stored += page[:n]
            at += n
        os.close(fd)
    return (
        f"{len(text)} lines are in the logs twice: {text[:5]}; of {len(log)} bytes, "
        f"{len(done - set(found))} synced ones are lost; past the page cache there are "
        f"{'the same' if stored == log else 'other'} {len(stored)} bytes"
    )


def check(mount, notes):
    begun, done, won, wanted, counted, tried = set(), set(), {}, set(), [], 0
    for worker, mark, words in notes_of(notes):
        if words[:1] == ["append"]:
            lines = ((words[1], words[2], str(i)) for i in range(int(words[3])))
            (begun if mark == "?" else done).update(lines)
        elif words[:1] == ["race"] and mark == "+":
            if words[1] in won:
                sys.exit(f"{words[1]} was made by {won[words[1]]} and by {worker}")
            won[words[1]] = worker
        elif words[:1] == ["race"] and mark == "-":
            wanted.add(words[1])
        elif words[:1] == ["counter"]:
            tried += mark == "?"
            if mark == "+":
                counted.append(int(words[1]))
    log = b""
    for path in logs_of(mount):
        with open(path, "rb") as f:
            log += f.read()
    found = []
    for at in range(0, len(log), LINE):
        line = log[at : at + LINE]
        words = line.decode("latin1").split()
        if len(words) == 4 and len(line) == LINE:
            found.append(tuple(words[:3]))
        elif line == bytes(LINE):
            found.append(None)  # the place of a large one that was never written
        else:
            sys.exit(f"the log at {at}: {line!r}")
    there = set(found) - {None}
    if len(found) - found.count(None) != len(there):
        sys.exit(twice(mount, log, found, done))
    if done - there:
        sys.exit(f"synced and lost: {sorted(done - there)[:5]}")
    if there - begun:
        sys.exit(f"no worker appended {sorted(there - begun)[:5]}")
    for what, worker in won.items():
        with open(f"{mount}/race/{what}", encoding="ascii") as f:
            text = f.read()
        if text != worker:
            sys.exit(f"{what} was made by {worker}, but contains '{text}'")
    for what in wanted:
        os.stat(f"{mount}/race/{what}")
    with open(f"{mount}/counter", "rb") as f:
        n = int(f.read())
    if len(counted) != len(set(counted)):
        sys.exit("two had the counter's lock at once")
    if not len(counted) <= n <= tried:
        sys.exit(f"the counter is {n}, after {len(counted)} to {tried} additions")
    print(f"{len(done)} lines appended, {len(won)} races, {n} counted")
    return 0


def main(argv):
    return {"work": work, "hold": hold, "lock": lock, "gone": gone, "check": check}[argv[0]](
        *argv[1:])


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
