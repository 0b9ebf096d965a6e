/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * The file service by its direct interface on a simulated disk: the contract of single requests,
 * one statement of the header at a time.
 */
#include "files/files_priv.h"
#include "files/wire.h"
#include "filefix.h"
#include "golden.h"
#include "iohog.h"
#include "filepattern.h"
#include "support.h"

#include <stdio.h>

#define SEG 16384u

/* Format refuses what it documents, and a device without an image is reported. */
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
    /* At a limit only the device is too small; one beyond, and ten times, is refused. */
    o = fx.format;
    o.files_max = 1u << 23;
    assert_int_equal(snic_files_format(fx.io, &o), SNIC_ENOSPC);
    o.files_max = 10u << 23;
    assert_int_equal(snic_files_format(fx.io, &o), SNIC_EINVAL);
    o = fx.format;
    o.dirs_max = 1u << 20;
    assert_int_equal(snic_files_format(fx.io, &o), SNIC_ENOSPC);
    o.dirs_max = (1u << 20) + 1;
    assert_int_equal(snic_files_format(fx.io, &o), SNIC_EINVAL);
    o.dirs_max = 10u << 20;
    assert_int_equal(snic_files_format(fx.io, &o), SNIC_EINVAL);
    o = fx.format;
    o.journal_bytes = (uint64_t)1 << 32;
    assert_int_equal(snic_files_format(fx.io, &o), SNIC_ENOSPC);
    o.journal_bytes = ((uint64_t)1 << 32) + 131072;
    assert_int_equal(snic_files_format(fx.io, &o), SNIC_EINVAL);
    o.journal_bytes = (uint64_t)10 << 32;
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

/* A mounted image reports what probe reported, whatever has been written since. */
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
    fx.mount.depth = 4;
    assert_true(snic_files_memsize(&info, &fx.mount) != 0);
    fx.mount.depth = 4096;
    assert_true(snic_files_memsize(&info, &fx.mount) != 0);
    fx.mount.depth = 4097;
    assert_int_equal(snic_files_memsize(&info, &fx.mount), 0);
    fx.mount.depth = 40960;
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
static void test_files_names_errors_distinct(void **state)
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

/* CREATE with REPLACE opens the existing file; ids are never used again. */
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

/* RENAME moves between directories, keeps the id, and replaces only if requested. */
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

static int list_order[2], list_count;

static void list_done(struct snic_files_req *r)
{
    list_order[list_count++] = r->op;
}

/* ---- What waits, and what commits by itself ---- */

#define WAITING 600u

static struct snic_files_req waiting[WAITING];
static unsigned char waiting_bytes[WAITING][4096];
static unsigned waiting_done;

static void waiting_end(struct snic_files_req *r)
{
    assert_int_equal(r->result, r->op == SNIC_FILES_WRITE ? 4096 : 0);
    waiting_done++;
}

static void waiting_run(struct filefix *fx, unsigned n)
{
    struct snic_files_req *p[WAITING];
    unsigned i;
    for (i = 0; i < n; i++) {
        p[i] = &waiting[i];
        waiting[i].region = SNIC_NO_REGION;
        waiting[i].done = waiting_end;
    }
    waiting_done = 0;
    snic_files_submit(fx->files, p, n);
    while (waiting_done < n)
        assert_int_equal(snic_world_step(fx->world), 1);
}

/* A service that polls for room wakes its loop twenty thousand times a second. */
static void test_files_device_full_waits_without_polling(void **state)
{
    struct filefix fx;
    struct iohog h;
    uint64_t a;
    (void)state;
    memset(&fx, 0, sizeof(fx));
    fx.disk_opts.depth = 1;
    filefix_fresh(&fx);
    assert_int_equal(filefix_create(fx.files, 0, "a", &a), 0);
    iohog_hold(&h, fx.disk, fx.io);
    uint64_t from = snic_loop_now(fx.loop), work = iohog_work(fx.loop);
    assert_int_equal(filefix_write(fx.files, a, 0, "abc", 3, SNIC_FILES_SYNC), 3);
    assert_true(snic_loop_now(fx.loop) - from >= IOHOG_NS);
    iohog_end(&h, fx.loop, work);
    filefix_close(&fx);
}

