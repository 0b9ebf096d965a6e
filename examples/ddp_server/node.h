/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/**
 * @file ddp_server/node.h
 * One node of a replicated store: its shards, their clients, and the commands that run on keys.
 *
 * A shard is a loop (a thread) with a replica of its own: log file, port, membership. A connection
 * belongs to the loop that accepted it, its home; a command runs on the loop of its key's shard.
 *
 *  - N1: a request is touched by one loop at a time. It travels in a batch (mail.c), which carries
 *    all that one loop had for another in one iteration, by one message.
 *  - N2: replies leave in the order of the commands; front.c keeps those that are early.
 *  - N3: commands of one client on one key take effect in their order: a command that has to wait
 *    while a later one need not holds its key (request.c).
 *  - N4: what a client makes the node hold is bounded: commands under way by a window of bytes
 *    (dispatch.c), replies by front_limit.c.
 *  - N5: a request that takes too long is answered by a copy of it (request.c).
 *  - N6: what one iteration of a loop copies is bounded, of all requests together: a loop that is
 *    late loses its lease. What is left follows in the next one, in its order (mail.c).
 */
#ifndef DS_NODE_H
#define DS_NODE_H

#include "../resp/arguments.h"
#include "../resp/framing.h"
#include "../resp/session.h"
#include "../resp/settings.h"
#include "../server/front.h"
#include "../server/memory.h"
#include "snicstore.h"

#include <pthread.h>

#define DS_SHARDS_MAX 64u
#define DS_NODES_MAX SNIC_MEMBER_NODES_MAX
#define DS_KEY_MAX ((uint32_t)SNIC_STORE_KEY_MAX)
#define DS_VALUE_LEAST 1024u /**< bytes of --value-max */
#define DS_VALUE_MOST ((uint64_t)SNIC_STORE_VALUE_MAX)
#define DS_NAME_MAX 64u
#define DS_LOG_LEAST (64 << 20) /**< bytes of --log-size */
#define DS_INFO_COUNTERS 12u
/** The longest TTL: a hundred years. */
#define DS_TTL_MAX_MS UINT64_C(3155760000000)

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
    uint64_t timeout_s; /**< of a request */
    struct snic_net_addr
        addrs[DS_NODES_MAX]; /**< of shard 0; those of others are on the next ports */
    uint32_t nodes;
    const char *clients_text;
    char clients[DS_NODES_MAX][64]; /**< addresses of the nodes for clients, for STORE NODES */
    uint32_t clients_count;
    uint64_t min_full;
    int exposed; /**< other machines reach it, and protected mode holds: a password is needed */
    const char *key_file;
    unsigned char key[32]; /**< of the cluster; of key_file */
};

/* ---- Clients ---- */

/** What answers mean: of a connection, and of a command of it. */
struct ds_how {
    uint8_t durability; /**< of writes, enum snic_ddp_durability                               */
    uint8_t reads;      /**< what reads may return, likewise                                   */
    uint8_t confirm;    /**< reads are confirmed by a majority                                 */
    uint8_t pad;
    uint16_t copies; /**< fewest FULL copies of a write; 0: min_full                        */
};

/** A connection, at its home. */
struct ds_client {
    uint64_t id; /**< 0: free */
    int auth;
    int admin; /**< has proved the cluster's key */
    int resp3;
    int silent; /**< CLIENT REPLY OFF */
    int skip;   /**< CLIENT REPLY SKIP: this command's */
    int skip_next;
    int closing; /**< QUIT: nothing behind it is run */
    int multi;   /**< MULTI was refused: nothing is run up to its EXEC */
    int no_evict;
    struct ds_how how;
    uint32_t under_way;
    uint64_t bytes;       /**< of the commands under way */
    uint64_t reply_bytes; /**< what a reply is expected to take (N4) */
    uint64_t created_ns;
    uint64_t used_ns;
    uint64_t scope;          /**< number of its scope: each SCOPE SYNC begins another */
    uint64_t scope_shards;   /**< where it may have written something, bit by shard */
    unsigned char nonce[16]; /**< of ADMIN CHALLENGE */
    int challenged;
    struct snic_link watches;
    uint32_t watches_count;
    int64_t watch_ids;
    const struct ds_command *last;
    char name[DS_NAME_MAX];
    char lib_name[DS_NAME_MAX];
    char lib_version[DS_NAME_MAX];
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
    struct ds_how how; /**< of this command */
    uint32_t flags;    /**< EX_FRONT_CLOSE, DS_CALL_* */
    struct resp_reply *reply;
};

/* ---- Requests: commands on keys ---- */

