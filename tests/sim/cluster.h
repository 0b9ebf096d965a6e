/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * A cluster of replica nodes in a simulated world: its loops, network and disks, clients with their
 * history, and what a test may do to it all. One seed determines everything that happens.
 *
 * Times in the history are numbers of happenings, not ns: of two things that happen at the same
 * simulated time one comes first.
 */
#ifndef SNIC_TESTS_SIM_CLUSTER_H
#define SNIC_TESTS_SIM_CLUSTER_H

#include "lin.h"

#include "snicstore/replica.h"

enum { CLUSTER_NODES = 5, CLUSTER_KEYS = 8, CLUSTER_OPS = 16384, CLUSTER_RESTARTS = 64 };
enum { CLUSTER_KEYS_MOST = 300 }; /* where logs are to be full */
enum { CLUSTER_MS = 1000000 };

struct cluster_opts {
    uint64_t seed;
    uint32_t nodes;
    uint32_t witness;   /* 1: the last node is one */
    uint32_t nodes_max; /* 0: nodes */
    uint32_t min_full;  /* 0: the node's default */
    uint64_t slow_ns;   /* likewise: a slow log evicts no node */
    uint32_t model;
    uint32_t confirms; /* 1: half of the GETs are confirmed by a majority */
    uint32_t founders; /* nodes at the founding, bits; 0: all. The others are added */
    uint32_t mix;      /* 1: each operation draws the durability that it names */
    uint32_t ddp_flags;
    uint32_t keys; /* that clients use */
    uint32_t keys_max;
    uint32_t writes_max;
    uint32_t value_max;
    uint32_t segment_bytes; /* of the log */
    uint32_t segments;
    uint32_t checks; /* every so many happenings the nodes are checked; 0: never */
    uint64_t background_ns;
    uint64_t flush_ns_max; /* how long a disk takes */
    uint32_t tight;        /* the last node has memory for so many values only; 0: for all */
    uint32_t send_queue;   /* datagrams that the net's door takes */
    uint64_t values_bytes; /* of each node; 0: enough for all */
    const struct snic_ebs_sec_ops *sec; /* with a key of the cluster, and one of each node */
    void *secret;
    void *gcm[CLUSTER_NODES];
    uint32_t burst;            /* 1: the replica's own defaults, and no trace: for many operations
                                  that are the test's own */
    uint32_t clocks;           /* 1: each node has its own, see cluster_clock() */
    uint32_t drift_ppm;        /* what the nodes take theirs to be off at most; 0: the default */
    void (*notify)(void *ctx); /* with the struct cluster_node */
    void (*trace)(void *ctx, uint32_t node, const struct snic_replica_trace *t);
    void *ctx;
};

struct cluster_op {
    struct snic_replica_op op; /* the first: tokens are addresses */
    struct cluster *c;
    uint32_t node;
    uint32_t run_number; /* of the node; another: it will not be answered */
    uint32_t key;
    uint32_t open;
    uint64_t call;
    uint64_t end;
    uint64_t wrote;   /* 0: nothing */
    uint64_t content; /* written, or found */
    uint64_t expect;
    uint64_t ts;
    uint64_t expect_ts;
    uint64_t synced;
    int result;
    int lost; /* its node crashed before the answer */
};

/* What a node takes for the time: since true time `from` its own advanced from `shows`. */
struct cluster_time {
    uint64_t from;
    uint64_t shows;
    int32_t ppm;
};

struct cluster_node {
    struct cluster *c;
    struct snic_loop *loop;
    struct snic_net *net;
    struct snic_disk *disk;
    struct snic_io *io;
    struct snic_replica *r;
    void *mem;
    size_t size;
    uint32_t number;
    uint32_t run_number;
    int up;
    int paused;
    uint32_t role;
    uint32_t good;
    uint64_t scope; /* that its clients write to; 0: the next one has a new one */
    uint64_t trace_gap;
    struct cluster_time time;
    unsigned char *flushed; /* of a disk that lies: what it really has; NULL: it does not lie */
    uint32_t lies;          /* how much it loses with its power: enum cluster_lie */
};

