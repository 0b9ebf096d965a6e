/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* Commands on keys: DEL, EXISTS, EXPIRE and TTL and their relatives, SCAN, FLUSHALL. */
#include "engine_priv.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define KV_EXPIRE_NX 1u
#define KV_EXPIRE_XX 2u
#define KV_EXPIRE_GT 4u
#define KV_EXPIRE_LT 8u

enum kv_outcome kv_cmd_del(struct kv_command *c)
{
    uint64_t bytes = 0;
    uint64_t largest = 0;
    int64_t count = 0;
    int r;

    for (uint32_t i = 1; i < c->argc; i++) {
        uint64_t n = kv_record_bytes(c->argv[i].size, 0);

        bytes += n;
        largest = snic_max_u64(largest, n);
    }
    r = kv_store_check_room(c->store, bytes, largest, 1); /* all keys or none */
    for (uint32_t i = 1; r == 0 && i < c->argc; i++) {
        struct kv_entry *e = kv_command_entry(c, i);
        uint64_t end;

        if (e == NULL)
            continue;
        r = kv_store_delete(c->store, e, &end);
        if (r == 0) {
            count++;
            kv_depends(c, end);
        }
    }
    if (r != 0)
        return kv_write_failed(c, r);
    kv_put_integer(c->engine, count);
    return KV_DONE;
}

enum kv_outcome kv_cmd_exists(struct kv_command *c)
{
    int64_t count = 0;

    for (uint32_t i = 1; i < c->argc; i++) {
        struct kv_entry *e = kv_command_entry(c, i);

        if (e != NULL) {
            count++;
            kv_depends(c, kv_store_end(e));
        }
    }
    kv_put_integer(c->engine, count);
    return KV_DONE;
}

/* NX XX GT LT. 0, or the error reply is written. */
static int keys_expire_flags(struct kv_command *c, uint32_t *flags)
{
    static const char *const words[] = {"nx", "xx", "gt", "lt"};

    *flags = 0;
    for (uint32_t i = 3; i < c->argc; i++) {
        uint32_t w = 0;

        while (w < SNIC_COUNTOF(words) && !kv_arg_is(&c->argv[i], words[w]))
            w++;
        if (w == SNIC_COUNTOF(words)) {
            kv_put_error(c->engine, "ERR Unsupported option %.*s",
                         c->argv[i].size < 128 ? (int)c->argv[i].size : 128,
                         (const char *)c->argv[i].data);
            return -1;
        }
        *flags |= 1u << w;
    }
    if ((*flags & KV_EXPIRE_NX) != 0 && *flags != KV_EXPIRE_NX) {
        kv_put_error(c->engine,
                     "ERR NX and XX, GT or LT options at the same time are not compatible");
        return -1;
    }
    if ((*flags & KV_EXPIRE_GT) != 0 && (*flags & KV_EXPIRE_LT) != 0) {
        kv_put_error(c->engine, "ERR GT and LT options at the same time are not compatible");
        return -1;
    }
    return 0;
}

/* May the expiry become @p when? A key without one counts as infinitely late. */
static int keys_expire_allowed(const struct kv_entry *e, uint32_t flags, int64_t when)
{
    if ((flags & KV_EXPIRE_NX) != 0 && e->expire_ms != 0)
        return 0;
    if ((flags & KV_EXPIRE_XX) != 0 && e->expire_ms == 0)
        return 0;
    if ((flags & KV_EXPIRE_GT) != 0 && (e->expire_ms == 0 || when <= (int64_t)e->expire_ms))
        return 0;
    if ((flags & KV_EXPIRE_LT) != 0 && e->expire_ms != 0 && when >= (int64_t)e->expire_ms)
        return 0;
    return 1;
}

/* Write the record again with another expiry; the reply is 1. */
static enum kv_outcome keys_rewrite(struct kv_command *c, struct kv_entry *e, uint64_t expire_ms)
{
    const unsigned char *value;
    unsigned char *copy;
    uint32_t size;
    uint64_t end;
    enum kv_outcome o = kv_value_to_modify(c, e, &value, &size);
    int r;

