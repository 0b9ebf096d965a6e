/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* What SOLAR and LUNA are measured beside; bench/solar_raw.c describes each. */
#ifndef SNIC_BENCH_SOLAR_PEERS_H
#define SNIC_BENCH_SOLAR_PEERS_H

#include <stdint.h>

enum peer { PEER_TCP, PEER_UDP, PEER_GSO, PEER_GSO_GSO, PEER_GSO_ACKV, PEERS };

struct peer_where {
    const char *ns[2]; /* namespaces of client and server; NULL: this one */
    const char *host;  /* the server's address */
    unsigned threads;  /* 1: both ends in turn, or 2 */
};

struct peer_value {
    double cpu_ns; /* of both ends, per RPC */
    double wall_ns;
};

/* So many RPCs at a time, for so long; the process ends when it cannot be done. */
struct peer_value peer_run(const struct peer_where *w, enum peer who, int read, unsigned depth,
                           double seconds);

/* This thread lives in that namespace from now on; NULL: where it began. */
void peer_enter(const char *ns);

#endif
