/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * The engine: clients and the order of their messages.
 *   E1 messages of one client run in the order of their arrival; only replies to
 *      reads may be late, and the layer above restores their order.
 *   E4 while e->exclusive is set, only that client's commands run: its EXEC is under way, which
 *      waits for nothing that may not come (command_transaction.c).
 *   E5 a command that waits holds no other client's reads and deletions
 *      (command_write.c).
 */
#include "engine_priv.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- Clients ---- */

/* @return 1 if others waited for its command */
static int client_close(struct kv_engine *e, struct kv_client *c)
{
    int waited = e->exclusive == c || e->large == c;

    if (e->exclusive == c && c->tx != NULL && c->tx->running) { /* its EXEC ends first */
        c->gone = 1;
        return 0;
    }
    kv_client_free(e, c);
    return waited;
}

void kv_engine_client_closed(struct kv_engine *e, uint64_t id)
{
    struct kv_client *c = kv_client_find(e, id);

    if (c == NULL)
        return;
    if (client_close(e, c))
        kv_engine_room(e);
}

/* ---- Running messages ---- */

static void engine_wait(struct kv_engine *e, struct kv_client *c)
{
    if (snic_link_alone(&c->link))
        snic_link_append(&e->waiting, &c->link);
}

static void engine_store_room(void *ctx)
{
    kv_engine_room(ctx);
}

int kv_engine_message(struct kv_engine *e, uint64_t client, uint64_t seq, uint64_t user,
                      const unsigned char *msg, size_t size)
{
    struct kv_client *c = kv_client_get(e, client, user);
    enum kv_outcome o = KV_FETCH; /* behind others of its client */

    if (c == NULL || size == 0) {
        kv_engine_no_memory(e, client, seq, user);
        return 0;
    }
    if (c->first == NULL) /* E1 */
        o = kv_engine_run(e, c, seq, msg, size);
    if (o == KV_DONE || o == KV_LATER)
        return 0;
    if (kv_message_keep(&c->first, &c->last, seq, msg, size) != 0) {
        kv_engine_no_memory(e, client, seq, user);
        return 0;
    }
    if (o == KV_AGAIN)
        engine_wait(e, c);
    return 1;
}

/* ---- Values for modifying commands ---- */

static void engine_fetched(struct kv_read *r)
{
    struct kv_engine *e = r->ctx;
    struct kv_client *c = kv_client_find(e, r->user);
    uint32_t size = r->result == 0 ? r->value_size : 0;
    struct kv_fetched *f;

    if (c == NULL || c->fetching == 0)
        return; /* the client went away */
    c->fetching--;
    f = malloc(sizeof(*f) + size);
    if (f == NULL) { /* the next run reads it again; this one is not answered with nothing */
        e->stats.errors++;
    } else {
        f->version = r->version;
        f->error = r->result;
        f->size = size;
        if (size > 0)
            memcpy(f->value, r->value, size);
        f->next = c->fetched;
        c->fetched = f;
    }
    if (c->fetching > 0)
        return;
    if (!kv_client_drain(e, c))
        engine_wait(e, c);
    else if (e->exclusive == NULL)
        kv_engine_room(e); /* if it had the engine for itself, others wait */
}

/* ---- Open, close ---- */

static void engine_log(void *ctx, int level, const char *text)
{
    struct kv_engine *e = ctx;

    if (e->opts.log != NULL)
        e->opts.log(e->opts.ctx, level, text);
}

static void engine_store_opts(struct kv_engine *e, struct kv_store_opts *s)
{
    const struct kv_engine_opts *o = &e->opts;

    memset(s, 0, sizeof(*s));
    s->loop = o->loop;
    s->files = o->files;
    s->files_ctx = o->files_ctx;
    s->sync = o->sync;
    s->sync_interval_ms = o->sync_interval_ms;
    s->memory_bytes = o->memory_bytes;
    s->segment_bytes = o->segment_bytes;
    s->device_bytes = o->device_bytes;
    s->name = o->name;
    s->databases = o->databases;
    s->key_max = o->key_max;
    s->value_max = o->value_max;
    s->hash_seed[0] = o->hash_seed[0];
    s->hash_seed[1] = o->hash_seed[1];
    s->hook_bytes_max = o->hook_bytes_max;
    s->cache_memory = o->cache_memory;
    s->flush_bytes_max = o->flush_bytes_max;
    s->room = engine_store_room;
    s->log = engine_log;
    s->created = kv_watch_created;
    s->ctx = e;
    kv_out_events(e, s);
}

