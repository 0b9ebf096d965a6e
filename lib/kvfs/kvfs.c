/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * The engine: operations are submitted, run, wait, and end.
 *
 * K1  An operation is free, ready (in k->ready), running, or waiting. It waits for the store
 *     (in_flight), or in one list (wait_link: locks, memory, numbers, sleepers), or for a time.
 * K2  While a store operation of it is in flight, an operation neither ends nor starts over: the
 *     store has borrowed its memory and the request's.
 * K3  Functions run from kvfs_pump() only, never inside each other.
 */
#include "kvfs/ops.h"

enum { KVFS_REQUESTS_MAX = 65536, KVFS_BLOCKS_MAX = 1024, KVFS_BLOCKS_MIN = 32 };
#define SNIC_KVFS__TIME_MAX (1ULL << 62) /* ns: added to the present time it does not overflow */

/* ---- What each kind does ---- */

static const kvfs_run_fn kvfs_runs[SNIC_FSOP_KINDS] = {
    [SNIC_FSOP_LOOKUP] = kvfs_run_lookup,
    [SNIC_FSOP_GETATTR] = kvfs_run_getattr,
    [SNIC_FSOP_SETATTR] = kvfs_run_setattr,
    [SNIC_FSOP_READLINK] = kvfs_run_readlink,
    [SNIC_FSOP_MKNOD] = kvfs_run_make,
    [SNIC_FSOP_CREATE] = kvfs_run_make,
    [SNIC_FSOP_MKDIR] = kvfs_run_make,
    [SNIC_FSOP_SYMLINK] = kvfs_run_make,
    [SNIC_FSOP_UNLINK] = kvfs_run_unlink,
    [SNIC_FSOP_RMDIR] = kvfs_run_rmdir,
    [SNIC_FSOP_RENAME] = kvfs_run_rename,
    [SNIC_FSOP_LINK] = kvfs_run_link,
    [SNIC_FSOP_OPEN] = kvfs_run_open,
    [SNIC_FSOP_RELEASE] = kvfs_run_release,
    [SNIC_FSOP_FLUSH] = kvfs_run_flush,
    [SNIC_FSOP_FSYNC] = kvfs_run_fsync,
    [SNIC_FSOP_READ] = kvfs_run_read,
    [SNIC_FSOP_WRITE] = kvfs_run_write,
    [SNIC_FSOP_FALLOCATE] = kvfs_run_fallocate,
    [SNIC_FSOP_SEEK] = kvfs_run_seek,
    [SNIC_FSOP_COPY] = kvfs_run_copy,
    [SNIC_FSOP_OPENDIR] = kvfs_run_opendir,
    [SNIC_FSOP_READDIR] = kvfs_run_readdir,
    [SNIC_FSOP_RELEASEDIR] = kvfs_run_release,
    [SNIC_FSOP_STATFS] = kvfs_run_statfs,
    [SNIC_FSOP_SETXATTR] = kvfs_run_setxattr,
    [SNIC_FSOP_GETXATTR] = kvfs_run_getxattr,
    [SNIC_FSOP_LISTXATTR] = kvfs_run_listxattr,
    [SNIC_FSOP_REMOVEXATTR] = kvfs_run_removexattr,
    [SNIC_FSOP_ACCESS] = kvfs_run_access,
    [SNIC_FSOP_GETLK] = kvfs_run_getlk,
    [SNIC_FSOP_SETLK] = kvfs_run_setlk,
    [SNIC_FSOP_FLOCK] = kvfs_run_flock,
    [SNIC_FSOP_SYNCFS] = kvfs_run_fsync,
    [SNIC_FSOP_RESOLVE] = kvfs_run_resolve,
    [SNIC_FSOP_MKFS] = kvfs_run_mkfs,
    [SNIC_FSOP_MOUNT] = kvfs_run_mount,
    [SNIC_FSOP_UNMOUNT] = kvfs_run_unmount,
};

