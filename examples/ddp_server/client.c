/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * Clients at their home: messages become commands, which are run at once or travel to their keys.
 *   N4 a client whose commands under way, and their expected replies, take CLIENT_WINDOW is not
 *      read from until they are answered; nor is any with SHARD_WINDOW of all.
 */
#include "commands.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#define CLIENT_PENDING 1024u
#define CLIENT_WINDOW ((uint64_t)1 << 20)
#define SHARD_WINDOW ((uint64_t)128 << 20)
#define SHARD_MOST (4 * SHARD_WINDOW) /* of all: more is refused */
#define CLIENT_KEYS_MAX 4096u         /* of one command */
#define CLIENT_REPLY_FIRST 16384u     /* bytes that a reply may take, as long as none is known */
#define CLIENT_HARD_NS 10000000000u   /* a client at the hard limit that takes nothing */
#define CLIENT_REPLY_KEEP (1u << 20)

struct ds_client *ds_client_find(struct ds_shard *s, uint64_t id)
{
    struct ds_client *c = &s->clients[id & 0xffff];

    return c->id == id ? c : NULL;
}

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
    ds_watch_end_all(s, c);
    c->id = 0;
}

/* ---- Answers ---- */

/* Send the reply of a command that was not answered at once. */
static void client_send(struct ds_shard *s, uint64_t client, uint64_t seq,
                        const struct resp_reply *reply, int silent, uint32_t flags)
{
    static const char lost[] = "-UNKNOWN outcome unknown: out of memory for the reply\r\n";
    struct snic_iov iov = {reply->data, reply->size};

    if (reply->failed) {
        iov.base = (void *)(uintptr_t)lost;
        iov.size = sizeof(lost) - 1;
    }
    if (s->front != NULL) /* the node has not ended */
        ex_front_reply(s->front, client, seq, &iov, silent ? 0 : 1, flags);
}

/* A part of a command of several keys has ended. @return 1: it was the last */
static int client_part(struct ds_request *p)
{
    if (p->reply.size > 0 && p->reply.data[0] == '-' && p->error == 0)
        p->error = 1;
    p->parent->parts[p->index] = p; /* it may be a copy (N5) */
    return --p->parent->parts_left == 0;
}

/* The reply of a command of several parts: the first error, or what its rules are. */
static void client_combine(struct ds_request *r)
{
    uint32_t rules = r->command->rules;
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
    if (r->command->join != NULL) {
        r->command->join(r);
        return;
    }
    if ((rules & DS_SUM) != 0) {
        resp_put_count(&r->reply, ':', sum);
        return;
    }
    resp_put_count(&r->reply, '*', (rules & DS_FLAT) != 0 ? sum : r->parts_count);
    for (uint32_t i = 0; i < r->parts_count; i++)
        resp_put(&r->reply, r->parts[i]->reply.data, r->parts[i]->reply.size);
}

/* A reply took @p size: others may, too. */
static void client_expect(struct ds_client *c, uint64_t size)
{
    c->reply_bytes = size > c->reply_bytes ? size : (15 * c->reply_bytes + size) / 16;
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
    c = ds_client_find(s, r->client);
    if (c != NULL) {
        c->under_way--;
        c->bytes -= r->window;
        client_expect(c, r->reply.size);
    }
    s->bytes -= r->window;
    client_send(s, r->client, r->seq, &r->reply, r->silent, 0);
    ds_request_free(r);
}

/* ---- Commands ---- */

/* One request for each key, or for each shard. 0; SNIC_ENOMEM */
static int client_parts(struct ds_shard *s, struct ds_request *r)
{
    int all = r->command->kind == DS_ALL;
    uint32_t count = all ? s->node->count : r->argc - 1;

    r->parts = calloc(count, sizeof(struct ds_request *));
    if (r->parts == NULL)
        return SNIC_ENOMEM;
    for (uint32_t i = 0; i < count; i++) {
        struct resp_arg argv[2] = {r->argv[0], r->argv[all ? 0 : i + 1]};
        struct ds_request *p = all ? ds_request_new(r->argv, r->argc) : ds_request_new(argv, 2);

        if (p == NULL)
            return SNIC_ENOMEM;
        p->home = s;
        p->answer = client_answer;
        p->client = r->client;
        p->command = r->command;
        p->how = r->how;
        p->scope = r->scope;
        p->scope_shards = r->scope_shards;
        p->parent = r;
        p->index = i;
        p->reply.resp3 = r->reply.resp3;
        if (all)
            p->shard = &s->node->shards[i];
        else
            ds_request_key(s->node, p, &p->argv[1]);
        r->parts[r->parts_count++] = p;
    }
    r->parts_left = r->parts_count;
    return 0;
}

static void client_start(struct ds_shard *s, struct ds_request *r)
{
    struct ds_client *c = ds_client_find(s, r->client);

    if (c != NULL && r->command->visit == NULL && (r->command->rules & DS_WRITES) != 0 &&
        r->how.durability == SNIC_DDP_DURABILITY_SCOPE)
        c->scope_shards |= UINT64_C(1) << r->shard->index;
    if (r->shard == s)
        ds_request_run(r);
    else
        ds_mail_send(s, r->shard, r);
}