/* As many requests as device requests, one fewer, one more, and fifty times as many: what is
 * beyond waits, each completes once. */
static void test_files_more_requests_than_depth_all_completed(void **state)
{
    static const unsigned counts[] = {3, 4, 5, 40, 200};
    struct filefix fx;
    unsigned char back[4096];
    uint64_t a;
    unsigned c;
    unsigned i;
    (void)state;
    memset(&fx, 0, sizeof(fx));
    fx.mount.depth = 4;
    fx.mount.bounce_count = 2;
    fx.disk_opts.delay_min_ns = 1000;
    fx.disk_opts.delay_max_ns = 100000;
    filefix_fresh(&fx);
    assert_int_equal(filefix_create(fx.files, 0, "a", &a), 0);
    for (c = 0; c < SNIC_COUNTOF(counts); c++) {
        memset(waiting, 0, sizeof(waiting));
        for (i = 0; i < counts[c]; i++) {
            memset(waiting_bytes[i], (int)(i + c + 1), 4096);
            waiting[i].op = SNIC_FILES_WRITE;
            waiting[i].file = a;
            waiting[i].offset = i * 4096u + 1; /* by way of bounce buffers */
            waiting[i].length = 4096;
            waiting[i].buf = (struct snic_iov){waiting_bytes[i], 4096};
        }
        waiting_run(&fx, counts[c]);
        for (i = 0; i < counts[c]; i++) {
            assert_int_equal(filefix_read(fx.files, a, i * 4096u + 1, back, 4096), 4096);
            assert_memory_equal(back, waiting_bytes[i], 4096);
        }
    }
    assert_int_equal(snic_files_check(fx.files), 0);
    filefix_close(&fx);
}

/* More control operations than a journal entry holds: those beyond wait for the next entry. */
static void test_files_more_controls_than_an_entry_all_durable(void **state)
{
    struct filefix fx;
    struct snic_files_stats before;
    struct snic_files_stats after;
    static char names[WAITING][256];
    uint64_t id;
    unsigned i;
    (void)state;
    memset(&fx, 0, sizeof(fx));
    fx.format.files_max = 1000;
    filefix_fresh(&fx);
    memset(waiting, 0, sizeof(waiting));
    for (i = 0; i < WAITING; i++) {
        memset(names[i], 'n', 255);
        names[i][0] = (char)('A' + i / 26);
        names[i][1] = (char)('a' + i % 26);
        waiting[i].op = SNIC_FILES_CREATE;
        waiting[i].name = names[i];
        waiting[i].name_size = 255;
    }
    snic_files_get_stats(fx.files, &before);
    waiting_run(&fx, WAITING);
    snic_files_get_stats(fx.files, &after);
    assert_true(after.journal_bytes - before.journal_bytes > WAITING * 255u);
    assert_in_range(after.commits - before.commits, WAITING * 255u / 65536 + 1, WAITING / 4);
    snic_disk_power_cut(fx.disk, support_seed());
    filefix_reopen(&fx);
    (void)filefix_unmount(&fx);
    filefix_mount(&fx);
    for (i = 0; i < WAITING; i++)
        assert_int_equal(filefix_find(fx.files, 0, names[i], &id, NULL), 0);
    filefix_close(&fx);
}

/* Ids end one day: CREATE is refused then, what exists is used on, mounted again too. */
static void test_files_last_id_used_create_refused(void **state)
{
    struct filefix fx;
    char byte = 0;
    uint64_t id;
    int i;
    (void)state;
    memset(&fx, 0, sizeof(fx));
    filefix_fresh(&fx);
    fx.files->next_id = SNIC_FILES__GENERATION_MAX - 1;
    assert_int_equal(filefix_create(fx.files, 0, "last", &id), 0);
    for (i = 0; i < 10; i++) {
        assert_int_equal(filefix_create(fx.files, 0, "more", NULL), SNIC_ENOSPC);
        assert_int_equal(filefix_mkdir(fx.files, "more", NULL), SNIC_ENOSPC);
    }
    assert_int_equal(filefix_write(fx.files, id, 0, "x", 1, SNIC_FILES_SYNC), 1);
    assert_int_equal(filefix_unmount(&fx), 0);
    filefix_mount(&fx);
    assert_int_equal(filefix_find(fx.files, 0, "last", &id, NULL), 0);
    assert_int_equal(filefix_read(fx.files, id, 0, &byte, 1), 1);
    assert_int_equal(byte, 'x');
    assert_int_equal(filefix_create(fx.files, 0, "more", NULL), SNIC_ENOSPC);
    assert_int_equal(filefix_delete(fx.files, 0, "last"), 0);
    filefix_close(&fx);
}

