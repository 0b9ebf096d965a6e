/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * Heartbeats and what rides on them: who is heard, leases and their grants; fences.
 *
 * Why a lease of X has ended when a view without X is chosen. X holds it by the grants of a
 * majority, the view by the votes of one: a node G is in both. If G granted before it voted, it
 * waited (M6); if after, it would not have granted (M7), because it grants only in the newest view
 * it knows, and the first view without X is the one it voted for. If G booted between, it waited
 * until its forgotten grants had ended (M8).
 */
#include "member_priv.h"

/*
 * A lease of L on a clock that is slow by d lasts L / (1 - d); a clock that is fast by d counts
 * L (1 + d) / (1 - d) meanwhile. lease_ns < 2^40 and 1 + d < 2^21 millionths: no overflow.
 */
uint64_t member_grant_span(const struct snic_member *m, uint64_t lease_ns)
{
    uint64_t d = m->opts.drift_ppm;
    uint64_t part = 1000000 - d;
    if (SNIC_MEMBER__BUG(1))
        return lease_ns;
    if (SNIC_MEMBER__BUG(18)) /* off by one: the spec's factor, for clocks that are each off by d */
        return (lease_ns * (1000000 + d) + 999999) / 1000000;
    return (lease_ns * (1000000 + d) + part - 1) / part + m->opts.margin_ns;
}

uint16_t member_hears(const struct snic_member *m)
{
    uint16_t mask = member_bit(m->opts.node);
    for (uint32_t n = 0; n < SNIC_MEMBER_NODES_MAX; n++) {
        const struct member_peer *p = &m->peers[n];
        if (p->heard && m->now_ns - p->heard_ns < m->opts.detect_ns)
            mask |= member_bit(n);
    }
    return mask;
}

/* M12: is that a view of another configuration? Its voters' grants in this epoch have ended. */
static int member_is_reconfigured(const struct snic_member_view *v)
{
    return v->config_epoch == v->epoch && v->epoch > 1;
}

static int member_may_grant(const struct snic_member *m, uint32_t node, uint32_t inc,
                            uint32_t epoch)
{
    const struct snic_member_view *v = &m->rec.decided;
    if (member_is_mute(m) || !member_is_named(m) ||
        (m->now_ns < m->quiet_ns && !SNIC_MEMBER__BUG(4))) /* M8, M9 */
        return 0;
    if (SNIC_MEMBER__BUG(12))
        return 1;
    if (epoch != v->epoch || !member_is_full(v, node, inc) || member_has(m->gone, node))
        return 0;
    if (SNIC_MEMBER__BUG(5))
        return 1;
    if (m->rec.accepted != 0 && !SNIC_MEMBER__BUG(31) &&
        (!member_is_full(&m->rec.proposal, node, inc) || member_is_reconfigured(&m->rec.proposal)))
        return 0;
    return m->parked == 0 || member_is_full(&m->parked_view, node, inc); /* M7 */
}

static void member_give(struct snic_member *m, uint32_t node, uint32_t inc, uint64_t lease_ns)
{
    struct member_peer *p = &m->peers[node];
    uint64_t until = m->now_ns + member_grant_span(m, lease_ns);
    SNIC_ASSERT(node != m->opts.node && inc != 0);
    SNIC_ASSERT(until <= m->now_ns + m->grant_ns); /* M6, M8: no lease is longer */
    if (p->grant_incarnation != inc || p->grant_until_ns < until)
        p->grant_until_ns = until;
    p->grant_incarnation = inc;
}

/*
 * When a vote for v is allowed: now, or when the last lease of a node that v excludes must have
 * ended; those nodes are `whom`. The own lease does not count: voting ends it.
 */
uint64_t member_vote_time(struct snic_member *m, const struct snic_member_view *v, uint16_t *whom)
{
    const struct snic_member_view *cur = &m->rec.decided;
    uint64_t quiet_ns = snic_max_u64(m->quiet_ns, m->config_quiet_ns); /* M8, M12 */
    uint64_t at = 0;
    if (SNIC_MEMBER__BUG(3))
        return 0;
    for (uint32_t n = 0; n < SNIC_MEMBER_NODES_MAX; n++) {
        const struct member_peer *p = &m->peers[n];
        if (n == m->opts.node || member_has(m->dead, n))
            continue;
        if (p->grant_until_ns > m->now_ns && !member_is_full(v, n, p->grant_incarnation)) {
            at = snic_max_u64(at, p->grant_until_ns);
            *whom |= member_bit(n);
        }
        if (m->now_ns < quiet_ns && member_has(cur->full & ~m->gone, n) &&
            !member_is_full(v, n, cur->incarnation[n]) && !SNIC_MEMBER__BUG(4)) {
            at = snic_max_u64(at, quiet_ns);
            *whom |= member_bit(n);
        }
    }
    return at;
}

