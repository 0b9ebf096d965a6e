/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * The loops beyond the first, a thread each: they accept connections at the same ports, and have
 * the devices of some of the namespaces. What a loop has is opened before its thread starts and
 * closed by it; others read the counters that it publishes.
 */
#include "target.h"

#include <inttypes.h>
#include <pthread.h>
#include <sched.h>
#include <semaphore.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

enum { COUNTERS = sizeof(struct snic_nvmet_stats) / sizeof(uint32_t) };

struct part {
    struct snic_loop *loop;
    struct snic_net *net;
    struct snic_nvmet *target;
    void *mem;
    struct snic_loop_msg stop;
    struct snic_loop_poller poller;
    pthread_t thread;
    uint32_t number;
    int stopping;
    _Atomic uint64_t counts[COUNTERS];
    uint64_t before[COUNTERS];
};

/* Of the first loop's thread, which waits; no other loop ever waits for the first. */
struct call {
    struct snic_loop_msg msg;
    void (*fn)(void *ctx);
    void *ctx;
    sem_t done;
};

static struct part parts[SNIC_NVMET_LOOPS_MAX]; /* from 1 */
static int running;

/* The counters of 64 bits, then those of 32. */
static size_t counters(const struct snic_nvmet_stats *s, uint64_t *out)
{
    size_t n = offsetof(struct snic_nvmet_stats, conns) / sizeof(uint64_t);
    memcpy(out, s, n * sizeof(uint64_t));
    out[n] = s->conns;
    out[n + 1] = s->queues;
    out[n + 2] = s->at_device;
    return n + 3;
}

static int publish(struct snic_loop_poller *poller, int sleeping)
{
    struct part *p = SNIC_CONTAINER(poller, struct part, poller);
    struct snic_nvmet_stats s;
    uint64_t now[COUNTERS];
    (void)sleeping;
    snic_nvmet_get_stats(p->target, &s);
    size_t n = counters(&s, now);
    for (size_t i = 0; i < n; i++) {
        if (now[i] != p->before[i])
            atomic_store_explicit(&p->counts[i], now[i], memory_order_relaxed);
        p->before[i] = now[i];
    }
    return 0;
}

void tg_loops_stats(struct snic_nvmet_stats *sum)
{
    uint64_t all[COUNTERS];
    size_t n = counters(sum, all);
    for (uint32_t i = 1; i < tg.loops; i++)
        for (size_t k = 0; k < n; k++)
            all[k] += atomic_load_explicit(&parts[i].counts[k], memory_order_relaxed);
    memcpy(sum, all, (n - 3) * sizeof(uint64_t));
    sum->conns = (uint32_t)all[n - 3];
    sum->queues = (uint32_t)all[n - 2];
    sum->at_device = (uint32_t)all[n - 1];
}

static void part_stop(struct snic_loop_msg *m)
{
    SNIC_CONTAINER(m, struct part, stop)->stopping = 1;
}

void tg_loops_open(struct snic_nvmet *first, const struct snic_nvmet_opts *o,
                   const struct snic_net_uring_opts *net)
{
    size_t size = snic_nvmet_join_memsize(o);
    for (uint32_t i = 1; i < tg.loops; i++) {
        struct part *p = &parts[i];
        p->number = i;
        p->stop.fn = part_stop;
        p->loop = ex_loop_open(0);
        int r = snic_net_uring_open(&p->net, p->loop, net);
        if (r != 0)
            ex_die("cannot open the network: %s", snic_strerror(r));
        p->mem = aligned_alloc(SNIC_NVMET_ALIGN, size);
        if (p->mem == NULL)
            ex_die("cannot have %zu MiB for the connections of each loop: lower --connections or "
                   "--loops",
                   size >> 20);
        r = snic_nvmet_join(&p->target, p->mem, size, p->net, first);
        if (r != 0)
            ex_die("cannot set up loop %u: %s", i, snic_strerror(r));
        snic_loop_poller_init(&p->poller, publish);
        snic_loop_poller_add(p->loop, &p->poller);
    }
}

uint32_t tg_loops_part(const struct tg_namespace *ns)
{
    return (uint32_t)((uint64_t)(ns - tg.ns) % tg.loops);
}

struct snic_loop *tg_loops_of(const struct tg_namespace *ns, struct snic_loop *first)
{
    uint32_t i = tg_loops_part(ns);
    return i == 0 ? first : parts[i].loop;
}

static void call_run(struct snic_loop_msg *m)
{
    struct call *c = SNIC_CONTAINER(m, struct call, msg);
    c->fn(c->ctx);
    (void)sem_post(&c->done);
}

void tg_loops_call(const struct tg_namespace *ns, void (*fn)(void *ctx), void *ctx)
{
    struct call c = {.msg = {.fn = call_run}, .fn = fn, .ctx = ctx};
    uint32_t i = tg_loops_part(ns);
    if (i == 0 || !running) {
        fn(ctx);
        return;
    }
    (void)sem_init(&c.done, 0, 0);
    snic_loop_post(parts[i].loop, &c.msg);
    while (sem_wait(&c.done) != 0)
        ; /* interrupted */
    (void)sem_destroy(&c.done);
}

void tg_loops_share(uint32_t port)
{
    for (uint32_t i = 1; i < tg.loops; i++) {
        int r = snic_nvmet_share(parts[i].target, port, NULL);
        if (r != 0)
            ex_die("loop %u cannot listen on the address of the others (--loops): %s", i,
                   snic_strerror(r));
    }
}

void tg_loops_pin(uint32_t i)
{
    cpu_set_t may, set;
    if (!tg.steer_cpu || sched_getaffinity(0, sizeof(may), &may) != 0)
        return;
    CPU_ZERO(&set);
    for (uint32_t cpu = i; cpu < CPU_SETSIZE; cpu += (uint32_t)tg.loops)
        if (CPU_ISSET(cpu, &may))
            CPU_SET(cpu, &set);
    if (CPU_COUNT(&set) == 0 || sched_setaffinity(0, sizeof(set), &set) != 0)
        ex_log(EX_WARNING,
               "--steer-cpu: loop %u has none of the CPUs %u + N x %" PRIu64
               " that this process may use: it runs on any",
               i, i, tg.loops);
}

static void *part_run(void *ctx)
{
    struct part *p = ctx;
    tg_loops_pin(p->number);
    while (!p->stopping)
        if (snic_loop_once(p->loop, SNIC_NEVER) < 0)
            ex_die("loop %u cannot wait for events", p->number);
    snic_loop_poller_remove(p->loop, &p->poller);
    free(snic_nvmet_close(p->target));
    for (uint32_t i = p->number; i < TG_NAMESPACES; i += (uint32_t)tg.loops)
        if (tg.ns[i].used)
            tg_close(&tg.ns[i]);
    tg_solar_end(p->number);
    snic_net_shut(p->net);
    return NULL;
}

void tg_loops_run(void)
{
    running = 1;
    for (uint32_t i = 1; i < tg.loops; i++) {
        int r = pthread_create(&parts[i].thread, NULL, part_run, &parts[i]);
        if (r != 0)
            ex_die("cannot start a thread (--loops): %s", strerror(r));
    }
}

void tg_loops_stop(void)
{
    for (uint32_t i = 1; i < tg.loops; i++)
        snic_loop_post(parts[i].loop, &parts[i].stop);
}

void tg_loops_close(void)
{
    for (uint32_t i = 1; i < tg.loops; i++)
        (void)pthread_join(parts[i].thread, NULL);
    running = 0;
    for (uint32_t i = 1; i < tg.loops; i++)
        snic_loop_close(parts[i].loop);
}
