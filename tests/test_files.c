/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * The file service by its direct interface on a simulated disk: the contract, one statement
 * of the header at a time.
 */
#include "filefix.h"
#include "support.h"

#include <stdio.h>

#define SEG 16384u

static unsigned char pattern_byte(uint64_t tag, uint64_t at)
{
    return (unsigned char)((tag * 131 + at * 7 + (at >> 8) * 13) | 1);
}

static void pattern(unsigned char *p, size_t n, uint64_t tag, uint64_t at)
{
    size_t i;
    for (i = 0; i < n; i++)
        p[i] = pattern_byte(tag, at + i);
}

static int is_pattern(const unsigned char *p, size_t n, uint64_t tag, uint64_t at)
{
    size_t i;
    for (i = 0; i < n; i++)
        if (p[i] != pattern_byte(tag, at + i))
            return 0;
    return 1;
}

static int is_zero(const unsigned char *p, size_t n)
{
    size_t i;
    for (i = 0; i < n; i++)
        if (p[i] != 0)
            return 0;
    return 1;
}

/* Format refuses what it documents, and a device without an image says so. */
static void test_files_format_options_refused(void **state)
{
    struct filefix fx;
    struct snic_files_info info;
    struct snic_files_format_opts o;
    (void)state;
    memset(&fx, 0, sizeof(fx));
    filefix_open(&fx);
    assert_int_equal(snic_files_probe(fx.io, &info), SNIC_ENOENT);
    o = fx.format;
    o.segment_bytes = 12345;
    assert_int_equal(snic_files_format(fx.io, &o), SNIC_EINVAL);
    o = fx.format;
    o.block_bytes = 512;
    assert_int_equal(snic_files_format(fx.io, &o), SNIC_EINVAL);
    o = fx.format;
    o.segment_bytes = 2048;
    assert_int_equal(snic_files_format(fx.io, &o), SNIC_EINVAL);
    o = fx.format;
    o.files_max = (1u << 23) + 1;
    assert_int_equal(snic_files_format(fx.io, &o), SNIC_EINVAL);
    o = fx.format;
    o.journal_bytes = 4096;
    assert_int_equal(snic_files_format(fx.io, &o), SNIC_EINVAL);
    o = fx.format;
    o.reserved = 1;
    assert_int_equal(snic_files_format(fx.io, &o), SNIC_EINVAL);
    o = fx.format;
    o.segment_bytes = 2u << 20;
    assert_int_equal(snic_files_format(fx.io, &o), SNIC_ENOSPC);
    o = fx.format;
    o.opts_size = 0;
    assert_int_equal(snic_files_format(fx.io, &o), SNIC_EINVAL);
    assert_int_equal(snic_files_probe(fx.io, &info), SNIC_ENOENT);
    assert_int_equal(snic_files_format(fx.io, &fx.format), 0);
    assert_int_equal(snic_files_probe(fx.io, &info), 0);
    assert_int_equal(info.segment_bytes, SEG);
    assert_int_equal(info.image_id, 77);
    filefix_close(&fx);
}

/* A mounted image says what probe said of it, whatever has been written since. */
static void test_files_mounted_info_as_probed(void **state)
{
    struct filefix fx;
    struct snic_files_info probed;
    struct snic_files_info info;
    uint64_t a;
    (void)state;
    memset(&fx, 0, sizeof(fx));
    filefix_open(&fx);
    assert_int_equal(snic_files_format(fx.io, &fx.format), 0);
    assert_int_equal(snic_files_probe(fx.io, &probed), 0);
    filefix_mount(&fx);
    assert_int_equal(filefix_create(fx.files, 0, "a", &a), 0);
    assert_int_equal(filefix_write(fx.files, a, 3 * SEG, "x", 1, SNIC_FILES_SYNC), 1);
    memset(&info, 0x55, sizeof(info));
    snic_files_get_info(fx.files, &info);
    assert_memory_equal(&info, &probed, sizeof(info));
    assert_int_equal(filefix_unmount(&fx), 0);
    assert_int_equal(snic_files_probe(fx.io, &probed), 0);
    assert_memory_equal(&info, &probed, sizeof(info));
    filefix_close(&fx);
}

/* Mount takes exactly memsize bytes; one less, or a crooked pointer, is refused. */
static void test_files_mount_memory_exact(void **state)
{
    struct filefix fx;
    struct snic_files_info info;
    struct snic_files *f;
    size_t size;
    unsigned char *mem;
    (void)state;
    memset(&fx, 0, sizeof(fx));
    filefix_open(&fx);
    assert_int_equal(snic_files_format(fx.io, &fx.format), 0);
    assert_int_equal(snic_files_probe(fx.io, &info), 0);
    size = snic_files_memsize(&info, NULL);
    mem = support_guard_alloc(size, SNIC_FILES_ALIGN);
    assert_int_equal(snic_files_mount(&f, mem, size - 1, fx.io, NULL), SNIC_ENOSPC);
    assert_int_equal(snic_files_mount(&f, mem, 64, fx.io, NULL), SNIC_ENOSPC);
    assert_int_equal(snic_files_mount(&f, mem + 64, size - 64, fx.io, NULL), SNIC_EINVAL);
    assert_int_equal(snic_files_mount(&f, mem, size, fx.io, NULL), 0);
    assert_int_equal(snic_files_unmount(f), 0);
    support_guard_free(mem);
    fx.mount.depth = 3;
    assert_int_equal(snic_files_memsize(&info, &fx.mount), 0);
    fx.mount.depth = 0;
    fx.mount.bounce_bytes = 5000;
    assert_int_equal(snic_files_memsize(&info, &fx.mount), 0);
    fx.mount.bounce_bytes = 0;
    fx.mount.flags = 1;
    assert_int_equal(snic_files_memsize(&info, &fx.mount), 0);
    filefix_close(&fx);
}

