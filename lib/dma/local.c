/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/**
 * dma between threads of one process: both ends are one allocation.
 *
 * An operation is carried out inside submit and its completion delivered by the
 * end's poller. Doorbells are a bit mask, messages a single-producer ring; both
 * are announced by snic_loop_wake() on the peer's loop and taken by its poller.
 *
 * Invariants
 *   L1 `gate` of an end is 2 * (peer threads inside) + closed. A thread that enters an
 *      open gate may use the end's loop until it leaves; close shuts the gate and waits
 *      until it is empty. So the loop of a closed end is never touched.
 *   L2 Bells: the thread that turns the mask from zero wakes, the poller takes it whole.
 *   L3 Messages: slot i of the inbox belongs to the sender while i is in
 *      [tail, head + SLOTS), to the receiver while it is in [head, tail).
 *   L4 A region entry is filled before its key is stored (release) and its key is
 *      cleared before it is changed; a resolver reads the key again after the rest.
 *      A key is never used twice.
 *   L5 The memory of both ends, their blocks included, is freed with the second
 *      end: mapped pointers outlive the owner's release and close. Released
 *      blocks are used again by later allocs of the same end.
 */
#include <sched.h>
#include <stdlib.h>

#include "dma/blocks.h"
#include "dma/dma_priv.h"

#define SNIC_DMA_LOCAL__SLOTS 64
#define SNIC_DMA_LOCAL__REGIONS 1024

struct dma_local_msg {
    uint32_t size;
    unsigned char bytes[SNIC_DMA_MSG_MAX];
};

struct dma_local_region {
    _Atomic(uint64_t) key; /* 0: free (L4) */
    _Atomic(uintptr_t) base;
    _Atomic(size_t) size;
    _Atomic(uint32_t) rights;
    uint32_t generation;
};

struct dma_local_link;

/** The owner's thread uses everything; the peer's threads only the last two groups. */
struct dma_local_end {
    struct snic_dma dma;
    struct dma_local_link *link;
    struct dma_local_end *peer;
    struct snic_loop_poller poller;
    struct snic_queue done;
    struct dma_block *blocks;
    int inside; /* the poller is delivering: close must not free under it */
    int closed;
    /* Written by the owner, read by the peer. */
    struct dma_local_region regions[SNIC_DMA_LOCAL__REGIONS];
    _Alignas(SNIC_CACHELINE) _Atomic(uint64_t) head; /* inbox, L3 */
    /* Written by the peer. */
    _Alignas(SNIC_CACHELINE) _Atomic(uint32_t) gate; /* L1 */
    _Atomic(uint64_t) bells;                         /* L2 */
    _Atomic(uint64_t) rung; /* doorbells the owner's threads rang, for the stats */
    _Atomic(uint64_t) tail; /* inbox, L3 */
    struct dma_local_msg inbox[SNIC_DMA_LOCAL__SLOTS];
};

struct dma_local_link {
    struct dma_local_end ends[2];
    _Atomic(uint32_t) open;
};

static struct dma_local_end *dma_local_self(struct snic_dma *d)
{
    return (struct dma_local_end *)(void *)d;
}

/* ---- The gate ---- */

/** 1 and inside, or 0: the end is closed. */
static int dma_local_enter(struct dma_local_end *e)
{
    /* Acquire pairs with the release in close: a shut gate shows all that close did. */
    uint32_t old = atomic_fetch_add_explicit(&e->gate, 2, memory_order_acquire);
    if ((old & 1) == 0)
        return 1;
    (void)atomic_fetch_sub_explicit(&e->gate, 2, memory_order_relaxed);
    return 0;
}

static void dma_local_leave(struct dma_local_end *e)
{
    /* Release pairs with the acquire of the waiting close. */
    (void)atomic_fetch_sub_explicit(&e->gate, 2, memory_order_release);
}

static void dma_local_shut(struct dma_local_end *e)
{
    (void)atomic_fetch_or_explicit(&e->gate, 1, memory_order_acq_rel);
    while (atomic_load_explicit(&e->gate, memory_order_acquire) != 1)
        (void)sched_yield();
}

static int dma_local_is_shut(struct dma_local_end *e)
{
    return (int)(atomic_load_explicit(&e->gate, memory_order_acquire) & 1);
}

/* ---- Memory ---- */

