/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* What may happen in a state. */
#include "ddp_world_priv.h"

#include <stdlib.h>

/* ---- Memberships ---- */

/* Members that may be left out: dead, or without a lease. */
static uint32_t dw_out(const struct dw_world *w, const struct dw_state *s)
{
    uint32_t n, out = 0;

    for (n = 0; n < w->o.node.nodes; n++) {
        const struct dn_sum *d = dw_sum(w, s, n);

        if (((dw_view(w, s)->full | dw_view(w, s)->learners) >> n & 1) == 0)
            continue;
        if (!d->alive || (s->h.begun >> n & 1) != 0 ||
            d->incarnation != dw_view(w, s)->incarnation[n])
            out |= 1u << n;
    }
    return out;
}

/* Nodes that could come in as a learner. */
static int dw_may_join(const struct dw_world *w, const struct dw_state *s, uint32_t n)
{
    const struct snic_ddp_view *v = dw_view(w, s);

    return dw_sum(w, s, n)->alive && dw_sum(w, s, n)->view == DN_NONE &&
           ((v->full | v->learners) >> n & 1) == 0 && s->h.used[DW_RESTARTS] == 0;
}

uint32_t dw_override_set(const struct dw_world *w, const struct dw_state *s)
{
    const struct snic_ddp_view *v = dw_view(w, s);
    uint32_t n, set = 0;

    if (s->h.overrides >= w->o.overrides || s->h.used[DW_RESTARTS] != 0)
        return 0;
    for (n = 0; n < w->o.node.nodes; n++) {
        if ((v->full >> n & 1) == 0 && s->h.kept[n][0] != DW_LOST)
            set |= 1u << n;
        else if ((v->full >> n & 1) != 0 && dw_sum(w, s, n)->alive)
            return 0;
    }
    return set;
}

/* ---- What may happen ---- */

struct dw_list {
    uint64_t *at;
    uint32_t count;
};

static void dw_may(struct dw_list *l, uint64_t action)
{
    if (l->count == MC_ACTIONS_MAX)
        abort();
    l->at[l->count++] = action;
}

static void dw_may_message(const struct dw_world *w, const struct dw_state *s, struct dw_list *l,
                           int faults)
{
    uint32_t i;

    for (i = 0; i < s->h.messages; i++) {
        uint32_t m = s->msg[i], n = dn_message(w->space, m)->dst;

        if ((i > 0 && s->msg[i - 1] == m) || dw_fits(w, s, m) != 1)
            continue;
        dw_may(l, DW_ACTION(DW_NODE, n, DN_EVENT(DN_MESSAGE, m)));
        if (faults && s->h.used[DW_DOUBLES] < w->o.doubles &&
            (w->o.double_type == 0 || w->o.double_type == dn_message(w->space, m)->type))
            dw_may(l, DW_ACTION(DW_DOUBLE, n, DN_EVENT(DN_MESSAGE, m)));
        if (faults && s->h.used[DW_LOSSES] < w->o.losses)
            dw_may(l, DW_ACTION(DW_LOSE, n, DN_EVENT(DN_MESSAGE, m)));
    }
}

static void dw_may_log(const struct dw_world *w, const struct dw_state *s, struct dw_list *l)
{
    uint32_t n, i;

    for (n = 0; n < w->o.node.nodes; n++) {
        for (i = 0; i < dw_sum(w, s, n)->pending; i++)
            dw_may(l, DW_ACTION(DW_NODE, n, DN_EVENT(DN_APPENDED, i)));
        for (i = 0; i < dw_sum(w, s, n)->flushes; i++)
            dw_may(l, DW_ACTION(DW_NODE, n, DN_EVENT(DN_FLUSHED, i)));
    }
}

/* A write of each durability that one may name. A scope's number is its node's: n * 2 + 1 or + 2.
 */
static void dw_may_put(const struct dw_world *w, const struct dw_state *s, uint32_t n,
                       uint32_t kind, uint32_t key, struct dw_list *l)
{
    uint32_t mix = w->o.mix != 0 ? w->o.mix : 1u << SNIC_DDP_DURABILITY_DEFAULT, d, scope;
    uint32_t arg = key | (s->h.count + 1u) << 4;

    for (d = SNIC_DDP_DURABILITY_DEFAULT; d <= SNIC_DDP_DURABILITY_SCOPE; d++) {
        int scoped = d == SNIC_DDP_DURABILITY_SCOPE ||
                     (d == SNIC_DDP_DURABILITY_DEFAULT && w->o.node.model == SNIC_DDP_SCOPE);

        if ((mix >> d & 1) == 0)
            continue;
        if (!scoped)
            dw_may(l, DW_ACTION(DW_NODE, n, DN_EVENT(kind, arg | d << 20)));
        for (scope = 0; scoped && scope < w->o.scopes; scope++)
            if ((s->h.requested >> (n * 2 + scope) & 1) == 0)
                dw_may(l, DW_ACTION(DW_NODE, n,
                                    DN_EVENT(kind, arg | (n * 2 + scope + 1) << 12 | d << 20)));
    }
}

