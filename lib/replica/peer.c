/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * The other nodes: what is known of each, the memory that each has, and the end of its connection.
 * Memory is laid out for nodes_max; that of a node that was removed goes to one that is added.
 */
#include "replica_priv.h"

#define REPLICA_HEARD_NS UINT64_C(5000000)
#define REPLICA_PROBES_NS UINT64_C(1000000000) /* from one probe to the next */

/* The link's timer, no later than at. */
void replica_link_wake(struct snic_replica *r, uint64_t at)
{
    if (at >= r->link_at && r->link_timer.armed)
        return;
    r->link_at = at;
    snic_loop_arm(r->o.loop, &r->link_timer, at);
}

/* It was heard: an attempt to connect need not wait any longer. */
void replica_link_heard(struct snic_replica *r, struct replica_peer *p)
{
    uint64_t now = snic_loop_clock(r->o.loop);
    if (p->conn != NULL || p->refusal != NULL || p->connect_ns <= now + REPLICA_HEARD_NS)
        return;
    p->connect_ns = now + REPLICA_HEARD_NS;
    replica_link_wake(r, p->connect_ns);
}

/* The connection's other end may be gone: see whether it answers. */
void replica_link_probe(struct snic_replica *r, struct replica_peer *p)
{
    uint64_t now = snic_loop_clock(r->o.loop);
    if (now < p->probe_ns)
        return;
    p->probe_ns = now + REPLICA_PROBES_NS;
    replica_link_heard(r, p);
    if (p->conn == NULL)
        return;
    p->pinged = 2;
    p->pinged_ns = now;
    p->ping |= 1;
    r->to_pump |= (uint16_t)(1u << replica_link_number(r, p));
    replica_link_wake(r, now);
}

/* A connection or a datagram was refused. */
void replica_link_count(struct snic_replica *r, int why)
{
    r->refused++;
    r->wrong_cluster += why == SNIC_EPERM;
    r->wrong_version += why == SNIC_EVERSION;
    r->wrong_key += why == SNIC_EACCES;
}

/* It was that node's, which has no connection for this reason. */
void replica_link_name(struct snic_replica *r, struct replica_peer *p, int why)
{
    const char *text = replica_refusal(why);
    if (p->conn != NULL)
        return;
    r->notify |= p->refusal != text;
    p->refusal = text;
}

/* ---- Ends ---- */

/* The connection has ended, or begins: nothing is queued, sent or half here. */
void replica_link_reset(struct snic_replica *r, struct replica_peer *p)
{
    for (uint32_t c = 0; c < REPLICA_CHANNELS; c++) {
        struct replica_to *t = &p->to[c];
        struct replica_from *f = &p->from[c];
        unsigned char *ring = f->ring;
        replica_to_empty(r, p, &t->wait);
        replica_to_empty(r, p, &t->sent);
        memset(t, 0, sizeof(*t));
        if (f->value != 0)
            replica_value_drop(&r->values, f->value);
        r->blocked -= f->blocked != REPLICA_FREE;
        memset(f, 0, sizeof(*f));
        f->ring = ring;
        f->granted = r->o.window_bytes;
        p->taken[c] = 0;
    }
    memset(&p->credit, 0, sizeof(p->credit));
    p->credit_at_ns = 0;
    p->ping = 0;
    p->pinged = 0;
}

/* L6: it is its peer's no more. */
void replica_conn_leave(struct snic_replica *r, const struct replica_conn *k)
{
    if (k->peer == SNIC_REPLICA__NIL || r->peers[k->peer].conn != k)
        return;
    r->peers[k->peer].conn = NULL;
    replica_link_reset(r, &r->peers[k->peer]);
}

/* At once: nothing is taken from it any more, and its peer's queues are empty. */
void replica_conn_abort(struct replica_conn *k)
{
    struct snic_replica *r = k->r;
    if (k->state == REPLICA_CONN_NONE || k->state == REPLICA_CONN_ENDING)
        return;
    replica_conn_leave(r, k);
    k->state = REPLICA_CONN_ENDING;
    snic_net_abort(k->c);
}

/* Nothing is sent to that node or taken from it any more. */
static void replica_link_cut(struct snic_replica *r, uint32_t n)
{
    replica_dgram_forget(r, n);
    for (uint32_t i = 0; i < r->conn_count; i++) {
        if (r->conns[i].peer == n)
            replica_conn_abort(&r->conns[i]);
    }
}

