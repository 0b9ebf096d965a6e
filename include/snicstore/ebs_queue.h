/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/**
 * @file snicstore/ebs_queue.h
 * I/Os of virtual disks on their way to RPCs: what a storage agent does whatever its transport is
 * (Miao et al., SIGCOMM 2022, figures 5 and 12: the SA). An I/O waits in its disk's queue, is
 * admitted in turn and within the disk's limits, gets its version, is split into RPCs, and ends
 * when they have. Between that the transport sends, acknowledges, and gives up.
 *
 * For transports, solar.h and luna.h among them; who uses one of those needs of this file the I/O,
 * the disk's options and what a server refuses.
 *
 * Depends on  snicstore/base.h, snicstore/ebs.h.
 * Memory      The caller's: snic_ebs_queue_layout() takes from an arena what its options need.
 *             Nothing allocates.
 * Threads     [owner] one thread owns a queue and all that is in it.
 * Progress    No call blocks. O(1) per RPC, amortised; O(RPCs of the disk) are map, hole, waits,
 *             say, an I/O's expiry, a fence's timer, O(disks and RPCs) ask, when somebody has to.
 * Errors      0 on success, a negative SNIC_E* otherwise; then nothing changed.
 * Units       nanoseconds; blocks of 4096 bytes; bytes where it says so.
 * Input       I/Os and options are the owner's, and checked.
 *
 * Turns. Disks take turns by deficit round robin of 64 KiB; the I/Os of one disk are admitted in
 * order, so versions grow in that order, too. A server may hold half of all RPCs, so that one that
 * is silent does not silence the others; and so may those whose place is not known.
 *
 * A transport embeds the queue and, in each of its RPCs, a snic_ebs_rpc:
 *
 *     at a poll:  q->now_ns = the time, if it is later;
 *                 while ((t = snic_wheel_pop(&q->wheel, q->now_ns)) != NULL) t->fn(t, q->now_ns);
 *                 snic_ebs_queue_age(q); snic_ebs_queue_ask(q);
 *                 if (q->dirty || q->now_ns >= q->qos_ns) { q->dirty = 0; _admit(q); send; }
 *     then what there is to say:  _done(q), _say(q, &said), _slow(q); after _halt() only _done(q)
 *     sleep until:                snic_ebs_queue_deadline_ns(q), or what the transport waits for
 *
 * Who sets what, of the structs below:
 *   now_ns        the transport, with every time that it is told; it never goes back
 *   dirty         both: there is something to admit or to send
 *   wheel, rng    both; rng is seeded, and the order of its draws is part of what a seed replays
 *   loads         used, told, backlog and busy are the transport's. On a server's removal, when its
 *                 rpcs are 0: snic_ebs_queue_mapped(q, server, 1), then all of its load is 0. Who
 *                 sets told to 1 calls snic_ebs_asks_hurry(&q->asks, now), or nobody asks early.
 *                 busy by snic_ebs_busy_said(), _failed(), _over(). backlog may count PARKED ones.
 *   an RPC        acked, sent, refs (up; down by snic_ebs_rpc_unref()) and io->retries are the
 *                 transport's; its timer both's: ended, parked or elsewhere it is not armed
 *   s             blocks_written and busy are the transport's, tables and blocks_read both's
 *   all else      the queue's
 *
 * What is given up. A write that may be under way is FENCING: a FENCE of its segment with its wver
 * and one refuses all copies; FENCE_ACK, as does a higher generation, ends it, with its result.
 *
 * Invariants (snic_ebs_queue_check)
 *   Q1  An RPC that is not FREE is on its disk's list, and on one that `where` says: `parked` is
 *       all that are PARKED, `outs` all FENCING, ENDED and OUT, `free` all FREE, but for those
 *       whose numbers are used up.
 *   Q2  rpcs of a load is the number of RPCs of that server that are not FREE.
 *   Q3  A version is given once: wver of a disk only rises, and stays within its sa_epoch.
 *   Q4  Whoever waits has a turn, waits for its limits, or has asked for a place.
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

/** An I/O's flag: a READ of one block, the first of a segment, gives what each block of the segment
    is (SNIC_EBS_STATES) instead of its data; zeros where nothing was ever written. */
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
    int32_t result;   /**< 0; SNIC_EIO given up, or the server's device failed; SNIC_ENOSPC the
                           server's store is full; SNIC_ECORRUPT a block's data are damaged there;
                           SNIC_ESTALE the disk's lease is another's; SNIC_EINVAL the server
                           refuses; SNIC_EUNKNOWN halted                                         */
    uint32_t retries; /**< blocks sent or asked for again                                        */
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
                            used before, writes are older than what is there. The first that is
                            found out to be ends the lease (LEASE), others may be lost           */
    uint64_t vd_id;
    uint64_t blocks;           /**< of the disk, 1..2^40                                         */
    uint64_t bytes_per_second; /**< QoS, 0: none                                                 */
    uint64_t burst_bytes;      /**< default: 10 ms of it, 1 MiB at least                         */
    uint64_t ios_per_second;   /**< 0: none                                                      */
    uint64_t burst_ios;        /**< default: 10 ms of it, 32 at least                            */
    void *xts_key; /**< of the sec ops, borrowed until detach; NULL: not encrypted               */
};

