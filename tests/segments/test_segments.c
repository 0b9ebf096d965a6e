/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * The store's contract: each answer and each refusal, what waits for what, what is full, and every
 * order of a few requests for one block.
 */
#include <inttypes.h>

#include "segfix.h"
#include "support.h"

static struct segfix fix;

static void begin(uint32_t disks, uint64_t delay_ns)
{
    memset(&fix, 0, sizeof(fix));
    fix.disks = disks;
    fix.disk_opts.delay_min_ns = delay_ns;
    fix.disk_opts.delay_max_ns = delay_ns;
    segfix_start(&fix, support_seed());
}

static void begin_open(uint32_t disks, uint64_t delay_ns)
{
    begin(disks, delay_ns);
    assert_int_equal(segfix_open(&fix, SNIC_SEGMENTS_BLANK), 0);
}

static void end(void)
{
    if (fix.store != NULL)
        segfix_settle(&fix);
    segfix_end(&fix);
    assert_string_equal(fix.why, "");
}

static void again(uint32_t flags, int expect)
{
    if (fix.store != NULL)
        segfix_close(&fix);
    assert_int_equal(segfix_open(&fix, flags), expect);
}

/* ---- A request by hand ---- */

struct one {
    struct snic_segments_req q;
    struct snic_segments_block b[3];
    unsigned char data[3][4096] __attribute__((aligned(4096)));
    uint32_t done;
    uint32_t order;
};

static uint32_t order;

static void one_done(struct snic_segments_req *q)
{
    struct one *o = SNIC_CONTAINER(q, struct one, q);
    o->done++;
    o->order = ++order;
}

static void one_make(struct one *o, uint32_t op, uint32_t count)
{
    memset(o, 0, sizeof(*o));
    o->q.done = one_done;
    o->q.op = (uint16_t)op;
    o->q.seg_id = 1;
    o->q.disk = SNIC_SEGMENTS_ANY_DISK;
    o->q.count = (uint16_t)count;
    o->q.blocks = o->b;
    for (uint32_t i = 0; i < count; i++) {
        o->b[i].block = (uint16_t)i;
        o->b[i].data = o->data[i];
        memset(o->data[i], (int)(i + 1), 4096);
        if (op != SNIC_SEGMENTS_WRITE)
            continue;
        o->b[i].wver = 5;
        o->b[i].data_crc = snic_crc32c(0, o->data[i], 4096);
    }
}

static int one_run(struct one *o)
{
    uint32_t before = o->done;
    assert_int_equal(snic_segments_submit(fix.store, &o->q), 0);
    assert_int_equal(o->done, before); /* never from inside */
    while (o->done == before)
        assert_true(snic_loop_once(fix.loop, SNIC_NEVER) > 0);
    return o->q.result;
}

static int one_control(uint32_t op, uint64_t seg_id, uint32_t gen, uint64_t min_wver)
{
    static struct one o;
    one_make(&o, op, 0);
    o.q.seg_id = seg_id;
    o.q.gen = gen;
    o.q.min_wver = min_wver;
    return one_run(&o);
}

static struct one a;
static struct one b;
static struct one c;
static struct one d;

/* ---- Opening ---- */

/* Options, devices or memory that do not fit are taken, or change something. */
static void test_segments_open_bad_argument_refused(void **state)
{
    const struct snic_segments_events none = {0};
    struct snic_segments *s = NULL;
    (void)state;
    begin(2, 0);
    struct snic_segments_opts o = fix.opts;
    size_t size = snic_segments_memsize(fix.io, 2, &o);
    assert_true(size > 0 && snic_segments_memsize(fix.io, 1, &o) < size);
    unsigned char *mem = support_guard_alloc(size, SNIC_SEGMENTS_ALIGN);
    assert_int_equal(snic_segments_open(&s, mem, size, fix.io, 2, &o, &none, NULL), SNIC_EINVAL);
    assert_null(snic_segments_opts_wrong(fix.io, 2, &o));
#define REFUSED(field, value, name)                                                                \
    o = fix.opts;                                                                                  \
    o.field = value;                                                                               \
    assert_int_equal(snic_segments_memsize(fix.io, 2, &o), 0);                                     \
    support_names(snic_segments_opts_wrong(fix.io, 2, &o), name)
    REFUSED(flags, 1u << 20, "flags");
    REFUSED(log_bytes, 1u << 20, "log_bytes");
    REFUSED(cache_blocks, 63, "cache_blocks");
    REFUSED(bounces, 1025, "bounces");
    REFUSED(log_bytes, fix.disk_opts.size, "io");
#undef REFUSED
    o = fix.opts;
    assert_int_equal(snic_segments_memsize(fix.io, 0, &o), 0);
    assert_int_equal(snic_segments_memsize(fix.io, 17, &o), 0);
    assert_null(s);
    support_guard_free(mem);
    end();
}

