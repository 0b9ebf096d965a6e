/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/**
 * The DPU end of a channel: accepting, and both rings on mapped memory.
 *
 * The host's memory is hostile: geometry is copied from it once and compared with the offer,
 * records and cursors are checked by the ring, and both go by private copies afterwards.
 *
 * Wake-ups
 *   up, DPU sleeps     the poller arms the consumer before the loop sleeps and looks again.
 *   up, full           after releases, and before sleeping, the poller asks the ring whether a
 *                      sender waits, and rings.
 *   down, host sleeps  after a delivery the poller asks the ring whether the host sleeps.
 *   down, full         reserve arms the ring and tries once more; the bell becomes `writable`.
 *
 * Delivery: with batch_bytes 0 once per loop iteration; else when so much is finished, or
 * when a whole iteration brought no commit, or before the loop sleeps. A response must not
 * wait for a batch that never fills.
 */
#include "channel/channel_priv.h"

/* ---- Accept ---- */

static int channel_dpu_map(struct snic_channel *c)
{
    struct snic_dma *d = c->hub->dma;
    struct channel_dpu *u = &c->dpu;
    void *up = NULL;
    void *down = NULL;
    int r = snic_dma_map(d, u->up_key, 0, (size_t)u->offered[0], &up);
    if (r != 0)
        return r;
    c->up_mem = up;
    r = snic_dma_map(d, u->down_key, 0, (size_t)u->offered[1], &down);
    if (r != 0)
        return r;
    c->down_mem = down;
    r = channel_dpu_geometry(c, up, 0, &c->up);
    if (r == 0)
        r = channel_dpu_geometry(c, down, 1, &c->down);
    if (r == 0)
        r = channel_dpu_aux(c);
    if (r == 0)
        r = snic_ring_consumer_attach(&u->consumer, up, (size_t)c->up.memory_bytes, u->up_aux,
                                      (size_t)c->up.aux_bytes);
    if (r == 0)
        r = snic_ring_responder_attach(&u->responder, down, (size_t)c->down.memory_bytes,
                                       u->down_aux, (size_t)c->down.aux_bytes);
    return r == SNIC_ECORRUPT ? SNIC_EPROTO : r;
}

static int channel_accept_opts(struct snic_channel_accept_opts *o,
                               const struct snic_channel_accept_opts *in)
{
    *o = (struct snic_channel_accept_opts){.opts_size = sizeof(*o)};
    int r = in != NULL ? snic_opts_copy(o, sizeof(*o), in) : 0;
    if (r != 0)
        return r;
    o->budget = o->budget == 0 ? 256 : o->budget;
    if ((o->flags & ~(SNIC_CHANNEL_UNMAPPED | SNIC_CHANNEL_REGIONS)) != 0 || o->reserved != 0)
        return SNIC_EINVAL;
    return o->payload_align != 0 && !snic_is_pow2(o->payload_align) ? SNIC_EINVAL : 0;
}

/** Is the offer one that could hold at all? */
static int channel_offer_check(const struct snic_channel_hub *h, const struct channel_ctl *m)
{
    uint64_t most = h->opts.ring_bytes_max;
    if ((m->flags & ~(SNIC_CHANNEL_UP_QUIESCENT | SNIC_CHANNEL_DOWN_ORDERED)) != 0)
        return SNIC_EPROTO;
    if (m->up_bytes > most || m->down_bytes > most || m->up_size / 2 > most ||
        m->down_size / 2 > most || m->up_size < SNIC_CHANNEL__FETCH ||
        m->down_size < SNIC_CHANNEL__FETCH)
        return SNIC_EPROTO;
    return 0;
}

static int channel_dpu_round(struct snic_loop_poller *p, int sleeping)
{
    struct snic_channel *c = SNIC_CONTAINER(p, struct snic_channel, poller);
    if (c->lingering) {
        if (sleeping || channel_remote_poll(c, 0) > 0)
            return !sleeping;
        if (!channel_remote_lingers(c))
            channel_dpu_drop(c);
        return 0;
    }
    int did = channel_report_opened(c);
    if (!c->ending)
        did |= channel_dpu_poll(c, sleeping);
    return channel_round_end(c, sleeping, did);
}

