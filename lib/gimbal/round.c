/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * Deficit round robin in O(1) per I/O, whatever the number of tenants and however many rounds an
 * I/O needs.
 *
 * Flows take turns, a tenant's reads and its writes: they split the tenant's quantum while both
 * take part. The active list is a calendar: a list for each of the next rounds, in the order in
 * which the flows would be visited. Every visit adds the quantum, and a flow whose next I/O costs
 * more than its deficit is not visited in rounds in which it could only collect: it is put as many
 * rounds ahead as the I/O needs, and the deficit is credited with all of them at once. Rounds in
 * which no flow could send are skipped by a bitmap.
 *
 * I1  A listed flow is in the list of a round in [round, round + ROUNDS - 1]; bit r of occupied
 *     is set if the list of round r is not empty, bit w of words if occupied[w] is not 0.
 * I2  f->round is the round up to which the deficit is credited: that of the last visit, of
 *     joining, or of the last change of its quantum. Debt is repaid first.
 * I3  Lists are of flows by number; a flow is on one list at most (`where` is its kind).
 * I4  A flow's quantum is its tenant's, or half of it while both of the tenant's flows are listed
 *     or current.
 */
#include "gimbal/gimbal_priv.h"

#define SNIC_GIMBAL__MASK (SNIC_GIMBAL__ROUNDS - 1)
SNIC_STATIC_ASSERT(SNIC_GIMBAL__WORDS <= 64, "a word has a bit for each word");

void gimbal_list_append(struct snic_gimbal *g, struct gimbal_list *l, struct gimbal_flow *f)
{
    uint32_t i = gimbal_flow_index(g, f);
    f->next = SNIC_GIMBAL__NIL;
    f->prev = l->last;
    if (l->last == SNIC_GIMBAL__NIL)
        l->first = i;
    else
        gimbal_flow_at(g, l->last)->next = i;
    l->last = i;
}

void gimbal_list_remove(struct snic_gimbal *g, struct gimbal_list *l, struct gimbal_flow *f)
{
    if (f->prev == SNIC_GIMBAL__NIL)
        l->first = f->next;
    else
        gimbal_flow_at(g, f->prev)->next = f->next;
    if (f->next == SNIC_GIMBAL__NIL)
        l->last = f->prev;
    else
        gimbal_flow_at(g, f->next)->prev = f->prev;
}

void gimbal_round_init(struct snic_gimbal *g)
{
    for (uint32_t r = 0; r < SNIC_GIMBAL__ROUNDS; r++) {
        g->rounds[r].first = SNIC_GIMBAL__NIL;
        g->rounds[r].last = SNIC_GIMBAL__NIL;
    }
}

/* At the end of the round that is so many ahead, 1 or more. */
static void round_place(struct snic_gimbal *g, struct gimbal_flow *f, uint64_t ahead)
{
    if (ahead > SNIC_GIMBAL__MASK)
        ahead = SNIC_GIMBAL__MASK; /* visited, then sent on */
    f->due = g->round + (uint32_t)ahead;
    uint32_t r = f->due & SNIC_GIMBAL__MASK;
    gimbal_list_append(g, &g->rounds[r], f);
    g->occupied[r / 64] |= (uint64_t)1 << (r % 64);
    g->words |= (uint64_t)1 << (r / 64);
    f->where = GIMBAL_LISTED;
}

static void round_take(struct snic_gimbal *g, struct gimbal_flow *f)
{
    uint32_t r = f->due & SNIC_GIMBAL__MASK;
    gimbal_list_remove(g, &g->rounds[r], f);
    if (g->rounds[r].first != SNIC_GIMBAL__NIL)
        return;
    g->occupied[r / 64] &= ~((uint64_t)1 << (r % 64));
    if (g->occupied[r / 64] == 0)
        g->words &= ~((uint64_t)1 << (r / 64));
}

static int round_in(const struct gimbal_flow *f)
{
    return f->where == GIMBAL_LISTED || f->where == GIMBAL_CURRENT;
}

/* All that the rounds until now brought: first it repays the debt. */
static void round_credit(const struct snic_gimbal *g, struct gimbal_flow *f)
{
    uint64_t brought = (uint64_t)(g->round - f->round) * f->quantum; /* I2 */
    uint32_t repaid = (uint32_t)snic_min_u64(brought, f->debt);
    f->debt -= repaid;
    f->deficit += brought - repaid;
    f->round = g->round;
}

/* A flow that takes no part in rounds repays its debt by what it leaves to others: its share of
 * all that was sent meanwhile. */
void gimbal_round_repay(struct snic_gimbal *g, struct gimbal_flow *f)
{
    if (round_in(f))
        return;
    uint64_t share = snic_min_u64(g->served - f->served, UINT32_MAX) * f->tenant->weight;
    f->debt -= (uint32_t)snic_min_u64(share, f->debt);
    f->served = g->served;
}

/* The flow gets so much per round from the next one on. One that is due in this or the next round
 * keeps its place: it would never be visited if its sibling moved it time and again. */
static void round_quantum(struct snic_gimbal *g, struct gimbal_flow *f, uint32_t quantum)
{
    if (f->quantum == quantum)
        return;
    if (round_in(f))
        round_credit(g, f);
    f->quantum = quantum;
    if (f->where == GIMBAL_LISTED && f->due - g->round > 1 && f->ready != 0)
        gimbal_round_replace(g, f);
}