/* Of a device that is larger than can be used memory is asked for what is used, all of it. */
static void test_segments_memsize_largest_device_bounded(void **state)
{
    uint64_t tib = (uint64_t)1 << 40;
    (void)state;
    begin(1, 0);
    struct snic_io large = *fix.io[0];
    struct snic_io *io = &large;
    struct snic_segments_opts o = fix.opts;
    large.geometry.size = 33 * tib;
    size_t size = snic_segments_memsize(&io, 1, &o);
    assert_true(size / SNIC_SEGMENTS_BLOCKS / 24 >= (1u << 24) - 1);
    large.geometry.size = 64 * tib;
    assert_int_equal(snic_segments_memsize(&io, 1, &o), size);
    large.geometry.size = 32 * tib; /* tables are beside the segments */
    assert_true(snic_segments_memsize(&io, 1, &o) < size);
    end();
}

static uint32_t opened_calls;

static void count_opened(void *ctx, int result, const struct snic_segments_report *r)
{
    (void)ctx;
    (void)result;
    (void)r;
    opened_calls++;
}

/* Devices of two loops are taken: two threads would run one store. */
static void test_segments_device_of_other_loop_refused(void **state)
{
    const struct snic_segments_events e = {.opened = count_opened};
    struct snic_segments *s = NULL;
    struct snic_loop *other;
    (void)state;
    begin(2, 0);
    struct snic_io *io[2] = {fix.io[0], NULL};
    size_t size = snic_segments_memsize(fix.io, 2, &fix.opts);
    void *mem = support_guard_alloc(size, SNIC_SEGMENTS_ALIGN);
    assert_int_equal(snic_world_loop(fix.world, 9, &other), 0);
    assert_int_equal(snic_io_mem_open(&io[1], other, fix.disk[1]), 0);
    assert_int_equal(snic_segments_memsize(io, 2, &fix.opts), 0);
    assert_int_equal(snic_segments_open(&s, mem, size, io, 2, &fix.opts, &e, NULL), SNIC_EINVAL);
    snic_io_close(io[1]);
    snic_loop_close(other);
    support_guard_free(mem);
    end();
}

/* A byte less memory is not seen; or closing while it opens leaves requests behind. */
static void test_segments_open_memory_one_short_refused_close_at_any_time(void **state)
{
    const struct snic_segments_events e = {.opened = count_opened};
    struct snic_segments *s = NULL;
    (void)state;
    begin(2, 1000);
    fix.opts.flags = SNIC_SEGMENTS_FORMAT;
    size_t size = snic_segments_memsize(fix.io, 2, &fix.opts);
    unsigned char *mem = support_guard_alloc(size, SNIC_SEGMENTS_ALIGN);
    assert_int_equal(snic_segments_open(&s, mem, size - 1, fix.io, 2, &fix.opts, &e, NULL),
                     SNIC_ENOSPC);
    assert_null(s);
    for (uint32_t steps = 0; steps < 120; steps += 7) {
        assert_int_equal(snic_segments_open(&s, mem, size, fix.io, 2, &fix.opts, &e, NULL), 0);
        one_make(&a, SNIC_SEGMENTS_CREATE, 0);
        assert_int_equal(snic_segments_submit(s, &a.q), SNIC_EBUSY);
        opened_calls = 0;
        for (uint32_t i = 0; i < steps && opened_calls == 0; i++)
            (void)snic_loop_once(fix.loop, SNIC_NEVER);
        uint32_t before = opened_calls;
        assert_ptr_equal(snic_segments_close(s), mem);
        assert_int_equal(opened_calls, before);
    }
    support_guard_free(mem);
    end();
}

