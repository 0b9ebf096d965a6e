/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* Commands on strings. Error texts are Redis 7's. */
#include "commands.h"

#include <math.h>
#include <string.h>

static void string_number(struct ds_request *r, int64_t n)
{
    resp_put_count(&r->reply, ':', n);
}

static void string_ok(struct ds_request *r)
{
    resp_put_text(&r->reply, "+OK\r\n");
}

static void string_put(struct ds_value *v, const void *data, uint32_t size)
{
    v->put = data;
    v->put_size = size;
}

/* ---- Reading ---- */

enum ds_verdict ds_cmd_get(struct ds_request *r, struct ds_value *v)
{
    if (v->present)
        resp_put_value(&r->reply, v->data, v->size);
    else
        resp_put_null(&r->reply);
    return DS_REPLY;
}

enum ds_verdict ds_cmd_strlen(struct ds_request *r, struct ds_value *v)
{
    string_number(r, v->size);
    return DS_REPLY;
}

enum ds_verdict ds_cmd_getrange(struct ds_request *r, struct ds_value *v)
{
    uint64_t from;
    uint64_t count;

    if (resp_range(&r->reply, r->argv, v->size, &from, &count) == 0)
        resp_put_value(&r->reply, count > 0 ? v->data + from : (const void *)"", count);
    return DS_REPLY;
}

/* ---- SET and its relatives ---- */

/* A write that does not look at the value. */
static void string_blind(struct ds_request *r, const struct resp_arg *value, int64_t expire_ms)
{
    r->blind = 1;
    r->op.kind = SNIC_STORE_PUT;
    r->op.data = value->data;
    r->op.size = value->size;
    r->op.ttl_ns = expire_ms != 0 ? ds_ttl_ns(r, expire_ms) : 0;
    string_ok(r);
}

int ds_parse_set(struct ds_request *r)
{
    struct resp_set *o = &r->u.set;

    if (resp_set_options(&r->reply, r->argv, r->argc, 3,
                         RESP_SET_NX | RESP_SET_XX | RESP_SET_GET | RESP_SET_KEEPTTL, o) != 0 ||
        resp_set_expiry(&r->reply, r->argv, r->command->name, r->now_ms, o) != 0)
        return -1;
    if (o->flags == 0 && ds_ttl_ns(r, o->expire_ms) != 0)
        string_blind(r, &r->argv[2], o->expire_ms);
    return 0;
}

enum ds_verdict ds_cmd_set(struct ds_request *r, struct ds_value *v)
{
    const struct resp_set *o = &r->u.set;
    int refused = ((o->flags & RESP_SET_NX) != 0 && v->present) ||
                  ((o->flags & RESP_SET_XX) != 0 && !v->present);

    if ((o->flags & RESP_SET_GET) != 0)
        (void)ds_cmd_get(r, v);
    else if (refused)
        resp_put_null(&r->reply);
    else
        string_ok(r);
    if (refused)
        return DS_REPLY;
    if (o->expire_ms != 0 && ds_ttl_ns(r, o->expire_ms) == 0) /* EXAT in the past */
        return v->present ? DS_DELETE : DS_REPLY;
    v->keep_ttl = (o->flags & RESP_SET_KEEPTTL) != 0;
    v->put_ttl_ns = o->expire_ms != 0 ? ds_ttl_ns(r, o->expire_ms) : 0;
    string_put(v, r->argv[2].data, r->argv[2].size);
    return DS_PUT;
}

int ds_parse_setex(struct ds_request *r)
{
    struct resp_set *o = &r->u.set;

    memset(o, 0, sizeof(*o));
    o->timed = 2;
    o->unit_ms = r->command->name[0] == 'p' ? 1 : 1000;
    if (resp_set_expiry(&r->reply, r->argv, r->command->name, r->now_ms, o) != 0)
        return -1;
    string_blind(r, &r->argv[3], o->expire_ms);
    return 0;
}

enum ds_verdict ds_cmd_setnx(struct ds_request *r, struct ds_value *v)
{
    string_number(r, !v->present);
    string_put(v, r->argv[2].data, r->argv[2].size);
    return v->present ? DS_REPLY : DS_PUT;
}

enum ds_verdict ds_cmd_getset(struct ds_request *r, struct ds_value *v)
{
    (void)ds_cmd_get(r, v);
    string_put(v, r->argv[2].data, r->argv[2].size);
    return DS_PUT;
}

enum ds_verdict ds_cmd_getdel(struct ds_request *r, struct ds_value *v)
{
    (void)ds_cmd_get(r, v);
    return v->present ? DS_DELETE : DS_REPLY;
}

int ds_parse_getex(struct ds_request *r)
{
    struct resp_set *o = &r->u.set;

    if (resp_set_options(&r->reply, r->argv, r->argc, 2, RESP_SET_PERSIST, o) != 0)
        return -1;
    return resp_set_expiry(&r->reply, r->argv, r->command->name, r->now_ms, o);
}

