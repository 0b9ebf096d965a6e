/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * Shared by the files of data operations (data_*.c, open.c).
 *
 * Where a file's bytes are. SNIC_KVFS_ATTR_BIG decides: without it in the 'D' record, which may be
 * shorter than the size (zeros follow) but never longer; with it in the object of the
 * inode's number. The flag, the size and what happens to 'D' always change in one commit.
 *
 * Bytes behind the size. Bytes are written to the object before the commit that makes them part of
 * the file, so a crash or an error can leave some behind the size. An operation that moves the size
 * across bytes that it has not written removes them first (kvfs_data_cut_tail). A flag in memory
 * states that there are none (kvfs_tail_is_clean).
 *
 * Space. A small file's is its record's bytes, rounded up to 512. A big file's is the object's, by
 * the results of operations: a change known only after the commit is deferred (kvfs_defer_space).
 */
#ifndef SNIC_KVFS_DATA_PRIV_H
#define SNIC_KVFS_DATA_PRIV_H

#include "kvfs/ops.h"

/* ---- data_read.c ---- */

/* Bytes of the request's pieces. 0; SNIC_EINVAL too many or too large. */
int kvfs_data_length(const struct snic_fsop *req, uint64_t *bytes);
/* Check a request's handle: of this inode, open, and open for this use. 0; SNIC_EBADF. */
int kvfs_data_handle(const struct kvfs_op *op, uint64_t ino, uint32_t need);
/* Check the type and permissions. `want` 0: unchecked. 0; PENDING; EISDIR; EINVAL; EACCES. */
int kvfs_data_file(struct kvfs_op *op, const struct snic_fsop_attr *a, uint32_t want);
/*
 * `bytes` (not 0) of pieces from their `at` on: themselves, or a copy without empty ones and with
 * the first and the last one cut. NULL: no memory.
 */
const struct snic_iov *kvfs_data_cut(struct kvfs_op *op, const struct snic_iov *iov,
                                     uint32_t *count, uint64_t at, uint64_t bytes);
/* The first bytes of pieces. */
void kvfs_data_gather(const struct snic_iov *iov, uint32_t count, void *to, uint64_t bytes);
/* kvfs_io() of an object; damage is reported. */
int kvfs_data_io(struct kvfs_op *op, uint32_t place, const struct snic_kvop *want,
                 const struct snic_kvop **got);
/* The 'D' record; size 0: there is none. `guard` 0: peek. 0; PENDING; SNIC_E*. */
int kvfs_data_get_small(struct kvfs_op *op, const struct snic_fsop_attr *a, int guard,
                        const void **body, uint32_t *size);
/* Request it with the attributes, in one round trip, where records are not cached. */
void kvfs_data_prefetch(struct kvfs_op *op, uint64_t ino);
static inline uint64_t kvfs_data_small_space(uint64_t bytes)
{
    return snic_align_up(bytes, 512);
}

/* ---- data_change.c ---- */

/*
 * A function with such changes counts its steps in op->phase, by an enum of its own that begins at
 * 0. From when the commit of a step is sent, the phase is the step and one of these.
 */
enum { KVFS_DATA_COMMITTING = 1u << 8, KVFS_DATA_COMMITTED = 1u << 9 };
enum { KVFS_DATA_ONLY_STEP = 0 }; /* of a function that has one */
/* 1: the commit of the step is sent: later runs call kvfs_data_commit() alone. */
static inline int kvfs_data_commits(const struct kvfs_op *op, uint32_t step)
{
    return op->phase == (step | KVFS_DATA_COMMITTING) || op->phase == (step | KVFS_DATA_COMMITTED);
}
/* Words of op->s that belong to changes of data; those before are the function's own. */
enum {
    KVFS_DATA_S_SHARED = 3,
    KVFS_DATA_S_ALLOCATED,
    KVFS_DATA_S_TAIL,
    KVFS_DATA_S_SPACE, /* what a truncation has made of the attributes */
    KVFS_DATA_S_FLAGS,
    KVFS_DATA_S_END
};
SNIC_STATIC_ASSERT((int)KVFS_DATA_S_END == KVFS_WORDS, "the last words of op->s");
/* Io places of kvfs_data_cut_tail(); the functions use the others. */
enum { KVFS_DATA_IO_CUT = 0, KVFS_DATA_IO_CUT_STAT, KVFS_DATA_IO_OWN };
/*
 * 1: other sessions use the store, as of the round's first call: a round that began while the
 * session was alone ends before others serve requests, but may start over among them (session.c).
 * Before kvfs_next() the word is to be 0 again.
 */
