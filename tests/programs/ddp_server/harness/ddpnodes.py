# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Kinds of servers that the harness can drive: how a node is started, what its commands are, and
whether it is a full member."""
import os
import re
import subprocess

import ddpbox
import ddpclients


def fields(flat):
    """A map as RESP2 has it."""
    return {k.decode(): v for k, v in zip(flat[::2], flat[1::2])}


class Redis:
    """A single redis-server that flushes each write: what the harness itself is tried with."""

    watches = False
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

    def found(self, folder):
        pass

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

    def from_log(self, connection):
        """Of a full member: has this process all keys from its own log, none from another node?"""
        del connection
        return True

    def figures(self, connection):
        del connection
        return {}

    @staticmethod
    def durability(rng, kind, counter):
        del rng, kind, counter
        return "default"

    @staticmethod
    def copies(rng, kind):
        del rng, kind
        return 0

    @staticmethod
    def claimed(answer):
        """How many copies a write's answer stands for, if it has their number."""
        del answer

    @staticmethod
    def get(key, durability):
        del durability
        return "GET", key

    @staticmethod
    def set(key, value, durability, copies=0):
        del durability, copies
        return "SET", key, value

    @staticmethod
    def delete(key, durability, copies=0):
        del durability, copies
        return "DEL", key

    @staticmethod
    def incr(key, durability, copies=0):
        del durability, copies
        return "INCR", key

    CAS = ("local v = redis.call('GET', KEYS[1]) "
           "if (v or '') ~= ARGV[1] then return v or '' end "
           "redis.call('SET', KEYS[1], ARGV[2]) return 1")

    @staticmethod
    def prepare_cas(connection, key):
        got = connection("GET", key)
        return got, got

    def cas(self, key, expect, new, durability, copies=0):
        del durability, copies
        return "EVAL", self.CAS, "1", key, expect or b"", new

    @staticmethod
    def result(kind, key, got):
        if kind == "get" and ddpclients.is_counter(key):
            return "ok:" + (got.decode() if got is not None else "nil")
        if kind == "get":
            return "ok:" + ddpclients.token_of(got)
        if kind == "incr":
            return f"ok:{got}"
        if kind == "expire":
            return "no" if got in (0, None) else "ok"
        if kind == "cas" and got != 1:
            return "no:" + ddpclients.token_of(got or None)
        return "ok"


