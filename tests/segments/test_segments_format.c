/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * A store on several devices is formatted: what a format that ended on its way has left is
 * finished by the next one, and a blank device among others is not what they were made with.
 */
#include <stdlib.h>

#include "golden.h"
#include "segfix.h"
#include "segments/segments_priv.h"
#include "support.h"

enum { FIRST = 16384, /* bytes: by these a device is blank or not */ SUPER = 4096 };

static struct segfix fix;

static void begin(uint32_t disks)
{
    memset(&fix, 0, sizeof(fix));
    fix.disks = disks;
    fix.disk_opts.delay_min_ns = 1000;
    fix.disk_opts.delay_max_ns = 50000;
    segfix_start(&fix, support_seed());
}

static void end(void)
{
    segfix_end(&fix);
    assert_string_equal(fix.why, "");
}

/* Each start of a program names the store that it would make anew. */
static void again(uint32_t flags, int expect)
{
    if (fix.store != NULL)
        segfix_close(&fix);
    fix.opts.uuid[0]++;
    assert_int_equal(segfix_open(&fix, flags), expect);
}

static uint32_t answers;

static void create_done(struct snic_segments_req *q)
{
    (void)q;
    answers++;
}

static void create(uint64_t seg_id, uint32_t disk)
{
    struct snic_segments_req q;
    memset(&q, 0, sizeof(q));
    q.done = create_done;
    q.op = SNIC_SEGMENTS_CREATE;
    q.seg_id = seg_id;
    q.gen = 1;
    q.disk = disk;
    answers = 0;
    assert_int_equal(snic_segments_submit(fix.store, &q), 0);
    while (answers == 0)
        assert_true(snic_loop_once(fix.loop, SNIC_NEVER) > 0);
    assert_int_equal(q.result, 0);
}

static void assert_blank(uint32_t disk)
{
    static const unsigned char zeros[FIRST];
    assert_memory_equal(snic_disk_bytes(fix.disk[disk]), zeros, FIRST);
}

static void blank(uint32_t disk)
{
    memset(snic_disk_bytes(fix.disk[disk]), 0, FIRST);
    snic_disk_sync(fix.disk[disk]);
}

/* What a format leaves that ended before all had their first superblock. */
static void halve(uint32_t disk)
{
    memset(snic_disk_bytes(fix.disk[disk]) + SUPER, 0, SUPER);
    snic_disk_sync(fix.disk[disk]);
}

/* It is whole, can be used, and is opened again as it is. */
static void assert_usable(void)
{
    for (uint32_t i = 0; i < fix.disks; i++)
        create(i + 1, i);
    again(SNIC_SEGMENTS_BLANK, 0);
    assert_int_equal(fix.report.formatted, 0);
    assert_int_equal(fix.report.segments, fix.disks);
}

/* The device that was not formatted any more becomes one of the others' store, whichever it is. */
static void test_segments_format_ended_between_devices_is_finished(void **state)
{
    (void)state;
    for (uint32_t left = 1; left < 7; left++) { /* a bit for each that is blank */
        unsigned char was[SUPER];
        begin(3);
        again(SNIC_SEGMENTS_BLANK, 0);
        assert_int_equal(fix.report.formatted, 3);
        segfix_close(&fix);
        uint32_t there = (left & 1) == 0 ? 0 : (left & 2) == 0 ? 1 : 2;
        memcpy(was, snic_disk_bytes(fix.disk[there]), SUPER);
        for (uint32_t i = 0; i < 3; i++)
            ((left >> i & 1) != 0 ? blank : halve)(i);
        again(0, SNIC_ENOENT); /* a format was not asked for */
        again(SNIC_SEGMENTS_BLANK, 0);
        assert_int_equal(fix.report.formatted, (left & 1) + (left >> 1 & 1) + (left >> 2));
        assert_memory_equal(snic_disk_bytes(fix.disk[there]), was, SUPER);
        assert_usable();
        end();
    }
}

/* A start that ends after so many steps, with or without the power; 1: it was through before. */
static uint32_t start_and_end(uint32_t steps, int power)
{
    fix.opts.uuid[0]++;
    assert_int_equal(segfix_open_begin(&fix, SNIC_SEGMENTS_BLANK), 0);
    for (uint32_t i = 0; i < steps && !fix.opened; i++)
        assert_true(snic_loop_once(fix.loop, SNIC_NEVER) > 0);
    uint32_t whole = (uint32_t)fix.opened;
    segfix_close(&fix);
    for (uint32_t i = 0; i < 2 && power; i++)
        snic_disk_power_cut(fix.disk[i], SNIC_FAULT_KEEP_NONE);
    segfix_unplug(&fix);
    segfix_plug(&fix);
    return whole;
}

