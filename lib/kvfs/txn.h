/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * Transactions: what the functions of operations are written with.
 *
 * An operation (struct kvfs_op) is a function that is called repeatedly from its beginning until it
 * no longer returns KVFS_PENDING. It requests locks and records as if they were in memory; a
 * missing record is read from the store, and the function is run again when it has arrived. Records
 * that were read stay in the operation, so that each run sees the same and gets further. Changes
 * are noted in the operation, visible to its own later reads, and sent together in kvfs_commit().
 * If another session changed a record that was read (a guard fails), all is dropped and the round
 * starts over: from the last kvfs_next(), or from phase 0. So an operation's code reads from top to
 * bottom, and must have no effect of its own before kvfs_commit() has returned 0, except in op->s
 * and op->phase.
 *
 *     static int name_unlink(struct kvfs_op *op)
 *     {
 *         int rc = kvfs_lock(op, dir, KVFS_EXCLUSIVE);
 *         if (rc != 0) return rc;
 *         rc = kvfs_get_attr(op, dir, &parent);      // KVFS_PENDING, SNIC_E*, or 0
 *         ...
 *         return kvfs_commit(op, 0);
 *     }
 *
 * A function returns 0, KVFS_PENDING or SNIC_E*; a count or an offset is put in op->req->result.
 * Inode numbers inside the engine are the store's: the root is 0; kvfs.c translates requests.
 *
 * Locks are per inode, in this engine only; they prevent local requests from failing each other's
 * guards, and order data against truncation. A fixed order avoids deadlock: if a lock is not free
 * at once the operation drops all of its locks and reads, waits, and starts over with the locks
 * that it is known to need taken in ascending order.
 */
#ifndef SNIC_KVFS_TXN_H
#define SNIC_KVFS_TXN_H

#include "kvfs/state.h"

enum { KVFS_PENDING = 1 };

/*
 * 1: the function will be run again, after its result rc. It waits, or starts over: then rc may be
 * an error, too (no memory was free: kvfs_alloc, and all callers of it). The final actions of an
 * operation (counts, tables in memory, waking others) are done only where this returns 0, or they
 * are done twice.
 */
static inline int kvfs_runs_again(const struct kvfs_op *op, int rc)
{
    return rc == KVFS_PENDING || op->again;
}

/* ---- op.c: an operation's rounds and waits ---- */

/* The answer's attributes, with the root as SNIC_FSOP_ROOT. */
void kvfs_reply_attr(struct kvfs_op *op, const struct snic_fsop_attr *a);
static inline uint64_t kvfs_ino_out(uint64_t ino)
{
    return ino == 0 ? SNIC_FSOP_ROOT : ino;
}
/* The session caches: no other one uses the store. */
static inline int kvfs_alone(const struct snic_kvfs *k)
{
    return k->session.alone;
}
void kvfs_report_damage(struct snic_kvfs *k, const struct snic_kvop_key *key, const char *what);
void kvfs_report_object_damage(struct snic_kvfs *k, uint64_t object, uint64_t offset,
                               const char *what);
/* Start one of the engine's own operations; NULL: KVFS_OWN_MAX are in progress. */
struct kvfs_op *kvfs_spawn(struct snic_kvfs *k, enum kvfs_own kind, uint64_t s0);
/*
 * Sleep in a list (may be NULL) until kvfs_wake_all() of it, kvfs_wake() of the operation, or the
 * time `until_ns` (SNIC_NEVER: none). The function runs again after it, and checks again whether it
 * can continue. With `drop`, all locks, reads and changes are dropped first; op->s and
 * op->phase stay in any case. Returns KVFS_PENDING.
 */
int kvfs_wait(struct kvfs_op *op, struct snic_link *list, uint64_t until_ns, int drop);
void kvfs_wake(struct kvfs_op *op);
void kvfs_wake_all(struct snic_link *list);
/* snic_kvfs_cancel() was called for its request; it has been woken. */
int kvfs_cancelled(const struct kvfs_op *op);
/* This operation's wall time. */
struct snic_fsop_time kvfs_time(const struct kvfs_op *op);

/* Forget reads, changes and places, and begin the round (since the last kvfs_next) anew. Returns
 * KVFS_PENDING. */
int kvfs_restart(struct kvfs_op *op);
/*
 * Records that were read one after the other are inconsistent: they were changed in between, or the
 * store is damaged. Starts the round over, a few times; then SNIC_ECORRUPT, reported for the
 * inode's attributes.
 */
int kvfs_retry_torn(struct kvfs_op *op, uint64_t ino, const char *what);

/* ---- txn*.c: locks, reads, changes, commit ---- */

/* Lock an inode until the operation ends. 0; KVFS_PENDING; SNIC_ENFILE. Never weaker than held. */
int kvfs_lock(struct kvfs_op *op, uint64_t ino, enum kvfs_mode mode);

