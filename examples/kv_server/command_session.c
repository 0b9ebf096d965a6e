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
    return resp_name_valid(&c->engine->reply, a, sizeof(c->client->name));
}

/* Of AUTH, or of HELLO: the login @p ok, or its error is written. 0; -1 */
static int session_login(struct kv_command *c, int ok)
{
    if (!ok) {
        c->engine->stats.auth_failures++;
        return -1;
    }
    c->client->user |= KV_WORD_AUTH;
    c->flags |= KV_REPLY_USER;
    return 0;
}

enum kv_outcome kv_cmd_auth(struct kv_command *c)
{
    struct kv_engine *e = c->engine;
    int counts = c->argc == 3 || (c->argc == 2 && e->settings.password[0] != 0);
    int ok = resp_auth(&e->reply, e->settings.password, c->argv, c->argc) == 0;

    if ((ok || counts) && session_login(c, ok) == 0)
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

enum kv_outcome kv_cmd_hello(struct kv_command *c)
{
    struct kv_engine *e = c->engine;
    struct resp_hello h;

    if (resp_hello_options(&e->reply, c->argv, c->argc, sizeof(c->client->name), &h) != 0)
        return KV_DONE;
    if (h.login != NULL && session_login(c, resp_login(&e->reply, e->settings.password, h.login,
                                                       h.login + 1) == 0) != 0)
        return KV_DONE;
    if ((c->client->user & KV_WORD_AUTH) == 0) {
        resp_hello_no_auth(&e->reply);
        return KV_DONE;
    }
    if (h.name != NULL)
        kv_session_name(c, (const char *)h.name->data, h.name->size);
    if (h.version != 0) {
        c->client->user &= ~KV_WORD_RESP3;
        c->client->user |= h.version == 3 ? KV_WORD_RESP3 : 0;
        c->flags |= KV_REPLY_USER;
        e->reply.resp3 = h.version == 3;
    }
    resp_hello_greet(&e->reply, kv_session_id(c->client));
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
