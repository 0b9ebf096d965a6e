/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/**
 * @file snicstore/solar.h
 * SOLAR's two sides (Miao et al., SIGCOMM 2022, section 4): the storage agent, which turns I/Os of
 * virtual disks into packets of one block each over several paths, and the block server's end.
 *
 * Depends on  snicstore/base.h, snicstore/ebs_queue.h (I/Os, disks), snicstore/ebs.h
 *             (packets, tables, ciphers).
 * Memory      Caller-owned: memsize, init; nothing is allocated afterwards. The agent: 2.2 KiB per
 *             RPC, 25 KiB per path (two times `paths` per server), 5.2 KiB per train (61 KiB with
 *             SNIC_SOLAR_CRYPTO or _AUTH), 24 bytes per 2 MiB of disk mapped. The target: 6.3 KiB
 *             per connection and 5.2 KiB per train (61 KiB with SNIC_SOLAR_AUTH); nothing per RPC,
 *             block or packet.
 * Threads     [owner] one thread owns an object; memsize is [any].
 * Progress    No call blocks. O(1) per packet, amortised; no floating point.
 * Errors      0 on success, a negative SNIC_E* otherwise; then nothing changed.
 * Units       nanoseconds; blocks of 4096 bytes; bytes where it says so.
 * Input       Datagrams are hostile. The rest is the owner's.
 *
 * How it is driven. The owner has sockets, clock, and sleeps; the engine has none of it.
 *
 *     forever:
 *         for each datagram that came:  snic_solar_recv(c, server, path, gen, data, size, 0, now);
 *         for each new I/O:             snic_solar_submit(c, io, now);
 *         while (snic_solar_poll(c, &a, 1, now) == 1)      // only after everything was received
 *             carry out a;
 *         sleep until snic_solar_deadline_ns(c), or until something comes
 *
 * It matters that poll is called after all that has arrived was handed in: timers fire in poll and
 * nowhere else. If poll comes more than stall_ns after it should have, the gap is not counted as
 * time in which an answer failed to come.
 *
 * A train (SNIC_SOLAR_TX) is up to SNIC_SOLAR_TRAIN_MAX datagrams of equal size on one path; its
 * pieces, in the order of the bytes, point into the engine's headers and the guest's blocks: a
 * snic_net_train without copying. It is given back with snic_solar_sent(), when the network needs
 * the bytes no more, sent or not. An I/O is not done before all trains that show its buffer are
 * given back; an owner that never does hangs them.
 *
 * A path is a local UDP port of the owner's, because the fabric's ECMP hashes ports: PATH_OPEN asks
 * for a fresh socket to a server's address, snic_solar_path_opened() gives its port, PATH_CLOSE
 * says that it is not needed any more. (server, path, gen) names it; gen counts its sockets. All
 * ports are checked to be distinct modulo 64, and not to be one that failed in the last minute.
 *
 * What becomes of an I/O. It waits in its disk's queue; disks take turns by deficit round robin of
 * 64 KiB, and each I/O needs its disk's QoS (rate and IOPS, debt form). Admitted, a write gets its
 * version (sa_epoch, sequence): of two writes of a block that are in flight at once, the one
 * admitted later stays. It is split at segments (2 MiB) and 64 blocks into RPCs. A block is one
 * packet; a read asks for 16 blocks in one packet, whose answers are packets of one block. Blocks
 * leave on a path when its windows, its pacing, the server's write credit and, for reads, the
 * shared credit over all servers permit; a train takes whatever blocks wait for that server, the
 * oldest RPC's first, be they new or to be sent again, writes or reads (an RPC that has lost a
 * block eight times, at each loss, goes behind those that wait by then). When all blocks are
 * acknowledged the I/O is DONE with result 0. Multi-block I/Os are not atomic; a block is. ZERO and
 * TRIM are a packet of 128 bytes per block, too: the format knows packets of many, but then
 * versions, refusals and acknowledgements are of a range, of which a store may have done a part; a
 * train carries 14 of them, which is 57 KiB in 1.8 KiB.
 *   A flush is done when all writes submitted before it are, for an acknowledged write is durable.
 *   Two I/Os in flight on the same blocks have no order that anybody may rely on.
 *
 * Giving up. What is not answered is not given up before deadline_ns (60 s). Then a read, and a
 * write that has not been sent, ends with SNIC_EIO. What a server refuses for good (IO, NO_SPACE,
 * INVALID, DAMAGED) ends at once, a write as follows. A write that may be under way is first
 * fenced: the server promises to refuse its version in that segment, or the owner maps the segment
 * with a higher generation; only then comes SNIC_EIO, and no late copy can overwrite what the guest
 * writes afterwards. This has no bound in time, unless error_ns sets one: a write so old ends with
 * SNIC_EIO although its server has promised nothing. From then on its segment is refused: what
 * waits for it and what comes for it, reads, too, ends with SNIC_EIO, until the fence, which is
 * sent on, counts. So a late copy changes nothing that was read after the error; and it may have
 * taken effect, as any write that failed. SNIC_SOLAR_SLOW tells once when an I/O is older than
 * slow_ns.
 *
 * Paths. PROBING: new, two full-size probes must be answered, so that a path that loses only large
 * packets never carries data. ALIVE. SUSPECT: two timeouts in a row; it gets no new data. FAILED:
 * three, or nothing heard for max(3 RTO, 10 ms) with data under way: its socket is exchanged
 * (re-roll) and its blocks move to other paths at once. When none is ALIVE, copies go over the
 * others, and twice as many ports are tried; after suspect_ns the owner is told, and may map the
 * segments elsewhere. I/Os are kept. A train takes the better of two random paths by
 * srtt (1 + inflight/cwnd), or any, one time in 32; a retry goes where its block has not been.
 *
 * Where segments are. MAP asks for one of which nothing is known, that the server refuses, or of
 * which the server says nothing: while the owner was away it may have moved, and a server that is
 * gone refuses nobody. Nothing is: of an RPC under way no block was acknowledged or refused, for
 * slow_ns, or since its server is SUSPECT (suspect_ns without a path). MAP is said again for as
 * long as that lasts and until snic_solar_map(): after slow_ns, 2, 4, then 8 slow_ns, each with up
 * to a quarter more, once for all that wait for the segment, and for fences, too. So an owner may
 * forget a question, and the answer that nothing has changed is harmless.
 *   Following the answer is safe: under a higher generation all that is unacknowledged begins again
 * at the new place under its old version, so what was written since is not overwritten; whatever
 * the old place still says of it is of another server or generation, and dropped; what still
 * arrives there is refused, or was copied from there before the move ended.
 *
 * Loss and timers. Every transmission has a number of its own on its path; a packet is lost when
 * one `reorder` (3, more where that proved wrong) later is answered, or by RTO: srtt + 4 var within
 * rto_min_ns and rto_max_ns (8 ms), without back-off, for a storage I/O has to come through 75 %
 * loss within a second; instead copies go over 2, then 3 paths. Only answers that do come, after
 * all was given up, raise it, up to 100 ms, unless they are few of what was given up: the server is
 * starved of its CPU, or its way is long, and to send again makes that worse. When nothing at all
 * comes from a server, its paths are kept for a quarter of the time that it has been silent, and
 * probed up to every 32 ms only; after 100 ms of that one carries one block at a time. Unanswered
 * after 2 srtt, the last packet of a path is sent once more on another (hedge; at most a tenth of
 * all bytes).
 *   A store may take longer than any RTO, and a server acknowledges nothing before it is durable.
 * So halfway to a timeout the agent asks by a small packet what the server has in hand; what it has
 * is not sent again, and no sign against the path, as long as the server says so (it keeps 256 bits
 * for it per path of a connection).
 *
 * Congestion control. Two windows, for the fabric's delay and for the end's, the smaller counts:
 * delay against a target that grows for small windows (Swift, Kumar et al., SIGCOMM 2020); with
 * SNIC_SOLAR_INT and switches that fill the INT block, the fabric's by HPCC (Li et al., SIGCOMM
 * 2019). Additive increase is divided by the paths to the server. Loss without delay counts for
 * little (window times 0.8), since a lossy path is left anyway. Leaving blocks are paced, in bursts
 * of two trains; one block in rto_max_ns leaves however small the window is.
 *
 * Departures from the paper and from the control that it names, and what they are for.
 *
 *   A burst is two trains of a path (28 blocks, 114 KiB), not one. What waits at one moment leaves
 * over one path as far as its window goes: one train, and another right behind it when the path is
 * no more than one train ahead of its pace; a third waits until the pace has caught up with both,
 * or takes another path. So 28 blocks have one path and one answer. The paper's packets are put
 * into the network by hardware, where a burst of one block costs no more; here a call of the kernel
 * at each end is most of what a packet costs. What it costs the fabric: a queue of 114 KiB for a
 * moment at the narrowest link of a path that has a window of that size; a smaller window is the
 * bound.
 *
 *   A train takes blocks of whatever RPCs wait for its server, not of one: most have a block or
 * two.
 *
 *   A delay cuts a window when the round after it has it, too; an answer of several blocks is one
 * look at the delay; time in which nobody called the engine is not the fabric's. As published, one
 * late answer is enough; but on hosts whose threads share their cores our own preemption, at either
 * end, was read as congestion: windows fell to a few blocks, and trains to 2 to 10 packets.
 * Not measured: what bursts of two do to others on a full link of a real fabric.
 *
 *   RTO has no back-off, and copies go over several paths (Loss and timers). ZERO and TRIM are a
 * packet per block (What becomes of an I/O). That two paths share a way is not looked for: they are
 * drawn at random, and what fails is drawn anew (Paths).
 *
 * Restarts. A server that does not know a connection, or has a new epoch, answers RESET with the
 * connection's token; the agent says HELLO and sends all that is unacknowledged again, which is
 * harmless since versions make writes idempotent. A server of which no path works for 5 s is
 * greeted as a new one: it may have lost what it makes tokens of. A restarted agent attaches its
 * disks with a higher sa_epoch and, by the control plane, raised generations.
 *
 * Servers come and go. An agent that lives long sees more servers than it has numbers for: where
 * no I/O waits for a server, the owner may give its number to another one (server_remove,
 * server_add). Nothing of the first is taken for the second's: path gens and path_seq go on
 * counting, the connection's id and nonce are drawn anew, an RPC's id never comes back, and pn goes
 * on, for the same server may come back under another number. I/O that waits for a server that is
 * gone needs a number to move to: servers_max is those in use at a time, and one.
 *
 * Who is believed. A packet must have the 32-bit random id that this side chose for the connection,
 * HELLO_ACK the nonce of the HELLO, RESET the 64-bit token: what an off-path host cannot know. A
 * disk with a key is encrypted before it leaves (AES-XTS), its checksums are of the ciphertext, and
 * a tag of the plaintext under that key (snic_ebs_tag) goes with it and is compared when it is
 * read: what was written under another key, or under one and read without, ends with SNIC_ECORRUPT.
 *
 * What servers and the network learn of such a disk: which blocks are written and read, when, how
 * many at once; whether a block is written with what it had before (XTS, and the tag, are the same
 * for the same bytes at the same place: XTS in each 16 bytes of it); and which blocks are zeroed or
 * trimmed, for those requests say so in clear, and a block of them reads as zeros without a key. A
 * block that is written with zeros is encrypted as any other.
 *
 * An address is not believed: anybody can write another's into a packet. A server answers what
 * comes from one with at most three times as many bytes (NAK with UNPROVEN, instead of blocks that
 * are read), until it hears from there the proof that it has told there, in HELLO_ACK, PROBE_ACK or
 * that NAK, and that the next PROBE repeats. Paths do it before they are ALIVE, at no cost. A proof
 * is of a host, not of its port, as QUIC's tokens are (RFC 9000, section 8.1.3): a path that goes
 * on from another port has proven itself; one whose host changes needs one more round trip.
 *
 * With AUTH who is on the way is not believed either. Both sides hold a secret. HELLO, HELLO_ACK
 * and RESET bear a MAC under it; all else is sealed by AES-128-GCM under keys that are derived from
 * the secret, the direction, and what both said in the handshake, random numbers of both among it:
 * a key is of one connection. Each path has numbers of its own, so that what is slow is no replay;
 * the nonce is salt, path and pn, the headers are additional data, what is sent again is sealed
 * anew under a new pn, and every 2^32 numbers the next key is derived, on both sides alike, for pn
 * / 2^32 is part of what it is derived from. What is not sealed, sealed wrongly or a number that
 * came before (among the last 2048 of its path) is dropped without an answer, and counted. A HELLO
 * that was said before ends nothing. Not hidden: who writes where and how much (the headers).
 *   One secret may be shared by all clients of a server, and then none is protected from another;
 * to exchange it both sides begin anew. Or each client has one of its own, by a number (account,
 * secret_of): a connection is of the account whose secret its HELLO was vouched for with, every
 * request says which that is, and the owner decides what it may do. Nobody can end another
 * account's connection, or open one in its name. Secrets come and go while the target runs
 * (snic_solar_target_secrets). Which account a packet of a connection that was forgotten is of only
 * a PROBE says, so only that has an answer then.
 */
