/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* The engine: its own contract, creation and lookup with their rules and errors, the cache. */
#include "test_kvfs_util.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The first steps of any user. */
static void test_kvfs_fresh_made_found(void **state)
{
    struct kvt t;
    char target[16];
    (void)state;
    kvt_open(&t, NULL);
    uint64_t dir = kvt_mkdir(&t, SNIC_FSOP_ROOT, "dir", 0755);
    uint64_t file = kvt_file(&t, dir, "file", 0644);
    assert_int_equal(kvt_try_lookup(&t, SNIC_FSOP_ROOT, "dir"), dir);
    assert_int_equal(kvt_try_lookup(&t, dir, "file"), file);
    assert_int_equal(kvt_try_lookup(&t, dir, "none"), SNIC_ENOENT);
    assert_int_equal(kvt_try_lookup(&t, file, "x"), SNIC_ENOTDIR);
    assert_int_equal(kvt_try_resolve(&t, SNIC_FSOP_ROOT, "/dir/../dir/./file"), file);
    assert_int_equal(kvt_try_mkdir(&t, dir, "file", 0755), SNIC_EEXIST);
    int64_t link = kvt_try_symlink(&t, dir, "link", "target");
    assert_true(link > 0);
    assert_int_equal(kvt_readlink(&t, (uint64_t)link, target, sizeof(target)), 6);
    assert_memory_equal(target, "target", 6);
    kvt_close(&t);
}

/* ---- The engine's contract ---- */

static void test_kvfs_options_wrong_refused(void **state)
{
    struct snic_kvfs_opts good, o;
    struct snic_kvfs *k = (struct snic_kvfs *)&good;
    (void)state;
    kvt_opts(&good);
    assert_true(snic_kvfs_memsize(&good) > 0);
    for (int i = 0; i < 11; i++) {
        o = good;
        if (i == 0)
            o.opts_size = 3;
        else if (i == 1)
            o.requests_max = 65537;
        else if (i == 2)
            o.session_id = 0;
        else if (i == 3)
            o.flags = 1U << 9;
        else if (i == 4)
            o.reserved = 1;
        else if (i == 5)
            o.heartbeat_ns = o.lease_ns = 5;
        else if (i == 6)
            o.cache_bytes = 1ULL << 50;
        else if (i == 7)
            o.times_ns = UINT64_MAX;
        else if (i == 8)
            o.lease_ns = UINT64_MAX;
        else if (i == 9)
            o.locks_max = (1U << 30) + 1;
        else
            o.inodes_max = UINT32_MAX;
        assert_int_equal(snic_kvfs_memsize(&o), 0);
        assert_int_equal(snic_kvfs_init(&k, &good, 1U << 30, &o), SNIC_EINVAL);
        assert_ptr_equal(k, &good);
    }
}

/* Exactly memsize() bytes are enough, and a byte less is refused. */
static void test_kvfs_memory_short_refused(void **state)
{
    struct snic_kvfs_opts o;
    struct snic_kvfs *k = NULL;
    size_t size;
    unsigned char *mem;
    (void)state;
    kvt_opts(&o);
    size = snic_kvfs_memsize(&o);
    mem = support_guard_alloc(size, SNIC_CACHELINE);
    assert_int_equal(snic_kvfs_init(&k, mem, size - 1, &o), SNIC_ENOSPC);
    assert_int_equal(snic_kvfs_init(&k, mem + 1, size, &o), SNIC_EINVAL);
    assert_null(k);
    assert_int_equal(snic_kvfs_init(&k, mem, size, &o), 0);
    assert_int_equal(snic_kvfs_check(k), 0);
    assert_ptr_equal(snic_kvfs_fini(k), mem);
    support_guard_free(mem);
}

