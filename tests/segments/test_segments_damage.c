/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * The devices change behind the store's back, or fail: what is damaged is named, what is not
 * is returned, nothing is silent.
 */
#include <inttypes.h>

#include "segfix.h"
#include "support.h"

#define LOG (4u << 20)
#define TABLES (65536 + 32768 + LOG)
#define PLACES 3
#define COPY (PLACES * 5 * 4096u)
#define HOME (TABLES + 2 * COPY)
#define SEGMENT (2u << 20)

static struct segfix fix;
static struct segfix_model model;

/* Three segments, full of versions; the second is left in the log if `log`. */
static void begin(int log)
{
    memset(&fix, 0, sizeof(fix));
    fix.disk_opts.size = HOME + PLACES * SEGMENT;
    segfix_start(&fix, support_seed());
    assert_int_equal(segfix_open(&fix, SNIC_SEGMENTS_BLANK), 0);
    for (uint32_t i = 0; i < PLACES; i++)
        assert_int_equal(segfix_control(&fix, i, SNIC_SEGMENTS_CREATE, 0), 1);
    segfix_settle(&fix);
    for (uint32_t round = 0; round < 2 + (uint32_t)log; round++) {
        struct snic_segments_info info;
        for (uint32_t i = 0; i < PLACES * SEGFIX_BLOCKS; i++) {
            uint32_t which[1] = {i % SEGFIX_BLOCKS};
            uint64_t wver[1] = {round * 3 + 1};
            if (round == 2 && (i / SEGFIX_BLOCKS != 1 || which[0] > 9))
                continue;
            while (segfix_write(&fix, i / SEGFIX_BLOCKS, which, wver, 1) == 0)
                segfix_run(&fix, 1000);
            segfix_settle(&fix);
        }
        if (round == 2)
            break;
        do {
            snic_segments_checkpoint(fix.store);
            segfix_run(&fix, 10000);
            snic_segments_inspect(fix.store, &info);
        } while (info.dirty != 0);
        segfix_run(&fix, 1000000);
    }
    segfix_close(&fix);
    segfix_unplug(&fix);
    snic_disk_sync(fix.disk[0]);
    segfix_plug(&fix);
    assert_string_equal(fix.why, "");
    model = fix.m;
}

static void end(void)
{
    segfix_end(&fix);
    assert_string_equal(fix.why, "");
}

static unsigned char *home(uint32_t place, uint32_t block)
{
    return snic_disk_bytes(fix.disk[0]) + HOME + (uint64_t)place * SEGMENT + block * 4096;
}

static void read_all(uint32_t seg, uint64_t damaged)
{
    uint32_t which[SEGFIX_BLOCKS];
    uint64_t before = fix.read_damaged;
    for (uint32_t i = 0; i < SEGFIX_BLOCKS; i++)
        which[i] = i;
    assert_int_equal(segfix_read(&fix, seg, which, SEGFIX_BLOCKS), 1);
    segfix_settle(&fix);
    assert_int_equal(fix.last->q.result, damaged != 0 ? SNIC_ECORRUPT : 0);
    assert_int_equal(fix.last->q.refused, damaged);
    assert_int_equal(fix.read_damaged - before, damaged);
}

/* The last read met one damaged block, and its place and error were reported. */
static void assert_reported(uint32_t seg, uint32_t which, int error, uint64_t times)
{
    struct snic_segments_info info;
    snic_segments_inspect(fix.store, &info);
    assert_int_equal(fix.misreads, times);
    assert_int_equal(info.misread, times);
    if (times == 0)
        return;
    assert_int_equal(fix.misread_seg, seg + 1);
    assert_int_equal(fix.misread_block, segfix_block_number(which));
    assert_int_equal(fix.misread_error, error);
}

/* A DATA block, as numbers in the model. */
static uint32_t some_data(uint32_t seg, uint32_t from)
{
    unsigned char page[4096];
    while (segfix_content(page, seg, 1, from, model.seg[seg].block[from].current) !=
           SNIC_SEGMENTS_DATA)
        from++;
    return from;
}

