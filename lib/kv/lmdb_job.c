/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * Object operations as jobs: a chain of stages, each begun when nothing of the one before is
 * pending.
 *
 * Jobs of one object that touch the same blocks run one after the other, in the order of their
 * arrival, unless both only read. So a checksum is never compared with bytes that are being
 * changed, and a part of a block can be read, changed and written.
 */
#include "snicstore/kv.h"

#if defined(SNIC_WITH_LMDB)
#include <lmdb.h>
#include <pthread.h>
#endif

#include "kv/lmdb_priv.h"

#if defined(SNIC_WITH_LMDB)

#include <stdlib.h>

/* ---- Jobs ---- */

struct lmdb_job *lmdb_job_new(struct lmdb_kv *s, uint32_t blocks)
{
    uint32_t large = blocks > LMDB_SMALL_JOB;
    uint32_t room = large ? LMDB_LARGE_JOB : LMDB_SMALL_JOB;
    SNIC_ASSERT(blocks <= room);
    struct lmdb_job *j = s->job_spare[large];
    if (j != NULL)
        s->job_spare[large] = j->inner;
    else
        j = malloc(sizeof(*j) + room * sizeof(j->plan[0]));
    if (j == NULL)
        return NULL;
    memset(j, 0, sizeof(*j));
    j->s = s;
    j->plan_room = room;
    return j;
}

static void lmdb_job_free(struct lmdb_job *j)
{
    struct lmdb_job **spare = &j->s->job_spare[j->plan_room > LMDB_SMALL_JOB];
    for (int i = 0; i < 2; i++) {
        if (j->edge[i].buffer != NULL)
            lmdb_edge_free(j->s, j->edge[i].buffer);
    }
    j->inner = *spare;
    *spare = j;
}

void lmdb_job_fail(struct lmdb_job *j, int64_t error, int32_t os_error)
{
    if (j->result < 0)
        return;
    j->result = error;
    j->os_error = os_error;
}

/** A job that failed and has changed the map holds its lock until others can see the change. */
static void lmdb_job_hold(struct lmdb_job *j)
{
    j->changed = 0;
    lmdb_batch_wait_job(j, lmdb_ticket(j->s, 0));
}

void lmdb_job_step(struct lmdb_job *j)
{
    while (--j->pending == 0) {
        lmdb_job_fn fn = j->next;
        if (fn == NULL && j->result < 0 && j->changed && j->s->mode == LMDB_SHARED &&
            j->s->dead == 0)
            fn = lmdb_job_hold;
        if (fn == NULL) {
            lmdb_job_end(j);
            return;
        }
        j->pending = 1;
        j->next = NULL;
        fn(j);
    }
}

void lmdb_job_yield(struct lmdb_job *j)
{
    struct lmdb_kv *s = j->s;
    if (lmdb_batch_crowded(s)) {
        lmdb_batch_wait_job(j, s->active->seq);
        return;
    }
    j->pending++;
    snic_queue_push(&s->yields, &j->node);
    lmdb_turn_soon(s);
}

/* ---- Objects with jobs ---- */

static struct lmdb_object **lmdb_object_bucket(struct lmdb_kv *s, uint64_t name)
{
    return &s->objects[name * 0x9e3779b97f4a7c15ULL >> 32 & (LMDB_OBJECT_BUCKETS - 1)];
}

static struct lmdb_object *lmdb_object_get(struct lmdb_kv *s, uint64_t name)
{
    struct lmdb_object **bucket = lmdb_object_bucket(s, name);
    for (struct lmdb_object *o = *bucket; o != NULL; o = o->chain) {
        if (o->name == name)
            return o;
    }
    struct lmdb_object *o = s->object_spare;
    if (o != NULL)
        s->object_spare = o->chain;
    else
        o = malloc(sizeof(*o));
    if (o == NULL)
        return NULL;
    memset(o, 0, sizeof(*o));
    o->name = name;
    snic_link_init(&o->jobs);
    o->chain = *bucket;
    *bucket = o;
    return o;
}

static void lmdb_object_put(struct lmdb_kv *s, struct lmdb_object *o)
{
    struct lmdb_object **at = lmdb_object_bucket(s, o->name);
    while (*at != o)
        at = &(*at)->chain;
    *at = o->chain;
    o->chain = s->object_spare;
    s->object_spare = o;
}

static int lmdb_job_meets(const struct lmdb_job *a, const struct lmdb_job *b)
{
    return (a->exclusive || b->exclusive) && a->first <= b->last && b->first <= a->last;
}

/** 1: no job before it prevents it from running. */
static int lmdb_job_free_to_go(const struct lmdb_job *j)
{
    for (const struct snic_link *l = j->link.prev; l != &j->o->jobs; l = l->prev) {
        if (lmdb_job_meets(SNIC_CONTAINER(l, struct lmdb_job, link), j))
            return 0;
    }
    return 1;
}

/** Its locks are held. */
void lmdb_job_go(struct lmdb_job *j)
{
    j->pending = 1;
    if (j->s->dead != 0) {
        lmdb_job_fail(j, j->s->dead, j->s->dead_os);
        j->next = NULL;
    } else if (j->s->mode == LMDB_SHARED) {
        lmdb_share_catch_up(j);
    }
    lmdb_job_step(j);
}