/** What a key holds, and what it is to hold. */
struct ds_value {
    int present;
    uint32_t size;
    const unsigned char *data; /**< borrowed */
    uint64_t version;
    uint64_t ttl_ns; /**< what is left; 0: no end */
    /* Of a command that writes: */
    unsigned char *room; /**< value_max bytes, to make the new value in */
    const void *put;     /**< DS_PUT: the new value; may be room, data or an argument */
    uint32_t put_size;
    int keep_ttl;
    uint64_t put_ttl_ns; /**< 0: no end */
};

/** What a command does after it has looked at the value. */
enum ds_verdict {
    DS_REPLY, /**< nothing: the reply is put */
    DS_PUT,   /**< write v->put, if the key still holds what was seen; then send the reply */
    DS_DELETE /**< likewise */
};

struct ds_restore {
    int replace;
    int absolute;
    int64_t when_ms; /* on the wall clock; 0: no TTL */
};

struct ds_request {
    struct ds_request *next;              /* in a batch, waiting for its key, or N6 */
    struct snic_loop_msg batch;           /* the message, of the first one of a batch */
    struct ds_shard *to;                  /* where the batch goes */
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
    struct ds_how how;
    uint64_t scope;
    uint64_t scope_shards; /* SCOPE SYNC: of the client */
    int silent;
    int admin;
    uint32_t flags; /* of the reply: EX_FRONT_CLOSE */
    /* At the shard. */
    uint64_t hash; /* of the key */
    struct resp_arg key;
    struct snic_store_op op;
    union {
        struct resp_set set;
        struct resp_expire expire;
        struct ds_restore restore;
        int64_t number;
        long double real;
    } u;                    /* the arguments, as parse() took them */
    int64_t now_ms;         /* the wall clock, when it took them */
    int blind;              /* the write does not depend on the value */
    int native;             /* parse() has filled in op whole */
    int holds;              /* N3: others on its key wait in `waiting` */
    struct snic_link link;  /* on shard->held */
    struct snic_link retry; /* on shard->retry */
    struct snic_link timed; /* on shard->timed, in the order of begun_ns (N5) */
    uint64_t begun_ns;
    uint64_t arrived_ns; /* to its home */
    int submitted;       /* the store has op */
    uint32_t late;       /* how often its value was not made for N6 */
    int ghost;           /* answered by a copy */
    struct ds_request *waiting;
    struct ds_request *waiting_last;
    struct ds_scan *scan;
    /* Of several keys: one request for each, below the one that is answered. */
    struct ds_request *parent;
    uint32_t index; /* of the part */
    struct ds_request **parts;
    uint32_t parts_count;
    uint32_t parts_left;
    _Atomic uint64_t values; /* bytes of what its parts have read, on any loop */
    int64_t number;          /* what a part adds to the sum */
    int error;               /* the part's reply is an error */
    int by_parts;            /* the replies of its parts follow `reply` */
};

enum ds_kind {
    DS_LOCAL, /**< run(call) */
    DS_KEY,   /**< step(request, value), on the loop of argv[1]'s shard */
    DS_EACH,  /**< likewise for each key from argv[1] on */
    DS_ALL,   /**< visit(request), on the loop of each shard */
    DS_SHARD, /**< visit(request), on the loop of the shard that route() names */
    DS_REFUSED
};

enum {
    DS_NO_AUTH = 1,  /**< runs before a client has authenticated */
    DS_SUM = 2,      /**< EACH, ALL: the reply is the sum of `number`; else an array, or join() */
    DS_WRITES = 4,   /**< step may return DS_PUT or DS_DELETE */
    DS_FLAT = 8,     /**< ALL: the array has what the parts have, `number` elements each */
    DS_ADMIN = 16,   /**< only for clients that have proved the cluster's key */
    DS_WATCHING = 32 /**< allowed to a client of RESP2 that watches keys */
};

struct ds_command {
    const char *name; /**< lower case */
    enum ds_kind kind;
    int arity;    /**< exact, or minus the least; the name counts */
    uint32_t key; /**< KEY: the argument that is the key */
    uint32_t rules;
    const char *flags; /**< for COMMAND */
    void (*run)(struct ds_call *c);
    /** Take the arguments, and set r->blind and r->op where the value does not matter. 0, or the
     * error is put. May be NULL. */
    int (*parse)(struct ds_request *r);
    enum ds_verdict (*step)(struct ds_request *r, struct ds_value *v);
    /** Put the reply to r->op, which parse() had filled in, whatever its result. */
    void (*finish)(struct ds_request *r);
    /** Ends with ds_request_end(). */
    void (*visit)(struct ds_request *r);
    /** The reply of several parts; NULL: see rules. */
    void (*join)(struct ds_request *r);
    /** SHARD: the number of the shard; -1 the error is put. */
    int (*route)(struct ds_call *c);
    const char *reason; /**< REFUSED: why */
};

