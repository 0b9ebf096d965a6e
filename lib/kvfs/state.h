/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * The engine's state in memory: operations with their reads and changes, inodes, sessions, and the
 * engine itself. The function of an operation uses req, ino, ino2, now, s, phase and reserve of it;
 * the rest is the transactions' (txn_priv.h), and changed by the functions of txn.h.
 */
#ifndef SNIC_KVFS_STATE_H
#define SNIC_KVFS_STATE_H

#include "kvfs/format_priv.h"

enum kvfs_mode { KVFS_SHARED = 1, KVFS_EXCLUSIVE = 2 };

enum {
    KVFS_IOS_MAX = 4,     /* places of kvfs_io() */
    KVFS_LOCKS_MAX = 16,  /* inodes that one operation locks */
    KVFS_WORDS = 8,       /* op->s */
    KVFS_NUMBERS_MAX = 2, /* inode numbers that one operation takes */
    KVFS_READ_BUCKETS = 8,
    KVFS_OWN_MAX = 16,   /* the engine's own operations at once */
    KVFS_BLOCK = 77824,  /* an operation's further memory is in such blocks */
    KVFS_BLOCKS_OP = 16, /* of one operation */
    KVFS_INLINE = 5120   /* an operation's first memory */
};

struct kvfs_op;
typedef int (*kvfs_run_fn)(struct kvfs_op *op);

enum { KVFS_OWN_S_ARGUMENT = 0 }; /* op->s */
/* The engine's own operations, and their argument. */
enum kvfs_own {
    KVFS_OWN_HEARTBEAT = 0,
    KVFS_OWN_YIELD,
    KVFS_OWN_RECOVER, /* the dead session */
    KVFS_OWN_SWEEP,
    KVFS_OWN_COLLECT, /* the inode */
    KVFS_OWN_TIMES,
    KVFS_OWN_NUMBERS, /* the session */
    KVFS_OWN_PUBLISH, /* the inode */
    KVFS_OWN_KINDS
};

/* A record that an operation requested. */
enum kvfs_read_state {
    KVFS_READ_WANTED = 1, /* to be in the next GET */
    KVFS_READ_SENT,       /* in the GET in flight */
    KVFS_READ_PRESENT,
    KVFS_READ_ABSENT,
    KVFS_READ_FAILED /* error */
};
struct kvfs_read {
    struct kvfs_read *next;  /* all, in the order of requests */
    struct kvfs_read *chain; /* in its bucket */
    uint64_t hash;
    struct snic_kvop_key key;
    unsigned char *record; /* whole, as the store has it */
    uint32_t size;
    uint32_t room;
    int32_t error;
    uint16_t flags; /* of the record's head */
    uint8_t state;  /* enum kvfs_read_state */
    uint8_t guard;  /* the commit depends on it */
};

/* A change noted. Those of an earlier run of the function stay in the list, but do not count. */
struct kvfs_change {
    struct kvfs_change *next;
    struct snic_kvop_key key; /* PUT, DELETE; size 0 otherwise */
    unsigned char *record;    /* PUT: head (unsealed until commit) and body */
    const void *bytes;        /* CHANGE_WRITE: the caller's */
    uint32_t size;            /* of the record or the bytes */
    uint32_t room;
    uint8_t kind; /* enum snic_kvop_change_kind */
    uint8_t sent; /* in the commit in flight, or done */
    uint32_t run; /* op->run_count when it was noted */
    uint64_t object;
    uint64_t offset;
};

/* An operation of the store in flight, or its result. */
struct kvfs_place {
    struct snic_kvfs_io io; /* first: poll_io returns it */
    struct snic_node node;  /* in k->io_queue */
    struct kvfs_op *owner;
    uint64_t stamp; /* cache clock when it was started */
    uint8_t state;  /* txn_priv.h: free, sent, done */
};

struct kvfs_held {
    struct kvfs_inode *inode; /* NULL: wanted, not held */
    uint64_t ino;
    uint8_t mode;
    uint8_t wanted; /* since the locks were last dropped */
    uint8_t raise;  /* was requested as KVFS_EXCLUSIVE, but is held shared */
};

enum kvfs_commit_state {
    KVFS_COMMIT_NONE = 0,
    KVFS_COMMIT_SENT,
    KVFS_COMMIT_UNKNOWN, /* its outcome is not known; the present records are being read */
    KVFS_COMMIT_DONE,
    KVFS_COMMIT_FAILED /* commit_error */
};

struct kvfs_op {
    struct snic_node node; /* free, ready */
    struct snic_kvfs *k;
    struct snic_fsop *req; /* NULL: the engine's own */
    kvfs_run_fn run;
    struct snic_kvfs_now now; /* when this round began: the same in each run of it */
    uint64_t ino;             /* of the request, the root being 0 */
    uint64_t ino2;
    /* The function's own. Zero at first; what they are at kvfs_next() is restored when the
     * round starts over. */
    uint64_t s[KVFS_WORDS];
    uint32_t phase;
    uint8_t reserve; /* commits may use the space reserved for removals (SNIC_KVOP_RESERVE) */

