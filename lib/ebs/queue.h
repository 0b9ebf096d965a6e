/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * I/Os of virtual disks on their way to RPCs: the part of a storage agent that is the same for all
 * transports (Miao et al., SIGCOMM 2022, figures 5 and 12: the SA). An I/O waits in its disk's
 * queue, is admitted by round robin and within the disk's limits, gets its version, is split into
 * RPCs, and ends when they have. In between the transport sends, acknowledges, and gives up.
 *
 * One thread owns a queue and all that is in it. No call blocks. O(1) per RPC, amortised; O(RPCs of
 * the disk) are _map, _hole, _waits, _event, an I/O's expiry, a fence's timer; O(disks and RPCs) is
 * _lookups, when the schedule is due. A call that returns an error has changed nothing. I/Os and
 * options are the owner's, and checked.
 *
 * Fairness. Disks are served by deficit round robin of 64 KiB; the I/Os of one disk are admitted in
 * order, so versions grow in that order, too. A server may hold half of all RPCs, so that one that
 * does not respond does not block the others; so may the RPCs of unknown location.
 *
 * A transport embeds the queue and, in each of its RPCs, an ebs_rpc:
 *
 *     at a poll:    q->now_ns = the time, if it is later; n = ebs_queue_poll(q, out, max);
 *     sleep until:  ebs_queue_deadline_ns(q), or what the transport waits for
 *
 * Writers of the fields of the structs below:
 *   now_ns        the transport, with every time that it is passed; it never goes back
 *   dirty         both: there is something to admit or to send
 *   wheel, rng    both; rng is seeded, and the order of its draws is part of what a seed replays
 *   loads         used, suspect, backlog and busy are the transport's. On a server's removal, when
 *                 its rpcs are 0: ebs_server_release(), then ebs_server_removed(). suspect by
 *                 ebs_server_suspect(). backlog may count PARKED ones.
 *   an RPC        acked, sent, refs (up; down by ebs_rpc_unref()) and io->retries are the
 *                 transport's; its timer both's: ended, parked or elsewhere it is not armed
 *   s             blocks_written and busy are the transport's, tables and blocks_read both's
 *   all else      the queue's
 *
 * Giving up. A write that may be under way is FENCING: a FENCE of its segment with its wver and one
 * refuses all copies; FENCE_ACK, as does a higher generation, ends it, with its result.
 *
 * Invariants (ebs_queue_check)
 *   Q1  An RPC that is not FREE is on its disk's list, and on the one of its `where`: `parked` has
 *       all that are PARKED, `outs` all FENCING, ENDED and OUT, `free` all FREE, but for those
 *       whose numbers are used up.
 *   Q2  rpcs of a load is the number of RPCs of that server that are not FREE.
 *   Q3  A version is assigned once: wver of a disk only rises, and stays within its sa_epoch.
 *   Q4  A disk with queued I/Os is on `turns`, on `limited`, or waits for a lookup.
 *   Q5  An RPC of no server is PARKED or ENDED.
 */
#ifndef SNIC_EBS__QUEUE_H
#define SNIC_EBS__QUEUE_H

#include "ebs/lookup.h"
#include "snicstore/ebs.h"
#include "snicstore/ebs_io.h"

struct ebs_queue;

enum ebs_rpc_where {
    EBS_RPC_FREE = 0,
    EBS_RPC_PARKED,  /* waits for a map entry; on `parked` */
    EBS_RPC_FENCING, /* abandoned, waits for FENCE_ACK; on `outs` */
    EBS_RPC_ENDED,   /* all acknowledged, or failed; on `outs` until refs is 0 */
    EBS_RPC_OUT,     /* all under way; on `outs` */
    EBS_RPC_OTHER    /* this and what follows is on lists of the transport's */
};

