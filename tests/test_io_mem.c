/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * The simulated disk: the conformance suite in a world, then what only it has: un-synced sectors,
 * power cuts, torn writes, fault plans, clones, replay.
 */
#include "conformance_io.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SECTOR 512
#define SECTORS 64

struct rig {
    struct snic_world *world;
    struct snic_loop *loop;
    struct snic_disk *disk;
    struct snic_io *io;
};

struct call {
    struct snic_io_req req;
    int done;
};

static void call_done(struct snic_io_req *req)
{
    SNIC_CONTAINER(req, struct call, req)->done++;
}

static struct rig rig_open_with(const struct snic_disk_opts *o)
{
    struct rig g = {0};
    struct snic_world_opts w = {.opts_size = sizeof(w), .seed = 5};
    assert_int_equal(snic_world_open(&g.world, &w), 0);
    assert_int_equal(snic_world_loop(g.world, 0, &g.loop), 0);
    assert_int_equal(snic_disk_open(&g.disk, o), 0);
    assert_int_equal(snic_io_mem_open(&g.io, g.loop, g.disk), 0);
    return g;
}

static struct rig rig_open(void)
{
    struct snic_disk_opts o = {
        .opts_size = sizeof(o), .sector = SECTOR, .size = SECTORS * SECTOR, .seed = 9};
    return rig_open_with(&o);
}

static void rig_close(struct rig *g)
{
    snic_io_close(g->io);
    snic_loop_close(g->loop);
    snic_disk_close(g->disk);
    snic_world_close(g->world);
}

/** After a power cut: a new handle on what survived. */
static void rig_reopen(struct rig *g)
{
    snic_io_close(g->io);
    assert_int_equal(snic_io_mem_open(&g->io, g->loop, g->disk), 0);
}

static int call_start(struct rig *g, struct call *c, enum snic_io_op op, uint64_t offset, void *mem,
                      uint64_t length, uint16_t flags)
{
    struct snic_io_req *one = &c->req;
    memset(c, 0, sizeof(*c));
    c->req.done = call_done;
    c->req.op = (uint8_t)op;
    c->req.flags = flags;
    c->req.offset = offset;
    c->req.length = length;
    c->req.buf.base = mem;
    c->req.buf.size = length;
    c->req.region = SNIC_NO_REGION;
    return snic_io_submit(g->io, &one, 1);
}

static int64_t call_run(struct rig *g, enum snic_io_op op, uint64_t offset, void *mem,
                        uint64_t length, uint16_t flags)
{
    struct call c;
    assert_int_equal(call_start(g, &c, op, offset, mem, length, flags), 1);
    while (c.done == 0)
        assert_int_equal(snic_loop_once(g->loop, SNIC_NEVER), 1);
    return c.req.result;
}

/** Write @p count sectors from @p first, filled with @p byte. */
static void put(struct rig *g, uint64_t first, uint64_t count, int byte, uint16_t flags)
{
    unsigned char mem[SECTORS * SECTOR];
    memset(mem, byte, count * SECTOR);
    assert_int_equal(call_run(g, SNIC_IO_WRITE, first * SECTOR, mem, count * SECTOR, flags),
                     count * SECTOR);
}

/** The byte that fills sector @p s, -1 if it is torn inside. */
static int sector_is(struct rig *g, uint64_t s)
{
    const unsigned char *p = snic_disk_bytes(g->disk) + s * SECTOR;
    for (size_t i = 1; i < SECTOR; i++) {
        if (p[i] != p[0])
            return -1;
    }
    return p[0];
}

static void flush(struct rig *g)
{
    assert_int_equal(call_run(g, SNIC_IO_FLUSH, 0, NULL, 0, 0), 0);
}

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
    BAD(kind, 6);
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

/* ---- Power cuts ---- */