/* Names and directories: every error of the control operations. */
static void test_files_names_errors_told_apart(void **state)
{
    struct filefix fx;
    char name[300];
    uint64_t dir;
    uint64_t a;
    uint64_t b;
    (void)state;
    memset(&fx, 0, sizeof(fx));
    filefix_fresh(&fx);
    memset(name, 'x', sizeof(name));
    name[256] = 0;
    assert_int_equal(filefix_create(fx.files, 0, name, &a), SNIC_ENAMETOOLONG);
    name[255] = 0;
    assert_int_equal(filefix_create(fx.files, 0, name, &a), 0);
    assert_int_equal(filefix_create(fx.files, 0, "", &a), SNIC_EINVAL);
    assert_int_equal(filefix_create(fx.files, 0, ".", &a), SNIC_EINVAL);
    assert_int_equal(filefix_create(fx.files, 0, "..", &a), SNIC_EINVAL);
    assert_int_equal(filefix_create(fx.files, 0, "a/b", &a), SNIC_EINVAL);
    assert_int_equal(filefix_create(fx.files, 0, "a", &a), 0);
    assert_int_equal(filefix_create(fx.files, 0, "a", &b), SNIC_EEXIST);
    assert_int_equal(filefix_create(fx.files, a, "x", &b), SNIC_ENOTDIR);
    assert_int_equal(filefix_create(fx.files, 12345, "x", &b), SNIC_ENOENT);
    assert_int_equal(filefix_mkdir(fx.files, "a", &dir), SNIC_EEXIST);
    assert_int_equal(filefix_mkdir(fx.files, "d", &dir), 0);
    assert_int_equal(filefix_create(fx.files, dir, "a", &b), 0);
    assert_true(a != b);
    assert_int_equal(filefix_rmdir(fx.files, "d"), SNIC_ENOTEMPTY);
    assert_int_equal(filefix_rmdir(fx.files, "a"), SNIC_ENOTDIR);
    assert_int_equal(filefix_rmdir(fx.files, "e"), SNIC_ENOENT);
    assert_int_equal(filefix_delete(fx.files, 0, "d"), SNIC_EISDIR);
    assert_int_equal(filefix_delete(fx.files, 0, "e"), SNIC_ENOENT);
    assert_int_equal(filefix_write(fx.files, dir, 0, "x", 1, 0), SNIC_EISDIR);
    assert_int_equal(filefix_write(fx.files, SNIC_FILES_ROOT, 0, "x", 1, 0), SNIC_EISDIR);
    assert_int_equal(filefix_delete(fx.files, dir, "a"), 0);
    assert_int_equal(filefix_write(fx.files, b, 0, "x", 1, 0), SNIC_ENOENT);
    assert_int_equal(filefix_rmdir(fx.files, "d"), 0);
    assert_int_equal(filefix_create(fx.files, dir, "a", &b), SNIC_ENOENT);
    assert_int_equal(snic_files_check(fx.files), 0);
    filefix_close(&fx);
}

/* CREATE with REPLACE opens what is there; ids are never used again. */
static void test_files_created_again_same_or_new_id(void **state)
{
    struct filefix fx;
    struct snic_files_req r;
    uint64_t a;
    uint64_t b;
    int i;
    (void)state;
    memset(&fx, 0, sizeof(fx));
    filefix_fresh(&fx);
    assert_int_equal(filefix_create(fx.files, 0, "a", &a), 0);
    memset(&r, 0, sizeof(r));
    r.op = SNIC_FILES_CREATE;
    r.flags = SNIC_FILES_REPLACE;
    r.name = "a";
    r.name_size = 1;
    assert_int_equal(filefix_op(fx.files, &r), 0);
    assert_int_equal(r.id, a);
    for (i = 0; i < 100; i++) {
        assert_int_equal(filefix_delete(fx.files, 0, "a"), 0);
        if (i % 10 == 0) {
            assert_int_equal(filefix_unmount(&fx), 0);
            filefix_mount(&fx);
        }
        assert_int_equal(filefix_create(fx.files, 0, "a", &b), 0);
        assert_true(b != a);
        a = b;
    }
    filefix_close(&fx);
}

/* files_max and dirs_max are limits; one deletion makes room for one. */
static void test_files_table_full_create_refused(void **state)
{
    struct filefix fx;
    char name[16];
    uint64_t id;
    unsigned i;
    (void)state;
    memset(&fx, 0, sizeof(fx));
    filefix_fresh(&fx);
    for (i = 0; i < 32; i++) {
        (void)snprintf(name, sizeof(name), "f%u", i);
        assert_int_equal(filefix_create(fx.files, 0, name, &id), 0);
    }
    assert_int_equal(filefix_create(fx.files, 0, "more", &id), SNIC_ENOSPC);
    for (i = 0; i < 8; i++) {
        (void)snprintf(name, sizeof(name), "d%u", i);
        assert_int_equal(filefix_mkdir(fx.files, name, &id), 0);
    }
    assert_int_equal(filefix_mkdir(fx.files, "more", &id), SNIC_ENOSPC);
    assert_int_equal(filefix_delete(fx.files, 0, "f7"), 0);
    assert_int_equal(filefix_create(fx.files, 0, "more", &id), 0);
    assert_int_equal(filefix_unmount(&fx), 0);
    filefix_mount(&fx);
    assert_int_equal(filefix_find(fx.files, 0, "more", &id, NULL), 0);
    assert_int_equal(filefix_find(fx.files, 0, "f7", &id, NULL), SNIC_ENOENT);
    filefix_close(&fx);
}

