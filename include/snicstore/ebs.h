/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/**
 * @file snicstore/ebs.h
 * Common parts of the transports of a block store (SOLAR's packets, LUNA's frames): the packet
 * format, the algebra of block checksums, and the tables of a storage agent (rate limits, segment
 * locations, destinations of blocks that are read). Ciphers and tags: ebs_sec.h; tokens:
 * ebs_token.h; I/Os and disks of a storage agent: ebs_io.h.
 *
 * Depends on  snicstore/base.h.
 * Memory      The caller supplies all of it (memsize, init); nothing allocates. The codec and
 *             the checksums have no memory at all.
 * Threads     Functions without an object are [any]. An object belongs to one thread at a time.
 * Progress    Everything is wait-free and bounded: no loop is longer than a packet or, where a
 *             comment states it, a disk's first level.
 * Errors      0 or a positive count on success, a negative SNIC_E* otherwise; then nothing
 *             changed, except where a comment states it.
 * Units       blocks are 4096 bytes, an lba counts blocks; segments are 512 blocks (2 MiB).
 * Input       Packets are hostile: the header is copied once, checked, then used. Tables are
 *             trusted but not their memory: each entry has a check value, verified on each use.
 *
 * The packet, big-endian, a UDP payload:
 *
 *     RPC header 64 | by type 64 | INT 80, if wanted | body | tag 16, if AUTH
 *
 *       0 version(4) length(4)   1 type      2 flags 2        4 conn_id 4
 *       8 rpc_id 8              16 pkt_id 2  18 pkt_cnt 2     20 path_id  21 path_gen  22 attempt
 *      23 credit                24 path_seq 4                 28 tx_ts 4  32 echo_ts 4
 *      36 hold_ns 4             40 ack_seq 4 44 srv_epoch 4   48 status 2
 *      50 ack_path_id  51 ack_path_gen       52 hdr_crc 4     56 pn 8
 *     Block part (WRITE, WACK, READ_REQ, READ_RESP, FENCE, FENCE_ACK):
 *      64 vd_id 8  72 seg_id 8  80 blk_off 2  82 blk_cnt 2  84 block_log2  85 op  86 tenant 2
 *      88 lba 8    96 wver 8   104 seg_gen 4 108 data_crc 4 112 bind_crc 4 116 agg_crc 4
 *     120 by type: WRITE block_tag 4, 0 4; WACK srv_crc 4, 0 4; READ_REQ need_mask 8;
 *         READ_RESP addr_slot 2, addr_gen 2, block_tag 4; FENCE, FENCE_ACK 0
 *     HELLO part (HELLO, HELLO_ACK):
 *      64 ver_min  65 ver_max  66 0 2  68 conn_id 4  72 features 4  76 epoch 4  80 nonce 8
 *      88 reset_token 8  96 proof 8 104 client_id 8 112 key_id 4 116 payload_max 4
 *     120 by type: HELLO account 4, 0 4; HELLO_ACK key_nonce 8
 *     RESET part: 64 token 8  72 ver_min  73 ver_max  74 0 2  76 retry_us 4  80 0 48
 *     PROBE part (PROBE, PROBE_ACK): 64 probe_bytes 4  68 held_seq 4  72 nonce 8  80 held 32
 *        112 proof 8 120 key_id 4 124 account 4
 *     NAK part:   64 retry_us 4  68 bad_flags 2  70 0 2  72 proof 8  80 0 48
 *     ACKV has no second part: its entries (32 bytes each, pkt_cnt of them) follow the RPC header.
 *
 * The body: WRITE and READ_RESP of op DATA have the block, 4096 bytes (a READ_RESP only with
 * status OK); READ_REQ an {addr_slot 2, addr_gen 2} for each bit of need_mask, in rising order;
 * ACKV its entries; HELLO, HELLO_ACK, PROBE and PROBE_ACK padding up to 4096 bytes, which makes
 * them as large as the largest packet that will go that way; the others none.
 *
 * hdr_crc is the CRC32C of conn_id (4), direction (4), and then of all of the packet that is
 * neither block, INT block nor tag, with hdr_crc itself 0; with AUTH the tag covers bodies, and
 * hdr_crc the two headers. So damaged packets are dropped before anything is decrypted.
 * A block is under data_crc, and bind_crc (of bytes 64 ... 111, which end with data_crc) ties it to
 * its address, version and generation. The INT block is written by switches on the way: it is
 * outside all checksums, a hint, and clamped.
 *
 * Where the paper and the specification left something open:
 *   - The body of a READ_REQ lists the Addr slots for the answers, since slots are taken one by
 *     one; lba, blk_off and blk_cnt are those of the whole RPC, need_mask (bit i: block i of it)
 *     chooses at most 16 of its blocks, and the answer for bit i has pkt_id i, lba + i, and
 *     blk_off + i.
 *   - A WRITE of op ZERO or TRIM may have blk_cnt > 1: one packet, one version, many blocks. Its
 *     data_crc is that of a block of zeros.
 *   - A RESET has the conn_id of the packet that it answers, since a server that has forgotten a
 *     connection knows no other; the token proves the sender, its supported versions are a range.
 *   - A PROBE_ACK lists the requests of its path that the server has in hand, to be answered when
 *     the store is done: it distinguishes a slow store from a lost packet.
 *   - A server sends a proof to the source address of a packet (in HELLO_ACK, PROBE_ACK, NAK), and
 *     the client returns it from there (in HELLO, PROBE): this shows that the client receives at
 *     that address, and has not forged it. PROBE_ACK has status UNPROVEN until it does.
 *   - In a FENCE wver is the least version that will still be applied.
 *   - Bytes that are 0 above are sent as 0, and ignored on receipt.
 *   - In every version of this format bytes 0, 1, 4 ... 7 and 8 ... 15 have the meaning above, so
 *     that a packet of an unknown version can be answered (snic_ebs_peek).
 *   - A TOKEN is a header and a token; it names no RPC, and its answer repeats its rpc_id.
 *   - With flag INT an ACKV has the 80 bytes right after the RPC header: the echo of the newest
 *     packet it acknowledges that had one.
 *   - HELLO, HELLO_ACK and RESET are sent before or after there are keys: with AUTH their tag is a
 *     MAC of direction and header under the shared secret, and a body is plain padding.
 *   - Statuses, features and reset of pn at a new key: see there.
 */