/* ---- Reads of what is at hand ---- */

#define DS_LOOKS 16u
#define DS_LOOKS_BYTES ((uint64_t)256 << 10) /* of the replies of those that wait, about */
#define DS_LOOK_ARGS 4u
#define DS_LOOK_BYTES 256u

/** One that waits for others; look.c. */
struct ds_look {
    uint64_t client;
    uint64_t seq;
    const struct ds_command *command;
    struct ds_how how;
    int silent;
    uint32_t argc;
    struct resp_arg argv[DS_LOOK_ARGS];
    unsigned char bytes[DS_LOOK_BYTES];
};

/* ---- Shards ---- */

/** What a shard that does not serve yet is doing, of which it reports progress. */
enum { DS_PHASE_NONE, DS_PHASE_READS, DS_PHASE_LEARNS };

#define DS_HELD_LISTS 256u

/** Requests on their way to another loop. */
struct ds_mail {
    struct ds_request *first;
    struct ds_request *last;
};

/** A shard's state as of its last publication, for the loops of others. */
struct ds_snapshot {
    struct snic_replica_stats replica;
    struct snic_replica_peer_stats peers[DS_NODES_MAX];
    struct snic_store_stats store;
    struct ex_front_stats front;
    uint64_t quantiles[SNIC_STORE_CLASSES][SNIC_STORE_DURABILITIES][3]; /* p50, p99, count */
    uint64_t commands;
    uint64_t errors;
    uint64_t clients;
    uint64_t auth_failures;
    uint64_t query_limit;
    uint64_t turn_most;
};

struct ds_shard {
    struct ds_node *node;
    uint32_t index;
    pthread_t thread;
    struct snic_loop *loop;
    struct snic_net *net;
    struct snic_io *log;
    struct snic_store *store;
    struct ex_memory memory;
    void *secret; /* of the cluster's key, for mac(); NULL: none */
    void *gcm;
    struct ex_front *front;
    struct resp_framing framing;
    struct ds_client *clients;
    struct ds_mail mail[DS_SHARDS_MAX];
    struct snic_loop_msg flush;
    int flush_queued;
    struct snic_loop_msg stop;
    struct snic_loop_msg drain;
    struct snic_loop_msg settings; /* CONFIG SET has changed them */
    _Atomic int settings_queued;
    int64_t slow_us;         /* slowlog-log-slower-than */
    struct resp_reply reply; /* of the command that runs */
    struct ds_look looks[DS_LOOKS];
    uint32_t looks_count;
    uint64_t looks_bytes;
    struct ds_request shown; /* of a read that needs no request */
    struct resp_arg *args;
    uint32_t args_room;
    unsigned char *scratch;
    size_t scratch_room;
    struct snic_link held[DS_HELD_LISTS];
    uint32_t holding; /* requests in these */
    struct snic_link retry;
    struct snic_link timed;
    struct snic_timer retry_timer;
    int retry_armed;
    struct ds_scopes *scopes;
    struct ds_cursors *cursors;
    uint64_t scan_ns; /* iteration that scan_work is of; command_scan.c */
    uint64_t scan_work;
    _Atomic uint32_t watches; /* of the shard; watch.c */
    struct snic_link watch_later;
    struct snic_timer watch_turn;
    uint64_t turn_ns; /* the iteration that turn_bytes is of: N6; mail.c */
    uint64_t turn_bytes;
    uint64_t turn_most; /* bytes of any iteration so far */
    uint64_t turn_late; /* the iteration in which `later` was run last */
    struct ds_request *later;
    struct ds_request *later_last;
    struct snic_timer turn_timer;
    struct snic_link watch_waits;
    struct snic_timer watch_timer;
    int watch_armed;
    struct snic_timer publish;
    uint64_t bytes; /* of the commands of all clients that are under way */
    /* What was logged last, so that only changes are. */
    int served;
    int replaced;
    uint32_t epoch;
    uint32_t phase;                     /* DS_PHASE_* */
    const char *refusals[DS_NODES_MAX]; /* of peers */
    uint64_t learned;                   /* keys */
    uint64_t reported_ns;               /* when */
    int stopped;
    uint64_t commands;
    uint64_t errors; /* of commands on keys */
    uint64_t auth_failures;
    uint64_t random;
    pthread_mutex_t lock; /* of snapshot */
    struct ds_snapshot snapshot;
};

