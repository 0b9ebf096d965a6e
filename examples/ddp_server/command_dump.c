/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* DUMP and RESTORE, in Redis' format: payloads go to and from its strings. */
#include "commands.h"

#include "../resp/rdb.h"

#include <stdlib.h>
#include <string.h>

enum ds_verdict ds_cmd_dump(struct ds_request *r, struct ds_value *v)
{
    unsigned char *out;

    if (!v->present) {
        resp_put_null(&r->reply);
        return DS_REPLY;
    }
    out = malloc((size_t)v->size + RDB_OVERHEAD);
    if (out == NULL)
        ds_error(&r->reply, "OOM out of memory");
    else
        resp_put_bulk(&r->reply, out, rdb_dump(out, v->data, v->size));
    free(out);
    return DS_REPLY;
}

/* ---- RESTORE key ttl payload [REPLACE] [ABSTTL] ---- */

/* The string of a payload. 0; -1 the error is put */
static int dump_open(struct ds_request *r, struct rdb_string *s)
{
    const struct resp_arg *a = &r->argv[3];
    char error[RDB_ERROR_MAX];

    if (rdb_read(s, a->data, a->size, error) != 0)
        ds_error(&r->reply, "%s", error);
    else if (s->size > r->shard->node->config->value_max)
        ds_error(&r->reply, "ERR value is longer than %llu bytes (--value-max)",
                 (unsigned long long)r->shard->node->config->value_max);
    else
        return 0;
    return -1;
}

int ds_parse_restore(struct ds_request *r)
{
    struct ds_restore *o = &r->u.restore;
    struct rdb_string s;

    memset(o, 0, sizeof(*o));
    for (uint32_t i = 4; i < r->argc; i++) {
        const struct resp_arg *a = &r->argv[i];

        if (resp_arg_is(a, "replace")) {
            o->replace = 1;
        } else if (resp_arg_is(a, "absttl")) {
            o->absolute = 1;
        } else if (resp_arg_is(a, "idletime") || resp_arg_is(a, "freq")) {
            ds_error(&r->reply,
                     "ERR RESTORE %.*s is not supported: the nodes do not record when a key was "
                     "used",
                     (int)a->size, (const char *)a->data);
            return -1;
        } else {
            ds_error(&r->reply, "ERR syntax error");
            return -1;
        }
    }
    if (resp_number(r->argv[2].data, r->argv[2].size, &o->when_ms) != 0) {
        ds_error(&r->reply, "ERR value is not an integer or out of range");
        return -1;
    }
    if (o->when_ms < 0) {
        ds_error(&r->reply, "ERR Invalid TTL value, must be >= 0");
        return -1;
    }
    if (o->when_ms > 0 && !o->absolute)
        o->when_ms = (int64_t)snic_min_u64((uint64_t)o->when_ms, DS_TTL_MAX_MS) + r->now_ms;
    return dump_open(r, &s);
}

enum ds_verdict ds_cmd_restore(struct ds_request *r, struct ds_value *v)
{
    const struct ds_restore *o = &r->u.restore;
    struct rdb_string s;

    if (v->present && !o->replace) {
        resp_put_text(&r->reply, "-BUSYKEY Target key name already exists.\r\n");
        return DS_REPLY;
    }
    if (dump_open(r, &s) != 0)
        return DS_REPLY;
    if (rdb_value(&s, v->room) != 0) {
        ds_error(&r->reply, "ERR Bad data format");
        return DS_REPLY;
    }
    resp_put_text(&r->reply, "+OK\r\n");
    if (o->when_ms > 0 && o->when_ms <= r->now_ms) /* in the past */
        return v->present ? DS_DELETE : DS_REPLY;
    v->put = v->room;
    v->put_size = s.size;
    v->put_ttl_ns = o->when_ms > 0 ? ds_ttl_ns(r, o->when_ms) : 0;
    return DS_PUT;
}
