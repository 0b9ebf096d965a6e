/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * The register of the next epoch: single-decree Paxos among the voters of the newest view, one
 * register at a time; the first one takes all configured nodes. A node enters the register of epoch
 * e+1 by knowing the view of e, and leaves it for good by learning any later view: then it answers
 * with that view instead of promising or voting, so that a proposer's majority always contains a
 * node that voted for the chosen view, or one that knows a later view.
 */
#include "member_priv.h"

static void member_forget_proposal(struct snic_member *m)
{
    m->phase = MEMBER_IDLE;
    m->promises = 0;
    m->votes = 0;
    m->ballot = 0;
    m->best = 0;
    memset(&m->value, 0, sizeof(m->value));
}

static void member_unpark(struct snic_member *m)
{
    m->parked = 0;
    m->parked_until_ns = 0;
    memset(&m->parked_view, 0, sizeof(m->parked_view));
}

/* Is the view's number of this node one of another file of it, after which this one began? */
static int member_is_later(const struct snic_member *m)
{
    const struct snic_member_view *v = &m->rec.decided;
    uint32_t self = m->opts.node;
    uint32_t theirs = v->incarnation[self];
    if (!member_has(v->configured, self) || v->voter[self] == m->rec.since ||
        (member_has(v->learners, self) && theirs == m->rec.incarnation))
        return 0;
    return m->rec.since <= snic_max_u64(v->voter[self], theirs);
}

/*
 * Under which incarnation a node may come back: one that no view had, even if it never stopped
 * running. By it the others distinguish it from what they recorded of it before. blank: of its file
 * before this view.
 */
static void member_learn_own(struct snic_member *m, int blank)
{
    const struct snic_member_view *v = &m->rec.decided;
    uint32_t self = m->opts.node;
    uint32_t theirs = v->incarnation[self];
    int member = member_has(v->full | v->learners, self) && theirs == m->rec.incarnation;
    m->rec.flags &= ~(uint32_t)SNIC_MEMBER_REC_FIRST;
    if (blank && m->rec.incarnation != 0 && member_is_later(m)) {
        member_renumber(m, (uint32_t)snic_max_u64(v->voter[self], theirs));
        return;
    }
    if (member || m->rec.incarnation == 0)
        return;
    if (!member_has(v->configured, self) || member_is_dead_file(v, self, m->rec.since))
        return; /* its number is another's, or not in use */
    if (m->rec.incarnation > theirs || SNIC_MEMBER__BUG(9))
        return;
    m->learner_since = 0;
    m->caught_up = 0;
    m->rec.incarnation = theirs == UINT32_MAX ? 0 : theirs + 1;
    m->incarnation_generation = m->generation;
}

/* M1: a view later than all known was chosen. */
void member_learn(struct snic_member *m, const struct snic_member_view *v)
{
    struct snic_member_view old = m->rec.decided;
    uint32_t self = m->opts.node;
    int blank = member_is_blank(m);
    SNIC_ASSERT(member_view_is_sane(v));
    if (v->epoch <= old.epoch)
        return;
    if (v->config_epoch > old.epoch && v->config_epoch > 1 && !SNIC_MEMBER__BUG(27))
        m->config_quiet_ns = m->now_ns + m->grant_ns; /* M12 */
    m->rec.decided = *v;
    m->rec.promised = 0;
    m->rec.accepted = 0;
    memset(&m->rec.proposal, 0, sizeof(m->rec.proposal));
    member_changed(m);
    m->promise_generation = 0;
    m->accept_generation = 0;
    m->view_generation = m->generation;
    member_unpark(m);
    member_forget_proposal(m);
    m->round = 0;
    m->tries = 0;
    m->want_at_ns = SNIC_NEVER;
    m->busy = 0;
    m->busy_ns = 0;
    m->gone = 0;
    m->any_log = 0;
    m->need_epoch = 0;
    m->stuck_ns = SNIC_NEVER;
    memset(m->lease_requests, 0, sizeof(m->lease_requests));
    m->confirmed = m->confirmed_ns = m->request = 0;
    uint16_t left = (uint16_t)((old.full | old.learners) & ~(v->full | v->learners));
    for (uint32_t n = 0; n < SNIC_MEMBER_NODES_MAX; n++) {
        struct member_peer *p = &m->peers[n];
        p->slow_ns = p->silent_ns = SNIC_NEVER;
        p->silent = 0;
        if (member_has(left, n))
            p->left_ns = m->now_ns;
        if (member_has(v->full, n) && p->incarnation > v->incarnation[n])
            m->gone |= member_bit(n);
        if (!member_is_full(v, n, p->grant_incarnation) && !SNIC_MEMBER__BUG(12))
            p->grant_until_ns = 0; /* it was chosen: P2 */
    }
    if (m->lease_until_ns != 0 && !member_is_full(v, self, m->rec.incarnation)) /* M5 */
        member_fence_self(m, v->epoch);
    member_learn_own(m, blank);
    member_change_learned(m);
}

