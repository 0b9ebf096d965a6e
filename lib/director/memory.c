/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * Memory that connections share: blocks (blocks.c), slots (slot.c), parts of long messages
 * (part.c). Here: the lists of connections that wait for one of these, and what happens when none
 * makes progress.
 *
 * I1  A connection waits on at most one list, with the bit of that list in wait_for. It is woken
 *     by looking again: nothing is handed over, so nothing is lost with a connection that ends.
 * I2  While a connection waits for memory, or the host is not heard for want of it, the stall timer
 *     is armed.
 * I3  mark_ns is when the connection last completed SNIC_DIRECTOR__PROGRESS bytes, received or
 *     sent, or began to hold memory. One that holds some and has not moved for stall_ms is a hog;
 *     where memory has been short for so long already, one that has not moved for an eighth of it.
 */
#include "director/director_priv.h"

/* ---- Waiting ---- */

void director_ready(struct snic_director_conn *c)
{
    snic_loop_ready(c->d->loop, &c->task);
}

/* Reset the client; closed follows. */
void director_conn_abort(struct snic_director_conn *c)
{
    c->closing = 1;
    if (c->client.net != NULL) {
        c->client.closing = 1;
        snic_net_abort(c->client.net);
    }
}

void director_wait(struct snic_director_conn *c, struct snic_link *list, uint32_t why)
{
    snic_link_remove(&c->wait);
    snic_link_append(list, &c->wait);
    c->wait_for |= why;
    if (why != SNIC_DIRECTOR__WAIT_CHANNEL)
        director_stall_check(c->d);
}

/* Let everybody on @list look again. */
void director_wake(struct snic_director *d, struct snic_link *list, uint32_t why)
{
    (void)d;
    while (!snic_link_alone(list)) {
        struct snic_director_conn *c = SNIC_CONTAINER(list->next, struct snic_director_conn, wait);
        snic_link_remove(&c->wait);
        c->wait_for &= ~why;
        director_ready(c);
    }
}

/* ---- What a connection holds ---- */

/*
 * What @c may hold before it takes another message: however many others hold theirs and do not
 * move, some is left.
 */
uint64_t director_share(const struct snic_director_conn *c)
{
    const struct snic_director *d = c->d;
    /* Enough for short replies of those that hold nothing: hogs leave it alone. */
    uint64_t kept = snic_min_u64(2 * (uint64_t)d->opts.conns_max, d->blocks_count / 4);
    uint64_t rest = d->blocks_free > kept ? d->blocks_free - kept : 0;
    rest *= SNIC_DIRECTOR__BLOCK;
    if (d->total_bytes != 0)
        rest = snic_min_u64(rest, d->total_bytes > d->held ? d->total_bytes - d->held : 0);
    rest /= SNIC_DIRECTOR__SHARE;
    return snic_min_u64(c->d->opts.conn_bytes, snic_max_u64(rest, 2 * SNIC_DIRECTOR__BLOCK));
}

/* @c holds @bytes more. I3 */
void director_hold(struct snic_director_conn *c, uint64_t bytes)
{
    if (c->mem == 0) {
        c->mark = c->progress;
        c->mark_ns = snic_loop_now(c->d->loop);
    }
    c->mem += bytes;
    c->d->held += c->kept ? 0 : bytes;
}

/* @c received or sent @bytes. I3 */
void director_moved(struct snic_director_conn *c, uint64_t bytes)
{
    c->progress += bytes;
    c->active_ns = snic_loop_now(c->d->loop);
    if (c->progress - c->mark >= SNIC_DIRECTOR__PROGRESS) {
        c->mark = c->progress;
        c->mark_ns = snic_loop_now(c->d->loop);
    }
}

/* ---- Stalls ---- */

/* Does a connection, or the host, wait for another to free memory? */
static int director_stall_any(const struct snic_director *d)
{
    int any = d->stalled || !snic_link_alone(&d->wait_block) || !snic_link_alone(&d->wait_slot);
    any |= d->channel == NULL && !snic_queue_empty(&d->retry); /* it needs blocks */
    return any || !snic_link_alone(&d->parts.waiters);
}

/* What @c keeps from others. */
static uint64_t director_stall_held(const struct snic_director_conn *c)
{
    uint64_t part = c->part_kind != DIRECTOR_PART_BLOCK ? c->part_cap : 0;
    return c->mem + part + (uint64_t)c->pending * sizeof(struct director_slot);
}

/*
 * The hog that holds most, one that is kept only where there is no other; NULL: none, or one was
 * reset and its memory is still to come back.
 */
static struct snic_director_conn *director_stall_hog(struct snic_director *d)
{
    uint64_t now = snic_loop_now(d->loop);
    uint64_t stall_ns = (uint64_t)d->opts.stall_ms * 1000000;
    uint64_t grace = now - d->stall_since_ns >= stall_ns ? stall_ns / 8 : stall_ns;
    struct snic_director_conn *hog = NULL;
    for (struct snic_link *l = d->all.next; l != &d->all; l = l->next) {
        struct snic_director_conn *c = SNIC_CONTAINER(l, struct snic_director_conn, link);
        if (c->evicted && !c->dead)
            return NULL;
        if (c->dead || now - c->mark_ns < grace)
            continue;
        if (c->mem == 0 && c->part_kind == DIRECTOR_PART_BLOCK && snic_link_alone(&d->wait_slot))
            continue; /* it only waits, as the others do */
        if (director_stall_held(c) > 0 &&
            (hog == NULL || c->kept < hog->kept ||
             (c->kept == hog->kept && director_stall_held(c) > director_stall_held(hog))))
            hog = c;
    }
    return hog;
}

/*
 * I2. Memory ran out: the hog that holds most has to go, at once when there is one, and the next
 * when its memory does not suffice.
 */
void director_stall_check(struct snic_director *d)
{
    uint64_t now = snic_loop_now(d->loop);
    uint64_t stall_ns = (uint64_t)d->opts.stall_ms * 1000000;
    if (d->stall.armed || !director_stall_any(d))
        return;
    if (d->stall_since_ns == 0 || now - d->stall_last_ns > stall_ns)
        d->stall_since_ns = now;
    d->stall_last_ns = now;
    struct snic_director_conn *hog = director_stall_hog(d);
    if (hog != NULL) {
        hog->evicted = 1;
        d->stats.hog_resets++;
        director_conn_abort(hog);
    }
    snic_loop_arm(d->loop, &d->stall, now + snic_max_u64(stall_ns / 16, 1000000));
}

/* All hold more than total_bytes: who holds most has to go, unless one is going already. */
void director_total_check(struct snic_director *d)
{
    struct snic_director_conn *hog = NULL;
    if (d->total_bytes == 0 || d->held <= d->total_bytes)
        return;
    for (struct snic_link *l = d->all.next; l != &d->all; l = l->next) {
        struct snic_director_conn *c = SNIC_CONTAINER(l, struct snic_director_conn, link);
        if (c->evicted && !c->dead)
            return;
        if (!c->dead && !c->kept && c->mem > (hog != NULL ? hog->mem : 0))
            hog = c;
    }
    if (hog == NULL)
        return;
    hog->evicted = 1;
    d->stats.total_resets++;
    director_conn_abort(hog);
}

void director_stall_fire(struct snic_timer *t, uint64_t now_ns)
{
    (void)now_ns;
    director_stall_check(SNIC_CONTAINER(t, struct snic_director, stall));
}