static void test_kvfs_submit_wrong_or_full_refused(void **state)
{
    struct snic_kvfs_opts o;
    struct snic_fsop r[3];
    struct kvt t;
    (void)state;
    kvt_opts(&o);
    o.requests_max = 2;
    kvt_open(&t, &o);
    kvt_req(&t, &r[0], 0, SNIC_FSOP_ROOT, "x");
    assert_int_equal(snic_kvfs_submit(t.k, &r[0], t.now), SNIC_EINVAL);
    r[0].kind = SNIC_FSOP_KINDS;
    assert_int_equal(snic_kvfs_submit(t.k, &r[0], t.now), SNIC_EINVAL);
    for (int i = 0; i < 3; i++) {
        kvt_req(&t, &r[i], SNIC_FSOP_MKDIR, SNIC_FSOP_ROOT, i == 0 ? "a" : "b");
        assert_int_equal(snic_kvfs_submit(t.k, &r[i], t.now), i < 2 ? 0 : SNIC_EAGAIN);
    }
    assert_non_null(kvt_wait(&t));
    assert_int_equal(snic_kvfs_submit(t.k, &r[2], t.now), 0);
    assert_non_null(kvt_wait(&t));
    assert_non_null(kvt_wait(&t));
    assert_null(snic_kvfs_poll_done(t.k));
    kvt_close(&t);
}

static void test_kvfs_not_mounted_refused(void **state)
{
    struct snic_kvmem *m;
    struct kvt t;
    (void)state;
    kvt_medium(&m, 0);
    kvt_open_on(&t, m, NULL);
    t.owns_medium = 1;
    assert_int_equal(kvt_try_lookup(&t, SNIC_FSOP_ROOT, "x"), SNIC_EINVAL);
    assert_int_equal(kvt_mount(&t), SNIC_ENOENT);
    assert_int_equal(kvt_mkfs(&t), 0);
    assert_int_equal(kvt_mkfs(&t), SNIC_EEXIST);
    assert_int_equal(kvt_mount(&t), 0);
    kvt_close(&t);
}

/* ---- Names and their errors ---- */

static char *long_name(uint32_t size)
{
    char *name = malloc(size + 1);
    assert_non_null(name);
    memset(name, 'n', size);
    name[size] = 0;
    return name;
}

static uint64_t store_digest(struct kvt *t)
{
    kvt_settle(t);
    return snic_kvmem_digest(t->m);
}

/* Every error of making and finding, each leaving the store as it was. */
static void test_kvfs_make_wrong_refused_nothing_changed(void **state)
{
    char *longest = long_name(1024), *longer = long_name(1025);
    char *target = long_name(4095), *more = long_name(4096), back[4096];
    char *much = long_name(10 * 4095);
    struct kvt t;
    uint64_t digest, ino;
    (void)state;
    kvt_open(&t, NULL);
    uint64_t dir = kvt_mkdir(&t, SNIC_FSOP_ROOT, "dir", 0755);
    uint64_t file = kvt_file(&t, dir, "file", 0644);
    digest = store_digest(&t);
    assert_int_equal(kvt_try_mkdir(&t, dir, longer, 0755), SNIC_ENAMETOOLONG);
    assert_int_equal(kvt_try_lookup(&t, dir, longer), SNIC_ENAMETOOLONG);
    assert_int_equal(kvt_try_resolve(&t, dir, longer), SNIC_ENAMETOOLONG);
    assert_int_equal(kvt_try_mkdir(&t, dir, much, 0755), SNIC_ENAMETOOLONG);
    assert_int_equal(kvt_try_symlink(&t, dir, "x", much), SNIC_ENAMETOOLONG);
    char *path = malloc(655361);
    assert_non_null(path);
    memset(path, '/', 655360);
    path[655360] = 0;
    assert_int_equal(kvt_try_resolve(&t, dir, path), SNIC_ENAMETOOLONG);
    path[65536] = 0;
    assert_int_equal(kvt_try_resolve(&t, dir, path), SNIC_FSOP_ROOT);
    path[65536] = '/';
    path[65537] = 0;
    assert_int_equal(kvt_try_resolve(&t, dir, path), SNIC_ENAMETOOLONG);
    free(path);
    assert_int_equal(kvt_try_mkdir(&t, dir, "", 0755), SNIC_ENOENT);
    assert_int_equal(kvt_try_lookup(&t, dir, ""), SNIC_ENOENT);
    assert_int_equal(kvt_try_resolve(&t, dir, ""), SNIC_ENOENT);
    assert_int_equal(kvt_try_mkdir(&t, dir, "a/b", 0755), SNIC_EINVAL);
    assert_int_equal(kvt_try_mkdir(&t, dir, ".", 0755), SNIC_EEXIST);
    assert_int_equal(kvt_try_mkdir(&t, dir, "..", 0755), SNIC_EEXIST);
    assert_int_equal(kvt_try_mkdir(&t, file, "x", 0755), SNIC_ENOTDIR);
    assert_int_equal(kvt_try_mkdir(&t, 99999, "x", 0755), SNIC_ENOENT);
    assert_int_equal(kvt_try_lookup(&t, 99999, "x"), SNIC_ENOENT);
    assert_int_equal(kvt_try_mknod(&t, dir, "file", 0100644, 0), SNIC_EEXIST);
    assert_int_equal(kvt_try_mknod(&t, dir, "x", 0040755, 0), SNIC_EINVAL);
    assert_int_equal(kvt_try_mknod(&t, dir, "x", 0120777, 0), SNIC_EINVAL);
    assert_int_equal(kvt_try_symlink(&t, dir, "x", ""), SNIC_ENOENT);
    assert_int_equal(kvt_try_symlink(&t, dir, "x", more), SNIC_ENAMETOOLONG);
    assert_int_equal(kvt_try_resolve(&t, dir, "file/"), SNIC_ENOTDIR);
    assert_int_equal(kvt_try_resolve(&t, dir, "file/x"), SNIC_ENOTDIR);
    assert_int_equal(kvt_readlink(&t, file, back, sizeof(back)), SNIC_EINVAL);
    assert_int_equal(store_digest(&t), digest);
    assert_int_equal(t.damages, 0);
    ino = kvt_mkdir(&t, dir, longest, 0755);
    assert_int_equal(kvt_lookup(&t, dir, longest), ino);
    ino = (uint64_t)kvt_try_symlink(&t, dir, "x", target);
    assert_int_equal(kvt_readlink(&t, ino, back, sizeof(back)), 4095);
    assert_memory_equal(back, target, 4095);
    assert_int_equal(kvt_readlink(&t, ino, back, 10), 10);
    kvt_close(&t);
    free(longest), free(longer), free(target), free(more), free(much);
}

