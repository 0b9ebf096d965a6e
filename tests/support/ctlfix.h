/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/**
 * A catalog, block servers, clients and an operator in a world: processes that can be killed and
 * begun again, on disks that lose what was not durable. A client session keeps I/Os in flight on
 * each disk and knows what may be read.
 *
 * The oracle. A block holds `value`, or, in doubt, one of `maybe`: writes of unknown outcome,
 * for the client died or lost its lease meanwhile. What is read settles it; from then on only the
 * holder's own writes change it. So a late write of an earlier lease, and one that was acknowledged
 * and is gone, are both seen.
 */
#ifndef SNIC_TESTS_SUPPORT_CTLFIX_H
#define SNIC_TESTS_SUPPORT_CTLFIX_H

#include "snicstore/control.h"

enum {
    CTLFIX_SERVERS = 3,
    CTLFIX_CLIENTS = 2,
    CTLFIX_DISKS = 3,
    CTLFIX_SEGMENTS = 4,
    CTLFIX_BLOCKS = CTLFIX_SEGMENTS * 512,
    CTLFIX_DEPTH = 8,
    CTLFIX_IO_BLOCKS = 24,
    CTLFIX_MAYBE = 24
};
enum { CTLFIX_CTL = 40, CTLFIX_CLIENT = 10, CTLFIX_OPERATOR = 50 };
#define CTLFIX_MS UINT64_C(1000000)

/* Few buffers: the 16 MiB of the default would be initialized at each start of a process. */
extern const struct snic_net_uring_opts ctlfix_net;

struct ctlfix;

struct ctlfix_server {
    struct ctlfix *f;
    uint32_t index;
    struct snic_loop *loop;
    struct snic_net *net;
    struct snic_disk *disk;
    struct snic_io *io;
    struct snic_volume_server *s; /* NULL: dead */
    struct snic_control_agent *agent;
    void *agent_mem;
    uint32_t port; /* less 7000 */
    int opened;
    int result;
    int ready;
    int refused;
    uint32_t lost; /* blocks, as reported to it */
    uint64_t readies;
};

struct ctlfix_io {
    struct snic_io_req req;
    struct ctlfix_handle *g;
    unsigned char *data;
    uint64_t lba;
    uint32_t blocks;
    uint32_t busy;
    uint64_t stamp;
    uint8_t settled[CTLFIX_IO_BLOCKS]; /* of a read: no write of the block since it began */
};

struct ctlfix_block {
    uint64_t value;
    uint64_t flying; /* a write of the holder, 0: none */
    uint64_t coming; /* the value that it writes */
    uint32_t writes; /* begun */
    uint32_t doubts;
    uint64_t maybe[CTLFIX_MAYBE];
};

/* A client's use of a disk. */
struct ctlfix_handle {
    struct ctlfix *f;
    struct ctlfix_client *c;
    uint32_t disk;
    struct snic_io *io; /* NULL: not attached */
    struct ctlfix_io ios[CTLFIX_DEPTH];
    uint32_t inflight;
    uint64_t begun, wanted, done, failed;
    uint32_t attach; /* outstanding */
    int result;      /* of the last attach */
    int lost;        /* reason */
    uint32_t vd;
    uint32_t lease;
    uint64_t key[2]; /* from the grant, or the refusal */
    uint32_t qos;
    uint64_t rate; /* from the last qos event */
};

struct ctlfix_client {
    struct ctlfix *f;
    uint32_t index;
    struct snic_loop *loop;
    struct snic_net *net;
    struct snic_volume *v;          /* NULL: dead */
    struct snic_control_client *cc; /* */
    void *cc_mem;
    struct ctlfix_handle handle[CTLFIX_DISKS];
    uint32_t lookups_failed;
    uint32_t links;
    int refused; /* by the catalog, last */
};

