/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* When this node proposes the view of policy.c: reasons, its rank among the proposers, time. */
#include "member_priv.h"

/* Is an epoch needed even if the members stay the same? */
static int member_needs_epoch(const struct snic_member *m)
{
    const struct snic_member_view *v = &m->rec.decided;
    if (m->rec.accepted != 0 || m->parked != 0)
        return 1; /* a proposal is under way, and some may have voted for it */
    if (v->epoch == 0)
        return 0;
    return m->need_epoch == v->epoch ||
           (m->fenced == v->epoch && member_is_full(v, m->opts.node, m->rec.incarnation));
}

static int member_has_reason(const struct snic_member *m)
{
    const struct snic_member_view *cur = &m->rec.decided;
    struct snic_member_view v;
    if (member_needs_epoch(m))
        return 1;
    return member_next_view(m, &v) &&
           (v.restart || v.full != cur->full || v.learners != cur->learners ||
            v.config_epoch != cur->config_epoch);
}

/* Living voters that go first: FULL ones, then the others, by number. */
static uint32_t member_rank(const struct snic_member *m, uint16_t voters)
{
    uint16_t full = m->rec.decided.full & member_running(m);
    uint16_t before = (uint16_t)(member_bit(m->opts.node) - 1);
    uint16_t first =
        member_has(full, m->opts.node) ? (uint16_t)(full & before) : (uint16_t)(full | before);
    return (uint32_t)__builtin_popcount(voters & first & ~member_bit(m->opts.node));
}

static uint16_t member_voters(const struct snic_member *m)
{
    uint16_t mask = member_alive(m);
    for (uint32_t n = 0; n < SNIC_MEMBER_NODES_MAX; n++) {
        if ((m->peers[n].flags & SNIC_MEMBER_MSG_MUTE) != 0)
            mask &= (uint16_t)~member_bit(n);
    }
    return mask;
}

static void member_drive(struct snic_member *m)
{
    SNIC_ASSERT(m->phase != MEMBER_IDLE && m->ballot != 0);
    if (m->now_ns >= m->give_up_ns) {
        m->phase = MEMBER_IDLE;
        m->ballot = 0;
        m->tries++;
    } else if (m->now_ns >= m->retry_at_ns) {
        member_resend(m);
    }
}

void member_consider(struct snic_member *m)
{
    if (!member_is_named(m) || member_is_mute(m) || /* M9 */
        m->rec.decided.epoch >= SNIC_MEMBER_EPOCH_MAX) {
        m->want_at_ns = SNIC_NEVER;
        return;
    }
    if ((m->rec.decided.full & member_running(m)) != 0)
        m->stuck_ns = SNIC_NEVER;
    else if (m->stuck_ns == SNIC_NEVER)
        m->stuck_ns = m->now_ns;
    if (m->phase != MEMBER_IDLE) {
        member_drive(m);
        return;
    }
    uint16_t voters = member_voters(m);
    if (!member_is_majority(m, voters) || !member_has_reason(m)) {
        m->want_at_ns = SNIC_NEVER;
        return;
    }
    uint64_t rank = member_rank(m, voters);
    uint64_t step = m->opts.backoff_ns * (1 + rank);
    if (m->want_at_ns == SNIC_NEVER)
        m->want_at_ns = m->now_ns + step * (1 + snic_min_u64(m->tries, 7));
    if (m->busy) /* another is at it */
        m->want_at_ns = snic_max_u64(m->want_at_ns, m->busy_ns + m->opts.detect_ns + step);
    if (m->now_ns >= m->want_at_ns)
        member_propose(m);
}
