/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * What a log's other tests do not meet: numbers on the device that no writer writes, blocks larger
 * than a page, devices with no room, owners that want to hear of nothing, two jobs at once, and the
 * check itself.
 */
#include <stdlib.h>

#include "golden.h"
#include "support.h"
#include "wal/wal_priv.h"
#include "walfix.h"

static struct walfix fix;
static uint32_t caps, align; /* of the next disk; 0: the default */

static void begin(uint32_t block, uint32_t blocks, uint32_t batch, uint32_t segments)
{
    uint64_t unit = block > 4096 ? block : 4096;
    memset(&fix, 0, sizeof(fix));
    fix.disk_opts.size = 8 * unit + (uint64_t)segments * blocks * block;
    fix.disk_opts.caps = caps;
    fix.disk_opts.align = align;
    fix.disk_opts.sector = align != 0 ? align : 512;
    fix.opts.segment_bytes = blocks * block;
    fix.opts.block_bytes = block;
    fix.opts.batch_bytes = batch * block;
    fix.m.length_max = blocks * block / 32;
    walfix_start(&fix, support_seed());
}

static void finish(void)
{
    assert_string_equal(fix.why, "");
    walfix_end(&fix);
}

/* Appends so many records, with meta data now and then. */
static void fill(uint32_t records)
{
    for (uint32_t k = 0; k < records; k++) {
        for (uint32_t i = 0; walfix_append(&fix, k % WALFIX_SOME, 0) == SNIC_EAGAIN; i++) {
            assert_true(i < 100);
            walfix_run(&fix, 1000000);
        }
        if (k % 50 == 7)
            (void)walfix_meta(&fix);
        if (k % 9 == 0)
            walfix_run(&fix, 100000);
    }
    walfix_settle(&fix);
    walfix_run(&fix, 100000000);
}

/* Blocks larger than a page: the places in front of the segments grow with them. */
static void test_wal_edges_large_blocks_found_and_repaired(void **state)
{
    (void)state;
    for (uint32_t block = 8192; block <= 65536; block *= 2) {
        align = block; /* smaller ones are not read, either */
        begin(block, 16, 16, 9);
        align = 0;
        fix.m.length_max = 9000;
        assert_int_equal(walfix_open(&fix, 0), SNIC_ENOENT);
        assert_int_equal(walfix_open(&fix, SNIC_WAL_CREATE), 0);
        assert_int_equal(fix.report.formatted, 1);
        fill(400);
        walfix_close(&fix);
        unsigned char *bytes = snic_disk_bytes(fix.disk);
        uint64_t super[2] = {0, 5 * (uint64_t)block};
        for (uint32_t i = 0; i < 2; i++) {
            bytes[super[i] + 17] ^= 1;
            assert_int_equal(walfix_open(&fix, SNIC_WAL_CREATE), 0);
            assert_int_equal(fix.report.formatted, 0);
            assert_int_equal(fix.report.verdict, SNIC_WAL_CLEAN);
            walfix_judge(&fix);
            walfix_close(&fix);
            assert_memory_equal(bytes, bytes + super[1], SNIC_WAL__SUPER_BYTES); /* repaired */
        }
        /* Of two that differ, the first counts. */
        snic_put_le64(bytes + super[1] + 40, 77);
        snic_put_le32(bytes + super[1] + 8,
                      snic_crc32c(0, bytes + super[1] + 12, SNIC_WAL__SUPER_BYTES - 12));
        assert_int_equal(walfix_open(&fix, 0), 0);
        walfix_judge(&fix);
        walfix_close(&fix);
        assert_memory_equal(bytes, bytes + super[1], SNIC_WAL__SUPER_BYTES);
        /* Memory for pages is not enough. */
        fix.opts.block_bytes = 0;
        fix.opts.segment_bytes = 0;
        fix.opts.batch_bytes = 0;
        assert_int_equal(walfix_open(&fix, 0), SNIC_EINVAL);
        finish();
    }
}

/* A batch of a size that does not divide a segment: what is read at a time does not, either. And
 * more segments than a few, on a device that has no FUA. */
