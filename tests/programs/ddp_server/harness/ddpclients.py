# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Clients that speak RESP, and the history of what they did."""
import os
import random
import socket
import threading
import time

import ddpbox


class Refusal(Exception):
    """An error reply."""


class Connection:
    """One client of one server, one command at a time."""

    def __init__(self, address, seconds):
        self.socket = socket.create_connection(address, seconds)
        self.socket.settimeout(seconds)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.buffer = b""

    def close(self):
        self.socket.close()

    def send(self, *words):
        parts = [b"*%d\r\n" % len(words)]
        for w in words:
            w = w if isinstance(w, bytes) else str(w).encode()
            parts.append(b"$%d\r\n%s\r\n" % (len(w), w))
        self.socket.sendall(b"".join(parts))

    def more(self):
        data = self.socket.recv(1 << 18)
        if not data:
            raise ConnectionError("closed by the server")
        self.buffer += data

    def line(self):
        while (end := self.buffer.find(b"\r\n")) < 0:
            self.more()
        line, self.buffer = self.buffer[:end], self.buffer[end + 2:]
        return line

    def reply(self):
        """Errors are returned, not raised: they may be part of an array."""
        line = self.line()
        kind, rest = line[:1], line[1:]
        if kind == b"+":
            return rest
        if kind == b"-":
            return Refusal(rest.decode(errors="replace"))
        if kind == b":":
            return int(rest)
        if kind == b"_":
            return None
        if kind == b"$":
            size = int(rest)
            if size < 0:
                return None
            while len(self.buffer) < size + 2:
                self.more()
            data, self.buffer = self.buffer[:size], self.buffer[size + 2:]
            return data
        if kind in b"*%" and kind:
            count = int(rest) * (2 if kind == b"%" else 1)
            return [self.reply() for _ in range(count)] if count >= 0 else None
        raise ConnectionError(f"not RESP: {line[:40]!r}")

    def __call__(self, *words):
        self.send(*words)
        got = self.reply()
        if isinstance(got, Refusal):
            raise got
        return got


class RetryingClient:
    """A client of one node that repeats, until some minutes have passed or `end`, what the node
    does not do at the moment: one that is not scheduled loses its lease. Of what may be repeated
    only."""

    def __init__(self, kind, node, end=None):
        self.kind = kind
        self.node = node
        self.connection = None
        self.end = time.monotonic() + ddpbox.PATIENCE if end is None else end
        self.began = 0  # the attempt that was answered

    def __call__(self, *words):
        while True:
            self.began = History.now()
            try:
                if self.connection is None:
                    self.connection = Connection(self.kind.address(self.node), self.kind.timeout)
                    self.kind.greet(self.connection)
                return self.connection(*words)
            except (OSError, Refusal) as e:
                certain = isinstance(e, Refusal) and str(e).split()[0] not in self.kind.ELSEWHERE
                if certain or time.monotonic() >= self.end:
                    raise
                self.close()
                time.sleep(0.05)

    def close(self):
        if self.connection:
            self.connection.close()
        self.connection = None


class History:
    """Lines of README.md's format, written as operations end."""

    def __init__(self, path):
        self.file = open(path, "w", encoding="utf-8")
        self.lock = threading.Lock()
        self.counts = {}
        self.reasons = {}

    @staticmethod
    def now():
        return time.clock_gettime_ns(time.CLOCK_MONOTONIC)

    def operation(self, client, start, end, kind, key, value, result, **options):
        words = [client, start, end or "-", kind, key, value, result]
        words += [f"{k}={v}" for k, v in options.items()]
        what = kind, result.split(":")[0]
        with self.lock:
            if kind not in ("watch", "see") and client != "scanner":
                self.counts[what] = self.counts.get(what, 0) + 1
            if what[1] in ("fail", "unknown"):
                reason = f"{kind} {result}"
                self.reasons[reason] = self.reasons.get(reason, 0) + 1
            print(*words, file=self.file)

    def fault(self, what, node, at=None, *more):
        at = at or self.now()
        with self.lock:
            print("!", at, what, node, *more, file=self.file)
        return at

    def comment(self, text):
        with self.lock:
            print("#", self.now(), text, file=self.file)

    def close(self):
        self.file.close()

    def total(self, result):
        return sum(n for (_, r), n in self.counts.items() if r == result)


