/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* What must be true of every state, and of one after a quiet time. */
#include "ddp_world_priv.h"

static const char *const dw_bads[] = {
    NULL,
    "R2: a new timestamp is not above all that was answered or read",
    "R3: two writes have one timestamp",
    "an event failed that the model takes for possible",
    "an answer to no request",
    "an answer with a result that cannot be",
    "the model has no room for so many messages",
    "an answer names another timestamp than the write has",
    "E: a message of another epoch or incarnation was taken",
    "R1: a stale answer",
    "M2: a log lacks what was answered while its node was FULL",
};

static int dw_is_write(const struct dw_state *s, uint32_t key, uint64_t ts)
{
    uint32_t i;

    for (i = 0; i < s->h.count; i++)
        if (s->h.ts[i] == ts && s->h.key[i] == key)
            return 1;
    return ts == 0;
}

static int dw_value_fits(const struct dw_state *s, uint32_t key, uint64_t ts, uint64_t value)
{
    uint32_t i;

    for (i = 0; i < s->h.count; i++)
        if (s->h.ts[i] == ts && s->h.key[i] == key && ts != 0)
            return value == (s->h.kind[i] == DN_DELETE ? 0 : i + 1u);
    return 1; /* a purged tombstone's, or of another check */
}

int dw_holds(const struct dw_state *s, uint32_t key, uint64_t has, uint64_t ts)
{
    uint32_t i;

    for (i = 0; i < s->h.count && has == 0; i++)
        if (s->h.ts[i] >= ts && s->h.key[i] == key && s->h.kind[i] == DN_DELETE)
            return 1;
    return has >= ts;
}

static int dw_equal(const struct dw_state *s, uint32_t key, uint64_t a, uint64_t b)
{
    return dw_holds(s, key, a, b) && dw_holds(s, key, b, a);
}

/* One node and key on its own. */
static const char *dw_check_own(const struct dw_world *w, const struct dw_state *s, uint32_t n,
                                uint32_t k)
{
    const struct dn_sum *d = dw_sum(w, s, n);
    const struct dn_key *a = &d->key[k];
    uint64_t done = dw_done(s, k);

    if (!dw_is_write(s, k, a->vts) || !dw_is_write(s, k, a->log) || !dw_is_write(s, k, a->gv) ||
        !dw_is_write(s, k, a->gd))
        return "types: a timestamp that no write has";
    if (!dw_value_fits(s, k, a->vts, d->alive ? a->value : 0) && d->alive)
        return "R4: another value than the timestamp's write has, in memory";
    if (!dw_value_fits(s, k, a->log, a->log_value))
        return "R4: another value than the timestamp's write has, in the log";
    if (d->role != SNIC_DDP_FENCED && !dw_holds(s, k, a->log, a->dts))
        return "L: called durable what the log does not have";
    if (d->role == SNIC_DDP_FULL && a->log > a->vts)
        return "A2: a FULL node's log has what the node does not hold";
    if (d->reads && a->rd == 0 &&
        (!dw_holds(s, k, a->vts, done) || !dw_holds(s, k, a->vts, s->h.seen[k])))
        return "R1: a stale read";
    return NULL;
}

/* What holds of every pair of members. */
static const char *dw_check_pair(const struct dw_world *w, const struct dw_state *s, uint32_t n,
                                 uint32_t m, uint32_t k)
{
    const struct dn_sum *a = dw_sum(w, s, n), *b = dw_sum(w, s, m);
    int tracked = w->o.node.model <= SNIC_DDP_RENF || dw_mixed(w);

    if (!a->reads)
        return NULL;
    if (b->reads && a->key[k].rd == 0 && b->key[k].rd == 0 &&
        !dw_equal(s, k, a->key[k].vts, b->key[k].vts))
        return "2a: two unlocked nodes differ";
    if (b->reads && !dw_holds(s, k, b->key[k].vts, a->key[k].gv))
        return "2c': gV is above what a member holds";
    if (dw_full(w, s, m) && tracked && !dw_holds(s, k, b->key[k].log, a->key[k].gd))
        return "3b': gD is above what a member's log has";
    return NULL;
}

