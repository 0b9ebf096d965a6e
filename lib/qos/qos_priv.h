/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/**
 * A switch in front of an io handle, behind its public header.
 *
 *   submit     takes a slot, cuts parts off the request (feed), gives them to the engine
 *   pump       moves parts from the engine to the inner handle
 *   part done  reports to the engine, cuts the next part, ends the request
 *
 * Invariants
 *  Q1  A slot is FREE; or ACTIVE, with its request on `active` and slot->count parts out on
 *      slot->parts; or ENDING: no part is out, its message is deferred. `requests` counts the
 *      last two.
 *  Q2  A part is FREE; QUEUED: the engine has it; READY: the engine gave it out, or it is a
 *      FLUSH, and it is on `ready`; HELD: the engine gave it out, and its request has not its
 *      data yet; SENT: the inner handle has it. `sent` counts those.
 *  Q3  done is called from qos_finish() alone, from the loop, after the slot was freed.
 *  Q4  A slot has at least one part out until its request is whole or stopped: its own first
 *      part needs no pool, so requests proceed when the pool is empty.
 *  Q5  `stop` is the lowest offset at which a part was not whole; below it every part that has
 *      ended was whole.
 *  Q6  A tenant entry is FREE, ADDED (in the hash), or LEAVING with requests > 0. Entry 0 is the
 *      default tenant, always ADDED and not in the hash.
 *  Q7  An automatic tenant without requests is on `idle`, the longest idle first.
 *  Q8  After qos_pump() `inner_room` waits if `ready` is not empty and the device is not gone.
 *  Q9  A slot with `granted` is reserved and not committed: none of its parts is READY or SENT.
 * While its grant message is deferred the slot is not freed.
 */
#ifndef SNIC_QOS_PRIV_H
#define SNIC_QOS_PRIV_H

#include "snicstore/qos.h"

/** Parts of one request that are out at once: twice what a lone tenant's slots hold. */
#define SNIC_QOS__WINDOW 16u
#define SNIC_QOS__NONE UINT32_MAX
/** A device reads and writes whole pages of flash: less does not cost less. */
#define SNIC_QOS__PAGE 4096u
/** To the inner handle in one call. */
#define SNIC_QOS__BATCH 32u

/** Calls that share a reading of the clock. */
#define SNIC_QOS__CALLS 16u

enum qos_part_state {
    QOS_PART_FREE,
    QOS_PART_QUEUED,
    QOS_PART_READY,
    QOS_PART_HELD,
    QOS_PART_SENT
};
enum qos_slot_state { QOS_SLOT_FREE, QOS_SLOT_ACTIVE, QOS_SLOT_ENDING };
enum qos_tenant_state { QOS_TENANT_FREE, QOS_TENANT_ADDED, QOS_TENANT_LEAVING };

struct qos_slot;

struct qos_part {
    struct snic_gimbal_io gio;
    struct snic_io_req req; /* the inner handle's; req.offset and length are the part's  */
    struct snic_link link;  /* slot->parts                                               */
    struct snic_node node;  /* q->ready, or the pool                                     */
    struct qos_slot *slot;
    enum qos_part_state state;
};

struct qos_slot {
    struct snic_link link; /* q->active                                                  */
    struct snic_loop_msg msg;
    struct snic_loop_msg grant;
    struct snic_link parts;
    struct qos *qos;
    snic_qos_granted_fn granted; /* Q9 */
    uint32_t grant_on;           /* the message is deferred */
    uint32_t notified;           /* granted was called */
    struct snic_io_req *req;
    struct qos_slot *next_free;
    enum qos_slot_state state;
    uint32_t tenant;   /* index, or NONE: counted nowhere                               */
    uint32_t count;    /* parts out                                                     */
    uint32_t made;     /* parts so far                                                  */
    uint32_t credit;   /* the engine's newest                                           */
    uint32_t piece;    /* of the request's list, the next part begins in                */
    uint64_t piece_at; /* bytes into it                                                 */
    uint64_t next;     /* bytes of the request that are in parts                        */
    uint64_t stop;     /* Q5; UINT64_MAX: none                                          */
    int64_t stop_result;
    uint64_t device_ns; /* UINT64_MAX: nothing was sent                                  */
    int32_t os_error;
    int32_t cancelled; /* the error that ends what is not in parts yet                   */
    struct qos_part first;
};

struct qos_tenant {
    struct snic_link idle; /* Q7 */
    uint64_t idle_ns;      /* since */
    uint64_t completed;
    uint64_t errors;
    uint64_t busy;
    uint32_t id;
    uint32_t next; /* of the hash chain, or of the free list: index, or NONE */
    uint32_t requests;
    uint32_t pool; /* parts of the pool it has */
    enum qos_tenant_state state;
    int automatic;
};