class Ddp:
    """Nodes of ddp_server."""

    watches = True  # and times to live that no reader's clock ends
    # Refusals before anything was sent. Another error leaves the outcome of a write open.
    CERTAIN = {"CLUSTERDOWN", "LOADING", "TRYAGAIN", "OOM", "NOREPLICAS", "NOAUTH"}
    ELSEWHERE = {"CLUSTERDOWN", "LOADING", "UNKNOWN"}
    keeps = "both"
    counts_messages = True
    timeout = 12.0
    large = 60_000
    kinds = ("get",) * 10 + ("set",) * 5 + ("cas", "incr") * 3 + ("once",) * 2 + ("del",)
    WRITES = ("default",) * 4 + ("all",) * 2 + ("memory",) * 2 + ("here", "scope")
    READS = ("default",) * 4 + ("all", "memory", "confirm")  # confirm: by a majority
    ENOENT, ECANCELED, EUNKNOWN = -2, -125, -1003
    CLIENTS, PEERS = 6379, 7000
    log_size = "64M"
    shard_count = 1
    value_max = 65536

    def __init__(self, network, program, nodes):
        self.network = network
        self.program = program
        self.nodes = nodes
        self.more = []

    def address(self, i):
        return self.network.address(i), self.CLIENTS

    def found(self, folder):
        """The files of a new cluster, if there are none yet."""
        self.config = folder + "/cluster.conf"
        if os.path.exists(self.config):
            return
        nodes = range(self.nodes)
        ddpbox.run(self.program, "found", "--file", self.config, "--shards", str(self.shard_count),
                   "--value-max", str(self.value_max),
                   "--peers", ",".join(f"{self.network.address(n)}:{self.PEERS}" for n in nodes),
                   "--clients", ",".join("%s:%d" % self.address(n) for n in nodes))

    def command(self, i, disk, first):
        return [*self.network.inside(i), self.program, "--config", self.config, "--node", str(i),
                "--listen", "%s:%d" % self.address(i), "--protected-mode", "no",
                "--dir", disk + "/ddp", "--log-size", self.log_size, "--memory", "256M",
                "--keys", "100000",
                *(["--found"] if first else []), *self.more]

    def ctl(self, nodes, *words):
        """@return its exit code, and what it prints"""
        nodes = ",".join("%s:%d" % self.address(n) for n in nodes)
        r = subprocess.run([*self.network.inside(self.nodes), self.program, "ctl", *words,
                            "--connect", nodes, "--config", self.config],
                           stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        return r.returncode, r.stdout

    def replace(self, i):
        """Node i's disk is empty: the node that starts on it gets its vote."""
        others = [n for n in range(self.nodes) if n != i]
        ddpbox.until(lambda: self.ctl(others, "replace", "--node", str(i))[0] == 0,
                     f"replacement of node {i}", 30)

    def others_vote(self, but):
        """Each shard of each other node has its vote. A replacement is under way when it is
        answered, and is lost if the node that has it ends: an operator who sees that repeats it."""
        whole = True
        for i in range(self.nodes):
            if i == but:
                continue
            _, status = self.ctl([i], "status")
            if "has no vote" in status:
                self.ctl([n for n in range(self.nodes) if n != i], "replace", "--node", str(i))
            vacant = re.findall(r"vacant ([-0-9,]+),", status)
            whole = (whole and "has no vote" not in status and vacant != [] and
                     set(vacant) <= {"-", str(but)})
        return whole

    def greet(self, connection):
        pass

    @staticmethod
    def shards(connection):
        """What INFO has of each shard."""
        lines = connection("INFO", "cluster").decode().splitlines()
        return [dict(f.split("=", 1) for f in line.split(":", 1)[1].split(","))
                for line in lines if line.startswith("shard")]

    def full(self, i, connection):
        return (connection("STORE", "NODES")[0] == 1 and
                all(int(s["full"], 16) >> i & 1 for s in self.shards(connection)))

    def from_log(self, connection):
        for shard in fields(connection("CLUSTER", "STATE"))["shards"]:
            shard = fields(shard)
            progress = fields(shard["progress"])
            if any(progress[w] for w in ("unconfirmed", "confirmed", "dropped", "pulled")):
                return False
        return True

    def figures(self, connection):
        stats = dict(line.split(":", 1) for line in connection("INFO", "stats").decode().split()
                     if ":" in line)
        number = {k: int(v) for k, v in stats.items() if v.isdigit()}
        resent = number["node_messages_retransmitted"] - number["node_messages_repeats"]
        return {"epoch": [s["epoch"] for s in self.shards(connection)],
                "sent": number["node_messages_sent"], "resent": max(0, resent),
                "lost": number["node_messages_lost"]}

    def durability(self, rng, kind, counter):
        if counter and kind == "incr":
            return rng.choice(("default", "all"))
        durability = rng.choice(self.READS if kind == "get" else self.WRITES)
        return "default" if kind == "cas" and durability == "scope" else durability

    def copies(self, rng, kind):
        """The fewest full members that a write is to have; often 0: the server's min_full."""
        return rng.randrange(self.nodes + 1) if kind != "get" and rng.random() < 0.3 else 0

    @staticmethod
    def claimed(answer):
        is_write = isinstance(answer, list) and len(answer) == 8 and answer[0] == 0
        return answer[5] if is_write and answer[1] == 0 else None  # not of an earlier execution

    @staticmethod
    def how(durability, copies, *words):
        if copies:
            return ("DURABILITY", durability, "COPIES", copies, *words)
        return words if durability == "default" else ("DURABILITY", durability, *words)

    def get(self, key, durability):
        if durability == "confirm":
            return "READLEVEL", "default", "CONFIRM", "GET", key
        words = "GET", key
        return words if durability == "default" else ("READLEVEL", durability, *words)

    def set(self, key, value, durability, copies=0):
        return self.how(durability, copies, "SET", key, value)

    def delete(self, key, durability, copies=0):
        return self.how(durability, copies, "DEL", key)

    def incr(self, key, durability, copies=0):
        return self.how(durability, copies, "INCR", key)

    def prepare_cas(self, connection, key):
        """(what a compare-and-swap is to compare with, its value)"""
        got = connection("STORE", "GET", key)
        if got[0] not in (0, self.ENOENT):
            raise ddpclients.Refusal(f"STORE GET: {got[0]}")
        return (got[2], got[7]) if got[0] == 0 else (None, None)

    @staticmethod
    def cas(key, version, new, durability, copies=0):
        condition = ("IF", "absent") if version is None else ("IFVERSION", version)
        words = ("STORE", "PUT", key, new, *condition, *(["COPIES", copies] if copies else []))
        return words + (("DURABILITY", durability) if durability != "default" else ())

    @staticmethod
    def seen(connection, key):
        """What a session's first attempt gives as `seen` (store.h)."""
        return connection("STORE", "GET", key)[3]

    @staticmethod
    def set_once(key, value, client, sequence, seen, age_ms):
        return ("STORE", "PUT", key, value, "SESSION", client, sequence, seen, age_ms)

    @staticmethod
    def executed(got):
        return got[0] == 0

    def result(self, kind, key, got):
        if kind == "cas":
            if got[0] == self.EUNKNOWN:
                raise ddpclients.Refusal("UNKNOWN")
            if got[0] == 0:
                return "ok"
            return "no" if got[7] is None else "no:" + ddpclients.token_of(got[7])
        return Redis.result(kind, key, got)


KINDS = {"redis": Redis, "ddp": Ddp}
