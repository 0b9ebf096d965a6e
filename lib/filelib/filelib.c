/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * The group: submission from any thread, the table of requests on the channel, completion on
 * the loop, waiting. Invariants G1 to G4 are in filelib_priv.h.
 */
#include "filelib/filelib_priv.h"

/* ---- Table ---- */

static uint32_t filelib_entry_take(struct snic_filelib *g)
{
    /* Acquire pairs with the release of filelib_entry_put: its `next` is visible. */
    uint64_t head = atomic_load_explicit(&g->free, memory_order_acquire);
    for (;;) {
        uint32_t i = (uint32_t)head;
        uint64_t next;
        if (i == SNIC_FILELIB__NO_ENTRY)
            return i;
        /* The tag makes a head that was taken and put back meanwhile differ. */
        next = ((head >> 32) + 1) << 32 |
               atomic_load_explicit(&g->entries[i].next, memory_order_relaxed);
        if (atomic_compare_exchange_weak_explicit(&g->free, &head, next, memory_order_acquire,
                                                  memory_order_acquire))
            return i;
    }
}

static void filelib_entry_put(struct snic_filelib *g, uint32_t i)
{
    uint64_t head = atomic_load_explicit(&g->free, memory_order_relaxed);
    uint64_t next;
    do {
        atomic_store_explicit(&g->entries[i].next, (uint32_t)head, memory_order_relaxed);
        next = ((head >> 32) + 1) << 32 | i;
        /* Release pairs with the acquire of filelib_entry_take. */
    } while (!atomic_compare_exchange_weak_explicit(&g->free, &head, next, memory_order_release,
                                                    memory_order_relaxed));
}

/* ---- Completion: loop thread ---- */

static void filelib_complete(struct snic_filelib *g, struct snic_filelib_req *r)
{
    SNIC_ASSERT(r->group == g);
    g->stats.completed++;
    if (r->result < 0)
        g->stats.errors++;
    else if (r->op == SNIC_FILES_READ)
        g->stats.read_bytes += (uint64_t)r->result;
    else if (r->op == SNIC_FILES_WRITE)
        g->stats.write_bytes += (uint64_t)r->result;
    if (r->done != NULL) {
        r->done(r);
        return;
    }
    snic_queue_push(&g->completed, &r->msg.node);
}

static void filelib_fail(struct snic_filelib *g, struct snic_filelib_req *r, int error)
{
    r->result = error;
    filelib_complete(g, r);
}

static int filelib_ended(struct snic_filelib *g)
{
    return atomic_load_explicit(&g->ended, memory_order_seq_cst);
}

/* ---- Sending: any thread, with a sender of its own ---- */

/* A READ or WRITE, not the FSYNC behind a long one, needs credit. */
static int filelib_credit_take(struct snic_filelib *g, struct snic_filelib_req *r)
{
    SNIC_ASSERT(r->tenant < g->opts.tenants);
    r->private_[FILELIB_CREDIT] = 0;
    if ((r->op != SNIC_FILES_READ && r->op != SNIC_FILES_WRITE) ||
        r->private_[FILELIB_PHASE] != FILELIB_PHASE_DATA)
        return 1;
    if (!snic_credit_take(&g->lanes[r->tenant].credit))
        return 0;
    r->private_[FILELIB_CREDIT] = 1;
    return 1;
}

static void filelib_credit_return(struct snic_filelib *g, struct snic_filelib_req *r,
                                  uint32_t granted)
{
    if (r->private_[FILELIB_CREDIT] == 0)
        return;
    SNIC_ASSERT(r->tenant < g->opts.tenants); /* as submitted */
    r->private_[FILELIB_CREDIT] = 0;
    if (granted != 0)
        snic_credit_return(&g->lanes[r->tenant].credit, granted);
    else
        snic_credit_cancel(&g->lanes[r->tenant].credit);
}

/*
 * One message for the request. 0: sent, the request is not ours any more; SNIC_EBUSY: its
 * tenant has no credit; SNIC_EAGAIN: no entry or no room; then nothing happened; else the
 * channel's error.
 */
