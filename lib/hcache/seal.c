/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* The default sealing: the sum covers the place, so that a page found in another's is noticed. */
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
    sizeof(struct snic_hcache_seal), 0, "crc32c", seal_crc_sum, NULL, NULL};

const struct snic_hcache_seal *snic_hcache_seal_crc(void)
{
    return &seal_crc;
}
