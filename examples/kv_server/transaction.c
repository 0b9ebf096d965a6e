/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* What a client's transaction holds: the queue of MULTI, and watched keys. */
#include "engine_priv.h"

#include <stdlib.h>
#include <string.h>

struct kv_transaction *kv_transaction_get(struct kv_engine *e, struct kv_client *c)
{
    if (c->tx == NULL) {
        c->tx = calloc(1, sizeof(*c->tx));
        if (c->tx != NULL)
            c->tx->engine = e;
    }
    return c->tx;
}

static void transaction_forget_queue(struct kv_transaction *t)
{
    while (t->first != NULL) {
        struct kv_message *m = t->first;

        t->first = m->next;
        free(m);
    }
    free(t->out);
    t->last = NULL;
    t->at = NULL;
    t->out = NULL;
    t->out_size = t->out_room = 0;
    t->out_lost = 0;
    t->open = t->failed = t->running = t->fetched = 0;
    t->count = 0;
    t->bytes = 0;
    t->need = 0;
    t->flags = 0;
}

/* ---- Watched keys that were absent ---- */

struct snic_link *kv_watch_list(struct kv_engine *e, uint32_t database, const void *key,
                                uint32_t key_size)
{
    unsigned char hash[16];

    kv_key_hash(hash, e->opts.hash_seed, database, key, key_size);
    return &e->absent[snic_get_le64(hash) & (KV_WATCH_LISTS - 1)];
}

static void watch_unlink(struct kv_engine *e, struct kv_watch *w)
{
    if (w->version != 0)
        return;
    snic_link_remove(&w->link);
    e->absent_count--;
}

void kv_watch_created(void *ctx, uint32_t database, const void *key, uint32_t key_size)
{
    struct kv_engine *e = ctx;
    struct snic_link *list;

    if (e->absent_count == 0)
        return;
    list = kv_watch_list(e, database, key, key_size);
    for (struct snic_link *l = list->next; l != list; l = l->next) {
        struct kv_watch *w = SNIC_CONTAINER(l, struct kv_watch, link);

        if (w->database == database && w->size == key_size && memcmp(w->key, key, key_size) == 0)
            w->created = 1;
    }
}

void kv_watch_swapped(struct kv_engine *e, uint32_t database)
{
    for (uint32_t i = 0; e->absent_count > 0 && i < KV_WATCH_LISTS; i++)
        for (struct snic_link *l = e->absent[i].next; l != &e->absent[i]; l = l->next) {
            struct kv_watch *w = SNIC_CONTAINER(l, struct kv_watch, link);

            if (w->database == database &&
                kv_store_find(e->store, database, w->key, w->size) != NULL)
                w->created = 1;
        }
}

void kv_transaction_forget_watched(struct kv_transaction *t)
{
    while (t->watched != NULL) {
        struct kv_watch *w = t->watched;

        t->watched = w->next;
        watch_unlink(t->engine, w);
        free(w);
    }
    t->watch_lost = 0;
}

void kv_transaction_forget(struct kv_client *c)
{
    c->user &= ~(KV_WORD_MULTI | KV_WORD_WATCH);
    if (c->tx == NULL)
        return;
    transaction_forget_queue(c->tx);
    kv_transaction_forget_watched(c->tx);
}

void kv_transaction_free(struct kv_client *c)
{
    kv_transaction_forget(c);
    free(c->tx);
    c->tx = NULL;
}

void kv_transaction_fail(struct kv_client *c)
{
    if (c->tx != NULL && c->tx->open)
        c->tx->failed = 1;
}

int kv_transaction_inherit(struct kv_command *c)
{
    struct kv_client *client = c->client;
    const struct resp_arg *name = &c->argv[0];
    struct kv_transaction *t;

    if ((client->user & (KV_WORD_MULTI | KV_WORD_WATCH)) == 0)
        return 0;
    t = kv_transaction_get(c->engine, client);
    if (t == NULL) {
        kv_put_store_error(c->engine, SNIC_ENOMEM);
        return -1;
    }
    t->watch_lost = (client->user & KV_WORD_WATCH) != 0;
    if ((client->user & KV_WORD_MULTI) == 0 || resp_arg_is(name, "reset") ||
        resp_arg_is(name, "quit"))
        return 0;
    if (resp_arg_is(name, "multi")) { /* the DPU set the bit when it saw this message */
        client->user &= ~KV_WORD_MULTI;
        return 0;
    }
    if (resp_arg_is(name, "exec") || resp_arg_is(name, "discard")) {
        t->open = t->failed = 1;
        return 0;
    }
    kv_put_error(c->engine, "ABORTED the host role was restarted and does not have this "
                            "connection's transaction: connect again and repeat it");
    return -1;
}

void kv_transaction_queue(struct kv_command *c)
{
    struct kv_engine *e = c->engine;
    struct kv_transaction *t = c->client->tx;

    t->bytes += c->message_size + sizeof(struct kv_message);
    if (t->bytes > e->settings.query) {
        kv_put_error(e, "ERR the queued commands exceed client-query-buffer-limit");
        e->stats.query_limit++;
        c->flags |= KV_REPLY_CLOSE;
        t->failed = 1;
    } else if (kv_message_keep(&t->first, &t->last, c->seq, c->message, c->message_size) != 0) {
        kv_put_store_error(e, SNIC_ENOMEM);
        t->failed = 1;
    } else {
        t->count++;
        kv_put_text(e, "+QUEUED\r\n");
    }
}
