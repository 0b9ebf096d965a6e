/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * Commands that kept the engine busy for slowlog-log-slower-than microseconds or longer, the newest
 * slowlog-max-len. What a command waits for (the device, durability) does not count, as in Redis.
 */
#include "slow.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define SLOW_ARGS_MAX 32u       /* kept of a command; the last one has the count of the others   */
#define SLOW_ARG_BYTES_MAX 128u /* kept of an argument, and how many more there were */
#define SLOW_TEXT 48u           /* the text of such a count                                      */

uint64_t kv_slow_clock(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

void kv_slow_cut(struct kv_slow *s, uint64_t keep)
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
        kv_slow_cut(e->slow, 0);
    free(e->slow);
}

/* Passwords are not kept. */
static int slow_is_secret(const struct kv_command *c, uint32_t i)
{
    return i % 2 == 1 && i >= 3 && strcmp(c->spec->name, "config") == 0 &&
           resp_arg_is(&c->argv[1], "set") && resp_arg_is(&c->argv[i - 1], "requirepass");
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
        kv_slow_cut(e->slow, (uint64_t)e->settings.slow_max);
}
