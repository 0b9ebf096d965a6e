/* SPDX-License-Identifier: Apache-2.0 OR MIT */
#include "member_world_priv.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char *const mw_bads[] = {
    NULL,
    "S2: two views chosen in an epoch",
    "S2: an epoch was skipped",
    "S2: a ballot with two values",
    "S3: a file went back",
    "S3: a promise was broken",
    "S4: FULL out of nothing",
    "S4: FULL out of a log that is not good",
    "S4: a learner under an incarnation that was there before",
    "S4: an incarnation went back",
    "S5: an incarnation of two lives",
    "S6: a confirmation of one who had been voted out",
    "S7: a configuration that changed unannounced, or by two nodes",
    "S7: a vote for a node that is not FULL, or for a dead file",
    "an event was refused",
    "the model has no room",
};

static size_t mw_store(const struct mw_state *s, void *out)
{
    size_t n = sizeof(s->h) + s->h.messages * sizeof(s->msg[0]);

    memcpy(out, s, n);
    return n;
}

/* ---- Messages ---- */

static void mw_put(struct mw_state *s, uint32_t message)
{
    uint32_t i = s->h.messages;

    if (i == MW_MESSAGES) {
        s->h.bad = MW_B_ROOM;
        return;
    }
    for (; i > 0 && s->msg[i - 1] > message; i--)
        s->msg[i] = s->msg[i - 1];
    s->msg[i] = message;
    s->h.messages++;
}

void mw_take(struct mw_state *s, uint32_t message)
{
    uint32_t i = 0;

    while (i < s->h.messages && s->msg[i] != message)
        i++;
    if (i == s->h.messages)
        return;
    s->h.messages--;
    memmove(&s->msg[i], &s->msg[i + 1], (s->h.messages - i) * sizeof(s->msg[0]));
}

/* ---- Events ---- */

static void mw_note_sent(struct mw_world *w, struct mw_state *s, uint32_t n,
                         const struct mn_result *r)
{
    uint32_t i;

    for (i = 0; i < r->outs; i++) {
        const struct mn_message *m = mn_message(w->space, r->out[i]);
        struct mw_grant *g = &s->h.grant[n][m->dst];

        if (m->msg.src_incarnation > s->h.sent_as[n])
            s->h.sent_as[n] = m->msg.src_incarnation;
        if (m->msg.type != SNIC_MEMBER_GRANT)
            continue;
        if (g->incarnation != m->msg.dst_incarnation || g->seq < m->msg.seq)
            g->seq = (uint32_t)m->msg.seq;
        g->incarnation = m->msg.dst_incarnation;
    }
}

/* Can it? What may be lost may be lost always. */
static int mw_arrives(const struct mw_world *w, const struct mn_message *m)
{
    if (!w->begun)
        return 1;
    if (w->o.links != 0 && (w->o.links & MW_PAIR(m->msg.src, m->dst)) == 0)
        return 0;
    return w->o.types == 0 || (w->o.types >> m->msg.type & 1) != 0;
}

/* The file and the log that a node has, or will have when its first STORE is done. */
static void mw_note_log(struct mw_world *w, struct mw_state *s, uint32_t n, uint32_t event)
{
    const struct snic_member_record *disk = mn_disk(w->space, s->h.node[n]);
    uint32_t boots = event >> 27 == MN_BOOT;

    s->h.since[n] = boots && (disk->since == 0 || (event & MN_LOST) != 0)
                        ? mw_sum(w, s, n)->incarnation
                        : disk->since;
    if (boots && (event & MN_SUSPECT) != 0)
        s->h.suspect[n] = mw_sum(w, s, n)->incarnation;
}

static uint32_t mw_newest(const struct mw_state *s)
{
    uint32_t e = MW_EPOCHS;

    while (e > 0 && s->h.chosen[e - 1] == 0)
        e--;
    return e > 0 ? e - 1 : 0;
}

/* S6 */
static void mw_confirmed(const struct mw_world *w, struct mw_state *s, uint32_t n)
{
    uint32_t e;

    for (e = 0; e < s->h.wanted[n]; e++) {
        const struct snic_member_view *v;

        if (s->h.chosen[e] == 0 || e < mw_sum(w, s, n)->installed)
            continue;
        v = mn_view(w->space, s->h.chosen[e] - 1);
        if (!mw_is(v->full, v, n, mw_sum(w, s, n)->incarnation))
            s->h.bad = MW_B_CONFIRM;
    }
    s->h.wanted[n] = 0;
}

