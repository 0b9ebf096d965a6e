/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * The NVMe/TCP target on a device that completes everything at once, over loopback: 4 KiB, 1, 32
 * and 128 in flight on one connection, with and without digests (header and data). The target has
 * one processor, the initiator (nvmehost.h) another. Beside it the echo of nvmetcp_echo.c: as many
 * messages of the same sizes each way, on the same loop and sockets, which it does not read.
 *
 *   nvmetcp_net [--seconds N] [--rounds N] [--only TEXT]
 *
 * N seconds of each row in each of the rounds, which take turns; the rows are medians.
 *
 *   target_CASE_dDEPTH       I/Os per second of the target's CPU time: user, system, and softirqs
 *                            in its context, by its cgroup, or without one by its CPU clock
 *   ..._core                 us per I/O of the target's processor, all processes: other softirqs
 *                            are in this one. Of use on a machine that is idle otherwise
 *   ..._rate, _cpu           I/Os per second; us of CPU time per I/O, both processes
 *   ..._p50, _p99            of depth 1, as the client sees it, us
 *   switchN_CASE_d32         with N hosts that have 32 in flight together: the switch (`ours`)
 *                            beside the bare device (`fifo`)
 *
 * CASE is read, write (data in the capsule), write_r2t (data requested by R2T); with digests
 * followed by _dgst. Over loopback what one end sends is received by the kernel in the sender's
 * context, so the target's side of its requests is the client's CPU time and vice versa; for the
 * echo as well. Ratios and goals are medians of the rounds' ratios.
 */
#include "nvmetcp_meter.h"

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

enum { ROUNDS_MAX = 25, SAMPLES = 1 << 20 };

struct result {
    double per_cpu, rate, cpu, core, p50, p99;
};

struct row {
    char name[48];
    const char *who;
    const struct net_who *what;
    struct net_case c;
    struct result rounds[ROUNDS_MAX];
    double bytes[2]; /* per I/O: sent, received by the client */
};

static struct row rows[64];
static uint32_t row_count;
static double seconds = 1;
static uint32_t rounds = 5;
static const char *only = "";
static double noise[ROUNDS_MAX];
static int grouped;

static struct {
    const struct net_who *who;
    struct snic_loop *loop;
    uint64_t done;
    uint64_t end_ns;
    uint32_t in_flight;
    int timed;
    uint32_t samples;
    uint64_t began_ns;
    uint32_t took[SAMPLES];
} run;

void net_must(int ok, const char *what)
{
    if (ok)
        return;
    fprintf(stderr, "nvmetcp_net: %s\n", what);
    exit(1);
}

void *net_memory(size_t size)
{
    size = (size_t)snic_align_up(size, 4096);
    void *p = aligned_alloc(4096, size);
    net_must(p != NULL, "out of memory");
    memset(p, 0, size);
    return p;
}

struct snic_loop *net_loop(void)
{
    struct snic_loop *loop = NULL;
    net_must(snic_loop_uring_open(&loop, NULL) == 0, "no io_uring");
    return loop;
}

/* As examples/nvme_target has them. */
struct snic_net *net_sockets(struct snic_loop *loop, uint32_t conns)
{
    struct snic_net *net = NULL;
    struct snic_net_uring_opts o = {
        .opts_size = sizeof(o), .conns_max = conns, .recv_buffers = 8, .recv_size = 32768};
    o.pool_buffers = (uint32_t)snic_pow2_up((uint64_t)conns * 8);
    net_must(snic_net_uring_open(&net, loop, &o) == 0, "no sockets");
    return net;
}

/* ---- One measurement ---- */

static uint64_t clock_ns(void)
{
    return (uint64_t)(1e9 * meter_clock(CLOCK_MONOTONIC));
}

static void submit(uint32_t slot)
{
    if (run.timed)
        run.began_ns = clock_ns();
    run.in_flight++;
    run.who->submit(slot);
}

