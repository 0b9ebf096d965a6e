#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 OR MIT
"""The client library against real nodes whose configuration changes.

    test_ddp_client.py BINARY DRIVER [NAME ...]
"""
import os
import subprocess
import sys
import threading
import time

from ddpserver import WAIT, Cluster, carry_out, evidence, run, settled, shows, tests_of


class Driver:
    """store_driver, with the lines that it printed. That too few nodes have all keys is an outage,
    for which there has to be evidence, again for each 3 s of it."""

    def __init__(self, program, *addresses):
        self.process = subprocess.Popen([program, *addresses], stdin=subprocess.PIPE,
                                        stdout=subprocess.PIPE)
        self.lines = []
        self.refused, self.excused_until = 0, 0
        self.reader = threading.Thread(target=self.read, daemon=True)
        self.reader.start()

    def read(self):
        for line in self.process.stdout:
            self.lines.append(line.decode().split())

    def figures(self, words):
        """Of a line, with the nodes; None: it has none."""
        if "nodes" not in words:
            return None
        at = words.index("nodes")
        figures = dict(zip(words[:at:2], (int(n) for n in words[1:at:2])))
        if figures["refused"] > self.refused and time.monotonic() >= self.excused_until:
            evidence.excuse("%d operations of store_driver" % (figures["refused"] - self.refused),
                            WAIT)  # lines are not read while the test does something else
            self.excused_until = time.monotonic() + 3
        self.refused = figures["refused"]
        return figures, dict(w.rsplit("=", 1) for w in words[at + 1:])

    def until(self, want):
        """Until a line is as wanted: a function of its figures and nodes."""
        end = time.monotonic() + WAIT
        while True:
            words = self.lines[-1] if self.lines else []
            assert "wrong:" not in words[:1], words
            got = self.figures(words)
            if got is not None and want(*got):
                return got[0]
            assert self.process.poll() is None and time.monotonic() < end, words
            time.sleep(0.02)

    def more(self, rounds):
        """Until so many more rounds are complete."""
        begun = self.until(lambda f, n: True)["rounds"]
        return self.until(lambda f, n: f["rounds"] >= begun + rounds)

    def end(self):
        self.process.stdin.close()
        code = self.process.wait(WAIT)
        self.reader.join(WAIT)
        assert code == 0 and self.lines[-1] == ["done"], (code, self.lines[-2:])
        self.figures(self.lines[-2])

    def destroy(self):
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait()


def address(port):
    return "127.0.0.1:%d" % port


def named(k, i, *ports):
    """Until node i names the nodes that have these ports, and serves."""
    k.until(i, "STORE", "NODES",
            want=lambda r: r == [1] + [address(k.ports[n]).encode() for n in ports])


def test_nodes_die_and_are_added(binary, program):
    """The client finds the node that was added, and needs it when the founders have gone."""
    with Cluster(binary, nodes=4, shards=2) as k:
        conf = os.path.join(k.directory, "c.conf")
        run(binary, "found", "--file", conf, "--shards", "2", "--peers",
            ",".join(address(p) for p in k.peers[:3]), "--clients",
            ",".join(address(p) for p in k.ports[:3]))
        k.config = conf
        for i in range(3):
            k.start(i, True)
        for i in range(3):
            k.wait(i)
        driver = Driver(program, address(k.ports[0]), address(k.ports[1]))
        try:
            driver.until(lambda f, n: list(n.values()) == ["serves"] * 3)
            driver.more(50)
            k.kill(1)
            driver.more(50)
            at = ("--config", conf)
            run(binary, "ctl", "add", *at, "--node", "3", "--address", address(k.peers[3]),
                "--client", address(k.ports[3]))
            k.start(3, options=["--peers", ",".join(address(p) for p in k.peers)])
            settled(k, 0, full=[0, 2, 3])
            driver.until(lambda f, n: n.get(address(k.ports[3])) == "serves")
            driver.more(50)
            run(binary, "ctl", "remove", *at, "--node", "1")
            settled(k, 0, full=[0, 2, 3], configured=[0, 2, 3])
            for i in (0, 2, 3):  # the configuration in force
                named(k, i, 0, 2, 3)
            k.kill(3)
            k.start(3, options=["--peers", ",".join(address(p) for p in k.peers)])
            k.wait(3)  # its log has the configuration
            named(k, 3, 0, 2, 3)
            settled(k, 2, full=[0, 2, 3])
            driver.more(50)
            k.kill(0)
            driver.more(50)
            driver.end()
        finally:
            driver.destroy()
        for i in (2, 3):  # each round ended with a deletion
            assert k.conn(i).cmd("KEYS", "*") == []


def test_a_node_is_replaced_elsewhere(binary, program):
    """`ctl` and clients follow it to another address, with the founders' file."""
    with Cluster(binary, nodes=4) as k:
        conf = os.path.join(k.directory, "c.conf")
        run(binary, "found", "--file", conf, "--peers",
            ",".join(address(p) for p in k.peers[:3]), "--clients",
            ",".join(address(p) for p in k.ports[:3]))
        k.config = conf
        for i in range(3):
            k.start(i, True)
        for i in range(3):
            k.wait(i)
        k.kill(2)
        replace = (binary, "ctl", "replace", "--config", conf, "--node", "2", "--address",
                   address(k.peers[3]))
        # STORE NODES would name the address where it was
        assert "reach node 2 at " + address(k.ports[2]) in run(*replace, code=1)
        run(*replace, "--client", address(k.ports[3]))
        peers = [address(k.peers[i]) for i in (0, 1, 3)]
        k.peers[2], k.ports[2] = k.peers[3], k.ports[3]
        os.rename(os.path.join(k.directory, "2"), os.path.join(k.directory, "old"))
        k.start(2, options=["--peers", ",".join(peers)])
        settled(k, 0, full=[0, 1, 2])
        for i in range(3):
            named(k, i, 0, 1, 3)
        driver = Driver(program, address(k.ports[0]))
        try:
            driver.until(lambda f, n: list(n.values()) == ["serves"] * 3)
            driver.end()
        finally:
            driver.destroy()
        k.kill(0)  # the first address that the file has
        shows(binary, "ctl", "status", "--config", conf, code=1,
              want=lambda text: address(k.ports[3]) + ": node 2 of 3" in text)


if __name__ == "__main__":
    carry_out(tests_of(globals()), sys.argv[3:], *sys.argv[1:3])
