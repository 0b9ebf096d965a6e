#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 OR MIT
"""SQLite on a mount.

    kvfs_sqlite.py DIRECTORY JOURNAL writers PROCESSES ROWS   concurrent writers, then a check
    kvfs_sqlite.py DIRECTORY JOURNAL killed ROUNDS            a writer is killed, and again
    kvfs_sqlite.py DIRECTORY JOURNAL write ACKS               write until the end of the mount
    kvfs_sqlite.py DIRECTORY JOURNAL check ACKS|-             integrity_check; acknowledged rows
                                                              are there
Every commit appends the row's number to ACKS, which is elsewhere, after SQLite has confirmed it.
"""
import os
import random
import signal
import sqlite3
import subprocess
import sys
import tempfile
import time


# SQLite asks for its lock every 100 ms, and its holder takes it again at once: where a commit
# is slow, others meet the moment between only by chance. The test's own time limits the wait.
WAIT_SECONDS = 3600


def connect(path, journal):
    db = sqlite3.connect(path, timeout=WAIT_SECONDS, isolation_level=None)
    mode = db.execute(f"pragma journal_mode={journal}").fetchone()[0]
    if mode != journal:
        sys.exit(f"journal mode is {mode}, not {journal}")
    db.execute("pragma synchronous=extra")  # the journal's removal is synced, too
    return db


def blob(row):
    """The bytes that belong to the row, so that a check knows them."""
    rng = random.Random(row)
    return rng.randbytes(rng.choice([10, 200, 3000, 20000]))


def make(path, journal):
    db = connect(path, journal)
    db.execute("create table if not exists t (row integer primary key, who integer, bytes blob)")
    db.execute("create index if not exists who on t (who)")
    return db


def write(path, journal, acks):
    """Rows in transactions of one to four; a third of the transactions also removes old rows."""
    db = make(path, journal)
    row = (db.execute("select max(row) from t").fetchone()[0] or 0) + 1
    out = os.open(acks, os.O_WRONLY | os.O_APPEND)
    while True:
        rows = range(row, row + random.randint(1, 4))
        try:
            db.execute("begin immediate")
            for r in rows:
                db.execute("insert into t values (?, 0, ?)", (r, blob(r)))
            db.execute("commit")
        except sqlite3.Error as e:
            print(f"stopped: {e}")
            return
        row = rows[-1] + 1
        os.write(out, "".join(f"{r}\n" for r in rows).encode())


def check(path, journal, acks):
    db = connect(path, journal)
    found = db.execute("pragma integrity_check").fetchall()
    if found != [("ok",)]:
        sys.exit(f"integrity_check: {found[:5]}")
    rows = {}
    for row, data in db.execute("select row, bytes from t where who = 0"):
        if data != blob(row):
            sys.exit(f"row {row} has other bytes")
        rows[row] = 1
    lost = []
    if acks != "-":
        with open(acks, encoding="ascii") as f:
            lost = [int(r) for r in f.read().split("\n")[:-1] if int(r) not in rows]
    if lost:
        sys.exit(f"{len(lost)} rows were committed and are lost: {lost[:10]}")
    print(f"{len(rows)} rows, none of those acknowledged is missing")


def writers(path, journal, processes, count):
    db = make(path, journal)
    db.close()
    pids = []
    for writer in range(1, processes + 1):
        pid = os.fork()
        if pid == 0:
            own = connect(path, journal)
            for i in range(count):
                own.execute("begin immediate")
                n = own.execute("select count(*) from t where who = ?", (writer,)).fetchone()[0]
                if n != i:
                    print(f"writer {writer} sees {n} rows of its own, not {i}")
                    os._exit(1)
                own.execute("insert into t (who, bytes) values (?, ?)",
                            (writer, bytes(random.randint(0, 9000))))
                own.execute("commit")
            os._exit(0)
        pids.append(pid)
    if any([os.waitpid(p, 0)[1] for p in pids]):
        sys.exit("a writer failed")
    db = connect(path, journal)
    for writer in range(1, processes + 1):
        n = db.execute("select count(*) from t where who = ?", (writer,)).fetchone()[0]
        if n != count:
            sys.exit(f"{n} rows of writer {writer}, not {count}")
    check(path, journal, "-")


def killed(path, journal, rounds):
    with tempfile.NamedTemporaryFile(prefix="kvfs_acks.") as acks:
        for _ in range(rounds):
            p = subprocess.Popen([sys.executable, __file__, os.path.dirname(path), journal, "write",
                                  acks.name], stdout=subprocess.DEVNULL)
            before = os.path.getsize(acks.name)
            while os.path.getsize(acks.name) == before and p.poll() is None:
                time.sleep(0.05)  # it is at work, however slowly it starts
            time.sleep(random.uniform(0.3, 1.0))
            p.send_signal(signal.SIGKILL)
            p.wait()
            check(path, journal, acks.name)


def main(argv):
    path = f"{argv[0]}/{argv[1]}.db"
    if argv[2] == "writers":
        writers(path, argv[1], int(argv[3]), int(argv[4]))
    elif argv[2] == "killed":
        killed(path, argv[1], int(argv[3]))
    elif argv[2] == "write":
        write(path, argv[1], argv[3])
    else:
        check(path, argv[1], argv[3])


if __name__ == "__main__":
    main(sys.argv[1:])