static int filelib_send(struct snic_filelib *g, struct snic_channel_sender *s,
                        struct snic_filelib_req *r, int more)
{
    struct filelib_entry *e;
    uint32_t generation;
    uint32_t i;
    int rc;
    if (!filelib_credit_take(g, r))
        return SNIC_EBUSY;
    i = filelib_entry_take(g);
    if (i == SNIC_FILELIB__NO_ENTRY) {
        filelib_credit_return(g, r, 0);
        return SNIC_EAGAIN;
    }
    SNIC_ASSERT(i < g->opts.depth);
    e = &g->entries[i];
    SNIC_DASSERT(atomic_load_explicit(&e->req, memory_order_relaxed) == NULL); /* G1 */
    generation = atomic_load_explicit(&e->generation, memory_order_relaxed) + 1;
    r->request_id = (uint64_t)generation << 32 | i;
    rc = filelib_request_write(g, s, r, r->request_id);
    if (rc != 0) {
        filelib_entry_put(g, i);
        filelib_credit_return(g, r, 0);
        return rc;
    }
    /* Relaxed: the exchange below publishes it. */
    atomic_store_explicit(&e->generation, generation, memory_order_relaxed);
    /* G2, G4: release for the response's acquire, and ordered before the look at `ended`. */
    (void)atomic_exchange_explicit(&e->req, r, memory_order_seq_cst);
    snic_channel_up_commit(s, more);
    return 0;
}

static void filelib_posted(struct snic_loop_msg *msg);
static void filelib_refused(struct snic_loop_msg *msg);

/* Complete on the loop, since this may be any thread. */
static void filelib_refuse(struct snic_filelib *g, struct snic_filelib_req *r, int error)
{
    r->result = error;
    r->msg.fn = filelib_refused;
    /* Relaxed: only compared by this thread and counted down by the loop. */
    (void)atomic_fetch_add_explicit(&g->queued, 1, memory_order_relaxed);
    snic_loop_post(g->loop, &r->msg);
}

static void filelib_post(struct snic_filelib *g, struct snic_filelib_req *r)
{
    r->msg.fn = filelib_posted;
    (void)atomic_fetch_add_explicit(&g->queued, 1, memory_order_relaxed); /* G3 */
    snic_loop_post(g->loop, &r->msg);
}

/* G3: one fewer is posted or waiting. */
static void filelib_unqueued(struct snic_filelib *g)
{
    uint32_t before = atomic_fetch_sub_explicit(&g->queued, 1, memory_order_relaxed);
    (void)before;
    SNIC_ASSERT(before > 0);
}

static void filelib_refused(struct snic_loop_msg *msg)
{
    struct snic_filelib_req *r = SNIC_CONTAINER(msg, struct snic_filelib_req, msg);
    struct snic_filelib *g = r->group;
    filelib_unqueued(g);
    filelib_complete(g, r);
}

/* After a commit: was the group ended meanwhile, and the table swept before we were in it? G4 */
static void filelib_recheck(struct snic_filelib *g)
{
    uint32_t i;
    int reason = filelib_ended(g);
    if (reason == 0)
        return;
    for (i = 0; i < g->opts.depth; i++) {
        struct snic_filelib_req *r =
            atomic_exchange_explicit(&g->entries[i].req, NULL, memory_order_seq_cst);
        if (r != NULL)
            filelib_refuse(g, r, reason);
    }
}

void snic_filelib_submit(struct snic_filelib *g, struct snic_filelib_req **reqs, uint32_t n)
{
    struct snic_channel_sender *s = NULL;
    uint32_t i;
    /* Relaxed: statistics. */
    (void)atomic_fetch_add_explicit(&g->submitted, n, memory_order_relaxed);
    if (atomic_load_explicit(&g->queued, memory_order_relaxed) == 0) { /* G3 */
        s = snic_channel_borrow(g->channel);
        if (s == NULL)
            (void)atomic_fetch_add_explicit(&g->crowded, 1, memory_order_relaxed);
    }
    for (i = 0; i < n; i++) {
        struct snic_filelib_req *r = reqs[i];
        int rc;
        r->group = g;
        r->result = 0;
        r->data = NULL;
        r->credit = 0;
        memset(r->private_, 0, sizeof(r->private_));
        rc = filelib_request_check(g, r);
        if (rc == 0)
            rc = filelib_ended(g);
        if (rc != 0) {
            filelib_refuse(g, r, rc);
            continue;
        }
        if (s != NULL && atomic_load_explicit(&g->queued, memory_order_relaxed) == 0)
            rc = filelib_send(g, s, r, i + 1 < n);
        else
            rc = SNIC_EAGAIN;
        if (rc != 0)
            filelib_post(g, r);
    }
    if (s != NULL) {
        snic_channel_up_flush(s);
        snic_channel_give_back(s);
    }
    filelib_recheck(g);
}

