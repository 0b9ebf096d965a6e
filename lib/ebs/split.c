/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* An I/O, cut where a segment ends and after 64 blocks. */
#include "ebs/ebs_priv.h"

int snic_ebs_split_init(struct snic_ebs_split *s, uint64_t lba, uint64_t blocks)
{
    if (lba > SNIC_EBS_LBA_END || blocks > SNIC_EBS_LBA_END - lba)
        return SNIC_ERANGE;
    s->lba = lba;
    s->blocks = blocks;
    return 0;
}

int snic_ebs_split_next(struct snic_ebs_split *s, struct snic_ebs_piece *p)
{
    if (s->blocks == 0)
        return 0;
    p->lba = s->lba;
    p->segment = s->lba >> SNIC_EBS_SEGMENT_LOG2;
    p->blk_off = (uint32_t)(s->lba & (SNIC_EBS_SEGMENT_BLOCKS - 1));
    p->blocks = (uint32_t)snic_min_u64(SNIC_EBS_SEGMENT_BLOCKS - p->blk_off,
                                       snic_min_u64(s->blocks, SNIC_EBS_RPC_BLOCKS));
    s->lba += p->blocks;
    s->blocks -= p->blocks;
    return 1;
}
