/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/** @file kv_server/sha1.h  SHA-1 (RFC 3174), the name of a script in EVALSHA; no protection. */
#ifndef KV_SHA1_H
#define KV_SHA1_H

#include <stddef.h>
#include <stdint.h>

#define SHA1_SIZE 20

struct sha1 {
    uint32_t h[5];
    uint64_t bytes;
    unsigned char block[64];
};

void sha1_begin(struct sha1 *s);
void sha1_add(struct sha1 *s, const void *data, size_t size);
void sha1_end(struct sha1 *s, unsigned char out[SHA1_SIZE]);

/** 40 digits and a 0. */
void sha1_hex(const unsigned char hash[SHA1_SIZE], char out[2 * SHA1_SIZE + 1]);

#endif
