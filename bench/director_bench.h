/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * What the parts of bench_director share: directors on threads of their own, and medians.
 */
#ifndef DIRECTOR_BENCH_H
#define DIRECTOR_BENCH_H

#include "snicstore.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>
#include <time.h>

#define BENCH_REPEATS 5

void bench_check(int ok, const char *what);
uint64_t bench_now(clockid_t id);
double bench_median(double *values, int count); /* sorts them */
void *bench_memory(size_t size);                /* aligned to a page */
void bench_pin(int cpu);                        /* the calling thread; where there are so many */

/* A user's protocol_error() and host_gone(): there is no reason for either, so they end it all. */
uint32_t bench_refused(void *ctx, int error, const unsigned char *data, size_t size, char *out,
                       uint32_t max);
uint32_t bench_host_gone(void *ctx, const unsigned char *msg, uint32_t size, char *out,
                         uint32_t max);

/* A director with loop and sockets on a thread. Several may share a port. */
struct bench_part {
    struct snic_loop *loop;
    struct snic_net *net;
    struct snic_director *d;
    void *mem;
    struct snic_loop_msg stop;
    pthread_t thread;
    int cpu; /* -1: any */
    int done;
};

struct bench_part_opts {
    struct snic_director_user user; /* without those two */
    struct snic_director_opts director;
    struct snic_net_uring_opts net;
    const struct snic_net_addr *host; /* net upstream, or NULL */
    uint32_t listen_flags;
    int cpu;
};

/* @at: where; with the port that was chosen. */
void bench_part_open(struct bench_part *p, const struct bench_part_opts *o,
                     struct snic_net_addr *at);
uint64_t bench_part_cpu(const struct bench_part *p);
void bench_part_close(struct bench_part *p);

/* The parts; each prints its rows. */
void bench_flow(double seconds);
void bench_crowd(void);
void bench_turns(double seconds);
void bench_zero(double seconds);

#endif
