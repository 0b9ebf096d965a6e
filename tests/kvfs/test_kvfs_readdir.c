/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* READDIR: order, cookies, stable positions, attributes, atime. */
#include "test_kvfs_audit.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { LIST_ROOT = SNIC_FSOP_ROOT, LIST_DIR = 0040000, LIST_FILE = 0100000 };

static uint64_t list_open(struct kvt *t, uint64_t dir)
{
    struct snic_fsop req;
    kvt_req(t, &req, SNIC_FSOP_OPENDIR, dir, NULL);
    assert_int_equal(kvt_call(t, &req), 0);
    assert_int_equal(req.attr.ino, dir);
    return req.handle;
}

static void list_close(struct kvt *t, uint64_t dir, uint64_t handle)
{
    struct snic_fsop req;
    kvt_req(t, &req, SNIC_FSOP_RELEASEDIR, dir, NULL);
    req.handle = handle;
    assert_int_equal(kvt_call(t, &req), 0);
}

static int64_t list_page(struct kvt *t, uint64_t dir, uint64_t cookie, uint32_t flags, void *buffer,
                         size_t size)
{
    struct snic_fsop req;
    struct snic_iov iov = {buffer, size};
    kvt_req(t, &req, SNIC_FSOP_READDIR, dir, NULL);
    req.offset = cookie;
    req.flags |= flags;
    req.iov = &iov;
    req.iov_count = 1;
    return kvt_call(t, &req);
}

typedef void (*list_fn)(void *ctx, const struct snic_fsop_dirent *d);

static const char *list_name(const struct snic_fsop_dirent *d)
{
    return (const char *)(d + 1);
}

/* The whole directory in pages of `size` bytes. */
static uint64_t list_all(struct kvt *t, uint64_t dir, size_t size, uint32_t flags, list_fn fn,
                         void *ctx)
{
    unsigned char *buffer = support_guard_alloc(size, 8);
    uint64_t cookie = 0, count = 0;
    for (;;) {
        int64_t got = list_page(t, dir, cookie, flags, buffer, size);
        if (got < 0)
            print_error("%s\n", snic_errname((int)got));
        assert_true(got >= 0 && got <= (int64_t)size);
        if (got == 0)
            break;
        for (int64_t at = 0; at < got;) {
            const struct snic_fsop_dirent *d = (const void *)(buffer + at);
            assert_true(d->cookie >= cookie);
            assert_int_equal(d->bytes % 8, 0);
            assert_int_equal(strlen(list_name(d)), d->name_size);
            cookie = d->cookie;
            count++;
            if (fn != NULL)
                fn(ctx, d);
            at += d->bytes;
        }
        support_guard_check();
    }
    support_guard_free(buffer);
    return count;
}

/* ---- Contents ---- */

struct list_seen {
    uint64_t dot, dotdot;
    int names[64];
    int attrs;
    struct kvt *t;
};

static void list_check_entry(void *ctx, const struct snic_fsop_dirent *d)
{
    struct list_seen *s = ctx;
    int n;
    if (strcmp(list_name(d), ".") == 0) {
        assert_int_equal(d->cookie, 1);
        assert_int_equal(d->type, LIST_DIR);
        s->dot = d->ino;
    } else if (strcmp(list_name(d), "..") == 0) {
        assert_int_equal(d->cookie, 2);
        s->dotdot = d->ino;
    } else {
        assert_true(d->cookie > 2);
        assert_int_equal(sscanf(list_name(d), "name%d", &n), 1);
        s->names[n]++;
        assert_int_equal(d->type, n % 5 == 0 ? LIST_DIR : LIST_FILE);
        if (d->has_attr) {
            assert_int_equal(d->attr.ino, d->ino);
            assert_int_equal(d->attr.mode & 0170000, d->type);
            s->attrs++;
        }
    }
}

