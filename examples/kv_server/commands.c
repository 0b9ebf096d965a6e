/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* The command table, dispatch, and what commands share. Error texts are Redis 7's. */
#include "engine_priv.h"

#include <stdio.h>
#include <string.h>

static const struct kv_command_spec kv_commands[] = {
    {"get", kv_cmd_get, 2, 0, 1, 1, 1, "readonly fast"},
    {"set", kv_cmd_set, -3, 1, 1, 1, 1, "write denyoom"},
    {"setnx", kv_cmd_setnx, 3, 1, 1, 1, 1, "write denyoom fast"},
    {"setex", kv_cmd_setex, 4, 1, 1, 1, 1, "write denyoom"},
    {"psetex", kv_cmd_setex, 4, 1, 1, 1, 1, "write denyoom"},
    {"getset", kv_cmd_getset, 3, 1, 1, 1, 1, "write denyoom fast"},
    {"getdel", kv_cmd_getdel, 2, 1, 1, 1, 1, "write fast"},
    {"getex", kv_cmd_getex, -2, 1, 1, 1, 1, "write fast"},
    {"append", kv_cmd_append, 3, 1, 1, 1, 1, "write denyoom fast"},
    {"setrange", kv_cmd_setrange, 4, 1, 1, 1, 1, "write denyoom"},
    {"getrange", kv_cmd_getrange, 4, 0, 1, 1, 1, "readonly"},
    {"substr", kv_cmd_getrange, 4, 0, 1, 1, 1, "readonly"},
    {"lcs", kv_cmd_lcs, -3, 0, 1, 2, 1, "readonly"},
    {"mget", kv_cmd_mget, -2, 0, 1, -1, 1, "readonly fast"},
    {"mset", kv_cmd_mset, -3, 1, 1, -1, 2, "write denyoom"},
    {"msetnx", kv_cmd_mset, -3, 1, 1, -1, 2, "write denyoom"},
    {"incrbyfloat", kv_cmd_incrbyfloat, 3, 1, 1, 1, 1, "write denyoom fast"},
    {"incr", kv_cmd_incr, 2, 1, 1, 1, 1, "write denyoom fast"},
    {"decr", kv_cmd_incr, 2, 1, 1, 1, 1, "write denyoom fast"},
    {"incrby", kv_cmd_incr, 3, 1, 1, 1, 1, "write denyoom fast"},
    {"decrby", kv_cmd_incr, 3, 1, 1, 1, 1, "write denyoom fast"},
    {"strlen", kv_cmd_strlen, 2, 0, 1, 1, 1, "readonly fast"},
    {"del", kv_cmd_del, -2, 1, 1, -1, 1, "write"},
    {"unlink", kv_cmd_del, -2, 1, 1, -1, 1, "write fast"},
    {"exists", kv_cmd_exists, -2, 0, 1, -1, 1, "readonly fast"},
    {"touch", kv_cmd_exists, -2, 0, 1, -1, 1, "readonly fast"},
    {"rename", kv_cmd_rename, 3, 1, 1, 2, 1, "write"},
    {"renamenx", kv_cmd_rename, 3, 1, 1, 2, 1, "write fast"},
    {"copy", kv_cmd_copy, -3, 1, 1, 2, 1, "write denyoom"},
    {"move", kv_cmd_move, 3, 1, 1, 1, 1, "write fast"},
    {"dump", kv_cmd_dump, 2, 0, 1, 1, 1, "readonly"},
    {"restore", kv_cmd_restore, -4, 1, 1, 1, 1, "write denyoom"},
    {"object", kv_cmd_object, -2, 0, 0, 0, 0, ""},
    {"memory", kv_cmd_memory, -2, 0, 0, 0, 0, ""},
    {"swapdb", kv_cmd_swapdb, 3, 1, 0, 0, 0, "write fast"},
    {"migrate", kv_cmd_unsupported, -6, 0, 3, 3, 1, "write movablekeys"},
    {"sort", kv_cmd_unsupported, -2, 0, 1, 1, 1, "write denyoom movablekeys"},
    {"sort_ro", kv_cmd_unsupported, -2, 0, 1, 1, 1, "readonly movablekeys"},
    {"wait", kv_cmd_unsupported, 3, 0, 0, 0, 0, "noscript"},
    {"expire", kv_cmd_expire, -3, 1, 1, 1, 1, "write fast"},
    {"pexpire", kv_cmd_expire, -3, 1, 1, 1, 1, "write fast"},
    {"expireat", kv_cmd_expire, -3, 1, 1, 1, 1, "write fast"},
    {"pexpireat", kv_cmd_expire, -3, 1, 1, 1, 1, "write fast"},
    {"persist", kv_cmd_persist, 2, 1, 1, 1, 1, "write fast"},
    {"expiretime", kv_cmd_ttl, 2, 0, 1, 1, 1, "readonly fast"},
    {"pexpiretime", kv_cmd_ttl, 2, 0, 1, 1, 1, "readonly fast"},
    {"ttl", kv_cmd_ttl, 2, 0, 1, 1, 1, "readonly fast"},
    {"pttl", kv_cmd_ttl, 2, 0, 1, 1, 1, "readonly fast"},
    {"type", kv_cmd_type, 2, 0, 1, 1, 1, "readonly fast"},
    {"dbsize", kv_cmd_dbsize, 1, 0, 0, 0, 0, "readonly fast"},
    {"flushall", kv_cmd_flush, -1, 1, 0, 0, 0, "write"},
    {"flushdb", kv_cmd_flush, -1, 1, 0, 0, 0, "write"},
    {"scan", kv_cmd_scan, -2, 0, 0, 0, 0, "readonly"},
    {"keys", kv_cmd_keys, 2, 0, 0, 0, 0, "readonly"},
    {"randomkey", kv_cmd_randomkey, 1, 0, 0, 0, 0, "readonly"},
    {"eval", kv_cmd_eval, -3, 1, 0, 0, 0,
     "noscript stale skip_monitor no_mandatory_keys movablekeys"},
    {"evalsha", kv_cmd_eval, -3, 1, 0, 0, 0,
     "noscript stale skip_monitor no_mandatory_keys movablekeys"},
    {"script", kv_cmd_script, -2, 0, 0, 0, 0, ""},
    {"slowlog", kv_cmd_slowlog, -2, 0, 0, 0, 0, ""},
    {"latency", kv_cmd_latency, -2, 0, 0, 0, 0, ""},
    {"ping", kv_cmd_ping, -1, 0, 0, 0, 0, "fast"},
    {"echo", kv_cmd_echo, 2, 0, 0, 0, 0, "loading stale fast"},
    {"select", kv_cmd_select, 2, 0, 0, 0, 0, "loading stale fast"},
    {"multi", kv_cmd_multi, 1, 0, 0, 0, 0, "noscript loading stale fast allow_busy"},
    {"exec", kv_cmd_exec, 1, 0, 0, 0, 0, "noscript loading stale skip_slowlog"},
    {"discard", kv_cmd_discard, 1, 0, 0, 0, 0, "noscript loading stale fast allow_busy"},
    {"watch", kv_cmd_watch, -2, 0, 1, -1, 1, "noscript loading stale fast allow_busy"},
    {"unwatch", kv_cmd_unwatch, 1, 0, 0, 0, 0, "noscript loading stale fast allow_busy"},
    {"auth", kv_cmd_auth, -2, 0, 0, 0, 0, "noscript loading stale fast no_auth allow_busy"},
    {"reset", kv_cmd_reset, 1, 0, 0, 0, 0, "noscript loading stale fast no_auth allow_busy"},
    {"hello", kv_cmd_hello, -1, 0, 0, 0, 0, "noscript loading stale fast no_auth allow_busy"},
    {"info", kv_cmd_info, -1, 0, 0, 0, 0, "loading stale"},
    {"role", kv_cmd_role, 1, 0, 0, 0, 0, "noscript loading stale fast"},
    {"config", kv_cmd_config, -2, 0, 0, 0, 0, ""},
    {"command", kv_cmd_command, -1, 0, 0, 0, 0, "loading stale"},
    {"client", kv_cmd_client, -2, 0, 0, 0, 0, ""},
    {"shutdown", kv_cmd_shutdown, -1, 0, 0, 0, 0,
     "admin noscript loading stale no_multi allow_busy"},
    {"quit", kv_cmd_quit, -1, 0, 0, 0, 0, "noscript loading stale fast no_auth allow_busy"},
};

