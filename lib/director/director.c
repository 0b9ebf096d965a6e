/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * The traffic director: memory, listening, the poller that sends what an iteration collected,
 * draining, and the check.
 *
 *   recv ─▶ in queue ─▶ turn: frame, predicate ─▶ offload engine ──┐
 *                              │        │       ─▶ host ──────────┤
 *                              └ answer ┴──────────────────────────┴─▶ slot ─▶ out queue ─▶ send
 *
 * A message under way is a slot; slots answer in their connection's order. Replies are collected
 * in the out queue and sent once per loop iteration by the poller.
 *
 * All fields are written by the loop's thread only. Invariants are in the files:
 *   accept.c  clients, signatures                conn.c              messages in
 *   memory.c  waiting connections, stalls        blocks.c, slot.c, part.c  what they wait for
 *   out.c     queues and sends of one end        end.c               the end of a connection
 *   reply.c   replies and their order            offloaded.c         the offload engine
 *   backlog.c, unread.c  fairness between clients                    host.c  the host's end
 *   upstream.c  to the host: upstream_net.c, or upstream_send.c and upstream_channel.c
 */
#include "director/director_priv.h"

SNIC_STATIC_ASSERT(sizeof(struct director_block) == SNIC_DIRECTOR__BLOCK, "a block is a page");
SNIC_STATIC_ASSERT(SNIC_DIRECTOR__IOV >= SNIC_OFFLOAD_IOV_MAX, "a job fits one send");
SNIC_STATIC_ASSERT(SNIC_DIRECTOR__IOV <= SNIC_NET_IOV_MAX, "a send fits net");
SNIC_STATIC_ASSERT(SNIC_DIRECTOR__DATA >= 4000, "what frame_reply() may ask for");

#define SNIC_DIRECTOR__OWN_MAX 16 /* slots that a connection has for itself */
#define SNIC_DIRECTOR__COMMON 32768
#define SNIC_DIRECTOR__AREA_LEAST (1u << 20)
#define SNIC_DIRECTOR__RARE (16u << 20) /* few messages are longer */
#define SNIC_DIRECTOR__POOL ((uint64_t)64 << 20)

/* ---- Options and memory ---- */

struct director_layout {
    struct snic_director *d;
    struct snic_director_conn *conns;
    struct director_slot *slots;
    struct director_block *blocks;
    struct director_chunk *chunks;
    struct snic_director_signature *signatures;
    struct director_long parts;
    unsigned char *buffers; /* of the longest messages */
    uint32_t buffer_size;
    uint32_t buffers_count;
    uint32_t area_blocks;
    uint32_t slots_own;
    uint32_t slots_common;
    uint32_t blocks_count;
};

/* Divide the pool; 0 when it is too small. */
static int director_divide(struct director_layout *l, const struct snic_director_opts *o)
{
    uint64_t least = (2 * (uint64_t)o->conns_max + 64) * SNIC_DIRECTOR__BLOCK;
    uint64_t rest = o->pool_bytes > least ? o->pool_bytes - least : 0;
    uint64_t pool = rest;
    uint32_t big = (uint32_t)snic_align_up(o->message_max, SNIC_DIRECTOR__BLOCK);
    uint64_t area = snic_max_u64(SNIC_DIRECTOR__AREA_LEAST, rest / 4);
    area = snic_min_u64(area, (uint64_t)o->conns_max * big) / SNIC_DIRECTOR__BLOCK;
    area = snic_min_u64(area, SNIC_RUNS__BLOCKS_MAX);
    l->area_blocks = (uint32_t)area;
    l->buffer_size = big;
    uint64_t longest = big > SNIC_DIRECTOR__RARE ? rest / 8 : rest * 3 / 8;
    l->buffers_count = (uint32_t)snic_min_u64(o->conns_max, snic_max_u64(1, longest / big));
    uint64_t bytes = area * SNIC_DIRECTOR__BLOCK + (uint64_t)big * l->buffers_count;
    if (bytes > pool)
        return 0;
    pool -= bytes;
    pool = (pool + least) / SNIC_DIRECTOR__BLOCK;
    if (pool > UINT32_MAX / 2)
        return 0;
    l->blocks_count = (uint32_t)pool;
    l->slots_own = (uint32_t)snic_min_u64(SNIC_DIRECTOR__OWN_MAX, o->pending_max);
    l->slots_common = (uint32_t)snic_min_u64(
        SNIC_DIRECTOR__COMMON, (uint64_t)o->conns_max * (o->pending_max - l->slots_own));
    return 1;
}

