/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * Options that grow with the library.
 *
 * I1  The destination is complete whatever version the caller was built with:
 *     what an older caller does not know keeps its default.
 * I2  Nothing that a newer caller asked for is silently ignored.
 */
#include "snicstore/base.h"

/* Not inlined: where the compiler sees how large *src is, it warns of the loop that looks behind
 * it. */
__attribute__((noinline)) int snic_opts_copy(void *dst, uint32_t dst_size, const void *src)
{
    uint32_t src_size;

    SNIC_ASSERT(dst_size >= sizeof(src_size) && dst_size <= SNIC_OPTS_BYTES_MAX);
    memcpy(&src_size, src, sizeof(src_size));
    if (src_size < sizeof(src_size) || src_size > SNIC_OPTS_BYTES_MAX)
        return SNIC_EINVAL;
    const unsigned char *from = (const unsigned char *)src;
    for (uint32_t i = dst_size; i < src_size; i++) {
        if (from[i] != 0)
            return SNIC_EINVAL; /* I2 */
    }
    memcpy(dst, src, src_size < dst_size ? src_size : dst_size); /* I1 */
    memcpy(dst, &dst_size, sizeof(dst_size));
    return 0;
}
