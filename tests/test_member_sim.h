/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * A cluster of member engines in simulated time, from a seed: messages are delayed, lost, doubled
 * and reordered; links are cut one way or both; nodes crash with what was not yet stored, lose
 * their files, stop for a while; clocks run at different rates. A counter stands for the data: a
 * write raises it at all members of the coordinator's epoch, if they are in that epoch.
 *
 * After every event:
 *   S1  A node whose lease is valid by its own clock is FULL in every view chosen so far that is
 *       later than its own (P2), and holds every acknowledged write.
 *   S2  An epoch has one chosen view, and what anyone installs is that.
 *   S3  Files never go back.
 *   S4  Each chosen view follows from the one before by P3 and P4.
 * Chosen is what a majority of files (as they are on disk) voted for in one ballot.
 * At the end faults stop, and all who hold data must be FULL, with a lease, in one epoch.
 */
#ifndef SNIC_TEST_MEMBER_SIM_H
#define SNIC_TEST_MEMBER_SIM_H

#include "member/member_priv.h"

#include <stdio.h>
#include <stdlib.h>

enum { SIM_NODES = 6, SIM_EVENTS = 2048, SIM_EPOCHS = 1024, SIM_VOTES = 4096, SIM_MS = 1000000 };

/* What a run may do; zero is the default swarm. */
struct sim_opts {
    uint64_t seed;
    uint32_t excess; /* clocks may be so many times worse than drift_ppm says; 0: 1 */
    uint32_t nodes;  /* 0: by the seed */
    uint32_t witness;
    int trace;
    int blind; /* without snic_member_check */
    int calm;  /* default options, no faults but those that a test makes */
};

struct sim_event {
    uint64_t at;
    uint64_t order;
    uint32_t kind; /* 1 message, 2 stored */
    uint32_t node;
    uint32_t life;
    uint64_t id;
    struct snic_member_msg msg;
    struct snic_member_record record;
};

struct sim_node {
    struct snic_member *m;
    uint64_t offset;
    int64_t rate; /* ppm */
    int up;
    int has_disk;
    int lost; /* its file, once */
    uint32_t lost_life;
    uint32_t life;
    uint64_t paused_until; /* true time */
    uint64_t up_at;        /* of one that is down */
    uint64_t tick_at;
    struct snic_member_record disk;
    uint64_t lease; /* by its clock */
    struct snic_member_view view;
    uint32_t role;
    uint64_t log;
    int partial;
    int good;
    uint32_t caught; /* incarnation that caught up */
};

struct sim_vote {
    uint64_t ballot;
    uint32_t epoch;
    uint32_t mask;
    struct snic_member_view view;
};

struct sim {
    struct sim_opts o;
    struct snic_rng rng;
    uint64_t now;
    uint64_t order;
    uint64_t end_faults;
    uint64_t end;
    uint64_t chaos_at;
    uint64_t write_at;
    uint64_t chaos_mean;
    uint64_t delay_max;
    uint64_t store_max;
    uint32_t loss, dup; /* per mille */
    int tight;
    uint32_t count;
    uint16_t all;
    uint16_t witness;
    uint16_t dead; /* by an operator's word, in a test */
    uint32_t drift;
    struct snic_member_opts opts;
    struct sim_node nodes[SIM_NODES];
    uint8_t cut[SIM_NODES][SIM_NODES];
    struct sim_event events[SIM_EVENTS];
    uint32_t pending;
    uint64_t writes;
    struct snic_member_view chosen[SIM_EPOCHS];
    uint32_t newest;
    struct sim_vote votes[SIM_VOTES];
    uint32_t votes_count;
    uint8_t good_at[SIM_NODES][8192]; /* bit by incarnation: its log was told good */
    uint64_t hash;
    uint64_t steps, restarts, acked, gone;
    const char *failure;
    _Alignas(SNIC_MEMBER_ALIGN) unsigned char mem[SIM_NODES][8192];
};

