/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * One operation: its rounds, its waits, its operations of the store, and damage that it reports.
 * kvfs.c runs it; the invariants K1 to K3 are there.
 */
#include "kvfs/txn_priv.h"

enum {
    KVFS_TXN_RETRIES_AT_ONCE = 3,
    KVFS_TXN_RETRIES_MAX = 1000,
    KVFS_TXN_BACKOFF_NS = 50000, /* doubles with each retry ... */
    KVFS_TXN_BACKOFF_DOUBLE = 8, /* ... so often */
    KVFS_OP_TORN_MAX = 16 /* rounds before inconsistent records are reported as damage      */
};

/* ---- Ready, waiting ---- */

void kvfs_ready(struct kvfs_op *op)
{
    if (op->state != KVFS_OP_WAITING)
        return;
    op->state = KVFS_OP_READY;
    snic_queue_push(&op->k->ready, &op->node);
}

void kvfs_wake(struct kvfs_op *op)
{
    if (!op->asleep)
        return;
    op->asleep = 0;
    snic_link_remove(&op->wait_link);
    snic_wheel_cancel(&op->k->wheel, &op->timer);
    kvfs_ready(op);
}

void kvfs_wake_all(struct snic_link *list)
{
    while (!snic_link_alone(list))
        kvfs_wake(SNIC_CONTAINER(list->next, struct kvfs_op, wait_link));
}

int kvfs_wait(struct kvfs_op *op, struct snic_link *list, uint64_t until_ns, int drop)
{
    SNIC_ASSERT(op->state == KVFS_OP_RUNNING); /* K3 */
    SNIC_ASSERT(!op->asleep);
    SNIC_ASSERT(snic_link_alone(&op->wait_link)); /* K1 */
    op->asleep = 1;
    if (list != NULL)
        snic_link_append(list, &op->wait_link);
    if (until_ns != SNIC_NEVER)
        snic_wheel_arm(&op->k->wheel, &op->timer, until_ns);
    if (drop) {
        op->again = 1;
        op->drop = 1;
        op->phase0 = op->phase;
        memcpy(op->s0, op->s, sizeof(op->s0));
    }
    return KVFS_PENDING;
}

int kvfs_cancelled(const struct kvfs_op *op)
{
    return op->cancelled;
}

/* ---- Rounds ---- */

void kvfs_txn_begin(struct kvfs_op *op)
{
    memset(op->buckets, 0, sizeof(op->buckets));
    op->reads = NULL;
    op->reads_end = &op->reads;
    op->changes = NULL;
    op->changes_end = &op->changes;
    op->allocs = NULL;
    op->alloc_at = &op->allocs;
    op->commit_state = KVFS_COMMIT_NONE;
    op->sent = 0;
    op->made = 0;
    op->intent = NULL;
    op->resolve = NULL;
    op->era = op->k->session.era;
    op->now = op->k->now;
    for (int i = 0; op->sent_any && i <= KVFS_MAIN; i++) {
        SNIC_ASSERT(op->place[i].state != KVFS_PLACE_SENT);
        op->place[i].state = KVFS_PLACE_FREE;
    }
    op->sent_any = 0;
}

int kvfs_restart(struct kvfs_op *op)
{
    op->again = 1;
    return KVFS_PENDING;
}

int kvfs_next(struct kvfs_op *op, uint32_t phase)
{
    SNIC_ASSERT(op->commit_state != KVFS_COMMIT_SENT);
    op->phase = phase;
    op->phase0 = phase;
    memcpy(op->s0, op->s, sizeof(op->s0));
    op->retries = 0;
    op->number_count = 0;
    return kvfs_restart(op);
}

void kvfs_save_word(struct kvfs_op *op, uint32_t word, uint64_t value)
{
    SNIC_ASSERT(word < KVFS_WORDS);
    op->s[word] = value;
    op->s0[word] = value;
}

/* A guard failed: start over, with back-off. */
void kvfs_txn_retry(struct kvfs_op *op)
{
    struct snic_kvfs *k = op->k;
    SNIC_ASSERT(op->commit_state == KVFS_COMMIT_NONE); /* T4: none has happened in this round */
    k->stats.retries++;
    if (op->retries++ >= KVFS_TXN_RETRIES_MAX) {
        op->commit_state = KVFS_COMMIT_FAILED;
        op->commit_error = SNIC_ETIMEDOUT;
        return;
    }
    op->again = 1;
    if (op->retries > KVFS_TXN_RETRIES_AT_ONCE) {
        uint32_t n = op->retries - KVFS_TXN_RETRIES_AT_ONCE;
        uint64_t most = (uint64_t)KVFS_TXN_BACKOFF_NS
                        << (n < KVFS_TXN_BACKOFF_DOUBLE ? n : KVFS_TXN_BACKOFF_DOUBLE);
        snic_wheel_arm(&k->wheel, &op->timer, k->now.mono_ns + 1 + snic_rng_below(&k->rng, most));
        op->asleep = 1;
    }
}

int kvfs_retry_torn(struct kvfs_op *op, uint64_t ino, const char *what)
{
    struct snic_kvop_key key;
    if (op->torn < KVFS_OP_TORN_MAX) {
        op->torn++;
        return kvfs_restart(op);
    }
    snic_kvfs_key(&key, ino, SNIC_KVFS_REC_ATTR);
    kvfs_report_damage(op->k, &key, what);
    return SNIC_ECORRUPT;
}

