/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * The node from outside: options, memory, the beginning and the end. The map and the invariants are
 * at the head of replica_priv.h.
 */
#include "replica_priv.h"

#define REPLICA_MS UINT64_C(1000000)
#define REPLICA_FLUSH_NS (20 * REPLICA_MS) /* until it was measured */
#define REPLICA_NET_CAPS (SNIC_NET_CAP_STREAM | SNIC_NET_CAP_DGRAM)
#define REPLICA_SENDS_MAX (1u << 20)
#define REPLICA_WINDOW_MIN (64u << 10)
#define REPLICA_WINDOW_MAX (64u << 20)

/* ---- Options ---- */

static void replica_default(uint32_t *v, uint32_t value)
{
    if (*v == 0)
        *v = value;
}

static void replica_opts_engines(const struct snic_replica_opts *o, struct snic_ddp_opts *d,
                                 struct snic_member_opts *m)
{
    memset(d, 0, sizeof(*d));
    d->opts_size = sizeof(*d);
    d->model = o->model;
    d->flags = o->ddp_flags | (o->changed != NULL ? (uint32_t)SNIC_DDP_CHANGES : 0);
    d->node = o->node;
    d->keys_max = o->keys_max;
    d->writes_max = o->writes_max;
    d->waits_max = o->waits_max;
    d->reads_max = o->reads_max;
    d->scopes_max = o->scopes_max;
    d->others_max = o->nodes_max > 1 ? o->nodes_max - 1 : 1; /* 0: as many as there can be */
    d->retransmit_ns = o->retransmit_ns;
    d->replay_ns = o->replay_ns;
    *m = o->member;
    m->opts_size = sizeof(*m);
    m->node = o->node;
    m->configured = o->configured;
    m->witness = o->witness;
    m->min_full = o->min_full;
    m->cluster = o->cluster;
    for (uint32_t n = 0; n < SNIC_MEMBER_NODES_MAX && o->addrs != NULL; n++) {
        if ((o->configured >> n & 1) != 0)
            (void)replica_put_addr(m->addr[n], &o->addrs[n]);
    }
}

/* What is wrong with the options of the parts; NULL: nothing. */
static const char *replica_parts_wrong(const struct snic_replica_opts *o)
{
    struct snic_ddp_opts d;
    struct snic_member_opts m;
    replica_opts_engines(o, &d, &m);
    if ((o->ddp_flags & ~(uint32_t)(SNIC_DDP_PAPER | SNIC_DDP_VALC_AFTER_PERSIST)) != 0)
        return "ddp_flags: an unknown one is set";
    const char *wrong = snic_ddp_opts_wrong(&d);
    if (wrong != NULL)
        return wrong;
    wrong = snic_member_opts_wrong(&m);
    if (wrong != NULL)
        return wrong;
    return snic_wal_memsize(o->log, &o->wal) != 0
               ? NULL
               : "wal: its flags or sizes do not fit the log, see snic_wal_opts_wrong()";
}

static int replica_zeros(const unsigned char *p, size_t size)
{
    unsigned any = 0;
    for (size_t i = 0; i < size; i++)
        any |= p[i];
    return any == 0;
}

/* Those that are the parts' are left to replica_parts_wrong. @p least: appends_max, at least. */
static const char *replica_own_wrong(const struct snic_replica_opts *o, uint64_t least)
{
    if ((o->flags & ~(uint32_t)SNIC_REPLICA_FOUND) != 0)
        return "flags: an unknown one is set";
    if (o->pad != 0)
        return "pad: not 0";
    if (o->loop == NULL)
        return "loop: NULL";
    if (o->net == NULL || o->net->loop != o->loop)
        return "net: NULL, or on another loop";
    if (o->log == NULL || o->log->loop != o->loop)
        return "log: NULL, or on another loop";
    if (o->addrs == NULL)
        return "addrs: NULL";
    if (o->nodes_max > SNIC_DDP_NODES_MAX ||
        o->nodes_max < (uint32_t)__builtin_popcount(o->configured))
        return "nodes_max: fewer than the configured nodes, or more than 16";
    if (o->value_max > SNIC_REPLICA_VALUE_MAX)
        return "value_max: more than SNIC_REPLICA_VALUE_MAX";
    if ((o->net->caps & REPLICA_NET_CAPS) != REPLICA_NET_CAPS)
        return "net: it needs streams and datagrams";
    if (o->sends_max > REPLICA_SENDS_MAX)
        return "sends_max: more than 2^20";
    if (o->values_bytes > UINT64_C(1) << 36 || o->values_bytes < o->value_max)
        return "values_bytes: more than 2^36, or less than value_max";
    if (o->appends_max > 1u << 24 || !snic_is_pow2(o->appends_max) || o->appends_max < least)
        return "appends_max: more than 2^24, no power of two, or too few for writes_max and "
               "scopes_max";
    if (o->background_ns > UINT64_C(1) << 40)
        return "background_ns: more than 2^40";
    if (o->pad2 != 0)
        return "pad2: not 0";
    if (o->window_bytes < REPLICA_WINDOW_MIN || o->window_bytes > REPLICA_WINDOW_MAX)
        return "window_bytes: not 64 KiB to 64 MiB";
    if (o->sec != NULL && (o->secret == NULL || o->gcm == NULL))
        return "sec: without secret or gcm";
    if (o->sec != NULL && replica_zeros(o->random, sizeof(o->random)))
        return "random: all zero";
    return NULL;
}