/* Least pool for the options: see director_divide(). */
static uint64_t director_pool_least(const struct snic_director_opts *o)
{
    return 2 * snic_align_up(o->message_max, 4096) + ((uint64_t)2 << 20) +
           ((uint64_t)o->conns_max * 3 + 128) * SNIC_DIRECTOR__BLOCK;
}

static void director_opts_defaults(struct snic_director_opts *o)
{
    o->conns_max = o->conns_max == 0 ? 1024 : o->conns_max;
    o->message_max = o->message_max == 0 ? 9u << 20 : o->message_max;
    o->pending_max = o->pending_max == 0 ? 1024 : o->pending_max;
    o->conn_bytes = o->conn_bytes == 0 ? 1u << 20 : o->conn_bytes;
    o->quantum = o->quantum == 0 ? 16384 : o->quantum;
    o->flight_bytes = o->flight_bytes == 0 ? 16u << 20 : o->flight_bytes;
    o->stall_ms = o->stall_ms == 0 ? 1000 : o->stall_ms;
    o->drain_ms = o->drain_ms == 0 ? 5000 : o->drain_ms;
}

/* What is wrong with options whose defaults are filled in, or NULL. */
static const char *director_opts_wrong(const struct snic_director_opts *o)
{
    if ((o->flags & ~SNIC_DIRECTOR_IN_ORDER) != 0)
        return "flags: unknown bits";
    if (o->conns_max > 65536)
        return "conns_max: above 65536";
    if (o->message_max > (1u << 30))
        return "message_max: above 1 GiB";
    if (o->pending_max > 65536)
        return "pending_max: above 65536";
    if (o->conn_bytes > (1u << 30) || o->conn_bytes < SNIC_DIRECTOR__BLOCK)
        return "conn_bytes: not 4 KiB to 1 GiB";
    if (o->quantum > (1u << 24))
        return "quantum: above 16 MiB";
    if (o->flight_bytes > (1u << 30))
        return "flight_bytes: above 1 GiB";
    if (o->signatures_count > 1024)
        return "signatures_count: above 1024";
    if (o->signatures_count > 0 && o->signatures == NULL)
        return "signatures: NULL";
    return NULL;
}

static int director_opts(struct snic_director_opts *out, const struct snic_director_opts *in)
{
    struct snic_director_opts o;
    memset(&o, 0, sizeof(o));
    o.opts_size = sizeof(o);
    if (snic_opts_copy(&o, sizeof(o), in) != 0)
        return 0;
    director_opts_defaults(&o);
    if (director_opts_wrong(&o) != NULL)
        return 0;
    if (o.pool_bytes == 0)
        o.pool_bytes = snic_max_u64(SNIC_DIRECTOR__POOL, director_pool_least(&o) * 2);
    *out = o;
    return 1;
}

static void director_lay(struct director_layout *l, struct snic_arena *a,
                         const struct snic_director_opts *o)
{
    uint32_t slots = o->conns_max * l->slots_own + l->slots_common;
    l->d = snic_arena_take(a, 1, sizeof(*l->d), SNIC_DIRECTOR_ALIGN);
    l->conns = snic_arena_take(a, o->conns_max, sizeof(*l->conns), SNIC_CACHELINE);
    l->slots = snic_arena_take(a, slots, sizeof(*l->slots), SNIC_CACHELINE);
    l->signatures = snic_arena_take(a, (size_t)o->signatures_count + 1, sizeof(*l->signatures), 64);
    l->blocks = snic_arena_take(a, l->blocks_count, sizeof(*l->blocks), SNIC_DIRECTOR__BLOCK);
    l->chunks = snic_arena_take(a, director_chunks_count(l->blocks_count), sizeof(*l->chunks), 64);
    l->parts.area = snic_arena_take(a, l->area_blocks, SNIC_DIRECTOR__BLOCK, SNIC_DIRECTOR__BLOCK);
    l->buffers = snic_arena_take(a, l->buffers_count, l->buffer_size, SNIC_DIRECTOR__BLOCK);
    l->parts.runs.tag = snic_arena_take(a, l->area_blocks, sizeof(uint32_t), 64);
    l->parts.runs.next = snic_arena_take(a, l->area_blocks, sizeof(uint32_t), 64);
    l->parts.runs.prev = snic_arena_take(a, l->area_blocks, sizeof(uint32_t), 64);
}

