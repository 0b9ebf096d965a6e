/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/**
 * Internals of the store on LMDB.
 *
 * One LMDB data base holds everything but object bytes; the first byte of the key is the kind:
 *   'R' group, bytes     a record
 *   'M' object, chunk    map of 128 blocks of an object (lmdb_map.c)
 *   'F' segment          bitmap of used blocks of 16 MiB of the file `objects` (lmdb_space.c)
 *   'S'                  head of the store: version, sizes, its random name (lmdb_format.c)
 * Numbers in keys are big-endian, so that the order of keys is that of numbers; every value ends
 * with the CRC32C of key and value.
 *
 * Two threads. The owner (that of the loop) does everything except LMDB's write transactions, which
 * wait for the disk: the writer thread executes them, one batch at a time.
 *
 * Sole: the owner evaluates commits on what it sees (its active table over the batch being
 * written over LMDB's snapshot of before that batch) and gathers the changes in the active table.
 * A batch is the active table, frozen; the writer makes it one transaction. Shared: commits travel
 * in the batch and are evaluated inside the transaction; an object's map is changed under a lock of
 * the file `session.lock` (lmdb_session.c), and a request completes when its batch is committed.
 *
 * Invariants
 *   S1 Every completed change is in the active table, in the batch in flight, or in LMDB.
 *      Batches are committed in the order of their numbers, each as a whole: a crash leaves a
 *      prefix.
 *   S2 The owner's snapshot is the one before the batch in flight, or the latest.
 *   S3 Object bytes are on the medium before a map record that names their blocks.
 *   S4 A block is reused only after the transaction that freed it.
 *   S5 A block in use is overwritten only while its segment has a durable mark; the mark is removed
 *      after the bytes and their checksums are durable. So outside of marked segments checksums
 *      are valid after any crash.
 *   S6 A handle that takes an object's lock sees all that earlier holders have committed, also one
 *      that was killed between LMDB's write of the meta page and its update for the readers: a
 *      write transaction, begun under the lock, makes LMDB catch up.
 */
#ifndef SNIC_KV_LMDB_PRIV_H
#define SNIC_KV_LMDB_PRIV_H

#include <stdatomic.h>

#include "kv/kv_priv.h"
#include "kv/lmdb_table.h"

#if defined(SNIC_WITH_LMDB)

#include <lmdb.h>
#include <pthread.h>

enum {
    LMDB_VERSION = 1,
    LMDB_TEXT = 256, /* bytes of an error message at open */
    LMDB_BLOCK = SNIC_KVOP_BLOCK,
    LMDB_CHUNK = 128,    /* blocks of a map record: 1 MiB of an object */
    LMDB_SEGMENT = 2048, /* blocks: 16 MiB of the file */
    LMDB_WORDS = LMDB_SEGMENT / 64,
    LMDB_PREPARE_STEP = 128, /* blocks that the file grows by on a disk that is nearly full */
    LMDB_CHUNK_BUCKETS = 1 << 14,
    LMDB_CHUNKS_MAX = 1 << 14, /* cached: the map of 16 GiB in 20 MiB */
    LMDB_OBJECT_BUCKETS = 1 << 10,
    LMDB_LOCKS = 1 << 12, /* locks that objects share between processes */
    LMDB_READERS = 1024,  /* LMDB's snapshots of all processes          */
    LMDB_SMALL_JOB = 18,  /* blocks of a small job */
    LMDB_LARGE_JOB = SNIC_KVOP_TRANSFER_MAX / LMDB_BLOCK + 2,
    LMDB_BOUNCE = 1 << 18, /* bytes of an aligned copy */
    LMDB_LARGE = 1 << 16,  /* requests of more bytes are large; most bytes of them in flight: */
    LMDB_LARGE_BYTES = 1 << 20,
    LMDB_PIECE = 1 << 18, /* a larger request is split */
    LMDB_GRANULES = 256,  /* hash buckets of granules of the object file */
    LMDB_VALUE_ROOM = SNIC_KVOP_VALUE_MAX + 8,
    LMDB_RECORD_TAIL = 4, /* the CRC32C behind a value */
    LMDB_SEGMENT_RECORD = 8 + LMDB_WORDS * 8
};