/* Up to 64 blocks of one I/O in one segment. Plain data; the transport embeds it. */
struct ebs_rpc {
    struct snic_timer timer; /* the transport's, and that of fences; fn is the transport's */
    struct snic_link link;
    struct snic_link of_disk;
    struct ebs_lookup lookup; /* until its server responds */
    struct snic_ebs_io *io;   /* NULL: FREE */
    uint64_t id;              /* never reused; its lower bits are the slot */
    uint64_t lba;
    uint64_t seg_id;
    uint64_t wver;
    uint64_t made_ns;
    uint64_t acked; /* blocks, the transport's; all of them are `all` */
    uint64_t all;   /* count ones */
    uint64_t fence_ns;
    uint32_t seg_gen;
    uint32_t server; /* or ebs_server_none() */
    uint32_t disk;
    uint32_t slot;
    uint32_t refs;  /* pointers to its blocks: it is not FREE before there are none */
    uint32_t piece; /* of block 0 in io->iov */
    uint32_t piece_block;
    int32_t result;
    uint8_t op;
    uint8_t count;
    uint8_t where; /* enum ebs_rpc_where, or the transport's */
    uint8_t sent;  /* something of it may be under way */
    uint8_t pad[4];
};

/* A server's load from this agent. */
struct ebs_load {
    uint32_t rpcs;
    uint32_t backlog; /* blocks that wait to be sent: from 256 on disks wait; the transport's */
    uint8_t used;     /* the number is a server's */
    uint8_t suspect;  /* SUSPECT was reported */
    uint8_t pad[2];
    uint32_t abandoned;     /* of its RPCs */
    struct snic_link event; /* SUSPECT or RECOVERED is to be reported */
    struct snic_ebs_busy busy;
};

/* A disk. */
struct ebs_disk {
    uint8_t used;
    uint8_t limited;       /* has QoS */
    uint8_t lost;          /* the lease */
    uint8_t lease_pending; /* LEASE is to be reported */
    uint8_t map_reported;  /* MAP was reported for the first I/O */
    uint8_t map_pending;   /* MAP is to be reported for it */
    uint8_t charged;       /* the first I/O is admitted, its RPCs are not all made */
    uint8_t token_pending; /* TOKEN is to be reported */
    uint32_t index;
    uint32_t inside;    /* I/Os */
    uint32_t abandoned; /* its RPCs whose I/O is `orphan` */
    int64_t deficit;
    uint64_t vd_id;
    uint64_t blocks;
    uint64_t wver;                     /* the last one assigned */
    uint64_t need_segment;             /* that the first I/O waits for, without an RPC */
    uint64_t need_ns;                  /* since when, if a part of the I/O has RPCs */
    struct snic_ebs_qos_limits limits; /* the table's golden copy */
    uint32_t need_gen;
    uint32_t pad2;
    struct ebs_lookup lookup; /* of the first I/O, while map_reported; on no list */
    void *xts_key;
    struct snic_ebs_tag_key tag; /* with a key */
    struct snic_link queue;      /* I/Os not admitted */
    struct snic_link order;      /* writes and flushes inside, in the order of submission */
    struct snic_link rpcs;
    struct snic_link turn;
    struct snic_link event;
    struct snic_ebs_map *map;
    void *map_mem;
    unsigned char token[SNIC_EBS_TOKEN_BYTES];
    uint32_t token_serial;    /* of the token, in its presentations; 0: it has none */
    uint32_t token_wait_us;   /* until a request answered NO_TOKEN is sent again */
    uint64_t token_report_ns; /* TOKEN is not reported before */
    uint32_t token_bad;       /* 1: a server has refused it as FORBIDDEN */
    uint32_t pad3;
};

/*
 * A transport's operations on an RPC. No other RPC may end inside, and none at all in made and
 * leave.
 */
