/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* CLIENT and its subcommands. */
#include "session.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void client_ok(struct kv_command *c)
{
    kv_put_text(c->engine, "+OK\r\n");
}

static void client_syntax(struct kv_command *c)
{
    kv_put_error(c->engine, "ERR syntax error");
}

/* ---- LIST, INFO ---- */

/* What is not known here is 0, and its address is "?:0". */
static void client_facts(struct kv_engine *e, uint64_t id, struct kv_client_facts *f)
{
    memset(f, 0, sizeof(*f));
    if (e->opts.facts == NULL || !e->opts.facts(e->opts.ctx, id, f)) {
        snprintf(f->peer, sizeof(f->peer), "?:0");
        snprintf(f->own, sizeof(f->own), "?:0");
    }
}

static void client_line(struct kv_engine *e, const struct kv_client *c)
{
    uint64_t now = snic_loop_now(e->opts.loop);
    const struct kv_transaction *t = c->tx;
    struct kv_client_facts f;
    char flags[8];
    size_t n = 0;

    client_facts(e, c->id, &f);
    if (t != NULL && t->open)
        flags[n++] = 'x';
    if (c->no_evict)
        flags[n++] = 'e';
    if (n == 0)
        flags[n++] = 'N';
    flags[n] = 0;
    kv_put_format(e,
                  "id=%" PRId64 " addr=%s laddr=%s fd=-1 name=%s age=%" PRIu64 " idle=%" PRIu64
                  " flags=%s db=%u sub=0 psub=0 ssub=0 multi=%d qbuf=%" PRIu64 " qbuf-free=%" PRIu64
                  " argv-mem=%" PRIu64 " multi-mem=%" PRIu64 " rbs=%" PRIu64 " rbp=%" PRIu64
                  " obl=%" PRIu64 " oll=%" PRIu64 " omem=%" PRIu64 " tot-mem=%" PRIu64
                  " events=r cmd=%s user=default redir=-1 resp=%d",
                  kv_session_id(c), f.peer, f.own, c->name, (now - c->created_ns) / 1000000000u,
                  (now - c->used_ns) / 1000000000u, flags, (unsigned)(c->user & KV_WORD_DATABASE),
                  t != NULL && t->open ? (int)t->count : -1, f.query_bytes,
                  f.query_memory - f.query_bytes, kv_client_argv_bytes(c), t != NULL ? t->bytes : 0,
                  f.query_memory, f.query_memory, f.out_bytes, f.out_blocks, f.out_memory,
                  kv_client_bytes(c) + f.query_memory + f.out_memory,
                  c->last_command != NULL ? c->last_command->name : "NULL",
                  (c->user & KV_WORD_RESP3) != 0 ? 3 : 2);
    if (c->lib_name[0] != 0 || c->lib_version[0] != 0)
        kv_put_format(e, " lib-name=%s lib-ver=%s", c->lib_name, c->lib_version);
    kv_put_text(e, "\n");
}

/* Which clients LIST and KILL mean. */
struct client_filter {
    struct kv_command *command;
    uint32_t ids; /* argv[ids..], as many as id_count */
    uint32_t id_count;
    int64_t id; /* 0: any */
    const struct resp_arg *address;
    const struct resp_arg *own;
    int skip_me;
    int none; /* no client can be meant */
    int64_t found;
    int killed_self;
};

static int client_text_is(const char *text, const struct resp_arg *a)
{
    return strlen(text) == a->size && memcmp(text, a->data, a->size) == 0;
}

static int client_matches(const struct client_filter *f, const struct kv_client *c)
{
    struct kv_engine *e = f->command->engine;
    int64_t id = kv_session_id(c);
    struct kv_client_facts facts;
    int64_t n;

    if (f->none || c->gone || (f->id != 0 && f->id != id) ||
        (f->skip_me && c == f->command->client))
        return 0;
    if (f->address != NULL || f->own != NULL) {
        client_facts(e, c->id, &facts);
        if ((f->address != NULL && !client_text_is(facts.peer, f->address)) ||
            (f->own != NULL && !client_text_is(facts.own, f->own)))
            return 0;
    }
    for (uint32_t i = 0; i < f->id_count; i++) {
        const struct resp_arg *a = &f->command->argv[f->ids + i];

        if (resp_number(a->data, a->size, &n) == 0 && n == id)
            return 1;
    }
    return f->id_count == 0;
}

