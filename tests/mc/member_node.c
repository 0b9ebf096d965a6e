/* SPDX-License-Identifier: Apache-2.0 OR MIT */
#include "member_node.h"

#include <pthread.h>
#include <setjmp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MN_MS UINT64_C(1000000)

/* A node. The engine's memory follows. */
struct mn_node {
    struct mn_sum sum;
    uint64_t timed; /* time passes */
    uint64_t top;   /* its highest incarnation */
    uint64_t files; /* that it has had */
    struct snic_member_record disk, store, old;
    _Alignas(MC_INTERN_ALIGN) unsigned char engine[];
};

struct mn_space {
    struct mn_space_opts o;
    size_t node_size, engine_size;
    pthread_mutex_t lock;
    struct mc_set nodes, messages, views;
    struct mc_memo memo;
};

static _Thread_local jmp_buf mn_jump;
static _Thread_local int mn_armed;
static _Thread_local char mn_text[MC_TEXT];

_Noreturn void mn_assert_fail(const char *file, int line, const char *text)
{
    const char *name = strrchr(file, '/');

    (void)snprintf(mn_text, sizeof(mn_text), "assertion in %.20s: %.100s",
                   name != NULL ? name + 1 : file, text);
    if (!mn_armed) {
        (void)fprintf(stderr, "%s:%d: %s\n", file, line, mn_text);
        abort();
    }
    longjmp(mn_jump, 1);
}

/* ---- The space ---- */

static struct snic_member_opts mn_opts(uint32_t id, const struct mn_space_opts *so)
{
    struct snic_member_opts o;

    memset(&o, 0, sizeof(o));
    o.opts_size = sizeof(o);
    o.node = id;
    o.configured = (uint16_t)((1u << so->nodes) - 1);
    if (so->founders != 0)
        o.configured = (uint16_t)(so->founders | 1u << id);
    o.witness = (uint16_t)(so->witness & o.configured);
    if (so->timed) {
        o.drift_ppm = SNIC_MEMBER_DRIFT_MAX;
        o.heartbeat_ns = 200 * MN_MS;
        o.lease_ns = 400 * MN_MS;
        o.detect_ns = 400 * MN_MS;
        o.backoff_ns = MN_MS;
    }
    return o;
}

struct mn_space *mn_space_new(const struct mn_space_opts *so)
{
    struct mn_space *s = calloc(1, sizeof(*s));
    struct snic_member_opts o = mn_opts(0, so);

    if (s == NULL)
        abort();
    s->o = *so;
    s->engine_size = snic_member_memsize(&o);
    s->node_size = sizeof(struct mn_node) + s->engine_size;
    (void)pthread_mutex_init(&s->lock, NULL);
    mc_set_init(&s->nodes);
    mc_set_init(&s->messages);
    mc_set_init(&s->views);
    mc_memo_init(&s->memo);
    return s;
}

static void mn_result_free(void *result)
{
    free(((struct mn_result *)result)->owned);
    free(result);
}

void mn_space_free(struct mn_space *s)
{
    mc_memo_fini(&s->memo, mn_result_free);
    mc_set_fini(&s->nodes);
    mc_set_fini(&s->messages);
    mc_set_fini(&s->views);
    (void)pthread_mutex_destroy(&s->lock);
    free(s);
}

static const struct mn_node *mn_node_at(const struct mn_space *s, uint32_t node)
{
    return s->nodes.item[node];
}

const struct mn_sum *mn_sum(const struct mn_space *s, uint32_t node)
{
    return &mn_node_at(s, node)->sum;
}

const struct mn_message *mn_message(const struct mn_space *s, uint32_t message)
{
    return s->messages.item[message];
}

const struct snic_member_view *mn_view(const struct mn_space *s, uint32_t view)
{
    return s->views.item[view];
}

const struct snic_member_record *mn_disk(const struct mn_space *s, uint32_t node)
{
    return &mn_node_at(s, node)->disk;
}

const struct snic_member_record *mn_store(const struct mn_space *s, uint32_t node)
{
    return &mn_node_at(s, node)->store;
}

static uint32_t mn_view_add(struct mn_space *s, const struct snic_member_view *v)
{
    return mc_set_add(&s->views, mc_fingerprint(v, sizeof(*v)), v, sizeof(*v));
}

uint32_t mn_view_number(struct mn_space *s, const struct snic_member_view *v)
{
    uint32_t n;

    (void)pthread_mutex_lock(&s->lock);
    n = mn_view_add(s, v);
    (void)pthread_mutex_unlock(&s->lock);
    return n;
}

/* ---- A node without time ---- */

static struct snic_member *mn_engine(struct mn_node *n)
{
    return (struct snic_member *)(void *)n->engine;
}

