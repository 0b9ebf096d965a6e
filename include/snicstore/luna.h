/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/**
 * @file snicstore/luna.h
 * LUNA's two sides (Miao et al., SIGCOMM 2022, section 3): the storage agent, which turns I/Os of
 * virtual disks into frames on ordered byte streams (TCP), and the block server's end. The RPCs,
 * versions, generations and fences are SOLAR's (solar.h), so one owner can drive either.
 *
 * Depends on  snicstore/base.h, snicstore/ebs_io.h (I/Os, disks), snicstore/ebs.h
 *             (frames: SNIC_EBS_STREAM; tables, ciphers).
 * Memory      Caller-owned: memsize, init; nothing is allocated afterwards. The agent: 0.9 KiB per
 *             RPC, 0.8 KiB per connection, 3.6 KiB per send (68 KiB with SNIC_LUNA_CRYPTO), 24
 *             bytes per 2 MiB of each disk that chunks_max allows. The target, per connection: 4.7
 *             KiB and 144 bytes for each of frames_max; 3.6 KiB per send; nothing per block.
 * Threads     [owner] one thread owns an object; memsize is [any].
 * Progress    No call blocks. O(bytes) to receive, O(1) per frame, amortised; no floating point.
 * Errors      0 on success, a negative SNIC_E* otherwise; then nothing changed.
 * Units       nanoseconds; blocks of 4096 bytes; bytes where stated.
 * Input       Received bytes are hostile: every header has a checksum and is checked, and a frame
 *             that is malformed or not permitted ends the connection with a clear error. All other
 *             input is the owner's.
 *
 * Main loop of the agent. The owner has the connections and the clock, and it sleeps; the engine
 * does none of that.
 *
 *     forever:
 *         for received bytes:    snic_luna_recv(c, server, conn, gen, data, size, now);
 *         for each new I/O:      snic_luna_submit(c, io, now);
 *         while (snic_luna_poll(c, &a, 1, now) == 1)      // only after everything was received
 *             execute a;
 *         sleep until snic_luna_deadline_ns(c), or until bytes or an I/O arrive
 *
 * A connection is (server, conn, gen); gen counts the connections opened by OPEN. The owner
 * answers OPEN with connected() or closed(), and calls closed() when the peer or the network
 * ends it. CLOSE requests to abort it: the engine expects and reports nothing more of this gen. A
 * send (SNIC_EBS_ACT_SEND) is frames as a gather list that points into the engine's headers and the
 * I/Os' buffers; the sends of a connection are written whole, in their order, and each is returned
 * with snic_luna_sent() when the network no longer needs the bytes, written or not: also after
 * CLOSE. An I/O is not DONE before all sends that refer to its buffer are returned; it never ends
 * if the owner does not return one.
 *
 * The stream. After connecting HELLO and HELLO_ACK, which must repeat its nonce. Then frames: 64 +
 * 64 bytes as ebs.h has them, then, where there are data, the CRC32C of each block (4 bytes) and
 * the blocks. A frame is about 1 to 64 neighbouring blocks of one RPC, from its pkt_id on.
 *   WRITE      data_crc is of the list, agg_crc the aggregate of its CRCs, which is the CRC32C of
 *              all data. ZERO and TRIM have neither list nor blocks. On a disk with a key each
 *              frame is one block, for the tag is of one block.
 *   WACK       echoes 64 ... 119; srv_crc is the aggregate of what the server stored.
 *   READ_REQ   requests blk_cnt blocks from lba on; with flag XTS in frames of one block.
 *   READ_RESP  a run of them: data, or (op ZERO) zeros, or a status without data. wver is the
 *              highest of the run; agg_crc as in WRITE, over what is stored.
 *   BUSY       as the status of a WACK or a READ_RESP: agg_crc is the number of microseconds after
 *              which to retry; the agent waits 100 at least and 100000 at most.
 *   FENCE, FENCE_ACK, PROBE, PROBE_ACK as in ebs.h; RESET: why the server closes.
 *   TOKEN, answered by a NAK, which has no other use in LUNA.
 * path_id is the connection's number, path_gen its gen's lower byte, path_seq counts the frames of
 * a direction from 1 and pn as well: a gap, or another conn_id, ends the connection.
 *
 * Received data are copied once, into the I/O's buffer, as they arrive and however they are cut;
 * the checksum is computed on the way. An I/O's buffer is undefined until it is done.
 *
 * Course of an I/O: as in solar.h. It waits in its disk's queue; disks are served by deficit round
 * robin of 64 KiB, and each I/O is subject to its disk's QoS. A write gets its version (sa_epoch,
 * sequence) on admission. An I/O is split at segments (2 MiB) and 64 blocks into RPCs. An RPC is
 * sent on the connection of its server with the fewest blocks in flight, if that has less than
 * window_blocks, and for writes less than the server's credit. A flush is done when all writes
 * submitted before it are. The order of two I/Os in flight on the same blocks is undefined.
 *
 * Bounded hang. Where LUNA in the paper waited minutes for the network (section 3.3), a connection
 * that has requests in flight and on which nothing is received for progress_ns (800 ms) is closed
 * and opened anew. After a quarter of that time it gets no new requests, and is checked by a PROBE,
 * which a server answers even if its store is slow; so are all other connections, of its server and
 * of others, which may be dead as well and may be the next to carry its I/Os, or those that wait
 * behind them: so an I/O waits for one silence, or two if its segment moves meanwhile.
 * Unacknowledged blocks are sent again, on another connection that responds: versions make that
 * harmless. Attempts to connect are 1 to 100 ms apart. With SNIC_LUNA_PAPER there is no such
 * timeout, no PROBE, and one connection: the original behaviour.
 *
 * Placement: MAP is requested and repeated as in solar.h, also for a segment on which the server is
 * silent for slow_ns, or since it is SUSPECT (suspect_ns without a connection).
 *
 * Expiry: as in solar.h. No I/O before deadline_ns; a write that may be in flight is fenced first,
 * for its bytes may still be in the network or in the server's socket. A fence waits for smaller
 * versions of its segment, so that it refuses no write that may still succeed.
 *
 * Restarts. A server that restarts loses its connections; the agent sends HELLO on a new one, and
 * all unacknowledged blocks again. A frame of another srv_epoch than HELLO_ACK's ends the
 * connection. A restarted agent attaches its disks with a higher sa_epoch and raised generations.
 *
 * Trust: a client is authorised by its connection, and, where a server requires tokens
 * (ebs_token.h), by a token that it sent there: this protects a disk from other clients, not from a
 * listener on the network; AUTH (a cipher on the wire) is not in this version, run it over TLS or
 * IPsec where the network is not trusted. The data of a disk with a key are encrypted before they
 * are sent (AES-XTS), the checksums are of the ciphertext, and a tag of the plaintext under that
 * key is sent with the data and compared on read: data written under another key, or with a key and
 * read without, end with SNIC_ECORRUPT. For what servers and the network still learn, see solar.h.
 */
