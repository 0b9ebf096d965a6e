/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/**
 * A storage node in a simulated world: the DPU (files on a simulated disk, offload engine,
 * director), the host (a toy key-value store over the director's channel) and clients.
 *
 * The toy protocol. A message is a 16-byte head {u32 size of all, u8 op, u8 arg, u16 key, u32 id,
 * u32 value} and padding up to size. A reply is the same with op = status, arg = path. A value of
 * n names itself: its bytes are a function of n.
 */
#ifndef SNIC_TESTS_DIRFIX_H
#define SNIC_TESTS_DIRFIX_H

#include "snicstore/director.h"
#include "support.h"

enum { DIRFIX_DPU = 1, DIRFIX_HOST = 2, DIRFIX_SERVER = 3, DIRFIX_CLIENT = 10 };
enum { DIRFIX_HEAD = 16, DIRFIX_KEYS = 64, DIRFIX_CLIENTS = 64, DIRFIX_PENDING = 4096 };

/* ops: GET and MGET may be offloaded; SET, DEL are barriers; PING is answered by the predicate;
 * ECHO's reply has `value` bytes, from the host; WORD sets the user word; QUIT closes after its
 * reply; SEEN is answered by the predicate: value is the version of key in the cache table, 0 if it
 * is not there; CHANGE is a SWITCH whose reply sets the user word to `value`; BAD is a protocol
 * error, BIG is refused; HOLD is answered after `value` microseconds. */
enum dirfix_op {
    DIRFIX_GET = 'G',
    DIRFIX_SET = 'S',
    DIRFIX_DEL = 'D',
    DIRFIX_MGET = 'M', /* arg keys from key on */
    DIRFIX_PING = 'P',
    DIRFIX_ECHO = 'E',
    DIRFIX_WORD = 'W',
    DIRFIX_SEEN = 'V',
    DIRFIX_CHANGE = 'C',
    DIRFIX_QUIT = 'Q',
    DIRFIX_BAD = 'B',
    DIRFIX_BIG = 'X',
    DIRFIX_HOLD = 'H',
    DIRFIX_BYE = 'Y' /* CLOSE by the predicate */
};
/* paths */
enum { DIRFIX_BY_HOST = 'h', DIRFIX_BY_DPU = 'd', DIRFIX_BY_RULE = 'a', DIRFIX_GONE = 'g' };
/* statuses */
enum { DIRFIX_OK = '+', DIRFIX_NONE = '0', DIRFIX_ERROR = '-' };

/* Rules removed on purpose. */
enum {
    DIRFIX_NO_R1 = 1,
    DIRFIX_NO_R2 = 2,
    DIRFIX_NO_R3 = 4,
    DIRFIX_NO_R4 = 8,
    DIRFIX_NO_R5 = 16,
    DIRFIX_NO_R6 = 32,
    DIRFIX_DROP_SOME = 64, /* R1, but one invalidation in eight is lost */
    DIRFIX_SWAP_GETS = 128 /* two reads of a client and a key that are under way get each other's
                              answers: no harm, unless a write of its own was between them */
};

struct dirfix;
struct dirfix_client;

struct dirfix_msg {
    uint32_t size;
    uint8_t op;
    uint8_t arg;
    uint16_t key;
    uint32_t id;
    uint32_t value;
};

void dirfix_encode(unsigned char *to, const struct dirfix_msg *m);
void dirfix_decode(struct dirfix_msg *m, const void *from);

struct dirfix_opts {
    uint64_t seed;
    uint32_t clients;
    uint32_t broken;    /* DIRFIX_NO_* */
    int local;          /* dma local, mapped; else sim */
    int net;            /* the host is a net server (node 3), not a channel */
    int no_offload;     /* no offload engine */
    int no_frame_reply; /* net: pass everything through */
    int sync;           /* writes are acknowledged when durable; some fail, and have not happened */
    int collide;        /* keys share hashes */
    uint64_t host_delay_ns;  /* most time that the host takes for an answer */
    uint64_t disk_delay_ns;  /* most time that the disk takes; default 200000 */
    uint32_t cache_capacity; /* default 256 */
    uint32_t ring_bytes;
    uint32_t host_message_max; /* 0: as the director's */
    uint32_t contexts;
    uint32_t offload_message_max; /* default 256 */
    uint32_t net_recv_size;
    uint32_t net_conns; /* of the DPU; default 256 */
    uint32_t (*full)(void *ctx, char *out, uint32_t max);
    struct snic_director_opts director; /* zeros: small defaults */
};

