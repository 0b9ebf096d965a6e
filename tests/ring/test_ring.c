/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* The request ring in one thread: contracts. (Sequences: test_ring_model.c.) */
#include "golden.h"
#include "test_ring_util.h"

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
        {offsetof(struct snic_ring_opts, flags), 4, 2},
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

/* Pauses, then yields, then sleep for as long as nothing comes; an arrival begins it
 * anew. */
static void test_ring_backoff_pauses_yields_sleeps(void **state)
{
    struct snic_ring_backoff b = {0, 3, 2};
    struct snic_ring_backoff d = {0, 0, 0};
    static const int want[] = {SNIC_RING_LOOK,  SNIC_RING_LOOK,  SNIC_RING_LOOK, SNIC_RING_YIELD,
                               SNIC_RING_YIELD, SNIC_RING_SLEEP, SNIC_RING_SLEEP};
    uint32_t round, i, seen[3] = {0};

    (void)state;
    for (round = 0; round < 2; round++, b.misses = 0)
        for (i = 0; i < SNIC_COUNTOF(want); i++)
            assert_int_equal(snic_ring_backoff_next(&b), want[i]);
    for (i = 0; i < 100; i++)
        seen[snic_ring_backoff_next(&d)]++;
    assert_true(seen[SNIC_RING_LOOK] > 0 && seen[SNIC_RING_YIELD] > 0 && seen[SNIC_RING_SLEEP] > 0);
    d.misses = UINT32_MAX;
    assert_int_equal(snic_ring_backoff_next(&d), SNIC_RING_SLEEP);
    assert_int_equal(snic_ring_backoff_next(&d), SNIC_RING_SLEEP);
}

/* ---- One producer ---- */

static struct snic_ring_opts one_opts(uint32_t discipline)
{
    struct snic_ring_opts o = request_opts(discipline, 1024);

    o.flags = SNIC_RING_ONE_PRODUCER;
    return o;
}

/* The flag belongs to request rings with at most one owner; a header that states otherwise is
 * refused although its checksum is right. */
static void test_ring_one_producer_flag_misplaced_refused(void **state)
{
    struct snic_ring_opts o = one_opts(SNIC_RING_COMMIT);
    struct snic_ring_producer p;
    struct fixture f;
    uint32_t flags;

    (void)state;
    o.kind = SNIC_RING_RESPONSE;
    assert_int_equal(snic_ring_memsize(&o), 0);
    o.kind = SNIC_RING_REQUEST;
    o.owners_max = 2;
    assert_int_equal(snic_ring_memsize(&o), 0);
    o.owners_max = 0;
    fixture_open(&f, o);
    assert_int_equal(f.info.flags, SNIC_RING_ONE_PRODUCER);
    assert_int_equal(f.info.owners_max, 1);
    fixture_close(&f);
    for (flags = 1; flags < 4; flags++) {
        unsigned char *m;

        fixture_open(&f, request_opts(SNIC_RING_COMMIT, 1024));
        m = f.mem;
        snic_put_le32(m + 36, flags);
        snic_put_le32(m + 124, snic_crc32c(0, m, 124));
        assert_int_equal(snic_ring_producer_attach(&p, m, f.size, 0), SNIC_ECORRUPT);
        fixture_close(&f);
    }
}

/* Two producers at once would both write to the same place. */
static void test_ring_one_producer_second_attach_refused(void **state)
{
    uint32_t d;

    (void)state;
    for (d = 0; d < 2; d++) {
        struct snic_ring_producer p, q;
        struct fixture f;

        fixture_open(&f, one_opts(d));
        assert_int_equal(snic_ring_producer_attach(&p, f.mem, f.size, 0), SNIC_EINVAL);
        assert_int_equal(snic_ring_producer_attach(&p, f.mem, f.size, 7), 0);
        assert_int_equal(snic_ring_producer_attach(&q, f.mem, f.size, 7), SNIC_EEXIST);
        assert_int_equal(snic_ring_producer_attach(&q, f.mem, f.size, 8), SNIC_EBUSY);
        assert_int_equal(snic_ring_push(&p, 1, "a", 1), 0);
        snic_ring_producer_detach(&p);
        assert_int_equal(snic_ring_push(&p, 1, "a", 1), SNIC_ECORRUPT);
        assert_int_equal(snic_ring_producer_attach(&q, f.mem, f.size, 8), 0);
        assert_int_equal(snic_ring_push(&q, 1, "b", 1), 0);
        assert_int_equal(snic_ring_check(f.mem, f.size), 0);
        assert_int_equal(snic_get_le64((char *)f.mem + SNIC_RING_OFF_TAIL), 32);
        fixture_close(&f);
    }
}