/* The request of a command. @return NULL: out of memory */
static struct ds_request *client_request(const struct ds_call *k, uint64_t seq)
{
    struct ds_shard *s = k->shard;
    const struct ds_client *c = k->client;
    struct ds_request *r = ds_request_new(k->argv, k->argc);

    if (r == NULL)
        return NULL;
    r->home = s;
    r->answer = client_answer;
    r->client = c->id;
    r->seq = seq;
    r->command = k->command;
    r->how = k->how;
    r->scope = c->scope;
    r->scope_shards = c->scope_shards;
    r->reply.resp3 = c->resp3;
    r->silent = c->silent || c->skip;
    r->window = sizeof(*r) + r->size + c->reply_bytes;
    if (k->command->kind == DS_EACH)
        r->window += (k->argc - 1) * sizeof(*r) + r->size;
    if ((k->command->kind == DS_EACH || k->command->kind == DS_ALL) && client_parts(s, r) != 0) {
        ds_request_free(r);
        return NULL;
    }
    return r;
}

/* A command for the shards. @return 1: the client is not read from until it is answered */
static int client_begin(struct ds_call *k, uint64_t seq)
{
    struct ds_shard *s = k->shard;
    struct ds_client *c = k->client;
    uint64_t id = c->id;
    int shard = k->command->kind == DS_SHARD ? k->command->route(k) : 0;
    struct ds_request *r = NULL;

    if (shard >= 0 && s->bytes >= SHARD_MOST) {
        ds_error(k->reply, "OOM the commands under way take too much memory: nothing was done");
        shard = -1;
    }
    if (shard >= 0)
        r = client_request(k, seq);
    if (r == NULL) {
        if (shard >= 0)
            resp_put_text(k->reply, "-OOM out of memory\r\n");
        client_send(s, id, seq, k->reply, c->silent || c->skip, 0);
        return 0;
    }
    if (resp_arg_is(&k->argv[0], "scope")) {
        c->scope++;
        c->scope_shards = 0;
    }
    c->under_way++;
    c->bytes += r->window;
    s->bytes += r->window;
    if (r->parts_count > 0) {
        uint32_t count = r->parts_count; /* the last answer frees r */
        struct ds_request **parts = r->parts;

        for (uint32_t i = 0; i < count; i++) {
            struct ds_request *p = parts[i];

            client_start(s, p);
        }
    } else {
        if (k->command->kind == DS_SHARD)
            r->shard = &s->node->shards[shard];
        else
            ds_request_key(s->node, r, &r->argv[k->command->key]);
        client_start(s, r);
    }
    c = ds_client_find(s, id);
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
    if (m->kind == DS_EACH && k->argc > CLIENT_KEYS_MAX + 1) {
        ds_error(k->reply, "ERR at most %u keys in one command", CLIENT_KEYS_MAX);
        return -1;
    }
    for (uint32_t i = m->key; i > 0 && i < k->argc && (m->kind == DS_EACH || i == m->key); i++)
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
    return 1;
}

static int client_message(void *ctx, uint64_t id, uint64_t seq, const unsigned char *msg,
                          size_t size)
{
    struct ds_shard *s = ctx;
    struct ds_call k = {.shard = s, .client = client_get(s, id), .reply = &s->reply};
    struct ds_client *c = k.client;
    int64_t n;
    int wait = 0;

    if (s->reply.room > CLIENT_REPLY_KEEP) {
        free(s->reply.data);
        s->reply.data = NULL;
        s->reply.room = 0;
    }
    s->reply.size = 0;
    s->reply.failed = 0;
    s->reply.resp3 = c->resp3;
    c->used_ns = snic_loop_now(s->loop);
    n = c->closing ? 0 : client_args(s, msg, size);
    k.argv = s->args;
    k.argc = n > 0 ? (uint32_t)n : 0;
    if (n > 0 && (resp_arg_is(&k.argv[0], "post") || resp_arg_is(&k.argv[0], "host:")))
        c->closing = 1; /* a web page made a browser send this */
    if (c->closing) {
        client_send(s, id, seq, &s->reply, 1, EX_FRONT_CLOSE);
        return 0;
    }
    s->commands++;
    if (n > 0 && (!client_command(&k) || (client_travels(&k) && client_check(&k) != 0))) {
        client_send(s, id, seq, &s->reply, c->silent || c->skip, 0);
        c->skip = 0;
    } else if (n > 0 && client_travels(&k)) {
        c->last = k.command;
        if (ds_request_at_once(&k)) {
            client_expect(c, s->reply.size);
            client_send(s, id, seq, &s->reply, c->silent || c->skip, 0);
        } else {
            wait = client_begin(&k, seq);
        }
        if ((c = ds_client_find(s, id)) != NULL)
            c->skip = 0;
    } else {
        client_now(&k, n, seq, msg, size);
    }
    return wait;
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
    (void)pthread_mutex_unlock(&s->node->lock);
    ex_front_set_limits(s->front, &l);
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
    s->framing.limits.message_max = (uint32_t)c->message_max;
    s->framing.query_max = t->query;
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
    o.ctx = s;
    r = ex_front_open(&s->front, &o, bound);
    if (r != 0)
        ex_die("cannot listen on %s (--listen): %s", c->server.listen,
               ex_listen_error(c->server.listen, r));
}
