/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * LUNA's inside: shared by the files of this module and its tests.
 *
 * I1  The blocks of an RPC are each acked, to be sent (need), under way on connection r->conn
 *     (out), or refused for now (busy): four sets without common members that are all of it.
 * I2  An RPC is on exactly one list (where says which), on its disk's, and with out on r->conn's.
 * I3  outside of a connection is the sum of out of its RPCs; write_out the part that is writes.
 * I4  backlog of a server is the sum of need of its RPCs that are READY.
 * I5  A version is given once: wver of a disk only rises, and stays within its sa_epoch.
 * I6  What a send shows stays: an RPC is not released while refs counts sends with its blocks.
 * I7  Into the guest's memory goes only what a block that is out waits for, from the connection and
 *     the turn in which it was asked: what is done, given up or asked elsewhere is written no more.
 */
#ifndef SNIC_LUNA_PRIV_H
#define SNIC_LUNA_PRIV_H

#include "snicstore/luna.h"

#define SNIC_LUNA__MS UINT64_C(1000000)
#define SNIC_LUNA__US UINT64_C(1000)
#define SNIC_LUNA__QUANTUM 65536
#define SNIC_LUNA__BACKLOG 256u /* blocks of a server that wait to be sent: then disks wait */
#define SNIC_LUNA__BLOCKS SNIC_EBS_RPC_BLOCKS /* most of a send */
#define SNIC_LUNA__CIPHERS SNIC_LUNA_FRAMES_MAX
#define SNIC_LUNA__LIST (SNIC_EBS_RPC_BLOCKS * 4u)
#define SNIC_LUNA__HEADS (SNIC_LUNA_FRAMES_MAX * SNIC_EBS_HEADER_BYTES + SNIC_LUNA__LIST)
#define SNIC_LUNA__NONE UINT32_MAX

#define SNIC_LUNA__UP (SNIC_EBS_STREAM | SNIC_EBS_TO_SERVER)
#define SNIC_LUNA__DOWN (SNIC_EBS_STREAM | SNIC_EBS_TO_CLIENT)

/* ---- Sends: both sides have a pool of them ---- */

enum luna_out_state { LUNA_OUT_FREE = 0, LUNA_OUT_BUILT, LUNA_OUT_QUEUED, LUNA_OUT_LENT };

struct luna_rpc;

struct luna_out {
    struct snic_luna_send s;
    struct snic_link lent; /* target: in the order of lending */
    uint64_t lent_ns;
    uint32_t head_used;
    uint32_t blocks;
    uint32_t ciphers;
    uint32_t last; /* target: end the connection when this one is back */
    struct luna_rpc *rpc[SNIC_LUNA_FRAMES_MAX]; /* agent: whose blocks it shows, or NULL */
    uint32_t held[SNIC_LUNA_FRAMES_MAX];        /* target: frames that it answers, or NONE */
    struct snic_iov iov[SNIC_LUNA_IOV_MAX];
    unsigned char *cipher; /* SNIC_LUNA__CIPHERS blocks, or NULL */
    unsigned char head[SNIC_LUNA__HEADS];
};

struct luna_pool {
    struct luna_out *outs;
    struct snic_queue free;
    struct snic_queue queue;
    uint32_t max;
    uint32_t free_count;
    uint32_t queued;
    uint32_t pad;
};

/* ---- A stream that comes in ---- */

enum luna_phase {
    LUNA_HEAD = 0, /* of a frame */
    LUNA_LIST,     /* checksums */
    LUNA_DATA,
    LUNA_SKIP,  /* bytes that nobody wants */
    LUNA_ADMIT, /* target: a frame that needs room */
    LUNA_EMIT   /* target: requests that have no bytes */
};

struct luna_in {
    struct snic_ebs_header h;
    struct snic_ebs_place place;
    uint32_t phase; /* enum luna_phase */
    uint32_t have;  /* bytes of the head, list or block */
    uint32_t skip;
    uint32_t done; /* blocks of the frame */
    uint32_t crc;  /* of the block so far */
    uint32_t seq;  /* of the last frame */
    unsigned char head[SNIC_EBS_HEADER_BYTES];
    unsigned char list[SNIC_LUNA__LIST];
};

/* ---- The agent ---- */

enum { LUNA_SAY_CLOSE = 1, LUNA_SAY_CONNECT = 2 };

