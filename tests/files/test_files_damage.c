/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * Damaged images: refused, or harmless, never believed.
 */
#include "filefix.h"
#include "filepattern.h"
#include "support.h"

#include <stdio.h>

#define SEG 16384u

static unsigned findings;

static void count_finding(void *ctx, int error, const char *what, uint64_t number)
{
    (void)ctx;
    (void)number;
    assert_non_null(what);
    findings += error != 0;
}

/* 0 when the image mounts and holds `a` as written, else mount's error; the checker agrees. */
static int damage_judge(struct filefix *fx, uint64_t id)
{
    static unsigned char buf[SEG];
    struct snic_files_info info;
    int rc = snic_files_probe(fx->io, &info);
    if (rc == 0) {
        size_t size = snic_files_memsize(&info, NULL);
        void *mem = support_guard_alloc(size, SNIC_FILES_ALIGN);
        findings = 0;
        rc = snic_files_examine(fx->io, mem, size, count_finding, NULL);
        if (rc != 0) /* a bad copy of the superblock is found, and the other serves */
            assert_true(findings != 0);
        support_guard_free(mem);
        assert_int_equal(filefix_try_mount(fx), rc);
    }
    if (rc != 0)
        return rc;
    assert_int_equal(snic_files_check(fx->files), 0);
    assert_int_equal(filefix_read(fx->files, id, 0, buf, sizeof(buf)), 1000);
    assert_true(is_pattern(buf, 1000, 1, 0));
    return filefix_unmount(fx);
}

static struct snic_disk *damage_make(struct filefix *fx, uint64_t *id)
{
    struct snic_disk *base;
    static unsigned char buf[1000];
    uint64_t other;
    unsigned i;
    memset(fx, 0, sizeof(*fx));
    filefix_fresh(fx);
    assert_int_equal(filefix_create(fx->files, 0, "a", id), 0);
    pattern(buf, sizeof(buf), 1, 0);
    assert_int_equal(filefix_write(fx->files, *id, 0, buf, 1000, SNIC_FILES_SYNC), 1000);
    for (i = 0; i < 25; i++) { /* into the second half of the journal */
        assert_int_equal(filefix_create(fx->files, 0, "b", &other), 0);
        assert_int_equal(filefix_delete(fx->files, 0, "b"), 0);
    }
    assert_int_equal(filefix_unmount(fx), 0);
    snic_disk_sync(fx->disk);
    assert_int_equal(snic_disk_clone(fx->disk, &base), 0);
    return base;
}

/* One wrong byte anywhere in the metadata: refused, or harmless; never believed. */
static void test_files_metadata_damaged_refused_or_harmless(void **state)
{
    struct filefix fx;
    struct snic_files_info info;
    struct snic_rng rng;
    struct snic_disk *base;
    uint64_t rounds = support_rounds(1500, 50000);
    uint64_t refused = 0;
    uint64_t id;
    uint64_t i;
    (void)state;
    snic_rng_init(&rng, support_seed());
    base = damage_make(&fx, &id);
    assert_int_equal(snic_files_probe(fx.io, &info), 0);
    for (i = 0; i < rounds; i++) {
        uint64_t at = snic_rng_below(&rng, info.data_offset);
        unsigned char *p = snic_disk_bytes(fx.disk);
        unsigned char was = p[at];
        if (i % 2 == 0) /* where the interesting bytes are: the beginning of units */
            at = at / 4096 * 4096 + snic_rng_below(&rng, 512);
        was = p[at];
        p[at] ^= (unsigned char)(1 + snic_rng_below(&rng, 255));
        refused += damage_judge(&fx, id) != 0;
        memcpy(p, snic_disk_bytes(base), (size_t)info.data_offset);
        assert_int_equal(p[at], was);
    }
    assert_true(refused > rounds / 100);
    snic_disk_close(base);
    filefix_close(&fx);
}

/* Where the small image of these tests has its parts: two chunks to a slot. */
#define SLOT(p) (32768u + (p)*3u * 16384u)
#define HALF(g) (SLOT(2u) + ((g)&1u) * 65536u)

