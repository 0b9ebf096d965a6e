/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* Commands on values: GET, SET and its relatives, MGET, MSET, INCR. */
#include "engine_priv.h"

#include <stdlib.h>
#include <string.h>

#define KV_SET_NX 1u
#define KV_SET_XX 2u
#define KV_SET_GET 4u
#define KV_SET_KEEPTTL 8u

/* ---- GET, MGET: reads whose replies may come later ---- */

struct string_get {
    struct kv_engine *engine;
    uint64_t client;
    uint64_t seq;
    uint64_t user;
    uint64_t need;
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

    e->size = 0;
    e->no_memory = 0;
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
    if (e->no_memory) {
        e->size = 0;
        kv_put_text(e, "-OOM out of memory\r\n");
    }
    iov.base = e->buffer;
    iov.size = e->size;
    kv_answer(e, g->client, g->seq, g->user, 0, g->need, &iov, 1);
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
    if (--g->pending == 0)
        string_get_reply(g);
}

/* Collect the values of argv[1..]; answered here or when the last read is done. */
static enum kv_outcome string_get_start(struct kv_command *c, int array)
{
    uint32_t count = c->argc - 1;
    struct string_get *g = calloc(1, sizeof(*g) + count * sizeof(g->values[0]));
    uint32_t guard = 1; /* reads never complete inside the call, but the count must not reach 0 */

    if (g == NULL) {
        kv_put_store_error(c->engine, SNIC_ENOMEM);
        return KV_DONE;
    }
    g->engine = c->engine;
    g->client = c->client->id;
    g->seq = c->seq;
    g->user = c->client->user;
    g->count = count;
    g->array = array;
    g->pending = guard;
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
        value = kv_store_value(c->store, entry);
        if (value != NULL) {
            g->error = string_keep(g, i, value, entry->value_size);
        } else {
            g->error = kv_store_read(c->store, entry, 0, string_get_read, g, i);
            g->pending += g->error == 0;
        }
    }
    g->need = snic_max_u64(g->need, c->need);
    if (--g->pending == 0)
        string_get_reply(g);
    return KV_LATER;
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
    kv_answer(c->engine, c->client->id, c->seq, c->client->user, 0, kv_store_end(entry), iov, 3);
    return KV_LATER;
}

enum kv_outcome kv_cmd_mget(struct kv_command *c)
{
    return string_get_start(c, 1);
}

/* ---- SET ---- */

struct string_set {
    uint32_t flags;
    int64_t expire_ms; /* 0: none */
};

/* Options behind the value. 0, or the error reply is written. */
static int string_set_options(struct kv_command *c, struct string_set *o)
{
    static const struct {
        const char *word;
        uint64_t unit;
        int absolute;
    } times[] = {{"ex", 1000, 0}, {"px", 1, 0}, {"exat", 1000, 1}, {"pxat", 1, 1}};
    int timed = 0;

    for (uint32_t i = 3; i < c->argc; i++) {
        const struct resp_arg *a = &c->argv[i];
        uint32_t t = 0;

        if (kv_arg_is(a, "nx") && (o->flags & KV_SET_XX) == 0) {
            o->flags |= KV_SET_NX;
        } else if (kv_arg_is(a, "xx") && (o->flags & KV_SET_NX) == 0) {
            o->flags |= KV_SET_XX;
        } else if (kv_arg_is(a, "get")) {
            o->flags |= KV_SET_GET;
        } else if (kv_arg_is(a, "keepttl") && !timed) {
            o->flags |= KV_SET_KEEPTTL;
        } else {
            while (t < SNIC_COUNTOF(times) && !kv_arg_is(a, times[t].word))
                t++;
            /* The same word again is fine: the last one counts. */
            if (t == SNIC_COUNTOF(times) || (timed && o->expire_ms != t) ||
                (o->flags & KV_SET_KEEPTTL) != 0 || i + 1 >= c->argc) {
                kv_put_error(c->engine, "ERR syntax error");
                return -1;
            }
            timed = (int)++i;
            o->expire_ms = t;
        }
    }
    if (timed) {
        const struct resp_arg *a = &c->argv[timed];
        int64_t t = o->expire_ms;
        int64_t n = 0;
        int r = kv_expiry(c, a, times[t].unit, times[t].absolute, &o->expire_ms);

        if (r == -1) {
            kv_put_error(c->engine, "ERR value is not an integer or out of range");
            return -1;
        }
        (void)resp_number(a->data, a->size, &n);
        if (r != 0 || n <= 0) {
            kv_put_error(c->engine, "ERR invalid expire time in 'set' command");
            return -1;
        }
    }
    return 0;
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
    const struct resp_arg *k = &c->argv[1];
    const struct resp_arg *v = &c->argv[value];
    uint64_t end;
    int r =
        kv_store_set(c->store, c->database, k->data, k->size, v->data, v->size, expire_ms, &end);

    *stored = r == 0;
    if (r != 0)
        return kv_write_failed(c, r);
    c->engine->stats.sets++;
    kv_depends(c, end);
    return KV_DONE;
}

/* Write the old value as the reply. KV_DONE, or what to return instead of going on. */
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

