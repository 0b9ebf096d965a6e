/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * Local reads.
 *
 * A read of what is in memory waits for an unlock only. A read of what is durable at all members
 * also waits until gd is at its value. Most writes bring that by their own rules; those that never
 * raise gd are replayed here, with their timestamp, as writes that are durable at all.
 *
 * A key that is written without pause must not keep such a read for ever: by the time a value is
 * durable there is a newer one. So the read is pinned to a value that was readable here while it
 * waited, and may return that one when it has become durable: the read took place when it was
 * pinned. The replay, which owns the handle of a value that was overwritten, answers it.
 */
#include "ddp_priv.h"

#define READ_MEMORY UINT64_C(0)  /* ddp_read.ts: any value will do */
#define READ_UNPINNED UINT64_MAX /* no value was readable yet, or that one was overwritten */

/* A read whose key was unlocked, or whose node is fenced. The lease may have ended meanwhile. */
void ddp_read_ready(struct snic_ddp *d)
{
    struct ddp_read q = ddp_reads_pop(&d->reads, &d->ready);
    const struct ddp_rec *r = ddp_rec_at(d, q.rec);
    if (!ddp_lease(d, d->now_ns))
        ddp_done(d, q.token, SNIC_ESTALE, NULL);
    else
        ddp_done(d, q.token, (r->flags & SNIC_DDP_MSG_TOMBSTONE) != 0 ? SNIC_ENOENT : 0, r);
}

int ddp_read_client(struct snic_ddp *d, const struct snic_ddp_event *ev)
{
    struct ddp_rec *r = ddp_find(d, &ev->key);
    int durable = ddp_reads_durable(d->o.model, ev->durability);
    if (ev->durability != SNIC_DDP_DURABILITY_DEFAULT &&
        ev->durability != SNIC_DDP_DURABILITY_MEMORY && ev->durability != SNIC_DDP_DURABILITY_ALL)
        return SNIC_EINVAL;
    if (!ddp_lease(d, d->now_ns))
        return SNIC_ESTALE;
    if (r == NULL || ddp_rec_readable(r, durable)) {
        int here = r != NULL && r->vts != 0 && (r->flags & SNIC_DDP_MSG_TOMBSTONE) == 0;
        ddp_done(d, ev->token, here ? 0 : SNIC_ENOENT, r);
        return 0;
    }
    if (ddp_pool_full(&d->reads))
        return SNIC_EAGAIN;
    struct ddp_read *q = ddp_reads_wait(&d->reads, &r->reads, ev->token, ddp_rec_number(d, r));
    q->ts = durable ? READ_UNPINNED : READ_MEMORY;
    if (r->rd == 0)
        ddp_dirty(d, r);
    return 0;
}

/* Removes the read *@p link from its record's list; @p before is the one before it. */
static void ddp_read_unlink(struct snic_ddp *d, struct ddp_rec *r, uint32_t before)
{
    uint32_t *link = before == SNIC_DDP__NIL ? &r->reads.first : &ddp_read_at(d, before)->next;
    uint32_t n = *link;
    *link = ddp_read_at(d, n)->next;
    if (r->reads.last == n)
        r->reads.last = before;
}

/*
 * The value of @p w is durable at all: the reads that are pinned to it. 0: the ring is full, there
 * may be more.
 */
int ddp_read_answer(struct snic_ddp *d, struct ddp_rec *r, const struct ddp_write *w)
{
    uint32_t before = SNIC_DDP__NIL;
    for (uint32_t n = r->reads.first; n != SNIC_DDP__NIL;) {
        struct ddp_read *q = ddp_read_at(d, n);
        uint32_t next = q->next;
        if (q->ts != w->ts) {
            before = n;
            n = next;
            continue;
        }
        if (!ddp_room(d))
            return 0;
        ddp_read_unlink(d, r, before);
        struct snic_ddp_action *a = ddp_act(d, SNIC_DDP_DONE);
        a->token = q->token;
        a->result = SNIC_ESTALE;
        if (ddp_lease(d, d->now_ns)) {
            ddp_write_value(d, w, &a->msg);
            a->msg.key = r->key;
            a->msg.ts = w->ts;
            a->flags = a->msg.flags;
            a->result = (a->flags & SNIC_DDP_MSG_TOMBSTONE) != 0 ? SNIC_ENOENT : 0;
        }
        ddp_pool_give(&d->reads, n);
        q->rec = SNIC_DDP__NIL;
        n = next;
    }
    return 1;
}

