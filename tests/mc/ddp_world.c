/* SPDX-License-Identifier: Apache-2.0 OR MIT */
#include "ddp_world_priv.h"

#include <stdio.h>
#include <stdlib.h>

/* ---- Bytes ---- */

static size_t dw_store(const struct dw_state *s, void *out)
{
    size_t n = sizeof(s->h) + s->h.messages * sizeof(s->msg[0]);

    memcpy(out, s, n);
    return n;
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

int dw_fits(const struct dw_world *w, const struct dw_state *s, uint32_t message)
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

uint64_t dw_done(const struct dw_state *s, uint32_t key)
{
    uint64_t most = 0;
    uint32_t i;

    for (i = 0; i < s->h.count; i++)
        if (s->h.fate[i] == DW_ANSWERED && s->h.key[i] == key && s->h.ts[i] > most)
            most = s->h.ts[i];
    return most;
}

/* A node has a value that no node had yet: now its write has a timestamp. */
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
            if (dw_mixed(w) && d->key[k].gd >= d->key[k].vts && d->key[k].vts > s->h.all[k])
                s->h.all[k] = d->key[k].vts;
            for (i = 0; i < s->h.count; i++)
                if (s->h.ts[i] == d->key[k].vts && s->h.key[i] == k && s->h.ts[i] != 0)
                    s->h.read |= (uint8_t)(1u << i);
        }
    }
}

/* A client learned that a key is at ts: a read, as of now. */
static void dw_note_read(struct dw_state *s, uint32_t key, uint64_t ts, int all)
{
    uint32_t i;

    if (all && ts > s->h.all[key])
        s->h.all[key] = ts;
    if (!dw_holds(s, key, ts, dw_done(s, key)) || !dw_holds(s, key, ts, s->h.seen[key]))
        s->h.bad = DW_B_READ;
    if (ts > s->h.seen[key])
        s->h.seen[key] = ts;
    for (i = 0; i < s->h.count; i++)
        if (s->h.ts[i] == ts && s->h.key[i] == key && ts != 0)
            s->h.read |= (uint8_t)(1u << i);
}

/*
 * A read of what is durable may return what was the newest at some time while it waited: no older
 * than all that was answered or read before it began.
 */
static void dw_note_read_all(struct dw_state *s, const struct dn_done *d)
{
    uint32_t key = d->token & 15;
    uint64_t from = s->h.from[d->token >> 4 & 1];

    if (d->result == SNIC_ESTALE)
        return;
    if (d->result != 0 && d->result != SNIC_ENOENT)
        s->h.bad = DW_B_RESULT;
    if (!dw_holds(s, key, d->ts, from))
        s->h.bad = DW_B_READ;
    s->h.seen[key] = snic_max_u64(s->h.seen[key], d->ts);
    s->h.all[key] = snic_max_u64(s->h.all[key], d->ts);
}

static void dw_answer_write(const struct dw_world *w, struct dw_state *s, uint32_t i,
                            const struct dn_done *d)
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
        dw_note_read(s, s->h.key[i], d->ts, dw_reads_all(w, s->h.dur[i]));
    } else if (d->result == SNIC_ESTALE && s->h.kind[i] == DN_CAS) {
        s->h.fate[i] = DW_REFUSED; /* the lease ended before it was written */
    } else if (d->result == SNIC_EUNKNOWN) {
        s->h.fate[i] = DW_UNKNOWN;
    } else {
        s->h.bad = DW_B_RESULT;
    }
}

