/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * One face for the schedulers that Gimbal is compared with, and for Gimbal itself: what happens
 * at the target (queue, start on the device, complete) and at the client (may it send?).
 *
 * The caller's part. A client that wants to send asks client_may_send(); the I/O then travels to
 * the target, where submit() queues it. The target calls poll() until NULL after each submit(),
 * complete() and at deadline(), and starts what it gets on the device, in that order, with one
 * device queue per tenant. complete() takes what the device finished; the answer travels back and
 * the client calls client_done(), then asks again whether it may send. Times never go back and
 * are the same clock everywhere. One thread.
 */
#ifndef SNIC_BENCH_SCHED_H
#define SNIC_BENCH_SCHED_H

#include "snicstore/gimbal.h"

/* What an I/O is to a scheduler; embedded in the issuer's struct. */
struct sched_io {
    struct snic_gimbal_io g; /* tenant, size, op, priority: filled for every scheduler */
    struct sched_io *next;   /* the scheduler's */
    double tag[2];           /* the scheduler's */
    uint64_t client_sent_ns; /* filled by the client when it sends */
};

/* Zero is the default of everything but tenants. */
struct sched_opts {
    uint32_t tenants;       /* all exist from the start */
    const uint32_t *weight; /* per tenant, NULL: all 1; borrowed for open() */
    /* Per tenant, of the switch alone; NULL: weights only. Groups 1..groups_max have defaults. */
    const struct snic_gimbal_tenant_opts *tenant;
    const struct snic_gimbal_opts *gimbal; /* NULL: defaults; tenants_max is set by open() */
    double device_scale;     /* of the static models' rates: 1, the default, is the DCT983 */
    double reflex_rate;      /* tokens (4 KiB reads) per second */
    double reflex_cost;      /* of a write in reads */
    double parda_latency_ns; /* PARDA's L */
    int parda_sized;         /* PARDA counts an I/O as one per 8 KiB (Parda-N) */
    uint32_t flashfq_depth;  /* FlashFQ's D */
};

struct sched;
struct sched_ops {
    const char *name;
    struct sched *(*open)(const struct sched_opts *o, uint64_t now); /* NULL: out of memory */
    void (*close)(struct sched *s);                                  /* nothing may be inside */
    /* the target */
    void (*submit)(struct sched *s, struct sched_io *io, uint64_t now);
    struct sched_io *(*poll)(struct sched *s, uint64_t now); /* next to start, NULL: none now */
    uint64_t (*deadline)(struct sched *s);                   /* SNIC_NEVER: none */
    void (*complete)(struct sched *s, struct sched_io *io, uint64_t now);
    /* the client: when it receives a completion, and before it sends; NULL: always */
    void (*client_done)(struct sched *s, struct sched_io *io, uint64_t now);
    int (*client_may_send)(struct sched *s, uint32_t tenant, uint32_t inflight, uint64_t now);
};

extern const struct sched_ops sched_fifo, sched_reflex, sched_parda, sched_flashfq, sched_gimbal;
/* By name (fifo, reflex, parda, flashfq, gimbal); NULL: no such scheduler. */
const struct sched_ops *sched_find(const char *name);
/* The switch behind a scheduler that sched_gimbal opened, for its views. */
struct snic_gimbal *sched_gimbal_switch(struct sched *s);

/* A queue of I/Os in order of arrival; all zero is empty. */
struct sched_queue {
    struct sched_io *first;
    struct sched_io *last;
};

static inline void sched_queue_push(struct sched_queue *q, struct sched_io *io)
{
    io->next = NULL;
    if (q->first == NULL)
        q->first = io;
    else
        q->last->next = io;
    q->last = io;
}

static inline struct sched_io *sched_queue_pop(struct sched_queue *q)
{
    struct sched_io *io = q->first;
    if (io != NULL)
        q->first = io->next;
    return io;
}

#endif