/* What is on the device is not distinguished. */
static void test_segments_open_found_store_reported(void **state)
{
    (void)state;
    begin(2, 0);
    again(0, SNIC_ENOENT);
    memset(snic_disk_bytes(fix.disk[0]), 7, 4096);
    again(SNIC_SEGMENTS_BLANK, SNIC_EEXIST);
    assert_int_equal(fix.report.disk, 0);
    again(SNIC_SEGMENTS_FORMAT, 0);
    assert_int_equal(fix.report.formatted, 2);
    assert_int_equal(one_control(SNIC_SEGMENTS_CREATE, 1, 0, 0), 0);
    again(SNIC_SEGMENTS_BLANK, 0);
    assert_int_equal(fix.report.formatted, 0);
    assert_int_equal(fix.report.segments, 1);
    segfix_close(&fix);
    fix.opts.log_bytes = 2u << 20;
    again(0, SNIC_EINVAL);
    assert_int_equal(fix.report.log_bytes, 4u << 20);
    segfix_close(&fix);
    fix.opts.log_bytes = 4u << 20;
    struct snic_io *first = fix.io[0];
    fix.io[0] = fix.io[1]; /* in another order */
    fix.io[1] = first;
    again(0, SNIC_ECORRUPT);
    segfix_close(&fix);
    fix.io[1] = fix.io[0];
    fix.io[0] = first;
    fix.disks = 1;
    again(0, SNIC_ECORRUPT);
    fix.opts.uuid[0]++;
    segfix_close(&fix);
    fix.disks = 2;
    memset(snic_disk_bytes(fix.disk[1]), 0, 16384);
    again(SNIC_SEGMENTS_BLANK, SNIC_ENOENT); /* the other has a segment */
    assert_int_equal(fix.report.disk, 1);
    assert_int_equal(fix.report.formatted, 0);
    unsigned char *super = snic_disk_bytes(fix.disk[0]);
    for (uint32_t i = 0; i < 2; i++, super += 4096) {
        snic_put_le32(super + 12, 1); /* whose stores have checksums of plaintext */
        snic_put_le32(super + 8, snic_crc32c(0, super + 12, 4096 - 12));
    }
    again(0, SNIC_EVERSION);
    assert_int_equal(fix.report.version, 1);
    again(SNIC_SEGMENTS_BLANK, SNIC_EVERSION); /* and is not formatted */
    super -= 2 * 4096;
    assert_int_equal(snic_get_le32(super + 12), 1);
    end();
}

/* ---- Requests ---- */

static void refuse(int expect)
{
    assert_int_equal(snic_segments_submit(fix.store, &a.q), expect);
    assert_int_equal(a.done, 0);
    one_make(&a, SNIC_SEGMENTS_WRITE, 2);
}

/* A request that makes no sense is taken. */
static void test_segments_request_senseless_refused(void **state)
{
    (void)state;
    begin_open(1, 0);
    assert_int_equal(one_control(SNIC_SEGMENTS_CREATE, 1, 0, 0), 0);
    one_make(&a, SNIC_SEGMENTS_WRITE, 2);
    a.q.op = 0;
    refuse(SNIC_EINVAL);
    a.q.op = 7;
    refuse(SNIC_EINVAL);
    a.q.flags = 8;
    refuse(SNIC_EINVAL);
    a.q.op = SNIC_SEGMENTS_SET_GEN;
    a.q.flags = SNIC_SEGMENTS_RAISE;
    refuse(SNIC_EINVAL);
    a.q.op = SNIC_SEGMENTS_WRITE;
    a.q.flags = SNIC_SEGMENTS_RAISE | SNIC_SEGMENTS_ANY_GEN;
    refuse(SNIC_EINVAL);
    a.q.done = NULL;
    refuse(SNIC_EINVAL);
    a.q.blocks = NULL;
    refuse(SNIC_EINVAL);
    a.q.count = 0;
    refuse(SNIC_EINVAL);
    a.q.count = 65;
    refuse(SNIC_EINVAL);
    a.b[1].block = 0; /* twice */
    refuse(SNIC_EINVAL);
    a.b[1].block = 512;
    refuse(SNIC_EINVAL);
    a.b[1].wver = 0;
    refuse(SNIC_EINVAL);
    a.b[1].kind = SNIC_SEGMENTS_LOST + 1;
    refuse(SNIC_EINVAL);
    a.b[1].data = NULL;
    refuse(SNIC_EINVAL);
    a.b[1].kind = SNIC_SEGMENTS_ZERO; /* with data */
    refuse(SNIC_EINVAL);
    a.q.op = SNIC_SEGMENTS_CREATE;
    a.q.disk = 1;
    refuse(SNIC_EINVAL);
    segfix_close(&fix);
    segfix_end(&fix);
    memset(&fix, 0, sizeof(fix));
    fix.opts.log_bytes = 2u << 20; /* one block for each record */
    segfix_start(&fix, 1);
    assert_int_equal(segfix_open(&fix, SNIC_SEGMENTS_BLANK), 0);
    refuse(SNIC_EMSGSIZE);
    a.q.count = 1;
    assert_int_equal(one_run(&a), SNIC_ENOENT);
    end();
}

