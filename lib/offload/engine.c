/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * The offload engine: contexts, reads, and the order of completions.
 *
 * A job is a chain of contexts, one per read. submit() asks func() for the reads, takes contexts
 * and buffers for all of them or gives up, and submits them to the file service. When the last
 * has completed, reply() judges each; its header is written in front of the bytes read and its
 * trailer behind them, so that each part leaves as one piece, or, where the buffer has no room for
 * them (pool.c), as up to three.
 *
 *   buffer: | room >= 256, or none | lead | bytes asked for | widening | room 256, or none |
 *
 * I1  A context is idle, or part of exactly one chain; `active` counts the latter.
 * I2  A job is delivered once, from the loop: at once, behind older jobs of its stream, or (STRICT)
 *     behind all older jobs.
 * I3  A buffer belongs to its context from submit to release.
 * I4  With tenants, a tenant's counts are those of its contexts with a buffer of a read.
 *
 * All fields are written by the loop's thread only.
 */
#include "offload/offload_priv.h"

/* ---- Options and memory ---- */

/* What is wrong with options whose defaults are filled in, or NULL. */
static const char *offload_opts_wrong(const struct snic_offload_opts *o)
{
    if ((o->flags & ~SNIC_OFFLOAD_STRICT) != 0)
        return "flags: unknown bits";
    if (o->key_size < 1 || o->key_size > 64)
        return "key_size: not 1..64";
    if (o->item_size > SNIC_OFFLOAD_ITEM_MAX)
        return "item_size: above SNIC_OFFLOAD_ITEM_MAX";
    if (o->cache_capacity == 0 || o->cache_capacity > SNIC_CUCKOO_CAPACITY_MAX / 17 * 16)
        return "cache_capacity: 0, or more than a table can have";
    if (!snic_is_pow2(o->contexts) || o->contexts > 65536)
        return "contexts: not a power of two up to 65536";
    if (o->read_max > (256u << 20))
        return "read_max: above 256 MiB";
    if (o->pool_bytes > (uint64_t)1 << 40)
        return "pool_bytes: above 1 TiB";
    if (o->message_max > (16u << 20))
        return "message_max: above 16 MiB";
    if (!snic_is_pow2(o->read_align) || o->read_align > 4096)
        return "read_align: not a power of two up to 4096";
    if (o->tenants > 65536)
        return "tenants: above 65536";
    return o->reserved != 0 ? "reserved: not 0" : NULL;
}

static void offload_opts_defaults(struct snic_offload_opts *d)
{
    d->contexts = d->contexts == 0 ? 1024 : d->contexts;
    d->read_max = d->read_max == 0 ? 65536 : d->read_max;
    d->pool_bytes = d->pool_bytes == 0 ? (uint64_t)16 << 20 : d->pool_bytes;
    d->message_max = d->message_max == 0 ? 4096 : d->message_max;
    d->read_align = d->read_align == 0 ? 1 : d->read_align;
}

static int offload_opts(struct snic_offload_opts *out, const struct snic_offload_opts *o)
{
    struct snic_offload_opts d;
    memset(&d, 0, sizeof(d));
    d.opts_size = sizeof(d);
    if (snic_opts_copy(&d, sizeof(d), o) != 0)
        return 0;
    offload_opts_defaults(&d);
    if (offload_opts_wrong(&d) != NULL)
        return 0;
    *out = d;
    return 1;
}

struct offload_layout {
    struct snic_offload *o;
    struct offload_pool pool;
    struct offload_context *contexts;
    unsigned char *messages;
    struct offload_tenant *tenants;
};

static int offload_layout(struct offload_layout *l, struct snic_arena *a,
                          const struct snic_offload_opts *o)
{
    l->o = snic_arena_take(a, 1, sizeof(*l->o), SNIC_OFFLOAD_ALIGN);
    l->contexts = snic_arena_take(a, o->contexts, sizeof(*l->contexts), SNIC_CACHELINE);
    l->messages = snic_arena_take(a, o->contexts, o->message_max, 64);
    l->tenants = o->tenants != 0 ? snic_arena_take(a, o->tenants, sizeof(*l->tenants), 64) : NULL;
    return offload_pool_layout(&l->pool, a, o);
}