static void dw_answers(const struct dw_world *w, struct dw_state *s, const struct dn_result *r)
{
    uint32_t i;

    for (i = 0; i < r->dones; i++) {
        const struct dn_done *d = &r->done[i];

        if (d->token < 64) {
            dw_answer_write(w, s, (uint32_t)d->token - 1, d);
        } else if (d->token >= DN_READ_TOKEN) {
            if (dw_reads_all(w, DN_DURABILITY(d->token)))
                dw_note_read_all(s, d);
            else if (d->result == 0 || d->result == SNIC_ENOENT)
                dw_note_read(s, d->token & 15, d->ts, 0);
            else if (d->result != SNIC_ESTALE)
                s->h.bad = DW_B_RESULT;
        } else {
            uint8_t bit = (uint8_t)(1u << (d->token - 65));

            if ((s->h.requested & bit) == 0 || (s->h.synced & bit) != 0)
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
        if (kind != DN_MESSAGE && r->status != SNIC_EAGAIN &&
            !(r->status == SNIC_ENOQUORUM && w->o.node.copies != 0))
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
        s->h.dur[i] = (uint8_t)DN_DURABILITY(event);
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
    dw_answers(w, s, r);
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

/* ---- Steps ---- */

static void dw_use(struct dw_world *w, struct dw_state *s, uint32_t n, uint32_t event)
{
    uint32_t kind = event >> 27;

    if (kind >= DN_WRITE && kind <= DN_CAS)
        s->h.used[DW_PLAIN + (kind - DN_WRITE)]++;
    if (kind == DN_CAS)
        s->h.base[(event >> 4 & 255) - 1] = dw_sum(w, s, n)->key[event & 15].vts;
    if (kind == DN_SYNC)
        s->h.requested |= (uint8_t)(1u << ((event & 255) - 1));
    if (kind == DN_READ) {
        if (dw_reads_all(w, DN_DURABILITY(event)))
            s->h.from[s->h.reads & 1] = snic_max_u64(dw_done(s, event & 15), s->h.seen[event & 15]);
        s->h.reads++;
    }
    if (kind == DN_CRASH)
        s->h.used[DW_CRASHES]++;
    if (kind == DN_REBOOT || kind == DN_RETURN)
        s->h.used[DW_REJOINS]++;
    if (w->o.overrides != 0 && kind == DN_REBOOT && (event & 1) == 0)
        s->h.kept[n][0] = DW_LOST;
    if (kind == DN_LEASE_END) {
        s->h.used[DW_EVICTIONS]++;
        s->h.begun |= (uint8_t)(1u << n);
    }
    if (kind == DN_FIRE) {
        /* Beyond the budget only in quiet times, which turn. */
        if (dn_timer(w->space, s->h.node[n], event & 255).kind == SNIC_DDP_TIMER_LOCK) {
            if (s->h.locks < w->o.locks)
                s->h.locks++;
            else
                s->h.turn++;
        } else if (s->h.used[DW_RESENDS] < w->o.resends) {
            s->h.used[DW_RESENDS]++;
        } else {
            s->h.turn++;
        }
    }
}

/* What is above that in no log did not happen, as far as the model allows that (D). */
static void dw_unhappen(struct dw_world *w, struct dw_state *s, const uint64_t *most)
{
    uint32_t n, k;

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
    uint64_t most[DN_KEYS] = {0};
    uint32_t n, k;

    for (n = 0; n < w->o.node.nodes; n++) {
        if (dw_sum(w, s, n)->alive)
            (void)dw_node_event(w, s, n, DN_EVENT(DN_CRASH, 0));
        (void)dw_node_event(w, s, n, DN_EVENT(DN_REBOOT, 1));
    }
    s->h.used[DW_RESTARTS]++;
    for (n = 0; n < w->o.node.nodes; n++)
        for (k = 0; k < w->o.node.keys; k++)
            if (dw_full(w, s, n) && dw_sum(w, s, n)->key[k].log > most[k])
                most[k] = dw_sum(w, s, n)->key[k].log;
    dw_unhappen(w, s, most);
    dw_decide(w, s, dw_view(w, s)->full, 0, 1);
}

/* The number of the write of a key that was answered with the highest timestamp, + 1; 0: none. */
static uint8_t dw_newest(const struct dw_state *s, uint32_t key)
{
    uint64_t done = dw_done(s, key);
    uint32_t i;

    for (i = 0; i < s->h.count && done != 0; i++)
        if (s->h.fate[i] == DW_ANSWERED && s->h.key[i] == key && s->h.ts[i] == done)
            return (uint8_t)(i + 1);
    return 0;
}

/* These were FULL until now: so much their logs keep until they are again. */
static void dw_note_kept(const struct dw_world *w, struct dw_state *s, uint32_t out)
{
    uint32_t n, k;

    for (n = 0; n < w->o.node.nodes; n++)
        for (k = 0; k < w->o.node.keys; k++)
            if (w->o.overrides != 0 && (out >> n & 1) != 0 && dw_full(w, s, n))
                s->h.kept[n][k] = dw_newest(s, k);
}

/* No FULL node is left: an operator begins from the logs of those that were FULL before. */
static void dw_override(struct dw_world *w, struct dw_state *s)
{
    uint64_t most[DN_KEYS];
    uint32_t n, k, full = dw_override_set(w, s);

    for (k = 0; k < DN_KEYS; k++)
        most[k] = UINT64_MAX;
    for (n = 0; n < w->o.node.nodes; n++) {
        if ((full >> n & 1) == 0)
            continue;
        if (dw_sum(w, s, n)->alive)
            (void)dw_node_event(w, s, n, DN_EVENT(DN_CRASH, 0));
        for (k = 0; k < w->o.node.keys; k++) {
            uint32_t i = s->h.kept[n][k];

            if (i != 0 && w->o.node.model <= SNIC_DDP_STRICT &&
                !dw_holds(s, k, dw_sum(w, s, n)->key[k].log, s->h.ts[i - 1]))
                s->h.bad = DW_B_KEPT;
            /* Of what one of the logs lacks nothing is promised. */
            if (dw_sum(w, s, n)->key[k].log < most[k])
                most[k] = dw_sum(w, s, n)->key[k].log;
        }
        (void)dw_node_event(w, s, n, DN_EVENT(DN_REBOOT, 1));
    }
    s->h.used[DW_RESTARTS]++;
    s->h.overrides++;
    dw_unhappen(w, s, most);
    dw_decide(w, s, full, 0, 1);
}

static int dw_environment(struct dw_world *w, struct dw_state *s, uint64_t action)
{
    const struct snic_ddp_view *v = dw_view(w, s);
    uint32_t n = action >> 32 & 255, arg = (uint32_t)action;

    switch (action >> 40) {
    case DW_DECIDE_OUT:
        dw_note_kept(w, s, arg);
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
    case DW_OVERRIDE:
        dw_override(w, s);
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
                                        "all crash and reboot",
                                        "operator overrides"};
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

/* Take the first action whose text starts so. 0: there is none. */
static int dw_begin_step(struct dw_world *w, const char *start, size_t len)
{
    uint64_t action[MC_ACTIONS_MAX];
    unsigned char from[MC_STATE_MAX], to[MC_STATE_MAX];
    size_t size = dw_store(&w->first, from), got;
    uint32_t n = dw_actions(w, from, size, action), i;
    char text[MC_TEXT];

    for (i = 0; i < n; i++) {
        dw_print(w, from, size, action[i], text, sizeof(text));
        if (strncmp(text, start, len) != 0)
            continue;
        got = dw_apply(w, from, size, action[i], to);
        if (got == 0)
            continue;
        dw_load(&w->first, to, got);
        return 1;
    }
    return 0;
}

static void dw_begin(struct dw_world *w)
{
    const char *line, *end;

    for (line = w->o.begin; line != NULL && *line != '\0'; line = *end != '\0' ? end + 1 : end) {
        size_t len;
        int all;

        end = line + strcspn(line, "\n");
        len = (size_t)(end - line);
        all = len > 0 && end[-1] == '*';
        if (!dw_begin_step(w, line, len - (size_t)all)) {
            (void)fprintf(stderr, "cannot happen: %.*s\n", (int)len, line);
            abort();
        }
        while (all && dw_begin_step(w, line, len - 1))
            ;
    }
    if (w->o.begin != NULL)
        w->first.h.messages = 0;
}

struct dw_world *dw_new(const struct dw_opts *o)
{
    struct dw_world *w = calloc(1, sizeof(*w));
    struct snic_ddp_view v;
    uint32_t n;

    if (w == NULL || o->node.nodes > DN_NODES || o->node.keys > DN_KEYS || o->scopes > 2 ||
        o->writes + o->deletes + o->swaps > DW_WRITES || (o->read_mix != 0 && o->reads > 2))
        abort();
    w->o = *o;
    w->o.node.writes = o->writes + o->deletes + o->swaps;
    w->o.node.scopes = o->scopes == 0 ? 0 : 4;
    if ((o->mix >> SNIC_DDP_DURABILITY_SCOPE & 1) != 0 && o->scopes == 0)
        abort();
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
    dw_begin(w);
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