/* What a new name does to its directory, and what the new inode looks like. */
static void test_kvfs_make_attributes_of_both(void **state)
{
    struct snic_fsop_attr before, after, a;
    struct snic_fsop req;
    struct kvt t;
    (void)state;
    kvt_open(&t, NULL);
    uint64_t dir = kvt_mkdir(&t, SNIC_FSOP_ROOT, "dir", 0755);
    assert_int_equal(kvt_getattr(&t, dir, &before), 0);
    assert_int_equal(before.nlink, 2);
    assert_int_equal(before.entries, 0);
    kvt_advance(&t, 5000);
    t.cred.umask = 027;
    static const uint32_t no_types[] = {0030000, 0040000, 0120000, 0170000};
    for (uint32_t i = 0; i < SNIC_COUNTOF(no_types); i++) { /* its entry would be unreadable */
        kvt_req(&t, &req, SNIC_FSOP_MKNOD, dir, "no");
        req.mode = no_types[i] | 0666;
        assert_true(kvt_call(&t, &req) < 0);
    }
    kvt_req(&t, &req, SNIC_FSOP_MKNOD, dir, "dev");
    req.mode = 0020666;
    req.rdev = 0x123456789aULL;
    assert_int_equal(kvt_call(&t, &req), 0);
    assert_int_equal(kvt_getattr(&t, req.attr.ino, &a), 0);
    assert_memory_equal(&a, &req.attr, sizeof(a));
    assert_int_equal(a.mode, 0020640);
    assert_true(a.rdev == 0x123456789aULL);
    assert_int_equal(a.nlink, 1);
    assert_int_equal(a.parent, dir);
    assert_memory_equal(&a.mtime, &a.btime, sizeof(a.mtime));
    assert_int_equal(kvt_getattr(&t, dir, &after), 0);
    assert_int_equal(after.entries, 1);
    assert_int_equal(after.nlink, 2);
    assert_memory_equal(&after.mtime, &a.mtime, sizeof(a.mtime));
    assert_memory_equal(&after.ctime, &a.mtime, sizeof(a.mtime));
    assert_memory_equal(&after.atime, &before.atime, sizeof(a.atime));
    assert_true(after.version > before.version);
    kvt_mkdir(&t, dir, "sub", 0755);
    assert_int_equal(kvt_getattr(&t, dir, &after), 0);
    assert_int_equal(after.nlink, 3);
    assert_int_equal(after.entries, 2);
    assert_int_equal(kvt_try_lookup(&t, dir, ".."), SNIC_FSOP_ROOT);
    assert_int_equal(kvt_try_lookup(&t, SNIC_FSOP_ROOT, ".."), SNIC_FSOP_ROOT);
    assert_int_equal(kvt_try_lookup(&t, dir, "."), dir);
    kvt_close(&t);
}

