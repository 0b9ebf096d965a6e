/* SPDX-License-Identifier: Apache-2.0 OR MIT */
#include "ddp_world.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define DW_MESSAGES 160

enum dw_action {
    DW_NODE = 0,
    DW_DOUBLE,
    DW_LOSE,
    DW_DECIDE_OUT,
    DW_DECIDE_IN,
    DW_DECIDE_FULL,
    DW_DECIDE_RESTART,
    DW_CRASH_ALL
};
#define DW_ACTION(kind, node, arg) ((uint64_t)(kind) << 40 | (uint64_t)(node) << 32 | (arg))

enum dw_fate { DW_OPEN = 0, DW_ANSWERED, DW_REFUSED, DW_UNKNOWN };

/* Everything but the messages; no padding. */
struct dw_head {
    uint64_t ts[DW_WRITES];
    uint64_t base[DW_WRITES]; /* of a swap: what it was of */
    uint64_t seen[DN_KEYS];
    uint32_t node[DN_NODES];
    uint32_t view;
    uint8_t key[DW_WRITES];
    uint8_t scope[DW_WRITES];
    uint8_t owner[DW_WRITES];
    uint8_t fate[DW_WRITES]; /* enum dw_fate */
    uint8_t kind[DW_WRITES]; /* enum dn_event */
    uint8_t read;            /* writes that could be read somewhere, bits */
    uint8_t asked;           /* scopes, bits: node * 2 + scope - 1 */
    uint8_t synced;          /* answered */
    uint8_t count;           /* writes of all kinds */
    uint8_t used[10];        /* budgets */
    uint8_t caught;          /* learners that have caught up, bits */
    uint8_t begun;           /* nodes whose lease was ended, bits */
    uint8_t turn;            /* of timers, in a quiet time */
    uint8_t bad;             /* what happened on the way, index of dw_bads */
    uint8_t pad[2];
    uint16_t messages;
};
enum dw_budget {
    DW_PLAIN,
    DW_DELETES,
    DW_SWAPS,
    DW_CRASHES,
    DW_EVICTIONS,
    DW_REJOINS,
    DW_RESTARTS,
    DW_DOUBLES,
    DW_LOSSES,
    DW_RESENDS
};
/* DW_LOCKS shares the last byte of the pad. */
#define DW_LOCKS(h) ((h)->pad[0])

struct dw_state {
    struct dw_head h;
    uint32_t msg[DW_MESSAGES]; /* sorted */
};

struct dw_world {
    struct dw_opts o;
    struct dn_space *space;
    struct mc_model model;
    struct dw_state first;
};

static const char *const dw_bads[] = {
    NULL,
    "R2: a new timestamp is not above all that was answered or read",
    "R3: two writes have one timestamp",
    "an event failed that the model takes for possible",
    "an answer to nothing that was asked",
    "an answer with a result that cannot be",
    "the model has no room for so many messages",
    "an answer names another timestamp than the write has",
    "E: a message of another epoch or incarnation was taken",
};
enum {
    DW_B_R2 = 1,
    DW_B_R3,
    DW_B_EVENT,
    DW_B_ANSWER,
    DW_B_RESULT,
    DW_B_ROOM,
    DW_B_TS,
    DW_B_STALE,
    DW_B_TEXT
};

/* ---- Bytes ---- */

static size_t dw_store(const struct dw_state *s, void *out)
{
    size_t n = sizeof(s->h) + s->h.messages * sizeof(s->msg[0]);

    memcpy(out, s, n);
    return n;
}

static void dw_load(struct dw_state *s, const void *state, size_t len)
{
    memcpy(s, state, len);
}

static const struct dn_sum *dw_sum(const struct dw_world *w, const struct dw_state *s, uint32_t n)
{
    return dn_sum(w->space, s->h.node[n]);
}

static const struct snic_ddp_view *dw_view(const struct dw_world *w, const struct dw_state *s)
{
    return dn_view_at(w->space, s->h.view);
}

static int dw_full(const struct dw_world *w, const struct dw_state *s, uint32_t n)
{
    return dw_view(w, s)->full >> n & 1;
}

/* ---- Messages ---- */

static void dw_put(struct dw_state *s, uint32_t message)
{
    uint32_t i = s->h.messages;

    if (i == DW_MESSAGES) {
        s->h.bad = DW_B_ROOM;
        return;
    }
    for (; i > 0 && s->msg[i - 1] > message; i--)
        s->msg[i] = s->msg[i - 1];
    s->msg[i] = message;
    s->h.messages++;
}

static void dw_take(struct dw_state *s, uint32_t message)
{
    uint32_t i = 0;

    while (i < s->h.messages && s->msg[i] != message)
        i++;
    if (i == s->h.messages)
        return;
    s->h.messages--;
    memmove(&s->msg[i], &s->msg[i + 1], (s->h.messages - i) * sizeof(s->msg[0]));
}

