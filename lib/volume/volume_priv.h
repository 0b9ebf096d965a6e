/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/**
 * The inside of block server and client.
 *
 *     tx.c      memory that an engine has lent to the network
 *     socket.c  a datagram socket that sends trains, and queues those the network has no space for
 *     stream.c  a connection that sends sends, likewise
 *     pump.c    time, and when the engines are polled
 *     server.c  the server's public functions
 *     server_open.c  its store, its own segment, its epoch
 *     request.c requests on their way through the store, of either transport
 *     grants.c  the tokens that clients have shown
 *     front_solar.c, front_luna.c   receive the requests, and send the answers
 *     client.c  the client's public functions
 *     agent_solar.c, agent_luna.c   its engine and the engine's actions
 *     path.c    SOLAR: a socket per path
 *     disk.c    a disk as a handle of the io door; reports of the engine
 *
 * Invariants
 * V1  An engine is polled from the pump alone: a message that runs after all that has arrived was
 *     handed in, or a timer, which is later still.
 * V2  A train or send is returned exactly once: by the network's done, or at once when the
 *     network does not take it, or when its socket or connection ends while it waits.
 * V3  A request is answered once, and only with the store's result; none after closing began.
 * V4  A read's blocks stay unchanged until all trains that point into them are returned.
 * V5  `done` of an I/O is called from the pump, never from inside submit.
 * V6  A received buffer is put back once: when its bytes are used, or its connection ends. While
 *     bytes of it wait, those behind them do, too.
 * V7  The store has taken a group's data before the bytes that it points to are gone. Sealed data
 *     are decrypted into memory that the next datagram reuses: they are kept in `opened_data`
 *     until then.
 */
#ifndef SNIC_VOLUME_PRIV_H
#define SNIC_VOLUME_PRIV_H

#include "ebs/opts.h"
#include "snicstore/volume.h"

#define SNIC_VOLUME__NIL UINT32_MAX
#define SNIC_VOLUME__GROUP 16u /* requests in one write of the store */
#define SNIC_VOLUME__BUSY_US 300u
#define SNIC_VOLUME__PATIENCE_NS UINT64_C(20000000)
#define SNIC_VOLUME__TRANSFER (64u << 20)
#define SNIC_VOLUME__CE 3u    /* ECN: congestion experienced */
#define SNIC_VOLUME__ECT 2u   /* ECN: may be marked          */
#define SNIC_VOLUME__BINDS 8u /* ports tried for a path     */

struct volume_front;

struct volume_req {
    struct snic_ebs_request r;
    const struct volume_front *front; /* that received it */
};

/* ---- Memory lent to the network ---- */

struct volume_tx;
/* @what: a train or a send */
typedef void (*volume_returned_fn)(void *owner, void *what);

/* Entries in flight; a free list through next. */
struct volume_txs {
    struct volume_tx *tx;
    void *owner;
    volume_returned_fn returned;
    uint64_t unsent;
    uint64_t too_large; /* of them, and those the network reports later */
    uint32_t count;
    uint32_t free;
    uint32_t out;
    uint32_t pad;
};

struct volume_tx {
    union {
        struct snic_net_train train;
        struct snic_net_send_req send;
    } u;
    struct snic_node node; /* in a backlog */
    struct volume_txs *of;
    void *what;
    uint32_t next;
    uint32_t used;
};

void volume_txs_init(struct volume_txs *x, struct volume_tx *tx, uint32_t count, void *owner,
                     volume_returned_fn returned);
/* There is a free entry: the engine lends no more than `count` at once. */
struct volume_tx *volume_tx_take(struct volume_txs *x, void *what);
/* V2; @result: negative, it was not sent */
void volume_tx_back(struct volume_tx *t, int result);
/* Return all entries of the backlog unsent. */
void volume_tx_drop(struct snic_queue *backlog);
int volume_txs_check(const struct volume_txs *x);

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

