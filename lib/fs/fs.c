/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * The engine, joined to a store and a loop.
 *
 * A request goes to the engine at once, or waits behind those that the engine has no room for. What
 * follows happens in the pump, a deferred message, once per iteration of the loop however much was
 * submitted and completed in it: operations that the engine requests go to the door in batches,
 * `done` of finished requests is called, and the timer is set.
 *
 * Invariants
 *   F1 A request is in one place: posted (msg with the loop), waiting, with the engine, or refused.
 *      Its msg.fn is NULL exactly when it is in none.
 *   F2 An operation of the engine is in one place: held (the door was full), or with the door.
 *   F3 `done` of a request is called from the pump and from nowhere else.
 *   F4 The store's news of other handles goes to the engine before each submit and complete.
 */
#include "snicstore/fs.h"

enum { FS_BATCH = 64, FS_ALIGN = SNIC_CACHELINE };

struct fs_carrier {
    struct snic_kv_req req;
    struct snic_fs *fs;
};

SNIC_STATIC_ASSERT(sizeof(((struct snic_kvfs_io *)0)->carrier) >= sizeof(struct fs_carrier),
                   "a request of the door travels in the engine's operation");

struct snic_fs {
    void *memory; /* the caller's pointer */
    struct snic_kvfs *engine;
    struct snic_loop *loop;
    struct snic_kv *kv;
    int64_t (*wall)(void *ctx);
    void *ctx;
    void (*report_alone)(void *ctx, int alone);
    struct snic_queue waiting; /* op.node: the engine had no room */
    struct snic_queue refused; /* op.node: over before they began */
    struct snic_queue held;    /* carriers: the door was full    */
    struct snic_loop_msg pump;
    struct snic_timer timer;
    uint64_t requests; /* submitted and not done */
    uint64_t ios;      /* with the door          */
    uint64_t session_id;
    struct snic_fs_req call; /* of a call that runs the loop: there is one at a time */
    int calling;
    int pump_queued;
    int sole;
    int alone; /* as last reported */
    int pumping;
};

/* ---- Small things ---- */

static struct snic_kvfs_now fs_now(const struct snic_fs *fs)
{
    return (struct snic_kvfs_now){.mono_ns = snic_loop_now(fs->loop), .wall_ns = fs->wall(fs->ctx)};
}

/* F4 */
static void fs_sole(struct snic_fs *fs)
{
    int sole = snic_kv_sole(fs->kv);
    if (sole != fs->sole) {
        fs->sole = sole;
        snic_kvfs_set_sole(fs->engine, sole);
    }
}

static void fs_kick(struct snic_fs *fs)
{
    if (!fs->pump_queued && !fs->pumping) {
        fs->pump_queued = 1;
        snic_loop_defer(fs->loop, &fs->pump);
    }
}

static struct snic_fs_req *fs_of(struct snic_node *node)
{
    return SNIC_CONTAINER(node, struct snic_fs_req, op.node);
}

/* ---- Requests in ---- */

/* Marks a request that was submitted (F1); never called. */
static void fs_run_inside(struct snic_loop_msg *msg)
{
    (void)msg;
}

/* 1 if the engine, or the list of those that are over, has it; 0 if there is no room. */
static int fs_offer(struct snic_fs *fs, struct snic_fs_req *req)
{
    int rc;
    fs_sole(fs);
    rc = snic_kvfs_submit(fs->engine, &req->op, fs_now(fs));
    if (rc == SNIC_EAGAIN)
        return 0;
    if (rc != 0) {
        req->op.result = rc;
        snic_queue_push(&fs->refused, &req->op.node);
    }
    return 1;
}

static void fs_enter(struct snic_fs *fs, struct snic_fs_req *req)
{
    req->msg.fn = fs_run_inside; /* F1 */
    fs->requests++;
    if (!snic_queue_empty(&fs->waiting) || !fs_offer(fs, req))
        snic_queue_push(&fs->waiting, &req->op.node);
    fs_kick(fs);
}

void snic_fs_submit(struct snic_fs *fs, struct snic_fs_req *req)
{
    SNIC_ASSERT(req->done != NULL);
    SNIC_ASSERT(req->msg.fn == NULL); /* F1 */
    fs_enter(fs, req);
}

/* The service's address is in engine[0] until the engine has the request. */
static void fs_run_posted(struct snic_loop_msg *msg)
{
    struct snic_fs_req *req = SNIC_CONTAINER(msg, struct snic_fs_req, msg);
    struct snic_fs *fs = (struct snic_fs *)(uintptr_t)req->op.engine[0];
    req->op.engine[0] = 0;
    fs_enter(fs, req);
}

