/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* The invariants of member_priv.h, as far as one node's state shows them. */
#include "member_priv.h"

static int member_check_register(const struct snic_member *m)
{
    if (m->rec.incarnation != 0 && !member_record_is_sane(&m->rec)) /* M2 */
        return 0;
    if (m->stored > m->generation || m->storing > m->generation ||
        m->incarnation_generation > m->generation)
        return 0;
    if (m->promise_generation > m->generation || m->accept_generation > m->generation ||
        m->view_generation > m->generation)
        return 0;
    if (m->installed > m->rec.decided.epoch) /* M1, M4 */
        return 0;
    if (m->view_generation == 0 && m->installed != 0 && m->installed != m->rec.decided.epoch)
        return 0;
    if (m->parked != 0 &&
        (m->parked < m->rec.promised || m->parked_view.epoch != m->rec.decided.epoch + 1))
        return 0;
    return 1;
}

static int member_check_proposer(const struct snic_member *m)
{
    if (m->phase > MEMBER_ACCEPTING)
        return 0;
    if (m->phase != MEMBER_IDLE && (member_is_mute(m) || !member_is_named(m))) /* M9 */
        return 0;
    if (m->phase != MEMBER_IDLE && ((m->ballot >> 4 & UINT32_MAX) != m->rec.incarnation ||
                                    member_ballot_node(m->ballot) != m->opts.node)) /* M10 */
        return 0;
    if (m->phase == MEMBER_ACCEPTING &&
        (!member_view_is_sane(&m->value) || m->value.epoch != m->rec.decided.epoch + 1))
        return 0;
    return 1;
}

static int member_check_lease(const struct snic_member *m)
{
    const struct snic_member_view *v = &m->rec.decided;
    if (m->lease_until_ns != 0 && (!member_is_full(v, m->opts.node, m->rec.incarnation) ||
                                   m->fenced >= v->epoch || !member_is_named(m))) /* M5 */
        return 0;
    if (member_has(m->gone, m->opts.node) || (m->gone & ~v->full) != 0)
        return 0;
    for (uint32_t n = 0; n < SNIC_MEMBER_NODES_MAX; n++) {
        const struct member_peer *p = &m->peers[n];
        if (p->grant_until_ns > m->now_ns + m->grant_ns)
            return 0;
        if (p->grant_until_ns > m->now_ns && m->now_ns < m->quiet_ns) /* M8 */
            return 0;
        if (p->grant_until_ns > m->now_ns && m->rec.accepted != 0 &&
            !member_is_full(&m->rec.proposal, n, p->grant_incarnation)) /* M6, M7 */
            return 0;
        if ((p->heard && p->heard_ns > m->now_ns) || (p->mutual && p->mutual_ns > p->heard_ns))
            return 0;
    }
    return 1;
}

int snic_member_check(const struct snic_member *m)
{
    if (m->booted > 1 || m->role > SNIC_MEMBER_ROLE_FULL)
        return SNIC_ECORRUPT;
    if (!member_check_register(m) || !member_check_proposer(m) || !member_check_lease(m))
        return SNIC_ECORRUPT;
    return 0;
}