/* 1: may be taken now, 0: later perhaps, -1: never. */
static int dw_fits(const struct dw_world *w, const struct dw_state *s, uint32_t message)
{
    const struct snic_ddp_msg *m = dn_message(w->space, message);
    const struct dn_sum *n = dw_sum(w, s, m->dst);

    if (!n->alive || m->dst_incarnation != n->incarnation || m->epoch < n->epoch)
        return -1;
    if (m->epoch == n->epoch &&
        dn_view_at(w->space, n->view)->incarnation[m->src] != m->src_incarnation)
        return -1;
    return m->epoch == n->epoch;
}

static void dw_drop_stale(const struct dw_world *w, struct dw_state *s)
{
    uint32_t i, n = 0;

    for (i = 0; i < s->h.messages; i++) {
        uint32_t to = dn_message(w->space, s->msg[i])->dst;

        if (dw_fits(w, s, s->msg[i]) >= 0)
            s->msg[n++] = s->msg[i];
        else if (dw_sum(w, s, to)->alive &&
                 dn_step(w->space, s->h.node[to], DN_EVENT(DN_MESSAGE, s->msg[i]))->status !=
                     SNIC_ESTALE)
            s->h.bad = DW_B_STALE; /* Rule E */
    }
    s->h.messages = (uint16_t)n;
}

/* ---- What was promised ---- */

static uint64_t dw_done(const struct dw_state *s, uint32_t key)
{
    uint64_t most = 0;
    uint32_t i;

    for (i = 0; i < s->h.count; i++)
        if (s->h.fate[i] == DW_ANSWERED && s->h.key[i] == key && s->h.ts[i] > most)
            most = s->h.ts[i];
    return most;
}

/* A node has a value that nobody had yet: now its write has a timestamp. */
static void dw_note_ts(struct dw_state *s, uint32_t i, uint64_t ts)
{
    uint32_t k;
    uint64_t done = dw_done(s, s->h.key[i]);

    s->h.ts[i] = ts;
    if (ts <= done || ts <= s->h.seen[s->h.key[i]])
        s->h.bad = DW_B_R2;
    for (k = 0; k < s->h.count; k++)
        if (k != i && s->h.ts[k] == ts && s->h.key[k] == s->h.key[i])
            s->h.bad = DW_B_R3;
}

static void dw_note_reads(const struct dw_world *w, struct dw_state *s)
{
    uint32_t n, k, i;

    for (n = 0; n < w->o.node.nodes; n++) {
        const struct dn_sum *d = dw_sum(w, s, n);

        if (!d->reads)
            continue;
        for (k = 0; k < w->o.node.keys; k++) {
            if (d->key[k].rd != 0)
                continue;
            if (d->key[k].vts > s->h.seen[k])
                s->h.seen[k] = d->key[k].vts;
            for (i = 0; i < s->h.count; i++)
                if (s->h.ts[i] == d->key[k].vts && s->h.key[i] == k && s->h.ts[i] != 0)
                    s->h.read |= (uint8_t)(1u << i);
        }
    }
}

static void dw_answer_write(struct dw_state *s, uint32_t i, const struct dn_done *d)
{
    if (i >= s->h.count || s->h.fate[i] != DW_OPEN) {
        s->h.bad = DW_B_ANSWER;
        return;
    }
    if (d->result == 0) {
        s->h.fate[i] = DW_ANSWERED;
        if (s->h.ts[i] != d->ts)
            s->h.bad = DW_B_TS;
    } else if (d->result == SNIC_ECANCELED && s->h.kind[i] == DN_CAS) {
        s->h.fate[i] = DW_REFUSED;
    } else if (d->result == SNIC_EUNKNOWN) {
        s->h.fate[i] = DW_UNKNOWN;
    } else {
        s->h.bad = DW_B_RESULT;
    }
}

static void dw_answers(struct dw_state *s, const struct dn_result *r)
{
    uint32_t i;

    for (i = 0; i < r->dones; i++) {
        const struct dn_done *d = &r->done[i];

        if (d->token < 64) {
            dw_answer_write(s, (uint32_t)d->token - 1, d);
        } else {
            uint8_t bit = (uint8_t)(1u << (d->token - 65));

            if ((s->h.asked & bit) == 0 || (s->h.synced & bit) != 0)
                s->h.bad = DW_B_ANSWER;
            else if (d->result == 0)
                s->h.synced |= bit;
            else if (d->result != SNIC_ESTALE && d->result != SNIC_EUNKNOWN)
                s->h.bad = DW_B_RESULT;
        }
    }
}

/* ---- An event at a node ---- */

