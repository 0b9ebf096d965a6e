#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 OR MIT
"""page_server under page_load, which checks every page: modes, kills, restarts, hostile bytes.

    test_page_server.py SERVER LOAD MODE SNIC_FSCK KV_SERVER [--only NAME] [--seed N]

MODE: monolith, two, library.

Exit code: 0, 1, or 77 when everything was skipped. No check depends on timing.
"""
import os
import random
import re
import select
import shutil
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import threading
import time
import traceback

sys.path.insert(0, os.path.join(os.path.dirname(os.path.realpath(__file__)), "../../support"))
from kvnode import WAIT, Closed, free_port  # noqa: E402

NIGHTLY = os.environ.get("SNIC_NIGHTLY", "") not in ("", "0")
PAGES = 300
TOOLS = {}  # snic_fsck and kv_server, by name
REQUEST, REPLY = 56, 48
STAT, GET, LOG, READ = 1, 2, 3, 4
OK, BAD, RANGE, AHEAD, GAP, BUSY, DAMAGED = 0, 1, 2, 3, 4, 5, 8


def crc32c(data):
    crc = 0xffffffff
    for b in data:
        crc ^= b
        for _ in range(8):
            crc = crc >> 1 ^ (0x82f63b78 if crc & 1 else 0)
    return crc ^ 0xffffffff


def request(op, page=0, lsn=0, previous=0, offset=0, data=b"", number=1, length=None):
    n = len(data) if length is None else length
    head = struct.pack("<4sIQ", b"SPGQ", REQUEST + len(data), number)
    rest = struct.pack("<BBHQQQII", op, 0, 0, page, lsn, previous, offset, n) + data
    return head + struct.pack("<I", crc32c(head + rest)) + rest


class Client:
    def __init__(self, port):
        self.sock = socket.create_connection(("127.0.0.1", port), timeout=WAIT)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.sock.close()

    def take(self, n):
        out = b""
        while len(out) < n:
            try:
                got = self.sock.recv(n - len(out))
            except ConnectionError as e:
                raise Closed(str(e)) from e
            if not got:
                raise Closed("end of stream")
            out += got
        return out

    def reply(self):
        """(id, status, lsn, data)"""
        h = self.take(REPLY)
        magic, size, number, crc, status, _, _, lsn, length = struct.unpack("<4sIQIHHQQI4x", h)
        assert magic == b"SPGR" and size == REPLY + length, "not a reply: %r" % h
        assert crc == crc32c(h[:16] + h[20:]), "a reply's checksum"
        return number, status, lsn, self.take(length)

    def ask(self, *args, **more):
        self.sock.sendall(request(*args, **more))
        return self.reply()