static int dma_local_alloc(struct snic_dma *d, size_t size, void **out)
{
    return dma_block_alloc(&dma_local_self(d)->blocks, size, out);
}

static void dma_local_release(struct snic_dma *d, void *mem)
{
    dma_block_release(dma_local_self(d)->blocks, mem); /* L5 */
}

static int dma_local_register(struct snic_dma *d, void *mem, size_t size, uint32_t rights,
                              uint64_t *key)
{
    struct dma_local_end *e = dma_local_self(d);
    if (size == 0 || rights == 0 || (rights & ~SNIC_DMA__RIGHTS) != 0)
        return SNIC_EINVAL;
    if (!dma_block_holds(e->blocks, mem, size))
        return SNIC_EFAULT;
    for (uint32_t i = 0; i < SNIC_DMA_LOCAL__REGIONS; i++) {
        struct dma_local_region *r = &e->regions[i];
        if (atomic_load_explicit(&r->key, memory_order_relaxed) != 0)
            continue;
        atomic_store_explicit(&r->base, (uintptr_t)mem, memory_order_release);
        atomic_store_explicit(&r->size, size, memory_order_release);
        atomic_store_explicit(&r->rights, rights, memory_order_release);
        uint64_t k = ((uint64_t)++r->generation << 16) | i;
        /* Release pairs with the acquire in dma_local_find(). */
        atomic_store_explicit(&r->key, k, memory_order_release);
        *key = k;
        return 0;
    }
    return SNIC_ENOMEM;
}

static void dma_local_unregister(struct snic_dma *d, uint64_t key)
{
    struct dma_local_end *e = dma_local_self(d);
    uint32_t i = (uint32_t)(key & 0xffff);
    SNIC_ASSERT(i < SNIC_DMA_LOCAL__REGIONS &&
                atomic_load_explicit(&e->regions[i].key, memory_order_relaxed) == key);
    atomic_store_explicit(&e->regions[i].key, 0, memory_order_release);
}

/** Where (key, offset, size) lies in the peer's memory, if it grants @p rights. */
static int dma_local_find(struct dma_local_end *e, uint64_t key, uint64_t offset, uint64_t size,
                          uint32_t rights, unsigned char **at)
{
    uint32_t i = (uint32_t)(key & 0xffff);
    if (key == 0 || i >= SNIC_DMA_LOCAL__REGIONS)
        return SNIC_EFAULT;
    struct dma_local_region *r = &e->peer->regions[i];
    if (atomic_load_explicit(&r->key, memory_order_acquire) != key)
        return SNIC_EFAULT;
    uintptr_t base = atomic_load_explicit(&r->base, memory_order_acquire);
    size_t length = atomic_load_explicit(&r->size, memory_order_acquire);
    uint32_t have = atomic_load_explicit(&r->rights, memory_order_acquire);
    if (atomic_load_explicit(&r->key, memory_order_relaxed) != key) /* L4 */
        return SNIC_EFAULT;
    if ((rights & ~have) != 0 || offset > length || size > length - offset)
        return SNIC_EFAULT;
    *at = (unsigned char *)base + offset;
    return 0;
}

static int dma_local_resolve(struct snic_dma *d, const struct snic_dma_op *op, unsigned char **at)
{
    int r =
        dma_local_find(dma_local_self(d), op->key, op->offset, op->length, dma_op_right(op), at);
    if (r == 0 && dma_op_is_atomic(op) && ((uintptr_t)*at & 7) != 0)
        return SNIC_EINVAL;
    return r;
}

static int dma_local_map(struct snic_dma *d, uint64_t key, uint64_t offset, size_t size, void **out)
{
    unsigned char *at = NULL;
    int r = dma_local_find(dma_local_self(d), key, offset, size,
                           SNIC_DMA_RIGHT_READ | SNIC_DMA_RIGHT_WRITE, &at);
    if (r == 0)
        *out = at;
    return r;
}

/* ---- Operations, messages, doorbells ---- */

static int dma_local_submit(struct snic_dma *d, struct snic_dma_batch **b, uint32_t n)
{
    struct dma_local_end *e = dma_local_self(d);
    if (d->dead || e->closed)
        return SNIC_EPEERDEAD;
    if (n > 0 && snic_queue_empty(&e->done))
        snic_loop_wake(d->loop);
    for (uint32_t i = 0; i < n; i++) {
        dma_batch_run(d, b[i], dma_local_resolve);
        snic_queue_push(&e->done, &b[i]->node);
    }
    d->stats.submitted += n;
    d->stats.queue_high =
        snic_max_u64(d->stats.queue_high, d->stats.submitted - d->stats.completed);
    return (int)n;
}

