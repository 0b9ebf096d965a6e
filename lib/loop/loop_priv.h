/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/**
 * The loop behind its public header: what loop.c, uring.c and sim.c share.
 *
 * The core (loop.c) keeps messages, timers, tasks and pollers and knows the
 * order of an iteration. A backend supplies the clock, the wake-up, the
 * completions and the sleep through struct loop_ops; it embeds struct snic_loop
 * as its first member and allocates it.
 */
#ifndef SNIC_LOOP_PRIV_H
#define SNIC_LOOP_PRIV_H

#include <stdatomic.h>

#include "snicstore/loop.h"

struct loop_region {
    unsigned char *base; /* NULL: the entry is free */
    size_t size;
};

/** What a backend does for the core. All but wake are called on the owner thread. */
struct loop_ops {
    uint64_t (*clock)(const struct snic_loop *l);
    /** Interrupt a sleep, or keep the next one from starting. Async-signal-safe. [any] */
    void (*wake)(struct snic_loop *l);
    /** Deliver the completions that are there; their number. */
    uint32_t (*reap)(struct snic_loop *l);
    /** 1 when reap() would find something; cheap, for spinning. */
    int (*pending)(const struct snic_loop *l);
    /** Hand everything queued to the kernel. 0 or SNIC_EIO. */
    int (*submit)(struct snic_loop *l);
    /** Submit, then sleep until a completion or wait_ns. 0 or SNIC_EIO. */
    int (*wait)(struct snic_loop *l, uint64_t wait_ns);
    /** A backend that is driven from elsewhere (a world) replaces the iteration. Or NULL. */
    int (*once)(struct snic_loop *l);
    /** A descriptor that polls readable when reap() has work; NULL: there is none. */
    int (*fd)(struct snic_loop *l);
    int (*region_add)(struct snic_loop *l, uint32_t slot, void *mem, size_t size);
    void (*region_remove)(struct snic_loop *l, uint32_t slot);
    void (*close)(struct snic_loop *l);
};

/**
 * All fields belong to the owner thread, but the last group: `posted` is pushed
 * to by any thread and taken whole by the owner. It is one of
 *   NULL       nothing posted, the loop is awake
 *   &asleep    nothing posted, the owner sleeps or is about to: who replaces it wakes
 *   a message  the newest of a list in reverse posting order
 */
struct snic_loop {
    const struct loop_ops *ops;
    uint64_t now_ns;
    uint64_t awake_ns; /* the busy time since then counts against stall_ns        */
    uint64_t spin_ns;
    uint64_t stall_ns;
    void (*on_stall)(void *ctx, uint64_t gap_ns);
    void *ctx;
    struct snic_queue deferred;
    struct snic_queue leaving;      /* messages for the end of an iteration */
    struct snic_link ready;         /* tasks for the next round of turns          */
    struct snic_link turn;          /* tasks of this round                        */
    struct snic_loop_task *running; /* NULL once it was taken off inside its fn   */
    struct snic_timer *firing;      /* whose function runs; only to be compared           */
    struct snic_link pollers;
    struct snic_link *poller_next; /* the walk over pollers continues here       */
    struct loop_region *regions;
    uint32_t regions_max;
    uint8_t inside;   /* an iteration is under way                                */
    uint8_t timers;   /* its phase of timers is; in a world a step runs one       */
    uint8_t stop;     /* run() returns after this iteration                       */
    uint8_t external; /* fd() was asked for: the caller sleeps on its own         */
    struct snic_loop_stats stats;
    struct snic_wheel wheel;
    _Alignas(SNIC_CACHELINE) _Atomic(struct snic_node *) posted;
    atomic_uint wake_pending; /* wake_msg is queued                               */
    struct snic_loop_msg wake_msg;
    struct snic_node asleep;
};

static inline struct snic_loop *loop_of_wake_msg(struct snic_loop_msg *msg)
{
    return SNIC_CONTAINER(msg, struct snic_loop, wake_msg);
}

static inline void loop_wake_seen(struct snic_loop_msg *msg)
{
    /* Acquire pairs with the release in snic_loop_wake(): what its caller wrote is seen. */
    atomic_exchange_explicit(&loop_of_wake_msg(msg)->wake_pending, 0, memory_order_acq_rel);
}

/** For a backend's open: everything but regions; the block is zeroed already. */
static inline void loop_core_init(struct snic_loop *l, const struct loop_ops *ops, uint64_t now_ns)
{
    l->ops = ops;
    l->now_ns = now_ns;
    l->awake_ns = now_ns;
    snic_link_init(&l->ready);
    snic_link_init(&l->turn);
    snic_link_init(&l->pollers);
    snic_wheel_init(&l->wheel, now_ns);
    atomic_init(&l->posted, NULL);
    atomic_init(&l->wake_pending, 0);
    l->wake_msg.fn = loop_wake_seen;
}

/* ---- Parts of an iteration, for sim.c; defined in loop.c, which is in the same library ---- */

/** Move posted messages behind the deferred ones, in posting order. */
void loop_collect(struct snic_loop *l);
/** Run the first deferred message; 0 when there is none. */
int loop_run_message(struct snic_loop *l);
/** Fire the earliest timer that is due; 0 when there is none. */
int loop_run_timer(struct snic_loop *l);
/** Give the first task of the list @p from its turn; 0 when the list is empty. */
int loop_run_task(struct snic_loop *l, struct snic_link *from);
/** Call every poller once; how many found work. */
uint32_t loop_run_pollers(struct snic_loop *l, int sleeping);

#endif /* SNIC_LOOP_PRIV_H */
