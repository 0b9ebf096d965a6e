/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * The io handle: submit, cancel, close, and the pump between the engine and the inner handle.
 * Invariants Q1 to Q9 are in qos_priv.h.
 */
#include "qos/qos_priv.h"

/* ---- Requests come and go ---- */

static void qos_accept(struct qos *q, struct snic_io_req *req)
{
    SNIC_DASSERT(req->done != NULL);
    req->result = 0;
    req->os_error = 0;
    req->credit = 0;
    req->queued_ns = q->now_ns;
    req->device_ns = q->now_ns;
    req->done_ns = 0;
    q->io.stats.submitted++;
}

/** Of requests like this one: the engine counts parts. */
static uint32_t qos_credit(const struct qos_slot *slot)
{
    uint32_t parts = slot->made > 1 ? slot->made : 1;
    if (slot->device_ns == UINT64_MAX || slot->req->op == SNIC_IO_FLUSH)
        return 0;
    return slot->credit > parts ? slot->credit / parts : 1;
}

static void qos_count(struct qos *q, const struct snic_io_req *req)
{
    struct snic_io_stats *s = &q->io.stats;
    s->completed++;
    if (req->result < 0)
        s->errors++;
    else if (req->op == SNIC_IO_READ)
        s->read_bytes += (uint64_t)req->result;
    else if (req->op == SNIC_IO_WRITE)
        s->write_bytes += (uint64_t)req->result;
    else if (req->op == SNIC_IO_FLUSH)
        s->flushes++;
}

static void qos_finish(struct qos *q, struct qos_slot *slot)
{
    struct snic_io_req *req = slot->req;
    SNIC_ASSERT(slot->state != QOS_SLOT_FREE && slot->count == 0 && q->requests > 0);
    req->result = qos_result(slot);
    req->os_error = slot->stop != UINT64_MAX ? slot->os_error : 0;
    req->credit = qos_credit(slot);
    if (slot->device_ns != UINT64_MAX)
        req->device_ns = snic_max_u64(req->queued_ns, slot->device_ns);
    req->done_ns = snic_max_u64(snic_loop_now(q->io.loop), req->device_ns);
    if (slot->tenant != SNIC_QOS__NONE) {
        struct qos_tenant *t = &q->tenants[slot->tenant];
        t->completed++;
        t->errors += req->result < 0;
        if (q->waits != NULL && slot->device_ns != UINT64_MAX && req->op != SNIC_IO_FLUSH)
            snic_hist_record(&q->waits[slot->tenant], req->device_ns - req->queued_ns);
        qos_tenant_leave(q, slot->tenant);
    }
    snic_link_remove(&slot->link);
    slot->state = QOS_SLOT_FREE;
    slot->req = NULL;
    slot->next_free = q->free;
    q->free = slot;
    q->requests--;
    snic_io_room_freed(&q->room);
    qos_count(q, req);
    req->done(req); /* Q3 */
}

static void qos_ended(struct snic_loop_msg *msg)
{
    struct qos_slot *slot = SNIC_CONTAINER(msg, struct qos_slot, msg);
    qos_finish(slot->qos, slot);
}

/** End it from the loop: nothing of it is out. */
static void qos_end_later(struct qos *q, struct qos_slot *slot)
{
    slot->state = QOS_SLOT_ENDING;
    slot->granted = NULL;
    if (!slot->grant_on) /* else that message ends it */
        snic_loop_defer(q->io.loop, &slot->msg);
}

static void qos_grant(struct snic_loop_msg *msg)
{
    struct qos_slot *slot = SNIC_CONTAINER(msg, struct qos_slot, grant);
    slot->grant_on = 0;
    if (slot->state == QOS_SLOT_ENDING) {
        qos_finish(slot->qos, slot);
        return;
    }
    slot->notified = 1;
    slot->granted(slot->req);
}

/** The engine gave out a part of a request that has not its data yet. */
static void qos_hold(struct qos *q, struct qos_part *part)
{
    struct qos_slot *slot = part->slot;
    part->state = QOS_PART_HELD;
    if (slot->notified || slot->grant_on)
        return;
    slot->grant_on = 1;
    snic_loop_defer(q->io.loop, &slot->grant);
}

