/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * The inside of ddpnic_node: ddpnic_space.c keeps node states, messages and memberships, which have
 * numbers, and results; ddpnic_node.c has what an event does to a node.
 */
#ifndef SNIC_MC_DDPNIC_NODE_PRIV_H
#define SNIC_MC_DDPNIC_NODE_PRIV_H

#include "ddpnic_node.h"
#include "mc_intern.h"

#include <pthread.h>

struct xn_pending {
    uint64_t ts;
    uint64_t value; /* of MARK the scope */
    uint32_t id;
    uint16_t type; /* action - VSTORE */
    uint16_t key;
};

/* What is on the PCIe to the host: an ACK or a WAKE. */
struct xn_back {
    struct snic_ddp_msg m;
    uint32_t type;
    uint32_t flags;
};

/* A node. The engine's memory follows. */
struct xn_node {
    struct xn_sum sum;
    uint32_t pending, down, back, pad;
    struct xn_pending pend[XN_PENDING];
    struct snic_ddp_msg queue[XN_QUEUE];
    struct xn_back reply[XN_QUEUE];
    uint64_t log[XN_KEYS], log_value[XN_KEYS];
    struct snic_ddp_timer timer[XN_TIMERS];
    _Alignas(SNIC_DDPNIC_ALIGN) unsigned char engine[];
};

struct xn_space {
    struct xn_opts o;
    size_t node_size;
    pthread_mutex_t lock;
    struct mc_set nodes, messages, views;
    struct mc_memo memo;
};

static inline const struct xn_node *xn_node_at(const struct xn_space *s, uint32_t node)
{
    return s->nodes.item[node];
}

static inline struct snic_ddpnic *xn_engine(struct xn_node *n)
{
    return (struct snic_ddpnic *)(void *)n->engine;
}

/* ddpnic_space.c */
/* Room for a node's state. */
struct xn_node *xn_scratch(const struct xn_space *s);
/* Its number. Under the lock. */
uint32_t xn_add(struct xn_space *s, struct xn_node *n);
/* The log and, when the node is alive, what the dFIFO holds durable: what a crash leaves. */
void xn_sum_log(struct xn_node *n);

#endif /* SNIC_MC_DDPNIC_NODE_PRIV_H */
