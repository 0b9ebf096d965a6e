/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * CLIENT LIST and CLIENT KILL, of all loops: each looks at its own connections.
 *     CLIENT LIST [TYPE type] [ID id ...]
 *     CLIENT KILL address
 *     CLIENT KILL [ID id] [ADDR address] [LADDR address] [TYPE type] [USER name] [SKIPME yes|no]
 * ...
 */
#include "commands.h"

#include <inttypes.h>
#include <string.h>

int64_t ds_client_number(const struct ds_shard *s, const struct ds_client *c)
{
    return (int64_t)((c->id * s->node->count + s->index) & INT64_MAX);
}

void ds_client_line(struct resp_reply *r, struct ds_shard *s, const struct ds_client *c)
{
    struct ex_front_facts f;
    uint64_t now = snic_loop_now(s->loop);

    memset(&f, 0, sizeof(f));
    if (s->front == NULL || !ex_front_get_facts(s->front, c->id, &f))
        return;
    ds_format(r,
              "id=%" PRId64 " addr=%s laddr=%s fd=-1 name=%s age=%" PRIu64 " idle=%" PRIu64
              " flags=%s db=0 sub=0 psub=0 ssub=0 multi=-1 qbuf=%zu qbuf-free=%zu argv-mem=%" PRIu64
              " obl=%zu oll=%u omem=%zu cmd=%s user=default resp=%d lib-name=%s lib-ver=%s\n",
              ds_client_number(s, c), f.peer, f.own, c->name, (now - c->created_ns) / 1000000000u,
              (now - c->used_ns) / 1000000000u, c->no_evict ? "e" : "N", f.query_bytes,
              f.query_memory - f.query_bytes, c->bytes, f.out_bytes, f.out_blocks, f.out_memory,
              c->last != NULL ? c->last->name : "NULL", c->resp3 ? 3 : 2, c->lib_name,
              c->lib_version);
}

/* ---- Which clients ---- */

struct client_filter {
    const struct resp_arg *ids; /* NULL: any */
    uint32_t ids_count;
    const struct resp_arg *peer;
    const struct resp_arg *own;
    int none; /* of a type, or a user's, that there are none of */
    int skip_me;
};

/* 0; -1 the error is put */
static int client_type(struct resp_reply *r, const struct resp_arg *a, struct client_filter *f)
{
    static const char *const others[] = {"pubsub", "master", "replica", "slave"};

    if (resp_arg_is(a, "normal"))
        return 0;
    f->none = 1;
    for (size_t i = 0; i < SNIC_COUNTOF(others); i++)
        if (resp_arg_is(a, others[i]))
            return 0;
    ds_error(r, "ERR Unknown client type '%.*s'", a->size < 64 ? (int)a->size : 64,
             (const char *)a->data);
    return -1;
}

/* 0; -1 the error is put */
static int client_ids(struct ds_request *r, uint32_t from, uint32_t count, struct client_filter *f)
{
    int64_t n;

    f->ids = &r->argv[from];
    f->ids_count = count;
    for (uint32_t i = 0; i < count; i++)
        if (resp_number(f->ids[i].data, f->ids[i].size, &n) != 0 || n <= 0) {
            ds_error(&r->reply, "ERR client-id should be greater than 0");
            return -1;
        }
    return 0;
}

/* An option of KILL with its value. 0; -1 the error is put */
static int client_option(struct ds_request *r, uint32_t i, struct client_filter *f)
{
    const struct resp_arg *a = &r->argv[i];
    const struct resp_arg *v = &r->argv[i + 1];

    if (resp_arg_is(a, "id"))
        return client_ids(r, i + 1, 1, f);
    if (resp_arg_is(a, "type"))
        return client_type(&r->reply, v, f);
    if (resp_arg_is(a, "addr")) {
        f->peer = v;
    } else if (resp_arg_is(a, "laddr")) {
        f->own = v;
    } else if (resp_arg_is(a, "skipme") && (resp_arg_is(v, "yes") || resp_arg_is(v, "no"))) {
        f->skip_me = resp_arg_is(v, "yes");
    } else if (resp_arg_is(a, "user")) {
        f->none |= !resp_arg_is(v, "default");
    } else {
        ds_error(&r->reply, "ERR syntax error");
        return -1;
    }
    return 0;
}

