/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * Commands on their way from a client to the shards of their keys, and their replies back.
 *   N4 a client whose commands under way, and their expected replies, take CLIENT_WINDOW is not
 *      read from until they are answered; nor is any with SHARD_WINDOW of all. A long
 *      command is not even begun with so much under way: its time-out (N5) counts from there.
 */
#include "node.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#define CLIENT_WINDOW ((uint64_t)1 << 20)
#define SHARD_WINDOW ((uint64_t)128 << 20)
#define SHARD_MOST (4 * SHARD_WINDOW)   /* of all: more is refused */
#define SHARD_LONG ((uint64_t)64 << 10) /* bytes of a command that waits at SHARD_WINDOW */
#define CLIENT_REPLY_KEEP (1u << 20)

struct ds_client *ds_client_find(struct ds_shard *s, uint64_t id)
{
    struct ds_client *c = &s->clients[id & 0xffff];

    return c->id == id ? c : NULL;
}

/* ---- Answers ---- */

void ds_client_send(struct ds_shard *s, uint64_t client, uint64_t seq,
                    const struct resp_reply *reply, int silent, uint32_t flags)
{
    static const char lost[] = "-UNKNOWN outcome unknown: out of memory for the reply\r\n";
    struct snic_iov iov[3];
    uint32_t count = resp_reply_pieces(reply, iov);

    if (reply->failed) {
        iov[0] = (struct snic_iov){(void *)(uintptr_t)lost, sizeof(lost) - 1};
        count = 1;
    }
    ds_turn_spend(s, reply->failed ? iov[0].size : resp_reply_bytes(reply));
    if (s->front != NULL) /* the node has not ended */
        ex_front_reply(s->front, client, seq, iov, silent ? 0 : count, flags);
}

void ds_reply_begin(struct resp_reply *r, const struct ds_client *c)
{
    if (r->room > CLIENT_REPLY_KEEP)
        resp_reply_free(r);
    resp_reply_clear(r);
    r->borrows = 0;
    r->failed = 0;
    r->resp3 = c->resp3;
}

/* A reply took @p size: others may, too. */
static void dispatch_expect(struct ds_client *c, uint64_t size)
{
    c->reply_bytes = size > c->reply_bytes ? size : (15 * c->reply_bytes + size) / 16;
}

void ds_client_reply(struct ds_call *k, uint64_t seq)
{
    dispatch_expect(k->client, resp_reply_bytes(k->reply));
    ds_client_send(k->shard, k->client->id, seq, k->reply, (k->flags & DS_CALL_SILENT) != 0, 0);
}

/* A part of a command of several keys has ended. @return 1: it was the last */
static int dispatch_part(struct ds_request *p)
{
    if (p->reply.size > 0 && p->reply.data[0] == '-' && p->error == 0)
        p->error = 1;
    p->parent->parts[p->index] = p; /* it may be a copy (N5) */
    return --p->parent->parts_left == 0;
}

/* Is the reply that the outcome is unknown? */
static int dispatch_unknown(const struct resp_reply *r)
{
    static const char word[] = "-UNKNOWN ";

    return r->size >= sizeof(word) - 1 && memcmp(r->data, word, sizeof(word) - 1) == 0;
}

/*
 * The reply of a command of which the part @p first has failed. Other errors than UNKNOWN mean that
 * nothing was written, which is wrong of a DEL if another of its keys was deleted, or may be.
 */
static void dispatch_failed(struct ds_request *r, const struct ds_request *first, int64_t deleted)
{
    int unknown = 0;

    for (uint32_t i = 0; i < r->parts_count; i++) {
        r->reply.failed |= r->parts[i]->reply.failed;
        unknown |= r->parts[i]->error && dispatch_unknown(&r->parts[i]->reply);
    }
    r->reply.size = 0;
    if ((r->command->rules & DS_SUM) == 0 || (r->command->rules & DS_WRITES) == 0 ||
        (deleted == 0 && !unknown) || first->reply.size < 3)
        resp_put(&r->reply, first->reply.data, first->reply.size);
    else
        ds_error(
            &r->reply,
            "UNKNOWN outcome unknown: %lld of %u keys were deleted; the error of another: %.*s",
            (long long)deleted, r->parts_count, (int)(first->reply.size - 3),
            first->reply.data + 1);
}

