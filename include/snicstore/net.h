/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/**
 * @file snicstore/net.h
 * The door to the network: listeners, streams (TCP, UNIX) and datagram sockets.
 *
 * Depends on  snicstore/base.h, snicstore/loop.h.
 * Memory      Backends allocate at open, and connections from a pool whose size
 *             is an option. Send requests are caller-owned, borrowed until done.
 *             Received buffers are lent by the pool and returned with put.
 * Threads     The owner thread of the handle's loop.
 * Progress    No call blocks.
 * Errors      0 or a positive count on success, a negative SNIC_E* otherwise.
 * Units       bytes, ns.
 * Input       hostile: what arrives is bytes and nothing else.
 *
 * Memory per connection is bounded: at most recv_buffers lent at once, then
 * receiving pauses by itself until one is put back; at most send_queue requests
 * in flight, then snic_net_send() returns 0 and `writable` comes later.
 *
 * Events of a connection come from the loop, never from inside a call, and
 * `closed` is the last one: exactly once for each connection that was accepted
 * and bound, or whose connect was accepted; all send requests are done before it.
 *
 * Calls that make no sense any more (shutdown, close, abort or pause of a
 * connection that is about to be closed) are harmless until `closed` was called.
 * A reset drops what was received and not yet delivered. A UNIX socket cannot
 * distinguish a peer that closed from one that aborted or died: both are `eof`.
 */
#ifndef SNIC_NET_H
#define SNIC_NET_H

#include "snicstore/base.h"
#include "snicstore/loop.h"

