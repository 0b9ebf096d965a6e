/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* Commands on numbers: INCR, DECR, INCRBY, DECRBY, INCRBYFLOAT. */
#include "engine_priv.h"

#include <math.h>

enum kv_outcome kv_cmd_incr(struct kv_command *c)
{
    struct kv_entry *entry = kv_command_entry(c, 1);
    const struct resp_arg *k = &c->argv[1];
    char text[24];
    struct resp_arg text_old = {(const unsigned char *)"0", 1};
    int64_t next;
    int64_t step;
    uint64_t end;
    size_t size;
    int r;

    if (resp_step(&c->engine->reply, c->argv, c->argc, c->spec->name[0] == 'd', &step) != 0)
        return KV_DONE;
    if (entry != NULL) {
        const unsigned char *value;
        uint32_t value_size;
        enum kv_outcome o = kv_value_to_modify(c, entry, &value, &value_size);

        if (o != KV_DONE)
            return o == KV_LATER ? KV_DONE : o;
        kv_depends(c, kv_store_end(entry));
        text_old = (struct resp_arg){value, value_size};
    }
    if (resp_increment(&c->engine->reply, &text_old, step, &next) != 0)
        return KV_DONE;
    if (kv_command_held(c))
        return KV_AGAIN;
    size = resp_put_number(text, ':', next);
    r = kv_store_set(c->store, c->database, k->data, k->size, text + 1, (uint32_t)size - 3,
                     entry != NULL ? entry->expire_ms : 0, &end);
    if (r != 0)
        return kv_write_failed(c, r);
    kv_depends(c, end);
    kv_put(c->engine, text, size);
    return KV_DONE;
}

/* ---- INCRBYFLOAT ---- */

enum kv_outcome kv_cmd_incrbyfloat(struct kv_command *c)
{
    struct kv_entry *entry = kv_command_entry(c, 1);
    struct kv_string_put p = {
        .database = c->database, .key = &c->argv[1], .encoding = KV_ENTRY_TEXT};
    char text[RESP_FLOAT_MAX];
    long double old = 0;
    long double step;
    enum kv_outcome o;
    int failed = 0;
    int stored;

    if (entry != NULL) {
        const unsigned char *value;
        uint32_t size;

        o = kv_value_to_modify(c, entry, &value, &size);
        if (o != KV_DONE)
            return o == KV_LATER ? KV_DONE : o;
        failed = resp_float(value, size, &old) != 0;
        p.expire_ms = entry->expire_ms;
    }
    if (failed || resp_float(c->argv[2].data, c->argv[2].size, &step) != 0) {
        kv_put_error(c->engine, "ERR value is not a valid float");
        return KV_DONE;
    }
    if (isnan(old + step) || isinf(old + step)) {
        kv_put_error(c->engine, "ERR increment would produce NaN or Infinity");
        return KV_DONE;
    }
    p.value = text;
    p.size = (uint32_t)resp_float_print(text, old + step);
    o = kv_string_store(c, &p, &stored);
    if (o == KV_DONE && stored)
        kv_put_bulk(c->engine, text, p.size);
    return o;
}
