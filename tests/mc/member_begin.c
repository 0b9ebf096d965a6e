/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* What the explorer of memberships begins with: enum mw_begin. */
#include "member_world_priv.h"

/* Until all is quiet: messages in order, files at once. */
static void mw_calm_down(struct mw_world *w, struct mw_state *s)
{
    uint32_t n, any = 1;

    while (any) {
        any = 0;
        for (n = 0; n < w->nodes; n++)
            while (mw_sum(w, s, n)->storing) {
                (void)mw_node_event(w, s, n, MN_EVENT(MN_STORED, 0));
                any = 1;
            }
        while (s->h.messages > 0) {
            uint32_t m = s->msg[0];

            mw_take(s, m);
            (void)mw_node_event(w, s, mn_message(w->space, m)->dst, MN_EVENT(MN_MESSAGE, m));
            any = 1;
        }
    }
}

/* Heartbeats; node 0 may propose. */
static void mw_go_on(struct mw_world *w, struct mw_state *s, int propose)
{
    uint32_t n;

    mw_calm_down(w, s);
    for (n = 0; n < w->nodes; n++)
        if (mw_sum(w, s, n)->alive)
            (void)mw_node_event(w, s, n, MN_EVENT(MN_BEAT, 0));
    mw_calm_down(w, s);
    if (propose && mw_sum(w, s, 0)->armed)
        (void)mw_node_event(w, s, 0, MN_EVENT(MN_PROPOSE, 0));
    mw_calm_down(w, s);
}

/* The last node is voted out, comes back, and all hear each other again. */
static void mw_leave_out(struct mw_world *w, struct mw_state *s)
{
    const uint32_t last = w->nodes - 1;
    uint32_t n;

    (void)mw_node_event(w, s, last, MN_EVENT(MN_EXPIRE, 0));
    for (n = 0; n < last; n++) {
        (void)mw_node_event(w, s, n, MN_EVENT(MN_SILENT, last));
        (void)mw_node_event(w, s, n, MN_EVENT(MN_GRANT_END, last));
    }
    (void)mw_node_event(w, s, 0, MN_EVENT(MN_PROPOSE, 0));
    mw_calm_down(w, s);
    mw_go_on(w, s, 0);
    mw_go_on(w, s, 0);
}

/* The last node's lease rests on the grant of the middle one, which has booted since. */
static void mw_forget(struct mw_world *w, struct mw_state *s)
{
    const uint32_t last = w->nodes - 1;
    uint32_t i;

    (void)mw_node_event(w, s, last, MN_EVENT(MN_EXPIRE, 0));
    (void)mw_node_event(w, s, 0, MN_EVENT(MN_GRANT_END, last));
    (void)mw_node_event(w, s, last, MN_EVENT(MN_BEAT, 0));
    for (i = 0; i < s->h.messages; i++)
        if (mn_message(w->space, s->msg[i])->dst == 0) {
            mw_take(s, s->msg[i]);
            break;
        }
    mw_calm_down(w, s);
    (void)mw_node_event(w, s, 1, MN_EVENT(MN_CRASH, 0));
    (void)mw_node_event(w, s, 1, MN_EVENT(MN_BOOT, 0));
    mw_calm_down(w, s);
}

/* No leases, no grants. */
static void mw_set_free(struct mw_world *w, struct mw_state *s)
{
    uint32_t n;

    for (n = 0; n < w->nodes; n++)
        if (mw_sum(w, s, n)->alive)
            (void)mw_node_event(w, s, n, MN_EVENT(MN_EXPIRE, 0));
    for (n = 0; n < w->nodes * w->nodes; n++)
        if (mw_sum(w, s, n / w->nodes)->alive)
            (void)mw_node_event(w, s, n / w->nodes, MN_EVENT(MN_GRANT_END, n % w->nodes));
}

/* An operator's request at node 0, which proposes: the first view that has it is chosen. */
static void mw_change(struct mw_world *w, struct mw_state *s, uint32_t kind, uint32_t n)
{
    (void)mw_node_event(w, s, 0, MN_EVENT(MN_CHANGE, MN_CHANGE_OF(kind, n)));
    if (mw_sum(w, s, 0)->armed)
        (void)mw_node_event(w, s, 0, MN_EVENT(MN_PROPOSE, 0));
    mw_calm_down(w, s);
}

/* A node's disk is lost, and it runs with a new one. */
static void mw_lose_disk(struct mw_world *w, struct mw_state *s, uint32_t n)
{
    (void)mw_node_event(w, s, n, MN_EVENT(MN_CRASH, 0));
    (void)mw_node_event(w, s, n, MN_EVENT(MN_BOOT, MN_LOST));
    mw_calm_down(w, s);
}

