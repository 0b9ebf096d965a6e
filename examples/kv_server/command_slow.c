/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * SLOWLOG and LATENCY: commands that kept the engine busy for 10 ms or longer, the newest 128. What
 * a command waits for (the device, durability) does not count, as in Redis.
 */
#include "engine_priv.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

#define SLOW_NS 10000000u
#define SLOW_ENTRIES 128u
#define SLOW_ARGS 32u   /* kept of a command; the last one says how many more there were */
#define SLOW_BYTES 128u /* kept of an argument                                           */

struct slow_entry {
    struct slow_entry *next; /* older */
    int64_t id;
    int64_t unix_s;
    int64_t took_us;
    uint32_t argc; /* arguments kept, each as size and bytes */
    char name[KV_CLIENT_NAME_MAX];
    size_t size;
    unsigned char args[];
};

struct kv_slow {
    struct slow_entry *first;
    uint32_t count;
    int64_t id;
};

uint64_t kv_slow_clock(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

static void slow_cut(struct kv_slow *s, uint32_t keep)
{
    struct slow_entry **at = &s->first;

    for (uint32_t i = 0; i < keep && *at != NULL; i++)
        at = &(*at)->next;
    while (*at != NULL) {
        struct slow_entry *e = *at;

        *at = e->next;
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

/* Keep argument @p i of a command. @return the bytes used */
static size_t slow_keep(unsigned char *out, const struct resp_arg *a)
{
    uint32_t size = a->size < SLOW_BYTES ? a->size : SLOW_BYTES;

    memcpy(out, &size, sizeof(size));
    memcpy(out + sizeof(size), a->data, size);
    return sizeof(size) + size;
}

void kv_slow_note(struct kv_command *c, uint64_t ns)
{
    struct kv_engine *e = c->engine;
    uint32_t argc = c->argc < SLOW_ARGS ? c->argc : SLOW_ARGS;
    struct slow_entry *n;

    if (ns < SLOW_NS || c->spec == NULL || strcmp(c->spec->name, "auth") == 0 ||
        strcmp(c->spec->name, "hello") == 0)
        return; /* passwords are not kept */
    if (strcmp(c->spec->name, "exec") == 0)
        return; /* its commands are noted; their arguments have taken the place of its own */
    if (e->slow == NULL)
        e->slow = calloc(1, sizeof(*e->slow));
    n = calloc(1, sizeof(*n) + argc * (SLOW_BYTES + sizeof(uint32_t)));
    if (e->slow == NULL || n == NULL) {
        free(n);
        return;
    }
    n->id = e->slow->id++;
    n->unix_s = (int64_t)(kv_store_wall_ms(c->store) / 1000);
    n->took_us = (int64_t)(ns / 1000);
    n->argc = argc;
    memcpy(n->name, c->client->name, sizeof(n->name));
    for (uint32_t i = 0; i < argc; i++)
        n->size += slow_keep(n->args + n->size, &c->argv[i]);
    n->next = e->slow->first;
    e->slow->first = n;
    e->slow->count++;
    slow_cut(e->slow, SLOW_ENTRIES);
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
    uint32_t have = e->slow != NULL ? e->slow->count : 0;
    const struct slow_entry *n = e->slow != NULL ? e->slow->first : NULL;
    int64_t count = 10;

    if (c->argc == 3 &&
        (resp_number(c->argv[2].data, c->argv[2].size, &count) != 0 || count < -1)) {
        kv_put_error(e, "ERR count should be greater than or equal to -1");
        return;
    }
    if (count == -1 || count > (int64_t)have)
        count = have;
    kv_put_count(e, '*', count);
    for (; count > 0; count--, n = n->next)
        slow_put(e, n);
}

enum kv_outcome kv_cmd_slowlog(struct kv_command *c)
{
    static const char *const help[] = {
        "SLOWLOG <subcommand> [<arg> [value] [opt] ...]. Subcommands are:",
        "GET [<count>]",
        "    The newest commands that took 10 ms or longer, 10 by default; -1: all.",
        "LEN",
        "    How many are kept.",
        "RESET",
        "    Forget them.",
        "HELP",
        "    Print this help."};
    struct kv_engine *e = c->engine;
    int r;

    if (kv_arg_is(&c->argv[1], "get") && c->argc <= 3) {
        slow_get(c);
    } else if ((r = kv_subcommand(c, "len", 2)) != 0) {
        if (r > 0)
            kv_put_integer(e, e->slow != NULL ? e->slow->count : 0);
    } else if ((r = kv_subcommand(c, "reset", 2)) != 0) {
        if (r > 0 && e->slow != NULL)
            slow_cut(e->slow, 0);
        if (r > 0)
            kv_put_text(e, "+OK\r\n");
    } else if ((r = kv_subcommand(c, "help", 2)) != 0) {
        if (r > 0)
            kv_put_help(e, help, SNIC_COUNTOF(help));
    } else if (kv_arg_is(&c->argv[1], "get")) {
        kv_put_error(e,
                     "ERR unknown subcommand or wrong number of arguments for '%.*s'. Try "
                     "SLOWLOG HELP.",
                     (int)c->argv[1].size, (const char *)c->argv[1].data);
    } else {
        kv_put_wrong_subcommand(c);
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
        "HISTORY <event>",
        "    An empty list.",
        "LATEST",
        "    An empty list.",
        "RESET [<event> ...]",
        "    Nothing to forget.",
        "HELP",
        "    Print this help."};
    struct kv_engine *e = c->engine;
    int r;

    if ((r = kv_subcommand(c, "latest", 2)) != 0 || (r = kv_subcommand(c, "history", 3)) != 0) {
        if (r > 0)
            kv_put_text(e, "*0\r\n");
    } else if (kv_subcommand(c, "reset", -2) != 0) {
        kv_put_integer(e, 0);
    } else if ((r = kv_subcommand(c, "doctor", 2)) != 0) {
        if (r > 0)
            kv_put_bulk_text(e, "Latency events are not recorded. See SLOWLOG for slow commands.");
    } else if ((r = kv_subcommand(c, "help", 2)) != 0) {
        if (r > 0)
            kv_put_help(e, help, SNIC_COUNTOF(help));
    } else {
        kv_put_wrong_subcommand(c);
    }
    return KV_DONE;
}
