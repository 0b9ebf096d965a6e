/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * Deleted keys leave (amendment A4, H33).
 *
 * A tombstone may go when every node has it durable, so that no log brings an older value back, and
 * when no write that is older can still arrive somewhere as if the key had never been. Each node
 * that has nothing in flight at or below the tombstone's timestamp, of any key, promises to number
 * above it from now on (gen_floor); when all have promised, absent keys everywhere have the floor:
 * an INV at or below it is obsolete. Both floors are of one epoch: a new one numbers above them and
 * drops all old messages.
 *
 * No key is purged while there is a learner, whose table would miss it.
 */
#include "ddp_priv.h"

#define PURGE_SCAN 256 /* records looked at a time */

/* Nothing here is in the way of this tombstone. */
static int ddp_purge_may(const struct snic_ddp *d, const struct ddp_rec *r, uint64_t ts)
{
    if (!d->serves || d->learners != 0)
        return 0;
    if (r != NULL && (r->vts != ts || (r->flags & SNIC_DDP_MSG_TOMBSTONE) == 0 || r->dts < ts ||
                      r->rd != 0 || r->writes != SNIC_DDP__NIL || r->waits != SNIC_DDP__NIL ||
                      r->reads.first != SNIC_DDP__NIL))
        return 0;
    for (uint32_t i = 0; i < d->writes.high; i++) {
        const struct ddp_write *w = ddp_write_at(d, i);
        if ((w->flags & DDP_W_USED) != 0 && w->ts <= ts)
            return 0;
    }
    /* Locks of others' writes all have a timer of these classes (I5). */
    uint32_t first = ddp_timer_of_node(d, DDP_T_NODE);
    for (uint32_t c = DDP_REPLAY; c < DDP_PACE; c++) {
        uint32_t n = d->timers.classes[c].first;
        for (; n != SNIC_DDP__NIL; n = ddp_timers_at(&d->timers, n)->next) {
            if (ddp_rec_at(d, n - first)->vts <= ts)
                return 0;
        }
    }
    return 1;
}

static void ddp_purge_remove(struct snic_ddp *d, struct ddp_rec *r, uint64_t ts)
{
    d->floor = snic_max_u64(d->floor, ts);
    d->gen_floor = snic_max_u64(d->gen_floor, ts);
    if (r == NULL || r->vts != ts || (r->flags & SNIC_DDP_MSG_TOMBSTONE) == 0 || r->rd != 0 ||
        r->writes != SNIC_DDP__NIL || r->waits != SNIC_DDP__NIL || r->reads.first != SNIC_DDP__NIL)
        return;
    struct snic_ddp_action *a = ddp_act(d, SNIC_DDP_FORGET);
    a->msg.key = r->key;
    a->msg.ts = ts;
    d->counters.purged++;
    ddp_remove(d, r);
}

static void ddp_purge_end(struct snic_ddp *d)
{
    struct ddp_rec *r = ddp_find(d, &d->purge_key);
    uint64_t ts = d->purge_ts;
    d->purge_ts = 0;
    ddp_timer_stop(d, ddp_timer_of_node(d, DDP_T_PURGE));
    if (r != NULL && ddp_purge_may(d, r, ts)) {
        if (d->others != 0)
            (void)ddp_send(d, SNIC_DDP_PURGE, d->others, &d->purge_key, ts);
        ddp_purge_remove(d, r, ts);
    }
    ddp_purge_look(d);
}

/* The timer: ask again, or find the next. */
void ddp_purge_fire(struct snic_ddp *d)
{
    if (d->purge_ts != 0) {
        /* Not answered for so long: something is in its way. Perhaps another one goes. */
        d->purge_ts = 0;
    }
    for (uint32_t n = 0; n < PURGE_SCAN && n < d->recs.high; n++) {
        if (d->purge_next >= d->recs.high)
            d->purge_next = 0;
        const struct ddp_rec *r = ddp_rec_at(d, d->purge_next++);
        if ((r->flags & SNIC_DDP_MSG_TOMBSTONE) == 0 || !ddp_purge_may(d, r, r->vts))
            continue;
        d->purge_ts = r->vts;
        d->purge_key = r->key;
        d->purge_ack = 0;
        d->gen_floor = snic_max_u64(d->gen_floor, r->vts);
        if (d->others == 0) {
            ddp_purge_end(d);
            return;
        }
        (void)ddp_send(d, SNIC_DDP_PURGE_REQUEST, d->others, &r->key, r->vts);
        break;
    }
    ddp_purge_look(d);
}

int ddp_purge_message(struct snic_ddp *d, const struct snic_ddp_msg *m)
{
    struct ddp_rec *r = ddp_find(d, &m->key);
    if (m->ts == 0 || d->role != SNIC_DDP_FULL || (d->full & ddp_bit(m->src)) == 0 ||
        d->learners != 0)
        return SNIC_EPROTO;
    if (m->type == SNIC_DDP_PURGE) {
        ddp_purge_remove(d, r, m->ts);
    } else if (m->type == SNIC_DDP_PURGE_REQUEST) {
        if (!ddp_purge_may(d, r, m->ts))
            return 0;
        d->gen_floor = snic_max_u64(d->gen_floor, m->ts);
        (void)ddp_send(d, SNIC_DDP_PURGE_ACK, ddp_bit(m->src), &m->key, m->ts);
    } else if (d->purge_ts == m->ts && ddp_same_key(&d->purge_key, &m->key)) {
        d->purge_ack |= ddp_bit(m->src);
        if ((d->others & ~d->purge_ack) == 0)
            ddp_purge_end(d);
    }
    return 0;
}

#undef PURGE_SCAN