const struct kv_command_spec *kv_command_at(uint32_t i)
{
    return i < SNIC_COUNTOF(kv_commands) ? &kv_commands[i] : NULL;
}

int kv_arg_is(const struct resp_arg *a, const char *word)
{
    size_t n = strlen(word);

    if (a->size != n)
        return 0;
    for (size_t i = 0; i < n; i++) {
        unsigned char c = a->data[i];

        if (c >= 'A' && c <= 'Z')
            c = (unsigned char)(c + 32);
        if (c != (unsigned char)word[i])
            return 0;
    }
    return 1;
}

const struct kv_command_spec *kv_command_find(const void *name, size_t size)
{
    struct resp_arg a = {name, (uint32_t)size};

    for (uint32_t i = 0; i < SNIC_COUNTOF(kv_commands); i++)
        if (kv_arg_is(&a, kv_commands[i].name))
            return &kv_commands[i];
    return NULL;
}

struct kv_entry *kv_command_lookup(struct kv_command *c, uint32_t database,
                                   const struct resp_arg *key, int touch)
{
    struct kv_entry *e = kv_store_find(c->store, database, key->data, key->size);

    kv_depends(c, e != NULL ? kv_store_end(e) : kv_store_absence(c->store));
    if (e != NULL && touch)
        e->accessed = (uint32_t)(kv_store_wall_ms(c->store) / 1000);
    return e;
}