/* ---- The loop's side ---- */

/* G5 */
static void filelib_lane_ready(struct snic_filelib *g, struct filelib_lane *lane)
{
    if ((!snic_queue_empty(&lane->urgent) || !snic_queue_empty(&lane->waiting)) &&
        snic_link_alone(&lane->ready))
        snic_link_append(&g->ready, &lane->ready);
}

static void filelib_wait_in_lane(struct snic_filelib *g, struct snic_filelib_req *r)
{
    struct filelib_lane *lane = &g->lanes[r->tenant];
    SNIC_ASSERT(r->tenant < g->opts.tenants);
    snic_queue_push(r->priority > 0 ? &lane->urgent : &lane->waiting, &r->msg.node);
    filelib_lane_ready(g, lane);
}

/* Send what waits: a request of each tenant in turn, of each the oldest first. */
static void filelib_drain(struct snic_filelib *g)
{
    if (g->sending)
        return;
    g->sending = 1;
    while (!snic_link_alone(&g->ready)) {
        struct filelib_lane *lane = SNIC_CONTAINER(g->ready.next, struct filelib_lane, ready);
        struct snic_queue *q = snic_queue_empty(&lane->urgent) ? &lane->waiting : &lane->urgent;
        SNIC_ASSERT(!snic_queue_empty(q)); /* G5 */
        struct snic_filelib_req *r = SNIC_CONTAINER(q->first, struct snic_filelib_req, msg.node);
        int reason = filelib_ended(g);
        int rc = reason != 0 ? reason : filelib_send(g, &g->sender, r, 1);
        if (rc == SNIC_EAGAIN || (rc == SNIC_EPIPE && reason == 0))
            break; /* the closed event brings the reason */
        snic_link_remove(&lane->ready);
        if (rc == SNIC_EBUSY) {
            g->stats.held++;
            continue;
        }
        (void)snic_queue_pop(q);
        filelib_lane_ready(g, lane);
        filelib_unqueued(g);
        if (rc != 0)
            filelib_fail(g, r, rc);
    }
    snic_channel_up_flush(&g->sender);
    g->sending = 0;
}

static void filelib_posted(struct snic_loop_msg *msg)
{
    struct snic_filelib_req *r = SNIC_CONTAINER(msg, struct snic_filelib_req, msg);
    struct snic_filelib *g = r->group;
    g->stats.waits++;
    filelib_wait_in_lane(g, r);
    filelib_drain(g);
}

/* The group is over: everything that is somewhere completes. */
static void filelib_end(struct snic_filelib *g, int reason)
{
    uint32_t i;
    int alive = 0;
    if (!atomic_compare_exchange_strong_explicit(&g->ended, &alive, reason, memory_order_seq_cst,
                                                 memory_order_seq_cst))
        return;
    if (g->opts.closed != NULL)
        g->opts.closed(g->opts.ctx, g, reason);
    for (i = 0; i < g->opts.depth; i++) {
        struct snic_filelib_req *r =
            atomic_exchange_explicit(&g->entries[i].req, NULL, memory_order_seq_cst);
        if (r != NULL)
            filelib_fail(g, r, reason);
    }
    for (i = 0; i < g->opts.tenants; i++)
        filelib_lane_ready(g, &g->lanes[i]);
    filelib_drain(g);
}

/* The request that a response names, taken out of its entry; NULL: there is none. */
static struct snic_filelib_req *filelib_claim(struct snic_filelib *g, uint64_t id)
{
    uint32_t i = (uint32_t)id;
    struct filelib_entry *e;
    struct snic_filelib_req *r;
    if (i >= g->opts.depth)
        return NULL;
    e = &g->entries[i];
    /* Acquire pairs with the exchange in filelib_send. */
    if (atomic_load_explicit(&e->req, memory_order_acquire) == NULL ||
        atomic_load_explicit(&e->generation, memory_order_relaxed) != id >> 32)
        return NULL;
    r = atomic_exchange_explicit(&e->req, NULL, memory_order_seq_cst);
    if (r != NULL)
        filelib_entry_put(g, i);
    return r;
}

