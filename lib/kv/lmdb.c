/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * The store on LMDB: the handle, its requests, its turns. For the design see lmdb_priv.h.
 *
 * Its turn is the message that ends a loop's iteration: batches are sent, jobs started, and results
 * delivered from there, so that no done is called inside submit and changes submitted together are
 * in one batch.
 */
#include "snicstore/kv.h"

#include <stdio.h>
#include <string.h>

#include "kv/lmdb_priv.h"

#if defined(SNIC_WITH_LMDB)

#include <errno.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

enum { LMDB_DEPTH = 4096, LMDB_DEPTH_MAX = 1 << 20 };
#define SNIC_LMDB__MAP_BYTES (64ULL << 30)
#define SNIC_LMDB__BATCH_NS 5000000ULL
#define SNIC_LMDB__BATCH_BYTES (32ULL << 20)

/* ---- Requests ---- */

static void lmdb_run_sync(struct lmdb_kv *s, struct snic_kv_req *req)
{
    lmdb_batch_wait(s, req, lmdb_ticket(s, 1));
}

/**
 * 1: it waits until the changes in memory are written, to know how full the disk is. It waits for
 * that once: requests that may use the reserve continue to add to memory.
 */
static int lmdb_held_tight(struct lmdb_kv *s, struct snic_kv_req *req)
{
    uint64_t unwritten = s->flight != NULL ? s->flight->seq : s->active->seq;
    if ((req->op->flags & SNIC_KVOP_RESERVE) != 0 || !lmdb_space_tight(s))
        return 0;
    if (req->backend[4] == 0)
        req->backend[4] = s->active->seq;
    if (req->backend[4] < unwritten)
        return 0;
    if (s->flight == NULL)
        lmdb_turn_soon(s);
    return 1;
}

/** 1: it waits for space in memory, for the mode to change, or to know how full the disk is. */
static int lmdb_held(struct lmdb_kv *s, struct snic_kv_req *req)
{
    if (!kv_op_changes(req->op))
        return 0;
    return s->quiescing || lmdb_batch_crowded(s) || lmdb_held_tight(s, req);
}

/** Begin or repeat a request. */
static void lmdb_request(struct lmdb_kv *s, struct snic_kv_req *req)
{
    struct snic_kvop *op = req->op;
    if (s->dead != 0) {
        op->result = s->dead;
        op->os_error = s->dead_os;
        lmdb_done(s, req);
        return;
    }
    if (lmdb_held(s, req)) {
        snic_queue_push(&s->blocked, &req->node);
        return;
    }
    if (s->mode == LMDB_SHARED)
        lmdb_snapshot_drop(s); /* others commit, too */
    switch (op->kind) {
    case SNIC_KVOP_GET:
        lmdb_run_get(s, op);
        lmdb_done(s, req);
        break;
    case SNIC_KVOP_SCAN:
        lmdb_run_scan(s, op);
        lmdb_done(s, req);
        break;
    case SNIC_KVOP_GROUPS:
        lmdb_run_groups(s, op);
        lmdb_done(s, req);
        break;
    case SNIC_KVOP_COMMIT:
        lmdb_run_commit(s, req);
        break;
    case SNIC_KVOP_SYNC:
        lmdb_run_sync(s, req);
        break;
    case SNIC_KVOP_SPACE:
        lmdb_space_bytes(s, &op->space, &op->space_free);
        lmdb_done(s, req);
        break;
    default:
        lmdb_run_object(s, req);
        break;
    }
}

static int lmdb_submit(struct snic_kv *kv, struct snic_kv_req **reqs, uint32_t n)
{
    struct lmdb_kv *s = SNIC_CONTAINER(kv, struct lmdb_kv, kv);
    if (s->closing)
        return SNIC_ECANCELED;
    if (s->dead != 0)
        return SNIC_EIO;
    lmdb_mode_look(s);
    uint64_t now = snic_loop_now(kv->loop);
    uint32_t i = 0;
    for (; i < n && s->in_flight < kv->depth_max; i++) {
        struct snic_kv_req *req = reqs[i];
        kv_req_accept(kv, req, now);
        s->in_flight++;
        req->backend[0] = 0;
        req->backend[3] = 0;
        req->backend[4] = 0;
        int r = snic_kvop_validate(req->op, kv->caps);
        if (r != 0) {
            req->op->result = r;
            lmdb_done(s, req);
        } else {
            lmdb_request(s, req);
        }
    }
    return (int)i;
}

