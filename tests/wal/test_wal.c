/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * The durable log: what each call returns, and what it leaves untouched.
 */
#include "iohog.h"
#include "support.h"
#include "walfix.h"

static struct walfix fix;

static void begin_on(uint32_t caps)
{
    memset(&fix, 0, sizeof(fix));
    fix.disk_opts.sector = 512;
    fix.disk_opts.caps = caps;
    fix.disk_opts.size = 32768 + 16 * 16384;
    fix.opts.segment_bytes = 16384;
    fix.opts.block_bytes = 512;
    fix.m.length_max = 512;
    walfix_start(&fix, support_seed());
}

static void begin(void)
{
    begin_on(0);
}

static void finish(void)
{
    assert_string_equal(fix.why, "");
    walfix_end(&fix);
}

/* Nothing that was appended comes back. */
static void test_wal_appended_reopened_found(void **state)
{
    (void)state;
    begin();
    assert_int_equal(walfix_open(&fix, SNIC_WAL_CREATE), 0);
    assert_int_equal(fix.report.formatted, 1);
    for (uint32_t i = 0; i < 100; i++) {
        assert_int_equal(walfix_append(&fix, i % WALFIX_SOME, 0), 0);
        if (i % 3 == 0)
            walfix_settle(&fix);
    }
    walfix_settle(&fix);
    walfix_close(&fix);
    snic_disk_power_cut(fix.disk, SNIC_FAULT_KEEP_NONE);
    walfix_unplug(&fix);
    walfix_plug(&fix);
    assert_int_equal(walfix_open(&fix, 0), 0);
    assert_int_equal(fix.report.verdict, SNIC_WAL_CLEAN);
    assert_int_equal(fix.found, 100);
    walfix_judge(&fix);
    finish();
}

/* ---- Another user of the device ---- */

/* A log that polls for room wakes its loop ten thousand times a second. */
static void test_wal_device_full_waits_without_polling(void **state)
{
    struct iohog h;
    (void)state;
    begin();
    walfix_unplug(&fix);
    snic_disk_close(fix.disk);
    fix.disk_opts.depth = 1;
    assert_int_equal(snic_disk_open(&fix.disk, &fix.disk_opts), 0);
    walfix_plug(&fix);
    assert_int_equal(walfix_open(&fix, SNIC_WAL_CREATE), 0);
    iohog_hold(&h, fix.disk, fix.io);
    uint64_t from = snic_loop_now(fix.loop), work = iohog_work(fix.loop);
    assert_int_equal(walfix_append(&fix, 1, 0), 0);
    walfix_settle(&fix);
    assert_true(snic_loop_now(fix.loop) - from >= IOHOG_NS);
    iohog_end(&h, fix.loop, work);
    walfix_close(&fix);
    finish();
}

/* ---- Opening ---- */

static void nothing_opened(void *ctx, int result, const struct snic_wal_report *report)
{
    (void)ctx;
    (void)result;
    (void)report;
}

static void nothing_durable(void *ctx, uint64_t up_to)
{
    (void)ctx;
    (void)up_to;
}

static void nothing_failed(void *ctx, int error)
{
    (void)ctx;
    (void)error;
}

