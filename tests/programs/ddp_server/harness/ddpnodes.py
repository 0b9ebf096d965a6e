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


KINDS = {"redis": Redis}
