/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* SCAN, KEYS, RANDOMKEY. */
#include "engine_priv.h"

#include <ctype.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct scan {
    struct kv_command *command;
    const struct resp_arg *match;
    int none; /* TYPE of something that is never there */
    uint64_t now_ms;
    uint64_t found;
};

static void scan_visit(void *ctx, struct kv_entry *e)
{
    struct scan *s = ctx;

    if (s->none || (e->expire_ms != 0 && e->expire_ms <= s->now_ms))
        return;
    if (s->match != NULL && !resp_glob(s->match->data, s->match->size, e->key, e->key_size))
        return;
    kv_put_bulk(s->command->engine, e->key, e->key_size);
    s->found++;
}

/* COUNT, MATCH, TYPE. 0, or the error reply is written. */
static int scan_options(struct kv_command *c, struct scan *s, int64_t *count)
{
    for (uint32_t i = 2; i < c->argc; i += 2) {
        const struct resp_arg *value = i + 1 < c->argc ? &c->argv[i + 1] : NULL;

        if (value != NULL && resp_arg_is(&c->argv[i], "count")) {
            if (kv_number(c, value, count) != 0)
                return -1;
            if (*count >= 1)
                continue;
        } else if (value != NULL && resp_arg_is(&c->argv[i], "match")) {
            s->match = value;
            continue;
        } else if (value != NULL && resp_arg_is(&c->argv[i], "type")) {
            s->none = !resp_arg_is(value, "string");
            continue;
        }
        kv_put_error(c->engine, "ERR syntax error");
        return -1;
    }
    return 0;
}

/* The cursor as strtoul() reads it, which is how Redis does. */
static int scan_cursor(const struct resp_arg *a, uint64_t *out)
{
    char text[64];
    char *end;

    if (a->size >= sizeof(text) || (a->size > 0 && isspace(a->data[0])))
        return -1;
    memcpy(text, a->data, a->size);
    text[a->size] = 0;
    errno = 0;
    *out = strtoul(text, &end, 10);
    return *end != 0 || errno == ERANGE ? -1 : 0;
}

enum kv_outcome kv_cmd_scan(struct kv_command *c)
{
    struct kv_engine *e = c->engine;
    struct scan s = {.command = c};
    int64_t count = 10;
    uint64_t cursor;
    size_t start = e->reply.size;
    char text[96];
    char digits[24];
    int n;

    if (scan_cursor(&c->argv[1], &cursor) != 0) {
        kv_put_error(e, "ERR invalid cursor");
        return KV_DONE;
    }
    if (scan_options(c, &s, &count) != 0)
        return KV_DONE;
    s.now_ms = kv_store_wall_ms(c->store);
    count = count > 100000 ? 100000 : count; /* one reply stays bounded */
    cursor = kv_store_scan(c->store, c->database, cursor, (uint32_t)count, scan_visit, &s);
    /* The elements are written; what comes before them is known only now. */
    n = snprintf(digits, sizeof(digits), "%" PRIu64, cursor);
    n = snprintf(text, sizeof(text), "*2\r\n$%d\r\n%s\r\n*%" PRIu64 "\r\n", n, digits, s.found);
    kv_put_before(e, start, text, (size_t)n);
    kv_depends(c, kv_store_tail(c->store));
    return KV_DONE;
}

/* ---- KEYS, RANDOMKEY ---- */

enum kv_outcome kv_cmd_keys(struct kv_command *c)
{
    struct kv_engine *e = c->engine;
    struct scan s = {.command = c, .match = &c->argv[1]};
    size_t start = e->reply.size;
    uint64_t cursor = 0;
    char text[24];

    s.now_ms = kv_store_wall_ms(c->store);
    do
        cursor = kv_store_scan(c->store, c->database, cursor, 65536, scan_visit, &s);
    while (cursor != 0 && !e->reply.failed);
    kv_put_before(e, start, text, resp_put_number(text, '*', (int64_t)s.found));
    kv_depends(c, kv_store_tail(c->store));
    return KV_DONE;
}

enum kv_outcome kv_cmd_randomkey(struct kv_command *c)
{
    struct kv_engine *e = c->engine;
    struct kv_entry *entry;

    e->random = e->random * 6364136223846793005u + 1442695040888963407u;
    entry = kv_store_random(c->store, c->database, e->random ^ e->random >> 33);
    if (entry == NULL)
        kv_put_null(e);
    else
        kv_put_bulk(e, entry->key, entry->key_size);
    kv_depends(c, kv_store_tail(c->store));
    return KV_DONE;
}