/* 0: it had no effect. */
static int dw_node_event(const struct dw_world *w, struct dw_state *s, uint32_t n, uint32_t event)
{
    const struct dn_result *r = dn_step(w->space, s->h.node[n], event);
    uint32_t kind = event >> 27, i;

    if (r->bad != NULL) {
        s->h.bad = DW_B_TEXT; /* check() asks dn_step() again */
        s->h.view = event;
        s->h.turn = (uint8_t)n;
        return 1;
    }
    if (r->status != 0) {
        if (kind != DN_MESSAGE && r->status != SNIC_EAGAIN)
            s->h.bad = DW_B_EVENT;
        if (r->status == SNIC_EPROTO)
            s->h.bad = DW_B_EVENT;
        return s->h.bad != 0;
    }
    s->h.node[n] = r->node;
    for (i = 0; i < r->outs; i++)
        dw_put(s, r->out[i]);
    if (kind == DN_WRITE || kind == DN_DELETE || kind == DN_CAS) {
        uint32_t k = event & 15;

        i = (event >> 4 & 255) - 1;
        s->h.key[i] = (uint8_t)k;
        s->h.scope[i] = (uint8_t)(event >> 12 & 255);
        s->h.owner[i] = (uint8_t)n;
        s->h.kind[i] = (uint8_t)kind;
        s->h.count++;
    }
    for (i = 0; i < s->h.count; i++) {
        const struct dn_key *k = &dw_sum(w, s, n)->key[s->h.key[i]];

        if (s->h.ts[i] == 0 && s->h.owner[i] == n &&
            (s->h.kind[i] == DN_DELETE ? i + 1u == s->h.count && kind == DN_DELETE
                                       : k->value == i + 1u))
            dw_note_ts(s, i, k->vts);
    }
    if (kind == DN_INSTALL && dw_sum(w, s, n)->lease)
        s->h.begun &= (uint8_t) ~(1u << n); /* granted anew */
    if (r->caught_up)
        s->h.caught |= (uint8_t)(1u << n);
    dw_answers(s, r);
    return 1;
}

static void dw_settle(const struct dw_world *w, struct dw_state *s)
{
    if (s->h.bad != 0)
        return;
    dw_drop_stale(w, s);
    dw_note_reads(w, s);
}

/* ---- Memberships ---- */

static int dw_installed(const struct dw_world *w, const struct dw_state *s)
{
    const struct snic_ddp_view *v = dw_view(w, s);
    uint32_t n;

    for (n = 0; n < w->o.node.nodes; n++)
        if (((v->full | v->learners) >> n & 1) != 0 && dw_sum(w, s, n)->alive &&
            dw_sum(w, s, n)->epoch < v->epoch)
            return 0;
    return 1;
}

static uint32_t dw_donor(const struct dw_world *w, const struct dw_state *s, uint32_t full)
{
    uint32_t n;

    for (n = 0; n < w->o.node.nodes; n++)
        if ((full >> n & 1) != 0 && dw_sum(w, s, n)->alive)
            return n;
    return 0;
}

static void dw_decide(struct dw_world *w, struct dw_state *s, uint32_t full, uint32_t learners,
                      uint32_t restart)
{
    struct snic_ddp_view v = *dw_view(w, s);
    uint32_t n;

    v.epoch++;
    v.full = (uint16_t)full;
    v.learners = (uint16_t)learners;
    v.restart = restart;
    v.donor = dw_donor(w, s, full);
    for (n = 0; n < w->o.node.nodes; n++)
        v.incarnation[n] = dw_sum(w, s, n)->incarnation;
    s->h.view = dn_view(w->space, &v);
}

/* Members that may be left out: dead, or without a lease. */
static uint32_t dw_out(const struct dw_world *w, const struct dw_state *s)
{
    uint32_t n, out = 0;

    for (n = 0; n < w->o.node.nodes; n++) {
        const struct dn_sum *d = dw_sum(w, s, n);

        if (((dw_view(w, s)->full | dw_view(w, s)->learners) >> n & 1) == 0)
            continue;
        if (!d->alive || (s->h.begun >> n & 1) != 0 ||
            d->incarnation != dw_view(w, s)->incarnation[n])
            out |= 1u << n;
    }
    return out;
}

/* Who could come in as a learner. */
static int dw_may_join(const struct dw_world *w, const struct dw_state *s, uint32_t n)
{
    const struct snic_ddp_view *v = dw_view(w, s);

    return dw_sum(w, s, n)->alive && dw_sum(w, s, n)->view == DN_NONE &&
           ((v->full | v->learners) >> n & 1) == 0 && s->h.used[DW_RESTARTS] == 0;
}

/* ---- What may happen ---- */

struct dw_list {
    uint64_t *at;
    uint32_t count;
};

static void dw_may(struct dw_list *l, uint64_t action)
{
    if (l->count == MC_ACTIONS_MAX)
        abort();
    l->at[l->count++] = action;
}

static void dw_may_message(const struct dw_world *w, const struct dw_state *s, struct dw_list *l,
                           int faults)
{
    uint32_t i;

    for (i = 0; i < s->h.messages; i++) {
        uint32_t m = s->msg[i], n = dn_message(w->space, m)->dst;

        if ((i > 0 && s->msg[i - 1] == m) || dw_fits(w, s, m) != 1)
            continue;
        dw_may(l, DW_ACTION(DW_NODE, n, DN_EVENT(DN_MESSAGE, m)));
        if (faults && s->h.used[DW_DOUBLES] < w->o.doubles &&
            (w->o.double_type == 0 || w->o.double_type == dn_message(w->space, m)->type))
            dw_may(l, DW_ACTION(DW_DOUBLE, n, DN_EVENT(DN_MESSAGE, m)));
        if (faults && s->h.used[DW_LOSSES] < w->o.losses)
            dw_may(l, DW_ACTION(DW_LOSE, n, DN_EVENT(DN_MESSAGE, m)));
    }
}

