/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* The store on LMDB when the disk fails, is full, or holds something else. */
#include "kv_lmdb_record.h"
#include "kv_lmdb_util.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <sys/statvfs.h>
#include <time.h>
#include <unistd.h>

struct faults {
    struct kvl k;
    char path[512];
    struct snic_kv_lmdb_opts opts;
};

/** A store with faults at hand, ten records and an object of ten blocks, all durable. */
static void faults_open(struct faults *f)
{
    unsigned char b[KVL_BLOCK];
    memset(f, 0, sizeof(*f));
    kvl_path(f->path, sizeof(f->path));
    kvl_open(&f->k, f->path, SNIC_KV_OPEN_CREATE);
    for (uint64_t i = 0; i < 10; i++) {
        assert_int_equal(kvl_put(&f->k, 1, i, i + 100, 0), 0);
        kvl_fill(b, 5, i * KVL_BLOCK, KVL_BLOCK, 1);
        assert_int_equal(
            kvl_object(&f->k, SNIC_KVOP_OBJECT_WRITE, 0, 5, i * KVL_BLOCK, KVL_BLOCK, b),
            KVL_BLOCK);
    }
    kvl_close(&f->k);
    record_begin(f->path);
    f->opts = (struct snic_kv_lmdb_opts){
        .opts_size = sizeof(f->opts), .path = f->path, .wrap = record_wrap};
    assert_int_equal(kvl_try(&f->k, &f->opts, NULL), 0);
}

static void faults_again(struct faults *f)
{
    kvl_close(&f->k);
    assert_int_equal(kvl_try(&f->k, &f->opts, NULL), 0);
}

static void faults_close(struct faults *f)
{
    kvl_close(&f->k);
    record_end();
}

static void faults_expect(struct faults *f)
{
    unsigned char b[KVL_BLOCK];
    for (uint64_t i = 0; i < 10; i++) {
        assert_int_equal(kvl_get(&f->k, 1, i, 0), i + 100);
        assert_int_equal(
            kvl_object(&f->k, SNIC_KVOP_OBJECT_READ, 0, 5, i * KVL_BLOCK, KVL_BLOCK, b), KVL_BLOCK);
        assert_true(kvl_filled(b, 5, i * KVL_BLOCK, KVL_BLOCK, 1));
    }
}

/* What a failed sync lost cannot be had by syncing again: the handle must not continue. */
static void test_kv_lmdb_faults_failed_sync_ends_the_handle(void **state)
{
    struct faults f;
    unsigned char b[KVL_BLOCK];
    (void)state;
    for (int object = 0; object < 2; object++) {
        faults_open(&f);
        struct record_fault once = {.after = 1, .times = 1, .error = EIO};
        if (object) {
            kvl_fill(b, 6, 0, KVL_BLOCK, 1);
            assert_int_equal(kvl_object(&f.k, SNIC_KVOP_OBJECT_WRITE, 0, 6, 0, KVL_BLOCK, b),
                             KVL_BLOCK);
            record_fault_object_flush = once;
            assert_int_equal(kvl_sync(&f.k), SNIC_EIO);
        } else {
            record_fault_data_sync = once;
            assert_int_equal(kvl_put(&f.k, 1, 99, 1, SNIC_KVOP_DURABLE), SNIC_EIO);
        }
        assert_int_equal(kvl_put(&f.k, 1, 98, 1, 0), SNIC_EIO);
        assert_int_equal(kvl_sync(&f.k), SNIC_EIO);
        assert_int_equal(snic_kv_sole(f.k.kv), 0);
        faults_again(&f);
        faults_expect(&f);
        assert_int_equal(kvl_put(&f.k, 1, 98, 1, SNIC_KVOP_DURABLE), 0);
        faults_close(&f);
    }
}