/* The options of @p from with their defaults, and what is wrong with them; NULL: nothing. */
static const char *replica_options(struct snic_replica_opts *o,
                                   const struct snic_replica_opts *from)
{
    memset(o, 0, sizeof(*o));
    if (snic_opts_copy(o, sizeof(*o), from) != 0)
        return "opts_size: not the struct's, or an unknown option is set";
    replica_default(&o->writes_max, 256);
    replica_default(&o->waits_max, 4096);
    replica_default(&o->reads_max, 1024);
    if (o->model == SNIC_DDP_SCOPE)
        replica_default(&o->scopes_max, 64);
    replica_default(&o->value_max, 65536);
    replica_default(&o->window_bytes, 1u << 20);
    uint64_t least = 2 * ((uint64_t)o->writes_max + o->scopes_max) + 256;
    replica_default(&o->appends_max, (uint32_t)snic_pow2_up(snic_max_u64(least, 4096)));
    uint64_t nodes = snic_max_u64(5, (uint64_t)__builtin_popcount(o->configured) + 1);
    replica_default(&o->nodes_max, (uint32_t)snic_min_u64(nodes, SNIC_DDP_NODES_MAX));
    if (o->background_ns == 0)
        o->background_ns = 100 * REPLICA_MS;
    replica_default(&o->sends_max,
                    (uint32_t)snic_min_u64(2 * ((uint64_t)o->writes_max + o->waits_max) + 512,
                                           REPLICA_SENDS_MAX));
    const char *wrong = replica_own_wrong(o, least);
    if (wrong != NULL)
        return wrong;
    o->sends_max = (uint32_t)snic_pow2_up(o->sends_max);
    o->wal.opts_size = sizeof(o->wal);
    o->wal.record_max = o->value_max;
    o->wal.flags |= SNIC_WAL_REPEAT;
    o->wal.window_ns = o->background_ns;
    return replica_parts_wrong(o);
}

/* ---- Memory ---- */

/* Once to measure, once to place. */
static void replica_layout(struct snic_arena *a, struct snic_replica *r)
{
    const struct snic_replica_opts *o = &r->o;
    struct snic_member_opts m;
    replica_opts_engines(o, &r->ddp_opts, &m);
    r->ddp_size = snic_ddp_memsize(&r->ddp_opts);
    r->ddp_mem = snic_arena_take(a, 1, r->ddp_size, SNIC_REPLICA_ALIGN);
    void *member = snic_arena_take(a, 1, snic_member_memsize(&m), SNIC_REPLICA_ALIGN);
    void *values =
        snic_arena_take(a, 1, replica_values_memsize(o->values_bytes), SNIC_REPLICA_ALIGN);
    replica_link_layout(a, r);
    replica_log_layout(a, r);
    if (a->base == NULL)
        return;
    SNIC_ASSERT(a->used != SIZE_MAX); /* snic_replica_init compares sizes */
    int result = snic_member_init(&r->member, member, snic_member_memsize(&m), &m);
    SNIC_ASSERT(result == 0);
    result = snic_ddp_init(&r->ddp, r->ddp_mem, r->ddp_size, &r->ddp_opts);
    SNIC_ASSERT(result == 0);
    (void)result;
    replica_values_init(&r->values, values, o->values_bytes);
}

const char *snic_replica_opts_wrong(const struct snic_replica_opts *opts)
{
    struct snic_replica_opts o;
    return replica_options(&o, opts);
}

uint32_t snic_replica_records(const struct snic_replica_opts *opts)
{
    struct snic_replica_opts o;
    struct snic_ddp_opts d;
    struct snic_member_opts m;
    if (replica_options(&o, opts) != NULL)
        return 0;
    replica_opts_engines(&o, &d, &m);
    return snic_ddp_records(&d);
}

