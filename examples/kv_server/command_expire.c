/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* EXPIRE, TTL and their relatives. */
#include "engine_priv.h"

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
    struct kv_entry *e;
    struct resp_expire o;
    int r;

    if (resp_expire_options(&c->engine->reply, c->argv, c->argc, c->spec->name,
                            (int64_t)kv_store_wall_ms(c->store), &o) != 0)
        return KV_DONE;
    e = kv_command_entry(c, 1);
    if (e == NULL || !resp_expire_allowed(&o, (int64_t)e->expire_ms)) {
        kv_put_integer(c->engine, 0);
        return KV_DONE;
    }
    if (o.when_ms <= (int64_t)kv_store_wall_ms(c->store)) { /* in the past: delete at once */
        r = kv_delete(c, e);
        if (r != 0)
            return kv_write_failed(c, r);
        kv_put_integer(c->engine, 1);
        return KV_DONE;
    }
    return expire_set(c, e, (uint64_t)o.when_ms);
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
    struct kv_entry *e = kv_command_peek(c, 1);

    kv_put_integer(c->engine, e == NULL ? -2
                                        : resp_ttl(c->spec->name, (int64_t)e->expire_ms,
                                                   (int64_t)kv_store_wall_ms(c->store)));
    return KV_DONE;
}
