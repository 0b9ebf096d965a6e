/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * COMMAND INFO: a command as Redis 7.0 describes it, with its access categories, tips and key
 * specifications. Not described: subcommands, and the keys behind MIGRATE's and SORT's options,
 * which are not supported.
 */
#include "command_docs.h"
#include "engine_priv.h"

#include <string.h>

/* NULL: none. */
struct command_info {
    const char *name;
    const char *categories; /* beside those that follow from the flags */
    const char *tips;
    const char *keys; /* flags of each key specification, divided by '|' */
    const char *note; /* of the first */
};

static const struct command_info infos[] = {
    {"append", "string", NULL, "RW insert", NULL},
    {"auth", "connection", NULL, NULL, NULL},
    {"command", "connection", "nondeterministic_output_order", NULL, NULL},
    {"copy", "keyspace", NULL, "RO access|OW update", NULL},
    {"dbsize", "keyspace", "request_policy:all_shards response_policy:agg_sum", NULL, NULL},
    {"decr", "string", NULL, "RW access update", NULL},
    {"decrby", "string", NULL, "RW access update", NULL},
    {"del", "keyspace", "request_policy:multi_shard response_policy:agg_sum", "RM delete", NULL},
    {"discard", "transaction", NULL, NULL, NULL},
    {"dump", "keyspace", "nondeterministic_output", "RO access", NULL},
    {"echo", "connection", NULL, NULL, NULL},
    {"eval", "scripting", NULL, "RW access update",
     "We cannot tell how the keys will be used so we assume the worst, RW and UPDATE"},
    {"evalsha", "scripting", NULL, "RW access update", NULL},
    {"exec", "transaction", NULL, NULL, NULL},
    {"exists", "keyspace", "request_policy:multi_shard response_policy:agg_sum", "RO", NULL},
    {"expire", "keyspace", NULL, "RW update", NULL},
    {"expireat", "keyspace", NULL, "RW update", NULL},
    {"expiretime", "keyspace", NULL, "RO access", NULL},
    {"flushall", "keyspace dangerous", "request_policy:all_shards response_policy:all_succeeded",
     NULL, NULL},
    {"flushdb", "keyspace dangerous", "request_policy:all_shards response_policy:all_succeeded",
     NULL, NULL},
    {"get", "string", NULL, "RO access", NULL},
    {"getdel", "string", NULL, "RW access delete", NULL},
    {"getex", "string", NULL, "RW access update", "RW and UPDATE because it changes the TTL"},
    {"getrange", "string", NULL, "RO access", NULL},
    {"getset", "string", NULL, "RW access update", NULL},
    {"hello", "connection", NULL, NULL, NULL},
    {"incr", "string", NULL, "RW access update", NULL},
    {"incrby", "string", NULL, "RW access update", NULL},
    {"incrbyfloat", "string", NULL, "RW access update", NULL},
    {"info", "dangerous",
     "nondeterministic_output request_policy:all_shards response_policy:special", NULL, NULL},
    {"keys", "keyspace dangerous", "request_policy:all_shards nondeterministic_output_order", NULL,
     NULL},
    {"lcs", "string", NULL, "RO access", NULL},
    {"mget", "string", "request_policy:multi_shard", "RO access", NULL},
    {"migrate", "keyspace dangerous", "nondeterministic_output", "RW access delete", NULL},
    {"move", "keyspace", NULL, "RW access update", NULL},
    {"mset", "string", "request_policy:multi_shard response_policy:all_succeeded", "OW update",
     NULL},
    {"msetnx", "string", "request_policy:multi_shard response_policy:agg_min", "OW insert", NULL},
    {"multi", "transaction", NULL, NULL, NULL},
    {"persist", "keyspace", NULL, "RW update", NULL},
    {"pexpire", "keyspace", NULL, "RW update", NULL},
    {"pexpireat", "keyspace", NULL, "RW update", NULL},
    {"pexpiretime", "keyspace", NULL, "RO access", NULL},
    {"ping", "connection", "request_policy:all_shards response_policy:all_succeeded", NULL, NULL},
    {"psetex", "string", NULL, "OW update", NULL},
    {"pttl", "keyspace", "nondeterministic_output", "RO access", NULL},
    {"quit", "connection", NULL, NULL, NULL},
    {"randomkey", "keyspace", "request_policy:all_shards nondeterministic_output", NULL, NULL},
    {"rename", "keyspace", NULL, "RW access delete|OW update", NULL},
    {"renamenx", "keyspace", NULL, "RW access delete|OW insert", NULL},
    {"reset", "connection", NULL, NULL, NULL},
    {"restore", "keyspace dangerous", NULL, "OW update", NULL},
    {"role", "admin dangerous", NULL, NULL, NULL},
    {"scan", "keyspace", "nondeterministic_output request_policy:special", NULL, NULL},
    {"select", "connection", NULL, NULL, NULL},
    {"set", "string", NULL, "RW access update variable_flags",
     "RW and ACCESS due to the optional `GET` argument"},
    {"setex", "string", NULL, "OW update", NULL},
    {"setnx", "string", NULL, "OW insert", NULL},
    {"setrange", "string", NULL, "RW update", NULL},
    {"sort", "list set sortedset dangerous", NULL, "RO access", NULL},
    {"sort_ro", "list set sortedset dangerous", NULL, "RO access", NULL},
    {"strlen", "string", NULL, "RO", NULL},
    {"substr", "string", NULL, "RO access", NULL},
    {"swapdb", "keyspace dangerous", NULL, NULL, NULL},
    {"touch", "keyspace", "request_policy:multi_shard response_policy:agg_sum", "RO", NULL},
    {"ttl", "keyspace", "nondeterministic_output", "RO access", NULL},
    {"type", "keyspace", NULL, "RO", NULL},
    {"unlink", "keyspace", "request_policy:multi_shard response_policy:agg_sum", "RM delete", NULL},
    {"unwatch", "transaction", NULL, NULL, NULL},
    {"wait", "connection", "request_policy:all_shards response_policy:agg_min", NULL, NULL},
    {"watch", "transaction", NULL, "RO", NULL},
};