static void test_kv_lmdb_faults_full_disk_loses_nothing(void **state)
{
    struct faults f;
    (void)state;
    faults_open(&f);
    record_fault_data_write = (struct record_fault){.after = 1, .times = 8, .error = ENOSPC};
    assert_int_equal(kvl_put(&f.k, 1, 50, 150, 0), 0);
    assert_int_equal(kvl_sync(&f.k), SNIC_ENOSPC);
    assert_int_equal(kvl_get(&f.k, 1, 50, 0), 150);
    assert_int_equal(kvl_put(&f.k, 1, 51, 151, 0), SNIC_ENOSPC);
    /* What removes is taken; when there is room again all of it becomes durable. */
    struct snic_kvop_change c = {.key = kvl_key(1, 50), .kind = SNIC_KVOP_DELETE};
    struct snic_kvop op = {.kind = SNIC_KVOP_COMMIT, .changes = &c, .change_count = 1};
    assert_int_equal(kvl_run(&f.k, &op), 0);
    int64_t r = SNIC_ENOSPC;
    while (r == SNIC_ENOSPC) {
        kvl_turn(&f.k, 50000000);
        r = kvl_sync(&f.k);
    }
    assert_int_equal(r, 0);
    assert_int_equal(kvl_get(&f.k, 1, 50, 0), 0);
    assert_int_equal(kvl_put(&f.k, 1, 51, 151, SNIC_KVOP_DURABLE), 0);
    record_fault_data_write = (struct record_fault){.after = 1, .times = 1, .error = ENOSPC};
    assert_int_equal(kvl_put(&f.k, 1, 52, 152, SNIC_KVOP_DURABLE), SNIC_EUNKNOWN);
    faults_again(&f);
    faults_expect(&f);
    assert_int_equal(kvl_get(&f.k, 1, 51, 0), 151);
    assert_int_equal(kvl_get(&f.k, 1, 52, 0), 152);
    faults_close(&f);
}

static uint64_t faults_now(void)
{
    struct timespec t;
    (void)clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000ULL + (uint64_t)t.tv_nsec;
}

/* Close waits two seconds for room, and no longer; what was durable is there afterwards. */
static void test_kv_lmdb_faults_full_disk_close_ends(void **state)
{
    static const uint32_t times[] = {4, 1u << 30}; /* room comes in time, or never */
    struct faults f;
    (void)state;
    for (size_t i = 0; i < SNIC_COUNTOF(times); i++) {
        faults_open(&f);
        record_fault_data_write =
            (struct record_fault){.after = 1, .times = times[i], .error = ENOSPC};
        assert_int_equal(kvl_put(&f.k, 1, 50, 150, 0), 0);
        assert_int_equal(kvl_sync(&f.k), SNIC_ENOSPC);
        uint64_t began = faults_now();
        kvl_close(&f.k);
        int late = faults_now() - began > 2000000000ULL; /* room came too late for a slow machine */
        record_fault_data_write = (struct record_fault){0};
        assert_int_equal(kvl_try(&f.k, &f.opts, NULL), 0);
        faults_expect(&f);
        uint64_t value = kvl_get(&f.k, 1, 50, 0);
        if (i != 0 || !late || value != 0)
            assert_int_equal(value, i == 0 ? 150 : 0);
        faults_close(&f);
    }
}

static void test_kv_lmdb_faults_object_errors_are_of_their_operation(void **state)
{
    struct faults f;
    unsigned char b[KVL_BLOCK];
    (void)state;
    faults_open(&f);
    record_fault_object_read = (struct record_fault){.after = 1, .times = 1, .error = EIO};
    assert_int_equal(kvl_object(&f.k, SNIC_KVOP_OBJECT_READ, 0, 5, 0, KVL_BLOCK, b), SNIC_EIO);
    /* A part of a block cannot be written when the rest cannot be read. */
    record_fault_object_read = (struct record_fault){.after = 1, .times = 1, .error = EIO};
    assert_int_equal(kvl_object(&f.k, SNIC_KVOP_OBJECT_WRITE, 0, 5, 0, 100, b), SNIC_EIO);
    faults_expect(&f);
    kvl_fill(b, 5, 0, KVL_BLOCK, 1);
    const int errors[] = {EIO, ENOSPC};
    for (int i = 0; i < 2; i++) {
        record_fault_object_write =
            (struct record_fault){.after = 1, .times = 1, .error = errors[i]};
        assert_int_equal(kvl_object(&f.k, SNIC_KVOP_OBJECT_WRITE, 0, 5, 0, KVL_BLOCK, b),
                         i == 0 ? SNIC_EIO : SNIC_ENOSPC);
        record_fault_object_write =
            (struct record_fault){.after = 1, .times = 1, .error = errors[i]};
        assert_int_equal(kvl_object(&f.k, SNIC_KVOP_OBJECT_WRITE, 0, 7, 0, KVL_BLOCK, b),
                         i == 0 ? SNIC_EIO : SNIC_ENOSPC);
    }
    /* What failed to be new is not there; the other has old bytes or new ones. */
    unsigned char z[KVL_BLOCK];
    memset(z, 0, sizeof(z));
    assert_int_equal(kvl_object(&f.k, SNIC_KVOP_OBJECT_READ, 0, 7, 0, KVL_BLOCK, b), KVL_BLOCK);
    assert_memory_equal(b, z, sizeof(z));
    faults_expect(&f);
    faults_again(&f);
    faults_expect(&f);
    faults_close(&f);
}

