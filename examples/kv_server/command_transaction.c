/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * Transactions: MULTI, EXEC, DISCARD, WATCH, UNWATCH.
 *   T1 from the first command of an EXEC to its last the engine is this client's
 *      (e->exclusive): what others send waits. Before that it waits for room in the log for
 *      its writes, as far as it is known, and reads the values that it needs from the device, so
 *      that the commands follow one another without a wait where memory allows. A write that then
 *      finds the device full is answered with an error at once.
 *   T2 an EXEC that has begun ends, also when its client goes away meanwhile.
 *   T3 a connection that was in a transaction with a host before this one has lost its queue: no
 *      command of it is run as if there were no transaction.
 *   T4 each command is records of its own in the log, which is durable from its start on: after a
 *      power failure or the process' death an EXEC that was not acknowledged, and a command of
 *      several keys, may be there in part, its first records without its last. Redis drops such a
 *      transaction when it loads its append-only file. Compaction's copies lie between the
 *      records, and the unwritten tail is changed in place, so that a mark at the end would not
 *      suffice.
 */
#include "engine_priv.h"

#include <stdlib.h>
#include <string.h>

/* ---- MULTI, DISCARD ---- */

enum kv_outcome kv_cmd_multi(struct kv_command *c)
{
    struct kv_transaction *t = kv_transaction_get(c->engine, c->client);

    if (t == NULL) {
        kv_put_store_error(c->engine, SNIC_ENOMEM);
    } else if (t->open) {
        kv_put_error(c->engine, "ERR MULTI calls can not be nested");
    } else {
        t->open = 1;
        c->client->user |= KV_WORD_MULTI;
        c->flags |= KV_REPLY_USER;
        kv_put_text(c->engine, "+OK\r\n");
    }
    return KV_DONE;
}

enum kv_outcome kv_cmd_discard(struct kv_command *c)
{
    if (c->client->tx == NULL || !c->client->tx->open) {
        kv_put_error(c->engine, "ERR DISCARD without MULTI");
        return KV_DONE;
    }
    kv_transaction_forget(c->client);
    c->flags |= KV_REPLY_USER;
    kv_put_text(c->engine, "+OK\r\n");
    return KV_DONE;
}

/* ---- WATCH, UNWATCH ---- */

/* Is the key watched already? Watching it again does not make a change undone. */
static int transaction_watches(const struct kv_transaction *t, uint32_t database,
                               const struct resp_arg *key)
{
    const struct kv_watch *w = t->watched;

    while (w != NULL && (w->database != database || w->size != key->size ||
                         memcmp(w->key, key->data, key->size) != 0))
        w = w->next;
    return w != NULL;
}

enum kv_outcome kv_cmd_watch(struct kv_command *c)
{
    struct kv_transaction *t = kv_transaction_get(c->engine, c->client);

    if (t == NULL) {
        kv_put_store_error(c->engine, SNIC_ENOMEM);
        return KV_DONE;
    }
    if (t->open) {
        kv_put_error(c->engine, "ERR WATCH inside MULTI is not allowed");
        return KV_DONE;
    }
    for (uint32_t i = 1; i < c->argc; i++) {
        const struct resp_arg *key = &c->argv[i];
        struct kv_entry *e;
        struct kv_watch *w;

        if (transaction_watches(t, c->database, key))
            continue;
        e = kv_command_peek(c, i);
        w = malloc(sizeof(*w) + key->size);
        if (w == NULL) {
            c->engine->reply.size = 0;
            kv_put_store_error(c->engine, SNIC_ENOMEM);
            return KV_DONE;
        }
        w->version = e != NULL ? e->version : 0;
        w->database = c->database;
        w->size = key->size;
        w->created = 0;
        memcpy(w->key, key->data, key->size);
        if (w->version == 0) {
            snic_link_append(kv_watch_list(c->engine, w->database, w->key, w->size), &w->link);
            c->engine->absent_count++;
        }
        w->next = t->watched;
        t->watched = w;
    }
    if ((c->client->user & KV_WORD_WATCH) == 0)
        c->flags |= KV_REPLY_USER;
    c->client->user |= KV_WORD_WATCH;
    kv_put_text(c->engine, "+OK\r\n");
    return KV_DONE;
}