/* CREATE opens an existing file, unless EXCL is set; TRUNC empties it. */
static void test_kvfs_create_existing_opened(void **state)
{
    struct snic_fsop req;
    struct snic_fsop_attr a;
    struct kvt t;
    (void)state;
    kvt_open(&t, NULL);
    uint64_t file = kvt_create(&t, SNIC_FSOP_ROOT, "file", 0644);
    assert_int_equal(kvt_write(&t, file, 0, "hello", 5), 5);
    kvt_req(&t, &req, SNIC_FSOP_CREATE, SNIC_FSOP_ROOT, "file");
    req.mode = 0600;
    req.flags |= SNIC_FSOP_OPEN_READ;
    assert_int_equal(kvt_call(&t, &req), 0);
    assert_int_equal(req.attr.ino, file);
    assert_int_equal(req.attr.size, 5);
    assert_int_equal(req.attr.mode, 0100644);
    assert_true(req.handle != 0);
    req.flags |= SNIC_FSOP_EXCL;
    assert_int_equal(kvt_call(&t, &req), SNIC_EEXIST);
    req.flags &= ~SNIC_FSOP_EXCL;
    req.flags |= SNIC_FSOP_TRUNC | SNIC_FSOP_OPEN_WRITE;
    assert_int_equal(kvt_call(&t, &req), 0);
    assert_int_equal(req.attr.size, 0);
    assert_int_equal(kvt_getattr(&t, file, &a), 0);
    assert_int_equal(a.size, 0);
    kvt_mkdir(&t, SNIC_FSOP_ROOT, "dir", 0755);
    kvt_req(&t, &req, SNIC_FSOP_CREATE, SNIC_FSOP_ROOT, "dir");
    req.flags |= SNIC_FSOP_OPEN_WRITE;
    assert_int_equal(kvt_call(&t, &req), SNIC_EISDIR);
    for (int i = 0; i < 3; i++)
        assert_int_equal(kvt_release(&t, file, SNIC_FSOP_OPEN_READ), 0);
    kvt_close(&t);
}

/* Permissions of the directory: search to find, write to make; and setgid's group. */
static void test_kvfs_make_not_allowed_refused(void **state)
{
    struct snic_fsop_attr a;
    struct kvt t;
    (void)state;
    kvt_open(&t, NULL);
    uint64_t dir = kvt_mkdir(&t, SNIC_FSOP_ROOT, "dir", 0711);
    uint64_t shut = kvt_mkdir(&t, SNIC_FSOP_ROOT, "shut", 0700);
    uint64_t set = kvt_mkdir(&t, SNIC_FSOP_ROOT, "set", 0777);
    a.mode = 02777;
    a.gid = 77;
    assert_int_equal(kvt_setattr(&t, set, SNIC_FSOP_SET_GID, &a), 0);
    a.mode = 02777;
    assert_int_equal(kvt_setattr(&t, set, SNIC_FSOP_SET_MODE, &a), 0);
    kvt_mkdir(&t, dir, "there", 0755);
    t.cred.uid = 1000;
    t.cred.gid = 1000;
    assert_true(kvt_try_lookup(&t, dir, "there") > 0);
    assert_int_equal(kvt_try_lookup(&t, shut, "x"), SNIC_EACCES);
    assert_int_equal(kvt_try_mkdir(&t, dir, "x", 0755), SNIC_EACCES);
    assert_int_equal(kvt_try_mkdir(&t, dir, "there", 0755), SNIC_EEXIST);
    assert_int_equal(kvt_try_resolve(&t, SNIC_FSOP_ROOT, "/shut/x"), SNIC_EACCES);
    assert_int_equal(kvt_getattr(&t, kvt_mkdir(&t, set, "sub", 0755), &a), 0);
    assert_int_equal(a.gid, 77);
    assert_int_equal(a.mode, 0042755);
    assert_int_equal(kvt_getattr(&t, kvt_file(&t, set, "file", 0644), &a), 0);
    assert_int_equal(a.gid, 77);
    assert_int_equal(a.uid, 1000);
    kvt_close(&t);
}

