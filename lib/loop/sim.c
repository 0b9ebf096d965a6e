/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/**
 * The loop inside a simulated world: many loops, one clock, one seed.
 *
 * A step runs the least of all possible events by (time, class, node, sequence):
 *
 *   message  a posted or deferred message; its time is now
 *   timer    at its deadline, or now if that has passed (a thawed node)
 *   task     one run of the first ready task; its time is now
 *   poller   one round over the pollers of a node that is awake; its time is now
 *
 * A node is awake after each event of its own, after a poller was added and
 * after a thaw. A round that finds work leaves it awake. A round that finds none
 * is followed at once by the round with sleeping = 1: when that finds work the
 * node stays awake, else it sleeps and its pollers are not called until it has
 * another event. So a peer that writes shared memory must ring when it sees the
 * need-wake flag, as on a real machine, and a lost wake-up shows as quiescence.
 *
 * Invariants
 *   S1 The clock moves only in sim_advance() and never back; every loop of the
 *      world shows the same time.
 *   S2 Nothing depends on addresses, real time or threads: nodes are visited in
 *      the order of their numbers, messages and timers in that of posting and
 *      arming.
 *   S3 `live` holds the open loops in ascending order of node.
 */
#include <stdlib.h>

#include "loop/loop_priv.h"

#define SNIC_SIM__REGIONS 64

enum sim_class { SIM_MESSAGE = 0, SIM_TIMER = 1, SIM_TASK = 2, SIM_POLLER = 3, SIM_CLASSES = 4 };

struct sim_loop {
    struct snic_loop core;
    struct snic_world *world;
    uint32_t node;
    uint8_t paused;
    uint8_t awake; /* pollers are due */
    uint64_t sequence[SIM_CLASSES];
    struct loop_region regions[SNIC_SIM__REGIONS];
};

struct snic_world {
    struct snic_world_opts opts;
    struct snic_rng rng;
    uint64_t now_ns;
    uint32_t live_count;
    uint32_t inside;
    struct sim_loop *live[]; /* S3 */
};

struct sim_event {
    uint64_t time_ns;
    struct sim_loop *loop; /* NULL: none */
    enum sim_class kind;
};

static struct sim_loop *sim_self(const struct snic_loop *l)
{
    return (struct sim_loop *)(uintptr_t)l;
}

/* ---- Loop ops ---- */

static uint64_t sim_clock(const struct snic_loop *l)
{
    return sim_self(l)->world->now_ns;
}

static void sim_wake(struct snic_loop *l)
{
    (void)l; /* a simulated loop never sleeps */
}

static int sim_once(struct snic_loop *l)
{
    return snic_world_step(sim_self(l)->world);
}

static int sim_region_add(struct snic_loop *l, uint32_t slot, void *mem, size_t size)
{
    (void)l;
    (void)slot;
    (void)mem;
    (void)size;
    return 0; /* the table in struct snic_loop is all there is */
}

static void sim_region_remove(struct snic_loop *l, uint32_t slot)
{
    (void)l;
    (void)slot;
}

/** Place of @p node in live, or where it would go. */
static uint32_t sim_place(const struct snic_world *w, uint32_t node)
{
    uint32_t i = 0;
    while (i < w->live_count && w->live[i]->node < node)
        i++;
    return i;
}

static void sim_close(struct snic_loop *l)
{
    struct sim_loop *s = sim_self(l);
    struct snic_world *w = s->world;
    uint32_t i = sim_place(w, s->node);
    SNIC_ASSERT(i < w->live_count && w->live[i] == s); /* S3 */
    w->live_count--;
    memmove(&w->live[i], &w->live[i + 1], (w->live_count - i) * sizeof(w->live[0]));
    free(s);
}

static const struct loop_ops sim_ops = {
    .clock = sim_clock,
    .wake = sim_wake,
    .once = sim_once,
    .region_add = sim_region_add,
    .region_remove = sim_region_remove,
    .close = sim_close,
};

/* ---- Events ---- */

static void sim_advance(struct snic_world *w, uint64_t to_ns)
{
    SNIC_ASSERT(to_ns >= w->now_ns); /* S1 */
    if (to_ns == w->now_ns)
        return;
    w->now_ns = to_ns;
    for (uint32_t i = 0; i < w->live_count; i++)
        w->live[i]->core.now_ns = to_ns;
}

/** The first thing that can happen at @p s, into @p e; 0 when there is none. */
static int sim_next(struct sim_loop *s, struct sim_event *e)
{
    struct snic_loop *l = &s->core;
    if (s->paused)
        return 0;
    e->loop = s;
    e->time_ns = s->world->now_ns;
    loop_collect(l);
    if (!snic_queue_empty(&l->deferred)) {
        e->kind = SIM_MESSAGE;
        return 1;
    }
    uint64_t deadline = snic_wheel_deadline_ns(&l->wheel);
    if (deadline <= s->world->now_ns) {
        e->kind = SIM_TIMER;
        return 1;
    }
    if (!snic_link_alone(&l->ready)) {
        e->kind = SIM_TASK;
        return 1;
    }
    if (s->awake && !snic_link_alone(&l->pollers)) {
        e->kind = SIM_POLLER;
        return 1;
    }
    e->kind = SIM_TIMER;
    e->time_ns = deadline;
    return deadline != SNIC_NEVER;
}