static void test_wal_edges_odd_batches_as_the_model(void **state)
{
    (void)state;
    for (uint32_t many = 0; many < 2; many++) {
        caps = many ? SNIC_IO_CAP_DISCARD : 0; /* without FUA, each batch is flushed */
        begin(512, 64, 24, many ? 40 : 12);
        caps = 0;
        assert_int_equal(walfix_open(&fix, SNIC_WAL_CREATE), 0);
        for (uint32_t i = 0; i < 3; i++) {
            fill(many ? 2500 : 600);
            walfix_close(&fix);
            walfix_next_run(&fix, 0);
        }
        finish();
    }
}

/* Too small for anything, or for a log: reported, and nothing is written. */
static void test_wal_edges_small_devices_refused(void **state)
{
    static const uint32_t sizes[] = {512, 2048, 16384, 32768, 65536};
    (void)state;
    for (uint32_t i = 0; i < SNIC_COUNTOF(sizes); i++) {
        begin(512, 32, 16, 10);
        walfix_unplug(&fix);
        snic_disk_close(fix.disk);
        fix.disk_opts.size = sizes[i];
        assert_int_equal(snic_disk_open(&fix.disk, &fix.disk_opts), 0);
        walfix_plug(&fix);
        assert_int_equal(walfix_open(&fix, 0), SNIC_ENOENT);
        assert_int_equal(walfix_open(&fix, SNIC_WAL_CREATE), SNIC_ENOSPC);
        assert_int_equal(walfix_open(&fix, SNIC_WAL_FORMAT | SNIC_WAL_CREATE), SNIC_ENOSPC);
        unsigned char *bytes = snic_disk_bytes(fix.disk);
        assert_true(wal_is_zero(bytes, sizes[i]));
        bytes[sizes[i] - 1] = 1;
        assert_int_equal(walfix_open(&fix, SNIC_WAL_CREATE), SNIC_EEXIST);
        finish();
    }
    assert_true(wal_is_zero(NULL, 0));
}

/* Sizes that no superblock of ours has, whatever its checksum: refused before they are used. */
static void test_wal_edges_superblock_without_sense_refused(void **state)
{
    static const struct {
        uint32_t at, value;
        int result;
    } bad[] = {
        {16, 1000, SNIC_EINVAL},     {16, 256, SNIC_EINVAL},        {16, 131072, SNIC_EINVAL},
        {16, 0, SNIC_EINVAL},        {20, 16384 + 1, SNIC_EINVAL},  {20, 8192, SNIC_EINVAL},
        {20, 1u << 31, SNIC_EINVAL}, {20, 0, SNIC_EINVAL},          {24, 7, SNIC_ENOSPC},
        {24, 11, SNIC_ENOSPC},       {24, UINT32_MAX, SNIC_ENOSPC}, {28, 0, SNIC_EINVAL},
        {28, 513, SNIC_EINVAL},      {28, UINT32_MAX, SNIC_EINVAL}, {32, 15, SNIC_EINVAL},
        {32, 33, SNIC_EINVAL},       {32, UINT32_MAX, SNIC_EINVAL},
    };
    static unsigned char copy[8 * 4096 + 10 * 16384];
    (void)state;
    begin(512, 32, 16, 10);
    assert_int_equal(walfix_open(&fix, SNIC_WAL_CREATE), 0);
    walfix_close(&fix);
    unsigned char *bytes = snic_disk_bytes(fix.disk);
    for (uint32_t i = 0; i < SNIC_COUNTOF(bad); i++) {
        unsigned char right[SNIC_WAL__SUPER_BYTES];
        memcpy(right, bytes, sizeof(right));
        snic_put_le32(bytes + bad[i].at, bad[i].value);
        snic_put_le32(bytes + 8, snic_crc32c(0, bytes + 12, SNIC_WAL__SUPER_BYTES - 12));
        memcpy(copy, bytes, sizeof(copy));
        int e = walfix_open(&fix, SNIC_WAL_CREATE);
        if (e != bad[i].result)
            fail_msg("%u at %u: %s", bad[i].value, bad[i].at, snic_strerror(e));
        assert_memory_equal(copy, bytes, sizeof(copy));
        memcpy(bytes, right, sizeof(right));
    }
    finish();
    /* A record of the largest size has to fit a batch twice. */
    struct snic_io_geometry d = {.size = UINT64_C(1) << 40, .transfer_max = 1u << 30};
    struct wal_geo g = {.block = 512, .segment = 1u << 20, .segments = 100, .batch_blocks = 16};
    g.record_max = 3000;
    assert_int_equal(wal_geo_fits(&g, &d), 0);
    g.record_max = 32768;
    assert_int_equal(wal_geo_fits(&g, &d), SNIC_EINVAL);
    g.record_max = 3000;
    /* The device has to take what the log writes. */
    d.offset_align = 1024;
    assert_int_equal(wal_geo_fits(&g, &d), SNIC_EINVAL);
    d.offset_align = 0;
    d.length_align = 1024;
    assert_int_equal(wal_geo_fits(&g, &d), SNIC_EINVAL);
    d.length_align = 0;
    d.memory_align = 1024;
    assert_int_equal(wal_geo_fits(&g, &d), SNIC_EINVAL);
    d.memory_align = 0;
    d.transfer_max = 16 * 512 - 1;
    assert_int_equal(wal_geo_fits(&g, &d), SNIC_EINVAL);
    d.transfer_max++;
    d.size = 7 * 4096;
    assert_int_equal(wal_geo_fits(&g, &d), SNIC_ENOSPC);
}