#ifndef SNIC_EBS_H
#define SNIC_EBS_H

#include "snicstore/base.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ---- Sizes and limits ---- */

#define SNIC_EBS_VERSION 2         /**< of the packet format; changes: FORMAT.md */
#define SNIC_EBS_RPC_BYTES 64      /**< RPC header */
#define SNIC_EBS_HEADER_BYTES 128  /**< RPC header and what depends on the type */
#define SNIC_EBS_INT_BYTES 80      /**< INT block */
#define SNIC_EBS_INT_HOPS 9        /**< hops in it */
#define SNIC_EBS_PREFIX_BYTES 208  /**< most that precedes a body */
#define SNIC_EBS_ACK_BYTES 32      /**< entry of an ACKV */
#define SNIC_EBS_SLOT_BYTES 4      /**< entry of a READ_REQ */
#define SNIC_EBS_BLOCK_BYTES 4096  /**< a block, and the longest body of a datagram */
#define SNIC_EBS_TAG_BYTES 16      /**< GCM tag */
#define SNIC_EBS_TOKEN_BYTES 64    /**< a TOKEN's part (ebs_token.h) */
#define SNIC_EBS_PACKET_BYTES 4320 /**< the longest datagram */
#define SNIC_EBS_BLOCK_LOG2 12
#define SNIC_EBS_SEGMENT_BLOCKS 512          /**< of a segment */
#define SNIC_EBS_SEGMENT_LOG2 9              /**< segment index = lba >> this */
#define SNIC_EBS_RPC_BLOCKS 64               /**< most blocks, and packets, of an RPC */
#define SNIC_EBS_READ_BLOCKS 16              /**< most blocks that one READ_REQ asks for */
#define SNIC_EBS_ACKS 64                     /**< most entries of an ACKV */
#define SNIC_EBS_PATHS 16                    /**< a path_id that is sealed is below it */
#define SNIC_EBS_LBA_END (UINT64_C(1) << 48) /**< an lba is below it (2^60 bytes) */
/** CRC32C of a block of zeros; in the specification K_4096. */
#define SNIC_EBS_CRC_ZEROS 0x98f94189u
/** Alignment of the memory passed to the init functions, in bytes. */
#define SNIC_EBS_ALIGN SNIC_CACHELINE

/** Packet types; fixed for ever. */
enum snic_ebs_type {
    SNIC_EBS_WRITE = 1,
    SNIC_EBS_WACK = 2,
    SNIC_EBS_READ_REQ = 3,
    SNIC_EBS_READ_RESP = 4,
    SNIC_EBS_ACKV = 5,
    SNIC_EBS_PROBE = 6,
    SNIC_EBS_PROBE_ACK = 7,
    SNIC_EBS_RESET = 8,
    SNIC_EBS_HELLO = 9,
    SNIC_EBS_HELLO_ACK = 10,
    SNIC_EBS_FENCE = 11,
    SNIC_EBS_FENCE_ACK = 12,
    SNIC_EBS_NAK = 13,
    SNIC_EBS_TOKEN = 14, /**< the answer is a NAK with its status, OK, too */
    SNIC_EBS_TYPE_END = 15
};

/* Flags; fixed for ever. A packet with one of bits 12 ... 15 that is not known here is refused with
   SNIC_ENOTSUP, and answered by a NAK; other unknown bits are ignored. */
#define SNIC_EBS_AUTH (1u << 0)     /**< a tag follows, the body is encrypted */
#define SNIC_EBS_XTS (1u << 1)      /**< the block is encrypted at rest: data_crc is of that */
#define SNIC_EBS_INT_REQ (1u << 2)  /**< an INT block to be written by switches */
#define SNIC_EBS_INT (1u << 3)      /**< the INT block of the packet that this acknowledges */
#define SNIC_EBS_CE_ECHO (1u << 4)  /**< the packet that this acknowledges had ECN mark CE */
#define SNIC_EBS_RETX (1u << 5)     /**< sent before */
#define SNIC_EBS_HEDGE (1u << 6)    /**< a hedge: another copy is in flight */
#define SNIC_EBS_LAST_PKT (1u << 7) /**< LUNA: the last block of its RPC */
#define SNIC_EBS_FUA (1u << 8)
#define SNIC_EBS_DUP (1u << 9)     /**< acknowledges a version that was stored already */
#define SNIC_EBS_MUST (0xf000u)    /**< bits that must be understood */
#define SNIC_EBS_MUST_KNOWN (0x0u) /**< those that are */