/* A damaged, misplaced, old or unreadable block is taken for good, or costs its neighbours. */
static void test_segments_damage_block_named_neighbours_read(void **state)
{
    unsigned char page[4096];
    struct snic_segments_info info;
    (void)state;
    begin(0);
    assert_int_equal(segfix_open(&fix, 0), 0);
    fix.forgiving = 1;
    for (uint32_t i = 0; i < PLACES; i++)
        read_all(i, 0);
    uint32_t x = some_data(0, 1);
    uint32_t y = some_data(0, x + 1);
    unsigned char *at = home(0, segfix_block_number(x));
    unsigned char *other = home(0, segfix_block_number(y));
    assert_reported(0, 0, 0, 0);
    for (uint32_t bit = 0; bit < 4096 * 8; bit += 509) {
        at[bit / 8] ^= (unsigned char)(1u << bit % 8);
        read_all(0, 1);
        assert_reported(0, x, SNIC_ECORRUPT, bit / 509 + 1);
        assert_int_equal(fix.last->block[x].status, SNIC_SEGMENTS_DAMAGED);
        at[bit / 8] ^= (unsigned char)(1u << bit % 8);
    }
    memcpy(page, at, 4096);
    memcpy(at, other, 4096); /* misplaced */
    read_all(0, 1);
    (void)segfix_content(at, 0, 1, x, 1); /* the version before */
    read_all(0, 1);
    memset(at, 0, 4096);
    read_all(0, 1);
    memcpy(at, page, 4096);
    read_all(0, 0);
    struct snic_fault p = {.kind = SNIC_FAULT_ERROR, .ops = 1u << SNIC_IO_READ, .after = 1};
    p.repeat = UINT64_MAX;
    p.error = SNIC_EIO;
    p.offset = (uint64_t)(at - snic_disk_bytes(fix.disk[0]));
    p.length = 4096;
    assert_int_equal(snic_disk_fault(fix.disk[0], &p), 0);
    uint64_t reported = fix.misreads;
    read_all(0, 1);
    assert_reported(0, x, SNIC_EIO, reported + 1);
    snic_disk_faults_clear(fix.disk[0]);
    p.kind = SNIC_FAULT_SHORT;
    p.bytes = 512;
    assert_int_equal(snic_disk_fault(fix.disk[0], &p), 0);
    read_all(0, 1);
    assert_int_equal(fix.last->block[x].status, SNIC_SEGMENTS_DAMAGED);
    snic_disk_faults_clear(fix.disk[0]);
    memset(at, 0x11, 4096);
    uint32_t which[1] = {x};
    uint64_t wver[1] = {100};
    assert_int_equal(segfix_write(&fix, 0, which, wver, 1), 1); /* repairs it */
    segfix_settle(&fix);
    read_all(0, 0);
    snic_segments_inspect(fix.store, &info);
    assert_int_equal(info.read_damaged, fix.read_damaged);
    assert_int_equal(fix.failed, 0);
    end();
}

static void damage_and_judge(uint64_t offset, uint64_t repaired)
{
    unsigned char page[4096];
    unsigned char *at = snic_disk_bytes(fix.disk[0]) + offset;
    memcpy(page, at, 4096);
    at[100] ^= 0x40; /* of all pages that are in use a part with contents */
    int same = memcmp(page, at, 4096) == 0;
    fix.m = model;
    if (segfix_open(&fix, 0) != 0)
        fail_msg("page at %" PRIu64 " damaged: %d", offset, fix.result);
    if (fix.report.repaired != repaired || fix.report.damaged != 0 || same)
        fail_msg("page at %" PRIu64 ": %" PRIu64 " repaired", offset, fix.report.repaired);
    segfix_judge(&fix);
    snic_segments_checkpoint(fix.store);
    uint32_t which[1] = {0};
    uint64_t wver[1] = {fix.m.seg[0].block[0].current + 1};
    assert_int_equal(segfix_write(&fix, 0, which, wver, 1), 1); /* a round, for sure */
    segfix_settle(&fix);
    segfix_run(&fix, 10000000);
    segfix_close(&fix);
    model = fix.m;
    if (segfix_open(&fix, 0) != 0 || fix.report.repaired != 0)
        fail_msg("page at %" PRIu64 " not repaired", offset);
    segfix_judge(&fix);
    segfix_close(&fix);
    if (fix.why[0] != 0)
        fail_msg("page at %" PRIu64 ": %s", offset, fix.why);
}

