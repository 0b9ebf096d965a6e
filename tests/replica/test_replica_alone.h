/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* One replica node with a simulated network, disk and clock; the test plays all other nodes. */
#ifndef SNIC_TESTS_TEST_REPLICA_ALONE_H
#define SNIC_TESTS_TEST_REPLICA_ALONE_H

#include "replica/replica_priv.h"

enum { MS = 1000000, PORT = 7000, NODES = 3 };

struct alone {
    struct snic_world *world;
    struct snic_net_fabric *fabric;
    struct snic_loop *loop[NODES];
    struct snic_net *net[NODES];
    struct snic_disk *disk;
    struct snic_io *io;
    struct snic_net_addr addrs[SNIC_DDP_NODES_MAX];
    struct snic_replica *r;
    void *mem;
    size_t size;
    struct snic_replica_opts o;
    struct snic_net_dgram *as[NODES]; /* the others are the test */
};
extern struct alone fix;

/* Everything but the node, and its options; at most @send_queue sends of a connection. */
void doors(uint16_t configured);
void doors_of(uint16_t configured, uint32_t send_queue);
void start(void);
/* Simulated time passes; the node is checked after everything that happens. */
void run(uint64_t ns);
struct snic_replica_stats info(void);
void stop(void);
void finish(void);

struct op {
    struct snic_replica_op op;
    int done;
    uint32_t size;
    unsigned char data[4096];
    int any;
};

/* Submit; a CAS compares with o's ts of before. */
int begin(struct op *o, uint32_t kind, uint64_t key, const void *data, uint32_t size);
/* The same, until it is answered: its result. */
int act(struct op *o, uint32_t kind, uint64_t key, const void *data, uint32_t size);

#endif
