/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * What a connection is watched for and what it has to send: silence, answers that it waits for,
 * tokens that are due.
 *
 * Silence is measured without the owner's stalls. A PROBE requests a response before the timeout,
 * so that a slow store is not taken for a dead network.
 */
#include "luna/luna_priv.h"

int luna_conn_waits(const struct luna_conn *n)
{
    return n->state == SNIC_LUNA_CONNECTING || n->state == SNIC_LUNA_GREETING || n->outside > 0 ||
           n->probe_out || n->fence_out;
}

void luna_conn_expect(struct snic_luna *c, struct luna_conn *n)
{
    if (!luna_conn_waits(n))
        n->heard = luna_alive(c); /* nothing was in flight: its silence begins now */
}

int luna_conn_doubtful(const struct snic_luna *c, const struct luna_conn *n)
{
    return (c->o.flags & SNIC_LUNA_PAPER) == 0 && luna_conn_waits(n) &&
           luna_alive(c) - n->heard >= c->o.progress_ns / 4;
}

void luna_conn_watch(struct snic_luna *c, struct luna_conn *n)
{
    if (n->state < SNIC_LUNA_CONNECTING || (c->o.flags & SNIC_LUNA_PAPER) != 0)
        return;
    if (!luna_conn_waits(n)) {
        snic_wheel_cancel(&c->q.wheel, &n->timer);
        return;
    }
    uint64_t quarter = c->o.progress_ns / 4;
    uint64_t quarters = snic_min_u64(4, (luna_alive(c) - n->heard) / quarter + 1);
    uint64_t wait = n->state == SNIC_LUNA_UP ? quarters * quarter : c->o.progress_ns;
    uint64_t due = n->heard + snic_min_u64(wait, c->o.progress_ns) + c->lag_ns;
    /* A timer that fires too early is armed again: so received bytes need not arm it each time. */
    if (!n->timer.armed || n->timer.deadline_ns > due)
        snic_wheel_arm(&c->q.wheel, &n->timer, due);
}

void luna_token_due(struct snic_luna *c, struct luna_conn *n, uint32_t disk)
{
    uint32_t first = disk == UINT32_MAX ? 0 : disk;
    uint32_t end = disk == UINT32_MAX ? c->o.disks_max : disk + 1;
    if (n->token_next < n->token_end) {
        first = (uint32_t)snic_min_u64(first, n->token_next);
        end = (uint32_t)snic_max_u64(end, n->token_end);
    }
    n->token_next = first;
    n->token_end = end;
    c->q.dirty = 1;
}
