/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * The channel to the host role: replies and cache entries up, once an iteration what collected for
 * the way down (upstream_send.c), and the end of the host.
 *
 * I1  Entries of an up record take effect in order, each once: up_at is how far a record came that
 *     could not be finished for want of blocks.
 * I2  Nothing that the host writes is trusted: heads are copied, then checked; keys and items are
 *     copied before the table sees them; replies must name a slot that waits.
 */
#include "director/director_priv.h"

#include "snicstore/cuckoo.h"

/* ---- Down ---- */

/* Report closed connections to the host that are not reported yet. */
static void director_channel_notify(struct snic_director *d)
{
    struct snic_link *l = d->all.next;
    while (d->closed_wait > 0 && l != &d->all) {
        struct snic_director_conn *c = SNIC_CONTAINER(l, struct snic_director_conn, link);
        l = l->next;
        if (!c->notify)
            continue;
        director_channel_closed_conn(c);
        if (c->notify)
            break;
        director_conn_release(c);
    }
}

/* Once per iteration: 1 if something was sent. */
int director_channel_flush(struct snic_director *d)
{
    int any = 0;
    if (!snic_queue_empty(&d->retry))
        director_retry_all(d);
    if (d->channel == NULL)
        return 0;
    if (d->closed_wait > 0)
        director_channel_notify(d);
    if (d->stage.used > 0 && director_channel_push(d)) {
        any = 1;
        if (!snic_link_alone(&d->wait_channel))
            director_wake(d, &d->wait_channel, SNIC_DIRECTOR__WAIT_CHANNEL);
    }
    if (any)
        snic_channel_down_flush(d->channel);
    return any;
}

/* ---- Up ---- */

/*
 * Bytes of a reply, in an entry or a piece. @at: how many of them were taken before; 1 all taken,
 * 0 memory ran out after *at.
 */
static int director_up_reply(struct snic_director *d, const struct director_wire *w,
                             const unsigned char *bytes, uint32_t *at)
{
    struct director_slot *s = director_reply_slot(d, w->conn, w->seq);
    if (s == NULL) {
        d->stats.stale_replies++;
        return 1;
    }
    director_backlog_answered(s);
    *at += director_reply_bytes(s, bytes + *at, w->size - *at);
    if (*at < w->size)
        return 0;
    if (w->flags & SNIC_DIRECTOR_REPLY_USER)
        s->conn->user = w->word;
    if (w->flags & SNIC_DIRECTOR_REPLY_CLOSE)
        s->flags |= SNIC_DIRECTOR__CLOSE;
    if (!(w->flags & SNIC_DIRECTOR_REPLY_MORE))
        director_reply_done(s);
    return 1;
}

/* The host and the director differ in @field: the host hears it before the end. */
static int director_up_refuse(struct snic_director *d, uint32_t field, uint32_t host, uint32_t own)
{
    struct director_wire w = {.word = field, .size = 8, .kind = DIRECTOR_REFUSED};
    unsigned char bytes[8];
    snic_put_le32(bytes, host);
    snic_put_le32(bytes + 4, own);
    d->refused = (struct director_refused){field, host, own};
    if (director_channel_stage(d, &w, bytes))
        (void)director_channel_push(d);
    return SNIC_EVERSION;
}

/* The host introduces itself: R7. 0; SNIC_EPROTO, SNIC_EVERSION */
static int director_up_hello(struct snic_director *d, const struct director_wire *w,
                             const unsigned char *bytes)
{
    unsigned char sizes[16] = {0};
    if (d->attached || w->size < 12)
        return SNIC_EPROTO;
    memcpy(sizes, bytes, snic_min_u64(w->size, sizeof(sizes)));
    uint32_t version = w->size < sizeof(sizes) ? 1 : snic_get_le32(sizes + 12);
    uint32_t key = snic_get_le32(sizes);
    uint32_t item = snic_get_le32(sizes + 4);
    if (w->size != sizeof(sizes) || version != SNIC_DIRECTOR__VERSION)
        return director_up_refuse(d, DIRECTOR_FIELD_VERSION, version, SNIC_DIRECTOR__VERSION);
    if (snic_get_le32(sizes + 8) == 0)
        return SNIC_EPROTO;
    if (d->offload != NULL) {
        if (key != snic_offload_key_size(d->offload))
            return director_up_refuse(d, DIRECTOR_FIELD_KEY, key,
                                      snic_offload_key_size(d->offload));
        if (item != snic_offload_item_size(d->offload))
            return director_up_refuse(d, DIRECTOR_FIELD_ITEM, item,
                                      snic_offload_item_size(d->offload));
        snic_offload_invalidate_all(d->offload, w->word);
    }
    d->message_max = (uint32_t)snic_min_u64(d->opts.message_max, snic_get_le32(sizes + 8));
    d->refused.field = DIRECTOR_FIELD_NONE;
    d->attached = 1;
    d->stats.hosts++;
    return 0;
}

