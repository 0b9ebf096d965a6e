/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/**
 * What the dma backends share: copies to and from memory that others use at the
 * same time, operation checks, and the carrying out of a batch in program order.
 *
 * Shared memory is touched in relaxed-or-stronger atomic words only, ascending:
 * loads acquire and stores release, so that a batch carried out in order has the
 * effects that ORDERED promises, on weakly ordered machines too. FENCE takes more: a
 * processor may carry out a load before an earlier store is seen by others.
 */
#ifndef SNIC_DMA_PRIV_H
#define SNIC_DMA_PRIV_H

#include <stdatomic.h>

#include "snicstore/dma.h"

#define SNIC_DMA__RIGHTS (SNIC_DMA_RIGHT_READ | SNIC_DMA_RIGHT_WRITE | SNIC_DMA_RIGHT_ATOMIC)
#define SNIC_DMA__FLAGS (SNIC_DMA_ORDERED | SNIC_DMA_FENCE)

/*
 * A remote ring consumer fetches up to the tail, records that are still being written included,
 * and then discards those. To ThreadSanitizer this reader is a thread that races; it stands for an
 * engine that is none. So the loads are hidden from it, and only what they acquire is annotated: a
 * consumer that uses such bytes without having fetched the word that publishes them is still found.
 */
#if defined(__SANITIZE_THREAD__)
#define SNIC_DMA__TSAN 1
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define SNIC_DMA__TSAN 1
#endif
#endif
#if defined(SNIC_DMA__TSAN)
void __tsan_acquire(void *addr);
#define SNIC_DMA__ENGINE __attribute__((no_sanitize("thread")))
#define SNIC_DMA__ACQUIRED(addr) __tsan_acquire(addr)
#else
#define SNIC_DMA__ENGINE
#define SNIC_DMA__ACQUIRED(addr) ((void)0)
#endif

/** What was written before is seen by others before anything is read after. */
static inline void dma_fence(void)
{
#if defined(SNIC_DMA__TSAN) /* it does not know fences, and stops at every atomic anyway */
    _Atomic(uint32_t) word = 0;
    (void)atomic_fetch_add_explicit(&word, 1, memory_order_seq_cst);
#else
    atomic_thread_fence(memory_order_seq_cst);
#endif
}

/** Private @p dst from shared @p src. */
SNIC_DMA__ENGINE static inline void dma_copy_read(void *dst, unsigned char *src, size_t size)
{
    unsigned char *to = dst;
    while (size > 0 && ((uintptr_t)src & 7) != 0) {
        *to++ = atomic_load_explicit((_Atomic(unsigned char) *)src, memory_order_acquire);
        src++;
        size--;
    }
    for (; size >= 8; size -= 8, src += 8, to += 8) {
        uint64_t v = atomic_load_explicit((_Atomic(uint64_t) *)(void *)src, memory_order_acquire);
        SNIC_DMA__ACQUIRED(src);
        memcpy(to, &v, 8);
    }
    for (; size > 0; size--)
        *to++ = atomic_load_explicit((_Atomic(unsigned char) *)src++, memory_order_acquire);
}

/** Shared @p dst from private @p src. */
static inline void dma_copy_write(unsigned char *dst, const void *src, size_t size)
{
    const unsigned char *from = src;
    while (size > 0 && ((uintptr_t)dst & 7) != 0) {
        atomic_store_explicit((_Atomic(unsigned char) *)dst, *from++, memory_order_release);
        dst++;
        size--;
    }
    for (; size >= 8; size -= 8, dst += 8, from += 8) {
        uint64_t v;
        memcpy(&v, from, 8);
        atomic_store_explicit((_Atomic(uint64_t) *)(void *)dst, v, memory_order_release);
    }
    for (; size > 0; size--)
        atomic_store_explicit((_Atomic(unsigned char) *)dst++, *from++, memory_order_release);
}

static inline int dma_op_is_atomic(const struct snic_dma_op *op)
{
    return op->kind == SNIC_DMA_CAS || op->kind == SNIC_DMA_ADD;
}

/** The right that @p op needs. */
static inline uint32_t dma_op_right(const struct snic_dma_op *op)
{
    return op->kind == SNIC_DMA_READ    ? SNIC_DMA_RIGHT_READ
           : op->kind == SNIC_DMA_WRITE ? SNIC_DMA_RIGHT_WRITE
                                        : SNIC_DMA_RIGHT_ATOMIC;
}

