/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * nvmetcp_net: the NVMe/TCP target on a null device beside a plain echo. What its files share; the
 * description is in nvmetcp_net.c.
 */
#ifndef SNIC_BENCH_NVMETCP_NET_H
#define SNIC_BENCH_NVMETCP_NET_H

#include "snicstore.h"

enum { NET_BLOCK = 4096, NET_DEPTH = 128, NET_HOSTS = 16 };

enum net_op { NET_READ, NET_WRITE, NET_WRITE_R2T };

struct net_case {
    enum net_op op;
    int digests; /* header and data */
    uint32_t depth;
    uint32_t hosts; /* connections; the depth is that of all of them */
    int fair;       /* the switch in front of the device */
};

/* What the client's sockets moved so far, both ways. */
struct net_bytes {
    uint64_t sent, received;
};

/* One of those that are compared. */
struct net_who {
    const char *name;
    /* In a process of its own: serve until killed. net_listens() reports the port. */
    void (*serve)(const struct net_case *c);
    /* The client, on its loop. */
    void (*open)(const struct net_case *c, const struct snic_net_addr *at, struct snic_loop *loop);
    /* One block; net_done(slot) follows from the loop. */
    void (*submit)(uint32_t slot);
    void (*count)(struct net_bytes *b);
    void (*close)(void);
};

extern const struct net_who net_target; /* nvmetcp_target.c, with nvmehost.h as the client */
extern const struct net_who net_echo;   /* nvmetcp_echo.c */

void net_must(int ok, const char *what);
/* Memory, aligned; zeros. */
void *net_memory(size_t size);
/* Both ends open loop and sockets with the same options. */
struct snic_loop *net_loop(void);
struct snic_net *net_sockets(struct snic_loop *loop, uint32_t conns);
void net_listens(uint16_t port);
void net_done(uint32_t slot);

/* A device that completes every request at once, and moves no data. */
struct snic_io *net_null_open(struct snic_loop *loop);

#endif
