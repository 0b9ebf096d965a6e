/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/**
 * @file kv_server/engine_priv.h
 * What engine.c and the command files share.
 *
 * A command function is run with a whole message and either answers at once
 * (KV_DONE: the reply is in the engine's output buffer), or starts a read and is
 * answered later (KV_LATER), or could not run now and is run again from its start
 * (KV_AGAIN: no room in the log; KV_FETCH: the value it modifies is on its way
 * from the device, and later messages of this client wait).
 */
#ifndef KV_ENGINE_PRIV_H
#define KV_ENGINE_PRIV_H

#include "../resp/arguments.h"
#include "../resp/session.h"
#include "store.h"
#include "word.h"

/** Replies waiting for room above; beyond this, commands wait too. */
#define KV_OUT_LIMIT (32u << 20)
#define KV_CLIENT_NAME_MAX 256
#define KV_ARGS_INLINE 64
/** Arguments and bytes of a reply that there is memory for while no command runs. */
#define KV_ARGS_KEEP 65536u
#define KV_BUFFER_KEEP (16u << 20)
/** CLIENT SETINFO. */
#define KV_CLIENT_LIB_MAX 64
/** Values from the device that a transaction collects before it begins. */
#define KV_PREFETCH_MAX (64u << 20)
/** Values of GET and MGET that are being collected; beyond it the next of them wait. */
#define KV_READING_MAX (64u << 20)
/** A write waits so long for space on a full device, and is answered with an error then. */
#define KV_SPACE_NS 10000000000u
/** Of kv_answer() only: the client has switched replies off. */
#define KV_REPLY_SILENT 0x100u

enum kv_outcome { KV_DONE, KV_LATER, KV_AGAIN, KV_FETCH };

/** A message that waits for its turn; its bytes follow. */
struct kv_message {
    struct kv_message *next;
    uint64_t seq;
    size_t size;
    unsigned char data[];
};

/** A value from the device that the client's command waited for; its bytes follow. */
struct kv_fetched {
    struct kv_fetched *next;
    uint64_t version;
    uint32_t size;
    int error; /* SNIC_E* of the read */
    unsigned char value[];
};

/** What a command that is run again waits for. */
enum kv_wait {
    KV_WAIT_TURN = 1,  /* an EXEC, or room for replies: KV_OUT_LIMIT     */
    KV_WAIT_READS = 2, /* KV_READING_MAX                                 */
    KV_WAIT_LOG = 4,   /* that the log is written                        */
    KV_WAIT_SPACE = 8, /* that compaction gives back space on the device */
    KV_WAIT_LARGE = 16 /* that client engine.large has its space         */
};

/** Room that a command asked for with kv_command_room() and did not find. */
struct kv_need {
    uint64_t bytes; /* 0: none */
    uint64_t record;
    int deletes;
};

struct kv_client {
    struct kv_client *next; /* hash chain */
    uint64_t id;
    uint64_t user;         /* the connection's word: low 16 bits database */
    struct snic_link link; /* on engine.waiting while messages wait for room */
    struct kv_message *first;
    struct kv_message *last;
    enum kv_wait wait;          /* of the first message, which waits                */
    struct kv_need need;        /* likewise                                         */
    uint64_t space_ns;          /* likewise: it waits for space since then; 0: not  */
    uint64_t prefetched;        /* its part of engine.prefetched                    */
    uint32_t fetching;          /* values that a command awaits; nothing else may run */
    struct kv_fetched *fetched; /* what it has got so far, for its next run         */
    struct kv_transaction *tx;  /* NULL: neither MULTI nor WATCH so far             */
    int gone;                   /* closed in the middle of its EXEC, which ends first */
    int killed;                 /* CLIENT KILL: its next message is its last        */
    int no_evict;
    uint64_t created_ns;
    uint64_t used_ns;
    const struct kv_command_spec *last_command;
    char name[KV_CLIENT_NAME_MAX];
    char lib_name[KV_CLIENT_LIB_MAX];
    char lib_version[KV_CLIENT_LIB_MAX];
};

/** Lists of watched keys that were absent. */
#define KV_WATCH_LISTS 1024u

/** A key that WATCH named, and its version then; 0: it was absent. */
struct kv_watch {
    struct kv_watch *next;
    struct snic_link link; /* absent: on a list of engine.absent, by the key's hash */
    uint64_t version;
    int created; /* absent at WATCH, and set since, whether or not it still exists */
    uint32_t database;
    uint32_t size;
    unsigned char key[];
};

