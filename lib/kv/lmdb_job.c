/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * Jobs of objects: when each may begin, and what ends with it. Its stages: lmdb_stage.c.
 *
 * Jobs of one object that touch the same blocks run one after the other, in the order of their
 * arrival, unless both only read. So a checksum is never compared with bytes that are being
 * changed, and a part of a block can be read, changed and written.
 */
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

static void lmdb_job_try(struct lmdb_job *j)
{
    if (j->started || j->s->quiescing || !lmdb_job_free_to_go(j))
        return;
    j->started = 1;
    j->s->running++;
    if (j->s->mode == LMDB_SOLE || lmdb_share_enter(j))
        lmdb_job_go(j);
}

/* Jobs are started from the loop's turn: one that ends at once would otherwise nest. */
static void lmdb_object_wake(struct lmdb_kv *s, struct lmdb_object *o)
{
    if (o->woken)
        return;
    o->woken = 1;
    o->next_woken = s->woken;
    s->woken = o;
    lmdb_turn_soon(s);
}

static void lmdb_job_end(struct lmdb_job *j)
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

void lmdb_job_queue(struct lmdb_job *j)
{
    struct lmdb_kv *s = j->s;
    j->first = j->offset / LMDB_BLOCK;
    j->last = j->length == 0 ? j->first : (j->offset + j->length - 1) / LMDB_BLOCK;
    j->end = lmdb_job_end;
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

#endif /* SNIC_WITH_LMDB */
