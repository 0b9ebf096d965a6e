/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * The backlog of the host at a channel: messages that were sent to it and that it has not taken. It
 * takes them in the order in which they were sent, so a client's message waits for all messages of
 * others that were sent before it.
 *
 * I1  `pushed` numbers the messages sent to the host. Those up to `taken` count as taken: the host
 *     has answered one that is not older. A reply may be late for another reason (a write that is
 *     not durable yet), so while a connection waits, `taken` also advances with time: a message
 *     counts for SNIC_DIRECTOR__BACKLOG_NS.
 * I2  While the backlog is SNIC_DIRECTOR__BACKLOG or more, a connection that has
 *     SNIC_DIRECTOR__BACKLOG_OWN messages under way sends no more, so that a light client finds a
 *     short queue. A batch that began before that is sent to its end, so that it stays in one
 *     piece. The limit holds only for SNIC_DIRECTOR__LIGHT_NS after a message of a light client:
 *     without such clients, smaller batches would only cost CPU time.
 * I3  Waiting connections resume in order, after the iteration in which replies arrived. One that
 *     resumed and found the backlog full again stays the first.
 * I4  The timer is armed while a connection waits.
 */
#include "director/director_priv.h"

/* Estimated messages per quantum; limits how many connections resume in one iteration. */
#define SNIC_DIRECTOR__BACKLOG_TURN 64

/* What counts of it: I2 */
static uint64_t director_backlog(const struct snic_director *d)
{
    if (d->channel == NULL || snic_loop_now(d->loop) >= d->light_until_ns)
        return 0;
    return d->pushed - d->taken;
}

void director_backlog_turn_begins(struct snic_director_conn *c)
{
    c->admitted = director_backlog(c->d) < SNIC_DIRECTOR__BACKLOG;
}

void director_backlog_turn_ends(struct snic_director_conn *c)
{
    uint64_t now = snic_loop_now(c->d->loop);
    c->woken = 0;
    if (c->pending >= SNIC_DIRECTOR__BACKLOG_OWN || c->client.in_count > 0)
        c->heavy_until_ns = now + SNIC_DIRECTOR__LIGHT_NS;
    else if (c->pending > 0 && now >= c->heavy_until_ns)
        c->d->light_until_ns = now + SNIC_DIRECTOR__LIGHT_NS;
}

/* I1 */
void director_backlog_sent(struct director_slot *s)
{
    s->pushed = ++s->conn->d->pushed;
}

void director_backlog_answered(const struct director_slot *s)
{
    struct snic_director *d = s->conn->d;
    d->taken = snic_max_u64(d->taken, s->pushed);
}

static void director_backlog_arm(struct snic_director *d)
{
    d->backlog_mark = d->pushed;
    snic_loop_arm(d->loop, &d->backlog_timer, snic_loop_now(d->loop) + SNIC_DIRECTOR__BACKLOG_NS);
}

/* I2: 1 if @c has to wait before it sends another message to the host. */
int director_backlog_wait(struct snic_director_conn *c)
{
    struct snic_director *d = c->d;
    if (c->admitted || c->pending < SNIC_DIRECTOR__BACKLOG_OWN ||
        director_backlog(d) < SNIC_DIRECTOR__BACKLOG)
        return 0;
    d->stats.backlog_waits++;
    snic_link_remove(&c->wait);
    if (c->woken) /* I3 */
        snic_link_append(d->wait_backlog.next, &c->wait);
    else
        snic_link_append(&d->wait_backlog, &c->wait);
    c->woken = 0;
    c->wait_for |= SNIC_DIRECTOR__WAIT_BACKLOG;
    if (!d->backlog_timer.armed) /* I4 */
        director_backlog_arm(d);
    return 1;
}

/* I3 */
void director_backlog_resume(struct snic_director *d)
{
    uint64_t backlog = director_backlog(d);
    while (!snic_link_alone(&d->wait_backlog) && backlog < SNIC_DIRECTOR__BACKLOG) {
        struct snic_director_conn *c =
            SNIC_CONTAINER(d->wait_backlog.next, struct snic_director_conn, wait);
        snic_link_remove(&c->wait);
        c->wait_for &= ~SNIC_DIRECTOR__WAIT_BACKLOG;
        c->woken = 1;
        director_ready(c);
        backlog += SNIC_DIRECTOR__BACKLOG_TURN;
    }
}

void director_backlog_fire(struct snic_timer *t, uint64_t now_ns)
{
    struct snic_director *d = SNIC_CONTAINER(t, struct snic_director, backlog_timer);
    (void)now_ns;
    d->taken = snic_max_u64(d->taken, d->backlog_mark); /* I1 */
    director_backlog_resume(d);
    if (!snic_link_alone(&d->wait_backlog))
        director_backlog_arm(d);
}
