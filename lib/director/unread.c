/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * Connections that hold many bytes of replies, because their clients do not read, or read more
 * slowly than they are answered. What they send is answered like everything else until the memory
 * for replies is used up; all of them together get as much of the host and the engine as one.
 *
 * I1  A connection that holds more than SNIC_DIRECTOR__UNREAD takes a message only while all such
 *     connections have none under way, or, with the expected replies, less than half of
 *     flight_bytes. A message of another client waits for so much of theirs, however many they
 *     are, and for the one message that each may have decided before the ring to the host was full.
 * I2  Those that wait resume in order, one in an iteration, while I1 has room; one that has read
 *     enough, at once. After its turn it queues behind the others.
 * I3  What a new connection's replies will be is not known. While clients hold more than
 *     flight_bytes of replies, it begins with one message.
 * I4  A host at a net connection may not finish a reply before its client reads, so nothing waits
 *     for these.
 */
#include "director/director_priv.h"

/* Is @c one of I1? */
int director_unread(const struct snic_director_conn *c)
{
    const struct snic_director *d = c->d;
    return c->mem > SNIC_DIRECTOR__UNREAD && (d->channel != NULL || !d->host_net); /* I4 */
}

/* Messages that a new connection may have under way: I3. */
uint32_t director_unread_window(const struct snic_director *d)
{
    return d->held > d->opts.flight_bytes ? 1 : SNIC_DIRECTOR__WINDOW;
}

/* I1 */
static int director_unread_full(const struct snic_director *d)
{
    return d->unread_flight > 0 && d->unread_flight >= d->opts.flight_bytes / 2;
}

/* I1: 1 if @c has to wait before it takes a message. */
int director_unread_wait(struct snic_director_conn *c)
{
    struct snic_director *d = c->d;
    if (!director_unread(c) ||
        (!director_unread_full(d) && (c->resumed || snic_link_alone(&d->wait_unread))))
        return 0;
    c->resumed = 0;
    d->stats.unread_waits++;
    snic_link_remove(&c->wait);
    snic_link_append(&d->wait_unread, &c->wait);
    c->wait_for |= SNIC_DIRECTOR__WAIT_UNREAD;
    return 1;
}

static void director_unread_ready(struct snic_director_conn *c)
{
    snic_link_remove(&c->wait);
    c->wait_for &= ~SNIC_DIRECTOR__WAIT_UNREAD;
    c->resumed = 1;
    director_ready(c);
}

/* @c waits, and holds less than before: I2. */
void director_unread_moved(struct snic_director_conn *c)
{
    if (c->mem <= SNIC_DIRECTOR__UNREAD / 2)
        director_unread_ready(c);
}

/* I2: one at a time, since the first may take all that is free. */
void director_unread_resume(struct snic_director *d)
{
    if (!snic_link_alone(&d->wait_unread) && !director_unread_full(d))
        director_unread_ready(SNIC_CONTAINER(d->wait_unread.next, struct snic_director_conn, wait));
}
