/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * Between the files of the engine's core: kvfs.c runs operations, txn.c has their reads, changes
 * and commits, txn_lock.c their locks, txn_memory.c their memory, inode.c the table of inodes in
 * memory, cache.c the records kept while alone.
 */
#ifndef SNIC_KVFS_CORE_H
#define SNIC_KVFS_CORE_H

#include "kvfs/kvfs_priv.h"

/* op->state */
enum { KVFS_OP_FREE = 0, KVFS_OP_READY, KVFS_OP_RUNNING, KVFS_OP_WAITING };
/* place->state */
enum { KVFS_PLACE_FREE = 0, KVFS_PLACE_ASKED, KVFS_PLACE_DONE };
/* The place of GET and COMMIT. */
enum { KVFS_MAIN = KVFS_IOS_MAX };

/* ---- kvfs.c ---- */

/* Run a waiting operation again: an event that it may wait for has happened. */
void kvfs_ready(struct kvfs_op *op);
/* Hand an operation of the store, in place->io.op, to the caller. */
void kvfs_send(struct kvfs_op *op, struct kvfs_place *place);

/* ---- txn.c ---- */

/* A round begins: nothing is read, changed or requested. */
void kvfs_txn_begin(struct kvfs_op *op);
/*
 * After a run that returned KVFS_PENDING: send the wanted reads, if no others are in flight.
 * KVFS_PENDING; SNIC_ENOMEM: the operation has all the memory that one may have, nothing of it is
 * in flight, and so nothing would ever wake it.
 */
int kvfs_txn_ask(struct kvfs_op *op);
/* A guard failed: start over, with back-off; or the commit has failed. */
void kvfs_txn_retry(struct kvfs_op *op);
/* The main place has its result. */
void kvfs_txn_done(struct kvfs_op *op);

/* The round's read of a key; NULL: it was not requested. */
struct kvfs_read *kvfs_txn_read_find(const struct kvfs_op *op, const struct snic_kvop_key *key,
                                     uint64_t hash);
/* The commit depends on it: it was read by kvfs_get(), and its state is known. */
static inline int kvfs_txn_is_guard(const struct kvfs_read *r)
{
    return r->guard && (r->state == KVFS_READ_PRESENT || r->state == KVFS_READ_ABSENT);
}
/* An error of the store as an operation's own. */
static inline int kvfs_txn_error(int64_t result)
{
    return result == SNIC_EPEERDEAD || result == SNIC_ECANCELED ? SNIC_EIO : (int)result;
}

/* ---- txn_commit.c ---- */

/* The main place has the result of a commit, or of the query of its outcome. */
void kvfs_txn_commit_done(struct kvfs_op *op, const struct snic_kvop *got);

/* ---- txn_memory.c ---- */

/* Bytes of the operation's memory, 16-aligned, not cleared; NULL: it starts over, or SNIC_ENOMEM.
 */
void *kvfs_memory(struct kvfs_op *op, size_t size);
/* Free all blocks. */
void kvfs_memory_drop(struct kvfs_op *op);
/* 1: it has the blocks that it is known to need; 0: it waits for them. */
int kvfs_memory_admit(struct kvfs_op *op);

/* ---- txn_lock.c ---- */

/* Release all locks; those requested since the last time are remembered as wanted. */
void kvfs_hold_drop(struct kvfs_op *op);
/* 1: all wanted locks are held, or those without a table entry are no longer wanted: an operation
 * ends in its function; 0: it waits for one. */
int kvfs_hold_admit(struct kvfs_op *op);
/* Release all and want none. */
void kvfs_hold_end(struct kvfs_op *op);
/* Stop waiting for a lock. */
void kvfs_hold_leave(struct kvfs_op *op);

/* ---- inode.c ---- */

