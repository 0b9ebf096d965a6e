/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * Runs that are harder than the default ones: clocks, logs that are full, disks that lie. What
 * happens here is by dice of its own, beside all that swarm.c does.
 */
#include "swarm_priv.h"

#include <stdio.h>

enum { HARD_CLOCKS = SWARM_CLOCKS | SWARM_WORSE_CLOCKS };
enum { HARD_DISKS = SWARM_LIES | SWARM_NO_LIES };
/* A member's margin, half of which two clocks' jumps may use up together. */
#define HARD_MARGIN (10 * (uint64_t)CLUSTER_MS)

static uint64_t hard_below(struct swarm *s, uint64_t n)
{
    return snic_rng_below(&s->hard.rng, n);
}

/* ---- What a run is like ---- */

static void hard_choose_clocks(struct swarm *s, struct cluster_opts *o)
{
    static const uint32_t drifts[] = {500, 500, 20000, 100000};
    struct swarm_hard *h = &s->hard;
    o->clocks = 1;
    o->drift_ppm = drifts[hard_below(s, SNIC_COUNTOF(drifts))];
    h->worst_ppm = (int32_t)o->drift_ppm;
    h->jump_ns = HARD_MARGIN / 4;
    if ((s->o.hard & SWARM_WORSE_CLOCKS) == 0)
        return;
    o->drift_ppm = 500;
    o->confirms = 1;
    h->worst_ppm = 400000;
    h->jump_ns = 1500 * (uint64_t)CLUSTER_MS;
    s->enabled = 1u << BLOW_SPLIT | 1u << BLOW_ONE_WAY | 1u << BLOW_BRIDGE | 1u << BLOW_CRASH;
    s->chaos_ns = 100 * CLUSTER_MS;
    s->think_ns = CLUSTER_MS * (1 + hard_below(s, 4));
    s->clients = SWARM_CLIENTS;
    s->reads = 70;
    s->cas = s->deletes = 5;
}

/* More than a log's segments hold, the least that there may be. */
static void hard_choose_full(struct swarm *s, struct cluster_opts *o)
{
    o->keys = CLUSTER_KEYS_MOST;
    o->keys_max = CLUSTER_KEYS_MOST + 20;
    o->segment_bytes = 16384;
    o->segments = 10; /* two are what stands before them */
    o->value_max = 512;
    o->min_full = 1; /* below the floor no deletion would make room for a learner */
    s->clients = 4 + (uint32_t)hard_below(s, SWARM_CLIENTS - 3);
    s->think_ns = CLUSTER_MS * (1 + hard_below(s, 6));
    s->link.loss_ppm = (uint32_t)snic_min_u64(s->link.loss_ppm, 50000);
    s->hard.kept = 7000;
    s->hard.patience = 1 + (uint32_t)hard_below(s, 300);
}

static void hard_choose_disks(struct swarm *s, struct cluster_opts *o)
{
    o->model = SNIC_DDP_SYNCH + (uint32_t)hard_below(s, 2);
    s->enabled = 1u << BLOW_ALL_POWER;
    s->chaos_ns = 100 * CLUSTER_MS;
    s->reads = 40;
}

void swarm_hard_choose(struct swarm *s, struct cluster_opts *o)
{
    s->hard.at = SNIC_NEVER;
    if (s->o.hard == 0)
        return;
    snic_rng_init(&s->hard.rng, s->o.seed ^ UINT64_C(0x4a5d));
    if ((s->o.hard & HARD_CLOCKS) != 0)
        hard_choose_clocks(s, o);
    if ((s->o.hard & SWARM_FULL) != 0)
        hard_choose_full(s, o);
    if ((s->o.hard & HARD_DISKS) != 0)
        hard_choose_disks(s, o);
}

/* ---- Clocks ---- */

static int32_t hard_rate(struct swarm *s)
{
    int32_t worst = s->hard.worst_ppm;
    if (hard_below(s, 2) != 0)
        return hard_below(s, 2) != 0 ? worst : -worst;
    return (int32_t)hard_below(s, 2 * (uint64_t)worst + 1) - worst;
}

/* One clock changes its pace and jumps: each seldom, so that a lease sees one jump of it at most.
 */
static void hard_clock(struct swarm *s)
{
    uint32_t node = (uint32_t)hard_below(s, s->c->o.nodes);
    int64_t jump = (int64_t)hard_below(s, 2 * s->hard.jump_ns + 1) - (int64_t)s->hard.jump_ns;
    if (swarm_now(s) < s->hard.jumped[node] + SWARM_SECOND || hard_below(s, 2) != 0)
        jump = 0;
    if (jump != 0)
        s->hard.jumped[node] = swarm_now(s);
    cluster_clock(s->c, node, hard_rate(s), jump);
}

