/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * Runs a command on its key, on the loop of the key's shard.
 *
 * A command is a function of the value: it gets what the key holds and returns what to write. One
 * that writes is a read-modify-write of the store, which calls it again where another write came
 * first. A command that does not look at the value (SET) writes at once, and one that only reads
 * gets the value at once where the key is not being written.
 *   N3 a read or read-modify-write under way, and a write that waits for room, holds its key: later
 *      requests on it wait in `waiting`, in their order. Plain writes under way hold nothing: they
 *      are ordered by the store, in the order of their submission.
 *   N5 a request that is not answered within --request-timeout is answered by a copy of it, and
 *      stays, as a ghost, until the store gives its operation back.
 */
#include "node.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#define REQUEST_RETRY_NS 1000000u               /* between two tries of what found no room */
#define REQUEST_LATE_MAX 16u                    /* then a value is made all the same */
#define REQUEST_VALUES_MAX ((uint64_t)32 << 20) /* of all keys of a command */

/* ---- Making ---- */

static void request_run(struct ds_request *r);

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
    r->arrive = request_run;
    snic_link_init(&r->link);
    snic_link_init(&r->retry);
    snic_link_init(&r->timed);
    return r;
}

void ds_request_free(struct ds_request *r)
{
    for (uint32_t i = 0; i < r->parts_count; i++)
        ds_request_free(r->parts[i]);
    free(r->parts);
    free(r->reply.data);
    free(r);
}

struct ds_shard *ds_key_shard(struct ds_node *n, const struct resp_arg *key, uint64_t *hash)
{
    *hash = snic_siphash(n->hash_key, key->data, key->size);
    return &n->shards[(*hash >> 32) % n->count];
}

void ds_request_key(struct ds_node *n, struct ds_request *r, const struct resp_arg *key)
{
    r->key = *key;
    r->shard = ds_key_shard(n, key, &r->hash);
}

/* ---- Keys that are held (N3) ---- */

static struct snic_link *request_list(struct ds_shard *s, uint64_t hash)
{
    return &s->held[hash % DS_HELD_LISTS];
}

/* Keys of one hash wait for each other, too. */
static struct ds_request *request_holder(struct ds_shard *s, uint64_t hash)
{
    struct snic_link *list = request_list(s, hash);

    for (struct snic_link *l = list->next; l != list; l = l->next) {
        struct ds_request *r = SNIC_CONTAINER(l, struct ds_request, link);

        if (r->hash == hash)
            return r;
    }
    return NULL;
}

int ds_request_held(struct ds_shard *s, const struct resp_arg *key)
{
    uint64_t hash;

    if (s->holding == 0)
        return 0;
    (void)ds_key_shard(s->node, key, &hash);
    return request_holder(s, hash) != NULL;
}