    if (o != KV_DONE)
        return o == KV_LATER ? KV_DONE : o;
    /* Making room for the new record may take the old one's place in memory. */
    copy = malloc(size > 0 ? size : 1);
    if (copy == NULL)
        return kv_write_failed(c, SNIC_ENOMEM);
    memcpy(copy, value, size);
    r = kv_store_set(c->store, c->database, c->argv[1].data, c->argv[1].size, copy, size, expire_ms,
                     &end);
    free(copy);
    if (r != 0)
        return kv_write_failed(c, r);
    kv_depends(c, end);
    kv_put_integer(c->engine, 1);
    return KV_DONE;
}

enum kv_outcome kv_cmd_expire(struct kv_command *c)
{
    const char *name = c->spec->name;
    struct kv_entry *e;
    uint32_t flags;
    int64_t when;
    uint64_t end;
    int r = kv_expiry(c, &c->argv[2], name[0] == 'p' ? 1 : 1000, strstr(name, "at") != NULL, &when);

    if (keys_expire_flags(c, &flags) != 0)
        return KV_DONE;
    if (r == -1) {
        kv_put_error(c->engine, "ERR value is not an integer or out of range");
        return KV_DONE;
    }
    if (r != 0) {
        kv_put_error(c->engine, "ERR invalid expire time in '%s' command", name);
        return KV_DONE;
    }
    e = kv_command_entry(c, 1);
    if (e == NULL || !keys_expire_allowed(e, flags, when)) {
        if (e != NULL)
            kv_depends(c, kv_store_end(e));
        kv_put_integer(c->engine, 0);
        return KV_DONE;
    }
    if (when <= (int64_t)kv_store_wall_ms(c->store)) { /* in the past: delete at once */
        r = kv_store_delete(c->store, e, &end);
        if (r != 0)
            return kv_write_failed(c, r);
        kv_depends(c, end);
        kv_put_integer(c->engine, 1);
        return KV_DONE;
    }
    return keys_rewrite(c, e, (uint64_t)when);
}

enum kv_outcome kv_cmd_persist(struct kv_command *c)
{
    struct kv_entry *e = kv_command_entry(c, 1);

    if (e == NULL || e->expire_ms == 0) {
        kv_put_integer(c->engine, 0);
        return KV_DONE;
    }
    return keys_rewrite(c, e, 0);
}

enum kv_outcome kv_cmd_ttl(struct kv_command *c)
{
    struct kv_entry *e = kv_command_entry(c, 1);
    int64_t left = -2;

    if (e != NULL) {
        kv_depends(c, kv_store_end(e));
        left = -1;
        if (e->expire_ms != 0) {
            left = (int64_t)(e->expire_ms - kv_store_wall_ms(c->store));
            if (c->spec->name[0] == 't')
                left = (left + 500) / 1000;
        }
    }
    kv_put_integer(c->engine, left);
    return KV_DONE;
}

enum kv_outcome kv_cmd_type(struct kv_command *c)
{
    struct kv_entry *e = kv_command_entry(c, 1);

    if (e != NULL)
        kv_depends(c, kv_store_end(e));
    kv_put_text(c->engine, e != NULL ? "+string\r\n" : "+none\r\n");
    return KV_DONE;
}

enum kv_outcome kv_cmd_dbsize(struct kv_command *c)
{
    kv_depends(c, kv_store_tail(c->store));
    kv_put_integer(c->engine, (int64_t)kv_store_count(c->store, c->database));
    return KV_DONE;
}

enum kv_outcome kv_cmd_flush(struct kv_command *c)
{
    int all = strcmp(c->spec->name, "flushall") == 0;
    uint64_t end;
    int r;

