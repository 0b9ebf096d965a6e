/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/**
 * @file snicstore/control.h
 * The control plane of virtual disks: leases of disks, and locations of their segments. A catalog,
 * owned by one process; the ends of block servers and of clients; and a caller, for operators.
 *
 * Depends on  snicstore/base.h, ebs.h, loop.h, io.h, net.h, wal.h, segments.h, volume.h.
 * Memory      The caller supplies all of it (memsize, open); nothing is allocated afterwards,
 *             except by the net door. The catalog: its log's buffers; for each of segments_max,
 *             placed or not, 40 bytes and the hash's 4, for each of disks_max 188 and 4, where the
 *             hash is of the next power of two; 69 KiB for each of sessions_max, 112 bytes for each
 *             of ops_max, 0.2 MiB for the servers and refused connections. A block server's end
 *             4 MiB.
 * Threads     The owner thread of the loop.
 * Progress    No call blocks but close, which runs the loop.
 * Errors      0 on success, a negative SNIC_E* otherwise; then nothing changed. Results of requests
 *             arrive in events, never from inside the call.
 * Units       nanoseconds; bytes; segments of 2 MiB.
 * Input       Messages and the contents of the catalog's device are hostile.
 *
 * Guarantees
 *   Durable. All that the catalog has sent to any peer survives power loss: a message leaves only
 *     when all decisions made before it are durable.
 *   One writer. A lease (sa_epoch) is granted to one client. It is granted when every block server
 *     that can be reached refuses the leases before it, and a segment's location is disclosed only
 *     when its server does; so no older lease changes any more what the new holder has seen of a
 *     segment. A holder whose session is gone, or silent for lease_ns, loses nothing until another
 *     client attaches.
 *   Never wraps. A disk has 65534 leases; then attach is refused with SNIC_EOVERFLOW until the disk
 *     is reissued: copied to a disk of the same name whose leases begin at 1. The holder of the
 *     last one keeps it until it detaches or the lease is revoked. A segment has 21845 moves in one
 *     lease.
 *   Keys. The catalog has a check value of the key of an encrypted disk; only clients have the key.
 *     A client that has another key, or none, or has one for a disk without, is refused before it
 *     is granted anything. The catalog and the servers never have a key.
 *   Servers. There are at most SNIC_CONTROL_SERVERS_MAX at a time. One that is gone for good is
 *     removed by FORGET when it has no segments; its number may be reused then, and it is refused
 *     if it registers again.
 *   Moves. While a segment moves its I/O continues but for the last part. No acknowledged write is
 *     lost, whether acknowledged before, during or after the move; late requests are refused at the
 *     source and at the destination. Blocks that are damaged at the source are damaged at the
 *     destination, the others move. A client that was disconnected when a segment moved looks it up
 *     when it has reconnected, for its volume requests a lookup (volume.h) of segments whose known
 *     server does not respond.
 *   Thin. A segment is placed at its first write, by round robin on a server that has free places.
 *     Until then reads of it are zeros, and ZERO and DISCARD have no effect: for these a client
 *     looks it up only if it is placed (SNIC_CONTROL_IF_PLACED), each time anew. If no server has a
 *     free place, I/O that waits for one ends with SNIC_ENOSPC, at once; while a server that may
 *     have one is down, for 10 s, the client retries (SNIC_EHOSTUNREACH).
 *
 * How a segment moves from A to B: B makes it, hidden, and copies all blocks with their versions
 * from A, while writes to A continue; then those that changed meanwhile, up to 5 passes in all, or
 * until one copies 16 blocks or fewer. A higher generation is recorded, and set at A, which from
 * then on refuses the one that clients have; they look it up, and wait. B copies the newer blocks.
 * The new location is recorded with a still higher generation, sent to the client, and the segment
 * at A deleted: an A that does not receive that command refuses requests of the new generation,
 * even if it has taken over B's address. A move takes three of the 65535 generations of a lease.
 * Until it is recorded the segment is at A: if anything fails, or the catalog's process dies,
 * clients are sent A with the new generation, and B's copy is deleted. No client is sent B before,
 * so B's copy does no harm.
 *
 * Deletions need no record: a server that registers reports its segments, and is sent which to keep
 * and from which generation on. A server belongs to the catalog it registered with first, and
 * refuses another one; segments of disks that the catalog never made are left alone. An older copy
 * of the catalog that was restored is refused if the server has seen a later start of it, a later
 * lease, or a move that the copy does not have. Segments that were first used since, under a lease
 * that the copy has, can not be distinguished from unfinished placements, and are deleted: do not
 * restore a copy that is not the newest state.
 *
 * Access. Without keys (struct snic_control_auth) the control network is trusted: any host that
 * reaches the catalog is answered. With them each connection first proves an account; a client is
 * sent only data of its own disks, and its grant has a token (ebs_token.h), from which servers know
 * its rights without a query.
 *
 * Limits. The catalog is one process; while it is down, I/O continues on segments that are mapped.
 * A segment is on one server: when that is lost, so is the segment.
 */
#ifndef SNIC_CONTROL_H
#define SNIC_CONTROL_H

