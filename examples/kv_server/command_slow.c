/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * SLOWLOG and LATENCY: commands that kept the engine busy for slowlog-log-slower-than microseconds
 * or longer, the newest slowlog-max-len. What a command waits for (the device, durability) does not
 * count, as in Redis.
 */
#include "engine_priv.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define SLOW_ARGS_MAX 32u       /* kept of a command; the last one has the count of the others   */
#define SLOW_ARG_BYTES_MAX 128u /* kept of an argument, and how many more there were */
#define SLOW_TEXT 48u           /* the text of such a count                                      */

struct slow_entry {
    struct slow_entry *next; /* older */
    struct slow_entry *previous;
    int64_t id;
    int64_t unix_s;
    int64_t took_us;
    uint32_t argc; /* arguments kept, each as size and bytes */
    char name[KV_CLIENT_NAME_MAX];
    size_t size;
    unsigned char args[];
};

struct kv_slow {
    struct slow_entry *first; /* the newest */
    struct slow_entry *last;
    uint64_t count;
    int64_t id;
};

uint64_t kv_slow_clock(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

static void slow_cut(struct kv_slow *s, uint64_t keep)
{
    while (s->count > keep) {
        struct slow_entry *e = s->last;

        s->last = e->previous;
        if (s->last != NULL)
            s->last->next = NULL;
        else
            s->first = NULL;
        free(e);
        s->count--;
    }
}

void kv_slow_free(struct kv_engine *e)
{
    if (e->slow != NULL)
        slow_cut(e->slow, 0);
    free(e->slow);
}

/* Passwords are not kept. */
static int slow_is_secret(const struct kv_command *c, uint32_t i)
{
    return i % 2 == 1 && i >= 3 && strcmp(c->spec->name, "config") == 0 &&
           kv_arg_is(&c->argv[1], "set") && kv_arg_is(&c->argv[i - 1], "requirepass");
}

/* Keep argument @p i of a command. @return the bytes used */
static size_t slow_keep(unsigned char *out, const struct kv_command *c, uint32_t i)
{
    const struct resp_arg *a = &c->argv[i];
    uint32_t size = a->size < SLOW_ARG_BYTES_MAX ? a->size : SLOW_ARG_BYTES_MAX;
    char text[SLOW_TEXT] = "";

    if (i + 1 == SLOW_ARGS_MAX && c->argc > SLOW_ARGS_MAX) {
        size = 0;
        snprintf(text, sizeof(text), "... (%u more arguments)", c->argc - SLOW_ARGS_MAX + 1);
    } else if (slow_is_secret(c, i)) {
        size = 0;
        snprintf(text, sizeof(text), "(redacted)");
    } else if (a->size > SLOW_ARG_BYTES_MAX) {
        snprintf(text, sizeof(text), "... (%u more bytes)", a->size - SLOW_ARG_BYTES_MAX);
    }
    memcpy(out + sizeof(size), a->data, size);
    memcpy(out + sizeof(size) + size, text, strlen(text));
    size += (uint32_t)strlen(text);
    memcpy(out, &size, sizeof(size));
    return sizeof(size) + size;
}

/* Passwords are not kept; of EXEC the commands are, whose arguments have taken the place of its
   own. */
static int slow_is_noted(const struct kv_command *c)
{
    return c->spec != NULL && strcmp(c->spec->name, "auth") != 0 &&
           strcmp(c->spec->name, "hello") != 0 && strcmp(c->spec->name, "exec") != 0;
}

static void slow_add(struct kv_slow *s, struct kv_command *c, uint64_t ns)
{
    uint32_t argc = c->argc < SLOW_ARGS_MAX ? c->argc : SLOW_ARGS_MAX;
    struct slow_entry *n =
        calloc(1, sizeof(*n) + argc * (SLOW_ARG_BYTES_MAX + SLOW_TEXT + sizeof(uint32_t)));

    if (n == NULL)
        return;
    n->id = s->id++;
    n->unix_s = (int64_t)(kv_store_wall_ms(c->store) / 1000);
    n->took_us = (int64_t)(ns / 1000);
    n->argc = argc;
    memcpy(n->name, c->client->name, sizeof(n->name));
    for (uint32_t i = 0; i < argc; i++)
        n->size += slow_keep(n->args + n->size, c, i);
    n->next = s->first;
    if (s->first != NULL)
        s->first->previous = n;
    else
        s->last = n;
    s->first = n;
    s->count++;
}

void kv_slow_note(struct kv_command *c, uint64_t ns)
{
    struct kv_engine *e = c->engine;

    if (e->settings.slow_us < 0)
        return;
    if (ns / 1000 >= (uint64_t)e->settings.slow_us && slow_is_noted(c)) {
        if (e->slow == NULL)
            e->slow = calloc(1, sizeof(*e->slow));
        if (e->slow != NULL)
            slow_add(e->slow, c, ns);
    }
    if (e->slow != NULL)
        slow_cut(e->slow, (uint64_t)e->settings.slow_max);
}

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

    if (kv_arg_is(&c->argv[1], "get") && c->argc <= 3) {
        slow_get(c);
    } else if (kv_subcommand(c, "len")) {
        kv_put_integer(e, e->slow != NULL ? (int64_t)e->slow->count : 0);
    } else if (kv_subcommand(c, "reset")) {
        if (e->slow != NULL)
            slow_cut(e->slow, 0);
        kv_put_text(e, "+OK\r\n");
    } else if (kv_subcommand(c, "help")) {
        kv_put_help(e, help, SNIC_COUNTOF(help));
    } else if (kv_arg_is(&c->argv[1], "get")) {
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
