/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/**
 * What both ends of a channel have in common: events, receiving, slots to send.
 *
 * Everything happens in the channel's poller, so that events come from the loop and in one
 * place: doorbells, control messages and DMA completions only leave marks.
 *
 * Invariants
 *   C1 `ending` is set once, with its reason; from then on nothing is received. The closed event
 *      follows in the next round and is the last.
 *   C2 An orderly end of the peer (`peer_closed`) becomes an ending when a look that began
 *      after it finds nothing and nothing is stashed: all that was sent has been delivered.
 *   C3 A message that the user did not take stays first in the stash; nothing is taken
 *      from the ring meanwhile.
 *   C4 The header is copied once, before it is checked; payload stays in place.
 */
#include "channel/channel_priv.h"

/* ---- Events and polling ---- */

struct snic_channel *channel_new(struct snic_channel_hub *h, enum channel_role role,
                                 const struct snic_channel_events *e, size_t extra,
                                 int (*poll)(struct snic_loop_poller *p, int sleeping))
{
    void *mem = NULL;
    SNIC_ASSERT(e->message != NULL && e->closed != NULL);
    if (snic_dma_alloc(h->dma, sizeof(struct snic_channel) + extra, &mem) != 0)
        return NULL;
    struct snic_channel *c = mem;
    c->hub = h;
    c->loop = h->dma->loop;
    c->events = *e;
    c->role = role;
    snic_loop_poller_init(&c->poller, poll);
    snic_loop_poller_add(c->loop, &c->poller);
    return c;
}

void channel_fail(struct snic_channel *c, int reason)
{
    if (c->ending)
        return;
    c->ending = 1; /* C1 */
    c->reason = reason;
    if (c->role == CHANNEL_HOST)
        /* Relaxed: senders need no more than to see it some time. */
        atomic_store_explicit(&c->host.gone, 1, memory_order_relaxed);
    channel_kick(c);
}

int channel_report_opened(struct snic_channel *c)
{
    if (!c->opened_due || c->ending)
        return 0;
    c->opened_due = 0;
    c->inside = 1;
    if (c->events.opened != NULL)
        c->events.opened(c->events.ctx, c);
    c->inside = 0;
    return 1;
}

void channel_finish(struct snic_channel *c)
{
    SNIC_ASSERT(c->ending && !c->closed);
    c->closed = 1;
    snic_loop_poller_remove(c->loop, &c->poller);
    c->events.closed(c->events.ctx, c, c->reason);
}

int channel_round_end(struct snic_channel *c, int sleeping, int did)
{
    if (c->writable_due && !c->ending && !sleeping) {
        c->writable_due = 0;
        did = 1;
        c->inside = 1;
        if (c->events.writable != NULL)
            c->events.writable(c->events.ctx, c);
        c->inside = 0;
    }
    if (c->ending) {
        channel_finish(c); /* c may be gone */
        return 1;
    }
    return did || c->writable_due;
}

void channel_bell(struct snic_channel *c)
{
    c->belled = 1;
    c->armed = 0;
}

int channel_head_moved(struct snic_channel *c, unsigned char *mem)
{
    /* Relaxed: a hint whether to ask the ring, which orders its own loads. */
    uint64_t head = atomic_load_explicit((_Atomic(uint64_t) *)(void *)(mem + SNIC_RING_OFF_HEAD),
                                         memory_order_relaxed);
    if (head == c->head_seen)
        return 0;
    c->head_seen = head;
    return 1;
}

/* ---- Receiving ---- */

static void channel_host_release(struct snic_channel *c, const struct snic_channel_token *t)
{
    struct snic_ring_rec rec = {.position = t->position, .next = t->next};
    if (snic_ring_claim_release(&c->host.collector, &rec) != 0)
        channel_fail(c, SNIC_EPROTO);
}

static void channel_dpu_release(struct snic_channel *c, const struct snic_channel_token *t)
{
    int r = snic_ring_finish(&c->dpu.consumer, t->position);
    SNIC_ASSERT(r == 0); /* a token of this channel, released once */
}

void snic_channel_release(struct snic_channel *c, const struct snic_channel_token *t)
{
    SNIC_ASSERT(c->tokens > 0);
    c->tokens--;
    c->stats.released++;
    if (c->role == CHANNEL_HOST)
        channel_host_release(c, t);
    else
        channel_dpu_release(c, t);
    if (!c->released) {
        c->released = 1;
        channel_kick(c);
    }
}

uint32_t channel_deliver(struct snic_channel *c)
{
    uint32_t n = 0;
    while (c->stash_at < c->stash_end && !c->stalled && !c->ending) {
        const struct snic_ring_rec *rec = &c->stash[c->stash_at];
        if (rec->data_bytes > SNIC_CHANNEL_HEADER_MAX) {
            channel_fail(c, SNIC_EPROTO);
            break;
        }
        memcpy(c->header.bytes, rec->data, rec->data_bytes); /* C4 */
        struct snic_channel_msg m = {.token = {.position = rec->position, .next = rec->next},
                                     .header = c->header.bytes,
                                     .payload = rec->body,
                                     .header_bytes = rec->data_bytes,
                                     .payload_bytes = rec->body_bytes,
                                     .type = rec->type,
                                     .region = SNIC_NO_REGION};
        if (c->role == CHANNEL_DPU)
            m.region = c->dpu.up_region;
        uint64_t bytes = (uint64_t)m.header_bytes + m.payload_bytes;
        c->tokens++;
        c->stash_at++; /* before the call: the user may release inside it */
        c->inside = 1;
        int r = c->events.message(c->events.ctx, c, &m);
        c->inside = 0;
        if (r == SNIC_EAGAIN) { /* C3 */
            c->tokens--;
            c->stash_at--;
            c->stalled = 1;
            break;
        }
        SNIC_ASSERT(r == 0 || r == 1);
        n++;
        c->stats.received++;
        c->stats.received_bytes += bytes;
        if (r == 1)
            snic_channel_release(c, &m.token);
    }
    return n;
}

void snic_channel_resume(struct snic_channel *c)
{
    if (!c->stalled)
        return;
    c->stalled = 0;
    channel_kick(c);
}

/* ---- Sending ---- */

void channel_slot_fill(struct snic_channel_slot *slot, const struct snic_ring_rec *rec, int region)
{
    *slot = (struct snic_channel_slot){.position = rec->position,
                                       .header = rec->data_bytes > 0 ? rec->data : NULL,
                                       .payload = rec->body,
                                       .header_bytes = rec->data_bytes,
                                       .payload_bytes = rec->body_bytes,
                                       .region = region};
}

uint32_t channel_iov_bytes(const struct snic_iov *payload, uint32_t n)
{
    uint64_t sum = 0;
    for (uint32_t i = 0; i < n && sum < UINT32_MAX; i++)
        sum += snic_min_u64(payload[i].size, UINT32_MAX);
    return (uint32_t)snic_min_u64(sum, UINT32_MAX);
}

void channel_slot_copy(const struct snic_channel_slot *slot, const void *header,
                       const struct snic_iov *payload, uint32_t n)
{
    unsigned char *to = slot->payload;
    if (header != NULL && slot->header_bytes > 0)
        memcpy(slot->header, header, slot->header_bytes);
    for (uint32_t i = 0; i < n; i++) {
        if (payload[i].size == 0)
            continue;
        memcpy(to, payload[i].base, payload[i].size);
        to += payload[i].size;
    }
}
