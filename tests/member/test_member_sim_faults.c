/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* What a run may do, from its seed: cuts, deaths, pauses, reports, writes; and their end. */
#include "test_member_sim_priv.h"

static void sim_cut(struct sim *s)
{
    uint32_t how = (uint32_t)sim_below(s, 5);
    uint32_t side = (uint32_t)sim_below(s, 1u << s->count);
    uint32_t x = (uint32_t)sim_below(s, s->count);
    uint32_t y = (uint32_t)sim_below(s, s->count);
    for (uint32_t a = 0; a < s->count; a++) {
        for (uint32_t b = 0; b < s->count; b++) {
            int apart = ((side >> a ^ side >> b) & 1) != 0;
            switch (how) {
            case 0: /* two sides */
                s->cut[a][b] = (uint8_t)apart;
                break;
            case 1: /* one side is not heard */
                s->cut[a][b] = (uint8_t)(apart && (side >> a & 1));
                break;
            case 2: /* two sides and a bridge */
                s->cut[a][b] = (uint8_t)(apart && a != x && b != x);
                break;
            case 3: /* one link, perhaps one way */
                s->cut[a][b] = (uint8_t)((a == x && b == y) || (a == y && b == x && (side & 1)));
                break;
            default:
                s->cut[a][b] = 0;
                break;
            }
        }
    }
    if (s->o.trace)
        printf("%12llu CUT %u side %x x %u y %u\n", (unsigned long long)s->now, how, side, x, y);
}

void sim_report(struct sim *s, uint32_t i, uint32_t kind, uint32_t mask)
{
    struct sim_node *n = &s->nodes[i];
    struct snic_member_event ev = {.type = SNIC_MEMBER_REPORT, .kind = kind};
    if (!n->up || n->paused_until > s->now)
        return;
    ev.mask = (uint16_t)mask;
    ev.epoch = n->view.epoch;
    sim_step(s, i, &ev);
}

/* One draw after the other: compilers order those in one call differently. */
static void sim_complain(struct sim *s, uint32_t i)
{
    uint32_t whom = (uint32_t)sim_below(s, 1u << s->count);
    sim_report(s, i, sim_chance(s, 500) ? SNIC_MEMBER_SLOW : SNIC_MEMBER_SILENT, whom);
}

void sim_chaos(struct sim *s)
{
    uint32_t i = (uint32_t)sim_below(s, s->count);
    s->chaos_at = s->now + 1 + sim_below(s, 2 * s->chaos_mean);
    switch (sim_below(s, 10)) {
    case 0:
    case 1:
    case 2:
        sim_down(s, i);
        break;
    case 3: /* all, or nearly */
        if (sim_chance(s, 300)) {
            for (uint32_t k = 0; k < s->count; k++) {
                if (sim_chance(s, 900))
                    sim_down(s, k);
            }
        }
        break;
    case 4:
    case 5:
    case 6:
        sim_cut(s);
        break;
    case 7:
        s->nodes[i].paused_until = s->now + sim_below(s, 3 * s->opts.lease_ns);
        break;
    case 8:
        sim_complain(s, i);
        break;
    default:
        sim_report(s, i, SNIC_MEMBER_NEED_EPOCH, 0);
        break;
    }
}

/* The data path, in one step: a write of a coordinator, and a learner that asks its donor. */
void sim_data(struct sim *s)
{
    uint32_t c = (uint32_t)sim_below(s, s->count);
    struct sim_node *n = &s->nodes[c];
    int all = 1;
    s->write_at = s->now + 1 + sim_below(s, 20 * SIM_MS);
    if (!n->up || n->paused_until > s->now)
        return;
    uint16_t members = n->view.full | n->view.learners;
    for (uint32_t i = 0; i < s->count; i++) {
        struct sim_node *o = &s->nodes[i];
        if ((members >> i & 1) == 0 || i == c)
            continue;
        all &= o->up && o->paused_until <= s->now && o->view.epoch == n->view.epoch &&
               !s->cut[c][i] && !s->cut[i][c];
    }
    if (n->role == SNIC_MEMBER_ROLE_FULL && n->lease > sim_local(n, s->now) && all) {
        s->writes++;
        s->acked++;
        for (uint32_t i = 0; i < s->count; i++) {
            if (members >> i & 1)
                s->nodes[i].log = s->writes; /* of a partial one: this write, not all */
        }
    }
    struct sim_node *d = &s->nodes[n->view.donor % s->count];
    if (n->role == SNIC_MEMBER_ROLE_LEARNER && d->up && d->paused_until <= s->now &&
        d->role == SNIC_MEMBER_ROLE_FULL && d->view.epoch == n->view.epoch && sim_chance(s, 300)) {
        n->partial = 0;
        n->log = d->log;
        n->caught = n->view.incarnation[c];
        sim_report(s, c, SNIC_MEMBER_CAUGHT_UP, 0);
    }
}