/* The request ends before it began. */
static void fs_refuse(struct snic_fs *fs, struct snic_fs_req *req, int error)
{
    req->op.result = error;
    snic_queue_push(&fs->refused, &req->op.node);
    fs_kick(fs);
}

/* It was cancelled on its way here. */
static void fs_run_cancelled(struct snic_loop_msg *msg)
{
    struct snic_fs_req *req = SNIC_CONTAINER(msg, struct snic_fs_req, msg);
    struct snic_fs *fs = (struct snic_fs *)(uintptr_t)req->op.engine[0];
    msg->fn = fs_run_inside;
    fs->requests++;
    fs_refuse(fs, req, SNIC_EINTR);
}

void snic_fs_post(struct snic_fs *fs, struct snic_fs_req *req)
{
    SNIC_ASSERT(req->done != NULL);
    SNIC_ASSERT(req->msg.fn == NULL); /* F1 */
    req->op.engine[0] = (uintptr_t)fs;
    req->msg.fn = fs_run_posted;
    snic_loop_post(fs->loop, &req->msg);
}

/* Take it out of those that wait for room. */
static int fs_unqueue(struct snic_fs *fs, struct snic_fs_req *req)
{
    struct snic_queue rest = {NULL, NULL};
    struct snic_node *n;
    int found = 0;
    while ((n = snic_queue_pop(&fs->waiting)) != NULL) {
        if (n == &req->op.node)
            found = 1;
        else
            snic_queue_push(&rest, n);
    }
    fs->waiting = rest;
    return found;
}

void snic_fs_cancel(struct snic_fs *fs, struct snic_fs_req *req)
{
    if (req->msg.fn == NULL || (req->op.flags & SNIC_FSOP_LOCK_WAIT) == 0)
        return;
    if (req->msg.fn == fs_run_posted || req->msg.fn == fs_run_cancelled) {
        req->msg.fn = fs_run_cancelled;
    } else if (fs_unqueue(fs, req)) {
        fs_refuse(fs, req, SNIC_EINTR);
    } else {
        snic_kvfs_cancel(fs->engine, &req->op, fs_now(fs));
        fs_kick(fs);
    }
}

/* ---- Operations of the engine ---- */

static struct fs_carrier *fs_carrier(struct snic_kvfs_io *io)
{
    return (struct fs_carrier *)(void *)io->carrier;
}

static struct snic_kvfs_io *fs_io(struct snic_kv_req *r)
{
    return SNIC_CONTAINER(r, struct snic_kvfs_io, carrier);
}

static void fs_io_done(struct snic_kv_req *r)
{
    struct snic_fs *fs = SNIC_CONTAINER(r, struct fs_carrier, req)->fs;
    SNIC_DASSERT(fs->ios > 0);
    fs->ios--;
    fs_sole(fs);
    snic_kvfs_complete(fs->engine, fs_io(r), fs_now(fs));
    fs_kick(fs);
}

/* The door is gone: everything ends with its error. */
static void fs_io_refused(struct snic_fs *fs, struct snic_kv_req *r, int error)
{
    r->op->result = error;
    r->op->failed_guard = UINT32_MAX;
    snic_kvfs_complete(fs->engine, fs_io(r), fs_now(fs));
}

static struct snic_kv_req *fs_next_io(struct snic_fs *fs)
{
    struct snic_node *n = snic_queue_pop(&fs->held);
    struct snic_kvfs_io *io;
    struct fs_carrier *c;
    if (n != NULL)
        return SNIC_CONTAINER(n, struct snic_kv_req, node);
    io = snic_kvfs_poll_io(fs->engine);
    if (io == NULL)
        return NULL;
    c = fs_carrier(io);
    memset(c, 0, sizeof(*c));
    c->fs = fs;
    c->req.done = fs_io_done;
    c->req.op = &io->op;
    return &c->req;
}

/* Hand a batch to the door. 0: some are held, since it has no room; 1: none is. */
static int fs_send(struct snic_fs *fs, struct snic_kv_req **batch, uint32_t n)
{
    struct snic_queue later = {NULL, NULL};
    struct snic_node *node;
    int taken = snic_kv_submit(fs->kv, batch, n);
    if (taken < 0) {
        for (uint32_t i = 0; i < n; i++)
            fs_io_refused(fs, batch[i], taken);
        return 1;
    }
    SNIC_ASSERT((uint32_t)taken <= n);
    fs->ios += (uint64_t)taken;
    if ((uint32_t)taken == n)
        return 1;
    for (uint32_t i = (uint32_t)taken; i < n; i++)
        snic_queue_push(&later, &batch[i]->node);
    while ((node = snic_queue_pop(&fs->held)) != NULL)
        snic_queue_push(&later, node);
    fs->held = later;
    return 0;
}