static int filelib_message(void *ctx, struct snic_channel *c, const struct snic_channel_msg *m)
{
    struct snic_filelib *g = ctx;
    struct files_wire_response w;
    struct snic_filelib_req *r = NULL;
    int rc;
    (void)c;
    if (filelib_ended(g) != 0)
        return 1;
    if (files_wire_get_response(&w, m->header, m->header_bytes) == 0)
        r = filelib_claim(g, w.id);
    if (r == NULL) {
        filelib_end(g, SNIC_EPROTO);
        return 1;
    }
    r->credit = w.credit;
    filelib_credit_return(g, r, w.credit);
    filelib_lane_ready(g, &g->lanes[r->tenant]);
    rc = filelib_response_take(g, r, &w, m);
    if (rc < 0) {
        filelib_fail(g, r, SNIC_EPROTO);
        filelib_end(g, SNIC_EPROTO);
        return 1;
    }
    if (rc == 0) {
        g->stats.parts++;
        (void)atomic_fetch_add_explicit(&g->queued, 1, memory_order_relaxed);
        filelib_wait_in_lane(g, r);
    } else {
        filelib_complete(g, r);
    }
    filelib_drain(g);
    return 1;
}

static void filelib_opened(void *ctx, struct snic_channel *c)
{
    struct snic_filelib *g = ctx;
    (void)c;
    if (g->opts.opened != NULL)
        g->opts.opened(g->opts.ctx, g);
}

static void filelib_writable(void *ctx, struct snic_channel *c)
{
    (void)c;
    filelib_drain(ctx);
}

static void filelib_closed(void *ctx, struct snic_channel *c, int reason)
{
    (void)c;
    filelib_end(ctx, reason == 0 ? SNIC_ECONNRESET : reason);
}

/* ---- Life ---- */

static struct snic_channel_opts filelib_channel_opts(const struct snic_filelib_opts *o)
{
    return (struct snic_channel_opts){.opts_size = sizeof(struct snic_channel_opts),
                                      .kind = SNIC_FILES_CHANNEL_KIND,
                                      .id = o->id,
                                      .up_bytes = o->up_bytes,
                                      .down_bytes = o->down_bytes,
                                      .record_max = o->record_max,
                                      .payload_align = o->payload_align,
                                      .senders_max = o->threads,
                                      .flags = o->channel_flags};
}

/* What is wrong with options whose defaults are filled in, or NULL. */
static const char *filelib_wrong(const struct snic_filelib_opts *o)
{
    struct snic_channel_opts co = filelib_channel_opts(o);
    if (o->depth > 65536)
        return "depth: not 1..65536";
    if (o->tenants > SNIC_FILELIB__TENANTS_MAX)
        return "tenants: not 1..4096";
    if (o->threads > 1024)
        return "threads: not 1..1024";
    if ((o->channel_flags & ~(SNIC_CHANNEL_UP_QUIESCENT | SNIC_CHANNEL_DOWN_ORDERED)) != 0)
        return "channel_flags: unknown bits";
    return snic_channel_opts_wrong(&co); /* these have the same names */
}

static int filelib_fill(struct snic_filelib_opts *o, const struct snic_filelib_opts *in)
{
    memset(o, 0, sizeof(*o));
    if (snic_opts_copy(o, sizeof(*o), in) != 0)
        return SNIC_EINVAL;
    if (o->depth == 0)
        o->depth = 256;
    if (o->up_bytes == 0)
        o->up_bytes = 4u << 20;
    if (o->down_bytes == 0)
        o->down_bytes = 4u << 20;
    if (o->payload_align == 0)
        o->payload_align =
            snic_min_u64(o->up_bytes, o->down_bytes) >= SNIC_FILELIB__ALIGNED ? 4096 : 8;
    if (o->tenants == 0)
        o->tenants = 1;
    if (o->credit == 0)
        o->credit = SNIC_CREDIT_UNLIMITED;
    return 0;
}

