/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/**
 * @file ddp_server/node.h
 * One node of a replicated store: its shards, their clients, and the commands that run on keys.
 *
 * A shard is a loop (a thread) with a replica of its own: log file, port, membership. A connection
 * belongs to the loop that accepted it, its home; a command runs on the loop of its key's shard.
 *   N1 a request is touched by one loop at a time: it travels in a batch (mail.c), which carries
 * all that one loop had for another in one iteration, by one message. N2 replies leave in the order
 * of the commands: front.c keeps those that are early. N3 commands of one client on one key take
 * effect in their order: what would have to wait while a later one does not holds its key
 * (request.c). N4 what a client makes the node hold is bounded: commands under way by a window of
 * bytes (client.c), replies by front_limit.c.
 */
#ifndef DS_NODE_H
#define DS_NODE_H

#include "../resp/framing.h"
#include "../resp/reply.h"
#include "../resp/settings.h"
#include "../server/front.h"
#include "snicstore.h"

#include <pthread.h>

#define DS_SHARDS_MAX 64u
#define DS_NODES_MAX SNIC_MEMBER_NODES_MAX
#define DS_KEY_MAX 1024u
#define DS_NAME_MAX 64u

struct ds_node;
struct ds_shard;
struct ds_request;
struct ds_command;

/* ---- Options ---- */

struct ds_config {
    struct ex_server
        server; /**< listen, conns_max, timeout_s, spin_us, stats, metrics, directory */
    struct resp_settings settings;
    uint64_t node;
    uint64_t shards;
    uint64_t cluster;
    const char *peers;
    uint64_t witness; /**< number of a node, or UINT64_MAX */
    int found;
    uint64_t log_bytes;
    uint64_t keys_max;
    uint64_t memory;
    uint64_t value_max;
    uint64_t message_max;
    struct snic_net_addr
        addrs[DS_NODES_MAX]; /**< of shard 0; those of others are on the next ports */
    uint32_t nodes;
};

/* ---- Clients ---- */

/** A connection, at its home. */
struct ds_client {
    uint64_t id; /**< 0: free */
    int auth;
    int resp3;
    int silent; /**< CLIENT REPLY OFF */
    int skip;   /**< CLIENT REPLY SKIP: this command's */
    int skip_next;
    int closing; /**< QUIT: nothing behind it is run */
    uint32_t under_way;
    uint64_t bytes;       /**< of the commands under way */
    uint64_t reply_bytes; /**< what a reply is expected to take (N4) */
    uint64_t created_ns;
    uint64_t used_ns;
    const struct ds_command *last;
    char name[DS_NAME_MAX];
};

#define DS_CALL_SILENT 0x100u /**< no reply to this one */
#define DS_CALL_LOUD 0x200u   /**< a reply, although replies are off */

/** A command that is answered at once, at its client's home. */
struct ds_call {
    struct ds_shard *shard;
    struct ds_client *client;
    const struct ds_command *command;
    const struct resp_arg *argv;
    uint32_t argc;
    uint32_t flags; /**< EX_FRONT_CLOSE, DS_CALL_* */
    struct resp_reply *reply;
};

/* ---- Requests: commands on keys ---- */

/** What a key holds. */
struct ds_value {
    int present;
    uint32_t size;
    const unsigned char *data; /**< borrowed */
    uint64_t version;
};

/** What a command does after it has seen the value. */
enum ds_verdict {
    DS_REPLY, /**< nothing: the reply is put */
    DS_PUT,   /**< write r->out, if the key still holds what was seen; then send the reply */
    DS_DELETE /**< likewise */
};

struct ds_request {
    struct ds_request *next;              /* in a batch, or waiting for its key */
    void (*arrive)(struct ds_request *r); /* behind the batch */
    void (*answer)(struct ds_request *r); /* at home, when the reply is put */
    struct ds_shard *home;
    struct ds_shard *shard; /* of the key */
    uint64_t client;
    uint64_t seq;
    const struct ds_command *command;
    struct resp_arg *argv;
    uint32_t argc;
    uint32_t size;   /* of the arguments */
    uint64_t window; /* what it counts in its client's window (N4) */
    struct resp_reply reply;
    int silent;
    /* At the shard. */
    struct snic_ddp_key hash;
    struct resp_arg key;
    struct snic_replica_op op;
    int blind;             /* the write does not depend on the value */
    int deletes;           /* the blind write is a deletion */
    int holds;             /* N3: others on its key wait in `waiting` */
    struct snic_link link; /* on shard->held, or shard->retry */
    struct snic_link retry;
    struct ds_request *waiting;
    struct ds_request *waiting_last;
    unsigned char *out; /* what it writes: an envelope (request.c) */
    uint32_t out_size;
    uint32_t out_room;
    uint64_t waits_since_ns; /* on shard->retry since then; 0: it is not */
    /* Of several keys: one request for each, below the one that is answered. */
    struct ds_request *parent;
    struct ds_request **parts;
    uint32_t parts_count;
    uint32_t parts_left;
    int64_t number; /* what a part adds to the sum */
    int error;      /* the part's reply is an error */
};

