/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * MINOS-B: the engine ddp on the host's cores. What a core does for an event lies one after the
 * other: taking it up, compare-and-swaps, the record's copy into the cache, each message posted;
 * then a persist that an operation waits for (Synch, Strict), which blocks the core (a persist is a
 * store and a fence of the core's own). In the other models the persist is queued behind what the
 * core has to do, and costs it background_permille of the time.
 *
 * With batching a message for all is posted once, and the NIC copies it out. With broadcast each
 * copy is posted, and the NIC sends one when it has all.
 */
#include "world.h"

#include <string.h>

static void host_posted(struct world *w, uint32_t node, uint32_t parcel);

static struct snic_ddp_opts host_opts(const struct world *w)
{
    struct snic_ddp_opts o;
    memset(&o, 0, sizeof(o));
    o.opts_size = sizeof(o);
    o.model = w->s.model;
    o.flags = SNIC_DDP_PAPER;
    o.keys_max = w->s.keys;
    o.writes_max = 1024;
    o.waits_max = 4096;
    o.reads_max = 1024;
    o.scopes_max = 1024;
    /* Nothing is lost, so nothing is sent again: ten days. */
    o.retransmit_ns = o.replay_ns = (uint64_t)1 << 50;
    return o;
}

size_t host_memsize(const struct world *w)
{
    struct snic_ddp_opts o = host_opts(w);
    return snic_ddp_memsize(&o);
}

void host_init(struct world *w, uint32_t node, void *mem, size_t size)
{
    struct world_node *n = &w->nodes[node];
    struct snic_ddp_opts o = host_opts(w);
    struct snic_ddp_view view;
    struct snic_ddp_event epoch = {.type = SNIC_DDP_EPOCH, .view = &view};
    struct snic_ddp_event lease = {.type = SNIC_DDP_LEASE, .ts = SNIC_NEVER};
    struct snic_ddp_action a;
    memset(&view, 0, sizeof(view));
    view.epoch = 1;
    view.full = (uint16_t)((1u << w->s.nodes) - 1);
    o.node = node;
    if (snic_ddp_init(&n->ddp, mem, size, &o) != 0 || snic_ddp_step(n->ddp, 0, &epoch) != 0 ||
        snic_ddp_poll(n->ddp, &a) != 0 || snic_ddp_step(n->ddp, 0, &lease) != 0 ||
        snic_ddp_poll(n->ddp, &a) != 0)
        minos_die("an engine does not begin");
}

static int host_broadcasts(const struct world *w)
{
    return w->s.design == MINOS_B_BROADCAST;
}

static int host_batches(const struct world *w)
{
    return w->s.design == MINOS_B_BATCHING;
}

static uint16_t host_count(uint16_t mask)
{
    uint16_t n = 0;
    for (; mask != 0; mask &= (uint16_t)(mask - 1))
        n++;
    return n;
}

/* CPU time of a persist that no operation waits for. */
static uint64_t host_background_time(const struct world *w)
{
    return world_persist(w) * w->p->v[MINOS_BACKGROUND] / 1000;
}

/* What a coordinator waits for last before it answers the client. */
static uint32_t host_last_ack(const struct world *w)
{
    if (w->s.model == SNIC_DDP_SYNCH)
        return SNIC_DDP_ACK;
    return w->s.model == SNIC_DDP_STRICT ? SNIC_DDP_ACK_P : SNIC_DDP_ACK_C;
}

/* Post @p a from @p at on; returns when the core has finished that. */
static uint64_t host_send(struct world *w, uint32_t node, uint32_t core, uint64_t at,
                          const struct snic_ddp_action *a)
{
    uint64_t each = world_ps(w, MINOS_HOST_MESSAGE);
    uint32_t type = a->msg.type;
    uint32_t acks = type == SNIC_DDP_ACK || type == SNIC_DDP_ACK_C || type == SNIC_DDP_ACK_P;
    uint8_t whose = (uint8_t)core;
    if (world_is_record(&a->msg)) {
        each += world_ps(w, MINOS_HOST_KILOBYTE);
        world_own(w, &a->msg, w->requester);
        w->client[w->requester].first_inv = at + each;
    }
    if (acks)
        whose = world_core_of(w, world_owner(w, &a->msg));
    if (type == SNIC_DDP_VAL || type == SNIC_DDP_VAL_C)
        at += world_ps(w, MINOS_CAS_HOST); /* the release that comes with it */
    uint16_t copies = host_count(a->to);
    if (host_batches(w) || host_broadcasts(w)) {
        uint32_t parcel = world_parcel_new(w, &a->msg, a->to, whose);
        w->parcels[parcel].left = host_batches(w) ? 1 : copies;
        for (uint16_t i = 0; i < w->parcels[parcel].left; i++)
            world_at(w, at += each, host_posted, node, parcel);
    } else {
        for (uint32_t to = 0; to < w->s.nodes; to++) {
            if ((a->to >> to & 1) == 0)
                continue;
            uint32_t parcel = world_parcel_new(w, &a->msg, (uint16_t)(1u << to), whose);
            w->parcels[parcel].left = 1;
            world_at(w, at += each, host_posted, node, parcel);
        }
    }
    const struct world_core *c = &w->nodes[node].cores[core];
    if (type == host_last_ack(w) && c->inv == a->msg.ts) {
        w->handler += at - c->since;
        w->handlers++;
        if (w->s.model > SNIC_DDP_STRICT)
            w->handler += host_background_time(w);
    }
    return at;
}

static void host_appending(struct world *w, uint32_t node, uint32_t core,
                           const struct snic_ddp_action *a)
{
    struct world_node *n = &w->nodes[node];
    uint32_t parcel = world_parcel_new(w, &a->msg, 0, (uint8_t)core);
    struct world_parcel *p = &w->parcels[parcel];
    p->number = n->appends++;
    p->background = (a->flags & SNIC_DDP_BACKGROUND) != 0;
    p->next = n->appending;
    n->appending = parcel;
    if (n->cores[core].append != WORLD_NIL)
        minos_die("two records of one event");
    n->cores[core].append = parcel;
}

static void host_flush(struct world *w, uint32_t node, uint32_t core, uint32_t parcel);

/* Carry out the engine's actions from @p at on; returns when the core has finished them. */
static uint64_t host_act(struct world *w, uint32_t node, uint32_t core, uint64_t at)
{
    struct snic_ddp_action a;
    while (snic_ddp_poll(w->nodes[node].ddp, &a) != 0) {
        world_note(w, node, &a);
        switch (a.type) {
        case SNIC_DDP_SEND:
            at = host_send(w, node, core, at, &a);
            break;
        case SNIC_DDP_APPEND:
            at += world_ps(w, MINOS_LLC);
            host_appending(w, node, core, &a);
            break;
        case SNIC_DDP_FLUSH: {
            uint32_t parcel = world_parcel_new(w, &a.msg, 0, (uint8_t)core);
            w->parcels[parcel].id = a.id;
            w->parcels[parcel].number = w->nodes[node].appends;
            world_queue_push(&w->nodes[node].cores[core].queue, host_flush, parcel);
            break;
        }
        case SNIC_DDP_DONE:
            world_answered(w, a.token, at);
            break;
        case SNIC_DDP_RELEASE:
            break;
        default:
            minos_die("an action that has no place here");
        }
    }
    return at;
}

/* ---- Tasks ---- */

static void host_persisted(struct world *w, uint32_t node, uint32_t core);

static void host_background(struct world *w, uint32_t node, uint32_t core, uint32_t parcel)
{
    uint64_t time = host_background_time(w);
    w->nodes[node].cores[core].append = parcel;
    world_at(w, w->now + time, host_persisted, node, core);
}

/* The core has done what it had to at @p at, but for a persist. */
static void host_end(struct world *w, uint32_t node, uint32_t core, uint64_t at)
{
    struct world_core *c = &w->nodes[node].cores[core];
    uint32_t parcel = c->append;
    if (parcel != WORLD_NIL && !w->parcels[parcel].background) {
        world_at(w, at + world_persist(w), host_persisted, node, core);
        return;
    }
    if (parcel != WORLD_NIL) {
        c->append = WORLD_NIL;
        world_queue_push(&c->queue, host_background, parcel);
    }
    c->inv = 0;
    world_core_until(w, node, core, at);
}

static void host_step(struct world *w, uint32_t node, const struct snic_ddp_event *ev)
{
    if (snic_ddp_step(w->nodes[node].ddp, world_ns(w), ev) != 0)
        minos_die("an event was refused");
}

static void host_flushed(struct world *w, uint32_t node, uint32_t core, uint32_t parcel)
{
    struct snic_ddp_event ev = {.type = SNIC_DDP_FLUSHED, .id = w->parcels[parcel].id};
    world_parcel_drop(w, parcel);
    host_step(w, node, &ev);
    host_end(w, node, core, host_act(w, node, core, w->now));
}

/* Queue it on the core; events have two numbers, so node and core share one. */
static void host_flush_ends(struct world *w, uint32_t where, uint32_t parcel)
{
    world_core_queue(w, where / WORLD_CORES_MAX, where % WORLD_CORES_MAX, host_flushed, parcel);
}

/* Flushes whose marker is written, and before which all is durable. */
static void host_flushes(struct world *w, uint32_t node)
{
    struct world_node *n = &w->nodes[node];
    uint64_t first = UINT64_MAX;
    for (uint32_t i = n->appending; i != WORLD_NIL; i = w->parcels[i].next)
        first = snic_min_u64(first, w->parcels[i].number);
    for (uint32_t *link = &n->flushing; *link != WORLD_NIL;) {
        uint32_t parcel = *link;
        if (w->parcels[parcel].number > first) {
            link = &w->parcels[parcel].next;
            continue;
        }
        *link = w->parcels[parcel].next;
        world_at(w, w->now, host_flush_ends, node * WORLD_CORES_MAX + w->parcels[parcel].core,
                 parcel);
    }
}

static void host_marked(struct world *w, uint32_t node, uint32_t parcel)
{
    uint32_t core = w->parcels[parcel].core;
    w->parcels[parcel].next = w->nodes[node].flushing;
    w->nodes[node].flushing = parcel;
    host_flushes(w, node);
    host_end(w, node, core, w->now);
}

/* A scope's marker; the client waits for it. */
static void host_flush(struct world *w, uint32_t node, uint32_t core, uint32_t parcel)
{
    (void)core;
    world_at(w, w->now + world_persist(w), host_marked, node, parcel);
}

static void host_persisted(struct world *w, uint32_t node, uint32_t core)
{
    struct world_node *n = &w->nodes[node];
    uint32_t parcel = n->cores[core].append;
    uint32_t *link = &n->appending;
    struct snic_ddp_event ev = {
        .type = SNIC_DDP_APPENDED, .key = w->parcels[parcel].m.key, .ts = w->parcels[parcel].m.ts};
    while (*link != parcel)
        link = &w->parcels[*link].next;
    *link = w->parcels[parcel].next;
    n->cores[core].append = WORLD_NIL;
    world_parcel_drop(w, parcel);
    host_step(w, node, &ev);
    host_end(w, node, core, host_act(w, node, core, w->now));
    host_flushes(w, node);
}

void host_request(struct world *w, uint32_t node, uint32_t core, uint32_t client)
{
    struct snic_ddp_event ev = world_request(w, client);
    uint64_t at = w->now;
    if (ev.type == SNIC_DDP_WRITE)
        at += world_ps(w, MINOS_HOST_WRITE) + 2 * world_ps(w, MINOS_CAS_HOST);
    if (ev.type == SNIC_DDP_READ)
        at += world_ps(w, MINOS_READ);
    w->requester = client;
    host_step(w, node, &ev);
    host_end(w, node, core, host_act(w, node, core, at));
}

/* A message is in the core's receive queue and its turn has come. */
static void host_handle(struct world *w, uint32_t node, uint32_t core, uint32_t parcel)
{
    struct snic_ddp_msg m = w->parcels[parcel].m;
    struct snic_ddp_event ev = {.type = SNIC_DDP_MESSAGE, .msg = &m};
    uint64_t at = w->now + world_ps(w, MINOS_HOST_MESSAGE);
    uint32_t client = world_owner(w, &m);
    world_parcel_drop(w, parcel);
    w->out->handled++;
    if (m.type == SNIC_DDP_INV) {
        at += 2 * world_ps(w, MINOS_CAS_HOST);
        w->nodes[node].cores[core].inv = m.ts;
    } else if (m.type == SNIC_DDP_VAL || m.type == SNIC_DDP_VAL_C) {
        at += world_ps(w, MINOS_CAS_HOST);
    } else if (m.type == host_last_ack(w) && client != WORLD_NIL) {
        w->client[client].last_ack = w->now;
    }
    host_step(w, node, &ev);
    host_end(w, node, core, host_act(w, node, core, at));
}

/* ---- Between the host and the wire ---- */

/* One destination of a batched message, copied out by the NIC. */
static void host_unpacked(struct world *w, uint32_t node, uint32_t parcel)
{
    world_transmit(w, node, parcel);
}

static void host_at_nic(struct world *w, uint32_t node, uint32_t parcel)
{
    struct world_parcel *p = &w->parcels[parcel];
    uint16_t to = p->to;
    uint64_t unpack = world_ps(w, MINOS_UNPACK);
    if (--p->left != 0)
        return; /* broadcast waits for the last copy */
    if (!host_batches(w) || host_count(to) == 1) {
        world_transmit(w, node, parcel);
        return;
    }
    uint64_t at = world_snic(w, node, unpack * host_count(to));
    struct snic_ddp_msg m = p->m;
    uint8_t core = p->core;
    world_parcel_drop(w, parcel);
    for (uint32_t i = 0; i < w->s.nodes; i++) {
        if ((to >> i & 1) != 0)
            world_at(w, at += unpack, host_unpacked, node,
                     world_parcel_new(w, &m, (uint16_t)(1u << i), core));
    }
}

static void host_posted(struct world *w, uint32_t node, uint32_t parcel)
{
    uint64_t time = world_time(w, world_bytes(w, &w->parcels[parcel].m), MINOS_PCIE_MBPS);
    uint64_t start = world_reserve(&w->nodes[node].pcie_down, w->now, time);
    world_at(w, start + time + world_ps(w, MINOS_PCIE), host_at_nic, node, parcel);
}

static void host_received(struct world *w, uint32_t node, uint32_t parcel)
{
    world_core_queue(w, node, w->parcels[parcel].core, host_handle, parcel);
}

void host_arrive(struct world *w, uint32_t node, uint32_t parcel)
{
    uint64_t time = world_time(w, world_bytes(w, &w->parcels[parcel].m), MINOS_PCIE_MBPS);
    uint64_t start = world_reserve(&w->nodes[node].pcie_up, w->now, time);
    world_at(w, start + time + world_ps(w, MINOS_PCIE), host_received, node, parcel);
}