size_t snic_offload_memsize(const struct snic_offload_opts *opts)
{
    struct snic_offload_opts o;
    struct offload_layout l;
    struct snic_arena a = {NULL, SIZE_MAX, 0};
    if (!offload_opts(&o, opts) || !offload_layout(&l, &a, &o) ||
        !offload_cache_layout(NULL, &a, &o, 0) || a.used == SIZE_MAX)
        return 0;
    return a.used;
}

const char *snic_offload_opts_wrong(const struct snic_offload_opts *opts)
{
    struct snic_offload_opts d;
    struct offload_layout l;
    struct snic_arena a = {NULL, SIZE_MAX, 0};
    memset(&d, 0, sizeof(d));
    d.opts_size = sizeof(d);
    if (snic_opts_copy(&d, sizeof(d), opts) != 0)
        return "opts_size: not the struct's, or an unknown option is set";
    offload_opts_defaults(&d);
    if (offload_opts_wrong(&d) != NULL)
        return offload_opts_wrong(&d);
    if (!offload_layout(&l, &a, &d))
        return "pool_bytes: too small for read_max and its headers, or too large";
    if (!offload_cache_layout(NULL, &a, &d, 0) || a.used == SIZE_MAX)
        return "cache_capacity, contexts, message_max: more than memory can be";
    return NULL;
}

static void offload_later(struct snic_loop_msg *m);

int snic_offload_init(struct snic_offload **out, void *mem, size_t mem_size, struct snic_loop *loop,
                      struct snic_files *files, const struct snic_offload_user *user,
                      const struct snic_offload_opts *opts)
{
    struct snic_offload_opts o;
    struct offload_layout l;
    struct snic_arena a = {mem, mem_size, 0};
    if (!offload_opts(&o, opts) || ((uintptr_t)mem & (SNIC_OFFLOAD_ALIGN - 1)) != 0 ||
        snic_offload_memsize(opts) == 0 || (files != NULL && (!user->func || !user->reply)) ||
        (files != NULL && snic_files_loop(files) != loop))
        return SNIC_EINVAL;
    if (mem_size < snic_offload_memsize(opts))
        return SNIC_ENOSPC;
    (void)offload_layout(&l, &a, &o);
    struct snic_offload *self = l.o;
    memset(self, 0, sizeof(*self));
    self->opts = o;
    if (!offload_cache_layout(self, &a, &o, 1))
        return SNIC_EINVAL;
    self->user = *user;
    self->loop = loop;
    self->files = files;
    self->pool = l.pool;
    self->contexts = l.contexts;
    self->later.fn = offload_later;
    self->tenants = l.tenants;
    if (self->tenants != NULL)
        memset(self->tenants, 0, o.tenants * sizeof(*self->tenants));
    memset(self->contexts, 0, (size_t)o.contexts * sizeof(*self->contexts));
    offload_pool_start(&self->pool);
    for (uint32_t i = 0; i < o.contexts; i++) {
        struct offload_context *c = &self->contexts[i];
        c->o = self;
        c->message = l.messages + (size_t)i * o.message_max;
        snic_queue_push(&self->idle, &c->job.node);
    }
    self->region = snic_loop_region_add(loop, self->pool.mem, (size_t)self->pool.bytes);
    if (self->region < 0)
        self->region = SNIC_NO_REGION;
    *out = self;
    return 0;
}

void *snic_offload_fini(struct snic_offload *o)
{
    SNIC_ASSERT(o->active == 0 && !o->later_queued);
    snic_loop_region_remove(o->loop, o->region);
    (void)snic_cuckoo_fini(o->table);
    return o;
}