/* ---- Acceptor ---- */

static void member_take_promise(struct snic_member *m, uint32_t from, uint64_t accepted,
                                const struct snic_member_view *v);
static void member_take_vote(struct snic_member *m, uint32_t from);

/* The own proposer hears of a higher ballot from others, or wins without its own node's vote. */
static void member_reject(struct snic_member *m, uint32_t from)
{
    if (from != m->opts.node)
        m->due.send[SNIC_MEMBER_REJECT] |= member_bit(from);
}

static void member_take_prepare(struct snic_member *m, uint32_t from, uint64_t ballot)
{
    SNIC_ASSERT(ballot != 0 && member_ballot_node(ballot) == from); /* M10 */
    SNIC_ASSERT(!member_is_mute(m) && member_is_named(m));          /* M9 */
    if (ballot < m->rec.promised) {
        member_reject(m, from);
        return;
    }
    if (from != m->opts.node) {
        m->busy = 1;
        m->busy_ns = m->now_ns;
    }
    if (ballot > m->rec.promised) {
        m->rec.promised = ballot;
        member_changed(m);
        if (m->parked != 0 && m->parked < ballot)
            member_unpark(m);
        m->accept_generation = 0;
        m->promise_generation = m->generation;
    } else if (m->promise_generation == 0) {
        m->promise_generation = m->generation; /* again: the answer was lost */
    }
    if (SNIC_MEMBER__BUG(6))
        m->promise_generation = 1;
}

/* Cast the parked vote, once no node that it excludes can hold a lease (M6). */
void member_try_vote(struct snic_member *m)
{
    uint16_t whom = 0;
    if (m->parked == 0)
        return;
    uint64_t at = member_vote_time(m, &m->parked_view, &whom);
    if (at > m->now_ns) {
        m->parked_until_ns = at;
        m->due.send[SNIC_MEMBER_FENCE] |= whom;
        return;
    }
    SNIC_ASSERT(m->parked_view.epoch == m->rec.decided.epoch + 1); /* M2 */
    if (m->parked > m->rec.promised) {
        m->rec.promised = m->parked;
        m->promise_generation = 0;
    }
    m->rec.accepted = m->parked;
    m->rec.proposal = m->parked_view;
    SNIC_ASSERT(m->rec.accepted <= m->rec.promised); /* M2 */
    member_changed(m);
    m->accept_generation = SNIC_MEMBER__BUG(7) ? 1 : m->generation;
    member_unpark(m);
    /* Also without a lease: grants that would make one may be on their way. */
    if (!SNIC_MEMBER__BUG(20) &&
        member_is_full(&m->rec.decided, m->opts.node, m->rec.incarnation) &&
        !member_is_full(&m->rec.proposal, m->opts.node, m->rec.incarnation))
        member_fence_self(m, m->rec.decided.epoch);
}

static void member_take_accept(struct snic_member *m, uint32_t from, uint64_t ballot,
                               const struct snic_member_view *v)
{
    SNIC_ASSERT(ballot != 0 && member_ballot_node(ballot) == from);
    SNIC_ASSERT(member_view_is_sane(v) && v->epoch == m->rec.decided.epoch + 1);
    SNIC_ASSERT(!member_is_mute(m) && member_is_named(m)); /* M9 */
    if (ballot < m->rec.promised && !SNIC_MEMBER__BUG(14)) {
        member_reject(m, from);
        return;
    }
    if (from != m->opts.node) {
        m->busy = 1;
        m->busy_ns = m->now_ns;
    }
    if (ballot < m->parked)
        return;
    if (ballot == m->rec.accepted) {
        if (m->accept_generation == 0)
            m->accept_generation = m->generation;
        return;
    }
    m->parked = ballot;
    m->parked_view = *v;
    member_try_vote(m);
}

