/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * The MINOS paper's figures in simulated time, with this library's engines (ddp, ddpnic) for the
 * protocol and Table III's parameters for the time: deterministic, the same parameters and seed
 * give the same rows.
 *
 *   bench_minos [--only FIGURE] [--requests N] [--seed N] [--parameters FILE]
 *               [--fit EVALUATIONS]
 *
 * FIGURE: fig4 fig9 fig10 fig11 fig12 fig13 fig14 unloaded; may be repeated. --requests: of each
 * node, measured (default 10000; the paper has 100000). --fit searches the fitted parameters again,
 * on figure 12 alone, and prints what it finds.
 *
 * How to read it. The head of the parameter file lists what was fitted and what was chosen after
 * looking: figures 4, 9, 10, 13 and 14 are consistency checks of one set of numbers, no predictions
 * made blindly. The paper's bars are pictures; the numbers beside ours are its text's. The engines
 * are the real ones: timers are set so that they never fire, keys_max is the number of keys (a key
 * that was never written is read as absent, which costs the same), the paper's rule for obsolete
 * invalidations is on (SNIC_DDP_PAPER). The rows name the parameter file's hash.
 *
 * What a row means. Latency begins when a core takes up a request: waiting behind messages is not
 * in it, and ends when the client is answered; a locked key's read waits off its core. Throughput
 * is of the whole machine, clients do not think. Fig. 11: the request is a read and a write, one
 * way on the network 250 us. Fig. 14: the dFIFO takes as long as a persist of the host.
 * A row `goal:` is a tolerance around the text's value, `miss` is the reason why one is missed.
 */
#include "minos/figures.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#ifndef MINOS_PARAMETERS_FILE
#define MINOS_PARAMETERS_FILE "bench/minos/parameters"
#endif

static const struct {
    const char *name;
    void (*run)(void);
} figures[] = {{"unloaded", fig_unloaded}, {"fig4", fig_4},   {"fig9", fig_9},   {"fig10", fig_10},
               {"fig11", fig_11},          {"fig12", fig_12}, {"fig13", fig_13}, {"fig14", fig_14}};
#define FIGURES (sizeof(figures) / sizeof(figures[0]))

static int usage(void)
{
    fprintf(stderr, "usage: bench_minos [--only FIGURE] [--requests N] [--seed N] "
                    "[--parameters FILE] [--fit EVALUATIONS]\n");
    return 2;
}

static int choose(const char *name, uint8_t *wanted)
{
    for (size_t i = 0; i < FIGURES; i++) {
        if (strcmp(name, figures[i].name) == 0) {
            wanted[i] = 1;
            return 0;
        }
    }
    return -1;
}

int main(int argc, char **argv)
{
    struct minos_param p;
    const char *path = MINOS_PARAMETERS_FILE;
    unsigned long requests = 10000;
    unsigned long fit = 0;
    unsigned long long seed = 1;
    uint8_t wanted[FIGURES] = {0};
    int some = 0;
    for (int i = 1; i + 1 < argc; i += 2) {
        if (strcmp(argv[i], "--only") == 0) {
            if (choose(argv[i + 1], wanted) != 0)
                return usage();
            some = 1;
        } else if (strcmp(argv[i], "--requests") == 0) {
            requests = strtoul(argv[i + 1], NULL, 10);
        } else if (strcmp(argv[i], "--seed") == 0) {
            seed = strtoull(argv[i + 1], NULL, 10);
        } else if (strcmp(argv[i], "--parameters") == 0) {
            path = argv[i + 1];
        } else if (strcmp(argv[i], "--fit") == 0) {
            fit = strtoul(argv[i + 1], NULL, 10);
        } else {
            return usage();
        }
    }
    if (argc % 2 == 0 || requests == 0 || requests > 10000000)
        return usage();
    if (minos_param_load(&p, path) != 0)
        return 1;
    if (fit != 0) {
        fig_fit(&p, (uint32_t)requests, seed, (uint32_t)fit);
        return 0;
    }
    fig_begin(&p, (uint32_t)requests, seed);
    for (size_t i = 0; i < FIGURES; i++) {
        if (wanted[i] || !some)
            figures[i].run();
        fflush(stdout);
    }
    return 0;
}
