/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* Things with numbers: node states, messages, memberships. */
#include "ddpnic_node_priv.h"

#include <stdlib.h>
#include <string.h>

#define XN_CANON_MAX 16384

_Static_assert(SNIC_DDPNIC_ALIGN <= MC_INTERN_ALIGN, "a node state in a set holds an engine");

const struct xn_sum *xn_sum(const struct xn_space *s, uint32_t node)
{
    return &xn_node_at(s, node)->sum;
}

const struct snic_ddp_msg *xn_message(const struct xn_space *s, uint32_t message)
{
    return s->messages.item[message];
}

const struct snic_ddp_view *xn_view_at(const struct xn_space *s, uint32_t view)
{
    return s->views.item[view];
}

struct snic_ddp_timer xn_timer(const struct xn_space *s, uint32_t node, uint32_t i)
{
    return xn_node_at(s, node)->timer[i];
}

struct xn_under_way xn_under_way(const struct xn_space *s, uint32_t node, uint32_t i)
{
    const struct xn_pending *p = &xn_node_at(s, node)->pend[i];
    struct xn_under_way u = {p->ts, p->type, p->key, p->id, 0};

    return u;
}

uint32_t xn_view(struct xn_space *s, const struct snic_ddp_view *v)
{
    uint32_t n;

    (void)pthread_mutex_lock(&s->lock);
    n = mc_set_add(&s->views, mc_fingerprint(v, sizeof(*v)), v, sizeof(*v));
    (void)pthread_mutex_unlock(&s->lock);
    return n;
}

/* ---- The space ---- */

static struct snic_ddpnic_opts xn_engine_opts(const struct xn_opts *o, uint32_t id)
{
    struct snic_ddpnic_opts e;

    memset(&e, 0, sizeof(e));
    e.opts_size = sizeof(e);
    e.model = o->model;
    e.flags = o->flags;
    e.node = id;
    e.keys_max = o->keys;
    e.others_max = o->nodes > 1 ? o->nodes - 1 : 1;
    e.writes_max = o->writes + 2;
    e.waits_max = 8;
    e.reads_max = 0;
    e.scopes_max = o->scopes;
    e.vfifo_max = e.dfifo_max = o->fifo != 0 ? o->fifo : o->writes + 1;
    return e;
}

static void xn_result_free(void *result)
{
    struct xn_result *r = result;

    free(r->out);
    free(r->done);
    free(r->owned);
    free(r);
}

struct xn_space *xn_space_new(const struct xn_opts *o)
{
    struct xn_space *s = calloc(1, sizeof(*s));
    struct snic_ddpnic_opts e = xn_engine_opts(o, 0);

    if (s == NULL)
        abort();
    s->o = *o;
    s->node_size = sizeof(struct xn_node) + snic_ddpnic_memsize(&e);
    (void)pthread_mutex_init(&s->lock, NULL);
    mc_set_init(&s->nodes);
    mc_set_init(&s->messages);
    mc_set_init(&s->views);
    mc_memo_init(&s->memo);
    return s;
}

void xn_space_free(struct xn_space *s)
{
    mc_memo_fini(&s->memo, xn_result_free);
    mc_set_fini(&s->nodes);
    mc_set_fini(&s->messages);
    mc_set_fini(&s->views);
    (void)pthread_mutex_destroy(&s->lock);
    free(s);
}

/* ---- A node's canonical form ---- */

static int xn_pending_before(const struct xn_pending *a, const struct xn_pending *b)
{
    if (a->type != b->type)
        return a->type < b->type;
    if (a->key != b->key)
        return a->key < b->key;
    if (a->ts != b->ts)
        return a->ts < b->ts;
    return a->id != b->id ? a->id < b->id : a->value < b->value;
}

static void xn_sort_pending(struct xn_node *n)
{
    uint32_t i, k;

    for (i = 1; i < n->pending; i++) {
        struct xn_pending p = n->pend[i];

        for (k = i; k > 0 && xn_pending_before(&p, &n->pend[k - 1]); k--)
            n->pend[k] = n->pend[k - 1];
        n->pend[k] = p;
    }
    memset(&n->pend[n->pending], 0, (XN_PENDING - n->pending) * sizeof(n->pend[0]));
    memset(&n->queue[n->down], 0, (XN_QUEUE - n->down) * sizeof(n->queue[0]));
    memset(&n->reply[n->back], 0, (XN_QUEUE - n->back) * sizeof(n->reply[0]));
}