struct ebs_queue_ops {
    /* It is new; the transport's fields are not set. It is on no list: ebs_rpc_move() it if
        it has a server; if that is ebs_server_none() the queue parks it. */
    void (*made)(struct ebs_queue *q, struct ebs_rpc *r);
    /* It leaves its server, which is still set: from now on nothing of it counts as in flight
        there, nor is in its backlog. If it is FENCING, begin does not follow: its fence goes to the
        new one. */
    void (*leave)(struct ebs_queue *q, struct ebs_rpc *r);
    /* It has another one: all unacknowledged blocks begin again. On no list, as in made. */
    void (*begin)(struct ebs_queue *q, struct ebs_rpc *r);
    /* Its deadline has passed, and it is neither FENCING nor ENDED: ebs_rpc_fence() if a
        write may be under way, else it ends. */
    void (*give_up)(struct ebs_queue *q, struct ebs_rpc *r, int result);
    /* It is not ENDED, and ends now, whatever is in flight: ebs_rpc_end(). */
    void (*end)(struct ebs_queue *q, struct ebs_rpc *r, int result);
    /* The next train or send. @return 1; 0 there is none now */
    int (*report_lent)(struct ebs_queue *q, struct snic_ebs_action *a);
    /* The next path or connection to open or close. @return 1; 0 there is none now */
    int (*report_path)(struct ebs_queue *q, struct snic_ebs_action *a);
    /* Build trains or sends of what waits. */
    void (*send)(struct ebs_queue *q);
};

/* The transport has checked all, and set the defaults. */
struct ebs_queue_opts {
    uint32_t client_epoch;
    uint32_t disks_max;
    uint32_t servers_max;
    uint32_t rpcs_max; /* power of two */
    uint32_t chunks_max;
    uint32_t pad;
    uint64_t disk_blocks_max;
    uint64_t deadline_ns;
    uint64_t slow_ns;
    uint64_t seed;
    uint64_t error_ns; /* 0: a write waits for its fence, however long that takes */
};

struct ebs_queue_stats {
    uint64_t ios[5]; /* done, by op */
    uint64_t failed; /* of them, with an error */
    uint64_t blocks_written;
    uint64_t blocks_read;
    uint64_t tables; /* entries of tables that were found damaged, and rebuilt */
    uint64_t busy;   /* answers BUSY */
    uint64_t stale_gens;
    uint64_t fences;
    uint64_t abandoned; /* RPCs whose fence outlives the I/O, which has ended after error_ns */
    uint64_t slow;
    uint32_t inside; /* I/Os */
    uint32_t rpcs;
    uint32_t rpcs_high;
    uint32_t pad;
};

/* Into a transport's figures, whose fields have the same names. */
#define SNIC_EBS__QUEUE_STATS(out, in)                                                             \
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

/* Embed it; not to be moved. */
struct ebs_queue {
    struct ebs_queue_opts o;
    const struct ebs_queue_ops *ops;
    uint64_t now_ns;
    uint64_t qos_ns; /* when a disk's QoS permits; SNIC_NEVER */
    uint32_t rpcs_free;
    uint32_t servers_high; /* numbers from this one on were never assigned */
    uint32_t slot_bits;
    uint8_t halted;
    uint8_t dirty; /* something may have to be sent or admitted */
    uint8_t pad[2];
    unsigned char *maps;
    size_t map_bytes; /* at the end of the memory: need not be zeroed */
    struct snic_rng rng;
    struct snic_wheel wheel;
    struct ebs_disk *disks;
    struct ebs_load *loads; /* one more than servers: ebs_server_none() */
    struct snic_ebs_qos *qos;
    struct snic_link free;
    struct snic_link outs;
    struct snic_link parked;
    struct snic_link turns;   /* disks with I/Os to be admitted */
    struct snic_link limited; /* disks that wait for their QoS */
    struct snic_link done;
    struct snic_link ages;  /* I/Os by submission */
    struct snic_link *slow; /* the first in ages that was not reported slow */
    struct snic_link disk_events;
    struct snic_link server_events;
    struct snic_ebs_io orphan;  /* the I/O of RPCs that are abandoned: never done */
    struct ebs_lookups lookups; /* when lookups of RPCs and disks are due */
    struct ebs_queue_stats s;
};

