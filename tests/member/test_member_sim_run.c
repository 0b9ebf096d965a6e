/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* A run: whatever comes next, until all is well after the faults. */
#include "test_member_sim_priv.h"

/* All FULL nodes of the newest view lost their disks: no node may continue, and that is right. So
 * it is where a founder lost its disk before any other knew the first view: it is founded anew. */
static int sim_is_gone(const struct sim *s)
{
    const struct snic_member_view *v = &s->chosen[s->newest];
    uint32_t lost = 0, know = 0;
    for (uint32_t i = 0; i < s->count; i++) {
        lost += s->nodes[i].lost != 0;
        know += s->nodes[i].disk.decided.epoch != 0;
    }
    if (lost != 0 && know == 0)
        return 1;
    for (uint32_t i = 0; i < s->count; i++) {
        const struct sim_node *n = &s->nodes[i];
        if ((v->full >> i & 1) && (!n->lost || (n->has_disk && v->incarnation[i] >= n->disk.since)))
            return 0;
    }
    return 1;
}

/* Does the cluster serve as it should? */
int sim_is_well(struct sim *s)
{
    uint32_t data = s->all & ~(uint32_t)s->witness;
    if (s->chosen[s->newest].configured != s->all || s->chosen[s->newest].vacant != 0)
        return 0;
    for (uint32_t i = 0; i < s->count; i++) {
        struct sim_node *n = &s->nodes[i];
        if (!n->up)
            return 0;
        if ((data >> i & 1) && (n->role != SNIC_MEMBER_ROLE_FULL || n->view.epoch != s->newest ||
                                n->lease <= sim_local(n, s->now) || n->view.full != data))
            return 0;
    }
    return 1;
}

/* The node whose clock or return comes next, and when. */
static uint32_t sim_next_node(struct sim *s, uint64_t *at)
{
    uint32_t who = 0;
    *at = SNIC_NEVER;
    for (uint32_t i = 0; i < s->count; i++) {
        struct sim_node *n = &s->nodes[i];
        uint64_t t = n->up ? snic_max_u64(n->tick_at, n->paused_until) : n->up_at;
        if (t < *at) {
            *at = t;
            who = i;
        }
    }
    return who;
}

static uint32_t sim_next_event(struct sim *s, uint64_t *at)
{
    uint32_t best = 0;
    uint64_t order = 0;
    *at = SNIC_NEVER;
    for (uint32_t k = 0; k < s->pending; k++) {
        struct sim_event *e = &s->events[k];
        uint64_t t = snic_max_u64(e->at, s->nodes[e->node].paused_until);
        if (t < *at || (t == *at && e->order < order)) {
            *at = t;
            order = e->order;
            best = k;
        }
    }
    return best;
}

static void sim_deliver(struct sim *s, uint32_t k)
{
    struct sim_event e = s->events[k];
    struct sim_node *n = &s->nodes[e.node];
    struct snic_member_event ev = {.type = SNIC_MEMBER_MESSAGE, .msg = &e.msg};
    s->events[k] = s->events[--s->pending];
    if (!n->up)
        return;
    if (e.kind == 2) {
        if (e.run_number != n->run_number)
            return;
        sim_on_disk(s, e.node, &e.record);
        ev.type = SNIC_MEMBER_STORED;
        ev.msg = NULL;
        ev.id = e.id;
    }
    sim_step(s, e.node, &ev);
}

void sim_once(struct sim *s)
{
    uint64_t at_node, at_event;
    uint32_t node = sim_next_node(s, &at_node);
    uint32_t event = sim_next_event(s, &at_event);
    uint64_t at = snic_min_u64(at_node, at_event);
    at = snic_min_u64(at, snic_min_u64(s->chaos_at, s->write_at));
    at = snic_min_u64(at, s->operator_at);
    if (s->now < s->end_faults && at >= s->end_faults) {
        s->now = s->end_faults;
        sim_heal(s);
        return;
    }
    s->now = snic_max_u64(s->now, at);
    if (at == s->operator_at)
        sim_operator(s);
    else if (at == s->chaos_at)
        sim_chaos(s);
    else if (at == s->write_at)
        sim_data(s);
    else if (at == at_event)
        sim_deliver(s, event);
    else if (s->nodes[node].up) {
        struct snic_member_event ev = {.type = SNIC_MEMBER_TICK};
        sim_step(s, node, &ev);
    } else {
        sim_up(s, node, !s->nodes[node].lost);
    }
}

void sim_start(struct sim *s, const struct sim_opts *o)
{
    memset(s, 0, sizeof(*s));
    s->o = *o;
    snic_rng_init(&s->rng, o->seed);
    sim_swarm(s);
    if (!o->calm)
        return;
    memset(&s->opts, 0, sizeof(s->opts));
    s->opts.opts_size = sizeof(s->opts);
    s->opts.configured = s->all;
    s->opts.witness = s->witness;
    s->opts.min_full = s->o.min_full;
    s->opts.slow_ns = s->o.slow_ns;
    s->loss = s->dup = 0;
    s->tight = 0;
    s->delay_max = SIM_MS;
    s->store_max = 2 * SIM_MS;
    s->chaos_at = s->operator_at = SNIC_NEVER;
    s->end_faults = SNIC_NEVER - 1;
    for (uint32_t i = 0; i < s->count; i++)
        s->nodes[i].rate = (int)i % 2 ? 500 : -500;
}

/* NULL, or what went wrong. */
const char *sim_run(struct sim *s, const struct sim_opts *o)
{
    uint64_t well_at = 0;
    uint32_t well_epoch = 0;
    sim_start(s, o);
    while (s->failure == NULL && s->now < s->end) {
        sim_once(s);
        sim_check_leases(s);
        if (s->now <= s->end_faults + 1500 * (uint64_t)SIM_MS ||
            s->now < well_at + 2000 * (uint64_t)SIM_MS)
            continue;
        if (well_at != 0)
            return s->failure != NULL || (sim_is_well(s) && s->newest == well_epoch)
                       ? s->failure
                       : "well, but not for long";
        if (sim_is_well(s)) {
            well_at = s->now;
            well_epoch = s->newest;
        }
        if (s->now + SIM_MS > s->end && s->failure == NULL && sim_is_gone(s)) {
            s->gone = 1;
            return NULL;
        }
    }
    if (s->failure == NULL)
        sim_fail(s, "not well after all faults ended");
    for (uint32_t i = 0; s->o.trace && i < s->count; i++) {
        struct snic_member_status st;
        snic_member_get_status(s->nodes[i].m, &st);
        printf("node %u state %u role %u inc %u vote %u hears %x missing %x epoch %u\n", i,
               st.state, st.role, st.incarnation, st.vote, st.hears, st.missing, st.view.epoch);
    }
    return s->failure;
}