/* Report a change of `alone`, before the engine's operations that announce it are sent. */
static void fs_look(struct snic_fs *fs)
{
    struct snic_kvfs_stats s;
    if (fs->report_alone == NULL)
        return;
    snic_kvfs_get_stats(fs->engine, &s);
    if (fs->alone == (s.alone != 0))
        return;
    fs->alone = s.alone != 0;
    fs->report_alone(fs->ctx, fs->alone);
}

static void fs_start(struct snic_fs *fs)
{
    struct snic_kv_req *batch[FS_BATCH];
    uint32_t n;
    do {
        n = 0;
        while (n < FS_BATCH && (batch[n] = fs_next_io(fs)) != NULL)
            n++;
        fs_look(fs);
    } while (n > 0 && fs_send(fs, batch, n));
}

/* ---- The pump ---- */

static void fs_done(struct snic_fs *fs, struct snic_fs_req *req)
{
    SNIC_DASSERT(fs->requests > 0 && req->msg.fn != NULL);
    fs->requests--;
    req->msg.fn = NULL; /* F1 */
    req->done(req);     /* F3 */
}

/* There is room again. */
static void fs_admit(struct snic_fs *fs)
{
    struct snic_node *n;
    while ((n = snic_queue_pop(&fs->waiting)) != NULL)
        if (!fs_offer(fs, fs_of(n))) {
            n->next = fs->waiting.first;
            fs->waiting.first = n;
            if (fs->waiting.last == NULL)
                fs->waiting.last = n;
            return;
        }
}

/* 1 if any request ended: there may be new requests and operations. */
static int fs_deliver(struct snic_fs *fs)
{
    struct snic_fsop *k;
    struct snic_node *n;
    int ended = 0;
    while ((k = snic_kvfs_poll_done(fs->engine)) != NULL) {
        fs_done(fs, SNIC_CONTAINER(k, struct snic_fs_req, op));
        ended = 1;
    }
    while ((n = snic_queue_pop(&fs->refused)) != NULL) {
        fs_done(fs, fs_of(n));
        ended = 1;
    }
    if (ended)
        fs_admit(fs);
    return ended;
}

static void fs_arm(struct snic_fs *fs)
{
    uint64_t due = snic_kvfs_deadline_ns(fs->engine);
    if (due == UINT64_MAX)
        snic_loop_cancel(fs->loop, &fs->timer);
    else
        snic_loop_arm(fs->loop, &fs->timer, due);
}

static void fs_pump(struct snic_loop_msg *msg)
{
    struct snic_fs *fs = SNIC_CONTAINER(msg, struct snic_fs, pump);
    fs->pump_queued = 0;
    fs->pumping = 1;
    do {
        fs_start(fs);
    } while (fs_deliver(fs));
    fs->pumping = 0;
    fs_arm(fs);
}

static void fs_due(struct snic_timer *t, uint64_t now_ns)
{
    struct snic_fs *fs = SNIC_CONTAINER(t, struct snic_fs, timer);
    (void)now_ns;
    fs_sole(fs);
    snic_kvfs_advance(fs->engine, fs_now(fs));
    fs_kick(fs);
}

/* ---- Open and close ---- */

/* The service's own, of this version's size, and the engine's. Which one is wrong, and how; NULL:
   none. */
static const char *fs_opts_fill(struct snic_kvfs_opts *e, struct snic_fs_opts *f,
                                const struct snic_fs_opts *o)
{
    *f = (struct snic_fs_opts){.opts_size = sizeof(*f)};
    if (snic_opts_copy(f, sizeof(*f), o) != 0)
        return "opts_size: not the struct's, or an unknown option is set";
    if (f->wall == NULL)
        return "wall: NULL";
    if (f->reserved != 0)
        return "reserved: not 0";
    *e = (struct snic_kvfs_opts){.opts_size = sizeof(*e),
                                 .requests_max = f->requests_max,
                                 .inodes_max = f->inodes_max,
                                 .locks_max = f->locks_max,
                                 .cache_bytes = f->cache_bytes,
                                 .times_ns = f->times_ns,
                                 .lease_ns = f->lease_ns,
                                 .heartbeat_ns = f->heartbeat_ns,
                                 .flags = f->flags,
                                 .session_id = f->session_id,
                                 .damage = f->damage,
                                 .ctx = f->ctx};
    return snic_kvfs_opts_wrong(e); /* the same names */
}