struct luna_conn {
    struct snic_timer timer;
    struct snic_luna *c;
    struct snic_link event; /* on c->conn_events while say is not 0 */
    struct snic_link rpcs;  /* with blocks out here */
    uint32_t server;
    uint16_t gen;
    uint16_t close_gen;
    uint8_t index;
    uint8_t state; /* enum snic_luna_conn_state */
    uint8_t say;
    uint8_t hello_due;
    uint8_t probe_due;
    uint8_t probe_out;
    uint8_t fence_out;
    uint8_t pad;
    int32_t reason;
    uint32_t conn_id; /* the server's */
    uint32_t mine;    /* what it has to write in its frames */
    uint32_t srv_epoch;
    uint32_t outside;
    uint32_t write_out;
    uint32_t credit;
    uint32_t seq; /* of the last frame sent */
    uint64_t nonce;
    uint64_t heard; /* in the time of luna_alive(): stalls do not count */
    uint64_t probed;
    uint64_t retry_ns;
    uint64_t wait_ns;
    uint64_t srtt_ns;
    uint64_t bytes_out;
    uint64_t bytes_in;
    uint64_t frames_out;
    uint64_t frames_in;
    uint64_t closes;
    /* where the data of the READ_RESP that is coming go */
    struct luna_rpc *rpc; /* I7; NULL: nobody */
    uint64_t rpc_id;
    uint32_t turn;
    uint32_t piece;
    uint32_t piece_block;
    uint32_t pad2;
    struct luna_in in;
};

struct luna_server {
    struct snic_timer timer;
    struct snic_luna *c;
    uint32_t index;
    uint8_t used;
    uint8_t told;
    uint8_t say; /* SUSPECT or RECOVERED to be said */
    uint8_t flip;
    uint32_t ups;
    uint32_t rpcs;
    uint32_t backlog;
    uint64_t dark_ns; /* since when no connection stands; SNIC_NEVER */
    struct snic_link again;
    struct snic_link ready[2]; /* writes of data; all else */
    struct snic_link event;
    struct luna_conn *conns;
    struct snic_ebs_busy busy;
};

enum luna_where {
    LUNA_FREE = 0,
    LUNA_READY, /* blocks to be sent */
    LUNA_OUT,
    LUNA_PARKED,  /* for a map entry */
    LUNA_FENCING, /* given up: for FENCE_ACK */
    LUNA_ENDED    /* all acked, or failed; waits for its sends */
};

struct luna_rpc {
    struct snic_timer timer; /* BUSY's retry, the fence's */
    struct snic_luna *c;
    struct snic_link link;
    struct snic_link of_disk;
    struct snic_link of_conn;
    struct snic_ebs_ask ask; /* until something is heard of it */
    struct snic_luna_io *io;
    uint64_t id;
    uint64_t lba;
    uint64_t seg_id;
    uint64_t wver;
    uint64_t made_ns;
    uint64_t acked;
    uint64_t need;
    uint64_t out;
    uint64_t busy;
    uint64_t all;
    uint64_t summed; /* blocks whose checksums are there */
    uint64_t fence_ns;
    uint32_t seg_gen;
    uint32_t server;
    uint32_t conn;
    uint32_t disk;
    uint32_t slot;
    uint32_t refs;
    uint32_t piece; /* of block 0 in io->iov */
    uint32_t piece_block;
    uint32_t turn;   /* counts mappings */
    uint32_t queued; /* what it adds to backlog */
    int32_t result;
    uint8_t op;
    uint8_t count;
    uint8_t where; /* enum luna_where */
    uint8_t sent;  /* something of it may be under way */
    uint8_t twice; /* more than once: a refusal does not say that no copy is */
    uint8_t tries;
    uint32_t crc[SNIC_EBS_RPC_BLOCKS];
    uint32_t guest_crc[SNIC_EBS_RPC_BLOCKS];
    uint8_t wrong[SNIC_EBS_RPC_BLOCKS]; /* answers of this turn with damaged data, for each block */
};