class Node:
    """One page_server on files of its own in a directory that goes with it."""

    def __init__(self, server, load, mode, *options):
        self.server, self.load_binary, self.mode = server, load, mode
        self.directory = tempfile.mkdtemp(prefix="pagetest.")
        self.port = free_port()
        self.options = ["--pages", str(PAGES), "--log-size", "1M", "--buffers", "16", *options]
        self.process = None

    def environment(self):
        e = dict(os.environ)
        e.setdefault("ASAN_OPTIONS", "quarantine_size_mb=8:malloc_context_size=8")
        return e

    def start(self):
        args = [self.server, "--listen", "127.0.0.1:%d" % self.port]
        if self.mode == "monolith":
            args += ["--monolith", "--dir", os.path.join(self.directory, "d")]
        else:
            args += ["--file", os.path.join(self.directory, "img"),
                     "--offload", "on" if self.mode == "two" else "off"]
        with open(os.path.join(self.directory, "log"), "ab") as log:
            self.process = subprocess.Popen(args + self.options, stdout=log, stderr=log,
                                            env=self.environment())
        end = time.monotonic() + WAIT
        while time.monotonic() < end:
            assert self.process.poll() is None, "the server ended:\n" + self.log()
            try:
                with Client(self.port) as c:
                    if c.ask(STAT)[1] == OK:
                        return self
            except (OSError, Closed):
                pass
            time.sleep(0.02)
        raise AssertionError("the server does not get ready:\n" + self.log())

    def log(self):
        with open(os.path.join(self.directory, "log"), errors="replace") as f:
            return f.read()

    def load_args(self, op, *more):
        return [self.load_binary, "--server", "127.0.0.1:%d" % self.port, "--op", op,
                "--clients", "3", "--pipeline", "8", "--report", "--timeout", str(int(WAIT)), *more]

    def load(self, op, *more):
        """Figures of a run; it must have found nothing wrong."""
        r = subprocess.run(self.load_args(op, *more), stdout=subprocess.PIPE,
                           stderr=subprocess.PIPE, timeout=WAIT, env=self.environment())
        return self.figures(r.returncode, r.stdout, r.stderr)

    def figures(self, code, out, err):
        assert code == 0, "page_load: %d\n%s%s\n%s" % (code, out.decode(), err.decode(), self.log())
        return dict((k, float(v)) for k, v in re.findall(r"(\w+)=([0-9.]+)", out.decode()))

    def pid(self, role):
        """Of the newest process that plays the role."""
        if self.mode == "monolith":
            return self.process.pid
        found = re.findall(r"started the %s role, process (\d+)" % role, self.log())
        return int(found[-1])

    def stop(self):
        if self.process is None:
            return
        self.process.terminate()
        code = self.process.wait(timeout=WAIT)
        self.process = None
        assert code == 0, "the server ended with %d:\n%s" % (code, self.log())
        assert "Sanitizer" not in self.log() and "runtime error" not in self.log(), self.log()

    def kill(self):
        """Everything at once, as when the machine stops; what the kernel has is kept."""
        roles = [] if self.mode == "monolith" else [self.pid("dpu"), self.pid("host")]
        for p in [self.process.pid, *roles]:
            try:
                os.kill(p, signal.SIGKILL)
            except ProcessLookupError:
                pass
        self.process.wait()
        self.process = None

    def close(self):
        if self.process is not None:
            self.process.terminate()
            try:
                self.process.wait(timeout=WAIT)
            except subprocess.TimeoutExpired:
                self.process.kill()
        shutil.rmtree(self.directory, ignore_errors=True)


# What is read is not what was logged: a lost, doubled or misplaced update, an old page.
def test_page_server_filled_mixed_load_every_page_right(make):
    n = make().start()
    n.load("fill", "--check")
    got = n.load("mixed", "--update-percent", "30", "--requests", "6000", "--check")
    assert got["updates"] > 1000, got
    gets = n.load("get", "--requests", "2000")
    if n.mode == "two":
        assert gets["by_dpu"] == gets["operations"], "reads went to the host: %r" % gets
    else:
        assert gets["by_dpu"] == 0, gets
    n.stop()


# The log file is written over while its updates are not in their pages yet, or never again.
def test_page_server_small_log_many_updates_halves_turn(make):
    n = make().start()
    n.load("fill", "--update-bytes", "2000")
    n.load("log", "--update-bytes", "2000", "--requests", "3000", "--check")
    n.stop()
    n.start()
    n.load("check", "--update-bytes", "2000")
    n.stop()


# An update that was acknowledged is gone after an orderly end, or after the end of everything.
def test_page_server_updated_restarted_all_there(make):
    n = make().start()
    n.load("fill")
    n.stop()
    n.start()
    n.load("log", "--requests", "1500")
    with Client(n.port) as c:
        newest = c.ask(STAT)[2]
    assert newest >= PAGES + 1500, newest
    n.kill()
    n.start()
    with Client(n.port) as c:
        assert c.ask(STAT)[2] == newest, "LSN %d was acknowledged" % newest
    n.load("check")
    n.load("mixed", "--requests", "1500", "--check")
    n.stop()