    if (c->argc > 2 ||
        (c->argc == 2 && !kv_arg_is(&c->argv[1], "async") && !kv_arg_is(&c->argv[1], "sync"))) {
        kv_put_error(c->engine, "ERR syntax error");
        return KV_DONE;
    }
    r = kv_store_flush_keys(c->store, all ? KV_ALL_DATABASES : c->database, &end);
    if (r != 0)
        return kv_write_failed(c, r);
    kv_depends(c, end);
    kv_put_text(c->engine, "+OK\r\n");
    return KV_DONE;
}

/* ---- SCAN ---- */

struct keys_scan {
    struct kv_command *command;
    const struct resp_arg *match;
    int none; /* TYPE of something that is never there */
    uint64_t now_ms;
    uint64_t found;
};

static void keys_scan_visit(void *ctx, struct kv_entry *e)
{
    struct keys_scan *s = ctx;

    if (s->none || (e->expire_ms != 0 && e->expire_ms <= s->now_ms))
        return;
    if (s->match != NULL && !kv_glob(s->match->data, s->match->size, e->key, e->key_size))
        return;
    kv_put_bulk(s->command->engine, e->key, e->key_size);
    s->found++;
}

/* COUNT, MATCH, TYPE. 0, or the error reply is written. */
static int keys_scan_options(struct kv_command *c, struct keys_scan *s, int64_t *count)
{
    for (uint32_t i = 2; i < c->argc; i += 2) {
        const struct resp_arg *value = i + 1 < c->argc ? &c->argv[i + 1] : NULL;

        if (value != NULL && kv_arg_is(&c->argv[i], "count")) {
            if (resp_number(value->data, value->size, count) != 0) {
                kv_put_error(c->engine, "ERR value is not an integer or out of range");
                return -1;
            }
            if (*count >= 1)
                continue;
        } else if (value != NULL && kv_arg_is(&c->argv[i], "match")) {
            s->match = value;
            continue;
        } else if (value != NULL && kv_arg_is(&c->argv[i], "type")) {
            s->none = !kv_arg_is(value, "string");
            continue;
        }
        kv_put_error(c->engine, "ERR syntax error");
        return -1;
    }
    return 0;
}

static int keys_cursor(const struct resp_arg *a, uint64_t *out)
{
    uint64_t v = 0;

    if (a->size == 0 || a->size > 20)
        return -1;
    for (uint32_t i = 0; i < a->size; i++) {
        uint64_t digit = (uint64_t)a->data[i] - '0';

        if (digit > 9 || v > (UINT64_MAX - digit) / 10)
            return -1;
        v = v * 10 + digit;
    }
    *out = v;
    return 0;
}

enum kv_outcome kv_cmd_scan(struct kv_command *c)
{
    struct kv_engine *e = c->engine;
    struct keys_scan s = {.command = c};
    int64_t count = 10;
    uint64_t cursor;
    size_t body;
    size_t head;
    char text[96];
    char digits[24];
    int n;

    if (keys_cursor(&c->argv[1], &cursor) != 0) {
        kv_put_error(e, "ERR invalid cursor");
        return KV_DONE;
    }
    if (keys_scan_options(c, &s, &count) != 0)
        return KV_DONE;
    s.now_ms = kv_store_wall_ms(c->store);
    count = count > 100000 ? 100000 : count; /* one reply stays bounded */
    cursor = kv_store_scan(c->store, c->database, cursor, (uint32_t)count, keys_scan_visit, &s);
    /* The elements are written; what comes before them is known only now. */
    n = snprintf(digits, sizeof(digits), "%" PRIu64, cursor);
    head = (size_t)snprintf(text, sizeof(text), "*2\r\n$%d\r\n%s\r\n*%" PRIu64 "\r\n", n, digits,
                            s.found);
    body = e->size;
    kv_put(e, text, head);
    if (!e->no_memory && body > 0) {
        memmove(e->buffer + head, e->buffer, body);
        memcpy(e->buffer, text, head);
    }
    kv_depends(c, kv_store_tail(c->store));
    return KV_DONE;
}
