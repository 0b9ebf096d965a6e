# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Clients that watch keys, and clients whose keys have times to live."""
import random
import select
import threading
import time

import ddpbox
import ddpclients


class Watch:
    """What one watch shows of one shard: README.md's segment."""

    def __init__(self, name, node, position):
        self.name = name
        self.node = node
        self.position = position


class Watcher(threading.Thread):
    """Watches all keys, or those in use, at any node. It connects again now and then, often to the
    same node, and continues from its positions; after OVERFLOW another segment begins."""

    KEYS = 6

    def __init__(self, name, kind, network, keys, history, stop, seed, whole):
        super().__init__(daemon=True)
        self.name = name
        self.kind = kind
        self.network = network
        self.keys = keys
        self.history = history
        self.stop = stop
        self.rng = random.Random(f"{seed}/{name}")
        self.whole = whole
        self.node = None
        self.connection = None
        self.until = 0
        self.watches = {}  # target -> shard -> Watch
        self.targets = {}  # number of the connection's watch -> (target, when it was sent)
        self.segments = self.continued = self.events = 0
        self.lies = False
        self.marks = set()
        self.wrong = []

    def connect(self):
        if self.node is None or self.rng.random() < 0.4:
            node = self.rng.randrange(self.kind.nodes)
            if node != self.node and self.rng.random() < 0.5:
                self.watches.clear()  # else the positions are of another node: OVERFLOW
            self.node = node
        self.until = time.monotonic() + self.rng.uniform(0.5, 4)
        self.targets = {}
        try:
            self.connection = ddpclients.Connection(self.kind.address(self.node), self.kind.timeout)
            targets = [self.keys.prefix + "*"]
            if not self.whole:
                targets = list(self.watches)[-self.KEYS // 2:]
                targets += [k for k in self.keys.registers if k not in targets]
                self.watches = {t: self.watches.get(t, {}) for t in targets[:self.KEYS]}
            for target in targets[:self.KEYS]:
                self.begin(target)
        except (OSError, ddpclients.Refusal):
            self.drop()
            time.sleep(0.1)

    def begin(self, target):
        """The reply may be behind changes of the watches before."""
        command = "WATCHPREFIX" if target.endswith("*") else "WATCHKEY"
        positions = [w.position for w in self.watches.get(target, {}).values()]
        self.connection.send(command, target.rstrip("*"),
                             *(["FROM", *positions] if positions else []))
        while not isinstance(got := self.connection.reply(), int):
            self.take(got)
        self.targets[got] = target

    def drop(self):
        if self.connection:
            self.connection.close()
        self.connection = None

    def take(self, got):
        if isinstance(got, ddpclients.Refusal):
            raise got
        number, what, key, value, version, position = got[1:]
        what, position = what.decode(), position.decode()
        target = self.targets[number]
        shards = self.watches.setdefault(target, {})
        shard = int(position.split(":")[0])
        if what in ("begin", "overflow"):
            self.began(shards, shard, target, what, position)
            return
        shards[shard].position = position
        key = key.decode()
        kind = key.removeprefix(self.keys.prefix)[:1]
        if kind not in ("k", "t", "m", "s"):
            return  # counters
        token = ddpclients.token_of(value)
        if kind == "m":
            self.marks.add(token)
        self.events += 1
        lies = self.lies and self.events % 5 == 0
        if not (lies and self.whole):  # else it was never shown
            self.event(key, token, version, shards[shard])
        if lies and not self.whole:
            self.event(key, token, version - 1, shards[shard])

    def began(self, shards, shard, target, what, position):
        now = self.history.now()
        watch = shards.get(shard)
        if watch and what == "begin":
            self.continued += 1
            if watch.node != self.node:
                self.wrong.append(f"node {self.node} continues a watch of node {watch.node}")
            return
        self.segments += 1
        name = f"{self.name}-{self.segments}.{shard}"
        shards[shard] = Watch(name, self.node, position)
        self.history.operation(self.name, now, now, "watch", target, "-", "ok", segment=name,
                               node=self.node, shard=shard)

    def event(self, key, token, version, watch):
        now = self.history.now()
        self.history.operation(self.name, now, now, "see", key, "-", "ok:" + token,
                               segment=watch.name, version=version)

    def run(self):
        if self.network:
            ddpbox.enter_network("c")
        while not self.stop.is_set():
            if self.connection is None:
                self.connect()
                continue
            try:
                c = self.connection
                if c.buffer or select.select([c.socket], [], [], 0.1)[0]:
                    self.take(c.reply())
            except (OSError, ddpclients.Refusal):
                self.drop()
            if time.monotonic() > self.until:
                self.drop()
        self.drop()


class Timed(ddpclients.Client):
    """Writes keys with times to live, one client a key; it and the others of its kind read them."""

    LONGEST_MS = 1500
    PER_KEY = 30

    def __init__(self, *words):
        super().__init__(*words, pause=0.03)
        self.others = []
        self.mine = []
        self.value_now = None
        self.expires = None
        self.mortal = False  # it has a TTL
        self.left = 0

    def next_key(self):
        self.mine.append(f"{self.keys.prefix}t{self.name[-1]}{len(self.mine):03d}")
        self.value_now = self.expires = None
        self.mortal = False
        self.left = self.PER_KEY

    def step(self):
        self.left -= 1
        if self.left < 0:
            self.next_key()
        draw = self.rng.random()
        if draw < 0.3 and self.others:
            self.read(self.rng.choice(self.rng.choice(self.others).mine[-2:]))
        elif draw < 0.6:
            self.read(self.mine[-1])
        elif draw < 0.65:
            self.remaining(self.mine[-1])
        elif self.value_now is None or draw < 0.8:
            self.write(self.mine[-1])
        else:
            self.extend(self.mine[-1])

    def read(self, key):
        got = self.carry_out("get", key, "-", ("GET", key), {"node": self.node})
        if key == self.mine[-1] and got == "ok:nil":
            self.value_now = None

    def ttl(self):
        """A TTL, and the options with the earliest end of it."""
        ms = self.rng.randrange(50, self.LONGEST_MS)
        claimed = ms * (50 if self.overclaim else 1)
        return ms, {"node": self.node, "expires": self.history.now() + claimed * 1_000_000}

    def write(self, key):
        value, size = self.value()
        ms, options = self.ttl()
        words = ["SET", key, ddpclients.payload(value, min(size, 100)), "PX", ms]
        if self.value_now and self.rng.random() < 0.3:
            words[3:] = ["KEEPTTL"]
            options["expires"] = self.expires
            if self.expires is None:
                del options["expires"]
        result = self.carry_out("set", key, value, words, options)
        self.know(result, value, options)
        if words[3] == "KEEPTTL":
            self.mortal = False  # if the key was gone, the new value has none

    def extend(self, key):
        ms, options = self.ttl()
        draw = self.rng.random()
        words = ("PEXPIRE", key, ms) if draw < 0.6 else ("GETEX", key, "PX", ms)
        if draw > 0.9:
            words = "PERSIST", key
            del options["expires"]
        result = self.carry_out("expire", key, self.value_now, words, options)
        self.know(result, self.value_now, options)

    def know(self, result, value, options):
        if result == "ok":
            self.value_now, self.expires = value, options.get("expires")
            self.mortal = self.expires is not None
        elif result.startswith("unknown"):
            self.left = 0  # what the key holds is open

    def remaining(self, key):
        """What is left is at most the longest TTL; without an end only if it was taken away."""
        try:
            got = self.connection("PTTL", key)
        except (OSError, ddpclients.Refusal):
            self.drop()
            return
        if self.mortal and (got > self.LONGEST_MS or got == -1):
            self.wrong.append(f"PTTL of {key} is {got}")


def write_marks(kind, history, prefix, r):
    """Of round r, at one of the nodes. @return the values, or None if one was not answered"""
    client = ddpclients.Client(f"mark{r}", kind, None, None, history, None, r)
    try:
        client.connection = ddpclients.Connection(kind.address(r % kind.nodes), kind.timeout)
    except OSError:
        return None
    tokens = [f"mark{r}-{i}" for i in range(12)]
    for i, token in enumerate(tokens):
        words = kind.set(f"{prefix}m{i}", ddpclients.payload(token, 0), "default")
        if client.carry_out("set", f"{prefix}m{i}", token, words, {}) != "ok":
            client.drop()
            return None
    client.drop()
    return set(tokens)


def await_marks(kind, watchers, history, prefix, end):
    """Each watcher of all keys shows keys that are written now. @return those that do not"""
    late = watchers
    r = 0
    while late and time.monotonic() < end:
        tokens = write_marks(kind, history, prefix, r)
        r += 1
        again = time.monotonic() + (5 if tokens else 0)  # a watch that begins later shows others
        while tokens and late and time.monotonic() < again:
            late = [w for w in watchers if not tokens <= w.marks]
            time.sleep(0.05)
        if tokens is None:
            time.sleep(0.1)
    return [w.name for w in late]


def await_expired(kind, names, end):
    """@return a key with a TTL that still exists at some node at `end`, or None"""
    for node in range(kind.nodes):
        connection = ddpclients.RetryingClient(kind, node, end)
        for name in names:
            while connection("EXISTS", name) == 1:
                if time.monotonic() > connection.end:
                    return name
                time.sleep(0.1)
        connection.close()
    return None