/* A version does not decide as it should; or an answer has the wrong name. */
/* The same version of other data is another writer's, that begins anew: it is not there already,
   as the cache, the log and the home know. */
static void test_segments_write_of_another_writer_is_no_duplicate(void **state)
{
    (void)state;
    begin_open(1, 0);
    assert_int_equal(one_control(SNIC_SEGMENTS_CREATE, 1, 4, 0), 0);
    one_make(&a, SNIC_SEGMENTS_WRITE, 1);
    a.q.gen = 4;
    assert_int_equal(one_run(&a), 0);
    assert_int_equal(a.b[0].status, SNIC_SEGMENTS_DONE);
    for (uint32_t i = 0; i < 2; i++) {
        one_make(&a, SNIC_SEGMENTS_WRITE, 1);
        a.q.gen = 4;
        assert_int_equal(one_run(&a), 0);
        assert_int_equal(a.b[0].status, SNIC_SEGMENTS_DUP);
        a.data[0][7] ^= 1;
        a.b[0].data_crc = snic_crc32c(0, a.data[0], 4096);
        assert_int_equal(one_run(&a), 0);
        assert_int_equal(a.b[0].status, SNIC_SEGMENTS_SUPERSEDED);
        a.b[0].kind = SNIC_SEGMENTS_ZERO;
        a.b[0].data = NULL;
        a.b[0].data_crc = 0;
        assert_int_equal(one_run(&a), 0);
        assert_int_equal(a.b[0].status, SNIC_SEGMENTS_SUPERSEDED);
        again(0, 0);
    }
    one_make(&b, SNIC_SEGMENTS_READ, 1);
    b.q.gen = 4;
    assert_int_equal(one_run(&b), 0);
    assert_int_equal(b.data[0][7], 1);
    assert_int_equal(one_control(SNIC_SEGMENTS_DELETE, 1, 4, 0), 0);
    end();
}

static void test_segments_write_versions_decide(void **state)
{
    struct snic_segments_info info;
    (void)state;
    begin_open(1, 0);
    one_make(&a, SNIC_SEGMENTS_WRITE, 3);
    assert_int_equal(one_run(&a), SNIC_ENOENT);
    assert_int_equal(one_control(SNIC_SEGMENTS_FENCE, 1, 0, 1), SNIC_ENOENT);
    assert_int_equal(one_control(SNIC_SEGMENTS_CREATE, 1, 4, 0), 0);
    assert_int_equal(one_control(SNIC_SEGMENTS_CREATE, 1, 4, 0), SNIC_EEXIST);
    assert_int_equal(one_run(&a), SNIC_ESTALE); /* generation 0 */
    a.q.gen = 9;                                /* newer: taken */
    assert_int_equal(one_run(&a), 0);
    assert_int_equal(a.b[2].status, SNIC_SEGMENTS_DONE);
    a.q.flags = SNIC_SEGMENTS_ANY_GEN;
    a.q.gen = 0;
    a.b[0].wver = 4;
    a.b[2].wver = 6;
    a.data[2][77] ^= 1;
    assert_int_equal(one_run(&a), SNIC_ECORRUPT);
    assert_int_equal(a.q.refused, 1);
    assert_int_equal(a.b[0].status, SNIC_SEGMENTS_SUPERSEDED);
    assert_int_equal(a.b[1].status, SNIC_SEGMENTS_DUP);
    assert_int_equal(a.b[2].status, SNIC_SEGMENTS_BAD_CRC);
    assert_int_equal(one_control(SNIC_SEGMENTS_FENCE, 1, 4, 8), 0);
    a.data[2][77] ^= 1;
    a.b[1].wver = 8;
    assert_int_equal(one_run(&a), SNIC_ESTALE);
    assert_int_equal(a.b[0].status, SNIC_SEGMENTS_SUPERSEDED);
    assert_int_equal(a.b[1].status, SNIC_SEGMENTS_DONE);
    assert_int_equal(a.b[2].status, SNIC_SEGMENTS_FENCED);
    assert_int_equal(one_control(SNIC_SEGMENTS_FENCE, 1, 4, 3), 0); /* never lower */
    assert_int_equal(one_control(SNIC_SEGMENTS_SET_GEN, 1, 3, 0), SNIC_ESTALE);
    assert_int_equal(one_control(SNIC_SEGMENTS_SET_GEN, 1, 5, 0), 0);
    one_make(&c, SNIC_SEGMENTS_SET_GEN, 0); /* nor by a client that knows none */
    c.q.flags = SNIC_SEGMENTS_ANY_GEN;
    for (c.q.gen = 0; c.q.gen < 6; c.q.gen++)
        assert_int_equal(one_run(&c), c.q.gen < 5 ? SNIC_ESTALE : 0);
    assert_int_equal(one_control(SNIC_SEGMENTS_DELETE, 1, 4, 0), SNIC_ESTALE);
    again(0, 0);
    struct snic_segments_stat st;
    assert_int_equal(snic_segments_find(fix.store, 1, &st), 0);
    assert_int_equal(st.gen, 5);
    assert_int_equal(st.min_wver, 8);
    assert_int_equal(one_run(&a), SNIC_ESTALE); /* for ever */
    a.b[2].kind = SNIC_SEGMENTS_TRIM;
    a.b[2].data = NULL;
    a.b[2].data_crc = 0;
    a.b[2].wver = 9;
    a.b[2].block_tag = 0xabc;
    assert_int_equal(one_run(&a), 0);
    one_make(&b, SNIC_SEGMENTS_READ, 3);
    b.q.gen = 5;
    b.b[1].block = 2;
    b.b[2].block = 300;
    assert_int_equal(one_run(&b), 0);
    assert_int_equal(b.b[0].wver, 5);
    assert_int_equal(b.data[0][4095], 1);
    assert_int_equal(b.b[1].wver, 9);
    assert_int_equal(b.b[1].kind, SNIC_SEGMENTS_TRIM);
    assert_int_equal(b.b[1].block_tag, 0xabc);
    assert_int_equal(b.data[1][0], 0);
    assert_int_equal(b.b[2].wver, 0);
    assert_int_equal(b.data[2][4095], 0);
    assert_int_equal(b.b[2].data_crc, snic_crc32c(0, b.data[2], 4096));
    snic_segments_inspect(fix.store, &info);
    assert_int_equal(info.fenced, 1);
    assert_int_equal(one_control(SNIC_SEGMENTS_DELETE, 1, 5, 0), 0);
    assert_int_equal(one_run(&b), SNIC_ENOENT);
    end();
}