/* A train to @p peer. */
void volume_socket_send(struct volume_socket *k, struct volume_txs *x,
                        struct snic_solar_train *train, const struct snic_net_addr *peer);
/* The network has space again. */
void volume_socket_writable(struct volume_socket *k);
void volume_socket_close(struct volume_socket *k);

/* A connection; c stays until the network's `closed`, which frees its place. */
struct volume_stream {
    struct snic_net_conn *c;
    struct snic_queue backlog;
    void *owner;
    uint32_t over; /* for the engine: nothing is sent, received data are dropped */
    uint32_t pad;
};

void volume_stream_send(struct volume_stream *k, struct volume_txs *x, struct snic_luna_send *send);
void volume_stream_writable(struct volume_stream *k);
/* End it by a reset; @p orderly: by a close that delivers what was sent. */
void volume_stream_end(struct volume_stream *k, int orderly);
/* The network has reported `closed`. */
void volume_stream_gone(struct volume_stream *k);

/* ---- The server ---- */

struct volume_op {
    struct snic_segments_req req;
    struct snic_node node; /* waits for trains */
    struct snic_volume_server *s;
    unsigned char *data; /* of a read */
    uint32_t next;
    uint32_t used;
    uint32_t count;    /* requests */
    uint32_t trains;   /* of a read: in flight */
    uint64_t waits_ns; /* of a read: since when it waits for a train; 0: it does not */
    struct snic_segments_block block[SNIC_SEGMENTS_LIST_MAX];
    struct volume_req q[SNIC_VOLUME__GROUP];
};

struct volume_ops {
    struct volume_op *op;
    uint32_t count;
    uint32_t free;
    uint32_t out;
    uint32_t pad;
};

/* Receives requests, and sends their answers: one for each transport. */
struct volume_front {
    uint32_t accounts; /* 1: a connection belongs to an account */
    uint32_t pad;
    /* What is wrong with an option of the engine's, by the name that it has here; NULL. */
    const char *(*wrong)(struct snic_volume_server *s);
    /* The engine's memory and its own; 0: beyond what memory can be. */
    size_t (*layout)(struct snic_arena *a, struct snic_volume_server *s);
    /* The engine, then the network; a->port is filled in if it was 0. */
    int (*init)(struct snic_volume_server *s);
    int (*listen)(struct snic_volume_server *s, struct snic_net_addr *a);
    void (*unlisten)(struct snic_volume_server *s);
    void (*answer)(struct snic_volume_server *s, const struct volume_req *q, uint32_t status);
    /* @return how many times the cookie will be returned; SNIC_EAGAIN: call again after one was */
    int (*read_done)(struct snic_volume_server *s, const struct volume_req *q,
                     const struct snic_ebs_read_block *blocks, uint64_t cookie);
    void (*pump)(struct snic_volume_server *s);
    /* Receive no more, take back what is lent. */
    void (*stop)(struct snic_volume_server *s);
    int (*silent)(const struct snic_volume_server *s);
    void (*fini)(struct snic_volume_server *s);
    void (*stats)(const struct snic_volume_server *s, struct snic_volume_server_stats *out);
    /* 1; 0: that place is free; SNIC_ENOENT: there is no such place */
    int (*client)(const struct snic_volume_server *s, uint32_t place,
                  struct snic_volume_server_client *out);
    int (*check)(const struct snic_volume_server *s);
};

extern const struct volume_front volume_front_solar;
extern const struct volume_front volume_front_luna;

struct volume_front_of_solar {
    struct snic_solar_target *target;
    void *mem;
    size_t size;
    struct volume_socket socket;
    struct volume_txs txs;
};

/* A client's connection. */
struct volume_peer {
    struct volume_stream k; /* first */
    struct snic_queue held; /* received buffers whose bytes wait */
    struct snic_net_addr addr;
    uint32_t handle;
    uint32_t next; /* of free ones, of those in a bucket */
    uint8_t used;
    uint8_t waits; /* until RESUME */
};