int snic_director_get_mismatch(const struct snic_director *d, struct snic_director_mismatch *out)
{
    if (d->refused.field == DIRECTOR_FIELD_NONE)
        return 0;
    out->option = director_field_name(d->refused.field);
    out->host = d->refused.host;
    out->director = d->refused.director;
    return 1;
}

/* A cache entry. 0; SNIC_EPROTO */
static int director_up_entry(struct snic_director *d, const struct director_wire *w,
                             const unsigned char *bytes)
{
    unsigned char copy[SNIC_CUCKOO_KEY_MAX + SNIC_OFFLOAD_ITEM_MAX];
    if (d->offload == NULL)
        return 0;
    uint32_t key = snic_offload_key_size(d->offload);
    uint32_t item = w->kind == DIRECTOR_CACHE ? snic_offload_item_size(d->offload) : 0;
    if (w->size != key + item || w->word > SNIC_OFFLOAD_VERSION_MAX)
        return SNIC_EPROTO;
    memcpy(copy, bytes, w->size); /* I2 */
    d->stats.invalidations++;
    if (w->kind == DIRECTOR_CACHE)
        (void)snic_offload_cache(d->offload, copy, copy + key, w->word);
    else
        snic_offload_invalidate(d->offload, copy, w->word);
    return 0;
}

/* 1 done; 0 memory ran out; SNIC_EPROTO */
static int director_up_one(struct snic_director *d, const struct director_wire *w,
                           const unsigned char *bytes)
{
    uint32_t at = 0;
    int r = 0;
    if (!d->attached && w->kind != DIRECTOR_HELLO)
        return SNIC_EPROTO;
    switch (w->kind) {
    case DIRECTOR_REPLY: /* short: all of it or nothing */
        if (d->blocks_free < SNIC_DIRECTOR__STAGE / SNIC_DIRECTOR__DATA + 2)
            return 0;
        return director_up_reply(d, w, bytes, &at);
    case DIRECTOR_HELLO:
        r = director_up_hello(d, w, bytes);
        break;
    case DIRECTOR_INVALIDATE:
    case DIRECTOR_CACHE:
        r = director_up_entry(d, w, bytes);
        break;
    case DIRECTOR_CLEAR:
        if (w->size != 0)
            return SNIC_EPROTO;
        if (d->offload != NULL)
            snic_offload_invalidate_all(d->offload, w->word);
        break;
    default:
        r = SNIC_EPROTO;
        break;
    }
    return r == 0 ? 1 : r;
}

static int director_up_batch(struct snic_director *d, const unsigned char *batch, uint32_t size)
{
    struct director_wire w;
    uint32_t next = 0;
    int r = 0;
    while ((r = director_stage_next(batch, size, d->up_at, &w, &next)) == 1) {
        r = director_up_one(d, &w, batch + d->up_at + SNIC_DIRECTOR__HEAD);
        if (r != 1)
            return r == 0 ? SNIC_EAGAIN : r;
        d->up_at = next; /* I1 */
    }
    return r;
}

static int director_up_piece(struct snic_director *d, const struct snic_channel_msg *m)
{
    struct director_wire w;
    if (m->header_bytes != SNIC_DIRECTOR__LONG_HEAD || !d->attached)
        return SNIC_EPROTO;
    director_wire_get_long(&w, m->header); /* a private copy already */
    if (w.kind != DIRECTOR_REPLY || w.size != m->payload_bytes)
        return SNIC_EPROTO;
    return director_up_reply(d, &w, m->payload, &d->up_at) ? 0 : SNIC_EAGAIN;
}

