/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * A log whose device has changed behind its back: flipped bits, blocks that are empty, old or of
 * another place. Nothing is returned that was not appended so; what is missing is reported, and
 * whether it had been durable; the verdict is never CLEAN when a record is missing.
 */
#include <inttypes.h>

#include "support.h"
#include "wal/wal_priv.h"
#include "walfix.h"

enum { POSITIONS = 8192 };

static struct walfix fix;        /* the log as it should be */
static struct walfix probe;      /* a damaged copy           */
static struct snic_disk *before; /* the image some time earlier */
static unsigned char whole[POSITIONS];
static uint64_t last_base; /* positions above are in the last batch, which has several blocks */
static uint32_t block;

static uint64_t verdicts[3];

static void settings_of(struct walfix *f)
{
    memset(f, 0, sizeof(*f));
    f->disk_opts.sector = 512;
    f->disk_opts.size = 8 * 4096 + 13 * 32 * (uint64_t)block;
    f->opts.segment_bytes = 32 * block;
    f->opts.block_bytes = block;
    f->opts.batch_bytes = 16 * block;
    f->m.length_max = block;
}

/* Some laps; the last batch has several blocks, or, of one record, one. */
static void build(uint64_t seed, uint32_t records, uint32_t last)
{
    struct snic_wal_info info;
    struct snic_rng rng;
    uint64_t batches;
    settings_of(&fix);
    walfix_start(&fix, seed);
    snic_rng_init(&rng, seed);
    before = NULL;
    assert_int_equal(walfix_open(&fix, SNIC_WAL_CREATE), 0);
    assert_int_equal(walfix_meta(&fix), 0);
    for (uint32_t k = 0; k < records;) {
        uint32_t key = (uint32_t)snic_rng_below(&rng, WALFIX_SOME);
        if (walfix_append(&fix, key, k % 7 == 0 ? SNIC_WAL_TOMBSTONE : 0) != 0 || k % 4 == 0)
            walfix_run(&fix, 1000000);
        k++;
        if (k == records / 2)
            assert_int_equal(snic_disk_clone(fix.disk, &before), 0);
    }
    walfix_settle(&fix);
    walfix_run(&fix, 100000000); /* compaction has come to rest */
    fix.m.long_from = fix.m.ts + 1;
    do { /* until they are one batch, which no segment's end divides */
        snic_wal_inspect(fix.wal, &info);
        batches = info.batches;
        last_base = fix.m.durable;
        for (uint32_t k = 0; k < last; k++)
            assert_int_equal(walfix_append(&fix, k, last == 1 ? SNIC_WAL_TOMBSTONE : 0), 0);
        walfix_settle(&fix);
        snic_wal_inspect(fix.wal, &info);
    } while (info.batches != batches + 1);
    snic_disk_sync(fix.disk);
    walfix_close(&fix);
}

static void unbuild(void)
{
    assert_string_equal(fix.why, "");
    walfix_end(&fix);
    snic_disk_close(before);
}