static void request_hold(struct ds_request *r)
{
    if (r->holds)
        return;
    r->holds = 1;
    r->shard->holding++;
    snic_link_append(request_list(r->shard, r->hash), &r->link);
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

/* It has waited for its key: run it, or wait for the next holder. */
static void request_resume(struct ds_request *r)
{
    struct ds_request *holder = request_holder(r->shard, r->hash);

    if (r->ghost)
        ds_request_free(r);
    else if (holder != NULL)
        request_wait(holder, r);
    else
        request_begin(r); /* it may be freed */
}

/* Run those that waited, up to one that holds the key; as many as this iteration has room for. */
static void request_release(struct ds_shard *s, struct ds_request *waiting, struct ds_request *last)
{
    while (waiting != NULL && ds_turn_room(s)) {
        struct ds_request *r = waiting;

        waiting = r->next;
        request_resume(r);
    }
    for (struct ds_request *r = waiting; r != NULL; r = r->next)
        r->arrive = request_resume;
    if (waiting != NULL)
        ds_turn_first(s, waiting, last);
}

static void request_count(const struct ds_request *r)
{
    r->shard->errors += r->reply.size > 0 && r->reply.data[0] == '-';
}

void ds_request_end(struct ds_request *r)
{
    struct ds_shard *s = r->shard;
    struct ds_request *waiting = r->waiting;
    struct ds_request *last = r->waiting_last;

    ds_turn_spend(s, r->reply.size);
    if (r->holds) {
        s->holding--;
        snic_link_remove(&r->link);
    }
    r->waiting = NULL;
    snic_link_remove(&r->timed);
    if (r->ghost) {
        ds_request_free(r);
        request_release(s, waiting, last);
        return;
    }
    request_count(r);
    r->arrive = r->answer;
    if (r->home == s)
        r->answer(r);
    else
        ds_mail_send(s, r->home, r);
    request_release(s, waiting, last);
}

static void request_fail(struct ds_request *r, int error)
{
    r->reply.size = 0;
    ds_put_failure(r, error);
    ds_request_end(r);
}

/* ---- Retries ---- */

/* Arm the timer below if something waits for room. */
static void request_retry_soon(struct ds_shard *s)
{
    if (!s->retry_armed && !snic_link_alone(&s->retry)) {
        s->retry_armed = 1;
        snic_loop_arm(s->loop, &s->retry_timer, snic_loop_now(s->loop) + REQUEST_RETRY_NS);
    }
}

void ds_request_retry(struct snic_timer *t, uint64_t now_ns)
{
    (void)now_ns;
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
        if (!ds_turn_room(s)) /* N6 */
            snic_link_append(&s->retry, &r->retry);
        else if (r->ghost && r->command->visit == NULL)
            ds_request_end(r);
        else
            ds_request_submit(r); /* a SYNC that is too late, too: its scope has to end */
    }
    request_retry_soon(s);
}

/* ---- Time-outs (N5) ---- */

/* The copy that is answered instead of @p r. @return NULL: out of memory */
static struct ds_request *request_copy(struct ds_request *r)
{
    struct ds_request *c = ds_request_new(r->argv, 1);

    if (c == NULL)
        return NULL;
    c->home = r->home;
    c->shard = r->shard;
    c->answer = c->arrive = r->answer;
    c->client = r->client;
    c->seq = r->seq;
    c->command = r->command;
    c->window = r->window;
    c->arrived_ns = r->arrived_ns;
    c->reply.resp3 = r->reply.resp3;
    c->silent = r->silent;
    c->parent = r->parent;
    c->index = r->index;
    return c;
}

/* Too late: a copy is answered with what is known. */
static void request_expire(struct ds_request *r)
{
    struct ds_shard *s = r->shard;
    struct ds_request *c = request_copy(r);
    /* A scan; SCOPE SYNC that found no room all the time: its client has begun another scope. */
    int open = r->submitted || r->command->visit != NULL;
    int writes = open && (r->command->rules & DS_WRITES) != 0;

    if (c == NULL)
        return; /* it is answered when the store answers */
    if (writes)
        ds_error(&c->reply, "UNKNOWN outcome unknown: the write was not acknowledged in time "
                            "(--request-timeout); it may take effect, now or later, or not");
    else if (open && snic_replica_serves(snic_store_replica(s->store)))
        ds_error(&c->reply, "TRYAGAIN the read was not answered in time (--request-timeout)");
    else
        ds_put_failure(c, open ? SNIC_ESTALE : SNIC_EAGAIN);
    r->ghost = 1;
    s->errors++;
    if (c->home == s)
        c->answer(c);
    else
        ds_mail_send(s, c->home, c);
}

/* The shard's publication: what is too late. */
void ds_request_expire(struct ds_shard *s, uint64_t now_ns)
{
    uint64_t most = s->node->config->timeout_s * 1000000000u;

    while (!snic_link_alone(&s->timed)) {
        struct ds_request *r = SNIC_CONTAINER(s->timed.next, struct ds_request, timed);

        if (now_ns - r->begun_ns < most)
            break;
        snic_link_remove(&r->timed);
        request_expire(r);
    }
}

/* ---- Running ---- */

void ds_request_submit(struct ds_request *r)
{
    struct ds_shard *s = r->shard;
    int rc = snic_store_submit(s->store, &r->op);

    r->submitted = rc == 0;
    if (rc == 0) {
        ds_turn_spend(s, r->op.kind == SNIC_STORE_PUT ? r->op.size : 0);
        return;
    }
    if (rc != SNIC_EAGAIN) {
        request_fail(r, rc);
        return;
    }
    if (r->command->visit == NULL)
        request_hold(r);
    snic_link_append(&s->retry, &r->retry);
    request_retry_soon(s);
}