#ifdef __cplusplus
extern "C" {
#endif

#define SNIC_NET_CAP_STREAM (1u << 0)
#define SNIC_NET_CAP_DGRAM (1u << 1)
#define SNIC_NET_CAP_ZC (1u << 2)  /**< zero-copy send; pays above zc_bytes_min          */
#define SNIC_NET_CAP_GSO (1u << 3) /**< trains leave in one call                         */
#define SNIC_NET_CAP_GRO (1u << 4)
#define SNIC_NET_CAP_TIMESTAMP (1u << 5) /**< time_ns of datagrams is their arrival's        */

enum snic_net_family { SNIC_NET_IPV4 = 4, SNIC_NET_IPV6 = 6, SNIC_NET_UNIX = 1, SNIC_NET_SIM = 99 };

struct snic_net_addr {
    uint16_t family;      /**< enum snic_net_family                                        */
    uint16_t port;        /**< host byte order                                             */
    uint32_t node;        /**< SIM: node of the world                                      */
    unsigned char ip[16]; /**< IPV4: first 4 bytes                                       */
    char path[108];       /**< UNIX: NUL-terminated                                        */
};

/**
 * Parse "1.2.3.4:80", "[::1]:80", "unix:/path", "sim:NODE:PORT"; also "localhost:80". [any]
 * @return 0; SNIC_EINVAL another form, or a number out of range, with *out untouched
 */
SNIC_API SNIC_NODISCARD int snic_net_addr_parse(struct snic_net_addr *out, const char *text)
    SNIC_NONNULL(1, 2);
/**
 * The same text back, cut to @p size and always NUL-terminated. [any]
 * @return its whole length, without the NUL
 */
SNIC_API int snic_net_addr_format(const struct snic_net_addr *a, char *out, size_t size)
    SNIC_NONNULL(1, 2);

struct snic_net;
struct snic_net_listener;
struct snic_net_conn;

/** A received piece, lent until snic_net_put(). Users may advance data and shrink size. */
struct snic_net_buf {
    struct snic_node node; /**< the holder's to use                                      */
    unsigned char *data;
    uint32_t size;
    uint32_t backend;
    struct snic_net_conn *conn;
};

struct snic_net_send_req;
typedef void (*snic_net_sent_fn)(struct snic_net_send_req *s);

/** Send flag: try zero copy; pieces must then stay untouched until done. */
#define SNIC_NET_SEND_ZC (1u << 0)
/** Send flag: more follows at once (MSG_MORE). */
#define SNIC_NET_SEND_MORE (1u << 1)
/**
 * Send flag: nothing waits for done. It may then come only with the loop's next event or timer,
 * which saves a system call; what is sent behind it, shutdown and close do not wait for it.
 */
#define SNIC_NET_SEND_LAZY (1u << 2)

/**
 * Caller-owned gather send, all or error; borrowed with its pieces until done.
 * Zero it and set region to SNIC_NO_REGION (0 is a region), then fill it in.
 * Pieces may be empty, but not all of them; at most INT32_MAX bytes. Requests of
 * a connection are done in the order of their sends. Done means that the bytes
 * were handed to the network (with ZC: and are not needed there any more), not
 * that the peer has them.
 */
struct snic_net_send_req {
    struct snic_node node;
    snic_net_sent_fn done;
    struct snic_iov *iov;
    uint32_t iov_count;  /**< 1..SNIC_NET_IOV_MAX                                        */
    uint32_t flags;      /**< SNIC_NET_SEND_*                                            */
    int32_t region;      /**< registered region of all pieces, or SNIC_NO_REGION         */
    int32_t result;      /**< out: 0 all sent; SNIC_ECONNRESET, SNIC_EPIPE, SNIC_ECANCELED,
                              SNIC_ETIMEDOUT                                             */
    uint64_t backend[6]; /**< the door's; need not be initialised                  */
};
#define SNIC_NET_IOV_MAX 64

/** Called on the loop's thread; each may be NULL except recv and closed. */
struct snic_net_stream_events {
    /** connect finished; only for snic_net_connect(). An error is followed by closed.
     *  Not called after close or abort. */
    void (*connected)(void *ctx, struct snic_net_conn *c, int error);
    /** Bytes; @p buf is lent until snic_net_put(). */
    void (*recv)(void *ctx, struct snic_net_conn *c, struct snic_net_buf *buf);
    /** The peer sends no more (orderly half-close); sending is still possible. */
    void (*eof)(void *ctx, struct snic_net_conn *c);
    /** There is room again after snic_net_send() returned 0. */
    void (*writable)(void *ctx, struct snic_net_conn *c);
    /** Gone: 0 orderly both ways, SNIC_ECONNRESET, SNIC_ETIMEDOUT, SNIC_ECONNABORTED
     *  (our abort), or a connect error. The handle is invalid after the call. */
    void (*closed)(void *ctx, struct snic_net_conn *c, int reason);
};

/**
 * A client connected: bind it or abort it before returning; aborted unbound it
 * has no events. When conns_max connections are there, further clients are
 * accepted, reset at once and counted as errors; without file descriptors or
 * memory they stay in the backlog, and accepting is tried again every 50 ms.
 */
typedef void (*snic_net_accept_fn)(void *ctx, struct snic_net_conn *c,
                                   const struct snic_net_addr *peer);

/* ---- Datagrams ---- */

struct snic_net_dgram;

/** One received datagram, or one segment of a coalesced train; borrowed for the call. */
struct snic_net_msg {
    struct snic_net_addr peer;
    const unsigned char *data;
    uint32_t size;
    uint32_t ecn;     /**< 0..3                                                       */
    uint64_t time_ns; /**< received, by the kernel with TIMESTAMP, else by the loop   */
};

struct snic_net_dgram_events {
    void (*recv)(void *ctx, struct snic_net_dgram *d, const struct snic_net_msg *msgs,
                 uint32_t count);
    void (*writable)(void *ctx, struct snic_net_dgram *d);
    /**
     * The network reports (ICMP) that a datagram to @p peer was not delivered: SNIC_ECONNREFUSED
     * no socket, SNIC_EHOSTUNREACH, SNIC_EMSGSIZE larger than that network takes, others. A hint:
     * reports can be forged, and most losses are not reported. NULL: reports are not requested.
     */
    void (*unreachable)(void *ctx, struct snic_net_dgram *d, const struct snic_net_addr *peer,
                        int error);
};

/** Most datagrams of one train. */
#define SNIC_NET_TRAIN_MAX 64

struct snic_net_train;
typedef void (*snic_net_train_fn)(struct snic_net_train *t);

/** Equal-sized datagrams (the last may be shorter) to one destination. */
struct snic_net_train {
    struct snic_node node;
    snic_net_train_fn done;
    struct snic_net_addr peer;
    struct snic_iov *iov; /**< the bytes of all segments, in order                     */
    uint32_t iov_count;
    uint32_t segment; /**< bytes of each datagram                                  */
    uint32_t ecn;
    int32_t result; /**< out: datagrams sent, fewer than all after an error; or SNIC_E* */
    uint64_t backend[6];
};

/* ---- The vtable ---- */

struct snic_net_stats {
    uint64_t accepted;
    uint64_t connected;
    uint64_t closed;
    uint64_t recv_bytes;
    uint64_t sent_bytes;
    uint64_t recv_events;
    uint64_t send_requests;
    uint64_t zc_sends;
    uint64_t pauses; /**< receiving stopped for want of buffers                    */
    uint64_t dgrams_in;
    uint64_t dgrams_out;
    uint64_t dgrams_lost; /**< dropped here for want of buffers, the kernel's included  */
    uint64_t conns_high;
    uint64_t errors;
    uint64_t steered;     /**< listeners whose SNIC_NET_STEER_CPU() the kernel carries out     */
    uint64_t unreachable; /**< reports of the network that a datagram was not delivered     */
    uint64_t dgram_sends; /**< calls that carried dgrams_out: how long trains were          */
    uint64_t dgram_recvs; /**< and dgrams_in                                                 */
};

struct snic_net_ops {
    uint32_t ops_size;
    uint32_t reserved;
    const char *name;
    int (*listen)(struct snic_net *n, const struct snic_net_addr *a, uint32_t flags,
                  snic_net_accept_fn accept, void *ctx, struct snic_net_listener **out);
    void (*unlisten)(struct snic_net_listener *l);
    int (*listen_addr)(const struct snic_net_listener *l, struct snic_net_addr *out);
    int (*connect)(struct snic_net *n, const struct snic_net_addr *a,
                   const struct snic_net_stream_events *ev, void *ctx, struct snic_net_conn **out);
    void (*bind)(struct snic_net_conn *c, const struct snic_net_stream_events *ev, void *ctx);
    int (*send)(struct snic_net_conn *c, struct snic_net_send_req *s);
    void (*put)(struct snic_net_buf *b);
    void (*pause)(struct snic_net_conn *c, int paused);
    void (*shutdown)(struct snic_net_conn *c);
    void (*close)(struct snic_net_conn *c);
    void (*abort)(struct snic_net_conn *c);
    int (*dgram_open)(struct snic_net *n, const struct snic_net_addr *local,
                      const struct snic_net_dgram_events *ev, void *ctx,
                      struct snic_net_dgram **out);
    int (*dgram_send)(struct snic_net_dgram *d, struct snic_net_train *t);
    void (*dgram_close)(struct snic_net_dgram *d);
    void (*close_all)(struct snic_net *n);
    int (*dgram_addr)(const struct snic_net_dgram *d, struct snic_net_addr *out);
    int (*patience)(struct snic_net_conn *c, uint32_t ms);
};

/** Every backend's handle begins with this; read-only for users. */
struct snic_net {
    const struct snic_net_ops *ops;
    struct snic_loop *loop;
    uint32_t caps;
    uint32_t zc_bytes_min;
    struct snic_net_stats stats;
};
/** Every backend's listener, connection and datagram socket begin with this. */
struct snic_net_listener {
    struct snic_net *net;
};
struct snic_net_conn {
    struct snic_net *net;
    struct snic_net_addr peer;
    void *ctx; /**< as bound */
};
struct snic_net_dgram {
    struct snic_net *net;
};

/**
 * listen flag: share the port with other loops (SO_REUSEPORT). Each connection goes to
 * one of the listeners, chosen by a hash of its flow, and stays there.
 */
#define SNIC_NET_REUSEPORT (1u << 0)
/**
 * listen flag, beside REUSEPORT: one of a group of @p n listeners, 1..255, all with this
 * flag. A connection that comes in on CPU c goes to the one that listened as number
 * c % n, from 0: with a network card that spreads flows over CPUs by their hash, a flow
 * then stays on one core in both directions. Needs SO_ATTACH_REUSEPORT_CBPF; where that
 * is not permitted, and while the group is not complete, the flow's hash decides (see
 * `steered` of the statistics). In a world the client's node stands for the CPU.
 */
#define SNIC_NET_STEER_CPU(n) ((uint32_t)(n) << 16)

/**
 * Accept connections at @p a (port 0: any, see snic_net_listen_addr()). A stale
 * UNIX socket file, without a listener, is replaced. @p ctx is passed to @p accept. The
 * listener is the handle's, lent until snic_net_unlisten() or snic_net_shut(). [owner]
 * @return 0; SNIC_EADDRINUSE another listener has it; SNIC_EACCES no permission for the port or
 *         the path; SNIC_EINVAL flags, no @p accept, or not an address of this machine;
 *         SNIC_ENOTSUP family; SNIC_ENOSPC no listener or descriptor left
 */
static inline int snic_net_listen(struct snic_net *n, const struct snic_net_addr *a, uint32_t flags,
                                  snic_net_accept_fn accept, void *ctx,
                                  struct snic_net_listener **out)
{
    return n->ops->listen(n, a, flags, accept, ctx, out);
}
/** Stop accepting; connections live on. The listener is gone, its UNIX file too. [owner] */
static inline void snic_net_unlisten(struct snic_net_listener *l)
{
    l->net->ops->unlisten(l);
}
/** The address with the port that was chosen. [owner] @return 0 */
static inline int snic_net_listen_addr(const struct snic_net_listener *l, struct snic_net_addr *out)
{
    return l->net->ops->listen_addr(l, out);
}
/**
 * Start to connect; `connected` follows, with SNIC_ECONNREFUSED, SNIC_ETIMEDOUT,
 * SNIC_EHOSTUNREACH, SNIC_ECONNRESET, SNIC_EACCES or SNIC_EIO when it fails. @p ev is
 * copied. Sends are accepted at once and leave when it stands. The connection is the handle's,
 * lent until `closed`. [owner]
 * @return 0; SNIC_EINVAL port 0, a path that is empty or too long, or no recv or closed event;
 *         SNIC_ENOSPC no free connection or descriptor; SNIC_ENOTSUP family
 */
static inline int snic_net_connect(struct snic_net *n, const struct snic_net_addr *a,
                                   const struct snic_net_stream_events *ev, void *ctx,
                                   struct snic_net_conn **out)
{
    return n->ops->connect(n, a, ev, ctx, out);
}
/** Give an accepted connection its events (copied) and context (passed to these). [owner] */
static inline void snic_net_bind(struct snic_net_conn *c, const struct snic_net_stream_events *ev,
                                 void *ctx)
{
    c->net->ops->bind(c, ev, ctx);
}
/**
 * Queue a gather send; sends of one connection leave in order. [owner]
 * @return 1 accepted: borrowed until done; 0 full (`writable` follows); SNIC_EPIPE after
 *         shutdown, close or reset; SNIC_EINVAL number or sum of the pieces
 */
static inline int snic_net_send(struct snic_net_conn *c, struct snic_net_send_req *s)
{
    return c->net->ops->send(c, s);
}
/** Give a received buffer back; also after its connection is closed. [owner] */
static inline void snic_net_put(struct snic_net *n, struct snic_net_buf *b)
{
    n->ops->put(b);
}
/** Stop or restart receiving; up to recv_buffers may still arrive after a stop. A reset is
 *  reported all the same. [owner] */
static inline void snic_net_pause(struct snic_net_conn *c, int paused)
{
    c->net->ops->pause(c, paused);
}
/** Send no more after what is queued (half-close); receiving continues. [owner] */
static inline void snic_net_shutdown(struct snic_net_conn *c)
{
    c->net->ops->shutdown(c);
}
/**
 * Orderly end: what is queued is sent, nothing more is received, then closed(0),
 * when the peer has closed too or its kernel has everything; closed(an error) if
 * that fails. Before `connected` it is an abort. [owner]
 */
static inline void snic_net_close(struct snic_net_conn *c)
{
    c->net->ops->close(c);
}
/** Reset: queued sends complete with SNIC_ECANCELED, then closed(SNIC_ECONNABORTED). [owner] */
static inline void snic_net_abort(struct snic_net_conn *c)
{
    c->net->ops->abort(c);
}
/**
 * Lose patience with a peer that has acknowledged nothing of what it was sent for @p ms: closed
 * (SNIC_ETIMEDOUT); connecting takes no longer either, from now on. Instead of the handle's
 * idle_ms, which stays that of silence. At most 2^30. In a world: when a partition lasts so long.
 * [owner]
 * @return 0; SNIC_EINVAL 0 or too long; SNIC_ENOTSUP a UNIX socket
 */
static inline int snic_net_patience(struct snic_net_conn *c, uint32_t ms)
{
    return c->net->ops->patience(c, ms);
}
/**
 * A datagram socket at @p local (port 0: any, see snic_net_dgram_addr()). All sockets of a handle
 * receive into one pool of 64 buffers of a whole train; what finds none waits in the kernel. A
 * socket has 32 trains under way there, 60 KiB of memory. @p ev is copied. The socket is the
 * handle's, lent until snic_net_dgram_close() or snic_net_shut(). [owner]
 * @return 0; SNIC_EADDRINUSE another socket has it; SNIC_EACCES no permission for the port;
 *         SNIC_ENOTSUP family; SNIC_EINVAL no recv event, or not an address of this machine;
 *         SNIC_ENOSPC dgrams_max are open, or no memory or descriptor left
 */
static inline int snic_net_dgram_open(struct snic_net *n, const struct snic_net_addr *local,
                                      const struct snic_net_dgram_events *ev, void *ctx,
                                      struct snic_net_dgram **out)
{
    return n->ops->dgram_open(n, local, ev, ctx, out);
}
/**
 * Queue a train; send_queue trains may be under way. [owner]
 * @return 1 accepted: borrowed with its pieces until done; 0 full (`writable` follows);
 *         SNIC_EMSGSIZE segment too large for a datagram or more than SNIC_NET_TRAIN_MAX of them;
 *         SNIC_EINVAL nothing to send, or a peer of another family or with port 0
 */
static inline int snic_net_dgram_send(struct snic_net_dgram *d, struct snic_net_train *t)
{
    return d->net->ops->dgram_send(d, t);
}
/** Trains accepted so far still complete; nothing is received any more. [owner] */
static inline void snic_net_dgram_close(struct snic_net_dgram *d)
{
    d->net->ops->dgram_close(d);
}
/** The local address, with the port that was chosen. [owner] @return 0 */
static inline int snic_net_dgram_addr(const struct snic_net_dgram *d, struct snic_net_addr *out)
{
    return d->net->ops->dgram_addr(d, out);
}
/**
 * Abort everything, deliver the `closed`s, wait for the kernel, free. Not from
 * inside an event. Lent buffers are gone with the handle: put them before. It may
 * turn the loop, so others' events may come, too. [owner]
 */
static inline void snic_net_shut(struct snic_net *n)
{
    if (n != NULL)
        n->ops->close_all(n);
}

/* ---- uring: TCP, UNIX and UDP sockets ---- */

struct snic_net_uring_opts {
    uint32_t opts_size;
    uint32_t conns_max;    /**< most connections, 1..65535; default 1024                 */
    uint32_t recv_buffers; /**< most buffers lent per connection; default 8              */
    uint32_t recv_size;    /**< bytes of a pooled buffer, 512..1 MiB; default 16384      */
    uint32_t pool_buffers; /**< buffers in the pool, power of two <= 32768; default 1024 */
    uint32_t send_queue;   /**< requests in flight per connection; default 64            */
    uint32_t zc_bytes_min; /**< zero copy from this size; 0: from 64 KiB, and only while the kernel
                                really avoids the copy; UINT32_MAX: never                    */
    uint32_t idle_ms;      /**< keep-alive and user time-out of TCP peers; default 60000 */
    uint32_t caps_mask;    /**< SNIC_NET_CAP_* to pretend absent, for tests of fall-backs */
    uint32_t dgrams_max;   /**< most datagram sockets, 1..16384; default 64              */
    uint32_t dgram_flags;  /**< SNIC_NET_DGRAM_*                                         */
    uint32_t dgram_recv_bytes; /**< what the kernel keeps for a datagram socket that is not read;
                                    0: its default. Above net.core.rmem_max as root only */
    uint32_t dgram_send_bytes; /**< likewise of what is not sent                             */
    uint32_t taken_wait_ms;    /**< how long snic_net_listen() waits, the whole thread with it, for
                                    an address in use before it returns SNIC_EADDRINUSE, at
                                    most 60000; default 0. For servers: what a killed process
                                    had in an io_uring the kernel closes some time after the
                                    process is gone, and its successor finds the port taken   */
    /**
     * How long a TCP peer may leave bytes unacknowledged, or answer that it has no room for them:
     * the user time-out. Default idle_ms; at most 2^30, or UINT32_MAX: the system's rule, which
     * ends peers that are silent, and waits for those that answer without reading.
     */
    uint32_t sent_ms;
};
/**
 * Datagrams are never cut into fragments: one that is too large for the way is lost, and its
 * train's result is SNIC_EMSGSIZE where it exceeds the MTU of the first link.
 */
#define SNIC_NET_DGRAM_DF (1u << 0)
/** taken_wait_ms holds for snic_net_dgram_open() as well. */
#define SNIC_NET_DGRAM_WAIT (1u << 1)
/**
 * CAP_TIMESTAMP: the kernel notes when a datagram came, so that who measures round trips does not
 * measure how long this thread did something else. It may be a little later than snic_loop_now(),
 * and of a coalesced train is one. A step of the system's clock falsifies it for some milliseconds.
 */
#define SNIC_NET_DGRAM_TIME (1u << 2)

/**
 * Fields that are 0 and @p o == NULL mean the defaults. @p o is copied. Freed by
 * snic_net_shut(). [owner]
 * @return 0; SNIC_EINVAL an option out of range; SNIC_ENOTSUP not an io_uring loop; SNIC_ENOMEM
 */
SNIC_API SNIC_NODISCARD int snic_net_uring_open(struct snic_net **out, struct snic_loop *l,
                                                const struct snic_net_uring_opts *o)
    SNIC_NONNULL(1, 2);

/* ---- sim: a network in a world ---- */

/** Nodes and links of one world; outlives the handles opened on it. */
struct snic_net_fabric;

struct snic_net_link {
    uint64_t delay_min_ns;  /**< default 10000                                             */
    uint64_t delay_max_ns;  /**< default 50000; > min reorders datagrams                   */
    uint64_t bytes_per_s;   /**< 0: unlimited                                              */
    uint32_t queue_bytes;   /**< tail drop above this when bytes_per_s is set; default 1 MiB */
    uint32_t loss_ppm;      /**< datagrams lost; streams delay by a retransmission instead */
    uint32_t duplicate_ppm; /**< datagrams only                                           */
    uint32_t corrupt_ppm;   /**< datagrams only: one bit flips                             */
    uint64_t reorder_ns;    /**< at most an hour                                          */
    uint32_t reorder_ppm;   /**< datagrams only: held back by reorder_ns beside their delay */
    uint32_t mark_bytes;    /**< a datagram of ECN 1 or 2 that finds more than this queued gets
                                 ECN 3; 0: none do. Needs bytes_per_s                       */
    uint32_t size_max;      /**< larger datagrams vanish; 0: none do                       */
    uint32_t reserved;      /**< 0                                                        */
};

struct snic_net_fabric_opts {
    uint32_t opts_size;
    uint32_t recv_size;        /**< largest piece of a stream receive; default 4096; pieces are
                                    cut at random, so that framing is tested                  */
    struct snic_net_link link; /**< all zero: the defaults                                */
    uint64_t converge_ns;      /**< from a change of carrier until routes follow; default 1 ms */
    uint64_t gather_ns;        /**< datagrams that come to a socket within so long of each other
                                    are handed in together, as after GRO; default: one by one */
};

/**
 * Fields that are 0 and @p o == NULL mean the defaults. @p o is copied, @p w borrowed until close.
 * [owner]
 * @return 0; SNIC_EINVAL an option out of range; SNIC_ENOMEM
 */
SNIC_API SNIC_NODISCARD int snic_net_fabric_open(struct snic_net_fabric **out, struct snic_world *w,
                                                 const struct snic_net_fabric_opts *o)
    SNIC_NONNULL(1, 2);
/** All handles on it must be shut before. [owner] */
SNIC_API void snic_net_fabric_close(struct snic_net_fabric *f);
/**
 * Set the link from node @p a to node @p b (one direction) for what is sent from
 * now on. All zero: the defaults. [owner]
 * @return 0; SNIC_EINVAL max below min, a number out of range; SNIC_ENOMEM
 */
SNIC_API SNIC_NODISCARD int snic_net_fabric_link(struct snic_net_fabric *f, uint32_t a, uint32_t b,
                                                 const struct snic_net_link *l) SNIC_NONNULL(1, 4);
/** Cut or mend a direction: datagrams vanish; streams stall, and time out after 30 s. [owner] */
SNIC_API void snic_net_fabric_partition(struct snic_net_fabric *f, uint32_t a, uint32_t b, int cut)
    SNIC_NONNULL(1);
/** Reset every stream of a node, as when its process dies; its listeners vanish. [owner] */
SNIC_API void snic_net_fabric_kill(struct snic_net_fabric *f, uint32_t node) SNIC_NONNULL(1);

/* ---- sim: switches, wires, faults ---- */

/*
 * Between nodes that have wires datagrams go through switches; where a node has none, and for
 * streams, the pair's link above counts. A wire is one direction of a cable, and several may lead
 * the same way. A datagram takes, at each switch and at its own node, one of the wires that are on
 * a shortest way to where it goes, chosen by a hash of (both nodes, both ports) and of the place's
 * own seed. So a flow stays on its way, its port chooses it, and its answers come by another that
 * has nothing to do with it. A partition (of the pair) still cuts.
 *
 * Every wire has the queue of the port that feeds it (queue_bytes, mark_bytes), sends at its rate,
 * then delays. Things happen to a datagram in this order: the state of switch and wire, faults in
 * the order of their making, size_max, loss, duplicate, corrupt, queue and mark; on leaving the
 * port state again, the hop function, delay.
 */

/** Numbers of switches begin here; smaller ones are nodes. */
#define SNIC_NET_SWITCH (UINT32_C(1) << 31)
/** Any wire, place or node, in a fault. */
#define SNIC_NET_ANY UINT32_MAX
/** The world's node that is the fabric's, from the first switch on; it counts in nodes_max. */
#define SNIC_NET_FABRIC_NODE (UINT32_MAX - 1)

/**
 * Add a switch. Its seed, that of its hash, is its number until snic_net_fabric_hash(). [owner]
 * @return 0; SNIC_ENOMEM; SNIC_ENOSPC 1024 switches exist, or the world has no loop left
 */
SNIC_API SNIC_NODISCARD int snic_net_fabric_switch(struct snic_net_fabric *f, uint32_t *out)
    SNIC_NONNULL(1, 2);
/**
 * Set the seed of the hash at a switch or a node that has a wire. [owner]
 * @return 0; SNIC_ENOENT no such switch, or a node without wires
 */
SNIC_API SNIC_NODISCARD int snic_net_fabric_hash(struct snic_net_fabric *f, uint32_t place,
                                                 uint64_t seed) SNIC_NONNULL(1);
/**
 * Lay a wire from one switch or node to another; routes follow at once. Its number counts from 0.
 * All zero: the defaults of a link. [owner]
 * @return 0; SNIC_EINVAL a number of @p l out of range, or both ends are one or are nodes;
 *         SNIC_ENOENT no such switch; SNIC_ENOMEM; SNIC_ENOSPC 16384 wires exist
 */
SNIC_API SNIC_NODISCARD int snic_net_fabric_wire(struct snic_net_fabric *f, uint32_t from,
                                                 uint32_t to, const struct snic_net_link *l,
                                                 uint32_t *out) SNIC_NONNULL(1, 4, 5);
/**
 * Change it for what enters it from now on. [owner]
 * @return 0; SNIC_EINVAL max below min, or a number out of range; SNIC_ENOENT no such wire
 */
SNIC_API SNIC_NODISCARD int snic_net_fabric_wire_set(struct snic_net_fabric *f, uint32_t wire,
                                                     const struct snic_net_link *l)
    SNIC_NONNULL(1, 3);

enum snic_net_state {
    SNIC_NET_UP = 0,
    SNIC_NET_DOWN, /**< what is in it and what enters is lost; routes avoid it after converge_ns */
    SNIC_NET_DEAD  /**< the same, but undetected: routes keep using it                       */
};
/**
 * Set the state of @p what: a switch, or a wire. [owner]
 * @return 0; SNIC_EINVAL no such state; SNIC_ENOENT no such switch or wire
 */
SNIC_API SNIC_NODISCARD int snic_net_fabric_state(struct snic_net_fabric *f, uint32_t what,
                                                  enum snic_net_state state) SNIC_NONNULL(1);

/**
 * The wires that a datagram takes now, by what routes know, not by what is dead. [owner]
 * @return how many, of which the first @p max are in @p wires; SNIC_EHOSTUNREACH no way, or none
 *         of 32 wires or fewer
 */
SNIC_API int snic_net_fabric_way(struct snic_net_fabric *f, uint32_t from, uint16_t from_port,
                                 uint32_t to, uint16_t to_port, uint32_t *wires, uint32_t max)
    SNIC_NONNULL(1);

struct snic_net_wire_stats {
    uint64_t datagrams; /**< sent                                                          */
    uint64_t bytes;
    uint64_t lost; /**< by loss_ppm                                                   */
    uint64_t lost_state;
    uint64_t lost_fault;
    uint64_t lost_queue;
    uint64_t lost_size;
    uint64_t duplicated;
    uint64_t corrupted;
    uint64_t reordered;
    uint64_t marked;
    uint64_t queue_bytes; /**< now                                                        */
    uint64_t queue_high;  /**< most bytes queued                                          */
};
/** Copy the counters of a wire. [owner] @return 0; SNIC_ENOENT no such wire */
SNIC_API SNIC_NODISCARD int snic_net_fabric_wire_stats(const struct snic_net_fabric *f,
                                                       uint32_t wire,
                                                       struct snic_net_wire_stats *out)
    SNIC_NONNULL(1, 3);

enum snic_net_fault_action {
    SNIC_NET_DROP = 0,
    SNIC_NET_DUPLICATE, /**< one copy more                                                  */
    SNIC_NET_CORRUPT,   /**< one bit flips                                                  */
    SNIC_NET_DELAY,     /**< by delay_ns, while others pass                                 */
    SNIC_NET_MARK       /**< ECN 3 where it was 1 or 2                                      */
};

/** What happens to which datagrams; snic_net_fault_init() first. All conditions must hold. */
struct snic_net_fault {
    uint32_t action;    /**< enum snic_net_fault_action                                     */
    uint32_t wire;      /**< that enter this wire                                         */
    uint32_t place;     /**< that leave this switch or node                               */
    uint32_t from;      /**< from this node                                               */
    uint32_t to;        /**< to this node                                                 */
    uint32_t size_min;  /**< of at least so many bytes                                    */
    uint32_t size_max;  /**< and at most so many; 0: any                                  */
    uint16_t port_mask; /**< whose (source port & port_mask) == port_value                */
    uint16_t port_value;
    uint32_t buckets; /**< > 0: of those flows whose hash % buckets == bucket           */
    uint32_t bucket;
    uint32_t chance_ppm; /**< 0: all of them                                               */
    uint64_t seed;       /**< of the hash of flows                                         */
    uint64_t delay_ns;   /**< DELAY; at most an hour                                       */
    uint64_t skip;       /**< the first so many are spared                                 */
    uint64_t limit;      /**< and it ends after so many; 0: never                          */
};
/** One that drops everything. [any] */
static inline void snic_net_fault_init(struct snic_net_fault *x)
{
    memset(x, 0, sizeof(*x));
    x->wire = SNIC_NET_ANY;
    x->place = SNIC_NET_ANY;
    x->from = SNIC_NET_ANY;
    x->to = SNIC_NET_ANY;
}
/**
 * Add a fault, copied; also for datagrams between nodes without wires, which leave their node and
 * enter no wire. Its number counts from 0. [owner]
 * @return 0; SNIC_EINVAL action, chance_ppm, delay_ns, sizes, buckets or port out of range;
 *         SNIC_ENOSPC 256 were made
 */
SNIC_API SNIC_NODISCARD int snic_net_fabric_fault(struct snic_net_fabric *f,
                                                  const struct snic_net_fault *x, uint32_t *out)
    SNIC_NONNULL(1, 2, 3);
/** Off, or on again. [owner] @return 0; SNIC_ENOENT no such fault */
SNIC_API SNIC_NODISCARD int snic_net_fabric_fault_set(struct snic_net_fabric *f, uint32_t fault,
                                                      int on) SNIC_NONNULL(1);
/** How many datagrams it happened to: a test asserts that it did. 0 for no such. [owner] */
SNIC_API uint64_t snic_net_fabric_fault_hits(const struct snic_net_fabric *f, uint32_t fault)
    SNIC_NONNULL(1);

struct snic_net_fabric_stats {
    uint64_t datagrams;  /**< that entered a first wire                                       */
    uint64_t delivered;  /**< that left a last one to a node that is there                    */
    uint64_t lost_route; /**< no way                                                          */
    uint64_t lost_hops;  /**< 32 wires passed, as routes changed under way                    */
    uint64_t lost_pool;  /**< 4096 were under way                                             */
    uint64_t routed;     /**< times that routes were made anew                                */
};
/** Copy the counters of the whole fabric. [owner] */
SNIC_API void snic_net_fabric_get_stats(const struct snic_net_fabric *f,
                                        struct snic_net_fabric_stats *out) SNIC_NONNULL(1, 2);

/** A datagram leaves a switch's port: what its telemetry (INT) knows at that moment. */
struct snic_net_hop {
    uint64_t now_ns;
    uint64_t tx_bytes;    /**< sent by the port so far, this datagram included               */
    uint64_t queue_bytes; /**< that wait behind it                                           */
    uint64_t bytes_per_s; /**< the port's rate; 0: unlimited                                 */
    uint32_t place;       /**< the switch                                                    */
    uint32_t wire;
};
/**
 * May write telemetry into the datagram, whose format is nothing of the fabric's. Nodes do not
 * call it. It calls nothing of the door.
 */
typedef void (*snic_net_hop_fn)(void *ctx, const struct snic_net_hop *hop, unsigned char *data,
                                uint32_t size);
/** Call @p fn with @p ctx for each hop from now on; NULL: none. [owner] */
SNIC_API void snic_net_fabric_on_hop(struct snic_net_fabric *f, snic_net_hop_fn fn, void *ctx)
    SNIC_NONNULL(1);

/**
 * A handle for the node that @p l is. Options as for uring, but recv_size is at
 * most the fabric's, datagrams have at most 16384 bytes, and zero copy is not
 * there. [owner]
 * @return 0; SNIC_EINVAL an option out of range; SNIC_ENOTSUP a loop of another world;
 *         SNIC_ENOMEM
 */
SNIC_API SNIC_NODISCARD int snic_net_sim_open(struct snic_net **out, struct snic_net_fabric *f,
                                              struct snic_loop *l,
                                              const struct snic_net_uring_opts *o)
    SNIC_NONNULL(1, 2, 3);

#ifdef __cplusplus
}
#endif
#endif /* SNIC_NET_H */
