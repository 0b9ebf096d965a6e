/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/**
 * @file kv_server/store_priv.h
 * What the parts of the store share.
 *
 * The log (log.c):
 *   L1 head <= written <= flush_to <= tail. [head, tail) is in the ring; everything
 *      below `written` is in the segment files; [written, flush_to) is being written.
 *   L2 no record straddles a multiple of `boundary` (ring or segment, the smaller).
 *   L3 the ring holds zeros in [tail, zeroed), and zeroed is a block boundary: a block
 *      that is written carries nothing but records and zeros.
 *   L4 at most one log write is in flight, so what is durable is a prefix of the log.
 *   L5 records at or above flush_to have never been handed to the device and may be
 *      overwritten in place.
 *   L6 `ahead` empty segments after the tail's exist; ordinary writes leave two of
 *      them to compaction and deletions, which give space back.
 *   L7 an exchange of databases is the last record of its log write and of its block, and
 *      is durable before the next write begins.
 */
#ifndef KV_STORE_PRIV_H
#define KV_STORE_PRIV_H

#include "index.h"

#define KV_BLOCK 4096u
#define KV_AHEAD 3u   /* empty segments wanted after the tail's */
#define KV_RESERVE 2u /* of which ordinary writes leave these   */

/* What an append is for: how many segments of the reserve it may use (L6). */
#define KV_FOR_DATA 0
#define KV_FOR_DELETE 1
#define KV_FOR_SPACE 2 /* compaction: every victim gives a whole segment back */

#define KV_ENTRY_TOMB 1u  /* kv_entry.flags: a deletion, during recovery only        */
#define KV_ENTRY_MOVED 2u /* compaction has moved the record of the newest version   */
/* 4u and 8u are KV_ENTRY_ENCODING */

/*
 * An exchange of two databases (SWAPDB) in the log. What lies before `address` has the
 * numbers of before it; records are never moved across it with the old numbers, and it is
 * never moved itself (C3 in compact.c), so that recovery replays it where it lies.
 */
struct kv_swap {
    uint64_t address;
    uint16_t a;
    uint16_t b;
};

enum kv_segment_state {
    KV_SEGMENT_NONE,
    KV_SEGMENT_CREATING,
    KV_SEGMENT_READY,   /* empty, ahead of the tail      */
    KV_SEGMENT_TAIL,    /* being appended to             */
    KV_SEGMENT_SEALED,  /* complete                      */
    KV_SEGMENT_VICTIM,  /* being compacted               */
    KV_SEGMENT_DELETING /* file deletion under way       */
};

struct kv_segment {
    struct kv_file_req req; /* CREATE or DELETE */
    struct kv_store *store;
    uint64_t number;
    uint64_t file;
    uint64_t used;  /* bytes of records                              */
    uint64_t live;  /* of which belong to live entries               */
    uint64_t kept;  /* of which are deletions (C1)                   */
    uint32_t pins;  /* host reads in flight                          */
    uint32_t swaps; /* exchanges of databases in it                  */
    enum kv_segment_state state;
};

enum kv_compact_phase {
    KV_COMPACT_IDLE,
    KV_COMPACT_READ,   /* a read of the victim is in flight        */
    KV_COMPACT_COPY,   /* records of the piece are being appended  */
    KV_COMPACT_SETTLE, /* waiting until the copies are durable     */
    KV_COMPACT_SYNC    /* fsync of the segments that got copies    */
};

struct kv_compact {
    struct kv_file_req req;
    enum kv_compact_phase phase;
    struct kv_segment *victim;
    unsigned char *buffer;
    uint64_t offset;   /* in the victim, of buffer[0]             */
    size_t filled;     /* valid bytes in the buffer               */
    size_t at;         /* of the next record in the buffer        */
    uint64_t settle;   /* log address that must be written        */
    int retry;         /* read again from `offset`                */
    int stuck;         /* no room for a copy: only deletions help */
    uint64_t waits;    /* store's progress + 1 when a copy failed */
    uint64_t freed_ns; /* when a segment was deleted last         */
};

