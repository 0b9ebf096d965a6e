/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/**
 * The host end of a channel: it owns the rings; many threads send, its loop receives.
 *
 * Wake-ups
 *   up, DPU sleeps     a sender that commits finds the consumer armed and rings.
 *   up, full           a sender marks `blocked`, arms the ring and tries once more; the DPU
 *                      rings when it frees space, and the bell turns the mark into `writable`.
 *   down, host sleeps  the poller arms the collector before the loop sleeps and looks again.
 *   down, full         after releases the poller asks the ring whether the DPU waits, and rings.
 *
 * Invariants
 *   T1 `blocked` is set before the ring is armed: a bell that comes in between finds it.
 *   T2 Senders touch the rings, `gone`, `blocked`, `broken` and the dma doorbell, nothing else.
 */
#include "channel/channel_priv.h"

/* ---- Open ---- */

static int channel_host_fill(struct snic_channel_opts *o, const struct snic_channel_opts *in)
{
    *o = (struct snic_channel_opts){.opts_size = sizeof(*o)};
    int r = snic_opts_copy(o, sizeof(*o), in);
    if (r != 0)
        return r;
    o->up_bytes = o->up_bytes == 0 ? UINT64_C(1) << 20 : o->up_bytes;
    o->down_bytes = o->down_bytes == 0 ? UINT64_C(1) << 20 : o->down_bytes;
    o->payload_align = o->payload_align == 0 ? 8 : o->payload_align;
    o->granule_bytes = o->granule_bytes == 0 ? 64 : o->granule_bytes;
    o->senders_max = o->senders_max == 0 ? 16 : o->senders_max;
    return 0;
}

static struct snic_ring_opts channel_host_ring(const struct snic_channel_opts *o, int down)
{
    uint32_t flag = down ? SNIC_CHANNEL_DOWN_ORDERED : SNIC_CHANNEL_UP_QUIESCENT;
    return (struct snic_ring_opts){.opts_size = sizeof(struct snic_ring_opts),
                                   .kind = down ? SNIC_RING_RESPONSE : SNIC_RING_REQUEST,
                                   .discipline = (o->flags & flag) != 0 ? SNIC_RING_QUIESCENT
                                                                        : SNIC_RING_COMMIT,
                                   .granule_bytes = o->granule_bytes,
                                   .body_align = o->payload_align,
                                   .capacity_bytes = down ? o->down_bytes : o->up_bytes,
                                   .progress_max = down ? o->down_progress : o->up_progress,
                                   .record_max = o->record_max,
                                   .epoch = o->id};
}

static int channel_ring_size_wrong(uint64_t bytes)
{
    return !snic_is_pow2(bytes) || bytes < 4096 || bytes > UINT64_C(1) << 31;
}

/* What is wrong with options whose defaults are filled in, or NULL. */
static const char *channel_host_wrong(const struct snic_channel_opts *o)
{
    if (channel_ring_size_wrong(o->up_bytes))
        return "up_bytes: not a power of two 4 KiB..2 GiB";
    if (channel_ring_size_wrong(o->down_bytes))
        return "down_bytes: not a power of two 4 KiB..2 GiB";
    if (o->up_progress > o->up_bytes)
        return "up_progress: above up_bytes";
    if (o->down_progress > o->down_bytes)
        return "down_progress: above down_bytes";
    if (!snic_is_pow2(o->payload_align) || o->payload_align < 8 || o->payload_align > 4096)
        return "payload_align: not a power of two 8..4096";
    if (!snic_is_pow2(o->granule_bytes) || o->granule_bytes < 16 || o->granule_bytes > 4096)
        return "granule_bytes: not a power of two 16..4096";
    if (o->senders_max > 1024)
        return "senders_max: not 0..1024";
    if ((o->flags & ~(SNIC_CHANNEL_UP_QUIESCENT | SNIC_CHANNEL_DOWN_ORDERED)) != 0)
        return "flags: unknown bits";
    if (o->reserved != 0)
        return "reserved: not 0";
    struct snic_ring_opts up = channel_host_ring(o, 0);
    struct snic_ring_opts down = channel_host_ring(o, 1);
    if (snic_ring_memsize(&up) == 0 || snic_ring_memsize(&down) == 0)
        return o->record_max != 0
                   ? "record_max: two of them, padded, do not fit into up_progress or down_progress"
                   : "up_progress, down_progress: too small for two records with payload_align";
    return NULL;
}