int mw_node_event(struct mw_world *w, struct mw_state *s, uint32_t n, uint32_t event)
{
    const struct mn_result *r = mn_step(w->space, s->h.node[n], event);
    uint32_t kind = event >> 27, i, before = s->h.node[n];

    if (r->bad != NULL) {
        s->h.bad = MW_B_TEXT;
        s->h.culprit = (uint8_t)n;
        s->h.event = event;
        return 1;
    }
    if ((kind == MN_CHANGE || kind == MN_CAUGHT_UP) && r->status != 0)
        return 0; /* refused: nothing happened */
    if (r->status != 0 && kind != MN_MESSAGE) {
        s->h.bad = MW_B_EVENT;
        return 1;
    }
    if (r->status == SNIC_EPROTO) {
        s->h.bad = MW_B_EVENT;
        return 1;
    }
    if (kind == MN_STORED || (kind == MN_CRASH && (event & 1) != 0))
        mw_on_disk(w, s, n);
    s->h.node[n] = r->node;
    if (kind == MN_BOOT && (event & (w->o.below ? MN_OLD | MN_LOST : MN_OLD)) != 0)
        s->h.sent_as[n] = 0;
    if (kind == MN_BOOT && s->h.sent_as[n] != 0 && mw_sum(w, s, n)->incarnation <= s->h.sent_as[n])
        s->h.bad = MW_B_TWICE;
    if (kind == MN_BOOT)
        for (i = 0; i < MW_EPOCHS; i++)
            s->h.before[i][n] = 0;
    if (kind == MN_CONFIRM || kind == MN_BOOT) {
        s->h.wanted[n] = kind == MN_CONFIRM ? mw_newest(s) + 1 : 0;
        s->h.above[n] = kind == MN_CONFIRM ? mn_sum(w->space, before)->seq : 0;
    }
    if (r->confirmed > s->h.above[n])
        mw_confirmed(w, s, n);
    for (i = 0; i < r->outs; i++)
        if (mw_arrives(w, mn_message(w->space, r->out[i])))
            mw_put(s, r->out[i]);
    mw_note_sent(w, s, n, r);
    if (kind == MN_EXPIRE)
        s->h.over[n] = mw_sum(w, s, n)->seq;
    if (kind == MN_BOOT)
        s->h.over[n] = 0;
    if (kind == MN_BOOT || kind == MN_CRASH)
        mw_note_log(w, s, n, event);
    if (kind == MN_CAUGHT_UP)
        s->h.caught[n] = mw_sum(w, s, n)->incarnation;
    if (kind == MN_GRANT_END)
        memset(&s->h.grant[n][event & 15], 0, sizeof(s->h.grant[n][0]));
    return r->node != before || r->outs != 0;
}

/* Has the lease ended that was made of this grant? */
static int mw_ended(const struct mw_world *w, const struct mw_state *s, uint32_t from, uint32_t to)
{
    const struct mw_grant *g = &s->h.grant[from][to];
    const struct mn_sum *d = mw_sum(w, s, to);

    return w->o.clockless || g->incarnation == 0 || !d->alive || d->incarnation != g->incarnation ||
           g->seq <= s->h.over[to];
}

/* What can have no effect any more: a heartbeat that was overtaken, its grant, by a dead node. */
static void mw_settle(struct mw_world *w, struct mw_state *s)
{
    uint32_t i, k = 0;

    for (i = 0; i < s->h.messages && s->h.bad == 0 && !w->o.clockless; i++) {
        const struct mn_message *m = mn_message(w->space, s->msg[i]);
        const struct mn_sum *d = mw_sum(w, s, m->dst);

        if (m->msg.type == SNIC_MEMBER_GRANT && d->alive &&
            (m->msg.dst_incarnation != d->incarnation || m->msg.seq <= s->h.over[m->dst]))
            continue;
        s->msg[k++] = s->msg[i];
    }
    if (s->h.bad == 0 && !w->o.clockless)
        s->h.messages = (uint16_t)k;
}

/* ---- What may happen ---- */

struct mw_list {
    uint64_t *at;
    uint32_t count;
};

static void mw_may(struct mw_list *l, uint64_t action)
{
    if (l->count == MC_ACTIONS_MAX)
        abort();
    l->at[l->count++] = action;
}

/* An event of a node, if it is one of those that happen. */
static void mw_may_node(const struct mw_world *w, struct mw_list *l, uint32_t n, uint32_t kind,
                        uint32_t arg)
{
    uint32_t who = w->o.who[kind];

    if (who == 0 || (kind == MN_SILENT ? (who & MW_PAIR(n, arg)) != 0 : (who >> n & 1) != 0))
        mw_may(l, MW_ACTION(MW_NODE, n, MN_EVENT(kind, arg)));
}