static int dma_local_send(struct snic_dma *d, const void *msg, uint32_t size)
{
    struct dma_local_end *p = dma_local_self(d)->peer;
    if (size == 0 || size > SNIC_DMA_MSG_MAX)
        return SNIC_EMSGSIZE;
    if (d->dead || !dma_local_enter(p))
        return SNIC_EPEERDEAD;
    uint64_t tail = atomic_load_explicit(&p->tail, memory_order_relaxed);
    /* Acquire pairs with the release of the poller: the slot is read out (L3). */
    int room = tail - atomic_load_explicit(&p->head, memory_order_acquire) < SNIC_DMA_LOCAL__SLOTS;
    if (room) {
        struct dma_local_msg *m = &p->inbox[tail % SNIC_DMA_LOCAL__SLOTS];
        m->size = size;
        memcpy(m->bytes, msg, size);
        /* Release pairs with the acquire of the poller. */
        atomic_store_explicit(&p->tail, tail + 1, memory_order_release);
        d->stats.messages_sent++;
        snic_loop_wake(p->dma.loop);
    }
    dma_local_leave(p);
    return room;
}

static int dma_local_ring(struct snic_dma *d, uint32_t id)
{
    struct dma_local_end *e = dma_local_self(d);
    struct dma_local_end *p = e->peer;
    if (id >= SNIC_DMA_DOORBELLS)
        return SNIC_EINVAL;
    if (!dma_local_enter(p))
        return SNIC_EPEERDEAD;
    (void)atomic_fetch_add_explicit(&e->rung, 1, memory_order_relaxed);
    /* Release pairs with the acquire of the poller's exchange (L2). */
    if (atomic_fetch_or_explicit(&p->bells, UINT64_C(1) << id, memory_order_acq_rel) == 0)
        snic_loop_wake(p->dma.loop);
    dma_local_leave(p);
    return 0;
}

/* ---- Delivery ---- */

static int dma_local_deliver_done(struct dma_local_end *e)
{
    int did = 0;
    struct snic_queue now = e->done; /* what done submits waits for the next round */
    e->done = (struct snic_queue){NULL, NULL};
    for (struct snic_node *n = snic_queue_pop(&now); n != NULL; n = snic_queue_pop(&now)) {
        dma_batch_deliver(&e->dma, dma_batch_of_node(n));
        did = 1;
    }
    return did;
}

static int dma_local_deliver_messages(struct dma_local_end *e)
{
    int did = 0;
    uint64_t head = atomic_load_explicit(&e->head, memory_order_relaxed);
    /* Acquire pairs with the release in dma_local_send(). */
    uint64_t tail = atomic_load_explicit(&e->tail, memory_order_acquire);
    while (head != tail && !e->closed) {
        struct dma_local_msg m = e->inbox[head % SNIC_DMA_LOCAL__SLOTS];
        head++;
        atomic_store_explicit(&e->head, head, memory_order_release); /* L3 */
        e->dma.stats.messages_received++;
        if (e->dma.events.recv != NULL)
            e->dma.events.recv(e->dma.events.ctx, &e->dma, m.bytes, m.size);
        did = 1;
    }
    return did;
}

static int dma_local_deliver_bells(struct dma_local_end *e)
{
    if (atomic_load_explicit(&e->bells, memory_order_relaxed) == 0)
        return 0;
    uint64_t bells = atomic_exchange_explicit(&e->bells, 0, memory_order_acquire); /* L2 */
    for (; bells != 0 && !e->closed; bells &= bells - 1) {
        e->dma.stats.doorbells_received++;
        if (e->dma.events.doorbell != NULL)
            e->dma.events.doorbell(e->dma.events.ctx, &e->dma, (uint32_t)__builtin_ctzll(bells));
    }
    return 1;
}

static int dma_local_pending(struct dma_local_end *e, int shut)
{
    if (!snic_queue_empty(&e->done) || shut)
        return 1;
    return !e->dma.dead && (atomic_load_explicit(&e->bells, memory_order_relaxed) != 0 ||
                            atomic_load_explicit(&e->tail, memory_order_acquire) !=
                                atomic_load_explicit(&e->head, memory_order_relaxed));
}

