/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * A fabric for tests of the simulated network, both ways: node 1 - 2 ToRs - 4 spines - 2 ToRs -
 * node 2, each node with PORTS datagram sockets, from port 1000 and 2000 on.
 */
#ifndef SNIC_TESTS_NET_UTIL_H
#define SNIC_TESTS_NET_UTIL_H

#include "support.h"

#include "snicstore/net.h"

#define US UINT64_C(1000)
#define MS UINT64_C(1000000)
#define SPINES 4
#define TORS 2
#define PORTS 64

struct got {
    uint32_t messages;
    uint32_t ecn[4];
    uint32_t wrong_bits;
    uint32_t overtakes;
    uint32_t last;
    uint64_t last_ns;
    uint64_t bytes;
    uint64_t hash;
    unsigned char newest[256];
};

struct clos {
    struct snic_world *w;
    struct snic_loop *loops[2];
    struct snic_net_fabric *f;
    struct snic_net *net[2];
    struct snic_net_dgram *d[2][PORTS];
    struct got got[2];
    uint32_t tor[2][TORS];
    uint32_t spine[SPINES];
    uint32_t up[2][TORS]; /* wires from the node */
    uint32_t down[2][TORS];
    uint32_t rise[2][TORS][SPINES];
    uint32_t fall[2][TORS][SPINES];
    uint32_t number;
    int stamped; /* the header's zeros are written on the way */
};

extern struct clos c;

/** Two nodes in a world, without sockets; then sockets; or all of the fabric. */
void world(uint64_t seed);
void sockets(void);
void clos_open(uint64_t seed, const struct snic_net_link *l);
void clos_close(void);
void run_for(uint64_t ns);
/** One datagram of @p size bytes from node @p from + 1 by its socket @p port to the other's first.
 */
void send_one(uint32_t from, uint32_t port, uint32_t size, uint32_t ecn);
/** How many of one datagram by each port of node 1 arrive. */
uint32_t arrivals(void);
uint32_t add_fault(const struct snic_net_fault *x);
struct snic_net_wire_stats wire_stats(uint32_t id);
/** The wires of port @p port's way out of node 1, and of the way back to it. */
void ways(uint32_t port, uint32_t out[4], uint32_t back[4]);

#endif