/* Is the new value too long? Then the error is put. */
static int request_too_long(struct ds_request *r, uint64_t size)
{
    uint64_t most = r->shard->node->config->value_max;

    if (size <= most)
        return 0;
    r->reply.size = 0;
    ds_error(&r->reply, "ERR value is longer than %llu bytes (--value-max)",
             (unsigned long long)most);
    return 1;
}

/* The command gets the value and returns a new one; again, where another write came first. */
static int request_modify(void *ctx, struct snic_store_change *c)
{
    struct ds_request *r = ctx;
    struct ds_value v = {.present = c->present != 0,
                         .data = c->old,
                         .size = c->old_size,
                         .version = c->version,
                         .ttl_ns = c->ttl_ns,
                         .room = c->out};
    enum ds_verdict verdict;

    if (r->late < REQUEST_LATE_MAX && !ds_turn_room(r->shard)) {
        r->late++;
        return SNIC_EAGAIN; /* N6: request_done() */
    }
    r->late = 0;
    r->reply.size = 0;
    r->number = 0;
    verdict = r->command->step(r, &v);
    ds_turn_spend(r->shard, c->old_size + v.put_size);
    if (verdict == DS_DELETE)
        return SNIC_STORE_CHANGE_DELETE;
    if (verdict == DS_REPLY || request_too_long(r, v.put_size))
        return SNIC_STORE_CHANGE_NONE;
    c->data = v.put != v.room ? v.put : NULL;
    c->out_size = v.put_size;
    c->keep_ttl = (uint32_t)v.keep_ttl;
    c->ttl_ns = v.put_ttl_ns;
    return SNIC_STORE_CHANGE_PUT;
}

/* Are the values of all the command's keys too much for one reply? Then the error is put. */
static int request_too_much(struct ds_request *r, uint32_t size)
{
    if (r->parent == NULL || r->ghost || (r->command->rules & DS_SUM) != 0)
        return 0;
    if (atomic_fetch_add(&r->parent->values, size) + size <= REQUEST_VALUES_MAX)
        return 0;
    ds_error(&r->reply,
             "ERR the values of the command's keys are more than %u MiB: use several "
             "commands",
             (uint32_t)(REQUEST_VALUES_MAX >> 20));
    return 1;
}

/* The command gets the value, which it only reads. */
static void request_show(struct ds_request *r, const void *data, uint32_t size, uint64_t version,
                         uint64_t ttl_ns)
{
    struct ds_value v = {
        .present = data != NULL, .data = data, .size = size, .version = version, .ttl_ns = ttl_ns};

    resp_reply_clear(&r->reply);
    if (!request_too_much(r, size))
        (void)r->command->step(r, &v);
}

static void request_step(struct ds_request *r, const void *data, uint32_t size, uint64_t version,
                         uint64_t ttl_ns)
{
    request_show(r, data, size, version, ttl_ns);
    ds_request_end(r);
}

/* The store has answered. */
static void request_answered(struct ds_request *r)
{
    struct snic_store_op *op = &r->op;

    if (r->native) {
        r->reply.size = 0;
        r->command->finish(r);
        ds_request_end(r);
    } else if (op->kind == SNIC_STORE_GET && (op->result == 0 || op->result == SNIC_ENOENT))
        request_step(r, op->result == 0 ? op->data : NULL, op->size, op->version, op->ttl_ns);
    else if (op->result != 0)
        request_fail(r, op->result);
    else
        ds_request_end(r);
}

/* The same in a later iteration; the value is held. */
static void request_answered_late(struct ds_request *r)
{
    struct snic_store *store = r->shard->store;
    uint64_t value = r->op.value;

    request_answered(r); /* it may be freed */
    if (value != 0)
        snic_store_drop(store, value);
}