def payload(token, size):
    """A value: its token, and bytes that follow from it."""
    return f"{token}:{size}:".encode() + token.encode()[-1:] * size


def token_of(data):
    """The token of a value that was read; a damaged one is no token that was written."""
    if data is None:
        return "nil"
    token, _, rest = data.decode(errors="replace").partition(":")
    size, _, filler = rest.partition(":")
    if not size.isdigit() or filler != token[-1:] * int(size):
        return f"DAMAGED-{data[:40].hex()}"
    return token


def is_counter(key):
    return key.rstrip("0123456789").endswith("n")


class Keys:
    """Keys in use: each for some hundreds of operations, then another takes its place."""

    PER_KEY = 240

    def __init__(self, rng, registers, counters, prefix):
        self.rng = rng
        self.prefix = prefix
        self.number = 0
        self.lock = threading.Lock()
        self.used = {}
        self.retired = []
        self.registers = [self.new("k") for _ in range(registers)]
        self.counters = [self.new("n") for _ in range(counters)]

    def new(self, kind):
        self.number += 1
        name = f"{self.prefix}{kind}{self.number}"
        self.used[name] = 0
        return name

    def pick(self, counter):
        with self.lock:
            active = self.counters if counter else self.registers
            at = self.rng.randrange(len(active))
            key = active[at]
            self.used[key] += 1
            if self.used[key] >= self.PER_KEY:
                self.retired.append(key)
                active[at] = self.new("n" if counter else "k")
            return key

    def old(self):
        with self.lock:
            return self.rng.choice(self.retired) if self.retired else None

    def all(self):
        return self.retired + self.registers + self.counters


