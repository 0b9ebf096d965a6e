/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* EXPIRE, TTL and their relatives. */
#include "engine_priv.h"

#include <string.h>

#define KV_EXPIRE_NX 1u
#define KV_EXPIRE_XX 2u
#define KV_EXPIRE_GT 4u
#define KV_EXPIRE_LT 8u

/* NX XX GT LT. 0, or the error reply is written. */
static int expire_flags(struct kv_command *c, uint32_t *flags)
{
    static const char *const words[] = {"nx", "xx", "gt", "lt"};

    *flags = 0;
    for (uint32_t i = 3; i < c->argc; i++) {
        uint32_t w = 0;

        while (w < SNIC_COUNTOF(words) && !resp_arg_is(&c->argv[i], words[w]))
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
static int expire_allowed(const struct kv_entry *e, uint32_t flags, int64_t when)
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

/* Another expiry; the reply is 1. */
static enum kv_outcome expire_set(struct kv_command *c, struct kv_entry *e, uint64_t expire_ms)
{
    int written;
    enum kv_outcome o = kv_rewrite(c, e, expire_ms, &written);

    if (o == KV_DONE && written)
        kv_put_integer(c->engine, 1);
    return o;
}

enum kv_outcome kv_cmd_expire(struct kv_command *c)
{
    const char *name = c->spec->name;
    struct kv_entry *e;
    uint32_t flags;
    int64_t when;
    int r = kv_expiry(c, &c->argv[2], name[0] == 'p' ? 1 : 1000, strstr(name, "at") != NULL, &when);

    if (expire_flags(c, &flags) != 0)
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
    if (e == NULL || !expire_allowed(e, flags, when)) {
        kv_put_integer(c->engine, 0);
        return KV_DONE;
    }
    if (when <= (int64_t)kv_store_wall_ms(c->store)) { /* in the past: delete at once */
        r = kv_delete(c, e);
        if (r != 0)
            return kv_write_failed(c, r);
        kv_put_integer(c->engine, 1);
        return KV_DONE;
    }
    return expire_set(c, e, (uint64_t)when);
}

enum kv_outcome kv_cmd_persist(struct kv_command *c)
{
    struct kv_entry *e = kv_command_entry(c, 1);

    if (e == NULL || e->expire_ms == 0) {
        kv_put_integer(c->engine, 0);
        return KV_DONE;
    }
    return expire_set(c, e, 0);
}

enum kv_outcome kv_cmd_ttl(struct kv_command *c)
{
    const char *name = c->spec->name;
    struct kv_entry *e = kv_command_peek(c, 1);
    int64_t left = -2;

    if (e != NULL) {
        left = -1;
        if (e->expire_ms != 0) {
            left = (int64_t)e->expire_ms;
            if (strstr(name, "time") == NULL)
                left -= (int64_t)kv_store_wall_ms(c->store);
            if (name[0] != 'p')
                left = (int64_t)(((uint64_t)left + 500) / 1000);
        }
    }
    kv_put_integer(c->engine, left);
    return KV_DONE;
}