/* I4 for both flows of a tenant. */
static void round_split(struct snic_gimbal *g, struct gimbal_tenant *t)
{
    uint32_t shared = round_in(&t->flow[0]) && round_in(&t->flow[1]);
    round_quantum(g, &t->flow[0], t->quantum >> shared);
    round_quantum(g, &t->flow[1], t->quantum >> shared);
}

/* To the round in which the flow can send its next I/O, which costs so much; to the next at least.
 */
void gimbal_round_wait(struct snic_gimbal *g, struct gimbal_flow *f, uint32_t cost)
{
    uint64_t need = (uint64_t)cost + f->debt;
    uint64_t lacks = need > f->deficit ? need - f->deficit : 0;
    if (lacks <= f->quantum)
        round_place(g, f, 1);
    else if (lacks <= UINT32_MAX)
        round_place(g, f, ((uint32_t)lacks - 1) / f->quantum + 1);
    else
        round_place(g, f, SNIC_GIMBAL__MASK);
}

/* To the end of the round of @other, which is listed: after it. */
void gimbal_round_behind(struct snic_gimbal *g, struct gimbal_flow *f,
                         const struct gimbal_flow *other)
{
    f->deficit = 0;
    round_place(g, f, snic_max_u64(other->due - g->round, 1));
}

/*
 * To the end of the active list, if it has I/Os: new, or with a slot again. The paper sets the
 * deficit of a deferred tenant to zero; here what was left of its quantum was frozen. A slot that
 * fills in the middle of a visit would cost the rest of it, and that is more for a tenant of few
 * slots than for one of many.
 */
void gimbal_round_join(struct snic_gimbal *g, struct gimbal_flow *f)
{
    gimbal_round_repay(g, f);
    f->round = g->round;
    f->where = GIMBAL_IDLE;
    if (f->ready == 0) {
        f->deficit = 0;
        return;
    }
    f->where = GIMBAL_CURRENT; /* for I4 */
    round_split(g, f->tenant);
    gimbal_round_wait(g, f, gimbal_weighted(g, gimbal_flow_head(f)));
}

/* A listed flow's next I/O is another one, that may cost less: it may be due earlier. */
void gimbal_round_replace(struct snic_gimbal *g, struct gimbal_flow *f)
{
    round_take(g, f);
    round_credit(g, f);
    gimbal_round_wait(g, f, gimbal_weighted(g, gimbal_flow_head(f)));
}

/* The current flow takes no part in rounds any more, but is @p where. */
void gimbal_round_quit(struct snic_gimbal *g, struct gimbal_flow *f, enum gimbal_where where)
{
    f->where = (uint8_t)where;
    f->served = g->served;
    round_split(g, f->tenant);
}

/* Off the calendar: the tenant is gone. */
void gimbal_round_leave(struct snic_gimbal *g, struct gimbal_flow *f)
{
    round_take(g, f);
    f->where = GIMBAL_IDLE;
}

/* The tenant's quantum. */
void gimbal_round_weight(struct snic_gimbal *g, struct gimbal_tenant *t, uint32_t quantum)
{
    t->quantum = quantum;
    round_split(g, t);
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

/* The next flow to visit, credited with all rounds passed; NULL: none. */
struct gimbal_flow *gimbal_round_next(struct snic_gimbal *g)
{
    uint32_t r = g->round & SNIC_GIMBAL__MASK;
    if (g->rounds[r].first == SNIC_GIMBAL__NIL) {
        if (g->words == 0)
            return NULL;
        g->round += (round_find(g, r) - r) & SNIC_GIMBAL__MASK;
        r = g->round & SNIC_GIMBAL__MASK;
    }
    struct gimbal_flow *f = gimbal_flow_at(g, g->rounds[r].first);
    round_take(g, f);
    round_credit(g, f);
    f->where = GIMBAL_CURRENT;
    return f;
}

int gimbal_round_check(const struct snic_gimbal *g)
{
    uint32_t listed = 0;
    for (uint32_t r = 0; r < SNIC_GIMBAL__ROUNDS; r++) {
        uint32_t before = SNIC_GIMBAL__NIL;
        uint32_t i = g->rounds[r].first;
        if ((g->occupied[r / 64] >> (r % 64) & 1) != (i != SNIC_GIMBAL__NIL))
            return SNIC_ECORRUPT; /* I1 */
        for (; i != SNIC_GIMBAL__NIL; i = gimbal_flow_at(g, i)->next) {
            const struct gimbal_flow *f = gimbal_flow_at(g, i);
            if (i >= 2 * g->objects || f->where != GIMBAL_LISTED || f->prev != before ||
                (f->due & SNIC_GIMBAL__MASK) != r || f->due - g->round > SNIC_GIMBAL__MASK ||
                ++listed > 2 * g->objects)
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
    for (uint32_t i = 0; i < 2 * g->objects; i++) {
        const struct gimbal_flow *f = gimbal_flow_at(g, i);
        listed -= f->where == GIMBAL_LISTED;
        if (f->tenant == NULL || (f->tenant->flags & GIMBAL_ADDED) == 0)
            continue;
        uint32_t shared = round_in(f) && round_in(gimbal_flow_sibling(f));
        if (f->quantum != f->tenant->quantum >> shared)
            return SNIC_ECORRUPT; /* I4 */
    }
    return listed == 0 ? 0 : SNIC_ECORRUPT;
}
