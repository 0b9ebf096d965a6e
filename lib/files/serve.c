/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * A host's requests, from the channel to the service and back.
 *
 * S1  A request is taken only with a context and with room for its whole response; else the
 *     message stays in the ring and is offered again. So a response never waits.
 * S2  WRITE payload goes to the device from where it lies; its token is released when the
 *     write has ended. Names and keys are copied before they are looked at, since the host
 *     can change them at any time.
 * S3  READ lands in the response's payload. What the host does to it meanwhile is its loss:
 *     nothing here reads it.
 */
#include "files/files_priv.h"
#include "files/wire.h"
#include "snicstore/channel.h"

#define SNIC_FILES__SCRATCH 8192u

/* One request in progress. */
struct files_call {
    struct snic_files_req req;
    struct snic_files_server *server;
    struct files_call *next_free;
    struct snic_channel_token token;
    struct snic_channel_slot slot;
    struct files_wire_request wire;
    const void *payload;
    uint8_t holds_token;
    char names[2 * SNIC_FILES_NAME_MAX + 2];
};

struct snic_files_server {
    struct snic_files *files;
    struct snic_channel *channel;
    struct snic_files_server_opts opts;
    struct snic_files_server_stats stats;
    struct files_call *free;
    void *mem;
    uint32_t record_max;
    uint32_t closing;
    uint32_t blocked; /* a message was not taken for want of a context */
    unsigned char scratch[SNIC_FILES__SCRATCH];
};

/* ---- Responses ---- */

static void serve_respond(struct files_call *c, const struct files_wire_response *w,
                          uint32_t payload)
{
    struct snic_files_server *s = c->server;
    unsigned char header[SNIC_FILES__RESPONSE_BYTES];
    files_wire_put_response(header, w);
    memcpy(c->slot.header, header, sizeof(header));
    snic_channel_down_commit(s->channel, &c->slot, payload);
    if (c->holds_token)
        snic_channel_release(s->channel, &c->token);
    c->next_free = s->free;
    s->free = c;
    s->stats.responses++;
    s->stats.in_progress--;
    if (s->blocked) {
        s->blocked = 0;
        snic_channel_resume(s->channel);
    }
}

static void serve_refuse(struct files_call *c, int64_t error)
{
    struct files_wire_response w;
    memset(&w, 0, sizeof(w));
    w.op = c->wire.op;
    w.id = c->wire.id;
    w.result = error;
    serve_respond(c, &w, 0);
}

/* What the hooks get to see of a READ or WRITE. */
static void serve_hook_op(const struct files_call *c, struct snic_files_hook_op *op)
{
    const struct files_wire_request *w = &c->wire;
    int whole = w->op != SNIC_FILES_FSYNC && w->whole_length == w->length;
    memset(op, 0, sizeof(*op));
    op->op = w->op == SNIC_FILES_READ ? SNIC_FILES_READ : SNIC_FILES_WRITE;
    op->priority = c->req.priority;
    op->flags = w->op == SNIC_FILES_FSYNC ? SNIC_FILES_SYNC : c->req.flags;
    op->tenant = c->req.tenant;
    op->file = w->file;
    op->offset = whole ? w->offset : w->whole_offset;
    op->length = w->whole_length;
    op->payload = whole ? c->payload : NULL;
    op->io = c->server->files->io;
    memcpy(op->tag, w->tag, sizeof(op->tag));
}

/* A WRITE, or the FSYNC at the end of a long one, has reached what it promises. */
static int serve_written(const struct files_call *c)
{
    if ((c->wire.flags & SNIC_FILES__MORE) != 0)
        return 0;
    return c->wire.op == SNIC_FILES_WRITE ||
           (c->wire.op == SNIC_FILES_FSYNC && c->wire.whole_length != 0);
}

static void serve_done(struct snic_files_req *r)
{
    struct files_call *c = SNIC_CONTAINER(r, struct files_call, req);
    struct snic_files_server *s = c->server;
    struct files_wire_response w;
    uint32_t payload = 0;
    if (r->result >= 0 && serve_written(c) && s->files->hooks.written != NULL) {
        struct snic_files_hook_op op;
        serve_hook_op(c, &op);
        s->files->hooks.written(s->files->hooks.ctx, &op);
    }
    memset(&w, 0, sizeof(w));
    w.op = c->wire.op;
    w.id = c->wire.id;
    w.result = r->result;
    w.file = r->id;
    w.size = r->size;
    w.allocated = r->allocated;
    w.cursor = r->cursor;
    w.kind = r->kind;
    w.credit = r->credit;
    if (r->result > 0 && (w.op == SNIC_FILES_READ || w.op == SNIC_FILES_LIST))
        payload = (uint32_t)r->result;
    if (r->result > 0 && w.op == SNIC_FILES_READ)
        s->stats.read_bytes += payload;
    if (r->result > 0 && w.op == SNIC_FILES_WRITE)
        s->stats.write_bytes += (uint64_t)r->result;
    serve_respond(c, &w, payload);
}