size_t snic_replica_memsize(const struct snic_replica_opts *opts)
{
    struct snic_replica r;
    struct snic_arena a = {NULL, SIZE_MAX, 0};
    memset(&r, 0, sizeof(r));
    if (replica_options(&r.o, opts) != NULL)
        return 0;
    (void)snic_arena_take(&a, 1, sizeof(r), SNIC_REPLICA_ALIGN);
    replica_layout(&a, &r);
    return a.used == SIZE_MAX ? 0 : a.used;
}

static int replica_begin(struct snic_replica *r)
{
    for (uint32_t n = 0; n < SNIC_DDP_NODES_MAX; n++) {
        if ((r->o.configured >> n & 1) != 0)
            r->peers[n].addr = r->o.addrs[n];
    }
    r->o.addrs = NULL; /* copied */
    r->boot = snic_loop_clock(r->o.loop) ^ (uint64_t)r->o.incarnation << 40;
    replica_draw(r, &r->boot, sizeof(r->boot));
    r->pace.flush_ns = REPLICA_FLUSH_NS;
    r->wire_lowest = SNIC_REPLICA__WIRE_LOWEST;
    r->wire_highest = SNIC_REPLICA__WIRE_HIGHEST;
    int result = replica_conn_open(r);
    if (result != 0)
        return result;
    result = replica_log_open(r);
    if (result != 0)
        replica_link_stop(r);
    return result;
}

int snic_replica_init(struct snic_replica **out, void *mem, size_t mem_size,
                      const struct snic_replica_opts *opts)
{
    struct snic_replica_opts o;
    struct snic_arena a = {mem, mem_size, 0};
    if (replica_options(&o, opts) != NULL || (uintptr_t)mem % SNIC_REPLICA_ALIGN != 0)
        return SNIC_EINVAL;
    if (mem_size < snic_replica_memsize(opts))
        return SNIC_ENOSPC;
    struct snic_replica *r = snic_arena_take(&a, 1, sizeof(*r), SNIC_REPLICA_ALIGN);
    memset(r, 0, sizeof(*r));
    r->o = o;
    replica_layout(&a, r);
    SNIC_ASSERT(a.used != SIZE_MAX);
    snic_timer_init(&r->timer, replica_timer_fire);
    snic_timer_init(&r->deliver, replica_deliver_fire);
    snic_timer_init(&r->link_timer, replica_conn_fire);
    snic_link_init(&r->flight);
    snic_link_init(&r->confirms);
    snic_link_init(&r->done);
    int result = replica_begin(r);
    if (result == 0)
        *out = r;
    return result;
}

/* ---- The end ---- */

void *snic_replica_fini(struct snic_replica *r)
{
    SNIC_ASSERT(r->state == SNIC_REPLICA_STOPPED);
    SNIC_ASSERT(r->sends_used == 0 && r->conns_live == 0); /* the net handle was shut */
    snic_loop_cancel(r->o.loop, &r->deliver);
    replica_log_fini(r);
    return r;
}

/* ---- Looking ---- */

int snic_replica_override(struct snic_replica *r, uint16_t ended, int any_log)
{
    struct snic_member_event ev = {.type = SNIC_MEMBER_OVERRIDE, .mask = ended};
    if (r->state == SNIC_REPLICA_READING)
        return SNIC_EAGAIN;
    ev.flags = any_log ? (uint32_t)SNIC_MEMBER_ANY_LOG : 0;
    int result = replica_step_member(r, &ev);
    replica_settle(r);
    return result;
}

int snic_replica_reconfigure(struct snic_replica *r, const struct snic_replica_request *c)
{
    struct snic_member_event ev = {.type = SNIC_MEMBER_CHANGE, .kind = c->kind, .node = c->node};
    if (r->state != SNIC_REPLICA_RUNNING)
        return r->state == SNIC_REPLICA_READING ? SNIC_EAGAIN : SNIC_ESTALE;
    if (c->flags != 0 && c->flags != SNIC_MEMBER_WITNESS)
        return SNIC_EINVAL;
    ev.flags = c->flags;
    ev.epoch = c->config_epoch;
    if (c->addr != NULL && !replica_put_addr(ev.addr, c->addr))
        return SNIC_EINVAL;
    if ((c->kind == SNIC_MEMBER_ADD && c->addr == NULL) || c->node >= SNIC_MEMBER_NODES_MAX)
        return SNIC_EINVAL;
    struct snic_member_status st;
    snic_member_get_status(r->member, &st);
    if (c->client_addr != NULL) {
        if (c->addr == NULL)
            memcpy(ev.addr, st.view.addr[c->node], sizeof(ev.addr));
        if (c->kind == SNIC_MEMBER_REMOVE || !replica_put_client(ev.addr, c->client_addr))
            return SNIC_EINVAL;
    }
    if (c->kind == SNIC_MEMBER_ADD &&
        (uint32_t)__builtin_popcount(st.view.configured) >= r->o.nodes_max)
        return SNIC_ENOSPC;
    int result = replica_step_member(r, &ev);
    replica_settle(r);
    return result;
}

