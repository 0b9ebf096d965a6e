/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/**
 * @file snicstore/solar.h
 * SOLAR's two sides (Miao et al., SIGCOMM 2022, section 4): the storage agent, which turns I/Os of
 * virtual disks into packets of one block each over several paths, and the block server's end.
 *
 * Depends on  snicstore/base.h, snicstore/ebs_io.h (I/Os, disks), snicstore/ebs.h
 *             (packets, tables, ciphers).
 * Memory      Caller-owned: memsize, init; nothing is allocated afterwards. The agent: 2.2 KiB per
 *             RPC, 25 KiB per path (two times `paths` per server), 5.2 KiB per train (61 KiB with
 *             SNIC_SOLAR_CRYPTO or _AUTH), 24 bytes per 2 MiB of disk mapped. The target: 6.3 KiB
 *             per connection and 5.2 KiB per train (61 KiB with SNIC_SOLAR_AUTH); nothing per RPC,
 *             block or packet.
 * Threads     [owner] one thread owns an object; memsize is [any].
 * Progress    No call blocks. O(1) per packet, amortised; no floating point.
 * Errors      0 on success, a negative SNIC_E* otherwise; then nothing changed.
 * Units       nanoseconds; blocks of 4096 bytes; bytes where stated.
 * Input       Datagrams are hostile. All other input is the owner's.
 *
 * Main loop. The owner has the sockets and the clock, and it sleeps; the engine does none of that.
 *
 *     forever:
 *         for each received datagram:   snic_solar_recv(c, server, path, gen, data, size, 0, now);
 *         for each new I/O:             snic_solar_submit(c, io, now);
 *         while (snic_solar_poll(c, &a, 1, now) == 1)      // only after everything was received
 *             execute a;
 *         sleep until snic_solar_deadline_ns(c), or until a datagram or an I/O arrives
 *
 * The owner passes every datagram that has arrived to recv before it calls poll: timers fire in
 * poll and nowhere else. If poll is called more than stall_ns after its deadline, the gap does not
 * count as time without a response.
 *
 * A train (SNIC_EBS_ACT_SEND) is up to SNIC_SOLAR_TRAIN_MAX datagrams of equal size on one path;
 * its pieces, in the order of the bytes, point into the engine's headers and the I/Os' buffers: a
 * snic_net_train without copying. The owner returns it with snic_solar_sent() when the network no
 * longer needs the bytes, sent or not. An I/O is not DONE before all trains that refer to its
 * buffer are returned; it never ends if the owner does not return one.
 *
 * A path is a local UDP port of the owner's, because the fabric's ECMP hashes ports: OPEN
 * requests a new socket to a server's address, snic_solar_path_opened() reports its port,
 * CLOSE releases it. (server, path, gen) identifies it; gen counts its sockets. All ports are
 * checked to be distinct modulo 64, and not to be one that failed in the last minute.
 *
 * Course of an I/O. It waits in its disk's queue; disks are served by deficit round robin of
 * 64 KiB, and each I/O is subject to its disk's QoS (rate and IOPS, debt form). A write gets its
 * version (sa_epoch, sequence) on admission: of two writes of a block that are in flight at once,
 * the one admitted later stays. An I/O is split at segments (2 MiB) and 64 blocks into RPCs. A
 * block is one packet; a read requests 16 blocks in one packet, and each response packet has one
 * block. Blocks are sent on a path when its windows, its pacing, the server's write credit and, for
 * reads, the credit shared by all servers permit; a train takes all kinds of blocks that wait for
 * its server, the oldest RPC's first: new ones and retransmissions, writes and reads (an RPC that
 * has lost a block eight times moves, at each loss, behind those that wait at that moment). When
 * all blocks are acknowledged the I/O is DONE with result 0. Multi-block I/Os are not atomic; a
 * block is. ZERO and TRIM use a packet of 128 bytes per block, too: the format has packets for
 * many, but then versions, refusals and acknowledgements apply to a range, of which a store may
 * have executed a part; a train carries 14 of them, which is 57 KiB in 1.8 KiB.
 *   A flush is done when all writes submitted before it are, for an acknowledged write is durable.
 *   The order of two I/Os in flight on the same blocks is undefined.
 *
 * Expiry. An I/O without a response does not expire before deadline_ns (60 s). Then a read, and a
 * write that has not been sent, ends with SNIC_EIO. What a server refuses permanently (IO,
 * NO_SPACE, INVALID, DAMAGED) ends at once, a write as follows. A write that may be in flight is
 * first fenced: the server promises to refuse its version in that segment, or the owner maps the
 * segment with a higher generation; only then the write ends with SNIC_EIO, and no late copy can
 * overwrite what the client writes afterwards. This has no bound in time, unless error_ns sets one:
 * a write of that age ends with SNIC_EIO without a promise of its server. From then on its segment
 * is refused: I/Os that wait for it and new ones, reads, too, end with SNIC_EIO, until the fence,
 * which is still sent, is acknowledged. So a late copy changes nothing that was read after the
 * error; the copy may have taken effect, as with any write that failed. SNIC_EBS_ACT_SLOW reports
 * once that an I/O is older than slow_ns.
 *
 * Paths. PROBING: new, two full-size probes must be answered, so that a path that loses only large
 * packets never carries data. ALIVE. SUSPECT: two timeouts in a row; it gets no new data. FAILED:
 * three, or nothing received for max(3 RTO, 10 ms) with data in flight: its socket is replaced
 * (re-roll) and its blocks move to other paths at once; after a port that was of no use the next
 * one has 24 ms more, up to 96, for where all ports are as bad a new socket only costs CPU. When
 * none is ALIVE, or all that are have a timeout, copies go over the others, too, 8 blocks at a time
 * however small the window is, and twice as many ports are tried; after suspect_ns the owner is
 * notified, and may map the segments elsewhere. I/Os are kept. A train takes the better of two
 * random paths by srtt (1 + inflight/cwnd), or any, one time in 32; a retry takes a path that its
 * block has not used.
 *
 * Placement. MAP requests the placement of a segment that has no entry, that the server refuses, or
 * on which the server is silent: it may have moved while the owner was disconnected, and a server
 * that no longer exists refuses nothing. Silent: of an RPC in flight no block was acknowledged or
 * refused, for slow_ns, or since its server is SUSPECT (suspect_ns without a path). MAP is repeated
 * for as long as that lasts and until snic_solar_map(): after slow_ns, 2, 4, then 8 slow_ns, each
 * with up to a quarter more, once for all I/Os that wait for the segment, and for fences, too. So
 * an owner may drop a request, and a reply with the same placement is harmless.
 *   To apply a new placement is safe: under a higher generation all unacknowledged blocks are sent
 * again to the new server under their old version, so later writes are not overwritten; responses
 * of the old server have another server or generation, and are dropped; a write that still arrives
 * there is refused, or was copied from there before the move ended.
 *
 * Loss and timers. Every transmission has a number of its own on its path; a packet is lost when
 * one `reorder` (3, more where that proved wrong) later is answered, or by RTO: srtt + 4 var within
 * rto_min_ns and rto_max_ns (8 ms). Back-off ends at twice that of the server's path that was
 * answered last, and not before 4 ms, for a storage I/O must complete at 75 % loss within a second;
 * instead copies go over 2, then 3 paths. Only responses to packets that were declared lost raise
 * it, up to 100 ms, unless few of those packets are answered: the server is starved of its CPU, or
 * the round trip is long, and retransmission makes that worse.
 *   When a server is entirely silent, its paths are kept for a quarter of the time of that silence,
 * and probed at intervals of up to 32 ms; after 100 ms of silence one path carries one block at a
 * time. The last packet of a path, if unanswered after 2 srtt, is sent once more on another (hedge;
 * at most a tenth of all bytes).
 *   A store may take longer than any RTO, and a server acknowledges nothing before it is durable.
 * So halfway to a timeout the agent queries by a small packet which requests the server has in
 * progress; those are not sent again, and do not count against the path, as long as the server
 * reports them (it keeps 256 bits for that per path of a connection).
 *
 * Congestion control. Two windows, for the fabric's delay and for the end's, the smaller counts:
 * delay against a target that grows for small windows (Swift, Kumar et al., SIGCOMM 2020); with
 * SNIC_SOLAR_INT and switches that fill the INT block, the fabric's by HPCC (Li et al., SIGCOMM
 * 2019). Additive increase is divided by the paths to the server. Loss without delay reduces the
 * window little (times 0.8), since a lossy path is abandoned anyway. Transmission is paced, in
 * bursts of two trains; one block per rto_max_ns is sent however small the window is.
 *
 * Departures from the paper and from the congestion control that it names, with their reasons.
 *
 *   A burst is two trains of a path (28 blocks, 114 KiB), not one. Blocks that wait at one moment
 * leave over one path as far as its window permits: one train, and another right behind it when the
 * path is no more than one train ahead of its pace; a third waits until the pace has caught up with
 * both, or takes another path. So 28 blocks have one path and one response. In the paper hardware
 * sends the packets, and a burst of one block costs no more; here a system call at each end is most
 * of a packet's cost. Its cost for the fabric: a short queue of 114 KiB at the narrowest link of a
 * path that has a window of that size; a smaller window is the bound.
 *
 *   A train takes blocks of any RPCs that wait for its server, not of one: most have a block or
 * two.
 *
 *   A delay cuts a window when the round after it has it, too; a response for several blocks is one
 * sample of the delay; time between calls of the engine is not attributed to the fabric. As
 * published, one late response is enough; but on hosts whose threads share their cores, preemption
 * at either end was taken for congestion: windows fell to a few blocks, and trains to 2 to 10
 * packets. Not measured: the effect of bursts of two on other traffic at a full link of a real
 * fabric.
 *
 *   RTO has little back-off, and copies go over several paths (Loss and timers). ZERO and TRIM are
 * a packet per block (Course of an I/O). Two paths that share a route are not detected: ports are
 * random, and a failed one is replaced by another (Paths).
 *
 * Restarts. A server that does not know a connection, or has a new epoch, answers RESET with the
 * connection's token; the agent sends HELLO and all unacknowledged blocks again, which is harmless
 * since versions make writes idempotent. A server without a working path for 5 s is treated as a
 * new one: it may have lost the key that its tokens are made with. A restarted agent attaches its
 * disks with a higher sa_epoch and, by the control plane, raised generations.
 *
 * Reuse of server numbers. In time an agent uses more servers than it has numbers for: where no I/O
 * waits for a server, the owner may assign its number to another one (server_remove, server_add).
 * Nothing of the first is attributed to the second: path gens and path_seq continue, the
 * connection's id and nonce are new random numbers, an RPC's id is never reused, and pn continues,
 * for the same server may return under another number. I/O that waits for a server that is gone
 * needs a number to move to: servers_max is the number in use at a time, plus one.
 *
 * Trust. A packet must have the 32-bit random id that this side chose for the connection, HELLO_ACK
 * the nonce of the HELLO, RESET the 64-bit token: none of them is known to an off-path host. The
 * data of a disk with a key are encrypted before they are sent (AES-XTS), the checksums are of the
 * ciphertext, and a tag of the plaintext under that key (snic_ebs_tag) is sent with the data and
 * compared on read: data written under another key, or with a key and read without, end with
 * SNIC_ECORRUPT.
 *
 * Servers and the network still learn of such a disk: which blocks are written and read, when, how
 * many at once; whether a block is rewritten with the same content (XTS, and the tag, are the same
 * for the same bytes at the same place: XTS in each 16 bytes of it); and which blocks are zeroed or
 * trimmed, for those requests are not encrypted, and such a block reads as zeros without a key. A
 * block that is written with zeros is encrypted as any other.
 *
 * A source address is not trusted: any host can forge it. A server sends to an address at most
 * three times as many bytes as it received from there (NAK with UNPROVEN, instead of blocks that
 * are read), until it receives from there the proof that it has sent there, in HELLO_ACK, PROBE_ACK
 * or that NAK, and that the next PROBE repeats. Paths do this before they are ALIVE, at no cost. A
 * proof is of a host, not of its port, as QUIC's tokens are (RFC 9000, section 8.1.3): a path that
 * continues from another port is proven; one whose host changes needs one more round trip.
 *
 * With AUTH an on-path host is not trusted either. Both sides hold a secret. HELLO, HELLO_ACK and
 * RESET have a MAC under it; all else is sealed by AES-128-GCM under keys that are derived from the
 * secret, the direction, and the handshake of both, which has random numbers of both: a key is of
 * one connection. Each path has numbers of its own, so that a slow packet is no replay; the nonce
 * is salt, path and pn, the headers are additional data, a retransmission is sealed anew under a
 * new pn, and every 2^32 numbers both sides derive the next key, for pn / 2^32 is an input of the
 * derivation. A packet without a seal, with a wrong one, or with a number received before (among
 * the last 2048 of its path) is dropped without a response, and counted. A replayed HELLO ends
 * nothing. Not hidden: which client writes where and how much (the headers).
 *   One secret may be shared by all clients of a server, and then none is protected from another;
 * to replace it both sides start anew. Or each client has one of its own, by a number (account,
 * secret_of): a connection belongs to the account whose secret its HELLO was authenticated with,
 * every request has that account, and the owner decides on its permissions. No client can end
 * another account's connection, or open one in its name. Secrets may be added and removed while the
 * target runs (snic_solar_target_secrets). Of the packets of a forgotten connection only a PROBE
 * has the account, so only that is answered.
 */