static void lmdb_job_try(struct lmdb_job *j)
{
    if (j->started || j->s->quiescing || !lmdb_job_free_to_go(j))
        return;
    j->started = 1;
    j->s->running++;
    if (j->s->mode == LMDB_SOLE || lmdb_share_enter(j))
        lmdb_job_go(j);
}

void lmdb_job_queue(struct lmdb_job *j)
{
    struct lmdb_kv *s = j->s;
    j->first = j->offset / LMDB_BLOCK;
    j->last = j->length == 0 ? j->first : (j->offset + j->length - 1) / LMDB_BLOCK;
    s->jobs++;
    j->o = lmdb_object_get(s, j->object);
    if (j->o == NULL) {
        lmdb_job_fail(j, SNIC_ENOMEM, 0);
        s->jobs--;
        j->finish(j);
        lmdb_job_free(j);
        return;
    }
    snic_link_append(&j->o->jobs, &j->link);
    lmdb_job_try(j);
}

void lmdb_job_end(struct lmdb_job *j)
{
    struct lmdb_kv *s = j->s;
    struct lmdb_object *o = j->o;
    if (s->mode == LMDB_SHARED)
        lmdb_share_leave(j);
    snic_link_remove(&j->link);
    s->jobs--;
    s->running--;
    s->ended++;
    if (!snic_link_alone(&o->jobs))
        lmdb_object_wake(s, o);
    else if (!o->woken)
        lmdb_object_put(s, o);
    j->finish(j);
    lmdb_job_free(j);
    if (s->quiescing)
        lmdb_turn_soon(s);
}

/* Jobs are started from the loop's turn: one that ends at once would otherwise nest. */
void lmdb_object_wake(struct lmdb_kv *s, struct lmdb_object *o)
{
    if (o->woken)
        return;
    o->woken = 1;
    o->next_woken = s->woken;
    s->woken = o;
    lmdb_turn_soon(s);
}

void lmdb_jobs_wake(struct lmdb_kv *s)
{
    while (s->woken != NULL && !s->quiescing) {
        struct lmdb_object *o = s->woken;
        s->woken = o->next_woken;
        for (struct snic_link *l = o->jobs.next; l != &o->jobs;) {
            uint64_t ended = s->ended;
            lmdb_job_try(SNIC_CONTAINER(l, struct lmdb_job, link));
            l = s->ended != ended ? o->jobs.next : l->next; /* the list may have changed */
        }
        o->woken = 0;
        if (snic_link_alone(&o->jobs))
            lmdb_object_put(s, o);
    }
}

void lmdb_jobs_restart(struct lmdb_kv *s)
{
    for (uint32_t i = 0; i < LMDB_OBJECT_BUCKETS; i++) {
        for (struct lmdb_object *o = s->objects[i]; o != NULL; o = o->chain)
            lmdb_object_wake(s, o);
    }
}

void lmdb_jobs_close(struct lmdb_kv *s)
{
    for (int i = 0; i < 2; i++) {
        while (s->job_spare[i] != NULL) {
            struct lmdb_job *j = s->job_spare[i];
            s->job_spare[i] = j->inner;
            free(j);
        }
    }
    while (s->object_spare != NULL) {
        struct lmdb_object *o = s->object_spare;
        s->object_spare = o->chain;
        free(o);
    }
}

/* ---- Requests ---- */

static void lmdb_object_finish(struct lmdb_job *j)
{
    struct snic_kvop *op = j->req->op;
    op->result = j->result;
    op->allocated = j->allocated;
    op->bad_offset = j->bad_offset;
    op->os_error = j->os_error;
    lmdb_done(j->s, j->req);
}

void lmdb_run_object(struct lmdb_kv *s, struct snic_kv_req *req)
{
    struct snic_kvop *op = req->op;
    uint64_t blocks = 2;
    if (op->kind == SNIC_KVOP_OBJECT_WRITE)
        blocks = op->length / LMDB_BLOCK + 2;
    struct lmdb_job *j = lmdb_job_new(s, (uint32_t)blocks);
    if (j == NULL) {
        op->result = SNIC_ENOMEM;
        lmdb_done(s, req);
        return;
    }
    j->req = req;
    j->kind = op->kind;
    j->flags = op->flags;
    j->object = op->object;
    j->offset = op->offset;
    j->length = op->length;
    j->iov = op->iov;
    j->iov_count = op->iov_count;
    j->finish = lmdb_object_finish;
    switch (op->kind) {
    case SNIC_KVOP_OBJECT_READ:
        j->next = lmdb_read_start;
        break;
    case SNIC_KVOP_OBJECT_WRITE:
        j->exclusive = 1;
        j->next = lmdb_write_start;
        break;
    case SNIC_KVOP_OBJECT_STAT:
        j->offset = 0;
        j->length = SNIC_KVOP_OBJECT_MAX;
        j->next = lmdb_look_start;
        break;
    case SNIC_KVOP_OBJECT_SEEK:
        j->length = SNIC_KVOP_OBJECT_MAX - op->offset;
        j->next = lmdb_look_start;
        break;
    default:
        j->exclusive = 1;
        if (op->kind == SNIC_KVOP_OBJECT_TRUNCATE)
            j->length = SNIC_KVOP_OBJECT_MAX - op->offset;
        j->next = lmdb_change_start;
        break;
    }
    lmdb_job_queue(j);
}

#endif /* SNIC_WITH_LMDB */
