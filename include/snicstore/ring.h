/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/**
 * @file snicstore/ring.h
 * Rings of variable-size records between two sides that may share memory or only DMA:
 * the request ring (many producers, one consumer) and the response ring (one producer,
 * many consumers). DDS, section 4.1, with its holes closed.
 *
 * Depends on  snicstore/base.h only.
 * Memory      Shared part: one caller block, position independent, formatted once by
 *             snic_ring_init(). Private part: each role attaches a *handle* in memory of its
 *             own, with its own copy of the geometry. The module never allocates.
 * Threads     One handle, one thread at a time. Request ring: any number of [producer]
 *             handles, one [consumer] handle. Response ring: one [responder] handle, any
 *             number of [collector] handles. [owner]: no other call on the ring running.
 * Progress    Nothing sleeps, spins without bound or makes a system call. reserve is
 *             lock-free, the rest wait-free. A producer stalled between reserve and commit
 *             delays the consumer at its record, and never another producer's reserve; the
 *             one of SNIC_RING_ONE_PRODUCER delays no other.
 * Errors      0 or a positive count on success, a negative SNIC_E* otherwise.
 * Units       Positions are bytes since the ring was formatted: 64 bits, never wrapping.
 * Input       Hostile: the other side may write anything into the shared part at any time.
 *             What is read from it is copied once and checked; a handle that finds
 *             corruption returns SNIC_ECORRUPT from then on and touches nothing outside.
 *
 * Which ring, which discipline
 *   SNIC_RING_COMMIT (default): each reservation has a commit word of its own, kept apart
 *   from the payload, that holds its 64-bit position. The consumer takes the longest
 *   committed prefix: latency does not wait for others, and a dead producer's record can be
 *   found and skipped. Best for consumers that map the memory. A remote consumer pays one
 *   or two reads more per batch.
 *   SNIC_RING_QUIESCENT: the paper's progress counter P. The consumer takes everything when
 *   P == T. Fewest DMA operations (one pointer read, one or two data reads, one head write
 *   per batch), at the price of waiting until no producer is in the middle of an insert.
 *   On a response ring the two mean: COMMIT, each record is delivered when it is finished,
 *   out of order; QUIESCENT, records are delivered in order, by the tail alone.
 *   SNIC_RING_ONE_PRODUCER: no locked operation, and an open reservation delays no other handle.
 *
 *   the consumer    the producers          ring                       M msg/s, eager | 2 us
 *   maps            many threads           COMMIT                          40 | 55
 *   maps            one thread             COMMIT, ONE_PRODUCER            75 | 145
 *   maps            one, rate before all   QUIESCENT, ONE_PRODUCER        170 | 190
 *   maps            many on few cores      COMMIT (64 on 2 cores)          20 | 20
 *   over DMA        many threads           QUIESCENT                       40 | 45
 *   over DMA        one thread             QUIESCENT, ONE_PRODUCER        170 | 190
 *   either          processes that may     COMMIT, owners_max: a push costs half as much again,
 *                   die                    what the dead leave is repaired (snic_ring_abandon())
 *   many threads    one                    response ring, COMMIT; QUIESCENT if the order of
 *                                          requests must be the order of responses
 *
 *   The rates are of 8-byte messages pushed singly, with consumer and producer on two cores
 *   between which a cache line takes some 60 ns: orders of magnitude, mapped, taken with
 *   snic_ring_peek_run(); "2 us" is a consumer that looks every 2 us, as a DMA poller does.
 *   Sixteen to a reservation (push_n, reserve_n) the first three rows give 500 to 650. An empty
 *   ring delivers a message in 200 ns with COMMIT or ONE_PRODUCER, in 350 with QUIESCENT.
 *   Batches, a larger M and a slower consumer raise the rate; M bounds how long P == T can stay
 *   away from a QUIESCENT consumer whose producers never pause.
 *
 * Adaptive lag: each look at words that are being written takes their cache lines from the
 * producer, once per record if the consumer is eager. While looks keep finding a few records each,
 * a mapped consumer's peek therefore pauses a little longer before it looks, a few microseconds at
 * most; a look that finds nothing, or a lot, shortens it. So at low load no message waits, and
 * under load a spinning consumer gets near the rate of one that looks now and then. Nothing is to
 * be set.
 *
 * The order that decides correctness: P must be read before T. P counts committed bytes, not
 * a prefix. If P was read first, then P == T proves that every byte below T is committed;
 * with T read first P == T can hold while there is a hole below T. That is why P lies below
 * T in memory, and why SNIC_RING_OP_FENCE stands on the second of two cursor reads where
 * one read does not promise ascending order.
 *
 * Records are contiguous (a pad record fills the end of the data area). A record is `data`
 * (8-byte aligned) and, if asked for, a `body` aligned to body_align, so that O_DIRECT I/O can
 * run in place: put the request's own header into data and the blocks into body.
 */
#ifndef SNIC_RING_H
#define SNIC_RING_H

#include "snicstore/base.h"