static void dw_may_write(const struct dw_world *w, const struct dw_state *s, uint32_t n,
                         struct dw_list *l)
{
    static const uint8_t kinds[3] = {DN_WRITE, DN_DELETE, DN_CAS};
    const uint32_t max[3] = {w->o.writes, w->o.deletes, w->o.swaps};
    uint32_t kind, key, scope;

    if (!dw_sum(w, s, n)->reads)
        return;
    for (kind = 0; kind < 3; kind++) {
        if (s->h.used[DW_PLAIN + kind] >= max[kind])
            continue;
        for (key = 0; key < w->o.node.keys; key++) {
            if (kind == 2 && dw_sum(w, s, n)->key[key].rd != 0)
                continue;
            dw_may_put(w, s, n, kinds[kind], key, l);
        }
    }
    for (scope = 0; scope < w->o.scopes; scope++) {
        uint32_t i, any = 0;

        for (i = 0; i < s->h.count; i++)
            any |= s->h.scope[i] == n * 2 + scope + 1;
        if (any && (s->h.requested >> (n * 2 + scope) & 1) == 0)
            dw_may(l, DW_ACTION(DW_NODE, n, DN_EVENT(DN_SYNC, n * 2 + scope + 1)));
    }
}

/* Reads that wait: of the others R1 and D speak. */
static void dw_may_read(const struct dw_world *w, const struct dw_state *s, uint32_t n,
                        struct dw_list *l)
{
    const struct dn_sum *d = dw_sum(w, s, n);
    uint32_t mix = w->o.read_mix != 0 ? w->o.read_mix : 1u << SNIC_DDP_DURABILITY_DEFAULT;
    uint32_t key, dur;

    for (key = 0; key < w->o.node.keys && d->reads && s->h.reads < w->o.reads; key++)
        for (dur = SNIC_DDP_DURABILITY_DEFAULT; dur <= SNIC_DDP_DURABILITY_ALL; dur++)
            if ((mix >> dur & 1) != 0 &&
                (d->key[key].rd != 0 || (dw_reads_all(w, dur) && d->key[key].gd < d->key[key].vts)))
                dw_may(l,
                       DW_ACTION(DW_NODE, n,
                                 DN_EVENT(DN_READ, key | (uint32_t)s->h.reads << 4 | dur << 20)));
}

static void dw_may_install(const struct dw_world *w, const struct dw_state *s, struct dw_list *l)
{
    const struct snic_ddp_view *v = dw_view(w, s);
    uint32_t n;

    for (n = 0; n < w->o.node.nodes; n++) {
        const struct dn_sum *d = dw_sum(w, s, n);

        if (d->alive && d->epoch < v->epoch && v->incarnation[n] == d->incarnation &&
            (((v->full | v->learners) >> n & 1) != 0 || d->view != DN_NONE))
            dw_may(l, DW_ACTION(DW_NODE, n, DN_EVENT(DN_INSTALL, s->h.view)));
    }
}

/* What the environment owes: to leave the dead out, to let in those that wait. */
static void dw_may_decide(const struct dw_world *w, const struct dw_state *s, struct dw_list *l)
{
    const struct snic_ddp_view *v = dw_view(w, s);
    uint32_t out = dw_out(w, s), n;

    if (s->h.used[DW_RESTARTS] != 0)
        return;
    if (out != 0) {
        if ((v->full & ~out) != 0)
            dw_may(l, DW_ACTION(DW_DECIDE_OUT, 0, out));
        return;
    }
    for (n = 0; n < w->o.node.nodes; n++) {
        if (dw_may_join(w, s, n))
            dw_may(l, DW_ACTION(DW_DECIDE_IN, n, 0));
        if ((v->learners >> n & 1) != 0 && (s->h.caught >> n & 1) != 0 && dw_sum(w, s, n)->alive)
            dw_may(l, DW_ACTION(DW_DECIDE_FULL, n, 0));
    }
}

