/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/**
 * @file snicstore/storeclient.h
 * A client of a replicated store (store.h) that several nodes serve over streams: finds the nodes,
 * prefers the nearest one, tries another when one fails, and executes each write once.
 *
 * Depends on  snicstore/base.h, loop.h, net.h, ddp.h, store.h (its constants only).
 * Memory      Caller-owned: memsize, init; nothing is allocated afterwards. Operations, their keys
 *             and buffers are the caller's, borrowed from an accepted submit until `done`.
 * Threads     [owner] the thread of the loop.
 * Progress    No call blocks. submit is O(operations on the same key that are under way).
 * Errors      0 on success, a negative SNIC_E* otherwise.
 * Units       ns, bytes.
 * Input       replies are hostile: a malformed one ends its connection, and memory is bounded.
 *
 * Nodes. The client begins with the addresses in its options, connects to all, and asks each for
 * the addresses of the others, again and again, so that it finds those that are added. Once per
 * probe_ns it measures every node's round trip. An operation goes to the node with the shortest one
 * that serves and is not late; every node can take every operation.
 *
 * Retries. An attempt without an answer within attempt_ns, or whose connection ended, is made again
 * at another node, until timeout_ns have passed since submit. Reads can be repeated as they are.
 * Writes carry a session (store.h): `client` and a sequence that this object draws, so that an
 * attempt that was executed is not executed again. Writes of one client to one key are sent one
 * after the other, as sessions need.
 *
 * Outcomes, by result:
 *
 *  - 0, SNIC_ENOENT, SNIC_ECANCELED, SNIC_EEXIST and others: the answer. The operation was executed
 *    once, or had no effect and will have none.
 *  - SNIC_EUNKNOWN: a write that was sent and may be executed, once, now or later, or never. The
 *    time is over, the bound of the sessions was reached (store.h), or a retry found its condition
 *    not fulfilled while an earlier attempt was not answered.
 *  - SNIC_ETIMEDOUT, SNIC_ESTALE, SNIC_EAGAIN, SNIC_ENOQUORUM: nothing was written and nothing will
 *    be.
 *
 *    They name the last refusal of the nodes, for which the client tried until the time was over:
 *    ENOQUORUM fewer nodes than needed have all keys; ESTALE none serves (no majority is heard, or
 *    it learns); EAGAIN a node was busy, or had no memory; ETIMEDOUT no node answered at all.
 *
 * snic_storeclient_result_text() has the words for messages: those of snic_strerror() are of other
 * uses of the numbers.
 *
 * The protocol is RESP (the Redis protocol) with the command STORE, which examples/ddp_server
 * serves; its README describes the command. Scopes belong to one node and are not offered here.
 */
#ifndef SNIC_STORECLIENT_H
#define SNIC_STORECLIENT_H

#include "snicstore/base.h"
#include "snicstore/ddp.h"
#include "snicstore/loop.h"
#include "snicstore/net.h"
#include "snicstore/store.h"