static const struct command_info *info_find(const struct kv_command_spec *s)
{
    static const struct command_info none = {0};

    for (size_t i = 0; i < SNIC_COUNTOF(infos); i++)
        if (strcmp(infos[i].name, s->name) == 0)
            return &infos[i];
    return &none;
}

/* Word number @p i of @p text, which may be NULL. @return its size; 0: there is none */
static size_t info_word(const char *text, size_t i, const char **word)
{
    const char *at = text != NULL ? text : "";

    while (i-- > 0 && *at != 0) {
        at += strcspn(at, " |");
        at += *at == ' ';
        if (*at == '|')
            return 0;
    }
    *word = at;
    return strcspn(at, " |");
}

static int64_t info_words(const char *text)
{
    const char *word;
    size_t n = 0;

    while (info_word(text, n, &word) > 0)
        n++;
    return (int64_t)n;
}

/* The words of @p text, each as a string that begins with @p mark. */
static void info_put_words(struct kv_engine *e, const char *text, const char *mark)
{
    const char *word;
    size_t n;

    for (size_t i = 0; (n = info_word(text, i, &word)) > 0; i++)
        kv_put_format(e, "%s%.*s\r\n", mark, (int)n, word);
}

static int info_flag(const struct kv_command_spec *s, const char *flag)
{
    const char *word;
    size_t n;

    for (size_t i = 0; (n = info_word(s->flags, i, &word)) > 0; i++)
        if (strlen(flag) == n && memcmp(word, flag, n) == 0)
            return 1;
    return 0;
}

/* The category number @p i of a command; NULL past the end. */
static const char *info_category(const struct kv_command_spec *s, size_t i, size_t *size)
{
    const char *implied[5];
    const char *word;
    size_t n = 0;

    if (info_flag(s, "write"))
        implied[n++] = "write";
    if (info_flag(s, "readonly"))
        implied[n++] = "read";
    if (info_flag(s, "admin")) {
        implied[n++] = "admin";
        implied[n++] = "dangerous";
    }
    implied[n++] = info_flag(s, "fast") ? "fast" : "slow";
    if (i < n) {
        *size = strlen(implied[i]);
        return implied[i];
    }
    *size = info_word(info_find(s)->categories, i - n, &word);
    return *size > 0 ? word : NULL;
}