struct kv_transaction {
    int open;    /* MULTI came                                                     */
    int failed;  /* a command could not be queued: EXEC does nothing               */
    int running; /* EXEC is under way, and the engine is this client's             */
    int fetched; /* what is on the device and can be known before has been read    */
    uint32_t count;
    uint64_t bytes; /* of the queue, for the limit */
    struct kv_message *first;
    struct kv_message *last;
    struct kv_message *at; /* the next one to run */
    struct kv_watch *watched;
    struct kv_engine *engine;
    int watch_lost; /* a host before this one knew what was watched           */
    char *out;      /* replies of the commands that have run                  */
    size_t out_size;
    size_t out_room;
    int out_lost; /* no memory for them, or beyond the limit                */
    uint64_t need;
    uint32_t flags;
};

/** Something for the layer above, in order: a reply or an invalidation. */
struct kv_out {
    struct kv_out *next;
    int kind;       /* enum kv_out_kind */
    uint32_t flags; /* KV_REPLY_* */
    uint64_t client;
    uint64_t seq;
    uint64_t user;
    uint64_t need; /* held: log address that must be durable first (R9) */
    unsigned char hash[16];
    size_t size;
    char data[];
};
enum kv_out_kind { KV_OUT_REPLY, KV_OUT_INVALIDATE, KV_OUT_INVALIDATE_ALL };

struct kv_out_queue {
    struct kv_out *first;
    struct kv_out *last;
    uint64_t bytes;
};

/** One command being run. */
struct kv_command {
    struct kv_engine *engine;
    struct kv_store *store;
    struct kv_client *client;
    uint64_t seq;
    uint32_t database;
    const struct kv_command_spec *spec;
    struct resp_arg *argv;
    uint32_t argc;
    uint32_t flags; /* KV_REPLY_* of the reply */
    uint64_t need;
    const unsigned char *message;
    size_t message_size;
    int in_exec; /* answer in the engine's buffer: no KV_LATER */
};

enum kv_rule {
    KV_RULE_NO_AUTH = 1,  /* runs before a client has authenticated  */
    KV_RULE_AT_ONCE = 2,  /* runs inside of a transaction at once    */
    KV_RULE_NO_MULTI = 4, /* is refused there                        */
    KV_RULE_EXEC = 8      /* ends a transaction also when it is wrong */
};

struct kv_command_spec {
    const char *name; /* lower case */
    enum kv_outcome (*run)(struct kv_command *c);
    int arity; /* exact, or minus the least; the name counts */
    uint8_t write;
    uint8_t first_key;
    int8_t last_key;
    uint8_t step;
    const char *flags; /* for COMMAND: blank-separated */
    uint8_t rules;     /* of enum kv_rule */
};

struct kv_engine {
    struct kv_engine_opts opts;
    struct kv_store *store;
    struct kv_client **clients;
    uint32_t client_mask;
    uint32_t client_count;
    struct snic_link waiting; /* clients whose first message found no room */
    struct kv_out_queue out;  /* what the layer above had no room for */
    struct kv_out_queue held; /* replies that wait for durability */
    struct resp_reply reply;  /* of the running command */
    struct snic_link *absent; /* KV_WATCH_LISTS lists of watched keys that were absent */
    uint64_t absent_count;
    struct kv_client *exclusive; /* E4: its EXEC is under way              */
    struct kv_client *large;     /* E5: it waits for much room in the log  */
    struct resp_settings settings;
    uint64_t reading;    /* KV_READING_MAX  */
    uint64_t prefetched; /* KV_PREFETCH_MAX */
    struct resp_arg *args;
    uint32_t args_room;
    unsigned char *scratch;
    size_t scratch_room;
    uint64_t started_ns;
    const struct kv_command_spec *commands; /* the table */
    uint32_t commands_count;
    void (*fetched)(struct kv_read *r); /* a value that a command awaits has been read */
    void (*freed)(struct kv_engine *e); /* fewer values are being collected */
    struct kv_slow *slow;               /* slow.c's */
    struct kv_scripts *scripts;         /* command_script.c's */
    uint64_t random;                    /* RANDOMKEY's state */
    uint64_t connections;
    struct kv_engine_stats stats;
};

/* ---- engine_out.c ---- */