static int channel_host_opts(struct snic_channel_opts *o, const struct snic_channel_opts *in)
{
    int r = channel_host_fill(o, in);
    return r == 0 && channel_host_wrong(o) != NULL ? SNIC_EINVAL : r;
}

const char *snic_channel_opts_wrong(const struct snic_channel_opts *in)
{
    struct snic_channel_opts o;
    if (channel_host_fill(&o, in) != 0)
        return "opts_size: not the struct's, or an unknown option is set";
    return channel_host_wrong(&o);
}

/** Allocate, format and register one ring. */
static int channel_host_make_ring(struct snic_dma *d, const struct snic_ring_opts *o, void **mem,
                                  struct snic_ring_info *info, uint64_t *key)
{
    size_t size = snic_ring_memsize(o);
    void *m = NULL;
    if (size == 0)
        return SNIC_EINVAL;
    int r = snic_dma_alloc(d, size, &m);
    if (r != 0)
        return r;
    r = snic_ring_init(m, size, o);
    if (r == 0)
        r = snic_ring_geometry(m, size, info);
    if (r == 0)
        r = snic_dma_register(d, m, size, SNIC_DMA_RIGHT_READ | SNIC_DMA_RIGHT_WRITE, key);
    if (r != 0)
        snic_dma_release(d, m);
    else
        *mem = m;
    return r;
}

/** Our ends of both rings. The peer may have the memory already: it is checked like any other. */
static int channel_host_attach(struct snic_channel *c, const struct channel_slot *s, uint32_t lent)
{
    int r = snic_ring_collector_attach(&c->host.collector, s->down_mem,
                                       (size_t)c->down.memory_bytes, 0);
    if (r != 0)
        return SNIC_EPROTO;
    c->mapped = 1;
    c->up_mem = s->up_mem;
    c->down_mem = s->down_mem;
    c->host.lent = (struct channel_lent *)(void *)(c + 1);
    c->host.lent_max = lent;
    for (uint32_t i = 0; r == 0 && i < lent; i++)
        r = snic_channel_sender_init(&c->host.lent[i].sender, c);
    if (r == 0)
        return 0;
    snic_ring_collector_detach(&c->host.collector);
    return SNIC_EPROTO;
}

static int channel_host_make_rings(struct snic_channel *c, struct channel_slot *s,
                                   const struct snic_channel_opts *o)
{
    struct snic_dma *d = c->hub->dma;
    struct snic_ring_opts up = channel_host_ring(o, 0);
    struct snic_ring_opts down = channel_host_ring(o, 1);
    int r = channel_host_make_ring(d, &up, &s->up_mem, &c->up, &s->up_key);
    if (r != 0)
        return r;
    r = channel_host_make_ring(d, &down, &s->down_mem, &c->down, &s->down_key);
    if (r == 0) {
        r = channel_host_attach(c, s, o->senders_max);
        if (r == 0)
            return 0;
        snic_dma_unregister(d, s->down_key);
        snic_dma_release(d, s->down_mem);
    }
    snic_dma_unregister(d, s->up_key);
    snic_dma_release(d, s->up_mem);
    s->up_mem = s->down_mem = NULL;
    return r;
}

static int channel_host_round(struct snic_loop_poller *p, int sleeping)
{
    struct snic_channel *c = SNIC_CONTAINER(p, struct snic_channel, poller);
    int did = channel_report_opened(c);
    if (!c->ending)
        did |= channel_host_poll(c, sleeping);
    return channel_round_end(c, sleeping, did);
}