struct kv_store {
    struct kv_store_opts opts;
    struct kv_index index;
    int attached;
    struct kv_file_req *parked; /* requests that await files below */
    uint32_t requests;          /* below, in flight */

    /* the log */
    unsigned char *ring;
    uint64_t ring_bytes;
    uint64_t boundary;
    uint64_t head;
    uint64_t written;
    uint64_t flush_to;
    uint64_t tail;
    uint64_t zeroed;
    uint64_t synced; /* interval and none: fsynced up to here */
    struct kv_segment **segments;
    uint64_t segments_first; /* number of segments[0]            */
    uint64_t segments_count; /* entries in use, NULLs included   */
    uint64_t segments_room;
    uint64_t tail_segment;
    uint32_t ahead;
    uint32_t ahead_wanted; /* for a command of several segments; 0: KV_AHEAD */
    uint32_t creating;
    uint32_t live_segments;
    int create_full; /* the last creation found no space */

    uint32_t tenant;      /* on whose behalf: kv_store_act_for() */
    uint32_t vote_tenant; /* that has most of what the next log write holds, if any has    */
    uint64_t vote_bytes;  /* more than half: a running majority vote                      */
    struct kv_file_req flush;
    int flushing;
    int flush_error;     /* of the last attempt, 0: fine       */
    uint64_t failing_ns; /* since when writes have failed      */
    int failed_logged;
    struct kv_file_req sync_req;
    int syncing;
    uint64_t sync_target;
    uint64_t sync_until; /* interval: the round under way is for what lies below */
    int room_wanted;
    int space_short;        /* the newest append or check found the device full */
    uint64_t progress;      /* grows when requests that wait may try again    */
    uint64_t room_progress; /* `progress` when they tried last                */

    struct snic_loop_msg kick;
    int kicked;
    struct snic_timer timer;
    uint64_t tick_ns;
    uint64_t next_retry_ns;
    uint64_t next_sync_ns;
    uint64_t expire_cursor;
    uint64_t wall_offset_ms;
    int closing;

    struct kv_swap *swaps; /* ascending addresses */
    uint32_t swaps_count;
    uint32_t swaps_room;
    uint16_t *swap_map;  /* what swaps[swap_from .. swap_to - 1] do to each number */
    uint16_t *swap_work; /* scratch: of one exchange */
    uint32_t swap_from;
    uint32_t swap_to;

    uint64_t version;
    uint64_t deletion;       /* end address of the newest deletion */
    uint64_t attach_version; /* the hook inserts nothing up to here (R7) */
    uint64_t old_until;      /* log address below which such records lie */
    int caching;             /* the walk that calls cache() is under way */
    uint64_t cache_cursor;
    int cache_blocked;

    struct kv_compact compact;
    struct kv_engine_stats stats;
};

/* ---- store_base.c ---- */

void kv_store_log(struct kv_store *s, int level, const char *format, ...) SNIC_PRINTF(3, 4);
/* Submit to the files below, or park while there are none; done gets the final result. */
void kv_store_submit(struct kv_store *s, struct kv_file_req *r, kv_file_done_fn done);
/* True when the request was parked for the next attach: its done does nothing else. */
int kv_store_parked(struct kv_store *s, struct kv_file_req *r);
void kv_store_hash(const struct kv_store *s, uint32_t database, const void *key, uint32_t size,
                   unsigned char out[16], uint64_t *low, uint64_t *high);
void kv_store_entry_hash(const struct kv_entry *e, unsigned char out[16]);
/* Run the background work soon. */
void kv_store_kick(struct kv_store *s);

/* ---- swap.c ---- */

