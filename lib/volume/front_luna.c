/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * LUNA's half of a block server: a listener, and a place for each client's connection.
 *
 * Received buffers are handed to the engine in place; its requests point to their data there, and
 * the store has taken these before the buffer is put back (V7). A block that lies in two buffers
 * is in the engine's memory until its next call, so the store takes that one before. When the
 * engine takes no more (SNIC_EAGAIN), the rest waits in the buffers, and nothing more is received,
 * until the engine emits RESUME: at most what the network lends a connection.
 */
#include "volume/volume_priv.h"

static void front_luna_opts(const struct snic_volume_server *s, struct snic_luna_target_opts *t)
{
    memset(t, 0, sizeof(*t));
    t->opts_size = sizeof(*t);
    t->flags = s->o.token_key != NULL ? SNIC_LUNA_TARGET_TOKENS : 0;
    t->seed = s->o.seed ^ s->epoch * UINT64_C(0x9e3779b97f4a7c15);
    t->srv_epoch = s->epoch;
    t->conns_max = s->o.streams_max;
    t->sends_max = s->o.sends_max;
    t->frames_max = s->o.frames_max;
    t->rx_blocks = s->o.writes_max;
}

static void front_luna_returned(void *owner, void *what)
{
    struct snic_volume_server *s = owner;
    struct snic_luna_send *send = what;
    uint64_t cookie = send->cookie;
    snic_luna_target_sent(s->luna.target, send, volume_server_now(s));
    volume_request_returned(s, cookie);
    volume_server_soon(s);
}

static void front_luna_timer(struct snic_timer *t, uint64_t now_ns)
{
    struct volume_front_of_luna *f = SNIC_CONTAINER(t, struct volume_front_of_luna, timer);
    (void)now_ns;
    volume_server_soon(SNIC_CONTAINER(f, struct snic_volume_server, luna));
}

static const char *front_luna_wrong(struct snic_volume_server *s)
{
    struct snic_luna_target_opts t;
    if (s->o.streams_max > 4096)
        return "streams_max: not 1..4096";
    front_luna_opts(s, &t);
    t.srv_epoch = 1;                        /* not known yet */
    return snic_luna_target_opts_wrong(&t); /* the others have the same names */
}

static size_t front_luna_layout(struct snic_arena *a, struct snic_volume_server *s)
{
    struct volume_front_of_luna *f = &s->luna;
    struct snic_luna_target_opts t;
    uint32_t count = s->o.streams_max, buckets = 1;
    s->epoch = 1;
    front_luna_opts(s, &t);
    s->epoch = 0;
    f->size = snic_luna_target_memsize(&t);
    if (f->size == 0)
        return 0; /* counts are in their bounds from here on */
    while (buckets < count)
        buckets *= 2;
    f->mem = snic_arena_take(a, 1, f->size, SNIC_VOLUME_ALIGN);
    struct volume_tx *tx = snic_arena_take(a, s->o.sends_max, sizeof(*tx), 64);
    f->peers = snic_arena_take(a, count, sizeof(*f->peers), 64);
    f->buckets = snic_arena_take(a, buckets, sizeof(*f->buckets), 64);
    if (a->base == NULL || a->used == SIZE_MAX)
        return f->size;
    volume_txs_init(&f->txs, tx, s->o.sends_max, s, front_luna_returned);
    memset(f->peers, 0, count * sizeof(*f->peers));
    f->mask = buckets - 1;
    f->free = SNIC_VOLUME__NIL;
    for (uint32_t i = 0; i < buckets; i++)
        f->buckets[i] = SNIC_VOLUME__NIL;
    for (uint32_t i = count; i-- > 0;) {
        f->peers[i].next = f->free;
        f->free = i;
    }
    snic_timer_init(&f->timer, front_luna_timer);
    return f->size;
}

static int front_luna_init(struct snic_volume_server *s)
{
    struct snic_luna_target_opts t;
    front_luna_opts(s, &t);
    return snic_luna_target_init(&s->luna.target, s->luna.mem, s->luna.size, &t,
                                 volume_server_now(s));
}

/* ---- Connections ---- */

static struct volume_peer *front_luna_find(struct snic_volume_server *s, uint32_t handle)
{
    struct volume_front_of_luna *f = &s->luna;
    for (uint32_t i = f->buckets[handle & f->mask]; i != SNIC_VOLUME__NIL; i = f->peers[i].next)
        if (f->peers[i].handle == handle)
            return &f->peers[i];
    return NULL;
}

