/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/**
 * The places of a link, and the control messages that wait to be sent at each: H1 and H2 in hub.c.
 */
#include "channel/channel_priv.h"

#define SNIC_CHANNEL__RETRY_NS 1000000

struct channel_slot *channel_slot_of(const struct snic_channel *c)
{
    return &c->hub->slots[c->slot];
}

void channel_kick(const struct snic_channel *c)
{
    if (c->hub->sim)
        snic_loop_wake(c->loop);
}

struct channel_slot *channel_slot_take(struct snic_channel_hub *h)
{
    for (uint32_t i = 0; i < h->opts.channels_max; i++) {
        struct channel_slot *s = &h->slots[i];
        if (s->used)
            continue;
        memset(s, 0, sizeof(*s));
        s->used = 1;
        s->generation = ++h->generation;
        return s;
    }
    return NULL;
}

void channel_slot_settle(struct snic_channel_hub *h, struct channel_slot *s)
{
    if (!s->used || s->channel != NULL)
        return;
    if (h->dead)
        s->sent_close = s->got_close = 1;
    if (!s->sent_close || !s->got_close)
        return;
    if (s->up_mem != NULL && !h->closing) { /* H1 */
        snic_dma_unregister(h->dma, s->up_key);
        snic_dma_unregister(h->dma, s->down_key);
        snic_dma_release(h->dma, s->up_mem);
        snic_dma_release(h->dma, s->down_mem);
    }
    s->up_mem = NULL;
    s->used = 0;
}

/** Send one control message. 1 sent or impossible; 0 later. */
int channel_ctl_send(struct snic_channel_hub *h, const struct channel_ctl *m)
{
    return h->dead || snic_dma_send(h->dma, m, sizeof(*m)) != 0;
}

static struct channel_ctl channel_ctl_make(const struct snic_channel_hub *h,
                                           const struct channel_slot *s, enum channel_ctl_type type,
                                           int reason)
{
    return (struct channel_ctl){.magic = SNIC_CHANNEL_MAGIC,
                                .version = SNIC_CHANNEL__VERSION,
                                .type = (uint16_t)type,
                                .slot = (uint32_t)(s - h->slots),
                                .generation = s->generation,
                                .reason = reason};
}

/** Send what waits at @p s; 0 when some of it still waits. */
static int channel_slot_flush(struct snic_channel_hub *h, struct channel_slot *s)
{
    if ((s->send & SNIC_CHANNEL__SEND_OPEN) != 0) {
        if (!channel_ctl_send(h, &s->open))
            return 0;
        s->send &= (uint8_t)~SNIC_CHANNEL__SEND_OPEN;
    }
    if ((s->send & SNIC_CHANNEL__SEND_ACCEPT) != 0) {
        struct channel_ctl m = channel_ctl_make(h, s, CHANNEL_CTL_ACCEPT, 0);
        m.payload_align = s->channel != NULL ? s->channel->peer_align : 0;
        if (!channel_ctl_send(h, &m))
            return 0;
        s->send &= (uint8_t)~SNIC_CHANNEL__SEND_ACCEPT;
    }
    if ((s->send & SNIC_CHANNEL__SEND_CLOSE) != 0) {
        struct channel_ctl m = channel_ctl_make(h, s, CHANNEL_CTL_CLOSE, s->close_reason);
        if (!channel_ctl_send(h, &m))
            return 0;
        s->send &= (uint8_t)~SNIC_CHANNEL__SEND_CLOSE;
        s->sent_close = 1;
    }
    return 1;
}

static void channel_hub_flush(struct snic_channel_hub *h)
{
    for (uint32_t i = 0; i < h->opts.channels_max && h->waiting > 0; i++) {
        struct channel_slot *s = &h->slots[i];
        if (s->send == 0)
            continue;
        if (!channel_slot_flush(h, s))
            break;
        h->waiting--;
        channel_slot_settle(h, s);
    }
    if (h->waiting > 0)
        snic_loop_arm(h->dma->loop, &h->retry,
                      snic_loop_now(h->dma->loop) + SNIC_CHANNEL__RETRY_NS);
}

void channel_hub_retry(struct snic_timer *t, uint64_t now_ns)
{
    (void)now_ns;
    channel_hub_flush(SNIC_CONTAINER(t, struct snic_channel_hub, retry));
}

void channel_slot_send(struct snic_channel_hub *h, struct channel_slot *s, uint8_t what)
{
    if (s->send == 0)
        h->waiting++;
    s->send |= what;
    channel_hub_flush(h);
}