#define SNIC_LMDB__TICK_NS 100000000ULL
/** Free blocks that keep their space for later writes: 64 MiB. */
#define SNIC_LMDB__SPARE (4U * LMDB_SEGMENT)
/** Segments whose space is returned in one tick: some milliseconds of the loop's thread. */
#define SNIC_LMDB__TRIMS 16U
#define SNIC_LMDB__KEPT_OBJECTS (32ULL << 20) /* of the disk: objects stop growing there */
/** A batch that names object bytes may wait so many times batch_ns: it costs a flush of them. */
#define SNIC_LMDB__NAMES_FACTOR 40U
/** Marks are removed after so long without a write in place. */
#define SNIC_LMDB__IDLE_NS 5000000000ULL

/* ---- Values ---- */

struct lmdb_run {
    uint32_t block;
    uint32_t count;
};
struct lmdb_runs {
    struct lmdb_run *at;
    uint32_t count;
    uint32_t room;
};

/** A value found; valid until the next change or iteration of the loop. */
struct lmdb_value {
    const unsigned char *data;
    uint32_t size;
};

/* ---- Batches ---- */

struct lmdb_batch {
    struct lmdb_table table;
    struct lmdb_runs frees; /* blocks freed by it (S4) */
    struct lmdb_runs trims; /* segments to return to the disk when it is durable (S4) */
    uint64_t seq;
    uint64_t flush_mark; /* frozen: object writes completed before; until then: its first time */
    uint8_t names;       /* holds map records: object bytes first (S3) */
    uint8_t flush;       /* a request waits for object bytes */
    uint8_t parts;       /* of flush and transaction, those not completed */
    struct snic_queue commits; /* shared: evaluated inside the transaction */
    struct lmdb_runs marks;    /* shared: segments to be marked */
    struct lmdb_runs got;      /* shared: blocks reserved */
    uint32_t want;             /* shared: blocks to be reserved */
    uint8_t catch_up;          /* shared: needs a transaction even if it is empty (S6) */
    int32_t result;
    int32_t os_error;
};

struct lmdb_writer {
    pthread_t thread;
    pthread_mutex_t lock;
    pthread_cond_t wake;
    pthread_mutex_t txn; /* held during a transaction */
    struct lmdb_batch *work;
    uint8_t stop;
    uint8_t running;
    struct snic_loop_msg msg; /* the batch has ended */
};

/* ---- Object map and space ---- */

enum lmdb_block_flag {
    LMDB_UNWRITTEN = 1, /* has space, reads as zeros */
    LMDB_NOCRC = 2      /* the checksum is unknown */
};

struct lmdb_chunk {
    struct lmdb_chunk *chain;
    struct snic_link age;
    uint64_t object;
    uint64_t number;
    uint32_t count; /* of its blocks */
    uint8_t soft;   /* checksums are newer than the record's */
    uint8_t flags[LMDB_CHUNK];
    uint32_t block[LMDB_CHUNK]; /* in the file; 0: none */
    uint32_t crc[LMDB_CHUNK];
};

struct lmdb_segment {
    uint64_t busy[LMDB_WORDS]; /* unavailable: used, being written, or being freed */
    uint64_t used[LMDB_WORDS]; /* as in the record */
    uint64_t mark_seq;         /* the batch that makes the mark durable */
    uint32_t free;             /* blocks below prepared that are not busy */
    uint32_t prepared;         /* so many first blocks have space in the file */
    uint8_t marked;
    uint8_t trim; /* its space is being returned: nothing is prepared meanwhile */
};

/* ---- Object operations ---- */

struct lmdb_spare;
struct lmdb_job;
typedef void (*lmdb_job_fn)(struct lmdb_job *j);

struct lmdb_plan {
    uint32_t block;
    uint32_t crc;
    uint8_t is_new; /* taken by this job */
    uint8_t was;    /* 0 no block; 1 unwritten; 2 written */
};

/** A block of which only a part is read or written. */
struct lmdb_edge {
    unsigned char *buffer; /* NULL: no such edge */
    uint64_t number;       /* of the block in the object */
    uint32_t from;
    uint32_t to;
};

