/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * When a connection ends, and what is done when it has nothing more to send.
 *
 * I1  A connection is idle again only when both ends are closed, the offload engine holds none of
 *     its slots, and the host has been notified.
 */
#include "director/director_priv.h"

/* Is @held more than a share of @rest, without the quarter of @all for those that hold nothing? */
static int director_unfair(uint64_t held, uint64_t rest, uint64_t all)
{
    rest = rest > all / 4 ? rest - all / 4 : 0;
    return held > rest / SNIC_DIRECTOR__SHARE;
}

/*
 * Would @c have more than its share of the engine's pool, or of its contexts, in replies that its
 * client does not take and in reads under way? Then it waits for these: no other has to.
 */
int director_offload_unfair(const struct snic_director_conn *c)
{
    const struct snic_offload *o = c->d->offload;
    uint32_t contexts = snic_offload_contexts(o);
    return director_unfair(c->job_bytes + (uint64_t)c->offloading * c->reply,
                           snic_offload_pool_free(o), snic_offload_pool_bytes(o)) ||
           director_unfair((uint64_t)c->job_contexts + c->offloading,
                           contexts - snic_offload_active(o), contexts);
}

/* The net's handle is gone, or was never there. */
static int director_end_gone(const struct director_end *e)
{
    return e->net == NULL && !e->dead;
}

/* Is it the end of a drain? */
void director_drain_check(struct snic_director *d)
{
    if (d->draining == 1 && snic_link_alone(&d->all) && d->refusals_used == 0) {
        snic_loop_cancel(d->loop, &d->drain);
        snic_loop_defer(d->loop, &d->drained_msg);
        d->draining = 2;
    }
}

/* I1 */
void director_conn_release(struct snic_director_conn *c)
{
    struct snic_director *d = c->d;
    if (!c->used || !c->dead || !director_end_gone(&c->client) || !director_end_gone(&c->host) ||
        c->offloading > 0 || c->notify)
        return;
    SNIC_ASSERT(c->pending == 0 && c->mem == 0 && c->flight == 0 && c->part == NULL);
    c->used = 0;
    snic_loop_unready(d->loop, &c->task);
    snic_link_remove(&c->link);
    snic_link_append(d->idle.next, &c->link); /* first: it is in the caches */
    d->stats.conns--;
    d->stats.closed++;
    director_drain_check(d);
}

static void director_end_close(struct director_end *e)
{
    if (e->net != NULL && !e->closing) {
        e->closing = 1;
        snic_net_close(e->net);
    }
}

/* Has what the connection itself can do about its waiting been done? */
static int director_conn_may_go_on(const struct snic_director_conn *c)
{
    if ((c->wait_for & SNIC_DIRECTOR__WAIT_POOL) && !director_offload_unfair(c))
        return 1;
    if (c->host.in_count > 0) /* what the host has sent may be what all wait for */
        return c->mem <= c->d->opts.conn_bytes / 2;
    return (c->wait_for & SNIC_DIRECTOR__WAIT_BOUND) && c->pending < c->window &&
           c->mem <= director_share(c) / 2 && !director_flight_full(c);
}

/* Everything that should happen when there is nothing more to send, or nothing more at all. */
void director_conn_check(struct snic_director_conn *c)
{
    if (c->dead) {
        director_conn_release(c);
        return;
    }
    if (c->raw) {
        if (c->client.eof && c->client.in_count == 0 && director_out_empty(&c->host) &&
            c->host.open && !c->host.shut && c->host.net != NULL) {
            c->host.shut = 1;
            snic_net_shutdown(c->host.net);
        }
        if (c->host.eof && c->host.in_count == 0 && director_out_empty(&c->client) &&
            !c->client.shut && c->client.net != NULL) {
            c->client.shut = 1;
            snic_net_shutdown(c->client.net);
        }
        if (c->closing && c->host.in_count == 0 && director_out_empty(&c->client))
            director_end_close(&c->client);
    } else if (c->closing || (c->client.eof && c->client.in_count == 0 && c->msg == NULL &&
                              snic_link_alone(&c->slots))) {
        if (c->client.cursor == NULL)
            director_end_close(&c->client);
    }
    if (c->wait_for & SNIC_DIRECTOR__WAIT_UNREAD)
        director_unread_moved(c);
    if (snic_link_alone(&c->wait) && director_conn_may_go_on(c))
        director_ready(c);
}
