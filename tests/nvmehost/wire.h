/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * A node between host and target that passes streams on as a network does: what it holds while a
 * link behind it is cut arrives later. It passes the ends on, too, and ends no stream by itself:
 * when one side is lost to a partition, the other side hears nothing.
 */
#ifndef SNIC_TESTS_NVMEHOST_WIRE_H
#define SNIC_TESTS_NVMEHOST_WIRE_H

#include "snicstore/net.h"

enum { WIRE_CONNS = 64 };

struct wire_side {
    struct wire_conn *w;
    struct snic_net_conn *net; /* NULL: closed */
    struct snic_queue bufs;    /* received here, for the other side */
    struct snic_net_send_req req;
    struct snic_iov iov;
    int sending;
    int eof; /* the other side has nothing more: shut down when all is sent */
    int shut;
    uint64_t at; /* bytes received before, of bufs and of what has left */
};

struct wire_conn {
    struct wire *wire;
    struct wire_side side[2]; /* 0 the client's, 1 the server's */
    int used;
    int held; /* nothing passes, no end either */
};

struct wire {
    struct snic_loop *loop;
    struct snic_net *net;
    struct snic_net_listener *listener;
    struct snic_net_addr to;
    /* Sees what the server sends before it passes; may be NULL. @p at is of the first byte. */
    void (*edit)(struct wire *w, uint32_t conn, uint64_t at, unsigned char *data, size_t size);
    struct wire_conn conns[WIRE_CONNS];
};

/** Node @p node of the world listens at @p port and passes on to @p to. */
void wire_open(struct wire *w, struct snic_world *world, struct snic_net_fabric *f, uint32_t node,
               uint16_t port, const struct snic_net_addr *to);
void wire_close(struct wire *w);
/** Connection @p conn, in the order of accepting, passes nothing on; or again. */
void wire_hold(struct wire *w, uint32_t conn, int held);

#endif /* SNIC_TESTS_NVMEHOST_WIRE_H */