int snic_channel_accept(struct snic_channel **out, struct snic_channel_hub *h,
                        const struct snic_channel_offer *offer,
                        const struct snic_channel_accept_opts *opts,
                        const struct snic_channel_events *e)
{
    struct snic_channel_accept_opts o;
    const struct channel_ctl *m = h->offered;
    SNIC_ASSERT(m != NULL && h->accepted == NULL); /* inside the accept event, once */
    int r = channel_accept_opts(&o, opts);
    if (r == 0)
        r = channel_offer_check(h, m);
    if (r != 0)
        return r;
    struct snic_channel *c = channel_new(h, CHANNEL_DPU, e, 0, channel_dpu_round);
    if (c == NULL)
        return SNIC_ENOMEM;
    struct channel_dpu *u = &c->dpu;
    u->offer = *offer;
    u->offered[0] = m->up_size;
    u->offered[1] = m->down_size;
    u->up_key = m->up_key;
    u->down_key = m->down_key;
    u->up_region = u->down_region = SNIC_NO_REGION;
    u->batch_bytes = o.batch_bytes;
    u->budget = o.budget;
    c->peer_align = o.payload_align;
    u->up.channel = u->down.channel = c;
    c->slot = m->slot;
    c->kind = m->kind;
    c->id = m->id;
    c->flags = m->flags | o.flags;
    c->mapped = (h->dma->caps & SNIC_DMA_CAP_MAPPED) != 0 && (o.flags & SNIC_CHANNEL_UNMAPPED) == 0;
    channel_slot_of(c)->channel = c;
    r = c->mapped ? channel_dpu_map(c) : channel_remote_begin(c);
    if (r != 0) {
        channel_dpu_drop(c);
        return r;
    }
    h->accepted = c;
    if (c->mapped)
        channel_dpu_opened(c);
    *out = c;
    return 0;
}

void channel_dpu_drop(struct snic_channel *c)
{
    struct snic_channel_hub *h = c->hub;
    struct channel_slot *s = channel_slot_of(c);
    struct channel_dpu *u = &c->dpu;
    int offered = h->offered != NULL && h->accepted == NULL; /* accept itself failed */
    SNIC_ASSERT(!u->up.busy && !u->down.busy);
    snic_loop_poller_remove(c->loop, &c->poller);
    snic_loop_region_remove(c->loop, u->up_region);
    snic_loop_region_remove(c->loop, u->down_region);
    if (c->up_mem != NULL)
        snic_dma_unmap(h->dma, c->up_mem);
    if (c->down_mem != NULL)
        snic_dma_unmap(h->dma, c->down_mem);
    void *mine[4] = {u->up_aux, u->down_aux, u->up_mirror, u->down_mirror};
    for (int i = 0; i < 4; i++)
        if (mine[i] != NULL)
            snic_dma_release(h->dma, mine[i]);
    s->channel = NULL;
    snic_dma_release(h->dma, c);
    if (offered)
        return; /* the hub refuses */
    if (h->dead)
        channel_slot_settle(h, s);
    else
        channel_slot_send(h, s, SNIC_CHANNEL__SEND_CLOSE);
}

/* ---- Receiving ---- */

/** Take records into the empty stash. 1, 0; fails the channel on nonsense. */
static int channel_dpu_peek(struct snic_channel *c)
{
    c->stats.looks++;
    int n = snic_ring_peek(&c->dpu.consumer, c->stash, SNIC_CHANNEL__STASH);
    if (n > 0) {
        c->stash_at = 0;
        c->stash_end = (uint32_t)n;
        return 1;
    }
    c->stats.looks_empty++;
    if (n < 0)
        channel_fail(c, SNIC_EPROTO);
    return 0;
}

static void channel_dpu_space(struct snic_channel *c)
{
    c->released = 0;
    /* Only for newly freed space: else two full sides would wake each other for ever. */
    if (channel_head_moved(c, c->up_mem) && snic_ring_space_notify(&c->dpu.consumer))
        channel_ring_bell(c);
}

static uint32_t channel_dpu_receive(struct snic_channel *c)
{
    struct snic_ring_op op;
    uint32_t n = channel_deliver(c);
    for (int more = 1; more && n < c->dpu.budget && c->stash_at == c->stash_end && !c->ending;) {
        more = channel_dpu_peek(c);
        if (more && c->armed) { /* awake: no bell for what follows */
            int r = snic_ring_sleep_disarm(&c->dpu.consumer, &op);
            SNIC_ASSERT(r == 0); /* mapped: nothing to carry out */
            c->armed = 0;
        }
        n += channel_deliver(c);
    }
    return n;
}

/* ---- Sending ---- */

static void channel_dpu_flush(struct snic_channel *c)
{
    struct snic_ring_op none[4];
    int r = snic_ring_resp_flush(&c->dpu.responder, none, 4);
    c->dpu.unflushed = 0;
    c->stats.flushes++;
    if (r < 0)
        channel_fail(c, SNIC_EPROTO);
    else if (snic_ring_resp_notify(&c->dpu.responder))
        channel_ring_bell(c);
}