/* ---- Requests ---- */

/* Do the sizes that the host names fit the message? */
static int serve_keys_valid(const struct files_wire_request *w, uint32_t size)
{
    uint32_t each = w->key_size + w->item_size;
    if (w->key_size == 0 || w->key_size > SNIC_FILES__KEY_MAX ||
        w->item_size > SNIC_FILES__ITEM_MAX)
        return 0;
    return (uint64_t)each * w->count == size &&
           (w->op != SNIC_FILES__INVALIDATE || w->item_size == 0);
}

/* Keys and items in copies of our own, as many at a time as fit: S2. */
static int serve_keys(struct snic_files_server *s, const struct files_wire_request *w,
                      const unsigned char *payload)
{
    const struct snic_files_hooks *h = &s->files->hooks;
    uint32_t each = w->key_size + w->item_size;
    const unsigned char *items;
    uint32_t done;
    uint32_t n;
    if (w->count == 0)
        return 0;
    items = payload + (size_t)w->count * w->key_size;
    for (done = 0; done < w->count; done += n) {
        unsigned char *k = s->scratch;
        unsigned char *i;
        int rc;
        n = (uint32_t)snic_min_u64(w->count - done, SNIC_FILES__SCRATCH / each);
        i = k + (size_t)n * w->key_size;
        memcpy(k, payload + (size_t)done * w->key_size, (size_t)n * w->key_size);
        memcpy(i, items + (size_t)done * w->item_size, (size_t)n * w->item_size);
        rc = w->op == SNIC_FILES__CACHE
                 ? h->cache(h->ctx, k, w->key_size, i, w->item_size, n, w->version)
                 : h->invalidate(h->ctx, k, w->key_size, n, w->version);
        if (rc < 0)
            return rc;
    }
    return 0;
}

static int serve_cache_op(struct snic_files_server *s, const struct files_wire_request *w,
                          const struct snic_channel_msg *m)
{
    const struct snic_files_hooks *h = &s->files->hooks;
    if (w->op == SNIC_FILES__INVALIDATE_ALL)
        return h->invalidate_all != NULL ? h->invalidate_all(h->ctx, w->version) : SNIC_ENOTSUP;
    if (!serve_keys_valid(w, m->payload_bytes)) {
        s->stats.refused++;
        return SNIC_EINVAL;
    }
    if (w->op == SNIC_FILES__CACHE ? h->cache == NULL : h->invalidate == NULL)
        return SNIC_ENOTSUP;
    return serve_keys(s, w, m->payload);
}

static int serve_names(struct files_call *c, const struct snic_channel_msg *m)
{
    const struct files_wire_request *w = &c->wire;
    if (w->name_size > SNIC_FILES_NAME_MAX || w->name2_size > SNIC_FILES_NAME_MAX)
        return SNIC_ENAMETOOLONG;
    if (w->name_size + w->name2_size != m->payload_bytes)
        return SNIC_EPROTO;
    if (m->payload_bytes != 0)
        memcpy(c->names, m->payload, m->payload_bytes); /* S2 */
    c->req.name = c->names;
    c->req.name_size = w->name_size;
    c->req.name2 = c->names + w->name_size;
    c->req.name2_size = w->name2_size;
    return 0;
}

/* Fill the request; 0 or what is wrong with it. */
static int serve_fill(struct files_call *c, const struct snic_channel_msg *m)
{
    const struct files_wire_request *w = &c->wire;
    struct snic_files_req *r = &c->req;
    memset(r, 0, sizeof(*r));
    r->done = serve_done;
    r->op = w->op;
    r->priority = w->priority & 7;
    r->flags = w->flags & (uint16_t)(SNIC_FILES_SYNC | SNIC_FILES_REPLACE);
    r->tenant = c->server->opts.tenant + w->tenant;
    r->file = w->file;
    r->dir = w->dir;
    r->dir2 = w->dir2;
    r->offset = w->offset;
    r->length = w->length;
    r->region = SNIC_NO_REGION;
    memcpy(r->tag, w->tag, sizeof(r->tag));
    if (w->tenant >= c->server->opts.tenants)
        return SNIC_EPERM;
    if (w->op == SNIC_FILES_WRITE) {
        if (w->length != m->payload_bytes || w->name_size != 0 || w->name2_size != 0)
            return SNIC_EPROTO;
        r->buf.base = m->payload;
        r->buf.size = m->payload_bytes;
        r->region = m->region;
        c->payload = m->payload;
        return 0;
    }
    if (w->op == SNIC_FILES_READ || w->op == SNIC_FILES_LIST) {
        if (m->payload_bytes != 0)
            return SNIC_EPROTO;
        r->buf.base = c->slot.payload;
        r->buf.size = c->slot.payload_bytes;
        r->region = c->slot.region;
        return 0;
    }
    return serve_names(c, m);
}

