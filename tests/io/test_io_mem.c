/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * The simulated disk: the conformance suite in a world, then what only it has: fault plans, clones,
 * replay. Power cuts are test_io_mem_power.c's.
 */
#include "test_io_mem_util.h"

/* ---- Options ---- */

/* A disk with impossible geometry would break every user's arithmetic. */
static void test_io_mem_bad_options_open_refused(void **state)
{
    const struct snic_disk_opts good = {.opts_size = sizeof(good), .size = 1 << 20};
    struct snic_disk_opts o;
    struct snic_disk *d = NULL;
    (void)state;
#define BAD(field, value)                                                                          \
    o = good;                                                                                      \
    o.field = value;                                                                               \
    assert_int_equal(snic_disk_open(&d, &o), SNIC_EINVAL);                                         \
    assert_null(d)
    BAD(opts_size, 1);
    BAD(size, 0);
    BAD(size, 4095);
    BAD(size, UINT64_MAX);
    BAD(sector, 256);
    BAD(sector, 1000);
    BAD(sector, 131072);
    BAD(align, 3);
    BAD(align, 8192);
    BAD(depth, 32769);
    BAD(caps, 1u << 30);
    BAD(delay_min_ns, 1);
    BAD(transfer_max, (1u << 30) + 1);
#undef BAD
    snic_disk_close(NULL);
    assert_int_equal(snic_disk_open(&d, &good), 0);
    struct snic_fault f = {.kind = SNIC_FAULT_ERROR, .after = 1, .error = SNIC_EIO};
    struct snic_fault bad;
#define BAD(field, value)                                                                          \
    bad = f;                                                                                       \
    bad.field = value;                                                                             \
    assert_int_equal(snic_disk_fault(d, &bad), SNIC_EINVAL)
    BAD(kind, 0);
    BAD(kind, 7);
    BAD(after, 0);
    BAD(ops, 1);
    BAD(ops, 1u << 6);
    BAD(error, 0);
    BAD(error, 5);
    BAD(reserved, 1);
#undef BAD
    for (int i = 0; i < 64; i++)
        assert_int_equal(snic_disk_fault(d, &f), 0);
    assert_int_equal(snic_disk_fault(d, &f), SNIC_ENOSPC);
    snic_disk_faults_clear(d);
    assert_int_equal(snic_disk_fault(d, &f), 0);
    snic_disk_close(d);
}

/* A cancelled request ends early, without effect, whether a timer or a message was to end it. */
static void test_io_mem_cancelled_write_has_no_effect(void **state)
{
    (void)state;
    for (uint64_t delay = 0; delay <= 1000; delay += 1000) {
        struct snic_disk_opts o = {.opts_size = sizeof(o),
                                   .sector = SECTOR,
                                   .size = SECTORS * SECTOR,
                                   .delay_min_ns = delay,
                                   .delay_max_ns = delay};
        struct rig g = rig_open_with(&o);
        unsigned char mem[SECTOR] = {1};
        struct call c;
        uint64_t t0 = snic_world_now(g.world);
        assert_int_equal(call_start(&g, &c, SNIC_IO_WRITE, 0, mem, SECTOR, 0), 1);
        snic_io_cancel(g.io, &c.req);
        snic_io_cancel(g.io, &c.req); /* twice is once */
        assert_int_equal(c.done, 0);
        while (snic_world_step(g.world) != 0)
            ;
        assert_int_equal(c.done, 1);
        assert_int_equal(c.req.result, SNIC_ECANCELED);
        assert_int_equal(snic_world_now(g.world), t0);
        assert_int_equal(snic_disk_bytes(g.disk)[0], 0);
        assert_int_equal(snic_disk_op_count(g.disk), 0);
        rig_close(&g);
    }
}

/* ---- Fault plans ---- */

/* The n-th matching operation, again as often as set, inside the range, and not otherwise. */
static void test_io_mem_fault_fires_when_planned(void **state)
{
    struct rig g = rig_open();
    struct snic_fault f = {.kind = SNIC_FAULT_ERROR,
                           .ops = 1u << SNIC_IO_WRITE,
                           .after = 2,
                           .repeat = 1,
                           .offset = 4 * SECTOR,
                           .length = 2 * SECTOR,
                           .error = SNIC_ENOSPC};
    unsigned char mem[4 * SECTOR] = {1};
    (void)state;
    assert_int_equal(snic_disk_fault(g.disk, &f), 0);
#define WRITE(s, n) call_run(&g, SNIC_IO_WRITE, (s)*SECTOR, mem, (n)*SECTOR, 0)
    assert_int_equal(WRITE(4, 1), SECTOR);                                      /* 1st */
    assert_int_equal(WRITE(3, 1), SECTOR);                                      /* outside */
    assert_int_equal(WRITE(6, 1), SECTOR);                                      /* outside */
    assert_int_equal(call_run(&g, SNIC_IO_READ, 4 * SECTOR, mem, 512, 0), 512); /* other op */
    assert_int_equal(WRITE(3, 2), SNIC_ENOSPC);                                 /* 2nd: fires */
    assert_int_equal(WRITE(5, 2), SNIC_ENOSPC);                                 /* repeats */
    assert_int_equal(WRITE(4, 1), SECTOR);                                      /* used up */
    memset(mem, 1, sizeof(mem));
    assert_int_equal(WRITE(4, 2), 2 * SECTOR);
    f.kind = SNIC_FAULT_SHORT;
    f.bytes = 700;
    f.after = 1;
    f.repeat = UINT64_MAX;
    assert_int_equal(snic_disk_fault(g.disk, &f), 0);
    memset(mem, 'z', sizeof(mem));
    for (int i = 0; i < 5; i++)
        assert_int_equal(WRITE(4, 2), 700);
    assert_int_equal(WRITE(4, 1), SECTOR); /* shorter than that anyway */
    const unsigned char *bytes = snic_disk_bytes(g.disk);
    assert_int_equal(bytes[4 * SECTOR + 699], 'z');
    assert_int_equal(bytes[4 * SECTOR + 700], 1);
    snic_disk_faults_clear(g.disk);
    assert_int_equal(WRITE(4, 2), 2 * SECTOR);
#undef WRITE
    rig_close(&g);
}

