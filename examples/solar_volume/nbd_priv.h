/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* A connection: nbd.c has bytes and requests, nbd_options.c the handshake. */
#ifndef SOLAR_VOLUME_NBD_PRIV_H
#define SOLAR_VOLUME_NBD_PRIV_H

#include "nbd.h"

#include "../common.h"

#define NBD_MAGIC UINT64_C(0x4e42444d41474943)
#define NBD_IHAVEOPT UINT64_C(0x49484156454f5054)
enum { NBD_OPTION_MAX = 4096, NBD_SEND_MAX = 1024 };

enum nbd_state { NBD_FLAGS, NBD_OPTION, NBD_OPTION_DATA, NBD_REQUEST, NBD_PAYLOAD, NBD_ENDED };

struct nbd_conn;

struct nbd_req {
    struct block_req b;
    struct nbd_conn *c;
    struct snic_net_send_req send;
    struct snic_iov iov[2];
    unsigned char head[16];
    unsigned char *memory;
    uint64_t memory_size;
    struct nbd_req *next; /* free */
};

/* A piece of the handshake that leaves. */
struct nbd_say {
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
    uint32_t says;
    uint32_t inside;
    uint32_t leaving;  /* says, and replies that the net has */
    uint64_t moved_ns; /* when one of them had left, or began to while there was none */
    uint64_t bytes;    /* of requests */
    int no_zeroes;
    int gone;    /* the net has closed it */
    int closing; /* we have */
    int cut;
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
    void (*over)(void *ctx);
    void *ctx;
    int draining;
    struct snic_timer patience; /* while draining */
};

/* nbd.c */
void nbd_end(struct nbd_conn *c, const char *why);
/* Bytes of the handshake; they are copied. It may end the connection: what state comes next is to
 * be set before. */
void nbd_say(struct nbd_conn *c, const void *bytes, uint32_t size);
/* nbd_options.c */
void nbd_hello(struct nbd_conn *c);
/* What was wanted is in c->in: judge it, and set what is wanted next. */
void nbd_handshake(struct nbd_conn *c);

#endif
