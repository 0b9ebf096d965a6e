# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Clusters of ddp_server on loopback, for the tests of this folder."""
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
from kvnode import Closed, Conn, Error, encode  # noqa: E402

WAIT = 240  # seconds; against hangs only: machines are shared


class Disturbed(Exception):
    """A node got no processor for longer than its lease (0.4 s), and it shows."""


def undisturbed(reply):
    """The reply, if it is none of a node that has no lease, or of a membership that changes."""
    if isinstance(reply, Error) and reply.split()[0] in Client.DISTURBED:
        raise Disturbed(reply)
    return reply


class Client(Conn):
    """What the node refuses because it serves no client at the moment was not done: cmd() repeats
    it. ask() does not."""

    REFUSALS = "CLUSTERDOWN", "LOADING", "NOREPLICAS"
    DISTURBED = REFUSALS + ("UNKNOWN",)

    def ask(self, *args):
        return super().cmd(*args)

    def cmd(self, *args):
        end = time.monotonic() + WAIT
        while True:
            reply = self.ask(*args)
            if not isinstance(reply, Error) or reply.split()[0] not in self.REFUSALS or (
                    time.monotonic() >= end):
                return undisturbed(reply)
            time.sleep(0.03)


def repeated(test, *arguments):
    """A test, again when it was disturbed; the tenth time that is no machine's fault."""
    for attempt in range(10):
        try:
            test(*arguments)
            return
        except Disturbed as e:
            print("disturbed:", test.__name__, e, flush=True)
            if attempt == 9:
                raise


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
        for i in range(self.nodes):
            self.wait(i)
        return self

    def found_alone(self):
        """The only node, without waiting: it has a password."""
        self.start(0, True)
        self.conn(0).close()
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
        """Keys and values, at node i. A node that did not get a processor for longer than its lease
        refuses, or does not know: a write of the same value is repeated."""
        end, left = time.monotonic() + WAIT, list(items)
        with self.conn(i) as c:
            while left:
                some, left = left[:400], left[400:]
                for key, value in some:
                    c.send("SET", key, value)
                replies = [c.reply() for _ in some]
                again = [item for item, r in zip(some, replies) if r != "OK"]
                assert not again or time.monotonic() < end, (replies[-1], self.log(i))
                left = again + left

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

    def destroy(self):
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


__all__ = ["Client", "Closed", "Cluster", "Disturbed", "Error", "WAIT", "encode", "free_ports",
           "refused", "repeated", "undisturbed"]