struct kvfs_inode *kvfs_inode_find(const struct snic_kvfs *k, uint64_t ino);
/* Find or create it; NULL: the table is full. */
struct kvfs_inode *kvfs_inode_get(struct snic_kvfs *k, uint64_t ino);
/* Forget it if nothing holds it any more. */
void kvfs_inode_put(struct snic_kvfs *k, struct kvfs_inode *inode);
size_t kvfs_inodes_place(struct kvfs_inodes *t, struct snic_arena *a, uint32_t max);
/* Start own operations that wait for a free place of their kind. */
void kvfs_inode_pump(struct snic_kvfs *k);

/* ---- times.c ---- */

/* In the set of struct kvfs_kept: the time of the last read. */
enum { KVFS_KEPT_ATIME = 1u << 0 };
/* Merge times kept back into attributes just read. */
void kvfs_times_merge(const struct snic_kvfs *k, struct snic_fsop_attr *a);
/* These attributes are in the store now: their times are no longer kept back. */
void kvfs_times_written(struct snic_kvfs *k, const struct snic_fsop_attr *a);
/* Commit outcome unknown: they may be. */
void kvfs_times_doubt(struct snic_kvfs *k, const struct snic_fsop_attr *a);
/* The inode was removed. */
void kvfs_times_forget(struct snic_kvfs *k, uint64_t ino);
/* The session is dead. */
void kvfs_times_forget_all(struct snic_kvfs *k);

/* ---- format.c ---- */

/* An attribute record, verified before: of a directory without entries? */
int kvfs_attr_is_empty_dir(const void *record, uint32_t size);

/* ---- cache.c ---- */

/* A hash of keys for tables in memory. */
static inline uint64_t kvfs_key_hash(const struct snic_kvop_key *key)
{
    uint64_t h = key->group * 0x9e3779b97f4a7c15ULL;
    h ^= snic_get_le64(key->bytes) * 0xc2b2ae3d27d4eb4fULL;
    h ^= snic_get_le64(key->bytes + 8) * 0x165667b19e3779f9ULL;
    h ^= snic_get_le64(key->bytes + 16) * 0x27d4eb2f165667c5ULL;
    h = (h ^ (h >> 32)) * 0x9fb21c651e98df25ULL;
    return h ^ (h >> 29);
}
static inline int kvfs_key_equal(const struct snic_kvop_key *a, const struct snic_kvop_key *b)
{
    return a->group == b->group && a->size == b->size && memcmp(a->bytes, b->bytes, a->size) == 0;
}

enum { KVFS_CACHE_UNKNOWN = -1, KVFS_CACHE_ABSENT = 0, KVFS_CACHE_PRESENT = 1 };
#define SNIC_KVFS__CACHE_NEVER UINT64_MAX /* a time: sent while not alone, never to be kept */

/* Look a key up; the record is valid until the next call here. */
int kvfs_cache_get(struct snic_kvfs *k, const struct snic_kvop_key *key, uint64_t hash,
                   const unsigned char **record, uint32_t *size);
/* The time to remember with a read that is sent; its result (size 0: no record). */
uint64_t kvfs_cache_now(const struct snic_kvfs *k);
void kvfs_cache_read(struct snic_kvfs *k, uint64_t sent, const struct snic_kvop_key *key,
                     uint64_t hash, const void *record, uint32_t size);
/* The time to remember with a commit that is sent, then each of its keys; the result for a key. */
uint64_t kvfs_cache_sent(struct snic_kvfs *k);
void kvfs_cache_sent_key(struct snic_kvfs *k, uint64_t hash);
void kvfs_cache_wrote(struct snic_kvfs *k, uint64_t sent, const struct snic_kvop_key *key,
                      uint64_t hash, const void *record, uint32_t size);
/* Remove the key from the cache. */
void kvfs_cache_forget(struct snic_kvfs *k, const struct snic_kvop_key *key, uint64_t hash);
void kvfs_cache_place(struct kvfs_cache **out, struct snic_arena *a, uint64_t bytes);
int kvfs_cache_check(const struct snic_kvfs *k);

#endif /* SNIC_KVFS_CORE_H */
