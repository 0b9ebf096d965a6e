/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * The agent: what happens in one poll. In terms of the other files:
 *
 *   disk.c    an I/O is queued, admitted, split into RPCs
 *   rpc.c     which blocks of it have to be sent (again), and what the server said of them
 *   ask.c     when the owner is asked where a segment is
 *   send.c    trains of such blocks for the path that send.c chooses
 *   path.c    what is under way on a path, loss, states; congestion.c its windows
 *   server.c  the handshake and the set of paths
 *   recv.c    answers
 *   init.c    options and memory; check.c all invariants
 *
 * Timers fire here, after the owner has handed in all that came: what looks late is late.
 */
#include "solar/solar_priv.h"

/* The time between when we should have been called and now is nobody's fault but our owner's. It
   may begin by handing in what came meanwhile: then it counts up to there, and once. */
void solar_stall(struct snic_solar *c, uint64_t now_ns)
{
    uint64_t from = snic_max_u64(c->last_poll_ns, snic_min_u64(c->expected_ns, now_ns));
    if (now_ns <= from || now_ns - from <= c->o.stall_ns)
        return;
    if (from != c->stall_to_ns) /* else it goes on */
        c->stall_from_ns = from;
    c->stall_to_ns = now_ns;
    c->last_poll_ns = now_ns;
    c->s.stalls++;
}

static void solar_work(struct snic_solar *c)
{
    struct snic_timer *t;
    while ((t = snic_wheel_pop(&c->wheel, c->now_ns)) != NULL)
        t->fn(t, c->now_ns);
    solar_age(c);
    solar_ask_again(c);
    if (c->dirty || c->now_ns >= c->qos_ns) {
        c->dirty = 0;
        solar_admit(c);
        solar_send(c);
    }
}

/* ---- Actions ---- */

static int solar_say_path(struct snic_solar *c, struct snic_solar_action *a)
{
    if (snic_link_alone(&c->path_events))
        return 0;
    struct solar_path *p = SNIC_CONTAINER(c->path_events.next, struct solar_path, event);
    a->server = p->server;
    a->path = p->index;
    if ((p->say & SOLAR_SAY_CLOSE) != 0) {
        a->type = SNIC_SOLAR_PATH_CLOSE;
        a->gen = p->close_gen;
        p->say &= (uint8_t)~SOLAR_SAY_CLOSE;
    } else {
        a->type = SNIC_SOLAR_PATH_OPEN;
        a->gen = p->gen;
        p->say &= (uint8_t)~SOLAR_SAY_OPEN;
    }
    if (p->say == 0)
        snic_link_remove(&p->event);
    return 1;
}

static int solar_say_server(struct snic_solar *c, struct snic_solar_action *a)
{
    if (snic_link_alone(&c->server_events))
        return 0;
    struct solar_server *s = SNIC_CONTAINER(c->server_events.next, struct solar_server, event);
    snic_link_remove(&s->event);
    a->type = s->say;
    a->server = s->index;
    return 1;
}

static int solar_say_disk(struct snic_solar *c, struct snic_solar_action *a)
{
    if (snic_link_alone(&c->disk_events))
        return 0;
    struct solar_disk *d = SNIC_CONTAINER(c->disk_events.next, struct solar_disk, event);
    a->disk = d->index;
    if (d->say) {
        d->say = 0;
        a->type = SNIC_SOLAR_LEASE;
    } else if (d->say_map) {
        solar_ask_say_disk(c, d, a);
    }
    if (!d->say && !d->say_map)
        snic_link_remove(&d->event);
    return a->type != 0;
}

static int solar_say_done(struct snic_solar *c, struct snic_solar_action *a)
{
    if (snic_link_alone(&c->done))
        return 0;
    a->type = SNIC_SOLAR_DONE;
    a->io = SNIC_CONTAINER(c->done.next, struct snic_solar_io, link);
    snic_link_remove(&a->io->link);
    c->s.ios[a->io->op]++;
    c->s.failed += a->io->result != 0;
    c->s.inside--;
    return 1;
}

static int solar_say_slow(struct snic_solar *c, struct snic_solar_action *a)
{
    if (c->slow == &c->ages)
        return 0;
    struct snic_solar_io *io = SNIC_CONTAINER(c->slow, struct snic_solar_io, age);
    if (c->now_ns < io->submitted_ns + c->o.slow_ns)
        return 0;
    c->slow = io->age.next;
    c->s.slow++;
    a->type = SNIC_SOLAR_SLOW;
    a->io = io;
    return 1;
}

static int solar_say_train(struct snic_solar *c, struct snic_solar_action *a)
{
    struct snic_node *n = snic_queue_pop(&c->pool.queue);
    if (n == NULL)
        return 0;
    struct solar_train *t = SNIC_CONTAINER(n, struct solar_train, t.node);
    c->pool.queued--;
    t->t.state = SOLAR_TRAIN_LENT;
    a->type = SNIC_SOLAR_TX;
    a->train = &t->t;
    return 1;
}

