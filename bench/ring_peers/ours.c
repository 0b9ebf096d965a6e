/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* The ring of this library, in both disciplines. */
#include "contest.h"

#include "snicstore/ring.h"

#include <stdlib.h>

struct ours {
    void *mem;
    size_t size;
};

static void *ours_open(const struct bench_run *r, uint32_t discipline, uint32_t flags)
{
    struct ours *o = calloc(1, sizeof(*o));
    struct snic_ring_opts opts;

    memset(&opts, 0, sizeof(opts));
    opts.opts_size = sizeof(opts);
    opts.kind = SNIC_RING_REQUEST;
    opts.discipline = discipline;
    opts.flags = flags;
    /* 8 bytes of header each; the rest of the power of two stays unused */
    opts.capacity_bytes = snic_pow2_up(snic_align_up(r->bytes + 8, 16) * bench_messages(r->bytes));
    opts.progress_max = snic_align_up(r->bytes + 8, 16) * bench_messages(r->bytes);
    if (o == NULL)
        abort();
    o->size = snic_ring_memsize(&opts);
    o->mem = aligned_alloc(4096, snic_align_up(o->size, 4096));
    if (o->mem == NULL || snic_ring_init(o->mem, o->size, &opts) != 0)
        abort();
    return o;
}

static void *ours_open_commit(const struct bench_run *r)
{
    return ours_open(r, SNIC_RING_COMMIT, 0);
}

static void *ours_open_one(const struct bench_run *r)
{
    return ours_open(r, SNIC_RING_COMMIT, SNIC_RING_ONE_PRODUCER);
}

static void *ours_open_one_quiescent(const struct bench_run *r)
{
    return ours_open(r, SNIC_RING_QUIESCENT, SNIC_RING_ONE_PRODUCER);
}

static void *ours_open_quiescent(const struct bench_run *r)
{
    return ours_open(r, SNIC_RING_QUIESCENT, 0);
}

static void ours_close(void *ring)
{
    struct ours *o = ring;

    free(o->mem);
    free(o);
}

static void ours_produce(struct bench_run *r, void *ring)
{
    struct ours *o = ring;
    struct snic_ring_producer p;
    struct snic_ring_info info;

    if (snic_ring_geometry(o->mem, o->size, &info) != 0 ||
        snic_ring_producer_attach(&p, o->mem, o->size, info.owners_max) != 0)
        abort();
    if (r->batch == 1)
        BENCH_PRODUCE(r, snic_ring_push(&p, 1, message, r->bytes) == 0);
    else
        BENCH_PRODUCE(r, snic_ring_push_n(&p, 1, message, r->bytes, r->batch) == 0);
    snic_ring_producer_detach(&p);
}

static uint64_t ours_consume(struct bench_run *r, void *ring)
{
    struct ours *o = ring;
    struct snic_ring_consumer c;
    struct snic_ring_run run;
    uint64_t got = 0, sum = 0;
    uint32_t spins = 0;

    if (snic_ring_consumer_attach(&c, o->mem, o->size, NULL, 0) != 0)
        abort();
    while (!bench_stopped(r)) {
        int n = snic_ring_peek_run(&c, &run, 256), i;
        const unsigned char *at = n > 0 ? run.first.data : NULL;

        if (n < 0)
            abort();
        for (i = 0; i < n; i++, at += run.stride_bytes) {
            sum += snic_get_le64(at);
            bench_received(r, at);
        }
        if (n > 0 && snic_ring_release(&c, run.next) != 0)
            abort();
        got += (uint64_t)n;
        if (n == 0)
            bench_wait(&spins);
        if (n < 256)
            bench_lag(r);
    }
    return sum == UINT64_MAX ? 0 : got;
}

const struct bench_ring bench_ring_commit = {
    "ours", 1, 0, ours_open_commit, ours_close, ours_produce, ours_consume};
const struct bench_ring bench_ring_quiescent = {
    "ours_quiescent", 1, 0, ours_open_quiescent, ours_close, ours_produce, ours_consume};
const struct bench_ring bench_ring_one = {
    "ours_one_producer", 1, 1, ours_open_one, ours_close, ours_produce, ours_consume};
const struct bench_ring bench_ring_one_quiescent = {"ours_one_producer_quiescent",
                                                    1,
                                                    1,
                                                    ours_open_one_quiescent,
                                                    ours_close,
                                                    ours_produce,
                                                    ours_consume};
