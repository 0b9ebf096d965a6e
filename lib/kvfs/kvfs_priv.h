/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * Inside the engine.
 *
 * An operation (struct kvfs_op) is a function that is called again and again from its beginning
 * until it no longer answers KVFS_PENDING. It asks for locks and records as if they were there;
 * what is not there yet is asked of the store, and the function is run anew when it has come.
 * What was read stays in the operation, so that each run sees the same and gets further. Changes
 * are noted in the operation, seen by its own later reads, and leave together in kvfs_commit().
 * If somebody else changed a record that was read (a guard fails), all is forgotten and
 * the function starts again with phase 0. So an operation's code reads from top to bottom, and
 * must have no effect of its own before kvfs_commit() has answered 0, but in op->s and op->phase.
 *
 *     static int name_unlink(struct kvfs_op *op)
 *     {
 *         int rc = kvfs_lock(op, dir, KVFS_EXCLUSIVE);
 *         if (rc != 0) return rc;
 *         rc = kvfs_get_attr(op, dir, &parent);      // KVFS_PENDING, SNIC_E*, or 0
 *         ...
 *         return kvfs_commit(op);
 *     }
 *
 * Inode numbers inside the engine are the store's: the root is 0; kvfs.c translates requests.
 *
 * Locks are per inode, in this engine only; they keep local requests from failing each other's
 * guards, and order data against truncation. Holders of several are made safe by order: a lock that
 * cannot be had at once makes the operation drop all of its locks and reads, wait, and
 * start over with the locks it is known to need taken in ascending order.
 */
#ifndef SNIC_KVFS_PRIV_H
#define SNIC_KVFS_PRIV_H

#include "snicstore/kvfs.h"

enum { KVFS_PENDING = 1 };

enum kvfs_mode { KVFS_SHARED = 1, KVFS_EXCLUSIVE = 2 };

struct kvfs_op;
struct kvfs_inode; /* in memory: open, locked, or with times kept back */
typedef int (*kvfs_run_fn)(struct kvfs_op *op);

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
 * Ask for a record that will be wanted soon, so that several come in one round trip. Never waits.
 */
void kvfs_prefetch(struct kvfs_op *op, const struct snic_kvop_key *key);
/* Attributes, with times kept back merged in. A copy of the caller's: change it, then put it. */
int kvfs_get_attr(struct kvfs_op *op, uint64_t ino, struct snic_kvfs_attr *out);
int kvfs_peek_attr(struct kvfs_op *op, uint64_t ino, struct snic_kvfs_attr *out);

/* Memory until the operation ends or starts over; NULL when it has no more (SNIC_ENOMEM). */
void *kvfs_take(struct kvfs_op *op, size_t size);

/* Changes. A body is copied. 0; SNIC_ENOMEM; SNIC_EMSGSIZE. */
int kvfs_put(struct kvfs_op *op, const struct snic_kvop_key *key, const void *body, uint32_t size);
int kvfs_delete(struct kvfs_op *op, const struct snic_kvop_key *key);
int kvfs_put_attr(struct kvfs_op *op, const struct snic_kvfs_attr *a); /* raises a->version */
/* Object bytes or a truncation as part of the commit (kvop.h); memory borrowed. */
int kvfs_change_object(struct kvfs_op *op, uint32_t kind, uint64_t object, uint64_t offset,
                       const void *bytes, uint32_t size);
/*
 * The inode was made by this operation: nobody else can know it, so that its group may be written
 * ahead of the others where the store has no commits over several groups.
 */
void kvfs_private(struct kvfs_op *op, uint64_t ino);
/*
 * 0 when it has happened (call it again in later runs: it stays 0 and what follows runs);
 * KVFS_PENDING; SNIC_E*. With `durable` it survives power loss. Nothing to change is 0 at once.
 * Failed guards start the operation over by themselves.
 */
int kvfs_commit(struct kvfs_op *op, int durable);
/*
 * Forget reads and changes and begin another round after a commit: op->phase must have been moved
 * on first, so that the function goes on from there. Locks stay. Answers KVFS_PENDING.
 */
int kvfs_next(struct kvfs_op *op, uint32_t phase);

/*
 * Keep new times back: they are seen by all reads here, and reach the store with the next
 * change of the inode, or within opts.times_ns, or by FLUSH and FSYNC. Only atime, mtime, ctime,
 * parent and name of *a are taken (name: after a rename within a directory).
 */
int kvfs_keep_times(struct kvfs_op *op, const struct snic_kvfs_attr *a);
/* Put what is kept back for the inode into this operation's changes. */
int kvfs_flush_times(struct kvfs_op *op, uint64_t ino);

/* ---- Object and other operations of the store ---- */