/* One damaged page outside of the log costs something, or stays, or brings back an old version. */
static void test_segments_damage_any_one_page_repaired(void **state)
{
    (void)state;
    begin(0);
    damage_and_judge(0, 1);
    damage_and_judge(4096, 1);
    for (uint32_t i = 0; i < 2 * PLACES * 5; i++)
        damage_and_judge(TABLES + (uint64_t)i * 4096, 1);
    end();
}

/* A mark that is lost makes the log be replayed, and nothing else. */
static void test_segments_damage_marks_replayed(void **state)
{
    (void)state;
    for (uint32_t i = 1; i < 4; i++) {
        begin(1);
        for (uint32_t k = 0; k < 2; k++)
            if ((i >> k & 1) != 0)
                snic_disk_bytes(fix.disk[0])[8192 + k * 4096 + 20] ^= 1;
        int r = segfix_open(&fix, 0);
        if (r == SNIC_ENOSPC) { /* all of the log does not fit the cache */
            segfix_close(&fix);
            fix.opts.cache_blocks = 512;
            r = segfix_open(&fix, 0);
        }
        assert_int_equal(r, 0);
        segfix_judge(&fix);
        end();
    }
}

/* Versions that are lost are made up, or the rest of the store is lost with them. */
static void spoil(uint64_t page, int zeros)
{
    unsigned char *b = snic_disk_bytes(fix.disk[0]) + TABLES + page * 4096;
    if (zeros)
        memset(b, 0, 4096);
    else
        b[70] ^= 1;
}

/* Zeros: as those of a place that never had a segment. */
static void both_copies(int first_zeros, int second_zeros)
{
    struct snic_segments_stat st;
    begin(0);
    spoil(2, first_zeros); /* blocks 128 ... 255 of the first segment */
    spoil(COPY / 4096 + 2, second_zeros);
    spoil(5, first_zeros); /* the second one's attributes */
    spoil(COPY / 4096 + 5, second_zeros);
    assert_int_equal(segfix_open(&fix, 0), 0);
    assert_int_equal(fix.damages, 2);
    assert_int_equal(fix.report.damaged, 2);
    assert_int_equal(snic_segments_find(fix.store, 2, &st), SNIC_ENOENT);
    assert_int_equal(snic_segments_find(fix.store, 1, &st), 0);
    assert_int_equal(st.damaged, 128);
    fix.m.seg[1].exists = 0;
    fix.m.seg[1].acked_exists = 0;
    fix.forgiving = 1;
    read_all(0, 4); /* 128, 129, 200, 255 */
    read_all(2, 0);
    uint32_t which[1] = {10};
    uint64_t wver[1] = {100};
    assert_int_equal(segfix_write(&fix, 0, which, wver, 1), 1);
    fix.last->expect[0] = SNIC_SEGMENTS_DAMAGED;
    segfix_settle(&fix);
    assert_int_equal(fix.last->q.result, SNIC_ECORRUPT);
    assert_int_equal(segfix_control(&fix, 0, SNIC_SEGMENTS_DELETE, 0), 1);
    segfix_settle(&fix);
    assert_int_equal(segfix_control(&fix, 0, SNIC_SEGMENTS_CREATE, 0), 1);
    segfix_settle(&fix);
    read_all(0, 0);
    for (uint32_t i = 0; i < 3; i++) {
        snic_segments_checkpoint(fix.store);
        segfix_run(&fix, 1000000);
        wver[0]++;
        assert_int_equal(segfix_write(&fix, 0, which, wver, 1), 1);
        segfix_settle(&fix);
    }
    segfix_close(&fix);
    assert_int_equal(segfix_open(&fix, 0), 0);
    assert_int_equal(fix.damages, 1); /* the place without attributes */
    segfix_judge(&fix);
    end();
}