static struct volume_peer *front_luna_take(struct snic_volume_server *s, uint32_t handle)
{
    struct volume_front_of_luna *f = &s->luna;
    struct volume_peer *p = &f->peers[f->free];
    uint32_t *bucket = &f->buckets[handle & f->mask];
    f->free = p->next;
    f->used++;
    memset(p, 0, sizeof(*p));
    p->used = 1;
    p->k.owner = s;
    p->handle = handle;
    p->next = *bucket;
    *bucket = (uint32_t)(p - f->peers);
    return p;
}

/* V6 */
static void front_luna_drop(struct snic_volume_server *s, struct volume_peer *p)
{
    for (struct snic_node *n = snic_queue_pop(&p->held); n != NULL; n = snic_queue_pop(&p->held))
        snic_net_put(s->o.net, SNIC_CONTAINER(n, struct snic_net_buf, node));
}

/* The engine has closed it: it leaves its bucket; the network's `closed` will free its place. */
static void front_luna_forget(struct snic_volume_server *s, struct volume_peer *p)
{
    struct volume_front_of_luna *f = &s->luna;
    uint32_t index = (uint32_t)(p - f->peers);
    uint32_t *i = &f->buckets[p->handle & f->mask];
    while (*i != index)
        i = &f->peers[*i].next;
    *i = p->next;
    p->next = SNIC_VOLUME__NIL;
    front_luna_drop(s, p);
}

/* It ended, and not by the engine's CLOSE. */
static void front_luna_lost(struct snic_volume_server *s, struct volume_peer *p)
{
    if (p->k.over)
        return;
    snic_luna_target_closed(s->luna.target, p->handle, volume_server_now(s));
    front_luna_forget(s, p);
    volume_server_soon(s);
}

/* ---- Receiving ---- */

/* @return how many of the bytes are used: all, unless the engine waits */
static size_t front_luna_feed(struct snic_volume_server *s, struct volume_peer *p,
                              const unsigned char *data, size_t size)
{
    struct volume_req q = {.front = &volume_front_luna};
    uint64_t now = volume_server_now(s);
    size_t at = 0, used = 0;
    int r;
    do {
        r = snic_luna_target_recv(s->luna.target, p->handle, data + at, size - at, &used, &q.r,
                                  now);
        at += used;
        if (r == 1) {
            uintptr_t shown = (uintptr_t)q.r.data - (uintptr_t)data;
            volume_request(s, &q);
            if (q.r.data != NULL && shown >= size) /* not in these bytes */
                volume_request_flush(s);
        }
    } while (r == 1);
    volume_request_flush(s);
    p->waits = r == SNIC_EAGAIN;
    return p->waits || r == 0 ? at : size; /* CLOSE follows a violation of the protocol */
}

static void front_luna_resume(struct snic_volume_server *s, struct volume_peer *p)
{
    static const unsigned char none = 0;
    if (snic_queue_empty(&p->held))
        (void)front_luna_feed(s, p, &none, 0);
    while (!p->waits && !snic_queue_empty(&p->held)) {
        struct snic_net_buf *b = SNIC_CONTAINER(p->held.first, struct snic_net_buf, node);
        size_t used = front_luna_feed(s, p, b->data, b->size);
        b->data += used;
        b->size -= (uint32_t)used;
        if (b->size == 0) {
            (void)snic_queue_pop(&p->held);
            snic_net_put(s->o.net, b);
        }
    }
    snic_net_pause(p->k.c, p->waits);
}

static void front_luna_recv(void *ctx, struct snic_net_conn *c, struct snic_net_buf *buf)
{
    struct volume_peer *p = ctx;
    struct snic_volume_server *s = p->k.owner;
    if (p->k.over) {
        snic_net_put(c->net, buf);
        return;
    }
    snic_queue_push(&p->held, &buf->node);
    if (!p->waits)
        front_luna_resume(s, p);
    volume_server_soon(s);
}

/* A client that sends no more needs no answers. */
static void front_luna_eof(void *ctx, struct snic_net_conn *c)
{
    struct volume_peer *p = ctx;
    (void)c;
    front_luna_lost(p->k.owner, p);
    volume_stream_end(&p->k, 0);
}

