/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * What the next view should be. Nothing here is needed for safety: the register and the leases see
 * to that whatever is proposed, but for two rules that bind what a proposer may write into a view:
 *   R1  FULL of the next view are FULL of this one under the same incarnation, or learners of it
 *       that have caught up; or, if none of the FULL runs any more, a restart: FULL of this one
 *       under new incarnations, with good logs.
 *   R2  A learner comes from outside, under an incarnation above its last.
 */
#include "member_priv.h"

static uint32_t member_flags_of(const struct snic_member *m, uint32_t n)
{
    if (n != m->opts.node)
        return m->peers[n].flags;
    return (member_log_is_good(m) ? SNIC_MEMBER_MSG_LOG_GOOD : 0u) |
           ((m->rec.flags & SNIC_MEMBER_REC_FIRST) != 0 ? SNIC_MEMBER_MSG_FIRST : 0u) |
           (m->caught_up ? SNIC_MEMBER_MSG_CAUGHT_UP : 0u);
}

/*
 * Not heard in both directions for detect_ns, of which this node was awake. One that is not FULL
 * itself is no judge of a node that a FULL one hears: else, of two whose link is broken, the one
 * that was thrown out would throw out the other.
 */
static int member_is_silent(const struct snic_member *m, uint32_t n, uint16_t alive)
{
    const struct snic_member_view *v = &m->rec.decided;
    const struct member_peer *p = &m->peers[n];
    uint64_t last = p->mutual ? snic_max_u64(p->mutual_ns, m->base_ns) : m->base_ns;
    if (n == m->opts.node || m->now_ns - last < m->opts.detect_ns)
        return 0;
    if (member_is_full(v, m->opts.node, m->rec.incarnation))
        return 1;
    for (uint32_t o = 0; o < SNIC_MEMBER_NODES_MAX; o++) {
        if (o != n && member_has(alive & v->full, o) && member_has(m->peers[o].hears, n) &&
            m->peers[o].incarnation == v->incarnation[o])
            return 0;
    }
    return 1;
}

/* Members neither silent, nor declared dead, nor heard under a later incarnation; slow ones too. */
uint16_t member_running(const struct snic_member *m)
{
    const struct snic_member_view *v = &m->rec.decided;
    uint16_t alive = member_alive(m);
    uint16_t mask = 0;
    for (uint32_t n = 0; n < SNIC_MEMBER_NODES_MAX; n++) {
        if (!member_has(v->full | v->learners, n) || member_is_silent(m, n, alive))
            continue;
        /* One that was never heard has the benefit of the doubt until it is silent. */
        if (member_incarnation_of(m, n) <= v->incarnation[n] && !member_has(m->dead, n))
            mask |= member_bit(n);
    }
    return mask;
}

/* Of these members those heard in both directions under the incarnation of the view. */
static uint16_t member_sure(const struct snic_member *m, uint16_t members)
{
    const struct snic_member_view *v = &m->rec.decided;
    uint16_t mask = members & member_alive(m);
    for (uint32_t n = 0; n < SNIC_MEMBER_NODES_MAX; n++) {
        if (member_incarnation_of(m, n) != v->incarnation[n])
            mask &= (uint16_t)~member_bit(n);
    }
    return mask;
}

/* Whose logs have been slow for slow_ns; by default a slow log evicts no node. */
uint16_t member_slow(const struct snic_member *m)
{
    uint16_t mask = 0;
    for (uint32_t n = 0; n < SNIC_MEMBER_NODES_MAX && m->opts.slow_ns != 0; n++) {
        const struct member_peer *p = &m->peers[n];
        if ((p->slow_ns != SNIC_NEVER && m->now_ns - p->slow_ns >= m->opts.slow_ns) ||
            (p->heard && p->flush_ns >= m->opts.slow_ns))
            mask |= member_bit(n);
    }
    return mask;
}

