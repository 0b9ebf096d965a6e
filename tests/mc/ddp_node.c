/* SPDX-License-Identifier: Apache-2.0 OR MIT */
#include "ddp_node_priv.h"

#include <setjmp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define DN_CANON_MAX 16384

static _Thread_local jmp_buf dn_jump;
static _Thread_local int dn_armed;
static _Thread_local char dn_text[MC_TEXT];

_Noreturn void dn_assert_fail(const char *file, int line, const char *text)
{
    const char *name = strrchr(file, '/');

    if (!dn_armed) {
        (void)fprintf(stderr, "%s:%d: assertion failed: %s\n", file, line, text);
        abort();
    }
    (void)snprintf(dn_text, sizeof(dn_text), "assertion in %.20s: %.100s",
                   name != NULL ? name + 1 : file, text);
    longjmp(dn_jump, 1);
}

struct snic_ddp_opts dn_engine_opts(const struct dn_opts *o, uint32_t id)
{
    struct snic_ddp_opts e;

    memset(&e, 0, sizeof(e));
    e.opts_size = sizeof(e);
    e.model = o->model;
    e.flags = o->flags | SNIC_DDP_CHANGES;
    e.node = id;
    e.keys_max = o->keys;
    e.others_max = o->nodes - 1;
    e.writes_max = o->room != 0 ? o->room : o->writes + 2;
    e.waits_max = o->waits != 0 ? o->waits : 8;
    e.reads_max = 2;
    e.scopes_max = o->scopes;
    return e;
}

/* ---- A node's canonical form ---- */

static int dn_pending_before(const struct dn_pending *a, const struct dn_pending *b)
{
    if (a->segment != b->segment)
        return a->segment < b->segment;
    if (a->key != b->key)
        return a->key < b->key;
    if (a->ts != b->ts)
        return a->ts < b->ts;
    if (a->order != b->order)
        return a->order < b->order;
    return a->kind * 4 + a->silent * 2 + a->durable < b->kind * 4 + b->silent * 2 + b->durable;
}

static void dn_sort_pending(struct dn_node *n)
{
    uint32_t i, k;

    for (i = 1; i < n->pending; i++) {
        struct dn_pending p = n->pend[i];

        for (k = i; k > 0 && dn_pending_before(&p, &n->pend[k - 1]); k--)
            n->pend[k] = n->pend[k - 1];
        n->pend[k] = p;
    }
    memset(&n->pend[n->pending], 0, (DN_PENDING - n->pending) * sizeof(n->pend[0]));
}

static struct snic_ddp *dn_engine(struct dn_node *n)
{
    return (struct snic_ddp *)(void *)n->engine;
}

static void dn_sum_key(struct dn_node *n, const struct snic_ddp_entry *e)
{
    struct dn_key *k = &n->sum.key[e->key.w[0]];

    k->vts = e->ts;
    k->rd = e->locked;
    k->gv = e->seen[0];
    k->gd = e->seen[1];
    k->dts = e->durable;
    k->value = (e->flags & SNIC_DDP_MSG_TOMBSTONE) != 0 ? 0 : e->value;
}