/* The engine's own: the layers below start them by kind (kvfs_spawn). */
static const kvfs_run_fn kvfs_own_runs[KVFS_OWN_KINDS] = {
    [KVFS_OWN_HEARTBEAT] = kvfs_run_heartbeat, [KVFS_OWN_YIELD] = kvfs_run_yield,
    [KVFS_OWN_RECOVER] = kvfs_run_recover,     [KVFS_OWN_SWEEP] = kvfs_run_sweep,
    [KVFS_OWN_COLLECT] = kvfs_run_collect,     [KVFS_OWN_TIMES] = kvfs_run_times,
    [KVFS_OWN_NUMBERS] = kvfs_run_numbers,     [KVFS_OWN_PUBLISH] = kvfs_run_publish,
};

/* ---- Options and memory ---- */

/* All options, defaults filled in. Which one is wrong, and how; NULL: none. */
static const char *kvfs_opts_fill(struct snic_kvfs_opts *o, const struct snic_kvfs_opts *from)
{
    *o = (struct snic_kvfs_opts){.opts_size = sizeof(*o)};
    if (snic_opts_copy(o, sizeof(*o), from) != 0)
        return "opts_size: not the struct's, or an unknown option is set";
    if ((o->flags & ~(SNIC_KVFS_READ_ONLY | SNIC_KVFS_NO_ATIME | SNIC_KVFS_NO_DIRATIME |
                      SNIC_KVFS_STRICT_ATIME)) != 0)
        return "flags: unknown bits";
    if (o->reserved != 0)
        return "reserved: not 0";
    if (o->session_id == 0)
        return "session_id: 0";
    if (o->identity_size > SNIC_KVOP_IDENTITY_MAX)
        return "identity_size: above 128";
    o->requests_max = o->requests_max == 0 ? 1024 : o->requests_max;
    o->inodes_max = o->inodes_max == 0 ? 65536 : o->inodes_max;
    o->locks_max = o->locks_max == 0 ? 16384 : o->locks_max;
    o->cache_bytes = o->cache_bytes == 0 ? 16U << 20 : o->cache_bytes;
    o->times_ns = o->times_ns == 0 ? 1000000000U : o->times_ns;
    o->lease_ns = o->lease_ns == 0 ? 10000000000U : o->lease_ns;
    o->heartbeat_ns = o->heartbeat_ns == 0 ? 1000000000U : o->heartbeat_ns;
    if (o->requests_max > KVFS_REQUESTS_MAX)
        return "requests_max: above 65536";
    if (o->inodes_max > 1U << 30)
        return "inodes_max: above 2^30";
    if (o->locks_max > 1U << 30)
        return "locks_max: above 2^30";
    if (o->cache_bytes > 1ULL << 40)
        return "cache_bytes: above 2^40";
    if (o->times_ns > SNIC_KVFS__TIME_MAX)
        return "times_ns: above 2^62";
    if (o->lease_ns > SNIC_KVFS__TIME_MAX)
        return "lease_ns: above 2^62";
    return o->heartbeat_ns >= o->lease_ns ? "heartbeat_ns: not less than lease_ns" : NULL;
}

const char *snic_kvfs_opts_wrong(const struct snic_kvfs_opts *o)
{
    struct snic_kvfs_opts full;
    return kvfs_opts_fill(&full, o);
}

static void kvfs_place(struct snic_arena *a, const struct snic_kvfs_opts *o, struct snic_kvfs **out)
{
    struct snic_kvfs measured = {0};
    struct snic_kvfs *k = snic_arena_take(a, 1, sizeof(*k), SNIC_KVFS_ALIGN);
    if (k == NULL)
        k = &measured;
    else
        memset(k, 0, sizeof(*k));
    k->op_count = o->requests_max + KVFS_OWN_MAX;
    k->ops = snic_arena_take(a, k->op_count, sizeof(*k->ops), SNIC_KVFS_ALIGN);
    k->blocks.count = (uint32_t)snic_min_u64(snic_max_u64(o->requests_max / 8U, KVFS_BLOCKS_MIN),
                                             KVFS_BLOCKS_MAX);
    k->blocks.memory = snic_arena_take(a, k->blocks.count, KVFS_BLOCK, SNIC_KVFS_ALIGN);
    k->blocks.free = snic_arena_take(a, k->blocks.count, sizeof(*k->blocks.free), SNIC_KVFS_ALIGN);
    kvfs_inodes_place(&k->inodes, a, o->inodes_max + o->requests_max);
    kvfs_cache_place(&k->cache, a, o->cache_bytes);
    k->locks = snic_arena_take(a, 1, kvfs_locks_memsize(o), SNIC_KVFS_ALIGN);
    *out = k == &measured ? NULL : k;
}

