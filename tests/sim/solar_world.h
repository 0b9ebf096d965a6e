/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * A small world for SOLAR in virtual time: one storage agent, block servers with a store in memory,
 * a fabric whose spines fail independently in both directions, and an oracle that knows of every
 * block which versions may be read. A seed determines all.
 *
 * The oracle, for each block:
 *   floor    the highest version acknowledged to the client or read by it: no later read sees less
 *   failed   versions that ended with an error, or with the agent's death. Once a read that began
 *            after that has seen less than such a version, no read may ever see it
 *   bytes    what is read is what was written with that version
 * Versions are ordered by the agent's incarnation, and in it as the agent gave them: not by their
 * epochs, which might wrap.
 */
#ifndef SNIC_TESTS_SIM_SOLAR_WORLD_H
#define SNIC_TESTS_SIM_SOLAR_WORLD_H

#include "snicstore/solar.h"

#define WORLD_US UINT64_C(1000)
#define WORLD_MS UINT64_C(1000000)
#define WORLD_S UINT64_C(1000000000)

struct world_opts {
    uint64_t seed;
    uint64_t ios;     /* of the client, in all */
    uint32_t servers; /* 1..3 */
    uint32_t disks;   /* 1..2 */
    uint32_t paths;
    uint32_t depth;     /* I/Os in flight, 1..64 */
    uint32_t blocks;    /* most of an I/O */
    uint64_t datagrams; /* of the run, about: where there would be more its I/Os are smaller;
                           0: as large as they come */
    uint32_t span;      /* blocks of a disk that are used */
    uint32_t loss_ppm;
    uint32_t dup_ppm;
    uint32_t corrupt_ppm;
    uint64_t jitter_ns;
    uint64_t store_ns;    /* most of a durable write */
    uint64_t deadline_ns; /* 0: the engine's */
    uint64_t hang_ns;     /* an I/O older than that is one, */
    uint64_t faulty_ns;   /* or than that and this, if it began before the last fault was over */
    uint64_t bytes_per_s; /* of a spine, 0: no queue */
    uint32_t faults;      /* mean ms between faults, 0: none */
    uint32_t kinds;       /* of faults: bits of enum world_fault */
    uint32_t agent_ios;   /* the agent dies each time so many I/Os have begun; 0: not for that */
    uint32_t reads;       /* percent */
    uint32_t check;       /* every n-th wake is checked whole; 0: never */
    uint32_t flags;       /* of the agent */
    uint32_t qos;         /* I/Os a second, 0: none */
    uint32_t epoch;       /* sa_epoch of the agent's first incarnation, 0: 1 */
    uint32_t big_holes;   /* spines, a bit each, that swallow packets above 1500 bytes for ever */
    uint64_t skew_ns;     /* a spine is slower than the one before by that */
    uint64_t late_ns;     /* longest that WORLD_HOLD keeps a packet, 0: 50 ms; half at least */
    uint32_t again_ppm;   /* most blocks sent again for nothing, of all; 0: no such rule */
    uint32_t auth;        /* packets are sealed, with a cipher for tests */
    uint64_t lend_ns;     /* longest that the agent's network keeps a train that it has sent */
    uint32_t stamps;      /* spines with a queue fill in INT blocks */
    uint64_t qos_bytes;   /* bytes a second, 0: none */
    uint32_t dead; /* spines, a bit each, that are silent in both directions from dead_ns on */
    uint64_t dead_ns;
    uint64_t server_ns; /* of a server's thread for a datagram; 256 wait for it, more are lost */
    uint64_t slow_ns;   /* I/Os of more are counted; 0: 1 s */
    uint32_t nat;       /* each port is an address of its own, as behind many translators */
    int print;
};

enum world_fault {
    WORLD_HOLE = 0, /* a spine swallows all, one way */
    WORLD_BIG_HOLE, /* a spine swallows packets above 1500 bytes */
    WORLD_LOSSY,    /* a spine loses 30 % */
    WORLD_SERVER,   /* a server dies and comes back */
    WORLD_AGENT,    /* the agent does */
    WORLD_MOVE,     /* a segment moves */
    WORLD_STALL,    /* the agent's thread sleeps */
    WORLD_STORE,    /* a store is slow */
    WORLD_DARK,     /* nothing passes to a server */
    WORLD_HOLD,     /* what is sent to or from a server comes late_ns later, or half */
    WORLD_FAULTS
};
#define WORLD_ALL_FAULTS ((1u << WORLD_FAULTS) - 1)

struct world_result {
    const char *failure; /* NULL: none */
    uint64_t ios;
    uint64_t failed;
    uint64_t failed_by[3]; /* of them: reads; writes never admitted; writes that were fenced */
    uint64_t reissued;     /* disks, their epochs used up */
    uint64_t events;
    uint64_t simulated_ns;
    uint64_t max_ns;      /* oldest I/O when it was done */
    uint64_t slow;        /* I/Os of more than slow_ns, without those in flight when the client
                             ended, some of which are large */
    uint64_t max_calm_ns; /* likewise, since the last fault was over */
    uint64_t datagrams;
    uint64_t queue_ns; /* mean, of what goes to servers */
    uint64_t bytes;    /* of the client's I/Os that took effect */
    uint64_t hash;
    uint64_t faults[WORLD_FAULTS];
    uint64_t unauthentic, replayed;           /* at the agents and the servers that died */
    struct snic_solar_stats agent;            /* of the last incarnation */
    struct snic_solar_path_stats path[2 * 8]; /* of server 0 */
    struct snic_solar_target_stats target;    /* likewise */
    uint64_t wrong_lost;                      /* spurious / packets, in ppm */
};

/** One run of the world. */
void world_run(const struct world_opts *o, struct world_result *r);
/** What a seed makes of the options that are 0. */
void world_random(struct world_opts *o, uint64_t seed);

#endif