#ifndef SNIC_SOLAR_H
#define SNIC_SOLAR_H

#include "snicstore/base.h"
#include "snicstore/ebs.h"
#include "snicstore/ebs_queue.h"

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

/** The checksum of a block; NULL in the options: snic_crc32c(0, data, size). */
typedef uint32_t (*snic_solar_crc_fn)(void *ctx, const void *data, size_t size);

/* ---- Trains ---- */

/** The other end of a datagram, as the target's owner packs it; equal bytes are the same end. The
 * last two words are its host: ends that differ in the first only are ports of one host, and what
 * one of them has proven (see above) holds for the others. */
struct snic_solar_peer {
    uint64_t word[3];
};

/** Lent by poll, given back with sent. */
struct snic_solar_train {
    struct snic_node node; /**< the owner's meanwhile                                      */
    struct snic_iov *iov;  /**< the bytes of all datagrams, in order                       */
    uint32_t iov_count;    /**< at most 3 per datagram                                     */
    uint32_t segment;      /**< bytes of each datagram; the last may be shorter            */
    uint32_t packets;      /**< 0: a cipher failed, nothing to be sent                         */
    uint32_t bytes;
    uint32_t server; /**< agent: the path                                            */
    uint16_t path;
    uint16_t gen;
    struct snic_solar_peer peer; /**< target: where to                                         */
    uint64_t cookie;             /**< target: of the read whose blocks these are, else 0         */
    uint32_t index;              /**< the engine's                                               */
    uint32_t state;              /**< the engine's                                               */
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
    uint32_t read_window_bytes; /**< asked for and not come, over all servers; 64 KiB..128 MiB;
                                     default 256 KiB                                           */
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
    snic_solar_crc_fn crc;
    void *crc_ctx;
    const struct snic_ebs_sec_ops *sec; /**< NULL: no keys                                     */
    void *wire_keys[2]; /**< AUTH: two objects of AES-128-GCM, for this agent alone            */
    uint64_t error_ns;  /**< a write that was given up and waits for its fence ends with SNIC_EIO
                             when it is so old, up to 24 h; default 0: never (Giving up)       */
};