class Client(threading.Thread):
    """One client: an operation at a time, at any node, until `stop` is set."""

    def __init__(self, name, kind, network, keys, history, stop, seed, pause=0.008):
        super().__init__(daemon=True)
        self.name = name
        self.kind = kind
        self.network = network
        self.keys = keys
        self.history = history
        self.stop = stop
        self.rng = random.Random(f"{seed}/{name}")
        self.pause = pause
        self.connection = None
        self.node = None
        self.number = 0
        self.overclaim = False
        self.wrong = []
        self.session = int.from_bytes(os.urandom(7), "big") + 1
        self.sequence = 0
        self.connections = 0
        self.scope = None  # one per connection
        self.open_scope = False

    def connect(self):
        self.node = self.rng.randrange(self.kind.nodes)
        try:
            self.connection = Connection(self.kind.address(self.node), self.kind.timeout)
            self.kind.greet(self.connection)
            self.connections += 1
            self.scope = f"{self.name}-scope{self.connections}"
            self.open_scope = False
        except (OSError, Refusal):
            self.drop()
            time.sleep(0.05)

    def drop(self):
        if self.connection:
            self.connection.close()
        self.connection = None

    def run(self):
        if self.network:
            ddpbox.enter_network("c")
        while not self.stop.is_set():
            if self.connection is None:
                self.connect()
                continue
            self.step()
            if self.open_scope and self.connection and self.rng.random() < 0.2:
                self.synchronize()
            if self.rng.random() < 0.02:
                self.drop()  # to another node
            time.sleep(self.rng.random() * 2 * self.pause)
        self.drop()

    def value(self):
        self.number += 1
        draw = self.rng.random()
        size = 0 if draw < 0.7 else self.rng.randrange(2000 if draw < 0.95 else self.kind.large)
        return f"{self.name}-{self.number}", size

    def draw(self):
        draw = self.rng.random()
        if draw < 0.05 and (old := self.keys.old()):
            return "get", old
        kind = self.rng.choice(self.kind.kinds)
        counter = kind == "incr" or (kind == "get" and draw > 0.9 and "incr" in self.kind.kinds)
        return kind, self.keys.pick(counter)

    def step(self):
        kind, key = self.draw()
        if kind == "once":
            self.set_once(key)
            return
        counter = is_counter(key)
        options = {"node": self.node}
        durability = self.kind.durability(self.rng, kind, counter)
        copies = self.kind.copies(self.rng, kind)
        if copies:
            options["copies"] = copies
        if durability == "confirm":
            options["read"] = durability
        elif durability != "default":
            options["dur"] = durability
        if durability == "scope":
            options["scope"] = self.scope
        if self.overclaim and kind != "get":
            self.lie(key, options)
        value, words = "-", None
        if kind == "get":
            words = self.kind.get(key, durability)
        elif kind == "set":
            value, size = self.value()
            words = self.kind.set(key, payload(value, size), durability, copies)
        elif kind == "del":
            words = self.kind.delete(key, durability, copies)
        elif kind == "incr":
            words = self.kind.incr(key, durability, copies)
        else:
            value, words = self.prepare_cas(key, durability, copies)
        if words:
            self.carry_out(kind, key, value, words, options)
            if durability == "scope":
                self.open_scope = True

    def lie(self, key, options):
        """What was written with durability memory, and no copies named, passes for another."""
        lies = {"dur": "all"}, {"dur": "here"}, {"copies": self.kind.nodes}
        options.update(lies[int(key[len(key.rstrip("0123456789")):]) % 3])

    def prepare_cas(self, key, durability, copies):
        """A compare-and-swap with what the key holds, which may be outdated when it is sent."""
        try:
            expect, found = self.kind.prepare_cas(self.connection, key)
        except (OSError, Refusal):
            self.drop()
            return None, None
        new, size = self.value()
        if self.rng.random() < 0.3:
            time.sleep(self.pause)
        return (f"{token_of(found)},{new}",
                self.kind.cas(key, expect, payload(new, size), durability, copies))

    def set_once(self, key):
        """A write with a session: attempts at any nodes until one has an answer. It executes once,
        or its value would return after it was overwritten."""
        try:
            seen = self.kind.seen(self.connection, key)
        except (OSError, Refusal):
            self.drop()
            return
        value, size = self.value()
        self.sequence += 1
        start = self.history.now()
        end, result = None, "unknown:once"
        sure = True  # that no attempt was executed
        for _ in range(12):
            if self.connection is None:
                self.connect()
                continue
            age = (self.history.now() - start) // 1_000_000
            try:
                answer = self.connection(*self.kind.set_once(
                    key, payload(value, size), self.session, self.sequence, seen, age))
                if self.kind.executed(answer):
                    end, result = self.history.now(), "ok"
                    break
                sure = False
            except Refusal as e:
                sure = sure and str(e).split()[0] in self.kind.CERTAIN
            except OSError:
                sure = False
            self.drop()
            time.sleep(0.2)
        if end is None and sure:
            end, result = self.history.now(), "fail:once"
        self.history.operation(self.name, start, end, "set", key, value, result, node=self.node,
                               session=self.sequence)

    def synchronize(self):
        """What this connection wrote with durability scope is durable from then on."""
        self.open_scope = False
        self.carry_out("sync", "*", self.scope, ("SCOPE", "SYNC"), {"node": self.node})

    def carry_out(self, kind, key, value, words, options):
        start = self.history.now()
        end = None
        try:
            got = self.connection(*words)
            end = self.history.now()
            result = self.kind.result(kind, key, got)
            self.claim(got, options)
        except Refusal as e:
            word = str(e).split()[0] if str(e) else "-"
            sure = word in self.kind.CERTAIN
            result = ("fail:" if sure else "unknown:") + word
            end = self.history.now() if sure else None
            if word in self.kind.ELSEWHERE:
                self.drop()
        except OSError as e:
            result = "unknown:" + type(e).__name__
            self.drop()
        self.history.operation(self.name, start, end, kind, key, value, result, **options)
        return result

    def claim(self, answer, options):
        """An answer that names the number of its copies: of no fewer than were asked for. One that
        wrote nothing stands for none."""
        if answer == 0:
            options.pop("copies", None)
        claimed = self.kind.claimed(answer)
        if claimed is None:
            return
        if claimed < options.get("copies", 0) and not self.overclaim:
            self.wrong.append(f"{claimed} copies were answered, {options['copies']} asked for")
        options["copies"] = max(claimed, options.get("copies", 0))