/* alive, id, incarnation, view, lease are kept by the events. */
static void dn_fill_sum(struct dn_node *n)
{
    struct dn_sum *s = &n->sum;
    struct snic_ddp_entry e;
    struct snic_ddp_stats info;
    uint64_t cursor = 0;
    uint32_t k;

    memset(s->key, 0, sizeof(s->key));
    memset(n->timer, 0, sizeof(n->timer));
    s->timers = 0;
    s->bad = NULL;
    s->pending = (uint8_t)n->pending;
    s->flushes = (uint8_t)n->flushes;
    for (k = 0; k < DN_KEYS; k++) {
        s->key[k].log = n->log[k];
        s->key[k].log_value = n->log_value[k];
    }
    s->role = s->reads = s->busy = s->learned = 0;
    s->epoch = 0;
    if (!s->alive)
        return;
    while (snic_ddp_next(dn_engine(n), &cursor, &e) == 0)
        if ((e.flags & SNIC_DDP_HINT) == 0)
            dn_sum_key(n, &e);
    snic_ddp_get_stats(dn_engine(n), &info);
    s->role = (uint8_t)info.role;
    s->epoch = info.epoch;
    memset(&e, 0, sizeof(e));
    s->reads = snic_ddp_get(dn_engine(n), 0, &e.key, &e) != SNIC_ESTALE;
    s->busy = info.writes + info.waits + info.reads + info.scopes != 0;
    s->learned = (uint8_t)info.learned;
    s->timers = (uint8_t)snic_ddp_timers(dn_engine(n), n->timer, DN_TIMERS);
    if (s->timers > DN_TIMERS)
        abort();
    if (snic_ddp_check(dn_engine(n)) != 0)
        s->bad = "snic_ddp_check";
}

/* Under the lock. */
static uint32_t dn_add(struct dn_space *s, struct dn_node *n)
{
    static unsigned char canon[DN_CANON_MAX]; /* the lock's */
    size_t at = 0, got = 0;
    uint32_t known = s->nodes.count, node;
    struct mc_print128 f;

    dn_sort_pending(n);
    dn_fill_sum(n);
    memset(&n->flush[n->flushes], 0, (DN_FLUSHES - n->flushes) * sizeof(n->flush[0]));
#define DN_PUT(x) (memcpy(canon + at, &(x), sizeof(x)), at += sizeof(x))
    DN_PUT(n->sum.alive);
    DN_PUT(n->sum.id);
    DN_PUT(n->sum.lease);
    DN_PUT(n->sum.view);
    DN_PUT(n->sum.incarnation);
    DN_PUT(n->pending);
    DN_PUT(n->flushes);
    DN_PUT(n->pend);
    DN_PUT(n->log);
    DN_PUT(n->log_value);
#undef DN_PUT
    if (n->sum.alive)
        got = snic_ddp_canon(dn_engine(n), n->flush, n->flushes, canon + at, DN_CANON_MAX - at);
    if (at + got > DN_CANON_MAX)
        abort();
    f = mc_fingerprint(canon, at + got);
    node = mc_set_add(&s->nodes, f, n, s->node_size);
    if (s->twins != NULL && node < known)
        dn_twin_found(s, node, n);
    return node;
}

static struct dn_node *dn_scratch(const struct dn_space *s)
{
    struct dn_node *n = aligned_alloc(SNIC_DDP_ALIGN, (s->node_size + SNIC_DDP_ALIGN - 1) &
                                                          ~(size_t)(SNIC_DDP_ALIGN - 1));

    if (n == NULL)
        abort();
    return n;
}

struct dn_node *dn_copy(const struct dn_space *s, const struct dn_node *n)
{
    return memcpy(dn_scratch(s), n, s->node_size);
}

static void dn_boot(const struct dn_space *s, struct dn_node *n)
{
    struct snic_ddp_opts e = dn_engine_opts(&s->o, n->sum.id);
    struct snic_ddp *d;

    n->sum.alive = 1;
    n->sum.view = DN_NONE;
    n->sum.lease = 0;
    if (snic_ddp_init(&d, n->engine, snic_ddp_memsize(&e), &e) != 0)
        abort();
}

uint32_t dn_begin(struct dn_space *s, uint32_t id, uint32_t incarnation)
{
    struct dn_node *n = dn_scratch(s);
    uint32_t number;

    memset(n, 0, s->node_size);
    n->sum.id = (uint8_t)id;
    n->sum.incarnation = incarnation;
    dn_boot(s, n);
    (void)pthread_mutex_lock(&s->lock);
    number = dn_add(s, n);
    (void)pthread_mutex_unlock(&s->lock);
    free(n);
    return number;
}

