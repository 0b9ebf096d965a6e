/* SPDX-License-Identifier: Apache-2.0 OR MIT */
#include "director_bench.h"

#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

void bench_check(int ok, const char *what)
{
    if (!ok) {
        fprintf(stderr, "bench_director: %s\n", what);
        exit(1);
    }
}

uint64_t bench_now(clockid_t id)
{
    struct timespec t;
    clock_gettime(id, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

static int bench_by_size(const void *a, const void *b)
{
    double x = *(const double *)a;
    double y = *(const double *)b;
    return (x > y) - (x < y);
}

double bench_median(double *values, int count)
{
    qsort(values, (size_t)count, sizeof(*values), bench_by_size);
    return values[count / 2];
}

void *bench_memory(size_t size)
{
    void *p = NULL;
    bench_check(size > 0 && posix_memalign(&p, 4096, size) == 0, "memory");
    return p;
}

void bench_pin(int cpu)
{
    cpu_set_t set;
    if (cpu < 0 || cpu >= sysconf(_SC_NPROCESSORS_ONLN))
        return;
    CPU_ZERO(&set);
    CPU_SET((size_t)cpu, &set);
    (void)sched_setaffinity(0, sizeof(set), &set);
}

/* ---- Directors ---- */

uint32_t bench_refused(void *ctx, int error, const unsigned char *data, size_t size, char *out,
                       uint32_t max)
{
    (void)ctx;
    (void)error;
    (void)data;
    (void)size;
    (void)out;
    (void)max;
    bench_check(0, "a message was refused");
    return 0;
}

uint32_t bench_host_gone(void *ctx, const unsigned char *msg, uint32_t size, char *out,
                         uint32_t max)
{
    return bench_refused(ctx, 0, msg, size, out, max);
}

static void bench_part_drained(void *ctx)
{
    ((struct bench_part *)ctx)->done = 1;
}

static void bench_part_stop(struct snic_loop_msg *m)
{
    struct bench_part *p = SNIC_CONTAINER(m, struct bench_part, stop);
    snic_director_drain(p->d, bench_part_drained, p);
}

static void *bench_part_main(void *ctx)
{
    struct bench_part *p = ctx;
    bench_pin(p->cpu);
    while (!p->done)
        (void)snic_loop_once(p->loop, SNIC_NEVER);
    free(snic_director_fini(p->d));
    snic_net_shut(p->net);
    return NULL;
}

void bench_part_open(struct bench_part *p, const struct bench_part_opts *o,
                     struct snic_net_addr *at)
{
    struct snic_net_uring_opts no = o->net;
    struct snic_director_opts d = o->director;
    struct snic_director_user user = o->user;
    memset(p, 0, sizeof(*p));
    no.opts_size = sizeof(no);
    d.opts_size = sizeof(d);
    user.protocol_error = bench_refused;
    user.host_gone = bench_host_gone;
    bench_check(snic_loop_uring_open(&p->loop, NULL) == 0, "loop");
    bench_check(snic_net_uring_open(&p->net, p->loop, &no) == 0, "net");
    size_t n = snic_director_memsize(&d);
    p->mem = bench_memory(n);
    bench_check(snic_director_init(&p->d, p->mem, n, p->net, NULL, &user, &d) == 0, "director");
    if (o->host != NULL)
        snic_director_upstream_net(p->d, o->host);
    bench_check(snic_director_listen(p->d, at, o->listen_flags, at) == 0, "listen");
    p->cpu = o->cpu;
    p->stop.fn = bench_part_stop;
    bench_check(pthread_create(&p->thread, NULL, bench_part_main, p) == 0, "thread");
}

uint64_t bench_part_cpu(const struct bench_part *p)
{
    clockid_t id;
    bench_check(pthread_getcpuclockid(p->thread, &id) == 0, "clock");
    return bench_now(id);
}

void bench_part_close(struct bench_part *p)
{
    snic_loop_post(p->loop, &p->stop);
    (void)pthread_join(p->thread, NULL);
    snic_loop_close(p->loop);
}
