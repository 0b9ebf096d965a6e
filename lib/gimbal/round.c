/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * Deficit round robin in O(1) per I/O, whatever the number of tenants and however many rounds an
 * I/O needs.
 *
 * The active list is a calendar: a list for each of the next rounds, in the order in which the
 * tenants would be visited. Every visit adds the quantum, and a tenant whose next I/O costs more
 * than its deficit is not visited in rounds in which it could only collect: it is put as many
 * rounds ahead as the I/O needs, and the deficit is credited with all of them at once. Rounds in
 * which no tenant could send are skipped by a bitmap.
 *
 * I1  A listed tenant is in the list of a round in [round, round + ROUNDS - 1]; bit r of occupied
 *     is set if the list of round r is not empty, bit w of words if occupied[w] is not 0.
 * I2  t->round is the round up to which the deficit is credited: that of the last visit or of
 *     joining.
 * I3  Lists are of tenants by index; a tenant is on one list at most (`where` is its kind).
 */
#include "gimbal/gimbal_priv.h"

#define SNIC_GIMBAL__MASK (SNIC_GIMBAL__ROUNDS - 1)
SNIC_STATIC_ASSERT(SNIC_GIMBAL__WORDS <= 64, "a word has a bit for each word");

void gimbal_list_append(struct snic_gimbal *g, struct gimbal_list *l, struct gimbal_tenant *t)
{
    uint32_t i = gimbal_index(g, t);
    t->next = SNIC_GIMBAL__NIL;
    t->prev = l->last;
    if (l->last == SNIC_GIMBAL__NIL)
        l->first = i;
    else
        g->tenants[l->last].next = i;
    l->last = i;
}

void gimbal_list_remove(struct snic_gimbal *g, struct gimbal_list *l, struct gimbal_tenant *t)
{
    if (t->prev == SNIC_GIMBAL__NIL)
        l->first = t->next;
    else
        g->tenants[t->prev].next = t->next;
    if (t->next == SNIC_GIMBAL__NIL)
        l->last = t->prev;
    else
        g->tenants[t->next].prev = t->prev;
}

void gimbal_round_init(struct snic_gimbal *g)
{
    for (uint32_t r = 0; r < SNIC_GIMBAL__ROUNDS; r++) {
        g->rounds[r].first = SNIC_GIMBAL__NIL;
        g->rounds[r].last = SNIC_GIMBAL__NIL;
    }
}

/* At the end of the round that is so many ahead, 1 or more. */
static void round_place(struct snic_gimbal *g, struct gimbal_tenant *t, uint32_t ahead)
{
    if (ahead > SNIC_GIMBAL__MASK)
        ahead = SNIC_GIMBAL__MASK; /* visited, then sent on */
    uint32_t r = (g->round + ahead) & SNIC_GIMBAL__MASK;
    gimbal_list_append(g, &g->rounds[r], t);
    g->occupied[r / 64] |= (uint64_t)1 << (r % 64);
    g->words |= (uint64_t)1 << (r / 64);
    t->due = g->round + ahead;
    t->where = GIMBAL_LISTED;
}

static void round_take(struct snic_gimbal *g, struct gimbal_tenant *t)
{
    uint32_t r = t->due & SNIC_GIMBAL__MASK;
    gimbal_list_remove(g, &g->rounds[r], t);
    if (g->rounds[r].first != SNIC_GIMBAL__NIL)
        return;
    g->occupied[r / 64] &= ~((uint64_t)1 << (r % 64));
    if (g->occupied[r / 64] == 0)
        g->words &= ~((uint64_t)1 << (r / 64));
}

/* The tenant's next I/O costs more than its deficit: come back when it does not. */
void gimbal_round_wait(struct snic_gimbal *g, struct gimbal_tenant *t, uint32_t cost)
{
    uint32_t lacks = cost - (uint32_t)t->deficit;
    round_place(g, t, lacks <= t->quantum ? 1 : (lacks - 1) / t->quantum + 1);
}

/*
 * To the end of the active list, if it has I/Os: new, or with a slot again. The paper sets the
 * deficit of a deferred tenant to zero; here what was left of its quantum was frozen. A slot that
 * fills in the middle of a visit would cost the rest of it, and that is more for a tenant of few
 * slots than for one of many.
 */
