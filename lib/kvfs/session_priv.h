/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * Between the files of the layer of sessions: session.c (the table, time), session_mount.c,
 * session_run.c (heartbeat, end of caching, recovery), and those that these call: numbers.c,
 * times.c, orphan.c, orphan_range.c, locks_publish.c.
 */
#ifndef SNIC_KVFS_SESSION_PRIV_H
#define SNIC_KVFS_SESSION_PRIV_H

#include "kvfs/session.h"

enum { KVFS_SESSION_SCAN = 49152 }; /* all of a full table */

struct kvfs_session_row {
    uint64_t id;
    uint64_t counter;
    const unsigned char *record; /* as the store has it */
    const unsigned char *beat;
    const void *client; /* its identity (S9) */
    uint32_t client_size;
    uint32_t size;
    uint32_t beat_size;
    struct snic_kvfs_session s;
};

/* A scan's result, in the operation's memory. */
struct kvfs_session_table {
    uint64_t begun; /* its number */
    uint64_t version;
    const unsigned char *table;
    uint32_t table_size;
    uint32_t parsed;
    uint32_t count;
    struct kvfs_session_row rows[KVFS_SESSIONS_MAX];
};

/* A commit in the superblock's group, in the operation's memory; filled once, when !built. */
struct kvfs_session_tx {
    uint32_t built;
    uint32_t guard_count;
    uint32_t change_count;
    struct snic_kvop_guard guards[3];
    struct snic_kvop_change changes[4];
    unsigned char bytes[4][SNIC_KVFS_SESSION_BYTES];
};

/* ---- session.c ---- */

int kvfs_session_scan(struct kvfs_op *op, uint32_t n, struct kvfs_session_table **out);
const struct kvfs_session_row *kvfs_session_row(const struct kvfs_session_table *t, uint64_t id);
void kvfs_session_key(struct snic_kvop_key *key, uint64_t id);
void kvfs_session_guard(struct kvfs_session_tx *x, const struct snic_kvop_key *key,
                        const void *value, uint32_t size);
void kvfs_session_put(struct kvfs_session_tx *x, const struct snic_kvop_key *key,
                      const struct snic_kvfs_session *s);
void kvfs_session_put_number(struct kvfs_session_tx *x, const struct snic_kvop_key *key,
                             uint64_t number);
void kvfs_session_put_fence(struct kvfs_session_tx *x, const struct snic_kvop_key *key,
                            const struct snic_kvfs *k);
void kvfs_session_delete(struct kvfs_session_tx *x, const struct snic_kvop_key *key);
void kvfs_session_set_fence(struct snic_kvfs *k);
/* A failed guard starts the round over. */
int kvfs_session_commit(struct kvfs_op *op, uint32_t n, struct kvfs_session_tx *x, int durable);
/* A session leaves the table: its record, guarded, and its heartbeat. As kvfs_session_commit(). */
int kvfs_session_remove(struct kvfs_op *op, uint32_t n, const struct kvfs_session_row *row,
                        int durable);
void kvfs_session_heartbeat_now(struct snic_kvfs *k);
/* kvfs_new_ino(): note in this operation's changes that [first, first + count) are ours. */
int kvfs_session_range(struct kvfs_op *op, uint64_t first, uint64_t count);

/*
 * For orphan.c: the table of sessions as of now, read after all that the operation has read so
 * far; place `n` of kvfs_io(). 0 (others[] is up to date); KVFS_PENDING; SNIC_E*.
 */
int kvfs_session_reload(struct kvfs_op *op, uint32_t n);
/* Wake session.c's waiters: an operation that they may wait for has ended. */
void kvfs_session_wake(struct snic_kvfs *k);

/* ---- times.c ---- */

/* Write all deferred times, in rounds of the phase that the operation is in. */
enum { KVFS_TIMES_S_INO = 7 }; /* op->s: the inode's number and 1 */
int kvfs_times_flush_all(struct kvfs_op *op);

/* ---- orphan_range.c ---- */

/*
 * Inodes of [first, first + count) that a dead session, or ours when it ends, made and never named
 * become orphans; rounds in the phase that the operation is in. 0 when all have been checked;
 * SNIC_E*.
 */
enum {
    KVFS_ORPHAN_RANGE_S_AT = 4, /* op->s: the number's place in the range; 0 to begin */
    KVFS_ORPHAN_RANGE_S_STEP,
    KVFS_ORPHAN_RANGE_S_HIGH, /* the last entry scanned */
    KVFS_ORPHAN_RANGE_S_LOW
};
SNIC_STATIC_ASSERT((int)KVFS_ORPHAN_RANGE_S_LOW < (int)KVFS_WORDS, "the last words of op->s");
int kvfs_orphan_range(struct kvfs_op *op, uint64_t first, uint64_t count);

/* ---- locks_publish.c ---- */

/* After a heartbeat: start to write records that still have locks which have ended. */
void kvfs_locks_republish(struct snic_kvfs *k);
/* 1: operations that write records of locks are in progress; kvfs_session_wake() follows each. */
int kvfs_locks_publishing(const struct snic_kvfs *k);
/*
 * The session stops being alone: locks kept in memory go to the store, by operations of their own;
 * from the first call on, new ones do, too. 0: all are written; KVFS_PENDING; SNIC_E*.
 */
int kvfs_locks_publish(struct kvfs_op *op);

#endif /* SNIC_KVFS_SESSION_PRIV_H */