static void test_segments_damage_both_copies_reported_and_refused(void **state)
{
    (void)state;
    both_copies(0, 0);
}

static void test_segments_damage_zeros_reported_and_refused(void **state)
{
    (void)state;
    both_copies(1, 1);
    both_copies(0, 1);
    both_copies(1, 0);
}

/* The log continues with a segment whose first page is lost: its blocks, all empty, are not taken
   for what was written, nor is the store refused. */
static void test_segments_damage_first_page_lost_log_goes_on(void **state)
{
    (void)state;
    for (int later = 0; later < 3; later++) {
        struct snic_segments_stat st;
        uint32_t which[1] = {3};
        uint64_t wver[1] = {100};
        begin(0);
        assert_int_equal(segfix_open(&fix, 0), 0);
        if (later == 0)
            assert_int_equal(segfix_control(&fix, 1, SNIC_SEGMENTS_SET_GEN, 7), 1);
        else if (later == 1)
            assert_int_equal(segfix_control(&fix, 1, SNIC_SEGMENTS_FENCE, 2), 1);
        else
            assert_int_equal(segfix_write(&fix, 1, which, wver, 1), 1);
        segfix_settle(&fix);
        segfix_close(&fix);
        segfix_unplug(&fix);
        snic_disk_sync(fix.disk[0]);
        segfix_plug(&fix);
        unsigned char *disk = snic_disk_bytes(fix.disk[0]);
        disk[TABLES + 5 * 4096 + 70] ^= 1; /* the second one's attributes */
        disk[TABLES + COPY + 5 * 4096 + 71] ^= 1;
        assert_int_equal(segfix_open(&fix, 0), 0);
        assert_int_equal(fix.damages, 1);
        assert_int_equal(snic_segments_find(fix.store, 2, &st), SNIC_ENOENT);
        fix.m.seg[1].exists = 0;
        fix.m.seg[1].acked_exists = 0;
        fix.forgiving = 1;
        read_all(0, 0);
        read_all(2, 0);
        segfix_close(&fix);
        assert_int_equal(segfix_open(&fix, 0), 0); /* nor is it made anew by that */
        assert_int_equal(fix.damages, 1);
        segfix_close(&fix);
        end();
    }
}

/* A log that is gone as a whole is not one that was empty. */
static void test_segments_damage_log_gone_refused(void **state)
{
    const uint64_t log = 65536 + 32768;
    (void)state;
    for (uint32_t i = 0; i < 2; i++) {
        begin(1);
        memset(snic_disk_bytes(fix.disk[0]) + log, i == 0 ? 0 : 0xff, TABLES - log);
        assert_int_equal(segfix_open(&fix, 0), SNIC_ECORRUPT);
        assert_true(fix.report.gaps == 1 && fix.report.last_missing == 0);
        segfix_close(&fix);
        assert_int_equal(segfix_open(&fix, SNIC_SEGMENTS_SALVAGE), 0);
        segfix_close(&fix);
        fix.why[0] = 0;
        end();
    }
}

