/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * LUNA's internals: shared by the files of this module and its tests.
 *
 * I1  The blocks of an RPC are each acked, to be sent (need), in flight on connection r->conn
 *     (out), or refused for now (busy): four disjoint sets whose union is the RPC.
 * I2  An RPC is on exactly one list (by `where`), on its disk's, and with out on r->conn's.
 * I3  outside of a connection is the sum of out of its RPCs; write_out the sum of its writes.
 * I4  backlog of a load is the sum of need of its RPCs that are READY.
 * I5  A send's data stay valid: an RPC is not released while refs counts sends with its blocks.
 * I6  Received data are written into an I/O's buffer only for a block that is out, from the
 *     connection and the turn in which it was requested: never for a block that is done, expired or
 *     requested on another connection.
 * Disks, versions and waiting: Q1 to Q5 of ebs/queue.h.
 */
#ifndef SNIC_LUNA_PRIV_H
#define SNIC_LUNA_PRIV_H

#include "ebs/opts.h"
#include "ebs/queue.h"
#include "snicstore/luna.h"

#define SNIC_LUNA__MS UINT64_C(1000000)
#define SNIC_LUNA__BLOCKS SNIC_EBS_RPC_BLOCKS /* most of a send */
#define SNIC_LUNA__CIPHERS SNIC_LUNA_FRAMES_MAX
#define SNIC_LUNA__LIST (SNIC_EBS_RPC_BLOCKS * 4u)
#define SNIC_LUNA__HEADS (SNIC_LUNA_FRAMES_MAX * SNIC_EBS_HEADER_BYTES + SNIC_LUNA__LIST)
#define SNIC_LUNA__NONE UINT32_MAX

#define SNIC_LUNA__UP (SNIC_EBS_STREAM | SNIC_EBS_TO_SERVER)
#define SNIC_LUNA__DOWN (SNIC_EBS_STREAM | SNIC_EBS_TO_CLIENT)

/* ---- Sends: both sides have a pool of them ---- */

struct luna_rpc;

struct luna_out {
    struct snic_luna_send s;
    struct snic_link lent; /* target: in the order of lending */
    uint64_t lent_ns;
    uint32_t head_used;
    uint32_t blocks;
    uint32_t ciphers;
    uint32_t last; /* target: end the connection when this one is returned */
    struct luna_rpc *rpc[SNIC_LUNA_FRAMES_MAX]; /* agent: the RPC of each frame's data, or NULL */
    uint32_t held[SNIC_LUNA_FRAMES_MAX];        /* target: frames that it answers, or NONE */
    struct snic_iov iov[SNIC_LUNA_IOV_MAX];
    unsigned char *cipher; /* SNIC_LUNA__CIPHERS blocks, or NULL */
    unsigned char head[SNIC_LUNA__HEADS];
};

struct luna_pool {
    struct ebs_pool p;
    struct luna_out *outs;
};

/* ---- A received stream ---- */

enum luna_phase {
    LUNA_HEAD = 0, /* of a frame */
    LUNA_LIST,     /* checksums */
    LUNA_DATA,
    LUNA_SKIP,  /* bytes to be dropped */
    LUNA_ADMIT, /* target: a frame to be held */
    LUNA_EMIT   /* target: requests without data */
};

struct luna_in {
    struct snic_ebs_header h;
    struct snic_ebs_place place;
    uint32_t phase; /* enum luna_phase */
    uint32_t have;  /* bytes of the head, list or block */
    uint32_t skip;
    uint32_t done;    /* blocks of the frame */
    uint32_t crc;     /* of the block so far */
    uint32_t seq;     /* of the last frame */
    uint32_t version; /* of a frame that is of another one; 0 */
    unsigned char head[SNIC_EBS_HEADER_BYTES];
    unsigned char list[SNIC_LUNA__LIST];
};

/* ---- The agent ---- */

enum { LUNA_PENDING_CLOSE = 1, LUNA_PENDING_CONNECT = 2 };

struct luna_conn {
    struct snic_timer timer;
    struct snic_luna *c;
    struct snic_link event; /* on c->conn_events unless pending is 0 */
    struct snic_link rpcs;  /* with blocks out here */
    uint32_t server;
    uint16_t gen;
    uint16_t close_gen;
    uint8_t index;
    uint8_t state; /* enum snic_luna_conn_state */
    uint8_t pending;
    uint8_t hello_due;
    uint8_t probe_due;
    uint8_t probe_out;
    uint8_t fence_out;
    uint8_t pad;
    int32_t reason;
    uint32_t conn_id; /* the server's */
    uint32_t mine;    /* the id that its frames must have */
    uint32_t srv_epoch;
    uint32_t outside;
    uint32_t write_out;
    uint32_t credit;
    uint32_t seq;        /* of the last frame sent */
    uint32_t token_next; /* tokens of disks from here on ... */
    uint32_t token_end;  /* up to here are to be sent before anything else */
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
    /* destination of the data of the READ_RESP being received */
    struct luna_rpc *rpc; /* I6; NULL: none */
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
    uint8_t flip;
    uint8_t pad[3];
    uint32_t ups;
    uint32_t pad2;
    uint64_t dark_ns; /* since when no connection is UP; SNIC_NEVER */
    struct snic_link again;
    struct snic_link ready[2]; /* writes of data; all else */
    struct luna_conn *conns;
    struct ebs_load *load;
};

