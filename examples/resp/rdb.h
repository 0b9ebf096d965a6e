/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/**
 * @file resp/rdb.h
 * Redis' serialized form of a string, as DUMP writes and RESTORE reads it: a type byte, the
 * string in one of RDB's encodings, the format's version (2 bytes) and a CRC-64.
 *
 * Threads     Pure functions. Memory: none of its own.
 * Input       rdb_open() and rdb_string() take hostile bytes.
 */
#ifndef RESP_RDB_H
#define RESP_RDB_H

#include <stddef.h>
#include <stdint.h>

/** Written: Redis 7.0's. */
#define RDB_VERSION 10u
/** The newest that is read: that of Redis 7.4 and 8.0. 11 (7.2) and 12 have added types and changed
 * nothing of strings. */
#define RDB_VERSION_MAX 12u
#define RDB_TYPE_STRING 0u
#define RDB_OVERHEAD 20u   /**< most that rdb_dump() adds to a value                        */
#define RDB_ERROR_MAX 160u /**< bytes of the longest error of rdb_read(), with its end      */

/** Redis' CRC-64 (Jones' polynomial, reflected, no inversion). */
uint64_t rdb_crc64(uint64_t crc, const void *data, size_t size);

/** Serialize a string into @p out (size + RDB_OVERHEAD bytes). @return its size */
size_t rdb_dump(unsigned char *out, const unsigned char *value, size_t size);

/** Version and checksum of a payload. @return the bytes before them; SNIC_EVERSION a newer version,
 * SNIC_ECORRUPT wrong */
int64_t rdb_open(const unsigned char *payload, size_t size);

struct rdb_string {
    const unsigned char *data; /**< plain bytes; NULL: compressed or a number              */
    uint32_t size;             /**< of the value                                            */
    const unsigned char *packed;
    uint32_t packed_size;
    int64_t number;
    int is_number;
};
/**
 * Take the string behind the type byte. Bytes behind it are ignored, as in Redis.
 * @return 0; SNIC_ECORRUPT
 */
int rdb_string(struct rdb_string *out, const unsigned char *data, size_t size);
/**
 * The string of a payload, for RESTORE. @return 0; -1 and the reply's text in @p error: damaged, of
 * a newer version, or of another type, which it names
 */
int rdb_read(struct rdb_string *out, const unsigned char *payload, size_t size,
             char error[RDB_ERROR_MAX]);
/** Write its value into @p out (>= s->size bytes). @return 0; SNIC_ECORRUPT */
int rdb_value(const struct rdb_string *s, unsigned char *out);

#endif