static void test_kvfs_readdir_each_entry_listed_once(void **state)
{
    static const size_t sizes[] = {208, 216, 400, 1000, 4096, 65536};
    struct kvt t;
    char name[16];
    (void)state;
    kvt_open(&t, NULL);
    uint64_t top = kvt_mkdir(&t, LIST_ROOT, "top", 0755);
    uint64_t dir = kvt_mkdir(&t, top, "dir", 0755);
    assert_int_equal(list_all(&t, LIST_ROOT, 4096, 0, NULL, NULL), 3);
    assert_int_equal(list_all(&t, dir, 4096, 0, NULL, NULL), 2);
    for (int i = 0; i < 64; i++) {
        snprintf(name, sizeof(name), "name%d", i);
        if (i % 5 == 0)
            (void)kvt_mkdir(&t, dir, name, 0755);
        else
            (void)kvt_file(&t, dir, name, 0644);
    }
    for (unsigned plus = 0; plus < 2; plus++) {
        for (unsigned i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
            struct list_seen s = {.t = &t};
            uint32_t flags = plus ? SNIC_FSOP_READDIR_PLUS : 0;
            assert_int_equal(list_all(&t, dir, sizes[i], flags, list_check_entry, &s), 66);
            assert_int_equal(s.dot, dir);
            assert_int_equal(s.dotdot, top);
            assert_int_equal(s.attrs, plus ? 64 : 0);
            for (int n = 0; n < 64; n++)
                assert_int_equal(s.names[n], 1);
        }
    }
    struct list_seen root = {.t = &t};
    unsigned char buffer[1024];
    int64_t got = list_page(&t, LIST_ROOT, 0, 0, buffer, sizeof(buffer));
    assert_true(got > 0);
    list_check_entry(&root, (const void *)buffer);
    list_check_entry(
        &root, (const void *)(buffer + ((const struct snic_fsop_dirent *)(void *)buffer)->bytes));
    assert_int_equal(root.dot, LIST_ROOT);
    assert_int_equal(root.dotdot, LIST_ROOT);
    kvt_close(&t);
}

static void test_kvfs_readdir_bad_requests_refused(void **state)
{
    struct kvt t;
    struct snic_fsop req;
    unsigned char buffer[512];
    (void)state;
    kvt_open(&t, NULL);
    uint64_t dir = kvt_mkdir(&t, LIST_ROOT, "dir", 0700);
    uint64_t file = kvt_file(&t, dir, "a rather long name, so that it does not fit", 0644);
    assert_int_equal(list_page(&t, file, 0, 0, buffer, sizeof(buffer)), SNIC_ENOTDIR);
    assert_int_equal(list_page(&t, 98765, 0, 0, buffer, sizeof(buffer)), SNIC_ENOENT);
    assert_int_equal(list_page(&t, dir, 0, 0, buffer, 64), SNIC_EINVAL);
    assert_int_equal(list_page(&t, dir, 2, 0, buffer, 208), SNIC_EINVAL);
    assert_int_equal(list_page(&t, dir, 0, 0, buffer, 208), 200); /* only "." fits */
    kvt_req(&t, &req, SNIC_FSOP_OPENDIR, file, NULL);
    assert_int_equal(kvt_call(&t, &req), SNIC_ENOTDIR);
    t.cred.uid = t.cred.gid = 100;
    assert_int_equal(list_page(&t, dir, 0, 0, buffer, sizeof(buffer)), SNIC_EACCES);
    kvt_req(&t, &req, SNIC_FSOP_OPENDIR, dir, NULL);
    assert_int_equal(kvt_call(&t, &req), SNIC_EACCES);
    t.cred.uid = t.cred.gid = 0;
    uint64_t gone = kvt_mkdir(&t, LIST_ROOT, "gone", 0755);
    uint64_t handle = list_open(&t, gone);
    assert_int_equal(kvt_rmdir(&t, LIST_ROOT, "gone"), 0);
    kvt_settle(&t);
    assert_int_equal(list_page(&t, gone, 0, 0, buffer, sizeof(buffer)), SNIC_ENOENT);
    list_close(&t, gone, handle);
    kvt_close(&t);
}

/* ---- Equal cookies ---- */

/* Put an entry record with any hash directly into the store. */
static void list_forge(struct kvt *t, uint64_t dir, uint64_t high, uint64_t low, int first,
                       int count, uint64_t ino)
{
    unsigned char record[4096];
    uint32_t size = 0;
    char name[32];
    struct snic_fsop_hash h = {high, low};
    struct snic_kvop op;
    struct snic_kvop_change put;
    memset(&op, 0, sizeof(op));
    memset(&put, 0, sizeof(put));
    for (int i = first; i < first + count; i++) {
        struct snic_kvfs_entry e = {ino, LIST_FILE, 0, name};
        e.name_size = (uint32_t)snprintf(name, sizeof(name), "name%d", i);
        assert_int_equal(snic_kvfs_entry_append(record, &size, sizeof(record), &e), 0);
    }
    snic_kvfs_key_hash(&put.key, dir, SNIC_KVFS_REC_ENTRY, h);
    snic_kvfs_seal(&put.key, record, size, 0);
    put.kind = SNIC_KVOP_PUT;
    put.value = record;
    put.size = size;
    op.kind = SNIC_KVOP_COMMIT;
    op.changes = &put;
    op.change_count = 1;
    snic_kvmem_apply(t->m, &op);
    assert_int_equal(op.result, 0);
}