/* Whenever it ends, and whenever the start that is to finish it does. */
static void test_segments_format_ended_at_any_time_is_finished(void **state)
{
    uint32_t whole = 0, halves = 0;
    (void)state;
    for (uint32_t steps = 0; whole < 3; steps++) {
        /* Odd, so that half of the second starts end without the power. */
        uint32_t stride = ((uint32_t)support_stride(3, 7) * (1 + steps / 8)) | 1;
        uint32_t turn = 1 + (uint32_t)support_turn(stride);
        for (uint32_t second = 0; second < 3 + steps; second += second == 0 ? turn : stride) {
            begin(2);
            uint32_t first = start_and_end(steps, steps % 2 == 0);
            whole += second == 0 && first;
            if (second != 0)
                (void)start_and_end(second, second % 2 == 0);
            again(SNIC_SEGMENTS_BLANK, 0);
            halves += fix.report.formatted == 1;
            assert_usable();
            end();
        }
    }
    assert_true(halves > 0);
}

static int is_there(uint32_t disk, uint64_t page)
{
    static const unsigned char zeros[4096];
    return memcmp(snic_disk_bytes(fix.disk[disk]) + page * 4096, zeros, 4096) != 0;
}

/* The process ends after so many steps of the first start; what was under way then still comes. */
static void begin_and_end(uint32_t steps)
{
    begin(2);
    (void)start_and_end(steps, 0);
}

/* The power fails after so many steps of the next start, which cannot read a page beside the first
   superblocks if `bad`; the one after it can. @return 1: it was through before */
static uint32_t next_loses_power(uint32_t first, uint32_t second, uint32_t bad)
{
    struct snic_fault f = {.kind = SNIC_FAULT_ERROR, .ops = 1u << SNIC_IO_READ, .after = 1};
    f.repeat = UINT64_MAX;
    f.error = SNIC_EIO;
    f.offset = 2 * SUPER;
    f.length = SUPER;
    begin_and_end(first);
    for (uint32_t i = 0; i < 2 && bad; i++)
        assert_int_equal(snic_disk_fault(fix.disk[i], &f), 0);
    uint32_t whole = start_and_end(second, 1);
    for (uint32_t i = 0; i < 2; i++)
        snic_disk_faults_clear(fix.disk[i]);
    again(SNIC_SEGMENTS_BLANK, 0);
    assert_usable();
    end();
    return whole;
}

/* It ends when all have their first superblock, of which one may be in its device's cache only. The
   next start reads them all, and the power fails at any of its steps. */
static void test_segments_format_read_is_not_durable(void **state)
{
    uint32_t such = 0, over = 0;
    (void)state;
    for (uint32_t steps = 0; !over; steps++) {
        begin_and_end(steps);
        over = is_there(0, 1) || is_there(1, 1);
        uint32_t both = is_there(0, 0) && is_there(1, 0) && !over;
        end();
        such += both;
        if (!both || such > support_scale(2, 100)) /* the first are those with something to lose */
            continue;
        for (uint32_t bad = 0; bad < 2; bad++)
            for (uint32_t second = 0; !next_loses_power(steps, second, bad); second++)
                continue;
    }
    assert_true(such > 0);
}

/* A store of which nothing is known to be in use yet, but which exists: the blank device is not
   the one that it was made with, and that one may come back. */
static void test_segments_blank_beside_a_whole_store_is_refused(void **state)
{
    (void)state;
    for (uint32_t which = 0; which < 2; which++) {
        begin(2);
        again(SNIC_SEGMENTS_BLANK, 0);
        segfix_close(&fix);
        blank(which);
        again(SNIC_SEGMENTS_BLANK, SNIC_ENOENT);
        assert_int_equal(fix.report.disk, which);
        assert_blank(which);
        again(SNIC_SEGMENTS_FORMAT, 0);
        assert_usable();
        end();
    }
}

/* A device that cannot be read is not taken for one with something else on it. */
static void test_segments_unreadable_device_is_no_other_thing(void **state)
{
    struct snic_fault f = {.kind = SNIC_FAULT_ERROR, .ops = 1u << SNIC_IO_READ, .after = 1};
    (void)state;
    begin(2);
    again(SNIC_SEGMENTS_BLANK, 0);
    segfix_close(&fix);
    f.repeat = 1000;
    f.error = SNIC_EIO;
    f.length = 2 * SUPER;
    assert_int_equal(snic_disk_fault(fix.disk[1], &f), 0);
    again(SNIC_SEGMENTS_BLANK, SNIC_EIO);
    assert_int_equal(fix.report.disk, 1);
    snic_disk_faults_clear(fix.disk[1]);
    again(0, 0);
    assert_usable();
    end();
}

/* The first pages of all devices are gone, and what the store has is still there: only an
   explicit format makes one. */