static void qos_refuse(struct qos *q, struct qos_slot *slot, int error)
{
    slot->stop = 0;
    slot->stop_result = error;
    qos_end_later(q, slot);
}

/* ---- To the device ---- */

/** The inner handle is no more: what it has not got ends with its error. */
static void qos_lost(struct qos *q, int error)
{
    struct snic_link *l = q->active.next;
    q->gone = error;
    while (l != &q->active) {
        struct qos_slot *slot = SNIC_CONTAINER(l, struct qos_slot, link);
        l = l->next;
        if (slot->state != QOS_SLOT_ACTIVE)
            continue;
        qos_withdraw(q, slot, error);
        if (slot->count == 0)
            qos_end_later(q, slot);
    }
}

/** Hand `ready` over. @return 1 all of it went; 0 full or gone */
static int qos_send(struct qos *q)
{
    while (q->ready_count > 0 && !snic_io_waits(&q->inner_room)) {
        struct snic_io_req *list[SNIC_QOS__BATCH];
        struct snic_node *node = q->ready.first;
        uint32_t n = 0;
        int taken;
        for (; node != NULL && n < SNIC_QOS__BATCH; node = node->next)
            list[n++] = &SNIC_CONTAINER(node, struct qos_part, node)->req;
        taken = snic_io_submit(q->inner, list, n);
        if (taken < 0) {
            qos_lost(q, taken);
            return 0;
        }
        SNIC_ASSERT((uint32_t)taken <= n);
        for (int i = 0; i < taken; i++) {
            struct qos_part *part =
                SNIC_CONTAINER(snic_queue_pop(&q->ready), struct qos_part, node);
            part->state = QOS_PART_SENT;
        }
        q->ready_count -= (uint32_t)taken;
        q->sent += (uint32_t)taken;
        q->parts_sent += (uint32_t)taken;
        if ((uint32_t)taken < n) {
            q->inner_full++;
            snic_io_wait(q->inner, &q->inner_room);
        }
    }
    return q->ready_count == 0;
}

static void qos_arm(struct qos *q)
{
    uint64_t at = SNIC_NEVER;
    if (q->ready_count == 0 && q->sent < q->opts.device_depth) /* a poll gave nothing */
        at = snic_gimbal_deadline_ns(q->gimbal);
    if (q->gone != 0)
        at = SNIC_NEVER;
    if (at != SNIC_NEVER)
        at = snic_max_u64(at, q->now_ns + 1);
    if (at == q->armed_ns)
        return;
    q->armed_ns = at;
    if (at == SNIC_NEVER)
        snic_loop_cancel(q->io.loop, &q->timer);
    else
        snic_loop_arm(q->io.loop, &q->timer, at);
}

static void qos_make_ready(struct qos *q, struct qos_part *part)
{
    part->state = QOS_PART_READY;
    snic_queue_push(&q->ready, &part->node);
    q->ready_count++;
}

/** What the engine lets go now goes. Nothing in here calls a done. */
void qos_pump(struct qos *q)
{
    int more = q->gone == 0;
    while (more) {
        struct snic_gimbal_io *g = NULL;
        while (q->ready_count < SNIC_QOS__BATCH &&
               q->sent + q->ready_count < q->opts.device_depth &&
               (g = snic_gimbal_poll(q->gimbal, q->now_ns)) != NULL) {
            struct qos_part *part = SNIC_CONTAINER(g, struct qos_part, gio);
            if (part->slot->granted != NULL)
                qos_hold(q, part);
            else
                qos_make_ready(q, part);
        }
        more = qos_send(q) && g != NULL;
    }
    qos_arm(q);
}

static void qos_timer(struct snic_timer *t, uint64_t now_ns)
{
    struct qos *q = SNIC_CONTAINER(t, struct qos, timer);
    q->armed_ns = SNIC_NEVER;
    (void)qos_time(q, now_ns);
    qos_pump(q);
}

static void qos_inner_writable(struct snic_io_waiter *w)
{
    struct qos *q = SNIC_CONTAINER(w, struct qos, inner_room);
    (void)qos_time(q, snic_loop_now(q->io.loop));
    qos_pump(q);
}

