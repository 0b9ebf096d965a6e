/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * What the engine puts out: the reply of the running command, and the replies and
 * invalidations that go up.
 *   E2 what goes up keeps its order: once something waits in `out`, everything
 *      goes through it.
 *   E3 `held` is ordered by need; a reply with need > durable is not in `out`.
 */
#include "engine_priv.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- Output of the running command ---- */

void kv_put(struct kv_engine *e, const void *data, size_t size)
{
    resp_put(&e->reply, data, size);
}

void kv_put_before(struct kv_engine *e, size_t at, const void *data, size_t size)
{
    resp_put_before(&e->reply, at, data, size);
}

void kv_put_text(struct kv_engine *e, const char *text)
{
    resp_put_text(&e->reply, text);
}

void kv_put_format(struct kv_engine *e, const char *format, ...)
{
    va_list ap;

    va_start(ap, format);
    resp_put_vformat(&e->reply, format, ap);
    va_end(ap);
}

void kv_put_count(struct kv_engine *e, char type, int64_t n)
{
    resp_put_count(&e->reply, type, n);
}

void kv_put_help(struct kv_engine *e, const char *const *lines, size_t count)
{
    resp_put_help(&e->reply, lines, count);
}

void kv_put_integer(struct kv_engine *e, int64_t n)
{
    resp_put_count(&e->reply, ':', n);
}

void kv_put_bulk(struct kv_engine *e, const void *data, size_t size)
{
    resp_put_bulk(&e->reply, data, size);
}

void kv_put_bulk_text(struct kv_engine *e, const char *text)
{
    resp_put_bulk(&e->reply, text, strlen(text));
}

void kv_put_map(struct kv_command *c, int64_t n)
{
    resp_put_map(&c->engine->reply, n);
}

void kv_put_set(struct kv_engine *e, int64_t n)
{
    resp_put_set(&e->reply, n);
}

void kv_put_null(struct kv_engine *e)
{
    resp_put_null(&e->reply);
}

void kv_put_null_array(struct kv_engine *e)
{
    resp_put_null_array(&e->reply);
}

void kv_put_verbatim(struct kv_engine *e, const void *data, size_t size)
{
    resp_put_verbatim(&e->reply, data, size);
}

void kv_put_error(struct kv_engine *e, const char *format, ...)
{
    va_list ap;

    va_start(ap, format);
    resp_put_verror(&e->reply, format, ap);
    va_end(ap);
}

void kv_put_store_error(struct kv_engine *e, int error)
{
    if (error == SNIC_ENOSPC)
        kv_put_error(e, "ERR no space left on the device: delete keys, or wait for compaction");
    else if (error == SNIC_ENOMEM)
        kv_put_error(e, "OOM out of memory");
    else if (error == SNIC_EMSGSIZE)
        kv_put_error(e,
                     "ERR the command writes more than fits into the %llu bytes of --memory at "
                     "once: split it",
                     (unsigned long long)e->opts.memory_bytes);
    else
        kv_put_error(e, "MISCONF Errors writing to the log: %s", snic_strerror(error));
}

/* ---- What goes up ---- */

static void out_append(struct kv_out_queue *q, struct kv_out *o)
{
    o->next = NULL;
    if (q->first == NULL)
        q->first = o;
    else
        q->last->next = o;
    q->last = o;
    q->bytes += sizeof(*o) + o->size;
}

static struct kv_out *out_pop(struct kv_out_queue *q)
{
    struct kv_out *o = q->first;

    q->first = o->next;
    q->bytes -= sizeof(*o) + o->size;
    return o;
}

static int out_try(struct kv_engine *e, const struct kv_out *o)
{
    const struct kv_engine_events *v = &e->opts.events;
    struct snic_iov iov = {(void *)(uintptr_t)o->data, o->size};

    switch ((enum kv_out_kind)o->kind) {
    case KV_OUT_INVALIDATE:
        return v->invalidate(v->ctx, o->hash, o->need);
    case KV_OUT_INVALIDATE_ALL:
        return v->invalidate_all(v->ctx, o->need);
    case KV_OUT_REPLY:
        break;
    }
    return v->reply(v->ctx, o->client, o->seq, &iov, 1, o->flags, o->user);
}

static struct kv_out *out_make(size_t size)
{
    struct kv_out *o = calloc(1, sizeof(*o) + size);

    if (o == NULL) {
        /* A reply that cannot be kept would leave its client waiting for ever. */
        fputs("kv_server: out of memory for a reply: aborting\n", stderr);
        abort();
    }
    o->size = size;
    return o;
}