static void lmdb_cancel(struct snic_kv *kv, struct snic_kv_req *req)
{
    struct lmdb_kv *s = SNIC_CONTAINER(kv, struct lmdb_kv, kv);
    struct snic_queue left = {0};
    for (struct snic_node *n; (n = snic_queue_pop(&s->blocked)) != NULL;) {
        if (n != &req->node) {
            snic_queue_push(&left, n);
            continue;
        }
        req->op->result = SNIC_ECANCELED;
        lmdb_done(s, req);
    }
    s->blocked = left;
}

static int lmdb_is_sole(struct snic_kv *kv)
{
    struct lmdb_kv *s = SNIC_CONTAINER(kv, struct lmdb_kv, kv);
    lmdb_mode_look(s);
    return s->mode == LMDB_SOLE && !s->quiescing && s->dead == 0;
}

/* ---- Turns ---- */

/** After the end of the handle: everything that waits fails. */
static void lmdb_turn_dead(struct lmdb_kv *s)
{
    struct snic_queue *queues[] = {&s->waiters, &s->blocked, &s->active->commits};
    for (uint32_t i = 0; i < SNIC_COUNTOF(queues); i++) {
        for (struct snic_node *n; (n = snic_queue_pop(queues[i])) != NULL;) {
            struct snic_kv_req *req = SNIC_CONTAINER(n, struct snic_kv_req, node);
            req->op->result = s->dead;
            req->op->os_error = s->dead_os;
            lmdb_commit_over(s, req);
        }
    }
    for (struct snic_node *n; (n = snic_queue_pop(&s->job_waiters)) != NULL;) {
        struct lmdb_job *j = SNIC_CONTAINER(n, struct lmdb_job, node);
        lmdb_job_fail(j, s->dead, s->dead_os);
        lmdb_job_step(j);
    }
}

/** Commits that a transaction has evaluated. */
static void lmdb_turn_evaluated(struct lmdb_kv *s)
{
    for (struct snic_node *n; (n = snic_queue_pop(&s->evaluated)) != NULL;)
        lmdb_commit_over(s, SNIC_CONTAINER(n, struct snic_kv_req, node));
}

static void lmdb_turn_jobs(struct lmdb_kv *s)
{
    struct snic_queue yields = s->yields;
    s->yields = (struct snic_queue){0};
    for (struct snic_node *n; (n = snic_queue_pop(&yields)) != NULL;) {
        struct lmdb_job *j = SNIC_CONTAINER(n, struct lmdb_job, node);
        if (s->dead != 0)
            lmdb_job_fail(j, s->dead, s->dead_os);
        lmdb_job_step(j);
    }
    lmdb_jobs_wake(s);
    struct snic_queue blocked = s->blocked;
    s->blocked = (struct snic_queue){0};
    for (struct snic_node *n; (n = snic_queue_pop(&blocked)) != NULL;)
        lmdb_request(s, SNIC_CONTAINER(n, struct snic_kv_req, node));
}

static int lmdb_turn_wants_batch(const struct lmdb_kv *s)
{
    return s->waiters.first != NULL || s->job_waiters.first != NULL || s->blocked.first != NULL ||
           s->active->commits.first != NULL || s->active->table.bytes >= s->opts.batch_bytes / 2;
}

static void lmdb_turn(struct snic_loop_msg *msg)
{
    struct lmdb_kv *s = SNIC_CONTAINER(msg, struct lmdb_kv, turn);
    lmdb_turn_evaluated(s); /* what they add is this turn's */
    s->turn_set = 0;
    if (s->dead != 0)
        lmdb_turn_dead(s);
    lmdb_turn_jobs(s);
    if (s->chunk_count > LMDB_CHUNKS_MAX)
        lmdb_chunks_trim(s);
    if (s->quiescing)
        lmdb_mode_step(s);
    struct snic_queue done = s->done;
    s->done = (struct snic_queue){0};
    for (struct snic_node *n; (n = snic_queue_pop(&done)) != NULL;) {
        s->in_flight--;
        kv_req_finish(&s->kv, SNIC_CONTAINER(n, struct snic_kv_req, node));
    }
    if (s->mode == LMDB_SHARED)
        lmdb_snapshot_drop(s); /* an old one prevents LMDB from reusing pages */
    /* Requests submitted by the done functions join this batch. */
    if (lmdb_turn_wants_batch(s))
        lmdb_batch_kick(s);
}

