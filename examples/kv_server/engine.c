/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * The engine: clients and the order of their messages.
 *   E1 messages of one client run in the order of their arrival; only replies to
 *      reads may be late, and the layer above restores their order.
 *   E4 while e->exclusive is set, only that client's commands run: its EXEC is under way, which
 *      waits for nothing that may not come (transaction.c).
 *   E5 a command that waits holds no other client's reads and deletions (engine_room.c).
 */
#include "engine_priv.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- Clients ---- */

static struct kv_client **client_slot(struct kv_engine *e, uint64_t id)
{
    struct kv_client **at = &e->clients[(id * 0x9e3779b97f4a7c15u >> 32) & e->client_mask];

    while (*at != NULL && (*at)->id != id)
        at = &(*at)->next;
    return at;
}

static struct kv_client *client_get(struct kv_engine *e, uint64_t id, uint64_t user)
{
    struct kv_client **at = client_slot(e, id);

    if (*at == NULL) {
        *at = calloc(1, sizeof(**at));
        if (*at == NULL)
            return NULL;
        (*at)->id = id;
        (*at)->user = user;
        if (e->settings.password[0] == 0)
            (*at)->user |= KV_WORD_AUTH; /* one that comes later is for later connections */
        (*at)->created_ns = snic_loop_now(e->opts.loop);
        snic_link_init(&(*at)->link);
        e->client_count++;
        e->connections++;
    }
    return *at;
}

int kv_message_keep(struct kv_message **first, struct kv_message **last, uint64_t seq,
                    const unsigned char *msg, size_t size)
{
    struct kv_message *m = malloc(sizeof(*m) + size);

    if (m == NULL)
        return SNIC_ENOMEM;
    m->next = NULL;
    m->seq = seq;
    m->size = size;
    memcpy(m->data, msg, size);
    if (*first == NULL)
        *first = m;
    else
        (*last)->next = m;
    *last = m;
    return 0;
}

static int client_keep(struct kv_client *c, uint64_t seq, const unsigned char *msg, size_t size)
{
    return kv_message_keep(&c->first, &c->last, seq, msg, size);
}

static void client_shift(struct kv_client *c)
{
    struct kv_message *m = c->first;

    c->first = m->next;
    free(m);
}

static void client_forget_values(struct kv_engine *e, struct kv_client *c)
{
    e->prefetched -= c->prefetched;
    c->prefetched = 0;
    while (c->fetched != NULL) {
        struct kv_fetched *f = c->fetched;

        c->fetched = f->next;
        free(f);
    }
}

static void client_free(struct kv_engine *e, struct kv_client *c)
{
    struct kv_client **at = client_slot(e, c->id);

    *at = c->next;
    snic_link_remove(&c->link);
    while (c->first != NULL)
        client_shift(c);
    client_forget_values(e, c);
    kv_transaction_free(c);
    if (e->exclusive == c)
        e->exclusive = NULL;
    if (e->large == c)
        e->large = NULL;
    free(c);
    e->client_count--;
}

/* @return 1 if others waited for its command */
static int client_close(struct kv_engine *e, struct kv_client *c)
{
    int waited = e->exclusive == c || e->large == c;

    if (e->exclusive == c && c->tx != NULL && c->tx->running) { /* its EXEC ends first */
        c->gone = 1;
        return 0;
    }
    client_free(e, c);
    return waited;
}

void kv_engine_client_closed(struct kv_engine *e, uint64_t id)
{
    struct kv_client *c = *client_slot(e, id);

    if (c == NULL)
        return;
    if (client_close(e, c))
        kv_engine_room(e);
}

void kv_each_client(struct kv_engine *e, void (*visit)(void *ctx, struct kv_client *c), void *ctx)
{
    for (uint32_t i = 0; i <= e->client_mask; i++)
        for (struct kv_client *c = e->clients[i]; c != NULL; c = c->next)
            visit(ctx, c);
}

uint64_t kv_client_argv_bytes(const struct kv_client *c)
{
    uint64_t n = 0;

    for (const struct kv_message *m = c->first; m != NULL; m = m->next)
        n += sizeof(*m) + m->size;
    return n;
}

uint64_t kv_client_bytes(const struct kv_client *c)
{
    uint64_t n = sizeof(*c) + kv_client_argv_bytes(c);

    for (const struct kv_fetched *f = c->fetched; f != NULL; f = f->next)
        n += sizeof(*f) + f->size;
    if (c->tx != NULL)
        n += sizeof(*c->tx) + c->tx->bytes + c->tx->out_room;
    return n;
}