static struct kv_out *out_reply(uint64_t client, uint64_t seq, uint64_t user, uint32_t flags,
                                const struct snic_iov *iov, uint32_t count)
{
    size_t size = 0;
    struct kv_out *o;

    for (uint32_t i = 0; i < count; i++)
        size += iov[i].size;
    o = out_make(size);
    o->kind = KV_OUT_REPLY;
    o->client = client;
    o->seq = seq;
    o->user = user;
    o->flags = flags;
    size = 0;
    for (uint32_t i = 0; i < count; i++) {
        memcpy(o->data + size, iov[i].base, iov[i].size);
        size += iov[i].size;
    }
    return o;
}

void kv_answer(struct kv_engine *e, uint64_t client, uint64_t seq, uint64_t user, uint32_t flags,
               uint64_t need, const struct snic_iov *iov, uint32_t count)
{
    const struct kv_engine_events *v = &e->opts.events;

    if ((flags & KV_REPLY_SILENT) != 0) /* the message is answered, with nothing */
        count = 0;
    flags &= ~KV_REPLY_SILENT;
    if (need > kv_store_durable(e->store)) { /* R9 */
        struct kv_out *o = out_reply(client, seq, user, flags, iov, count);

        o->need = need;
        if (e->held.first != NULL && e->held.last->need > need)
            o->need = e->held.last->need; /* E3 */
        out_append(&e->held, o);
        return;
    }
    if (e->out.first == NULL && v->reply(v->ctx, client, seq, iov, count, flags, user) == 0)
        return;
    out_append(&e->out, out_reply(client, seq, user, flags, iov, count)); /* E2 */
}

static void out_invalidate(void *ctx, const unsigned char hash[16], uint64_t version)
{
    struct kv_engine *e = ctx;
    const struct kv_engine_events *v = &e->opts.events;
    struct kv_out *o;

    if (v->invalidate == NULL)
        return;
    if (e->out.first == NULL && v->invalidate(v->ctx, hash, version) == 0)
        return;
    o = out_make(0);
    o->kind = KV_OUT_INVALIDATE;
    o->need = version;
    memcpy(o->hash, hash, 16);
    out_append(&e->out, o);
}

static void out_invalidate_all(void *ctx, uint64_t version)
{
    struct kv_engine *e = ctx;
    const struct kv_engine_events *v = &e->opts.events;
    struct kv_out *o;

    if (v->invalidate_all == NULL)
        return;
    if (e->out.first == NULL && v->invalidate_all(v->ctx, version) == 0)
        return;
    o = out_make(0);
    o->kind = KV_OUT_INVALIDATE_ALL;
    o->need = version;
    out_append(&e->out, o);
}

static int out_cache(void *ctx, const unsigned char hash[16], const struct kv_item *item,
                     uint64_t version)
{
    struct kv_engine *e = ctx;
    const struct kv_engine_events *v = &e->opts.events;

    if (e->out.first != NULL) /* E2: an invalidation of this key may be waiting there */
        return SNIC_EAGAIN;
    return v->cache(v->ctx, hash, item, version);
}

static void out_durable(void *ctx, uint64_t address)
{
    struct kv_engine *e = ctx;

    while (e->held.first != NULL && e->held.first->need <= address) {
        struct kv_out *o = out_pop(&e->held);

        if (e->out.first == NULL && out_try(e, o) == 0)
            free(o);
        else
            out_append(&e->out, o);
    }
}

/* Log writes have failed for long: the held replies' outcome is unknown. */
static void out_failed(void *ctx, int error)
{
    struct kv_engine *e = ctx;
    char text[160];
    struct snic_iov iov = {text, 0};

    iov.size = (size_t)snprintf(text, sizeof(text),
                                "-MISCONF Errors writing to the log: %s; outcome unknown\r\n",
                                snic_strerror(error));
    while (e->held.first != NULL) {
        struct kv_out *o = out_pop(&e->held);

        kv_answer(e, o->client, o->seq, o->user, o->flags, 0, &iov, 1);
        free(o);
    }
}

void kv_out_events(struct kv_engine *e, struct kv_store_opts *s)
{
    s->invalidate = out_invalidate;
    s->invalidate_all = out_invalidate_all;
    s->cache = e->opts.events.cache != NULL ? out_cache : NULL;
    s->durable = out_durable;
    s->failed = out_failed;
}

int kv_out_send(struct kv_engine *e)
{
    while (e->out.first != NULL) {
        if (out_try(e, e->out.first) != 0)
            return SNIC_EAGAIN;
        free(out_pop(&e->out));
    }
    return 0;
}

void kv_out_drop(struct kv_engine *e)
{
    while (e->out.first != NULL)
        free(out_pop(&e->out));
    while (e->held.first != NULL)
        free(out_pop(&e->held));
}
