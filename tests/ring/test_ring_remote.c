/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * The remote steps over a copier that moves 8-byte words one at a time, in any order that the
 * operation list allows, while the other side runs between any two words. An uncommitted or
 * torn record that can be seen at all is seen here; and the operations are counted.
 */
#include "test_ring_util.h"

#include <stdio.h>
#include <stdlib.h>

struct copier {
    unsigned char *shared;
    size_t size;
    struct snic_rng rng;
    int ascending; /* ORDERED_READ */
    void (*between)(void *ctx);
    void *ctx;
    uint64_t reads, writes;
};

static void copy_word(struct copier *d, const struct snic_ring_op *op, uint64_t word)
{
    uint64_t at = op->offset + word * 8;

    assert_true(at + 8 <= d->size && op->offset % 8 == 0 && op->bytes % 8 == 0);
    if (op->kind == SNIC_RING_OP_READ)
        memcpy((unsigned char *)op->local + word * 8, d->shared + at, 8);
    else
        memcpy(d->shared + at, (unsigned char *)op->local + word * 8, 8);
    d->between(d->ctx);
}

/* Words of [first, last) operations, none of which is fenced from another, in any order. */
static void copy_group(struct copier *d, const struct snic_ring_op *ops, int first, int last)
{
    static struct {
        int op;
        uint64_t word;
    } todo[16384];
    size_t n = 0;
    int i;

    for (i = first; i < last; i++) {
        uint64_t w;

        for (w = 0; w < ops[i].bytes / 8; w++) {
            todo[n].op = i;
            todo[n++].word = w;
        }
        d->reads += ops[i].kind == SNIC_RING_OP_READ;
        d->writes += ops[i].kind == SNIC_RING_OP_WRITE;
    }
    if (d->ascending) {
        for (i = 0; i < (int)n; i++)
            copy_word(d, &ops[todo[i].op], todo[i].word);
        return;
    }
    while (n > 0) {
        size_t pick = (size_t)snic_rng_below(&d->rng, n);

        copy_word(d, &ops[todo[pick].op], todo[pick].word);
        todo[pick] = todo[--n];
    }
}

static void copy_run(struct copier *d, const struct snic_ring_op *ops, int n)
{
    int first = 0, i;

    for (i = 1; i <= n; i++)
        if (i == n || ops[i].flags & SNIC_RING_OP_FENCE) {
            copy_group(d, ops, first, i);
            first = i;
        }
}

/* ---- Requests ---- */

/* A few producers, each somewhere between reserve and commit. */
struct producers {
    struct snic_ring_producer p[3];
    struct snic_ring_rec rec[3];
    uint32_t open[3], filled[3];
    struct snic_rng rng;
    uint64_t number; /* of the next record of any producer: data holds it */
    uint64_t committed;
    int calm;
};

static void produce_some(void *ctx)
{
    struct producers *s = ctx;
    uint64_t x = snic_rng_next(&s->rng);
    uint32_t i = (uint32_t)(x >> 8) % 3;

    if ((x & 7) > 2)
        return;
    if (!s->open[i]) {
        uint32_t bytes = 8 + ((uint32_t)(x >> 16) % 12) * 8;

        if (s->calm || snic_ring_reserve(&s->p[i], 1, bytes, x & 64 ? bytes : 0, &s->rec[i]) != 0)
            return;
        s->open[i] = 1;
        s->filled[i] = 0;
        return;
    }
    if (s->filled[i] == 0) { /* the number */
        snic_put_le64(s->rec[i].data, ++s->number);
        s->filled[i] = 1;
    } else if (s->filled[i] == 1) {
        pattern_fill((char *)s->rec[i].data + 8, snic_get_le64(s->rec[i].data), 8,
                     s->rec[i].data_bytes - 8);
        s->filled[i] = 2;
    } else if (s->filled[i] == 2) {
        if (s->rec[i].body_bytes != 0)
            pattern_fill(s->rec[i].body, snic_get_le64(s->rec[i].data), 0, s->rec[i].body_bytes);
        s->filled[i] = 3;
    } else {
        if (x % 11 == 0) {
            snic_ring_cancel(&s->p[i]);
        } else {
            snic_ring_commit(&s->p[i]);
            s->committed++;
        }
        s->open[i] = 0;
    }
}

