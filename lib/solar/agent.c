/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * The agent: what happens in one poll. In terms of the other files:
 *
 *   ebs_queue an I/O is queued, admitted, split into RPCs; placement of segments
 *   rpc.c     which blocks of it have to be sent (again), and their status at the server
 *   send.c    trains of such blocks for the path that send.c chooses
 *   path.c    transmissions in flight on a path, loss, states; congestion.c its windows
 *   server.c  the handshake and the set of paths
 *   recv.c    answers
 *   init.c    options and memory; check.c all invariants
 *
 * Timers fire here, after the owner has passed in all received datagrams: so an answer that is
 * missing now is late.
 */
#include "solar/solar_priv.h"

/* The time from the deadline of poll until now is the owner's delay. If the owner first passes in
   the datagrams that arrived meanwhile, it counts up to that call, and once. */
void solar_stall(struct snic_solar *c, uint64_t now_ns)
{
    uint64_t from = snic_max_u64(c->last_poll_ns, snic_min_u64(c->expected_ns, now_ns));
    if (now_ns <= from || now_ns - from <= c->o.stall_ns)
        return;
    if (from != c->stall_to_ns) /* else the same delay continues */
        c->stall_from_ns = from;
    c->stall_to_ns = now_ns;
    c->last_poll_ns = now_ns;
    c->s.stalls++;
}

/* ---- Actions ---- */

static int solar_report_path(struct snic_solar *c, struct snic_solar_action *a)
{
    if (snic_link_alone(&c->path_events))
        return 0;
    struct solar_path *p = SNIC_CONTAINER(c->path_events.next, struct solar_path, event);
    a->server = p->server;
    a->path = p->index;
    if ((p->pending & SOLAR_PENDING_CLOSE) != 0) {
        a->type = SNIC_SOLAR_PATH_CLOSE;
        a->gen = p->close_gen;
        p->pending &= (uint8_t)~SOLAR_PENDING_CLOSE;
    } else {
        a->type = SNIC_SOLAR_PATH_OPEN;
        a->gen = p->gen;
        p->pending &= (uint8_t)~SOLAR_PENDING_OPEN;
    }
    if (p->pending == 0)
        snic_link_remove(&p->event);
    return 1;
}

static int solar_report_server(struct snic_solar *c, struct snic_solar_action *a)
{
    if (snic_link_alone(&c->server_events))
        return 0;
    struct solar_server *s = SNIC_CONTAINER(c->server_events.next, struct solar_server, event);
    snic_link_remove(&s->event);
    a->type = s->pending;
    a->server = s->index;
    return 1;
}

static int solar_report_queue(struct snic_solar *c, struct snic_solar_action *a)
{
    struct ebs_event ev;
    if (!ebs_queue_event(&c->q, &ev))
        return 0;
    a->type = ev.lease ? SNIC_SOLAR_LEASE : ev.token ? SNIC_SOLAR_TOKEN : SNIC_SOLAR_MAP;
    a->disk = ev.disk;
    a->segment = ev.segment;
    a->gen32 = ev.gen32;
    return 1;
}

static int solar_report_io(struct snic_solar_action *a, enum snic_solar_act type,
                           struct snic_ebs_io *io)
{
    if (io == NULL)
        return 0;
    a->type = type;
    a->io = io;
    return 1;
}

static int solar_report_train(struct snic_solar *c, struct snic_solar_action *a)
{
    struct solar_train *t = solar_train_next(&c->pool);
    if (t == NULL)
        return 0;
    a->type = SNIC_SOLAR_TX;
    a->train = &t->t;
    return 1;
}

static int solar_report(struct snic_solar *c, struct snic_solar_action *a)
{
    memset(a, 0, sizeof(*a));
    if (solar_report_train(c, a) || solar_report_io(a, SNIC_SOLAR_DONE, ebs_queue_done(&c->q)))
        return 1;
    return !c->q.halted &&
           (solar_report_path(c, a) || solar_report_queue(c, a) || solar_report_server(c, a) ||
            solar_report_io(a, SNIC_SOLAR_SLOW, ebs_queue_slow(&c->q)));
}

uint32_t snic_solar_poll(struct snic_solar *c, struct snic_solar_action *out, uint32_t max,
                         uint64_t now_ns)
{
    uint32_t n = 0;
    int worked = c->q.halted;
    now_ns = snic_max_u64(c->q.now_ns, now_ns);
    c->q.now_ns = now_ns;
    if (!c->q.halted)
        solar_stall(c, now_ns);
    c->last_poll_ns = now_ns;
    c->expected_ns = now_ns;
    while (n < max) {
        if (solar_report(c, &out[n])) {
            n++;
            worked = c->q.halted;
        } else if (!worked) {
            if (ebs_queue_work(&c->q)) {
                solar_read_credit(c);
                solar_send(c);
            }
            worked = 1;
        } else {
            break;
        }
    }
    if (n < max) /* all actions are reported: the owner may sleep */
        c->expected_ns = snic_solar_deadline_ns(c);
    return n;
}

uint64_t snic_solar_deadline_ns(struct snic_solar *c)
{
    int events = !snic_link_alone(&c->path_events) || !snic_link_alone(&c->server_events);
    if (!snic_queue_empty((&c->pool.p.queue)) || (events && !c->q.halted))
        return c->q.now_ns;
    return ebs_queue_deadline_ns(&c->q);
}

void snic_solar_sent(struct snic_solar *c, struct snic_solar_train *t, uint64_t now_ns)
{
    struct solar_train *train = SNIC_CONTAINER(t, struct solar_train, t);
    c->q.now_ns = snic_max_u64(c->q.now_ns, now_ns);
    SNIC_ASSERT(t->index < c->pool.p.max && &c->pool.trains[t->index] == train);
    for (uint32_t i = 0; i < t->packets; i++)
        if (train->rpc[i] != NULL)
            ebs_rpc_unref(&c->q, &train->rpc[i]->q);
    /* While other trains are free, no block waits for this one. */
    if (c->pool.p.free_count == 0)
        c->q.dirty = 1;
    solar_train_free(&c->pool, train);
}

/* ---- The end ---- */

void snic_solar_halt(struct snic_solar *c, uint64_t now_ns)
{
    struct solar_train *t;
    c->q.now_ns = snic_max_u64(c->q.now_ns, now_ns);
    c->q.halted = 1;
    while ((t = solar_train_next(&c->pool)) != NULL)
        snic_solar_sent(c, &t->t, now_ns);
    ebs_queue_halt(&c->q);
}

void snic_solar_get_stats(const struct snic_solar *c, struct snic_solar_stats *out)
{
    *out = c->s;
    SNIC_EBS__QUEUE_STATS(out, &c->q.s);
    out->trains_out = ebs_pool_out(&c->pool.p);
    out->read_out = c->read_out;
}
