/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* Commands on keys, whatever they hold. Error texts are Redis 7's. */
#include "commands.h"

#include <string.h>

enum ds_verdict ds_cmd_del(struct ds_request *r, struct ds_value *v)
{
    r->number = v->present;
    return v->present ? DS_DELETE : DS_REPLY;
}

enum ds_verdict ds_cmd_exists(struct ds_request *r, struct ds_value *v)
{
    r->number = v->present;
    return DS_REPLY;
}

enum ds_verdict ds_cmd_type(struct ds_request *r, struct ds_value *v)
{
    resp_put_text(&r->reply, v->present ? "+string\r\n" : "+none\r\n");
    return DS_REPLY;
}

/* ---- Times ---- */

uint64_t ds_ttl_ns(const struct ds_request *r, int64_t expire_ms)
{
    if (expire_ms == 0)
        return UINT64_MAX; /* no end */
    if (expire_ms <= r->now_ms)
        return 0;
    return (uint64_t)snic_min_u64((uint64_t)(expire_ms - r->now_ms), DS_TTL_MAX_MS) * 1000000u;
}

/* When the key ends, on the wall clock in ms; 0: never. */
static int64_t key_end(const struct ds_request *r, const struct ds_value *v)
{
    return v->ttl_ns == 0 ? 0 : r->now_ms + (int64_t)((v->ttl_ns + 999999u) / 1000000u);
}

int ds_parse_expire(struct ds_request *r)
{
    return resp_expire_options(&r->reply, r->argv, r->argc, r->command->name, r->now_ms,
                               &r->u.expire);
}

enum ds_verdict ds_cmd_expire(struct ds_request *r, struct ds_value *v)
{
    int done = v->present && resp_expire_allowed(&r->u.expire, key_end(r, v));

    resp_put_count(&r->reply, ':', done);
    if (!done)
        return DS_REPLY;
    if (r->u.expire.when_ms <= r->now_ms) /* in the past */
        return DS_DELETE;
    v->put_ttl_ns = ds_ttl_ns(r, r->u.expire.when_ms);
    v->put = v->data;
    v->put_size = v->size;
    return DS_PUT;
}

enum ds_verdict ds_cmd_persist(struct ds_request *r, struct ds_value *v)
{
    int done = v->present && v->ttl_ns != 0;

    resp_put_count(&r->reply, ':', done);
    v->put = v->data;
    v->put_size = v->size;
    return done ? DS_PUT : DS_REPLY;
}

enum ds_verdict ds_cmd_ttl(struct ds_request *r, struct ds_value *v)
{
    resp_put_count(&r->reply, ':',
                   v->present ? resp_ttl(r->command->name, key_end(r, v), r->now_ms) : -2);
    return DS_REPLY;
}

/* ---- OBJECT ---- */

enum ds_verdict ds_cmd_object(struct ds_request *r, struct ds_value *v)
{
    int64_t n;

    if (!v->present)
        resp_put_null(&r->reply);
    else if (resp_arg_is(&r->argv[1], "refcount"))
        resp_put_count(&r->reply, ':', 1);
    else if (resp_number(v->data, v->size, &n) == 0)
        ds_put_text(&r->reply, "int");
    else
        ds_put_text(&r->reply, v->size <= 44 ? "embstr" : "raw");
    return DS_REPLY;
}

int ds_parse_object(struct ds_request *r)
{
    if (resp_arg_is(&r->argv[1], "encoding") || resp_arg_is(&r->argv[1], "refcount"))
        return 0;
    ds_error(&r->reply,
             "ERR OBJECT %.*s is not supported: the nodes do not record when a key was used",
             r->argv[1].size < 32 ? (int)r->argv[1].size : 32, (const char *)r->argv[1].data);
    return -1;
}