static void raise_is(uint32_t gen, uint64_t min_wver)
{
    struct snic_segments_stat st;
    assert_int_equal(snic_segments_find(fix.store, 1, &st), 0);
    assert_int_equal(st.gen, gen);
    assert_int_equal(st.min_wver, min_wver);
}

/* A newer generation lets the older one in still, or is answered before it is durable, or a lower
   fence takes a higher one's place. */
static void test_segments_raise_durable_before_answer(void **state)
{
    static const uint16_t ops[] = {SNIC_SEGMENTS_READ, SNIC_SEGMENTS_WRITE, SNIC_SEGMENTS_FENCE};
    (void)state;
    begin_open(1, 50000);
    assert_int_equal(one_control(SNIC_SEGMENTS_CREATE, 1, 4, 0), 0);
    for (uint32_t i = 0; i < 3; i++) {
        uint32_t gen = 10 * (i + 1);
        one_make(&a, ops[i], i == 2 ? 0 : 1);
        one_make(&b, SNIC_SEGMENTS_WRITE, 1);
        one_make(&d, SNIC_SEGMENTS_READ, 1);
        a.q.gen = gen;
        a.q.min_wver = 100 * gen;
        a.q.flags = SNIC_SEGMENTS_RAISE;
        a.b[0].wver = 200 * gen;
        b.q.gen = gen - 1;
        b.b[0].wver = 201 * gen;
        d.q.gen = gen;
        uint64_t from = snic_loop_now(fix.loop);
        order = 0;
        assert_int_equal(snic_segments_submit(fix.store, &a.q), 0);
        raise_is(gen, 100 * gen);
        assert_int_equal(snic_segments_submit(fix.store, &d.q), 0);
        assert_int_equal(one_run(&b), SNIC_ESTALE);
        assert_int_equal(order, 1); /* refused at once */
        while (order < 3) {
            assert_true(snic_loop_once(fix.loop, SNIC_NEVER) > 0);
            if (snic_loop_now(fix.loop) < from + 50000)
                assert_int_equal(order, 1);
        }
        assert_int_equal(a.q.result, 0);
        b.q.gen = gen;
        b.b[0].wver = 100 * gen - 1;
        b.b[0].block = 9;
        assert_int_equal(one_run(&b), SNIC_ESTALE);
        assert_int_equal(b.b[0].status, SNIC_SEGMENTS_FENCED);
    }
    a.q.gen = 30; /* there already: nothing is lowered, nor raised */
    a.q.min_wver = 1;
    assert_int_equal(one_run(&a), 0);
    raise_is(30, 3000);
    a.q.gen = 31;
    assert_int_equal(one_run(&a), 0);
    again(0, 0);
    raise_is(31, 3000);
    end();
}