static void client_list_visit(void *ctx, struct kv_client *c)
{
    struct client_filter *f = ctx;

    if (client_matches(f, c))
        client_line(f->command->engine, c);
}

/* TYPE's argument. 0, or the error is written. */
static int client_type(struct client_filter *f, const struct resp_arg *a)
{
    static const char *const others[] = {"master", "replica", "slave", "pubsub"};

    if (resp_arg_is(a, "normal"))
        return 0;
    for (size_t i = 0; i < SNIC_COUNTOF(others); i++)
        if (resp_arg_is(a, others[i])) {
            f->none = 1;
            return 0;
        }
    kv_put_error(f->command->engine, "ERR Unknown client type '%.*s'",
                 a->size < 128 ? (int)a->size : 128, (const char *)a->data);
    return -1;
}

/* The text that was put, as one string of the protocol. */
static void client_text(struct kv_engine *e, size_t from)
{
    char head[32];
    size_t n = resp_put_number(head, e->reply.resp3 ? '=' : '$',
                               (int64_t)(e->reply.size - from) + (e->reply.resp3 ? 4 : 0));

    if (e->reply.resp3) {
        memcpy(head + n, "txt:", 4);
        n += 4;
    }
    kv_put_before(e, from, head, n);
    kv_put_text(e, "\r\n");
}

static void client_list(struct kv_command *c)
{
    struct client_filter f = {.command = c};
    size_t from = c->engine->reply.size;
    int64_t n;

    if (c->argc == 4 && resp_arg_is(&c->argv[2], "type")) {
        if (client_type(&f, &c->argv[3]) != 0)
            return;
    } else if (c->argc > 3 && resp_arg_is(&c->argv[2], "id")) {
        for (uint32_t i = 3; i < c->argc; i++)
            if (resp_number(c->argv[i].data, c->argv[i].size, &n) != 0 || n < 1) {
                kv_put_error(c->engine, "ERR Invalid client ID");
                return;
            }
        f.ids = 3;
        f.id_count = c->argc - 3;
    } else if (c->argc != 2) {
        client_syntax(c);
        return;
    }
    kv_each_client(c->engine, client_list_visit, &f);
    client_text(c->engine, from);
}

static void client_info(struct kv_command *c)
{
    size_t from = c->engine->reply.size;

    client_line(c->engine, c->client);
    client_text(c->engine, from);
}

/* ---- KILL ---- */

static void client_kill_visit(void *ctx, struct kv_client *c)
{
    struct client_filter *f = ctx;
    struct kv_engine *e = f->command->engine;

    if (!client_matches(f, c))
        return;
    f->found++;
    if (c == f->command->client)
        f->killed_self = 1; /* behind its reply */
    else
        c->killed = 1;
    (void)e;
}

static void client_kill_now(void *ctx, struct kv_client *c)
{
    struct kv_engine *e = ctx;

    if (c->killed == 1 && e->opts.kill != NULL && e->opts.kill(e->opts.ctx, c->id))
        c->killed = 2;
}