static void sim_fail(struct sim *s, const char *why)
{
    if (s->failure == NULL) {
        s->failure = why;
        if (s->o.trace)
            printf("%12llu FAILURE %s\n", (unsigned long long)s->now, why);
    }
}

static uint64_t sim_below(struct sim *s, uint64_t n)
{
    return snic_rng_below(&s->rng, n);
}

static int sim_chance(struct sim *s, uint32_t per_mille)
{
    return sim_below(s, 1000) < per_mille;
}

/* ---- Clocks ---- */

static uint64_t sim_local(const struct sim_node *n, uint64_t t)
{
    return n->offset + t + (uint64_t)((int64_t)t * n->rate / 1000000);
}

/* The first true time, not before `from`, at which its clock shows `local` or more. */
static uint64_t sim_true(const struct sim_node *n, uint64_t local, uint64_t from)
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

/* ---- Ghosts ---- */

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
    if ((b->full | b->learners) & s->witness)
        sim_fail(s, "a witness holds data");
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
    v->mask |= 1u << node;
    if (2 * __builtin_popcount(v->mask | s->dead) > __builtin_popcount(s->all))
        sim_choose(s, &v->view);
}

/* S1 */
static void sim_check_leases(struct sim *s)
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

/* ---- Carrying out ---- */

static struct sim_event *sim_push(struct sim *s, uint64_t at, uint32_t kind, uint32_t node)
{
    if (s->pending == SIM_EVENTS)
        return NULL;
    struct sim_event *e = &s->events[s->pending++];
    e->at = at;
    e->order = s->order++;
    e->kind = kind;
    e->node = node;
    e->life = s->nodes[node].life;
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

static void sim_view(struct sim *s, uint32_t i, const struct snic_member_action *a)
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

static void sim_down(struct sim *s, uint32_t i);

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
    if (doomed) { /* just after it said something: was that stored? */
        sim_down(s, i);
        n->up_at = s->now + 1 + sim_below(s, 3 * SIM_MS);
    }
}

static void sim_step(struct sim *s, uint32_t i, const struct snic_member_event *ev)
{
    struct sim_node *n = &s->nodes[i];
    s->steps++;
    int r = snic_member_step(n->m, sim_local(n, s->now), ev);
    if (r != 0 && ev->type != SNIC_MEMBER_REPORT)
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

static void sim_on_disk(struct sim *s, uint32_t i, const struct snic_member_record *r)
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

/* ---- Faults ---- */

static void sim_up(struct sim *s, uint32_t i, int first)
{
    struct sim_node *n = &s->nodes[i];
    struct snic_member_event ev = {.type = SNIC_MEMBER_BOOT};
    struct snic_member_opts o = s->opts;
    o.node = i;
    if (snic_member_init(&n->m, s->mem[i], sizeof(s->mem[i]), &o) != 0)
        sim_fail(s, "init");
    n->up = 1;
    n->life++;
    n->lease = 0;
    memset(&n->view, 0, sizeof(n->view));
    n->role = 0;
    n->paused_until = 0;
    n->good = n->good && !(s->now < s->end_faults && sim_chance(s, 50));
    if (s->now >= s->end_faults)
        n->good = 1;
    ev.flags = (first ? SNIC_MEMBER_FIRST : 0u) | (n->good ? SNIC_MEMBER_LOG_GOOD : 0u);
    ev.incarnation = 1000 * n->life + 1;
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

static void sim_down(struct sim *s, uint32_t i)
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
            sim_on_disk(s, i, &e->record); /* it reached the disk, and nobody knows */
        if (mine)
            *e = s->events[--s->pending];
        else
            k++;
    }
    int voters = 0;
    for (uint32_t k = 0; k < s->count; k++)
        voters += !s->nodes[k].lost && k != i;
    if (!s->o.calm && !n->lost && voters * 2 > (int)s->count && s->count > 2 && s->newest > 0 &&
        sim_chance(s, 40)) {
        n->lost = 1;
        n->lost_life = n->life;
        n->has_disk = 0;
        n->log = 0; /* the whole disk */
        if (s->o.trace)
            printf("%12llu LOST %u\n", (unsigned long long)s->now, i);
    }
}

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