struct lmdb_job {
    struct snic_link link; /* in the object's list, in the order of arrival */
    struct lmdb_kv *s;
    struct lmdb_object *o;
    struct snic_kv_req *req;
    struct snic_kvop *op;   /* of req: results go there */
    struct lmdb_job *inner; /* a commit's: which job of it this is */
    lmdb_job_fn next;       /* called when pending becomes 0 */
    lmdb_job_fn then;       /* after the last stage: a commit's records, under the job's lock */
    lmdb_job_fn finish;
    lmdb_job_fn end;       /* after the last stage: releases its locks, starts other jobs */
    struct snic_node node; /* in the queue of jobs that wait for a batch */
    uint64_t ticket;
    uint64_t object;
    uint64_t offset;
    uint64_t length;
    uint64_t first; /* blocks it touches */
    uint64_t last;
    uint64_t at;       /* progress of an operation over several iterations */
    uint32_t hint;     /* ALLOC: the block behind the last one */
    uint32_t promised; /* blocks of the pool */
    struct snic_iov *iov;
    uint32_t iov_seen;     /* a piece, and the byte of the whole where it begins: the next */
    uint64_t iov_start;    /* search forward starts there */
    struct snic_iov piece; /* a commit's bytes */
    uint32_t iov_count;
    uint32_t kind; /* enum snic_kvop_kind */
    uint32_t flags;
    uint32_t pending;
    int64_t result; /* first error */
    int64_t allocated;
    uint64_t bad_offset;
    int32_t os_error;
    uint8_t exclusive;
    uint8_t started;
    uint8_t changed;     /* the active batch has changes of it */
    uint8_t catching_up; /* waits for a batch before it begins (S6) */
    uint8_t overwrites;  /* counted in the handle's */
    uint8_t sent;        /* bytes may have reached the file */
    uint8_t committed;   /* its commit's records are committed, under its lock or before it */
    struct lmdb_edge edge[2];
    uint32_t plan_room;
    uint32_t plan_count;
    struct lmdb_plan plan[];
};

/** Requests of one object to the object file that wait to be sent. */
struct lmdb_lane {
    struct snic_node node; /* in the handle's */
    struct lmdb_io *first; /* NULL: it is in no queue */
    struct lmdb_io *last;
};

/** Jobs on one object; exists while it has any. */
struct lmdb_object {
    struct lmdb_lane lane[2]; /* small, large */
    struct lmdb_object *chain;
    struct lmdb_object *next_woken;
    uint8_t woken; /* in the handle's list of objects whose jobs may start */
    uint64_t name;
    struct snic_link jobs;
};

/** One request to the object file. */
struct lmdb_io {
    struct snic_io_req req;
    struct lmdb_job *job;
    struct lmdb_io *next;
    struct snic_io *to;
    unsigned char *bounce; /* NULL: the pieces themselves */
    uint64_t at;           /* of the pieces: where it begins */
    int32_t *writing;      /* counted there; NULL: a read */
    uint32_t counted;      /* in the handle's large_bytes */
    uint32_t iov_count;
    struct snic_iov iov[SNIC_IO_IOV_MAX];
};

/* ---- The handle ---- */

/** A lock that objects share between processes. */
struct lmdb_lock {
    struct snic_queue waiting; /* jobs */
    uint64_t away_ns;          /* not taken before: others wait for it */
    uint64_t caught_up;        /* the batch that lets its holder see all (S6) */
    uint32_t users;            /* jobs that hold it */
    uint8_t held;              /* 0 not; 1 shared; 2 exclusive */
};

static inline uint32_t lmdb_lock_number(uint64_t object)
{
    return (uint32_t)(object * 0x9e3779b97f4a7c15ULL >> 52) & (LMDB_LOCKS - 1);
}

enum lmdb_mode { LMDB_SOLE, LMDB_SHARED };