/* RENAME moves between directories, keeps the id, and replaces only when asked. */
static void test_files_renamed_found_under_new_name(void **state)
{
    struct filefix fx;
    uint64_t dir;
    uint64_t a;
    uint64_t b;
    uint64_t id;
    (void)state;
    memset(&fx, 0, sizeof(fx));
    filefix_fresh(&fx);
    assert_int_equal(filefix_mkdir(fx.files, "d", &dir), 0);
    assert_int_equal(filefix_create(fx.files, 0, "a", &a), 0);
    assert_int_equal(filefix_create(fx.files, dir, "b", &b), 0);
    assert_int_equal(filefix_rename(fx.files, 0, "a", dir, "b", 0), SNIC_EEXIST);
    assert_int_equal(filefix_rename(fx.files, 0, "x", dir, "b", 0), SNIC_ENOENT);
    assert_int_equal(filefix_rename(fx.files, 0, "a", b, "b", 0), SNIC_ENOTDIR);
    assert_int_equal(filefix_rename(fx.files, 0, "d", dir, "d", 0), SNIC_EINVAL);
    assert_int_equal(filefix_rename(fx.files, 0, "a", 0, "d", SNIC_FILES_REPLACE), SNIC_EISDIR);
    assert_int_equal(filefix_rename(fx.files, 0, "a", 0, "a", 0), 0);
    assert_int_equal(filefix_rename(fx.files, 0, "a", dir, "b", SNIC_FILES_REPLACE), 0);
    assert_int_equal(filefix_find(fx.files, dir, "b", &id, NULL), 0);
    assert_int_equal(id, a);
    assert_int_equal(filefix_find(fx.files, 0, "a", &id, NULL), SNIC_ENOENT);
    assert_int_equal(filefix_read(fx.files, b, 0, &id, 1), SNIC_ENOENT);
    assert_int_equal(filefix_rename(fx.files, 0, "d", 0, "e", 0), 0);
    assert_int_equal(filefix_find(fx.files, 0, "e", &id, NULL), 0);
    assert_int_equal(id, dir);
    assert_int_equal(snic_files_check(fx.files), 0);
    assert_int_equal(filefix_unmount(&fx), 0);
    filefix_mount(&fx);
    assert_int_equal(filefix_find(fx.files, dir, "b", &id, NULL), 0);
    assert_int_equal(id, a);
    filefix_close(&fx);
}

/* LIST shows each entry once, in any size of pieces, and its decoder checks bounds. */
static void test_files_listed_in_pieces_each_once(void **state)
{
    struct filefix fx;
    unsigned char buf[100];
    unsigned seen = 0;
    uint64_t cursor = 0;
    uint64_t id;
    unsigned i;
    char name[16];
    (void)state;
    memset(&fx, 0, sizeof(fx));
    filefix_fresh(&fx);
    for (i = 0; i < 20; i++) {
        (void)snprintf(name, sizeof(name), "%u", i);
        assert_int_equal(filefix_create(fx.files, 0, name, &id), 0);
    }
    for (;;) {
        struct snic_files_req r;
        struct snic_files_entry e;
        size_t pos = 0;
        int64_t n;
        memset(&r, 0, sizeof(r));
        r.op = SNIC_FILES_LIST;
        r.offset = cursor;
        r.length = sizeof(buf);
        r.buf.base = buf;
        r.buf.size = sizeof(buf);
        n = filefix_op(fx.files, &r);
        assert_true(n >= 0);
        if (n == 0)
            break;
        cursor = r.cursor;
        while (snic_files_entry_next(buf, (size_t)n, &pos, &e) == 1) {
            unsigned k = 0;
            for (i = 0; i < e.name_size; i++)
                k = k * 10 + (unsigned)(e.name[i] - '0');
            assert_int_equal(e.kind, SNIC_FILES_FILE);
            assert_true(k < 20 && (seen & 1u << k) == 0);
            seen |= 1u << k;
        }
        pos = 0;
        assert_int_equal(snic_files_entry_next(buf, 20, &pos, &e), SNIC_EPROTO);
        r.offset = 0;
        r.length = 8;
        r.dir = 0;
        assert_int_equal(filefix_op(fx.files, &r), SNIC_EMSGSIZE);
    }
    assert_int_equal(seen, (1u << 20) - 1);
    filefix_close(&fx);
}

