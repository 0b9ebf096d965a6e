/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* What must hold after every event; S1 to S4 of test_member_sim.h. */
#include "test_member_sim_priv.h"

void sim_fail(struct sim *s, const char *why)
{
    if (s->failure == NULL) {
        s->failure = why;
        if (s->o.trace)
            printf("%12llu FAILURE %s\n", (unsigned long long)s->now, why);
    }
}

static int sim_is_full(const struct snic_member_view *v, uint32_t n, uint32_t inc)
{
    return (v->full >> n & 1) != 0 && v->incarnation[n] == inc;
}

static int sim_is_learner(const struct snic_member_view *v, uint32_t n, uint32_t inc)
{
    return (v->learners >> n & 1) != 0 && v->incarnation[n] == inc;
}

/* S4 */
static void sim_check_transition(struct sim *s, const struct snic_member_view *a,
                                 const struct snic_member_view *b)
{
    for (uint32_t n = 0; n < s->count; n++) {
        uint32_t inc = b->incarnation[n];
        if (inc < a->incarnation[n])
            sim_fail(s, "an incarnation went back");
        if (b->full >> n & 1) {
            int kept = sim_is_full(a, n, inc) && !b->restart;
            int grown = sim_is_learner(a, n, inc) && s->nodes[n].caught == inc && !b->restart;
            int again = b->restart && (a->epoch == 0 || (a->full >> n & 1)) &&
                        inc > a->incarnation[n] &&
                        (a->epoch == 0 || (s->good_at[n][inc / 8 % 8192] >> inc % 8 & 1));
            if (!kept && !grown && !again)
                sim_fail(s, "FULL out of nothing");
        } else if (b->learners >> n & 1) {
            int in = ((a->full | a->learners) >> n & 1) != 0;
            if (!sim_is_learner(a, n, inc) && (in || inc <= a->incarnation[n]))
                sim_fail(s, "a learner under an incarnation that was there before");
        }
    }
    if ((b->full | b->learners) & b->witness)
        sim_fail(s, "a witness holds data");
}

static uint32_t sim_voters(const struct snic_member_view *v)
{
    return v->configured & ~(uint32_t)v->vacant;
}

/* S5 */
static void sim_check_config(struct sim *s, const struct snic_member_view *a,
                             const struct snic_member_view *b)
{
    uint32_t changed = (uint32_t)(a->configured ^ b->configured) | (a->vacant ^ b->vacant);
    for (uint32_t n = 0; n < s->count; n++) {
        uint32_t votes = sim_voters(b) >> n & 1;
        if (b->voter[n] < a->voter[n])
            sim_fail(s, "a vote for an earlier file");
        if (b->voter[n] == a->voter[n] && (!votes || (sim_voters(a) >> n & 1) != 0))
            continue;
        changed |= 1u << n;
        if (votes && (b->voter[n] <= a->voter[n] || ((b->full | b->witness) >> n & 1) == 0))
            sim_fail(s, "a vote for a node that is not FULL, or for a dead file");
    }
    if ((changed & (changed - 1)) != 0)
        sim_fail(s, "a configuration changed by two nodes");
    if (changed != 0 ? b->config_epoch != b->epoch
                     : b->config_epoch != a->config_epoch && b->config_epoch != b->epoch)
        sim_fail(s, "a configuration changed unannounced");
    s->changed += changed != 0;
}

static void sim_choose(struct sim *s, const struct snic_member_view *v)
{
    if (v->epoch >= SIM_EPOCHS)
        return;
    struct snic_member_view *c = &s->chosen[v->epoch];
    if (c->epoch != 0) {
        if (memcmp(c, v, sizeof(*v)) != 0)
            sim_fail(s, "two views chosen in an epoch");
        return;
    }
    *c = *v;
    if (v->epoch != s->newest + 1)
        sim_fail(s, "an epoch was skipped");
    sim_check_transition(s, &s->chosen[v->epoch - 1], v);
    if (v->epoch > 1)
        sim_check_config(s, &s->chosen[v->epoch - 1], v);
    s->newest = v->epoch;
    s->restarts += v->restart;
    if (s->o.trace)
        printf("%12llu CHOSEN %u full %x learners %x%s inc %u %u %u %u\n",
               (unsigned long long)s->now, v->epoch, v->full, v->learners,
               v->restart ? " restart" : "", v->incarnation[0], v->incarnation[1],
               v->incarnation[2], v->incarnation[3]);
}

