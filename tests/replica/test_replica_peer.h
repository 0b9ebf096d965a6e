/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* Node 1 as a test plays it, connected to the node under test, which is node 0. */
#ifndef SNIC_TESTS_TEST_REPLICA_PEER_H
#define SNIC_TESTS_TEST_REPLICA_PEER_H

#include "test_replica_alone.h"

enum { SEEN = 1 << 20 };

struct peer {
    struct snic_net *net; /* its host's */
    struct snic_net_conn *c;
    int closed;
    unsigned char seen[SEEN]; /* bytes of the node */
    uint32_t size;
    struct replica_credit credit;
    uint32_t frames[REPLICA_FRAMES];
    struct replica_hello hello; /* the node's */
};
extern struct peer peer;

void peer_connect(void);
void peer_connect_from(uint32_t host);
void peer_connect_to(uint32_t host, const struct snic_net_addr *addr);
/* The node connects to host 1, at that address. */
void peer_listen(const struct snic_net_addr *addr);
void peer_unlisten(void);
void peer_send(const unsigned char *bytes, uint32_t size);
/* What the node sent, not sealed: its frames. */
void peer_read(void);

/* The block that is being made, and the bytes of its body. */
extern unsigned char block[SNIC_REPLICA__BLOCK + SNIC_REPLICA__BODY];
extern uint32_t used;
void block_new(void);
unsigned char *block_frame(uint32_t kind, uint32_t channel, uint32_t size);
/* Header and checksum: its size. */
uint32_t block_end(void);
void block_send(void);

struct replica_hello hello(void);
void hello_send(const struct replica_hello *h);

/* A node of two, and its end: it still runs, and has no value. */
void begin_link(void);
void end_link(void);
/* A connection that the node has agreed on, and its end. */
void peer_up(void);
void peer_gone(void);
/* The node's of its peer. */
struct snic_replica_peer_stats stats(void);

#endif