static int client_is(const char *text, const struct resp_arg *want)
{
    return want == NULL ||
           (strlen(text) == want->size && memcmp(text, want->data, want->size) == 0);
}

static int client_wanted(const struct ds_request *r, const struct ds_client *c,
                         const struct client_filter *f)
{
    struct ds_shard *s = r->shard;
    struct ex_front_facts facts;

    return !f->none && !(f->skip_me && r->home == s && r->client == c->id) &&
           ex_front_get_facts(s->front, c->id, &facts) && client_is(facts.peer, f->peer) &&
           client_is(facts.own, f->own);
}

/* The row of the client that has the number @p a. NULL: it is another loop's */
static struct ds_client *client_numbered(struct ds_shard *s, const struct resp_arg *a)
{
    uint64_t id;
    int64_t n;

    if (resp_number(a->data, a->size, &n) != 0 || (uint64_t)n % s->node->count != s->index)
        return NULL;
    id = (uint64_t)n / s->node->count;
    return (id & 0xffff) < s->node->config->server.conns_max ? ds_client_find(s, id) : NULL;
}

/* The next one from @p at on. NULL: there are no more */
static struct ds_client *client_next(const struct ds_request *r, const struct client_filter *f,
                                     uint64_t *at)
{
    struct ds_shard *s = r->shard;
    uint64_t count = f->ids != NULL ? f->ids_count : s->node->config->server.conns_max;

    while (s->front != NULL && *at < count) {
        struct ds_client *c = f->ids != NULL ? client_numbered(s, &f->ids[*at]) : &s->clients[*at];

        ++*at;
        if (c != NULL && c->id != 0 && client_wanted(r, c, f))
            return c;
    }
    return NULL;
}

/* ---- LIST ---- */

void ds_visit_client_list(struct ds_request *r)
{
    struct client_filter f = {.ids = NULL};
    const struct ds_client *c;
    uint64_t at = 0;
    int bad = 0;

    if (r->argc == 4 && resp_arg_is(&r->argv[2], "type")) {
        bad = client_type(&r->reply, &r->argv[3], &f);
    } else if (r->argc > 3 && resp_arg_is(&r->argv[2], "id")) {
        bad = client_ids(r, 3, r->argc - 3, &f);
    } else if (r->argc > 2) {
        ds_error(&r->reply, "ERR syntax error");
        bad = -1;
    }
    while (bad == 0 && (c = client_next(r, &f, &at)) != NULL)
        ds_client_line(&r->reply, r->shard, c);
    ds_request_end(r);
}

void ds_join_client_list(struct ds_request *r)
{
    struct resp_reply text = {0};

    for (uint32_t i = 0; i < r->parts_count; i++)
        resp_put(&text, r->parts[i]->reply.data, r->parts[i]->reply.size);
    resp_put_verbatim(&r->reply, text.data, text.size);
    r->reply.failed |= text.failed;
    resp_reply_free(&text);
}

/* ---- KILL ---- */

void ds_visit_client_kill(struct ds_request *r)
{
    struct client_filter f = {.skip_me = r->argc > 3};
    struct ds_client *c;
    uint64_t at = 0;
    int bad = 0;

    if (r->argc == 3)
        f.peer = &r->argv[2];
    if (r->argc > 3 && r->argc % 2 != 0) {
        ds_error(&r->reply, "ERR syntax error");
        bad = -1;
    }
    for (uint32_t i = 2; bad == 0 && i + 1 < r->argc; i += 2)
        bad = client_option(r, i, &f);
    while (bad == 0 && (c = client_next(r, &f, &at)) != NULL) {
        r->number++;
        if (r->home == r->shard && r->client == c->id)
            r->flags |= EX_FRONT_CLOSE; /* behind the reply */
        else
            (void)ex_front_kill(r->shard->front, c->id);
    }
    ds_request_end(r);
}

void ds_join_client_kill(struct ds_request *r)
{
    int64_t sum = 0;

    for (uint32_t i = 0; i < r->parts_count; i++) {
        sum += r->parts[i]->number;
        r->flags |= r->parts[i]->flags;
    }
    if (r->argc > 3)
        resp_put_count(&r->reply, ':', sum);
    else if (sum == 0)
        ds_error(&r->reply, "ERR No such client");
    else
        resp_put_text(&r->reply, "+OK\r\n");
}