/* ---- For transports ---- */

struct snic_ebs_queue;

enum snic_ebs_rpc_where {
    SNIC_EBS_RPC_FREE = 0,
    SNIC_EBS_RPC_PARKED,  /**< for a map entry; on `parked`                                      */
    SNIC_EBS_RPC_FENCING, /**< given up: for FENCE_ACK; on `outs`                                */
    SNIC_EBS_RPC_ENDED,   /**< all acknowledged, or failed; on `outs` until refs is 0            */
    SNIC_EBS_RPC_OUT,     /**< all under way; on `outs`                                          */
    SNIC_EBS_RPC_OTHER    /**< this and what follows is on lists of the transport's              */
};

/** Up to 64 blocks of one I/O in one segment. Plain data; the transport embeds it. */
struct snic_ebs_rpc {
    struct snic_timer timer; /**< the transport's, and that of fences; fn is the transport's     */
    struct snic_link link;
    struct snic_link of_disk;
    struct snic_ebs_ask ask; /**< until something is heard of it                                 */
    struct snic_ebs_io *io;  /**< NULL: FREE                                                     */
    uint64_t id;             /**< never comes back; its lower bits are the slot                  */
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
    uint32_t refs;  /**< what shows its blocks: it is not FREE before that is 0                  */
    uint32_t piece; /**< of block 0 in io->iov                                                   */
    uint32_t piece_block;
    int32_t result;
    uint8_t op;
    uint8_t count;
    uint8_t where; /**< enum snic_ebs_rpc_where, or the transport's                              */
    uint8_t sent;  /**< something of it may be under way                                         */
    uint8_t pad[4];
};

/** What a server has to do for this agent. */
struct snic_ebs_load {
    uint32_t rpcs;
    uint32_t backlog; /**< blocks that wait to be sent: from 256 on disks wait; the transport's  */
    uint8_t used;     /**< the number is a server's                                              */
    uint8_t told;     /**< it is SUSPECT                                                         */
    uint8_t pad[2];
    uint32_t abandoned; /**< of its RPCs                                                        */
    struct snic_ebs_busy busy;
};