static int filelib_options(struct snic_filelib_opts *o, const struct snic_filelib_opts *in)
{
    return filelib_fill(o, in) != 0 || filelib_wrong(o) != NULL ? SNIC_EINVAL : 0;
}

const char *snic_filelib_opts_wrong(const struct snic_filelib_opts *in)
{
    struct snic_filelib_opts o;
    if (filelib_fill(&o, in) != 0)
        return "opts_size: not the struct's, or an unknown option is set";
    return filelib_wrong(&o);
}

static struct snic_filelib *filelib_place(struct snic_arena *a, const struct snic_filelib_opts *o)
{
    uint32_t depth = o->depth;
    struct snic_filelib *g = snic_arena_take(a, 1, sizeof(*g), SNIC_FILELIB_ALIGN);
    struct filelib_entry *e = snic_arena_take(a, depth, sizeof(*e), SNIC_CACHELINE);
    struct filelib_lane *lanes = snic_arena_take(a, o->tenants, sizeof(*lanes), SNIC_CACHELINE);
    uint32_t i;
    if (g == NULL || e == NULL || lanes == NULL)
        return NULL;
    memset(g, 0, sizeof(*g));
    g->entries = e;
    g->lanes = lanes;
    snic_link_init(&g->ready);
    memset(lanes, 0, o->tenants * sizeof(*lanes));
    for (i = 0; i < o->tenants; i++) {
        snic_credit_init(&lanes[i].credit, o->credit);
        snic_link_init(&lanes[i].ready);
    }
    for (i = 0; i < depth; i++) {
        atomic_init(&e[i].req, NULL);
        atomic_init(&e[i].generation, 0);
        atomic_init(&e[i].next, i + 1 < depth ? i + 1 : SNIC_FILELIB__NO_ENTRY);
    }
    atomic_init(&g->free, 0);
    atomic_init(&g->queued, 0);
    atomic_init(&g->ended, 0);
    atomic_init(&g->submitted, 0);
    atomic_init(&g->crowded, 0);
    return g;
}

size_t snic_filelib_memsize(const struct snic_filelib_opts *in)
{
    struct snic_filelib_opts o;
    struct snic_arena a;
    if (filelib_options(&o, in) != 0)
        return 0;
    memset(&a, 0, sizeof(a));
    (void)filelib_place(&a, &o);
    return a.used == SIZE_MAX ? 0 : a.used;
}

static int filelib_connect(struct snic_filelib *g, struct snic_channel_hub *hub)
{
    struct snic_channel_opts co = filelib_channel_opts(&g->opts);
    struct snic_channel_events e;
    struct snic_channel_info info;
    uint32_t room;
    int rc;
    memset(&e, 0, sizeof(e));
    e.message = filelib_message;
    e.opened = filelib_opened;
    e.writable = filelib_writable;
    e.closed = filelib_closed;
    e.ctx = g;
    rc = snic_channel_open(&g->channel, hub, &co, &e);
    if (rc != 0)
        return rc;
    snic_channel_get_info(g->channel, &info);
    room = SNIC_FILES__REQUEST_BYTES + info.payload_align;
    g->names_max = info.record_max > room ? info.record_max - room : 0;
    g->part_max = g->names_max >= 4096 ? g->names_max & ~4095u : g->names_max;
    rc = snic_channel_sender_init(&g->sender, g->channel);
    if (rc == 0 && g->part_max == 0)
        rc = SNIC_EINVAL;
    if (rc != 0)
        snic_channel_close(g->channel);
    return rc;
}

int snic_filelib_open(struct snic_filelib **out, void *mem, size_t mem_size,
                      struct snic_channel_hub *hub, const struct snic_filelib_opts *in)
{
    struct snic_filelib_opts o;
    struct snic_arena a;
    struct snic_filelib *g;
    int rc;
    if (filelib_options(&o, in) != 0 || (uintptr_t)mem % SNIC_FILELIB_ALIGN != 0)
        return SNIC_EINVAL;
    memset(&a, 0, sizeof(a));
    a.base = mem;
    a.size = mem_size;
    g = filelib_place(&a, &o);
    if (g == NULL)
        return SNIC_ENOSPC;
    g->opts = o;
    g->mem = mem;
    g->loop = snic_channel_hub_dma(hub)->loop;
    rc = filelib_connect(g, hub);
    if (rc == 0)
        *out = g;
    return rc;
}