static void mw_may_message(const struct mw_world *w, const struct mw_state *s, struct mw_list *l)
{
    uint32_t i;

    for (i = 0; i < s->h.messages; i++) {
        uint32_t m = s->msg[i], n = mn_message(w->space, m)->dst;

        if ((i > 0 && s->msg[i - 1] == m) || !mw_sum(w, s, n)->alive)
            continue;
        mw_may(l, MW_ACTION(MW_NODE, n, MN_EVENT(MN_MESSAGE, m)));
        if (s->h.used[MW_DOUBLES] < w->o.doubles)
            mw_may(l, MW_ACTION(MW_DOUBLE, n, MN_EVENT(MN_MESSAGE, m)));
    }
}

static void mw_may_time(const struct mw_world *w, const struct mw_state *s, uint32_t n,
                        struct mw_list *l)
{
    const struct mn_sum *d = mw_sum(w, s, n);
    uint32_t p, all = 1;

    if (s->h.used[MW_BEATS] < w->o.beats)
        mw_may_node(w, l, n, MN_BEAT, 0);
    if (d->armed && s->h.used[MW_PROPOSALS] < w->o.proposals)
        mw_may_node(w, l, n, MN_PROPOSE, 0);
    if (d->phase != 0 && s->h.used[MW_RESENDS] < w->o.resends)
        mw_may_node(w, l, n, MN_RESEND, 0);
    if ((d->requested || d->leased) && s->h.used[MW_EXPIRIES] < w->o.expiries)
        mw_may_node(w, l, n, MN_EXPIRE, 0);
    if (d->stuck && s->h.used[MW_WAITS] < w->o.waits)
        mw_may_node(w, l, n, MN_WAITED, 0);
    if (d->role == SNIC_MEMBER_ROLE_LEARNER && !d->caught)
        mw_may_node(w, l, n, MN_CAUGHT_UP, 0);
    for (p = 0; p < w->nodes; p++) {
        if (p == n)
            continue;
        if ((d->hears >> p & 1) != 0 && s->h.used[MW_SILENCES] < w->o.silences)
            mw_may_node(w, l, n, MN_SILENT, p);
        if ((d->granted >> p & 1) != 0 && mw_ended(w, s, n, p))
            mw_may_node(w, l, n, MN_GRANT_END, p);
        all &= (uint32_t)mw_ended(w, s, n, p);
    }
    if (d->quiet && all)
        mw_may_node(w, l, n, MN_QUIET_END, 0);
    for (p = 0, all = 1; p < w->nodes; p++)
        all &= w->o.clockless || !mw_sum(w, s, p)->alive || d->config_epoch >= MW_EPOCHS ||
               s->h.over[p] >= s->h.before[d->config_epoch][p];
    if (d->config && all)
        mw_may_node(w, l, n, MN_CONFIG_END, 0);
    if (s->h.used[MW_CONFIRMS] < w->o.confirms && d->role == SNIC_MEMBER_ROLE_FULL && d->requested)
        mw_may_node(w, l, n, MN_CONFIRM, 0);
    if (s->h.used[MW_CHANGES] >= w->o.changes || d->role != SNIC_MEMBER_ROLE_FULL)
        return;
    for (p = 0; p < 3 * w->nodes; p++)
        if ((w->o.change[p / w->nodes] >> p % w->nodes & 1) != 0 && p % w->nodes != n)
            mw_may_node(w, l, n, MN_CHANGE, MN_CHANGE_OF(p / w->nodes + 1, p % w->nodes));
}

static void mw_may_boot(const struct mw_world *w, const struct mw_state *s, uint32_t n,
                        struct mw_list *l)
{
    if (s->h.used[MW_BOOTS] >= w->o.boots)
        return;
    if (w->o.losers == 0 || (w->o.losers >> n & 1) == 0)
        mw_may_node(w, l, n, MN_BOOT, 0);
    if (s->h.used[MW_LOSSES] < w->o.losses && (w->o.losers == 0 || (w->o.losers >> n & 1) != 0))
        mw_may_node(w, l, n, MN_BOOT, MN_LOST | (w->o.misuse ? MN_FOUND : 0u));
    if (s->h.used[MW_OLDS] < w->o.olds && mw_sum(w, s, n)->has_old)
        mw_may_node(w, l, n, MN_BOOT, MN_OLD);
    if (s->h.used[MW_SUSPECTS] < w->o.suspects)
        mw_may_node(w, l, n, MN_BOOT, MN_SUSPECT);
}

