/* SPDX-License-Identifier: Apache-2.0 OR MIT */
#include "ddpnic_world.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define XW_MESSAGES 96

enum xw_action { XW_NODE = 0, XW_DOUBLE, XW_LOSE, XW_DECIDE_OUT };
#define XW_ACTION(kind, node, arg) ((uint64_t)(kind) << 40 | (uint64_t)(node) << 32 | (arg))

enum xw_fate { XW_OPEN = 0, XW_ANSWERED, XW_UNKNOWN };

enum xw_budget {
    XW_PLAIN = 0,
    XW_DELETES,
    XW_CRASHES,
    XW_EVICTIONS,
    XW_DOUBLES,
    XW_LOSSES,
    XW_RESENDS,
    XW_LOCKS,
    XW_BUDGETS
};

/* Everything but the messages; no padding. */
struct xw_head {
    uint64_t ts[XW_WRITES];
    uint64_t seen[XN_KEYS];
    uint32_t node[XN_NODES];
    uint32_t view;
    uint8_t key[XW_WRITES];
    uint8_t scope[XW_WRITES];
    uint8_t owner[XW_WRITES];
    uint8_t fate[XW_WRITES]; /* enum xw_fate */
    uint8_t gone[XW_WRITES]; /* it is a deletion */
    uint8_t used[XW_BUDGETS];
    uint8_t asked;  /* scopes, bits: node * 2 + scope - 1 */
    uint8_t synced; /* answered */
    uint8_t count;  /* writes of all kinds */
    uint8_t begun;  /* nodes whose lease was ended, bits */
    uint8_t turn;   /* of timers, in a quiet time */
    uint8_t bad;    /* what happened on the way, index of xw_bads */
    uint16_t messages;
};

struct xw_state {
    struct xw_head h;
    uint32_t msg[XW_MESSAGES]; /* sorted */
};

struct xw_world {
    struct xw_opts o;
    struct xn_space *space;
    struct mc_model model;
    struct xw_state first;
};

enum { XW_B_R2 = 1, XW_B_R3, XW_B_EVENT, XW_B_ANSWER, XW_B_RESULT, XW_B_ROOM, XW_B_TS, XW_B_TEXT };
static const char *const xw_bads[] = {
    NULL,
    "R2: a new timestamp is not above all that was answered or read",
    "R3: two writes have one timestamp",
    "an event failed that the model takes for possible",
    "an answer to nothing that was asked",
    "an answer with a result that cannot be",
    "the model has no room for so many messages",
    "an answer names another timestamp than the write has",
    NULL,
};

/* ---- Bytes ---- */

static size_t xw_store(const struct xw_state *s, void *out)
{
    size_t n = sizeof(s->h) + s->h.messages * sizeof(s->msg[0]);

    memcpy(out, s, n);
    return n;
}

static void xw_load(struct xw_state *s, const void *state, size_t len)
{
    memcpy(s, state, len);
}

static const struct xn_sum *xw_sum(const struct xw_world *w, const struct xw_state *s, uint32_t n)
{
    return xn_sum(w->space, s->h.node[n]);
}

static const struct snic_ddp_view *xw_view(const struct xw_world *w, const struct xw_state *s)
{
    return xn_view_at(w->space, s->h.view);
}

static int xw_full(const struct xw_world *w, const struct xw_state *s, uint32_t n)
{
    return xw_view(w, s)->full >> n & 1;
}

/* ---- Messages ---- */

static void xw_put(struct xw_state *s, uint32_t message)
{
    uint32_t i = s->h.messages;

    if (i == XW_MESSAGES) {
        s->h.bad = XW_B_ROOM;
        return;
    }
    for (; i > 0 && s->msg[i - 1] > message; i--)
        s->msg[i] = s->msg[i - 1];
    s->msg[i] = message;
    s->h.messages++;
}

static void xw_take(struct xw_state *s, uint32_t message)
{
    uint32_t i = 0;

    while (i < s->h.messages && s->msg[i] != message)
        i++;
    if (i == s->h.messages)
        return;
    s->h.messages--;
    memmove(&s->msg[i], &s->msg[i + 1], (s->h.messages - i) * sizeof(s->msg[0]));
}