/* Holes read as zeros, reads are short at the end, writes past it grow the file. */
static void test_files_sparse_read_zeros_and_short(void **state)
{
    struct filefix fx;
    struct snic_files_req st;
    static unsigned char buf[4 * SEG];
    uint64_t id;
    (void)state;
    memset(&fx, 0, sizeof(fx));
    filefix_fresh(&fx);
    assert_int_equal(filefix_create(fx.files, 0, "a", &id), 0);
    assert_int_equal(filefix_read(fx.files, id, 0, buf, 10), 0);
    pattern(buf, 100, 1, 0);
    assert_int_equal(filefix_write(fx.files, id, 2 * SEG + 50, buf, 100, 0), 100);
    memset(buf, 0xff, sizeof(buf));
    assert_int_equal(filefix_read(fx.files, id, 0, buf, sizeof(buf)), 2 * SEG + 150);
    assert_true(is_zero(buf, 2 * SEG + 50));
    assert_true(is_pattern(buf + 2 * SEG + 50, 100, 1, 0));
    assert_int_equal(buf[2 * SEG + 150], 0xff);
    assert_int_equal(filefix_read(fx.files, id, 2 * SEG + 150, buf, 1), 0);
    assert_int_equal(filefix_read(fx.files, id, UINT64_MAX - 10, buf, 5), 0);
    assert_int_equal(filefix_read(fx.files, id, UINT64_MAX - 3, buf, 5), SNIC_EINVAL);
    assert_int_equal(filefix_write(fx.files, id, UINT64_MAX - 10, buf, 5, 0), SNIC_EFBIG);
    assert_int_equal(filefix_write(fx.files, id, 1ull << 50, buf, 5, 0), SNIC_EFBIG);
    assert_int_equal(filefix_stat(fx.files, id, &st), 0);
    assert_int_equal(st.size, 2 * SEG + 150);
    assert_int_equal(st.allocated, SEG);
    /* Shrink into the segment and grow again: what was beyond is gone. */
    assert_int_equal(filefix_truncate(fx.files, id, 2 * SEG + 70), 0);
    assert_int_equal(filefix_truncate(fx.files, id, 3 * SEG), 0);
    assert_int_equal(filefix_read(fx.files, id, 2 * SEG, buf, SEG), SEG);
    assert_true(is_pattern(buf + 50, 20, 1, 0));
    assert_true(is_zero(buf + 70, SEG - 70));
    assert_int_equal(snic_files_check(fx.files), 0);
    filefix_close(&fx);
}

/* Every bad request ends with its error and changes nothing. */
static void test_files_request_invalid_refused(void **state)
{
    struct filefix fx;
    struct snic_files_req r;
    struct snic_iov v[2];
    char byte = 0;
    uint64_t id;
    (void)state;
    memset(&fx, 0, sizeof(fx));
    filefix_fresh(&fx);
    assert_int_equal(filefix_create(fx.files, 0, "a", &id), 0);
    memset(&r, 0, sizeof(r));
    assert_int_equal(filefix_op(fx.files, &r), SNIC_EINVAL);
    r.op = 99;
    assert_int_equal(filefix_op(fx.files, &r), SNIC_EINVAL);
    r.op = SNIC_FILES_WRITE;
    r.file = id;
    r.flags = 1u << 9;
    assert_int_equal(filefix_op(fx.files, &r), SNIC_EINVAL);
    r.flags = 0;
    r.length = 4;
    assert_int_equal(filefix_op(fx.files, &r), SNIC_EINVAL);
    v[0].base = &byte;
    v[0].size = 1;
    v[1] = v[0];
    r.iov = v;
    r.iov_count = 2;
    assert_int_equal(filefix_op(fx.files, &r), SNIC_EINVAL);
    r.length = 1;
    assert_int_equal(filefix_op(fx.files, &r), SNIC_EINVAL);
    r.iov_count = 65;
    assert_int_equal(filefix_op(fx.files, &r), SNIC_EINVAL);
    r.iov_count = 0;
    assert_int_equal(filefix_op(fx.files, &r), SNIC_EINVAL);
    r.iov_count = 2;
    r.length = 2;
    assert_int_equal(filefix_op(fx.files, &r), 2);
    r.length = 0;
    r.iov = NULL;
    r.iov_count = 0;
    r.op = SNIC_FILES_PREALLOC;
    assert_int_equal(filefix_op(fx.files, &r), SNIC_EINVAL);
    r.length = 1ull << 40;
    assert_int_equal(filefix_op(fx.files, &r), SNIC_ENOSPC);
    r.op = SNIC_FILES_TRUNCATE;
    r.length = UINT64_MAX;
    assert_int_equal(filefix_op(fx.files, &r), SNIC_EFBIG);
    filefix_close(&fx);
}

/* A truncation of more segments than it has single records for is one all the same. */
static void test_files_truncated_many_segments_all_free(void **state)
{
    struct filefix fx;
    struct snic_files_req st;
    struct snic_files_stats before;
    struct snic_files_stats after;
    static unsigned char buf[SEG];
    uint64_t id;
    unsigned n;
    (void)state;
    for (n = 60; n <= 100; n += 40) {
        memset(&fx, 0, sizeof(fx));
        filefix_fresh(&fx);
        snic_files_get_stats(fx.files, &before);
        assert_int_equal(filefix_create(fx.files, 0, "a", &id), 0);
        assert_int_equal(filefix_prealloc(fx.files, id, 0, n * SEG), 0);
        pattern(buf, sizeof(buf), 8, 0);
        assert_int_equal(filefix_write(fx.files, id, 0, buf, sizeof(buf), SNIC_FILES_SYNC), SEG);
        assert_int_equal(filefix_truncate(fx.files, id, SEG), 0);
        assert_int_equal(filefix_truncate(fx.files, id, n * SEG), 0);
        snic_disk_power_cut(fx.disk, SNIC_FAULT_KEEP_NONE);
        (void)filefix_unmount(&fx);
        filefix_reopen(&fx);
        filefix_mount(&fx);
        assert_int_equal(filefix_stat(fx.files, id, &st), 0);
        assert_int_equal(st.size, n * SEG);
        assert_int_equal(st.allocated, SEG);
        snic_files_get_stats(fx.files, &after);
        assert_int_equal(after.segments_free, before.segments_free - 1);
        assert_int_equal(filefix_read(fx.files, id, 0, buf, SEG), SEG);
        assert_true(is_pattern(buf, SEG, 8, 0));
        filefix_close(&fx);
    }
}