/*
 * See to it that the value becomes durable at all. @p late: a read was pinned to an older one that
 * no replay held, so the value's own rules are not waited for. 1: a replay has begun.
 */
static int ddp_read_replay(struct snic_ddp *d, struct ddp_rec *r, int late)
{
    struct ddp_write *w = ddp_write_find(d, r, r->vts);
    if (w != NULL) {
        if (ddp_rules_at(d, w->flags)->gd != DDP_NEVER && (w->flags & DDP_W_SETTLE) == 0)
            w->flags |= DDP_W_FOR_READ;
        return 0; /* when it is freed, the record is evaluated again */
    }
    if (d->role != SNIC_DDP_FULL || !ddp_write_room(d, DDP_PLACE_REPLAY) ||
        (!late && ddp_rules_at(d, r->flags)->gd != DDP_NEVER))
        return 0; /* the record's timer sees to it (I5) */
    uint32_t flags = DDP_W_REPLAY | DDP_W_FOR_READ | ddp_rule_flag(SNIC_DDP_SYNCH);
    w = ddp_write_new(d, r, r->vts, flags);
    d->counters.replays++;
    ddp_urge(d, r);
    ddp_write_invalidate(d, w, d->others);
    return 1;
}

/* Is a write under way that will answer the reads pinned to @p ts? */
static int ddp_read_pinned(const struct snic_ddp *d, const struct ddp_rec *r, uint64_t ts)
{
    const struct ddp_write *w = ddp_write_find(d, r, ts);
    return w != NULL && (w->flags & DDP_W_FOR_READ) != 0;
}

/*
 * The key's reads, and CAS that failed, as far as they may be answered. 1: they need a replay,
 * which has begun and is to be evaluated.
 */
int ddp_read_eval(struct snic_ddp *d, struct ddp_rec *r)
{
    int late = 0;
    if (r->rd != 0)
        return 0;
    if (r->gd >= r->vts) {
        ddp_reads_ready(&d->reads, &r->reads, &d->ready);
        return 0;
    }
    uint32_t before = SNIC_DDP__NIL;
    struct ddp_list go = {SNIC_DDP__NIL, SNIC_DDP__NIL};
    for (uint32_t n = r->reads.first; n != SNIC_DDP__NIL;) {
        struct ddp_read *q = ddp_read_at(d, n);
        uint32_t next = q->next;
        if (q->ts == READ_MEMORY) {
            ddp_read_unlink(d, r, before);
            q->next = SNIC_DDP__NIL;
            go.first = go.last = n;
            ddp_reads_ready(&d->reads, &go, &d->ready);
        } else {
            if (q->ts == READ_UNPINNED || !ddp_read_pinned(d, r, q->ts)) {
                late |= q->ts != READ_UNPINNED && q->ts != r->vts;
                q->ts = r->vts;
            }
            before = n;
        }
        n = next;
    }
    int begun = ddp_rec_awaited(d, r) && ddp_read_replay(d, r, late);
    ddp_watch(d, r, 0);
    return begun;
}

/* The record's timer: what waits for its value has none to bring that. 1: that is all. */
int ddp_read_fire(struct snic_ddp *d, struct ddp_rec *r)
{
    if (r->rd != 0 || ddp_rules_at(d, r->flags)->gd != DDP_NEVER)
        return 0;
    ddp_dirty(d, r);
    return 1;
}

#undef READ_MEMORY
#undef READ_UNPINNED
