#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 OR MIT
"""solar_volume_attack.py PROGRAM [TEST]...: solar_volume, as processes, and peers that mean it no
good, or only do not read what they asked for."""
import os
import re
import resource
import selectors
import signal
import socket
import struct
import subprocess
import sys
import threading
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../support"))
from solarnode import (BLOCK, LONG, Nbd, fail, figures, free_port, run_tests, tcp,  # noqa: E402
                       until)


class Crowd(threading.Thread):
    """Clients that send nothing, and come again when they are turned away."""

    def __init__(self, path, count):
        super().__init__(daemon=True)
        self.path, self.count, self.stop, self.rounds = path, count, False, 0

    @staticmethod
    def here(s):
        try:
            return s.recv(100, socket.MSG_DONTWAIT) != b""
        except BlockingIOError:
            return True
        except OSError:
            return False

    def run(self):
        held = []
        while not self.stop:
            for s in [s for s in held if not self.here(s)]:
                held.remove(s)
                s.close()
            try:
                while len(held) < self.count:
                    s = socket.socket(socket.AF_UNIX)
                    held.append(s)
                    s.connect(self.path)
            except OSError:
                pass
            self.rounds += 1
            time.sleep(0.005)
        for s in held:
            s.close()


def test_client_epoch(t):
    """Versions begin anew with each start of a client: in an epoch that was used before they are
    older than the stored ones, and a write would be acknowledged and lost."""
    _, at = t.server()
    words = ["client", "--server", at, "--disk", "1", "--size", "16M", "--socket", t.path("nbd")]
    t.refused("--epoch N is needed", *words)
    t.refused("--epoch", *words, "--epoch", "0")
    for epoch in (1, 2):
        client, path = t.client(at, epoch=epoch, name=f"client{epoch}")
        nbd = Nbd(path)
        for i in range(7 - 2 * epoch):
            data = bytes([16 * epoch + i]) * BLOCK
            assert nbd.write(0, data) == 0
            assert nbd.read(0, BLOCK) == data, f"epoch {epoch}: a write was dropped"
        nbd.s.close()
        client.terminate()
        assert client.wait(LONG) == 0


def test_nbd_deaf(t):
    """The buffers of a client that sends requests and does not read stay in use: they have to be
    NBD's own, or nothing comes from the servers any more. Of LUNA, whose data
    come by the same kind of buffer."""
    _, at = t.server("--transport", "luna")
    _, path = t.client(at, "--transport", "luna")
    nbd, deaf = Nbd(path), []
    assert nbd.write(0, b"x" * BLOCK) == 0
    asks = b"".join(struct.pack(">IHHQQI", 0x25609513, 0, 0, i, 0, BLOCK) for i in range(12000))
    turned_away, began = 0, time.monotonic()
    for _ in range(150):
        try:
            deaf.append(Nbd(path))
        except (EOFError, ConnectionError):
            turned_away += 1
    for d in deaf:
        d.s.setblocking(False)
    for _ in range(20):  # each time what there is room for
        for d in deaf:
            try:
                d.s.send(asks)
            except BlockingIOError:
                pass
        time.sleep(0.05)
    for i in range(20):
        assert nbd.write(i * BLOCK, b"y" * BLOCK) == 0
        assert nbd.read(i * BLOCK, BLOCK) == b"y" * BLOCK
    assert turned_away > 0 and len(deaf) >= 32, (turned_away, len(deaf))
    lines = t.log("client").count("more than 64 NBD clients")
    most = 2 + (time.monotonic() - began) / 5  # one line in five seconds
    assert 1 <= lines <= most, f"{lines} lines of {turned_away} clients"
    for d in deaf:
        d.s.close()
    until(lambda: Nbd(path), "a client is accepted again")


