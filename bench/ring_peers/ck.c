/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* Concurrency Kit, the ring for many producers and one consumer. */
#include "contest.h"

#include <stdlib.h>

#include <ck_ring.h>

struct peer_word {
    uint64_t v[1];
};
struct peer_line {
    uint64_t v[8];
};
CK_RING_PROTOTYPE(peer_word, peer_word)
CK_RING_PROTOTYPE(peer_line, peer_line)

struct peer_ck {
    ck_ring_t ring;
    void *slots;
};

static void *ck_open(const struct bench_run *r)
{
    struct peer_ck *k = aligned_alloc(128, (sizeof(*k) + 127) / 128 * 128);

    if (k == NULL)
        abort();
    ck_ring_init(&k->ring, bench_messages(r->bytes));
    k->slots = aligned_alloc(4096, (size_t)bench_messages(r->bytes) * r->bytes);
    if (k->slots == NULL)
        abort();
    memset(k->slots, 0, (size_t)bench_messages(r->bytes) * r->bytes);
    return k;
}

static void ck_close(void *ring)
{
    struct peer_ck *k = ring;

    free(k->slots);
    free(k);
}

static void ck_produce(struct bench_run *r, void *ring)
{
    struct peer_ck *k = ring;
    struct peer_line line;

    memset(&line, 0, sizeof(line));
    if (r->bytes == 8)
        BENCH_PRODUCE(r, (memcpy(line.v, message, 8),
                          CK_RING_ENQUEUE_MPSC(peer_word, &k->ring, (struct peer_word *)k->slots,
                                               (struct peer_word *)(void *)line.v)));
    else
        BENCH_PRODUCE(
            r, (memcpy(line.v, message, 64),
                CK_RING_ENQUEUE_MPSC(peer_line, &k->ring, (struct peer_line *)k->slots, &line)));
}

static uint64_t ck_consume(struct bench_run *r, void *ring)
{
    struct peer_ck *k = ring;
    struct peer_line line;
    uint64_t got = 0, sum = 0;
    uint32_t spins = 0;

    memset(&line, 0, sizeof(line));
    while (!bench_stopped(r)) {
        int n =
            r->bytes == 8
                ? CK_RING_DEQUEUE_MPSC(peer_word, &k->ring, (struct peer_word *)k->slots,
                                       (struct peer_word *)(void *)line.v)
                : CK_RING_DEQUEUE_MPSC(peer_line, &k->ring, (struct peer_line *)k->slots, &line);

        if (n) {
            sum += line.v[0];
            bench_received(r, line.v);
            got++;
        } else {
            bench_wait(&spins);
            bench_lag(r);
        }
    }
    return sum == UINT64_MAX ? 0 : got;
}

const struct bench_ring bench_ring_ck = {"ck_mpsc", 0,          0,         ck_open,
                                         ck_close,  ck_produce, ck_consume};
