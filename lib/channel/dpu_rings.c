/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/**
 * The DPU end's rings, mapped or remote: the geometry, which the host writes and which has to be as
 * offered, private memory, and the channel that is open when both are ready.
 */
#include "channel/channel_priv.h"

int channel_dpu_geometry(struct snic_channel *c, const void *header, int down,
                         struct snic_ring_info *out)
{
    const struct snic_channel_offer *o = &c->dpu.offer;
    uint32_t flag = down ? SNIC_CHANNEL_DOWN_ORDERED : SNIC_CHANNEL_UP_QUIESCENT;
    uint32_t discipline = (o->flags & flag) != 0 ? SNIC_RING_QUIESCENT : SNIC_RING_COMMIT;
    int r = snic_ring_geometry(header, c->dpu.offered[down], out);
    if (r != 0)
        return r == SNIC_EVERSION ? r : SNIC_EPROTO;
    if (out->kind != (down ? SNIC_RING_RESPONSE : SNIC_RING_REQUEST) ||
        out->discipline != discipline || out->record_max != o->record_max ||
        out->body_align != o->payload_align ||
        out->capacity_bytes != (down ? o->down_bytes : o->up_bytes) ||
        out->memory_bytes > c->dpu.offered[down])
        return SNIC_EPROTO;
    return 0;
}

int channel_dpu_aux(struct snic_channel *c)
{
    struct snic_dma *d = c->hub->dma;
    struct channel_dpu *u = &c->dpu;
    if (snic_dma_alloc(d, (size_t)c->up.aux_bytes, &u->up_aux) != 0 ||
        snic_dma_alloc(d, (size_t)c->down.aux_bytes, &u->down_aux) != 0)
        return SNIC_ENOMEM;
    if (c->mapped)
        return 0;
    if (snic_dma_alloc(d, (size_t)c->up.mirror_bytes, &u->up_mirror) != 0 ||
        snic_dma_alloc(d, (size_t)c->down.mirror_bytes, &u->down_mirror) != 0)
        return SNIC_ENOMEM;
    return 0;
}

void channel_dpu_opened(struct snic_channel *c)
{
    struct channel_dpu *u = &c->dpu;
    if ((c->flags & SNIC_CHANNEL_REGIONS) != 0) {
        unsigned char *up = c->mapped ? c->up_mem + c->up.data_offset : u->up_mirror;
        unsigned char *down = c->mapped ? c->down_mem + c->down.data_offset : u->down_mirror;
        u->up_region = snic_loop_region_add(c->loop, up, (size_t)c->up.capacity_bytes);
        u->down_region = snic_loop_region_add(c->loop, down, (size_t)c->down.capacity_bytes);
        u->up_region = u->up_region < 0 ? SNIC_NO_REGION : u->up_region;
        u->down_region = u->down_region < 0 ? SNIC_NO_REGION : u->down_region;
    }
    c->opened = c->opened_due = 1;
    channel_slot_send(c->hub, channel_slot_of(c), SNIC_CHANNEL__SEND_ACCEPT);
    channel_kick(c);
}

void channel_ring_bell(struct snic_channel *c)
{
    c->stats.doorbells++;
    (void)snic_dma_ring(c->hub->dma, c->slot); /* death is reported by its own event */
}