/* Blocks and records whose checksums are right and whose numbers are not. */
static void test_wal_edges_numbers_of_no_writer_not_taken(void **state)
{
    static unsigned char at[512], memory[65536];
    (void)state;
    struct wal_geo g = {.block = 512, .segment = 16384, .segments = 10, .record_max = 512};
    g.batch_blocks = 16;
    g.uuid[0] = 5;
    wal_geo_derive(&g);
    const struct wal_block right = {.used = 200,
                                    .index = 5,
                                    .batch_first = 4,
                                    .batch_end = 7,
                                    .first = SNIC_WAL__BLOCK_HEAD,
                                    .generation = 25,
                                    .oldest = 20,
                                    .base = 9};
    struct wal_block b = right, got;
    wal_block_encode(&g, &b, at);
    assert_int_equal(wal_block_decode(&g, &got, 25, 5, at), WAL_BLOCK_LIVE);
    assert_int_equal(wal_block_decode(&g, &got, 35, 5, at), WAL_BLOCK_STALE);
    assert_int_equal(wal_block_decode(&g, &got, 15, 5, at), WAL_BLOCK_BAD); /* of a later use */
    assert_int_equal(wal_block_decode(&g, &got, 26, 5, at), WAL_BLOCK_BAD);
    assert_int_equal(wal_block_decode(&g, &got, 25, 6, at), WAL_BLOCK_BAD);
#define BAD(field, value)                                                                          \
    do {                                                                                           \
        b = right;                                                                                 \
        b.field = (value);                                                                         \
        wal_block_encode(&g, &b, at);                                                              \
        assert_int_equal(wal_block_decode(&g, &got, b.generation, b.index, at), WAL_BLOCK_BAD);    \
    } while (0)
    BAD(used, g.payload + 1);
    BAD(index, 32);
    BAD(batch_first, 6);
    BAD(batch_end, 5);
    BAD(batch_end, 33);
    BAD(first, SNIC_WAL__BLOCK_HEAD - 1);
    BAD(first, SNIC_WAL__BLOCK_HEAD + 200);
    BAD(generation, 0);
    BAD(generation, SNIC_WAL__GENERATION_MAX);
    BAD(oldest, 0);
    BAD(oldest, 26);
    BAD(oldest, 15); /* more segments than there are */
#undef BAD
    /* Records. */
    struct wal_reader rd = {.memory = memory};
    struct wal_record rec = {.r = {.position = 4, .length = 3, .bytes = "abc"}, .origin = 3};
    struct wal_record out;
    for (uint32_t i = 0; i < 3; i++) {
        memset(at, 0, sizeof(at));
        rec.r.position = i == 1 ? 0 : 4;
        rec.origin = i == 1 ? 0 : i == 2 ? 4 : 3; /* a copy comes later than what it is of */
        (void)wal_record_encode(&g, 25, &rec, at + SNIC_WAL__BLOCK_HEAD);
        memcpy(at + SNIC_WAL__BLOCK_HEAD + SNIC_WAL__RECORD_HEAD, "abc", 3);
        b = right;
        wal_reader_start(&rd, 25);
        wal_reader_block(&rd, &b, at);
        assert_int_equal(wal_reader_next(&rd, &g, &out), i == 0 ? 1 : -1);
    }
}