static void mn_fill_sum(struct mn_space *s, struct mn_node *n)
{
    struct snic_member *m = mn_engine(n);
    struct mn_sum *d = &n->sum;
    struct snic_member_view v;

    d->role = d->leased = d->requested = d->armed = d->phase = d->quiet = d->stuck = d->caught = 0;
    d->granted = d->hears = 0;
    d->config = d->wants = 0;
    d->config_epoch = d->since = 0;
    d->seq = d->incarnation = d->installed = d->view = d->epoch = 0;
    d->wake_ns = 0;
    d->bad = NULL;
    if (!d->alive)
        return;
    mn_look(m, d, &v);
    d->view = mn_view_add(s, &v);
    if (n->timed)
        d->wake_ns = snic_member_deadline_ns(m);
    if (!s->o.blind && snic_member_check(m) != 0)
        d->bad = "snic_member_check";
}

/* Under the lock. */
static uint32_t mn_add(struct mn_space *s, struct mn_node *n)
{
    if (n->sum.alive && !n->timed)
        mn_still(mn_engine(n));
    if (!n->sum.storing)
        memset(&n->store, 0, sizeof(n->store));
    mn_fill_sum(s, n);
    return mc_set_add(&s->nodes, mc_fingerprint(n, s->node_size), n, s->node_size);
}

static struct mn_node *mn_scratch(const struct mn_space *s)
{
    struct mn_node *n = aligned_alloc(MC_INTERN_ALIGN, (s->node_size + MC_INTERN_ALIGN - 1) &
                                                           ~(size_t)(MC_INTERN_ALIGN - 1));

    if (n == NULL)
        abort();
    return n;
}

uint32_t mn_begin(struct mn_space *s, uint32_t id)
{
    struct mn_node *n = mn_scratch(s);
    uint32_t number;

    memset(n, 0, s->node_size);
    n->sum.id = (uint8_t)id;
    (void)pthread_mutex_lock(&s->lock);
    number = mn_add(s, n);
    (void)pthread_mutex_unlock(&s->lock);
    free(n);
    return number;
}

/* What its clock shows. */
static uint64_t mn_local(const struct mn_space *s, uint32_t node, uint32_t at)
{
    return MN_NOW + (uint64_t)at * (uint64_t)(1000000 + s->o.ppm[node]) * MN_UNIT / 1000000;
}

uint32_t mn_true(const struct mn_space *s, uint32_t node, uint64_t local_ns)
{
    uint64_t rate = (uint64_t)(1000000 + s->o.ppm[node]);
    uint64_t at = local_ns <= MN_NOW ? 0 : (local_ns - MN_NOW) * 100 / rate;

    if (local_ns > MN_NOW + SNIC_MEMBER_NS_MAX)
        return UINT32_MAX;
    while (mn_local(s, node, (uint32_t)at) < local_ns)
        at++;
    return (uint32_t)at;
}

/* ---- What an event does ---- */

struct mn_work {
    struct mn_space *s;
    struct mn_node *n;
    struct mn_result *r;
    uint64_t clock_ns; /* what the clock shows now; 0: what it showed */
};

static void mn_send(struct mn_work *w, const struct snic_member_action *a)
{
    struct mn_message m;
    uint32_t to;

    memset(&m, 0, sizeof(m));
    m.msg = a->msg;
    for (to = 0; to < MN_NODES; to++) {
        if ((a->to >> to & 1) == 0)
            continue;
        if (w->r->outs == MN_OUT)
            abort();
        m.dst = to;
        w->r->out[w->r->outs++] =
            mc_set_add(&w->s->messages, mc_fingerprint(&m, sizeof(m)), &m, sizeof(m));
    }
}

static void mn_engine_step(struct mn_work *w, const struct snic_member_event *ev)
{
    struct snic_member_action a;

    uint64_t now = w->n->timed ? mn_now(mn_engine(w->n)) : MN_NOW;

    if (w->clock_ns != 0)
        now = w->clock_ns;
    w->r->status = snic_member_step(mn_engine(w->n), now, ev);
    if (mn_incarnation(mn_engine(w->n)) > w->n->top)
        w->n->top = mn_incarnation(mn_engine(w->n));
    while (snic_member_poll(mn_engine(w->n), &a) != 0) {
        if (a.type == SNIC_MEMBER_SEND)
            mn_send(w, &a);
        if (a.type == SNIC_MEMBER_STORE) {
            if (w->n->sum.storing)
                w->r->bad = "a STORE before the last is stored";
            w->n->sum.storing = 1;
            w->n->store = a.record;
        }
        if (a.type == SNIC_MEMBER_CONFIRMED)
            w->r->confirmed = (uint32_t)a.id;
    }
}