size_t snic_director_memsize(const struct snic_director_opts *opts)
{
    struct snic_director_opts o;
    struct director_layout l;
    struct snic_arena a = {NULL, SIZE_MAX, 0};
    if (!director_opts(&o, opts) || !director_divide(&l, &o))
        return 0;
    director_lay(&l, &a, &o);
    return a.used == SIZE_MAX ? 0 : a.used;
}

const char *snic_director_opts_wrong(const struct snic_director_opts *opts)
{
    struct snic_director_opts o;
    struct director_layout l;
    memset(&o, 0, sizeof(o));
    o.opts_size = sizeof(o);
    if (snic_opts_copy(&o, sizeof(o), opts) != 0)
        return "opts_size: not the struct's, or an unknown option is set";
    director_opts_defaults(&o);
    if (director_opts_wrong(&o) != NULL)
        return director_opts_wrong(&o);
    if (!director_opts(&o, opts) || !director_divide(&l, &o))
        return "pool_bytes: too small for message_max and conns_max";
    return snic_director_memsize(opts) == 0 ? "pool_bytes: more than memory can be" : NULL;
}

int snic_director_set_conn_bytes(struct snic_director *d, uint32_t bytes)
{
    if (bytes > (1u << 30) || bytes < SNIC_DIRECTOR__BLOCK)
        return SNIC_EINVAL;
    d->opts.conn_bytes = bytes;
    return 0;
}

void snic_director_set_total_bytes(struct snic_director *d, uint64_t bytes)
{
    d->total_bytes = bytes;
}

/* The connection of a client by its number; NULL: it has gone. */
static struct snic_director_conn *director_conn_find(struct snic_director *d, uint64_t conn)
{
    for (struct snic_link *l = d->all.next; l != &d->all; l = l->next) {
        struct snic_director_conn *c = SNIC_CONTAINER(l, struct snic_director_conn, link);
        if (c->id == conn && !c->dead && !c->raw)
            return c;
    }
    return NULL;
}

int snic_director_conn_keep(struct snic_director *d, uint64_t conn, int on)
{
    struct snic_director_conn *c = director_conn_find(d, conn);
    if (c == NULL)
        return SNIC_ENOENT;
    if (c->kept != (on != 0))
        d->held += on ? 0 - c->mem : c->mem;
    c->kept = on != 0;
    return 0;
}

int snic_director_conn_reset(struct snic_director *d, uint64_t conn)
{
    struct snic_director_conn *c = director_conn_find(d, conn);
    if (c == NULL)
        return SNIC_ENOENT;
    director_conn_abort(c);
    return 0;
}

uint32_t snic_director_reset_full(struct snic_director *d, uint64_t bytes, uint64_t ms)
{
    uint64_t now = snic_loop_now(d->loop);
    uint32_t count = 0;
    for (struct snic_link *l = d->all.next; l != &d->all;) {
        struct snic_director_conn *c = SNIC_CONTAINER(l, struct snic_director_conn, link);
        l = l->next;
        int full =
            (c->wait_for & SNIC_DIRECTOR__WAIT_POOL) != 0 || /* only its client ends it */
            ((c->wait_for & SNIC_DIRECTOR__WAIT_BOUND) != 0 && c->mem > director_share(c) / 2);
        if (c->dead || c->closing || c->raw || (bytes == 0 ? !full : c->mem < bytes) ||
            now - c->mark_ns < ms * 1000000)
            continue;
        director_conn_abort(c);
        if (bytes == 0)
            d->stats.share_resets++;
        else
            d->stats.full_resets++;
        count++;
    }
    return count;
}