/* Two handles share the medium; both die, and a slow request is late by what was planned. */
static void test_io_mem_two_handles_one_medium(void **state)
{
    struct rig g = rig_open();
    struct rig h = g;
    struct snic_fault slow = {.kind = SNIC_FAULT_DELAY, .after = 1, .delay_ns = 5000};
    struct call c;
    unsigned char mem[SECTOR];
    (void)state;
    assert_int_equal(snic_io_mem_open(&h.io, g.loop, g.disk), 0);
    put(&g, 0, 1, 'a', 0);
    uint64_t t0 = snic_loop_now(g.loop);
    assert_int_equal(snic_disk_fault(g.disk, &slow), 0);
    assert_int_equal(call_run(&h, SNIC_IO_READ, 0, mem, SECTOR, 0), SECTOR);
    assert_int_equal(mem[0], 'a');
    assert_int_equal(snic_loop_now(g.loop), t0 + 5000);
    assert_int_equal(call_start(&h, &c, SNIC_IO_READ, 0, mem, SECTOR, 0), 1);
    snic_disk_power_cut(g.disk, 3);
    assert_int_equal(snic_loop_once(g.loop, SNIC_NEVER), 1);
    assert_int_equal(c.req.result, SNIC_EIO);
    assert_int_equal(call_start(&g, &c, SNIC_IO_READ, 0, mem, SECTOR, 0), SNIC_EIO);
    snic_io_close(h.io);
    rig_close(&g);
}

static void undead_body(void *ctx)
{
    struct rig *g = ctx;
    snic_disk_close(g->disk);
}

/* A medium freed under its handles would be a wild pointer in each. */
static void test_io_mem_disk_closed_before_handles_aborts(void **state)
{
    struct rig g = rig_open();
    (void)state;
    SUPPORT_EXPECT_ABORT(undead_body, &g);
    rig_close(&g);
}

/* A sector that no request has written: its content is what a pointer left there, or zeros. */
static void test_io_mem_first_write_lost_leaves_what_was_there(void **state)
{
    struct rig g = rig_open();
    (void)state;
    put(&g, 39, 1, 'a', 0);
    snic_disk_bytes(g.disk)[40 * SECTOR] = 'p';
    put(&g, 40, 2, 'b', 0);
    snic_disk_power_cut(g.disk, SNIC_FAULT_KEEP_NONE);
    assert_int_equal(snic_disk_bytes(g.disk)[39 * SECTOR], 0);
    assert_int_equal(snic_disk_bytes(g.disk)[40 * SECTOR], 'p');
    assert_int_equal(snic_disk_bytes(g.disk)[41 * SECTOR], 0);
    rig_close(&g);
}

/* ---- Clones ---- */

/* A clone must be equal, durable state included, and independent. */
static void test_io_mem_clone_equal_and_independent(void **state)
{
    struct rig g = rig_open();
    struct snic_disk *copy = NULL, *second = NULL;
    (void)state;
    put(&g, 0, 4, 'a', SNIC_IO_FUA);
    put(&g, 2, 4, 'b', 0);
    snic_disk_bytes(g.disk)[40 * SECTOR] = 'p'; /* written behind the requests' back */
    assert_int_equal(snic_disk_clone(g.disk, &copy), 0);
    assert_int_equal(snic_disk_clone(copy, &second), 0);
    assert_memory_equal(snic_disk_bytes(copy), snic_disk_bytes(g.disk), SECTORS * SECTOR);
    assert_int_equal(snic_disk_unsynced(copy, NULL, 0), 4);
    assert_int_equal(snic_disk_op_count(copy), snic_disk_op_count(g.disk));
    snic_disk_power_cut(copy, SNIC_FAULT_KEEP_NONE);
    assert_int_equal(snic_disk_bytes(copy)[2 * SECTOR], 'a');
    assert_int_equal(sector_is(&g, 2), 'b');
    snic_disk_power_cut(second, SNIC_FAULT_KEEP_ALL);
    assert_memory_equal(snic_disk_bytes(second), snic_disk_bytes(g.disk), SECTORS * SECTOR);
    put(&g, 0, 1, 'q', 0); /* the original's handle lives on */
    snic_disk_close(copy);
    snic_disk_close(second);
    rig_close(&g);
}

