/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * The replication engine on one core, without a network or a log: the other nodes' messages are
 * canned. 10^6 keys of which one is picked at random each time, 5 nodes, values by handle.
 *
 *   bench_ddp [--seconds N] [--keys N]
 *
 * read: snic_ddp_get, local. read_event: READ and its DONE. follow: INV, APPENDED and the
 * acknowledgements sent, then VAL. write: WRITE, 4 acknowledgements of each kind, APPENDED, the
 * answer. One model each that differs in what is sent. ours/goal is by CPU time: one core's worth.
 */
#include "snicstore/ddp.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>

enum { NODES = 5, REPEATS = 5, CASES = 8, HUGE = 2 << 20 };

static const struct {
    const char *name;
    uint32_t model;
    uint32_t what; /* 0 get, 1 READ, 2 follow, 3 write */
    double goal;   /* Mop/s, 0: none */
} cases[CASES] = {
    {"read", SNIC_DDP_SYNCH, 0, 5},
    {"read_event", SNIC_DDP_SYNCH, 1, 0},
    {"follow_synch", SNIC_DDP_SYNCH, 2, 1},
    {"follow_strict", SNIC_DDP_STRICT, 2, 1},
    {"follow_event", SNIC_DDP_EVENT, 2, 1},
    {"write_synch", SNIC_DDP_SYNCH, 3, 0.5},
    {"write_strict", SNIC_DDP_STRICT, 3, 0.5},
    {"write_event", SNIC_DDP_EVENT, 3, 0.5},
};

struct bench {
    struct snic_ddp *d;
    struct snic_rng rng;
    uint32_t model;
    uint64_t keys;
    uint64_t now;
    uint64_t seen;  /* answers, acknowledgements: what must have come out */
    uint64_t *next; /* version of each key, of node 1's writes */
};

static volatile uint64_t sink;

static void check(int ok, const char *what)
{
    if (!ok) {
        fprintf(stderr, "bench_ddp: %s\n", what);
        exit(1);
    }
}