/** Requests of @p q over their time end with @p error. */
static void lmdb_expire(struct lmdb_kv *s, struct snic_queue *q, int error, uint64_t now)
{
    struct snic_queue left = {0};
    for (struct snic_node *n; (n = snic_queue_pop(q)) != NULL;) {
        struct snic_kv_req *req = SNIC_CONTAINER(n, struct snic_kv_req, node);
        uint64_t limit = req->timeout_ns != 0 ? req->timeout_ns : s->kv.timeout_ns;
        if (now - req->queued_ns < limit) {
            snic_queue_push(&left, n);
            continue;
        }
        req->op->result = req->op->kind == SNIC_KVOP_SYNC ? SNIC_ETIMEDOUT : error;
        lmdb_done(s, req);
    }
    *q = left;
}

/* Return unused space to the disk. */
static void lmdb_trim(struct lmdb_kv *s, uint64_t keep, uint32_t most)
{
    if (s->mode != LMDB_SOLE || s->quiescing || s->dead != 0 || s->full != 0 || s->readonly)
        return;
    lmdb_space_trim(s, keep, most);
    if (s->active->trims.count > 0)
        lmdb_turn_soon(s);
}

static void lmdb_tick(struct snic_timer *t, uint64_t now_ns)
{
    struct lmdb_kv *s = SNIC_CONTAINER(t, struct lmdb_kv, tick_timer);
    snic_loop_arm(s->kv.loop, t, now_ns + SNIC_LMDB__TICK_NS);
    if (s->dead != 0)
        return;
    lmdb_mode_look(s);
    lmdb_expire(s, &s->waiters, SNIC_EUNKNOWN, now_ns);
    lmdb_expire(s, &s->blocked, SNIC_ETIMEDOUT, now_ns);
    lmdb_trim(s, SNIC_LMDB__SPARE, SNIC_LMDB__TRIMS);
    if (s->mode == LMDB_SHARED)
        lmdb_mode_claim(s, now_ns);
    else if (s->marked > 0 && s->overwrites == 0 && !s->quiescing && !s->readonly &&
             now_ns - s->overwrite_ns >= SNIC_LMDB__IDLE_NS)
        lmdb_marks_clean(s);
}

/* ---- Close ---- */

static void lmdb_free(struct lmdb_kv *s)
{
    snic_loop_cancel(s->kv.loop, &s->batch_timer);
    snic_loop_cancel(s->kv.loop, &s->tick_timer);
    snic_loop_cancel(s->kv.loop, &s->share_timer);
    lmdb_writer_close(s);
    snic_io_unwait(&s->flush_room);
    snic_io_unwait(&s->io_room);
    snic_io_close(s->buffered);
    snic_io_close(s->direct);
    lmdb_chunks_drop(s, LMDB_LOCKS);
    free(s->locks);
    lmdb_space_close(s);
    lmdb_jobs_close(s);
    lmdb_io_close(s);
    for (int i = 0; i < 2; i++) {
        lmdb_table_close(&s->batches[i].table);
        free(s->batches[i].frees.at);
        free(s->batches[i].trims.at);
        free(s->batches[i].marks.at);
        free(s->batches[i].got.at);
    }
    if (s->cursor != NULL)
        mdb_cursor_close(s->cursor);
    if (s->snap != NULL)
        mdb_txn_abort(s->snap);
    if (s->env != NULL)
        mdb_env_close(s->env);
    if (s->object_fd >= 0)
        (void)close(s->object_fd);
    lmdb_session_close(s);
    free(s);
}

static void lmdb_close(struct snic_kv *kv)
{
    struct lmdb_kv *s = SNIC_CONTAINER(kv, struct lmdb_kv, kv);
    s->closing = 1;
    while (s->in_flight > 0 || s->quiescing) {
        int r = snic_loop_once(kv->loop, SNIC_NEVER);
        SNIC_ASSERT(r >= 0); /* the kernel still owns the callers' memory: cannot continue */
    }
    if (s->dead == 0 && !s->readonly) {
        int r = lmdb_batch_drain(s); /* the blocks that it frees are free then */
        if (r == 0)
            lmdb_trim(s, 0, UINT32_MAX);
        (void)lmdb_mode_settle(s);
    }
    while (s->flight != NULL && s->flight->parts > 0)
        (void)snic_loop_once(kv->loop, SNIC_NEVER);
    while (s->turn_set)
        (void)snic_loop_once(kv->loop, 0);
    lmdb_free(s);
}