/* The options of the new form. 0, or the error is written. */
static int client_kill_options(struct kv_command *c, struct client_filter *f)
{
    f->skip_me = 1;
    for (uint32_t i = 2; i < c->argc; i += 2) {
        const struct resp_arg *a = &c->argv[i];
        const struct resp_arg *v = i + 1 < c->argc ? a + 1 : NULL;

        if (v != NULL && resp_arg_is(a, "id")) {
            if (resp_number(v->data, v->size, &f->id) != 0 || f->id <= 0) {
                kv_put_error(c->engine, "ERR client-id should be greater than 0");
                return -1;
            }
        } else if (v != NULL && resp_arg_is(a, "type")) {
            if (client_type(f, v) != 0)
                return -1;
        } else if (v != NULL && resp_arg_is(a, "addr")) {
            f->address = v;
        } else if (v != NULL && resp_arg_is(a, "laddr")) {
            f->own = v;
        } else if (v != NULL && resp_arg_is(a, "user")) {
            if (!resp_arg_is(v, "default")) {
                kv_put_error(c->engine, "ERR No such user '%.*s'",
                             v->size < 128 ? (int)v->size : 128, (const char *)v->data);
                return -1;
            }
        } else if (v != NULL && resp_arg_is(a, "skipme") &&
                   (resp_arg_is(v, "yes") || resp_arg_is(v, "no"))) {
            f->skip_me = resp_arg_is(v, "yes");
        } else {
            client_syntax(c);
            return -1;
        }
    }
    return 0;
}

static void client_kill(struct kv_command *c)
{
    struct client_filter f = {.command = c};
    int old = c->argc == 3;

    if (old)
        f.address = &c->argv[2];
    else if (client_kill_options(c, &f) != 0)
        return;
    kv_each_client(c->engine, client_kill_visit, &f);
    if (f.killed_self)
        c->flags |= KV_REPLY_CLOSE;
    if (!old)
        kv_put_integer(c->engine, f.found);
    else if (f.found == 0)
        kv_put_error(c->engine, "ERR No such client");
    else
        client_ok(c);
    kv_each_client(c->engine, client_kill_now, c->engine);
}

/* ---- REPLY, SETNAME, SETINFO, the small ones ---- */

static void client_reply(struct kv_command *c)
{
    const struct resp_arg *a = &c->argv[2];

    c->flags |= KV_REPLY_USER;
    if (resp_arg_is(a, "on")) {
        c->client->user &= ~(KV_WORD_SILENT | KV_WORD_SKIP);
        c->flags &= ~KV_REPLY_SILENT;
        client_ok(c);
    } else if (resp_arg_is(a, "off")) {
        c->client->user |= KV_WORD_SILENT;
        c->flags |= KV_REPLY_SILENT;
    } else if (resp_arg_is(a, "skip")) {
        if ((c->client->user & KV_WORD_SILENT) == 0)
            c->client->user |= KV_WORD_SKIP;
        c->flags |= KV_REPLY_SILENT;
    } else {
        client_syntax(c);
    }
}

static void client_setinfo(struct kv_command *c)
{
    const struct resp_arg *v = &c->argv[3];
    int name = resp_arg_is(&c->argv[2], "lib-name");
    char *to = name ? c->client->lib_name : c->client->lib_version;

    if (!name && !resp_arg_is(&c->argv[2], "lib-ver")) {
        kv_put_error(c->engine, "ERR Unrecognized option '%.*s'",
                     c->argv[2].size < 128 ? (int)c->argv[2].size : 128,
                     (const char *)c->argv[2].data);
        return;
    }
    for (uint32_t i = 0; i < v->size; i++)
        if (v->data[i] < '!' || v->data[i] > '~') {
            kv_put_error(c->engine, "ERR %s cannot contain spaces, newlines or special characters.",
                         name ? "lib-name" : "lib-ver");
            return;
        }
    if (v->size >= KV_CLIENT_LIB_MAX) {
        kv_put_error(c->engine, "ERR %s is limited to %d bytes", name ? "lib-name" : "lib-ver",
                     KV_CLIENT_LIB_MAX - 1);
        return;
    }
    memcpy(to, v->data, v->size);
    to[v->size] = 0;
    client_ok(c);
}

static void client_no_evict(struct kv_command *c)
{
    if (!resp_arg_is(&c->argv[2], "on") && !resp_arg_is(&c->argv[2], "off")) {
        client_syntax(c);
        return;
    }
    kv_session_no_evict(c, resp_arg_is(&c->argv[2], "on"));
    client_ok(c);
}

static void client_id(struct kv_command *c)
{
    kv_put_integer(c->engine, kv_session_id(c->client));
}