/* What is missing in the log is not missed. */
static void test_segments_damage_log_refused_or_reported(void **state)
{
    uint64_t gaps = 0;
    uint64_t tails = 0;
    (void)state;
    begin(1);
    unsigned char *disk = snic_disk_bytes(fix.disk[0]);
    /* Records are found by what they hold: all of the log's pages with the last round's blocks. */
    for (uint64_t at = 65536 + 32768; at < TABLES; at += 4096) {
        if (disk[at] == 0 && memcmp(disk + at, disk + at + 1, 4095) == 0)
            continue;
        disk[at + 2000] ^= 1;
        fix.m = model;
        int r = segfix_open(&fix, 0);
        tails += r == 0 && fix.report.tails != 0;
        int strict = r == 0 && fix.report.tails != 0;
        segfix_close(&fix);
        if (r == SNIC_ECORRUPT) {
            gaps++;
            assert_true(fix.report.gaps > 0 && fix.report.last_missing != 0);
            struct snic_disk *kept = fix.disk[0];
            struct snic_disk *copy;
            assert_int_equal(snic_disk_clone(kept, &copy), 0);
            segfix_unplug(&fix);
            fix.disk[0] = copy;
            segfix_plug(&fix);
            assert_int_equal(segfix_open(&fix, SNIC_SEGMENTS_SALVAGE), 0);
            assert_true(fix.report.gaps > 0);
            segfix_close(&fix);
            segfix_unplug(&fix);
            snic_disk_close(copy);
            fix.disk[0] = kept;
            segfix_plug(&fix);
        } else {
            assert_int_equal(r, 0);
        }
        disk[at + 2000] ^= 1;
        if (strict)
            break; /* it was cut off, for good */
    }
    print_message("%" PRIu64 " gaps, %" PRIu64 " ends in doubt\n", gaps, tails);
    assert_true(gaps > 5 && tails == 1);
    fix.why[0] = 0;
    end();
}

/* A store opened as strict takes an end in doubt. */
static void test_segments_damage_tail_strict_refused(void **state)
{
    uint32_t refused = 0;
    (void)state;
    begin(1);
    unsigned char *disk = snic_disk_bytes(fix.disk[0]);
    for (uint64_t at = TABLES - 4096; at >= 65536 + 32768 && refused == 0; at -= 4096) {
        if (disk[at] == 0 && memcmp(disk + at, disk + at + 1, 4095) == 0)
            continue;
        disk[at + 2000] ^= 1;
        fix.m = model;
        int r = segfix_open(&fix, SNIC_SEGMENTS_STRICT);
        refused += r == SNIC_ECORRUPT;
        segfix_close(&fix);
        disk[at + 2000] ^= 1;
    }
    assert_int_equal(refused, 1);
    end();
}

/* A failed write or flush at any operation of a round loses something that was answered. */
static void test_segments_damage_write_fails_dead_reopened_whole(void **state)
{
    uint32_t died = 0;
    (void)state;
    for (uint32_t after = 1; after < 60; after += 3) {
        struct snic_fault p = {.kind = SNIC_FAULT_ERROR, .error = SNIC_EIO};
        begin(1);
        assert_int_equal(segfix_open(&fix, 0), 0);
        p.ops = 1u << SNIC_IO_WRITE | 1u << SNIC_IO_FLUSH;
        p.after = after;
        assert_int_equal(snic_disk_fault(fix.disk[0], &p), 0);
        fix.forgiving = 1;
        struct snic_rng rng;
        snic_rng_init(&rng, after);
        snic_segments_checkpoint(fix.store);
        for (uint32_t i = 0; i < 60; i++)
            segfix_step(&fix, &rng);
        segfix_settle(&fix);
        died += fix.failed;
        segfix_close(&fix);
        fix.forgiving = 0;
        snic_disk_faults_clear(fix.disk[0]);
        assert_int_equal(segfix_open(&fix, 0), 0);
        segfix_judge(&fix);
        end();
    }
    assert_true(died > 8);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_segments_damage_block_named_neighbours_read),
        cmocka_unit_test(test_segments_damage_any_one_page_repaired),
        cmocka_unit_test(test_segments_damage_marks_replayed),
        cmocka_unit_test(test_segments_damage_both_copies_reported_and_refused),
        cmocka_unit_test(test_segments_damage_zeros_reported_and_refused),
        cmocka_unit_test(test_segments_damage_first_page_lost_log_goes_on),
        cmocka_unit_test(test_segments_damage_log_gone_refused),
        cmocka_unit_test(test_segments_damage_log_refused_or_reported),
        cmocka_unit_test(test_segments_damage_tail_strict_refused),
        cmocka_unit_test(test_segments_damage_write_fails_dead_reopened_whole),
    };
    return SUPPORT_MAIN(argc, argv, tests);
}