/* ---- Damage ---- */

/** Change a byte of a file behind the first @p what; 1 if it was found. */
static int faults_damage(const struct faults *f, const char *file, const void *what, size_t size,
                         size_t behind)
{
    char name[600];
    struct stat st;
    (void)snprintf(name, sizeof(name), "%s/%s", f->path, file);
    int fd = open(name, O_RDWR);
    assert_true(fd >= 0 && fstat(fd, &st) == 0);
    size_t most = (size_t)snic_min_u64((uint64_t)st.st_size, 4U << 20);
    unsigned char *p = malloc(most);
    assert_non_null(p);
    assert_int_equal(pread(fd, p, most, 0), most);
    int found = 0;
    for (unsigned char *at = p; (at = memmem(at, most - (size_t)(at - p), what, size)) != NULL;
         at++) {
        unsigned char byte = at[behind] ^ 0x40;
        assert_int_equal(pwrite(fd, &byte, 1, at - p + (off_t)behind), 1);
        found = 1;
    }
    free(p);
    (void)close(fd);
    return found;
}

static void test_kv_lmdb_faults_damaged_bytes_are_reported(void **state)
{
    struct faults f;
    unsigned char b[2 * KVL_BLOCK];
    (void)state;
    faults_open(&f);
    kvl_close(&f.k);
    record_end();
    kvl_fill(b, 5, 3ULL * KVL_BLOCK, KVL_BLOCK, 1);
    assert_true(faults_damage(&f, "objects", b, 64, 700));
    uint64_t value = 104;
    struct snic_kvop_key key = kvl_key(1, 4);
    unsigned char pair[16];
    memcpy(pair, key.bytes, 8);
    memcpy(pair + 8, &value, 8);
    assert_true(faults_damage(&f, "data.mdb", pair, 16, 9));
    kvl_open(&f.k, f.path, 0);
    struct snic_iov piece = {b, sizeof(b)};
    struct snic_kvop op = {.kind = SNIC_KVOP_OBJECT_READ,
                           .object = 5,
                           .offset = 2ULL * KVL_BLOCK,
                           .length = sizeof(b),
                           .iov = &piece,
                           .iov_count = 1};
    assert_int_equal(kvl_run(&f.k, &op), SNIC_ECORRUPT);
    assert_int_equal(op.bad_offset, 3ULL * KVL_BLOCK);
    /* A part of it cannot be kept; written as a whole it is well again. */
    assert_int_equal(kvl_object(&f.k, SNIC_KVOP_OBJECT_WRITE, 0, 5, 3ULL * KVL_BLOCK, 512, b),
                     SNIC_ECORRUPT);
    kvl_fill(b, 5, 3ULL * KVL_BLOCK, KVL_BLOCK, 1);
    assert_int_equal(kvl_object(&f.k, SNIC_KVOP_OBJECT_WRITE, 0, 5, 3ULL * KVL_BLOCK, KVL_BLOCK, b),
                     KVL_BLOCK);
    struct snic_kvop_get g = {.key = key, .value = b, .room = sizeof(b)};
    op = (struct snic_kvop){.kind = SNIC_KVOP_GET, .gets = &g, .get_count = 1};
    assert_int_equal(kvl_run(&f.k, &op), SNIC_ECORRUPT);
    assert_int_equal(g.result, SNIC_ECORRUPT);
    op = (struct snic_kvop){.kind = SNIC_KVOP_SCAN, .out = b, .out_room = sizeof(b)};
    op.scan_max = 100;
    op.key.group = 1;
    assert_int_equal(kvl_run(&f.k, &op), 0);
    assert_int_equal(op.out_count, 10);
    for (const struct snic_kvop_record *r = snic_kvop_first(&op); r != NULL;
         r = snic_kvop_next(&op, r))
        assert_int_equal(snic_kvop_record_damaged(r),
                         memcmp(snic_kvop_record_key(r), key.bytes, 8) == 0);
    assert_int_equal(kvl_put(&f.k, 1, 4, 104, 0), 0);
    faults_expect(&f);
    kvl_close(&f.k);
}

