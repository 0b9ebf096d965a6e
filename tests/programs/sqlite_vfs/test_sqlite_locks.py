#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 OR MIT
"""test_sqlite_locks.py EXTENSION DPU: stock sqlite3 shells on one database of an image that another
process serves. They keep each other out as SQLite's lock states require; one is killed in each
state, and the next finds what was committed and can write. While the DPU is stopped the locks of a
killed writer stay busy: what it had sent is not executed yet. Exit code 77: no sqlite3, or no
io_uring."""
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time

EXTENSION, DPU = os.path.abspath(sys.argv[1]), os.path.abspath(sys.argv[2])
SEED = int(os.environ.get("SNIC_SEED", "0")) or int(time.time())
NIGHT = os.environ.get("SNIC_NIGHTLY", "") not in ("", "0")
BIG = "update t set b = b + 1, c = hex(randomblob(400))"  # more pages than the cache of 5 has


class Shell:
    """A sqlite3 that takes statements one at a time."""

    def __init__(self, volume, name="a.db"):
        self.marks = 0
        self.p = subprocess.Popen(["sqlite3", "-batch"], stdin=subprocess.PIPE,
                                  stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        out = self.run(f".load {EXTENSION[:-3]}\n.open file:{volume}/{name}?vfs=snicstore\n"
                       "pragma cache_size = 5; pragma cache_spill = 1")
        assert "rror" not in out, out

    def send(self, sql):
        self.marks += 1
        self.p.stdin.write(f"{sql};\n.print mark {self.marks}\n")
        self.p.stdin.flush()

    def wait(self):
        out = ""
        for line in self.p.stdout:
            if line == f"mark {self.marks}\n":
                return out.strip()
            out += line
        raise AssertionError("the shell ended: " + out)

    def run(self, sql):
        self.send(sql)
        return self.wait()

    def ok(self, sql, expected=None):
        out = self.run(sql)
        assert "rror" not in out and expected in (None, out), f"{sql}: {out}, not {expected}"
        return out

    def locked(self, sql):
        out = self.run(sql)
        assert "database is locked" in out, f"{sql}: {out}"

    def kill(self):
        self.p.kill()
        self.p.wait()
        self.p.stdout.close()
        try:
            self.p.stdin.close()
        except BrokenPipeError:
            pass

    def close(self):
        self.p.stdin.close()
        self.p.wait()
        self.p.stdout.close()


class Node:
    def __init__(self, folder):
        self.image, self.socket = f"{folder}/db.img", f"{folder}/dpu"
        with open(self.image, "wb") as f:
            f.truncate(64 << 20)
        self.p = None
        self.start()

    def start(self):
        self.p = subprocess.Popen([DPU, self.image, self.socket], stderr=subprocess.PIPE, text=True)
        for line in self.p.stderr:
            if "io_uring" in line:
                print("skip:", line)
                sys.exit(77)
            if "ready" in line:
                break
        else:
            raise AssertionError("the DPU did not start")

    def stop(self, number=signal.SIGTERM):
        self.p.send_signal(number)
        self.p.wait()
        self.p.stderr.close()


def recovered(node, value):
    """A process that comes afterwards finds the value and a whole database, and writes it again."""
    s = Shell(node.socket)
    s.run(".timeout 20000")
    s.ok("pragma integrity_check", "ok")
    s.ok("select count(*) || ' ' || min(b) || ' ' || max(b) from t", f"400 {value} {value}")
    s.ok(BIG)
    s.close()
    return value + 1


def recovered_beside(node, value):
    """One that comes while others have it open finds the value."""
    s = Shell(node.socket)
    s.ok("select count(*) || ' ' || min(b) || ' ' || max(b) from t", f"400 {value} {value}")
    s.close()


def fill(node, mode):
    s = Shell(node.socket)
    s.ok(f"pragma journal_mode = {mode}", mode)
    s.ok("drop table if exists t; create table t(a integer primary key, b, c);"
         "with recursive n(i) as (select 1 union all select i + 1 from n where i < 400) "
         "insert into t select i, 1, '' from n")
    s.close()
    return 1


def states(node):
    """Rollback journal: killed in SHARED, RESERVED, PENDING and EXCLUSIVE."""
    value = fill(node, "delete")
    b = Shell(node.socket)
    a = Shell(node.socket)
    a.ok("begin; select max(b) from t", str(value))
    b.ok("select max(b) from t", str(value))
    b.locked("begin immediate; update t set b = b + 1; commit")
    b.ok("rollback")
    a.kill()
    value = recovered(node, value)

    a = Shell(node.socket)
    a.ok("begin immediate; update t set b = 1000 where a = 1")
    b.ok("select max(b) from t", str(value))
    b.locked("begin immediate")
    a.kill()
    value = recovered(node, value)

    a, c = Shell(node.socket), Shell(node.socket)
    b.ok("begin; select max(b) from t", str(value))
    a.ok("begin; update t set b = 1000 where a = 1")
    a.locked("commit")
    c.locked("select max(b) from t")
    a.kill()
    b.ok("select max(b) from t; commit", str(value))
    c.close()
    value = recovered(node, value)

    a = Shell(node.socket)
    a.ok(f"begin exclusive; {BIG}; {BIG}")
    b.locked("select max(b) from t")
    a.kill()
    value = recovered(node, value)
    b.close()


def wal(node):
    """WAL: readers beside a writer, who is killed with frames in the WAL."""
    value = fill(node, "wal")
    b = Shell(node.socket)
    b.ok("begin; select max(b) from t", str(value))
    a = Shell(node.socket)
    a.ok(BIG)
    b.ok("select max(b) from t", str(value))
    b.ok("commit; select max(b) from t", str(value + 1))
    a.ok(f"begin immediate; {BIG}; {BIG}")
    b.ok("select max(b) from t", str(value + 1))
    b.locked("begin immediate")
    a.kill()
    value = recovered(node, value + 1)
    a = Shell(node.socket)
    a.ok("pragma wal_checkpoint(truncate)")
    a.kill()
    b.close()
    recovered(node, value)


def lingering(node):
    """The kernel drops a killed writer's locks at once, but the DPU has its requests yet."""
    value = fill(node, "delete")
    b, a = Shell(node.socket), Shell(node.socket)
    b.ok("select max(b) from t", str(value))
    a.ok(f"begin exclusive; {BIG}")
    node.p.send_signal(signal.SIGSTOP)
    a.send(f"{BIG}; commit")  # the first of its writes waits for the DPU
    time.sleep(0.2)
    a.kill()
    b.locked("select max(b) from t")
    node.p.send_signal(signal.SIGCONT)
    recovered(node, value)
    b.close()


def restarted(node):
    """A DPU that is killed: its connections fail, new ones of the same process work."""
    value = fill(node, "wal")
    a = Shell(node.socket)
    a.ok("select max(b) from t", str(value))
    node.stop(signal.SIGKILL)
    out = a.run("begin immediate; update t set b = 7")
    assert "rror" in out, out
    node.start()
    a.run("rollback")
    a.ok(f".open file:{node.socket}/a.db?vfs=snicstore\nselect max(b) from t", str(value))
    a.close()
    value = recovered(node, value)

    # The locks of the ended link exclude no one: it must not touch what others have made since.
    old = Shell(node.socket)
    old.ok("select max(b) from t", str(value))
    node.stop(signal.SIGKILL)
    node.start()
    b = Shell(node.socket)
    b.ok(BIG)
    old.run(".open :memory:\nselect 1")
    recovered_beside(node, value + 1)
    b.ok(BIG)
    recovered_beside(node, value + 2)
    old.close()
    b.close()

    value = fill(node, "delete")
    a = Shell(node.socket)
    a.ok("pragma cache_size = 1000; begin; select max(b) from t", str(value))
    node.stop(signal.SIGKILL)
    node.start()
    b = Shell(node.socket)
    b.ok(f"begin immediate; {BIG}; {BIG}")
    out = a.run("update t set b = 7 where a = 1; commit")
    assert "rror" in out, out
    b.kill()
    a.close()
    recovered(node, value)


def unnamed(node):
    """The socket's name is gone, its DPU is not: those that are connected miss no hot journal."""
    value = fill(node, "delete") + 1
    b, a = Shell(node.socket), Shell(node.socket)
    a.ok(BIG)  # now b's cache has only some of the pages
    b.ok("select max(b) from t", str(value))
    a.ok(f"begin immediate; {BIG}")  # the database has some of it
    os.rename(node.socket, node.socket + ".away")
    a.kill()
    b.run(".timeout 20000")
    b.ok("select count(*) || ' ' || min(b) || ' ' || max(b) from t", f"400 {value} {value}")
    os.rename(node.socket + ".away", node.socket)
    b.close()
    recovered(node, value)


def second(node, folder):
    """Another image at the same socket: refused, and nothing of the first is removed."""
    value = fill(node, "wal")
    a = Shell(node.socket)
    a.ok("begin; select max(b) from t", str(value))
    names = sorted(os.listdir(node.socket + ".locks"))
    assert any(n.endswith(".lock") for n in names), names
    other = f"{folder}/other.img"
    with open(other, "wb") as f:
        f.truncate(64 << 20)
    p = subprocess.run([DPU, other, node.socket], stderr=subprocess.PIPE, text=True, check=False)
    assert p.returncode == 1 and "in use by another mount" in p.stderr, p
    assert sorted(os.listdir(node.socket + ".locks")) == names
    a.ok("commit")
    a.close()
    recovered(node, value)


def at_random(node, rounds):
    """Killed at any time, with checkpoints: a transaction is whole or not there."""
    chance = random.Random(SEED)
    for mode in ("delete", "wal"):
        value = fill(node, mode)
        for _ in range(rounds):
            a = Shell(node.socket)
            a.ok("pragma wal_autocheckpoint = 20; select 1")
            a.send(f"{BIG}; pragma wal_checkpoint; " * 20 + BIG)
            time.sleep(chance.random() * 0.3)
            a.kill()
            b = Shell(node.socket)
            b.run(".timeout 20000")
            b.ok("pragma integrity_check", "ok")
            low, high = b.ok("select min(b) || ' ' || max(b) from t").split()
            assert low == high and value <= int(low) <= value + 21, (low, high, value)
            value = int(low)
            b.close()


def main():
    if shutil.which("sqlite3") is None:
        print("skip: no sqlite3")
        return 77
    print("seed", SEED)
    with tempfile.TemporaryDirectory() as folder:
        node = Node(folder)
        try:
            for test in (states, wal, lingering, unnamed, restarted):
                test(node)
                print(test.__name__, "ok", flush=True)
            second(node, folder)
            print("second ok")
            at_random(node, 60 if NIGHT else 3)
            print("at_random ok")
            node.stop()
        finally:
            node.p.kill()
    return 0


sys.exit(main())
