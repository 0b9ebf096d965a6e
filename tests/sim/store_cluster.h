/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * A cluster of stores in a simulated world: loops, network, disks. One seed determines everything.
 * Operations are made one at a time and waited for, or begun and looked at later.
 */
#ifndef SNIC_TESTS_SIM_STORE_CLUSTER_H
#define SNIC_TESTS_SIM_STORE_CLUSTER_H

#include "snicstore/store.h"

enum { STORE_NODES = 5, STORE_MS = 1000000, STORE_VALUE = 4096 };

struct store_cluster_opts {
    uint64_t seed;
    uint32_t nodes; /* 0: 3 */
    uint32_t model; /* 0: SYNCH */
    uint32_t sessions_max;
    uint32_t keys_max;   /* 0: 256 */
    uint32_t writes_max; /* 0: 32 */
    uint32_t ops_max;
    uint32_t tries_max;
    uint32_t changes_max;
    uint64_t changes_bytes;
    uint64_t session_window_ns;
    uint32_t value_max;    /* 0: STORE_VALUE */
    uint64_t flush_ns_max; /* 0: 500 us */
    unsigned char hash_key[16];
    uint64_t clock_ns; /* not 0: the nodes' clock is so far ahead of the loop's */
    uint32_t checks;   /* every so many steps the stores are checked; 0: never */
};

struct store_cluster_node {
    struct store_cluster *c;
    struct snic_loop *loop;
    struct snic_net *net;
    struct snic_disk *disk;
    struct snic_io *io;
    struct snic_store *s;
    void *mem;
    size_t size;
    uint32_t number;
    uint32_t run;
    int up;
    int paused;
};

/* An operation, and a copy of what it returned. */
struct store_act {
    struct snic_store_op op;
    struct store_cluster *c;
    uint32_t node;
    uint32_t run;
    int pending; /* 0: answered, or lost with its node */
    int lost;
    int present;
    uint32_t size;
    unsigned char key[SNIC_STORE_KEY_MAX];
    unsigned char data[SNIC_STORE_KEY_MAX + 65536];
};

struct store_cluster {
    struct store_cluster_opts o;
    struct snic_world *world;
    struct snic_net_fabric *fabric;
    struct snic_loop *clock;
    struct snic_timer tick;
    struct snic_rng rng;
    struct snic_net_addr addrs[SNIC_DDP_NODES_MAX];
    struct store_cluster_node node[STORE_NODES];
    struct store_act got; /* of the last operation that was waited for */
    const char *failure;
};

struct store_cluster *store_cluster_new(const struct store_cluster_opts *o);
void store_cluster_free(struct store_cluster *c);
void store_cluster_fail(struct store_cluster *c, const char *why);
/* A node's options, as up gives them to it. */
void store_cluster_options(struct store_cluster *c, uint32_t node, struct snic_replica_opts *r,
                           struct snic_store_opts *o);
/* found: a cluster that never was. */
void store_cluster_up(struct store_cluster *c, uint32_t node, int found);
/* Its process dies, or its power goes: then of what is not flushed a part is there, or nothing. */
enum store_death { STORE_CRASH = 0, STORE_POWER, STORE_DARK };
void store_cluster_down(struct store_cluster *c, uint32_t node, enum store_death how);
void store_cluster_down_all(struct store_cluster *c, enum store_death how);
void store_cluster_pause(struct store_cluster *c, uint32_t node, int paused);
void store_cluster_run(struct store_cluster *c, uint64_t ns);
int store_cluster_serves(const struct store_cluster *c, uint32_t node);
/* Until all nodes serve, at most 60 s: 1 if they do. */
int store_cluster_settle(struct store_cluster *c);

/* Begin a->op at a node; its error. The key is copied into a. */
int store_begin(struct store_cluster *c, uint32_t node, struct store_act *a);
/* The same, until it is answered (retried while submit has no room): its result. */
int store_act(struct store_cluster *c, uint32_t node, struct store_act *a);
/* The same with c->got. */
int store_get(struct store_cluster *c, uint32_t node, const void *key, uint32_t key_size);
int store_put(struct store_cluster *c, uint32_t node, const void *key, uint32_t key_size,
              const void *data, uint32_t size);
int store_delete(struct store_cluster *c, uint32_t node, const void *key, uint32_t key_size);

#endif
