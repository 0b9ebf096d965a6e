/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * The search, a level at a time: the threads take blocks of the present level and put what is new
 * into their own parts of the next. Between batches of blocks they all wait, and the index grows
 * if it has to.
 */
#include "mc.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define RUN_THREADS_MAX 8
#define RUN_BATCH 64u /* blocks */

struct run;

struct run_worker {
    struct run *run;
    pthread_t thread;
    struct mc_hand hand;
    struct mc_front front[2];
    uint64_t states, edges, ends, sampled, fan_max;
    uint32_t bad; /* the state that is wrong, MC_NONE */
    int bad_live;
    char why[MC_TEXT];
    unsigned char block[MC_BLOCK];
    uint64_t action[MC_ACTIONS_MAX];
    uint16_t made_act[MC_ACTIONS_MAX];
    uint32_t made_at[MC_ACTIONS_MAX + 1];
    struct mc_print128 made_print[MC_ACTIONS_MAX];
    unsigned char made[MC_ACTIONS_MAX * MC_STATE_MAX];
};

struct run {
    const struct mc_model *m;
    struct mc_opts o;
    struct mc_table *table;
    struct run_worker *worker;
    pthread_barrier_t begin, end;
    int stop;
    /* The present level: blocks of all threads, and the batch under way. */
    const struct mc_block **level;
    _Atomic uint32_t next;
    uint32_t batch_end;
    uint32_t depth;
    int now; /* which front is the present level's */
    _Atomic int64_t front_bytes;
};

static void run_bad(struct run_worker *w, uint32_t number, const char *why, int live)
{
    if (w->bad != MC_NONE)
        return;
    w->bad = number;
    w->bad_live = live;
    (void)snprintf(w->why, sizeof(w->why), "%s", why);
}

/* All that one state leads to, made first and then looked up: the look-ups miss the cache. */
static uint32_t run_make(struct run_worker *w, const void *state, size_t len)
{
    const struct mc_model *m = w->run->m;
    uint32_t n = m->actions(m->ctx, state, len, w->action), made = 0, i;

    if (n > w->fan_max)
        w->fan_max = n;
    w->made_at[0] = 0;
    for (i = 0; i < n; i++) {
        unsigned char *to = w->made + w->made_at[made];
        size_t got = m->apply(m->ctx, state, len, w->action[i], to);

        if (got == 0)
            continue;
        w->made_print[made] = mc_fingerprint(to, got);
        mc_table_prefetch(w->run->table, w->made_print[made].lo);
        w->made_act[made] = (uint16_t)i;
        w->made_at[made + 1] = w->made_at[made] + (uint32_t)got;
        made++;
    }
    return made;
}

static void run_insert(struct run_worker *w, const struct mc_entry *e, struct mc_print128 f,
                       const void *state, size_t len)
{
    struct run *r = w->run;
    uint32_t number = mc_table_insert(&w->hand, f, e, state, len);
    const char *why;
    int spill;

    if (number == MC_NONE)
        return;
    w->states++;
    why = r->m->check(r->m->ctx, state, len);
    if (why != NULL)
        run_bad(w, number, why, 0);
    spill = atomic_load_explicit(&r->front_bytes, memory_order_relaxed) > (int64_t)r->o.front_max;
    (void)atomic_fetch_add_explicit(&r->front_bytes,
                                    mc_front_put(&w->front[1 - r->now], number, state, len, spill),
                                    memory_order_relaxed);
}

static uint64_t run_print(const struct run *r, uint32_t number, const void *state, size_t len)
{
    return r->o.lean ? mc_fingerprint(state, len).lo : mc_table_at(r->table, number)->fp;
}