/* Sizes that no FSYNC waits for are in the journal sync_delay_us later, and not before. */
static void test_files_unsynced_size_committed_after_delay(void **state)
{
    static const uint32_t delays[] = {1, 1000, 1000000, UINT32_MAX};
    unsigned i;
    (void)state;
    for (i = 0; i < SNIC_COUNTOF(delays); i++) {
        struct filefix fx;
        struct snic_files_stats before;
        struct snic_files_stats after;
        uint64_t started;
        uint64_t a;
        memset(&fx, 0, sizeof(fx));
        fx.mount.sync_delay_us = delays[i];
        filefix_fresh(&fx);
        assert_int_equal(filefix_create(fx.files, 0, "a", &a), 0);
        snic_files_get_stats(fx.files, &before);
        started = snic_loop_now(fx.loop);
        assert_int_equal(filefix_write(fx.files, a, 0, "x", 1, 0), 1);
        do {
            snic_files_get_stats(fx.files, &after);
        } while (after.commits == before.commits && snic_world_step(fx.world) == 1);
        assert_int_equal(after.commits - before.commits, delays[i] == UINT32_MAX ? 0 : 1);
        if (delays[i] != UINT32_MAX)
            assert_true(snic_loop_now(fx.loop) - started >= (uint64_t)delays[i] * 1000);
        filefix_close(&fx);
    }
}

/** A LIST of an empty directory in a large image does not hold back what comes behind it. */
static void test_files_list_goes_by_steps(void **state)
{
    struct filefix x;
    struct snic_files_req list, stat;
    unsigned char buf[4096];
    uint64_t dir = 0, file = 0;
    (void)state;
    memset(&x, 0, sizeof(x));
    memset(&list, 0, sizeof(list));
    memset(&stat, 0, sizeof(stat));
    x.format.files_max = 20000;
    x.disk_opts.size = 32u << 20;
    filefix_fresh(&x);
    assert_int_equal(filefix_mkdir(x.files, "d", &dir), 0);
    assert_int_equal(filefix_create(x.files, SNIC_FILES_ROOT, "f", &file), 0);
    list = (struct snic_files_req){.op = SNIC_FILES_LIST, .dir = dir, .done = list_done};
    list.buf.base = buf;
    list.buf.size = list.length = sizeof(buf);
    stat = (struct snic_files_req){.op = SNIC_FILES_STAT, .file = file, .done = list_done};
    struct snic_files_req *both[2] = {&list, &stat};
    list_count = 0;
    snic_files_submit(x.files, both, 2);
    while (list_count < 2)
        assert_int_equal(snic_world_step(x.world), 1);
    assert_int_equal(list.result, 0);
    assert_int_equal(stat.result, 0);
    assert_int_equal(list_order[0], SNIC_FILES_STAT);
    assert_int_equal(filefix_unmount(&x), 0);
    filefix_close(&x);
}

/** A refusal names the wrong option, and only that one. */
static void test_files_wrong_option_is_named(void **state)
{
    (void)state;
    struct snic_files_info info = {.block_bytes = 65536};
    {
        struct snic_files_mount_opts good = {.opts_size = sizeof(good)};
        assert_null(snic_files_mount_opts_wrong(&info, &good));
#define WRONG(field, value, name)                                                                  \
    do {                                                                                           \
        struct snic_files_mount_opts bad = good;                                                   \
        bad.field = value;                                                                         \
        support_names(snic_files_mount_opts_wrong(&info, &bad), name);                             \
    } while (0)
        WRONG(opts_size, 3, "opts_size");
        WRONG(depth, 3, "depth");
        WRONG(depth, 4097, "depth");
        WRONG(bounce_count, 1, "bounce_count");
        WRONG(bounce_count, 1025, "bounce_count");
        WRONG(bounce_bytes, 12345, "bounce_bytes");
        WRONG(bounce_bytes, 32768, "bounce_bytes");
        WRONG(flags, 1, "flags");
#undef WRONG
    }
}

