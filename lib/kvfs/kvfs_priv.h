/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * Internals of the engine.
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
#ifndef SNIC_KVFS_PRIV_H
#define SNIC_KVFS_PRIV_H

#include "kvfs/state.h"

enum { KVFS_PENDING = 1 };

/*
 * 1: the function will be run again, after its result rc. It waits, or starts over: then rc may be
 * an error, too (no memory was free: kvfs_take, and all callers of it). The final actions of an
 * operation (counts, tables in memory, waking others) are done only where this returns 0, or they
 * are done twice.
 */
static inline int kvfs_runs_again(const struct kvfs_op *op, int rc)
{
    return rc == KVFS_PENDING || op->again;
}

/* ---- kvfs.c ---- */

/* The answer's attributes, with the root as SNIC_FSOP_ROOT. */
void kvfs_answer_attr(struct kvfs_op *op, const struct snic_fsop_attr *a);
static inline uint64_t kvfs_ino_out(uint64_t ino)
{
    return ino == 0 ? SNIC_FSOP_ROOT : ino;
}
/* The session caches: no other one uses the store. */
static inline int kvfs_alone(const struct snic_kvfs *k)
{
    return k->session.alone;
}
/* The session is dead: wake all waiting operations; they end with SNIC_EIO. */
void kvfs_session_died(struct snic_kvfs *k);
void kvfs_damage(struct snic_kvfs *k, const struct snic_kvop_key *key, const char *what);
void kvfs_damage_object(struct snic_kvfs *k, uint64_t object, uint64_t offset, const char *what);
/* Start one of the engine's own operations; NULL: KVFS_OWN_MAX are in progress. */
struct kvfs_op *kvfs_spawn(struct snic_kvfs *k, kvfs_run_fn run, uint64_t s0);
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

/* ---- txn.c: locks, reads, changes, commit ---- */

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
int kvfs_glance(struct kvfs_op *op, const struct snic_kvop_key *key, const void **body,
                uint32_t *size);
/*
 * Request a record that will be needed soon, so that several arrive in one round trip. Never waits.
 */
void kvfs_prefetch(struct kvfs_op *op, const struct snic_kvop_key *key);
/* Attributes, with times kept back merged in. A copy of the caller's: change it, then put it. */
int kvfs_get_attr(struct kvfs_op *op, uint64_t ino, struct snic_fsop_attr *out);
int kvfs_glance_attr(struct kvfs_op *op, uint64_t ino, struct snic_fsop_attr *out);
/* Times kept back are merged in at each call, also if the record was read before. */
int kvfs_peek_attr(struct kvfs_op *op, uint64_t ino, struct snic_fsop_attr *out);

/*
 * Memory until the operation ends or starts over, up to KVFS_BLOCK bytes, 16-aligned, zero at
 * first. The n-th call of a run returns the same memory, with its contents, as the n-th call of the
 * runs before it in this round. NULL: return SNIC_ENOMEM (if others have taken too much, the
 * operation waits and starts over by itself).
 */
void *kvfs_take(struct kvfs_op *op, size_t size);

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
void kvfs_private(struct kvfs_op *op, uint64_t ino);
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
 * on first, so that the function continues from there. Locks stay. Answers KVFS_PENDING.
 */
int kvfs_next(struct kvfs_op *op, uint32_t phase);
/*
 * op->s[word] becomes this, and stays so when the round starts over: operations sent to the store
 * outside of the commit do not start over.
 */
void kvfs_remember(struct kvfs_op *op, uint32_t word, uint64_t value);
/* A change of the space a file takes, as far as a count can hold: damaged ones do not wrap. */
static inline uint64_t kvfs_space_add(uint64_t space, int64_t change)
{
    if (change < 0)
        return space - snic_min_u64(space, 0 - (uint64_t)change);
    return space + snic_min_u64(UINT64_MAX - space, (uint64_t)change);
}

/*
 * Keep new times back: they are seen by all reads here, and reach the store with the next
 * change of the inode, or within opts.times_ns, or by FLUSH and FSYNC. Only atime, mtime, ctime,
 * parent and name of *a are taken (name: after a rename within a directory).
 */
int kvfs_keep_times(struct kvfs_op *op, const struct snic_fsop_attr *a);
/*
 * The same for the space of a big file, which is known only after a write: the change is
 * added to what all reads here see, and reaches the store as times do. A crash may lose it.
 */