struct list_groups {
    uint64_t cookie[64];
    int names;
};

static void list_group(void *ctx, const struct snic_fsop_dirent *d)
{
    struct list_groups *g = ctx;
    int n;
    if (d->cookie <= 2)
        return;
    assert_int_equal(sscanf(list_name(d), "name%d", &n), 1);
    g->cookie[n] = d->cookie;
    g->names++;
}

static void test_kvfs_readdir_equal_cookies_in_one_page(void **state)
{
    struct kvt t;
    unsigned char buffer[8192];
    (void)state;
    kvt_open(&t, NULL);
    uint64_t dir = kvt_mkdir(&t, LIST_ROOT, "dir", 0755);
    uint64_t file = kvt_file(&t, LIST_ROOT, "file", 0644);
    list_forge(&t, dir, 0, 7, 0, 1, file); /* cookie 3 for any low hash */
    list_forge(&t, dir, 3, 7, 1, 1, file);
    list_forge(&t, dir, 6, 7, 2, 1, file);
    list_forge(&t, dir, 7, UINT64_MAX, 3, 2, file);
    list_forge(&t, dir, 0x8000, 0, 5, 1, file); /* cookie 0x4000: four records, six names */
    list_forge(&t, dir, 0x8000, 1, 6, 3, file);
    list_forge(&t, dir, 0x8001, 0, 9, 1, file);
    list_forge(&t, dir, 0x8001, UINT64_MAX, 10, 1, file);
    list_forge(&t, dir, 0x8002, 0, 11, 1, file); /* cookie 0x4001 */
    list_forge(&t, dir, UINT64_MAX, UINT64_MAX, 12, 2, file);
    for (uint32_t plus = 0; plus < 2; plus++) {
        uint32_t flags = plus ? SNIC_FSOP_READDIR_PLUS : 0;
        for (size_t size = 6 * 200; size < sizeof(buffer); size += 8) {
            struct list_groups g = {.names = 0};
            list_all(&t, dir, size, flags, list_group, &g);
            assert_int_equal(g.names, 14);
            assert_int_equal(g.cookie[4], 3);
            assert_int_equal(g.cookie[10], 0x4000);
            assert_int_equal(g.cookie[13], UINT64_MAX >> 1);
        }
    }
    /* A group that does not fit into an empty buffer is refused; the one before it is not. */
    assert_int_equal(list_page(&t, dir, 2, 0, buffer, 5 * 200), 5 * 200);
    assert_int_equal(list_page(&t, dir, 3, 0, buffer, 5 * 200), SNIC_EINVAL);
    assert_int_equal(list_page(&t, dir, 0, 0, buffer, 6 * 200), 2 * 200);
    assert_int_equal(list_page(&t, dir, 0x4000, 0, buffer, 600), 600);
    t.quiet = 1;
    assert_int_equal(kvt_unmount(&t), 0);
    kvt_close(&t);
}

/* ---- Attributes ---- */

static void list_attrs(void *ctx, const struct snic_fsop_dirent *d)
{
    int *have = ctx;
    if (d->cookie > 2)
        have[d->has_attr]++;
}

/* An entry whose inode was deleted meanwhile is listed without attributes. */
static void test_kvfs_readdir_plus_deleted_inode_without_attr(void **state)
{
    struct kvt t;
    int have[2] = {0, 0};
    (void)state;
    kvt_open(&t, NULL);
    uint64_t dir = kvt_mkdir(&t, LIST_ROOT, "dir", 0755);
    uint64_t file = kvt_file(&t, dir, "name1", 0644);
    assert_int_equal(kvt_unmount(&t), 0);
    list_forge(&t, dir, 0x8000, 0, 2, 1, 77777);
    assert_int_equal(kvt_mount(&t), 0);
    assert_int_equal(list_all(&t, dir, 4096, SNIC_FSOP_READDIR_PLUS, list_attrs, have), 4);
    assert_int_equal(have[0], 1);
    assert_int_equal(have[1], 1);
    (void)file;
    kvt_close(&t);
}