/** Result of a request; fixed for ever. An unknown number is treated as INVALID. */
enum snic_ebs_status {
    SNIC_EBS_OK = 0,
    SNIC_EBS_SUPERSEDED =
        1, /**< a later version is stored: counts as OK, if it is the same writer's */
    SNIC_EBS_STALE_GEN = 2,   /**< seg_gen is not the segment's: fetch the map again */
    SNIC_EBS_BAD_CRC = 3,     /**< data_crc or bind_crc is wrong: send again */
    SNIC_EBS_BUSY = 4,        /**< no space: retry after retry_us */
    SNIC_EBS_BAD_VERSION = 5, /**< the packet's version is not supported */
    SNIC_EBS_FENCED = 6,      /**< wver is below a fence: never applied */
    SNIC_EBS_BAD_AUTH = 7,    /**< not authenticated where it must be */
    SNIC_EBS_INVALID = 8,     /**< not a valid request */
    SNIC_EBS_IO = 9,          /**< the device failed */
    SNIC_EBS_NO_CONN = 10,    /**< conn_id is not known: HELLO first */
    SNIC_EBS_BAD_FLAGS = 11,  /**< bad_flags must be understood, and are not */
    SNIC_EBS_NO_SEGMENT = 12, /**< not stored here: fetch the map again */
    SNIC_EBS_DAMAGED = 13,    /**< the stored block fails its checksum */
    SNIC_EBS_NO_SPACE = 14,   /**< the store is full */
    SNIC_EBS_NO_LEASE = 15,   /**< not the writer of this disk (any more) */
    SNIC_EBS_GEN_AHEAD = 16,  /**< to a FENCE: the control plane has not set seg_gen on this server
                                   yet: not fenced, retry later */
    SNIC_EBS_UNPROVEN = 17,   /**< to an address that has not sent its proof: PROBE with it first */
    SNIC_EBS_FORBIDDEN = 18,  /**< this client has no such right on this disk; do not retry */
    SNIC_EBS_NO_TOKEN = 19, /**< no valid token of this client for this disk: TOKEN first. Answer to
                                 a TOKEN: it has expired, or its key is not known (any more)  */
    SNIC_EBS_STATUS_END = 20
};

/** The kind of the block of a WRITE or READ_RESP. */
enum snic_ebs_op {
    SNIC_EBS_DATA = 0,
    SNIC_EBS_ZERO = 1,
    SNIC_EBS_TRIM = 2,
    SNIC_EBS_STATES = 3, /**< of a READ_REQ for the first block of a segment: requests the states of
                              the segment's blocks instead of the block. The READ_RESP's data are
                              a byte for each (enum snic_ebs_state), then zeros; block_tag is 0   */
    SNIC_EBS_OP_END = 4
};
/** A block's state, as STATES returns; fixed for ever. All but DATA read as zeros. */
enum snic_ebs_state {
    SNIC_EBS_STATE_NEVER = 0, /**< never written                                               */
    SNIC_EBS_STATE_DATA = 1,  /**< has data, or had and they are lost                           */
    SNIC_EBS_STATE_ZERO = 2,  /**< written by ZERO                                              */
    SNIC_EBS_STATE_TRIM = 3   /**< written by TRIM                                              */
};

/* Features in HELLO and HELLO_ACK; those that both sides have may be used. */
#define SNIC_EBS_FEATURE_AUTH (1u << 0) /**< AES-128-GCM on the wire */
#define SNIC_EBS_FEATURE_INT (1u << 1)  /**< echoes INT blocks */
#define SNIC_EBS_FEATURE_ACKV (1u << 2) /**< understands ACKV */
#define SNIC_EBS_FEATURE_ZERO (1u << 3) /**< ZERO and TRIM of several blocks */

/* Direction, an argument of the codec and part of hdr_crc: a packet sent back is not valid. */
#define SNIC_EBS_TO_SERVER 0u
#define SNIC_EBS_TO_CLIENT 1u
/**
 * Beside a direction: a frame of a byte stream (LUNA). Then hdr_crc is of the two headers; ACKV,
 * INT and AUTH do not occur, READ_REQ has no body; and WRITE and READ_RESP of op DATA have
 * blk_cnt <= 64 blocks, before them the CRC32C of each (4 bytes), and data_crc is the CRC32C of
 * that list.
 */
#define SNIC_EBS_STREAM 2u

/* ---- Headers, decoded: host order ---- */

