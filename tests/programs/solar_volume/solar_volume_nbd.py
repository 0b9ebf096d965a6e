#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 OR MIT
"""solar_volume_nbd.py PROGRAM [CASE]...: the replies to NBD clients: the handshake and its limits,
structured replies, block status, errors of ranges, lengths of 0, no room, and I/O whose server does
not answer. nbdkit, qemu-img, qemu-io, nbdinfo and nbdcopy stand beside it where they are there."""
import json
import os
import shutil
import signal
import socket
import struct
import subprocess
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../support"))
from solarnode import (BLOCK, LONG, Nbd, Stand, fail, figures, free_port,  # noqa: E402
                       run_tests, until)
from solar_volume_ctl import World  # noqa: E402

MIB = 1 << 20
EPERM, EIO, EINVAL, ENOSPC, ENOTSUP = 1, 5, 22, 28, 95
READ, WRITE, FLUSH, TRIM, CACHE, ZEROES, STATUS = 0, 1, 3, 4, 5, 6, 7
FUA, NO_HOLE, DF, ONE, FAST = 1, 2, 4, 8, 16
ACK, SERVER, INFO, META = 1, 2, 3, 4
UNSUP, INVALID, UNKNOWN, TOO_BIG = (2**31 + n for n in (1, 3, 6, 9))
CONTEXT = b"base:allocation"


class Raw(Nbd):
    """Options and requests one by one."""

    def __init__(self, path, flags=3):
        super().__init__(path, go=False)
        assert self.take(16) == b"NBDMAGICIHAVEOPT"
        self.take(2)
        self.s.sendall(struct.pack(">I", flags))
        self.structured = False

    def option(self, number, data=b"", size=None):
        """All replies up to the last: (type, data)."""
        self.s.sendall(b"IHAVEOPT" + struct.pack(">II", number, size or len(data)) + data)
        replies = []
        while True:
            magic, same, kind, size = struct.unpack(">QIII", self.take(20))
            assert magic == 0x3e889045565a9 and same == number
            replies.append((kind, self.take(size)))
            if kind == ACK or kind >> 31:
                return replies

    def structure(self):
        assert self.option(8) == [(ACK, b"")]
        self.structured = True

    def meta(self, option, *queries, name=b"1"):
        data = struct.pack(">I", len(name)) + name + struct.pack(">I", len(queries))
        return self.option(option, data + b"".join(struct.pack(">I", len(q)) + q for q in queries))

    def begin(self):
        replies = self.option(7, struct.pack(">IH", 0, 0))
        assert replies[-1] == (ACK, b"")
        self.size, self.flags = struct.unpack(">QH", replies[0][1][2:12])

    def request(self, kind, offset, size, flags=0, data=b""):
        """@return the error, and the data received"""
        self.handle += 1
        self.s.sendall(struct.pack(">IHHQQI", 0x25609513, flags, kind, self.handle, offset, size) +
                       data)
        if not (self.structured and kind in (READ, STATUS)):
            return self.answer(size if kind == READ else 0)
        magic, flags, chunk, handle, length = struct.unpack(">IHHQI", self.take(20))
        assert magic == 0x668e33ef and flags == 1 and handle == self.handle
        body = self.take(length)
        if chunk >> 15:
            error, text = struct.unpack(">IH", body[:6])
            assert len(body) == 6 + text and text > 0
            return error, b""
        if kind == STATUS:
            assert chunk == 5 and body[:4] == b"\0\0\0\1" and length % 8 == 4 and length > 4
            return 0, [struct.unpack(">II", body[i:i + 8]) for i in range(4, length, 8)]
        if size == 0:
            assert chunk == 0 and body == b""
            return 0, b""
        assert chunk == 1 and struct.unpack(">Q", body[:8])[0] == offset
        return 0, body[8:]


