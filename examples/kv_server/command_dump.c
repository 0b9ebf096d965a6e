/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* DUMP and RESTORE. */
#include "engine_priv.h"

#include "../resp/rdb.h"

#include <stdlib.h>

enum kv_outcome kv_cmd_dump(struct kv_command *c)
{
    struct kv_entry *e = kv_command_entry(c, 1);
    const unsigned char *value;
    unsigned char *out;
    enum kv_outcome o;
    uint32_t size;

    if (e == NULL) {
        kv_put_null(c->engine);
        return KV_DONE;
    }
    o = kv_value_to_modify(c, e, &value, &size);
    if (o != KV_DONE)
        return o == KV_LATER ? KV_DONE : o;
    out = malloc((size_t)size + RDB_OVERHEAD);
    if (out == NULL) {
        kv_put_store_error(c->engine, SNIC_ENOMEM);
        return KV_DONE;
    }
    kv_put_bulk(c->engine, out, rdb_dump(out, value, size));
    free(out);
    return KV_DONE;
}

struct dump_options {
    int replace;
    int absolute;
    int64_t idle; /* s; -1: not named */
    int64_t frequency;
};

/* Behind the payload. 0, or the error is written. */
static int dump_options(struct kv_command *c, struct dump_options *o)
{
    for (uint32_t i = 4; i < c->argc; i++) {
        const struct resp_arg *a = &c->argv[i];
        int more = i + 1 < c->argc;
        int idle = resp_arg_is(a, "idletime") && more && o->frequency == -1;
        int64_t *number = idle ? &o->idle : &o->frequency;

        if (resp_arg_is(a, "replace")) {
            o->replace = 1;
        } else if (resp_arg_is(a, "absttl")) {
            o->absolute = 1;
        } else if (idle || (resp_arg_is(a, "freq") && more && o->idle == -1)) {
            i++;
            if (kv_number(c, &c->argv[i], number) != 0)
                return -1;
            if (*number < 0 || (!idle && *number > 255)) {
                kv_put_error(c->engine, idle ? "ERR Invalid IDLETIME value, must be >= 0"
                                             : "ERR Invalid FREQ value, must be >= 0 and <= 255");
                return -1;
            }
        } else {
            kv_put_error(c->engine, "ERR syntax error");
            return -1;
        }
    }
    return 0;
}

/* The string in argv[3]. 0 and *value, which the caller frees; else the error is written. */
static int dump_value(struct kv_command *c, unsigned char **value, uint32_t *size)
{
    const struct resp_arg *a = &c->argv[3];
    char error[RDB_ERROR_MAX];
    struct rdb_string s;

    if (rdb_read(&s, a->data, a->size, error) != 0) {
        kv_put_error(c->engine, "%s", error);
        return -1;
    }
    if (s.size > c->engine->opts.value_max) {
        kv_put_error(c->engine, "ERR string exceeds maximum allowed size (proto-max-bulk-len)");
        return -1;
    }
    *size = s.size;
    *value = malloc(s.size > 0 ? s.size : 1);
    if (*value == NULL) {
        kv_put_store_error(c->engine, SNIC_ENOMEM);
        return -1;
    }
    if (rdb_value(&s, *value) != 0) {
        free(*value);
        kv_put_error(c->engine, "ERR Bad data format");
        return -1;
    }
    return 0;
}

/* The time is over: the key goes. */
static enum kv_outcome dump_expired(struct kv_command *c, struct kv_entry *e)
{

    if (e != NULL) {
        int r = kv_delete(c, e);

        if (r != 0)
            return kv_write_failed(c, r);
    }
    kv_put_text(c->engine, "+OK\r\n");
    return KV_DONE;
}

enum kv_outcome kv_cmd_restore(struct kv_command *c)
{
    struct dump_options options = {0, 0, -1, -1};
    struct kv_string_put p = {.database = c->database, .key = &c->argv[1]};
    int64_t now = (int64_t)kv_store_wall_ms(c->store);
    unsigned char *value;
    struct kv_entry *e;
    enum kv_outcome o;
    int64_t ttl;
    int stored;

    if (dump_options(c, &options) != 0)
        return KV_DONE;
    e = kv_command_entry(c, 1);
    if (e != NULL && !options.replace) {
        kv_put_error(c->engine, "BUSYKEY Target key name already exists.");
        return KV_DONE;
    }
    if (kv_number(c, &c->argv[2], &ttl) != 0)
        return KV_DONE;
    if (ttl < 0) {
        kv_put_error(c->engine, "ERR Invalid TTL value, must be >= 0");
        return KV_DONE;
    }
    if (dump_value(c, &value, &p.size) != 0)
        return KV_DONE;
    p.value = value;
    if (ttl > 0 && !options.absolute && ttl > INT64_MAX - now)
        ttl = 1; /* Redis' sum wraps round and is long over */
    else if (ttl > 0 && !options.absolute)
        ttl += now;
    p.expire_ms = (uint64_t)ttl;
    if (ttl > 0 && ttl <= now) {
        free(value);
        return dump_expired(c, e);
    }
    o = kv_string_store(c, &p, &stored);
    free(value);
    if (o != KV_DONE || !stored)
        return o;
    if (options.idle > 0) {
        e = kv_store_find(c->store, c->database, p.key->data, p.key->size);
        if (e != NULL)
            e->accessed -= (uint32_t)snic_min_u64((uint64_t)options.idle, e->accessed);
    }
    kv_put_text(c->engine, "+OK\r\n");
    return KV_DONE;
}