void member_fence_self(struct snic_member *m, uint32_t epoch)
{
    SNIC_ASSERT(epoch != 0 && epoch <= m->rec.decided.epoch);
    if (m->fenced < epoch)
        m->fenced = epoch;
    memset(m->lease_requests, 0, sizeof(m->lease_requests));
    m->due.fence = 1;
    if (SNIC_MEMBER__BUG(13))
        m->due.fence = 0;
    else
        m->lease_until_ns = 0;
    m->due.lease = 0;
}

static void member_count_grant(struct snic_member *m, struct member_lease_request *a, uint32_t from)
{
    SNIC_ASSERT(a->seq != 0 && a->sent_ns <= m->now_ns);
    SNIC_ASSERT(m->role == SNIC_MEMBER_ROLE_FULL && m->fenced < m->installed); /* M5 */
    a->granted |= member_bit(from);
    if (SNIC_MEMBER__BUG(37) && m->confirm_above != SNIC_NEVER && a->seq > m->confirmed) {
        m->confirmed = a->seq;
        m->due.confirmed = 1;
    }
    if (!member_is_majority(m, (uint32_t)a->granted))
        return;
    if (a->seq > m->confirmed) {
        m->confirmed = a->seq;
        m->confirmed_ns = a->sent_ns;
        m->due.confirmed = m->confirm_above != SNIC_NEVER;
        if (a->seq > m->confirm_above)
            m->confirm_above = SNIC_NEVER;
        m->confirm_at_ns = m->now_ns; /* for what was wanted since it was sent */
    }
    uint64_t from_ns = SNIC_MEMBER__BUG(2) ? m->now_ns : a->sent_ns;
    uint64_t until = from_ns + m->opts.lease_ns;
    if (until > m->lease_until_ns && until > m->now_ns) {
        m->lease_until_ns = until;
        m->due.lease = 1;
    }
}

/* May this node ask for a lease? (M5) */
static int member_requests_lease(const struct snic_member *m)
{
    return m->role == SNIC_MEMBER_ROLE_FULL && m->installed == m->rec.decided.epoch &&
           m->fenced < m->installed && member_is_named(m);
}

/* The nodes it sends heartbeats to: while it hears no majority, those of its options, too. */
uint16_t member_peers(const struct snic_member *m)
{
    uint16_t to = member_configured(m);
    if (!member_is_majority(m, member_alive(m)))
        to |= m->opts.configured;
    return (uint16_t)(to & ~member_bit(m->opts.node));
}

void member_heartbeat(struct snic_member *m)
{
    uint32_t self = m->opts.node;
    if (m->rec.incarnation != 0 && !member_is_named(m))
        return;
    m->seq++;
    m->due.send[SNIC_MEMBER_HEARTBEAT] |= member_peers(m);
    if (!member_requests_lease(m))
        return;
    m->request = m->seq;
    struct member_lease_request *a = &m->lease_requests[m->seq % SNIC_MEMBER__LEASE_REQUESTS];
    a->seq = m->seq;
    a->sent_ns = m->now_ns;
    a->granted = 0;
    if (member_may_grant(m, self, m->rec.incarnation, m->installed))
        member_count_grant(m, a, self); /* its own vote against itself would end the lease */
}

/*
 * A confirmation is wanted by a request that is sent after now: at once, unless an earlier one is
 * on its way; then after that.
 */
int member_confirm(struct snic_member *m)
{
    if (!member_requests_lease(m))
        return SNIC_ESTALE;
    if (m->confirm_above == SNIC_NEVER)
        m->confirm_at_ns = m->now_ns;
    m->confirm_above = m->seq;
    return 0;
}

/* Send the request that a confirmation needs, and again when its answer does not come. */
void member_confirm_go_on(struct snic_member *m)
{
    if (m->confirm_above == SNIC_NEVER || m->now_ns < m->confirm_at_ns)
        return;
    m->confirm_at_ns = m->now_ns + m->opts.heartbeat_ns;
    if (m->request <= m->confirm_above)
        member_heartbeat(m);
}

/* Heard from a process of that incarnation: those before it have ended. */
static void member_renew_peer(struct snic_member *m, uint32_t n, uint32_t inc)
{
    struct member_peer *p = &m->peers[n];
    SNIC_ASSERT(n != m->opts.node && inc > p->incarnation);
    uint64_t left = p->left_ns;
    uint64_t slow = p->slow_ns;
    uint64_t silent_ns = p->silent_ns;
    uint8_t silent = p->silent;
    uint64_t until = p->grant_incarnation == inc ? p->grant_until_ns : 0;
    memset(p, 0, sizeof(*p));
    p->left_ns = left;
    p->slow_ns = slow;
    p->silent_ns = silent_ns;
    p->silent = silent;
    p->grant_until_ns = until;
    p->grant_incarnation = until != 0 ? inc : 0;
    p->incarnation = inc;
    if (member_has(m->rec.decided.full, n) && inc > m->rec.decided.incarnation[n])
        m->gone |= member_bit(n);
}