static uint64_t clock_now(clockid_t id)
{
    struct timespec t;
    clock_gettime(id, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

static void *map(size_t size)
{
    size = (size + HUGE - 1) / HUGE * HUGE;
    unsigned char *p =
        mmap(NULL, size + HUGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    check(p != MAP_FAILED, "memory");
    p += (HUGE - (uintptr_t)p % HUGE) % HUGE;
    (void)madvise(p, size, MADV_HUGEPAGE);
    return p;
}

static struct snic_ddp_key key_of(uint64_t i)
{
    struct snic_ddp_key k = {{i * UINT64_C(0x9e3779b97f4a7c15), i}};
    return k;
}

static void step(struct bench *b, const struct snic_ddp_event *ev, struct snic_ddp_action *done)
{
    struct snic_ddp_action a;
    check(snic_ddp_step(b->d, b->now, ev) == 0, "step");
    while (snic_ddp_poll(b->d, &a) != 0) {
        b->seen +=
            a.type == SNIC_DDP_DONE || (a.type == SNIC_DDP_SEND && a.msg.type <= SNIC_DDP_ACK_P);
        if (done != NULL && (a.type == SNIC_DDP_SEND || a.type == SNIC_DDP_DONE))
            *done = a;
    }
}

static void message(struct bench *b, uint32_t type, uint32_t src, const struct snic_ddp_key *key,
                    uint64_t ts)
{
    struct snic_ddp_msg m;
    struct snic_ddp_event ev = {.type = SNIC_DDP_MESSAGE, .msg = &m};
    memset(&m, 0, sizeof(m));
    m.type = (uint8_t)type;
    m.src = (uint8_t)src;
    m.epoch = 1;
    m.key = *key;
    m.ts = ts;
    m.value = ts;
    m.length = 1000;
    step(b, &ev, NULL);
}

static void appended(struct bench *b, const struct snic_ddp_key *key, uint64_t ts)
{
    struct snic_ddp_event ev = {.type = SNIC_DDP_APPENDED, .key = *key, .ts = ts};
    step(b, &ev, NULL);
}

static void follow(struct bench *b, uint64_t i)
{
    struct snic_ddp_key key = key_of(i);
    uint64_t ts = snic_ddp_ts(1, b->next[i] += 2, 1);
    message(b, SNIC_DDP_INV, 1, &key, ts);
    appended(b, &key, ts);
    message(b, b->model == SNIC_DDP_SYNCH ? SNIC_DDP_VAL : SNIC_DDP_VAL_C, 1, &key, ts);
    if (b->model == SNIC_DDP_STRICT)
        message(b, SNIC_DDP_VAL_P, 1, &key, ts);
}

static void coordinate(struct bench *b, uint64_t i)
{
    struct snic_ddp_event ev = {.type = SNIC_DDP_WRITE, .key = key_of(i), .token = i, .value = i};
    struct snic_ddp_action inv;
    ev.length = 1000;
    memset(&inv, 0, sizeof(inv));
    step(b, &ev, &inv);
    for (uint32_t n = 1; n < NODES; n++)
        message(b, b->model == SNIC_DDP_SYNCH ? SNIC_DDP_ACK : SNIC_DDP_ACK_C, n, &ev.key,
                inv.msg.ts);
    for (uint32_t n = 1; n < NODES && b->model == SNIC_DDP_STRICT; n++)
        message(b, SNIC_DDP_ACK_P, n, &ev.key, inv.msg.ts);
    appended(b, &ev.key, inv.msg.ts);
}

static void look(struct bench *b, uint64_t i, int event)
{
    struct snic_ddp_key key = key_of(i);
    if (event) {
        struct snic_ddp_event ev = {.type = SNIC_DDP_READ, .key = key, .token = i};
        step(b, &ev, NULL);
        return;
    }
    struct snic_ddp_entry e;
    check(snic_ddp_get(b->d, b->now, &key, &e) == 0, "get");
    b->seen += e.length == 1000;
}

/* An engine with every key written. */
static struct bench begin(uint32_t model, uint64_t keys)
{
    struct bench b;
    struct snic_ddp_opts o = {.opts_size = sizeof(o), .model = model, .keys_max = (uint32_t)keys};
    struct snic_ddp_view view = {.epoch = 1, .full = (1 << NODES) - 1};
    struct snic_ddp_event epoch = {.type = SNIC_DDP_EPOCH, .view = &view};
    struct snic_ddp_event lease = {.type = SNIC_DDP_LEASE, .ts = SNIC_NEVER};
    memset(&b, 0, sizeof(b));
    o.writes_max = 64;
    o.waits_max = 64;
    o.reads_max = 64;
    size_t size = snic_ddp_memsize(&o);
    check(size > 0 && snic_ddp_init(&b.d, map(size), size, &o) == 0, "init");
    b.model = model;
    b.keys = keys;
    b.next = map(keys * sizeof(uint64_t));
    snic_rng_init(&b.rng, 1);
    step(&b, &epoch, NULL);
    step(&b, &lease, NULL);
    for (uint64_t i = 0; i < keys; i++)
        follow(&b, i);
    return b;
}

static double run(struct bench *b, uint32_t what, double seconds, double *cpu_ns)
{
    uint64_t start = clock_now(CLOCK_MONOTONIC);
    uint64_t cpu = clock_now(CLOCK_PROCESS_CPUTIME_ID);
    uint64_t end = start + (uint64_t)(seconds * 1e9);
    uint64_t count = 0;
    uint64_t time;
    b->seen = 0;
    do {
        for (uint32_t n = 0; n < 1024; n++, count++) {
            uint64_t i = snic_rng_next(&b->rng) % b->keys;
            b->now += 100;
            if (what < 2)
                look(b, i, what == 1);
            else if (what == 2)
                follow(b, i);
            else
                coordinate(b, i);
        }
        time = clock_now(CLOCK_MONOTONIC);
    } while (time < end);
    check(b->seen >= count, "something was not answered");
    sink = b->seen;
    *cpu_ns = (double)(clock_now(CLOCK_PROCESS_CPUTIME_ID) - cpu) / (double)count;
    return (double)count / (double)(time - start) * 1e3;
}

static double noise(void)
{
    uint64_t start = clock_now(CLOCK_MONOTONIC);
    uint64_t v = 1;
    for (uint32_t i = 0; i < 20000000; i++)
        v = v * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    sink = v;
    return (double)(clock_now(CLOCK_MONOTONIC) - start);
}

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a;
    double y = *(const double *)b;
    return (x > y) - (x < y);
}

int main(int argc, char **argv)
{
    double seconds = 0.3;
    uint64_t keys = 1000000;
    double rate[CASES][REPEATS];
    double cpu[CASES][REPEATS];
    double loop[REPEATS];
    for (int i = 1; i < argc; i++) {
        if (i + 1 < argc && strcmp(argv[i], "--seconds") == 0) {
            seconds = strtod(argv[++i], NULL);
        } else if (i + 1 < argc && strcmp(argv[i], "--keys") == 0) {
            keys = strtoull(argv[++i], NULL, 10);
        } else {
            fprintf(stderr, "usage: bench_ddp [--seconds N] [--keys N]\n");
            return 2;
        }
    }
    check(keys > 0 && keys <= 1u << 28 && seconds > 0, "--keys or --seconds");
    struct bench b[3] = {begin(SNIC_DDP_SYNCH, keys), begin(SNIC_DDP_STRICT, keys),
                         begin(SNIC_DDP_EVENT, keys)};
    for (int r = 0; r < REPEATS; r++) {
        loop[r] = noise();
        for (int c = 0; c < CASES; c++) {
            /* What follows numbers its writes above those that were coordinated before. */
            struct bench *at = &b[cases[c].model == SNIC_DDP_SYNCH    ? 0
                                  : cases[c].model == SNIC_DDP_STRICT ? 1
                                                                      : 2];
            for (uint64_t i = 0; cases[c].what == 2 && i < keys; i++) {
                struct snic_ddp_key key = key_of(i);
                struct snic_ddp_entry e;
                check(snic_ddp_get(at->d, at->now, &key, &e) == 0, "get");
                at->next[i] = snic_ddp_ts_version(e.ts);
            }
            rate[c][r] = run(at, cases[c].what, seconds, &cpu[c][r]);
        }
    }
    for (int c = 0; c < CASES; c++) {
        qsort(rate[c], REPEATS, sizeof(double), by_value);
        qsort(cpu[c], REPEATS, sizeof(double), by_value);
        printf("row ddp %s ours 1 %.3f Mop/s\n", cases[c].name, rate[c][REPEATS / 2]);
        printf("row ddp %s_cpu ours 1 %.1f ns/op\n", cases[c].name, cpu[c][REPEATS / 2]);
        if (cases[c].goal > 0)
            printf("ratio ddp %s ours/goal 1 %.2f\n", cases[c].name,
                   1e3 / cpu[c][REPEATS / 2] / cases[c].goal);
    }
    qsort(loop, REPEATS, sizeof(double), by_value);
    printf("row ddp noise - - %.1f %%\n", (loop[REPEATS - 1] / loop[0] - 1) * 100);
    return 0;
}