struct snic_ebs_block {
    uint64_t vd_id;
    uint64_t seg_id;
    uint64_t lba;
    uint64_t wver; /**< version: sa_epoch(16) and counter(48); FENCE: least still applied */
    uint32_t seg_gen;
    uint32_t data_crc;
    uint32_t bind_crc;
    uint32_t agg_crc;   /**< LUNA: luna.h; SOLAR: 0 */
    uint16_t blk_off;   /**< 0 ... 511 */
    uint16_t blk_cnt;   /**< READ_REQ; else 1, or more for ZERO and TRIM; FENCE: 0 */
    uint8_t block_log2; /**< 12; 0 is encoded as 12 */
    uint8_t op;         /**< enum snic_ebs_op */
    uint16_t tenant;
    uint64_t need_mask; /**< READ_REQ */
    uint32_t block_tag; /**< WRITE, READ_RESP: snic_ebs_tag(), stored unchecked; 0: no key */
    uint32_t srv_crc;   /**< WACK: bind_crc as the server computed it from what it stored */
    uint16_t addr_slot; /**< READ_RESP */
    uint16_t addr_gen;  /**< READ_RESP */
    uint32_t pad;
};
struct snic_ebs_hello {
    uint8_t ver_min; /**< versions the sender supports */
    uint8_t ver_max;
    uint16_t pad;
    uint32_t conn_id;     /**< conn_id of packets to the sender; 0 in neither direction */
    uint32_t features;    /**< SNIC_EBS_FEATURE_*; HELLO_ACK: of both sides */
    uint32_t epoch;       /**< HELLO: client_epoch; HELLO_ACK: 0 (see srv_epoch) */
    uint64_t nonce;       /**< random; HELLO_ACK: that of the HELLO */
    uint64_t reset_token; /**< will be in a RESET of the sender */
    uint64_t proof;       /**< HELLO_ACK: of the address; HELLO: the last one received, or 0 */
    uint64_t client_id;   /**< HELLO: the client's; HELLO_ACK: the same */
    uint32_t key_id;      /**< the shared secret, with AUTH */
    uint32_t payload_max; /**< the longest datagram the sender takes */
    uint32_t account;     /**< HELLO with AUTH: the key's; 0: the shared secret */
    uint32_t pad2;
    uint64_t key_nonce; /**< HELLO_ACK with AUTH: random, goes into the keys */
};
struct snic_ebs_reset {
    uint64_t token;
    uint8_t ver_min;
    uint8_t ver_max;
    uint16_t pad;
    uint32_t retry_us; /**< reconnect not earlier than after this */
};
struct snic_ebs_probe {
    uint32_t probe_bytes; /**< PROBE: its length; PROBE_ACK: that of the received PROBE */
    uint32_t held_seq;    /**< PROBE_ACK: the highest path_seq of a received request */
    uint64_t nonce;       /**< PROBE_ACK: that of the PROBE */
    /** PROBE_ACK: bit path_seq % 256 of each request that was received on this path and has no
        answer yet, for the 256 path_seq up to held_seq. */
    uint64_t held[4];
    uint64_t proof; /**< PROBE_ACK: of the address; PROBE: the last one received, or 0 */
    /** PROBE with AUTH: as in HELLO, so that a server that has forgotten the connection can send
        a RESET under the right key. PROBE_ACK: 0. */
    uint32_t key_id;
    uint32_t account;
};
struct snic_ebs_nak {
    uint32_t retry_us;  /**< with BUSY */
    uint16_t bad_flags; /**< with BAD_FLAGS */
    uint16_t pad;
    uint64_t proof; /**< with UNPROVEN: of the address */
};

struct snic_ebs_header {
    uint8_t type; /**< enum snic_ebs_type */
    uint8_t path_id;
    uint8_t path_gen;
    uint8_t attempt;
    uint16_t flags;      /**< SNIC_EBS_* */
    uint16_t status;     /**< enum snic_ebs_status */
    uint32_t conn_id;    /**< the receiver's */
    uint16_t pkt_id;     /**< below pkt_cnt */
    uint16_t pkt_cnt;    /**< at most 64 */
    uint64_t rpc_id;     /**< client_epoch(16) and counter(48) */
    uint32_t path_seq;   /**< per (conn, direction, path, gen), new on every transmission */
    uint32_t tx_ts;      /**< sender's clock, ns mod 2^32 */
    uint32_t echo_ts;    /**< answers: tx_ts of the request */
    uint32_t hold_ns;    /**< answers: from its arrival until now */
    uint32_t ack_seq;    /**< answers: path_seq of the request */
    uint32_t srv_epoch;  /**< the server's incarnation; 0: not known */
    uint8_t ack_path_id; /**< answers: path of the request */
    uint8_t ack_path_gen;
    uint8_t credit; /**< answers: snic_ebs_credit_code() of the blocks granted */
    uint8_t pad;
    uint32_t pad2;
    uint64_t pn; /**< per (conn, direction, path_id), never twice under a key */
    union {
        struct snic_ebs_block block; /**< WRITE, WACK, READ_REQ, READ_RESP, FENCE, FENCE_ACK */
        struct snic_ebs_hello hello; /**< HELLO, HELLO_ACK */
        struct snic_ebs_reset reset;
        struct snic_ebs_probe probe; /**< PROBE, PROBE_ACK */
        struct snic_ebs_nak nak;
        unsigned char token[SNIC_EBS_TOKEN_BYTES]; /**< TOKEN: not interpreted */
    } u;                                           /**< ACKV: nothing */
};

/** Where the parts of a packet are, in bytes from its beginning. */
struct snic_ebs_place {
    uint32_t header_size; /**< 64 or 128: what AUTH calls additional data */
    uint32_t int_at;      /**< INT block; 0: none */
    uint32_t body_at;     /**< end of what snic_ebs_encode() writes */
    uint32_t body_size;   /**< without the tag */
    uint32_t tag_at;      /**< 0: none */
    uint32_t size;        /**< of the whole packet or frame */
};