/* A key of the host's store. */
struct dirfix_key {
    uint64_t version;
    uint32_t value;
    uint8_t there;
    uint8_t memory; /* the host has the value; else only the device has */
    uint8_t flushing;
    uint64_t offset; /* in the file, of the newest version on the device; 0 none */
    uint64_t device_version;
    /* sync: a write is on its way to the device; what was before it, and what waits for it */
    struct dirfix_host_op *writer;
    struct snic_queue waiting;
    uint64_t old_version;
    uint32_t old_value;
    uint8_t old_there;
    struct dirfix_host_op *last_get; /* not answered yet */
};

typedef void (*dirfix_reply_fn)(struct dirfix_client *c, const struct dirfix_msg *m,
                                const unsigned char *body);

struct dirfix_client {
    struct dirfix *f;
    struct snic_loop *loop;
    struct snic_net *net;
    struct snic_net_conn *conn;
    struct snic_net_send_req send;
    struct snic_iov iov;
    unsigned char *out; /* bytes to send */
    size_t out_size, out_at, out_cap, sending;
    unsigned char *in;
    size_t in_size, in_cap;
    dirfix_reply_fn reply;
    void *user;
    uint32_t next_id, replies;
    uint32_t node;
    int open, eof, closed, reason, paused, shut, in_order;
    uint32_t order[DIRFIX_PENDING]; /* ids under way */
    uint32_t order_first, order_count;
    uint32_t max_piece; /* most bytes of a send; 0: random */
};

struct dirfix {
    struct dirfix_opts o;
    struct snic_world *w;
    struct snic_rng rng;
    struct snic_net_fabric *fabric;
    /* DPU */
    struct snic_loop *dpu;
    struct snic_net *net;
    struct snic_disk *disk;
    struct snic_io *io;
    struct snic_files *files;
    struct snic_offload *offload;
    struct snic_director *d;
    void *files_mem, *offload_mem, *director_mem;
    uint64_t file;
    uint64_t file_end;
    struct snic_net_addr addr;
    struct snic_director_user user;
    uint32_t mismatches; /* records that were not the table's */
    uint32_t dpu_reads;
    /* host */
    struct snic_loop *host;
    struct snic_dma *dma[2]; /* host, DPU */
    struct snic_channel_hub *hub[2];
    void *hub_mem[2];
    struct snic_director_host *h;
    struct dirfix_key keys[DIRFIX_KEYS];
    uint64_t version;
    uint32_t host_messages, host_closed, host_deaths, host_outstanding;
    uint64_t host_last_conn, host_last_seq;
    struct snic_queue host_queue; /* replies that found no room */
    uint32_t host_gen;
    int host_alive;
    /* net server */
    struct snic_net *server_net;
    struct snic_net_listener *server_listener;
    struct snic_loop *server_loop;
    int server_mode; /* 0 good; 1 closes on the next message; 2 resets on it */
    /* clients */
    struct dirfix_client clients[DIRFIX_CLIENTS];
};

/* Zero @p o but for what matters. Opens everything but the clients' connections. */
void dirfix_open(struct dirfix *f, const struct dirfix_opts *o);
void dirfix_close(struct dirfix *f);
void dirfix_host_attach(struct dirfix *f);
/* The host's process dies: its link is cut, nothing it was doing continues. */
void dirfix_host_kill(struct dirfix *f);
struct dirfix_client *dirfix_connect(struct dirfix *f, uint32_t i, dirfix_reply_fn reply);
/* Queue one message; returns its id. */
uint32_t dirfix_send(struct dirfix_client *c, uint8_t op, uint8_t arg, uint16_t key, uint32_t value,
                     uint32_t pad);
void dirfix_send_raw(struct dirfix_client *c, const void *bytes, size_t n);
void dirfix_pump(struct dirfix_client *c);
void dirfix_disconnect(struct dirfix_client *c, int abort);
/* Step until all clients have all their answers (or are closed); fails when it stands still. */
void dirfix_finish(struct dirfix *f);
/* Steps, with a structure check every now and then. */
void dirfix_run(struct dirfix *f, uint64_t ns);
int dirfix_step(struct dirfix *f);
uint64_t dirfix_hash(const struct dirfix *f, uint16_t key);
/* Host side: write a key to the device. */
void dirfix_flush(struct dirfix *f, uint16_t key);
void dirfix_flush_all(struct dirfix *f);
struct snic_director_stats dirfix_stats(const struct dirfix *f);
uint32_t dirfix_value_size(uint32_t value);
void dirfix_value(unsigned char *to, uint32_t value);

#endif