static enum kv_outcome string_set(struct kv_command *c, const struct string_set *o, uint32_t value)
{
    struct kv_entry *entry = kv_command_entry(c, 1);
    uint64_t expire = (uint64_t)o->expire_ms;
    enum kv_outcome outcome;
    int flag;

    if ((o->flags & KV_SET_GET) != 0) {
        outcome = string_old_value(c, entry, &flag);
        if (outcome != KV_DONE || flag)
            return outcome;
    }
    if (((o->flags & KV_SET_NX) != 0 && entry != NULL) ||
        ((o->flags & KV_SET_XX) != 0 && entry == NULL)) {
        if ((o->flags & KV_SET_GET) == 0)
            kv_put_null(c->engine);
        if (entry != NULL)
            kv_depends(c, kv_store_end(entry));
        return KV_DONE;
    }
    if ((o->flags & KV_SET_KEEPTTL) != 0 && entry != NULL)
        expire = entry->expire_ms;
    outcome = string_store(c, value, expire, &flag);
    if (outcome == KV_DONE && flag && (o->flags & KV_SET_GET) == 0)
        kv_put_text(c->engine, "+OK\r\n");
    return outcome;
}

enum kv_outcome kv_cmd_set(struct kv_command *c)
{
    struct string_set o = {0, 0};

    if (string_set_options(c, &o) != 0 || string_too_long(c, 2))
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
    struct string_set o = {0, 0};
    int64_t n = 0;
    int r = kv_expiry(c, &c->argv[2], c->spec->name[0] == 'p' ? 1 : 1000, 0, &o.expire_ms);

    if (r == -1) {
        kv_put_error(c->engine, "ERR value is not an integer or out of range");
        return KV_DONE;
    }
    (void)resp_number(c->argv[2].data, c->argv[2].size, &n);
    if (r != 0 || n <= 0) {
        kv_put_error(c->engine, "ERR invalid expire time in '%s' command", c->spec->name);
        return KV_DONE;
    }
    return string_too_long(c, 3) ? KV_DONE : string_set(c, &o, 3);
}

enum kv_outcome kv_cmd_getset(struct kv_command *c)
{
    struct string_set o = {KV_SET_GET, 0};

    return string_too_long(c, 2) ? KV_DONE : string_set(c, &o, 2);
}

enum kv_outcome kv_cmd_mset(struct kv_command *c)
{
    uint64_t bytes = 0;
    uint64_t largest = 0;
    int r;

    if (c->argc % 2 == 0) {
        kv_put_error(c->engine, "ERR wrong number of arguments for 'mset' command");
        return KV_DONE;
    }
    for (uint32_t i = 1; i < c->argc; i += 2) {
        uint64_t n = kv_record_bytes(c->argv[i].size, c->argv[i + 1].size);

        if (string_too_long(c, i + 1))
            return KV_DONE;
        bytes += n;
        largest = snic_max_u64(largest, n);
    }
    r = kv_store_check_room(c->store, bytes, largest, 0); /* all keys or none */
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
    kv_put_text(c->engine, "+OK\r\n");
    return KV_DONE;
}

/* ---- INCR ---- */

/* The signed step of INCR, DECR, INCRBY, DECRBY; 0 and an error reply if it is no number. */
static int string_step(struct kv_command *c, int64_t *step)
{
    int down = c->spec->name[0] == 'd';

    *step = 1;
    if (c->argc == 3 && resp_number(c->argv[2].data, c->argv[2].size, step) != 0) {
        kv_put_error(c->engine, "ERR value is not an integer or out of range");
        return 0;
    }
    if (down && *step == INT64_MIN) {
        kv_put_error(c->engine, "ERR decrement would overflow");
        return 0;
    }
    if (down)
        *step = -*step;
    return 1;
}

enum kv_outcome kv_cmd_incr(struct kv_command *c)
{
    struct kv_entry *entry = kv_command_entry(c, 1);
    const struct resp_arg *k = &c->argv[1];
    char text[24];
    int64_t old = 0;
    int64_t step;
    uint64_t end;
    size_t size;
    int r;

    if (!string_step(c, &step))
        return KV_DONE;
    if (entry != NULL) {
        const unsigned char *value;
        uint32_t value_size;
        enum kv_outcome o = kv_value_to_modify(c, entry, &value, &value_size);

        if (o != KV_DONE)
            return o == KV_LATER ? KV_DONE : o;
        if (resp_number(value, value_size, &old) != 0) {
            kv_depends(c, kv_store_end(entry));
            kv_put_error(c->engine, "ERR value is not an integer or out of range");
            return KV_DONE;
        }
    }
    if ((step < 0 && old < INT64_MIN - step) || (step > 0 && old > INT64_MAX - step)) {
        kv_put_error(c->engine, "ERR increment or decrement would overflow");
        return KV_DONE;
    }
    size = resp_put_number(text, ':', old + step);
    r = kv_store_set(c->store, c->database, k->data, k->size, text + 1, (uint32_t)size - 3,
                     entry != NULL ? entry->expire_ms : 0, &end);
    if (r != 0)
        return kv_write_failed(c, r);
    kv_depends(c, end);
    kv_put(c->engine, text, size);
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
