#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 OR MIT
"""solar_volume_attack.py PROGRAM [TEST]...: solar_volume, as processes, and those who mean it no
good, or only do not read what they asked for."""
import os
import socket
import struct
import subprocess
import sys
import tempfile
import time

BLOCK = 4096


def fail(text):
    sys.exit("FAILED: " + text)


class Nbd:
    """An NBD client; go=False: of the first bytes only."""

    def __init__(self, path, go=True, seconds=20):
        self.s = socket.socket(socket.AF_UNIX)
        self.s.settimeout(seconds)
        self.s.connect(path)
        self.handle = 0
        if go:
            self.go()

    def take(self, size):
        data = b""
        while len(data) < size:
            more = self.s.recv(size - len(data))
            if not more:
                raise EOFError
            data += more
        return data

    def go(self):
        assert self.take(16) == b"NBDMAGICIHAVEOPT"
        self.take(2)
        self.s.sendall(struct.pack(">I8sIIIH", 3, b"IHAVEOPT", 7, 6, 0, 0))
        kind = 0
        while kind != 1:
            _, _, kind, size = struct.unpack(">QIII", self.take(20))
            self.take(size)
            assert kind >> 31 == 0, hex(kind)

    def ask(self, kind, offset, size, data=b""):
        self.handle += 1
        self.s.sendall(struct.pack(">IHHQQI", 0x25609513, 0, kind, self.handle, offset, size) +
                       data)

    def answer(self, size=0):
        magic, error, _ = struct.unpack(">IIQ", self.take(16))
        assert magic == 0x67446698
        return error, self.take(size) if error == 0 else b""

    def write(self, offset, data):
        self.ask(1, offset, len(data), data)
        return self.answer()[0]

    def read(self, offset, size):
        self.ask(0, offset, size)
        error, data = self.answer(size)
        assert error == 0, error
        return data


class Stand:
    """The processes of one test, and its folder."""

    def __init__(self, program, work):
        self.program, self.work, self.children = program, work, []

    def path(self, name):
        return f"{self.work}/{name}"

    def begin(self, name, *words):
        """@return the process, and where it is ready"""
        with open(self.path(name + ".log"), "wb") as log:
            p = subprocess.Popen([self.program, *words], stdin=subprocess.DEVNULL, stdout=log,
                                 stderr=subprocess.STDOUT)
        self.children.append(p)
        end = time.monotonic() + 30
        while time.monotonic() < end:
            for line in self.log(name).splitlines():
                if line.startswith("ready "):
                    return p, line.split()[1]
            if p.poll() is not None:
                text = self.log(name)
                if "io_uring" in text or "without libcrypto" in text:
                    print("skipped: " + text)
                    sys.exit(77)
                fail(f"{name} ended: {text}")
            time.sleep(0.02)
        fail(f"{name} is not ready: {self.log(name)}")

    def log(self, name):
        with open(self.path(name + ".log"), encoding="utf-8", errors="replace") as f:
            return f.read()

    def run(self, *words, seconds=30):
        """@return code and what it said"""
        r = subprocess.run([self.program, *words], stdin=subprocess.DEVNULL, capture_output=True,
                           text=True, timeout=seconds, check=False)
        return r.returncode, r.stdout + r.stderr

    def refused(self, text, *words):
        """It ends with an error that says so."""
        try:
            code, said = self.run(*words, seconds=10)
        except subprocess.TimeoutExpired:
            fail(f"it takes {' '.join(words)}")
        if code == 0 or text not in said:
            fail(f"{' '.join(words)}: not '{text}' but {code}: {said}")

    def server(self, *words, at="127.0.0.1:0", name="server"):
        return self.begin(name, "server", "--listen", at, "--store", self.path("store"),
                          "--store-size", "64M", "--disk", "1:16M", *words)

    def client(self, at, *words, name="client", epoch=1):
        p, path = self.begin(name, "client", "--server", at, "--disk", "1", "--size", "16M",
                             "--epoch", str(epoch), "--socket", self.path("nbd"), *words)
        return p, path

    def end(self):
        for p in self.children:
            if p.poll() is None:
                p.kill()
            p.wait()


def test_client_epoch(t):
    """Versions begin anew with each start of a client: in an epoch that was used before they are
    older than what is there, and a write would be acknowledged and lost."""
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
        assert client.wait(20) == 0


TESTS = [test_client_epoch]


def main():
    program, names = sys.argv[1], sys.argv[2:]
    for test in TESTS:
        name = test.__name__.removeprefix("test_")
        if names and name not in names:
            continue
        with tempfile.TemporaryDirectory(prefix="attack_") as work:
            stand = Stand(program, work)
            began = time.monotonic()
            try:
                test(stand)
            finally:
                stand.end()
        print(f"{name}: well, {time.monotonic() - began:.1f} s", flush=True)
    print("all well")
    return 0


if __name__ == "__main__":
    sys.exit(main())