/* ---- Hooks ---- */

static void offload_on_written(void *ctx, const struct snic_files_hook_op *op)
{
    struct snic_offload *o = ctx;
    if (o->user.cache != NULL)
        o->user.cache(o->user.ctx, o, op);
}

static void offload_on_read(void *ctx, const struct snic_files_hook_op *op)
{
    struct snic_offload *o = ctx;
    if (o->user.invalidate != NULL)
        o->user.invalidate(o->user.ctx, o, op);
}

/* Keys and items of hosts are hostile memory: copied once, then used. */
static int offload_on_cache(void *ctx, const void *keys, uint32_t key_size, const void *items,
                            uint32_t item_size, uint32_t count, uint64_t version)
{
    struct snic_offload *o = ctx;
    unsigned char key[SNIC_CUCKOO_KEY_MAX];
    unsigned char item[SNIC_OFFLOAD_ITEM_MAX];
    if (key_size != o->opts.key_size || item_size != o->opts.item_size)
        return SNIC_EINVAL;
    if (version > SNIC_OFFLOAD_VERSION_MAX)
        return SNIC_ERANGE;
    for (uint32_t i = 0; i < count; i++) {
        memcpy(key, (const unsigned char *)keys + (size_t)i * key_size, key_size);
        if (item_size > 0)
            memcpy(item, (const unsigned char *)items + (size_t)i * item_size, item_size);
        (void)snic_offload_put(o, key, item, version);
    }
    return 0;
}

static int offload_on_invalidate(void *ctx, const void *keys, uint32_t key_size, uint32_t count,
                                 uint64_t version)
{
    struct snic_offload *o = ctx;
    unsigned char key[SNIC_CUCKOO_KEY_MAX];
    if (key_size != o->opts.key_size)
        return SNIC_EINVAL;
    for (uint32_t i = 0; i < count; i++) {
        memcpy(key, (const unsigned char *)keys + (size_t)i * key_size, key_size);
        snic_offload_invalidate(o, key, version);
    }
    return 0;
}

static int offload_on_invalidate_all(void *ctx, uint64_t version)
{
    snic_offload_invalidate_all(ctx, version);
    return 0;
}

struct snic_files_hooks snic_offload_hooks(struct snic_offload *o)
{
    struct snic_files_hooks h = {.written = offload_on_written,
                                 .read = offload_on_read,
                                 .cache = offload_on_cache,
                                 .invalidate = offload_on_invalidate,
                                 .invalidate_all = offload_on_invalidate_all,
                                 .ctx = o};
    return h;
}

/* ---- Contexts ---- */

static struct offload_context *offload_take(struct snic_offload *o)
{
    struct snic_node *n = snic_queue_pop(&o->idle);
    if (n == NULL)
        return NULL;
    struct offload_context *c =
        (struct offload_context *)SNIC_CONTAINER(n, struct snic_offload_job, node);
    SNIC_DASSERT(c->state == OFFLOAD_FREE);
    c->part = NULL;
    c->buf = NULL;
    c->direct = 0;
    o->active++;
    if (o->active > o->stats.active_high)
        o->stats.active_high = o->active;
    return c;
}

static struct offload_tenant *offload_tenant_of(struct snic_offload *o, uint32_t tenant)
{
    return &o->tenants[snic_min_u64(tenant, o->opts.tenants - 1)];
}

/* May the tenant of @c have so much of the pool, and a context? It leaves as much as it has. */
static int offload_tenant_take(struct snic_offload *o, struct offload_context *c, uint64_t bytes)
{
    struct offload_tenant *t;
    c->held = 0;
    if (o->tenants == NULL)
        return 1;
    t = offload_tenant_of(o, c->op.tenant);
    if (t->contexts > o->opts.contexts - o->active ||
        t->bytes + bytes > offload_pool_free(&o->pool))
        return 0;
    t->contexts++;
    t->bytes += bytes;
    c->held = bytes;
    return 1;
}