/* ---- What an event does ---- */

struct dn_work {
    struct dn_space *s;
    struct dn_node *n;
    struct dn_result *r;
    struct snic_ddp_msg out[DN_OUT];
    struct dn_done done[DN_DONE];
};

static void dn_bad(struct dn_work *w, const char *text)
{
    if (w->r->bad == NULL)
        w->r->bad = text;
}

static void dn_sent(struct dn_work *w, const struct snic_ddp_action *a)
{
    const struct dn_node *n = w->n;
    uint32_t to;

    if (n->sum.view == DN_NONE) {
        dn_bad(w, "a message before the first membership");
        return;
    }
    for (to = 0; to < w->s->o.nodes; to++) {
        struct snic_ddp_msg m = a->msg;

        if ((a->to >> to & 1) == 0)
            continue;
        m.dst = (uint8_t)to;
        m.dst_incarnation = dn_view_at(w->s, n->sum.view)->incarnation[to];
        if (w->r->outs == DN_OUT)
            abort();
        w->out[w->r->outs++] = m;
    }
}

/* The log has the entries of a key in order: what an entry makes void can be left out. */
static void dn_void(struct dn_node *n, uint32_t key)
{
    uint32_t i;

    for (i = 0; i < n->pending; i++)
        if (n->pend[i].key == key)
            n->pend[i].durable = 1;
}

/* Behind all of the key, if one of them counts whatever the log has. */
static uint8_t dn_order(const struct dn_node *n, uint32_t key)
{
    uint32_t i, most = 0, any = 0;

    for (i = 0; i < n->pending; i++)
        if (n->pend[i].key == key) {
            any |= n->pend[i].kind;
            most = n->pend[i].order > most ? n->pend[i].order : most;
        }
    return any != 0 ? (uint8_t)(most + 1) : 0;
}

static void dn_appended(struct dn_work *w, const struct snic_ddp_action *a)
{
    const struct snic_ddp_msg *m = &a->msg;
    struct dn_node *n = w->n;
    struct dn_pending *p = &n->pend[n->pending];

    if (n->pending == DN_PENDING) {
        dn_bad(w, "the log's queue is longer than the model has room for");
        return;
    }
    if ((a->flags & (SNIC_DDP_REPLACES | SNIC_DDP_DROPS)) != 0)
        dn_void(n, (uint32_t)m->key.w[0]);
    memset(p, 0, sizeof(*p));
    p->order = dn_order(n, (uint32_t)m->key.w[0]);
    n->pending++;
    p->kind = (a->flags & SNIC_DDP_DROPS) != 0      ? DN_DROPS
              : (a->flags & SNIC_DDP_REPLACES) != 0 ? DN_REPLACES
                                                    : 0;
    p->key = (uint8_t)m->key.w[0];
    p->segment = (uint8_t)n->flushes;
    p->ts = m->ts;
    p->value = (m->flags & SNIC_DDP_MSG_TOMBSTONE) != 0 ? 0 : m->value;
}

static void dn_written(struct dn_node *n, const struct dn_pending *p)
{
    if (!p->durable && (p->kind != 0 || p->ts > n->log[p->key])) {
        n->log[p->key] = p->kind == DN_DROPS ? 0 : p->ts;
        n->log_value[p->key] = p->kind == DN_DROPS ? 0 : p->value;
    }
}

/* Those of its key that make others void, and are before it, were durable before. */
static void dn_durable(struct dn_node *n, const struct dn_pending *p)
{
    uint32_t i, order;

    for (order = 0; order < p->order; order++)
        for (i = 0; i < n->pending; i++)
            if (n->pend[i].key == p->key && n->pend[i].kind != 0 && n->pend[i].order == order) {
                dn_written(n, &n->pend[i]);
                n->pend[i].durable = 1;
            }
    dn_written(n, p);
}