/* Nodes that have answered no data for silent_ns, while no flush of theirs ran. */
uint16_t member_silent(const struct snic_member *m)
{
    uint16_t mask = 0;
    for (uint32_t n = 0; n < SNIC_MEMBER_NODES_MAX; n++) {
        const struct member_peer *p = &m->peers[n];
        if (p->silent && m->now_ns - p->silent_ns >= m->opts.silent_ns)
            mask |= member_bit(n);
    }
    return mask;
}

/*
 * Whose logs a restart may begin from: the FULL nodes'. Where an operator has declared that all of
 * these have ended, and accepts any log: those of the others, which keep what they had when they
 * were FULL until they are again.
 */
static uint16_t member_restart_of(const struct snic_member *m)
{
    const struct snic_member_view *v = &m->rec.decided;
    if (v->epoch == 0)
        return member_data(m);
    if (m->any_log && (v->full & ~m->dead) == 0)
        return (uint16_t)(member_data(m) & ~m->dead);
    return v->full;
}

/* Those that may be of a restart, or of the first view. */
static uint16_t member_candidates(const struct snic_member *m)
{
    const struct snic_member_view *v = &m->rec.decided;
    uint16_t of = member_restart_of(m) & member_alive(m);
    uint16_t mask = 0;
    if (SNIC_MEMBER__BUG(10))
        of |= v->learners;
    for (uint32_t n = 0; n < SNIC_MEMBER_NODES_MAX; n++) {
        uint32_t flags = member_flags_of(m, n);
        if (!member_has(of, n) || member_incarnation_of(m, n) <= v->incarnation[n])
            continue;
        if (v->epoch == 0 ? (flags & SNIC_MEMBER_MSG_FIRST) != 0
                          : (flags & SNIC_MEMBER_MSG_FIRST) == 0 &&
                                ((flags & SNIC_MEMBER_MSG_LOG_GOOD) != 0 || m->any_log ||
                                 SNIC_MEMBER__BUG(21)))
            mask |= member_bit(n);
    }
    return mask;
}

/* The nodes that a restart still waits for. */
uint16_t member_restart_missing(const struct snic_member *m)
{
    return (uint16_t)(member_restart_of(m) & ~member_candidates(m));
}

static int member_restart_view(const struct snic_member *m, struct snic_member_view *v)
{
    uint16_t from = member_candidates(m);
    int waited = m->stuck_ns != SNIC_NEVER && m->now_ns - m->stuck_ns >= m->opts.restart_wait_ns;
    if (from == 0 || (member_restart_missing(m) != 0 && !waited && !m->any_log))
        return 0;
    if (v->epoch == 1 && !member_change_found(m, v))
        return 0;
    v->full = from;
    v->learners = 0;
    v->restart = 1;
    for (uint32_t n = 0; n < SNIC_MEMBER_NODES_MAX; n++) {
        if (member_has(from, n))
            v->incarnation[n] = member_incarnation_of(m, n);
    }
    return 1;
}

/* Do a newcomer and all who stay hear each other? Else it would be thrown out again at once. */
static int member_is_linked(const struct snic_member *m, uint32_t n, uint16_t with)
{
    uint16_t alive = member_alive(m);
    for (uint32_t o = 0; o < SNIC_MEMBER_NODES_MAX; o++) {
        if (!member_has(with, o) || o == m->opts.node || o == n)
            continue;
        if (!member_has(alive, o) || !member_has(m->peers[o].hears, n))
            return 0; /* or it is not known here */
        if (n != m->opts.node && !member_has(m->peers[n].hears, o))
            return 0;
    }
    return 1;
}