static int director_channel_message(void *ctx, struct snic_channel *ch,
                                    const struct snic_channel_msg *m)
{
    struct snic_director *d = ctx;
    int r = SNIC_EPROTO;
    (void)ch;
    if (d->broken)
        return 1;
    if (m->type == SNIC_DIRECTOR__BATCH && m->header_bytes == 0)
        r = director_up_batch(d, m->payload, m->payload_bytes);
    else if (m->type == SNIC_DIRECTOR__PIECE)
        r = director_up_piece(d, m);
    if (r == SNIC_EAGAIN) {
        d->stalled = 1;
        d->stats.stalls++;
        director_stall_check(d);
        return SNIC_EAGAIN;
    }
    d->up_at = 0;
    d->stats.records_up++;
    if (r != 0) {
        d->broken = 1;
        if (!d->channel_close_queued) {
            d->channel_close_queued = 1;
            snic_loop_defer(d->loop, &d->channel_close);
        }
    }
    return 1;
}

/* ---- The host's life ---- */

/* The host is gone: whatever it owes is answered in its stead. */
static void director_channel_over(struct snic_director *d)
{
    struct snic_link *l = d->all.next;
    d->channel = NULL;
    d->attached = d->broken = d->stalled = 0;
    d->stage.used = 0;
    d->up_at = 0;
    d->piecing = NULL;
    d->taken = d->pushed;
    while (l != &d->all) {
        struct snic_director_conn *c = SNIC_CONTAINER(l, struct snic_director_conn, link);
        int partly = c->piece_of != NULL && (c->piece_of->flags & SNIC_DIRECTOR__NET) == 0;
        l = l->next;
        c->known = 0;
        if (c->notify) {
            c->notify = 0;
            d->closed_wait--;
            director_conn_release(c);
            continue;
        }
        if (partly) { /* the rest of it has nowhere to go */
            c->piece_of = NULL;
            director_conn_consume(c);
        }
        if (!c->dead)
            director_reply_gone_all(c, 0);
    }
    for (struct snic_node *n = d->retry.first; n != NULL; n = n->next)
        SNIC_CONTAINER(n, struct director_slot, host)->sent = 0;
    director_wake(d, &d->wait_channel, SNIC_DIRECTOR__WAIT_CHANNEL);
    director_retry_all(d);
}

static void director_channel_closed(void *ctx, struct snic_channel *ch, int reason)
{
    struct snic_director *d = ctx;
    (void)reason;
    if (d->channel == ch)
        director_channel_over(d);
    snic_channel_close(ch);
}

/* The host wrote nonsense, or the user does not want it any more. */
static void director_channel_close_msg(struct snic_loop_msg *m)
{
    struct snic_director *d = SNIC_CONTAINER(m, struct snic_director, channel_close);
    d->channel_close_queued = 0;
    if (d->channel != NULL && d->broken)
        snic_director_upstream_close(d);
}

static void director_channel_go_on(void *ctx, struct snic_channel *ch)
{
    struct snic_director *d = ctx;
    (void)ch;
    (void)director_channel_flush(d);
    director_wake(d, &d->wait_channel, SNIC_DIRECTOR__WAIT_CHANNEL);
}

int snic_director_upstream_channel(struct snic_director *d, struct snic_channel_hub *hub,
                                   const struct snic_channel_offer *offer)
{
    struct snic_channel_events ev = {.message = director_channel_message,
                                     .opened = director_channel_go_on,
                                     .writable = director_channel_go_on,
                                     .closed = director_channel_closed,
                                     .ctx = d};
    struct snic_channel *ch = NULL;
    if (snic_channel_hub_dma(hub)->loop != d->loop)
        return SNIC_EINVAL;
    if (offer->kind != SNIC_DIRECTOR_CHANNEL_KIND)
        return SNIC_ECONNREFUSED;
    if (d->channel != NULL)
        return SNIC_EBUSY;
    if (offer->record_max < 2 * SNIC_DIRECTOR__STAGE)
        return SNIC_EPROTO;
    int r = snic_channel_accept(&ch, hub, offer, NULL, &ev);
    if (r != 0)
        return r;
    d->channel = ch;
    d->refused.field = DIRECTOR_FIELD_NONE;
    d->record_max = offer->record_max;
    d->channel_close.fn = director_channel_close_msg;
    /* Behind the channel's poller: what it brought leaves in the same iteration. */
    snic_loop_poller_remove(d->loop, &d->poller);
    snic_loop_poller_add(d->loop, &d->poller);
    return 0;
}

int snic_director_host_attached(const struct snic_director *d)
{
    return d->channel != NULL && d->attached;
}

void snic_director_upstream_close(struct snic_director *d)
{
    struct snic_channel *ch = d->channel;
    if (ch == NULL)
        return;
    director_channel_over(d);
    snic_channel_close(ch);
}