int snic_replica_client_addr(const struct snic_member_view *v, uint32_t node,
                             struct snic_net_addr *out)
{
    if (node >= SNIC_MEMBER_NODES_MAX)
        return SNIC_EINVAL;
    return replica_get_client(v->addr[node], out) ? 0 : SNIC_ENOENT;
}

void snic_replica_get_stats(const struct snic_replica *r, struct snic_replica_stats *out)
{
    memset(out, 0, sizeof(*out));
    out->state = r->state;
    out->failure = r->failure;
    out->log_good = r->log_good;
    out->found_ignored = r->found_ignored;
    out->ops = r->ops;
    out->values = r->values.live;
    out->values_bytes = r->values.used_bytes;
    out->events = r->events;
    out->packets = r->packets;
    out->refused = r->refused;
    out->lost_sends = r->lost_sends;
    out->wrong_cluster = r->wrong_cluster;
    out->wrong_version = r->wrong_version;
    out->wrong_key = r->wrong_key;
    out->no_room = r->no_room;
    out->no_quorum = r->no_quorum;
    snic_wal_inspect(r->log.wal, &out->wal);
    snic_ddp_get_stats(r->ddp, &out->ddp);
    snic_member_get_status(r->member, &out->member);
    out->serves =
        r->state == SNIC_REPLICA_RUNNING && out->ddp.serves && replica_clock(r) < r->lease_ns;
    out->full = (uint32_t)__builtin_popcount(r->view.full);
    out->min_full = out->member.min_full;
    out->writable = out->serves && out->full >= out->min_full;
}

int snic_replica_get_peer(const struct snic_replica *r, uint32_t node,
                          struct snic_replica_peer_stats *out)
{
    if (node >= SNIC_DDP_NODES_MAX || node == r->o.node || (r->others >> node & 1) == 0)
        return SNIC_EINVAL;
    const struct replica_peer *p = &r->peers[node];
    memset(out, 0, sizeof(*out));
    for (uint32_t i = 0; i < r->conn_count; i++) {
        if (r->conns[i].peer == node && r->conns[i].state != REPLICA_CONN_ENDING)
            out->state = SNIC_REPLICA_PEER_CONNECTING;
    }
    if (p->conn != NULL) {
        out->state = SNIC_REPLICA_PEER_UP;
        out->version = p->conn->version;
    }
    for (uint32_t c = 0; c < REPLICA_CHANNELS; c++) {
        out->queued += p->to[c].wait.count;
        out->unacknowledged += p->to[c].sent.count;
        out->queued_bytes += p->to[c].queued;
    }
    out->refusal = p->refusal;
    out->rtt_ns = p->rtt_ns;
    out->flush_ns = snic_max_u64(p->flush_ns, p->flushing_ns);
    out->heard_ns = p->heard_ns;
    out->sent = p->sent;
    out->sent_bytes = p->sent_bytes;
    out->received = p->received;
    out->repeats = p->repeats;
    out->lost = p->lost;
    out->connects = p->connects;
    out->stalls = p->stalls;
    return 0;
}

int snic_replica_check(const struct snic_replica *r)
{
    uint32_t ops = 0;
    if (replica_link_check(r) != 0 || snic_ddp_check(r->ddp) != 0 ||
        snic_member_check(r->member) != 0 || replica_values_check(&r->values) != 0 ||
        snic_wal_check(r->log.wal) != 0)
        return SNIC_ECORRUPT;
    for (const struct snic_link *l = r->flight.next; l != &r->flight; l = l->next)
        ops += SNIC_CONTAINER(l, struct snic_replica_op, link)->state == REPLICA_OP_FLIGHT;
    for (const struct snic_link *l = r->confirms.next; l != &r->confirms; l = l->next)
        ops += SNIC_CONTAINER(l, struct snic_replica_op, link)->state == REPLICA_OP_FLIGHT;
    for (const struct snic_link *l = r->done.next; l != &r->done; l = l->next)
        ops += SNIC_CONTAINER(l, struct snic_replica_op, link)->state == REPLICA_OP_DONE;
    if (ops > r->ops || r->depth != 0)
        return SNIC_ECORRUPT; /* N1 */
    return 0;
}

#undef REPLICA_MS
#undef REPLICA_FLUSH_NS
#undef REPLICA_NET_CAPS
#undef REPLICA_SENDS_MAX
#undef REPLICA_WINDOW_MIN
#undef REPLICA_WINDOW_MAX
