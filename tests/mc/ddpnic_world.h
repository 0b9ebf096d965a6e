/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * A cluster of MINOS-O nodes as a model for the explorer.
 *
 * A state: the nodes (ddpnic_node.h), the messages in flight (a multiset), the membership decided
 * last, how much of each budget is used, and what was promised so far: the timestamp of each write,
 * whether it was answered, the highest timestamp read of each key. Messages, losses, timers and
 * memberships are as in ddp_world.h; an INV for which a FIFO has no room waits.
 *
 * Checked at each state (spec minos.md, section 4.1; names as there):
 * R1  no stale read            R2  a new timestamp is above all answered and read (at its making)
 * R3  timestamps are unique    R4  one value per timestamp, in the cache and in logs
 * 2a  unlocked nodes agree     2c' gV is of a write that all members have stored
 * 3b' gD is of a write that is in all members' logs or dFIFOs
 * D   what was promised is in each member's log or dFIFO, dead ones included
 * snic_ddpnic_check() (R5 among others), assertions; at the end of a quiet time: all unlocked,
 * answered, equal, FIFOs empty (1, 3a').
 */
#ifndef SNIC_MC_DDPNIC_WORLD_H
#define SNIC_MC_DDPNIC_WORLD_H

#include "ddpnic_node.h"
#include "mc.h"

#define XW_WRITES 4

struct xw_opts {
    struct xn_opts node;
    uint32_t writes; /* plain, by any node to any key */
    uint32_t deletes;
    uint32_t scopes; /* of each node */
    uint32_t crashes;
    uint32_t evictions; /* of live nodes */
    uint32_t doubles;   /* of messages */
    uint32_t losses;
    uint32_t resends; /* timers WRITE, SCOPE */
    uint32_t locks;   /* timer LOCK */
};

struct xw_world;
struct xw_world *xw_new(const struct xw_opts *o);
void xw_free(struct xw_world *w);
/* The model; valid as long as the world. */
const struct mc_model *xw_model(struct xw_world *w);

#endif /* SNIC_MC_DDPNIC_WORLD_H */