/* lib/files/FORMAT.md. */
static void test_files_format_vectors(void **state)
{
    struct filefix fx;
    struct snic_files_info info;
    unsigned char wire[SNIC_FILES__REQUEST_BYTES];
    uint64_t id;
    struct files_wire_request q = {.op = SNIC_FILES_READ,
                                   .priority = 1,
                                   .flags = SNIC_FILES__MORE,
                                   .id = 0x0102030405060708,
                                   .file = 2,
                                   .dir = 3,
                                   .dir2 = 4,
                                   .offset = 5,
                                   .length = 6,
                                   .version = 7,
                                   .name_size = 8,
                                   .name2_size = 9,
                                   .key_size = 10,
                                   .item_size = 11,
                                   .count = 12,
                                   .tenant = 13,
                                   .whole_offset = 14,
                                   .whole_length = 15,
                                   .tag = "tag"};
    struct files_wire_response a = {.op = SNIC_FILES_STAT,
                                    .kind = 2,
                                    .credit = 3,
                                    .id = 0x0102030405060708,
                                    .result = -4,
                                    .file = 5,
                                    .size = 6,
                                    .allocated = 7,
                                    .cursor = 8};
    (void)state;
    memset(&fx, 0, sizeof(fx));
    filefix_fresh(&fx);
    assert_int_equal(snic_files_probe(fx.io, &info), 0);
    const unsigned char *p = snic_disk_bytes(fx.disk);
    golden_bytes("files", "superblock", p, SNIC_FILES__SUPER_BYTES);
    p += files_slot_offset(&info, 1);
    golden_bytes("files", "header", p, 4096);
    golden_bytes("files", "chunk", p + (size_t)2 * SNIC_FILES__CHUNK, SNIC_FILES__CHUNK);
    assert_int_equal(filefix_mkdir(fx.files, "d", &id), 0);
    p = (const unsigned char *)snic_disk_bytes(fx.disk) + files_half_offset(&info, 0);
    if (snic_get_le32(p) != SNIC_FILES__JOURNAL_MAGIC)
        p = (const unsigned char *)snic_disk_bytes(fx.disk) + files_half_offset(&info, 1);
    golden_bytes("files", "entry", p, 4096);
    filefix_close(&fx);
    files_wire_put_request(wire, &q);
    golden_bytes("files", "request", wire, SNIC_FILES__REQUEST_BYTES);
    files_wire_put_response(wire, &a);
    golden_bytes("files", "response", wire, SNIC_FILES__RESPONSE_BYTES);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_files_format_vectors),
        cmocka_unit_test(test_files_list_goes_by_steps),
        cmocka_unit_test(test_files_wrong_option_is_named),
        cmocka_unit_test(test_files_device_full_waits_without_polling),
        cmocka_unit_test(test_files_more_requests_than_depth_all_completed),
        cmocka_unit_test(test_files_more_controls_than_an_entry_all_durable),
        cmocka_unit_test(test_files_last_id_used_create_refused),
        cmocka_unit_test(test_files_unsynced_size_committed_after_delay),
        cmocka_unit_test(test_files_format_options_refused),
        cmocka_unit_test(test_files_mounted_info_as_probed),
        cmocka_unit_test(test_files_mount_memory_exact),
        cmocka_unit_test(test_files_names_errors_distinct),
        cmocka_unit_test(test_files_created_again_same_or_new_id),
        cmocka_unit_test(test_files_table_full_create_refused),
        cmocka_unit_test(test_files_renamed_found_under_new_name),
        cmocka_unit_test(test_files_listed_in_pieces_each_once),
        cmocka_unit_test(test_files_sparse_read_zeros_and_short),
        cmocka_unit_test(test_files_request_invalid_refused),
        cmocka_unit_test(test_files_truncated_many_segments_all_free),
    };
    return SUPPORT_MAIN(argc, argv, tests);
}
