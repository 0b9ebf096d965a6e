/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * What a flood does to others: the round-trip time of a quiet client alone, beside four that
 * send without pause, and beside them with turns of unlimited length. The director has a core of
 * its own; flood and quiet client share the other, where the quiet one goes first (its thread's
 * priority, where permitted), and a message costs the director some 200 ns beside its way through:
 * so it is the director that the flood keeps busy, and that is measured.
 */
#include "director_bench.h"

#include <arpa/inet.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

enum {
    TURNS_FLOODS = 4,
    TURNS_MESSAGE = 40,
    TURNS_REPLY = 8,
    TURNS_BURST = 65536,
    TURNS_WORK = 200
};
enum turns_mode { TURNS_ALONE, TURNS_FLOOD, TURNS_ENDLESS, TURNS_MODES };
#define TURNS_SAMPLES 100000

struct turns_flood {
    struct snic_net_addr at;
    pthread_t thread;
    _Atomic int stop;
    _Atomic uint64_t bytes;
};

static int64_t turns_frame(void *ctx, const unsigned char *data, size_t size, uint64_t *state)
{
    (void)ctx;
    (void)data;
    (void)state;
    return size >= TURNS_MESSAGE ? TURNS_MESSAGE : 0;
}

static void turns_predicate(void *ctx, struct snic_offload *o, uint64_t *user,
                            const unsigned char *msg, uint32_t size,
                            struct snic_director_verdict *out)
{
    (void)ctx;
    (void)o;
    (void)size;
    for (int i = 0; i < TURNS_WORK; i++) /* each step waits for the one before */
        *user = *user * 6364136223846793005u + msg[i % TURNS_MESSAGE];
    out->route = SNIC_DIRECTOR_ANSWER;
    out->reply_size = TURNS_REPLY;
    memcpy(out->reply, msg, TURNS_REPLY);
}

static int turns_connect(const struct snic_net_addr *at)
{
    struct sockaddr_in a = {.sin_family = AF_INET, .sin_port = htons(at->port)};
    int one = 1;
    memcpy(&a.sin_addr, at->ip, 4);
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    bench_check(fd >= 0 && connect(fd, (struct sockaddr *)&a, sizeof(a)) == 0, "connect");
    (void)setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
    return fd;
}

/* Four connections, written to and read whenever that is possible: the director sets the pace.
 */
static void *turns_flood_main(void *ctx)
{
    struct turns_flood *f = ctx;
    static unsigned char out[TURNS_BURST];
    static unsigned char in[TURNS_BURST];
    struct pollfd fds[TURNS_FLOODS];
    bench_pin(1);
    (void)setpriority(PRIO_PROCESS, (id_t)syscall(SYS_gettid), 19);
    for (int i = 0; i < TURNS_FLOODS; i++)
        fds[i] = (struct pollfd){.fd = turns_connect(&f->at), .events = POLLIN | POLLOUT};
    while (!atomic_load(&f->stop)) {
        (void)poll(fds, TURNS_FLOODS, 10);
        for (int i = 0; i < TURNS_FLOODS; i++) {
            if (fds[i].revents & POLLIN)
                (void)recv(fds[i].fd, in, sizeof(in), MSG_DONTWAIT);
            ssize_t n = (fds[i].revents & POLLOUT) == 0
                            ? 0
                            : send(fds[i].fd, out, sizeof(out), MSG_DONTWAIT | MSG_NOSIGNAL);
            if (n > 0)
                atomic_fetch_add(&f->bytes, (uint64_t)n);
        }
    }
    for (int i = 0; i < TURNS_FLOODS; i++)
        (void)close(fds[i].fd);
    return NULL;
}

static int turns_by_size(const void *a, const void *b)
{
    uint32_t x = *(const uint32_t *)a;
    uint32_t y = *(const uint32_t *)b;
    return (x > y) - (x < y);
}