def case_handshake(t):
    """Old clients are served; long options are skipped and reported; contexts have conditions."""
    _, at = t.server()
    _, path = t.client(at)
    old = Raw(path, flags=0)
    old.s.sendall(b"IHAVEOPT" + struct.pack(">II", 1, 1) + b"1")
    size, _ = struct.unpack(">QH", old.take(10))
    assert size == 16 * MIB and old.take(124) == bytes(124)
    assert old.write(0, b"a" * BLOCK) == 0 and old.read(0, BLOCK) == b"a" * BLOCK
    n = Raw(path)
    assert n.option(6, b"x" * 20000)[0][0] == TOO_BIG
    assert n.option(77, b"x" * 3000000)[0][0] == TOO_BIG
    assert n.option(77, b"x" * 5000)[0][0] == UNSUP
    long = b"n" * 4096
    assert n.option(7, struct.pack(">I", 4096) + long + b"\0\0")[0][0] == UNKNOWN
    assert n.meta(10, CONTEXT)[0][0] == INVALID  # STRUCTURED_REPLY has not come
    assert n.option(8, b"x")[0][0] == INVALID
    n.structure()
    assert n.meta(10, CONTEXT, name=b"2")[0][0] == UNKNOWN
    assert n.meta(9) == [(META, bytes(4) + CONTEXT), (ACK, b"")]
    assert n.meta(9, b"base:") == [(META, bytes(4) + CONTEXT), (ACK, b"")]
    assert n.meta(9, b"qemu:") == [(ACK, b"")]
    assert n.meta(10, b"base:", long) == [(ACK, b"")]
    assert n.option(10, b"\0\0\0\1" b"1" b"\0\0\0\1" b"\0\0\0\7")[0][0] == INVALID
    assert n.meta(10, b"qemu:x", CONTEXT) == [(META, b"\0\0\0\1" + CONTEXT), (ACK, b"")]
    assert n.option(10, b"x" * 20000)[0][0] == TOO_BIG  # it selects nothing
    n.begin()
    assert n.flags & 0xd80 == 0xd80, hex(n.flags)  # FAST_ZERO, CACHE, MULTI, DF
    assert n.request(STATUS, 0, BLOCK) == (EINVAL, b"")
    plain = Raw(path)
    plain.begin()
    assert plain.flags & 0x80 == 0
    assert plain.request(STATUS, 0, BLOCK)[0] == EINVAL
    assert plain.request(READ, 0, BLOCK, DF)[0] == EINVAL
    assert plain.request(READ, 0, 4)[1] == b"aaaa"


def case_ranges(t):
    """Errors that the protocol names, lengths of 0, and that the connection stays usable."""
    _, at = t.server()
    _, path = t.client(at)
    for structured in (False, True):
        n = Raw(path)
        if structured:
            n.structure()
            n.meta(10, CONTEXT)
        n.begin()
        end = n.size
        for kind, error in ((READ, EINVAL), (TRIM, EINVAL), (CACHE, EINVAL), (ZEROES, ENOSPC)):
            assert n.request(kind, end - BLOCK, 2 * BLOCK)[0] == error, kind
            assert n.request(kind, end, 1)[0] == error, kind
            assert n.request(kind, 2**63, 1)[0] == error, kind
            assert n.request(kind, end, 0)[0] == 0, kind
            assert n.request(kind, 17, 0)[0] == 0, kind
            assert n.request(kind, end + 1, 0)[0] == error, kind
        assert n.request(WRITE, end - 1, 2, data=b"xx")[0] == ENOSPC
        assert n.request(WRITE, 0, 0)[0] == 0
        assert n.request(WRITE, end + 1, 0)[0] == ENOSPC
        assert n.request(FLUSH, 0, 0)[0] == 0
        assert n.request(FLUSH, 0, 1)[0] == EINVAL
        assert n.request(8, 0, 1)[0] == EINVAL
        assert n.request(STATUS, 0, 0)[0] == EINVAL
        assert n.request(STATUS, end, 1)[0] == EINVAL
        assert n.request(WRITE, 0, 2 * BLOCK, data=b"x" * 2 * BLOCK)[0] == 0
        assert n.request(CACHE, 0, 2 * BLOCK)[0] == 0
        assert n.request(ZEROES, 1, BLOCK + 1, FAST | NO_HOLE | FUA)[0] == 0
        assert n.request(READ, 0, 2 * BLOCK, DF if structured else 0)[1] == \
            b"x" + bytes(BLOCK + 1) + b"x" * (BLOCK - 2)
        assert n.request(READ, 3, 2)[1] == bytes(2)