static void test_segments_without_first_pages_is_not_blank(void **state)
{
    unsigned char was[2][FIRST];
    (void)state;
    begin(2);
    again(SNIC_SEGMENTS_BLANK, 0);
    create(5, 0);
    create(6, 1);
    segfix_close(&fix);
    for (uint32_t i = 0; i < 2; i++) {
        memcpy(was[i], snic_disk_bytes(fix.disk[i]), FIRST);
        blank(i);
    }
    again(SNIC_SEGMENTS_BLANK, SNIC_EEXIST);
    assert_int_equal(fix.report.formatted, 0);
    segfix_close(&fix);
    for (uint32_t i = 0; i < 2; i++) {
        assert_blank(i);
        memcpy(snic_disk_bytes(fix.disk[i]), was[i], FIRST);
    }
    again(SNIC_SEGMENTS_BLANK, 0);
    assert_int_equal(fix.report.segments, 2);
    segfix_close(&fix);
    blank(0);
    blank(1);
    again(SNIC_SEGMENTS_FORMAT, 0);
    assert_usable();
    end();
}

/* A format that did not come to its end, beside a device of another store: nothing is written, so
   that the right one can still be put there. */
static void test_segments_half_beside_another_store_stays(void **state)
{
    unsigned char other[FIRST];
    (void)state;
    begin(2);
    again(SNIC_SEGMENTS_BLANK, 0);
    segfix_close(&fix);
    memcpy(other, snic_disk_bytes(fix.disk[0]), FIRST);
    end();
    begin(2);
    fix.opts.uuid[0] += 100;
    again(SNIC_SEGMENTS_BLANK, 0);
    segfix_close(&fix);
    halve(1);
    memcpy(snic_disk_bytes(fix.disk[0]), other, FIRST);
    again(SNIC_SEGMENTS_BLANK, SNIC_ECORRUPT);
    assert_true(fix.report.disk == 1 && fix.report.mixed == 1);
    segfix_close(&fix);
    assert_false(is_there(1, 1));
    blank(0);
    again(SNIC_SEGMENTS_BLANK, 0);
    assert_int_equal(fix.report.formatted, 1);
    assert_usable();
    end();
}

/* A device that has segments keeps them, and a blank one beside it is not made one of its store: it
   may be in the place of another that has the others. */
static void test_segments_blank_beside_segments_is_refused(void **state)
{
    (void)state;
    for (uint32_t which = 0; which < 2; which++) {
        begin(2);
        again(SNIC_SEGMENTS_BLANK, 0);
        create(5, 1 - which);
        segfix_close(&fix);
        blank(which);
        for (uint32_t i = 0; i < 2; i++) {
            again(SNIC_SEGMENTS_BLANK, SNIC_ENOENT);
            assert_int_equal(fix.report.disk, which);
            assert_int_equal(fix.report.formatted, 0);
            assert_blank(which);
        }
        segfix_close(&fix);
        end();
    }
}

/* Nor is one beside what cannot be opened. */
static void test_segments_blank_beside_something_else_stays(void **state)
{
    (void)state;
    for (uint32_t which = 0; which < 2; which++) {
        begin(2);
        memset(snic_disk_bytes(fix.disk[1 - which]), 7, SUPER);
        snic_disk_sync(fix.disk[1 - which]);
        again(SNIC_SEGMENTS_BLANK, SNIC_EEXIST);
        assert_int_equal(fix.report.disk, 1 - which);
        assert_blank(which);
        blank(1 - which); /* and can be used when that is gone */
        again(SNIC_SEGMENTS_BLANK, 0);
        assert_usable();
        end();
    }
}

/* Which device is wrong, and what its header states. */
static void test_segments_devices_that_do_not_belong_are_named(void **state)
{
    (void)state;
    begin(3);
    size_t size = fix.disk_opts.size;
    unsigned char *was = malloc(size);
    assert_non_null(was);
    again(SNIC_SEGMENTS_BLANK, 0);
    segfix_close(&fix);
    memcpy(was, snic_disk_bytes(fix.disk[1]), size);
    again(SNIC_SEGMENTS_FORMAT, 0);
    segfix_close(&fix);
    memcpy(snic_disk_bytes(fix.disk[1]), was, size);
    free(was);
    again(SNIC_SEGMENTS_BLANK, SNIC_ECORRUPT);
    assert_int_equal(fix.report.disk, 1);
    assert_int_equal(fix.report.mixed, 1);
    blank(2); /* it is not known of which it is to be */
    again(SNIC_SEGMENTS_BLANK, SNIC_ECORRUPT);
    assert_int_equal(fix.report.disk, 1);
    assert_int_equal(fix.report.mixed, 1);
    assert_blank(2);
    again(SNIC_SEGMENTS_FORMAT, 0);
    segfix_close(&fix);
    struct snic_io *second = fix.io[1];
    fix.io[1] = fix.io[2];
    fix.io[2] = second;
    again(SNIC_SEGMENTS_BLANK, SNIC_ECORRUPT);
    assert_int_equal(fix.report.disk, 1);
    assert_int_equal(fix.report.is_disk, 2);
    assert_int_equal(fix.report.is_disks, 3);
    assert_int_equal(fix.report.mixed, 0);
    end();
}

