/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* Log records and key hashes: the format that the host and the DPU role share. */
#include "record.h"

#include "snicstore/base.h"

#define XXH_INLINE_ALL
#include <xxhash.h>

#include <string.h>

SNIC_STATIC_ASSERT(sizeof(struct kv_record) == KV_RECORD_HEADER, "the record header is packed");
SNIC_STATIC_ASSERT(sizeof(struct kv_item) == 24, "the cache item is packed");

#define KV_RECORD_CRC_FROM 8 /* the checksum covers what follows magic and itself */

size_t kv_record_bytes(uint32_t key_size, uint32_t value_size)
{
    return (size_t)snic_align_up((uint64_t)KV_RECORD_HEADER + key_size + value_size, 8);
}

void kv_record_encode(unsigned char *out, const struct kv_record *r, const void *key,
                      const void *value)
{
    uint32_t crc;

    snic_put_le32(out, KV_RECORD_MAGIC);
    snic_put_le64(out + 8, r->version);
    snic_put_le64(out + 16, r->expire_ms);
    snic_put_le32(out + 24, r->key_size);
    snic_put_le32(out + 28, r->value_size);
    snic_put_le16(out + 32, r->type);
    snic_put_le16(out + 34, r->database);
    snic_put_le32(out + 36, 0);
    snic_put_le64(out + 40, r->file);
    crc = snic_crc32c(0, out + KV_RECORD_CRC_FROM, KV_RECORD_HEADER - KV_RECORD_CRC_FROM);
    if (r->type != KV_RECORD_PAD) { /* what a pad skips is not there */
        crc = snic_crc32c(crc, key, r->key_size);
        crc = snic_crc32c(crc, value, r->value_size);
    }
    snic_put_le32(out + 4, crc);
}

static int kv_record_header(struct kv_record *out, const unsigned char *data)
{
    out->magic = snic_get_le32(data);
    out->crc32c = snic_get_le32(data + 4);
    out->version = snic_get_le64(data + 8);
    out->expire_ms = snic_get_le64(data + 16);
    out->key_size = snic_get_le32(data + 24);
    out->value_size = snic_get_le32(data + 28);
    out->type = snic_get_le16(data + 32);
    out->database = snic_get_le16(data + 34);
    out->reserved = snic_get_le32(data + 36);
    out->file = snic_get_le64(data + 40);
    if (out->magic != KV_RECORD_MAGIC || out->reserved != 0 || out->type < KV_RECORD_SET ||
        out->type > KV_RECORD_SWAP)
        return SNIC_ECORRUPT;
    if (out->key_size > KV_RECORD_PART_MAX || out->value_size > KV_RECORD_PART_MAX)
        return SNIC_ECORRUPT;
    return 0;
}

int64_t kv_record_decode(struct kv_record *out, const unsigned char *data, size_t size,
                         const unsigned char **key, const unsigned char **value)
{
    size_t bytes;
    uint32_t crc;

    if (size < KV_RECORD_HEADER)
        return 0;
    if (kv_record_header(out, data) != 0)
        return SNIC_ECORRUPT;
    if (out->type == KV_RECORD_PAD) {
        /* value_size counts the bytes skipped; they are not there to be checked */
        crc = snic_crc32c(0, data + KV_RECORD_CRC_FROM, KV_RECORD_HEADER - KV_RECORD_CRC_FROM);
        if (crc != out->crc32c || out->key_size != 0)
            return SNIC_ECORRUPT;
        *key = NULL;
        *value = NULL;
        return (int64_t)kv_record_bytes(0, out->value_size);
    }
    bytes = kv_record_bytes(out->key_size, out->value_size);
    if (bytes > size)
        return 0;
    crc = snic_crc32c(0, data + KV_RECORD_CRC_FROM,
                      KV_RECORD_HEADER - KV_RECORD_CRC_FROM + (size_t)out->key_size +
                          out->value_size);
    if (crc != out->crc32c)
        return SNIC_ECORRUPT;
    *key = data + KV_RECORD_HEADER;
    *value = *key + out->key_size;
    return (int64_t)bytes;
}

void kv_key_hash(unsigned char out[16], const uint64_t seed[2], uint32_t database, const void *key,
                 size_t size)
{
    XXH128_hash_t h = XXH3_128bits_withSeed(key, size, seed[0] + database * 0x9e3779b97f4a7c15u);

    snic_put_le64(out, h.low64 ^ seed[1]);
    snic_put_le64(out + 8, h.high64);
}

void kv_write_tag_put(unsigned char out[16], const struct kv_write_tag *t)
{
    snic_put_le32(out, t->begin);
    snic_put_le32(out + 4, t->end);
    snic_put_le32(out + 8, t->head_back);
    snic_put_le32(out + 12, t->head_offset);
}

void kv_write_tag_get(struct kv_write_tag *out, const unsigned char tag[16])
{
    out->begin = snic_get_le32(tag);
    out->end = snic_get_le32(tag + 4);
    out->head_back = snic_get_le32(tag + 8);
    out->head_offset = snic_get_le32(tag + 12);
}
