/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * Clients at their home: messages become commands, which are run at once or travel to their keys.
 */
#include "commands.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#define CLIENT_PENDING 1024u
#define CLIENT_FRAME_ARGS 16384u    /* a message with more is skipped as it comes */
#define CLIENT_ARGS_MAX 1024u       /* of a command that does not name keys */
#define CLIENT_KEYS_MAX 4096u       /* of one command */
#define CLIENT_REPLY_FIRST 16384u   /* bytes that a reply may take, as long as none is known */
#define CLIENT_HARD_NS 10000000000u /* a client at the hard limit that takes nothing */

/* The client of a message; new with its first one. */
static struct ds_client *client_get(struct ds_shard *s, uint64_t id)
{
    struct ds_client *c = &s->clients[id & 0xffff];
    char password[RESP_PASSWORD_MAX];

    if (c->id == id)
        return c;
    ds_node_password(s->node, password);
    memset(c, 0, sizeof(*c));
    c->id = id;
    snic_link_init(&c->watches);
    c->auth = password[0] == 0;
    c->reply_bytes = CLIENT_REPLY_FIRST;
    c->created_ns = snic_loop_now(s->loop);
    return c;
}

static void client_closed(void *ctx, uint64_t id)
{
    struct ds_shard *s = ctx;
    struct ds_client *c = ds_client_find(s, id);

    if (c == NULL)
        return;
    ds_watch_end_all(c);
    ds_client_leave_scope(s, c);
    c->id = 0;
}

/* What an iteration has to look at, and what is copied for each shard. 0, or the error is put. */
static int client_sizes(struct ds_call *k, const struct ds_command *m)
{
    int many = m->kind == DS_EACH || m->kind == DS_ALL;
    uint32_t from = m->kind == DS_ALL ? 1 : m->key;

    if (m->kind == DS_EACH && k->argc > CLIENT_KEYS_MAX + 1) {
        ds_error(k->reply, "ERR at most %u keys in one command", CLIENT_KEYS_MAX);
        return -1;
    }
    if (m->kind != DS_EACH && k->argc > CLIENT_ARGS_MAX) {
        ds_error(k->reply, "ERR '%s' takes at most %u arguments", m->name, CLIENT_ARGS_MAX);
        return -1;
    }
    for (uint32_t i = from; i > 0 && i < k->argc && (many || i == from); i++)
        if (k->argv[i].size > DS_KEY_MAX) {
            ds_error(k->reply, "ERR %s is longer than %u bytes",
                     m->kind == DS_ALL ? "an argument" : "key", DS_KEY_MAX);
            return -1;
        }
    return 0;
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
    if (k->client->multi && m->run != ds_cmd_exec && m->run != ds_cmd_reset &&
        m->run != ds_cmd_quit) {
        ds_error(k->reply, "ERR not run: MULTI, which is not supported, began before it; EXEC or "
                           "DISCARD ends it");
        return -1;
    }
    if (k->client->watches_count > 0 && !k->client->resp3 && (m->rules & DS_WATCHING) == 0) {
        ds_error(k->reply,
                 "ERR Can't execute '%s': only WATCHKEY / WATCHPREFIX / UNWATCHKEY / "
                 "PING / QUIT / RESET are allowed in this context",
                 m->name);
        return -1;
    }
    if ((m->rules & DS_ADMIN) != 0 && !k->client->admin) {
        ds_error(k->reply, "NOPERM '%s' needs the cluster's key: ADMIN CHALLENGE, ADMIN PROVE",
                 m->name);
        return -1;
    }
    if (m->kind == DS_REFUSED) {
        ds_error(k->reply, "ERR '%s' is not supported: %s", m->name, m->reason);
        return -1;
    }
    return client_sizes(k, m);
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
    struct resp_limits limits = {UINT32_MAX, UINT32_MAX, 0};
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
    ds_client_send(k->shard, c->id, seq, k->reply, silent, k->flags & EX_FRONT_CLOSE);
}

/* Is it one for the shards, not to be answered at once? */
static int client_travels(const struct ds_call *k)
{
    const struct ds_command *m = k->command;

    return m != NULL && m->kind != DS_LOCAL && m->kind != DS_REFUSED &&
           (m->kind != DS_KEY || k->argc > m->key || m->run == NULL);
}

/* The command, and what its answer is to mean. @return 0: the reply is put */
static int client_command(struct ds_call *k)
{
    k->how = k->client->how;
    k->command = ds_command_find(k->shard->node, &k->argv[0]);
    while (k->command != NULL && k->command->run == ds_cmd_durability) {
        if (client_check(k) != 0 || !ds_durability_take(k))
            return 0;
        k->command = ds_command_find(k->shard->node, &k->argv[0]);
    }
    k->command = ds_command_sub(k->command, k->argv, k->argc);
    return 1;
}