/*
 * The record's body (behind its head), in the operation's memory until it ends or starts over.
 * 0; SNIC_ENOENT; KVFS_PENDING; SNIC_ECORRUPT (reported), SNIC_E* of the store. The commit will be
 * guarded by what was read; kvfs_peek() is the same without the guard.
 */
int kvfs_get(struct kvfs_op *op, const struct snic_kvop_key *key, const void **body,
             uint32_t *size);
int kvfs_peek(struct kvfs_op *op, const struct snic_kvop_key *key, const void **body,
              uint32_t *size);
/*
 * A peek for functions that end in one run when all is in the cache: its result is valid during the
 * run, and a later run may see another version.
 */
int kvfs_peek_cached(struct kvfs_op *op, const struct snic_kvop_key *key, const void **body,
                     uint32_t *size);
/*
 * Request a record that will be needed soon, so that several arrive in one round trip. Never waits.
 */
void kvfs_prefetch(struct kvfs_op *op, const struct snic_kvop_key *key);
void kvfs_attr_prefetch(struct kvfs_op *op, uint64_t ino);
/* Attributes, with deferred times merged in. A copy of the caller's: change it, then put it. */
int kvfs_get_attr(struct kvfs_op *op, uint64_t ino, struct snic_fsop_attr *out);
int kvfs_peek_attr_cached(struct kvfs_op *op, uint64_t ino, struct snic_fsop_attr *out);
/* Deferred times are merged in at each call, also if the record was read before. */
int kvfs_peek_attr(struct kvfs_op *op, uint64_t ino, struct snic_fsop_attr *out);

/*
 * Memory until the operation ends or starts over, up to KVFS_BLOCK bytes, 16-aligned, zero at
 * first. The n-th call of a run returns the same memory, with its contents, as the n-th call of the
 * runs before it in this round. NULL: return SNIC_ENOMEM (if others have taken too much, the
 * operation waits and starts over by itself).
 */
void *kvfs_alloc(struct kvfs_op *op, size_t size);

/* Changes. A body is copied. 0; SNIC_ENOMEM; SNIC_EMSGSIZE. */
int kvfs_put(struct kvfs_op *op, const struct snic_kvop_key *key, const void *body, uint32_t size);
int kvfs_delete(struct kvfs_op *op, const struct snic_kvop_key *key);
int kvfs_put_attr(struct kvfs_op *op, const struct snic_fsop_attr *a); /* raises a->version */
/* Object bytes or a truncation as part of the commit (kvop.h); memory borrowed. */
int kvfs_change_object(struct kvfs_op *op, uint32_t kind, uint64_t object, uint64_t offset,
                       const void *bytes, uint32_t size);
/*
 * The inode was made by this operation: no other can know it, so that its group may be written
 * ahead of the others where the store has no commits over several groups.
 */
void kvfs_mark_private(struct kvfs_op *op, uint64_t ino);
/*
 * 0 when it has happened (call it again in later runs: it stays 0 and the code after it runs);
 * KVFS_PENDING; SNIC_E*. With `durable` it survives power loss. Nothing to change is 0 at once.
 * Failed guards start the operation over by themselves.
 */
int kvfs_commit(struct kvfs_op *op, int durable);
/* 1: it has happened in this round: for functions that need not run again up to it. */
int kvfs_committed(const struct kvfs_op *op);
/* After kvfs_commit() has answered 0: the change in space by its CHANGE_WRITE or TRUNCATE;
 * INT64_MIN: unknown. */
int64_t kvfs_commit_allocated(const struct kvfs_op *op);
/*
 * Forget reads and changes and begin another round after a commit: op->phase must have been moved
 * on first, so that the function continues from there. Locks stay. Returns KVFS_PENDING.
 */
int kvfs_next(struct kvfs_op *op, uint32_t phase);
/*
 * op->s[word] becomes this, and stays so when the round starts over: operations sent to the store
 * outside of the commit do not start over.
 */
void kvfs_save_word(struct kvfs_op *op, uint32_t word, uint64_t value);
/* A change of the space a file takes, as far as a count can hold: damaged ones do not wrap. */
static inline uint64_t kvfs_space_add(uint64_t space, int64_t change)
{
    if (change < 0)
        return space - snic_min_u64(space, 0 - (uint64_t)change);
    return space + snic_min_u64(UINT64_MAX - space, (uint64_t)change);
}
/* Commit, and then answer with *a as it was when the commit was sent (deferred times are merged
 * into reads only until they are in the store). As kvfs_commit(). */
int kvfs_commit_reply(struct kvfs_op *op, const struct snic_fsop_attr *a);

/* ---- Object and other operations of the store ---- */