/** Everything about @p op but its key: 0, SNIC_EINVAL or SNIC_ENOTSUP. */
static inline int dma_op_check(const struct snic_dma_op *op, uint32_t caps)
{
    if (op->kind < SNIC_DMA_READ || op->kind > SNIC_DMA_ADD || op->unused != 0 ||
        (op->flags & ~SNIC_DMA__FLAGS) != 0)
        return SNIC_EINVAL;
    if (!dma_op_is_atomic(op))
        return 0;
    if ((caps & SNIC_DMA_CAP_ATOMIC) == 0)
        return SNIC_ENOTSUP;
    return op->length == 8 && (op->offset & 7) == 0 ? 0 : SNIC_EINVAL;
}

static inline void dma_op_atomic(struct snic_dma_op *op, unsigned char *at)
{
    _Atomic(uint64_t) *word = (_Atomic(uint64_t) *)(void *)at;
    if (op->kind == SNIC_DMA_ADD) {
        op->value = atomic_fetch_add_explicit(word, op->operand, memory_order_acq_rel);
        return;
    }
    op->value = op->compare;
    (void)atomic_compare_exchange_strong_explicit(word, &op->value, op->operand,
                                                  memory_order_acq_rel, memory_order_acquire);
}

static inline void dma_op_count(struct snic_dma *d, const struct snic_dma_op *op)
{
    if (op->kind == SNIC_DMA_READ) {
        d->stats.reads++;
        d->stats.read_bytes += op->length;
    } else if (op->kind == SNIC_DMA_WRITE) {
        d->stats.writes++;
        d->stats.write_bytes += op->length;
    } else {
        d->stats.atomics++;
    }
}

/** Where @p op goes: 0 and *at, or SNIC_EFAULT. */
typedef int (*dma_resolve_fn)(struct snic_dma *d, const struct snic_dma_op *op, unsigned char **at);

/** Carry out one operation. 0, SNIC_EINVAL, SNIC_ENOTSUP or SNIC_EFAULT. */
static inline int dma_op_run(struct snic_dma *d, struct snic_dma_op *op, dma_resolve_fn resolve)
{
    unsigned char *at = NULL;
    int r = dma_op_check(op, d->caps);
    if (r == 0)
        r = resolve(d, op, &at);
    if (r != 0)
        return r;
    dma_op_count(d, op);
    if (op->kind == SNIC_DMA_READ)
        dma_copy_read(op->local, at, op->length);
    else if (op->kind == SNIC_DMA_WRITE)
        dma_copy_write(at, op->local, op->length);
    else
        dma_op_atomic(op, at);
    return 0;
}

/**
 * Carry out @p b at once, in program order, which satisfies every flag. After an
 * error what is ordered or fenced behind it is left out.
 */
static inline void dma_batch_run(struct snic_dma *d, struct snic_dma_batch *b,
                                 dma_resolve_fn resolve)
{
    int stopped = 0; /* the previous operation failed or was left out */
    b->result = 0;
    b->failed = 0;
    for (uint32_t i = 0; i < b->count; i++) {
        struct snic_dma_op *op = &b->ops[i];
        if ((stopped && (op->flags & SNIC_DMA_ORDERED) != 0) ||
            (b->result != 0 && (op->flags & SNIC_DMA_FENCE) != 0)) {
            stopped = 1;
            continue;
        }
        if ((op->flags & SNIC_DMA_FENCE) != 0 && i > 0)
            dma_fence();
        int r = dma_op_run(d, op, resolve);
        stopped = r != 0;
        if (r != 0 && b->result == 0) {
            b->result = r;
            b->failed = i;
        }
    }
}

static inline struct snic_dma_batch *dma_batch_of_node(struct snic_node *n)
{
    return SNIC_CONTAINER(n, struct snic_dma_batch, node);
}

/** Deliver @p b, which is no longer on any list. */
static inline void dma_batch_deliver(struct snic_dma *d, struct snic_dma_batch *b)
{
    d->stats.completed++;
    if (b->result != 0)
        d->stats.errors++;
    b->done(b);
}

#endif /* SNIC_DMA_PRIV_H */