static uint64_t take_all(struct snic_ring_consumer *c, struct snic_rng *rng)
{
    struct snic_ring_rec rec[7];
    uint64_t got = 0;
    int n, i;

    while ((n = snic_ring_peek(c, rec, 7)) > 0)
        for (i = 0; i < n; i++, got++) {
            uint64_t number = snic_get_le64(rec[i].data);

            assert_true(pattern_ok((char *)rec[i].data + 8, number, 8, rec[i].data_bytes - 8));
            assert_true(rec[i].body_bytes == 0 ||
                        pattern_ok(rec[i].body, number, 0, rec[i].body_bytes));
            if (snic_rng_below(rng, 3) == 0)
                assert_int_equal(snic_ring_release(c, rec[i].next), 0);
            else if (i + 1 == n)
                assert_int_equal(snic_ring_release(c, rec[i].next), 0);
        }
    assert_int_equal(n, 0);
    return got;
}

/* No discipline and no order of DMA may yield an uncommitted byte, and no look may cost more
 * operations than the header states. */
static void requests_over(uint32_t discipline, int ascending, uint64_t looks)
{
    struct snic_ring_opts o = request_opts(discipline, 2048);
    struct fixture f;
    struct producers s;
    struct snic_ring_consumer c;
    struct snic_ring_op ops[SNIC_RING_FETCH_OPS], head;
    struct copier d;
    uint64_t look, got = 0, taken = 0;
    int i, n;

    o.body_align = 64;
    fixture_open(&f, o);
    memset(&s, 0, sizeof(s));
    memset(&d, 0, sizeof(d));
    snic_rng_init(&s.rng, support_seed());
    snic_rng_init(&d.rng, support_seed() + 1);
    d.shared = f.mem;
    d.size = f.size;
    d.ascending = ascending;
    d.between = produce_some;
    d.ctx = &s;
    for (i = 0; i < 3; i++)
        assert_int_equal(snic_ring_producer_attach(&s.p[i], f.mem, f.size, 0), 0);
    assert_int_equal(snic_ring_consumer_attach_remote(
                         &c, f.mem, f.size, (char *)f.mem + SNIC_RING_OFF_HEAD, f.mirror,
                         (size_t)f.info.mirror_bytes, f.aux, (size_t)f.info.aux_bytes,
                         ascending ? SNIC_RING_ORDERED_READ : 0),
                     0);
    for (look = 0; look < looks || got != s.committed; look++) {
        uint64_t before = d.reads, cursor = discipline == SNIC_RING_QUIESCENT && !ascending ? 2 : 1;

        if (look > looks)
            s.calm = 1;
        assert_true(look < looks * 2 + 1000);
        for (i = 0; i < 8; i++)
            produce_some(&s);
        while ((n = snic_ring_fetch(&c, ops)) > 0)
            copy_run(&d, ops, n);
        assert_true(n == 0 || n == SNIC_EAGAIN);
        if (n == SNIC_EAGAIN)
            assert_true(d.reads - before >= cursor && d.reads - before <= cursor + 2);
        else if (discipline == SNIC_RING_QUIESCENT)
            assert_true(d.reads - before <= cursor + 2);
        else
            assert_true(d.reads - before <= cursor + 4);
        if (n == 0) {
            uint64_t more = take_all(&c, &d.rng);

            got += more;
            taken += more != 0;
        }
        before = d.writes;
        if (snic_ring_head_op(&c, &head) == 1)
            copy_run(&d, &head, 1);
        assert_true(d.writes - before <= 1);
        assert_int_equal(snic_ring_head_op(&c, &head), 0);
    }
    print_message("%llu records in %llu of %llu looks\n", (unsigned long long)got,
                  (unsigned long long)taken, (unsigned long long)look);
    assert_true(taken > looks / 100);
    fixture_close(&f);
}