/* Open the copy; its report has to fit what is missing. */
static void examine(const char *what, uint64_t at, int lied)
{
    static unsigned char seen[POSITIONS];
    const struct snic_wal_report *p = &probe.report;
    uint64_t missing = 0;
    uint64_t run_end = 0;
    memset(seen, 0, sizeof(seen));
    probe.seen = seen;
    probe.seen_max = POSITIONS;
    walfix_model_copy(&probe.m, &fix.m);
    int e = walfix_open(&probe, 0);
    if (e != 0)
        fail_msg("%s at %" PRIu64 ": open: %s", what, at, snic_strerror(e));
    for (uint64_t i = 1; i < POSITIONS; i++) {
        if (seen[i] && !whole[i])
            fail_msg("%s at %" PRIu64 ": position %" PRIu64 " is new", what, at, i);
        if (whole[i] && !seen[i] && missing == 0)
            missing = i;
        if (missing != 0 && run_end == 0 && seen[i])
            run_end = i - 1;
    }
    if (probe.why[0] != 0)
        fail_msg("%s at %" PRIu64 ": %s", what, at, probe.why);
    verdicts[p->verdict]++;
    uint32_t want = missing == 0           ? p->verdict
                    : missing <= last_base ? SNIC_WAL_CORRUPT
                                           : SNIC_WAL_SUSPECT;
    /* The last write without a trace: see CLEAN in the header. */
    if (lied && missing == last_base + 1 && p->last == last_base && p->verdict == SNIC_WAL_CLEAN)
        want = SNIC_WAL_CLEAN;
    if (p->verdict != want || (missing == 0 && p->verdict == SNIC_WAL_CORRUPT))
        fail_msg("%s at %" PRIu64 ": first missing %" PRIu64 " of %" PRIu64
                 " (last batch from %" PRIu64 "): verdict %u",
                 what, at, missing, p->last, last_base + 1, p->verdict);
    if (p->verdict == SNIC_WAL_CORRUPT &&
        ((p->first_missing != 0 && p->first_missing != missing) ||
         (run_end != 0 && p->last_missing > run_end) || p->last_missing < missing))
        fail_msg("%s at %" PRIu64 ": %" PRIu64 " to %" PRIu64 " missing, reported %" PRIu64
                 " to %" PRIu64,
                 what, at, missing, run_end, p->first_missing, p->last_missing);
    if (p->verdict != SNIC_WAL_CLEAN) {
        probe.m.durable = snic_wal_durable(probe.wal);
        assert_int_equal(walfix_append(&probe, 1, 0), SNIC_ECORRUPT);
        walfix_accept(&probe);
        assert_int_equal(probe.failed, 0);
        /* Taken once is taken: also if nothing is appended. */
        walfix_close(&probe);
        assert_int_equal(walfix_open(&probe, 0), 0);
        if (probe.report.verdict == SNIC_WAL_SUSPECT ||
            (want == SNIC_WAL_SUSPECT && probe.report.verdict != SNIC_WAL_CLEAN))
            fail_msg("%s at %" PRIu64 ": taken, and opened again: verdict %u", what, at,
                     probe.report.verdict);
        if (probe.report.verdict != SNIC_WAL_CLEAN)
            walfix_accept(&probe);
        assert_int_equal(walfix_append(&probe, 1, SNIC_WAL_TOMBSTONE), 0);
        walfix_settle(&probe);
        walfix_close(&probe);
        assert_int_equal(walfix_open(&probe, 0), 0);
        if (probe.report.verdict == SNIC_WAL_SUSPECT || probe.got[1] != probe.m.newest[1])
            fail_msg("%s at %" PRIu64 ": after accepting: verdict %u", what, at,
                     probe.report.verdict);
        if (want == SNIC_WAL_SUSPECT)
            assert_int_equal(probe.report.verdict, SNIC_WAL_CLEAN);
    }
    if (probe.why[0] != 0)
        fail_msg("%s at %" PRIu64 ", afterwards: %s", what, at, probe.why);
    walfix_close(&probe);
}

static unsigned char *damage_begin(void)
{
    assert_int_equal(snic_disk_clone(fix.disk, &probe.disk), 0);
    walfix_plug(&probe);
    return snic_disk_bytes(probe.disk);
}

static void damage_end(void)
{
    walfix_unplug(&probe);
    snic_disk_close(probe.disk);
}

/* The report of the undamaged log. */
static void reference(void)
{
    settings_of(&probe);
    walfix_start(&probe, 3);
    walfix_unplug(&probe);
    snic_disk_close(probe.disk);
    memset(whole, 0, sizeof(whole));
    (void)damage_begin();
    probe.seen = whole;
    probe.seen_max = POSITIONS;
    walfix_model_copy(&probe.m, &fix.m);
    assert_int_equal(walfix_open(&probe, 0), 0);
    assert_int_equal(probe.report.verdict, SNIC_WAL_CLEAN);
    assert_int_equal(probe.report.damaged_blocks, 0);
    assert_int_equal(probe.report.last, fix.m.durable);
    walfix_judge(&probe);
    assert_string_equal(probe.why, "");
    walfix_close(&probe);
    damage_end();
}

static void reference_end(void)
{
    snic_loop_close(probe.loop);
    snic_world_close(probe.world);
}

static void damage(uint64_t seed, uint64_t trials)
{
    uint64_t size = fix.disk_opts.size;
    uint64_t blocks = size / block;
    struct snic_rng rng;
    snic_rng_init(&rng, seed);
    for (uint64_t i = 0; i < trials; i++) {
        unsigned char *bytes = damage_begin();
        uint64_t at = snic_rng_below(&rng, size);
        uint64_t b = at / block;
        uint64_t other = snic_rng_below(&rng, blocks);
        const char *what = "";
        switch (i % 6) {
        case 0:
        case 1:
            what = "bit flipped";
            bytes[at] ^= (unsigned char)(1u << snic_rng_below(&rng, 8));
            break;
        case 2:
            what = "bits flipped in a segment's first block";
            at = 8 * 4096 + snic_rng_below(&rng, 13) * 32 * block + snic_rng_below(&rng, block);
            bytes[at] ^= (unsigned char)(1u << snic_rng_below(&rng, 8));
            break;
        case 3:
            what = "block empty";
            memset(bytes + b * block, 0, block);
            break;
        case 4:
            what = "block of an earlier time";
            memcpy(bytes + b * block, snic_disk_bytes(before) + b * block, block);
            break;
        default:
            what = "block of another place";
            if (b * block < 8 * 4096 || other * block < 8 * 4096)
                break;
            memcpy(bytes + b * block, bytes + other * block, block);
            break;
        }
        examine(what, at, i % 6 >= 3);
        damage_end();
    }
}

