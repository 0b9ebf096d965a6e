/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* same.py: so many runs of each kind (swarm.h), one number made of all that their engines did. */
#include "swarm.h"

#include <stdio.h>
#include <stdlib.h>

int main(int argc, char **argv)
{
    static const uint32_t kinds[] = {0, SWARM_CLOCKS, SWARM_CHANGES, SWARM_FULL};
    uint64_t runs = argc > 1 ? strtoull(argv[1], NULL, 10) : 10;
    uint64_t all = 0, events = 0;

    for (uint64_t i = 1; i <= runs; i++) {
        struct swarm_opts o = {.seed = i, .faults_ns = UINT64_C(2000) * CLUSTER_MS};
        struct swarm_result r;

        o.hard = kinds[i % SNIC_COUNTOF(kinds)];
        swarm_run(&o, &r);
        if (r.failure != NULL) {
            printf("seed %llu: %s\n", (unsigned long long)i, r.failure);
            return 1;
        }
        all = (all ^ r.hash) * UINT64_C(0x9e3779b97f4a7c15);
        events += r.events;
    }
    printf("hash %016llx of %llu events\n", (unsigned long long)all, (unsigned long long)events);
    return 0;
}
