/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * Slots: one per message in flight.
 *
 * I1  A connection with fewer than slots_own slots always gets one; slots_common counts the free
 *     slots beyond these reservations.
 * I2  The slot freed last is taken first; a slot that was never used is taken only when no freed
 *     one is left. So the memory touched follows the largest number of slots in use at once.
 * I3  `flight` is the cost in bytes of the messages, expected replies included, that host and
 *     engine work on. A connection takes no message while its own flight is at least a quantum and
 *     at least what is left of flight_bytes: with N connections that want more, each gets an
 *     (N + 1)th part. Such a connection has messages in flight, and their replies wake it.
 */
#include "director/director_priv.h"

int director_slot_room(const struct snic_director_conn *c)
{
    return c->pending < c->d->slots_own || c->d->slots_common > 0; /* I1 */
}

/* I3 */
int director_flight_full(const struct snic_director_conn *c)
{
    const struct snic_director *d = c->d;
    uint64_t rest = d->opts.flight_bytes > d->flight ? d->opts.flight_bytes - d->flight : 0;
    return c->flight >= snic_max_u64(rest, d->opts.quantum);
}

/* The message of @s is no longer in flight; a second call has no effect. */
void director_flight_end(struct director_slot *s)
{
    SNIC_DASSERT(s->conn->flight >= s->cost && s->conn->d->flight >= s->cost);
    s->conn->flight -= s->cost;
    s->conn->d->flight -= s->cost;
    if (s->unread)
        s->conn->d->unread_flight -= s->cost;
    s->unread = 0;
    s->cost = 0;
}

/* The caller has checked director_slot_room(). */
struct director_slot *director_slot_take(struct snic_director_conn *c)
{
    struct snic_director *d = c->d;
    struct snic_node *n = snic_queue_pop(&d->slots_idle);
    struct director_slot *s;
    if (n != NULL) {
        s = (struct director_slot *)SNIC_CONTAINER(n, struct director_piece, node);
    } else { /* I2 */
        SNIC_ASSERT(d->slots_made < d->slots_count);
        s = &d->slots[d->slots_made++];
        memset(s, 0, sizeof(*s));
        snic_link_init(&s->link);
    }
    SNIC_ASSERT(d->slots_free > 0);
    if (c->pending >= d->slots_own) {
        SNIC_ASSERT(d->slots_common > 0); /* I1 */
        d->slots_common--;
    }
    c->pending++;
    d->slots_free--;
    s->conn = c;
    s->flags = 0;
    s->bytes = 0;
    s->sent = 0;
    s->cost = (uint64_t)c->msg_size + SNIC_DIRECTOR__MESSAGE_COST + c->reply;
    c->flight += s->cost;
    d->flight += s->cost;
    s->unread = (uint8_t)director_unread(c);
    d->unread_flight += s->unread ? s->cost : 0;
    s->user = c->user;
    s->job = NULL;
    s->state = DIRECTOR_SLOT_HOST;
    snic_link_append(&c->slots, &s->link);
    return s;
}

void director_slot_give(struct director_slot *s)
{
    struct snic_director_conn *c = s->conn;
    struct snic_director *d = c->d;
    SNIC_DASSERT(s->state != DIRECTOR_SLOT_FREE && s->job == NULL);
    SNIC_DASSERT(snic_queue_empty(&s->pieces));
    director_flight_end(s);
    snic_link_remove(&s->link);
    s->state = DIRECTOR_SLOT_FREE;
    s->gen++;
    s->conn = NULL;
    s->piece.node.next = d->slots_idle.first;
    if (d->slots_idle.first == NULL)
        d->slots_idle.last = &s->piece.node;
    d->slots_idle.first = &s->piece.node;
    SNIC_ASSERT(c->pending > 0 && d->slots_free < d->slots_count);
    d->slots_free++;
    c->pending--;
    if (c->pending >= d->slots_own) {
        d->slots_common++;
        if (!snic_link_alone(&d->wait_slot))
            director_wake(d, &d->wait_slot, SNIC_DIRECTOR__WAIT_SLOT);
    }
}

/* Release the job of @s and the bytes counted for its connection. */
void director_job_release(struct director_slot *s)
{
    struct snic_director_conn *c = s->conn;
    SNIC_ASSERT(c->mem >= s->job->pool_bytes);
    c->mem -= s->job->pool_bytes;
    c->d->held -= c->kept ? 0 : s->job->pool_bytes;
    c->job_bytes -= s->job->pool_bytes;
    c->job_contexts -= s->job->contexts;
    snic_offload_release(c->d->offload, s->job);
    s->job = NULL;
}
