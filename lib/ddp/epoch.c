/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * A new membership. Messages of the old epoch are dropped on arrival (Rule E), so everything that
 * was sent and may not have arrived is sent again: INV to each node that has not acknowledged in
 * its present incarnation, VALs to all. Acknowledgements due here are dropped: INV comes again.
 *
 * Acknowledgements count on if the node is in both epochs in the same incarnation; those of a CAS
 * that is not decided do not (Hermes' ACK reset).
 */
#include "ddp_priv.h"

static int ddp_epoch_role(const struct snic_ddp *d, const struct snic_ddp_view *v)
{
    uint16_t me = ddp_bit(d->o.node);
    if ((v->full & me) != 0)
        return SNIC_DDP_FULL;
    return (v->learners & me) != 0 ? SNIC_DDP_LEARNER : SNIC_DDP_FENCED;
}

/* Does the view make sense from where this node is? */
static int ddp_epoch_valid(const struct snic_ddp *d, const struct snic_ddp_view *v)
{
    if (v == NULL || v->epoch > SNIC_DDP_EPOCH_MAX || (v->full & v->learners) != 0)
        return SNIC_EINVAL;
    int role = ddp_epoch_role(d, v);
    int returns = d->took_part && d->role == SNIC_DDP_FENCED;
    if (v->epoch < d->epoch || (v->epoch == d->epoch && !returns))
        return SNIC_EINVAL;
    if (role == SNIC_DDP_FENCED)
        return 0;
    uint32_t others = 0;
    for (uint32_t n = 0; n < SNIC_DDP_NODES_MAX; n++)
        others += n != d->o.node && ((v->full | v->learners) & ddp_bit(n)) != 0;
    if (others > d->o.others_max)
        return SNIC_EINVAL;
    if (role == SNIC_DDP_LEARNER &&
        (v->donor >= SNIC_DDP_NODES_MAX || (v->full & ddp_bit(v->donor)) == 0 || v->restart != 0))
        return SNIC_EINVAL;
    if (!d->took_part) {
        /* A log is a beginning in a restart only, where all compare theirs (H18). */
        if (d->loaded && role == SNIC_DDP_FULL && (v->restart == 0 || v->epoch <= d->loaded_epoch))
            return SNIC_EINVAL;
        return 0;
    }
    int same = v->incarnation[d->o.node] == d->incarnation[d->o.node];
    if (returns)
        return role == SNIC_DDP_LEARNER && !same ? 0 : SNIC_EINVAL;
    if (!same)
        return SNIC_EINVAL;
    if (d->role == SNIC_DDP_FULL && role != SNIC_DDP_FULL)
        return SNIC_EINVAL;
    if (d->role == SNIC_DDP_LEARNER && role == SNIC_DDP_FULL && d->learn != DDP_LEARN_DONE)
        return SNIC_EINVAL;
    return 0;
}

/* No node waits for a reply any more. A wait with a flush under way stays until its FLUSHED. */
static void ddp_epoch_drop_waits(struct snic_ddp *d)
{
    for (uint32_t i = 0; i < d->waits.high; i++) {
        struct ddp_wait *a = ddp_wait_at(d, i);
        if ((a->flags & DDP_A_PERSIST) != 0) {
            a->flags |= DDP_A_DEAD;
        } else if ((a->flags & DDP_A_USED) != 0) {
            ddp_rec_at(d, a->rec)->waits = SNIC_DDP__NIL;
            ddp_pool_give(&d->waits, i);
        }
    }
}

/* Fenced: reads that wait are refused. They join the ready ones, which look at the lease. */
static void ddp_epoch_drop_reads(struct snic_ddp *d)
{
    for (uint32_t i = 0; i < d->reads.high; i++) {
        const struct ddp_read *q = ddp_read_at(d, i);
        if (q->rec != SNIC_DDP__NIL)
            ddp_reads_ready(&d->reads, &ddp_rec_at(d, q->rec)->reads, &d->ready);
    }
}

int ddp_epoch(struct snic_ddp *d, const struct snic_ddp_view *v, uint32_t flags)
{
    int result = ddp_epoch_valid(d, v);
    if (result != 0)
        return result;
    uint32_t first = !d->took_part;
    uint16_t members = (uint16_t)(v->full | v->learners);
    d->kept = 0;
    for (uint32_t n = 0; n < SNIC_DDP_NODES_MAX; n++) {
        if (((d->full | d->learners) & members & ddp_bit(n)) != 0 &&
            v->incarnation[n] == d->incarnation[n])
            d->kept |= ddp_bit(n);
        d->incarnation[n] = v->incarnation[n];
    }
    d->role = (uint32_t)ddp_epoch_role(d, v);
    d->epoch = v->epoch;
    d->full = v->full;
    d->learners = v->learners;
    d->donor = v->donor;
    d->others = (uint16_t)(members & ~ddp_bit(d->o.node));
    SNIC_ASSERT((d->kept & ~members) == 0); /* I7 */
    if (d->role == SNIC_DDP_FENCED) {
        d->others = 0;
        d->restart = DDP_RESTART_NOT;
        ddp_restart_suspect(d, 0);
        ddp_timer_stop(d, ddp_timer_of_node(d, DDP_T_RESTART));
        ddp_timer_stop(d, ddp_timer_of_node(d, DDP_T_SWEEP));
    } else {
        d->took_part = 1;
    }
    /* Floors are about numbers of one epoch: later ones are above them anyway. */
    d->gen_floor = d->floor = d->purge_ts = 0;
    d->purge_ack = 0;
    ddp_timer_stop(d, ddp_timer_of_node(d, DDP_T_PURGE));
    ddp_epoch_drop_waits(d);
    d->parked = 0;
    d->sweep = d->sweep_scope = 0;
    ddp_learn_epoch(d, flags);
    if (d->role == SNIC_DDP_FULL && ((first && v->restart != 0) || d->restart != DDP_RESTART_NOT))
        ddp_restart_begin(d);
    d->serves = d->role == SNIC_DDP_FULL && d->restart == DDP_RESTART_NOT;
    if (d->role == SNIC_DDP_FENCED)
        ddp_epoch_drop_reads(d);
    else
        ddp_purge_look(d);
    return 0;
}

static void ddp_epoch_write(struct snic_ddp *d, struct ddp_write *w)
{
    if ((w->flags & DDP_W_USED) == 0)
        return;
    if (d->role == SNIC_DDP_FENCED) {
        if ((w->flags & DDP_W_CLIENT) != 0) {
            ddp_done(d, w->token, SNIC_EUNKNOWN, NULL);
            if (w->scope != 0)
                ddp_scope_answered(d, w->scope);
        }
        ddp_write_free(d, w);
        return;
    }
    if ((w->flags & DDP_W_ABORTED) != 0)
        return;
    uint16_t kept = (w->flags & SNIC_DDP_MSG_CAS) != 0 ? 0 : d->kept;
    w->ack_c &= kept;
    w->ack_p &= kept;
    w->tries = 0;
    w->heard = 0;
    ddp_write_calm(d, w);
    w->flags &= ~(uint32_t)(DDP_W_VAL | DDP_W_VAL_P);
    ddp_timer_stop(d, ddp_timer_of_write(d, w));
    ddp_write_invalidate(d, w, ddp_write_missing(d, w));
    ddp_dirty(d, ddp_rec_at(d, w->rec));
}

/* A piece of what EPOCH sets off; 0: there is no more. */
int ddp_epoch_work(struct snic_ddp *d)
{
    if (d->sweep < d->writes.high) {
        while (d->sweep < d->writes.high && ddp_room(d))
            ddp_epoch_write(d, ddp_write_at(d, d->sweep++));
        return 1;
    }
    d->sweep = SNIC_DDP__NIL;
    if (d->sweep_scope < d->scopes.high) {
        while (d->sweep_scope < d->scopes.high && ddp_room(d))
            ddp_scope_epoch(d, ddp_scope_at(d, d->sweep_scope++));
        return 1;
    }
    d->sweep_scope = SNIC_DDP__NIL;
    return 0;
}
