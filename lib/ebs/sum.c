/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * Checksums of blocks and of many blocks.
 *
 * I1  The aggregate of values v[0] ... v[n-1] is the exclusive or of v[i] advanced over n-1-i
 *     blocks of 4096 bytes: appending one advances the others, and shares may be added in any
 *     order.
 * I2  sum_blocks[k] is the operator of 2^k blocks: x^(32768 * 2^k - 33), see base/crc32c_combine.c.
 */
#include "ebs/ebs_priv.h"

#define SNIC_EBS__SHARE_BITS 9
SNIC_STATIC_ASSERT(SNIC_EBS_SEGMENT_BLOCKS == 1 << SNIC_EBS__SHARE_BITS, "a segment's blocks");

static const uint32_t sum_blocks[SNIC_EBS__SHARE_BITS] = {
    /* I2 */
    0x82f89c77u, 0x54a86326u, 0x1dc403ccu, 0x5ae703abu, 0xc5013a36u,
    0xac2ac6ddu, 0x9b4615a9u, 0x688d1c61u, 0xf6af14e6u,
};

uint32_t snic_ebs_bind_crc(const struct snic_ebs_block *b)
{
    unsigned char bytes[SNIC_EBS__BIND_BYTES];

    ebs_put_bound(bytes, b);
    return snic_crc32c(0, bytes, sizeof(bytes));
}

uint32_t snic_ebs_agg_share(uint32_t crc, uint32_t after)
{
    SNIC_DASSERT(after < SNIC_EBS_SEGMENT_BLOCKS);
    for (unsigned k = 0; k < SNIC_EBS__SHARE_BITS; k++) {
        if ((after >> k & 1) != 0)
            crc = snic_crc32c_advance(crc, sum_blocks[k]);
    }
    return crc;
}