void kv_put(struct kv_engine *e, const void *data, size_t size);
/** Put in front of what was put since e->reply.size was @p at. */
void kv_put_before(struct kv_engine *e, size_t at, const void *data, size_t size);
void kv_put_text(struct kv_engine *e, const char *text);
void kv_put_format(struct kv_engine *e, const char *format, ...) SNIC_PRINTF(2, 3);
void kv_put_integer(struct kv_engine *e, int64_t n);
void kv_put_count(struct kv_engine *e, char type, int64_t n);
void kv_put_bulk(struct kv_engine *e, const void *data, size_t size);
void kv_put_bulk_text(struct kv_engine *e, const char *text);
/** The head of a map of @p n pairs. */
void kv_put_map(struct kv_command *c, int64_t n);
/** The head of a set. */
void kv_put_set(struct kv_engine *e, int64_t n);
void kv_put_null(struct kv_engine *e);
void kv_put_null_array(struct kv_engine *e);
/** A text for people: a verbatim string where there is RESP3. */
void kv_put_verbatim(struct kv_engine *e, const void *data, size_t size);
/** "-<text>\r\n"; control characters become blanks, as Redis does. */
void kv_put_error(struct kv_engine *e, const char *format, ...) SNIC_PRINTF(2, 3);
/** The error of a store call: ENOSPC, EIO, ENOMEM. */
void kv_put_store_error(struct kv_engine *e, int error);
/** A text per line, as HELP answers. */
void kv_put_help(struct kv_engine *e, const char *const *lines, size_t count);
/** Answer now or when @p need is durable. Pieces are copied if they must wait. */
void kv_answer(struct kv_engine *e, uint64_t client, uint64_t seq, uint64_t user, uint32_t flags,
               uint64_t need, const struct snic_iov *iov, uint32_t count);
/** Set the store's event callbacks in its options: events are queued behind held replies. */
void kv_out_events(struct kv_engine *e, struct kv_store_opts *s);
/** Send up what waits. @return 0 all; SNIC_EAGAIN the layer above has no room again */
int kv_out_send(struct kv_engine *e);
/** Drop what waits: there is no receiver any more. */
void kv_out_drop(struct kv_engine *e);

/* ---- message.c ---- */

/** Arguments of a message into e->args; they point into it or into the scratch buffer. */
int64_t kv_engine_args(struct kv_engine *e, const unsigned char *msg, size_t size);
/** Keep a message at the end of a list. @return 0; SNIC_ENOMEM */
int kv_message_keep(struct kv_message **first, struct kv_message **last, uint64_t seq,
                    const unsigned char *msg, size_t size);

/* ---- client.c ---- */

/** Call @p visit for each client. */
void kv_each_client(struct kv_engine *e, void (*visit)(void *ctx, struct kv_client *c), void *ctx);
/** Of these, the messages that wait. */
uint64_t kv_client_argv_bytes(const struct kv_client *c);
/** What a client holds: messages that wait, a transaction, values. */
uint64_t kv_client_bytes(const struct kv_client *c);
/** @return NULL: there is none */
struct kv_client *kv_client_find(struct kv_engine *e, uint64_t id);
/** The client, new with the word @p user of its connection. @return NULL: out of memory */
struct kv_client *kv_client_get(struct kv_engine *e, uint64_t id, uint64_t user);
/** Drop its first message. */
void kv_client_shift(struct kv_client *c);
/** Drop the values that were read for its command. */
void kv_client_forget_values(struct kv_engine *e, struct kv_client *c);
void kv_client_free(struct kv_engine *e, struct kv_client *c);

/* ---- engine_run.c ---- */

/** Run what waits of one client. @return 0 when it has to wait again. */
int kv_client_drain(struct kv_engine *e, struct kv_client *c);
/** Run one message. KV_DONE or KV_LATER: it is over for the queue. */
enum kv_outcome kv_engine_run(struct kv_engine *e, struct kv_client *client, uint64_t seq,
                              const unsigned char *msg, size_t size);
/** The reply to what cannot be run or kept. */
void kv_engine_no_memory(struct kv_engine *e, uint64_t client, uint64_t seq, uint64_t user);

/* ---- engine_room.c ---- */

/** Run what waits and no longer has to. */
void kv_engine_room(struct kv_engine *e);

/* ---- command_args.c ---- */

/** An argument as a number. 0, or the error is written. */
int kv_number(struct kv_command *c, const struct resp_arg *a, int64_t *out);
/** Is there a database @p n? 0, or the error is written. */
int kv_database_check(struct kv_command *c, int64_t n);
/** An argument as the number of a database. 0, or the error is written. */
int kv_database_number(struct kv_command *c, const struct resp_arg *a, uint32_t *out);
/* ---- command_read.c ---- */

/** This reply shows what is durable only from @p end on (R9). */
void kv_depends(struct kv_command *c, uint64_t end);
/** The entry of argv[i], or NULL; the reply then depends on what made it so (R9). */
struct kv_entry *kv_command_entry(struct kv_command *c, uint32_t i);
/** The same for commands that do not use the value: OBJECT IDLETIME does not change. */
struct kv_entry *kv_command_peek(struct kv_command *c, uint32_t i);
/** The same for any key; @p touch: it counts as use. */
struct kv_entry *kv_command_lookup(struct kv_command *c, uint32_t database,
                                   const struct resp_arg *key, int touch);