enum ds_verdict ds_cmd_getex(struct ds_request *r, struct ds_value *v)
{
    const struct resp_set *o = &r->u.set;

    (void)ds_cmd_get(r, v);
    if (!v->present || (o->timed == 0 && (o->flags & RESP_SET_PERSIST) == 0))
        return DS_REPLY;
    if (o->timed == 0 && v->ttl_ns == 0)
        return DS_REPLY;
    if (o->timed != 0 && ds_ttl_ns(r, o->expire_ms) == 0)
        return DS_DELETE;
    v->put_ttl_ns = o->timed != 0 ? ds_ttl_ns(r, o->expire_ms) : 0;
    string_put(v, v->data, v->size);
    return DS_PUT;
}

/* ---- Parts ---- */

/* The value with @p part written over it at @p offset, zeros between; the reply is its length. */
static enum ds_verdict string_over(struct ds_request *r, struct ds_value *v, uint64_t offset,
                                   const struct resp_arg *part)
{
    uint64_t size = snic_max_u64(offset + part->size, v->size);

    if (part->size > r->shard->node->config->value_max ||
        size > r->shard->node->config->value_max) {
        ds_put_failure(r, SNIC_EMSGSIZE);
        return DS_REPLY;
    }
    if (v->size > 0)
        memcpy(v->room, v->data, v->size);
    if (offset > v->size)
        memset(v->room + v->size, 0, offset - v->size);
    if (part->size > 0)
        memcpy(v->room + offset, part->data, part->size);
    v->keep_ttl = 1;
    string_put(v, v->room, (uint32_t)size);
    string_number(r, (int64_t)size);
    return DS_PUT;
}

enum ds_verdict ds_cmd_append(struct ds_request *r, struct ds_value *v)
{
    return string_over(r, v, v->size, &r->argv[2]);
}

int ds_parse_setrange(struct ds_request *r)
{
    if (resp_number(r->argv[2].data, r->argv[2].size, &r->u.number) != 0) {
        ds_error(&r->reply, "ERR value is not an integer or out of range");
        return -1;
    }
    if (r->u.number < 0) {
        ds_error(&r->reply, "ERR offset is out of range");
        return -1;
    }
    return 0;
}

enum ds_verdict ds_cmd_setrange(struct ds_request *r, struct ds_value *v)
{
    if (r->argv[3].size > 0) {
        if ((uint64_t)r->u.number <= r->shard->node->config->value_max)
            return string_over(r, v, (uint64_t)r->u.number, &r->argv[3]);
        ds_put_failure(r, SNIC_EMSGSIZE);
        return DS_REPLY;
    }
    string_number(r, v->size);
    return DS_REPLY;
}

/* ---- Numbers ---- */

int ds_parse_incr(struct ds_request *r)
{
    return resp_step(&r->reply, r->argv, r->argc, r->command->name[0] == 'd', &r->u.number);
}

enum ds_verdict ds_cmd_incr(struct ds_request *r, struct ds_value *v)
{
    struct resp_arg text = {v->present ? v->data : (const unsigned char *)"0",
                            v->present ? v->size : 1};
    char digits[24];
    int64_t next;
    size_t size;

    if (resp_increment(&r->reply, &text, r->u.number, &next) != 0)
        return DS_REPLY;
    size = resp_put_number(digits, ':', next);
    memcpy(v->room, digits + 1, size - 3);
    v->keep_ttl = 1;
    string_put(v, v->room, (uint32_t)size - 3);
    string_number(r, next);
    return DS_PUT;
}

int ds_parse_incrbyfloat(struct ds_request *r)
{
    if (resp_float(r->argv[2].data, r->argv[2].size, &r->u.real) == 0)
        return 0;
    ds_error(&r->reply, "ERR value is not a valid float");
    return -1;
}

enum ds_verdict ds_cmd_incrbyfloat(struct ds_request *r, struct ds_value *v)
{
    char text[RESP_FLOAT_MAX];
    long double old = 0;
    size_t size;

    if (v->present && resp_float(v->data, v->size, &old) != 0) {
        ds_error(&r->reply, "ERR value is not a valid float");
        return DS_REPLY;
    }
    if (isnan(old + r->u.real) || isinf(old + r->u.real)) {
        ds_error(&r->reply, "ERR increment would produce NaN or Infinity");
        return DS_REPLY;
    }
    size = resp_float_print(text, old + r->u.real);
    if (size > r->shard->node->config->value_max) {
        ds_put_failure(r, SNIC_EMSGSIZE);
        return DS_REPLY;
    }
    memcpy(v->room, text, size);
    v->keep_ttl = 1;
    string_put(v, v->room, (uint32_t)size);
    resp_put_bulk(&r->reply, text, size);
    return DS_PUT;
}