struct lmdb_session {
    int fd;
    int32_t pid;
    uint32_t seen;            /* knocks that were answered */
    _Atomic uint32_t *knocks; /* mapped */
    _Atomic uint8_t *wishes;  /* mapped: locks of objects that a handle waits for */
    uint64_t next_try_ns;
    uint8_t forced; /* SNIC_KV_OPEN_SOLE */
    uint8_t registered;
    uint8_t exclusive;
    uint64_t dev;
    uint64_t ino;
    struct snic_link link; /* the process' open stores */
};

struct lmdb_kv {
    struct snic_kv kv;
    struct snic_kv_lmdb_opts opts;
    char path[3072];
    /* LMDB */
    MDB_env *env;
    MDB_dbi dbi;
    MDB_txn *snap; /* the owner's snapshot */
    MDB_cursor *cursor;
    uint8_t snap_live;
    uint8_t mode; /* enum lmdb_mode */
    uint8_t closing;
    uint8_t to_mode;
    uint8_t noted;     /* the active batch records that sharing begins */
    uint8_t quiescing; /* no job starts: the mode is about to change */
    uint8_t readonly;
    int32_t dead; /* SNIC_EIO: a flush or transaction failed permanently */
    int32_t dead_os;
    int32_t full; /* SNIC_ENOSPC: the last batch did not fit, it is retried */
    struct lmdb_session session;
    /* batches */
    struct lmdb_batch batches[2];
    struct lmdb_batch *active;
    struct lmdb_batch *flight; /* being written */
    uint64_t durable_seq;
    struct snic_timer batch_timer;
    struct snic_timer tick_timer;
    struct lmdb_writer writer;
    struct snic_io_req flush_req;
    struct snic_io_waiter flush_room; /* the file did not accept it */
    uint64_t object_writes;           /* completed */
    uint64_t object_synced;           /* of those, known to be on the medium */
    /* requests */
    struct snic_queue done;        /* finished, to be delivered */
    struct snic_queue waiters;     /* requests by ticket */
    struct snic_queue job_waiters; /* jobs by ticket */
    struct snic_queue blocked;     /* requests that wait for space in memory */
    struct snic_queue evaluated;   /* commits whose transaction has ended */
    struct snic_loop_msg turn;
    uint8_t turn_set;
    uint64_t in_flight;
    /* objects */
    struct snic_io *buffered;
    struct snic_io *direct;
    int32_t writing[LMDB_GRANULES]; /* writes in flight there, see lmdb_io.c; < 0: direct ones */
    int object_fd;                  /* for fallocate and its size */
    uint32_t jobs;                  /* all */
    uint32_t running;               /* of those, started */
    uint64_t ended;
    struct lmdb_object *woken;
    struct snic_queue yields; /* jobs that continue in the next iteration */
    uint32_t overwrites;      /* in flight */
    uint64_t overwrite_ns;    /* the last one */
    struct lmdb_object *objects[LMDB_OBJECT_BUCKETS];
    struct lmdb_object *object_spare;
    struct lmdb_job *job_spare[2];
    struct lmdb_io *io_spare;
    struct snic_queue lanes[2]; /* objects, round robin: small, large */
    uint64_t large_bytes;       /* in flight */
    struct snic_io_waiter io_room;
    uint8_t pumping;
    struct lmdb_spare *edge_spare;
    struct lmdb_spare *bounce_spare;
    /* map */
    struct lmdb_chunk *chunks[LMDB_CHUNK_BUCKETS];
    struct snic_link chunk_ages; /* oldest first */
    uint32_t chunk_count;
    uint32_t chunk_soft;
    /* space */
    struct lmdb_segment **segments;
    uint32_t segment_count; /* allocated entries of segments */
    uint32_t segment_end;   /* those from here on were never used */
    uint32_t rotor;
    uint32_t marked;       /* segments */
    uint64_t blocks_free;  /* prepared and not busy */
    struct lmdb_runs pool; /* shared: reserved for this handle */
    uint64_t pool_blocks;
    uint64_t promised; /* of the pool, to jobs */
    struct lmdb_lock *locks;
    uint32_t lock_waiters;
    struct snic_timer share_timer;
    uint64_t room; /* bytes that may still be promised, as of room_ns */
    uint64_t room_ns;
    uint64_t room_seq; /* likewise */
    uint64_t sum_free; /* shared: blocks, as SPACE reports them until sum_ns */
    uint64_t sum_begun;
    uint64_t sum_ns;
    uint64_t store_name[2];
};