/* A record is lost without a report, or with a wrong one, or something else is returned. */
static void test_wal_damage_anywhere_reported_and_nothing_invented(void **state)
{
    (void)state;
    for (uint32_t i = 0; i < 4; i++) {
        block = i % 2 == 0 ? 512 : 1024;
        build(support_seed() + i, 150 + 700 * i, i < 2 ? 5 : 1);
        reference();
        damage(support_seed() * 3 + i, support_rounds(600, 40000));
        reference_end();
        unbuild();
    }
    print_message("%" PRIu64 " clean, %" PRIu64 " suspect, %" PRIu64 " corrupt\n", verdicts[0],
                  verdicts[1], verdicts[2]);
    assert_true(verdicts[1] > 4 && verdicts[2] > 100);
}

/* Runs @from up to @to of a seed: damage in three places. */
static void damage_thrice(uint64_t seed, uint64_t from, uint64_t to)
{
    struct snic_rng rng;
    block = 512;
    build(seed + 9, 600, 5);
    reference();
    snic_rng_init(&rng, seed);
    for (uint64_t i = 0; i < to; i++) {
        uint64_t at[3];
        for (uint32_t k = 0; k < 3; k++)
            at[k] = 8 * 4096 + snic_rng_below(&rng, fix.disk_opts.size - 8 * 4096);
        if (i < from)
            continue;
        unsigned char *bytes = damage_begin();
        for (uint32_t k = 0; k < 3; k++)
            bytes[at[k]] ^= 4;
        examine("three bits", at[2], 0);
        damage_end();
    }
    reference_end();
    unbuild();
}

/* Damage in several places: the gaps are counted, what is whole is returned. */
static void test_wal_damage_twice_both_reported(void **state)
{
    (void)state;
    damage_thrice(support_seed(), 0, support_rounds(300, 10000));
    /* A log that ends with its segment; in the next one two blocks are damaged, one of them within
       the reach of a batch, the other within that of the batch after the one that is accepted. */
    damage_thrice(1795686385556502, 2229, 2230);
}

/*
 * The last write is there in part, which is no damage, and something in front of it has
 * rotted, up to the whole write before: that had been durable, and is reported lost.
 */
static void test_wal_damage_before_torn_end_reported(void **state)
{
    (void)state;
    block = 512;
    for (uint32_t records = 25; records <= 600; records += 575) {
        struct wal_geo g;
        struct wal_block b, last = {0};
        build(support_seed(), records, 5);
        reference();
        const unsigned char *right = snic_disk_bytes(fix.disk);
        assert_int_equal(wal_super_decode(&g, right), 0);
        wal_geo_derive(&g);
        uint64_t above = SNIC_WAL__GENERATION_MAX - SNIC_WAL__GENERATION_MAX % g.segments;
        for (uint64_t i = 0; i < (uint64_t)g.segments * g.segment_blocks; i++) {
            uint32_t in = (uint32_t)(i % g.segment_blocks);
            uint64_t gen = above + i / g.segment_blocks;
            if (wal_block_decode(&g, &b, gen, in, right + wal_offset(&g, gen, in)) ==
                    WAL_BLOCK_STALE &&
                (b.generation > last.generation ||
                 (b.generation == last.generation && b.index > last.index)))
                last = b;
        }
        assert_true(last.batch_end - last.batch_first > 1 && last.base == last_base);
        uint32_t first = last.batch_first;
        for (uint32_t from = 0; from < first; from++) {
            for (uint32_t to = from + 1; to <= first; to += to == from + 1 ? first - to : 1) {
                unsigned char *bytes = damage_begin();
                for (uint32_t i = from; i < to; i++)
                    bytes[wal_offset(&g, last.generation, i) + 7] ^= 1;
                bytes[wal_offset(&g, last.generation, first) + 7] ^= 1;
                examine("blocks before a torn end", from * 1000 + to, 0);
                damage_end();
                if (to == first)
                    break;
            }
        }
        /* A whole segment, the one that compaction would begin with among them. */
        for (uint64_t gen = last.oldest; gen < last.generation; gen++) {
            /* (With nothing of a segment, and not the beginning of the next, that is not found.) */
            uint32_t found = gen + 1 < last.generation || first > 0;
            for (uint32_t torn = 0; torn < 1 + found; torn++) {
                unsigned char *bytes = damage_begin();
                memset(bytes + wal_offset(&g, gen, 0), 0x77, g.segment);
                bytes[wal_offset(&g, last.generation, first) + 7] ^= (unsigned char)torn;
                examine("a segment", gen, 0);
                damage_end();
            }
        }
        reference_end();
        unbuild();
    }
}

