/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * A cluster of replication engines as a model for the explorer.
 *
 * A state: the nodes (ddp_node.h), the messages in flight (a multiset), the membership decided
 * last, how much of each budget is used, and what was promised so far: the timestamp of each write,
 * whether it was answered, whether it could be read, the highest timestamp read of each key.
 *
 * Messages arrive in any order or are held back for any length of time, which is what a loss
 * comes to until a timer fires; with a budget they are doubled or lost. Those that can only be
 * refused, since their epoch or incarnation is over, are dropped at once, and those of an epoch
 * that the receiver has not installed wait. Timers fire whenever they are armed, up to a budget.
 * Memberships are decided by the environment, which keeps the rule of leases: a node is left out
 * when it is dead or its lease has ended. Nodes install them one by one, at any time.
 *
 * Checked at each state (spec minos.md, section 4.1; names as there):
 * R1  no stale read            R2  a new timestamp is above all answered and read (at its making)
 * R3  timestamps are unique    R4  one value per timestamp, in memory and in logs
 * 2a  unlocked nodes agree     2b' 2c' gV is of a write that all members hold
 * 3b' gD is of a write that is in all members' logs
 * D   what was promised, per write and per read, is in each member's log, dead ones included
 * N   an answer is for as many FULL members as there are, and no fewer than required
 * M2  a node that was FULL and is not again yet has in its log what was answered until it left
 * A2  a FULL node's log has nothing newer than the node holds
 * L   the engine calls durable only what its log has
 * C   a swap that was answered had nothing between it and its base; one refused is never read
 * H   each handle given to an engine is released once (ddp_node.h)
 * snic_ddp_check(), assertions; at the end of a quiet time: all unlocked, answered, equal (1, 3a').
 */
#ifndef SNIC_MC_DDP_WORLD_H
#define SNIC_MC_DDP_WORLD_H

#include "ddp_node.h"
#include "mc.h"

#define DW_WRITES 6

/*
 * A beginning: node 1 has a write of its own, of which no node heard, and does one of node 2's
 * over, since it has not heard that it is complete. That is all that it has room for, if room is 2.
 */
#define DW_BEGIN_FULL                                                                              \
    "1 writes\n"                                                                                   \
    "2 writes\n"                                                                                   \
    "0 gets INV from 2\n"                                                                          \
    "1 gets INV from 2\n"                                                                          \
    "0 has durable*\n"                                                                             \
    "1 has durable*\n"                                                                             \
    "2 has durable*\n"                                                                             \
    "2 gets ACK*\n"                                                                                \
    "0 gets VAL*\n"                                                                                \
    "1 timer LOCK\n"                                                                               \
    "1 timer LOCK\n"

/*
 * A beginning: nodes 1 and 2 crash after a write that was answered, and are learners with what
 * their logs have.
 */
#define DW_BEGIN_LEARN                                                                             \
    "0 writes\n"                                                                                   \
    "1 gets INV from 0\n"                                                                          \
    "2 gets INV from 0\n"                                                                          \
    "0 has durable*\n"                                                                             \
    "1 has durable*\n"                                                                             \
    "2 has durable*\n"                                                                             \
    "0 gets ACK*\n"                                                                                \
    "1 gets VAL*\n"                                                                                \
    "2 gets VAL*\n"                                                                                \
    "1 crashes 0\n"                                                                                \
    "2 crashes 0\n"                                                                                \
    "decided: without\n"                                                                           \
    "0 installs\n"                                                                                 \
    "1 reboots 1\n"                                                                                \
    "2 reboots 1\n"                                                                                \
    "decided: learner 1\n"                                                                         \
    "decided: learner 2\n"

struct dw_opts {
    struct dn_opts node;
    uint32_t writes; /* plain, by any node to any key */
    uint32_t deletes;
    uint32_t swaps;
    uint32_t scopes; /* of each node */
    uint32_t crashes;
    uint32_t evictions; /* of live nodes */
    uint32_t rejoins;
    uint32_t keeps;       /* not 0: one that rejoins may come with what its log or memory had */
    uint32_t overrides;   /* no FULL node is left, and the logs of earlier ones are used */
    uint32_t restarts;    /* of all at once */
    uint32_t doubles;     /* of messages */
    uint32_t double_type; /* only of this type; 0: any */
    uint32_t losses;
    uint32_t resends; /* timers WRITE, SCOPE, PULL, RESTART, PURGE */
    uint32_t locks;   /* timer LOCK */
    uint32_t reads;   /* that wait for an unlock, or until what they return is durable */
    /* Durabilities that a write, and a read, may name: bits 1 << enum snic_ddp_durability; 0: none
     * names any. A write of SCOPE is in one, and needs `scopes`. */
    uint32_t mix;
    uint32_t read_mix;
    /* NULL, or what happened before: for each line the first action whose text starts so, with a *
     * at its end all of these; then the messages in flight are lost. Counts in the budgets. */
    const char *begin;
};

struct dw_world;
struct dw_world *dw_new(const struct dw_opts *o);
void dw_free(struct dw_world *w);
/* The model; valid as long as the world. */
const struct mc_model *dw_model(struct dw_world *w);
struct dn_space *dw_space(struct dw_world *w);

#endif /* SNIC_MC_DDP_WORLD_H */
