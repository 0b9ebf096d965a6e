/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* The inside of the simulation: what its files use of each other. */
#ifndef SNIC_TEST_MEMBER_SIM_PRIV_H
#define SNIC_TEST_MEMBER_SIM_PRIV_H

#include "test_member_sim.h"

#include <stdio.h>
#include <string.h>

static inline uint64_t sim_below(struct sim *s, uint64_t n)
{
    return snic_rng_below(&s->rng, n);
}

static inline int sim_chance(struct sim *s, uint32_t per_mille)
{
    return sim_below(s, 1000) < per_mille;
}

/* ---- test_member_sim_nodes.c ---- */

/* The first true time, not before `from`, at which its clock shows `local` or more. */
uint64_t sim_true(const struct sim_node *n, uint64_t local, uint64_t from);
/* Something for a node, at a time; NULL: no room. */
struct sim_event *sim_push(struct sim *s, uint64_t at, uint32_t kind, uint32_t node);
void sim_up(struct sim *s, uint32_t i, int first);

/* ---- test_member_sim_judge.c ---- */

/* The first thing that is wrong stays. */
void sim_fail(struct sim *s, const char *why);
/* A node installs a view. */
void sim_view(struct sim *s, uint32_t i, const struct snic_member_action *a);
/* A record is on a node's disk. */
void sim_on_disk(struct sim *s, uint32_t i, const struct snic_member_record *r);

/* ---- test_member_sim_faults.c ---- */

/* What may happen in this run, from its seed. */
void sim_swarm(struct sim *s);
void sim_chaos(struct sim *s);
/* The data path, in one step: a write of a coordinator, and a learner that asks its donor. */
void sim_data(struct sim *s);
/* The operator: new disks, requests, and at the end all nodes are back. */
void sim_operator(struct sim *s);
/* No more faults. */
void sim_heal(struct sim *s);

#endif /* SNIC_TEST_MEMBER_SIM_PRIV_H */
