#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 OR MIT
"""test_judge.py JUDGE_HISTORY: histories by hand that are right and wrong, and many drawn ones:
of a correct register, and the same with one result changed for one that cannot be."""
import random
import subprocess
import sys

LOSS_HERE = ("! 0 nodes 3\na 1 2 set k 1 ok dur=here node=0\n! 5 down 0\n! 5 down 1\n! 5 down 2\n"
             "! 8 full 0{0}\n! 9 full 1{1}\nb 10 11 get k - ok:{2} dur=memory")
WATCHED = ("a 10 20 set k1 1 ok node=0\na 30 40 set k1 2 ok node=0\na 50 60 set k2 3 ok\n"
           "b 41 45 get k1 - ok:2 node=1\nc 5 5 watch k* - ok segment=s node=1\n{0}"
           "c 65 65 see k2 - ok:3 segment=s version=9")
SEEN_1 = "c 21 21 see k1 - ok:1 segment=s version=4\n"
SEEN_2 = "c 42 42 see k1 - ok:2 segment=s version=7\n"
DELETED = ("a 10 20 set k1 1 ok\nc 5 5 watch k1 - ok segment=s node=1\na 30 40 del k1 - ok\n"
           "c 21 21 see k1 - ok:1 segment=s version=4\nb 50 55 get k1 - ok:nil node=1\n{0}"
           "a 60 70 set k1 2 ok\n{1}")
SEEN_END = "c 71 71 see k1 - ok:2 segment=s version=9\n"
TIMED = "a 10 20 set k 1 ok expires=110\n{0}b {1} get k - ok:{2}"
ACROSS_LOSS = ("! 0 nodes 3\na 1 2 set k 1 ok\na 3 {0} set k 2 ok\n! 5 down 0\n! 5 down 1\n"
               "! 5 down 2\n! 8 full 0\n! 8 full 1\nb 10 11 set k 3 ok\nb 12 13 get k - ok:3\n"
               "b 22 23 get k - ok:2")
DELETED_ACROSS_LOSS = ("! 0 nodes 3\na 1 2 set k 1 ok\nb {0} get k - ok:nil\na 5 12 del k - ok\n"
                       "! 8 down 0\n! 8 down 1\n! 8 down 2\n! 11 full 0\n! 11 full 1")
AGAIN = ("! 0 nodes 3\na 1 2 set k 1 ok dur=all\n! 3 down 0\n! 3 down 1\n! 3 down 2\n! 5 back 2\n"
         "! 5 back 1\n! 6 full 2 log\nb 6 6 get k - ok:1\na 7 8 set k 2 ok dur={0}\n! 9 gone 1\n{1}"
         "! 10 back 1\n! 11 full 2\n! 12 full 1\nb 13 14 get k - ok:1 dur=memory")
