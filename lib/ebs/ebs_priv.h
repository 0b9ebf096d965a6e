/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/**
 * @file ebs/ebs_priv.h
 * Offsets in a packet, the rules for each type, and the layout of the tables.
 *
 * Depends on  snicstore/ebs.h.
 * Memory      None of its own.
 * Threads     As in ebs.h.
 * Progress    Wait-free.
 * Errors      As in ebs.h.
 * Units       Offsets are bytes from the beginning of a packet.
 */
#ifndef SNIC_EBS_PRIV_H
#define SNIC_EBS_PRIV_H

#include "snicstore/ebs.h"

/* ---- Packet: fixed for ever ---- */

enum ebs_at {
    EBS_AT_VERSION = 0,
    EBS_AT_TYPE = 1,
    EBS_AT_FLAGS = 2,
    EBS_AT_CONN_ID = 4,
    EBS_AT_RPC_ID = 8,
    EBS_AT_PKT_ID = 16,
    EBS_AT_PKT_CNT = 18,
    EBS_AT_PATH_ID = 20,
    EBS_AT_PATH_GEN = 21,
    EBS_AT_ATTEMPT = 22,
    EBS_AT_CREDIT = 23,
    EBS_AT_PATH_SEQ = 24,
    EBS_AT_TX_TS = 28,
    EBS_AT_ECHO_TS = 32,
    EBS_AT_HOLD_NS = 36,
    EBS_AT_ACK_SEQ = 40,
    EBS_AT_SRV_EPOCH = 44,
    EBS_AT_STATUS = 48,
    EBS_AT_ACK_PATH_ID = 50,
    EBS_AT_ACK_PATH_GEN = 51,
    EBS_AT_HDR_CRC = 52,
    EBS_AT_PN = 56,
    /* Block part. */
    EBS_AT_VD_ID = 64,
    EBS_AT_SEG_ID = 72,
    EBS_AT_BLK_OFF = 80,
    EBS_AT_BLK_CNT = 82,
    EBS_AT_BLOCK_LOG2 = 84,
    EBS_AT_OP = 85,
    EBS_AT_TENANT = 86,
    EBS_AT_LBA = 88,
    EBS_AT_WVER = 96,
    EBS_AT_SEG_GEN = 104,
    EBS_AT_DATA_CRC = 108,
    EBS_AT_BIND_CRC = 112,
    EBS_AT_AGG_CRC = 116,
    EBS_AT_BY_TYPE = 120,
    EBS_AT_RESP_BLOCK_TAG = 124,
    /* HELLO part. */
    EBS_AT_HELLO_VER_MIN = 64,
    EBS_AT_HELLO_VER_MAX = 65,
    EBS_AT_HELLO_CONN_ID = 68,
    EBS_AT_HELLO_FEATURES = 72,
    EBS_AT_HELLO_EPOCH = 76,
    EBS_AT_HELLO_NONCE = 80,
    EBS_AT_HELLO_TOKEN = 88,
    EBS_AT_HELLO_PROOF = 96,
    EBS_AT_HELLO_CLIENT = 104,
    EBS_AT_HELLO_KEY = 112,
    EBS_AT_HELLO_PAYLOAD = 116,
    EBS_AT_HELLO_BY_TYPE = 120, /* HELLO: account; HELLO_ACK: key_nonce */
    /* RESET, PROBE and NAK parts. */
    EBS_AT_RESET_TOKEN = 64,
    EBS_AT_RESET_VER_MIN = 72,
    EBS_AT_RESET_VER_MAX = 73,
    EBS_AT_RESET_RETRY = 76,
    EBS_AT_PROBE_BYTES = 64,
    EBS_AT_PROBE_HELD_SEQ = 68,
    EBS_AT_PROBE_NONCE = 72,
    EBS_AT_PROBE_HELD = 80,
    EBS_AT_PROBE_PROOF = 112,
    EBS_AT_PROBE_KEY = 120,
    EBS_AT_PROBE_ACCOUNT = 124,
    EBS_AT_NAK_RETRY = 64,
    EBS_AT_NAK_FLAGS = 68,
    EBS_AT_NAK_PROOF = 72,
    EBS_AT_TOKEN = 64
};