/* ---- lmdb_read.c ---- */

struct lmdb_key lmdb_key_record(const struct snic_kvop_key *k);
struct lmdb_key lmdb_key_number(uint8_t kind, uint64_t a);
struct lmdb_key lmdb_key_pair(uint8_t kind, uint64_t a, uint64_t b);
/** A fresh snapshot, if it is not the latest. 0 or SNIC_E*. */
int lmdb_snapshot(struct lmdb_kv *s);
/** The next read takes a fresh one. */
void lmdb_snapshot_drop(struct lmdb_kv *s);
/** 1: the medium has a transaction that LMDB's readers do not see yet (S6). Readonly: 0. */
int lmdb_snapshot_behind(struct lmdb_kv *s);
/** Another process has made the map larger: map it anew. LMDB's code. */
int lmdb_remap(struct lmdb_kv *s);
/** 0; SNIC_ENOENT; SNIC_ECORRUPT; SNIC_EIO. */
int lmdb_get(struct lmdb_kv *s, const struct lmdb_key *k, struct lmdb_value *v);
/**
 * The first existing key of @p k or above: in @p k. A damaged record has no data and the size 0,
 * which no decoder accepts. 0; SNIC_ENOENT; SNIC_ECORRUPT LMDB's pages are damaged; SNIC_EIO.
 */
int lmdb_seek(struct lmdb_kv *s, struct lmdb_key *k, struct lmdb_value *v);
void lmdb_run_get(struct lmdb_kv *s, struct snic_kvop *op);
void lmdb_run_scan(struct lmdb_kv *s, struct snic_kvop *op);
void lmdb_run_groups(struct lmdb_kv *s, struct snic_kvop *op);
/** Take the CRC off a value of LMDB's. 0 or SNIC_ECORRUPT. */
int lmdb_unseal(const MDB_val *k, const MDB_val *v, struct lmdb_value *out);
int lmdb_error(int mdb);

/* ---- lmdb_gather.c ---- */

/** Run the handle's turn (lmdb.c) at the end of the loop's iteration. */
void lmdb_turn_soon(struct lmdb_kv *s);
/** The request's op has its result: deliver it. */
void lmdb_done(struct lmdb_kv *s, struct snic_kv_req *req);
/** The handle is dead: all requests fail with @p error. */
void lmdb_die(struct lmdb_kv *s, int error, int os_error);
/** Change a key of the active batch. Failure (no memory) kills the handle. */
void lmdb_put(struct lmdb_kv *s, const struct lmdb_key *k, const void *value, uint32_t size);
/** 1: it has no changes. */
int lmdb_batch_empty(const struct lmdb_batch *b);
/** The batch after which all changes completed until now are durable, with @p bytes object bytes,
 * too. */
uint64_t lmdb_ticket(struct lmdb_kv *s, int bytes);
/** 1: commits have to wait. */
int lmdb_batch_crowded(const struct lmdb_kv *s);
/** Deliver the request when the batch is durable. */
void lmdb_batch_wait(struct lmdb_kv *s, struct snic_kv_req *req, uint64_t ticket);

/* ---- lmdb_stage.c ---- */

void lmdb_job_fail(struct lmdb_job *j, int64_t error, int32_t os_error);
/** One less pending; calls next at the last. */
void lmdb_job_step(struct lmdb_job *j);
/** One more pending until the batch is durable. */
void lmdb_batch_wait_job(struct lmdb_job *j, uint64_t ticket);
/** Continue in the loop's next iteration, or when there is space for more changes. */
void lmdb_job_yield(struct lmdb_job *j);

/* ---- lmdb_txn.c: inside the writer's transaction; LMDB's codes ---- */

/** Value and CRC under a key. */
int lmdb_txn_put(MDB_txn *txn, MDB_dbi dbi, const void *key, uint32_t key_size, const void *value,
                 uint32_t size);