/* The log and, when the node is alive, what the dFIFO holds durable: what a crash leaves. */
void xn_sum_log(struct xn_node *n)
{
    struct snic_ddp_entry e;
    uint64_t cursor = 0;
    uint32_t k;

    for (k = 0; k < XN_KEYS; k++) {
        n->sum.key[k].log = n->log[k];
        n->sum.key[k].log_value = n->log_value[k];
    }
    while (n->sum.alive && snic_ddpnic_dfifo(xn_engine(n), &cursor, &e) == 0) {
        struct xn_key *x = &n->sum.key[e.key.w[0]];

        if (e.ts > x->log) {
            x->log = e.ts;
            x->log_value = e.value;
        }
    }
}

/* alive, id, view, lease are kept by the events. */
static void xn_fill_sum(struct xn_node *n)
{
    struct xn_sum *s = &n->sum;
    struct snic_ddpnic_entry e;
    struct snic_ddpnic_stats info;
    uint64_t cursor = 0;

    memset(s->key, 0, sizeof(s->key));
    memset(n->timer, 0, sizeof(n->timer));
    s->bad = NULL;
    s->pending = (uint8_t)n->pending;
    s->down = (uint8_t)n->down;
    s->back = (uint8_t)n->back;
    s->timers = s->role = s->reads = s->busy = 0;
    s->epoch = 0;
    xn_sum_log(n);
    if (!s->alive)
        return;
    while (snic_ddpnic_next(xn_engine(n), &cursor, &e) == 0) {
        struct xn_key *k = &s->key[e.host.key.w[0]];

        k->vts = e.host.ts;
        k->rd = e.host.locked;
        k->gv = e.host.seen[0];
        k->gd = e.host.seen[1];
        k->top = e.top;
        k->accepted = e.accepted;
        k->stored = e.stored;
        k->value = (e.host.flags & SNIC_DDP_MSG_TOMBSTONE) != 0 ? 0 : e.host.value;
    }
    snic_ddpnic_get_stats(xn_engine(n), &info);
    s->role = (uint8_t)info.role;
    s->epoch = info.epoch;
    memset(&e, 0, sizeof(e));
    s->reads = snic_ddpnic_get(xn_engine(n), 0, &e.host.key, &e) != SNIC_ESTALE;
    s->busy = info.host_writes + info.nic_writes + info.waits + info.vfifo + info.dfifo != 0;
    s->timers = (uint8_t)snic_ddpnic_timers(xn_engine(n), n->timer, XN_TIMERS);
    if (s->timers > XN_TIMERS)
        abort();
    if (snic_ddpnic_check(xn_engine(n)) != 0)
        s->bad = "snic_ddpnic_check";
}

/* Under the lock. */
uint32_t xn_add(struct xn_space *s, struct xn_node *n)
{
    static unsigned char canon[XN_CANON_MAX]; /* the lock's */
    size_t at = 0, got = 0;
    struct mc_print128 f;

    xn_sort_pending(n);
    xn_fill_sum(n);
#define XN_PUT(x) (memcpy(canon + at, &(x), sizeof(x)), at += sizeof(x))
    XN_PUT(n->sum.alive);
    XN_PUT(n->sum.id);
    XN_PUT(n->sum.lease);
    XN_PUT(n->sum.view);
    XN_PUT(n->pending);
    XN_PUT(n->down);
    XN_PUT(n->back);
    XN_PUT(n->pend);
    XN_PUT(n->queue);
    XN_PUT(n->reply);
    XN_PUT(n->log);
    XN_PUT(n->log_value);
#undef XN_PUT
    if (n->sum.alive)
        got = snic_ddpnic_canon(xn_engine(n), canon + at, XN_CANON_MAX - at);
    if (at + got > XN_CANON_MAX)
        abort();
    f = mc_fingerprint(canon, at + got);
    return mc_set_add(&s->nodes, f, n, s->node_size);
}

struct xn_node *xn_scratch(const struct xn_space *s)
{
    const size_t align = SNIC_DDPNIC_ALIGN - 1;
    struct xn_node *n = aligned_alloc(align + 1, (s->node_size + align) & ~align);

    if (n == NULL)
        abort();
    return n;
}

uint32_t xn_begin(struct xn_space *s, uint32_t id)
{
    struct snic_ddpnic_opts e = xn_engine_opts(&s->o, id);
    struct xn_node *n = xn_scratch(s);
    struct snic_ddpnic *d;
    uint32_t number;

    memset(n, 0, s->node_size);
    n->sum.id = (uint8_t)id;
    n->sum.alive = 1;
    n->sum.view = XN_NONE;
    if (snic_ddpnic_init(&d, n->engine, snic_ddpnic_memsize(&e), &e) != 0)
        abort();
    (void)pthread_mutex_lock(&s->lock);
    number = xn_add(s, n);
    (void)pthread_mutex_unlock(&s->lock);
    free(n);
    return number;
}