int kv_swap_open(struct kv_store *s);
void kv_swap_close(struct kv_store *s);
/* Room for one more. @return 0; SNIC_ENOMEM */
int kv_swap_reserve(struct kv_store *s);
/* Note an exchange at @p address, which is above all noted ones. @return 0; SNIC_ENOMEM */
int kv_swap_note(struct kv_store *s, uint64_t address, uint32_t a, uint32_t b);
/* The present number of the database of a record at @p address. Cheap for ascending addresses. */
uint32_t kv_swap_database(struct kv_store *s, uint32_t database, uint64_t address);
/* End of the blocks of the exchange at @p address: a pad record fills them. */
uint64_t kv_swap_write_end(const struct kv_store *s, uint64_t address);
/* That of the first exchange at or above @p address; UINT64_MAX: none. */
uint64_t kv_swap_next(const struct kv_store *s, uint64_t address);
/* Records below may have old numbers. */
uint64_t kv_swap_end(const struct kv_store *s);
/* The segment @p g goes: forget its exchanges. */
void kv_swap_forget(struct kv_store *s, const struct kv_segment *g);
/* Change the numbers of databases in the index, which has room. */
void kv_swap_index(struct kv_store *s, const uint16_t *number);
/* The other database of a record of type KV_RECORD_SWAP. */
uint32_t kv_swap_other(const struct kv_record *r, const unsigned char *value);

/* ---- segment.c ---- */

struct kv_segment *kv_log_segment(const struct kv_store *s, uint64_t number);
/* Adopt or make the bookkeeping of a segment. NULL: no memory. */
struct kv_segment *kv_log_segment_add(struct kv_store *s, uint64_t number);
void kv_log_segment_drop(struct kv_store *s, struct kv_segment *g);
/* No key refers to the record at @p address any more. */
void kv_log_dead(struct kv_store *s, uint64_t address, uint64_t bytes);
void kv_log_live(struct kv_store *s, uint64_t address, uint64_t bytes);

/* ---- store_cache.c ---- */

/* Send the place of the newest version of @p e to the DPU. @return 0; SNIC_EAGAIN */
int kv_store_cache(struct kv_store *s, const struct kv_entry *e);
/* A step of the walk over all keys that fills the cache of a DPU that has just attached. */
void kv_store_cache_walk(struct kv_store *s);

/* ---- compact_victim.c ---- */

/* Is compaction about to give space back? Then writers wait instead of failing. */
int kv_compact_promises(const struct kv_store *s);
/* The oldest segment with records. @return NULL: none */
struct kv_segment *kv_compact_oldest(const struct kv_store *s);
/* The segment that is worth compacting. @return NULL: none */
struct kv_segment *kv_compact_victim(const struct kv_store *s);

/* ---- log.c ---- */

int kv_log_open(struct kv_store *s);
void kv_log_close(struct kv_store *s);
/* Keep KV_AHEAD empty segments coming. */
void kv_log_create_ahead(struct kv_store *s);
/*
 * Append a record. r->file is filled in. @p reserve: KV_FOR_*.
 * 0 and *address; SNIC_EAGAIN; SNIC_ENOSPC; SNIC_EIO.
 */
int kv_log_append(struct kv_store *s, struct kv_record *r, const void *key, const void *value,
                  int reserve, uint64_t *address);
/* The bytes at a log address that is in memory. */
unsigned char *kv_log_at(const struct kv_store *s, uint64_t address);
/* Start a log write if there is something to write and none is in flight. */
void kv_log_flush(struct kv_store *s);
/* fsync what is written but not yet synced (interval, none, compaction). */
void kv_log_sync(struct kv_store *s);

/* ---- store.c ---- */

/* Learn the wall clock anew. */
void kv_store_wall_sync(struct kv_store *s);

/* ---- recover.c, compact.c ---- */

int kv_recover(struct kv_store *s, char *error, size_t error_size);
/* Do one step of compaction if there is cause; called from the background work. */
void kv_compact_step(struct kv_store *s);
void kv_compact_fini(struct kv_store *s);

#endif
