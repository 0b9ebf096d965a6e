/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/**
 * @file snicstore/replica.h
 * One node of a replicated key-value table, assembled: the data path (ddp.h) and the membership
 * (member.h) over a durable log (wal.h), connections and datagrams (net.h), on a loop.
 *
 * Depends on  snicstore/base.h, loop.h, io.h, net.h, ebs_sec.h, ddp.h, member.h, wal.h.
 * Memory      Caller-owned: memsize, init; nothing is allocated afterwards. Operations are the
 *             caller's, borrowed from an accepted submit until `done`.
 * Threads     [owner] the thread of the loop.
 * Progress    No call blocks. Costs are those of the engines; a value is copied once when it comes
 *             in, once per node it is sent to, once to the log.
 * Errors      0 on success, a negative SNIC_E* otherwise.
 * Units       ns, bytes.
 * Input       the network is hostile: every field is checked, and memory is bounded. Without
 *             ciphers (sec) what comes from a configured address is believed (ddp.h): use a network
 *             without untrusted senders.
 *
 * What a client is promised is in ddp.h, model by model; which nodes serve and when, in member.h.
 * For an embedder:
 *
 *  - A node begins by reading its log. Until it is FULL, in order and holds a lease, operations are
 *    refused with SNIC_ESTALE; try another node. `notify` is called when that changes.
 *  - An operation that was accepted is answered once, from the loop, never inside submit.
 *    SNIC_EUNKNOWN: the node left the membership meanwhile, or stopped; the write may or may not
 *    happen. SNIC_EAGAIN at submit: no room now, nothing happened.
 *  - A node that others left out comes back by itself, as a learner: what it had and the others
 *    still have is not sent again. Its log stays as it is until it has caught up, so if all others
 *    are lost meanwhile an operator can begin from it.
 *  - A log that fails (a write, a flush, and there is no second try of a flush) stops the node at
 *    once: state STOPPED. The others continue without it. So does snic_replica_stop(); a node that
 *    only stops answering is to the others as one that crashed, so there is no orderly leave.
 *  - A log that is full refuses (SNIC_ENOSPC at submit, and others' writes are not acknowledged)
 *    and resumes when it was compacted; deletions it takes, as the way out, and one of the
 *    writes_max is for them. A restart of all may use what is kept for deletions. A node that keeps
 *    others waiting is left out (member.h).
 *  - A log may hold more keys than keys_max, or than values_bytes has room for: deleted ones, until
 *    compaction passes them, or it was written with larger options. Then the node begins with an
 *    empty table and log_good 0: it learns from the others. If none serves, since all are so, they
 *    wait (member.h, RESTARTING), and stop with SNIC_ENOSPC rather than begin with nothing when an
 *    operator overrides; start them with more room. The logs are as they were.
 *
 * Why connections for data and datagrams for the membership. Between two nodes there is one TCP
 * connection, made by the one with the higher number, for the messages of the data path, and there
 * are datagrams for heartbeats, grants and votes. Measured before one of both was chosen (three
 * processes, each sending to both others for 1.5 s on loopback, two processors, three runs; copies
 * to and from the messages included): streams take 0.27 to 0.29 ns of processor time for a byte
 * with messages of 1 KB as of 64 KB; datagrams in trains (GSO) under a window of 256 KiB to 1 MiB
 * take 0.18 to 0.30 ns, with nothing sent again or put in order, and 31 to 42 % of them are lost
 * without the window. For the difference the kernel's congestion control and retransmission would
 * have to be written again. The membership stays with datagrams, which never wait behind data.
 *
 * The path of a value. Messages to another node wait in its queue with a reference to the value,
 * until the node permits their bytes: it permits window_bytes beyond what it has taken. It takes a
 * value when there is memory and room in its log; what has arrived before that it keeps apart, so
 * messages without values are taken all the same. They overtake large values, which are sent 8 KiB
 * at a time. Nothing is dropped while a connection lasts (but see sends_max), and what is under way
 * already is not sent twice. When it ends all that was under way is lost, and the engine sends
 * again; connections are made again by themselves.
 *
 * Times. Round trips, flushes and the time from sending to taking are measured, and the data path
 * waits as long (snic_ddp_event, TIMES) before it sends again; retransmit_ns and replay_ns are what
 * it waits at least.
 *
 * Upgrades. Nodes agree on a version of the wire for each connection (lib/replica/FORMAT.md), so
 * those of two builds work together while one after the other is restarted.
 *
 * Keys. With `sec` all bytes are sealed (AES-128-GCM) under keys of each connection, made of the
 * cluster's key and of random numbers of both sides. What is recorded, reflected, cut or changed is
 * refused. Another cluster, version or key is counted (stats); it is named (snic_replica_get_peer)
 * if a connection that the node's host made or accepted shows it while there is no other.
 *
 * Memory for values. A value takes its bytes, rounded up by at most 128 bytes or an eighth, in one
 * piece, and 16 bytes for each 128. Alive at a time are at most, each counted once:
 *      keys_max        the newest of each key
 *    + writes_max      for each other configured node: new keys of others, when keys_max are there
 *                      (ddp.h)
 *    + writes_max      of writes in flight, those that a newer one of the key has replaced
 *    + what the log has not copied yet: a few while it keeps up, and up to 32 + writes_max
 *    + answers with a value that is replaced in the same loop iteration before `done` returns: at
 *      most one for each write that arrives in this iteration
 *    + those that the embedder holds (snic_replica_hold) and that are replaced meanwhile
 *    + 2               for each other node: those that arrive
 * so with values of one size, keys_max + (nodes + 2) writes_max + 64 of it and what is held is
 * enough for an iteration with writes_max writes. Where sizes differ, free memory is in pieces, and
 * free neighbours are one piece. Against the worst order of sizes no allocator can do with less
 * than 1 + log2(largest / smallest) / 2 times as much. Too little is not the end: SNIC_EAGAIN at
 * submit; others' writes wait, and after 200 ms count as lost (no_room); a
 * node that never finds the memory is left out as slow. Beside it there are 2 * window_bytes and
 * about 120 bytes for each of sends_max, of each other node; and 8 for each record of ddp.h's.
 *
 * Clock: `clock` of the options, or else snic_loop_clock(), read after a message was received
 * (member.h). Both count the time a machine is suspended, so a lease ends in it. Of a pause that no
 * clock counts (a virtual machine's, whose clocks stop with it) no node knows: plain reads may be
 * stale then, those with SNIC_REPLICA_OP_CONFIRM never are.
 */
