#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Bugs put into copies of the replication engine, each of which the explorer must find.

    mutate.py [--cc CC] [FILTER]

Prints a table: the bug, what was violated, the length of the shrunk script. Exit code 1 when a bug
was not found, or no longer applies.
"""
import os
import re
import shutil
import subprocess
import sys
import tempfile

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.realpath(__file__))))
SYNCH, STRICT, RENF, EVENT, SCOPE = ("model %d" % m for m in range(1, 6))
CRASH = "nodes 3 writes 1 crashes 1 locks 1"

# name, file, text, what instead, scope
MUTATIONS = [
    ("H1 version from the lock's base only", "write.c", "snic_ddp_ts_version(base) : 0;",
     "0 * snic_ddp_ts_version(base) : 0;", SYNCH + " writes 2"),
    ("H2 two writes get one timestamp", "write.c", "ddp_next_ts(d, r, 2);\n    struct",
     "snic_ddp_ts(d->epoch, 2, d->o.node);\n    struct", SYNCH + " writes 2"),
    ("H3 an INV of what is there locks again", "follow.c", "d->counters.duplicate++;",
     "r->rd = r->vts;", SYNCH + " writes 1 doubles 1 live 1"),
    ("H4 no replay", "replay.c", "if (may && d->role", "if (0 && may && d->role",
     SYNCH + " " + CRASH),
    ("H5 Strict: nobody asks for a lost VAL_P", "model.c", ".watch_gd = 1", ".watch_gd = 0",
     STRICT + " " + CRASH + " live 1"),
    ("H6 gV is assigned", "follow.c", "r->gv = snic_max_u64(r->gv, m->ts);", "r->gv = m->ts;",
     STRICT + " writes 2 live 1"),
    ("H6 gD is assigned", "follow.c", "r->gd = snic_max_u64(r->gd, m->ts);", "r->gd = m->ts;",
     SYNCH + " writes 2 live 1"),
    ("H10 REnf does not wait for its own log", "model.c",
     "[SNIC_DDP_RENF] = {.release = C | P | L,", "[SNIC_DDP_RENF] = {.release = C | P,",
     RENF + " writes 1"),
    ("Synch answers before all is durable", "model.c",
     ".answer = C | P | L,\n                        .all = C | P | L,\n"
     "                        .acks = DDP_ONE",
     ".answer = C | P,\n                        .all = C | P | L,\n"
     "                        .acks = DDP_ONE",
     SYNCH + " writes 1"),
    ("Strict answers before all is durable", "model.c",
     ".answer = C | P | L,\n                         .all",
     ".answer = C,\n                         .all", STRICT + " writes 1"),
    ("REnf answers at once", "model.c", ".answer = C,\n                       .all = C | P | L",
     ".answer = 0,\n                       .all = C | P | L", RENF + " writes 1"),
    ("Event unlocks at once", "model.c", "[SNIC_DDP_EVENT] = {.release = C,",
     "[SNIC_DDP_EVENT] = {.release = 0,", EVENT + " writes 1"),
    ("an older INV overwrites", "follow.c", "if (r != NULL && m->ts <= r->vts)",
     "if (r != NULL && m->ts == r->vts)", SYNCH + " writes 2"),
    ("a follower does not lock", "follow.c",
     "SNIC_DDP_MSG_TOMBSTONE)) | SNIC_DDP_MSG_LOCKED)", "SNIC_DDP_MSG_TOMBSTONE)))",
     SYNCH + " nodes 3 writes 1"),
    ("ACK before it is durable", "follow.c", "int durable = r->dts >= m->ts;", "int durable = 1;",
     SYNCH + " writes 1"),
    ("VAL unlocks whatever is there", "follow.c", "ddp_unlock(d, r, m->ts);",
     "ddp_unlock(d, r, r->rd);", SYNCH + " writes 2"),
    ("H19 messages of another epoch are taken", "ddp.c", "(m->epoch != d->epoch || ", "(",
     SYNCH + " " + CRASH),
    ("ACKs of a write are not counted by node", "write.c", "w->ack_c |= ddp_bit(m->src);",
     "w->ack_c |= d->others;", STRICT + " nodes 3 writes 1"),
    ("a new epoch: INV is not said again", "epoch.c",
     "ddp_write_invalidate(d, w, ddp_write_missing(d, w));", "",
     SYNCH + " nodes 3 writes 1 evictions 1 live 1"),
    ("a new epoch: VAL is not said again", "epoch.c",
     "w->flags &= ~(uint32_t)(DDP_W_VAL | DDP_W_VAL_P);", "", STRICT + " " + CRASH + " live 1"),
    ("A7 H12 [PERSIST]sc is acknowledged at once", "scope.c",
     "ddp_flush(d, SNIC_DDP__ID_WAIT | n);",
     "ddp_flush(d, SNIC_DDP__ID_WAIT | n);\n"
     "    ddp_send(d, SNIC_DDP_PERSIST_ACK, ddp_bit(m->src), &m->key, 0)->scope = m->scope;",
     SCOPE + " writes 1"),
    ("A7 [PERSIST]sc does not wait for its own flush", "scope.c",
     "(s->flags & DDP_S_FLUSHED) == 0 || ", "", SCOPE + " writes 1"),
    ("H13 [PERSIST]sc overtakes its writes", "scope.c", "|| s->writes != 0 ||", "||",
     SCOPE + " writes 1"),
    ("A11 an older swap is acknowledged", "follow.c",
     "ddp_cas_refuse(d, r, m);", "ddp_follow_ack(d, r, m);", SYNCH + " writes 1 swaps 1"),
    ("learners are not waited for", "epoch.c", "d->others = (uint16_t)(members &",
     "d->others = (uint16_t)(v->full &", SYNCH + " writes 2 crashes 1 rejoins 1"),
    ("CAUGHT_UP before the flush", "learn.c", "d->learn = DDP_LEARN_FLUSHES;",
     "d->learn = DDP_LEARN_FLUSHES;\n    (void)ddp_act(d, SNIC_DDP_CAUGHT_UP);",
     SYNCH + " writes 2 crashes 1 rejoins 1"),
    ("a fenced node still serves", "ddp_priv.h", "return d->serves && now < d->lease_ns;",
     "return 1 || (d->serves && now < d->lease_ns);", SYNCH + " writes 2 evictions 1"),
    ("H18 a restart serves before it is in order", "epoch.c",
     "d->serves = d->role == SNIC_DDP_FULL && d->restart == DDP_RESTART_NOT;",
     "d->serves = d->role == SNIC_DDP_FULL;", SYNCH + " writes 1 restarts 1"),
    ("A4 a tombstone is purged unasked", "purge.c", "d->purge_ack |= ddp_bit(m->src);",
     "d->purge_ack |= d->others;", SYNCH + " nodes 3 writes 1 deletes 1"),
]


def build(cc, folder, engine, objects):
    flags = ["-std=gnu11", "-O1", "-I" + folder, f"-I{ROOT}/tests", f"-I{ROOT}/include",
             f"-I{ROOT}/lib"]
    program = f"{folder}/explore"
    r = subprocess.run([cc, *flags, engine, *objects, "-o", program, "-lpthread"],
                       capture_output=True, text=True, check=False)
    return program if r.returncode == 0 else r.stderr


def try_one(cc, top, objects, m):
    name, file, old, new, scope = m
    folder = tempfile.mkdtemp(dir=top)
    shutil.copytree(f"{ROOT}/lib/ddp", f"{folder}/ddp")
    with open(f"{folder}/ddp/{file}", encoding="utf-8") as f:
        text = f.read()
    if text.count(old) != 1:
        return f"does not apply: {text.count(old)} places"
    with open(f"{folder}/ddp/{file}", "w", encoding="utf-8") as f:
        f.write(text.replace(old, new))
    # A copy, so that "ddp/..." is the mutated one for it and for what that includes.
    engine = f"{folder}/ddp_engine.c"
    shutil.copy(f"{ROOT}/tests/mc/ddp_engine.c", engine)
    program = build(cc, folder, engine, objects)
    if not program.startswith(folder):
        return "does not compile: " + program[:300]
    best = "NOT FOUND"
    for paper in "0", "1":
        try:
            r = subprocess.run([program, *scope.split(), "paper", paper], capture_output=True,
                               text=True, check=False, timeout=300)
        except subprocess.TimeoutExpired:
            return "NOT FOUND in time"
        found = re.search(r"^ddp: (.*), after (\d+) steps(.*)$", r.stdout, re.M)
        if found:
            return f"{found.group(1)} ({found.group(2)} steps{found.group(3)})"
    return best


def main():
    args = sys.argv[1:]
    cc = args[args.index("--cc") + 1] if "--cc" in args else "cc"
    word = args[-1] if args and args[-1] != cc else ""
    top = tempfile.mkdtemp(prefix="mutate_")
    bad = 0
    try:
        objects = []
        sources = [f"{ROOT}/tests/mc/{n}" for n in sorted(os.listdir(f"{ROOT}/tests/mc"))
                   if n.endswith(".c") and n != "ddp_engine.c"]
        sources += [f"{ROOT}/lib/base/{n}" for n in sorted(os.listdir(f"{ROOT}/lib/base"))
                    if n.endswith(".c")]
        for s in sources:
            o = f"{top}/{os.path.basename(s)}.o"
            subprocess.run([cc, "-std=gnu11", "-O2", f"-I{ROOT}/tests", f"-I{ROOT}/include",
                            f"-I{ROOT}/lib", "-c", s, "-o", o], check=True)
            objects.append(o)
        for m in MUTATIONS:
            if word not in m[0]:
                continue
            verdict = try_one(cc, top, objects, m)
            bad += verdict.startswith(("NOT", "does"))
            print(f"{m[0]:50} {verdict}", flush=True)
    finally:
        shutil.rmtree(top)
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
