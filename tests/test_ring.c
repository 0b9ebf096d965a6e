/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* The request ring in one thread: contracts, every short sequence, long random runs. */
#include "test_ring_util.h"

#include <stdio.h>
#include <stdlib.h>

/* Bad options must not make a ring: a wrong size here is an overrun later. */
static void test_ring_options_bad_refused(void **state)
{
    static const struct {
        size_t offset;
        size_t size;
        uint64_t value;
    } bad[] = {
        {offsetof(struct snic_ring_opts, opts_size), 4, 3},
        {offsetof(struct snic_ring_opts, kind), 4, 0},
        {offsetof(struct snic_ring_opts, kind), 4, 3},
        {offsetof(struct snic_ring_opts, discipline), 4, 2},
        {offsetof(struct snic_ring_opts, granule_bytes), 4, 8},
        {offsetof(struct snic_ring_opts, granule_bytes), 4, 48},
        {offsetof(struct snic_ring_opts, granule_bytes), 4, 8192},
        {offsetof(struct snic_ring_opts, body_align), 4, 4},
        {offsetof(struct snic_ring_opts, body_align), 4, 24},
        {offsetof(struct snic_ring_opts, body_align), 4, 8192},
        {offsetof(struct snic_ring_opts, owners_max), 4, 4097},
        {offsetof(struct snic_ring_opts, capacity_bytes), 8, 0},
        {offsetof(struct snic_ring_opts, capacity_bytes), 8, 512},
        {offsetof(struct snic_ring_opts, capacity_bytes), 8, 5000},
        {offsetof(struct snic_ring_opts, capacity_bytes), 8, UINT64_C(1) << 32},
        {offsetof(struct snic_ring_opts, progress_max), 8, 4097},
        {offsetof(struct snic_ring_opts, progress_max), 8, 32},
        {offsetof(struct snic_ring_opts, record_max), 4, 1500},
        {offsetof(struct snic_ring_opts, flags), 4, 1},
    };
    struct snic_ring_opts o = request_opts(SNIC_RING_COMMIT, 4096);
    unsigned char block[128];
    size_t i;

    (void)state;
    assert_true(snic_ring_memsize(&o) > 4096);
    for (i = 0; i < SNIC_COUNTOF(bad); i++) {
        struct snic_ring_opts b = o;

        memcpy((unsigned char *)&b + bad[i].offset, &bad[i].value, bad[i].size);
        assert_int_equal(snic_ring_memsize(&b), 0);
        memset(block, 0x77, sizeof(block));
        assert_int_equal(snic_ring_init(block, sizeof(block), &b), SNIC_EINVAL);
        assert_int_equal(block[0], 0x77);
    }
}

/* One byte short or misaligned memory must be refused, untouched. */
static void test_ring_memory_short_or_skewed_refused(void **state)
{
    struct snic_ring_opts o = request_opts(SNIC_RING_COMMIT, 4096);
    size_t size = snic_ring_memsize(&o);
    unsigned char *m = support_guard_alloc(size - 1, SNIC_RING_ALIGN);
    unsigned char *big = support_guard_alloc(size + 4096, 4096);

    (void)state;
    assert_int_equal(snic_ring_init(m, size - 1, &o), SNIC_ENOSPC);
    assert_int_equal(snic_ring_init(big + 64, size, &o), SNIC_EINVAL);
    o.body_align = 4096;
    assert_int_equal(snic_ring_init(big + 128, size, &o), SNIC_EINVAL);
    support_guard_free(m);
    support_guard_free(big);
}