static void offload_tenant_give(struct snic_offload *o, struct offload_context *c)
{
    struct offload_tenant *t;
    if (c->held == 0)
        return;
    t = offload_tenant_of(o, c->op.tenant);
    t->contexts--;
    t->bytes -= c->held;
    c->held = 0;
}

/* Give the chain and its buffers back. */
static void offload_drop(struct snic_offload *o, struct offload_context *c)
{
    while (c != NULL) {
        struct offload_context *part = c->part;
        if (c->buf != NULL)
            offload_pool_give(&o->pool, c->buf);
        c->buf = NULL;
        c->direct = 0;
        offload_tenant_give(o, c);
        c->part = NULL;
        c->state = OFFLOAD_FREE;
        /* Last in, first out: the context is warm. */
        c->job.node.next = o->idle.first;
        if (o->idle.first == NULL)
            o->idle.last = &c->job.node;
        o->idle.first = &c->job.node;
        o->active--;
        c = part;
    }
}

/* A buffer for the read of @c; 0 when the pool has none. */
static int offload_buffer(struct snic_offload *o, struct offload_context *c)
{
    uint64_t align = o->opts.read_align;
    uint64_t from = snic_align_down(c->op.offset, align);
    uint64_t to = snic_align_up(c->op.offset + c->op.size, align);
    uint64_t room = o->pool.room;
    uint64_t bytes = room + (to - from);
    if (!o->pool.apart && to - c->op.offset - c->op.size < SNIC_OFFLOAD__ROOM)
        bytes += SNIC_OFFLOAD__ROOM;
    bytes = offload_pool_round(&o->pool, bytes);
    if (!offload_tenant_take(o, c, bytes))
        return 0;
    c->buf = offload_pool_take(&o->pool, bytes);
    if (c->buf == NULL) {
        offload_tenant_give(o, c);
        return 0;
    }
    c->bytes = bytes;
    c->lead = (uint32_t)(c->op.offset - from);
    c->req.op = SNIC_FILES_READ;
    c->req.priority = c->op.priority;
    c->req.flags = 0;
    c->req.tenant = c->op.tenant;
    c->req.file = c->op.file;
    c->req.offset = from;
    c->req.length = to - from;
    c->req.buf.base = c->buf + room;
    c->req.buf.size = (size_t)(to - from);
    c->req.iov = NULL;
    c->req.iov_count = 0;
    c->req.region = o->region;
    return 1;
}

/* ---- Completion ---- */

static void offload_piece(struct snic_offload_job *job, unsigned char *at, uint64_t size)
{
    if (size == 0)
        return;
    job->bytes += (uint32_t)size;
    if (job->iov_count > 0) {
        struct snic_iov *last = &job->iov[job->iov_count - 1];
        if ((unsigned char *)last->base + last->size == at) {
            last->size += (size_t)size;
            return;
        }
    }
    job->iov[job->iov_count].base = at;
    job->iov[job->iov_count++].size = (size_t)size;
}

/* Write @r around @data, which is where the bytes that @c asked for begin. */
static void offload_part(struct offload_context *c, unsigned char *data,
                         const struct snic_offload_reply *r)
{
    const struct snic_offload *o = c->o;
    struct snic_offload_job *job = &c->head->job;
    unsigned char *text = NULL;
    unsigned char *head = data + r->skip - r->header_size;
    unsigned char *tail = data + r->skip + r->take;
    if (o->pool.apart)
        text = offload_pool_text(&o->pool, (uint32_t)(c - o->contexts));
    if ((uint64_t)(data + r->skip - c->buf) < r->header_size)
        head = text;
    if ((uint64_t)(c->buf + c->bytes - tail) < r->trailer_size)
        tail = text + SNIC_OFFLOAD__ROOM;
    memcpy(tail, r->trailer, r->trailer_size);
    memcpy(head, r->header, r->header_size);
    offload_piece(job, head, r->header_size);
    offload_piece(job, data + r->skip, r->take);
    offload_piece(job, tail, r->trailer_size);
    job->pool_bytes += c->bytes;
}

