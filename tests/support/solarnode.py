# SPDX-License-Identifier: Apache-2.0 OR MIT
"""solar_volume under test, as processes, and a raw NBD client. Python's own library only."""
import os
import re
import socket
import struct
import subprocess
import sys
import tempfile
import time

from freeport import free_port

BLOCK = 4096
LONG = 300  # seconds: what has not come by then never will, however slow the machine is


def fail(text):
    sys.exit("FAILED: " + text)


def until(what, text):
    """What may fail at first, and comes; @return what it gives"""
    end = time.monotonic() + LONG
    while True:
        try:
            got = what()
            if got:
                return got
        except (EOFError, OSError):
            pass
        if time.monotonic() >= end:
            fail("timed out: " + text)
        time.sleep(0.05)


def tcp(at):
    host, port = at.rsplit(":", 1)
    return socket.create_connection((host, int(port)), LONG)


def figures(at):
    """The figures of --metrics there, without the program's name."""
    with tcp(at) as s:
        s.sendall(b"GET /metrics HTTP/1.0\r\n\r\n")
        page = b""
        while more := s.recv(65536):
            page += more
    lines = re.finditer(r"^solar_[a-z]+_(\S+) (\d+)$", page.decode(), re.M)
    return {m[1]: int(m[2]) for m in lines}


class Nbd:
    """An NBD client of the first disk; go=False: of the first bytes only."""

    def __init__(self, path, go=True):
        self.s = socket.socket(socket.AF_UNIX)
        self.s.settimeout(LONG)
        self.s.connect(path)
        self.handle, self.size = 0, None
        if go:
            self.go()

    def take(self, size):
        data = bytearray(size)
        left = memoryview(data)
        while left:
            got = self.s.recv_into(left)
            if got == 0:
                raise EOFError
            left = left[got:]
        return bytes(data)

    def go(self):
        assert self.take(16) == b"NBDMAGICIHAVEOPT"
        self.take(2)
        self.s.sendall(struct.pack(">I8sIIIH", 3, b"IHAVEOPT", 7, 6, 0, 0))
        kind = 0
        while kind != 1:
            _, _, kind, size = struct.unpack(">QIII", self.take(20))
            data = self.take(size)
            assert kind >> 31 == 0, hex(kind)
            if kind == 3 and data[:2] == b"\0\0":
                self.size, = struct.unpack(">Q", data[2:10])

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


class Process:
    """A catalog, a server or a client, ready at .at; what it logs is in .log()."""

    def __init__(self, work, name, *words, may_print=None):
        self.path = f"{work}/{name}.log"
        with open(self.path, "a", encoding="utf-8") as log:
            self.p = subprocess.Popen(words, stdout=subprocess.PIPE, stderr=log, text=True)
        line = self.p.stdout.readline()
        if not line.startswith("ready "):
            self.p.wait(LONG)
            if may_print is not None and may_print in self.log():
                return
            if "io_uring" in self.log():
                print("skipped: " + self.log())
                sys.exit(77)
            sys.exit(f"FAILED: {name} is not ready: {line}{self.log()}")
        self.at = line.split()[1]

    def log(self):
        with open(self.path, encoding="utf-8") as log:
            return log.read()

    def end(self, hard=False):
        if self.p.poll() is None:
            self.p.kill() if hard else self.p.terminate()
            self.p.wait(LONG)


class Stand:
    """The processes of one test, and its folder."""

    def __init__(self, program, work):
        self.program, self.work, self.children = program, work, []
        self.ignore = False  # children are started with SIGXFSZ ignored, as this program has it

    def path(self, name):
        return f"{self.work}/{name}"

    def begin(self, name, *words):
        """@return the process, and where it is ready"""
        with open(self.path(name + ".log"), "wb") as log:
            p = subprocess.Popen([self.program, *words], stdin=subprocess.DEVNULL, stdout=log,
                                 stderr=subprocess.STDOUT, restore_signals=not self.ignore)
        self.children.append(p)
        end = time.monotonic() + LONG
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

    def run(self, *words):
        """@return code and its output"""
        r = subprocess.run([self.program, *words], stdin=subprocess.DEVNULL, capture_output=True,
                           text=True, timeout=LONG, check=False)
        return r.returncode, r.stdout + r.stderr

    def refused(self, text, *words):
        """It ends with an error of this text."""
        try:
            code, output = self.run(*words)
        except subprocess.TimeoutExpired:
            fail(f"it takes {' '.join(words)}")
        if code == 0 or text not in output:
            fail(f"{' '.join(words)}: not '{text}' but {code}: {output}")

    def server(self, *words, at=None, name="server"):
        at = at or f"127.0.0.1:{free_port()}"
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


def run_tests(program, names, tests, make=Stand):
    """Those of these names, or all, each with processes and a folder of its own."""
    for test in tests:
        name = test.__name__.removeprefix("test_").removeprefix("case_")
        if names and name not in names:
            continue
        with tempfile.TemporaryDirectory(prefix="solar_") as work:
            stand = make(program, work)
            began = time.monotonic()
            try:
                test(stand)
            finally:
                stand.end()
        print(f"{name}: well, {time.monotonic() - began:.1f} s", flush=True)
    print("all well")
    return 0