static void test_kvfs_readdir_atime_as_relatime(void **state)
{
    struct kvt t;
    struct snic_fsop_attr a, b;
    unsigned char buffer[1024];
    (void)state;
    kvt_open(&t, NULL);
    uint64_t dir = kvt_mkdir(&t, LIST_ROOT, "dir", 0755);
    kvt_advance(&t, 1000000);
    (void)list_page(&t, dir, 0, SNIC_FSOP_NOATIME, buffer, sizeof(buffer));
    assert_int_equal(kvt_getattr(&t, dir, &a), 0);
    assert_int_equal(a.atime.nsec, a.mtime.nsec);
    (void)list_page(&t, dir, 0, 0, buffer, sizeof(buffer));
    assert_int_equal(kvt_getattr(&t, dir, &b), 0);
    assert_true(b.atime.nsec > a.atime.nsec);
    assert_memory_equal(&a.mtime, &b.mtime, sizeof(a.mtime));
    assert_memory_equal(&a.ctime, &b.ctime, sizeof(a.ctime));
    kvt_advance(&t, 1000000);
    (void)list_page(&t, dir, 0, 0, buffer, sizeof(buffer));
    assert_int_equal(kvt_getattr(&t, dir, &a), 0);
    assert_memory_equal(&a.atime, &b.atime, sizeof(a.atime)); /* after mtime, and not a day old */
    kvt_advance(&t, 86400ULL * 1000000000);
    (void)list_page(&t, dir, 0, 0, buffer, sizeof(buffer));
    assert_int_equal(kvt_getattr(&t, dir, &a), 0);
    assert_true(a.atime.sec >= b.atime.sec + 86400);
    kvt_close(&t);
}

/* ---- A large directory that changes ---- */

struct list_large {
    unsigned char *seen; /* stable names                                                       */
    uint64_t moving;
};

static void list_count(void *ctx, const struct snic_fsop_dirent *d)
{
    struct list_large *l = ctx;
    int n;
    if (sscanf(list_name(d), "s%d", &n) == 1)
        l->seen[n]++;
    else
        l->moving += d->cookie > 2;
}

struct list_call {
    struct snic_fsop req;
    char name[16];
};

/*
 * Names are created and removed between and during the pages of a listing: each name that stays is
 * listed exactly once.
 */
static void test_kvfs_readdir_changing_directory_stable_names_once(void **state)
{
    const int stable = (int)support_scale(100000, 1000000);
    enum { FLIGHT = 16, PAGE = 32768 };
    struct list_large l = {.seen = calloc((size_t)stable, 1)};
    struct list_call call[FLIGHT];
    struct kvt t;
    unsigned char *buffer = malloc(PAGE);
    char name[16];
    uint64_t cookie = 0, next = 0, pages = 0;
    (void)state;
    assert_non_null(l.seen);
    assert_non_null(buffer);
    kvt_open(&t, NULL);
    uint64_t dir = kvt_mkdir(&t, LIST_ROOT, "dir", 0755);
    for (int i = 0; i < stable; i++) {
        snprintf(name, sizeof(name), "s%d", i);
        (void)kvt_file(&t, dir, name, 0644);
    }
    t.random = 1;
    for (int more = 1; more;) {
        struct snic_iov iov = {buffer, PAGE};
        struct snic_fsop list;
        kvt_req(&t, &list, SNIC_FSOP_READDIR, dir, NULL);
        list.offset = cookie;
        list.iov = &iov;
        list.iov_count = 1;
        list.flags = pages % 3 == 0 ? SNIC_FSOP_READDIR_PLUS : 0;
        for (int i = 0; i < FLIGHT; i++) {
            uint64_t n = next++;
            int gone = i % 2 != 0;
            snprintf(call[i].name, sizeof(name), "m%d", (int)((gone ? n - 31 : n) % 100000));
            kvt_req(&t, &call[i].req, gone ? SNIC_FSOP_UNLINK : SNIC_FSOP_MKNOD, dir, call[i].name);
            call[i].req.mode = 0100644;
            kvt_submit(&t, &call[i].req);
            if (i == FLIGHT / 2)
                kvt_submit(&t, &list);
        }
        for (int i = 0; i <= FLIGHT; i++)
            assert_non_null(kvt_wait(&t));
        assert_true(list.result >= 0);
        more = list.result != 0;
        pages++;
        for (int64_t at = 0; at < list.result;) {
            const struct snic_fsop_dirent *d = (const void *)(buffer + at);
            cookie = d->cookie;
            list_count(&l, d);
            at += d->bytes;
        }
    }
    for (int i = 0; i < stable; i++)
        assert_int_equal(l.seen[i], 1);
    assert_true(pages > 100);
    kvt_close(&t);
    free(l.seen);
    free(buffer);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_kvfs_readdir_each_entry_listed_once),
        cmocka_unit_test(test_kvfs_readdir_bad_requests_refused),
        cmocka_unit_test(test_kvfs_readdir_equal_cookies_in_one_page),
        cmocka_unit_test(test_kvfs_readdir_plus_deleted_inode_without_attr),
        cmocka_unit_test(test_kvfs_readdir_atime_as_relatime),
        cmocka_unit_test(test_kvfs_readdir_changing_directory_stable_names_once),
    };
    return SUPPORT_MAIN(argc, argv, tests);
}