const char *snic_fs_opts_wrong(const struct snic_fs_opts *o)
{
    struct snic_kvfs_opts e;
    struct snic_fs_opts f;
    return fs_opts_fill(&e, &f, o);
}

size_t snic_fs_memsize(const struct snic_fs_opts *o)
{
    struct snic_kvfs_opts e;
    struct snic_fs_opts f;
    size_t size = fs_opts_fill(&e, &f, o) == NULL ? snic_kvfs_memsize(&e) : 0;
    size_t own = (size_t)snic_align_up(sizeof(struct snic_fs), FS_ALIGN) + FS_ALIGN;
    return size == 0 || size > SIZE_MAX - own ? 0 : size + own;
}

int snic_fs_init(struct snic_fs **out, void *mem, size_t size, struct snic_loop *l,
                 struct snic_kv *kv, const struct snic_fs_opts *o)
{
    const size_t own = (size_t)snic_align_up(sizeof(struct snic_fs), FS_ALIGN);
    uintptr_t at = (uintptr_t)snic_align_up((uintptr_t)mem, FS_ALIGN);
    struct snic_fs *fs = (struct snic_fs *)at;
    size_t need = snic_fs_memsize(o);
    struct snic_kvfs_opts e;
    struct snic_fs_opts f;
    int rc;
    if (need == 0 || fs_opts_fill(&e, &f, o) != NULL || kv->loop != l)
        return SNIC_EINVAL;
    if (size < need)
        return SNIC_ENOSPC;
    e.caps = kv->caps;
    e.stripe_bytes = kv->stripe_bytes;
    e.identity_size = kv->identity_size;
    memcpy(e.identity, kv->identity, sizeof(e.identity));
    memset(fs, 0, sizeof(*fs));
    rc = snic_kvfs_init(&fs->engine, (void *)(at + own), size - own - (at - (uintptr_t)mem), &e);
    if (rc != 0)
        return rc;
    fs->memory = mem;
    fs->loop = l;
    fs->kv = kv;
    fs->wall = f.wall;
    fs->ctx = f.ctx;
    fs->report_alone = f.alone;
    fs->session_id = f.session_id;
    fs->pump.fn = fs_pump;
    fs->sole = -1;
    snic_timer_init(&fs->timer, fs_due);
    *out = fs;
    return 0;
}

void *snic_fs_fini(struct snic_fs *fs)
{
    void *mem = fs->memory;
    SNIC_ASSERT(fs->requests == 0 && !fs->pumping);
    SNIC_ASSERT(snic_queue_empty(&fs->waiting) && snic_queue_empty(&fs->refused)); /* F1 */
    while (fs->ios > 0 || fs->pump_queued || !snic_queue_empty(&fs->held)) /* the engine's own */
        (void)snic_loop_once(fs->loop, SNIC_NEVER);
    snic_loop_cancel(fs->loop, &fs->timer);
    (void)snic_kvfs_fini(fs->engine);
    return mem;
}

struct snic_loop *snic_fs_loop(const struct snic_fs *fs)
{
    return fs->loop;
}

struct snic_kvfs *snic_fs_engine(struct snic_fs *fs)
{
    return fs->engine;
}

/* ---- Calls that run the loop ---- */

static void fs_called(struct snic_fs_req *req)
{
    SNIC_CONTAINER(req, struct snic_fs, call)->calling = 0;
}

int64_t snic_fs_call(struct snic_fs *fs, struct snic_fsop *req)
{
    SNIC_ASSERT(!fs->pumping && !fs->calling);
    fs->call.op = *req;
    fs->call.done = fs_called;
    fs->calling = 1;
    snic_fs_submit(fs, &fs->call);
    while (fs->calling) {
        int rc = snic_loop_once(fs->loop, SNIC_NEVER);
        SNIC_ASSERT(rc != 0 || !fs->calling || snic_loop_world(fs->loop) == NULL); /* no answer */
    }
    *req = fs->call.op;
    return req->result;
}

int snic_fs_mkfs(struct snic_fs *fs, const struct snic_kvfs_mkfs *o)
{
    struct snic_fsop req = {.kind = SNIC_FSOP_MKFS};
    struct snic_kvfs_mkfs own;
    if (o == NULL) {
        struct snic_rng rng;
        memset(&own, 0, sizeof(own));
        snic_rng_init(&rng, fs->session_id ^ (uint64_t)fs->wall(fs->ctx));
        snic_rng_fill(&rng, own.uuid, sizeof(own.uuid));
        o = &own;
    }
    req.name = (const char *)o;
    req.name_size = sizeof(*o);
    return (int)snic_fs_call(fs, &req);
}