static void test_ring_remote_quiescent_unordered_dma_no_uncommitted_byte(void **state)
{
    (void)state;
    requests_over(SNIC_RING_QUIESCENT, 0, support_scale(5000, 500000));
}
static void test_ring_remote_quiescent_ordered_dma_no_uncommitted_byte(void **state)
{
    (void)state;
    requests_over(SNIC_RING_QUIESCENT, 1, support_scale(5000, 500000));
}
static void test_ring_remote_commit_unordered_dma_no_uncommitted_byte(void **state)
{
    (void)state;
    requests_over(SNIC_RING_COMMIT, 0, support_scale(5000, 500000));
}
static void test_ring_remote_commit_ordered_dma_no_uncommitted_byte(void **state)
{
    (void)state;
    requests_over(SNIC_RING_COMMIT, 1, support_scale(5000, 500000));
}

static void nothing(void *ctx)
{
    (void)ctx;
}

/* The paper's point, exactly: one pointer read, one data read (two over the end), one head
 * write per batch of any size. */
static void test_ring_remote_batch_costs_three_operations(void **state)
{
    uint32_t round;

    (void)state;
    {
        struct fixture f;
        struct snic_ring_producer p;
        struct snic_ring_consumer c;
        struct snic_ring_op ops[2], op;
        struct snic_ring_rec rec[64];
        struct copier d;
        int n, wraps = 0;

        fixture_open(&f, request_opts(SNIC_RING_QUIESCENT, 4096));
        memset(&d, 0, sizeof(d));
        snic_rng_init(&d.rng, 1);
        d.shared = f.mem;
        d.size = f.size;
        d.between = nothing;
        assert_int_equal(snic_ring_producer_attach(&p, f.mem, f.size, 0), 0);
        assert_int_equal(
            snic_ring_consumer_attach_remote(&c, f.mem, f.size, (char *)f.mem + SNIC_RING_OFF_HEAD,
                                             f.mirror, (size_t)f.info.mirror_bytes, f.aux,
                                             (size_t)f.info.aux_bytes, SNIC_RING_ORDERED_READ),
            0);
        for (round = 0; round < 100; round++) {
            uint64_t tail = snic_get_le64((char *)f.mem + SNIC_RING_OFF_TAIL);
            int wrap = tail / 4096 != (tail + 50 * 16 - 1) / 4096;
            uint32_t i;

            for (i = 0; i < 50; i++)
                assert_int_equal(snic_ring_push(&p, 1, &i, 8 - 4), 0);
            d.reads = d.writes = 0;
            while ((n = snic_ring_fetch(&c, ops)) > 0)
                copy_run(&d, ops, n);
            assert_int_equal(n, 0);
            assert_int_equal(snic_ring_peek(&c, rec, 64), 50);
            assert_int_equal(snic_ring_release(&c, rec[49].next), 0);
            assert_int_equal(snic_ring_head_op(&c, &op), 1);
            copy_run(&d, &op, 1);
            assert_int_equal(d.reads, wrap ? 3 : 2);
            assert_int_equal(d.writes, 1);
            wraps += wrap;
        }
        assert_true(wraps > 5);
        fixture_close(&f);
    }
}

/* A consumer that died inside a reservation is followed by one that continues behind what was
 * released, neither losing nor stalling. */
