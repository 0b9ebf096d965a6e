#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Bugs put into copies of MINOS-O's two halves, each of which the explorer must find.

    ddpnic_mutate.py [--cc CC] [FILTER]

(ctest -R ddpnic_mutants -V runs it.) Prints a table: the bug, what was violated, the length of the
shrunk script. Exit code 1 when a bug was not found in so few steps, or no longer applies.
"""
import os
import re
import shutil
import subprocess
import sys
import tempfile

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.realpath(__file__))))
SYNCH, STRICT, RENF, EVENT, SCOPE = ("model %d" % m for m in range(1, 6))
TWO = " writes 2 fold 73"
CRASH = " nodes 3 writes 1 crashes 1 locks 1 fold 73 live 1"
STEPS_MAX = 40

# name, file, text, what instead, scope
MUTATIONS = [
    ("H1 H2 a version from volatileTS alone", "ddpnic_priv.h",
     "    return ddpnic_top(l);\n}\n\n/* model.c */", "    return l->vts;\n}\n\n/* model.c */",
     SYNCH + TWO),
    ("H1 the word forgets its timestamp with the lock", "ddpnic.c", "r->line.word = top;",
     "r->line.word = 0;", SYNCH + TWO),
    ("the host does not lock", "table.c", "l->word = ts | SNIC_DDPNIC__LOCK;",
     "l->word = ts | (l->word & SNIC_DDPNIC__LOCK);", SYNCH + TWO),
    ("H3 an INV of the present value locks again", "follow.c", "d->counters.duplicate++;",
     "r->rel = 0;\n        r->line.word = ddpnic_top(&r->line) | SNIC_DDPNIC__LOCK;",
     SYNCH + " writes 1 doubles 1 losses 1 resends 1 locks 1 live 1"),
    ("H4 no replay", "coord.c",
     "    if (!ddpnic_watch_needed(d, r))\n        return;\n",
     "    if (r != NULL)\n        return;\n",
     SYNCH + CRASH),
    ("H5 Strict: no replay for a lost VAL_P", "model.c", ".watch_gd = 1,\n", "\n",
     STRICT + CRASH),
    ("H6 an older VAL takes back a newer one's leave to unlock", "follow.c",
     "snic_max_u64(r->rel, m->ts);", "m->ts;", EVENT + TWO + " live 1"),
    ("H6 gD is assigned", "follow.c", "snic_max_u64(r->line.gd, m->ts);", "m->ts;",
     SYNCH + TWO + " live 1"),
    ("H10 REnf does not wait for its own dFIFO", "model.c",
     "[SNIC_DDP_RENF] = {.release = C | P | F,", "[SNIC_DDP_RENF] = {.release = C | P,",
     RENF + " writes 1"),
    ("Synch lets read before its own dFIFO (spec 1.3's row)", "model.c",
     "[SNIC_DDP_SYNCH] = {.release = C | P | F,", "[SNIC_DDP_SYNCH] = {.release = C | P,",
     SYNCH + " writes 1"),
    ("Synch sends VAL before its own dFIFO", "model.c",
     ".val = C | P | F | D,\n                        .val_type",
     ".val = C | P | D,\n                        .val_type", SYNCH + " writes 1"),
    ("Synch answers before its own dFIFO", "model.c", ".answer = C | P | V | F,",
     ".answer = C | P | V,", SYNCH + " writes 1"),
    ("Strict answers at ACK_C", "model.c", ".answer = C | P | F,", ".answer = C,",
     STRICT + " writes 1"),
    ("the host is answered at the first ACK", "coord.c",
     "    int last = (others & ~acked) == 0;", "    int last = others == 0 || acked != 0;",
     EVENT + " nodes 3 writes 1"),
    ("gV does not wait for the own vFIFO", "model.c",
     "[SNIC_DDP_EVENT] = {.release = C,\n                        .gv = C | V,",
     "[SNIC_DDP_EVENT] = {.release = C,\n                        .gv = C,",
     EVENT + " writes 2 flags 1"),
    ("ACK before the dFIFO has it", "follow.c", "r->dts >= a->ts :", "r->vin >= a->ts :",
     SYNCH + " writes 1"),
    ("ACK_C before the vFIFO has it", "follow.c", "r->vin >= a->ts :", "r->enq >= a->ts :",
     EVENT + " writes 1"),
    ("ACKs are not counted by node", "coord.c", "w->ack_c |= ddp_bit(m->src);",
     "w->ack_c |= d->common.others;", STRICT + " nodes 3 writes 1"),
    ("unlocked before it is drained", "ddpnic.c", "r->rel < top || r->out < top)", "r->rel < top)",
     SYNCH + " writes 1"),
    ("VAL unlocks whatever is there", "follow.c", "r->rel = snic_max_u64(r->rel, m->ts);",
     "r->rel = r->enq;", SYNCH + TWO),
    ("an overtaken write is answered at once", "coord.c",
     "    if (l->gv < w->tau || (d->rules.short_gd && l->gd < w->tau))\n        return;\n",
     "    (void)l;\n", EVENT + " nodes 3 writes 2 fold 75"),
    ("Strict: an overtaken write does not wait for gD", "model.c",
     ".watch_gd = 1,\n                         .short_gd = 1},", ".watch_gd = 1},", STRICT + TWO),
    ("the NIC does not look again whether a write is obsolete", "coord.c",
     "    if (m->ts > r->enq) {\n        struct", "    if (1) {\n        struct", SYNCH + TWO),
    ("A12 a replay takes the value from the cache only", "fifo.c",
     "return r->vlast != SNIC_DDP__NIL ? r->vlast : r->line.cache;",
     "return r->line.cache != SNIC_DDP__NIL ? r->line.cache : r->vlast;",
     SYNCH + " writes 2 crashes 1 locks 1 fold 73"),
    ("a crash: what is in the dFIFO is forgotten", "ddpnic.c",
     "if ((t->flags & DDPNIC_I_DIN) == 0)\n            continue;",
     "if ((t->flags & DDPNIC_I_DIN) == 0 || t->ts != 0)\n            continue;",
     SYNCH + " writes 1 fold 64"),
    ("the dFIFO's slot is not freed", "fifo.c", "    d->nic.dfifo--;\n", "",
     SYNCH + " writes 2 fifo 1"),
    ("a new epoch: INV is not sent again", "epoch.c",
     "        ddpnic_write_invalidate(d, w, (uint16_t)(ddpnic_write_missing(d, w) & w->sent));",
     "        (void)w;", SYNCH + " nodes 3 writes 1 evictions 1 live 1 fold 75"),
    ("a new epoch: the dead are waited for", "epoch.c", "c->others = (uint16_t)(c->full & ~me);",
     "c->others |= (uint16_t)(c->full & ~me);", SYNCH + CRASH),
    ("A7 a marker does not wait for the stores before it", "scope.c", "t->seq <= a->ts;",
     "t->seq <= a->ts && t->seq == 0;", SCOPE + " writes 1"),
    ("A7 the host does not wait for the scope's writes", "host.c",
     "DDPNIC_S_SYNC || s->writes != 0)", "DDPNIC_S_SYNC)", SCOPE + " writes 1"),
]


def build(cc, folder, engine, objects):
    flags = ["-std=gnu11", "-O1", "-I" + folder, f"-I{ROOT}/tests", f"-I{ROOT}/include",
             f"-I{ROOT}/lib"]
    program = f"{folder}/explore"
    r = subprocess.run([cc, *flags, engine, *objects, "-o", program, "-lpthread"],
                       capture_output=True, text=True, check=False)
    return program if r.returncode == 0 else r.stderr


def try_one(cc, top, objects, m):
    _, file, old, new, scope = m
    folder = tempfile.mkdtemp(dir=top)
    shutil.copytree(f"{ROOT}/lib/ddpnic", f"{folder}/ddpnic")
    with open(f"{folder}/ddpnic/{file}", encoding="utf-8") as f:
        text = f.read()
    if text.count(old) != 1:
        return f"does not apply: {text.count(old)} places"
    with open(f"{folder}/ddpnic/{file}", "w", encoding="utf-8") as f:
        f.write(text.replace(old, new))
    # A copy, so that "ddpnic/..." is the mutated one for it and for what that includes.
    engine = f"{folder}/ddpnic_engine.c"
    shutil.copy(f"{ROOT}/tests/mc/ddpnic_engine.c", engine)
    program = build(cc, folder, engine, objects)
    if not program.startswith(folder):
        return "does not compile: " + program[:300]
    try:
        r = subprocess.run([program, *scope.split()], capture_output=True, text=True, check=False,
                           timeout=600)
    except subprocess.TimeoutExpired:
        return "NOT FOUND in time"
    shutil.rmtree(folder)
    found = re.search(r"^ddpnic: (.*), after (\d+) steps(.*)$", r.stdout, re.M)
    if not found or int(found.group(2)) > STEPS_MAX:
        return "NOT FOUND " + r.stdout[-200:] + r.stderr[-200:]
    return f"{found.group(1)} ({found.group(2)} steps{found.group(3)})"


def main():
    args = sys.argv[1:]
    cc = args[args.index("--cc") + 1] if "--cc" in args else "cc"
    word = args[-1] if args and args[-1] != cc else ""
    chosen = [m for m in MUTATIONS if word in m[0]]
    if not word and os.environ.get("SNIC_NIGHTLY", "") in ("", "0") and "SNIC_TURN" in os.environ:
        chosen = chosen[int(os.environ["SNIC_TURN"] or 0) % 2::2]  # by day every other one
    top = tempfile.mkdtemp(prefix="ddpnic_mutate_")
    bad = 0
    try:
        objects = []
        mine = ["mc.c", "mc_table.c", "mc_front.c", "mc_script.c", "mc_intern.c", "ddpnic_node.c",
                "ddpnic_space.c", "ddpnic_print.c", "ddpnic_world.c", "ddpnic_env.c",
                "ddpnic_check.c", "ddpnic_explore.c"]
        sources = [f"{ROOT}/tests/mc/{n}" for n in mine]
        sources += [f"{ROOT}/lib/base/{n}" for n in sorted(os.listdir(f"{ROOT}/lib/base"))
                    if n.endswith(".c")]
        for s in sources:
            o = f"{top}/{os.path.basename(s)}.o"
            subprocess.run([cc, "-std=gnu11", "-O2", f"-I{ROOT}/tests", f"-I{ROOT}/include",
                            f"-I{ROOT}/lib", "-c", s, "-o", o], check=True)
            objects.append(o)
        for m in chosen:
            verdict = try_one(cc, top, objects, m)
            bad += verdict.startswith(("NOT", "does"))
            print(f"{m[0]:58} {verdict}", flush=True)
    finally:
        shutil.rmtree(top)
    print(f"{len(chosen)} of {len(MUTATIONS)} bugs tried, {bad} not found")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
