# SPDX-License-Identifier: Apache-2.0 OR MIT
"""nvme_target --config as a process, and its ctl: for the tests of this folder."""
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile

NQN = "nqn.2026-11.example:disk"
HOST_A = "nqn.2026-11.example:a"
HOST_B = "nqn.2026-11.example:b"
WAIT = 300  # against hangs only


class Skip(Exception):
    """This machine is not fit for a test, or was not while it ran."""


class Target:
    def __init__(self, binary, lines=(), options=(), env=None):
        self.binary, self.options, self.env = os.path.abspath(binary), list(options), env
        self.dir = tempfile.mkdtemp(prefix="nvmectl.")
        self.config = os.path.join(self.dir, "t.conf")
        self.socket = self.config + ".sock"
        self.process = None
        self.port = None
        self.write(lines)

    def write(self, lines):
        with open(self.config, "w", encoding="utf-8") as f:
            f.write("".join(line + "\n" for line in lines))

    def read(self):
        with open(self.config, encoding="utf-8") as f:
            return f.read()

    def path(self, name):
        return os.path.join(self.dir, name)

    def start(self, options=(), wait=True):
        """Waits until it serves. @return its log if it did not start"""
        env = dict(os.environ, **(self.env or {}))
        with open(self.path("log"), "ab") as log:
            self.process = subprocess.Popen(
                [self.binary, "--config", self.config, "--listen", "127.0.0.1:0", "--loops",
                 os.environ.get("NVME_TARGET_LOOPS", "1"), *self.options, *options],
                stdout=subprocess.PIPE, stderr=log, env=env, cwd=self.dir)
        if not wait:
            return None
        line = self.process.stdout.readline().decode()
        if not line.startswith("ready "):
            self.process.wait()
            return self.log()
        self.port = int(line.rsplit(":", 1)[1])
        return None

    def log(self):
        with open(self.path("log"), encoding="utf-8") as f:
            return f.read()

    def state(self):
        if self.process is None:
            is_now = "is not started"
        elif self.process.poll() is None:
            is_now = "runs"
        else:
            is_now = "ended with %d" % self.process.returncode
        return "the target %s; its log ends with:\n%s" % (is_now, self.log()[-2000:])

    def not_scheduled(self):
        """Seconds that its threads, which are there now, were ready and had no processor."""
        ns = 0
        for task in os.listdir("/proc/%d/task" % self.process.pid):
            with open("/proc/%d/task/%s/schedstat" % (self.process.pid, task),
                      encoding="ascii") as f:
                ns += int(f.read().split()[1])
        return ns / 1e9

    def ctl(self, *words):
        """@return exit code, stdout, stderr"""
        p = subprocess.run(
            [self.binary, "ctl", "--socket", self.socket, "--timeout", str(WAIT), *words],
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, check=False, timeout=WAIT + 30)
        return p.returncode, p.stdout.decode(), p.stderr.decode()

    def good(self, *words):
        code, out, err = self.ctl(*words)
        assert code == 0, "ctl %s: %d: %s%s" % (" ".join(words), code, err, self.state())
        return out

    def bad(self, text, *words):
        before = self.good("show", "config")
        code, out, err = self.ctl(*words)
        assert code == 1 and text in err and out == "", \
            "ctl %s: %d, not '%s': %s%s" % (" ".join(words), code, text, out, err)
        assert self.good("show", "config") == before, "a refused command changed something"

    def raw(self):
        s = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        s.settimeout(WAIT)
        s.connect(self.socket)
        return s

    def kill(self):
        if self.process is not None:
            self.process.send_signal(signal.SIGKILL)
            self.process.wait()
            self.process.stdout.close()
        self.process = None

    def stop(self):
        self.process.send_signal(signal.SIGTERM)
        code = self.process.wait(timeout=WAIT)
        self.process.stdout.close()
        self.process = None
        assert code == 0, "the target ended with %d: %s" % (code, self.log())

    def close(self):
        self.kill()
        shutil.rmtree(self.dir, ignore_errors=True)


class Host:
    """nvme_driver: a command a line."""
    def __init__(self, driver, target, nqn=HOST_A, hostid=1, subsystem=NQN):
        self.process = subprocess.Popen(
            [driver, "127.0.0.1:%d" % target.port, subsystem, nqn, str(hostid)],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE)

    def send(self, *words):
        self.process.stdin.write((" ".join(str(w) for w in words) + "\n").encode())
        self.process.stdin.flush()

    def result(self):
        """@return status, text; 0x7ff: the connection ended"""
        line = self.process.stdout.readline().decode()
        if not line:
            if self.process.wait() == 77:
                print("no io_uring or no libcrypto here")
                sys.exit(77)
            raise AssertionError("the driver ended with %d" % self.process.returncode)
        status, _, text = line.strip().partition(" ")
        return int(status, 16), text.strip()

    def call(self, *words):
        self.send(*words)
        return self.result()

    def good(self, *words):
        status, text = self.call(*words)
        assert status == 0, "%s: status %x %s" % (words, status, text)
        return text

    def close(self):
        self.process.stdin.close()
        self.process.stdout.close()
        self.process.wait()


def answer(s):
    """Everything until the target ends the connection."""
    data = b""
    while True:
        try:
            part = s.recv(65536)
        except ConnectionResetError:
            break
        if not part:
            break
        data += part
    s.close()
    return data.decode()


def run(tests, argv, programs=1):
    """@p programs paths are the tests' arguments; then words of the names of tests"""
    only = argv[1 + programs:]
    skipped = False
    for test in tests:
        if only and not any(o in test.__name__ for o in only):
            continue
        print("RUN", test.__name__, flush=True)
        try:
            test(*argv[1:1 + programs])
        except Skip as why:
            print("SKIPPED %s: %s" % (test.__name__, why), flush=True)
            skipped = True
    print("all others passed" if skipped else "PASSED")
    return 77 if skipped else 0