/* @return 1: the client is not read from until it is answered */
static int client_travel(struct ds_call *k, uint64_t seq)
{
    struct ds_shard *s = k->shard;
    struct ds_client *c = k->client;
    uint64_t id = c->id;
    int wait = 0;

    c->last = k->command;
    if (ds_client_full(s, c) || !ds_look_take(k, seq)) {
        ds_looks_run(s);
        wait = ds_client_begin(k, seq);
    }
    if ((c = ds_client_find(s, id)) != NULL)
        c->skip = 0;
    return wait;
}

static int client_message(void *ctx, uint64_t id, uint64_t seq, const unsigned char *msg,
                          size_t size)
{
    struct ds_shard *s = ctx;
    struct ds_call k = {.shard = s, .client = client_get(s, id), .reply = &s->reply};
    struct ds_client *c = k.client;
    int64_t n;

    if (!c->closing && ds_client_late(s, size))
        return EX_FRONT_LATER;
    ds_reply_begin(&s->reply, c);
    c->used_ns = snic_loop_now(s->loop);
    n = c->closing ? 0 : client_args(s, msg, size);
    k.argv = s->args;
    k.argc = n > 0 ? (uint32_t)n : 0;
    if (n > 0 && (resp_arg_is(&k.argv[0], "post") || resp_arg_is(&k.argv[0], "host:")))
        c->closing = 1; /* a web page made a browser send this */
    if (c->closing) {
        ds_client_send(s, id, seq, &s->reply, 1, EX_FRONT_CLOSE);
        return 0;
    }
    s->commands++;
    if (n > 0 && (!client_command(&k) || (client_travels(&k) && client_check(&k) != 0))) {
        ds_looks_run(s);
        ds_client_send(s, id, seq, &s->reply, c->silent || c->skip, 0);
        c->skip = 0;
    } else if (n > 0 && client_travels(&k)) {
        return client_travel(&k, seq);
    } else {
        ds_looks_run(s);
        client_now(&k, n, seq, msg, size);
    }
    return 0;
}

/* ---- Listening ---- */

static struct ex_front_limits client_limits(const struct ds_shard *s)
{
    const struct resp_settings *t = &s->node->config->settings;

    return (struct ex_front_limits){.hard = t->out[0].hard,
                                    .hard_ns = CLIENT_HARD_NS,
                                    .soft = t->out[0].soft,
                                    .soft_ns = t->out[0].soft_s * 1000000000u,
                                    .total = resp_settings_clients(t) / s->node->count};
}

/* On the shard's loop. */
static void client_settings(struct snic_loop_msg *m)
{
    struct ds_shard *s = SNIC_CONTAINER(m, struct ds_shard, settings);
    struct ex_front_limits l;

    atomic_store(&s->settings_queued, 0);
    (void)pthread_mutex_lock(&s->node->lock);
    l = client_limits(s);
    s->framing.query_max = s->node->config->settings.query;
    s->slow_us = s->node->config->settings.slow_us;
    (void)pthread_mutex_unlock(&s->node->lock);
    ex_front_set_limits(s->front, &l);
}

static void client_settle(void *ctx)
{
    ds_looks_run(ctx);
}

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
    s->settings.fn = client_settings;
    s->clients = calloc(c->server.conns_max, sizeof(*s->clients));
    if (s->clients == NULL)
        ex_die("out of memory for %llu clients: lower --connections",
               (unsigned long long)c->server.conns_max);
    s->framing.limits.bulk_max = (uint32_t)c->value_max;
    s->framing.bulk_option = "--value-max";
    s->framing.limits.message_max = (uint32_t)c->message_max;
    s->framing.limits.args_max = CLIENT_FRAME_ARGS;
    s->framing.query_max = t->query;
    s->slow_us = t->slow_us;
    o.server = &c->server;
    o.net = s->net;
    o.listen_flags = s->node->count > 1 ? SNIC_NET_REUSEPORT : 0;
    o.in_order = 1;
    o.pending_max = CLIENT_PENDING;
    o.limits = client_limits(s);
    o.limit_names[EX_FRONT_CONN] = "client-output-buffer-limit";
    o.limit_names[EX_FRONT_TOTAL] = "maxmemory-clients";
    o.user = (struct snic_director_user){.frame = resp_framing_frame,
                                         .protocol_error = resp_framing_error,
                                         .full = resp_framing_full,
                                         .ctx = &s->framing};
    o.message = client_message;
    o.closed = client_closed;
    o.second = client_second;
    o.settle = client_settle;
    o.ctx = s;
    r = ex_front_open(&s->front, &o, bound);
    if (r != 0)
        ex_die("cannot listen on %s (--listen): %s", c->server.listen,
               ex_listen_error(c->server.listen, r));
}
