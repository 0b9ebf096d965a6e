/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * Clients at their home: messages become commands, which are run at once or travel to their keys.
 *   N4 a client whose commands under way, and their expected replies, take CLIENT_WINDOW is not
 *      read from until they are answered; nor is any with SHARD_WINDOW of all.
 */
#include "node.h"

#include <stdlib.h>
#include <string.h>

#define CLIENT_PENDING 1024u
#define CLIENT_WINDOW ((uint64_t)1 << 20)
#define SHARD_WINDOW ((uint64_t)128 << 20)
#define CLIENT_REPLY_FIRST 16384u   /* bytes that a reply may take, as long as none is known */
#define CLIENT_HARD_NS 10000000000u /* a client at the hard limit that takes nothing */
#define CLIENT_REPLY_KEEP (1u << 20)

static struct ds_client *client_find(struct ds_shard *s, uint64_t id)
{
    struct ds_client *c = &s->clients[id & 0xffff];

    return c->id == id ? c : NULL;
}

/* The client of a message; new with its first one. */
static struct ds_client *client_get(struct ds_shard *s, uint64_t id)
{
    struct ds_client *c = &s->clients[id & 0xffff];

    if (c->id == id)
        return c;
    memset(c, 0, sizeof(*c));
    c->id = id;
    c->auth = s->node->config->settings.password[0] == 0;
    c->reply_bytes = CLIENT_REPLY_FIRST;
    c->created_ns = snic_loop_now(s->loop);
    return c;
}

static void client_closed(void *ctx, uint64_t id)
{
    struct ds_shard *s = ctx;
    struct ds_client *c = client_find(s, id);

    if (c != NULL)
        c->id = 0;
}

/* ---- Answers ---- */

/* Send the reply of a command that was not answered at once. */
static void client_send(struct ds_shard *s, uint64_t client, uint64_t seq,
                        const struct resp_reply *reply, int silent, uint32_t flags)
{
    static const char lost[] = "-OOM out of memory\r\n";
    struct snic_iov iov = {reply->data, reply->size};

    if (reply->failed) {
        iov.base = (void *)(uintptr_t)lost;
        iov.size = sizeof(lost) - 1;
    }
    ex_front_reply(s->front, client, seq, &iov, silent ? 0 : 1, flags);
}

/* A part of a command of several keys has ended. @return 1: it was the last */
static int client_part(struct ds_request *p)
{
    if (p->reply.size > 0 && p->reply.data[0] == '-' && p->error == 0)
        p->error = 1;
    return --p->parent->parts_left == 0;
}

/* The reply of a command of several keys: the first error, or their sum, or an array. */
static void client_combine(struct ds_request *r)
{
    int64_t sum = 0;

    for (uint32_t i = 0; i < r->parts_count; i++) {
        const struct ds_request *p = r->parts[i];

        if (p->error || p->reply.failed) {
            r->reply.size = 0;
            r->reply.failed |= p->reply.failed;
            resp_put(&r->reply, p->reply.data, p->reply.size);
            return;
        }
        sum += p->number;
    }
    if ((r->command->rules & DS_SUM) != 0) {
        resp_put_count(&r->reply, ':', sum);
        return;
    }
    resp_put_count(&r->reply, '*', r->parts_count);
    for (uint32_t i = 0; i < r->parts_count; i++)
        resp_put(&r->reply, r->parts[i]->reply.data, r->parts[i]->reply.size);
}

static void client_answer(struct ds_request *r)
{
    struct ds_shard *s = r->home;
    struct ds_client *c;

    if (r->parent != NULL) {
        if (!client_part(r))
            return;
        r = r->parent;
        client_combine(r);
    }
    c = client_find(s, r->client);
    if (c != NULL) {
        c->under_way--;
        c->bytes -= r->window;
        c->reply_bytes = r->reply.size > c->reply_bytes
                             ? r->reply.size
                             : (15 * c->reply_bytes + r->reply.size) / 16;
    }
    s->bytes -= r->window;
    client_send(s, r->client, r->seq, &r->reply, r->silent, 0);
    ds_request_free(r);
}

/* ---- Commands ---- */

/* One request for each key. 0; SNIC_ENOMEM */
static int client_parts(struct ds_shard *s, struct ds_request *r)
{
    r->parts = calloc(r->argc - 1, sizeof(struct ds_request *));
    if (r->parts == NULL)
        return SNIC_ENOMEM;
    for (uint32_t i = 1; i < r->argc; i++) {
        struct resp_arg argv[2] = {r->argv[0], r->argv[i]};
        struct ds_request *p = ds_request_new(argv, 2);

        if (p == NULL)
            return SNIC_ENOMEM;
        p->home = s;
        p->answer = client_answer;
        p->command = r->command;
        p->parent = r;
        p->reply.resp3 = r->reply.resp3;
        ds_request_key(s->node, p, &p->argv[1]);
        r->parts[r->parts_count++] = p;
    }
    r->parts_left = r->parts_count;
    return 0;
}