void net_done(uint32_t slot)
{
    if (run.timed && run.samples < SAMPLES)
        run.took[run.samples++] = (uint32_t)snic_min_u64(clock_ns() - run.began_ns, UINT32_MAX);
    run.done++;
    run.in_flight--;
    if (snic_loop_now(run.loop) < run.end_ns)
        submit(slot);
}

/* Until nothing is in flight and the server sleeps. */
static void go(const struct net_case *c, double how_long)
{
    run.done = 0;
    run.samples = 0;
    run.end_ns = snic_loop_clock(run.loop) + (uint64_t)(how_long * 1e9);
    for (uint32_t i = 0; i < c->depth; i++)
        submit(i);
    while (run.in_flight > 0)
        net_must(snic_loop_once(run.loop, SNIC_NEVER) >= 0, "loop");
    usleep(3000);
}

static int by_u32(const void *a, const void *b)
{
    uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
    return (x > y) - (x < y);
}

static int by_double(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static void measure(struct row *r, uint32_t round)
{
    struct result *out = &r->rounds[round];
    struct net_bytes before, after;
    struct snic_net_addr at;
    struct meter m;
    char text[32];
    meter_start(&m, r->what, &r->c);
    grouped = m.group[0] != 0;
    (void)snprintf(text, sizeof(text), "127.0.0.1:%u", m.port);
    net_must(snic_net_addr_parse(&at, text) == 0, "address");
    run.who = r->what;
    run.loop = net_loop();
    run.timed = 0;
    r->what->open(&r->c, &at, run.loop);
    /* Warm; a switch begins with a low rate and has learned the device within 2 s. */
    go(&r->c, r->c.fair ? 2 : seconds < 1 ? 0.2 * seconds : 0.2);
    run.timed = r->c.depth == 1;
    r->what->count(&before);
    double cpu = meter_cpu(&m), core = meter_core(), own = meter_clock(CLOCK_PROCESS_CPUTIME_ID);
    double start = meter_clock(CLOCK_MONOTONIC);
    go(&r->c, seconds);
    double wall = meter_clock(CLOCK_MONOTONIC) - start - 0.003;
    double n = (double)run.done;
    cpu = meter_cpu(&m) - cpu;
    core = meter_core() - core;
    own = meter_clock(CLOCK_PROCESS_CPUTIME_ID) - own;
    r->what->count(&after);
    r->bytes[0] = (double)(after.sent - before.sent) / n;
    r->bytes[1] = (double)(after.received - before.received) / n;
    r->what->close();
    snic_loop_close(run.loop);
    meter_stop(&m);
    out->per_cpu = n / cpu;
    out->rate = n / wall;
    out->cpu = 1e6 * (cpu + own) / n;
    out->core = 1e6 * core / n;
    if (run.timed && run.samples > 0) {
        qsort(run.took, run.samples, sizeof(run.took[0]), by_u32);
        out->p50 = 1e-3 * run.took[run.samples / 2];
        out->p99 = 1e-3 * run.took[(uint64_t)run.samples * 99 / 100];
    }
}

static double calibrate(void)
{
    double start = meter_clock(CLOCK_MONOTONIC);
    uint64_t x = 1;
    for (uint32_t i = 0; i < 50000000; i++)
        x = x * UINT64_C(6364136223846793005) + 1;
    double took = meter_clock(CLOCK_MONOTONIC) - start;
    net_must(x != 0, "calibration");
    return took;
}

/* ---- What is measured ---- */

static void add(const char *name, const char *who, const struct net_who *what,
                const struct net_case *c)
{
    struct row *r = &rows[row_count];
    if (strstr(name, only) == NULL)
        return;
    net_must(row_count < SNIC_COUNTOF(rows), "too many rows");
    (void)snprintf(r->name, sizeof(r->name), "%s", name);
    r->who = who;
    r->what = what;
    r->c = *c;
    row_count++;
}

static void add_all(void)
{
    static const char *const ops[] = {"read", "write", "write_r2t"};
    static const uint32_t depths[] = {1, 32, NET_DEPTH}, hosts[] = {1, NET_HOSTS};
    char name[48];
    for (uint32_t op = 0; op < 3; op++) {
        for (uint32_t i = 0; i < 6; i++) {
            struct net_case c = {.op = (enum net_op)op, .digests = (int)(i % 2), .hosts = 1};
            c.depth = depths[i / 2];
            (void)snprintf(name, sizeof(name), "target_%s%s_d%u", ops[op], c.digests ? "_dgst" : "",
                           c.depth);
            add(name, "ours", &net_target, &c);
            add(name, "echo", &net_echo, &c);
        }
        for (uint32_t i = 0; i < 2; i++) {
            struct net_case c = {.op = (enum net_op)op, .depth = 32, .hosts = hosts[i]};
            (void)snprintf(name, sizeof(name), "switch%u_%s_d32", hosts[i], ops[op]);
            add(name, "fifo", &net_target, &c);
            c.fair = 1;
            add(name, "ours", &net_target, &c);
        }
    }
}

/* ---- Rows ---- */

static double middle(double *v)
{
    qsort(v, rounds, sizeof(*v), by_double);
    return v[rounds / 2];
}

static double value(const struct row *r, size_t field)
{
    double v[ROUNDS_MAX];
    for (uint32_t i = 0; i < rounds; i++)
        memcpy(&v[i], (const char *)&r->rounds[i] + field, sizeof(v[i]));
    return middle(v);
}
#define VALUE(r, field) value(r, offsetof(struct result, field))

/* Median of a's over b's I/Os per CPU-second. */
static double over(const struct row *a, const struct row *b)
{
    double v[ROUNDS_MAX];
    for (uint32_t i = 0; i < rounds; i++)
        v[i] = a->rounds[i].per_cpu / b->rounds[i].per_cpu;
    return middle(v);
}

static void print_row(const struct row *r)
{
    printf("row nvmetcp %s %s 1 %.0f io/cpu_s\n", r->name, r->who, VALUE(r, per_cpu));
    printf("row nvmetcp %s_core %s 1 %.2f us/io\n", r->name, r->who, VALUE(r, core));
    printf("row nvmetcp %s_rate %s 1 %.0f io/s\n", r->name, r->who, VALUE(r, rate));
    printf("row nvmetcp %s_cpu %s 2 %.2f us_cpu/io\n", r->name, r->who, VALUE(r, cpu));
    if (r->c.depth > 1)
        return;
    printf("row nvmetcp %s_p50 %s 1 %.1f us\n", r->name, r->who, VALUE(r, p50));
    printf("row nvmetcp %s_p99 %s 1 %.1f us\n", r->name, r->who, VALUE(r, p99));
}

static void goal(const char *name, const char *what, double v, const char *sign, double limit)
{
    int met = sign[0] == '<' ? v <= limit : v >= limit;
    printf("goal nvmetcp %s %s %.7g %s %.7g %s\n", name, what, v, sign, limit,
           met ? "met" : "missed");
}

static const struct row *find(const char *name, const char *who)
{
    for (uint32_t i = 0; i < row_count; i++)
        if (strcmp(rows[i].name, name) == 0 && strcmp(rows[i].who, who) == 0)
            return &rows[i];
    return NULL;
}

/* The row without digests, of one with. */
static const struct row *plain_of(const struct row *r)
{
    char name[48];
    const char *at = strstr(r->name, "_dgst");
    (void)snprintf(name, sizeof(name), "%.*s%s", (int)(at - r->name), r->name, at + 5);
    return find(name, r->who);
}

static int same_bytes(const struct row *a, const struct row *b)
{
    for (int i = 0; i < 2; i++) {
        double ratio = a->bytes[i] / b->bytes[i];
        if (!(ratio > 0.999 && ratio < 1.001))
            return 0;
    }
    return 1;
}

static void against_echo(const struct row *r)
{
    const struct row *echo = find(r->name, "echo");
    double ratio = over(r, echo);
    printf("ratio nvmetcp %s ours/echo 1 %.2f\n", r->name, ratio);
    if (!same_bytes(r, echo))
        printf("warning nvmetcp %s: %.1f and %.1f bytes per I/O, the echo %.1f and %.1f\n", r->name,
               r->bytes[0], r->bytes[1], echo->bytes[0], echo->bytes[1]);
    goal(r->name, "over_echo", ratio, ">=", 0.7);
    if (r->c.depth == 1) {
        double more[ROUNDS_MAX];
        for (uint32_t i = 0; i < rounds; i++)
            more[i] = r->rounds[i].p50 - echo->rounds[i].p50;
        goal(r->name, "p50_beyond_echo_us", middle(more), "<=", 3);
    } else if (!r->c.digests) {
        goal(r->name, "io_per_cpu_s", VALUE(r, per_cpu), ">=", 300000);
    } else if (plain_of(r) != NULL) {
        ratio = over(r, plain_of(r));
        printf("ratio nvmetcp %s ours/no_digests 1 %.2f\n", r->name, ratio);
        goal(r->name, "over_no_digests", ratio, ">=", 0.85);
    }
}

static void against_fifo(const struct row *r)
{
    double ratio = over(r, find(r->name, "fifo"));
    printf("ratio nvmetcp %s ours/fifo 1 %.3f\n", r->name, ratio);
    goal(r->name, "added_cpu_percent", 100 * (1 / ratio - 1), "<=", 5);
}

static void print_all(void)
{
    for (uint32_t i = 0; i < row_count; i++)
        print_row(&rows[i]);
    for (uint32_t i = 0; i < row_count; i++) {
        if (strcmp(rows[i].who, "ours") != 0)
            continue;
        if (find(rows[i].name, "echo") != NULL)
            against_echo(&rows[i]);
        else
            against_fifo(&rows[i]);
    }
    double lowest = noise[0], highest = noise[0];
    for (uint32_t i = 1; i < rounds; i++) {
        lowest = noise[i] < lowest ? noise[i] : lowest;
        highest = noise[i] > highest ? noise[i] : highest;
    }
    printf("row nvmetcp noise_target - - %.1f %%\n", 100 * (highest - lowest) / middle(noise));
    printf("row nvmetcp target_cpu_by_%s - - %.1f seconds_per_row_and_round\n",
           grouped ? "cgroup" : "cpu_clock", seconds);
}

static void options(int argc, char **argv)
{
    for (int i = 1; i < argc; i += 2) {
        net_must(i + 1 < argc, "nvmetcp_net [--seconds N] [--rounds N] [--only TEXT]");
        if (strcmp(argv[i], "--seconds") == 0)
            seconds = strtod(argv[i + 1], NULL);
        else if (strcmp(argv[i], "--rounds") == 0)
            rounds = (uint32_t)strtoul(argv[i + 1], NULL, 10);
        else if (strcmp(argv[i], "--only") == 0)
            only = argv[i + 1];
        else
            net_must(0, "nvmetcp_net [--seconds N] [--rounds N] [--only TEXT]");
    }
    net_must(seconds > 0 && seconds <= 3600, "--seconds: above 0, at most 3600");
    net_must(rounds >= 1 && rounds <= ROUNDS_MAX, "--rounds: 1 to 25");
}

int main(int argc, char **argv)
{
    options(argc, argv);
    meter_begin();
    add_all();
    for (uint32_t round = 0; round < rounds; round++) {
        noise[round] = calibrate();
        for (uint32_t i = 0; i < row_count; i++)
            measure(&rows[i], round);
    }
    print_all();
    return 0;
}
