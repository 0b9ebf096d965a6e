/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * Commits: guards, then changes. Sole: here, on what the owner sees. Shared: inside the writer's
 * transaction. Object bytes of a commit are written before its records, truncations follow them.
 *
 * A commit with object bytes checks its guards before it writes, when no other job uses these bytes
 * and, shared, under the object's lock, which it holds until its records are visible: of two that
 * would write the same bytes, with one record as their guard, the second one fails and leaves the
 * bytes of the first.
 *
 * A commit without bytes that truncates is executed by the job of its first truncation, from the
 * guards to the end of that one. So a handle that has seen its records and writes the object does
 * so after the truncation; and no new handle opens the store in between, which would not know of
 * it. Its further truncations, and those of a commit with bytes, follow one by one and hold no lock
 * before: a job never waits for one lock while it holds another. A crash may leave the records
 * without the truncation: the space is then the object's until it is truncated or removed again.
 */
#include "kv/lmdb_priv.h"

#if defined(SNIC_WITH_LMDB)

/** Check all guards. 1 they hold; 0 and the operation has its result. */
static int lmdb_commit_guards(struct lmdb_kv *s, struct snic_kvop *op)
{
    for (uint32_t i = 0; i < op->guard_count; i++) {
        struct lmdb_key k = lmdb_key_record(&op->guards[i].key);
        struct lmdb_value v = {0};
        int r = lmdb_get(s, &k, &v);
        if (r != 0 && r != SNIC_ENOENT) {
            op->result = r;
            return 0;
        }
        if (!lmdb_guard_holds(&op->guards[i], r == 0, &v)) {
            lmdb_guard_failed(op, i);
            return 0;
        }
    }
    return 1;
}

/** Bytes of its records. */
static uint64_t lmdb_commit_bytes(const struct snic_kvop *op)
{
    uint64_t bytes = 0;
    for (uint32_t i = 0; i < op->change_count; i++) {
        if (op->changes[i].kind == SNIC_KVOP_PUT)
            bytes += op->changes[i].size + sizeof(struct lmdb_entry);
    }
    return bytes;
}

/** 1: it only replaces or deletes records, and none gets larger. */
static int lmdb_commit_in_place(struct lmdb_kv *s, const struct snic_kvop *op)
{
    for (uint32_t i = 0; i < op->change_count; i++) {
        const struct snic_kvop_change *c = &op->changes[i];
        struct lmdb_key k = lmdb_key_record(&c->key);
        struct lmdb_value v = {0};
        if (c->kind == SNIC_KVOP_PUT && (lmdb_get(s, &k, &v) != 0 || v.size < c->size))
            return 0;
    }
    return 1;
}

static struct snic_kvop_change *lmdb_commit_part(struct snic_kvop *op, uint32_t kind, uint32_t from,
                                                 uint32_t *at)
{
    for (uint32_t i = from; i < op->change_count; i++) {
        if (op->changes[i].kind == kind) {
            *at = i;
            return &op->changes[i];
        }
    }
    return NULL;
}

/* ---- Object parts ---- */

/** A truncation is over; the next, or the end. */
static void lmdb_commit_truncated(struct lmdb_job *j)
{
    struct lmdb_kv *s = j->s;
    struct snic_kv_req *req = j->req;
    struct snic_kvop *op = req->op;
    op->allocated += j->allocated;
    if (j->result < 0 && op->result == 0) {
        /* If the records are committed, the space is not freed. */
        op->result = j->committed ? SNIC_EUNKNOWN : j->result;
        op->os_error = j->os_error;
    }
    req->backend[1]++;
    lmdb_commit_over(s, req);
}

/** The bytes are written. */
static void lmdb_commit_written(struct lmdb_job *j)
{
    struct lmdb_kv *s = j->s;
    struct snic_kv_req *req = j->req;
    req->op->allocated += j->allocated;
    if (j->result < 0) {
        req->op->result = j->result;
        req->op->os_error = j->os_error;
        lmdb_done(s, req);
        return;
    }
    if (j->committed)
        lmdb_commit_over(s, req);
    else
        lmdb_commit_records(s, req);
}

/** The job of a change of object bytes; its `next` is to be set. */
static struct lmdb_job *lmdb_commit_job(struct lmdb_kv *s, struct snic_kv_req *req,
                                        const struct snic_kvop_change *c)
{
    int write = c->kind == SNIC_KVOP_CHANGE_WRITE;
    struct lmdb_job *j = lmdb_job_new(s, write ? LMDB_SMALL_JOB : 0);
    if (j == NULL)
        return NULL;
    union {
        const void *from;
        void *to;
    } bytes = {.from = c->value}; /* only read */
    j->req = req;
    j->object = c->object;
    j->offset = c->offset;
    j->flags = req->op->flags & ~SNIC_KVOP_DURABLE;
    j->exclusive = 1;
    j->kind = write ? SNIC_KVOP_OBJECT_WRITE : SNIC_KVOP_OBJECT_TRUNCATE;
    j->length = write ? c->size : SNIC_KVOP_OBJECT_MAX - c->offset;
    j->piece = (struct snic_iov){.base = bytes.to, .size = c->size};
    j->iov = &j->piece;
    j->iov_count = write ? 1 : 0;
    j->finish = write ? lmdb_commit_written : lmdb_commit_truncated;
    return j;
}

