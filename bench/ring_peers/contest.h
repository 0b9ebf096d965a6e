/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* What the ring benchmark's files share: a contestant is a ring with its two loops. */
#ifndef SNIC_BENCH_RING_H
#define SNIC_BENCH_RING_H

#include <sched.h>
#include <stdatomic.h>
#include <stdint.h>
#include <string.h>

#define BENCH_SEATS 64
/* A stamp is ticks, below the sender's seat. */
#define BENCH_SEAT_SHIFT 56
#define BENCH_STAMP_MASK ((UINT64_C(1) << BENCH_SEAT_SHIFT) - 1)

/* Every ring holds as many messages, and they fit the second-level cache. */
static inline uint32_t bench_messages(uint32_t bytes)
{
    return bytes == 8 ? 32768 : 8192;
}

/* One measured run. */
struct bench_run {
    uint32_t bytes; /* payload of a message: 8 or 64 */
    uint32_t batch; /* messages per reservation */
    uint64_t lag;   /* ticks that the consumer waits between looks, 0: eager */
    int stamps;     /* latency: one message at a time per producer, holding its time */
    _Atomic int stop __attribute__((aligned(128)));
    _Atomic uint64_t seats; /* latency: producers that have a seat */
    uint64_t *latency;      /* ticks of each message */
    uint64_t latency_max;
    uint64_t received;
    struct {
        _Atomic uint64_t count __attribute__((aligned(128))); /* messages received of a seat */
    } echoed[BENCH_SEATS];
};

struct bench_ring {
    const char *name;
    int has_batch;
    uint32_t producers_max; /* 0: any number */
    void *(*open)(const struct bench_run *r);
    void (*close)(void *ring);
    void (*produce)(struct bench_run *r, void *ring);
    /* Until stop; messages received. */
    uint64_t (*consume)(struct bench_run *r, void *ring);
};

extern const struct bench_ring bench_ring_commit, bench_ring_quiescent, bench_ring_one,
    bench_ring_one_quiescent, bench_ring_faithful, bench_ring_mutex, bench_ring_farm;
#if defined(SNIC_PEER_LIBDPDK)
extern const struct bench_ring bench_ring_rte_hts, bench_ring_rte_sp;
#endif
#if defined(SNIC_PEER_CK)
extern const struct bench_ring bench_ring_ck;
#endif

static inline uint64_t bench_ticks(void)
{
#if defined(__x86_64__)
    return __builtin_ia32_rdtsc();
#elif defined(__aarch64__)
    uint64_t v;

    __asm__ volatile("isb; mrs %0, cntvct_el0" : "=r"(v));
    return v;
#else
    return (uint64_t)__builtin_readcyclecounter();
#endif
}

static inline void bench_pause(void)
{
#if defined(__x86_64__)
    __builtin_ia32_pause();
#else
    __asm__ volatile("yield");
#endif
}

/* What every contestant does while it is blocked: pause, and now and then yield. */
static inline void bench_wait(uint32_t *spins)
{
    if ((++*spins & 255) == 0)
        sched_yield();
    else
        bench_pause();
}

/* The consumer's pause between looks, if the case has one. */
static inline void bench_lag(const struct bench_run *r)
{
    uint64_t end;

    if (r->lag == 0)
        return;
    end = bench_ticks() + r->lag;
    while ((int64_t)(end - bench_ticks()) > 0)
        bench_pause();
}

/* Latency runs: note the age of a message; its producer waits for this. */
static inline void bench_received(struct bench_run *r, const void *payload)
{
    uint64_t stamp, seat;

    if (!r->stamps)
        return;
    memcpy(&stamp, payload, 8);
    seat = stamp >> BENCH_SEAT_SHIFT;
    if (r->received < r->latency_max)
        r->latency[r->received] = (bench_ticks() - stamp) & BENCH_STAMP_MASK;
    r->received++;
    atomic_store_explicit(&r->echoed[seat].count, /* this thread alone writes it */
                          atomic_load_explicit(&r->echoed[seat].count, memory_order_relaxed) + 1,
                          memory_order_release);
}

static inline int bench_stopped(struct bench_run *r)
{
    return atomic_load_explicit(&r->stop, memory_order_relaxed);
}

/*
 * The producer's loop, the same for all: PUSH is an expression that pushes r->batch messages from
 * `message` and is non-zero when they were taken.
 */
#define BENCH_PRODUCE(r, PUSH)                                                                     \
    do {                                                                                           \
        unsigned char message[64 * 16] = {0};                                                      \
        uint64_t sequence = 0;                                                                     \
        uint64_t seat = (r)->stamps ? atomic_fetch_add(&(r)->seats, 1) : 0;                        \
        uint32_t spins = 0;                                                                        \
        while (!bench_stopped(r)) {                                                                \
            if ((r)->stamps) {                                                                     \
                uint64_t until = bench_ticks() + 2000 + (sequence * 7919 & 4095);                  \
                while ((int64_t)(until - bench_ticks()) > 0)                                       \
                    bench_pause();                                                                 \
                until = (bench_ticks() & BENCH_STAMP_MASK) | seat << BENCH_SEAT_SHIFT;             \
                memcpy(message, &until, 8);                                                        \
            } else {                                                                               \
                memcpy(message, &sequence, 8);                                                     \
            }                                                                                      \
            if (!(PUSH)) {                                                                         \
                bench_wait(&spins);                                                                \
                continue;                                                                          \
            }                                                                                      \
            sequence++;                                                                            \
            while ((r)->stamps && !bench_stopped(r) &&                                             \
                   atomic_load_explicit(&(r)->echoed[seat].count, memory_order_acquire) <          \
                       sequence)                                                                   \
                bench_wait(&spins);                                                                \
        }                                                                                          \
    } while (0)

#endif /* SNIC_BENCH_RING_H */