/* N6: nothing is sent any more. */
void replica_link_stop(struct snic_replica *r)
{
    snic_loop_cancel(r->o.loop, &r->link_timer);
    for (uint32_t n = 0; n < SNIC_DDP_NODES_MAX; n++) {
        if ((r->others >> n & 1) != 0)
            replica_link_cut(r, n);
    }
    for (uint32_t i = 0; i < r->conn_count; i++)
        replica_conn_abort(&r->conns[i]); /* those of nodes not known yet */
    r->to_flush = r->to_pump = 0;
    snic_net_unlisten(r->listener);
    r->listener = NULL;
    snic_net_dgram_close(r->dgram);
}

/* ---- Memory ---- */

static void replica_conn_layout(struct snic_arena *a, struct snic_replica *r)
{
    uint32_t count = r->conn_count;
    uint32_t block = SNIC_REPLICA__BLOCK + SNIC_REPLICA__BODY;
    r->conns = snic_arena_take(a, count, sizeof(*r->conns), 64);
    unsigned char *blocks = snic_arena_take(a, count, snic_align_up(block, 64), 64);
    unsigned char *buffers = snic_arena_take(a, count, 2 * SNIC_REPLICA__BUFFER, 64);
    for (uint32_t i = 0; a->base != NULL && i < count; i++) {
        struct replica_conn *k = &r->conns[i];
        memset(k, 0, sizeof(*k));
        k->r = r;
        k->peer = SNIC_REPLICA__NIL;
        k->block = blocks + i * snic_align_up(block, 64);
        for (uint32_t b = 0; b < 2; b++) {
            k->buffer[b].conn = k;
            k->buffer[b].data = buffers + (2 * (size_t)i + b) * SNIC_REPLICA__BUFFER;
        }
    }
}

static void replica_peer_layout(struct snic_arena *a, struct snic_replica *r,
                                struct replica_peer *p)
{
    uint32_t max = r->o.sends_max;
    p->outs = snic_arena_take(a, max, sizeof(*p->outs), 64);
    p->buckets = snic_arena_take(a, max, sizeof(*p->buckets), 64);
    for (uint32_t c = REPLICA_CH_WRITES; c < REPLICA_CHANNELS; c++)
        p->from[c].ring = snic_arena_take(a, 1, r->o.window_bytes, 64);
    if (a->base == NULL)
        return;
    p->out_free = SNIC_REPLICA__NIL;
    p->outs_free = max;
    for (uint32_t i = max; i-- > 0;) {
        memset(&p->outs[i], 0, sizeof(p->outs[i]));
        p->outs[i].next = p->out_free;
        p->out_free = i;
        p->buckets[i] = SNIC_REPLICA__NIL;
    }
    p->open = SNIC_REPLICA__NIL;
    p->credit_at_ns = SNIC_NEVER;
}

void replica_link_layout(struct snic_arena *a, struct snic_replica *r)
{
    r->others = (uint16_t)(r->o.configured & ~(1u << r->o.node));
    uint32_t others = r->o.nodes_max > 1 ? r->o.nodes_max - 1 : 0;
    uint32_t sends = others * SNIC_REPLICA__SENDS;
    r->conn_count = 2 * others + SNIC_REPLICA__CONNS_MORE;
    r->send_count = sends;
    r->sends = snic_arena_take(a, sends, sizeof(*r->sends), 64);
    unsigned char *data = snic_arena_take(a, sends, SNIC_REPLICA__DATAGRAM, 64);
    for (uint32_t n = 0; n < SNIC_DDP_NODES_MAX; n++) {
        if ((r->others >> n & 1) != 0)
            replica_peer_layout(a, r, &r->peers[n]);
        else
            r->peers[n].open = SNIC_REPLICA__NIL;
    }
    r->spare_count = others - (uint32_t)__builtin_popcount(r->others);
    for (uint32_t i = 0; i < r->spare_count; i++)
        replica_peer_layout(a, r, &r->spare[i]);
    replica_conn_layout(a, r);
    if (a->base == NULL)
        return;
    r->send_free = SNIC_REPLICA__NIL;
    for (uint32_t i = sends; i-- > 0;) {
        memset(&r->sends[i], 0, sizeof(r->sends[i]));
        r->sends[i].r = r;
        r->sends[i].data = data + (size_t)i * SNIC_REPLICA__DATAGRAM;
        r->sends[i].next = r->send_free;
        r->send_free = i;
    }
}

