/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* The request ring in one thread against a model: every short sequence, long random runs. */
#include "test_ring_util.h"

#include <stdio.h>
#include <stdlib.h>

enum { OP_SMALL, OP_LARGE, OP_BATCH, OP_CANCEL, OP_PEEK1, OP_PEEK, OP_RELEASE, OP_FINISH, OPS };

struct run {
    struct fixture *f;
    struct snic_ring_producer p;
    struct snic_ring_consumer c;
    struct model m;
    uint64_t number;
    uint32_t looked; /* QUIESCENT: records below were there at the last look */
    uint32_t taken;  /* in the model's queue: first..taken are out */
    uint32_t done[MODEL_MAX / 32];
    int finishing; /* this run finishes out of order instead of releasing */
    int by_runs;   /* every other look takes runs */
    unsigned char block[4096];
};

static void run_open(struct run *r, struct fixture *f, uint64_t start, int finishing)
{
    struct snic_ring_rec rec;
    uint64_t at = 0;

    r->f = f;
    if (snic_ring_init(f->mem, f->size, &f->opts) != 0 ||
        snic_ring_producer_attach(&r->p, f->mem, f->size, f->info.owners_max) != 0 ||
        snic_ring_consumer_attach(&r->c, f->mem, f->size, f->aux, (size_t)f->info.aux_bytes) != 0)
        abort();
    for (; at < start; at += 16)
        if (snic_ring_push(&r->p, 0, "", 0) != 0 || snic_ring_peek(&r->c, &rec, 1) != 1 ||
            snic_ring_release(&r->c, rec.next) != 0)
            abort();
    if (snic_ring_peek(&r->c, &rec, 1) != 0)
        abort();
    model_open(&r->m, &f->info, at);
    r->number = 1;
    r->taken = r->looked = 0;
    r->finishing = finishing;
    r->by_runs = 0;
    memset(r->done, 0, sizeof(r->done));
}

static int run_push(struct run *r, uint32_t bytes, uint32_t n)
{
    uint32_t i;
    int64_t want = model_push(&r->m, bytes, n, r->number);
    int got;

    for (i = 0; i < n; i++)
        pattern_fill(r->block + (size_t)i * bytes, r->number + i, 0, bytes);
    got = n == 1 ? snic_ring_push(&r->p, 5, r->block, bytes)
                 : snic_ring_push_n(&r->p, 5, r->block, bytes, n);
    if (want >= 0)
        r->number += n;
    return got == (want < 0 ? SNIC_EAGAIN : 0);
}

static int run_cancel(struct run *r)
{
    struct snic_ring_rec rec;
    uint32_t last = r->m.last;
    uint64_t tail = r->m.tail;
    int64_t want = model_push(&r->m, 40, 1, 0);
    int got = snic_ring_reserve(&r->p, 5, 40, 0, &rec);

    r->m.last = last;
    if (r->f->info.flags & SNIC_RING_ONE_PRODUCER)
        r->m.tail = tail; /* it leaves no padding */
    if (got == 0) {
        memset(rec.data, 0xee, 40);
        snic_ring_cancel(&r->p);
    }
    return got == (want < 0 ? SNIC_EAGAIN : 0);
}

/* The head that the ring must have: behind everything that is not out or done, pads included. */
static void run_head(struct run *r)
{
    while (r->m.first != r->taken &&
           (r->done[r->m.first % MODEL_MAX / 32] >> (r->m.first % 32) & 1) != 0) {
        r->done[r->m.first % MODEL_MAX / 32] &= ~(UINT32_C(1) << (r->m.first % 32));
        r->m.head = r->m.q[r->m.first++ % MODEL_MAX].next;
    }
    /* finish also passes the pads in front of the oldest record that is out */
    if (r->finishing && r->m.first != r->taken)
        r->m.head = r->m.q[r->m.first % MODEL_MAX].position;
    /* With nothing out, pads before what is not yet taken are free once the consumer passed them;
     * it returns its position. */
    if (r->m.first == r->taken && snic_ring_backlog(&r->c) < r->m.tail - r->m.head)
        r->m.head = r->m.tail - snic_ring_backlog(&r->c);
}

/* @p want records by snic_ring_peek_run(), which may give fewer at a time. */
static int run_look(struct run *r, struct snic_ring_rec *rec, uint32_t max, uint32_t want)
{
    uint32_t n = 0;
    int got;

    do {
        got = peek_by_run(&r->c, rec + n, max - n);
        n += got > 0 ? (uint32_t)got : 0;
    } while (got > 0 && n < want);
    return got < 0 ? got : (int)n;
}

static int run_peek(struct run *r, uint32_t max)
{
    struct snic_ring_rec rec[64];
    uint32_t ready, want;
    int n, i;

    if (r->looked == r->taken || r->f->info.discipline == SNIC_RING_COMMIT)
        r->looked = r->m.last;
    ready = r->looked - r->taken;
    want = ready < max ? ready : max;
    r->by_runs = !r->by_runs;
    n = r->by_runs ? run_look(r, rec, max, want) : snic_ring_peek(&r->c, rec, max);
    if (n != (int)want)
        return 0;
    if (n > 0 && r->m.first == r->taken) /* nothing was out: pads before it are free */
        r->m.head = r->m.q[r->m.first % MODEL_MAX].position;
    for (i = 0; i < n; i++, r->taken++) {
        uint32_t q = r->taken % MODEL_MAX;

        if (rec[i].position != r->m.q[q].position || rec[i].next != r->m.q[q].next ||
            rec[i].data_bytes != r->m.q[q].bytes || rec[i].type != 5 ||
            !pattern_ok(rec[i].data, r->m.q[q].number, 0, rec[i].data_bytes))
            return 0;
    }
    run_head(r);
    if (n == 0)
        r->m.shown = r->m.head;
    return 1;
}

