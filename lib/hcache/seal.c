/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* The default sealing: the sum covers the place, so that a page found in another's is noticed. And
 * one with parity, as an example of what the table can do. */
#include "snicstore/hcache.h"

#include <string.h>

static uint32_t seal_crc_sum(void *ctx, uint64_t ino, uint64_t lpn, const void *page,
                             uint32_t bytes)
{
    unsigned char place[16];

    (void)ctx;
    snic_put_le64(place, ino);
    snic_put_le64(place + 8, lpn);
    return snic_crc32c(snic_crc32c(0, place, sizeof(place)), page, bytes);
}

static const struct snic_hcache_seal seal_crc = {
    sizeof(struct snic_hcache_seal), 0, "crc32c", seal_crc_sum, NULL, NULL, NULL};

const struct snic_hcache_seal *snic_hcache_seal_crc(void)
{
    return &seal_crc;
}

/* ---- 4+1 ---- */

#define SNIC_HCACHE__XOR_PARTS 4u
#define SNIC_HCACHE__XOR_BYTES (65536u / SNIC_HCACHE__XOR_PARTS)

/* out ^= the part of @p stored, as far as it goes. */
static void seal_xor_part(unsigned char *out, const unsigned char *stored, uint32_t bytes,
                          uint32_t part)
{
    uint32_t size = (bytes + SNIC_HCACHE__XOR_PARTS - 1) / SNIC_HCACHE__XOR_PARTS;
    uint32_t i;

    for (i = 0; i < size && part * size + i < bytes; i++)
        out[i] = (unsigned char)(out[i] ^ stored[part * size + i]);
}

static void seal_xor_parity(void *ctx, const void *stored, uint32_t bytes, void *parity)
{
    uint32_t part;

    (void)ctx;
    memset(parity, 0, (bytes + SNIC_HCACHE__XOR_PARTS - 1) / SNIC_HCACHE__XOR_PARTS);
    for (part = 0; part < SNIC_HCACHE__XOR_PARTS; part++)
        seal_xor_part(parity, stored, bytes, part);
}

void snic_hcache_xor_rebuild(void *stored, uint32_t bytes, uint32_t part, const void *parity)
{
    uint32_t size = (bytes + SNIC_HCACHE__XOR_PARTS - 1) / SNIC_HCACHE__XOR_PARTS;
    unsigned char *lost = (unsigned char *)stored + part * size;
    uint32_t i, other;

    SNIC_ASSERT(part < SNIC_HCACHE__XOR_PARTS);
    for (i = 0; i < size && part * size + i < bytes; i++) {
        unsigned char x = ((const unsigned char *)parity)[i];

        for (other = 0; other < SNIC_HCACHE__XOR_PARTS; other++)
            if (other != part && other * size + i < bytes)
                x = (unsigned char)(x ^ ((unsigned char *)stored)[other * size + i]);
        lost[i] = x;
    }
}

static const struct snic_hcache_seal seal_xor = {sizeof(struct snic_hcache_seal),
                                                 SNIC_HCACHE__XOR_BYTES,
                                                 "crc32c+xor4",
                                                 seal_crc_sum,
                                                 NULL,
                                                 NULL,
                                                 seal_xor_parity};

const struct snic_hcache_seal *snic_hcache_seal_xor(void)
{
    return &seal_xor;
}