/* A membership file whose numbers are not: as if that place were damaged. */
static void test_wal_edges_meta_without_sense_other_place_taken(void **state)
{
    (void)state;
    begin(512, 32, 16, 10);
    assert_int_equal(walfix_open(&fix, SNIC_WAL_CREATE), 0);
    assert_int_equal(walfix_meta(&fix), 0);
    walfix_run(&fix, 1000000);
    walfix_close(&fix);
    unsigned char *bytes = snic_disk_bytes(fix.disk);
    struct wal_geo g;
    assert_int_equal(wal_super_decode(&g, bytes), 0);
    wal_geo_derive(&g);
    for (uint32_t i = 0; i < 4; i++) {
        unsigned char *slot = bytes + (i % 2 ? 3 * 4096 : 4096);
        uint32_t length = snic_get_le32(slot + 12);
        if (i < 2)
            snic_put_le32(slot + 12, SNIC_WAL_META_MAX + 1);
        else
            snic_put_le64(slot + 16, 0);
        snic_put_le32(slot + 8, snic_crc32c(g.seed, slot + 12, SNIC_WAL__META_HEAD - 12 + length));
        assert_int_equal(walfix_open(&fix, 0), 0);
        assert_int_equal(fix.report.meta, 1);
        walfix_judge(&fix);
        walfix_close(&fix);
        assert_memory_equal(bytes + 4096, bytes + 3 * 4096, 2 * 4096);
    }
    finish();
}

/* ---- An owner that listens to what it must ---- */

static int opened, durable_calls;
static struct snic_wal_report opened_report;

static void on_opened(void *ctx, int result, const struct snic_wal_report *report)
{
    (void)ctx;
    opened = 1;
    opened_report = *report;
    assert_int_equal(result, 0);
}

static void on_durable(void *ctx, uint64_t up_to)
{
    (void)ctx;
    (void)up_to;
    durable_calls++;
}

static void on_failed(void *ctx, int error)
{
    (void)ctx;
    fail_msg("failed: %s", snic_strerror(error));
}

static void open_deaf(uint32_t flags)
{
    static const struct snic_wal_events events = {
        .opened = on_opened, .durable = on_durable, .failed = on_failed};
    size_t size = snic_wal_memsize(fix.io, &fix.opts);
    fix.opts.flags = flags;
    fix.mem = support_guard_alloc(size, SNIC_WAL_ALIGN);
    opened = 0;
    assert_int_equal(snic_wal_open(&fix.wal, fix.mem, size, fix.io, &fix.opts, &events, &fix), 0);
    while (!opened)
        assert_true(snic_loop_once(fix.loop, SNIC_NEVER) > 0);
}

static void test_wal_edges_deaf_owner_keeps_all(void **state)
{
    struct snic_wal_record r = {.length = 200};
    struct snic_wal_info info;
    unsigned char bytes[200] = {7};
    uint32_t taken = 0;
    int e = 0;
    (void)state;
    begin(512, 32, 16, 10);
    open_deaf(SNIC_WAL_CREATE);
    assert_int_equal(snic_wal_meta_put(fix.wal, "x", 1), 0);
    r.bytes = bytes;
    /* Nothing is reported as not needed: all is, until the log is full. */
    for (uint32_t i = 0; e != SNIC_ENOSPC; i++) {
        assert_true(i < 5000);
        r.ts++;
        e = snic_wal_append(fix.wal, &r, NULL);
        assert_true(e == 0 || e == SNIC_EAGAIN || e == SNIC_ENOSPC);
        taken += e == 0;
        if (e != 0 || i % 8 == 0)
            walfix_run(&fix, 1000000);
    }
    walfix_check(&fix);
    snic_wal_inspect(fix.wal, &info);
    assert_true(info.full && info.copies > 0 && info.dropped == 0 && durable_calls > 0);
    assert_int_equal(info.metas, 1);
    walfix_close(&fix);
    open_deaf(0);
    assert_int_equal(opened_report.verdict, SNIC_WAL_CLEAN);
    assert_true(opened_report.records >= taken); /* copies whose originals are there still, too */
    uint64_t last = opened_report.last;
    walfix_close(&fix);
    /* An end in doubt, taken without hearing of it. */
    unsigned char *disk = snic_disk_bytes(fix.disk);
    struct wal_geo g;
    struct wal_block b, tail = {0};
    assert_int_equal(wal_super_decode(&g, disk), 0);
    wal_geo_derive(&g);
    for (uint64_t gen = 1; gen < 200; gen++) {
        for (uint32_t i = 0; i < g.segment_blocks; i++) {
            if (wal_block_decode(&g, &b, gen, i, disk + wal_offset(&g, gen, i)) == WAL_BLOCK_LIVE)
                tail = b;
        }
    }
    disk[wal_offset(&g, tail.generation, tail.index) + 9] ^= 1;
    open_deaf(0);
    if (opened_report.verdict != SNIC_WAL_CLEAN) {
        assert_int_equal(snic_wal_accept_tail(fix.wal), 0);
        walfix_run(&fix, 1000000);
        snic_wal_inspect(fix.wal, &info);
        assert_int_equal(info.writable, 1);
    }
    assert_true(opened_report.last <= last);
    finish();
}