    /* the transactions' */
    uint8_t state;        /* kvfs.c */
    uint8_t again;        /* start over before the next run */
    uint8_t ended;        /* result is set; finishes when nothing is in flight */
    uint8_t commit_state; /* enum kvfs_commit_state */
    uint8_t cancelled;    /* snic_kvfs_cancel() */
    uint8_t sent_any;     /* places were used in this round */
    uint8_t own;          /* of free_own */
    uint8_t locking;      /* held[locking - 1] is waited for */
    uint8_t drop;         /* with again: locks, too */
    uint8_t asleep;       /* kvfs_wait() */
    uint8_t held_count;
    uint8_t number_count;
    uint8_t number_at;
    uint8_t block_count;
    uint8_t block_used;
    uint8_t block_need;
    uint8_t number_wait; /* kvfs_new_ino() waits */
    uint8_t torn;        /* kvfs_retry_torn(): how often */
    uint32_t in_flight;
    uint32_t run_count;
    uint32_t retries;
    uint32_t phase0;
    uint64_t gate; /* waits for a heartbeat: failed ones at its arrival, and 1; 0: it does not */
    uint64_t made; /* kvfs_mark_private(); 0: none */
    uint64_t era;  /* k->session.era when this round began */
    void *intent;  /* intent.c: its state in this round, NULL at its beginning */
    void *resolve; /* intent_resolve.c: the same */
    int32_t commit_error;
    int64_t result;
    uint64_t sent;     /* the commit, by the cache's clock; 0: not yet */
    int64_t allocated; /* kvfs_commit_allocated() */
    uint64_t s0[KVFS_WORDS];
    uint64_t numbers[KVFS_NUMBERS_MAX];
    struct kvfs_held held[KVFS_LOCKS_MAX]; /* ascending */
    struct kvfs_read *buckets[KVFS_READ_BUCKETS];
    struct kvfs_read *reads;
    struct kvfs_read **reads_end;
    struct kvfs_change *changes;
    struct kvfs_change **changes_end;
    struct kvfs_alloc *allocs;
    struct kvfs_alloc **alloc_at; /* the next kvfs_alloc() returns this one again */
    struct snic_link wait_link;
    struct snic_timer timer;
    unsigned char *block_at; /* free bytes of the newest block */
    uint32_t block_left;
    uint32_t inline_used;
    void *blocks[KVFS_BLOCKS_OP];
    _Alignas(64) unsigned char memory[KVFS_INLINE];
    struct kvfs_place place[KVFS_IOS_MAX + 1]; /* the last: GET and COMMIT */
};

/* Changes of an inode's attributes that are deferred (times.c). */
struct kvfs_deferred {
    struct snic_link link; /* in k->deferred, oldest first */
    uint64_t since_ns;
    uint32_t set; /* which fields; 0: none */
    struct snic_fsop_time atime;
    struct snic_fsop_time mtime;
    struct snic_fsop_time ctime;
    int64_t space;    /* to be added */
    int64_t doubtful; /* the same, to attributes older than version `doubt` */
    uint64_t doubt;
    uint64_t version; /* of the attributes whose parent and name these replace */
    uint64_t parent;
    struct snic_fsop_hash name;
};

/* An inode in memory: kept while locked, waited for, open, with deferred times, or to be
 * collected. */
struct kvfs_inode {
    struct kvfs_inode *next; /* in its bucket, or free */
    uint64_t ino;
    struct kvfs_op *writer;   /* holds it exclusively */
    struct snic_link waiters; /* operations, first come first */
    uint32_t readers;         /* hold it shared */
    uint32_t opens;
    uint32_t holds;  /* of the opens: by SNIC_FSOP_HOLD */
    uint32_t pins;   /* by other files of the engine (linger.c) */
    uint8_t collect; /* in k->collects: to be removed */
    uint8_t lingers; /* in k->lingers; counts as a pin */
    uint8_t orphan;  /* the last name was removed, and it is still to be removed */
    uint64_t clean;  /* kvfs_tail_is_clean(): the session's era when it was so, + 1 */
    struct snic_link collect_link;
    struct snic_link linger_link;
    uint64_t linger_ns; /* when it stops to linger */
    struct kvfs_deferred deferred;
};

struct kvfs_inodes {
    struct kvfs_inode **buckets;
    struct kvfs_inode *pool;
    struct kvfs_inode *free;
    uint32_t used; /* of the pool, ever */
    uint64_t mask;
    uint32_t count;
    uint32_t max;
    uint32_t held; /* sum of holds */
};