/* A number that no server has: that of RPCs that are PARKED because their location is unknown. */
static inline uint32_t ebs_server_none(const struct ebs_queue *q)
{
    return q->o.servers_max;
}
/* 1: READ and FLUSH change nothing, all else does. */
static inline int ebs_io_writes(uint32_t op)
{
    return op >= SNIC_EBS_IO_WRITE && op <= SNIC_EBS_IO_TRIM;
}

/*
 * Take the parts into @parts. Nothing may follow them in the arena: the last map_bytes need not
 * be zeroed, all else has to be. Aligned to SNIC_CACHELINE.
 */
void ebs_queue_layout(struct snic_arena *a, const struct ebs_queue_opts *o,
                      struct ebs_queue *parts);
/* @q has its parts, zeroed but for map_bytes, and is otherwise 0. */
void ebs_queue_init(struct ebs_queue *q, const struct ebs_queue_opts *o,
                    const struct ebs_queue_ops *ops, uint64_t now_ns);
/* Add RPC @r, which is zeroed, as slot @slot; its timer calls @fired. Call it after init for
    all slots, from 0 to rpcs_max - 1 in this order. The lower bits of an id are its slot.
 */
void ebs_queue_add(struct ebs_queue *q, struct ebs_rpc *r, uint32_t slot, snic_timer_fn fired);

/*
 * Attach a disk under a free number; @sec: its key's; NULL: it must have no key.
 * @return 0; SNIC_EINVAL number, options; SNIC_EEXIST; SNIC_EOVERFLOW sa_epoch is above 65535;
 *         errors of @sec
 */
SNIC_NODISCARD int ebs_queue_attach(struct ebs_queue *q, uint32_t disk,
                                    const struct snic_ebs_disk_opts *o,
                                    const struct snic_ebs_sec_ops *sec, uint64_t now_ns);
/* Forget a disk. @return 0; SNIC_ENOENT; SNIC_EBUSY I/Os inside */
SNIC_NODISCARD int ebs_queue_detach(struct ebs_queue *q, uint32_t disk);
/* Change a disk's QoS; debt stays. @return 0; SNIC_ENOENT; SNIC_EINVAL */
SNIC_NODISCARD int ebs_queue_limit(struct ebs_queue *q, uint32_t disk,
                                   const struct snic_ebs_disk_opts *o, uint64_t now_ns);
/*
 * A segment is at @w from now on; what waits for it begins there.
 * @return 0; SNIC_ENOENT disk or server; SNIC_EINVAL segment; SNIC_ESTALE the generation is older;
 *         SNIC_ENOSPC chunks_max GiB of the disk are mapped
 */
SNIC_NODISCARD int ebs_queue_map(struct ebs_queue *q, uint32_t disk, uint64_t segment,
                                 const struct snic_ebs_where *w, uint64_t now_ns);
/*
 * A segment did not exist at some time from @lookup_ns on: nothing had ever been written there.
 * What was submitted by then, and waits for its first location, is done: reads with zeros, ZERO and
 * TRIM without effect. Writes wait on, and so does what was submitted later, which the answer does
 * not cover. It is not remembered. O(RPCs of the disk).
 * @param lookup_ns  when the lookup began; the clock of now_ns
 * @return 0; SNIC_ENOENT disk
 */
SNIC_NODISCARD int ebs_queue_hole(struct ebs_queue *q, uint32_t disk, uint64_t segment,
                                  uint64_t lookup_ns, uint64_t now_ns);
/*
 * A segment can not be placed: what waits for its first location ends with @result. Not
 * remembered: a later I/O looks it up again. O(RPCs of the disk).
 * @param result  for example SNIC_ENOSPC
 * @return 0; SNIC_ENOENT disk
 */
SNIC_NODISCARD int ebs_queue_refuse(struct ebs_queue *q, uint32_t disk, uint64_t segment,
                                    int result, uint64_t now_ns);
/* @return SNIC_EBS_WAITS_*: what waits for a segment; RPCs in flight count as PLACE. 0: nothing.
 * O(RPCs of the disk). */
