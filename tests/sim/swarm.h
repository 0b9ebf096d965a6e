/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * A random run of a cluster, derived from one seed, its parameters too: first with faults of all
 * kinds, then without; then the cluster must come to rest in bounded time.
 */
#ifndef SNIC_TESTS_SIM_SWARM_H
#define SNIC_TESTS_SIM_SWARM_H

#include "cluster.h"

/* What a run may have beyond the default ones. */
enum swarm_hard_kind {
    /** Each node has a clock of its own, off by the option's drift at most, of a
     * changing rate, with jumps that a lease's margin bears. */
    SWARM_CLOCKS = 1 << 0,
    /** The same, but far worse than the option allows, and machines sleep: reads may be stale,
     * nothing else may be wrong (spec H34, member.h P2). */
    SWARM_WORSE_CLOCKS = 1 << 1,
    /** More is put than a log holds, and deleted when it reports that it is full. */
    SWARM_FULL = 1 << 2,
    /** Disks report that they flushed, and did not: such a run is expected to fail (spec 4.4). All
     * lose power now and then, and nothing else happens. */
    SWARM_LIES = 1 << 3,
    /** The same without the lies: it is right. */
    SWARM_NO_LIES = 1 << 4,
    /** An operator removes, replaces and adds nodes, and gives new disks to those that were passed
     * over; in the end all are back. */
    SWARM_CHANGES = 1 << 5
};

struct swarm_opts {
    uint64_t seed;
    uint32_t hard;   /* enum swarm_hard_kind */
    uint32_t model;  /* 0: by the seed */
    uint32_t search; /* 1: the search judges, too */
    uint64_t faults_ns;
    /* Ends a node's connection to another one; NULL: none break. */
    void (*sever)(struct cluster_node *n, uint32_t other);
    int print;
    int quiet; /* what is wrong is not printed operation by operation */
    int trace;
};

struct swarm_result {
    const char *failure; /* NULL: all was right; valid until the next run */
    uint64_t hash;
    uint64_t events; /* of the engines */
    uint64_t steps;  /* of the world */
    uint64_t operations;
    uint64_t simulated_ns;
    uint64_t settle_ns; /* after everything was mended */
    uint32_t restarts;
    uint32_t deaths;
    uint32_t overrides;
    uint32_t model;
    uint32_t epochs;
    uint32_t stale;   /* reads; 0 but with SWARM_WORSE_CLOCKS */
    uint32_t full;    /* operations that were refused, since a log was full */
    uint32_t configs; /* with SWARM_CHANGES: configurations */
    uint32_t emptied; /* how often clients had to delete therefore */
};

void swarm_run(const struct swarm_opts *o, struct swarm_result *out);

#endif
