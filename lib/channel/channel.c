/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/**
 * Closing a channel, and facts about it. Its invariants are in common.c.
 */
#include "channel/channel_priv.h"

void channel_drain(struct snic_channel *c)
{
    const struct snic_ring_info *info = c->role == CHANNEL_HOST ? &c->down : &c->up;
    if (!c->peer_closed || !c->mapped || !c->opened)
        return;
    uint64_t most = info->capacity_bytes / info->granule_bytes;
    (void)channel_report_opened(c);
    /* A ring holds no more than so many records, whatever a lying peer goes on to write. */
    for (uint64_t n = 0; n <= most && !c->ending && !c->stalled; n++)
        (void)(c->role == CHANNEL_HOST ? channel_host_poll(c, 0) : channel_dpu_poll(c, 0));
}

void snic_channel_close(struct snic_channel *c)
{
    if (c == NULL)
        return;
    struct snic_channel_hub *h = c->hub;
    struct channel_slot *s = channel_slot_of(c);
    SNIC_ASSERT(!c->inside && c->tokens == 0 && c->slots == 0);
    for (; c->stash_at < c->stash_end; c->stash_at++) { /* what was never delivered */
        struct snic_channel_token t = {.position = c->stash[c->stash_at].position,
                                       .next = c->stash[c->stash_at].next};
        c->tokens++;
        snic_channel_release(c, &t);
    }
    s->close_reason = c->ending && !s->got_close ? c->reason : 0;
    if (c->role == CHANNEL_HOST) {
        channel_host_drop(c);
        return;
    }
    if (!c->ending && c->mapped)
        snic_channel_down_flush(c);
    if (!c->mapped && !h->dead && channel_remote_lingers(c)) {
        c->lingering = 1;
        snic_loop_poller_add(c->loop, &c->poller);
        channel_kick(c);
        return;
    }
    channel_dpu_drop(c);
}

/* ---- Facts ---- */

void snic_channel_get_info(const struct snic_channel *c, struct snic_channel_info *out)
{
    uint32_t most = c->up.record_max < c->down.record_max ? c->up.record_max : c->down.record_max;
    *out = (struct snic_channel_info){.kind = c->kind,
                                      .flags = c->flags,
                                      .id = c->id,
                                      .up_bytes = c->up.capacity_bytes,
                                      .down_bytes = c->down.capacity_bytes,
                                      .record_max = most,
                                      .payload_align = c->up.body_align,
                                      .mapped = c->mapped,
                                      .closed = c->closed,
                                      .peer_align = c->role == CHANNEL_HOST ? c->peer_align : 0};
}

void snic_channel_get_stats(const struct snic_channel *c, struct snic_channel_stats *out)
{
    *out = c->stats;
}
