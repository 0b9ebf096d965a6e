/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * Operations, and what happens to them. Every event of the loop ends with storeclient_settle():
 * attempts that ended are looked at, operations that wait are sent, those that have ended are done.
 */
#include "storeclient_priv.h"

static void storeclient_op_fire(struct snic_timer *t, uint64_t now_ns);
static void storeclient_op_end(struct snic_storeclient *c, struct snic_storeclient_op *op,
                               int result);

static int storeclient_op_is_write(const struct snic_storeclient_op *op)
{
    return op->kind != SNIC_STORE_GET;
}

/* Nothing of the operation is under way that could still be executed. */
static int storeclient_op_is_certain(const struct snic_storeclient_op *op)
{
    return op->unanswered == 0;
}

static void storeclient_op_move(struct snic_storeclient_op *op, struct snic_link *list,
                                uint32_t state)
{
    snic_link_remove(&op->link);
    snic_link_append(list, &op->link);
    op->state = state;
}

/* ---- Beginning ---- */

static struct snic_link *storeclient_bucket(struct snic_storeclient *c, uint64_t hash)
{
    return &c->bucket[hash & (c->buckets - 1)];
}

/* C4: the write that has the key now. */
static struct snic_storeclient_op *storeclient_op_holder(struct snic_storeclient *c,
                                                         const struct snic_storeclient_op *op)
{
    struct snic_link *head = storeclient_bucket(c, op->hash);
    for (struct snic_link *l = head->next; l != head; l = l->next) {
        struct snic_storeclient_op *o = SNIC_CONTAINER(l, struct snic_storeclient_op, bucket);
        if (o->hash == op->hash && o->key_size == op->key_size &&
            (op->key_size == 0 || memcmp(o->key, op->key, op->key_size) == 0))
            return o;
    }
    return NULL;
}

static void storeclient_op_start(struct snic_storeclient *c, struct snic_storeclient_op *op)
{
    if (storeclient_op_is_write(op)) {
        snic_link_append(storeclient_bucket(c, op->hash), &op->bucket);
        op->sequence = ++c->sequence;
    }
    storeclient_op_move(op, &c->waiting, STORECLIENT_O_WAITS);
}

void storeclient_op_begin(struct snic_storeclient *c, struct snic_storeclient_op *op)
{
    struct snic_storeclient_op *holder = NULL;
    op->owner = c;
    op->out_size = op->copies = op->attempts = 0;
    op->result = op->refusal = op->ending = 0;
    op->unanswered = op->unsent = op->tried = 0;
    op->sequence = op->seen = 0;
    op->behind = NULL;
    op->hash = snic_siphash(c->hash_key, op->key_size != 0 ? op->key : "", op->key_size);
    op->begun_ns = snic_loop_now(c->o.loop);
    op->deadline_ns = op->begun_ns + (op->timeout_ns != 0 ? op->timeout_ns : c->o.timeout_ns);
    snic_link_init(&op->link);
    snic_link_init(&op->bucket);
    snic_link_init(&op->attempts_list);
    snic_timer_init(&op->timer, storeclient_op_fire);
    snic_loop_arm(c->o.loop, &op->timer, op->deadline_ns);
    c->ops++;
    if (storeclient_op_is_write(op))
        holder = storeclient_op_holder(c, op);
    if (holder == NULL) {
        storeclient_op_start(c, op);
        return;
    }
    while (holder->behind != NULL)
        holder = holder->behind;
    holder->behind = op;
    storeclient_op_move(op, &c->flight, STORECLIENT_O_BEHIND);
}

/* ---- Sending ---- */

/* The next attempt. 0: it is sent. */
static int storeclient_op_send(struct snic_storeclient *c, struct snic_storeclient_op *op)
{
    int n = storeclient_node_choose(c, op->tried);
    if (storeclient_op_is_certain(op))
        op->begun_ns = snic_loop_now(c->o.loop); /* its age is that of what may be executed */
    if (n < 0 || storeclient_node_send(&c->node[n], op) != 0)
        return SNIC_EAGAIN;
    op->tried |= 1u << n;
    if (__builtin_popcount(op->tried) == (int)c->nodes)
        op->tried = 1u << n; /* begin again */
    op->attempts++;
    op->unanswered += (uint32_t)storeclient_op_is_write(op);
    c->stats.attempts++;
    c->stats.retries += op->attempts > 1;
    storeclient_op_move(op, &c->flight, STORECLIENT_O_SENT);
    uint64_t at = snic_loop_now(c->o.loop) + c->o.attempt_ns;
    snic_loop_arm(c->o.loop, &op->timer, snic_min_u64(at, op->deadline_ns));
    return 0;
}

/* Another attempt after @p pause_ns. */
static void storeclient_op_again(struct snic_storeclient *c, struct snic_storeclient_op *op,
                                 uint64_t pause_ns)
{
    uint64_t at = op->deadline_ns;
    if (pause_ns == 0) {
        storeclient_op_move(op, &c->waiting, STORECLIENT_O_WAITS);
    } else {
        storeclient_op_move(op, &c->flight, STORECLIENT_O_PAUSES);
        at = snic_min_u64(at, snic_loop_now(c->o.loop) + pause_ns);
    }
    snic_loop_arm(c->o.loop, &op->timer, at);
}

