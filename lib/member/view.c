/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* What all files judge by: majorities, whether a view or record makes sense, the other nodes. */
#include "member_priv.h"

/* Those whom the operator declared ended count as agreeing. The first view takes all (M13). */
int member_is_majority(const struct snic_member *m, uint32_t mask)
{
    uint32_t of = member_electorate(m);
    if (m->rec.decided.epoch == 0 && !SNIC_MEMBER__BUG(26))
        return (of & ~mask) == 0;
    uint32_t yes = (mask | m->dead) & of;
    int more = __builtin_popcount(yes) * 2 - __builtin_popcount(of);
    return SNIC_MEMBER__BUG(15) ? more >= 0 : more > 0;
}

static int member_config_is_sane(const struct snic_member_view *v)
{
    if (v->configured == v->witness || __builtin_popcount(v->witness) > 1 ||
        (v->witness & ~v->configured) != 0 || (v->vacant & ~v->configured) != 0)
        return 0;
    if (member_view_voters(v) == 0 || v->config_epoch == 0 || v->config_epoch > v->epoch)
        return 0;
    for (uint32_t n = 0; n < SNIC_MEMBER_NODES_MAX; n++) {
        if (member_has(member_view_voters(v), n) && v->voter[n] == 0)
            return 0;
    }
    return v->pad == 0 && v->reserved == 0;
}

int member_view_is_sane(const struct snic_member_view *v)
{
    uint16_t data = (uint16_t)(v->configured & ~v->witness);
    uint16_t members = (uint16_t)(v->full | v->learners);
    if (v->epoch == 0 || v->epoch > SNIC_MEMBER_EPOCH_MAX || v->restart > 1 ||
        !member_config_is_sane(v))
        return 0;
    if (v->full == 0 || (v->full & v->learners) != 0 || (members & ~data) != 0 ||
        (v->full & v->vacant) != 0)
        return 0;
    if (v->donor >= SNIC_MEMBER_NODES_MAX || !member_has(v->full, v->donor))
        return 0;
    if (v->restart != 0 && v->learners != 0)
        return 0;
    for (uint32_t n = 0; n < SNIC_MEMBER_NODES_MAX; n++) {
        if (member_has(members, n) && v->incarnation[n] == 0)
            return 0;
    }
    return 1;
}

static int member_view_is_zero(const struct snic_member_view *v)
{
    static const struct snic_member_view zero;
    return memcmp(v, &zero, sizeof(zero)) == 0;
}

int member_record_is_sane(const struct snic_member_record *r)
{
    if ((r->flags & ~(uint32_t)SNIC_MEMBER_REC_FIRST) != 0)
        return 0;
    if (r->since == 0 || r->incarnation < r->since || r->pad != 0 || r->accepted > r->promised)
        return 0;
    if (!member_view_is_zero(&r->decided) && !member_view_is_sane(&r->decided))
        return 0;
    if (r->accepted == 0)
        return member_view_is_zero(&r->proposal);
    return member_view_is_sane(&r->proposal) && r->proposal.epoch == r->decided.epoch + 1;
}

/* rec is another one now; a STORE follows at the end of the step. */
void member_changed(struct snic_member *m)
{
    m->generation++;
}

/* ---- The own file ---- */

/* As good as none: it promised nothing, and no view that it knows has named it, or is of a file or
 * process after it. */
int member_is_blank(const struct snic_member *m)
{
    const struct snic_member_view *v = &m->rec.decided;
    uint32_t self = m->opts.node;
    return m->rec.promised == 0 && m->rec.accepted == 0 && v->voter[self] < m->rec.since &&
           v->incarnation[self] < m->rec.since;
}

/*
 * A blank file begins anew, above a number that its node has had. Two files of a node that begin
 * above the same one differ in their first numbers, which are random (BOOT).
 */
void member_renumber(struct snic_member *m, uint32_t above)
{
    uint64_t number = (uint64_t)above + 1 + m->rec.since % SNIC_MEMBER_FILE_NUMBERS;
    m->rec.incarnation = number <= UINT32_MAX ? (uint32_t)number : 0;
    m->rec.since = SNIC_MEMBER__BUG(37) ? m->rec.since : m->rec.incarnation;
    m->born = m->rec.incarnation;
    m->incarnation_generation = m->generation;
    for (uint32_t n = 0; n < SNIC_MEMBER_NODES_MAX; n++)
        m->peers[n].mutual = 0; /* that was another process */
}

/* ---- The other nodes ---- */

/* Heard in both directions within detect_ns; itself too. */
uint16_t member_alive(const struct snic_member *m)
{
    uint16_t mask = member_bit(m->opts.node);
    for (uint32_t n = 0; n < SNIC_MEMBER_NODES_MAX; n++) {
        const struct member_peer *p = &m->peers[n];
        if (p->mutual && m->now_ns - p->mutual_ns < m->opts.detect_ns)
            mask |= member_bit(n);
    }
    return mask;
}

uint32_t member_incarnation_of(const struct snic_member *m, uint32_t n)
{
    return n == m->opts.node ? m->rec.incarnation : m->peers[n].incarnation;
}

/* The first incarnation of its file; 0: not known. */
uint32_t member_since_of(const struct snic_member *m, uint32_t n)
{
    return n == m->opts.node ? m->rec.since : m->peers[n].since;
}
