/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * What the files of bench/neighbours share: an open-loop load generator for five protocols, and
 * the badly behaved clients that run beside it (bench/neighbours.sh).
 */
#ifndef BENCH_NEIGHBOURS_H
#define BENCH_NEIGHBOURS_H

#include "snicstore.h"

enum nb_protocol { NB_RESP, NB_PAGE, NB_NBD, NB_CATALOG, NB_FILE, NB_UDP };
enum nb_role { NB_CLOSED, NB_FILL, NB_OPEN, NB_SLOW, NB_PAUSED, NB_HOSTILE, NB_FULL };

struct nb {
    enum nb_protocol protocol;
    enum nb_role role;
    const char *address; /* HOST:PORT, or the path of a socket or file */
    const char *prefix;  /* of keys */
    uint64_t clients;
    uint64_t depth; /* most requests under way of a client; of an open loop NB_WINDOW */
    uint64_t keys;
    uint64_t bytes;  /* of a value or block */
    uint64_t writes; /* percent */
    uint64_t rate;   /* of all clients, per second */
    uint64_t requests;
    uint64_t seconds;  /* end after it; in an open loop those not answered are errors */
    uint64_t delay_ms; /* between connecting and the first request */
    uint64_t seed;
    struct snic_rng rng;

    uint64_t start_ns;
    uint64_t end_ns;
    uint64_t closing_ns; /* no new requests since, 0: not yet */
    uint64_t issued;
    uint64_t answered;
    uint64_t lost;   /* with their connections */
    uint64_t errors; /* error replies, operations of lost connections, connections refused */
    struct snic_hist latency;
};

/* The other end of a connection to a catalog. */
struct nb_peer {
    uint64_t number; /* of the client */
    int plain;       /* it has no disk */
    int operator;    /* it lists segments */
    uint32_t vd;
    uint32_t lease;
    uint32_t opening; /* the tag under which a disk is being opened, 0: none */
};

#define NB_WINDOW 16384u
#define NB_REQUEST_MAX 2048u /* a request without its data */
#define NB_NO_REPLY UINT64_MAX

uint64_t nb_now(void);
void nb_die(const char *format, ...) __attribute__((format(printf, 1, 2), noreturn));
/** Set by SIGTERM and SIGINT. */
int nb_stopped(void);
/** Time until the next request of a Poisson process of @p rate per second. */
uint64_t nb_gap(struct nb *n, struct snic_rng *rng, uint64_t rate);

/** Blocking connection, made non-blocking; with the handshake of NBD and of a catalog, which set
 * the rest of @p p. @return descriptor, -1: refused */
int nb_connect(const struct nb *n, struct nb_peer *p);
/**
 * Append a request to @p out, which has room for NB_REQUEST_MAX bytes and the data.
 * @p id comes back with the reply of PAGE, NBD and CATALOG; its lowest bit: a write.
 */
size_t nb_put(const struct nb *n, struct nb_peer *p, unsigned char *out, uint64_t id, uint64_t key);
/**
 * Parse the head of a reply. @p skip: bytes that follow it. @p id is set by PAGE, NBD and CATALOG,
 * NB_NO_REPLY: it is none.
 * @return its bytes, 0: more are needed, negative: not of the protocol
 */
int64_t nb_head(const struct nb *n, struct nb_peer *p, const unsigned char *in, size_t size,
                uint64_t *id, uint64_t *skip, int *failed);
/** Bytes that break the protocol's rules, of one of several kinds. */
size_t nb_garbage(struct nb *n, unsigned char *out);

/** The catalog's part of these (neighbours_catalog.c). */
int nb_catalog_begin(const struct nb *n, struct nb_peer *p, int fd);
size_t nb_catalog_put(const struct nb *n, struct nb_peer *p, unsigned char *out, uint64_t id,
                      uint64_t key);
int64_t nb_catalog_head(struct nb_peer *p, const unsigned char *in, size_t size, uint64_t *id,
                        int *failed);

/** Streams; files; datagrams without sense. They return when the run is over. */
void nb_run_streams(struct nb *n);
void nb_run_files(struct nb *n);
void nb_run_datagrams(struct nb *n);

#endif
