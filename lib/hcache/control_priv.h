/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * The control plane's engine.
 *
 * Everything it does in the region is a job: a look at the map, a visit of a bucket, the flush of a
 * page, the fetch of one. A job is a small state machine: it has one batch of DMA operations or one
 * store operation under way, and continues when that is complete. Jobs are of a fixed number; what
 * waits for one waits as bits per bucket:
 *   fresh    to be visited as soon as a job is free
 *   dirty    had dirty pages when last visited (since[]: since when)
 *   due      part of the running fsync round: holds pages that must be flushed, as far as known
 *   later    held by the host when last tried; goes back to fresh after retry_ns
 *   visiting a visit is under way
 *   mend[]   still to be freed of what a dead side left
 *
 * Invariants
 *   C1  A look takes bits off the map, completes, and only then visits read the buckets: a page
 *       that becomes dirty is seen by the visit, or its bit is on the map again.
 *   C2  A bucket with a dirty page, known or flagged, has at least one of fresh, dirty, later,
 *       visiting, or its bit on the map. A visit that sees dirty pages sets dirty again.
 *   C3  One flight per page: only a visit starts flushes, one visit per bucket is under way, and it
 *       starts none where FLIGHT is set.
 *   C4  A bucket is mended before anything else is done in it.
 *   C5  An fsync round's members were queued before the look that began it, so all their pages are
 *       in due. A bucket leaves due when a visit finds no page of theirs dirty that was not flushed
 *       in this round.
 *   C6  While the store refuses pages (store_wait), one flush at a time tries it, after pauses that
 *       double; fsync rounds do not wait for that.
 */
#ifndef SNIC_HCACHE_CONTROL_PRIV_H
#define SNIC_HCACHE_CONTROL_PRIV_H

#include "hcache/hcache_priv.h"

enum hcache_job_kind {
    SNIC_HCACHE__JOB_NONE,
    SNIC_HCACHE__JOB_LOOK,
    SNIC_HCACHE__JOB_VISIT,
    SNIC_HCACHE__JOB_FLUSH,
    SNIC_HCACHE__JOB_FETCH
};

/* The longest pause between two tries of a store that refuses pages. */
#define SNIC_HCACHE__STORE_WAIT_NS UINT64_C(1000000000)

/* Tries of one CAS before a job gives up: a hostile host must not keep it for ever. */
#define SNIC_HCACHE__TRIES 4096u

/* Actions that belong to no job, in the ring of those to be handed out. */
#define SNIC_HCACHE__OUT_WAKE UINT32_MAX
#define SNIC_HCACHE__OUT_RECOVERED (UINT32_MAX - 2) /* and the side: 0 host, 1 DPU */
/* One of each, and slack: hosts may die faster than actions are polled. */
#define SNIC_HCACHE__OUT_EXTRA 8u

struct hcache_job {
    uint8_t kind;
    uint8_t step;
    uint8_t emit;  /* the action that poll hands out next; 0: none                        */
    uint8_t waits; /* the event kind that continues it; 0: none                          */
    uint16_t tries;
    uint16_t stale; /* a visit: the host died since its read was asked for               */
    uint32_t index;
    uint32_t generation;
    uint32_t op_count;
    uint32_t way;
    uint32_t tag;
    uint32_t round; /* of fsync, when a flush pulled its page                            */
    int32_t result;
    uint64_t bucket;
    uint64_t state; /* of the entry, as last seen or made                                */
    uint64_t ino;
    uint64_t lpn;
    uint64_t scratch;  /* a word to be written                                           */
    uint64_t key[3];   /* next and no end, lpn, inode                                    */
    uint64_t since_ns; /* when the page was seen dirty                                   */
    uint32_t bytes;    /* of what is stored                                              */
    uint32_t sum;
    uint32_t packed;
    uint32_t ahead; /* fetch: mark the page                                              */
    uint32_t end;   /* flush: of the entry                                               */
    uint32_t probe; /* flush: the one that tries a store that has failed                 */
    struct snic_hcache_op ops[SNIC_HCACHE_OPS_MAX];
    unsigned char *page;
    unsigned char *other; /* packed page                                                 */
    unsigned char *copy;  /* of a bucket, and a second one behind it                      */
};

enum {
    SNIC_HCACHE__FSYNC_NONE,
    SNIC_HCACHE__FSYNC_QUEUED,
    SNIC_HCACHE__FSYNC_RUNNING,
    SNIC_HCACHE__FSYNC_DONE
};

struct hcache_fsync {
    uint64_t id;
    uint64_t ino;
    uint64_t looks; /* started before it was queued (C5)                                 */
    int32_t result;
    uint32_t state;
};

/* [from, to) is to be fetched, next is what the reader reads next. */
struct hcache_stream {
    uint64_t ino;
    uint64_t next;
    uint64_t from;
    uint64_t to;
    uint64_t used;
    uint32_t window;
    uint32_t mark; /* 1: the page at from gets AHEAD                                     */
};

struct hcache_bits {
    uint64_t *words;
    uint64_t set; /* how many                                                            */
};

