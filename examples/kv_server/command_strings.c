/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* Commands on whole values: GET, SET and their relatives, MGET, MSET. */
#include "engine_priv.h"

#include <stdlib.h>
#include <string.h>

/* ---- GET, MGET: reads whose replies may come later ---- */

struct string_get {
    struct kv_engine *engine;
    uint64_t client;
    uint64_t seq;
    uint64_t user;
    uint64_t need;
    uint64_t bytes;   /* of its values                 */
    uint32_t flags;   /* of the reply                  */
    uint32_t count;   /* keys                          */
    uint32_t pending; /* reads in flight               */
    int array;        /* MGET: an array reply          */
    int error;
    struct snic_iov values[]; /* base NULL: no such key; copies of the values */
};

static void string_get_free(struct string_get *g)
{
    for (uint32_t i = 0; i < g->count; i++)
        free(g->values[i].base);
    free(g);
}

static void string_get_reply(struct string_get *g)
{
    struct kv_engine *e = g->engine;
    struct snic_iov iov;

    e->reply.size = 0;
    e->reply.failed = 0;
    e->reply.resp3 = (g->user & KV_WORD_RESP3) != 0;
    if (g->error != 0) {
        kv_put_error(e, "ERR reading the value failed: %s", snic_strerror(g->error));
    } else {
        if (g->array)
            kv_put_count(e, '*', g->count);
        for (uint32_t i = 0; i < g->count; i++)
            if (g->values[i].base == NULL)
                kv_put_null(e);
            else
                kv_put_bulk(e, g->values[i].base, g->values[i].size);
    }
    if (e->reply.failed) {
        e->reply.size = 0;
        kv_put_text(e, "-OOM out of memory\r\n");
    }
    iov.base = e->reply.data;
    iov.size = e->reply.size;
    kv_answer(e, g->client, g->seq, g->user, g->flags, g->need, &iov, 1);
    e->reading -= g->bytes;
    string_get_free(g);
}

/* Keep a copy of a value; never NULL on success, also when it is empty. */
static int string_keep(struct string_get *g, uint32_t i, const void *value, uint32_t size)
{
    void *copy = malloc(size > 0 ? size : 1);

    if (copy == NULL)
        return SNIC_ENOMEM;
    if (size > 0)
        memcpy(copy, value, size);
    g->values[i].base = copy;
    g->values[i].size = size;
    return 0;
}

static void string_get_read(struct kv_read *r)
{
    struct string_get *g = r->ctx;

    if (r->result != 0)
        g->error = r->result;
    else if (string_keep(g, (uint32_t)r->user, r->value, r->value_size) != 0)
        g->error = SNIC_ENOMEM;
    if (--g->pending == 0) {
        struct kv_engine *e = g->engine;
        int full = e->reading > KV_READING_MAX;

        string_get_reply(g);
        if (full && e->reading <= KV_READING_MAX)
            e->freed(e);
    }
}

/* Collect the values of argv[1..]; answered here or when the last read is done. */
static enum kv_outcome string_get_start(struct kv_command *c, int array)
{
    uint32_t count = c->argc - 1;
    struct string_get *g;

    if (c->engine->reading > KV_READING_MAX) {
        c->client->wait = KV_WAIT_READS;
        return KV_AGAIN;
    }
    g = calloc(1, sizeof(*g) + count * sizeof(g->values[0]));