/** Entry of an ACKV. */
struct snic_ebs_ack {
    uint64_t rpc_id;
    uint16_t pkt_id;
    uint16_t status;
    uint32_t path_seq;
    uint32_t echo_ts;
    uint32_t hold_ns;
    uint32_t srv_crc; /**< as in struct snic_ebs_block */
    uint8_t path_id;
    uint8_t path_gen;
    uint16_t flags; /**< CE_ECHO, DUP */
};

/** Hop of an INT block, as in HPCC. */
struct snic_ebs_hop {
    uint8_t speed;     /**< code of 4 bits, snic_ebs_hop_bps() */
    uint32_t ts_ns;    /**< mod 2^24 */
    uint32_t tx_units; /**< of 128 bytes sent, mod 2^20 */
    uint32_t q_units;  /**< of 80 bytes queued, at most 2^16 - 1 */
};
struct snic_ebs_int {
    uint32_t count; /**< hops */
    struct snic_ebs_hop hop[SNIC_EBS_INT_HOPS];
};

/* ---- Codec ---- */

/**
 * Write all that precedes the body into @p out: headers, and 80 zero bytes with INT_REQ or INT
 * (fill in an echo with snic_ebs_int_put at place.int_at). bind_crc is taken from the struct;
 * hdr_crc is computed, over the body, too, where the format has it so; otherwise @p body is not
 * read and may be NULL. What this accepts snic_ebs_decode() accepts. With AUTH seal next
 * (snic_ebs_seal). [any]
 * @param[out] place may be NULL
 * @return bytes written; SNIC_EINVAL not a packet (type, length of the body, flags, a field out of
 *         its range); SNIC_ENOSPC @p size is too small
 */
SNIC_API SNIC_NODISCARD int snic_ebs_encode(void *out, size_t size, struct snic_ebs_place *place,
                                            unsigned direction, const struct snic_ebs_header *h,
                                            const void *body, size_t body_size) SNIC_NONNULL(1, 5);

/**
 * Read a packet. Errors, in the order of the checks:
 *   SNIC_EMSGSIZE  shorter than its headers
 *   SNIC_EVERSION  unsupported version
 *   SNIC_EPROTO    not a type that goes in this direction, or not the header length or the flags
 *                  that it can have
 *   SNIC_EMSGSIZE  shorter than the headers that type and flags require
 *   SNIC_EOVERFLOW longer than any packet
 *   SNIC_ECORRUPT  hdr_crc
 *   SNIC_ERANGE    a field out of its range
 *   SNIC_EOVERFLOW longer or shorter than the header requires
 *   SNIC_ENOTSUP   a flag that must be understood: @p h and @p place are filled in, for the NAK.
 *                  (Such a flag changes no length; a change of length is a new version.)
 * With AUTH the body is still encrypted (snic_ebs_open); data_crc and bind_crc are the caller's to
 * check. With STREAM @p size is the bytes received so far, 128 are enough: place.size is the
 * length of the frame. [any]
 * @return 0, or one of those
 */
SNIC_API SNIC_NODISCARD int snic_ebs_decode(struct snic_ebs_header *h, struct snic_ebs_place *place,
                                            unsigned direction, const void *packet, size_t size)
    SNIC_NONNULL(1, 2, 4);

/** Fields that all versions have in common; nothing is checked. */
struct snic_ebs_start {
    uint8_t version;
    uint8_t type;
    uint16_t pad;
    uint32_t conn_id;
    uint64_t rpc_id;
};
/** Read these of a packet that was not decoded. [any] @return 0; SNIC_EMSGSIZE under 16 bytes */
SNIC_API SNIC_NODISCARD int snic_ebs_peek(struct snic_ebs_start *p, const void *packet, size_t size)
    SNIC_NONNULL(1, 2);

/**
 * What an I/O that ends with this status returns. [any]
 * @return 0 OK and SUPERSEDED; SNIC_EINVAL no such status; else the SNIC_E* of the status
 */
SNIC_API int snic_ebs_status_error(unsigned status);

/** Entry @p i of an ACKV's body. The caller knows that i < pkt_cnt. [any] */
SNIC_API void snic_ebs_ack_get(struct snic_ebs_ack *a, const void *body, uint32_t i)
    SNIC_NONNULL(1, 2);
/** Write it. The caller knows that it fits. [any] */
SNIC_API void snic_ebs_ack_put(void *body, uint32_t i, const struct snic_ebs_ack *a)
    SNIC_NONNULL(1, 3);

/** Write Addr slot @p i (counting set bits of need_mask) of a READ_REQ's body. [any] */
static inline void snic_ebs_slot_put(void *body, uint32_t i, uint16_t slot, uint16_t gen)
{
    snic_put_be16((unsigned char *)body + i * SNIC_EBS_SLOT_BYTES, slot);
    snic_put_be16((unsigned char *)body + i * SNIC_EBS_SLOT_BYTES + 2, gen);
}
/** Read it. [any] */
static inline void snic_ebs_slot_get(const void *body, uint32_t i, uint16_t *slot, uint16_t *gen)
{
    *slot = snic_get_be16((const unsigned char *)body + i * SNIC_EBS_SLOT_BYTES);
    *gen = snic_get_be16((const unsigned char *)body + i * SNIC_EBS_SLOT_BYTES + 2);
}