enum snic_solar_act {
    SNIC_SOLAR_TX = 1,     /**< train: send it                                                 */
    SNIC_SOLAR_DONE,       /**< io is the caller's again                                       */
    SNIC_SOLAR_PATH_OPEN,  /**< server, path, gen: bind a fresh port, then path_opened         */
    SNIC_SOLAR_PATH_CLOSE, /**< server, path, gen: this socket is not needed                   */
    SNIC_SOLAR_MAP,        /**< disk, segment: no entry, generation `gen32` is too old, or nothing
                                is heard of it (Where segments are)                            */
    SNIC_SOLAR_SUSPECT,    /**< server: no path works                                          */
    SNIC_SOLAR_RECOVERED,  /**< server: after SUSPECT, one does                                */
    SNIC_SOLAR_SLOW,       /**< io is older than slow_ns; it stays the engine's                */
    SNIC_SOLAR_LEASE,      /**< disk: a newer lease writes there                               */
    SNIC_SOLAR_TOKEN       /**< disk: a server does not accept its token: it has expired, or is not
                                valid; at most once a second                                   */
};

struct snic_solar_action {
    uint32_t type; /**< enum snic_solar_act */
    uint32_t server;
    uint32_t disk;
    uint16_t path;
    uint16_t gen;
    uint64_t segment; /**< lba / 512                                                           */
    uint32_t gen32;
    uint32_t pad;
    struct snic_solar_train *train;
    struct snic_ebs_io *io;
};

