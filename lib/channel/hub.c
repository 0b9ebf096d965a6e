/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/**
 * The hub: one dma link shared among channels.
 *
 * Slot n uses doorbell n both ways; the host chooses slots. A slot goes
 *
 *   free ── OPEN sent / received ──▶ used ── both CLOSEs, user closed ──▶ free
 *
 * Invariants
 *   H1 Each end sends CLOSE once per generation; a message of another generation is a late
 *      one and ignored. Ring memory is freed by the host only when the DPU has sent CLOSE
 *      (it has unmapped it then) or is certified dead.
 *   H2 What waits to be sent is a mark on its slot; OPEN goes before CLOSE, ACCEPT before
 *      CLOSE. Slots are independent of each other, so their order does not matter.
 *   H3 A hostile host costs the DPU at most one channel per slot and one refusal per message.
 */
#include "channel/channel_priv.h"

/* ---- Messages from the peer ---- */

/** Answer an OPEN with CLOSE; the slot is not used for it. */
static void channel_refuse(struct snic_channel_hub *h, const struct channel_ctl *m, int reason)
{
    struct channel_ctl no = {.magic = SNIC_CHANNEL_MAGIC,
                             .version = SNIC_CHANNEL__VERSION,
                             .type = CHANNEL_CTL_CLOSE,
                             .slot = m->slot,
                             .generation = m->generation,
                             .reason = reason};
    (void)channel_ctl_send(h, &no); /* H3: one that finds no room is the host's own doing */
}

static void channel_on_open(struct snic_channel_hub *h, const struct channel_ctl *m)
{
    if (h->opts.accept == NULL) {
        channel_refuse(h, m, SNIC_ECONNREFUSED);
        return;
    }
    if (m->slot >= h->opts.channels_max || h->slots[m->slot].used) {
        channel_refuse(h, m, m->slot >= h->opts.channels_max ? SNIC_EAGAIN : SNIC_EPROTO);
        return;
    }
    struct channel_slot *s = &h->slots[m->slot];
    struct snic_channel_offer offer = {.kind = m->kind,
                                       .flags = m->flags,
                                       .id = m->id,
                                       .up_bytes = m->up_bytes,
                                       .down_bytes = m->down_bytes,
                                       .record_max = m->record_max,
                                       .payload_align = m->payload_align};
    memset(s, 0, sizeof(*s));
    s->used = 1;
    s->generation = m->generation;
    h->offered = m;
    h->accepted = NULL;
    int r = h->opts.accept(h->opts.ctx, h, &offer);
    h->offered = NULL;
    if (h->accepted != NULL && r == 0)
        return;
    SNIC_ASSERT(h->accepted == NULL); /* accepted and refused at once */
    s->used = 0;
    channel_refuse(h, m, r < 0 ? r : SNIC_ECONNREFUSED);
}

static void channel_on_close(struct snic_channel_hub *h, struct channel_slot *s, int reason)
{
    s->got_close = 1;
    struct snic_channel *c = s->channel;
    if (c == NULL || c->lingering) {
        channel_slot_settle(h, s);
        return;
    }
    if (reason != 0) {
        channel_fail(c, reason < 0 ? reason : SNIC_EPROTO);
    } else {
        c->peer_closed = 1;
        c->stalled = 0; /* a user that waits for room to answer need not answer any more */
        if (c->role == CHANNEL_HOST)
            atomic_store_explicit(&c->host.gone, 1, memory_order_relaxed);
        if (c->role == CHANNEL_DPU) {
            c->dpu.drain = 1;
            c->dpu.asleep = 0;
        }
    }
}

static void channel_hub_recv(void *ctx, struct snic_dma *d, const void *msg, uint32_t size)
{
    struct snic_channel_hub *h = ctx;
    struct channel_ctl m;
    (void)d;
    if (size < 4 || snic_get_le32(msg) != SNIC_CHANNEL_MAGIC) {
        if (h->opts.recv != NULL)
            h->opts.recv(h->opts.ctx, h, msg, size);
        return;
    }
    memset(&m, 0, sizeof(m));
    memcpy(&m, msg, snic_min_u64(size, sizeof(m)));
    if (size != sizeof(m)) { /* another version: what every one begins with is enough to refuse */
        if (size >= SNIC_CHANNEL__CTL_HEAD && m.type == CHANNEL_CTL_OPEN)
            channel_refuse(h, &m, SNIC_EVERSION);
        return;
    }
    if (m.type == CHANNEL_CTL_OPEN) {
        if (m.version != SNIC_CHANNEL__VERSION)
            channel_refuse(h, &m, SNIC_EVERSION);
        else
            channel_on_open(h, &m);
        return;
    }
    if (m.slot >= h->opts.channels_max || !h->slots[m.slot].used ||
        h->slots[m.slot].generation != m.generation)
        return; /* H1 */
    struct channel_slot *s = &h->slots[m.slot];
    if (m.type == CHANNEL_CTL_CLOSE && !s->got_close)
        channel_on_close(h, s, m.reason);
    else if (m.type == CHANNEL_CTL_ACCEPT && s->channel != NULL &&
             s->channel->role == CHANNEL_HOST && !s->channel->opened) {
        s->channel->peer_align = m.payload_align;
        s->channel->opened = s->channel->opened_due = 1;
    }
}