static void qos_part_done(struct snic_io_req *req)
{
    struct qos_part *part = SNIC_CONTAINER(req, struct qos_part, req);
    struct qos_slot *slot = part->slot;
    struct qos *q = slot->qos;
    uint64_t now = qos_time(q, req->done_ns);
    SNIC_ASSERT(part->state == QOS_PART_SENT && q->sent > 0); /* Q2 */
    q->sent--;
    slot->device_ns = snic_min_u64(slot->device_ns, req->device_ns);
    if (req->op != SNIC_IO_FLUSH) {
        int outcome = SNIC_GIMBAL_UNTIMED; /* ZERO, DISCARD: not a write's time */
        if (req->result != (int64_t)req->length)
            outcome = SNIC_GIMBAL_FAILED;
        else if (req->op == SNIC_IO_READ || req->op == SNIC_IO_WRITE)
            outcome = SNIC_GIMBAL_DONE;
        snic_gimbal_complete(q->gimbal, &part->gio, outcome, now);
        slot->credit = part->gio.credit;
    }
    qos_part_end(q, part, req->result, req->os_error);
    qos_feed(q, slot);
    if (qos_over(slot))
        qos_finish(q, slot);
    qos_pump(q);
}

/* ---- Ops ---- */

/**
 * How many requests one tenant may have inside. Without an option: all, where no other tenant is
 * there; else as many as are free, so that one that floods the switch leaves half of it, two a
 * third, and n always one share in n + 1.
 */
static uint32_t qos_tenant_depth(const struct qos *q)
{
    if (q->opts.tenant_depth != 0)
        return q->opts.tenant_depth;
    if (q->tenants_added == 0)
        return q->opts.depth;
    return (uint32_t)snic_max_u64(1, q->opts.depth - q->requests + 1); /* this one is counted */
}

static void qos_start(struct qos *q, struct qos_slot *slot)
{
    struct snic_io_req *req = slot->req;
    int r = snic_io_validate(&q->io, req);
    if (r != 0) {
        qos_refuse(q, slot, r);
        return;
    }
    uint32_t index = qos_tenant_of(q, req->tenant);
    if (q->tenants[index].requests >= qos_tenant_depth(q)) {
        q->tenants[index].busy++;
        q->busy++;
        qos_refuse(q, slot, SNIC_EBUSY);
        return;
    }
    slot->tenant = index;
    qos_tenant_enter(q, index);
    if (req->op == SNIC_IO_FLUSH)
        qos_feed_flush(q, slot);
    else
        qos_feed(q, slot);
}

/* @p granted: NULL, or they are reservations. */
static int qos_take(struct qos *q, struct snic_io_req **reqs, uint32_t n,
                    snic_qos_granted_fn granted)
{
    struct snic_io *io = &q->io;
    uint32_t i = 0;
    if (q->gone != 0 || q->closing)
        return q->gone != 0 ? q->gone : SNIC_ECANCELED;
    if (snic_io_room_taken(&q->room))
        return 0;
    (void)qos_clock(q);
    for (; i < n && q->free != NULL; i++) {
        struct qos_slot *slot = q->free;
        q->free = slot->next_free;
        q->requests++;
        slot->req = reqs[i];
        slot->state = QOS_SLOT_ACTIVE;
        slot->tenant = SNIC_QOS__NONE;
        slot->made = 0;
        slot->credit = 0;
        slot->piece = 0;
        slot->piece_at = 0;
        slot->next = 0;
        slot->stop = UINT64_MAX;
        slot->stop_result = 0;
        slot->device_ns = UINT64_MAX;
        slot->os_error = 0;
        slot->cancelled = 0;
        slot->granted = granted;
        slot->notified = 0;
        snic_link_append(&q->active, &slot->link);
        qos_accept(q, reqs[i]);
        reqs[i]->backend[0] = (uint64_t)(uintptr_t)slot;
        qos_start(q, slot);
    }
    io->stats.queue_high = snic_max_u64(io->stats.queue_high, q->requests);
    qos_pump(q);
    return (int)i;
}

static int qos_submit(struct snic_io *io, struct snic_io_req **reqs, uint32_t n)
{
    return qos_take(SNIC_CONTAINER(io, struct qos, io), reqs, n, NULL);
}