/*
 * A record with other bytes, or with another history, in blocks whose checksums are good: as memory
 * that goes wrong before the block's checksum is made would do it.
 */
static void test_wal_damage_inside_good_block_record_not_returned(void **state)
{
    uint64_t gaps = 0;
    (void)state;
    block = 512;
    build(support_seed(), 60, 5);
    reference();
    for (uint32_t i = 0; i < 300; i++) {
        unsigned char *bytes = damage_begin();
        struct wal_geo g;
        struct wal_block b;
        assert_int_equal(wal_super_decode(&g, bytes), 0);
        wal_geo_derive(&g);
        unsigned char *at = bytes + wal_offset(&g, 1, i / 15);
        if (wal_block_decode(&g, &b, 1, i / 15, at) == WAL_BLOCK_LIVE && b.used > 0) {
            uint32_t where = SNIC_WAL__BLOCK_HEAD + i * 37 % b.used;
            at[where] ^= 1u << i % 8;
            wal_block_encode(&g, &b, at);
            walfix_model_copy(&probe.m, &fix.m);
            assert_int_equal(walfix_open(&probe, 0), 0);
            assert_string_equal(probe.why, "");
            /* Unless it hit what fills up a record or a block, one record or two are missing. */
            assert_true(probe.report.verdict == SNIC_WAL_CORRUPT ||
                        probe.report.records == fix.m.durable || probe.report.last < fix.m.durable);
            gaps += probe.report.gaps;
            walfix_close(&probe);
        }
        damage_end();
    }
    assert_true(gaps > 150);
    reference_end();
    unbuild();
}

/*
 * A whole record that follows from another one than stands before it: each checksum is good, but
 * the records are a chain.
 */
static void test_wal_damage_record_of_another_history_not_returned(void **state)
{
    uint32_t forged = 0;
    (void)state;
    block = 512;
    build(support_seed(), 60, 5);
    reference();
    for (uint32_t i = 1; i < 32; i++) {
        unsigned char *bytes = damage_begin();
        struct wal_reader reader;
        struct wal_record rec;
        struct wal_geo g;
        struct wal_block b;
        assert_int_equal(wal_super_decode(&g, bytes), 0);
        wal_geo_derive(&g);
        unsigned char *at = bytes + wal_offset(&g, 1, i);
        memset(&reader, 0, sizeof(reader));
        wal_reader_start(&reader, 1);
        if (wal_block_decode(&g, &b, 1, i, at) == WAL_BLOCK_LIVE && b.first != 0) {
            static unsigned char memory[2 * 65536];
            reader.memory = memory;
            wal_reader_block(&reader, &b, at);
            if (wal_reader_next(&reader, &g, &rec) > 0) {
                rec.prev ^= 1;
                (void)wal_record_encode(&g, 1, &rec, at + b.first);
                wal_block_encode(&g, &b, at);
                walfix_model_copy(&probe.m, &fix.m);
                assert_int_equal(walfix_open(&probe, 0), 0);
                assert_string_equal(probe.why, "");
                assert_int_equal(probe.report.verdict, SNIC_WAL_CORRUPT);
                assert_true(probe.report.gaps > 0 && probe.report.first_missing <= rec.r.position &&
                            probe.report.last_missing >= rec.r.position);
                walfix_close(&probe);
                forged++;
            }
        }
        damage_end();
    }
    assert_true(forged > 5);
    reference_end();
    unbuild();
}