/* 1: may be taken now, 0: later perhaps, -1: never. */
static int xw_fits(const struct xw_world *w, const struct xw_state *s, uint32_t message)
{
    const struct snic_ddp_msg *m = xn_message(w->space, message);
    const struct xn_sum *n = xw_sum(w, s, m->dst);

    if (!n->alive || m->epoch < n->epoch || n->role != SNIC_DDP_FULL)
        return -1;
    return m->epoch == n->epoch;
}

static void xw_drop_stale(const struct xw_world *w, struct xw_state *s)
{
    uint32_t i, n = 0;

    for (i = 0; i < s->h.messages; i++)
        if (xw_fits(w, s, s->msg[i]) >= 0)
            s->msg[n++] = s->msg[i];
    s->h.messages = (uint16_t)n;
}

/* ---- What was promised ---- */

static uint64_t xw_done(const struct xw_state *s, uint32_t key)
{
    uint64_t most = 0;
    uint32_t i;

    for (i = 0; i < s->h.count; i++)
        if (s->h.fate[i] == XW_ANSWERED && s->h.key[i] == key && s->h.ts[i] > most)
            most = s->h.ts[i];
    return most;
}

static void xw_note_write(struct xw_state *s, uint32_t n, uint32_t event, uint64_t ts)
{
    uint32_t i = (XN_ARG(event) >> 4 & 255) - 1, k;
    uint32_t key = event & 15;
    uint64_t done = xw_done(s, key);

    s->h.key[i] = (uint8_t)key;
    s->h.scope[i] = (uint8_t)(XN_ARG(event) >> 12 & 255);
    s->h.owner[i] = (uint8_t)n;
    s->h.gone[i] = event >> 27 == XN_DELETE;
    s->h.count++;
    s->h.ts[i] = ts;
    if (ts <= done || ts <= s->h.seen[key])
        s->h.bad = XW_B_R2;
    for (k = 0; k < s->h.count; k++)
        if (k != i && s->h.ts[k] == ts && s->h.key[k] == key)
            s->h.bad = XW_B_R3;
}

static void xw_note_reads(const struct xw_world *w, struct xw_state *s)
{
    uint32_t n, k;

    for (n = 0; n < w->o.node.nodes; n++)
        for (k = 0; k < w->o.node.keys && xw_sum(w, s, n)->reads; k++) {
            const struct xn_key *x = &xw_sum(w, s, n)->key[k];

            if (x->rd == 0 && x->vts > s->h.seen[k])
                s->h.seen[k] = x->vts;
        }
}

static void xw_answer(struct xw_state *s, const struct xn_done *d)
{
    uint32_t i = (uint32_t)d->token - 1;

    if (d->token >= 64) {
        uint8_t bit = (uint8_t)(1u << (d->token - 65));

        if ((s->h.asked & bit) == 0 || (s->h.synced & bit) != 0)
            s->h.bad = XW_B_ANSWER;
        else if (d->result == 0)
            s->h.synced |= bit;
        else if (d->result != SNIC_ESTALE && d->result != SNIC_EUNKNOWN)
            s->h.bad = XW_B_RESULT;
        return;
    }
    if (i >= s->h.count || s->h.fate[i] != XW_OPEN) {
        s->h.bad = XW_B_ANSWER;
    } else if (d->result == 0) {
        s->h.fate[i] = XW_ANSWERED;
        if (s->h.ts[i] != d->ts)
            s->h.bad = XW_B_TS;
    } else if (d->result == SNIC_EUNKNOWN) {
        s->h.fate[i] = XW_UNKNOWN;
    } else {
        s->h.bad = XW_B_RESULT;
    }
}

/* ---- An event at a node ---- */