static void run_expand(struct run_worker *w, uint32_t number, const void *state, size_t len)
{
    struct run *r = w->run;
    const struct mc_model *m = r->m;
    struct mc_entry e = {0, number, 0, (uint16_t)(r->depth + 1)};
    uint32_t made = run_make(w, state, len), i;
    const char *why;

    if (made == 0) {
        w->ends++;
        why = m->dead != NULL ? m->dead(m->ctx, state, len) : NULL;
        if (why != NULL)
            run_bad(w, number, why, 0);
    }
    w->edges += made;
    for (i = 0; i < made; i++) {
        e.fp = w->made_print[i].lo;
        e.act = w->made_act[i];
        run_insert(w, &e, w->made_print[i], w->made + w->made_at[i],
                   w->made_at[i + 1] - w->made_at[i]);
    }
    if (m->calm != NULL && r->o.live_every != 0 &&
        run_print(r, number, state, len) % r->o.live_every == 0) {
        w->sampled++;
        why = mc_calm(m, state, len, r->o.live_steps);
        if (why != NULL)
            run_bad(w, number, why, 1);
    }
}

static void run_batch(struct run_worker *w)
{
    struct run *r = w->run;

    for (;;) {
        uint32_t i = atomic_fetch_add(&r->next, 1), at = 0, k;
        const struct mc_block *b;
        const unsigned char *bytes;

        if (i >= r->batch_end)
            return;
        b = r->level[i];
        bytes = mc_front_read(&r->worker[b->owner].front[r->now], b, w->block);
        for (k = 0; k < b->count; k++) {
            struct mc_record rec;

            memcpy(&rec, bytes + at, sizeof(rec));
            at += (uint32_t)sizeof(rec);
            run_expand(w, rec.number, bytes + at, rec.len);
            at += rec.len;
        }
    }
}

static void *run_thread(void *arg)
{
    struct run_worker *w = arg;

    for (;;) {
        (void)pthread_barrier_wait(&w->run->begin);
        if (w->run->stop)
            return NULL;
        run_batch(w);
        (void)pthread_barrier_wait(&w->run->end);
    }
}

/* Expand level[from, to). */
static void run_blocks(struct run *r, uint32_t from, uint32_t to)
{
    atomic_store(&r->next, from);
    r->batch_end = to;
    if (r->o.threads == 1) {
        run_batch(&r->worker[0]);
        return;
    }
    (void)pthread_barrier_wait(&r->begin);
    (void)pthread_barrier_wait(&r->end);
}

static uint64_t run_memory(const struct run *r)
{
    return mc_table_bytes(r->table) + (uint64_t)atomic_load(&r->front_bytes);
}

static uint64_t run_states(const struct run *r)
{
    uint64_t n = 0;
    uint32_t i;

    for (i = 0; i < r->o.threads; i++)
        n += r->worker[i].states;
    return n;
}

static struct run_worker *run_wrong(const struct run *r)
{
    uint32_t i;

    for (i = 0; i < r->o.threads; i++)
        if (r->worker[i].bad != MC_NONE)
            return &r->worker[i];
    return NULL;
}

/* The present level's blocks in one list; how many. */
static uint32_t run_gather(struct run *r)
{
    uint32_t n = 0, i, k;

    for (i = 0; i < r->o.threads; i++)
        n += r->worker[i].front[r->now].count;
    free((void *)r->level);
    r->level = calloc(n + 1, sizeof(*r->level));
    if (r->level == NULL)
        abort();
    n = 0;
    for (i = 0; i < r->o.threads; i++)
        for (k = 0; k < r->worker[i].front[r->now].count; k++) {
            r->worker[i].front[r->now].block[k].owner = i;
            r->level[n++] = &r->worker[i].front[r->now].block[k];
        }
    return n;
}

/* One level; MC_CLEAN: continue. */
static int run_level(struct run *r, struct mc_report *rep)
{
    uint32_t n = run_gather(r), at = 0, i;
    uint64_t fan = 16;

    while (at < n) {
        uint64_t states = 0;
        uint32_t to = at;

        for (i = 0; i < r->o.threads; i++)
            if (r->worker[i].fan_max * 2 > fan)
                fan = r->worker[i].fan_max * 2;
        while (to < n && to - at < RUN_BATCH)
            states += r->level[to++]->count;
        if (mc_table_reserve(r->table, states * fan) != 0)
            return MC_LIMIT;
        run_blocks(r, at, to);
        at = to;
        if (run_memory(r) > rep->memory_peak)
            rep->memory_peak = run_memory(r);
        if (run_wrong(r) != NULL)
            return MC_VIOLATED;
        if (run_memory(r) > r->o.memory_max || run_states(r) > r->o.states_max)
            return MC_LIMIT;
    }
    return MC_CLEAN;
}