size_t snic_kvfs_memsize(const struct snic_kvfs_opts *opts)
{
    struct snic_arena a = {0};
    struct snic_kvfs_opts o;
    struct snic_kvfs *k;
    if (kvfs_opts_fill(&o, opts) != NULL)
        return 0;
    kvfs_place(&a, &o, &k);
    return a.used == SIZE_MAX ? 0 : a.used;
}

static void kvfs_timer(struct snic_timer *t, uint64_t now_ns)
{
    (void)now_ns;
    kvfs_wake(SNIC_CONTAINER(t, struct kvfs_op, timer));
}

static void kvfs_init_ops(struct snic_kvfs *k)
{
    for (uint32_t i = 0; i < k->op_count; i++) {
        struct kvfs_op *op = &k->ops[i];
        memset(op, 0, offsetof(struct kvfs_op, memory));
        op->k = k;
        op->own = i >= k->o.requests_max;
        snic_link_init(&op->wait_link);
        snic_timer_init(&op->timer, kvfs_timer);
        for (int p = 0; p <= KVFS_MAIN; p++)
            op->place[p].state = KVFS_PLACE_FREE;
        snic_queue_push(op->own ? &k->free_own : &k->free_ops, &op->node);
    }
}

int snic_kvfs_init(struct snic_kvfs **out, void *mem, size_t size,
                   const struct snic_kvfs_opts *opts)
{
    struct snic_arena a = {.base = mem, .size = size};
    struct snic_kvfs_opts o;
    struct snic_kvfs *k;
    if (kvfs_opts_fill(&o, opts) != NULL || (uintptr_t)mem % SNIC_KVFS_ALIGN != 0)
        return SNIC_EINVAL;
    if (size < snic_kvfs_memsize(opts))
        return SNIC_ENOSPC;
    kvfs_place(&a, &o, &k);
    SNIC_ASSERT(k != NULL && a.used != SIZE_MAX);
    k->o = o;
    k->o.opts_size = sizeof(o);
    k->own_runs = kvfs_own_runs;
    snic_wheel_init(&k->wheel, 0);
    snic_rng_init(&k->rng, o.session_id);
    kvfs_session_init(k);
    snic_link_init(&k->ino_waiters);
    snic_link_init(&k->deferred);
    snic_link_init(&k->collects);
    kvfs_linger_init(k);
    snic_link_init(&k->blocks.waiters);
    memset(k->inodes.buckets, 0, (k->inodes.mask + 1) * sizeof(*k->inodes.buckets));
    for (uint32_t i = 0; i < k->blocks.count; i++)
        k->blocks.free[k->blocks.free_count++] = k->blocks.memory + (size_t)i * KVFS_BLOCK;
    kvfs_locks_init(k->locks, &k->o);
    kvfs_init_ops(k);
    *out = k;
    return 0;
}

void *snic_kvfs_fini(struct snic_kvfs *k)
{
    SNIC_ASSERT(!k->pumping);
    SNIC_ASSERT(k->in_flight == 0 && k->own_in_flight == 0);
    SNIC_ASSERT(snic_queue_empty(&k->done) && snic_queue_empty(&k->io_queue));
    SNIC_ASSERT(snic_queue_empty(&k->ready));
    return k;
}

/* ---- Operations run ---- */

/* The last one used is taken next: its memory is in the processor's caches. */
static void kvfs_push_free(struct snic_queue *q, struct kvfs_op *op)
{
    op->node.next = q->first;
    q->first = &op->node;
    if (q->last == NULL)
        q->last = &op->node;
}

/* Release all that it holds. Nothing of it is in flight (K2). */
static void kvfs_finish(struct kvfs_op *op)
{
    struct snic_kvfs *k = op->k;
    struct snic_fsop *req = op->req;
    SNIC_ASSERT(op->in_flight == 0); /* K2 */
    SNIC_ASSERT(!op->asleep && snic_link_alone(&op->wait_link));
    kvfs_unlock_all(op);
    kvfs_memory_drop(op);
    op->state = KVFS_OP_FREE;
    op->run = NULL;
    op->req = NULL;
    if (req == NULL) {
        SNIC_ASSERT(k->own_in_flight > 0);
        k->own_in_flight--;
        kvfs_push_free(&k->free_own, op);
        kvfs_inode_pump(k);
        return;
    }
    SNIC_DASSERT(k->in_flight > 0);
    k->in_flight--;
    kvfs_push_free(&k->free_ops, op);
    if (op->result < 0) /* fenced: the session is dead */
        req->result = op->result == SNIC_ESHUTDOWN ? SNIC_EIO : op->result;
    k->stats.errors += req->result < 0;
    snic_queue_push(&k->done, &req->node);
}

