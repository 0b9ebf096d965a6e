/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * An engine on a store in memory, driven by hand: operations of the store are carried out by
 * snic_kvmem_apply(), in order or in an order drawn from a seed, and time passes only when nothing
 * else can happen.
 *
 *     struct kvt t;
 *     kvt_open(&t, NULL);                        // engine, store, mkfs, mount
 *     uint64_t dir = kvt_mkdir(&t, SNIC_FSOP_ROOT, "dir", 0755);
 *     assert_int_equal(kvt_unlink(&t, dir, "none"), SNIC_ENOENT);
 *     kvt_close(&t);                             // unmount, checks, frees
 *
 * Calls that make something return its inode number, or fail the test; those named try_ give
 * SNIC_E* instead (a positive number is an inode).
 */
#ifndef SNIC_TESTS_TEST_KVFS_UTIL_H
#define SNIC_TESTS_TEST_KVFS_UTIL_H

#include "snicstore/kv.h"
#include "snicstore/kvfs.h"
#include "support.h"

enum { KVT_FLIGHT = 4096, KVT_DAMAGES = 16 };

struct kvt {
    struct snic_kvmem *m;
    int owns_medium;
    struct snic_kvfs *k;
    void *mem;
    struct snic_kvfs_opts o;
    struct snic_kvfs_now now;
    struct snic_rng rng;
    int random; /* completions in random order, and a part of them at a time */
    int early;  /* operations take effect when asked for, and complete later */
    int mounted;
    int quiet; /* kvt_close() does not unmount */
    uint32_t in_flight;
    struct snic_kvfs_io *flight[KVT_FLIGHT];
    struct snic_fsop_cred cred; /* of the calls below */
    uint32_t flags;             /* and their flags */
    /* Instead of snic_kvmem_apply(); may be NULL. */
    void (*apply)(struct kvt *t, struct snic_kvop *op);
    /* Before each operation is carried out; may be NULL. */
    void (*before)(struct kvt *t, struct snic_kvop *op);
    void *ctx;
    uint64_t applied;
    uint32_t damages; /* reported by the engine */
    struct snic_kvfs_damage damage[KVT_DAMAGES];
};

/* Options for a test: small tables; to be changed before kvt_open_with(). */
void kvt_opts(struct snic_kvfs_opts *o);
/* A store, an engine on it, mkfs, mount. `o` NULL: kvt_opts(). */
void kvt_open(struct kvt *t, const struct snic_kvfs_opts *o);
/* The parts: a store with these capabilities (0: all); an engine on it, not mounted. */
void kvt_medium(struct snic_kvmem **m, uint32_t caps);
void kvt_open_on(struct kvt *t, struct snic_kvmem *m, const struct snic_kvfs_opts *o);
int kvt_mkfs(struct kvt *t);
int kvt_mount(struct kvt *t);
int kvt_unmount(struct kvt *t);
void kvt_close(struct kvt *t);

/* Carry out one operation of the store that is asked for. 1; 0 there is none. */
int kvt_step(struct kvt *t);
/* Until nothing is under way at the store. */
void kvt_settle(struct kvt *t);
/* Let time pass. */
void kvt_advance(struct kvt *t, uint64_t ns);
/* Submit; asserts that the engine takes it. */
void kvt_submit(struct kvt *t, struct snic_fsop *req);
/* Submit and run until it is done; time passes as the engine wants. Its result. */
int64_t kvt_call(struct kvt *t, struct snic_fsop *req);
/* Run until one of the submitted requests is done. NULL: none can be. */
struct snic_fsop *kvt_wait(struct kvt *t);
void kvt_check(struct kvt *t);

/* A request of a kind, with the caller's cred and flags. */
void kvt_req(struct kvt *t, struct snic_fsop *req, enum snic_fsop_kind kind, uint64_t ino,
             const char *name);

int64_t kvt_try_lookup(struct kvt *t, uint64_t dir, const char *name);
int64_t kvt_try_resolve(struct kvt *t, uint64_t dir, const char *path);
int64_t kvt_try_mkdir(struct kvt *t, uint64_t dir, const char *name, uint32_t mode);
int64_t kvt_try_create(struct kvt *t, uint64_t dir, const char *name, uint32_t mode);
int64_t kvt_try_mknod(struct kvt *t, uint64_t dir, const char *name, uint32_t mode, uint64_t rdev);
int64_t kvt_try_symlink(struct kvt *t, uint64_t dir, const char *name, const char *target);
uint64_t kvt_lookup(struct kvt *t, uint64_t dir, const char *name);
uint64_t kvt_mkdir(struct kvt *t, uint64_t dir, const char *name, uint32_t mode);
/* Made and left open: the caller releases it (kvt_release). */
uint64_t kvt_create(struct kvt *t, uint64_t dir, const char *name, uint32_t mode);
/* Made and released. */
uint64_t kvt_file(struct kvt *t, uint64_t dir, const char *name, uint32_t mode);
int64_t kvt_release(struct kvt *t, uint64_t ino, uint32_t open_flags);
int64_t kvt_unlink(struct kvt *t, uint64_t dir, const char *name);
int64_t kvt_rmdir(struct kvt *t, uint64_t dir, const char *name);
int64_t kvt_rename(struct kvt *t, uint64_t dir, const char *name, uint64_t dir2, const char *name2,
                   uint32_t flags);
int64_t kvt_link(struct kvt *t, uint64_t ino, uint64_t dir, const char *name);
int64_t kvt_getattr(struct kvt *t, uint64_t ino, struct snic_fsop_attr *out);
/* They are there to be had. */
struct snic_fsop_attr kvt_attr(struct kvt *t, uint64_t ino);
/* As the store has them, without what the engine defers. */
struct snic_fsop_attr kvt_stored(struct kvt *t, uint64_t ino);
int kvt_time_later(struct snic_fsop_time a, struct snic_fsop_time b); /* a is after b */
int kvt_time_equal(struct snic_fsop_time a, struct snic_fsop_time b);
/* May the caller? `want`: bits R 4, W 2, X 1. */
int64_t kvt_access(struct kvt *t, uint64_t ino, uint32_t want);
int64_t kvt_setattr(struct kvt *t, uint64_t ino, uint32_t mask, struct snic_fsop_attr *a);
int64_t kvt_readlink(struct kvt *t, uint64_t ino, char *out, size_t room);
int64_t kvt_write(struct kvt *t, uint64_t ino, uint64_t offset, const void *bytes, size_t size);
int64_t kvt_read(struct kvt *t, uint64_t ino, uint64_t offset, void *out, size_t room);
int64_t kvt_truncate(struct kvt *t, uint64_t ino, uint64_t size);

/* The call fails with this, and leaves the store, and so all times, as they were. */
#define KVT_REFUSED(t, error, call)                                                                \
    do {                                                                                           \
        uint64_t before_ = snic_kvmem_digest((t)->m);                                              \
        assert_int_equal(call, error);                                                             \
        kvt_settle(t);                                                                             \
        assert_true(before_ == snic_kvmem_digest((t)->m));                                         \
    } while (0)

#endif /* SNIC_TESTS_TEST_KVFS_UTIL_H */