/* The log drops what it has of the key, what is on its way to it too. */
static void dn_forget(struct dn_node *n, uint32_t key, uint64_t ts)
{
    uint32_t i;

    if (n->log[key] <= ts)
        n->log[key] = n->log_value[key] = 0;
    for (i = 0; i < n->pending; i++)
        if (n->pend[i].key == key && n->pend[i].ts <= ts)
            n->pend[i].durable = 1;
}

/* An answer to a write or SYNC is for all FULL members, and for no fewer than it asked for. */
static void dn_copies(struct dn_work *w, const struct snic_ddp_action *a)
{
    uint32_t n, full = 0;

    if (a->result != 0 || a->token >= DN_READ_TOKEN)
        return;
    for (n = 0; n < w->s->o.nodes; n++)
        full += dn_view_at(w->s, w->n->sum.view)->full >> n & 1;
    if (a->copies != full || full < w->s->o.copies)
        dn_bad(w, "N: an answer for another number of copies than there are, or for too few");
}

static void dn_act(struct dn_work *w, const struct snic_ddp_action *a)
{
    struct dn_node *n = w->n;

    switch (a->type) {
    case SNIC_DDP_SEND:
        dn_sent(w, a);
        break;
    case SNIC_DDP_APPEND:
        dn_appended(w, a);
        break;
    case SNIC_DDP_FLUSH:
        if (n->flushes == DN_FLUSHES) {
            dn_bad(w, "more flushes than the model has room for");
            return;
        }
        n->flush[n->flushes++] = a->id;
        break;
    case SNIC_DDP_DONE:
        if (w->r->dones == DN_DONE)
            abort();
        dn_copies(w, a);
        w->done[w->r->dones].token = a->token;
        w->done[w->r->dones].result = a->result;
        w->done[w->r->dones++].ts = a->msg.ts;
        break;
    case SNIC_DDP_CAUGHT_UP:
        w->r->caught_up = 1;
        break;
    case SNIC_DDP_READY:
        w->r->ready = 1;
        break;
    case SNIC_DDP_NEED_EPOCH:
        w->r->need_epoch = 1;
        break;
    case SNIC_DDP_FORGET:
        dn_forget(n, (uint32_t)a->msg.key.w[0], a->msg.ts);
        break;
    default:
        break; /* RELEASE: dn_engine_step(); SUSPECT is advice */
    }
}

/* The handle that the engine takes over with this event, 0: none. */
static uint64_t dn_value_of(const struct snic_ddp_event *ev)
{
    const struct snic_ddp_msg *m = ev->msg;

    if (ev->type == SNIC_DDP_WRITE)
        return ev->value;
    if (ev->type == SNIC_DDP_CAS || ev->type == SNIC_DDP_LOADED)
        return (ev->flags & SNIC_DDP_MSG_TOMBSTONE) == 0 ? ev->value : 0;
    if (ev->type != SNIC_DDP_MESSAGE || (m->flags & SNIC_DDP_MSG_TOMBSTONE) != 0)
        return 0;
    return m->type == SNIC_DDP_INV || m->type == SNIC_DDP_NACK || m->type == SNIC_DDP_RECORD
               ? m->value
               : 0;
}

/* ---- What CHANGED shows ---- */

struct dn_shown {
    uint64_t ts; /* 0: no record */
    uint64_t value;
    uint32_t number;
    uint32_t locked;
};

static void dn_show_table(const struct snic_ddp *d, struct dn_shown *of)
{
    struct snic_ddp_entry e;
    uint64_t cursor = 0;

    memset(of, 0, DN_KEYS * sizeof(*of));
    while (snic_ddp_next(d, &cursor, &e) == 0) {
        struct dn_shown *k = &of[e.key.w[0]];
        k->ts = e.ts;
        k->value = (e.flags & SNIC_DDP_MSG_TOMBSTONE) != 0 ? 0 : e.value;
        k->number = (uint32_t)cursor - 1;
        k->locked = (e.flags & SNIC_DDP_MSG_LOCKED) != 0;
    }
}

