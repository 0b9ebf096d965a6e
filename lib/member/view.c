/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* What all files judge views and records by: majorities, and whether a view or record makes sense.
 */
#include "member_priv.h"

/* Those whom the operator declared ended count as agreeing. */
int member_is_majority(const struct snic_member *m, uint32_t mask)
{
    uint32_t of = m->opts.configured;
    uint32_t yes = (mask | m->dead) & of;
    int more = __builtin_popcount(yes) * 2 - __builtin_popcount(of);
    return SNIC_MEMBER__BUG(15) ? more >= 0 : more > 0;
}

int member_view_is_sane(const struct snic_member *m, const struct snic_member_view *v)
{
    uint16_t data = member_data(m);
    uint16_t members = (uint16_t)(v->full | v->learners);
    if (v->epoch == 0 || v->epoch > SNIC_MEMBER_EPOCH_MAX || v->restart > 1)
        return 0;
    if (v->full == 0 || (v->full & v->learners) != 0 || (members & ~data) != 0)
        return 0;
    if (v->donor >= SNIC_MEMBER_NODES_MAX || !member_has(v->full, v->donor))
        return 0;
    if (v->restart != 0 && v->learners != 0)
        return 0;
    for (uint32_t n = 0; n < SNIC_MEMBER_NODES_MAX; n++) {
        if (member_has(members, n) && v->incarnation[n] == 0)
            return 0;
        if (!member_has(data, n) && v->incarnation[n] != 0)
            return 0;
    }
    return 1;
}

static int member_view_is_zero(const struct snic_member_view *v)
{
    static const struct snic_member_view zero;
    return memcmp(v, &zero, sizeof(zero)) == 0;
}

int member_record_is_sane(const struct snic_member *m, const struct snic_member_record *r)
{
    if (r->flags > (SNIC_MEMBER_REC_MUTE | SNIC_MEMBER_REC_FIRST))
        return 0;
    if (r->since == 0 || r->incarnation < r->since || r->pad != 0 || r->accepted > r->promised)
        return 0;
    if (!member_view_is_zero(&r->decided) && !member_view_is_sane(m, &r->decided))
        return 0;
    if (r->accepted == 0)
        return member_view_is_zero(&r->proposal);
    return member_view_is_sane(m, &r->proposal) && r->proposal.epoch == r->decided.epoch + 1;
}

/* rec is another one now; a STORE follows at the end of the step. */
void member_changed(struct snic_member *m)
{
    m->generation++;
}
