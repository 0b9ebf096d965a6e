/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* Writes in two steps: reserved, granted, then committed or cancelled. */
#include "test_qos_util.h"

#include <string.h>

enum { BYTES = 1 << 20, WRITES = 64 };

struct write {
    struct snic_io_req req;
    unsigned char data[16384];
    int granted, done, committed, cancelled;
};

static struct snic_world *world;
static struct snic_loop *loop;
static struct snic_disk *disk;
static struct snic_io *io;
static struct write writes[WRITES];

static void setup(uint32_t depth, uint32_t part_bytes)
{
    struct snic_world_opts w = {.opts_size = sizeof(w), .seed = support_seed()};
    struct snic_disk_opts d = {
        .opts_size = sizeof(d), .size = BYTES, .delay_min_ns = 50000, .delay_max_ns = 90000};
    struct snic_qos_opts o = {.opts_size = sizeof(o), .flags = SNIC_QOS_AUTO, .depth = depth};
    o.part_bytes = part_bytes;
    assert_int_equal(snic_world_open(&world, &w), 0);
    assert_int_equal(snic_world_loop(world, 1, &loop), 0);
    assert_int_equal(snic_disk_open(&disk, &d), 0);
    assert_int_equal(snic_io_mem_open(&io, loop, disk), 0);
    assert_int_equal(qx_open(&io, io, &o), 0);
    memset(writes, 0, sizeof(writes));
}

static void teardown(void)
{
    snic_io_close(io);
    qx_free();
    snic_disk_close(disk);
    snic_loop_close(loop);
    snic_world_close(world);
}

static void pass(struct snic_timer *t, uint64_t now)
{
    (void)t;
    (void)now;
}

/* The clock of a world stops when nothing is to happen: a timer keeps it going. */
static void run(uint64_t ns)
{
    struct snic_timer t;
    snic_timer_init(&t, pass);
    snic_loop_arm(loop, &t, snic_world_now(world) + ns);
    (void)snic_world_run(world, snic_world_now(world) + ns, UINT64_MAX);
    snic_loop_cancel(loop, &t);
    assert_int_equal(snic_qos_check(io), 0);
}

static void granted(struct snic_io_req *req)
{
    struct write *a = SNIC_CONTAINER(req, struct write, req);
    assert_true(!a->granted && !a->done);
    a->granted = 1;
}

static void done(struct snic_io_req *req)
{
    struct write *a = SNIC_CONTAINER(req, struct write, req);
    assert_false(a->done);
    a->done = 1;
}

static struct write *prepare(uint32_t i, uint32_t tenant, uint32_t bytes)
{
    struct write *a = &writes[i];
    memset(a, 0, sizeof(*a));
    snic_io_req_init(&a->req);
    a->req.done = done;
    a->req.op = SNIC_IO_WRITE;
    a->req.tenant = tenant;
    a->req.offset = (uint64_t)i * sizeof(a->data);
    a->req.length = bytes;
    a->req.buf.base = a->data;
    a->req.buf.size = bytes;
    return a;
}

static void commit(struct write *a)
{
    memset(a->data, 0x5a, sizeof(a->data)); /* the data arrive only now */
    a->committed = 1;
    snic_qos_commit(io, &a->req);
    assert_int_equal(snic_qos_check(io), 0);
}

/** Nothing reaches the disk before commit; then all parts do. */
static void test_qos_reserve_granted_then_committed(void **state)
{
    (void)state;
    setup(16, 4096);
    struct write *a = prepare(0, 1, 16384); /* four parts */
    assert_int_equal(snic_qos_reserve(io, &a->req, granted), 1);
    assert_false(a->granted); /* from the loop */
    run(1000000000);
    assert_true(a->granted && !a->done);
    assert_int_equal(snic_disk_op_count(disk), 0);
    commit(a);
    assert_false(a->done);
    run(100000000);
    assert_int_equal(a->req.result, 16384);
    assert_memory_equal(snic_disk_bytes(disk), a->data, 16384);
    teardown();
}

/** What is not committed holds its own tenant only: another's writes and its reads pass. */
static void test_qos_reserve_holds_its_tenant_only(void **state)
{
    (void)state;
    setup(WRITES, 4096);
    for (uint32_t i = 0; i < 32; i++)
        assert_int_equal(snic_qos_reserve(io, &prepare(i, 1, 16384)->req, granted), 1);
    run(1000000000);
    for (uint32_t i = 32; i < 40; i++) {
        struct snic_io_req *r = &prepare(i, 2, 16384)->req;
        r->op = i % 2 == 0 ? SNIC_IO_WRITE : SNIC_IO_READ;
        assert_int_equal(snic_io_submit(io, &r, 1), 1);
    }
    run(1000000000);
    for (uint32_t i = 32; i < 40; i++)
        assert_int_equal(writes[i].req.result, 16384);
    uint32_t left = 32;
    while (left > 0) { /* commits make room for further grants */
        for (uint32_t i = 0; i < 32; i++)
            if (writes[i].granted && !writes[i].committed) {
                commit(&writes[i]);
                left--;
            }
        run(100000000);
    }
    for (uint32_t i = 0; i < 32; i++)
        assert_int_equal(writes[i].req.result, 16384);
    teardown();
}