int snic_fs_mount(struct snic_fs *fs)
{
    struct snic_fsop req = {.kind = SNIC_FSOP_MOUNT};
    return (int)snic_fs_call(fs, &req);
}

int snic_fs_unmount(struct snic_fs *fs)
{
    struct snic_fsop req = {.kind = SNIC_FSOP_UNMOUNT};
    return (int)snic_fs_call(fs, &req);
}

/* Where the last name of a path begins. */
static const char *fs_base(const char *path, uint32_t *size)
{
    size_t n = strlen(path);
    size_t at;
    while (n > 0 && path[n - 1] == '/')
        n--;
    at = n;
    while (at > 0 && path[at - 1] != '/')
        at--;
    *size = (uint32_t)snic_min_u64(n - at, SNIC_FSOP_NAME_MAX + 1);
    return path + at;
}

static int fs_resolve(struct snic_fs *fs, const char *path, size_t size, uint64_t *ino)
{
    struct snic_fsop req = {.kind = SNIC_FSOP_RESOLVE, .ino = SNIC_FSOP_ROOT, .name = path};
    int rc;
    *ino = SNIC_FSOP_ROOT;
    if (size == 0)
        return 0;
    if (size > UINT32_MAX)
        return SNIC_ENAMETOOLONG;
    req.name_size = (uint32_t)size;
    rc = (int)snic_fs_call(fs, &req);
    *ino = req.attr.ino;
    return rc;
}

static void fs_release(struct snic_fs *fs, uint64_t ino, uint64_t handle)
{
    struct snic_fsop req = {.kind = SNIC_FSOP_RELEASE, .ino = ino, .handle = handle};
    (void)snic_fs_call(fs, &req);
}

/* All of [data, data + size) at 0; or out of it, until the end. @return bytes; SNIC_E* */
static int64_t fs_transfer(struct snic_fs *fs, enum snic_fsop_kind kind, uint64_t ino,
                           uint64_t handle, unsigned char *data, size_t size)
{
    size_t at = 0;
    while (at < size) {
        struct snic_iov iov = {data + at, (size_t)snic_min_u64(size - at, SNIC_FSOP_IO_MAX)};
        struct snic_fsop req = {.kind = kind, .ino = ino, .handle = handle};
        int64_t n;
        req.offset = at;
        req.iov = &iov;
        req.iov_count = 1;
        req.length = iov.size;
        n = snic_fs_call(fs, &req);
        if (n < 0)
            return n;
        SNIC_ASSERT((uint64_t)n <= iov.size);
        at += (size_t)n;
        if (n == 0)
            break;
    }
    return (int64_t)at;
}

int snic_fs_put(struct snic_fs *fs, const char *path, const void *data, size_t size, uint32_t mode)
{
    struct snic_fsop req = {.kind = SNIC_FSOP_CREATE,
                            .flags = SNIC_FSOP_OPEN_WRITE | SNIC_FSOP_TRUNC};
    int64_t n;
    int rc;
    req.name = fs_base(path, &req.name_size);
    if (req.name_size == 0)
        return SNIC_EISDIR;
    rc = fs_resolve(fs, path, (size_t)(req.name - path), &req.ino);
    if (rc != 0)
        return rc;
    req.mode = 0100000u | mode;
    rc = (int)snic_fs_call(fs, &req);
    if (rc != 0)
        return rc;
    n = fs_transfer(fs, SNIC_FSOP_WRITE, req.attr.ino, req.handle, (unsigned char *)(uintptr_t)data,
                    size);
    fs_release(fs, req.attr.ino, req.handle);
    return n < 0 ? (int)n : (size_t)n < size ? SNIC_EIO : 0;
}

int64_t snic_fs_get(struct snic_fs *fs, const char *path, void *out, size_t room)
{
    struct snic_fsop req = {.kind = SNIC_FSOP_OPEN, .flags = SNIC_FSOP_OPEN_READ};
    int64_t n;
    int rc = fs_resolve(fs, path, strlen(path), &req.ino);
    if (rc == 0)
        rc = (int)snic_fs_call(fs, &req);
    if (rc != 0)
        return rc;
    n = fs_transfer(fs, SNIC_FSOP_READ, req.ino, req.handle, out, room);
    fs_release(fs, req.ino, req.handle);
    return n < 0 ? n : (int64_t)snic_max_u64(req.attr.size, (uint64_t)n);
}
