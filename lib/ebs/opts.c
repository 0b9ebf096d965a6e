/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* Options by a table. */
#include "ebs/opts.h"

#define SNIC_EBS__CHUNK_LOG2 18 /* blocks of a GiB */

static uint64_t ebs_opts_get(const unsigned char *at, uint32_t bytes)
{
    uint64_t wide;
    uint32_t narrow;
    if (bytes == sizeof(wide)) {
        memcpy(&wide, at, sizeof(wide));
        return wide;
    }
    memcpy(&narrow, at, sizeof(narrow));
    return narrow;
}

static void ebs_opts_set(unsigned char *at, uint32_t bytes, uint64_t value)
{
    uint32_t narrow = (uint32_t)value;
    if (bytes == sizeof(value))
        memcpy(at, &value, sizeof(value));
    else
        memcpy(at, &narrow, sizeof(narrow));
}

const char *ebs_opts_fill(void *opts, const struct ebs_opt *rows, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        unsigned char *at = (unsigned char *)opts + rows[i].offset;
        uint64_t value = ebs_opts_get(at, rows[i].bytes);
        SNIC_ASSERT(rows[i].bytes == 4 || rows[i].bytes == 8);
        if (value == 0 && rows[i].preset != 0) {
            value = rows[i].preset;
            ebs_opts_set(at, rows[i].bytes, value);
        }
        if (value < rows[i].min || value > rows[i].max)
            return rows[i].wrong;
    }
    return NULL;
}

void ebs_opts_chunks(uint32_t *chunks_max, uint64_t *disk_blocks_max)
{
    const uint64_t round = (1u << SNIC_EBS__CHUNK_LOG2) - 1;
    if (*disk_blocks_max == 0)
        *disk_blocks_max = (uint64_t)(*chunks_max != 0 ? *chunks_max : 8) << SNIC_EBS__CHUNK_LOG2;
    if (*chunks_max == 0)
        *chunks_max =
            (uint32_t)snic_min_u64((*disk_blocks_max + round) >> SNIC_EBS__CHUNK_LOG2, 1u << 20);
}