static void faults_write(const char *path, const char *file, const char *text, size_t size)
{
    char name[600];
    (void)snprintf(name, sizeof(name), "%s/%s", path, file);
    int fd = open(name, O_RDWR | O_CREAT | O_TRUNC, 0600);
    assert_true(fd >= 0);
    assert_int_equal(write(fd, text, size), size);
    (void)close(fd);
}

static int faults_refused(const char *path)
{
    struct kvl k;
    struct snic_kv_lmdb_opts o = {.opts_size = sizeof(o), .path = path};
    char text[256] = "";
    int r = kvl_try(&k, &o, text);
    assert_true(r < 0);
    assert_true(text[0] != '\0');
    return r;
}

static void test_kv_lmdb_faults_what_is_no_store_is_refused(void **state)
{
    struct faults f;
    char path[512];
    char name[600];
    char junk[8192];
    (void)state;
    kvl_path(path, sizeof(path));
    assert_int_equal(faults_refused(path), SNIC_ENOENT);
    assert_int_equal(mkdir(path, 0700), 0);
    assert_int_equal(faults_refused(path), SNIC_ENOENT);
    memset(junk, 0x5a, sizeof(junk));
    faults_write(path, "data.mdb", junk, sizeof(junk));
    assert_int_equal(faults_refused(path), SNIC_ECORRUPT);
    faults_open(&f);
    kvl_close(&f.k);
    record_end();
    /* Another store's objects. */
    (void)snprintf(name, sizeof(name), "%s/objects", f.path);
    assert_int_equal(faults_damage(&f, "objects", "snickvl\n", 8, 30), 1);
    assert_int_equal(faults_refused(f.path), SNIC_ECORRUPT);
    assert_int_equal(unlink(name), 0);
    assert_int_equal(faults_refused(f.path), SNIC_ECORRUPT);
    /* A pipe in its place blocks no caller. */
    assert_int_equal(mkfifo(name, 0600), 0);
    (void)faults_refused(f.path);
    struct kvl k;
    struct snic_kv_lmdb_opts o = {
        .opts_size = sizeof(o), .path = f.path, .flags = SNIC_KV_OPEN_READONLY};
    assert_true(kvl_try(&k, &o, NULL) < 0);
    /* A damaged head record. */
    assert_int_equal(faults_damage(&f, "data.mdb", "snickvl\n", 8, 8), 1);
    assert_int_equal(faults_refused(f.path), SNIC_ECORRUPT);
    /* A data base that was cut short. */
    (void)snprintf(name, sizeof(name), "%s/data.mdb", f.path);
    assert_int_equal(truncate(name, 8192), 0);
    assert_int_equal(faults_refused(f.path), SNIC_ECORRUPT);
    o = (struct snic_kv_lmdb_opts){.opts_size = sizeof(o), .path = path, .depth = (1u << 20) + 1};
    assert_int_equal(kvl_try(&k, &o, NULL), SNIC_EINVAL);
    o = (struct snic_kv_lmdb_opts){.opts_size = sizeof(o), .path = path, .flags = 1u << 20};
    assert_int_equal(kvl_try(&k, &o, NULL), SNIC_EINVAL);
    o.flags = SNIC_KV_OPEN_CREATE | SNIC_KV_OPEN_READONLY;
    assert_int_equal(kvl_try(&k, &o, NULL), SNIC_EINVAL);
}