/** The value if it is at hand: in memory or read before. 1; 0; SNIC_E* the read failed */
int kv_value_at_hand(struct kv_command *c, const struct kv_entry *entry,
                     const unsigned char **value, uint32_t *size);
/** Begin to read a value that the client's command needs. @return KV_FETCH; KV_LATER as below */
enum kv_outcome kv_fetch(struct kv_command *c, const struct kv_entry *entry);
/**
 * The value of @p entry for a command that modifies it: KV_DONE and *value, or
 * KV_FETCH (return it), or KV_LATER after an error reply (return KV_DONE).
 */
enum kv_outcome kv_value_to_modify(struct kv_command *c, const struct kv_entry *entry,
                                   const unsigned char **value, uint32_t *size);

/* ---- command_write.c ---- */

/** Does the command, which adds to the log, wait behind one that needs much room there (E5)? */
int kv_command_held(struct kv_command *c);
/** A write or check was answered with SNIC_EAGAIN. @return 0: it has waited for too long */
int kv_command_waits(struct kv_command *c);
/** kv_store_check_room() for the command. */
int kv_command_room(struct kv_command *c, uint64_t bytes, uint64_t record, int deletes);
/** After a failed store write: KV_AGAIN, or the error reply and KV_DONE. */
enum kv_outcome kv_write_failed(struct kv_command *c, int error);
/** Delete; the reply depends on it. @return as kv_store_delete() */
int kv_delete(struct kv_command *c, struct kv_entry *e);
enum kv_wait kv_room_wait(const struct kv_engine *e);
/** Has the client's command waited for space for too long? */
int kv_room_late(const struct kv_engine *e, const struct kv_client *c);

/** What kv_string_store() stores; the value is borrowed and not the store's own memory. */
struct kv_string_put {
    uint32_t database;
    const struct resp_arg *key;
    const void *value;
    uint32_t size;
    uint64_t expire_ms;
    uint32_t encoding; /* of KV_ENTRY_ENCODING */
};
/** Set a key. KV_DONE and *stored, or what to return (with *stored 0 the reply is written). */
enum kv_outcome kv_string_store(struct kv_command *c, const struct kv_string_put *p, int *stored);
/**
 * Write the record of @p e, which argv[1] names, again with another expiry. KV_DONE: done if
 * *written, else the error is written; other: what to return.
 */
enum kv_outcome kv_rewrite(struct kv_command *c, struct kv_entry *e, uint64_t expire_ms,
                           int *written);

/* ---- command_sub.c ---- */

/** Is argv[1] the subcommand @p word? */
int kv_subcommand(const struct kv_command *c, const char *word);
/**
 * Of a command with subcommands: is argv[1] one, with as many arguments as it takes? 0, also for
 * other commands; -1 no, and the error is written.
 */
int kv_subcommand_check(struct kv_command *c);

/* ---- transaction.c ---- */

/** Queue the command, whose arity is right. The reply is written. */
void kv_transaction_queue(struct kv_command *c);
/** A command was refused before it was queued. */
void kv_transaction_fail(struct kv_client *c);
/** The client, new to this engine, comes with the word of a connection that is older. 0, or the
    error is written, and the connection has to end. */
int kv_transaction_inherit(struct kv_command *c);
/** Forget MULTI, the queue and what is watched. */
void kv_transaction_forget(struct kv_client *c);
void kv_transaction_free(struct kv_client *c);
/** An absent key was set: an EXEC of those that watch it fails, also if it is deleted again. */
void kv_watch_created(void *ctx, uint32_t database, const void *key, uint32_t key_size);
/** After SWAPDB: the same for the absent keys that exist in the database now. */
void kv_watch_swapped(struct kv_engine *e, uint32_t database);
/** The client's transaction, made if it has none. @return NULL: out of memory */
struct kv_transaction *kv_transaction_get(struct kv_engine *e, struct kv_client *c);
void kv_transaction_forget_watched(struct kv_transaction *t);
/** The list of engine.absent that such a key is on. */
struct snic_link *kv_watch_list(struct kv_engine *e, uint32_t database, const void *key,
                                uint32_t key_size);

/* ---- command.c, commands.c ---- */

/** A command of the table by its name. @return NULL: there is none */
const struct kv_command_spec *kv_command_find(const struct kv_engine *e, const void *name,
                                              size_t size);
enum kv_outcome kv_command_run(struct kv_command *c);
/** The table of all. */
const struct kv_command_spec *kv_command_table(uint32_t *count);