int snic_channel_open(struct snic_channel **out, struct snic_channel_hub *h,
                      const struct snic_channel_opts *opts, const struct snic_channel_events *e)
{
    struct snic_channel_opts o;
    int r = channel_host_opts(&o, opts);
    if (r != 0)
        return r;
    if (h->dead || h->dma->dead)
        return SNIC_EPEERDEAD;
    struct channel_slot *s = channel_slot_take(h);
    if (s == NULL)
        return SNIC_EAGAIN;
    size_t lent = o.senders_max * sizeof(struct channel_lent);
    struct snic_channel *c = channel_new(h, CHANNEL_HOST, e, lent, channel_host_round);
    r = c == NULL ? SNIC_ENOMEM : channel_host_make_rings(c, s, &o);
    if (r != 0) {
        if (c != NULL) {
            snic_loop_poller_remove(c->loop, &c->poller);
            snic_dma_release(h->dma, c);
        }
        s->used = 0;
        return r;
    }
    c->slot = (uint32_t)(s - h->slots);
    c->kind = o.kind;
    c->id = o.id;
    c->flags = o.flags;
    s->channel = c;
    s->open = (struct channel_ctl){.magic = SNIC_CHANNEL_MAGIC,
                                   .version = SNIC_CHANNEL__VERSION,
                                   .type = CHANNEL_CTL_OPEN,
                                   .slot = c->slot,
                                   .generation = s->generation,
                                   .kind = o.kind,
                                   .flags = o.flags,
                                   .record_max = c->up.record_max,
                                   .payload_align = o.payload_align,
                                   .id = o.id,
                                   .up_key = s->up_key,
                                   .up_size = c->up.memory_bytes,
                                   .up_bytes = c->up.capacity_bytes,
                                   .down_key = s->down_key,
                                   .down_size = c->down.memory_bytes,
                                   .down_bytes = c->down.capacity_bytes};
    channel_slot_send(h, s, SNIC_CHANNEL__SEND_OPEN);
    *out = c;
    return 0;
}

void channel_host_drop(struct snic_channel *c)
{
    struct snic_channel_hub *h = c->hub;
    struct channel_slot *s = channel_slot_of(c);
    atomic_store_explicit(&c->host.gone, 1, memory_order_relaxed);
    snic_loop_poller_remove(c->loop, &c->poller);
    snic_ring_collector_detach(&c->host.collector);
    s->channel = NULL;
    if (!h->closing)
        snic_dma_release(h->dma, c);
    if (h->dead)
        channel_slot_settle(h, s);
    else
        channel_slot_send(h, s, SNIC_CHANNEL__SEND_CLOSE);
}

/* ---- Receiving ---- */

/** Claim one message into the stash. 1, 0; fails the channel on nonsense. */
static int channel_host_claim(struct snic_channel *c)
{
    c->stats.looks++;
    int r = snic_ring_claim(&c->host.collector, &c->stash[0]);
    if (r == 1) {
        c->stash_at = 0;
        c->stash_end = 1;
        return 1;
    }
    c->stats.looks_empty++;
    if (r < 0)
        channel_fail(c, SNIC_EPROTO);
    return 0;
}

static void channel_host_space(struct snic_channel *c)
{
    c->released = 0;
    /* Only for newly freed space: else two full sides would wake each other for ever. */
    if (channel_head_moved(c, c->down_mem) && snic_ring_collect_notify(&c->host.collector)) {
        c->stats.doorbells++;
        (void)snic_dma_ring(c->hub->dma, c->slot);
    }
}

/** The loop is about to sleep. > 0: there is work after all. */
static int channel_host_sleep(struct snic_channel *c)
{
    channel_host_space(c);
    if (c->stash_at < c->stash_end || c->stalled)
        return !c->stalled;
    if (c->armed)
        return 0; /* armed, looked, and no bell since */
    snic_ring_collect_arm(&c->host.collector);
    c->armed = 1;
    c->stats.sleeps++;
    return channel_host_claim(c) || c->ending;
}

int channel_host_poll(struct snic_channel *c, int sleeping)
{
    /* Relaxed: the thread that set it has woken the loop. */
    if (atomic_load_explicit(&c->host.broken, memory_order_relaxed)) {
        channel_fail(c, SNIC_EPROTO);
        return 1;
    }
    if (sleeping)
        return channel_host_sleep(c);
    if (c->belled) {
        c->belled = 0;
        if (atomic_exchange_explicit(&c->host.blocked, 0, memory_order_acq_rel) != 0)
            c->writable_due = 1;
    }
    uint32_t n = channel_deliver(c);
    for (int more = 1; more && n < 256 && c->stash_at == c->stash_end && !c->ending;) {
        more = channel_host_claim(c);
        n += channel_deliver(c);
    }
    channel_host_space(c);
    if (n == 0 && c->peer_closed && c->stash_at == c->stash_end)
        channel_fail(c, 0); /* C2: this look began after the peer's CLOSE */
    return n > 0;
}

