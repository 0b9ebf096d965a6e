/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * Runs a command on its key, on the loop of the key's shard.
 *
 * A command is a function of the value: it gets what the key holds and returns what to write. The
 * write is a compare-and-swap against what was seen; where another node's write came between, the
 * command is run again on the newer value. A command that does not look at the value (SET) writes
 * at once.
 *   N3 a read or compare-and-swap under way, and a write that waits for room, holds its key: later
 *      requests on it wait in `waiting`, in their order. Plain writes under way hold nothing: they
 *      are ordered by the store, in the order of their submission.
 *
 * A value in the store begins with its key, which is compared at each access: the store knows keys
 * by a hash of 128 bits.
 */
#include "node.h"

#include <stdlib.h>
#include <string.h>

#define REQUEST_RETRY_NS 1000000u        /* between two tries of what found no room */
#define REQUEST_PATIENCE_NS 10000000000u /* then it is refused */
#define REQUEST_HEAD 2u                  /* bytes of the key's size */

/* ---- Making ---- */

struct ds_request *ds_request_new(const struct resp_arg *argv, uint32_t argc)
{
    size_t bytes = 0;
    struct ds_request *r;
    unsigned char *at;

    for (uint32_t i = 0; i < argc; i++)
        bytes += argv[i].size;
    r = malloc(sizeof(*r) + argc * sizeof(*argv) + bytes);
    if (r == NULL)
        return NULL;
    memset(r, 0, sizeof(*r));
    r->argv = (struct resp_arg *)(r + 1);
    r->argc = argc;
    r->size = (uint32_t)bytes;
    at = (unsigned char *)(r->argv + argc);
    for (uint32_t i = 0; i < argc; i++) {
        r->argv[i].data = at;
        r->argv[i].size = argv[i].size;
        if (argv[i].size > 0)
            memcpy(at, argv[i].data, argv[i].size);
        at += argv[i].size;
    }
    r->arrive = ds_request_run;
    snic_link_init(&r->link);
    snic_link_init(&r->retry);
    return r;
}

void ds_request_free(struct ds_request *r)
{
    for (uint32_t i = 0; i < r->parts_count; i++)
        ds_request_free(r->parts[i]);
    free(r->parts);
    free(r->out);
    free(r->reply.data);
    free(r);
}

void ds_request_key(struct ds_node *n, struct ds_request *r, const struct resp_arg *key)
{
    r->key = *key;
    for (uint32_t i = 0; i < 2; i++)
        r->hash.w[i] = snic_siphash(n->hash_key[i], key->data, key->size);
    r->shard = &n->shards[(r->hash.w[1] >> 32) % n->count];
}

int ds_request_out(struct ds_request *r, const void *data, size_t size)
{
    uint32_t head = REQUEST_HEAD + r->key.size;

    if (size > r->shard->node->config->value_max) {
        ds_error(&r->reply, "ERR the value would be longer than %llu bytes (--value-max)",
                 (unsigned long long)r->shard->node->config->value_max);
        return -1;
    }
    if (head + size > r->out_room || r->out == NULL) {
        unsigned char *p = realloc(r->out, head + size);

        if (p == NULL) {
            ds_error(&r->reply, "OOM out of memory");
            return -1;
        }
        r->out = p;
        r->out_room = head + (uint32_t)size;
    }
    r->out[0] = (unsigned char)r->key.size;
    r->out[1] = (unsigned char)(r->key.size >> 8);
    memcpy(r->out + REQUEST_HEAD, r->key.data, r->key.size);
    if (size > 0)
        memcpy(r->out + head, data, size);
    r->out_size = head + (uint32_t)size;
    return 0;
}

/* ---- Keys that are held (N3) ---- */

static struct snic_link *request_list(struct ds_shard *s, const struct snic_ddp_key *hash)
{
    return &s->held[hash->w[0] % DS_HELD_LISTS];
}

static struct ds_request *request_holder(struct ds_shard *s, const struct snic_ddp_key *hash)
{
    struct snic_link *list = request_list(s, hash);

    for (struct snic_link *l = list->next; l != list; l = l->next) {
        struct ds_request *r = SNIC_CONTAINER(l, struct ds_request, link);

        if (r->hash.w[0] == hash->w[0] && r->hash.w[1] == hash->w[1])
            return r;
    }
    return NULL;
}

static void request_hold(struct ds_request *r)
{
    if (r->holds)
        return;
    r->holds = 1;
    snic_link_append(request_list(r->shard, &r->hash), &r->link);
}

static void request_wait(struct ds_request *holder, struct ds_request *r)
{
    r->next = NULL;
    if (holder->waiting == NULL)
        holder->waiting = r;
    else
        holder->waiting_last->next = r;
    holder->waiting_last = r;
}

static void request_begin(struct ds_request *r);

/* Run those that waited, up to one that holds the key. */
static void request_release(struct ds_shard *s, struct snic_ddp_key hash,
                            struct ds_request *waiting)
{
    while (waiting != NULL) {
        struct ds_request *holder = request_holder(s, &hash);
        struct ds_request *r = waiting;

        waiting = r->next;
        if (holder != NULL)
            request_wait(holder, r);
        else
            request_begin(r); /* it may be freed */
    }
}

/* The reply is put: send it home. */
static void request_end(struct ds_request *r)
{
    struct ds_shard *s = r->shard;
    struct ds_request *waiting = r->waiting;
    struct snic_ddp_key hash = r->hash;

    if (r->holds)
        snic_link_remove(&r->link);
    r->waiting = NULL;
    r->arrive = r->answer;
    if (r->home == s)
        r->answer(r);
    else
        ds_mail_send(s, r->home, r);
    request_release(s, hash, waiting);
}