struct kvfs_blocks {
    void **free;
    uint32_t free_count;
    uint32_t count;
    struct snic_link waiters;
    unsigned char *memory;
};

struct kvfs_cache;
struct kvfs_locks; /* locks_priv.h */

/* ---- Sessions ---- */

enum { KVFS_SESSIONS_MAX = 64, KVFS_SESSION_LOOKUPS = 8 };

/* Another session of the table, as last seen. */
struct kvfs_other {
    uint64_t id;
    uint64_t counter;
    uint64_t moved_ns; /* when its counter was first seen with this value, on our clock */
    uint32_t flags;    /* SNIC_KVFS_SESSION_* */
    uint32_t round;    /* of the scan that saw it last */
};

/* A session that was looked up and that no scan had shown by then. */
struct kvfs_session_lookup {
    uint64_t id;
    uint64_t scans; /* begun by then: a later one decides */
};

/* A pending intent of another session that blocks an operation here. */
struct kvfs_blocker {
    uint64_t session;
    uint64_t number;
    uint64_t since_ns;
};

struct kvfs_session {
    uint8_t mounted;
    uint8_t dead;  /* lost its lease: everything ends with SNIC_EIO until a new mount */
    uint8_t alone; /* our record has CACHES: no other session uses the store */
    uint8_t busy;  /* a heartbeat is in progress */
    uint8_t yielding;
    uint8_t recovering;
    uint8_t sweeping; /* the orphans are being scanned */
    uint8_t swept;    /* they have been, since the mount */
    uint8_t sweep;    /* they should be */
    uint8_t was_sole;
    uint8_t timing;         /* deferred times are being written */
    uint8_t commit_unknown; /* the store failed in the course of an intent (intent.c, J10) */
    uint16_t collecting;    /* operations of kvfs_collect() */
    uint32_t other_count;
    uint32_t round; /* scans done */
    uint64_t scans_begun;
    uint64_t beats;       /* heartbeats that proved the session */
    uint64_t failures;    /* heartbeats that failed */
    int32_t failure;      /* error of the latest of them */
    uint64_t round_begun; /* the number of the latest one that has ended */
    int32_t error;        /* of a recovery: a mount ends with it */
    struct snic_kvfs_super super;
    uint64_t next_ns; /* next heartbeat; SNIC_NEVER: none */
    uint64_t id;      /* of this mount; 0: none */
    uint64_t mounts;  /* sessions begun by this engine: each has an id of its own */
    uint64_t times_retry_ns;
    uint64_t proven_ns;             /* our record certainly existed at this time */
    uint64_t intents;               /* numbers of intents assigned, never reused */
    struct snic_kvop_key fence_key; /* size 0: none (S7) */
    uint32_t fence_size;
    unsigned char fence[SNIC_KVFS_FENCE_BYTES];
    /* Raised when `alone` ends (operations begun before must end first), and when it begins. */
    uint64_t era;
    struct snic_link waiters; /* until kvfs_session_wake(): of a heartbeat or another operation */
    struct kvfs_session_lookup lookups[KVFS_SESSION_LOOKUPS];
    uint32_t lookup_next;
    uint32_t blocker_next;
    struct kvfs_blocker blockers[KVFS_SESSION_LOOKUPS];
    struct kvfs_other others[KVFS_SESSIONS_MAX]; /* alive ones, without us */
};

struct snic_kvfs {
    struct snic_kvfs_opts o;
    struct snic_kvfs_now now;
    struct snic_queue free_ops; /* for requests */
    struct snic_queue free_own; /* for the engine's own */
    struct snic_queue ready;
    struct snic_queue io_queue;
    struct snic_queue done;
    struct kvfs_op *ops;
    const kvfs_run_fn *own_runs; /* by enum kvfs_own: kvfs.c's table */
    uint32_t op_count;
    uint32_t in_flight;
    uint32_t own_in_flight;
    uint8_t sole;
    uint8_t pumping;
    struct kvfs_inodes inodes;
    struct kvfs_blocks blocks;
    struct kvfs_cache *cache;
    struct kvfs_locks *locks;
    struct kvfs_session session;
    uint64_t ino_next; /* numbers of this session: [ino_next, ino_end) */
    uint64_t ino_end;
    uint8_t ino_fetching; /* a range is being fetched */
    int32_t ino_error;    /* of the last fetch */
    struct snic_link ino_waiters;
    struct snic_link deferred; /* inodes with deferred times */
    struct snic_link collects; /* inodes to be removed */
    struct snic_link lingers;  /* inodes whose last name was replaced, oldest first */
    struct snic_timer linger_timer;
    uint32_t linger_count;
    struct snic_rng rng;
    struct snic_kvfs_stats stats;
    struct snic_wheel wheel;
};

#endif /* SNIC_KVFS_STATE_H */