class Hogs(threading.Thread):
    """Connections that have `depth` reads of `size` bytes under way at any time."""

    def __init__(self, path, count, depth, size):
        super().__init__(daemon=True)
        self.conns = [Nbd(path) for _ in range(count)]
        self.depth, self.size, self.answers, self.stop = depth, size, 0, False

    def ask(self, nbd, count):
        nbd.s.sendall(struct.pack(">IHHQQI", 0x25609513, 0, 0, 1, 0, self.size) * count)

    def run(self):
        have = {}
        with selectors.DefaultSelector() as ready:
            for c in self.conns:
                ready.register(c.s, selectors.EVENT_READ, c)
                self.ask(c, self.depth)
            while not self.stop:
                for key, _ in ready.select(0.1):
                    have[key.fd] = have.get(key.fd, 0) + len(key.fileobj.recv(1 << 18))
                    done, have[key.fd] = divmod(have[key.fd], 16 + self.size)
                    self.answers += done
                    self.ask(key.data, done)
        for c in self.conns:
            c.s.close()


def test_nbd_shares(t):
    """However much is asked for on other connections, one that asks for little waits for a part of
    it: connections take turns, and large requests among themselves."""
    _, at = t.server()
    _, path = t.client(at)
    nbd, reads = Nbd(path), 8
    assert nbd.write(0, b"x" * (1 << 20)) == 0
    for count, depth, size, most in (20, 64, BLOCK, 400), (8, 16, 1 << 20, 40):
        hogs = Hogs(path, count, depth, size)
        hogs.start()
        until(lambda: hogs.answers > 0, "the others are answered")
        waited = count * depth
        for _ in range(reads):  # the others' answers that come while this thread waits count, too
            before = hogs.answers
            assert nbd.read(0, BLOCK) == b"x" * BLOCK
            waited = min(waited, hogs.answers - before)
        print(f"  {waited} of {count * depth} reads of {size} bytes before one", flush=True)
        assert waited <= most, waited
        hogs.stop = True
        hogs.join(LONG)


def test_nbd_leaves(t):
    """A client has all requests in flight that it may, sends thousands of bad ones, and leaves
    without reading: none of them is worked off on top of the one before."""
    _, at = t.server()
    client, path = t.client(at)
    resource.prlimit(client.pid, resource.RLIMIT_STACK, (256 << 10, 256 << 10))
    for round in range(20):
        nbd = Nbd(path)
        assert nbd.write(0, b"x" * (1 << 20)) == 0
        nbd.s.setblocking(False)
        for kind, size, count in ((0, 1 << 20, 64), (0, 0, 20000)):
            asks = b"".join(struct.pack(">IHHQQI", 0x25609513, 0, kind, i, 0, size)
                            for i in range(count))
            try:
                while asks:
                    asks = asks[nbd.s.send(asks):]
            except BlockingIOError:
                pass
        time.sleep(0.02 * (round % 3))
        nbd.s.close()
    nbd = Nbd(path)
    assert nbd.read(0, BLOCK) == b"x" * BLOCK
    assert client.poll() is None, t.log("client")


def test_nbd_many(t):
    """Connections of NBD clients are not those that the client needs to reach a server again."""
    server, at = t.server("--transport", "luna")
    _, path = t.client(at, "--transport", "luna")
    nbd = Nbd(path)
    assert nbd.write(0, b"x" * BLOCK) == 0
    crowd = Crowd(path, 270)
    crowd.start()
    until(lambda: crowd.rounds > 20, "a crowd")
    server.kill()
    server.wait()
    time.sleep(1)
    t.server("--transport", "luna", at=at, name="server2")
    assert nbd.write(BLOCK, b"y" * BLOCK) == 0
    crowd.stop = True
    crowd.join()


