/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* Nodes: their clocks, what they hear and what they ask for, how they stop and begin. */
#include "test_member_sim_priv.h"

/* The first true time, not before `from`, at which its clock shows `local` or more. */
uint64_t sim_true(const struct sim_node *n, uint64_t local, uint64_t from)
{
    if (local == SNIC_NEVER)
        return SNIC_NEVER;
    if (local <= sim_local(n, from))
        return from;
    uint64_t t = (uint64_t)((int64_t)(local - n->offset) * 1000 / (1000000 + n->rate) * 1000);
    if (t < from)
        t = from;
    while (sim_local(n, t) >= local && t > from && sim_local(n, t - 1) >= local)
        t -= 1;
    while (sim_local(n, t) < local)
        t += snic_max_u64(1, (local - sim_local(n, t)) / 2);
    while (t > from && sim_local(n, t - 1) >= local)
        t--;
    return t;
}

struct sim_event *sim_push(struct sim *s, uint64_t at, uint32_t kind, uint32_t node)
{
    if (s->pending == SIM_EVENTS)
        return NULL;
    struct sim_event *e = &s->events[s->pending++];
    e->at = at;
    e->order = s->order++;
    e->kind = kind;
    e->node = node;
    e->run_number = s->nodes[node].run_number;
    return e;
}

static void sim_send_one(struct sim *s, uint32_t to, const struct snic_member_msg *msg)
{
    uint64_t delay = 1 + sim_below(s, s->delay_max);
    if (s->cut[msg->src][to] || sim_chance(s, s->loss))
        return;
    if (s->loss != 0 && sim_chance(s, 5))
        delay *= 20; /* an old one that comes late */
    struct sim_event *e = sim_push(s, s->now + delay, 1, to);
    if (e != NULL)
        e->msg = *msg;
}

static void sim_hash(struct sim *s, uint32_t node, const void *data, size_t size)
{
    const unsigned char *p = data;
    uint64_t h = s->hash ^ node ^ s->now;
    uint64_t w;
    SNIC_ASSERT(size % 8 == 0);
    for (size_t i = 0; i < size; i += 8) {
        memcpy(&w, p + i, 8);
        h = (h ^ w) * UINT64_C(0x9e3779b97f4a7c15);
        h ^= h >> 29;
    }
    s->hash = h;
}

static void sim_carry_out(struct sim *s, uint32_t i)
{
    struct sim_node *n = &s->nodes[i];
    struct snic_member_action a;
    int doomed = 0;
    while (snic_member_poll(n->m, &a)) {
        sim_hash(s, i, &a, sizeof(a));
        switch (a.type) {
        case SNIC_MEMBER_LEASE:
            n->lease = a.until_ns;
            break;
        case SNIC_MEMBER_STORE: {
            struct sim_event *e = sim_push(s, s->now + sim_below(s, s->store_max + 1), 2, i);
            if (e != NULL) {
                e->id = a.id;
                e->record = a.record;
            }
            break;
        }
        case SNIC_MEMBER_VIEW:
            sim_view(s, i, &a);
            break;
        case SNIC_MEMBER_SEND:
            if (s->tight && s->now < s->end_faults && a.msg.type != SNIC_MEMBER_HEARTBEAT &&
                a.msg.type <= SNIC_MEMBER_ACCEPTED && sim_chance(s, 20))
                doomed = 1;
            for (uint32_t to = 0; to < s->count; to++) {
                if ((a.to >> to & 1) == 0)
                    continue;
                sim_send_one(s, to, &a.msg);
                if (sim_chance(s, s->dup))
                    sim_send_one(s, to, &a.msg);
            }
            break;
        default:
            sim_fail(s, "an action of no type");
            break;
        }
    }
    if (!s->o.blind && snic_member_check(n->m) != 0)
        sim_fail(s, "snic_member_check");
    n->tick_at = sim_true(n, snic_member_deadline_ns(n->m), s->now);
    if (doomed) { /* just after it sent something: was that stored? */
        sim_down(s, i);
        n->up_at = s->now + 1 + sim_below(s, 3 * SIM_MS);
    }
}