static const struct snic_kv_ops lmdb_ops = {
    .ops_size = sizeof(struct snic_kv_ops),
    .name = "lmdb",
    .submit = lmdb_submit,
    .cancel = lmdb_cancel,
    .sole = lmdb_is_sole,
    .close = lmdb_close,
};

/* ---- Open ---- */

/** The defaults are set. 0, or SNIC_EINVAL and @p text names the option. */
static int lmdb_opts_check(const struct lmdb_kv *s, const struct snic_kv_lmdb_opts *o, char *text)
{
    const uint32_t known =
        SNIC_KV_OPEN_CREATE | SNIC_KV_OPEN_READONLY | SNIC_KV_OPEN_SOLE | SNIC_KV_OPEN_VERIFY;
    const char *wrong = NULL;
    if (o->path == NULL || o->path[0] == '\0' || strlen(o->path) >= sizeof(s->path))
        wrong = "path: missing, or longer than 3071 bytes";
    else if ((o->flags & ~known) != 0 || o->reserved != 0)
        wrong = "flags, reserved: unknown bits are set";
    else if ((o->flags & SNIC_KV_OPEN_READONLY) != 0 && (o->flags & SNIC_KV_OPEN_CREATE) != 0)
        wrong = "flags: a store that is only read cannot be created";
    else if (o->depth > LMDB_DEPTH_MAX)
        wrong = "depth: more than 1048576";
    else if (o->map_bytes < 1U << 20 || o->map_bytes > 1ULL << 46)
        wrong = "map_bytes: not between 1 MiB and 64 TiB";
    if (wrong == NULL)
        return 0;
    (void)snprintf(text, LMDB_TEXT, "%s", wrong);
    return SNIC_EINVAL;
}

static int lmdb_opts(struct lmdb_kv *s, const struct snic_kv_lmdb_opts *in, char *text)
{
    struct snic_kv_lmdb_opts *o = &s->opts;
    int r = snic_opts_copy(o, sizeof(*o), in);
    if (r != 0) {
        (void)snprintf(text, LMDB_TEXT, "opts_size: not that of a version known here");
        return r;
    }
    o->map_bytes = o->map_bytes == 0 ? SNIC_LMDB__MAP_BYTES : o->map_bytes;
    o->batch_ns = o->batch_ns == 0 ? SNIC_LMDB__BATCH_NS : o->batch_ns;
    o->batch_bytes = o->batch_bytes == 0 ? SNIC_LMDB__BATCH_BYTES : o->batch_bytes;
    o->timeout_ns = o->timeout_ns == 0 ? SNIC_KV__TIMEOUT_NS : o->timeout_ns;
    o->depth = o->depth == 0 ? LMDB_DEPTH : o->depth;
    r = lmdb_opts_check(s, o, text);
    if (r != 0)
        return r;
    memcpy(s->path, o->path, strlen(o->path) + 1);
    o->path = s->path;
    o->map_bytes = snic_align_up(o->map_bytes, 1U << 16);
    s->readonly = (o->flags & SNIC_KV_OPEN_READONLY) != 0;
    return 0;
}

static void lmdb_init(struct lmdb_kv *s, struct snic_loop *l)
{
    s->kv.ops = &lmdb_ops;
    s->kv.loop = l;
    s->kv.caps = SNIC_KV_CAP_ATOMIC_MULTI | SNIC_KV_CAP_CHECKSUM | SNIC_KV_CAP_ALLOC |
                 SNIC_KV_CAP_DURABLE | SNIC_KV_CAP_SHARED | SNIC_KV_CAP_ATOMIC_OBJECT |
                 (s->readonly ? SNIC_KV_CAP_READONLY : 0U);
    s->kv.depth_max = s->opts.depth;
    s->kv.stripe_bytes = 4U << 20;
    s->kv.transfer_optimal = 1U << 20;
    s->kv.timeout_ns = s->opts.timeout_ns;
    s->active = &s->batches[0];
    s->active->seq = 1;
    s->active->flush_mark = snic_loop_now(l);
    s->turn.fn = lmdb_turn;
    snic_timer_init(&s->batch_timer, lmdb_batch_timer);
    snic_timer_init(&s->tick_timer, lmdb_tick);
    snic_timer_init(&s->share_timer, lmdb_share_timer);
    snic_link_init(&s->chunk_ages);
    snic_io_waiter_init(&s->flush_room, lmdb_batch_writable);
    snic_io_waiter_init(&s->io_room, lmdb_io_writable);
    lmdb_writer_init(s, lmdb_batch_over);
    snic_link_init(&s->session.link);
    s->session.fd = -1;
    s->object_fd = -1;
}

