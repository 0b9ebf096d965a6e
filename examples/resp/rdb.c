/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* Redis' serialized form of a string: RDB encodings, LZF, CRC-64. */
#include "rdb.h"

#include "resp.h"
#include "snicstore/base.h"

#include <stdio.h>
#include <string.h>

#define RDB_TRAILER 10u                    /* version and checksum */
#define RDB_POLYNOMIAL 0x95ac9329ac4bc9b5u /* Jones' 0xad93d23594c935a9, reflected */

/* Length prefixes: the two upper bits, or a whole byte. */
#define RDB_LEN6 0u
#define RDB_LEN14 1u
#define RDB_LEN_BYTES 2u
#define RDB_SPECIAL 3u
#define RDB_LEN32 0x80u
#define RDB_LEN64 0x81u
#define RDB_INT8 0xc0u
#define RDB_INT16 0xc1u
#define RDB_INT32 0xc2u
#define RDB_LZF 0xc3u

uint64_t rdb_crc64(uint64_t crc, const void *data, size_t size)
{
    const unsigned char *p = data;
    uint64_t table[256];

    if (size < 512) { /* the table costs 2,048 steps */
        for (size_t i = 0; i < size; i++) {
            crc ^= p[i];
            for (int k = 0; k < 8; k++)
                crc = (crc >> 1) ^ ((crc & 1) != 0 ? RDB_POLYNOMIAL : 0);
        }
        return crc;
    }
    for (uint32_t i = 0; i < 256; i++) {
        table[i] = i;
        for (int k = 0; k < 8; k++)
            table[i] = (table[i] >> 1) ^ ((table[i] & 1) != 0 ? RDB_POLYNOMIAL : 0);
    }
    for (size_t i = 0; i < size; i++)
        crc = (crc >> 8) ^ table[(crc ^ p[i]) & 0xff];
    return crc;
}

static size_t rdb_put_length(unsigned char *out, uint64_t n)
{
    if (n < 64) {
        out[0] = (unsigned char)n;
        return 1;
    }
    if (n < 16384) {
        out[0] = (unsigned char)(RDB_LEN14 << 6 | n >> 8);
        out[1] = (unsigned char)n;
        return 2;
    }
    if (n <= UINT32_MAX) {
        out[0] = RDB_LEN32;
        for (int i = 0; i < 4; i++)
            out[1 + i] = (unsigned char)(n >> (24 - 8 * i));
        return 5;
    }
    out[0] = RDB_LEN64;
    for (int i = 0; i < 8; i++)
        out[1 + i] = (unsigned char)(n >> (56 - 8 * i));
    return 9;
}

/* A number of up to 32 bits. @return its bytes; 0: it has more */
static size_t rdb_put_number(unsigned char *out, int64_t n)
{
    size_t bytes;

    if (n >= INT8_MIN && n <= INT8_MAX) {
        out[0] = RDB_INT8;
        bytes = 1;
    } else if (n >= INT16_MIN && n <= INT16_MAX) {
        out[0] = RDB_INT16;
        bytes = 2;
    } else if (n >= INT32_MIN && n <= INT32_MAX) {
        out[0] = RDB_INT32;
        bytes = 4;
    } else {
        return 0;
    }
    for (size_t i = 0; i < bytes; i++)
        out[1 + i] = (unsigned char)((uint64_t)n >> (8 * i));
    return 1 + bytes;
}

size_t rdb_dump(unsigned char *out, const unsigned char *value, size_t size)
{
    size_t at = 0;
    size_t n = 0;
    int64_t number;

    out[at++] = RDB_TYPE_STRING;
    if (size <= 11 && resp_number(value, size, &number) == 0)
        n = rdb_put_number(out + at, number);
    at += n;
    if (n == 0) {
        at += rdb_put_length(out + at, size);
        if (size > 0)
            memcpy(out + at, value, size);
        at += size;
    }
    snic_put_le16(out + at, RDB_VERSION);
    at += 2;
    snic_put_le64(out + at, rdb_crc64(0, out, at));
    return at + 8;
}

int64_t rdb_open(const unsigned char *payload, size_t size)
{
    if (size < RDB_TRAILER || rdb_crc64(0, payload, size - 8) != snic_get_le64(payload + size - 8))
        return SNIC_ECORRUPT;
    if (snic_get_le16(payload + size - RDB_TRAILER) > RDB_VERSION_MAX)
        return SNIC_EVERSION;
    return (int64_t)(size - RDB_TRAILER);
}

/* A length. @return its bytes; 0: cut off, or no length */
static size_t rdb_get_length(const unsigned char *p, size_t size, uint64_t *out)
{
    size_t bytes;

    if (size < 1)
        return 0;
    switch (p[0] >> 6) {
    case RDB_LEN6:
        *out = p[0] & 63u;
        return 1;
    case RDB_LEN14:
        if (size < 2)
            return 0;
        *out = (p[0] & 63u) << 8 | p[1];
        return 2;
    case RDB_LEN_BYTES:
        bytes = p[0] == RDB_LEN32 ? 4 : p[0] == RDB_LEN64 ? 8 : 0;
        if (bytes == 0 || size < 1 + bytes)
            return 0;
        *out = 0;
        for (size_t i = 0; i < bytes; i++)
            *out = *out << 8 | p[1 + i];
        return 1 + bytes;
    default:
        return 0;
    }
}

