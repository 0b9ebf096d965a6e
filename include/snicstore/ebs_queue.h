/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/**
 * @file snicstore/ebs_queue.h
 * I/Os of virtual disks on their way to RPCs: the part of a storage agent that is the same for all
 * transports (Miao et al., SIGCOMM 2022, figures 5 and 12: the SA). An I/O waits in its disk's
 * queue, is admitted by round robin and within the disk's limits, gets its version, is split into
 * RPCs, and ends when they have. In between the transport sends, acknowledges, and gives up.
 *
 * For transports, solar.h and luna.h among them; a user of one of those needs from this file the
 * I/O, the disk's options and struct snic_ebs_busy.
 *
 * Depends on  snicstore/base.h, snicstore/ebs.h.
 * Memory      The caller's: snic_ebs_queue_layout() takes from an arena what its options need.
 *             Nothing allocates.
 * Threads     [owner] one thread owns a queue and all that is in it.
 * Progress    No call blocks. O(1) per RPC, amortised; O(RPCs of the disk) are _map, _hole, _waits,
 *             _say, an I/O's expiry, a fence's timer; O(disks and RPCs) is _ask, when the clock is
 *             due.
 * Errors      0 on success, a negative SNIC_E* otherwise; then nothing changed.
 * Units       nanoseconds; blocks of 4096 bytes; bytes where stated.
 * Input       I/Os and options are the owner's, and checked.
 *
 * Fairness. Disks are served by deficit round robin of 64 KiB; the I/Os of one disk are admitted in
 * order, so versions grow in that order, too. A server may hold half of all RPCs, so that one that
 * does not respond does not block the others; so may the RPCs of unknown location.
 *
 * A transport embeds the queue and, in each of its RPCs, a snic_ebs_rpc:
 *
 *     at a poll:  q->now_ns = the time, if it is later;
 *                 while ((t = snic_wheel_pop(&q->wheel, q->now_ns)) != NULL) t->fn(t, q->now_ns);
 *                 snic_ebs_queue_age(q); snic_ebs_queue_ask(q);
 *                 if (q->dirty || q->now_ns >= q->qos_ns) { q->dirty = 0; _admit(q); send; }
 *     then the notifications:     _done(q), _say(q, &said), _slow(q); after _halt() only _done(q)
 *     sleep until:                snic_ebs_queue_deadline_ns(q), or what the transport waits for
 *
 * Writers of the fields of the structs below:
 *   now_ns        the transport, with every time that it is passed; it never goes back
 *   dirty         both: there is something to admit or to send
 *   wheel, rng    both; rng is seeded, and the order of its draws is part of what a seed replays
 *   loads         used, told, backlog and busy are the transport's. On a server's removal, when its
 *                 rpcs are 0: snic_ebs_queue_mapped(q, server, 1), then all of its load is 0. After
 *                 setting told to 1 call snic_ebs_asks_hurry(&q->asks, now), or no lookup is early.
 *                 busy by snic_ebs_busy_said(), _failed(), _over(). backlog may count PARKED ones.
 *   an RPC        acked, sent, refs (up; down by snic_ebs_rpc_unref()) and io->retries are the
 *                 transport's; its timer both's: ended, parked or elsewhere it is not armed
 *   s             blocks_written and busy are the transport's, tables and blocks_read both's
 *   all else      the queue's
 *
 * Giving up. A write that may be under way is FENCING: a FENCE of its segment with its wver and one
 * refuses all copies; FENCE_ACK, as does a higher generation, ends it, with its result.
 *
 * Invariants (snic_ebs_queue_check)
 *   Q1  An RPC that is not FREE is on its disk's list, and on the one of its `where`: `parked` has
 *       all that are PARKED, `outs` all FENCING, ENDED and OUT, `free` all FREE, but for those
 *       whose numbers are used up.
 *   Q2  rpcs of a load is the number of RPCs of that server that are not FREE.
 *   Q3  A version is assigned once: wver of a disk only rises, and stays within its sa_epoch.
 *   Q4  A disk with queued I/Os is on `turns`, on `limited`, or waits for a lookup.
 *   Q5  An RPC of no server is PARKED or ENDED.
 */