def test_nbd_silent(t):
    """All places are taken by clients that send nothing, or not all: after ten seconds they have
    none any more, and one that has chosen its disk keeps its own however long it is idle."""
    _, at = t.server()
    metrics = f"127.0.0.1:{free_port()}"
    _, path = t.client(at, "--metrics", metrics)
    idle = Nbd(path)
    began = time.monotonic()
    silent = [Nbd(path, go=False) for _ in range(63)]
    for s in silent[::2]:
        s.s.sendall(bytes(3))  # of four
    took = time.monotonic() - began
    refused, one = 0, None
    while one is None:
        assert refused < 10000, "there is room again"
        try:
            one = Nbd(path)
        except (EOFError, ConnectionError):
            refused += 1
            time.sleep(0.01)
    assert time.monotonic() - began > 9.5
    assert figures(metrics)["nbd_turned_away"] == refused > 0, refused
    assert idle.write(0, b"x" * BLOCK) == 0 and idle.read(0, BLOCK) == b"x" * BLOCK
    assert t.log("client").count("has not chosen a disk") < 4 + took, t.log("client")
    for s in silent:
        s.s.close()


def test_nbd_large(t):
    """A request of 32 MiB is done, of one block more refused: a read's connection stays, a write,
    whose data would follow, ends its connection; so does one of ten times as much."""
    _, at = t.server("--disk", "2:400M", "--store-size", "600M")
    _, path = t.begin("large", "client", "--server", at, "--disk", "2", "--size", "400M", "--epoch",
                      "1", "--socket", t.path("nbd"))
    nbd, most = Nbd(path), 32 << 20
    assert nbd.write(0, b"z" * most) == 0
    assert nbd.read(0, most) == b"z" * most
    for size in (most + BLOCK, 10 * most):
        nbd.ask(0, 0, size)
        assert nbd.answer()[0] == 22
        assert nbd.read(0, BLOCK) == b"z" * BLOCK
        other = Nbd(path)
        other.ask(1, 0, size)
        try:
            other.answer()
            fail("it is answered")
        except (EOFError, ConnectionError):
            pass
    until(lambda: t.log("large").count("sent a write larger than the maximum"), "it is logged")
    assert nbd.write(0, b"y" * BLOCK) == 0


def read_slowly(nbd, count):
    """1: all answers are there; 0: some are not, after one that was read too late to expect them,
    for the client waits three seconds for a peer."""
    for _ in range(count):
        began = time.monotonic()
        time.sleep(0.7)
        try:
            assert nbd.answer(1 << 20)[0] == 0
        except (EOFError, ConnectionError):
            assert time.monotonic() - began > 2, "who reads has lost its answers"
            return 0
    return 1


def test_nbd_end(t):
    """A client that is to end waits for peers that read its answers, and not for others."""
    _, at = t.server()

    def ends():
        client, path = t.client(at)
        deaf, slow = Nbd(path), Nbd(path)
        for _ in range(8):
            deaf.ask(0, 0, 1 << 20)
            slow.ask(0, 0, 1 << 20)
        time.sleep(1)
        client.terminate()
        read = read_slowly(slow, 8)
        try:
            assert client.wait(LONG) == 0
        except subprocess.TimeoutExpired:
            fail("it does not end")
        return read

    until(ends, "a peer that reads in time has all answers")


def test_nbd_options(t):
    """A peer that sends options and does not read is cut off, and its last option gets no disk."""
    page = f"127.0.0.1:{free_port()}"
    _, at = t.server()
    _, path = t.client(at, "--metrics", page)
    nbd = Nbd(path, go=False)
    nbd.s.sendall(struct.pack(">I", 3))
    lists = struct.pack(">8sII", b"IHAVEOPT", 3, 0) * 60
    disk = struct.pack(">8sIIIH", b"IHAVEOPT", 7, 6, 0, 0)
    write = struct.pack(">IHHQQI", 0x25609513, 0, 1, 1, 0, BLOCK) + b"x" * BLOCK
    try:
        for _ in range(400):  # piece by piece, so that all that the kernel keeps is full
            nbd.s.sendall(lists)
            time.sleep(0.002)
        nbd.s.sendall(lists * 10 + disk + write)
    except ConnectionError:
        pass
    until(lambda: "does not read its replies" in t.log("client"), "it is found out")
    until(lambda: figures(page)["nbd_clients"] == 0, "it is cut off")
    assert Nbd(path).read(0, BLOCK) == bytes(BLOCK), "it has written"