/** Bytes snic_solar_init() needs for @p o; 0: invalid. [any] */
SNIC_API size_t snic_solar_memsize(const struct snic_solar_opts *o) SNIC_NONNULL(1);
/**
 * Build an agent in @p mem, which stays the caller's, aligned to SNIC_SOLAR_ALIGN. @p out is
 * untouched on failure. [owner]
 * @return 0; SNIC_EINVAL option or alignment; SNIC_ENOSPC @p size small
 */
SNIC_API SNIC_NODISCARD int snic_solar_init(struct snic_solar **out, void *mem, size_t size,
                                            const struct snic_solar_opts *o, uint64_t now_ns)
    SNIC_NONNULL(1, 2, 4);
/** The memory given to init; asserts that no I/O is inside and no train out. [owner] */
SNIC_API void *snic_solar_fini(struct snic_solar *c) SNIC_NONNULL(1);

/**
 * Know a server by a free number; its paths are asked for at once. [owner]
 * @return 0; SNIC_EINVAL number; SNIC_EEXIST
 */
SNIC_API SNIC_NODISCARD int snic_solar_server_add(struct snic_solar *c, uint32_t server,
                                                  uint64_t now_ns) SNIC_NONNULL(1);
/**
 * Give back a server's number: it is free for another server at once. Its paths are closed
 * (PATH_CLOSE is said; what was lent to them comes back as ever), what it still says is dropped,
 * SUSPECT and RECOVERED are not said any more. @p forget: segments that the maps have there are
 * forgotten, and asked for (MAP) when they are needed; their generations are remembered. [owner]
 * @return 0; SNIC_ENOENT; SNIC_EBUSY an I/O waits for it, or, without @p forget, a segment of a
 *         disk is there
 */
SNIC_API SNIC_NODISCARD int snic_solar_server_remove(struct snic_solar *c, uint32_t server,
                                                     int forget, uint64_t now_ns) SNIC_NONNULL(1);
/**
 * Another server is at the other end from now on, or the same one elsewhere: it is greeted anew,
 * and gets what is not acknowledged. [owner]
 * @return 0; SNIC_ENOENT
 */
SNIC_API SNIC_NODISCARD int snic_solar_server_renew(struct snic_solar *c, uint32_t server,
                                                    uint64_t now_ns) SNIC_NONNULL(1);
/**
 * All packets from and to this server are sealed under keys that both derive from @p secret (a
 * secret of the sec ops, borrowed while the agent lives) by its number @p key_id. @p account: whose
 * it is, where a server gives each client one of its own; 0: all have this one. To be said after
 * server_add, before the first path is opened. [owner]
 * @return 0; SNIC_ENOENT; SNIC_EINVAL no SNIC_SOLAR_AUTH; SNIC_EBUSY a path is open
 */
SNIC_API SNIC_NODISCARD int snic_solar_server_auth(struct snic_solar *c, uint32_t server,
                                                   void *secret, uint32_t key_id, uint32_t account)
    SNIC_NONNULL(1);
