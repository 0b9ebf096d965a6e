#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Nodes as processes, clients, faults drawn by seed, and a judged history. README.md has the rest.

ddp_faults.py --lossfs P --forwarder P --judge P [--server P] [--kind ddp|redis] [--nodes N]
              [--seconds S] [--seed N] [--schedule FILE] [--only EPISODE,...] [--out FOLDER]
              [--expect-wrong [TEXT,...]] [--lie] [--overclaim] [--state FOLDER --minutes N]
              [--more=OPTIONS] [--shards N] [--large BYTES] [--steady]

--schedule replays the faults of a file that an earlier run has printed and kept. --expect-wrong:
the run passes when the judge finds the history wrong, in the ways that have these texts (with
--lie: disks do not flush; with --overclaim: what was written with durability memory passes for
durable at all or here, or for more copies than were asked for). --steady: no node may leave the
membership; where one does and a process was not scheduled for half a lease, another run follows,
and after five such the test is skipped. --state: disks and progress are kept there, and a run that
was interrupted is resumed. --more: of the server's command line.
"""
import argparse
import json
import os
import random
import resource
import shutil
import subprocess
import sys
import threading
import time

import ddpbox
import ddpclients
import ddpcluster
import ddpnodes
import ddpschedule
import ddpwatch

SCHEDULE_SECONDS = 25  # by night
PIECE_MINUTES = 30
BAD_HISTORY = "the history is wrong"


def options():
    p = argparse.ArgumentParser()
    for name in ("lossfs", "forwarder", "judge", "server", "schedule", "only", "out", "state",
                 "more"):
        p.add_argument("--" + name)
    p.add_argument("--kind", default="ddp")
    p.add_argument("--nodes", type=int, default=3)
    p.add_argument("--seconds", type=float, default=40)
    p.add_argument("--minutes", type=float, default=0)
    p.add_argument("--clients", type=int, default=6)
    p.add_argument("--shards", type=int, default=1)
    p.add_argument("--large", type=int, default=60_000)
    p.add_argument("--seed", type=int, default=int(os.environ.get("SNIC_TURN") or 1))
    p.add_argument("--expect-wrong", nargs="?", const="WRONG")
    for flag in ("lie", "overclaim", "steady"):
        p.add_argument("--" + flag, action="store_true")
    return p.parse_args()


class Run:
    """One schedule on disks that exist."""

    def __init__(self, o, kind, network, disks, folder, seed, lines, before):
        self.o = o
        self.kind = kind
        self.folder = folder
        self.seed = seed
        self.lines = lines
        self.history = ddpclients.History(folder + "/history")
        self.cluster = ddpcluster.Cluster(kind, network, disks, folder, self.history)
        self.wrong = []
        self.missed = []
        self.watchers = []
        self.timed = []
        self.network = network
        self.void = None  # why the run is inconclusive
        self.waited = False
        self.before = before
        self.after = {"attempt": before["attempt"], "keys": {}}

    def carry_out(self):
        began = time.monotonic()
        for line in self.lines:
            at, action, *words = line.split()
            time.sleep(max(0.0, began + int(at) / 1000 - time.monotonic()))
            self.history.comment(line)
            self.cluster.act(action, words)

    def check(self, what, bad):
        if bad:
            self.wrong.append(f"{what}: {bad}")

    def recover(self):
        self.cluster.heal()
        late = self.cluster.await_full()
        self.check("not full members minutes after the last fault", late)
        return not late

    def go(self, first):
        o = self.o
        for key, value in self.before["keys"].items():  # of the run before on these disks
            self.history.operation("before", 1, 2, "set", key, value, "ok", dur="all")
        for i in range(self.kind.nodes):
            self.cluster.start(i, first=first)
        if not self.recover():
            return self.end()
        if o.lie:
            for d in self.cluster.disks:
                d("lie on")
        waits = self.cluster.waits()
        epochs = self.epochs()
        threading.excepthook = self.client_ended
        rng = random.Random(f"keys {self.seed}")
        keys = ddpclients.Keys(rng, 8, 2, f"{self.seed}.{self.before['attempt']}.")
        stop = threading.Event()
        clients = [ddpclients.Client(f"c{i}", self.kind, self.network, keys, self.history, stop,
                                     self.seed) for i in range(o.clients)]
        words = self.kind, self.network, keys, self.history, stop, self.seed
        watch_stop = threading.Event()
        if self.kind.watches:
            self.watchers = [ddpwatch.Watcher(f"w{i}", *words[:4], watch_stop, self.seed, i != 1)
                             for i in range(3)]
            self.timed = [ddpwatch.Timed(f"t{i}", *words) for i in range(2)]
        for c in self.timed:
            c.others = [d for d in self.timed if d is not c]
            c.next_key()
        clients += self.timed
        scanner = ddpclients.Scanner(self.kind, self.network, self.history, stop, self.seed,
                                     keys.prefix)
        self.scanned = {n.decode() for n in scanner.names}
        scanner.start()
        for w in self.watchers:
            w.lies = o.overclaim
            w.start()
        for c in clients:
            c.overclaim = o.overclaim
            c.start()
        if o.lie:  # without anything that was acknowledged before, a loss is none
            scanner.filled.wait(ddpbox.PATIENCE)
        self.carry_out()
        stop.set()
        for c in [*clients, scanner]:
            c.join()
            self.wrong += c.wrong[:5]
        print(f"{scanner.whole} scans were whole")
        self.judge_pace(waits.seconds)
        recovered = self.recover()
        self.judge_epochs(waits.close(), epochs)
        if recovered:
            self.finish(keys, time.monotonic() + ddpbox.PATIENCE)
        watch_stop.set()
        for w in self.watchers:
            w.join()
            self.wrong += w.wrong[:5]
        if self.watchers:
            print(f"{sum(w.events for w in self.watchers)} changes watched, "
                  f"{sum(w.segments for w in self.watchers)} watches begun, "
                  f"{sum(w.continued for w in self.watchers)} continued")
        return self.end()

    def judge_pace(self, waited):
        """Of the time with clients, of which others may have had the processors for a part."""
        ok, least = self.history.total("ok"), 10 * (self.o.seconds - waited)
        if ok < max(self.o.seconds, least):
            self.wrong.append(f"only {ok} operations succeeded")

    def judge_epochs(self, waits, epochs):
        print(f"not scheduled: {waits}")
        self.waited = waits.evidence != []
        now = self.epochs()
        if self.o.steady and now != epochs:
            left = f"epochs {epochs} have become {now}"
            if self.waited:
                self.void = f"{left}; processes were not scheduled: {waits}"
            else:
                self.wrong.append(left)

    def client_ended(self, what):
        self.wrong.append(f"{what.thread.name} ended by itself: {what.exc_value!r}")
        sys.excepthook(what.exc_type, what.exc_value, what.exc_traceback)

    def epochs(self):
        """Of each node; those that have none show none."""
        got = []

        def body():
            if self.network:
                ddpbox.enter_network("c")
            for i in range(self.kind.nodes):
                connection = ddpclients.RetryingClient(self.kind, i)
                got.append(self.kind.figures(connection).get("epoch"))
                connection.close()

        t = threading.Thread(target=body)
        t.start()
        t.join()
        return got

    def forget(self, names):
        """By night the keys that no later run reads are deleted; the history has ended."""
        connection = ddpclients.Connection(self.kind.address(0), self.kind.timeout)
        for name in names:
            try:
                connection(*self.kind.delete(name, "default"))
            except ddpclients.Refusal as e:
                print(f"{name} stays: {e}")
        connection.close()

    def finish(self, keys, end):
        """All have healed: until `end` each node takes a write, and each node shows each key."""

        def body():
            if self.network:
                ddpbox.enter_network("c")
            client = ddpclients.Client("last", self.kind, None, keys, self.history,
                                       threading.Event(), self.seed)
            for i in range(self.kind.nodes):
                while not self.takes_write(client, i, keys.registers[0]):
                    if time.monotonic() >= end:
                        self.wrong.append(f"node {i} takes no write after all has healed")
                        break
                    time.sleep(0.1)
            names = keys.all() + list(self.before["keys"]) + sorted(self.scanned)
            answers, values = ddpclients.read_all(self.kind, names, self.history, end)
            if answers != self.kind.nodes * len(names):
                self.wrong.append(f"{answers} answers for {len(names)} keys at each node")
            names = [k for k in keys.all() if not ddpclients.is_counter(k) and values[k] != "nil"]
            self.after["keys"] = {k: values[k] for k in names[:40]}
            self.finish_timed(keys, end)
            if self.o.state:
                used = set(keys.all()) | set(self.before["keys"]) | self.scanned
                used |= {k for c in self.timed for k in c.mine}
                used |= {f"{keys.prefix}m{i}" for i in range(12)}
                self.forget(used - set(self.after["keys"]))

        t = threading.Thread(target=body)
        t.start()
        t.join()

    def takes_write(self, client, i, key):
        client.node = i
        try:
            client.connection = ddpclients.Connection(self.kind.address(i), self.kind.timeout)
            self.kind.greet(client.connection)
        except (OSError, ddpclients.Refusal):
            client.drop()
            return False
        value, _ = client.value()
        words = self.kind.set(key, ddpclients.payload(value, 0), "default")
        result = client.carry_out("set", key, value, words, {"node": i})
        client.drop()
        return result == "ok"

    def finish_timed(self, keys, end):
        """Watches still show what is written, and what has a TTL ends."""
        timed = [k for c in self.timed for k in c.mine[-5:]]
        ddpclients.read_all(self.kind, timed, self.history, end)
        late = ddpwatch.await_marks(self.kind, [w for w in self.watchers if w.whole], self.history,
                                    keys.prefix, end) if self.watchers else []
        self.check("watchers do not show what is written", late)
        mortal = [c.mine[-1] for c in self.timed if c.mortal]
        self.check("it has a TTL and exists", ddpwatch.await_expired(self.kind, mortal, end))

    def reasons(self):
        reasons = sorted(self.history.reasons.items(), key=lambda r: -r[1])
        print("not answered or refused:", ", ".join(f"{n} {w}" for w, n in reasons) or "none")

    def end(self):
        self.cluster.close(self.seed)
        self.history.close()
        r = subprocess.run([self.o.judge, "--keeps", self.kind.keeps, self.folder + "/history"],
                           stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        print(r.stdout, end="")
        if r.returncode != 0:
            self.wrong.append(BAD_HISTORY)
        if self.o.expect_wrong:
            self.missed = [t for t in self.o.expect_wrong.split(",") if t not in r.stdout]
        ok, unknown = self.history.total("ok"), self.history.total("unknown")
        print(f"operations: {ok} ok, {self.history.total('no')} refused, "
              f"{self.history.total('fail')} failed, {unknown} unknown; "
              f"ended by themselves: {self.cluster.ends}")
        self.reasons()
        return self.wrong


def schedule(o, seed, seconds, can_replace):
    if o.schedule:
        with open(o.schedule, encoding="utf-8") as f:
            return [line.strip() for line in f if line.strip() and line[0] != "#"]
    only = o.only.split(",") if o.only else None
    return ddpschedule.make(seed, o.nodes, seconds, can_replace, only)


def keep(o, folder, seed):
    """History, schedule and logs of a failed run, outside of the folder in memory."""
    out = o.out or os.path.join(os.environ["SNIC_DDPBOX_CWD"], f"ddp_faults-{seed}")
    os.makedirs(out, exist_ok=True)
    for name in os.listdir(folder):
        if os.path.isfile(f"{folder}/{name}"):
            shutil.copy(f"{folder}/{name}", out)
    print(f"history, schedule and logs are in {out}")


def lies(o, kind, network, disks, folder, state):
    """Of several lies each has to be found, in one of three runs: whether a client reads what was
    lost before it is written again is chance. In one of twelve where processes were not scheduled
    for half a lease: what was lost `here` shows only at nodes that begin with their logs and stay.
    """
    end = time.monotonic() + 300
    for again in range(12):
        if again >= 3 and time.monotonic() > end:
            break
        state["attempt"] += 1
        if one(o, kind, network, disks, folder, o.seed + again, o.seconds, again == 0, state):
            return True
        if not state["missed"] or (again >= 2 and not state["waited"]):
            return False
        o.expect_wrong = ",".join(state["missed"])
    print("FAILED: not found in all these runs:", o.expect_wrong)
    return False


def steady(o, kind, network, disks, folder, state):
    for again in range(5):
        state["attempt"] += 1
        good = one(o, kind, network, disks, folder, o.seed + again, o.seconds, again == 0, state)
        if not good or not state["void"]:
            return good
        print("inconclusive:", state["void"])
    print("skipped: in each run a process was not scheduled for half a lease")
    sys.exit(77)


def one(o, kind, network, disks, folder, seed, seconds, first, state):
    lines = schedule(o, seed, seconds, getattr(kind, "replace", None) is not None)
    with open(folder + "/schedule", "w", encoding="utf-8") as f:
        f.write(f"# --kind {o.kind} --nodes {o.nodes} --seed {seed}\n")
        f.writelines(line + "\n" for line in lines)
    print(f"== seed {seed}: {len(lines)} actions; repeat it with --seed {seed}, or --schedule")
    print("\n".join(lines))
    run = Run(o, kind, network, disks, folder, seed, lines, dict(state))
    if not o.state:
        ddpbox.limit(max(1, int(o.end - time.monotonic())), lambda: run.wrong)
    wrong = run.go(first)
    state.update(run.after, missed=run.missed, void=run.void, waited=run.waited)
    for w in wrong:
        print("WRONG", w)
    for m in run.missed:
        print("MISSED by the judge:", m)
    if run.missed or bool(o.expect_wrong) != (BAD_HISTORY in wrong) or (
            wrong and not o.expect_wrong):
        keep(o, folder, seed)
        print(f"FAILED: seed {seed}")
        return False
    return True


def night(o, kind, network, folder, state):
    """Schedules until the minutes are used up, in pieces on the same disks."""
    path = state + "/progress"
    done = {"schedules": 0, "seconds": 0.0, "attempt": 0, "keys": {}}

    def save():
        with open(path + ".new", "w", encoding="utf-8") as f:
            json.dump(done, f)
        os.replace(path + ".new", path)

    if os.path.exists(path):
        with open(path, encoding="utf-8") as f:
            done = json.load(f)
    if done["seconds"] >= o.minutes * 60:  # a new night, with other seeds
        done["seconds"] = 0.0
    while done["seconds"] < o.minutes * 60:
        disks = [ddpbox.Disk(o.lossfs, f"{folder}/n{i}", f"{state}/n{i}")
                 for i in range(o.nodes)]
        piece = time.monotonic()
        while time.monotonic() - piece < PIECE_MINUTES * 60 and done["seconds"] < o.minutes * 60:
            began = time.monotonic()
            first = done["attempt"] == 0
            done["attempt"] += 1
            save()
            seed = o.seed * 1000 + done["schedules"]
            if not one(o, kind, network, disks, folder, seed, SCHEDULE_SECONDS, first, done):
                save()  # the keys of the run before are deleted, those of this one stay
                return False
            done["schedules"] += 1
            done["seconds"] += time.monotonic() - began
            save()
        for d in disks:
            d.close()
    print(f"{done['schedules']} schedules in {done['seconds'] / 60:.0f} minutes")
    return True


def main():
    os.environ.setdefault("SNIC_DDPBOX_CWD", os.getcwd())
    o = options()
    o.end = time.monotonic() + ddpbox.LIMIT
    if o.kind == "redis" and shutil.which(o.server or "redis-server") is None:
        print("skipped: it needs redis-server")
        sys.exit(77)
    ddpbox.enter()
    if o.steady:
        ddpbox.before_others()
    folder = ddpbox.work_folder()
    network = ddpbox.Network(os.path.abspath(o.forwarder), folder, o.nodes, o.seed)
    kind = ddpnodes.KINDS[o.kind](network, o.server, o.nodes)
    kind.more = (o.more or "").split()
    kind.shard_count = o.shards
    kind.large = o.large
    kind.value_max = max(65536, o.large + 100)
    if o.overclaim:
        kind.WRITES = ("memory",)
    if o.state:
        kind.log_size = "128M"
        os.makedirs(o.state, exist_ok=True)
        kind.found(os.path.abspath(o.state))
        good = night(o, kind, network, folder, os.path.abspath(o.state))
    else:
        kind.found(folder)
        disks = [ddpbox.Disk(o.lossfs, f"{folder}/n{i}") for i in range(o.nodes)]
        state = {"attempt": 0, "keys": {}}
        if o.overclaim:
            good = lies(o, kind, network, disks, folder, state)
        elif o.steady:
            good = steady(o, kind, network, disks, folder, state)
        else:
            good = one(o, kind, network, disks, folder, o.seed, o.seconds, True, state)
        for d in disks:
            d.close()
    network.close()
    used = [resource.getrusage(w) for w in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    print(f"CPU: {sum(u.ru_utime + u.ru_stime for u in used):.1f} s")
    sys.exit(0 if good else 1)


if __name__ == "__main__":
    main()
