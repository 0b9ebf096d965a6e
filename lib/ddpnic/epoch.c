/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * A new membership, which is the last one without some nodes. Messages of the old epoch are dropped
 * on arrival (Rule E), so everything that was sent and may not have arrived is sent again: INV and
 * PERSIST to each node that has not acknowledged in its present incarnation, VALs to all.
 * Acknowledgements due here are dropped: INV and PERSIST come again.
 *
 * A node that is left out ends all it coordinates, wakes its host, and continues to drain.
 */
#include "ddpnic_priv.h"

static int ddpnic_epoch_valid(const struct snic_ddpnic *d, const struct snic_ddp_view *v)
{
    const struct ddpnic_common *c = &d->common;
    uint16_t me = ddp_bit(d->o.node);
    if (v == NULL || v->epoch <= c->epoch || v->epoch > SNIC_DDP_EPOCH_MAX || v->learners != 0 ||
        v->restart != 0)
        return SNIC_EINVAL;
    uint32_t others = 0;
    for (uint32_t n = 0; n < SNIC_DDP_NODES_MAX; n++)
        others += n != d->o.node && (v->full & ddp_bit(n)) != 0;
    if ((v->full & me) != 0 && others > d->o.others_max)
        return SNIC_EINVAL;
    if (!c->took_part)
        return 0;
    if (c->role == SNIC_DDP_FENCED)
        return (v->full & me) != 0 ? SNIC_EINVAL : 0;
    if ((v->full & ~c->full) != 0)
        return SNIC_EINVAL;
    for (uint32_t n = 0; n < SNIC_DDP_NODES_MAX; n++) {
        if ((v->full & ddp_bit(n)) != 0 && v->incarnation[n] != d->nic.incarnation[n])
            return SNIC_EINVAL;
    }
    return 0;
}

/* No other node waits for a reply any more. A wait with a mark under way stays until its MARKED. */
static void ddpnic_epoch_drop_waits(struct snic_ddpnic *d)
{
    for (uint32_t i = 0; i < d->nic.waits.high; i++) {
        struct ddpnic_wait *a = ddpnic_wait_at(d, i);
        if ((a->flags & DDPNIC_A_USED) == 0)
            continue;
        if ((a->flags & DDPNIC_A_PERSIST) == 0) {
            ddpnic_rec_at(d, a->rec)->waits = SNIC_DDP__NIL;
            ddpnic_wait_free(d, i);
        } else if (a->src == d->o.node && d->common.role == SNIC_DDP_FULL) {
            continue; /* its own */
        } else if ((a->flags & DDPNIC_A_MARK) != 0) {
            a->flags |= DDPNIC_A_DEAD;
        } else {
            d->nic.marks--;
            ddpnic_wait_free(d, i);
        }
    }
}

int ddpnic_epoch(struct snic_ddpnic *d, const struct snic_ddp_view *v)
{
    struct ddpnic_common *c = &d->common;
    int result = ddpnic_epoch_valid(d, v);
    if (result != 0)
        return result;
    uint32_t was = c->role;
    uint16_t me = ddp_bit(d->o.node);
    c->epoch = v->epoch;
    c->role = (v->full & me) != 0 ? SNIC_DDP_FULL : SNIC_DDP_FENCED;
    c->full = c->role == SNIC_DDP_FULL ? v->full : 0;
    c->others = (uint16_t)(c->full & ~me);
    if (c->role == SNIC_DDP_FULL)
        c->took_part = 1;
    for (uint32_t n = 0; n < SNIC_DDP_NODES_MAX; n++)
        d->nic.incarnation[n] = v->incarnation[n];
    ddpnic_epoch_drop_waits(d);
    d->nic.sweep = 0;
    if (was == SNIC_DDP_FULL && c->role == SNIC_DDP_FENCED)
        ddpnic_act(d, SNIC_DDPNIC_WAKE)->flags = SNIC_DDPNIC_ALL;
    return 0;
}

static void ddpnic_epoch_write(struct snic_ddpnic *d, struct ddpnic_write *w)
{
    if ((w->flags & DDPNIC_W_USED) == 0)
        return;
    if (d->common.role == SNIC_DDP_FENCED) {
        ddpnic_write_free(d, w);
        return;
    }
    /* Nodes that stay have the same incarnation in both: views only lose nodes. */
    w->ack_c &= d->common.others;
    w->ack_p &= d->common.others;
    w->sent &= d->common.others;
    w->acked &= d->common.others;
    w->tries = 0;
    ddp_suspect(&d->nic.suspects, &w->late, 0);
    w->flags &= ~(uint32_t)(DDPNIC_W_VAL | DDPNIC_W_VAL_P);
    ddpnic_timer_stop(d, ddpnic_timer_of_write(d, w));
    if ((w->flags & DDPNIC_W_SHORT) == 0)
        ddpnic_write_invalidate(d, w, (uint16_t)(ddpnic_write_missing(d, w) & w->sent));
    if (w->rec != SNIC_DDP__NIL)
        ddpnic_dirty(d, ddpnic_rec_at(d, w->rec));
    else
        d->nic.persist_dirty = 1;
}

/* A piece of what EPOCH sets off; 0: there is no more. */
int ddpnic_epoch_work(struct snic_ddpnic *d)
{
    struct ddpnic_nic *n = &d->nic;
    if (n->sweep == SNIC_DDP__NIL)
        return 0;
    while (n->sweep < n->writes.high && ddpnic_room(d))
        ddpnic_epoch_write(d, ddpnic_write_at(d, n->sweep++));
    if (n->sweep == n->writes.high)
        n->sweep = SNIC_DDP__NIL;
    return 1;
}