static int rdb_get_number(struct rdb_string *s, const unsigned char *p, size_t size, size_t bytes)
{
    char text[24];
    uint64_t v = 0;

    if (size < 1 + bytes)
        return SNIC_ECORRUPT;
    for (size_t i = 0; i < bytes; i++)
        v |= (uint64_t)p[1 + i] << (8 * i);
    if (bytes == 1)
        s->number = (int8_t)v;
    else if (bytes == 2)
        s->number = (int16_t)v;
    else
        s->number = (int32_t)v;
    s->is_number = 1;
    s->size = (uint32_t)resp_put_number(text, ':', s->number) - 3;
    return 0;
}

int rdb_string(struct rdb_string *out, const unsigned char *data, size_t size)
{
    uint64_t packed;
    uint64_t n;
    size_t at;

    memset(out, 0, sizeof(*out));
    if (size < 1)
        return SNIC_ECORRUPT;
    if (data[0] == RDB_INT8 || data[0] == RDB_INT16 || data[0] == RDB_INT32)
        return rdb_get_number(out, data, size, (size_t)1 << (data[0] & 3));
    if (data[0] == RDB_LZF) {
        size_t first = rdb_get_length(data + 1, size - 1, &packed);

        at = 1 + first;
        n = 0;
        if (first > 0) {
            first = rdb_get_length(data + at, size - at, &n);
            at += first;
        }
        /* A byte of LZF stands for less than 90. */
        if (first == 0 || packed == 0 || packed > size - at || n > UINT32_MAX || n / 256 > packed)
            return SNIC_ECORRUPT;
        out->packed = data + at;
        out->packed_size = (uint32_t)packed;
        out->size = (uint32_t)n;
        return 0;
    }
    at = rdb_get_length(data, size, &n);
    if (at == 0 || n > size - at || n > UINT32_MAX)
        return SNIC_ECORRUPT;
    out->data = data + at;
    out->size = (uint32_t)n;
    return 0;
}

/* What a type byte stands for, up to version 12; NULL: nothing. */
static const char *rdb_type_name(unsigned char type)
{
    static const char *const names[] = {
        "string", "list",   "set", "zset",   "hash", "zset", "module", "module", NULL,
        "hash",   "list",   "set", "zset",   "hash", "list", "stream", "hash",   "zset",
        "list",   "stream", "set", "stream", "hash", "hash", "hash",   "hash"};

    return type < sizeof(names) / sizeof(names[0]) ? names[type] : NULL;
}

int rdb_read(struct rdb_string *out, const unsigned char *payload, size_t size,
             char error[RDB_ERROR_MAX])
{
    int64_t body = rdb_open(payload, size);
    const char *type = body > 0 ? rdb_type_name(payload[0]) : NULL;

    if (body == SNIC_EVERSION)
        snprintf(error, RDB_ERROR_MAX,
                 "ERR DUMP payload version or checksum are wrong: it is of RDB version %u, and the "
                 "newest that is understood is %u",
                 snic_get_le16(payload + size - RDB_TRAILER), RDB_VERSION_MAX);
    else if (body < 0)
        snprintf(error, RDB_ERROR_MAX, "ERR DUMP payload version or checksum are wrong");
    else if (body > 1 && type != NULL && payload[0] != RDB_TYPE_STRING)
        snprintf(error, RDB_ERROR_MAX,
                 "ERR Bad data format: RDB type %u (%s) is not a string, the only type that is "
                 "stored here",
                 payload[0], type);
    else if (type == NULL || rdb_string(out, payload + 1, (size_t)body - 1) != 0)
        snprintf(error, RDB_ERROR_MAX, "ERR Bad data format");
    else
        return 0;
    return -1;
}

/*
 * LZF: a control byte below 32 is followed by that many bytes and one more as they are; others
 * repeat: 3 bits of length (7: another byte adds to it) + 2, 13 bits of distance + 1.
 */
static int rdb_unpack(const unsigned char *in, size_t in_size, unsigned char *out, size_t size)
{
    size_t i = 0;
    size_t o = 0;

    while (i < in_size) {
        size_t control = in[i++];
        size_t n = control + 1;
        size_t back;

        if (control < 32) {
            if (n > in_size - i || n > size - o)
                return SNIC_ECORRUPT;
            memcpy(out + o, in + i, n);
            i += n;
            o += n;
            continue;
        }
        n = control >> 5;
        if (n == 7) {
            if (i >= in_size)
                return SNIC_ECORRUPT;
            n += in[i++];
        }
        n += 2;
        if (i >= in_size)
            return SNIC_ECORRUPT;
        back = ((control & 31) << 8 | in[i++]) + 1;
        if (back > o || n > size - o)
            return SNIC_ECORRUPT;
        for (; n > 0; n--, o++) /* it may repeat what it has just written */
            out[o] = out[o - back];
    }
    return o == size ? 0 : SNIC_ECORRUPT;
}

int rdb_value(const struct rdb_string *s, unsigned char *out)
{
    char text[24];

    if (s->packed != NULL)
        return rdb_unpack(s->packed, s->packed_size, out, s->size);
    if (s->is_number) {
        (void)resp_put_number(text, ':', s->number);
        memcpy(out, text + 1, s->size);
    } else if (s->size > 0) {
        memcpy(out, s->data, s->size);
    }
    return 0;
}