static void request_fail(struct ds_request *r, int error)
{
    r->reply.size = 0;
    ds_put_failure(r, error);
    request_end(r);
}

/* ---- Retries ---- */

void ds_request_retry_all(struct ds_shard *s)
{
    if (!s->retry_armed && !snic_link_alone(&s->retry)) {
        s->retry_armed = 1;
        snic_loop_arm(s->loop, &s->retry_timer, snic_loop_now(s->loop) + REQUEST_RETRY_NS);
    }
}

static void request_submit(struct ds_request *r);

void ds_request_retry(struct snic_timer *t, uint64_t now_ns)
{
    struct ds_shard *s = SNIC_CONTAINER(t, struct ds_shard, retry_timer);
    struct snic_link list;

    s->retry_armed = 0;
    snic_link_init(&list);
    while (!snic_link_alone(&s->retry)) {
        struct snic_link *l = s->retry.next;

        snic_link_remove(l);
        snic_link_append(&list, l);
    }
    while (!snic_link_alone(&list)) {
        struct ds_request *r = SNIC_CONTAINER(list.next, struct ds_request, retry);

        snic_link_remove(&r->retry);
        if (now_ns - r->waits_since_ns > REQUEST_PATIENCE_NS)
            request_fail(r, SNIC_EAGAIN);
        else
            request_submit(r);
    }
    ds_request_retry_all(s);
}

/* ---- Running ---- */

/* What an operation or entry found. 0; SNIC_ECORRUPT it is another key's. */
static int request_value(const struct ds_request *r, const void *data, uint32_t size, uint64_t ts,
                         struct ds_value *v)
{
    const unsigned char *p = data;
    uint32_t head = REQUEST_HEAD + r->key.size;

    memset(v, 0, sizeof(*v));
    if (data == NULL)
        return 0;
    if (size < head || (p[0] | (uint32_t)p[1] << 8) != r->key.size ||
        memcmp(p + REQUEST_HEAD, r->key.data, r->key.size) != 0)
        return SNIC_ECORRUPT;
    v->present = 1;
    v->data = p + head;
    v->size = size - head;
    v->version = ts;
    return 0;
}

/* Submit r->op, which is filled in. */
static void request_submit(struct ds_request *r)
{
    struct ds_shard *s = r->shard;
    int rc = snic_replica_submit(s->replica, &r->op);

    if (rc == 0) {
        r->waits_since_ns = 0;
        return;
    }
    if (rc != SNIC_EAGAIN) {
        request_fail(r, rc);
        return;
    }
    if (r->waits_since_ns == 0)
        r->waits_since_ns = snic_loop_now(s->loop);
    request_hold(r);
    snic_link_append(&s->retry, &r->retry);
    ds_request_retry_all(s);
}

/* The command sees the value. */
static void request_step(struct ds_request *r, const void *data, uint32_t size, uint64_t ts)
{
    struct ds_value v;
    enum ds_verdict verdict;

    if (request_value(r, data, size, ts, &v) != 0) {
        request_fail(r, SNIC_ECORRUPT);
        return;
    }
    r->reply.size = 0;
    r->number = 0;
    verdict = r->command->step(r, &v);
    if (verdict == DS_REPLY) {
        request_end(r);
        return;
    }
    request_hold(r);
    r->op.kind = SNIC_REPLICA_CAS;
    r->op.ts = v.version;
    r->op.data = verdict == DS_DELETE ? NULL : r->out;
    r->op.size = verdict == DS_DELETE ? 0 : r->out_size;
    request_submit(r);
}

static void request_done(struct snic_replica_op *op)
{
    struct ds_request *r = SNIC_CONTAINER(op, struct ds_request, op);

    if (op->kind == SNIC_REPLICA_GET && (op->result == 0 || op->result == SNIC_ENOENT))
        request_step(r, op->result == 0 ? op->data : NULL, op->size, op->ts);
    else if (op->kind == SNIC_REPLICA_CAS && op->result == SNIC_ECANCELED)
        request_step(r, op->data, op->size, op->data != NULL ? op->ts : 0);
    else if (op->result != 0)
        request_fail(r, op->result);
    else
        request_end(r);
}

static void request_read(struct ds_request *r)
{
    struct snic_replica_entry e;
    int rc = snic_replica_look(r->shard->replica, &r->hash, &e);

    if (rc == 0 || rc == SNIC_ENOENT) {
        request_step(r, rc == 0 ? e.data : NULL, e.size, e.ts);
    } else if (rc == SNIC_EAGAIN) {
        request_hold(r);
        r->op.kind = SNIC_REPLICA_GET;
        request_submit(r);
    } else {
        request_fail(r, rc);
    }
}

static void request_begin(struct ds_request *r)
{
    r->op.done = request_done;
    r->op.key = r->hash;
    if (r->command->parse != NULL && r->command->parse(r) != 0) {
        request_end(r);
        return;
    }
    if (!r->blind) {
        request_read(r);
        return;
    }
    r->op.kind = SNIC_REPLICA_PUT;
    r->op.data = r->out;
    r->op.size = r->out_size;
    request_submit(r);
}

void ds_request_run(struct ds_request *r)
{
    struct ds_request *holder = request_holder(r->shard, &r->hash);

    r->shard->commands++;
    if (holder != NULL)
        request_wait(holder, r);
    else
        request_begin(r);
}