/* ---- Proposer ---- */

static void member_others(struct snic_member *m, uint32_t type)
{
    m->due.send[type] |= (uint16_t)(member_electorate(m) & ~member_bit(m->opts.node));
}

void member_propose(struct snic_member *m)
{
    uint64_t round = snic_max_u64(m->round, m->rec.promised >> 36) + 1;
    SNIC_ASSERT(m->phase == MEMBER_IDLE && !member_is_mute(m) && member_is_named(m)); /* M9 */
    m->want_at_ns = SNIC_NEVER; /* until the next step sets it anew: no deadline is in the past */
    if (round > SNIC_MEMBER__ROUND_MAX)
        return; /* not reachable by proposing */
    member_forget_proposal(m);
    m->round = round;
    m->phase = MEMBER_PREPARING;
    m->proposals++;
    uint64_t inc = SNIC_MEMBER__BUG(17) ? 0 : m->rec.incarnation;
    m->ballot = round << 36 | inc << 4 | m->opts.node; /* M10 */
    SNIC_ASSERT(m->ballot > m->rec.promised);
    m->retry_at_ns = m->now_ns + m->opts.retry_ns;
    m->give_up_ns = m->now_ns + 4 * m->opts.detect_ns;
    member_others(m, SNIC_MEMBER_PREPARE);
    member_take_prepare(m, m->opts.node, m->ballot);
}

/* To all, those who answered too: they hold back while a proposer is at work. */
void member_resend(struct snic_member *m)
{
    SNIC_ASSERT(m->phase != MEMBER_IDLE);
    m->retry_at_ns = m->now_ns + m->opts.retry_ns;
    member_others(m, m->phase == MEMBER_PREPARING ? SNIC_MEMBER_PREPARE : SNIC_MEMBER_ACCEPT);
}

static void member_take_promise(struct snic_member *m, uint32_t from, uint64_t accepted,
                                const struct snic_member_view *v)
{
    if (m->phase != MEMBER_PREPARING)
        return;
    m->promises |= member_bit(from);
    if (accepted > m->best) {
        m->best = accepted;
        m->value = *v;
    }
    if (!member_is_majority(m, m->promises))
        return;
    if (m->best == 0 || SNIC_MEMBER__BUG(8)) {
        if (!member_next_view(m, &m->value)) { /* the reason has gone */
            member_forget_proposal(m);
            return;
        }
    }
    SNIC_ASSERT(m->value.epoch == m->rec.decided.epoch + 1); /* M2 */
    m->phase = MEMBER_ACCEPTING;
    m->retry_at_ns = m->now_ns + m->opts.retry_ns;
    m->give_up_ns = m->now_ns + 2 * m->grant_ns + 4 * m->opts.detect_ns;
    member_others(m, SNIC_MEMBER_ACCEPT);
    member_take_accept(m, m->opts.node, m->ballot, &m->value);
}

static void member_take_vote(struct snic_member *m, uint32_t from)
{
    if (m->phase != MEMBER_ACCEPTING)
        return;
    m->votes |= member_bit(from);
    if (!member_is_majority(m, m->votes))
        return;
    struct snic_member_view v = m->value;
    uint16_t to = (uint16_t)(member_configured(m) | v.configured); /* who was removed, too */
    member_learn(m, &v);
    m->due.send[SNIC_MEMBER_DECIDED] |= (uint16_t)(to & ~member_bit(m->opts.node));
}

static void member_take_reject(struct snic_member *m, uint64_t ballot)
{
    if (m->phase == MEMBER_IDLE || ballot <= m->ballot)
        return;
    m->round = snic_max_u64(m->round, ballot >> 36);
    member_forget_proposal(m);
    m->tries++;
    m->busy = 1; /* its owner is at work */
    m->busy_ns = m->now_ns;
}

/* ---- Durable now, so it may be sent (M3, M4) ---- */

