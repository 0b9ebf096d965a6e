/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* The engine's sources once more, for the explorer: assertions are found, defects switched on. */
_Noreturn void mn_assert_fail(const char *file, int line, const char *text);
#define SNIC_ASSERT_FAIL(file, line, text) mn_assert_fail(file, line, text)

#include "member_node.h"

unsigned mn_bug;
#define SNIC_MEMBER__BUG(n) (mn_bug == (n))

#include "member/check.c"
#include "member/config.c"
#include "member/lease.c"
#include "member/policy.c"
#include "member/proposer.c"
#include "member/register.c"
#include "member/view.c"
#include "member/member.c"

#define MN_LATER (MN_NOW << 1) /* armed, and not due */

static void mn_less(uint64_t *generation, uint64_t by)
{
    if (*generation != 0)
        *generation = *generation > by ? *generation - by : 1;
}

void mn_still(struct snic_member *m)
{
    uint64_t by = m->stored > 1 ? m->stored - 1 : 0;
    uint32_t i;

    m->generation -= by;
    m->stored -= by;
    mn_less(&m->storing, by);
    mn_less(&m->incarnation_generation, by);
    mn_less(&m->promise_generation, by);
    mn_less(&m->accept_generation, by);
    mn_less(&m->view_generation, by);
    m->heartbeat_at_ns = m->booted ? MN_LATER : SNIC_NEVER;
    m->want_at_ns = m->want_at_ns == SNIC_NEVER ? SNIC_NEVER : MN_LATER;
    m->retry_at_ns = m->give_up_ns = m->phase != MEMBER_IDLE ? MN_LATER : 0;
    m->parked_until_ns = m->parked != 0 ? MN_LATER : 0;
    m->base_ns = 0; /* a node that is not heard is silent */
    m->quiet_ns = m->quiet_ns > MN_NOW ? MN_NOW + m->grant_ns : 0;
    m->config_quiet_ns = m->config_quiet_ns > MN_NOW ? MN_NOW + m->grant_ns : 0;
    m->confirmed_ns = m->confirm_at_ns = m->foreign = 0;
    if (m->confirm_above == SNIC_NEVER)
        m->confirmed = m->request = 0;
    else
        m->confirm_at_ns = MN_LATER;
    m->lease_until_ns = m->lease_until_ns > MN_NOW ? MN_NOW + m->opts.lease_ns : 0;
    if (m->stuck_ns != SNIC_NEVER && m->stuck_ns != 0) /* 0: it has waited */
        m->stuck_ns = MN_NOW;
    m->busy = 0;
    m->busy_ns = m->tries = m->refused = m->proposals = 0;
    for (i = 0; i < MN_NODES; i++) {
        struct member_peer *p = &m->peers[i];

        p->heard_ns = p->heard ? MN_NOW : 0;
        p->mutual_ns = p->mutual ? MN_NOW : 0;
        p->left_ns = SNIC_NEVER;
        if (p->grant_until_ns > MN_NOW)
            p->grant_until_ns = MN_NOW + member_grant_span(m, m->opts.lease_ns);
        else
            p->grant_until_ns = p->grant_incarnation = 0;
    }
    for (i = 0; i < SNIC_MEMBER__LEASE_REQUESTS; i++)
        m->lease_requests[i].sent_ns = m->lease_requests[i].seq != 0 ? MN_NOW : 0;
}

void mn_wind(struct snic_member *m)
{
    m->heartbeat_at_ns = MN_NOW + 1;
    m->base_ns = MN_NOW;
    if (m->want_at_ns != SNIC_NEVER)
        m->want_at_ns = MN_NOW;
}

uint64_t mn_now(const struct snic_member *m)
{
    return m->now_ns;
}

void mn_time(struct snic_member *m, uint32_t kind, uint32_t arg)
{
    switch (kind) {
    case MN_BEAT:
        m->heartbeat_at_ns = MN_NOW;
        break;
    case MN_PROPOSE:
        m->want_at_ns = MN_NOW;
        break;
    case MN_RESEND:
        m->retry_at_ns = MN_NOW;
        break;
    case MN_SILENT:
        m->peers[arg].heard = m->peers[arg].mutual = 0;
        m->peers[arg].heard_ns = m->peers[arg].mutual_ns = 0;
        break;
    case MN_EXPIRE:
        m->lease_until_ns = 0;
        memset(m->lease_requests, 0, sizeof(m->lease_requests));
        break;
    case MN_GRANT_END:
        m->peers[arg].grant_until_ns = 0;
        break;
    case MN_QUIET_END:
        m->quiet_ns = 0;
        break;
    case MN_CONFIG_END:
        m->config_quiet_ns = 0;
        break;
    default: /* MN_WAITED */
        m->stuck_ns = 0;
        break;
    }
    if (m->parked != 0 && (kind == MN_GRANT_END || kind == MN_QUIET_END || kind == MN_CONFIG_END))
        m->parked_until_ns = MN_NOW;
}

void mn_look(const struct snic_member *m, struct mn_sum *d, struct snic_member_view *decided)
{
    uint32_t i;

    *decided = m->rec.decided;
    d->role = (uint8_t)m->role;
    d->leased = m->lease_until_ns > m->now_ns;
    d->armed = m->want_at_ns != SNIC_NEVER;
    d->phase = (uint8_t)m->phase;
    d->quiet = m->quiet_ns != 0;
    d->stuck = m->stuck_ns != SNIC_NEVER;
    d->caught = m->caught_up != 0;
    d->config = m->config_quiet_ns != 0;
    d->config_epoch = m->rec.decided.config_epoch;
    d->wants = m->confirm_above != SNIC_NEVER;
    d->since = m->rec.since;
    d->seq = (uint32_t)m->seq;
    d->incarnation = m->rec.incarnation;
    d->installed = m->installed;
    d->epoch = m->rec.decided.epoch;
    for (i = 0; i < MN_NODES; i++) {
        d->granted |= (uint16_t)((m->peers[i].grant_until_ns != 0) << i);
        d->hears |= (uint16_t)(m->peers[i].mutual << i);
    }
    for (i = 0; i < SNIC_MEMBER__LEASE_REQUESTS; i++)
        d->requested |= m->lease_requests[i].seq != 0;
}

uint32_t mn_incarnation(const struct snic_member *m)
{
    return m->rec.incarnation;
}

uint64_t mn_storing(const struct snic_member *m)
{
    return m->storing;
}