void lmdb_commit_over(struct lmdb_kv *s, struct snic_kv_req *req)
{
    struct snic_kvop *op = req->op;
    uint32_t at = 0;
    if (req->backend[3] != 0) { /* the job that holds its object's lock continues */
        struct lmdb_job *j = (struct lmdb_job *)(uintptr_t)req->backend[3];
        req->backend[3] = 0;
        lmdb_job_step(j);
        return;
    }
    const struct snic_kvop_change *c =
        op->result != 0
            ? NULL
            : lmdb_commit_part(op, SNIC_KVOP_CHANGE_TRUNCATE, (uint32_t)req->backend[1], &at);
    if (c != NULL) {
        req->backend[1] = at;
        struct lmdb_job *j = lmdb_commit_job(s, req, c);
        if (j == NULL) {
            op->result = SNIC_EUNKNOWN;
            lmdb_done(s, req);
            return;
        }
        j->committed = 1;
        j->next = lmdb_change_start;
        lmdb_job_queue(j);
        return;
    }
    if (op->result == 0 && (op->flags & SNIC_KVOP_DURABLE) != 0)
        lmdb_batch_wait(s, req, lmdb_ticket(s, req->backend[2] != 0));
    else
        lmdb_done(s, req);
}

void lmdb_commit_records(struct lmdb_kv *s, struct snic_kv_req *req)
{
    struct snic_kvop *op = req->op;
    req->backend[1] = 0;
    if (s->mode == LMDB_SHARED) {
        snic_queue_push(&s->active->commits, &req->node);
        lmdb_turn_soon(s);
        return;
    }
    if (lmdb_commit_guards(s, op)) {
        for (uint32_t i = 0; i < op->change_count; i++) {
            const struct snic_kvop_change *c = &op->changes[i];
            if (!lmdb_is_record(c))
                continue;
            struct lmdb_key k = lmdb_key_record(&c->key);
            lmdb_put(s, &k, c->kind == SNIC_KVOP_PUT ? c->value : NULL, c->size);
        }
    }
    lmdb_commit_over(s, req);
}

/** The object's lock is held: the records, then the job's next stage. */
static void lmdb_commit_under(struct lmdb_job *j)
{
    if (j->result < 0)
        return;
    j->committed = 1;
    j->pending++;
    j->req->backend[3] = (uintptr_t)j;
    lmdb_commit_records(j->s, j->req);
}

/** The records are committed, or a guard has failed. */
static void lmdb_commit_truncate(struct lmdb_job *j)
{
    uint32_t at = 0;
    if (j->req->op->result != 0)
        return;
    (void)lmdb_commit_part(j->req->op, SNIC_KVOP_CHANGE_TRUNCATE, 0, &at);
    j->req->backend[1] = at;
    lmdb_change_start(j);
}

/** The job begins; from here to its end the mode stays what it is. */
static void lmdb_commit_start(struct lmdb_job *j)
{
    int write = j->kind == SNIC_KVOP_OBJECT_WRITE;
    if (!lmdb_commit_guards(j->s, j->req->op)) {
        lmdb_job_fail(j, j->req->op->result, 0);
        return;
    }
    j->next = write ? lmdb_write_start : lmdb_commit_truncate;
    if (!write)
        lmdb_commit_under(j);
    else if (j->s->mode == LMDB_SHARED)
        j->then = lmdb_commit_under;
}

void lmdb_run_commit(struct lmdb_kv *s, struct snic_kv_req *req)
{
    struct snic_kvop *op = req->op;
    int r = lmdb_space_admit(s, lmdb_commit_bytes(op), (op->flags & SNIC_KVOP_RESERVE) != 0);
    if (r != 0 && (s->full != 0 || !lmdb_commit_in_place(s, op))) {
        op->result = r;
        lmdb_done(s, req);
        return;
    }
    uint32_t at = 0;
    const struct snic_kvop_change *c = lmdb_commit_part(op, SNIC_KVOP_CHANGE_WRITE, 0, &at);
    req->backend[2] = c != NULL;
    if (c == NULL)
        c = lmdb_commit_part(op, SNIC_KVOP_CHANGE_TRUNCATE, 0, &at);
    if (c == NULL) {
        lmdb_commit_records(s, req);
        return;
    }
    struct lmdb_job *j = lmdb_commit_job(s, req, c);
    if (j == NULL) {
        op->result = SNIC_ENOMEM;
        lmdb_done(s, req);
        return;
    }
    j->next = lmdb_commit_start;
    lmdb_job_queue(j);
}

#endif /* SNIC_WITH_LMDB */