/* One superblock or one place of the membership file is lost: repaired. Both: reported. */
static void test_wal_damage_head_repaired_or_reported(void **state)
{
    static const uint32_t super[2] = {0, 5 * 4096};
    static const uint32_t meta[2] = {4096, 3 * 4096};
    const void *bytes;
    uint32_t length;
    (void)state;
    block = 512;
    build(support_seed(), 60, 5);
    reference();
    for (uint32_t i = 0; i < 2; i++) {
        unsigned char *p = damage_begin();
        unsigned char *q = snic_disk_bytes(fix.disk);
        p[super[i] + 17] ^= 1;
        memset(p + meta[i] + 70, 0x55, 9);
        walfix_model_copy(&probe.m, &fix.m);
        assert_int_equal(walfix_open(&probe, 0), 0);
        walfix_judge(&probe);
        assert_string_equal(probe.why, "");
        assert_int_equal(probe.report.meta, 1);
        assert_memory_equal(p, q, 8 * 4096); /* repaired */
        walfix_close(&probe);
        p[super[i] + 17] ^= 1; /* and the other one may go now */
        p[super[1 - i] + 17] ^= 1;
        p[super[i] + 17] ^= 1;
        assert_int_equal(walfix_open(&probe, 0), 0);
        walfix_close(&probe);
        p[super[0]] ^= 1; /* this one does not even look like ours */
        p[super[1] + 100] ^= 1;
        assert_int_equal(walfix_open(&probe, SNIC_WAL_CREATE), SNIC_ECORRUPT);
        assert_int_equal(probe.report.records, 0);
        damage_end();
        p = damage_begin();
        p[meta[0] + 1] ^= 1;
        p[meta[1] + 20] ^= 1;
        walfix_model_copy(&probe.m, &fix.m);
        assert_int_equal(walfix_open(&probe, 0), 0);
        assert_int_equal(probe.report.meta, 2);
        assert_int_equal(snic_wal_meta_get(probe.wal, &bytes, &length), SNIC_ECORRUPT);
        assert_int_equal(walfix_meta(&probe), 0); /* a new one may be written */
        walfix_run(&probe, 1000000);
        assert_int_equal(snic_wal_meta_get(probe.wal, &bytes, &length), 0);
        walfix_close(&probe);
        damage_end();
    }
    reference_end();
    unbuild();
}

/* Compaction meets a block that has rotted since: it must not drop what it cannot read. */
static void test_wal_damage_before_compaction_dead_or_passed(void **state)
{
    uint32_t died = 0;
    (void)state;
    for (uint32_t i = 0; i < 60; i++) {
        uint32_t k = 0;
        unsigned char *bytes;
        block = 512;
        settings_of(&fix);
        walfix_start(&fix, support_seed() + i);
        assert_int_equal(walfix_open(&fix, SNIC_WAL_CREATE), 0);
        for (; k < 60; k++) {
            assert_int_equal(walfix_append(&fix, k % 40, 0), 0);
            walfix_settle(&fix);
        }
        bytes = snic_disk_bytes(fix.disk);
        bytes[8 * 4096 + 32 * 512 + i * 273] ^= 8; /* generation 1 */
        for (; k < 2500 && fix.failed == 0; k++)
            if (walfix_append(&fix, k % 40, 0) != 0 || k % 5 == 0)
                walfix_run(&fix, 1000000);
        assert_int_equal(fix.failed, SNIC_ECORRUPT);
        died++;
        walfix_close(&fix);
        /* The next open reports it; taken as it is, the log continues. */
        assert_int_equal(walfix_open(&fix, 0), 0);
        assert_int_equal(fix.report.verdict, SNIC_WAL_CORRUPT);
        fix.why[0] = 0;
        walfix_accept(&fix);
        for (k = 0; k < 2500 && fix.failed == 0; k++)
            if (walfix_append(&fix, k % 40, 0) != 0 || k % 5 == 0)
                walfix_run(&fix, 1000000);
        assert_int_equal(fix.failed, 0);
        walfix_settle(&fix);
        walfix_close(&fix);
        assert_int_equal(walfix_open(&fix, 0), 0);
        assert_int_equal(fix.report.verdict, SNIC_WAL_CLEAN); /* compaction has passed it */
        walfix_end(&fix);
    }
    assert_int_equal(died, 60);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_wal_damage_anywhere_reported_and_nothing_invented),
        cmocka_unit_test(test_wal_damage_twice_both_reported),
        cmocka_unit_test(test_wal_damage_before_torn_end_reported),
        cmocka_unit_test(test_wal_damage_inside_good_block_record_not_returned),
        cmocka_unit_test(test_wal_damage_record_of_another_history_not_returned),
        cmocka_unit_test(test_wal_damage_head_repaired_or_reported),
        cmocka_unit_test(test_wal_damage_before_compaction_dead_or_passed),
    };
    return SUPPORT_MAIN(argc, argv, tests);
}
