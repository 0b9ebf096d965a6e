# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Kinds of servers that the harness can drive: how a node is started, what its commands are, and
whether it is a full member."""
import ddpclients


class Redis:
    """A single redis-server that flushes each write: what the harness itself is tried with."""

    CERTAIN = {"NOAUTH", "OOM", "LOADING", "MISCONF"}
    ELSEWHERE = {"LOADING", "MISCONF"}
    keeps = "both"
    counts_messages = False
    timeout = 6.0
    large = 60_000
    kinds = ("get",) * 10 + ("set",) * 7 + ("cas",) * 3 + ("del",) * 1 + ("incr",) * 3
    PORT = 6379

    def __init__(self, network, program=None, nodes=1, flush="always"):
        assert nodes == 1
        self.network = network
        self.program = program or "redis-server"
        self.nodes = 1
        self.flush = flush

    def address(self, i):
        return self.network.address(i), self.PORT

    def command(self, i, disk, first):
        del first
        return [*self.network.inside(i), self.program, "--bind", self.network.address(i),
                "--protected-mode", "no", "--port", str(self.PORT), "--dir", disk, "--save", "",
                "--appendonly", "yes", "--appendfsync", self.flush, "--aof-use-rdb-preamble", "no",
                "--auto-aof-rewrite-percentage", "0"]

    def greet(self, connection):
        pass

    def full(self, i, connection):
        del i
        return connection("PING") == b"PONG"

    def figures(self, connection):
        del connection
        return {}

    @staticmethod
    def durability(rng, kind, counter):
        del rng, kind, counter
        return "default"

    @staticmethod
    def get(key, durability):
        del durability
        return "GET", key

    @staticmethod
    def set(key, value, durability):
        del durability
        return "SET", key, value

    @staticmethod
    def delete(key, durability):
        del durability
        return "DEL", key

    @staticmethod
    def incr(key, durability):
        del durability
        return "INCR", key

    CAS = ("local v = redis.call('GET', KEYS[1]) "
           "if (v or '') ~= ARGV[1] then return v or '' end "
           "redis.call('SET', KEYS[1], ARGV[2]) return 1")

    def cas(self, key, expect, new, durability):
        del durability
        return "EVAL", self.CAS, "1", key, expect or b"", new

    @staticmethod
    def result(kind, key, got):
        if kind == "get" and ddpclients.is_counter(key):
            return "ok:" + (got.decode() if got is not None else "nil")
        if kind == "get":
            return "ok:" + ddpclients.token_of(got)
        if kind == "incr":
            return f"ok:{got}"
        if kind == "cas" and got != 1:
            return "no:" + ddpclients.token_of(got or None)
        return "ok"


class Ddp:
    """Nodes of ddp_server."""

    # Refusals before anything was sent. Another error leaves the outcome of a write open.
    CERTAIN = {"CLUSTERDOWN", "LOADING", "TRYAGAIN", "OOM", "NOREPLICAS", "NOAUTH"}
    ELSEWHERE = {"CLUSTERDOWN", "LOADING", "UNKNOWN"}
    keeps = "both"
    counts_messages = False
    timeout = 12.0
    large = 60_000
    kinds = ("get",) * 10 + ("set",) * 7 + ("del",) * 1
    CLIENTS, PEERS = 6379, 7000

    def __init__(self, network, program, nodes):
        self.network = network
        self.program = program
        self.nodes = nodes
        self.more = []

    def address(self, i):
        return self.network.address(i), self.CLIENTS

    def command(self, i, disk, first):
        peers = ",".join(f"{self.network.address(n)}:{self.PEERS}" for n in range(self.nodes))
        return [*self.network.inside(i), self.program, "--listen",
                f"{self.network.address(i)}:{self.CLIENTS}", "--protected-mode", "no", "--node",
                str(i), "--peers", peers, "--cluster", "77", "--dir", disk + "/ddp", "--log-size",
                "64M", "--memory", "256M", "--keys", "20000", *(["--found"] if first else []),
                *self.more]

    def greet(self, connection):
        pass

    @staticmethod
    def full(i, connection):
        del i
        return connection("GET", "probe") is None

    @staticmethod
    def figures(connection):
        del connection
        return {}

    @staticmethod
    def durability(rng, kind, counter):
        del rng, kind, counter
        return "default"

    get = staticmethod(Redis.get)
    set = staticmethod(Redis.set)
    delete = staticmethod(Redis.delete)
    incr = staticmethod(Redis.incr)
    result = staticmethod(Redis.result)


KINDS = {"redis": Redis, "ddp": Ddp}