/* 0: it had no effect. */
static int xw_node_event(const struct xw_world *w, struct xw_state *s, uint32_t n, uint32_t event)
{
    const struct xn_result *r = xn_step(w->space, s->h.node[n], event);
    uint32_t kind = event >> 27, i;

    if (r->bad != NULL) {
        s->h.bad = XW_B_TEXT; /* check() asks xn_step() again */
        s->h.view = event;
        s->h.turn = (uint8_t)n;
        return 1;
    }
    if (r->status == SNIC_EAGAIN)
        return 0; /* it stays where it is */
    if (r->status != 0) {
        s->h.bad = XW_B_EVENT;
        return 1;
    }
    s->h.node[n] = r->node;
    for (i = 0; i < r->outs; i++)
        xw_put(s, r->out[i]);
    if (kind == XN_WRITE || kind == XN_DELETE)
        xw_note_write(s, n, event, r->made_ts);
    for (i = 0; i < r->dones; i++)
        xw_answer(s, &r->done[i]);
    return 1;
}

static void xw_settle(const struct xw_world *w, struct xw_state *s)
{
    if (s->h.bad != 0)
        return;
    xw_drop_stale(w, s);
    xw_note_reads(w, s);
}

/* ---- What may happen ---- */

struct xw_list {
    uint64_t *at;
    uint32_t count;
};

static void xw_may(struct xw_list *l, uint64_t action)
{
    if (l->count == MC_ACTIONS_MAX)
        abort();
    l->at[l->count++] = action;
}

static void xw_may_message(const struct xw_world *w, const struct xw_state *s, struct xw_list *l,
                           int faults)
{
    uint32_t i;

    for (i = 0; i < s->h.messages; i++) {
        uint32_t m = s->msg[i], n = xn_message(w->space, m)->dst;
        uint32_t event = XN_EVENT(XN_MESSAGE, m);

        if ((i > 0 && s->msg[i - 1] == m) || xw_fits(w, s, m) != 1)
            continue;
        if (faults || xn_step(w->space, s->h.node[n], event)->status != SNIC_EAGAIN)
            xw_may(l, XW_ACTION(XW_NODE, n, event));
        if (faults && s->h.used[XW_DOUBLES] < w->o.doubles)
            xw_may(l, XW_ACTION(XW_DOUBLE, n, event));
        if (faults && s->h.used[XW_LOSSES] < w->o.losses)
            xw_may(l, XW_ACTION(XW_LOSE, n, event));
    }
}

static void xw_may_own(const struct xw_world *w, const struct xw_state *s, struct xw_list *l,
                       int faults)
{
    const uint32_t down = XN_EVENT(XN_DOWN, 0);
    uint32_t n, i;

    for (n = 0; n < w->o.node.nodes; n++) {
        const struct xn_sum *d = xw_sum(w, s, n);

        for (i = 0; i < d->pending; i++)
            xw_may(l, XW_ACTION(XW_NODE, n, XN_EVENT(XN_COMPLETE, i)));
        if (d->down != 0 &&
            (faults || xn_step(w->space, s->h.node[n], down)->status != SNIC_EAGAIN))
            xw_may(l, XW_ACTION(XW_NODE, n, down));
        if (d->back != 0)
            xw_may(l, XW_ACTION(XW_NODE, n, XN_EVENT(XN_BACK, 0)));
    }
}

static void xw_may_write(const struct xw_world *w, const struct xw_state *s, uint32_t n,
                         struct xw_list *l)
{
    uint32_t kind, key, scope, i;

    if (!xw_sum(w, s, n)->reads)
        return;
    for (kind = 0; kind < 2; kind++) {
        if (s->h.used[XW_PLAIN + kind] >= (kind == 0 ? w->o.writes : w->o.deletes))
            continue;
        for (key = 0; key < w->o.node.keys; key++)
            for (scope = 0; scope < (w->o.scopes != 0 ? w->o.scopes : 1); scope++) {
                /* A scope's number is its node's: n * 2 + 1 or + 2. */
                uint32_t id = w->o.scopes != 0 ? n * 2 + scope + 1 : 0;

                if (id == 0 || (s->h.asked >> (id - 1) & 1) == 0)
                    xw_may(l, XW_ACTION(XW_NODE, n,
                                        XN_EVENT(kind == 0 ? XN_WRITE : XN_DELETE,
                                                 key | (s->h.count + 1u) << 4 | id << 12)));
            }
    }
    for (scope = 0; scope < w->o.scopes; scope++) {
        uint32_t any = 0, id = n * 2 + scope + 1;

        for (i = 0; i < s->h.count; i++)
            any |= s->h.scope[i] == id;
        if (any && (s->h.asked >> (id - 1) & 1) == 0)
            xw_may(l, XW_ACTION(XW_NODE, n, XN_EVENT(XN_SYNC, id)));
    }
}