/* A wrong option is named; a message is cut to the size of the buffer. */
static void test_kv_lmdb_faults_wrong_option_einval(void **state)
{
    static const struct {
        struct snic_kv_lmdb_opts o;
        const char *name;
    } cases[] = {
        {{.opts_size = sizeof(cases[0].o)}, "path"},
        {{.opts_size = sizeof(cases[0].o), .path = "x", .flags = 1U << 20}, "flags"},
        {{.opts_size = sizeof(cases[0].o), .path = "x", .depth = 1U << 21}, "depth"},
        {{.opts_size = sizeof(cases[0].o), .path = "x", .map_bytes = 1}, "map_bytes"},
        {{.opts_size = 0, .path = "x"}, "opts_size"},
    };
    struct kvl k;
    (void)state;
    for (size_t i = 0; i < SNIC_COUNTOF(cases); i++) {
        char text[256] = "";
        assert_int_equal(kvl_try(&k, &cases[i].o, text), SNIC_EINVAL);
        assert_int_equal(strncmp(text, cases[i].name, strlen(cases[i].name)), 0);
    }
    struct snic_loop *l;
    struct snic_kv *kv = NULL;
    char small[8] = "1234567";
    assert_int_equal(snic_loop_uring_open(&l, NULL), 0);
    assert_int_equal(snic_kv_lmdb_open(&kv, l, &cases[3].o, NULL, small, 5), SNIC_EINVAL);
    assert_string_equal(small, "map_");
    assert_int_equal(small[5], '6');
    snic_loop_close(l);
}

/* A foreign file that happens to have that name. */
static void test_kv_lmdb_faults_foreign_objects_is_left_alone(void **state)
{
    struct kvl k;
    char path[512];
    char name[600];
    char text[256] = "";
    (void)state;
    kvl_path(path, sizeof(path));
    assert_int_equal(mkdir(path, 0700), 0);
    faults_write(path, "objects", "hi", 2);
    struct snic_kv_lmdb_opts o = {
        .opts_size = sizeof(o), .path = path, .flags = SNIC_KV_OPEN_CREATE};
    assert_int_equal(kvl_try(&k, &o, text), SNIC_ECORRUPT);
    assert_true(strstr(text, "objects") != NULL);
    struct stat st;
    (void)snprintf(name, sizeof(name), "%s/objects", path);
    assert_true(stat(name, &st) == 0 && st.st_size == 2);
    faults_write(path, "objects", "", 0);
    kvl_open(&k, path, SNIC_KV_OPEN_CREATE);
    assert_int_equal(kvl_put(&k, 1, 1, 1, SNIC_KVOP_DURABLE), 0);
    kvl_close(&k);
}

/* ---- A disk of a size ---- */

static struct {
    const char *path; /* NULL: the real one */
    uint64_t bytes;
} faults_disk;

int fstatvfs(int fd, struct statvfs *f);

/** The store's statfs(): the real file system's answer, or that of a disk with nothing else on it.
 */
int fstatvfs(int fd, struct statvfs *f)
{
    static const char *const files[] = {"objects", "data.mdb"};
    struct statfs real;
    memset(f, 0, sizeof(*f));
    if (fstatfs(fd, &real) != 0)
        return -1;
    f->f_bsize = f->f_frsize = (unsigned long)real.f_bsize;
    f->f_blocks = real.f_blocks;
    f->f_bfree = real.f_bfree;
    f->f_bavail = real.f_bavail;
    if (faults_disk.path == NULL)
        return 0;
    uint64_t used = 0;
    for (size_t i = 0; i < SNIC_COUNTOF(files); i++) {
        char name[600];
        struct stat st;
        (void)snprintf(name, sizeof(name), "%s/%s", faults_disk.path, files[i]);
        used += stat(name, &st) == 0 ? (uint64_t)st.st_blocks * 512 : 0;
    }
    f->f_bsize = f->f_frsize = 4096;
    f->f_blocks = faults_disk.bytes / 4096;
    f->f_bfree = f->f_bavail = used > faults_disk.bytes ? 0 : (faults_disk.bytes - used) / 4096;
    return 0;
}

