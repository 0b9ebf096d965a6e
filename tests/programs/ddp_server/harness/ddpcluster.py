# SPDX-License-Identifier: Apache-2.0 OR MIT
"""The nodes of a run, what happens to them, and an observer that notes in the history which are
full members."""
import os
import shutil
import signal
import subprocess
import sys
import threading
import time

import ddpbox
import ddpclients

sys.path.insert(0, os.path.join(os.path.dirname(os.path.realpath(__file__)), "../../../support"))
from schedwaits import Waits  # noqa: E402


class Cluster:
    def __init__(self, kind, network, disks, folder, history):
        self.kind = kind
        self.network = network
        self.disks = disks
        self.folder = folder
        self.history = history
        self.processes = [None] * kind.nodes
        self.killed = set()  # on purpose: an end by itself is noted
        self.stopped = set()
        self.drops = set()
        self.loss = {}
        self.apart = set()
        self.ends = {}  # by themselves: (node, exit code) -> how many times
        self.started = [0.0] * kind.nodes
        self.lock = threading.RLock()
        self.is_full = [False] * kind.nodes
        self.full_at = [0] * kind.nodes
        self.end = threading.Event()
        self.observers = [threading.Thread(target=self.observe, args=(i,), daemon=True)
                          for i in range(kind.nodes)]
        history.fault("nodes", kind.nodes)
        for i in range(kind.nodes):
            history.fault("down", i)
        for o in self.observers:
            o.start()

    # ---- Full members ----

    def observe(self, i):
        if self.network:
            ddpbox.enter_network("c")
        connection, last = None, self.history.now()
        while not self.end.wait(0.1):
            began = self.history.now()
            full, log = False, []
            try:
                if connection is None:
                    connection = ddpclients.Connection(self.kind.address(i), 1.0)
                    self.kind.greet(connection)
                full = self.kind.full(i, connection)
                if full and not self.is_full[i] and self.kind.from_log(connection):
                    log = ["log"]
            except (OSError, ddpclients.Refusal):
                if connection:
                    connection.close()
                connection = None
            with self.lock:
                if full and not self.is_full[i] and i not in self.killed | self.stopped:
                    self.is_full[i] = True
                    self.full_at[i] = self.history.fault("full", i, None, *log)
                elif not full and self.is_full[i]:
                    self.not_full(i, max(last, self.full_at[i]))
            last = began

    def not_full(self, i, since=None):
        """Since when is not exact: the earliest time is noted."""
        with self.lock:
            if self.is_full[i]:
                self.is_full[i] = False
                self.history.fault("down", i, since)

    # ---- Actions ----

    def waits(self):
        """Counts, from now on, how long the run's processes are not scheduled."""
        def processes():
            nodes = [p.process for p in self.processes if p is not None]
            return [*nodes, *(d.process for d in self.disks),
                    *([self.network.process] if self.network else [])]

        waits = Waits(processes)
        waits.start()
        return waits

    def first_start(self):
        for i in range(self.kind.nodes):
            self.start(i, first=True)

    def start(self, i, first=False):
        p = self.processes[i]
        if p is not None and p.alive():
            return
        if p is not None and i not in self.killed:
            if time.monotonic() < self.started[i] + 1:
                return  # it ends whenever it is started: not more than once a second
            what = i, p.process.returncode
            self.ends[what] = self.ends.get(what, 0) + 1
            self.history.comment(f"node {i} had ended by itself: {p.process.returncode}")
        with self.lock:
            self.killed.discard(i)
            self.stopped.discard(i)
        self.started[i] = time.monotonic()
        self.history.fault("back", i)
        self.processes[i] = ddpbox.Process(
            self.kind.command(i, self.disks[i].path, first), f"{self.folder}/node{i}.log")

    def kill(self, nodes, wait=True):
        with self.lock:
            for i in nodes:
                self.not_full(i)
                p = self.processes[i]
                if p is not None and p.alive():
                    self.killed.add(i)
                    p.signal(signal.SIGKILL)
        for i in nodes:
            if wait:
                self.await_end(i)

    def await_end(self, i):
        p = self.processes[i]
        if p is not None:
            p.process.wait()
            if i in self.killed:
                self.history.fault("gone", i)

    def power(self, nodes, seed, keep, torn):
        self.kill(nodes, wait=False)
        for i in nodes:
            got = self.disks[i](f"lose {seed + i} {keep} {torn}")
            self.history.comment(f"node {i} lost power: {got}")
        for i in nodes:
            self.await_end(i)
            self.disks[i]("power on")

    def restart(self, i):
        self.not_full(i)
        p = self.processes[i]
        if p is not None and p.alive():
            self.killed.add(i)
            p.signal(signal.SIGTERM)
            try:
                p.process.wait(15)
                self.history.fault("gone", i)
            except subprocess.TimeoutExpired:
                self.history.comment(f"node {i} does not end at SIGTERM")
                p.kill()
                self.history.fault("gone", i)
        self.start(i)

    def wipe(self, i, found=False):
        try:  # without two votes of three nothing is decided any more
            if not found:
                ddpbox.until(lambda: self.kind.others_vote(i), "a vote of each other node", 10)
        except TimeoutError:
            self.history.comment(f"node {i} keeps its disk: another has no vote")
            return
        self.kill([i])
        for name in os.listdir(self.disks[i].path):
            path = f"{self.disks[i].path}/{name}"
            shutil.rmtree(path) if os.path.isdir(path) else os.unlink(path)
        if found:
            self.start(i, first=True)
            return
        self.kind.replace(i)
        self.start(i)

    def separate(self, senders, receivers):
        self.drops |= {(a, b) for a in senders for b in receivers}
        self.rules(receivers)
        fewer = senders if len(senders) <= len(receivers) else receivers
        for i in fewer:
            if i not in self.apart:
                self.apart.add(i)
                self.history.fault("apart", i)

    def rules(self, nodes):
        for i in nodes:
            rules = [f"ip saddr {self.network.address(a)} drop" for a, b in sorted(self.drops)
                     if b == i]
            if i in self.loss:
                others = f"ip saddr != {self.network.address(self.kind.nodes)}"
                rules.append(f"{others} numgen random mod 100 < {self.loss[i]} drop")
            self.network.rules(i, rules)

    def heal(self):
        self.drops.clear()
        self.loss.clear()
        if self.network:
            self.network.heal()
        for d in self.disks:
            for command in ("stall all 0", "slow all 0", "fail all off", "limit 0"):
                d(command)
        for i in sorted(self.stopped):
            self.act("cont", [str(i)])
        for i in sorted(self.apart):
            self.history.fault("joined", i)
        self.apart.clear()

    def act(self, action, words):
        nodes = [int(n) for n in words[0].split(",")] if words and words[0][0].isdigit() else []
        if action == "kill":
            self.kill(nodes)
        elif action == "power":
            self.power(nodes, *map(int, words[1:4]))
        elif action == "start":
            for i in nodes:
                self.start(i)
        elif action == "restart":
            self.restart(nodes[0])
        elif action == "stop":
            with self.lock:
                self.stopped.add(nodes[0])
                self.not_full(nodes[0])
            self.processes[nodes[0]].signal(signal.SIGSTOP)
        elif action == "cont":
            self.processes[nodes[0]].signal(signal.SIGCONT)
            self.stopped.discard(nodes[0])
        elif action in ("cut", "oneway"):
            others = [int(n) for n in words[1].split(",")]
            self.separate(nodes, others)
            if action == "cut":
                self.separate(others, nodes)
        elif action == "lossy":
            self.loss[nodes[0]] = int(words[1])
            self.rules(nodes)
        elif action == "rate":
            self.network.rate(nodes[0], int(words[1]))
        elif action == "wire":
            ends = [w if w == "*" else str(int(w) + 1) for w in words[:2]]
            self.network(" ".join(["link", *ends, *words[2:]]))
        elif action == "disk":
            self.disks[nodes[0]](" ".join(words[1:]))
        elif action in ("wipe", "misfound"):
            self.wipe(nodes[0], action == "misfound")
        elif action == "heal":
            self.heal()
        elif action == "quiet":
            for i in range(self.kind.nodes):
                self.start(i)
        elif action != "episode":
            raise ValueError("unknown action " + action)

    # ---- The end ----

    def await_full(self):
        """All nodes are full members again; @return those that are not, after minutes."""
        end = time.monotonic() + ddpbox.PATIENCE
        while time.monotonic() < end:
            for i in range(self.kind.nodes):
                self.start(i)
            if all(self.is_full):
                return []
            time.sleep(0.1)
        return [i for i in range(self.kind.nodes) if not self.is_full[i]]

    def close(self, seed=0):
        """All lose power: a later run on these disks begins from what they have."""
        self.end.set()
        for o in self.observers:
            o.join()
        self.power(list(range(self.kind.nodes)), seed, 30, 30)