/**
 * Attach a disk under a free number. [owner]
 * @return 0; SNIC_EINVAL; SNIC_EEXIST; SNIC_EOVERFLOW sa_epoch is above 65535: the disk's epochs
 *         are used up (they never wrap), the control plane has to issue the disk anew
 */
SNIC_API SNIC_NODISCARD int snic_solar_attach(struct snic_solar *c, uint32_t disk,
                                              const struct snic_ebs_disk_opts *o, uint64_t now_ns)
    SNIC_NONNULL(1, 3);
/** Forget a disk. @return 0; SNIC_ENOENT; SNIC_EBUSY I/Os inside [owner] */
SNIC_API SNIC_NODISCARD int snic_solar_detach(struct snic_solar *c, uint32_t disk) SNIC_NONNULL(1);
/**
 * The token that servers are shown for a disk, from now on (ebs_token.h); copied. It is sent to all
 * servers at once, and to one that answers NO_TOKEN; I/O waits until a server accepts it. Without
 * one, or if a server says that it is not valid, NO_TOKEN ends I/O with SNIC_EPERM. [owner]
 * @return 0; SNIC_ENOENT disk
 */
SNIC_API SNIC_NODISCARD int snic_solar_token(struct snic_solar *c, uint32_t disk,
                                             const unsigned char token[SNIC_EBS_TOKEN_BYTES],
                                             uint64_t now_ns) SNIC_NONNULL(1, 3);
/** Change a disk's QoS; debt stays. @return 0; SNIC_ENOENT; SNIC_EINVAL [owner] */
SNIC_API SNIC_NODISCARD int snic_solar_qos(struct snic_solar *c, uint32_t disk,
                                           const struct snic_ebs_disk_opts *o, uint64_t now_ns)
    SNIC_NONNULL(1, 3);
/**
 * Where 2 MiB of a disk are, from now on: what is unacknowledged there goes to @p server. The
 * generation is at least the one before; a higher one releases I/Os that wait for a fence. [owner]
 * @return 0; SNIC_ENOENT disk or server; SNIC_EINVAL; SNIC_ESTALE generation went back; SNIC_ENOSPC
 *         chunks_max GiB of the disk are mapped
 */
SNIC_API SNIC_NODISCARD int snic_solar_map(struct snic_solar *c, uint32_t disk, uint64_t segment,
                                           uint64_t seg_id, uint32_t server, uint32_t gen,
                                           uint64_t now_ns) SNIC_NONNULL(1);
/**
 * The answer to MAP where the segment is nowhere: nothing had ever been written there at some time
 * from @p asked_ns on. What was submitted by then and waits, never told of a place, is done: reads
 * with zeros, ZERO and TRIM as they are; writes wait on (and ask). Not remembered: the next read
 * asks again. Whoever uses it gives no generation 0 to snic_solar_map(). [owner]
 * @return 0; SNIC_ENOENT disk
 */
SNIC_API SNIC_NODISCARD int snic_solar_hole(struct snic_solar *c, uint32_t disk, uint64_t segment,
                                            uint64_t asked_ns, uint64_t now_ns) SNIC_NONNULL(1);
/**
 * The answer to MAP where the segment can have no place now: what waits for one, never told of any,
 * ends with @p result (SNIC_ENOSPC, say). Not remembered: the next write asks again. [owner]
 * @return 0; SNIC_ENOENT disk
 */
SNIC_API SNIC_NODISCARD int snic_solar_refuse(struct snic_solar *c, uint32_t disk, uint64_t segment,
                                              int result, uint64_t now_ns) SNIC_NONNULL(1);
/** @return SNIC_EBS_WAITS_*: what waits for a segment [owner] */
SNIC_API uint32_t snic_solar_waits(const struct snic_solar *c, uint32_t disk, uint64_t segment)
    SNIC_NONNULL(1);

/**
 * The socket that PATH_OPEN asked for has this local port; 0: none could be bound, it is asked for
 * again in 10 ms. [owner]
 * @return 0; SNIC_EADDRINUSE equal to another path's modulo 64, or failed a short while ago: bind
 *         another and call again (after 16 of them any is taken); SNIC_ENOENT not asked for (any
 *         more): close it
 */
SNIC_API SNIC_NODISCARD int snic_solar_path_opened(struct snic_solar *c, uint32_t server,
                                                   uint32_t path, uint32_t gen, uint16_t port,
                                                   uint64_t now_ns) SNIC_NONNULL(1);
/** The network says that a path's far end is unreachable: a hint to probe at once. [owner] */
SNIC_API void snic_solar_path_hint(struct snic_solar *c, uint32_t server, uint32_t path,
                                   uint32_t gen, uint64_t now_ns) SNIC_NONNULL(1);

/**
 * Queue an I/O. In this and all calls a @p now_ns that goes back counts as the latest seen. [owner]
 * @return 0; SNIC_ENOENT disk; SNIC_EINVAL op, range, pieces; SNIC_EROFS a write, the lease is
 *         lost; SNIC_EOVERFLOW 2^48 writes under one sa_epoch
 */
