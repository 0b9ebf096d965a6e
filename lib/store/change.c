/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * Read-modify-write: what has a condition, a session, or a function of the old value.
 *
 *   read the key -> decide: answer, or the new record -> compare-and-swap with what was read
 *     ^                                                    |
 *     +---- it holds another version, which it returns ----+--> answer
 *
 * A refused compare-and-swap brings what beat it: the next decision needs no read. Operations of
 * one store on one name follow each other (S2): they would only refuse each other. Where there is
 * no room for a step, the operation pauses and reads again; tries_max bounds both.
 */
#include "store_priv.h"

#define SNIC_STORE__PAUSE_NS UINT64_C(1000000)

static void change_read(struct snic_store_op *op);
static void change_decide(struct snic_store_op *op, const struct snic_replica_op *r, int present);

/* ---- One at a time (S2) ---- */

static struct snic_store_op **change_bucket(struct snic_store *s, const struct snic_ddp_key *hash)
{
    return &s->p.active[(hash->w[0] ^ hash->w[1] >> 7) & s->p.active_mask];
}

static struct snic_store_op *change_active(struct snic_store *s, const struct snic_ddp_key *hash)
{
    struct snic_store_op *op = *change_bucket(s, hash);
    while (op != NULL && (op->hash.w[0] != hash->w[0] || op->hash.w[1] != hash->w[1]))
        op = op->next;
    return op;
}

static void change_enter(struct snic_store_op *op)
{
    struct snic_store_op **bucket = change_bucket(op->store, &op->hash);
    op->next = *bucket;
    *bucket = op;
}

/* The next of the queue takes its place, and the rest of the queue; NULL: there is none. */
static struct snic_store_op *change_leave(struct snic_store_op *op)
{
    struct snic_store_op **at = change_bucket(op->store, &op->hash);
    while (*at != op)
        at = &(*at)->next;
    *at = op->next;
    op->next = NULL;
    if (snic_link_alone(&op->queue))
        return NULL;
    struct snic_store_op *heir = SNIC_CONTAINER(op->queue.next, struct snic_store_op, link);
    snic_link_remove(&heir->link);
    while (!snic_link_alone(&op->queue)) {
        struct snic_link *l = op->queue.next;
        snic_link_remove(l);
        snic_link_append(&heir->queue, l);
    }
    change_enter(heir);
    return heir;
}

/* ---- Answers ---- */

/* Leave, and let the next one read. From the loop (S1). */
static void change_finish(struct snic_store_op *op, int result)
{
    struct snic_store *s = op->store;
    struct snic_store_op *heir = change_leave(op);
    uint64_t old = op->old_value;
    s->changing--;
    op->old_value = 0;
    if (heir != NULL) {
        snic_link_append(&s->paused, &heir->link);
        heir->state = STORE_OP_PAUSED;
        snic_loop_arm(s->loop, &s->resume, 0);
    }
    store_finish(op, result);
    if (old != 0)
        snic_replica_drop(s->replica, old);
}

/* Without an effect, and nothing to show. */
static void change_fail(struct snic_store_op *op, int result)
{
    struct store_envelope none;
    memset(&none, 0, sizeof(none));
    store_show(op, 0, &none, 0, 0);
    change_finish(op, result);
}

/* ---- Pauses ---- */

static void change_pause(struct snic_store_op *op)
{
    struct snic_store *s = op->store;
    if (++op->tries > s->o.tries_max) {
        change_fail(op, SNIC_EAGAIN);
        return;
    }
    op->state = STORE_OP_PAUSED;
    snic_link_append(&s->paused, &op->link);
    if (!s->resume.armed)
        snic_loop_arm(s->loop, &s->resume, snic_loop_now(s->loop) + SNIC_STORE__PAUSE_NS);
}

void store_resume_fire(struct snic_timer *t, uint64_t now_ns)
{
    struct snic_store *s = SNIC_CONTAINER(t, struct snic_store, resume);
    struct snic_link batch;
    (void)now_ns;
    snic_link_init(&batch);
    while (!snic_link_alone(&s->paused)) {
        struct snic_link *l = s->paused.next;
        snic_link_remove(l);
        snic_link_append(&batch, l);
    }
    while (!snic_link_alone(&batch)) {
        struct snic_store_op *op = SNIC_CONTAINER(batch.next, struct snic_store_op, link);
        snic_link_remove(&op->link);
        change_read(op);
    }
}

