/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* The world's inside: luna_world.c has time, faults and a run, luna_stream.c the streams,
   luna_cluster.c the servers, luna_client.c the agent's owner and the oracle. */
#ifndef SNIC_TESTS_SIM_LUNA_WORLD_PRIV_H
#define SNIC_TESTS_SIM_LUNA_WORLD_PRIV_H

#include "luna_world.h"

enum {
    SERVERS = 3,
    DISKS = 2,
    SPAN = 4096,
    SEGMENTS = SPAN / 512,
    DEPTH = 64,
    LINKS = 256,
    REQUESTS = 8192,
    EVENTS = 65536,
    IO_BLOCKS = 256
};
#define WORLD_NONE UINT32_MAX

enum {
    EV_STREAM, /* the first chunk of a link's direction is due */
    EV_CONNECT,
    EV_AGENT,
    EV_SERVER,
    EV_STORED,
    EV_FAULT,
    EV_SERVER_UP,
    EV_AGENT_UP
};

struct event {
    uint64_t at_ns; /* eventheap.h: time and order come first */
    uint64_t order;
    uint32_t type;
    uint32_t who;    /* link, server, or the agent's incarnation */
    uint32_t index;  /* direction, request */
    uint64_t serial; /* of the link, the server */
};

/* What one send is on its way; its bytes are read when it arrives, unless it had to be copied. */
struct chunk {
    struct chunk *next;
    struct snic_luna_send *send; /* not returned yet, or NULL: copied */
    uint64_t at_ns;
    size_t size;
    size_t used;
    unsigned char *bytes;
};

struct way {
    struct chunk *first, *last;           /* under way */
    struct chunk *arrived, *arrived_last; /* not read yet */
    uint64_t last_ns;
    uint64_t hole_ns; /* nothing passes until then */
    int over;         /* no more comes: closed when all is read */
};

enum { UP = 0, DOWN = 1 };

struct link {
    uint64_t serial;
    uint32_t used, server, conn, gen, incarnation, server_serial;
    uint32_t handle;
    int agent_open; /* 1 requested, 2 stands, 0 over */
    int target_open;
    int paused;
    int resumed;
    struct way way[2];
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
    struct snic_luna_target *t;
    void *mem;
    uint32_t serial;
    int up;
    int awake; /* a wake-up is scheduled */
    uint64_t slow_until_ns;
    uint64_t dark_until_ns;
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
    uint64_t serials;   /* of links */
    uint64_t mended_ns; /* the last fault is over */
    uint32_t heap_count;
    struct event heap[EVENTS];
    uint32_t free_request;
    int calm; /* the end: no more faults */
    /* agent */
    struct snic_luna *c;
    void *mem;
    uint32_t incarnation;
    int agent_up;
    uint64_t wake_ns; /* the earliest that is scheduled */
    uint64_t asleep_ns;
    uint32_t wakes;
    uint64_t started;
    uint64_t done;
    uint32_t inflight;
    uint64_t auditing; /* next block to read in the end */
    struct client clients[DEPTH];
    uint64_t *versions; /* by stamp */
    uint64_t stamps;
    struct link links[LINKS];
    struct oracle oracle[DISKS][SPAN];
    struct segment segments[DISKS][SEGMENTS];
    struct server servers[SERVERS];
    struct request requests[REQUESTS];
    unsigned char client_data[DEPTH][IO_BLOCKS * SNIC_EBS_BLOCK_BYTES];
};

/* luna_world.c */
void world_fail(struct world *w, const char *why);
void world_at(struct world *w, uint64_t at_ns, uint32_t type, uint32_t who, uint32_t index,
              uint64_t serial);
int world_chance(struct world *w, uint32_t ppm);
static inline void world_hurts(struct world *w, uint64_t until_ns)
{
    w->mended_ns = w->mended_ns > until_ns ? w->mended_ns : until_ns;
}

/* luna_stream.c */
void stream_connect(struct world *w, uint32_t server, uint32_t conn, uint32_t gen);
void stream_connected(struct world *w, uint32_t link);
struct link *stream_find(struct world *w, uint32_t server, uint32_t conn, uint32_t gen);
struct link *stream_of(struct world *w, uint32_t server, uint32_t handle);
/** Takes @p s; it is returned when it has arrived, or at once. */
void stream_send(struct world *w, struct link *l, uint32_t dir, struct snic_luna_send *s);
void stream_due(struct world *w, uint32_t link, uint32_t dir);
/** The next received piece: @return its size, 0: none; *over: and no more will. */
size_t stream_peek(struct world *w, struct link *l, uint32_t dir, const unsigned char **p,
                   int *over);
void stream_read(struct world *w, struct link *l, uint32_t dir, size_t size);
/** One end aborts it. */
void stream_agent_ends(struct world *w, struct link *l);
void stream_target_ends(struct world *w, struct link *l);
void stream_reset(struct world *w, struct link *l);
void stream_hole(struct world *w, struct link *l, uint64_t until_ns);
void stream_agent_died(struct world *w);
void stream_server_died(struct world *w, uint32_t server, int silent);
void stream_heal(struct world *w);
void stream_clear(struct world *w);

/* luna_cluster.c */
void world_server_start(struct world *w, uint32_t s);
void world_server_soon(struct world *w, uint32_t s);
void world_server_wake(struct world *w, uint32_t s);
void world_server_die(struct world *w, uint32_t s);
void world_server_drop(struct world *w, uint32_t s);
void world_stored(struct world *w, uint32_t s, uint32_t request);
void world_server_sent(struct world *w, uint32_t s, struct snic_luna_send *send);
void world_move(struct world *w);
uint32_t world_crc(void *ctx, const void *data, size_t size);

/* luna_client.c */
void world_agent_start(struct world *w);
void world_agent_die(struct world *w);
void world_agent_run(struct world *w);
void world_agent_soon(struct world *w, uint64_t at_ns);
int world_over(const struct world *w);

#endif
