/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * NVMe/TCP's internals: shared by the files of this module and its tests.
 *
 * I1  Queued PDUs (outs) form one FIFO. Those before `cursor` were returned by output, those behind
 *     it were not; `cursor_at` bytes of the cursor were, and `acked` bytes of the first were
 *     reported as sent. acked <= returned.
 * I2  Every slot, reply, grant is on its free list or in use; a slot in use holds a free reply that
 *     is reserved for it, so that a response never fails.
 * I3  An event is on the FIFO at most once: its node is its object's.
 * I4  Received data are written only into the destination that the header's judgement set: an
 *     in-capsule buffer of the slot, the pieces of an open grant, the pieces of an outstanding
 *     command. A PDU that is refused has none; its data are dropped.
 * I5  Input stands still (phase ADMIT) only for a reply or an in-capsule buffer, both of which are
 *     returned without input.
 */
#ifndef SNIC_NVMETCP_PRIV_H
#define SNIC_NVMETCP_PRIV_H

#include "snicstore/nvmetcp.h"

#define SNIC_NVMETCP__CH 8u /* the common header */
#define SNIC_NVMETCP__PAD_MAX 128u
#define SNIC_NVMETCP__TERM_DATA 128u /* most of a header that a TermReq shows */
#define SNIC_NVMETCP__TERM_BYTES (24u + SNIC_NVMETCP__TERM_DATA)
#define SNIC_NVMETCP__RESP (24u + 4u)
#define SNIC_NVMETCP__NONE UINT32_MAX

/* Statuses that the engine gives by itself: SC, SCT << 8, DNR. */
#define SNIC_NVMETCP__DNR 0x4000u
#define SNIC_NVMETCP__INVALID_FIELD (0x02u | SNIC_NVMETCP__DNR)
#define SNIC_NVMETCP__SEQUENCE (0x0cu | SNIC_NVMETCP__DNR)
#define SNIC_NVMETCP__SGL_LENGTH (0x0fu | SNIC_NVMETCP__DNR)
#define SNIC_NVMETCP__SGL_TYPE (0x11u | SNIC_NVMETCP__DNR)
#define SNIC_NVMETCP__SGL_OFFSET (0x16u | SNIC_NVMETCP__DNR)
#define SNIC_NVMETCP__TRANSPORT 0x22u

#define SNIC_NVMETCP__FABRICS 0x7fu
#define SNIC_NVMETCP__FC_CONNECT 0x01u
#define SNIC_NVMETCP__SGL_DATA 0x5au   /* transport data block */
#define SNIC_NVMETCP__SGL_INLINE 0x01u /* data block, offset */

/* Direction of data: opcode bits 1:0. */
enum nvmetcp_dir {
    NVMETCP_DIR_NONE = 0,
    NVMETCP_DIR_IN = 1,
    NVMETCP_DIR_OUT = 2,
    NVMETCP_DIR_BOTH
};

/* ---- Output ---- */

enum nvmetcp_out_kind {
    NVMETCP_OUT_IC = 1,
    NVMETCP_OUT_TERM,
    NVMETCP_OUT_REPLY,
    NVMETCP_OUT_R2T,
    NVMETCP_OUT_COMMAND,
    NVMETCP_OUT_DATA
};

/* A position in a list of pieces. */
struct nvmetcp_span {
    const struct snic_iov *iov;
    size_t skip; /* bytes of the first piece */
};

struct nvmetcp_out {
    struct snic_node node;
    const unsigned char *head;
    const unsigned char *tail;
    struct nvmetcp_span data;
    uint8_t kind; /* enum nvmetcp_out_kind */
    uint8_t head_size;
    uint8_t pad_size;
    uint8_t tail_size;
    uint32_t data_size;
    uint8_t queued;
    uint8_t handed; /* output has returned all of it */
    uint8_t pad[6];
};

/* ---- Events ---- */

struct nvmetcp_ev {
    struct snic_node node;
    uint32_t type; /* enum snic_nvmetcp_event_type; 0: not queued (I3) */
};

/* ---- Input ---- */

enum nvmetcp_phase {
    NVMETCP_HEAD = 0,
    NVMETCP_ADMIT, /* I5 */
    NVMETCP_PAD,
    NVMETCP_DATA,
    NVMETCP_DIGEST,
    NVMETCP_DROP /* everything: the connection is terminating */
};

struct nvmetcp_in {
    struct snic_nvmetcp_pdu pdu;
    uint32_t phase; /* enum nvmetcp_phase */
    uint32_t have;  /* bytes of the header or digest */
    uint32_t left;  /* of the pad or data */
    uint32_t crc;
    struct nvmetcp_span dest; /* iov NULL: the data are dropped (I4) */
    struct snic_iov one;      /* a destination of one piece */
    unsigned char digest[4];
    unsigned char head[SNIC_NVMETCP_HEADER_MAX];
};

enum nvmetcp_state {
    NVMETCP_NEW = 0, /* before ICReq or ICResp */
    NVMETCP_UP,
    NVMETCP_TERMINATING,
    NVMETCP_OVER
};

struct nvmetcp_conn;