/* Response payload to reserve; UINT32_MAX: over one message. */
static uint32_t serve_room(const struct snic_files_server *s, const struct files_wire_request *w)
{
    if (w->op != SNIC_FILES_READ && w->op != SNIC_FILES_LIST)
        return 0;
    return w->length > s->record_max ? UINT32_MAX : (uint32_t)w->length;
}

static int serve_run(struct snic_files_server *s, struct files_call *c,
                     const struct snic_channel_msg *m)
{
    struct snic_files_req *r = &c->req;
    int rc;
    if (c->wire.op >= SNIC_FILES__CACHE && c->wire.op <= SNIC_FILES__INVALIDATE_ALL) {
        serve_refuse(c, serve_cache_op(s, &c->wire, m));
        return 1;
    }
    rc = serve_fill(c, m);
    if (rc != 0) {
        s->stats.refused++;
        serve_refuse(c, rc);
        return 1;
    }
    if (r->op == SNIC_FILES_READ && (c->wire.flags & SNIC_FILES__CONT) == 0 &&
        s->files->hooks.read != NULL) {
        struct snic_files_hook_op op;
        serve_hook_op(c, &op);
        s->files->hooks.read(s->files->hooks.ctx, &op);
    }
    c->holds_token = r->op == SNIC_FILES_WRITE;
    c->token = m->token;
    snic_files_submit(s->files, &r, 1);
    return c->holds_token ? 0 : 1;
}

static int serve_message(void *ctx, struct snic_channel *ch, const struct snic_channel_msg *m)
{
    struct snic_files_server *s = ctx;
    struct files_call *c = s->free;
    struct files_wire_request w;
    uint32_t room;
    int rc;
    if (files_wire_get_request(&w, m->header, m->header_bytes) != 0) {
        /* Its id cannot be trusted, so no response can be addressed. */
        s->stats.refused++;
        return 1;
    }
    if (c == NULL || s->closing) { /* S1 */
        s->blocked = 1;
        return SNIC_EAGAIN;
    }
    room = serve_room(s, &w);
    rc = room == UINT32_MAX ? SNIC_EMSGSIZE
                            : snic_channel_down_reserve(ch, SNIC_FILES__TYPE_RESPONSE,
                                                        SNIC_FILES__RESPONSE_BYTES, room, &c->slot);
    if (rc == SNIC_EMSGSIZE) {
        rc = snic_channel_down_reserve(ch, SNIC_FILES__TYPE_RESPONSE, SNIC_FILES__RESPONSE_BYTES, 0,
                                       &c->slot);
        room = UINT32_MAX;
    }
    if (rc == SNIC_EAGAIN)
        return SNIC_EAGAIN;
    if (rc != 0)
        return 1; /* closed */
    s->free = c->next_free;
    c->wire = w;
    c->holds_token = 0;
    c->payload = NULL;
    s->stats.requests++;
    s->stats.in_progress++;
    if (room == UINT32_MAX) {
        s->stats.refused++;
        serve_refuse(c, SNIC_EMSGSIZE);
        return 1;
    }
    return serve_run(s, c, m);
}

static void serve_writable(void *ctx, struct snic_channel *ch)
{
    (void)ctx;
    snic_channel_resume(ch);
}

static void serve_opened(void *ctx, struct snic_channel *ch)
{
    struct snic_files_server *s = ctx;
    struct snic_channel_info info;
    snic_channel_get_info(ch, &info);
    s->record_max = info.record_max;
    if (s->opts.opened != NULL)
        s->opts.opened(s->opts.ctx, s);
}

static void serve_closed(void *ctx, struct snic_channel *ch, int reason)
{
    struct snic_files_server *s = ctx;
    (void)ch;
    if (s->opts.gone != NULL)
        s->opts.gone(s->opts.ctx, s, reason);
}

