/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/**
 * @file snicstore/director.h
 * The traffic director: a TCP-splitting proxy that answers what the offload
 * engine can and sends the rest to the host, in the order the protocol needs
 * (DDS section 5).
 *
 * Depends on  snicstore/base.h, loop.h, net.h, channel.h, offload.h.
 * Memory      The caller supplies it at init; bounded per connection. The host
 *             end takes its own from snic_dma_alloc() of its hub's link.
 * Threads     [owner]: the loop's thread (DPU side); the host end lives on the
 *             host's loop.
 * Progress    No call blocks.
 * Errors      0 or a positive count on success, a negative SNIC_E* otherwise.
 * Units       bytes.
 * Input       hostile: clients, and the host's ring.
 *
 * Rules per connection
 * - Messages are cut by the user's framer and classified by the predicate.
 * - While a BARRIER message (a write) of this connection is with the host, what
 *   could be offloaded goes to the host too, an ANSWER waits and is then decided
 *   anew, and a BARRIER message waits for the offloaded reads before it: a client
 *   sees its own writes, and none too early. Reads that are outstanding together
 *   are not ordered among each other.
 * - A message is classified, offloaded and sent to the host with the connection's
 *   user word as the messages before it left it: what the predicate changes counts
 *   from the next message on; what a reply of the host changes
 *   (SNIC_DIRECTOR_REPLY_USER) from the next one that is classified, which is the
 *   next one of all if the message was a SWITCH.
 * - Replies leave in the order of the requests (SNIC_DIRECTOR_IN_ORDER) or as
 *   they come, never mixed (protocols with request ids).
 * - A connection has at most pending_max messages under way, and stops reading
 *   when it holds conn_bytes of replies that its client does not take, or a quarter
 *   of what is left of the memory shared by all. Its replies that the host has sent
 *   by then are kept there. If that runs out, the host is not heard until there is
 *   room again (stalls), and of the connections that hold some and moved less than
 *   64 KiB for stall_ms (an eighth of it, when memory has been short for so long)
 *   the one that holds most is reset, until there is room (hog_resets). The same
 *   for a client that stops in the middle of a long message while others wait for
 *   the memory it holds.
 * - Of the messages that the host and the engine work on (flight_bytes), a connection
 *   has at most as many bytes as are free: many large requests of one client do not
 *   stand before the small ones of others.
 * - The offload engine's pool and its contexts are shared the same way: what a
 *   connection reads, and what its client does not take, is at most about a quarter
 *   of what is free there; beyond, its messages wait. Where half of the pool or of the
 *   contexts is in use, replies are copied out of it (copied_out).
 *
 * When the host dies (channel upstream), its unanswered messages are answered
 * with host_gone(), in order; a client that has already got part of such a reply
 * is reset. Offloading continues. A new host takes over: replies of the
 * old one can not reach it. With a net upstream each client has its own host
 * connection: one that cannot be made answers host_gone(); one that ends ends
 * its client's, after the replies received before.
 */
#ifndef SNIC_DIRECTOR_H
#define SNIC_DIRECTOR_H

#include "snicstore/base.h"
#include "snicstore/channel.h"
#include "snicstore/loop.h"
#include "snicstore/net.h"
#include "snicstore/offload.h"