/* ---- The operator ---- */

/* A request at some node that may take it, about another one. */
static void sim_request(struct sim *s, uint32_t kind, uint32_t node)
{
    struct snic_member_event ev = {.type = SNIC_MEMBER_CHANGE, .kind = kind, .node = node};
    uint32_t i = (uint32_t)sim_below(s, s->count);
    if (s->now >= s->end_faults)
        i = s->chosen[s->newest].donor; /* a FULL one, in the end */
    struct sim_node *n = &s->nodes[i];
    if (!n->up || n->paused_until > s->now)
        return;
    if (kind == SNIC_MEMBER_ADD && (s->witness >> node & 1) != 0)
        ev.flags = SNIC_MEMBER_WITNESS;
    ev.addr[0] = (uint8_t)(1 + node);
    if (s->o.trace)
        printf("%12llu REQUEST %u node %u at %u\n", (unsigned long long)s->now, kind, node, i);
    sim_step(s, i, &ev);
}

/* Has a majority of the newest view's voters that view on disk? Before, a disk that it passed over
 * may be one of those whose votes chose it, and the others may not know. */
static int sim_is_settled(const struct sim *s)
{
    const struct snic_member_view *v = &s->chosen[s->newest];
    uint32_t of = v->configured & ~(uint32_t)v->vacant, know = 0;
    for (uint32_t i = 0; i < s->count; i++) {
        if (s->nodes[i].has_disk && s->nodes[i].disk.decided.epoch == s->newest)
            know |= 1u << i & of;
    }
    return 2 * __builtin_popcount(know) > __builtin_popcount(of);
}

/* A file that is dead: the node gets a new, empty disk. */
static void sim_new_disk(struct sim *s, uint32_t i)
{
    struct sim_node *n = &s->nodes[i];
    struct snic_member_status st;
    if (!n->up || n->paused_until > s->now)
        return;
    snic_member_get_status(n->m, &st);
    if (st.state != SNIC_MEMBER_REPLACED || !sim_is_settled(s) || sim_chance(s, 500))
        return;
    sim_down(s, i);
    n->lost = 1;
    n->has_disk = 0;
    n->log = 0;
    memset(&n->disk, 0, sizeof(n->disk));
    if (s->o.trace)
        printf("%12llu NEW DISK %u\n", (unsigned long long)s->now, i);
}

void sim_operator(struct sim *s)
{
    uint32_t node = (uint32_t)sim_below(s, s->count);
    const struct snic_member_view *v = &s->chosen[s->newest];
    s->operator_at = s->now + 1 + sim_below(s, 2 * s->chaos_mean);
    if (s->now >= s->end_faults) {
        s->operator_at = s->now + 100 * (uint64_t)SIM_MS;
        node = (uint32_t)__builtin_ctz((s->all & ~(uint32_t)v->configured) | 1u << node);
    }
    for (uint32_t i = 0; i < s->count; i++)
        sim_new_disk(s, i);
    if (s->newest == 0)
        return;
    if ((v->configured >> node & 1) == 0)
        sim_request(s, SNIC_MEMBER_ADD, node);
    else if (s->now < s->end_faults)
        sim_request(s, sim_chance(s, 500) ? SNIC_MEMBER_REMOVE : SNIC_MEMBER_REPLACE, node);
}

