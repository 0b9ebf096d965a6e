# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Bugs of the client of a store, for mutate.py: each executes twice, claims too much, or waits."""
PROGRAMS = {
    "client": ["tests/storeclient/test_storeclient.c", "tests/storeclient/storeclient_peers.c"],
}

# name, file, text, what instead, (program, filter)
BUGS = [
    ("C3: an open attempt counts as none", "lib/storeclient/ops.c",
     "if (!storeclient_op_is_certain(op)) result = SNIC_EUNKNOWN;", "", ("client", "*declined*")),
    ("C3: an answered attempt stays open", "lib/storeclient/ops.c",
     "op->unanswered--; /* C3 */", ";", ("client", "*certain*")),
    ("C3: an unknown outcome counts as an answer", "lib/storeclient/ops.c",
     "if (write && !open)", "if (write)", ("client", "*certain*")),
    ("a retry has a new sequence", "lib/storeclient/ops.c",
     "op->attempts++;", "op->attempts++; op->sequence += op->attempts > 1;", ("client", "*dies*")),
    ("the bound: begun anew while an attempt is open", "lib/storeclient/ops.c",
     "if (!storeclient_op_is_certain(op)) { storeclient_op_end(c, op, SNIC_EUNKNOWN); return; }",
     "",
     ("client", "*open_attempt_is*")),
    ("C4: two writes of a key at a time", "lib/storeclient/ops.c",
     "if (storeclient_op_is_write(op)) holder = storeclient_op_holder(c, op);", "",
     ("client", "*one_key*")),
    ("C4: the chain behind a write is forgotten", "lib/storeclient/ops.c",
     "storeclient_op_start(c, next); /*", "next->behind = NULL, storeclient_op_start(c, next); /*",
     ("client", "*one_key*")),
    ("C4: one that ends early breaks the chain", "lib/storeclient/ops.c",
     "o->behind = op->behind;", "o->behind = NULL;", ("client", "*behind*")),
    ("C1: a late attempt's value goes to the buffer", "lib/storeclient/ops.c",
     "if (late && (!write || r->has_value)) return;", "", ("client", "*late_value*")),
    ("tried nodes are tried again first", "lib/storeclient/ops.c",
     "op->tried |= 1u << n;", "", ("client", "*refused_by_one*")),
    ("nodes that do not serve are used", "lib/storeclient/nodes.c",
     "cost += n->serves ? 0 : 4 * c->o.attempt_ns;", "", ("client", "*nearest*")),
    ("nodes are not found", "lib/storeclient/nodes.c",
     "storeclient_node_begin(c, &addr);", ";", ("client", "*nearest*")),
    ("a value that is too long overflows the buffer", "lib/storeclient/reply.c",
     "(size_t)snic_min_u64(n, a->op->out_max - p->at)", "n", ("client", "*return*")),
    ("numbers overflow", "lib/storeclient/reply.c",
     "|| v > (limit - digit) / 10", "", ("client", "*malformed*")),
]
