/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * The host's end of the director's channel.
 *
 * I1  Short entries collect in the stage and are pushed in order, at the end of each received
 *     record, when the stage is full, and once per loop iteration.
 * I2  A long reply that does not find room at once is kept in `big` and goes piece by piece; the
 *     stage is pushed before its first piece, so it overtakes nothing.
 * I3  After an answer of SNIC_EAGAIN no record is taken until `writable` has been called:
 *     what it has to keep is bounded by one record's messages.
 * I4  Long messages are put together one at a time; a piece that does not continue the one at
 *     hand is dropped, and so is what follows until one begins.
 */
#include "director/wire.h"

#define SNIC_DIRECTOR__UP_PIECE 131072

struct snic_director_host {
    struct snic_director_host_events ev;
    struct snic_director_host_opts opts;
    struct snic_loop *loop;
    struct snic_dma *dma;
    struct snic_channel *channel; /* NULL: over */
    struct snic_channel_sender sender;
    struct snic_loop_poller poller;
    struct director_wire big; /* size 0: none */
    uint64_t big_size;
    uint64_t big_at;
    uint64_t part_conn;
    uint64_t part_seq;
    uint64_t part_total; /* 0: none */
    uint64_t part_at;
    unsigned char *part;
    unsigned char *big_bytes;
    uint32_t up_piece;
    uint8_t refused; /* SNIC_EAGAIN was returned to the user */
    uint8_t inside;
    struct director_stage stage;
    struct director_refused mismatch; /* from REFUSED */
};

/* ---- Up ---- */

/* Push the stage; 0 when the ring is full. */
static int director_host_push(struct snic_director_host *h)
{
    struct snic_iov v = {h->stage.bytes, h->stage.used};
    if (h->stage.used == 0)
        return 1;
    if (h->channel == NULL ||
        snic_channel_up_push(&h->sender, SNIC_DIRECTOR__BATCH, NULL, 0, &v, 1) != 0)
        return 0;
    h->stage.used = 0;
    return 1;
}

/* One piece record of @w, gathered. 0 when the ring is full. */
static int director_host_piece(struct snic_director_host *h, const struct director_wire *w,
                               const struct snic_iov *v, uint32_t n)
{
    unsigned char head[SNIC_DIRECTOR__LONG_HEAD];
    director_wire_put_long(head, w);
    return snic_channel_up_push(&h->sender, SNIC_DIRECTOR__PIECE, head, sizeof(head), v, n) == 0;
}

/* Continue the long reply; 0 when the ring is full. */
static int director_host_big(struct snic_director_host *h)
{
    if (h->big_size == 0)
        return 1;
    if (!director_host_push(h)) /* I2 */
        return 0;
    while (h->big_at < h->big_size) {
        struct director_wire w = h->big;
        w.size = (uint32_t)snic_min_u64(h->up_piece, h->big_size - h->big_at);
        w.offset = h->big_at;
        w.total = h->big_size;
        if (h->big_at + w.size < h->big_size)
            w.flags = SNIC_DIRECTOR_REPLY_MORE;
        struct snic_iov v = {h->big_bytes + h->big_at, w.size};
        if (!director_host_piece(h, &w, &v, 1))
            return 0;
        h->big_at += w.size;
    }
    h->big_size = 0;
    return 1;
}

static int director_host_refuse(struct snic_director_host *h)
{
    h->refused = 1;
    return SNIC_EAGAIN;
}

/* A call from outside an iteration makes a simulated loop go round, as a real one will. */
static void director_host_kick(struct snic_director_host *h)
{
    if (!h->inside && snic_loop_world(h->loop) != NULL)
        snic_loop_wake(h->loop);
}

/* Room for @need bytes in the stage? */
static int director_host_room(struct snic_director_host *h, uint32_t need)
{
    director_host_kick(h);
    return need <= SNIC_DIRECTOR__STAGE - h->stage.used || director_host_push(h);
}