static int lmdb_folder(struct lmdb_kv *s, int *os_error, char *text)
{
    struct stat st;
    if ((s->opts.flags & SNIC_KV_OPEN_CREATE) != 0 && mkdir(s->path, 0700) != 0 &&
        errno != EEXIST) {
        *os_error = errno;
        (void)snprintf(text, LMDB_TEXT, "cannot make the folder: %s", strerror(errno));
        return snic_error_from_os(errno);
    }
    int r = stat(s->path, &st) != 0 ? errno : S_ISDIR(st.st_mode) ? 0 : ENOTDIR;
    if (r == 0 && (s->opts.flags & SNIC_KV_OPEN_CREATE) == 0) {
        char data[sizeof(s->path) + 32];
        (void)snprintf(data, sizeof(data), "%s/data.mdb", s->path);
        r = stat(data, &st) != 0 ? errno : 0;
    }
    if (r != 0) {
        *os_error = r;
        (void)snprintf(text, LMDB_TEXT,
                       r == ENOENT ? "there is no store in the folder"
                                   : "cannot use the folder: %s",
                       strerror(r));
        return r == ENOTDIR ? SNIC_ENOENT : snic_error_from_os(r);
    }
    return 0;
}

/** On failure the caller frees it; @p text has LMDB_TEXT bytes. */
static int lmdb_open(struct lmdb_kv *s, struct snic_loop *l, int *error, char *text)
{
    int r = lmdb_folder(s, error, text);
    for (uint32_t i = 0; r == 0 && i < 2; i++)
        r = lmdb_table_open(&s->batches[i].table, i + 1);
    if (r == 0)
        r = lmdb_session_open(s, error, text);
    if (r == 0)
        r = lmdb_format_open(s, error, text);
    if (r == 0 && s->mode == LMDB_SOLE && !s->readonly)
        r = lmdb_recover(s, text);
    if (r == 0 && s->mode == LMDB_SHARED)
        r = lmdb_share_open(s);
    if (r == 0)
        r = lmdb_writer_open(s);
    if (r == 0)
        snic_loop_arm(l, &s->tick_timer, snic_loop_now(l) + SNIC_LMDB__TICK_NS);
    else if (text[0] == '\0')
        (void)snprintf(text, LMDB_TEXT, "%s", snic_strerror(r));
    return r;
}

int snic_kv_lmdb_open(struct snic_kv **out, struct snic_loop *l, const struct snic_kv_lmdb_opts *o,
                      int *error, char *text, size_t text_size)
{
    char own_text[LMDB_TEXT] = "";
    int own_error = 0;
    struct lmdb_kv *s = calloc(1, sizeof(*s));
    int r = s == NULL ? SNIC_ENOMEM : lmdb_opts(s, o, own_text);
    if (s == NULL) {
        (void)snprintf(own_text, LMDB_TEXT, "out of memory");
    } else if (r != 0) {
        free(s);
    } else {
        lmdb_init(s, l);
        r = lmdb_open(s, l, &own_error, own_text);
        if (r != 0)
            lmdb_free(s);
        else
            *out = &s->kv;
    }
    if (error != NULL)
        *error = own_error;
    if (text != NULL)
        (void)snprintf(text, text_size, "%s", own_text);
    return r;
}

#else /* SNIC_WITH_LMDB */

int snic_kv_lmdb_open(struct snic_kv **out, struct snic_loop *l, const struct snic_kv_lmdb_opts *o,
                      int *error, char *text, size_t text_size)
{
    (void)out;
    (void)l;
    (void)o;
    if (error != NULL)
        *error = 0;
    if (text != NULL)
        (void)snprintf(text, text_size, "built without LMDB");
    return SNIC_ENOTSUP;
}

#endif