/* ---- Damage ---- */

static unsigned findings;

static void count_finding(void *ctx, int error, const char *what, uint64_t number)
{
    (void)ctx;
    (void)number;
    assert_non_null(what);
    findings += error != 0;
}

/* 0 when the image mounts and holds `a` as written, else what mount says; the checker agrees. */
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
        assert_int_equal(rc != 0, findings != 0);
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
    uint64_t rounds = support_scale(1500, 50000);
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

/* A full device refuses growth whole, keeps all it has, and works on after a deletion. */
static void test_files_device_full_growth_refused_intact(void **state)
{
    struct filefix fx;
    struct snic_files_stats st;
    static unsigned char buf[3 * SEG];
    uint64_t a;
    uint64_t b;
    uint64_t at = 0;
    (void)state;
    memset(&fx, 0, sizeof(fx));
    filefix_fresh(&fx);
    assert_int_equal(filefix_create(fx.files, 0, "a", &a), 0);
    assert_int_equal(filefix_create(fx.files, 0, "b", &b), 0);
    pattern(buf, 100, 9, 0);
    assert_int_equal(filefix_write(fx.files, b, 0, buf, 100, SNIC_FILES_SYNC), 100);
    for (;; at += sizeof(buf)) {
        int64_t n;
        pattern(buf, sizeof(buf), 2, at);
        n = filefix_write(fx.files, a, at, buf, sizeof(buf), 0);
        if (n == SNIC_ENOSPC)
            break;
        assert_int_equal(n, sizeof(buf));
    }
    snic_files_get_stats(fx.files, &st);
    assert_true(st.segments_free < 3);
    /* Inside what is there it goes on; so do reads and control operations. */
    assert_int_equal(filefix_write(fx.files, b, 100, buf, 100, SNIC_FILES_SYNC), 100);
    assert_int_equal(filefix_read(fx.files, a, 0, buf, sizeof(buf)), sizeof(buf));
    assert_true(is_pattern(buf, sizeof(buf), 2, 0));
    assert_int_equal(filefix_delete(fx.files, 0, "a"), 0);
    assert_int_equal(filefix_create(fx.files, 0, "c", &a), 0);
    assert_int_equal(filefix_write(fx.files, a, 0, buf, sizeof(buf), 0), sizeof(buf));
    assert_int_equal(snic_files_check(fx.files), 0);
    filefix_close(&fx);
}

/* What unmount leaves is what mount finds, checkpoints and both journal halves included. */
static void test_files_mounted_again_everything_there(void **state)
{
    struct filefix fx;
    struct snic_files_stats st;
    static unsigned char buf[2 * SEG];
    char name[16];
    uint64_t id;
    unsigned round;
    (void)state;
    memset(&fx, 0, sizeof(fx));
    filefix_fresh(&fx);
    for (round = 0; round < 120; round++) {
        (void)snprintf(name, sizeof(name), "f%u", round % 20);
        (void)filefix_delete(fx.files, 0, name);
        assert_int_equal(filefix_create(fx.files, 0, name, &id), 0);
        pattern(buf, sizeof(buf), round, 0);
        assert_int_equal(filefix_write(fx.files, id, 0, buf, 1000 + round * 100, SNIC_FILES_SYNC),
                         1000 + round * 100);
        if (round % 7 == 0) {
            assert_int_equal(filefix_unmount(&fx), 0);
            filefix_reopen(&fx);
            filefix_mount(&fx);
        }
        assert_int_equal(filefix_find(fx.files, 0, name, &id, NULL), 0);
        assert_int_equal(filefix_read(fx.files, id, 0, buf, sizeof(buf)), 1000 + round * 100);
        assert_true(is_pattern(buf, 1000 + round * 100, round, 0));
    }
    snic_files_get_stats(fx.files, &st);
    for (round = 0; round < 60; round++) {
        assert_int_equal(filefix_rename(fx.files, 0, "f3", 0, "g3", 0), 0);
        assert_int_equal(filefix_rename(fx.files, 0, "g3", 0, "f3", 0), 0);
    }
    snic_files_get_stats(fx.files, &st);
    assert_true(st.checkpoints >= 2);
    filefix_close(&fx);
}

struct flight {
    struct snic_files_req req;
    int done;
};

static void flight_done(struct snic_files_req *r)
{
    SNIC_CONTAINER(r, struct flight, req)->done++;
}

static void flight_start(struct snic_files *f, struct flight *x, int op, uint64_t file, uint64_t at,
                         void *p, size_t n, unsigned flags)
{
    struct snic_files_req *r = &x->req;
    memset(x, 0, sizeof(*x));
    snic_files_req_init(&x->req);
    x->req.op = (uint8_t)op;
    x->req.file = file;
    x->req.offset = at;
    x->req.length = n;
    x->req.buf.base = p;
    x->req.buf.size = n;
    x->req.flags = (uint16_t)flags;
    x->req.done = flight_done;
    snic_files_submit(f, &r, 1);
    assert_int_equal(x->done, 0);
}