/* Ask reply() about one part; 0: to the host. */
static int offload_judge(struct snic_offload *o, struct offload_context *h,
                         struct offload_context *c)
{
    struct snic_offload_msg msg = {h->message, h->job.message_size, h->flags, h->user};
    struct snic_offload_reply r; /* 528 bytes; only what is announced is looked at */
    unsigned char *data = (unsigned char *)c->req.buf.base + c->lead;
    int64_t result = c->req.result;
    r.header_size = r.trailer_size = r.skip = r.take = 0;
    if (result < 0)
        o->stats.read_errors++;
    else
        result =
            result <= c->lead ? 0 : (int64_t)snic_min_u64((uint64_t)result - c->lead, c->op.size);
    o->stats.read_bytes += result > 0 ? (uint64_t)result : 0;
    o->in_user = 1;
    enum snic_offload_verdict v =
        o->user.reply(o->user.ctx, &msg, &c->op, data, result, snic_loop_now(o->loop), &r);
    o->in_user = 0;
    if (v != SNIC_OFFLOAD_SEND)
        return 0;
    SNIC_ASSERT(r.header_size <= SNIC_OFFLOAD_HEADER_MAX &&
                r.trailer_size <= SNIC_OFFLOAD_HEADER_MAX);
    SNIC_ASSERT((uint64_t)r.skip + r.take <= (uint64_t)(result > 0 ? result : 0));
    offload_part(c, data, &r);
    return 1;
}

static void offload_deliver(struct snic_offload *o, struct offload_context *h)
{
    SNIC_DASSERT(h->state == OFFLOAD_FINISHED);
    h->state = OFFLOAD_DELIVERED;
    o->stats.completed++;
    if (h->stream != NULL)
        h->stream->delivered++;
    h->done(h->ctx, &h->job);
}

/* Deliver what is finished at the head of @q. */
static void offload_advance(struct snic_offload *o, struct snic_queue *q)
{
    while (!snic_queue_empty(q)) {
        struct offload_context *h = SNIC_CONTAINER(q->first, struct offload_context, wait);
        if (h->state != OFFLOAD_FINISHED)
            break;
        (void)snic_queue_pop(q);
        offload_deliver(o, h); /* may release h, and submit */
    }
}

/* I2 */
static void offload_finished(struct snic_offload *o, struct offload_context *h)
{
    h->state = OFFLOAD_FINISHED;
    if (o->opts.flags & SNIC_OFFLOAD_STRICT)
        offload_advance(o, &o->strict);
    else if (h->stream != NULL)
        offload_advance(o, &h->stream->waiting);
    else
        offload_deliver(o, h);
}

static void offload_read_done(struct snic_files_req *req)
{
    struct offload_context *c = SNIC_CONTAINER(req, struct offload_context, req);
    struct offload_context *h = c->head;
    struct snic_offload *o = c->o;
    SNIC_DASSERT(h->state == OFFLOAD_READING && h->reading > 0);
    if (--h->reading > 0)
        return;
    h->job.status = SNIC_OFFLOAD_DONE;
    for (c = h; c != NULL; c = c->part) {
        if (!offload_judge(o, h, c)) {
            h->job.status = SNIC_OFFLOAD_TO_HOST;
            h->job.iov_count = 0;
            h->job.bytes = 0;
            h->job.pool_bytes = 0;
            break;
        }
    }
    if (h->job.status == SNIC_OFFLOAD_DONE)
        o->stats.sent++;
    else
        o->stats.to_host++;
    offload_finished(o, h);
}