/* ---- Steps ---- */

/* Keep the old value for the answer. */
static void change_keep_old(struct snic_store_op *op, const struct store_envelope *old, int present,
                            const struct snic_replica_op *r)
{
    struct snic_store *s = op->store;
    if (op->old_value != 0)
        snic_replica_drop(s->replica, op->old_value);
    op->old_value = 0;
    store_show(op, present, old, r->ts, r->value);
    if ((op->flags & SNIC_STORE_OLD) == 0) {
        op->data = NULL;
        op->size = 0;
        op->value = 0;
    } else if (op->value != 0) {
        op->old_value = op->value;
        snic_replica_hold(s->replica, op->old_value);
    }
}

static void change_written(struct snic_replica_op *r)
{
    struct snic_store_op *op = SNIC_CONTAINER(r, struct snic_store_op, op);
    if (r->result == SNIC_ECANCELED) {
        op->store->stats.conflicts++;
        if (++op->tries > op->store->o.tries_max)
            change_fail(op, SNIC_EAGAIN);
        else
            change_decide(op, r, r->data != NULL);
        return;
    }
    if (r->result == SNIC_EAGAIN) {
        change_pause(op);
        return;
    }
    if (r->result != 0) {
        change_fail(op, r->result);
        return;
    }
    op->version = op->seen = r->ts;
    op->copies = r->copies;
    op->answer = op->pending_answer;
    change_finish(op, op->pending_result);
}

static void change_read_done(struct snic_replica_op *r)
{
    struct snic_store_op *op = SNIC_CONTAINER(r, struct snic_store_op, op);
    if (r->result != 0 && r->result != SNIC_ENOENT)
        change_fail(op, r->result);
    else
        change_decide(op, r, r->result == 0);
}

/* What is written needs the newest version; an answer without a write is a read: change_waits. */
static int change_submit_read(struct snic_store_op *op)
{
    store_replica_op(op, SNIC_REPLICA_GET, change_read_done);
    op->op.durability = op->durably ? SNIC_DDP_DURABILITY_ALL : SNIC_DDP_DURABILITY_MEMORY;
    op->state = STORE_OP_READING;
    return snic_replica_submit(op->store->replica, &op->op);
}

static void change_read(struct snic_store_op *op)
{
    int result = change_submit_read(op);
    if (result == SNIC_EAGAIN)
        change_pause(op);
    else if (result != 0)
        change_fail(op, result);
}

/* Write @p e, or remove the record (NULL), if it is still at @p version. */
static void change_swap(struct snic_store_op *op, const struct store_envelope *e, uint64_t version)
{
    store_replica_op(op, SNIC_REPLICA_CAS, change_written);
    op->op.ts = version;
    if (e != NULL)
        store_build(op, e);
    op->state = STORE_OP_WRITING;
    int result = snic_replica_submit(op->store->replica, &op->op);
    if (result == SNIC_EAGAIN)
        change_pause(op);
    else if (result != 0)
        change_fail(op, result);
}

/* ---- Sessions ---- */

/*
 * An answer without a write (executed before, or it declined) stands for what was read: where the
 * write's own answer would have meant that it is durable, or will be with its scope, that has to
 * be. 1: it is read again so.
 */
static int change_waits(struct snic_store_op *op)
{
    uint32_t model = op->store->model;
    uint32_t named = op->durability;
    if (named == SNIC_DDP_DURABILITY_DEFAULT)
        named = model == SNIC_DDP_EVENT ? SNIC_DDP_DURABILITY_MEMORY : SNIC_DDP_DURABILITY_ALL;
    if (op->durably || named == SNIC_DDP_DURABILITY_MEMORY)
        return 0;
    op->durably = 1;
    change_read(op);
    return 1;
}

/* It was executed with the result @p have. */
static void change_repeated(struct snic_store_op *op, const struct store_session *have,
                            uint64_t version)
{
    struct store_envelope none;
    if (change_waits(op))
        return;
    uint32_t copies = (uint32_t)__builtin_popcount(snic_replica_full(op->store->replica));
    if (copies < op->copies_min) { /* as a write that is answered with fewer */
        change_fail(op, SNIC_EUNKNOWN);
        return;
    }
    memset(&none, 0, sizeof(none));
    store_show(op, 0, &none, 0, 0);
    op->copies = copies;
    op->version = have->ts != 0 ? have->ts : version;
    op->seen = version;
    op->answer = have->answer;
    op->out |= SNIC_STORE_REPEATED;
    op->store->stats.repeated++;
    change_finish(op, have->result);
}