/* Each new value is shown once, and once when it becomes readable: 0 if this one may not be. */
static int dn_show_change(struct dn_shown *of, const struct snic_ddp_action *a)
{
    struct dn_shown *k = &of[a->msg.key.w[0]];
    int locked = (a->flags & SNIC_DDP_MSG_LOCKED) != 0;

    if (k->ts != 0 && k->number != a->id)
        return 0;
    if ((a->flags & SNIC_DDP_REMOVED) != 0) {
        int same = k->ts == a->msg.ts;
        memset(k, 0, sizeof(*k));
        return same;
    }
    if (a->msg.ts < k->ts || (a->msg.ts == k->ts && (locked || !k->locked)))
        return 0;
    k->ts = a->msg.ts;
    k->value = a->msg.value;
    k->number = a->id;
    k->locked = (uint32_t)locked;
    return 1;
}

static void dn_engine_step(struct dn_work *w, const struct snic_ddp_event *ev)
{
    int owed[DN_HANDLES] = {0}, held[DN_HANDLES] = {0};
    struct dn_shown shown[DN_KEYS], table[DN_KEYS];
    struct snic_ddp_action a;

    dn_show_table(dn_engine(w->n), shown);
    dn_handles(dn_engine(w->n), owed);
    w->r->status = snic_ddp_step(dn_engine(w->n), 0, ev);
    if (w->r->status == 0)
        owed[dn_value_of(ev) % DN_HANDLES]++;
    while (snic_ddp_poll(dn_engine(w->n), &a) != 0) {
        dn_act(w, &a);
        if (a.type == SNIC_DDP_RELEASE)
            owed[a.msg.value % DN_HANDLES]--;
        if (a.type == SNIC_DDP_CHANGED && !dn_show_change(shown, &a))
            dn_bad(w, "CHANGED of what did not change");
    }
    dn_show_table(dn_engine(w->n), table);
    if (memcmp(table, shown, sizeof(table)) != 0)
        dn_bad(w, "a change without CHANGED");
    dn_handles(dn_engine(w->n), held);
    owed[0] = held[0]; /* none */
    if (memcmp(owed, held, sizeof(held)) != 0)
        dn_bad(w, "H: a handle was lost, or released twice");
}

static void dn_log_event(struct dn_work *w, uint32_t kind, uint32_t arg, struct snic_ddp_event *ev)
{
    struct dn_node *n = w->n;
    uint32_t i;

    if (kind == DN_APPENDED) {
        struct dn_pending p = n->pend[arg];

        dn_durable(n, &p);
        n->pending--;
        memmove(&n->pend[arg], &n->pend[arg + 1], (n->pending - arg) * sizeof(p));
        if (p.silent || p.kind == DN_DROPS)
            return;
        ev->type = SNIC_DDP_APPENDED;
        ev->key.w[0] = p.key;
        ev->ts = p.ts;
        return;
    }
    ev->type = SNIC_DDP_FLUSHED;
    ev->id = n->flush[arg];
    n->flushes--;
    memmove(&n->flush[arg], &n->flush[arg + 1], (n->flushes - arg) * sizeof(n->flush[0]));
    for (i = 0; i < n->pending; i++) {
        if (n->pend[i].segment <= arg) {
            dn_durable(n, &n->pend[i]);
            n->pend[i].durable = 1;
        } else {
            n->pend[i].segment--;
        }
    }
}

