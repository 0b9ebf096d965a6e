/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* Time, cores, links and clients: world.h says what they keep to. */
#include "world.h"

#include "eventheap.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const char *const minos_design_name[MINOS_DESIGNS] = {
    "B", "B+broadcast", "B+batching", "combined", "combined+broadcast", "combined+batching", "O"};
const char *const minos_model_name[SNIC_DDP_SCOPE + 1] = {"",     "synch", "strict",
                                                          "renf", "event", "scope"};
const char *const minos_use_name[MINOS_USES] = {"host_core", "snic_core", "send_engine",
                                                "pcie_down", "pcie_up",   "egress",
                                                "ingress",   "fifo_dma"};

void minos_die(const char *what)
{
    fprintf(stderr, "bench_minos: %s\n", what);
    abort();
}

static void *world_grow(void *old, size_t count, size_t size)
{
    void *p = realloc(old, count * size);
    if (p == NULL)
        minos_die("memory");
    return p;
}

/* ---- Time (W1) ---- */

void world_at(struct world *w, uint64_t at, world_event_fn fn, uint32_t a, uint32_t b)
{
    struct world_event e = {at, w->order++, fn, a, b};
    if (at < w->now)
        minos_die("an event in the past");
    if (w->heap_count == w->heap_size) {
        w->heap_size = w->heap_size == 0 ? 1024 : w->heap_size * 2;
        w->heap = world_grow(w->heap, w->heap_size, sizeof(*w->heap));
    }
    eventheap_push(w->heap, &w->heap_count, &e, sizeof(e));
}

struct world_event world_next(struct world *w)
{
    struct world_event first;
    eventheap_pop(w->heap, &w->heap_count, &first, sizeof(first));
    return first;
}

/* Returns when it begins (W2). */
uint64_t world_reserve(struct world_server *s, uint64_t at, uint64_t time)
{
    uint64_t start = snic_max_u64(at, s->free);
    s->free = start + time;
    s->busy += time;
    return start;
}

/* Reserve a SmartNIC core for work from now on, the first that is free. @return when it begins */
uint64_t world_snic(struct world *w, uint32_t node, uint64_t time)
{
    struct world_server *best = &w->nodes[node].snic[0];
    for (uint32_t i = 1; i < w->p->v[MINOS_SNIC_CORES]; i++) {
        if (w->nodes[node].snic[i].free < best->free)
            best = &w->nodes[node].snic[i];
    }
    return world_reserve(best, w->now, time);
}

/* ---- Cores ---- */

void world_queue_push(struct world_queue *q, world_task_fn fn, uint32_t arg)
{
    if (q->count == q->size) {
        uint32_t size = q->size == 0 ? 16 : q->size * 2;
        q->at = world_grow(q->at, size, sizeof(*q->at));
        for (uint32_t i = 0; i < q->first; i++) /* what had wrapped follows the old end */
            q->at[q->size + i] = q->at[i];
        q->size = size;
    }
    struct world_task t = {fn, arg, 0};
    q->at[(q->first + q->count++) & (q->size - 1)] = t;
}

struct world_task world_queue_pop(struct world_queue *q)
{
    struct world_task t = q->at[q->first];
    q->first = (q->first + 1) & (q->size - 1);
    q->count--;
    return t;
}

static void world_core_go(struct world *w, uint32_t node, uint32_t core)
{
    struct world_core *c = &w->nodes[node].cores[core];
    if (c->working || c->queue.count == 0)
        return;
    struct world_task t = world_queue_pop(&c->queue);
    c->working = 1;
    c->since = w->now;
    t.fn(w, node, core, t.arg);
}

static void world_core_free(struct world *w, uint32_t node, uint32_t core)
{
    struct world_core *c = &w->nodes[node].cores[core];
    c->working = 0;
    c->busy += w->now - c->since;
    world_core_go(w, node, core);
}

void world_core_until(struct world *w, uint32_t node, uint32_t core, uint64_t at)
{
    world_at(w, at, world_core_free, node, core);
}

void world_core_queue(struct world *w, uint32_t node, uint32_t core, world_task_fn fn, uint32_t arg)
{
    world_queue_push(&w->nodes[node].cores[core].queue, fn, arg);
    world_core_go(w, node, core);
}

/* ---- Parcels ---- */