/** Cancelled while queued, while the grant is under way, and when it was granted. */
static void test_qos_reserve_cancelled(void **state)
{
    (void)state;
    setup(16, 4096);
    for (uint32_t i = 0; i < 3; i++) {
        struct write *a = prepare(i, 1, 16384);
        assert_int_equal(snic_qos_reserve(io, &a->req, granted), 1);
        if (i == 2)
            run(1000000);
        assert_int_equal(a->granted, i == 2);
        snic_io_cancel(io, &a->req);
        if (i == 1)
            snic_io_cancel(io, &a->req); /* harmless */
        run(1000000);
        assert_true(a->done);
        assert_int_equal(a->granted, i == 2);
        assert_int_equal(a->req.result, SNIC_ECANCELED);
    }
    assert_int_equal(snic_disk_op_count(disk), 0);
    struct write *a = prepare(3, 1, 16384);
    assert_int_equal(snic_qos_reserve(io, &a->req, granted), 1);
    run(100000000);
    commit(a);
    run(100000000);
    assert_int_equal(a->req.result, 16384);
    teardown();
}

static void test_qos_reserve_refusals(void **state)
{
    (void)state;
    setup(2, 4096);
    struct write *a = prepare(0, 1, 4096);
    a->req.op = SNIC_IO_READ;
    assert_int_equal(snic_qos_reserve(io, &a->req, granted), SNIC_EINVAL);
    a = prepare(0, 1, 4096);
    a->req.offset = BYTES;
    assert_int_equal(snic_qos_reserve(io, &a->req, granted), 1);
    run(1000000);
    assert_true(a->done && !a->granted);
    assert_int_equal(a->req.result, SNIC_ERANGE);
    assert_int_equal(snic_qos_reserve(io, &prepare(0, SNIC_QOS_DEFAULT, 4096)->req, granted), 1);
    assert_int_equal(snic_qos_reserve(io, &prepare(1, SNIC_QOS_DEFAULT, 4096)->req, granted), 1);
    assert_int_equal(snic_qos_reserve(io, &prepare(2, SNIC_QOS_DEFAULT, 4096)->req, granted), 0);
    run(1000000);
    teardown(); /* cancels them */
    assert_true(writes[0].done && writes[1].done);
    assert_int_equal(writes[1].req.result, SNIC_ECANCELED);
}

/** The latency of the device does not count the time until the data came. */
static void test_qos_reserve_fetching_is_no_latency(void **state)
{
    struct snic_qos_view v;
    (void)state;
    setup(16, 4096);
    for (uint32_t i = 0; i < 16; i++) {
        struct write *a = prepare(i, 1, 4096);
        assert_int_equal(snic_qos_reserve(io, &a->req, granted), 1);
        run(20000000); /* 20 ms from the network */
        commit(a);
        run(1000000);
        assert_int_equal(a->req.result, 4096);
    }
    snic_qos_get_view(io, &v);
    assert_true(v.device.ewma_ns[SNIC_GIMBAL_WRITE] < 200000);
    teardown();
}

/** Random: writes, submits, goes and cancels of three tenants; all end, with the right bytes. */
static void test_qos_reserve_random(void **state)
{
    struct snic_rng rng;
    (void)state;
    snic_rng_init(&rng, support_seed());
    for (uint64_t round = 0; round < support_rounds(60, 5000); round++) {
        setup(8 + (uint32_t)snic_rng_below(&rng, WRITES), 4096u << snic_rng_below(&rng, 3));
        int busy[WRITES] = {0};
        for (uint32_t step = 0; step < 300; step++) {
            uint32_t i = (uint32_t)snic_rng_below(&rng, WRITES);
            struct write *a = &writes[i];
            if (busy[i] && a->done)
                busy[i] = 0;
            uint32_t what = (uint32_t)snic_rng_below(&rng, 8);
            if (!busy[i] && what < 4) {
                a = prepare(i, (uint32_t)snic_rng_below(&rng, 3), 4096u << snic_rng_below(&rng, 3));
                busy[i] = snic_qos_reserve(io, &a->req, granted);
            } else if (busy[i] && a->granted && !a->committed && !a->cancelled && what < 6) {
                commit(a);
            } else if (busy[i] && what == 6) {
                a->cancelled = 1;
                snic_io_cancel(io, &a->req);
            } else if (what == 7) {
                run(snic_rng_below(&rng, 400000));
            }
            assert_int_equal(snic_qos_check(io), 0);
        }
        teardown();
        for (uint32_t i = 0; i < WRITES; i++)
            assert_true(!busy[i] || writes[i].done);
    }
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_qos_reserve_granted_then_committed),
        cmocka_unit_test(test_qos_reserve_holds_its_tenant_only),
        cmocka_unit_test(test_qos_reserve_cancelled),
        cmocka_unit_test(test_qos_reserve_refusals),
        cmocka_unit_test(test_qos_reserve_fetching_is_no_latency),
        cmocka_unit_test(test_qos_reserve_random),
    };
    return SUPPORT_MAIN(argc, argv, tests);
}