/* ---- Senders ---- */

int snic_channel_sender_init(struct snic_channel_sender *s, struct snic_channel *c)
{
    SNIC_ASSERT(c->role == CHANNEL_HOST);
    if (atomic_load_explicit(&c->host.gone, memory_order_relaxed))
        return SNIC_EPIPE;
    s->channel = c;
    int r = snic_ring_producer_attach(&s->ring, c->up_mem, (size_t)c->up.memory_bytes, 0);
    return r == 0 ? 0 : SNIC_EPIPE;
}

struct snic_channel_sender *snic_channel_borrow(struct snic_channel *c)
{
    struct channel_host *t = &c->host;
    /* Threads begin at different places, by the addresses of their stacks; any would do. */
    uint32_t from = (uint32_t)((((uintptr_t)&t >> 12) * UINT64_C(0x9e3779b97f4a7c15)) >> 40);
    for (uint32_t i = 0; i < t->lent_max; i++) {
        struct channel_lent *l = &t->lent[(from + i) % t->lent_max];
        /* Acquire pairs with the release of give_back: the sender is as it was left. */
        if (atomic_load_explicit(&l->busy, memory_order_relaxed) == 0 &&
            atomic_exchange_explicit(&l->busy, 1, memory_order_acquire) == 0)
            return &l->sender;
    }
    return NULL;
}

void snic_channel_give_back(struct snic_channel_sender *s)
{
    struct channel_lent *l = (struct channel_lent *)(void *)s;
    atomic_store_explicit(&l->busy, 0, memory_order_release);
}

int snic_channel_up_reserve(struct snic_channel_sender *s, uint32_t type, uint32_t header_bytes,
                            uint32_t payload_bytes, struct snic_channel_slot *slot)
{
    struct snic_channel *c = s->channel;
    struct snic_ring_rec rec;
    if (atomic_load_explicit(&c->host.gone, memory_order_relaxed))
        return SNIC_EPIPE;
    if (header_bytes > SNIC_CHANNEL_HEADER_MAX)
        return SNIC_EMSGSIZE;
    int r = snic_ring_reserve(&s->ring, type, header_bytes, payload_bytes, &rec);
    if (r == SNIC_EAGAIN) {
        /* Release pairs with the exchange of the poller. */
        atomic_store_explicit(&c->host.blocked, 1, memory_order_release); /* T1 */
        snic_ring_wait_arm(&s->ring);
        r = snic_ring_reserve(&s->ring, type, header_bytes, payload_bytes, &rec);
    }
    if (r == SNIC_ECORRUPT) {
        atomic_store_explicit(&c->host.broken, 1, memory_order_relaxed);
        snic_loop_wake(c->loop);
        return SNIC_EPIPE;
    }
    if (r == 0)
        channel_slot_fill(slot, &rec, SNIC_NO_REGION);
    return r;
}

void snic_channel_up_flush(struct snic_channel_sender *s)
{
    if (snic_ring_notify(&s->ring))
        (void)snic_dma_ring(s->channel->hub->dma, s->channel->slot);
}

void snic_channel_up_commit(struct snic_channel_sender *s, int more)
{
    snic_ring_commit(&s->ring);
    if (!more)
        snic_channel_up_flush(s);
}

void snic_channel_up_cancel(struct snic_channel_sender *s)
{
    snic_ring_cancel(&s->ring);
    snic_channel_up_flush(s); /* the DPU may have gone to sleep over younger messages behind it */
}

int snic_channel_up_push(struct snic_channel_sender *s, uint32_t type, const void *header,
                         uint32_t header_bytes, const struct snic_iov *payload, uint32_t n)
{
    struct snic_channel_slot slot;
    int r = snic_channel_up_reserve(s, type, header_bytes, channel_iov_bytes(payload, n), &slot);
    if (r != 0)
        return r;
    channel_slot_copy(&slot, header, payload, n);
    snic_channel_up_commit(s, 0);
    return 0;
}