/* Options that do not fit are taken, or the memory is written beyond its end. */
static void test_wal_open_bad_options_refused(void **state)
{
    static const struct snic_wal_opts bad[] = {
        {.flags = 16},
        {.pad = 1},
        {.segment_bytes = 8192},
        {.segment_bytes = 16384 + 512},
        {.segment_bytes = 16384, .block_bytes = 2048},
        {.block_bytes = 256},
        {.block_bytes = 131072},
        {.block_bytes = 1536},
        {.segment_bytes = 16384, .block_bytes = 512, .record_max = 5462},
        {.segment_bytes = 16384, .block_bytes = 512, .batch_bytes = 8192 + 1},
        {.segment_bytes = 16384, .block_bytes = 512, .batch_bytes = 4096},
        {.segment_bytes = 32768, .block_bytes = 512, .record_max = 8192, .batch_bytes = 8192},
        {.segment_bytes = 16384, .block_bytes = 512, .batch_bytes = 32768},
        {.batches = 1},
        {.batches = 65},
        {.window_ns = UINT64_MAX},
    };
    static const char *const names[] = {
        "flags",         "pad",         "segment_bytes", "segment_bytes",
        "segment_bytes", "block_bytes", "block_bytes",   "block_bytes",
        "record_max",    "batch_bytes", "batch_bytes",   "batch_bytes",
        "batch_bytes",   "batches",     "batches",       "window_ns"};
    struct snic_wal_events e = {
        .opened = nothing_opened, .durable = nothing_durable, .failed = nothing_failed};
    struct snic_wal_opts o;
    struct snic_wal *w = NULL;
    size_t size;
    void *mem;
    (void)state;
    begin();
    mem = support_guard_alloc(1u << 20, SNIC_WAL_ALIGN);
    for (uint32_t i = 0; i < SNIC_COUNTOF(bad); i++) {
        o = bad[i];
        o.opts_size = sizeof(o);
        assert_int_equal(snic_wal_memsize(fix.io, &o), 0);
        support_names(snic_wal_opts_wrong(fix.io, &o), names[i]);
        assert_int_equal(snic_wal_open(&w, mem, 1u << 20, fix.io, &o, &e, NULL), SNIC_EINVAL);
    }
    support_guard_free(mem);
    o = fix.opts;
    size = snic_wal_memsize(fix.io, &o);
    assert_null(snic_wal_opts_wrong(fix.io, &o));
    mem = support_guard_alloc(size, SNIC_WAL_ALIGN);
    assert_int_equal(snic_wal_open(&w, mem, size - 1, fix.io, &o, &e, NULL), SNIC_ENOSPC);
    assert_int_equal(snic_wal_open(&w, (char *)mem + 8, size - 8, fix.io, &o, &e, NULL),
                     SNIC_EINVAL);
    e.durable = NULL;
    assert_int_equal(snic_wal_open(&w, mem, size, fix.io, &o, &e, NULL), SNIC_EINVAL);
    assert_null(w);
    support_guard_free(mem);
    fix.io->caps |= SNIC_IO_CAP_READONLY;
    assert_int_equal(snic_wal_memsize(fix.io, &o), 0);
    support_names(snic_wal_opts_wrong(fix.io, &o), "io");
    finish();
}

/* A device that is something else is written over, or a blank one not recognised. */
static void test_wal_open_other_device_refused_untouched(void **state)
{
    static unsigned char copy[32768 + 16 * 16384];
    unsigned char *bytes;
    (void)state;
    begin();
    assert_int_equal(walfix_open(&fix, 0), SNIC_ENOENT);
    bytes = snic_disk_bytes(fix.disk);
    bytes[70000] = 1; /* foreign data, and nothing at the beginning */
    memcpy(copy, bytes, sizeof(copy));
    assert_int_equal(walfix_open(&fix, 0), SNIC_EEXIST);
    assert_int_equal(walfix_open(&fix, SNIC_WAL_CREATE), SNIC_EEXIST);
    assert_memory_equal(copy, bytes, sizeof(copy));
    assert_int_equal(walfix_open(&fix, SNIC_WAL_FORMAT), 0);
    assert_int_equal(fix.report.formatted, 1);
    walfix_close(&fix);
    assert_int_equal(bytes[70000], 0);
    assert_int_equal(walfix_open(&fix, SNIC_WAL_CREATE), 0);
    assert_int_equal(fix.report.formatted, 0);
    walfix_close(&fix);
    /* Another version, whole. */
    snic_put_le32(bytes + 12, 2);
    snic_put_le32(bytes + 8, snic_crc32c(0, bytes + 12, 4096 - 12));
    memcpy(bytes + 5 * 4096, bytes, 4096);
    memcpy(copy, bytes, sizeof(copy));
    assert_int_equal(walfix_open(&fix, SNIC_WAL_CREATE), SNIC_EVERSION);
    assert_memory_equal(copy, bytes, sizeof(copy));
    finish();
}