/* A timestamp has one value, everywhere. */
struct cluster_written {
    uint64_t ts;
    uint64_t key;
    uint64_t content;
};

struct cluster {
    struct cluster_opts o;
    struct snic_world *world;
    struct snic_net_fabric *fabric;
    struct snic_loop *clock;
    struct snic_timer tick;
    struct snic_rng rng;
    struct snic_net_addr addrs[SNIC_DDP_NODES_MAX];
    struct cluster_node node[CLUSTER_NODES];
    struct cluster_op *ops;
    uint32_t op_count;
    uint64_t happened;
    uint64_t contents;
    uint64_t hash; /* of all that the engines did */
    uint64_t steps;
    uint64_t events; /* of the engines, of nodes that ended */
    uint64_t answered;
    uint64_t restarts[CLUSTER_RESTARTS];
    uint32_t restart_count;
    uint32_t restart_epoch;
    uint32_t epoch; /* the last that was installed anywhere */
    struct cluster_written *written;
    uint32_t written_room;
    uint32_t written_count;
    struct cluster_op *submitting;
    struct snic_rng mix; /* of the durabilities: all else of a seed stays */
    int unmixed;         /* the next operation names none */
    const char *failure;
    int quiet;
    char why[256];
};

/* With defaults for what is 0; nodes are down. */
struct cluster *cluster_new(const struct cluster_opts *o);
void cluster_free(struct cluster *c);
void cluster_fail(struct cluster *c, const char *why);

/* Start a node; found: a cluster that never was. */
void cluster_up(struct cluster *c, uint32_t node, int found);
enum cluster_death { CLUSTER_CRASH = 0, CLUSTER_POWER, CLUSTER_DARK };
/* Its process dies, or its power goes: then of what is not flushed a part is there, or nothing. */
void cluster_down(struct cluster *c, uint32_t node, enum cluster_death how);
/* All at once. */
void cluster_down_all(struct cluster *c, enum cluster_death how);
/* A node that is down gets a new, empty disk. */
void cluster_new_disk(struct cluster *c, uint32_t node);
/* An operator's request at a node about another one, whose address stays: its result. */
int cluster_change(struct cluster *c, uint32_t at, uint32_t kind, uint32_t node);
void cluster_pause(struct cluster *c, uint32_t node, int paused);

/* Simulated time passes. */
void cluster_run(struct cluster *c, uint64_t ns);
/* Until all nodes that hold data serve, at most ns: 1 if they do. */
int cluster_settle(struct cluster *c, uint64_t ns);
int cluster_serves(const struct cluster *c, uint32_t node);

/* Begin an operation; NULL if it was refused (*result is the error, may be NULL). expect: an
 * operation whose finding a CAS compares with, NULL: nothing is there. */
struct cluster_op *cluster_submit(struct cluster *c, uint32_t node, uint32_t kind, uint32_t key,
                                  const struct cluster_op *expect, int *result);
/* The same, until it is answered: its result. */
int cluster_do(struct cluster *c, uint32_t node, uint32_t kind, uint32_t key,
               struct cluster_op **out);
struct snic_ddp_key cluster_key(uint32_t key);

/* From now on a node's clock runs so many millionths too fast, after a jump. Each boot gives it
 * another origin. */
void cluster_clock(struct cluster *c, uint32_t node, int32_t ppm, int64_t jump_ns);

/*
 * Until now a node's disk has flushed, from now on it only reports that: of what is written to its
 * log (not its membership file) it loses all when its power goes, or any part. Again: it has
 * flushed once more.
 */
enum cluster_lie { CLUSTER_LIE_ALL = 0, CLUSTER_LIE_SOME };
void cluster_lie(struct cluster *c, uint32_t node, enum cluster_lie lie);

/* Is the history right? search: by both judges. */
void cluster_judge(struct cluster *c, int search);
/* Is it right but for reads that are stale? How many are. */
uint32_t cluster_judge_stale(struct cluster *c);
/* All nodes that serve hold the same, and every operation of a node that runs was answered. */
void cluster_same(struct cluster *c);

#endif
