/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * A file as an array of bytes, and the calls that change it, in the engine and in the model.
 */
#ifndef SNIC_TESTS_TEST_KVFS_BYTES_H
#define SNIC_TESTS_TEST_KVFS_BYTES_H

#include "test_kvfs_util.h"

enum { KVB_MAX = 192 << 10 };

struct kvb {
    uint64_t ino;
    uint64_t size;
    unsigned char bytes[KVB_MAX];
};

/* ---- The model ---- */

void kvb_put(struct kvb *f, uint64_t offset, const void *bytes, uint64_t size);
void kvb_cut(struct kvb *f, uint64_t size);
/* Zeros in [offset, offset + size); the file grows unless `keep`. */
void kvb_zero(struct kvb *f, uint64_t offset, uint64_t size, int keep);
/* Bytes that are no zeros, and others for each `tag`. */
void kvb_fill(void *out, size_t size, uint64_t tag);

/* ---- Calls ---- */

int64_t kvb_fallocate(struct kvt *t, uint64_t ino, uint64_t offset, uint64_t size, uint32_t flags);
int64_t kvb_seek(struct kvt *t, uint64_t ino, uint64_t offset, uint32_t flag);
int64_t kvb_copy(struct kvt *t, uint64_t ino, uint64_t offset, uint64_t ino2, uint64_t offset2,
                 uint64_t size);
int64_t kvb_append(struct kvt *t, uint64_t ino, const void *bytes, size_t size);
int64_t kvb_simple(struct kvt *t, enum snic_fsop_kind kind, uint64_t ino);

/* Size, bytes, and nothing behind them. 1: equal. */
int kvb_equal(struct kvt *t, const struct kvb *f);
/* The same as an assertion; and the space is what the store has taken, neither more nor less. */
void kvb_check(struct kvt *t, const struct kvb *f);
/* Bytes that the store has for it, as st_blocks should be. */
uint64_t kvb_space(struct kvt *t, uint64_t ino);
/* Bytes of its object. */
uint64_t kvb_object(struct kvt *t, uint64_t ino);

#endif /* SNIC_TESTS_TEST_KVFS_BYTES_H */