/* ---- Running messages ---- */

static void engine_no_memory(struct kv_engine *e, uint64_t client, uint64_t seq, uint64_t user)
{
    static const char text[] = "-OOM out of memory\r\n";
    struct snic_iov iov = {(void *)(uintptr_t)text, sizeof(text) - 1};

    kv_answer(e, client, seq, user, 0, 0, &iov, 1);
}

int64_t kv_engine_args(struct kv_engine *e, const unsigned char *msg, size_t size)
{
    int64_t n;

    if (msg[0] != '*' && e->scratch_room < size) {
        unsigned char *p = realloc(e->scratch, size);

        if (p == NULL)
            return SNIC_ENOMEM;
        e->scratch = p;
        e->scratch_room = size;
    }
    n = resp_args(msg, size, e->args, e->args_room, e->scratch);
    if (n > e->args_room) {
        struct resp_arg *p = realloc(e->args, (size_t)n * sizeof(*p));

        if (p == NULL)
            return SNIC_ENOMEM;
        e->args = p;
        e->args_room = (uint32_t)n;
        n = resp_args(msg, size, e->args, e->args_room, e->scratch);
    }
    return n;
}

/* Run the message's command; @p n arguments are in e->args. */
static enum kv_outcome engine_command(struct kv_command *c, int64_t n)
{
    struct kv_engine *e = c->engine;
    enum kv_outcome outcome;

    if (n < 0) {
        char text[RESP_ERROR_MAX];
        struct resp_limits limits = {UINT32_MAX, UINT32_MAX};

        kv_put(e, text, resp_error(c->message, c->message_size, &limits, text));
        c->flags |= KV_REPLY_CLOSE;
        return KV_DONE;
    }
    if (n == 0)
        return KV_DONE; /* an empty message: an empty reply */
    if (c->client->last_command == NULL && kv_transaction_inherit(c) != 0) {
        c->flags |= KV_REPLY_CLOSE;
        return KV_DONE;
    }
    kv_store_act_for(e->store, kv_tenant_of(e->opts.tenants, c->client->user));
    outcome = kv_command_run(c);
    kv_store_act_for(e->store, KV_TENANT_SERVER);
    return outcome;
}

/* What a large command needed is not kept for ever. */
static void engine_trim(struct kv_engine *e)
{
    struct resp_arg *args;

    if (e->room > KV_BUFFER_KEEP) {
        free(e->buffer);
        e->buffer = NULL;
        e->room = 0;
    }
    if (e->args_room > KV_ARGS_KEEP && (args = malloc(KV_ARGS_INLINE * sizeof(*args))) != NULL) {
        free(e->args);
        e->args = args;
        e->args_room = KV_ARGS_INLINE;
    }
}

/* Run one message. KV_DONE or KV_LATER: it is over for the queue. */
static enum kv_outcome engine_run(struct kv_engine *e, struct kv_client *client, uint64_t seq,
                                  const unsigned char *msg, size_t size)
{
    struct kv_command c = {.engine = e, .store = e->store, .client = client, .seq = seq};
    uint64_t id = client->id;
    enum kv_outcome outcome;
    uint64_t before = client->user;
    struct snic_iov iov;
    int64_t n;

    client->wait = KV_WAIT_TURN;
    client->need.bytes = 0;
    if (e->out.bytes > KV_OUT_LIMIT || (e->exclusive != NULL && e->exclusive != client)) /* E4 */
        return KV_AGAIN;
    engine_trim(e);
    n = kv_engine_args(e, msg, size);
    c.database = (uint32_t)(client->user & KV_WORD_DATABASE);
    c.argv = e->args;
    c.argc = n > 0 ? (uint32_t)n : 0;
    c.message = msg;
    c.message_size = size;
    e->size = 0;
    e->no_memory = 0;
    e->resp3 = (client->user & KV_WORD_RESP3) != 0;
    client->used_ns = snic_loop_now(e->opts.loop);
    if (n == SNIC_ENOMEM) {
        engine_no_memory(e, id, seq, client->user);
        return KV_DONE;
    }
    if ((client->user & (KV_WORD_SILENT | KV_WORD_SKIP)) != 0)
        c.flags |= KV_REPLY_SILENT | ((client->user & KV_WORD_SKIP) != 0 ? KV_REPLY_USER : 0);
    client->user &= ~KV_WORD_SKIP;
    if (client->killed)
        c.flags |= KV_REPLY_CLOSE;
    outcome = client->killed ? KV_DONE : engine_command(&c, n);
    if (outcome == KV_AGAIN || outcome == KV_FETCH) { /* it runs again as it was */
        client->user |= before & KV_WORD_SKIP;
        return outcome;
    }
    client_forget_values(e, client);
    client->space_ns = 0;
    if (e->large == client)
        e->large = NULL;
    if (outcome != KV_DONE)
        return outcome;
    if (e->no_memory) {
        engine_no_memory(e, id, seq, client->user);
        return KV_DONE;
    }
    iov.base = e->buffer;
    iov.size = e->size;
    kv_answer(e, id, seq, client->user, c.flags, c.need, &iov, 1);
    return KV_DONE;
}