/* The tail is cut off and the membership file put at once, in either order: one waits. */
static void test_wal_edges_tail_and_meta_at_once(void **state)
{
    (void)state;
    for (uint32_t turn = 0; turn < 2; turn++) {
        begin(512, 32, 16, 10);
        fix.disk_opts.delay_min_ns = fix.disk_opts.delay_max_ns = 1000;
        walfix_unplug(&fix);
        snic_disk_close(fix.disk);
        assert_int_equal(snic_disk_open(&fix.disk, &fix.disk_opts), 0);
        walfix_plug(&fix);
        assert_int_equal(walfix_open(&fix, SNIC_WAL_CREATE), 0);
        assert_int_equal(walfix_meta(&fix), 0);
        fill(20);
        fix.m.long_from = fix.m.ts + 1;
        fix.m.length_max = 512;
        for (uint32_t k = 0; k < 4; k++)
            assert_int_equal(walfix_append(&fix, k, 0), 0);
        walfix_settle(&fix);
        uint64_t durable = fix.m.durable;
        walfix_close(&fix);
        unsigned char *disk = snic_disk_bytes(fix.disk);
        struct wal_geo g;
        struct wal_block b, tail = {0};
        assert_int_equal(wal_super_decode(&g, disk), 0);
        wal_geo_derive(&g);
        for (uint32_t i = 0; i < g.segment_blocks; i++) {
            if (wal_block_decode(&g, &b, 1, i, disk + wal_offset(&g, 1, i)) == WAL_BLOCK_LIVE)
                tail = b;
        }
        assert_true(tail.batch_end - tail.batch_first > 1);
        disk[wal_offset(&g, 1, tail.batch_first) + 9] ^= 1;
        fix.m.durable = tail.base;
        assert_true(tail.base < durable);
        assert_int_equal(walfix_open(&fix, 0), 0);
        assert_int_equal(fix.report.verdict, SNIC_WAL_SUSPECT);
        walfix_judge(&fix);
        if (turn == 0)
            assert_int_equal(snic_wal_accept_tail(fix.wal), 0);
        uint64_t stored = fix.stored;
        assert_int_equal(walfix_meta(&fix), 0);
        assert_true(snic_loop_once(fix.loop, SNIC_NEVER) > 0);
        assert_int_equal(walfix_append(&fix, 1, 0), SNIC_ECORRUPT); /* not yet */
        if (turn == 1)
            assert_int_equal(snic_wal_accept_tail(fix.wal), 0);
        assert_int_equal(snic_wal_accept_tail(fix.wal), SNIC_EINVAL); /* is under way */
        for (uint32_t i = 0; !fix.accepted || fix.stored == stored; i++) {
            assert_true(i < 1000 && fix.failed == 0);
            assert_true(snic_loop_once(fix.loop, SNIC_NEVER) > 0);
            walfix_check(&fix);
        }
        assert_int_equal(snic_wal_accept_tail(fix.wal), SNIC_EINVAL); /* writable */
        assert_int_equal(walfix_append(&fix, 1, 0), 0);
        walfix_settle(&fix);
        walfix_close(&fix);
        walfix_next_run(&fix, 1);
        finish();
    }
}

