/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* A life's state: what swarm.c and swarm_hard.c share. */
#ifndef SNIC_TESTS_SIM_SWARM_PRIV_H
#define SNIC_TESTS_SIM_SWARM_PRIV_H

#include "solar_cipher.h"
#include "swarm.h"

enum { SWARM_CLIENTS = 8, SWARM_PENDING = 128 };
#define SWARM_SECOND (1000 * (uint64_t)CLUSTER_MS)

struct swarm_client {
    uint64_t at;
    struct cluster_op *last;
    struct cluster_op *found[CLUSTER_KEYS_MOST]; /* what it last read of a key */
};

/* Something that ends: a pause, a cut. */
struct swarm_end {
    uint64_t at;
    uint32_t what;
    uint32_t a, b;
};

enum swarm_what { SWARM_UNPAUSE = 1, SWARM_MEND, SWARM_UP, SWARM_CALM };

enum swarm_blow {
    BLOW_CRASH = 0,
    BLOW_POWER,
    BLOW_ALL_POWER,
    BLOW_ALL_CRASH,
    BLOW_STORM,
    BLOW_PAUSE,
    BLOW_SPLIT,
    BLOW_ONE_WAY,
    BLOW_BRIDGE,
    BLOW_FLUSH,
    BLOW_WRITE,
    BLOW_SLOW_DISK,
    BLOW_ROT,
    BLOW_LINK,
    BLOWS
};

/* Of runs that are hard (swarm.h), with a generator of its own: all else of a seed stays. */
struct swarm_hard {
    struct snic_rng rng;
    uint64_t at;       /* the next thing of all below */
    int32_t worst_ppm; /* a clock is off by as much */
    uint64_t jump_ns;  /* and jumps by as much, at most */
    uint64_t jumped[CLUSTER_NODES];
    uint32_t emptying;   /* clients delete, for the log was full */
    uint32_t refused;    /* puts in a row of such times */
    uint32_t patience;   /* refusals after which they begin to delete */
    uint64_t emptied_at; /* and when they stop */
    uint32_t kept;       /* operations for when all is mended, or for the end */
    uint32_t full;       /* refusals for a full log, in all */
    uint32_t times;      /* that they had to delete */
    uint32_t over;       /* nodes that a view passed over, bits */
    uint32_t wipe;       /* whose new disk comes next */
    uint32_t mended;     /* no more faults */
    uint32_t epoch;      /* of the newest configuration seen */
    uint32_t configs;    /* as many were there */
};

/* What real machines have (swarm_real.c), likewise. */
struct swarm_real {
    struct snic_rng rng;
    uint64_t at;
    uint32_t has;
    uint32_t slow; /* disks are, at times */
    struct solar_toy_key secret;
    struct solar_toy_key gcm[CLUSTER_NODES];
};

struct swarm {
    struct swarm_opts o;
    struct snic_rng rng;
    struct cluster *c;
    struct swarm_client client[SWARM_CLIENTS];
    uint32_t clients;
    uint64_t think_ns;
    uint32_t reads, cas, deletes; /* of 100 operations */
    uint64_t chaos_ns;            /* between two blows, on average */
    uint64_t chaos_at;
    uint32_t enabled; /* blows that this run has, one bit each */
    uint32_t victim;  /* whose log may rot; once */
    uint32_t rotten;
    struct snic_net_link link;
    struct swarm_end ends[SWARM_PENDING];
    uint32_t end_count;
    uint32_t deaths;
    uint32_t overrides;
    uint64_t storm_until;
    struct swarm_hard hard;
    struct swarm_real real;
};

static inline uint64_t swarm_now(const struct swarm *s)
{
    return snic_world_now(s->c->world);
}

/* swarm_real.c */
void swarm_real_choose(struct swarm *s, struct cluster_opts *o);
void swarm_real_begin(struct swarm *s);
void swarm_real_due(struct swarm *s, uint64_t now);
void swarm_real_disk(struct swarm *s, struct snic_fault *f);
void swarm_real_heal(struct swarm *s);

/* swarm_hard.c */
void swarm_hard_choose(struct swarm *s, struct cluster_opts *o);
void swarm_hard_begin(struct swarm *s);
void swarm_hard_due(struct swarm *s, uint64_t now);
/* The immediate result of a client's operation. */
void swarm_hard_result(struct swarm *s, int result);
/* All is mended, but clients continue. */
void swarm_hard_heal(struct swarm *s);
/* No request is sent any more, and something waits for room that only they can make. */
int swarm_hard_waits(const struct swarm *s);
/* All serve and no request is sent any more. */
void swarm_hard_end(struct swarm *s);

#endif
