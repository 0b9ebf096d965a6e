/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* What the votes on disks choose, and whether each view may follow the one before: S2 to S4, S7. */
#include "member_world_priv.h"

#include <string.h>

/* S4; as test_member_sim.h's. */
static void mw_follows(const struct mw_world *w, struct mw_state *s,
                       const struct snic_member_view *a, const struct snic_member_view *b)
{
    uint32_t n;

    for (n = 0; n < w->nodes; n++) {
        uint32_t inc = b->incarnation[n];

        if (inc < a->incarnation[n])
            s->h.bad = MW_B_BACK;
        if ((b->full >> n & 1) != 0) {
            int kept = mw_is(a->full, a, n, inc) && !b->restart;
            int grown = mw_is(a->learners, a, n, inc) && s->h.caught[n] == inc && !b->restart;
            int again = b->restart && (a->full >> n & 1) != 0 && inc > a->incarnation[n];

            if (!kept && !grown && !again && a->epoch != 0)
                s->h.bad = MW_B_FULL;
            else if (again && (s->h.suspect[n] == inc ||
                               (inc >= s->h.since[n] && a->incarnation[n] < s->h.since[n])))
                s->h.bad = MW_B_LOG;
        } else if ((b->learners >> n & 1) != 0 && !mw_is(a->learners, a, n, inc) &&
                   (((a->full | a->learners) >> n & 1) != 0 || inc <= a->incarnation[n])) {
            s->h.bad = MW_B_LEARNER;
        }
    }
}

static uint32_t mw_voters(const struct snic_member_view *v)
{
    return v->configured & ~(uint32_t)v->vacant;
}

/* S7 */
static void mw_configures(const struct mw_world *w, struct mw_state *s,
                          const struct snic_member_view *a, const struct snic_member_view *b)
{
    uint32_t changed = (uint32_t)(a->configured ^ b->configured) | (a->vacant ^ b->vacant), n;

    for (n = 0; n < w->nodes; n++) {
        uint32_t votes = mw_voters(b) >> n & 1;

        if (b->voter[n] < a->voter[n])
            s->h.bad = MW_B_VOTER;
        if (b->voter[n] == a->voter[n] && (!votes || (mw_voters(a) >> n & 1) != 0))
            continue;
        changed |= 1u << n;
        if (votes && (b->voter[n] <= a->voter[n] || ((b->full | b->witness) >> n & 1) == 0))
            s->h.bad = MW_B_VOTER;
    }
    if (b->config_epoch != (changed != 0 ? b->epoch : a->config_epoch) &&
        (changed != 0 || b->config_epoch != b->epoch)) /* a replacement begun anew changes none */
        s->h.bad = MW_B_CONFIG;
    if ((changed & (changed - 1)) != 0)
        s->h.bad = MW_B_CONFIG;
}

static void mw_choose(struct mw_world *w, struct mw_state *s, uint32_t view)
{
    static const struct snic_member_view none;
    const struct snic_member_view *v = mn_view(w->space, view);
    uint32_t i, k = 0;

    if (v->epoch >= MW_EPOCHS) {
        s->h.bad = MW_B_ROOM;
        return;
    }
    if (s->h.chosen[v->epoch] != 0) {
        if (s->h.chosen[v->epoch] != view + 1)
            s->h.bad = MW_B_CHOSEN;
        return;
    }
    s->h.chosen[v->epoch] = view + 1;
    if (v->epoch > 1)
        mw_configures(w, s, mn_view(w->space, s->h.chosen[v->epoch - 1] - 1), v);
    if (v->epoch > 1 && v->config_epoch == v->epoch)
        for (i = 0; i < w->nodes; i++)
            s->h.before[v->epoch][i] = mw_sum(w, s, i)->seq;
    if (v->epoch > 1 && s->h.chosen[v->epoch - 1] == 0)
        s->h.bad = MW_B_SKIPPED;
    else
        mw_follows(w, s, v->epoch > 1 ? mn_view(w->space, s->h.chosen[v->epoch - 1] - 1) : &none,
                   v);
    for (i = 0; i < MW_VOTES; i++)
        if (s->h.vote[i].ballot != 0 && mn_view(w->space, s->h.vote[i].view)->epoch >= v->epoch)
            s->h.vote[k++] = s->h.vote[i];
    memset(&s->h.vote[k], 0, (MW_VOTES - k) * sizeof(s->h.vote[0]));
}

/* A vote is on disk. */
static void mw_voted(struct mw_world *w, struct mw_state *s, uint32_t n,
                     const struct snic_member_record *r)
{
    uint32_t view = mn_view_number(w->space, &r->proposal), i, count = 0, all;

    if (r->accepted == 0)
        return;
    while (count < MW_VOTES && s->h.vote[count].ballot != 0)
        count++;
    for (i = 0; i < count; i++)
        if (s->h.vote[i].ballot == r->accepted &&
            mn_view(w->space, s->h.vote[i].view)->epoch == r->proposal.epoch)
            break;
    if (i == MW_VOTES) {
        s->h.bad = MW_B_ROOM;
        return;
    }
    if (i == count) {
        for (; i > 0 && s->h.vote[i - 1].ballot > r->accepted; i--)
            s->h.vote[i] = s->h.vote[i - 1];
        s->h.vote[i].ballot = r->accepted;
        s->h.vote[i].view = view;
        s->h.vote[i].who = 0;
    }
    if (s->h.vote[i].view != view)
        s->h.bad = MW_B_BALLOT;
    /* P5, and the first view takes all. */
    all = r->decided.epoch == 0 ? w->founders : mw_voters(&r->decided);
    if (r->decided.epoch == 0 || r->decided.voter[n] == r->since)
        s->h.vote[i].who |= 1u << n & all;
    if (r->decided.epoch == 0
            ? s->h.vote[i].who == all
            : 2 * __builtin_popcount(s->h.vote[i].who & all) > __builtin_popcount(all))
        mw_choose(w, s, view);
}

void mw_on_disk(struct mw_world *w, struct mw_state *s, uint32_t n)
{
    const struct snic_member_record *a = mn_disk(w->space, s->h.node[n]);
    const struct snic_member_record *b = mn_store(w->space, s->h.node[n]);

    int another = b->since != a->since; /* the file was lost, or is blank */

    if (!another && (b->decided.epoch < a->decided.epoch || b->incarnation < a->incarnation))
        s->h.bad = MW_B_FILE;
    if (!another && b->decided.epoch == a->decided.epoch &&
        (b->promised < a->promised || b->accepted < a->accepted))
        s->h.bad = MW_B_PROMISE;
    mw_voted(w, s, n, b);
}