static void qos_cancel(struct snic_io *io, struct snic_io_req *req)
{
    struct qos *q = SNIC_CONTAINER(io, struct qos, io);
    struct qos_slot *slot = (struct qos_slot *)(uintptr_t)req->backend[0];
    if (slot < q->slots || slot >= q->slots + q->opts.depth || slot->req != req ||
        slot->state != QOS_SLOT_ACTIVE)
        return; /* it has completed, or is about to */
    (void)qos_clock(q);
    qos_withdraw(q, slot, SNIC_ECANCELED);
    for (struct snic_link *l = slot->parts.next; l != &slot->parts; l = l->next)
        snic_io_cancel(q->inner, &SNIC_CONTAINER(l, struct qos_part, link)->req);
    if (slot->count == 0)
        qos_end_later(q, slot);
    qos_pump(q);
}

static void qos_close(struct snic_io *io)
{
    struct qos *q = SNIC_CONTAINER(io, struct qos, io);
    q->closing = 1;
    (void)qos_clock(q);
    qos_tenants_uncap(q);
    for (struct snic_link *l = q->active.next; l != &q->active; l = l->next) {
        struct qos_slot *slot = SNIC_CONTAINER(l, struct qos_slot, link);
        qos_leaving_queued(q, slot);
        if (slot->granted == NULL)
            continue;
        qos_withdraw(q, slot, SNIC_ECANCELED);
        qos_end_later(q, slot);
    }
    qos_pump(q);
    while (q->requests > 0 || !snic_io_room_idle(&q->room)) {
        int r = snic_loop_once(io->loop, SNIC_NEVER);
        SNIC_ASSERT(r > 0 || snic_loop_world(io->loop) == NULL); /* else the node is paused */
        SNIC_ASSERT(r >= 0);
    }
    snic_loop_cancel(io->loop, &q->timer);
    snic_io_unwait(&q->inner_room);
    snic_io_close(q->inner);
    (void)snic_gimbal_fini(q->gimbal);
}

static int qos_ready(const struct snic_io_room *r)
{
    return SNIC_CONTAINER(r, struct qos, room)->free != NULL;
}

static void qos_wait_for_room(struct snic_io *io, struct snic_io_waiter *w)
{
    snic_io_room_wait(&SNIC_CONTAINER(io, struct qos, io)->room, w);
}

static const struct snic_io_ops qos_ops = {
    .ops_size = sizeof(struct snic_io_ops),
    .name = "qos",
    .submit = qos_submit,
    .cancel = qos_cancel,
    .close = qos_close,
    .wait = qos_wait_for_room,
};

int snic_qos_reserve(struct snic_io *io, struct snic_io_req *req, snic_qos_granted_fn granted)
{
    SNIC_ASSERT(io->ops == &qos_ops);
    if (req->op != SNIC_IO_WRITE)
        return SNIC_EINVAL;
    return qos_take(SNIC_CONTAINER(io, struct qos, io), &req, 1, granted);
}

void snic_qos_commit(struct snic_io *io, struct snic_io_req *req)
{
    struct qos *q = SNIC_CONTAINER(io, struct qos, io);
    struct qos_slot *slot = (struct qos_slot *)(uintptr_t)req->backend[0];
    SNIC_ASSERT(io->ops == &qos_ops);
    SNIC_ASSERT(slot->req == req);
    if (slot->state == QOS_SLOT_ENDING)
        return; /* the device is gone */
    SNIC_ASSERT(slot->granted != NULL && slot->notified);
    uint64_t now = qos_clock(q);
    slot->granted = NULL;
    for (struct snic_link *l = slot->parts.next; l != &slot->parts; l = l->next) {
        struct qos_part *part = SNIC_CONTAINER(l, struct qos_part, link);
        if (part->state != QOS_PART_HELD)
            continue;
        snic_gimbal_begin(q->gimbal, &part->gio, now);
        qos_make_ready(q, part);
    }
    qos_pump(q);
}

int snic_qos_check(const struct snic_io *io)
{
    SNIC_ASSERT(io->ops == &qos_ops);
    const struct qos *q = SNIC_CONTAINER(io, struct qos, io);
    if (qos_parts_check(q) != 0 || qos_tenants_check(q) != 0)
        return SNIC_ECORRUPT;
    return snic_gimbal_check(q->gimbal);
}