/* A reservation that is open or cancelled has no effect on others: the consumer neither waits for
 * it nor passes padding, and repair has nothing to do. */
static void test_ring_one_producer_open_reservation_hides(void **state)
{
    uint32_t d;

    (void)state;
    for (d = 0; d < 2; d++) {
        struct snic_ring_producer p;
        struct snic_ring_consumer c;
        struct snic_ring_rec rec[4];
        struct fixture f;

        fixture_open(&f, one_opts(d));
        assert_int_equal(snic_ring_producer_attach(&p, f.mem, f.size, 1), 0);
        assert_int_equal(snic_ring_consumer_attach(&c, f.mem, f.size, NULL, 0), 0);
        assert_int_equal(snic_ring_push(&p, 1, "a", 1), 0);
        assert_int_equal(snic_ring_reserve(&p, 2, 100, 50, rec), 0);
        assert_int_equal(snic_ring_backlog(&c), 16);
        assert_int_equal(snic_ring_peek(&c, rec, 4), 1);
        snic_ring_cancel(&p);
        assert_int_equal(snic_ring_reserve(&p, 3, 1, 0, rec), 0);
        assert_int_equal(rec->position, 16);
        assert_int_equal(snic_ring_abandon(f.mem, f.size, 1), 0);
        assert_int_equal(snic_ring_check(f.mem, f.size), 0);
        assert_int_equal(snic_ring_producer_attach(&p, f.mem, f.size, 2), 0);
        assert_int_equal(snic_ring_push(&p, 4, "b", 1), 0);
        assert_int_equal(snic_ring_peek(&c, rec, 4), 1);
        assert_true(rec->type == 4 && rec->position == 16);
        assert_int_equal(c.stats.pads, 0);
        fixture_close(&f);
    }
}

/* Cursors that a peer left in disorder keep the next producer out, and its slot free. */
static void test_ring_one_producer_damaged_cursors_refused(void **state)
{
    static const uint64_t bad[] = {8, 4096, UINT64_MAX - 15};
    struct snic_ring_producer p;
    struct fixture f;
    size_t i;

    (void)state;
    fixture_open(&f, one_opts(SNIC_RING_COMMIT));
    for (i = 0; i < SNIC_COUNTOF(bad); i++) {
        snic_put_le64((char *)f.mem + SNIC_RING_OFF_TAIL, bad[i]);
        assert_int_equal(snic_ring_producer_attach(&p, f.mem, f.size, 1), SNIC_ECORRUPT);
    }
    snic_put_le64((char *)f.mem + SNIC_RING_OFF_TAIL, 0);
    assert_int_equal(snic_ring_producer_attach(&p, f.mem, f.size, 1), 0);
    fixture_close(&f);
}

/* ---- Runs ---- */

/* A run holds what is alike and no more: it ends at another size, type, a body, the end of the
 * data area, and at @p max; finish and release work on its records as on any. */
static void test_ring_run_ends_where_records_differ(void **state)
{
    static const uint32_t sizes[] = {4, 4, 4, 4, 20, 20, 4};
    struct snic_ring_producer p;
    struct snic_ring_consumer c;
    struct snic_ring_run run;
    struct snic_ring_rec rec;
    struct fixture f;
    uint32_t i;

    (void)state;
    fixture_open(&f, request_opts(SNIC_RING_COMMIT, 1024));
    assert_int_equal(snic_ring_producer_attach(&p, f.mem, f.size, 0), 0);
    assert_int_equal(snic_ring_consumer_attach(&c, f.mem, f.size, f.aux, (size_t)f.info.aux_bytes),
                     0);
    for (i = 0; i < SNIC_COUNTOF(sizes); i++)
        assert_int_equal(snic_ring_push(&p, i < 3 ? 1 : 2, "0123456789abcdefghij", sizes[i]), 0);
    assert_int_equal(snic_ring_reserve(&p, 2, 4, 4, &rec), 0);
    snic_ring_commit(&p);
    assert_int_equal(snic_ring_push_n(&p, 2, "abcdefgh", 4, 2), 0);
    assert_int_equal(snic_ring_peek_run(&c, &run, 0), 0);
    assert_int_equal(snic_ring_peek_run(&c, &run, 2), 2);
    assert_true(run.first.type == 1 && run.stride_bytes == 16 && run.next == 32 && run.count == 2);
    assert_int_equal(snic_ring_peek_run(&c, &run, 9), 1);
    assert_true(run.first.type == 1 && run.first.position == 32);
    assert_int_equal(snic_ring_peek_run(&c, &run, 9), 1);
    assert_true(run.first.type == 2 && run.first.data_bytes == 4);
    assert_int_equal(snic_ring_peek_run(&c, &run, 9), 2);
    assert_true(run.first.data_bytes == 20 && run.stride_bytes == 32);
    assert_memory_equal((char *)run.first.data + 32, "0123456789abcdefghij", 20);
    assert_int_equal(snic_ring_peek_run(&c, &run, 9), 1);
    assert_int_equal(snic_ring_peek_run(&c, &run, 9), 1);
    assert_true(run.first.body_bytes == 4 && run.count == 1 && run.next == rec.next);
    assert_int_equal(snic_ring_peek_run(&c, &run, 9), 2);
    assert_memory_equal((char *)run.first.data + run.stride_bytes, "efgh", 4);
    assert_int_equal(snic_ring_peek_run(&c, &run, 9), 0);
    assert_int_equal(snic_ring_finish(&c, 16), 0);
    assert_int_equal(snic_ring_finish(&c, 16), SNIC_EINVAL);
    assert_int_equal(snic_ring_finish(&c, 0), 0);
    assert_int_equal(c.released, 32);
    fixture_close(&f);
}