static void xw_may_install(const struct xw_world *w, const struct xw_state *s, struct xw_list *l)
{
    const struct snic_ddp_view *v = xw_view(w, s);
    uint32_t n;

    for (n = 0; n < w->o.node.nodes; n++)
        if (xw_sum(w, s, n)->alive && xw_sum(w, s, n)->epoch < v->epoch)
            xw_may(l, XW_ACTION(XW_NODE, n, XN_EVENT(XN_INSTALL, s->h.view)));
}

static int xw_installed(const struct xw_world *w, const struct xw_state *s)
{
    uint32_t n;

    for (n = 0; n < w->o.node.nodes; n++)
        if (xw_full(w, s, n) && xw_sum(w, s, n)->alive &&
            xw_sum(w, s, n)->epoch < xw_view(w, s)->epoch)
            return 0;
    return 1;
}

/* Members that are dead or have no lease are left out, as long as somebody remains. */
static void xw_may_decide(const struct xw_world *w, const struct xw_state *s, struct xw_list *l)
{
    uint32_t n, out = 0;

    for (n = 0; n < w->o.node.nodes; n++)
        if (xw_full(w, s, n) && (!xw_sum(w, s, n)->alive || (s->h.begun >> n & 1) != 0))
            out |= 1u << n;
    if (out != 0 && (xw_view(w, s)->full & ~out) != 0 && xw_installed(w, s))
        xw_may(l, XW_ACTION(XW_DECIDE_OUT, 0, out));
}

/* quiet: beyond the budget, in turns. */
static void xw_may_fire(const struct xw_world *w, const struct xw_state *s, struct xw_list *l,
                        int quiet)
{
    uint32_t n, i;

    for (n = 0; n < w->o.node.nodes; n++)
        for (i = 0; i < xw_sum(w, s, n)->timers; i++) {
            int lock = xn_timer(w->space, s->h.node[n], i).kind == SNIC_DDP_TIMER_LOCK;

            if (quiet ||
                (lock ? s->h.used[XW_LOCKS] < w->o.locks : s->h.used[XW_RESENDS] < w->o.resends))
                xw_may(l, XW_ACTION(XW_NODE, n, XN_EVENT(XN_FIRE, i)));
        }
}

static void xw_may_fault(const struct xw_world *w, const struct xw_state *s, struct xw_list *l)
{
    uint32_t n, alive = 0;

    for (n = 0; n < w->o.node.nodes; n++)
        alive += xw_sum(w, s, n)->alive && xw_full(w, s, n) && (s->h.begun >> n & 1) == 0;
    for (n = 0; n < w->o.node.nodes && alive > 1; n++) {
        const struct xn_sum *d = xw_sum(w, s, n);

        if (!d->alive)
            continue;
        if (s->h.used[XW_CRASHES] < w->o.crashes)
            xw_may(l, XW_ACTION(XW_NODE, n, XN_EVENT(XN_CRASH, 0)));
        if (s->h.used[XW_EVICTIONS] < w->o.evictions && d->lease && xw_full(w, s, n))
            xw_may(l, XW_ACTION(XW_NODE, n, XN_EVENT(XN_LEASE_END, 0)));
    }
}

static uint32_t xw_actions(void *ctx, const void *state, size_t len, uint64_t *out)
{
    const struct xw_world *w = ctx;
    struct xw_list l = {out, 0};
    struct xw_state s;
    uint32_t n;

    xw_load(&s, state, len);
    if (s.h.bad != 0)
        return 0;
    xw_may_message(w, &s, &l, 1);
    xw_may_own(w, &s, &l, 1);
    for (n = 0; n < w->o.node.nodes; n++)
        xw_may_write(w, &s, n, &l);
    xw_may_install(w, &s, &l);
    xw_may_decide(w, &s, &l);
    xw_may_fire(w, &s, &l, 0);
    xw_may_fault(w, &s, &l);
    return l.count;
}