/* A foreign, damaged or newer header must not be attached to. */
static void test_ring_header_damaged_refused(void **state)
{
    struct fixture f;
    struct snic_ring_producer p;
    struct snic_ring_consumer c;
    struct snic_ring_collector k;
    unsigned char *m;
    size_t i;

    (void)state;
    fixture_open(&f, request_opts(SNIC_RING_COMMIT, 4096));
    m = f.mem;
    for (i = 0; i < SNIC_RING_HEADER_BYTES; i++) {
        int want = i < 12 ? SNIC_EVERSION : SNIC_ECORRUPT;

        m[i] ^= 0x10;
        assert_int_equal(snic_ring_producer_attach(&p, m, f.size, 0), want);
        assert_int_equal(snic_ring_consumer_attach(&c, m, f.size, NULL, 0), want);
        m[i] ^= 0x10;
    }
    assert_int_equal(snic_ring_collector_attach(&k, m, f.size, 0), SNIC_EINVAL);
    assert_int_equal(snic_ring_producer_attach(&p, m, f.size - 1, 0), SNIC_ENOSPC);
    assert_int_equal(snic_ring_producer_attach(&p, m, 100, 0), SNIC_ENOSPC);
    assert_int_equal(snic_ring_producer_attach(&p, m + 64, f.size - 64, 0), SNIC_EINVAL);
    assert_int_equal(snic_ring_producer_attach(&p, m, f.size, 7), SNIC_EINVAL);
    assert_int_equal(snic_ring_consumer_attach(&c, m, f.size, f.aux, (size_t)f.info.aux_bytes - 1),
                     SNIC_ENOSPC);
    assert_int_equal(snic_ring_consumer_attach(&c, m, f.size, (char *)f.aux + 4, 1 << 20),
                     SNIC_EINVAL);
    fixture_close(&f);
}

/* Each refusal of the producer must leave ring and handle as they were. */
static void test_ring_producer_refusals_change_nothing(void **state)
{
    struct fixture f;
    struct snic_ring_producer p, before;
    struct snic_ring_rec rec;
    uint32_t sizes[3] = {8, 8, 1 << 20};
    struct snic_ring_iov iov = {sizes, (size_t)1 << 40};
    unsigned char *copy;

    (void)state;
    fixture_open(&f, request_opts(SNIC_RING_COMMIT, 4096));
    copy = malloc(f.size);
    assert_non_null(copy);
    assert_int_equal(snic_ring_producer_attach(&p, f.mem, f.size, 0), 0);
    memcpy(copy, f.mem, f.size);
    before = p;
    assert_int_equal(snic_ring_reserve(&p, 65536, 8, 0, &rec), SNIC_EINVAL);
    assert_int_equal(snic_ring_reserve(&p, 0, f.info.record_max, 1, &rec), SNIC_EMSGSIZE);
    assert_int_equal(snic_ring_reserve(&p, 0, UINT32_MAX, UINT32_MAX, &rec), SNIC_EMSGSIZE);
    assert_int_equal(snic_ring_reserve_n(&p, 0, sizes, 3, &rec), SNIC_EMSGSIZE);
    assert_int_equal(snic_ring_reserve_n(&p, 0, sizes, 0, &rec), SNIC_EINVAL);
    assert_int_equal(snic_ring_push(&p, 0, copy, f.info.record_max + 1), SNIC_EMSGSIZE);
    assert_int_equal(snic_ring_push_n(&p, 0, copy, 8, 0), SNIC_EINVAL);
    assert_int_equal(snic_ring_push_n(&p, 0, copy, 8, 128), SNIC_EMSGSIZE);
    assert_int_equal(snic_ring_push_n(&p, 0, copy, 8, UINT32_MAX), SNIC_EMSGSIZE);
    assert_int_equal(snic_ring_push_iov(&p, 0, &iov, 1), SNIC_EMSGSIZE);
    assert_memory_equal(&p, &before, sizeof(p));
    assert_memory_equal(copy, f.mem, f.size);
    assert_int_equal(snic_ring_reserve(&p, 0, 8, 0, &rec), 0);
    assert_int_equal(snic_ring_reserve(&p, 0, 8, 0, &rec), SNIC_EBUSY);
    assert_int_equal(snic_ring_push(&p, 0, copy, 8), SNIC_EBUSY);
    snic_ring_cancel(&p);
    assert_int_equal(snic_ring_push_n(&p, 0, copy, 8, 127), 0);
    memcpy(copy, f.mem, f.size);
    assert_int_equal(snic_ring_push(&p, 0, copy, 8), SNIC_EAGAIN);
    assert_memory_equal(copy, f.mem, f.size);
    assert_int_equal(snic_ring_check(f.mem, f.size), 0);
    snic_ring_producer_detach(&p);
    assert_int_equal(snic_ring_push(&p, 0, copy, 8), SNIC_ECORRUPT);
    free(copy);
    fixture_close(&f);
}