static void request_done(struct snic_store_op *op)
{
    struct ds_request *r = SNIC_CONTAINER(op, struct ds_request, op);
    struct ds_shard *s = r->shard;

    if (op->result == SNIC_EAGAIN && r->late > 0) { /* request_modify() */
        r->submitted = 0;
        snic_link_append(&s->retry, &r->retry);
        request_retry_soon(s);
    } else if ((op->value != 0 || r->reply.size > 0) && !ds_turn_room(s)) { /* N6 */
        if (op->value != 0)
            snic_store_hold(s->store, op->value);
        r->arrive = request_answered_late;
        ds_turn_later(s, r);
    } else {
        request_answered(r);
    }
}

int ds_how_plain(const struct ds_how *how)
{
    return how->reads == SNIC_DDP_DURABILITY_DEFAULT && !how->confirm;
}

void ds_request_show(struct ds_call *k, const struct snic_store_entry *e)
{
    static const struct snic_store_entry none;
    struct ds_request *r = &k->shard->shown;

    e = e != NULL ? e : &none;
    r->shard = k->shard;
    r->command = k->command;
    r->argv = (struct resp_arg *)(uintptr_t)k->argv;
    r->argc = k->argc;
    r->now_ms = e->ttl_ns != 0 ? ds_wall_ms() : 0;
    request_show(r, e->data, e->size, e->version, e->ttl_ns);
    ds_turn_spend(k->shard, r->reply.size);
    request_count(r);
}

static void request_read(struct ds_request *r)
{
    struct snic_store_entry e = {0};
    int rc = ds_how_plain(&r->how) ? snic_store_look(r->shard->store, r->key.data, r->key.size, &e)
                                   : SNIC_EAGAIN;

    if (rc == 0 && e.data != NULL) {
        request_step(r, e.data, e.size, e.version, e.ttl_ns);
    } else if (rc == SNIC_ENOENT) {
        request_step(r, NULL, 0, 0, 0);
    } else if (rc == SNIC_EAGAIN || rc == 0) {
        request_hold(r);
        r->op.kind = SNIC_STORE_GET;
        r->op.durability = r->how.reads;
        r->op.flags = r->how.confirm ? SNIC_STORE_CONFIRM : 0;
        ds_request_submit(r);
    } else {
        request_fail(r, rc);
    }
}

/* What the answer to a write means. 0; -1 the error is put */
static int request_write_how(struct ds_request *r)
{
    r->op.durability = r->how.durability;
    r->op.copies_min = r->how.copies;
    if (r->how.durability != SNIC_DDP_DURABILITY_SCOPE)
        return 0;
    r->op.scope = ds_scope_get(r->shard, r->home->index, r->client, r->scope);
    if (r->op.scope != 0)
        return 0;
    ds_error(&r->reply, "TRYAGAIN the node has no room for another scope; nothing was written");
    return -1;
}

static void request_begin(struct ds_request *r)
{
    r->op.done = request_done;
    r->op.key = r->key.data;
    r->op.key_size = r->key.size;
    r->now_ms = ds_wall_ms();
    if (r->command->parse != NULL && r->command->parse(r) != 0) {
        ds_request_end(r);
        return;
    }
    if (r->native) {
        if (!r->blind)
            request_hold(r);
        ds_request_submit(r);
        return;
    }
    if ((r->command->rules & DS_WRITES) == 0) {
        request_read(r);
        return;
    }
    if (request_write_how(r) != 0) {
        ds_request_end(r);
        return;
    }
    if (!r->blind) {
        request_hold(r);
        r->op.kind = SNIC_STORE_MODIFY;
        r->op.modify = request_modify;
        r->op.ctx = r;
    } else if (request_too_long(r, r->op.size)) {
        ds_request_end(r);
        return;
    }
    ds_request_submit(r);
}

/* On the loop of its shard; when it has ended it travels home. */
static void request_run(struct ds_request *r)
{
    struct ds_request *holder;

    r->begun_ns = snic_loop_now(r->shard->loop);
    snic_link_append(&r->shard->timed, &r->timed);
    if (r->command->visit != NULL) {
        r->command->visit(r);
        return;
    }
    holder = request_holder(r->shard, r->hash);
    if (holder != NULL)
        request_wait(holder, r);
    else
        request_begin(r);
}
