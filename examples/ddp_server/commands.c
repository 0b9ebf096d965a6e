/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* The table of all commands. */
#include "commands.h"

#define LOCAL(name, arity, rules, flags, run)                                                      \
    {                                                                                              \
        name, DS_LOCAL, arity, 0, rules, flags, run, NULL, NULL, NULL, NULL, NULL, NULL, NULL      \
    }
#define KEY(name, arity, rules, flags, parse, step)                                                \
    {                                                                                              \
        name, DS_KEY, arity, 1, rules, flags, NULL, parse, step, NULL, NULL, NULL, NULL, NULL      \
    }
#define EACH(name, rules, flags, step)                                                             \
    {                                                                                              \
        name, DS_EACH, -2, 1, rules, flags, NULL, NULL, step, NULL, NULL, NULL, NULL, NULL         \
    }
#define ALL(name, arity, rules, flags, visit, join)                                                \
    {                                                                                              \
        name, DS_ALL, arity, 0, rules, flags, NULL, NULL, NULL, NULL, visit, join, NULL, NULL      \
    }
#define SHARD(name, arity, flags, route, visit)                                                    \
    {                                                                                              \
        name, DS_SHARD, arity, 0, 0, flags, NULL, NULL, NULL, NULL, visit, NULL, route, NULL       \
    }
#define REFUSED(name, reason)                                                                      \
    {                                                                                              \
        name, DS_REFUSED, -1, 0, 0, "", NULL, NULL, NULL, NULL, NULL, NULL, NULL, reason           \
    }
#define CONNECTION "noscript loading stale fast no_auth allow_busy"
#define SCRIPTS                                                                                    \
    "the nodes run no scripts: use SET with NX or XX, GETDEL, INCR, or STORE with IFVERSION"