enum ds_kind {
    DS_LOCAL, /**< run(call) */
    DS_KEY,   /**< step(request, value), on the loop of argv[1]'s shard */
    DS_EACH,  /**< likewise for each key from argv[1] on; the reply is their sum, or an array */
    DS_REFUSED
};

enum {
    DS_NO_AUTH = 1, /**< runs before a client has authenticated */
    DS_SUM = 2,     /**< EACH: the reply is the sum of `number` */
    DS_ANY_STATE = 4
};

struct ds_command {
    const char *name; /**< lower case */
    enum ds_kind kind;
    int arity; /**< exact, or minus the least; the name counts */
    uint32_t rules;
    const char *flags; /**< for COMMAND */
    void (*run)(struct ds_call *c);
    /** Take the arguments, and set r->blind and r->out where the value does not matter. 0, or the
     * error is put. May be NULL. */
    int (*parse)(struct ds_request *r);
    enum ds_verdict (*step)(struct ds_request *r, const struct ds_value *v);
    const char *reason; /**< REFUSED: why */
};

/* ---- Shards ---- */

#define DS_HELD_LISTS 256u

struct ds_batch;

/** Requests on their way to another loop. */
struct ds_mail {
    struct ds_request *first;
    struct ds_request *last;
};

struct ds_shard {
    struct ds_node *node;
    uint32_t index;
    pthread_t thread;
    struct snic_loop *loop;
    struct snic_net *net;
    struct snic_io *log;
    struct snic_replica *replica;
    void *memory;
    struct ex_front *front;
    struct resp_framing framing;
    struct ds_client *clients;
    struct ds_mail mail[DS_SHARDS_MAX];
    struct snic_loop_msg flush;
    int flush_queued;
    struct snic_loop_msg stop;
    struct snic_loop_msg drain;
    int drained;
    struct resp_reply reply; /* of the command that runs */
    struct resp_arg *args;
    uint32_t args_room;
    unsigned char *scratch;
    size_t scratch_room;
    struct snic_link held[DS_HELD_LISTS];
    struct snic_link retry;
    struct snic_timer retry_timer;
    int retry_armed;
    uint64_t bytes; /* of the commands of all clients that are under way */
    int served;     /* as the log has it */
    uint32_t epoch; /* likewise */
    int stopped;
    uint64_t commands;
};

struct ds_node {
    const struct ds_config *config;
    struct ds_shard *shards;
    uint32_t count;
    unsigned char hash_key[2][16];
    struct snic_loop_msg signal;
    pthread_barrier_t closing;
    _Atomic uint32_t undrained;
    int draining;
};

/* ---- shard.c ---- */

void ds_shard_open(struct ds_shard *s);
void ds_shard_close(struct ds_shard *s);

/* ---- state.c ---- */

/** What the node is doing: "serves". */
const char *ds_state_name(const struct snic_replica_stats *i);
/** The error line of a node that does not serve. */
void ds_state_put(struct ds_shard *s, struct resp_reply *reply);

/* ---- mail.c ---- */

/** Pass a request to the loop of shard @p to, from that of @p from. */
void ds_mail_send(struct ds_shard *from, struct ds_shard *to, struct ds_request *r);

/* ---- client.c ---- */

void ds_client_listen(struct ds_shard *s, struct snic_net_addr *bound);

/* ---- request.c ---- */

/** @return NULL: out of memory */
struct ds_request *ds_request_new(const struct resp_arg *argv, uint32_t argc);
void ds_request_free(struct ds_request *r);
void ds_request_key(struct ds_node *n, struct ds_request *r, const struct resp_arg *key);
/** Run it, on the loop of its shard; when it has ended it travels home. */
void ds_request_run(struct ds_request *r);
/** Set what it writes. 0, or the error is put. */
int ds_request_out(struct ds_request *r, const void *data, size_t size);
/** Arm the timer below if something waits for room. */
void ds_request_retry_all(struct ds_shard *s);
/** The timer: what found no room is tried again. */
void ds_request_retry(struct snic_timer *t, uint64_t now_ns);

/* ---- commands.c, command_*.c ---- */

const struct ds_command *ds_command_find(const struct resp_arg *name);

/* ---- error.c ---- */

void ds_error(struct resp_reply *r, const char *format, ...) SNIC_PRINTF(2, 3);
void ds_format(struct resp_reply *r, const char *format, ...) SNIC_PRINTF(2, 3);
void ds_put_unknown(struct ds_call *k);
/** The error of an operation. */
void ds_put_failure(struct ds_request *r, int error);

#endif