void gimbal_round_join(struct snic_gimbal *g, struct gimbal_tenant *t)
{
    t->round = g->round;
    t->where = GIMBAL_IDLE;
    if (t->ready == 0) {
        t->deficit = 0;
        return;
    }
    uint32_t cost = gimbal_weighted(g, gimbal_tenant_head(t));
    if (cost <= t->deficit)
        round_place(g, t, 1);
    else
        gimbal_round_wait(g, t, cost);
}

/* All that the rounds until now brought. */
static void round_credit(const struct snic_gimbal *g, struct gimbal_tenant *t)
{
    t->deficit += (uint64_t)(g->round - t->round) * t->quantum; /* I2 */
    t->round = g->round;
}

/* A listed tenant's next I/O is another one, that may cost less: it may be due earlier. */
void gimbal_round_replace(struct snic_gimbal *g, struct gimbal_tenant *t)
{
    uint32_t cost = gimbal_weighted(g, gimbal_tenant_head(t));
    round_take(g, t);
    round_credit(g, t);
    if (cost <= t->deficit)
        round_place(g, t, 1);
    else
        gimbal_round_wait(g, t, cost);
}

/* Off the calendar: the tenant is gone. */
void gimbal_round_leave(struct snic_gimbal *g, struct gimbal_tenant *t)
{
    round_take(g, t);
    t->where = GIMBAL_IDLE;
}

/* The first occupied round from @r on, cyclically; there is one. */
static uint32_t round_find(const struct snic_gimbal *g, uint32_t r)
{
    uint32_t w = r / 64;
    uint64_t bits = g->occupied[w] >> (r % 64);
    if (bits != 0)
        return r + (uint32_t)__builtin_ctzll(bits);
    uint64_t later = w == 63 ? 0 : g->words & (UINT64_MAX << (w + 1));
    w = (uint32_t)__builtin_ctzll(later != 0 ? later : g->words);
    return w * 64 + (uint32_t)__builtin_ctzll(g->occupied[w]);
}

/* The next tenant to visit, credited with all rounds passed; NULL: none. */
struct gimbal_tenant *gimbal_round_next(struct snic_gimbal *g)
{
    uint32_t r = g->round & SNIC_GIMBAL__MASK;
    if (g->rounds[r].first == SNIC_GIMBAL__NIL) {
        if (g->words == 0)
            return NULL;
        g->round += (round_find(g, r) - r) & SNIC_GIMBAL__MASK;
        r = g->round & SNIC_GIMBAL__MASK;
    }
    struct gimbal_tenant *t = &g->tenants[g->rounds[r].first];
    round_take(g, t);
    round_credit(g, t);
    t->where = GIMBAL_CURRENT;
    return t;
}

int gimbal_round_check(const struct snic_gimbal *g)
{
    uint32_t listed = 0;
    for (uint32_t r = 0; r < SNIC_GIMBAL__ROUNDS; r++) {
        uint32_t before = SNIC_GIMBAL__NIL;
        uint32_t i = g->rounds[r].first;
        if ((g->occupied[r / 64] >> (r % 64) & 1) != (i != SNIC_GIMBAL__NIL))
            return SNIC_ECORRUPT; /* I1 */
        for (; i != SNIC_GIMBAL__NIL; i = g->tenants[i].next) {
            const struct gimbal_tenant *t = &g->tenants[i];
            if (i >= g->o.tenants_max || t->where != GIMBAL_LISTED || t->prev != before ||
                (t->due & SNIC_GIMBAL__MASK) != r || t->due - g->round > SNIC_GIMBAL__MASK ||
                ++listed > g->o.tenants_max)
                return SNIC_ECORRUPT; /* I1, I3 */
            before = i;
        }
        if (g->rounds[r].last != before)
            return SNIC_ECORRUPT;
    }
    for (uint32_t w = 0; w < SNIC_GIMBAL__WORDS; w++) {
        if ((g->words >> w & 1) != (g->occupied[w] != 0))
            return SNIC_ECORRUPT; /* I1 */
    }
    for (uint32_t i = 0; i < g->o.tenants_max; i++)
        listed -= g->tenants[i].where == GIMBAL_LISTED;
    return listed == 0 ? 0 : SNIC_ECORRUPT;
}