enum { FAULTS_STEP = 64 << 10 };

/** Write an object from its beginning until the disk is full; how much it took. */
static uint64_t faults_fill(struct kvl *k, uint64_t object)
{
    static unsigned char b[FAULTS_STEP];
    uint64_t at = 0;
    int64_t r = FAULTS_STEP;
    memset(b, 0x31, sizeof(b));
    for (; r == FAULTS_STEP && at < faults_disk.bytes; at += FAULTS_STEP)
        r = kvl_object(k, SNIC_KVOP_OBJECT_WRITE, 0, object, at, FAULTS_STEP, b);
    assert_int_equal(r, SNIC_ENOSPC);
    return at - FAULTS_STEP;
}

static uint64_t faults_free(struct kvl *k)
{
    struct snic_kvop op = {.kind = SNIC_KVOP_SPACE};
    assert_int_equal(kvl_run(k, &op), 0);
    return op.space_free;
}

/*
 * A disk that objects have filled: what has its space is written, records come and go, and what is
 * removed can be had again, as often as one likes.
 */
static void test_kv_lmdb_faults_full_of_objects_and_back(void **state)
{
    enum { MIB = 1 << 20 };
    struct kvl k;
    char path[512];
    static unsigned char b[FAULTS_STEP];
    (void)state;
    kvl_path(path, sizeof(path));
    faults_disk.path = path;
    faults_disk.bytes = 96ULL << 20;
    kvl_open(&k, path, SNIC_KV_OPEN_CREATE);
    assert_int_equal(kvl_object(&k, SNIC_KVOP_OBJECT_ALLOC, 0, 1, 0, 4ULL * MIB, NULL), 0);
    for (uint64_t at = 0; at < 4ULL * MIB; at += FAULTS_STEP)
        assert_int_equal(kvl_object(&k, SNIC_KVOP_OBJECT_WRITE, 0, 2, at, FAULTS_STEP, b),
                         FAULTS_STEP);
    assert_int_equal(kvl_sync(&k), 0);
    for (uint64_t round = 0; round < 4; round++) {
        uint64_t free_bytes = faults_free(&k);
        uint64_t got = faults_fill(&k, 3);
        assert_true(got > 40ULL * MIB);
        assert_true(got <= free_bytes && free_bytes - got <= MIB);
        assert_true(faults_free(&k) < FAULTS_STEP);
        for (uint64_t i = 0; i < 40; i++) {
            uint64_t at = (i * 100000 + round) % (4ULL * MIB - 8192);
            assert_int_equal(kvl_object(&k, SNIC_KVOP_OBJECT_WRITE, 0, 1, at, 8192, b), 8192);
            assert_int_equal(kvl_object(&k, SNIC_KVOP_OBJECT_WRITE, 0, 2, at, 8192, b), 8192);
            assert_int_equal(kvl_put(&k, 7, i, round, 0), 0);
        }
        assert_int_equal(kvl_sync(&k), 0);
        assert_int_equal(kvl_object(&k, SNIC_KVOP_OBJECT_TRUNCATE, 0, 3, 0, 0, NULL), 0);
        assert_int_equal(kvl_sync(&k), 0);
        if (round % 2 == 1) {
            kvl_close(&k);
            kvl_open(&k, path, 0);
        }
    }
    kvl_close(&k);
    faults_disk.path = NULL;
}

