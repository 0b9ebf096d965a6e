/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* One face for the schedulers that Gimbal is compared with, and for Gimbal itself: what happens
 * at the target (queue, start on the device, complete) and at the client (may it send?). */
#ifndef SNIC_BENCH_SCHED_H
#define SNIC_BENCH_SCHED_H

#include "snicstore/gimbal.h"

/* What an I/O is to a scheduler; embedded by whoever issues it. */
struct sched_io {
    struct snic_gimbal_io g; /* tenant, size, op, priority: filled for every scheduler */
    struct sched_io *next;   /* the scheduler's */
    double tag[2];           /* the scheduler's */
    uint64_t client_sent_ns; /* Parda: when the client sent it; filled by the client */
};

struct sched_opts {
    uint32_t tenants;                       /* all exist from the start */
    const uint32_t *weight;                 /* per tenant, NULL: all 1; who knows none ignores it */
    uint32_t *reserved;
    const struct snic_gimbal_opts *gimbal;  /* NULL: defaults */
    int parda_sized;                        /* Parda: divide latencies by the I/O's size (Parda-N) */
    double device_scale;                    /* of the static models' rates: 1 is the DCT983 */
};

struct sched;
struct sched_ops {
    const char *name;
    struct sched *(*open)(const struct sched_opts *o, uint64_t now); /* NULL: out of memory */
    void (*close)(struct sched *s);
    /* the target */
    void (*submit)(struct sched *s, struct sched_io *io, uint64_t now);
    struct sched_io *(*poll)(struct sched *s, uint64_t now); /* next to start, NULL: none now */
    uint64_t (*deadline)(struct sched *s);                   /* SNIC_NEVER: none */
    void (*complete)(struct sched *s, struct sched_io *io, uint64_t now);
    /* the client, when it hears of a completion, and before it sends; NULL: always */
    void (*client_done)(struct sched *s, struct sched_io *io, uint64_t now);
    int (*client_may_send)(struct sched *s, uint32_t tenant, uint32_t inflight, uint64_t now);
};

extern const struct sched_ops sched_fifo, sched_reflex, sched_parda, sched_flashfq, sched_gimbal;
/* By name (fifo, reflex, parda, flashfq, gimbal); NULL: no such scheduler. */
const struct sched_ops *sched_find(const char *name);

#endif