/* Paths longer than an operation takes in one round. */
static void test_kvfs_resolve_deep_found(void **state)
{
    char *name = long_name(900), *path = calloc(1, 60000);
    struct kvt t;
    uint64_t at = SNIC_FSOP_ROOT;
    size_t size = 0;
    (void)state;
    kvt_open(&t, NULL);
    for (int i = 0; i < 60; i++) {
        name[0] = (char)('a' + i % 26);
        at = kvt_mkdir(&t, at, name, 0755);
        path[size++] = '/';
        memcpy(path + size, name, 900);
        size += 900;
    }
    assert_int_equal(kvt_try_resolve(&t, 12345, path), at);
    path[size - 1] = 'x';
    assert_int_equal(kvt_try_resolve(&t, SNIC_FSOP_ROOT, path), SNIC_ENOENT);
    assert_int_equal(kvt_try_resolve(&t, at, "../../.."), kvt_try_resolve(&t, at, ".././.././../"));
    kvt_close(&t);
    free(name);
    free(path);
}

/* ---- Costs ---- */

static uint64_t ops_of(struct kvt *t, struct snic_kvfs_stats *before)
{
    struct snic_kvfs_stats s;
    uint64_t n;
    snic_kvfs_get_stats(t->k, &s);
    n = s.store_gets + s.store_commits - before->store_gets - before->store_commits;
    *before = s;
    return n;
}

/* With a warm cache a lookup is free and a create one commit; nothing is read again. */
static void test_kvfs_warm_cache_costs(void **state)
{
    struct snic_kvfs_stats s;
    struct kvt t;
    (void)state;
    kvt_open(&t, NULL);
    uint64_t dir = kvt_mkdir(&t, SNIC_FSOP_ROOT, "dir", 0755);
    kvt_file(&t, dir, "a", 0644);
    snic_kvfs_get_stats(t.k, &s);
    assert_int_equal(s.alone, 1);
    kvt_lookup(&t, dir, "a");
    assert_int_equal(kvt_try_lookup(&t, dir, "b"), SNIC_ENOENT);
    assert_int_equal(ops_of(&t, &s), 0);
    kvt_file(&t, dir, "b", 0644);
    assert_int_equal(ops_of(&t, &s), 1);
    /* After a new mount, what is not in the directory has to be asked for once. */
    assert_int_equal(kvt_unmount(&t), 0);
    assert_int_equal(kvt_mount(&t), 0);
    kvt_advance(&t, 1);
    kvt_settle(&t);
    ops_of(&t, &s);
    assert_int_equal(kvt_try_lookup(&t, dir, "c"), SNIC_ENOENT);
    assert_int_equal(ops_of(&t, &s), 2);
    assert_int_equal(kvt_try_lookup(&t, dir, "c"), SNIC_ENOENT);
    assert_int_equal(ops_of(&t, &s), 0);
    kvt_close(&t);
}

/* ---- All short sequences against a model ---- */

enum { SHORT_NAMES = 3, SHORT_OPS = 3 * SHORT_NAMES };

static int64_t short_step(struct kvt *t, uint64_t dir, int op)
{
    static const char *const names[SHORT_NAMES] = {"a", "bb", "c"};
    const char *name = names[op % SHORT_NAMES];
    if (op < SHORT_NAMES)
        return kvt_try_mknod(t, dir, name, 0100644, 0);
    return op < 2 * SHORT_NAMES ? kvt_try_lookup(t, dir, name) : kvt_unlink(t, dir, name);
}

static void short_sequence(struct kvt *t, uint64_t dir, uint64_t code, int length)
{
    int64_t there[SHORT_NAMES] = {0};
    for (int i = 0; i < length; i++, code /= SHORT_OPS) {
        int op = (int)(code % SHORT_OPS), name = op % SHORT_NAMES;
        int64_t rc = short_step(t, dir, op);
        if (op < SHORT_NAMES && there[name] == 0) {
            assert_true(rc > 0);
            there[name] = rc;
        } else if (op < SHORT_NAMES) {
            assert_int_equal(rc, SNIC_EEXIST);
        } else if (there[name] == 0) {
            assert_int_equal(rc, SNIC_ENOENT);
        } else if (op < 2 * SHORT_NAMES) {
            assert_int_equal(rc, there[name]);
        } else {
            assert_int_equal(rc, 0);
            there[name] = 0;
        }
    }
    for (int n = 0; n < SHORT_NAMES; n++)
        if (there[n] != 0)
            assert_int_equal(short_step(t, dir, 2 * SHORT_NAMES + n), 0);
}

