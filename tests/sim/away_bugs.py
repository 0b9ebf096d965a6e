# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Bugs of the engines that a client sees that was away, for mutate.py."""
PROGRAMS = {
    "away": ["tests/control/test_control_away.c", "tests/support/ctlfix.c",
             "tests/support/ctlclient.c",
             "tests/sim/solar_cipher.c"],
}

# name, file, text, what instead, (program, filter)
BUGS = [
    ("a silent server's segments are not asked for", "lib/ebs/wait.c",
     "if (!ebs_lookups_scan_due(&q->lookups, q->now_ns)) return;",
     "q->lookups.due_ns = SNIC_NEVER; return;",
     ("away", "*many_solar*")),
    ("they are not over streams", "lib/ebs/wait.c",
     "if (!ebs_lookups_scan_due(&q->lookups, q->now_ns)) return;",
     "q->lookups.due_ns = SNIC_NEVER; return;",
     ("away", "*many_luna*")),
    ("what waits for a fence does not ask", "lib/ebs/wait.c",
     "if (r->where == EBS_RPC_ENDED) continue;", "if (ebs_rpc_is_over(r)) continue;",
     ("away", "*abandoned_solar*")),
    ("it does not over streams", "lib/ebs/wait.c",
     "if (r->where == EBS_RPC_ENDED) continue;", "if (ebs_rpc_is_over(r)) continue;",
     ("away", "*abandoned_luna*")),
    ("who asks again asks as often", "lib/ebs/lookup.c",
     "(sent <= 3 ? 1u << (sent - 1) : SNIC_EBS__LOOKUP_DOUBLE)", "1u", ("away", "*back_off*")),
    ("what has moved is held for done", "lib/solar/rpc.c",
     "r->need = ebs_mask(r->next) & ~rpc->acked;",
     "if (rpc->count > 1 && r->next > 1) rpc->acked |= 1; r->need = "
     "ebs_mask(r->next) & ~rpc->acked;",
     ("away", "*many_solar*")),
]