# A role dies under load: an acknowledged update is lost, an old page served, or all stands still.
def test_page_server_mixed_load_roles_killed_nothing_lost(make, rng):
    n = make().start()
    n.load("fill")
    end = time.monotonic() + WAIT
    kills = updates = gets = 0
    while kills == 0 or updates == 0 or gets == 0:  # a busy machine may not come to all in once
        assert time.monotonic() < end, (kills, updates, gets)
        seconds = 30 if NIGHTLY else 3
        p = subprocess.Popen(n.load_args("mixed", "--update-percent", "30", "--reconnect",
                                         "--check", "--seconds", str(seconds)),
                             stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=n.environment())
        last = time.monotonic() + seconds  # then what is under way has to be answered
        while p.poll() is None:
            time.sleep(rng.uniform(0.2, 0.8))
            if p.poll() is None and time.monotonic() < last:
                try:
                    os.kill(n.pid(rng.choice(["dpu", "host"])), signal.SIGKILL)
                    kills += 1
                except ProcessLookupError:
                    pass
        got = n.figures(p.returncode, *p.communicate())
        updates += got["updates"]
        gets += got["gets"]
    n.load("check")
    n.stop()


def refused_start(n, args):
    """The output of a server that must not start."""
    r = subprocess.run(args, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=WAIT,
                       env=n.environment())
    out = r.stdout.decode(errors="replace")
    assert r.returncode not in (0, 124) and "Sanitizer" not in out, (args, r.returncode, out)
    return out


def space_taken(n):
    """Blocks of the files in the directory; of an image the segments that are not free."""
    if n.mode == "monolith":
        d = os.path.join(n.directory, "d")
        return sum(os.stat(os.path.join(d, f)).st_blocks for f in os.listdir(d))
    out = subprocess.run([TOOLS["snic_fsck"], os.path.join(n.directory, "img")],
                         stdout=subprocess.PIPE, timeout=WAIT, check=True).stdout.decode()
    return -int(re.search(r"free segments (\d+)", out).group(1))