/* To the next level; 0: there is none. */
static int run_turn(struct run *r, struct mc_report *rep)
{
    uint32_t i;
    int any = 0;

    for (i = 0; i < r->o.threads; i++) {
        struct mc_front *f = &r->worker[i].front[r->now];
        uint32_t k;

        for (k = 0; k < f->count; k++)
            if (f->block[k].data != NULL)
                (void)atomic_fetch_sub(&r->front_bytes, MC_BLOCK);
        rep->spilled += f->file_end;
        mc_front_clear(f);
        any |= r->worker[i].front[1 - r->now].count > 0;
    }
    r->now = 1 - r->now;
    if (any)
        r->depth++;
    return any;
}

static void run_begin(struct run *r)
{
    unsigned char state[MC_STATE_MAX];
    struct mc_entry e = {0, MC_NONE, 0, 0};
    size_t len;
    uint32_t i;

    for (i = 0; (len = r->m->init(r->m->ctx, i, state)) != 0; i++) {
        struct mc_print128 f = mc_fingerprint(state, len);

        e.fp = f.lo;
        e.act = (uint16_t)i;
        run_insert(&r->worker[0], &e, f, state, len);
    }
    r->now = 1 - r->now;
}

/* The way to a state, as a script. */
static void run_script(const struct run *r, const struct run_worker *w, struct mc_script *s)
{
    unsigned char state[2][MC_STATE_MAX];
    uint64_t action[MC_ACTIONS_MAX];
    const struct mc_entry *e = mc_table_at(r->table, w->bad);
    uint16_t *act;
    size_t len;
    uint32_t i;

    s->count = e->depth;
    s->live = w->bad_live;
    (void)snprintf(s->why, sizeof(s->why), "%s", w->why);
    act = calloc(s->count + 1u, sizeof(*act));
    s->line = calloc(s->count + 1u, sizeof(*s->line));
    if (act == NULL || s->line == NULL)
        abort();
    for (i = s->count; e->pred != MC_NONE; e = mc_table_at(r->table, e->pred))
        act[--i] = e->act;
    s->init = e->act;
    len = r->m->init(r->m->ctx, s->init, state[0]);
    for (i = 0; i < s->count; i++) {
        (void)r->m->actions(r->m->ctx, state[i & 1], len, action);
        r->m->print(r->m->ctx, state[i & 1], len, action[act[i]], s->line[i], MC_TEXT);
        len = r->m->apply(r->m->ctx, state[i & 1], len, action[act[i]], state[1 - (i & 1)]);
    }
    free(act);
}

static void run_set_up(struct run *r, const struct mc_model *m, const struct mc_opts *o)
{
    uint32_t i;

    memset(r, 0, sizeof(*r));
    r->m = m;
    r->o = *o;
    r->o.threads = o->threads == 0 ? 2 : o->threads;
    r->o.live_steps = o->live_steps == 0 ? 10000 : o->live_steps;
    r->o.memory_max = o->memory_max == 0 ? (uint64_t)12 << 30 : o->memory_max;
    r->o.front_max = o->front_max == 0 ? (uint64_t)1 << 30 : o->front_max;
    r->o.states_max = o->states_max == 0 ? (uint64_t)1 << 31 : o->states_max;
    r->table = mc_table_new(r->o.states_max + ((uint64_t)1 << 24), o);
    if (r->o.threads > RUN_THREADS_MAX)
        abort();
    r->worker = calloc(r->o.threads, sizeof(*r->worker));
    if (r->worker == NULL)
        abort();
    (void)pthread_barrier_init(&r->begin, NULL, r->o.threads + 1);
    (void)pthread_barrier_init(&r->end, NULL, r->o.threads + 1);
    for (i = 0; i < r->o.threads; i++) {
        struct run_worker *w = &r->worker[i];

        w->run = r;
        w->bad = MC_NONE;
        mc_table_hand(r->table, &w->hand);
        mc_front_init(&w->front[0], o->dir != NULL ? o->dir : "/tmp");
        mc_front_init(&w->front[1], o->dir != NULL ? o->dir : "/tmp");
        if (r->o.threads > 1 && pthread_create(&w->thread, NULL, run_thread, w) != 0)
            abort();
    }
}