/* The last node was added, or replaced: configured, without a vote. */
static void mw_make_vacant(struct mw_world *w, struct mw_state *s)
{
    const uint32_t last = w->nodes - 1;

    mw_set_free(w, s);
    if ((w->founders >> last & 1) == 0) {
        (void)mw_node_event(w, s, last, MN_EVENT(MN_BOOT, 0));
        mw_calm_down(w, s);
        mw_change(w, s, SNIC_MEMBER_ADD, last);
    } else {
        mw_lose_disk(w, s, last);
        mw_change(w, s, SNIC_MEMBER_REPLACE, last);
    }
    mw_go_on(w, s, 0);
    mw_go_on(w, s, 0);
    if (w->o.begin == MW_ADDED)
        mw_go_on(w, s, 1);
    mw_set_free(w, s);
}

/* A heartbeat that arrives at one node only. */
static void mw_beat_to(struct mw_world *w, struct mw_state *s, uint32_t from, uint32_t to)
{
    uint32_t i, k = 0;

    mw_calm_down(w, s);
    (void)mw_node_event(w, s, from, MN_EVENT(MN_BEAT, 0));
    for (i = 0; i < s->h.messages; i++)
        if (mn_message(w->space, s->msg[i])->dst == to)
            s->msg[k++] = s->msg[i];
    s->h.messages = (uint16_t)k;
    mw_calm_down(w, s);
}

/*
 * The first node's lease rests on a grant of the middle one. That one's disk is lost, and its
 * successor becomes FULL, with a vote, while the lease lasts. No other node knows of the lease.
 */
static void mw_renew(struct mw_world *w, struct mw_state *s)
{
    uint32_t i;

    mw_set_free(w, s);
    mw_beat_to(w, s, 0, 1);
    mw_lose_disk(w, s, 1);
    mw_change(w, s, SNIC_MEMBER_REPLACE, 1);
    for (i = 0; i < 4; i++) { /* a learner, then FULL */
        mw_beat_to(w, s, 0, 1);
        (void)mw_node_event(w, s, 1, MN_EVENT(MN_BEAT, 0));
        mw_calm_down(w, s);
        mw_beat_to(w, s, 2, 1);
        mw_beat_to(w, s, 2, 0);
        if (mw_sum(w, s, 1)->role == SNIC_MEMBER_ROLE_LEARNER && !mw_sum(w, s, 1)->caught)
            (void)mw_node_event(w, s, 1, MN_EVENT(MN_CAUGHT_UP, 0));
        else if (mw_sum(w, s, 0)->armed)
            (void)mw_node_event(w, s, 0, MN_EVENT(MN_PROPOSE, 0));
        mw_calm_down(w, s);
    }
}

void mw_begin_state(struct mw_world *w)
{
    const struct mw_opts *o = &w->o;
    struct mn_space_opts so = {.blind = o->blind,
                               .nodes = w->nodes,
                               .timed = o->ends != 0,
                               .founders = o->founders,
                               .witness = o->witness,
                               .add_witness = o->add_witness,
                               .below = o->below};
    struct mw_state *s = &w->first;
    uint32_t n, round;

    for (n = 0; n < MN_NODES; n++)
        so.ppm[n] = o->ppm[n];

    mn_bug = 0; /* what comes first is without it */
    w->space = mn_space_new(&so);
    for (n = 0; n < w->nodes; n++) {
        s->h.node[n] = mn_begin(w->space, n);
        if ((w->founders >> n & 1) != 0)
            (void)mw_node_event(w, s, n, MN_EVENT(MN_BOOT, 0));
    }
    for (round = 0; round < 6; round++)
        mw_go_on(w, s, mw_sum(w, s, 0)->epoch == 0 && o->begin != MW_NEW);
    mn_bug = o->bug;
    if (o->begin == MW_VACANT || o->begin == MW_ADDED)
        mw_make_vacant(w, s);
    if (o->begin == MW_RENEWED)
        mw_renew(w, s);
    if (o->begin == MW_OUT || o->begin == MW_LEARNER || o->begin == MW_STOPPED)
        mw_leave_out(w, s);
    if (o->begin == MW_BOOTED)
        mw_forget(w, s);
    if (o->begin == MW_FREE || o->begin == MW_STOPPED)
        mw_set_free(w, s);
    for (n = 0; n + 1 < w->nodes && o->begin == MW_STOPPED; n++)
        (void)mw_node_event(w, s, n, MN_EVENT(MN_CRASH, 0));
    if (o->begin == MW_LEARNER)
        mw_go_on(w, s, 1);
    if (o->begin == MW_LEARNER)
        mw_go_on(w, s, 0);
    w->begun = 1;
    for (n = 0; n < w->nodes && o->ends != 0; n++)
        (void)mw_node_event(w, s, n, MN_EVENT(MN_WIND, 0));
}