static void test_ring_consumer_reattached_inside_reservation_goes_on(void **state)
{
    uint32_t variant;

    (void)state;
    for (variant = 0; variant < 12; variant++) {
        struct snic_ring_opts o = request_opts(variant & 1, 1024);
        struct fixture f;
        struct snic_ring_producer p;
        struct snic_ring_consumer c;
        struct snic_ring_op ops[2];
        struct snic_ring_rec rec[8];
        struct copier d;
        uint32_t first = 1 + (variant >> 2), i;
        int n;

        fixture_open(&f, o);
        assert_int_equal(snic_ring_producer_attach(&p, f.mem, f.size, 0), 0);
        assert_int_equal(snic_ring_consumer_attach(&c, f.mem, f.size, NULL, 0), 0);
        assert_int_equal(snic_ring_push_n(&p, 1, "0000000011111111222222223333333344444444", 8, 5),
                         0);
        assert_int_equal(snic_ring_peek(&c, rec, variant & 2 ? 5 : first), variant & 2 ? 5 : first);
        assert_int_equal(snic_ring_release(&c, rec[first - 1].next), 0);
        assert_int_equal(snic_ring_space_notify(&c), 0); /* publishes the head */
        assert_int_equal(snic_ring_check(f.mem, f.size), 0);
        assert_int_equal(snic_ring_consumer_attach(&c, f.mem, f.size, NULL, 0), 0);
        assert_int_equal(snic_ring_peek(&c, rec, 8), 5 - first);
        assert_int_equal(*(char *)rec[0].data, '0' + first);
        memset(&d, 0, sizeof(d));
        snic_rng_init(&d.rng, 1);
        d.shared = f.mem;
        d.size = f.size;
        d.between = nothing;
        assert_int_equal(snic_ring_consumer_attach_remote(
                             &c, f.mem, f.size, (char *)f.mem + SNIC_RING_OFF_HEAD, f.mirror,
                             (size_t)f.info.mirror_bytes, f.aux, (size_t)f.info.aux_bytes, 0),
                         0);
        while ((n = snic_ring_fetch(&c, ops)) > 0)
            copy_run(&d, ops, n);
        assert_int_equal(n, 0);
        assert_int_equal(snic_ring_peek(&c, rec, 8), 5 - first);
        for (i = 0; i < 5 - first; i++)
            assert_int_equal(*(char *)rec[i].data, (int)('0' + first + i));
        fixture_close(&f);
    }
}

/* Sleep and space bells over DMA: the flags travel with the cursor reads and writes. */
static void test_ring_remote_bells_arrive(void **state)
{
    struct fixture f;
    struct snic_ring_producer p;
    struct snic_ring_consumer c;
    struct snic_ring_op ops[2], op;
    struct copier d;
    int n;

    (void)state;
    fixture_open(&f, request_opts(SNIC_RING_QUIESCENT, 4096));
    memset(&d, 0, sizeof(d));
    snic_rng_init(&d.rng, 1);
    d.shared = f.mem;
    d.size = f.size;
    d.between = nothing;
    assert_int_equal(snic_ring_producer_attach(&p, f.mem, f.size, 0), 0);
    assert_int_equal(snic_ring_consumer_attach_remote(
                         &c, f.mem, f.size, (char *)f.mem + SNIC_RING_OFF_HEAD, f.mirror,
                         (size_t)f.info.mirror_bytes, f.aux, (size_t)f.info.aux_bytes, 0),
                     0);
    assert_int_equal(snic_ring_sleep_arm(&c, &op), 1);
    copy_run(&d, &op, 1);
    assert_int_equal(snic_ring_notify(&p), 1);
    assert_int_equal(snic_ring_notify(&p), 0);
    assert_int_equal(snic_ring_sleep_arm(&c, &op), 1);
    copy_run(&d, &op, 1);
    assert_int_equal(snic_ring_sleep_disarm(&c, &op), 1);
    copy_run(&d, &op, 1);
    assert_int_equal(snic_ring_notify(&p), 0);
    assert_int_equal(snic_ring_space_notify(&c), 0);
    snic_ring_wait_arm(&p);
    while ((n = snic_ring_fetch(&c, ops)) > 0)
        copy_run(&d, ops, n);
    assert_int_equal(n, SNIC_EAGAIN);
    assert_int_equal(snic_ring_space_notify(&c), 1);
    assert_int_equal(snic_ring_space_notify(&c), 0);
    fixture_close(&f);
}

/* A look that failed anywhere and is abandoned leaves what is out as it is, and the next one begins
 * from the start: each record once. */