/* Round-trips of one message each, 200 us apart, into @ns. */
static uint32_t turns_quiet(const struct snic_net_addr *at, uint32_t *ns, double seconds)
{
    unsigned char m[TURNS_MESSAGE] = {0};
    uint32_t count = 0;
    int fd = turns_connect(at);
    uint64_t end = bench_now(CLOCK_MONOTONIC) + (uint64_t)(seconds * 1e9);
    while (bench_now(CLOCK_MONOTONIC) < end && count < TURNS_SAMPLES) {
        uint64_t t = bench_now(CLOCK_MONOTONIC);
        bench_check(send(fd, m, sizeof(m), MSG_NOSIGNAL) == (ssize_t)sizeof(m), "send");
        bench_check(recv(fd, m, TURNS_REPLY, MSG_WAITALL) == TURNS_REPLY, "answer");
        ns[count++] = (uint32_t)(bench_now(CLOCK_MONOTONIC) - t);
        usleep(200);
    }
    (void)close(fd);
    qsort(ns, count, sizeof(*ns), turns_by_size);
    return count;
}

static void turns_run(enum turns_mode mode, double seconds, double *p50, double *p90, double *p99,
                      double *rate)
{
    static uint32_t ns[TURNS_SAMPLES];
    static struct bench_part p;
    static struct turns_flood f;
    struct bench_part_opts o = {.user = {.frame = turns_frame, .predicate = turns_predicate},
                                .director = {.flags = SNIC_DIRECTOR_IN_ORDER, .conns_max = 64},
                                .cpu = 0};
    o.director.quantum = mode == TURNS_ENDLESS ? 1u << 24 : 0;
    memset(&f, 0, sizeof(f));
    bench_check(snic_net_addr_parse(&f.at, "127.0.0.1:0") == 0, "address");
    bench_part_open(&p, &o, &f.at);
    if (mode != TURNS_ALONE)
        bench_check(pthread_create(&f.thread, NULL, turns_flood_main, &f) == 0, "thread");
    usleep(20000);
    uint64_t b0 = atomic_load(&f.bytes);
    uint32_t count = turns_quiet(&f.at, ns, seconds);
    *rate = (double)(atomic_load(&f.bytes) - b0) / TURNS_MESSAGE / seconds;
    atomic_store(&f.stop, 1);
    if (mode != TURNS_ALONE)
        (void)pthread_join(f.thread, NULL);
    bench_part_close(&p);
    bench_check(count > 0, "no answer");
    *p50 = ns[count / 2] / 1e3;
    *p90 = ns[count - 1 - count / 10] / 1e3;
    *p99 = ns[count - 1 - count / 100] / 1e3;
}

void bench_turns(double seconds)
{
    static const char *const names[TURNS_MODES] = {"quiet_alone", "quiet_flooded",
                                                   "quiet_flooded_endless_turns"};
    static double p50[TURNS_MODES][BENCH_REPEATS];
    static double p90[TURNS_MODES][BENCH_REPEATS];
    static double p99[TURNS_MODES][BENCH_REPEATS];
    static double rate[TURNS_MODES][BENCH_REPEATS];
    struct sched_param first = {.sched_priority = 10};
    struct sched_param none = {.sched_priority = 0};
    cpu_set_t all;
    (void)sched_getaffinity(0, sizeof(all), &all);
    for (int k = 0; k < BENCH_REPEATS; k++)
        for (int m = 0; m < TURNS_MODES; m++) {
            double each = seconds / (TURNS_MODES * BENCH_REPEATS);
            bench_pin(1);
            (void)sched_setscheduler(0, SCHED_FIFO | SCHED_RESET_ON_FORK, &first);
            turns_run((enum turns_mode)m, each, &p50[m][k], &p90[m][k], &p99[m][k], &rate[m][k]);
            (void)sched_setscheduler(0, SCHED_OTHER, &none);
            (void)sched_setaffinity(0, sizeof(all), &all);
        }
    for (int m = 0; m < TURNS_MODES; m++) {
        printf("row director %s_p50 ours 1 %.1f us\n", names[m],
               bench_median(p50[m], BENCH_REPEATS));
        printf("row director %s_p90 ours 1 %.1f us\n", names[m],
               bench_median(p90[m], BENCH_REPEATS));
        printf("row director %s_p99 ours 1 %.1f us\n", names[m],
               bench_median(p99[m], BENCH_REPEATS));
        if (m != TURNS_ALONE)
            printf("row director %s_flood ours 1 %.0f op/s\n", names[m],
                   bench_median(rate[m], BENCH_REPEATS));
    }
    printf("ratio director quiet_flooded_p50 ours/endless_turns 1 %.2f\n",
           p50[TURNS_ENDLESS][BENCH_REPEATS / 2] / p50[TURNS_FLOOD][BENCH_REPEATS / 2]);
}