#ifndef SNIC_REPLICA_H
#define SNIC_REPLICA_H

#include "snicstore/base.h"
#include "snicstore/ddp.h"
#include "snicstore/ebs_sec.h"
#include "snicstore/io.h"
#include "snicstore/loop.h"
#include "snicstore/member.h"
#include "snicstore/net.h"
#include "snicstore/wal.h"

#ifdef __cplusplus
extern "C" {
#endif

/** Lives in caller memory; not to be moved. */
struct snic_replica;

#define SNIC_REPLICA_ALIGN SNIC_CACHELINE
/** The largest value that can be configured. */
#define SNIC_REPLICA_VALUE_MAX (16u << 20)

enum {
    /** The cluster is founded now: no node of it has run before (member.h, FIRST). Ignored where
     * the log proves otherwise, if only by a membership file that is damaged. A disk that was
     * replaced proves nothing: a node with a new one is started without this flag. */
    SNIC_REPLICA_FOUND = 1 << 0
};

/** The kinds of trace records. */
enum snic_replica_trace_kind {
    SNIC_REPLICA_TRACE_EVENT = 1, /**< `event` went to the data path, which returned `result`    */
    SNIC_REPLICA_TRACE_ACTION,    /**< `action` followed                                         */
    SNIC_REPLICA_TRACE_MEMBER     /**< `member` came from the membership                         */
};
struct snic_replica_trace {
    uint32_t kind;
    int32_t result;
    uint64_t now_ns;
    const struct snic_ddp_event *event;
    const struct snic_ddp_action *action;
    const struct snic_member_action *member;
    const void *data; /**< of the value in event or action, if there is one                      */
    uint32_t size;
    uint32_t pad;
};

/** A record of the node's own table was changed. */
struct snic_replica_change {
    struct snic_ddp_key key;
    uint64_t ts;
    uint64_t value;   /**< handle, 0: none. May be held                                           */
    const void *data; /**< of value; NULL: a deletion                                             */
    uint32_t size;
    uint32_t record; /**< number of the record, below snic_replica_records()                      */
    uint32_t flags;  /**< of SNIC_DDP_CHANGED, or one of those below, alone                       */
    uint32_t pad;
};
enum {
    SNIC_REPLICA_CHANGE_RESET = 1 << 16, /**< all records are gone */
    /** The node is FULL, and READY if it was a restart: what was reported with SNIC_DDP_IDLE, and
     * is not locked, is readable from now on. May come after changes that followed. */
    SNIC_REPLICA_CHANGE_READABLE = 1 << 17
};

/** Zero it, set what has no default. */
struct snic_replica_opts {
    uint32_t opts_size;
    uint32_t flags; /**< SNIC_REPLICA_FOUND                                               */
    struct snic_loop *loop;
    struct snic_net *net; /**< with streams and datagrams, on that loop; its conns_max has room for
                               two connections to each other node, and ten                      */
    struct snic_io *log;  /**< a file or device of its own, on that loop                        */
    const struct snic_net_addr *addrs; /**< by node number, of all configured ones; copied       */
    uint64_t cluster; /**< a number drawn at random when the cluster is founded; in its file, too */
    uint32_t node;
    /** Of a node without a usable log: random, 1 to SNIC_MEMBER_FILE_NUMBERS (member.h, Lost
     * files); 0: it only looks on (state LOST). */
    uint32_t incarnation;
    uint16_t configured; /**< nodes at the founding, the same at all; later a view has them: of a
                              node that is added, itself and some (member.h)                    */
    uint16_t witness;    /**< of them, at most one: votes, holds no data                        */
    uint32_t model;      /**< enum snic_ddp_model, the same at all                              */
    uint32_t ddp_flags;  /**< SNIC_DDP_PAPER, ...                                               */
    uint32_t keys_max;   /**< ddp.h                                                             */
    uint32_t writes_max; /**< default 256; see ddp.h                                            */
    uint32_t waits_max;  /**< default 4096                                                      */
    uint32_t reads_max;  /**< default 1024                                                      */
    uint32_t scopes_max; /**< default 64 with the model SCOPE, else 0: no operation names SCOPE */
    uint32_t value_max;  /**< bytes of the largest value; default 65536; the same at all        */
    /** Messages that wait for another node or were sent to it and are not taken there yet, of each
     * node; above it they are lost, and sent again. Rounded up to a power of two; at most 2^20.
     * Default: twice writes_max + waits_max, and 512 */
    uint32_t sends_max;
    uint32_t appends_max; /**< records not yet durable, power of two; default 4096, or more if
                               writes_max and scopes_max need it                                 */
    /** FULL nodes that a write needs; with fewer it is refused with SNIC_ENOQUORUM; reads
     * continue. Default: a majority of those that hold data (member.h). */
    uint32_t min_full;
    /** Nodes of a view that this one has memory for, itself too: default one more than configured,
     * at least 5; at most 16. The same at all. */
    uint32_t nodes_max;
    uint32_t pad; /**< 0                                                                    */
    uint64_t values_bytes; /**< memory for values: see above                                      */
    uint64_t background_ns; /**< records that no answer waits for (EVENT, SCOPE, RENF, MEMORY) are
                                 durable after so long at the latest (the loss window);
                                 default 100 ms                                                   */
    uint64_t retransmit_ns; /**< ddp.h; at least: see Times                                       */
    uint64_t replay_ns;     /**< likewise                                                         */
    struct snic_member_opts member; /**< its times and drift; the rest is filled in from here     */
    /** Its flags and sizes; record_max and window_ns are filled in from here. A new cluster's node
     * needs SNIC_WAL_CREATE. */
    struct snic_wal_opts wal;
    /** Something changed that info shows; from the loop, never inside a call. May be NULL. */
    void (*notify)(void *ctx);
    /** For traces and checkers; no call of this object in it. May be NULL. */
    void (*trace)(void *ctx, const struct snic_replica_trace *t);
    void *ctx;
    /** The engines' clock, called with `ctx`: ns that also count time suspended, are never set, and
     * run at a rate within member.drift_ppm. Called often. The log's windows and all waiting stay
     * the loop's. NULL: snic_loop_clock(). */
    uint64_t (*clock)(void *ctx);
    /** Bytes of values that may be on their way from one other node and not taken yet. A node keeps
     * twice as much memory for each other node, beside values_bytes. 0: 1 MiB; 64 KiB to 64 MiB */
    uint32_t window_bytes;
    uint32_t pad2; /**< 0                                                                     */
    /** Ciphers (ebs_sec.h; gcm_seal, gcm_open, gcm_rekey and mac are used), borrowed until fini;
     * NULL: nothing is encrypted, and any host that reaches the ports can send what it likes. The
     * same at all nodes. */
    const struct snic_ebs_sec_ops *sec;
    void *secret; /**< sec: the cluster's key, for mac; borrowed until fini                   */
    void *gcm;    /**< sec: a key of AES-128-GCM of this node's own, which it rekeys          */
    /** sec: random bytes that no other start of any node has. */
    unsigned char random[32];
    /** A record has a new value, or one that became readable (ddp.h, CHANGED). In the middle of a
     * step: only snic_replica_hold() and drop() may be called in it. May be NULL. */
    void (*changed)(void *ctx, const struct snic_replica_change *change);
    void *changed_ctx; /**< of changed                                                            */
};

/* ---- Operations ---- */

enum snic_replica_op_kind {
    SNIC_REPLICA_GET = 1, /**< key. 0 with ts and the value, or SNIC_ENOENT                       */
    SNIC_REPLICA_PUT, /**< key, data, scope (of snic_replica_scope, if the durability is SCOPE) */
    SNIC_REPLICA_DELETE, /**< key, scope                                                         */
    /** key, data, scope; ts: what a read gave, 0: only if absent. SNIC_ECANCELED: the key holds
     * something else, which comes with it as with GET; ts 0: it holds nothing now. data NULL:
     * delete. */
    SNIC_REPLICA_CAS,
    SNIC_REPLICA_SYNC /**< scope                                                                  */
};

enum {
    /** GET: the value is returned after a majority of the configured nodes has confirmed that this
     * node is a member, so that it is current whatever the clocks do. Its result may also be
     * SNIC_EAGAIN: no read was free then. */
    SNIC_REPLICA_OP_CONFIRM = 1 << 0
};

struct snic_replica_op;
typedef void (*snic_replica_done_fn)(struct snic_replica_op *op);

/** Zero it, fill in the first part, submit. */
struct snic_replica_op {
    struct snic_link link; /**< the node's while borrowed                                         */
    snic_replica_done_fn done;
    uint32_t kind; /**< enum snic_replica_op_kind                                                 */
    uint32_t size; /**< of data                                                                   */
    struct snic_ddp_key key;
    uint64_t scope;
    uint64_t ts; /**< CAS: what to compare with; out: of what was read or written             */
    const void *data; /**< copied by submit; out: what was read, borrowed until done returns, or as
                           long as `value` is held; NULL: nothing                                 */
    uint64_t value;   /**< out: handle of data                                                    */
    int32_t result;   /**< out: 0 or SNIC_E*, see ddp.h                                           */
    uint32_t state;   /**< the node's                                                             */
    uint32_t flags;   /**< SNIC_REPLICA_OP_CONFIRM                                                */
    uint8_t durability; /**< enum snic_ddp_durability: what the answer means, or of GET what it may
                             return                                                               */
    uint8_t pad;        /**< 0                                                                    */
    /** PUT, DELETE, CAS, SYNC: the fewest FULL members that the answer may stand for. Fewer at
     * submit: SNIC_ENOQUORUM; fewer when it is answered: SNIC_EUNKNOWN. 0: min_full of the node. */
    uint16_t copies_min;
    uint32_t copies; /**< out: of a write or SYNC, the FULL members that it was answered for      */
    const void *front; /**< PUT, CAS: bytes of the value before data, copied by submit; or NULL   */
    uint32_t front_size;
    uint32_t pad2; /**< 0                                                                         */
};

/* ---- Calls ---- */

/**
 * Which option is wrong, and how: "NAME: what", static; NULL when all are right. Those of `member`
 * are named without it. [any]
 */
SNIC_API const char *snic_replica_opts_wrong(const struct snic_replica_opts *opts) SNIC_NONNULL(1);
/** Records that there is room for (snic_ddp_records). 0 when an option is wrong. [any] */
SNIC_API uint32_t snic_replica_records(const struct snic_replica_opts *opts) SNIC_NONNULL(1);
/** Bytes of memory; 0 when an option is wrong (snic_replica_opts_wrong). [any] */
SNIC_API size_t snic_replica_memsize(const struct snic_replica_opts *opts) SNIC_NONNULL(1);
/**
 * Makes a node that begins to read its log, in @p mem, which is the node's until it has stopped.
 * Opens a listener and a datagram socket at its own address. @p opts is copied. [owner]
 * @return 0; SNIC_EINVAL an option is wrong, or @p mem is not aligned to SNIC_REPLICA_ALIGN;
 *         SNIC_ENOSPC @p mem_size is less than snic_replica_memsize(), or no socket left;
 *         SNIC_EADDRINUSE another socket has the address; SNIC_EACCES no permission for it;
 *         SNIC_ENOTSUP its family; SNIC_EPERM the log's device is a READONLY handle
 */
SNIC_API SNIC_NODISCARD int snic_replica_init(struct snic_replica **out, void *mem, size_t mem_size,
                                              const struct snic_replica_opts *opts)
    SNIC_NONNULL(1, 2, 4);
/**
 * Take no part any more, from now on: to the others it has crashed. Operations in flight are
 * answered with SNIC_EUNKNOWN (reads: SNIC_ESTALE) by the loop. Harmless when stopped. [owner]
 */
SNIC_API void snic_replica_stop(struct snic_replica *r) SNIC_NONNULL(1);
/**
 * Give the memory back, of one that was stopped. Its datagrams have left and its connections are
 * closed (the net handle was shut since, or the loop ran on); the log's handle is still open, and
 * may turn the loop.
 * Operations not yet answered never are. [owner]
 */
SNIC_API void *snic_replica_fini(struct snic_replica *r) SNIC_NONNULL(1);

/**
 * Begins an operation, which is borrowed until its `done` is called; after an error it is not. The
 * bytes of `data` are copied. [owner]
 * @return 0; SNIC_EAGAIN no value, write, read or scope is free, or (ddp.h) another operation on
 *         the key or scope is in its way; SNIC_ESTALE the node does not serve, or the scope is
 *         another node's or an earlier one's; SNIC_ENOSPC a new key, and keys_max exist, or (PUT,
 *         CAS; others only when very many wait) the log is full; SNIC_EMSGSIZE larger than
 *         value_max; SNIC_EINVAL an unknown kind, flag or durability, a flag or durability of
 *         another kind, a size without data, a scope without the durability SCOPE or none with it,
 *         or scopes_max is 0; SNIC_ENOQUORUM fewer FULL members than copies_min, or than min_full
 *         if that is 0
 */
SNIC_API SNIC_NODISCARD int snic_replica_submit(struct snic_replica *r, struct snic_replica_op *op)
    SNIC_NONNULL(1, 2);

/**
 * Durability SCOPE: a number for `scope` of PUT, DELETE and CAS, and of the SYNC that ends it. It
 * belongs to the part that this node has now: when the node was left out, or began again, what the
 * scope wrote may be lost (ddp.h), and its number is refused with SNIC_ESTALE, as is another
 * node's, and every number of a node that does not serve. A client that needs its writes repeats
 * them in a new scope. After 2^28 they begin anew; if two share one, it ends with the first SYNC.
 * [owner]
 */
SNIC_API uint64_t snic_replica_scope(struct snic_replica *r) SNIC_NONNULL(1);

/** A record as look and next give it. */
struct snic_replica_entry {
    struct snic_ddp_key key;
    uint64_t ts;
    const void *data; /**< borrowed until the loop runs on, or as long as value is held */
    uint32_t size;
    uint32_t record; /**< of peek and next: its number, below snic_replica_records() */
    uint64_t value;
};
/**
 * A read at once. [owner]
 * @return 0 and @p out; SNIC_ENOENT no such key; SNIC_EAGAIN the key is being written: GET waits
 * for it; SNIC_ESTALE the node does not serve
 */
SNIC_API SNIC_NODISCARD int snic_replica_look(const struct snic_replica *r,
                                              const struct snic_ddp_key *key,
                                              struct snic_replica_entry *out) SNIC_NONNULL(1, 2, 3);
/**
 * @p n such reads: results[i] and, where that is 0, out[i] are those of keys[i]. What they need of
 * memory is fetched at the same time. [owner]
 */
SNIC_API void snic_replica_look_many(const struct snic_replica *r, const struct snic_ddp_key *keys,
                                     uint32_t n, struct snic_replica_entry *out, int *results)
    SNIC_NONNULL(1, 2, 4, 5);
/**
 * What the node has of a key now, whether it serves or not, and locked or not: data NULL is a
 * deletion. What is locked may still be replaced without ever having been readable. For what must
 * be carried from the local record to the write that replaces it (submit in the same call). [owner]
 * @return 0 and @p out; SNIC_ENOENT no record; SNIC_ESTALE the node does not run
 */
SNIC_API SNIC_NODISCARD int snic_replica_peek(const struct snic_replica *r,
                                              const struct snic_ddp_key *key,
                                              struct snic_replica_entry *out) SNIC_NONNULL(1, 2, 3);
/**
 * The next key, in no order. *@p cursor begins as 0. Keys that are present all the time are
 * returned once. This is no snapshot: each value is the one of its call. One that is being written
 * has data NULL: GET it. [owner]
 * @return 0 and @p out; SNIC_ENOENT there are no more; SNIC_ESTALE the node does not serve
 */
SNIC_API SNIC_NODISCARD int snic_replica_next(const struct snic_replica *r, uint64_t *cursor,
                                              struct snic_replica_entry *out) SNIC_NONNULL(1, 2, 3);
/** 1: would take a read now. [owner] */
SNIC_API int snic_replica_serves(const struct snic_replica *r) SNIC_NONNULL(1);
/** The FULL members of the last membership that it knows, one bit each. [owner] */
SNIC_API uint16_t snic_replica_full(const struct snic_replica *r) SNIC_NONNULL(1);
/** The bytes of a value that is held, or whose change is the last of its record. [owner] */
SNIC_API const void *snic_replica_value(const struct snic_replica *r, uint64_t value,
                                        uint32_t *size) SNIC_NONNULL(1, 3);
/** One more reference to a value of an operation or entry, whose bytes stay until drop. [owner] */
SNIC_API void snic_replica_hold(struct snic_replica *r, uint64_t value) SNIC_NONNULL(1);
/** One reference less. Each hold has one drop (asserted). [owner] */
SNIC_API void snic_replica_drop(struct snic_replica *r, uint64_t value) SNIC_NONNULL(1);

/**
 * An operator's statement that the nodes of @p ended have ended for ever, and whether a restart may
 * use logs that are not good (member.h, OVERRIDE). [owner]
 * @return 0; SNIC_EAGAIN the node has not booted; SNIC_EINVAL @p ended has the own node, or one
 * that is not configured
 */
SNIC_API SNIC_NODISCARD int snic_replica_override(struct snic_replica *r, uint16_t ended,
                                                  int any_log) SNIC_NONNULL(1);

/** Zero it, fill it in. */
struct snic_replica_request {
    uint32_t kind;  /**< enum snic_member_change                                                  */
    uint32_t node;  /**< not the own one                                                          */
    uint32_t flags; /**< SNIC_MEMBER_WITNESS, of ADD                                              */
    /** That of the view it is meant for (stats, member.view), so that a request that is repeated
     * does no harm; 0: any. */
    uint32_t config_epoch;
    const struct snic_net_addr *addr; /**< ADD; REPLACE: NULL, the same. No UNIX path; copied */
    /** ADD, REPLACE: where clients reach the node, for the embedder: a view keeps it beside addr,
     * see snic_replica_client_addr(). With an address of IPv6 it has the same host. NULL: none;
     * REPLACE without addr: the same as before. Copied */
    const struct snic_net_addr *client_addr;
};
/**
 * An operator's request to add, remove or replace one node (member.h, Configuration), at any FULL
 * one. It is complete when a later view has it and nothing is vacant in that: stats, `member`. The
 * new node is started without FOUND, with an empty log. [owner]
 * @return 0; SNIC_EAGAIN the node has not booted; SNIC_ESTALE it is not FULL, has stopped, or the
 *         configuration is another one by now; SNIC_EBUSY the last change is not complete;
 *         SNIC_EEXIST, SNIC_ENOENT the node is configured, or is not, or there is a witness;
 *         SNIC_ENOQUORUM no majority of voters would be heard, or no FULL node left; SNIC_ENOSPC
 *         nodes_max are configured; SNIC_EINVAL kind, node, flags or an address make no sense
 */
SNIC_API SNIC_NODISCARD int snic_replica_reconfigure(struct snic_replica *r,
                                                     const struct snic_replica_request *c)
    SNIC_NONNULL(1, 2);
/**
 * Where clients reach a node of a view: client_addr of the request that added or replaced it. [any]
 * @return 0 and @p out; SNIC_ENOENT there was none; SNIC_EINVAL @p node is out of range
 */
SNIC_API SNIC_NODISCARD int snic_replica_client_addr(const struct snic_member_view *v,
                                                     uint32_t node, struct snic_net_addr *out)
    SNIC_NONNULL(1, 3);

enum snic_replica_state {
    SNIC_REPLICA_READING = 0, /**< its log                                                        */
    SNIC_REPLICA_RUNNING,
    SNIC_REPLICA_STOPPED /**< by stop, or by the error `failure`                                  */
};

struct snic_replica_stats {
    uint32_t state; /**< enum snic_replica_state                                                  */
    int32_t failure;
    uint32_t serves;   /**< 1: would take a read now                                              */
    uint32_t writable; /**< 1: serves, and min_full nodes are FULL: would take a write now        */
    uint32_t full;     /**< FULL nodes of the view                                                */
    uint32_t min_full; /**< that a write needs                                                    */
    uint32_t log_good; /**< 0: suspect (ddp.h's A8: member.h, LOG_GOOD)                           */
    uint32_t found_ignored; /**< 1: SNIC_REPLICA_FOUND was set, and the log shows an earlier run  */
    uint32_t ops;    /**< in flight                                                             */
    uint32_t values; /**< alive                                                                 */
    uint64_t values_bytes;
    uint64_t events;  /**< passed to the two engines                                            */
    uint64_t packets; /**< received                                                             */
    uint64_t refused; /**< of them: no packet of ours, or damaged                               */
    uint64_t lost_sends; /**< not sent for want of room                                           */
    uint64_t no_room;   /**< messages dropped for want of memory or log                           */
    uint64_t no_quorum; /**< operations refused with SNIC_ENOQUORUM                               */
    uint64_t wrong_cluster; /**< connections and datagrams refused: of another cluster            */
    uint64_t wrong_version; /**< likewise: no version of the wire in common                       */
    uint64_t wrong_key;     /**< likewise: not under this cluster's key                           */
    struct snic_wal_info wal;
    struct snic_ddp_stats ddp;
    struct snic_member_status member;
};
/** What a node knows of another one. */
enum snic_replica_peer_state {
    SNIC_REPLICA_PEER_DOWN = 0,   /**< no connection; the next attempt follows by itself         */
    SNIC_REPLICA_PEER_CONNECTING, /**< a connection, but no agreement on it yet                  */
    SNIC_REPLICA_PEER_UP
};
struct snic_replica_peer_stats {
    uint32_t state;   /**< enum snic_replica_peer_state                                          */
    uint32_t version; /**< of the wire, UP                                                       */
    /** Why the last connection was refused, without `sec` also the last datagram: "cluster: ...",
     * "version: ...", "key: ...", static; NULL: none was since the last that was taken. */
    const char *refusal;
    uint64_t rtt_ns;         /**< a round trip of heartbeats, smoothed; 0: not measured yet       */
    uint64_t flush_ns;       /**< how long its log takes to flush, by its own report              */
    uint64_t heard_ns;       /**< engines' clock at the last datagram from it; 0: none            */
    uint32_t queued;         /**< messages that wait for its window                               */
    uint32_t unacknowledged; /**< messages sent that it has not taken yet                         */
    uint64_t queued_bytes;   /**< of values, likewise                                             */
    uint64_t sent;           /**< messages put on connections                                     */
    uint64_t sent_bytes;
    uint64_t received; /**< messages taken                                                  */
    uint64_t repeats;  /**< not sent, since the same message was under way                  */
    uint64_t lost;     /**< dropped: no connection, or it broke, or the queue was full      */
    uint64_t connects; /**< connections agreed on                                           */
    uint64_t stalls;   /**< how often its values waited here for memory or the log          */
};
/**
 * State and counters of the path to @p node, as of now. [owner]
 * @return 0; SNIC_EINVAL it is not configured, or this node
 */
SNIC_API SNIC_NODISCARD int snic_replica_get_peer(const struct snic_replica *r, uint32_t node,
                                                  struct snic_replica_peer_stats *out)
    SNIC_NONNULL(1, 3);
/** State and counters as of now. [owner] */
SNIC_API void snic_replica_get_stats(const struct snic_replica *r, struct snic_replica_stats *out)
    SNIC_NONNULL(1, 2);
/**
 * Checks every invariant, the engines' too. O(n). For tests. [owner]
 * @return 0; SNIC_ECORRUPT one does not hold
 */
SNIC_API int snic_replica_check(const struct snic_replica *r) SNIC_NONNULL(1);

#ifdef __cplusplus
}
#endif
#endif /* SNIC_REPLICA_H */