static void dn_client_event(struct dn_work *w, uint32_t kind, uint32_t arg,
                            struct snic_ddp_event *ev)
{
    ev->type = kind == DN_WRITE    ? SNIC_DDP_WRITE
               : kind == DN_DELETE ? SNIC_DDP_DELETE
               : kind == DN_CAS    ? SNIC_DDP_CAS
               : kind == DN_READ   ? SNIC_DDP_READ
                                   : SNIC_DDP_SYNC;
    if (kind == DN_READ) {
        ev->key.w[0] = arg & 15;
        ev->token = DN_READ_TOKEN | arg;
        ev->durability = DN_DURABILITY(arg);
        return;
    }
    if (kind == DN_SYNC) {
        ev->scope = arg;
        ev->token = 64 + arg;
        ev->copies_min = w->s->o.copies;
        return;
    }
    ev->key.w[0] = arg & 15;
    ev->token = arg >> 4 & 255;
    ev->scope = arg >> 12 & 255;
    ev->durability = DN_DURABILITY(arg);
    ev->copies_min = w->s->o.copies;
    ev->value = kind == DN_DELETE ? 0 : ev->token;
    ev->length = kind == DN_DELETE ? 0 : w->s->o.large != 0 ? 1u << 20 : 1;
    ev->ts = kind == DN_CAS ? w->n->sum.key[arg & 15].vts : 0;
}

static void dn_crash(struct dn_work *w, uint32_t kept)
{
    struct dn_node *n = w->n;
    uint32_t i;

    for (i = 0; i < kept && i < n->pending; i++)
        dn_durable(n, &n->pend[i]);
    n->pending = n->flushes = 0;
    n->sum.alive = n->sum.lease = 0;
    n->sum.view = DN_NONE;
    memset(n->engine, 0, w->s->node_size - sizeof(*n));
}

static void dn_load(struct dn_work *w, uint32_t load)
{
    struct dn_node *n = w->n;
    uint32_t k;

    dn_boot(w->s, n);
    for (k = 0; k < w->s->o.keys; k++) {
        struct snic_ddp_event ev;

        if (!load) {
            n->log[k] = n->log_value[k] = 0; /* a new disk */
            continue;
        }
        memset(&ev, 0, sizeof(ev));
        ev.type = SNIC_DDP_LOADED;
        ev.key.w[0] = k;
        ev.ts = n->log[k];
        ev.value = n->log_value[k];
        ev.length = n->log_value[k] != 0;
        ev.flags = n->log_value[k] == 0 ? (uint32_t)SNIC_DDP_MSG_TOMBSTONE : 0;
        if (ev.ts != 0)
            dn_engine_step(w, &ev);
    }
}

/* An operation was taken: were there as many FULL members as it needs? */
static void dn_enough(struct dn_work *w)
{
    uint32_t n, full = 0;

    for (n = 0; n < w->s->o.nodes; n++)
        full += dn_view_at(w->s, w->n->sum.view)->full >> n & 1;
    if (full < w->s->o.copies)
        dn_bad(w, "N: a write was taken with too few copies");
}

/* A node that was left out may come back as it is: what is on its way to the log stays so. */
static void dn_return(struct dn_work *w)
{
    struct dn_node *n = w->n;
    uint32_t i;

    for (i = 0; i < n->pending; i++) {
        struct snic_ddp_event ev;

        n->pend[i].segment = 0;
        if (n->pend[i].silent || n->pend[i].kind == DN_DROPS)
            continue;
        n->pend[i].silent = 1;
        memset(&ev, 0, sizeof(ev));
        ev.type = SNIC_DDP_APPENDED;
        ev.key.w[0] = n->pend[i].key;
        ev.ts = n->pend[i].ts;
        dn_engine_step(w, &ev);
    }
    n->flushes = 0;
    n->sum.incarnation++;
    n->sum.view = DN_NONE;
    n->sum.lease = 0;
}