static void client_getname(struct kv_command *c)
{
    if (c->client->name[0] == 0)
        kv_put_null(c->engine);
    else
        kv_put_bulk_text(c->engine, c->client->name);
}

static void client_setname(struct kv_command *c)
{
    if (!kv_session_name_valid(c, &c->argv[2]))
        return;
    kv_session_name(c, (const char *)c->argv[2].data, c->argv[2].size);
    client_ok(c);
}

static void client_getredir(struct kv_command *c)
{
    kv_put_integer(c->engine, -1);
}

static void client_unblock(struct kv_command *c)
{
    int64_t n;

    if (kv_number(c, &c->argv[2], &n) == 0)
        kv_put_integer(c->engine, 0); /* no command blocks */
}

static void client_trackinginfo(struct kv_command *c)
{
    struct kv_engine *e = c->engine;

    kv_put_map(c, 3);
    kv_put_bulk_text(e, "flags");
    kv_put_set(e, 1);
    kv_put_bulk_text(e, "off");
    kv_put_bulk_text(e, "redirect");
    kv_put_integer(e, -1);
    kv_put_bulk_text(e, "prefixes");
    kv_put_count(e, '*', 0);
}

static void client_tracking(struct kv_command *c)
{
    if (resp_arg_is(&c->argv[2], "off"))
        client_ok(c);
    else
        kv_put_error(c->engine, "ERR CLIENT TRACKING is not supported: this server sends no "
                                "invalidations to clients");
}

static void client_caching(struct kv_command *c)
{
    kv_put_error(c->engine, "ERR CLIENT CACHING can be called only when the client is in tracking "
                            "mode with OPTIN or OPTOUT mode enabled");
}

static void client_pause(struct kv_command *c)
{
    kv_put_error(c->engine, "ERR CLIENT PAUSE is not supported: the DPU role answers reads without "
                            "the host");
}

static void client_help(struct kv_command *c)
{
    static const char *const lines[] = {
        "CLIENT <subcommand> [<arg> [value] [opt] ...]. Subcommands are:",
        "GETNAME | SETNAME <name>",
        "    The name of the current connection.",
        "ID | INFO | LIST [ID <id> [<id> ...] | TYPE <type>]",
        "    The current connection, or all of them.",
        "KILL <ip:port> | KILL <option> <value> [<option> <value> ...]",
        "    Close connections: ADDR, LADDR, ID, TYPE, USER, SKIPME.",
        "NO-EVICT (ON|OFF)",
        "    Protect the current connection from maxmemory-clients.",
        "REPLY (ON|OFF|SKIP)",
        "    Replies to the current connection.",
        "SETINFO (LIB-NAME|LIB-VER) <value>",
        "    The client library's name and version.",
        "HELP",
        "    Print this help."};

    kv_put_count(c->engine, '*', SNIC_COUNTOF(lines));
    for (size_t i = 0; i < SNIC_COUNTOF(lines); i++)
        kv_put_format(c->engine, "+%s\r\n", lines[i]);
}

enum kv_outcome kv_cmd_client(struct kv_command *c)
{
    static const struct {
        const char *name;
        void (*run)(struct kv_command *c);
    } subs[] = {
        {"id", client_id},
        {"getname", client_getname},
        {"setname", client_setname},
        {"setinfo", client_setinfo},
        {"list", client_list},
        {"info", client_info},
        {"kill", client_kill},
        {"reply", client_reply},
        {"no-evict", client_no_evict},
        {"getredir", client_getredir},
        {"unblock", client_unblock},
        {"tracking", client_tracking},
        {"trackinginfo", client_trackinginfo},
        {"caching", client_caching},
        {"pause", client_pause},
        {"unpause", client_ok},
        {"help", client_help},
    };

    for (size_t i = 0; i < SNIC_COUNTOF(subs); i++)
        if (kv_subcommand(c, subs[i].name)) {
            subs[i].run(c);
            break;
        }
    return KV_DONE;
}