struct qos {
    struct snic_io io;
    struct snic_io *inner;
    struct snic_gimbal *gimbal;
    struct snic_qos_opts opts;
    struct snic_gimbal_tenant_opts tenant_opts;
    uint32_t groups_max;
    struct snic_timer timer;
    struct snic_io_room room;
    struct snic_io_waiter inner_room; /* Q8 */
    struct snic_link active;
    struct snic_queue ready;
    struct qos_slot *slots;
    struct qos_slot *free;
    struct qos_part *parts;
    struct snic_queue pool;
    uint32_t pool_free;
    uint32_t requests;
    uint32_t ready_count;
    uint32_t sent;
    uint64_t now_ns;
    uint64_t tick_ns; /* of the iteration in which the clock was read */
    uint32_t calls;   /* since */
    uint64_t armed_ns;
    int32_t gone;
    int32_t closing;
    /* tenant.c */
    struct qos_tenant *tenants;
    uint32_t *buckets;
    uint32_t bucket_shift;
    uint32_t tenant_free;
    struct snic_link idle;
    uint32_t automatic;
    uint32_t tenants_added;  /* ADDED, beside the default one */
    struct snic_hist *waits; /* per tenant, or NULL */
    uint64_t evicted;
    uint64_t unknown;
    uint64_t busy;
    uint64_t parts_sent;
    uint64_t inner_full;
};

/* ---- tenant.c ---- */

void qos_tenants_init(struct qos *q);
/** Index, or NONE. */
uint32_t qos_tenant_find(const struct qos *q, uint32_t id);
/** The same, also of SNIC_QOS_DEFAULT. */
uint32_t qos_tenant_find_any(const struct qos *q, uint32_t id);
/** Automatic ones that were idle for @p idle_ns may make room. 0; SNIC_EINVAL; SNIC_ENOSPC */
int qos_tenant_add(struct qos *q, uint32_t id, const struct snic_gimbal_tenant_opts *o,
                   uint64_t idle_ns, uint32_t *out);
void qos_tenant_drop(struct qos *q, uint32_t index);
/** The tenant that @p id's requests belong to; never fails. */
uint32_t qos_tenant_of(struct qos *q, uint32_t id);
void qos_tenant_enter(struct qos *q, uint32_t index);
void qos_tenant_leave(struct qos *q, uint32_t index);
/** Closing: what is inside goes its way, but does not wait for caps. */
void qos_tenants_uncap(struct qos *q);
int qos_tenants_check(const struct qos *q);

/* ---- part.c ---- */

/** Cut parts off the slot's request and queue them, as many as there may be (Q4). */
void qos_feed(struct qos *q, struct qos_slot *slot);
/** A FLUSH: past the engine. */
void qos_feed_flush(struct qos *q, struct qos_slot *slot);
/** The part is over, @p result as the inner handle's. The slot may end up without parts. */
void qos_part_end(struct qos *q, struct qos_part *part, int64_t result, int32_t os_error);
/** Take back what has not been sent; the parts end with @p error. */
void qos_withdraw(struct qos *q, struct qos_slot *slot, int error);
/** Closing: what a removed tenant has queued becomes the default tenant's. */
void qos_leaving_queued(struct qos *q, struct qos_slot *slot);
/** 1: nothing of the request is left to do. */
int qos_over(const struct qos_slot *slot);
int64_t qos_result(const struct qos_slot *slot);
int qos_parts_check(const struct qos *q);

/** Time does not go back. */
static inline uint64_t qos_time(struct qos *q, uint64_t now_ns)
{
    q->now_ns = snic_max_u64(q->now_ns, now_ns);
    return q->now_ns;
}

/** The time in a call from outside. The clock is read in the first one of an iteration of the loop,
 *  and again after SNIC_QOS__CALLS of them. So what an iteration does between two calls counts as
 *  the device's time, as does what it does before it takes a completion. */
static inline uint64_t qos_clock(struct qos *q)
{
    uint64_t tick = snic_loop_now(q->io.loop);
    if (tick == q->tick_ns && ++q->calls < SNIC_QOS__CALLS)
        return q->now_ns;
    q->tick_ns = tick;
    q->calls = 0;
    return qos_time(q, snic_loop_clock(q->io.loop));
}

/* ---- qos.c ---- */

/** Move what may go to the device; after everything that changes the engine. */
void qos_pump(struct qos *q);

#endif /* SNIC_QOS_PRIV_H */