def test_ctl_silent(t):
    """A verb ends though the catalog is there and sends nothing; its process may be stopped itself,
    too, and still have its answer."""
    ctl, at = t.begin("ctl", "ctl", "serve", "--listen", "127.0.0.1:0", "--catalog",
                      t.path("catalog"), "--catalog-size", "8M")
    assert t.run("ctl", "create", "d", "4M", "--control", at)[0] == 0

    def stopped_meanwhile():  # 0: it timed out before
        ctl.send_signal(signal.SIGSTOP)
        verb = subprocess.Popen([t.program, "ctl", "list", "--control", at],
                                stdout=subprocess.PIPE, text=True)
        t.children.append(verb)
        time.sleep(1.5)
        verb.send_signal(signal.SIGSTOP)
        ctl.send_signal(signal.SIGCONT)
        time.sleep(6)
        early = verb.poll() is not None
        verb.send_signal(signal.SIGCONT)
        text = verb.communicate(timeout=LONG)[0]
        assert early or (verb.returncode == 0 and "disk d " in text), text
        return not early

    ctl.send_signal(signal.SIGSTOP)
    t.refused(f"connection to the catalog at {at} lost", "ctl", "list", "--control", at)
    until(stopped_meanwhile, "a verb is stopped before it times out")


def test_other_version(t):
    """A catalog of another release: verbs, clients and servers report it, and what to do."""
    with socket.create_server(("127.0.0.1", 0)) as door:
        at = "127.0.0.1:%d" % door.getsockname()[1]

        def answer():
            while True:
                try:
                    peer, _ = door.accept()
                except OSError:
                    return
                with peer:
                    peer.settimeout(LONG)
                    try: # one that is ended meanwhile resets it
                        first = peer.recv(16)
                        if len(first) >= 4: # WELCOME of the version before
                            peer.sendall(first[:2] + bytes([first[2] - 1, 2]) + bytes(12))
                            while peer.recv(4096):
                                pass
                    except OSError:
                        pass

        thread = threading.Thread(target=answer, daemon=True)
        thread.start()
        t.refused("another version of the control protocol", "ctl", "list", "--control", at)
        t.refused("another version of the control protocol", "client", "--control", at, "--disk",
                  "d", "--socket", t.path("other.sock"))
        log = t.path("other.log")
        with open(log, "wb") as out:
            server = subprocess.Popen([t.program, "server", "--listen", "127.0.0.1:0", "--store",
                                       t.path("other"), "--store-size", "64M", "--control", at],
                                      stdout=out, stderr=out)
        t.children.append(server)
        until(lambda: b"another version of the control protocol" in open(log, "rb").read(),
              "the server logs it")


def test_server_peer(t):
    """The door for servers that copy segments has no key: beside sealed packets an operator who
    opens it has to state the address."""
    key = t.path("wire")
    assert t.run("ctl", "key", "wire", key)[0] == 0
    words = ["server", "--listen", "127.0.0.1:0", "--store", t.path("store"), "--store-size", "64M",
             "--control", "127.0.0.1:1", "--any-client", "--wire-key", key]
    t.refused("--peer", *words)
    assert not os.path.exists(t.path("store"))
    t.begin("server", *words, "--peer", "127.0.0.1:0")


def crc32c(data):
    c = 0xffffffff
    for byte in data:
        c ^= byte
        for _ in range(8):
            c = c >> 1 ^ (0x82f63b78 if c & 1 else 0)
    return c ^ 0xffffffff


