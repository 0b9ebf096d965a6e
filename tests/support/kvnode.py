# SPDX-License-Identifier: Apache-2.0 OR MIT
"""A kv_server under test, and a raw RESP2 client. Python's own library only."""
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time

from freeport import free_port

WAIT = 120.0  # against hangs only: machines are shared


class Error(str):
    """An error reply; its text without '-'."""


class Closed(Exception):
    """The server closed or reset the connection."""


def encode(*args):
    out = [b"*%d\r\n" % len(args)]
    for a in args:
        if isinstance(a, int):
            a = b"%d" % a
        elif isinstance(a, str):
            a = a.encode()
        out.append(b"$%d\r\n%s\r\n" % (len(a), a))
    return b"".join(out)


class Conn:
    """One client. cmd() waits for the reply; send() and reply() pipeline."""

    def __init__(self, port, timeout=WAIT):
        self.sock = socket.create_connection(("127.0.0.1", port), timeout=timeout)
        self.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.data = bytearray()
        self.at = 0

    def close(self):
        self.sock.close()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def raw(self, data):
        try:
            self.sock.sendall(data)
        except (ConnectionError, BrokenPipeError) as e:
            raise Closed(str(e)) from e

    def send(self, *args):
        self.raw(encode(*args))

    def more(self):
        try:
            got = self.sock.recv(1 << 20)
        except ConnectionError as e:
            raise Closed(str(e)) from e
        if not got:
            raise Closed("end of stream")
        if self.at > 1 << 20:
            del self.data[:self.at]
            self.at = 0
        self.data += got

    def line(self):
        while True:
            end = self.data.find(b"\r\n", self.at)
            if end >= 0:
                out = bytes(self.data[self.at:end])
                self.at = end + 2
                return out
            self.more()

    def bulk(self, n):
        while len(self.data) - self.at < n + 2:
            self.more()
        out = bytes(self.data[self.at:self.at + n])
        assert self.data[self.at + n:self.at + n + 2] == b"\r\n", "a bulk without its end"
        self.at += n + 2
        return out

    def reply(self):
        line = self.line()
        kind, rest = line[:1], line[1:]
        if kind == b"+":
            return rest.decode()
        if kind == b"-":
            return Error(rest.decode(errors="replace"))
        if kind == b":":
            return int(rest)
        if kind == b"$":
            return None if rest == b"-1" else self.bulk(int(rest))
        if kind == b"*":
            return None if rest == b"-1" else [self.reply() for _ in range(int(rest))]
        if kind == b"_":
            return None
        if kind in b"~%":
            return [self.reply() for _ in range(int(rest) * (2 if kind == b"%" else 1))]
        raise AssertionError("not a reply: %r" % line)

    def cmd(self, *args):
        self.send(*args)
        return self.reply()

    def eof(self):
        """What is left until the server closes."""
        out = bytes(self.data[self.at:])
        while True:
            try:
                got = self.sock.recv(65536)
            except ConnectionError:
                got = b""
            if not got:
                return out
            out += got


def rss_kib(pid):
    try:
        with open("/proc/%d/status" % pid) as f:
            return int(re.search(r"VmRSS:\s+(\d+)", f.read()).group(1))
    except (OSError, AttributeError):
        return 0


def fd_count(pid):
    try:
        return len(os.listdir("/proc/%d/fd" % pid))
    except OSError:
        return 0


class Server:
    """One kv_server on files of its own in a directory that goes with it."""

    def __init__(self, binary, mode, **options):
        self.binary = binary
        self.mode = mode
        self.directory = tempfile.mkdtemp(prefix="kvtest.")
        self.port = free_port()
        self.options = {"size": "256M", "memory": "32M", "segment": "16M", "cache-entries": "65536",
                        "sync": "none"}
        if os.environ.get("SNIC_KV_QOS") and mode != "monolith":
            self.options["qos"] = "gimbal"
        self.options.update(options)
        self.process = None
        self.log_path = os.path.join(self.directory, "log")
        self.out_path = os.path.join(self.directory, "out")

    def args(self, extra=()):
        out = [self.binary, "--listen", "127.0.0.1:%d" % self.port]
        if self.mode == "monolith":
            out += ["--monolith", "--dir", os.path.join(self.directory, "d")]
        else:
            out += ["--file", os.path.join(self.directory, "img")]
        if self.mode == "single":
            out.append("--single-process")
        for name, value in self.options.items():
            out += ["--" + name] + ([] if value is None else [str(value)])
        return out + list(extra)

    def environment(self):
        e = dict(os.environ)
        e.setdefault("ASAN_OPTIONS", "quarantine_size_mb=8:malloc_context_size=8")
        return e

    def start(self, wait=True, extra=()):
        with open(self.log_path, "ab") as log, open(self.out_path, "ab") as out:
            self.process = subprocess.Popen(self.args(extra), stdout=out, stderr=log,
                                            env=self.environment())
        if wait:
            self.wait_ready()
        return self

    def wait_ready(self):
        end = time.monotonic() + WAIT
        while time.monotonic() < end:
            if self.process.poll() is not None:
                raise AssertionError("the server ended with %d:\n%s" %
                                     (self.process.returncode, self.log()))
            try:
                with Conn(self.port) as c:
                    if c.cmd("PING") == "PONG":
                        return
            except (OSError, Closed):
                pass
            time.sleep(0.02)
        raise AssertionError("the server does not get ready:\n" + self.log())

    def conn(self, **kw):
        return Conn(self.port, **kw)

    def log(self):
        with open(self.log_path, errors="replace") as f:
            return f.read()[-8000:]

    def out(self):
        with open(self.out_path, errors="replace") as f:
            return f.read()

    def role_pid(self, role):
        """Of the running dpu or host process; 0 if there is none."""
        found = re.findall(r"started the %s role, process (\d+)" % role,
                           open(self.log_path, errors="replace").read())
        if not found:
            return 0
        pid = int(found[-1])
        try:
            os.kill(pid, 0)
        except OSError:
            return 0
        return pid

    def pids(self):
        roles = [self.role_pid(r) for r in ("dpu", "host")] if self.mode == "two" else []
        return [self.process.pid] + [p for p in roles if p]

    def rss_kib(self):
        return sum(rss_kib(p) for p in self.pids())

    def info(self, name):
        with self.conn() as c:
            text = c.cmd("INFO").decode()
        m = re.search(r"^%s:(.*)\r$" % name, text, re.M)
        return m.group(1) if m else None

    def stop(self):
        """SIGTERM: drains, and the exit status is 0."""
        self.process.send_signal(signal.SIGTERM)
        return self.wait()

    def wait(self):
        try:
            status = self.process.wait(WAIT)
        except subprocess.TimeoutExpired:
            raise AssertionError("the server does not end:\n" + self.log()) from None
        self.process = None
        return status

    def destroy(self):
        if self.process is not None:
            for p in self.pids():
                try:
                    os.kill(p, signal.SIGKILL)
                except OSError:
                    pass
            self.process.wait()
            self.process = None
        shutil.rmtree(self.directory, ignore_errors=True)

    def __enter__(self):
        return self.start()

    def __exit__(self, kind, *_):
        if kind is not None:
            print(self.log(), file=sys.stderr)
        self.destroy()
