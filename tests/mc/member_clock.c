/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * Time in the explorer of memberships, when it passes: each node's clock at a rate of its own, and
 * true time goes on to when the next node has something to do. A message comes before that, or is
 * lost; a few may be late. Files are written at once, and links that are sure lose nothing.
 */
#include "member_world_priv.h"

uint32_t mw_clock_next(const struct mw_world *w, const struct mw_state *s)
{
    uint32_t next = UINT32_MAX, n;

    for (n = 0; n < w->nodes; n++) {
        const struct mn_sum *d = mw_sum(w, s, n);
        uint32_t at = d->alive ? mn_true(w->space, n, d->wake_ns) : UINT32_MAX;

        if (at < next)
            next = at;
    }
    if (next <= s->h.now)
        next = s->h.now + 1;
    return next <= w->o.ends ? next : 0;
}

int mw_clock_may(const struct mw_world *w, const struct mw_state *s)
{
    uint32_t i, n;

    for (n = 0; n < w->nodes; n++)
        if (mw_sum(w, s, n)->storing)
            return 0;
    for (i = 0; i < s->h.messages; i++) {
        const struct mn_message *m = mn_message(w->space, s->msg[i]);

        if ((w->o.sure & MW_PAIR(m->msg.src, m->dst)) != 0)
            return 0;
    }
    return 1;
}

void mw_clock_go(struct mw_world *w, struct mw_state *s, uint32_t at, uint32_t keep)
{
    uint32_t n;

    if (!keep)
        s->h.messages = 0;
    s->h.now = at;
    for (n = 0; n < w->nodes; n++)
        if (mw_sum(w, s, n)->alive)
            (void)mw_node_event(w, s, n, MN_EVENT(MN_CLOCK, at));
}