static void lost_reads_damaged(int result)
{
    one_make(&b, SNIC_SEGMENTS_READ, 3);
    assert_int_equal(one_run(&b), result);
    assert_int_equal(b.q.refused, result != 0);
    assert_int_equal(b.b[0].status, SNIC_SEGMENTS_DONE);
    assert_int_equal(b.data[0][9], 1);
    assert_int_equal(b.b[1].status, result != 0 ? SNIC_SEGMENTS_DAMAGED : SNIC_SEGMENTS_DONE);
    assert_int_equal(b.b[1].wver, result != 0 ? 7 : 8);
    assert_int_equal(b.b[2].status, SNIC_SEGMENTS_DONE);
    assert_int_equal(b.data[2][9], 3);
}

static void lost_again(int home)
{
    struct snic_segments_info info;
    if (home) {
        snic_segments_checkpoint(fix.store);
        do {
            assert_true(snic_loop_once(fix.loop, SNIC_NEVER) > 0);
            snic_segments_inspect(fix.store, &info);
        } while (info.dirty != 0);
    }
    again(0, 0);
}

/* A block that is reported lost has data, hurts its neighbours, or does not heal; from the log as
   from the tables. */
static void test_segments_lost_reads_damaged_until_written(void **state)
{
    (void)state;
    for (int home = 0; home < 2; home++) {
        begin_open(1, 0);
        assert_int_equal(one_control(SNIC_SEGMENTS_CREATE, 1, 0, 0), 0);
        one_make(&a, SNIC_SEGMENTS_WRITE, 3);
        assert_int_equal(one_run(&a), 0);
        one_make(&a, SNIC_SEGMENTS_WRITE, 2);
        a.b[0].wver = 6; /* a record of both */
        a.b[1].kind = SNIC_SEGMENTS_LOST;
        a.b[1].wver = 7;
        assert_int_equal(snic_segments_submit(fix.store, &a.q), SNIC_EINVAL); /* with data */
        a.b[1].data = NULL;
        a.b[1].data_crc = 0;
        assert_int_equal(one_run(&a), 0);
        assert_int_equal(a.b[0].status, SNIC_SEGMENTS_DONE);
        lost_reads_damaged(SNIC_ECORRUPT);
        lost_again(home);
        lost_reads_damaged(SNIC_ECORRUPT);
        assert_int_equal(one_run(&a), 0);
        assert_int_equal(a.b[1].status, SNIC_SEGMENTS_DUP);
        one_make(&a, SNIC_SEGMENTS_WRITE, 2);
        assert_int_equal(one_run(&a), 0);
        assert_int_equal(a.b[1].status, SNIC_SEGMENTS_SUPERSEDED);
        a.b[1].wver = 8;
        assert_int_equal(one_run(&a), 0);
        lost_reads_damaged(0);
        lost_again(home);
        lost_reads_damaged(0);
        end();
    }
}

/* A repetition, a late write or a read is answered before the version it met is durable. */
static void test_segments_answer_not_before_what_it_rests_on(void **state)
{
    (void)state;
    begin_open(1, 50000);
    assert_int_equal(one_control(SNIC_SEGMENTS_CREATE, 1, 0, 0), 0);
    one_make(&a, SNIC_SEGMENTS_WRITE, 1);
    one_make(&b, SNIC_SEGMENTS_WRITE, 1);
    one_make(&c, SNIC_SEGMENTS_WRITE, 1);
    one_make(&d, SNIC_SEGMENTS_READ, 1);
    c.b[0].wver = 3;
    order = 0;
    uint64_t from = snic_loop_now(fix.loop);
    assert_int_equal(snic_segments_submit(fix.store, &a.q), 0);
    assert_int_equal(snic_segments_submit(fix.store, &d.q), 0);
    assert_int_equal(snic_segments_submit(fix.store, &c.q), 0);
    assert_int_equal(snic_segments_submit(fix.store, &b.q), 0);
    while (order < 4) {
        assert_true(snic_loop_once(fix.loop, SNIC_NEVER) > 0);
        if (snic_loop_now(fix.loop) < from + 50000)
            assert_int_equal(order, 0);
    }
    assert_int_equal(a.order, 1);
    assert_int_equal(b.b[0].status, SNIC_SEGMENTS_DUP);
    assert_int_equal(c.b[0].status, SNIC_SEGMENTS_SUPERSEDED);
    assert_int_equal(d.b[0].wver, 5);
    end();
}