RIGHT = {
    "reads follow writes": "a 1 2 set k 1 ok\nb 3 4 get k - ok:1\na 5 6 set k 2 ok\n"
                           "b 5 7 get k - ok:1\nb 8 9 get k - ok:2",
    "absent at first": "a 1 2 get k - ok:nil\na 3 4 set k 1 ok",
    "an unknown write happens later": "a 1 - set k 1 unknown\nb 3 4 get k - ok:nil\n"
                                      "b 5 6 get k - ok:1\nb 7 8 get k - ok:1",
    "an unknown write never happens": "a 1 - set k 1 unknown\nb 3 4 set k 2 ok\nb 5 6 get k - ok:2",
    "a failed write": "a 1 2 set k 1 fail:NOREPLICAS\nb 3 4 get k - ok:nil",
    "deletion": "a 1 2 set k 1 ok\na 3 4 del k - ok\nb 5 6 get k - ok:nil\na 7 8 set k 2 ok\n"
                "b 9 10 get k - ok:2",
    "exchange": "a 1 2 cas k nil,1 ok\nb 3 4 cas k 1,2 ok\na 5 6 cas k 1,3 no:2\n"
                "a 7 8 get k - ok:2",
    "a refused exchange": "a 1 2 set k 1 ok\nb 3 4 cas k 7,2 no\na 5 6 get k - ok:1",
    "counter": "a 1 2 incr n - ok:1\nb 1 3 incr n - ok:2\na 4 5 get n - ok:2",
    "counter with an unknown one": "a 1 - incr n - unknown\nb 3 4 incr n - ok:2",
    "memory may be lost": "! 0 nodes 3\na 1 2 set k 1 ok dur=all\na 3 4 set k 2 ok dur=memory\n"
                          "! 5 down 0\n! 5 down 1\n! 5 down 2\n! 8 full 0\n! 9 full 1\n"
                          "! 9 full 2\nb 10 11 get k - ok:1\nb 12 13 get k - ok:1",
    "read memory may be lost": "! 0 nodes 3\na 1 2 set k 1 ok dur=all\n"
                               "a 3 4 set k 2 ok dur=memory\nb 4 5 get k - ok:2 dur=memory\n"
                               "! 6 down 0\n! 6 down 1\n! 6 down 2\n! 9 full 0\n! 9 full 1\n"
                               "b 10 11 get k - ok:1",
    "a member again, before a majority is, and lost": AGAIN.format("memory", "! 9 down 2\n"),
    "a member again before it was seen, and lost": AGAIN.format("memory", "! 9 gone 2\n").replace(
        "! 6 full 2 log\n", ""),
    "unknown before a loss, then done again": "! 0 nodes 3\na 1 2 set k 1 ok\n"
        "a 3 - set k 2 unknown\n! 5 down 0\n! 5 down 1\n! 5 down 2\n! 8 full 0\n! 9 full 1\n"
        "b 10 11 get k - ok:1\nb 12 13 get k - ok:2",
    "begun before a loss, done after it": ACROSS_LOSS.format(20),
    "a deletion is answered in a loss": DELETED_ACROSS_LOSS.format("5 6"),
    "a read across a loss, of what was written after it": "! 0 nodes 3\na 1 2 set k 1 ok\n"
        "! 5 down 0\n! 5 down 1\n! 5 down 2\na 6 20 set k 2 ok\nb 4 21 get k - ok:2\n"
        "! 8 full 0\n! 8 full 1",
    "scope without sync": "! 0 nodes 3\na 1 2 set k 1 ok dur=scope scope=s\n"
        "! 5 down 0\n! 5 down 1\n! 5 down 2\n! 8 full 0\n! 8 full 1\nb 9 10 get k - ok:nil",
    "one node of three keeps all": "! 0 nodes 3\na 1 2 set k 1 ok dur=memory\n! 3 down 0\n"
        "! 3 down 1\nb 4 5 get k - ok:1\n! 6 full 0\nb 7 8 get k - ok:1",
    "the last one apart": "! 0 nodes 3\na 1 2 set k 1 ok dur=memory\n! 3 apart 2\n! 4 down 0\n"
        "! 4 down 1\n! 6 full 0\n! 6 full 1\n! 7 joined 2\nb 8 9 get k - ok:nil",
    "here, and that log is not among those that are left": LOSS_HERE.format("", " log", "nil"),
    "here, and its node learned first": LOSS_HERE.format("", " log", "nil").replace(
        "! 9 full 1 log", "! 9 full 1 log\n! 9 full 0\n! 9 down 0\n! 9 full 0 log"),
    "here, of an unknown node": LOSS_HERE.format(" log", " log", "nil").replace("node=0", ""),
    "here, lost at the second loss": LOSS_HERE.format(" log", " log", "1") +
        "\n! 20 down 0\n! 20 down 1\n! 20 down 2\n! 22 full 1 log\n! 23 full 2 log\n"
        "b 24 25 get k - ok:nil",
    "as many copies as there are": "! 0 nodes 3\n! 2 gone 0\na 3 4 set k 1 ok copies=2\n"
        "a 5 8 set k 2 ok copies=3\n! 6 back 0\n! 7 gone 1\na 9 10 set k 3 unknown copies=3",
    "a member until it ends": "! 0 nodes 3\na 1 9 set k 1 ok copies=3\n! 2 gone 0\n! 3 gone 1",
    "a deletion that begins before a window of the search": "".join(
        f"a {10 * i} {10 * i + 5} set k v{i} ok\n" for i in range(149)) +
        "a 1500 1530 del k - ok\nb 1510 1520 set k w ok\nb 1540 1550 cas k nil,x ok\n"
        "b 1560 1570 get k - ok:x",
    "a deletion that begins before a window, its end is open": "".join(
        f"a {10 * i} {10 * i + 5} set k v{i} ok\n" for i in range(149)) +
        "a 1500 - del k - unknown\nb 1510 1520 set k w ok\nb 1540 1550 get k - ok:nil\n"
        "b 1560 1570 set k x ok",
    "a watch shows all": WATCHED.format(SEEN_1 + SEEN_2),
    "a watch misses what no read has returned": WATCHED.format(SEEN_2),
    "a read at another node": WATCHED.format("").replace("node=1\nc", "node=2\nc", 1),
    "a value older than the watch": WATCHED.format("").replace("c 5 5", "c 41 41"),
    "a watch may be behind": WATCHED.format("").replace("a 50 60 set k2", "a 44 60 set k2"),
    "a watch of another key": WATCHED.format("").replace("watch k*", "watch k2"),
    "another shard": WATCHED.format("c 6 6 watch k* - ok segment=z shard=1 node=1\n"
                                    "c 33 33 see k1 - ok:2 segment=z version=7\n"),
    "a deletion": DELETED.format("c 41 41 see k1 - ok:nil segment=s version=7\n", SEEN_END),
    "a deletion between the looks": DELETED.format("", ""),
    "a TTL ends": TIMED.format("", "105 111", "nil"),
    "a TTL ends late": TIMED.format("", "125 131", "1"),
    "a TTL ends, and the key is written again": TIMED.format(
        "b 120 121 get k - ok:nil\na 122 123 set k 2 ok\n", "125 131", "2"),
    "a TTL becomes shorter": TIMED.format("a 30 40 expire k 1 ok expires=50\n", "52 53", "nil"),
    "another TTL, perhaps": TIMED.format("a 30 - expire k 1 unknown expires=50\n", "52 53", "nil"),
    "not another TTL": TIMED.format("a 30 40 expire k 1 fail expires=150\n", "112 113", "nil"),
    "a longer TTL is lost": "! 0 nodes 3\n" + TIMED.format(
        "a 30 40 expire k 1 ok expires=900 dur=memory\n! 50 down 0\n! 50 down 1\n! 50 down 2\n"
        "! 60 full 0\n! 60 full 1\n", "200 201", "nil"),
}
WRONG = {
    "a watch misses a value": WATCHED.format(SEEN_1),
    "a watch misses a key": WATCHED.format(""),
    "a watch goes back": WATCHED.format(SEEN_2 + "c 43 43 see k1 - ok:1 segment=s version=8\n"),
    "a watch shows a change twice": WATCHED.format(SEEN_2 + SEEN_2.replace("c 42 42", "c 43 43")),
    "a watch shows what is not yet": WATCHED.format(SEEN_1.replace("21 21", "6 6")),
    "a watch shows what is not": WATCHED.format(SEEN_1.replace("ok:1", "ok:8")),
    "a watch without a beginning": "c 21 21 see k1 - ok:1 segment=s version=4",
    "a watch misses a deletion": DELETED.replace("watch k1", "watch k*").format("", "").replace(
        "set k1 2 ok", "set k2 2 ok") + SEEN_END.replace("k1", "k2"),
    "a TTL ends too early": TIMED.format("", "105 109", "nil"),
    "back after the TTL": TIMED.format("b 120 121 get k - ok:nil\n", "125 131", "1"),
    "an older TTL ends a newer value": TIMED.format("a 30 40 set k 2 ok\n", "125 131", "nil"),
    "a longer TTL ends too early": TIMED.format("a 30 40 expire k 1 ok expires=150\n", "125 131",
                                                "nil"),
    "a TTL that was taken away ends": TIMED.format("a 30 40 expire k 1 ok\n", "125 131", "nil"),
    "expire of a key that was gone": TIMED.format("b 120 121 get k - ok:nil\n", "150 151", "nil") +
        "\na 130 140 expire k 1 ok",
    "done before a loss, and again after another": ACROSS_LOSS.format(4),
    "read before a deletion that is answered in a loss": DELETED_ACROSS_LOSS.format("3 4"),
    "here, and its log is left": LOSS_HERE.format(" log", " log", "nil"),
    "here, an exchange": LOSS_HERE.format(" log", "", "nil").replace(
        "set k 1", "cas k nil,1"),
    "here, a deletion": LOSS_HERE.format(" log", "", "0").replace(
        "a 1 2 set k 1", "a 0 0 set k 0 ok\na 1 2 del k -"),
    "here, its node is seen later": LOSS_HERE.format("", " log", "nil").replace(
        "b 10", "! 9 full 0 log\nb 10").replace("! 8 full 0", "! 8 full 2"),
    "here, lost at the second loss that leaves it": LOSS_HERE.format(" log", " log", "1") +
        "\n! 20 down 0\n! 20 down 1\n! 20 down 2\n! 22 full 0 log\n! 23 full 2 log\n"
        "b 24 25 get k - ok:nil",
    "more copies than nodes": "! 0 nodes 3\n! 2 gone 0\na 3 5 set k 1 ok copies=3\n! 6 back 0",
    "never so many at a time": "! 0 nodes 3\n! 2 gone 0\na 3 9 set k 1 ok copies=3\n"
        "! 5 gone 1\n! 6 back 0\n! 10 back 1",
    "copies of an exchange": "! 0 nodes 3\n! 2 gone 0\na 3 5 cas k nil,1 ok copies=3",
    "copies of an increment": "! 0 nodes 3\n! 2 gone 0\na 3 5 incr n - ok:1 copies=3",
    "stale read": "a 1 2 set k 1 ok\na 3 4 set k 2 ok\nb 5 6 get k - ok:1",
    "two readers disagree": "a 1 9 set k 1 ok\na 1 9 set k 2 ok\nb 10 11 get k - ok:1\n"
                            "c 12 13 get k - ok:2\nb 14 15 get k - ok:1",
    "a read from nowhere": "a 1 2 get k - ok:7",
    "a read from the future": "a 1 2 get k - ok:7\na 3 4 set k 7 ok",
    "a failed write is read": "a 1 2 set k 1 fail:x\nb 3 4 get k - ok:1",
    "absent after a write": "a 1 2 set k 1 ok\nb 3 4 get k - ok:nil",
    "unknown seen, then gone": "a 1 - set k 1 unknown\nb 3 4 get k - ok:1\nb 5 6 get k - ok:nil",
    "back from the dead": "a 1 2 set k 1 ok\na 3 4 del k - ok\nb 5 6 get k - ok:1",
    "deleted by itself": "a 1 2 del k - ok\na 3 4 set k 1 ok\nb 5 6 get k - ok:nil",
    "lost update": "a 1 2 set k 1 ok\na 3 4 cas k 1,2 ok\nb 3 4 cas k 1,3 ok",
    "an exchange over another write": "a 1 2 set k 1 ok\na 3 4 set k 2 ok\nb 5 6 cas k 1,3 ok",
    "two equal numbers": "a 1 2 incr n - ok:1\nb 1 2 incr n - ok:1",
    "counter goes back": "a 1 2 incr n - ok:1\na 3 4 incr n - ok:2\nb 5 6 get n - ok:1",
    "executed twice": "a 1 2 incr n - ok:1\na 3 4 incr n - ok:3",
    "a durable write is lost": "! 0 nodes 3\na 1 2 set k 1 ok dur=all\na 3 4 set k 2 ok dur=all\n"
                               "! 5 down 0\n! 5 down 1\n! 5 down 2\n! 8 full 0\n! 9 full 1\n"
                               "! 9 full 2\nb 10 11 get k - ok:1",
    "a durable write leaves nothing": "! 0 nodes 3\na 1 2 set k 1 ok\n! 5 down 0\n! 5 down 1\n"
                                      "! 5 down 2\n! 8 full 0\n! 9 full 1\nb 10 11 get k - ok:nil",
    "a value that was read is lost": "! 0 nodes 3\na 1 2 set k 1 ok dur=all\n"
        "a 3 - set k 2 unknown\nb 4 5 get k - ok:2 dur=all\n! 6 down 0\n! 6 down 1\n! 6 down 2\n"
        "! 9 full 0\n! 9 full 1\nb 10 11 get k - ok:1",
    "a deletion is lost": "! 0 nodes 3\na 1 2 set k 1 ok\na 3 4 del k - ok\n! 5 down 0\n"
                          "! 5 down 1\n! 5 down 2\n! 8 full 0\n! 9 full 1\nb 10 11 get k - ok:1",
    "a loss has no two results": "! 0 nodes 3\na 1 2 set k 1 ok dur=memory\n"
        "a 3 4 set k 2 ok dur=memory\n! 5 down 0\n! 5 down 1\n! 5 down 2\n! 8 full 0\n"
        "! 9 full 1\nb 10 11 get k - ok:1\nc 12 13 get k - ok:2",
    "deleted after the loss": "! 0 nodes 3\na 1 2 set k 1 ok\n! 5 down 0\n! 5 down 1\n! 5 down 2\n"
        "! 8 full 0\n! 8 full 1\nb 10 11 get k - ok:nil\nb 12 13 del k - ok",
    "a member again, and a durable write is lost": AGAIN.format("all", "! 9 down 2\n"),
    "a member again, and one of two is lost": AGAIN.format("memory", ""),
    "a member again, and none is lost": AGAIN.format("memory", "").replace("! 9 gone 1\n", ""),
    "a synced scope is lost": "! 0 nodes 3\na 1 2 set k 1 ok dur=scope scope=s\n"
        "a 3 4 sync * s ok\n! 5 down 0\n! 5 down 1\n! 5 down 2\n! 8 full 0\n! 8 full 1\n"
        "b 9 10 get k - ok:nil",
    "one crash loses nothing": "! 0 nodes 3\na 1 2 set k 1 ok dur=memory\n! 3 down 0\n"
                               "b 4 5 get k - ok:nil\n! 6 full 0",
    "two crashes with the third up lose nothing": "! 0 nodes 3\na 1 2 set k 1 ok dur=memory\n"
        "! 3 down 0\n! 3 down 1\n! 6 full 0\n! 6 full 1\nb 8 9 get k - ok:nil",
}
MALFORMED = ["a 1 2 set k 1", "a 1 2 put k 1 ok", "a 1 2 get k - ok", "a 2 1 set k 1 ok",
             "a 1 2 cas k 1 ok", "! 1", "! 1 down 99", "a 1 2 set k 1 ok dur=paper",
             "a 1 2 get k - ok:1 dur=here", "a 1 2 set k 1 ok node=16",
             "a 1 2 set k 1 ok copies=17", "a 1 2 set k 1 ok expires=x",
             "c 1 1 see k - ok:1 version=3", "c 1 1 watch k - ok segment=s shard=300"]