static void director_host_gather(unsigned char *to, const struct snic_iov *iov, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++) {
        if (iov[i].size > 0)
            memcpy(to, iov[i].base, iov[i].size);
        to += iov[i].size;
    }
}

static int director_host_long(struct snic_director_host *h, const struct director_wire *w,
                              const struct snic_iov *iov, uint32_t n, uint64_t size)
{
    if (h->big_size > 0)
        return director_host_refuse(h);
    if (size <= h->up_piece && director_host_push(h)) {
        struct director_wire one = *w;
        one.size = (uint32_t)size;
        one.total = size;
        if (director_host_piece(h, &one, iov, n))
            return 0;
    }
    director_host_gather(h->big_bytes, iov, n);
    h->big = *w;
    h->big_size = size;
    h->big_at = 0;
    (void)director_host_big(h);
    return 0;
}

int snic_director_host_reply(struct snic_director_host *h, uint64_t conn, uint64_t seq,
                             const struct snic_iov *iov, uint32_t iov_count, uint32_t flags,
                             uint64_t user)
{
    struct director_wire w = {
        .conn = conn, .seq = seq, .word = user, .kind = DIRECTOR_REPLY, .flags = (uint16_t)flags};
    uint64_t size = 0;
    for (uint32_t i = 0; i < iov_count; i++)
        size += iov[i].size;
    if (h->channel == NULL)
        return SNIC_EPEERDEAD;
    if (size > h->opts.message_max)
        return SNIC_EMSGSIZE;
    director_host_kick(h);
    if (h->big_size > 0 && h->big.conn == conn && h->big.seq == seq)
        return director_host_refuse(h); /* its earlier part is still here */
    if (director_stage_need(size) > SNIC_DIRECTOR__STAGE)
        return director_host_long(h, &w, iov, iov_count, size);
    if (!director_host_room(h, director_stage_need(size)))
        return director_host_refuse(h);
    w.size = (uint32_t)size;
    director_host_gather(director_stage_put(&h->stage, &w), iov, iov_count);
    return 0;
}

int snic_director_host_entries(struct snic_director_host *h, const struct snic_director_entry *e,
                               uint32_t count)
{
    uint64_t need = 0;
    uint32_t key = h->opts.key_size;
    for (uint32_t i = 0; i < count; i++)
        need += director_stage_need(key + (e[i].item != NULL ? h->opts.item_size : 0));
    if (h->channel == NULL)
        return SNIC_EPEERDEAD;
    if (need > SNIC_DIRECTOR__STAGE)
        return SNIC_EMSGSIZE;
    if (!director_host_room(h, (uint32_t)need))
        return director_host_refuse(h);
    for (uint32_t i = 0; i < count; i++) {
        struct director_wire w = {.word = snic_min_u64(e[i].version, SNIC_OFFLOAD_VERSION_MAX),
                                  .size = key,
                                  .kind = DIRECTOR_INVALIDATE};
        if (e[i].item != NULL) {
            w.kind = DIRECTOR_CACHE;
            w.size += h->opts.item_size;
        }
        unsigned char *p = director_stage_put(&h->stage, &w);
        memcpy(p, e[i].key, key);
        if (e[i].item != NULL && h->opts.item_size > 0)
            memcpy(p + key, e[i].item, h->opts.item_size);
    }
    return 0;
}

int snic_director_host_invalidate_all(struct snic_director_host *h, uint64_t version)
{
    struct director_wire w = {.word = version, .kind = DIRECTOR_CLEAR};
    if (h->channel == NULL)
        return SNIC_EPEERDEAD;
    if (!director_host_room(h, director_stage_need(0)))
        return director_host_refuse(h);
    (void)director_stage_put(&h->stage, &w);
    return 0;
}

/* ---- Down ---- */

static void director_host_one(struct snic_director_host *h, const struct director_wire *w,
                              const unsigned char *bytes)
{
    if (w->kind == DIRECTOR_MESSAGE)
        h->ev.message(h->ev.ctx, w->conn, w->seq, w->word, bytes, w->size);
    else if (w->kind == DIRECTOR_CLOSED && h->ev.closed != NULL)
        h->ev.closed(h->ev.ctx, w->conn);
    else if (w->kind == DIRECTOR_REFUSED && w->size == 8)
        h->mismatch = (struct director_refused){(uint32_t)w->word, snic_get_le32(bytes),
                                                snic_get_le32(bytes + 4)};
}