uint32_t ebs_queue_waits(const struct ebs_queue *q, uint32_t disk, uint64_t segment);
/* How many segments the maps have at @server; @forget: they are forgotten. */
uint64_t ebs_queue_mapped(struct ebs_queue *q, uint32_t server, int forget);
/*
 * Set the token that servers are shown for a disk from now on (ebs_token.h); copied.
 * @return 1 it is another one than before; 0 it is not; SNIC_ENOENT disk
 */
SNIC_NODISCARD int ebs_queue_token(struct ebs_queue *q, uint32_t disk,
                                   const unsigned char token[SNIC_EBS_TOKEN_BYTES]);
/* 1: a request answered NO_TOKEN is sent again, after the token; 0: it fails as with
 * FORBIDDEN. */
static inline int ebs_disk_has_token(const struct ebs_disk *d)
{
    return d->token_serial != 0 && !d->token_bad;
}
/* Least token_wait_us. */
#define SNIC_EBS__TOKEN_WAIT_US 500u
/* A block of the disk is done, so servers accept its token: reset the back-off. */
static inline void ebs_disk_token_accepted(struct ebs_disk *d)
{
    d->token_wait_us = SNIC_EBS__TOKEN_WAIT_US;
}
/* A server has answered NO_TOKEN: the token is sent again, or the owner is to get one. */
void ebs_disk_token_refused(struct ebs_queue *q, struct ebs_disk *d);
/* The rpc_id of a TOKEN of the disk: of epoch 0, which no RPC's has. */
static inline uint64_t ebs_disk_token_id(const struct ebs_disk *d)
{
    return (uint64_t)d->token_serial << 16 | d->index;
}
/*
 * A server has answered a TOKEN. All but OK are reported to the owner; after FORBIDDEN none is sent
 * until there is another token.
 * @return 1; 0 the answer is not to a TOKEN, or to an older one
 */
int ebs_queue_token_answered(struct ebs_queue *q, uint64_t rpc_id, uint32_t status);
/* Another client has the disk's lease: no more writes; to be reported. */
void ebs_queue_lease_lost(struct ebs_queue *q, uint32_t disk);

/*
 * Queue an I/O.
 * @return 0; SNIC_ENOENT disk, or halted; SNIC_EINVAL op, range, pieces; SNIC_EROFS a write, the
 *         lease is lost; SNIC_EOVERFLOW 2^48 writes under one sa_epoch
 */
SNIC_NODISCARD int ebs_queue_submit(struct ebs_queue *q, struct snic_ebs_io *io, uint64_t now_ns);
/* End I/Os whose deadline has passed. */
void ebs_queue_expire(struct ebs_queue *q);
/* Begin the lookups that are due. */
void ebs_queue_lookups(struct ebs_queue *q);
/* Admit I/Os and make their RPCs. */
void ebs_queue_admit(struct ebs_queue *q);
/* All of these, and the timers. @return 1: there may be something to send */
int ebs_queue_work(struct ebs_queue *q);
/* The next actions, up to @max; fewer: there are no more now. */
uint32_t ebs_queue_poll(struct ebs_queue *q, struct snic_ebs_action *out, uint32_t max);
/*
 * End all RPCs and I/Os, those that are FENCING, too, with SNIC_EUNKNOWN unless a part had failed
 * before. An I/O to whose blocks there are references is done at the last ebs_rpc_unref().
 *
 */
void ebs_queue_halt(struct ebs_queue *q);