static void test_ring_remote_look_given_up_next_one_whole(void **state)
{
    uint32_t variant;

    (void)state;
    for (variant = 0; variant < 16; variant++) {
        struct fixture f;
        struct snic_ring_producer p;
        struct snic_ring_consumer c;
        struct snic_ring_op ops[2];
        struct snic_ring_rec rec[8];
        struct copier d;
        uint32_t steps = variant / 4, step;
        uint64_t i;
        int n;

        fixture_open(&f, request_opts(variant & 1, 1024));
        memset(&d, 0, sizeof(d));
        snic_rng_init(&d.rng, variant);
        d.shared = f.mem;
        d.size = f.size;
        d.between = nothing;
        d.ascending = variant >> 1 & 1;
        assert_int_equal(snic_ring_producer_attach(&p, f.mem, f.size, 0), 0);
        assert_int_equal(snic_ring_consumer_attach_remote(
                             &c, f.mem, f.size, (char *)f.mem + SNIC_RING_OFF_HEAD, f.mirror,
                             (size_t)f.info.mirror_bytes, f.aux, (size_t)f.info.aux_bytes,
                             d.ascending ? SNIC_RING_ORDERED_READ : 0),
                         0);
        for (i = 1; i <= 3; i++)
            assert_int_equal(snic_ring_push(&p, 1, &i, 8), 0);
        while ((n = snic_ring_fetch(&c, ops)) > 0)
            copy_run(&d, ops, n);
        assert_int_equal(n, 0);
        assert_int_equal(snic_ring_peek(&c, rec, 8), 3);
        for (; i <= 5; i++)
            assert_int_equal(snic_ring_push(&p, 1, &i, 8), 0);
        for (step = 0; step < steps && (n = snic_ring_fetch(&c, ops)) > 0; step++)
            copy_run(&d, ops, n);
        if (step == steps && snic_ring_fetch(&c, ops) > 0) /* this one fails half way */
            memset(ops[0].local, 0xa5, (size_t)ops[0].bytes / 2);
        else
            assert_true(steps >= 2); /* the look was complete before */
        snic_ring_fetch_reset(&c);
        if (steps < 2)
            assert_int_equal(snic_ring_peek(&c, &rec[3], 5), 0);
        while ((n = snic_ring_fetch(&c, ops)) > 0)
            copy_run(&d, ops, n);
        assert_true(n == 0 || n == SNIC_EAGAIN);
        assert_int_equal(snic_ring_peek(&c, &rec[3], 5), 2);
        for (i = 0; i < 5; i++)
            assert_int_equal(snic_get_le64(rec[i].data), i + 1);
        assert_int_equal(snic_ring_peek(&c, rec, 8), 0);
        assert_int_equal(snic_ring_release(&c, rec[4].next), 0);
        fixture_close(&f);
    }
}

/* Hostile bytes behind DMA: whatever is fetched, no call leaves the mirror, hangs or crashes. */
static void test_ring_remote_hostile_bytes_are_survived(void **state)
{
    uint64_t rounds = support_scale(3000, 300000), i;
    struct snic_rng rng;

    (void)state;
    snic_rng_init(&rng, support_seed());
    for (i = 0; i < rounds; i++) {
        struct fixture f;
        struct snic_ring_producer p;
        struct snic_ring_consumer c;
        struct snic_ring_op ops[2], op;
        struct snic_ring_rec rec[8];
        struct copier d;
        int step, n;

        fixture_open(&f, request_opts(i & 1, 1024));
        memset(&d, 0, sizeof(d));
        snic_rng_init(&d.rng, i);
        d.shared = f.mem;
        d.size = f.size;
        d.between = nothing;
        assert_int_equal(snic_ring_producer_attach(&p, f.mem, f.size, 0), 0);
        assert_int_equal(snic_ring_consumer_attach_remote(
                             &c, f.mem, f.size, (char *)f.mem + SNIC_RING_OFF_HEAD, f.mirror,
                             (size_t)f.info.mirror_bytes, f.aux, (size_t)f.info.aux_bytes, 0),
                         0);
        for (step = 0; step < 30; step++) {
            uint64_t x = snic_rng_next(&rng);
            size_t at = SNIC_RING_HEADER_BYTES +
                        (size_t)snic_rng_below(&rng, (f.size - SNIC_RING_HEADER_BYTES) / 8) * 8;
            unsigned char *m = f.mem;

            if (x % 5 == 0)
                at = SNIC_RING_OFF_PROGRESS + (x >> 8) % 6 * 128;
            if (x % 3 == 0)
                snic_put_le64(m + at, snic_get_le64(m + at) + ((x >> 16) % 9 - 4) * 16);
            else if (x % 3 == 1)
                snic_put_le64(m + at, x >> ((x >> 3) & 63));
            ignore(snic_ring_push(&p, 1, m, (uint32_t)(x >> 32) % 100));
            while ((n = snic_ring_fetch(&c, ops)) > 0)
                copy_run(&d, ops, n);
            while ((n = snic_ring_peek(&c, rec, 8)) > 0)
                ignore(snic_ring_finish(&c, rec[0].position) +
                       snic_ring_release(&c, rec[n - 1].next));
            ignore(snic_ring_head_op(&c, &op) == 1 ? (copy_run(&d, &op, 1), 0) : 0);
        }
        fixture_close(&f);
    }
}