/** All of a batch; its commits have their results. */
int lmdb_txn_batch(struct lmdb_kv *s, MDB_txn *txn, struct lmdb_batch *b);
/** @p there: the guard's key exists, with the value @p v. */
int lmdb_guard_holds(const struct snic_kvop_guard *g, int there, const struct lmdb_value *v);
void lmdb_guard_failed(struct snic_kvop *op, uint32_t i);
int lmdb_is_record(const struct snic_kvop_change *c);

/* ---- lmdb_writer.c ---- */

/** Once; writer_close() undoes it. @p over: the message of a batch that was executed. */
void lmdb_writer_init(struct lmdb_kv *s, snic_loop_msg_fn over);
int lmdb_writer_open(struct lmdb_kv *s);
void lmdb_writer_close(struct lmdb_kv *s);
void lmdb_writer_post(struct lmdb_kv *s, struct lmdb_batch *b);
/** Execute a batch in the calling thread. */
void lmdb_writer_run(struct lmdb_kv *s, struct lmdb_batch *b);

/* ---- lmdb_batch.c ---- */

/** Write the active batch, unless one is in flight. */
void lmdb_batch_kick(struct lmdb_kv *s);
void lmdb_batch_timer(struct snic_timer *t, uint64_t now_ns);
/** The writer has finished the batch (message). */
void lmdb_batch_over(struct snic_loop_msg *msg);
void lmdb_batch_writable(struct snic_io_waiter *w);
/** Write all batches; runs the loop. 0 or SNIC_E*. */
int lmdb_batch_drain(struct lmdb_kv *s);

/* ---- lmdb_commit.c ---- */

void lmdb_run_commit(struct lmdb_kv *s, struct snic_kv_req *req);
/** The records are committed: the object changes that follow them, then the end. */
void lmdb_commit_over(struct lmdb_kv *s, struct snic_kv_req *req);
/** The records of a commit whose object bytes are written. */
void lmdb_commit_records(struct lmdb_kv *s, struct snic_kv_req *req);

/* ---- lmdb_map.c ---- */

/** The chunk, from memory or LMDB. NULL and *error on failure. */
struct lmdb_chunk *lmdb_chunk_get(struct lmdb_kv *s, uint64_t object, uint64_t number, int *error);
/** Write its record to the active batch. */
void lmdb_chunk_put(struct lmdb_kv *s, struct lmdb_chunk *c);
/** Only its checksums have changed. */
void lmdb_chunk_soften(struct lmdb_kv *s, struct lmdb_chunk *c);
/** Put all that are soft. */
void lmdb_chunks_harden(struct lmdb_kv *s);
/** Forget chunks: those under a lock, or all (LMDB_LOCKS). */
void lmdb_chunks_drop(struct lmdb_kv *s, uint32_t lock);
void lmdb_chunks_trim(struct lmdb_kv *s);
/** 0 or SNIC_ECORRUPT, also for blocks beyond @p blocks. */
int lmdb_chunk_decode(struct lmdb_chunk *c, const struct lmdb_value *v, uint64_t blocks);
uint32_t lmdb_chunk_encode(const struct lmdb_chunk *c, unsigned char *out);

/* ---- lmdb_space.c ---- */

/** Take up to @p want consecutive blocks, near @p hint (0: anywhere); 0: none is available. */
uint32_t lmdb_space_take(struct lmdb_kv *s, uint32_t want, uint32_t hint, uint32_t *block);
/** Return blocks that were taken and are not used. */
void lmdb_space_untake(struct lmdb_kv *s, uint32_t block, uint32_t count);
/** A map record names them (used) or no longer does: they are free after the batch (S4). */
void lmdb_space_use(struct lmdb_kv *s, uint32_t block, uint32_t count);
void lmdb_space_free(struct lmdb_kv *s, uint32_t block, uint32_t count);
/** The batch that freed them is durable. */
void lmdb_space_freed(struct lmdb_kv *s, struct lmdb_runs *runs);
/** 0: the mark is durable; else the batch to wait for. */
uint64_t lmdb_space_mark(struct lmdb_kv *s, uint32_t block);
int lmdb_space_marked(struct lmdb_kv *s, uint32_t block);
/** Remove all marks; checksums have been put. */
void lmdb_space_unmark(struct lmdb_kv *s);
int lmdb_space_load(struct lmdb_kv *s);
/**
 * Return the space of segments without a block in use to the disk, @p most at once, as long as
 * @p keep free blocks are left. Sole only: the active batch records it first, then
 * lmdb_space_trimmed() does it.
 */