void sim_heal(struct sim *s)
{
    memset(s->cut, 0, sizeof(s->cut));
    s->loss = 0;
    s->dup = 0;
    s->delay_max = snic_min_u64(s->delay_max, 5 * SIM_MS);
    s->store_max = snic_min_u64(s->store_max, 5 * SIM_MS);
    s->chaos_at = SNIC_NEVER;
    if (s->tight)
        s->delay_max = s->store_max = SIM_MS;
    if (s->o.trace)
        printf("%12llu HEAL\n", (unsigned long long)s->now);
    for (uint32_t i = 0; i < s->count; i++) {
        struct sim_node *n = &s->nodes[i];
        struct snic_member_event ev = {.type = SNIC_MEMBER_REPORT, .kind = SNIC_MEMBER_LOG};
        struct snic_member_status st;
        n->paused_until = 0;
        n->good = 1;
        if (!n->up) {
            sim_up(s, i, n->disk.decided.epoch == 0 && !n->lost && s->newest == 0);
            continue;
        }
        ev.flags = SNIC_MEMBER_LOG_GOOD;
        sim_step(s, i, &ev);
        snic_member_get_status(n->m, &st);
        s->good_at[i][st.incarnation / 8 % 8192] |= (uint8_t)(1u << st.incarnation % 8);
    }
}

void sim_swarm(struct sim *s)
{
    static const uint32_t drifts[] = {500, 500, 20000, 100000};
    struct snic_member_opts *o = &s->opts;
    s->count = s->o.nodes != 0 ? s->o.nodes : (uint32_t)(2 + sim_below(s, 4));
    s->all = (uint16_t)((1u << s->count) - 1);
    if (s->o.nodes == 0 ? (s->count == 2 || sim_chance(s, 300)) : s->o.witness) {
        if (s->o.nodes == 0 && s->count < SIM_NODES)
            s->count++;
        s->all = (uint16_t)((1u << s->count) - 1);
        s->witness = (uint16_t)(1u << (s->o.nodes != 0 ? s->count - 1 : sim_below(s, s->count)));
    }
    s->drift = drifts[sim_below(s, 4)];
    memset(o, 0, sizeof(*o));
    o->opts_size = sizeof(*o);
    o->configured = s->all;
    o->witness = s->witness;
    o->drift_ppm = s->drift;
    o->min_full = s->o.seed % 3 == 0; /* 1, or the default */
    o->margin_ns = sim_chance(s, 500) ? 1 : 10 * SIM_MS;
    o->restart_wait_ns = 1000 * SIM_MS;
    o->slow_ns = s->o.seed % 2 * 100 * SIM_MS;
    o->silent_ns = 100 * SIM_MS;
    o->lease_ns = (200 + sim_below(s, 300)) * SIM_MS;
    s->loss = sim_chance(s, 500) ? 0 : (uint32_t)sim_below(s, 300);
    s->dup = sim_chance(s, 500) ? 0 : (uint32_t)sim_below(s, 100);
    s->delay_max = sim_chance(s, 500) ? SIM_MS / 10 : 1 + sim_below(s, 40 * SIM_MS);
    s->store_max = sim_chance(s, 500) ? 0 : sim_below(s, 30 * SIM_MS);
    s->chaos_mean = (50 + sim_below(s, 800)) * SIM_MS;
    if (sim_chance(s, 200)) { /* one epoch after the other, proposers against each other */
        s->tight = 1;
        o->heartbeat_ns = 10 * SIM_MS;
        o->detect_ns = 25 * SIM_MS;
        o->retry_ns = 5 * SIM_MS;
        o->backoff_ns = SIM_MS;
        o->lease_ns = 40 * SIM_MS;
        o->slow_ns = o->silent_ns = o->rejoin_ns = 20 * SIM_MS;
        s->chaos_mean = 20 * SIM_MS;
    }
    s->end_faults = 6000 * (uint64_t)SIM_MS;
    s->end = s->end_faults + 16000 * (uint64_t)SIM_MS;
    s->chaos_at = 1500 * (uint64_t)SIM_MS;
    s->write_at = 1;
    s->changes = s->o.seed % 4 == 1 && !s->o.still;
    s->operator_at = s->changes ? s->chaos_at : SNIC_NEVER;
    for (uint32_t i = 0; i < s->count; i++) {
        struct sim_node *n = &s->nodes[i];
        uint32_t worst = s->drift * (s->o.excess != 0 ? s->o.excess : 1);
        worst = worst > 400000 ? 400000 : worst;
        n->offset = sim_below(s, UINT64_C(1) << 40);
        n->rate = (int64_t)sim_below(s, 2 * worst + 1) - (int64_t)worst;
        if (sim_chance(s, 500))
            n->rate = sim_chance(s, 500) ? -(int64_t)worst : (int64_t)worst;
        n->good = 1;
        n->tick_at = SNIC_NEVER;
        n->up_at = sim_below(s, 300 * SIM_MS);
    }
}