static void dw_may_log(const struct dw_world *w, const struct dw_state *s, struct dw_list *l)
{
    uint32_t n, i;

    for (n = 0; n < w->o.node.nodes; n++) {
        for (i = 0; i < dw_sum(w, s, n)->pending; i++)
            dw_may(l, DW_ACTION(DW_NODE, n, DN_EVENT(DN_APPENDED, i)));
        for (i = 0; i < dw_sum(w, s, n)->flushes; i++)
            dw_may(l, DW_ACTION(DW_NODE, n, DN_EVENT(DN_FLUSHED, i)));
    }
}

static void dw_may_write(const struct dw_world *w, const struct dw_state *s, uint32_t n,
                         struct dw_list *l)
{
    static const uint8_t kinds[3] = {DN_WRITE, DN_DELETE, DN_CAS};
    const uint32_t max[3] = {w->o.writes, w->o.deletes, w->o.swaps};
    uint32_t kind, key, scope;

    if (!dw_sum(w, s, n)->reads)
        return;
    for (kind = 0; kind < 3; kind++) {
        if (s->h.used[DW_PLAIN + kind] >= max[kind])
            continue;
        for (key = 0; key < w->o.node.keys; key++) {
            if (kind == 2 && dw_sum(w, s, n)->key[key].rd != 0)
                continue;
            /* A scope's number is its node's: n * 2 + 1 or + 2. */
            for (scope = 0; scope < (w->o.scopes != 0 ? w->o.scopes : 1); scope++)
                if (w->o.scopes == 0 || (s->h.asked >> (n * 2 + scope) & 1) == 0)
                    dw_may(l, DW_ACTION(
                                  DW_NODE, n,
                                  DN_EVENT(kinds[kind],
                                           key | (s->h.count + 1u) << 4 |
                                               (w->o.scopes != 0 ? n * 2 + scope + 1 : 0) << 12)));
        }
    }
    for (scope = 0; scope < w->o.scopes; scope++) {
        uint32_t i, any = 0;

        for (i = 0; i < s->h.count; i++)
            any |= s->h.scope[i] == n * 2 + scope + 1;
        if (any && (s->h.asked >> (n * 2 + scope) & 1) == 0)
            dw_may(l, DW_ACTION(DW_NODE, n, DN_EVENT(DN_SYNC, n * 2 + scope + 1)));
    }
}

static void dw_may_install(const struct dw_world *w, const struct dw_state *s, struct dw_list *l)
{
    const struct snic_ddp_view *v = dw_view(w, s);
    uint32_t n;

    for (n = 0; n < w->o.node.nodes; n++) {
        const struct dn_sum *d = dw_sum(w, s, n);

        if (d->alive && d->epoch < v->epoch && v->incarnation[n] == d->incarnation &&
            (((v->full | v->learners) >> n & 1) != 0 || d->view != DN_NONE))
            dw_may(l, DW_ACTION(DW_NODE, n, DN_EVENT(DN_INSTALL, s->h.view)));
    }
}

/* What the environment owes: to leave the dead out, to let in who waits. */
static void dw_may_decide(const struct dw_world *w, const struct dw_state *s, struct dw_list *l)
{
    const struct snic_ddp_view *v = dw_view(w, s);
    uint32_t out = dw_out(w, s), n;

    if (s->h.used[DW_RESTARTS] != 0)
        return;
    if (out != 0) {
        if ((v->full & ~out) != 0)
            dw_may(l, DW_ACTION(DW_DECIDE_OUT, 0, out));
        return;
    }
    for (n = 0; n < w->o.node.nodes; n++) {
        if (dw_may_join(w, s, n))
            dw_may(l, DW_ACTION(DW_DECIDE_IN, n, 0));
        if ((v->learners >> n & 1) != 0 && (s->h.caught >> n & 1) != 0 && dw_sum(w, s, n)->alive)
            dw_may(l, DW_ACTION(DW_DECIDE_FULL, n, 0));
    }
}

