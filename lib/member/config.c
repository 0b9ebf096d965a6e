/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * The configuration as a part of the view: an operator's request, what it makes of the next view,
 * and the vote that a vacant node gets. Safe whatever is proposed here, since each register has the
 * one configuration of the view before it (P1), and leases of the epochs before a change have ended
 * before a vote for an exclusion counts under it (M12). What is refused here would stop the
 * cluster.
 */
#include "member_priv.h"

/* Would the change leave a FULL node, and of the voters a majority that is heard? */
static int member_change_leaves(const struct snic_member *m, uint32_t node)
{
    const struct snic_member_view *v = &m->rec.decided;
    uint16_t gone = member_bit(node);
    uint16_t voters = (uint16_t)(member_view_voters(v) & ~gone);
    uint16_t alive = (uint16_t)((member_alive(m) | m->dead) & voters);
    return (v->full & ~gone) != 0 && voters != 0 &&
           2 * __builtin_popcount(alive) > __builtin_popcount(voters);
}

static int member_change_wrong(const struct snic_member *m, const struct snic_member_event *ev)
{
    const struct snic_member_view *v = &m->rec.decided;
    int in = member_has(v->configured, ev->node);
    if (m->role != SNIC_MEMBER_ROLE_FULL || m->installed != v->epoch || member_is_mute(m) ||
        (ev->epoch != 0 && ev->epoch != v->config_epoch))
        return SNIC_ESTALE;
    if (!member_is_majority(m, member_alive(m)))
        return SNIC_ENOQUORUM;
    if (ev->kind == SNIC_MEMBER_ADD &&
        (in || ((ev->flags & SNIC_MEMBER_WITNESS) != 0 && v->witness != 0)))
        return SNIC_EEXIST;
    if (ev->kind != SNIC_MEMBER_ADD && !in)
        return SNIC_ENOENT;
    /* What is not complete may be taken back, or begun again, by naming its node. */
    if (m->change.kind != 0 || (v->vacant & ~member_bit(ev->node)) != 0)
        return SNIC_EBUSY;
    if (ev->kind != SNIC_MEMBER_ADD && !member_change_leaves(m, ev->node))
        return SNIC_ENOQUORUM;
    return 0;
}

int member_on_change(struct snic_member *m, const struct snic_member_event *ev)
{
    struct member_change *c = &m->change;
    if (ev->kind < SNIC_MEMBER_ADD || ev->kind > SNIC_MEMBER_REPLACE ||
        ev->node >= SNIC_MEMBER_NODES_MAX || ev->node == m->opts.node ||
        (ev->flags & ~(ev->kind == SNIC_MEMBER_ADD ? (uint32_t)SNIC_MEMBER_WITNESS : 0u)) != 0)
        return SNIC_EINVAL;
    int result = member_change_wrong(m, ev);
    if (result != 0)
        return result;
    c->kind = ev->kind;
    c->node = ev->node;
    c->base = m->rec.decided.config_epoch;
    c->witness = (ev->flags & SNIC_MEMBER_WITNESS) != 0;
    c->state = SNIC_MEMBER_CHANGE_PENDING;
    memcpy(c->addr, ev->addr, sizeof(c->addr));
    return 0;
}

/* A later view was learned: has it the change, or another one? */
void member_change_learned(struct snic_member *m)
{
    const struct snic_member_view *v = &m->rec.decided;
    struct member_change *c = &m->change;
    int in = member_has(v->configured, c->node);
    int has;
    if (c->kind == 0)
        return;
    if (v->config_epoch == c->base) {
        if (member_is_full(v, m->opts.node, m->rec.incarnation))
            return; /* not yet */
        c->state = SNIC_MEMBER_CHANGE_LOST;
        c->kind = 0;
        return;
    }
    if (c->kind == SNIC_MEMBER_REMOVE)
        has = !in;
    else
        has = in && v->config_epoch == v->epoch;
    c->state = has ? SNIC_MEMBER_CHANGE_DECIDED : SNIC_MEMBER_CHANGE_LOST;
    c->kind = 0;
}