/** A refusal names the wrong option, and only that one. */
static void test_ring_wrong_option_is_named(void **state)
{
    (void)state;
    {
        struct snic_ring_opts good = {
            .opts_size = sizeof(good), .kind = SNIC_RING_REQUEST, .capacity_bytes = 65536};
        assert_null(snic_ring_opts_wrong(&good));
#define WRONG(field, value, name)                                                                  \
    do {                                                                                           \
        struct snic_ring_opts bad = good;                                                          \
        bad.field = value;                                                                         \
        support_names(snic_ring_opts_wrong(&bad), name);                                           \
        assert_int_equal(snic_ring_memsize(&bad), 0);                                              \
    } while (0)
        WRONG(opts_size, 3, "opts_size");
        WRONG(kind, 3, "kind");
        WRONG(discipline, 2, "discipline");
        WRONG(granule_bytes, 24, "granule_bytes");
        WRONG(granule_bytes, 8192, "granule_bytes");
        WRONG(body_align, 4, "body_align");
        WRONG(owners_max, 4097, "owners_max");
        WRONG(flags, 2, "flags");
        WRONG(capacity_bytes, 512, "capacity_bytes");
        WRONG(capacity_bytes, 65537, "capacity_bytes");
        WRONG(progress_max, 65537, "progress_max");
        WRONG(progress_max, 32, "progress_max");
        WRONG(record_max, 40000, "record_max");
#undef WRONG
    }
}

/* lib/ring/FORMAT.md. */
static void test_ring_format_vector(void **state)
{
    struct snic_ring_opts o = request_opts(SNIC_RING_COMMIT, 1024);
    struct snic_ring_producer p;
    size_t size;
    unsigned char *mem;

    (void)state;
    o.epoch = 7;
    size = snic_ring_memsize(&o);
    mem = support_guard_alloc(size, SNIC_RING_ALIGN);
    assert_int_equal(snic_ring_init(mem, size, &o), 0);
    assert_int_equal(snic_ring_producer_attach(&p, mem, size, 0), 0);
    assert_int_equal(snic_ring_push(&p, 5, "abc", 3), 0);
    golden_bytes("ring", "ring", mem, size);
    support_guard_free(mem);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_ring_options_bad_refused),
        cmocka_unit_test(test_ring_wrong_option_is_named),
        cmocka_unit_test(test_ring_memory_short_or_skewed_refused),
        cmocka_unit_test(test_ring_header_damaged_refused),
        cmocka_unit_test(test_ring_producer_refusals_change_nothing),
        cmocka_unit_test(test_ring_consumer_refusals),
        cmocka_unit_test(test_ring_producer_commit_without_reserve_aborts),
        cmocka_unit_test(test_ring_body_any_alignment_is_aligned_and_whole),
        cmocka_unit_test(test_ring_ragged_batches_arrive_whole),
        cmocka_unit_test(test_ring_sleeper_armed_is_woken_once),
        cmocka_unit_test(test_ring_backoff_pauses_yields_sleeps),
        cmocka_unit_test(test_ring_one_producer_flag_misplaced_refused),
        cmocka_unit_test(test_ring_one_producer_second_attach_refused),
        cmocka_unit_test(test_ring_one_producer_open_reservation_hides),
        cmocka_unit_test(test_ring_one_producer_damaged_cursors_refused),
        cmocka_unit_test(test_ring_run_ends_where_records_differ),
        cmocka_unit_test(test_ring_format_vector),
    };

    return SUPPORT_MAIN(argc, argv, tests);
}