struct snic_hcache_control {
    struct snic_hcache__geo g;
    struct snic_hcache_control_stats stats;
    const struct snic_hcache_policy *policy;
    const struct snic_hcache_seal *seal;
    void *seal_ctx;
    uint64_t holder;
    uint64_t now_ns;
    uint64_t look_ns, flush_ns, retry_ns;
    uint64_t next_look_ns;
    uint64_t later_ns;
    uint64_t store_ns;   /* the store failed: only fsync tries it before,                 */
    uint64_t store_wait; /* which is so long after the failure; 0: it works               */
    uint64_t cursor;     /* the bucket at which the scan of fresh continues               */
    uint64_t looks_started;
    uint32_t jobs_max, jobs_busy;
    uint32_t reserve;
    uint32_t prefetch_max;
    int32_t dead;
    uint8_t look_wanted, look_running, waiting, wake_queued;
    uint8_t mending[2]; /* host, DPU: RECOVERED is owed                                  */
    uint8_t recovered;  /* RECOVERED to be handed out, how often                         */
    uint8_t round_running;
    uint8_t probing;   /* a flush with probe is under way                                  */
    uint8_t unordered; /* reads                                                          */
    uint32_t round;
    uint64_t wait_seen;
    struct hcache_bits fresh, dirty, due, later, visiting, mend[2];
    uint32_t *since; /* ms, per bucket                                                   */
    uint16_t *synced;
    unsigned char *policy_state;
    uint64_t *look_copy;
    uint64_t look_words;
    uint64_t look_at;
    struct hcache_job *jobs;
    uint32_t *free_jobs;
    uint32_t *out; /* ring of job indexes with an action to hand out                     */
    uint32_t out_head, out_count;
    struct hcache_fsync fsync[SNIC_HCACHE_FSYNCS];
    uint32_t fsyncs_done;
    uint32_t fetching;       /* jobs */
    uint32_t window_max;     /* 1..prefetch_max: see hcache_prefetch_account()                */
    uint32_t landed, wasted; /* pages fetched ahead, and named as victims without a hit      */
    struct hcache_stream stream[SNIC_HCACHE_STREAMS];
    uint64_t stream_clock;
    uint64_t streams_open; /* a bit per stream with something to fetch                   */
};

static inline int hcache_bit(const struct hcache_bits *b, uint64_t i)
{
    return (int)(b->words[i / 64] >> i % 64 & 1);
}

static inline void hcache_bit_set(struct hcache_bits *b, uint64_t i)
{
    b->set += !hcache_bit(b, i);
    b->words[i / 64] |= UINT64_C(1) << i % 64;
}

static inline void hcache_bit_clear(struct hcache_bits *b, uint64_t i)
{
    b->set -= (uint64_t)hcache_bit(b, i);
    b->words[i / 64] &= ~(UINT64_C(1) << i % 64);
}

static inline uint32_t hcache_ms(uint64_t ns)
{
    return (uint32_t)(ns / 1000000);
}

/* ---- job.c ---- */

struct hcache_job *hcache_job_start(struct snic_hcache_control *c, enum hcache_job_kind kind,
                                    uint64_t bucket);
void hcache_job_end(struct snic_hcache_control *c, struct hcache_job *j);
/* Append to the ring of actions: a job's index, or one of SNIC_HCACHE__OUT_*. */
void hcache_job_out(struct snic_hcache_control *c, uint32_t what);
/* Hand out an action for the job, which continues at @p step when the event has come. */
void hcache_job_emit(struct snic_hcache_control *c, struct hcache_job *j, uint32_t action,
                     uint32_t step);
/* The next operation of the batch that the job puts together. */
struct snic_hcache_op *hcache_job_op(struct hcache_job *j, uint32_t kind, uint32_t flags,
                                     uint64_t offset, void *local, uint64_t bytes);
void hcache_job_cas(struct hcache_job *j, uint32_t flags, uint64_t offset, uint64_t compare,
                    uint64_t operand);
void hcache_job_add(struct hcache_job *j, uint32_t flags, uint64_t offset, uint64_t operand);
/* Something was done that a waiting host thread may have waited for. */
void hcache_progress(struct snic_hcache_control *c);
void hcache_later(struct snic_hcache_control *c, uint64_t bucket);

/* ---- look.c, visit.c ---- */

void hcache_look_start(struct snic_hcache_control *c, struct hcache_job *j);
void hcache_look_step(struct snic_hcache_control *c, struct hcache_job *j);
void hcache_visit_start(struct snic_hcache_control *c, struct hcache_job *j);
void hcache_visit_step(struct snic_hcache_control *c, struct hcache_job *j);

/* ---- flush.c: flushes and fsync ---- */

void hcache_flush_start(struct snic_hcache_control *c, struct hcache_job *j);
void hcache_flush_step(struct snic_hcache_control *c, struct hcache_job *j);
int hcache_fsync_add(struct snic_hcache_control *c, uint64_t id, uint64_t ino);
/* A look that began as number @p look is complete. */
void hcache_fsync_looked(struct snic_hcache_control *c, uint64_t look);
/* Does a member of the running round ask for this inode? */
int hcache_fsync_wants(const struct snic_hcache_control *c, uint64_t ino);
/* Is the round over? */
void hcache_fsync_judge(struct snic_hcache_control *c);

/* ---- prefetch.c ---- */

/* @p landed: prefetched pages that have been filled; @p wasted: evicted without a hit. */
void hcache_prefetch_account(struct snic_hcache_control *c, uint32_t landed, uint32_t wasted);
void hcache_prefetch_miss(struct snic_hcache_control *c, uint64_t ino, uint64_t lpn,
                          uint32_t count);
void hcache_prefetch_ahead(struct snic_hcache_control *c, uint64_t ino, uint64_t lpn);
/* The reader does not get there: the file ends before @p lpn, or the store has failed. */
void hcache_prefetch_forget(struct snic_hcache_control *c, uint64_t ino, uint64_t lpn);

/* ---- fetch.c ---- */

/* Start a fetch if a stream wants one: 1, or 0. */
int hcache_fetch_next(struct snic_hcache_control *c);
void hcache_fetch_step(struct snic_hcache_control *c, struct hcache_job *j);

#endif /* SNIC_HCACHE_CONTROL_PRIV_H */
