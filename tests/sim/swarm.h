/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * A cluster's random life, all of it from one seed, its parameters too (spec section 4.4): first
 * everything may happen, then all is mended and the cluster must come to rest in bounded time.
 */
#ifndef SNIC_TESTS_SIM_SWARM_H
#define SNIC_TESTS_SIM_SWARM_H

#include "cluster.h"

struct swarm_opts {
    uint64_t seed;
    uint32_t model;  /* 0: by the seed */
    uint32_t search; /* 1: the search judges, too */
    uint64_t faults_ns;
    int print;
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
};

void swarm_run(const struct swarm_opts *o, struct swarm_result *out);

#endif