void lmdb_space_trim(struct lmdb_kv *s, uint64_t keep, uint32_t most);
void lmdb_space_trimmed(struct lmdb_kv *s, struct lmdb_runs *runs);
/** Allocate file space for a segment whose first @p from blocks have it. @return blocks with space
 */
uint32_t lmdb_segment_extend(struct lmdb_kv *s, uint32_t n, uint32_t from);
/** Forget the segments; count them anew from maps: begin, a block, end. */
void lmdb_space_reset(struct lmdb_kv *s);
void lmdb_space_count_begin(struct lmdb_kv *s);
/** 0; SNIC_ECORRUPT two name it. */
int lmdb_space_count(struct lmdb_kv *s, uint32_t block);
void lmdb_space_count_end(struct lmdb_kv *s);
void lmdb_space_close(struct lmdb_kv *s);
int lmdb_runs_add(struct lmdb_runs *r, uint32_t block, uint32_t count);
/** Reserved blocks go to the pool. */
void lmdb_runs_join(struct lmdb_kv *s, struct lmdb_runs *r);

/* ---- lmdb_room.c ---- */

/** All bytes; and those free, unless @p available is NULL: shared, they may be 100 ms old. */
void lmdb_space_bytes(struct lmdb_kv *s, uint64_t *all, uint64_t *available);
/** 1: so little space that a change waits until the changes in memory are written, and is admitted
 * or refused then. */
int lmdb_space_tight(struct lmdb_kv *s);
/** Admit @p bytes more of records. 0 or SNIC_ENOSPC. */
int lmdb_space_admit(struct lmdb_kv *s, uint64_t bytes, int reserve);

/* ---- lmdb_job.c ---- */

struct lmdb_job *lmdb_job_new(struct lmdb_kv *s, uint32_t blocks);
/** Put it into its object's list; it runs when earlier jobs on its blocks have ended. */
void lmdb_job_queue(struct lmdb_job *j);
/** Start jobs that may start. */
void lmdb_jobs_wake(struct lmdb_kv *s);
/** Likewise of all objects, after the mode has changed. */
void lmdb_jobs_restart(struct lmdb_kv *s);
void lmdb_jobs_close(struct lmdb_kv *s);

/* ---- lmdb_object.c ---- */

/** Execute an object operation; it completes through the handle's done queue. */
void lmdb_run_object(struct lmdb_kv *s, struct snic_kv_req *req);

/* ---- lmdb_io.c ---- */

unsigned char *lmdb_edge_new(struct lmdb_kv *s);
void lmdb_edge_free(struct lmdb_kv *s, unsigned char *buffer);
/** Transfer @p count blocks from @p block on, to or from the job's pieces at byte @p at of them. */
void lmdb_io_run(struct lmdb_job *j, int write, uint32_t block, uint32_t count, uint64_t at);
/** Transfer one whole block to or from @p buffer. */
void lmdb_io_block(struct lmdb_job *j, int write, uint32_t block, unsigned char *buffer);
/** Bytes of the job's pieces from @p at on: to (out) or from memory, or zeros (NULL). */
void lmdb_pieces_set(struct lmdb_job *j, uint64_t at, const unsigned char *from, uint64_t size);
void lmdb_pieces_get(struct lmdb_job *j, uint64_t at, unsigned char *to, uint64_t size);
uint32_t lmdb_pieces_crc(struct lmdb_job *j, uint64_t at, uint64_t size);
void lmdb_io_writable(struct snic_io_waiter *w);
void lmdb_io_close(struct lmdb_kv *s);

/* ---- lmdb_data.c: READ and WRITE; lmdb_change.c: the others ---- */

