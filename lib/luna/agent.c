/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * The agent: what happens in one poll. In terms of the other files:
 *
 *   ebs_queue an I/O is queued, admitted, split into RPCs; placement of segments
 *   rpc.c     which blocks of it have to be sent (again), and their status at the server
 *   send.c    frames of such blocks for the connection that send.c chooses
 *   conn.c    connections: opened, watched, ended; recv.c their received bytes
 *   frame.c   code shared by both sides of the stream
 *   init.c    options and memory; check.c all invariants
 *
 * Timers fire here, after the owner has passed in all received bytes: so an answer that is missing
 * now is late.
 */
#include "luna/luna_priv.h"

/* The time from the deadline of poll until now is the owner's delay. */
static void luna_stall(struct snic_luna *c, uint64_t now_ns)
{
    uint64_t from = snic_max_u64(c->last_poll_ns, snic_min_u64(c->expected_ns, now_ns));
    if (now_ns - from <= c->o.stall_ns)
        return;
    c->lag_ns += now_ns - from;
    c->s.stalls++;
}

/* ---- Actions ---- */

static int luna_report_conn(struct ebs_queue *q, struct snic_ebs_action *a)
{
    struct snic_luna *c = SNIC_CONTAINER(q, struct snic_luna, q);
    if (snic_link_alone(&c->conn_events))
        return 0;
    struct luna_conn *n = SNIC_CONTAINER(c->conn_events.next, struct luna_conn, event);
    a->server = n->server;
    a->path = n->index;
    if ((n->pending & LUNA_PENDING_CLOSE) != 0) {
        a->type = SNIC_EBS_ACT_CLOSE;
        a->gen = n->close_gen;
        a->reason = n->reason;
        n->pending &= (uint8_t)~LUNA_PENDING_CLOSE;
    } else if ((n->pending & LUNA_PENDING_CONNECT) != 0) {
        a->type = SNIC_EBS_ACT_OPEN;
        a->gen = n->gen;
        c->s.connects++;
        n->pending &= (uint8_t)~LUNA_PENDING_CONNECT;
    }
    if (n->pending == 0)
        snic_link_remove(&n->event);
    return a->type != 0;
}

/* A queued send of a connection that has ended is returned at once. */
static int luna_report_lent(struct ebs_queue *q, struct snic_ebs_action *a)
{
    struct snic_luna *c = SNIC_CONTAINER(q, struct snic_luna, q);
    struct luna_out *o;
    while ((o = luna_out_next(&c->pool)) != NULL) {
        const struct luna_conn *n = &c->servers[o->s.server].conns[o->s.conn];
        if (!c->q.halted && n->gen == o->s.gen && n->state >= SNIC_LUNA_GREETING) {
            a->type = SNIC_EBS_ACT_SEND;
            a->server = o->s.server;
            a->path = o->s.conn;
            a->gen = o->s.gen;
            a->send = &o->s;
            return 1;
        }
        snic_luna_sent(c, &o->s, c->q.now_ns);
    }
    return 0;
}

static void luna_send_waiting(struct ebs_queue *q)
{
    struct snic_luna *c = SNIC_CONTAINER(q, struct snic_luna, q);
    luna_send(c);
}

const struct ebs_queue_ops luna_queue_ops = {.made = luna_rpc_made,
                                             .leave = luna_rpc_leave,
                                             .begin = luna_rpc_begin,
                                             .give_up = luna_rpc_give_up,
                                             .end = luna_rpc_end,
                                             .report_lent = luna_report_lent,
                                             .report_path = luna_report_conn,
                                             .send = luna_send_waiting};

uint32_t snic_luna_poll(struct snic_luna *c, struct snic_ebs_action *out, uint32_t max,
                        uint64_t now_ns)
{
    now_ns = snic_max_u64(c->q.now_ns, now_ns);
    c->q.now_ns = now_ns;
    if (!c->q.halted)
        luna_stall(c, now_ns);
    c->last_poll_ns = now_ns;
    c->expected_ns = now_ns;
    uint32_t n = ebs_queue_poll(&c->q, out, max);
    if (n < max) /* all actions are reported: the owner may sleep */
        c->expected_ns = snic_luna_deadline_ns(c);
    return n;
}

uint64_t snic_luna_deadline_ns(struct snic_luna *c)
{
    if (!snic_queue_empty((&c->pool.p.queue)) ||
        (!snic_link_alone(&c->conn_events) && !c->q.halted))
        return c->q.now_ns;
    return ebs_queue_deadline_ns(&c->q);
}

void snic_luna_sent(struct snic_luna *c, struct snic_luna_send *s, uint64_t now_ns)
{
    struct luna_out *o = SNIC_CONTAINER(s, struct luna_out, s);
    c->q.now_ns = snic_max_u64(c->q.now_ns, now_ns);
    SNIC_ASSERT(s->index < c->pool.p.max && &c->pool.outs[s->index] == o);
    SNIC_ASSERT(s->state == EBS_LENT_OUT);
    for (uint32_t i = 0; i < s->frames; i++)
        if (o->rpc[i] != NULL)
            ebs_rpc_unref(&c->q, &o->rpc[i]->q);
    /* While other sends are free, no block waits for this one. */
    if (c->pool.p.free_count == 0)
        c->q.dirty = 1;
    luna_out_free(&c->pool, o);
}

/* ---- The end ---- */

void snic_luna_halt(struct snic_luna *c, uint64_t now_ns)
{
    struct luna_out *o;
    c->q.now_ns = snic_max_u64(c->q.now_ns, now_ns);
    c->q.halted = 1;
    while ((o = luna_out_next(&c->pool)) != NULL)
        snic_luna_sent(c, &o->s, now_ns);
    ebs_queue_halt(&c->q);
}

void snic_luna_get_stats(const struct snic_luna *c, struct snic_luna_stats *out)
{
    *out = c->s;
    SNIC_EBS__QUEUE_STATS(out, &c->q.s);
    out->sends_out = ebs_pool_out(&c->pool.p);
}