/* Then records fill what objects left: those that are there can still be changed and removed. */
static void test_kv_lmdb_faults_full_of_records_and_back(void **state)
{
    struct kvl k;
    char path[512];
    static unsigned char value[4000];
    (void)state;
    kvl_path(path, sizeof(path));
    faults_disk.path = path;
    faults_disk.bytes = 64ULL << 20;
    kvl_open(&k, path, SNIC_KV_OPEN_CREATE);
    assert_int_equal(kvl_put(&k, 1, 1, 1, 0), 0);
    (void)faults_fill(&k, 3);
    int64_t r = 0;
    uint64_t n = 0;
    for (; r == 0 && n < 20000; n++) {
        struct snic_kvop_change c = {
            .key = kvl_key(3, n), .kind = SNIC_KVOP_PUT, .value = value, .size = sizeof(value)};
        struct snic_kvop op = {.kind = SNIC_KVOP_COMMIT, .changes = &c, .change_count = 1};
        r = kvl_run(&k, &op);
    }
    assert_int_equal(r, SNIC_ENOSPC);
    assert_true(n > 1000);
    assert_int_equal(kvl_put(&k, 1, 1, 2, 0), 0);
    for (uint64_t i = 0; i < 200; i++) { /* in the place of others: as many as one likes */
        struct snic_kvop_change c = {
            .key = kvl_key(3, i), .kind = SNIC_KVOP_PUT, .value = value, .size = sizeof(value)};
        struct snic_kvop op = {.kind = SNIC_KVOP_COMMIT, .changes = &c, .change_count = 1};
        assert_int_equal(kvl_run(&k, &op), 0);
    }
    assert_int_equal(kvl_object(&k, SNIC_KVOP_OBJECT_WRITE, 0, 3, 5, 4000, value), 4000);
    for (uint64_t i = 0; i + 1 < n; i++) {
        struct snic_kvop_change c = {.key = kvl_key(3, i), .kind = SNIC_KVOP_DELETE};
        struct snic_kvop op = {.kind = SNIC_KVOP_COMMIT, .changes = &c, .change_count = 1};
        assert_int_equal(kvl_run(&k, &op), 0);
    }
    assert_int_equal(kvl_sync(&k), 0);
    assert_int_equal(kvl_put(&k, 1, 2, 2, SNIC_KVOP_DURABLE), 0);
    assert_int_equal(kvl_get(&k, 1, 1, 0), 2);
    kvl_close(&k);
    faults_disk.path = NULL;
}

/** Changes with SNIC_KVOP_RESERVE, the next one when one is over. */
struct faults_flow {
    struct kvl_call call;
    struct snic_kvop_change change;
    struct kvl *k;
    uint64_t value;
    int stop;
};

static void faults_flow_next(struct snic_kv_req *req)
{
    struct faults_flow *f = SNIC_CONTAINER(req, struct faults_flow, call.req);
    if (f->stop) {
        f->call.done = 1;
        return;
    }
    f->value++;
    f->change = (struct snic_kvop_change){
        .key = kvl_key(1, 1), .kind = SNIC_KVOP_PUT, .value = &f->value, .size = sizeof(f->value)};
    f->call.op = (struct snic_kvop){.kind = SNIC_KVOP_COMMIT,
                                    .flags = SNIC_KVOP_RESERVE,
                                    .changes = &f->change,
                                    .change_count = 1};
    memset(req, 0, sizeof(*req));
    req->op = &f->call.op;
    req->done = faults_flow_next;
    assert_int_equal(snic_kv_submit(f->k->kv, &req, 1), 1);
}

/* On a disk that is nearly full a change waits for what is in memory when it comes, and not for
 * what others remove meanwhile. */
static void test_kv_lmdb_faults_nearly_full_holds_a_change_once(void **state)
{
    struct kvl k;
    struct faults_flow f = {.k = &k};
    struct kvl_call c;
    char path[512];
    uint64_t value = 7;
    (void)state;
    kvl_path(path, sizeof(path));
    kvl_open(&k, path, SNIC_KV_OPEN_CREATE);
    kvl_close(&k);
    faults_disk.path = path;
    faults_disk.bytes = 0;
    kvl_open(&k, path, 0);
    faults_flow_next(&f.call.req);
    uint64_t until = k.kv->stats.store_ops + 12;
    struct snic_kvop_change change = {
        .key = kvl_key(1, 2), .kind = SNIC_KVOP_PUT, .value = &value, .size = sizeof(value)};
    memset(&c, 0, sizeof(c));
    c.op = (struct snic_kvop){.kind = SNIC_KVOP_COMMIT, .changes = &change, .change_count = 1};
    kvl_begin(&k, &c);
    while (!c.done && k.kv->stats.store_ops < until)
        assert_true(snic_loop_once(k.loop, SNIC_NEVER) >= 0);
    int soon = c.done;
    f.stop = 1;
    assert_int_equal(kvl_end(&k, &f.call), 0);
    assert_int_equal(kvl_end(&k, &c), SNIC_ENOSPC);
    assert_true(soon);
    kvl_close(&k);
    faults_disk.path = NULL;
}

