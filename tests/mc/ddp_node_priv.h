/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * The inside of ddp_node: ddp_space.c keeps things that have numbers, and results; ddp_node.c has
 * what an event does to a node; ddp_twins.c tries whether equal states are.
 */
#ifndef SNIC_MC_DDP_NODE_PRIV_H
#define SNIC_MC_DDP_NODE_PRIV_H

#include "ddp_node.h"
#include "mc_intern.h"

#include <pthread.h>

struct dn_pending {
    uint8_t key;
    uint8_t segment; /* how many of the flushes under way do not cover it */
    uint8_t durable; /* a flush made it so, the engine does not know yet; or void */
    uint8_t silent;  /* of the time before it returned: not reported */
    uint8_t kind;    /* DN_REPLACES, DN_DROPS or 0 */
    uint8_t order;   /* of those of a key, behind one with a kind */
    uint8_t pad[2];
    uint64_t ts;
    uint64_t value;
};

enum { DN_REPLACES = 1, DN_DROPS };

/* A node. The engine's memory follows. */
struct dn_node {
    struct dn_sum sum;
    uint32_t pending, flushes;
    struct dn_pending pend[DN_PENDING];
    uint32_t flush[DN_FLUSHES];
    uint64_t log[DN_KEYS], log_value[DN_KEYS];
    struct snic_ddp_timer timer[DN_TIMERS];
    _Alignas(SNIC_DDP_ALIGN) unsigned char engine[];
};

struct dn_space {
    struct dn_opts o;
    size_t node_size;
    pthread_mutex_t lock;
    struct mc_set nodes, messages, views;
    struct mc_memo memo;
    struct dn_twins *twins; /* NULL: not tried */
};

static inline const struct dn_node *dn_node_at(const struct dn_space *s, uint32_t node)
{
    return s->nodes.item[node];
}

/* ddp_node.c */
struct snic_ddp_opts dn_engine_opts(const struct dn_opts *o, uint32_t id);
struct dn_node *dn_copy(const struct dn_space *s, const struct dn_node *n);
/* What an event does to a node whose state has this number. Under the lock. */
struct dn_result *dn_run(struct dn_space *s, const struct dn_node *n, uint32_t node,
                         uint32_t event);

/* ddp_space.c */
void dn_result_free(void *result);

/* ddp_twins.c */
struct dn_twins *dn_twins_new(void);
void dn_twins_free(struct dn_twins *t);
/* A node has this state, which was known. */
void dn_twin_found(struct dn_space *s, uint32_t node, const struct dn_node *n);
/* A state took an event, and the result is kept. */
void dn_twins_step(struct dn_space *s, uint32_t node, uint32_t event);

#endif /* SNIC_MC_DDP_NODE_PRIV_H */