struct kv_entry *kv_command_entry(struct kv_command *c, uint32_t i)
{
    return kv_command_lookup(c, c->database, &c->argv[i], 1);
}

struct kv_entry *kv_command_peek(struct kv_command *c, uint32_t i)
{
    return kv_command_lookup(c, c->database, &c->argv[i], 0);
}

static void command_unknown(struct kv_command *c)
{
    char args[160];
    size_t n = 0;

    args[0] = 0;
    for (uint32_t i = 1; i < c->argc && n < 128; i++) {
        uint32_t size = c->argv[i].size;
        int r;

        if (size > 128 - n)
            size = (uint32_t)(128 - n);
        r = snprintf(args + n, sizeof(args) - n, "'%.*s' ", (int)size,
                     (const char *)c->argv[i].data);
        n += r > 0 ? (size_t)r : 0;
    }
    kv_put_error(c->engine, "ERR unknown command '%.*s', with args beginning with: %s",
                 c->argv[0].size < 128 ? (int)c->argv[0].size : 128, (const char *)c->argv[0].data,
                 args);
}

/* Run before a client has authenticated; run inside of a transaction at once. */
static enum kv_outcome (*const command_unauthenticated[])(struct kv_command *c) = {
    kv_cmd_auth, kv_cmd_hello, kv_cmd_quit, kv_cmd_reset, NULL};
static enum kv_outcome (*const command_at_once[])(struct kv_command *c) = {
    kv_cmd_multi, kv_cmd_exec, kv_cmd_discard, kv_cmd_watch, kv_cmd_quit, kv_cmd_reset, NULL};

static int command_any(enum kv_outcome (*run)(struct kv_command *c),
                       enum kv_outcome (*const *list)(struct kv_command *c))
{
    while (*list != NULL && *list != run)
        list++;
    return *list != NULL;
}

/* The error is written: a transaction cannot be carried out any more. */
static enum kv_outcome command_refused(struct kv_command *c)
{
    if (!c->in_exec)
        kv_transaction_fail(c->client);
    return KV_DONE;
}

enum kv_outcome kv_command_run(struct kv_command *c)
{
    const struct kv_command_spec *spec = kv_command_find(c->argv[0].data, c->argv[0].size);
    enum kv_outcome outcome;
    uint64_t began;

    c->spec = spec;
    if (kv_arg_is(&c->argv[0], "post") || kv_arg_is(&c->argv[0], "host:")) {
        c->flags |= KV_REPLY_CLOSE | KV_REPLY_SILENT; /* a web page made a browser send this */
        c->client->killed = 1;
        return KV_DONE;
    }
    if (spec == NULL) {
        command_unknown(c);
        return command_refused(c);
    }
    c->client->last_command = spec;
    if ((spec->arity > 0 && c->argc != (uint32_t)spec->arity) ||
        (spec->arity < 0 && c->argc < (uint32_t)-spec->arity)) {
        if (spec->run == kv_cmd_exec) { /* it ends the transaction all the same */
            kv_put_error(c->engine, "EXECABORT Transaction discarded because of: wrong number of "
                                    "arguments for 'exec' command");
            kv_transaction_forget(c->client);
            c->flags |= KV_REPLY_USER;
            return KV_DONE;
        }
        kv_put_error(c->engine, "ERR wrong number of arguments for '%s' command", spec->name);
        return command_refused(c);
    }
    if (kv_subcommand_check(c) != 0)
        return command_refused(c);
    if ((c->client->user & KV_WORD_AUTH) == 0 && !command_any(spec->run, command_unauthenticated)) {
        kv_put_error(c->engine, "NOAUTH Authentication required.");
        return command_refused(c);
    }
    if (spec->first_key > 0)
        for (uint32_t i = spec->first_key; i < c->argc; i += spec->step) {
            if (spec->last_key > 0 && i > (uint32_t)spec->last_key)
                break;
            if (c->argv[i].size > c->engine->opts.key_max) {
                kv_put_error(c->engine, "ERR key is longer than %u bytes", c->engine->opts.key_max);
                return command_refused(c);
            }
        }
    if (!c->in_exec && c->client->tx != NULL && c->client->tx->open &&
        !command_any(spec->run, command_at_once)) {
        if (spec->run == kv_cmd_shutdown) {
            kv_put_error(c->engine, "ERR Command not allowed inside a transaction");
            return command_refused(c);
        }
        kv_transaction_queue(c);
        return KV_DONE;
    }
    began = kv_slow_clock();
    outcome = spec->run(c);
    kv_slow_note(c, kv_slow_clock() - began);
    if (outcome == KV_DONE || outcome == KV_LATER)
        c->engine->stats.commands++;
    return outcome;
}

