/* SPDX-License-Identifier: Apache-2.0 OR MIT */
#include "ddpnic_node.h"
#include "mc.h"

#include <inttypes.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define XN_STATES_MAX (1u << 22)
#define XN_CANON_MAX 16384

struct xn_pending {
    uint64_t ts;
    uint64_t value; /* of MARK the scope */
    uint32_t id;
    uint16_t type; /* action - VSTORE */
    uint16_t key;
};

/* What is on the PCIe to the host: an ACK or a WAKE. */
struct xn_back {
    struct snic_ddp_msg m;
    uint32_t type;
    uint32_t flags;
};

/* A node. The engine's memory follows. */
struct xn_node {
    struct xn_sum sum;
    uint32_t pending, down, back, pad;
    struct xn_pending pend[XN_PENDING];
    struct snic_ddp_msg queue[XN_QUEUE];
    struct xn_back reply[XN_QUEUE];
    uint64_t log[XN_KEYS], log_value[XN_KEYS];
    struct snic_ddp_timer timer[XN_TIMERS];
    _Alignas(SNIC_DDPNIC_ALIGN) unsigned char engine[];
};

struct xn_set {
    uint32_t *slot; /* number + 1 */
    uint64_t mask;
    uint32_t count;
    struct mc_print128 *print;
    void **item;
};

struct xn_memo {
    uint64_t mask;
    _Atomic(struct xn_result *) slot[];
};

struct xn_space {
    struct xn_opts o;
    size_t node_size;
    pthread_mutex_t lock;
    struct xn_set nodes, messages, views;
    _Atomic(struct xn_memo *) memo;
    struct xn_memo *old[64]; /* readers may still be in them */
    uint32_t olds;
    uint64_t results;
};

static _Thread_local jmp_buf xn_jump;
static _Thread_local int xn_armed;
static _Thread_local char xn_text[MC_TEXT];

_Noreturn void xn_assert_fail(const char *file, int line, const char *text)
{
    const char *name = strrchr(file, '/');

    if (!xn_armed) {
        (void)fprintf(stderr, "%s:%d: assertion failed: %s\n", file, line, text);
        abort();
    }
    (void)snprintf(xn_text, sizeof(xn_text), "assertion in %.20s: %.100s",
                   name != NULL ? name + 1 : file, text);
    longjmp(xn_jump, 1);
}

/* ---- Things with numbers. Under the lock; an item never moves or changes ---- */

static void xn_set_init(struct xn_set *s)
{
    s->mask = 1023;
    s->slot = calloc(s->mask + 1, sizeof(*s->slot));
    s->print = calloc(XN_STATES_MAX, sizeof(*s->print)); /* touched as far as used */
    s->item = calloc(XN_STATES_MAX, sizeof(*s->item));
    if (s->slot == NULL || s->print == NULL || s->item == NULL)
        abort();
}

static void xn_set_fini(struct xn_set *s)
{
    uint32_t i;

    for (i = 0; i < s->count; i++)
        free(s->item[i]);
    free(s->slot);
    free(s->print);
    free((void *)s->item);
}

static void xn_set_grow(struct xn_set *s)
{
    uint32_t i;

    free(s->slot);
    s->mask = s->mask * 2 + 1;
    s->slot = calloc(s->mask + 1, sizeof(*s->slot));
    if (s->slot == NULL)
        abort();
    for (i = 0; i < s->count; i++) {
        uint64_t pos = s->print[i].lo & s->mask;

        while (s->slot[pos] != 0)
            pos = (pos + 1) & s->mask;
        s->slot[pos] = i + 1;
    }
}

/* The number of what has this fingerprint; a new one is a copy of item. */
static uint32_t xn_set_add(struct xn_set *s, struct mc_print128 f, const void *item, size_t size)
{
    const size_t align = SNIC_DDPNIC_ALIGN - 1;
    uint64_t pos = f.lo & s->mask;
    void *copy;

    for (; s->slot[pos] != 0; pos = (pos + 1) & s->mask)
        if (s->print[s->slot[pos] - 1].lo == f.lo && s->print[s->slot[pos] - 1].hi == f.hi)
            return s->slot[pos] - 1;
    copy = aligned_alloc(align + 1, (size + align) & ~align);
    if (copy == NULL || s->count == XN_STATES_MAX)
        abort();
    memcpy(copy, item, size);
    s->print[s->count] = f;
    s->item[s->count] = copy;
    s->slot[pos] = ++s->count;
    if ((uint64_t)s->count * 2 > s->mask)
        xn_set_grow(s);
    return s->count - 1;
}