/* release and finish must refuse what is not out: freeing it early loses a record. */
static void test_ring_consumer_refusals(void **state)
{
    struct fixture f;
    struct snic_ring_producer p;
    struct snic_ring_consumer c;
    struct snic_ring_rec rec[4];
    struct snic_ring_op op[2];

    (void)state;
    fixture_open(&f, request_opts(SNIC_RING_COMMIT, 4096));
    assert_int_equal(snic_ring_producer_attach(&p, f.mem, f.size, 0), 0);
    assert_int_equal(snic_ring_consumer_attach(&c, f.mem, f.size, f.aux, (size_t)f.info.aux_bytes),
                     0);
    assert_int_equal(snic_ring_push_n(&p, 9, "aaaaaaaabbbbbbbbcccccccc", 8, 3), 0);
    assert_int_equal(snic_ring_fetch(&c, op), SNIC_EINVAL);
    assert_int_equal(snic_ring_head_op(&c, op), 0);
    assert_int_equal(snic_ring_release(&c, 16), SNIC_EINVAL);
    assert_int_equal(snic_ring_finish(&c, 0), SNIC_EINVAL);
    assert_int_equal(snic_ring_peek(&c, rec, 2), 2);
    assert_int_equal(rec[1].type, 9);
    assert_memory_equal(rec[1].data, "bbbbbbbb", 8);
    assert_int_equal(snic_ring_release(&c, 8), SNIC_EINVAL);
    assert_int_equal(snic_ring_release(&c, 48), SNIC_EINVAL);
    assert_int_equal(snic_ring_finish(&c, 32), SNIC_EINVAL);
    assert_int_equal(snic_ring_finish(&c, 8), SNIC_EINVAL);
    assert_int_equal(snic_ring_finish(&c, 16), 0);
    assert_int_equal(snic_ring_finish(&c, 16), SNIC_EINVAL);
    assert_int_equal(snic_ring_backlog(&c), 48);
    assert_int_equal(snic_ring_finish(&c, 0), 0);
    assert_int_equal(snic_ring_backlog(&c), 16);
    assert_int_equal(snic_ring_finish(&c, 0), SNIC_EINVAL);
    fixture_close(&f);
}

/* Programmer errors stop the program instead of publishing garbage. */
static void commit_nothing(void *ctx)
{
    snic_ring_commit(ctx);
}
static void detach_open(void *ctx)
{
    snic_ring_producer_detach(ctx);
}
static void test_ring_producer_commit_without_reserve_aborts(void **state)
{
    struct fixture f;
    struct snic_ring_producer p;
    struct snic_ring_rec rec;

    (void)state;
    fixture_open(&f, request_opts(SNIC_RING_COMMIT, 4096));
    assert_int_equal(snic_ring_producer_attach(&p, f.mem, f.size, 0), 0);
    SUPPORT_EXPECT_ABORT(commit_nothing, &p);
    assert_int_equal(snic_ring_reserve(&p, 0, 8, 0, &rec), 0);
    SUPPORT_EXPECT_ABORT(detach_open, &p);
    fixture_close(&f);
}