def luna_hello(client):
    """The first bytes of a connection of the client of that number."""
    p = bytearray(128)
    p[0:2] = 0x28, 9
    struct.pack_into(">H", p, 18, 1)
    struct.pack_into(">I", p, 24, 1)
    struct.pack_into(">Q", p, 56, 1)
    p[64:66] = 2, 2
    p[68:72] = os.urandom(3) + b"\1"
    p[80:88] = os.urandom(8)
    struct.pack_into(">I", p, 76, 1)
    struct.pack_into(">Q", p, 104, client)
    struct.pack_into(">I", p, 116, 4096)
    struct.pack_into(">I", p, 52, crc32c(struct.pack(">II", 0, 2) + p))
    return bytes(p)


def test_server_names(t):
    """A client is known by a secret of its own, and any peer that has it can end its connections:
    the figures show another number, that distinguishes clients."""
    page = f"127.0.0.1:{free_port()}"
    server, at = t.server("--transport", "luna", "--metrics", page)
    _, path = t.client(at, "--transport", "luna")
    nbd = Nbd(path)
    assert nbd.write(0, b"x" * BLOCK) == 0
    seen = until(lambda: figures(page).get("client0_id"), "a client is shown")
    assert figures(page)["client0_id"] == seen, "its number changes"
    with tcp(at) as s:
        s.sendall(luna_hello(seen))

        def taken():
            now = figures(page)
            ids = {now[n] for n in now if re.fullmatch("client[0-9]+_id", n)}
            assert now["luna_replaced"] == 0, "the peer that read its number took its connection"
            assert seen in ids, ids
            return len(ids) == 2

        until(taken, "it is taken for another client")
    server.kill()
    server.wait()
    t.server("--transport", "luna", "--metrics", page, at=at, name="server2")
    assert nbd.write(0, b"x" * BLOCK) == 0
    again = until(lambda: figures(page).get("client0_id"), "a client is shown")
    assert again != seen, "its number can be computed"


def test_metrics_held(t):
    """A connection whose request never ends is closed to make room for others, the oldest first."""
    page = f"127.0.0.1:{free_port()}"
    server, _ = t.server("--metrics", page)
    held = [tcp(page) for _ in range(8)]
    for s in held:
        s.sendall(b"G")
    time.sleep(0.3)
    for i in range(3):
        assert "epoch" in figures(page), "the page is not served"
        if i == 0:
            held[7].sendall(b"ET / HTTP/1.0\r\n\r\n")
            assert held[7].recv(12) == b"HTTP/1.0 200", "the youngest was cut off"
    held += [tcp(page) for _ in range(40)]
    for s in held[:7]:
        try:
            assert s.recv(1) == b"", "an old one is answered"
        except ConnectionError:
            pass
    server.terminate()
    assert server.wait(LONG) == 0
    for s in held:
        s.close()


def test_server_disk(t):
    """A size that is no number of 64 bits is not that of another disk."""
    sizes = {"18014398509481985K": 0, "16777217T": 0, "18446744073709551616": 0,
             "18446744073709551617K": 0, "1025T": 0, "0": 0, "1.5G": 1, "-1": 1, "1X": 1, "1GX": 1}
    for size, malformed in sizes.items():
        t.refused("is not N:BYTES" if malformed else "is not between 4K and 1024T", "server",
                  "--listen", "127.0.0.1:0", "--store", t.path("store"), "--store-size", "64M",
                  "--disk", "1:" + size)
    assert not os.path.exists(t.path("store"))


def crc32c(data):
    crc = 0xffffffff
    for byte in data:
        crc ^= byte
        for _ in range(8):
            crc = crc >> 1 ^ (0x82f63b78 if crc & 1 else 0)
    return crc ^ 0xffffffff


def control_message(kind, body):
    """To a catalog (lib/control/wire.c)."""
    head = struct.pack("<HBBII", 0x4353, 3, kind, len(body), 1)
    return head + struct.pack("<I", crc32c(head + body)) + body