struct ds_node {
    struct ds_config *config;
    struct ds_shard *shards;
    uint32_t count;
    const struct ds_command *commands;
    uint32_t commands_count;
    unsigned char hash_key[16];
    pthread_barrier_t opening; /* no loop runs before the port is open */
    pthread_barrier_t closing;
    pthread_mutex_t lock;  /* of config->settings, and of counted */
    struct snic_link slow; /* SLOWLOG, and the next two: slow.c; lock */
    uint64_t slow_count;
    int64_t slow_id;
    uint64_t counted[DS_INFO_COUNTERS]; /* by CONFIG RESETSTAT: INFO counts from there; lock */
    _Atomic uint32_t undrained;
    _Atomic int draining;
    uint64_t started_ns;
    struct ex_stats *stats;
};

/* ---- identity.c ---- */

/** Is the directory this node's? A new one becomes it; exits with a clear line when it is not. */
void ds_identity_check(const struct ds_config *c);

/* ---- shard.c ---- */

void ds_shard_open(struct ds_shard *s);
/** Its part without doors and store: for tests that open these themselves. */
void ds_shard_prepare(struct ds_shard *s);
void ds_shard_close(struct ds_shard *s);

/* ---- state.c ---- */

/** What @p node, whose figures these and of whose peers those are, is doing: "serves". */
const char *ds_state_name(const struct snic_replica_stats *i,
                          const struct snic_replica_peer_stats *peers, uint64_t node);
#define DS_WAITS_MAX 192u /**< bytes of what a shard waits for */
/** What it waits for before it serves: "for node 2 to send ..."; "": nothing, or not known. */
void ds_state_waits(const struct ds_snapshot *n, uint64_t node, char *out, size_t max);
/** Log what is refused between the node and others, once for each change; of the snapshot. */
void ds_state_refusals(struct ds_shard *s);
/** How much a learner has compared; 0 before the log is open, 100 for others. */
uint32_t ds_learned_percent(const struct snic_replica_stats *i);
/** Log progress of the last snapshot; from the shard's loop. */
void ds_state_progress(struct ds_shard *s, uint64_t now_ns);
/** The error of an operation. */
void ds_put_failure(struct ds_request *r, int error);
/** Where clients reach a node of the configuration in force. @return NULL: not known */
const char *ds_state_client(const struct ds_config *c, const struct snic_member_view *v,
                            uint32_t node, char text[64]);
/** Publish the shard's snapshot; from its loop. */
void ds_state_publish(struct ds_shard *s);
/** Stop accepting, answer what is under way, stop the node. [any thread] */
void ds_node_drain(struct ds_node *n);
/** CONFIG SET has changed settings. [any thread] */
void ds_settings_changed(struct ds_shard *s);
/** A copy of a shard's snapshot. [any thread] */
void ds_state_get(struct ds_shard *s, struct ds_snapshot *out);

/* ---- metrics.c ---- */

/** For ex_stats_start(); ctx is the node. */
size_t ds_metrics(void *ctx, struct ex_metric *out);

/* ---- mail.c ---- */

/** Pass a request to the loop of shard @p to, from that of @p from; r->arrive(r) runs there. */
void ds_mail_send(struct ds_shard *from, struct ds_shard *to, struct ds_request *r);

/* N6, all from the shard's loop. */

/** So many bytes were copied in this iteration. */
void ds_turn_spend(struct ds_shard *s, uint64_t bytes);
/** May more be copied in it? */
int ds_turn_room(struct ds_shard *s);
/** r->arrive(r), now or in a later iteration, behind all others that are left for it. */
void ds_turn_take(struct ds_shard *s, struct ds_request *r);
/** In a later iteration, behind all others. */
void ds_turn_later(struct ds_shard *s, struct ds_request *r);
/** The list from @p first to @p last in a later iteration, in front of all others. */
void ds_turn_first(struct ds_shard *s, struct ds_request *first, struct ds_request *last);
/** The timer. */
void ds_turn_fire(struct snic_timer *t, uint64_t now_ns);

/* ---- listen.c ---- */

/** Opens the clients' port at every loop, before any runs. Exits with a clear line when it is not
 * free. */
void ds_node_listen(struct ds_node *n);

/* ---- client.c ---- */

/** Open the clients' port at a shard's loop; *bound is where. Exits with a clear line if it cannot.
 */
void ds_client_listen(struct ds_shard *s, struct snic_net_addr *bound);

/* ---- dispatch.c ---- */