int kvfs_keep_space(struct kvfs_op *op, uint64_t ino, int64_t change);
/* Put the changes kept back for the inode into this operation's changes. */
int kvfs_flush_times(struct kvfs_op *op, uint64_t ino);

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

/* The same with a place in memory of kvfs_take() (intent.c: several commits at once, from inside
 * of kvfs_get() and kvfs_commit()). The operation does not start over while one is in flight. */
int kvfs_io_in(struct kvfs_op *op, struct kvfs_place *place, const struct snic_kvop *want,
               const struct snic_kvop **got);

/* ---- kvfs.c, txn.c: what session.c, orphan.c, intent.c and times.c need of the core ---- */

/* Forget reads, changes and places, and begin the round (since the last kvfs_next) anew. Answers
 * KVFS_PENDING. */
int kvfs_restart(struct kvfs_op *op);
/* Operations in progress that have read a record before era `era` (struct kvfs_session) began and
 * have neither ended nor started over since. */
int kvfs_ops_before(const struct snic_kvfs *k, uint64_t era);
/* Records kept while alone. */
void kvfs_cache_drop(struct snic_kvfs *k);
/* Inodes in memory, one after the other: the next that is open, or has times kept back, behind
 * *cursor (0 to begin). 1; 0 no more. */
int kvfs_inode_next(const struct snic_kvfs *k, uint64_t *cursor, uint64_t *ino);

/* ---- entry.c: names in directories ---- */

struct kvfs_found {
    uint64_t ino;
    uint32_t type;
    struct snic_fsop_hash hash;
};
/* SNIC_ENOENT; SNIC_ENAMETOOLONG; the caller checks for SNIC_ENOTDIR. */
int kvfs_entry_get(struct kvfs_op *op, uint64_t dir, const char *name, uint32_t size,
                   struct kvfs_found *out);
void kvfs_entry_prefetch(struct kvfs_op *op, uint64_t dir, const char *name, uint32_t size);
void kvfs_entry_key(const struct snic_kvfs *k, uint64_t dir, const char *name, uint32_t size,
                    struct snic_kvop_key *key, struct snic_fsop_hash *hash);
/* The same with a key of kvfs_entry_key(). */
int kvfs_entry_get_at(struct kvfs_op *op, const struct snic_kvop_key *key, const char *name,
                      uint32_t size, struct kvfs_found *out);
int kvfs_entry_glance_at(struct kvfs_op *op, const struct snic_kvop_key *key, const char *name,
                         uint32_t size, struct kvfs_found *out);
int kvfs_entry_put_at(struct kvfs_op *op, const struct snic_kvop_key *key, const char *name,
                      uint32_t size, uint64_t ino, uint32_t type);
/* Adds a name, or replaces (ino, type) of an existing one. */
int kvfs_entry_put(struct kvfs_op *op, uint64_t dir, const char *name, uint32_t size, uint64_t ino,
                   uint32_t type);
int kvfs_entry_delete(struct kvfs_op *op, uint64_t dir, const char *name, uint32_t size);

/* ---- inode.c: what is in memory of an inode; numbers; the end of an inode ---- */

/* An inode number that was never used. 0; KVFS_PENDING; SNIC_ENOSPC. */
int kvfs_new_ino(struct kvfs_op *op, uint64_t *ino);
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
int kvfs_tail_clean(const struct kvfs_op *op, uint64_t ino);
void kvfs_tail_set(struct kvfs_op *op, uint64_t ino, int clean);
/*
 * The last name was removed (a->nlink is 0 already): notes the inode's removal at once, or its
 * entry on the orphans' list, in this operation's changes.
 */
int kvfs_orphan(struct kvfs_op *op, const struct snic_fsop_attr *a);
/* The same, but never removes it at once: kvfs_linger() follows the commit. */
int kvfs_orphan_later(struct kvfs_op *op, const struct snic_fsop_attr *a);
/* linger.c: an inode whose last name was replaced may be opened for a while. */
void kvfs_linger_init(struct snic_kvfs *k);
void kvfs_linger(struct kvfs_op *op, uint64_t ino);
void kvfs_linger_end(struct snic_kvfs *k);
/* 1: it may be opened although it has no name: it is open here already, or lingers. */
int kvfs_inode_lives(const struct snic_kvfs *k, uint64_t ino);
/* After a commit, or at a last close: start removing an inode in the background. */
void kvfs_collect(struct snic_kvfs *k, uint64_t ino);