struct nvmetcp_role {
    /* A header is complete: set the destination. 0; SNIC_EAGAIN: later (I5); SNIC_EPROTO: refused,
       pdu.fes and fei name the error; another SNIC_E*: end. */
    int (*head)(struct nvmetcp_conn *c);
    /* The PDU is complete; good: 0 if its data digest was wrong. */
    int (*done)(struct nvmetcp_conn *c, int good);
    /* Output has returned all of an out, for the first time; or NULL. */
    void (*handed)(struct nvmetcp_conn *c, struct nvmetcp_out *o);
    /* An out was sent. */
    void (*sent)(struct nvmetcp_conn *c, struct nvmetcp_out *o);
    /* The state is now TERMINATING or OVER. */
    void (*down)(struct nvmetcp_conn *c);
};

struct nvmetcp_conn {
    const struct nvmetcp_role *role;
    uint64_t now_ns;
    uint64_t greet_ns; /* deadlines: SNIC_NEVER if none */
    uint64_t close_ns;
    uint64_t close_wait_ns;
    uint8_t state;     /* enum nvmetcp_state */
    uint8_t draining;  /* OVER when everything was sent */
    uint8_t term_due;  /* the event TERM */
    uint8_t ended_due; /* the event ENDED */
    uint8_t from_peer;
    uint8_t pad;
    uint16_t fes;
    uint32_t fei;
    int32_t reason;
    struct snic_nvmetcp_params rx;
    struct snic_nvmetcp_params tx;
    struct nvmetcp_in in;
    struct snic_queue outs; /* I1 */
    struct nvmetcp_out *cursor;
    size_t cursor_at;
    size_t acked;
    struct snic_queue events; /* I3 */
    struct nvmetcp_out ic;
    struct nvmetcp_out term;
    unsigned char ic_head[SNIC_NVMETCP_HEADER_MAX];
    unsigned char term_head[SNIC_NVMETCP__TERM_BYTES];
    struct snic_nvmetcp_stats s;
};

/* conn.c */
void nvmetcp_conn_init(struct nvmetcp_conn *c, const struct nvmetcp_role *role, int to_host,
                       uint64_t now_ns);
size_t nvmetcp_conn_recv(struct nvmetcp_conn *c, const unsigned char *data, size_t size);
uint32_t nvmetcp_conn_want(const struct nvmetcp_conn *c, struct snic_iov *iov, uint32_t max);
void nvmetcp_conn_filled(struct nvmetcp_conn *c, size_t size);
/** Continue from ADMIT; no effect in another phase. */
void nvmetcp_conn_resume(struct nvmetcp_conn *c);
/** A fatal error of the peer: report it by TermReq. */
void nvmetcp_conn_violation(struct nvmetcp_conn *c, uint16_t fes, uint32_t fei);
void nvmetcp_conn_sent(struct nvmetcp_conn *c, size_t bytes);
/** ENDED is due. */
void nvmetcp_conn_over(struct nvmetcp_conn *c, int reason);
/** Time passes. */
void nvmetcp_conn_tick(struct nvmetcp_conn *c, uint64_t now_ns);
void nvmetcp_conn_peer_term(struct nvmetcp_conn *c);
int nvmetcp_conn_refuse(struct nvmetcp_conn *c, uint16_t fes, uint32_t fei);
int nvmetcp_conn_check(const struct nvmetcp_conn *c);
uint64_t nvmetcp_conn_deadline(const struct nvmetcp_conn *c);
/** TERM or ENDED, if due. @return 1 @p e */
int nvmetcp_conn_final(struct nvmetcp_conn *c, struct snic_nvmetcp_event *e, uint32_t type);

/* output.c */
void nvmetcp_out_queue(struct nvmetcp_conn *c, struct nvmetcp_out *o);
uint32_t nvmetcp_out_take(struct nvmetcp_conn *c, struct snic_iov *iov, uint32_t max,
                          size_t *bytes);
void nvmetcp_out_sent(struct nvmetcp_conn *c, size_t bytes);
void nvmetcp_out_rewind(struct nvmetcp_conn *c);
static inline size_t nvmetcp_out_size(const struct nvmetcp_out *o)
{
    return (size_t)o->head_size + o->pad_size + o->data_size + o->tail_size;
}

/* span.c */
/** @p bytes further; skip is below the first piece's size, or iov is behind the last. */
void nvmetcp_span_skip(struct nvmetcp_span *s, size_t bytes, size_t left);
/** CRC32C of @p size bytes. */
uint32_t nvmetcp_span_crc(struct nvmetcp_span s, size_t size);
/** 1: the pieces have @p size bytes in all. */
int nvmetcp_span_fits(const struct snic_iov *iov, uint32_t count, uint64_t size);
/** The next contiguous bytes, at most @p most. */
size_t nvmetcp_span_piece(const struct nvmetcp_span *s, size_t most, unsigned char **base);

static inline void nvmetcp_event(struct nvmetcp_conn *c, struct nvmetcp_ev *e, uint32_t type)
{
    SNIC_DASSERT(e->type == 0);
    e->type = type;
    snic_queue_push(&c->events, &e->node);
}

static inline enum nvmetcp_dir nvmetcp_dir_of(const unsigned char *sqe)
{
    uint8_t op = sqe[0] == SNIC_NVMETCP__FABRICS ? sqe[4] : sqe[0];
    return (enum nvmetcp_dir)(op & 3u);
}
#endif /* SNIC_NVMETCP_PRIV_H */
