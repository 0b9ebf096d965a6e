/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* The world's inside: solar_world.c has time, fabric and faults, solar_cluster.c the servers, the
   agent's owner and the oracle. */
#ifndef SNIC_TESTS_SIM_SOLAR_WORLD_PRIV_H
#define SNIC_TESTS_SIM_SOLAR_WORLD_PRIV_H

#include "solar_cipher.h"
#include "solar_world.h"

#define WORLD_PRIME UINT64_C(0x100000001b3)

enum {
    SERVERS = 3,
    DISKS = 2,
    SPAN = 4096,
    SEGMENTS = SPAN / 512,
    DEPTH = 64,
    DATAGRAMS = 8192,
    REQUESTS = 4096,
    BUFFERS = 256,
    SPINES = 4,
    EVENTS = 32768,
    IO_BLOCKS = 256
};

enum {
    EV_DATAGRAM,
    EV_AGENT,
    EV_SERVER,
    EV_STORED,
    EV_TRAIN,
    EV_FAULT,
    EV_SERVER_UP,
    EV_AGENT_DOWN,
    EV_AGENT_UP
};

struct event {
    uint64_t at_ns; /* eventheap.h: time and order come first */
    uint64_t order;
    uint32_t type;
    uint32_t who;    /* server, or the agent's incarnation */
    uint32_t index;  /* of a datagram, request, train */
    uint32_t serial; /* of the server; of a train: 1 it has been sent, and comes back */
};

struct datagram {
    uint32_t to_server; /* 1: from the agent */
    uint32_t server;
    uint32_t path;
    uint32_t gen;
    uint32_t incarnation;
    uint32_t size;
    uint32_t next;
    uint16_t port;
    unsigned char bytes[SNIC_EBS_PACKET_BYTES + 16];
};

struct stored {
    uint64_t wver;
    uint64_t stamp;
    uint32_t crc;
    uint32_t block_tag;
    uint32_t kind;
};

struct segment {
    uint64_t seg_id;
    uint64_t fence;
    uint32_t server;
    uint32_t gen;
    struct stored b[512];
};

struct server {
    struct snic_solar_target *t;
    void *mem;
    uint32_t serial;
    int up;
    int awake; /* a wake-up is scheduled */
    uint32_t inbox, inbox_last;
    uint64_t slow_until_ns;
    uint64_t dark_until_ns;
    uint64_t hold_until_ns;
    uint64_t busy_ns; /* its thread, with what waits for it */
};

struct request {
    struct snic_ebs_request q;
    uint64_t stamp;
    uint32_t used;
};

struct client {
    struct snic_ebs_io io;
    struct snic_iov iov[2];
    int busy;
    uint64_t stamp;
    uint64_t floor[IO_BLOCKS];
    unsigned char *data;
};

struct oracle {
    uint64_t floor;
    uint64_t failed;
    uint64_t failed_at_ns;
    uint64_t forbidden;
    uint64_t zeros; /* the highest version that wrote zeros */
};

struct world {
    struct world_opts o;
    struct world_result r;
    struct snic_rng rng;
    uint64_t now_ns;
    uint64_t order;
    uint32_t heap_count;
    struct event heap[EVENTS];
    /* fabric: by direction and spine */
    uint64_t hole_ns[2][SPINES];
    uint64_t big_hole_ns[2][SPINES];
    uint64_t lossy_ns[2][SPINES];
    uint64_t busy_ns[2][SPINES];
    uint64_t tx_bytes[2][SPINES];
    uint64_t queued, queued_ns; /* datagrams to servers; the time they waited */
    uint32_t free_datagram;
    uint32_t free_request;
    int calm; /* the end: no more faults, since */
    uint64_t calm_ns;
    /* agent */
    struct solar_toy_key keys[1 + SERVERS][2];
    struct snic_solar *c;
    void *mem;
    uint32_t incarnation;
    uint32_t epoch[DISKS]; /* of the next attach */
    int agent_up;
    uint64_t wake_ns; /* the earliest that is scheduled */
    uint64_t asleep_ns;
    uint32_t inbox, inbox_last;
    uint32_t wakes;
    uint64_t started;
    uint64_t done;
    uint32_t inflight;
    uint64_t auditing; /* next block to read in the end, plus one */
    uint16_t ports[SERVERS][SNIC_SOLAR_PATHS_MAX];
    uint32_t gens[SERVERS][SNIC_SOLAR_PATHS_MAX];
    struct client clients[DEPTH];
    uint64_t *versions; /* by stamp */
    uint64_t stamps;
    struct oracle oracle[DISKS][SPAN];
    struct segment segments[DISKS][SEGMENTS];
    struct server servers[SERVERS];
    uint64_t numbers[SERVERS][SNIC_EBS_PATHS][1 << 12]; /* of recent packets, from the agent */
    struct request requests[REQUESTS];
    struct datagram datagrams[DATAGRAMS];
    unsigned char buffers[BUFFERS][SNIC_EBS_BLOCK_BYTES];
    uint32_t buffer;
    unsigned char client_data[DEPTH][IO_BLOCKS * SNIC_EBS_BLOCK_BYTES];
};

/* What all of them share. */
extern struct solar_toy_key world_secret;

/* solar_world.c */
void world_fail(struct world *w, const char *why);
void world_at(struct world *w, uint64_t at_ns, uint32_t type, uint32_t who, uint32_t index,
              uint32_t serial);
int world_chance(struct world *w, uint32_t ppm);
/* A train's datagrams into the fabric, from server @p s or (to_server) the agent. */
struct snic_ebs_peer world_peer(const struct world *w, const struct datagram *d);
void world_transmit(struct world *w, const struct snic_solar_train *t, int to_server, uint32_t s);
void world_release(struct world *w, uint32_t datagram);

/* solar_cluster.c */
void world_server_start(struct world *w, uint32_t s);
void world_server_wake(struct world *w, uint32_t s);
void world_server_die(struct world *w, uint32_t s);
void world_stored(struct world *w, uint32_t s, uint32_t request);
void world_server_deliver(struct world *w, uint32_t s, uint32_t datagram);
void world_move(struct world *w);
/* The disk begins anew with epoch 1: what is stored is older than all that will be written. */
void world_reissue(struct world *w, uint32_t disk);

/* solar_client.c */
void world_agent_start(struct world *w);
void world_agent_die(struct world *w);
void world_agent_deliver(struct world *w, uint32_t datagram);
void world_agent_run(struct world *w);
void world_agent_soon(struct world *w, uint64_t at_ns);
int world_over(const struct world *w);
uint32_t world_crc(void *ctx, const void *data, size_t size);

#endif