int snic_channel_down_reserve(struct snic_channel *c, uint32_t type, uint32_t header_bytes,
                              uint32_t payload_bytes, struct snic_channel_slot *slot)
{
    struct channel_dpu *u = &c->dpu;
    struct snic_ring_rec rec;
    struct snic_ring_op op;
    SNIC_ASSERT(c->role == CHANNEL_DPU);
    if (c->ending || c->peer_closed)
        return SNIC_EPIPE;
    if (!c->opened)
        return SNIC_EAGAIN;
    if (header_bytes > SNIC_CHANNEL_HEADER_MAX)
        return SNIC_EMSGSIZE;
    int r = snic_ring_resp_reserve(&u->responder, type, header_bytes, payload_bytes, &rec);
    if (r == SNIC_EAGAIN && u->blocked == 0) {
        u->blocked = 1;
        if (c->mapped) {
            r = snic_ring_resp_wait_arm(&u->responder, &op);
            SNIC_ASSERT(r == 0); /* mapped: nothing to carry out */
            u->blocked = 2;
            r = snic_ring_resp_reserve(&u->responder, type, header_bytes, payload_bytes, &rec);
        } else {
            channel_kick(c);
        }
    }
    if (r == SNIC_EAGAIN)
        c->stats.full++;
    if (r == SNIC_ECORRUPT) {
        channel_fail(c, SNIC_EPROTO);
        return SNIC_EPIPE;
    }
    if (r != 0)
        return r;
    c->slots++;
    channel_slot_fill(slot, &rec, u->down_region);
    return 0;
}

void snic_channel_down_commit(struct snic_channel *c, const struct snic_channel_slot *slot,
                              uint32_t payload_bytes)
{
    struct channel_dpu *u = &c->dpu;
    SNIC_ASSERT(c->slots > 0 && payload_bytes <= slot->payload_bytes);
    c->slots--;
    if (c->ending)
        return;
    int r = snic_ring_resp_finish(&u->responder, slot->position, payload_bytes);
    if (r == SNIC_ECORRUPT) {
        channel_fail(c, SNIC_EPROTO);
        return;
    }
    SNIC_ASSERT(r == 0); /* a slot of this channel, committed once */
    c->stats.sent++;
    c->stats.sent_bytes += (uint64_t)slot->header_bytes + payload_bytes;
    channel_kick(c);
    u->unflushed += (uint64_t)slot->header_bytes + payload_bytes + 16;
    u->quiet = 0;
}

void snic_channel_down_cancel(struct snic_channel *c, const struct snic_channel_slot *slot)
{
    SNIC_ASSERT(c->slots > 0);
    c->slots--;
    if (c->ending)
        return;
    int r = snic_ring_resp_cancel(&c->dpu.responder, slot->position);
    if (r == SNIC_ECORRUPT)
        channel_fail(c, SNIC_EPROTO);
    else
        SNIC_ASSERT(r == 0);
    c->dpu.unflushed += 16; /* what waits behind it can go */
    channel_kick(c);
}

int snic_channel_down_push(struct snic_channel *c, uint32_t type, const void *header,
                           uint32_t header_bytes, const struct snic_iov *payload, uint32_t n)
{
    struct snic_channel_slot slot;
    uint32_t bytes = channel_iov_bytes(payload, n);
    int r = snic_channel_down_reserve(c, type, header_bytes, bytes, &slot);
    if (r != 0)
        return r;
    channel_slot_copy(&slot, header, payload, n);
    c->stats.copied_bytes += bytes;
    snic_channel_down_commit(c, &slot, bytes);
    return 0;
}

void snic_channel_down_flush(struct snic_channel *c)
{
    if (c->ending || !c->opened)
        return;
    if (c->mapped) {
        channel_dpu_flush(c);
    } else {
        c->dpu.want_flush = 1;
        channel_kick(c);
    }
}

/* ---- The poller ---- */

/** The loop is about to sleep. > 0: there is work after all. */
static int channel_dpu_sleep(struct snic_channel *c)
{
    struct snic_ring_op op;
    if (channel_flush_due(c, 1))
        channel_dpu_flush(c);
    channel_dpu_space(c);
    if (c->stash_at < c->stash_end || c->stalled)
        return !c->stalled;
    if (c->armed)
        return 0; /* armed, looked, and no bell since */
    int r = snic_ring_sleep_arm(&c->dpu.consumer, &op);
    SNIC_ASSERT(r == 0); /* mapped: nothing to carry out */
    c->armed = 1;
    c->stats.sleeps++;
    return channel_dpu_peek(c) || c->ending;
}

int channel_dpu_poll(struct snic_channel *c, int sleeping)
{
    struct channel_dpu *u = &c->dpu;
    if (!c->mapped)
        return channel_remote_poll(c, sleeping);
    if (sleeping)
        return channel_dpu_sleep(c);
    if (c->belled) {
        c->belled = 0;
        if (u->blocked == 2) {
            u->blocked = 0;
            c->writable_due = 1;
        }
    }
    uint32_t n = channel_dpu_receive(c);
    channel_dpu_space(c);
    if (channel_flush_due(c, 0) && !c->ending)
        channel_dpu_flush(c);
    u->quiet = 1;
    if (n == 0 && c->peer_closed && c->stash_at == c->stash_end)
        channel_fail(c, 0); /* C2: this look began after the peer's CLOSE */
    return n > 0;
}