/* ---- slow.c ---- */

uint64_t kv_slow_clock(void);
/** A command took @p ns of the engine's time; note it if that is long. */
void kv_slow_note(struct kv_command *c, uint64_t ns);
void kv_slow_free(struct kv_engine *e);

/* ---- stats.c ---- */

/** CONFIG RESETSTAT. */
void kv_engine_reset_stats(struct kv_engine *e);

/* ---- command_*.c ---- */

enum kv_outcome kv_cmd_get(struct kv_command *c);
enum kv_outcome kv_cmd_getdel(struct kv_command *c);
enum kv_outcome kv_cmd_getex(struct kv_command *c);
enum kv_outcome kv_cmd_set(struct kv_command *c);
enum kv_outcome kv_cmd_setnx(struct kv_command *c);
enum kv_outcome kv_cmd_setex(struct kv_command *c);
enum kv_outcome kv_cmd_getset(struct kv_command *c);
enum kv_outcome kv_cmd_mget(struct kv_command *c);
enum kv_outcome kv_cmd_mset(struct kv_command *c);
enum kv_outcome kv_cmd_incr(struct kv_command *c);
enum kv_outcome kv_cmd_incrbyfloat(struct kv_command *c);
enum kv_outcome kv_cmd_strlen(struct kv_command *c);
enum kv_outcome kv_cmd_append(struct kv_command *c);
enum kv_outcome kv_cmd_setrange(struct kv_command *c);
enum kv_outcome kv_cmd_getrange(struct kv_command *c);
enum kv_outcome kv_cmd_lcs(struct kv_command *c);
enum kv_outcome kv_cmd_del(struct kv_command *c);
enum kv_outcome kv_cmd_exists(struct kv_command *c);
enum kv_outcome kv_cmd_expire(struct kv_command *c);
enum kv_outcome kv_cmd_persist(struct kv_command *c);
enum kv_outcome kv_cmd_ttl(struct kv_command *c);
enum kv_outcome kv_cmd_type(struct kv_command *c);
enum kv_outcome kv_cmd_dbsize(struct kv_command *c);
enum kv_outcome kv_cmd_flush(struct kv_command *c);
enum kv_outcome kv_cmd_scan(struct kv_command *c);
enum kv_outcome kv_cmd_keys(struct kv_command *c);
enum kv_outcome kv_cmd_randomkey(struct kv_command *c);
enum kv_outcome kv_cmd_rename(struct kv_command *c);
enum kv_outcome kv_cmd_copy(struct kv_command *c);
enum kv_outcome kv_cmd_move(struct kv_command *c);
enum kv_outcome kv_cmd_swapdb(struct kv_command *c);
enum kv_outcome kv_cmd_dump(struct kv_command *c);
enum kv_outcome kv_cmd_restore(struct kv_command *c);
enum kv_outcome kv_cmd_object(struct kv_command *c);
enum kv_outcome kv_cmd_memory(struct kv_command *c);
enum kv_outcome kv_cmd_unsupported(struct kv_command *c);
enum kv_outcome kv_cmd_eval(struct kv_command *c);
enum kv_outcome kv_cmd_script(struct kv_command *c);
enum kv_outcome kv_cmd_slowlog(struct kv_command *c);
enum kv_outcome kv_cmd_latency(struct kv_command *c);
enum kv_outcome kv_cmd_ping(struct kv_command *c);
enum kv_outcome kv_cmd_echo(struct kv_command *c);
enum kv_outcome kv_cmd_select(struct kv_command *c);
enum kv_outcome kv_cmd_hello(struct kv_command *c);
enum kv_outcome kv_cmd_info(struct kv_command *c);
enum kv_outcome kv_cmd_role(struct kv_command *c);
enum kv_outcome kv_cmd_config(struct kv_command *c);
enum kv_outcome kv_cmd_command(struct kv_command *c);
enum kv_outcome kv_cmd_client(struct kv_command *c);
enum kv_outcome kv_cmd_auth(struct kv_command *c);
enum kv_outcome kv_cmd_reset(struct kv_command *c);
enum kv_outcome kv_cmd_multi(struct kv_command *c);
enum kv_outcome kv_cmd_exec(struct kv_command *c);
enum kv_outcome kv_cmd_discard(struct kv_command *c);
enum kv_outcome kv_cmd_watch(struct kv_command *c);
enum kv_outcome kv_cmd_unwatch(struct kv_command *c);
enum kv_outcome kv_cmd_shutdown(struct kv_command *c);
enum kv_outcome kv_cmd_quit(struct kv_command *c);

#endif
