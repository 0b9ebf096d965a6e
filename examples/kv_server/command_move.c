/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* Commands that move values between keys and databases: RENAME, COPY, MOVE, SWAPDB. */
#include "engine_priv.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>

struct move {
    struct kv_entry *from;
    uint32_t database; /* of the new key */
    const struct resp_arg *key;
    int keep; /* COPY: the old one stays */
};

/* Does the value of @p e fit behind @p copy's key? Then a copy of it, else NULL. */
static unsigned char *move_value(const unsigned char *value, uint32_t size)
{
    unsigned char *copy = malloc(size > 0 ? size : 1);

    if (copy != NULL && size > 0)
        memcpy(copy, value, size);
    return copy;
}

/* Both records or none. KV_DONE and *moved, or what to return. */
static enum kv_outcome move_run(struct kv_command *c, const struct move *m, int *moved)
{
    struct kv_string_put p = {.database = m->database,
                              .key = m->key,
                              .expire_ms = m->from->expire_ms,
                              .encoding = m->from->flags & KV_ENTRY_ENCODING};
    uint64_t set;
    uint64_t del = m->keep ? 0 : kv_record_bytes(m->from->key_size, 0);
    const unsigned char *value;
    unsigned char *copy;
    struct resp_arg old = {NULL, m->from->key_size};
    uint32_t database = m->from->database;
    enum kv_outcome o = kv_value_to_modify(c, m->from, &value, &p.size);
    int r;

    *moved = 0;
    if (o != KV_DONE)
        return o == KV_LATER ? KV_DONE : o;
    set = kv_record_bytes(m->key->size, p.size);
    r = kv_command_room(c, set + del, snic_max_u64(set, del), 0);
    copy = r == 0 ? move_value(value, p.size) : NULL;
    old.data = copy != NULL ? move_value(m->from->key, m->from->key_size) : NULL;
    if (r == 0 && old.data == NULL)
        r = SNIC_ENOMEM;
    if (r != 0) {
        free(copy);
        return kv_write_failed(c, r);
    }
    p.value = copy;
    o = kv_string_store(c, &p, moved);
    free(copy);
    if (o == KV_DONE && *moved && !m->keep) {
        struct kv_entry *e = kv_store_find(c->store, database, old.data, old.size);

        r = e != NULL ? kv_delete(c, e) : 0;
        *moved = r == 0;
        if (r != 0)
            o = kv_write_failed(c, r);
    }
    free((void *)(uintptr_t)old.data);
    return o;
}

/* Move or copy argv[1]. The reply is 1, or 0 where nothing is moved. */
static enum kv_outcome move_answer(struct kv_command *c, struct move *m, int replace)
{
    enum kv_outcome o = KV_DONE;
    int moved = 0;

    m->from = kv_command_entry(c, 1);
    if (m->from == NULL || (kv_command_lookup(c, m->database, m->key, 1) != NULL && !replace)) {
        kv_put_integer(c->engine, 0);
        return KV_DONE;
    }
    o = move_run(c, m, &moved);
    if (o == KV_DONE && moved)
        kv_put_integer(c->engine, 1);
    return o;
}

enum kv_outcome kv_cmd_rename(struct kv_command *c)
{
    int nx = strcmp(c->spec->name, "renamenx") == 0;
    struct move m = {kv_command_entry(c, 1), c->database, &c->argv[2], 0};
    int same = c->argv[1].size == c->argv[2].size &&
               memcmp(c->argv[1].data, c->argv[2].data, c->argv[1].size) == 0;
    enum kv_outcome o = KV_DONE;
    int moved = 1;

    if (m.from == NULL) {
        kv_put_error(c->engine, "ERR no such key");
        return KV_DONE;
    }
    if (nx && (same || kv_command_entry(c, 2) != NULL)) {
        kv_put_integer(c->engine, 0);
        return KV_DONE;
    }
    if (!same)
        o = move_run(c, &m, &moved);
    if (o == KV_DONE && moved)
        kv_put_text(c->engine, nx ? ":1\r\n" : "+OK\r\n");
    return o;
}

enum kv_outcome kv_cmd_copy(struct kv_command *c)
{
    struct move m = {NULL, c->database, &c->argv[2], 1};
    int replace = 0;

    for (uint32_t i = 3; i < c->argc; i++) {
        if (resp_arg_is(&c->argv[i], "replace")) {
            replace = 1;
        } else if (resp_arg_is(&c->argv[i], "db") && i + 1 < c->argc) {
            if (kv_database_number(c, &c->argv[++i], &m.database) != 0)
                return KV_DONE;
        } else {
            kv_put_error(c->engine, "ERR syntax error");
            return KV_DONE;
        }
    }
    if (m.database == c->database && c->argv[1].size == c->argv[2].size &&
        memcmp(c->argv[1].data, c->argv[2].data, c->argv[1].size) == 0) {
        kv_put_error(c->engine, "ERR source and destination objects are the same");
        return KV_DONE;
    }
    return move_answer(c, &m, replace);
}

enum kv_outcome kv_cmd_move(struct kv_command *c)
{
    struct move m = {NULL, 0, &c->argv[1], 0};

    if (kv_database_number(c, &c->argv[2], &m.database) != 0)
        return KV_DONE;
    if (m.database == c->database) {
        kv_put_error(c->engine, "ERR source and destination objects are the same");
        return KV_DONE;
    }
    return move_answer(c, &m, 0);
}

enum kv_outcome kv_cmd_swapdb(struct kv_command *c)
{
    int64_t n[2];
    uint64_t end;
    int r;

    for (uint32_t i = 0; i < 2; i++)
        if (resp_number(c->argv[1 + i].data, c->argv[1 + i].size, &n[i]) != 0 || n[i] < INT_MIN ||
            n[i] > INT_MAX) {
            kv_put_error(c->engine, "ERR invalid %s DB index", i == 0 ? "first" : "second");
            return KV_DONE;
        }
    for (uint32_t i = 0; i < 2; i++)
        if (kv_database_check(c, n[i]) != 0)
            return KV_DONE;
    if (n[0] != n[1]) {
        r = kv_store_swap(c->store, (uint32_t)n[0], (uint32_t)n[1], &end);
        if (r != 0)
            return kv_write_failed(c, r);
        kv_depends(c, end);
        kv_watch_swapped(c->engine, (uint32_t)n[0]);
        kv_watch_swapped(c->engine, (uint32_t)n[1]);
    }
    kv_put_text(c->engine, "+OK\r\n");
    return KV_DONE;
}