/* What is not set by the options, or not on the device. */
static void test_wal_edges_opening_refused(void **state)
{
    struct snic_wal_events e = {.opened = on_opened, .durable = on_durable, .failed = on_failed};
    struct snic_wal *w = NULL;
    (void)state;
    begin(512, 32, 16, 10);
    size_t size = snic_wal_memsize(fix.io, &fix.opts);
    void *mem = support_guard_alloc(size, SNIC_WAL_ALIGN);
    struct snic_wal_opts o = fix.opts;
    o.opts_size = 3;
    assert_int_equal(snic_wal_open(&w, mem, size, fix.io, &o, &e, NULL), SNIC_EINVAL);
    o = fix.opts;
    e.opened = NULL;
    assert_int_equal(snic_wal_open(&w, mem, size, fix.io, &o, &e, NULL), SNIC_EINVAL);
    e.opened = on_opened;
    e.failed = NULL;
    assert_int_equal(snic_wal_open(&w, mem, size, fix.io, &o, &e, NULL), SNIC_EINVAL);
    assert_null(w);
    support_guard_free(mem);
    /* A device that gives nothing, though its size states that there is more. */
    struct snic_fault p = {.kind = SNIC_FAULT_SHORT, .after = 1};
    assert_int_equal(snic_disk_fault(fix.disk, &p), 0);
    assert_int_equal(walfix_open(&fix, SNIC_WAL_CREATE), SNIC_EIO);
    finish();
}

/* ---- The check ---- */

static void broken_reported(const char *how, const unsigned char *copy)
{
    if (snic_wal_check(fix.wal) != SNIC_ECORRUPT)
        fail_msg("not noticed: %s", how);
    memcpy(fix.wal, copy, sizeof(*fix.wal));
    assert_int_equal(snic_wal_check(fix.wal), 0);
}