/* ---- perm.c: who may do what ---- */

/* Mode bits, as in every POSIX. */
enum {
    KVFS_IFMT = 0170000,
    KVFS_IFIFO = 0010000,
    KVFS_IFCHR = 0020000,
    KVFS_IFDIR = 0040000,
    KVFS_IFBLK = 0060000,
    KVFS_IFREG = 0100000,
    KVFS_IFLNK = 0120000,
    KVFS_IFSOCK = 0140000,
    KVFS_ISUID = 04000,
    KVFS_ISGID = 02000,
    KVFS_ISVTX = 01000
};
static inline int kvfs_is_dir(const struct snic_fsop_attr *a)
{
    return (a->mode & KVFS_IFMT) == KVFS_IFDIR;
}
static inline int kvfs_is_reg(const struct snic_fsop_attr *a)
{
    return (a->mode & KVFS_IFMT) == KVFS_IFREG;
}

enum { KVFS_MAY_EXEC = 1, KVFS_MAY_WRITE = 2, KVFS_MAY_READ = 4 };
/* Mode bits and ACL; 0 at once for requests that were CHECKED. 0; KVFS_PENDING; SNIC_EACCES. */
int kvfs_may(struct kvfs_op *op, const struct snic_fsop_attr *a, uint32_t want);
/* Permission to remove an entry of `dir` for `victim`: write, search, sticky. */
int kvfs_may_delete(struct kvfs_op *op, const struct snic_fsop_attr *dir,
                    const struct snic_fsop_attr *victim);
int kvfs_is_owner(const struct kvfs_op *op, const struct snic_fsop_attr *a); /* or uid 0 */
int kvfs_in_group(const struct kvfs_op *op, uint32_t gid);
/*
 * Owner, group (setgid directories), mode (umask or the directory's default ACL), times of a new
 * inode below `dir`, and the ACL records it inherits (noted as changes).
 */
int kvfs_make_attr(struct kvfs_op *op, const struct snic_fsop_attr *dir, uint64_t ino,
                   uint32_t mode, struct snic_fsop_attr *out);

/* ---- name_remove.c: the names an inode knows of itself ---- */

/* 1: ".", 2: "..", else 0. */
static inline int kvfs_name_dots(const char *name, uint32_t size)
{
    if (size == 0 || size > 2 || name[0] != '.' || name[size - 1] != '.')
        return 0;
    return (int)size;
}
void kvfs_attr_prefetch(struct kvfs_op *op, uint64_t ino);
/* The hash of a name in this file system. */
struct snic_fsop_hash kvfs_name_hash(const struct kvfs_op *op, const char *name, uint32_t size);
/* Commit, and then answer with *a as it was when the commit was sent (times kept back are merged
 * into reads only until they are in the store). As kvfs_commit(). */
int kvfs_commit_answer(struct kvfs_op *op, const struct snic_fsop_attr *a);
/* After the commit that took the last name, under the inode's lock: kvfs_collect(), unless
 * kvfs_orphan() has removed it at once. */
void kvfs_collect_orphan(struct kvfs_op *op, uint64_t ino);
/* A name to be made: 0; SNIC_ENOENT empty; SNIC_ENAMETOOLONG; SNIC_EINVAL '/' or 0 in it. */
int kvfs_name_check(const char *name, uint32_t size);
/*
 * Records that were read one after the other are inconsistent: they were changed in between, or the
 * store is damaged. Starts the round over, a few times; then SNIC_ECORRUPT, reported for the
 * inode's attributes.
 */
int kvfs_torn(struct kvfs_op *op, uint64_t ino, const char *what);
/* The attributes of an inode that an entry names: SNIC_ENOENT is kvfs_torn(). */
int kvfs_get_named(struct kvfs_op *op, uint64_t ino, struct snic_fsop_attr *out);
/* Changes of *a (nlink, first name) and of 'P' records; the caller puts *a. 0; KVFS_PENDING... */
int kvfs_name_add(struct kvfs_op *op, struct snic_fsop_attr *a, uint64_t dir,
                  struct snic_fsop_hash h);
