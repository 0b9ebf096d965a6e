/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * Shared by the files of the lock table: locks_table.c has it, locks_store.c its copy in the store,
 * locks_publish.c writes that, locks.c has the requests.
 *
 * Invariants
 *   1. Ranges of one owner and kind in one file do not overlap, and those of one type do not touch.
 *   2. No two held ranges conflict.
 *   3. A waiting operation has a waiting item, and sleeps in the file's list, which is woken when
 *      a lock of the file ends or gets weaker.
 *   4. While shared, the table changes under the inode's exclusive lock, after the commit.
 *   5. Operations can end without a run (a dead session): a waiting item whose operation was reused
 *      does not count, and a new session begins with an empty table.
 *   6. A close ends its locks here whatever the store's result. A file whose record was not updated
 *      is stale, and stays in the table, until a heartbeat's publishing has brought the record up
 *      to date: others would wait forever for a lock of this session, which is alive.
 */
#ifndef SNIC_KVFS_LOCKS_PRIV_H
#define SNIC_KVFS_LOCKS_PRIV_H

#include "kvfs/session_priv.h"

/* A range that is requested, held or waited for. */
struct kvfs_lock_range {
    uint64_t owner;
    uint64_t start;
    uint64_t end; /* inclusive */
    uint32_t type;
    uint32_t pid;
    uint32_t kind; /* KVFS_LOCKS_POSIX or _FLOCK */
};

struct kvfs_lock_item {
    struct snic_link link; /* file->held or file->waiting; free: next alone */
    struct snic_link all;  /* waiting: locks->waiting */
    struct kvfs_lock_file *file;
    struct kvfs_lock_range r;
    struct kvfs_op *op; /* waiting */
    const struct snic_fsop *req;
    struct kvfs_lock_item *todo; /* deadlock search */
    uint64_t seen;
    uint32_t polls;
};

struct kvfs_lock_file {
    struct kvfs_lock_file *next; /* in its bucket, or free */
    uint64_t ino;
    struct snic_link all; /* locks->files */
    struct snic_link held;
    struct snic_link waiting;
    struct snic_link sleepers; /* operations */
    uint8_t stored;            /* the 'K' record has the held locks, or will soon */
    uint8_t stale;             /* the record may have locks that have ended (6) */
};

struct kvfs_locks {
    uint64_t session; /* whose locks these are */
    struct kvfs_lock_file **buckets;
    struct kvfs_lock_file *files_pool;
    struct kvfs_lock_file *files_free;
    struct kvfs_lock_item *items_pool;
    struct snic_link items_free;
    struct snic_link files;
    struct snic_link waiting;
    struct snic_link publishers; /* operations that wait for it */
    uint64_t mask;
    uint64_t search;
    uint32_t max;
    uint32_t slack; /* items beyond max: for committed changes */
    uint32_t count;
    uint32_t publishing;
    int32_t publish_error;
    uint8_t shared;
};

static inline struct kvfs_lock_item *kvfs_lock_at(struct snic_link *link)
{
    return SNIC_CONTAINER(link, struct kvfs_lock_item, link);
}

/* ---- locks_table.c ---- */

/* The table of this session; without an earlier one's locks (5). */
struct kvfs_locks *kvfs_locks_table(struct snic_kvfs *k);
struct kvfs_lock_file *kvfs_locks_find(const struct kvfs_locks *l, uint64_t ino);
/* Find or create it; NULL: the table is full. */
struct kvfs_lock_file *kvfs_locks_file(struct kvfs_locks *l, uint64_t ino);
/* Remove it if no lock is held or waited for, and its record is up to date. */
void kvfs_locks_file_put(struct kvfs_locks *l, struct kvfs_lock_file *f);
struct kvfs_lock_item *kvfs_locks_item(struct kvfs_locks *l, struct kvfs_lock_file *f,
                                       const struct kvfs_lock_range *r, struct snic_link *list);
void kvfs_locks_item_free(struct kvfs_locks *l, struct kvfs_lock_item *i);
int kvfs_locks_conflict(const struct kvfs_lock_range *a, const struct kvfs_lock_range *b);
struct kvfs_lock_item *kvfs_locks_conflicting(struct kvfs_lock_file *f,
                                              const struct kvfs_lock_range *r);
/*
 * The result for a held range when its owner sets *want: up to two pieces of it stay; or it is
 * absorbed by the new one, *sum.
 */
int kvfs_locks_pieces(const struct kvfs_lock_range *held, const struct kvfs_lock_range *want,
                      struct kvfs_lock_range *sum, struct kvfs_lock_range pieces[2]);
/* 1: after it the held items are within the limit, or not more than before. */
int kvfs_locks_fits(const struct kvfs_locks *l, struct kvfs_lock_file *f,
                    const struct kvfs_lock_range *want);
/* Apply the change. Items are free: kvfs_locks_fits(), and slack. */
void kvfs_locks_apply(struct kvfs_locks *l, struct kvfs_lock_file *f,
                      const struct kvfs_lock_range *want);
/* All ranges of an owner end. */
void kvfs_locks_apply_drop(struct kvfs_locks *l, struct kvfs_lock_file *f, uint64_t owner,
                           uint32_t kinds);
int kvfs_locks_holds(struct kvfs_lock_file *f, uint64_t owner, uint32_t kinds);

/* ---- locks_store.c: the 'K' record ---- */

/* Find a lock of another session, alive, that conflicts with *r. 0 none; KVFS_LOCKS_CONFLICT and
 * *out; PENDING; SNIC_E*. */
enum { KVFS_LOCKS_CONFLICT = 2 };
int kvfs_locks_other(struct kvfs_op *op, uint64_t ino, const struct kvfs_lock_range *r, int guard,
                     struct kvfs_lock_range *out);
/*
 * Note the new record: others' locks that count, and those held here after *want has been set (or,
 * want NULL, without those of an owner and kinds). 0; PENDING; SNIC_ENOLCK; SNIC_E*.
 */
int kvfs_locks_put(struct kvfs_op *op, struct kvfs_lock_file *f, const struct kvfs_lock_range *want,
                   uint64_t owner, uint32_t kinds);

#endif /* SNIC_KVFS_LOCKS_PRIV_H */
