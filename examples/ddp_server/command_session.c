/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* What a connection is: HELLO, AUTH, RESET, QUIT, SELECT, CLIENT. Error texts are Redis 7's. */
#include "commands.h"

#include <string.h>

static void session_ok(struct ds_call *k)
{
    resp_put_text(k->reply, "+OK\r\n");
}

/* The login's result: @p ok, or its error is put. */
static void session_login(struct ds_call *k, int ok, int counts)
{
    if (ok)
        k->client->auth = 1;
    else if (counts)
        k->shard->auth_failures++;
}

static void session_name(struct ds_call *k, const struct resp_arg *name)
{
    memcpy(k->client->name, name->data, name->size);
    k->client->name[name->size] = 0;
}

void ds_cmd_auth(struct ds_call *k)
{
    char password[RESP_PASSWORD_MAX];
    int ok;

    ds_node_password(k->shard->node, password);
    ok = resp_auth(k->reply, password, k->argv, k->argc) == 0;
    session_login(k, ok, k->argc == 3 || (k->argc == 2 && password[0] != 0));
    if (ok)
        session_ok(k);
}

void ds_cmd_hello(struct ds_call *k)
{
    struct ds_client *c = k->client;
    char password[RESP_PASSWORD_MAX];
    struct resp_hello h;

    if (resp_hello_options(k->reply, k->argv, k->argc, sizeof(c->name), &h) != 0)
        return;
    if (h.login != NULL) {
        int ok;

        ds_node_password(k->shard->node, password);
        ok = resp_login(k->reply, password, h.login, h.login + 1) == 0;
        session_login(k, ok, 1);
        if (!ok)
            return;
    }
    if (!c->auth) {
        resp_hello_no_auth(k->reply);
        return;
    }
    if (h.name != NULL)
        session_name(k, h.name);
    if (h.version != 0)
        c->resp3 = k->reply->resp3 = h.version == 3;
    resp_hello_greet(k->reply, ds_client_number(k->shard, c));
}

void ds_cmd_reset(struct ds_call *k)
{
    struct ds_client *c = k->client;
    char password[RESP_PASSWORD_MAX];

    ds_node_password(k->shard->node, password);
    ds_watch_end_all(c);
    c->auth = c->auth && password[0] == 0;
    c->resp3 = c->silent = c->skip = c->admin = c->multi = 0;
    c->name[0] = 0;
    memset(&c->how, 0, sizeof(c->how));
    ds_client_leave_scope(k->shard, c);
    k->flags |= DS_CALL_LOUD;
    resp_put_text(k->reply, "+RESET\r\n");
}

void ds_cmd_quit(struct ds_call *k)
{
    k->flags |= EX_FRONT_CLOSE;
    session_ok(k);
}

void ds_cmd_select(struct ds_call *k)
{
    int64_t n;

    if (resp_number(k->argv[1].data, k->argv[1].size, &n) != 0)
        ds_error(k->reply, "ERR value is not an integer or out of range");
    else if (n != 0)
        ds_error(k->reply, "ERR DB index is out of range");
    else
        session_ok(k);
}

/* ---- CLIENT ---- */

static void session_reply(struct ds_call *k)
{
    struct ds_client *c = k->client;
    const struct resp_arg *a = &k->argv[2];

    if (resp_arg_is(a, "on")) {
        c->silent = 0;
        k->flags |= DS_CALL_LOUD;
        session_ok(k);
    } else if (resp_arg_is(a, "off")) {
        c->silent = 1;
        k->flags |= DS_CALL_SILENT;
    } else if (resp_arg_is(a, "skip")) {
        c->skip_next = 1;
        k->flags |= DS_CALL_SILENT;
    } else {
        ds_error(k->reply, "ERR syntax error");
    }
}

static void session_setinfo(struct ds_call *k)
{
    int name = resp_arg_is(&k->argv[2], "lib-name");
    char *to = name ? k->client->lib_name : k->client->lib_version;
    const struct resp_arg *v = &k->argv[3];

    if (!name && !resp_arg_is(&k->argv[2], "lib-ver")) {
        ds_error(k->reply, "ERR Unrecognized option '%.*s'",
                 k->argv[2].size < 128 ? (int)k->argv[2].size : 128, (const char *)k->argv[2].data);
    } else if (resp_name_valid(k->reply, v, DS_NAME_MAX)) {
        memcpy(to, v->data, v->size);
        to[v->size] = 0;
        session_ok(k);
    }
}

static void session_no_evict(struct ds_call *k)
{
    int on = resp_arg_is(&k->argv[2], "on");

    if (!on && !resp_arg_is(&k->argv[2], "off")) {
        ds_error(k->reply, "ERR syntax error");
        return;
    }
    k->client->no_evict = on;
    ex_front_no_evict(k->shard->front, k->client->id, on);
    session_ok(k);
}

void ds_cmd_client(struct ds_call *k)
{
    const struct resp_arg *sub = &k->argv[1];

    if (resp_arg_is(sub, "id") && k->argc == 2) {
        resp_put_count(k->reply, ':', ds_client_number(k->shard, k->client));
    } else if (resp_arg_is(sub, "getname") && k->argc == 2) {
        if (k->client->name[0] == 0)
            resp_put_null(k->reply);
        else
            ds_put_text(k->reply, k->client->name);
    } else if (resp_arg_is(sub, "setname") && k->argc == 3) {
        if (resp_name_valid(k->reply, &k->argv[2], DS_NAME_MAX)) {
            session_name(k, &k->argv[2]);
            session_ok(k);
        }
    } else if (resp_arg_is(sub, "setinfo") && k->argc == 4) {
        session_setinfo(k);
    } else if (resp_arg_is(sub, "info") && k->argc == 2) {
        struct resp_reply text = {0};

        ds_client_line(&text, k->shard, k->client);
        resp_put_verbatim(k->reply, text.data, text.size);
        k->reply->failed |= text.failed;
        resp_reply_free(&text);
    } else if (resp_arg_is(sub, "reply") && k->argc == 3) {
        session_reply(k);
    } else if (resp_arg_is(sub, "no-evict") && k->argc == 3) {
        session_no_evict(k);
    } else if (resp_arg_is(sub, "getredir") && k->argc == 2) {
        resp_put_count(k->reply, ':', -1);
    } else if (resp_arg_is(sub, "tracking") && k->argc == 3 && resp_arg_is(&k->argv[2], "off")) {
        session_ok(k);
    } else {
        ds_error(k->reply, "ERR unknown subcommand or wrong number of arguments for 'client|%.*s'",
                 sub->size < 64 ? (int)sub->size : 64, (const char *)sub->data);
    }
}

/* ---- Transactions, which there are not ---- */

void ds_cmd_multi(struct ds_call *k)
{
    k->client->multi = 1;
    ds_error(k->reply,
             "ERR 'multi' is not supported: " DS_ONE_KEY "; the commands up to EXEC are not run");
}

void ds_cmd_exec(struct ds_call *k)
{
    int multi = k->client->multi;

    k->client->multi = 0;
    if (k->command->name[0] == 'd') {
        if (multi)
            session_ok(k);
        else
            ds_error(k->reply, "ERR DISCARD without MULTI");
    } else if (multi) {
        ds_error(k->reply, "EXECABORT Transaction discarded because of: 'multi' is not supported");
    } else {
        ds_error(k->reply, "ERR EXEC without MULTI");
    }
}