/* bind_crc: of these, which end with data_crc. */
#define SNIC_EBS__BIND_AT EBS_AT_VD_ID
#define SNIC_EBS__BIND_BYTES (EBS_AT_BIND_CRC - EBS_AT_VD_ID)

SNIC_STATIC_ASSERT(SNIC_EBS_HEADER_BYTES == 128 && SNIC_EBS_INT_BYTES == 80, "on the wire");
SNIC_STATIC_ASSERT(EBS_AT_HDR_CRC == 52 && EBS_AT_STATUS == 48 &&
                       EBS_AT_PN + 8 == SNIC_EBS_RPC_BYTES,
                   "on the wire");
SNIC_STATIC_ASSERT(EBS_AT_VD_ID == SNIC_EBS_RPC_BYTES && EBS_AT_LBA == 88 && EBS_AT_WVER == 96 &&
                       EBS_AT_SEG_GEN == 104 && EBS_AT_DATA_CRC == 108,
                   "on the wire");
SNIC_STATIC_ASSERT(EBS_AT_BY_TYPE + 8 == SNIC_EBS_HEADER_BYTES, "on the wire");
SNIC_STATIC_ASSERT(EBS_AT_TOKEN + SNIC_EBS_TOKEN_BYTES == SNIC_EBS_HEADER_BYTES, "on the wire");
SNIC_STATIC_ASSERT(SNIC_EBS__BIND_BYTES == 48 && EBS_AT_DATA_CRC + 4 == EBS_AT_BIND_CRC,
                   "what binds data to its place ends with their checksum");
SNIC_STATIC_ASSERT(SNIC_EBS_PREFIX_BYTES == SNIC_EBS_HEADER_BYTES + SNIC_EBS_INT_BYTES,
                   "all that may precede a body");
SNIC_STATIC_ASSERT(SNIC_EBS_PACKET_BYTES ==
                       SNIC_EBS_PREFIX_BYTES + SNIC_EBS_BLOCK_BYTES + SNIC_EBS_TAG_BYTES,
                   "the longest packet");
SNIC_STATIC_ASSERT(SNIC_EBS_ACKS *SNIC_EBS_ACK_BYTES <= SNIC_EBS_BLOCK_BYTES, "a body");

/* The kind of the 64 bytes behind the RPC header. */
enum ebs_part { EBS_NONE, EBS_BLOCK, EBS_HELLO, EBS_RESET, EBS_PROBE, EBS_NAK, EBS_TOKEN };

/* The kind of a body; only EBS_BODY_DATA is outside hdr_crc. */
enum ebs_body { EBS_BODY_NONE, EBS_BODY_DATA, EBS_BODY_ACKS, EBS_BODY_SLOTS, EBS_BODY_PADDING };

struct ebs_kind {
    uint8_t part;       /* enum ebs_part */
    uint8_t body;       /* enum ebs_body */
    uint8_t directions; /* bit 0: to the server, bit 1: to the client */
};

/* The row of a type that may go in this direction, or NULL. */
const struct ebs_kind *ebs_kind_of(unsigned type, unsigned direction);

static inline uint32_t ebs_header_size(const struct ebs_kind *k)
{
    return k->part == EBS_NONE ? SNIC_EBS_RPC_BYTES : SNIC_EBS_HEADER_BYTES;
}

/* Byte 0: version, and what precedes the body in units of 16 bytes. */
static inline uint8_t ebs_first_byte(uint32_t body_at)
{
    return (uint8_t)(SNIC_EBS_VERSION << 4 | body_at / 16);
}

/* The fields that the rules check, from a struct to be encoded or from a received packet. */
struct ebs_terms {
    uint64_t lba;
    uint64_t need_mask;
    uint32_t conn_id; /* HELLO's second one */
    uint16_t status;
    uint16_t pkt_id;
    uint16_t pkt_cnt;
    uint16_t blk_off;
    uint16_t blk_cnt;
    uint8_t type;
    uint8_t block_log2;
    uint8_t op;
    uint8_t ver_min;
    uint8_t ver_max;
};