static int xw_calm(void *ctx, const void *state, size_t len, uint64_t *action)
{
    const struct xw_world *w = ctx;
    uint64_t all[MC_ACTIONS_MAX];
    struct xw_list l = {all, 0};
    struct xw_state s;

    xw_load(&s, state, len);
    if (s.h.bad != 0)
        return 0;
    xw_may_message(w, &s, &l, 0);
    xw_may_own(w, &s, &l, 0);
    xw_may_install(w, &s, &l);
    if (l.count == 0)
        xw_may_decide(w, &s, &l);
    if (l.count > 0) {
        *action = l.at[0];
        return 1;
    }
    xw_may_fire(w, &s, &l, 1);
    if (l.count == 0)
        return 0;
    *action = l.at[s.h.turn % l.count];
    return 1;
}

/* ---- Steps ---- */

static void xw_use(const struct xw_world *w, struct xw_state *s, uint32_t n, uint32_t event)
{
    uint32_t kind = event >> 27, budget;

    if (kind == XN_WRITE || kind == XN_DELETE)
        s->h.used[XW_PLAIN + (kind - XN_WRITE)]++;
    if (kind == XN_SYNC)
        s->h.asked |= (uint8_t)(1u << (XN_ARG(event) - 1));
    if (kind == XN_CRASH)
        s->h.used[XW_CRASHES]++;
    if (kind == XN_LEASE_END) {
        s->h.used[XW_EVICTIONS]++;
        s->h.begun |= (uint8_t)(1u << n);
    }
    if (kind != XN_FIRE)
        return;
    /* Beyond the budget only in quiet times, which turn. */
    budget = xn_timer(w->space, s->h.node[n], XN_ARG(event)).kind == SNIC_DDP_TIMER_LOCK
                 ? XW_LOCKS
                 : XW_RESENDS;
    if (s->h.used[budget] < (budget == XW_LOCKS ? w->o.locks : w->o.resends))
        s->h.used[budget]++;
    else
        s->h.turn++;
}

static void xw_decide(struct xw_world *w, struct xw_state *s, uint32_t out)
{
    struct snic_ddp_view v = *xw_view(w, s);

    v.epoch++;
    v.full &= (uint16_t)~out;
    s->h.begun &= (uint8_t)~out;
    s->h.view = xn_view(w->space, &v);
}

static size_t xw_apply(void *ctx, const void *state, size_t len, uint64_t action, void *out)
{
    struct xw_world *w = ctx;
    struct xw_state s;
    uint32_t n = action >> 32 & 255, event = (uint32_t)action, kind = event >> 27, i;
    int any = 1;

    xw_load(&s, state, len);
    switch (action >> 40) {
    case XW_LOSE:
        s.h.used[XW_LOSSES]++;
        xw_take(&s, XN_ARG(event));
        break;
    case XW_DOUBLE:
        s.h.used[XW_DOUBLES]++;
        any = xw_node_event(w, &s, n, event);
        break;
    case XW_NODE:
        xw_use(w, &s, n, event);
        any = xw_node_event(w, &s, n, event);
        if (kind == XN_MESSAGE && any)
            xw_take(&s, XN_ARG(event));
        for (i = 0; i < s.h.count && kind == XN_CRASH; i++)
            if (s.h.fate[i] == XW_OPEN && s.h.owner[i] == n)
                s.h.fate[i] = XW_UNKNOWN;
        break;
    default:
        xw_decide(w, &s, event);
        break;
    }
    if (!any)
        return 0;
    xw_settle(w, &s);
    return xw_store(&s, out);
}

/* ---- Predicates ---- */

static int xw_is_write(const struct xw_state *s, uint32_t key, uint64_t ts)
{
    uint32_t i;

    for (i = 0; i < s->h.count; i++)
        if (s->h.ts[i] == ts && s->h.key[i] == key)
            return 1;
    return ts == 0;
}

static int xw_value_fits(const struct xw_state *s, uint32_t key, uint64_t ts, uint64_t value)
{
    uint32_t i;

    for (i = 0; i < s->h.count; i++)
        if (s->h.ts[i] == ts && s->h.key[i] == key && ts != 0)
            return value == (s->h.gone[i] ? 0 : i + 1u);
    return 1;
}