/* R2 */
static uint16_t member_joiners(const struct snic_member *m, const struct snic_member_view *next)
{
    uint16_t stay = (uint16_t)(next->full | next->learners);
    const struct snic_member_view *v = &m->rec.decided;
    uint16_t mask = (uint16_t)(next->configured & ~next->witness & member_data(m) &
                               member_alive(m) & ~(v->full | v->learners));
    for (uint32_t n = 0; n < SNIC_MEMBER_NODES_MAX; n++) {
        uint64_t left = m->peers[n].left_ns;
        int wants = n == m->opts.node || (m->peers[n].flags & SNIC_MEMBER_MSG_JOIN) != 0;
        if (!member_has(mask, n))
            continue;
        if (member_since_of(m, n) <= v->voter[n] &&
            (member_since_of(m, n) != v->voter[n] || member_has(v->vacant, n)) &&
            !SNIC_MEMBER__BUG(29))
            wants = 0; /* a dead file */
        if (!wants || (left != SNIC_NEVER && m->now_ns - left < m->opts.rejoin_ns) ||
            (member_incarnation_of(m, n) <= v->incarnation[n] && !SNIC_MEMBER__BUG(9)) ||
            !member_is_linked(m, n, stay))
            mask &= (uint16_t)~member_bit(n);
    }
    return mask;
}

/*
 * Which of the running members stay. A node that reports most of the FULL nodes as slow is more
 * likely the one whose messages do not arrive: it would exclude the healthy ones and be the only
 * copy. So exclusion for slowness leaves at least half of the FULL nodes: one of three may be
 * excluded, two may not; and one of two, since neither is a majority there, and a node that stalls
 * every write of the other must not stay. That of a slow log leaves min_full of them, too: else the
 * eviction would stop the writes that it is for.
 */
static uint16_t member_stay(const struct snic_member *m, uint16_t running)
{
    uint16_t full = m->rec.decided.full;
    uint16_t stay = (uint16_t)(running & ~member_silent(m));
    int left = __builtin_popcount(full & stay);
    if (left == 0 || 2 * left < __builtin_popcount(full))
        return running;
    uint16_t slow = member_slow(m);
    int fast = __builtin_popcount(full & stay & ~slow);
    if ((full & stay & slow) != 0 &&
        (fast == 0 || 2 * fast < __builtin_popcount(full) || (uint32_t)fast < member_min_full(m)))
        return stay;
    return (uint16_t)(stay & ~slow); /* of learners alone: the floor is not concerned */
}

/* What this node would propose now; 0: no view better than the present one is possible. */
int member_next_view(const struct snic_member *m, struct snic_member_view *out)
{
    const struct snic_member_view *cur = &m->rec.decided;
    struct snic_member_view v = *cur;
    uint16_t running = member_running(m);
    uint16_t stay = member_stay(m, running);
    v.epoch++;
    v.restart = 0;
    v.full = (uint16_t)(cur->full & stay);
    v.learners = (uint16_t)(cur->learners & stay);
    member_change_apply(m, &v);
    if (v.full == 0) {
        if (!member_restart_view(m, &v))
            return 0;
    } else if (member_sure(m, v.full) == 0) {
        return 0; /* the last FULL nodes may be dead: then it takes the others for a restart */
    } else {
        for (uint32_t n = 0; n < SNIC_MEMBER_NODES_MAX; n++) {
            if (member_has(v.learners, n) && member_is_linked(m, n, stay) &&
                member_incarnation_of(m, n) == cur->incarnation[n] &&
                ((member_flags_of(m, n) & SNIC_MEMBER_MSG_CAUGHT_UP) != 0 || SNIC_MEMBER__BUG(22)))
                v.full |= member_bit(n);
        }
        v.learners &= (uint16_t)~v.full;
        member_change_name(m, &v);
        uint16_t joiners = member_joiners(m, &v);
        v.learners |= joiners;
        for (uint32_t n = 0; n < SNIC_MEMBER_NODES_MAX; n++) {
            if (member_has(joiners, n))
                v.incarnation[n] = member_incarnation_of(m, n);
        }
    }
    if (!member_has(v.full, v.donor) || cur->epoch == 0)
        v.donor = (uint32_t)__builtin_ctz(v.full);
    SNIC_ASSERT(v.full != 0 && (v.full & v.learners) == 0);
    SNIC_ASSERT(((v.full | v.learners) & ~(v.configured & ~v.witness)) == 0);
    *out = v;
    return 1;
}
