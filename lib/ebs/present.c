/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * A disk's token on its way to servers. Servers may forget it, so it is sent when one answers
 * NO_TOKEN; a request answered so is sent again after token_wait_us, which doubles each time until
 * a block is done. A token that is missing, is not accepted, or has no effect, is to be replaced by
 * the owner, which is notified at most once a second.
 */
#include "ebs/queue_priv.h"

#define SNIC_EBS__TOKEN_WAIT_LONGEST_US 100000u
#define SNIC_EBS__TOKEN_REPORT_NS UINT64_C(1000000000)

int ebs_queue_token(struct ebs_queue *q, uint32_t disk,
                    const unsigned char token[SNIC_EBS_TOKEN_BYTES])
{
    if (disk >= q->o.disks_max || !q->disks[disk].used)
        return SNIC_ENOENT;
    struct ebs_disk *d = &q->disks[disk];
    if (d->token_serial != 0 && memcmp(d->token, token, sizeof(d->token)) == 0)
        return 0;
    memcpy(d->token, token, sizeof(d->token));
    d->token_serial += d->token_serial == UINT32_MAX ? 2 : 1;
    d->token_bad = 0;
    d->token_wait_us = SNIC_EBS__TOKEN_WAIT_US;
    return 1;
}

static void ebs_token_report(struct ebs_queue *q, struct ebs_disk *d)
{
    if (q->now_ns < d->token_report_ns)
        return;
    d->token_report_ns = q->now_ns + SNIC_EBS__TOKEN_REPORT_NS;
    d->token_pending = 1;
    ebs_disk_event(q, d);
}

void ebs_disk_token_refused(struct ebs_queue *q, struct ebs_disk *d)
{
    if (d->token_wait_us == SNIC_EBS__TOKEN_WAIT_LONGEST_US || !ebs_disk_has_token(d))
        ebs_token_report(q, d);
    d->token_wait_us =
        (uint32_t)snic_min_u64(2ull * d->token_wait_us, SNIC_EBS__TOKEN_WAIT_LONGEST_US);
}

int ebs_queue_token_answered(struct ebs_queue *q, uint64_t rpc_id, uint32_t status)
{
    uint32_t disk = (uint32_t)(rpc_id & 0xffffu);
    if (rpc_id == 0 || snic_ebs_id_epoch(rpc_id) != 0 || disk >= q->o.disks_max ||
        !q->disks[disk].used || ebs_disk_token_id(&q->disks[disk]) != rpc_id)
        return 0;
    struct ebs_disk *d = &q->disks[disk];
    if (status == SNIC_EBS_OK)
        return 1;
    d->token_bad |= status == SNIC_EBS_FORBIDDEN;
    ebs_token_report(q, d);
    return 1;
}
