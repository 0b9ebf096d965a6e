/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/**
 * @file snicstore/volume.h
 * Virtual disks on block servers: the transports of a block store (solar.h, luna.h) on sockets.
 * A block server in front of a store (segments.h), and a client whose disks are handles of the io
 * door, so that a user of io works on a virtual disk unchanged.
 *
 * Depends on  snicstore/base.h, loop.h, io.h, net.h, ebs.h, solar.h, luna.h, segments.h.
 * Memory      The caller supplies all of it (memsize, open); nothing is allocated afterwards,
 *             except by the net door. A server takes its store's, 7 KiB per request, 64 KiB more
 *             per read, 64 KiB with a secret, and with LUNA 14 KiB per connection and 4 KiB per
 *             send; a client its engine's and 0.7 KiB per I/O. What a connection has received and
 *             not handed in lies in the net door's buffers: at most recv_buffers of them; with
 *             pool_buffers of streams_max times that no client waits for another's.
 * Threads     The owner thread of the loop. One client and one server are one shard each.
 * Progress    No call blocks but close, which runs the loop.
 * Errors      0 on success, a negative SNIC_E* otherwise; then nothing changed.
 * Units       nanoseconds; bytes; segments of 2 MiB.
 * Input       Datagrams and streams are hostile, and so is what is on the devices. The rest is the
 *             owner's.
 *
 * Two transports carry the same requests. SOLAR: datagrams over several paths (solar.h). LUNA:
 * streams (luna.h), several connections to a server, TCP_NODELAY. A server serves both at the same
 * address and port number, from the same store, unless its options select one; a client uses one.
 *
 * The server. One datagram socket, and one listener; requests go to the store, and are answered
 * when the store has them durable, never before. A request without space is answered BUSY; from a
 * stream nothing more is received until there is space. Each request is checked against its
 * segment: that it exists here, belongs to that disk, at that lba, has that generation, and is not
 * fenced.
 *   Leases. The upper half of a segment's generation is the lease (sa_epoch) under which it may be
 *   used, the lower half counts its moves: snic_volume_gen(). A request of an older lease, by its
 *   version or its generation, is answered NO_LEASE, of an older generation STALE_GEN.
 *   Rights. With one secret for all clients (or none) a client that has it may use every disk. With
 *   secret_of each client has a key of its own, and each request is checked by rights() before the
 *   store is consulted: a client that may not read, write or fence a disk is answered FORBIDDEN,
 *   whether or not the segment exists. A segment of another disk than the request's is answered as
 *   one that does not exist.
 *   Tokens. With token_key a disk is open to a client that has shown a token for it, under the
 *   token's lease and until it expires (ebs_token.h); servers remember the token for that
 *   connection, and do not query the catalog.
 *   Epochs. Segment SNIC_VOLUME_META of the store is the server's own: it has the server's epoch,
 *   raised and durable before the first datagram is received, and the secret of its reset tokens.
 *   The first epoch of a store is random. If they are damaged, the epoch continues after the
 *   version under which they were written, with another secret. If the segment is gone, or the
 *   store is opened over a gap in its log, both begin anew; if that version is lost, with
 *   SNIC_SEGMENTS_SALVAGE only.
 *
 *   Governed (SNIC_VOLUME_GOVERNED): only a control plane assigns generations. It raises a
 * segment's before it reports the new one to any client, so no client can have a later one than
 * the segment's: a read or write of a later lease is answered NO_LEASE, a later generation of the
 * same lease STALE_GEN, and a fence of a later generation GEN_AHEAD: it takes effect when the
 * control plane has raised the segment, durably, and not before. Otherwise a later lease in a
 * request is trusted: a client's first request for a segment, a read, too, raises the segment's
 * generation and its lowest write version, durably, before it is answered, and all requests of
 * earlier leases are refused from then on. So a client that sends the highest lease fences all
 * others for ever.
 *
 * LUNA's data are not copied on their way: the store reads the received buffers, and the network
 * sends the blocks that were read; only a block that lies in two buffers is assembled. A client
 * that does not receive what it requested has at most a quarter of the sends, then nothing more is
 * received from it, and after 10 s it is closed; its further reads are answered BUSY when others
 * need their places. One that violates the protocol is closed at once. When all streams_max are in
 * use, the first that has not sent HELLO for a second, else the one silent for longest, if that is
 * 10 s, is closed for a later one.
 *
 * The client. SOLAR: an agent, and a datagram socket per path, on ports drawn at random from 49152
 * to 65535. LUNA: an agent and its connections. Each ends when the peer has acknowledged nothing,
 * or has been silent with a response due, for progress_ns (TCP_USER_TIMEOUT, and the agent's own
 * timer, for a peer whose kernel still acknowledges), and is reconnected 1 to 100 ms later; what
 * was not answered is sent again on a connection that responds. With SNIC_VOLUME_PAPER there is
 * one connection without these timers, which waits as long as the network (the net door's
 * idle_ms), as LUNA was published. What is received is copied from the net door's buffers into the
 * I/O's memory, and never kept; what the network has no space for waits in the agent.
 *
 * A disk is a struct snic_io with a block of 4096 bytes: reads and writes are of whole
 * blocks, others are refused by the geometry. A write is done when it is durable, so FUA
 * costs nothing, and a flush waits for the writes before it. ZERO and DISCARD of any size.
 * Results beside the door's:
 *   SNIC_ESTALE    another client has the lease (writes: SNIC_EROFS from then on)
 *   SNIC_EPERM     the server's rights() do not permit it
 *   SNIC_EIO       abandoned after deadline_ns (writes that may be under way: error_ns), or the
 *                  server's device failed
 *   SNIC_ENOSPC    the server's store is full
 *   SNIC_ECORRUPT  the server's copy is damaged
 *   SNIC_EUNKNOWN  the client was closed
 *
 * SOLAR's packets must not be fragmented: its net door, at both ends, must be opened with
 * SNIC_NET_DGRAM_DF (and _TIME where it can), and all links need an MTU of 4252 bytes over IPv4
 * (4348 with SNIC_SOLAR_INT and a secret; 20 more over IPv6), 4400 recommended. On a smaller one no
 * path is ever found to work, and stats.too_large counts.
 *
 * A write's checksum is compared on receipt, kept by the store, and returned to the client
 * (srv_crc); damage to the block in the server's memory after that is found when it is read.
 *
 * The owner knows where segments are: event map() requests a location, snic_volume_map() sets it,
 * then or at any time; without a request, too. map() is also called for a segment whose server has
 * not responded for slow_ns (1 s), or since the server is suspect (300 ms): so I/O follows a
 * segment that moved while the client was unreachable, even when the old server is gone. map() is
 * repeated 1, 2, 4, then 8 s later, until the server responds or the answer is another location.
 */