static int director_poll(struct snic_loop_poller *p, int sleeping);
static void director_drain_fire(struct snic_timer *t, uint64_t now_ns);
static void director_drained(struct snic_loop_msg *m);

static void director_start(struct snic_director *d, const struct director_layout *l)
{
    snic_link_init(&d->all);
    snic_link_init(&d->idle);
    snic_link_init(&d->dirty);
    snic_link_init(&d->wait_slot);
    snic_link_init(&d->wait_block);
    snic_link_init(&d->wait_channel);
    snic_link_init(&d->wait_backlog);
    snic_link_init(&d->wait_unread);
    director_blocks_start(d);
    d->parts = l->parts;
    base_runs_start(&d->parts.runs, l->area_blocks);
    snic_link_init(&d->parts.waiters);
    memset(&d->parts.idle, 0, sizeof(d->parts.idle));
    d->parts.idle_count = l->buffers_count;
    for (uint32_t i = 0; i < l->buffers_count; i++)
        snic_queue_push(&d->parts.idle,
                        (struct snic_node *)(void *)(l->buffers + (size_t)i * l->buffer_size));
}

int snic_director_init(struct snic_director **out, void *mem, size_t mem_size, struct snic_net *net,
                       struct snic_offload *offload, const struct snic_director_user *user,
                       const struct snic_director_opts *opts)
{
    struct snic_director_opts o;
    struct director_layout l;
    struct snic_arena a = {mem, mem_size, 0};
    if (!director_opts(&o, opts) || ((uintptr_t)mem & (SNIC_DIRECTOR_ALIGN - 1)) != 0 ||
        !director_divide(&l, &o) || user->frame == NULL || user->predicate == NULL ||
        user->protocol_error == NULL || user->host_gone == NULL ||
        (offload != NULL && snic_offload_loop(offload) != net->loop))
        return SNIC_EINVAL;
    size_t need = snic_director_memsize(opts);
    if (need == 0)
        return SNIC_EINVAL;
    if (mem_size < need)
        return SNIC_ENOSPC;
    director_lay(&l, &a, &o);
    struct snic_director *d = l.d;
    memset(d, 0, sizeof(*d));
    d->opts = o;
    d->message_max = o.message_max;
    if (o.signatures_count > 0)
        memcpy(l.signatures, o.signatures, o.signatures_count * sizeof(*l.signatures));
    d->opts.signatures = l.signatures;
    d->user = *user;
    d->loop = net->loop;
    d->net = net;
    d->offload = offload;
    d->conns = l.conns;
    d->slots = l.slots;
    d->blocks = l.blocks;
    d->chunks = l.chunks;
    d->slots_own = l.slots_own;
    d->slots_common = l.slots_common;
    d->slots_count = d->slots_free = o.conns_max * l.slots_own + l.slots_common;
    d->blocks_count = d->blocks_free = l.blocks_count;
    director_start(d, &l);
    snic_timer_init(&d->stall, director_stall_fire);
    snic_timer_init(&d->drain, director_drain_fire);
    snic_timer_init(&d->backlog_timer, director_backlog_fire);
    snic_timer_init(&d->idle_timer, director_idle_fire);
    d->drained_msg.fn = director_drained;
    snic_loop_poller_init(&d->poller, director_poll);
    snic_loop_poller_add(d->loop, &d->poller);
    *out = d;
    return 0;
}

void *snic_director_fini(struct snic_director *d)
{
    SNIC_ASSERT(snic_link_alone(&d->all) && d->refusals_used == 0);
    snic_director_upstream_close(d);
    for (uint32_t i = 0; i < SNIC_DIRECTOR__LISTENERS; i++) {
        if (d->listeners[i] != NULL)
            snic_net_unlisten(d->listeners[i]);
    }
    SNIC_ASSERT(!d->channel_close_queued);
    snic_loop_cancel(d->loop, &d->stall);
    snic_loop_cancel(d->loop, &d->drain);
    snic_loop_cancel(d->loop, &d->backlog_timer);
    snic_loop_cancel(d->loop, &d->idle_timer);
    snic_loop_poller_remove(d->loop, &d->poller);
    return d;
}