static void flight_wait(struct filefix *fx, struct flight *x)
{
    while (!x->done)
        (void)snic_loop_once(fx->loop, SNIC_NEVER);
    assert_int_equal(x->done, 1);
}

/* Consistency rule R5: the segments of a deleted file are not written while an old read of
 * them is in flight, although they are the only free ones. */
static void test_files_deleted_under_read_space_waits(void **state)
{
    struct filefix fx;
    struct snic_files_stats st;
    struct snic_fault slow;
    struct flight rd;
    struct flight wr;
    static unsigned char big[200 * SEG];
    static unsigned char in[SEG];
    static unsigned char out[SEG];
    uint64_t a;
    uint64_t b;
    uint64_t n;
    (void)state;
    memset(&fx, 0, sizeof(fx));
    filefix_fresh(&fx);
    snic_files_get_stats(fx.files, &st);
    n = st.segments_free * SEG;
    assert_true(n <= sizeof(big));
    assert_int_equal(filefix_create(fx.files, 0, "a", &a), 0);
    assert_int_equal(filefix_create(fx.files, 0, "b", &b), 0);
    pattern(big, (size_t)n, 5, 0);
    assert_int_equal(filefix_write(fx.files, a, 0, big, (size_t)n, SNIC_FILES_SYNC), n);
    memset(&slow, 0, sizeof(slow));
    slow.kind = SNIC_FAULT_DELAY;
    slow.ops = 1u << SNIC_IO_READ;
    slow.after = 1;
    slow.delay_ns = 1000000000;
    assert_int_equal(snic_disk_fault(fx.disk, &slow), 0);
    flight_start(fx.files, &rd, SNIC_FILES_READ, a, 0, in, sizeof(in), 0);
    assert_int_equal(filefix_delete(fx.files, 0, "a"), 0);
    assert_int_equal(rd.done, 0);
    memset(out, 0xee, sizeof(out));
    flight_start(fx.files, &wr, SNIC_FILES_WRITE, b, 0, out, sizeof(out), 0);
    flight_wait(&fx, &wr);
    assert_int_equal(wr.req.result, sizeof(out));
    assert_int_equal(rd.done, 1); /* the write had to wait for the read */
    assert_int_equal(rd.req.result, sizeof(in));
    assert_true(is_pattern(in, sizeof(in), 5, 0));
    snic_files_get_stats(fx.files, &st);
    assert_int_equal(st.space_waits, 1);
    assert_int_equal(st.segments_limbo, 0);
    filefix_close(&fx);
}

/* TRUNCATE waits for earlier writes of the file, and later writes for it. */
static void test_files_truncate_between_writes_ordered(void **state)
{
    struct filefix fx;
    struct flight x[3];
    struct snic_files_req st;
    static unsigned char buf[2 * SEG];
    static unsigned char back[2 * SEG];
    uint64_t id;
    (void)state;
    memset(&fx, 0, sizeof(fx));
    fx.disk_opts.delay_min_ns = 1000;
    fx.disk_opts.delay_max_ns = 1000000;
    filefix_fresh(&fx);
    assert_int_equal(filefix_create(fx.files, 0, "a", &id), 0);
    pattern(buf, sizeof(buf), 3, 0);
    flight_start(fx.files, &x[0], SNIC_FILES_WRITE, id, 0, buf, sizeof(buf), 0);
    flight_start(fx.files, &x[1], SNIC_FILES_TRUNCATE, id, 0, NULL, 100, 0);
    flight_start(fx.files, &x[2], SNIC_FILES_WRITE, id, 200, buf + 200, 100, 0);
    flight_wait(&fx, &x[0]);
    flight_wait(&fx, &x[1]);
    flight_wait(&fx, &x[2]);
    assert_int_equal(filefix_stat(fx.files, id, &st), 0);
    assert_int_equal(st.size, 300);
    assert_int_equal(filefix_read(fx.files, id, 0, back, sizeof(back)), 300);
    assert_true(is_pattern(back, 100, 3, 0));
    assert_true(is_zero(back + 100, 100));
    assert_true(is_pattern(back + 200, 100, 3, 200));
    assert_int_equal(snic_files_check(fx.files), 0);
    filefix_close(&fx);
}

