/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * A small world for LUNA in virtual time: one storage agent, block servers with a store in memory,
 * streams between them that are cut anywhere, delayed, broken off at any byte, swallowed for a
 * while, or come late to a server when no RPC waits for them any more; and an oracle that knows of
 * every block which versions may be read. A seed determines all.
 *
 * The oracle, for each block:
 *   floor    the highest version acknowledged to the client or read by it: no later read sees less
 *   failed   versions that ended with an error, or with the agent's death. Once a read that began
 *            after that has seen less than such a version, no read may ever see it
 *   bytes    what is read is what was written with that version
 * and for each I/O: one second after the last fault was mended it is done.
 */
#ifndef SNIC_TESTS_SIM_LUNA_WORLD_H
#define SNIC_TESTS_SIM_LUNA_WORLD_H

#include "snicstore/luna.h"

#define WORLD_US UINT64_C(1000)
#define WORLD_MS UINT64_C(1000000)
#define WORLD_S UINT64_C(1000000000)

struct world_opts {
    uint64_t seed;
    uint64_t ios;     /* of the client, in all */
    uint32_t servers; /* 1..3 */
    uint32_t disks;   /* 1..2 */
    uint32_t conns;
    uint32_t depth;       /* I/Os in flight, 1..64 */
    uint32_t blocks;      /* most of an I/O */
    uint32_t span;        /* blocks of a disk that are used */
    uint32_t corrupt_ppm; /* of sends: a bit of it */
    uint32_t cut;         /* most bytes of a piece, 0: any */
    uint64_t jitter_ns;
    uint64_t store_ns;    /* most of a durable write */
    uint64_t deadline_ns; /* 0: the engine's */
    uint64_t hang_ns;     /* after the last fault: an I/O older than that is one */
    uint32_t faults;      /* mean ms between faults, 0: none */
    uint32_t kinds;       /* of faults: bits of enum world_fault */
    uint32_t reads;       /* percent */
    uint32_t check;       /* every n-th wake is checked whole; 0: never */
    uint32_t flags;       /* of the agent */
    uint32_t qos;         /* I/Os a second, 0: none */
    uint32_t rx_blocks;   /* of a server */
    uint32_t frames_max;
    uint32_t window;
    int print;
};

enum world_fault {
    WORLD_RESET = 0, /* a connection breaks, at any byte */
    WORLD_HOLE,      /* a connection swallows all, one way or both */
    WORLD_DARK,      /* all of a server's do, and it cannot be connected to */
    WORLD_SERVER,    /* a server dies and comes back; its connections break or fall silent */
    WORLD_AGENT,     /* the agent does */
    WORLD_MOVE,      /* a segment moves */
    WORLD_STALL,     /* the agent's thread sleeps */
    WORLD_STORE,     /* a store is slow */
    WORLD_FAULTS
};
#define WORLD_ALL_FAULTS ((1u << WORLD_FAULTS) - 1)

struct world_result {
    const char *failure; /* NULL: none */
    uint64_t ios;
    uint64_t failed;
    uint64_t events;
    uint64_t simulated_ns;
    uint64_t max_ns; /* oldest I/O, since the last fault, when it was done */
    uint64_t sends;
    uint64_t pieces;
    uint64_t late_sends; /* reached a server after their connection was over */
    uint64_t hash;
    uint64_t faults[WORLD_FAULTS];
    struct snic_luna_stats agent;         /* of the last incarnation */
    struct snic_luna_target_stats target; /* of server 0 */
};

/** One run of the world. */
void world_run(const struct world_opts *o, struct world_result *r);
/** What a seed makes of the options that are 0. */
void world_random(struct world_opts *o, uint64_t seed);

#endif