/** A disk. */
struct snic_ebs_disk {
    uint8_t used;
    uint8_t limited;  /**< has QoS                                                               */
    uint8_t lost;     /**< the lease                                                             */
    uint8_t say;      /**< LEASE to be said                                                      */
    uint8_t map_said; /**< MAP was said for the first I/O                                        */
    uint8_t say_map;
    uint8_t charged; /**< the first I/O is admitted, its RPCs are not all made                   */
    uint8_t say_token; /**< TOKEN to be said                                                     */
    uint32_t index;
    uint32_t inside; /**< I/Os                                                                   */
    uint32_t abandoned; /**< RPCs of `orphan`                                                    */
    int64_t deficit;
    uint64_t vd_id;
    uint64_t blocks;
    uint64_t wver; /**< the last given                                                           */
    uint64_t need_segment;
    uint64_t need_ns;                  /**< since then the first I/O, of which a part is out,
                                            needs it                                             */
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
    uint32_t token_wait_us; /**< until what was answered NO_TOKEN is sent again                  */
    uint64_t token_said_ns; /**< no TOKEN is said before                                         */
    uint32_t token_bad;     /**< 1: a server says that it is not valid, nor will be              */
    uint32_t pad3;
};

/**
 * What a transport does with an RPC. No other RPC may end inside, and none at all in made and
 * leave.
 */
struct snic_ebs_queue_ops {
    /** It is new; what is the transport's is not set. It is on no list: snic_ebs_rpc_move() it if
        it has a server; on that of snic_ebs_nowhere() the queue parks it. */
    void (*made)(struct snic_ebs_queue *q, struct snic_ebs_rpc *r);
    /** It leaves its server, which is set still: nothing of it is under way there any more, nor in
        its backlog. If it is FENCING, begin does not follow: its fence goes to the new one. */
    void (*leave)(struct snic_ebs_queue *q, struct snic_ebs_rpc *r);
    /** It has another one: all that is not acknowledged begins again. On no list, as in made. */
    void (*begin)(struct snic_ebs_queue *q, struct snic_ebs_rpc *r);
    /** Its time is over, and it is neither FENCING nor ENDED: snic_ebs_rpc_fence() where a write
       may be under way, else it ends. */
    void (*give_up)(struct snic_ebs_queue *q, struct snic_ebs_rpc *r, int result);
    /** It is not ENDED, and ends now, whatever is under way: snic_ebs_rpc_ended(). */
    void (*end)(struct snic_ebs_queue *q, struct snic_ebs_rpc *r, int result);
};

/** All are checked by the transport, and set. */
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
    uint64_t failed; /**< of them, not with 0                                                    */
    uint64_t blocks_written;
    uint64_t blocks_read;
    uint64_t tables; /**< entries of tables that were found damaged, and made anew               */
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
    struct snic_link limited; /**< disks whose QoS says not yet                                  */
    struct snic_link done;
    struct snic_link ages;  /**< I/Os by submission                                              */
    struct snic_link *slow; /**< the first that was not called slow: in ages                     */
    struct snic_link disk_events;
    struct snic_ebs_io orphan; /**< the I/O of RPCs that are abandoned: never done               */
    struct snic_ebs_asks asks; /**< when RPCs and disks ask where a segment is                   */
    struct snic_ebs_queue_stats s;
};

/** The number that no server has: of RPCs that are PARKED, since nothing is known of their place.
 */
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
 * Take the parts; they are in @p parts. What follows in the arena is to be nothing: the last
 * map_bytes need not be zeroed, all else has to be. Aligned to SNIC_CACHELINE. [owner]
 */
SNIC_API void snic_ebs_queue_layout(struct snic_arena *a, const struct snic_ebs_queue_opts *o,
                                    struct snic_ebs_queue *parts) SNIC_NONNULL(1, 2, 3);
/** @p q has its parts, zeroed but for map_bytes, and is otherwise 0. [owner] */
SNIC_API void snic_ebs_queue_init(struct snic_ebs_queue *q, const struct snic_ebs_queue_opts *o,
                                  const struct snic_ebs_queue_ops *ops, uint64_t now_ns)
    SNIC_NONNULL(1, 2, 3);
/** Slot @p slot is @p r's, which is zeroed, and whose timer fires @p fired: all, from 0 to rpcs_max
   - 1 in this order, after init. The lower bits of an id are its slot. [owner] */
SNIC_API void snic_ebs_queue_add(struct snic_ebs_queue *q, struct snic_ebs_rpc *r, uint32_t slot,
                                 snic_timer_fn fired) SNIC_NONNULL(1, 2);