static uint64_t slot_generation(struct filefix *fx, uint64_t parity)
{
    return snic_get_le64(snic_disk_bytes(fx->disk) + SLOT(parity) + 16);
}

static uint64_t newest_generation(struct filefix *fx)
{
    return snic_max_u64(slot_generation(fx, 0), slot_generation(fx, 1));
}

/* Two commits; then the checkpoint, if one is running, is finished. */
static void commit_some(struct filefix *fx)
{
    uint64_t id;
    assert_int_equal(filefix_create(fx->files, 0, "b", &id), 0);
    assert_int_equal(filefix_delete(fx->files, 0, "b"), 0);
    assert_int_equal(filefix_unmount(fx), 0);
    filefix_mount(fx);
}

/* A chunk of an older checkpoint in the place of a newer one is not taken: a lost write. */
static void test_files_chunk_of_older_checkpoint_refused(void **state)
{
    static unsigned char old[16384];
    struct filefix fx;
    uint64_t id;
    uint64_t g;
    (void)state;
    snic_disk_close(damage_make(&fx, &id));
    filefix_mount(&fx);
    g = newest_generation(&fx);
    memcpy(old, snic_disk_bytes(fx.disk) + SLOT(g & 1) + 16384, sizeof(old));
    while (newest_generation(&fx) != g + 2)
        commit_some(&fx);
    assert_int_equal(filefix_unmount(&fx), 0);
    assert_int_equal(damage_judge(&fx, id), 0);
    memcpy(snic_disk_bytes(fx.disk) + SLOT(g & 1) + 16384, old, sizeof(old));
    assert_int_equal(damage_judge(&fx, id), SNIC_ECORRUPT);
    filefix_close(&fx);
}

/* An entry lost from the middle of the journal is noticed by those behind it. */
static void test_files_journal_entry_lost_refused(void **state)
{
    struct filefix fx;
    unsigned char *half;
    uint64_t id;
    (void)state;
    snic_disk_close(damage_make(&fx, &id));
    filefix_mount(&fx);
    do { /* until the half in use holds two entries at least */
        commit_some(&fx);
        half = snic_disk_bytes(fx.disk) + HALF(newest_generation(&fx));
    } while (snic_get_le64(half + 16) != newest_generation(&fx) ||
             snic_get_le64(half + 4096 + 16) != newest_generation(&fx));
    assert_int_equal(filefix_unmount(&fx), 0);
    assert_int_equal(damage_judge(&fx, id), 0);
    memset(half, 0, 4096);
    assert_int_equal(damage_judge(&fx, id), SNIC_ECORRUPT);
    filefix_close(&fx);
}

/* A unit that is right, at the wrong place, is not taken; the copy of the superblock serves. */
static void test_files_superblock_misplaced_refused(void **state)
{
    struct filefix fx;
    struct snic_disk *base;
    unsigned char *p;
    uint64_t id;
    (void)state;
    base = damage_make(&fx, &id);
    p = snic_disk_bytes(fx.disk);
    memset(p, 0x11, 4096);
    assert_int_equal(damage_judge(&fx, id), 0);
    memcpy(p, p + 16384, 4096);
    assert_int_equal(damage_judge(&fx, id), 0);
    memset(p + 16384, 0x11, 4096);
    assert_int_equal(damage_judge(&fx, id), SNIC_ECORRUPT);
    memset(p, 0x11, 4096);
    assert_int_equal(damage_judge(&fx, id), SNIC_ENOENT);
    memcpy(p, snic_disk_bytes(base), 4096);
    p[4] = 2;
    assert_int_equal(damage_judge(&fx, id), SNIC_EVERSION);
    snic_disk_close(base);
    filefix_close(&fx);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_files_metadata_damaged_refused_or_harmless),
        cmocka_unit_test(test_files_chunk_of_older_checkpoint_refused),
        cmocka_unit_test(test_files_journal_entry_lost_refused),
        cmocka_unit_test(test_files_superblock_misplaced_refused),
    };
    return SUPPORT_MAIN(argc, argv, tests);
}