/* ---- Full logs ---- */

static void hard_mix(struct swarm *s, uint32_t emptying)
{
    s->hard.emptying = emptying;
    s->hard.refused = 0;
    s->reads = 15;
    s->cas = emptying ? 0 : 5;
    s->deletes = emptying ? 75 : 2;
    if (s->o.print)
        printf("%12llu clients %s\n", (unsigned long long)swarm_now(s),
               emptying ? "delete" : "put");
}

void swarm_hard_result(struct swarm *s, int result)
{
    struct swarm_hard *h = &s->hard;
    if ((s->o.hard & SWARM_FULL) == 0)
        return;
    if (result != 0 && result != SNIC_ESTALE && result != SNIC_EAGAIN && result != SNIC_ENOSPC &&
        result != SNIC_ENOQUORUM)
        cluster_fail(s->c, "a full log is not what the client gets as the result");
    if (result != SNIC_ENOSPC)
        return;
    h->full++;
    if (h->emptying || ++h->refused < h->patience)
        return;
    hard_mix(s, 1);
    h->times++;
    h->emptied_at = swarm_now(s) + 100 * CLUSTER_MS + hard_below(s, 2 * SWARM_SECOND);
}

/* ---- Disks that lie ---- */

static void hard_lie(struct swarm *s)
{
    for (uint32_t i = 0; i < s->c->o.nodes && (s->o.hard & SWARM_LIES) != 0; i++)
        cluster_lie(s->c, i, s->o.seed % 4 ? CLUSTER_LIE_ALL : CLUSTER_LIE_SOME);
}

/* ---- Another configuration ---- */

/* The newest view that a node has, and whether a majority of its voters has it; 0: none. */
static int hard_view(struct swarm *s, struct snic_member_view *out)
{
    uint32_t know = 0;
    memset(out, 0, sizeof(*out));
    for (uint32_t i = 0; i < s->c->o.nodes; i++) {
        struct snic_replica_stats info;
        if (!s->c->node[i].up)
            continue;
        snic_replica_get_stats(s->c->node[i].r, &info);
        if (info.member.view.epoch > out->epoch) {
            *out = info.member.view;
            know = 0;
        }
        if (info.member.view.epoch == out->epoch)
            know |= 1u << i;
    }
    uint32_t of = out->configured & ~(uint32_t)out->vacant;
    return out->epoch != 0 && 2 * __builtin_popcount(know & of) > __builtin_popcount(of);
}

/* A node that a view has passed over, twice in a row, gets a new disk while it is down. */
static void hard_disks_change(struct swarm *s, int settled)
{
    for (uint32_t i = 0; i < s->c->o.nodes; i++) {
        struct snic_replica_stats info;
        uint32_t bit = 1u << i;
        if ((s->hard.wipe & bit) != 0) {
            s->hard.wipe &= ~bit;
            cluster_down(s->c, i, CLUSTER_DARK);
            cluster_new_disk(s->c, i);
            cluster_up(s->c, i, 0);
            continue;
        }
        if (!s->c->node[i].up || s->c->node[i].paused)
            continue;
        snic_replica_get_stats(s->c->node[i].r, &info);
        int over = settled && info.state == SNIC_REPLICA_RUNNING &&
                   info.member.state == SNIC_MEMBER_REPLACED;
        if (over && (s->hard.over & bit) != 0) {
            if (s->o.print)
                printf("%12llu node %u is passed over, and gets a new disk\n",
                       (unsigned long long)swarm_now(s), i);
            s->hard.wipe |= bit;
            cluster_down(s->c, i, CLUSTER_DARK);
            over = 0;
        }
        s->hard.over = over ? s->hard.over | bit : s->hard.over & ~bit;
    }
}

static void hard_operator(struct swarm *s)
{
    struct snic_member_view v;
    uint32_t node = (uint32_t)hard_below(s, s->c->o.nodes), kind = SNIC_MEMBER_ADD;
    int settled = hard_view(s, &v);
    uint32_t away = ~(uint32_t)v.configured & ((1u << s->c->o.nodes) - 1);
    hard_disks_change(s, settled);
    if (v.epoch == 0)
        return;
    s->hard.configs += v.config_epoch > s->hard.epoch;
    s->hard.epoch = v.config_epoch > s->hard.epoch ? v.config_epoch : s->hard.epoch;
    if (away != 0 && (s->hard.mended || hard_below(s, 2) != 0))
        node = (uint32_t)__builtin_ctz(away);
    else if (s->hard.mended)
        return;
    else if ((away >> node & 1) == 0)
        kind = hard_below(s, 2) != 0 ? SNIC_MEMBER_REMOVE : SNIC_MEMBER_REPLACE;
    if (v.witness == 1u << node)
        return;
    for (uint32_t i = 0; i < s->c->o.nodes; i++) {
        if (s->c->node[i].up && !s->c->node[i].paused && i != node &&
            cluster_change(s->c, i, kind, node) == 0) {
            if (s->o.print)
                printf("%12llu node %u is to be %s, by node %u\n", (unsigned long long)swarm_now(s),
                       node,
                       kind == SNIC_MEMBER_ADD      ? "added"
                       : kind == SNIC_MEMBER_REMOVE ? "removed"
                                                    : "replaced",
                       i);
            return;
        }
    }
}