/* ---- Responses ---- */

struct collectors {
    struct snic_ring_collector k[2];
    struct snic_ring_rec held[2];
    int holds[2];
    struct snic_rng rng;
    uint64_t got, last;
    unsigned char seen[1 << 20];
    uint32_t discipline;
};

static void collect_some(void *ctx)
{
    struct collectors *s = ctx;
    uint64_t x = snic_rng_next(&s->rng);
    int i = (int)(x >> 8 & 1);

    if (x & 3)
        return;
    if (s->holds[i]) {
        assert_int_equal(snic_ring_claim_release(&s->k[i], &s->held[i]), 0);
        s->holds[i] = 0;
    } else {
        int r = snic_ring_claim(&s->k[i], &s->held[i]);

        assert_true(r >= 0);
        if (r == 1) {
            struct snic_ring_rec *rec = &s->held[i];
            uint64_t number = snic_get_le64(rec->data);

            assert_true(number < sizeof(s->seen) && !s->seen[number]);
            s->seen[number] = 1;
            assert_true(s->discipline == SNIC_RING_COMMIT || number == ++s->last);
            assert_true(pattern_ok((char *)rec->data + 8, number, 8, rec->data_bytes - 8));
            assert_true(rec->body_bytes == 0 || pattern_ok(rec->body, number, 0, rec->body_bytes));
            s->holds[i] = 1;
            s->got++;
        }
    }
}

/* Fill an open response by its number and finish it; every third one was short. */
static void response_finish(struct snic_ring_responder *r, const struct snic_ring_rec *rec)
{
    uint64_t id = snic_get_le64(rec->data);
    uint32_t body = id % 3 ? rec->body_bytes : rec->body_bytes / 2;

    pattern_fill((char *)rec->data + 8, id, 8, rec->data_bytes - 8);
    if (rec->body_bytes != 0)
        pattern_fill(rec->body, id, 0, rec->body_bytes);
    assert_int_equal(snic_ring_resp_finish(r, rec->position, body), 0);
}

/* A remote responder whose writes land in any allowed order delivers each response once and
 * whole, in order or not. */