/* What func() answered without a read. */
static void offload_later(struct snic_loop_msg *m)
{
    struct snic_offload *o = SNIC_CONTAINER(m, struct snic_offload, later);
    struct snic_queue q = o->ready;
    memset(&o->ready, 0, sizeof(o->ready));
    o->later_queued = 0;
    for (struct snic_node *n = snic_queue_pop(&q); n != NULL; n = snic_queue_pop(&q)) {
        struct offload_context *h =
            (struct offload_context *)SNIC_CONTAINER(n, struct snic_offload_job, node);
        o->stats.sent++;
        offload_finished(o, h);
    }
}

/* ---- Submission ---- */

/*
 * Ask func() for the reads of @h, each with a context and a buffer. Answers as
 * snic_offload_submit(), or 1 when func() has answered with @r.
 */
static int offload_plan(struct snic_offload *o, struct offload_context *h,
                        const struct snic_offload_msg *msg, struct snic_offload_reply *r)
{
    struct offload_context *c = h;
    r->header_size = r->trailer_size = r->skip = r->take = 0;
    for (h->parts = 1;; h->parts++) {
        c->head = h;
        c->op.file = 0;
        c->op.offset = 0;
        c->op.size = 0;
        c->op.tenant = 0;
        c->op.priority = 0;
        c->op.part = h->parts - 1u;
        o->in_user = 1;
        int v = o->user.func(o->user.ctx, o, msg, &c->op, r);
        o->in_user = 0;
        if (v < 0)
            return SNIC_ENOENT;
        if (v == 1) {
            SNIC_ASSERT(c == h && r->take == 0 && r->skip == 0);
            return 1;
        }
        if (c->op.size == 0 || c->op.size > o->opts.read_max ||
            c->op.offset > (uint64_t)INT64_MAX - c->op.size - 4096)
            return SNIC_EMSGSIZE;
        if (!offload_buffer(o, c))
            return SNIC_EAGAIN;
        if (v != 2)
            return 0;
        if (h->parts == SNIC_OFFLOAD_PARTS_MAX)
            return SNIC_EMSGSIZE;
        c->part = offload_take(o);
        if (c->part == NULL)
            return SNIC_EAGAIN;
        c = c->part;
    }
}

static int offload_refuse(struct snic_offload *o, int error)
{
    if (error == SNIC_EAGAIN)
        o->stats.refused_busy++;
    else if (error == SNIC_EMSGSIZE)
        o->stats.refused_size++;
    else
        o->stats.refused_func++;
    return error;
}

/* func()'s own answer takes a buffer, too, or its context's: it leaves like any other. */
static int offload_answer(struct snic_offload *o, struct offload_context *h,
                          const struct snic_offload_reply *r)
{
    unsigned char *data;
    SNIC_ASSERT(r->header_size <= SNIC_OFFLOAD_HEADER_MAX &&
                r->trailer_size <= SNIC_OFFLOAD_HEADER_MAX);
    if (o->pool.apart) {
        data = offload_pool_text(&o->pool, (uint32_t)(h - o->contexts));
    } else {
        h->bytes = offload_pool_round(&o->pool, 2 * SNIC_OFFLOAD__ROOM);
        h->buf = data = offload_pool_take(&o->pool, h->bytes);
        if (h->buf == NULL)
            return SNIC_EAGAIN;
        h->job.pool_bytes = h->bytes;
    }
    h->direct = 1;
    h->job.status = SNIC_OFFLOAD_DONE;
    memcpy(data, r->header, r->header_size);
    memcpy(data + r->header_size, r->trailer, r->trailer_size);
    offload_piece(&h->job, data, (uint64_t)r->header_size + r->trailer_size);
    return 0;
}

/* The reads of @h leave together. */
static void offload_issue(struct snic_offload *o, struct offload_context *h)
{
    struct snic_files_req *reqs[SNIC_OFFLOAD_PARTS_MAX];
    uint32_t n = 0;
    for (struct offload_context *c = h; c != NULL; c = c->part) {
        c->req.done = offload_read_done;
        reqs[n++] = &c->req;
    }
    h->reading = n;
    snic_files_submit(o->files, reqs, n);
}