static const struct xn_node *xn_node_at(const struct xn_space *s, uint32_t node)
{
    return s->nodes.item[node];
}

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
    n = xn_set_add(&s->views, mc_fingerprint(v, sizeof(*v)), v, sizeof(*v));
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
    e.writes_max = o->writes + 2;
    e.waits_max = 8;
    e.reads_max = 0;
    e.scopes_max = o->scopes;
    e.vfifo_max = e.dfifo_max = o->fifo != 0 ? o->fifo : o->writes + 1;
    return e;
}

static struct xn_memo *xn_memo_new(uint64_t size)
{
    struct xn_memo *m = calloc(1, sizeof(*m) + size * sizeof(m->slot[0]));

    if (m == NULL)
        abort();
    m->mask = size - 1;
    return m;
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
    xn_set_init(&s->nodes);
    xn_set_init(&s->messages);
    xn_set_init(&s->views);
    atomic_store(&s->memo, xn_memo_new((uint64_t)1 << 16));
    return s;
}

void xn_space_free(struct xn_space *s)
{
    struct xn_memo *m = atomic_load(&s->memo);
    uint64_t i;

    for (i = 0; i <= m->mask; i++) {
        struct xn_result *r = atomic_load(&m->slot[i]);

        if (r != NULL) {
            free(r->out);
            free(r->done);
            free(r->owned);
            free(r);
        }
    }
    for (i = 0; i < s->olds; i++)
        free(s->old[i]);
    free(m);
    xn_set_fini(&s->nodes);
    xn_set_fini(&s->messages);
    xn_set_fini(&s->views);
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

static struct snic_ddpnic *xn_engine(struct xn_node *n)
{
    return (struct snic_ddpnic *)(void *)n->engine;
}

/* The log and, when the node is alive, what the dFIFO holds durable: what a crash leaves. */
static void xn_sum_log(struct xn_node *n)
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
    struct snic_ddpnic_info info;
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
    snic_ddpnic_inspect(xn_engine(n), &info);
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
static uint32_t xn_add(struct xn_space *s, struct xn_node *n)
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
    return xn_set_add(&s->nodes, f, n, s->node_size);
}

static struct xn_node *xn_scratch(const struct xn_space *s)
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

/* ---- What an event does ---- */

struct xn_work {
    struct xn_space *s;
    struct xn_node *n;
    struct xn_result *r;
    struct snic_ddp_msg out[XN_OUT];
    struct xn_done done[XN_DONE];
};

static void xn_bad(struct xn_work *w, const char *text)
{
    if (w->r->bad == NULL)
        w->r->bad = text;
}

static void xn_sent(struct xn_work *w, const struct snic_ddp_action *a)
{
    const struct snic_ddp_view *v;
    uint32_t to;

    if (w->n->sum.view == XN_NONE) {
        xn_bad(w, "a message before the first membership");
        return;
    }
    v = xn_view_at(w->s, w->n->sum.view);
    for (to = 0; to < w->s->o.nodes; to++) {
        if ((a->to >> to & 1) == 0)
            continue;
        if (w->r->outs == XN_OUT)
            abort();
        w->out[w->r->outs] = a->msg;
        w->out[w->r->outs].dst = (uint8_t)to;
        w->out[w->r->outs++].dst_incarnation = v->incarnation[to];
    }
}