#ifdef __cplusplus
extern "C" {
#endif

struct snic_director;
struct snic_director_conn;

#define SNIC_DIRECTOR_ALIGN 4096

/** Bytes of a message that are kept for host_gone(). */
#define SNIC_DIRECTOR_KEPT 32

/** The kind of channel that snic_director_host_open() opens. */
#define SNIC_DIRECTOR_CHANNEL_KIND 0x44495245u

/**
 * Results of frame() for a message that is too large but understood, so that the
 * connection lives on. DROP: the first @p n bytes (>= 1) are dropped, the message
 * continues behind them, *state is kept. REFUSE: the message ends with the first
 * @p n bytes (>= 0); it is answered with protocol_error(SNIC_EMSGSIZE).
 */
#define SNIC_DIRECTOR_DROP(n) (-((int64_t)1 << 40) - (int64_t)(n))
#define SNIC_DIRECTOR_REFUSE(n) (-((int64_t)1 << 41) - (int64_t)(n))

/** The predicate's verdict for one message. */
enum snic_director_route {
    SNIC_DIRECTOR_HOST = 0,    /**< to the host                                            */
    SNIC_DIRECTOR_BARRIER = 1, /**< to the host; until its reply, everything goes there    */
    SNIC_DIRECTOR_DPU = 2,     /**< to the offload engine                                  */
    SNIC_DIRECTOR_ANSWER = 3,  /**< answered by the predicate itself (reply text)          */
    SNIC_DIRECTOR_CLOSE = 4,   /**< answered with reply text, then closed (protocol error) */
    /**
     * As BARRIER; the host's reply may change the user word, so that later messages of the
     * connection are classified only behind it. Not needed where the host keeps the word of each
     * connection itself (from `conn` and `closed`), and the predicate needs none.
     */
    SNIC_DIRECTOR_SWITCH = 5
};

struct snic_director_verdict {
    enum snic_director_route route;
    uint32_t flags;      /**< handed to the offload functions                        */
    uint32_t reply_size; /**< ANSWER, CLOSE                                          */
    char reply[512];
};

struct snic_director_user {
    /**
     * Cut the first message off @p data. @p state is the connection's own word
     * for the framer's progress, 0 at the start of each message.
     * Called again with the same bytes and more until the message is whole.
     * @return its size; 0: more bytes are needed; SNIC_EPROTO: broken, SNIC_EMSGSIZE: too
     *         large: answered with protocol_error() and closed; SNIC_DIRECTOR_DROP(n) or
     *         SNIC_DIRECTOR_REFUSE(n)
     */
    int64_t (*frame)(void *ctx, const unsigned char *data, size_t size, uint64_t *state);
    /**
     * Decide on one message, called once for each, and once more where ANSWER had to wait for a
     * barrier (with *conn_user as it was); may change *conn_user (as for
     * SELECT). No system calls. @p out comes with route HOST, flags and reply_size 0;
     * reply is undefined.
     */
    void (*predicate)(void *ctx, struct snic_offload *o, uint64_t *conn_user,
                      const unsigned char *msg, uint32_t size, struct snic_director_verdict *out);
    /** Text for a framing error (frame() returned @p error); @return bytes written <= max. */
    uint32_t (*protocol_error)(void *ctx, int error, const unsigned char *data, size_t size,
                               char *out, uint32_t max);
    /**
     * Text for a message whose host is not there. @p msg is NULL when the host had
     * got it before it died (done or not done); without SNIC_DIRECTOR_IN_ORDER it is
     * then the message's first SNIC_DIRECTOR_KEPT bytes, where its id should be.
     * @return bytes written <= max
     */
    uint32_t (*host_gone)(void *ctx, const unsigned char *msg, uint32_t size, char *out,
                          uint32_t max);
    void *ctx;
    /**
     * Net upstream: scan the host's bytes for the end of one reply. @p state is 0 at
     * its start. @return bytes of @p data that belong to it, consumed now (they need
     * not come again); 0: more contiguous bytes are needed (at most 4000); SNIC_EPROTO.
     * @p done: set to 1 when the reply ends there. NULL: a net upstream's connections
     * are passed through untouched.
     */
    int64_t (*frame_reply)(void *ctx, const unsigned char *data, size_t size, uint64_t *state,
                           int *done);
    /**
     * Text for a client beyond conns_max, sent before its connection is closed (to 16 at once:
     * net's conns_max should be larger by these; others are reset). NULL: all are reset.
     * @return bytes written <= max
     */
    uint32_t (*full)(void *ctx, char *out, uint32_t max);
};

/** Flows of interest: zero fields are wildcards. Others are passed through untouched. */
struct snic_director_signature {
    struct snic_net_addr client; /**< family 0: any; port 0: any; IP all zero: any        */
    uint32_t client_prefix;      /**< bits of client.ip that must match, 0: all or none   */
};

#define SNIC_DIRECTOR_IN_ORDER (1u << 0)

struct snic_director_opts {
    uint32_t opts_size;
    uint32_t flags;     /**< SNIC_DIRECTOR_IN_ORDER                                      */
    uint32_t conns_max; /**< default 1024; more are refused, with the text of full()     */
    /**
     * Largest message, at most 1 GiB; default 9 MiB. Longer ones end with SNIC_EMSGSIZE. Those that
     * the offload engine keeps (its message_max) may have any of these lengths, but with a net
     * upstream what is longer than 16352 bytes is not offloaded. The limit of the host at a channel
     * counts where it is smaller (stats.message_max), from its attachment to the next host's.
     */
    uint32_t message_max;
    uint32_t pending_max; /**< messages of one connection under way; default 1024          */
    uint32_t conn_bytes;  /**< bytes one connection may hold besides one message; default 1 MiB */
    /**
     * Bytes of the deficit round robin's quantum, each message counted with 64 more; default 16384.
     * A client waits for at most one of each other client. At a channel, for 10 ms after a message
     * of a client with fewer than 8 under way, connections with 8 or more wait while 128 messages
     * are queued at the host: its next message is queued behind these, a quantum, and 8 of each
     * connection. Smaller quanta make smaller batches: 4096 costs 40 % of the rate of messages up
     * to 1 KiB.
     */
    uint32_t quantum;
    uint32_t signatures_count; /**< 0: every flow is of interest                            */
    const struct snic_director_signature *signatures; /**< copied                           */
    /**
     * Replies on their way and messages longer than a buffer live here, shared by all
     * connections. 2 * message_max + 3 MiB + 12 KiB for each of conns_max is enough to
     * begin with; default 64 MiB, or twice that where it is more. A long message holds what has
     * arrived of it and at most a quarter more, rounded up to 4 KiB; one above 64 KiB that would be
     * more than a quarter of what is free holds message_max.
     */
    uint64_t pool_bytes;
    uint32_t stall_ms; /**< see above; default 1000                                     */
    uint32_t drain_ms; /**< what is not finished by then is reset; default 5000         */
    /**
     * Connections on which nothing was under way, received or sent for so long are closed
     * (idle_closed), an unfinished message with them; one that is passed through, together with
     * its host's end. 0, the default: never.
     */
    uint32_t idle_ms;
    /**
     * Bytes that the host and the offload engine work on at once: messages, each with 64 more, and
     * their replies, which are expected to be as large as the recent large ones of their
     * connection. A connection may have as much of it as is free, a quantum and one message at
     * least. A client's message waits for no more than that of others, however many they send.
     * Of connections that hold more than 1 MiB of replies, because their clients do not read, all
     * together have half of it or one message at most, one behind the other; not with a host at a
     * net connection. While replies of more than flight_bytes are held, a new connection begins
     * with one message.
     * The less it is, the sooner clients are answered that need less than an equal part of what
     * the host and the engine can do, and the later those that need more while others flood: 1 MiB
     * is 128 reads of 8 KiB, about what a disk works on at once.
     * Default 16 MiB, at most 1 GiB.
     */
    uint32_t flight_bytes;
};

/** Which option is wrong, and how: "NAME: what", static; NULL when all are right. [any] */
SNIC_API const char *snic_director_opts_wrong(const struct snic_director_opts *o) SNIC_NONNULL(1);
/** Bytes for init, or 0 when @p o is invalid. [any] */
SNIC_API size_t snic_director_memsize(const struct snic_director_opts *o) SNIC_NONNULL(1);
/**
 * @p offload may be NULL: everything goes to the host. @p net and @p offload are borrowed, and
 * @p mem is owned, until fini; @p user and @p o are copied. [owner]
 * @return 0; SNIC_EINVAL options, alignment, functions missing, @p offload of another loop than
 *         @p net; SNIC_ENOSPC @p mem_size small
 */
SNIC_API SNIC_NODISCARD int snic_director_init(struct snic_director **out, void *mem,
                                               size_t mem_size, struct snic_net *net,
                                               struct snic_offload *offload,
                                               const struct snic_director_user *user,
                                               const struct snic_director_opts *o)
    SNIC_NONNULL(1, 2, 4, 6, 7);
/** All connections must be closed: drain first. [owner] @return the memory */
SNIC_API void *snic_director_fini(struct snic_director *d) SNIC_NONNULL(1);
/**
 * Accept clients at @p a, with the flags of snic_net_listen(). @p bound, which may be NULL, gets
 * the address with the port that was chosen. [owner]
 * @return 0; SNIC_EADDRINUSE another listener has it; SNIC_EACCES no permission for the port or
 *         the path; SNIC_EINVAL flags, or not an address of this machine; SNIC_ENOTSUP family;
 *         SNIC_ENOSPC no listener or descriptor left, here or in the net handle
 */
SNIC_API SNIC_NODISCARD int snic_director_listen(struct snic_director *d,
                                                 const struct snic_net_addr *a, uint32_t flags,
                                                 struct snic_net_addr *bound) SNIC_NONNULL(1, 2);
/**
 * Stop accepting, finish what is under way, close the connections; then call @p done
 * (once, from the loop). [owner]
 */
SNIC_API void snic_director_drain(struct snic_director *d, void (*done)(void *ctx), void *ctx)
    SNIC_NONNULL(1, 2);

/* ---- Upstream: the way to the host ---- */

/**
 * Each client gets its own net connection to @p host (an unmodified server); for
 * messages of clients that come from now on, unless there is a channel. Also where
 * flows outside the signatures are passed through to. [owner]
 */
SNIC_API void snic_director_upstream_net(struct snic_director *d, const struct snic_net_addr *host)
    SNIC_NONNULL(1, 2);
/**
 * Take the channel that a host's snic_director_host_open() offers as the upstream;
 * only inside the hub's accept event, whose return value is this one's. The one
 * before must have ended. Connections of clients survive. [owner]
 * @return 0; SNIC_EBUSY there is a live one; SNIC_ECONNREFUSED another kind of channel;
 *         SNIC_EINVAL the hub is of another loop; SNIC_ENOMEM; SNIC_EPEERDEAD the link has ended;
 *         SNIC_EPROTO rings too small for the director, or an offer that does not hold;
 *         SNIC_EFAULT its keys, their ranges or rights; SNIC_EVERSION rings of another version
 */
SNIC_API SNIC_NODISCARD int snic_director_upstream_channel(struct snic_director *d,
                                                           struct snic_channel_hub *hub,
                                                           const struct snic_channel_offer *offer)
    SNIC_NONNULL(1, 2, 3);
/** Why a host was not attached: its and the director's number of something that must be equal. */
struct snic_director_mismatch {
    const char *option; /**< "version" (of the channel's format), "key_size" or "item_size"    */
    uint32_t host;
    uint32_t director;
};
/** 1, and @p out, when the last host that offered a channel was refused so; else 0. [owner] */
SNIC_API int snic_director_get_mismatch(const struct snic_director *d,
                                        struct snic_director_mismatch *out) SNIC_NONNULL(1, 2);
/** 1 when a host is attached by a channel and has sent its HELLO, else 0. [owner] */
SNIC_API int snic_director_host_attached(const struct snic_director *d) SNIC_NONNULL(1);
/** End the channel upstream, as when the host dies; harmless without one. [owner] */
SNIC_API void snic_director_upstream_close(struct snic_director *d) SNIC_NONNULL(1);

/**
 * Change opts.conn_bytes, for present connections, too. [owner]
 * @return 0; SNIC_EINVAL less than a block of the pool, or above 1 GiB
 */
SNIC_API SNIC_NODISCARD int snic_director_set_conn_bytes(struct snic_director *d, uint32_t bytes)
    SNIC_NONNULL(1);
/**
 * Reset the clients that hold @p bytes of replies and more and that have sent and taken less than
 * 64 KiB for @p ms. 0: those that are not read from because of the replies they hold; one that
 * writes all its requests before it reads would wait for ever. [owner]
 * @return how many
 */
SNIC_API uint32_t snic_director_reset_full(struct snic_director *d, uint64_t bytes, uint64_t ms)
    SNIC_NONNULL(1);
/**
 * What the replies of all clients together may take of the pool and the offload engine's; when they
 * have more, the client that holds most is reset (total_resets). 0, at first: what there is.
 * [owner]
 */
SNIC_API void snic_director_set_total_bytes(struct snic_director *d, uint64_t bytes)
    SNIC_NONNULL(1);
/**
 * Return memory for replies that was not needed since the last call: @p release gets 2 MiB at a
 * time, at most @p most_bytes, and @p keep_bytes of free memory are kept. The contents are not
 * needed any more, the addresses are: the director writes there again. To be called now and then,
 * for example twice a second with madvise(MADV_DONTNEED). [owner]
 * @return bytes
 */
SNIC_API uint64_t snic_director_trim(struct snic_director *d, uint64_t keep_bytes,
                                     uint64_t most_bytes,
                                     void (*release)(void *ctx, void *mem, size_t size), void *ctx)
    SNIC_NONNULL(1, 4);
/**
 * Spare @p conn, as the host knows it: total_bytes does not count and not reset it, want of memory
 * resets it only when there is no other. [owner]
 * @return 0; SNIC_ENOENT the connection is gone, or passed through
 */
SNIC_API int snic_director_conn_keep(struct snic_director *d, uint64_t conn, int on)
    SNIC_NONNULL(1);
/**
 * Reset the client of @p conn, as the host knows it. [owner]
 * @return 0; SNIC_ENOENT the connection is gone, or passed through
 */
SNIC_API int snic_director_conn_reset(struct snic_director *d, uint64_t conn) SNIC_NONNULL(1);

struct snic_director_stats {
    uint64_t accepted;
    uint64_t refused;
    uint64_t closed;
    uint64_t conns; /**< now                                                     */
    uint64_t messages;
    uint64_t offloaded; /**< answered by the offload engine                          */
    uint64_t answered;  /**< answered by the predicate                               */
    uint64_t to_host;
    uint64_t barriers;
    uint64_t barrier_blocked; /**< offloadable, but sent to the host behind a barrier     */
    uint64_t host_gone;       /**< answered with host_gone()                               */
    uint64_t protocol_errors;
    uint64_t pauses;
    uint64_t passed_through; /**< connections outside the signature                       */
    uint64_t recv_bytes;
    uint64_t sent_bytes;
    uint64_t offload_to_host; /**< the offload engine handed them over after a read         */
    uint64_t hosts;           /**< hosts that attached by a channel                         */
    uint64_t stale_replies;   /**< from the host, for messages that are not waiting         */
    uint64_t stalls;          /**< times that the host was not heard for want of memory     */
    uint64_t backlog_waits;   /**< turns that ended because the host had much to take       */
    uint64_t unread_waits;    /**< turns that ended because clients do not read replies     */
    uint64_t full_resets;     /**< clients reset by snic_director_reset_full(), bytes above 0  */
    uint64_t hog_resets;      /**< clients reset because they did not move and memory ran out  */
    uint64_t records_down;    /**< channel messages to and from the host                    */
    uint64_t records_up;
    uint64_t invalidations; /**< and cache entries that the host sent                     */
    uint64_t blocks_free;   /**< of pool_bytes, now                                       */
    uint64_t host_refused;  /**< net upstream: connections that could not be made         */
    uint64_t host_ended;    /**< and that the host ended first                            */
    uint64_t idle_closed;   /**< connections closed after idle_ms                           */
    uint64_t message_max;   /**< now: the smaller of the director's and the host's         */
    uint64_t copied_out;    /**< offloaded replies copied because the engine's pool was low  */
    uint64_t total_resets;  /**< clients reset for snic_director_set_total_bytes()            */
    uint64_t share_resets;  /**< clients reset by snic_director_reset_full() with bytes of 0  */
};
/** Copy the counters out. [owner] */
SNIC_API void snic_director_get_stats(const struct snic_director *d,
                                      struct snic_director_stats *out) SNIC_NONNULL(1, 2);
/** Structure check for tests. [owner] @return 0; SNIC_ECORRUPT an invariant does not hold */
SNIC_API int snic_director_check(const struct snic_director *d) SNIC_NONNULL(1);

/* ---- The host's end of the channel ---- */

struct snic_director_host;

/** Called on the host's loop. */
struct snic_director_host_events {
    /**
     * A message of client connection @p conn (unique within a run of the DPU
     * process); answer it with exactly one snic_director_host_reply() under
     * @p seq, now or later, in any order. @p msg is borrowed for the call.
     */
    void (*message)(void *ctx, uint64_t conn, uint64_t seq, uint64_t conn_user,
                    const unsigned char *msg, uint32_t size);
    /** The client is gone; replies to it are ignored from now on. */
    void (*closed)(void *ctx, uint64_t conn);
    /** There is room again after SNIC_EAGAIN. */
    void (*writable)(void *ctx);
    /** The DPU is gone; only close is allowed. */
    void (*death)(void *ctx);
    void *ctx;
};

struct snic_director_host_opts {
    uint32_t opts_size;
    /**
     * At most 1 GiB; default 9 MiB. The smaller of this and the director's counts. Also the
     * longest reply of one call.
     */
    uint32_t message_max;
    uint64_t ring_bytes; /**< of each direction, power of two >= 256 KiB; default 4 MiB */
    uint32_t key_size;   /**< cache keys, for invalidate and cache                         */
    uint32_t item_size;
    uint64_t version; /**< R7: nothing older may enter the cache but by ..._entries()   */
};

/**
 * Open on a channel hub of the host (channel.h), borrowed until close. Calls may follow at once.
 * @p ev and @p o are copied. [owner]
 * @return 0; SNIC_EINVAL an option, or no message event; SNIC_ENOMEM; SNIC_EAGAIN all channels of
 *         @p hub are in use; SNIC_EPEERDEAD the link is dead, or the peer damaged the rings;
 *         SNIC_EPROTO the peer wrote into the rings before they were offered
 */
SNIC_API SNIC_NODISCARD int snic_director_host_open(struct snic_director_host **out,
                                                    struct snic_channel_hub *hub,
                                                    const struct snic_director_host_events *ev,
                                                    const struct snic_director_host_opts *o)
    SNIC_NONNULL(1, 2, 3, 4);
/** 1, and @p out, when the director refused this host so (before `death`); else 0. [owner] */
SNIC_API int snic_director_host_get_mismatch(const struct snic_director_host *h,
                                             struct snic_director_mismatch *out) SNIC_NONNULL(1, 2);
/** Close; the director then treats this host as dead. Not inside its events. [owner] */
SNIC_API void snic_director_host_close(struct snic_director_host *h);
/** Flag of snic_director_host_reply(): not complete, MORE pieces of it follow. */
#define SNIC_DIRECTOR_REPLY_MORE (1u << 0)
#define SNIC_DIRECTOR_REPLY_CLOSE (1u << 1) /**< close the client after this reply (QUIT)   */
#define SNIC_DIRECTOR_REPLY_USER (1u << 2)  /**< and set its user word to @p user           */
/**
 * Answer, copying the pieces. Everything the host sends takes effect on the DPU
 * in the order of these calls, or earlier: an invalidate before a reply is carried
 * out before the client can see the reply (a long reply may be overtaken by later
 * calls, never overtake). Leaves with the loop's iteration at the latest. [owner]
 * @return 0; SNIC_EAGAIN no room, nothing was sent (`writable` follows); SNIC_EPEERDEAD the DPU is
 *         gone; SNIC_EMSGSIZE above message_max: use MORE
 */
SNIC_API SNIC_NODISCARD int snic_director_host_reply(struct snic_director_host *h, uint64_t conn,
                                                     uint64_t seq, const struct snic_iov *iov,
                                                     uint32_t iov_count, uint32_t flags,
                                                     uint64_t user) SNIC_NONNULL(1);
/** One key to invalidate or to cache. */
struct snic_director_entry {
    const void *key;
    const void *item; /**< NULL: invalidate                                                 */
    uint64_t version;
};
/**
 * snic_offload_invalidate() or snic_offload_cache() for each, on the DPU, in order. Keys and items
 * are copied. [owner]
 * @return 0 all sent; SNIC_EAGAIN nothing was sent (`writable` follows); SNIC_EPEERDEAD the DPU is
 *         gone; SNIC_EMSGSIZE more than fit into 16 KiB together
 */
SNIC_API SNIC_NODISCARD int snic_director_host_entries(struct snic_director_host *h,
                                                       const struct snic_director_entry *e,
                                                       uint32_t count) SNIC_NONNULL(1, 2);
/**
 * snic_offload_invalidate_all() on the DPU, in order. [owner]
 * @return 0 sent; SNIC_EAGAIN nothing was sent (`writable` follows); SNIC_EPEERDEAD the DPU is gone
 */
SNIC_API SNIC_NODISCARD int snic_director_host_invalidate_all(struct snic_director_host *h,
                                                              uint64_t version) SNIC_NONNULL(1);

#ifdef __cplusplus
}
#endif
#endif /* SNIC_DIRECTOR_H */