uint32_t world_parcel_new(struct world *w, const struct snic_ddp_msg *m, uint16_t to, uint8_t core)
{
    if (w->parcels_free == WORLD_NIL) {
        uint32_t size = w->parcels_size == 0 ? 1024 : w->parcels_size * 2;
        w->parcels = world_grow(w->parcels, size, sizeof(*w->parcels));
        for (uint32_t i = w->parcels_size; i < size; i++)
            w->parcels[i].next = i + 1 < size ? i + 1 : WORLD_NIL;
        w->parcels_free = w->parcels_size;
        w->parcels_size = size;
    }
    uint32_t n = w->parcels_free;
    struct world_parcel *p = &w->parcels[n];
    w->parcels_free = p->next;
    memset(p, 0, sizeof(*p));
    p->m = *m;
    p->to = to;
    p->core = core;
    p->next = WORLD_NIL;
    return n;
}

void world_parcel_drop(struct world *w, uint32_t parcel)
{
    w->parcels[parcel].next = w->parcels_free;
    w->parcels_free = parcel;
}

static struct world_owner *world_place(const struct world *w, const struct snic_ddp_msg *m)
{
    uint64_t h = (m->ts ^ m->key.w[0]) * UINT64_C(0x9e3779b97f4a7c15);
    return &w->owners[h >> 48];
}

void world_own(struct world *w, const struct snic_ddp_msg *m, uint32_t client)
{
    struct world_owner *o = world_place(w, m);
    o->ts = m->ts;
    o->key = (uint32_t)m->key.w[1];
    o->client = client;
}

uint32_t world_owner(const struct world *w, const struct snic_ddp_msg *m)
{
    const struct world_owner *o = world_place(w, m);
    if (o->ts != m->ts || o->key != m->key.w[1])
        return WORLD_NIL;
    return o->client;
}

/* WORLD_NIL: the owner's entry was replaced. Any core will do, if it is always the same. */
uint8_t world_core_of(const struct world *w, uint32_t client)
{
    return (uint8_t)(client == WORLD_NIL ? 0 : client / w->p->v[MINOS_CLIENTS] % w->cores);
}

uint64_t world_bytes(const struct world *w, const struct snic_ddp_msg *m)
{
    return w->p->v[MINOS_HEADER] + (world_is_record(m) ? w->p->v[MINOS_RECORD] : 0);
}

uint64_t world_time(const struct world *w, uint64_t bytes, uint32_t mbps)
{
    return bytes * 1000000 / w->p->v[mbps];
}

/* ---- The wire ---- */

static void world_arrived(struct world *w, uint32_t node, uint32_t parcel)
{
    if (w->s.design < MINOS_COMBINED)
        host_arrive(w, node, parcel);
    else
        nic_arrive(w, node, parcel);
}

/* The first byte is here: cut-through, so the last comes a link's time later. */
static void world_ingress(struct world *w, uint32_t node, uint32_t parcel)
{
    uint64_t time = world_time(w, world_bytes(w, &w->parcels[parcel].m), MINOS_NET_MBPS);
    uint64_t start = world_reserve(&w->nodes[node].ingress, w->now, time);
    world_at(w, start + time, world_arrived, node, parcel);
}

/*
 * The send engine takes a message every send_gap_ns and each takes its latency; a broadcast is one
 * message here and one copy on the egress link, the switch doubles it.
 */
void world_transmit(struct world *w, uint32_t node, uint32_t parcel)
{
    const struct world_parcel *p = &w->parcels[parcel];
    struct world_node *n = &w->nodes[node];
    uint64_t latency = world_ps(w, world_is_record(&p->m) ? MINOS_SEND_INV : MINOS_SEND_SMALL);
    uint64_t time = world_time(w, world_bytes(w, &p->m), MINOS_NET_MBPS);
    uint64_t start = world_reserve(&n->engine, w->now, world_ps(w, MINOS_GAP));
    start = world_reserve(&n->egress, start + latency, time);
    for (uint32_t to = 0, first = 1; to < w->s.nodes; to++) {
        if ((p->to >> to & 1) == 0)
            continue;
        uint32_t copy = parcel;
        if (!first) {
            copy = world_parcel_new(w, &w->parcels[parcel].m, 0, w->parcels[parcel].core);
            p = &w->parcels[parcel];
        }
        first = 0;
        w->parcels[copy].m.dst = (uint8_t)to;
        w->out->sent++;
        world_at(w, start + w->s.net_ns * WORLD_NS, world_ingress, to, copy);
    }
}

/* ---- Clients ---- */