/* A heartbeat of a node that the newest view here does not have: one of the two is behind. */
static void member_on_outsider(struct snic_member *m, const struct snic_member_msg *msg)
{
    if (msg->epoch < m->rec.decided.epoch)
        m->due.send[SNIC_MEMBER_DECIDED] |= member_bit(msg->src);
    else if (msg->epoch > m->rec.decided.epoch && member_is_named(m) && m->seq != 0)
        m->due.send[SNIC_MEMBER_HEARTBEAT] |= member_bit(msg->src); /* it answers with its view */
}

/* What a heartbeat reports of its sender. A slow log is no silence: that counts from its end. */
static void member_take_heartbeat(struct snic_member *m, struct member_peer *p,
                                  const struct snic_member_msg *msg)
{
    p->seq = msg->seq;
    p->heard = 1;
    p->heard_ns = m->now_ns;
    p->flags = msg->flags;
    p->epoch = msg->epoch;
    p->hears = msg->hears;
    p->since = msg->since;
    p->flush_ns = msg->flush_ns;
    if (p->silent && msg->flush_ns >= m->opts.heartbeat_ns)
        p->silent_ns = m->now_ns;
    /* An acknowledgement of the previous process shows only that its sender ran then. */
    if (member_has(msg->hears, m->opts.node) && msg->dst_incarnation >= m->born) {
        p->mutual = 1;
        p->mutual_ns = m->now_ns;
    }
}

int member_on_heartbeat(struct snic_member *m, const struct snic_member_msg *msg)
{
    uint32_t n = msg->src;
    struct member_peer *p = &m->peers[n];
    if (msg->seq == 0 || msg->lease_ns > SNIC_MEMBER_NS_MAX || (msg->flags & ~0x3fu) != 0)
        return SNIC_EPROTO;
    if (m->rec.decided.epoch == 0 && msg->epoch == 0 &&
        (msg->configured != m->opts.configured || msg->witness != m->opts.witness))
        return SNIC_EPROTO;
    if (!member_has(member_configured(m), n) ||
        member_is_dead_file(&m->rec.decided, n, msg->since)) {
        member_on_outsider(m, msg);
        return 0;
    }
    m->dead &= (uint16_t)~member_bit(n);
    if (msg->epoch < m->rec.decided.epoch)
        m->due.send[SNIC_MEMBER_DECIDED] |= member_bit(n);
    if (msg->dst_incarnation > m->rec.incarnation && m->rec.incarnation != 0 &&
        member_is_blank(m) && m->phase == MEMBER_IDLE) {
        member_changed(m);
        member_renumber(m, msg->dst_incarnation);
    }
    if (msg->src_incarnation == 0 || msg->src_incarnation < p->incarnation)
        return 0;
    if (msg->src_incarnation > p->incarnation)
        member_renew_peer(m, n, msg->src_incarnation);
    if (msg->seq <= p->seq)
        return 0;
    member_take_heartbeat(m, p, msg);
    if ((msg->flags & SNIC_MEMBER_MSG_LEASE_REQUEST) != 0 &&
        msg->lease_ns <= m->opts.lease_max_ns &&
        member_may_grant(m, n, msg->src_incarnation, msg->epoch)) {
        member_give(m, n, msg->src_incarnation, msg->lease_ns);
        m->due.send[SNIC_MEMBER_GRANT] |= member_bit(n);
    }
    return 0;
}

int member_on_grant(struct snic_member *m, const struct snic_member_msg *msg)
{
    if (msg->seq == 0)
        return SNIC_EPROTO;
    if (msg->dst_incarnation != m->rec.incarnation || !member_requests_lease(m))
        return 0;
    if (msg->epoch != m->installed && !SNIC_MEMBER__BUG(12))
        return 0;
    struct member_lease_request *a = &m->lease_requests[msg->seq % SNIC_MEMBER__LEASE_REQUESTS];
    if (a->seq == msg->seq)
        member_count_grant(m, a, msg->src);
    return 0;
}

/* A peer is about to vote for a view without this node, which has to fence itself first. */
int member_on_fence(struct snic_member *m, const struct snic_member_msg *msg)
{
    if (msg->epoch < m->rec.decided.epoch)
        m->due.send[SNIC_MEMBER_DECIDED] |= member_bit(msg->src);
    if (msg->epoch != m->rec.decided.epoch || msg->epoch == 0 ||
        msg->dst_incarnation != m->rec.incarnation || !member_is_named(m))
        return 0;
    member_fence_self(m, msg->epoch);
    m->due.send[SNIC_MEMBER_FENCE_ACK] |= member_bit(msg->src);
    return 0;
}

int member_on_fence_ack(struct snic_member *m, const struct snic_member_msg *msg)
{
    const struct snic_member_view *v = &m->rec.decided;
    struct member_peer *p = &m->peers[msg->src];
    if (msg->epoch != v->epoch || !member_is_full(v, msg->src, msg->src_incarnation))
        return 0;
    m->gone |= member_bit(msg->src);
    if (p->grant_incarnation == msg->src_incarnation)
        p->grant_until_ns = 0;
    return 0;
}