/* States of RPCs, beside those of ebs/queue.h. */
enum luna_where { LUNA_READY = EBS_RPC_OTHER /* blocks to be sent */ };

struct luna_rpc {
    struct ebs_rpc q; /* its timer is BUSY's retry, and the fence's */
    struct snic_luna *c;
    struct snic_link of_conn;
    uint64_t need;
    uint64_t out;
    uint64_t busy;
    uint64_t summed; /* blocks whose checksums are computed */
    uint32_t conn;
    uint32_t turn;   /* counts mappings */
    uint32_t queued; /* its part of backlog */
    uint8_t twice;   /* sent more than once: after a refusal a copy may still be in flight */
    uint8_t tries;
    uint8_t pad[2];
    uint32_t crc[SNIC_EBS_RPC_BLOCKS];
    uint32_t block_tag[SNIC_EBS_RPC_BLOCKS];
    uint8_t wrong[SNIC_EBS_RPC_BLOCKS]; /* damaged answers at this server, for each block */
};

struct snic_luna {
    struct ebs_queue q;
    struct snic_luna_opts o;
    void *mem;
    uint64_t last_poll_ns;
    uint64_t expected_ns; /* when the next poll is due */
    uint64_t lag_ns;      /* all stalls */
    uint64_t client_id;
    uint32_t turn; /* the server that may send first */
    uint32_t pad;
    struct luna_server *servers;
    struct luna_conn *conns;
    struct luna_rpc *rpcs;
    struct luna_pool pool;
    struct snic_link conn_events;
    struct snic_luna_stats s; /* except for those counted in q */
};

/* frame.c: shared by both sides */
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
/** Gather @p want bytes in @p into; *data and *size advance. @return 1 all are there */
int luna_in_gather(struct luna_in *in, unsigned char *into, uint32_t want,
                   const unsigned char **data, size_t *size);
/** @return 1 a header is complete and decoded; 0 not yet; SNIC_E* */
int luna_in_head(struct luna_in *in, unsigned direction, const unsigned char **data, size_t *size);
/** @return 1: the list matches data_crc and agg_crc. */
int luna_in_list_good(const struct luna_in *in);

/* watch.c */
/** It has to answer: the handshake, requests or a PROBE. */
int luna_conn_waits(const struct luna_conn *n);
/** A frame that requires an answer is about to be sent. */
void luna_conn_expect(struct snic_luna *c, struct luna_conn *n);
/** 1: it does not answer, and gets no new requests until it does. */
int luna_conn_doubtful(const struct snic_luna *c, const struct luna_conn *n);
/** A frame was sent or answered: arm the timer anew. */
void luna_conn_watch(struct snic_luna *c, struct luna_conn *n);
/** The disk's token is sent on @p n before all else; ~0: all of them. */
void luna_token_due(struct snic_luna *c, struct luna_conn *n, uint32_t disk);

/* rpc.c */
void luna_rpc_made(struct ebs_queue *q, struct ebs_rpc *rpc);
void luna_rpc_leave(struct ebs_queue *q, struct ebs_rpc *rpc);
void luna_rpc_begin(struct ebs_queue *q, struct ebs_rpc *rpc);
void luna_rpc_give_up(struct ebs_queue *q, struct ebs_rpc *rpc, int result);
void luna_rpc_end(struct ebs_queue *q, struct ebs_rpc *rpc, int result);
struct luna_rpc *luna_rpc_find(struct snic_luna *c, uint64_t id);
void luna_rpc_list(struct snic_luna *c, struct luna_rpc *r);
/** @p blocks of need are sent on @p n. */
void luna_rpc_sent(struct snic_luna *c, struct luna_rpc *r, struct luna_conn *n, uint64_t blocks);
void luna_rpc_acked(struct snic_luna *c, struct luna_rpc *r, uint64_t blocks);
/** @p blocks of out, and of busy, are to be sent again. */
void luna_rpc_again(struct snic_luna *c, struct luna_rpc *r, uint64_t blocks);
void luna_rpc_wrong(struct snic_luna *c, struct luna_rpc *r, uint64_t blocks);
void luna_rpc_status(struct snic_luna *c, struct luna_rpc *r, uint64_t blocks, uint32_t status,
                     uint32_t retry_us);

/* conn.c */
void luna_conn_init(struct snic_luna *c, struct luna_server *s, uint32_t index);
void luna_conn_up(struct snic_luna *c, struct luna_conn *n);
/** End it; @p notify: the owner has to abort it. */
void luna_conn_end(struct snic_luna *c, struct luna_conn *n, int reason, int notify);
void luna_conn_fired(struct snic_timer *t, uint64_t now_ns);
void luna_server_fired(struct snic_timer *t, uint64_t now_ns);

/* send.c */
void luna_send(struct snic_luna *c);
/** The timer of an RPC: its blocks that were refused, or its fence, are sent again. */
void luna_rpc_fired(struct snic_timer *t, uint64_t now_ns);

/* agent.c */
extern const struct ebs_queue_ops luna_queue_ops;

static inline uint64_t luna_alive(const struct snic_luna *c)
{
    return c->q.now_ns - c->lag_ns;
}
#endif /* SNIC_LUNA_PRIV_H */