void lmdb_read_start(struct lmdb_job *j);
void lmdb_write_start(struct lmdb_job *j);
void lmdb_change_start(struct lmdb_job *j);
void lmdb_look_start(struct lmdb_job *j);
/** The chunk of block @p b; NULL and the job has the error. */
struct lmdb_chunk *lmdb_job_chunk(struct lmdb_job *j, uint64_t b);
struct lmdb_edge *lmdb_edge_begin(struct lmdb_job *j, uint64_t b, uint32_t from, uint32_t to);
/** The job will overwrite the block in place: the batch whose mark it must wait for. */
uint64_t lmdb_overwrite(struct lmdb_job *j, uint32_t block);
/** Take blocks for those of the plan that have none. */
void lmdb_write_take(struct lmdb_job *j, uint32_t missing);
/** With DURABLE wait until it is durable, then end. */
void lmdb_job_settle(struct lmdb_job *j);
int lmdb_edge_check(struct lmdb_job *j, const struct lmdb_edge *e);

/* ---- lmdb_format.c ---- */

/** Create or check the store; @p text gets the error message. */
int lmdb_format_open(struct lmdb_kv *s, int *os_error, char *text);

/* ---- lmdb_share.c: with other handles on the store ---- */

/** Take the lock of the job's object. 1: held; 0: the job waits, and continues when it is held. */
int lmdb_share_enter(struct lmdb_job *j);
/** The job's locks are held: run its first stage. */
void lmdb_job_go(struct lmdb_job *j);
void lmdb_share_leave(struct lmdb_job *j);
int lmdb_share_open(struct lmdb_kv *s);
void lmdb_share_timer(struct snic_timer *t, uint64_t now_ns);
/** 1: the block's segment is marked in the store now. */
int lmdb_share_marked(struct lmdb_kv *s, uint32_t block);
/** The batch that makes the mark durable. */
uint64_t lmdb_share_mark(struct lmdb_kv *s, uint32_t block);
/** The job continues when so many blocks are reserved for this handle, or none is available. */
void lmdb_share_reserve(struct lmdb_job *j, uint32_t blocks);

/* ---- lmdb_mode.c ---- */

/** Remove the marks, in the batch that has the checksums. No overwrite is in flight. */
void lmdb_marks_clean(struct lmdb_kv *s);
/** Make everything durable, remove marks; runs the loop. Nothing is in flight. 0 or SNIC_E*. */
int lmdb_mode_settle(struct lmdb_kv *s);
/** If a newcomer has knocked, begin to share: nothing new starts until it is done. */
void lmdb_mode_look(struct lmdb_kv *s);
/** Continue the change of the mode. */
void lmdb_mode_step(struct lmdb_kv *s);
/** Periodically: try to become sole again. */
void lmdb_mode_claim(struct lmdb_kv *s, uint64_t now_ns);
/** Sole, before the first read: make the commits of a dead handle visible (S6). */
int lmdb_mode_catch_up(struct lmdb_kv *s);
/** After a crash: marked blocks become blocks without checksum, space is counted anew. */
int lmdb_recover(struct lmdb_kv *s, char *text);

/* ---- lmdb_session.c ---- */

/** fcntl() lock of bytes. 0; SNIC_EAGAIN another process has it; a negative errno. */
int lmdb_session_lock(const struct lmdb_session *e, int type, uint64_t at, uint64_t size);
/** The exclusive lock becomes a shared one. */
int lmdb_session_share(struct lmdb_kv *s);
/** 1: the lock is exclusive now. */
int lmdb_session_claim(struct lmdb_kv *s);
int lmdb_session_open(struct lmdb_kv *s, int *os_error, char *text);
/** Before LMDB maps its files: allocate the blocks of lock.mdb, and of a new data base. */
int lmdb_session_reserve_env(const struct lmdb_kv *s, int *os_error, char *text);
void lmdb_session_close(struct lmdb_kv *s);
/** 1: a newcomer has knocked. */
static inline int lmdb_session_knocked(const struct lmdb_session *e)
{
    return e->knocks != NULL && atomic_load_explicit(e->knocks, memory_order_relaxed) != e->seen;
}

#endif /* SNIC_WITH_LMDB */
#endif /* SNIC_KV_LMDB_PRIV_H */
