/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/**
 * Block servers and a client in a world: processes that can be killed and begun again, on disks
 * that lose what was not durable; and a client that keeps I/Os in flight and knows what
 * may be read.
 */
#ifndef SNIC_TESTS_SUPPORT_VOLFIX_H
#define SNIC_TESTS_SUPPORT_VOLFIX_H

#include "snicstore/volume.h"

enum { VOLFIX_SERVERS = 3, VOLFIX_SEGMENTS = 4, VOLFIX_BLOCKS = VOLFIX_SEGMENTS * 512 };
enum { VOLFIX_DEPTH = 24, VOLFIX_IO_BLOCKS = 40, VOLFIX_PORT = 7000 };
#define VOLFIX_VD 9u /* the disk's number */
#define VOLFIX_MS UINT64_C(1000000)
#define VOLFIX_DISK (UINT64_C(32) << 20) /* bytes of a server's */

struct volfix;

struct volfix_server {
    struct volfix *f;
    uint32_t index;
    struct snic_loop *loop;
    struct snic_net *net;
    struct snic_disk *disk;
    struct snic_io *io;
    struct snic_volume_server *s; /* NULL: dead */
    int opened;                   /* opened() came */
    int result;
    int failed;
};

/* The holder of a segment, as the world knows: the map's truth. */
struct volfix_place {
    uint32_t server;
    uint32_t gen;
};

struct volfix_io {
    struct snic_io_req req;
    struct volfix *f;
    struct snic_iov iov[3];
    unsigned char *data;
    uint64_t lba;
    uint32_t blocks;
    uint32_t busy;
    uint64_t stamp;                   /* of a write; 0: zeros */
    uint64_t floor[VOLFIX_IO_BLOCKS]; /* of a read: what was acknowledged when it began */
};

struct volfix_block {
    uint64_t acked;  /* the stamp that was acknowledged last */
    uint64_t order;  /* of stamps: when it was written */
    uint64_t flying; /* writes in flight, or whose end is not known: lowest such stamp, 0 none */
};

struct volfix {
    struct snic_world *world;
    struct snic_net_fabric *fabric;
    uint32_t transport;  /* enum snic_volume_transport */
    uint32_t paper;      /* SNIC_VOLUME_PAPER */
    uint32_t transports; /* of servers that start: as of their options */
    uint32_t governed;   /* likewise: SNIC_VOLUME_GOVERNED */
    uint32_t salvage;    /* likewise: SNIC_SEGMENTS_SALVAGE */
    /* The keys of servers and clients that start; NULL: no such keys. */
    const struct snic_ebs_sec_ops *sec;
    void *server_secret;
    void *client_secret;
    void *server_wire[VOLFIX_SERVERS][2];
    void *client_wire[2];
    /* Instead of server_secret; the account of clients that start; what rights() answers. */
    void *(*secret_of)(void *ctx, uint32_t key_id, uint32_t account);
    uint32_t account;
    uint32_t rights;
    uint32_t rights_account; /* that was asked for last */
    uint64_t rights_disk;
    /* Servers that start want tokens, of these keys; clients that start get one, which has
       the disk, their lease and account, `token_rights` (0: no token) and that it is good for
       token_seconds; another one when a server accepts it no more. */
    void *(*token_key)(void *ctx, uint32_t key_id);
    uint32_t tokens_max;
    uint32_t token_key_id; /* that they are signed with; 0: the client has none */
    uint32_t token_rights;
    uint64_t token_seconds;
    uint64_t unix_later;     /* seconds that have passed beside those of the world */
    uint32_t token_requests; /* times that another one was wanted */
    int token_mute;          /* then it is not given */
    void *xts_key;
    uint64_t deadline_ns;                      /* of clients that start; 0: the default */
    uint64_t slow_ns, suspect_ns, progress_ns; /* likewise */
    int small;         /* servers that start have the least of all, and a place for one client */
    uint64_t error_ns; /* likewise */
    uint32_t servers;
    uint32_t epoch; /* of the lease */
    uint64_t seed;
    struct snic_rng rng;
    struct volfix_server server[VOLFIX_SERVERS];
    struct volfix_place place[VOLFIX_SEGMENTS];
    struct snic_loop *loop;
    struct snic_net *net;
    struct snic_volume *v; /* NULL: dead */
    void *mem;
    struct snic_io *io;
    uint32_t maps, leases, suspects, slow;
    uint64_t again; /* blocks that clients now dead sent again */
    int mute;       /* map() is not answered */
    /* client */
    struct volfix_io ios[VOLFIX_DEPTH];
    uint32_t inflight;
    uint64_t stamps;
    uint64_t done, failed;
    uint64_t begun, wanted;
    struct volfix_block block[VOLFIX_BLOCKS];
    char why[256];
};

void volfix_start(struct volfix *f, uint32_t transport, uint64_t seed, uint32_t servers);
void volfix_end(struct volfix *f);
/* 0: it serves; else the result of opened(). */
int volfix_server_start(struct volfix *f, uint32_t server);
/* Power fails there: what was not durable is gone as @p seed has it. */
void volfix_server_kill(struct volfix *f, uint32_t server, uint64_t seed);
/* Orderly. */
void volfix_server_stop(struct volfix *f, uint32_t server);
/* With the next lease: all generations are raised first, as a control plane would. */
void volfix_client_start(struct volfix *f);
/* A crash: what is in flight may or may not have happened. */
void volfix_client_kill(struct volfix *f);
/* Give the client a token: by its opts; @p t signed with @p key. */
void volfix_token(struct volfix *f);
void volfix_token_is(struct volfix *f, const struct snic_ebs_token *t, void *key);
uint64_t volfix_unix(const struct volfix *f);
/* All that the server has is at home, and no memory of it is left in its log. */
void volfix_settle_home(struct volfix *f, uint32_t server);
void volfix_segment_create(struct volfix *f, uint32_t server, uint32_t segment, uint32_t gen);

/* One request to a server's store, until it is done. */
int volfix_store(struct volfix *f, uint32_t server, struct snic_segments_req *q);
/* One request to the disk; its result. */
int64_t volfix_io(struct volfix *f, uint32_t op, uint64_t offset, uint64_t length, void *data);
/* What each block of a segment is, into 4096 bytes; the result. */
int64_t volfix_states(struct volfix *f, uint64_t segment, void *data);
/* What both transports count. */
uint64_t volfix_blocks_written(struct volfix *f);
uint64_t volfix_again(struct volfix *f);
void volfix_run(struct volfix *f, uint64_t ns);
/* The client: @p ios more I/Os, begun as others end. */
void volfix_load(struct volfix *f, uint64_t ios);
/* Run until all are over; 0, or -1 after @p ns. */
int volfix_settle(struct volfix *f, uint64_t ns);
/* Everything is read: what was acknowledged is there. */
void volfix_audit(struct volfix *f);
void volfix_check(struct volfix *f);

#endif