static void kvfs_start_over(struct kvfs_op *op)
{
    SNIC_ASSERT(op->in_flight == 0); /* K2 */
    op->again = 0;
    if (op->drop)
        kvfs_unlock_for_retry(op);
    op->drop = 0;
    kvfs_memory_drop(op);
    op->phase = op->phase0;
    memcpy(op->s, op->s0, sizeof(op->s));
    kvfs_txn_begin(op);
}

/* Check for locks, memory, a live session. 1 it may run; 0 it waits; SNIC_E*. */
static int kvfs_admit(struct kvfs_op *op)
{
    int rc;
    if (!kvfs_memory_admit(op) || !kvfs_lock_admit(op))
        return 0;
    if (op->req == NULL || op->req->kind >= SNIC_FSOP_MKFS || op->commit_state != KVFS_COMMIT_NONE)
        return 1;
    rc = kvfs_session_admit(op);
    if (rc < 0 && kvfs_is_release(op))
        return 1; /* a handle ends in any case */
    if (rc < 0)
        kvfs_locks_stop_waiting(op);
    return rc == 0 ? 1 : rc == KVFS_PENDING ? 0 : rc;
}

/* One run, and the handling of its result. */
static void kvfs_step(struct kvfs_op *op)
{
    int rc;
    SNIC_DASSERT(op->state == KVFS_OP_READY); /* K1 */
    op->state = KVFS_OP_RUNNING;
    if (op->in_flight == 0 && op->again)
        kvfs_start_over(op);
    rc = op->ended || op->again || op->asleep ? 0 : kvfs_admit(op);
    if (rc == 1) {
        op->run_count++;
        op->number_at = 0;
        op->alloc_at = &op->allocs;
        rc = op->run(op);
        if (op->again)
            rc = KVFS_PENDING;
        if (rc == KVFS_PENDING && !op->again)
            rc = kvfs_txn_request(op);
        op->ended = rc != KVFS_PENDING;
        op->result = rc;
    } else if (rc < 0) {
        op->ended = 1;
        op->result = rc;
    }
    if (op->in_flight == 0 && op->ended) {
        kvfs_finish(op);
        return;
    }
    op->state = KVFS_OP_WAITING;
    if (op->in_flight == 0 && op->again)
        kvfs_ready(op);
}

static void kvfs_pump(struct snic_kvfs *k)
{
    struct snic_node *n;
    SNIC_ASSERT(!k->pumping); /* K3 */
    k->pumping = 1;
    while ((n = snic_queue_pop(&k->ready)) != NULL)
        kvfs_step(SNIC_CONTAINER(n, struct kvfs_op, node));
    k->pumping = 0;
}

/* The main place has its result. */
static void kvfs_main_done(struct kvfs_op *op)
{
    struct kvfs_place *place = &op->place[KVFS_MAIN];
    place->state = KVFS_PLACE_FREE;
    if (op->commit_state == KVFS_COMMIT_SENT || op->commit_state == KVFS_COMMIT_UNKNOWN)
        kvfs_txn_commit_done(op, &place->io.op);
    else
        kvfs_txn_get_done(op, &place->io.op);
}

static void kvfs_tick(struct snic_kvfs *k, struct snic_kvfs_now now)
{
    SNIC_DASSERT(now.mono_ns >= k->now.mono_ns);
    k->now = now;
}

/* ---- Requests ---- */