/* ---- Time ---- */

static void hard_again(struct swarm *s, uint64_t now)
{
    s->hard.at = now + 1 + hard_below(s, 600 * CLUSTER_MS);
}

void swarm_hard_begin(struct swarm *s)
{
    if (s->o.hard == 0)
        return;
    if ((s->o.hard & SWARM_FULL) != 0)
        hard_mix(s, 0);
    for (uint32_t i = 0; i < s->c->o.nodes && (s->o.hard & HARD_CLOCKS) != 0; i++)
        cluster_clock(s->c, i, hard_rate(s), 0);
    hard_lie(s);
    hard_again(s, swarm_now(s));
}

void swarm_hard_due(struct swarm *s, uint64_t now)
{
    if ((s->o.hard & HARD_CLOCKS) != 0)
        hard_clock(s);
    if ((s->o.hard & SWARM_FULL) != 0 && s->hard.emptying && s->hard.emptied_at <= now)
        hard_mix(s, 0);
    hard_lie(s);
    if ((s->o.hard & SWARM_CHANGES) != 0)
        hard_operator(s);
    hard_again(s, now);
}

/* Clocks within bounds stay as they are; those that put no more make room. */
void swarm_hard_heal(struct swarm *s)
{
    s->hard.mended = 1;
    if ((s->o.hard & HARD_DISKS) != 0)
        s->hard.at = SNIC_NEVER;
    if ((s->o.hard & SWARM_FULL) != 0) {
        hard_mix(s, 1);
        s->hard.emptied_at = SNIC_NEVER;
        s->hard.kept = s->c->o.nodes * s->c->o.keys;
        s->think_ns = 5 * CLUSTER_MS;
    }
    for (uint32_t i = 0; i < s->c->o.nodes && (s->o.hard & SWARM_WORSE_CLOCKS) != 0; i++) {
        cluster_clock(s->c, i, 0, 0);
        s->hard.at = SNIC_NEVER;
    }
}

/*
 * A put that was taken waits while a log is full of what is needed, and that can take for ever if
 * no client deletes (replica.h). So clients may not stop before it is answered; but in a log that
 * is not full nothing waits.
 */
int swarm_hard_waits(const struct swarm *s)
{
    const struct cluster *c = s->c;
    uint32_t full = 0, open = 0;
    for (uint32_t i = 0; i < c->o.nodes && (s->o.hard & SWARM_FULL) != 0; i++) {
        struct snic_replica_stats info;
        if (!c->node[i].up)
            continue;
        snic_replica_get_stats(c->node[i].r, &info);
        full += info.wal.full;
    }
    for (uint32_t i = 0; i < c->op_count && full != 0; i++)
        open += c->ops[i].open && c->node[c->ops[i].node].up;
    return open != 0;
}

/* Submit until it is done; nodes that do not serve are skipped. 0: it was not refused for ever. */
static int hard_done(struct swarm *s, uint32_t node, uint32_t kind, uint32_t key, uint32_t step)
{
    for (uint32_t k = 0; k < 100 && cluster_serves(s->c, node); k++) {
        if (cluster_do(s->c, node, kind, (key + k * step) % s->c->o.keys, NULL) == 0)
            return 0;
        cluster_run(s->c, 50 * CLUSTER_MS);
    }
    return cluster_serves(s->c, node) ? -1 : 0;
}

/*
 * Whatever the clients left, half of the keys is deleted, at any node and however full the
 * logs are. Then there is room: every node takes puts.
 */
void swarm_hard_end(struct swarm *s)
{
    uint32_t nodes = s->c->o.nodes;
    for (uint32_t k = 1; k < s->c->o.keys && (s->o.hard & SWARM_FULL) != 0; k += 2) {
        if (hard_done(s, k / 2 % nodes, SNIC_REPLICA_DELETE, k, 0) != 0)
            cluster_fail(s->c, "liveness: a deletion is refused");
    }
    for (uint32_t i = 0; i < nodes && (s->o.hard & SWARM_FULL) != 0; i++) {
        if (hard_done(s, i, SNIC_REPLICA_PUT, 0, 1) != 0)
            cluster_fail(s->c, "liveness: a log that has room refuses");
    }
}