SNIC_API SNIC_NODISCARD int snic_solar_submit(struct snic_solar *c, struct snic_ebs_io *io,
                                              uint64_t now_ns) SNIC_NONNULL(1, 2);
/** recv flag: the datagram carries the mark CE. */
#define SNIC_SOLAR_CE (1u << 0)
/**
 * A datagram came on a path's socket; copied out during the call. @p now_ns may be when it came to
 * this host, though we are called later (net's TIMESTAMP): round trips are measured up to there.
 * [owner]
 * @return 0 used; SNIC_E* why not: it is counted and dropped (SNIC_ENOENT no such path or an old
 *         one, SNIC_EPERM not ours by id, token or nonce, SNIC_ESTALE nobody waits for it, others
 *         of snic_ebs_decode)
 */
SNIC_API int snic_solar_recv(struct snic_solar *c, uint32_t server, uint32_t path, uint32_t gen,
                             const void *data, size_t size, uint32_t flags, uint64_t now_ns)
    SNIC_NONNULL(1, 5);
/** The next actions, up to @p max; fewer: there is no more now. [owner] */
SNIC_API uint32_t snic_solar_poll(struct snic_solar *c, struct snic_solar_action *out, uint32_t max,
                                  uint64_t now_ns) SNIC_NONNULL(1, 2);
/** When to poll if nothing else happens; SNIC_NEVER. [owner] */
SNIC_API uint64_t snic_solar_deadline_ns(struct snic_solar *c) SNIC_NONNULL(1);
/** Give a train back. [owner] */
SNIC_API void snic_solar_sent(struct snic_solar *c, struct snic_solar_train *t, uint64_t now_ns)
    SNIC_NONNULL(1, 2);
/** Stop: all I/Os come back with SNIC_EUNKNOWN, as trains do; nothing else happens. [owner] */
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
    uint64_t late;      /**< answers nobody waited for                                       */
    uint64_t spurious;  /**< packets held for lost and answered after                        */
    uint64_t refused;   /**< datagrams dropped as not ours: id, token, nonce, seal           */
    uint64_t malformed; /**< datagrams that are no packets                                   */
    uint64_t data_crc;  /**< answers whose data, binding or checksum were wrong              */
    uint64_t tables;    /**< entries of tables that were found damaged, and made anew        */
    uint64_t naks;
    uint64_t busy; /**< of them                                                         */
    uint64_t stale_gens;
    uint64_t resets;
    uint64_t hellos;
    uint64_t fences;
    uint64_t abandoned; /**< writes that ended after error_ns, unfenced, by RPCs            */
    uint64_t rerolls;
    uint64_t timeouts;
    uint64_t stalls; /**< polls that came too late                                        */
    uint64_t slow;
    uint64_t train_waits; /**< times that no train was free                                    */
    uint64_t unauthentic; /**< AUTH: without a seal, or with a wrong one                       */
    uint64_t replayed;    /**< AUTH: packets whose number had come, or is too old              */
    uint64_t forbidden;   /**< answers that the client may not do that with the disk           */
    uint64_t no_token;    /**< answers that the server knows no valid token for the disk       */
    uint64_t tokens;      /**< sent                                                             */
    uint64_t versions;    /**< datagrams of another version of the format; the last one's:     */
    uint32_t peer_version;
    uint32_t inside; /**< I/Os                                                            */
    uint32_t rpcs;
    uint32_t rpcs_high;
    uint32_t trains_out;
    uint64_t read_out; /**< bytes asked for                                                 */
};
/** [owner] */
SNIC_API void snic_solar_get_stats(const struct snic_solar *c, struct snic_solar_stats *out)
    SNIC_NONNULL(1, 2);
/** @return 0; SNIC_ENOENT [owner] */
SNIC_API SNIC_NODISCARD int snic_solar_get_path(const struct snic_solar *c, uint32_t server,
                                                uint32_t path, struct snic_solar_path_stats *out)
    SNIC_NONNULL(1, 4);
/** Does a server refuse what it gets, or did its store fail? @return 0; SNIC_ENOENT [owner] */
SNIC_API SNIC_NODISCARD int snic_solar_get_busy(const struct snic_solar *c, uint32_t server,
                                                struct snic_ebs_busy *out) SNIC_NONNULL(1, 3);
/** What does a disk wait for? @return 1; 0 nothing that is admitted; SNIC_ENOENT; then @p out is
 * untouched [owner] */
SNIC_API SNIC_NODISCARD int snic_solar_get_wait(const struct snic_solar *c, uint32_t disk,
                                                struct snic_ebs_wait *out) SNIC_NONNULL(1, 3);
/** Every structural invariant; 0 or SNIC_ECORRUPT. O(everything). For tests. [owner] */
SNIC_API int snic_solar_check(const struct snic_solar *c) SNIC_NONNULL(1);

/* ---- The target ---- */