int kv_command_in_category(const struct kv_command_spec *s, const struct resp_arg *category)
{
    const char *name;
    char text[32];
    size_t n;

    for (size_t i = 0; (name = info_category(s, i, &n)) != NULL; i++) {
        memcpy(text, name, n);
        text[n] = 0;
        if (resp_arg_is(category, text))
            return 1;
    }
    return 0;
}

static void info_categories(struct kv_engine *e, const struct kv_command_spec *s)
{
    const char *name;
    int64_t count = 0;
    size_t n;

    while (info_category(s, (size_t)count, &n) != NULL)
        count++;
    kv_put_set(e, count);
    for (int64_t i = 0; i < count; i++) {
        name = info_category(s, (size_t)i, &n);
        kv_put_format(e, "+@%.*s\r\n", (int)n, name);
    }
}

static void info_pair(struct kv_command *c, const char *name, int64_t n)
{
    kv_put_bulk_text(c->engine, name);
    kv_put_integer(c->engine, n);
}

/* "type" and the head of "spec" with @p pairs. */
static void info_type(struct kv_command *c, const char *name, const char *type, int64_t pairs)
{
    struct kv_engine *e = c->engine;

    kv_put_bulk_text(e, name);
    kv_put_map(c, 2);
    kv_put_bulk_text(e, "type");
    kv_put_bulk_text(e, type);
    kv_put_bulk_text(e, "spec");
    kv_put_map(c, pairs);
}

/* Where the keys of one specification are: the first of them is argument @p first. */
static void info_places(struct kv_command *c, const struct kv_command_spec *s, int64_t first,
                        int one)
{
    int numbered = s->run == kv_cmd_eval;
    int64_t last = s->last_key < 0 ? s->last_key : s->last_key - s->first_key;

    info_type(c, "begin_search", "index", 1);
    info_pair(c, "index", numbered ? 2 : first);
    if (numbered) {
        info_type(c, "find_keys", "keynum", 3);
        info_pair(c, "keynumidx", 0);
        info_pair(c, "firstkey", 1);
        info_pair(c, "keystep", 1);
        return;
    }
    info_type(c, "find_keys", "range", 3);
    info_pair(c, "lastkey", one ? last : 0);
    info_pair(c, "keystep", one ? s->step : 1);
    info_pair(c, "limit", 0);
}

static void info_keys(struct kv_command *c, const struct kv_command_spec *s,
                      const struct command_info *info)
{
    struct kv_engine *e = c->engine;
    const char *keys = info->keys;
    int64_t count = keys != NULL;

    for (const char *p = keys; p != NULL && *p != 0; p++)
        count += *p == '|';
    kv_put_count(e, '*', count);
    for (int64_t i = 0; i < count; i++) {
        int noted = i == 0 && info->note != NULL;

        kv_put_map(c, 3 + noted);
        if (noted) {
            kv_put_bulk_text(e, "notes");
            kv_put_bulk_text(e, info->note);
        }
        kv_put_bulk_text(e, "flags");
        kv_put_set(e, info_words(keys));
        info_put_words(e, keys, "+");
        info_places(c, s, s->first_key + i, count == 1);
        keys += strcspn(keys, "|");
        keys += *keys == '|';
    }
}

void kv_command_describe(struct kv_command *c, const struct kv_command_spec *s)
{
    struct kv_engine *e = c->engine;
    const struct command_info *info = info_find(s);
    const char *word;
    size_t n;

    kv_put_count(e, '*', 10);
    kv_put_bulk_text(e, s->name);
    kv_put_integer(e, s->arity);
    kv_put_set(e, info_words(s->flags));
    info_put_words(e, s->flags, "+");
    kv_put_integer(e, s->first_key);
    kv_put_integer(e, s->last_key);
    kv_put_integer(e, s->step);
    info_categories(e, s);
    kv_put_count(e, '*', info_words(info->tips));
    for (size_t i = 0; (n = info_word(info->tips, i, &word)) > 0; i++)
        kv_put_bulk(e, word, n);
    info_keys(c, s, info);
    kv_put_text(e, "*0\r\n");
}