static void xn_pcie(struct xn_work *w, int host, const struct snic_ddp_action *a)
{
    struct xn_node *n = w->n;

    if ((host ? n->down : n->back) == XN_QUEUE) {
        xn_bad(w, "more on the PCIe than the model has room for");
        return;
    }
    if (host) {
        if (a->msg.type == SNIC_DDP_INV)
            w->r->made_ts = a->msg.ts;
        n->queue[n->down++] = a->msg;
        return;
    }
    memset(&n->reply[n->back], 0, sizeof(n->reply[0]));
    n->reply[n->back].m = a->msg;
    n->reply[n->back].type = a->type;
    n->reply[n->back++].flags = a->flags;
}

static void xn_act(struct xn_work *w, int host, const struct snic_ddp_action *a)
{
    struct xn_node *n = w->n;
    struct xn_pending *p;

    switch (a->type) {
    case SNIC_DDP_SEND:
        xn_sent(w, a);
        break;
    case SNIC_DDPNIC_PCIE:
    case SNIC_DDPNIC_WAKE:
        xn_pcie(w, host, a);
        break;
    case SNIC_DDP_DONE:
        if (w->r->dones == XN_DONE)
            abort();
        w->done[w->r->dones].token = a->token;
        w->done[w->r->dones].result = a->result;
        w->done[w->r->dones++].ts = a->msg.ts;
        break;
    case SNIC_DDPNIC_VSTORE:
    case SNIC_DDPNIC_DSTORE:
    case SNIC_DDPNIC_DMA:
    case SNIC_DDPNIC_LOG:
    case SNIC_DDPNIC_MARK:
        if (n->pending == XN_PENDING) {
            xn_bad(w, "more under way than the model has room for");
            break;
        }
        p = &n->pend[n->pending++];
        memset(p, 0, sizeof(*p));
        p->type = (uint16_t)(a->type - SNIC_DDPNIC_VSTORE);
        p->key = (uint16_t)a->msg.key.w[0];
        p->ts = a->msg.ts;
        p->id = a->id;
        p->value = a->type == SNIC_DDPNIC_MARK ? a->msg.scope : a->msg.value;
        break;
    default:
        break; /* RELEASE: the engine's own tests count handles; SUSPECT is advice */
    }
}

static int xn_step_host(struct xn_work *w, const struct snic_ddp_event *ev)
{
    struct snic_ddp_action a;
    int r = snic_ddpnic_step_host(xn_engine(w->n), 0, ev);

    while (snic_ddpnic_poll_host(xn_engine(w->n), &a) != 0)
        xn_act(w, 1, &a);
    return r;
}

static int xn_step_nic(struct xn_work *w, const struct snic_ddp_event *ev)
{
    struct snic_ddp_action a;
    int r = snic_ddpnic_step_nic(xn_engine(w->n), 0, ev);

    while (snic_ddpnic_poll_nic(xn_engine(w->n), &a) != 0)
        xn_act(w, 0, &a);
    return r;
}

static int xn_complete(struct xn_work *w, uint32_t i)
{
    struct xn_node *n = w->n;
    struct xn_pending p = n->pend[i];
    struct snic_ddp_event ev;

    memset(&ev, 0, sizeof(ev));
    n->pending--;
    memmove(&n->pend[i], &n->pend[i + 1], (n->pending - i) * sizeof(p));
    if (p.type == SNIC_DDPNIC_LOG - SNIC_DDPNIC_VSTORE && p.ts > n->log[p.key]) {
        n->log[p.key] = p.ts;
        n->log_value[p.key] = p.value;
    }
    ev.type = SNIC_DDPNIC_VSTORED + p.type;
    ev.key.w[0] = p.key;
    ev.ts = p.ts;
    ev.id = p.id;
    ev.scope = p.value;
    return xn_step_nic(w, &ev);
}

static int xn_down(struct xn_work *w)
{
    struct xn_node *n = w->n;
    struct snic_ddp_msg m = n->queue[0];
    struct snic_ddp_event ev;
    int r;

    memset(&ev, 0, sizeof(ev));
    ev.type = SNIC_DDPNIC_PCIE;
    ev.msg = &m;
    r = xn_step_nic(w, &ev);
    if (r == 0) {
        n->down--;
        memmove(n->queue, n->queue + 1, n->down * sizeof(m));
    }
    return r;
}

