/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * How fast the explorer (tests/mc) goes through the replication engine's states: 3 nodes, one key,
 * two writes, every order of messages and log, nothing fails. What it finds is the tests' affair;
 * the states are counted here so that a rate is of that much work.
 *
 *   bench_explorer [--threads N]
 *
 * transitions: engine steps with all that is checked after each, per second of the clock with so
 * many threads; _cpu: per second of CPU time. The goal is one million with 2 threads.
 */
#include "ddp_world.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char *const models[] = {"?", "synch", "strict", "renf", "event"};

int main(int argc, char **argv)
{
    uint32_t threads = 2;
    uint64_t states = 0, edges = 0;
    double seconds = 0, cpu = 0;
    if (argc == 3 && strcmp(argv[1], "--threads") == 0)
        threads = (uint32_t)strtoul(argv[2], NULL, 10);
    else if (argc == 3 && strcmp(argv[1], "--seconds") == 0)
        ; /* as much as there is */
    else if (argc != 1)
        threads = 0;
    if (threads < 1 || threads > 64) {
        fprintf(stderr, "usage: bench_explorer [--threads N]\n");
        return 2;
    }
    for (uint32_t model = SNIC_DDP_SYNCH; model <= SNIC_DDP_EVENT; model++) {
        struct dw_opts o = {.node = {.nodes = 3, .keys = 1, .model = model}, .writes = 2};
        struct mc_opts m = {.threads = threads, .states_max = 20000000};
        struct mc_report r;
        struct dw_world *w = dw_new(&o);
        mc_run(dw_model(w), &m, &r);
        mc_script_free(&r.script);
        dw_free(w);
        if (r.result != MC_CLEAN) {
            fprintf(stderr, "bench_explorer: %s is not clean\n", models[model]);
            return 1;
        }
        printf("row explorer %s_states ours %u %llu distinct\n", models[model], threads,
               (unsigned long long)r.states);
        printf("row explorer %s ours %u %.3f Mtransitions/s\n", models[model], threads,
               (double)r.edges / r.seconds / 1e6);
        states += r.states;
        edges += r.edges;
        seconds += r.seconds;
        cpu += r.cpu_seconds;
    }
    printf("row explorer all_states ours %u %llu distinct\n", threads, (unsigned long long)states);
    printf("row explorer all_transitions ours %u %llu -\n", threads, (unsigned long long)edges);
    printf("row explorer all ours %u %.3f Mtransitions/s\n", threads,
           (double)edges / seconds / 1e6);
    printf("row explorer all_cpu ours 1 %.3f Mtransitions/s\n", (double)edges / cpu / 1e6);
    printf("ratio explorer all ours/goal %u %.2f\n", threads, (double)edges / seconds / 1e6);
    return 0;
}