/* Bodies must be aligned, inside the record and whole, for every alignment and size. */
static void test_ring_body_any_alignment_is_aligned_and_whole(void **state)
{
    static const uint32_t aligns[] = {8, 64, 512, 4096};
    size_t a;
    uint64_t n = 0;

    (void)state;
    for (a = 0; a < SNIC_COUNTOF(aligns); a++) {
        struct snic_ring_opts o = request_opts(a & 1, UINT64_C(1) << 16);
        struct fixture f;
        struct snic_ring_producer p;
        struct snic_ring_consumer c;
        struct snic_ring_rec rec;
        uint32_t i;

        o.body_align = aligns[a];
        o.granule_bytes = a >= 2 ? 64 : 16;
        fixture_open(&f, o);
        assert_int_equal(snic_ring_producer_attach(&p, f.mem, f.size, 0), 0);
        assert_int_equal(snic_ring_consumer_attach(&c, f.mem, f.size, NULL, 0), 0);
        for (i = 0; i < 3000; i++, n++) {
            uint32_t data = i * 7 % 100;
            uint32_t body = i % 5 == 0 ? f.info.record_max - data : i * 37 % 5000;

            if (snic_ring_reserve(&p, i & 0xffff, data, body, &rec) != 0)
                fail_msg("no room for record %u", i);
            assert_true(((uintptr_t)rec.data & 7) == 0);
            pattern_fill(rec.data, n, 0, data);
            if (body != 0)
                pattern_fill(rec.body, n, data, body);
            snic_ring_commit(&p);
            assert_int_equal(snic_ring_peek(&c, &rec, 1), 1);
            assert_int_equal(rec.type, i & 0xffff);
            assert_int_equal(rec.data_bytes, data);
            assert_int_equal(rec.body_bytes, body);
            assert_true(((uintptr_t)rec.body & (aligns[a] - 1)) == 0);
            assert_true(pattern_ok(rec.data, n, 0, data));
            assert_true(body == 0 ? rec.body == NULL : pattern_ok(rec.body, n, data, body));
            assert_int_equal(snic_ring_release(&c, rec.next), 0);
            assert_int_equal(snic_ring_peek(&c, &rec, 1), 0);
        }
        assert_int_equal(snic_ring_check(f.mem, f.size), 0);
        fixture_close(&f);
    }
}

/* ---- Sequences against the model ---- */

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
    unsigned char block[4096];
};