struct volume_front_of_luna {
    struct snic_luna_target *target;
    void *mem;
    size_t size;
    struct snic_net_listener *listener;
    struct volume_peer *peers;
    uint32_t *buckets; /* by handle */
    struct snic_timer timer;
    struct volume_txs txs;
    uint64_t turned_away;
    uint32_t mask;
    uint32_t free;
    uint32_t used;
    uint32_t pad;
};

/* A token that a client has shown. */
struct volume_grant {
    struct snic_ebs_token t;
    uint64_t who;  /* the connection */
    uint64_t used; /* 0: free; else when, as a count of uses */
};

struct volume_grants {
    struct volume_grant *grant;
    uint64_t uses;
    uint32_t mask;
    uint32_t pad;
};

enum volume_meta {
    VOLUME_META_CREATE = 1,
    VOLUME_META_READ,
    VOLUME_META_WRITE,
    VOLUME_META_DELETE,
    VOLUME_META_DONE
};

struct snic_volume_server {
    struct snic_volume_server_opts o;
    struct snic_volume_server_events e;
    void *ctx;
    struct snic_segments *store;
    const struct volume_front *front[2];
    uint32_t fronts;
    uint32_t list_max;
    struct volume_front_of_solar solar;
    struct volume_front_of_luna luna;
    struct volume_grants grants; /* with token_key */
    struct volume_ops writes;
    struct volume_ops reads;
    struct volume_op *group;     /* being filled, while received requests are handed in */
    struct snic_queue for_train; /* reads that wait for trains or sends */
    struct snic_loop_msg pump;
    struct snic_segments_report report;
    struct snic_volume_server_stats stats;
    struct snic_segments_req meta_req;
    struct snic_segments_block meta_block;
    struct snic_net_addr addr;
    unsigned char *meta;
    unsigned char *opened_data; /* of a group, with AUTH (V7); else NULL */
    unsigned char key[16];
    uint32_t epoch;
    uint8_t pumping; /* the message is queued */
    uint8_t opened;
    uint8_t listens;
    uint8_t closing;
    uint8_t meta_state; /* enum volume_meta */
    uint8_t meta_out;
    uint8_t meta_waits; /* for space in the log */
};

/* pump.c: the next poll of the engines */
void volume_server_soon(struct snic_volume_server *s);
uint64_t volume_server_now(const struct snic_volume_server *s);
/* server_open.c */
void volume_server_opened(void *ctx, int result, const struct snic_segments_report *report);
void volume_server_open_room(struct snic_volume_server *s);
/* grants.c */
size_t volume_grants_layout(struct snic_arena *a, struct snic_volume_server *s);
/* A client shows a token: enum snic_ebs_status. */
uint32_t volume_grants_show(struct snic_volume_server *s, const struct volume_req *q);
/* Does the token that was shown permit the request? enum snic_ebs_status */
uint32_t volume_grants_check(struct snic_volume_server *s, const struct volume_req *q);
uint32_t volume_grants_rights(struct snic_volume_server *s, const struct volume_req *q);
/* request.c */
void volume_ops_init(struct snic_volume_server *s, struct volume_ops *p, struct volume_op *op,
                     uint32_t count, unsigned char *data);
void volume_request(struct snic_volume_server *s, const struct volume_req *q);
/* V7: to be called before the bytes that requests point to are gone. */
void volume_request_flush(struct snic_volume_server *s);
void volume_request_returned(struct snic_volume_server *s, uint64_t cookie);

/* ---- The client ---- */

struct volume_io {
    struct snic_ebs_io io;
    struct snic_io_req *req;
    struct volume_disk *disk;
    uint64_t blocks; /* left, this part included */
    uint32_t next;
    uint16_t used;
    uint16_t flags; /* SNIC_EBS_IO_* */
};

