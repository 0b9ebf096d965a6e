/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/**
 * @file kv_server/record.h
 * Formats that the host and the DPU role share: records in the log, the tag of a log
 * write, the hash of a key, and the cache item that locates a record.
 */
#ifndef KV_RECORD_H
#define KV_RECORD_H

#include <stddef.h>
#include <stdint.h>

enum kv_record_type {
    KV_RECORD_SET = 1,
    KV_RECORD_DEL = 2,   /**< no value                                                   */
    KV_RECORD_FLUSH = 3, /**< no key: all older of the database (0xffff: of all) is gone */
    KV_RECORD_PAD = 4,   /**< value_size bytes to skip; only the header is checked       */
    /**
     * No key; the value is another database's number (2 bytes): the keys of both that lie
     * before it in the log are exchanged. Servers older than this type would skip it: a SET of
     * KV_MARK_DATABASE lies before it in its segment.
     */
    KV_RECORD_SWAP = 5
};
/**
 * Servers that know no KV_RECORD_SWAP refuse a log with a key of this database, which no
 * --databases reaches. Others skip the record: it is no key.
 */
#define KV_MARK_DATABASE 0xfffeu
/** Largest key and value that a record may claim. */
#define KV_RECORD_PART_MAX (1u << 30)

#define KV_RECORD_MAGIC 0x31564b53u /* "SKV1" */
/** Fixed part of a record; key and value follow, padded to 8 bytes with zeros. */
#define KV_RECORD_HEADER 48

/** A record header, little-endian in the log in this order. */
struct kv_record {
    uint32_t magic;
    uint32_t crc32c;    /**< of everything after this field, padding excluded              */
    uint64_t version;   /**< grows with every write; the newest of a key wins              */
    uint64_t expire_ms; /**< wall clock, 0: never                                          */
    uint32_t key_size;
    uint32_t value_size;
    uint16_t type; /**< enum kv_record_type                                           */
    uint16_t database;
    uint32_t reserved;
    uint64_t file; /**< id of the segment it was written for: stale bytes of a reused
                        segment do not pass                                          */
};

/** Bytes the record occupies in the log. */
size_t kv_record_bytes(uint32_t key_size, uint32_t value_size);
/** Write the header (KV_RECORD_HEADER bytes) with the checksum over key and value. */
void kv_record_encode(unsigned char *out, const struct kv_record *r, const void *key,
                      const void *value);
/**
 * Parse and verify a record at @p data.
 * @return its bytes; 0: @p size is too small to decide; SNIC_ECORRUPT magic, sizes or checksum
 */
int64_t kv_record_decode(struct kv_record *out, const unsigned char *data, size_t size,
                         const unsigned char **key, const unsigned char **value);

/** Where the newest version of a key lies; what the DPU caches. 24 bytes, host byte order. */
struct kv_item {
    uint64_t file;
    uint32_t offset;
    uint32_t bytes; /**< of the whole record                                           */
    uint64_t expire_ms;
};

/** The tag of a log write, for the DPU: SNIC_FILES_TAG_BYTES, little-endian. */
struct kv_write_tag {
    uint32_t begin; /**< of the first new record, from the start of the write              */
    uint32_t end;   /**< of the last; 0: not a write of records                            */
    /** The oldest record that the host has in memory lies in file (id of the write's file -
        head_back) at head_offset; none there: KV_HEAD_NONE. What is older only the device has. */
    uint32_t head_back;
    uint32_t head_offset;
};

#define KV_HEAD_NONE UINT32_MAX /**< head_back */

void kv_write_tag_put(unsigned char out[16], const struct kv_write_tag *t);
void kv_write_tag_get(struct kv_write_tag *out, const unsigned char tag[16]);

/** The seeded 128-bit hash (XXH3) of database and key. */
void kv_key_hash(unsigned char out[16], const uint64_t seed[2], uint32_t database, const void *key,
                 size_t size);

#endif