struct snic_fsop_time kvfs_time(const struct kvfs_op *op)
{
    int64_t ns = op->now.wall_ns % 1000000000;
    struct snic_fsop_time t = {op->now.wall_ns / 1000000000, 0, 0};
    if (ns < 0) {
        ns += 1000000000;
        t.sec--;
    }
    t.nsec = (uint32_t)ns;
    return t;
}

/* ---- Beginning ---- */

void kvfs_begin_op(struct kvfs_op *op, kvfs_run_fn run)
{
    SNIC_DASSERT(op->state == KVFS_OP_FREE && run != NULL);
    SNIC_DASSERT(op->in_flight == 0);                          /* K2 */
    SNIC_DASSERT(op->held_count == 0 && op->block_count == 0); /* as kvfs_finish() left it */
    op->run = run;
    op->phase = 0;
    op->phase0 = 0;
    op->reserve = 0;
    op->again = 0;
    op->drop = 0;
    op->ended = 0;
    op->asleep = 0;
    op->cancelled = 0;
    op->locking = 0;
    op->number_count = 0;
    op->number_wait = 0;
    op->block_need = 0;
    op->retries = 0;
    op->torn = 0;
    op->gate = 0;
    op->run_count = 0;
    op->result = 0;
    op->allocated = 0;
    memset(op->s, 0, sizeof(op->s));
    memset(op->s0, 0, sizeof(op->s0));
    kvfs_txn_begin(op);
    op->state = KVFS_OP_READY;
    snic_queue_push(&op->k->ready, &op->node);
}

struct kvfs_op *kvfs_spawn_run(struct snic_kvfs *k, kvfs_run_fn run, uint64_t s0)
{
    struct snic_node *n = snic_queue_pop(&k->free_own);
    struct kvfs_op *op;
    if (n == NULL)
        return NULL;
    op = SNIC_CONTAINER(n, struct kvfs_op, node);
    op->req = NULL;
    op->ino = 0;
    op->ino2 = 0;
    k->own_in_flight++;
    kvfs_begin_op(op, run);
    op->s[KVFS_OWN_S_ARGUMENT] = s0;
    op->s0[KVFS_OWN_S_ARGUMENT] = s0;
    return op;
}

struct kvfs_op *kvfs_spawn(struct snic_kvfs *k, enum kvfs_own kind, uint64_t s0)
{
    SNIC_ASSERT(kind < KVFS_OWN_KINDS && k->own_runs[kind] != NULL);
    return kvfs_spawn_run(k, k->own_runs[kind], s0);
}

/* ---- Operations of the store ---- */

void kvfs_send(struct kvfs_op *op, struct kvfs_place *place)
{
    SNIC_ASSERT(place->state != KVFS_PLACE_SENT);
    SNIC_DASSERT(op->state != KVFS_OP_FREE);
    op->sent_any = 1;
    place->owner = op;
    place->state = KVFS_PLACE_SENT;
    op->in_flight++;
    snic_queue_push(&op->k->io_queue, &place->node);
}

int kvfs_io_in(struct kvfs_op *op, struct kvfs_place *place, const struct snic_kvop *want,
               const struct snic_kvop **got)
{
    const struct snic_kvop *o = &place->io.op;
    if (place->state == KVFS_PLACE_SENT)
        return KVFS_PENDING;
    if (place->state == KVFS_PLACE_FREE) {
        place->io.op = *want;
        op->k->stats.store_objects += want->kind >= SNIC_KVOP_OBJECT_READ;
        kvfs_send(op, place);
        return KVFS_PENDING;
    }
    *got = o;
    return o->result < 0 ? kvfs_txn_error(o->result) : 0;
}

int kvfs_io(struct kvfs_op *op, uint32_t n, const struct snic_kvop *want,
            const struct snic_kvop **got)
{
    SNIC_ASSERT(n < KVFS_IOS_MAX);
    return kvfs_io_in(op, &op->place[n], want, got);
}

void kvfs_io_forget(struct kvfs_op *op, uint32_t n)
{
    SNIC_ASSERT(n < KVFS_IOS_MAX && op->place[n].state != KVFS_PLACE_SENT);
    op->place[n].state = KVFS_PLACE_FREE;
}

/* ---- Results and reports ---- */

void kvfs_reply_attr(struct kvfs_op *op, const struct snic_fsop_attr *a)
{
    SNIC_DASSERT(op->req != NULL);
    op->req->attr = *a;
    op->req->attr.ino = kvfs_ino_out(a->ino);
    op->req->attr.parent = kvfs_ino_out(a->parent);
}

void kvfs_report_damage(struct snic_kvfs *k, const struct snic_kvop_key *key, const char *what)
{
    struct snic_kvfs_damage d = {.key = *key, .what = what};
    if (k->o.damage != NULL)
        k->o.damage(k->o.ctx, &d);
}

void kvfs_report_object_damage(struct snic_kvfs *k, uint64_t object, uint64_t offset,
                               const char *what)
{
    struct snic_kvfs_damage d = {.object = object, .offset = offset, .what = what};
    if (k->o.damage != NULL)
        k->o.damage(k->o.ctx, &d);
}