    if (g == NULL) {
        kv_put_store_error(c->engine, SNIC_ENOMEM);
        return KV_DONE;
    }
    g->engine = c->engine;
    g->client = c->client->id;
    g->seq = c->seq;
    g->user = c->client->user;
    g->flags = c->flags;
    g->count = count;
    g->array = array;
    g->pending = 1; /* reads never complete inside the call, but it must not reach 0 */
    for (uint32_t i = 0; i < count && g->error == 0; i++) {
        struct kv_entry *entry = kv_command_entry(c, i + 1);
        const unsigned char *value;

        if (entry == NULL) {
            c->engine->stats.misses++;
            continue;
        }
        c->engine->stats.hits++;
        if (kv_store_end(entry) > g->need)
            g->need = kv_store_end(entry);
        kv_store_missed(c->store, entry);
        g->bytes += entry->value_size;
        value = kv_store_value(c->store, entry);
        if (value != NULL) {
            g->error = string_keep(g, i, value, entry->value_size);
        } else {
            g->error = kv_store_read(c->store, entry, 0, string_get_read, g, i);
            g->pending += g->error == 0;
        }
    }
    g->need = snic_max_u64(g->need, c->need);
    c->engine->reading += g->bytes;
    if (--g->pending == 0)
        string_get_reply(g);
    return KV_LATER;
}

/* The same inside of EXEC: into the engine's buffer, as a whole, on this run or a later one. */
static enum kv_outcome string_get_now(struct kv_command *c, int array)
{
    if (array)
        kv_put_count(c->engine, '*', c->argc - 1);
    for (uint32_t i = 1; i < c->argc; i++) {
        struct kv_entry *entry = kv_command_entry(c, i);
        const unsigned char *value;
        uint32_t size;
        int r;

        if (entry == NULL) {
            kv_put_null(c->engine);
            continue;
        }
        r = kv_value_at_hand(c, entry, &value, &size);
        if (r == 0 && kv_fetch(c, entry) == KV_FETCH)
            return KV_FETCH;
        if (r != 1) {
            c->engine->reply.size = 0;
            kv_put_error(c->engine, "ERR reading the value failed: %s",
                         snic_strerror(r != 0 ? r : SNIC_ENOMEM));
            return KV_DONE;
        }
        kv_put_bulk(c->engine, value, size);
    }
    return KV_DONE;
}

enum kv_outcome kv_cmd_get(struct kv_command *c)
{
    struct kv_entry *entry = kv_command_entry(c, 1);
    const unsigned char *value;
    struct snic_iov iov[3];
    char head[24];

    c->engine->stats.gets++;
    if (entry == NULL) {
        c->engine->stats.misses++;
        kv_put_null(c->engine);
        return KV_DONE;
    }
    if (c->in_exec)
        return string_get_now(c, 0);
    value = kv_store_value(c->store, entry);
    if (value == NULL)
        return string_get_start(c, 0);
    kv_store_missed(c->store, entry);
    c->engine->stats.hits++;
    /* From the ring to the client without a copy of ours. */
    iov[0].base = head;
    iov[0].size = resp_put_number(head, '$', entry->value_size);
    iov[1].base = (void *)(uintptr_t)value;
    iov[1].size = entry->value_size;
    iov[2].base = (void *)(uintptr_t) "\r\n";
    iov[2].size = 2;
    kv_answer(c->engine, c->client->id, c->seq, c->client->user, c->flags, kv_store_end(entry), iov,
              3);
    return KV_LATER;
}

enum kv_outcome kv_cmd_mget(struct kv_command *c)
{
    return c->in_exec ? string_get_now(c, 1) : string_get_start(c, 1);
}

/* ---- SET ---- */

/* The time that the options name. 0, or the error is written. */
static int string_expiry(struct kv_command *c, struct resp_set *o)
{
    return resp_set_expiry(&c->engine->reply, c->argv, c->spec->name,
                           (int64_t)kv_store_wall_ms(c->store), o);
}

static int string_too_long(struct kv_command *c, uint32_t i)
{
    if (c->argv[i].size <= c->engine->opts.value_max)
        return 0;
    kv_put_error(c->engine, "ERR value is longer than %u bytes", c->engine->opts.value_max);
    return 1;
}

/* Store argv[value]; the entry may exist. KV_DONE after success, else what to return. */
static enum kv_outcome string_store(struct kv_command *c, uint32_t value, uint64_t expire_ms,
                                    int *stored)
{
    struct kv_string_put p = {.database = c->database,
                              .key = &c->argv[1],
                              .value = c->argv[value].data,
                              .size = c->argv[value].size,
                              .expire_ms = expire_ms};
    enum kv_outcome o = kv_string_store(c, &p, stored);

    c->engine->stats.sets += *stored ? 1 : 0;
    return o;
}

