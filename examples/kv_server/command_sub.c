/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * Subcommands: which there are, with how many arguments. As in Redis a wrong one is refused before
 * a transaction queues it, so that EXEC carries out nothing.
 */
#include "engine_priv.h"

#include <string.h>

static const struct {
    const char *command;
    const char *name;
    int arity; /* of the whole command; negative: at least so many */
} kv_subcommands[] = {
    {"client", "id", 2},           {"client", "getname", 2},   {"client", "setname", 3},
    {"client", "setinfo", 4},      {"client", "list", -2},     {"client", "info", 2},
    {"client", "kill", -3},        {"client", "reply", 3},     {"client", "no-evict", 3},
    {"client", "getredir", 2},     {"client", "unblock", -3},  {"client", "tracking", -3},
    {"client", "trackinginfo", 2}, {"client", "caching", 3},   {"client", "pause", -3},
    {"client", "unpause", 2},      {"client", "help", 2},      {"command", "count", 2},
    {"command", "docs", -2},       {"command", "info", -2},    {"command", "list", -2},
    {"command", "getkeys", -4},    {"command", "help", 2},     {"config", "get", -3},
    {"config", "set", -4},         {"config", "resetstat", 2}, {"config", "rewrite", 2},
    {"config", "help", 2},         {"latency", "latest", 2},   {"latency", "history", 3},
    {"latency", "reset", -2},      {"latency", "graph", 3},    {"latency", "histogram", -2},
    {"latency", "doctor", 2},      {"latency", "help", 2},     {"memory", "usage", -3},
    {"memory", "stats", 2},        {"memory", "purge", 2},     {"memory", "doctor", 2},
    {"memory", "malloc-stats", 2}, {"memory", "help", 2},      {"object", "encoding", 3},
    {"object", "refcount", 3},     {"object", "idletime", 3},  {"object", "freq", 3},
    {"object", "help", 2},         {"script", "load", 3},      {"script", "exists", -3},
    {"script", "flush", -2},       {"script", "kill", 2},      {"script", "help", 2},
    {"slowlog", "get", -2},        {"slowlog", "len", 2},      {"slowlog", "reset", 2},
    {"slowlog", "help", 2},
};

int kv_subcommand(const struct kv_command *c, const char *word)
{
    return resp_arg_is(&c->argv[1], word);
}

static void sub_put_unknown(struct kv_command *c)
{
    char upper[32];
    size_t n = strlen(c->spec->name);

    for (size_t i = 0; i <= n && i < sizeof(upper); i++) {
        char ch = c->spec->name[i];

        upper[i] = ch >= 'a' && ch <= 'z' ? (char)(ch - 32) : ch;
    }
    kv_put_error(c->engine, "ERR unknown subcommand '%.*s'. Try %s HELP.",
                 c->argv[1].size < 128 ? (int)c->argv[1].size : 128, (const char *)c->argv[1].data,
                 upper);
}

int kv_subcommand_check(struct kv_command *c)
{
    int has = 0;

    if (c->spec->first_key != 0) /* commands of keys have none: most of all, nothing to look for */
        return 0;
    for (size_t i = 0; c->argc > 1 && i < SNIC_COUNTOF(kv_subcommands); i++) {
        int arity = kv_subcommands[i].arity;

        if (strcmp(kv_subcommands[i].command, c->spec->name) != 0)
            continue;
        has = 1;
        if (!kv_subcommand(c, kv_subcommands[i].name))
            continue;
        if (arity > 0 ? c->argc == (uint32_t)arity : c->argc >= (uint32_t)-arity)
            return 0;
        kv_put_error(c->engine, "ERR wrong number of arguments for '%s|%s' command", c->spec->name,
                     kv_subcommands[i].name);
        return -1;
    }
    if (has)
        sub_put_unknown(c);
    return has ? -1 : 0;
}