int kv_client_drain(struct kv_engine *e, struct kv_client *c)
{
    while (c->first != NULL && c->fetching == 0) {
        struct kv_message *m = c->first;
        enum kv_outcome o = engine_run(e, c, m->seq, m->data, m->size);

        if (o == KV_AGAIN)
            return 0;
        if (o == KV_FETCH)
            return 1;
        client_shift(c);
        if (c->gone && e->exclusive != c) { /* the rest of its messages is dropped */
            client_free(e, c);
            return 1;
        }
    }
    return 1;
}

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
    struct kv_client *c = client_get(e, client, user);
    enum kv_outcome o = KV_FETCH; /* behind others of its client */

    if (c == NULL || size == 0) {
        engine_no_memory(e, client, seq, user);
        return 0;
    }
    if (c->first == NULL) /* E1 */
        o = engine_run(e, c, seq, msg, size);
    if (o == KV_DONE || o == KV_LATER)
        return 0;
    if (client_keep(c, seq, msg, size) != 0) {
        engine_no_memory(e, client, seq, user);
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
    struct kv_client *c = *client_slot(e, r->user);
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

int kv_value_at_hand(struct kv_command *c, const struct kv_entry *entry,
                     const unsigned char **value, uint32_t *size)
{
    const struct kv_fetched *f = c->client->fetched;

    *value = kv_store_value(c->store, entry);
    *size = entry->value_size;
    if (*value != NULL)
        return 1;
    while (f != NULL && f->version != entry->version)
        f = f->next;
    if (f == NULL)
        return 0;
    *value = f->value;
    *size = f->size;
    return f->error != 0 ? f->error : 1;
}

enum kv_outcome kv_fetch(struct kv_command *c, const struct kv_entry *entry)
{
    if (kv_store_read(c->store, entry, c->spec->write, engine_fetched, c->engine, c->client->id) !=
        0) {
        kv_put_store_error(c->engine, SNIC_ENOMEM);
        return KV_LATER;
    }
    c->client->fetching++;
    return KV_FETCH;
}

enum kv_outcome kv_value_to_modify(struct kv_command *c, const struct kv_entry *entry,
                                   const unsigned char **value, uint32_t *size)
{
    int r = kv_value_at_hand(c, entry, value, size);

    if (r == 0)
        return kv_fetch(c, entry);
    if (r == 1)
        return KV_DONE;
    kv_put_error(c->engine, "ERR reading the value failed: %s", snic_strerror(r));
    return KV_LATER;
}

void kv_depends(struct kv_command *c, uint64_t end)
{
    if (end > c->need)
        c->need = end;
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
            client_free(e, e->clients[i]);
    kv_out_drop(e);
    free(e->clients);
    free(e->absent);
    free(e->buffer);
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

const struct kv_settings *kv_engine_settings(const struct kv_engine *e)
{
    return &e->settings;
}

void kv_engine_reset_stats(struct kv_engine *e)
{
    memset(&e->stats, 0, sizeof(e->stats));
    e->connections = 0;
}

void kv_engine_get_stats(const struct kv_engine *e, struct kv_engine_stats *out)
{
    struct kv_engine_stats s;

    kv_store_get_stats(e->store, &s);
    s.commands = e->stats.commands;
    s.gets = e->stats.gets;
    s.hits = e->stats.hits;
    s.misses = e->stats.misses;
    s.sets = e->stats.sets;
    s.errors += e->stats.errors;
    s.query_limit = e->stats.query_limit;
    s.auth_failures = e->stats.auth_failures;
    s.clients = e->client_count;
    *out = s;
}