int snic_offload_submit(struct snic_offload *o, struct snic_offload_stream *stream,
                        const struct snic_offload_msg *msg, uint64_t cookie,
                        snic_offload_done_fn done, void *ctx)
{
    struct snic_offload_reply r;
    SNIC_DASSERT(!o->in_user);
    if (msg->size > o->opts.message_max || o->files == NULL)
        return offload_refuse(o, SNIC_EMSGSIZE);
    struct offload_context *h = offload_take(o);
    if (h == NULL)
        return offload_refuse(o, SNIC_EAGAIN);
    h->job.iov_count = 0;
    h->job.bytes = 0;
    h->job.pool_bytes = 0;
    int v = offload_plan(o, h, msg, &r);
    if (v == 1 && (v = offload_answer(o, h, &r)) == 0)
        v = 1;
    if (v < 0) {
        offload_drop(o, h);
        return offload_refuse(o, v);
    }
    memcpy(h->message, msg->data, msg->size);
    h->job.message = h->message;
    h->job.message_size = msg->size;
    h->job.cookie = cookie;
    h->job.contexts = h->parts;
    h->job.region = o->region;
    h->flags = msg->flags;
    h->user = msg->user;
    h->stream = stream;
    h->done = done;
    h->ctx = ctx;
    h->state = OFFLOAD_READING;
    o->stats.submitted++;
    if (stream != NULL)
        stream->next++;
    if (o->opts.flags & SNIC_OFFLOAD_STRICT)
        snic_queue_push(&o->strict, &h->wait);
    else if (stream != NULL)
        snic_queue_push(&stream->waiting, &h->wait);
    if (v == 0) {
        offload_issue(o, h);
        return 0;
    }
    snic_queue_push(&o->ready, &h->job.node);
    if (!o->later_queued) {
        o->later_queued = 1;
        snic_loop_defer(o->loop, &o->later);
    }
    return 0;
}

void snic_offload_release(struct snic_offload *o, struct snic_offload_job *job)
{
    struct offload_context *h = (struct offload_context *)(void *)job;
    SNIC_ASSERT(h->state == OFFLOAD_DELIVERED && h->o == o); /* I3 */
    offload_drop(o, h);
}

struct snic_loop *snic_offload_loop(const struct snic_offload *o)
{
    return o->loop;
}

uint32_t snic_offload_active(const struct snic_offload *o)
{
    return o->active;
}

uint32_t snic_offload_contexts(const struct snic_offload *o)
{
    return o->opts.contexts;
}

uint64_t snic_offload_pool_bytes(const struct snic_offload *o)
{
    return (uint64_t)o->pool.blocks * o->pool.block;
}

uint64_t snic_offload_pool_free(const struct snic_offload *o)
{
    return offload_pool_free(&o->pool);
}

void snic_offload_get_stats(const struct snic_offload *o, struct snic_offload_stats *out)
{
    *out = o->stats;
    out->pool_free = offload_pool_free(&o->pool);
}

int snic_offload_check(const struct snic_offload *o)
{
    uint32_t idle = 0;
    uint32_t used = 0;
    uint64_t held = 0;
    for (const struct snic_node *n = o->idle.first; n != NULL && idle <= o->opts.contexts;
         n = n->next)
        idle++;
    for (uint32_t i = 0; i < o->opts.contexts; i++)
        used += o->contexts[i].buf != NULL || o->contexts[i].direct;
    for (uint32_t i = 0; i < o->opts.contexts; i++)
        held += o->contexts[i].held;
    for (uint32_t i = 0; i < o->opts.tenants; i++)
        held -= o->tenants[i].bytes;
    if (idle + o->active != o->opts.contexts || used != o->active || held != 0)
        return SNIC_ECORRUPT; /* I1, I3, I4 */
    if (base_runs_check(&o->pool.runs) != 0)
        return SNIC_ECORRUPT;
    return offload_cache_check(o);
}