/*
 * Was the operation executed, as far as the record @p e shows? 0: no. 1: yes, or it cannot be
 * known: it is answered.
 */
static int change_session(struct snic_store_op *op, const struct store_envelope *e,
                          uint64_t version)
{
    struct snic_store *s = op->store;
    struct store_session have;
    struct store_envelope none;
    int listed = 0;
    if (op->client == 0)
        return 0;
    memset(&none, 0, sizeof(none));
    for (uint32_t i = e->sessions; i-- > 0;) {
        store_session_get(e, i, &have);
        if (have.client != op->client)
            continue;
        if (have.sequence < op->sequence)
            return 0;
        listed = 1;
        if (have.sequence > op->sequence)
            break;
        change_repeated(op, &have, version);
        return 1;
    }
    if (!listed && op->since >= e->removed)
        return 0;
    store_show(op, 0, &none, version, 0);
    op->out |= SNIC_STORE_NOT_TRIED;
    s->stats.unknown++;
    change_finish(op, SNIC_EUNKNOWN);
    return 1;
}

/* ---- Decisions ---- */

static int change_holds(const struct snic_store_op *op, int present, uint64_t version)
{
    switch (op->condition) {
    case SNIC_STORE_IF_ABSENT:
        return !present;
    case SNIC_STORE_IF_PRESENT:
        return present;
    case SNIC_STORE_IF_VERSION:
        return (present ? version : 0) == op->expect;
    default:
        return 1;
    }
}

/* The caller's function. What it wants, or an error; @p out is the new value. */
static int change_modify(struct snic_store_op *op, const struct store_envelope *old, int present,
                         uint64_t version, struct store_envelope *out)
{
    struct snic_store *s = op->store;
    struct snic_store_change c;
    memset(&c, 0, sizeof(c));
    c.present = (uint32_t)present;
    c.old = present ? old->data : NULL;
    c.old_size = present ? old->size : 0;
    c.version = present ? version : 0;
    c.ttl_ns = present ? op->ttl_ns : 0;
    c.out = s->p.buffer + SNIC_STORE__FRONT;
    c.out_max = s->o.value_max;
    c.keep_ttl = (op->flags & SNIC_STORE_KEEP_TTL) != 0;
    int want = op->modify(op->ctx, &c);
    op->pending_result = c.result;
    op->pending_answer = c.answer;
    if (want == SNIC_STORE_CHANGE_PUT && c.out_size > c.out_max)
        return SNIC_EMSGSIZE;
    out->data = c.data != NULL ? c.data : c.out;
    out->size = c.out_size;
    out->ttl_ns = c.ttl_ns;
    if (c.keep_ttl && present)
        out->origin = 1; /* the old one's: see change_origin */
    return want;
}

/* What the operation makes of the record: SNIC_STORE_CHANGE_*, or an error. */
static int change_want(struct snic_store_op *op, const struct store_envelope *old, int present,
                       uint64_t version, struct store_envelope *out)
{
    op->pending_result = 0;
    op->pending_answer = 0;
    memset(out, 0, sizeof(*out));
    if (!change_holds(op, present, version))
        return SNIC_ECANCELED;
    switch (op->kind) {
    case SNIC_STORE_PUT:
        out->data = op->bytes;
        out->size = op->bytes_size;
        out->ttl_ns = op->new_ttl_ns;
        out->origin = present && (op->flags & SNIC_STORE_KEEP_TTL) != 0;
        return SNIC_STORE_CHANGE_PUT;
    case SNIC_STORE_EXPIRE:
        out->data = old->data;
        out->size = old->size;
        out->ttl_ns = op->new_ttl_ns;
        return present ? SNIC_STORE_CHANGE_PUT : SNIC_ENOENT;
    case SNIC_STORE_DELETE:
        return present ? SNIC_STORE_CHANGE_DELETE : SNIC_ENOENT;
    default:
        return change_modify(op, old, present, version, out);
    }
}

