/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/**
 * @file snicstore/ebs_io.h
 * What SOLAR (solar.h) and LUNA (luna.h) share with their callers: I/Os and disks of a storage
 * agent, its reports on servers that refuse requests and on disks that wait; and a block server's
 * requests and the blocks that it returns.
 *
 * Depends on  snicstore/base.h, snicstore/ebs.h.
 * Memory      Plain data, the caller's. An I/O is linked while it is inside an agent: not to be
 *             moved. Nothing allocates.
 * Threads     [owner] one thread owns an agent and all I/Os inside it.
 * Progress    There are types only.
 * Errors      None; an I/O's result is 0 or a negative SNIC_E*.
 * Units       nanoseconds; blocks of 4096 bytes; bytes where stated.
 */
#ifndef SNIC_EBS_IO_H
#define SNIC_EBS_IO_H

#include "snicstore/base.h"
#include "snicstore/ebs.h"

#ifdef __cplusplus
extern "C" {
#endif

/** Most blocks of an I/O: 1 GiB. */
#define SNIC_EBS_IO_BLOCKS_MAX (1u << 18)

enum snic_ebs_io_op {
    SNIC_EBS_IO_READ = 0,
    SNIC_EBS_IO_WRITE,
    SNIC_EBS_IO_ZERO, /**< the blocks read as zeros                                              */
    SNIC_EBS_IO_TRIM, /**< the same; the server may forget them                                  */
    SNIC_EBS_IO_FLUSH /**< no blocks                                                             */
};

/** An I/O's flag: a READ of one block, the first of a segment, returns the state of each block of
    the segment (SNIC_EBS_STATES) instead of its data; zeros where nothing was ever written. */
#define SNIC_EBS_IO_STATES (1u << 0)

/** Embed it, fill the first part; SNIC_CONTAINER finds the owner. Borrowed until DONE. */
struct snic_ebs_io {
    uint64_t lba;               /**< first block                                                 */
    const struct snic_iov *iov; /**< pieces of multiples of 4096 bytes, blocks in all; READ and
                                     WRITE only; borrowed with what they point to                */
    uint32_t iov_count;
    uint32_t blocks; /**< 1..SNIC_EBS_IO_BLOCKS_MAX                                              */
    uint32_t disk;
    uint8_t op;     /**< enum snic_ebs_io_op                                                      */
    uint8_t state;  /**< the agent's                                                            */
    uint16_t flags; /**< SNIC_EBS_IO_STATES                                                      */
    /* -- out -- */
    int32_t result;   /**< 0; SNIC_EIO abandoned, or the server's device failed; SNIC_ENOSPC the
                           server's store is full; SNIC_ECORRUPT a block's data are damaged there;
                           SNIC_ESTALE another client has the disk's lease; SNIC_EINVAL the server
                           refuses; SNIC_EUNKNOWN halted                                         */
    uint32_t retries; /**< blocks sent or requested again                                        */
    uint64_t submitted_ns;
    uint64_t admitted_ns; /**< 0: it was not                                                     */
    uint64_t done_ns;
    /* -- the agent's -- */
    struct snic_link link;
    struct snic_link order;
    uint64_t wver;
    uint32_t cursor; /**< blocks that have an RPC                                                */
    uint32_t rpcs;   /**< of them unfinished                                                     */
    uint32_t piece;  /**< where the cursor is in iov                                             */
    uint32_t piece_block;
    struct snic_link age;
};

/** A disk: zero it, set opts_size, vd_id, sa_epoch, blocks. */
struct snic_ebs_disk_opts {
    uint32_t opts_size;
    uint32_t sa_epoch; /**< 1..65535: the lease; each attach needs a higher one: with one that was
                            used before, writes are older than the stored blocks. The first write
                            that is found to be so ends the lease (LEASE), others may be lost    */
    uint64_t vd_id;
    uint64_t blocks;           /**< of the disk, 1..2^40                                         */
    uint64_t bytes_per_second; /**< QoS, 0: none                                                 */
    uint64_t burst_bytes;      /**< default: 10 ms of the rate, 1 MiB at least                   */
    uint64_t ios_per_second;   /**< 0: none                                                      */
    uint64_t burst_ios;        /**< default: 10 ms of the rate, 32 at least                      */
    void *xts_key; /**< of the sec ops, borrowed until detach; NULL: not encrypted               */
};

/**
 * A server that refuses requests for now. A server that responds is reachable, whatever it
 * responds: I/O that it refuses is retried until its deadline, and its segments are not looked up.
 * Also the failure of its store, for which writes may wait until the server can guarantee that no
 * copy takes effect any more; and when it was last used.
 */
struct snic_ebs_busy {
    uint64_t count;           /**< answers BUSY                                               */
    uint64_t since_ns;        /**< of the first BUSY since it last completed a request, or 0   */
    uint64_t failed;          /**< answers that its store failed (IO)                          */
    uint64_t failed_since_ns; /**< of the first IO since it last completed a request, or 0     */
    uint64_t used_ns;         /**< when the last RPC for it was made; 0: none yet              */
};

/** What a disk waits for: its oldest RPC, else the one that is to be made first. */
struct snic_ebs_wait {
    uint64_t segment;  /**< of the disk                                                */
    uint64_t since_ns; /**< since the RPC was made, or is to be, however old its I/O is */
    uint32_t server;   /**< that has not answered, or has refused it; UINT32_MAX: none */
    uint32_t place;    /**< 1: for the segment's location (a lookup); 0: for server     */
};

/* What waits for a segment, as _waits() of a transport returns it. */
/** For a placement: a write, and any I/O that had a location before. */
#define SNIC_EBS_WAITS_PLACE (1u << 0)
/** For the location, if the segment exists: what _hole() of a transport ends. */
#define SNIC_EBS_WAITS_HOLE (1u << 1)

/* ---- What an agent requests of its owner, and reports ---- */

struct snic_solar_train;
struct snic_luna_send;

/** A path is SOLAR's socket, or LUNA's connection. */
enum snic_ebs_act {
    SNIC_EBS_ACT_SEND = 1,  /**< SOLAR: train: send it. LUNA: send: write it to the path */
    SNIC_EBS_ACT_DONE,      /**< io is the caller's again */
    SNIC_EBS_ACT_OPEN,      /**< server, path, gen. SOLAR: bind a fresh port, then path_opened().
                                 LUNA: connect, then connected() or closed() */
    SNIC_EBS_ACT_CLOSE,     /**< server, path, gen: close the socket, or abort the connection */
    SNIC_EBS_ACT_MAP,       /**< disk, segment: no entry, generation `gen32` is too old, or the
                                 server is silent on it (Placement) */
    SNIC_EBS_ACT_SUSPECT,   /**< server: no path works */
    SNIC_EBS_ACT_RECOVERED, /**< server: after SUSPECT, one does */
    SNIC_EBS_ACT_SLOW,      /**< io is older than slow_ns; it stays the engine's */
    SNIC_EBS_ACT_LEASE,     /**< disk: the holder of a newer lease has written */
    SNIC_EBS_ACT_TOKEN      /**< disk: a server does not accept its token: it has expired, or is not
                                 valid; at most once a second */
};

struct snic_ebs_action {
    uint32_t type; /**< enum snic_ebs_act */
    uint32_t server;
    uint32_t disk;
    uint16_t path;
    uint16_t gen;
    uint64_t segment; /**< lba / 512 */
    uint32_t gen32;
    int32_t reason; /**< CLOSE of LUNA: SNIC_ETIMEDOUT silence, or the protocol error that was
                         received */
    struct snic_solar_train *train;
    struct snic_luna_send *send;
    struct snic_ebs_io *io;
};

/* ---- A block server's end ---- */

/** The other end of a datagram, as the server packs it; equal bytes are the same end. The last two
 * words are its host: ends that differ in the first only are ports of one host. */
struct snic_ebs_peer {
    uint64_t word[3];
};

enum snic_ebs_request_op {
    SNIC_EBS_DO_WRITE = 1,
    SNIC_EBS_DO_READ,
    SNIC_EBS_DO_FENCE,
    SNIC_EBS_DO_TOKEN
};

/**
 * A client's request to the server; plain data, kept by the server until it responds. The engine
 * has checked the consistency of packet or frame; the server checks it against the segment:
 *   WRITE  one block; vd_id, lba and seg_gen are those of the segment seg_id, and it is not fenced
 *          above wver; then apply iff wver is higher than the block's, and answer when that is
 *          durable. A frame of LUNA of n blocks makes n requests; it is acknowledged with the last
 *          answer, by the first status that is an error.
 *   READ   the blocks of `need` (bit i: block + i), at most SNIC_EBS_READ_BLOCKS of them.
 *   FENCE  from now on refuse writes of the segment with a version below wver, durably.
 *   TOKEN  the client presents the token at `data`: verify and remember it, or answer NO_TOKEN or
 *          FORBIDDEN. Other requests of a disk of which there is none: NO_TOKEN.
 */
struct snic_ebs_request {
    uint8_t op;     /**< enum snic_ebs_request_op */
    uint8_t kind;   /**< WRITE: 0 data, 1 zero, 2 trim */
    uint16_t count; /**< blocks: WRITE 1 */
    uint16_t block; /**< in the segment */
    uint16_t tenant;
    uint32_t seg_gen;
    uint32_t data_crc;  /**< WRITE: of data */
    uint32_t block_tag; /**< WRITE: to be stored with it */
    uint32_t bind_crc;  /**< WRITE, of SOLAR */
    uint64_t vd_id;
    uint64_t seg_id;
    uint64_t lba;
    uint64_t wver;
    uint64_t need;
    const void *data; /**< WRITE of data: 4096 bytes; TOKEN: the token; else NULL. In the bytes that
                           were passed to recv; or in the engine: with SOLAR's AUTH until the next
                           recv, if LUNA received the block in parts until the connection's next */
    uint32_t account; /**< of its connection; 0: the shared secret's, or no AUTH */
    uint32_t conn_id; /**< of its connection: LUNA's handle; different for each of a target */
    /** The engine's: where the answer goes. */
    union {
        struct { /* SOLAR */
            struct snic_ebs_peer peer;
            uint64_t rpc_id;
            uint64_t rx_ns;
            uint32_t path_seq;
            uint32_t tx_ts;
            uint16_t pkt_id;
            uint16_t pkt_cnt;
            uint16_t flags;
            uint8_t path;
            uint8_t gen;
            uint16_t slots[2 * SNIC_EBS_READ_BLOCKS]; /* READ: Addr slots and generations */
            unsigned char telemetry[SNIC_EBS_INT_BYTES];
        } packet;
        struct { /* LUNA */
            uint64_t serial;
            uint16_t index;
            uint16_t first; /* which block of the frame */
        } frame;
    } from;
};

/** A block of a read's response. */
struct snic_ebs_read_block {
    const void *data;  /**< 4096 bytes, borrowed until the trains or the send are returned; NULL:
                            zeros */
    uint64_t wver;     /**< 0: never written */
    uint32_t data_crc; /**< as stored */
    uint32_t block_tag;
    uint32_t status; /**< 0, or an enum snic_ebs_status: this block has no data */
    uint32_t pad;
};

/** The checksum of a block; NULL in an engine's options: snic_crc32c(0, data, size). */
typedef uint32_t (*snic_ebs_crc_fn)(void *ctx, const void *data, size_t size);

#ifdef __cplusplus
}
#endif
#endif /* SNIC_EBS_IO_H */