static void sim_report(struct sim *s, uint32_t i, uint32_t kind, uint32_t mask)
{
    struct sim_node *n = &s->nodes[i];
    struct snic_member_event ev = {.type = SNIC_MEMBER_REPORT, .kind = kind};
    if (!n->up || n->paused_until > s->now)
        return;
    ev.mask = (uint16_t)mask;
    ev.epoch = n->view.epoch;
    sim_step(s, i, &ev);
}

static void sim_chaos(struct sim *s)
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
        sim_report(s, i, SNIC_MEMBER_SLOW, (uint32_t)sim_below(s, 1u << s->count));
        break;
    default:
        sim_report(s, i, SNIC_MEMBER_NEED_EPOCH, 0);
        break;
    }
}

/* The data path, in one step: a write of a coordinator, and a learner that asks its donor. */
static void sim_data(struct sim *s)
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

static void sim_heal(struct sim *s)
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

/* ---- A run ---- */

static void sim_swarm(struct sim *s)
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
    o->margin_ns = sim_chance(s, 500) ? 1 : 10 * SIM_MS;
    o->restart_wait_ns = 1000 * SIM_MS;
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
        o->slow_ns = o->rejoin_ns = 20 * SIM_MS;
        s->chaos_mean = 20 * SIM_MS;
    }
    s->end_faults = 6000 * (uint64_t)SIM_MS;
    s->end = s->end_faults + 16000 * (uint64_t)SIM_MS;
    s->chaos_at = 1500 * (uint64_t)SIM_MS;
    s->write_at = 1;
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

/* All FULL nodes of the newest view lost their disks: nobody may go on, and that is right. */
static int sim_is_gone(const struct sim *s)
{
    const struct snic_member_view *v = &s->chosen[s->newest];
    for (uint32_t i = 0; i < s->count; i++) {
        const struct sim_node *n = &s->nodes[i];
        if ((v->full >> i & 1) && (!n->lost || v->incarnation[i] > 1000 * n->lost_life + 1000))
            return 0;
    }
    return 1;
}

/* Does the cluster serve as it should? */
static int sim_is_well(struct sim *s)
{
    uint32_t data = s->all & ~(uint32_t)s->witness;
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
        if (e.life != n->life)
            return;
        sim_on_disk(s, e.node, &e.record);
        ev.type = SNIC_MEMBER_STORED;
        ev.msg = NULL;
        ev.id = e.id;
    }
    sim_step(s, e.node, &ev);
}

static void sim_once(struct sim *s)
{
    uint64_t at_node, at_event;
    uint32_t node = sim_next_node(s, &at_node);
    uint32_t event = sim_next_event(s, &at_event);
    uint64_t at = snic_min_u64(at_node, at_event);
    at = snic_min_u64(at, snic_min_u64(s->chaos_at, s->write_at));
    if (s->now < s->end_faults && at >= s->end_faults) {
        s->now = s->end_faults;
        sim_heal(s);
        return;
    }
    s->now = snic_max_u64(s->now, at);
    if (at == s->chaos_at)
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

static void sim_start(struct sim *s, const struct sim_opts *o)
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
    s->loss = s->dup = 0;
    s->tight = 0;
    s->delay_max = SIM_MS;
    s->store_max = 2 * SIM_MS;
    s->chaos_at = SNIC_NEVER;
    s->end_faults = SNIC_NEVER - 1;
    for (uint32_t i = 0; i < s->count; i++)
        s->nodes[i].rate = (int)i % 2 ? 500 : -500;
}

/* NULL, or what went wrong. */
static inline const char *sim_run(struct sim *s, const struct sim_opts *o)
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

#endif /* SNIC_TEST_MEMBER_SIM_H */