static void front_luna_writable(void *ctx, struct snic_net_conn *c)
{
    struct volume_peer *p = ctx;
    (void)c;
    volume_stream_writable(&p->k);
}

static void front_luna_closed(void *ctx, struct snic_net_conn *c, int reason)
{
    struct volume_peer *p = ctx;
    struct snic_volume_server *s = p->k.owner;
    struct volume_front_of_luna *f = &s->luna;
    (void)c;
    (void)reason;
    front_luna_lost(s, p);
    volume_stream_gone(&p->k);
    p->used = 0;
    p->next = f->free;
    f->free = (uint32_t)(p - f->peers);
    f->used--;
}

static void front_luna_accept(void *ctx, struct snic_net_conn *c, const struct snic_net_addr *peer)
{
    static const struct snic_net_stream_events ev = {.recv = front_luna_recv,
                                                     .eof = front_luna_eof,
                                                     .writable = front_luna_writable,
                                                     .closed = front_luna_closed};
    struct snic_volume_server *s = ctx;
    struct volume_front_of_luna *f = &s->luna;
    uint32_t handle = 0;
    volume_server_soon(s); /* another connection may have to end for it */
    int r = s->closing ? SNIC_ECANCELED
                       : snic_luna_target_opened(f->target, &handle, volume_server_now(s));
    if (r == 0 && f->free == SNIC_VOLUME__NIL) { /* one that is over is still closing */
        snic_luna_target_closed(f->target, handle, volume_server_now(s));
        r = SNIC_ENOSPC;
    }
    if (r != 0) {
        f->turned_away++;
        snic_net_abort(c);
        return;
    }
    struct volume_peer *p = front_luna_take(s, handle);
    p->k.c = c;
    p->addr = *peer;
    snic_net_bind(c, &ev, p);
}

static int front_luna_listen(struct snic_volume_server *s, struct snic_net_addr *a)
{
    int r = snic_net_listen(s->o.net, a, 0, front_luna_accept, s, &s->luna.listener);
    if (r == 0)
        return snic_net_listen_addr(s->luna.listener, a);
    s->luna.listener = NULL;
    return r;
}

static void front_luna_unlisten(struct snic_volume_server *s)
{
    if (s->luna.listener != NULL)
        snic_net_unlisten(s->luna.listener);
    s->luna.listener = NULL;
}

/* ---- Sending ---- */

static void front_luna_answer(struct snic_volume_server *s, const struct volume_req *q,
                              uint32_t status)
{
    snic_luna_target_answer(s->luna.target, &q->r, status, q->r.data_crc, SNIC_VOLUME__BUSY_US,
                            volume_server_now(s));
}

static int front_luna_read_done(struct snic_volume_server *s, const struct volume_req *q,
                                const struct snic_ebs_read_block *blocks, uint64_t cookie)
{
    return snic_luna_target_read_done(s->luna.target, &q->r, blocks, cookie, volume_server_now(s));
}

static void front_luna_act(struct snic_volume_server *s, const struct snic_luna_target_action *a)
{
    struct volume_peer *p = front_luna_find(s, a->handle);
    switch ((enum snic_luna_target_act)a->type) {
    case SNIC_LUNA_TARGET_SEND:
        volume_stream_send(p != NULL ? &p->k : NULL, &s->luna.txs, a->send);
        break;
    case SNIC_LUNA_TARGET_CLOSE:
        if (p == NULL)
            break;
        front_luna_forget(s, p);
        /* A client of another version is sent the reason, and must receive it. */
        volume_stream_end(&p->k, a->reason == SNIC_EVERSION || a->reason == SNIC_ENOTSUP);
        break;
    case SNIC_LUNA_TARGET_RESUME:
        if (p == NULL)
            break;
        p->waits = 0;
        front_luna_resume(s, p);
        break;
    default:
        break;
    }
}

static void front_luna_pump(struct snic_volume_server *s)
{
    struct snic_luna_target_action a;
    while (snic_luna_target_poll(s->luna.target, &a, 1, volume_server_now(s)) == 1)
        front_luna_act(s, &a);
    uint64_t deadline = snic_luna_target_deadline_ns(s->luna.target);
    if (deadline == SNIC_NEVER)
        snic_loop_cancel(s->o.loop, &s->luna.timer);
    else
        snic_loop_arm(s->o.loop, &s->luna.timer, deadline);
}