static void short_all(uint64_t cache_bytes)
{
    int length = support_nightly() ? 6 : 5;
    struct snic_kvfs_opts o;
    struct snic_fsop_attr a;
    struct kvt t;
    uint64_t count = 1, dir;
    kvt_opts(&o);
    o.cache_bytes = cache_bytes;
    kvt_open(&t, &o);
    dir = kvt_mkdir(&t, SNIC_FSOP_ROOT, "dir", 0755);
    for (int i = 0; i < length; i++)
        count *= SHORT_OPS;
    for (uint64_t code = 0; code < count; code++)
        short_sequence(&t, dir, code, length);
    assert_int_equal(kvt_getattr(&t, dir, &a), 0);
    assert_int_equal(a.entries, 0);
    kvt_close(&t);
}

static void test_kvfs_short_sequences_as_model(void **state)
{
    (void)state;
    short_all(1U << 20);
}

static void test_kvfs_short_sequences_without_cache_as_model(void **state)
{
    (void)state;
    short_all(1);
}

/* A cache much smaller than what is used: entries leave all the time, and no answer changes. */
static void test_kvfs_cache_small_answers_same(void **state)
{
    enum { FILES = 600 };
    struct snic_kvfs_opts o;
    struct kvt t;
    uint64_t dir[3], ino[3][FILES] = {{0}};
    char name[32];
    (void)state;
    kvt_opts(&o);
    o.cache_bytes = 12000;
    kvt_open(&t, &o);
    for (int d = 0; d < 3; d++) {
        snprintf(name, sizeof(name), "d%d", d);
        dir[d] = kvt_mkdir(&t, SNIC_FSOP_ROOT, name, 0755);
    }
    for (int i = 0; i < 20000; i++) {
        uint32_t d = (uint32_t)snic_rng_below(&t.rng, 3);
        uint32_t f = (uint32_t)snic_rng_below(&t.rng, d == 0 ? 20 : FILES);
        uint64_t what = snic_rng_below(&t.rng, 4);
        snprintf(name, sizeof(name), "%0*u", 1 + (int)(f % 20), f);
        int64_t rc = what == 0   ? kvt_try_mknod(&t, dir[d], name, 0100644, 0)
                     : what == 1 ? kvt_unlink(&t, dir[d], name)
                                 : kvt_try_lookup(&t, dir[d], name);
        if (ino[d][f] == 0)
            assert_true(what == 0 ? rc > 0 : rc == SNIC_ENOENT);
        else
            assert_int_equal(rc, what == 0 ? SNIC_EEXIST : what == 1 ? 0 : (int64_t)ino[d][f]);
        if (what == 0 && rc > 0)
            ino[d][f] = (uint64_t)rc;
        if (what == 1 && rc == 0)
            ino[d][f] = 0;
        kvt_check(&t);
    }
    kvt_close(&t);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_kvfs_fresh_made_found),
        cmocka_unit_test(test_kvfs_options_wrong_refused),
        cmocka_unit_test(test_kvfs_memory_short_refused),
        cmocka_unit_test(test_kvfs_submit_wrong_or_full_refused),
        cmocka_unit_test(test_kvfs_not_mounted_refused),
        cmocka_unit_test(test_kvfs_make_wrong_refused_nothing_changed),
        cmocka_unit_test(test_kvfs_make_attributes_of_both),
        cmocka_unit_test(test_kvfs_create_existing_opened),
        cmocka_unit_test(test_kvfs_make_not_allowed_refused),
        cmocka_unit_test(test_kvfs_resolve_deep_found),
        cmocka_unit_test(test_kvfs_warm_cache_costs),
        cmocka_unit_test(test_kvfs_short_sequences_as_model),
        cmocka_unit_test(test_kvfs_short_sequences_without_cache_as_model),
        cmocka_unit_test(test_kvfs_cache_small_answers_same),
    };
    return SUPPORT_MAIN(argc, argv, tests);
}