/* What was not flushed may be lost, what was must not be. */
static void test_io_mem_power_cut_keeps_flushed_loses_rest(void **state)
{
    struct rig g = rig_open();
    uint64_t list[SECTORS];
    (void)state;
    put(&g, 0, 4, 'a', 0);
    assert_int_equal(snic_disk_unsynced(g.disk, list, SECTORS), 4);
    assert_int_equal(list[0], 0);
    assert_int_equal(list[3], 3);
    assert_int_equal(snic_disk_unsynced(g.disk, list, 1), 4);
    assert_int_equal(snic_disk_unsynced(g.disk, NULL, 0), 4);
    flush(&g);
    assert_int_equal(snic_disk_unsynced(g.disk, NULL, 0), 0);
    put(&g, 2, 4, 'b', 0);
    put(&g, 60, 1, 'c', SNIC_IO_FUA);
    assert_int_equal(snic_disk_unsynced(g.disk, NULL, 0), 4);
    assert_int_equal(sector_is(&g, 2), 'b'); /* reads see it */
    snic_disk_power_cut(g.disk, SNIC_FAULT_KEEP_NONE);
    assert_int_equal(snic_disk_unsynced(g.disk, NULL, 0), 0);
    for (uint64_t s = 0; s < 6; s++)
        assert_int_equal(sector_is(&g, s), s < 4 ? 'a' : 0);
    assert_int_equal(sector_is(&g, 60), 'c');
    rig_close(&g);
}

/* The handle that was open dies with the power and says so; the next one works. */
static void test_io_mem_power_cut_handle_dead_next_one_lives(void **state)
{
    struct rig g = rig_open();
    struct call c;
    unsigned char mem[SECTOR];
    (void)state;
    put(&g, 0, 1, 'a', 0);
    snic_disk_power_cut(g.disk, SNIC_FAULT_KEEP_ALL);
    assert_int_equal(call_start(&g, &c, SNIC_IO_READ, 0, mem, SECTOR, 0), SNIC_EIO);
    assert_int_equal(c.done, 0);
    rig_reopen(&g);
    assert_int_equal(call_run(&g, SNIC_IO_READ, 0, mem, SECTOR, 0), SECTOR);
    assert_int_equal(mem[0], 'a');
    rig_close(&g);
}

/* An exact subset must survive: enumerating subsets is how recovery code is proved. */
static void test_io_mem_power_cut_keeps_exactly_the_listed(void **state)
{
    (void)state;
    for (unsigned subset = 0; subset < 32; subset++) {
        struct rig g = rig_open();
        uint64_t keep[5], n = 0;
        put(&g, 10, 5, 'a', 0);
        flush(&g);
        put(&g, 10, 5, 'b', 0);
        for (uint64_t i = 0; i < 5; i++) {
            if ((subset >> i & 1) != 0)
                keep[n++] = 10 + i;
        }
        snic_disk_power_cut_keep(g.disk, keep, n);
        for (uint64_t i = 0; i < 5; i++)
            assert_int_equal(sector_is(&g, 10 + i), (subset >> i & 1) != 0 ? 'b' : 'a');
        rig_close(&g);
    }
}

/* Seeds must give different subsets, and the same subset again. */
static void test_io_mem_power_cut_subsets_vary_with_seed_and_repeat(void **state)
{
    uint64_t some = 0, none = 0, all = 0, survivors[64];
    (void)state;
    for (int pass = 0; pass < 2; pass++) {
        for (uint64_t seed = 1; seed <= 64; seed++) {
            struct rig g = rig_open();
            uint64_t kept = 0;
            put(&g, 0, 8, 'a', 0);
            snic_disk_power_cut(g.disk, seed);
            for (uint64_t s = 0; s < 8; s++)
                kept |= (uint64_t)(sector_is(&g, s) == 'a') << s;
            if (pass == 0)
                survivors[seed - 1] = kept;
            else
                assert_int_equal(survivors[seed - 1], kept);
            none += kept == 0;
            all += kept == 0xff;
            some += kept != 0 && kept != 0xff;
            rig_close(&g);
        }
    }
    assert_true(some > 40 && none > 0 && all > 0);
}

