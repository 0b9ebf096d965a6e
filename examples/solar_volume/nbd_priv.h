/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * A connection: nbd.c has its bytes and its end, nbd_options.c the handshake, nbd_request.c
 * requests, nbd_status.c those for block status, nbd_reply.c what leaves.
 */
#ifndef SOLAR_VOLUME_NBD_PRIV_H
#define SOLAR_VOLUME_NBD_PRIV_H

#include "nbd.h"

#include "../common.h"

#define NBD_MAGIC UINT64_C(0x4e42444d41474943)
#define NBD_IHAVEOPT UINT64_C(0x49484156454f5054)
/* Of an option more bytes than that are not looked at: a name and a query of the longest that the
 * protocol has fit. */
enum { NBD_OPTION_MAX = 16384, NBD_SEND_MAX = 1024 };
enum { NBD_CHUNK_HEAD = 20, NBD_WHY = 64, NBD_CONTEXT = 1 };

enum nbd_command {
    NBD_CMD_READ = 0,
    NBD_CMD_WRITE,
    NBD_CMD_DISC,
    NBD_CMD_FLUSH,
    NBD_CMD_TRIM,
    NBD_CMD_CACHE,
    NBD_CMD_ZEROES,
    NBD_CMD_STATUS
};

enum nbd_state {
    NBD_FLAGS,
    NBD_OPTION,
    NBD_OPTION_DATA,
    NBD_SKIP, /* an option's data that are too long */
    NBD_REQUEST,
    NBD_PAYLOAD,
    NBD_ENDED
};

struct nbd_conn;

struct nbd_req {
    struct block_req b;
    struct nbd_conn *c;
    struct snic_net_send_req send;
    struct snic_iov iov[2];
    unsigned char head[NBD_CHUNK_HEAD + 6 + NBD_WHY];
    unsigned char *memory; /* of a read, of a write's data, or of block status */
    uint64_t memory_size;
    uint64_t offset;
    uint32_t length;
    uint16_t type;         /* enum nbd_command */
    uint16_t one;          /* REQ_ONE */
    struct nbd_req *next;  /* free */
    struct snic_node turn; /* in its connection's lane */
};

/* Requests that wait for their turn. */
struct nbd_lane {
    struct snic_node node; /* in the export's, while there are any */
    struct snic_queue reqs;
};

/* A piece of the handshake that leaves. */
struct nbd_handshake_send {
    struct snic_net_send_req send;
    struct snic_iov iov;
    struct nbd_conn *c;
    unsigned char bytes[NBD_SEND_MAX];
};

struct nbd_conn {
    struct snic_link link;
    struct nbd *n;
    struct snic_net_conn *net;
    struct nbd_export *x;
    struct snic_queue held; /* received, and not looked at yet */
    enum nbd_state state;
    uint32_t have; /* bytes of what is being received */
    uint32_t want;
    uint32_t option;
    uint32_t handshakes;
    uint32_t inside;
    uint32_t leaving;  /* sends in flight: handshake and replies */
    uint64_t moved_ns; /* when one of them had left, or began to while there was none */
    uint64_t bytes;    /* of requests */
    uint64_t since_ns;
    int no_zeroes;
    int structured;          /* replies */
    int status;              /* base:allocation may be asked for */
    struct nbd_export *meta; /* that it was selected for */
    int gone;                /* the net has closed it */
    int closing;             /* we have */
    int cut;
    struct nbd_lane lanes[2]; /* small, large */
    uint32_t small;           /* requests at the disk */
    uint32_t large;           /* bytes of those */
    struct nbd_req *free;
    struct nbd_req *now; /* its payload is being received */
    unsigned char in[NBD_OPTION_MAX];
    struct nbd_req reqs[NBD_DEPTH];
};

struct nbd {
    struct snic_loop *loop;
    struct snic_net *net;
    struct snic_net_listener *listener;
    struct snic_link conns;
    struct nbd_export exports[NBD_EXPORTS];
    uint32_t count;
    struct nbd_stats s;
    uint64_t crowd; /* turned away since the last line about them */
    uint64_t crowd_ns;
    uint64_t ended; /* for protocol errors, since the last line about one */
    uint64_t ended_ns;
    void (*over)(void *ctx);
    void *ctx;
    int draining;
    struct snic_timer patience; /* while draining */
    struct snic_timer hello;    /* armed: a client has not chosen a disk yet */
    int hello_armed;
};

/* nbd.c */
void nbd_end(struct nbd_conn *c, const char *why);
/* If nothing of it is left anywhere. */
void nbd_free(struct nbd_conn *c);
/* In order, if it has ended and all is answered. */
void nbd_hang_up(struct nbd_conn *c);
/* Whatever has been received, as far as there is room. */
void nbd_parse(struct nbd_conn *c);
/* nbd_request.c: a header is in c->in, and a request is free for it; a write's data are there. */
void nbd_request(struct nbd_conn *c);
void nbd_payload(struct nbd_conn *c);
/* nbd_status.c: q->memory has so much room, and is what it works with until it replies. */
uint64_t nbd_status_room(void);
void nbd_status_start(struct nbd_req *q);
void *nbd_status_list(struct nbd_req *q, uint64_t *size);
/* nbd_reply.c: the request is over; it is free when the reply has left. */
void nbd_reply(struct nbd_req *q, int result);
/* Bytes of the handshake; they are copied. It may end the connection: what state comes next is to
 * be set before. */
void nbd_send_bytes(struct nbd_conn *c, const void *bytes, uint32_t size);
/* nbd_options.c */
void nbd_hello(struct nbd_conn *c);
/* c->want bytes are in c->in: parse them, and set c->want for the next. */
void nbd_handshake(struct nbd_conn *c);

#endif
