/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* Arguments as numbers, databases, times. Error texts are Redis 7's. */
#include "engine_priv.h"

int kv_number(struct kv_command *c, const struct resp_arg *a, int64_t *out)
{
    if (resp_number(a->data, a->size, out) == 0)
        return 0;
    kv_put_error(c->engine, "ERR value is not an integer or out of range");
    return -1;
}

int kv_database_check(struct kv_command *c, int64_t n)
{
    if (n >= 0 && n < (int64_t)c->engine->opts.databases)
        return 0;
    kv_put_error(c->engine, "ERR DB index is out of range");
    return -1;
}

int kv_database_number(struct kv_command *c, const struct resp_arg *a, uint32_t *out)
{
    int64_t n;

    if (kv_number(c, a, &n) != 0)
        return -1;
    if (n < INT32_MIN || n > INT32_MAX) {
        kv_put_error(c->engine, "ERR value is out of range, value must between %d and %d",
                     INT32_MIN, INT32_MAX);
        return -1;
    }
    *out = (uint32_t)n;
    return kv_database_check(c, n);
}
