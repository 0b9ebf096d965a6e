/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * The target's internals.
 *
 * J1  A frame is held from its header's arrival until the send with its answer is returned: a
 *     client that does not read has at most frames_max of them, and their memory is fixed.
 * J2  A held frame has `left` requests that the owner has not answered; it is open while blocks of
 *     it are still to be received. Otherwise it is on its connection's queue of answers.
 * J3  A request refers to its frame by handle, index and serial; a freed frame has another serial.
 * J4  A connection is on the work list when it has frames to send, on one of the paused lists when
 *     recv was refused, on the closing list when it has ended and CLOSE is not reported yet.
 */
#ifndef SNIC_LUNA_TARGET_PRIV_H
#define SNIC_LUNA_TARGET_PRIV_H

#include "luna/luna_priv.h"

enum luna_frame_state {
    LUNA_FRAME_FREE = 0,
    LUNA_FRAME_HELD,     /* open, or the owner has requests of it */
    LUNA_FRAME_ANSWERED, /* on the queue of answers */
    LUNA_FRAME_SENT      /* in a send */
};

struct luna_frame {
    uint64_t serial;
    struct snic_ebs_block b;
    uint64_t rpc_id;
    uint64_t rx_ns;
    uint32_t path_seq;
    uint32_t tx_ts;
    uint32_t agg;
    uint32_t retry_us;
    uint32_t next; /* of free ones, of answers */
    uint16_t left;
    uint16_t pkt_id;
    uint16_t pkt_cnt;
    uint16_t flags;
    uint16_t status;
    uint8_t state; /* enum luna_frame_state */
    uint8_t open;
    uint8_t type; /* of the answer */
    uint8_t pad[7];
};

enum luna_peer_state {
    LUNA_PEER_FREE = 0,
    LUNA_PEER_NEW, /* before HELLO */
    LUNA_PEER_UP,
    LUNA_PEER_BYE,    /* a last frame is being sent */
    LUNA_PEER_CLOSING /* CLOSE is to be reported */
};

enum { LUNA_PAUSED_NO = 0, LUNA_PAUSED_FRAMES, LUNA_PAUSED_ROOM, LUNA_RESUMED };

struct luna_peer {
    struct snic_link work;
    struct snic_link pause; /* also on the closing list */
    uint32_t handle;
    uint32_t conn_id; /* ours */
    uint32_t client;  /* the id that our frames to it must have */
    uint32_t seq;     /* of the last frame to it */
    uint64_t client_id;
    uint64_t heard_ns;
    uint64_t probe; /* nonce to be echoed */
    struct luna_frame *frames;
    uint32_t free_frame;
    uint32_t frames_used;
    uint32_t answers; /* queue: first and last */
    uint32_t answers_last;
    uint32_t writes_out; /* requests */
    uint32_t sends_out;
    uint32_t open; /* the frame being received, or NONE */
    int32_t reason;
    uint8_t state; /* enum luna_peer_state */
    uint8_t paused;
    uint8_t path_id;
    uint8_t path_gen;
    uint8_t hello_pending;
    uint8_t probe_pending;
    uint16_t bye;      /* status */
    uint8_t permitted; /* a token that it presented was accepted */
    uint8_t pad[3];
    struct snic_luna_target_client client_stats; /* its counters */
    struct luna_in in;
    unsigned char block[SNIC_EBS_BLOCK_BYTES];
};

struct snic_luna_target {
    struct snic_luna_target_opts o;
    void *mem;
    uint64_t now_ns;
    uint64_t serial;
    uint32_t slot_bits;
    uint32_t sends_each;
    uint32_t busy; /* connections with frames */
    uint32_t dirty;
    struct snic_rng rng;
    struct luna_peer *peers;
    struct luna_pool pool;
    struct snic_link work;
    struct snic_link room;    /* paused until the owner has less than rx_blocks */
    struct snic_link resume;  /* RESUME is to be reported */
    struct snic_link closing; /* CLOSE is to be reported */
    struct snic_link lent;    /* sends, the oldest first */
    struct snic_luna_target_stats s;
};

/* peer.c */
struct luna_peer *luna_peer_of(struct snic_luna_target *t, uint32_t handle);
/** End it; @p notify: the owner has to abort it. */
void luna_peer_end(struct snic_luna_target *t, struct luna_peer *n, int reason, int notify);
/** It has frames to send: put it on the work list. */
void luna_peer_work(struct snic_luna_target *t, struct luna_peer *n);
struct luna_frame *luna_frame_take(struct snic_luna_target *t, struct luna_peer *n);
void luna_frame_free(struct snic_luna_target *t, struct luna_peer *n, struct luna_frame *f);
/** Its last block was received, or a request answered: if it is complete, queue its answer. */
void luna_frame_settle(struct snic_luna_target *t, struct luna_peer *n, struct luna_frame *f);
/** The owner has answered a write: resume connections while it has less than rx_blocks. */
void luna_target_room(struct snic_luna_target *t);

static inline int luna_target_full(const struct snic_luna_target *t)
{
    return t->s.writes_out >= t->o.rx_blocks;
}

/* answer.c */
void luna_answer_work(struct snic_luna_target *t);

#endif /* SNIC_LUNA_TARGET_PRIV_H */
