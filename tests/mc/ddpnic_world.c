/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* What an action does to a state. */
#include "ddpnic_world_priv.h"

#include <stdio.h>
#include <stdlib.h>

static size_t xw_store(const struct xw_state *s, void *out)
{
    size_t n = sizeof(s->h) + s->h.messages * sizeof(s->msg[0]);

    memcpy(out, s, n);
    return n;
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
int xw_fits(const struct xw_world *w, const struct xw_state *s, uint32_t message)
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

uint64_t xw_done(const struct xw_state *s, uint32_t key)
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

        if ((s->h.requested & bit) == 0 || (s->h.synced & bit) != 0)
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

/* ---- Steps ---- */

static void xw_use(const struct xw_world *w, struct xw_state *s, uint32_t n, uint32_t event)
{
    uint32_t kind = event >> 27, budget;

    if (kind == XN_WRITE || kind == XN_DELETE)
        s->h.used[XW_PLAIN + (kind - XN_WRITE)]++;
    if (kind == XN_SYNC)
        s->h.requested |= (uint8_t)(1u << (XN_ARG(event) - 1));
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