void member_on_stored(struct snic_member *m)
{
    uint32_t self = m->opts.node;
    SNIC_ASSERT(m->stored <= m->generation && m->storing <= m->generation);
    if (m->promise_generation != 0 && m->stored + SNIC_MEMBER__BUG(6) >= m->promise_generation) {
        uint32_t to = member_ballot_node(m->rec.promised);
        m->promise_generation = 0;
        if (to != self)
            m->due.send[SNIC_MEMBER_PROMISE] |= member_bit(to);
        else if (m->rec.promised == m->ballot)
            member_take_promise(m, self, m->rec.accepted, &m->rec.proposal);
    }
    if (m->accept_generation != 0 && m->stored + SNIC_MEMBER__BUG(7) >= m->accept_generation) {
        uint32_t to = member_ballot_node(m->rec.accepted);
        m->accept_generation = 0;
        if (to != self)
            m->due.send[SNIC_MEMBER_ACCEPTED] |= member_bit(to);
        else if (m->rec.accepted == m->ballot)
            member_take_vote(m, self);
    }
    /* The last, since a vote may just have chosen a later view, which is not stored. */
    if (m->view_generation != 0 && m->stored >= m->view_generation) {
        const struct snic_member_view *v = &m->rec.decided;
        int own = v->incarnation[self] == m->rec.incarnation;
        SNIC_ASSERT(v->epoch > m->installed || m->installed == 0); /* M1 */
        m->view_generation = 0;
        m->installed = v->epoch;
        m->due.view = 1;
        m->role = SNIC_MEMBER_ROLE_FENCED;
        if (own && member_has(v->full, self))
            m->role = SNIC_MEMBER_ROLE_FULL;
        if (own && member_has(v->learners, self))
            m->role = SNIC_MEMBER_ROLE_LEARNER;
        m->confirm_at_ns = m->now_ns;
        if (m->role != SNIC_MEMBER_ROLE_FULL)
            m->confirm_above = SNIC_NEVER;
        if (m->role != SNIC_MEMBER_ROLE_LEARNER) {
            m->learner_since = 0;
            m->caught_up = 0;
        } else if (m->learner_since == 0) {
            m->learner_since = v->epoch;
        }
    }
}

/* ---- Messages ---- */

static int member_on_proposal(struct snic_member *m, const struct snic_member_msg *msg)
{
    if (msg->ballot == 0 || member_ballot_node(msg->ballot) != msg->src)
        return SNIC_EPROTO;
    if (msg->type == SNIC_MEMBER_ACCEPT &&
        (!member_view_is_sane(&msg->view) || msg->view.epoch != msg->epoch))
        return SNIC_EPROTO;
    if (msg->epoch <= m->rec.decided.epoch) {
        m->due.send[SNIC_MEMBER_DECIDED] |= member_bit(msg->src);
        return 0;
    }
    if (msg->epoch == 1 &&
        (msg->configured != m->opts.configured || msg->witness != m->opts.witness))
        return SNIC_EPROTO; /* founders of two minds */
    if (msg->epoch != m->rec.decided.epoch + 1 || member_is_mute(m) || !member_is_named(m) ||
        !member_has(member_electorate(m), msg->src))
        return 0; /* M9; or its predecessor comes first */
    if (msg->type == SNIC_MEMBER_PREPARE)
        member_take_prepare(m, msg->src, msg->ballot);
    else
        member_take_accept(m, msg->src, msg->ballot, &msg->view);
    return 0;
}

static int member_on_answer(struct snic_member *m, const struct snic_member_msg *msg)
{
    if (msg->type == SNIC_MEMBER_PROMISE && msg->accepted != 0 &&
        (msg->accepted > msg->ballot || !member_view_is_sane(&msg->view) ||
         msg->view.epoch != msg->epoch))
        return SNIC_EPROTO;
    if (m->phase == MEMBER_IDLE || msg->epoch != m->rec.decided.epoch + 1)
        return 0;
    if (msg->type == SNIC_MEMBER_REJECT) {
        member_take_reject(m, msg->ballot);
        return 0;
    }
    if (msg->ballot != m->ballot)
        return 0;
    if (msg->type == SNIC_MEMBER_PROMISE)
        member_take_promise(m, msg->src, msg->accepted, &msg->view);
    else
        member_take_vote(m, msg->src);
    return 0;
}

int member_on_register(struct snic_member *m, const struct snic_member_msg *msg)
{
    switch (msg->type) {
    case SNIC_MEMBER_PREPARE:
    case SNIC_MEMBER_ACCEPT:
        return member_on_proposal(m, msg);
    case SNIC_MEMBER_DECIDED:
        if (!member_view_is_sane(&msg->view))
            return SNIC_EPROTO;
        member_learn(m, &msg->view);
        return 0;
    default:
        return member_on_answer(m, msg);
    }
}