static void dn_event(struct dn_work *w, uint32_t kind, uint32_t arg)
{
    struct snic_ddp_event ev;

    memset(&ev, 0, sizeof(ev));
    switch (kind) {
    case DN_MESSAGE:
        ev.type = SNIC_DDP_MESSAGE;
        ev.msg = dn_message(w->s, arg);
        break;
    case DN_APPENDED:
    case DN_FLUSHED:
        dn_log_event(w, kind, arg, &ev);
        break;
    case DN_FIRE:
        ev.type = SNIC_DDP_FIRE;
        ev.id = w->n->timer[arg].id;
        break;
    case DN_INSTALL:
        ev.type = SNIC_DDP_EPOCH;
        ev.view = dn_view_at(w->s, arg);
        w->n->sum.view = arg;
        break;
    case DN_LEASE_END:
        ev.type = SNIC_DDP_LEASE;
        w->n->sum.lease = 0;
        break;
    case DN_CRASH:
        dn_crash(w, arg);
        return;
    case DN_REBOOT:
        w->n->sum.incarnation++;
        dn_load(w, arg);
        return;
    case DN_RETURN:
        dn_return(w);
        return;
    default:
        dn_client_event(w, kind, arg, &ev);
        break;
    }
    if (ev.type != 0)
        dn_engine_step(w, &ev);
    if (kind >= DN_WRITE && kind <= DN_SYNC && w->r->status == 0)
        dn_enough(w);
    if (kind == DN_INSTALL && w->r->status == 0 &&
        (dn_view_at(w->s, arg)->full >> w->n->sum.id & 1) != 0 && w->n->sum.lease == 0) {
        memset(&ev, 0, sizeof(ev));
        ev.type = SNIC_DDP_LEASE;
        ev.ts = SNIC_NEVER;
        w->n->sum.lease = 1;
        dn_engine_step(w, &ev);
    }
}

/* Give the engine's output numbers. Under the lock. */
static void dn_number(struct dn_work *w, uint32_t before)
{
    struct dn_result *r = w->r;
    uint32_t i;

    r->out = calloc(r->outs + 1u, sizeof(*r->out));
    r->done = calloc(r->dones + 1u, sizeof(*r->done));
    if (r->out == NULL || r->done == NULL)
        abort();
    memcpy(r->done, w->done, r->dones * sizeof(*r->done));
    for (i = 0; i < r->outs; i++)
        r->out[i] = mc_set_add(&w->s->messages, mc_fingerprint(&w->out[i], sizeof(w->out[i])),
                               &w->out[i], sizeof(w->out[i]));
    r->node = r->bad != NULL ? before : dn_add(w->s, w->n);
}

/* An assertion that fails is what is bad. */
static void dn_try(struct dn_work *w, uint32_t event)
{
    dn_armed = 1;
    if (setjmp(dn_jump) == 0)
        dn_event(w, event >> 27, event & ((1u << 27) - 1));
    else
        dn_bad(w, w->r->owned = strdup(dn_text));
    dn_armed = 0;
}

struct dn_result *dn_run(struct dn_space *s, const struct dn_node *n, uint32_t node, uint32_t event)
{
    struct dn_work *w = calloc(1, sizeof(*w));
    struct dn_result *r = calloc(1, sizeof(*r));

    if (w == NULL || r == NULL)
        abort();
    w->s = s;
    w->r = r;
    w->n = dn_copy(s, n);
    r->event = (uint64_t)node << 32 | event;
    dn_try(w, event);
    dn_number(w, node);
    free(w->n);
    free(w);
    return r;
}

const struct dn_result *dn_step(struct dn_space *s, uint32_t node, uint32_t event)
{
    uint64_t key = (uint64_t)node << 32 | event;
    struct dn_result *r = mc_memo_find(&s->memo, key);

    if (r != NULL)
        return r;
    /* Works under the lock: it is rare, and the engine must not be entered twice for one thing. */
    (void)pthread_mutex_lock(&s->lock);
    r = mc_memo_find(&s->memo, key);
    if (r == NULL) {
        r = dn_run(s, dn_node_at(s, node), node, event);
        mc_memo_add(&s->memo, r);
        if (s->twins != NULL)
            dn_twins_step(s, node, event);
    }
    (void)pthread_mutex_unlock(&s->lock);
    return r;
}