#ifdef __cplusplus
extern "C" {
#endif

/** Alignment of the shared memory; body_align if that is larger. */
#define SNIC_RING_ALIGN SNIC_CACHELINE
/** Bytes at the start of the shared memory that describe it and never change. */
#define SNIC_RING_HEADER_BYTES 128

/* ---- Shared layout: byte offsets, little-endian u64 each alone on its line ---- */

#define SNIC_RING_OFF_PROGRESS 128 /**< P: committed bytes (request, QUIESCENT)    */
#define SNIC_RING_OFF_TAIL 256     /**< T: reserved (request), published (response) */
#define SNIC_RING_OFF_PRODWAIT 384 /**< who waits for space                          */
#define SNIC_RING_OFF_HEAD 512     /**< H: everything below is free; bit 0 a flag    */
#define SNIC_RING_OFF_CONSLEEP 640 /**< consumer sleeps: ring its bell              */
#define SNIC_RING_OFF_OWNERS 768   /**< owner table, one SNIC_CACHELINE each        */

/** opts.kind */
#define SNIC_RING_REQUEST 1U
#define SNIC_RING_RESPONSE 2U
/** opts.discipline */
#define SNIC_RING_COMMIT 0U
#define SNIC_RING_QUIESCENT 1U
/**
 * opts.flags, request ring: exactly one producer at a time. Reserving and committing take no locked
 * operation (the most expensive part of a push), T moves at commit, so that an open reservation
 * delays no other handle and needs no repair, and cancel leaves no padding. The ring has one owner
 * slot: the producer attaches with a token, a second one is refused until the first has detached or
 * has been repaired with snic_ring_abandon(). Consumers work as with any other ring.
 */
#define SNIC_RING_ONE_PRODUCER 1U

/** Zero the struct, then set opts_size, kind and capacity_bytes; 0 elsewhere is a default. */
struct snic_ring_opts {
    uint32_t opts_size;      /**< sizeof(struct snic_ring_opts)                             */
    uint32_t kind;           /**< SNIC_RING_REQUEST or SNIC_RING_RESPONSE                   */
    uint32_t discipline;     /**< SNIC_RING_COMMIT or SNIC_RING_QUIESCENT                   */
    uint32_t granule_bytes;  /**< records are multiples of it: power of two 16..4096; 16.
                                  Costs 8 bytes of commit words per granule                 */
    uint32_t body_align;     /**< alignment of bodies: power of two 8..4096; 8              */
    uint32_t owners_max;     /**< handles that can be repaired after death, 0..4096; 0.
                                  ONE_PRODUCER: 1                                           */
    uint64_t capacity_bytes; /**< data area: power of two, 1024..2^31                       */
    uint64_t progress_max;   /**< M: most bytes between head and tail, <= capacity;
                                  capacity / 2. Bounds a batch and the wait for P == T      */
    uint32_t record_max;     /**< most data + body bytes of a record, <= 2^27; the largest of
                                  which two, padded, fit into progress_max                  */
    uint32_t flags;          /**< SNIC_RING_ONE_PRODUCER or 0                               */
    uint64_t epoch;          /**< the caller's number for this incarnation; only reported   */
};

/** The fields of a ring's header, checked. */
struct snic_ring_info {
    uint32_t kind;
    uint32_t discipline;
    uint32_t granule_bytes;
    uint32_t body_align;
    uint32_t owners_max;
    uint32_t record_max;
    uint64_t capacity_bytes;
    uint64_t progress_max;
    uint64_t commit_offset; /**< commit words: capacity / granule * 8 bytes              */
    uint64_t data_offset;   /**< data area: capacity_bytes                               */
    uint64_t memory_bytes;  /**< the whole shared part                                   */
    uint64_t mirror_bytes;  /**< a remote handle's private copy of the data area         */
    uint64_t aux_bytes;     /**< private memory of a consumer or responder, 8-aligned    */
    uint64_t epoch;
    uint32_t flags;
    uint32_t reserved;
};

/** Which option is wrong, and how: "NAME: what", static; NULL when all are right. [any] */
SNIC_API const char *snic_ring_opts_wrong(const struct snic_ring_opts *o) SNIC_NONNULL(1);
/** Bytes of shared memory for @p o, or 0 when @p o is invalid. [any] */
SNIC_API size_t snic_ring_memsize(const struct snic_ring_opts *o) SNIC_NONNULL(1);
/**
 * Format @p mem (the caller's; both sides attach to it afterwards). Zeroes all of it. @p o is
 * borrowed for the call. [owner]
 * @return 0; SNIC_EINVAL bad option or alignment; SNIC_ENOSPC @p mem_size small
 */
SNIC_API SNIC_NODISCARD int snic_ring_init(void *mem, size_t mem_size,
                                           const struct snic_ring_opts *o) SNIC_NONNULL(1, 3);
/**
 * Read and check the SNIC_RING_HEADER_BYTES at @p header (copied once), as found at the start
 * of @p mem_size bytes of shared memory, mapped or fetched. [any]
 * @return 0; SNIC_EVERSION magic or version; SNIC_ECORRUPT geometry that does not add up;
 *         SNIC_ENOSPC @p mem_size smaller than the ring
 */
SNIC_API SNIC_NODISCARD int snic_ring_geometry(const void *header, uint64_t mem_size,
                                               struct snic_ring_info *out) SNIC_NONNULL(1, 3);

/* ---- Records ---- */

/** A record as reserved or as received. Pointers stay valid until commit or release. */
struct snic_ring_rec {
    uint64_t position; /**< names the record                                     */
    uint64_t next;     /**< position behind it: release(next) frees it           */
    void *data;        /**< 8-byte aligned                                       */
    void *body;        /**< body_align-aligned, NULL if body_bytes is 0          */
    uint32_t data_bytes;
    uint32_t body_bytes;
    uint32_t type; /**< the caller's, 0..65535                               */
    uint32_t reserved;
};

/**
 * Records that lie one behind the other and are alike in size and type, without bodies: the data
 * of record i begins at (unsigned char *)first.data + i * stride_bytes. A record with a body is a
 * run of one.
 */
struct snic_ring_run {
    struct snic_ring_rec first;
    uint64_t next; /**< position behind the last: release(next) frees the run */
    uint32_t count;
    uint32_t stride_bytes;
};

/** One piece for push_iov. */
struct snic_ring_iov {
    const void *base;
    size_t bytes;
};

/** Counters of one handle; plain adds. */
struct snic_ring_stats {
    uint64_t records;
    uint64_t bytes;   /**< data + body                                  */
    uint64_t batches; /**< reservations, or non-empty looks             */
    uint64_t again;   /**< SNIC_EAGAIN answers                          */
    uint64_t retries; /**< lost compare-and-swaps                       */
    uint64_t pads;
};

/** A handle's trusted copy of the geometry. Private. */
struct snic_ring__geo {
    unsigned char *base; /**< shared memory, NULL when remote              */
    unsigned char *data; /**< data area or mirror                          */
    uint64_t mask;
    uint64_t progress_max;
    uint64_t commit_offset;
    uint64_t data_offset;
    uint32_t granule;
    uint32_t granule_shift;
    uint32_t body_align;
    uint32_t record_max;
    uint32_t owners_max;
    uint32_t discipline;
    uint32_t kind;
    uint32_t lap_shift; /**< log2 of the capacity                         */
    uint32_t flags;
    int broken; /**< 0 or SNIC_ECORRUPT                           */
};

/* ---- Request ring, producer side (mapped) ---- */

/** One thread's producer handle. All fields private. */
struct snic_ring_producer {
    struct snic_ring__geo g;
    uint64_t head;     /**< cached, grows only                               */
    uint64_t position; /**< the open reservation                             */
    uint64_t total;    /**< its bytes, 0: none open                          */
    uint64_t tail;     /**< one producer: T                                  */
    uint32_t owner;    /**< slot in the owner table + 1, 0: none             */
    uint32_t intent;   /**< the slot if steps are to be shown there, or 0    */
    uint32_t count;    /**< records in the open reservation                  */
    uint32_t alone;    /**< one producer                                     */
    struct {
        uint64_t from, width, tag;
    } window; /**< where a push needs no second look                */
    struct snic_ring_stats stats;
};

/**
 * Attach a producer. @p token != 0 names this handle in the owner table (for example a process and
 * thread id) and makes its death repairable by snic_ring_abandon(). A ring with owners_max > 0
 * needs a token of every handle, one without takes none: repair must know of all. [any]
 * @return 0; SNIC_EINVAL alignment, token, or not a request ring; SNIC_ENOSPC @p mem_size small
 *         or owner table full; SNIC_EBUSY the ring's one producer is another; SNIC_EEXIST token
 *         in use; SNIC_EVERSION magic or version; SNIC_ECORRUPT geometry that does not add up, or
 *         (one producer) cursors
 */
SNIC_API SNIC_NODISCARD int snic_ring_producer_attach(struct snic_ring_producer *p, void *mem,
                                                      size_t mem_size, uint64_t token)
    SNIC_NONNULL(1, 2);
/** Give the owner slot back. Asserts that no reservation is open. [producer] */
SNIC_API void snic_ring_producer_detach(struct snic_ring_producer *p) SNIC_NONNULL(1);

/**
 * Reserve one record and describe in @p rec where to write it in place. One reservation may
 * be open per handle; finish it with commit or cancel soon, the consumer waits
 * (unless ONE_PRODUCER). [producer]
 * @return 0; SNIC_EAGAIN less than the record's room below M (or 65536 races lost);
 *         SNIC_EMSGSIZE larger than record_max; SNIC_EINVAL type > 65535; SNIC_EBUSY a
 *         reservation is open; SNIC_ECORRUPT the other side broke the cursors
 */
SNIC_API SNIC_NODISCARD int snic_ring_reserve(struct snic_ring_producer *p, uint32_t type,
                                              uint32_t data_bytes, uint32_t body_bytes,
                                              struct snic_ring_rec *rec) SNIC_NONNULL(1, 5);
/**
 * Reserve @p n records without body in one step: @p data_bytes[i] each, described in
 * @p recs[i]; all get @p type. One commit publishes all. [producer]
 * @return 0; SNIC_EAGAIN less than their room below M (or 65536 races lost); SNIC_EMSGSIZE one
 *         is larger than record_max, or they do not fit M together; SNIC_EINVAL n == 0 or type
 *         > 65535; SNIC_EBUSY a reservation is open; SNIC_ECORRUPT the other side broke the
 *         cursors. None is reserved after an error
 */
SNIC_API SNIC_NODISCARD int snic_ring_reserve_n(struct snic_ring_producer *p, uint32_t type,
                                                const uint32_t *data_bytes, uint32_t n,
                                                struct snic_ring_rec *recs) SNIC_NONNULL(1, 3, 5);
/** Publish the open reservation, with release order. Asserts that one is open. [producer] */
SNIC_API void snic_ring_commit(struct snic_ring_producer *p) SNIC_NONNULL(1);
/** Turn the open reservation into padding: the consumer skips it. [producer] */
SNIC_API void snic_ring_cancel(struct snic_ring_producer *p) SNIC_NONNULL(1);

/**
 * Reserve, copy @p bytes, commit. Copy. [producer]
 * @return results as snic_ring_reserve()
 */
SNIC_API SNIC_NODISCARD int snic_ring_push(struct snic_ring_producer *p, uint32_t type,
                                           const void *data, uint32_t bytes) SNIC_NONNULL(1);
/**
 * Push one record gathered from @p n pieces. Copy. [producer]
 * @return results as snic_ring_reserve()
 */
SNIC_API SNIC_NODISCARD int snic_ring_push_iov(struct snic_ring_producer *p, uint32_t type,
                                               const struct snic_ring_iov *iov, uint32_t n)
    SNIC_NONNULL(1, 3);
/**
 * Push @p n records of @p bytes each, packed one behind the other at @p data, in one
 * reservation. Copy. All or nothing. [producer]
 * @return results as snic_ring_reserve_n()
 */
SNIC_API SNIC_NODISCARD int snic_ring_push_n(struct snic_ring_producer *p, uint32_t type,
                                             const void *data, uint32_t bytes, uint32_t n)
    SNIC_NONNULL(1, 3);

/**
 * After the last commit of a burst: must the caller ring the consumer's doorbell? Without this
 * call a sleeping consumer sleeps on; a consumer that never sleeps needs none of it. [producer]
 * @return 1 ring it, at most once per time the consumer armed itself; 0 it is not armed, or this
 *         handle found corruption
 */
SNIC_API SNIC_NODISCARD int snic_ring_notify(struct snic_ring_producer *p) SNIC_NONNULL(1);
/**
 * After SNIC_EAGAIN and before sleeping: ask to be woken when space gets free. Then try the
 * reserve once more, and sleep only if it fails again. A bell wakes all waiting producers;
 * each tries again and arms again. [producer]
 */
SNIC_API void snic_ring_wait_arm(struct snic_ring_producer *p) SNIC_NONNULL(1);

/* ---- Remote steps: DMA as plain data ---- */

#define SNIC_RING_OP_READ 0U
#define SNIC_RING_OP_WRITE 1U
/** A fence: start only after *all* operations before it in the list are complete. */
#define SNIC_RING_OP_FENCE 1U

/** One DMA operation between private memory and the ring's shared memory. */
struct snic_ring_op {
    uint32_t kind;   /**< SNIC_RING_OP_READ (shared to local) or SNIC_RING_OP_WRITE     */
    uint32_t flags;  /**< SNIC_RING_OP_FENCE or 0                                     */
    uint64_t offset; /**< in the shared memory                                          */
    void *local;     /**< private end: the mirror, or a field of the handle (which must
                          therefore lie in memory that the DMA door can reach)          */
    uint64_t bytes;
};
/** The most operations snic_ring_fetch() returns at once. */
#define SNIC_RING_FETCH_OPS 2
/** attach_remote flag: one read fetches its bytes in ascending address order. */
#define SNIC_RING_ORDERED_READ 1U

/* ---- Request ring, consumer side ---- */

/** The consumer's handle. All fields private. */
struct snic_ring_consumer {
    struct snic_ring__geo g;
    uint64_t limit;     /**< records below are known to be committed                   */
    uint64_t taken;     /**< peek continues here                                       */
    uint64_t delivered; /**< end of the last record that peek returned                 */
    uint64_t released;  /**< head as far as this side is concerned                     */
    uint64_t published; /**< head as last written to the shared memory                 */
    uint64_t tail_seen;
    uint64_t rung;   /**< PRODWAIT when the producers' doorbell was last due       */
    uint64_t armed;  /**< CONSLEEP as last written                                 */
    uint32_t *aux;   /**< per granule: records out and finished out of order       */
    uint64_t *words; /**< remote COMMIT: fetched commit words                      */
    uint32_t flags;
    uint32_t step; /**< of the remote state machine                              */
    uint32_t open; /**< inside a committed reservation of several records        */
    uint32_t lag;
    uint32_t left; /**< the last look did not reach the end of the records        */
    struct snic_ring_stats stats;
    /** Landing place of cursor reads and source of cursor writes. */
    union {
        unsigned char bytes[384];
        uint64_t align;
    } cursors;
};

/**
 * Attach the consumer to mapped memory; it continues at the shared head. @p aux (aux_bytes of
 * snic_ring_info, 8-aligned, owned until the handle is dropped) is needed for
 * snic_ring_finish(); NULL if only snic_ring_release() is used. [any]
 * @return 0; SNIC_EINVAL alignment, or not a request ring; SNIC_ENOSPC @p mem_size or
 *         @p aux_bytes small; SNIC_EVERSION magic or version; SNIC_ECORRUPT geometry that does
 *         not add up, or the head
 */
SNIC_API SNIC_NODISCARD int snic_ring_consumer_attach(struct snic_ring_consumer *c, void *mem,
                                                      size_t mem_size, void *aux, size_t aux_bytes)
    SNIC_NONNULL(1, 2);
/**
 * Attach the consumer to memory that it reaches by DMA only. @p header: the first
 * SNIC_RING_HEADER_BYTES of it, fetched; @p head: the 8 bytes at SNIC_RING_OFF_HEAD, fetched;
 * @p mirror: mirror_bytes aligned to body_align and SNIC_RING_ALIGN, where records arrive at
 * the offset they have in the data area; @p aux: aux_bytes, required. All but the header
 * are owned until the handle is dropped. [any]
 * @return 0; SNIC_EINVAL unknown @p flags, alignment of @p mirror or @p aux, or not a request
 *         ring; SNIC_ENOSPC @p mem_size, @p mirror_bytes or @p aux_bytes small; SNIC_EVERSION
 *         magic or version; SNIC_ECORRUPT geometry that does not add up, or the head
 */
SNIC_API SNIC_NODISCARD int snic_ring_consumer_attach_remote(struct snic_ring_consumer *c,
                                                             const void *header, uint64_t mem_size,
                                                             const void *head, void *mirror,
                                                             size_t mirror_bytes, void *aux,
                                                             size_t aux_bytes, uint32_t flags)
    SNIC_NONNULL(1, 2, 4, 5, 7);

/**
 * Remote only: the next DMA operations of one look at the ring. Carry them out, wait until
 * all are complete, call again, until it returns 0 or an error:
 *
 *     while ((n = snic_ring_fetch(c, ops)) > 0) carry_out(ops, n);
 *     if (n == 0) while (snic_ring_peek(c, recs, 64) > 0) ...
 *
 * Operations per look: QUIESCENT with ORDERED_READ one cursor read, else two ordered ones;
 * then, if there is news, one or two data reads. COMMIT: one cursor read, one or two reads
 * of commit words, then one or two data reads. The head write is snic_ring_head_op(). [consumer]
 * @param[out] ops  SNIC_RING_FETCH_OPS elements, to be started in this order
 * @return number of operations; 0 look complete, records are ready for peek;
 *         SNIC_EAGAIN look complete, nothing new (empty, or P != T); SNIC_EINVAL handle is
 *         mapped; SNIC_ECORRUPT cursors or records are nonsense
 */
SNIC_API SNIC_NODISCARD int snic_ring_fetch(struct snic_ring_consumer *c, struct snic_ring_op *ops)
    SNIC_NONNULL(1, 2);
/** Remote only: give up an unfinished look (a DMA operation failed). [consumer] */
SNIC_API void snic_ring_fetch_reset(struct snic_ring_consumer *c) SNIC_NONNULL(1);

/**
 * Take up to @p max committed records in ring order, in place. They stay valid, also over
 * later peeks, until released. [consumer]
 * @return number of records, 0..max; SNIC_ECORRUPT a cursor or a record is nonsense
 */
SNIC_API SNIC_NODISCARD int snic_ring_peek(struct snic_ring_consumer *c, struct snic_ring_rec *recs,
                                           uint32_t max) SNIC_NONNULL(1, 2);
/**
 * Take up to @p max committed records that are alike, as one run: for a consumer that walks many
 * small messages and needs no description of each (half the cost of snic_ring_peek()). They stay
 * valid until released. Calls of both may alternate. [consumer]
 * @return number of records, 0..max; SNIC_ECORRUPT a cursor or a record is nonsense
 */
SNIC_API SNIC_NODISCARD int snic_ring_peek_run(struct snic_ring_consumer *c,
                                               struct snic_ring_run *run, uint32_t max)
    SNIC_NONNULL(1, 2);
/**
 * Free every record below @p next (the `next` of a record that peek returned). A mapped
 * handle publishes the head, with release order behind all reads of the records, when an
 * eighth of progress_max has been freed since, when a peek finds nothing, and in
 * snic_ring_space_notify(): each time that producers read it, it changes hands. If this
 * consumer dies, the next one sees again what was freed and not published. [consumer]
 * @return 0; SNIC_EINVAL @p next is not between what is free and what was taken
 */
SNIC_API SNIC_NODISCARD int snic_ring_release(struct snic_ring_consumer *c, uint64_t next)
    SNIC_NONNULL(1);
/**
 * Finish one record, in any order; the head moves when the oldest is finished. Do not mix with
 * snic_ring_release(). [consumer]
 * @return 0; SNIC_EINVAL no such record is out, or the handle has no aux memory
 */
SNIC_API SNIC_NODISCARD int snic_ring_finish(struct snic_ring_consumer *c, uint64_t position)
    SNIC_NONNULL(1);
/**
 * Remote only: the head write, if the head moved since the last one. Start it after every read
 * of the released bytes is complete, and complete it before the next one. [consumer]
 * @return 1 and *op; 0 nothing to write
 */
SNIC_API SNIC_NODISCARD int snic_ring_head_op(struct snic_ring_consumer *c, struct snic_ring_op *op)
    SNIC_NONNULL(1, 2);
/**
 * After a release (mapped: publishes the head), or after the first look that follows a head
 * write (remote: the cursor read brings the word along): must the producers' doorbell be
 * rung? [consumer]
 * @return 1 ring it, at most once per arming; 0 no producer has armed since, or this handle found
 *         corruption
 */
SNIC_API SNIC_NODISCARD int snic_ring_space_notify(struct snic_ring_consumer *c) SNIC_NONNULL(1);
/**
 * Before sleeping: ask for the doorbell. Then look once more (fetch, peek) and sleep only if
 * that finds nothing. Mapped: done at once, and @p op, which must be there, is not written.
 *
 * A consumer that sleeps (remote: fetch goes before each peek):
 *
 *     n = snic_ring_peek(c, recs, 64);
 *     if (n == 0) {
 *         if (snic_ring_sleep_arm(c, &op) == 1) carry_out(&op, 1);
 *         n = snic_ring_peek(c, recs, 64);
 *         if (snic_ring_space_notify(c) == 1) ring_the_producers();
 *         if (n == 0) wait_for_the_doorbell();
 *     }
 *
 * Without space_notify both sides may sleep: a producer that waits for space that was released
 * would not learn of it. [consumer]
 * @return 1 remote: *op is the write to be completed before that look; 0 mapped, or this handle
 *         found corruption
 */
SNIC_API SNIC_NODISCARD int snic_ring_sleep_arm(struct snic_ring_consumer *c,
                                                struct snic_ring_op *op) SNIC_NONNULL(1, 2);
/**
 * Take the request for a doorbell back (records came). [consumer]
 * @return 1 remote: *op is the write to carry out; 0 mapped, or this handle found corruption
 */
SNIC_API SNIC_NODISCARD int snic_ring_sleep_disarm(struct snic_ring_consumer *c,
                                                   struct snic_ring_op *op) SNIC_NONNULL(1, 2);
/** Bytes reserved by producers and not yet released, as last seen. [consumer] */
SNIC_API uint64_t snic_ring_backlog(const struct snic_ring_consumer *c) SNIC_NONNULL(1);

/* ---- Response ring, the one producer ---- */

/**
 * The responder's handle. All fields private. Its three tails are the paper's (section 4.3):
 * A allocated, B finished in order, C delivered.
 */
struct snic_ring_responder {
    struct snic_ring__geo g;
    uint64_t head;
    uint64_t tail_a;
    uint64_t tail_b;
    uint64_t tail_c;
    uint64_t flushing; /**< C when the operations handed out last are complete         */
    uint64_t scan;     /**< remote COMMIT: the running flush continues here            */
    uint64_t reach;    /**< remote COMMIT: headers below are written over there        */
    uint64_t ready;    /**< remote COMMIT: finished records not yet delivered          */
    uint64_t rung;     /**< CONSLEEP when the collectors' doorbell was last due        */
    uint64_t sleepers; /**< remote: CONSLEEP as last fetched                           */
    uint64_t armed;    /**< PRODWAIT as last written                                   */
    uint32_t *aux;     /**< per granule: span and state, body size; trusted            */
    uint64_t *words;   /**< remote COMMIT: commit words to be written                  */
    uint32_t remote;
    uint32_t reserved;
    struct snic_ring_stats stats;
    union {
        unsigned char bytes[384];
        uint64_t align;
    } cursors;
};

/**
 * Attach the responder to mapped memory; it continues at the shared tail. @p aux: aux_bytes of
 * snic_ring_info, 8-aligned, owned until the handle is dropped. [any]
 * @return 0; SNIC_EINVAL alignment, or not a response ring; SNIC_ENOSPC @p mem_size or
 *         @p aux_bytes small; SNIC_EVERSION magic or version; SNIC_ECORRUPT geometry that does
 *         not add up, or cursors
 */
SNIC_API SNIC_NODISCARD int snic_ring_responder_attach(struct snic_ring_responder *r, void *mem,
                                                       size_t mem_size, void *aux, size_t aux_bytes)
    SNIC_NONNULL(1, 2, 4);
/**
 * Attach the responder to memory that it reaches by DMA only. @p header: the first
 * SNIC_RING_HEADER_BYTES of it, fetched. @p cursors: what lies from SNIC_RING_OFF_TAIL on, fetched
 * while the ring is idle; two words of it are read: T, at 0, and H, at SNIC_RING_OFF_HEAD -
 * SNIC_RING_OFF_TAIL. Both are borrowed for the call. @p mirror: mirror_bytes aligned to body_align
 * and SNIC_RING_ALIGN, zeroed here, in which records are built; @p aux: aux_bytes, 8-aligned. These
 * two are owned until the handle is dropped. [any]
 * @return 0; SNIC_EINVAL alignment of @p mirror or @p aux, or not a response ring; SNIC_ENOSPC
 *         @p mem_size, @p mirror_bytes or @p aux_bytes small; SNIC_EVERSION magic or version;
 *         SNIC_ECORRUPT geometry that does not add up, or cursors
 */
SNIC_API SNIC_NODISCARD int snic_ring_responder_attach_remote(
    struct snic_ring_responder *r, const void *header, uint64_t mem_size, const void *cursors,
    void *mirror, size_t mirror_bytes, void *aux, size_t aux_bytes) SNIC_NONNULL(1, 2, 4, 5, 7);

/**
 * Reserve space for a response before its bytes are there; I/O may run into rec->body. Any
 * number may be open. Collectors see nothing of it before it is finished. [responder]
 * @return 0; SNIC_EAGAIN no room below M (remote: also refresh the head, snic_ring_resp_sync());
 *         SNIC_EMSGSIZE larger than record_max; SNIC_EINVAL type > 65535; SNIC_ECORRUPT a
 *         collector broke the head
 */
SNIC_API SNIC_NODISCARD int snic_ring_resp_reserve(struct snic_ring_responder *r, uint32_t type,
                                                   uint32_t data_bytes, uint32_t body_bytes,
                                                   struct snic_ring_rec *rec) SNIC_NONNULL(1, 5);
/** snic_ring_resp_finish(): the body as long as reserved. */
#define SNIC_RING_WHOLE_BODY UINT32_MAX
/**
 * The response at @p position is complete, in any order; @p body_bytes may be less than
 * reserved (a short read), or SNIC_RING_WHOLE_BODY. [responder]
 * @return 0; SNIC_EINVAL no such open record, or more bytes than reserved; SNIC_ECORRUPT an
 *         earlier call found corruption
 */
SNIC_API SNIC_NODISCARD int snic_ring_resp_finish(struct snic_ring_responder *r, uint64_t position,
                                                  uint32_t body_bytes) SNIC_NONNULL(1);
/**
 * The response at @p position becomes padding that no collector sees. [responder]
 * @return 0; SNIC_EINVAL no such open record; SNIC_ECORRUPT an earlier call found corruption
 */
SNIC_API SNIC_NODISCARD int snic_ring_resp_cancel(struct snic_ring_responder *r, uint64_t position)
    SNIC_NONNULL(1);
/** Finished bytes (COMMIT: records; mapped COMMIT: 0) that await snic_ring_resp_flush(): TailB -
 * TailC. [responder]
 */
SNIC_API uint64_t snic_ring_resp_ready(const struct snic_ring_responder *r) SNIC_NONNULL(1);
/** The paper's tails; each may be NULL. [responder] */
SNIC_API void snic_ring_resp_tails(const struct snic_ring_responder *r, uint64_t *tail_a,
                                   uint64_t *tail_b, uint64_t *tail_c) SNIC_NONNULL(1);
/**
 * Deliver what is finished. Mapped: done at once, returns 0. Remote: up to @p max DMA writes, to
 * be started in this order and *completed* before the next call; call until it returns 0.
 * QUIESCENT: one or two data writes and one tail write. COMMIT: per stretch of finished records
 * one data write and one write of its commit words, per unfinished record overtaken one
 * header write, at the end one tail write (a mapped COMMIT ring delivers in finish and has
 * nothing to flush). [responder]
 * @param max  at least 4
 * @return number of operations, 0: everything finished is delivered; SNIC_EINVAL @p max < 4;
 *         SNIC_ECORRUPT an earlier call found corruption
 */
SNIC_API SNIC_NODISCARD int snic_ring_resp_flush(struct snic_ring_responder *r,
                                                 struct snic_ring_op *ops, uint32_t max)
    SNIC_NONNULL(1, 2);
/**
 * Remote: the read that fetches the head and the collectors' sleep flag, to be completed
 * before snic_ring_resp_synced(). After a flush it must start behind the last write. [responder]
 */
SNIC_API void snic_ring_resp_sync(struct snic_ring_responder *r, struct snic_ring_op *op)
    SNIC_NONNULL(1, 2);
/**
 * Remote: use what snic_ring_resp_sync() fetched. [responder]
 * @return 0; SNIC_ECORRUPT a head that cannot be, or an earlier call found corruption
 */
SNIC_API SNIC_NODISCARD int snic_ring_resp_synced(struct snic_ring_responder *r) SNIC_NONNULL(1);
/**
 * After a flush (remote: and a sync): must the collectors' doorbell be rung? [responder]
 * @return 1 ring it, at most once per arming; 0 no collector has armed since, or this handle found
 *         corruption
 */
SNIC_API SNIC_NODISCARD int snic_ring_resp_notify(struct snic_ring_responder *r) SNIC_NONNULL(1);

/**
 * After SNIC_EAGAIN of a reserve: ask the collectors for the doorbell when they free space,
 * then try once more (remote: after the write and a sync). [responder]
 * @return 1 remote: *op is the write to carry out; 0 mapped: done, or this handle found corruption
 */
SNIC_API SNIC_NODISCARD int snic_ring_resp_wait_arm(struct snic_ring_responder *r,
                                                    struct snic_ring_op *op) SNIC_NONNULL(1, 2);

/* ---- Response ring, the consumers (mapped) ---- */

/** One thread's collector handle. All fields private. */
struct snic_ring_collector {
    struct snic_ring__geo g;
    uint64_t scan; /**< nothing below is left to claim               */
    uint32_t owner;
    uint32_t held; /**< records claimed and not released             */
    struct snic_ring_stats stats;
};

/**
 * Attach a collector; @p token has the meaning that it has for a producer. [any]
 * @return 0; SNIC_EINVAL alignment, token, or not a response ring; SNIC_ENOSPC @p mem_size small
 *         or owner table full; SNIC_EEXIST token in use; SNIC_EVERSION magic or version;
 *         SNIC_ECORRUPT geometry that does not add up
 */
SNIC_API SNIC_NODISCARD int snic_ring_collector_attach(struct snic_ring_collector *k, void *mem,
                                                       size_t mem_size, uint64_t token)
    SNIC_NONNULL(1, 2);
/** Give the owner slot back. Asserts that no record is held. [collector] */
SNIC_API void snic_ring_collector_detach(struct snic_ring_collector *k) SNIC_NONNULL(1);
/**
 * Claim the oldest complete record that no one else claimed; it is this handle's alone, in
 * place, until released. With a token one record may be held at a time. A record that stays
 * claimed keeps its space and that of younger ones; other collectors continue. [collector]
 * @return 1 and *rec; 0 none complete; SNIC_EBUSY with a token: one is held; SNIC_ECORRUPT
 *         cursors or records are nonsense
 */
SNIC_API SNIC_NODISCARD int snic_ring_claim(struct snic_ring_collector *k,
                                            struct snic_ring_rec *rec) SNIC_NONNULL(1, 2);
/**
 * Give a claimed record back. [collector]
 * @return 0; SNIC_ECORRUPT cursors or records are nonsense, or an earlier call found corruption
 */
SNIC_API SNIC_NODISCARD int snic_ring_claim_release(struct snic_ring_collector *k,
                                                    const struct snic_ring_rec *rec)
    SNIC_NONNULL(1, 2);
/**
 * Claim, copy out, release. Copy. @p out gets data and then body, without the gap. @p type may be
 * NULL. [collector]
 * @return bytes copied, at most @p size; SNIC_EAGAIN none complete; SNIC_EMSGSIZE the record is
 *         larger than @p size (and lost); SNIC_EBUSY with a token: a record is held;
 *         SNIC_ECORRUPT cursors or records are nonsense
 */
SNIC_API SNIC_NODISCARD int64_t snic_ring_collect(struct snic_ring_collector *k, void *out,
                                                  size_t size, uint32_t *type) SNIC_NONNULL(1, 2);
/**
 * After releases: must the responder's doorbell be rung, because it waits for space? [collector]
 * @return 1 ring it, at most once per time the responder armed itself; 0 it is not armed, or this
 *         handle found corruption
 */
SNIC_API SNIC_NODISCARD int snic_ring_collect_notify(struct snic_ring_collector *k) SNIC_NONNULL(1);
/** Before sleeping: ask for the doorbell, then claim once more; sleep if none. One bell wakes
 *  all sleeping collectors; each looks and arms again. [collector] */
SNIC_API void snic_ring_collect_arm(struct snic_ring_collector *k) SNIC_NONNULL(1);

/* ---- Waiting ---- */

/** Answers of snic_ring_backoff_next(). */
#define SNIC_RING_LOOK 0  /**< look again: it has paused meanwhile             */
#define SNIC_RING_YIELD 1 /**< give the processor away once, then look again   */
#define SNIC_RING_SLEEP 2 /**< arm the doorbell, look once more, then sleep    */

/** How long one side of a ring has been waiting. Zero it; zero `misses` when something came. */
struct snic_ring_backoff {
    uint32_t misses;
    uint32_t spins_max;  /**< looks with pauses between them; 0: 12, some 5 to 20 us          */
    uint32_t yields_max; /**< looks with a yield between them; 0: 8                           */
};

/**
 * A look, or a push, found nothing to do: how to wait for the next one, pause, yield, sleep in
 * that order. For either side of either ring. Pauses itself (at most 64 times); the caller yields
 * and sleeps, on what it likes. A consumer on a loop (snicstore/loop.h), whose producers call
 * snic_loop_wake() or ring a doorbell when snic_ring_notify() returns 1:
 *
 *     while ((n = snic_ring_peek(c, recs, 64)) >= 0) {
 *         int how = n == 0 ? snic_ring_backoff_next(&b) : SNIC_RING_LOOK;
 *
 *         if (how == SNIC_RING_YIELD) sched_yield();
 *         if (how == SNIC_RING_SLEEP) {
 *             (void)snic_ring_sleep_arm(c, &op);        remote: carry_out(&op, 1)
 *             n = snic_ring_peek(c, recs, 64);
 *             if (snic_ring_space_notify(c) == 1) ring_the_producers();
 *             if (n == 0) (void)snic_loop_once(loop, SNIC_NEVER);
 *         }
 *         if (n > 0) b.misses = 0, use_and_release(recs, n);
 *     }
 *
 * A producer likewise: on SNIC_EAGAIN, when sleep is due, snic_ring_wait_arm(), push once more,
 * and sleep if that is refused, too. [any]
 * @return SNIC_RING_LOOK; SNIC_RING_YIELD after spins_max of these; SNIC_RING_SLEEP after
 *         yields_max of those; never an error
 */
SNIC_API int snic_ring_backoff_next(struct snic_ring_backoff *b) SNIC_NONNULL(1);

/* ---- Supervision (mapped) ---- */

/**
 * The handle with @p token is *certified* dead (process exit, peer-death event; never a mere
 * time-out): skip what it had reserved, or free what it had claimed, and give its owner slot
 * back. Call again while it answers SNIC_EAGAIN. [any] One supervisor at a time.
 * @return 0 repaired, or nothing to repair; SNIC_EAGAIN not decidable before a living handle
 *         has finished a step; SNIC_ENOENT no such token; SNIC_EINVAL alignment; SNIC_ENOSPC
 *         @p mem_size small; SNIC_EVERSION magic or version; SNIC_ECORRUPT geometry, cursors or
 *         records are nonsense
 */
SNIC_API SNIC_NODISCARD int snic_ring_abandon(void *mem, size_t mem_size, uint64_t token)
    SNIC_NONNULL(1);
/**
 * Every structural invariant of an idle ring. For tests. [owner]
 * @return 0; SNIC_ECORRUPT one does not hold, or @p mem is no ring of that size
 */
SNIC_API int snic_ring_check(const void *mem, size_t mem_size) SNIC_NONNULL(1);

#ifdef __cplusplus
}
#endif
#endif /* SNIC_RING_H */