/** Zero it, set opts_size, srv_epoch and key; another field that is 0 takes its default. */
struct snic_solar_target_opts {
    uint32_t opts_size;
    uint32_t flags;        /**< SNIC_SOLAR_AUTH: nothing is taken that is not sealed              */
    uint64_t seed;         /**< of connection ids; must not be guessable                          */
    uint32_t srv_epoch;    /**< not 0; never used before by this server                           */
    uint32_t conns_max;    /**< power of two, 1..65536; default 256. Where a client finds all of
                                its 16 in use, the one silent for longest, but at least idle_ns,
                                makes room, or one of 1 s ago that has only greeted               */
    uint32_t trains_max;   /**< 9..4096 (one read's answers take 9 at worst); default 64         */
    uint32_t rx_blocks;    /**< writes that the owner can hold, 1..65536; default 1024: shared out
                                as write credit                                                  */
    uint64_t idle_ns;      /**< default 10 s                                                     */
    unsigned char key[16]; /**< of the tokens: secret, the same after each restart             */
    snic_solar_crc_fn crc;
    void *crc_ctx;
    const struct snic_ebs_sec_ops *sec; /**< AUTH: as the agent's                              */
    void *wire_keys[2];
    void *secret; /**< AUTH: shared with all clients; its number:                             */
    uint32_t key_id;
    uint32_t pad;
    /** AUTH, instead of `secret`: that of an account, by the number of the key that it was made
     * of; borrowed until fini. NULL: there is no such account, nobody is greeted by it. */
    void *(*secret_of)(void *ctx, uint32_t key_id, uint32_t account);
    void *secret_ctx;
};

enum snic_solar_request_op {
    SNIC_SOLAR_DO_WRITE = 1,
    SNIC_SOLAR_DO_READ,
    SNIC_SOLAR_DO_FENCE,
    SNIC_SOLAR_DO_TOKEN
};

/**
 * What a client asks the owner to do; plain data, kept by the owner until it answers. The engine
 * has checked the packet against itself; the owner checks it against the segment:
 *   WRITE  vd_id, lba and seg_gen are those of the segment seg_id, and it is not fenced above wver;
 *          then apply iff wver is higher than the block's, and answer when that is durable.
 *   READ   the blocks of `need` (bit i: block + i).
 *   FENCE  from now on refuse writes of the segment with a version below wver, durably.
 *   TOKEN  the client shows the token at `data`, in the datagram: verify and remember it, or answer
 *          NO_TOKEN or FORBIDDEN. Other requests of a disk of which there is none: NO_TOKEN.
 */
struct snic_solar_request {
    uint8_t op;   /**< enum snic_solar_request_op                                              */
    uint8_t kind; /**< WRITE: 0 data, 1 zero, 2 trim                                           */
    uint16_t count;
    uint16_t block; /**< in the segment                                                        */
    uint16_t tenant;
    uint32_t seg_gen;
    uint32_t data_crc;  /**< WRITE: of data                                                    */
    uint32_t guest_tag; /**< WRITE: to be stored with it                                       */
    uint32_t bind_crc;  /**< WRITE                                                             */
    uint64_t vd_id;
    uint64_t seg_id;
    uint64_t lba;
    uint64_t wver;
    uint64_t need;
    const void *data; /**< WRITE of data: 4096 bytes in the datagram that was given to recv;
                           AUTH: in the target, until the next call of recv                    */
    uint32_t account; /**< whose connection it came by; 0: the shared secret's, or no AUTH */
    uint32_t pad2;
    /* -- the engine's -- */
    struct snic_solar_peer peer;
    uint64_t rpc_id;
    uint64_t rx_ns;
    uint32_t conn;
    uint32_t conn_id;
    uint32_t path_seq;
    uint32_t tx_ts;
    uint16_t pkt_id;
    uint16_t pkt_cnt;
    uint16_t flags;
    uint8_t path;
    uint8_t gen;
    uint32_t pad;
    uint16_t slots[2 * SNIC_EBS_READ_BLOCKS]; /* READ: Addr slots and generations */
    unsigned char telemetry[SNIC_EBS_INT_BYTES];
};

/** A block of a read's answer. */
struct snic_solar_block {
    const void *data;  /**< 4096 bytes, borrowed until the trains are given back; NULL: zeros */
    uint64_t wver;     /**< 0: never written                                                  */
    uint32_t data_crc; /**< as stored                                                         */
    uint32_t guest_tag;
    uint32_t status; /**< 0, or an enum snic_ebs_status: this block has no data             */
    uint32_t pad;
};

/** Bytes snic_solar_target_init() needs for @p o; 0: invalid. [any] */
SNIC_API size_t snic_solar_target_memsize(const struct snic_solar_target_opts *o) SNIC_NONNULL(1);
/** As snic_solar_init(). [owner] */
SNIC_API SNIC_NODISCARD int snic_solar_target_init(struct snic_solar_target **out, void *mem,
                                                   size_t size,
                                                   const struct snic_solar_target_opts *o,
                                                   uint64_t now_ns) SNIC_NONNULL(1, 2, 4);