static int xn_back(struct xn_work *w)
{
    struct xn_node *n = w->n;
    struct xn_back b = n->reply[0];
    struct snic_ddp_event ev;

    memset(&ev, 0, sizeof(ev));
    ev.type = b.type;
    ev.flags = b.flags;
    ev.key = b.m.key;
    ev.msg = &b.m;
    n->back--;
    memmove(n->reply, n->reply + 1, n->back * sizeof(b));
    return xn_step_host(w, &ev);
}

/* What takes no time. */
static void xn_fold(struct xn_work *w)
{
    struct xn_node *n = w->n;
    uint32_t fold = w->s->o.fold, i;
    int any = n->sum.alive, stalled = 0;

    while (any && w->r->bad == NULL) {
        any = 0;
        for (i = 0; i < n->pending && !any; i++)
            if ((fold >> n->pend[i].type & 1) != 0) {
                any = 1;
                if (xn_complete(w, i) != 0)
                    xn_bad(w, "a completion was refused");
                stalled = 0;
            }
        if (!any && (fold & XN_FOLD_BACK) != 0 && n->back != 0) {
            any = 1;
            if (xn_back(w) != 0)
                xn_bad(w, "the host refused a message of its NIC");
        }
        if (!any && (fold & XN_FOLD_DOWN) != 0 && n->down != 0 && !stalled) {
            stalled = xn_down(w) != 0;
            any = !stalled;
        }
    }
}

static int xn_client(struct xn_work *w, uint32_t kind, uint32_t arg)
{
    struct snic_ddp_event ev;

    memset(&ev, 0, sizeof(ev));
    ev.type = kind == XN_WRITE    ? SNIC_DDP_WRITE
              : kind == XN_DELETE ? SNIC_DDP_DELETE
                                  : SNIC_DDP_SYNC;
    if (kind == XN_SYNC) {
        ev.scope = arg;
        ev.token = 64 + arg;
    } else {
        ev.key.w[0] = arg & 15;
        ev.token = arg >> 4 & 255;
        ev.scope = arg >> 12;
        ev.value = kind == XN_DELETE ? 0 : ev.token;
        ev.length = kind == XN_DELETE ? 0 : 1;
    }
    return xn_step_host(w, &ev);
}

static int xn_install(struct xn_work *w, uint32_t view)
{
    struct snic_ddp_event ev;
    int r;

    memset(&ev, 0, sizeof(ev));
    ev.type = SNIC_DDP_EPOCH;
    ev.view = xn_view_at(w->s, view);
    w->n->sum.view = view;
    r = xn_step_nic(w, &ev);
    if (r != 0 || (ev.view->full >> w->n->sum.id & 1) == 0 || w->n->sum.lease != 0)
        return r;
    memset(&ev, 0, sizeof(ev));
    ev.type = SNIC_DDP_LEASE;
    ev.ts = SNIC_NEVER;
    w->n->sum.lease = 1;
    return xn_step_host(w, &ev);
}

static void xn_crash(struct xn_work *w)
{
    struct xn_node *n = w->n;
    uint32_t k;

    xn_sum_log(n);
    for (k = 0; k < XN_KEYS; k++) {
        n->log[k] = n->sum.key[k].log;
        n->log_value[k] = n->sum.key[k].log_value;
    }
    n->pending = n->down = n->back = 0;
    n->sum.alive = n->sum.lease = 0;
    n->sum.view = XN_NONE;
    memset(n->engine, 0, w->s->node_size - sizeof(*n));
}

static int xn_event(struct xn_work *w, uint32_t kind, uint32_t arg)
{
    struct snic_ddp_event ev;

    memset(&ev, 0, sizeof(ev));
    switch (kind) {
    case XN_MESSAGE:
        ev.type = SNIC_DDP_MESSAGE;
        ev.msg = xn_message(w->s, arg);
        return xn_step_nic(w, &ev);
    case XN_DOWN:
        return xn_down(w);
    case XN_BACK:
        return xn_back(w);
    case XN_COMPLETE:
        return xn_complete(w, arg);
    case XN_FIRE:
        ev.type = SNIC_DDP_FIRE;
        ev.id = w->n->timer[arg].id;
        return xn_step_nic(w, &ev);
    case XN_INSTALL:
        return xn_install(w, arg);
    case XN_LEASE_END:
        ev.type = SNIC_DDP_LEASE;
        w->n->sum.lease = 0;
        return xn_step_host(w, &ev);
    case XN_CRASH:
        xn_crash(w);
        return 0;
    default:
        return xn_client(w, kind, arg);
    }
}