static int run_free(struct run *r, uint32_t nth)
{
    uint32_t q = (r->m.first + nth) % MODEL_MAX;

    if (r->m.first == r->taken)
        return 1;
    if (nth >= r->taken - r->m.first || (r->done[q / 32] >> (q % 32) & 1) != 0)
        return 1;
    if (r->finishing) {
        if (snic_ring_finish(&r->c, r->m.q[q].position) != 0)
            return 0;
        r->done[q / 32] |= UINT32_C(1) << (q % 32);
    } else {
        uint32_t i;

        if (snic_ring_release(&r->c, r->m.q[q].next) != 0)
            return 0;
        for (i = 0; i <= nth; i++) {
            q = (r->m.first + i) % MODEL_MAX;
            r->done[q / 32] |= UINT32_C(1) << (q % 32);
        }
    }
    run_head(r);
    if (r->m.head - r->m.shown >= r->m.m / 8)
        r->m.shown = r->m.head;
    return 1;
}

static int run_op(struct run *r, int op)
{
    switch (op) {
    case OP_SMALL:
        return run_push(r, 8, 1);
    case OP_LARGE:
        return run_push(r, r->f->info.record_max, 1);
    case OP_BATCH:
        return run_push(r, 60, 3);
    case OP_CANCEL:
        return run_cancel(r);
    case OP_PEEK1:
        return run_peek(r, 1);
    case OP_PEEK:
        return run_peek(r, 64);
    case OP_RELEASE:
        return run_free(r, 0);
    default:
        return run_free(r, 1);
    }
}

/* Every sequence of operations on the smallest ring behaves as the ten-line model, wherever
 * it begins: a wrong pad, limit or head shows here. */
static void test_ring_small_every_sequence_follows_model(void **state)
{
    static const uint64_t starts[] = {0, 496, 832, 1008};
    uint32_t length = RING_TEST_SMALL ? 4 : (uint32_t)support_scale(6, 8);
    struct run *r = malloc(sizeof(*r));
    uint64_t total = 1, checked = 0;
    uint32_t variant, i;

    (void)state;
    assert_non_null(r);
    for (i = 0; i < length; i++)
        total *= OPS;
    for (variant = 0; variant < 32; variant++) {
        struct snic_ring_opts o = request_opts(variant & 1, 1024);
        uint32_t from = variant >> 2 & 3;
        struct fixture f;
        uint64_t s;

        o.progress_max = 1024;
        o.flags = variant & 16 ? SNIC_RING_ONE_PRODUCER : 0;
        fixture_open(&f, o);
        for (s = 0; s < total; s++) {
            uint64_t left = s;

            if (variant >= 4 && (s & 15) != from + (variant & 16) / 4)
                continue; /* other starting points, one producer: a part of the sequences each */
            run_open(r, &f, starts[from], (variant >> 1) & 1);
            for (i = 0; i < length; i++, left /= OPS)
                if (!run_op(r, (int)(left % OPS)))
                    fail_msg("variant %u sequence %llu step %u", variant, (unsigned long long)s, i);
            if (snic_ring_check(f.mem, f.size) != 0)
                fail_msg("variant %u sequence %llu: check", variant, (unsigned long long)s);
            checked++;
        }
        fixture_close(&f);
    }
    print_message("%llu sequences of %u\n", (unsigned long long)checked, length);
    free(r);
}

/* Long random runs, many laps: payload, order and space as in the model. */
static void test_ring_long_random_run_follows_model(void **state)
{
    uint64_t steps = support_scale(100000, 10000000) / (RING_TEST_SMALL ? 10 : 1);
    struct run *r = malloc(sizeof(*r));
    struct snic_rng rng;
    uint32_t variant;

    (void)state;
    assert_non_null(r);
    snic_rng_init(&rng, support_seed());
    for (variant = 0; variant < 16; variant++) {
        struct snic_ring_opts o = request_opts(variant & 1, UINT64_C(1) << (10 + (variant & 7)));
        struct fixture f;
        uint64_t i;

        o.granule_bytes = 16U << (variant & 2);
        if (variant & 4)
            o.progress_max = o.capacity_bytes;
        o.flags = variant & 8 ? SNIC_RING_ONE_PRODUCER : 0;
        fixture_open(&f, o);
        run_open(r, &f, 0, (variant >> 1) & 1);
        for (i = 0; i < steps; i++) {
            uint64_t x = snic_rng_next(&rng);
            uint32_t most = f.info.record_max < 1000 ? f.info.record_max : 1000;
            int ok;

            if (r->m.last - r->m.first > MODEL_MAX - 64)
                x |= 7;
            switch (x & 7) {
            case 0:
            case 1:
                ok = run_push(r, (uint32_t)(x >> 8) % most, 1);
                break;
            case 2:
                ok = run_push(r, (uint32_t)(x >> 8) % (most / 8), 1 + (uint32_t)(x >> 40) % 4);
                break;
            case 3:
                ok = run_cancel(r);
                break;
            case 4:
                ok = run_peek(r, 1 + (uint32_t)(x >> 8) % 64);
                break;
            default:
                ok = run_free(r, (uint32_t)(x >> 8) % 8);
                break;
            }
            if (!ok)
                fail_msg("variant %u step %llu", variant, (unsigned long long)i);
        }
        assert_int_equal(snic_ring_check(f.mem, f.size), 0);
        fixture_close(&f);
    }
    free(r);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_ring_small_every_sequence_follows_model),
        cmocka_unit_test(test_ring_long_random_run_follows_model),
    };

    return SUPPORT_MAIN(argc, argv, tests);
}