/* A sanitizer writes its shadow of the whole block, however little of it is touched. */
#if defined(SNIC_DEBUG)
#define HUGE_BYTES ((uint64_t)1 << 24)
#else
#define HUGE_BYTES ((uint64_t)1 << 30)
#endif

/* Enumerating power cuts on a big disk is only affordable if clones cost what was touched. */
static void test_io_mem_huge_disk_sparse_clone(void **state)
{
    struct snic_disk_opts o = {.opts_size = sizeof(o), .size = HUGE_BYTES};
    struct rig g = rig_open_with(&o);
    unsigned char mem[3] = {7, 8, 9}, seen[3];
    (void)state;
    for (uint64_t i = 0; i < 100; i++)
        assert_int_equal(call_run(&g, SNIC_IO_WRITE, i * (HUGE_BYTES / 101), mem, 3, 0), 3);
    for (int i = 0; i < 20; i++) {
        struct snic_disk *copy = NULL;
        assert_int_equal(snic_disk_clone(g.disk, &copy), 0);
        struct rig h = g;
        assert_int_equal(snic_io_mem_open(&h.io, g.loop, copy), 0);
        assert_int_equal(call_run(&h, SNIC_IO_READ, 99 * (HUGE_BYTES / 101), seen, 3, 0), 3);
        assert_memory_equal(seen, mem, 3);
        snic_io_close(h.io);
        snic_disk_close(copy);
    }
    rig_close(&g);
}

/* ---- Replay ---- */

static uint64_t order_hash;

static void hashed_done(struct snic_io_req *req)
{
    struct call *c = SNIC_CONTAINER(req, struct call, req);
    c->done++;
    order_hash = (order_hash ^ req->offset ^ req->done_ns) * 0x100000001b3u;
}

static uint64_t replay_run(uint64_t seed)
{
    struct snic_disk_opts o = {.opts_size = sizeof(o),
                               .sector = SECTOR,
                               .size = SECTORS * SECTOR,
                               .seed = seed,
                               .delay_min_ns = 1000,
                               .delay_max_ns = 100000};
    struct rig g = rig_open_with(&o);
    struct call c[SECTORS];
    unsigned char mem[SECTOR] = {0};
    order_hash = 1;
    for (uint64_t i = 0; i < SECTORS; i++) {
        assert_int_equal(call_start(&g, &c[i], SNIC_IO_WRITE, i * SECTOR, mem, SECTOR, 0), 1);
        c[i].req.done = hashed_done;
    }
    while (snic_world_step(g.world) != 0)
        ;
    for (uint64_t i = 0; i < SECTORS; i++) {
        assert_int_equal(c[i].done, 1);
        uint64_t took = c[i].req.done_ns - c[i].req.queued_ns;
        assert_true(took >= 1000 && took <= 100000);
    }
    rig_close(&g);
    return order_hash;
}

/* Times and order of completions come from the seed and from nothing else. */
static void test_io_mem_same_seed_same_completions(void **state)
{
    (void)state;
    assert_true(replay_run(1) == replay_run(1));
    assert_true(replay_run(1) != replay_run(2));
}

static const struct conformance_io_backend backends[] = {
    {.name = "mem_sim", .open = conformance_io_open_mem_sim},
    {.name = "mem_sim_slow", .open = conformance_io_open_mem_sim, .delay_ns = 50000},
    {.name = "mem_sim_aligned",
     .open = conformance_io_open_mem_sim,
     .align = 4096,
     .delay_ns = 1000,
     .caps = SNIC_IO_CAP_REGISTERED | SNIC_IO_CAP_DIRECT | SNIC_IO_CAP_FUA},
};

int main(int argc, char **argv)
{
    const struct CMUnitTest own[] = {
        cmocka_unit_test(test_io_mem_bad_options_open_refused),
        cmocka_unit_test(test_io_mem_cancelled_write_has_no_effect),
        cmocka_unit_test(test_io_mem_fault_fires_when_planned),
        cmocka_unit_test(test_io_mem_two_handles_one_medium),
        cmocka_unit_test(test_io_mem_disk_closed_before_handles_aborts),
        cmocka_unit_test(test_io_mem_first_write_lost_leaves_what_was_there),
        cmocka_unit_test(test_io_mem_clone_equal_and_independent),
        cmocka_unit_test(test_io_mem_huge_disk_sparse_clone),
        cmocka_unit_test(test_io_mem_same_seed_same_completions),
    };
    struct CMUnitTest tests[192];
    size_t n = SNIC_COUNTOF(own);
    memcpy(tests, own, sizeof(own));
    n += conformance_io_tests(tests + n, SNIC_COUNTOF(tests) - n, backends, SNIC_COUNTOF(backends));
    return support_main(argc, argv, tests, n);
}