static void world_begin(struct world *w, uint32_t node, uint32_t core, uint32_t client)
{
    struct world_client *c = &w->client[client];
    uint32_t was = c->what;
    c->began = w->now;
    if (w->s.model == SNIC_DDP_SCOPE && c->in_scope >= w->p->v[MINOS_SCOPE]) {
        c->what = WORLD_SYNC;
    } else {
        if (w->s.login)
            c->what = was == WORLD_READ ? WORLD_WRITE : WORLD_READ;
        else
            c->what = snic_rng_below(&c->rng, 100) < w->s.writes ? WORLD_WRITE : WORLD_READ;
        c->key = minos_load_key(&w->load, &c->rng);
    }
    if (c->what == WORLD_READ)
        c->login = w->now;
    if (w->s.design < MINOS_COMBINED)
        host_request(w, node, core, client);
    else
        nic_request(w, node, core, client);
}

void world_issue(struct world *w, uint32_t client)
{
    struct world_client *c = &w->client[client];
    uint32_t core = client / (uint32_t)w->p->v[MINOS_CLIENTS];
    c->issued = w->now;
    c->active = 1;
    world_core_queue(w, core / w->cores, core % w->cores, world_begin, client);
}

struct snic_ddp_key world_key(uint32_t number)
{
    struct snic_ddp_key k = {{number * UINT64_C(0x9e3779b97f4a7c15), number}};
    return k;
}

/* An engine's event for the present request. */
struct snic_ddp_event world_request(const struct world *w, uint32_t client)
{
    const struct world_client *c = &w->client[client];
    struct snic_ddp_event ev;
    memset(&ev, 0, sizeof(ev));
    ev.type = c->what == WORLD_READ    ? SNIC_DDP_READ
              : c->what == WORLD_WRITE ? SNIC_DDP_WRITE
                                       : SNIC_DDP_SYNC;
    ev.token = client;
    if (w->s.model == SNIC_DDP_SCOPE && c->what != WORLD_READ)
        ev.scope = c->scope;
    ev.key = world_key(c->key);
    if (c->what == WORLD_WRITE) {
        ev.value = 1; /* a handle that is never dereferenced */
        ev.length = (uint32_t)w->p->v[MINOS_RECORD];
    }
    return ev;
}

static void world_measure(struct world *w, const struct world_client *c)
{
    uint64_t each = w->p->v[MINOS_WARM];
    if (w->measuring == 1) {
        w->sum[c->what] += w->now - c->began;
        w->count[c->what]++;
        if (w->s.login && c->what == WORLD_WRITE) {
            w->sum[2] += w->now - c->login;
            w->count[2]++;
        }
        if (c->what == WORLD_WRITE && c->last_ack > c->first_inv)
            w->comm += c->last_ack - c->first_inv;
    }
    w->done++;
    if (w->measuring == 0 && w->done >= each * w->s.nodes) {
        w->measuring = 1;
        w->from = w->now;
    } else if (w->measuring == 1 && w->done >= (each + w->s.requests) * w->s.nodes) {
        w->measuring = 2;
        w->until = w->now;
        w->stopping = 1;
    }
}

static void world_client_done(struct world *w, uint32_t client, uint32_t unused)
{
    struct world_client *c = &w->client[client];
    uint64_t sojourn = w->now - c->issued;
    (void)unused;
    if (!c->active)
        minos_die("a response without a pending request");
    c->active = 0;
    w->out->sojourn_ps += sojourn;
    w->out->longest_ps = snic_max_u64(w->out->longest_ps, sojourn);
    w->out->elapsed_ps = w->now;
    if (c->what == WORLD_SYNC) {
        c->scope++;
        c->in_scope = 0;
    } else {
        c->in_scope += c->what == WORLD_WRITE;
        world_measure(w, c);
    }
    if (!w->stopping)
        world_issue(w, client);
}

void world_answered(struct world *w, uint64_t token, uint64_t at)
{
    world_at(w, at, world_client_done, (uint32_t)token, 0);
}

void world_note(struct world *w, uint32_t node, const struct snic_ddp_action *a)
{
    uint64_t h = w->out->actions;
    h = (h ^ w->now) * UINT64_C(0x9e3779b97f4a7c15);
    h = (h ^ a->msg.ts ^ a->token << 40) * UINT64_C(0xbf58476d1ce4e5b9);
    h ^= h >> 29 ^ (uint64_t)a->type << 8 ^ (uint64_t)a->to << 16 ^ node ^ a->msg.key.w[1] << 32;
    w->out->actions = h;
    if (a->type == SNIC_DDP_DONE && a->result != 0 && a->result != SNIC_ENOENT)
        minos_die("a request failed");
}