enum kv_outcome kv_cmd_unwatch(struct kv_command *c)
{
    if (c->client->tx != NULL)
        kv_transaction_forget_watched(c->client->tx);
    if ((c->client->user & KV_WORD_WATCH) != 0)
        c->flags |= KV_REPLY_USER;
    c->client->user &= ~KV_WORD_WATCH;
    kv_put_text(c->engine, "+OK\r\n");
    return KV_DONE;
}

/* Has a watched key changed? The reply then depends on what changed it (R9). */
static int transaction_touched(struct kv_command *c)
{
    const struct kv_transaction *t = c->client->tx;

    for (const struct kv_watch *w = t->watched; w != NULL; w = w->next) {
        struct resp_arg key = {w->key, w->size};
        const struct kv_entry *e = kv_command_lookup(c, w->database, &key, 0);

        if (w->created || (e != NULL ? e->version : 0) != w->version)
            return 1;
    }
    return t->watch_lost;
}

/* ---- EXEC ---- */

/* The queued command @p m as one to run. 0; SNIC_ENOMEM */
static int transaction_command(struct kv_command *c, const struct kv_message *m,
                               struct kv_command *out)
{
    int64_t n = kv_engine_args(c->engine, m->data, m->size);

    if (n <= 0)
        return SNIC_ENOMEM; /* it was taken apart before */
    *out = (struct kv_command){.engine = c->engine, .store = c->store, .client = c->client};
    out->seq = c->seq;
    out->database = (uint32_t)(c->client->user & KV_WORD_DATABASE);
    out->argv = c->engine->args;
    out->argc = (uint32_t)n;
    out->message = m->data;
    out->message_size = m->size;
    out->in_exec = 1;
    return 0;
}

/* Read what the queue will want from the device, as far as it is known. KV_DONE; KV_FETCH */
static enum kv_outcome transaction_fetch(struct kv_command *c)
{
    struct kv_engine *engine = c->engine;
    uint32_t before = c->client->fetching;

    for (struct kv_message *m = c->client->tx->first; m != NULL; m = m->next) {
        struct kv_command sub;
        const struct kv_command_spec *s;

        if (transaction_command(c, m, &sub) != 0)
            continue;
        s = kv_command_find(c->engine, sub.argv[0].data, sub.argv[0].size);
        sub.spec = s;
        if (s == NULL || s->first_key == 0)
            continue;
        for (uint32_t i = s->first_key; i < sub.argc; i += s->step) {
            struct kv_entry *e;
            const unsigned char *value;
            uint32_t size;

            if ((s->last_key > 0 && i > (uint32_t)s->last_key) ||
                engine->prefetched > KV_PREFETCH_MAX)
                break;
            e = kv_store_find(c->store, sub.database, sub.argv[i].data, sub.argv[i].size);
            if (e == NULL || kv_value_at_hand(&sub, e, &value, &size) != 0)
                continue;
            if (kv_fetch(&sub, e) != KV_FETCH)
                break;
            c->client->prefetched += e->value_size;
            engine->prefetched += e->value_size;
        }
    }
    c->engine->reply.size = 0;
    return c->client->fetching > before ? KV_FETCH : KV_DONE;
}

/* Add what the queued command @p m may write, about; @return 1: it writes values, too */
static int transaction_bytes(struct kv_command *c, const struct kv_message *m, struct kv_need *n)
{
    uint64_t most = kv_record_bytes(c->engine->opts.key_max, c->engine->opts.value_max);
    uint64_t bytes = m->size;
    struct kv_command sub;
    const struct kv_command_spec *s;
    int deletes;

    if (transaction_command(c, m, &sub) != 0)
        return 0;
    s = kv_command_find(c->engine, sub.argv[0].data, sub.argv[0].size);
    if (s == NULL || !s->write)
        return 0;
    deletes = s->run == kv_cmd_del || s->run == kv_cmd_getdel || s->run == kv_cmd_flush;
    for (uint32_t i = s->first_key; s->first_key != 0 && i < sub.argc; i += s->step) {
        const struct kv_entry *e;

        if (s->last_key > 0 && i > (uint32_t)s->last_key)
            break;
        e = deletes ? NULL
                    : kv_store_find(c->store, sub.database, sub.argv[i].data, sub.argv[i].size);
        bytes += kv_record_bytes(0, e != NULL ? e->value_size : 0);
    }
    n->bytes += bytes;
    n->record = snic_max_u64(n->record, snic_min_u64(bytes, most));
    return !deletes;
}

/* Does EXEC wait for room in the log for the queue's writes? After KV_SPACE_NS it begins without,
   and the writes that find no space answer with an error. */
