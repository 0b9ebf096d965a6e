# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Schedules of faults, drawn from a seed: lines `MS ACTION WORD...`, in order of time.

kill N              SIGKILL
power N,M SEED K T  SIGKILL and loss of what the disk had not flushed (lossfs: lose)
start N,M           those that do not run
restart N           SIGTERM, and start
stop N, cont N      SIGSTOP, SIGCONT
cut A,B C,D         no packet between the one side and the other, either way
oneway A,B C,D      no packet from the one side to the other
lossy N PERCENT     of what node N receives
rate N BITS         of what node N sends, per second
wire FROM TO ...    a command `link` of the forwarder, nodes from 0, or *
disk N COMMAND...   a command of lossfs
wipe N              an empty disk, and the node's replacement
misfound N          an empty disk, and the node is started as if its cluster began now
heal                network and disks work again
quiet               all nodes run; recovery may take time
"""
import random


class Draw:
    def __init__(self, seed, nodes):
        self.rng = random.Random(f"schedule {seed}")
        self.nodes = nodes
        self.now = 300
        self.lines = []

    def add(self, *words):
        self.lines.append(" ".join([str(self.now), *map(str, words)]))

    def wait(self, low, high):
        self.now += self.rng.randrange(low, high)

    def node(self):
        return self.rng.randrange(self.nodes)

    def some(self, count):
        return self.rng.sample(range(self.nodes), count)

    def power(self, nodes):
        keep, torn = self.rng.choice(((0, 0), (30, 30), (50, 0), (10, 60)))
        self.add("power", names(nodes), self.rng.randrange(1 << 30), keep, torn)

    def start(self, nodes):
        for n in nodes:
            self.add("start", n)
            if self.rng.random() < 0.5:
                self.wait(10, 600)


def names(nodes):
    return ",".join(map(str, nodes))


def crash(d):
    n = d.node()
    if d.rng.random() < 0.5:
        d.add("kill", n)
    else:
        d.power([n])
    d.wait(100, 2500)
    d.add("start", n)


def crash_all(d):
    nodes = d.some(d.nodes)
    if d.rng.random() < 0.3:
        for n in nodes:
            d.add("kill", n)
    else:
        d.power(nodes)
    d.wait(100, 1000)
    d.start(d.some(d.nodes))


def crash_majority(d):
    nodes = d.some(d.nodes // 2 + 1)
    d.power(nodes)
    d.wait(100, 2000)
    d.start(nodes)


def pause(d):
    n = d.node()
    d.add("stop", n)
    d.wait(200, d.rng.choice((800, 5000)))
    d.add("cont", n)


def sides(d):
    order = d.some(d.nodes)
    at = d.rng.randrange(1, d.nodes)
    return names(order[:at]), names(order[at:])


def partition(d):
    d.add("cut", *sides(d))
    d.wait(500, 5000)


def one_way(d):
    d.add("oneway", *sides(d))
    d.wait(500, 4000)


def bridge(d):
    """Two sides that cannot hear each other, and one node that hears both."""
    if d.nodes < 3:
        return
    order = d.some(d.nodes)
    at = d.rng.randrange(1, d.nodes - 1)
    d.add("cut", names(order[:at]), names(order[at:-1]))
    d.wait(500, 4000)


def lossy(d):
    for n in d.some(d.rng.randrange(1, d.nodes + 1)):
        d.add("lossy", n, d.rng.choice((1, 5, 20)))
    d.wait(1000, 3000)


def bandwidth(d):
    d.add("rate", d.node(), d.rng.choice((1, 4, 16)) * 1_000_000)
    d.wait(1000, 4000)


def wire(d):
    faults = ["delay", d.rng.choice((200, 2000, 20_000)), "jitter", d.rng.choice((0, 500, 5000))]
    if d.rng.random() < 0.5:
        faults += ["dup", d.rng.choice((1000, 50_000))]
    if d.rng.random() < 0.5:
        faults += ["reorder", d.rng.choice((1000, 50_000)), "span", 10_000]
    a, b = ("*", "*") if d.rng.random() < 0.5 else (d.node(), "*")
    d.add("wire", a, b, *faults)
    d.wait(1000, 4000)


def stall(d):
    ms = d.rng.choice((200, 400, 1000, 5000))
    kind = d.rng.choice(("fsync", "fsync", "all"))
    for n in d.some(d.rng.choice((1, 1, d.nodes))):
        d.add("disk", n, "stall", kind, ms)
    d.wait(ms, ms + 500)


def slow_disk(d):
    d.add("disk", d.node(), "slow", "fsync", d.rng.choice((5000, 50_000, 300_000)))
    d.wait(1000, 3000)


def disk_error(d):
    n = d.node()
    kind = d.rng.choice(("fsync", "fsync", "write"))
    once = d.rng.choice(("once", ""))
    d.add("disk", n, "fail", kind, "EIO", *([once] if once else []))
    d.wait(500, 1500)
    d.add("disk", n, "fail", kind, "off")
    if d.rng.random() < 0.5:
        d.add("kill", n)
        d.add("disk", n, "drop")
    d.wait(10, 500)
    d.add("start", n)


def full_disk(d):
    d.add("disk", d.node(), "fail", "write", "ENOSPC")
    d.wait(500, 2000)


def rolling(d):
    for n in d.some(d.nodes):
        d.add("restart", n)
        d.wait(500, 1500)


def alone(d):
    """All but one lose power while that one is cut off from them."""
    rest = d.some(d.nodes)
    n = rest.pop()
    d.add("cut", n, names(rest))
    d.wait(10, 2000)
    d.power(rest)
    d.wait(10, 500)
    d.start(rest)
    d.wait(500, 2000)


def stalled_crash(d):
    """A disk stalls, and another node dies."""
    a, b = d.some(2)
    d.add("disk", a, "stall", "fsync", 1500)
    d.wait(10, 800)
    d.add("kill", b)
    d.wait(100, 1500)
    d.add("start", b)


def replace(d):
    d.add("wipe", d.node())
    d.wait(1000, 2000)


EPISODES = [crash, crash_all, crash_majority, pause, partition, one_way, bridge, lossy, bandwidth,
            wire, stall, slow_disk, disk_error, full_disk, rolling, alone, stalled_crash]
SINGLE = [crash, crash_all, pause, lossy, bandwidth, wire, stall, slow_disk]


def make(seed, nodes, seconds, can_replace=False, only=None):
    d = Draw(seed, nodes)
    kinds = [k for k in EPISODES + [replace] * can_replace if only is None or k.__name__ in only]
    if nodes == 1:
        kinds = [k for k in SINGLE if only is None or k.__name__ in only]
    left = []
    while d.now < seconds * 1000:
        if not left:
            left = d.rng.sample(kinds, len(kinds))
        episode = left.pop()
        d.add("episode", episode.__name__)
        episode(d)
        if d.rng.random() < 0.2 and nodes > 1 and only is None:
            d.add("episode", "and")
            d.rng.choice((crash, pause, stall, lossy))(d)
        d.add("heal")
        d.add("quiet")
        d.wait(800, 2500)
    return d.lines