/* A failing device: the write that hits it fails, others behind its claim too, later ones work. */
static void test_files_write_fails_claims_fall_back(void **state)
{
    struct filefix fx;
    struct snic_fault f;
    struct flight x[4];
    static unsigned char buf[SEG];
    static unsigned char back[SEG];
    uint64_t id;
    unsigned i;
    (void)state;
    memset(&fx, 0, sizeof(fx));
    fx.disk_opts.delay_min_ns = 1000;
    fx.disk_opts.delay_max_ns = 1000000;
    filefix_fresh(&fx);
    assert_int_equal(filefix_create(fx.files, 0, "a", &id), 0);
    pattern(buf, sizeof(buf), 4, 0);
    memset(&f, 0, sizeof(f));
    f.kind = SNIC_FAULT_ERROR;
    f.ops = 1u << SNIC_IO_WRITE;
    f.after = 2;
    f.error = SNIC_EIO;
    assert_int_equal(snic_disk_fault(fx.disk, &f), 0);
    for (i = 0; i < 4; i++)
        flight_start(fx.files, &x[i], SNIC_FILES_WRITE, id, i * 1000, buf + i * 1000, 1000, 0);
    for (i = 0; i < 4; i++)
        flight_wait(&fx, &x[i]);
    assert_int_equal(x[0].req.result, 1000);
    for (i = 1; i < 4; i++)
        assert_int_equal(x[i].req.result, SNIC_EIO);
    assert_int_equal(filefix_read(fx.files, id, 0, back, sizeof(back)), 1000);
    assert_int_equal(snic_files_check(fx.files), 0);
    assert_int_equal(filefix_write(fx.files, id, 3000, buf + 3000, 1000, SNIC_FILES_SYNC), 1000);
    assert_int_equal(filefix_read(fx.files, id, 0, back, sizeof(back)), 4000);
    assert_true(is_pattern(back, 1000, 4, 0));
    assert_true(is_zero(back + 1000, 2000));
    assert_true(is_pattern(back + 3000, 1000, 4, 3000));
    filefix_close(&fx);
}

/* A write into a gap that another write is filling with zeros is not zeroed. */
static void test_files_write_into_gap_under_way_kept(void **state)
{
    unsigned align;
    (void)state;
    for (align = 1; align <= 4096; align *= 64) {
        struct filefix fx;
        struct snic_fault slow;
        struct flight x[3];
        static unsigned char buf[SEG];
        static unsigned char back[SEG];
        uint64_t id;
        memset(&fx, 0, sizeof(fx));
        fx.disk_opts.align = align;
        fx.disk_opts.caps = align == 64 ? SNIC_IO_CAP_FUA : SNIC_IO_CAP_ZERO;
        filefix_fresh(&fx);
        assert_int_equal(filefix_create(fx.files, 0, "a", &id), 0);
        memset(&slow, 0, sizeof(slow));
        slow.kind = SNIC_FAULT_DELAY;
        slow.ops = 1u << SNIC_IO_ZERO | 1u << SNIC_IO_WRITE;
        slow.after = 1;
        slow.delay_ns = 1000000;
        assert_int_equal(snic_disk_fault(fx.disk, &slow), 0);
        pattern(buf, sizeof(buf), 6, 0);
        flight_start(fx.files, &x[0], SNIC_FILES_WRITE, id, 12288, buf + 12288, 4096, 0);
        flight_start(fx.files, &x[1], SNIC_FILES_WRITE, id, 0, buf, 100, 0);
        flight_start(fx.files, &x[2], SNIC_FILES_WRITE, id, 4096, buf + 4096, 4096, 0);
        flight_wait(&fx, &x[0]);
        flight_wait(&fx, &x[1]);
        flight_wait(&fx, &x[2]);
        assert_int_equal(filefix_read(fx.files, id, 0, back, sizeof(back)), SEG);
        assert_true(is_pattern(back, 100, 6, 0));
        assert_true(is_zero(back + 100, 3996));
        assert_true(is_pattern(back + 4096, 4096, 6, 4096));
        assert_true(is_pattern(back + 12288, 4096, 6, 12288));
        filefix_close(&fx);
    }
}

/* What is acknowledged can be read, also when an older write around it is still under way. */
static void test_files_write_within_one_under_way_readable(void **state)
{
    struct filefix fx;
    struct snic_fault slow;
    struct flight x[2];
    static unsigned char buf[8192];
    unsigned char back[100];
    unsigned i;
    uint64_t id;
    (void)state;
    memset(&fx, 0, sizeof(fx));
    filefix_fresh(&fx);
    assert_int_equal(filefix_create(fx.files, 0, "a", &id), 0);
    memset(&slow, 0, sizeof(slow));
    slow.kind = SNIC_FAULT_DELAY;
    slow.ops = 1u << SNIC_IO_WRITE;
    slow.after = 1;
    slow.delay_ns = 1000000;
    assert_int_equal(snic_disk_fault(fx.disk, &slow), 0);
    memset(buf, 0x55, sizeof(buf));
    flight_start(fx.files, &x[0], SNIC_FILES_WRITE, id, 0, buf, sizeof(buf), 0);
    flight_start(fx.files, &x[1], SNIC_FILES_WRITE, id, 100, buf, 100, 0);
    flight_wait(&fx, &x[1]);
    assert_int_equal(filefix_read(fx.files, id, 100, back, 100), 100);
    for (i = 0; i < 100; i++)
        assert_int_equal(back[i], 0x55);
    flight_wait(&fx, &x[0]);
    filefix_close(&fx);
}