/* The reply of a command of several parts: the first error, or what its rules are. */
static void dispatch_combine(struct ds_request *r)
{
    const struct ds_request *first = NULL;
    uint32_t rules = r->command->rules;
    int64_t sum = 0;

    for (uint32_t i = 0; i < r->parts_count; i++) {
        const struct ds_request *p = r->parts[i];

        if (p->error || p->reply.failed)
            first = first != NULL ? first : p;
        else
            sum += p->number;
    }
    if (first != NULL) {
        dispatch_failed(r, first, sum);
        return;
    }
    if (r->command->join != NULL) {
        r->command->join(r);
        return;
    }
    if ((rules & DS_SUM) != 0) {
        resp_put_count(&r->reply, ':', sum);
        return;
    }
    resp_put_count(&r->reply, '*', (rules & DS_FLAT) != 0 ? sum : r->parts_count);
    r->by_parts = 1;
}

/* Bytes of the reply. */
static uint64_t dispatch_size(const struct ds_request *r)
{
    uint64_t size = r->reply.size;

    for (uint32_t i = 0; r->by_parts && i < r->parts_count; i++)
        size += r->parts[i]->reply.size;
    return size;
}

/* One piece of a reply. The rest of its memory is not kept with it. */
static struct snic_iov dispatch_piece(struct ds_shard *s, struct resp_reply *r)
{
    char *p = r->size >= EX_FRONT_MOVED ? realloc(r->data, r->size) : NULL;

    if (p != NULL) {
        r->data = p;
        r->room = r->size;
    }
    ds_turn_spend(s, r->size < EX_FRONT_MOVED ? r->size : 0);
    return (struct snic_iov){r->data, r->size};
}

/* Send the reply. What is long, its parts too, is not copied: all of it is sent at once (N6). */
static void dispatch_send(struct ds_shard *s, struct ds_request *r)
{
    uint32_t count = r->by_parts ? r->parts_count + 1 : 1;
    struct snic_iov one;
    struct snic_iov *iov = r->by_parts ? calloc(count, sizeof(*iov)) : &one;

    r->reply.failed |= iov == NULL;
    if (r->reply.failed || s->front == NULL) {
        ds_client_send(s, r->client, r->seq, &r->reply, r->silent, r->flags);
    } else {
        iov[0] = dispatch_piece(s, &r->reply);
        for (uint32_t i = 1; i < count; i++)
            iov[i] = dispatch_piece(s, &r->parts[i - 1]->reply);
        ex_front_move(s->front, r->client, r->seq, iov, r->silent ? 0 : count, r->flags);
        r->reply.data = iov[0].base;
        for (uint32_t i = 1; i < count; i++)
            r->parts[i - 1]->reply.data = iov[i].base;
    }
    if (iov != &one)
        free(iov);
}

static void dispatch_answer(struct ds_request *r)
{
    struct ds_shard *s = r->home;
    struct ds_client *c;

    if (r->parent != NULL) {
        if (!dispatch_part(r))
            return;
        r = r->parent;
        dispatch_combine(r);
    }
    c = ds_client_find(s, r->client);
    if (c != NULL) {
        c->under_way--;
        c->bytes -= r->window;
        dispatch_expect(c, dispatch_size(r));
        ds_slow_note(s, c, r);
        c->closing |= (r->flags & EX_FRONT_CLOSE) != 0;
    }
    s->bytes -= r->window;
    if (s->front != NULL && s->bytes < SHARD_WINDOW)
        ex_front_resume(s->front);
    dispatch_send(s, r);
    ds_request_free(r);
}

/* ---- Commands ---- */

int ds_client_full(const struct ds_shard *s, const struct ds_client *c)
{
    return c->under_way > 0 && (c->bytes >= CLIENT_WINDOW || s->bytes >= SHARD_WINDOW);
}

int ds_client_late(const struct ds_shard *s, uint64_t size)
{
    return size >= SHARD_LONG && s->bytes >= SHARD_WINDOW;
}

static int dispatch_silent(const struct ds_call *k)
{
    return k->client->silent || k->client->skip || (k->flags & DS_CALL_SILENT) != 0;
}

/* One request for each key, or for each shard. 0; SNIC_ENOMEM */
static int dispatch_parts(struct ds_shard *s, struct ds_request *r)
{
    int all = r->command->kind == DS_ALL;
    uint32_t count = all ? s->node->count : r->argc - 1;

    r->parts = calloc(count, sizeof(struct ds_request *));
    if (r->parts == NULL)
        return SNIC_ENOMEM;
    for (uint32_t i = 0; i < count; i++) {
        struct resp_arg argv[2] = {r->argv[0], r->argv[all ? 0 : i + 1]};
        struct ds_request *p = all ? ds_request_new(r->argv, r->argc) : ds_request_new(argv, 2);

        if (p == NULL)
            return SNIC_ENOMEM;
        p->home = s;
        p->answer = dispatch_answer;
        p->client = r->client;
        p->command = r->command;
        p->how = r->how;
        p->scope = r->scope;
        p->scope_shards = r->scope_shards;
        p->parent = r;
        p->index = i;
        p->reply.resp3 = r->reply.resp3;
        if (all)
            p->shard = &s->node->shards[i];
        else
            ds_request_key(s->node, p, &p->argv[1]);
        r->parts[r->parts_count++] = p;
    }
    r->parts_left = r->parts_count;
    return 0;
}