static void channel_hub_doorbell(void *ctx, struct snic_dma *d, uint32_t id)
{
    struct snic_channel_hub *h = ctx;
    (void)d;
    if (id >= h->opts.channels_max) {
        if (h->opts.doorbell != NULL)
            h->opts.doorbell(h->opts.ctx, h, id);
        return;
    }
    if (h->slots[id].used && h->slots[id].channel != NULL)
        channel_bell(h->slots[id].channel);
}

static void channel_hub_death(void *ctx, struct snic_dma *d, enum snic_dma_death cause)
{
    struct snic_channel_hub *h = ctx;
    (void)d;
    h->dead = 1;
    snic_loop_cancel(h->dma->loop, &h->retry);
    for (uint32_t i = 0; i < h->opts.channels_max; i++) {
        struct channel_slot *s = &h->slots[i];
        if (s->send != 0) {
            s->send = 0;
            h->waiting--;
        }
        if (!s->used)
            continue;
        struct snic_channel *c = s->channel;
        if (c != NULL && c->lingering) {
            channel_dpu_drop(c);
        } else if (c != NULL && !c->closed) {
            channel_drain(c); /* ends it with 0 if nothing was lost */
            if (s->channel == c && !c->closed) {
                channel_fail(c, SNIC_EPEERDEAD);
                channel_finish(c);
            }
        }
        channel_slot_settle(h, s);
    }
    if (h->opts.death != NULL)
        h->opts.death(h->opts.ctx, h, cause);
}

/* ---- Public ---- */

static int channel_hub_opts(struct snic_channel_hub_opts *o, const struct snic_channel_hub_opts *in)
{
    *o = (struct snic_channel_hub_opts){.opts_size = sizeof(*o)};
    int r = snic_opts_copy(o, sizeof(*o), in);
    if (r != 0)
        return r;
    o->channels_max = o->channels_max == 0 ? 8 : o->channels_max;
    o->ring_bytes_max = o->ring_bytes_max == 0 ? UINT64_C(1) << 30 : o->ring_bytes_max;
    return o->channels_max > SNIC_CHANNEL_MAX ? SNIC_EINVAL : 0;
}

const char *snic_channel_hub_opts_wrong(const struct snic_channel_hub_opts *in)
{
    struct snic_channel_hub_opts o = {.opts_size = sizeof(o)};
    if (snic_opts_copy(&o, sizeof(o), in) != 0)
        return "opts_size: not the struct's, or an unknown option is set";
    return channel_hub_opts(&o, in) != 0 ? "channels_max: not 1..56, or 0 for 8" : NULL;
}

size_t snic_channel_hub_memsize(const struct snic_channel_hub_opts *o)
{
    struct snic_channel_hub_opts copy;
    if (channel_hub_opts(&copy, o) != 0)
        return 0;
    return sizeof(struct snic_channel_hub) + copy.channels_max * sizeof(struct channel_slot);
}

int snic_channel_hub_init(struct snic_channel_hub **out, void *mem, size_t mem_size,
                          struct snic_dma *d, const struct snic_channel_hub_opts *o)
{
    struct snic_channel_hub_opts copy;
    int r = channel_hub_opts(&copy, o);
    if (r != 0)
        return r;
    if ((uintptr_t)mem % 16 != 0)
        return SNIC_EINVAL;
    size_t size = sizeof(struct snic_channel_hub) + copy.channels_max * sizeof(struct channel_slot);
    if (mem_size < size)
        return SNIC_ENOSPC;
    struct snic_channel_hub *h = mem;
    memset(h, 0, size);
    h->dma = d;
    h->opts = copy;
    h->sim = snic_loop_world(d->loop) != NULL;
    snic_timer_init(&h->retry, channel_hub_retry);
    d->events = (struct snic_dma_events){.recv = channel_hub_recv,
                                         .doorbell = channel_hub_doorbell,
                                         .death = channel_hub_death,
                                         .ctx = h};
    *out = h;
    return 0;
}

void *snic_channel_hub_fini(struct snic_channel_hub *h)
{
    h->closing = 1;
    snic_loop_cancel(h->dma->loop, &h->retry);
    for (uint32_t i = 0; i < h->opts.channels_max; i++) {
        struct snic_channel *c = h->slots[i].used ? h->slots[i].channel : NULL;
        if (c == NULL)
            continue;
        SNIC_ASSERT(c->lingering); /* the user has closed every channel */
        snic_loop_poller_remove(c->loop, &c->poller);
    }
    snic_dma_close(h->dma);
    h->dma = NULL;
    return h;
}

struct snic_dma *snic_channel_hub_dma(const struct snic_channel_hub *h)
{
    return h->dma;
}

void *snic_channel_hub_ctx(const struct snic_channel_hub *h)
{
    return h->opts.ctx;
}

uint32_t snic_channel_hub_count(const struct snic_channel_hub *h)
{
    uint32_t n = 0;
    for (uint32_t i = 0; i < h->opts.channels_max; i++)
        n += h->slots[i].used;
    return n;
}