/**
 * Attach a disk under a free number; @p sec: of its key, NULL: it may have none. [owner]
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
 * @return 0; SNIC_ENOENT disk or server; SNIC_EINVAL segment; SNIC_ESTALE generation went back;
 *         SNIC_ENOSPC chunks_max GiB of the disk are mapped
 */
SNIC_API SNIC_NODISCARD int snic_ebs_queue_map(struct snic_ebs_queue *q, uint32_t disk,
                                               uint64_t segment, const struct snic_ebs_where *w,
                                               uint64_t now_ns) SNIC_NONNULL(1, 4);
/**
 * A segment was nowhere at some time from @p asked_ns on: nothing had ever been written there. What
 * was submitted by then, waits for its place, and was told of none before, is done: reads with
 * zeros, ZERO and TRIM as they are. Writes wait on, and so does what came later: the answer says
 * nothing of it. It is not remembered. O(RPCs of the disk). [owner]
 * @param asked_ns  when it was asked; the clock of now_ns
 * @return 0; SNIC_ENOENT disk
 */
SNIC_API SNIC_NODISCARD int snic_ebs_queue_hole(struct snic_ebs_queue *q, uint32_t disk,
                                                uint64_t segment, uint64_t asked_ns,
                                                uint64_t now_ns) SNIC_NONNULL(1);
/**
 * A segment can have no place: what waits for one there, and was told of none before, ends with
 * @p result. Not remembered: what comes later asks again. O(RPCs of the disk). [owner]
 * @param result  SNIC_ENOSPC, say
 * @return 0; SNIC_ENOENT disk
 */
SNIC_API SNIC_NODISCARD int snic_ebs_queue_refuse(struct snic_ebs_queue *q, uint32_t disk,
                                                  uint64_t segment, int result, uint64_t now_ns)
    SNIC_NONNULL(1);
/** For a place: a write, and what was told of one before. */
#define SNIC_EBS_WAITS_PLACE (1u << 0)
/** For a place, if there is one: what snic_ebs_queue_hole() ends. */
#define SNIC_EBS_WAITS_HOLE (1u << 1)
/** @return SNIC_EBS_WAITS_*: what waits for a segment; what is under way counts as PLACE. 0:
 * nothing. O(RPCs of the disk). [owner] */
SNIC_API uint32_t snic_ebs_queue_waits(const struct snic_ebs_queue *q, uint32_t disk,
                                       uint64_t segment) SNIC_NONNULL(1);
/** How many segments the maps have at @p server; @p forget: they are forgotten. [owner] */
SNIC_API uint64_t snic_ebs_queue_mapped(struct snic_ebs_queue *q, uint32_t server, int forget)
    SNIC_NONNULL(1);
/**
 * The token that servers are shown for a disk, from now on (ebs_token.h); copied. [owner]
 * @return 1 it is another one than before; 0 it is not; SNIC_ENOENT disk
 */
SNIC_API SNIC_NODISCARD int snic_ebs_queue_token(struct snic_ebs_queue *q, uint32_t disk,
                                                 const unsigned char token[SNIC_EBS_TOKEN_BYTES])
    SNIC_NONNULL(1, 3);
/** 1: what is answered NO_TOKEN is sent again, after the token; 0: it is as FORBIDDEN. [owner] */
static inline int snic_ebs_disk_presents(const struct snic_ebs_disk *d)
{
    return d->token_serial != 0 && !d->token_bad;
}
/** Least token_wait_us. */
#define SNIC_EBS_TOKEN_WAIT_US 500u
/** A block of the disk is done: servers accept its token. [owner] */
static inline void snic_ebs_disk_token_works(struct snic_ebs_disk *d)
{
    d->token_wait_us = SNIC_EBS_TOKEN_WAIT_US;
}
/** A server has answered NO_TOKEN: the token is sent again, or the owner is to get one. [owner] */
SNIC_API void snic_ebs_disk_token_wanted(struct snic_ebs_queue *q, struct snic_ebs_disk *d)
    SNIC_NONNULL(1, 2);