static void dispatch_start(struct ds_shard *s, struct ds_request *r)
{
    struct ds_client *c = ds_client_find(s, r->client);

    if (c != NULL && r->command->visit == NULL && (r->command->rules & DS_WRITES) != 0 &&
        r->how.durability == SNIC_DDP_DURABILITY_SCOPE)
        c->scope_shards |= UINT64_C(1) << r->shard->index;
    if (r->shard == s)
        ds_turn_take(s, r);
    else
        ds_mail_send(s, r->shard, r);
}

/* The request of a command. @return NULL: out of memory */
static struct ds_request *dispatch_request(const struct ds_call *k, uint64_t seq)
{
    struct ds_shard *s = k->shard;
    const struct ds_client *c = k->client;
    struct ds_request *r = ds_request_new(k->argv, k->argc);

    if (r == NULL)
        return NULL;
    r->home = s;
    r->answer = dispatch_answer;
    r->arrived_ns = snic_loop_now(s->loop);
    r->client = c->id;
    r->seq = seq;
    r->command = k->command;
    r->how = k->how;
    r->scope = c->scope;
    r->scope_shards = c->scope_shards;
    r->reply.resp3 = c->resp3;
    r->silent = dispatch_silent(k);
    r->window = sizeof(*r) + r->size + c->reply_bytes;
    if (k->command->kind == DS_EACH)
        r->window += (k->argc - 1) * sizeof(*r) + r->size;
    if ((k->command->kind == DS_EACH || k->command->kind == DS_ALL) && dispatch_parts(s, r) != 0) {
        ds_request_free(r);
        return NULL;
    }
    return r;
}

/* On the loop of the scope's shard. */
static void dispatch_scope_left(struct ds_request *r)
{
    ds_scope_left(r->shard, r->home->index, r->client, r->scope, r->number != 0);
    ds_request_free(r);
}

void ds_client_leave_scope(struct ds_shard *s, struct ds_client *c)
{
    for (uint32_t i = 0; c->scope_shards != 0 && i < s->node->count; i++) {
        struct ds_request *r;

        if ((c->scope_shards >> i & 1) == 0 || (r = ds_request_new(NULL, 0)) == NULL)
            continue;
        r->home = s;
        r->shard = &s->node->shards[i];
        r->client = c->id;
        r->scope = c->scope;
        r->number = c->under_way > 0;
        r->arrive = dispatch_scope_left;
        ds_mail_send(s, r->shard, r); /* behind the client's commands */
    }
    c->scope++;
    c->scope_shards = 0;
}

int ds_client_begin(struct ds_call *k, uint64_t seq)
{
    struct ds_shard *s = k->shard;
    struct ds_client *c = k->client;
    uint64_t id = c->id;
    int shard = k->command->kind == DS_SHARD ? k->command->route(k) : 0;
    struct ds_request *r = NULL;

    if (shard >= 0 && s->bytes >= SHARD_MOST) {
        ds_error(k->reply, "OOM the commands under way take too much memory: nothing was done");
        shard = -1;
    }
    if (shard >= 0)
        r = dispatch_request(k, seq);
    if (r == NULL) {
        if (shard >= 0)
            resp_put_text(k->reply, "-OOM out of memory\r\n");
        ds_client_send(s, id, seq, k->reply, dispatch_silent(k), 0);
        return 0;
    }
    if (resp_arg_is(&k->argv[0], "scope")) {
        c->scope++;
        c->scope_shards = 0;
    }
    c->under_way++;
    c->bytes += r->window;
    s->bytes += r->window;
    if (r->parts_count > 0) {
        uint32_t count = r->parts_count; /* the last answer frees r */
        struct ds_request **parts = r->parts;

        for (uint32_t i = 0; i < count; i++) {
            struct ds_request *p = parts[i];

            dispatch_start(s, p);
        }
    } else {
        if (k->command->kind == DS_SHARD)
            r->shard = &s->node->shards[shard];
        else
            ds_request_key(s->node, r, &r->argv[k->command->key]);
        dispatch_start(s, r);
    }
    c = ds_client_find(s, id);
    return c != NULL && ds_client_full(s, c);
}