#ifdef __cplusplus
extern "C" {
#endif

/** Lives in caller memory; not to be moved. */
struct snic_storeclient;

#define SNIC_STORECLIENT_ALIGN SNIC_CACHELINE
/** Nodes that a client knows at most: one that cannot be reached and that no node names any more
 * gives its place to another. */
#define SNIC_STORECLIENT_NODES_MAX 16
/** Bytes of the longest password. */
#define SNIC_STORECLIENT_PASSWORD_MAX 255

/** Zero it, set what has no default. */
struct snic_storeclient_opts {
    uint32_t opts_size;
    uint32_t flags; /**< 0                                                                       */
    struct snic_loop *loop;
    struct snic_net *net;              /**< with streams, on that loop                           */
    const struct snic_net_addr *addrs; /**< of nodes, to begin with; copied                      */
    uint32_t addr_count;               /**< 1..SNIC_STORECLIENT_NODES_MAX                        */
    uint32_t ops_max;                  /**< operations at a time; default 256, at most 65536     */
    /** A number that no other client has or had; not 0. 64 random bits, drawn at each start. */
    uint64_t client;
    const char *password; /**< sent as AUTH; NULL: none. Copied                                  */
    uint64_t timeout_ns;  /**< of an operation; default 10 s                                     */
    uint64_t attempt_ns;  /**< without an answer for so long: another node; default 1 s          */
    uint64_t probe_ns;    /**< between two measurements of a node; default 1 s                   */
    uint64_t retry_ns;    /**< before a refused attempt is made again; default 10 ms             */
};

/* ---- Operations ---- */

struct snic_storeclient_op;
typedef void (*snic_storeclient_done_fn)(struct snic_storeclient_op *op);

/** Zero it, fill in the first part, submit. */
struct snic_storeclient_op {
    snic_storeclient_done_fn done;
    uint32_t kind;    /**< SNIC_STORE_GET, PUT, DELETE or EXPIRE                               */
    uint32_t flags;   /**< SNIC_STORE_KEEP_TTL, SNIC_STORE_CONFIRM                             */
    const void *key;  /**< borrowed until done                                                 */
    const void *data; /**< PUT: borrowed until done                                            */
    void *out;        /**< where a value that is returned goes; may be NULL with out_max 0     */
    uint32_t key_size;
    uint32_t size; /**< of data                                                             */
    uint32_t out_max;
    uint32_t condition;  /**< enum snic_store_condition                                           */
    uint32_t durability; /**< enum snic_ddp_durability, but SCOPE                                 */
    uint32_t copies_min; /**< store.h                                                             */
    uint64_t version;    /**< IF_VERSION; out: of what was read or written, 0: nothing            */
    uint64_t ttl_ns;     /**< PUT, EXPIRE: whole ms; out: what is left, 0: none                   */
    uint64_t timeout_ns; /**< 0: the client's                                                     */
    void *ctx;
    uint32_t out_size; /**< out: of the value, which may be more than out_max                   */
    uint32_t copies;   /**< out: FULL copies that the answer stands for                         */
    uint32_t attempts; /**< out: made                                                           */
    int32_t result;    /**< out                                                                 */

    /* The client's. */
    struct snic_storeclient *owner;
    struct snic_link link;   /* on the list of its state */
    struct snic_link bucket; /* of writes: by key */
    struct snic_link attempts_list;
    struct snic_storeclient_op *behind; /* the next write to the key */
    struct snic_timer timer;
    uint64_t sequence;
    uint64_t seen;
    uint64_t begun_ns;
    uint64_t deadline_ns;
    uint64_t hash;
    uint32_t unanswered; /* attempts of which it is not known whether they were executed */
    uint32_t unsent;     /* attempts whose bytes are not all sent */
    uint32_t tried;      /* nodes */
    int32_t refusal;     /* the last */
    uint32_t state;
    int32_t ending;
};

/* ---- Calls ---- */

/** Which option is wrong, and how: "NAME: what", static; NULL when all are right. [any] */
SNIC_API const char *snic_storeclient_opts_wrong(const struct snic_storeclient_opts *opts)
    SNIC_NONNULL(1);
/** Bytes of memory; 0 when an option is wrong (snic_storeclient_opts_wrong). [any] */
SNIC_API size_t snic_storeclient_memsize(const struct snic_storeclient_opts *opts) SNIC_NONNULL(1);
/**
 * Makes a client in @p mem, which is the client's until fini, and begins to connect. @p opts is
 * copied. [owner]
 * @return 0; SNIC_EINVAL an option is wrong, or @p mem is not aligned to SNIC_STORECLIENT_ALIGN;
 *         SNIC_ENOSPC @p mem_size is less than snic_storeclient_memsize()
 */
SNIC_API SNIC_NODISCARD int snic_storeclient_init(struct snic_storeclient **out, void *mem,
                                                  size_t mem_size,
                                                  const struct snic_storeclient_opts *opts)
    SNIC_NONNULL(1, 2, 4);
/**
 * Ends all connections. Operations under way are answered by the loop: reads, and writes that were
 * not sent, with SNIC_ECANCELED, other writes with SNIC_EUNKNOWN. Harmless when stopped. [owner]
 */
SNIC_API void snic_storeclient_stop(struct snic_storeclient *c) SNIC_NONNULL(1);
/** 1: stopped, all operations are answered and all connections are closed: fini may follow. [owner]
 */
SNIC_API int snic_storeclient_idle(const struct snic_storeclient *c) SNIC_NONNULL(1);
/** Gives the memory back, of one that is idle (asserted). [owner] */
SNIC_API void *snic_storeclient_fini(struct snic_storeclient *c) SNIC_NONNULL(1);

/**
 * Begins an operation, which is borrowed until its `done` is called, from the loop, never inside a
 * call; after an error it is not. `done` may submit. Results in `done`: see "Outcomes" above; also
 * SNIC_EMSGSIZE a value that is returned is longer than out_max (out_size is its size, out has its
 * beginning; the operation was executed), or one that the nodes do not take; SNIC_EACCES the nodes
 * do not accept the password; SNIC_EPROTO a node does not know the command. [owner]
 * @return 0; SNIC_EAGAIN ops_max operations are under way; SNIC_ESTALE the client was stopped;
 *         SNIC_EINVAL an unknown kind, flag, condition or durability, a key, data or out that is
 *         NULL with a size, a ttl that is no whole number of ms, an option that the kind does not
 *         have; SNIC_EMSGSIZE the key or the value is larger than any store takes
 */
SNIC_API SNIC_NODISCARD int snic_storeclient_submit(struct snic_storeclient *c,
                                                    struct snic_storeclient_op *op)
    SNIC_NONNULL(1, 2);

/** What a `result` means here, for a message: static, without a full stop. A number that is no
 * result of an operation has the text of snic_strerror(). [any] */
SNIC_API const char *snic_storeclient_result_text(int result);

struct snic_storeclient_node {
    struct snic_net_addr addr;
    uint32_t connected; /**< 1: and greeted                                                      */
    uint32_t serves;    /**< 1: by its last answer                                               */
    uint64_t rtt_ns;    /**< smoothed round trip of a probe; 0: not measured                     */
    uint64_t attempts;  /**< sent to it                                                          */
    uint32_t late;      /**< attempts that it has not answered within attempt_ns                 */
    uint32_t pad;
};
struct snic_storeclient_stats {
    uint32_t ops;   /**< under way                                                               */
    uint32_t nodes; /**< known                                                                   */
    uint64_t answered;
    uint64_t attempts;
    uint64_t retries;   /**< attempts but the first                                              */
    uint64_t unknown;   /**< operations answered with SNIC_EUNKNOWN                              */
    uint64_t repeated;  /**< answers that an earlier attempt had been executed                   */
    uint64_t malformed; /**< replies; each ended a connection                                    */
    uint64_t broken;    /**< connections that ended, or were not made                            */
    struct snic_storeclient_node node[SNIC_STORECLIENT_NODES_MAX];
};
/** As of now. [owner] */
SNIC_API void snic_storeclient_get_stats(const struct snic_storeclient *c,
                                         struct snic_storeclient_stats *out) SNIC_NONNULL(1, 2);
/**
 * Checks every invariant. O(operations). For tests. [owner]
 * @return 0; SNIC_ECORRUPT one does not hold
 */
SNIC_API int snic_storeclient_check(const struct snic_storeclient *c) SNIC_NONNULL(1);

#ifdef __cplusplus
}
#endif
#endif /* SNIC_STORECLIENT_H */