int kv_number(struct kv_command *c, const struct resp_arg *a, int64_t *out)
{
    if (resp_number(a->data, a->size, out) == 0)
        return 0;
    kv_put_error(c->engine, "ERR value is not an integer or out of range");
    return -1;
}

int kv_database_check(struct kv_command *c, int64_t n)
{
    if (n >= 0 && n < (int64_t)c->engine->opts.databases)
        return 0;
    kv_put_error(c->engine, "ERR DB index is out of range");
    return -1;
}

int kv_database_number(struct kv_command *c, const struct resp_arg *a, uint32_t *out)
{
    int64_t n;

    if (kv_number(c, a, &n) != 0)
        return -1;
    if (n < INT32_MIN || n > INT32_MAX) {
        kv_put_error(c->engine, "ERR value is out of range, value must between %d and %d",
                     INT32_MIN, INT32_MAX);
        return -1;
    }
    *out = (uint32_t)n;
    return kv_database_check(c, n);
}

int kv_delete(struct kv_command *c, struct kv_entry *e)
{
    uint64_t end;
    int r = kv_store_delete(c->store, e, &end);

    if (r == 0)
        kv_depends(c, end);
    return r;
}

int kv_expiry(struct kv_command *c, const struct resp_arg *a, uint64_t unit_ms, int absolute,
              int64_t *out)
{
    int64_t now = (int64_t)kv_store_wall_ms(c->store);
    int64_t n;

    if (resp_number(a->data, a->size, &n) != 0)
        return -1;
    if (unit_ms == 1000) {
        if (n > INT64_MAX / 1000 || n < INT64_MIN / 1000)
            return -2;
        n *= 1000;
    }
    if (!absolute) {
        if (n > INT64_MAX - now)
            return -2;
        n += now;
    }
    *out = n;
    return 0;
}

/* [abc], [^a-z]: @return the position behind ']' and whether @p t matches. */
static size_t glob_class(const unsigned char *p, size_t n, size_t i, unsigned char t, int *matches)
{
    int negate = i < n && p[i] == '^';
    int found = 0;

    i += negate ? 1 : 0;
    while (i < n && p[i] != ']') {
        if (p[i] == '\\' && i + 1 < n) {
            found |= p[i + 1] == t;
            i += 2;
        } else if (i + 2 < n && p[i + 1] == '-') {
            unsigned char low = p[i] < p[i + 2] ? p[i] : p[i + 2];
            unsigned char high = p[i] < p[i + 2] ? p[i + 2] : p[i];

            found |= t >= low && t <= high;
            i += 3;
        } else {
            found |= p[i] == t;
            i++;
        }
    }
    *matches = negate ? !found : found;
    return i < n ? i + 1 : n;
}

/* One pattern element other than '*' at p[*i] against t; moves *i behind it. */
static int glob_one(const unsigned char *p, size_t n, size_t *i, unsigned char t)
{
    int matches;

    if (p[*i] == '?') {
        (*i)++;
        return 1;
    }
    if (p[*i] == '[') {
        *i = glob_class(p, n, *i + 1, t, &matches);
        return matches;
    }
    if (p[*i] == '\\' && *i + 1 < n)
        (*i)++;
    return p[(*i)++] == t;
}

int kv_glob(const unsigned char *pattern, size_t pattern_size, const unsigned char *text,
            size_t size)
{
    size_t i = 0;
    size_t t = 0;
    size_t star = SIZE_MAX; /* pattern position behind the last '*' */
    size_t mark = 0;        /* text position that it was tried from */

    while (t < size) {
        size_t next = i;

        if (i < pattern_size && pattern[i] == '*') {
            star = ++i;
            mark = t;
        } else if (i < pattern_size && glob_one(pattern, pattern_size, &next, text[t])) {
            i = next;
            t++;
        } else if (star != SIZE_MAX) {
            i = star;
            t = ++mark;
        } else {
            return 0;
        }
    }
    while (i < pattern_size && pattern[i] == '*')
        i++;
    return i >= pattern_size;
}