static struct sim_event sim_world_next(struct snic_world *w)
{
    struct sim_event best = {.time_ns = SNIC_NEVER, .loop = NULL, .kind = SIM_POLLER};
    for (uint32_t i = 0; i < w->live_count; i++) {
        struct sim_event e;
        if (!sim_next(w->live[i], &e))
            continue;
        if (best.loop == NULL || e.time_ns < best.time_ns ||
            (e.time_ns == best.time_ns && e.kind < best.kind))
            best = e;
        if (best.time_ns == w->now_ns && best.kind == SIM_MESSAGE)
            break; /* none can be less */
    }
    return best;
}

static void sim_poll(struct sim_loop *s)
{
    s->awake = 0;
    if (loop_run_pollers(&s->core, 0) > 0 || loop_run_pollers(&s->core, 1) > 0)
        s->awake = 1;
}

static void sim_world_do(struct snic_world *w, const struct sim_event *e)
{
    struct sim_loop *s = e->loop;
    struct snic_loop *l = &s->core;
    sim_advance(w, e->time_ns);
    uint64_t sequence = s->sequence[e->kind]++;
    if (w->opts.trace != NULL)
        w->opts.trace(w->opts.ctx, w->now_ns, s->node, (uint32_t)e->kind, sequence);
    l->stats.iterations++;
    w->inside = 1;
    l->inside = 1;
    int did = 1;
    switch (e->kind) {
    case SIM_MESSAGE:
        did = loop_run_message(l);
        break;
    case SIM_TIMER:
        did = loop_run_timer(l);
        break;
    case SIM_TASK:
        did = loop_run_task(l, &l->ready);
        break;
    case SIM_POLLER:
        sim_poll(s);
        break;
    case SIM_CLASSES:
    default:
        break;
    }
    SNIC_ASSERT(did == 1);
    if (e->kind != SIM_POLLER)
        s->awake = 1;
    l->inside = 0;
    w->inside = 0;
}

/* ---- Public ---- */

int snic_world_open(struct snic_world **out, const struct snic_world_opts *opts)
{
    struct snic_world_opts o = {.opts_size = sizeof(o)};
    int r = opts != NULL ? snic_opts_copy(&o, sizeof(o), opts) : 0;
    if (r != 0)
        return r;
    if (o.nodes_max == 0)
        o.nodes_max = 64;
    if (o.start_ns == 0)
        o.start_ns = 1000000000;
    if (o.nodes_max > 65535)
        return SNIC_EINVAL;
    struct snic_world *w = calloc(1, sizeof(*w) + o.nodes_max * sizeof(w->live[0]));
    if (w == NULL)
        return SNIC_ENOMEM;
    w->opts = o;
    w->now_ns = o.start_ns;
    snic_rng_init(&w->rng, o.seed);
    *out = w;
    return 0;
}

void snic_world_close(struct snic_world *w)
{
    if (w == NULL)
        return;
    SNIC_ASSERT(w->live_count == 0 && !w->inside);
    free(w);
}

int snic_world_loop(struct snic_world *w, uint32_t node, struct snic_loop **out)
{
    uint32_t i = sim_place(w, node);
    if (i < w->live_count && w->live[i]->node == node)
        return SNIC_EEXIST;
    if (w->live_count == w->opts.nodes_max)
        return SNIC_ENOSPC;
    struct sim_loop *s = aligned_alloc(SNIC_CACHELINE, snic_align_up(sizeof(*s), SNIC_CACHELINE));
    if (s == NULL)
        return SNIC_ENOMEM;
    memset(s, 0, sizeof(*s));
    loop_core_init(&s->core, &sim_ops, w->now_ns);
    s->core.regions = s->regions;
    s->core.regions_max = SNIC_SIM__REGIONS;
    s->world = w;
    s->node = node;
    s->awake = 1;
    memmove(&w->live[i + 1], &w->live[i], (w->live_count - i) * sizeof(w->live[0]));
    w->live[i] = s;
    w->live_count++;
    *out = &s->core;
    return 0;
}

struct snic_rng *snic_world_rng(struct snic_world *w)
{
    return &w->rng;
}

uint64_t snic_world_now(const struct snic_world *w)
{
    return w->now_ns;
}

struct snic_world *snic_loop_world(const struct snic_loop *l)
{
    return l->ops == &sim_ops ? sim_self(l)->world : NULL;
}

uint32_t snic_loop_node(const struct snic_loop *l)
{
    return l->ops == &sim_ops ? sim_self(l)->node : UINT32_MAX;
}

int snic_world_step(struct snic_world *w)
{
    SNIC_ASSERT(!w->inside);
    struct sim_event e = sim_world_next(w);
    if (e.loop == NULL)
        return 0;
    sim_world_do(w, &e);
    return 1;
}

uint64_t snic_world_run(struct snic_world *w, uint64_t until_ns, uint64_t max_events)
{
    uint64_t done = 0;
    SNIC_ASSERT(!w->inside);
    while (done < max_events) {
        struct sim_event e = sim_world_next(w);
        if (e.loop == NULL)
            break;
        if (e.time_ns > until_ns) {
            if (until_ns > w->now_ns)
                sim_advance(w, until_ns);
            break;
        }
        sim_world_do(w, &e);
        done++;
    }
    return done;
}

void snic_world_pause(struct snic_world *w, uint32_t node, int paused)
{
    uint32_t i = sim_place(w, node);
    if (i == w->live_count || w->live[i]->node != node)
        return;
    w->live[i]->paused = paused != 0;
    w->live[i]->awake = 1;
}