/* out->origin is 1: the new value expires when the old one would have. */
static void change_origin(const struct store_envelope *old, uint64_t version,
                          struct store_envelope *out)
{
    if (out->origin == 0)
        return;
    out->ttl_ns = old->ttl_ns;
    out->origin = old->ttl_ns == 0 ? 0 : old->origin != 0 ? old->origin : version;
}

/*
 * The TTL of @p version ended: delete it, if it is what the key has. A list is kept as the value of
 * a deletion, whose own TTL then ends; that is deleted whole.
 */
static void change_expire(struct snic_store_op *op, const struct store_envelope *old,
                          uint64_t version)
{
    struct store_envelope e;
    if (version != op->expect) {
        change_fail(op, SNIC_ECANCELED);
        return;
    }
    memset(&e, 0, sizeof(e));
    e.sessions = store_list_copy(op->store, old, version, NULL, &e.removed);
    e.flags = SNIC_STORE__DELETED | SNIC_STORE__EXPIRED;
    e.ttl_ns = op->store->o.session_window_ns;
    int whole =
        (old->flags & SNIC_STORE__DELETED) != 0 || (e.sessions == 0 && e.removed == 0); /* S4 */
    op->pending_result = 0;
    op->pending_answer = 0;
    change_swap(op, whole ? NULL : &e, version);
}

/* The next step, once the key's version is known. */
static void change_decide(struct snic_store_op *op, const struct snic_replica_op *r, int present)
{
    struct snic_store *s = op->store;
    struct store_envelope old, e;
    struct store_session own = {.client = op->client, .sequence = op->sequence};
    uint64_t version = present ? r->ts : 0; /* of the record; a deletion of the engine is none */
    int result = 0;
    memset(&old, 0, sizeof(old));
    if (present)
        result = store_open(s, op->key, op->key_size, r->data, r->size, &old);
    if (result == SNIC_EEXIST) {
        op->data = old.key;
        op->size = old.key_size;
        op->value = r->value;
        change_finish(op, result);
        return;
    }
    if (result != 0) {
        change_fail(op, result);
        return;
    }
    if (op->expiry) {
        change_expire(op, &old, version);
        return;
    }
    int live = present && (old.flags & SNIC_STORE__DELETED) == 0;
    if (change_session(op, &old, version))
        return;
    store_show(op, live, &old, version, 0); /* what is left of the TTL */
    int want = change_want(op, &old, live, version, &e);
    if ((want < 0 || want == SNIC_STORE_CHANGE_NONE) && change_waits(op))
        return;
    if (want < 0 || want == SNIC_STORE_CHANGE_NONE) {
        store_show(op, live, &old, version, r->value);
        op->answer = op->pending_answer;
        change_finish(op, want < 0 ? want : op->pending_result);
        return;
    }
    change_origin(&old, version, &e);
    change_keep_old(op, &old, live, r);
    own.result = op->pending_result;
    own.answer = op->pending_answer;
    e.sessions = store_list_copy(s, present ? &old : NULL, version, op->client != 0 ? &own : NULL,
                                 &e.removed);
    if (want == SNIC_STORE_CHANGE_DELETE) {
        e.flags = SNIC_STORE__DELETED; /* S4 */
        e.ttl_ns = s->o.session_window_ns;
        e.data = NULL;
        e.size = 0;
    }
    int gone = want == SNIC_STORE_CHANGE_DELETE && e.sessions == 0 && e.removed == 0;
    change_swap(op, gone ? NULL : &e, version);
}

/* ---- The beginning ---- */

int store_change_begin(struct snic_store_op *op)
{
    struct snic_store *s = op->store;
    if (s->changing == s->o.ops_max)
        return SNIC_EAGAIN;
    op->bytes = op->data;
    op->bytes_size = op->size;
    op->expect = op->version;
    op->new_ttl_ns = op->ttl_ns;
    op->since = op->seen;
    op->next = NULL;
    op->old_value = 0;
    op->tries = op->durably = 0;
    snic_link_init(&op->queue);
    struct snic_store_op *first = change_active(s, &op->hash);
    if (first != NULL) {
        op->state = STORE_OP_WAITING;
        snic_link_append(&first->queue, &op->link);
        s->changing++;
        return 0;
    }
    int result = change_submit_read(op);
    if (result != 0) {
        op->state = STORE_OP_FREE;
        return result;
    }
    change_enter(op);
    s->changing++;
    return 0;
}