/*
 * The operation's n-th object operation (n = 0..KVFS_IOS_MAX-1, a fixed place in the code): starts
 * *want on the first run, KVFS_PENDING while it is under way, then 0 with *got (results
 * in it), or its SNIC_E*. Several may be started before the first is waited for. kvfs_io_forget(n)
 * makes place n free for another (loops).
 */
enum { KVFS_IOS_MAX = 4 };
int kvfs_io(struct kvfs_op *op, uint32_t n, const struct snic_kvop *want,
            const struct snic_kvop **got);
void kvfs_io_forget(struct kvfs_op *op, uint32_t n);

/* ---- entry.c: names in directories ---- */

struct kvfs_found {
    uint64_t ino;
    uint32_t type;
    struct snic_kvfs_hash hash;
};
/* SNIC_ENOENT; SNIC_ENAMETOOLONG; SNIC_ENOTDIR is the caller's to know. */
int kvfs_entry_get(struct kvfs_op *op, uint64_t dir, const char *name, uint32_t size,
                   struct kvfs_found *out);
/* Adds, or replaces (ino, type) of a name that is there. */
int kvfs_entry_put(struct kvfs_op *op, uint64_t dir, const char *name, uint32_t size, uint64_t ino,
                   uint32_t type);
int kvfs_entry_delete(struct kvfs_op *op, uint64_t dir, const char *name, uint32_t size);

/* ---- inode.c: what is in memory of an inode; numbers; the end of an inode ---- */

/* An inode number that was never used. 0; KVFS_PENDING; SNIC_ENOSPC. */
int kvfs_new_ino(struct kvfs_op *op, uint64_t *ino);
/* Opens counted here. */
int kvfs_inode_open(struct kvfs_op *op, uint64_t ino); /* 0; SNIC_ENFILE */
void kvfs_inode_close(struct snic_kvfs *k, uint64_t ino);
uint32_t kvfs_inode_opens(const struct snic_kvfs *k, uint64_t ino);
/*
 * The last name is gone (a->nlink is 0 already): notes what removes the inode at once, or
 * puts it on the orphans' list, in this operation's changes.
 */
int kvfs_orphan(struct kvfs_op *op, const struct snic_kvfs_attr *a);
/* After a commit, or at a last close: start removing an inode in the background. */
void kvfs_collect(struct snic_kvfs *k, uint64_t ino);

/* ---- perm.c: who may do what ---- */

enum { KVFS_MAY_EXEC = 1, KVFS_MAY_WRITE = 2, KVFS_MAY_READ = 4 };
/* Mode bits and ACL; 0 at once for requests that were CHECKED. 0; KVFS_PENDING; SNIC_EACCES. */
int kvfs_may(struct kvfs_op *op, const struct snic_kvfs_attr *a, uint32_t want);
/* May an entry of `dir` for `victim` be removed: write, search, sticky. */
int kvfs_may_delete(struct kvfs_op *op, const struct snic_kvfs_attr *dir,
                    const struct snic_kvfs_attr *victim);
int kvfs_is_owner(const struct kvfs_op *op, const struct snic_kvfs_attr *a); /* or uid 0 */
int kvfs_in_group(const struct kvfs_op *op, uint32_t gid);
/*
 * Owner, group (setgid directories), mode (umask or the directory's default ACL), times of a new
 * inode below `dir`, and the ACL records it inherits (noted as changes).
 */
int kvfs_make_attr(struct kvfs_op *op, const struct snic_kvfs_attr *dir, uint64_t ino,
                   uint32_t mode, struct snic_kvfs_attr *out);

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
 * Change the size as part of another operation, which has the exclusive lock and *a; puts *a. Uses
 * phases from `phase` to phase + 7 and io places 0 and 1, and commits.
 */
int kvfs_truncate(struct kvfs_op *op, struct snic_kvfs_attr *a, uint64_t size, uint32_t phase);
/* locks.c */
int kvfs_run_getlk(struct kvfs_op *op);
int kvfs_run_setlk(struct kvfs_op *op);
int kvfs_run_flock(struct kvfs_op *op);
/* Locks of an owner (or, flock: 1, of an open file) end with it. */
int kvfs_locks_drop(struct kvfs_op *op, uint64_t ino, uint64_t owner, int flock);
/* session.c: mkfs, mount, unmount, heartbeat. orphan.c. intent.c. */
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
int kvfs_intent_commit(struct kvfs_op *op);
/*
 * A record is reserved by somebody's commit: decide it. 0 with the logical record (a whole record
 * with head, size 0: none) in *record, valid while `raw` is; KVFS_PENDING; SNIC_E*.
 */
int kvfs_intent_resolve(struct kvfs_op *op, const struct snic_kvop_key *key, const void *raw,
                        uint32_t raw_size, const void **record, uint32_t *size);

#endif /* SNIC_KVFS_PRIV_H */