static void client_start(struct ds_shard *s, struct ds_request *r)
{
    if (r->shard == s)
        ds_request_run(r);
    else
        ds_mail_send(s, r->shard, r);
}

/* A command on keys. @return 1: the client is not read from until it is answered */
static int client_begin(struct ds_call *k, uint64_t seq)
{
    struct ds_shard *s = k->shard;
    struct ds_client *c = k->client;
    uint64_t id = c->id;
    struct ds_request *r = ds_request_new(k->argv, k->argc);

    if (r != NULL) {
        r->home = s;
        r->answer = client_answer;
        r->client = id;
        r->seq = seq;
        r->command = k->command;
        r->reply.resp3 = c->resp3;
        r->silent = c->silent || c->skip;
        r->window = r->size + c->reply_bytes;
    }
    if (r == NULL || (k->command->kind == DS_EACH && client_parts(s, r) != 0)) {
        if (r != NULL)
            ds_request_free(r);
        resp_put_text(k->reply, "-OOM out of memory\r\n");
        client_send(s, id, seq, k->reply, c->silent || c->skip, 0);
        return 0;
    }
    c->under_way++;
    c->bytes += r->window;
    s->bytes += r->window;
    if (k->command->kind == DS_EACH) {
        uint32_t count = r->parts_count; /* the last answer frees r */

        for (uint32_t i = 0; i < count; i++)
            client_start(s, r->parts[i]);
    } else {
        ds_request_key(s->node, r, &r->argv[1]);
        client_start(s, r);
    }
    c = client_find(s, id);
    return c != NULL && c->under_way > 0 && (c->bytes >= CLIENT_WINDOW || s->bytes >= SHARD_WINDOW);
}

/* 0, or the error is put. */
static int client_check(struct ds_call *k)
{
    const struct ds_command *m = k->command;

    if (m == NULL) {
        ds_put_unknown(k);
        return -1;
    }
    if ((m->arity > 0 && k->argc != (uint32_t)m->arity) ||
        (m->arity < 0 && k->argc < (uint32_t)-m->arity)) {
        ds_error(k->reply, "ERR wrong number of arguments for '%s' command", m->name);
        return -1;
    }
    if (!k->client->auth && (m->rules & DS_NO_AUTH) == 0) {
        ds_error(k->reply, "NOAUTH Authentication required.");
        return -1;
    }
    if (m->kind == DS_REFUSED) {
        ds_error(k->reply, "ERR '%s' is not supported: %s", m->name, m->reason);
        return -1;
    }
    for (uint32_t i = 1; i < k->argc && (m->kind == DS_EACH || (m->kind == DS_KEY && i == 1)); i++)
        if (k->argv[i].size > DS_KEY_MAX) {
            ds_error(k->reply, "ERR key is longer than %u bytes", DS_KEY_MAX);
            return -1;
        }
    return 0;
}

/* Arguments of a message into s->args; they point into it or into the scratch buffer. */
static int64_t client_args(struct ds_shard *s, const unsigned char *msg, size_t size)
{
    int64_t n;

    if (msg[0] != '*' && s->scratch_room < size) {
        unsigned char *p = realloc(s->scratch, size);

        if (p == NULL)
            return SNIC_ENOMEM;
        s->scratch = p;
        s->scratch_room = size;
    }
    n = resp_args(msg, size, s->args, s->args_room, s->scratch);
    if (n > s->args_room) {
        struct resp_arg *p = realloc(s->args, (size_t)n * sizeof(*p));

        if (p == NULL)
            return SNIC_ENOMEM;
        s->args = p;
        s->args_room = (uint32_t)n;
        n = resp_args(msg, size, s->args, s->args_room, s->scratch);
    }
    return n;
}