/** Read an INT block of 80 bytes; never fails: more than 9 hops are 9. [any] */
SNIC_API void snic_ebs_int_get(struct snic_ebs_int *out, const void *bytes) SNIC_NONNULL(1, 2);
/** Write one; fields are cut to their bits, the queue to its greatest value. [any] */
SNIC_API void snic_ebs_int_put(void *bytes, const struct snic_ebs_int *in) SNIC_NONNULL(1, 2);
/** Add a hop, as a switch does. [any] @return 0; SNIC_ENOSPC it has 9 */
SNIC_API int snic_ebs_int_push(void *bytes, const struct snic_ebs_hop *hop) SNIC_NONNULL(1, 2);
/** Bits a second of a hop's speed code 0 ... 15; 0: unknown code. [any] */
SNIC_API uint64_t snic_ebs_hop_bps(unsigned speed);
/** The code of the greatest speed that is not above @p bps, 0 if there is none. [any] */
SNIC_API unsigned snic_ebs_hop_speed(uint64_t bps);

/** Credit in a byte: exact up to 32 blocks, above that rounded down by less than 1/16. [any] */
SNIC_API uint8_t snic_ebs_credit_code(uint32_t blocks);
/** The blocks that a code means. [any] */
SNIC_API uint32_t snic_ebs_credit_blocks(uint8_t code);

/* ---- Numbers that are never reused: epoch(16) and counter(48) ---- */

#define SNIC_EBS_COUNTER_BITS 48
#define SNIC_EBS_COUNTER_MAX ((UINT64_C(1) << SNIC_EBS_COUNTER_BITS) - 1)

/** The number of @p epoch and @p counter (both cut to their bits). [any] */
static inline uint64_t snic_ebs_id(uint32_t epoch, uint64_t counter)
{
    return (uint64_t)(epoch & 0xffffu) << SNIC_EBS_COUNTER_BITS | (counter & SNIC_EBS_COUNTER_MAX);
}
/** Its epoch. [any] */
static inline uint32_t snic_ebs_id_epoch(uint64_t id)
{
    return (uint32_t)(id >> SNIC_EBS_COUNTER_BITS);
}
/** Its counter. [any] */
static inline uint64_t snic_ebs_id_counter(uint64_t id)
{
    return id & SNIC_EBS_COUNTER_MAX;
}

/* ---- Checksums ---- */

/** bind_crc of bytes 64 ... 111 as they will be encoded. [any] */
SNIC_API uint32_t snic_ebs_bind_crc(const struct snic_ebs_block *b) SNIC_NONNULL(1);

/*
 * The aggregate of the blocks of an RPC or a segment, in rising order of lba: their CRCs combined
 * as if the blocks stood one after the other. Over data_crc it is the CRC32C of all the data; over
 * bind_crc it ties them to their places, too. It detects blocks swapped, left out or damaged in the
 * same way, which their exclusive or does not. It is for a receiver that has none of the data, or
 * all of it: LUNA's frames have it; in SOLAR's packets, of a block each, agg_crc is 0.
 */

/** The aggregate @p agg (0: of nothing) followed by a block of CRC @p crc. [any] */
static inline uint32_t snic_ebs_agg_add(uint32_t agg, uint32_t crc)
{
    return snic_crc32c_combine_4096(agg, crc);
}
/**
 * The share in an aggregate of a block of CRC @p crc that @p after others follow (0 ... 511): the
 * aggregate is the exclusive or of all shares, so answers can be added as they arrive. [any]
 */
SNIC_API uint32_t snic_ebs_agg_share(uint32_t crc, uint32_t after);

/* ---- Rate limits: two buckets for each disk, bytes and I/Os a second ---- */

/**
 * An I/O is admitted when both buckets hold something, and then pays in full, so one that costs
 * more than a bucket holds is not starved but leaves a debt. The arithmetic is exact: any way of
 * cutting a time into calls earns the same.
 */
struct snic_ebs_qos;

struct snic_ebs_qos_opts {
    uint32_t opts_size;
    uint32_t disks;         /**< slots 0 ... disks - 1; 1 ... 65536 */
    uint32_t io_unit_bytes; /**< an I/O counts as one for each begun unit; 0: as one */
    uint32_t flags;         /**< 0 */
};
struct snic_ebs_qos_limits {
    uint64_t bytes_per_second; /**< 0: no limit; at most 2^40 */
    uint64_t ios_per_second;   /**< 0: no limit; at most 2^40 */
    uint64_t burst_bytes;      /**< 1 ... 2^40, where there is a limit */
    uint64_t burst_ios;
};
struct snic_ebs_qos_state {
    struct snic_ebs_qos_limits limits;
    int64_t bytes; /**< whole tokens, rounded down; negative: debt */
    int64_t ios;
};

/** Bytes that init needs, or 0 when @p o is invalid. [any] */
SNIC_API size_t snic_ebs_qos_memsize(const struct snic_ebs_qos_opts *o) SNIC_NONNULL(1);
/**
 * Buckets without limits in @p mem, which is owned until fini; @p o is copied. [owner]
 * @return 0; SNIC_EINVAL bad option or alignment; SNIC_ENOSPC @p size is too small
 */