def judge(program, text, *options):
    r = subprocess.run([program, *options], input=text + "\n", text=True, stdout=subprocess.PIPE,
                       stderr=subprocess.STDOUT)
    return r.returncode, r.stdout


def drawn(rng, clients=5, count=120):
    """A history of a correct register under random delays: each takes effect at a point in it."""
    value, ops, number = "nil", [], 0
    busy = [0] * clients
    for now in range(0, count * 10, 10):  # points of effect
        c = rng.randrange(clients)
        call = max(busy[c] + 1, now - rng.randrange(60))
        if call > now:
            continue
        end = now + rng.randrange(60)
        busy[c] = end
        number += 1
        kind = rng.choice(("get", "get", "set", "cas", "del"))
        if kind == "get":
            ops.append([c, call, end, "get", "k", "-", "ok:" + value])
        elif kind == "cas":
            fits = rng.random() < 0.6
            expect = value if fits else f"v{rng.randrange(number)}x"
            ops.append([c, call, end, "cas", "k", f"{expect},v{number}",
                        "ok" if fits else "no:" + value])
            value = f"v{number}" if fits else value
        else:
            new = "nil" if kind == "del" else f"v{number}"
            happens = rng.random() < 0.9
            known = happens and rng.random() < 0.9
            ops.append([c, call, end if known else "-", kind, "k",
                        "-" if kind == "del" else new, "ok" if known else "unknown"])
            value = new if happens else value
            busy[c] = end
    return ops