#define BREAK(damage)                                                                              \
    do {                                                                                           \
        damage;                                                                                    \
        broken_reported(#damage, copy);                                                            \
    } while (0)

/* Each thing that snic_wal_check() promises to look at, broken alone. */
static void test_wal_edges_check_broken_reported(void **state)
{
    (void)state;
    begin(512, 32, 16, 10);
    fix.disk_opts.delay_min_ns = fix.disk_opts.delay_max_ns = 1000;
    walfix_unplug(&fix);
    snic_disk_close(fix.disk);
    assert_int_equal(snic_disk_open(&fix.disk, &fix.disk_opts), 0);
    walfix_plug(&fix);
    assert_int_equal(walfix_open(&fix, SNIC_WAL_CREATE), 0);
    struct snic_wal *w = fix.wal;
    unsigned char *copy = malloc(sizeof(*w));
    assert_non_null(copy);
    memcpy(copy, w, sizeof(*w));
    BREAK(w->last_seq++);
    BREAK(w->durable_seq++);
    /* One batch is written, one is being filled. */
    assert_int_equal(walfix_append(&fix, 1, 0), 0);
    assert_true(snic_loop_once(fix.loop, SNIC_NEVER) > 0);
    assert_int_equal(walfix_append(&fix, 2, 0), 0);
    assert_true(w->flushing && w->batch_count == 2);
    struct wal_batch *first = &w->batch[w->batch_head], *open = wal_batch_open(w);
    memcpy(copy, w, sizeof(*w));
    BREAK(open->blocks = 0);
    BREAK(open->blocks = w->geo.batch_blocks + 1);
    BREAK((w->buffer_bytes = 0));
    BREAK(open->first = w->geo.segment_blocks);
    BREAK(open->at = SNIC_WAL__BLOCK_HEAD - 1);
    BREAK(open->at = w->geo.block + 1);
    BREAK(first->closed = 0);
    BREAK((w->batch_count = 1, first->closed = 0));
    BREAK(open->gen++);
    BREAK(open->first++);
    BREAK(first->first++);
    BREAK(first->gen--);
    BREAK((first->base = 5, first->last = 4));
    BREAK(first->base++);
    BREAK(w->durable_seq = w->last_seq + 1);
    BREAK(w->flush_seq = w->last_seq + 1);
    BREAK(w->batch_count = w->opts.batches + 1);
    BREAK(w->batch_head = w->opts.batches);
    BREAK(w->flushing = 0);
    BREAK((w->batch_count = 0, w->durable_seq = w->last_seq));
    BREAK(w->announced++);
    BREAK((w->announced += 2, w->announcing += 2));
    BREAK((w->announced = w->announcing = w->oldest = w->next.gen + 1));
    BREAK(w->next.gen += w->geo.segments);
    BREAK(w->durable_gen = w->next.gen + 1);
    BREAK(w->next.block = w->geo.segment_blocks + 1);
    BREAK(w->erase = WAL_JOB_RUNS);
    BREAK((w->writable = 0, w->erase = WAL_JOB_RUNS, w->meta.put = WAL_JOB_RUNS));
    BREAK((w->compact.state = WAL_COMPACT_WAIT, w->oldest = w->durable_gen));
    BREAK(w->phase = WAL_DEAD + 1);
    walfix_settle(&fix);
    /* Compaction is about to read. */
    for (uint32_t k = 0; w->compact.state != WAL_COMPACT_READ; k++) {
        assert_true(k < 5000);
        if (walfix_append(&fix, k % 8, 0) != 0 || k % 16 == 0)
            walfix_run(&fix, 300);
    }
    memcpy(copy, w, sizeof(*w));
    BREAK(w->compact.state = WAL_COMPACT_PARSE);
    BREAK(w->compact.mark = w->last_seq + 1);
    BREAK(w->oldest = w->durable_gen);
    free(copy);
    walfix_settle(&fix);
    finish();
}

/* lib/wal/FORMAT.md. */
static void test_wal_edges_format_vectors(void **state)
{
    unsigned char super[SNIC_WAL__SUPER_BYTES];
    unsigned char block[512] = {0};
    struct wal_geo g;
    (void)state;
    struct wal_record rec = {.prev = 0x01020304,
                             .origin = 6,
                             .r = {.key = {{0x1112131415161718, 0x2122232425262728}},
                                   .ts = 0x3132333435363738,
                                   .scope = 0x4142434445464748,
                                   .position = 7,
                                   .length = 3,
                                   .flags = SNIC_WAL_TOMBSTONE,
                                   .epoch = 0x51525354,
                                   .bytes = "abc"}};
    struct wal_block head = {.used = wal_record_size(3),
                             .index = 0,
                             .batch_first = 0,
                             .batch_end = 1,
                             .first = SNIC_WAL__BLOCK_HEAD,
                             .generation = 1,
                             .oldest = 1,
                             .base = 6};
    begin(512, 32, 16, 10);
    fix.opts.uuid[0] = 1;
    fix.opts.uuid[1] = 2;
    assert_int_equal(walfix_open(&fix, SNIC_WAL_CREATE), 0);
    assert_int_equal(snic_wal_meta_put(fix.wal, "member", 6), 0);
    walfix_run(&fix, 1000000);
    walfix_close(&fix);
    memcpy(super, snic_disk_bytes(fix.disk), sizeof(super));
    golden_bytes("wal", "superblock", super, sizeof(super));
    golden_bytes("wal", "membership", (unsigned char *)snic_disk_bytes(fix.disk) + 4096, 128);
    assert_int_equal(wal_super_decode(&g, super), 0);
    wal_geo_derive(&g);
    (void)wal_record_encode(&g, 1, &rec, block + SNIC_WAL__BLOCK_HEAD);
    memcpy(block + SNIC_WAL__BLOCK_HEAD + SNIC_WAL__RECORD_HEAD, "abc", 3);
    wal_block_encode(&g, &head, block);
    golden_bytes("wal", "block", block, sizeof(block));
    finish();
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_wal_edges_large_blocks_found_and_repaired),
        cmocka_unit_test(test_wal_edges_odd_batches_as_the_model),
        cmocka_unit_test(test_wal_edges_small_devices_refused),
        cmocka_unit_test(test_wal_edges_superblock_without_sense_refused),
        cmocka_unit_test(test_wal_edges_numbers_of_no_writer_not_taken),
        cmocka_unit_test(test_wal_edges_meta_without_sense_other_place_taken),
        cmocka_unit_test(test_wal_edges_deaf_owner_keeps_all),
        cmocka_unit_test(test_wal_edges_tail_and_meta_at_once),
        cmocka_unit_test(test_wal_edges_opening_refused),
        cmocka_unit_test(test_wal_edges_check_broken_reported),
        cmocka_unit_test(test_wal_edges_format_vectors),
    };
    return SUPPORT_MAIN(argc, argv, tests);
}