struct ctlfix {
    struct snic_world *world;
    struct snic_net_fabric *fabric;
    struct snic_rng rng;
    uint64_t seed;
    uint32_t servers;
    uint32_t epochs;
    struct ctlfix_server server[CTLFIX_SERVERS];
    struct ctlfix_client client[CTLFIX_CLIENTS];
    /* the catalog */
    struct snic_loop *loop;
    struct snic_net *net;
    struct snic_disk *disk;
    struct snic_io *io;
    struct snic_control *ctl; /* NULL: dead */
    void *ctl_mem;
    int opened;
    int result;
    int failed;
    uint32_t events[16];
    uint64_t event_value[16];
    int event_error[16];
    uint64_t key[2];       /* of disks that are created, and of clients that attach */
    uint32_t segments_max; /* of the catalog */
    uint32_t sessions_max; /* likewise; 0: 16 */
    uint32_t ops_max;      /* likewise; 0: 32 */
    int strict;            /* what is written without the lease never lands */
    uint32_t transport;    /* of clients that are started */
    uint32_t lookups_max;  /* likewise */
    uint32_t servers_max;  /* likewise */
    /* With keys: all processes prove their identity, client i is account i + 1, and servers want
       tokens. The fields below hold from then on, for all that look it up. */
    int keys;
    uint32_t gone;    /* accounts, as bits, that have no secret any more */
    uint32_t sign;    /* the number of the key that the catalog signs with; 0: it cannot */
    uint32_t known;   /* the numbers of those that servers have, as bits */
    uint64_t seconds; /* that a token is good for */
    uint64_t unix_later;
    uint32_t rights[CTLFIX_CLIENTS + 1]; /* by account */
    uint32_t only[CTLFIX_CLIENTS + 1];   /* on this disk alone; 0: on all */
    uint32_t token_requests;
    struct snic_control_auth auth_ctl, auth_store, auth_operator, auth_client[CTLFIX_CLIENTS];
    /* the operator */
    struct snic_loop *op_loop;
    struct snic_net *op_net;
    struct snic_control_operator *call;
    void *call_mem;
    int call_done;
    int call_status;
    uint64_t call_value;
    uint32_t items;
    struct snic_control_msg last;
    /* the oracle */
    struct ctlfix_handle *holder[CTLFIX_DISKS];
    uint64_t stamps;
    struct ctlfix_block block[CTLFIX_DISKS][CTLFIX_BLOCKS];
    char why[256];
};

void ctlfix_start(struct ctlfix *f, uint64_t seed, uint32_t servers);
void ctlfix_start_keys(struct ctlfix *f, uint64_t seed, uint32_t servers);
/* The secret of an account, and a signing key, by number. */
void *ctlfix_secret(uint32_t account);
void *ctlfix_sign_key(uint32_t number);
uint64_t ctlfix_unix(const struct ctlfix *f);
void ctlfix_volume_keys(struct ctlfix *f, struct snic_volume_opts *o, uint32_t client);
void ctlfix_end(struct ctlfix *f);
/* 0: it serves; else the result of opened(). */
int ctlfix_ctl_start(struct ctlfix *f);
void ctlfix_ctl_kill(struct ctlfix *f, uint64_t seed);
void ctlfix_server_start(struct ctlfix *f, uint32_t server);
void ctlfix_server_kill(struct ctlfix *f, uint32_t server, uint64_t seed);
/* The servers that are alive are READY. */
void ctlfix_ready(struct ctlfix *f);
void ctlfix_client_start(struct ctlfix *f, uint32_t client);
void ctlfix_client_kill(struct ctlfix *f, uint32_t client);

const char *ctlfix_name(uint32_t disk);
/* Execute an operator's request. @return its status */
int ctlfix_request(struct ctlfix *f, const struct snic_control_msg *m);
/* Send it; call_done is set when it ends. */
void ctlfix_request_begin(struct ctlfix *f, const struct snic_control_msg *m);
int ctlfix_create(struct ctlfix *f, uint32_t disk);
void ctlfix_move_msg(struct snic_control_msg *m, uint32_t disk, uint64_t segment, uint32_t server);
int ctlfix_move(struct ctlfix *f, uint32_t disk, uint64_t segment, uint32_t server);
/* The server's number in the catalog. */
uint32_t ctlfix_id(const struct ctlfix *f, uint32_t server);

void ctlfix_attach_begin(struct ctlfix *f, uint32_t client, uint32_t disk, uint32_t flags);
int ctlfix_attach(struct ctlfix *f, uint32_t client, uint32_t disk, uint32_t flags);
/* Execute one I/O. */
int64_t ctlfix_io(struct ctlfix *f, uint32_t client, uint32_t disk, uint32_t op, uint64_t offset,
                  uint64_t length, void *data);
void ctlfix_load(struct ctlfix *f, uint32_t client, uint32_t disk, uint64_t ios);
/* Run until all client sessions are idle; 0, or -1 after @p ns. */
int ctlfix_settle(struct ctlfix *f, uint64_t ns);
void ctlfix_run(struct ctlfix *f, uint64_t ns);
/* All blocks of the disk are read by its holder. */
void ctlfix_audit(struct ctlfix *f, uint32_t disk);
void ctlfix_check(struct ctlfix *f);

#endif