/* Was the answer to this write that it is durable at all? */
static int dw_durable(const struct dw_world *w, const struct dw_state *s, uint32_t i)
{
    if (s->h.dur[i] == SNIC_DDP_DURABILITY_DEFAULT)
        return w->o.node.model <= SNIC_DDP_STRICT;
    return s->h.dur[i] == SNIC_DDP_DURABILITY_ALL;
}

/* D, each write and read by what it named. */
static const char *dw_check_log_mixed(const struct dw_world *w, const struct dw_state *s,
                                      uint32_t n, uint32_t k)
{
    uint64_t log = dw_sum(w, s, n)->key[k].log;
    uint32_t i;

    if (!dw_holds(s, k, log, s->h.all[k]))
        return "D: what a durable read returned is not in a member's log";
    for (i = 0; i < s->h.count; i++) {
        int synced = s->h.scope[i] != 0 && (s->h.synced >> (s->h.scope[i] - 1) & 1) != 0;

        if (s->h.key[i] != k || s->h.fate[i] != DW_ANSWERED || dw_holds(s, k, log, s->h.ts[i]))
            continue;
        if (dw_durable(w, s, i))
            return "D: an answered durable write is not in a member's log";
        if (synced)
            return "D: a write of a persisted scope is not in a member's log";
        if (s->h.dur[i] == SNIC_DDP_DURABILITY_HERE && s->h.owner[i] == n &&
            s->h.used[DW_REJOINS] == 0)
            return "D: an answered write is not in the log of the node that took it";
    }
    return NULL;
}

/* D: of what was promised, in one member's log. */
static const char *dw_check_log(const struct dw_world *w, const struct dw_state *s, uint32_t n,
                                uint32_t k)
{
    uint64_t log = dw_sum(w, s, n)->key[k].log;
    uint32_t model = w->o.node.model, i;

    if (dw_mixed(w))
        return dw_check_log_mixed(w, s, n, k);
    if ((model == SNIC_DDP_SYNCH || model == SNIC_DDP_STRICT) &&
        !dw_holds(s, k, log, dw_done(s, k)))
        return "D: an answered write is not in a member's log";
    if ((model == SNIC_DDP_SYNCH || model == SNIC_DDP_RENF) && !dw_holds(s, k, log, s->h.seen[k]))
        return "D: what was read is not in a member's log";
    for (i = 0; i < s->h.count && model == SNIC_DDP_SCOPE; i++)
        if (s->h.scope[i] != 0 && (s->h.synced >> (s->h.scope[i] - 1) & 1) != 0 &&
            s->h.key[i] == k && s->h.fate[i] == DW_ANSWERED && !dw_holds(s, k, log, s->h.ts[i]))
            return "D: a write of a persisted scope is not in a member's log";
    return NULL;
}

/* What a swap compared with; nothing is the newest deletion before it, whose tombstone is gone. */
static uint64_t dw_swap_base(const struct dw_state *s, uint32_t i)
{
    uint64_t base = s->h.base[i];
    uint32_t k;

    if (base != 0)
        return base;
    for (k = 0; k < s->h.count; k++)
        if (s->h.kind[k] == DN_DELETE && s->h.key[k] == s->h.key[i] && s->h.ts[k] < s->h.ts[i])
            base = snic_max_u64(base, s->h.ts[k]);
    return base;
}