/* ---- Running ---- */

/* What the iteration collected leaves: to the host, then to clients. */
static int director_poll(struct snic_loop_poller *p, int sleeping)
{
    struct snic_director *d = SNIC_CONTAINER(p, struct snic_director, poller);
    int any = director_channel_flush(d);
    (void)sleeping;
    director_total_check(d);
    director_backlog_resume(d);
    director_unread_resume(d);
    while (!snic_link_alone(&d->dirty)) {
        struct snic_director_conn *c =
            SNIC_CONTAINER(d->dirty.next, struct snic_director_conn, dirty);
        snic_link_remove(&c->dirty);
        any |= director_out_flush(&c->client);
        if (c->host.open)
            any |= director_out_flush(&c->host);
        if (c->closing || c->client.eof || c->raw)
            director_conn_check(c);
    }
    return any;
}

int snic_director_listen(struct snic_director *d, const struct snic_net_addr *a, uint32_t flags,
                         struct snic_net_addr *bound)
{
    for (uint32_t i = 0; i < SNIC_DIRECTOR__LISTENERS; i++) {
        struct snic_net_listener **l = &d->listeners[i];
        if (*l != NULL)
            continue;
        int r = snic_net_listen(d->net, a, flags, director_accept, d, l);
        if (r == 0 && bound != NULL)
            r = snic_net_listen_addr(*l, bound);
        return r;
    }
    return SNIC_ENOSPC;
}

void snic_director_upstream_net(struct snic_director *d, const struct snic_net_addr *host)
{
    d->host_addr = *host;
    d->host_net = 1;
}

/* ---- Draining ---- */

static void director_drained(struct snic_loop_msg *m)
{
    struct snic_director *d = SNIC_CONTAINER(m, struct snic_director, drained_msg);
    void (*done)(void *ctx) = d->drained;
    d->drained = NULL;
    done(d->drained_ctx);
}

static void director_drain_fire(struct snic_timer *t, uint64_t now_ns)
{
    struct snic_director *d = SNIC_CONTAINER(t, struct snic_director, drain);
    (void)now_ns;
    d->drain_over = 1; /* a host that reads nothing is let go of with its client */
    for (struct snic_link *l = d->all.next; l != &d->all; l = l->next) {
        struct snic_director_conn *c = SNIC_CONTAINER(l, struct snic_director_conn, link);
        if (!c->dead)
            director_conn_abort(c);
        else if (c->host.net != NULL)
            snic_net_abort(c->host.net);
    }
}

void snic_director_drain(struct snic_director *d, void (*done)(void *ctx), void *ctx)
{
    SNIC_ASSERT(!d->draining);
    d->draining = 1;
    d->drained = done;
    d->drained_ctx = ctx;
    for (uint32_t i = 0; i < SNIC_DIRECTOR__LISTENERS; i++) {
        if (d->listeners[i] != NULL)
            snic_net_unlisten(d->listeners[i]);
        d->listeners[i] = NULL;
    }
    for (struct snic_link *l = d->all.next; l != &d->all; l = l->next) {
        struct snic_director_conn *c = SNIC_CONTAINER(l, struct snic_director_conn, link);
        c->client.eof = 1; /* received messages are answered, no more are taken */
        director_ready(c);
    }
    director_refusals_drop(d);
    director_drain_check(d);
    if (d->draining == 1)
        snic_loop_arm(d->loop, &d->drain,
                      snic_loop_now(d->loop) + (uint64_t)d->opts.drain_ms * 1000000);
}

/* ---- Facts ---- */

void snic_director_get_stats(const struct snic_director *d, struct snic_director_stats *out)
{
    *out = d->stats;
    out->blocks_free = d->blocks_free;
    out->message_max = d->message_max;
}

