/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* What may happen in a state. */
#include "ddpnic_world_priv.h"

#include <stdlib.h>

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

                if (id == 0 || (s->h.requested >> (id - 1) & 1) == 0)
                    xw_may(l, XW_ACTION(XW_NODE, n,
                                        XN_EVENT(kind == 0 ? XN_WRITE : XN_DELETE,
                                                 key | (s->h.count + 1u) << 4 | id << 12)));
            }
    }
    for (scope = 0; scope < w->o.scopes; scope++) {
        uint32_t any = 0, id = n * 2 + scope + 1;

        for (i = 0; i < s->h.count; i++)
            any |= s->h.scope[i] == id;
        if (any && (s->h.requested >> (id - 1) & 1) == 0)
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

int xw_installed(const struct xw_world *w, const struct xw_state *s)
{
    uint32_t n;

    for (n = 0; n < w->o.node.nodes; n++)
        if (xw_full(w, s, n) && xw_sum(w, s, n)->alive &&
            xw_sum(w, s, n)->epoch < xw_view(w, s)->epoch)
            return 0;
    return 1;
}

/* Members that are dead or have no lease are left out, as long as a member remains. */
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

uint32_t xw_actions(void *ctx, const void *state, size_t len, uint64_t *out)
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

int xw_calm(void *ctx, const void *state, size_t len, uint64_t *action)
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
