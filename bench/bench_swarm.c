/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * How fast whole nodes run in the simulated world of tests/sim: the default swarm of faults, as
 * test_replica_sim has it, on one core.
 *
 *   bench_swarm [--runs N]
 *
 * events: what the two engines were stepped with, per second of CPU time (the goal is 300
 * thousand); operations: answered, per simulated second; speed: simulated hours per hour of CPU
 * time.
 */
#include "swarm.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

int main(int argc, char **argv)
{
    uint64_t runs = 300;
    double events = 0, operations = 0, simulated = 0;
    int known = argc == 1;
    if (argc == 3 && strcmp(argv[1], "--runs") == 0) {
        runs = strtoull(argv[2], NULL, 10);
        known = runs > 0;
    } else if (argc == 3) {
        known = strcmp(argv[1], "--seconds") == 0; /* as many as there are */
    }
    if (!known) {
        fprintf(stderr, "usage: bench_swarm [--runs N]\n");
        return 2;
    }
    clock_t began = clock();
    for (uint64_t i = 1; i <= runs; i++) {
        struct swarm_opts o = {.seed = i, .faults_ns = 4000 * (uint64_t)CLUSTER_MS};
        struct swarm_result r;
        swarm_run(&o, &r);
        if (r.failure != NULL) {
            fprintf(stderr, "bench_swarm: seed %llu: %s\n", (unsigned long long)i, r.failure);
            return 1;
        }
        events += (double)r.events;
        operations += (double)r.operations;
        simulated += (double)r.simulated_ns / 1e9;
    }
    double cpu = (double)(clock() - began) / CLOCKS_PER_SEC;
    printf("row swarm runs ours 1 %llu -\n", (unsigned long long)runs);
    printf("row swarm events ours 1 %.1f Kevents/s\n", events / cpu / 1e3);
    printf("row swarm operations ours 1 %.1f op/simulated_s\n", operations / simulated);
    printf("row swarm simulated ours 1 %.1f s\n", simulated);
    printf("row swarm speed ours 1 %.0f simulated_h/h\n", simulated / cpu);
    printf("ratio swarm events ours/goal 1 %.2f\n", events / cpu / 3e5);
    return 0;
}