def test_ctl_log(t):
    """A client that comes and goes as fast as it can does not fill the catalog's log; what is left
    out is counted."""
    _, at = t.begin("ctl", "ctl", "serve", "--listen", "127.0.0.1:0", "--catalog",
                    t.path("catalog"))
    code, text = t.run("ctl", "create", "root", "8M", "--control", at)
    assert code == 0, text
    assert f"catalog {t.path('catalog')} is new: it was blank" in t.log("ctl")
    hello = control_message(1, struct.pack("<II16x24x24x8x", 1, 0))
    attach = control_message(6, struct.pack("<I64s16x", 1, b"root"))
    resume = control_message(7, struct.pack("<II", 1, 1))
    began = time.monotonic()
    for i in range(2500):
        with tcp(at) as s:
            s.sendall(hello + (resume if i != 0 else attach))
            while len(s.recv(4096)) < 150:  # WELCOME, GRANT
                pass
    until(lambda: t.log("ctl").count("its client is gone") > 200, "it is logged")
    lines = len(t.log("ctl").splitlines())
    assert lines < 300 + 4 * (time.monotonic() - began), lines  # 256 at once, and one in 250 ms
    end = time.monotonic() + LONG
    while "lines about leases were left out" not in t.log("ctl"):
        assert time.monotonic() < end, t.log("ctl")[-500:]
        with tcp(at) as s:
            s.sendall(hello + resume)
            while len(s.recv(4096)) < 150:
                pass
        time.sleep(0.1)


def test_ctl_wiped(t):
    """A catalog whose first pages were wiped is not taken for a blank file and made anew."""
    words = ["ctl", "serve", "--listen", "127.0.0.1:0", "--catalog", t.path("catalog"),
             "--catalog-size", "4M", "--disks", "64"]
    catalog, at = t.begin("ctl", *words)
    for i in range(40):
        code, text = t.run("ctl", "create", f"d{i}", "4M", "--control", at)
        assert code == 0, text
    catalog.terminate()
    assert catalog.wait(LONG) == 0
    with open(t.path("catalog"), "r+b") as f:
        f.write(bytes(128 << 10))
    before = open(t.path("catalog"), "rb").read()
    t.refused("not a catalog, and not empty", *words)
    assert open(t.path("catalog"), "rb").read() == before


def test_client_families(t):
    """A client of a catalog that has an IPv4 address reaches servers that have IPv6 addresses, over
    SOLAR as over LUNA."""
    try:
        with socket.socket(socket.AF_INET6) as s:
            s.bind(("::1", 0))
    except OSError as e:
        print(f"  skipped: no IPv6: {e}")
        return
    _, control = t.begin("ctl", "ctl", "serve", "--listen", "127.0.0.1:0", "--catalog",
                         t.path("catalog"))
    for n, host in enumerate(("[::1]:0", "127.0.0.1:0")):
        t.begin(f"server{n}", "server", "--listen", host, "--store", t.path(f"store{n}"),
                "--store-size", "64M", "--control", control)
        until(lambda n=n: "registered" in t.log(f"server{n}"), "the server is registered")
    code, text = t.run("ctl", "create", "root", "8M", "--control", control)
    assert code == 0, text
    for transport in "solar", "luna":
        client, path = t.begin("client", "client", "--control", control, "--disk", "root",
                               "--socket", t.path("nbd"), "--transport", transport)
        nbd = Nbd(path)
        for i in range(4):  # two segments on each server
            assert nbd.write(i << 21, bytes([i + 1]) * BLOCK) == 0
        for i in range(4):
            assert nbd.read(i << 21, BLOCK) == bytes([i + 1]) * BLOCK
        nbd.s.close()
        client.terminate()
        assert client.wait(LONG) == 0