/* The memory of a node that is not in @p keep becomes a spare one. */
static void replica_link_vacate(struct snic_replica *r, uint16_t keep)
{
    uint16_t from = (uint16_t)(r->others & ~keep);
    if (from == 0)
        return;
    uint32_t n = (uint32_t)__builtin_ctz(from);
    struct replica_peer *p = &r->peers[n];
    replica_link_cut(r, n);
    struct replica_peer *spare = &r->spare[r->spare_count++];
    memset(spare, 0, sizeof(*spare));
    spare->outs = p->outs;
    spare->buckets = p->buckets;
    spare->out_free = p->out_free; /* all are free */
    spare->outs_free = p->outs_free;
    spare->open = SNIC_REPLICA__NIL;
    spare->credit_at_ns = SNIC_NEVER;
    for (uint32_t c = 0; c < REPLICA_CHANNELS; c++)
        spare->from[c].ring = p->from[c].ring;
    memset(p, 0, sizeof(*p));
    p->open = SNIC_REPLICA__NIL;
    r->others &= (uint16_t) ~(1u << n);
}

/*
 * A node of a view whose nodes are @p view: its address, and memory if it had none. A node that was
 * removed keeps its memory until another one needs it.
 */
void replica_link_know(struct snic_replica *r, uint16_t view, uint32_t n,
                       const struct snic_net_addr *addr)
{
    struct replica_peer *p = &r->peers[n];
    uint8_t was[SNIC_MEMBER_ADDR_MAX], is[SNIC_MEMBER_ADDR_MAX];
    (void)replica_put_addr(was, &p->addr);
    (void)replica_put_addr(is, addr);
    if ((r->others >> n & 1) == 0) {
        if (r->spare_count == 0)
            replica_link_vacate(r, view);
        if (r->spare_count == 0) {
            replica_fail(r, SNIC_ENOSPC); /* nodes_max */
            return;
        }
        *p = r->spare[--r->spare_count];
        r->others |= (uint16_t)(1u << n);
    } else if (memcmp(was, is, sizeof(was)) == 0) {
        return;
    } else if (p->conn != NULL) {
        replica_conn_abort(p->conn); /* to the node that it was */
    }
    p->addr = *addr;
    replica_link_wake(r, 0);
}

/* ---- Checks ---- */

/* Connections that are accepted, at most (L7). */
uint32_t replica_link_places(const struct snic_replica *r)
{
    return r->conn_count - (r->conn_count - SNIC_REPLICA__CONNS_MORE) / 2;
}

static int replica_peer_check(const struct snic_replica *r, const struct replica_peer *p)
{
    uint32_t count = p->outs_free, blocked = 0;
    if ((p->out_free == SNIC_REPLICA__NIL) != (p->outs_free == 0))
        return SNIC_ECORRUPT;
    for (uint32_t c = 0; c < REPLICA_CHANNELS; c++) {
        const struct replica_to *t = &p->to[c];
        const struct replica_from *f = &p->from[c];
        count += t->wait.count + t->sent.count;
        if (c != 0 && t->bytes > t->limit) /* L4 */
            return SNIC_ECORRUPT;
        if (p->conn != NULL && c != 0 &&
            (f->arrived > f->granted || f->arrived - f->taken < f->ring_used))
            return SNIC_ECORRUPT; /* L5 */
        blocked += f->blocked != REPLICA_FREE;
    }
    return count == r->o.sends_max && blocked <= r->blocked ? 0 : SNIC_ECORRUPT; /* L2 */
}

int replica_link_check(const struct snic_replica *r)
{
    uint32_t open = 0, unused = 0, live = 0, accepted = 0;
    for (uint32_t n = 0; n < SNIC_DDP_NODES_MAX; n++) {
        open += r->peers[n].open != SNIC_REPLICA__NIL;
        if ((r->others >> n & 1) != 0 && replica_peer_check(r, &r->peers[n]) != 0)
            return SNIC_ECORRUPT;
    }
    for (uint32_t i = r->send_free; i != SNIC_REPLICA__NIL; i = r->sends[i].next)
        unused++;
    for (uint32_t i = 0; i < r->conn_count; i++) {
        live += r->conns[i].state != REPLICA_CONN_NONE;
        accepted += r->conns[i].state != REPLICA_CONN_NONE && !r->conns[i].initiator;
    }
    if (accepted > replica_link_places(r)) /* L7 */
        return SNIC_ECORRUPT;
    return unused + r->sends_used == r->send_count && open == 0 && live == r->conns_live /* L1 */
               ? 0
               : SNIC_ECORRUPT;
}

#undef REPLICA_HEARD_NS
#undef REPLICA_PROBES_NS
