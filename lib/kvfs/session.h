/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * Sessions, and what is written for them in the background: the interface to operations and kvfs.c.
 */
#ifndef SNIC_KVFS_SESSION_H
#define SNIC_KVFS_SESSION_H

#include "kvfs/txn_priv.h"

/* ---- session.c ---- */

void kvfs_session_init(struct snic_kvfs *k);
/*
 * For kvfs.c. Before each run of an operation of a request (all kinds but MKFS, MOUNT, UNMOUNT): 0;
 * SNIC_EIO the session is dead, or there is none; KVFS_PENDING the lease may be over: a heartbeat
 * that proves it has been started, and the operation is run again after it; the heartbeat's error
 * when one has failed while the operation waited.
 */
int kvfs_session_admit(struct kvfs_op *op);
/* The same for any operation, from inside of its function; also before the mount has ended. */
int kvfs_session_check_lease(struct kvfs_op *op);
/* Until when results may be cached outside of the engine; 0: not at all, SNIC_NEVER: while alone.
 */
uint64_t kvfs_session_valid_until(const struct snic_kvfs *k);
/* Called by each call of the engine: starts the heartbeat, and removals that are due. */
void kvfs_session_advance(struct snic_kvfs *k);
uint64_t kvfs_session_deadline(const struct snic_kvfs *k);

/* ---- numbers.c ---- */

/* An inode number that was never used. 0; KVFS_PENDING; SNIC_ENOSPC. */
int kvfs_new_ino(struct kvfs_op *op, uint64_t *ino);

/* ---- times.c: changes of attributes deferred ---- */

/*
 * Defer new times: they are seen by all reads here, and reach the store with the next
 * change of the inode, or within opts.times_ns, or by FLUSH and FSYNC. Only atime, mtime, ctime,
 * parent and name of *a are taken (name: after a rename within a directory).
 */
int kvfs_defer_times(struct kvfs_op *op, const struct snic_fsop_attr *a);
/*
 * The same for the space of a big file, which is known only after a write: the change is
 * added to what all reads here see, and reaches the store as times do. A crash may lose it.
 */
int kvfs_defer_space(struct kvfs_op *op, uint64_t ino, int64_t change);
/* Put the deferred changes for the inode into this operation's changes. */
int kvfs_flush_times(struct kvfs_op *op, uint64_t ino);
/*
 * After a read: 1 and *a with a new atime if it is to change (relatime: it is not later than mtime
 * or ctime, or a day old), for kvfs_defer_times(); 0: unchanged.
 */
int kvfs_relatime(const struct kvfs_op *op, struct snic_fsop_attr *a);

/* ---- orphan.c, linger.c: the end of an inode ---- */

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
int kvfs_inode_openable(const struct snic_kvfs *k, uint64_t ino);

/* ---- locks_table.c, locks_publish.c: advisory locks ---- */

/* locks_table.c: its memory is one piece of the engine's, at k->locks. */
size_t kvfs_locks_memsize(const struct snic_kvfs_opts *o); /* a multiple of 64 */
void kvfs_locks_init(struct kvfs_locks *locks, const struct snic_kvfs_opts *o);
int kvfs_locks_check(const struct snic_kvfs *k); /* 0; SNIC_ECORRUPT */
/*
 * Locks of these kinds of an owner end. Commits, with all that the operation has noted. 0; PENDING;
 * SNIC_E*.
 */
enum { KVFS_LOCKS_POSIX = 1, KVFS_LOCKS_FLOCK = 2 };
int kvfs_locks_drop(struct kvfs_op *op, uint64_t ino, uint64_t owner, uint32_t kinds);
/* The same where the store has failed, under the inode's lock: its record follows by
 * kvfs_locks_republish(). */
void kvfs_locks_forget(struct snic_kvfs *k, uint64_t ino, uint64_t owner, uint32_t kinds);

/* ---- Operations; each is a kvfs_run_fn ---- */

int kvfs_run_mkfs(struct kvfs_op *op);
int kvfs_run_mount(struct kvfs_op *op);
int kvfs_run_unmount(struct kvfs_op *op);
/* The engine's own: session_run.c. */
int kvfs_run_heartbeat(struct kvfs_op *op);
int kvfs_run_yield(struct kvfs_op *op);
int kvfs_run_recover(struct kvfs_op *op);
/* orphan.c. */
int kvfs_run_collect(struct kvfs_op *op); /* op->s[0] is the inode */
int kvfs_run_sweep(struct kvfs_op *op);
/* times.c, numbers.c, locks_publish.c. */
int kvfs_run_times(struct kvfs_op *op);
int kvfs_run_numbers(struct kvfs_op *op);
int kvfs_run_publish(struct kvfs_op *op);

#endif /* SNIC_KVFS_SESSION_H */