static void test_kv_lmdb_faults_readonly_changes_nothing(void **state)
{
    struct faults f;
    (void)state;
    faults_open(&f);
    kvl_close(&f.k);
    record_end();
    kvl_open(&f.k, f.path, SNIC_KV_OPEN_READONLY);
    assert_true((f.k.kv->caps & SNIC_KV_CAP_READONLY) != 0);
    faults_expect(&f);
    assert_int_equal(kvl_put(&f.k, 1, 1, 1, 0), SNIC_EPERM);
    assert_int_equal(kvl_object(&f.k, SNIC_KVOP_OBJECT_TRUNCATE, 0, 5, 0, 0, NULL), SNIC_EPERM);
    assert_int_equal(kvl_sync(&f.k), 0);
    faults_expect(&f);
    kvl_close(&f.k);
}

/* A small map: puts are refused before it is full, so that deletes always work. */
static void test_kv_lmdb_faults_full_map_lets_deletes_through(void **state)
{
    struct kvl k;
    char path[512];
    unsigned char value[4000];
    (void)state;
    memset(value, 7, sizeof(value));
    kvl_path(path, sizeof(path));
    struct snic_kv_lmdb_opts o = {
        .opts_size = sizeof(o), .path = path, .flags = SNIC_KV_OPEN_CREATE, .map_bytes = 8U << 20};
    assert_int_equal(kvl_try(&k, &o, NULL), 0);
    for (int round = 0; round < 3; round++) {
        uint64_t n = 0;
        int64_t r = 0;
        for (; r == 0 && n < 100000; n++) {
            struct snic_kvop_change c = {
                .key = kvl_key(3, n), .kind = SNIC_KVOP_PUT, .value = value, .size = sizeof(value)};
            struct snic_kvop op = {.kind = SNIC_KVOP_COMMIT, .changes = &c, .change_count = 1};
            r = kvl_run(&k, &op);
        }
        assert_int_equal(r, SNIC_ENOSPC);
        assert_true(n > 300);
        assert_int_equal(kvl_sync(&k), 0);
        for (uint64_t i = 0; i < n; i++) {
            struct snic_kvop_change c = {.key = kvl_key(3, i), .kind = SNIC_KVOP_DELETE};
            struct snic_kvop op = {.kind = SNIC_KVOP_COMMIT, .changes = &c, .change_count = 1};
            assert_int_equal(kvl_run(&k, &op), 0);
            if (i % 64 == 0)
                assert_int_equal(kvl_sync(&k), 0);
        }
        assert_int_equal(kvl_sync(&k), 0);
    }
    kvl_close(&k);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_kv_lmdb_faults_failed_sync_ends_the_handle),
        cmocka_unit_test(test_kv_lmdb_faults_full_disk_loses_nothing),
        cmocka_unit_test(test_kv_lmdb_faults_full_disk_close_ends),
        cmocka_unit_test(test_kv_lmdb_faults_object_errors_are_of_their_operation),
        cmocka_unit_test(test_kv_lmdb_faults_damaged_bytes_are_reported),
        cmocka_unit_test(test_kv_lmdb_faults_what_is_no_store_is_refused),
        cmocka_unit_test(test_kv_lmdb_faults_wrong_option_einval),
        cmocka_unit_test(test_kv_lmdb_faults_foreign_objects_is_left_alone),
        cmocka_unit_test(test_kv_lmdb_faults_full_of_objects_and_back),
        cmocka_unit_test(test_kv_lmdb_faults_full_of_records_and_back),
        cmocka_unit_test(test_kv_lmdb_faults_nearly_full_holds_a_change_once),
        cmocka_unit_test(test_kv_lmdb_faults_readonly_changes_nothing),
        cmocka_unit_test(test_kv_lmdb_faults_full_map_lets_deletes_through),
    };
    return SUPPORT_MAIN(argc, argv, tests);
}
