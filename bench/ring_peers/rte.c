/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* DPDK rte_ring, for many producers with head/tail synchronisation and for a single one; no EAL is
 * needed for a ring in own memory. */
#include "contest.h"

#include <stdlib.h>

#include <rte_ring.h>
#include <rte_ring_elem.h>

static void *rte_open(const struct bench_run *r, unsigned flags)
{
    unsigned count = bench_messages(r->bytes);
    ssize_t size = rte_ring_get_memsize_elem(r->bytes, count);
    struct rte_ring *ring =
        size > 0 ? aligned_alloc(4096, ((size_t)size + 4095) / 4096 * 4096) : NULL;

    if (ring == NULL)
        abort();
    memset(ring, 0, (size_t)size);
    if (rte_ring_init(ring, "bench", count, flags | RING_F_SC_DEQ) != 0)
        abort();
    return ring;
}

static void *rte_open_hts(const struct bench_run *r)
{
    return rte_open(r, RING_F_MP_HTS_ENQ);
}

static void *rte_open_sp(const struct bench_run *r)
{
    return rte_open(r, RING_F_SP_ENQ);
}

static void rte_produce_sp(struct bench_run *r, void *ring)
{
    BENCH_PRODUCE(r, rte_ring_sp_enqueue_bulk_elem(ring, message, r->bytes, r->batch, NULL) != 0);
}

static void rte_produce_hts(struct bench_run *r, void *ring)
{
    BENCH_PRODUCE(r,
                  rte_ring_mp_hts_enqueue_bulk_elem(ring, message, r->bytes, r->batch, NULL) != 0);
}

static uint64_t rte_consume(struct bench_run *r, void *ring)
{
    unsigned char out[64 * 64];
    uint64_t got = 0, sum = 0, v;
    uint32_t spins = 0;

    while (!bench_stopped(r)) {
        unsigned n = rte_ring_sc_dequeue_burst_elem(ring, out, r->bytes, 64, NULL), i;

        for (i = 0; i < n; i++) {
            memcpy(&v, out + (size_t)i * r->bytes, 8);
            sum += v;
            bench_received(r, out + (size_t)i * r->bytes);
        }
        got += n;
        if (n == 0)
            bench_wait(&spins);
        if (n < 64)
            bench_lag(r);
    }
    return sum == UINT64_MAX ? 0 : got;
}

const struct bench_ring bench_ring_rte_hts = {"rte_hts",       1,          0, rte_open_hts, free,
                                              rte_produce_hts, rte_consume};
const struct bench_ring bench_ring_rte_sp = {"rte_sp",       1,          1, rte_open_sp, free,
                                             rte_produce_sp, rte_consume};