static uint64_t director_check_queue(const struct snic_queue *q, uint64_t *jobs)
{
    uint64_t blocks = 0;
    for (const struct snic_node *n = q->first; n != NULL; n = n->next) {
        const struct director_piece *p = SNIC_CONTAINER(n, struct director_piece, node);
        if (p->begin > p->flight || p->flight > p->end)
            return UINT64_MAX / 2;
        if (p->kind == DIRECTOR_PIECE_BLOCK)
            blocks++;
        else
            *jobs += ((const struct director_slot *)p)->job->pool_bytes;
    }
    return blocks;
}

/* Blocks that @c holds, or a huge number when something is wrong. */
static uint64_t director_check_conn(const struct snic_director_conn *c, uint64_t *slots,
                                    uint64_t *unread)
{
    uint64_t jobs = 0;
    uint64_t blocks =
        director_check_queue(&c->client.out, &jobs) + director_check_queue(&c->host.out, &jobs);
    uint32_t listed = 0;
    uint32_t offloads = 0;
    uint32_t barriers = 0;
    uint64_t flight = 0;
    blocks +=
        (c->part != NULL && c->part_kind == DIRECTOR_PART_BLOCK) + (uint64_t)(c->carry != NULL);
    for (const struct snic_link *l = c->slots.next; l != &c->slots; l = l->next) {
        const struct director_slot *s = SNIC_CONTAINER(l, struct director_slot, link);
        if (s->conn != c || s->state == DIRECTOR_SLOT_FREE || s->state == DIRECTOR_SLOT_SENDING)
            return UINT64_MAX / 2;
        blocks += director_check_queue(&s->pieces, &jobs);
        listed++;
        offloads += s->state == DIRECTOR_SLOT_OFFLOAD || s->state == DIRECTOR_SLOT_RETRY;
        barriers += (s->flags & SNIC_DIRECTOR__BARRIER) != 0;
        flight += s->cost;
        *unread += s->unread ? s->cost : 0;
        if (s->state == DIRECTOR_SLOT_DONE && s->job != NULL)
            jobs += s->job->pool_bytes;
    }
    if (listed > c->pending || offloads != c->offloading || barriers != c->barriers ||
        c->mem != blocks * SNIC_DIRECTOR__BLOCK + jobs || c->job_bytes != jobs ||
        c->flight != flight)
        return UINT64_MAX / 2;
    *slots += c->pending;
    return blocks;
}

int snic_director_check(const struct snic_director *d)
{
    uint64_t blocks = 0;
    uint64_t slots = 0;
    uint64_t common = 0;
    uint64_t conns = 0;
    uint64_t flight = 0;
    uint64_t unread = 0;
    uint32_t idle = 0;
    for (const struct snic_link *l = d->all.next; l != &d->all; l = l->next) {
        const struct snic_director_conn *c = SNIC_CONTAINER(l, struct snic_director_conn, link);
        blocks += director_check_conn(c, &slots, &unread);
        if (blocks > d->blocks_count)
            return SNIC_ECORRUPT;
        common += c->pending > d->slots_own ? c->pending - d->slots_own : 0;
        flight += c->flight;
        conns++;
    }
    if (director_blocks_check(d) != d->blocks_free || blocks + d->blocks_free != d->blocks_count)
        return SNIC_ECORRUPT;
    for (const struct snic_node *n = d->slots_idle.first; n != NULL && idle <= d->slots_count;
         n = n->next)
        idle++;
    idle += d->slots_count - d->slots_made;
    if (idle != d->slots_free || slots + idle != d->slots_count ||
        common + d->slots_common != d->slots_count - (uint64_t)d->opts.conns_max * d->slots_own ||
        conns != d->stats.conns || flight != d->flight || unread != d->unread_flight)
        return SNIC_ECORRUPT;
    return base_runs_check(&d->parts.runs);
}

#undef SNIC_DIRECTOR__OWN_MAX
#undef SNIC_DIRECTOR__COMMON
#undef SNIC_DIRECTOR__AREA_LEAST
#undef SNIC_DIRECTOR__RARE
#undef SNIC_DIRECTOR__POOL