/* ---- Open ---- */

static const char *qos_ranges(const struct snic_qos_opts *o, const struct snic_io *inner)
{
    const struct snic_io_geometry *d = &inner->geometry;
    if ((o->flags & ~(SNIC_QOS_AUTO | SNIC_QOS_WAITS)) != 0)
        return "flags: unknown bits";
    if (o->tenants_max >= SNIC_GIMBAL_TENANTS_MAX)
        return "tenants_max: not 1..4095";
    if (o->depth > 65536)
        return "depth: not 1..65536";
    if (o->tenant_depth > o->depth)
        return "tenant_depth: above depth";
    if (o->parts > 65536)
        return "parts: not 1..65536";
    if (!snic_is_pow2(o->part_bytes) || o->part_bytes < 4096 || o->part_bytes > 8u << 20)
        return "part_bytes: not a power of two 4 KiB..8 MiB";
    if (d->offset_align > o->part_bytes || d->length_align > o->part_bytes ||
        d->memory_align > o->part_bytes)
        return "part_bytes: less than the device's alignment";
    return NULL;
}

/** All options, the defaults filled in; NULL, or which is wrong. */
static const char *qos_options(struct snic_qos_opts *o, struct snic_gimbal_opts *g,
                               struct snic_gimbal_tenant_opts *t, const struct snic_io *inner,
                               const struct snic_qos_opts *in)
{
    memset(o, 0, sizeof(*o));
    memset(g, 0, sizeof(*g));
    memset(t, 0, sizeof(*t));
    if (in != NULL && snic_opts_copy(o, sizeof(*o), in) != 0)
        return "opts_size: not the struct's, or an unknown option is set";
    if (o->gimbal != NULL && snic_opts_copy(g, sizeof(*g), o->gimbal) != 0)
        return "gimbal: opts_size is not the struct's, or an unknown option is set";
    if (o->tenant != NULL && snic_opts_copy(t, sizeof(*t), o->tenant) != 0)
        return "tenant: opts_size is not the struct's, or an unknown option is set";
    g->opts_size = sizeof(*g);
    t->opts_size = sizeof(*t);
    o->tenants_max = o->tenants_max != 0 ? o->tenants_max : 64;
    o->depth = o->depth != 0 ? o->depth : inner->depth_max;
    o->device_depth = o->device_depth != 0 ? o->device_depth : inner->depth_max;
    o->device_depth = (uint32_t)snic_min_u64(o->device_depth, inner->depth_max);
    o->parts = o->parts != 0 ? o->parts : 512;
    o->part_bytes = o->part_bytes != 0 ? o->part_bytes : 128u << 10;
    o->idle_ns = o->idle_ns != 0 ? o->idle_ns : 1000000000u;
    const char *wrong = qos_ranges(o, inner);
    if (wrong != NULL)
        return wrong;
    g->tenants_max = o->tenants_max + 1;
    g->queue_max = o->depth + o->parts;
    g->size_max = o->part_bytes;
    if (t->group != 0)
        return "group: there is none yet";
    wrong = snic_gimbal_opts_wrong(g);
    return wrong != NULL ? wrong : snic_gimbal_tenant_opts_wrong(t);
}

const char *snic_qos_opts_wrong(const struct snic_io *inner, const struct snic_qos_opts *in)
{
    struct snic_gimbal_tenant_opts t;
    struct snic_gimbal_opts g;
    struct snic_qos_opts o;
    return qos_options(&o, &g, &t, inner, in);
}

