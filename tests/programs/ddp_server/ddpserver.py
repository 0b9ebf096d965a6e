# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Clusters of ddp_server on loopback, for the tests of this folder."""
import contextlib
import os
import random
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.realpath(__file__)), "../../support"))
from kvnode import Closed, Conn, Error  # noqa: E402
from schedwaits import Waits  # noqa: E402

WAIT = 240  # seconds; against hangs only: machines are shared
LIMIT = 840  # of a program, below ctest's
TRIES, EXCUSED = 3, 6  # of a test; of refusals within one
HORIZON = 5  # seconds for which a wait explains what the nodes refuse


class Inconclusive(Exception):
    """A node was not scheduled for half of its lease: its test judges a node that was."""


class Evidence:
    """Nodes refuse, or do not know, when one of them was not scheduled for half of its lease: then
    a test may repeat what was refused, so many times. Without evidence of it that is a failure."""

    def __init__(self):
        self.clusters = []  # that exist
        self.waits = Waits(lambda: [p for k in list(self.clusters) for p in list(k.processes) if p])
        self.begin()

    def begin(self):
        self.began, self.excused, self.allowed = time.monotonic(), 0, EXCUSED

    def excuse(self, what, horizon=HORIZON):
        """Something was refused, and will be repeated."""
        now = time.monotonic()
        longest = 0
        while longest == 0 and time.monotonic() < now + HORIZON:
            time.sleep(Waits.PERIOD)  # a wait is counted when it has ended
            longest = self.waits.since(max(now - horizon, self.began))
        self.excused += 1
        print("refused (%d): %s; the longest wait for a processor was %.2f s" %
              (self.excused, what, longest), flush=True)
        assert longest > 0, "%s, and all nodes were scheduled in time, or it is not known" % what
        assert self.excused <= self.allowed, "%s: %d refusals are too many" % (what, self.excused)

    def inconclusive(self, what):
        self.excuse(what, WAIT)  # it may have been refused long before it is read
        raise Inconclusive(what)


evidence = Evidence()


def conclusive(reply):
    """The reply, unless it is that of a node that has no lease, or of a changing membership."""
    if isinstance(reply, Error) and reply.split()[0] in Client.INCONCLUSIVE:
        evidence.inconclusive(reply)
    return reply


class Client(Conn):
    """What the node refuses because it serves no client at the moment was not done: cmd() repeats
    it where there is evidence for the cause. ask() does not."""

    REFUSALS = "CLUSTERDOWN", "LOADING", "NOREPLICAS"
    INCONCLUSIVE = REFUSALS + ("UNKNOWN",)

    def ask(self, *args):
        return super().cmd(*args)

    def cmd(self, *args):
        end, excused = time.monotonic() + WAIT, False
        while True:
            reply = self.ask(*args)
            if not isinstance(reply, Error) or reply.split()[0] not in self.REFUSALS:
                return conclusive(reply)
            if not excused:
                evidence.excuse("%.60r: %s" % (args, reply))
                excused = True
            assert time.monotonic() < end, "%.60r is refused for %d s: %s" % (args, WAIT, reply)
            time.sleep(0.03)


def repeated(test, *arguments):
    for attempt in range(TRIES):
        evidence.begin()
        try:
            test(*arguments)
            return
        except Inconclusive as e:
            print("inconclusive:", test.__name__, e, flush=True)
            if attempt == TRIES - 1:
                raise


def late(*_):
    raise AssertionError("the tests are not done in %d s" % LIMIT)


def carry_out(tests, names, *arguments):
    """The tests of these names, or all: functions by name."""
    signal.signal(signal.SIGALRM, late)
    signal.alarm(LIMIT)
    evidence.waits.start()
    for name in names or tests:
        repeated(tests[name], *arguments)
        print("ok", name, flush=True)


def tests_of(names):
    return {n[5:]: f for n, f in names.items() if n.startswith("test_")}


def free_ports(count, each):
    """First ports of @p count runs of @p each ports that are free for TCP and UDP."""
    rng = random.Random(os.getpid() * 7919 + time.monotonic_ns())
    out = []
    while len(out) < count:
        base = rng.randrange(20000, 32000 - each)
        if any(abs(base - other) < each for other in out):
            continue
        try:
            for port in range(base, base + each):
                for kind in (socket.SOCK_STREAM, socket.SOCK_DGRAM):
                    with socket.socket(socket.AF_INET, kind) as s:
                        s.bind(("127.0.0.1", port))
            out.append(base)
        except OSError:
            continue
    return out