/** The client of that number. @return NULL: it has gone */
struct ds_client *ds_client_find(struct ds_shard *s, uint64_t id);
/** Send the reply to a client's command. */
void ds_client_send(struct ds_shard *s, uint64_t client, uint64_t seq,
                    const struct resp_reply *reply, int silent, uint32_t flags);
/** Empty it, for a reply to @p c. */
void ds_reply_begin(struct resp_reply *r, const struct ds_client *c);
/** Send k->reply, of a read that needed no request. */
void ds_client_reply(struct ds_call *k, uint64_t seq);
/** Is the client not to be read from (N4)? */
int ds_client_full(const struct ds_shard *s, const struct ds_client *c);
/** Is a command of @p size bytes to wait, for so much is under way (N4)? */
int ds_client_late(const struct ds_shard *s, uint64_t size);
/** The client begins another scope, or has gone, without SCOPE SYNC. */
void ds_client_leave_scope(struct ds_shard *s, struct ds_client *c);
/** A command for the shards. @return 1: the client is not read from until it is answered */
int ds_client_begin(struct ds_call *k, uint64_t seq);

/* ---- look.c ---- */

/** @return 1: it is a read that ds_looks_run() answers; 0: nothing was done */
int ds_look_take(struct ds_call *k, uint64_t seq);
/** Answer those that wait. */
void ds_looks_run(struct ds_shard *s);

/* ---- request.c ---- */

/** @return NULL: out of memory */
struct ds_request *ds_request_new(const struct resp_arg *argv, uint32_t argc);
void ds_request_free(struct ds_request *r);
void ds_request_key(struct ds_node *n, struct ds_request *r, const struct resp_arg *key);
/** The shard of a key. */
struct ds_shard *ds_key_shard(struct ds_node *n, const struct resp_arg *key, uint64_t *hash);
/** Do these reads return what is at hand? */
int ds_how_plain(const struct ds_how *how);
/** Does a request hold the key (N3)? */
int ds_request_held(struct ds_shard *s, const struct resp_arg *key);
/** The reply of a command that only reads, into shown.reply of its shard, which may borrow the
 * value of @p e; NULL: the key holds nothing. */
void ds_request_show(struct ds_call *k, const struct snic_store_entry *e);
/** Submit r->op, which is filled in; again, where there is no room. */
void ds_request_submit(struct ds_request *r);
/** The reply is put: send it home. */
void ds_request_end(struct ds_request *r);
/** Answer what is too late. */
void ds_request_expire(struct ds_shard *s, uint64_t now_ns);
/** The timer: what found no room is tried again. */
void ds_request_retry(struct snic_timer *t, uint64_t now_ns);

/* ---- slow.c ---- */

void ds_slow_init(struct ds_node *n);
void ds_slow_free(struct ds_node *n);
/** A request is answered: was it slow? */
void ds_slow_note(struct ds_shard *s, const struct ds_client *c, const struct ds_request *r);

/* ---- scope.c ---- */

/** The number of a client's scope at this shard, a new one if there is none; 0: there is no room.
 */
uint64_t ds_scope_get(struct ds_shard *s, uint64_t home, uint64_t client, uint64_t scope);
/** Forget it. @return the number, 0: there is none */
uint64_t ds_scope_take(struct ds_shard *s, uint64_t home, uint64_t client, uint64_t scope);
/** Its client has left it without SCOPE SYNC; @p later: commands of it may still be under way. */
void ds_scope_left(struct ds_shard *s, uint64_t home, uint64_t client, uint64_t scope, int later);
/** The shard's publication: scopes that their clients have left. */
void ds_scope_expire(struct ds_shard *s, uint64_t now_ns);

/* ---- commands.c, command_*.c ---- */

/** The table. */
const struct ds_command *ds_command_table(uint32_t *count);
/** The subcommand of @p m that is a command of its own, or @p m. */
const struct ds_command *ds_command_sub(const struct ds_command *m, const struct resp_arg *argv,
                                        uint32_t argc);

/* ---- error.c ---- */

void ds_error(struct resp_reply *r, const char *format, ...) SNIC_PRINTF(2, 3);
void ds_format(struct resp_reply *r, const char *format, ...) SNIC_PRINTF(2, 3);
void ds_put_text(struct resp_reply *r, const char *text);
const struct ds_command *ds_command_find(const struct ds_node *n, const struct resp_arg *name);
void ds_put_unknown(struct ds_call *k);
/** There is no such subcommand, or its arguments are too few or many. */
void ds_put_unknown_sub(struct ds_call *k);
int64_t ds_wall_ms(void);

#endif