def extents(n, offset, size, flags=0):
    error, got = n.request(STATUS, offset, size, flags)
    assert error == 0, error
    return got


def case_status(t):
    """Block status of unwritten, zeroed, trimmed and written ranges is exact to the block."""
    _, at = t.server()
    _, path = t.client(at)
    n = Raw(path)
    n.structure()
    n.meta(10, CONTEXT)
    n.begin()
    assert extents(n, 0, n.size) == [(n.size, 3)]
    assert extents(n, 5, 7) == [(7, 3)]
    assert n.request(WRITE, 2 * MIB - BLOCK, 2 * BLOCK, data=b"x" * 2 * BLOCK)[0] == 0
    assert n.request(ZEROES, 4 * MIB, 2 * BLOCK, NO_HOLE)[0] == 0
    assert n.request(WRITE, 6 * MIB, 3 * BLOCK, data=b"y" * 3 * BLOCK)[0] == 0
    assert n.request(TRIM, 6 * MIB + BLOCK, BLOCK)[0] == 0
    assert n.request(WRITE, 8 * MIB + 1, 1, data=b"z")[0] == 0
    want = [(2 * MIB - BLOCK, 3), (2 * BLOCK, 0), (2 * MIB - BLOCK, 3), (2 * BLOCK, 2),
            (2 * MIB - 2 * BLOCK, 3), (BLOCK, 0), (BLOCK, 3), (BLOCK, 0),
            (2 * MIB - 3 * BLOCK, 3), (BLOCK, 0), (8 * MIB - BLOCK, 3)]
    assert extents(n, 0, n.size) == want, extents(n, 0, n.size)
    assert extents(n, 0, n.size, ONE) == want[:1]
    assert extents(n, 2 * MIB + 1, 10000, ONE) == [(BLOCK - 1, 0)]
    assert extents(n, 2 * MIB + 1, 10000) == [(BLOCK - 1, 0), (10001 - BLOCK, 3)]
    # More extents than a reply has: the rest is asked for again.
    for i in range(7 * MIB // (2 * BLOCK)):
        assert n.write(9 * MIB + 2 * i * BLOCK, b"w" * BLOCK) == 0
    at, end, replies = 9 * MIB, 16 * MIB, []
    while at < end:
        replies.append(extents(n, at, end - at))
        at += sum(size for size, _ in replies[-1])
    assert at == end and len(replies[0]) == 1024, [len(r) for r in replies]
    assert sum(replies, []) == [(BLOCK, 0), (BLOCK, 3)] * (7 * MIB // (2 * BLOCK))


def tools(*names):
    missing = [n for n in names if shutil.which(n) is None]
    if missing:
        print(f"left out, for want of {', '.join(missing)}")
    return not missing


def run(*words):
    r = subprocess.run(words, stdin=subprocess.DEVNULL, capture_output=True, text=True,
                       timeout=LONG, check=False)
    if r.returncode != 0:
        fail(f"{' '.join(words)}: {r.stdout}{r.stderr}")
    return r.stdout


def data_of(uri):
    """Ranges that hold data, of neighbours one."""
    ranges = []
    for e in json.loads(run("nbdinfo", "--map", "--json", uri)):
        if e["type"] & 2:
            continue
        if ranges and ranges[-1][1] == e["offset"]:
            ranges[-1][1] += e["length"]
        else:
            ranges.append([e["offset"], e["offset"] + e["length"]])
    return ranges


def accepts(path):
    """A socket is there before its program listens."""
    with socket.socket(socket.AF_UNIX) as s:
        s.connect(path)
    return True


def case_tools(t):
    """The same writes to it and to nbdkit: the same ranges hold data, copies are equal, and a copy
    moves data only, by the figures of blocks that were read."""
    if not tools("nbdkit", "nbdinfo", "nbdcopy", "qemu-img", "qemu-io"):
        return
    page = f"127.0.0.1:{free_port()}"
    _, at = t.begin("server", "server", "--listen", "127.0.0.1:0", "--store", t.path("store"),
                    "--store-size", "512M", "--disk", "1:256M")
    _, path = t.begin("client", "client", "--server", at, "--disk", "1", "--size", "256M",
                      "--epoch", "1", "--socket", t.path("nbd"), "--metrics", page)
    ours = f"nbd+unix:///?socket={path}"
    with open(t.path("beside"), "wb") as f:
        f.truncate(256 * MIB)
    kit = subprocess.Popen(["nbdkit", "-f", "-U", t.path("kit"), "file", t.path("beside")],
                           stdin=subprocess.DEVNULL)
    t.children.append(kit)
    until(lambda: accepts(t.path("kit")), "nbdkit is there")
    theirs = f"nbd+unix:///?socket={t.path('kit')}"
    for uri in (ours, theirs):
        assert data_of(uri) == [], data_of(uri)
    before = figures(page)["blocks_read"]
    run("nbdcopy", ours, t.path("empty"))
    segments = 128
    assert figures(page)["blocks_read"] - before <= 4 * segments, "an empty disk was read"
    assert os.stat(t.path("empty")).st_blocks < 64
    words = []
    for c in ("write -P 5 1M 64k", "write -P 6 100M 4M", "write -P 7 255M 1M", "write -P 8 3M 4k",
              "discard 101M 1M", "write -z -u 102M 64k"):
        words += ["-c", c]
    for uri in (ours, theirs):
        run("qemu-io", "-f", "raw", "-d", "unmap", *words, uri)
    assert data_of(ours) == data_of(theirs), (data_of(ours), data_of(theirs))
    written = sum(b - a for a, b in data_of(ours))
    before = figures(page)["blocks_read"]
    run("nbdcopy", ours, t.path("copy"))
    moved = figures(page)["blocks_read"] - before
    assert written // BLOCK <= moved <= written // BLOCK + 4 * segments, (moved, written)
    run("qemu-img", "compare", "-f", "raw", "-F", "raw", t.path("copy"), theirs)
    before = figures(page)["blocks_read"]
    run("qemu-img", "convert", "-f", "raw", "-O", "qcow2", ours, t.path("qcow2"))
    moved = figures(page)["blocks_read"] - before
    assert moved <= written // BLOCK + 16 * segments, (moved, written)
    run("qemu-img", "compare", "-f", "qcow2", "-F", "raw", t.path("qcow2"), theirs)
    for e in json.loads(run("qemu-img", "map", "--output=json", "-f", "raw", ours)):
        assert e["zero"] != any(a < e["start"] + e["length"] and e["start"] < b
                                for a, b in data_of(ours)), e
    # And back: a sparse image makes a thin disk.
    run("qemu-img", "convert", "-n", "-f", "qcow2", "-O", "raw", t.path("qcow2"), ours)
    run("qemu-img", "compare", "-f", "raw", "-F", "raw", ours, theirs)
    kit.terminate()


def case_thin(t):
    """A disk of a catalog: what has no place is a hole, and to ask makes none."""
    world = World(t.program, t.work)
    try:
        world.server(1)
        world.up(1)
        world.ok("create", "root", "64G")
        world.begin("client", "client", "--control", world.catalog.at, "--disk", "root",
                    "--socket", t.path("nbd"))
        n = Raw(t.path("nbd"))
        n.structure()
        n.meta(10, CONTEXT, name=b"root")
        n.begin()
        assert n.request(WRITE, 3 << 30, BLOCK, data=b"x" * BLOCK)[0] == 0
        at, data = 0, []
        while at < 4 << 30:
            for size, flags in extents(n, at, 1 << 30):
                if flags == 0:
                    data.append((at, size))
                at += size
        assert data == [(3 << 30, BLOCK)], data
        assert world.ok("show", "root").count("segment ") == 1, world.ok("show", "root")
        # More than the 1 GiB of an I/O of the engine.
        assert n.request(ZEROES, 0, (4 << 30) - BLOCK, FAST)[0] == 0
        assert n.request(READ, 3 << 30, BLOCK)[1] == bytes(BLOCK)
    finally:
        world.end()


def case_no_room(t):
    """No server has a place: ENOSPC, at once, and what has one is as ever."""
    world = World(t.program, t.work)
    try:
        world.server(1, size="32M")
        world.up(1)
        world.ok("create", "root", "1G")
        world.begin("client", "client", "--control", world.catalog.at, "--disk", "root",
                    "--socket", t.path("nbd"))
        n = Nbd(t.path("nbd"))
        error, segment = 0, 0
        while error == 0 and segment < 512:
            error = n.write(segment * 2 * MIB, b"x" * BLOCK)
            segment += 1
        assert error == ENOSPC and segment > 2, (error, segment)
        assert n.write((segment + 1) * 2 * MIB, b"x" * BLOCK) == ENOSPC
        assert n.write(0, b"y" * BLOCK) == 0 and n.read(0, BLOCK) == b"y" * BLOCK
        assert n.read(segment * 2 * MIB, BLOCK) == bytes(BLOCK)
        world.server(2, size="32M")
        world.up(2)
        assert n.write(segment * 2 * MIB, b"z" * BLOCK) == 0
    finally:
        world.end()


def case_superseded(t):
    """Two clients of one disk, no catalog: the later one's first request fences the other, and
    so it stays when the server is killed and starts again."""
    server, at = t.server()
    one, first = t.client(at, name="client1")
    old = Nbd(first)
    assert old.write(0, b"1" * BLOCK) == 0
    words = ["client", "--server", at, "--disk", "1", "--size", "16M", "--epoch", "2", "--socket",
             t.path("nbd2")]
    t.begin("client2", *words)
    new = Nbd(t.path("nbd2"))
    assert new.write(0, b"2" * BLOCK) == 0
    assert new.read(100 * BLOCK, BLOCK) == bytes(BLOCK)
    server.kill()
    server.wait()
    t.server(at=at, name="server2")
    assert old.write(100 * BLOCK, b"1" * BLOCK) == EPERM, "the superseded client writes"
    assert new.read(100 * BLOCK, BLOCK) == bytes(BLOCK)
    assert new.read(0, BLOCK) == b"2" * BLOCK
    assert one.poll() is None


def read_in_time(n):
    """The first block; None where that took longer than --io-timeout."""
    n.ask(READ, 0, BLOCK)
    error, data = n.answer(BLOCK)
    assert error in (0, EIO), error
    return data if error == 0 else None


def case_timeout(t):
    """--io-timeout: EIO, and the segment is refused until its server is there again."""
    server, at = t.server()
    for epoch, transport in ((1, "solar"), (2, "luna")):
        _, path = t.begin(transport, "client", "--server", at, "--disk", "1", "--size", "16M",
                          "--epoch", str(epoch), "--socket", t.path(transport), "--transport",
                          transport, "--io-timeout", "1")
        n = Nbd(path)
        until(lambda: n.write(0, b"a" * BLOCK) == 0, "it is written within a second")
        server.send_signal(signal.SIGSTOP)
        assert n.write(0, b"b" * BLOCK) == EIO
        n.ask(READ, BLOCK, BLOCK)
        assert n.answer(BLOCK)[0] == EIO
        until(lambda: "--io-timeout" in t.log(transport), "it is logged")
        server.send_signal(signal.SIGCONT)
        until(lambda: n.write(BLOCK, b"c" * BLOCK) == 0, "it is written again")
        was = until(lambda: read_in_time(n), "it is read")
        assert was in (b"a" * BLOCK, b"b" * BLOCK)
        time.sleep(0.5)
        assert until(lambda: read_in_time(n), "it is read again") == was


CASES = [case_handshake, case_ranges, case_status, case_tools, case_thin, case_no_room,
         case_superseded, case_timeout]

if __name__ == "__main__":
    sys.exit(run_tests(sys.argv[1], sys.argv[2:], CASES, Stand))