static const struct ds_command commands[] = {
    KEY("get", 2, 0, "readonly fast", NULL, ds_cmd_get),
    KEY("set", -3, DS_WRITES, "write denyoom", ds_parse_set, ds_cmd_set),
    KEY("setnx", 3, DS_WRITES, "write denyoom fast", NULL, ds_cmd_setnx),
    KEY("setex", 4, DS_WRITES, "write denyoom", ds_parse_setex, ds_cmd_set),
    KEY("psetex", 4, DS_WRITES, "write denyoom", ds_parse_setex, ds_cmd_set),
    KEY("getset", 3, DS_WRITES, "write denyoom fast", NULL, ds_cmd_getset),
    KEY("getdel", 2, DS_WRITES, "write fast", NULL, ds_cmd_getdel),
    KEY("getex", -2, DS_WRITES, "write fast", ds_parse_getex, ds_cmd_getex),
    KEY("append", 3, DS_WRITES, "write denyoom fast", NULL, ds_cmd_append),
    KEY("setrange", 4, DS_WRITES, "write denyoom", ds_parse_setrange, ds_cmd_setrange),
    KEY("getrange", 4, 0, "readonly", NULL, ds_cmd_getrange),
    KEY("substr", 4, 0, "readonly", NULL, ds_cmd_getrange),
    KEY("strlen", 2, 0, "readonly fast", NULL, ds_cmd_strlen),
    KEY("incr", 2, DS_WRITES, "write denyoom fast", ds_parse_incr, ds_cmd_incr),
    KEY("decr", 2, DS_WRITES, "write denyoom fast", ds_parse_incr, ds_cmd_incr),
    KEY("incrby", 3, DS_WRITES, "write denyoom fast", ds_parse_incr, ds_cmd_incr),
    KEY("decrby", 3, DS_WRITES, "write denyoom fast", ds_parse_incr, ds_cmd_incr),
    KEY("incrbyfloat", 3, DS_WRITES, "write denyoom fast", ds_parse_incrbyfloat,
        ds_cmd_incrbyfloat),
    EACH("mget", 0, "readonly fast", ds_cmd_get),
    EACH("del", DS_SUM | DS_WRITES, "write", ds_cmd_del),
    EACH("unlink", DS_SUM | DS_WRITES, "write fast", ds_cmd_del),
    EACH("exists", DS_SUM, "readonly fast", ds_cmd_exists),
    EACH("touch", DS_SUM, "readonly fast", ds_cmd_exists),
    KEY("type", 2, 0, "readonly fast", NULL, ds_cmd_type),
    KEY("expire", -3, DS_WRITES, "write fast", ds_parse_expire, ds_cmd_expire),
    KEY("pexpire", -3, DS_WRITES, "write fast", ds_parse_expire, ds_cmd_expire),
    KEY("expireat", -3, DS_WRITES, "write fast", ds_parse_expire, ds_cmd_expire),
    KEY("pexpireat", -3, DS_WRITES, "write fast", ds_parse_expire, ds_cmd_expire),
    KEY("persist", 2, DS_WRITES, "write fast", NULL, ds_cmd_persist),
    KEY("ttl", 2, 0, "readonly fast", NULL, ds_cmd_ttl),
    KEY("pttl", 2, 0, "readonly fast", NULL, ds_cmd_ttl),
    KEY("expiretime", 2, 0, "readonly fast", NULL, ds_cmd_ttl),
    KEY("pexpiretime", 2, 0, "readonly fast", NULL, ds_cmd_ttl),
    {"object", DS_KEY, 3, 2, 0, "readonly", NULL, ds_parse_object, ds_cmd_object, NULL, NULL, NULL,
     NULL, NULL},
    {"store", DS_KEY, -2, 2, DS_WRITES, "write", ds_cmd_nodes, ds_parse_store, NULL,
     ds_finish_store, NULL, NULL, NULL, NULL},
    KEY("dump", 2, 0, "readonly", NULL, ds_cmd_dump),
    KEY("restore", -4, DS_WRITES, "write denyoom", ds_parse_restore, ds_cmd_restore),
    {"memory", DS_KEY, -2, 2, 0, "readonly", ds_cmd_memory, ds_parse_memory, ds_cmd_memory_usage,
     NULL, NULL, NULL, NULL, NULL},
    LOCAL("slowlog", -2, 0, "admin loading stale", ds_cmd_slowlog),
    LOCAL("latency", -2, 0, "admin noscript loading stale", ds_cmd_latency),
    ALL("dbsize", 1, DS_SUM, "readonly fast", ds_visit_dbsize, NULL),
    ALL("keys", 2, DS_FLAT, "readonly", ds_visit_keys, NULL),
    ALL("randomkey", 1, 0, "readonly", ds_visit_randomkey, ds_join_randomkey),
    SHARD("scan", -2, "readonly", ds_route_scan, ds_visit_scan),
    SHARD("scankeys", -2, "readonly", ds_route_scankeys, ds_visit_scankeys),
    LOCAL("durability", -1, 0, "fast", ds_cmd_durability),
    LOCAL("readlevel", -1, 0, "fast", ds_cmd_durability),
    ALL("scope", 2, DS_WRITES, "write", ds_visit_scope, ds_join_ok),
    LOCAL("watchkey", -2, DS_WATCHING, "readonly", ds_cmd_watchkey),
    LOCAL("watchprefix", -2, DS_WATCHING, "readonly", ds_cmd_watchkey),
    LOCAL("unwatchkey", -1, DS_WATCHING, "readonly fast", ds_cmd_unwatchkey),
    LOCAL("ping", -1, DS_WATCHING, "fast", ds_cmd_ping),
    LOCAL("echo", 2, 0, "loading stale fast", ds_cmd_echo),
    LOCAL("time", 1, 0, "loading stale fast", ds_cmd_time),
    LOCAL("select", 2, 0, "loading stale fast", ds_cmd_select),
    LOCAL("auth", -2, DS_NO_AUTH, CONNECTION, ds_cmd_auth),
    LOCAL("hello", -1, DS_NO_AUTH, CONNECTION, ds_cmd_hello),
    LOCAL("reset", 1, DS_NO_AUTH | DS_WATCHING, CONNECTION, ds_cmd_reset),
    LOCAL("quit", -1, DS_NO_AUTH | DS_WATCHING, CONNECTION, ds_cmd_quit),
    LOCAL("client", -2, 0, "noscript loading stale", ds_cmd_client),
    LOCAL("config", -2, 0, "admin noscript loading stale", ds_cmd_config),
    LOCAL("info", -1, 0, "loading stale", ds_cmd_info),
    LOCAL("command", -1, 0, "loading stale", ds_cmd_command),
    LOCAL("cluster", -2, 0, "loading stale", ds_cmd_cluster),
    LOCAL("admin", -2, DS_NO_AUTH, "admin noscript loading stale", ds_cmd_admin),
    ALL("members", -3, DS_ADMIN, "admin noscript", ds_visit_members, ds_join_members),
    LOCAL("role", 1, 0, "noscript loading stale fast", ds_cmd_role),
    LOCAL("shutdown", -1, 0, "admin noscript loading stale no_multi", ds_cmd_shutdown),
    LOCAL("multi", 1, 0, "noscript loading stale fast", ds_cmd_multi),
    LOCAL("exec", 1, 0, "noscript loading stale", ds_cmd_exec),
    LOCAL("discard", 1, 0, "noscript loading stale fast", ds_cmd_exec),
    REFUSED("watch", DS_ONE_KEY "; STORE with IFVERSION compares one key"),
    REFUSED("unwatch", DS_ONE_KEY),
    REFUSED("mset", DS_ONE_KEY ": SET each"),
    REFUSED("msetnx", DS_ONE_KEY ": SET each with NX"),
    REFUSED("rename", DS_ONE_KEY),
    REFUSED("renamenx", DS_ONE_KEY),
    REFUSED("copy", DS_ONE_KEY),
    REFUSED("move", "there is one database"),
    REFUSED("swapdb", "there is one database"),
    REFUSED("flushall", DS_ONE_KEY ": scan, and DEL each"),
    REFUSED("flushdb", DS_ONE_KEY ": scan, and DEL each"),
    REFUSED("lcs", DS_ONE_KEY),
    REFUSED("eval", SCRIPTS),
    REFUSED("evalsha", SCRIPTS),
    REFUSED("script", SCRIPTS),
    REFUSED("wait", "each write waits for the nodes as its durability asks: DURABILITY"),
    REFUSED("migrate", "the cluster has one set of keys"),
    REFUSED("sort", "there are strings only"),
    REFUSED("sort_ro", "there are strings only"),
    REFUSED("save", "each write is in the logs; `ddp_server ctl backup` copies all keys"),
    REFUSED("bgsave", "each write is in the logs; `ddp_server ctl backup` copies all keys"),
    REFUSED("replicaof", "the nodes replicate as --peers names them"),
    REFUSED("slaveof", "the nodes replicate as --peers names them"),
};

/* Of CLIENT's subcommands, those that look at the clients of all loops. */
static const struct ds_command client_commands[] = {
    ALL("client|list", -2, 0, "", ds_visit_client_list, ds_join_client_list),
    ALL("client|kill", -3, 0, "", ds_visit_client_kill, ds_join_client_kill),
};

const struct ds_command *ds_command_sub(const struct ds_command *m, const struct resp_arg *argv,
                                        uint32_t argc)
{
    if (m == NULL || m->run != ds_cmd_client || argc < 2)
        return m;
    if (resp_arg_is(&argv[1], "list"))
        return &client_commands[0];
    return resp_arg_is(&argv[1], "kill") ? &client_commands[1] : m;
}

const struct ds_command *ds_command_table(uint32_t *count)
{
    *count = SNIC_COUNTOF(commands);
    return commands;
}