struct luna_disk {
    uint8_t used;
    uint8_t limited;  /* has QoS */
    uint8_t lost;     /* the lease */
    uint8_t say;      /* LEASE to be said */
    uint8_t map_said; /* MAP was said for the first I/O */
    uint8_t say_map;
    uint8_t charged; /* the first I/O is admitted, its RPCs are not all made */
    uint8_t pad;
    uint32_t index;
    uint32_t inside; /* I/Os */
    int64_t deficit;
    uint64_t vd_id;
    uint64_t blocks;
    uint64_t wver; /* the last given */
    uint64_t need_segment;
    uint64_t need_ns; /* since then the first I/O, of which a part is out, needs it */
    uint32_t need_gen;
    struct snic_ebs_ask ask;           /* of the first I/O, while map_said; on no list */
    struct snic_ebs_qos_limits limits; /* the table's golden copy */
    void *xts_key;
    struct snic_link queue; /* I/Os not admitted */
    struct snic_link order; /* writes and flushes inside, in the order of submission */
    struct snic_link rpcs;
    struct snic_link turn;
    struct snic_link event;
    struct snic_ebs_map *map;
    void *map_mem;
};

struct snic_luna {
    struct snic_luna_opts o;
    void *mem;
    uint64_t now_ns;
    uint64_t last_poll_ns;
    uint64_t expected_ns; /* when the next poll should come */
    uint64_t lag_ns;      /* all stalls */
    uint64_t client_id;
    uint32_t slot_bits;
    uint32_t turn; /* the server that may send first */
    uint8_t halted;
    uint8_t dirty; /* something may have to be sent or admitted */
    uint8_t pad[6];
    struct snic_rng rng;
    struct snic_wheel wheel;
    struct luna_disk *disks;
    struct luna_server *servers;
    struct luna_conn *conns;
    struct luna_rpc *rpcs;
    struct snic_ebs_qos *qos;
    struct luna_pool pool;
    struct snic_link free_rpcs;
    struct snic_link outs; /* RPCs that are OUT, FENCING or ENDED */
    struct snic_link parked;
    struct snic_link turns;   /* disks with I/Os to be admitted */
    struct snic_link limited; /* disks whose QoS says not yet */
    struct snic_link done;
    struct snic_link ages;  /* I/Os by submission */
    struct snic_link *slow; /* the first that was not called slow: in ages */
    struct snic_link conn_events;
    struct snic_link server_events;
    struct snic_link disk_events;
    uint64_t qos_ns;           /* when a disk's QoS permits; SNIC_NEVER */
    struct snic_ebs_asks asks; /* when RPCs and disks ask where a segment is */
    uint32_t rpcs_free;
    uint32_t pad2;
    struct snic_luna_stats s;
};

/* frame.c: what both sides share */
void luna_pool_init(struct luna_pool *p, struct luna_out *outs, unsigned char *cipher,
                    uint32_t max);
struct luna_out *luna_out_take(struct luna_pool *p);
void luna_out_queue(struct luna_pool *p, struct luna_out *o);
struct luna_out *luna_out_next(struct luna_pool *p);
void luna_out_free(struct luna_pool *p, struct luna_out *o);
/** Append bytes; joined to the last piece if they follow it in memory. */
void luna_out_bytes(struct luna_out *o, const void *data, size_t size);
/** Append a header for @p h with @p list; the blocks, if it has any, are appended next. */
void luna_out_frame(struct luna_out *o, unsigned direction, const struct snic_ebs_header *h,
                    const uint32_t *list);
int luna_pool_check(const struct luna_pool *p);
/** The next @p want bytes into @p into. @return 1 all are there; *data and *size go on */
int luna_in_gather(struct luna_in *in, unsigned char *into, uint32_t want,
                   const unsigned char **data, size_t *size);
/** 1 a header is there and decoded; 0 not yet; SNIC_E* */
int luna_in_head(struct luna_in *in, unsigned direction, const unsigned char **data, size_t *size);
/** Is the list what data_crc and agg_crc say? */
int luna_in_list_good(const struct luna_in *in);

/* disk.c and io.c */
void luna_map_opts(struct snic_ebs_map_opts *m, const struct snic_luna_opts *o, uint64_t blocks);
uint32_t luna_server_share(const struct snic_luna *c, uint32_t server);
void luna_disk_turn(struct snic_luna *c, struct luna_disk *d);
void luna_admit(struct snic_luna *c);
void luna_io_done(struct snic_luna *c, struct snic_luna_io *io);
void luna_io_progress(struct snic_luna *c, struct snic_luna_io *io);
void luna_age(struct snic_luna *c);
uint64_t luna_age_deadline(const struct snic_luna *c);