/** The rpc_id of a TOKEN of the disk: no RPC's, whose epoch is not 0. [owner] */
static inline uint64_t snic_ebs_disk_token_id(const struct snic_ebs_disk *d)
{
    return (uint64_t)d->token_serial << 16 | d->index;
}
/**
 * A server has answered a TOKEN: OK; NO_TOKEN, which has to be said; anything else, after which
 * none is sent until there is another one. [owner]
 * @return 1; 0 it is of no TOKEN, or of an older one
 */
SNIC_API int snic_ebs_queue_token_answer(struct snic_ebs_queue *q, uint64_t rpc_id, uint32_t status)
    SNIC_NONNULL(1);
/** The disk's lease is another's: no more writes; to be said. [owner] */
SNIC_API void snic_ebs_queue_lost(struct snic_ebs_queue *q, uint32_t disk) SNIC_NONNULL(1);

/**
 * Queue an I/O. [owner]
 * @return 0; SNIC_ENOENT disk, or halted; SNIC_EINVAL op, range, pieces; SNIC_EROFS a write, the
 * lease is lost; SNIC_EOVERFLOW 2^48 writes under one sa_epoch
 */
SNIC_API SNIC_NODISCARD int snic_ebs_queue_submit(struct snic_ebs_queue *q, struct snic_ebs_io *io,
                                                  uint64_t now_ns) SNIC_NONNULL(1, 2);
/** I/Os that are too old end. [owner] */
SNIC_API void snic_ebs_queue_age(struct snic_ebs_queue *q) SNIC_NONNULL(1);
/** Who has to ask for a place now does. [owner] */
SNIC_API void snic_ebs_queue_ask(struct snic_ebs_queue *q) SNIC_NONNULL(1);
/** RPCs are made of what may be admitted. [owner] */
SNIC_API void snic_ebs_queue_admit(struct snic_ebs_queue *q) SNIC_NONNULL(1);
/**
 * All RPCs and I/Os end, with SNIC_EUNKNOWN where nothing of them had failed before, those that are
 * FENCING among them. An I/O whose blocks are shown is done with the last snic_ebs_rpc_unref().
 * [owner]
 */
SNIC_API void snic_ebs_queue_halt(struct snic_ebs_queue *q) SNIC_NONNULL(1);

/** What the owner is to be told. */
struct snic_ebs_said {
    uint32_t disk;
    uint32_t lease; /**< 1: it has lost its lease; 0: where is the segment?                    */
    uint64_t segment;
    uint32_t gen32;
    uint32_t token; /**< 1: a server does not accept its token, it needs another one           */
};
/** The next I/O that is done, or NULL; the caller's again. [owner] */
SNIC_API struct snic_ebs_io *snic_ebs_queue_done(struct snic_ebs_queue *q) SNIC_NONNULL(1);
/** @return 1 @p out is to be said; 0 there is nothing now [owner] */
SNIC_API int snic_ebs_queue_say(struct snic_ebs_queue *q, struct snic_ebs_said *out)
    SNIC_NONNULL(1, 2);
/** The next I/O that has become slow, or NULL. [owner] */
SNIC_API struct snic_ebs_io *snic_ebs_queue_slow(struct snic_ebs_queue *q) SNIC_NONNULL(1);
/** When to poll, the wheel included; SNIC_NEVER. [owner] */
SNIC_API uint64_t snic_ebs_queue_deadline_ns(struct snic_ebs_queue *q) SNIC_NONNULL(1);
/** What does a disk wait for? @return 1; 0 nothing that is admitted; SNIC_ENOENT [owner] */
SNIC_API SNIC_NODISCARD int snic_ebs_queue_get_wait(const struct snic_ebs_queue *q, uint32_t disk,
                                                    struct snic_ebs_wait *out) SNIC_NONNULL(1, 3);