/* Nothing can come after the highest number: a device that claims it is refused. */
static void test_segments_numbers_at_their_end_are_not_taken(void **state)
{
    const uint64_t last[] = {SNIC_SEGMENTS__LATEST - 1, SNIC_SEGMENTS__LATEST, UINT64_MAX};
    struct segments_geo geo = {.places = 4, .list_max = 8, .seed = 3};
    (void)state;
    for (uint32_t i = 0; i < SNIC_COUNTOF(last) * 2; i++) {
        unsigned char page[SNIC_SEGMENTS__PAGE];
        struct segments_place place = {
            .attr = {.used = 1, .inc = 1, .stamp = i % 2 ? last[i / 2] : 1}};
        struct segments_disk disk = {.geo = geo, .place = &place};
        struct segments_mark m = {i % 2 ? 1 : last[i / 2], i % 2 ? last[i / 2] : 1};
        struct segments_record h = {.stamp = last[i / 2], .kind = SEGMENTS_RECORD_ATTR, .inc = 1};
        struct segments_page p;
        struct snic_wal_record r;
        segments_mark_encode(&geo, &m, page);
        assert_int_equal(segments_mark_decode(&geo, &m, page), i < 2);
        segments_page_encode(&disk, 0, 0, i % 2 ? 1 : last[i / 2], page);
        assert_int_equal(segments_page_decode(&geo, 0, 0, &p, page) == SEGMENTS_PAGE_GOOD, i < 2);
        memset(&r, 0, sizeof(r));
        segments_record_encode(&h, &r);
        r.length = SNIC_SEGMENTS__ATTR;
        assert_int_equal(segments_record_decode(&geo, &h, &r), i < 2);
    }
}

/* lib/segments/FORMAT.md. */
static void test_segments_format_vectors(void **state)
{
    static struct segments_entry entries[4 * SNIC_SEGMENTS_BLOCKS];
    struct segments_geo geo = {.log_bytes = 2u << 20,
                               .wal_segment = 256u << 10,
                               .places = 4,
                               .disk = 1,
                               .disks = 3,
                               .uuid = {1, 2}};
    struct segments_place places[4] = {
        [3] = {.attr = {0x1112131415161718, 0x2122232425262728, 0x3132333435363738,
                        0x4142434445464748, 0x51, 0x61626364, 7, 1, 0}}};
    struct segments_disk disk = {.place = places, .entry = entries};
    struct segments_version v = {0x0102030405060708, 0x71727374, 0x81828384, SNIC_SEGMENTS_LOST};
    struct segments_mark mark = {5, 0x51};
    unsigned char page[SNIC_SEGMENTS__PAGE];
    (void)state;
    segments_geo_derive(&geo);
    disk.geo = geo;
    segments_super_encode(&geo, page);
    golden_bytes("segments", "superblock", page, sizeof(page));
    segments_mark_encode(&geo, &mark, page);
    golden_bytes("segments", "mark", page, sizeof(page));
    segments_page_encode(&disk, 3, 0, 5, page);
    golden_bytes("segments", "attributes", page, sizeof(page));
    entries[3 * SNIC_SEGMENTS_BLOCKS + 128] = (struct segments_entry){
        .wver = v.wver, .data_crc = v.data_crc, .block_tag = v.block_tag, .kind = v.kind};
    segments_page_encode(&disk, 3, 2, 5, page);
    golden_bytes("segments", "table", page, sizeof(page));
    segments_item_encode(&v, 128, page);
    golden_bytes("segments", "item", page, SNIC_SEGMENTS__ITEM);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_segments_format_ended_between_devices_is_finished),
        cmocka_unit_test(test_segments_format_ended_at_any_time_is_finished),
        cmocka_unit_test(test_segments_format_read_is_not_durable),
        cmocka_unit_test(test_segments_blank_beside_segments_is_refused),
        cmocka_unit_test(test_segments_blank_beside_a_whole_store_is_refused),
        cmocka_unit_test(test_segments_unreadable_device_is_no_other_thing),
        cmocka_unit_test(test_segments_without_first_pages_is_not_blank),
        cmocka_unit_test(test_segments_half_beside_another_store_stays),
        cmocka_unit_test(test_segments_blank_beside_something_else_stays),
        cmocka_unit_test(test_segments_devices_that_do_not_belong_are_named),
        cmocka_unit_test(test_segments_numbers_at_their_end_are_not_taken),
        cmocka_unit_test(test_segments_format_vectors),
    };
    return SUPPORT_MAIN(argc, argv, tests);
}
