/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* What must be true of every state, and of one after a quiet time. */
#include "ddpnic_world_priv.h"

static const char *const xw_bads[] = {
    NULL,
    "R2: a new timestamp is not above all that was answered or read",
    "R3: two writes have one timestamp",
    "an event failed that the model takes for possible",
    "an answer to no request",
    "an answer with a result that cannot be",
    "the model has no room for so many messages",
    "an answer names another timestamp than the write has",
    NULL,
};

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

const char *xw_check(void *ctx, const void *state, size_t len)
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

const char *xw_settled(void *ctx, const void *state, size_t len)
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
        s.h.requested != s.h.synced)
        return "1: a scope was never answered";
    return NULL;
}