/** Does a server refuse what it gets, or did its store fail? @return 0; SNIC_ENOENT [owner] */
SNIC_API SNIC_NODISCARD int snic_ebs_queue_get_busy(const struct snic_ebs_queue *q, uint32_t server,
                                                    struct snic_ebs_busy *out) SNIC_NONNULL(1, 3);
/** 0 or SNIC_ECORRUPT. O(everything). For tests. [owner] */
SNIC_API int snic_ebs_queue_check(const struct snic_ebs_queue *q) SNIC_NONNULL(1);

/** 1: it was given up, or has ended: nothing of it is sent any more. */
static inline int snic_ebs_rpc_over(const struct snic_ebs_rpc *r)
{
    return r->where == SNIC_EBS_RPC_FENCING || r->where == SNIC_EBS_RPC_ENDED;
}
/** 1: it asks what the segment's blocks are; its answer is never encrypted. It is not ENDED. */
static inline int snic_ebs_rpc_states(const struct snic_ebs_rpc *r)
{
    return r->op == SNIC_EBS_IO_READ && (r->io->flags & SNIC_EBS_IO_STATES) != 0;
}
/** Onto @p list, which is what @p where says. [owner] */
static inline void snic_ebs_rpc_move(struct snic_ebs_rpc *r, struct snic_link *list, uint32_t where)
{
    snic_link_remove(&r->link);
    snic_link_append(list, &r->link);
    r->where = (uint8_t)where;
}
/** Its server has said something of it. [owner] */
SNIC_API void snic_ebs_rpc_heard(struct snic_ebs_queue *q, struct snic_ebs_rpc *r)
    SNIC_NONNULL(1, 2);
/**
 * It ends, with @p result, and is not ENDED: acked becomes all. It is FREE, and may be made anew,
 * when nothing shows its blocks any more, here perhaps, and its I/O done with the last one. [owner]
 */
SNIC_API void snic_ebs_rpc_ended(struct snic_ebs_queue *q, struct snic_ebs_rpc *r, int result)
    SNIC_NONNULL(1, 2);
/** One of refs is gone. [owner] */
SNIC_API void snic_ebs_rpc_unref(struct snic_ebs_queue *q, struct snic_ebs_rpc *r)
    SNIC_NONNULL(1, 2);
/**
 * Its server does not know its segment, and it is neither FENCING nor ENDED: the map forgets, its
 * timer is not armed any more, and its place is asked for. @return 1; 0 it is PARKED already
 * [owner]
 */
SNIC_API int snic_ebs_rpc_park(struct snic_ebs_queue *q, struct snic_ebs_rpc *r) SNIC_NONNULL(1, 2);
/** A write that may be under way is given up: FENCING, its timer fires at once. [owner] */
SNIC_API void snic_ebs_rpc_fence(struct snic_ebs_queue *q, struct snic_ebs_rpc *r, int result)
    SNIC_NONNULL(1, 2);
/**
 * Its timer has fired: again, after twice as long each time, up to @p max_ns. [owner]
 * @return fences to be sent now: 0, 1, or 3 when one was often not enough
 */
SNIC_API uint32_t snic_ebs_rpc_fence_again(struct snic_ebs_queue *q, struct snic_ebs_rpc *r,
                                           uint64_t max_ns) SNIC_NONNULL(1, 2);
/** The server refuses the fence: it is sent much later. [owner] */
SNIC_API void snic_ebs_rpc_fence_refused(struct snic_ebs_queue *q, struct snic_ebs_rpc *r)
    SNIC_NONNULL(1, 2);
/** The server says BUSY: if its timer is not armed, it fires after retry_us, which is hostile, and
    100 us at least and 100 ms at most. [owner] */
SNIC_API void snic_ebs_rpc_later(struct snic_ebs_queue *q, struct snic_ebs_rpc *r,
                                 uint32_t retry_us) SNIC_NONNULL(1, 2);

#ifdef __cplusplus
}
#endif
#endif /* SNIC_EBS_QUEUE_H */
