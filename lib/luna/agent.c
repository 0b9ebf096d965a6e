/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * The agent: what happens in one poll. In terms of the other files:
 *
 *   disk.c    disks, their limits, where their segments are
 *   io.c      an I/O is queued, admitted, split into RPCs
 *   rpc.c     which blocks of it have to be sent (again), and what the server said of them
 *   ask.c     when the owner is asked where a segment is
 *   send.c    frames of such blocks for the connection that send.c chooses
 *   conn.c    connections: made, watched, ended; recv.c what comes by them
 *   frame.c   what both sides of the stream share
 *   init.c    options and memory; check.c all invariants
 *
 * Timers fire here, after the owner has handed in all that came: what looks late is late.
 */
#include "luna/luna_priv.h"

/* The time between when we should have been called and now is nobody's fault but our owner's. */
static void luna_stall(struct snic_luna *c, uint64_t now_ns)
{
    uint64_t from = snic_max_u64(c->last_poll_ns, snic_min_u64(c->expected_ns, now_ns));
    if (now_ns - from <= c->o.stall_ns)
        return;
    c->lag_ns += now_ns - from;
    c->s.stalls++;
}

static void luna_work(struct snic_luna *c)
{
    struct snic_timer *t;
    while ((t = snic_wheel_pop(&c->wheel, c->now_ns)) != NULL)
        t->fn(t, c->now_ns);
    luna_age(c);
    luna_ask_again(c);
    if (c->dirty || c->now_ns >= c->qos_ns) {
        c->dirty = 0;
        luna_admit(c);
        luna_send(c);
    }
}

/* ---- Actions ---- */

static int luna_say_conn(struct snic_luna *c, struct snic_luna_action *a)
{
    if (snic_link_alone(&c->conn_events))
        return 0;
    struct luna_conn *n = SNIC_CONTAINER(c->conn_events.next, struct luna_conn, event);
    a->server = n->server;
    a->conn = n->index;
    if ((n->say & LUNA_SAY_CLOSE) != 0) {
        a->type = SNIC_LUNA_CLOSE;
        a->gen = n->close_gen;
        a->reason = n->reason;
        n->say &= (uint8_t)~LUNA_SAY_CLOSE;
    } else if ((n->say & LUNA_SAY_CONNECT) != 0) {
        a->type = SNIC_LUNA_CONNECT;
        a->gen = n->gen;
        c->s.connects++;
        n->say &= (uint8_t)~LUNA_SAY_CONNECT;
    }
    if (n->say == 0)
        snic_link_remove(&n->event);
    return a->type != 0;
}

static int luna_say_server(struct snic_luna *c, struct snic_luna_action *a)
{
    if (snic_link_alone(&c->server_events))
        return 0;
    struct luna_server *s = SNIC_CONTAINER(c->server_events.next, struct luna_server, event);
    snic_link_remove(&s->event);
    a->type = s->say;
    a->server = s->index;
    return 1;
}

static int luna_say_disk(struct snic_luna *c, struct snic_luna_action *a)
{
    if (snic_link_alone(&c->disk_events))
        return 0;
    struct luna_disk *d = SNIC_CONTAINER(c->disk_events.next, struct luna_disk, event);
    a->disk = d->index;
    if (d->say) {
        d->say = 0;
        a->type = SNIC_LUNA_LEASE;
    } else if (d->say_map) {
        luna_ask_say_disk(c, d, a);
    }
    if (!d->say && !d->say_map)
        snic_link_remove(&d->event);
    return a->type != 0;
}

static int luna_say_done(struct snic_luna *c, struct snic_luna_action *a)
{
    if (snic_link_alone(&c->done))
        return 0;
    a->type = SNIC_LUNA_DONE;
    a->io = SNIC_CONTAINER(c->done.next, struct snic_luna_io, link);
    snic_link_remove(&a->io->link);
    c->s.ios[a->io->op]++;
    c->s.failed += a->io->result != 0;
    c->s.inside--;
    return 1;
}

static int luna_say_slow(struct snic_luna *c, struct snic_luna_action *a)
{
    if (c->slow == &c->ages)
        return 0;
    struct snic_luna_io *io = SNIC_CONTAINER(c->slow, struct snic_luna_io, age);
    if (c->now_ns < io->submitted_ns + c->o.slow_ns)
        return 0;
    c->slow = io->age.next;
    c->s.slow++;
    a->type = SNIC_LUNA_SLOW;
    a->io = io;
    return 1;
}

/* What was to go to a connection that is over comes back at once. */
static int luna_say_send(struct snic_luna *c, struct snic_luna_action *a)
{
    struct luna_out *o;
    while ((o = luna_out_next(&c->pool)) != NULL) {
        const struct luna_conn *n = &c->servers[o->s.server].conns[o->s.conn];
        if (!c->halted && n->gen == o->s.gen && n->state >= SNIC_LUNA_GREETING) {
            a->type = SNIC_LUNA_SEND;
            a->server = o->s.server;
            a->conn = o->s.conn;
            a->gen = o->s.gen;
            a->send = &o->s;
            return 1;
        }
        snic_luna_sent(c, &o->s, c->now_ns);
    }
    return 0;
}

