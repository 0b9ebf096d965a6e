/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* What hosts that are not to be trusted have in common. */
#ifndef KVFS_HOSTILE_H
#define KVFS_HOSTILE_H

#include "snicstore.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { HOSTILE_MAPS = 64 };

struct hostile_maps { /* shared with the other side */
    unsigned char *at[HOSTILE_MAPS];
    size_t sizes[HOSTILE_MAPS];
    uint32_t count;
};

static inline uint64_t hostile_number(struct snic_rng *rng)
{
    switch (snic_rng_below(rng, 6)) {
    case 0:
        return 0;
    case 1:
        return snic_rng_below(rng, 4);
    case 2:
        return snic_rng_next(rng);
    case 3:
        return UINT64_MAX - snic_rng_below(rng, 3);
    case 4:
        return 1ULL << snic_rng_below(rng, 64);
    default:
        return 16384 + snic_rng_below(rng, 64); /* inodes that there are */
    }
}

static inline void hostile_bytes(struct snic_rng *rng, void *to, size_t size)
{
    unsigned char *p = to;
    for (size_t i = 0; i < size; i++)
        p[i] = (unsigned char)snic_rng_next(rng);
}

/* What both sides see: memory of files without names. */
static inline void hostile_look(struct hostile_maps *m)
{
    FILE *f = fopen("/proc/self/maps", "r");
    char line[512];
    while (f != NULL && m->count < HOSTILE_MAPS && fgets(line, sizeof(line), f) != NULL) {
        char *end;
        unsigned long from = strtoul(line, &end, 16);
        unsigned long to = *end == '-' ? strtoul(end + 1, &end, 16) : 0;
        if (strstr(line, "rw-s") == NULL || strstr(line, "memfd") == NULL || to <= from)
            continue;
        m->at[m->count] = (unsigned char *)from;
        m->sizes[m->count++] = to - from;
    }
    if (f != NULL)
        fclose(f);
}

static inline void hostile_scribble(struct hostile_maps *m, struct snic_rng *rng)
{
    uint32_t i = (uint32_t)snic_rng_below(rng, m->count);
    size_t n = 1 + snic_rng_below(rng, 64);
    /* What counts is at the beginning, where pointers are, more than in the rings themselves. */
    size_t within = snic_rng_below(rng, 2) == 0 && m->sizes[i] > 16384 ? 16384 : m->sizes[i];
    size_t at = snic_rng_below(rng, within - n);
    hostile_bytes(rng, m->at[i] + at, n);
}

#endif /* KVFS_HOSTILE_H */