/* A vote is on disk. */
static void sim_voted(struct sim *s, uint32_t node, const struct snic_member_record *r)
{
    if (r->accepted == 0)
        return;
    uint32_t i = 0;
    while (i < s->votes_count &&
           (s->votes[i].ballot != r->accepted || s->votes[i].epoch != r->proposal.epoch))
        i++;
    struct sim_vote *v = &s->votes[i];
    if (i == SIM_VOTES)
        return;
    if (i == s->votes_count) {
        s->votes_count++;
        v->ballot = r->accepted;
        v->epoch = r->proposal.epoch;
        v->view = r->proposal;
    }
    if (memcmp(&v->view, &r->proposal, sizeof(v->view)) != 0)
        sim_fail(s, "a ballot with two values");
    const struct snic_member_view *by = &r->decided; /* whose voters decide, and which files (P5) */
    uint32_t of = by->epoch == 0 ? s->all : sim_voters(by);
    if (by->epoch == 0 || by->voter[node] == r->since)
        v->mask |= 1u << node & of;
    uint32_t yes = (v->mask | s->dead) & of;
    if (by->epoch == 0 ? yes == of : 2 * __builtin_popcount(yes) > __builtin_popcount(of))
        sim_choose(s, &v->view);
}

/* S1 */
void sim_check_leases(struct sim *s)
{
    for (uint32_t i = 0; i < s->count; i++) {
        struct sim_node *n = &s->nodes[i];
        if (!n->up || n->lease <= sim_local(n, s->now))
            continue;
        uint32_t inc = n->view.incarnation[i];
        if (n->role != SNIC_MEMBER_ROLE_FULL)
            sim_fail(s, "a lease without being FULL");
        for (uint32_t e = n->view.epoch + 1; e <= s->newest; e++) {
            if (!sim_is_full(&s->chosen[e], i, inc))
                sim_fail(s, "a lease of one who was voted out");
        }
        if (n->partial || n->log != s->writes)
            sim_fail(s, "a lease of one who lacks a write");
    }
}

void sim_view(struct sim *s, uint32_t i, const struct snic_member_action *a)
{
    struct sim_node *n = &s->nodes[i];
    if (a->view.epoch >= SIM_EPOCHS || s->chosen[a->view.epoch].epoch == 0 ||
        memcmp(&s->chosen[a->view.epoch], &a->view, sizeof(a->view)) != 0)
        sim_fail(s, "installed what was not chosen"); /* S2 */
    if (s->o.trace)
        printf("%12llu VIEW %u at %u role %u\n", (unsigned long long)s->now, a->view.epoch, i,
               a->role);
    if (a->view.epoch <= n->view.epoch)
        sim_fail(s, "installed twice, or an older one");
    if (a->role == SNIC_MEMBER_ROLE_LEARNER && n->role != SNIC_MEMBER_ROLE_LEARNER) {
        n->log = 0; /* A2 */
        n->partial = 1;
    }
    n->view = a->view;
    n->role = a->role;
    if (n->role != SNIC_MEMBER_ROLE_FULL)
        n->lease = 0;
}

void sim_on_disk(struct sim *s, uint32_t i, const struct snic_member_record *r)
{
    struct sim_node *n = &s->nodes[i];
    if (n->has_disk &&
        (r->decided.epoch < n->disk.decided.epoch || r->incarnation < n->disk.incarnation))
        sim_fail(s, "the file went back"); /* S3 */
    if (n->has_disk && r->decided.epoch == n->disk.decided.epoch &&
        (r->promised < n->disk.promised || r->accepted < n->disk.accepted))
        sim_fail(s, "a promise was broken");
    n->disk = *r;
    n->has_disk = 1;
    sim_voted(s, i, r);
}