/* Write the old value as the reply. KV_DONE: continue; others: return that. */
static enum kv_outcome string_old_value(struct kv_command *c, const struct kv_entry *entry,
                                        int *failed)
{
    const unsigned char *value;
    uint32_t size;
    enum kv_outcome o;

    *failed = 0;
    if (entry == NULL) {
        kv_put_null(c->engine);
        return KV_DONE;
    }
    o = kv_value_to_modify(c, entry, &value, &size);
    if (o == KV_FETCH)
        return o;
    *failed = o == KV_LATER;
    if (!*failed)
        kv_put_bulk(c->engine, value, size);
    kv_depends(c, kv_store_end(entry));
    return KV_DONE;
}

static enum kv_outcome string_set(struct kv_command *c, const struct resp_set *o, uint32_t value)
{
    struct kv_entry *entry = kv_command_entry(c, 1);
    uint64_t expire = (uint64_t)o->expire_ms;
    enum kv_outcome outcome;
    int flag;

    if ((o->flags & RESP_SET_GET) != 0) {
        outcome = string_old_value(c, entry, &flag);
        if (outcome != KV_DONE || flag)
            return outcome;
    }
    if (((o->flags & RESP_SET_NX) != 0 && entry != NULL) ||
        ((o->flags & RESP_SET_XX) != 0 && entry == NULL)) {
        if ((o->flags & RESP_SET_GET) == 0)
            kv_put_null(c->engine);
        if (entry != NULL)
            kv_depends(c, kv_store_end(entry));
        return KV_DONE;
    }
    if ((o->flags & RESP_SET_KEEPTTL) != 0 && entry != NULL)
        expire = entry->expire_ms;
    outcome = string_store(c, value, expire, &flag);
    if (outcome == KV_DONE && flag && (o->flags & RESP_SET_GET) == 0)
        kv_put_text(c->engine, "+OK\r\n");
    return outcome;
}

enum kv_outcome kv_cmd_set(struct kv_command *c)
{
    struct resp_set o = {0};

    if (resp_set_options(&c->engine->reply, c->argv, c->argc, 3,
                         RESP_SET_NX | RESP_SET_XX | RESP_SET_GET | RESP_SET_KEEPTTL, &o) != 0 ||
        string_expiry(c, &o) != 0 || string_too_long(c, 2))
        return KV_DONE;
    return string_set(c, &o, 2);
}

enum kv_outcome kv_cmd_setnx(struct kv_command *c)
{
    struct kv_entry *entry = kv_command_entry(c, 1);
    enum kv_outcome outcome;
    int stored;

    if (entry != NULL) {
        kv_depends(c, kv_store_end(entry));
        kv_put_integer(c->engine, 0);
        return KV_DONE;
    }
    if (string_too_long(c, 2))
        return KV_DONE;
    outcome = string_store(c, 2, 0, &stored);
    if (outcome == KV_DONE && stored)
        kv_put_integer(c->engine, 1);
    return outcome;
}

enum kv_outcome kv_cmd_setex(struct kv_command *c)
{
    struct resp_set o = {.timed = 2, .unit_ms = c->spec->name[0] == 'p' ? 1 : 1000};

    if (string_expiry(c, &o) != 0 || string_too_long(c, 3))
        return KV_DONE;
    return string_set(c, &o, 3);
}

enum kv_outcome kv_cmd_getset(struct kv_command *c)
{
    struct resp_set o = {.flags = RESP_SET_GET};

    return string_too_long(c, 2) ? KV_DONE : string_set(c, &o, 2);
}

enum kv_outcome kv_cmd_getdel(struct kv_command *c)
{
    struct kv_entry *entry = kv_command_entry(c, 1);
    enum kv_outcome outcome;
    int failed;
    int r;