static uint32_t mw_actions(void *ctx, const void *state, size_t len, uint64_t *out)
{
    struct mw_world *w = ctx;
    struct mw_list l = {out, 0};
    struct mw_state s;
    uint32_t n;

    memcpy(&s, state, len);
    if (s.h.bad != 0)
        return 0;
    mw_may_message(w, &s, &l);
    if (w->o.ends != 0 && mw_clock_may(w, &s)) {
        uint32_t at = mw_clock_next(w, &s);

        if (at != 0)
            mw_may(&l, MW_ACTION(MW_TIME, 0, at));
        if (at != 0 && s.h.messages != 0 && s.h.used[MW_LATES] < w->o.lates)
            mw_may(&l, MW_ACTION(MW_LATE, 0, at));
    }
    for (n = 0; n < w->nodes; n++) {
        const struct mn_sum *d = mw_sum(w, &s, n);

        if (!d->alive) {
            mw_may_boot(w, &s, n, &l);
            continue;
        }
        if (d->storing)
            mw_may_node(w, &l, n, MN_STORED, 0);
        if (w->o.ends == 0)
            mw_may_time(w, &s, n, &l);
        if (s.h.used[MW_CRASHES] < w->o.crashes) {
            mw_may_node(w, &l, n, MN_CRASH, 0);
            if (d->storing)
                mw_may_node(w, &l, n, MN_CRASH, 1);
        }
    }
    return l.count;
}

static void mw_use(struct mw_state *s, uint32_t event)
{
    static const uint8_t budgets[] = {
        [MN_PROPOSE] = MW_PROPOSALS + 1, [MN_RESEND] = MW_RESENDS + 1,
        [MN_SILENT] = MW_SILENCES + 1,   [MN_EXPIRE] = MW_EXPIRIES + 1,
        [MN_CRASH] = MW_CRASHES + 1,     [MN_BOOT] = MW_BOOTS + 1,
        [MN_WAITED] = MW_WAITS + 1,      [MN_CHANGE] = MW_CHANGES + 1,
        [MN_CONFIRM] = MW_CONFIRMS + 1};
    uint32_t kind = event >> 27;

    if (kind == MN_BEAT)
        s->h.used[MW_BEATS]++;
    else if (kind < sizeof(budgets) && budgets[kind] != 0)
        s->h.used[budgets[kind] - 1]++;
    if (kind == MN_BOOT && (event & MN_LOST) != 0)
        s->h.used[MW_LOSSES]++;
    if (kind == MN_BOOT && (event & MN_SUSPECT) != 0)
        s->h.used[MW_SUSPECTS]++;
    if (kind == MN_BOOT && (event & MN_OLD) != 0)
        s->h.used[MW_OLDS]++;
}

static size_t mw_apply(void *ctx, const void *state, size_t len, uint64_t action, void *out)
{
    struct mw_world *w = ctx;
    uint32_t n = action >> 32 & 255, event = (uint32_t)action;
    struct mw_state s;
    int any;

    memcpy(&s, state, len);
    if (action >> 40 >= MW_TIME) {
        if (action >> 40 == MW_LATE)
            s.h.used[MW_LATES]++;
        mw_clock_go(w, &s, event, action >> 40 == MW_LATE);
        return mw_store(&s, out);
    }
    if (action >> 40 == MW_DOUBLE)
        s.h.used[MW_DOUBLES]++;
    else if (event >> 27 == MN_MESSAGE)
        mw_take(&s, event & ((1u << 27) - 1));
    mw_use(&s, event);
    any = mw_node_event(w, &s, n, event);
    if (!any && event >> 27 != MN_MESSAGE)
        return 0;
    mw_settle(w, &s);
    return mw_store(&s, out);
}

/* ---- Predicates ---- */

static const char *mw_check_node(const struct mw_world *w, const struct mw_state *s, uint32_t n)
{
    const struct mn_sum *d = mw_sum(w, s, n);
    uint32_t e;

    if (!d->alive)
        return NULL;
    if (d->bad != NULL)
        return d->bad;
    if (d->epoch >= MW_EPOCHS || (d->epoch != 0 && s->h.chosen[d->epoch] != d->view + 1))
        return "S2: what a node takes for decided was not chosen";
    if (!d->leased || w->o.clockless)
        return NULL;
    if (d->role != SNIC_MEMBER_ROLE_FULL)
        return "S1: a lease without being FULL";
    for (e = d->installed; e < MW_EPOCHS; e++) {
        const struct snic_member_view *v;

        if (s->h.chosen[e] == 0)
            continue;
        v = mn_view(w->space, s->h.chosen[e] - 1);
        if (!mw_is(v->full, v, n, d->incarnation))
            return "S1: a lease of one who was voted out";
    }
    return NULL;
}