SNIC_API SNIC_NODISCARD int snic_ebs_qos_init(struct snic_ebs_qos **out, void *mem, size_t size,
                                              const struct snic_ebs_qos_opts *o)
    SNIC_NONNULL(1, 2, 4);
/** @return the memory. [owner] */
SNIC_API void *snic_ebs_qos_fini(struct snic_ebs_qos *q) SNIC_NONNULL(1);
/**
 * Set a slot's limits. One that had none, or whose entry is damaged, begins with full buckets;
 * otherwise tokens and debt at @p now_ns stay, cut to the new bursts. A bucket without a limit
 * keeps nothing. [owner]
 * @return 0; SNIC_EINVAL a limit out of its range, or no such slot
 */
SNIC_API SNIC_NODISCARD int snic_ebs_qos_set(struct snic_ebs_qos *q, uint32_t slot,
                                             const struct snic_ebs_qos_limits *l, uint64_t now_ns)
    SNIC_NONNULL(1, 3);
/** Empty a slot. [owner] @return 0; SNIC_EINVAL no such slot */
SNIC_API int snic_ebs_qos_clear(struct snic_ebs_qos *q, uint32_t slot) SNIC_NONNULL(1);
/**
 * Admit and charge an I/O. A time before that of an earlier call earns nothing. [owner]
 * @return 0; SNIC_EAGAIN not yet, nothing was charged; SNIC_ENOENT the slot has no limits;
 *         SNIC_ECORRUPT its entry is damaged: set it again; SNIC_EINVAL no such slot
 */
SNIC_API SNIC_NODISCARD int snic_ebs_qos_admit(struct snic_ebs_qos *q, uint32_t slot,
                                               uint32_t bytes, uint64_t now_ns) SNIC_NONNULL(1);
/**
 * The first time at which the slot admits an I/O, if nothing else is admitted before; the time of
 * the last call or earlier: at once. SNIC_NEVER: no such slot, no limits or damaged. [owner]
 */
SNIC_API uint64_t snic_ebs_qos_ready_ns(const struct snic_ebs_qos *q, uint32_t slot)
    SNIC_NONNULL(1);
/**
 * A slot's limits and tokens. [owner]
 * @return 0; SNIC_ENOENT the slot has no limits; SNIC_ECORRUPT its entry is damaged; SNIC_EINVAL no
 *         such slot
 */
SNIC_API int snic_ebs_qos_view(const struct snic_ebs_qos *q, uint32_t slot,
                               struct snic_ebs_qos_state *v) SNIC_NONNULL(1, 3);
/** Check all entries. [owner] @return 0; SNIC_ECORRUPT one is damaged */
SNIC_API int snic_ebs_qos_check(const struct snic_ebs_qos *q) SNIC_NONNULL(1);

/* ---- Locations of a disk's segments (the Block table) ---- */

/**
 * Two levels: the first has a word for each 512 segments (1 GiB), the second 512 entries of 24
 * bytes, taken when the first of them is set, and kept. With all of its second level a map needs
 * 12.6 MB for 1 TiB. To replace all of it at once fill another map and swap the pointers, or begin
 * a new generation, which is empty.
 */
struct snic_ebs_map;

struct snic_ebs_map_opts {
    uint32_t opts_size;
    uint32_t chunks;   /**< of 512 entries, at most; 1 ... what segments need */
    uint64_t segments; /**< of the disk, 1 ... 2^39 */
    uint32_t flags;    /**< 0 */
    uint32_t pad;      /**< 0 */
};
struct snic_ebs_where {
    uint64_t seg_id;
    uint32_t server;
    uint32_t seg_gen;
    uint32_t flags; /**< 14 bits, the caller's */
    uint32_t pad;
};

/** Bytes that init needs, or 0 when @p o is invalid. [any] */
SNIC_API size_t snic_ebs_map_memsize(const struct snic_ebs_map_opts *o) SNIC_NONNULL(1);
/**
 * A table without entries in @p mem, which is owned until fini; @p o is copied. [owner]
 * @return 0; SNIC_EINVAL bad option or alignment; SNIC_ENOSPC @p size is too small
 */
SNIC_API SNIC_NODISCARD int snic_ebs_map_init(struct snic_ebs_map **out, void *mem, size_t size,
                                              const struct snic_ebs_map_opts *o)
    SNIC_NONNULL(1, 2, 4);
/** @return the memory. [owner] */
SNIC_API void *snic_ebs_map_fini(struct snic_ebs_map *m) SNIC_NONNULL(1);
/**
 * Get the location of segment @p segment (lba >> 9). [owner]
 * @return 0; or it must be looked up: SNIC_ENOENT not known; SNIC_ESTALE invalidated, @p w is the
 *         old entry; SNIC_ECORRUPT the entry is damaged. SNIC_ERANGE beyond the disk
 */
SNIC_API SNIC_NODISCARD int snic_ebs_map_get(const struct snic_ebs_map *m, uint64_t segment,
                                             struct snic_ebs_where *w) SNIC_NONNULL(1, 3);