static int solar_say(struct snic_solar *c, struct snic_solar_action *a)
{
    memset(a, 0, sizeof(*a));
    if (solar_say_train(c, a) || solar_say_done(c, a))
        return 1;
    return !c->halted && (solar_say_path(c, a) || solar_ask_say(c, a) || solar_say_disk(c, a) ||
                          solar_say_server(c, a) || solar_say_slow(c, a));
}

uint32_t snic_solar_poll(struct snic_solar *c, struct snic_solar_action *out, uint32_t max,
                         uint64_t now_ns)
{
    uint32_t n = 0;
    int worked = c->halted;
    now_ns = snic_max_u64(c->now_ns, now_ns);
    c->now_ns = now_ns;
    if (!c->halted)
        solar_stall(c, now_ns);
    c->last_poll_ns = now_ns;
    c->expected_ns = now_ns;
    while (n < max) {
        if (solar_say(c, &out[n])) {
            n++;
            worked = c->halted;
        } else if (!worked) {
            solar_work(c);
            worked = 1;
        } else {
            break;
        }
    }
    if (n < max) /* all said: the owner may sleep */
        c->expected_ns = snic_solar_deadline_ns(c);
    return n;
}

uint64_t snic_solar_deadline_ns(struct snic_solar *c)
{
    if (!snic_link_alone(&c->done) || !snic_queue_empty((&c->pool.queue)))
        return c->now_ns;
    if (c->halted)
        return SNIC_NEVER;
    if (!snic_link_alone(&c->path_events) || snic_ebs_asks_first(&c->asks) != NULL ||
        !snic_link_alone(&c->disk_events) || !snic_link_alone(&c->server_events) || c->dirty)
        return c->now_ns;
    uint64_t due = snic_min_u64(snic_wheel_deadline_ns(&c->wheel), solar_age_deadline(c));
    due = snic_min_u64(due, solar_ask_deadline(c));
    return snic_min_u64(due, c->qos_ns);
}

void snic_solar_sent(struct snic_solar *c, struct snic_solar_train *t, uint64_t now_ns)
{
    struct solar_train *train = SNIC_CONTAINER(t, struct solar_train, t);
    c->now_ns = snic_max_u64(c->now_ns, now_ns);
    SNIC_ASSERT(t->index < c->pool.max && &c->pool.trains[t->index] == train);
    for (uint32_t i = 0; i < t->packets; i++)
        if (train->rpc[i] != NULL)
            solar_rpc_unref(c, train->rpc[i]);
    /* With trains to spare nothing waits for this one. */
    if (c->pool.free_count == 0)
        c->dirty = 1;
    solar_train_free(&c->pool, train);
}

/* ---- The end ---- */

void snic_solar_halt(struct snic_solar *c, uint64_t now_ns)
{
    struct snic_node *n;
    c->now_ns = snic_max_u64(c->now_ns, now_ns);
    c->halted = 1;
    while ((n = snic_queue_pop(&c->pool.queue)) != NULL) {
        struct solar_train *t = SNIC_CONTAINER(n, struct solar_train, t.node);
        c->pool.queued--;
        t->t.state = SOLAR_TRAIN_LENT;
        snic_solar_sent(c, &t->t, now_ns);
    }
    while (!snic_link_alone(&c->ages)) {
        struct snic_solar_io *io = SNIC_CONTAINER(c->ages.next, struct snic_solar_io, age);
        struct solar_disk *d = &c->disks[io->disk];
        snic_link_remove(&io->age);
        c->slow = &c->ages;
        if (io->op == SNIC_SOLAR_FLUSH)
            continue;
        if (io->cursor < io->blocks) {
            io->cursor = io->blocks;
            io->result = SNIC_EUNKNOWN;
            snic_link_remove(&io->link);
        }
        io->rpcs++;
        for (struct snic_link *l = d->rpcs.next, *next; l != &d->rpcs; l = next) {
            struct solar_rpc *r = SNIC_CONTAINER(l, struct solar_rpc, of_disk);
            next = l->next;
            if (r->io == io)
                solar_rpc_halt(c, r);
        }
        io->rpcs--;
        solar_io_progress(c, io);
    }
    /* What was given up before, and waits for its fence, is no longer among the ages. */
    for (uint32_t i = 0; i < c->o.rpcs_max; i++)
        if (c->rpcs[i].where != SOLAR_FREE)
            solar_rpc_halt(c, &c->rpcs[i]);
}

void snic_solar_get_stats(const struct snic_solar *c, struct snic_solar_stats *out)
{
    *out = c->s;
    out->trains_out = c->pool.max - c->pool.free_count - c->pool.queued;
    out->read_out = c->read_out;
}