/* Its successor runs already, holds data, and is only without the vote. */
static int member_change_succeeds(const struct snic_member *m, const struct snic_member_view *v,
                                  uint32_t n)
{
    return member_has(v->full & member_alive(m), n) && member_since_of(m, n) > v->voter[n] &&
           member_incarnation_of(m, n) == v->incarnation[n];
}

/* The pending request, as a part of the next view. */
void member_change_apply(const struct snic_member *m, struct snic_member_view *v)
{
    const struct member_change *c = &m->change;
    uint16_t bit = member_bit(c->node);
    uint32_t n = c->node;
    if (c->kind == 0 || (c->kind != SNIC_MEMBER_ADD && (v->full & ~bit) == 0))
        return;
    if (!SNIC_MEMBER__BUG(33))
        v->config_epoch = v->epoch;
    if (c->kind == SNIC_MEMBER_REPLACE && member_change_succeeds(m, v, n)) {
        v->voter[n] = member_since_of(m, n);
        return;
    }
    /* A successor that has begun is passed over, too. */
    if (member_has(v->learners, n) && member_incarnation_of(m, n) == v->incarnation[n])
        v->voter[n] = (uint32_t)snic_max_u64(v->voter[n], member_since_of(m, n));
    v->full &= (uint16_t)~bit;
    v->learners &= (uint16_t)~bit;
    if (c->kind == SNIC_MEMBER_REMOVE) {
        v->configured &= (uint16_t)~bit;
        v->vacant &= (uint16_t)~bit;
        v->witness &= (uint16_t)~bit;
        memset(v->addr[n], 0, sizeof(v->addr[n]));
        return;
    }
    if (c->kind == SNIC_MEMBER_ADD) {
        v->configured |= bit;
        v->witness |= c->witness ? bit : 0;
        memset(v->addr[n], 0, sizeof(v->addr[n]));
    }
    v->vacant |= bit;
    if (c->addr[0] != 0 || memcmp(c->addr, c->addr + 1, sizeof(c->addr) - 1) != 0)
        memcpy(v->addr[n], c->addr, sizeof(v->addr[n]));
}

/* Vacant nodes that are FULL in the next view, or a witness that is heard, get their votes. */
void member_change_name(const struct snic_member *m, struct snic_member_view *v)
{
    const struct snic_member_view *cur = &m->rec.decided;
    uint16_t ready = (uint16_t)(v->full | (v->witness & member_alive(m) & cur->vacant));
    if (SNIC_MEMBER__BUG(32))
        ready |= v->learners;
    for (uint32_t n = 0; n < SNIC_MEMBER_NODES_MAX; n++) {
        if (!member_has(v->vacant & ready, n))
            continue;
        if (member_since_of(m, n) <= v->voter[n] && !SNIC_MEMBER__BUG(29)) { /* P5 */
            v->full &= (uint16_t)~member_bit(n);
            continue;
        }
        v->voter[n] = member_since_of(m, n);
        v->vacant &= (uint16_t)~member_bit(n);
        v->config_epoch = v->epoch;
    }
}

/* The first view: the configuration of the options, and a vote for each of its nodes. 0: not all
 * are heard. */
int member_change_found(const struct snic_member *m, struct snic_member_view *v)
{
    uint16_t all = m->opts.configured;
    if ((all & ~member_alive(m)) != 0 && !SNIC_MEMBER__BUG(26))
        return 0;
    v->configured = all;
    v->witness = m->opts.witness;
    v->config_epoch = 1;
    for (uint32_t n = 0; n < SNIC_MEMBER_NODES_MAX; n++) {
        if (!member_has(all, n))
            continue;
        v->voter[n] = member_since_of(m, n);
        if (v->voter[n] == 0)
            return 0;
    }
    memcpy(v->addr, m->opts.addr, sizeof(v->addr));
    return 1;
}