/* ask.c */
/** It begins, here or elsewhere. */
void luna_ask_begin(struct snic_luna *c, struct luna_rpc *r);
/** Its server has said something of it. */
void luna_ask_heard(struct snic_luna *c, struct luna_rpc *r);
/** Its server refuses it: MAP is to be said for its segment. */
void luna_ask_parked(struct snic_luna *c, struct luna_rpc *r);
/** MAP is to be said for the disk's first I/O, whose segment is need_segment. */
void luna_ask_disk(struct snic_luna *c, struct luna_disk *d);
void luna_ask_again(struct snic_luna *c);
uint64_t luna_ask_deadline(const struct snic_luna *c);
int luna_ask_say(struct snic_luna *c, struct snic_luna_action *a);
void luna_ask_say_disk(struct snic_luna *c, struct luna_disk *d, struct snic_luna_action *a);

/* rpc.c */
void luna_rpc_new(struct snic_luna *c, struct snic_luna_io *io, uint32_t count,
                  const struct snic_ebs_where *w);
struct luna_rpc *luna_rpc_find(struct snic_luna *c, uint64_t id);
void luna_rpc_list(struct snic_luna *c, struct luna_rpc *r);
/** @p blocks of need leave on @p n. */
void luna_rpc_sent(struct snic_luna *c, struct luna_rpc *r, struct luna_conn *n, uint64_t blocks);
void luna_rpc_acked(struct snic_luna *c, struct luna_rpc *r, uint64_t blocks);
/** @p blocks of out, and of busy, are to be sent once more. */
void luna_rpc_again(struct snic_luna *c, struct luna_rpc *r, uint64_t blocks);
void luna_rpc_wrong(struct snic_luna *c, struct luna_rpc *r, uint64_t blocks);
void luna_rpc_status(struct snic_luna *c, struct luna_rpc *r, uint64_t blocks, uint32_t status,
                     uint32_t retry_us);
void luna_rpc_give_up(struct snic_luna *c, struct luna_rpc *r, int result);
void luna_rpc_fence_refused(struct snic_luna *c, struct luna_rpc *r);
void luna_rpc_fenced(struct snic_luna *c, struct luna_rpc *r);
void luna_rpc_retarget(struct snic_luna *c, struct luna_rpc *r, const struct snic_ebs_where *w);
void luna_rpc_unref(struct snic_luna *c, struct luna_rpc *r);
void luna_rpc_halt(struct snic_luna *c, struct luna_rpc *r);
void luna_rpc_fired(struct snic_timer *t, uint64_t now_ns);

/* conn.c */
void luna_conn_init(struct snic_luna *c, struct luna_server *s, uint32_t index);
void luna_conn_up(struct snic_luna *c, struct luna_conn *n);
/** It is over; @p tell: the owner has to abort it. */
void luna_conn_end(struct snic_luna *c, struct luna_conn *n, int reason, int tell);
void luna_conn_fired(struct snic_timer *t, uint64_t now_ns);
/** Something that wants an answer is about to be sent. */
void luna_conn_ask(struct snic_luna *c, struct luna_conn *n);
/** It does not answer: it gets nothing new until it does. */
int luna_conn_doubtful(const struct snic_luna *c, const struct luna_conn *n);
/** Something was sent, or was answered: when to look again. */
void luna_conn_watch(struct snic_luna *c, struct luna_conn *n);
void luna_server_fired(struct snic_timer *t, uint64_t now_ns);

/* send.c */
void luna_send(struct snic_luna *c);
int luna_send_fence(struct snic_luna *c, struct luna_rpc *r);

/** The number that no server has: of RPCs that are PARKED, since nothing is known of their place.
 */
static inline uint32_t luna_nowhere(const struct snic_luna *c)
{
    return c->o.servers_max;
}
static inline uint64_t luna_alive(const struct snic_luna *c)
{
    return c->now_ns - c->lag_ns;
}
static inline uint64_t luna_bit(uint32_t i)
{
    return (uint64_t)1 << i;
}
static inline uint32_t luna_ones(uint64_t v)
{
    return (uint32_t)__builtin_popcountll(v);
}
static inline uint32_t luna_lowest(uint64_t v)
{
    return (uint32_t)__builtin_ctzll(v);
}
/** Below @p n ones. */
static inline uint64_t luna_mask(uint32_t n)
{
    return n >= 64 ? UINT64_MAX : luna_bit(n) - 1;
}
static inline int luna_is_write(uint32_t op)
{
    return op >= SNIC_LUNA_WRITE && op <= SNIC_LUNA_TRIM;
}

#endif /* SNIC_LUNA_PRIV_H */
