/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * Times from measurement. Round trips are measured with heartbeats: each datagram carries the
 * sender's clock and gives back the last one of the receiver (RFC 7323, 4; smoothed as in RFC
 * 6298). A message's time on its path is from SEND until the other node has taken it: it holds what
 * waits for a window or a slow link. Flushes are measured at the log, and heartbeats carry them.
 *
 * The data path sends again what was not answered in the time that all this takes, so that neither
 * a slow link nor a slow log makes it send the same twice.
 */
#include "replica_priv.h"

#define REPLICA_PACE_MAX UINT64_C(10000000000)
#define REPLICA_PACE_RETRANSMIT UINT64_C(1000000) /* as ddp.h's defaults */
#define REPLICA_PACE_REPLAY UINT64_C(10000000)
/* For a slower log it is not made longer: a message that was lost with a connection waits as long,
 * and what is sent again meanwhile has no value in it (ddp.h). */
#define REPLICA_PACE_FLUSH UINT64_C(500000000)
#define REPLICA_PACE_RTO UINT64_C(250000000) /* a pause of the other node is no round trip */

void replica_pace_rtt(struct snic_replica *r, struct replica_peer *p, const struct replica_times *t)
{
    uint64_t now = snic_loop_clock(r->o.loop);
    p->stamp = t->stamp;
    p->stamp_ns = now;
    p->path_ns -= p->path_ns / 16; /* peaks fade without samples, too */
    r->pace.flush_ns -= r->pace.flush_ns / 64;
    p->flush_ns = (uint64_t)t->flush_us * 1000;
    p->flushing_ns = (uint64_t)t->flushing_us * 1000;
    if (t->echo == 0 || t->held_ns > REPLICA_PACE_MAX || t->echo > now ||
        now - t->echo < t->held_ns || now - t->echo > 2 * REPLICA_PACE_MAX)
        return;
    uint64_t sample = now - t->echo - t->held_ns;
    if (p->rtt_ns == 0) {
        p->rtt_ns = sample + 1;
        p->rtt_var_ns = sample / 2;
        return;
    }
    uint64_t off = sample > p->rtt_ns ? sample - p->rtt_ns : p->rtt_ns - sample;
    p->rtt_var_ns = p->rtt_var_ns - p->rtt_var_ns / 4 + off / 4;
    p->rtt_ns = p->rtt_ns - p->rtt_ns / 8 + sample / 8 + (p->rtt_ns < 8);
}

/* A peak, that fades with smaller samples. */
static uint64_t replica_pace_peak(uint64_t peak, uint64_t sample)
{
    return snic_max_u64(sample, peak - peak / 8 + sample / 8);
}

void replica_pace_path(struct replica_peer *p, uint64_t ns)
{
    p->path_ns = replica_pace_peak(p->path_ns, ns);
}

void replica_pace_flush(struct snic_replica *r, uint64_t ns)
{
    r->pace.flush_ns = replica_pace_peak(r->pace.flush_ns, ns);
}

static int replica_pace_differs(uint64_t a, uint64_t b)
{
    return a > b + b / 8 || b > a + a / 8;
}

/* What the data path is to know, if it has changed enough (SNIC_DDP_TIMES). */
void replica_pace_update(struct snic_replica *r)
{
    uint64_t rto = r->o.retransmit_ns != 0 ? r->o.retransmit_ns : REPLICA_PACE_RETRANSMIT;
    uint64_t replay = r->o.replay_ns != 0 ? r->o.replay_ns : REPLICA_PACE_REPLAY;
    uint64_t flush = snic_max_u64(r->pace.flush_ns, replica_log_running(r));
    uint16_t members = (uint16_t)((r->view.full | r->view.learners) & r->others);
    for (uint32_t n = 0; n < SNIC_DDP_NODES_MAX; n++) {
        const struct replica_peer *p = &r->peers[n];
        if ((members >> n & 1) == 0)
            continue;
        rto = snic_max_u64(rto, p->rtt_ns + 4 * p->rtt_var_ns);
        rto = snic_max_u64(rto, 2 * p->path_ns);
        flush = snic_max_u64(flush, snic_max_u64(p->flush_ns, p->flushing_ns));
    }
    rto = snic_max_u64(snic_min_u64(rto, REPLICA_PACE_RTO), r->o.retransmit_ns);
    uint64_t retransmit = rto + snic_min_u64(2 * flush, REPLICA_PACE_FLUSH);
    replay += rto + retransmit;
    if (!replica_pace_differs(retransmit, r->pace.retransmit_ns) &&
        !replica_pace_differs(replay, r->pace.replay_ns))
        return;
    r->pace.retransmit_ns = retransmit;
    r->pace.replay_ns = replay;
    r->pace.log_ns = snic_min_u64(flush, REPLICA_PACE_MAX);
    r->pace.due |= 1;
}

/* A connection begins: what was lost with the last one is sent again soon. */
void replica_pace_again(struct snic_replica *r)
{
    replica_pace_update(r);
    r->pace.due = 2;
}

#undef REPLICA_PACE_MAX
#undef REPLICA_PACE_RETRANSMIT
#undef REPLICA_PACE_REPLAY
#undef REPLICA_PACE_FLUSH
#undef REPLICA_PACE_RTO