int snic_kvfs_submit(struct snic_kvfs *k, struct snic_fsop *req, struct snic_kvfs_now now)
{
    struct snic_node *n;
    struct kvfs_op *op;
    if (req->kind == 0 || req->kind >= SNIC_FSOP_KINDS || kvfs_runs[req->kind] == NULL)
        return SNIC_EINVAL;
    n = snic_queue_pop(&k->free_ops);
    if (n == NULL)
        return SNIC_EAGAIN;
    kvfs_tick(k, now);
    SNIC_DASSERT(req->name_size == 0 || req->name != NULL);
    SNIC_DASSERT(req->iov_count == 0 || req->iov != NULL);
    op = SNIC_CONTAINER(n, struct kvfs_op, node);
    op->req = req;
    op->ino = req->ino == SNIC_FSOP_ROOT ? 0 : req->ino;
    op->ino2 = req->ino2 == SNIC_FSOP_ROOT ? 0 : req->ino2;
    req->engine[0] = (uint64_t)(op - k->ops);
    req->result = 0;
    k->stats.requests++;
    k->in_flight++;
    kvfs_begin_op(op, kvfs_runs[req->kind]);
    kvfs_pump(k);
    return 0;
}

void snic_kvfs_cancel(struct snic_kvfs *k, struct snic_fsop *req, struct snic_kvfs_now now)
{
    struct kvfs_op *op;
    kvfs_tick(k, now);
    if (req->engine[0] >= k->op_count)
        return;
    op = &k->ops[req->engine[0]];
    if (op->state == KVFS_OP_FREE || op->req != req)
        return;
    op->cancelled = 1;
    kvfs_wake(op);
    kvfs_pump(k);
}

struct snic_kvfs_io *snic_kvfs_poll_io(struct snic_kvfs *k)
{
    struct snic_node *n = snic_queue_pop(&k->io_queue);
    return n == NULL ? NULL : &SNIC_CONTAINER(n, struct kvfs_place, node)->io;
}

struct snic_fsop *snic_kvfs_poll_done(struct snic_kvfs *k)
{
    struct snic_node *n = snic_queue_pop(&k->done);
    return n == NULL ? NULL : SNIC_CONTAINER(n, struct snic_fsop, node);
}

void snic_kvfs_complete(struct snic_kvfs *k, struct snic_kvfs_io *io, struct snic_kvfs_now now)
{
    struct kvfs_place *place = SNIC_CONTAINER(io, struct kvfs_place, io);
    struct kvfs_op *op = place->owner;
    SNIC_ASSERT(place->state == KVFS_PLACE_SENT); /* completed once */
    SNIC_ASSERT(op->in_flight > 0 && op->state != KVFS_OP_FREE);
    kvfs_tick(k, now);
    place->state = KVFS_PLACE_DONE;
    op->in_flight--;
    if (place == &op->place[KVFS_MAIN])
        kvfs_main_done(op);
    kvfs_ready(op);
    if (io->op.result == SNIC_ESHUTDOWN)
        kvfs_session_fenced(k);
    kvfs_pump(k);
}

void snic_kvfs_advance(struct snic_kvfs *k, struct snic_kvfs_now now)
{
    struct snic_timer *t;
    kvfs_tick(k, now);
    while ((t = snic_wheel_pop(&k->wheel, now.mono_ns)) != NULL)
        t->fn(t, now.mono_ns);
    kvfs_session_advance(k);
    kvfs_pump(k);
}

uint64_t snic_kvfs_deadline_ns(const struct snic_kvfs *k)
{
    /* The wheel sorts a slot when it is queried: nothing visible changes. */
    struct snic_wheel *w = (struct snic_wheel *)(uintptr_t)&k->wheel;
    return snic_min_u64(snic_wheel_deadline_ns(w), kvfs_session_deadline(k));
}

void snic_kvfs_set_sole(struct snic_kvfs *k, int sole)
{
    if (k->sole == (sole != 0))
        return;
    k->sole = sole != 0;
    kvfs_session_advance(k);
    kvfs_pump(k);
}

uint64_t snic_kvfs_valid_until_ns(const struct snic_kvfs *k)
{
    return kvfs_session_valid_until(k);
}

void snic_kvfs_get_stats(const struct snic_kvfs *k, struct snic_kvfs_stats *out)
{
    *out = k->stats;
    out->in_flight = k->in_flight;
    out->inodes = k->inodes.count;
    out->held = k->inodes.held;
    out->alone = (uint64_t)kvfs_alone(k);
    out->sessions = k->session.mounted && !k->session.dead ? k->session.other_count + 1U : 0;
}