/* A message that has no command, or one that is answered at once. */
static void client_now(struct ds_call *k, int64_t n, uint64_t seq, const unsigned char *msg,
                       size_t size)
{
    struct ds_client *c = k->client;
    char text[RESP_ERROR_MAX];
    struct resp_limits limits = {UINT32_MAX, UINT32_MAX};
    int silent = c->silent || c->skip;

    if (n == SNIC_ENOMEM) {
        resp_put_text(k->reply, "-OOM out of memory\r\n");
    } else if (n < 0) {
        resp_put(k->reply, text, resp_error(msg, size, &limits, text));
        k->flags |= EX_FRONT_CLOSE;
    } else if (n > 0 && client_check(k) == 0) {
        c->last = k->command;
        k->command->run(k);
        silent = (k->flags & DS_CALL_SILENT) != 0 || (silent && (k->flags & DS_CALL_LOUD) == 0);
    }
    if ((k->flags & EX_FRONT_CLOSE) != 0)
        c->closing = 1;
    if (n != 0)
        c->skip = c->skip_next;
    c->skip_next = 0;
    client_send(k->shard, c->id, seq, k->reply, silent, k->flags & EX_FRONT_CLOSE);
}

static int client_message(void *ctx, uint64_t id, uint64_t seq, const unsigned char *msg,
                          size_t size)
{
    struct ds_shard *s = ctx;
    struct ds_call k = {.shard = s, .client = client_get(s, id), .reply = &s->reply};
    struct ds_client *c = k.client;
    int64_t n;
    int wait = 0;

    if (s->reply.room > CLIENT_REPLY_KEEP)
        resp_reply_free(&s->reply);
    s->reply.size = 0;
    s->reply.failed = 0;
    s->reply.resp3 = c->resp3;
    c->used_ns = snic_loop_now(s->loop);
    if (c->closing) {
        client_send(s, id, seq, &s->reply, 1, EX_FRONT_CLOSE);
        return 0;
    }
    n = client_args(s, msg, size);
    k.argv = s->args;
    k.argc = n > 0 ? (uint32_t)n : 0;
    if (n > 0 && (resp_arg_is(&k.argv[0], "post") || resp_arg_is(&k.argv[0], "host:"))) {
        c->closing = 1; /* a web page made a browser send this */
        client_send(s, id, seq, &s->reply, 1, EX_FRONT_CLOSE);
        return 0;
    }
    k.command = n > 0 ? ds_command_find(&k.argv[0]) : NULL;
    s->commands++;
    if (n > 0 && k.command != NULL && (k.command->kind == DS_KEY || k.command->kind == DS_EACH) &&
        client_check(&k) == 0) {
        c->last = k.command;
        wait = client_begin(&k, seq);
        if ((c = client_find(s, id)) != NULL)
            c->skip = 0;
    } else if (s->reply.size > 0) {
        client_send(s, id, seq, &s->reply, c->silent || c->skip, 0);
        c->skip = 0;
    } else {
        client_now(&k, n, seq, msg, size);
    }
    return wait;
}

/* ---- Listening ---- */

static void client_second(void *ctx)
{
    struct ds_shard *s = ctx;

    resp_framing_report(&s->framing);
}

void ds_client_listen(struct ds_shard *s, struct snic_net_addr *bound)
{
    const struct ds_config *c = s->node->config;
    const struct resp_settings *t = &c->settings;
    struct ex_front_opts o;
    int r;

    memset(&o, 0, sizeof(o));
    s->clients = calloc(c->server.conns_max, sizeof(*s->clients));
    if (s->clients == NULL)
        ex_die("out of memory for %llu clients: lower --connections",
               (unsigned long long)c->server.conns_max);
    s->framing.limits.bulk_max = (uint32_t)c->value_max;
    s->framing.limits.message_max = (uint32_t)c->message_max;
    s->framing.query_max = t->query;
    o.server = &c->server;
    o.net = s->net;
    o.listen_flags = s->node->count > 1 ? SNIC_NET_REUSEPORT : 0;
    o.in_order = 1;
    o.pending_max = CLIENT_PENDING;
    o.limits = (struct ex_front_limits){.hard = t->out[0].hard,
                                        .hard_ns = CLIENT_HARD_NS,
                                        .soft = t->out[0].soft,
                                        .soft_ns = t->out[0].soft_s * 1000000000u,
                                        .total = resp_settings_clients(t) / s->node->count};
    o.limit_names[EX_FRONT_CONN] = "client-output-buffer-limit";
    o.limit_names[EX_FRONT_TOTAL] = "maxmemory-clients";
    o.user = (struct snic_director_user){.frame = resp_framing_frame,
                                         .protocol_error = resp_framing_error,
                                         .full = resp_framing_full,
                                         .ctx = &s->framing};
    o.message = client_message;
    o.closed = client_closed;
    o.second = client_second;
    o.ctx = s;
    r = ex_front_open(&s->front, &o, bound);
    if (r != 0)
        ex_die("cannot listen on %s (--listen): %s", c->server.listen,
               ex_listen_error(c->server.listen, r));
}