def spoil(rng, ops):
    """One read shows a value that was overwritten before it began; None: there is none."""
    for at in rng.sample(range(len(ops)), len(ops)):
        if ops[at][3] != "get":
            continue
        done = [o for o in ops if o[3] == "set" and o[2] != "-" and o[2] < ops[at][1]]
        for old in done:
            over = [o for o in done if o[1] > old[2]]
            if over and ops[at][6] != "ok:" + old[5]:
                return [*ops[:at], [*ops[at][:6], "ok:" + old[5]], *ops[at + 1:]]
    return None


def main():
    program = sys.argv[1]
    bad = []
    for wanted, table in ((0, RIGHT), (1, WRONG)):
        for name, text in table.items():
            code, out = judge(program, text)
            if code != wanted:
                bad.append(f"{name}: {code}, not {wanted}\n{out}")
    for text in MALFORMED:
        code, out = judge(program, text)
        if code != 2:
            bad.append(f"malformed line taken: {text}\n{out}")
    code, _ = judge(program, WRONG["a durable write is lost"].replace(" dur=all", ""), "--keeps",
                    "none")
    if code != 0:
        bad.append("--keeps none")
    spoiled = 0
    for seed in range(100):
        rng = random.Random(seed)
        ops = drawn(rng)
        code, out = judge(program, "\n".join(" ".join(map(str, o)) for o in ops))
        if code != 0:
            bad.append(f"drawn history of seed {seed}: {out}")
        wrong = spoil(rng, ops)
        if wrong:
            spoiled += 1
            code, out = judge(program, "\n".join(" ".join(map(str, o)) for o in wrong))
            if code != 1:
                bad.append(f"spoiled history of seed {seed} passes: {out}")
    if spoiled < 50:
        bad.append(f"only {spoiled} histories were spoiled")
    for b in bad:
        print("FAILED", b)
    if bad:
        sys.exit(1)
    print(f"{len(RIGHT) + len(WRONG) + len(MALFORMED)} histories by hand, 100 drawn, "
          f"{spoiled} spoiled: passed")


if __name__ == "__main__":
    main()