static void dw_may_fault(const struct dw_world *w, const struct dw_state *s, struct dw_list *l)
{
    uint32_t n, alive = 0, spare = 0, kept;

    for (n = 0; n < w->o.node.nodes; n++)
        spare |= s->h.overrides < w->o.overrides && s->h.used[DW_RESTARTS] == 0 &&
                 !dw_full(w, s, n) && s->h.kept[n][0] != DW_LOST;
    for (n = 0; n < w->o.node.nodes; n++)
        alive += dw_sum(w, s, n)->alive && dw_full(w, s, n) && (s->h.begun >> n & 1) == 0;
    for (n = 0; n < w->o.node.nodes; n++) {
        const struct dn_sum *d = dw_sum(w, s, n);
        int last = dw_full(w, s, n) && (s->h.begun >> n & 1) == 0 && alive <= 1;

        if (d->alive && (!last || spare) && s->h.used[DW_CRASHES] < w->o.crashes)
            for (kept = 0; kept <= d->pending; kept++)
                dw_may(l, DW_ACTION(DW_NODE, n, DN_EVENT(DN_CRASH, kept)));
        if (d->lease && !last && s->h.used[DW_EVICTIONS] < w->o.evictions)
            dw_may(l, DW_ACTION(DW_NODE, n, DN_EVENT(DN_LEASE_END, 0)));
        if (!d->alive && s->h.used[DW_REJOINS] < w->o.rejoins && s->h.used[DW_RESTARTS] == 0 &&
            ((dw_view(w, s)->full | dw_view(w, s)->learners) >> n & 1) == 0)
            for (kept = alive == 0; kept <= (w->o.keeps != 0); kept++)
                dw_may(l, DW_ACTION(DW_NODE, n, DN_EVENT(DN_REBOOT, kept)));
    }
    for (n = 0; n < w->o.node.nodes; n++) {
        const struct dn_sum *d = dw_sum(w, s, n);

        if (w->o.keeps != 0 && d->alive && d->role == SNIC_DDP_FENCED && d->view != DN_NONE &&
            s->h.used[DW_REJOINS] < w->o.rejoins && s->h.used[DW_RESTARTS] == 0 &&
            ((dw_view(w, s)->full | dw_view(w, s)->learners) >> n & 1) == 0)
            dw_may(l, DW_ACTION(DW_NODE, n, DN_EVENT(DN_RETURN, 0)));
    }
    if (s->h.used[DW_RESTARTS] < w->o.restarts)
        dw_may(l, DW_ACTION(DW_CRASH_ALL, 0, 0));
    if (dw_override_set(w, s) != 0)
        dw_may(l, DW_ACTION(DW_OVERRIDE, 0, 0));
}

static void dw_may_fire(const struct dw_world *w, const struct dw_state *s, struct dw_list *l,
                        int all)
{
    uint32_t n, i;

    for (n = 0; n < w->o.node.nodes; n++)
        for (i = 0; i < dw_sum(w, s, n)->timers; i++) {
            int lock = dn_timer(w->space, s->h.node[n], i).kind == SNIC_DDP_TIMER_LOCK;

            if (all || (lock ? s->h.locks < w->o.locks : s->h.used[DW_RESENDS] < w->o.resends))
                dw_may(l, DW_ACTION(DW_NODE, n, DN_EVENT(DN_FIRE, i)));
        }
}

uint32_t dw_actions(void *ctx, const void *state, size_t len, uint64_t *out)
{
    struct dw_world *w = ctx;
    struct dw_list l = {out, 0};
    struct dw_state s;
    uint32_t n;

    dw_load(&s, state, len);
    if (s.h.bad != 0)
        return 0;
    dw_may_message(w, &s, &l, 1);
    dw_may_log(w, &s, &l);
    dw_may_install(w, &s, &l);
    dw_may_decide(w, &s, &l);
    for (n = 0; n < w->o.node.nodes; n++) {
        dw_may_write(w, &s, n, &l);
        dw_may_read(w, &s, n, &l);
    }
    dw_may_fault(w, &s, &l);
    dw_may_fire(w, &s, &l, 0);
    return l.count;
}

/* In a quiet time: what is under way first, then memberships, then timers in turn. */
int dw_calm(void *ctx, const void *state, size_t len, uint64_t *action)
{
    struct dw_world *w = ctx;
    uint64_t all[MC_ACTIONS_MAX];
    struct dw_list l = {all, 0};
    struct dw_state s;

    dw_load(&s, state, len);
    if (s.h.bad != 0)
        return 0;
    dw_may_message(w, &s, &l, 0);
    dw_may_log(w, &s, &l);
    dw_may_install(w, &s, &l);
    if (l.count == 0)
        dw_may_decide(w, &s, &l);
    if (l.count == 0 && dw_override_set(w, &s) != 0)
        dw_may(&l, DW_ACTION(DW_OVERRIDE, 0, 0));
    if (l.count > 0) {
        *action = l.at[0];
        return 1;
    }
    dw_may_fire(w, &s, &l, 1);
    if (l.count == 0)
        return 0;
    *action = l.at[s.h.turn % l.count];
    return 1;
}