/* A flush covers what completed before it was submitted, when it completes, and no more. */
static void test_io_mem_flush_in_flight_covers_completed_writes_only(void **state)
{
    struct rig g = rig_open();
    struct snic_fault slow = {.kind = SNIC_FAULT_DELAY, .after = 1, .delay_ns = 1000000};
    struct call f;
    (void)state;
    slow.ops = 1u << SNIC_IO_FLUSH;
    for (int early = 0; early < 2; early++) {
        put(&g, 0, 2, 'a', 0);
        assert_int_equal(snic_disk_fault(g.disk, &slow), 0);
        assert_int_equal(call_start(&g, &f, SNIC_IO_FLUSH, 0, NULL, 0, 0), 1);
        put(&g, 1, 2, 'b', 0); /* completes while the flush is under way */
        assert_int_equal(f.done, 0);
        if (!early) {
            while (f.done == 0)
                assert_int_equal(snic_loop_once(g.loop, SNIC_NEVER), 1);
            snic_disk_power_cut(g.disk, SNIC_FAULT_KEEP_NONE);
            assert_int_equal(sector_is(&g, 0), 'a');
            assert_int_equal(sector_is(&g, 1), 'a'); /* covered; 'b' came after */
            assert_int_equal(sector_is(&g, 2), 0);
        } else { /* acknowledging before the flush completes loses data */
            snic_disk_power_cut(g.disk, SNIC_FAULT_KEEP_NONE);
            assert_int_equal(sector_is(&g, 0), 'x');
            assert_int_equal(snic_loop_once(g.loop, SNIC_NEVER), 1);
            assert_int_equal(f.req.result, SNIC_EIO);
        }
        rig_reopen(&g);
        put(&g, 0, 3, 'x', SNIC_IO_FUA);
    }
    rig_close(&g);
}

/* A ranged flush must cover its range; a failed one must not claim anything. */
static void test_io_mem_flush_range_or_failed_rest_stays_unsynced(void **state)
{
    struct rig g = rig_open();
    struct snic_fault f = {
        .kind = SNIC_FAULT_ERROR, .ops = 1u << SNIC_IO_FLUSH, .after = 1, .error = SNIC_EIO};
    uint64_t list[SECTORS];
    (void)state;
    put(&g, 0, 8, 'a', 0);
    assert_int_equal(call_run(&g, SNIC_IO_FLUSH, 2 * SECTOR, NULL, SECTOR + 1, 0), 0);
    assert_int_equal(snic_disk_unsynced(g.disk, list, SECTORS), 6);
    assert_int_equal(list[2], 4);
    assert_int_equal(snic_disk_fault(g.disk, &f), 0);
    assert_int_equal(call_run(&g, SNIC_IO_FLUSH, 0, NULL, 0, 0), SNIC_EIO);
    assert_int_equal(snic_disk_unsynced(g.disk, NULL, 0), 6);
    snic_disk_sync(g.disk);
    assert_int_equal(snic_disk_unsynced(g.disk, NULL, 0), 0);
    rig_close(&g);
}

/* Zeroes and discards are as volatile as writes until a flush. */
static void test_io_mem_zero_and_discard_lost_until_flushed(void **state)
{
    struct rig g = rig_open();
    (void)state;
    put(&g, 0, 4, 'a', SNIC_IO_FUA);
    assert_int_equal(call_run(&g, SNIC_IO_ZERO, 0, NULL, SECTOR, 0), SECTOR);
    assert_int_equal(call_run(&g, SNIC_IO_DISCARD, SECTOR, NULL, SECTOR, 0), SECTOR);
    assert_int_equal(sector_is(&g, 0), 0);
    assert_true(sector_is(&g, 1) != 'a');
    assert_int_equal(snic_disk_unsynced(g.disk, NULL, 0), 2);
    snic_disk_power_cut(g.disk, SNIC_FAULT_KEEP_NONE);
    assert_int_equal(sector_is(&g, 0), 'a');
    assert_int_equal(sector_is(&g, 1), 'a');
    rig_reopen(&g);
    assert_int_equal(call_run(&g, SNIC_IO_ZERO, 0, NULL, SECTOR, 0), SECTOR);
    flush(&g);
    snic_disk_power_cut(g.disk, SNIC_FAULT_KEEP_NONE);
    assert_int_equal(sector_is(&g, 0), 0);
    rig_close(&g);
}

/* A torn write leaves a prefix of whole sectors, whatever survives of the rest. */
static void test_io_mem_torn_write_leaves_prefix_of_sectors(void **state)
{
    (void)state;
    for (uint64_t bytes = 0; bytes <= 6 * SECTOR; bytes += SECTOR / 2) {
        struct rig g = rig_open();
        struct snic_fault f = {.kind = SNIC_FAULT_TORN, .after = 1, .bytes = bytes};
        unsigned char mem[5 * SECTOR];
        put(&g, 0, 8, 'a', SNIC_IO_FUA);
        put(&g, 20, 1, 'u', 0); /* un-synced, lost with the power */
        assert_int_equal(snic_disk_fault(g.disk, &f), 0);
        memset(mem, 'b', sizeof(mem));
        assert_int_equal(call_run(&g, SNIC_IO_READ, 0, mem, SECTOR, 0), SECTOR); /* no write */
        memset(mem, 'b', sizeof(mem));
        assert_int_equal(call_run(&g, SNIC_IO_WRITE, 0, mem, 5 * SECTOR, 0), SNIC_EIO);
        for (uint64_t s = 0; s < 8; s++)
            assert_int_equal(sector_is(&g, s), s < snic_min_u64(bytes / SECTOR, 5) ? 'b' : 'a');
        assert_int_equal(sector_is(&g, 20), 0);
        rig_close(&g);
    }
}

