/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* Messages of the host's half, one by one. */
#include "snicstore/hcachelink.h"

#include "hcachelink/host_priv.h"

void hcachelink_host_kick(const struct snic_hcachelink_host *h)
{
    if (h->sim)
        snic_loop_wake(h->dma->loop);
}

/** 1, or 0 no room. To the dead: as good as sent. */
int hcachelink_host_send(struct snic_hcachelink_host *h, const struct hcachelink_message *m)
{
    unsigned char msg[SNIC_HCACHELINK__BYTES];
    hcachelink_encode(msg, m);
    return snic_dma_send(h->dma, msg, sizeof(msg)) != 0;
}

void hcachelink_host_ahead(struct snic_hcachelink_host *h, uint64_t ino, uint64_t lpn)
{
    struct hcachelink_message m = {.type = HCACHELINK_AHEAD, .ino = ino, .a = lpn};
    if (h->state == HCACHELINK_OPEN)
        (void)hcachelink_host_send(h, &m);
}

void snic_hcachelink_hint(struct snic_hcachelink_host *h, uint64_t ino, uint64_t lpn,
                          uint32_t count)
{
    struct hcachelink_message m = {.type = HCACHELINK_MISSED, .ino = ino, .a = lpn, .b = count};
    if (count == 0)
        hcachelink_host_ahead(h, ino, lpn);
    else if (h->state == HCACHELINK_OPEN)
        (void)hcachelink_host_send(h, &m);
}