static void dw_may_fault(const struct dw_world *w, const struct dw_state *s, struct dw_list *l)
{
    uint32_t n, alive = 0, kept;

    for (n = 0; n < w->o.node.nodes; n++)
        alive += dw_sum(w, s, n)->alive && dw_full(w, s, n) && (s->h.begun >> n & 1) == 0;
    for (n = 0; n < w->o.node.nodes; n++) {
        const struct dn_sum *d = dw_sum(w, s, n);
        int last = dw_full(w, s, n) && (s->h.begun >> n & 1) == 0 && alive <= 1;

        if (d->alive && !last && s->h.used[DW_CRASHES] < w->o.crashes)
            for (kept = 0; kept <= d->pending; kept++)
                dw_may(l, DW_ACTION(DW_NODE, n, DN_EVENT(DN_CRASH, kept)));
        if (d->lease && !last && s->h.used[DW_EVICTIONS] < w->o.evictions)
            dw_may(l, DW_ACTION(DW_NODE, n, DN_EVENT(DN_LEASE_END, 0)));
        if (!d->alive && s->h.used[DW_REJOINS] < w->o.rejoins && s->h.used[DW_RESTARTS] == 0 &&
            ((dw_view(w, s)->full | dw_view(w, s)->learners) >> n & 1) == 0)
            dw_may(l, DW_ACTION(DW_NODE, n, DN_EVENT(DN_REBOOT, 0)));
    }
    if (s->h.used[DW_RESTARTS] < w->o.restarts)
        dw_may(l, DW_ACTION(DW_CRASH_ALL, 0, 0));
}

static void dw_may_fire(const struct dw_world *w, const struct dw_state *s, struct dw_list *l,
                        int all)
{
    uint32_t n, i;

    for (n = 0; n < w->o.node.nodes; n++)
        for (i = 0; i < dw_sum(w, s, n)->timers; i++) {
            int lock = dn_timer(w->space, s->h.node[n], i).kind == SNIC_DDP_TIMER_LOCK;

            if (all || (lock ? DW_LOCKS(&s->h) < w->o.locks : s->h.used[DW_RESENDS] < w->o.resends))
                dw_may(l, DW_ACTION(DW_NODE, n, DN_EVENT(DN_FIRE, i)));
        }
}

static uint32_t dw_actions(void *ctx, const void *state, size_t len, uint64_t *out)
{
    struct dw_world *w = ctx;
    struct dw_list l = {out, 0};
    struct dw_state s;
    uint32_t n;

    dw_load(&s, state, len);
    if (s.h.bad != 0)
        return 0;
    dw_may_message(w, &s, &l, 1);
    dw_may_log(w, &s, &l);
    dw_may_install(w, &s, &l);
    dw_may_decide(w, &s, &l);
    for (n = 0; n < w->o.node.nodes; n++)
        dw_may_write(w, &s, n, &l);
    dw_may_fault(w, &s, &l);
    dw_may_fire(w, &s, &l, 0);
    return l.count;
}

/* In a quiet time: what is under way first, then memberships, then timers in turn. */
static int dw_calm(void *ctx, const void *state, size_t len, uint64_t *action)
{
    struct dw_world *w = ctx;
    uint64_t all[MC_ACTIONS_MAX];
    struct dw_list l = {all, 0};
    struct dw_state s;

    dw_load(&s, state, len);
    if (s.h.bad != 0)
        return 0;
    dw_may_message(w, &s, &l, 0);
    dw_may_log(w, &s, &l);
    dw_may_install(w, &s, &l);
    if (l.count == 0)
        dw_may_decide(w, &s, &l);
    if (l.count > 0) {
        *action = l.at[0];
        return 1;
    }
    dw_may_fire(w, &s, &l, 1);
    if (l.count == 0)
        return 0;
    *action = l.at[s.h.turn % l.count];
    return 1;
}

/* ---- Steps ---- */

static void dw_use(struct dw_world *w, struct dw_state *s, uint32_t n, uint32_t event)
{
    uint32_t kind = event >> 27;

    if (kind >= DN_WRITE && kind <= DN_CAS)
        s->h.used[DW_PLAIN + (kind - DN_WRITE)]++;
    if (kind == DN_CAS)
        s->h.base[(event >> 4 & 255) - 1] = dw_sum(w, s, n)->key[event & 15].vts;
    if (kind == DN_SYNC)
        s->h.asked |= (uint8_t)(1u << ((event & 255) - 1));
    if (kind == DN_CRASH)
        s->h.used[DW_CRASHES]++;
    if (kind == DN_REBOOT)
        s->h.used[DW_REJOINS]++;
    if (kind == DN_LEASE_END) {
        s->h.used[DW_EVICTIONS]++;
        s->h.begun |= (uint8_t)(1u << n);
    }
    if (kind == DN_FIRE) {
        /* Beyond the budget only in quiet times, which turn. */
        if (dn_timer(w->space, s->h.node[n], event & 255).kind == SNIC_DDP_TIMER_LOCK) {
            if (DW_LOCKS(&s->h) < w->o.locks)
                DW_LOCKS(&s->h)++;
            else
                s->h.turn++;
        } else if (s->h.used[DW_RESENDS] < w->o.resends) {
            s->h.used[DW_RESENDS]++;
        } else {
            s->h.turn++;
        }
    }
}