/* One node and key on its own. */
static const char *xw_check_own(const struct xw_world *w, const struct xw_state *s, uint32_t n,
                                uint32_t k)
{
    const struct xn_sum *d = xw_sum(w, s, n);
    const struct xn_key *a = &d->key[k];

    if (!xw_is_write(s, k, a->vts) || !xw_is_write(s, k, a->log) || !xw_is_write(s, k, a->gv) ||
        !xw_is_write(s, k, a->gd) || !xw_is_write(s, k, a->top))
        return "types: a timestamp that no write has";
    if (d->alive && !xw_value_fits(s, k, a->vts, a->value))
        return "R4: another value than the timestamp's write has, in the cache";
    if (!xw_value_fits(s, k, a->log, a->log_value))
        return "R4: another value than the timestamp's write has, in the log";
    if (d->reads && a->rd == 0 && (a->vts < xw_done(s, k) || a->vts < s->h.seen[k]))
        return "R1: a stale read";
    return NULL;
}

/* What holds of every pair of members. */
static const char *xw_check_pair(const struct xw_world *w, const struct xw_state *s, uint32_t n,
                                 uint32_t m, uint32_t k)
{
    const struct xn_sum *a = xw_sum(w, s, n), *b = xw_sum(w, s, m);
    int tracked = w->o.node.model <= SNIC_DDP_RENF;

    if (!a->reads)
        return NULL;
    if (b->reads && a->key[k].rd == 0 && b->key[k].rd == 0 && a->key[k].vts != b->key[k].vts)
        return "2a: two unlocked nodes differ";
    if (b->reads && b->key[k].stored < a->key[k].gv)
        return "2c': gV is above what a member has stored";
    if (xw_full(w, s, m) && tracked && b->key[k].log < a->key[k].gd)
        return "3b': gD is above what a member has durable";
    return NULL;
}

/* D: of what was promised, at one member. */
static const char *xw_check_log(const struct xw_world *w, const struct xw_state *s, uint32_t n,
                                uint32_t k)
{
    uint64_t log = xw_sum(w, s, n)->key[k].log;
    uint32_t model = w->o.node.model, i;

    if ((model == SNIC_DDP_SYNCH || model == SNIC_DDP_STRICT) && log < xw_done(s, k))
        return "D: an answered write is not durable at a member";
    if ((model == SNIC_DDP_SYNCH || model == SNIC_DDP_RENF) && log < s->h.seen[k])
        return "D: what was read is not durable at a member";
    for (i = 0; i < s->h.count && model == SNIC_DDP_SCOPE; i++)
        if (s->h.scope[i] != 0 && (s->h.synced >> (s->h.scope[i] - 1) & 1) != 0 &&
            s->h.key[i] == k && s->h.fate[i] == XW_ANSWERED && log < s->h.ts[i])
            return "D: a write of a persisted scope is not durable at a member";
    return NULL;
}

static const char *xw_check(void *ctx, const void *state, size_t len)
{
    struct xw_world *w = ctx;
    struct xw_state s;
    const char *why = NULL;
    uint32_t n, m, k;

    xw_load(&s, state, len);
    if (s.h.bad == XW_B_TEXT)
        return xn_step(w->space, s.h.node[s.h.turn], s.h.view)->bad;
    if (s.h.bad != 0)
        return xw_bads[s.h.bad];
    for (n = 0; n < w->o.node.nodes && why == NULL; n++) {
        why = xw_sum(w, &s, n)->bad;
        for (k = 0; k < w->o.node.keys && why == NULL; k++) {
            why = xw_check_own(w, &s, n, k);
            for (m = 0; m < w->o.node.nodes && why == NULL; m++)
                if (m != n)
                    why = xw_check_pair(w, &s, n, m, k);
            if (why == NULL && xw_full(w, &s, n))
                why = xw_check_log(w, &s, n, k);
        }
    }
    return why;
}