static void mn_boot(struct mn_work *w, uint32_t flags)
{
    struct mn_node *n = w->n;
    struct snic_member_opts o = mn_opts(n->sum.id, &w->s->o);
    struct snic_member_event ev;
    struct snic_member *m;

    memset(&ev, 0, sizeof(ev));
    ev.type = SNIC_MEMBER_BOOT;
    ev.flags = (flags & MN_SUSPECT) != 0 ? 0 : SNIC_MEMBER_LOG_GOOD;
    if ((flags & MN_OLD) != 0)
        n->disk = n->old;
    if (n->sum.has_disk && (flags & MN_LOST) == 0) {
        ev.record = &n->disk;
    } else {
        if (n->sum.has_disk ? (flags & MN_FOUND) != 0
                            : w->s->o.founders == 0 || (w->s->o.founders >> n->sum.id & 1) != 0)
            ev.flags |= SNIC_MEMBER_FIRST;
        if (n->sum.has_disk)
            n->old = n->disk;
        n->sum.has_old |= n->sum.has_disk;
        ev.incarnation = (uint32_t)n->top + (n->sum.has_disk ? 4 : 1); /* the old file has some */
        if (w->s->o.below)
            ev.incarnation = n->files == 0 ? 64 : 8 * (uint32_t)n->files;
        n->files += w->s->o.below;
    }
    n->sum.alive = 1;
    if (snic_member_init(&m, n->engine, w->s->engine_size, &o) != 0)
        abort();
    mn_engine_step(w, &ev);
}

static void mn_stored(struct mn_node *n)
{
    n->disk = n->store;
    n->sum.has_disk = 1;
    n->sum.storing = 0;
}

static void mn_event(struct mn_work *w, uint32_t kind, uint32_t arg)
{
    struct mn_node *n = w->n;
    struct snic_member_event ev;

    memset(&ev, 0, sizeof(ev));
    ev.type = SNIC_MEMBER_TICK;
    switch (kind) {
    case MN_MESSAGE:
        ev.type = SNIC_MEMBER_MESSAGE;
        ev.msg = &mn_message(w->s, arg)->msg;
        break;
    case MN_STORED:
        ev.type = SNIC_MEMBER_STORED;
        ev.id = mn_storing(mn_engine(n));
        mn_stored(n);
        break;
    case MN_CAUGHT_UP:
        ev.type = SNIC_MEMBER_REPORT;
        ev.kind = SNIC_MEMBER_CAUGHT_UP;
        ev.epoch = n->sum.installed;
        break;
    case MN_CHANGE:
        ev.type = SNIC_MEMBER_CHANGE;
        ev.kind = arg >> 2;
        ev.node = arg & 3;
        if (ev.kind == SNIC_MEMBER_ADD && w->s->o.add_witness)
            ev.flags = SNIC_MEMBER_WITNESS;
        break;
    case MN_CONFIRM:
        ev.type = SNIC_MEMBER_CONFIRM;
        break;
    case MN_CRASH:
        if (arg)
            mn_stored(n);
        n->sum.alive = n->sum.storing = 0;
        memset(n->engine, 0, w->s->engine_size);
        return;
    case MN_BOOT:
        mn_boot(w, arg);
        return;
    case MN_WIND:
        mn_wind(mn_engine(n));
        n->timed = 1;
        return;
    case MN_CLOCK:
        w->clock_ns = mn_local(w->s, n->sum.id, arg);
        break;
    default:
        mn_time(mn_engine(n), kind, arg);
        break;
    }
    mn_engine_step(w, &ev);
}

const struct mn_result *mn_step(struct mn_space *s, uint32_t node, uint32_t event)
{
    uint64_t key = (uint64_t)node << 32 | event;
    struct mn_result *r = mc_memo_find(&s->memo, key);
    struct mn_work w;

    if (r != NULL)
        return r;
    (void)pthread_mutex_lock(&s->lock);
    r = mc_memo_find(&s->memo, key);
    if (r == NULL) {
        r = calloc(1, sizeof(*r));
        if (r == NULL)
            abort();
        w.s = s;
        w.clock_ns = 0;
        w.r = r;
        w.n = mn_scratch(s);
        memcpy(w.n, mn_node_at(s, node), s->node_size);
        r->event = key;
        mn_armed = 1;
        if (setjmp(mn_jump) == 0)
            mn_event(&w, event >> 27, event & ((1u << 27) - 1));
        else
            r->bad = r->owned = strdup(mn_text);
        mn_armed = 0;
        r->node = r->bad != NULL ? node : mn_add(s, w.n);
        mc_memo_add(&s->memo, r);
        free(w.n);
    }
    (void)pthread_mutex_unlock(&s->lock);
    return r;
}