    outcome = string_old_value(c, entry, &failed);
    if (outcome != KV_DONE || failed || entry == NULL)
        return outcome;
    r = kv_delete(c, entry);
    return r != 0 ? kv_write_failed(c, r) : KV_DONE;
}

/* GETEX on an existing key: the value is written already. */
static enum kv_outcome string_getex(struct kv_command *c, struct kv_entry *entry,
                                    const struct resp_set *o)
{
    int persist = (o->flags & RESP_SET_PERSIST) != 0;
    size_t written = c->engine->reply.size;
    enum kv_outcome outcome;
    int r;

    if (o->timed == 0 && (!persist || entry->expire_ms == 0))
        return KV_DONE;
    if (o->absolute && o->expire_ms <= (int64_t)kv_store_wall_ms(c->store)) {
        r = kv_delete(c, entry);
        return r != 0 ? kv_write_failed(c, r) : KV_DONE;
    }
    outcome = kv_rewrite(c, entry, persist ? 0 : (uint64_t)o->expire_ms, &r);
    if (outcome == KV_DONE && r)
        c->engine->reply.size = written; /* without anything behind the value */
    return outcome;
}

enum kv_outcome kv_cmd_getex(struct kv_command *c)
{
    struct resp_set o = {0};
    struct kv_entry *entry;
    enum kv_outcome outcome;
    size_t start = c->engine->reply.size;
    int failed;

    if (resp_set_options(&c->engine->reply, c->argv, c->argc, 2, RESP_SET_PERSIST, &o) != 0)
        return KV_DONE;
    entry = kv_command_entry(c, 1);
    if (entry == NULL) {
        kv_put_null(c->engine);
        return KV_DONE;
    }
    if (string_expiry(c, &o) != 0)
        return KV_DONE;
    outcome = string_old_value(c, entry, &failed);
    if (outcome != KV_DONE || failed)
        return outcome;
    outcome = string_getex(c, entry, &o);
    if (outcome != KV_DONE)
        c->engine->reply.size = start;
    return outcome;
}

/* ---- MSET, MSETNX: all keys or none ---- */

static int string_any(struct kv_command *c)
{
    int any = 0;

    for (uint32_t i = 1; i < c->argc; i += 2)
        any |= kv_command_entry(c, i) != NULL;
    return any;
}

enum kv_outcome kv_cmd_mset(struct kv_command *c)
{
    int nx = strcmp(c->spec->name, "msetnx") == 0;
    uint64_t bytes = 0;
    uint64_t largest = 0;
    int r;

    if (c->argc % 2 == 0) {
        kv_put_error(c->engine, "ERR wrong number of arguments for '%s' command", c->spec->name);
        return KV_DONE;
    }
    if (nx && string_any(c)) {
        kv_put_integer(c->engine, 0);
        return KV_DONE;
    }
    for (uint32_t i = 1; i < c->argc; i += 2) {
        uint64_t n = kv_record_bytes(c->argv[i].size, c->argv[i + 1].size);

        if (string_too_long(c, i + 1))
            return KV_DONE;
        bytes += n;
        largest = snic_max_u64(largest, n);
    }
    r = kv_command_room(c, bytes, largest, 0); /* all keys or none */
    for (uint32_t i = 1; r == 0 && i < c->argc; i += 2) {
        uint64_t end;

        r = kv_store_set(c->store, c->database, c->argv[i].data, c->argv[i].size,
                         c->argv[i + 1].data, c->argv[i + 1].size, 0, &end);
        if (r == 0)
            kv_depends(c, end);
    }
    if (r != 0)
        return kv_write_failed(c, r);
    c->engine->stats.sets += c->argc / 2;
    kv_put_text(c->engine, nx ? ":1\r\n" : "+OK\r\n");
    return KV_DONE;
}

enum kv_outcome kv_cmd_strlen(struct kv_command *c)
{
    struct kv_entry *entry = kv_command_entry(c, 1);

    if (entry != NULL)
        kv_depends(c, kv_store_end(entry));
    kv_put_integer(c->engine, entry != NULL ? entry->value_size : 0);
    return KV_DONE;
}
