/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * Several engines on one store, their operations at the store interleaved by a seed; and batches
 * of requests whose results and final state are compared with all orders of the same requests, run
 * one after the other on copies of the store.
 */
#ifndef SNIC_TESTS_TEST_KVFS_MANY_H
#define SNIC_TESTS_TEST_KVFS_MANY_H

#include "test_kvfs_audit.h"
#include "test_kvfs_snap.h"

enum { MANY_MAX = 3, MANY_BATCH = 4 };
enum {
    MANY_CAPS =
        SNIC_KV_CAP_ATOMIC_BLOCK | SNIC_KV_CAP_ALLOC | SNIC_KV_CAP_DURABLE | SNIC_KV_CAP_SHARED
};

struct many {
    struct snic_kvmem *m;
    struct kvt t[MANY_MAX];
    uint32_t count;
    uint32_t paused; /* bit set of engines that do nothing */
    struct snic_kvfs_now now;
    struct snic_rng rng;
    uint32_t caps;
    uint64_t session;
    uint64_t times_ns; /* of the engines that join */
};

struct batch_op {
    enum snic_fsop_kind kind;
    uint32_t engine;
    uint64_t ino, ino2;
    char name[4], name2[4];
    uint32_t flags;
    uint32_t size;
    char bytes[64];
    int64_t result;
};

void many_join(struct many *y, uint32_t i);
int many_step(struct many *y);
void many_time(struct many *y, uint64_t ns);
void many_pass(struct many *y, uint64_t ns);
void many_finish(struct many *y, uint32_t left);
int64_t many_call(struct many *y, uint32_t i, struct snic_fsop *req);
int64_t many_simple(struct many *y, uint32_t i, enum snic_fsop_kind kind, uint64_t ino,
                    const char *name);
/* Submitted, and not waited for. */
void many_start(struct many *y, uint32_t i, struct snic_fsop *req);
/* A new file in the root. */
uint64_t many_file(struct many *y, uint32_t i, const char *name);
void many_lock_req(struct many *y, uint32_t i, struct snic_fsop *req, enum snic_fsop_kind kind,
                   uint64_t ino, uint64_t owner, uint32_t type, uint64_t start, uint64_t end);
int64_t many_lock(struct many *y, uint32_t i, enum snic_fsop_kind kind, uint64_t ino,
                  uint64_t owner, uint32_t type, uint64_t start, uint64_t end);

#define MANY_ANY UINT64_MAX
#define MANY_NOT_SUPER (UINT64_MAX - 1) /* any but the superblock's */
#define MANY_CHANGE 0                   /* a commit, or bytes to an object */
/* Take the engine's next operation of a kind on one inode (of a commit, a GET: its first key) away
 * on its way to the store. */
struct snic_kvfs_io *many_hold(struct many *y, uint32_t i, uint32_t kind, uint64_t group);
void many_give_back(struct many *y, uint32_t i, struct snic_kvfs_io *held);

void many_open_with(struct many *y, uint32_t count, uint32_t caps, uint64_t seed,
                    uint64_t times_ns);
void many_open(struct many *y, uint32_t count, uint32_t caps, uint64_t seed);
void many_mount(struct many *y);
void many_close(struct many *y);
void batch_req(struct kvt *t, const struct batch_op *b, struct snic_fsop *req,
               struct snic_iov *iov);
int batch_order(struct many *y, const struct snic_kvmem *before, const struct batch_op *ops,
                uint32_t n, const uint32_t *order, const char *state, char *room);
int batch_next_order(uint32_t *order, uint32_t n);
void batch_print(const struct batch_op *ops, uint32_t n, const char *state);
void batch_state(struct many *y, char *out);

#endif /* SNIC_TESTS_TEST_KVFS_MANY_H */