/* A notification to the owner. */
struct ebs_event {
    uint32_t disk;
    uint32_t lease; /* 1: it has lost its lease; 0: look up the segment, or token */
    uint64_t segment;
    uint32_t gen32;
    uint32_t token; /* 1: a server does not accept its token, it needs another one */
};
/* The next I/O that is done, or NULL; ownership returns to the caller. */
struct snic_ebs_io *ebs_queue_done(struct ebs_queue *q);
/* The next notification. @return 1; 0 there is none now */
int ebs_queue_event(struct ebs_queue *q, struct ebs_event *out);
/* The next I/O that has become slow, or NULL. */
struct snic_ebs_io *ebs_queue_slow(struct ebs_queue *q);
/* When to poll, the wheel included; SNIC_NEVER. */
uint64_t ebs_queue_deadline_ns(struct ebs_queue *q);
/* What a disk waits for. @return 1; 0 nothing that is admitted; SNIC_ENOENT */
SNIC_NODISCARD int ebs_queue_get_wait(const struct ebs_queue *q, uint32_t disk,
                                      struct snic_ebs_wait *out);
/* Does a server refuse requests, or did its store fail? @return 0; SNIC_ENOENT */
SNIC_NODISCARD int ebs_queue_get_busy(const struct ebs_queue *q, uint32_t server,
                                      struct snic_ebs_busy *out);
/* 0 or SNIC_ECORRUPT. O(everything). For tests. */
int ebs_queue_check(const struct ebs_queue *q);

/* ---- Servers ---- */

/* A server has the number from now on. @return 0; SNIC_EINVAL number; SNIC_EEXIST */
SNIC_NODISCARD int ebs_server_add(struct ebs_queue *q, uint32_t server, uint64_t now_ns);
/* The number is to be free again: map entries that point to it are forgotten.
 * @return 0; SNIC_ENOENT; SNIC_EBUSY it has RPCs, or, without @forget, a segment is there */
SNIC_NODISCARD int ebs_server_release(struct ebs_queue *q, uint32_t server, int forget,
                                      uint64_t now_ns);
/* The number is free, and all of its load 0. */
void ebs_server_removed(struct ebs_queue *q, struct ebs_load *l);
/* Report SUSPECT or RECOVERED. */
void ebs_server_suspect(struct ebs_queue *q, struct ebs_load *l, int suspect);

/* What a server's answer means for blocks of an RPC. */
enum ebs_verdict {
    EBS_VERDICT_OVER = 0,   /* the RPC has ended                                        */
    EBS_VERDICT_DONE,       /* acknowledge them                                         */
    EBS_VERDICT_DAMAGED,    /* their data: send them again                              */
    EBS_VERDICT_BUSY,       /* send them again after the retry time                     */
    EBS_VERDICT_MOVED,      /* ebs_rpc_park()                                           */
    EBS_VERDICT_CONNECTION, /* it is wrong, not the blocks: send them again             */
    EBS_VERDICT_NO_TOKEN,   /* send the disk's token, or give up                        */
    EBS_VERDICT_REFUSED     /* give up, with snic_ebs_status_error()                    */
};
/* Its server answers @status, an enum snic_ebs_status or any other number, and it is not over. */
enum ebs_verdict ebs_rpc_verdict(struct ebs_queue *q, struct ebs_rpc *r, uint32_t status);
/* Its server has acknowledged blocks. */
void ebs_rpc_acknowledged(struct ebs_queue *q, struct ebs_rpc *r);
/* 1: @h answers the fence of @r. */
int ebs_rpc_fence_matches(const struct ebs_rpc *r, uint32_t server,
                          const struct snic_ebs_header *h);
/* Its fence is answered: it ends, or the fence is sent again. @return 1: send the token first */
int ebs_rpc_fence_answered(struct ebs_queue *q, struct ebs_rpc *r, uint32_t status);

/* ---- What is lent to the network: trains, sends ---- */

enum ebs_lent_state {
    EBS_LENT_FREE = 0,
    EBS_LENT_BUILT,
    EBS_LENT_QUEUED,
    EBS_LENT_OUT,
    EBS_LENT_STATES
};

/* The states are in the transport's entries. */
struct ebs_pool {
    struct snic_queue free;
    struct snic_queue queue; /* to be reported to the owner, in order */
    uint32_t max;
    uint32_t free_count;
    uint32_t queued;
    uint32_t pad;
};

