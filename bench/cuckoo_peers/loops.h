/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * The timed loops, once per peer. The including file has defined
 *
 *     static int peer_put(struct peer *p, uint64_t key, struct bench_value v);    0: refused
 *     static int peer_get(struct peer *p, uint64_t key, struct bench_value *v);   1: found
 *     static uint64_t peer_get_n(struct peer *, const uint64_t *, struct bench_value *);  a bit
 * mask static void peer_del(struct peer *p, uint64_t key); static void peer_enter(struct peer *p,
 * int writer);     a thread begins static void peer_pause(struct peer *p, int writer);     between
 * two chunks static void peer_leave(struct peer *p, int writer);
 */
#ifndef SNIC_BENCH_CUCKOO_LOOPS_H
#define SNIC_BENCH_CUCKOO_LOOPS_H

static uint64_t loop_insert(void *table, uint64_t first, uint64_t end)
{
    struct peer *p = (struct peer *)table;
    uint64_t n;

    peer_enter(p, 1);
    for (n = first; n < end; n++) {
        struct bench_value v = {n, ~n};

        if (!peer_put(p, bench_key(n), v))
            break;
    }
    peer_leave(p, 1);
    return n - first;
}

static void loop_scalar(struct bench_job *j, uint64_t base, int expect)
{
    struct peer *p = (struct peer *)j->table;

    for (uint32_t i = 0; i < BENCH_CHUNK; i++) {
        struct bench_value v;
        int found = peer_get(p, bench_key(base + bench_next(&j->seed, j->range)), &v);

        j->wrong += (uint64_t)(found != expect);
        if (found)
            j->torn += (uint64_t)(v.b != ~v.a);
    }
    j->ops += BENCH_CHUNK;
}

static void loop_bulk(struct bench_job *j, uint64_t base, int expect)
{
    struct peer *p = (struct peer *)j->table;
    uint64_t keys[BENCH_BATCH];
    struct bench_value values[BENCH_BATCH];

    for (uint32_t i = 0; i < BENCH_CHUNK; i += BENCH_BATCH) {
        uint64_t found;

        for (uint32_t k = 0; k < BENCH_BATCH; k++)
            keys[k] = bench_key(base + bench_next(&j->seed, j->range));
        found = peer_get_n(p, keys, values);
        if (expect)
            j->wrong += BENCH_BATCH - (uint64_t)__builtin_popcountll(found);
        else
            j->wrong += (uint64_t)__builtin_popcountll(found);
        for (uint32_t k = 0; expect && k < BENCH_BATCH; k++)
            j->torn += (found >> k & 1) & (uint64_t)(values[k].b != ~values[k].a);
    }
    j->ops += BENCH_CHUNK;
}

/* Delete the oldest transient item, insert a new one; with every fourth pair replace a resident. */
static void loop_write(struct bench_job *j)
{
    struct peer *p = (struct peer *)j->table;
    uint64_t ops = 0;

    while (ops < BENCH_CHUNK) {
        struct bench_value v = {j->newest, ~j->newest};

        peer_del(p, bench_key(j->oldest++));
        j->wrong += (uint64_t)!peer_put(p, bench_key(j->newest++), v);
        ops += 2;
        if ((j->newest & 3) == 0) {
            j->wrong += (uint64_t)!peer_put(p, bench_key(bench_next(&j->seed, j->range)), v);
            ops++;
        }
    }
    j->ops += ops;
}

static void loop_run(struct bench_job *j)
{
    struct peer *p = (struct peer *)j->table;
    uint64_t wall = bench_clock(CLOCK_MONOTONIC);
    uint64_t cpu = bench_clock(CLOCK_THREAD_CPUTIME_ID);
    int writer = j->mode == BENCH_WRITE;

    peer_enter(p, writer);
    do {
        switch (j->mode) {
        case BENCH_HIT:
            loop_scalar(j, 0, 1);
            break;
        case BENCH_MISS:
            loop_scalar(j, UINT64_C(1) << 40, 0);
            break;
        case BENCH_HIT_BULK:
            loop_bulk(j, 0, 1);
            break;
        case BENCH_MISS_BULK:
            loop_bulk(j, UINT64_C(1) << 40, 0);
            break;
        case BENCH_WRITE:
            loop_write(j);
            break;
        }
        peer_pause(p, writer);
    } while (bench_clock(CLOCK_MONOTONIC) < j->deadline_ns);
    peer_leave(p, writer);
    j->cpu_ns = bench_clock(CLOCK_THREAD_CPUTIME_ID) - cpu;
    j->wall_ns = bench_clock(CLOCK_MONOTONIC) - wall;
}

#endif /* SNIC_BENCH_CUCKOO_LOOPS_H */
