/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * solar_faults: clients with a few I/Os in flight each, over a transport, and what becomes of those
 * I/Os. The description is in solar_faults.c.
 */
#ifndef SNIC_TESTS_SOLAR_FAULTS_H
#define SNIC_TESTS_SOLAR_FAULTS_H

#include <stdio.h>

#include "common.h" /* of the examples */

enum {
    FAULT_BLOCK = 4096,
    FAULT_IO_BLOCKS = 8, /* most of an I/O: 32 KiB */
    FAULT_DEPTH_MAX = 16,
    FAULT_CLIENTS_MAX = 64,
    FAULT_HEAD = 64 /* room for a transport's own, in front of the data */
};

struct fault_client;

struct fault_io {
    struct snic_io_req req; /* the volume's */
    struct fault_client *client;
    uint64_t began_ns; /* 0: idle */
    uint64_t waits_ns; /* fault_waits_ns() then */
    uint64_t next_ns;  /* idle: not before that */
    uint32_t lba;
    uint32_t blocks;
    uint32_t version;
    int write;
    int explained;       /* its hang was */
    int counted;         /* likewise */
    unsigned char *head; /* FAULT_HEAD bytes, right before the data */
    unsigned char *data;
};

struct fault_client {
    uint32_t index;
    uint32_t *known; /* of each block: the version acknowledged; FAULT_UNKNOWN */
    uint16_t *busy;  /* I/Os there; FAULT_WRITES: one that writes */
    struct snic_rng rng;
    uint64_t done;
    struct fault_io io[FAULT_DEPTH_MAX];
};

struct fault_options {
    const char *server;
    const char *transport;
    const char *waits;
    uint64_t clients;
    uint64_t depth;
    uint64_t blocks; /* of a disk */
    uint64_t epoch;
    uint64_t milliseconds;
    uint64_t pause_us;
    uint64_t drain;
    uint64_t seed;
    int hold;
    int verbose;
};

/* A transport from clients to a server. */
struct fault_transport {
    const char *name;
    int lasting; /* what was written is there for the next run: read it back in the end */
    void (*open)(struct fault_client *clients, const struct fault_options *o);
    /* fault_done() follows, not from inside. */
    void (*submit)(struct fault_io *io);
    /* Do what is to be done; sleep that long at most. */
    void (*turn)(uint64_t max_wait_ns);
    /* To stderr: why does it hang? */
    void (*explain)(const struct fault_io *io);
    /* What it counted, as " name=value ...". */
    void (*report)(FILE *to);
    void (*close)(void);
};

extern const struct fault_transport fault_solar;
extern const struct fault_transport fault_tcp;

uint64_t fault_now(void);
void fault_done(struct fault_io *io, int64_t result);

/* Waiting for a CPU, of this process and of those in the file. NULL: none is counted. */
void fault_waits_open(const char *file);
/* An iteration of the loop begins, in which it sleeps that long at most. */
void fault_waits_begin(uint64_t now, uint64_t sleep_ns);
/* During it and after it. The others are looked at now and then, or at once. */
void fault_waits_count(uint64_t now, int at_once);
/* So far, of all together. */
uint64_t fault_waits_ns(void);

/* The peer's server; it ends by a signal. */
int fault_tcp_server(int argc, char **argv);

#endif
