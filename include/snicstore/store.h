/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/**
 * @file snicstore/store.h
 * One shard of a replicated key-value store: whole keys, conditions, read-modify-write, times to
 * live, sessions (each operation executes once), ordered scans and watches, over one node of a
 * replicated table (replica.h).
 *
 * Depends on  snicstore/base.h, loop.h, replica.h.
 * Memory      Caller-owned: memsize, init; nothing is allocated afterwards. The memory has the
 *             replica's, one buffer for the largest value, about 90 bytes for each record, 400 KiB,
 *             mostly histograms, and 1.6 KiB for each deletion of expired values at a time.
 *             Operations and watches are the caller's, borrowed as described there.
 * Threads     [owner] the thread of the loop.
 * Progress    No call blocks. Unless documented otherwise a call is O(1) or O(log keys), beside
 *             the copy of a value and the engines' costs (replica.h).
 * Errors      0 on success, a negative SNIC_E* otherwise.
 * Units       ns, bytes.
 * Input       keys, values and conditions may come from anywhere. Envelopes that come from peers
 *             are checked before use; one that is malformed answers SNIC_ECORRUPT.
 *
 * A shard is one replica: one log, one membership, one loop. A node with several shards has
 * several stores, and chooses the shard of a key by itself. Keys are 0 to 1024 bytes, values 0 to
 * value_max bytes, both of any content.
 *
 * ---- Whole keys ----
 *
 * The table below names records by 128 bits. The store uses a keyed hash of the key (SipHash-2-4,
 * 128 bits) and keeps the whole key beside the value. Every access compares it. If two keys have
 * the same hash, the second one is refused with SNIC_EEXIST, and the answer names the first key; it
 * never returns or overwrites the other key's value. One case is left: two colliding keys are
 * created at two nodes within one round of messages. Then one of the two stays, the other is
 * answered SNIC_EEXIST from then on. With a secret hash key and 2^28 keys the probability that any
 * two collide is 2^-73.
 *
 * ---- What an operation promises ----
 *
 * Each key is linearizable by itself: ddp.h has the promises, model by model, and what a durability
 * means. There are no atomic groups of keys, for three reasons. Each key is ordered by its own
 * timestamps, so two groups that meet in two keys can be ordered one way in the first key and the
 * other way in the second. Any follower may finish any write alone, from its value alone
 * (replay); of a group it would need all values and the knowledge that no other key of the group
 * was refused. And a reader at another node looks at one lock at a time: to never see half a group
 * it would have to lock all its keys, in an order, which is a transaction protocol with its own
 * deadlocks and recovery, and reads would no longer be local. What belongs together is written as
 * one value.
 *
 * A write without a condition takes one round of messages. A write with one, MODIFY, EXPIRE, and
 * every write with a session, reads the key and writes by compare-and-swap (two rounds), again if
 * another write came first; operations of one store on one key wait for each other.
 *
 * ---- Time to live ----
 *
 * A value has a TTL, 0 for none. The node that coordinated the write deletes it when that time has
 * passed since it stored the write, by its own clock (`clock` of the replica's options,
 * CLOCK_BOOTTIME by default). If that node is not FULL any more, or has not deleted the value for
 * some seconds, the lowest FULL node does, by its clock, from the time at which it stored the
 * value. The deletion is a compare-and-swap on the write's timestamp: a newer write is never
 * deleted. No node hides a value by its own clock. So a key exists for at least its TTL and
 * disappears everywhere at once. When many end together they are deleted a bounded number at a
 * time: up to half of writes_max of the replica, less while there is no room. The TTL of a value
 * that a node loads from its log, or learns, begins anew there: after a restart of all nodes every
 * key exists for its whole TTL again. A write with SNIC_STORE_KEEP_TTL keeps the expiry time that
 * the key has.
 *
 * ---- Sessions: an operation executes once ----
 *
 * A client that gets no answer, or SNIC_EUNKNOWN, does not know whether its write was executed.
 * With a session it may send the operation again, to any node: it names itself (`client`, 64 bits
 * that no other client has) and numbers its operations (`sequence`, growing, never 0). The value's
 * envelope keeps, for the last clients that wrote the key, the highest sequence and its result. A
 * write with a session reads the value, looks for its own (client, sequence), and only if it is
 * absent writes value and list together by compare-and-swap on the version that was read.
 *
 * Why that executes once. A compare-and-swap that succeeds is next after the version it compared
 * with. An original in flight and its retry, wherever they run, either compare with the same
 * version, and at most one of them succeeds, or one of them reads what the other wrote and finds
 * itself in the list. List and value are one record: they are replayed, learned, logged and lost
 * together, so this holds after the crash of any node, a rejoin and a restart of all; where a model
 * loses an answered write in a restart (ddp.h), it loses its list entry with it, and the retry
 * executes once in the history that is left. A plain write replaces the value but copies the list
 * from the local record in the step that numbers it: if a session write was decided, every node
 * stored it before (ddp.h: a plain write that was numbered without it refuses it), so the copy has
 * its entry. The copy may also have the entry of a session write that is not decided and that this
 * plain write defeats: then the session write counts as executed immediately before the plain
 * write, and no one can have read the value between. A deletion keeps a list as a value marked
 * deleted, which becomes a real deletion session_window_ns later.
 *
 * The bound in clients. A key's list has sessions_max clients. When one more writes the key, the
 * client whose write is the oldest is removed from the list, and the envelope keeps the highest
 * timestamp that was removed so far. So an operation whose client is not in the list was either
 * never executed, or executed and removed. `seen` decides: the version that a read of the key gave
 * before the first attempt (0: the read found nothing, or there was none). A write that begins
 * after a read has a higher timestamp than what was read. So if `seen` is not below the highest
 * timestamp that was removed, the operation is not among the removed ones, and is executed now.
 * Otherwise it cannot be known: the answer is SNIC_EUNKNOWN with SNIC_STORE_NOT_TRIED in `out`, and
 * this attempt wrote nothing. If it was the first attempt, nothing was executed at all: send the
 * operation again as a new one, with the `seen` of that answer.
 *
 * An operation gets the same answer if the list has a higher sequence of its client: a client has
 * one operation on a key at a time.
 *
 * The bound in time. session_window_ns after a key was deleted its list is deleted, too. A later
 * attempt would find no list, and be executed again. So a client makes no attempt later than
 * session_window_ns after the first one, and passes the time since then (`age_ns`); an attempt that
 * is older is answered in the same way.
 *
 * What is kept of an operation is its result and its answer, a number; a retry does not get the old
 * value (SNIC_STORE_OLD) again. An operation that did not write (a condition failed, MODIFY
 * declined) leaves nothing in the list;
 * a retry decides anew. So the answer to the last attempt counts, and an earlier one that arrives
 * after the retry was sent is ignored.
 *
 * ---- Scan and watch ----
 *
 * snic_store_next() returns keys in the order of their bytes (memcmp, a prefix first). Each value
 * is linearizable by itself; the scan is no snapshot. Every key that is present throughout is
 * returned exactly once.
 *
 * A watch returns the changes of a key, or of all keys with a prefix, as they become readable at
 * this node: of each key in the order of its versions, the last one never missing. A value that was
 * replaced before it became readable here is no change. A position is (node, incarnation, number);
 * it means something at that node until its ring of changes has gone past it, or the node began
 * anew. Then the answer is SNIC_EOVERFLOW and the position from which to continue: take it, scan,
 * and continue from it.
 */
