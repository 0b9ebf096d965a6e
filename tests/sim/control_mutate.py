#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Bugs put into copies of the control plane, each of which a test must find.

    control_mutate.py [--cc CC] --lib SUPPORT.a --lib SNICSTORE.a [FILTER]

(ctest -R control_mutants -V has the libraries.) A bug is text of a source and what stands there
instead; the test named beside it is then expected to fail. Exit code 1 when one passed, or when
its text is not in the source any more.
"""
import argparse
import os
import re
import shutil
import subprocess
import sys
import tempfile

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.realpath(__file__))))
CRASH, SIM, ALL = "test_control_crash.c", "test_control_sim.c", "test_control.c"
EDGES = "test_control_edges.c"
AWAY = "test_control_away.c"
LIMITS = "test_control_limits.c"
NUMBERS = "test_control_numbers.c"
THIN = "test_control_thin.c"
AUTH = "test_control_auth.c"
FAIR = "test_control_fair.c"

# name, file, text (any white space for white space), what instead, test, its filter
MUTATIONS = [
    ("one connection's messages all have their turn", "stream.c", "s->left -= n > 0;", "", FAIR,
     "*take_turns*"),
    ("one session has all ops", "op.c", "whose->ops >= c->o.ops_max - c->stats.ops", "0", FAIR,
     "*shared*"),
    ("a message's seal is not compared", "auth.c",
     "return control_auth_same(tag, message + size, SNIC_CONTROL__SEAL) ? 0 : SNIC_EACCES;",
     "return 0;", AUTH, "*sealed*"),
    ("a client is granted any disk", "guest.c", "if (rights == 0) { /* where",
     "if (d == NULL) { /*", AUTH, "*disks_alone*"),
    ("who may only read fences who writes", "guest.c",
     "if ((rights & SNIC_EBS_MAY_WRITE) == 0 && d->held", "if (0 && d->held", AUTH, "*reader*"),
    ("a client's key is an operator's", "ctl.c",
     "role == SNIC_CONTROL_CLIENT || s->s.auth.account == 0", "1", AUTH, "*strangers*"),
    ("any lease can be resumed", "guest.c", "|| d->account != s->s.auth.account", "", AUTH,
     "*its_holders*"),
    ("tokens are not renewed", "client.c", "control_client_renew(c, now);", "", AUTH, "*renewed*"),
    ("who is not on the list any more keeps its lease", "ctl.c",
     "(void)control_attach(c, NULL, 0, d);", "(void)d;", AUTH, "*revoked*"),
    ("what needs no place is placed", "guest.c",
     "(m->item[i].status != 0 || (control_rights", "(0 || (control_rights", THIN,
     "*until_it_is_written*"),
    ("nowhere is for ever", "want.c", "last ? w->last.ns : w->first.ns", "UINT64_MAX / 2", THIN,
     "*late_answer*"),
    ("who was given up gets a place", "want.c", "(waits & SNIC_EBS_WAITS_PLACE) != 0",
     "waits != SNIC_EBS_WAITS_HOLE", THIN, "*given_up*"),
    ("what needs no place waits with a write", "want.c", "if (waits != SNIC_EBS_WAITS_PLACE)",
     "if ((waits & SNIC_EBS_WAITS_PLACE) == 0)", ALL, "*without_room*"),
    ("a full store is waited for", "client.c", "if (it->status == SNIC_ENOSPC) {", "if (0) {",
     ALL, "*without_room*"),
    ("a server that may come back has no room", "op.c",
     "if (op->to == SNIC_CONTROL__NIL) return control_no_room(c);",
     "if (op->to == SNIC_CONTROL__NIL) return SNIC_ENOSPC;", ALL, "*without_room*"),
    ("the server used last gives back its number", "client.c", "if (is.used_ns >= least)",
     "if (is.used_ns <= least && least != UINT64_MAX)", NUMBERS, "*least_recent*"),
    ("a verdict is taken out of turn", "agent.c", "a->sweep_op == 0 && !a->claim_due)",
     "a->sweep_op == 0)", EDGES, "*before_the_claim*"),
    ("a name may go on behind its end", "recover.c", "!control_found_name(d->name)",
     "!snic_control_name_ok(d->name)", EDGES, "*goes_on*"),
    ("answers leave before they are durable", "ctl.c",
     "if (control_stream_send(&s->s, m, s->c->position)", "if (control_stream_send(&s->s, m, 0)",
     CRASH, "*keeps_none*"),
    ("a lease is granted without raising generations", "op.c",
     "if (c->nodes[i].state != CONTROL_DOWN) (void)control_command(c, i, c->nodes",
     "if (c->nodes[i].state == 99) (void)control_command(c, i, c->nodes",
     ALL, "*late_writes*"),
    ("who registers is asked for an answer", "op.c",
     "c->nodes[i].state == CONTROL_READY ? op : NULL", "op", EDGES, "*lease_ends_while*"),
    ("who registers obeys at once", "obey.c", "a->state < CONTROL_AGENT_CATCHING_UP ||", "",
     EDGES, "*lease_ends_while*"),
    ("a disk is created with whatever limits", "desk.c",
     "!control_qos_ok(&m->qos)) return SNIC_EINVAL; if (m->bytes >",
     "0) return SNIC_EINVAL; if (m->bytes >", EDGES, "*limits_out_of_range*"),
    ("a disk is given whatever limits", "desk.c",
     "if (!control_qos_ok(&to)) return SNIC_EINVAL;", "", EDGES, "*limits_out_of_range*"),
    ("a disk that no client can open is made", "desk.c",
     "if (m->bytes > SNIC_VOLUME_DISK_BYTES_MAX) return SNIC_EFBIG;", "", EDGES, "*too_large*"),
    ("a limit that is kept is set", "desk.c", "value == SNIC_CONTROL_KEEP ? old : value",
     "value == SNIC_CONTROL_KEEP ? 0 : value", EDGES, "*limit_that_is_kept*"),
    ("what the volume refuses is told", "client.c", "if (r != 0 && r != SNIC_ENOENT) {",
     "if (r != 0 && r != SNIC_ENOENT && r != SNIC_EINVAL) {", EDGES, "*volume_refuses*"),
    ("a lease is granted before servers have answered", "op.c",
     "if (op->awaited == 0) control_attached(c, op); return 0;",
     "memset(op->await, 0, sizeof(op->await)); op->awaited = 0; control_attached(c, op); return 0;",
     ALL, "*late_writes*"),
    ("a segment moves without a fence", "move.c", "op->state++;",
     "op->state++; if (op->state == CONTROL_SEAL) op->state = CONTROL_OPEN;", SIM, "*many*"),
    ("what is written while it is copied is not copied", "move.c",
     "op->state++;", "op->state++; if (op->state == CONTROL_LAST) op->state++;", SIM, "*many*"),
    ("a sealed segment is told", "guest.c", "g->state != CONTROL_PLACED || g->sealed ||",
     "g->state != CONTROL_PLACED ||", SIM, "*many*"),
    ("the new place is told, and not recorded", "move.c",
     "g->server = op->to; int r = control_put_seg(c, g);", "g->server = op->to; int r = 0;",
     CRASH, "*catalog_killed*"),
    ("a place is told, and not recorded", "op.c",
     "int r = control_put_seg(c, g); if (r == SNIC_EAGAIN)", "int r = 0; if (r == SNIC_EAGAIN)",
     CRASH, "*catalog_killed*"),
    ("what the catalog does not place stays", "node.c", "it->status = SNIC_ENOENT;", ";",
     CRASH, "*catalog_killed*"),
    ("a server that was away keeps old generations", "node.c",
     "it->gen = control_seg_gen(d, g);", "it->gen = 1;", ALL, "*away*"),
    ("a lease is not counted on in the log", "op.c",
     "s->s.auth.account : 0; int r = control_put_disk(c, d);",
     "s->s.auth.account : 0; int r = 0;", CRASH, "*catalog_killed*"),
    ("what a client knows is not told again", "guest.c", "return out->gen >= too_old;",
     "return out->gen > too_old;", ALL, "*told_again*"),
    ("what was replaced comes back", "ctl.c", "if (r == 0) r = control_put_half_gone(c);", "", ALL,
     "*replaced*"),
    ("versions do not begin again", "pull.c", "x->wver = 1;", ";", ALL, "*used_up*"),
    ("leases wrap", "op.c",
     "if (d->lease >= SNIC_CONTROL_LEASE_MAX + (client ? 0 : 1)) return SNIC_EOVERFLOW;",
     "if (d->lease >= SNIC_CONTROL_LEASE_MAX + (client ? 0 : 1)) d->lease = 0;", ALL, "*used_up*"),
    ("what is copied takes the place of what is newer", "pull.c",
     "x->wver = snic_get_le64(b + 8);",
     "x->wver = snic_get_le64(b + 8) + (p->gen != 0 ? UINT64_C(1) << 40 : 0);", SIM, "*many*"),
    ("the old log's records win", "recover.c", "if (d != NULL && r->ts < d->ts) return 0;",
     "if (d != NULL) return 0;", ALL, "*the_catalog_died*"),
    ("a client asks as often as at first", "want.c",
     "uint64_t pause = c->o.retry_ns << w->asks;", "uint64_t pause = c->o.retry_ns;",
     AWAY, "*seldom*"),
    ("no number is given back", "client.c",
     "if (r != 0 && r != SNIC_ENOENT) continue;", "if (r != 1) continue;", NUMBERS, "*rounds*"),
    ("who gave its number back has it still", "client.c",
     "c->server[k].number = SNIC_CONTROL__NIL;", ";", NUMBERS, "*rounds*"),
    ("no number is given back where segments are", "client.c",
     "for (int with = 0; with <= (forget != 0); with++) {",
     "for (int with = 0; with < 1; with++) {", NUMBERS, "*more_servers*"),
    ("a client takes a server's session", "crowd.c", "c->o.sessions_max / 2", "0", LIMITS,
     "*sessions_used_up*"),
    ("who finds no session does not hear why", "ctl.c", "control_crowd_accept(c, n);",
     "snic_net_abort(n);", LIMITS, "*session*"),
    ("a server without room to copy from is away", "pull.c", "full ? SNIC_EAGAIN :", "", LIMITS,
     "*fifth_copy*"),
    ("a server that does nothing is waited for", "op.c",
     "#define SNIC_CONTROL__COMMAND_NS UINT64_C(10000000000)",
     "#define SNIC_CONTROL__COMMAND_NS UINT64_C(99000000000)", LIMITS, "*does_nothing*"),
    ("a store goes to an older state of its catalog", "agent.c",
     "r = SNIC_ESTALE; /* an older", "r = 0; /* an older", ALL, "*another_catalog*"),
]


def apply(text, old, new):
    pattern = r"\s+".join(re.escape(w) for w in old.split())
    return re.sub(pattern, lambda _: new, text, count=1) if re.search(pattern, text) else None


def try_one(cc, top, libs, m):
    _, file, old, new, test, which = m
    folder = tempfile.mkdtemp(dir=top)
    shutil.copytree(f"{ROOT}/lib/control", f"{folder}/control")
    with open(f"{folder}/control/{file}", encoding="utf-8") as f:
        text = apply(f.read(), old, new)
    if text is None:
        return "DOES NOT APPLY"
    with open(f"{folder}/control/{file}", "w", encoding="utf-8") as f:
        f.write(text)
    sources = [f"{folder}/control/{n}" for n in sorted(os.listdir(f"{folder}/control"))
               if n.endswith(".c")]
    sources += [f"{ROOT}/tests/{n}" for n in (test, "support/ctlfix.c", "support/ctlguest.c",
                                         "sim/solar_cipher.c")]
    flags = ["-D_GNU_SOURCE", "-std=gnu11", "-O1", "-w"]
    flags += [f"-I{d}" for d in (folder, f"{ROOT}/lib", f"{ROOT}/include",
                                 f"{ROOT}/tests", f"{ROOT}/tests/support")]
    r = subprocess.run([cc, *flags, *sources, *libs, "-o", f"{folder}/test", "-lcmocka",
                        "-lpthread"], capture_output=True, text=True, check=False)
    if r.returncode != 0:
        return "DOES NOT COMPILE: " + r.stderr[:300]
    try:
        r = subprocess.run([f"{folder}/test", which], capture_output=True, text=True,
                           check=False, timeout=300)
    except subprocess.TimeoutExpired:
        return "found: no end"
    shutil.rmtree(folder)
    said = re.search(r"(?:clients \d+:|ERROR +\] ---|run test:) (.+)$", r.stdout + r.stderr, re.M)
    if r.returncode in (0, 77):
        return "NOT FOUND"
    return "found: " + (said.group(1) if said else f"exit code {r.returncode}")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--cc", default="cc")
    parser.add_argument("--lib", action="append", required=True,
                        help="what to link, in this order")
    parser.add_argument("filter", nargs="?", default="")
    a = parser.parse_args()
    bad = 0
    chosen = [m for m in MUTATIONS if a.filter in m[0]]
    with tempfile.TemporaryDirectory(prefix="mutate_") as top:
        for m in chosen:
            verdict = try_one(a.cc, top, a.lib, m)
            bad += not verdict.startswith("found")
            print(f"{m[0]:50} {verdict}", flush=True)
    print(f"{len(chosen)} bugs tried, {bad} not found")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