/* A full store refuses writes, or a full cache grows, or no client hears of room. */
static void test_segments_full_writes_pass_or_wait(void **state)
{
    struct snic_segments_info info;
    uint64_t wver = 1;
    uint32_t refused = 0;
    (void)state;
    begin_open(1, 5000);
    snic_segments_inspect(fix.store, &info);
    for (uint64_t i = 0; i < info.places; i++)
        assert_int_equal(one_control(SNIC_SEGMENTS_CREATE, i + 1, 0, 0), 0);
    assert_int_equal(one_control(SNIC_SEGMENTS_CREATE, 99, 0, 0), SNIC_ENOSPC);
    for (uint32_t i = 0; i < 2000; i++) {
        one_make(&a, SNIC_SEGMENTS_WRITE, 1);
        a.b[0].block = (uint16_t)(i * 7 % 512);
        a.b[0].wver = wver++;
        int r = snic_segments_submit(fix.store, &a.q);
        if (r == SNIC_EAGAIN) {
            uint32_t rooms = fix.rooms;
            refused++;
            while (fix.rooms == rooms)
                assert_true(snic_loop_once(fix.loop, SNIC_NEVER) > 0);
            continue;
        }
        assert_int_equal(r, 0);
        while (!a.done)
            assert_true(snic_loop_once(fix.loop, SNIC_NEVER) > 0);
        assert_int_equal(a.b[0].status, SNIC_SEGMENTS_DONE);
    }
    snic_segments_inspect(fix.store, &info);
    assert_true(info.rounds > 10);
    print_message("%u refused, %" PRIu64 " rounds, %" PRIu64 " records copied\n", refused,
                  info.rounds, info.log_copies);
    snic_segments_checkpoint(fix.store);
    while (info.dirty != 0) {
        assert_true(snic_loop_once(fix.loop, SNIC_NEVER) > 0);
        snic_segments_inspect(fix.store, &info);
    }
    again(0, 0);
    assert_int_equal(fix.report.replayed, 0);
    assert_int_equal(fix.report.tails, 0);
    end();
}

/* The cache is used up at once by many requests. */
static void test_segments_cache_used_up_refused_then_room(void **state)
{
    uint32_t which[1];
    uint64_t wver[1];
    uint32_t taken = 0;
    (void)state;
    begin_open(1, 100000);
    fix.m.seg[0].control = 0;
    for (uint32_t i = 0; i < 3; i++)
        assert_int_equal(segfix_control(&fix, i, SNIC_SEGMENTS_CREATE, 0), 1);
    segfix_settle(&fix);
    for (uint32_t i = 0; i < 3 * SEGFIX_BLOCKS; i++) { /* 60 of 64 */
        which[0] = i % SEGFIX_BLOCKS;
        wver[0] = 1;
        taken += (uint32_t)segfix_write(&fix, i / SEGFIX_BLOCKS, which, wver, 1);
        if (i % 40 == 39)
            segfix_settle(&fix);
    }
    segfix_settle(&fix);
    assert_true(taken >= 32 && taken <= 64);
    if (fix.eagain != 0)
        assert_true(fix.rooms > 0);
    end();
}

/* A list is not one record of the log. */
static void test_segments_write_list_one_record(void **state)
{
    struct snic_segments_info before;
    struct snic_segments_info after;
    (void)state;
    begin_open(1, 0);
    assert_int_equal(one_control(SNIC_SEGMENTS_CREATE, 1, 0, 0), 0);
    snic_segments_inspect(fix.store, &before);
    assert_int_equal(before.list_max, 3);
    one_make(&a, SNIC_SEGMENTS_WRITE, 3);
    assert_int_equal(one_run(&a), 0);
    snic_segments_inspect(fix.store, &after);
    assert_int_equal(after.log_batches - before.log_batches, 1);
    assert_int_equal(after.log_bytes - before.log_bytes, 4 * 4096);
    assert_int_equal(after.applied, 3);
    end();
}