/* A log whose first pages were wiped is no blank device: a new one on it would erase the rest. */
static void test_wal_open_wiped_pages_refused_untouched(void **state)
{
    enum { SIZE = 32768 + 16 * 16384, WIPED = 128 << 10 };
    static unsigned char copy[SIZE];
    unsigned char *bytes;
    (void)state;
    begin();
    assert_int_equal(walfix_open(&fix, SNIC_WAL_CREATE), 0);
    for (uint32_t i = 0; i < 250; i++) {
        assert_int_equal(walfix_append(&fix, i % WALFIX_SOME, 0), 0);
        walfix_settle(&fix);
    }
    walfix_close(&fix);
    bytes = snic_disk_bytes(fix.disk);
    memset(bytes, 0, WIPED);
    assert_int_not_equal(bytes[WIPED], 0); /* a block of it begins there */
    for (uint32_t i = 0; i < 2; i++) {
        memcpy(copy, bytes, SIZE);
        assert_int_equal(walfix_open(&fix, 0), SNIC_EEXIST);
        assert_int_equal(walfix_open(&fix, SNIC_WAL_CREATE), SNIC_EEXIST);
        assert_memory_equal(copy, bytes, SIZE);
        memset(bytes, 0, SIZE);
        bytes[SIZE - 1] = 1; /* the second time */
    }
    bytes[SIZE - 1] = 0;
    assert_int_equal(walfix_open(&fix, 0), SNIC_ENOENT);
    assert_int_equal(walfix_open(&fix, SNIC_WAL_CREATE), 0);
    assert_int_equal(fix.report.formatted, 1);
    memset(&fix.m, 0, sizeof(fix.m));
    finish();
}

/* A log is opened with memory too small for it, or on a device smaller than it was. */
static void test_wal_open_other_sizes_adopted_or_refused(void **state)
{
    struct snic_wal_info i;
    (void)state;
    begin();
    assert_int_equal(walfix_open(&fix, SNIC_WAL_CREATE), 0);
    walfix_close(&fix);
    fix.opts.segment_bytes = 32768; /* what the log has counts */
    fix.opts.block_bytes = 1024;
    assert_int_equal(walfix_open(&fix, 0), 0);
    snic_wal_inspect(fix.wal, &i);
    assert_int_equal(i.segment_bytes, 16384);
    assert_int_equal(i.block_bytes, 512);
    assert_int_equal(i.segments, 16);
    assert_int_equal(i.segments_free, 15);
    assert_int_equal(i.record_max, 512);
    walfix_close(&fix);
    fix.opts.segment_bytes = 16384;
    fix.opts.block_bytes = 512;
    fix.opts.batch_bytes = 8192; /* less than it was formatted with */
    assert_int_equal(walfix_open(&fix, 0), SNIC_EINVAL);
    fix.opts.batch_bytes = 0;
    fix.opts.record_max = 256;
    assert_int_equal(walfix_open(&fix, 0), SNIC_EINVAL);
    fix.opts.record_max = 0;
    fix.io->geometry.size -= 512;
    assert_int_equal(walfix_open(&fix, 0), SNIC_ENOSPC);
    fix.io->geometry.size = 32768 + 7 * 16384;
    assert_int_equal(walfix_open(&fix, SNIC_WAL_FORMAT), SNIC_ENOSPC);
    finish();
}

/* ---- Calls ---- */

static int try_append(struct snic_wal_record *r)
{
    uint64_t position = 77;
    int e = snic_wal_append(fix.wal, r, &position);
    assert_int_equal(position, e == 0 ? snic_wal_durable(fix.wal) + 1 : 77);
    return e;
}