/**
 * Set its location. [owner]
 * @return 0; SNIC_ESTALE a greater seg_gen is known; SNIC_ENOSPC no chunk is left; SNIC_ERANGE
 *         beyond the disk; SNIC_EINVAL flags
 */
SNIC_API SNIC_NODISCARD int snic_ebs_map_set(struct snic_ebs_map *m, uint64_t segment,
                                             const struct snic_ebs_where *w) SNIC_NONNULL(1, 3);
/**
 * A server reported that @p seg_gen is stale. An entry of a greater one is newer, and stays.
 * [owner]
 * @return 1 invalidated; 0 there was no entry, or a newer one; SNIC_ECORRUPT the entry is damaged;
 *         SNIC_ERANGE @p segment is beyond the disk
 */
SNIC_API int snic_ebs_map_invalidate(struct snic_ebs_map *m, uint64_t segment, uint32_t seg_gen)
    SNIC_NONNULL(1);
/**
 * How many segments are at @p server; @p forget: they are invalidated, each as
 * snic_ebs_map_invalidate() does. Reads all chunks. [owner]
 */
SNIC_API uint64_t snic_ebs_map_server(struct snic_ebs_map *m, uint32_t server, int forget)
    SNIC_NONNULL(1);
/** Forget all entries, in O(1) but for every 2^32th call. [owner] @return the new generation */
SNIC_API uint32_t snic_ebs_map_next(struct snic_ebs_map *m) SNIC_NONNULL(1);
/** Chunks in use. [owner] */
SNIC_API uint32_t snic_ebs_map_chunks(const struct snic_ebs_map *m) SNIC_NONNULL(1);
/** Check all entries. [owner] @return 0; SNIC_ECORRUPT one is damaged */
SNIC_API int snic_ebs_map_check(const struct snic_ebs_map *m) SNIC_NONNULL(1);

/* ---- Destinations of blocks that are read (the Addr table) ---- */

/** Slots are reused in the order they became free, so that generations repeat as late as possible.
 */
struct snic_ebs_addr;

struct snic_ebs_addr_opts {
    uint32_t opts_size;
    uint32_t slots; /**< power of two, 1 ... 65536 */
    uint32_t flags; /**< 0 */
    uint32_t pad;   /**< 0 */
};
/** An expected answer. */
struct snic_ebs_expect {
    uint64_t rpc_id;
    uint64_t seg_id;
    uint64_t lba;
    uint64_t dest; /**< the destination: an address or any value of the caller's */
    uint16_t pkt_id;
    uint16_t pad;
    uint32_t length;
};

/** Bytes that init needs, or 0 when @p o is invalid. [any] */
SNIC_API size_t snic_ebs_addr_memsize(const struct snic_ebs_addr_opts *o) SNIC_NONNULL(1);
/**
 * A table of free slots in @p mem, which is owned until fini; @p o is copied. [owner]
 * @return 0; SNIC_EINVAL bad option or alignment; SNIC_ENOSPC @p size is too small
 */
SNIC_API SNIC_NODISCARD int snic_ebs_addr_init(struct snic_ebs_addr **out, void *mem, size_t size,
                                               const struct snic_ebs_addr_opts *o)
    SNIC_NONNULL(1, 2, 4);
/** @return the memory. [owner] */
SNIC_API void *snic_ebs_addr_fini(struct snic_ebs_addr *a) SNIC_NONNULL(1);
/**
 * Take a slot; @p slot and @p gen go into the request. [owner]
 * @return 0; SNIC_EAGAIN all are taken
 */
SNIC_API SNIC_NODISCARD int snic_ebs_addr_put(struct snic_ebs_addr *a,
                                              const struct snic_ebs_expect *e, uint16_t *slot,
                                              uint16_t *gen) SNIC_NONNULL(1, 2, 3, 4);
/**
 * Find the entry of a READ_RESP: slot, generation, rpc_id, pkt_id, lba and seg_id must all match.
 * It stays: clear it when the data are verified. [owner]
 * @return 0; SNIC_ENOENT a late or repeated answer, or not one of ours: drop it; SNIC_ECORRUPT the
 *         entry is damaged: clear it, request the block again with another
 */
SNIC_API SNIC_NODISCARD int snic_ebs_addr_match(const struct snic_ebs_addr *a,
                                                const struct snic_ebs_header *h,
                                                struct snic_ebs_expect *e) SNIC_NONNULL(1, 2, 3);
/**
 * Free a slot. Also repairs one that is damaged. [owner]
 * @return 0; SNIC_ENOENT @p gen is not its generation, or it is free; SNIC_ECORRUPT it was damaged
 *         (it is free now); SNIC_EINVAL no such slot
 */
SNIC_API int snic_ebs_addr_clear(struct snic_ebs_addr *a, uint16_t slot, uint16_t gen)
    SNIC_NONNULL(1);
/** Slots that are free. [owner] */
SNIC_API uint32_t snic_ebs_addr_free(const struct snic_ebs_addr *a) SNIC_NONNULL(1);
/** Check all entries and the ring of free ones. [owner] @return 0; SNIC_ECORRUPT one is damaged */
SNIC_API int snic_ebs_addr_check(const struct snic_ebs_addr *a) SNIC_NONNULL(1);

#ifdef __cplusplus
}
#endif

#include "snicstore/ebs_sec.h"

#endif /* SNIC_EBS_H */