static void front_luna_stop(struct snic_volume_server *s)
{
    struct snic_luna_target_action a;
    front_luna_unlisten(s);
    snic_loop_cancel(s->o.loop, &s->luna.timer);
    for (uint32_t i = 0; i < s->o.streams_max; i++) {
        struct volume_peer *p = &s->luna.peers[i];
        if (!p->used)
            continue;
        front_luna_lost(s, p);
        volume_stream_end(&p->k, 0);
    }
    while (s->luna.target != NULL &&
           snic_luna_target_poll(s->luna.target, &a, 1, volume_server_now(s)) == 1)
        if (a.type == SNIC_LUNA_TARGET_SEND)
            front_luna_returned(s, a.send);
}

static int front_luna_silent(const struct snic_volume_server *s)
{
    return s->luna.txs.out == 0 && s->luna.used == 0;
}

static void front_luna_fini(struct snic_volume_server *s)
{
    if (s->luna.target != NULL)
        (void)snic_luna_target_fini(s->luna.target);
}

static void front_luna_stats(const struct snic_volume_server *s,
                             struct snic_volume_server_stats *out)
{
    out->unsent += s->luna.txs.unsent;
    out->turned_away = s->luna.turned_away;
    if (s->luna.target != NULL)
        snic_luna_target_get_stats(s->luna.target, &out->luna);
}

static int front_luna_client(const struct snic_volume_server *s, uint32_t place,
                             struct snic_volume_server_client *out)
{
    struct snic_luna_target_client c;
    if (place >= s->o.streams_max)
        return SNIC_ENOENT;
    const struct volume_peer *p = &s->luna.peers[place];
    if (!p->used || p->k.over || s->luna.target == NULL ||
        snic_luna_target_get_client(s->luna.target, p->handle, &c) != 0)
        return 0;
    memset(out, 0, sizeof(*out));
    out->transport = SNIC_VOLUME_LUNA;
    out->inside = c.frames;
    out->client_id = c.client_id;
    out->addr = p->addr;
    out->since_ns = c.since_ns;
    out->heard_ns = c.heard_ns;
    out->blocks_written = c.blocks_written;
    out->blocks_read = c.blocks_read;
    out->refused = c.refused;
    out->paths = c.path;
    out->paused = c.paused;
    return 1;
}

static int front_luna_check(const struct snic_volume_server *s)
{
    const struct volume_front_of_luna *f = &s->luna;
    uint32_t used = 0, free = 0, known = 0, live = 0;
    for (uint32_t i = 0; i < s->o.streams_max; i++) {
        const struct volume_peer *p = &f->peers[i];
        used += p->used;
        live += p->used && !p->k.over;
        if (p->used != (p->k.c != NULL) ||
            ((!p->used || p->k.over) &&
             (!snic_queue_empty(&p->held) || !snic_queue_empty(&p->k.backlog))))
            return SNIC_ECORRUPT;
        if (p->used && !p->k.over && !p->waits && !snic_queue_empty(&p->held))
            return SNIC_ECORRUPT; /* V6 */
    }
    for (uint32_t i = f->free; i != SNIC_VOLUME__NIL && free <= s->o.streams_max; free++)
        i = f->peers[i].next;
    for (uint32_t b = 0; b <= f->mask; b++)
        for (uint32_t i = f->buckets[b]; i != SNIC_VOLUME__NIL && known <= s->o.streams_max;
             known++)
            i = f->peers[i].next;
    if (used != f->used || used + free != s->o.streams_max || known != live ||
        volume_txs_check(&f->txs) != 0)
        return SNIC_ECORRUPT;
    return f->target != NULL ? snic_luna_target_check(f->target) : 0;
}

const struct volume_front volume_front_luna = {
    .wrong = front_luna_wrong,
    .layout = front_luna_layout,
    .init = front_luna_init,
    .listen = front_luna_listen,
    .unlisten = front_luna_unlisten,
    .answer = front_luna_answer,
    .read_done = front_luna_read_done,
    .pump = front_luna_pump,
    .stop = front_luna_stop,
    .silent = front_luna_silent,
    .fini = front_luna_fini,
    .stats = front_luna_stats,
    .client = front_luna_client,
    .check = front_luna_check,
};