#ifndef SNIC_EBS_QUEUE_H
#define SNIC_EBS_QUEUE_H

#include "snicstore/ebs.h"

#ifdef __cplusplus
extern "C" {
#endif

/** Most blocks of an I/O: 1 GiB. */
#define SNIC_EBS_IO_BLOCKS_MAX (1u << 18)

enum snic_ebs_io_op {
    SNIC_EBS_IO_READ = 0,
    SNIC_EBS_IO_WRITE,
    SNIC_EBS_IO_ZERO, /**< the blocks read as zeros                                              */
    SNIC_EBS_IO_TRIM, /**< the same; the server may forget them                                  */
    SNIC_EBS_IO_FLUSH /**< no blocks                                                             */
};

/** An I/O's flag: a READ of one block, the first of a segment, returns the state of each block of
    the segment (SNIC_EBS_STATES) instead of its data; zeros where nothing was ever written. */
#define SNIC_EBS_IO_STATES (1u << 0)

/** Embed it, fill the first part; SNIC_CONTAINER finds the owner. Borrowed until DONE. */
struct snic_ebs_io {
    uint64_t lba;               /**< first block                                                 */
    const struct snic_iov *iov; /**< pieces of multiples of 4096 bytes, blocks in all; READ and
                                     WRITE only; borrowed with what they point to                */
    uint32_t iov_count;
    uint32_t blocks; /**< 1..SNIC_EBS_IO_BLOCKS_MAX                                              */
    uint32_t disk;
    uint8_t op;     /**< enum snic_ebs_io_op                                                      */
    uint8_t state;  /**< the queue's                                                              */
    uint16_t flags; /**< SNIC_EBS_IO_STATES                                                      */
    /* -- out -- */
    int32_t result;   /**< 0; SNIC_EIO abandoned, or the server's device failed; SNIC_ENOSPC the
                           server's store is full; SNIC_ECORRUPT a block's data are damaged there;
                           SNIC_ESTALE another client has the disk's lease; SNIC_EINVAL the server
                           refuses; SNIC_EUNKNOWN halted                                         */
    uint32_t retries; /**< blocks sent or requested again                                        */
    uint64_t submitted_ns;
    uint64_t admitted_ns; /**< 0: it was not                                                     */
    uint64_t done_ns;
    /* -- the queue's -- */
    struct snic_link link;
    struct snic_link order;
    uint64_t wver;
    uint32_t cursor; /**< blocks that have an RPC                                                */
    uint32_t rpcs;   /**< of them unfinished                                                     */
    uint32_t piece;  /**< where the cursor is in iov                                             */
    uint32_t piece_block;
    struct snic_link age;
};

/** A disk: zero it, set opts_size, vd_id, sa_epoch, blocks. */
struct snic_ebs_disk_opts {
    uint32_t opts_size;
    uint32_t sa_epoch; /**< 1..65535: the lease; each attach needs a higher one: with one that was
                            used before, writes are older than the stored blocks. The first write
                            that is found to be so ends the lease (LEASE), others may be lost    */
    uint64_t vd_id;
    uint64_t blocks;           /**< of the disk, 1..2^40                                         */
    uint64_t bytes_per_second; /**< QoS, 0: none                                                 */
    uint64_t burst_bytes;      /**< default: 10 ms of the rate, 1 MiB at least                   */
    uint64_t ios_per_second;   /**< 0: none                                                      */
    uint64_t burst_ios;        /**< default: 10 ms of the rate, 32 at least                      */
    void *xts_key; /**< of the sec ops, borrowed until detach; NULL: not encrypted               */
};

/* ---- For transports ---- */

struct snic_ebs_queue;

enum snic_ebs_rpc_where {
    SNIC_EBS_RPC_FREE = 0,
    SNIC_EBS_RPC_PARKED,  /**< waits for a map entry; on `parked`                                */
    SNIC_EBS_RPC_FENCING, /**< abandoned, waits for FENCE_ACK; on `outs`                         */
    SNIC_EBS_RPC_ENDED,   /**< all acknowledged, or failed; on `outs` until refs is 0            */
    SNIC_EBS_RPC_OUT,     /**< all under way; on `outs`                                          */
    SNIC_EBS_RPC_OTHER    /**< this and what follows is on lists of the transport's              */
};

/** Up to 64 blocks of one I/O in one segment. Plain data; the transport embeds it. */
struct snic_ebs_rpc {
    struct snic_timer timer; /**< the transport's, and that of fences; fn is the transport's     */
    struct snic_link link;
    struct snic_link of_disk;
    struct snic_ebs_ask ask; /**< until its server responds                                      */
    struct snic_ebs_io *io;  /**< NULL: FREE                                                     */
    uint64_t id;             /**< never reused; its lower bits are the slot                      */
    uint64_t lba;
    uint64_t seg_id;
    uint64_t wver;
    uint64_t made_ns;
    uint64_t acked; /**< blocks, the transport's; all of them are `all`                          */
    uint64_t all;   /**< count ones                                                              */
    uint64_t fence_ns;
    uint32_t seg_gen;
    uint32_t server; /**< or snic_ebs_nowhere()                                                  */
    uint32_t disk;
    uint32_t slot;
    uint32_t refs;  /**< pointers to its blocks: it is not FREE before there are none            */
    uint32_t piece; /**< of block 0 in io->iov                                                   */
    uint32_t piece_block;
    int32_t result;
    uint8_t op;
    uint8_t count;
    uint8_t where; /**< enum snic_ebs_rpc_where, or the transport's                              */
    uint8_t sent;  /**< something of it may be under way                                         */
    uint8_t pad[4];
};

/** A server's load from this agent. */
struct snic_ebs_load {
    uint32_t rpcs;
    uint32_t backlog; /**< blocks that wait to be sent: from 256 on disks wait; the transport's  */
    uint8_t used;     /**< the number is a server's                                              */
    uint8_t told;     /**< SUSPECT was reported                                                  */
    uint8_t pad[2];
    uint32_t abandoned; /**< of its RPCs                                                        */
    struct snic_ebs_busy busy;
};

/** A disk. */
struct snic_ebs_disk {
    uint8_t used;
    uint8_t limited;  /**< has QoS                                                               */
    uint8_t lost;     /**< the lease                                                             */
    uint8_t say;      /**< LEASE is to be reported                                               */
    uint8_t map_said; /**< MAP was reported for the first I/O                                    */
    uint8_t say_map;  /**< MAP is to be reported for it                                          */
    uint8_t charged;  /**< the first I/O is admitted, its RPCs are not all made                   */
    uint8_t say_token; /**< TOKEN is to be reported                                              */
    uint32_t index;
    uint32_t inside; /**< I/Os                                                                   */
    uint32_t abandoned; /**< its RPCs whose I/O is `orphan`                                      */
    int64_t deficit;
    uint64_t vd_id;
    uint64_t blocks;
    uint64_t wver; /**< the last one assigned                                                    */
    uint64_t need_segment;             /**< that the first I/O waits for, without an RPC         */
    uint64_t need_ns;                  /**< since when, if a part of the I/O has RPCs            */
    struct snic_ebs_qos_limits limits; /**< the table's golden copy                              */
    uint32_t need_gen;
    uint32_t pad2;
    struct snic_ebs_ask ask; /**< of the first I/O, while map_said; on no list                   */
    void *xts_key;
    struct snic_ebs_tag_key tag; /**< with a key                                             */
    struct snic_link queue; /**< I/Os not admitted                                               */
    struct snic_link order; /**< writes and flushes inside, in the order of submission           */
    struct snic_link rpcs;
    struct snic_link turn;
    struct snic_link event;
    struct snic_ebs_map *map;
    void *map_mem;
    unsigned char token[SNIC_EBS_TOKEN_BYTES];
    uint32_t token_serial;  /**< of the token, in its presentations; 0: it has none              */
    uint32_t token_wait_us; /**< until a request answered NO_TOKEN is sent again                 */
    uint64_t token_said_ns; /**< TOKEN is not reported before                                    */
    uint32_t token_bad;     /**< 1: a server has refused it as FORBIDDEN                         */
    uint32_t pad3;
};

/**
 * A transport's operations on an RPC. No other RPC may end inside, and none at all in made and
 * leave.
 */
struct snic_ebs_queue_ops {
    /** It is new; the transport's fields are not set. It is on no list: snic_ebs_rpc_move() it if
        it has a server; if that is snic_ebs_nowhere() the queue parks it. */
    void (*made)(struct snic_ebs_queue *q, struct snic_ebs_rpc *r);
    /** It leaves its server, which is still set: from now on nothing of it counts as in flight
        there, nor is in its backlog. If it is FENCING, begin does not follow: its fence goes to the
        new one. */
    void (*leave)(struct snic_ebs_queue *q, struct snic_ebs_rpc *r);
    /** It has another one: all unacknowledged blocks begin again. On no list, as in made. */
    void (*begin)(struct snic_ebs_queue *q, struct snic_ebs_rpc *r);
    /** Its deadline has passed, and it is neither FENCING nor ENDED: snic_ebs_rpc_fence() if a
        write may be under way, else it ends. */
    void (*give_up)(struct snic_ebs_queue *q, struct snic_ebs_rpc *r, int result);
    /** It is not ENDED, and ends now, whatever is in flight: snic_ebs_rpc_ended(). */
    void (*end)(struct snic_ebs_queue *q, struct snic_ebs_rpc *r, int result);
};

/** The transport has checked all, and set the defaults. */
struct snic_ebs_queue_opts {
    uint32_t client_epoch;
    uint32_t disks_max;
    uint32_t servers_max;
    uint32_t rpcs_max; /**< power of two                                                         */
    uint32_t chunks_max;
    uint32_t pad;
    uint64_t disk_blocks_max;
    uint64_t deadline_ns;
    uint64_t slow_ns;
    uint64_t seed;
    uint64_t error_ns; /**< 0: a write waits for its fence, however long that takes              */
};

struct snic_ebs_queue_stats {
    uint64_t ios[5]; /**< done, by op                                                            */
    uint64_t failed; /**< of them, with an error                                                 */
    uint64_t blocks_written;
    uint64_t blocks_read;
    uint64_t tables; /**< entries of tables that were found damaged, and rebuilt                 */
    uint64_t busy;   /**< answers BUSY                                                           */
    uint64_t stale_gens;
    uint64_t fences;
    uint64_t abandoned; /**< RPCs whose fence outlives the I/O, which has ended after error_ns   */
    uint64_t slow;
    uint32_t inside; /**< I/Os                                                                   */
    uint32_t rpcs;
    uint32_t rpcs_high;
    uint32_t pad;
};

/** Into a transport's figures, whose fields have the same names. */
#define SNIC_EBS_QUEUE_STATS(out, in)                                                              \
    do {                                                                                           \
        memcpy((out)->ios, (in)->ios, sizeof((out)->ios));                                         \
        (out)->failed = (in)->failed;                                                              \
        (out)->blocks_written = (in)->blocks_written;                                              \
        (out)->blocks_read = (in)->blocks_read;                                                    \
        (out)->tables = (in)->tables;                                                              \
        (out)->busy = (in)->busy;                                                                  \
        (out)->stale_gens = (in)->stale_gens;                                                      \
        (out)->fences = (in)->fences;                                                              \
        (out)->abandoned = (in)->abandoned;                                                        \
        (out)->slow = (in)->slow;                                                                  \
        (out)->inside = (in)->inside;                                                              \
        (out)->rpcs = (in)->rpcs;                                                                  \
        (out)->rpcs_high = (in)->rpcs_high;                                                        \
    } while (0)

/** Embed it; not to be moved. */
struct snic_ebs_queue {
    struct snic_ebs_queue_opts o;
    const struct snic_ebs_queue_ops *ops;
    uint64_t now_ns;
    uint64_t qos_ns; /**< when a disk's QoS permits; SNIC_NEVER                             */
    uint32_t rpcs_free;
    uint32_t slot_bits;
    uint8_t halted;
    uint8_t dirty; /**< something may have to be sent or admitted                                */
    uint8_t pad[6];
    unsigned char *maps;
    size_t map_bytes; /**< at the end of the memory: need not be zeroed                          */
    struct snic_rng rng;
    struct snic_wheel wheel;
    struct snic_ebs_disk *disks;
    struct snic_ebs_load *loads; /**< one more than servers: snic_ebs_nowhere()                  */
    struct snic_ebs_qos *qos;
    struct snic_link free;
    struct snic_link outs;
    struct snic_link parked;
    struct snic_link turns;   /**< disks with I/Os to be admitted                                */
    struct snic_link limited; /**< disks that wait for their QoS                                 */
    struct snic_link done;
    struct snic_link ages;  /**< I/Os by submission                                              */
    struct snic_link *slow; /**< the first in ages that was not reported slow                    */
    struct snic_link disk_events;
    struct snic_ebs_io orphan; /**< the I/O of RPCs that are abandoned: never done               */
    struct snic_ebs_asks asks; /**< when lookups of RPCs and disks are due                       */
    struct snic_ebs_queue_stats s;
};

/** A number that no server has: that of RPCs that are PARKED because their location is unknown. */
static inline uint32_t snic_ebs_nowhere(const struct snic_ebs_queue *q)
{
    return q->o.servers_max;
}
/** 1: READ and FLUSH change nothing, all else does. */
static inline int snic_ebs_io_writes(uint32_t op)
{
    return op >= SNIC_EBS_IO_WRITE && op <= SNIC_EBS_IO_TRIM;
}

/**
 * Take the parts into @p parts. Nothing may follow them in the arena: the last map_bytes need not
 * be zeroed, all else has to be. Aligned to SNIC_CACHELINE. [owner]
 */
SNIC_API void snic_ebs_queue_layout(struct snic_arena *a, const struct snic_ebs_queue_opts *o,
                                    struct snic_ebs_queue *parts) SNIC_NONNULL(1, 2, 3);
/** @p q has its parts, zeroed but for map_bytes, and is otherwise 0. [owner] */
SNIC_API void snic_ebs_queue_init(struct snic_ebs_queue *q, const struct snic_ebs_queue_opts *o,
                                  const struct snic_ebs_queue_ops *ops, uint64_t now_ns)
    SNIC_NONNULL(1, 2, 3);
/** Add RPC @p r, which is zeroed, as slot @p slot; its timer calls @p fired. Call it after init for
    all slots, from 0 to rpcs_max - 1 in this order. The lower bits of an id are its slot. [owner]
 */
SNIC_API void snic_ebs_queue_add(struct snic_ebs_queue *q, struct snic_ebs_rpc *r, uint32_t slot,
                                 snic_timer_fn fired) SNIC_NONNULL(1, 2);

/**
 * Attach a disk under a free number; @p sec: its key's; NULL: it must have no key. [owner]
 * @return 0; SNIC_EINVAL number, options; SNIC_EEXIST; SNIC_EOVERFLOW sa_epoch is above 65535;
 *         errors of @p sec
 */
SNIC_API SNIC_NODISCARD int snic_ebs_queue_attach(struct snic_ebs_queue *q, uint32_t disk,
                                                  const struct snic_ebs_disk_opts *o,
                                                  const struct snic_ebs_sec_ops *sec,
                                                  uint64_t now_ns) SNIC_NONNULL(1, 3);
/** Forget a disk. @return 0; SNIC_ENOENT; SNIC_EBUSY I/Os inside [owner] */
SNIC_API SNIC_NODISCARD int snic_ebs_queue_detach(struct snic_ebs_queue *q, uint32_t disk)
    SNIC_NONNULL(1);
/** Change a disk's QoS; debt stays. @return 0; SNIC_ENOENT; SNIC_EINVAL [owner] */
SNIC_API SNIC_NODISCARD int snic_ebs_queue_limit(struct snic_ebs_queue *q, uint32_t disk,
                                                 const struct snic_ebs_disk_opts *o,
                                                 uint64_t now_ns) SNIC_NONNULL(1, 3);
/**
 * A segment is at @p w from now on; what waits for it begins there. [owner]
 * @return 0; SNIC_ENOENT disk or server; SNIC_EINVAL segment; SNIC_ESTALE the generation is older;
 *         SNIC_ENOSPC chunks_max GiB of the disk are mapped
 */
SNIC_API SNIC_NODISCARD int snic_ebs_queue_map(struct snic_ebs_queue *q, uint32_t disk,
                                               uint64_t segment, const struct snic_ebs_where *w,
                                               uint64_t now_ns) SNIC_NONNULL(1, 4);
/**
 * A segment did not exist at some time from @p asked_ns on: nothing had ever been written there.
 * What was submitted by then, and waits for its first location, is done: reads with zeros, ZERO and
 * TRIM without effect. Writes wait on, and so does what was submitted later, which the answer does
 * not cover. It is not remembered. O(RPCs of the disk). [owner]
 * @param asked_ns  when the lookup began; the clock of now_ns
 * @return 0; SNIC_ENOENT disk
 */
SNIC_API SNIC_NODISCARD int snic_ebs_queue_hole(struct snic_ebs_queue *q, uint32_t disk,
                                                uint64_t segment, uint64_t asked_ns,
                                                uint64_t now_ns) SNIC_NONNULL(1);
/**
 * A segment can not be placed: what waits for its first location ends with @p result. Not
 * remembered: a later I/O looks it up again. O(RPCs of the disk). [owner]
 * @param result  for example SNIC_ENOSPC
 * @return 0; SNIC_ENOENT disk
 */
SNIC_API SNIC_NODISCARD int snic_ebs_queue_refuse(struct snic_ebs_queue *q, uint32_t disk,
                                                  uint64_t segment, int result, uint64_t now_ns)
    SNIC_NONNULL(1);
/** For a placement: a write, and any I/O that had a location before. */
#define SNIC_EBS_WAITS_PLACE (1u << 0)
/** For the location, if the segment exists: what snic_ebs_queue_hole() ends. */
#define SNIC_EBS_WAITS_HOLE (1u << 1)
/** @return SNIC_EBS_WAITS_*: what waits for a segment; RPCs in flight count as PLACE. 0: nothing.
 * O(RPCs of the disk). [owner] */
SNIC_API uint32_t snic_ebs_queue_waits(const struct snic_ebs_queue *q, uint32_t disk,
                                       uint64_t segment) SNIC_NONNULL(1);
/** How many segments the maps have at @p server; @p forget: they are forgotten. [owner] */
SNIC_API uint64_t snic_ebs_queue_mapped(struct snic_ebs_queue *q, uint32_t server, int forget)
    SNIC_NONNULL(1);
/**
 * Set the token that servers are shown for a disk from now on (ebs_token.h); copied. [owner]
 * @return 1 it is another one than before; 0 it is not; SNIC_ENOENT disk
 */
SNIC_API SNIC_NODISCARD int snic_ebs_queue_token(struct snic_ebs_queue *q, uint32_t disk,
                                                 const unsigned char token[SNIC_EBS_TOKEN_BYTES])
    SNIC_NONNULL(1, 3);
/** 1: a request answered NO_TOKEN is sent again, after the token; 0: it fails as with FORBIDDEN.
 * [owner] */
static inline int snic_ebs_disk_presents(const struct snic_ebs_disk *d)
{
    return d->token_serial != 0 && !d->token_bad;
}
/** Least token_wait_us. */
#define SNIC_EBS_TOKEN_WAIT_US 500u
/** A block of the disk is done, so servers accept its token: reset the back-off. [owner] */
static inline void snic_ebs_disk_token_works(struct snic_ebs_disk *d)
{
    d->token_wait_us = SNIC_EBS_TOKEN_WAIT_US;
}
/** A server has answered NO_TOKEN: the token is sent again, or the owner is to get one. [owner] */
SNIC_API void snic_ebs_disk_token_wanted(struct snic_ebs_queue *q, struct snic_ebs_disk *d)
    SNIC_NONNULL(1, 2);
/** The rpc_id of a TOKEN of the disk: of epoch 0, which no RPC's has. [owner] */
static inline uint64_t snic_ebs_disk_token_id(const struct snic_ebs_disk *d)
{
    return (uint64_t)d->token_serial << 16 | d->index;
}
/**
 * A server has answered a TOKEN. All but OK are reported to the owner; after FORBIDDEN none is sent
 * until there is another token. [owner]
 * @return 1; 0 the answer is not to a TOKEN, or to an older one
 */
SNIC_API int snic_ebs_queue_token_answer(struct snic_ebs_queue *q, uint64_t rpc_id, uint32_t status)
    SNIC_NONNULL(1);
/** Another client has the disk's lease: no more writes; to be reported. [owner] */
SNIC_API void snic_ebs_queue_lost(struct snic_ebs_queue *q, uint32_t disk) SNIC_NONNULL(1);

/**
 * Queue an I/O. [owner]
 * @return 0; SNIC_ENOENT disk, or halted; SNIC_EINVAL op, range, pieces; SNIC_EROFS a write, the
 *         lease is lost; SNIC_EOVERFLOW 2^48 writes under one sa_epoch
 */
SNIC_API SNIC_NODISCARD int snic_ebs_queue_submit(struct snic_ebs_queue *q, struct snic_ebs_io *io,
                                                  uint64_t now_ns) SNIC_NONNULL(1, 2);
/** End I/Os whose deadline has passed. [owner] */
SNIC_API void snic_ebs_queue_age(struct snic_ebs_queue *q) SNIC_NONNULL(1);
/** Begin the lookups that are due. [owner] */
SNIC_API void snic_ebs_queue_ask(struct snic_ebs_queue *q) SNIC_NONNULL(1);
/** Admit I/Os and make their RPCs. [owner] */
SNIC_API void snic_ebs_queue_admit(struct snic_ebs_queue *q) SNIC_NONNULL(1);
/**
 * End all RPCs and I/Os, those that are FENCING, too, with SNIC_EUNKNOWN unless a part had failed
 * before. An I/O to whose blocks there are references is done at the last snic_ebs_rpc_unref().
 * [owner]
 */
SNIC_API void snic_ebs_queue_halt(struct snic_ebs_queue *q) SNIC_NONNULL(1);

/** A notification to the owner. */
struct snic_ebs_said {
    uint32_t disk;
    uint32_t lease; /**< 1: it has lost its lease; 0: look up the segment, or token            */
    uint64_t segment;
    uint32_t gen32;
    uint32_t token; /**< 1: a server does not accept its token, it needs another one           */
};
/** The next I/O that is done, or NULL; ownership returns to the caller. [owner] */
SNIC_API struct snic_ebs_io *snic_ebs_queue_done(struct snic_ebs_queue *q) SNIC_NONNULL(1);
/** The next notification. @return 1; 0 there is none now [owner] */
SNIC_API int snic_ebs_queue_say(struct snic_ebs_queue *q, struct snic_ebs_said *out)
    SNIC_NONNULL(1, 2);
/** The next I/O that has become slow, or NULL. [owner] */
SNIC_API struct snic_ebs_io *snic_ebs_queue_slow(struct snic_ebs_queue *q) SNIC_NONNULL(1);
/** When to poll, the wheel included; SNIC_NEVER. [owner] */
SNIC_API uint64_t snic_ebs_queue_deadline_ns(struct snic_ebs_queue *q) SNIC_NONNULL(1);
/** What a disk waits for. @return 1; 0 nothing that is admitted; SNIC_ENOENT [owner] */
SNIC_API SNIC_NODISCARD int snic_ebs_queue_get_wait(const struct snic_ebs_queue *q, uint32_t disk,
                                                    struct snic_ebs_wait *out) SNIC_NONNULL(1, 3);
/** Does a server refuse requests, or did its store fail? @return 0; SNIC_ENOENT [owner] */
SNIC_API SNIC_NODISCARD int snic_ebs_queue_get_busy(const struct snic_ebs_queue *q, uint32_t server,
                                                    struct snic_ebs_busy *out) SNIC_NONNULL(1, 3);
/** 0 or SNIC_ECORRUPT. O(everything). For tests. [owner] */
SNIC_API int snic_ebs_queue_check(const struct snic_ebs_queue *q) SNIC_NONNULL(1);

/** 1: it was abandoned, or has ended: its blocks are not sent any more. */
static inline int snic_ebs_rpc_over(const struct snic_ebs_rpc *r)
{
    return r->where == SNIC_EBS_RPC_FENCING || r->where == SNIC_EBS_RPC_ENDED;
}
/** 1: it queries the states of the segment's blocks; its answer is never encrypted. It must not be
 * ENDED. */
static inline int snic_ebs_rpc_states(const struct snic_ebs_rpc *r)
{
    return r->op == SNIC_EBS_IO_READ && (r->io->flags & SNIC_EBS_IO_STATES) != 0;
}
/** Move it to @p list, that of @p where. [owner] */
static inline void snic_ebs_rpc_move(struct snic_ebs_rpc *r, struct snic_link *list, uint32_t where)
{
    snic_link_remove(&r->link);
    snic_link_append(list, &r->link);
    r->where = (uint8_t)where;
}
/** Its server has responded to it. [owner] */
SNIC_API void snic_ebs_rpc_heard(struct snic_ebs_queue *q, struct snic_ebs_rpc *r)
    SNIC_NONNULL(1, 2);
/**
 * End an RPC that is not ENDED, with @p result: acked becomes all. When refs is 0, perhaps inside
 * this call, it is FREE and may be reused; its I/O is done when its last RPC is. [owner]
 */
SNIC_API void snic_ebs_rpc_ended(struct snic_ebs_queue *q, struct snic_ebs_rpc *r, int result)
    SNIC_NONNULL(1, 2);
/** One of refs is gone. [owner] */
SNIC_API void snic_ebs_rpc_unref(struct snic_ebs_queue *q, struct snic_ebs_rpc *r)
    SNIC_NONNULL(1, 2);
/**
 * Its server does not know its segment, and it is neither FENCING nor ENDED: the map entry is
 * invalidated, its timer cancelled, and its location looked up. @return 1; 0 it is PARKED already
 * [owner]
 */
SNIC_API int snic_ebs_rpc_park(struct snic_ebs_queue *q, struct snic_ebs_rpc *r) SNIC_NONNULL(1, 2);
/** A write that may be under way is abandoned: FENCING, its timer fires at once. [owner] */
SNIC_API void snic_ebs_rpc_fence(struct snic_ebs_queue *q, struct snic_ebs_rpc *r, int result)
    SNIC_NONNULL(1, 2);
/**
 * Its timer has fired: rearm it, after twice as long each time, up to @p max_ns. [owner]
 * @return fences to be sent now: 0; 1; 3 once the interval has reached @p max_ns
 */
SNIC_API uint32_t snic_ebs_rpc_fence_again(struct snic_ebs_queue *q, struct snic_ebs_rpc *r,
                                           uint64_t max_ns) SNIC_NONNULL(1, 2);
/** The server refuses the fence: it is sent much later. [owner] */
SNIC_API void snic_ebs_rpc_fence_refused(struct snic_ebs_queue *q, struct snic_ebs_rpc *r)
    SNIC_NONNULL(1, 2);
/** The server answers BUSY: if its timer is not armed, it fires after retry_us, which is hostile:
    clamped to 100 us to 100 ms. [owner] */
SNIC_API void snic_ebs_rpc_later(struct snic_ebs_queue *q, struct snic_ebs_rpc *r,
                                 uint32_t retry_us) SNIC_NONNULL(1, 2);

#ifdef __cplusplus
}
#endif
#endif /* SNIC_EBS_QUEUE_H */
