/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* What a connection is: HELLO, AUTH, RESET, QUIT. */
#include "engine_priv.h"
#include "session.h"

#include <string.h>

void kv_session_name(struct kv_command *c, const char *name, uint32_t size)
{
    uint64_t user;

    memcpy(c->client->name, name, size);
    c->client->name[size] = 0;
    /* The DPU role learns of the connection's word with the reply. */
    user = kv_tenant_named(c->engine->opts.tenants, c->client->user, c->client->name);
    if (user != c->client->user)
        c->flags |= KV_REPLY_USER;
    c->client->user = user;
}

int kv_session_name_valid(struct kv_command *c, const struct resp_arg *a)
{
    for (uint32_t i = 0; i < a->size; i++)
        if (a->data[i] < '!' || a->data[i] > '~') {
            kv_put_error(c->engine, "ERR Client names cannot contain spaces, newlines or special "
                                    "characters.");
            return 0;
        }
    if (a->size >= sizeof(c->client->name)) {
        kv_put_error(c->engine, "ERR Client names are limited to %zu bytes",
                     sizeof(c->client->name) - 1);
        return 0;
    }
    return 1;
}

/* In a time that does not depend on the password's bytes. */
static int session_equal(const char *password, const struct resp_arg *a)
{
    size_t n = strlen(password);
    unsigned char d = n == a->size ? 0 : 1;

    for (uint32_t i = 0; i < a->size; i++)
        d |= (unsigned char)(a->data[i] ^ (unsigned char)password[n > 0 ? i % n : 0]);
    return d == 0;
}

/* @p user NULL: the default one. 0, or the error is written. */
static int session_login(struct kv_command *c, const struct resp_arg *user,
                         const struct resp_arg *password)
{
    struct kv_engine *e = c->engine;
    const char *want = e->settings.password;

    if ((user != NULL && (user->size != 7 || memcmp(user->data, "default", 7) != 0)) ||
        (want[0] != 0 && !session_equal(want, password))) {
        e->stats.auth_failures++;
        kv_put_error(e, "WRONGPASS invalid username-password pair or user is disabled.");
        return -1;
    }
    c->client->user |= KV_WORD_AUTH;
    c->flags |= KV_REPLY_USER;
    return 0;
}

enum kv_outcome kv_cmd_auth(struct kv_command *c)
{
    struct kv_engine *e = c->engine;

    if (c->argc > 3)
        kv_put_error(e, "ERR syntax error");
    else if (c->argc == 2 && e->settings.password[0] == 0)
        kv_put_error(e, "ERR AUTH <password> called without any password configured for the "
                        "default user. Are you sure your configuration is correct?");
    else if (session_login(c, c->argc == 3 ? &c->argv[1] : NULL, &c->argv[c->argc - 1]) == 0)
        kv_put_text(e, "+OK\r\n");
    return KV_DONE;
}

void kv_session_no_evict(struct kv_command *c, int on)
{
    struct kv_engine *e = c->engine;

    if (c->client->no_evict != on && e->opts.no_evict != NULL)
        e->opts.no_evict(e->opts.ctx, c->client->id, on);
    c->client->no_evict = on;
}

int64_t kv_session_id(const struct kv_client *c)
{
    return (int64_t)(c->id & INT64_MAX);
}

static void session_greeting(struct kv_command *c)
{
    struct kv_engine *e = c->engine;

    kv_put_map(c, 7);
    kv_put_bulk_text(e, "server");
    kv_put_bulk_text(e, "redis");
    kv_put_bulk_text(e, "version");
    kv_put_bulk_text(e, KV_REDIS_VERSION);
    kv_put_bulk_text(e, "proto");
    kv_put_integer(e, e->reply.resp3 ? 3 : 2);
    kv_put_bulk_text(e, "id");
    kv_put_integer(e, kv_session_id(c->client));
    kv_put_bulk_text(e, "mode");
    kv_put_bulk_text(e, "standalone");
    kv_put_bulk_text(e, "role");
    kv_put_bulk_text(e, "master");
    kv_put_bulk_text(e, "modules");
    kv_put_count(e, '*', 0);
}

enum kv_outcome kv_cmd_hello(struct kv_command *c)
{
    struct kv_engine *e = c->engine;
    const struct resp_arg *name = NULL;
    const struct resp_arg *login = NULL;
    int64_t version = 0;

    if (c->argc > 1) {
        if (resp_number(c->argv[1].data, c->argv[1].size, &version) != 0) {
            kv_put_error(e, "ERR Protocol version is not an integer or out of range");
            return KV_DONE;
        }
        if (version < 2 || version > 3) {
            kv_put_error(e, "NOPROTO unsupported protocol version");
            return KV_DONE;
        }
    }
    for (uint32_t i = 2; i < c->argc; i++) {
        if (resp_arg_is(&c->argv[i], "setname") && i + 1 < c->argc) {
            name = &c->argv[++i];
            if (!kv_session_name_valid(c, name))
                return KV_DONE;
        } else if (resp_arg_is(&c->argv[i], "auth") && i + 2 < c->argc) {
            login = &c->argv[i + 1];
            i += 2;
        } else {
            kv_put_error(e, "ERR Syntax error in HELLO option '%.*s'",
                         c->argv[i].size < 128 ? (int)c->argv[i].size : 128,
                         (const char *)c->argv[i].data);
            return KV_DONE;
        }
    }
    if (login != NULL && session_login(c, login, login + 1) != 0)
        return KV_DONE;
    if ((c->client->user & KV_WORD_AUTH) == 0) {
        kv_put_error(e, "NOAUTH HELLO must be called with the client already authenticated, "
                        "otherwise the HELLO AUTH <user> <pass> option can be used to authenticate "
                        "the client and select the RESP protocol version at the same time");
        return KV_DONE;
    }
    if (name != NULL)
        kv_session_name(c, (const char *)name->data, name->size);
    if (version != 0) {
        c->client->user &= ~KV_WORD_RESP3;
        c->client->user |= version == 3 ? KV_WORD_RESP3 : 0;
        c->flags |= KV_REPLY_USER;
        e->reply.resp3 = version == 3;
    }
    session_greeting(c);
    return KV_DONE;
}

enum kv_outcome kv_cmd_reset(struct kv_command *c)
{
    struct kv_engine *e = c->engine;

    kv_transaction_forget(c->client);
    c->client->user &= ~(KV_WORD_RESP3 | KV_WORD_SILENT | KV_WORD_SKIP | KV_WORD_DATABASE);
    if (e->settings.password[0] != 0)
        c->client->user &= ~KV_WORD_AUTH;
    kv_session_name(c, "", 0);
    kv_session_no_evict(c, 0);
    c->flags = (c->flags & ~KV_REPLY_SILENT) | KV_REPLY_USER;
    kv_put_text(e, "+RESET\r\n");
    return KV_DONE;
}

enum kv_outcome kv_cmd_quit(struct kv_command *c)
{
    c->flags |= KV_REPLY_CLOSE;
    c->client->killed = 1; /* nothing behind it is run */
    kv_put_text(c->engine, "+OK\r\n");
    return KV_DONE;
}