int kvfs_name_drop(struct kvfs_op *op, struct snic_fsop_attr *a, uint64_t dir,
                   struct snic_fsop_hash h);

/* ---- xattr.c, acl.c, readdir.c ---- */

void kvfs_xattr_key(const struct kvfs_op *op, struct snic_kvop_key *key, uint64_t ino,
                    const char *name, uint32_t name_size);
/* Its value, in the operation's memory. 0; SNIC_ENODATA; KVFS_PENDING; SNIC_E*. */
int kvfs_xattr_find(struct kvfs_op *op, uint64_t ino, const char *name, uint32_t name_size,
                    int guard, const void **value, uint32_t *size);
int kvfs_xattr_put(struct kvfs_op *op, uint64_t ino, const char *name, uint32_t name_size,
                   const void *value, uint32_t size);
enum { KVFS_ACL_ACCESS = 1, KVFS_ACL_DEFAULT = 2 };
int kvfs_acl_name(const char *name, uint32_t size); /* which; 0: another attribute */
int kvfs_acl_may(struct kvfs_op *op, const struct snic_fsop_attr *a, uint32_t want);
int kvfs_acl_inherit(struct kvfs_op *op, const struct snic_fsop_attr *dir,
                     struct snic_fsop_attr *out);
/* Changes *a and the record; the caller puts *a. Size 0, or no entries: removes it. */
int kvfs_acl_set(struct kvfs_op *op, struct snic_fsop_attr *a, int which, const void *value,
                 uint32_t size);
int kvfs_acl_get(struct kvfs_op *op, const struct snic_fsop_attr *a, int which, const void **value,
                 uint32_t *size);
/*
 * One page of a group's records of a kind, in io place 0 and in KVFS_SCAN_ROOM bytes of kvfs_take()
 * (every record fits): behind `after` (size 0: from the first), at most `max`.
 */
enum { KVFS_SCAN_ROOM = KVFS_BLOCK - 64 };
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
/* The hash in the last record's key, where the next page continues; of kinds with a hash. */
void kvfs_scan_last(const struct snic_kvop *page, struct snic_fsop_hash *h);

/* ---- The operations, by file; each is a kvfs_run_fn ---- */

/* name.c: lookup, mknod, create, mkdir, symlink, readlink, resolve. name_remove.c: unlink, rmdir,
 * link. name_rename.c. readdir.c. */
int kvfs_run_lookup(struct kvfs_op *op);
int kvfs_run_resolve(struct kvfs_op *op);
int kvfs_run_make(struct kvfs_op *op); /* mknod, create, mkdir, symlink */
int kvfs_run_readlink(struct kvfs_op *op);
int kvfs_run_unlink(struct kvfs_op *op);
int kvfs_run_rmdir(struct kvfs_op *op);
int kvfs_run_link(struct kvfs_op *op);
int kvfs_run_rename(struct kvfs_op *op);
int kvfs_run_readdir(struct kvfs_op *op);
int kvfs_run_opendir(struct kvfs_op *op);
/* attr.c */
int kvfs_run_getattr(struct kvfs_op *op);
int kvfs_run_setattr(struct kvfs_op *op); /* size: kvfs_truncate() of data.c */
int kvfs_run_access(struct kvfs_op *op);
/* This operation's wall time. */
struct snic_fsop_time kvfs_time(const struct kvfs_op *op);
/*
 * After a read: 1 and *a with a new atime if it is to change (relatime: it is not later than mtime
 * or ctime, or a day old), for kvfs_keep_times(); 0: unchanged.
 */
int kvfs_relatime(const struct kvfs_op *op, struct snic_fsop_attr *a);
/*
 * The mode after a write, truncation or chown, which clears setuid and setgid. Where the group may
 * not execute, setgid stays if the caller is in it or `capable` (Linux's
 * setattr_should_drop_sgid()). Directories keep theirs.
 */