#ifndef SNIC_LUNA_H
#define SNIC_LUNA_H

#include "snicstore/base.h"
#include "snicstore/ebs.h"
#include "snicstore/ebs_io.h"

#ifdef __cplusplus
extern "C" {
#endif

/** The storage agent of one shard, and a block server's end; in caller memory, not to be moved. */
struct snic_luna;
struct snic_luna_target;

#define SNIC_LUNA_ALIGN SNIC_CACHELINE
/** Most connections to a server. */
#define SNIC_LUNA_CONNS_MAX 16u
/** Most pieces of a send: the limit of one send of net.h. */
#define SNIC_LUNA_IOV_MAX 64u
/** Most frames of a send. */
#define SNIC_LUNA_FRAMES_MAX 16u

#define SNIC_LUNA_PAPER (1u << 0)  /**< as published: no bound on silence, one connection */
#define SNIC_LUNA_CRYPTO (1u << 1) /**< room for ciphertext; needed for keys              */

/** Frames to be written to a stream; lent by poll, returned with sent. */
struct snic_luna_send {
    struct snic_node node; /**< the owner's until then                                        */
    struct snic_iov *iov;  /**< the bytes, in order                                           */
    uint32_t iov_count;    /**< 1..SNIC_LUNA_IOV_MAX                                          */
    uint32_t bytes;
    uint32_t server; /**< agent: the connection                                               */
    uint16_t conn;
    uint16_t gen;
    uint32_t handle; /**< target: the connection                                              */
    uint32_t frames;
    uint64_t cookie; /**< target: of the read whose blocks these are, else 0                  */
    uint32_t index;  /**< the engine's                                                        */
    uint32_t state;  /**< the engine's                                                        */
};

/* ---- The agent ---- */

/** Zero it, set opts_size and client_epoch; another field that is 0 takes its default. */
struct snic_luna_opts {
    uint32_t opts_size;
    uint32_t flags;           /**< SNIC_LUNA_*; unknown bits give SNIC_EINVAL                  */
    uint64_t seed;            /**< of ids and nonces; must not be guessable                    */
    uint32_t client_epoch;    /**< 1..65535, never used before by this client                  */
    uint32_t disks_max;       /**< 1..4096; default 16                                         */
    uint32_t servers_max;     /**< 1..1024; default 8                                          */
    uint32_t conns;           /**< per server, 1..16; default 2; with PAPER 1                  */
    uint32_t rpcs_max;        /**< power of two, 16..65536; default 1024                       */
    uint32_t sends_max;       /**< 4..4096; default 64                                         */
    uint32_t chunks_max;      /**< GiB of a disk that can be mapped, 1..2^20; default all of
                                   disk_blocks_max. With fewer: as in solar.h                  */
    uint32_t window_blocks;   /**< in flight on a connection, 1..65536; default 512            */
    uint64_t disk_blocks_max; /**< of any disk; default chunks_max GiB, or 8 GiB               */
    uint64_t deadline_ns;     /**< of an I/O; default 60 s                                     */
    uint64_t slow_ns;         /**< default 1 s                                                 */
    uint64_t suspect_ns;      /**< no connection for so long: SUSPECT; default 300 ms          */
    uint64_t progress_ns;     /**< silence that ends a connection, 1 ms..1 h; default 800 ms    */
    uint64_t retry_max_ns;    /**< between attempts to connect, 1 ms..1 h; default 100 ms      */
    uint64_t stall_ns;        /**< a poll later than that is a stall of the owner; default 1 ms */
    const struct snic_ebs_sec_ops *sec; /**< ciphers, borrowed; NULL: no keys                  */
    snic_ebs_crc_fn crc;
    void *crc_ctx;
    uint64_t error_ns; /**< as in solar.h; default 0: never                                    */
};

/** Which option is wrong, and how: "NAME: what", static; NULL when all are right. [any] */
SNIC_API const char *snic_luna_opts_wrong(const struct snic_luna_opts *o) SNIC_NONNULL(1);
/** Bytes snic_luna_init() needs for @p o; 0: invalid. [any] */
SNIC_API size_t snic_luna_memsize(const struct snic_luna_opts *o) SNIC_NONNULL(1);
/**
 * Build an agent in @p mem, which stays the caller's, aligned to SNIC_LUNA_ALIGN. @p out is
 * untouched on failure; @p o is copied. [owner]
 * @return 0; SNIC_EINVAL option or alignment; SNIC_ENOSPC @p size small
 */
SNIC_API SNIC_NODISCARD int snic_luna_init(struct snic_luna **out, void *mem, size_t size,
                                           const struct snic_luna_opts *o, uint64_t now_ns)
    SNIC_NONNULL(1, 2, 4);
/** The memory given to init; asserts that no I/O is inside and no send out. [owner] */
SNIC_API void *snic_luna_fini(struct snic_luna *c) SNIC_NONNULL(1);

/**
 * Add a server under a free number; its connections are requested at once. [owner]
 * @return 0; SNIC_EINVAL @p server is not below servers_max; SNIC_EEXIST it is in use
 */
SNIC_API SNIC_NODISCARD int snic_luna_server_add(struct snic_luna *c, uint32_t server,
                                                 uint64_t now_ns) SNIC_NONNULL(1);
/**
 * Release a server's number: it is free for another server at once. Its connections end (CLOSE is
 * reported; their sends are still to be returned), their late answers are dropped, SUSPECT and
 * RECOVERED are not reported any more. @p forget: map entries that point to it are forgotten, and
 * requested (MAP) when they are needed; their generations are remembered. I/O that waits for a
 * server that is gone needs a number to move to: servers_max is the number in use at a time, plus
 * one.
 * [owner]
 * @return 0; SNIC_ENOENT no such server; SNIC_EBUSY an I/O waits for it, or, without @p forget, a
 *         segment of a disk is there
 */
SNIC_API SNIC_NODISCARD int snic_luna_server_remove(struct snic_luna *c, uint32_t server,
                                                    int forget, uint64_t now_ns) SNIC_NONNULL(1);
/**
 * Attach a disk under a free number. @p o is copied, its xts_key borrowed until detach. [owner]
 * @return 0; SNIC_EINVAL @p disk is not below disks_max, an option, or an xts_key without sec;
 *         SNIC_EEXIST @p disk is in use; SNIC_EOVERFLOW sa_epoch is above 65535: the disk's epochs
 *         are used up (they never wrap), the control plane has to issue the disk anew; or an error
 *         of sec, which makes the tag key from xts_key
 */
SNIC_API SNIC_NODISCARD int snic_luna_attach(struct snic_luna *c, uint32_t disk,
                                             const struct snic_ebs_disk_opts *o, uint64_t now_ns)
    SNIC_NONNULL(1, 3);
/** Forget a disk. [owner] @return 0; SNIC_ENOENT no such disk; SNIC_EBUSY I/Os inside */
SNIC_API SNIC_NODISCARD int snic_luna_detach(struct snic_luna *c, uint32_t disk) SNIC_NONNULL(1);
/**
 * The token that servers are shown for a disk, from now on (ebs_token.h); copied. It is sent on all
 * connections at once; a connection's first frames are the tokens of all disks. Without one, or if
 * a server reports it as not valid, NO_TOKEN ends I/O with SNIC_EPERM. [owner]
 * @return 0; SNIC_ENOENT no such disk
 */
SNIC_API SNIC_NODISCARD int snic_luna_token(struct snic_luna *c, uint32_t disk,
                                            const unsigned char token[SNIC_EBS_TOKEN_BYTES],
                                            uint64_t now_ns) SNIC_NONNULL(1, 3);
/**
 * Change a disk's QoS; debt stays. @p o is borrowed for the call. [owner]
 * @return 0; SNIC_ENOENT no such disk; SNIC_EINVAL an option or a limit out of range
 */
SNIC_API SNIC_NODISCARD int snic_luna_qos(struct snic_luna *c, uint32_t disk,
                                          const struct snic_ebs_disk_opts *o, uint64_t now_ns)
    SNIC_NONNULL(1, 3);
/**
 * Set the placement of 2 MiB of a disk: its unacknowledged blocks are sent to @p server. The
 * generation is at least the one before; a higher one releases I/Os that wait for a fence. [owner]
 * @return 0; SNIC_ENOENT no such disk or server; SNIC_EINVAL @p segment is beyond the disk;
 *         SNIC_ESTALE generation went back; SNIC_ENOSPC chunks_max GiB of the disk are mapped
 */
SNIC_API SNIC_NODISCARD int snic_luna_map(struct snic_luna *c, uint32_t disk, uint64_t segment,
                                          uint64_t seg_id, uint32_t server, uint32_t gen,
                                          uint64_t now_ns) SNIC_NONNULL(1);
/**
 * The reply to MAP for a segment without a placement: at some time from @p lookup_ns on it had
 * never been written. I/Os that were submitted by @p lookup_ns and wait, and never had a placement,
 * are done: reads with zeros, ZERO and TRIM without effect; writes continue to wait (and MAP is
 * repeated). Not remembered: the next read requests MAP again. An owner that calls this passes no
 * generation 0 to snic_luna_map(). [owner]
 * @return 0; SNIC_ENOENT disk
 */
SNIC_API SNIC_NODISCARD int snic_luna_hole(struct snic_luna *c, uint32_t disk, uint64_t segment,
                                           uint64_t lookup_ns, uint64_t now_ns) SNIC_NONNULL(1);
/**
 * The reply to MAP for a segment that cannot be placed now: I/Os that wait for a placement, and
 * never had one, end with @p result (e.g. SNIC_ENOSPC). Not remembered: the next write requests MAP
 * again. [owner]
 * @return 0; SNIC_ENOENT disk
 */
SNIC_API SNIC_NODISCARD int snic_luna_refuse(struct snic_luna *c, uint32_t disk, uint64_t segment,
                                             int result, uint64_t now_ns) SNIC_NONNULL(1);
/** What waits for a segment. [owner] @return SNIC_EBS_WAITS_* */
SNIC_API uint32_t snic_luna_waits(const struct snic_luna *c, uint32_t disk, uint64_t segment)
    SNIC_NONNULL(1);

/** A connection is established. [owner] @return 0; SNIC_ENOENT not requested any more: close it */
SNIC_API SNIC_NODISCARD int snic_luna_connected(struct snic_luna *c, uint32_t server, uint32_t conn,
                                                uint32_t gen, uint64_t now_ns) SNIC_NONNULL(1);
/**
 * A connection has ended, or could not be opened; @p reason is 0 or an SNIC_E*, for the statistics.
 * Its sends are still to be returned. No effect for one that the engine closed. [owner]
 */
SNIC_API void snic_luna_closed(struct snic_luna *c, uint32_t server, uint32_t conn, uint32_t gen,
                               int reason, uint64_t now_ns) SNIC_NONNULL(1);

/**
 * Queue an I/O: borrowed until it is DONE. In all calls a @p now_ns before the latest one counts as
 * the latest. [owner]
 * @return 0; SNIC_ENOENT no such disk; SNIC_EINVAL op, range, pieces; SNIC_EROFS a write, the
 *         lease is lost; SNIC_EOVERFLOW 2^48 writes under one sa_epoch
 */
SNIC_API SNIC_NODISCARD int snic_luna_submit(struct snic_luna *c, struct snic_ebs_io *io,
                                             uint64_t now_ns) SNIC_NONNULL(1, 2);
/**
 * The next bytes of a connection's stream, cut anywhere; all are consumed, no reference to @p data
 * is kept. [owner]
 * @return 0; SNIC_ENOENT no such connection, or an old one: dropped; another SNIC_E*: it broke the
 *         protocol, and CLOSE follows (those of snic_ebs_decode; SNIC_EPERM an id, nonce or epoch;
 *         SNIC_EPROTO a frame that is not permitted in that state)
 */
SNIC_API int snic_luna_recv(struct snic_luna *c, uint32_t server, uint32_t conn, uint32_t gen,
                            const void *data, size_t size, uint64_t now_ns) SNIC_NONNULL(1, 5);
/** The next actions, up to @p max; fewer: there is no more now. [owner] */
SNIC_API uint32_t snic_luna_poll(struct snic_luna *c, struct snic_ebs_action *out, uint32_t max,
                                 uint64_t now_ns) SNIC_NONNULL(1, 2);
/** When to poll if nothing else happens; SNIC_NEVER. [owner] */
SNIC_API uint64_t snic_luna_deadline_ns(struct snic_luna *c) SNIC_NONNULL(1);
/** Give a send back. [owner] */
SNIC_API void snic_luna_sent(struct snic_luna *c, struct snic_luna_send *s, uint64_t now_ns)
    SNIC_NONNULL(1, 2);
/** Stop: all I/Os end with SNIC_EUNKNOWN, sends are still returned; no other action. [owner] */
SNIC_API void snic_luna_halt(struct snic_luna *c, uint64_t now_ns) SNIC_NONNULL(1);

enum snic_luna_conn_state {
    SNIC_LUNA_UNUSED = 0,
    SNIC_LUNA_WAITING,    /**< until the next attempt to connect                               */
    SNIC_LUNA_CONNECTING, /**< OPEN is or will be reported                                  */
    SNIC_LUNA_GREETING,   /**< waits for HELLO_ACK                                             */
    SNIC_LUNA_UP
};

struct snic_luna_conn_stats {
    uint32_t state; /**< enum snic_luna_conn_state                                             */
    uint16_t gen;
    uint16_t pad;
    uint32_t outside; /**< blocks sent or requested, and not answered                          */
    uint32_t credit;  /**< blocks that the server grants                                       */
    uint64_t srtt_ns; /**< of a frame, the server's part included; 0: none yet                 */
    uint64_t bytes_out;
    uint64_t bytes_in;
    uint64_t frames_out;
    uint64_t frames_in;
    uint64_t closes; /**< of all gens                                                         */
    int32_t reason;  /**< of the last                                                         */
    uint32_t pad2;
};

struct snic_luna_stats {
    uint64_t ios[5]; /**< done, by op                                                          */
    uint64_t failed; /**< of them, not with 0                                                  */
    uint64_t blocks_written;
    uint64_t blocks_read;
    uint64_t sends;
    uint64_t frames;
    uint64_t frames_in;
    uint64_t bytes;
    uint64_t bytes_in;
    uint64_t replays;  /**< blocks sent or requested again                                   */
    uint64_t late;     /**< answers for which no RPC waited                                  */
    uint64_t data_crc; /**< answers whose data, binding or checksum were wrong               */
    uint64_t busy;     /**< answers BUSY                                                      */
    uint64_t no_token; /**< answers: the server knows no valid token for the disk             */
    uint64_t tokens;   /**< sent                                                              */
    uint64_t stale_gens;
    uint64_t connects;   /**< CONNECTs reported                                                */
    uint64_t ups;        /**< handshakes completed                                             */
    uint64_t resets;     /**< connections that the other side or the network ended             */
    uint64_t silences;   /**< ended without progress for progress_ns                           */
    uint64_t violations; /**< ended by a protocol error                                        */
    uint64_t versions;   /**< of them, for another version of the format; the last one's:      */
    uint32_t peer_version;
    uint64_t probes;
    uint64_t fences;
    uint64_t abandoned; /**< writes that ended after error_ns, unfenced, by RPCs            */
    uint64_t stalls;    /**< polls that were called too late                                  */
    uint64_t slow;
    uint64_t send_waits; /**< times that no send was free                                      */
    uint32_t inside;     /**< I/Os                                                             */
    uint32_t rpcs;
    uint32_t rpcs_high;
    uint32_t sends_out;
    uint64_t tables; /**< entries of tables that were found damaged, and rebuilt             */
};
/** Copy the counters. [owner] */
SNIC_API void snic_luna_get_stats(const struct snic_luna *c, struct snic_luna_stats *out)
    SNIC_NONNULL(1, 2);
/** Copy the state of a connection. [owner] @return 0; SNIC_ENOENT no such server or connection */
SNIC_API SNIC_NODISCARD int snic_luna_get_conn(const struct snic_luna *c, uint32_t server,
                                               uint32_t conn, struct snic_luna_conn_stats *out)
    SNIC_NONNULL(1, 4);
/**
 * Whether a server refuses requests, or its store failed. [owner]
 * @return 0; SNIC_ENOENT no such server
 */
SNIC_API SNIC_NODISCARD int snic_luna_get_busy(const struct snic_luna *c, uint32_t server,
                                               struct snic_ebs_busy *out) SNIC_NONNULL(1, 3);
/**
 * The reason that a disk's I/O waits. @p out is untouched except with 1. [owner]
 * @return 1; 0 no admitted I/O waits; SNIC_ENOENT no such disk
 */
SNIC_API SNIC_NODISCARD int snic_luna_get_wait(const struct snic_luna *c, uint32_t disk,
                                               struct snic_ebs_wait *out) SNIC_NONNULL(1, 3);
/**
 * Every structural invariant. O(everything). For tests. [owner]
 * @return 0; SNIC_ECORRUPT one does not hold
 */
SNIC_API int snic_luna_check(const struct snic_luna *c) SNIC_NONNULL(1);

/* ---- The target ---- */

/**
 * Main loop of the target: opened() for each accepted connection; for received bytes
 *
 *     do {
 *         r = snic_luna_target_recv(t, handle, data, size, &used, &q, now);
 *         data += used; size -= used;
 *         if (r == 1)
 *             begin q (copy the bytes at q.data, if they are needed later);
 *     } while (r == 1);
 *     if (r == SNIC_EAGAIN)
 *         keep the rest, receive no more from it until RESUME; then continue with the rest,
 *         even if that is 0 bytes: buffered frames may yield requests still;
 *
 * and after each batch, poll until there is no more: answers are sent then, joined.
 */

/** Of a target: clients must present tokens. A connection whose client has presented no accepted
   one is evicted as one without HELLO is. */
#define SNIC_LUNA_TARGET_TOKENS (1u << 0)

/** Zero it, set opts_size and srv_epoch; another field that is 0 takes its default. */
struct snic_luna_target_opts {
    uint32_t opts_size;
    uint32_t flags;      /**< SNIC_LUNA_TARGET_TOKENS                                          */
    uint64_t seed;       /**< of connection ids; must not be guessable                         */
    uint32_t srv_epoch;  /**< not 0; never used before by this server                          */
    uint32_t conns_max;  /**< 1..4096; default 64. When all are in use, the first of those that
                              have not sent HELLO (TOKENS: nor an accepted token) for 1 s since
                              they were opened, else the one silent for longest, but at least
                              idle_ns, is evicted for a later one                              */
    uint32_t frames_max; /**< not answered, of one connection, 2..1024; default 64             */
    uint32_t sends_max;  /**< 4..4096; default 64; one connection has at most a quarter        */
    uint32_t rx_blocks;  /**< writes that the owner can hold, 1..65536; default 1024: divided
                              among the connections as credit; receiving pauses above it       */
    uint32_t pad;        /**< 0                                                                */
    uint64_t idle_ns;    /**< default 10 s                                                     */
    uint64_t stall_ns;   /**< a send not returned for so long ends its connection: the client
                              does not read; default 10 s                                      */
    snic_ebs_crc_fn crc;
    void *crc_ctx;
};

enum snic_luna_target_act {
    SNIC_LUNA_TARGET_SEND = 1, /**< send: write it to send->handle                             */
    SNIC_LUNA_TARGET_CLOSE,    /**< handle: abort it; the handle is no longer valid            */
    SNIC_LUNA_TARGET_RESUME    /**< handle: after SNIC_EAGAIN, call recv again, even with 0 bytes */
};

struct snic_luna_target_action {
    uint32_t type; /**< enum snic_luna_target_act */
    uint32_t handle;
    int32_t reason; /**< CLOSE: the protocol error that was received; SNIC_ETIMEDOUT; SNIC_ESTALE
                         the client has replaced it                                            */
    uint32_t pad;
    struct snic_luna_send *send;
};

/** Which option is wrong, and how: "NAME: what", static; NULL when all are right. [any] */
SNIC_API const char *snic_luna_target_opts_wrong(const struct snic_luna_target_opts *o)
    SNIC_NONNULL(1);
/** Bytes snic_luna_target_init() needs for @p o; 0: invalid. [any] */
SNIC_API size_t snic_luna_target_memsize(const struct snic_luna_target_opts *o) SNIC_NONNULL(1);
/**
 * Build a target in @p mem, which stays the caller's, aligned to SNIC_LUNA_ALIGN. @p out is
 * untouched on failure; @p o is copied. [owner]
 * @return 0; SNIC_EINVAL option or alignment; SNIC_ENOSPC @p size small
 */
SNIC_API SNIC_NODISCARD int snic_luna_target_init(struct snic_luna_target **out, void *mem,
                                                  size_t size,
                                                  const struct snic_luna_target_opts *o,
                                                  uint64_t now_ns) SNIC_NONNULL(1, 2, 4);
/** The memory; asserts that no send is out. Requests that are out are forgotten. [owner] */
SNIC_API void *snic_luna_target_fini(struct snic_luna_target *t) SNIC_NONNULL(1);
/**
 * A client connected. [owner]
 * @return 0 and its handle, which is not reused soon; SNIC_ENOSPC conns_max are in use: close it.
 *         If one was idle it is being closed, and the client's next attempt finds a free slot
 */
SNIC_API SNIC_NODISCARD int snic_luna_target_opened(struct snic_luna_target *t, uint32_t *handle,
                                                    uint64_t now_ns) SNIC_NONNULL(1, 2);
/** A connection has ended. Its requests are still to be answered; no answer is sent. [owner] */
SNIC_API void snic_luna_target_closed(struct snic_luna_target *t, uint32_t handle, uint64_t now_ns)
    SNIC_NONNULL(1);
/**
 * The next bytes of a stream; @p used of them are consumed. [owner]
 * @return 1 @p out is to be executed and answered, exactly once; there may be more, even of 0
 *         bytes: call again. 0 all are consumed. SNIC_EAGAIN too many requests are unanswered: keep
 *         the rest until RESUME. SNIC_ENOENT no such connection. It broke the protocol, and CLOSE
 *         follows: SNIC_EPERM an id, nonce or epoch; SNIC_EPROTO a frame that is not permitted in
 *         that state; SNIC_ECONNRESET a RESET; others with the conditions of snic_ebs_decode()
 *         (ebs.h)
 */
SNIC_API int snic_luna_target_recv(struct snic_luna_target *t, uint32_t handle, const void *data,
                                   size_t size, size_t *used, struct snic_ebs_request *out,
                                   uint64_t now_ns) SNIC_NONNULL(1, 5, 6);
/**
 * A write or fence is done, or any request refused: @p status is an enum snic_ebs_status. @p crc:
 * of the data as the owner stored them. @p retry_us: with SNIC_EBS_BUSY. [owner]
 */
SNIC_API void snic_luna_target_answer(struct snic_luna_target *t, const struct snic_ebs_request *q,
                                      uint32_t status, uint32_t crc, uint32_t retry_us,
                                      uint64_t now_ns) SNIC_NONNULL(1, 2);
/**
 * The blocks of a read: one for each bit of its need, from the lowest on. The send has @p cookie
 * (not 0); when it is returned the blocks are the owner's again. [owner]
 * @return 1; 0: the client is gone; SNIC_EAGAIN no send is free for it: call again when one was
 *         returned
 */
SNIC_API SNIC_NODISCARD int snic_luna_target_read_done(struct snic_luna_target *t,
                                                       const struct snic_ebs_request *q,
                                                       const struct snic_ebs_read_block *blocks,
                                                       uint64_t cookie, uint64_t now_ns)
    SNIC_NONNULL(1, 2, 3);
/** The next actions, up to @p max; fewer: there is no more now. [owner] */
SNIC_API uint32_t snic_luna_target_poll(struct snic_luna_target *t,
                                        struct snic_luna_target_action *out, uint32_t max,
                                        uint64_t now_ns) SNIC_NONNULL(1, 2);
/** When to poll if nothing else happens; SNIC_NEVER. [owner] */
SNIC_API uint64_t snic_luna_target_deadline_ns(const struct snic_luna_target *t) SNIC_NONNULL(1);
/** Give a send back, written or not. [owner] */
SNIC_API void snic_luna_target_sent(struct snic_luna_target *t, struct snic_luna_send *s,
                                    uint64_t now_ns) SNIC_NONNULL(1, 2);

struct snic_luna_target_stats {
    uint64_t frames_in;
    uint64_t frames;
    uint64_t bytes_in;
    uint64_t bytes;
    uint64_t sends;
    uint64_t writes; /**< requests                                                             */
    uint64_t reads;
    uint64_t fences;
    uint64_t tokens;
    uint64_t acks;
    uint64_t hellos;
    uint64_t opened;
    uint64_t closed;     /**< all of them                                                      */
    uint64_t violations; /**< ended by a protocol error                                        */
    uint64_t versions;   /**< of them, for another version of the format; the last one's:      */
    uint32_t peer_version;
    uint64_t evicted;  /**< ended for a new connection                                       */
    uint64_t replaced; /**< ended since the client reconnected                               */
    uint64_t deaf;     /**< ended since the client did not read                              */
    uint64_t data_crc; /**< blocks whose checksum was wrong                                  */
    uint64_t invalid;  /**< frames refused as invalid requests                               */
    uint64_t pauses;
    uint64_t cut; /**< blocks that were assembled from several recv                            */
    uint32_t conns;
    uint32_t requests; /**< out                                                                */
    uint32_t writes_out;
    uint32_t sends_out;
};
/** Copy the counters. [owner] */
SNIC_API void snic_luna_target_get_stats(const struct snic_luna_target *t,
                                         struct snic_luna_target_stats *out) SNIC_NONNULL(1, 2);

/** A client's connection. */
struct snic_luna_target_client {
    uint64_t client_id; /**< 0: it has not sent HELLO yet                                      */
    uint64_t since_ns;
    uint64_t heard_ns;
    uint64_t frames_in;
    uint64_t bytes_in;
    uint64_t bytes;
    uint64_t blocks_written; /**< requested                                                    */
    uint64_t blocks_read;
    uint64_t refused; /**< frames that were answered by neither OK nor SUPERSEDED; reads whose
                           blocks cannot be had are not among them                             */
    uint32_t frames;  /**< held: to be answered, or their answers to be sent                   */
    uint32_t sends;   /**< lent to the network                                                 */
    uint32_t path;    /**< its number, the client's                                            */
    uint32_t paused;  /**< it is not received from                                             */
};
/** A client's connection. [owner] @return 0; SNIC_ENOENT @p handle is none's */
SNIC_API SNIC_NODISCARD int snic_luna_target_get_client(const struct snic_luna_target *t,
                                                        uint32_t handle,
                                                        struct snic_luna_target_client *out)
    SNIC_NONNULL(1, 3);
/** Every structural invariant. For tests. [owner] @return 0; SNIC_ECORRUPT one does not hold */
SNIC_API int snic_luna_target_check(const struct snic_luna_target *t) SNIC_NONNULL(1);

#ifdef __cplusplus
}
#endif
#endif /* SNIC_LUNA_H */
