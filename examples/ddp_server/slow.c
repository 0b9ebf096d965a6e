/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * Commands on keys that took slowlog-log-slower-than microseconds or longer, from their arrival to
 * their reply: other than in Redis that has what they waited for, the other nodes and the logs. The
 * newest slowlog-max-len of all loops.
 */
#include "commands.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SLOW_ARGS_MAX 32u       /* of a command; the last one has the count of the others */
#define SLOW_ARG_BYTES_MAX 128u /* of an argument, and how many more there were */
#define SLOW_REPLY_BYTES                                                                           \
    ((size_t)4 << 20) /* of the newest entries, about: a loop makes it at once */

struct slow_entry {
    struct snic_link link; /* newest first */
    int64_t id;
    int64_t unix_s;
    int64_t took_us;
    struct resp_reply rest; /* arguments, address and name of the client */
};

static void slow_cut(struct ds_node *n, uint64_t most)
{
    while (n->slow_count > most) {
        struct slow_entry *e = SNIC_CONTAINER(n->slow.prev, struct slow_entry, link);

        snic_link_remove(&e->link);
        resp_reply_free(&e->rest);
        free(e);
        n->slow_count--;
    }
}

static void slow_arguments(struct resp_reply *out, const struct ds_request *r)
{
    uint32_t argc = r->argc < SLOW_ARGS_MAX ? r->argc : SLOW_ARGS_MAX;
    char text[SLOW_ARG_BYTES_MAX + 48];

    resp_put_count(out, '*', argc);
    for (uint32_t i = 0; i < argc; i++) {
        const struct resp_arg *a = &r->argv[i];
        uint32_t size = a->size < SLOW_ARG_BYTES_MAX ? a->size : SLOW_ARG_BYTES_MAX;
        int more = 0;

        if (i + 1 == SLOW_ARGS_MAX && r->argc > SLOW_ARGS_MAX) {
            size = 0;
            more = snprintf(text, sizeof(text), "... (%u more arguments)", r->argc - i);
        } else if (a->size > size) {
            more =
                snprintf(text + size, sizeof(text) - size, "... (%u more bytes)", a->size - size);
        }
        if (size > 0)
            memcpy(text, a->data, size);
        resp_put_bulk(out, text, size + (size_t)more);
    }
}

void ds_slow_note(struct ds_shard *s, const struct ds_client *c, const struct ds_request *r)
{
    struct ds_node *n = s->node;
    uint64_t took_us = (snic_loop_now(s->loop) - r->arrived_ns) / 1000;
    struct ex_front_facts f = {.peer = ""};
    struct slow_entry *e;

    if (s->slow_us < 0 || took_us < (uint64_t)s->slow_us || s->front == NULL ||
        (e = calloc(1, sizeof(*e))) == NULL)
        return;
    (void)ex_front_get_facts(s->front, c->id, &f);
    e->unix_s = ds_wall_ms() / 1000;
    e->took_us = (int64_t)took_us;
    slow_arguments(&e->rest, r);
    ds_put_text(&e->rest, f.peer);
    ds_put_text(&e->rest, c->name);
    if (e->rest.failed) {
        resp_reply_free(&e->rest);
        free(e);
        return;
    }
    (void)pthread_mutex_lock(&n->lock);
    e->id = n->slow_id++;
    snic_link_append(n->slow.next, &e->link);
    n->slow_count++;
    slow_cut(n, (uint64_t)n->config->settings.slow_max);
    (void)pthread_mutex_unlock(&n->lock);
}

void ds_slow_init(struct ds_node *n)
{
    snic_link_init(&n->slow);
}

void ds_slow_free(struct ds_node *n)
{
    slow_cut(n, 0);
}

/* How many of the newest @p most fit in a reply. */
static int64_t slow_fits(const struct ds_node *n, int64_t most)
{
    const struct snic_link *l = n->slow.next;
    int64_t count = 0;

    for (size_t bytes = 0; count < most && bytes < SLOW_REPLY_BYTES; l = l->next, count++)
        bytes += SNIC_CONTAINER(l, const struct slow_entry, link)->rest.size;
    return count;
}

/* SLOWLOG GET [count] */
static void slow_get(struct ds_call *k)
{
    struct ds_node *n = k->shard->node;
    const struct snic_link *l = n->slow.next;
    int64_t count = 10;

    if (k->argc == 3 &&
        (resp_number(k->argv[2].data, k->argv[2].size, &count) != 0 || count < -1)) {
        ds_error(k->reply, "ERR count should be greater than or equal to -1");
        return;
    }
    if (count == -1 || (uint64_t)count > n->slow_count)
        count = (int64_t)n->slow_count;
    count = slow_fits(n, count);
    resp_put_count(k->reply, '*', count);
    for (; count > 0; count--, l = l->next) {
        const struct slow_entry *e = SNIC_CONTAINER(l, struct slow_entry, link);

        resp_put_count(k->reply, '*', 6);
        resp_put_count(k->reply, ':', e->id);
        resp_put_count(k->reply, ':', e->unix_s);
        resp_put_count(k->reply, ':', e->took_us);
        resp_put(k->reply, e->rest.data, e->rest.size);
    }
}

/* SLOWLOG GET | LEN | RESET */
void ds_cmd_slowlog(struct ds_call *k)
{
    struct ds_node *n = k->shard->node;
    const struct resp_arg *a = &k->argv[1];

    (void)pthread_mutex_lock(&n->lock);
    if (resp_arg_is(a, "get") && k->argc <= 3) {
        slow_get(k);
    } else if (resp_arg_is(a, "len") && k->argc == 2) {
        resp_put_count(k->reply, ':', (int64_t)n->slow_count);
    } else if (resp_arg_is(a, "reset") && k->argc == 2) {
        slow_cut(n, 0);
        resp_put_text(k->reply, "+OK\r\n");
    } else {
        ds_put_unknown_sub(k);
    }
    (void)pthread_mutex_unlock(&n->lock);
}