static const char *mw_check(void *ctx, const void *state, size_t len)
{
    struct mw_world *w = ctx;
    const char *why = NULL;
    struct mw_state s;
    uint32_t n;

    memcpy(&s, state, len);
    if (s.h.bad == MW_B_TEXT)
        return mn_step(w->space, s.h.node[s.h.culprit], s.h.event)->bad;
    if (s.h.bad != 0)
        return mw_bads[s.h.bad];
    for (n = 0; n < w->nodes && why == NULL; n++)
        why = mw_check_node(w, &s, n);
    return why;
}

/* ---- The model ---- */

static size_t mw_init(void *ctx, uint32_t i, void *state)
{
    return i == 0 ? mw_store(&((struct mw_world *)ctx)->first, state) : 0;
}

static void mw_print_message(const struct mn_message *x, char *text, size_t size)
{
    static const char *const types[] = {"?",       "HEARTBEAT", "GRANT",    "PREPARE",
                                        "PROMISE", "ACCEPT",    "ACCEPTED", "REJECT",
                                        "DECIDED", "FENCE",     "FENCE_ACK"};
    const struct snic_member_msg *m = &x->msg;

    (void)snprintf(text, size,
                   "%s from %u: epoch %u inc %u %u seq %u ballot %u.%u.%u view %u full %x "
                   "learners %x%s flags %x accepted %llx",
                   m->type < 11 ? types[m->type] : "?", m->src, m->epoch, m->src_incarnation,
                   m->dst_incarnation, (unsigned)m->seq, (unsigned)(m->ballot >> 36),
                   (unsigned)(m->ballot >> 4), (unsigned)(m->ballot & 15), m->view.epoch,
                   m->view.full, m->view.learners, m->view.restart ? " restart" : "", m->flags,
                   (unsigned long long)m->accepted);
}

static void mw_print(void *ctx, const void *state, size_t len, uint64_t action, char *text,
                     size_t size)
{
    static const char *const kinds[] = {"?",
                                        "gets",
                                        "has stored",
                                        "sends heartbeats",
                                        "proposes",
                                        "sends again",
                                        "hears not",
                                        "loses all leases requested",
                                        "ends grant",
                                        "ends its quiet",
                                        "has waited",
                                        "has caught up",
                                        "crashes",
                                        "boots",
                                        "winds",
                                        "clock",
                                        "is asked for a change",
                                        "ends its quiet of the configuration",
                                        "wants a confirmation"};
    struct mw_world *w = ctx;
    uint32_t event = (uint32_t)action, kind = event >> 27, arg = event & ((1u << 27) - 1);
    char what[MC_TEXT];

    (void)state;
    (void)len;
    if (action >> 40 >= MW_TIME) {
        (void)snprintf(text, size, "it is %u.%02u ms%s", event / 100, event % 100,
                       action >> 40 == MW_LATE ? ", messages stay under way" : "");
        return;
    }
    if (kind == MN_MESSAGE)
        mw_print_message(mn_message(w->space, arg), what, sizeof(what));
    else
        (void)snprintf(what, sizeof(what), "%u", arg);
    (void)snprintf(text, size, "%s%u %s %.160s", action >> 40 == MW_DOUBLE ? "again: " : "",
                   (unsigned)(action >> 32 & 255), kinds[kind], what);
}

struct mw_world *mw_new(const struct mw_opts *o)
{
    struct mw_world *w = calloc(1, sizeof(*w));

    if (w == NULL)
        abort();
    w->o = *o;
    w->nodes = o->nodes != 0 ? o->nodes : MN_NODES;
    w->founders = o->founders != 0 ? o->founders : (1u << w->nodes) - 1;
    mw_begin_state(w);
    w->model.name = "member";
    w->model.ctx = w;
    w->model.init = mw_init;
    w->model.actions = mw_actions;
    w->model.apply = mw_apply;
    w->model.check = mw_check;
    w->model.print = mw_print;
    return w;
}

void mw_free(struct mw_world *w)
{
    mn_space_free(w->space);
    free(w);
}

const struct mc_model *mw_model(struct mw_world *w)
{
    return &w->model;
}