# A start with other sizes takes pages for garbage and writes old updates over them, or keeps
# space for the sizes that it was refused for. The line names both sizes, each in its place.
def test_page_server_started_with_other_sizes_refused_nothing_lost(make):
    n = make().start()
    n.load("fill")
    n.load("log", "--requests", "8000")  # both halves of the log are written over
    n.stop()
    before = space_taken(n)
    for option, value, words in [
            ("--page-bytes", "16K", "is 16384, but the pages were made with 8192"),
            ("--pages", str(PAGES // 2),
             "is %d, but the pages were made with %d" % (PAGES // 2, PAGES)),
            ("--log-size", "2M", "is 2097152, but the pages were made with 1048576"),
            ("--pages", str(PAGES * 2),
             "is %d, but the pages were made with %d" % (PAGES * 2, PAGES)),
            ("--remote-file", None, "the pages were made without --remote-file")]:
        args = [a for a in [n.server, "--listen", "127.0.0.1:%d" % n.port, *n.options, option,
                            value] if a is not None]
        args += ["--monolith", "--dir", os.path.join(n.directory, "d")] \
            if n.mode == "monolith" else ["--file", os.path.join(n.directory, "img")]
        out = refused_start(n, args)
        assert option in out and words in out, (option, out)
        assert space_taken(n) == before, (option, space_taken(n), before)
    n.start()
    assert n.load("check")["checked"] == PAGES
    n.load("mixed", "--requests", "500", "--check")
    n.stop()


# The image of a kv_server is taken, and its space; and the other way round.
def test_page_server_image_of_kv_server_refused_unchanged(make):
    n = make()
    kv = TOOLS["kv_server"]
    if n.mode == "monolith":  # plain files share no space
        return
    img = os.path.join(n.directory, "img")
    common = ["--listen", "127.0.0.1:%d" % n.port, "--file", img, "--size", "128M"]
    store = subprocess.Popen([kv, *common, "--segment", "16M"], env=n.environment(),
                             stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    end = time.monotonic() + WAIT
    while True:
        try:
            with socket.create_connection(("127.0.0.1", n.port), timeout=WAIT) as s:
                s.sendall(b"SET k v\r\n")
                if s.recv(5) == b"+OK\r\n":
                    break
        except OSError:
            pass
        assert store.poll() is None and time.monotonic() < end
        time.sleep(0.02)
    store.terminate()
    assert store.wait(timeout=WAIT) == 0
    before = space_taken(n)
    out = refused_start(n, [n.server, *common, *n.options])
    assert "the image holds files of another program ('log-" in out, out
    assert space_taken(n) == before
    os.unlink(img)
    n.start()
    n.load("fill")
    n.stop()
    before = space_taken(n)
    out = refused_start(n, [kv, *common, "--segment", "16M"])
    assert "it holds files of another program ('" in out, out
    assert space_taken(n) == before
    n.start()
    assert n.load("check")["checked"] == PAGES
    n.stop()


def flip(path, at):
    with open(path, "r+b") as f:
        f.seek(at)
        b = f.read(1)
        f.seek(at)
        f.write(bytes([b[0] ^ 64]))


# One page whose copy rots takes the log's room, and all others' updates wait for ever; or it is
# served in an older version after a restart.
def test_page_server_rotted_page_others_go_on(make):
    page = free_port()
    n = make("--metrics", "127.0.0.1:%d" % page)
    if n.mode != "monolith":
        return  # its files are in an image
    file = os.path.join(n.directory, "d", "pages")
    n.start()

    def others():
        with Client(n.port) as c:
            lsn = c.ask(GET, page=1)[2]
            for new in range(lsn + 1000, lsn + 1400):
                assert c.ask(LOG, page=1, lsn=new, previous=lsn, data=b"y" * 8000)[1] == OK, n.log()
                lsn = new
            assert c.ask(GET, page=1, lsn=lsn)[1:3] == (OK, lsn)

    def damaged():
        with Client(n.port) as c:
            assert c.ask(GET, page=0)[1] == DAMAGED
            assert c.ask(LOG, page=0, lsn=4, previous=3, data=b"x")[1] == DAMAGED
        assert metric(page, "damaged_pages") == 1

    with Client(n.port) as c:
        for lsn in 1, 2:
            assert c.ask(LOG, page=0, lsn=lsn, previous=lsn - 1, data=b"x")[1] == OK
            assert c.ask(GET, page=0, lsn=lsn)[1] == OK
        flip(file, 100)  # LSN 2 is in place 0
        assert c.ask(LOG, page=0, lsn=3, previous=2, data=b"x")[1] == OK
    others()
    damaged()
    assert metric(page, "dropped_updates") == 1
    n.stop()
    flip(file, 100)  # the mark stands
    n.start()
    damaged()
    others()
    with Client(n.port) as c:
        assert c.ask(LOG, page=0, lsn=9, data=b"z" * (8192 - 32))[1] == OK
        assert c.ask(GET, page=0, lsn=9)[1:3] == (OK, 9)
    others()
    n.kill()
    n.start()
    with Client(n.port) as c:
        assert c.ask(GET, page=0, lsn=9)[1:3] == (OK, 9)
        assert c.ask(LOG, page=0, lsn=10, previous=9, data=b"x")[1] == OK
    assert metric(page, "damaged_pages") == 0
    n.stop()


# A wrong request is done, answered with something else than an error, or not at all.
def test_page_server_wrong_requests_answered_with_errors(make):
    n = make().start()
    with Client(n.port) as c:
        for want, args in [
                (RANGE, dict(op=GET, page=PAGES)),
                (RANGE, dict(op=GET, page=2 ** 64 - 1)),
                (AHEAD, dict(op=GET, page=1, lsn=1)),
                (BAD, dict(op=0)), (BAD, dict(op=255)), (BAD, dict(op=READ, length=512)),
                (BAD, dict(op=LOG, page=1, lsn=0, data=b"x")),
                (BAD, dict(op=LOG, page=1, lsn=2 ** 63, data=b"x")),
                (BAD, dict(op=LOG, page=1, lsn=5, previous=5, data=b"x")),
                (GAP, dict(op=LOG, page=1, lsn=5, previous=4, data=b"x")),
                (RANGE, dict(op=LOG, page=PAGES, lsn=5, data=b"x")),
                (RANGE, dict(op=LOG, page=1, lsn=5, data=b"")),
                (RANGE, dict(op=LOG, page=1, lsn=5, offset=8192 - 32, data=b"x")),
                (RANGE, dict(op=LOG, page=1, lsn=5, offset=2 ** 32 - 1, data=b"xyz")),
                (BAD, dict(op=LOG, page=1, lsn=5, data=b"x", length=2)),
                (BAD, dict(op=GET, page=1, data=b"more"))]:
            number, status, _, data = c.ask(number=77, **args)
            assert (number, status, data) == (77, want, b""), (args, status)
        q = bytearray(request(LOG, page=1, lsn=5, data=b"hello"))
        q[-1] ^= 1
        c.sock.sendall(q)
        assert c.reply()[1] == BAD, "a wrong checksum"
        assert c.ask(LOG, page=1, lsn=5, data=b"hello")[1] == OK
        assert c.ask(LOG, page=1, lsn=5, data=b"hello")[1] == OK, "the same update once more"
        _, status, lsn, data = c.ask(GET, page=1, lsn=5)
        assert (status, lsn, data[32:38]) == (OK, 5, b"hello\0")
    n.stop()


# Requests before bytes that are no protocol are answered, updates that wait for the log, too.
# The baseline only: the director resets what it has not sent yet.
def test_page_server_garbage_behind_requests_all_answered(make):
    n = make()
    if n.mode != "monolith":
        return
    n.start()
    with Client(n.port) as c:
        requests = [request(LOG, page=p, lsn=p + 1, previous=0, data=b"x", number=p + 1)
                    for p in range(8)]
        c.sock.sendall(b"".join(requests) + b"\xff" * 200)
        got = {}
        try:
            while True:
                number, status, _, _ = c.reply()
                got[number] = status
        except Closed:
            pass
        assert all(got.get(p + 1) == OK for p in range(8)), got
    n.stop()


# Bytes that are no protocol crash the server, hang it, or take others with them.
def test_page_server_garbage_sent_others_go_on(make, rng):
    n = make().start()
    n.load("fill")
    for i in range(40):
        with Client(n.port) as c:
            q = bytearray(request(rng.choice([GET, LOG]), page=rng.randrange(PAGES), lsn=1,
                                  data=b"" if i % 2 else b"z" * 100))
            for _ in range(rng.randrange(1, 4)):
                q[rng.randrange(len(q))] = rng.randrange(256)
            cut = rng.randrange(1, len(q) + 1)
            c.sock.sendall(bytes(q[:cut]) if i % 3 else rng.randbytes(200))
            c.sock.shutdown(socket.SHUT_WR)
            try:
                while c.sock.recv(65536):
                    pass
            except ConnectionError:
                pass
    n.load("mixed", "--requests", "1000", "--check")
    n.stop()


def metric(port, name):
    with socket.create_connection(("127.0.0.1", port), timeout=WAIT) as s:
        s.sendall(b"GET /metrics HTTP/1.0\r\n\r\n")
        text = s.makefile("rb").read().decode()
    return int(re.search(r"^\w+_%s (\d+)$" % name, text, re.M).group(1))


# Clients that do not read their replies take what the others' reads need: they are not offloaded
# any more, wait, or fail; or the replies of those that read again are lost.
def test_page_server_paused_clients_others_offloaded(make):
    page = free_port()
    n = make("--metrics", "127.0.0.1:%d" % page).start()
    n.load("fill")
    gets, sent = 200, 300
    wanted = [request(GET, page=i % PAGES, number=i) for i in range(sent)]
    with Client(n.port) as c:
        for i in range(PAGES):  # all are replayed, and known to the DPU
            assert c.ask(GET, page=i)[1] == OK
        paused = [Client(n.port) for _ in range(24)]
        for p in paused:
            p.sock.sendall(b"".join(wanted))  # 2.4 MB of replies to each
        before = metric(page, "offloaded") if n.mode == "two" else 0
        for i in range(gets):
            number, status, _, data = c.ask(GET, page=i % PAGES, number=i)
            assert (number, status, len(data)) == (i, OK, 8192)
        if n.mode == "two":
            offloaded = metric(page, "offloaded") - before
            assert offloaded >= gets * 95 // 100, offloaded
        for p in paused:
            assert sorted(p.reply()[0] for _ in range(sent)) == list(range(sent))
            p.__exit__(None, None, None)
    n.stop()


# More clients than --connections are taken, or vanish without a counter and a line in the log.
def test_page_server_more_clients_than_conns_refused_counted(make):
    page = free_port()
    n = make("--connections", "4", "--metrics", "127.0.0.1:%d" % page).start()

    def refused():
        return metric(page, "connections_refused")

    def stat(c):
        try:
            return c.ask(STAT)[1]
        except (OSError, Closed):
            return None

    def stat_once():
        try:
            with Client(n.port) as c:
                return stat(c)
        except OSError:
            return None

    end = time.monotonic() + WAIT
    ours = []
    while len(ours) < 4:  # the place of the client that waited for the start gets free
        try:
            c = Client(n.port)
        except OSError:
            continue
        if stat(c) == OK:
            ours.append(c)
        assert time.monotonic() < end, n.log()
    before = refused()
    for _ in range(36):
        assert stat_once() in (None, BUSY)
    assert refused() - before == 36
    assert [stat(c) for c in ours] == [OK] * 4
    ours.pop().__exit__(None, None, None)
    while stat_once() != OK:
        assert time.monotonic() < end, n.log()
    for c in ours:
        c.__exit__(None, None, None)
    while "clients were refused: all 4 connections were in use; raise --connections" not in n.log():
        assert time.monotonic() < end, n.log()
        time.sleep(0.05)
    n.stop()


# Idle clients keep their places for ever, or one that is not idle loses its own.
def test_page_server_timeout_closes_only_idle_clients(make):
    end = time.monotonic() + WAIT
    while not idle_clients_closed(make, end):
        assert time.monotonic() < end, "this process never sent a request in time"


def idle_clients_closed(make, end):
    """@return False: inconclusive, as this process itself sent nothing for a second"""
    page = free_port()
    n = make("--connections", "4", "--timeout", "1", "--metrics", "127.0.0.1:%d" % page).start()
    begin = time.monotonic()
    with Client(n.port) as silent, Client(n.port) as idle, Client(n.port) as active:
        last = time.monotonic()

        def ask():
            nonlocal last
            before, failed = time.monotonic(), None
            try:
                active.sock.sendall(request(STAT))
                sent = time.monotonic()
                assert active.reply()[1] == OK
            except (ConnectionError, Closed) as e:
                sent, failed = time.monotonic(), e
            late, last = sent - last >= 1, before
            assert late or failed is None, "an active client was closed: %s" % failed
            return not late

        try:
            assert idle.ask(STAT)[1] == OK
            idle.sock.sendall(request(STAT)[:7])  # an unfinished message does not count
        except (ConnectionError, Closed):
            assert time.monotonic() - begin >= 0.5, "a client was closed before it was idle"
            return False
        open_ = {silent, idle}
        while open_:
            assert time.monotonic() < end, n.log()
            if not ask():
                return False
            for c in list(open_):
                c.sock.settimeout(0.1)
                try:
                    assert c.sock.recv(1) == b""
                    open_.remove(c)
                except TimeoutError:
                    pass
        closed = metric(page, "connections_idle_closed")
        if not ask():
            return False
        assert closed == 2, closed
    n.stop()
    return True


# More requests under way than a connection may have, or a longer one: lost, or held in memory.
def test_page_server_requests_beyond_pending_and_length(make):
    n = make().start()
    for count in 1023, 1024, 1025, 10240:
        with Client(n.port) as c:
            q = b"".join(request(GET, page=i % PAGES, number=i) for i in range(count))
            sender = threading.Thread(target=c.sock.sendall, args=(q,))
            sender.start()
            got = [c.reply() for _ in range(count)]
            sender.join(WAIT)
            assert sorted(r[0] for r in got) == list(range(count)), count
            assert {r[1] for r in got} == {OK}, count
    with Client(n.port) as beside:
        for length, want in [(65535, RANGE), (65536, RANGE), (65537, None), (655360, None)]:
            with Client(n.port) as c:
                q = request(LOG, page=1, lsn=5, data=b"x" * length)
                try:
                    c.sock.sendall(q)
                    assert c.reply()[1] == (want or BAD), length
                    if want is None:
                        assert not c.sock.recv(1), length
                except (ConnectionError, Closed):
                    assert want is None, length
            assert beside.ask(STAT)[1] == OK, length
    n.stop()


# An option beyond its range is taken, or refused without its name.
def test_page_server_options_beyond_their_range_refused(make):
    n = make()
    for option, values in [("--connections", "0 60001 600000"),
                           ("--buffers", "3 32769 65537 655360"),
                           ("--page-bytes", "256 128K 640K 3000"), ("--log-size", "512K 2T"),
                           ("--pages", "0 4294967297"), ("--size", "1M"), ("--stats", "86401"),
                           ("--timeout", "4000001")]:
        for value in values.split():
            r = subprocess.run([n.server, "--monolith", "--dir", os.path.join(n.directory, "d"),
                                option, value], stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                               timeout=WAIT, env=n.environment())
            out = r.stdout.decode(errors="replace")
            assert r.returncode != 0 and option in out, (option, value, r.returncode, out)
    # page_load's: what is in its range passes, and the next mistake is named.
    for option, good, bad in [
            ("--clients", "1 4096", "0 4097 40960"), ("--pipeline", "1 1024", "0 1025 10240"),
            ("--update-bytes", "8 65536", "7 65537 655360"),
            ("--update-percent", "0 100", "101 1000"),
            ("--seconds", "1 1000000", "0 1000001 10000000"),
            ("--requests", "1 18446744073709551615", "0 18446744073709551616"),
            ("--timeout", "1 86400", "0 86401 864000")]:
        for value in good.split() + bad.split():
            r = subprocess.run([n.load_binary, option, value, "--server", "nowhere"],
                               stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=WAIT,
                               env=n.environment())
            out = r.stdout.decode(errors="replace")
            assert r.returncode > 0 and (option + ":" in out) == (value in bad.split()), (
                option, value, r.returncode, out)


# Updates of many pages are in the log: a page that waits for none of them is read before they are
# all replayed.
def test_page_server_replays_leave_buffers_to_reads(make):
    pages = 300
    n = make("--pages", str(pages + 1), "--log-size", "64M", "--buffers", "4").start()
    end = time.monotonic() + WAIT
    reads = lsn = 0
    with Client(n.port) as logs, Client(n.port) as gets:
        while reads < 10:  # fewer: replays keep all buffers, or this process was not running
            assert time.monotonic() < end, reads
            lsn += 1
            logs.sock.sendall(b"".join(request(LOG, p, lsn, lsn - 1, data=b"12345678")
                                       for p in range(1, pages + 1)))
            for _ in range(pages):
                assert logs.reply()[1] == OK
            # Waits for one of the last replays, before which all buffers are wanted for replays.
            logs.sock.sendall(request(GET, pages - 30, lsn))
            reads = 0
            while not select.select([logs.sock], [], [], 0)[0]:
                assert gets.ask(GET)[1] == OK
                reads += 1
            assert logs.reply()[1] == OK
    n.stop()


# A server that takes connections and answers nothing ends page_load, reconnecting or not.
def test_page_server_load_silent_server_named(make):
    with socket.create_server(("127.0.0.1", 0)) as silent:
        address = "127.0.0.1:%d" % silent.getsockname()[1]
        for more in ([], ["--reconnect"]):
            r = subprocess.run([make().load_binary, "--server", address, "--timeout", "1"] + more,
                               stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=WAIT)
            want = address + " has answered nothing within 1 s (--timeout): is it a page_server?"
            assert r.returncode == 1 and want in r.stdout.decode(), r.stdout


# The remote file gives other bytes than were written.
def test_page_server_remote_file_written_read_back(make):
    n = make("--remote-file", "--page-bytes", "1K").start()
    n.load("fill")
    got = n.load("read", "--requests", "2000")
    assert got["gets"] == 2000 and (got["by_dpu"] == 2000) == (n.mode == "two"), got
    n.load("write", "--requests", "1000")
    n.load("read", "--requests", "1000")
    with Client(n.port) as c:
        for page, length in [(PAGES * 1024, 512), (2 ** 64 - 512, 512), (0, 2048), (1, 512),
                             (0, 0)]:
            assert c.ask(READ, page=page, length=length)[1] == RANGE, (page, length)
        assert c.ask(GET, page=0)[1] == BAD
    n.stop()


# A DPU role that hangs keeps the host from ending: it waits 10 s. By night.
def test_page_server_dpu_hangs_at_the_end_host_goes(make):
    if not NIGHTLY:
        return
    n = make().start()
    n.load("fill")
    dpu, host = n.pid("dpu"), n.pid("host")
    os.kill(dpu, signal.SIGSTOP)
    n.process.send_signal(signal.SIGTERM)
    end = time.monotonic() + WAIT
    while True:
        try:
            with open("/proc/%d/stat" % host) as f:
                if f.read().rpartition(")")[2].split()[0] == "Z":
                    break
        except OSError:
            break
        assert time.monotonic() < end, "the host waits for ever"
        time.sleep(0.05)
    os.kill(dpu, signal.SIGCONT)
    assert n.process.wait(WAIT) == 0
    n.start()
    n.load("check")
    n.stop()


# What is the same in all modes is not tested again.
ONLY_TWO = [test_page_server_mixed_load_roles_killed_nothing_lost,
            test_page_server_dpu_hangs_at_the_end_host_goes,
            test_page_server_garbage_sent_others_go_on]
NOT_LIBRARY = [test_page_server_paused_clients_others_offloaded,
               test_page_server_small_log_many_updates_halves_turn,
               test_page_server_started_with_other_sizes_refused_nothing_lost,
               test_page_server_image_of_kv_server_refused_unchanged,
               test_page_server_wrong_requests_answered_with_errors]


def main():
    args = [a for a in sys.argv[1:]]
    seed, only = random.randrange(1 << 32), None
    for name in ("--seed", "--only"):
        if name in args:
            i = args.index(name)
            value = args[i + 1]
            del args[i:i + 2]
            if name == "--seed":
                seed = int(value)
            else:
                only = value
    server, load, mode, *tools = args
    TOOLS.update((os.path.basename(t), t) for t in tools)
    print("seed %d" % seed)
    failed = 0
    for name, fn in list(globals().items()):
        if not name.startswith("test_") or only not in (None, name):
            continue
        if not NIGHTLY and (mode != "two" and fn in ONLY_TWO or
                            mode == "library" and fn in NOT_LIBRARY):
            continue
        if mode == "monolith" and fn in ONLY_TWO[:2]:
            continue  # it has no roles
        nodes = []

        def make(*options):
            nodes.append(Node(server, load, mode, *options))
            return nodes[-1]

        try:
            wants = fn.__code__.co_varnames[:fn.__code__.co_argcount]
            fn(*[make if w == "make" else random.Random(seed) for w in wants])
            print("ok   %s %s" % (mode, name), flush=True)
        except Exception:  # pylint: disable=broad-except
            failed += 1
            print("FAIL %s %s (seed %d)\n%s" % (mode, name, seed, traceback.format_exc()))
        for n in nodes:
            n.close()
    return failed > 0


if __name__ == "__main__":
    sys.exit(main())