/* A call that is refused changes something, or is not refused. */
static void test_wal_calls_refused_nothing_changed(void **state)
{
    static unsigned char bytes[SNIC_WAL_META_MAX + 1];
    struct snic_wal_record r = {.bytes = bytes, .length = 513};
    struct snic_wal_info before;
    struct snic_wal_info after;
    const void *p;
    uint32_t length;
    (void)state;
    begin();
    assert_int_equal(walfix_open(&fix, SNIC_WAL_CREATE), 0);
    snic_wal_inspect(fix.wal, &before);
    assert_int_equal(try_append(&r), SNIC_EMSGSIZE);
    r.length = 1;
    r.flags = 8;
    assert_int_equal(try_append(&r), SNIC_EINVAL);
    r.flags = 0;
    r.pad = 1;
    assert_int_equal(try_append(&r), SNIC_EINVAL);
    r.pad = 0;
    r.bytes = NULL;
    assert_int_equal(try_append(&r), SNIC_EINVAL);
    assert_int_equal(snic_wal_accept_tail(fix.wal), SNIC_EINVAL);
    assert_int_equal(snic_wal_meta_put(fix.wal, bytes, sizeof(bytes)), SNIC_EMSGSIZE);
    assert_int_equal(snic_wal_meta_get(fix.wal, &p, &length), SNIC_ENOENT);
    assert_int_equal(snic_wal_flush(fix.wal), 0);
    walfix_run(&fix, 1000000);
    snic_wal_inspect(fix.wal, &after);
    assert_memory_equal(&before, &after, sizeof(before));
    assert_int_equal(snic_wal_meta_put(fix.wal, bytes, SNIC_WAL_META_MAX), 0);
    assert_int_equal(snic_wal_meta_put(fix.wal, bytes, 1), SNIC_EAGAIN);
    assert_int_equal(snic_wal_meta_get(fix.wal, &p, &length), SNIC_ENOENT);
    fix.m.meta_top = 0;
    walfix_run(&fix, 1000000);
    assert_int_equal(fix.stored, 1);
    assert_int_equal(snic_wal_meta_get(fix.wal, &p, &length), 0);
    assert_int_equal(length, SNIC_WAL_META_MAX);
    assert_memory_equal(p, bytes, length);
    assert_int_equal(snic_wal_meta_put(fix.wal, NULL, 0), 0);
    walfix_run(&fix, 1000000);
    assert_int_equal(snic_wal_meta_get(fix.wal, &p, &length), 0);
    assert_int_equal(length, 0);
    r.bytes = bytes;
    r.length = 512;
    assert_int_equal(try_append(&r), 0);
    r.length = 10 * 512;
    assert_int_equal(try_append(&r), SNIC_EMSGSIZE);
    finish();
}

/* Calls before opened() are taken; closing while opening leaves something behind. */
static void test_wal_opening_calls_refused_and_closed(void **state)
{
    const struct snic_wal_events e = {
        .opened = nothing_opened, .durable = nothing_durable, .failed = nothing_failed};
    (void)state;
    for (uint32_t steps = 0; steps < 20; steps++) {
        struct snic_wal_record r = {.length = 0};
        struct snic_wal_info i;
        const void *p;
        uint32_t length;
        begin();
        fix.opts.flags = SNIC_WAL_CREATE;
        size_t size = snic_wal_memsize(fix.io, &fix.opts);
        fix.mem = support_guard_alloc(size, SNIC_WAL_ALIGN);
        assert_int_equal(snic_wal_open(&fix.wal, fix.mem, size, fix.io, &fix.opts, &e, NULL), 0);
        for (uint32_t k = 0; k < steps; k++)
            (void)snic_loop_once(fix.loop, SNIC_NEVER);
        snic_wal_inspect(fix.wal, &i);
        assert_int_equal(i.opened, 0);
        assert_int_equal(snic_wal_append(fix.wal, &r, NULL), SNIC_EBUSY);
        assert_int_equal(snic_wal_meta_put(fix.wal, NULL, 0), SNIC_EBUSY);
        assert_int_equal(snic_wal_meta_get(fix.wal, &p, &length), SNIC_EBUSY);
        assert_int_equal(snic_wal_accept_tail(fix.wal), SNIC_EBUSY);
        assert_int_equal(snic_wal_flush(fix.wal), 0);
        snic_wal_compact(fix.wal);
        assert_int_equal(snic_wal_check(fix.wal), 0);
        finish();
    }
}