/* Writes in flight at the cut may land in part, and only they; each completes with an error. */
static void test_io_mem_power_cut_in_flight_writes_land_by_sector(void **state)
{
    uint64_t landed = 0, partly = 0;
    (void)state;
    for (uint64_t seed = 0; seed <= 64; seed++) {
        struct snic_disk_opts o = {.opts_size = sizeof(o),
                                   .sector = SECTOR,
                                   .size = SECTORS * SECTOR,
                                   .delay_min_ns = 1000,
                                   .delay_max_ns = 1000};
        struct rig g = rig_open_with(&o);
        unsigned char mem[8 * SECTOR];
        struct call c[3];
        uint64_t n = 0;
        put(&g, 0, 8, 'a', SNIC_IO_FUA);
        memset(mem, 'b', sizeof(mem));
        assert_int_equal(call_start(&g, &c[0], SNIC_IO_WRITE, 0, mem, 8 * SECTOR, 0), 1);
        assert_int_equal(call_start(&g, &c[1], SNIC_IO_FLUSH, 0, NULL, 0, 0), 1);
        assert_int_equal(call_start(&g, &c[2], SNIC_IO_READ, 0, mem, 0, 0), 1); /* refused */
        snic_disk_power_cut(g.disk, seed);
        for (int i = 0; i < 3; i++)
            assert_int_equal(c[i].done, 0); /* never from inside a call */
        assert_int_equal(snic_disk_unsynced(g.disk, NULL, 0), 0);
        uint64_t at = snic_world_now(g.world);
        while (snic_world_step(g.world) != 0)
            ;
        for (int i = 0; i < 3; i++)
            assert_int_equal(c[i].done, 1);
        assert_int_equal(snic_world_now(g.world), at); /* at once: there is nothing to wait for */
        assert_int_equal(c[0].req.result, SNIC_EIO);
        assert_int_equal(c[1].req.result, SNIC_EIO);
        assert_int_equal(c[2].req.result, SNIC_EINVAL);
        for (uint64_t s = 0; s < 8; s++) {
            assert_true(sector_is(&g, s) == 'a' || sector_is(&g, s) == 'b');
            n += sector_is(&g, s) == 'b';
        }
        if (seed == SNIC_FAULT_KEEP_NONE)
            assert_int_equal(n, 0);
        landed += n != 0;
        partly += n != 0 && n != 8;
        rig_close(&g);
    }
    assert_true(landed > 20 && partly > 20);
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

/* The n-th matching operation, again as often as told, inside the range, and not otherwise. */
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

/* The power goes before the n-th operation takes effect: enumerating n covers every moment. */
static void test_io_mem_power_fault_strikes_before_the_operation(void **state)
{
    struct rig g = rig_open();
    struct snic_fault f = {.kind = SNIC_FAULT_POWER, .after = 3, .seed = SNIC_FAULT_KEEP_NONE};
    unsigned char mem[SECTOR];
    (void)state;
    assert_int_equal(snic_disk_fault(g.disk, &f), 0);
    put(&g, 0, 1, 'a', SNIC_IO_FUA);
    put(&g, 1, 1, 'b', 0);
    memset(mem, 'c', SECTOR);
    assert_int_equal(call_run(&g, SNIC_IO_WRITE, 2 * SECTOR, mem, SECTOR, SNIC_IO_FUA), SNIC_EIO);
    assert_int_equal(sector_is(&g, 0), 'a');
    assert_int_equal(sector_is(&g, 1), 0);
    assert_int_equal(sector_is(&g, 2), 0);
    assert_int_equal(snic_disk_op_count(g.disk), 3);
    rig_reopen(&g);
    put(&g, 2, 1, 'd', 0); /* the fault is used up */
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

/* ---- Against a model of what may survive ---- */

/*
 * Every byte after a cut must be the last durable or a later written value, and all of a sector
 * must be of one moment. Random writes, flushes, FUA and cuts against per-sector histories.
 */
struct history {
    unsigned char durable;    /* at least this old                     */
    unsigned char since[400]; /* values written after it, oldest first */
    uint32_t count;
};

static void history_cut(struct rig *g, struct history *h)
{
    for (uint64_t s = 0; s < SECTORS; s++) {
        int now = sector_is(g, s);
        int legal = now == h[s].durable || (h[s].count > 0 && now == h[s].since[h[s].count - 1]);
        assert_true(legal); /* the older ones were overwritten in the cache */
        h[s].durable = (unsigned char)now;
        h[s].count = 0;
    }
}

static void test_io_mem_random_cuts_survivors_are_legal(void **state)
{
    struct rig g = rig_open();
    struct history *h = calloc(SECTORS, sizeof(*h));
    struct snic_rng rng;
    unsigned char value = 0;
    (void)state;
    assert_non_null(h);
    snic_rng_init(&rng, support_seed());
    for (uint64_t i = 0; i < support_scale(4000, 400000); i++) {
        uint64_t n = 1 + snic_rng_below(&rng, 6);
        uint64_t s = snic_rng_below(&rng, SECTORS - n + 1);
        uint64_t draw = snic_rng_below(&rng, 20);
        if (draw < 14) {
            int fua = draw < 2;
            value = (unsigned char)(value + 1);
            put(&g, s, n, value, fua ? SNIC_IO_FUA : 0);
            for (uint64_t k = s; k < s + n; k++) {
                if (fua || h[k].count == SNIC_COUNTOF(h[k].since)) {
                    h[k].durable = value;
                    h[k].count = 0;
                }
                if (!fua)
                    h[k].since[h[k].count++] = value;
            }
        } else if (draw < 17) {
            flush(&g);
            for (uint64_t k = 0; k < SECTORS; k++) {
                if (h[k].count > 0)
                    h[k].durable = h[k].since[h[k].count - 1];
                h[k].count = 0;
            }
        } else if (draw == 17) {
            snic_disk_power_cut(g.disk, snic_rng_next(&rng));
            history_cut(&g, h);
            rig_reopen(&g);
        } else {
            unsigned char mem[SECTOR];
            assert_int_equal(call_run(&g, SNIC_IO_READ, s * SECTOR, mem, SECTOR, 0), SECTOR);
            assert_int_equal(mem[5], h[s].count > 0 ? h[s].since[h[s].count - 1] : h[s].durable);
        }
    }
    free(h);
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
        cmocka_unit_test(test_io_mem_power_cut_keeps_flushed_loses_rest),
        cmocka_unit_test(test_io_mem_power_cut_handle_dead_next_one_lives),
        cmocka_unit_test(test_io_mem_power_cut_keeps_exactly_the_listed),
        cmocka_unit_test(test_io_mem_power_cut_subsets_vary_with_seed_and_repeat),
        cmocka_unit_test(test_io_mem_flush_in_flight_covers_completed_writes_only),
        cmocka_unit_test(test_io_mem_flush_range_or_failed_rest_stays_unsynced),
        cmocka_unit_test(test_io_mem_zero_and_discard_lost_until_flushed),
        cmocka_unit_test(test_io_mem_torn_write_leaves_prefix_of_sectors),
        cmocka_unit_test(test_io_mem_power_cut_in_flight_writes_land_by_sector),
        cmocka_unit_test(test_io_mem_cancelled_write_has_no_effect),
        cmocka_unit_test(test_io_mem_fault_fires_when_planned),
        cmocka_unit_test(test_io_mem_power_fault_strikes_before_the_operation),
        cmocka_unit_test(test_io_mem_two_handles_one_medium),
        cmocka_unit_test(test_io_mem_disk_closed_before_handles_aborts),
        cmocka_unit_test(test_io_mem_clone_equal_and_independent),
        cmocka_unit_test(test_io_mem_huge_disk_sparse_clone),
        cmocka_unit_test(test_io_mem_random_cuts_survivors_are_legal),
        cmocka_unit_test(test_io_mem_same_seed_same_completions),
    };
    struct CMUnitTest tests[128];
    size_t n = SNIC_COUNTOF(own);
    memcpy(tests, own, sizeof(own));
    n += conformance_io_tests(tests + n, SNIC_COUNTOF(tests) - n, backends, SNIC_COUNTOF(backends));
    return support_main(argc, argv, tests, n);
}