class Cluster:
    def __init__(self, binary, nodes=3, shards=1, options=(), node_options=None):
        self.binary, self.nodes, self.shards = binary, nodes, shards
        self.options, self.node_options = list(options), node_options or {}
        self.directory = tempfile.mkdtemp(prefix="ddpserver.")
        ports = free_ports(nodes + 1, max(shards, nodes) + 1)
        self.peers = ports[:nodes]
        self.ports = [ports[nodes] + i for i in range(nodes)]
        self.processes = [None] * nodes
        self.config = None
        evidence.clusters.append(self)

    def command(self, i, found=False, options=()):
        peers = ",".join("127.0.0.1:%d" % p for p in self.peers)
        clients = ",".join("127.0.0.1:%d" % p for p in self.ports)
        cluster = ["--config", self.config] if self.config else [
            "--peers", peers, "--clients", clients, "--shards", str(self.shards)]
        return [self.binary, "--node", str(i), *cluster, "--dir",
                os.path.join(self.directory, str(i)), "--listen", "127.0.0.1:%d" % self.ports[i],
                "--log-size", "64M", "--keys", "20000", "--memory", "256M", *self.options,
                *self.node_options.get(i, []), *options, *(["--found"] if found else [])]

    def start(self, i, found=False, options=()):
        with open(os.path.join(self.directory, "%d.log" % i), "ab") as log:
            self.processes[i] = subprocess.Popen(self.command(i, found, options), stdout=log,
                                                 stderr=log)

    def found(self):
        for i in range(self.nodes):
            self.start(i, True)
        return self.ready(range(self.nodes), self.wait)

    def found_alone(self):
        """The only node, without waiting until it serves: it has a password."""
        self.start(0, True)
        return self.ready([0], lambda i: self.conn(i).close())

    def ready(self, nodes, wait):
        """As __exit__ is not called when `with` has not begun, nodes must not stay."""
        try:
            for i in nodes:
                wait(i)
        except BaseException:
            self.destroy()
            raise
        return self

    def conn(self, i):
        """A connection that was answered once: while the kernel still closes the sockets of the
        node's last process, one may be reset."""
        end = time.monotonic() + WAIT
        while True:
            try:
                c = Client(self.ports[i])
                c.ask("PING")
                return c
            except (OSError, Closed):
                assert self.processes[i].poll() is None, self.log(i)
                assert time.monotonic() < end, self.log(i)
                time.sleep(0.02)

    def wait(self, i):
        """Until the node serves all keys."""
        self.until(i, "DBSIZE", want=lambda r: not isinstance(r, Error))

    def until(self, i, *command, want):
        """Until the node's reply to the command is what is wanted."""
        end = time.monotonic() + WAIT
        reply = None
        while True:
            try:
                with self.conn(i) as c:
                    while True:
                        reply = c.ask(*command)
                        if want(reply):
                            return reply
                        assert time.monotonic() < end, (command, reply, self.log(i))
                        time.sleep(0.03)
            except Closed:
                assert time.monotonic() < end and self.processes[i].poll() is None, self.log(i)

    def put(self, i, items):
        """Keys and values, at node i: a write of the same value may be repeated."""
        left = list(items)
        evidence.allowed += len(left) // 800  # of every second batch
        with self.conn(i) as c:
            while left:
                some, left = left[:400], left[400:]
                for key, value in some:
                    c.send("SET", key, value)
                replies = [c.reply() for _ in some]
                again = [(item, r) for item, r in zip(some, replies) if r != "OK"]
                for item, r in again:
                    assert str(r).split()[0] in Client.INCONCLUSIVE, (item[0], r)
                if again:
                    evidence.excuse("%d writes: %s" % (len(again), again[-1][1]))
                left = [item for item, _ in again] + left

    def log(self, i):
        with open(os.path.join(self.directory, "%d.log" % i), encoding="utf-8") as f:
            return f.read()

    def logs(self, i, *words):
        """Until the node's log has these."""
        end = time.monotonic() + WAIT
        while not all(w in self.log(i) for w in words):
            assert time.monotonic() < end, (words, self.log(i))
            time.sleep(0.05)

    def kill(self, i, number=signal.SIGKILL):
        self.processes[i].send_signal(number)
        code = self.processes[i].wait(WAIT)
        self.processes[i] = None
        return code

    @contextlib.contextmanager
    def stopped(self, i):
        """What the test does meanwhile is short, or evidence."""
        began = time.monotonic()
        self.processes[i].send_signal(signal.SIGSTOP)
        yield
        self.processes[i].send_signal(signal.SIGCONT)
        evidence.waits.add(time.monotonic() - began)

    def destroy(self):
        if self in evidence.clusters:
            evidence.clusters.remove(self)
        for p in self.processes:
            if p is not None:
                p.send_signal(signal.SIGCONT)
                p.kill()
                p.wait()
        shutil.rmtree(self.directory, ignore_errors=True)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.destroy()


def refused(reply, *words):
    assert isinstance(reply, Error), "%r is no error" % (reply,)
    for w in words:
        assert w in str(reply), "%r without %r" % (reply, w)


def fields(reply):
    """An array of names and values."""
    return dict(zip((n.decode() for n in reply[::2]), reply[1::2]))


def settled(k, i, **want):
    """Until each shard of node i reports these, and nothing is vacant."""
    def right(reply):
        for s in reply[5]:
            s = fields(s)
            if s["vacant"] or any(s[n] != v for n, v in want.items()):
                return False
        return True
    k.until(i, "CLUSTER", "STATE", want=right)


def run(*command, code=0):
    p = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=WAIT,
                       check=False)
    text = p.stdout.decode()
    if p.returncode == 1 != code and any(": %s " % w in text for w in Client.INCONCLUSIVE):
        evidence.inconclusive(text)
    assert p.returncode == code, (p.returncode, text)
    return text


def shows(*command, code=0, want):
    """What it prints once that is as wanted: a node may have no lease for a moment."""
    end = time.monotonic() + WAIT
    while True:
        p = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=WAIT,
                           check=False)
        text = p.stdout.decode()
        if p.returncode == code and want(text):
            return text
        assert time.monotonic() < end, (p.returncode, text)
        time.sleep(0.1)


def ends(k, i, options, *words, found=False):
    p = subprocess.run(k.command(i, found, options), stdout=subprocess.PIPE,
                       stderr=subprocess.STDOUT, timeout=WAIT, check=False)
    text = p.stdout.decode()
    assert p.returncode in (1, 2), (p.returncode, text)
    for w in words:
        assert w in text, "%r without %r" % (text, w)