/** The memory; asserts that no train is out. Requests that are out are forgotten. [owner] */
SNIC_API void *snic_solar_target_fini(struct snic_solar_target *t) SNIC_NONNULL(1);
/**
 * A datagram came from @p peer. @p now_ns as for snic_solar_recv(): the time since then counts as
 * ours, not the fabric's. @return 1: @p out is to be done and answered, exactly once, with
 * snic_solar_target_answer() or _read_done(); 0: dealt with; SNIC_E*: counted and dropped. [owner]
 */
SNIC_API int snic_solar_target_recv(struct snic_solar_target *t, const struct snic_solar_peer *peer,
                                    const void *data, size_t size, uint32_t flags,
                                    struct snic_solar_request *out, uint64_t now_ns)
    SNIC_NONNULL(1, 2, 3, 6);
/**
 * A write or fence is done, or any request refused: @p status is an enum snic_ebs_status. @p crc:
 * of the data as the owner has them; a write's answer bears the bind_crc made of it. @p retry_us:
 * with SNIC_EBS_BUSY. Answers collect until poll: all of one path leave in one datagram. [owner]
 */
SNIC_API void snic_solar_target_answer(struct snic_solar_target *t,
                                       const struct snic_solar_request *q, uint32_t status,
                                       uint32_t crc, uint32_t retry_us, uint64_t now_ns)
    SNIC_NONNULL(1, 2);
/**
 * The blocks of a read: one for each bit of its need, from the lowest on. The trains have @p cookie
 * (not 0); when all are given back the blocks are the owner's again. [owner]
 * @return how many trains that are; 0: the client is gone; SNIC_EAGAIN too few trains are free:
 *         call again when one was given back
 */
SNIC_API SNIC_NODISCARD int snic_solar_target_read_done(struct snic_solar_target *t,
                                                        const struct snic_solar_request *q,
                                                        const struct snic_solar_block *blocks,
                                                        uint64_t cookie, uint64_t now_ns)
    SNIC_NONNULL(1, 2, 3);
/** The next trains to send, up to @p max; when a batch of datagrams is dealt with. [owner] */
SNIC_API uint32_t snic_solar_target_poll(struct snic_solar_target *t, struct snic_solar_train **out,
                                         uint32_t max, uint64_t now_ns) SNIC_NONNULL(1, 2);
/** Give a train back. [owner] */
SNIC_API void snic_solar_target_sent(struct snic_solar_target *t, struct snic_solar_train *train)
    SNIC_NONNULL(1, 2);

/**
 * What secret_of() answers has changed: connections of accounts that have none any more end, and
 * are not told (nobody could vouch for it); the others use what it answers now, which has to be the
 * same bytes. Then nothing of what it answered before is in use. O(connections). [owner]
 * @return how many ended
 */
SNIC_API uint32_t snic_solar_target_secrets(struct snic_solar_target *t, uint64_t now_ns)
    SNIC_NONNULL(1);

/** 1: a connection uses a secret that secret_of() has answered. O(connections). [owner] */
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
    uint64_t evicted;     /**< connections that made room                                        */
    uint64_t turned_away; /**< greetings for which there was none                               */
    uint64_t unauthentic;
    uint64_t replayed;
    uint64_t unproven; /**< reads that were not done: the address has not said its proof     */
    uint64_t tokens;   /**< requests                                                         */
    uint64_t versions; /**< datagrams of another version of the format; the last one's:       */
    uint32_t peer_version;
    uint32_t conns;
    uint32_t requests; /**< out                                                               */
    uint32_t writes_out;
    uint32_t trains_out;
};
/** [owner] */
SNIC_API void snic_solar_target_get_stats(const struct snic_solar_target *t,
                                          struct snic_solar_target_stats *out) SNIC_NONNULL(1, 2);

/** A client, as long as its connection is known. */
struct snic_solar_target_client {
    uint64_t client_id;
    struct snic_solar_peer peer; /**< where the last packet came from                           */
    uint64_t since_ns;           /**< of the connection                                         */
    uint64_t heard_ns;
    uint64_t packets;        /**< that came                                                     */
    uint64_t missing;        /**< that did not, by their numbers; late ones are taken off       */
    uint64_t rerolls;        /**< paths that came from another port than before                 */
    uint64_t blocks_written; /**< asked for                                                     */
    uint64_t blocks_read;
    uint64_t refused;  /**< requests that were answered by neither OK nor SUPERSEDED            */
    uint32_t requests; /**< out                                                                 */
    uint32_t paths;    /**< that were heard                                                     */
};
/** @p slot: 0 .. conns_max - 1. @return 0; SNIC_ENOENT there is none [owner] */
SNIC_API SNIC_NODISCARD int snic_solar_target_get_client(const struct snic_solar_target *t,
                                                         uint32_t slot,
                                                         struct snic_solar_target_client *out)
    SNIC_NONNULL(1, 3);
/** Every structural invariant; 0 or SNIC_ECORRUPT. For tests. [owner] */
SNIC_API int snic_solar_target_check(const struct snic_solar_target *t) SNIC_NONNULL(1);

#ifdef __cplusplus
}
#endif
#endif /* SNIC_SOLAR_H */