/* ---- Looking results up ---- */

static struct xn_result *xn_memo_find(struct xn_memo *m, uint64_t event)
{
    uint64_t key = event, pos = mc_fingerprint(&key, sizeof(key)).lo & m->mask;

    for (;; pos = (pos + 1) & m->mask) {
        struct xn_result *r = atomic_load_explicit(&m->slot[pos], memory_order_acquire);

        if (r == NULL || r->event == event)
            return r;
    }
}

static void xn_memo_put(struct xn_memo *m, struct xn_result *r)
{
    uint64_t key = r->event, pos = mc_fingerprint(&key, sizeof(key)).lo & m->mask;

    while (atomic_load_explicit(&m->slot[pos], memory_order_relaxed) != NULL)
        pos = (pos + 1) & m->mask;
    atomic_store_explicit(&m->slot[pos], r, memory_order_release);
}

/* Under the lock. */
static void xn_memo_add(struct xn_space *s, struct xn_result *r)
{
    struct xn_memo *m = atomic_load(&s->memo);
    uint64_t i;

    if (++s->results * 2 > m->mask) {
        struct xn_memo *n = xn_memo_new((m->mask + 1) * 2);

        for (i = 0; i <= m->mask; i++)
            if (m->slot[i] != NULL)
                xn_memo_put(n, m->slot[i]);
        s->old[s->olds++] = m;
        atomic_store(&s->memo, n);
        m = n;
    }
    xn_memo_put(m, r);
}

/* Give what came out of the engine numbers. Under the lock. */
static void xn_number(struct xn_work *w, uint32_t before)
{
    struct xn_result *r = w->r;
    uint32_t i;

    r->out = calloc(r->outs + 1u, sizeof(*r->out));
    r->done = calloc(r->dones + 1u, sizeof(*r->done));
    if (r->out == NULL || r->done == NULL)
        abort();
    memcpy(r->done, w->done, r->dones * sizeof(*r->done));
    for (i = 0; i < r->outs; i++)
        r->out[i] = xn_set_add(&w->s->messages, mc_fingerprint(&w->out[i], sizeof(w->out[i])),
                               &w->out[i], sizeof(w->out[i]));
    r->node = r->bad != NULL || r->status != 0 ? before : xn_add(w->s, w->n);
}

const struct xn_result *xn_step(struct xn_space *s, uint32_t node, uint32_t event)
{
    uint64_t key = (uint64_t)node << 32 | event;
    struct xn_result *r = xn_memo_find(atomic_load_explicit(&s->memo, memory_order_acquire), key);
    struct xn_work *w;

    if (r != NULL)
        return r;
    /* Works under the lock: it is rare, and the engine must not be entered twice for one thing. */
    (void)pthread_mutex_lock(&s->lock);
    r = xn_memo_find(atomic_load(&s->memo), key);
    if (r == NULL) {
        w = calloc(1, sizeof(*w));
        r = calloc(1, sizeof(*r));
        if (w == NULL || r == NULL)
            abort();
        w->s = s;
        w->r = r;
        w->n = xn_scratch(s);
        memcpy(w->n, xn_node_at(s, node), s->node_size);
        r->event = key;
        xn_armed = 1;
        if (setjmp(xn_jump) == 0) {
            r->status = xn_event(w, event >> 27, XN_ARG(event));
            if (r->status == 0)
                xn_fold(w);
        } else {
            xn_bad(w, r->owned = strdup(xn_text));
        }
        xn_armed = 0;
        xn_number(w, node);
        xn_memo_add(s, r);
        free(w->n);
        free(w);
    }
    (void)pthread_mutex_unlock(&s->lock);
    return r;
}