/*
 * The operation's n-th object operation (n = 0..KVFS_IOS_MAX-1, a fixed place in the code): starts
 * *want on the first run, KVFS_PENDING while it is in flight, then 0 with *got (results
 * in it), or its SNIC_E*. Several may be started before the first is waited for. kvfs_io_forget(n)
 * makes place n free for another (loops).
 */
int kvfs_io(struct kvfs_op *op, uint32_t n, const struct snic_kvop *want,
            const struct snic_kvop **got);
void kvfs_io_forget(struct kvfs_op *op, uint32_t n);

/* The same with a place in memory of kvfs_alloc() (intent.c: several commits at once, from inside
 * of kvfs_get() and kvfs_commit()). The operation does not start over while one is in flight. */
int kvfs_io_in(struct kvfs_op *op, struct kvfs_place *place, const struct snic_kvop *want,
               const struct snic_kvop **got);

/* ---- txn_scan.c: lists ---- */

/*
 * One page of a group's records of a kind, in io place 0 and in KVFS_SCAN_BYTES bytes of
 * kvfs_alloc() (every record fits): behind `after` (size 0: from the first), at most `max`.
 */
enum { KVFS_SCAN_BYTES = KVFS_BLOCK - 64 };
int kvfs_scan(struct kvfs_op *op, uint64_t ino, uint8_t kind, const struct snic_kvop_key *after,
              uint32_t max, const struct snic_kvop **page);
/* The same in less memory. SNIC_EMSGSIZE: not even one record fits. */
int kvfs_scan_in(struct kvfs_op *op, uint64_t ino, uint8_t kind, const struct snic_kvop_key *after,
                 uint32_t max, uint32_t room, const struct snic_kvop **page);
/*
 * A record of the page: its key, and its body, verified and resolved. 0; SNIC_ENOENT there is none;
 * KVFS_PENDING; SNIC_ECORRUPT (reported).
 */
int kvfs_scan_record(struct kvfs_op *op, const struct snic_kvop *page,
                     const struct snic_kvop_record *r, struct snic_kvop_key *key, const void **body,
                     uint32_t *size);
/* The hash in a key of a kind with one; the hash in the last record's key, where the next page
 * continues. */
struct snic_fsop_hash kvfs_scan_hash(const unsigned char *key);
void kvfs_scan_last(const struct snic_kvop *page, struct snic_fsop_hash *h);

/* ---- inode.c: what is in memory of an inode ---- */

/* Inodes in memory, one after the other: the next that is open, or has deferred times, behind
 * *cursor (0 to begin). 1; 0 no more. */
int kvfs_inode_next(const struct snic_kvfs *k, uint64_t *cursor, uint64_t *ino);
/* Opens counted here. */
int kvfs_inode_open(struct kvfs_op *op, uint64_t ino); /* 0; SNIC_ENFILE */
void kvfs_inode_close(struct snic_kvfs *k, uint64_t handle);
/*
 * After the commit that took the last name of `ino`: with SNIC_FSOP_HOLD it is open from now on,
 * and the request has the handle. 1: it is; 0: the caller begins its removal.
 */
int kvfs_inode_hold(struct kvfs_op *op, uint64_t ino);
/* 1: kvfs_inode_hold() will return 1, if the inode loses its last name. */
int kvfs_inode_holds(const struct kvfs_op *op);
uint32_t kvfs_inode_opens(const struct snic_kvfs *k, uint64_t ino);
/*
 * Handles need no memory: inode, and what it is open for (SNIC_FSOP_OPEN_READ and _WRITE). Never 0.
 */
SNIC_STATIC_ASSERT(SNIC_KVFS_INO_MAX << 2 <= 1ULL << 63, "a handle's mark is above its number");
static inline uint64_t kvfs_handle(uint64_t ino, uint32_t flags)
{
    return (1ULL << 63) | (ino << 2) | ((flags >> 10) & 3u);
}
static inline uint64_t kvfs_handle_ino(uint64_t handle)
{
    return (handle & ~(1ULL << 63)) >> 2;
}
static inline uint32_t kvfs_handle_flags(uint64_t handle)
{
    return (uint32_t)(handle & 3u) << 10;
}
/*
 * 1: the object is known to hold no bytes behind the size (a small file: none at all). There may be
 * some after a crash or a failed write. A flag of the inode in memory; 0 for an inode that is not
 * in memory, and while the session is not alone. name.c sets it for a new file.
 */
int kvfs_tail_is_clean(const struct kvfs_op *op, uint64_t ino);
void kvfs_tail_set(struct kvfs_op *op, uint64_t ino, int clean);
/* After a commit, or at a last close: start removing an inode in the background. */
void kvfs_collect(struct snic_kvfs *k, uint64_t ino);

#endif /* SNIC_KVFS_TXN_H */