def luna_frame(kind, part, conn, seq, epoch):
    """A frame to a server (ebs.h), without blocks."""
    rpc = struct.pack(">BBHIQHHBBBBIIIIIIHBB", 0x28, kind, 0, conn, 1, 0, 1, 0, 0, 0, 0, seq, 1, 0,
                      0, 0, epoch, 0, 0, 0)
    rest = bytes(8) + part.ljust(64, b"\0")
    crc = crc32c(struct.pack(">II", conn, 2) + rpc + bytes(4) + rest)
    return rpc + struct.pack(">I", crc) + rest


class LunaPeer:
    """A connection without a token, which sends HELLO and then a PROBE now and then."""

    def __init__(self, at, client_id):
        self.s = tcp(at)
        self.s.sendall(luna_frame(9, struct.pack(">BBHI32xQII", 2, 2, 0, 7, client_id, 0,
                                                  4320), 0, 1, 0))
        ack = b""
        while len(ack) < 128:
            more = self.s.recv(128 - len(ack))
            if not more:
                raise EOFError
            ack += more
        self.epoch, = struct.unpack(">I", ack[44:48])
        self.conn, = struct.unpack(">I", ack[68:72])
        self.seq = 1

    def probe(self):
        """@return 0: its connection has ended"""
        self.seq += 1
        try:
            self.s.sendall(luna_frame(6, b"", self.conn, self.seq, self.epoch))
            return len(self.s.recv(4096))
        except OSError:
            return 0


def test_luna_unknown_peers(t):
    """A host without a key cannot use up the connections for clients: one without a token makes
    room, whatever else it sends."""
    for words in (["wire", "wire"], ["token", "token"], ["client", "key7", "wire", "7"]):
        code, text = t.run("ctl", "key", words[0], *[t.path(w) if w != "7" else w
                                                    for w in words[1:]])
        assert code == 0 or "without libcrypto" in text, text
        if code != 0:
            print("  skipped: no libcrypto")
            return
    with open(t.path("list"), "w", encoding="utf-8") as f:
        f.write("7 1 rw\n")
    keys = ["--wire-key", t.path("wire"), "--token-key", t.path("token")]
    _, control = t.begin("ctl", "ctl", "serve", "--listen", "127.0.0.1:0", "--catalog",
                         t.path("catalog"), "--clients", t.path("list"), *keys)
    _, at = t.begin("server", "server", "--listen", "127.0.0.1:0", "--peer", "127.0.0.1:0",
                    "--store", t.path("store"), "--store-size", "64M", "--control", control,
                    "--connections", "8", "--transport", "both", *keys)
    until(lambda: "registered" in t.log("server"), "the server is registered")
    code, text = t.run("ctl", "create", "seven", "8M", "--control", control, *keys[:2])
    assert code == 0, text
    held = [LunaPeer(at, 100 + i) for i in range(8)]
    assert all(h.probe() for h in held)
    _, path = t.begin("client", "client", "--control", control, "--disk", "seven", "--wire-key",
                      t.path("key7"), "--socket", t.path("nbd"), "--transport", "luna")
    nbd, done = Nbd(path), []
    writer = threading.Thread(target=lambda: done.append(nbd.write(0, b"x" * BLOCK)))
    writer.start()
    end = time.monotonic() + LONG
    while time.monotonic() < end:  # all of them send a PROBE all the time
        held = [h for h in held if h.probe()]
        writer.join(0.2)
        if not writer.is_alive():
            break
    assert done == [0], (done, len(held), t.log("server"))
    assert sum(h.probe() > 0 for h in held) < 8


TESTS = [test_client_epoch, test_server_disk, test_nbd_deaf, test_nbd_shares, test_nbd_leaves,
         test_nbd_many, test_nbd_silent, test_nbd_large, test_nbd_end, test_nbd_options,
         test_ctl_silent, test_server_names, test_metrics_held, test_server_peer,
         test_other_version, test_luna_unknown_peers, test_ctl_log,
         test_ctl_wiped, test_client_families]


if __name__ == "__main__":
    sys.exit(run_tests(sys.argv[1], sys.argv[2:], TESTS))