int kvfs_data_shared(struct kvfs_op *op);
/*
 * Object operations ahead of a commit, or of deferred times, are not undone when the round starts
 * over: their bytes may be behind the size, and repeated they take no space. So the flag of
 * kvfs_tail_is_clean() goes before the first of them and comes back with the commit, and a round
 * that repeats them queries the store for the space (kvfs_data_stat_space). The state when the
 * round began:
 */
struct kvfs_ahead {
    int known;
    int clean; /* kvfs_tail_is_clean() */
    int again; /* an earlier round has sent some */
};
/* Under the inode's lock, before any other kvfs_alloc(): the order of those may differ. NULL: no
 * memory. */
const struct kvfs_ahead *kvfs_data_ahead(struct kvfs_op *op, uint64_t ino);
/* Before each of them; `tail`: behind the size. */
void kvfs_data_send_ahead(struct kvfs_op *op, uint64_t ino, int tail);

/*
 * A change of bytes clears setuid and setgid (if the request has KILL_PRIV, or is from another user
 * than root and is to be checked), and file capabilities. `kill_mode` 0: the mode is already as it
 * is to be. Changes a->mode, notes the record's deletion. 0; PENDING; SNIC_E*.
 */
int kvfs_data_strip(struct kvfs_op *op, struct snic_fsop_attr *a, int kill_mode);
/*
 * Whether a shared lock suffices: within the size of a big file, and only times change. 0: yes;
 * KVFS_DATA_MORE: no; PENDING; SNIC_E*.
 */
enum { KVFS_DATA_MORE = 2 };
int kvfs_data_inside(struct kvfs_op *op, uint64_t end, const struct snic_fsop_attr *a);
/*
 * Commit the step's change of data; see kvfs_data_commits(). Once 0, it stays 0 in this round.
 * Noted before: by how much the attributes' space was raised for object bytes of this commit, which
 * the commit's result corrects (INT64_MIN: not to be corrected); whether nothing is behind the new
 * size.
 */
int kvfs_data_commit(struct kvfs_op *op, uint64_t ino, int durable, uint32_t step);
void kvfs_data_commit_note(struct kvfs_op *op, int64_t allocated, int clean);
/* mtime and ctime of now, space changed by an object operation within the size: deferred. */
int kvfs_data_defer_times(struct kvfs_op *op, uint64_t ino, int64_t allocated);

/* ---- data_write.c ---- */

/* A write to one file. Uses io places 0 to 3. */
struct kvfs_write {
    uint64_t ino;
    const struct kvfs_ahead *ahead;
    const struct snic_iov *iov; /* of `bytes` bytes */
    uint32_t count;
    uint32_t flags; /* SNIC_FSOP_DIRECT, _SYNC */
    uint64_t offset;
    uint64_t bytes;
    uint32_t step;
};
/* One object operation; times and space are deferred. Shared lock. 0; PENDING; SNIC_E*. Not when
 * w->ahead->again: then kvfs_data_write(). */
int kvfs_data_overwrite(struct kvfs_op *op, const struct kvfs_write *w);
/* Anything else; exclusive lock, *a from kvfs_get_attr(). 0; PENDING; SNIC_E*. */
int kvfs_data_write(struct kvfs_op *op, const struct kvfs_write *w, struct snic_fsop_attr *a);

/* ---- data_space.c ---- */

/*
 * Make the object empty behind the size (small file: empty), before the size is moved across it;
 * *a's space becomes exact. Exclusive lock.
 */
int kvfs_data_cut_tail(struct kvfs_op *op, struct snic_fsop_attr *a);
/* A small file becomes a big one of `size` bytes; its bytes go with the commit of the step. The
 * tail is cut before. Exclusive lock. */
int kvfs_data_convert(struct kvfs_op *op, struct snic_fsop_attr *a, uint64_t size, uint32_t step);
/* Set *a's space to the object's. Io place `place`. 0; PENDING; SNIC_E*. */
int kvfs_data_stat_space(struct kvfs_op *op, struct snic_fsop_attr *a, uint32_t place);

#endif /* SNIC_KVFS_DATA_PRIV_H */