static int transaction_room_waits(struct kv_command *c)
{
    struct kv_need n = {0, 0, 1};

    for (const struct kv_message *m = c->client->tx->first; m != NULL; m = m->next)
        if (transaction_bytes(c, m, &n))
            n.deletes = 0;
    c->engine->reply.size = 0;
    return n.bytes != 0 && kv_command_room(c, n.bytes, n.record, n.deletes) == SNIC_EAGAIN &&
           kv_command_waits(c);
}

/* Keep the reply of the command that has run. */
static void transaction_keep(struct kv_engine *e, struct kv_transaction *t)
{
    uint64_t most = e->settings.out[0].hard;

    if (e->reply.failed) {
        e->reply.size = 0;
        e->reply.failed = 0;
        kv_put_text(e, "-OOM out of memory\r\n");
    }
    if (t->out_lost)
        return;
    if (t->out_size + e->reply.size > t->out_room) {
        size_t room = t->out_room < 4096 ? 4096 : t->out_room;
        char *p = NULL;

        while (room < t->out_size + e->reply.size)
            room *= 2;
        if (most == 0 || t->out_size + e->reply.size <= most)
            p = realloc(t->out, room);
        if (p == NULL) {
            t->out_lost = 1;
            return;
        }
        t->out = p;
        t->out_room = room;
    }
    memcpy(t->out + t->out_size, e->reply.data, e->reply.size);
    t->out_size += e->reply.size;
}

/* Return the whole reply: all that it depends on is known. */
static enum kv_outcome transaction_end(struct kv_command *c)
{
    struct kv_engine *e = c->engine;
    struct kv_transaction *t = c->client->tx;

    e->reply.size = 0;
    e->reply.failed = 0;
    e->reply.resp3 = (c->client->user & KV_WORD_RESP3) != 0;
    if (t->out_lost) {
        kv_put_error(e, "ERR the transaction was executed, but its replies exceed "
                        "client-output-buffer-limit or the available memory");
        c->flags |= KV_REPLY_CLOSE;
    } else {
        kv_put_count(e, '*', t->count);
        kv_put(e, t->out, t->out_size);
    }
    kv_depends(c, t->need);
    c->flags |= t->flags | KV_REPLY_USER;
    kv_transaction_forget(c->client);
    e->exclusive = NULL;
    return KV_DONE;
}

static enum kv_outcome transaction_run(struct kv_command *c)
{
    struct kv_engine *e = c->engine;
    struct kv_transaction *t = c->client->tx;

    while (t->at != NULL) {
        struct kv_command sub;
        enum kv_outcome o = KV_DONE;

        e->reply.size = 0;
        e->reply.failed = 0;
        e->reply.resp3 = (c->client->user & KV_WORD_RESP3) != 0;
        if (transaction_command(c, t->at, &sub) != 0) {
            kv_put_store_error(e, SNIC_ENOMEM);
        } else {
            kv_store_act_for(e->store, kv_tenant_of(e->opts.tenants, c->client->user));
            o = kv_command_run(&sub);
        }
        if (o == KV_AGAIN || o == KV_FETCH)
            return o;
        transaction_keep(e, t);
        t->need = snic_max_u64(t->need, sub.need);
        t->flags |= sub.flags;
        t->at = t->at->next;
    }
    return transaction_end(c);
}

enum kv_outcome kv_cmd_exec(struct kv_command *c)
{
    struct kv_transaction *t = c->client->tx;

    if (t != NULL && t->running)
        return transaction_run(c);
    if (t == NULL || !t->open) {
        kv_put_error(c->engine, "ERR EXEC without MULTI");
        return KV_DONE;
    }
    if (t->failed || transaction_touched(c)) {
        if (t->failed)
            kv_put_error(c->engine, "EXECABORT Transaction discarded because of previous errors.");
        else
            kv_put_null_array(c->engine);
        kv_transaction_forget(c->client);
        c->flags |= KV_REPLY_USER;
        return KV_DONE;
    }
    if (transaction_room_waits(c))
        return KV_AGAIN;
    if (!t->fetched) {
        t->fetched = 1;
        if (transaction_fetch(c) == KV_FETCH)
            return KV_FETCH;
    }
    t->running = 1;
    t->at = t->first;
    t->need = c->need;
    c->engine->exclusive = c->client; /* T1 */
    return transaction_run(c);
}