static void director_host_part(struct snic_director_host *h, const struct snic_channel_msg *m)
{
    struct director_wire w;
    if (m->header_bytes != SNIC_DIRECTOR__LONG_HEAD)
        return;
    director_wire_get_long(&w, m->header);
    if (w.kind != DIRECTOR_MESSAGE || w.size != m->payload_bytes || w.size == 0)
        return;
    if (w.offset == 0) {
        h->part_conn = w.conn;
        h->part_seq = w.seq;
        h->part_at = 0;
        h->part_total = w.total <= h->opts.message_max ? w.total : 0;
    }
    if (h->part_total == 0 || w.conn != h->part_conn || w.seq != h->part_seq ||
        w.offset != h->part_at || w.total != h->part_total || w.size > h->part_total - h->part_at) {
        h->part_total = 0; /* I4 */
        return;
    }
    memcpy(h->part + h->part_at, m->payload, w.size);
    h->part_at += w.size;
    if (h->part_at < h->part_total)
        return;
    w.size = (uint32_t)h->part_total;
    h->part_total = 0;
    director_host_one(h, &w, h->part);
}

static int director_host_message(void *ctx, struct snic_channel *ch,
                                 const struct snic_channel_msg *m)
{
    struct snic_director_host *h = ctx;
    struct director_wire w;
    uint32_t at = 0;
    uint32_t next = 0;
    (void)ch;
    if (h->refused)
        return SNIC_EAGAIN; /* I3 */
    h->inside++;
    if (m->type == SNIC_DIRECTOR__PIECE) {
        director_host_part(h, m);
    } else if (m->type == SNIC_DIRECTOR__BATCH) {
        while (h->channel != NULL &&
               director_stage_next(m->payload, m->payload_bytes, at, &w, &next) == 1) {
            director_host_one(h, &w, (const unsigned char *)m->payload + at + SNIC_DIRECTOR__HEAD);
            at = next;
        }
    }
    h->inside--;
    (void)director_host_push(h); /* I1 */
    return 1;
}

/* Send what waits; call `writable` when there is room again. */
static int director_host_go_on(struct snic_director_host *h)
{
    if (h->channel == NULL || !director_host_push(h) || !director_host_big(h))
        return 0;
    if (h->refused) {
        h->refused = 0;
        h->inside++;
        if (h->ev.writable != NULL)
            h->ev.writable(h->ev.ctx);
        h->inside--;
        if (h->channel != NULL && !h->refused)
            snic_channel_resume(h->channel);
    }
    return 1;
}

static void director_host_writable(void *ctx, struct snic_channel *ch)
{
    (void)ch;
    (void)director_host_go_on(ctx);
}

static int director_host_poll(struct snic_loop_poller *p, int sleeping)
{
    struct snic_director_host *h = SNIC_CONTAINER(p, struct snic_director_host, poller);
    int waits = h->stage.used > 0 || h->big_size > 0 || h->refused;
    (void)sleeping;
    return waits && director_host_go_on(h);
}

static void director_host_closed(void *ctx, struct snic_channel *ch, int reason)
{
    struct snic_director_host *h = ctx;
    (void)reason;
    h->channel = NULL;
    snic_loop_poller_remove(h->loop, &h->poller);
    snic_channel_close(ch);
    h->inside++;
    if (h->ev.death != NULL)
        h->ev.death(h->ev.ctx);
    h->inside--;
}

/* ---- Opening ---- */