/* What no log of a member has did not happen, as far as the model allows that (D). */
static void dw_unhappen(struct dw_world *w, struct dw_state *s)
{
    uint64_t most[DN_KEYS] = {0};
    uint32_t n, k;

    for (n = 0; n < w->o.node.nodes; n++)
        for (k = 0; k < w->o.node.keys; k++)
            if (dw_full(w, s, n) && dw_sum(w, s, n)->key[k].log > most[k])
                most[k] = dw_sum(w, s, n)->key[k].log;
    for (k = 0; k < w->o.node.keys; k++)
        if (s->h.seen[k] > most[k])
            s->h.seen[k] = most[k];
    for (n = 0; n < s->h.count; n++) {
        if (s->h.fate[n] == DW_OPEN || s->h.ts[n] > most[s->h.key[n]])
            s->h.fate[n] = DW_UNKNOWN;
        if (s->h.ts[n] > most[s->h.key[n]])
            s->h.read &= (uint8_t) ~(1u << n);
    }
}

static void dw_crash_all(struct dw_world *w, struct dw_state *s)
{
    uint32_t n;

    for (n = 0; n < w->o.node.nodes; n++) {
        if (dw_sum(w, s, n)->alive)
            (void)dw_node_event(w, s, n, DN_EVENT(DN_CRASH, 0));
        (void)dw_node_event(w, s, n, DN_EVENT(DN_REBOOT, 1));
    }
    s->h.used[DW_RESTARTS]++;
    dw_unhappen(w, s);
    dw_decide(w, s, dw_view(w, s)->full, 0, 1);
}

static int dw_environment(struct dw_world *w, struct dw_state *s, uint64_t action)
{
    const struct snic_ddp_view *v = dw_view(w, s);
    uint32_t n = action >> 32 & 255, arg = (uint32_t)action;

    switch (action >> 40) {
    case DW_DECIDE_OUT:
        dw_decide(w, s, v->full & ~arg, v->learners & ~arg, 0);
        s->h.caught &= (uint8_t)~arg;
        s->h.begun &= (uint8_t)~arg;
        return 1;
    case DW_DECIDE_IN:
        dw_decide(w, s, v->full, v->learners | 1u << n, 0);
        return 1;
    case DW_DECIDE_FULL:
        dw_decide(w, s, v->full | 1u << n, v->learners & ~(1u << n), 0);
        s->h.caught &= (uint8_t) ~(1u << n);
        return 1;
    case DW_CRASH_ALL:
        dw_crash_all(w, s);
        return 1;
    default:
        return 0;
    }
}

static size_t dw_apply(void *ctx, const void *state, size_t len, uint64_t action, void *out)
{
    struct dw_world *w = ctx;
    struct dw_state s;
    uint32_t n = action >> 32 & 255, event = (uint32_t)action, kind = event >> 27, i;
    int any;

    dw_load(&s, state, len);
    switch (action >> 40) {
    case DW_LOSE:
        s.h.used[DW_LOSSES]++;
        dw_take(&s, event & ((1u << 27) - 1));
        any = 1;
        break;
    case DW_DOUBLE:
        s.h.used[DW_DOUBLES]++;
        any = dw_node_event(w, &s, n, event);
        any = 1;
        break;
    case DW_NODE:
        dw_use(w, &s, n, event);
        if (kind == DN_MESSAGE)
            dw_take(&s, event & ((1u << 27) - 1));
        any = dw_node_event(w, &s, n, event) || kind == DN_MESSAGE;
        if (kind == DN_CRASH)
            for (i = 0; i < s.h.count; i++)
                if (s.h.fate[i] == DW_OPEN && s.h.owner[i] == n)
                    s.h.fate[i] = DW_UNKNOWN;
        break;
    default:
        any = dw_environment(w, &s, action);
        break;
    }
    if (!any)
        return 0;
    dw_settle(w, &s);
    return dw_store(&s, out);
}

/* ---- Predicates ---- */

static int dw_is_write(const struct dw_state *s, uint32_t key, uint64_t ts)
{
    uint32_t i;

    for (i = 0; i < s->h.count; i++)
        if (s->h.ts[i] == ts && s->h.key[i] == key)
            return 1;
    return ts == 0;
}

static int dw_value_fits(const struct dw_state *s, uint32_t key, uint64_t ts, uint64_t value)
{
    uint32_t i;

    for (i = 0; i < s->h.count; i++)
        if (s->h.ts[i] == ts && s->h.key[i] == key && ts != 0)
            return value == (s->h.kind[i] == DN_DELETE ? 0 : i + 1u);
    return 1; /* a purged tombstone's, or of another check */
}

/* Does a node that has this hold all up to ts? What is absent is deleted. */
static int dw_holds(const struct dw_state *s, uint32_t key, uint64_t has, uint64_t ts)
{
    uint32_t i;

    for (i = 0; i < s->h.count && has == 0; i++)
        if (s->h.ts[i] >= ts && s->h.key[i] == key && s->h.kind[i] == DN_DELETE)
            return 1;
    return has >= ts;
}

static int dw_equal(const struct dw_state *s, uint32_t key, uint64_t a, uint64_t b)
{
    return dw_holds(s, key, a, b) && dw_holds(s, key, b, a);
}