/* 1: a flags word that no packet may have: two uses of one INT block, or flags of datagrams in a
 * stream. */
int ebs_flags_bad(unsigned flags, unsigned direction);
/* 1: a field is out of its range. */
int ebs_fields_bad(const struct ebs_terms *t, const struct ebs_kind *k, unsigned direction);
/* The body's size that the header requires: at least and at most. */
void ebs_body_sizes(const struct ebs_terms *t, const struct ebs_kind *k, unsigned direction,
                    uint32_t *least, uint32_t *most);
/* The parts of a packet of these flags. */
void ebs_place(struct snic_ebs_place *p, uint32_t header_size, unsigned flags, uint32_t body_size);
/* 1 if hdr_crc covers the body, too. */
static inline int ebs_crc_has_body(const struct ebs_kind *k, unsigned flags, unsigned direction)
{
    return k->body != EBS_BODY_DATA && (flags & SNIC_EBS_AUTH) == 0 &&
           (direction & SNIC_EBS_STREAM) == 0;
}
/* Bytes 64 ... 107 and data_crc as they are sent. */
void ebs_put_bound(unsigned char *at64, const struct snic_ebs_block *b);

/* ---- Tables ---- */

/*
 * The check value of an entry covers its bytes and its place, so that an entry that was found by a
 * damaged index is not taken for the right one.
 */
static inline uint32_t ebs_entry_crc(const void *entry, size_t size, uint64_t place)
{
    return snic_crc32c((uint32_t)place ^ (uint32_t)(place >> 32) * UINT32_C(0x9e3779b9), entry,
                       size);
}

struct ebs_bucket {
    int64_t tokens; /* of 2^-16; below 0: debt */
    uint64_t rate;  /* tokens a second; 0: no limit, and all else is 0 */
    uint64_t burst;
    uint32_t rest; /* of 1e-9 * 2^-16 tokens */
    uint32_t pad;
};
struct ebs_qos_entry {
    struct ebs_bucket bucket[2]; /* bytes, I/Os */
    uint64_t last_ns;            /* earned up to here */
    uint32_t used;
    uint32_t check;
};
struct snic_ebs_qos {
    uint32_t disks;
    uint32_t io_unit_bytes;
    struct ebs_qos_entry *entry;
};
SNIC_STATIC_ASSERT(sizeof(struct ebs_qos_entry) == 80, "no padding under the check value");

struct ebs_map_entry {
    uint64_t seg_id;
    uint32_t server;
    uint32_t seg_gen;
    uint16_t flags; /* the caller's 14 bits, SNIC_EBS__KNOWN, SNIC_EBS__VALID */
    uint16_t check;
    uint32_t generation; /* the map's when it was set: it is unknown if that is older */
};
SNIC_STATIC_ASSERT(sizeof(struct ebs_map_entry) == 24, "12.6 MB for 1 TiB");
#define SNIC_EBS__KNOWN 0x4000u
#define SNIC_EBS__VALID 0x8000u
#define SNIC_EBS__CHUNK 512u /* entries */

struct snic_ebs_map {
    uint64_t segments;
    uint32_t chunks_max;
    uint32_t chunks;
    uint32_t generation;
    uint32_t pad;
    uint32_t *first; /* number of the chunk plus one, or 0 */
    uint64_t *owner; /* of each chunk: its place in first */
    struct ebs_map_entry *entry;
};

struct ebs_addr_entry {
    uint64_t rpc_id;
    uint64_t seg_id;
    uint64_t lba;
    uint64_t dest;
    uint32_t length;
    uint16_t pkt_id;
    uint16_t gen;
    uint32_t taken;
    uint32_t check;
};
SNIC_STATIC_ASSERT(sizeof(struct ebs_addr_entry) == 48, "no padding under the check value");

struct snic_ebs_addr {
    uint32_t slots;
    uint32_t free;
    uint32_t head; /* of the ring of free slots */
    uint32_t pad;
    struct ebs_addr_entry *entry;
    uint64_t *taken; /* a bit for each: used only if the entry is damaged */
    uint16_t *ring;
};

#endif /* SNIC_EBS_PRIV_H */