static int director_host_opts(struct snic_director_host_opts *out,
                              const struct snic_director_host_opts *in)
{
    struct snic_director_host_opts o;
    memset(&o, 0, sizeof(o));
    o.opts_size = sizeof(o);
    if (snic_opts_copy(&o, sizeof(o), in) != 0)
        return 0;
    o.message_max = o.message_max == 0 ? 9u << 20 : o.message_max;
    o.ring_bytes = o.ring_bytes == 0 ? 4u << 20 : o.ring_bytes;
    if (o.message_max > (1u << 30) || !snic_is_pow2(o.ring_bytes) || o.ring_bytes < (256u << 10) ||
        o.key_size > 64 || o.item_size > SNIC_OFFLOAD_ITEM_MAX)
        return 0;
    *out = o;
    return 1;
}

static void director_host_hello(struct snic_director_host *h)
{
    struct director_wire w = {.word = h->opts.version, .size = 16, .kind = DIRECTOR_HELLO};
    unsigned char *p = director_stage_put(&h->stage, &w);
    snic_put_le32(p, h->opts.key_size);
    snic_put_le32(p + 4, h->opts.item_size);
    snic_put_le32(p + 8, h->opts.message_max);
    snic_put_le32(p + 12, SNIC_DIRECTOR__VERSION);
    (void)director_host_push(h);
}

int snic_director_host_open(struct snic_director_host **out, struct snic_channel_hub *hub,
                            const struct snic_director_host_events *ev,
                            const struct snic_director_host_opts *opts)
{
    struct snic_director_host_opts o;
    struct snic_dma *dma = snic_channel_hub_dma(hub);
    struct snic_channel_events ce = {.message = director_host_message,
                                     .writable = director_host_writable,
                                     .closed = director_host_closed};
    struct snic_channel_info info;
    void *mem = NULL;
    if (!director_host_opts(&o, opts) || ev->message == NULL)
        return SNIC_EINVAL;
    size_t most = (size_t)snic_align_up(o.message_max, 64);
    size_t own = (size_t)snic_align_up(sizeof(struct snic_director_host), 4096);
    if (snic_dma_alloc(dma, own + 2 * most, &mem) != 0)
        return SNIC_ENOMEM;
    struct snic_director_host *h = mem;
    h->ev = *ev;
    h->opts = o;
    h->dma = dma;
    h->loop = dma->loop;
    h->part = (unsigned char *)mem + own;
    h->big_bytes = h->part + most;
    ce.ctx = h;
    struct snic_channel_opts co = {.opts_size = sizeof(co),
                                   .kind = SNIC_DIRECTOR_CHANNEL_KIND,
                                   .up_bytes = o.ring_bytes,
                                   .down_bytes = o.ring_bytes};
    int r = snic_channel_open(&h->channel, hub, &co, &ce);
    if (r == 0 && snic_channel_sender_init(&h->sender, h->channel) != 0) {
        snic_channel_close(h->channel);
        r = SNIC_EPEERDEAD;
    }
    if (r != 0) {
        snic_dma_release(dma, mem);
        return r;
    }
    snic_channel_get_info(h->channel, &info);
    h->up_piece =
        (uint32_t)snic_min_u64(SNIC_DIRECTOR__UP_PIECE, info.record_max - SNIC_DIRECTOR__LONG_HEAD);
    director_host_hello(h);
    snic_loop_poller_init(&h->poller, director_host_poll);
    snic_loop_poller_add(h->loop, &h->poller);
    *out = h;
    return 0;
}

int snic_director_host_get_mismatch(const struct snic_director_host *h,
                                    struct snic_director_mismatch *out)
{
    if (h->mismatch.field == DIRECTOR_FIELD_NONE)
        return 0;
    out->option = director_field_name(h->mismatch.field);
    out->host = h->mismatch.host;
    out->director = h->mismatch.director;
    return 1;
}

void snic_director_host_close(struct snic_director_host *h)
{
    struct snic_dma *dma = h->dma;
    SNIC_ASSERT(!h->inside);
    snic_loop_poller_remove(h->loop, &h->poller);
    if (h->channel != NULL) {
        (void)director_host_push(h);
        snic_channel_close(h->channel);
    }
    snic_dma_release(dma, h);
}

#undef SNIC_DIRECTOR__UP_PIECE