/* A failed journal write stops metadata, not reads; the image is intact after a new mount. */
static void test_files_journal_fails_reads_go_on(void **state)
{
    struct filefix fx;
    struct snic_fault f;
    static unsigned char buf[SEG];
    uint64_t id;
    uint64_t b;
    (void)state;
    memset(&fx, 0, sizeof(fx));
    filefix_fresh(&fx);
    assert_int_equal(filefix_create(fx.files, 0, "a", &id), 0);
    pattern(buf, 500, 4, 0);
    assert_int_equal(filefix_write(fx.files, id, 0, buf, 500, SNIC_FILES_SYNC), 500);
    memset(&f, 0, sizeof(f));
    f.kind = SNIC_FAULT_ERROR;
    f.ops = 1u << SNIC_IO_WRITE;
    f.after = 1;
    f.error = SNIC_EIO;
    assert_int_equal(snic_disk_fault(fx.disk, &f), 0);
    assert_int_equal(filefix_create(fx.files, 0, "b", &b), SNIC_EIO);
    assert_int_equal(filefix_create(fx.files, 0, "c", &b), SNIC_EIO);
    assert_int_equal(filefix_write(fx.files, id, 0, buf, 5, 0), SNIC_EIO);
    assert_int_equal(filefix_truncate(fx.files, id, 5), SNIC_EIO);
    assert_int_equal(filefix_fsync(fx.files, id), SNIC_EIO);
    memset(buf, 0, sizeof(buf));
    assert_int_equal(filefix_read(fx.files, id, 0, buf, sizeof(buf)), 500);
    assert_true(is_pattern(buf, 500, 4, 0));
    assert_int_equal(filefix_unmount(&fx), SNIC_EIO);
    filefix_mount(&fx);
    assert_int_equal(filefix_read(fx.files, id, 0, buf, sizeof(buf)), 500);
    assert_int_equal(filefix_create(fx.files, 0, "b", &b), 0);
    filefix_close(&fx);
}

/* Inside preallocated space a SYNC write costs no journal write: one FUA write, or one flush. */
static void test_files_preallocated_sync_write_no_metadata(void **state)
{
    unsigned caps;
    (void)state;
    for (caps = 0; caps < 2; caps++) {
        struct filefix fx;
        struct snic_files_stats a;
        struct snic_files_stats b;
        static unsigned char buf[4096];
        uint64_t id;
        memset(&fx, 0, sizeof(fx));
        fx.disk_opts.caps = caps ? SNIC_IO_CAP_FUA | SNIC_IO_CAP_ZERO : SNIC_IO_CAP_DISCARD;
        filefix_fresh(&fx);
        assert_int_equal(filefix_create(fx.files, 0, "a", &id), 0);
        assert_int_equal(filefix_prealloc(fx.files, id, 0, 4 * SEG), 0);
        snic_files_get_stats(fx.files, &a);
        assert_int_equal(filefix_write(fx.files, id, SEG, buf, 4096, SNIC_FILES_SYNC), 4096);
        snic_files_get_stats(fx.files, &b);
        assert_int_equal(b.commits, a.commits);
        assert_int_equal(b.fua_writes - a.fua_writes, caps);
        assert_int_equal(b.flushes - a.flushes, 1 - caps);
        filefix_close(&fx);
    }
}

/* Many control operations at once share journal writes. */
static void test_files_control_together_one_commit(void **state)
{
    struct filefix fx;
    struct snic_files_stats a;
    struct snic_files_stats b;
    struct flight x[20];
    struct snic_files_req *reqs[20];
    char name[20][8];
    unsigned i;
    (void)state;
    memset(&fx, 0, sizeof(fx));
    filefix_fresh(&fx);
    snic_files_get_stats(fx.files, &a);
    memset(x, 0, sizeof(x));
    for (i = 0; i < 20; i++) {
        (void)snprintf(name[i], sizeof(name[i]), "f%u", i);
        x[i].req.op = SNIC_FILES_CREATE;
        x[i].req.name = name[i];
        x[i].req.name_size = (uint32_t)strlen(name[i]);
        x[i].req.done = flight_done;
        reqs[i] = &x[i].req;
    }
    snic_files_submit(fx.files, reqs, 20);
    for (i = 0; i < 20; i++) {
        flight_wait(&fx, &x[i]);
        assert_int_equal(x[i].req.result, 0);
    }
    snic_files_get_stats(fx.files, &b);
    assert_int_equal(b.commits - a.commits, 1);
    filefix_close(&fx);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_files_format_options_refused),
        cmocka_unit_test(test_files_mounted_info_as_probed),
        cmocka_unit_test(test_files_mount_memory_exact),
        cmocka_unit_test(test_files_names_errors_told_apart),
        cmocka_unit_test(test_files_created_again_same_or_new_id),
        cmocka_unit_test(test_files_table_full_create_refused),
        cmocka_unit_test(test_files_renamed_found_under_new_name),
        cmocka_unit_test(test_files_listed_in_pieces_each_once),
        cmocka_unit_test(test_files_sparse_read_zeros_and_short),
        cmocka_unit_test(test_files_request_invalid_refused),
        cmocka_unit_test(test_files_truncated_many_segments_all_free),
        cmocka_unit_test(test_files_metadata_damaged_refused_or_harmless),
        cmocka_unit_test(test_files_chunk_of_older_checkpoint_refused),
        cmocka_unit_test(test_files_journal_entry_lost_refused),
        cmocka_unit_test(test_files_superblock_misplaced_refused),
        cmocka_unit_test(test_files_device_full_growth_refused_intact),
        cmocka_unit_test(test_files_mounted_again_everything_there),
        cmocka_unit_test(test_files_deleted_under_read_space_waits),
        cmocka_unit_test(test_files_truncate_between_writes_ordered),
        cmocka_unit_test(test_files_write_fails_claims_fall_back),
        cmocka_unit_test(test_files_write_into_gap_under_way_kept),
        cmocka_unit_test(test_files_write_within_one_under_way_readable),
        cmocka_unit_test(test_files_journal_fails_reads_go_on),
        cmocka_unit_test(test_files_preallocated_sync_write_no_metadata),
        cmocka_unit_test(test_files_control_together_one_commit),
    };
    return SUPPORT_MAIN(argc, argv, tests);
}
