/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * Between the files of the layer of transactions, from the lowest: op.c has an operation's rounds
 * and waits, cache.c the records kept while alone, inode.c the table of inodes in memory,
 * deferred.c their deferred changes, txn_memory.c and txn_lock.c the memory and locks of
 * operations, txn_fence.c the session as transactions see it, txn.c reads and changes, txn_commit.c
 * and intent*.c commits. kvfs.c runs operations.
 */
#ifndef SNIC_KVFS_TXN_PRIV_H
#define SNIC_KVFS_TXN_PRIV_H

#include "kvfs/txn.h"

/* op->state */
enum { KVFS_OP_FREE = 0, KVFS_OP_READY, KVFS_OP_RUNNING, KVFS_OP_WAITING };
/* place->state */
enum { KVFS_PLACE_FREE = 0, KVFS_PLACE_SENT, KVFS_PLACE_DONE };
/* The place of GET and COMMIT. */
enum { KVFS_MAIN = KVFS_IOS_MAX };

/* ---- op.c ---- */

/* Run a waiting operation again: an event that it may wait for has happened. */
void kvfs_ready(struct kvfs_op *op);
/* Hand an operation of the store, in place->io.op, to the caller. */
void kvfs_send(struct kvfs_op *op, struct kvfs_place *place);

/* An operation begins: ready to run. */
void kvfs_begin_op(struct kvfs_op *op, kvfs_run_fn run);
/* kvfs_spawn() of any function. */
struct kvfs_op *kvfs_spawn_run(struct snic_kvfs *k, kvfs_run_fn run, uint64_t s0);
/* A round begins: nothing is read, changed or requested. */
void kvfs_txn_begin(struct kvfs_op *op);
/* A guard failed: start over, with back-off; or the commit has failed. */
void kvfs_txn_retry(struct kvfs_op *op);

/* ---- txn.c ---- */

/*
 * After a run that returned KVFS_PENDING: send the wanted reads, if no others are in flight.
 * KVFS_PENDING; SNIC_ENOMEM: the operation has all the memory that one may have, nothing of it is
 * in flight, and so nothing would ever wake it.
 */
int kvfs_txn_request(struct kvfs_op *op);
/* The main place has the result of a GET. */
void kvfs_txn_get_done(struct kvfs_op *op, const struct snic_kvop *get);

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
void kvfs_unlock_for_retry(struct kvfs_op *op);
/* 1: all wanted locks are held, or those without a table entry are no longer wanted: an operation
 * ends in its function; 0: it waits for one. */
int kvfs_lock_admit(struct kvfs_op *op);
/* Release all and want none. */
void kvfs_unlock_all(struct kvfs_op *op);
/* Stop waiting for a lock. */
void kvfs_lock_stop_waiting(struct kvfs_op *op);

/* ---- inode.c ---- */

struct kvfs_inode *kvfs_inode_find(const struct snic_kvfs *k, uint64_t ino);
/* Find or create it; NULL: the table is full. */
struct kvfs_inode *kvfs_inode_get(struct snic_kvfs *k, uint64_t ino);
/* Forget it if nothing holds it any more. */
void kvfs_inode_put(struct snic_kvfs *k, struct kvfs_inode *inode);
size_t kvfs_inodes_place(struct kvfs_inodes *t, struct snic_arena *a, uint32_t max);
/* Start own operations that wait for a free place of their kind. */
void kvfs_inode_pump(struct snic_kvfs *k);

/* ---- deferred.c ---- */

/* The set of struct kvfs_deferred. */
enum {
    KVFS_DEFER_ATIME = 1u << 0, /* the time of the last read */
    KVFS_DEFER_MTIME = 1u << 1,
    KVFS_DEFER_CTIME = 1u << 2,
    KVFS_DEFER_NAME = 1u << 3,
    KVFS_DEFER_SPACE = 1u << 4
};
/* Merge deferred times into attributes just read. */
void kvfs_times_merge(const struct snic_kvfs *k, struct snic_fsop_attr *a);
/* These attributes are in the store now: their times are no longer deferred. */
void kvfs_times_written(struct snic_kvfs *k, const struct snic_fsop_attr *a);
/* Commit outcome unknown: they may be. */
void kvfs_times_outcome_unknown(struct snic_kvfs *k, const struct snic_fsop_attr *a);
/* The inode was removed. */
void kvfs_times_forget(struct snic_kvfs *k, uint64_t ino);
/* The session is dead. */
void kvfs_times_forget_all(struct snic_kvfs *k);
/* What is deferred of an inode, to be added to; NULL: the table of inodes is full. */
struct kvfs_deferred *kvfs_times_deferred(struct snic_kvfs *k, uint64_t ino);
/* When the oldest are to be written; SNIC_NEVER. */
uint64_t kvfs_times_deadline(const struct snic_kvfs *k);

/* ---- txn_fence.c ---- */

/* For commits: the guard that makes them fail once the session is dead. 1; 0 there is none. */
int kvfs_fence_guard(const struct snic_kvfs *k, struct snic_kvop_guard *g);
/* A guard failed. 1: it was a fence; the session it belongs to has been declared dead. */
int kvfs_fence_failed(struct snic_kvfs *k, const struct snic_kvop *commit);
/* The session is dead: wake all waiting operations; they end with SNIC_EIO. */
void kvfs_session_mark_dead(struct snic_kvfs *k);
/* The store has refused an operation because this client was fenced (session.c, S9). */
void kvfs_session_fenced(struct snic_kvfs *k);
/* Operations in progress that have read a record before era `era` (struct kvfs_session) began and
 * have neither ended nor started over since. */
int kvfs_ops_before(const struct snic_kvfs *k, uint64_t era);
/* 1: it is in the session table, as of the last heartbeat. */
int kvfs_session_alive(const struct snic_kvfs *k, uint64_t session);
/* Note a session that was looked up, or (scans 0) one that has ended. */
void kvfs_session_note_lookup(struct kvfs_session *s, uint64_t id, uint64_t scans);
static inline int kvfs_is_release(const struct kvfs_op *op)
{
    return op->req != NULL &&
           (op->req->kind == SNIC_FSOP_RELEASE || op->req->kind == SNIC_FSOP_RELEASEDIR);
}

/* ---- intent.c, intent_resolve.c ---- */

/*
 * Commit over several groups in steps, where the store has none: called by kvfs_commit() with the
 * operation's guards and changes. Returns as kvfs_commit().
 */
int kvfs_intent_commit(struct kvfs_op *op, int durable);
/*
 * A record is reserved by another commit: decide it. 0 with the logical record (a whole record
 * with head, size 0: none) in *record, valid while `raw` is; KVFS_PENDING; SNIC_E*.
 */
int kvfs_intent_resolve(struct kvfs_op *op, const struct snic_kvop_key *key, const void *raw,
                        uint32_t raw_size, const void **record, uint32_t *size);
/*
 * Finish the intents of a dead session, in rounds of the phase that the operation is in. 0: there
 * are none left, and its words of op->s are 0; KVFS_PENDING; SNIC_E*.
 */
enum {
    KVFS_INTENT_S_AT = 5, /* op->s: the next item of the intent ... */
    KVFS_INTENT_S_NUMBER  /* ... that has this number */
};
int kvfs_intent_finish_next(struct kvfs_op *op, uint64_t session);

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
/* Records kept while alone are dropped. */
void kvfs_cache_drop(struct snic_kvfs *k);
void kvfs_cache_place(struct kvfs_cache **out, struct snic_arena *a, uint64_t bytes);
int kvfs_cache_check(const struct snic_kvfs *k);

#endif /* SNIC_KVFS_TXN_PRIV_H */