static const char *dw_check_swaps(const struct dw_world *w, const struct dw_state *s)
{
    uint32_t i, k, model = w->o.node.model;
    uint64_t base;
    /* What beat a swap may be lost in a restart, though it was read; the swap may be in a log. */
    int back = s->h.overrides != 0 ||
               (s->h.used[DW_RESTARTS] != 0 &&
                (dw_mixed(w) || (model != SNIC_DDP_SYNCH && model != SNIC_DDP_RENF)));

    for (i = 0; i < s->h.count; i++) {
        if (s->h.kind[i] != DN_CAS)
            continue;
        if (!back && s->h.fate[i] == DW_REFUSED && (s->h.read >> i & 1) != 0)
            return "C: a refused swap was read";
        if (s->h.fate[i] != DW_ANSWERED)
            continue;
        base = dw_swap_base(s, i);
        for (k = 0; k < s->h.count; k++)
            if (k != i && s->h.key[k] == s->h.key[i] && s->h.ts[k] > base &&
                s->h.ts[k] < s->h.ts[i] &&
                (s->h.fate[k] == DW_ANSWERED || (s->h.read >> k & 1) != 0))
                return "C: a write came between a swap and its base";
    }
    return NULL;
}

const char *dw_check(void *ctx, const void *state, size_t len)
{
    struct dw_world *w = ctx;
    struct dw_state s;
    const char *why = NULL;
    uint32_t n, m, k;

    dw_load(&s, state, len);
    if (s.h.bad == DW_B_TEXT)
        return dn_step(w->space, s.h.node[s.h.turn], s.h.view)->bad;
    if (s.h.bad != 0)
        return dw_bads[s.h.bad];
    for (n = 0; n < w->o.node.nodes && why == NULL; n++) {
        why = dw_sum(w, &s, n)->bad;
        for (k = 0; k < w->o.node.keys && why == NULL; k++) {
            why = dw_check_own(w, &s, n, k);
            for (m = 0; m < w->o.node.nodes && why == NULL; m++)
                if (m != n)
                    why = dw_check_pair(w, &s, n, m, k);
            if (why == NULL && dw_full(w, &s, n))
                why = dw_check_log(w, &s, n, k);
        }
    }
    return why != NULL ? why : dw_check_swaps(w, &s);
}

static int dw_installed(const struct dw_world *w, const struct dw_state *s)
{
    const struct snic_ddp_view *v = dw_view(w, s);
    uint32_t n;

    for (n = 0; n < w->o.node.nodes; n++)
        if (((v->full | v->learners) >> n & 1) != 0 && dw_sum(w, s, n)->alive &&
            dw_sum(w, s, n)->epoch < v->epoch)
            return 0;
    return 1;
}

const char *dw_settled(void *ctx, const void *state, size_t len)
{
    struct dw_world *w = ctx;
    struct dw_state s;
    const struct dn_sum *first = NULL;
    uint32_t n, k;

    dw_load(&s, state, len);
    if (!dw_installed(w, &s))
        return "1: a membership was not installed";
    for (n = 0; n < s.h.count; n++)
        if (s.h.fate[n] == DW_OPEN)
            return "1: a write was never answered";
    for (n = 0; n < w->o.node.nodes; n++) {
        const struct dn_sum *d = dw_sum(w, &s, n);

        if (!dw_full(w, &s, n) || !d->alive)
            continue;
        if (!d->reads && (s.h.begun >> n & 1) == 0)
            return "1: a member does not serve";
        if (d->busy && w->o.scopes == 0) /* a scope may stay open */
            return "1: something waits for ever";
        first = first == NULL ? d : first;
        for (k = 0; k < w->o.node.keys; k++) {
            if (d->key[k].rd != 0)
                return "1: a key is locked for ever";
            if (!dw_equal(&s, k, d->key[k].vts, first->key[k].vts) ||
                !dw_equal(&s, k, d->key[k].gv, first->key[k].gv))
                return "2a: nodes differ after a quiet time";
            /* In mixes a node that missed VAL does not ask for it before a read needs it. */
            if (!dw_mixed(w) && !dw_equal(&s, k, d->key[k].gd, first->key[k].gd))
                return "3a': gD differs after a quiet time";
            if (!dw_holds(&s, k, d->key[k].log, d->key[k].vts))
                return "D: a log lacks the newest after a quiet time";
        }
    }
    if (w->o.scopes != 0 && w->o.crashes + w->o.evictions + w->o.restarts == 0 &&
        s.h.requested != s.h.synced)
        return "1: a scope was never answered";
    return NULL;
}
