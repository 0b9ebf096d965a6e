/* SPDX-License-Identifier: Apache-2.0 OR MIT */
#include "luna_world_priv.h"

#include "eventheap.h"

#include <stdio.h>
#include <stdlib.h>

static struct world *world; /* one at a time, reused: its pages are warm */

void world_fail(struct world *w, const char *why)
{
    if (w->r.failure == NULL) {
        w->r.failure = why;
        fprintf(stderr, "seed %llu at %.3f ms, %llu I/Os: %s\n", (unsigned long long)w->o.seed,
                (double)w->now_ns / 1e6, (unsigned long long)w->done, why);
    }
}

int world_chance(struct world *w, uint32_t ppm)
{
    return ppm > 0 && snic_rng_next(&w->rng) % 1000000 < ppm;
}

/* ---- Events ---- */

void world_at(struct world *w, uint64_t at_ns, uint32_t type, uint32_t who, uint32_t index,
              uint64_t serial)
{
    struct event e = {at_ns, w->order++, type, who, index, serial};
    if (w->heap_count == EVENTS)
        world_fail(w, "too many events");
    else
        eventheap_push(w->heap, &w->heap_count, &e, sizeof(e));
}

static struct event world_next(struct world *w)
{
    struct event first;
    eventheap_pop(w->heap, &w->heap_count, &first, sizeof(first));
    return first;
}

/* ---- Faults ---- */

static struct link *any_link(struct world *w)
{
    uint32_t from = (uint32_t)snic_rng_below(&w->rng, LINKS);
    for (uint32_t i = 0; i < LINKS; i++)
        if (w->links[(from + i) % LINKS].used)
            return &w->links[(from + i) % LINKS];
    return NULL;
}

static void world_dark(struct world *w, uint32_t s, uint64_t until)
{
    w->servers[s].dark_until_ns = until;
    for (uint32_t i = 0; i < LINKS; i++) {
        struct link *l = &w->links[i];
        if (l->used && l->server == s) {
            l->way[UP].hole_ns = snic_max_u64(l->way[UP].hole_ns, until);
            l->way[DOWN].hole_ns = snic_max_u64(l->way[DOWN].hole_ns, until);
        }
    }
}

static void world_strike(struct world *w, uint32_t kind, uint32_t s, uint64_t until)
{
    struct link *l = any_link(w);
    switch (kind) {
    case WORLD_RESET:
        if (l != NULL)
            stream_reset(w, l);
        break;
    case WORLD_HOLE:
        if (l != NULL)
            stream_hole(w, l, until);
        break;
    case WORLD_DARK:
        world_dark(w, s, until);
        break;
    case WORLD_SERVER:
        world_server_die(w, s);
        break;
    case WORLD_AGENT:
        world_agent_die(w);
        break;
    case WORLD_MOVE:
        world_move(w);
        break;
    case WORLD_STALL:
        until = w->now_ns + snic_rng_below(&w->rng, 20 * WORLD_MS);
        w->asleep_ns = until;
        break;
    default:
        w->servers[s].slow_until_ns = until;
        break;
    }
    /* A connection that stands but is dead to one side is noticed by the next silence. */
    world_hurts(w, kind == WORLD_RESET || kind == WORLD_MOVE ? w->now_ns : until);
}

static void world_fault(struct world *w)
{
    static const uint64_t lengths[] = {20, 100, 500, 3000};
    uint32_t kind = (uint32_t)snic_rng_below(&w->rng, WORLD_FAULTS);
    uint32_t s = (uint32_t)snic_rng_below(&w->rng, w->o.servers);
    uint64_t length = lengths[snic_rng_below(&w->rng, SNIC_COUNTOF(lengths))];
    uint64_t until = w->now_ns + (1 + snic_rng_below(&w->rng, length)) * WORLD_MS;
    uint64_t next = WORLD_MS * (1 + snic_rng_below(&w->rng, 2 * w->o.faults));
    world_at(w, w->now_ns + next, EV_FAULT, 0, 0, 0);
    if (w->calm || (w->o.kinds >> kind & 1) == 0)
        return;
    w->r.faults[kind]++;
    if (w->o.print)
        printf("%.3f ms: fault %u, server %u, until %.3f\n", (double)w->now_ns / 1e6, kind, s,
               (double)until / 1e6);
    world_strike(w, kind, s, until);
}

static void world_heal(struct world *w)
{
    w->calm = 1;
    w->mended_ns = w->now_ns;
    for (uint32_t i = 0; i < SERVERS; i++) {
        w->servers[i].slow_until_ns = 0;
        w->servers[i].dark_until_ns = 0;
        if (i < w->o.servers && !w->servers[i].up)
            world_hurts(w, w->now_ns + 30 * WORLD_MS);
    }
    if (!w->agent_up)
        world_hurts(w, w->now_ns + 20 * WORLD_MS);
    /* What a slow store has begun it ends first. */
    for (uint32_t i = 0; i < w->heap_count; i++)
        if (w->heap[i].type == EV_STORED)
            world_hurts(w, w->heap[i].at_ns);
    stream_heal(w);
}

/* ---- A run ---- */

static void world_event(struct world *w, const struct event *e)
{
    switch (e->type) {
    case EV_STREAM:
        if (e->serial == w->links[e->who].serial && w->links[e->who].used)
            stream_due(w, e->who, e->index);
        break;
    case EV_CONNECT:
        if (e->serial == w->links[e->who].serial && w->links[e->who].used)
            stream_connected(w, e->who);
        break;
    case EV_AGENT:
        if (e->who == w->incarnation && w->agent_up && e->at_ns >= w->wake_ns)
            world_agent_run(w);
        break;
    case EV_SERVER:
        if (e->serial == w->servers[e->who].serial)
            world_server_wake(w, e->who);
        break;
    case EV_STORED:
        if (e->serial == w->servers[e->who].serial)
            world_stored(w, e->who, e->index);
        else {
            w->requests[e->index].used = w->free_request;
            w->free_request = e->index;
        }
        break;
    case EV_FAULT:
        world_fault(w);
        break;
    case EV_SERVER_UP:
        world_server_start(w, e->who);
        break;
    default:
        world_agent_start(w);
        break;
    }
}

