/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * Baselines: the progress ring as the paper describes it, a ring under one mutex, and a ring with
 * a flag per message (FaRM's way). Written here, in the same style and with the same waiting.
 */
#include "contest.h"

#include <pthread.h>
#include <stdlib.h>

#define HEADER 8U

struct base {
    _Atomic uint64_t progress __attribute__((aligned(128)));
    _Atomic uint64_t tail __attribute__((aligned(128)));
    _Atomic uint64_t head __attribute__((aligned(128)));
    pthread_mutex_t lock __attribute__((aligned(128)));
    unsigned char *data;
    uint64_t slot; /* bytes of a message with its header */
    uint64_t slots;
};

static void *base_open(const struct bench_run *r)
{
    struct base *b = aligned_alloc(128, sizeof(*b));

    if (b == NULL)
        abort();
    memset(b, 0, sizeof(*b));
    b->slot = r->bytes + HEADER;
    b->slots = bench_messages(r->bytes);
    b->data = aligned_alloc(4096, b->slot * b->slots);
    if (b->data == NULL || pthread_mutex_init(&b->lock, NULL) != 0)
        abort();
    memset(b->data, 0, b->slot * b->slots);
    return b;
}

static void base_close(void *ring)
{
    struct base *b = ring;

    pthread_mutex_destroy(&b->lock);
    free(b->data);
    free(b);
}

/* Messages are counted, not bytes; a position is the same thing in units of slots. */
static unsigned char *base_at(const struct base *b, uint64_t position)
{
    return b->data + position % b->slots * b->slot;
}

static void base_put(const struct base *b, uint64_t position, const unsigned char *message,
                     uint32_t bytes, uint32_t n)
{
    uint32_t i;

    for (i = 0; i < n; i++, message += bytes) {
        unsigned char *at = base_at(b, position + i);

        memcpy(at, &bytes, 4);
        if (bytes == 8)
            memcpy(at + HEADER, message, 8);
        else
            memcpy(at + HEADER, message, 64);
    }
}

static uint64_t base_get(struct bench_run *r, const struct base *b, uint64_t from, uint64_t to)
{
    uint64_t sum = 0, v;

    for (; from != to; from++) {
        memcpy(&v, base_at(b, from) + HEADER, 8);
        sum += v;
        bench_received(r, base_at(b, from) + HEADER);
    }
    return sum;
}

/* ---- The progress ring of the paper (Figure 8) ---- */

static int faithful_push(struct base *b, const unsigned char *message, uint32_t bytes, uint32_t n)
{
    uint64_t tail = atomic_load_explicit(&b->tail, memory_order_relaxed);
    uint64_t progress;

    do {
        if (tail + n - atomic_load_explicit(&b->head, memory_order_acquire) > b->slots)
            return 0;
    } while (!atomic_compare_exchange_weak_explicit(&b->tail, &tail, tail + n, memory_order_acq_rel,
                                                    memory_order_relaxed));
    base_put(b, tail, message, bytes, n);
    progress = atomic_load_explicit(&b->progress, memory_order_relaxed);
    while (!atomic_compare_exchange_weak_explicit(&b->progress, &progress, progress + n,
                                                  memory_order_acq_rel, memory_order_relaxed))
        ;
    return 1;
}

static void faithful_produce(struct bench_run *r, void *ring)
{
    BENCH_PRODUCE(r, faithful_push(ring, message, r->bytes, r->batch));
}

static uint64_t faithful_consume(struct bench_run *r, void *ring)
{
    struct base *b = ring;
    uint64_t head = 0, sum = 0;
    uint32_t spins = 0;

    while (!bench_stopped(r)) {
        uint64_t progress = atomic_load_explicit(&b->progress, memory_order_acquire);
        uint64_t tail = atomic_load_explicit(&b->tail, memory_order_acquire);

        if (progress != tail || progress == head) {
            bench_wait(&spins);
        } else {
            sum += base_get(r, b, head, progress);
            head = progress;
            atomic_store_explicit(&b->head, head, memory_order_release);
        }
        bench_lag(r);
    }
    return sum == UINT64_MAX ? 0 : head;
}

/* ---- One mutex around everything ---- */

static int mutex_push(struct base *b, const unsigned char *message, uint32_t bytes, uint32_t n)
{
    uint64_t tail;
    int taken = 0;

    pthread_mutex_lock(&b->lock);
    tail = atomic_load_explicit(&b->tail, memory_order_relaxed);
    if (tail + n - atomic_load_explicit(&b->head, memory_order_relaxed) <= b->slots) {
        base_put(b, tail, message, bytes, n);
        atomic_store_explicit(&b->tail, tail + n, memory_order_relaxed);
        taken = 1;
    }
    pthread_mutex_unlock(&b->lock);
    return taken;
}

static void mutex_produce(struct bench_run *r, void *ring)
{
    BENCH_PRODUCE(r, mutex_push(ring, message, r->bytes, r->batch));
}

/* Takes up to 64 under the lock, as ours takes up to 64 per look. */
static uint64_t mutex_consume(struct bench_run *r, void *ring)
{
    struct base *b = ring;
    uint64_t head = 0, sum = 0;
    uint32_t spins = 0;

    while (!bench_stopped(r)) {
        uint64_t n;

        pthread_mutex_lock(&b->lock);
        n = atomic_load_explicit(&b->tail, memory_order_relaxed) - head;
        n = n < 64 ? n : 64;
        sum += base_get(r, b, head, head + n);
        head += n;
        atomic_store_explicit(&b->head, head, memory_order_relaxed);
        pthread_mutex_unlock(&b->lock);
        if (n == 0)
            bench_wait(&spins);
        if (n < 64)
            bench_lag(r);
    }
    return sum == UINT64_MAX ? 0 : head;
}

/* ---- A flag per message; the consumer clears it ---- */

static int farm_push(struct base *b, const unsigned char *message, uint32_t bytes)
{
    uint64_t tail = atomic_load_explicit(&b->tail, memory_order_relaxed);
    unsigned char *at;

    do {
        at = base_at(b, tail);
        if (tail - atomic_load_explicit(&b->head, memory_order_acquire) >= b->slots)
            return 0;
    } while (!atomic_compare_exchange_weak_explicit(&b->tail, &tail, tail + 1, memory_order_acq_rel,
                                                    memory_order_relaxed));
    memcpy(at + HEADER, message, bytes == 8 ? 8 : 64);
    atomic_store_explicit((_Atomic uint64_t *)(void *)at, bytes, memory_order_release);
    return 1;
}

static void farm_produce(struct bench_run *r, void *ring)
{
    BENCH_PRODUCE(r, farm_push(ring, message, r->bytes));
}

static uint64_t farm_consume(struct bench_run *r, void *ring)
{
    struct base *b = ring;
    uint64_t head = 0, sum = 0;
    uint32_t spins = 0;

    while (!bench_stopped(r)) {
        _Atomic uint64_t *flag = (_Atomic uint64_t *)(void *)base_at(b, head);

        if (atomic_load_explicit(flag, memory_order_acquire) == 0) {
            bench_wait(&spins);
            bench_lag(r);
            continue;
        }
        sum += base_get(r, b, head, head + 1);
        atomic_store_explicit(flag, 0, memory_order_relaxed);
        atomic_store_explicit(&b->head, ++head, memory_order_release);
    }
    return sum == UINT64_MAX ? 0 : head;
}

const struct bench_ring bench_ring_faithful = {
    "faithful", 1, 0, base_open, base_close, faithful_produce, faithful_consume};
const struct bench_ring bench_ring_mutex = {
    "mutex", 1, 0, base_open, base_close, mutex_produce, mutex_consume};
const struct bench_ring bench_ring_farm = {"farm",       0,           0, base_open, base_close,
                                           farm_produce, farm_consume};
