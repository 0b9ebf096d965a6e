/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * A cluster of member engines in simulated time, from a seed: messages are delayed, lost, doubled
 * and reordered; links are cut one way or both; nodes crash with what was not yet stored, lose
 * their files, stop for a while; clocks run at different rates. A counter stands for the data: a
 * write raises it at all members of the coordinator's epoch, if they are in that epoch.
 *
 * After every event:
 *   S1  A node whose lease is valid by its own clock is FULL in every view chosen so far that is
 *       later than its own (P2), and holds every acknowledged write.
 *   S2  An epoch has one chosen view, and what any node installs is that.
 *   S3  Files never go back.
 *   S4  Each chosen view follows from the one before by P3 and P4.
 *   S5  A configuration changes by one node, in a view that is its config_epoch; only a FULL node
 *       or a witness gets a vote, for a later file than those that had it (P5).
 * Chosen is what a majority of the voters' files (as they are on disk) voted for in one ballot; in
 * the first epoch, what all did. In one run of four an operator adds, removes and replaces nodes,
 * and gives new disks to those whose files are dead.
 * At the end faults stop, and all who hold data must be FULL, with a lease, in one epoch.
 *
 *   test_member_sim_nodes.c   events and actions of the nodes, their clocks, files and deaths
 *   test_member_sim_judge.c   S1 to S4
 *   test_member_sim_faults.c  what happens to them, and the data path
 *   test_member_sim_run.c     a run: what comes next, until all is well
 */
#ifndef SNIC_TEST_MEMBER_SIM_H
#define SNIC_TEST_MEMBER_SIM_H

/* test_member_teeth.c runs clusters of its own copy of the engine, with defects. */
#ifdef MEMBER_TEETH
#include "test_member_rename.h"
#endif

#include "snicstore/member.h"

enum { SIM_NODES = 6, SIM_EVENTS = 2048, SIM_EPOCHS = 1024, SIM_VOTES = 4096, SIM_MS = 1000000 };

/* What a run may do; zero is the default swarm. */
struct sim_opts {
    uint64_t seed;
    uint32_t excess; /* clocks may be so many times worse than drift_ppm; 0: 1 */
    uint32_t nodes;  /* 0: by the seed */
    uint32_t witness;
    uint32_t min_full;
    uint64_t slow_ns;
    int trace;
    int blind; /* without snic_member_check */
    int still; /* no operator changes the configuration, whatever the seed */
    int calm;  /* default options, no faults but those that a test makes */
};

struct sim_event {
    uint64_t at;
    uint64_t order;
    uint32_t kind; /* 1 message, 2 stored */
    uint32_t node;
    uint32_t run_number;
    uint64_t id;
    struct snic_member_msg msg;
    struct snic_member_record record;
};

struct sim_node {
    struct snic_member *m;
    uint64_t offset;
    int64_t rate; /* ppm */
    int up;
    int has_disk;
    int lost; /* its file, once */
    uint32_t run_number;
    uint64_t paused_until; /* true time */
    uint64_t up_at;        /* of one that is down */
    uint64_t tick_at;
    struct snic_member_record disk;
    uint64_t lease; /* by its clock */
    struct snic_member_view view;
    uint32_t role;
    uint64_t log;
    int partial;
    int good;
    uint32_t caught; /* incarnation that caught up */
};

struct sim_vote {
    uint64_t ballot;
    uint32_t epoch;
    uint32_t mask;
    struct snic_member_view view;
};

struct sim {
    struct sim_opts o;
    struct snic_rng rng;
    uint64_t now;
    uint64_t order;
    uint64_t end_faults;
    uint64_t end;
    uint64_t chaos_at;
    uint64_t write_at;
    uint64_t chaos_mean;
    uint64_t delay_max;
    uint64_t store_max;
    uint32_t loss, dup; /* per mille */
    int tight;
    int changes; /* an operator adds, removes and replaces nodes */
    uint64_t operator_at;
    uint32_t count;
    uint16_t all;
    uint16_t witness;
    uint16_t dead; /* by an operator's word, in a test */
    uint32_t drift;
    struct snic_member_opts opts;
    struct sim_node nodes[SIM_NODES];
    uint8_t cut[SIM_NODES][SIM_NODES];
    struct sim_event events[SIM_EVENTS];
    uint32_t pending;
    uint64_t writes;
    struct snic_member_view chosen[SIM_EPOCHS];
    uint32_t newest;
    struct sim_vote votes[SIM_VOTES];
    uint32_t votes_count;
    uint8_t good_at[SIM_NODES][8192]; /* bit by incarnation: its log was reported good */
    uint64_t hash;
    uint64_t steps, restarts, acked, gone, changed;
    const char *failure;
    _Alignas(SNIC_MEMBER_ALIGN) unsigned char mem[SIM_NODES][8192];
};

/* What its clock shows at a true time. */
static inline uint64_t sim_local(const struct sim_node *n, uint64_t t)
{
    return n->offset + t + (uint64_t)((int64_t)t * n->rate / 1000000);
}

void sim_start(struct sim *s, const struct sim_opts *o);
/* The next thing happens. */
void sim_once(struct sim *s);
/* NULL, or what went wrong. */
const char *sim_run(struct sim *s, const struct sim_opts *o);
/* S1 */
void sim_check_leases(struct sim *s);
/* Does the cluster serve as it should? */
int sim_is_well(struct sim *s);

/* An event at a node, and what it asks for. */
void sim_step(struct sim *s, uint32_t i, const struct snic_member_event *ev);
/* It reports, if it can. */
void sim_report(struct sim *s, uint32_t i, uint32_t kind, uint32_t mask);
/* It stops; what is not on its disk is lost, or has just got there. */
void sim_down(struct sim *s, uint32_t i);

#endif /* SNIC_TEST_MEMBER_SIM_H */