/** Carve one block; with a->base NULL only measure. */
static struct qos *qos_place(struct snic_arena *a, const struct snic_qos_opts *o,
                             const struct snic_gimbal_opts *g, void **gimbal)
{
    struct qos *q = snic_arena_take(a, 1, sizeof(*q), SNIC_CACHELINE);
    struct qos_slot *slots = snic_arena_take(a, o->depth, sizeof(*slots), 64);
    struct qos_part *parts = snic_arena_take(a, o->parts, sizeof(*parts), 64);
    struct qos_tenant *tenants = snic_arena_take(a, o->tenants_max + 1, sizeof(*tenants), 64);
    uint32_t *buckets =
        snic_arena_take(a, snic_pow2_up((uint64_t)o->tenants_max * 2), sizeof(*buckets), 64);
    struct snic_hist *waits = NULL;
    if ((o->flags & SNIC_QOS_WAITS) != 0)
        waits = snic_arena_take(a, o->tenants_max + 1, sizeof(*waits), 64);
    *gimbal = snic_arena_take(a, 1, (size_t)snic_align_up(snic_gimbal_memsize(g), SNIC_QOS_ALIGN),
                              SNIC_GIMBAL_ALIGN);
    if (*gimbal == NULL)
        return NULL;
    q->opts = *o;
    q->slots = slots;
    q->parts = parts;
    q->tenants = tenants;
    q->buckets = buckets;
    q->waits = waits;
    return q;
}

static void qos_init(struct qos *q, struct snic_io *inner)
{
    q->io.ops = &qos_ops;
    q->io.loop = inner->loop;
    q->io.geometry = inner->geometry;
    q->io.geometry.atomic_write =
        (uint32_t)snic_min_u64(inner->geometry.atomic_write, q->opts.part_bytes);
    q->io.caps = inner->caps;
    q->io.depth_max = q->opts.depth;
    q->inner = inner;
    q->armed_ns = SNIC_NEVER;
    snic_timer_init(&q->timer, qos_timer);
    snic_io_room_init(&q->room, &q->io, qos_ready);
    snic_io_waiter_init(&q->inner_room, qos_inner_writable);
    snic_link_init(&q->active);
    for (uint32_t i = q->opts.depth; i-- > 0;) {
        struct qos_slot *slot = &q->slots[i];
        slot->qos = q;
        slot->msg.fn = qos_ended;
        slot->grant.fn = qos_grant;
        snic_link_init(&slot->link);
        snic_link_init(&slot->parts);
        slot->first.slot = slot;
        slot->first.req.done = qos_part_done;
        snic_link_init(&slot->first.link);
        slot->next_free = q->free;
        q->free = slot;
    }
    for (uint32_t i = 0; i < q->opts.parts; i++) {
        snic_link_init(&q->parts[i].link);
        q->parts[i].req.done = qos_part_done;
        snic_queue_push(&q->pool, &q->parts[i].node);
    }
    q->pool_free = q->opts.parts;
    qos_tenants_init(q);
}

size_t snic_qos_memsize(const struct snic_io *inner, const struct snic_qos_opts *in)
{
    struct snic_gimbal_tenant_opts t;
    struct snic_gimbal_opts g;
    struct snic_qos_opts o;
    struct snic_arena a = {NULL, 0, 0};
    void *engine;
    if (qos_options(&o, &g, &t, inner, in) != NULL)
        return 0;
    (void)qos_place(&a, &o, &g, &engine);
    return a.used == SIZE_MAX ? 0 : a.used;
}

int snic_qos_open(struct snic_io **out, void *mem, size_t mem_size, struct snic_io *inner,
                  const struct snic_qos_opts *in)
{
    struct snic_gimbal_tenant_opts t;
    struct snic_gimbal_opts g;
    struct snic_qos_opts o;
    struct snic_arena a = {mem, mem_size, 0};
    size_t size = snic_qos_memsize(inner, in);
    struct qos *q;
    void *engine;
    int r;
    if (size == 0 || (uintptr_t)mem % SNIC_QOS_ALIGN != 0 ||
        qos_options(&o, &g, &t, inner, in) != NULL)
        return SNIC_EINVAL;
    if (size > mem_size)
        return SNIC_ENOSPC;
    memset(mem, 0, size);
    q = qos_place(&a, &o, &g, &engine);
    SNIC_ASSERT(q != NULL);
    q->now_ns = snic_loop_now(inner->loop);
    r = snic_gimbal_init(&q->gimbal, engine, snic_gimbal_memsize(&g), &g, q->now_ns);
    if (r == 0)
        r = snic_gimbal_tenant_add(q->gimbal, 0, &t);
    SNIC_ASSERT(r == 0); /* the options are right */
    q->tenant_opts = t;
    q->groups_max = g.groups_max;
    qos_init(q, inner);
    *out = &q->io;
    return 0;
}