static void storeclient_op_fire(struct snic_timer *t, uint64_t now_ns)
{
    struct snic_storeclient_op *op = SNIC_CONTAINER(t, struct snic_storeclient_op, timer);
    struct snic_storeclient *c = op->owner;
    struct storeclient_attempt *a = storeclient_attempt_current(op);
    if (now_ns >= op->deadline_ns) {
        int refusal = op->refusal != 0 ? op->refusal : c->refusal;
        storeclient_op_end(c, op, refusal != 0 ? refusal : SNIC_ETIMEDOUT);
    } else if (a != NULL) {
        a->late = 1;
        a->node->late++;
        if (!a->sent)
            storeclient_node_abort(a->node); /* it takes no bytes */
        storeclient_op_again(c, op, 0);
    } else {
        storeclient_op_again(c, op, 0);
    }
    storeclient_settle(c);
}

/* ---- Answers ---- */

static void storeclient_op_fill(struct snic_storeclient_op *op, const struct storeclient_reply *r)
{
    op->version = (uint64_t)r->field[STORECLIENT_F_VERSION];
    op->ttl_ns = (uint64_t)r->field[STORECLIENT_F_TTL_MS] * 1000000;
    op->copies = (uint32_t)r->field[STORECLIENT_F_COPIES];
    op->out_size = (uint32_t)r->value_size;
}

/* The bound of the sessions: the first attempt may begin anew, at once if it knows more now. */
static void storeclient_op_not_tried(struct snic_storeclient *c, struct snic_storeclient_op *op,
                                     const struct storeclient_reply *r)
{
    if (!storeclient_op_is_certain(op)) {
        storeclient_op_end(c, op, SNIC_EUNKNOWN);
        return;
    }
    uint64_t seen = (uint64_t)r->field[STORECLIENT_F_SEEN];
    uint64_t pause_ns = seen != op->seen ? 0 : c->o.retry_ns;
    op->sequence = ++c->sequence;
    op->seen = seen;
    storeclient_op_again(c, op, pause_ns);
}

/* A refusal, after which nothing was written by this attempt. */
static void storeclient_op_refused(struct snic_storeclient *c, struct snic_storeclient_op *op,
                                   int result, int late)
{
    op->refusal = result;
    if (late)
        return;
    if (result == SNIC_ENOQUORUM && storeclient_op_is_certain(op))
        storeclient_op_end(c, op, result);
    else
        storeclient_op_again(c, op, c->o.retry_ns);
}

static void storeclient_op_answer(struct snic_storeclient *c, struct snic_storeclient_op *op,
                                  struct storeclient_attempt *a)
{
    const struct storeclient_reply *r = &a->reply;
    int result = r->error != 0 ? r->error : (int)r->field[STORECLIENT_F_RESULT];
    uint32_t out = r->error != 0 ? 0 : (uint32_t)r->field[STORECLIENT_F_OUT];
    int write = storeclient_op_is_write(op);
    int late = (int)a->late;
    int open = result == SNIC_EUNKNOWN && (out & SNIC_STORE_NOT_TRIED) == 0;
    if (write && !open)
        op->unanswered--; /* C3 */
    if (late && (!write || r->has_value))
        return; /* C1: another attempt has the buffer */
    c->stats.repeated += (out & SNIC_STORE_REPEATED) != 0;
    switch (result) {
    case SNIC_ESTALE:
    case SNIC_EAGAIN:
    case SNIC_EACCES:
    case SNIC_ENOQUORUM:
        storeclient_op_refused(c, op, result, late);
        return;
    case SNIC_EUNKNOWN:
        if (!open && !late)
            storeclient_op_not_tried(c, op, r);
        else if (!late)
            storeclient_op_again(c, op, c->o.retry_ns);
        return;
    default:
        break;
    }
    int executed = result == 0 || (out & SNIC_STORE_REPEATED) != 0;
    if (late && !executed)
        return; /* the present attempt decides */
    if (executed)
        op->unanswered = 0; /* the session sees to the other attempts */
    if (r->error == 0)
        storeclient_op_fill(op, r);
    if (result == 0 && op->out_size > op->out_max)
        result = SNIC_EMSGSIZE;
    storeclient_op_end(c, op, result);
}

static void storeclient_attempt_look(struct snic_storeclient *c, struct storeclient_attempt *a)
{
    struct snic_storeclient_op *op = a->op;
    if (op != NULL) {
        int late = (int)a->late;
        storeclient_attempt_detach(a);
        if (op->state != STORECLIENT_O_ENDS && !a->lost)
            storeclient_op_answer(c, op, a);
        else if (op->state == STORECLIENT_O_SENT && !late)
            storeclient_op_again(c, op, 0);
    }
    storeclient_attempt_free(a);
}

/* ---- The end ---- */