/* One node and key on its own. */
static const char *dw_check_own(const struct dw_world *w, const struct dw_state *s, uint32_t n,
                                uint32_t k)
{
    const struct dn_sum *d = dw_sum(w, s, n);
    const struct dn_key *a = &d->key[k];
    uint64_t done = dw_done(s, k);

    if (!dw_is_write(s, k, a->vts) || !dw_is_write(s, k, a->log) || !dw_is_write(s, k, a->gv) ||
        !dw_is_write(s, k, a->gd))
        return "types: a timestamp that no write has";
    if (!dw_value_fits(s, k, a->vts, d->alive ? a->value : 0) && d->alive)
        return "R4: another value than the timestamp's write has, in memory";
    if (!dw_value_fits(s, k, a->log, a->log_value))
        return "R4: another value than the timestamp's write has, in the log";
    if (!dw_holds(s, k, a->log, a->dts))
        return "L: called durable what the log does not have";
    if (d->reads && a->rd == 0 &&
        (!dw_holds(s, k, a->vts, done) || !dw_holds(s, k, a->vts, s->h.seen[k])))
        return "R1: a stale read";
    return NULL;
}

/* What holds of every pair of members. */
static const char *dw_check_pair(const struct dw_world *w, const struct dw_state *s, uint32_t n,
                                 uint32_t m, uint32_t k)
{
    const struct dn_sum *a = dw_sum(w, s, n), *b = dw_sum(w, s, m);
    int tracked = w->o.node.model <= SNIC_DDP_RENF;

    if (!a->reads)
        return NULL;
    if (b->reads && a->key[k].rd == 0 && b->key[k].rd == 0 &&
        !dw_equal(s, k, a->key[k].vts, b->key[k].vts))
        return "2a: two unlocked nodes differ";
    if (b->reads && !dw_holds(s, k, b->key[k].vts, a->key[k].gv))
        return "2c': gV is above what a member holds";
    if (dw_full(w, s, m) && tracked && !dw_holds(s, k, b->key[k].log, a->key[k].gd))
        return "3b': gD is above what a member's log has";
    return NULL;
}

/* D: of what was promised, in one member's log. */
static const char *dw_check_log(const struct dw_world *w, const struct dw_state *s, uint32_t n,
                                uint32_t k)
{
    uint64_t log = dw_sum(w, s, n)->key[k].log;
    uint32_t model = w->o.node.model, i;

    if ((model == SNIC_DDP_SYNCH || model == SNIC_DDP_STRICT) &&
        !dw_holds(s, k, log, dw_done(s, k)))
        return "D: an answered write is not in a member's log";
    if ((model == SNIC_DDP_SYNCH || model == SNIC_DDP_RENF) && !dw_holds(s, k, log, s->h.seen[k]))
        return "D: what was read is not in a member's log";
    for (i = 0; i < s->h.count && model == SNIC_DDP_SCOPE; i++)
        if (s->h.scope[i] != 0 && (s->h.synced >> (s->h.scope[i] - 1) & 1) != 0 &&
            s->h.key[i] == k && s->h.fate[i] == DW_ANSWERED && !dw_holds(s, k, log, s->h.ts[i]))
            return "D: a write of a persisted scope is not in a member's log";
    return NULL;
}

static const char *dw_check_swaps(const struct dw_state *s)
{
    uint32_t i, k;

    for (i = 0; i < s->h.count; i++) {
        if (s->h.kind[i] != DN_CAS)
            continue;
        if (s->h.fate[i] == DW_REFUSED && (s->h.read >> i & 1) != 0)
            return "C: a refused swap was read";
        for (k = 0; k < s->h.count && s->h.fate[i] == DW_ANSWERED; k++)
            if (k != i && s->h.key[k] == s->h.key[i] && s->h.ts[k] > s->h.base[i] &&
                s->h.ts[k] < s->h.ts[i] &&
                (s->h.fate[k] == DW_ANSWERED || (s->h.read >> k & 1) != 0))
                return "C: a write came between a swap and its base";
    }
    return NULL;
}

static const char *dw_check(void *ctx, const void *state, size_t len)
{
    struct dw_world *w = ctx;
    struct dw_state s;
    const char *why = NULL;
    uint32_t n, m, k;

    dw_load(&s, state, len);
    if (s.h.bad == DW_B_TEXT)
        return dn_step(w->space, s.h.node[s.h.turn], s.h.view)->bad;
    if (s.h.bad != 0)
        return dw_bads[s.h.bad];
    for (n = 0; n < w->o.node.nodes && why == NULL; n++) {
        why = dw_sum(w, &s, n)->bad;
        for (k = 0; k < w->o.node.keys && why == NULL; k++) {
            why = dw_check_own(w, &s, n, k);
            for (m = 0; m < w->o.node.nodes && why == NULL; m++)
                if (m != n)
                    why = dw_check_pair(w, &s, n, m, k);
            if (why == NULL && dw_full(w, &s, n))
                why = dw_check_log(w, &s, n, k);
        }
    }
    return why != NULL ? why : dw_check_swaps(&s);
}