#include "snicstore/base.h"
#include "snicstore/ebs.h"
#include "snicstore/io.h"
#include "snicstore/loop.h"
#include "snicstore/net.h"
#include "snicstore/segments.h"
#include "snicstore/volume.h"
#include "snicstore/wal.h"

#ifdef __cplusplus
extern "C" {
#endif

/** Alignment of all memory passed here, in bytes. */
#define SNIC_CONTROL_ALIGN SNIC_CACHELINE
/** Of the protocol. */
#define SNIC_CONTROL_VERSION 3u
/** Most bytes of a name, the end included: letters, digits, '.', '_', '-'. */
#define SNIC_CONTROL_NAME 64u
/** Most items of a message. */
#define SNIC_CONTROL_ITEMS 64u
/** Most servers. */
#define SNIC_CONTROL_SERVERS_MAX 256u
/** The segment of a server's store that is the control plane's: the catalog it belongs to. */
#define SNIC_CONTROL_META (UINT64_MAX - 1)
/** The last lease that a client is granted. The one after it is never granted, so that this one,
   too, can be ended by REVOKE. */
#define SNIC_CONTROL_LEASE_MAX 65534u

/** The id of a disk's segment in the servers' stores. [any] */
static inline uint64_t snic_control_seg_id(uint32_t vd, uint64_t segment)
{
    return (uint64_t)vd << 32 | (segment & UINT32_MAX);
}

/* ---- Messages ---- */

enum snic_control_type {
    SNIC_CONTROL_HELLO = 1, /**< the first: role; a server: server, serial, uuid, addr, peer   */
    SNIC_CONTROL_WELCOME,   /**< uuid, incarnation, server, serial                             */
    SNIC_CONTROL_DONE,      /**< the end of the request `tag`: status, value                   */
    SNIC_CONTROL_PING,      /**< bytes: free places, value: all                                */
    SNIC_CONTROL_PONG,
    /* client */
    SNIC_CONTROL_ATTACH, /**< name, key, flags: SNIC_CONTROL_TAKE                              */
    SNIC_CONTROL_RESUME, /**< vd, lease                                                        */
    SNIC_CONTROL_GRANT,  /**< to both: status, name, key, vd, lease, bytes, qos, token, and the
                              seconds for which it is valid: value; 0: there is none           */
    SNIC_CONTROL_DETACH, /**< vd, lease                                                        */
    SNIC_CONTROL_LOOKUP, /**< vd, lease, items: segment, gen: nothing older is wanted; status:
                              SNIC_CONTROL_IF_PLACED; the answers repeat the tag               */
    SNIC_CONTROL_MAP,    /**< vd, items: segment, server, gen, status; requested or not        */
    SNIC_CONTROL_SERVER, /**< server, addr: before any map names it                            */
    SNIC_CONTROL_QOS,    /**< vd, qos: it has changed                                          */
    SNIC_CONTROL_LOST,   /**< vd, lease, status: this lease is over                            */
    /* block server */
    SNIC_CONTROL_CLAIM,   /**< items: id, gen of the store's segments; flags: 1 the last        */
    SNIC_CONTROL_VERDICT, /**< items: the same, status: 0 keep, from gen on; or SNIC_ENOENT    */
    SNIC_CONTROL_READY,   /**< bytes, value as PING: all verdicts are executed, and all
                               commands received before it; those are not answered             */
    SNIC_CONTROL_COMMAND, /**< op, segment: id, vd, value: lba, gen, addr                      */
    SNIC_CONTROL_RESULT,  /**< of the command `tag`: status, bytes, value as PING              */
    /* between servers */
    SNIC_CONTROL_PULL,   /**< segment: id, gen, value: first block; body: versions it has      */
    SNIC_CONTROL_BLOCKS, /**< status, value: fence; body: the newer blocks                     */
    /* operator */
    SNIC_CONTROL_CREATE,   /**< name (not one that ends in ".reissue"), key, bytes, qos         */
    SNIC_CONTROL_DELETE,   /**< name                                                            */
    SNIC_CONTROL_REVOKE,   /**< name: the lease is over, no client has the next one             */
    SNIC_CONTROL_SET_QOS,  /**< name, qos: numbers other than SNIC_CONTROL_KEEP change          */
    SNIC_CONTROL_MOVE,     /**< name, segment, server; SNIC_EBUSY, SNIC_EAGAIN retry later:
                                another move, or four servers copy from the source           */
    SNIC_CONTROL_REISSUE,  /**< name: leases are used up: it becomes a disk that has had none  */
    SNIC_CONTROL_FORGET,   /**< server: it is gone for good; SNIC_EBUSY it is connected,
                                SNIC_ENOTEMPTY it has segments                                  */
    SNIC_CONTROL_DISKS,    /**< value: from; DISK messages, DONE with value: the next from, or 0 */
    SNIC_CONTROL_NODES,    /**< likewise: NODE messages                                         */
    SNIC_CONTROL_SEGMENTS, /**< likewise: name; SEGMENT messages                              */
    SNIC_CONTROL_DISK,     /**< name, key, vd, lease, flags: 1 held, bytes, qos, value: segments */
    SNIC_CONTROL_NODE,     /**< server, addr, peer, flags: 1 up, bytes, value as PING, segment:
                                how many the catalog has placed there                           */
    SNIC_CONTROL_SEGMENT,  /**< vd, items: segment, server, gen, status: 1 moves                */
    SNIC_CONTROL_AUTH, /**< before HELLO, if both ends have keys (struct snic_control_auth): op: 1,
                            from the end that connects: gen: the key's number, vd: account,
                            uuid: random; 2, the answer: uuid: random, proof; 3: proof       */
    SNIC_CONTROL_TYPE_END
};

enum snic_control_role {
    SNIC_CONTROL_CLIENT = 1,
    SNIC_CONTROL_STORE,
    SNIC_CONTROL_OPERATOR,
    SNIC_CONTROL_PEER
};

/** A block server's commands. */
enum snic_control_op {
    SNIC_CONTROL_MAKE = 1, /**< create a segment, with `gen`                                   */
    SNIC_CONTROL_DROP,     /**< delete a segment; no error if it does not exist                */
    SNIC_CONTROL_GEN,      /**< set its generation                                             */
    SNIC_CONTROL_RAISE,    /**< raise the lease of all segments of the disk to that of gen     */
    SNIC_CONTROL_DROP_ALL, /**< delete all segments of the disk                                */
    SNIC_CONTROL_COPY,     /**< copy the newer blocks of a segment from the server at addr     */
    SNIC_CONTROL_COPY_NEW, /**< fill it from segment `value` there; versions begin anew        */
    SNIC_CONTROL_OP_END
};

/** ATTACH: take the lease even if another client has it. */
#define SNIC_CONTROL_TAKE (1u << 0)

/** LOOKUP, the status of an item: do not place it if it is not placed; the answer is SNIC_ENOENT
    then, with the LOOKUP's tag. Any other number but 0 is the same. */
#define SNIC_CONTROL_IF_PLACED 1

/** SET_QOS, any of its four numbers: it does not change. Not a valid limit. */
#define SNIC_CONTROL_KEEP (UINT64_MAX - 1)

/** Of CREATE and SET_QOS: others than snic_ebs_qos_set() accepts are refused with SNIC_EINVAL. */
struct snic_control_qos {
    uint64_t bytes_per_second; /**< 0: none; at most 2^40                                      */
    uint64_t burst_bytes;      /**< 0: the default of the volume; at most 2^40, where there is a
                                    limit                                                      */
    uint64_t ios_per_second;   /**< 0: none; at most 2^40                                      */
    uint64_t burst_ios;        /**< as burst_bytes                                             */
};

struct snic_control_item {
    uint64_t segment; /**< its number in the disk, or CLAIM, VERDICT: its id                   */
    uint32_t gen;
    uint32_t server;
    int32_t status;
    uint32_t pad;
};

/** A message as plain data; fields that a type does not have are zero. */
struct snic_control_msg {
    uint8_t type; /**< enum snic_control_type */
    uint8_t role;
    uint8_t op;
    uint8_t flags;
    uint32_t tag; /**< the requester's                                                         */
    int32_t status;
    uint32_t vd;
    uint32_t lease;
    uint32_t gen;
    uint32_t server;
    uint32_t count;
    uint64_t segment;
    uint64_t bytes;
    uint64_t value;
    uint64_t incarnation;
    uint64_t uuid[2];
    uint64_t key[2]; /**< a disk's: the check value of its key; 0: it has none                 */
    uint64_t serial; /**< a server's: distinguishes it from others that had its number         */
    struct snic_control_qos qos;
    struct snic_net_addr addr;
    struct snic_net_addr peer;
    char name[SNIC_CONTROL_NAME];
    struct snic_control_item item[SNIC_CONTROL_ITEMS];
    unsigned char token[SNIC_EBS_TOKEN_BYTES];
    unsigned char proof[32];
    const unsigned char *body; /**< PULL, BLOCKS: points into the decoded bytes                */
    uint32_t body_size;
    uint32_t pad;
};

/** Bytes of a message's header (lib/control/FORMAT.md); most of one without and with blocks. */
#define SNIC_CONTROL_HEAD 16u
#define SNIC_CONTROL_SMALL 4096u
#define SNIC_CONTROL_LARGE (SNIC_CONTROL_SMALL + 64u * (32u + 4096u))

/**
 * Write a message. [any]
 * @return its bytes; SNIC_ENOSPC @p size small; SNIC_EINVAL unknown type, more than
 *         SNIC_CONTROL_ITEMS items, an invalid name, or an address of an unknown family; after an
 *         error @p out may have been written
 */
SNIC_API int snic_control_put(unsigned char *out, uint32_t size, const struct snic_control_msg *m)
    SNIC_NONNULL(1, 3);
/**
 * Read one message from the beginning of @p in. [any]
 * @param most  of at least SNIC_CONTROL_HEAD: no message is longer
 * @return its bytes; 0 more are needed; SNIC_EVERSION another version of the protocol;
 *         SNIC_EMSGSIZE longer than @p most; SNIC_ECORRUPT checksum mismatch; SNIC_EPROTO bad
 *         magic, unknown type, or malformed fields. @p m is valid only after a positive result
 */
SNIC_API int snic_control_get(struct snic_control_msg *m, const unsigned char *in, uint32_t size,
                              uint32_t most) SNIC_NONNULL(1, 2);
/** 1: valid as a disk's name; else 0. [any] */
SNIC_API int snic_control_name_ok(const char *name) SNIC_NONNULL(1);

/* ---- Authentication ---- */

/**
 * Keys of connections. Both ends prove, before anything else is sent, that they have the secret of
 * an account; every message afterwards has a MAC, so that changed, dropped or repeated messages are
 * detected. Messages are not encrypted: the network can read names, sizes and addresses of disks,
 * and tokens, which are of no use without their account's secret. An end with keys refuses one
 * without, and the reverse. Borrowed until the object that it is passed to is closed.
 *   Account 0 is the servers' and operators'; others are clients', which are sent data only of the
 * disks that the catalog's rights() permits.
 */
struct snic_control_auth {
    const struct snic_ebs_sec_ops *sec; /**< its mac                                           */
    void *secret;                       /**< of sec: the end that connects proves this one,
                                             and one that accepts without secret_of            */
    uint32_t key_id;                    /**< the secret's number                               */
    uint32_t account;                   /**< the secret's account                              */
    uint64_t seed;                      /**< must not be guessable, another one at each start  */
    /** For the end that accepts: the secret of an account; NULL: there is none, and the connection
     * ends. May be NULL: `secret` is the only one. */
    void *(*secret_of)(void *ctx, uint32_t key_id, uint32_t account);
    void *ctx;
};

/* ---- The catalog ---- */

struct snic_control;

/** Zero it, set opts_size, loop, net, addr, io; another that is 0 has its default. */
struct snic_control_opts {
    uint32_t opts_size;
    uint32_t flags; /**< SNIC_WAL_CREATE, SNIC_WAL_FORMAT                                      */
    struct snic_loop *loop;
    struct snic_net *net;
    struct snic_net_addr addr; /**< a stream's; port 0: any                                    */
    struct snic_io *io;        /**< of the catalog, which must be its only writer              */
    uint32_t disks_max;        /**< default 256, at most 65536                                 */
    uint32_t segments_max;     /**< default 65536, at most 2^28                                */
    uint32_t sessions_max;     /**< default 64, at most 4096: connections of servers, clients and
                                    operators; one more is answered SNIC_ENFILE, as is a client
                                    if no more are left than recorded servers are down (half of
                                    all at most). One without HELLO for 3 s (lease_ns, if less)
                                    is closed, any other after lease_ns or server_ns of silence */
    uint32_t ops_max;          /**< in progress, default 256, at most 32768; of one
                                    session no more than are free. Requests beyond are answered
                                    SNIC_EAGAIN, and clients retry                             */
    uint64_t lease_ns;         /**< a holder's session ends after so long a silence; default
                                    10 s, 100 ms..24 h                                         */
    uint64_t server_ns;        /**< a server's does; default 3 s, 100 ms..24 h                 */
    uint64_t uuid[2];          /**< format: names the catalog; must not be 0                   */
    const struct snic_control_auth *auth; /**< NULL: any client may request anything           */
};

enum snic_control_event_type {
    SNIC_CONTROL_SERVER_UP = 1, /**< server                                                    */
    SNIC_CONTROL_SERVER_DOWN,
    SNIC_CONTROL_SERVER_REFUSED,   /**< server, error: SNIC_EPERM it belongs to another catalog,
                                        SNIC_ESTALE this catalog does not know it, or is an older
                                        state; SNIC_EBUSY it is connected from another address;
                                        SNIC_ENOSPC too many                                     */
    SNIC_CONTROL_SEGMENTS_MISSING, /**< value: segments that are placed there, and missing       */
    SNIC_CONTROL_GRANTED,          /**< vd, value: lease                                         */
    SNIC_CONTROL_ENDED,            /**< vd: the holder detached, disconnected, or lost it        */
    SNIC_CONTROL_MOVED,            /**< vd, value: segment, server                               */
    SNIC_CONTROL_MOVE_FAILED,      /**< likewise, error                                          */
    SNIC_CONTROL_NO_PLACE,         /**< vd, value: segment, error: SNIC_ENOSPC no server has a free
                                        place, SNIC_EHOSTUNREACH one that is down may have, or
                                        SNIC_E2BIG segments_max are placed                       */
    SNIC_CONTROL_SESSIONS_FULL     /**< value: connections that were refused so far, for
                                  sessions_max                                             */
};

struct snic_control_event {
    uint32_t type; /**< enum snic_control_event_type */
    uint32_t server;
    uint32_t vd;
    int32_t error;
    uint64_t value;
    const char *name;                 /**< of disk vd; NULL: none. Borrowed                    */
    const struct snic_net_addr *addr; /**< the server's, or its last; NULL: none. Borrowed     */
};

struct snic_control_events {
    /** It serves, or the reason why not: errors of snic_wal_open(), of listening; SNIC_ECORRUPT a
     * gap in the log, or invalid records; SNIC_ENOSPC more disks or segments than the options
     * permit, or the options permit more than the device has space to record (100 bytes a segment,
     * 264 a disk, twice). After an error only close is allowed. Must not be NULL. */
    void (*opened)(void *ctx, int result, const struct snic_wal_report *report);
    /** The catalog's device has failed: no request is executed any more, sessions end. May be NULL.
     */
    void (*failed)(void *ctx, int error);
    /** SNIC_EBS_MAY_* of an account on a disk; if 0 the client is answered SNIC_EPERM, as for a
     * disk that does not exist. Without MAY_WRITE no segment is placed for it, and it takes no
     * lease that another client has not returned. NULL: every account has all rights. */
    uint32_t (*rights)(void *ctx, uint32_t account, uint32_t vd);
    /** Sign a token (ebs_token.h): disk, account, generation and rights are filled in; fill in
     * key_id and not_after. Not every signed token is granted. @return the seconds for which it is
     * valid; 0: there are none; SNIC_E*: none can be signed now: an attach is answered SNIC_EAGAIN,
     * takes no lease from its holder, and is retried by the client; one that resumes keeps the
     * token that it has. NULL: there are none. */
    int (*token)(void *ctx, struct snic_ebs_token *t, unsigned char out[SNIC_EBS_TOKEN_BYTES]);
    /** For logs. May be NULL. */
    void (*event)(void *ctx, const struct snic_control_event *e);
};

/** Which option is invalid, and how: "NAME: what", static; NULL: none. [any] */
SNIC_API const char *snic_control_opts_wrong(const struct snic_control_opts *o) SNIC_NONNULL(1);
/** Bytes snic_control_open() needs for @p o; 0: an option is invalid. [any] */
SNIC_API size_t snic_control_memsize(const struct snic_control_opts *o) SNIC_NONNULL(1);
/**
 * Begin to open the catalog and to serve; opened() reports the result. [owner]
 * @param[out] out  untouched on failure
 * @param mem       owned until snic_control_close(); aligned to SNIC_CONTROL_ALIGN
 * @param e         copied
 * @return 0; SNIC_EINVAL an option, the alignment, or no opened(); SNIC_ENOSPC @p size small;
 *         SNIC_EPERM the log's device is a READONLY handle
 */
SNIC_API SNIC_NODISCARD int snic_control_open(struct snic_control **out, void *mem, size_t size,
                                              const struct snic_control_opts *o,
                                              const struct snic_control_events *e, void *ctx)
    SNIC_NONNULL(1, 2, 4, 5);
/** End all sessions, run the loop until they are closed, close the log. No event follows.
 * @return the memory [owner] */
SNIC_API void *snic_control_close(struct snic_control *c) SNIC_NONNULL(1);
/** secret_of() and rights() return other values now: sessions of accounts that have no secret any
 * more end, and the latest lease of a disk is ended, as by REVOKE, if its account has no right to
 * the disk any more, or one less than its tokens permit, also if it was returned. A lease that
 * cannot be ended now is retried every 50 ms; a process that begins to serve compares all, too. A
 * server refuses a granted token from when it has the next lease: servers in a session with the
 * catalog at once, others when they register again. Until then they accept the token, at most until
 * it expires: the seconds that token() returns are the bound. O(sessions, disks). [owner] */
SNIC_API void snic_control_accounts_changed(struct snic_control *c) SNIC_NONNULL(1);
/** The address it listens at. [owner] @return 0; SNIC_EBUSY it does not serve yet */
SNIC_API SNIC_NODISCARD int snic_control_addr(const struct snic_control *c,
                                              struct snic_net_addr *out) SNIC_NONNULL(1, 2);

struct snic_control_stats {
    uint32_t disks;
    uint32_t segments;
    uint32_t servers; /**< known                                                               */
    uint32_t servers_up;
    uint32_t sessions;
    uint32_t ops; /**< in progress                                                             */
    uint64_t incarnation;
    uint64_t grants;
    uint64_t lookups; /**< segments                                                            */
    uint64_t placed;
    uint64_t moved;
    uint64_t moves_failed;
    uint64_t refused;         /**< requests                                                  */
    uint64_t malformed;       /**< sessions ended by a malformed message                       */
    uint64_t deleted;         /**< verdicts                                                  */
    uint64_t records;         /**< appended                                                  */
    uint64_t overrun;         /**< sessions ended because the peer did not read              */
    uint64_t rejected;        /**< connections, for sessions_max                             */
    uint64_t tokens;          /**< granted                                                   */
    uint64_t forbidden;       /**< requests of accounts without the right                    */
    uint64_t unauthenticated; /**< connections that have not proven an account               */
};
/** Counters since open, and the present state. [owner] */
SNIC_API void snic_control_get_stats(const struct snic_control *c, struct snic_control_stats *out)
    SNIC_NONNULL(1, 2);
/**
 * A segment's location in the catalog: @p out: segment, server, gen, status: 1 it moves. [owner]
 * @return 0; SNIC_ENOENT it is not placed
 */
SNIC_API SNIC_NODISCARD int snic_control_find(const struct snic_control *c, uint32_t vd,
                                              uint64_t segment, struct snic_control_item *out)
    SNIC_NONNULL(1, 4);
/**
 * Check every structural invariant. For tests. [owner]
 * @return 0; SNIC_ECORRUPT one does not hold
 */
SNIC_API int snic_control_check(const struct snic_control *c) SNIC_NONNULL(1);

/* ---- A block server's end ---- */

struct snic_control_agent;

/** Zero it, set opts_size, loop, net, control, listen, addr, store. */
struct snic_control_agent_opts {
    uint32_t opts_size;
    uint32_t flags; /**< 0                                                                     */
    struct snic_loop *loop;
    struct snic_net *net;
    struct snic_segments *store;  /**< opened; is closed after the agent                       */
    struct snic_net_addr control; /**< the catalog's                                           */
    struct snic_net_addr addr;    /**< the block server's, as clients reach it                 */
    struct snic_net_addr listen;  /**< for other servers, which copy from here; port 0: any    */
    const struct snic_control_auth *auth; /**< to the catalog, and between servers; NULL: none */
    uint64_t ping_ns;  /**< default 500 ms                                          */
    uint64_t retry_ns; /**< until it reconnects; default 100 ms                     */
};

struct snic_control_agent_events {
    /** It is registered, and all its segments are confirmed (1), or it is not any more (0). */
    void (*ready)(void *ctx, int is, uint32_t server);
    /** Registration failed; it is retried. SNIC_EPERM, SNIC_ESTALE the store belongs to another
     * catalog, or to a later state of this one; SNIC_EBUSY a server of its number is connected from
     * another address; SNIC_ENOSPC the catalog has SNIC_CONTROL_SERVERS_MAX servers; SNIC_ENFILE
     * all its sessions are in use; SNIC_EACCES it does not accept the key, or requires one;
     * SNIC_ENOTSUP it has none; SNIC_EVERSION it uses another version of the protocol; errors of
     * the store. */
    void (*refused)(void *ctx, int error);
    /** A block of a segment (by its id) that was copied here is damaged at the source: it is
     * damaged here, too, until it is written. */
    void (*lost)(void *ctx, uint64_t segment, uint32_t block);
};

/** Which option is invalid, and how: "NAME: what", static; NULL: none. [any] */
SNIC_API const char *snic_control_agent_opts_wrong(const struct snic_control_agent_opts *o)
    SNIC_NONNULL(1);
/** Bytes snic_control_agent_open() needs; 0: an option is invalid. [any] */
SNIC_API size_t snic_control_agent_memsize(const struct snic_control_agent_opts *o) SNIC_NONNULL(1);
/**
 * Listen for other servers, and register, again after each disconnection. [owner]
 * @param[out] out  untouched on failure
 * @param mem       owned until snic_control_agent_close(); aligned to SNIC_CONTROL_ALIGN
 * @param e         copied; its members may be NULL
 * @return 0; SNIC_EINVAL an option, the alignment, or not an address of this machine; SNIC_ENOSPC
 *         @p size small, or no listener or descriptor left; SNIC_EADDRINUSE another listener has
 *         the address; SNIC_EACCES no permission for it; SNIC_ENOTSUP its family
 */
SNIC_API SNIC_NODISCARD int snic_control_agent_open(struct snic_control_agent **out, void *mem,
                                                    size_t size,
                                                    const struct snic_control_agent_opts *o,
                                                    const struct snic_control_agent_events *e,
                                                    void *ctx) SNIC_NONNULL(1, 2, 4, 5);
/** Call it before the store is closed. Runs the loop until its requests at the store and its
 * connections have ended; no event follows. @return the memory [owner] */
SNIC_API void *snic_control_agent_close(struct snic_control_agent *a) SNIC_NONNULL(1);

struct snic_control_agent_stats {
    uint32_t server; /**< its number; 0: not known yet                                         */
    uint32_t ready;  /**< 1: registered                                                        */
    uint64_t commands;
    uint64_t failed;     /**< commands                                                         */
    uint64_t claimed;    /**< segments                                                         */
    uint64_t deleted;    /**< segments, by verdict                                             */
    uint64_t copied_in;  /**< blocks copied from other servers                                 */
    uint64_t copied_out; /**< blocks sent to other servers                                     */
    uint64_t lost;       /**< of those copied in: damaged at the source, and now here          */
};
/** Counters since open, and the present state. [owner] */
SNIC_API void snic_control_agent_get_stats(const struct snic_control_agent *a,
                                           struct snic_control_agent_stats *out) SNIC_NONNULL(1, 2);

/* ---- A client's end ---- */

struct snic_control_client;

/** Zero it, set opts_size, loop, net, control; another that is 0 has its default. */
struct snic_control_client_opts {
    uint32_t opts_size;
    uint32_t flags; /**< 0                                                                     */
    struct snic_loop *loop;
    struct snic_net *net;
    struct snic_net_addr control;
    uint32_t disks_max;   /**< default 4, at most 64                                           */
    uint32_t servers_max; /**< as the volume's; default 4, at most 1024; with
                               SNIC_CONTROL_SERVERS_MAX each server of the catalog has its
                               number. One more takes the number of the least recently used: of
                               those without segments, else of those without I/O               */
    uint32_t lookups_max; /**< segments looked up at a time; default 2048. Beyond it one is
                               evicted until the volume requests it again                      */
    uint32_t pad;
    uint64_t ping_ns;  /**< default 1 s                                                        */
    uint64_t retry_ns; /**< until a retry; default 50 ms; for segments twice as long each time, up
                            to 500 ms                                                          */
    const struct snic_control_auth *auth; /**< NULL: none                                      */
};

struct snic_control_grant {
    uint32_t vd;
    uint32_t lease;
    uint64_t bytes;
    uint64_t key[2]; /**< the check value of the disk's key; 0: it has none                    */
    struct snic_control_qos qos;
    uint64_t token_seconds; /**< for which the token is valid; 0: there is none                */
    unsigned char token[SNIC_EBS_TOKEN_BYTES];
};

struct snic_control_client_events {
    /** The result of an attach: 0; SNIC_ENOENT no such disk; SNIC_EBUSY another client has it;
     * SNIC_EACCES its key is another (the check value of the right one is in @p g); SNIC_EOVERFLOW
     * its leases are used up; SNIC_EPERM the catalog knows no such disk, or this account may not
     * open it; SNIC_ENOTCONN the catalog does not accept this client's key, or requires one;
     * SNIC_ENOTSUP it has no keys; SNIC_EVERSION it uses another version of the protocol; others.
     * While the catalog is busy the request is retried. Must not be NULL. */
    void (*granted)(void *ctx, uint32_t disk, int result, const struct snic_control_grant *g);
    /** Another client has the lease, or it is revoked (SNIC_ESTALE); the disk is deleted
     * (SNIC_ENOENT): the volume has been notified. */
    void (*lost)(void *ctx, uint32_t disk, int reason);
    /** The limits have changed, and the volume has accepted them. */
    void (*qos)(void *ctx, uint32_t disk, const struct snic_control_qos *q);
    /** The lookup of a segment failed. SNIC_ENOSPC no server has a free place: what waited has
     * ended with that, it is not retried. Others are retried: SNIC_EHOSTUNREACH no server that can
     * be reached has a free place; SNIC_EBUSY its server is one more than servers_max, and I/Os
     * wait for all others. */
    void (*lookup_failed)(void *ctx, uint32_t disk, uint64_t segment, int error);
    /** The catalog can be reached (1) or not (0). */
    void (*link)(void *ctx, int up);
    /** The catalog has no session for this client now (SNIC_ENFILE), does not accept its key
     * (SNIC_EACCES), or has none (SNIC_ENOTSUP); the connection is retried. May be NULL. */
    void (*refused)(void *ctx, int error);
};

/** Which option is invalid, and how: "NAME: what", static; NULL: none. [any] */
SNIC_API const char *snic_control_client_opts_wrong(const struct snic_control_client_opts *o)
    SNIC_NONNULL(1);
/** Bytes snic_control_client_open() needs; 0: an option is invalid. [any] */
SNIC_API size_t snic_control_client_memsize(const struct snic_control_client_opts *o)
    SNIC_NONNULL(1);
/**
 * Connect to the catalog, again after each disconnection. [owner]
 * @param[out] out  untouched on failure
 * @param mem       owned until snic_control_client_close(); aligned to SNIC_CONTROL_ALIGN
 * @param e         copied
 * @return 0; SNIC_EINVAL an option, the alignment, or no granted(); SNIC_ENOSPC @p size small
 */
SNIC_API SNIC_NODISCARD int snic_control_client_open(struct snic_control_client **out, void *mem,
                                                     size_t size,
                                                     const struct snic_control_client_opts *o,
                                                     const struct snic_control_client_events *e,
                                                     void *ctx) SNIC_NONNULL(1, 2, 4, 5);
/** Leases are not returned. Runs the loop until queued messages are sent, for ping_ns at most.
 * @return the memory [owner] */
SNIC_API void *snic_control_client_close(struct snic_control_client *c) SNIC_NONNULL(1);
/**
 * Request the lease of a disk; granted() reports the result. [owner]
 * @param disk   a free number below disks_max, which is the volume's number of it, too
 * @param flags  SNIC_CONTROL_TAKE
 * @param key    the check value of the key that will be used, as the disk was created with; NULL:
 *               none
 * @return 0; SNIC_EINVAL @p disk, @p name or @p flags; SNIC_EEXIST the number is in use
 */
SNIC_API SNIC_NODISCARD int snic_control_client_attach(struct snic_control_client *c, uint32_t disk,
                                                       const char *name, uint32_t flags,
                                                       const uint64_t key[2]) SNIC_NONNULL(1, 3);
/** Return the lease, if there is one, and free the number; close the disk's handle before.
 * [owner] */
SNIC_API void snic_control_client_detach(struct snic_control_client *c, uint32_t disk)
    SNIC_NONNULL(1);
/** Set the volume to be notified, which has no servers yet; NULL: none any more. Call it before the
 * first map(). [owner] */
SNIC_API void snic_control_client_volume(struct snic_control_client *c, struct snic_volume *v)
    SNIC_NONNULL(1);
/** Look a segment up: to be called from the volume's event map(). Without effect when the disk's
 * lease is not held. [owner] */
SNIC_API void snic_control_client_map(struct snic_control_client *c, uint32_t disk,
                                      uint64_t segment, uint32_t gen) SNIC_NONNULL(1);
/** To be called when the volume has opened the disk: sets the token of the grant there, and from
 * then on another one when a third of its time is over. [owner] */
SNIC_API void snic_control_client_opened(struct snic_control_client *c, uint32_t disk)
    SNIC_NONNULL(1);
/** Request another token: to be called from the volume's event token(). [owner] */
SNIC_API void snic_control_client_token(struct snic_control_client *c, uint32_t disk)
    SNIC_NONNULL(1);
/** A server has refused the lease: to be called from the volume's event lease(). lost() follows if
 * the lease was held. [owner] */
SNIC_API void snic_control_client_lease(struct snic_control_client *c, uint32_t disk)
    SNIC_NONNULL(1);

/** The catalog's number of the server that the volume knows as @p number; 0: none. [owner] */
SNIC_API uint32_t snic_control_client_server(const struct snic_control_client *c, uint32_t number)
    SNIC_NONNULL(1);

struct snic_control_client_stats {
    uint64_t connects;
    uint64_t lookups_sent;      /**< of segments                                                */
    uint64_t locations;         /**< of segments received, those not requested included         */
    uint32_t lookups_pending;   /**< segments                                                   */
    uint32_t servers;           /**< with a number                                              */
    uint64_t numbers_reused;    /**< servers that must be reconnected for it                    */
    uint64_t numbers_exhausted; /**< times that no number could be freed                        */
    uint64_t no_space;          /**< lookups: I/O that waited for a place ended with ENOSPC     */
    uint64_t refused;           /**< limits that the volume does not accept: the previous hold  */
    uint64_t rejected;          /**< times that the catalog had no session for this client      */
    uint64_t tokens;            /**< granted                                                    */
};
/** Counters since open, and the present state. [owner] */
SNIC_API void snic_control_client_get_stats(const struct snic_control_client *c,
                                            struct snic_control_client_stats *out)
    SNIC_NONNULL(1, 2);

/* ---- An operator's end: requests, one at a time ---- */

struct snic_control_operator;

/** Zero it, set opts_size, loop, net, control. */
struct snic_control_operator_opts {
    uint32_t opts_size;
    uint32_t flags; /**< 0                                                                     */
    struct snic_loop *loop;
    struct snic_net *net;
    struct snic_net_addr control;         /**< the catalog's                                   */
    const struct snic_control_auth *auth; /**< of account 0; NULL: none                        */
};

struct snic_control_operator_events {
    /** A message that is a part of the answer; borrowed. May be NULL. */
    void (*item)(void *ctx, const struct snic_control_msg *m);
    /** The request's result. SNIC_ENOENT no such disk or server; SNIC_EINVAL name, size, limits out
     * of their ranges; SNIC_EFBIG a disk of more than SNIC_VOLUME_DISK_BYTES_MAX; SNIC_EEXIST a
     * disk of that name; SNIC_EBUSY a client has the lease, the disk is being reissued, the segment
     * moves, or the server is connected; SNIC_EAGAIN too many operations, or no space in the log
     * now; SNIC_EOVERFLOW leases or generations are used up; SNIC_EHOSTUNREACH a server of a move
     * is not READY; SNIC_ENOTEMPTY a server has segments; SNIC_ENOSPC no free disk, or no free
     * place; SNIC_ENFILE the catalog's sessions are all in use; SNIC_ECONNREFUSED, SNIC_ECONNRESET,
     * ... no catalog; SNIC_EACCES it does not accept the key, or requires one; SNIC_ENOTSUP it has
     * none; others. */
    void (*done)(void *ctx, int status, uint64_t value);
};

/** Which option is invalid, and how: "NAME: what", static; NULL: none. [any] */
SNIC_API const char *snic_control_operator_opts_wrong(const struct snic_control_operator_opts *o)
    SNIC_NONNULL(1);
/** Bytes snic_control_operator_open() needs; 0: an option is invalid. [any] */
SNIC_API size_t snic_control_operator_memsize(const struct snic_control_operator_opts *o)
    SNIC_NONNULL(1);
/**
 * Begin to connect to the catalog. [owner]
 * @param[out] out  untouched on failure
 * @param mem       owned until snic_control_operator_close(); aligned to SNIC_CONTROL_ALIGN
 * @param e         copied
 * @return 0; SNIC_EINVAL an option, the alignment, or no done(); SNIC_ENOSPC @p size small; errors
 *         of snic_net_connect()
 */
SNIC_API SNIC_NODISCARD int snic_control_operator_open(struct snic_control_operator **out,
                                                       void *mem, size_t size,
                                                       const struct snic_control_operator_opts *o,
                                                       const struct snic_control_operator_events *e,
                                                       void *ctx) SNIC_NONNULL(1, 2, 4, 5);
/**
 * Send a request, CREATE to SEGMENTS; item() and done() report the answer. [owner]
 * @return 0; SNIC_EINVAL not a request of an operator, or an invalid name; SNIC_EBUSY the previous
 *         one has not ended; SNIC_EPIPE the connection has ended; SNIC_ENOSPC the catalog does not
 *         read, the connection ends
 */
SNIC_API SNIC_NODISCARD int snic_control_operator_request(struct snic_control_operator *k,
                                                          const struct snic_control_msg *m)
    SNIC_NONNULL(1, 2);
/** Abort the connection; done() is not called any more. Runs the loop. @return the memory
 * [owner] */
SNIC_API void *snic_control_operator_close(struct snic_control_operator *k) SNIC_NONNULL(1);

#ifdef __cplusplus
}
#endif
#endif /* SNIC_CONTROL_H */