/* C2: is it done? */
static void storeclient_op_close(struct snic_storeclient *c, struct snic_storeclient_op *op)
{
    if (op->unsent == 0)
        storeclient_op_move(op, &c->done, STORECLIENT_O_ENDS);
}

static void storeclient_op_next(struct snic_storeclient *c, struct snic_storeclient_op *op)
{
    struct snic_storeclient_op *next = op->behind;
    op->behind = NULL;
    snic_link_remove(&op->bucket);
    if (next != NULL)
        storeclient_op_start(c, next); /* the others stay behind it */
}

/* Out of the chain behind the write that has its key. */
static void storeclient_op_unchain(struct snic_storeclient *c, struct snic_storeclient_op *op)
{
    struct snic_storeclient_op *o = storeclient_op_holder(c, op);
    SNIC_ASSERT(o != NULL && o != op);
    while (o->behind != op)
        o = o->behind;
    o->behind = op->behind;
    op->behind = NULL;
}

static void storeclient_op_end(struct snic_storeclient *c, struct snic_storeclient_op *op,
                               int result)
{
    SNIC_ASSERT(op->state != STORECLIENT_O_ENDS && op->state != STORECLIENT_O_FREE);
    if (!storeclient_op_is_certain(op))
        result = SNIC_EUNKNOWN;
    op->result = result;
    snic_loop_cancel(c->o.loop, &op->timer);
    if (op->state == STORECLIENT_O_BEHIND)
        storeclient_op_unchain(c, op);
    else if (storeclient_op_is_write(op))
        storeclient_op_next(c, op);
    storeclient_op_move(op, &c->flight, STORECLIENT_O_ENDS);
    struct snic_link *l = op->attempts_list.next;
    while (l != &op->attempts_list) {
        struct storeclient_attempt *a = SNIC_CONTAINER(l, struct storeclient_attempt, of_op);
        l = l->next;
        if (!a->sent)
            storeclient_node_abort(a->node); /* C2: gives the bytes back soon */
        else
            storeclient_attempt_detach(a);
    }
    storeclient_op_close(c, op);
}

/* ---- Around ---- */

/* Send what waits, oldest first, as far as nodes take it. */
static void storeclient_dispatch(struct snic_storeclient *c)
{
    while (!snic_link_alone(&c->waiting)) {
        struct snic_storeclient_op *op =
            SNIC_CONTAINER(c->waiting.next, struct snic_storeclient_op, link);
        if (storeclient_op_send(c, op) != 0)
            return;
    }
}

static void storeclient_deliver(struct snic_storeclient *c)
{
    while (!snic_link_alone(&c->done)) {
        struct snic_storeclient_op *op =
            SNIC_CONTAINER(c->done.next, struct snic_storeclient_op, link);
        snic_link_remove(&op->link);
        SNIC_ASSERT(snic_link_alone(&op->attempts_list));
        op->state = STORECLIENT_O_FREE;
        c->ops--;
        c->stats.answered++;
        c->stats.unknown += op->result == SNIC_EUNKNOWN;
        op->done(op);
    }
}

/* Attempts that ended, and operations that only waited for the door to give their bytes back. */
static void storeclient_look(struct snic_storeclient *c)
{
    struct snic_link *l = c->ended.next;
    while (l != &c->ended) {
        struct storeclient_attempt *a = SNIC_CONTAINER(l, struct storeclient_attempt, link);
        l = l->next;
        if (!a->sent)
            continue;
        struct snic_storeclient_op *op = a->op;
        storeclient_attempt_look(c, a);
        if (op != NULL && op->state == STORECLIENT_O_ENDS)
            storeclient_op_close(c, op);
        l = c->ended.next; /* the list has changed */
        while (l != &c->ended && !SNIC_CONTAINER(l, struct storeclient_attempt, link)->sent)
            l = l->next;
    }
}

/* What is left to do when something has happened. Only called from the loop. */
void storeclient_settle(struct snic_storeclient *c)
{
    if (c->settling)
        return;
    c->settling = 1;
    do {
        storeclient_look(c);
        storeclient_deliver(c);
        storeclient_dispatch(c);
    } while (!snic_link_alone(&c->done));
    c->settling = 0;
}

void storeclient_deliver_fire(struct snic_timer *t, uint64_t now_ns)
{
    (void)now_ns;
    storeclient_settle(SNIC_CONTAINER(t, struct snic_storeclient, deliver));
}

void storeclient_ops_stop(struct snic_storeclient *c)
{
    struct snic_link *const lists[2] = {&c->waiting, &c->flight};
    for (uint32_t i = 0; i < 2;) {
        struct snic_link *l = lists[i]->next;
        while (l != lists[i] &&
               SNIC_CONTAINER(l, struct snic_storeclient_op, link)->state == STORECLIENT_O_ENDS)
            l = l->next;
        if (l == lists[i])
            i++;
        else
            storeclient_op_end(c, SNIC_CONTAINER(l, struct snic_storeclient_op, link),
                               SNIC_ECANCELED);
        if (!snic_link_alone(&c->waiting))
            i = 0; /* the next write of a key */
    }
    snic_loop_arm(c->o.loop, &c->deliver, 0);
}