#ifndef SNIC_SOLAR_H
#define SNIC_SOLAR_H

#include "snicstore/base.h"
#include "snicstore/ebs.h"
#include "snicstore/ebs_io.h"

#ifdef __cplusplus
extern "C" {
#endif

/** The storage agent of one shard, and a block server's end; in caller memory, not to be moved. */
struct snic_solar;
struct snic_solar_target;

#define SNIC_SOLAR_ALIGN SNIC_CACHELINE
/** Most datagrams of a train. */
#define SNIC_SOLAR_TRAIN_MAX 14u
/** Paths of a server at a time: twice `paths` while it is suspect. */
#define SNIC_SOLAR_PATHS_MAX 16u

#define SNIC_SOLAR_INT (1u << 0)    /**< room for INT in writes and reads; HPCC with it */
#define SNIC_SOLAR_CRYPTO (1u << 1) /**< room for ciphertext; needed for keys           */
#define SNIC_SOLAR_AUTH (1u << 2)   /**< packets can be sealed: sec, wire_keys needed   */

/* ---- Trains ---- */

/** Lent by poll, returned with sent. */
struct snic_solar_train {
    struct snic_node node; /**< the owner's until then                                     */
    struct snic_iov *iov;  /**< the bytes of all datagrams, in order                       */
    uint32_t iov_count;    /**< at most 3 per datagram                                     */
    uint32_t segment;      /**< bytes of each datagram; the last may be shorter            */
    uint32_t packets;      /**< 0: a cipher failed, nothing to be sent                         */
    uint32_t bytes;
    uint32_t server; /**< agent: the path                                            */
    uint16_t path;
    uint16_t gen;
    struct snic_ebs_peer peer; /**< target: where to                                         */
    uint64_t cookie;           /**< target: of the read whose blocks these are, else 0         */
    uint32_t index;            /**< the engine's                                               */
    uint32_t state;            /**< the engine's                                               */
};

/* ---- The agent ---- */

/** Zero it, set opts_size and client_epoch; another field that is 0 takes its default. */
struct snic_solar_opts {
    uint32_t opts_size;
    uint32_t flags;             /**< SNIC_SOLAR_*; unknown bits give SNIC_EINVAL               */
    uint64_t seed;              /**< of ids, nonces, choices of paths; must not be guessable   */
    uint32_t client_epoch;      /**< 1..65535, never used before by this client                */
    uint32_t disks_max;         /**< 1..4096; default 16                                       */
    uint32_t servers_max;       /**< known at a time, 1..1024; default 8                       */
    uint32_t paths;             /**< per server, 1..8; default 4                               */
    uint32_t rpcs_max;          /**< power of two, 16..65536; default 1024                     */
    uint32_t trains_max;        /**< 4..4096; default 64                                       */
    uint32_t chunks_max;        /**< GiB of a disk that can be mapped at a time, 1..2^20; default
                                     all of disk_blocks_max. With fewer, I/O to one more GiB, and
                                     what waits behind it, ends with SNIC_EIO after deadline_ns */
    uint32_t read_window_bytes; /**< requested and not received, over all servers; 64 KiB..
                                     128 MiB; default 256 KiB                                  */
    uint32_t window_start;      /**< blocks of a new path's windows, 1..64; default 4          */
    uint32_t window_max;        /**< blocks, 1..256; default 256                               */
    uint64_t deadline_ns;       /**< of an I/O; default 60 s                                   */
    uint64_t slow_ns;           /**< default 1 s                                               */
    uint64_t suspect_ns;        /**< no path for so long: SUSPECT; default 300 ms              */
    uint64_t rto_min_ns;        /**< default 1 ms                                              */
    uint64_t rto_max_ns;        /**< default 8 ms, at most 8 ms                                */
    uint64_t stall_ns;          /**< default 1 ms                                              */
    uint64_t disk_blocks_max;   /**< largest disk, 512..2^40; default chunks_max GiB, or 8 GiB */
    uint64_t hop_rate;          /**< INT: bytes/s of our own port; default 1.25e9              */
    uint64_t base_rtt_ns;       /**< INT: T of HPCC; default 30 us                             */
    snic_ebs_crc_fn crc;
    void *crc_ctx;
    const struct snic_ebs_sec_ops *sec; /**< NULL: no keys                                     */
    void *wire_keys[2]; /**< AUTH: two objects of AES-128-GCM, for this agent alone            */
    uint64_t error_ns;  /**< an expired write that waits for its fence ends with SNIC_EIO at that
                             age, up to 24 h; default 0: never (Expiry)                        */
};

/** Which option is wrong, and how: "NAME: what", static; NULL when all are right. [any] */
SNIC_API const char *snic_solar_opts_wrong(const struct snic_solar_opts *o) SNIC_NONNULL(1);
/** Bytes snic_solar_init() needs for @p o; 0: invalid. [any] */
SNIC_API size_t snic_solar_memsize(const struct snic_solar_opts *o) SNIC_NONNULL(1);
/**
 * Build an agent in @p mem, which stays the caller's, aligned to SNIC_SOLAR_ALIGN. @p out is
 * untouched on failure; @p o is copied. [owner]
 * @return 0; SNIC_EINVAL option or alignment; SNIC_ENOSPC @p size small
 */
SNIC_API SNIC_NODISCARD int snic_solar_init(struct snic_solar **out, void *mem, size_t size,
                                            const struct snic_solar_opts *o, uint64_t now_ns)
    SNIC_NONNULL(1, 2, 4);
/** The memory given to init; asserts that no I/O is inside and no train out. [owner] */
SNIC_API void *snic_solar_fini(struct snic_solar *c) SNIC_NONNULL(1);

/**
 * Add a server under a free number; its paths are requested at once. [owner]
 * @return 0; SNIC_EINVAL @p server is not below servers_max; SNIC_EEXIST it is in use
 */
SNIC_API SNIC_NODISCARD int snic_solar_server_add(struct snic_solar *c, uint32_t server,
                                                  uint64_t now_ns) SNIC_NONNULL(1);
/**
 * Release a server's number: it is free for another server at once. Its paths are closed
 * (CLOSE is reported; their trains are still to be returned), its late responses are dropped,
 * SUSPECT and RECOVERED are not reported any more. @p forget: map entries that point to it are
 * forgotten, and requested (MAP) when they are needed; their generations are remembered. [owner]
 * @return 0; SNIC_ENOENT no such server; SNIC_EBUSY an I/O waits for it, or, without @p forget, a
 *         segment of a disk is there
 */
SNIC_API SNIC_NODISCARD int snic_solar_server_remove(struct snic_solar *c, uint32_t server,
                                                     int forget, uint64_t now_ns) SNIC_NONNULL(1);
/**
 * Another server has this number from now on, or the same one has another address: HELLO is sent
 * again, and then all unacknowledged blocks. [owner]
 * @return 0; SNIC_ENOENT no such server
 */
SNIC_API SNIC_NODISCARD int snic_solar_server_renew(struct snic_solar *c, uint32_t server,
                                                    uint64_t now_ns) SNIC_NONNULL(1);
/**
 * All packets from and to this server are sealed under keys that both derive from @p secret (a
 * secret of the sec ops, borrowed until fini) by its number @p key_id. @p account: its account,
 * where each client of the server has a secret of its own; 0: all clients share it. To be called
 * after server_add, before the first path is opened. [owner]
 * @return 0; SNIC_ENOENT no such server; SNIC_EINVAL no SNIC_SOLAR_AUTH, or @p secret is NULL;
 *         SNIC_EBUSY a path is open
 */
SNIC_API SNIC_NODISCARD int snic_solar_server_auth(struct snic_solar *c, uint32_t server,
                                                   void *secret, uint32_t key_id, uint32_t account)
    SNIC_NONNULL(1);
/**
 * Attach a disk under a free number. @p o is copied, its xts_key borrowed until detach. [owner]
 * @return 0; SNIC_EINVAL @p disk is not below disks_max, an option, or an xts_key without sec;
 *         SNIC_EEXIST @p disk is in use; SNIC_EOVERFLOW sa_epoch is above 65535: the disk's epochs
 *         are used up (they never wrap), the control plane has to issue the disk anew; or an error
 *         of sec, which makes the tag key from xts_key
 */
SNIC_API SNIC_NODISCARD int snic_solar_attach(struct snic_solar *c, uint32_t disk,
                                              const struct snic_ebs_disk_opts *o, uint64_t now_ns)
    SNIC_NONNULL(1, 3);
/** Forget a disk. [owner] @return 0; SNIC_ENOENT no such disk; SNIC_EBUSY I/Os inside */
SNIC_API SNIC_NODISCARD int snic_solar_detach(struct snic_solar *c, uint32_t disk) SNIC_NONNULL(1);
/**
 * The token that servers are shown for a disk, from now on (ebs_token.h); copied. It is sent to all
 * servers at once, and to one that answers NO_TOKEN; I/O waits until a server accepts it. Without
 * one, or if a server reports it as not valid, NO_TOKEN ends I/O with SNIC_EPERM. [owner]
 * @return 0; SNIC_ENOENT disk
 */
SNIC_API SNIC_NODISCARD int snic_solar_token(struct snic_solar *c, uint32_t disk,
                                             const unsigned char token[SNIC_EBS_TOKEN_BYTES],
                                             uint64_t now_ns) SNIC_NONNULL(1, 3);
/**
 * Change a disk's QoS; debt stays. @p o is borrowed for the call. [owner]
 * @return 0; SNIC_ENOENT no such disk; SNIC_EINVAL an option or a limit out of range
 */
SNIC_API SNIC_NODISCARD int snic_solar_qos(struct snic_solar *c, uint32_t disk,
                                           const struct snic_ebs_disk_opts *o, uint64_t now_ns)
    SNIC_NONNULL(1, 3);
/**
 * Set the placement of 2 MiB of a disk: its unacknowledged blocks are sent to @p server. The
 * generation is at least the one before; a higher one releases I/Os that wait for a fence. [owner]
 * @return 0; SNIC_ENOENT no such disk or server; SNIC_EINVAL @p segment is beyond the disk;
 *         SNIC_ESTALE generation went back; SNIC_ENOSPC chunks_max GiB of the disk are mapped
 */
SNIC_API SNIC_NODISCARD int snic_solar_map(struct snic_solar *c, uint32_t disk, uint64_t segment,
                                           uint64_t seg_id, uint32_t server, uint32_t gen,
                                           uint64_t now_ns) SNIC_NONNULL(1);
/**
 * The reply to MAP for a segment without a placement: at some time from @p lookup_ns on it had
 * never been written. I/Os that were submitted by @p lookup_ns and wait, and never had a placement,
 * are done: reads with zeros, ZERO and TRIM without effect; writes continue to wait (and MAP is
 * repeated). Not remembered: the next read requests MAP again. An owner that calls this passes no
 * generation 0 to snic_solar_map(). [owner]
 * @return 0; SNIC_ENOENT disk
 */
SNIC_API SNIC_NODISCARD int snic_solar_hole(struct snic_solar *c, uint32_t disk, uint64_t segment,
                                            uint64_t lookup_ns, uint64_t now_ns) SNIC_NONNULL(1);
/**
 * The reply to MAP for a segment that cannot be placed now: I/Os that wait for a placement, and
 * never had one, end with @p result (e.g. SNIC_ENOSPC). Not remembered: the next write requests MAP
 * again. [owner]
 * @return 0; SNIC_ENOENT disk
 */
SNIC_API SNIC_NODISCARD int snic_solar_refuse(struct snic_solar *c, uint32_t disk, uint64_t segment,
                                              int result, uint64_t now_ns) SNIC_NONNULL(1);
/** What waits for a segment. [owner] @return SNIC_EBS_WAITS_* */
SNIC_API uint32_t snic_solar_waits(const struct snic_solar *c, uint32_t disk, uint64_t segment)
    SNIC_NONNULL(1);

/**
 * The socket that OPEN requested has this local port; 0: none could be bound, OPEN is
 * repeated in 10 ms. [owner]
 * @return 0; SNIC_EADDRINUSE equal to another path's modulo 64, or failed in the last minute: bind
 *         another and call again (after 16 of them any is accepted); SNIC_ENOENT not requested (any
 *         more): close it
 */
SNIC_API SNIC_NODISCARD int snic_solar_path_opened(struct snic_solar *c, uint32_t server,
                                                   uint32_t path, uint32_t gen, uint16_t port,
                                                   uint64_t now_ns) SNIC_NONNULL(1);
/** The network reports that a path's far end is unreachable: a hint to probe at once. [owner] */
SNIC_API void snic_solar_path_hint(struct snic_solar *c, uint32_t server, uint32_t path,
                                   uint32_t gen, uint64_t now_ns) SNIC_NONNULL(1);

/**
 * Queue an I/O: borrowed until it is DONE. In all calls a @p now_ns before the latest one counts as
 * the latest. [owner]
 * @return 0; SNIC_ENOENT no such disk; SNIC_EINVAL op, range, pieces; SNIC_EROFS a write, the
 *         lease is lost; SNIC_EOVERFLOW 2^48 writes under one sa_epoch
 */
SNIC_API SNIC_NODISCARD int snic_solar_submit(struct snic_solar *c, struct snic_ebs_io *io,
                                              uint64_t now_ns) SNIC_NONNULL(1, 2);
/** recv flag: the datagram carries the mark CE. */
#define SNIC_SOLAR_CE (1u << 0)
/**
 * A datagram was received on a path's socket; copied out during the call. @p now_ns may be the time
 * of its arrival at this host, before this call (net's TIMESTAMP): round trips are measured up to
 * there. [owner]
 * @return 0 used; else it is counted and dropped: SNIC_ENOENT no such path, an old one, or halted;
 *         SNIC_EPERM id, token or nonce do not match; SNIC_ESTALE no RPC waits for it; SNIC_EACCES
 *         it is not authentic; SNIC_EEXIST a replay; SNIC_EPROTO, SNIC_EMSGSIZE, SNIC_EOVERFLOW,
 *         SNIC_ERANGE, SNIC_ECORRUPT, SNIC_ENOTSUP, SNIC_EVERSION malformed, with the conditions
 *         of snic_ebs_decode() (ebs.h)
 */
SNIC_API int snic_solar_recv(struct snic_solar *c, uint32_t server, uint32_t path, uint32_t gen,
                             const void *data, size_t size, uint32_t flags, uint64_t now_ns)
    SNIC_NONNULL(1, 5);
/** The next actions, up to @p max; fewer: there is no more now. [owner] */
SNIC_API uint32_t snic_solar_poll(struct snic_solar *c, struct snic_ebs_action *out, uint32_t max,
                                  uint64_t now_ns) SNIC_NONNULL(1, 2);
/** When to poll if nothing else happens; SNIC_NEVER. [owner] */
SNIC_API uint64_t snic_solar_deadline_ns(struct snic_solar *c) SNIC_NONNULL(1);
/** Give a train back. [owner] */
SNIC_API void snic_solar_sent(struct snic_solar *c, struct snic_solar_train *t, uint64_t now_ns)
    SNIC_NONNULL(1, 2);
/** Stop: all I/Os end with SNIC_EUNKNOWN, trains are still returned; no other action. [owner] */
SNIC_API void snic_solar_halt(struct snic_solar *c, uint64_t now_ns) SNIC_NONNULL(1);

enum snic_solar_path_state {
    SNIC_SOLAR_CLOSED = 0, /**< not in use                                                     */
    SNIC_SOLAR_OPENING,    /**< waits for path_opened                                          */
    SNIC_SOLAR_PROBING,
    SNIC_SOLAR_ALIVE,
    SNIC_SOLAR_SUSPECTED
};

struct snic_solar_path_stats {
    uint32_t state; /**< enum snic_solar_path_state                                            */
    uint16_t gen;
    uint16_t port;
    uint64_t srtt_ns;
    uint64_t var_ns;
    uint64_t min_rtt_ns;
    uint64_t rto_ns;
    uint32_t window[2]; /**< fabric, end; in 1/1024 blocks                                     */
    uint32_t inflight;  /**< blocks                                                            */
    uint32_t reorder;
    uint64_t sent; /**< packets, of all gens                                              */
    uint64_t acked;
    uint64_t lost;
    uint64_t timeouts;
    uint64_t rerolls;
};

struct snic_solar_stats {
    uint64_t ios[5]; /**< done, by op                                                     */
    uint64_t failed; /**< of them, not with 0                                             */
    uint64_t blocks_written;
    uint64_t blocks_read;
    uint64_t trains;
    uint64_t packets;
    uint64_t packets_in;
    uint64_t retransmits; /**< blocks sent again, hedges included                              */
    uint64_t hedges;
    uint64_t late;      /**< responses for which no RPC waited                               */
    uint64_t spurious;  /**< packets declared lost and answered later                        */
    uint64_t refused;   /**< datagrams dropped: id, token, nonce or seal do not match        */
    uint64_t malformed; /**< datagrams that are no packets                                   */
    uint64_t data_crc;  /**< responses whose data, binding or checksum were wrong            */
    uint64_t tables;    /**< entries of tables that were found damaged, and rebuilt          */
    uint64_t naks;
    uint64_t busy; /**< of them                                                         */
    uint64_t stale_gens;
    uint64_t resets;
    uint64_t hellos;
    uint64_t fences;
    uint64_t abandoned; /**< writes that ended after error_ns, unfenced, by RPCs            */
    uint64_t rerolls;
    uint64_t timeouts;
    uint64_t stalls; /**< polls that were called too late                                 */
    uint64_t slow;
    uint64_t train_waits; /**< times that no train was free                                    */
    uint64_t unauthentic; /**< AUTH: without a seal, or with a wrong one                       */
    uint64_t replayed;    /**< AUTH: packets whose number is not new, or is too old            */
    uint64_t forbidden;   /**< responses: the client lacks that permission on the disk         */
    uint64_t no_token;    /**< responses: the server knows no valid token for the disk         */
    uint64_t tokens;      /**< sent                                                             */
    uint64_t versions;    /**< datagrams of another version of the format; the last one's:     */
    uint32_t peer_version;
    uint32_t inside; /**< I/Os                                                            */
    uint32_t rpcs;
    uint32_t rpcs_high;
    uint32_t trains_out;
    uint64_t read_out; /**< bytes requested                                                 */
};
/** Copy the counters. [owner] */
SNIC_API void snic_solar_get_stats(const struct snic_solar *c, struct snic_solar_stats *out)
    SNIC_NONNULL(1, 2);
/** Copy the state of a path. [owner] @return 0; SNIC_ENOENT no such server or path */
SNIC_API SNIC_NODISCARD int snic_solar_get_path(const struct snic_solar *c, uint32_t server,
                                                uint32_t path, struct snic_solar_path_stats *out)
    SNIC_NONNULL(1, 4);
/**
 * Whether a server refuses requests, or its store failed. [owner]
 * @return 0; SNIC_ENOENT no such server
 */
SNIC_API SNIC_NODISCARD int snic_solar_get_busy(const struct snic_solar *c, uint32_t server,
                                                struct snic_ebs_busy *out) SNIC_NONNULL(1, 3);
/**
 * The reason that a disk's I/O waits. @p out is untouched except with 1. [owner]
 * @return 1; 0 no admitted I/O waits; SNIC_ENOENT no such disk
 */
SNIC_API SNIC_NODISCARD int snic_solar_get_wait(const struct snic_solar *c, uint32_t disk,
                                                struct snic_ebs_wait *out) SNIC_NONNULL(1, 3);
/**
 * Every structural invariant. O(everything). For tests. [owner]
 * @return 0; SNIC_ECORRUPT one does not hold
 */
SNIC_API int snic_solar_check(const struct snic_solar *c) SNIC_NONNULL(1);

/* ---- The target ---- */

/** Zero it, set opts_size, srv_epoch and key; another field that is 0 takes its default. */
struct snic_solar_target_opts {
    uint32_t opts_size;
    uint32_t flags;        /**< SNIC_SOLAR_AUTH: packets without a seal are dropped               */
    uint64_t seed;         /**< of connection ids; must not be guessable                          */
    uint32_t srv_epoch;    /**< not 0; never used before by this server                           */
    uint32_t conns_max;    /**< power of two, 1..65536; default 256. When all 16 slots of a
                                client's bucket are in use, the connection silent for longest,
                                but at least idle_ns, is evicted, or one of 1 s ago that has only
                                sent HELLO                                                        */
    uint32_t trains_max;   /**< 9..4096 (one read's answers take 9 at worst); default 64         */
    uint32_t rx_blocks;    /**< writes that the owner can hold, 1..65536; default 1024: divided
                                among the connections as write credit                            */
    uint64_t idle_ns;      /**< default 10 s                                                     */
    unsigned char key[16]; /**< of the tokens: secret, the same after each restart             */
    snic_ebs_crc_fn crc;
    void *crc_ctx;
    const struct snic_ebs_sec_ops *sec; /**< AUTH: as the agent's                              */
    void *wire_keys[2];
    void *secret; /**< AUTH: shared with all clients; its number:                             */
    uint32_t key_id;
    uint32_t pad;
    /** AUTH, instead of `secret`: that of an account, by the number of the key that it was derived
     * from; borrowed until fini. NULL: there is no such account, its HELLO is refused. */
    void *(*secret_of)(void *ctx, uint32_t key_id, uint32_t account);
    void *secret_ctx;
};

/** Which option is wrong, and how: "NAME: what", static; NULL when all are right. [any] */
SNIC_API const char *snic_solar_target_opts_wrong(const struct snic_solar_target_opts *o)
    SNIC_NONNULL(1);
/** Bytes snic_solar_target_init() needs for @p o; 0: invalid. [any] */
SNIC_API size_t snic_solar_target_memsize(const struct snic_solar_target_opts *o) SNIC_NONNULL(1);
/**
 * Build a target in @p mem, which stays the caller's, aligned to SNIC_SOLAR_ALIGN. @p out is
 * untouched on failure; @p o is copied. [owner]
 * @return 0; SNIC_EINVAL option or alignment; SNIC_ENOSPC @p size small
 */
SNIC_API SNIC_NODISCARD int snic_solar_target_init(struct snic_solar_target **out, void *mem,
                                                   size_t size,
                                                   const struct snic_solar_target_opts *o,
                                                   uint64_t now_ns) SNIC_NONNULL(1, 2, 4);
/** The memory; asserts that no train is out. Requests that are out are forgotten. [owner] */
SNIC_API void *snic_solar_target_fini(struct snic_solar_target *t) SNIC_NONNULL(1);
/**
 * A datagram was received from @p peer; borrowed for the call. @p now_ns may be the time of its
 * arrival at this host: the time since then is attributed to this host, not to the fabric. [owner]
 * @return 1: @p out is to be executed and answered, exactly once, with snic_solar_target_answer()
 *         or snic_solar_target_read_done(); 0: processed; else it is counted and dropped:
 *         SNIC_ENOTCONN no such connection; SNIC_EACCES it is not authentic, or its address is
 *         unproven; SNIC_EPERM it is sealed, and the target has no AUTH; SNIC_ESTALE a number of
 *         another key; SNIC_EEXIST a replay; SNIC_ENOSPC no slot for a HELLO; SNIC_EBUSY rx_blocks
 *         writes are out; SNIC_EINVAL, SNIC_ERANGE a field out of range; SNIC_ECORRUPT a checksum
 *         mismatch; SNIC_EPROTO, SNIC_EMSGSIZE, SNIC_EOVERFLOW, SNIC_ENOTSUP, SNIC_EVERSION
 *         malformed, with the conditions of snic_ebs_decode() (ebs.h)
 */
SNIC_API int snic_solar_target_recv(struct snic_solar_target *t, const struct snic_ebs_peer *peer,
                                    const void *data, size_t size, uint32_t flags,
                                    struct snic_ebs_request *out, uint64_t now_ns)
    SNIC_NONNULL(1, 2, 3, 6);
/**
 * A write or fence is done, or any request refused: @p status is an enum snic_ebs_status. @p crc:
 * of the data as the owner has them; a write's response has the bind_crc made of it. @p retry_us:
 * with SNIC_EBS_BUSY. Responses collect until poll: all of one path are sent in one datagram.
 * [owner]
 */
SNIC_API void snic_solar_target_answer(struct snic_solar_target *t,
                                       const struct snic_ebs_request *q, uint32_t status,
                                       uint32_t crc, uint32_t retry_us, uint64_t now_ns)
    SNIC_NONNULL(1, 2);
/**
 * The blocks of a read: one for each bit of its need, from the lowest on. The trains have @p cookie
 * (not 0); when all are returned the blocks are the owner's again. [owner]
 * @return the number of trains; 0: the client is gone; SNIC_EAGAIN too few trains are free: call
 *         again when one was returned
 */
SNIC_API SNIC_NODISCARD int snic_solar_target_read_done(struct snic_solar_target *t,
                                                        const struct snic_ebs_request *q,
                                                        const struct snic_ebs_read_block *blocks,
                                                        uint64_t cookie, uint64_t now_ns)
    SNIC_NONNULL(1, 2, 3);
/** The next trains to send, up to @p max; to be called after a batch of datagrams. [owner] */
SNIC_API uint32_t snic_solar_target_poll(struct snic_solar_target *t, struct snic_solar_train **out,
                                         uint32_t max, uint64_t now_ns) SNIC_NONNULL(1, 2);
/** Give a train back. [owner] */
SNIC_API void snic_solar_target_sent(struct snic_solar_target *t, struct snic_solar_train *train)
    SNIC_NONNULL(1, 2);

/**
 * The results of secret_of() have changed: connections of accounts without a secret end, and are
 * not notified (no secret is left to authenticate that); the others use its present result, which
 * must have the same bytes. Then no earlier result is in use. O(connections). [owner]
 * @return the number of connections that ended
 */
SNIC_API uint32_t snic_solar_target_secrets(struct snic_solar_target *t, uint64_t now_ns)
    SNIC_NONNULL(1);

/** 1: a connection uses this result of secret_of(); else 0. O(connections). [owner] */
SNIC_API int snic_solar_target_secret_used(const struct snic_solar_target *t, const void *secret)
    SNIC_NONNULL(1, 2);

struct snic_solar_target_stats {
    uint64_t packets_in;
    uint64_t packets;
    uint64_t trains;
    uint64_t writes; /**< requests                                                          */
    uint64_t reads;
    uint64_t fences;
    uint64_t acks;
    uint64_t ack_packets;
    uint64_t acks_lost; /**< no train was free                                                 */
    uint64_t naks;
    uint64_t hellos;
    uint64_t resets;
    uint64_t refused;
    uint64_t malformed;
    uint64_t data_crc;
    uint64_t evicted;     /**< connections replaced by new ones                                  */
    uint64_t turned_away; /**< HELLOs refused since no slot was free                            */
    uint64_t unauthentic;
    uint64_t replayed;
    uint64_t unproven; /**< reads refused: the address has not sent its proof                */
    uint64_t tokens;   /**< requests                                                         */
    uint64_t versions; /**< datagrams of another version of the format; the last one's:       */
    uint32_t peer_version;
    uint32_t conns;
    uint32_t requests; /**< out                                                               */
    uint32_t writes_out;
    uint32_t trains_out;
};
/** Copy the counters. [owner] */
SNIC_API void snic_solar_target_get_stats(const struct snic_solar_target *t,
                                          struct snic_solar_target_stats *out) SNIC_NONNULL(1, 2);

/** A client, as long as its connection is known. */
struct snic_solar_target_client {
    uint64_t client_id;
    struct snic_ebs_peer peer; /**< source of the last packet                                 */
    uint64_t since_ns;         /**< of the connection                                         */
    uint64_t heard_ns;
    uint64_t packets;        /**< received                                                      */
    uint64_t missing;        /**< not received, by their numbers; late ones are subtracted      */
    uint64_t rerolls;        /**< changes of a path's source port                               */
    uint64_t blocks_written; /**< requested                                                     */
    uint64_t blocks_read;
    uint64_t refused;  /**< requests that were answered by neither OK nor SUPERSEDED            */
    uint32_t requests; /**< out                                                                 */
    uint32_t paths;    /**< that packets were received on                                       */
};
/** A client; @p slot: 0 .. conns_max - 1. [owner] @return 0; SNIC_ENOENT there is none */
SNIC_API SNIC_NODISCARD int snic_solar_target_get_client(const struct snic_solar_target *t,
                                                         uint32_t slot,
                                                         struct snic_solar_target_client *out)
    SNIC_NONNULL(1, 3);
/** Every structural invariant. For tests. [owner] @return 0; SNIC_ECORRUPT one does not hold */
SNIC_API int snic_solar_target_check(const struct snic_solar_target *t) SNIC_NONNULL(1);

#ifdef __cplusplus
}
#endif
#endif /* SNIC_SOLAR_H */