static int luna_say(struct snic_luna *c, struct snic_luna_action *a)
{
    memset(a, 0, sizeof(*a));
    if (luna_say_send(c, a) || luna_say_done(c, a))
        return 1;
    if (c->halted)
        return 0;
    return luna_say_conn(c, a) || luna_ask_say(c, a) || luna_say_disk(c, a) ||
           luna_say_server(c, a) || luna_say_slow(c, a);
}

uint32_t snic_luna_poll(struct snic_luna *c, struct snic_luna_action *out, uint32_t max,
                        uint64_t now_ns)
{
    uint32_t n = 0;
    int worked = c->halted;
    now_ns = snic_max_u64(c->now_ns, now_ns);
    c->now_ns = now_ns;
    if (!c->halted)
        luna_stall(c, now_ns);
    c->last_poll_ns = now_ns;
    c->expected_ns = now_ns;
    while (n < max) {
        if (luna_say(c, &out[n])) {
            n++;
            worked = c->halted;
        } else if (!worked) {
            luna_work(c);
            worked = 1;
        } else {
            break;
        }
    }
    if (n < max) /* all said: the owner may sleep */
        c->expected_ns = snic_luna_deadline_ns(c);
    return n;
}

uint64_t snic_luna_deadline_ns(struct snic_luna *c)
{
    if (!snic_link_alone(&c->done) || !snic_queue_empty((&c->pool.queue)))
        return c->now_ns;
    if (c->halted)
        return SNIC_NEVER;
    if (c->dirty || !snic_link_alone(&c->conn_events) || snic_ebs_asks_first(&c->asks) != NULL ||
        !snic_link_alone(&c->disk_events) || !snic_link_alone(&c->server_events))
        return c->now_ns;
    uint64_t due = snic_min_u64(snic_wheel_deadline_ns(&c->wheel), luna_age_deadline(c));
    due = snic_min_u64(due, luna_ask_deadline(c));
    return snic_min_u64(due, c->qos_ns);
}

void snic_luna_sent(struct snic_luna *c, struct snic_luna_send *s, uint64_t now_ns)
{
    struct luna_out *o = SNIC_CONTAINER(s, struct luna_out, s);
    c->now_ns = snic_max_u64(c->now_ns, now_ns);
    SNIC_ASSERT(s->index < c->pool.max && &c->pool.outs[s->index] == o);
    SNIC_ASSERT(s->state == LUNA_OUT_LENT);
    for (uint32_t i = 0; i < s->frames; i++)
        if (o->rpc[i] != NULL)
            luna_rpc_unref(c, o->rpc[i]);
    /* With sends to spare nothing waits for this one. */
    if (c->pool.free_count == 0)
        c->dirty = 1;
    luna_out_free(&c->pool, o);
}

/* ---- The end ---- */

void snic_luna_halt(struct snic_luna *c, uint64_t now_ns)
{
    struct luna_out *o;
    c->now_ns = snic_max_u64(c->now_ns, now_ns);
    c->halted = 1;
    while ((o = luna_out_next(&c->pool)) != NULL)
        snic_luna_sent(c, &o->s, now_ns);
    while (!snic_link_alone(&c->ages)) {
        struct snic_luna_io *io = SNIC_CONTAINER(c->ages.next, struct snic_luna_io, age);
        struct luna_disk *d = &c->disks[io->disk];
        snic_link_remove(&io->age);
        c->slow = &c->ages;
        if (io->op == SNIC_LUNA_FLUSH)
            continue;
        if (io->cursor < io->blocks) {
            io->cursor = io->blocks;
            io->result = SNIC_EUNKNOWN;
            snic_link_remove(&io->link);
        }
        io->rpcs++;
        for (struct snic_link *l = d->rpcs.next, *next; l != &d->rpcs; l = next) {
            struct luna_rpc *r = SNIC_CONTAINER(l, struct luna_rpc, of_disk);
            next = l->next;
            if (r->io == io)
                luna_rpc_halt(c, r);
        }
        io->rpcs--;
        luna_io_progress(c, io);
    }
    /* What was given up before, and waits for its fence, is no longer among the ages. */
    for (uint32_t i = 0; i < c->o.rpcs_max; i++)
        if (c->rpcs[i].where != LUNA_FREE)
            luna_rpc_halt(c, &c->rpcs[i]);
}

void snic_luna_get_stats(const struct snic_luna *c, struct snic_luna_stats *out)
{
    *out = c->s;
    out->sends_out = c->pool.max - c->pool.free_count - c->pool.queued;
}