#ifndef SNIC_VOLUME_H
#define SNIC_VOLUME_H

#include "snicstore/base.h"
#include "snicstore/ebs.h"
#include "snicstore/io.h"
#include "snicstore/loop.h"
#include "snicstore/luna.h"
#include "snicstore/net.h"
#include "snicstore/segments.h"
#include "snicstore/solar.h"

#ifdef __cplusplus
extern "C" {
#endif

/** Alignment of all memory passed here, in bytes. */
#define SNIC_VOLUME_ALIGN SNIC_CACHELINE
/** The segment of a store that is the server's own. */
#define SNIC_VOLUME_META UINT64_MAX
/** Bytes of a segment. */
#define SNIC_VOLUME_SEGMENT_BYTES (2u << 20)
/** The largest disk that a client can open: no engine maps more than 2^20 GiB (chunks_max). */
#define SNIC_VOLUME_DISK_BYTES_MAX (UINT64_C(1) << 50)

/** A generation: of the lease @p sa_epoch (1..65535), after @p moves. [any] */
static inline uint32_t snic_volume_gen(uint32_t sa_epoch, uint32_t moves)
{
    return sa_epoch << 16 | (moves & 0xffffu);
}

/** How a client reaches its servers. */
enum snic_volume_transport { SNIC_VOLUME_SOLAR = 0, SNIC_VOLUME_LUNA };
/** For a server's `transports`: that of a number. */
#define SNIC_VOLUME_SERVES(transport) (UINT32_C(1) << (transport))

/* ---- The block server ---- */

struct snic_volume_server;

/** A server's flag: leases and generations come from a control plane. */
#define SNIC_VOLUME_GOVERNED (1u << 0)

/** Zero it, set opts_size, loop, net, addr, io, disks, seed; another that is 0 has its default. */
struct snic_volume_server_opts {
    uint32_t opts_size;
    uint32_t flags; /**< SNIC_VOLUME_GOVERNED                                                    */
    struct snic_loop *loop;
    struct snic_net *net;
    struct snic_net_addr addr;       /**< to receive at; port 0: any, the same for both          */
    struct snic_io *const *io;       /**< the store's devices; borrowed, the array for the call  */
    uint32_t disks;                  /**< how many                                               */
    uint32_t conns_max;              /**< as in solar.h; default 256                             */
    uint32_t trains_max;             /**< as in solar.h; default 64                              */
    uint32_t writes_max;             /**< requests in the store, 4..65536; default 256           */
    uint32_t reads_max;              /**< likewise; default 64                                   */
    uint32_t transports;             /**< SNIC_VOLUME_SERVES() of each; 0: all that can be        */
    uint64_t seed;                   /**< must not be guessable                                  */
    struct snic_segments_opts store; /**< opts_size may be 0                                     */
    uint32_t streams_max;            /**< LUNA: connections, 1..4096; default 64                 */
    uint32_t sends_max;              /**< LUNA: as in luna.h; default 64                         */
    uint32_t frames_max;             /**< LUNA: as in luna.h; default 64                         */
    uint32_t key_id;                 /**< the secret's number                                    */
    /** Only sealed packets are taken (solar.h: AUTH), and without token_key only SOLAR is served.
     * The secret is one of sec, shared with all clients; two objects of AES-128-GCM. Borrowed.
     * NULL: none of that. */
    void *secret;
    void *wire_keys[2];
    const struct snic_ebs_sec_ops *sec;
    /** Instead of secret: each client has one of its own (solar.h: secret_of), and event rights()
     * decides what it may do. Borrowed until close. */
    void *(*secret_of)(void *ctx, uint32_t key_id, uint32_t account);
    void *secret_ctx;
    /** Disks are opened by tokens alone (ebs_token.h): the signing key of that number, of sec;
     * borrowed until the next call. NULL: there is none. A request for a disk without a valid
     * token is answered NO_TOKEN. Instead of rights(); with secret_of a token belongs to its
     * account, else to account 0. NULL here: no tokens are needed. */
    void *(*token_key)(void *ctx, uint32_t key_id);
    /** With token_key: seconds since 1970-01-01 UTC. */
    uint64_t (*unix_time)(void *ctx);
    void *token_ctx;
    uint32_t tokens_max; /**< remembered, 8..2^20; default 4096, each of 64 bytes. Beyond it those
                              used least recently are evicted and must be shown again            */
    uint32_t pad;
};

/** What an account may do with a disk. */
#define SNIC_VOLUME_MAY_READ (1u << 0)
#define SNIC_VOLUME_MAY_WRITE (1u << 1) /**< and fence; without MAY_READ no block is read      */
SNIC_STATIC_ASSERT(SNIC_VOLUME_MAY_READ == SNIC_EBS_MAY_READ &&
                       SNIC_VOLUME_MAY_WRITE == SNIC_EBS_MAY_WRITE,
                   "as in tokens");

struct snic_volume_server_events {
    /** The end of opening: as of segments.h; SNIC_EOVERFLOW epochs are used up; SNIC_ECORRUPT the
     * version of the server's own segment is lost; errors of the net door. The report is borrowed.
     * After an error only snic_volume_server_close() is allowed. Must not be NULL. */
    void (*opened)(void *ctx, int result, const struct snic_segments_report *report);
    /** A device has failed; requests for segments on it get an I/O error. May be NULL. */
    void (*failed)(void *ctx, uint32_t disk, int error);
    /** As segments.h: while opening, versions of a segment's blocks are lost; and a read, of a
     * client's or of another server's, found a block damaged. May be NULL. */
    void (*damaged)(void *ctx, uint32_t disk, uint64_t seg_id, uint32_t block, uint32_t blocks);
    void (*misread)(void *ctx, uint32_t disk, uint64_t seg_id, uint32_t block, int error);
    /** With secret_of: SNIC_VOLUME_MAY_* of @p account on disk @p vd_id. Called for each request,
     * before the store is consulted; so it must be quick, and a refusal discloses nothing of the
     * disk: neither whether it exists, nor a generation. NULL: every request is refused. */
    uint32_t (*rights)(void *ctx, uint32_t account, uint64_t vd_id);
};

/**
 * Which option is wrong, and how: "NAME: what", static; NULL when all are right. Options of the
 * store are named without their struct. [owner]
 */
SNIC_API const char *snic_volume_server_opts_wrong(const struct snic_volume_server_opts *o)
    SNIC_NONNULL(1);
/** Bytes snic_volume_server_open() needs for @p o; 0: invalid. [owner] */
SNIC_API size_t snic_volume_server_memsize(const struct snic_volume_server_opts *o) SNIC_NONNULL(1);
/**
 * Begin to open the store and to serve; opened() reports the result. [owner]
 * @param[out] out  untouched on failure
 * @param mem       owned until close, aligned to SNIC_VOLUME_ALIGN
 * @param e         copied
 * @return 0; SNIC_EINVAL options, devices or alignment, or no opened event; SNIC_EPERM a READONLY
 *         handle among the devices; SNIC_ENOSPC @p size small
 */
SNIC_API SNIC_NODISCARD int snic_volume_server_open(struct snic_volume_server **out, void *mem,
                                                    size_t size,
                                                    const struct snic_volume_server_opts *o,
                                                    const struct snic_volume_server_events *e,
                                                    void *ctx) SNIC_NONNULL(1, 2, 4, 5);
/**
 * Receive no more, answer no more, run the loop until store and network are idle. What was
 * answered is durable; clients retry, here or elsewhere. [owner]
 * @return the memory
 */
SNIC_API void *snic_volume_server_close(struct snic_volume_server *s) SNIC_NONNULL(1);
/**
 * secret_of() returns other secrets now: connections of accounts without one end, the others use
 * its present result. [owner]
 * @return the number of connections that ended; 0 before opened()
 */
SNIC_API uint32_t snic_volume_server_secrets(struct snic_volume_server *s) SNIC_NONNULL(1);
/** 1: a connection uses this result of secret_of(); else 0. O(connections). [owner] */
SNIC_API int snic_volume_server_secret_used(const struct snic_volume_server *s, const void *secret)
    SNIC_NONNULL(1, 2);
/**
 * token_key() returns other keys now: tokens under keys that are gone are forgotten, and their
 * disks closed until others are shown. [owner]
 * @return how many
 */
SNIC_API uint32_t snic_volume_server_tokens(struct snic_volume_server *s) SNIC_NONNULL(1);
/** The address it receives at, with the chosen port. [owner] @return 0; SNIC_EBUSY not opened */
SNIC_API SNIC_NODISCARD int snic_volume_server_addr(const struct snic_volume_server *s,
                                                    struct snic_net_addr *out) SNIC_NONNULL(1, 2);
/** The store: to create, move, delete segments, and to look. SNIC_VOLUME_META is not to be
 * touched. [owner] */
SNIC_API struct snic_segments *snic_volume_server_store(struct snic_volume_server *s)
    SNIC_NONNULL(1);

struct snic_volume_server_stats {
    struct snic_solar_target_stats target; /**< SOLAR's; zeros if it is not served               */
    uint32_t srv_epoch;
    uint32_t inside;     /**< requests in the store                                             */
    uint64_t busy;       /**< answered so                                                       */
    uint64_t writes;     /**< blocks                                                            */
    uint64_t reads;      /**< blocks                                                            */
    uint64_t groups;     /**< writes of the store that they were                                */
    uint64_t no_segment; /**< refused: not here                                                 */
    uint64_t stale;      /**< refused: generation                                               */
    uint64_t no_lease;   /**< refused: lease                                                    */
    uint64_t ahead;      /**< fences refused: a generation that the server does not have yet    */
    uint64_t invalid;    /**< refused: another disk's, another place, too long                  */
    uint64_t forbidden;  /**< refused: the account may not do that with the disk                */
    uint64_t failed;     /**< by the store                                                      */
    uint64_t no_token;   /**< requests for disks of which no valid token was shown              */
    uint64_t tokens;     /**< shown and accepted                                                */
    uint64_t tokens_refused; /**< expired, of unknown keys, or not valid                         */
    uint64_t tokens_expired; /**< of these, by the server's clock                               */
    uint64_t tokens_no_key;  /**< of these, of a key that the server does not have              */
    uint64_t tokens_evicted; /**< forgotten for others: tokens_max is small                      */
    uint64_t damaged;     /**< blocks read that are                                              */
    uint64_t unsent;      /**< trains and sends that the network refused                         */
    uint64_t read_waits;  /**< reads that waited for trains or sends                             */
    uint64_t meta_errors; /**< of the server's own segment                                       */
    struct snic_luna_target_stats luna; /**< zeros if it is not served                           */
    uint64_t turned_away;               /**< LUNA: connections for which there was no place      */
};
/** Copy the counters. [owner] */
SNIC_API void snic_volume_server_get_stats(const struct snic_volume_server *s,
                                           struct snic_volume_server_stats *out) SNIC_NONNULL(1, 2);

/** A client's connection, as long as it is known; SOLAR's goes over several paths. */
struct snic_volume_server_client {
    uint32_t transport; /**< SNIC_VOLUME_SOLAR, SNIC_VOLUME_LUNA                                 */
    uint32_t inside;    /**< requests that are not answered; LUNA: frames, answers to be sent    */
    uint64_t client_id;
    struct snic_net_addr addr; /**< its address; SOLAR: the last packet's source                 */
    uint64_t since_ns;
    uint64_t heard_ns;
    uint64_t blocks_written; /**< requested                                                      */
    uint64_t blocks_read;
    uint64_t refused; /**< requests that were not done                                           */
    uint64_t packets; /**< SOLAR: received                                                       */
    uint64_t missing; /**< SOLAR: not received, by gaps in their numbers                         */
    uint64_t rerolls; /**< SOLAR: ports that it has changed                                      */
    uint32_t paths;   /**< SOLAR: that were heard. LUNA: the connection's number                 */
    uint32_t paused;  /**< LUNA: it is not received from                                         */
};
/**
 * The next one; @p cursor is 0 at first. Their number is bounded by conns_max and streams_max.
 * [owner]
 * @return 1; 0 there are no more, @p out is untouched
 */
SNIC_API int snic_volume_server_next_client(const struct snic_volume_server *s, uint32_t *cursor,
                                            struct snic_volume_server_client *out)
    SNIC_NONNULL(1, 2, 3);
/** Every invariant. For tests. [owner] @return 0; SNIC_ECORRUPT one does not hold */
SNIC_API int snic_volume_server_check(const struct snic_volume_server *s) SNIC_NONNULL(1);

/* ---- The client ---- */

struct snic_volume;

/** LUNA as it was published: one connection to a server, and nothing bounds its silence. */
#define SNIC_VOLUME_PAPER (1u << 0)

/** Zero it, set opts_size, loop, net, local, seed, client_epoch; another that is 0 has its
 * default. */
struct snic_volume_opts {
    uint32_t opts_size;
    uint32_t flags; /**< SNIC_VOLUME_PAPER                                           */
    struct snic_loop *loop;
    struct snic_net *net;
    struct snic_net_addr local; /**< SOLAR: the paths' sockets; its port is ignored              */
    uint64_t seed;              /**< must not be guessable                                       */
    uint32_t client_epoch;      /**< 1..65535, never used before by this client                  */
    uint32_t disks_max;         /**< default 4                                                   */
    uint32_t servers_max;       /**< known at a time: those in use, and one; default 4           */
    uint32_t depth;             /**< I/Os of a disk, 1..4096; default 128                        */
    uint32_t paths;             /**< the following: as in solar.h; LUNA: conns                   */
    uint32_t rpcs_max;
    uint32_t trains_max; /**< LUNA: sends_max; default 64                                        */
    uint32_t chunks_max; /**< GiB of a disk that can be mapped; default all of disk_blocks_max   */
    uint32_t read_window_bytes; /**< SOLAR                                                       */
    uint32_t transport;         /**< enum snic_volume_transport                                  */
    uint64_t deadline_ns;
    uint64_t slow_ns;
    uint64_t suspect_ns;
    uint64_t disk_blocks_max; /**< largest disk; default chunks_max GiB, or 8 GiB                */
    const struct snic_ebs_sec_ops *sec; /**< for keys; NULL: none                                */
    uint64_t progress_ns;               /**< LUNA: as in luna.h; default 800 ms                  */
    uint32_t window_blocks;             /**< LUNA: as in luna.h                                  */
    uint32_t key_id;                    /**< the secret's number                                 */
    /** SOLAR: packets to and from all servers are sealed (solar.h: AUTH), under keys derived from
     * this secret of sec, which they have, too; two objects of AES-128-GCM. Borrowed. */
    void *secret;
    void *wire_keys[2];
    uint64_t error_ns; /**< as in solar.h; default 0: a write waits for its server or owner    */
    uint32_t account;  /**< the secret's account; 0: all clients of the servers share it       */
    uint32_t pad2;
};

/** Called from the loop; each may be NULL but map. */
struct snic_volume_events {
    /** Look up segment number @p segment of the disk: its location is unknown, or the server of
     * the known location, of a generation up to @p gen, refuses it or does not respond. Repeated
     * with back-off while I/O waits for it; the answer may be the same location. */
    void (*map)(void *ctx, uint32_t disk, uint64_t segment, uint32_t gen);
    /** Another client writes under a newer lease: this disk's writes fail from now on. */
    void (*lease)(void *ctx, uint32_t disk);
    /** No path or connection to the server works (1), or one does again (0). */
    void (*suspect)(void *ctx, uint32_t server, int suspect);
    /** A server does not accept the disk's token: get another one (snic_volume_disk_token()); I/O
     * that the server refuses waits, or, if the disk has had no token, has ended with SNIC_EPERM.
     * At most once a second for each disk. */
    void (*token)(void *ctx, uint32_t disk);
    /** An I/O of the disk is older than slow_ns; it continues. */
    void (*slow)(void *ctx, uint32_t disk, uint64_t lba, uint32_t blocks);
};

/** Which option is wrong, and how: "NAME: what", static; NULL when all are right. [any] */
SNIC_API const char *snic_volume_opts_wrong(const struct snic_volume_opts *o) SNIC_NONNULL(1);
/** Bytes snic_volume_open() needs for @p o; 0: invalid. [any] */
SNIC_API size_t snic_volume_memsize(const struct snic_volume_opts *o) SNIC_NONNULL(1);
/**
 * A client without servers and disks. [owner]
 * @param mem  owned until close, aligned to SNIC_VOLUME_ALIGN
 * @param o    copied; loop, net, sec and keys borrowed until close
 * @param e    copied; @p ctx is passed to its functions
 * @return 0; SNIC_EINVAL options or alignment, or no map event; SNIC_ENOSPC @p size small
 */
SNIC_API SNIC_NODISCARD int snic_volume_open(struct snic_volume **out, void *mem, size_t size,
                                             const struct snic_volume_opts *o,
                                             const struct snic_volume_events *e, void *ctx)
    SNIC_NONNULL(1, 2, 4, 5);
/**
 * I/Os in flight end with SNIC_EUNKNOWN; runs the loop until the network is idle. The disks are
 * closed before, or with it. [owner]
 * @return the memory
 */
SNIC_API void *snic_volume_close(struct snic_volume *v) SNIC_NONNULL(1);
/**
 * Add a server under a free number below servers_max; @p addr is copied. [owner]
 * @return 0; SNIC_EINVAL @p server is not below servers_max; SNIC_EEXIST it is in use
 */
SNIC_API SNIC_NODISCARD int snic_volume_server_add(struct snic_volume *v, uint32_t server,
                                                   const struct snic_net_addr *addr)
    SNIC_NONNULL(1, 3);
/**
 * Remove a server and free its number: its sockets are closed. @p forget: the server may still have
 * mapped segments, whose locations are looked up again (map()) when they are needed. Event
 * suspect() is not called for it any more. [owner]
 * @return 0; SNIC_ENOENT no such server; SNIC_EBUSY an I/O waits for it, or, without @p forget, a
 *         segment is mapped to it
 */
SNIC_API SNIC_NODISCARD int snic_volume_server_remove(struct snic_volume *v, uint32_t server,
                                                      int forget) SNIC_NONNULL(1);
/** Change the address of a known server. [owner] @return 0; SNIC_ENOENT no such server */
SNIC_API SNIC_NODISCARD int snic_volume_server_readdress(struct snic_volume *v, uint32_t server,
                                                         const struct snic_net_addr *addr)
    SNIC_NONNULL(1, 3);

/** A disk: zero it, set opts_size, sa_epoch, vd_id, bytes. */
struct snic_volume_disk_opts {
    uint32_t opts_size;
    uint32_t sa_epoch; /**< 1..65535: the lease, higher at each opening of the disk (solar.h) */
    uint64_t vd_id;
    uint64_t bytes;            /**< multiple of 4096                                             */
    uint64_t bytes_per_second; /**< QoS; 0: none                                                 */
    uint64_t burst_bytes;
    uint64_t ios_per_second; /**< 0: none                                                      */
    uint64_t burst_ios;
    void *xts_key; /**< of the sec ops, borrowed until the disk is closed; or NULL   */
};
/**
 * Open a disk under a free number, below disks_max: a handle of the io door. Close it with
 * snic_io_close(), which runs the loop until its I/Os are done. @p o is copied. [owner]
 * @return 0; SNIC_EINVAL @p disk is not below disks_max, an option, or the client is closing;
 *         SNIC_EEXIST @p disk is in use; SNIC_EOVERFLOW the disk's epochs are used up: it must be
 *         reissued; or an error of sec, that makes a key's tag
 */
SNIC_API SNIC_NODISCARD int snic_volume_disk_open(struct snic_volume *v, uint32_t disk,
                                                  const struct snic_volume_disk_opts *o,
                                                  struct snic_io **out) SNIC_NONNULL(1, 3, 4);
/**
 * Change the QoS of a disk: only the four fields are read. [owner]
 * @return 0; SNIC_ENOENT no such disk is open; SNIC_EINVAL @p disk is not below disks_max, or a
 *         limit out of range
 */
SNIC_API SNIC_NODISCARD int snic_volume_disk_qos(struct snic_volume *v, uint32_t disk,
                                                 const struct snic_volume_disk_opts *o)
    SNIC_NONNULL(1, 3);
/**
 * Set the token that servers are shown for a disk from now on (ebs_token.h); copied. Set another
 * one before it expires; I/O that a server refuses for want of a valid one waits until deadline_ns.
 * If the disk never had one, such I/O ends with SNIC_EPERM. [owner]
 * @return 0; SNIC_ENOENT no such disk is open
 */
SNIC_API SNIC_NODISCARD int snic_volume_disk_token(struct snic_volume *v, uint32_t disk,
                                                   const unsigned char token[SNIC_EBS_TOKEN_BYTES])
    SNIC_NONNULL(1, 3);
/**
 * Set the location of a segment of a disk. [owner]
 * @return 0; SNIC_ENOENT no such disk or server; SNIC_EINVAL @p segment is beyond the disk;
 *         SNIC_ESTALE the generation is older; SNIC_ENOSPC chunks_max GiB of the disk are mapped
 */
SNIC_API SNIC_NODISCARD int snic_volume_map(struct snic_volume *v, uint32_t disk, uint64_t segment,
                                            uint64_t seg_id, uint32_t server, uint32_t gen)
    SNIC_NONNULL(1);
/**
 * A segment that map() requested did not exist at some time from @p lookup_ns on, by the loop's
 * clock: nothing had ever been written there. I/O submitted by then that still waits for its first
 * location is done: reads with zeros, ZERO and DISCARD without effect; writes wait on. Not
 * remembered: the next read looks the segment up again. [owner]
 * @return 0; SNIC_ENOENT disk
 */
SNIC_API SNIC_NODISCARD int snic_volume_hole(struct snic_volume *v, uint32_t disk, uint64_t segment,
                                             uint64_t lookup_ns) SNIC_NONNULL(1);
/**
 * A segment that map() requested can not be placed now: I/O that waits for its first location ends
 * with @p result, as SNIC_ENOSPC. Not remembered: the next write looks it up again. [owner]
 * @return 0; SNIC_ENOENT disk
 */
SNIC_API SNIC_NODISCARD int snic_volume_refuse(struct snic_volume *v, uint32_t disk,
                                               uint64_t segment, int result) SNIC_NONNULL(1);
/**
 * What waits for a segment. Without PLACE in it a segment that was never written need not be
 * placed: snic_volume_hole(). [owner]
 * @return SNIC_EBS_WAITS_* (ebs_io.h)
 */
SNIC_API uint32_t snic_volume_waits(const struct snic_volume *v, uint32_t disk, uint64_t segment)
    SNIC_NONNULL(1);
/**
 * Query the states of a segment's blocks, as a request to a disk's handle: a READ of one block, the
 * first of the segment, returns a byte for each block of the segment (enum snic_ebs_state), then
 * zeros. Blocks behind the disk's end are NEVER. It completes as a READ does. [owner]
 * @return 1 accepted, borrowed until done; 0 the queue is full; SNIC_EINVAL the handle is not a
 *         disk, or the request not such a read; SNIC_ECANCELED it is being closed
 */
SNIC_API SNIC_NODISCARD int snic_volume_disk_states(struct snic_io *io, struct snic_io_req *req)
    SNIC_NONNULL(1, 2);
/** The owner knows that another client has the disk's lease: new writes and flushes end with
 * SNIC_EROFS; reads continue where the server does not know of a later lease. [owner] */
SNIC_API void snic_volume_disk_lost(struct snic_volume *v, uint32_t disk) SNIC_NONNULL(1);

struct snic_volume_stats {
    struct snic_solar_stats agent; /**< SOLAR's; zeros with LUNA                                 */
    uint64_t unsent;  /**< trains and sends that the network refused                             */
    uint64_t sockets; /**< opened                                                                */
    uint64_t binds;   /**< ports that could not be bound; LUNA: connects that could not begin    */
    uint64_t maps;    /**< calls of map()                                                        */
    uint32_t open;    /**< sockets                                                               */
    uint32_t transport;          /**< enum snic_volume_transport                                 */
    struct snic_luna_stats luna; /**< zeros with SOLAR                                           */
    uint64_t too_large; /**< SOLAR: trains and datagrams that do not fit through a link's MTU    */
};
/** Copy the counters. [owner] */
SNIC_API void snic_volume_get_stats(const struct snic_volume *v, struct snic_volume_stats *out)
    SNIC_NONNULL(1, 2);
/**
 * Whether a server refuses requests, or its store failed. Times are the loop's. [owner]
 * @return 0; SNIC_ENOENT no such server
 */
SNIC_API SNIC_NODISCARD int snic_volume_get_busy(const struct snic_volume *v, uint32_t server,
                                                 struct snic_ebs_busy *out) SNIC_NONNULL(1, 3);
/**
 * What a disk waits for; @p out is set only with 1. [owner]
 * @return 1; 0 nothing; SNIC_ENOENT no such disk
 */
SNIC_API SNIC_NODISCARD int snic_volume_get_wait(const struct snic_volume *v, uint32_t disk,
                                                 struct snic_ebs_wait *out) SNIC_NONNULL(1, 3);
/** A server's address, as last set. [owner] @return 0; SNIC_ENOENT no such server */
SNIC_API SNIC_NODISCARD int snic_volume_get_addr(const struct snic_volume *v, uint32_t server,
                                                 struct snic_net_addr *out) SNIC_NONNULL(1, 3);
/** Copy the state of a path. [owner] @return 0; SNIC_ENOENT no such server or path, or LUNA */
SNIC_API SNIC_NODISCARD int snic_volume_get_path(const struct snic_volume *v, uint32_t server,
                                                 uint32_t path, struct snic_solar_path_stats *out)
    SNIC_NONNULL(1, 4);
/**
 * Copy the state of a connection. [owner]
 * @return 0; SNIC_ENOENT no such server or connection, or SOLAR
 */
SNIC_API SNIC_NODISCARD int snic_volume_get_conn(const struct snic_volume *v, uint32_t server,
                                                 uint32_t conn, struct snic_luna_conn_stats *out)
    SNIC_NONNULL(1, 4);
/** Every invariant. For tests. [owner] @return 0; SNIC_ECORRUPT one does not hold */
SNIC_API int snic_volume_check(const struct snic_volume *v) SNIC_NONNULL(1);

#ifdef __cplusplus
}
#endif
#endif /* SNIC_VOLUME_H */