/* ---- Group commit ---- */

/* Appends of one iteration are written one by one; or the buffer's end is not reported. */
static void test_wal_appends_of_a_turn_one_write(void **state)
{
    struct snic_wal_info i;
    uint32_t n = 0;
    (void)state;
    begin();
    fix.m.long_from = 1;
    fix.m.length_max = 8;
    assert_int_equal(walfix_open(&fix, SNIC_WAL_CREATE), 0);
    for (; n < 50; n++)
        assert_int_equal(walfix_append(&fix, n, 0), 0);
    walfix_settle(&fix);
    snic_wal_inspect(fix.wal, &i);
    assert_int_equal(i.batches, 1);
    assert_int_equal(i.batch_bytes, (50 * 80 + 463) / 464 * 512);
    assert_int_equal(i.durable, 50);
    while (walfix_append(&fix, n % WALFIX_SOME, 0) == 0)
        n++;
    assert_true(n > 500);
    snic_wal_inspect(fix.wal, &i);
    assert_int_equal(i.refused_again, 1);
    assert_int_equal(i.batches, 1); /* nothing is done inside a call */
    walfix_run(&fix, 1000000);
    assert_int_equal(fix.rooms, 1);
    snic_wal_inspect(fix.wal, &i);
    assert_int_equal(i.durable, n);
    assert_int_equal(walfix_append(&fix, 1, 0), 0);
    finish();
}

/* BACKGROUND is written at once, or never; a flush does not take it along. */
static void test_wal_background_waits_for_window_or_flush(void **state)
{
    (void)state;
    begin();
    fix.opts.window_ns = 5000000;
    assert_int_equal(walfix_open(&fix, SNIC_WAL_CREATE), 0);
    assert_int_equal(walfix_append(&fix, 1, SNIC_WAL_BACKGROUND), 0);
    walfix_run(&fix, 4000000);
    assert_int_equal(snic_wal_durable(fix.wal), 0);
    assert_int_equal(walfix_append(&fix, 2, SNIC_WAL_BACKGROUND), 0);
    walfix_run(&fix, 1500000);
    assert_int_equal(snic_wal_durable(fix.wal), 2); /* the first one's window */
    assert_int_equal(walfix_append(&fix, 3, SNIC_WAL_BACKGROUND), 0);
    assert_int_equal(snic_wal_flush(fix.wal), 3);
    walfix_run(&fix, 1000);
    assert_int_equal(snic_wal_durable(fix.wal), 3);
    assert_int_equal(walfix_append(&fix, 4, SNIC_WAL_BACKGROUND), 0);
    assert_int_equal(walfix_append(&fix, 5, 0), 0);
    walfix_run(&fix, 1000);
    assert_int_equal(snic_wal_durable(fix.wal), 5);
    assert_int_equal(snic_wal_flush(fix.wal), 5);
    walfix_run(&fix, 20000000);
    assert_int_equal(snic_wal_durable(fix.wal), 5);
    finish();
}

/*
 * A process that is killed leaves records written and not flushed; they are found, acted upon, and
 * then a power cut takes them away.
 */