static void engine_free(struct kv_engine *e)
{
    for (uint32_t i = 0; e->clients != NULL && i <= e->client_mask; i++)
        while (e->clients[i] != NULL)
            kv_client_free(e, e->clients[i]);
    kv_out_drop(e);
    free(e->clients);
    free(e->absent);
    free(e->reply.data);
    free(e->args);
    free(e->scratch);
    free(e->scripts);
    kv_slow_free(e);
    free(e);
}

int kv_engine_open(struct kv_engine **out, const struct kv_engine_opts *o, char *error,
                   size_t error_size)
{
    struct kv_engine *e = calloc(1, sizeof(*e));
    struct kv_store_opts s;
    int r;

    snprintf(error, error_size, "out of memory for the engine");
    if (e == NULL)
        return SNIC_ENOMEM;
    e->opts = *o;
    if (e->opts.databases == 0)
        e->opts.databases = 16;
    if (e->opts.value_max == 0)
        e->opts.value_max = 8u << 20;
    if (e->opts.key_max == 0)
        e->opts.key_max = 64u << 10;
    e->settings = o->settings;
    e->fetched = engine_fetched;
    e->freed = kv_engine_room;
    e->commands = kv_command_table(&e->commands_count);
    snic_link_init(&e->waiting);
    e->client_mask = 4095;
    e->clients = calloc(e->client_mask + 1, sizeof(*e->clients));
    e->absent = calloc(KV_WATCH_LISTS, sizeof(*e->absent));
    e->args_room = KV_ARGS_INLINE;
    e->args = calloc(e->args_room, sizeof(*e->args));
    e->started_ns = snic_loop_now(o->loop);
    e->random = o->hash_seed[0] ^ (uint64_t)(uintptr_t)e;
    if (e->clients == NULL || e->args == NULL || e->absent == NULL) {
        engine_free(e);
        return SNIC_ENOMEM;
    }
    for (uint32_t i = 0; i < KV_WATCH_LISTS; i++)
        snic_link_init(&e->absent[i]);
    engine_store_opts(e, &s);
    r = kv_store_open(&e->store, &s, error, error_size);
    if (r != 0) {
        engine_free(e);
        return r;
    }
    *out = e;
    return 0;
}

int kv_engine_finish(struct kv_engine *e, uint64_t patience_ns)
{
    return kv_store_finish(e->store, patience_ns);
}

int kv_engine_close(struct kv_engine *e)
{
    int r = kv_store_close(e->store);

    engine_free(e);
    return r;
}

void kv_engine_writable(struct kv_engine *e)
{
    if (kv_out_send(e) != 0)
        return;
    kv_store_resume_cache(e->store);
    kv_engine_room(e);
}

void kv_engine_detach(struct kv_engine *e)
{
    kv_store_detach(e->store);
    /* The clients of a dead DPU are gone, and so is its cache. */
    kv_out_drop(e);
    for (uint32_t i = 0; i <= e->client_mask; i++)
        for (struct kv_client *c = e->clients[i], *next; c != NULL; c = next) {
            next = c->next;
            (void)client_close(e, c);
        }
}

void kv_engine_attach(struct kv_engine *e, const struct kv_files_ops *files, void *files_ctx)
{
    kv_store_attach(e->store, files, files_ctx);
}

uint64_t kv_engine_version(const struct kv_engine *e)
{
    return kv_store_version(e->store);
}

const struct resp_settings *kv_engine_settings(const struct kv_engine *e)
{
    return &e->settings;
}
