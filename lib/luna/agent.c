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

static int luna_report_conn(struct snic_luna *c, struct snic_luna_action *a)
{
    if (snic_link_alone(&c->conn_events))
        return 0;
    struct luna_conn *n = SNIC_CONTAINER(c->conn_events.next, struct luna_conn, event);
    a->server = n->server;
    a->conn = n->index;
    if ((n->pending & LUNA_PENDING_CLOSE) != 0) {
        a->type = SNIC_LUNA_CLOSE;
        a->gen = n->close_gen;
        a->reason = n->reason;
        n->pending &= (uint8_t)~LUNA_PENDING_CLOSE;
    } else if ((n->pending & LUNA_PENDING_CONNECT) != 0) {
        a->type = SNIC_LUNA_CONNECT;
        a->gen = n->gen;
        c->s.connects++;
        n->pending &= (uint8_t)~LUNA_PENDING_CONNECT;
    }
    if (n->pending == 0)
        snic_link_remove(&n->event);
    return a->type != 0;
}

static int luna_report_server(struct snic_luna *c, struct snic_luna_action *a)
{
    if (snic_link_alone(&c->server_events))
        return 0;
    struct luna_server *s = SNIC_CONTAINER(c->server_events.next, struct luna_server, event);
    snic_link_remove(&s->event);
    a->type = s->pending;
    a->server = s->index;
    return 1;
}

static int luna_report_queue(struct snic_luna *c, struct snic_luna_action *a)
{
    struct ebs_event ev;
    if (!ebs_queue_event(&c->q, &ev))
        return 0;
    a->type = ev.lease ? SNIC_LUNA_LEASE : ev.token ? SNIC_LUNA_TOKEN : SNIC_LUNA_MAP;
    a->disk = ev.disk;
    a->segment = ev.segment;
    a->gen32 = ev.gen32;
    return 1;
}

static int luna_report_io(struct snic_luna_action *a, enum snic_luna_act type,
                          struct snic_ebs_io *io)
{
    if (io == NULL)
        return 0;
    a->type = type;
    a->io = io;
    return 1;
}

/* A queued send of a connection that has ended is returned at once. */
static int luna_report_send(struct snic_luna *c, struct snic_luna_action *a)
{
    struct luna_out *o;
    while ((o = luna_out_next(&c->pool)) != NULL) {
        const struct luna_conn *n = &c->servers[o->s.server].conns[o->s.conn];
        if (!c->q.halted && n->gen == o->s.gen && n->state >= SNIC_LUNA_GREETING) {
            a->type = SNIC_LUNA_SEND;
            a->server = o->s.server;
            a->conn = o->s.conn;
            a->gen = o->s.gen;
            a->send = &o->s;
            return 1;
        }
        snic_luna_sent(c, &o->s, c->q.now_ns);
    }
    return 0;
}

static int luna_report(struct snic_luna *c, struct snic_luna_action *a)
{
    memset(a, 0, sizeof(*a));
    if (luna_report_send(c, a) || luna_report_io(a, SNIC_LUNA_DONE, ebs_queue_done(&c->q)))
        return 1;
    if (c->q.halted)
        return 0;
    return luna_report_conn(c, a) || luna_report_queue(c, a) || luna_report_server(c, a) ||
           luna_report_io(a, SNIC_LUNA_SLOW, ebs_queue_slow(&c->q));
}

uint32_t snic_luna_poll(struct snic_luna *c, struct snic_luna_action *out, uint32_t max,
                        uint64_t now_ns)
{
    uint32_t n = 0;
    int worked = c->q.halted;
    now_ns = snic_max_u64(c->q.now_ns, now_ns);
    c->q.now_ns = now_ns;
    if (!c->q.halted)
        luna_stall(c, now_ns);
    c->last_poll_ns = now_ns;
    c->expected_ns = now_ns;
    while (n < max) {
        if (luna_report(c, &out[n])) {
            n++;
            worked = c->q.halted;
        } else if (!worked) {
            if (ebs_queue_work(&c->q))
                luna_send(c);
            worked = 1;
        } else {
            break;
        }
    }
    if (n < max) /* all actions are reported: the owner may sleep */
        c->expected_ns = snic_luna_deadline_ns(c);
    return n;
}

uint64_t snic_luna_deadline_ns(struct snic_luna *c)
{
    int events = !snic_link_alone(&c->conn_events) || !snic_link_alone(&c->server_events);
    if (!snic_queue_empty((&c->pool.p.queue)) || (events && !c->q.halted))
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
