/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * A node with ciphers, and node 1 as a test plays it, with the keys of their connection. The
 * ciphers are toys (sim/solar_cipher.h); test_replica_crypto has the real ones.
 */
#ifndef SNIC_TESTS_TEST_REPLICA_SEALED_PEER_H
#define SNIC_TESTS_TEST_REPLICA_SEALED_PEER_H

#include "test_replica_peer.h"

#include "solar_cipher.h"

extern struct solar_toy_key secret; /* the cluster's key */

/* What the peer seals with: as much of a replica as its functions use. */
extern struct snic_replica other;
extern struct replica_conn other_conn;
extern struct replica_session other_session;

/* The node, and its end: it still runs, and has no connection. */
void begin_sealed(void);
void end_sealed(void);

/* A hello with its MAC, in `block`: its size. */
uint32_t sealed_hello(struct replica_hello h);
/* Takes the keys, when the node's hello is here. */
void sealed_agree(void);
/* A connection whose keys both sides have. */
void sealed_connect(void);
/* The same, and the node has adopted it. */
void sealed_up(void);
/* A block with a PING under the peer's key, in `block`: its size. */
uint32_t sealed_ping(void);
/* Opens what the node sent: how many PONGs. */
uint32_t sealed_read(void);

/* A datagram, of sealed_dgram() or of a test. */
extern unsigned char packet[512];
/* A heartbeat sealed as the peer's number @p counter, in `packet`: its size. */
uint32_t sealed_dgram(uint64_t counter);
/* Does the node take this datagram? */
int arrives(const unsigned char *bytes, uint32_t size);

#endif