static void run_tear_down(struct run *r)
{
    uint32_t i;

    r->stop = 1;
    if (r->o.threads > 1)
        (void)pthread_barrier_wait(&r->begin);
    for (i = 0; i < r->o.threads; i++) {
        if (r->o.threads > 1)
            (void)pthread_join(r->worker[i].thread, NULL);
        mc_front_fini(&r->worker[i].front[0]);
        mc_front_fini(&r->worker[i].front[1]);
    }
    (void)pthread_barrier_destroy(&r->begin);
    (void)pthread_barrier_destroy(&r->end);
    mc_table_free(r->table);
    free((void *)r->level);
    free(r->worker);
}

static double run_seconds(clockid_t clock)
{
    struct timespec t;

    (void)clock_gettime(clock, &t);
    return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

void mc_run(const struct mc_model *m, const struct mc_opts *o, struct mc_report *rep)
{
    struct run r;
    struct run_worker *w;
    double start = run_seconds(CLOCK_MONOTONIC), cpu = run_seconds(CLOCK_PROCESS_CPUTIME_ID);
    uint32_t i;

    memset(rep, 0, sizeof(*rep));
    run_set_up(&r, m, o);
    run_begin(&r);
    rep->result = run_wrong(&r) != NULL ? MC_VIOLATED : MC_CLEAN;
    while (rep->result == MC_CLEAN) {
        rep->result = run_level(&r, rep);
        if (rep->result != MC_CLEAN || !run_turn(&r, rep))
            break;
    }
    for (i = 0; i < r.o.threads; i++) {
        w = &r.worker[i];
        rep->states += w->states;
        rep->edges += w->edges;
        rep->ends += w->ends;
        rep->sampled += w->sampled;
        rep->collided += w->hand.collided;
        if (w->fan_max > rep->fan_max)
            rep->fan_max = (uint32_t)w->fan_max;
    }
    rep->depth = r.depth;
    w = run_wrong(&r);
    if (w != NULL && o->lean) {
        rep->script.live = w->bad_live;
        (void)snprintf(rep->script.why, sizeof(rep->script.why), "%s", w->why);
    } else if (w != NULL) {
        run_script(&r, w, &rep->script);
    }
    run_tear_down(&r);
    rep->seconds = run_seconds(CLOCK_MONOTONIC) - start;
    rep->cpu_seconds = run_seconds(CLOCK_PROCESS_CPUTIME_ID) - cpu;
    rep->found = rep->script.count;
    if (rep->result == MC_VIOLATED && o->shrink == 0 && !o->lean)
        mc_script_shrink(m, &rep->script, o->live_steps == 0 ? 10000 : o->live_steps);
}

void mc_report_print(const char *name, const struct mc_opts *o, const struct mc_report *r)
{
    static const char *const results[] = {"clean", "VIOLATED", "limit"};

    (void)printf("%-40s %-8s %11llu states %12llu edges depth %3u ends %llu sampled %llu %.1f s, "
                 "%.1f of CPUs, %.2f M edges a CPU second, %.1f MB%s%s\n",
                 name, results[r->result], (unsigned long long)r->states,
                 (unsigned long long)r->edges, r->depth, (unsigned long long)r->ends,
                 (unsigned long long)r->sampled, r->seconds, r->cpu_seconds,
                 (double)r->edges / r->cpu_seconds / 1e6, (double)r->memory_peak / 1e6,
                 o->exact  ? " exact"
                 : o->wide ? " 128 bits"
                 : o->lean ? " lean"
                           : "",
                 r->spilled != 0 ? " (frontier on disk)" : "");
    (void)fflush(stdout);
}
