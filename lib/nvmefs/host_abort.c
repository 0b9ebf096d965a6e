/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* The host's half: aborts, sleep, reset. One command id is kept for Abort, so that a queue full of
   requests that wait for locks can still be stopped. */
#include "nvmefs/nvmefs_priv.h"

int snic_nvmefs_host_abort(struct snic_nvmefs_host *h, struct snic_nvmefs_req *req)
{
    if (req->cid + 1U >= h->opts.depth)
        return SNIC_ENOENT;
    struct nvmefs_slot *slot = &h->slots[req->cid];
    if (slot->state != NVMEFS_SLOT_SENT || slot->req != req)
        return SNIC_ENOENT;
    h->wanted += !slot->wanted;
    slot->wanted = 1;
    nvmefs_host_abort_next(h);
    return 0;
}

int snic_nvmefs_host_sleep(struct snic_nvmefs_host *h)
{
    if ((h->outstanding == 0 && !h->aborting) || h->armed || h->error != 0 ||
        !snic_queue_empty(&h->lost))
        return 0;
    h->armed = 1;
    h->stats.bells++;
    return 1;
}

void snic_nvmefs_host_belled(struct snic_nvmefs_host *h)
{
    h->armed = 0;
}

void snic_nvmefs_host_reset(struct snic_nvmefs_host *h)
{
    for (uint32_t i = 0; i + 1 < h->opts.depth; i++) {
        struct snic_nvmefs_req *req = h->slots[i].req;
        if (h->slots[i].state != NVMEFS_SLOT_SENT)
            continue;
        SNIC_ASSERT(req != NULL);
        req->status = SNIC_NVMEFS_STATUS_DELETED;
        req->op.result = SNIC_EUNKNOWN;
        req->data_size = 0;
        snic_queue_push(&h->lost, &req->op.node);
    }
    nvmefs_host_format(h);
}