void sim_step(struct sim *s, uint32_t i, const struct snic_member_event *ev)
{
    struct sim_node *n = &s->nodes[i];
    s->steps++;
    int r = snic_member_step(n->m, sim_local(n, s->now), ev);
    if (r != 0 && ev->type != SNIC_MEMBER_REPORT && ev->type != SNIC_MEMBER_CHANGE)
        sim_fail(s, "an event was refused");
    if (s->failure && s->o.trace && ev->msg)
        printf("step %d type %u src %u to %u epoch %u flags %x hears %x inc %u view e%u full %x l "
               "%x donor %u restart %u ballot %llx acc %llx\n",
               r, ev->msg->type, ev->msg->src, i, ev->msg->epoch, ev->msg->flags, ev->msg->hears,
               ev->msg->src_incarnation, ev->msg->view.epoch, ev->msg->view.full,
               ev->msg->view.learners, ev->msg->view.donor, ev->msg->view.restart,
               (unsigned long long)ev->msg->ballot, (unsigned long long)ev->msg->accepted);
    sim_carry_out(s, i);
}

void sim_up(struct sim *s, uint32_t i, int first)
{
    struct sim_node *n = &s->nodes[i];
    struct snic_member_event ev = {.type = SNIC_MEMBER_BOOT};
    struct snic_member_opts o = s->opts;
    o.node = i;
    if (snic_member_init(&n->m, s->mem[i], sizeof(s->mem[i]), &o) != 0)
        sim_fail(s, "init");
    n->up = 1;
    n->run_number++;
    n->lease = 0;
    memset(&n->view, 0, sizeof(n->view));
    n->role = 0;
    n->paused_until = 0;
    n->good = n->good && (s->o.calm || s->now >= s->end_faults || !sim_chance(s, 50));
    if (s->now >= s->end_faults)
        n->good = 1;
    ev.flags = (first ? SNIC_MEMBER_FIRST : 0u) | (n->good ? SNIC_MEMBER_LOG_GOOD : 0u);
    /* A new file's is above all, or below the first one's; never the same. */
    int below = n->lost && n->run_number % 2 != 0;
    ev.incarnation = below ? n->run_number : 1000 * n->run_number + 1;
    ev.record = n->has_disk ? &n->disk : NULL;
    if (s->o.trace)
        printf("%12llu UP %u%s log %llu\n", (unsigned long long)s->now, i,
               n->good ? "" : " suspect", (unsigned long long)n->log);
    sim_step(s, i, &ev);
    struct snic_member_status st;
    snic_member_get_status(n->m, &st);
    if (n->good)
        s->good_at[i][st.incarnation / 8 % 8192] |= (uint8_t)(1u << st.incarnation % 8);
}

void sim_down(struct sim *s, uint32_t i)
{
    struct sim_node *n = &s->nodes[i];
    if (!n->up)
        return;
    if (s->o.trace)
        printf("%12llu DOWN %u\n", (unsigned long long)s->now, i);
    n->up = 0;
    n->up_at = s->now + 1 + sim_below(s, 10) * sim_below(s, (s->tight ? 4 : 200) * SIM_MS);
    for (uint32_t k = 0; k < s->pending;) {
        struct sim_event *e = &s->events[k];
        int mine = e->node == i && e->kind == 2;
        if (mine && sim_chance(s, 500))
            sim_on_disk(s, i, &e->record); /* it reached the disk, unknown to the node */
        if (mine)
            *e = s->events[--s->pending];
        else
            k++;
    }
    int voters = 0;
    for (uint32_t k = 0; k < s->count; k++)
        voters += !s->nodes[k].lost && k != i;
    if (!s->o.calm && !s->changes && !n->lost && voters * 2 > (int)s->count && s->count > 2 &&
        s->newest > 0 && sim_chance(s, 40)) {
        n->lost = 1;
        n->has_disk = 0;
        n->log = 0; /* the whole disk */
        if (s->o.trace)
            printf("%12llu LOST %u\n", (unsigned long long)s->now, i);
    }
}
