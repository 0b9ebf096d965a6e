/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/**
 * The inside of block server and client.
 *
 *     socket.c  a datagram socket that takes an engine's trains, and keeps those it has no room for
 *     server.c  the server from outside; what comes and what leaves
 *     server_open.c  its store, its own segment, its epoch
 *     request.c requests on their way through the store
 *     client.c  the client from outside; the agent's actions; time
 *     path.c    a socket per path
 *     disk.c    a disk as a handle of the io door
 *
 * Invariants
 * V1  An engine is polled from the pump alone: a message that runs after all that has arrived was
 *     handed in, or a timer, which is later still.
 * V2  A train is given back exactly once: by the network's done, or at once when the network does
 *     not take it, or when its socket is closed while it waits.
 * V3  A request is answered once, and only with what the store said; none after closing began.
 * V4  A read's blocks stay as they are until all trains that show them are given back.
 * V5  `done` of an I/O comes from the pump, never from inside submit.
 */
#ifndef SNIC_VOLUME_PRIV_H
#define SNIC_VOLUME_PRIV_H

#include "snicstore/volume.h"

#define SNIC_VOLUME__NIL UINT32_MAX
#define SNIC_VOLUME__GROUP 16u /* requests in one write of the store */
#define SNIC_VOLUME__BUSY_US 300u
#define SNIC_VOLUME__TRANSFER (64u << 20)
#define SNIC_VOLUME__CE 3u    /* ECN: congestion experienced */
#define SNIC_VOLUME__ECT 2u   /* ECN: may be marked          */
#define SNIC_VOLUME__BINDS 8u /* ports tried for a path     */

/* ---- Sockets ---- */

struct volume_tx;
typedef void (*volume_given_fn)(void *owner, struct snic_solar_train *train);

/* What is under way; a free list through next. */
struct volume_txs {
    struct volume_tx *tx;
    void *owner;
    volume_given_fn given;
    uint64_t unsent;
    uint32_t count;
    uint32_t free;
    uint32_t out;
    uint32_t pad;
};

struct volume_tx {
    struct snic_net_train t;
    struct snic_node node; /* in a socket's backlog */
    struct volume_txs *of;
    struct snic_solar_train *train;
    uint32_t next;
    uint32_t used;
};

struct volume_socket {
    struct snic_net_dgram *d;
    struct snic_queue backlog;
    void *owner;
    uint32_t server;
    uint32_t gen;
    uint16_t path;
    uint16_t used;
    uint32_t pad;
};

void volume_txs_init(struct volume_txs *x, struct volume_tx *tx, uint32_t count, void *owner,
                     volume_given_fn given);
/* A train to @p peer; the engine has no more out than there are entries. */
void volume_socket_send(struct volume_socket *k, struct volume_txs *x,
                        struct snic_solar_train *train, const struct snic_net_addr *peer);
/* There is room again. */
void volume_socket_writable(struct volume_socket *k);
void volume_socket_close(struct volume_socket *k);
int volume_txs_check(const struct volume_txs *x);

/* ---- The server ---- */

struct volume_op {
    struct snic_segments_req req;
    struct snic_node node; /* waits for trains, or for room */
    struct snic_volume_server *s;
    unsigned char *data; /* of a read */
    uint32_t next;
    uint32_t used;
    uint32_t count;  /* requests */
    uint32_t at;     /* blocks done, of one that is in slices */
    uint32_t blocks; /* of that one */
    uint32_t trains; /* of a read: out */
    uint32_t worst;  /* of slices: a status */
    uint32_t pad;
    struct snic_segments_block block[SNIC_SEGMENTS_LIST_MAX];
    struct snic_solar_request q[SNIC_VOLUME__GROUP];
};

struct volume_ops {
    struct volume_op *op;
    uint32_t count;
    uint32_t free;
    uint32_t out;
    uint32_t pad;
};

enum volume_meta { VOLUME_META_CREATE = 1, VOLUME_META_READ, VOLUME_META_WRITE, VOLUME_META_DONE };

struct snic_volume_server {
    struct snic_volume_server_opts o;
    struct snic_volume_server_events e;
    void *ctx;
    struct snic_segments *store;
    struct snic_solar_target *target;
    void *target_mem;
    size_t target_size;
    struct volume_socket socket;
    struct volume_txs txs;
    struct volume_ops writes;
    struct volume_ops reads;
    struct volume_op *group;     /* being filled, while datagrams are handed in */
    struct snic_queue for_train; /* reads that wait for trains */
    struct snic_queue for_room;  /* slices that wait for the store */
    struct snic_loop_msg pump;
    struct snic_segments_report report;
    struct snic_volume_server_stats stats;
    struct snic_segments_req meta_req;
    struct snic_segments_block meta_block;
    unsigned char *meta;
    unsigned char key[16];
    uint32_t list_max;
    uint32_t epoch;
    uint8_t pumping; /* the message is queued */
    uint8_t opened;
    uint8_t closing;
    uint8_t meta_state; /* enum volume_meta */
    uint8_t meta_out;
};

/* server.c */
int volume_server_start(struct snic_volume_server *s);
void volume_server_soon(struct snic_volume_server *s);
uint64_t volume_server_now(const struct snic_volume_server *s);
/* server_open.c */
void volume_server_opened(void *ctx, int result, const struct snic_segments_report *report);
/* request.c */
void volume_ops_init(struct snic_volume_server *s, struct volume_ops *p, struct volume_op *op,
                     uint32_t count, unsigned char *data);
void volume_request(struct snic_volume_server *s, const struct snic_solar_request *q);
void volume_request_flush(struct snic_volume_server *s);
void volume_request_given(struct snic_volume_server *s, uint64_t cookie);
void volume_request_room(struct snic_volume_server *s);

/* ---- The client ---- */

struct volume_io {
    struct snic_solar_io io;
    struct snic_io_req *req;
    struct volume_disk *disk;
    uint64_t blocks; /* left, this part included */
    uint32_t next;
    uint32_t used;
};

struct volume_disk {
    struct snic_io io; /* first */
    struct snic_volume *v;
    struct volume_io *ios;
    struct snic_queue failed; /* requests to be answered with result by the pump */
    uint32_t index;
    uint32_t free;
    uint32_t inside;
    uint8_t used;
    uint8_t closing;
    uint8_t lost;
};

struct volume_server {
    struct snic_net_addr addr;
    uint32_t known;
    uint32_t pad;
};

struct snic_volume {
    struct snic_volume_opts o;
    struct snic_volume_events e;
    void *ctx;
    struct snic_solar *agent;
    struct volume_txs txs;
    struct volume_socket *sockets;
    struct volume_server *servers;
    struct volume_disk *disks;
    struct snic_rng rng;
    struct snic_loop_msg pump;
    struct snic_timer timer;
    struct snic_volume_stats stats;
    uint32_t sockets_max;
    uint8_t pumping;
    uint8_t closing;
};

/* client.c */
void volume_soon(struct snic_volume *v);
uint64_t volume_now(const struct snic_volume *v);
/* path.c */
void volume_path_open(struct snic_volume *v, uint32_t server, uint16_t path, uint16_t gen);
void volume_path_close(struct snic_volume *v, uint32_t server, uint16_t path, uint16_t gen);
void volume_path_send(struct snic_volume *v, struct snic_solar_train *t);
/* disk.c */
void volume_disks_init(struct snic_volume *v, struct volume_io *ios);
void volume_disk_done(struct snic_volume *v, struct snic_solar_io *io);
/* Requests that never reached the agent; how many were answered. */
uint32_t volume_disk_failed(struct volume_disk *d);

#endif /* SNIC_VOLUME_PRIV_H */
