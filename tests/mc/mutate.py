#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Bugs put into copies of the replication engine, each of which the explorer must find.

    mutate.py [--day] [--jobs N] [--cc CC] --lib EXPLORER.a --lib SNICSTORE.a [FILTER]

(ctest -R ddp_mutants -V has the libraries.) Prints a table: the bug, the length of the shrunk
script, how many states were seen until then, what was violated. A bug is text of the engine and
what stands there instead. Exit code 1 when one was not found in so few steps, or when its text is
not in the engine any more.
"""
import argparse
import concurrent.futures
import os
import re
import shutil
import subprocess
import sys
import tempfile

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.realpath(__file__))))
SYNCH, STRICT, RENF, EVENT, SCOPE = ("model %d" % m for m in range(1, 6))
CRASH = "nodes 3 writes 1 crashes 1 locks 1"
DAY = True
STEPS_MAX = 40

# Not here, since no promise breaks without it:
# - "a new epoch: VAL is not sent again" (DDP_W_VAL kept). A write that is still there after its VAL
#   is one of Strict before VAL_P, or a question of a swap. VAL_P has all that VAL_C has;
#   the swap itself is validated in the end. Reads wait longer, none for ever.
# - "a tombstone is purged before it is durable here" (r->dts < ts in ddp_purge_may). In the models
#   that wait for the log no write ends before; in Event and Scope a deletion that was not synced
#   may be lost, and is.

# name, file, text (any white space for white space), what instead, scope, by day too
MUTATIONS = [
    ("H1 version from the lock's base only", "write.c", "snic_ddp_ts_version(base) : 0;",
     "0 * snic_ddp_ts_version(base) : 0;", SYNCH + " writes 2"),
    ("H2 two writes get one timestamp", "write.c", "ddp_next_ts(d, r, 2); uint32_t",
     "snic_ddp_ts(d->epoch, 2, d->o.node); uint32_t", SYNCH + " writes 2"),
    ("H3 an INV of the present value locks again", "follow.c", "d->counters.duplicate++;",
     "r->rd = r->vts;", SYNCH + " writes 1 doubles 1 live 1"),
    ("H4 no replay", "replay.c", "if (may && d->role", "if (0 && may && d->role",
     SYNCH + " " + CRASH, DAY),
    ("H5 Strict: no query for a lost VAL_P", "model.c", ".watch_gd = 1", ".watch_gd = 0",
     STRICT + " " + CRASH + " live 1"),
    ("H6 gV is assigned", "follow.c", "r->gv = snic_max_u64(r->gv, m->ts);", "r->gv = m->ts;",
     STRICT + " writes 2 live 1"),
    ("H6 gD is assigned", "follow.c", "r->gd = snic_max_u64(r->gd, m->ts);", "r->gd = m->ts;",
     SYNCH + " writes 2 live 1"),
    ("H7 who is parked waits for newer and newer writes", "follow.c",
     "int c = a->tau == 0 || r->gv >= a->tau;", "int c = a->tau == 0 || r->gv >= r->vts;",
     STRICT + " paper 1 nodes 3 writes 3"),
    ("H10 REnf does not wait for its own log", "model.c",
     "[SNIC_DDP_RENF] = {.release = C | P | L,", "[SNIC_DDP_RENF] = {.release = C | P,",
     RENF + " writes 1", DAY),
    ("Synch answers before all is durable", "model.c",
     ".answer = C | P | L, .all = C | P | L, .acks = DDP_ONE",
     ".answer = C | P, .all = C | P | L, .acks = DDP_ONE", SYNCH + " writes 1"),
    ("Strict answers before all is durable", "model.c",
     ".answer = C | P | L, .all = C | P | L, .acks = DDP_SPLIT, .watch_gd",
     ".answer = C, .all = C | P | L, .acks = DDP_SPLIT, .watch_gd", STRICT + " writes 1"),
    ("REnf answers at once", "model.c", ".answer = C, .all = C | P | L",
     ".answer = 0, .all = C | P | L", RENF + " writes 1"),
    ("Event unlocks at once", "model.c", "[SNIC_DDP_EVENT] = {.release = C,",
     "[SNIC_DDP_EVENT] = {.release = 0,", EVENT + " writes 1"),
    ("VAL without an INV that was answered", "model.c",
     ".gd = C | P | L, .val = C, .val_type = SNIC_DDP_VAL_C",
     ".gd = C | P | L, .val = 0, .val_type = SNIC_DDP_VAL_C", STRICT + " nodes 3 writes 1"),
    ("an older INV overwrites", "follow.c",
     "ddp_follow_probe(d, r, m); if (r != NULL && m->ts <= r->vts)",
     "ddp_follow_probe(d, r, m);\n    if (r != NULL && m->ts == r->vts)", SYNCH + " writes 2"),
    ("a follower does not lock", "follow.c",
     "value.flags |= SNIC_DDP_MSG_LOCKED;", "",
     SYNCH + " nodes 3 writes 1"),
    ("ACK before it is durable", "follow.c",
     "if (r->dts >= m->ts || u->acks == DDP_C_ONLY)", "if (u->acks <= DDP_C_ONLY)",
     SYNCH + " writes 1"),
    ("what is older is durable, so all is", "follow.c", "r->dts = ev->ts;", "r->dts = r->vts;",
     SYNCH + " writes 2"),
    ("VAL unlocks whatever is there", "follow.c", "ddp_unlock(d, r, m->ts);",
     "ddp_unlock(d, r, r->rd);", SYNCH + " writes 2"),
    ("H19 messages of another epoch are taken", "core.c", "(m->epoch != epoch || ", "(",
     SYNCH + " " + CRASH),
    ("H26 A1 timestamps without their epoch", "write.c",
     "return snic_ddp_ts(d->epoch, version", "return snic_ddp_ts(1, version",
     SYNCH + " writes 2 evictions 1 locks 1", DAY),
    ("A1 version before epoch", "ddp.h", "return (uint64_t)epoch << 42 | version << 4 | node;",
     "return version << 26 | (uint64_t)epoch << 4 | node;",
     SYNCH + " writes 2 evictions 1 locks 1"),
    ("ACKs of a write are not counted by node", "write.c", "w->ack_c |= ddp_bit(m->src);",
     "w->ack_c |= d->others;", STRICT + " nodes 3 writes 1"),
    ("A5 QUERY is answered as if all were done", "write.c",
     "if ((u->val_durable ? r->gd : r->gv) >= ts)", "if (ts != 0)",
     SYNCH + " writes 1 locks 1", DAY),
    ("A5 QUERY of a durable model looks at gV", "write.c",
     "if ((u->val_durable ? r->gd : r->gv) >= ts)", "if (r->gv >= ts)",
     RENF + " writes 1 locks 1"),
    ("a new epoch: INV is not sent again", "epoch.c",
     "ddp_write_invalidate(d, w, ddp_write_missing(d, w));", "",
     SYNCH + " nodes 3 writes 1 evictions 1 live 1"),
    ("a new epoch: ACKs of another incarnation count", "epoch.c",
     "v->incarnation[n] == d->incarnation[n])", "v->incarnation[n] != 0)",
     EVENT + " nodes 3 writes 1 crashes 1 rejoins 1"),
    ("a new epoch: what followers owe stays", "epoch.c", "ddp_epoch_drop_waits(d);", "",
     SYNCH + " nodes 3 writes 1 evictions 1"),
    ("a new epoch: nodes that left are waited for", "epoch.c",
     "d->others = (uint16_t)(members & ~ddp_bit(d->o.node));",
     "d->others |= (uint16_t)(members & ~ddp_bit(d->o.node));",
     SYNCH + " nodes 3 writes 1 evictions 1 live 1"),
    ("A7 H12 [PERSIST]sc is acknowledged at once", "scope.c",
     "ddp_flush(d, SNIC_DDP__ID_WAIT | n);",
     "ddp_flush(d, SNIC_DDP__ID_WAIT | n);\n"
     "    struct snic_ddp_msg *k =\n"
     "        ddp_send(d, SNIC_DDP_PERSIST_ACK, ddp_bit(m->src), &m->key, 0);\n"
     "    k->scope = m->scope;\n    k->index = m->index;",
     SCOPE + " writes 1"),
    ("A7 [PERSIST]sc does not wait for its own flush", "scope.c",
     "(s->flags & DDP_S_FLUSHED) == 0 || ", "", SCOPE + " writes 1"),
    ("H13 [PERSIST]sc overtakes its writes", "scope.c", "|| s->writes != 0 ||", "||",
     SCOPE + " writes 1", DAY),
    ("A11 an older swap is acknowledged", "follow.c",
     "ddp_cas_refuse(d, r, m);", "ddp_follow_ack(d, r, m);", SYNCH + " writes 2 swaps 1", DAY),
    ("A11 no second round", "cas.c",
     "ddp_write_invalidate(d, w, d->others); ddp_dirty(d, r); return 0;",
     "w->ack_c = w->ack_p = d->others; ddp_dirty(d, r); return 0;", SYNCH + " writes 2 swaps 1"),
    ("A11 any old ACK settles a swap", "write.c",
     "((m->flags & SNIC_DDP_MSG_CAS) == 0 || m->seen[0] != w->floor)", "0",
     SYNCH + " writes 2 swaps 1 doubles 1"),
    ("A11 a donor knows of a swap that it is decided: not heard", "learn.c",
     "if (r->rd == 0 || r->gv >= r->vts)", "if (0)",
     SYNCH + " writes 1 swaps 1 crashes 1 rejoins 1 locks 1"),
    ("A11 a swap outlives another that is stored over it", "flight.c",
     "if (cas != 0 && heir != NULL", "if (0 && heir != NULL", SYNCH + " swaps 2 crashes 1"),
    ("A11 a swap is decided by another node", "replay.c",
     "((r->flags & DDP_R_QUERIED) != 0 && (r->flags & DDP_R_CAS) == 0)",
     "(r->flags & DDP_R_QUERIED) != 0", SYNCH + " writes 1 swaps 1 locks 2"),
    ("A11 the aborter answers while the winner is locked", "ddp.c",
     "for (uint32_t i = r->writes; r->rd == 0 && i != SNIC_DDP__NIL;)",
     "for (uint32_t i = r->writes; i != SNIC_DDP__NIL;)", SYNCH + " writes 1 swaps 1"),
    ("A11 an aborted swap keeps its handle", "flight.c",
     "if ((w->flags & DDP_W_OWNS) != 0) ddp_release(d, w->value);", "",
     SYNCH + " writes 1 swaps 1"),
    ("a new value is not shown", "flight.c", "ddp_changed(d, r, ts, m->value",
     "if (m->value != 2) ddp_changed(d, r, ts, m->value", SYNCH + " writes 2"),
    ("what becomes readable is not shown", "record.c",
     "ddp_changed(d, r, ts, r->value", "if (0) ddp_changed(d, r, ts, r->value",
     SYNCH + " writes 1", DAY),
    ("a purged key is not shown", "record.c", "if (r->vts != 0) ddp_changed",
     "if (0) ddp_changed", SYNCH + " writes 1 deletes 1 live 1"),
    ("what is superseded in flight loses its handle", "flight.c",
     "heir->flags |= DDP_W_OWNS;", "", SYNCH + " writes 2"),
    ("an obsolete INV keeps its handle", "follow.c",
     "SNIC_ASSERT(m->ts <= r->vts); /* H3 */ if ((m->flags & SNIC_DDP_MSG_TOMBSTONE) == 0)",
     "if (m->flags == 255)", SYNCH + " writes 2"),
    ("a read that waits is answered at the next event", "ddp.c",
     "if (r->rd == 0 && ddp_rec_awaited(d, r) && ddp_read_eval(d, r)) return;",
     "ddp_reads_ready(&d->reads, &r->reads, &d->ready);", SYNCH + " writes 2 reads 1"),
    ("a read that waits is answered by a fenced node", "read.c",
     "if (!ddp_lease(d, d->now_ns)) ddp_done(d, q.token, SNIC_ESTALE, NULL);",
     "if (0) ddp_done(d, q.token, SNIC_ESTALE, NULL);",
     SYNCH + " writes 2 reads 1 evictions 1 locks 1", DAY),
    ("an INV that finds no room is acknowledged", "follow.c",
     "if (ddp_follow_full(d, r, m)) return SNIC_EAGAIN;",
     "if (ddp_follow_full(d, r, m)) return ddp_follow_gone(d, m);", SYNCH + " writes 3 waits 2"),
    ("I9 a replay waits for a newer write", "follow.c",
     "(d->o.flags & SNIC_DDP_PAPER) != 0 && (m->flags & SNIC_DDP_MSG_REPLAY) == 0;",
     "(d->o.flags & SNIC_DDP_PAPER) != 0;",
     SYNCH + " paper 1 nodes 3 writes 4 crashes 1 locks 2 room 2 begin full live 1000", DAY),
    ("A2 an INV meets what a learner had before", "record.c",
     "return r != NULL && ddp_is_hint(d, r) ? NULL : r;", "return r;",
     SYNCH + " writes 2 crashes 1 rejoins 1 keeps 1", DAY),
    ("A2 all that a learner had is taken for confirmed", "learn.c",
     "d->hints = d->recs.used;", "d->hints = 0;", SYNCH + " writes 2 crashes 1 rejoins 1 keeps 1"),
    ("ranges with locked records are equal, too", "donor.c",
     "if (x.quiet && x.sum == digest[a->done])", "if (x.sum == digest[a->done])",
     SYNCH + " nodes 3 writes 1 crashes 1 rejoins 1 keeps 1"),
    ("U2 an INV older than a hint: the answer on its way counts", "record.c",
     "ddp_hint_gone(d, hint->hash);", "", SYNCH + " writes 2 crashes 1 rejoins 1 keeps 1"),
    ("U2 an answer to other digests counts", "run.c", "|| run->query != m->key.w[1])", ")",
     SYNCH + " writes 2 crashes 1 rejoins 1 keeps 1 doubles 1 double 16"),
    ("U3 some of the donor's keys are enough", "run.c",
     "return all && sum == 0 && run->state == DDP_RUN_LISTS;",
     "return all && run->state == DDP_RUN_LISTS;", SYNCH + " writes 1 crashes 1 rejoins 1 keeps 1"),
    ("what a donor does not have stays", "run.c", "else ddp_hint_drop(d, r);",
     "else ddp_run_confirm(d, r, 1);", SYNCH + " writes 1 crashes 1 rejoins 1 keeps 1", DAY),
    ("what a donor does not have stays in the log", "record.c",
     "if (ddp_hint_logged(d, r) != 0 || (r->flags & DDP_R_ABOVE) != 0) {", "if (0) {",
     SYNCH + " writes 1 crashes 1 rejoins 1 keeps 1"),
    ("an older record does not replace a newer one in the log", "record.c",
     "a->flags |= SNIC_DDP_REPLACES;", "", SYNCH + " nodes 3 writes 2 crashes 1 rejoins 1 keeps 1"),
    ("an older INV leaves a newer record in the log", "run.c", "ddp_run_void_above(d, r);",
     "r->flags ^= DDP_R_ABOVE;", SYNCH + " writes 2 crashes 1 rejoins 1 keeps 1"),
    ("M2 an older INV makes a newer record in the log void", "record.c",
     "ddp_hint_empty(d, hint, DDP_R_ABOVE);", "ddp_hint_empty(d, hint, DDP_R_REPLACES);",
     SYNCH + " writes 2 crashes 2 rejoins 1 keeps 1 overrides 1", DAY),
    ("M2 a learner begins with an empty log", "learn.c",
     "d->log_void = (flags & SNIC_DDP_RETIRED) != 0;",
     "d->log_void = (flags & SNIC_DDP_RETIRED) != 0;\n"
     "    for (uint32_t i = 0; i < d->recs.high; i++)\n"
     "        while ((ddp_rec_at(d, i)->flags & DDP_R_USED) != 0)\n"
     "            ddp_hint_drop(d, ddp_rec_at(d, i));",
     SYNCH + " writes 1 crashes 2 rejoins 1 keeps 1 overrides 1"),
    ("what a donor has is durable at all members", "run.c", "r->gd = durable ? r->vts : 0;",
     "r->gd = r->vts;", EVENT + " mix 10 writes 1 crashes 1 rejoins 1 keeps 1"),
    ("what the log has taken counts as durable", "learn.c",
     "d->learn = DDP_LEARN_BEGINS; ddp_flush(d, SNIC_DDP__ID_LEARN);", "",
     SYNCH + " nodes 3 writes 1 evictions 1 rejoins 1 keeps 1 locks 1"),
    ("learners are not waited for", "epoch.c", "d->others = (uint16_t)(members &",
     "d->others = (uint16_t)(v->full &", SYNCH + " writes 2 crashes 1 rejoins 1"),
    ("CAUGHT_UP before the flush", "learn.c", "d->learn = DDP_LEARN_FLUSHES;",
     "d->learn = DDP_LEARN_FLUSHES;\n    (void)ddp_act(d, SNIC_DDP_CAUGHT_UP);",
     SYNCH + " writes 2 crashes 1 rejoins 1"),
    ("a learner gets locked keys unlocked", "donor.c",
     "a->flags |= r->rd != 0 ? SNIC_DDP_MSG_LOCKED : 0;", "",
     SYNCH + " writes 2 crashes 1 rejoins 1"),
    ("H25 a donor's record beats a newer one", "learn.c",
     "} else if (r != NULL && !ddp_is_hint(d, r) && r->vts >= m->ts) {",
     "} else if (r != NULL && !ddp_is_hint(d, r) && r->vts == m->ts) {",
     SYNCH + " writes 2 crashes 1 rejoins 1"),
    ("a fenced node still serves", "ddp_priv.h", "return d->serves && now < d->lease_ns;",
     "return 1 || (d->serves && now < d->lease_ns);", SYNCH + " writes 2 evictions 1", DAY),
    ("H18 a restart serves before it is in order", "epoch.c",
     "d->serves = d->role == SNIC_DDP_FULL && d->restart == DDP_RESTART_NOT;",
     "d->serves = d->role == SNIC_DDP_FULL;", SYNCH + " writes 1 restarts 1"),
    ("H18 A6 a restart replays nothing", "restart.c",
     "d->differ |= (uint64_t)1 << m->index;", "", SYNCH + " writes 1 restarts 1", DAY),
    ("H18 a restart does not wait for its replays", "restart.c",
     "if (d->restart_writes != 0) return 0;", "", SYNCH + " writes 1 restarts 1"),
    ("A4 a tombstone is purged unasked", "purge.c", "if (d->others == 0) {", "if (1) {",
     EVENT + " keys 2 writes 1 deletes 1 resends 1", DAY),
    ("A4 older writes in flight do not stop a purge", "purge.c",
     "if ((w->flags & DDP_W_USED) != 0 && w->ts <= ts)", "if (w->flags == 0 && w->ts > ts)",
     EVENT + " keys 2 writes 1 deletes 1 resends 1"),
    ("A4 an acknowledged purge is no promise to number above", "purge.c",
     "d->gen_floor = snic_max_u64(d->gen_floor, m->ts); (void)ddp_send",
     "(void)ddp_send", EVENT + " keys 2 writes 1 deletes 1 resends 1"),
    ("A4 no floor: an old INV brings the key back", "follow.c",
     "if ((r == NULL || r->vts == 0) && m->ts <= d->floor) return ddp_follow_gone(d, m); if (r",
     "if (r == NULL && m->ts == 0)\n        return ddp_follow_gone(d, m);\n    if (r",
     EVENT + " writes 1 deletes 1 resends 1 doubles 1 live 1"),
    ("mix: messages do not carry the rules", "ddp_priv.h",
     "return (uint8_t)(rule != d->o.model ? rule << SNIC_DDP_MSG_RULES : 0);",
     "return (uint8_t)(0 * rule * d->o.model);", EVENT + " writes 1 mix 8 live 1"),
    ("mix: HERE is answered before it is durable here", "model.c", ".answer = C | L,",
     ".answer = C,", EVENT + " writes 1 mix 4", DAY),
    ("mix: an older durable write is acknowledged by the newer one's rules", "follow.c",
     "const struct ddp_rules *u = ddp_rules_msg(d, m); int cas = "
     "(m->flags & SNIC_DDP_MSG_CAS) != 0; const uint8_t one",
     "const struct ddp_rules *u = ddp_rules_at(d, r->flags);\n"
     "    int cas = (m->flags & SNIC_DDP_MSG_CAS) != 0;\n    const uint8_t one",
     EVENT + " writes 2 mix 10", DAY),
    ("mix: PAPER waits until a memory write is durable at all", "follow.c",
     "owes |= DDP_A_LOG;", "owes |= 0;", EVENT + " paper 1 writes 2 mix 10"),
    ("mix: VAL_C is taken for durable", "follow.c",
     "int durable = m->type != SNIC_DDP_VAL_C;", "int durable = m->type != 0;",
     EVENT + " writes 1 mix 2"),
    ("mix: a swap forgets its rules in its second half", "cas.c", "w->flags |= rule;",
     "w->flags |= ddp_rule_flag(SNIC_DDP_EVENT);", EVENT + " writes 0 swaps 1 mix 8"),
    ("mix: a swap that failed is answered with what is not durable", "write.c",
     "if (!ddp_rec_readable(r, (w->flags & DDP_W_DURABLE) != 0)) return;", "",
     EVENT + " writes 1 swaps 1 mix 10"),
    ("read: what is in memory passes for durable", "ddp_priv.h",
     "return r->rd == 0 && (!durable || r->gd >= r->vts);",
     "return r->rd == 0 && (!durable || r->gv >= r->vts);",
     EVENT + " writes 1 mix 2 reads 1 read_mix 8", DAY),
    ("read: Synch does not look at gD", "model.c",
     "return model == SNIC_DDP_SYNCH || model == SNIC_DDP_RENF;",
     "return model == SNIC_DDP_RENF;", SYNCH + " writes 1 mix 2 reads 1 read_mix 1"),
    ("read: nothing is replayed for it", "read.c",
     "(!late && ddp_rules_at(d, r->flags)->gd != DDP_NEVER)", "1",
     EVENT + " writes 1 mix 2 reads 1 read_mix 8 live 10"),
    ("read: its replay does not wait for logs", "read.c",
     "DDP_W_FOR_READ | ddp_rule_flag(SNIC_DDP_SYNCH);",
     "DDP_W_FOR_READ | ddp_rule_flag(SNIC_DDP_EVENT);",
     EVENT + " writes 1 mix 2 reads 1 read_mix 8 live 10"),
    ("read: its replay is evaluated by the next message only", "ddp.c",
     "if (r->rd == 0 && ddp_rec_awaited(d, r) && ddp_read_eval(d, r)) return;",
     "if (r->rd == 0 && ddp_rec_awaited(d, r)) (void)ddp_read_eval(d, r);",
     EVENT + " writes 1 evictions 1 mix 2 reads 1 read_mix 8 live 10"),
    ("read: VAL_P wakes none", "follow.c",
     "if (r->waits != SNIC_DDP__NIL || (durable && ddp_rec_awaited(d, r)))",
     "if (r->waits != SNIC_DDP__NIL)", EVENT + " writes 1 mix 8 reads 1 read_mix 8", DAY),
    ("read: it takes any value that became durable", "read.c", "if (q->ts != w->ts) {",
     "if (q->ts == READ_MEMORY) {", EVENT + " writes 2 mix 2 reads 2 read_mix 8"),
    ("copies: a learner counts", "ddp_priv.h", "uint32_t full = d->full;",
     "uint32_t full = d->full | d->learners;", EVENT + " writes 1 crashes 1 rejoins 1 mix 8"),
    ("copies: those that left meanwhile count", "emit.c",
     "a->result = copies < copies_min ? SNIC_EUNKNOWN : 0;", "a->result = 0 * (int)copies_min;",
     EVENT + " nodes 3 writes 1 evictions 1 mix 8 copies 3", DAY),
    ("copies: too few are noticed at the end", "write.c",
     "if (ddp_copies(d) < ev->copies_min) return SNIC_ENOQUORUM;", "",
     EVENT + " writes 1 evictions 1 mix 2 copies 2"),
    ("received: ACK_C of Synch stands for durable", "write.c",
     "if (m->type != SNIC_DDP_ACK_C) w->ack_p", "w->ack_p", SYNCH + " writes 1 doubles 1"),
    ("received: a probe of a lost INV is acknowledged", "follow.c",
     "(void)ddp_send(d, SNIC_DDP_QUERY, ddp_bit(m->src), &m->key, m->ts); return 0;",
     "ddp_follow_all(d, m); return 0;", SYNCH + " writes 1 large 1 losses 1 resends 1", DAY),
    ("received: a lost INV is not sent again", "replay.c",
     "if (w != NULL && (ddp_write_missing(d, w) & ddp_bit(m->src)) != 0)",
     "if (0)", SYNCH + " writes 1 large 1 losses 1 resends 1 live 10"),
    ("canon: a FLUSH has its number", "canon.c", "ddp_canon_u64(o, kind);",
     "ddp_canon_u64(o, f->id[i]);", SCOPE + " writes 1 crashes 1 rejoins 1 twins 1", DAY),
    ("canon: not who has stored a write", "canon.c", "| (uint64_t)w->ack_c << 16 | w->ack_p",
     "| w->ack_p", STRICT + " nodes 3 writes 1 twins 1"),
    ("canon: not the round of a scope", "canon.c",
     "(uint64_t)s->round << 32 | (uint64_t)s->ack << 8", "(uint64_t)s->ack << 8",
     SCOPE + " writes 2 scopes 2 twins 1"),
    ("canon: not whether a donor has offered", "canon.c", "ddp_canon_u64(o, sum);",
     "ddp_canon_u64(o, 0 * sum);", SYNCH + " writes 2 crashes 1 rejoins 1 keeps 1 twins 1"),
]


def apply(text, old, new):
    """The text with the bug, or None: not exactly one place."""
    place = re.compile(r"\s+".join(re.escape(word) for word in old.split()))
    return place.sub(lambda _: new, text) if len(place.findall(text)) == 1 else None


def source(file):
    return f"{ROOT}/include/snicstore/{file}" if file == "ddp.h" else f"{ROOT}/lib/ddp/{file}"


def build(cc, folder, libs):
    # The engine is a copy, so that "ddp/..." is the mutated one for it and for what that includes.
    shutil.copy(f"{ROOT}/tests/mc/ddp_engine.c", folder)
    flags = ["-std=gnu11", "-O1", f"-I{folder}/include", f"-I{folder}", f"-I{ROOT}/tests",
             f"-I{ROOT}/include", f"-I{ROOT}/lib"]
    return subprocess.run([cc, *flags, f"{folder}/ddp_engine.c", *libs, "-o", f"{folder}/explore",
                           "-lpthread"], capture_output=True, text=True, check=False)


def try_one(cc, top, libs, m):
    _, file, old, new, scope = m[:5]
    folder = tempfile.mkdtemp(dir=top)
    with open(source(file), encoding="utf-8") as f:
        text = apply(f.read(), old, new)
    if text is None:
        return "DOES NOT APPLY"
    shutil.copytree(f"{ROOT}/lib/ddp", f"{folder}/ddp")
    os.makedirs(f"{folder}/include/snicstore")
    to = "include/snicstore" if file == "ddp.h" else "ddp"
    with open(f"{folder}/{to}/{file}", "w", encoding="utf-8") as f:
        f.write(text)
    r = build(cc, folder, libs)
    if r.returncode != 0:
        return "DOES NOT COMPILE: " + r.stderr[:300]
    command = [f"{folder}/explore", "paper", "0", "threads", "1", *scope.split()]
    r = subprocess.run(command, capture_output=True, text=True, check=False)
    shutil.rmtree(folder)
    found = re.search(r"^ddp: (.*), after (\d+) steps(.*)$", r.stdout, re.M)
    states = re.search(r"(\d+) states", r.stdout)
    if not found or int(found.group(2)) > STEPS_MAX:
        return "NOT FOUND " + r.stdout[-200:] + r.stderr[-200:]
    return f"{int(found.group(2)):2}  {int(states.group(1)):9}  {found.group(1)}{found.group(3)}"


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--cc", default="cc")
    parser.add_argument("--lib", action="append", required=True,
                        help="what to link, in this order")
    parser.add_argument("--day", action="store_true", help="a sample, unless SNIC_NIGHTLY is set")
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("filter", nargs="?", default="")
    a = parser.parse_args()
    sample = a.day and os.environ.get("SNIC_NIGHTLY", "") in ("", "0")
    chosen = [m for m in MUTATIONS if a.filter in m[0] and (len(m) > 5 or not sample)]
    if sample and "SNIC_TURN" in os.environ:
        chosen = chosen[int(os.environ["SNIC_TURN"] or 0) % 2::2]  # by day every other one of those
    bad = 0
    for m in MUTATIONS:
        with open(source(m[1]), encoding="utf-8") as f:
            if apply(f.read(), m[2], m[3]) is None:
                print(f"{m[0]:55} does not apply to {m[1]} any more")
                bad += 1
    print(f"{'the bug':55} steps  states  what is violated", flush=True)
    with tempfile.TemporaryDirectory(prefix="mutate_") as top:
        with concurrent.futures.ThreadPoolExecutor(a.jobs) as pool:
            for m, verdict in zip(chosen, pool.map(lambda m: try_one(a.cc, top, a.lib, m), chosen)):
                bad += not verdict.lstrip()[0].isdigit()
                print(f"{m[0]:55} {verdict}", flush=True)
    print(f"{len(chosen)} of {len(MUTATIONS)} bugs tried, {bad} not found")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
