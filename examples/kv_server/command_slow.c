/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* SLOWLOG and LATENCY. */
#include "slow.h"

#include <string.h>

static void slow_put(struct kv_engine *e, const struct slow_entry *n)
{
    size_t at = 0;

    kv_put_count(e, '*', 6);
    kv_put_integer(e, n->id);
    kv_put_integer(e, n->unix_s);
    kv_put_integer(e, n->took_us);
    kv_put_count(e, '*', n->argc);
    for (uint32_t i = 0; i < n->argc; i++) {
        uint32_t size;

        memcpy(&size, n->args + at, sizeof(size));
        kv_put_bulk(e, n->args + at + sizeof(size), size);
        at += sizeof(size) + size;
    }
    kv_put_bulk_text(e, ""); /* the client's address: the engine does not know it */
    kv_put_bulk_text(e, n->name);
}

static void slow_get(struct kv_command *c)
{
    struct kv_engine *e = c->engine;
    uint64_t have = e->slow != NULL ? e->slow->count : 0;
    const struct slow_entry *n = e->slow != NULL ? e->slow->first : NULL;
    int64_t count = 10;

    if (c->argc == 3 &&
        (resp_number(c->argv[2].data, c->argv[2].size, &count) != 0 || count < -1)) {
        kv_put_error(e, "ERR count should be greater than or equal to -1");
        return;
    }
    if (count == -1 || count > (int64_t)have)
        count = (int64_t)have;
    kv_put_count(e, '*', count);
    for (; count > 0; count--, n = n->next)
        slow_put(e, n);
}

enum kv_outcome kv_cmd_slowlog(struct kv_command *c)
{
    static const char *const help[] = {
        "SLOWLOG <subcommand> [<arg> [value] [opt] ...]. Subcommands are:",
        "GET [<count>]",
        "    The newest commands that took slowlog-log-slower-than (10 ms) or longer, 10 by "
        "default; "
        "-1: all.",
        "LEN",
        "    How many are kept.",
        "RESET",
        "    Forget them.",
        "HELP",
        "    Print this help."};
    struct kv_engine *e = c->engine;

    if (resp_arg_is(&c->argv[1], "get") && c->argc <= 3) {
        slow_get(c);
    } else if (kv_subcommand(c, "len")) {
        kv_put_integer(e, e->slow != NULL ? (int64_t)e->slow->count : 0);
    } else if (kv_subcommand(c, "reset")) {
        if (e->slow != NULL)
            kv_slow_cut(e->slow, 0);
        kv_put_text(e, "+OK\r\n");
    } else if (kv_subcommand(c, "help")) {
        kv_put_help(e, help, SNIC_COUNTOF(help));
    } else if (resp_arg_is(&c->argv[1], "get")) {
        kv_put_error(e,
                     "ERR unknown subcommand or wrong number of arguments for '%.*s'. Try "
                     "SLOWLOG HELP.",
                     (int)c->argv[1].size, (const char *)c->argv[1].data);
    }
    return KV_DONE;
}

/* No events are recorded, as in Redis with latency-monitor-threshold 0, its default. */
enum kv_outcome kv_cmd_latency(struct kv_command *c)
{
    static const char *const help[] = {
        "LATENCY <subcommand> [<arg> [value] [opt] ...]. Subcommands are:",
        "DOCTOR",
        "    That no events are recorded.",
        "GRAPH <event>",
        "    That there are no samples.",
        "HISTOGRAM [<command> ...]",
        "    An empty map.",
        "HISTORY <event>",
        "    An empty list.",
        "LATEST",
        "    An empty list.",
        "RESET [<event> ...]",
        "    Nothing to forget.",
        "HELP",
        "    Print this help."};
    struct kv_engine *e = c->engine;

    if (kv_subcommand(c, "latest") || kv_subcommand(c, "history")) {
        kv_put_text(e, "*0\r\n");
    } else if (kv_subcommand(c, "reset")) {
        kv_put_integer(e, 0);
    } else if (kv_subcommand(c, "graph")) {
        kv_put_error(e, "ERR No samples available for event '%.*s'",
                     c->argv[2].size < 128 ? (int)c->argv[2].size : 128,
                     (const char *)c->argv[2].data);
    } else if (kv_subcommand(c, "histogram")) {
        kv_put_map(c, 0);
    } else if (kv_subcommand(c, "doctor")) {
        kv_put_bulk_text(e, "Latency events are not recorded. See SLOWLOG for slow commands.");
    } else if (kv_subcommand(c, "help")) {
        kv_put_help(e, help, SNIC_COUNTOF(help));
    }
    return KV_DONE;
}