struct volume_disk {
    struct snic_io io; /* first */
    struct snic_volume *v;
    struct volume_io *ios;
    struct snic_io_room room;
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

/* The client's engine: one for each transport. */
struct volume_agent {
    /* What is wrong with an option, by the name that it has here; NULL. */
    const char *(*wrong)(const struct snic_volume_opts *o);
    size_t (*memsize)(const struct snic_volume_opts *o); /* 0: beyond what memory can be */
    /* Its sockets or connections, and the entries for what is lent to them. */
    void (*layout)(struct snic_arena *a, struct snic_volume *v);
    int (*init)(struct snic_volume *v, void *mem, size_t size);
    void (*fini)(struct snic_volume *v);
    int (*server_add)(struct snic_volume *v, uint32_t server);
    int (*server_remove)(struct snic_volume *v, uint32_t server, int forget);
    void (*server_moved)(struct snic_volume *v, uint32_t server);
    int (*map)(struct snic_volume *v, uint32_t disk, uint64_t segment, uint64_t seg_id,
               uint32_t server, uint32_t gen);
    int (*hole)(struct snic_volume *v, uint32_t disk, uint64_t segment, uint64_t lookup_ns);
    int (*refuse)(struct snic_volume *v, uint32_t disk, uint64_t segment, int result);
    uint32_t (*waits)(const struct snic_volume *v, uint32_t disk, uint64_t segment);
    int (*attach)(struct snic_volume *v, uint32_t disk, const struct snic_ebs_disk_opts *o);
    int (*detach)(struct snic_volume *v, uint32_t disk);
    int (*qos)(struct snic_volume *v, uint32_t disk, const struct snic_ebs_disk_opts *o);
    int (*token)(struct snic_volume *v, uint32_t disk, const unsigned char *token);
    int (*submit)(struct snic_volume *v, struct snic_ebs_io *io);
    /* Carries out all actions. @return the deadline */
    uint64_t (*pump)(struct snic_volume *v);
    /* End all I/Os and close all sockets. */
    void (*halt)(struct snic_volume *v);
    int (*silent)(const struct snic_volume *v);
    void (*stats)(const struct snic_volume *v, struct snic_volume_stats *out);
    int (*check)(const struct snic_volume *v);
};

extern const struct volume_agent volume_agent_solar;
extern const struct volume_agent volume_agent_luna;

/* A connection to a server. */
struct volume_link {
    struct volume_stream k; /* first */
    uint32_t server;
    uint16_t conn;
    uint16_t gen;
    uint32_t used;
    uint32_t pad;
};

struct snic_volume {
    struct snic_volume_opts o;
    struct snic_volume_events e;
    void *ctx;
    const struct volume_agent *agent;
    struct snic_solar *solar; /* one of these */
    struct snic_luna *luna;
    struct volume_txs txs;
    struct volume_socket *sockets; /* SOLAR */
    struct volume_link *links;     /* LUNA: two places for each connection */
    struct volume_server *servers;
    struct volume_disk *disks;
    struct snic_rng rng;
    struct snic_loop_msg pump;
    struct snic_timer timer;
    struct snic_volume_stats stats;
    uint32_t sockets_max; /* or links */
    uint8_t pumping;
    uint8_t closing;
};

/* pump.c */
void volume_soon(struct snic_volume *v);
uint64_t volume_now(const struct snic_volume *v);
/* path.c */
void volume_path_open(struct snic_volume *v, uint32_t server, uint16_t path, uint16_t gen);
void volume_path_close(struct snic_volume *v, uint32_t server, uint16_t path, uint16_t gen);
void volume_path_send(struct snic_volume *v, struct snic_solar_train *t);
/* disk.c */
/* An engine's report; SEND, OPEN and CLOSE are its agent's. */
void volume_report(struct snic_volume *v, const struct snic_ebs_action *a);
void volume_disks_init(struct snic_volume *v, struct volume_io *ios);
void volume_disk_done(struct snic_volume *v, struct snic_ebs_io *io);
/* Complete the requests that never reached the agent. @return how many */
uint32_t volume_disk_failed(struct volume_disk *d);

#endif /* SNIC_VOLUME_PRIV_H */