/* One device's death is another's. */
static void test_segments_device_dead_others_go_on(void **state)
{
    struct snic_segments_stat st;
    struct snic_fault p = {.kind = SNIC_FAULT_ERROR, .ops = 1u << SNIC_IO_WRITE};
    struct snic_segments_info info;
    (void)state;
    begin_open(3, 0);
    for (uint32_t i = 1; i <= 6; i++)
        assert_int_equal(one_control(SNIC_SEGMENTS_CREATE, i, 0, 0), 0);
    uint64_t cursor = 0;
    uint32_t on[3] = {0};
    while (snic_segments_next(fix.store, &cursor, &st) == 1)
        on[st.disk]++;
    assert_true(on[0] == 2 && on[1] == 2 && on[2] == 2);
    p.after = 1;
    p.error = SNIC_EIO;
    assert_int_equal(snic_disk_fault(fix.disk[1], &p), 0);
    for (uint32_t i = 1; i <= 6; i++) {
        one_make(&a, SNIC_SEGMENTS_WRITE, 2);
        a.q.seg_id = i;
        assert_int_equal(snic_segments_find(fix.store, i, &st), 0);
        assert_int_equal(one_run(&a), st.disk == 1 ? SNIC_EIO : 0);
    }
    assert_int_equal(fix.failed, 2);
    snic_segments_inspect(fix.store, &info);
    assert_int_equal(info.dead, 1);
    assert_int_equal(one_control(SNIC_SEGMENTS_CREATE, 7, 0, 0), 0);
    again(0, 0);
    assert_int_equal(fix.report.segments, 7);
    end();
}

/* ---- Every order ---- */

static void letter(uint32_t l)
{
    uint32_t which[1] = {0};
    uint64_t wver[1] = {fix.m.seg[0].block[0].current};
    switch (l) {
    case 0: /* the next version */
    case 1: /* that after it: the next one comes late */
        wver[0] += 1 + l;
        (void)segfix_write(&fix, 0, which, wver, 1);
        break;
    case 2: /* late */
    case 3: /* twice */
        if (wver[0] <= 3 - l)
            break;
        wver[0] -= 3 - l;
        (void)segfix_write(&fix, 0, which, wver, 1);
        break;
    case 4:
        (void)segfix_read(&fix, 0, which, 1);
        break;
    case 5:
        snic_segments_checkpoint(fix.store);
        break;
    default:
        (void)snic_world_step(fix.world);
        break;
    }
}

/* Some order of two writers, a reader and the rounds gives an older version, or half of one. */
static void test_segments_one_block_every_order_as_the_model(void **state)
{
    const uint32_t letters = 7;
    uint32_t all = 1;
    uint32_t length = 5;
    uint32_t stride = (uint32_t)support_stride(1, 5);
    (void)state;
    begin_open(1, 0);
    assert_int_equal(segfix_control(&fix, 0, SNIC_SEGMENTS_CREATE, 0), 1);
    segfix_settle(&fix);
    for (uint32_t i = 0; i < length; i++)
        all *= letters;
    for (uint32_t n = (uint32_t)support_turn(stride); n < all; n += stride) {
        uint32_t x = n;
        for (uint32_t i = 0; i < length; i++, x /= letters) {
            letter(x % letters);
            (void)snic_world_step(fix.world);
        }
        if (n % 3 == 0) /* else the next one begins with what is under way */
            segfix_settle(&fix);
        if (fix.m.seg[0].block[0].current > SEGFIX_VERSIONS - 100) {
            segfix_settle(&fix);
            assert_int_equal(segfix_control(&fix, 0, SNIC_SEGMENTS_DELETE, 0), 1);
            segfix_settle(&fix);
            while (segfix_control(&fix, 0, SNIC_SEGMENTS_CREATE, 0) == 0)
                (void)snic_world_step(fix.world);
            segfix_settle(&fix);
        }
        if (fix.why[0] != 0)
            fail_msg("order %u: %s", n, fix.why);
    }
    end();
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_segments_open_bad_argument_refused),
        cmocka_unit_test(test_segments_device_of_other_loop_refused),
        cmocka_unit_test(test_segments_memsize_largest_device_bounded),
        cmocka_unit_test(test_segments_open_memory_one_short_refused_close_at_any_time),
        cmocka_unit_test(test_segments_open_found_store_reported),
        cmocka_unit_test(test_segments_request_senseless_refused),
        cmocka_unit_test(test_segments_write_versions_decide),
        cmocka_unit_test(test_segments_write_of_another_writer_is_no_duplicate),
        cmocka_unit_test(test_segments_answer_not_before_what_it_rests_on),
        cmocka_unit_test(test_segments_raise_durable_before_answer),
        cmocka_unit_test(test_segments_lost_reads_damaged_until_written),
        cmocka_unit_test(test_segments_full_writes_pass_or_wait),
        cmocka_unit_test(test_segments_cache_used_up_refused_then_room),
        cmocka_unit_test(test_segments_write_list_one_record),
        cmocka_unit_test(test_segments_device_dead_others_go_on),
        cmocka_unit_test(test_segments_one_block_every_order_as_the_model),
    };
    return SUPPORT_MAIN(argc, argv, tests);
}