static void found_unflushed(uint32_t caps)
{
    struct snic_disk *killed;
    uint64_t found;
    begin_on(caps);
    fix.opts.flags = SNIC_WAL_NO_FUA;
    assert_int_equal(walfix_open(&fix, SNIC_WAL_CREATE), 0);
    for (uint32_t n = 0; n < 10; n++)
        assert_int_equal(walfix_append(&fix, n, 0), 0);
    while (snic_disk_unsynced(fix.disk, NULL, 0) == 0) /* the write is done, the flush is not */
        assert_true(snic_loop_once(fix.loop, SNIC_NEVER) > 0);
    assert_int_equal(snic_disk_clone(fix.disk, &killed), 0);
    walfix_close(&fix);
    walfix_unplug(&fix);
    snic_disk_close(fix.disk);
    fix.disk = killed;
    walfix_plug(&fix);
    fix.m.durable = 0;
    assert_true(snic_disk_unsynced(fix.disk, NULL, 0) > 0);
    assert_int_equal(walfix_open(&fix, 0), 0);
    found = fix.found;
    assert_int_equal(found, 10);
    walfix_judge(&fix);
    walfix_close(&fix);
    snic_disk_power_cut(fix.disk, SNIC_FAULT_KEEP_NONE);
    walfix_unplug(&fix);
    walfix_plug(&fix);
    assert_int_equal(walfix_open(&fix, 0), 0);
    assert_int_equal(fix.found, found);
    finish();
}

static void test_wal_found_unflushed_durable_before_opened(void **state)
{
    (void)state;
    found_unflushed(0);
    found_unflushed(SNIC_IO_CAP_FUA | SNIC_IO_CAP_DIRECT);
}

static void nothing_done(struct snic_io_req *req)
{
    (void)req;
}

/* A handle that others keep full: the log waits and tries again. */
static void test_wal_device_full_tried_again(void **state)
{
    static struct snic_io_req req[4];
    static unsigned char bytes[4][512];
    (void)state;
    memset(&fix, 0, sizeof(fix));
    fix.disk_opts.sector = 512;
    fix.disk_opts.size = 32768 + 16 * 16384;
    fix.disk_opts.depth = 2;
    fix.disk_opts.delay_min_ns = 1000000;
    fix.disk_opts.delay_max_ns = 1000000;
    fix.opts.segment_bytes = 16384;
    fix.opts.block_bytes = 512;
    fix.m.length_max = 512;
    walfix_start(&fix, support_seed());
    assert_int_equal(walfix_open(&fix, SNIC_WAL_CREATE), 0);
    for (uint32_t i = 0; i < 2; i++) {
        struct snic_io_req *p = &req[i];
        snic_io_req_init(p);
        p->op = SNIC_IO_READ;
        p->length = 512;
        p->buf.base = bytes[i];
        p->buf.size = 512;
        p->done = nothing_done;
        assert_int_equal(snic_io_submit(fix.io, &p, 1), 1);
    }
    assert_int_equal(walfix_append(&fix, 1, 0), 0);
    walfix_settle(&fix);
    assert_int_equal(fix.failed, 0);
    assert_int_equal(snic_wal_durable(fix.wal), 1);
    finish();
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_wal_appended_reopened_found),
        cmocka_unit_test(test_wal_device_full_waits_without_polling),
        cmocka_unit_test(test_wal_open_bad_options_refused),
        cmocka_unit_test(test_wal_open_other_device_refused_untouched),
        cmocka_unit_test(test_wal_open_wiped_pages_refused_untouched),
        cmocka_unit_test(test_wal_open_other_sizes_adopted_or_refused),
        cmocka_unit_test(test_wal_calls_refused_nothing_changed),
        cmocka_unit_test(test_wal_opening_calls_refused_and_closed),
        cmocka_unit_test(test_wal_appends_of_a_turn_one_write),
        cmocka_unit_test(test_wal_background_waits_for_window_or_flush),
        cmocka_unit_test(test_wal_found_unflushed_durable_before_opened),
        cmocka_unit_test(test_wal_device_full_tried_again),
    };
    return SUPPORT_MAIN(argc, argv, tests);
}