uint32_t kvfs_mode_killed(const struct kvfs_op *op, const struct snic_fsop_attr *a, int capable);
/* xattr.c, acl.c */
int kvfs_run_setxattr(struct kvfs_op *op);
int kvfs_run_getxattr(struct kvfs_op *op);
int kvfs_run_listxattr(struct kvfs_op *op);
int kvfs_run_removexattr(struct kvfs_op *op);
/* open.c: open, release, flush, fsync. data_read.c, data_write.c, data_space.c */
int kvfs_run_open(struct kvfs_op *op);
int kvfs_run_release(struct kvfs_op *op);
int kvfs_run_flush(struct kvfs_op *op);
int kvfs_run_fsync(struct kvfs_op *op); /* and syncfs */
int kvfs_run_read(struct kvfs_op *op);
int kvfs_run_write(struct kvfs_op *op);
int kvfs_run_fallocate(struct kvfs_op *op);
int kvfs_run_seek(struct kvfs_op *op);
int kvfs_run_copy(struct kvfs_op *op);
int kvfs_run_statfs(struct kvfs_op *op);
/*
 * Change the size as part of another operation, which has the exclusive lock and *a from
 * kvfs_get_attr(), with its times and mode as they are to be; puts *a and commits. Uses phases from
 * `phase` to phase + 7, io places 0 to 2, and op->s[4] to op->s[7]. Once 0, it stays 0, with the
 * new *a. File capabilities are removed.
 */
int kvfs_truncate(struct kvfs_op *op, struct snic_fsop_attr *a, uint64_t size, uint32_t phase);
/* locks.c: its memory is one piece of the engine's, at k->locks. */
size_t kvfs_locks_memsize(const struct snic_kvfs_opts *o); /* a multiple of 64 */
void kvfs_locks_init(struct kvfs_locks *locks, const struct snic_kvfs_opts *o);
int kvfs_locks_check(const struct snic_kvfs *k); /* 0; SNIC_ECORRUPT */
int kvfs_run_getlk(struct kvfs_op *op);
int kvfs_run_setlk(struct kvfs_op *op);
int kvfs_run_flock(struct kvfs_op *op);
/*
 * Locks of these kinds of an owner end. Commits, with all that the operation has noted. 0; PENDING;
 * SNIC_E*.
 */
enum { KVFS_LOCKS_POSIX = 1, KVFS_LOCKS_FLOCK = 2 };
int kvfs_locks_drop(struct kvfs_op *op, uint64_t ino, uint64_t owner, uint32_t kinds);
/* The same where the store has failed, under the inode's lock: its record follows by
 * kvfs_locks_mend(). */
void kvfs_locks_forget(struct snic_kvfs *k, uint64_t ino, uint64_t owner, uint32_t kinds);
/* A request ends without its function: it stops waiting for a lock. */
void kvfs_locks_leave(struct kvfs_op *op);
/* After a heartbeat: start to write records that still have locks which have ended. */
void kvfs_locks_mend(struct snic_kvfs *k);
/* 1: operations that write records of locks are in progress; kvfs_session_ended() follows each. */
int kvfs_locks_publishing(const struct snic_kvfs *k);
/*
 * The session stops being alone: locks kept in memory go to the store, by operations of their own;
 * from the first call on, new ones do, too. 0: all are written; KVFS_PENDING; SNIC_E*.
 */
int kvfs_locks_publish(struct kvfs_op *op);
/* session.c: mkfs, mount, unmount, heartbeat. orphan.c. intent.c. */
/* 1: it is in the session table, as of the last heartbeat. */
int kvfs_session_alive(const struct snic_kvfs *k, uint64_t session);
int kvfs_run_mkfs(struct kvfs_op *op);
int kvfs_run_mount(struct kvfs_op *op);
int kvfs_run_unmount(struct kvfs_op *op);
int kvfs_run_heartbeat(struct kvfs_op *op); /* the engine's own, from advance */
int kvfs_run_collect(struct kvfs_op *op);   /* the engine's own: op->s[0] is the inode */
int kvfs_run_times(struct kvfs_op *op);     /* the engine's own: flushes times kept back */
/*
 * Commit over several groups in steps, where the store has none: called by kvfs_commit() with the
 * operation's guards and changes. Answers as kvfs_commit().
 */
int kvfs_intent_commit(struct kvfs_op *op, int durable);
/*
 * A record is reserved by another commit: decide it. 0 with the logical record (a whole record
 * with head, size 0: none) in *record, valid while `raw` is; KVFS_PENDING; SNIC_E*.
 */
int kvfs_intent_resolve(struct kvfs_op *op, const struct snic_kvop_key *key, const void *raw,
                        uint32_t raw_size, const void **record, uint32_t *size);

#endif /* SNIC_KVFS_PRIV_H */
