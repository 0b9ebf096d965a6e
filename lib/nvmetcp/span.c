/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * Positions in lists of pieces.
 */
#include "nvmetcp/nvmetcp_priv.h"

void nvmetcp_span_skip(struct nvmetcp_span *s, size_t bytes, size_t left)
{
    s->skip += bytes;
    while (left > 0 && s->skip >= s->iov->size) { /* also past empty pieces */
        s->skip -= s->iov->size;
        s->iov++;
    }
}

size_t nvmetcp_span_piece(const struct nvmetcp_span *s, size_t most, unsigned char **base)
{
    *base = (unsigned char *)s->iov->base + s->skip;
    return snic_min_u64(most, s->iov->size - s->skip);
}

uint32_t nvmetcp_span_crc(struct nvmetcp_span s, size_t size)
{
    uint32_t crc = 0;
    while (size > 0) {
        unsigned char *base;
        nvmetcp_span_skip(&s, 0, size);
        size_t n = nvmetcp_span_piece(&s, size, &base);
        crc = snic_crc32c(crc, base, n);
        size -= n;
        nvmetcp_span_skip(&s, n, size);
    }
    return crc;
}

int nvmetcp_span_fits(const struct snic_iov *iov, uint32_t count, uint64_t size)
{
    uint64_t sum = 0;
    for (uint32_t i = 0; i < count; i++) {
        if (iov[i].size > size - sum)
            return 0;
        sum += iov[i].size;
    }
    return sum == size;
}
