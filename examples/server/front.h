/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/**
 * @file server/front.h
 * Clients' connections of a monolith: what the director does on the DPU, for an engine that owns
 * its sockets. Frames messages with the same functions as the director, keeps replies in the order
 * of the requests where the protocol wants it, bounds memory per connection.
 *
 * Threads     The loop's.
 */
#ifndef EX_SERVER_FRONT_H
#define EX_SERVER_FRONT_H

#include "config.h"

struct ex_front;

/** Why a client that does not read its replies is closed. */
enum ex_front_limit { EX_FRONT_CONN, EX_FRONT_TOTAL, EX_FRONT_LIMITS };

/** Bytes of replies that clients have not read; 0: no limit. */
struct ex_front_limits {
    uint64_t hard;    /**< a client that holds so much is not read from                        */
    uint64_t hard_ns; /**< and closed when it takes nothing for so long; 0: not                */
    uint64_t soft;    /**< above it a client is closed when it takes nothing                   */
    uint64_t soft_ns; /**< for so long                                                         */
    uint64_t total;   /**< above it, for all clients, the one with most is closed              */
};

struct ex_front_opts {
    const struct ex_server *server; /**< listen, conns_max (to 65536), timeout_s               */
    struct snic_net *net;
    uint32_t listen_flags; /**< of snic_net_listen()                                            */
    int in_order;          /**< replies leave in the order of the requests                      */
    uint32_t pending_max;  /**< power of two: messages of a connection that are not answered    */
    struct ex_front_limits limits;
    /** Names of the limits in the log; where none of them is set, not needed. */
    const char *limit_names[EX_FRONT_LIMITS];
    /** frame(), protocol_error() and full() are called, as by the director; a protocol_error()
        without text resets the connection. */
    struct snic_director_user user;
    /** @return 1: no other message of this client is taken until this one is answered;
        EX_FRONT_LATER: nor this one: it is passed again, and the client not read from, after
        ex_front_resume(); else 0 */
    int (*message)(void *ctx, uint64_t client, uint64_t seq, const unsigned char *msg, size_t size);
    void (*closed)(void *ctx, uint64_t client); /**< may be NULL                               */
    /** May be NULL: before replies leave, in each iteration with messages. What message() has put
        off is answered here. */
    void (*settle)(void *ctx);
    void (*second)(void *ctx); /**< may be NULL: once a second                */
    void *ctx;
};

struct ex_front_stats {
    uint64_t conns, messages, protocol_errors, oversized, pauses;
    uint64_t refused;                  /**< beyond conns_max                                   */
    uint64_t idle_closed;              /**< after timeout_s                                    */
    uint64_t limited[EX_FRONT_LIMITS]; /**< closed for a limit                                 */
};

struct ex_front_facts {
    char peer[48]; /**< addresses of its two ends                                              */
    char own[48];
    size_t query_bytes; /**< of an unfinished message                                          */
    size_t query_memory;
    size_t out_bytes;    /**< replies before their turn                                        */
    uint32_t out_blocks; /**< of those that can be sent                                        */
    size_t out_memory;   /**< of all its replies                                               */
};

#define EX_FRONT_CLOSE 1u /**< a reply's flag: close when it is sent                           */
#define EX_FRONT_MOVED ((size_t)16 << 10) /**< bytes of a piece: see ex_front_move()           */
#define EX_FRONT_LATER 2 /**< of message(): there is no room for it                          */

/** @return 0, SNIC_E* of snic_net_listen(), SNIC_ENOMEM */
int ex_front_open(struct ex_front **out, const struct ex_front_opts *o,
                  struct snic_net_addr *bound);
void ex_front_set_limits(struct ex_front *f, const struct ex_front_limits *l);
/** The total of limits does not close this client. */
void ex_front_no_evict(struct ex_front *f, uint64_t client, int on);
/** @return 1; 0 there is no such client */
int ex_front_get_facts(struct ex_front *f, uint64_t client, struct ex_front_facts *out);
/** Reset a connection. @return 1; 0 there is no such client */
int ex_front_kill(struct ex_front *f, uint64_t client);
/** Copy the reply to message @p seq; one to a client that has gone is dropped. */
void ex_front_reply(struct ex_front *f, uint64_t client, uint64_t seq, const struct snic_iov *iov,
                    uint32_t count, uint32_t flags);
/** The same; pieces of EX_FRONT_MOVED bytes and more have to be of malloc(), and are not copied:
 * the base of one that was taken is NULL then, the others are still the caller's. */
void ex_front_move(struct ex_front *f, uint64_t client, uint64_t seq, struct snic_iov *iov,
                   uint32_t count, uint32_t flags);
/** Pass the messages again that message() has put off, the oldest first; soon, from the loop. */
void ex_front_resume(struct ex_front *f);
/** Bytes that are no message's reply, between replies; to a client that has gone they are dropped.
 * @return bytes that it has not taken yet */
size_t ex_front_push(struct ex_front *f, uint64_t client, const void *data, size_t size);
/** Bytes that a client has not taken yet. */
size_t ex_front_unsent(struct ex_front *f, uint64_t client);
/** Stop accepting and reading, send what is answered, close; then done(ctx). A client that takes
 * nothing of it for ten seconds is reset. */
void ex_front_drain(struct ex_front *f, void (*done)(void *ctx), void *ctx);
/** After the drain. */
void ex_front_close(struct ex_front *f);
void ex_front_get_stats(const struct ex_front *f, struct ex_front_stats *out);

#endif