class Scanner(threading.Thread):
    """Scans of all keys at any node: a key that nothing changes is seen once by each. Its keys are
    written once and read at the end, so the judge sees what a lost disk takes, whatever the other
    clients came to do."""

    COUNT = 40

    def __init__(self, kind, network, history, stop, seed, prefix):
        super().__init__(daemon=True, name="scanner")
        self.kind = kind
        self.network = network
        self.history = history
        self.filled = threading.Event()
        self.stop = stop
        self.rng = random.Random(f"scanner {seed}")
        self.names = {f"{prefix}s{i}".encode() for i in range(self.COUNT)}
        self.whole = 0
        self.wrong = []

    def fill(self):
        """Before the first scan; each key is durable at all nodes."""
        connection, left, tries = None, sorted(self.names), 0
        while left and not self.stop.is_set():
            tries += 1
            token, start, end, result = f"s{tries}", self.history.now(), None, "unknown"
            try:
                if connection is None:
                    node = self.rng.randrange(self.kind.nodes)
                    connection = Connection(self.kind.address(node), self.kind.timeout)
                connection(*self.kind.set(left[-1], payload(token, 0), "all"))
                end, result = self.history.now(), "ok"
            except Refusal:
                time.sleep(0.05)
            except OSError:
                connection = None
                time.sleep(0.05)
            self.history.operation("scanner", start, end, "set", left[-1].decode(), token, result,
                                   dur="all")
            if result == "ok":
                left.pop()
        self.filled.set()
        if connection:
            connection.close()

    def scan(self):
        node = self.rng.randrange(self.kind.nodes)
        connection = Connection(self.kind.address(node), self.kind.timeout)
        cursor, seen = b"0", []
        try:
            while not seen or cursor != b"0":
                cursor, names = connection("SCAN", cursor, "COUNT", self.rng.choice((1, 7, 50)))
                seen += [None] + [n for n in names if n in self.names]
        finally:
            connection.close()
        seen = [n for n in seen if n]
        self.whole += 1
        if len(seen) != self.COUNT or set(seen) != self.names:
            self.wrong.append(f"a scan at node {node} saw {len(set(seen))} of {self.COUNT} keys, "
                              f"{len(seen) - len(set(seen))} twice")

    def run(self):
        if self.network:
            ddpbox.enter_network("c")
        self.fill()
        while not self.stop.is_set():
            try:
                self.scan()
            except (OSError, Refusal):
                time.sleep(0.2)
            time.sleep(self.rng.random() / 2)


def read_all(kind, keys, history, end):
    """Reads each key at each node; @return how many reads had an answer, and values by key"""
    answers = 0
    values = {}
    for node in range(kind.nodes):
        connection = RetryingClient(kind, node, end)
        for key in keys:
            try:
                got = connection(*kind.get(key, "default"))
            except (OSError, Refusal) as e:
                history.comment(f"final read of {key} at {node}: {e}")
                continue
            result = kind.result("get", key, got)
            history.operation("final", connection.began, history.now(), "get", key, "-", result,
                              node=node)
            values[key] = result.removeprefix("ok:")
            answers += 1
        connection.close()
    return answers, values