static void world_open(struct world *w, const struct world_opts *o)
{
    uint64_t *versions = w->versions;
    memset(w, 0, offsetof(struct world, requests));
    w->o = *o;
    w->versions = realloc(versions, (o->ios + SPAN * DISKS + 2) * sizeof(*versions));
    if (w->versions == NULL)
        abort();
    snic_rng_init(&w->rng, o->seed);
    w->free_request = WORLD_NONE;
    for (uint32_t i = REQUESTS; i-- > 0;) {
        w->requests[i].used = w->free_request;
        w->free_request = i;
    }
    for (uint32_t d = 0; d < DISKS; d++)
        for (uint32_t i = 0; i < SEGMENTS; i++) {
            struct segment *s = &w->segments[d][i];
            s->seg_id = 100 * (d + 1) + i;
            s->server = (d + i) % o->servers;
            s->gen = 1;
        }
    w->now_ns = 5 * WORLD_S;
    for (uint32_t i = 0; i < o->servers; i++)
        world_server_start(w, i);
    world_agent_start(w);
    if (o->faults != 0)
        world_at(w, w->now_ns + WORLD_MS, EV_FAULT, 0, 0, 0);
}

static void world_close(struct world *w)
{
    if (w->c != NULL) {
        snic_luna_get_stats(w->c, &w->r.agent);
        if (w->servers[0].t != NULL)
            snic_luna_target_get_stats(w->servers[0].t, &w->r.target);
    }
    stream_clear(w);
    free(w->mem);
    w->mem = NULL;
    for (uint32_t i = 0; i < w->o.servers; i++) {
        if (w->servers[i].up)
            world_server_drop(w, i);
        free(w->servers[i].mem);
        w->servers[i].mem = NULL;
    }
}

void world_run(const struct world_opts *o, struct world_result *r)
{
    if (world == NULL)
        world = calloc(1, sizeof(*world));
    struct world *w = world;
    if (w == NULL)
        abort();
    world_open(w, o);
    uint64_t began = w->now_ns, limit = began + 1200 * WORLD_S;
    while (w->r.failure == NULL && !world_over(w) && w->heap_count > 0) {
        struct event e = world_next(w);
        w->now_ns = snic_max_u64(w->now_ns, e.at_ns);
        w->r.events++;
        world_event(w, &e);
        if (!w->calm && w->now_ns > limit / 2)
            w->o.ios = w->started; /* faults leave it no time: that will do */
        if (!w->calm && w->started >= w->o.ios)
            world_heal(w);
        if (w->now_ns > limit)
            world_fail(w, "no end");
    }
    if (!world_over(w))
        world_fail(w, "nothing moves any more");
    w->r.ios = w->done;
    w->r.simulated_ns = w->now_ns - began;
    world_close(w);
    *r = w->r;
}

/* Options that are 0, by the seed: each run is of another kind. */
void world_random(struct world_opts *o, uint64_t seed)
{
    static const uint32_t spans[] = {16, 64, 512, 700, 4096};
    static const uint32_t faults[] = {2, 10, 50, 500};
    static const uint32_t cuts[] = {0, 0, 100, 5000, 40000};
    struct snic_rng g;
    snic_rng_init(&g, seed * 7919 + 13);
    o->seed = seed;
    o->servers = 1 + (uint32_t)snic_rng_below(&g, SERVERS);
    o->disks = 1 + (uint32_t)snic_rng_below(&g, DISKS);
    o->conns = 1u << snic_rng_below(&g, 4);
    o->depth = 1u << snic_rng_below(&g, 7);
    o->blocks = 1u << snic_rng_below(&g, snic_rng_below(&g, 4) == 0 ? 9 : 4);
    o->span = spans[snic_rng_below(&g, 5)];
    o->corrupt_ppm = snic_rng_below(&g, 4) == 0 ? 5000 : 0;
    o->cut = cuts[snic_rng_below(&g, 5)];
    o->jitter_ns = snic_rng_below(&g, 2) == 0 ? 0 : snic_rng_below(&g, 100 * WORLD_US);
    o->store_ns = snic_rng_below(&g, 200 * WORLD_US) + 1;
    o->deadline_ns = snic_rng_below(&g, 4) == 0 ? 30 * WORLD_MS : 0;
    o->faults = faults[snic_rng_below(&g, 4)];
    o->kinds = (uint32_t)snic_rng_below(&g, WORLD_ALL_FAULTS + 1);
    o->reads = (uint32_t)snic_rng_below(&g, 101);
    o->qos = snic_rng_below(&g, 8) == 0 ? 20000 : 0;
    o->rx_blocks = snic_rng_below(&g, 3) == 0 ? 8 : 512;
    o->frames_max = snic_rng_below(&g, 3) == 0 ? 2 : 64;
    o->window = snic_rng_below(&g, 3) == 0 ? 16 : 512;
    /* One silence (0.8 s) and a new connection; and again, seldom, where the segment has gone to.
     */
    o->hang_ns = (o->kinds >> WORLD_MOVE & 1) != 0 ? 2 * WORLD_S : WORLD_S;
    if (o->qos != 0)
        o->hang_ns = 20 * WORLD_S;
}