static const char *xw_settled(void *ctx, const void *state, size_t len)
{
    struct xw_world *w = ctx;
    const struct xn_sum *first = NULL;
    struct xw_state s;
    uint32_t n, k;

    xw_load(&s, state, len);
    if (!xw_installed(w, &s))
        return "1: a membership was not installed";
    for (n = 0; n < s.h.count; n++)
        if (s.h.fate[n] == XW_OPEN)
            return "1: a write was never answered";
    for (n = 0; n < w->o.node.nodes; n++) {
        const struct xn_sum *d = xw_sum(w, &s, n);

        if (!xw_full(w, &s, n) || !d->alive)
            continue;
        if (d->busy || d->down != 0 || d->back != 0 || d->pending != 0)
            return "1: something waits for ever";
        first = first == NULL ? d : first;
        for (k = 0; k < w->o.node.keys; k++) {
            if (d->key[k].rd != 0)
                return "1: a key is locked for ever";
            if (d->key[k].vts != first->key[k].vts || d->key[k].gv != d->key[k].vts)
                return "2a: nodes differ after a quiet time";
            if (d->key[k].gd != first->key[k].gd)
                return "3a': gD differs after a quiet time";
            if (d->key[k].log != d->key[k].vts)
                return "D: a log lacks the newest after a quiet time";
        }
    }
    if (w->o.node.model == SNIC_DDP_SCOPE && w->o.crashes + w->o.evictions == 0 &&
        s.h.asked != s.h.synced)
        return "1: a scope was never answered";
    return NULL;
}

/* Nothing can happen in this state: the quiet time alone may still do something. */
static const char *xw_dead(void *ctx, const void *state, size_t len)
{
    struct xw_world *w = ctx;

    return mc_calm(&w->model, state, len, 10000);
}

/* ---- The model ---- */

static size_t xw_init(void *ctx, uint32_t i, void *state)
{
    return i == 0 ? xw_store(&((struct xw_world *)ctx)->first, state) : 0;
}

static void xw_print(void *ctx, const void *state, size_t len, uint64_t action, char *text,
                     size_t size)
{
    static const char *const kinds[] = {"", "again: ", "lost: "};
    struct xw_world *w = ctx;
    struct xw_state s;
    uint32_t n = action >> 32 & 255, kind = (uint32_t)(action >> 40);
    char what[MC_TEXT];

    xw_load(&s, state, len);
    if (kind == XW_DECIDE_OUT) {
        (void)snprintf(text, size, "decided: without %x", (unsigned)(uint32_t)action);
        return;
    }
    xn_event_print(w->space, s.h.node[n], (uint32_t)action, what, sizeof(what));
    (void)snprintf(text, size, "%s%.160s", kinds[kind], what);
}

struct xw_world *xw_new(const struct xw_opts *o)
{
    struct xw_world *w = calloc(1, sizeof(*w));
    struct snic_ddp_view v;
    uint32_t n;

    if (w == NULL || o->node.nodes > XN_NODES || o->node.keys > XN_KEYS || o->scopes > 2 ||
        o->writes + o->deletes > XW_WRITES)
        abort();
    w->o = *o;
    w->o.node.writes = o->writes + o->deletes + (o->scopes != 0 ? 2 : 0);
    w->o.node.scopes = o->scopes == 0 ? 0 : 4;
    w->space = xn_space_new(&w->o.node);
    memset(&v, 0, sizeof(v));
    v.epoch = 1;
    v.full = (uint16_t)((1u << o->node.nodes) - 1);
    for (n = 0; n < o->node.nodes; n++)
        v.incarnation[n] = 1;
    w->first.h.view = xn_view(w->space, &v);
    for (n = 0; n < o->node.nodes; n++) {
        w->first.h.node[n] = xn_begin(w->space, n);
        (void)xw_node_event(w, &w->first, n, XN_EVENT(XN_INSTALL, w->first.h.view));
    }
    xw_settle(w, &w->first);
    w->model.name = "ddpnic";
    w->model.ctx = w;
    w->model.init = xw_init;
    w->model.actions = xw_actions;
    w->model.apply = xw_apply;
    w->model.check = xw_check;
    w->model.dead = xw_dead;
    w->model.calm = xw_calm;
    w->model.settled = xw_settled;
    w->model.print = xw_print;
    return w;
}

void xw_free(struct xw_world *w)
{
    xn_space_free(w->space);
    free(w);
}

const struct mc_model *xw_model(struct xw_world *w)
{
    return &w->model;
}