/* NULL: none is free. */
struct snic_node *ebs_pool_take(struct ebs_pool *p);
void ebs_pool_queue(struct ebs_pool *p, struct snic_node *n);
/* The first of the queue, or NULL. */
struct snic_node *ebs_pool_next(struct ebs_pool *p);
void ebs_pool_free(struct ebs_pool *p, struct snic_node *n);
/* How many the network has. */
uint32_t ebs_pool_out(const struct ebs_pool *p);
/* @states: the number of entries in each. */
int ebs_pool_check(const struct ebs_pool *p, const uint32_t states[EBS_LENT_STATES]);

/* ---- Sets of blocks ---- */

static inline uint64_t ebs_bit(uint32_t i)
{
    return (uint64_t)1 << i;
}
static inline uint32_t ebs_ones(uint64_t v)
{
    if ((v & (v - 1)) == 0) /* most I/Os are a block, and counting is a call on some machines */
        return v != 0;
    return (uint32_t)__builtin_popcountll(v);
}
static inline uint32_t ebs_lowest(uint64_t v)
{
    return (uint32_t)__builtin_ctzll(v);
}
/* The lowest @n bits. */
static inline uint64_t ebs_mask(uint32_t n)
{
    return n >= 64 ? UINT64_MAX : ebs_bit(n) - 1;
}

/* ---- RPCs ---- */

/* 1: it was abandoned, or has ended: its blocks are not sent any more. */
static inline int ebs_rpc_is_over(const struct ebs_rpc *r)
{
    return r->where == EBS_RPC_FENCING || r->where == EBS_RPC_ENDED;
}
/* 1: it queries the states of the segment's blocks; its answer is never encrypted. It must not be
 * ENDED. */
static inline int ebs_rpc_is_states(const struct ebs_rpc *r)
{
    return r->op == SNIC_EBS_IO_READ && (r->io->flags & SNIC_EBS_IO_STATES) != 0;
}
/* Move it to @list, that of @where. */
static inline void ebs_rpc_move(struct ebs_rpc *r, struct snic_link *list, uint32_t where)
{
    snic_link_remove(&r->link);
    snic_link_append(list, &r->link);
    r->where = (uint8_t)where;
}
/* Its server has responded to it. */
void ebs_rpc_answered(struct ebs_queue *q, struct ebs_rpc *r);
/*
 * End an RPC that is not ENDED, with @result: acked becomes all. When refs is 0, perhaps inside
 * this call, it is FREE and may be reused; its I/O is done when its last RPC is.
 */
void ebs_rpc_end(struct ebs_queue *q, struct ebs_rpc *r, int result);
/* One of refs is gone. */
void ebs_rpc_unref(struct ebs_queue *q, struct ebs_rpc *r);
/*
 * Its server does not know its segment, and it is neither FENCING nor ENDED: the map entry is
 * invalidated, its timer cancelled, and its location looked up. @return 1; 0 it is PARKED already
 *
 */
int ebs_rpc_park(struct ebs_queue *q, struct ebs_rpc *r);
/* A write that may be under way is abandoned: FENCING, its timer fires at once. */
void ebs_rpc_fence(struct ebs_queue *q, struct ebs_rpc *r, int result);
/*
 * Its timer has fired: rearm it, after twice as long each time, up to @max_ns.
 * @return fences to be sent now: 0; 1; 3 once the interval has reached @max_ns
 */
uint32_t ebs_rpc_fence_retry(struct ebs_queue *q, struct ebs_rpc *r, uint64_t max_ns);
/* The server refuses the fence: it is sent much later. */
void ebs_rpc_fence_refused(struct ebs_queue *q, struct ebs_rpc *r);
/* The server answers BUSY: if its timer is not armed, it fires after retry_us, which is hostile:
    clamped to 100 us to 100 ms. */
void ebs_rpc_back_off(struct ebs_queue *q, struct ebs_rpc *r, uint32_t retry_us);

#endif /* SNIC_EBS__QUEUE_H */