static void responses_over(uint32_t discipline, uint64_t rounds)
{
    struct snic_ring_opts o = request_opts(discipline, 2048);
    struct fixture f;
    struct snic_ring_responder r;
    struct collectors *s = calloc(1, sizeof(*s));
    struct snic_ring_op ops[6];
    struct snic_ring_rec open[64];
    struct snic_rng rng;
    struct copier d;
    uint32_t n_open = 0, i;
    uint64_t number = 0, finished = 0, round;

    assert_non_null(s);
    o.kind = SNIC_RING_RESPONSE;
    o.body_align = 64;
    fixture_open(&f, o);
    memset(&d, 0, sizeof(d));
    snic_rng_init(&rng, support_seed());
    snic_rng_init(&s->rng, support_seed() + 1);
    snic_rng_init(&d.rng, support_seed() + 2);
    d.shared = f.mem;
    d.size = f.size;
    d.between = collect_some;
    d.ctx = s;
    s->discipline = discipline;
    assert_int_equal(snic_ring_responder_attach_remote(
                         &r, f.mem, f.size, (char *)f.mem + SNIC_RING_OFF_TAIL, f.mirror,
                         (size_t)f.info.mirror_bytes, f.aux, (size_t)f.info.aux_bytes),
                     0);
    assert_int_equal(snic_ring_collector_attach(&s->k[0], f.mem, f.size, 0), 0);
    assert_int_equal(snic_ring_collector_attach(&s->k[1], f.mem, f.size, 0), 0);
    for (round = 0; round < rounds || s->got < finished; round++) {
        uint64_t x = snic_rng_next(&rng);
        int n, calls = 0;

        assert_true(round < rounds + 10000);
        for (i = (uint32_t)x % 4; i > 0 && round < rounds && n_open < 64; i--) {
            uint32_t bytes = 8 + (uint32_t)(x >> 16) % 8 * 8, body = (uint32_t)(x >> 24) % 100;

            if (snic_ring_resp_reserve(&r, 2, bytes, body & 1 ? 0 : body, &open[n_open]) != 0)
                break;
            snic_put_le64(open[n_open].data, ++number);
            n_open++;
        }
        for (i = (uint32_t)(x >> 4) % 4; n_open > 0 && (i > 0 || round >= rounds); i--) {
            uint32_t pick = (uint32_t)(snic_rng_next(&rng) % n_open);

            response_finish(&r, &open[pick]);
            finished++;
            open[pick] = open[--n_open];
        }
        if (snic_ring_resp_ready(&r) == 0 || (round < rounds && x & 256))
            collect_some(s);
        else
            while ((n = snic_ring_resp_flush(&r, ops, 4 + (uint32_t)(x >> 32) % 3)) != 0) {
                assert_true(n > 0 && n <= 6 && ++calls < 200);
                copy_run(&d, ops, n);
            }
        snic_ring_resp_sync(&r, &ops[0]);
        copy_run(&d, ops, 1);
        assert_int_equal(snic_ring_resp_synced(&r), 0);
    }
    assert_int_equal(s->got, finished);
    assert_true(finished > rounds / 4);
    print_message("%llu responses, %llu DMA writes\n", (unsigned long long)finished,
                  (unsigned long long)d.writes);
    fixture_close(&f);
    free(s);
}

static void test_ring_remote_responses_in_order_each_once(void **state)
{
    (void)state;
    responses_over(SNIC_RING_QUIESCENT, support_scale(20000, 400000));
}
static void test_ring_remote_responses_out_of_order_each_once(void **state)
{
    (void)state;
    responses_over(SNIC_RING_COMMIT, support_scale(20000, 400000));
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_ring_remote_quiescent_unordered_dma_no_uncommitted_byte),
        cmocka_unit_test(test_ring_remote_quiescent_ordered_dma_no_uncommitted_byte),
        cmocka_unit_test(test_ring_remote_commit_unordered_dma_no_uncommitted_byte),
        cmocka_unit_test(test_ring_remote_commit_ordered_dma_no_uncommitted_byte),
        cmocka_unit_test(test_ring_remote_batch_costs_three_operations),
        cmocka_unit_test(test_ring_consumer_reattached_inside_reservation_goes_on),
        cmocka_unit_test(test_ring_remote_bells_arrive),
        cmocka_unit_test(test_ring_remote_look_given_up_next_one_whole),
        cmocka_unit_test(test_ring_remote_hostile_bytes_are_survived),
        cmocka_unit_test(test_ring_remote_responses_in_order_each_once),
        cmocka_unit_test(test_ring_remote_responses_out_of_order_each_once),
    };

    return SUPPORT_MAIN(argc, argv, tests);
}