static const char *dw_settled(void *ctx, const void *state, size_t len)
{
    struct dw_world *w = ctx;
    struct dw_state s;
    const struct dn_sum *first = NULL;
    uint32_t n, k;

    dw_load(&s, state, len);
    if (!dw_installed(w, &s))
        return "1: a membership was not installed";
    for (n = 0; n < s.h.count; n++)
        if (s.h.fate[n] == DW_OPEN)
            return "1: a write was never answered";
    for (n = 0; n < w->o.node.nodes; n++) {
        const struct dn_sum *d = dw_sum(w, &s, n);

        if (!dw_full(w, &s, n) || !d->alive)
            continue;
        if (!d->reads && (s.h.begun >> n & 1) == 0)
            return "1: a member does not serve";
        if (d->busy && w->o.node.model != SNIC_DDP_SCOPE) /* a scope may stay open */
            return "1: something waits for ever";
        first = first == NULL ? d : first;
        for (k = 0; k < w->o.node.keys; k++) {
            if (d->key[k].rd != 0)
                return "1: a key is locked for ever";
            if (!dw_equal(&s, k, d->key[k].vts, first->key[k].vts) ||
                !dw_equal(&s, k, d->key[k].gv, first->key[k].gv))
                return "2a: nodes differ after a quiet time";
            if (!dw_equal(&s, k, d->key[k].gd, first->key[k].gd))
                return "3a': gD differs after a quiet time";
            if (!dw_holds(&s, k, d->key[k].log, d->key[k].vts))
                return "D: a log lacks the newest after a quiet time";
        }
    }
    if (w->o.node.model == SNIC_DDP_SCOPE && w->o.crashes + w->o.evictions + w->o.restarts == 0 &&
        s.h.asked != s.h.synced)
        return "1: a scope was never answered";
    return NULL;
}

/* Nothing can happen in this state: the quiet time alone may still do something. */
static const char *dw_dead(void *ctx, const void *state, size_t len)
{
    struct dw_world *w = ctx;

    return mc_calm(&w->model, state, len, 10000);
}

/* ---- The model ---- */

static size_t dw_init(void *ctx, uint32_t i, void *state)
{
    return i == 0 ? dw_store(&((struct dw_world *)ctx)->first, state) : 0;
}

static void dw_print(void *ctx, const void *state, size_t len, uint64_t action, char *text,
                     size_t size)
{
    static const char *const kinds[] = {"",
                                        "again: ",
                                        "lost: ",
                                        "decided: without",
                                        "decided: learner",
                                        "decided: full",
                                        "decided: restart",
                                        "all crash and reboot"};
    struct dw_world *w = ctx;
    struct dw_state s;
    uint32_t n = action >> 32 & 255, kind = (uint32_t)(action >> 40);
    char what[MC_TEXT];

    dw_load(&s, state, len);
    if (kind > DW_LOSE) {
        (void)snprintf(text, size, "%s %u %x", kinds[kind], n, (unsigned)(uint32_t)action);
        return;
    }
    dn_event_print(w->space, s.h.node[n], (uint32_t)action, what, sizeof(what));
    if (((uint32_t)action >> 27) == DN_APPENDED) {
        (void)snprintf(text, size, "%s%.100s of %u", kinds[kind], what, dw_sum(w, &s, n)->pending);
        return;
    }
    (void)snprintf(text, size, "%s%.160s", kinds[kind], what);
}

struct dw_world *dw_new(const struct dw_opts *o)
{
    struct dw_world *w = calloc(1, sizeof(*w));
    struct snic_ddp_view v;
    uint32_t n;

    if (w == NULL || o->node.nodes > DN_NODES || o->node.keys > DN_KEYS || o->scopes > 2 ||
        o->writes + o->deletes + o->swaps > DW_WRITES)
        abort();
    w->o = *o;
    w->o.node.writes = o->writes + o->deletes + o->swaps;
    w->o.node.scopes = o->scopes == 0 ? 0 : 4;
    w->space = dn_space_new(&w->o.node);
    memset(&v, 0, sizeof(v));
    v.epoch = 1;
    v.full = (uint16_t)((1u << o->node.nodes) - 1);
    for (n = 0; n < o->node.nodes; n++)
        v.incarnation[n] = 1;
    w->first.h.view = dn_view(w->space, &v);
    for (n = 0; n < o->node.nodes; n++) {
        w->first.h.node[n] = dn_begin(w->space, n, 1);
        (void)dw_node_event(w, &w->first, n, DN_EVENT(DN_INSTALL, w->first.h.view));
    }
    dw_settle(w, &w->first);
    w->model.name = "ddp";
    w->model.ctx = w;
    w->model.init = dw_init;
    w->model.actions = dw_actions;
    w->model.apply = dw_apply;
    w->model.check = dw_check;
    w->model.dead = dw_dead;
    w->model.calm = dw_calm;
    w->model.settled = dw_settled;
    w->model.print = dw_print;
    return w;
}

void dw_free(struct dw_world *w)
{
    dn_space_free(w->space);
    free(w);
}

const struct mc_model *dw_model(struct dw_world *w)
{
    return &w->model;
}

struct dn_space *dw_space(struct dw_world *w)
{
    return w->space;
}