void *snic_filelib_close(struct snic_filelib *g)
{
    g->opts.closed = NULL;
    filelib_end(g, SNIC_ECANCELED);
    while (atomic_load_explicit(&g->queued, memory_order_relaxed) > 0) /* posted ones */
        (void)snic_loop_once(g->loop, 0);
    snic_channel_close(g->channel);
    return g->mem;
}

/* ---- Waiting ---- */

uint32_t snic_filelib_poll(struct snic_filelib *g, struct snic_filelib_req **out, uint32_t max)
{
    uint32_t n = 0;
    while (n < max && !snic_queue_empty(&g->completed)) {
        out[n++] = SNIC_CONTAINER(snic_queue_pop(&g->completed), struct snic_filelib_req, msg.node);
    }
    return n;
}

static uint64_t filelib_outstanding(const struct snic_filelib *g)
{
    return atomic_load_explicit(&g->submitted, memory_order_relaxed) - g->stats.completed;
}

struct filelib_alarm {
    struct snic_timer timer;
    int rang;
};

static void filelib_alarm_ring(struct snic_timer *t, uint64_t now_ns)
{
    (void)now_ns;
    SNIC_CONTAINER(t, struct filelib_alarm, timer)->rang = 1;
}

int snic_filelib_wait(struct snic_filelib *g, struct snic_filelib_req **out, uint32_t max,
                      uint64_t timeout_ns)
{
    struct filelib_alarm alarm;
    int n = (int)snic_filelib_poll(g, out, max);
    if (n > 0 || max == 0)
        return n;
    snic_timer_init(&alarm.timer, filelib_alarm_ring);
    alarm.rang = timeout_ns == 0;
    if (timeout_ns != 0 && timeout_ns != SNIC_NEVER)
        snic_loop_arm(g->loop, &alarm.timer, snic_loop_clock(g->loop) + timeout_ns);
    for (;;) {
        int once;
        if (timeout_ns == SNIC_NEVER && filelib_outstanding(g) == 0)
            break;
        once = snic_loop_once(g->loop, alarm.rang ? 0 : SNIC_NEVER);
        n = once < 0 ? SNIC_EIO : (int)snic_filelib_poll(g, out, max);
        if (n != 0 || alarm.rang)
            break;
    }
    snic_loop_cancel(g->loop, &alarm.timer);
    return n;
}

/* A copy of the caller's request with a flag behind it. */
struct filelib_run {
    struct snic_filelib_req req;
    int finished;
};

static void filelib_run_done(struct snic_filelib_req *r)
{
    SNIC_CONTAINER(r, struct filelib_run, req)->finished = 1;
}

int64_t snic_filelib_run(struct snic_filelib *g, struct snic_filelib_req *req)
{
    struct filelib_run run;
    struct snic_filelib_req *p = &run.req;
    snic_filelib_done_fn done = req->done;
    run.req = *req;
    run.req.done = filelib_run_done;
    run.finished = 0;
    snic_filelib_submit(g, &p, 1);
    while (!run.finished)
        (void)snic_loop_once(g->loop, SNIC_NEVER);
    *req = run.req;
    req->done = done;
    return req->result;
}

/* ---- State ---- */

uint32_t snic_filelib_max(const struct snic_filelib *g)
{
    return g->part_max;
}

void snic_filelib_get_stats(const struct snic_filelib *g, struct snic_filelib_stats *out)
{
    struct snic_channel_info info;
    snic_channel_get_info(g->channel, &info);
    *out = g->stats;
    out->device_align = info.peer_align;
    out->payload_align = info.payload_align;
    out->submitted = atomic_load_explicit(&g->submitted, memory_order_relaxed);
    out->crowded = atomic_load_explicit(&g->crowded, memory_order_relaxed);
    out->outstanding = out->submitted - out->completed;
}

int snic_filelib_state(const struct snic_filelib *g)
{
    return atomic_load_explicit(&g->ended, memory_order_relaxed);
}
