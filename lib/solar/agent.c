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

static int solar_report_path(struct ebs_queue *q, struct snic_ebs_action *a)
{
    struct snic_solar *c = SNIC_CONTAINER(q, struct snic_solar, q);
    if (snic_link_alone(&c->path_events))
        return 0;
    struct solar_path *p = SNIC_CONTAINER(c->path_events.next, struct solar_path, event);
    a->server = p->server;
    a->path = p->index;
    if ((p->pending & SOLAR_PENDING_CLOSE) != 0) {
        a->type = SNIC_EBS_ACT_CLOSE;
        a->gen = p->close_gen;
        p->pending &= (uint8_t)~SOLAR_PENDING_CLOSE;
    } else {
        a->type = SNIC_EBS_ACT_OPEN;
        a->gen = p->gen;
        p->pending &= (uint8_t)~SOLAR_PENDING_OPEN;
    }
    if (p->pending == 0)
        snic_link_remove(&p->event);
    return 1;
}

static int solar_report_lent(struct ebs_queue *q, struct snic_ebs_action *a)
{
    struct snic_solar *c = SNIC_CONTAINER(q, struct snic_solar, q);
    struct solar_train *t = solar_train_next(&c->pool);
    if (t == NULL)
        return 0;
    a->type = SNIC_EBS_ACT_SEND;
    a->train = &t->t;
    return 1;
}

static void solar_send_waiting(struct ebs_queue *q)
{
    struct snic_solar *c = SNIC_CONTAINER(q, struct snic_solar, q);
    solar_read_credit(c);
    solar_send(c);
}

const struct ebs_queue_ops solar_queue_ops = {.made = solar_rpc_made,
                                              .leave = solar_rpc_leave,
                                              .begin = solar_rpc_begin,
                                              .give_up = solar_rpc_give_up,
                                              .end = solar_rpc_end,
                                              .report_lent = solar_report_lent,
                                              .report_path = solar_report_path,
                                              .send = solar_send_waiting};

uint32_t snic_solar_poll(struct snic_solar *c, struct snic_ebs_action *out, uint32_t max,
                         uint64_t now_ns)
{
    now_ns = snic_max_u64(c->q.now_ns, now_ns);
    c->q.now_ns = now_ns;
    if (!c->q.halted)
        solar_stall(c, now_ns);
    c->last_poll_ns = now_ns;
    c->expected_ns = now_ns;
    uint32_t n = ebs_queue_poll(&c->q, out, max);
    if (n < max) /* all actions are reported: the owner may sleep */
        c->expected_ns = snic_solar_deadline_ns(c);
    return n;
}

uint64_t snic_solar_deadline_ns(struct snic_solar *c)
{
    if (!snic_queue_empty((&c->pool.p.queue)) ||
        (!snic_link_alone(&c->path_events) && !c->q.halted))
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