static void dma_local_unlink(struct dma_local_end *e);

static int dma_local_poll(struct snic_loop_poller *p, int sleeping)
{
    struct dma_local_end *e = SNIC_CONTAINER(p, struct dma_local_end, poller);
    /* Seen before the queues are looked at: what the peer sent before it closed is there. */
    int shut = !e->dma.dead && dma_local_is_shut(e->peer);
    if (sleeping || !dma_local_pending(e, shut))
        return dma_local_pending(e, shut);
    e->inside = 1;
    int did = dma_local_deliver_done(e);
    if (!e->dma.dead) {
        did |= dma_local_deliver_messages(e);
        did |= dma_local_deliver_bells(e);
    }
    if (shut && !e->closed) {
        (void)dma_local_deliver_done(e);
        e->dma.dead = 1;
        if (e->dma.events.death != NULL && !e->closed)
            e->dma.events.death(e->dma.events.ctx, &e->dma, SNIC_DMA_DEATH_CLOSED);
        did = 1;
    }
    e->inside = 0;
    e->dma.stats.doorbells_sent = atomic_load_explicit(&e->rung, memory_order_relaxed);
    if (e->closed)
        dma_local_unlink(e);
    return did;
}

/* ---- Open and close ---- */

static void dma_local_free(struct dma_local_link *link)
{
    for (int i = 0; i < 2; i++)
        dma_block_free(link->ends[i].blocks);
    free(link);
}

static void dma_local_unlink(struct dma_local_end *e)
{
    /* Acquire and release: the second end sees all that the first one wrote (L5). */
    if (atomic_fetch_sub_explicit(&e->link->open, 1, memory_order_acq_rel) == 1)
        dma_local_free(e->link);
}

static void dma_local_close(struct snic_dma *d)
{
    struct dma_local_end *e = dma_local_self(d);
    SNIC_ASSERT(!e->closed);
    e->closed = 1;
    while (dma_local_deliver_done(e) != 0) {
    }
    snic_loop_poller_remove(d->loop, &e->poller);
    dma_local_shut(e); /* L1 */
    if (dma_local_enter(e->peer)) {
        snic_loop_wake(e->peer->dma.loop);
        dma_local_leave(e->peer);
    }
    if (!e->inside)
        dma_local_unlink(e);
}

static const struct snic_dma_ops dma_local_ops = {
    .ops_size = sizeof(struct snic_dma_ops),
    .name = "local",
    .alloc = dma_local_alloc,
    .release = dma_local_release,
    .register_ = dma_local_register,
    .unregister = dma_local_unregister,
    .map = dma_local_map,
    .submit = dma_local_submit,
    .send = dma_local_send,
    .ring = dma_local_ring,
    .close = dma_local_close,
};

static void dma_local_end_init(struct dma_local_link *link, int i, struct snic_loop *loop,
                               const struct snic_dma_events *events)
{
    struct dma_local_end *e = &link->ends[i];
    e->dma.ops = &dma_local_ops;
    e->dma.loop = loop;
    e->dma.events = *events;
    e->dma.caps = SNIC_DMA_CAP_MAPPED | SNIC_DMA_CAP_ORDERED_READ | SNIC_DMA_CAP_ATOMIC;
    e->dma.max_inline = SNIC_DMA_MSG_MAX;
    e->link = link;
    e->peer = &link->ends[1 - i];
    snic_loop_poller_init(&e->poller, dma_local_poll);
    snic_loop_poller_add(loop, &e->poller);
}

int snic_dma_local_open(struct snic_dma **host, struct snic_loop *host_loop,
                        const struct snic_dma_events *host_events, struct snic_dma **dpu,
                        struct snic_loop *dpu_loop, const struct snic_dma_events *dpu_events)
{
    size_t size = (size_t)snic_align_up(sizeof(struct dma_local_link), SNIC_CACHELINE);
    struct dma_local_link *link = aligned_alloc(SNIC_CACHELINE, size);
    if (link == NULL)
        return SNIC_ENOMEM;
    memset(link, 0, size);
    atomic_init(&link->open, 2);
    dma_local_end_init(link, 0, host_loop, host_events);
    dma_local_end_init(link, 1, dpu_loop, dpu_events);
    *host = &link->ends[0].dma;
    *dpu = &link->ends[1].dma;
    return 0;
}