static void run_open(struct run *r, struct fixture *f, uint64_t start, int finishing)
{
    struct snic_ring_rec rec;
    uint64_t at = 0;

    r->f = f;
    if (snic_ring_init(f->mem, f->size, &f->opts) != 0 ||
        snic_ring_producer_attach(&r->p, f->mem, f->size, 0) != 0 ||
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
    int64_t want = model_push(&r->m, 40, 1, 0);
    int got = snic_ring_reserve(&r->p, 5, 40, 0, &rec);

    r->m.last = last;
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
     * it tells us where it stands. */
    if (r->m.first == r->taken && snic_ring_backlog(&r->c) < r->m.tail - r->m.head)
        r->m.head = r->m.tail - snic_ring_backlog(&r->c);
}

static int run_peek(struct run *r, uint32_t max)
{
    struct snic_ring_rec rec[64];
    uint32_t ready, want;
    int n = snic_ring_peek(&r->c, rec, max);
    int i;

    if (r->looked == r->taken || r->f->info.discipline == SNIC_RING_COMMIT)
        r->looked = r->m.last;
    ready = r->looked - r->taken;
    want = ready < max ? ready : max;

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

/* Every sequence of operations on the smallest ring behaves as the ten-line model says, wherever
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
    for (variant = 0; variant < 16; variant++) {
        struct snic_ring_opts o = request_opts(variant & 1, 1024);
        struct fixture f;
        uint64_t s;

        o.progress_max = 1024;
        fixture_open(&f, o);
        for (s = 0; s < total; s++) {
            uint64_t left = s;

            if (variant >= 4 && (s & 15) != variant >> 2)
                continue; /* other starting points: a part of the sequences each */
            run_open(r, &f, starts[variant >> 2], (variant >> 1) & 1);
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

/* Long random runs, many laps: payload, order and space as the model says. */
static void test_ring_long_random_run_follows_model(void **state)
{
    uint64_t steps = support_scale(200000, 20000000) / (RING_TEST_SMALL ? 10 : 1);
    struct run *r = malloc(sizeof(*r));
    struct snic_rng rng;
    uint32_t variant;

    (void)state;
    assert_non_null(r);
    snic_rng_init(&rng, support_seed());
    for (variant = 0; variant < 8; variant++) {
        struct snic_ring_opts o = request_opts(variant & 1, UINT64_C(1) << (10 + variant));
        struct fixture f;
        uint64_t i;

        o.granule_bytes = 16U << (variant & 2);
        if (variant & 4)
            o.progress_max = o.capacity_bytes;
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

/* Ragged batches and gathered records must come out as they went in, over the end as well. */
static void test_ring_ragged_batches_arrive_whole(void **state)
{
    struct fixture f;
    struct snic_ring_producer p;
    struct snic_ring_consumer c;
    struct snic_ring_rec recs[16];
    struct snic_rng rng;
    uint64_t n = 0, seen = 0;
    uint32_t i, round;

    (void)state;
    snic_rng_init(&rng, support_seed());
    fixture_open(&f, request_opts(SNIC_RING_COMMIT, 4096));
    assert_int_equal(snic_ring_producer_attach(&p, f.mem, f.size, 0), 0);
    assert_int_equal(snic_ring_consumer_attach(&c, f.mem, f.size, NULL, 0), 0);
    for (round = 0; round < 20000; round++) {
        uint32_t sizes[16], count = 1 + (uint32_t)snic_rng_below(&rng, 16);
        unsigned char text[64];
        struct snic_ring_iov iov[3] = {{text, 20}, {text, 0}, {text + 20, 44}};
        int got;

        for (i = 0; i < count; i++)
            sizes[i] = (uint32_t)snic_rng_below(&rng, 100);
        if (snic_ring_reserve_n(&p, 3, sizes, count, recs) == 0) {
            for (i = 0; i < count; i++)
                pattern_fill(recs[i].data, n++, 0, recs[i].data_bytes);
            snic_ring_commit(&p);
        }
        pattern_fill(text, n, 0, 64);
        n += snic_ring_push_iov(&p, 3, iov, 3) == 0;
        while ((got = snic_ring_peek(&c, recs, 16)) > 0) {
            for (i = 0; i < (uint32_t)got; i++)
                assert_true(pattern_ok(recs[i].data, seen++, 0, recs[i].data_bytes));
            assert_int_equal(snic_ring_release(&c, recs[got - 1].next), 0);
        }
        assert_int_equal(got, 0);
    }
    assert_true(n > 20000 && seen == n);
    assert_true(p.stats.pads > 100);
    fixture_close(&f);
}

/* Wake-ups: one bell per arming, none without. */
static void test_ring_sleeper_armed_is_woken_once(void **state)
{
    struct fixture f;
    struct snic_ring_producer p, q;
    struct snic_ring_consumer c;
    struct snic_ring_op op;
    struct snic_ring_rec rec;
    uint32_t i;

    (void)state;
    fixture_open(&f, request_opts(SNIC_RING_COMMIT, 1024));
    assert_int_equal(snic_ring_producer_attach(&p, f.mem, f.size, 0), 0);
    assert_int_equal(snic_ring_producer_attach(&q, f.mem, f.size, 0), 0);
    assert_int_equal(snic_ring_consumer_attach(&c, f.mem, f.size, NULL, 0), 0);
    for (i = 0; i < 3; i++) {
        assert_int_equal(snic_ring_notify(&p), 0);
        assert_int_equal(snic_ring_sleep_arm(&c, &op), 0);
        assert_int_equal(snic_ring_notify(&p) + snic_ring_notify(&q), 1);
        assert_int_equal(snic_ring_sleep_arm(&c, &op), 0);
        assert_int_equal(snic_ring_sleep_disarm(&c, &op), 0);
        assert_int_equal(snic_ring_notify(&q), 0);
        assert_int_equal(snic_ring_space_notify(&c), 0);
        snic_ring_wait_arm(&p);
        snic_ring_wait_arm(&q);
        assert_int_equal(snic_ring_space_notify(&c), 1);
        assert_int_equal(snic_ring_space_notify(&c), 0);
        assert_int_equal(snic_ring_push(&p, 0, "", 0), 0);
        assert_int_equal(snic_ring_peek(&c, &rec, 1), 1);
        assert_int_equal(snic_ring_release(&c, rec.next), 0);
    }
    fixture_close(&f);
}

/* ---- Hostile memory ---- */

/* A record that claims more than there is below the limit, in each of its forms, is found out
 * before a byte of it is delivered. */
static void test_ring_record_longer_than_its_place_refused(void **state)
{
    uint32_t form, d;

    (void)state;
    for (form = 0; form < 6; form++)
        for (d = 0; d < 2; d++) {
            struct fixture f;
            struct snic_ring_producer p;
            struct snic_ring_consumer c;
            struct snic_ring_rec rec[2];
            unsigned char *m;
            uint64_t word;

            fixture_open(&f, request_opts(d, 1024));
            m = (unsigned char *)f.mem + f.info.data_offset;
            assert_int_equal(snic_ring_producer_attach(&p, f.mem, f.size, 0), 0);
            assert_int_equal(snic_ring_consumer_attach(&c, f.mem, f.size, NULL, 0), 0);
            assert_int_equal(snic_ring_reserve(&p, 1, 8, form < 3 ? 0 : 8, rec), 0);
            snic_ring_commit(&p);
            word = snic_get_le64(m);
            if (form == 0)
                snic_put_le64(m, word + 200); /* data beyond record_max or T */
            else if (form == 1)
                snic_put_le64(m, (word & ~UINT64_C(0xfffffff)) | UINT64_C(0xfffffff));
            else if (form == 2) /* a pad over the end of the data area */
                snic_put_le64(m, (word & ~UINT64_C(0xfffffff)) | UINT64_C(1) << 28 | 65);
            else if (form == 3) /* a body longer than its span */
                snic_put_le64(m + 8, snic_get_le64(m + 8) + 64);
            else if (form == 4) /* a span over the end of the data area */
                snic_put_le64(m + 8, snic_get_le64(m + 8) + (UINT64_C(65) << 32));
            else /* no span */
                snic_put_le64(m + 8, snic_get_le64(m + 8) & UINT32_MAX);
            if (form == 0 && d == SNIC_RING_COMMIT)
                snic_put_le64(m, word + 1000);
            assert_int_equal(snic_ring_peek(&c, rec, 1), SNIC_ECORRUPT);
            assert_int_equal(snic_ring_peek(&c, rec, 1), SNIC_ECORRUPT);
            fixture_close(&f);
        }
    /* QUIESCENT: within the data area and beyond T */
    for (form = 0; form < 3; form++) {
        struct fixture f;
        struct snic_ring_producer p;
        struct snic_ring_consumer c;
        struct snic_ring_rec rec[2];
        unsigned char *m;

        fixture_open(&f, request_opts(SNIC_RING_QUIESCENT, 1024));
        m = (unsigned char *)f.mem + f.info.data_offset;
        assert_int_equal(snic_ring_producer_attach(&p, f.mem, f.size, 0), 0);
        assert_int_equal(snic_ring_consumer_attach(&c, f.mem, f.size, NULL, 0), 0);
        assert_int_equal(snic_ring_reserve(&p, 1, 8, form == 1 ? 8 : 0, rec), 0);
        snic_ring_commit(&p);
        if (form == 0)
            snic_put_le64(m, snic_get_le64(m) + 16);
        else if (form == 1)
            snic_put_le64(m + 8, snic_get_le64(m + 8) + (UINT64_C(2) << 32));
        else
            snic_put_le64(m, (snic_get_le64(m) & ~UINT64_C(0xfffffff)) | UINT64_C(1) << 28 | 3);
        assert_int_equal(snic_ring_peek(&c, rec, 1), SNIC_ECORRUPT);
        fixture_close(&f);
    }
}

/* The same at the end of the data area, where one byte more is not the ring's. */
static void test_ring_record_over_the_end_refused(void **state)
{
    uint32_t form, i;

    (void)state;
    for (form = 0; form < 3; form++) {
        struct fixture f;
        struct snic_ring_producer p;
        struct snic_ring_consumer c;
        struct snic_ring_rec rec[2];
        unsigned char *m;

        fixture_open(&f, request_opts(SNIC_RING_COMMIT, 1024));
        m = (unsigned char *)f.mem + f.info.data_offset + 960;
        assert_int_equal(snic_ring_producer_attach(&p, f.mem, f.size, 0), 0);
        assert_int_equal(snic_ring_consumer_attach(&c, f.mem, f.size, NULL, 0), 0);
        for (i = 0; i < 60; i++) {
            assert_int_equal(snic_ring_push(&p, 1, "", 0), 0);
            assert_int_equal(snic_ring_peek(&c, rec, 1), 1);
            assert_int_equal(snic_ring_release(&c, rec[0].next), 0);
        }
        assert_int_equal(snic_ring_reserve(&p, 1, 8, form == 1 ? 8 : 0, rec), 0);
        snic_ring_commit(&p);
        if (form == 0)
            snic_put_le64(m, snic_get_le64(m) + 100);
        else if (form == 1)
            snic_put_le64(m + 8, snic_get_le64(m + 8) + 100 + (UINT64_C(6) << 32));
        else
            snic_put_le64(m, (snic_get_le64(m) & ~UINT64_C(0xfffffff)) | UINT64_C(1) << 28 | 8);
        assert_int_equal(snic_ring_peek(&c, rec, 1), SNIC_ECORRUPT);
        fixture_close(&f);
    }
}

/* An H that goes back, or beyond T, would let producers write over what is out. */
static void test_ring_head_moved_by_peer_refused(void **state)
{
    static const uint64_t bad[] = {0, 8, 496, 2048, UINT64_MAX - 15};
    uint32_t form, i;

    (void)state;
    for (form = 0; form < SNIC_COUNTOF(bad); form++) {
        struct fixture f;
        struct snic_ring_producer p;
        struct snic_ring_consumer c;
        struct snic_ring_rec rec;
        int r = 0;

        fixture_open(&f, request_opts(SNIC_RING_COMMIT, 1024));
        assert_int_equal(snic_ring_consumer_attach(&c, f.mem, f.size, NULL, 0), 0);
        assert_int_equal(snic_ring_producer_attach(&p, f.mem, f.size, 0), 0);
        for (i = 0; i < 64; i++) { /* the producer has seen an H of 512 at least */
            assert_int_equal(snic_ring_push(&p, 1, "", 0), 0);
            assert_int_equal(snic_ring_peek(&c, &rec, 1), 1);
            assert_int_equal(snic_ring_release(&c, rec.next), 0);
        }
        assert_true(p.head >= 496);
        snic_put_le64((char *)f.mem + SNIC_RING_OFF_HEAD,
                      bad[form] == 496 ? p.head - 16 : bad[form]);
        for (i = 0; i < 64 && r == 0; i++)
            r = snic_ring_push(&p, 1, "", 0);
        assert_int_equal(r, SNIC_ECORRUPT);
        assert_int_equal(snic_ring_push(&p, 1, "", 0), SNIC_ECORRUPT);
        fixture_close(&f);
    }
}

/* Whatever stands in the shared part, no call leaves its memory, hangs or crashes, and a handle
 * that found nonsense stays broken. */
static void test_ring_hostile_memory_is_survived(void **state)
{
    uint64_t rounds = support_scale(3000, 300000);
    struct snic_rng rng;
    uint64_t i, broken = 0;

    (void)state;
    snic_rng_init(&rng, support_seed());
    for (i = 0; i < rounds; i++) {
        struct snic_ring_opts o = request_opts(i & 1, 1024);
        struct fixture f;
        struct snic_ring_producer p;
        struct snic_ring_consumer c;
        struct snic_ring_rec rec[8];
        unsigned char *m;
        int step, n = 0;

        o.owners_max = 2;
        o.body_align = i & 2 ? 64 : 8;
        fixture_open(&f, o);
        m = f.mem;
        assert_int_equal(snic_ring_producer_attach(&p, m, f.size, 11), 0);
        assert_int_equal(snic_ring_consumer_attach(&c, m, f.size, f.aux, (size_t)f.info.aux_bytes),
                         0);
        for (step = 0; step < 60; step++) {
            uint64_t x = snic_rng_next(&rng);
            size_t at = SNIC_RING_HEADER_BYTES +
                        (size_t)snic_rng_below(&rng, (f.size - SNIC_RING_HEADER_BYTES) / 8) * 8;

            if (x % 5 == 0)
                at = SNIC_RING_OFF_PROGRESS + (x >> 8) % 6 * 128;
            if (x % 3 == 0)
                snic_put_le64(m + at, snic_get_le64(m + at) + ((x >> 16) % 9 - 4) * 16);
            else if (x % 3 == 1)
                snic_put_le64(m + at, x >> ((x >> 3) & 63));
            if (snic_ring_reserve(&p, 1, (uint32_t)(x >> 32) % 200, (uint32_t)(x >> 40) % 200,
                                  rec) == 0) {
                memset(rec->data, 1, rec->data_bytes);
                if (rec->body != NULL)
                    memset(rec->body, 1, rec->body_bytes);
                snic_ring_commit(&p);
            }
            n = snic_ring_peek(&c, rec, 8);
            while (n > 0) {
                volatile unsigned char sum = 0;
                const unsigned char *d = rec[--n].data;
                uint32_t b;

                for (b = 0; b < rec[n].data_bytes; b++)
                    sum = (unsigned char)(sum + d[b]);
                for (b = 0; b < rec[n].body_bytes; b++)
                    sum = (unsigned char)(sum + ((unsigned char *)rec[n].body)[b]);
                ignore(snic_ring_finish(&c, rec[n].position));
            }
            if (n < 0)
                assert_int_equal(snic_ring_peek(&c, rec, 8), SNIC_ECORRUPT);
            ignore(snic_ring_notify(&p));
            ignore(snic_ring_space_notify(&c));
            ignore(snic_ring_check(m, f.size));
            if (x % 61 == 0)
                ignore(snic_ring_abandon(m, f.size, 11));
        }
        broken += n < 0;
        fixture_close(&f);
    }
    print_message("%llu of %llu found out\n", (unsigned long long)broken,
                  (unsigned long long)rounds);
    assert_true(broken > rounds / 50);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_ring_options_bad_refused),
        cmocka_unit_test(test_ring_memory_short_or_skewed_refused),
        cmocka_unit_test(test_ring_header_damaged_refused),
        cmocka_unit_test(test_ring_producer_refusals_change_nothing),
        cmocka_unit_test(test_ring_consumer_refusals),
        cmocka_unit_test(test_ring_producer_commit_without_reserve_aborts),
        cmocka_unit_test(test_ring_body_any_alignment_is_aligned_and_whole),
        cmocka_unit_test(test_ring_small_every_sequence_follows_model),
        cmocka_unit_test(test_ring_long_random_run_follows_model),
        cmocka_unit_test(test_ring_ragged_batches_arrive_whole),
        cmocka_unit_test(test_ring_sleeper_armed_is_woken_once),
        cmocka_unit_test(test_ring_record_longer_than_its_place_refused),
        cmocka_unit_test(test_ring_record_over_the_end_refused),
        cmocka_unit_test(test_ring_head_moved_by_peer_refused),
        cmocka_unit_test(test_ring_hostile_memory_is_survived),
    };

    return SUPPORT_MAIN(argc, argv, tests);
}
