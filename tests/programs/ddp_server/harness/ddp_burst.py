#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 OR MIT
"""The burst that once broke the cluster: 64 writes of 65 KB outstanding at one node, then four
times as many, without a fault. No node may leave the membership, fewer than 1 of 100 messages may
be resent, and the goodput of the fourfold load is at least 0.9 of its maximum. A run in which that
does not hold is inconclusive when a process was not scheduled for half a lease: another one
follows, and after three such the test is skipped.

ddp_burst.py --lossfs P --forwarder P --server P [--kind ddp|redis] [--nodes N] [--seconds S]
             [--rate BITS] [--state FOLDER --minutes N]

--state: pieces of --seconds on disks that are kept there; a run that was interrupted is resumed.
--rate: of each node's network, so that it is the network that saturates, not the processors.
"""
import argparse
import json
import os
import resource
import selectors
import sys
import threading
import time

import ddpbox
import ddpclients
import ddpcluster
import ddpnodes

SIZE = 65_000
SATURATED = 64


class Load:
    """`outstanding` writes at node 0, over connections with up to 4 of them each."""

    def __init__(self, kind, outstanding):
        self.kind = kind
        self.done = self.refused = 0
        self.reasons = set()
        self.selector = selectors.DefaultSelector()
        each = min(4, outstanding)
        for n in range(outstanding // each):
            c = ddpclients.Connection(kind.address(0), ddpbox.PATIENCE)
            kind.greet(c)
            self.selector.register(c.socket, selectors.EVENT_READ, c)
            for i in range(each):
                self.write(c, n * each + i)
        self.number = outstanding

    def write(self, connection, number):
        value = f"{number}:".encode() + b"x" * (SIZE - len(str(number)) - 1)
        connection.send(*self.kind.set(f"burst{number % 200}", value, "default"))

    def run(self, seconds):
        """@return writes per second"""
        begin, first = time.monotonic(), self.done
        while time.monotonic() < begin + seconds:
            for key, _ in self.selector.select(1):
                connection = key.data
                connection.more()
                while b"\r\n" in connection.buffer:
                    reply = connection.reply()
                    if isinstance(reply, ddpclients.Refusal):
                        self.refused += 1
                        self.reasons.add(str(reply))
                        time.sleep(0.001)
                    else:
                        self.done += 1
                    self.number += 1
                    self.write(connection, self.number)
        return (self.done - first) / (time.monotonic() - begin)

    def close(self):
        for key in list(self.selector.get_map().values()):
            key.fileobj.close()
        self.selector.close()


def inside(what):
    got = []

    def body():
        ddpbox.enter_network("c")
        try:
            got.append(what())
        except Exception as e:  # shown by the caller's thread
            got.append(e)

    t = threading.Thread(target=body)
    t.start()
    t.join()
    if isinstance(got[0], Exception):
        raise got[0]
    return got[0]


def figures(kind):
    def read():
        all_nodes = []
        for i in range(kind.nodes):
            c = ddpclients.RetryingClient(kind, i)
            all_nodes.append(kind.figures(c))
            c.close()
        return all_nodes

    return inside(read)


def phases(kind, seconds):
    """[(outstanding, writes per second, refused)]"""
    parts = [(4, 1), (16, 1), (SATURATED, 4), (4 * SATURATED, 4)]
    got = []
    for outstanding, part in parts:
        load = Load(kind, outstanding)
        load.run(min(1.0, seconds / 20))
        got.append((outstanding, load.run(seconds * part / 10), load.refused))
        load.close()
        print(f"{outstanding} outstanding: {got[-1][1]:.0f} writes/s, {load.refused} refused",
              *sorted(load.reasons)[:3], flush=True)
    return got


def judge(kind, cluster, before, after, rates):
    wrong = []
    for i, (a, b) in enumerate(zip(before, after)):
        print(f"node {i}: {b}")
        if not cluster.is_full[i]:
            wrong.append(f"node {i} is not a full member")
        if a.get("epoch") != b.get("epoch"):
            wrong.append(f"node {i}: epoch {a.get('epoch')} has become {b.get('epoch')}")
    sent = sum(b.get("sent", 0) - a.get("sent", 0) for a, b in zip(before, after))
    resent = sum(b.get("resent", 0) - a.get("resent", 0) for a, b in zip(before, after))
    print(f"{sent} messages sent, {resent} resent")
    if resent * 100 > sent:
        wrong.append(f"{resent} of {sent} messages were resent")
    if kind.counts_messages and sent == 0:
        wrong.append("no message was counted")
    best = max(r for _, r, _ in rates)
    if rates[-1][1] < 0.9 * best:
        wrong.append(f"goodput at {rates[-1][0]} outstanding is {rates[-1][1]:.0f}/s, "
                     f"its maximum {best:.0f}/s")
    return wrong


def piece(o, kind, network, folder, lower, first, seconds):
    """The nodes start on their disks, and bear the load; @return what is wrong, and whether that is
    inconclusive"""
    disks = [ddpbox.Disk(o.lossfs, f"{folder}/n{i}", lower and f"{lower}/n{i}")
             for i in range(o.nodes)]
    history = ddpclients.History(folder + "/history")
    cluster = ddpcluster.Cluster(kind, network, disks, folder, history)
    for i in range(o.nodes):
        cluster.start(i, first=first)
        network.rate(i, o.rate)
    late = cluster.await_full()
    wrong = [f"nodes {late} do not become full members"] if late else []
    void = False
    if not wrong:
        waits = cluster.waits()
        before = figures(kind)
        rates = inside(lambda: phases(kind, seconds))
        wrong = judge(kind, cluster, before, figures(kind), rates)
        print(f"not scheduled: {waits.close()}")
        void = wrong != [] and waits.evidence != []
    if cluster.ends:
        void = False
        wrong.append(f"ended by themselves: {cluster.ends}")
    for w in wrong:
        print("WRONG", w)
    cluster.close()
    history.close()
    if wrong:
        for i in range(o.nodes):
            with open(f"{folder}/node{i}.log", errors="replace") as f:
                print(f"--- node {i}:", *f.read().splitlines()[-15:], sep="\n")
    for d in disks:
        d.close()
    return wrong, void


def pieces(o, kind, network, folder, lower, first):
    """One that is conclusive; @return what is wrong with it"""
    for again in range(3):
        wrong, void = piece(o, kind, network, folder, lower, first and again == 0, o.seconds)
        if not void:
            return wrong
    print("skipped: in each run a process was not scheduled for half a lease")
    sys.exit(77)


def save(path, done):
    with open(path + ".new", "w", encoding="utf-8") as f:
        json.dump(done, f)
    os.replace(path + ".new", path)


def night(o, kind, network, folder):
    """Pieces of the same length on the same disks, of which those that are done are counted."""
    path = o.state + "/progress"
    done = {"attempts": 0, "seconds": 0.0}
    if os.path.exists(path):
        with open(path, encoding="utf-8") as f:
            done = json.load(f)
    if done["seconds"] >= o.minutes * 60:  # a new night
        done["seconds"] = 0.0
    while done["seconds"] < o.minutes * 60:
        first = done["attempts"] == 0
        done["attempts"] += 1
        save(path, done)
        wrong = pieces(o, kind, network, folder, o.state, first)
        if wrong:
            return wrong
        done["seconds"] += o.seconds
        save(path, done)
    return []


def main():
    p = argparse.ArgumentParser()
    for name in ("lossfs", "forwarder", "server", "state"):
        p.add_argument("--" + name)
    p.add_argument("--kind", default="ddp")
    p.add_argument("--nodes", type=int, default=3)
    p.add_argument("--seconds", type=float, default=50)
    p.add_argument("--minutes", type=float, default=0)
    p.add_argument("--rate", type=int, default=200_000_000)
    o = p.parse_args()
    ddpbox.enter()
    ddpbox.before_others()
    if not o.state:
        ddpbox.limit(ddpbox.LIMIT, list)
    folder = ddpbox.work_folder()
    network = ddpbox.Network(os.path.abspath(o.forwarder), folder, o.nodes, 1)
    kind = ddpnodes.KINDS[o.kind](network, o.server, o.nodes)
    if o.state:
        o.state = os.path.abspath(o.state)
        os.makedirs(o.state, exist_ok=True)
    kind.found(o.state or folder)
    if o.state:
        wrong = night(o, kind, network, folder)
    else:
        wrong = pieces(o, kind, network, folder, None, True)
    network.close()
    used = [resource.getrusage(w) for w in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    print(f"CPU: {sum(u.ru_utime + u.ru_stime for u in used):.1f} s")
    sys.exit(1 if wrong else 0)


if __name__ == "__main__":
    main()