/* ---- Life ---- */

static const char *serve_wrong(const struct snic_files_server_opts *o)
{
    if (o->depth > 65536)
        return "depth: not 1..65536";
    if (o->flags != 0)
        return "flags: not 0";
    return o->tenants - 1 > UINT32_MAX - o->tenant ? "tenants: tenant + tenants is above 2^32"
                                                   : NULL;
}

static int serve_options(struct snic_files_server_opts *o, const struct snic_files_server_opts *in)
{
    memset(o, 0, sizeof(*o));
    if (snic_opts_copy(o, sizeof(*o), in) != 0)
        return SNIC_EINVAL;
    if (o->depth == 0)
        o->depth = 256;
    if (o->tenants == 0)
        o->tenants = 1;
    return serve_wrong(o) != NULL ? SNIC_EINVAL : 0;
}

const char *snic_files_server_opts_wrong(const struct snic_files_server_opts *in)
{
    struct snic_files_server_opts o;
    memset(&o, 0, sizeof(o));
    if (snic_opts_copy(&o, sizeof(o), in) != 0)
        return "opts_size: not the struct's, or an unknown option is set";
    return serve_options(&o, in) != 0 ? serve_wrong(&o) : NULL;
}

static struct snic_files_server *serve_place(struct snic_arena *a, uint32_t depth)
{
    struct snic_files_server *s = snic_arena_take(a, 1, sizeof(*s), SNIC_CACHELINE);
    struct files_call *calls = snic_arena_take(a, depth, sizeof(*calls), 64);
    uint32_t i;
    if (s == NULL || calls == NULL)
        return NULL;
    memset(s, 0, sizeof(*s));
    memset(calls, 0, depth * sizeof(*calls));
    for (i = depth; i > 0; i--) {
        calls[i - 1].server = s;
        calls[i - 1].next_free = s->free;
        s->free = &calls[i - 1];
    }
    return s;
}

size_t snic_files_server_memsize(const struct snic_files_server_opts *in)
{
    struct snic_files_server_opts o;
    struct snic_arena a;
    if (serve_options(&o, in) != 0)
        return 0;
    memset(&a, 0, sizeof(a));
    (void)serve_place(&a, o.depth);
    return a.used == SIZE_MAX ? 0 : a.used;
}

int snic_files_serve(struct snic_files_server **out, void *mem, size_t mem_size,
                     struct snic_files *f, struct snic_channel_hub *hub,
                     const struct snic_channel_offer *offer,
                     const struct snic_files_server_opts *in)
{
    struct snic_channel_accept_opts ao;
    struct snic_channel_events e;
    struct snic_files_server_opts o;
    struct snic_files_server *s;
    struct snic_arena a;
    int rc;
    if (serve_options(&o, in) != 0 || (uintptr_t)mem % SNIC_CACHELINE != 0 ||
        snic_channel_hub_dma(hub)->loop != f->loop)
        return SNIC_EINVAL;
    if (offer->kind != SNIC_FILES_CHANNEL_KIND)
        return SNIC_ECONNREFUSED;
    memset(&a, 0, sizeof(a));
    a.base = mem;
    a.size = mem_size;
    s = serve_place(&a, o.depth);
    if (s == NULL)
        return SNIC_ENOSPC;
    s->files = f;
    s->opts = o;
    s->mem = mem;
    memset(&ao, 0, sizeof(ao));
    ao.opts_size = sizeof(ao);
    ao.flags = o.channel_flags;
    ao.batch_bytes = o.batch_bytes;
    ao.budget = o.budget;
    ao.payload_align = (uint32_t)snic_max_u64(f->align, f->mem_align);
    memset(&e, 0, sizeof(e));
    e.message = serve_message;
    e.opened = serve_opened;
    e.writable = serve_writable;
    e.closed = serve_closed;
    e.ctx = s;
    rc = snic_channel_accept(&s->channel, hub, offer, &ao, &e);
    if (rc == 0)
        *out = s;
    return rc;
}

void *snic_files_server_close(struct snic_files_server *s)
{
    s->closing = 1;
    while (s->stats.in_progress > 0)
        (void)snic_loop_once(s->files->loop, SNIC_NEVER);
    snic_channel_close(s->channel);
    return s->mem;
}

void snic_files_server_get_stats(const struct snic_files_server *s,
                                 struct snic_files_server_stats *out)
{
    *out = s->stats;
}

struct snic_channel *snic_files_server_channel(const struct snic_files_server *s)
{
    return s->channel;
}