#ifndef SNIC_STORE_H
#define SNIC_STORE_H

#include "snicstore/base.h"
#include "snicstore/loop.h"
#include "snicstore/replica.h"

#ifdef __cplusplus
extern "C" {
#endif

/** Lives in caller memory; not to be moved. */
struct snic_store;

#define SNIC_STORE_ALIGN SNIC_REPLICA_ALIGN
#define SNIC_STORE_KEY_MAX 1024
/** Clients that a value's list can be configured to have. */
#define SNIC_STORE_SESSIONS_MAX 64
/** The largest value that can be configured. */
#define SNIC_STORE_VALUE_MAX (8u << 20)
/** Bytes that the store adds to a value at most: head, key, list. */
#define SNIC_STORE_OVERHEAD (64 + SNIC_STORE_KEY_MAX + 40 * SNIC_STORE_SESSIONS_MAX)

/** Zero it, set what has no default. */
struct snic_store_opts {
    uint32_t opts_size;
    uint32_t flags; /**< 0                                                                */
    /** Of the node; copied. Its value_max is set by the store; values_bytes is to count
     * SNIC_STORE_OVERHEAD with each value. */
    const struct snic_replica_opts *replica;
    uint32_t value_max;    /**< bytes of the largest value; default 65536; the same at all        */
    uint32_t sessions_max; /**< clients in a value's list; default 8, at most 64               */
    /** The hash's key, the same at all nodes for ever. All zero: derived from replica->cluster,
     * which is enough where no client chooses keys that collide on purpose. */
    unsigned char hash_key[16];
    uint64_t session_window_ns; /**< default 10 minutes                                        */
    uint32_t tries_max;   /**< of a read-modify-write that others come before; default 64        */
    uint32_t changes_max; /**< changes that watches can be behind, power of two; default 1024  */
    uint64_t changes_bytes; /**< of values that these hold, in the replica's values_bytes, which
                                 has to have room for them; default value_max + 1 MiB          */
    uint32_t ops_max; /**< read-modify-writes at a time; default 1024                          */
    uint32_t pad;     /**< 0                                                                   */
};

/* ---- Operations ---- */

enum snic_store_op_kind {
    SNIC_STORE_GET = 1, /**< key. 0 and the value, or SNIC_ENOENT                               */
    SNIC_STORE_PUT,     /**< key, data, ttl_ns, condition                                       */
    SNIC_STORE_DELETE,  /**< key, condition. SNIC_ENOENT: with a condition or session: was absent */
    SNIC_STORE_MODIFY,  /**< key, modify: read-modify-write                                      */
    SNIC_STORE_EXPIRE,  /**< key, ttl_ns (0: no end), condition: the same value with another TTL.
                             SNIC_ENOENT: there is none                                          */
    SNIC_STORE_SYNC     /**< scope (replica.h)                                                   */
};

/** Of PUT, DELETE, EXPIRE. One that does not hold: SNIC_ECANCELED, with what the key holds as GET
 * gives it (version 0: nothing), and nothing was written. */
enum snic_store_condition {
    SNIC_STORE_ALWAYS = 0,
    SNIC_STORE_IF_ABSENT,
    SNIC_STORE_IF_PRESENT,
    SNIC_STORE_IF_VERSION /**< `version` is what the key has, 0: only if absent                  */
};

/** Flags of an operation. */
enum {
    SNIC_STORE_KEEP_TTL = 1 << 0, /**< PUT, MODIFY: keep the expiry time of the key, if it has one;
                                       ttl_ns is ignored then                                   */
    SNIC_STORE_OLD = 1 << 1,   /**< writes: return what the key held before, as GET does. Makes it a
                                    read-modify-write                                             */
    SNIC_STORE_EXACT = 1 << 2, /**< DELETE: SNIC_ENOENT if there was nothing. Makes it a
                                    read-modify-write                                           */
    SNIC_STORE_CONFIRM = 1 << 3 /**< GET: confirmed by a majority (replica.h)                    */
};

/** Bits of `out`. */
enum {
    SNIC_STORE_REPEATED = 1 << 0, /**< session: executed before; result and answer are of then  */
    SNIC_STORE_NOT_TRIED = 1 << 1 /**< session, SNIC_EUNKNOWN: this attempt wrote nothing       */
};

/** What a modify function is called with. */
struct snic_store_change {
    const void *old; /**< borrowed for the call; NULL: absent                                   */
    uint32_t old_size;
    uint32_t present;
    uint64_t version;
    uint64_t ttl_ns; /**< in: what is left of the old value's TTL as this node knows it, 0:
                          none; out: of the new one, ignored with keep_ttl                   */
    void *out; /**< out_max bytes for the new value; not the old value's                        */
    uint32_t out_max;
    uint32_t out_size; /**< out                                                                 */
    /** out: instead of out, the new value as the caller's own bytes, borrowed for the call */
    const void *data;
    uint32_t keep_ttl; /**< in: as the operation's flag; out: keep the expiry time             */
    int32_t result;    /**< out: of the operation when the write succeeded; default 0           */
    uint64_t answer;   /**< out: a number of the caller's, such as the new count; default 0     */
};
enum { SNIC_STORE_CHANGE_PUT = 0, SNIC_STORE_CHANGE_DELETE = 1, SNIC_STORE_CHANGE_NONE = 2 };
/**
 * Computes a new value from the old one, with no effect but through @p c: it is called again when
 * another write came first. Called on the loop, not inside submit; no call of the store in it.
 * @return SNIC_STORE_CHANGE_PUT out_size bytes at out, or at data; SNIC_STORE_CHANGE_DELETE;
 *         SNIC_STORE_CHANGE_NONE leave it: answered with c->result; negative: leave it, the result
 */
typedef int (*snic_store_modify_fn)(void *ctx, struct snic_store_change *c);

struct snic_store_op;
typedef void (*snic_store_done_fn)(struct snic_store_op *op);

/** Zero it, fill in the first part, submit. What is marked out is written; fill it in again. */
struct snic_store_op {
    snic_store_done_fn done;
    uint32_t kind;    /**< enum snic_store_op_kind                                            */
    uint32_t flags;   /**< SNIC_STORE_KEEP_TTL, ...                                           */
    const void *key;  /**< borrowed until done                                                */
    const void *data; /**< PUT: borrowed until done. out: what was read, borrowed until done
                           returns, or as long as `value` is held; NULL: nothing. With
                           SNIC_EEXIST: the key that has the same hash                        */
    uint32_t key_size;
    uint32_t size;       /**< of data                                                            */
    uint32_t condition;  /**< enum snic_store_condition                                          */
    uint32_t durability; /**< of a write, of what a read may return: enum snic_ddp_durability   */
    uint32_t copies_min; /**< FULL copies below which a write is refused; 0: min_full           */
    uint32_t copies;     /**< out: FULL copies that the answer stands for                       */
    uint64_t version;    /**< IF_VERSION; out: of what was read or written, 0: nothing          */
    uint64_t scope;      /**< durability SCOPE: of snic_store_scope                             */
    uint64_t ttl_ns;     /**< PUT, EXPIRE; out: what is left of the TTL of what was read, as
                              this node knows it, 0: none     */
    uint64_t client;     /**< session; 0: none                                                  */
    uint64_t sequence;
    uint64_t seen;   /**< session: see the head of this file; out: what to give as `seen` after a
                        read: `version`, or of a deleted key a number                   */
    uint64_t age_ns; /**< session: since the first attempt                                      */
    snic_store_modify_fn modify;
    void *ctx;
    uint64_t answer; /**< out: MODIFY's                                                         */
    uint64_t value;  /**< out: handle of data                                                   */
    int32_t result;  /**< out                                                                   */
    uint32_t out;    /**< out: SNIC_STORE_REPEATED, ...                                         */

    /* The store's. */
    struct snic_link link;
    struct snic_link queue;
    struct snic_replica_op op;
    struct snic_ddp_key hash;
    struct snic_store *store;
    struct snic_store_op *next;
    const void *bytes;
    uint64_t expect;
    uint64_t new_ttl_ns;
    uint64_t since;
    uint64_t begun_ns;
    uint64_t old_value;
    uint64_t pending_answer;
    int32_t pending_result;
    uint32_t bytes_size;
    uint32_t tries;
    uint32_t durably;
    uint32_t expiry;
    uint32_t state;
};

/* ---- Calls ---- */

/** Which option is wrong, and how: "NAME: what", static; NULL when all are right. [any] */
SNIC_API const char *snic_store_opts_wrong(const struct snic_store_opts *opts) SNIC_NONNULL(1);
/** Bytes of memory; 0 when an option is wrong (snic_store_opts_wrong). [any] */
SNIC_API size_t snic_store_memsize(const struct snic_store_opts *opts) SNIC_NONNULL(1);
/**
 * Makes a node with its replica, which begins to read its log. @p opts is copied. [owner]
 * @return as snic_replica_init()
 */
SNIC_API SNIC_NODISCARD int snic_store_init(struct snic_store **out, void *mem, size_t mem_size,
                                            const struct snic_store_opts *opts)
    SNIC_NONNULL(1, 2, 4);
/** As snic_replica_stop(). Operations in flight are answered by the loop. [owner] */
SNIC_API void snic_store_stop(struct snic_store *s) SNIC_NONNULL(1);
/** Give the memory back, of one that was stopped; as snic_replica_fini(). [owner] */
SNIC_API void *snic_store_fini(struct snic_store *s) SNIC_NONNULL(1);
/**
 * The node, for its statistics, override and scopes. Its operations are the store's: the caller
 * does not submit any. [owner]
 */
SNIC_API struct snic_replica *snic_store_replica(struct snic_store *s) SNIC_NONNULL(1);

/**
 * Begins an operation, which is borrowed until its `done` is called, from the loop, never inside a
 * call; after an error it is not. `done` may submit. [owner]
 *
 * `durability` is that of ddp.h. An answer of a write that wrote nothing (a condition failed,
 * MODIFY declined, a session's operation was executed before) is a read of ALL, unless MEMORY was
 * named or is the model's.
 *
 * Results in `done`: 0; SNIC_ENOENT no such key; SNIC_ECANCELED the condition does not hold;
 * SNIC_EEXIST another key has the same hash; SNIC_EUNKNOWN a write that may or may not happen
 * (replica.h), or, with SNIC_STORE_NOT_TRIED, a session's bound; SNIC_ESTALE the node does not
 * serve any more and nothing was written; SNIC_ENOQUORUM fewer FULL members than copies_min;
 * SNIC_EAGAIN others came before it tries_max times, or there was no room for the write: nothing
 * was written; SNIC_EMSGSIZE MODIFY: out_size is more than out_max; SNIC_ECORRUPT what the key
 * holds is no envelope; what snic_replica_submit() returns for a later step of a read-modify-write:
 * nothing was written; what the modify function returned.
 * @return 0; SNIC_EINVAL an unknown kind, flag or condition, a key or data that is NULL with a
 * size, a session whose sequence is 0, an option that the kind does not have; SNIC_EMSGSIZE the key
 * or the value is too large; SNIC_EAGAIN ops_max read-modify-writes are under way; or as
 * snic_replica_submit()
 */
SNIC_API SNIC_NODISCARD int snic_store_submit(struct snic_store *s, struct snic_store_op *op)
    SNIC_NONNULL(1, 2);
/** A number for `scope`: snic_replica_scope(). [owner] */
SNIC_API uint64_t snic_store_scope(struct snic_store *s) SNIC_NONNULL(1);

/** What look and next give. */
struct snic_store_entry {
    const void *key;  /**< borrowed until the loop runs on, or as long as value is held         */
    const void *data; /**< as key; NULL: the key is being written, GET it                       */
    uint32_t key_size;
    uint32_t size;
    uint64_t version;
    uint64_t ttl_ns; /**< what is left of its TTL as this node knows it, 0: none */
    uint64_t value;  /**< handle; 0 when data is NULL                                           */
};
/**
 * A read at once, without an operation. [owner]
 * @return 0 and @p out; SNIC_ENOENT no such key; SNIC_EAGAIN the key is being written: GET waits
 *         for it; SNIC_ESTALE the node does not serve; SNIC_EEXIST another key has the same hash,
 *         which @p out has as key; SNIC_ECORRUPT what it holds is no envelope; SNIC_EMSGSIZE the
 * key is too large
 */
SNIC_API SNIC_NODISCARD int snic_store_look(const struct snic_store *s, const void *key,
                                            uint32_t key_size, struct snic_store_entry *out)
    SNIC_NONNULL(1, 4);
/** One of several reads at once: `result` and `entry` are as snic_store_look() returns them. */
struct snic_store_lookup {
    const void *key; /**< borrowed for the call */
    uint32_t key_size;
    int result;
    struct snic_store_entry entry;
};
/**
 * @p n reads at once. What they need of memory is fetched at the same time, so that many take less
 * time than each by itself. [owner]
 */
SNIC_API void snic_store_look_many(const struct snic_store *s, struct snic_store_lookup *looks,
                                   uint32_t n) SNIC_NONNULL(1, 2);
/** One more reference to a value's bytes, which stay until drop. [owner] */
SNIC_API void snic_store_hold(struct snic_store *s, uint64_t value) SNIC_NONNULL(1);
/** One reference less. [owner] */
SNIC_API void snic_store_drop(struct snic_store *s, uint64_t value) SNIC_NONNULL(1);

/** Where a scan is: zero it for the beginning, or set key (to begin behind it) and prefix. */
struct snic_store_cursor {
    uint32_t key_size;
    uint32_t prefix_size; /**< keys that begin with the first so many bytes of prefix only      */
    uint32_t begun;       /**< 0: the key itself is returned, too, if it exists                 */
    uint32_t pad;
    unsigned char key[SNIC_STORE_KEY_MAX];
    unsigned char prefix[SNIC_STORE_KEY_MAX];
};
/**
 * The next key in order, and the cursor behind it. At most 256 records are looked at. [owner]
 * @return 0 and @p out; SNIC_ENOENT there are no more; SNIC_EAGAIN none yet: call again;
 *         SNIC_ESTALE the node does not serve; SNIC_EMSGSIZE key_size or prefix_size of the cursor
 *         is more than SNIC_STORE_KEY_MAX
 */
SNIC_API SNIC_NODISCARD int snic_store_next(struct snic_store *s, struct snic_store_cursor *cursor,
                                            struct snic_store_entry *out) SNIC_NONNULL(1, 2, 3);

/* ---- Watch ---- */

struct snic_store_position {
    uint64_t number;
    uint64_t incarnation;
    uint32_t node;
    uint32_t pad;
};

enum snic_store_event_kind {
    SNIC_STORE_EVENT_PUT = 1,
    SNIC_STORE_EVENT_DELETE,
    SNIC_STORE_EVENT_EXPIRE /**< deleted because its TTL ended. A conditional deletion at about
                                 that time may count as one                        */
};
struct snic_store_event {
    uint32_t kind; /**< enum snic_store_event_kind                                              */
    uint32_t key_size;
    const void *key;  /**< borrowed until the loop runs on                                      */
    const void *data; /**< as key; PUT; NULL: none                                              */
    uint32_t size;
    uint32_t pad;
    uint64_t version;
    struct snic_store_position position; /**< behind this change                                */
};

struct snic_store_watch;
typedef void (*snic_store_watch_fn)(struct snic_store_watch *w);
/** Zero it, fill in the first part, start. */
struct snic_store_watch {
    snic_store_watch_fn ready; /**< there may be a change after SNIC_EAGAIN; from the loop. May be
                                    NULL                                                        */
    const void *key;           /**< borrowed until stop                                         */
    uint32_t key_size;
    uint32_t prefix; /**< 1: all keys that begin with key; 0: this key                          */
    struct snic_store_position position; /**< from where on; node and number 0 and incarnation 0:
                                              from now on. out: behind what was returned        */
    struct snic_link link; /**< the store's                                                     */
    uint32_t waits;
    uint32_t pad;
};
/**
 * Begins a watch, borrowed until it is stopped. [owner]
 * @return 0; SNIC_EOVERFLOW the position means nothing here: `position` is now where to continue
 *         after a scan, and the watch was begun there; SNIC_EINVAL no key
 */
SNIC_API SNIC_NODISCARD int snic_store_watch_start(struct snic_store *s, struct snic_store_watch *w)
    SNIC_NONNULL(1, 2);
/**
 * The next change. At most 256 changes are looked at. [owner]
 * @return 0 and @p out; SNIC_EAGAIN none now: `ready` will be called; SNIC_EOVERFLOW changes were
 *         missed: `position` is now where to continue after a scan
 */
SNIC_API SNIC_NODISCARD int snic_store_watch_next(struct snic_store *s, struct snic_store_watch *w,
                                                  struct snic_store_event *out)
    SNIC_NONNULL(1, 2, 3);
/** Ends a watch; `ready` is not called any more. Harmless when not started. [owner] */
SNIC_API void snic_store_watch_stop(struct snic_store *s, struct snic_store_watch *w)
    SNIC_NONNULL(1, 2);

/* ---- Statistics ---- */

enum snic_store_class {
    SNIC_STORE_CLASS_READ = 0, /**< GET                                                         */
    SNIC_STORE_CLASS_WRITE,    /**< one round                                                   */
    SNIC_STORE_CLASS_CHANGE,   /**< read-modify-writes                                          */
    SNIC_STORE_CLASS_SYNC,
    SNIC_STORE_CLASSES
};
#define SNIC_STORE_DURABILITIES 5

struct snic_store_stats {
    uint64_t ops[SNIC_STORE_CLASSES]; /**< answered                                             */
    uint64_t conflicts;  /**< read-modify-writes that another write came before                 */
    uint64_t collisions; /**< operations refused since another key has the same hash            */
    uint64_t repeated;   /**< sessions: executed before                                         */
    uint64_t unknown;    /**< sessions: beyond the bound                                        */
    uint64_t expired;    /**< deleted by this node since their TTL ended                       */
    uint64_t corrupt;    /**< records that are no envelope                                      */
    uint64_t changes;    /**< readable changes so far                                           */
    uint64_t overflows;  /**< watches that missed some                                          */
    uint32_t keys;       /**< in the index                                                      */
    uint32_t expiring;   /**< of them with a TTL                                                */
    uint32_t changing;   /**< read-modify-writes under way                                      */
    uint32_t watches;
};
/** Counters as of now. [owner] */
SNIC_API void snic_store_get_stats(const struct snic_store *s, struct snic_store_stats *out)
    SNIC_NONNULL(1, 2);
/** Times from submit to done, of a class (enum snic_store_class) and a durability asked for; NULL:
 * there is no such. Borrowed until fini. [owner] */
SNIC_API const struct snic_hist *snic_store_latency(const struct snic_store *s, uint32_t class_of,
                                                    uint32_t durability) SNIC_NONNULL(1);
/**
 * Checks every invariant, the replica's too. O(n). For tests. [owner]
 * @return 0; SNIC_ECORRUPT one does not hold
 */
SNIC_API int snic_store_check(const struct snic_store *s) SNIC_NONNULL(1);

#ifdef __cplusplus
}
#endif
#endif /* SNIC_STORE_H */
