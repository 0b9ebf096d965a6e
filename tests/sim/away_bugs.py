# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Bugs of the engines that a client sees that was away, for mutate.py."""
PROGRAMS = {
    "away": ["tests/test_control_away.c", "tests/support/ctlfix.c", "tests/support/ctlguest.c",
             "tests/sim/solar_cipher.c"],
}

# name, file, text, what instead, (program, filter)
BUGS = [
    ("a silent server's segments are not asked for", "lib/ebs/wait.c",
     "if (!snic_ebs_asks_look(&q->asks, q->now_ns)) return;",
     "q->asks.due_ns = SNIC_NEVER; return;",
     ("away", "*many_solar*")),
    ("they are not over streams", "lib/ebs/wait.c",
     "if (!snic_ebs_asks_look(&q->asks, q->now_ns)) return;",
     "q->asks.due_ns = SNIC_NEVER; return;",
     ("away", "*many_luna*")),
    ("what waits for a fence does not ask", "lib/ebs/wait.c",
     "if (r->where == SNIC_EBS_RPC_ENDED) continue;", "if (snic_ebs_rpc_over(r)) continue;",
     ("away", "*given_up_solar*")),
    ("it does not over streams", "lib/ebs/wait.c",
     "if (r->where == SNIC_EBS_RPC_ENDED) continue;", "if (snic_ebs_rpc_over(r)) continue;",
     ("away", "*given_up_luna*")),
    ("who asks again asks as often", "lib/ebs/ask.c",
     "(asks <= 3 ? 1u << (asks - 1) : SNIC_EBS__ASK_DOUBLE)", "1u", ("away", "*seldom*")),
    ("what has moved is held for done", "lib/solar/rpc.c",
     "r->need = solar_mask(r->next) & ~rpc->acked;",
     "if (rpc->count > 1 && r->next > 1) rpc->acked |= 1; r->need = "
     "solar_mask(r->next) & ~rpc->acked;",
     ("away", "*many_solar*")),
]
