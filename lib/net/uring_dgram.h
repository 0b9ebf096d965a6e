/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * Datagram sockets on io_uring: what their two files share. The description is in uring_dgram.c.
 */
#ifndef SNIC_NET_URING_DGRAM_H
#define SNIC_NET_URING_DGRAM_H

#include "net/uring_priv.h"

#define SNIC_NET__URING_TRAINS 32
#define SNIC_NET__URING_DGRAM_BUFS 64
#define SNIC_NET__URING_DGRAM_BUFS_START 8 /* in the kernel's ring, until it runs dry */
#define SNIC_NET__URING_DGRAM_MAX 65507
#define SNIC_NET__URING_CONTROL 128
/* A whole IP datagram, the kernel's header in front of it, the sender's address, control data. */
#define SNIC_NET__URING_DGRAM_BYTES (65536 + 1024)
#define SNIC_NET__URING_MSGS 128
/* The two clocks are compared so often, and an arrival is believed if it is not longer ago. */
#define SNIC_NET__URING_WALL_NS 5000000u
#define SNIC_NET__URING_ARRIVAL_NS 1000000000u
#define SNIC_NET__URING_LOOK_NS 2000u /* reading both took no longer: it was not preempted */
/* Times that a train is sent once more because the socket had news of an earlier one. */
#define SNIC_NET__URING_NEWS 128

struct net_uring_train {
    struct snic_uring_op op;
    struct snic_node node; /* free list */
    struct net_uring_dgram *d;
    struct snic_net_train *t; /* NULL: free */
    struct snic_queue joined; /* trains that leave behind it, in the same calls */
    uint64_t bytes;           /* of all of them */
    uint64_t sent_bytes;
    uint32_t now_bytes; /* in the call under way */
    uint32_t count;     /* datagrams sent */
    uint8_t no_gso;
    uint8_t news;
    union net_uring_sockaddr to;
    struct msghdr msg;
    struct iovec iov[SNIC_NET_IOV_MAX];
    _Alignas(8) unsigned char control[SNIC_NET__URING_CONTROL];
};

/* The buffers of all datagram sockets of a handle, which are lent for the time of a call only. */
struct net_uring_pool {
    struct io_uring_buf_ring *ring;
    unsigned char *data;
    size_t bytes; /* of the whole mapping, this struct included */
    uint32_t offered;
    int group;
    uint64_t wall_ns;    /* the system's clock minus the loop's, */
    uint64_t wall_at_ns; /* as it was at this moment of the loop */
    struct snic_net_msg msgs[SNIC_NET__URING_MSGS];
};

struct net_uring_dgram {
    struct snic_net_dgram d; /* first: users see this */
    struct snic_net_dgram_events ev;
    void *ctx;
    struct snic_uring_op recv_op;
    struct snic_loop_msg kick;
    struct snic_queue free;    /* trains */
    struct snic_queue waiting; /* requests without a slot */
    struct snic_net_addr local;
    struct net_uring_pool *pool;
    unsigned char *data; /* the one buffer, without a ring */
    size_t bytes;        /* of the whole mapping, this struct included */
    uint32_t slot;
    uint32_t send_count;
    uint32_t dropped; /* by the kernel, so far */
    int fd;
    uint8_t recv_busy;
    uint8_t cancels;
    uint8_t kick_queued;
    uint8_t closing;
    uint8_t full;
    struct msghdr msg;
    struct iovec iov;
    union net_uring_sockaddr from;
    _Alignas(8) unsigned char control[SNIC_NET__URING_CONTROL];
    struct net_uring_train trains[SNIC_NET__URING_TRAINS];
};

/* uring_dgram_recv.c */
void net_uring_dgram_kick(struct net_uring_dgram *d);
struct net_uring_pool *net_uring_pool_open(struct net_uring *n);
void net_uring_dgram_listen(int fd, const struct snic_net_addr *a, const struct net_uring *n,
                            const struct snic_net_dgram_events *ev);
void net_uring_dgram_recv_start(struct net_uring_dgram *d);
void net_uring_dgram_recv_done(struct snic_uring_op *op, int32_t res, uint32_t flags);
int net_uring_dgram_news(struct net_uring_dgram *d);

#endif /* SNIC_NET_URING_DGRAM_H */
