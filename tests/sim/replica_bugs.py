# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Bugs of the replicated table's log and node, for mutate.py: what the explorers do not have."""
CLUSTER = ["tests/sim/cluster.c", "tests/sim/cluster_judge.c", "tests/sim/lin.c",
           "tests/sim/lin_search.c"]
WAL = ["tests/support/walfix.c"]
PROGRAMS = {
    "node": ["tests/replica/test_replica.c", *CLUSTER],
    "lasting": ["tests/replica/test_replica_lasting.c", *CLUSTER],
    "lives": ["tests/replica/test_replica_sim.c", "tests/sim/swarm.c", "tests/sim/swarm_hard.c",
              *CLUSTER],
    "log": ["tests/wal/test_wal.c", *WAL],
    "damage": ["tests/wal/test_wal_damage.c", *WAL],
    "power": ["tests/wal/test_wal_power.c", "tests/support/power.c", *WAL],
    "full": ["tests/wal/test_wal_random.c", *WAL],
}
LIVES = ("lives", "*many_runs*")
FORMER = ("lasting", "*former_run*")

# name, file, text, what instead, (program, filter)
BUGS = [
    ("what a learner's donor does not have stays in its log", "lib/replica/log.c",
     "int drops = (a->flags & SNIC_DDP_DROPS) != 0;",
     "int drops = (a->flags & SNIC_DDP_DROPS) != 0; if (drops) return;", FORMER),
    ("M2 a learner's log is retired when it joins", "lib/replica/node.c",
     "if (r->log.gaps || r->log.too_much) {", "if (1) {", ("node", "*rejoins_by_difference*")),
    ("A8 a torn end is no doubt", "lib/wal/recover.c",
     "if (r->torn || wal_recover_rubble(w))", "if (0 && (r->torn || wal_recover_rubble(w)))",
     ("damage", "*anywhere*")),
    ("A8 a log in doubt takes appends", "lib/wal/batch.c",
     "return w->writable ? 0 : SNIC_ECORRUPT;", "return 0;", ("damage", "*anywhere*")),
    ("A8 a node with a log in doubt may restart the others", "lib/replica/log_events.c",
     "report->verdict == SNIC_WAL_CLEAN && !r->log.too_much", "!r->log.too_much",
     ("lasting", "*in_doubt*")),
    ("A9 who lost its file founds again", "lib/replica/node.c",
     "if (!ran && (r->o.flags", "if (record == NULL && (r->o.flags",
     ("node", "*lost_file*")),
    ("A9 a damaged membership file is taken for none", "lib/wal/meta.c",
     "m->state = 2; if (!wal_trusts", "m->state = 0; if (!wal_trusts", ("damage", "*head*")),
    ("A9 one damaged place of the file is not repaired", "lib/wal/meta.c",
     "if (m->state != 1 || (m->good[0] && m->good[1]))", "if (1)", ("damage", "*head*")),
    ("A10 a full log is the end of the node", "lib/replica/log.c",
     "result = replica_log_pass(r);", "replica_fail(r, result);", ("node", "*full_log*")),
    ("A10 a full log takes no deletions", "lib/replica/log.c",
     "return of == REPLICA_ROOM_TOMBSTONE || r->restarts ? 0 : SNIC_ENOSPC;", "return SNIC_ENOSPC;",
     ("node", "*full_log*")),
    ("A10 nothing is kept for tombstones", "lib/replica/log.c",
     "e->flags |= SNIC_WAL_TOMBSTONE; return;", "return;", ("node", "*full_log*")),
    ("H28 compaction keeps nothing", "lib/replica/log.c", "int replica_log_keep("
     "void *ctx, const struct snic_wal_record *rec) {", "int replica_log_keep("
     "void *ctx, const struct snic_wal_record *rec) { if (ctx != NULL && rec != NULL) return 0;",
     ("lasting", "*compaction*")),
    ("durable before the flush", "lib/wal/batch.c", "if (w->fua) wal_batch_durable(w);",
     "if (1) wal_batch_durable(w);", ("power", "*anywhere*")),
    ("a record is durable when it is appended", "lib/replica/log.c",
     "if (e.position > l->durable)", "if (0)", ("lasting", "*all_dark*")),
    ("H29 the chain of checksums is not looked at", "lib/wal/recover.c",
     "int broken = at == w->last_seq + 1 && r->crc_known && rec->prev != w->last_crc;",
     "int broken = 0;", ("damage", "*another_history*")),
    ("compaction frees a segment before its copies are durable", "lib/wal/compact.c",
     "if (w->durable_seq < c->mark)", "if (0)", ("power", "*copying*")),
    ("an older record is copied behind a newer one", "lib/wal/compact.c",
     "if (w->events.keep != NULL && !w->events.keep(w->ctx, &c->rec.r)) {", "if (0) {",
     ("full", "*tombstones*")),
    ("a lease is believed for ever", "lib/replica/node.c",
     "r->lease_ns = a->until_ns;", "r->lease_ns = a->until_ns; ev.ts = UINT64_MAX;", LIVES),
    ("mix: a write of ALL is answered from memory", "lib/ddp/model.c",
     "return ddp_model_reads_durable(model) ? SNIC_DDP_SYNCH : SNIC_DDP_STRICT;",
     "return SNIC_DDP_EVENT;", LIVES),
]
