/* SPDX-License-Identifier: Apache-2.0 OR MIT */
#include "swarm_priv.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static uint64_t swarm_below(struct swarm *s, uint64_t n)
{
    return snic_rng_below(&s->rng, n);
}

static void swarm_later(struct swarm *s, uint64_t ns, uint32_t what, uint32_t a, uint32_t b)
{
    if (s->end_count == SWARM_PENDING)
        return;
    s->ends[s->end_count++] = (struct swarm_end){swarm_now(s) + ns, what, a, b};
}

/* ---- Clients ---- */

static void swarm_client_op(struct swarm *s, struct swarm_client *x)
{
    struct cluster *c = s->c;
    uint32_t node = (uint32_t)swarm_below(s, c->o.nodes);
    uint32_t key = (uint32_t)swarm_below(s, c->o.keys);
    uint64_t dice = swarm_below(s, 100);
    struct cluster_op *o;
    if (c->op_count + 1024 + s->hard.kept > CLUSTER_OPS) /* the rest is for the end */
        return;
    if (x->last != NULL && !x->last->open && x->last->result == 0 &&
        x->last->op.kind == SNIC_REPLICA_GET)
        x->found[x->last->key] = x->last;
    if (x->last != NULL && !x->last->open && x->last->result == SNIC_ENOENT)
        x->found[x->last->key] = NULL;
    /* One that waits has patience, then continues: its operation may still be answered. */
    if (x->last != NULL && x->last->open && swarm_below(s, 50) != 0)
        return;
    x->last = NULL;
    int result = 0;
    if ((c->o.model == SNIC_DDP_SCOPE || c->o.mix) && dice >= 90) {
        x->last = cluster_submit(c, node, SNIC_REPLICA_SYNC, 0, NULL, &result);
        /* One that is left without SYNC stays, and there are not so many: a full log refuses. */
        if ((s->o.hard & SWARM_FULL) == 0 || result == 0)
            c->node[node].scope = 0;
        return;
    }
    if (dice < s->reads)
        o = cluster_submit(c, node, SNIC_REPLICA_GET, key, NULL, &result);
    else if (dice < s->reads + s->cas)
        o = cluster_submit(c, node, SNIC_REPLICA_CAS, key, x->found[key], &result);
    else if (dice < s->reads + s->cas + s->deletes)
        o = cluster_submit(c, node, SNIC_REPLICA_DELETE, key, NULL, &result);
    else
        o = cluster_submit(c, node, SNIC_REPLICA_PUT, key, NULL, &result);
    x->last = o;
    swarm_hard_result(s, result);
}

/* ---- Blows ---- */

static void swarm_kill(struct swarm *s, uint32_t node, enum cluster_death how, uint64_t gone_ns)
{
    if (!s->c->node[node].up)
        return;
    if (s->o.print)
        printf("%12llu node %u %s\n", (unsigned long long)swarm_now(s), node,
               how == CLUSTER_POWER ? "loses power" : "crashes");
    cluster_down(s->c, node, how);
    s->deaths++;
    swarm_later(s, gone_ns, SWARM_UP, node, 0);
}

static void swarm_cut(struct swarm *s, uint32_t a, uint32_t b, uint64_t ns)
{
    snic_net_fabric_partition(s->c->fabric, a, b, 1);
    swarm_later(s, ns, SWARM_MEND, a, b);
}

static void swarm_split(struct swarm *s, uint64_t ns, int one_way)
{
    uint32_t side = 1 + (uint32_t)swarm_below(s, (1u << s->c->o.nodes) - 2);
    for (uint32_t a = 0; a < s->c->o.nodes; a++) {
        for (uint32_t b = 0; b < s->c->o.nodes; b++) {
            if ((side >> a & 1) != 0 && (side >> b & 1) == 0) {
                swarm_cut(s, a, b, ns);
                if (!one_way)
                    swarm_cut(s, b, a, ns);
            }
        }
    }
}

static void swarm_disk(struct swarm *s, uint32_t node, uint32_t op, uint32_t kind)
{
    struct snic_fault f;
    memset(&f, 0, sizeof(f));
    f.kind = kind;
    f.ops = 1u << op;
    f.after = 1 + swarm_below(s, 20);
    f.error = SNIC_EIO;
    if (kind == SNIC_FAULT_DELAY) {
        f.ops = 0;
        f.repeat = swarm_below(s, 200);
        f.delay_ns = swarm_below(s, 100 * CLUSTER_MS);
        swarm_real_disk(s, &f);
    }
    int r = snic_disk_fault(s->c->node[node].disk, &f);
    if (r != 0 && r != SNIC_ENOSPC)
        cluster_fail(s->c, "a fault's numbers");
}

static void swarm_links(struct swarm *s, const struct snic_net_link *l)
{
    for (uint32_t a = 0; a < s->c->o.nodes; a++) {
        for (uint32_t b = 0; b < s->c->o.nodes; b++) {
            if (a != b && snic_net_fabric_link(s->c->fabric, a, b, l) != 0)
                cluster_fail(s->c, "a link's numbers");
        }
    }
}

/*
 * A sector of one log goes bad while its node is down: of one node only, and only when another FULL
 * one has all that this one has: what the models promise is to survive.
 */
static void swarm_rot(struct swarm *s)
{
    struct cluster_node *n = &s->c->node[s->victim];
    uint32_t others = 0;
    for (uint32_t i = 0; i < s->c->o.nodes; i++)
        others += i != s->victim && s->c->node[i].up && cluster_serves(s->c, i);
    if (s->rotten || n->up || others == 0)
        return;
    uint64_t sectors = (uint64_t)s->c->o.segment_bytes * s->c->o.segments / 512;
    unsigned char *p = snic_disk_bytes(n->disk) + 512 * swarm_below(s, sectors);
    for (uint32_t i = 0; i < 16; i++) {
        unsigned char bit = (unsigned char)(1u << swarm_below(s, 8));
        p[swarm_below(s, 512)] ^= bit;
    }
    snic_disk_sync(n->disk);
    s->rotten = 1;
}

static void swarm_all(struct swarm *s, enum cluster_death how)
{
    if (s->o.print)
        printf("%12llu all %s\n", (unsigned long long)swarm_now(s),
               how == CLUSTER_POWER ? "lose power" : "crash");
    for (uint32_t i = 0; i < s->c->o.nodes; i++) {
        if (s->c->node[i].up)
            swarm_later(s, swarm_below(s, SWARM_SECOND), SWARM_UP, i, 0);
        s->deaths += s->c->node[i].up != 0;
    }
    cluster_down_all(s->c, how);
}

static void swarm_blow(struct swarm *s)
{
    uint32_t blow = (uint32_t)swarm_below(s, BLOWS);
    uint32_t node = (uint32_t)swarm_below(s, s->c->o.nodes);
    uint32_t other = (uint32_t)swarm_below(s, s->c->o.nodes);
    uint64_t ns = 50 * CLUSTER_MS + swarm_below(s, 1500 * (uint64_t)CLUSTER_MS);
    enum cluster_death how = swarm_below(s, 2) ? CLUSTER_POWER : CLUSTER_CRASH;
    if ((s->enabled >> blow & 1) == 0)
        return;
    switch (blow) {
    case BLOW_CRASH:
    case BLOW_POWER:
        swarm_kill(s, node, blow == BLOW_POWER ? CLUSTER_POWER : CLUSTER_CRASH, ns);
        break;
    case BLOW_ALL_POWER:
    case BLOW_ALL_CRASH:
        swarm_all(s, blow == BLOW_ALL_POWER ? CLUSTER_POWER : CLUSTER_CRASH);
        break;
    case BLOW_STORM:
        s->storm_until = swarm_now(s) + ns;
        swarm_kill(s, node, how, 1 + swarm_below(s, 100 * CLUSTER_MS));
        break;
    case BLOW_PAUSE:
        cluster_pause(s->c, node, 1);
        swarm_later(s, ns, SWARM_UNPAUSE, node, 0);
        break;
    case BLOW_SPLIT:
    case BLOW_ONE_WAY:
        swarm_split(s, ns, blow == BLOW_ONE_WAY);
        break;
    case BLOW_BRIDGE: /* two that do not hear each other, though all others hear both */
        if (node != other) {
            swarm_cut(s, node, other, ns);
            swarm_cut(s, other, node, ns);
        }
        break;
    case BLOW_FLUSH:
        swarm_disk(s, node, SNIC_IO_FLUSH, SNIC_FAULT_ERROR);
        break;
    case BLOW_WRITE:
        swarm_disk(s, node, SNIC_IO_WRITE, SNIC_FAULT_ERROR);
        break;
    case BLOW_SLOW_DISK:
        swarm_disk(s, node, SNIC_IO_WRITE, SNIC_FAULT_DELAY);
        break;
    case BLOW_ROT:
        swarm_rot(s);
        break;
    default: {
        struct snic_net_link l = s->link;
        l.loss_ppm = (uint32_t)swarm_below(s, 300000);
        swarm_links(s, &l);
        swarm_later(s, ns, SWARM_CALM, 0, 0);
        break;
    }
    }
}

/* ---- Time ---- */

static void swarm_end(struct swarm *s, const struct swarm_end *e)
{
    switch (e->what) {
    case SWARM_UNPAUSE:
        cluster_pause(s->c, e->a, 0);
        break;
    case SWARM_MEND:
        snic_net_fabric_partition(s->c->fabric, e->a, e->b, 0);
        break;
    case SWARM_UP:
        if (s->o.print && !s->c->node[e->a].up)
            printf("%12llu node %u comes up\n", (unsigned long long)swarm_now(s), e->a);
        cluster_up(s->c, e->a, 0);
        if (swarm_now(s) < s->storm_until)
            swarm_later(s, 1 + swarm_below(s, 200 * CLUSTER_MS), SWARM_CALM, e->a, 1);
        break;
    default:
        if (e->b != 0)
            swarm_kill(s, e->a, CLUSTER_POWER, 1 + swarm_below(s, 100 * CLUSTER_MS));
        else
            swarm_links(s, &s->link);
        break;
    }
}

/* A node whose log failed has ended; an operator starts it again. */
static void swarm_stopped(struct swarm *s)
{
    for (uint32_t i = 0; i < s->c->o.nodes; i++) {
        struct snic_replica_stats info;
        if (!s->c->node[i].up)
            continue;
        snic_replica_get_stats(s->c->node[i].r, &info);
        if (info.state != SNIC_REPLICA_STOPPED)
            continue;
        if (info.failure == SNIC_EEXIST && (s->o.hard & SWARM_CHANGES) != 0) {
            s->hard.wipe |= 1u << i; /* its power went while a new disk's log was made */
            cluster_down(s->c, i, CLUSTER_DARK);
            continue;
        }
        if (info.failure != SNIC_EIO && info.failure != SNIC_ECORRUPT)
            cluster_fail(s->c, snic_errname(info.failure));
        snic_disk_faults_clear(s->c->node[i].disk);
        swarm_kill(s, i, CLUSTER_POWER, swarm_below(s, 500 * CLUSTER_MS));
    }
}

static uint64_t swarm_next(const struct swarm *s)
{
    uint64_t at = snic_min_u64(s->real.at, snic_min_u64(s->chaos_at, s->hard.at));
    for (uint32_t i = 0; i < s->clients; i++)
        at = snic_min_u64(at, s->client[i].at);
    for (uint32_t i = 0; i < s->end_count; i++)
        at = snic_min_u64(at, s->ends[i].at);
    return at;
}

static void swarm_due(struct swarm *s, uint64_t now)
{
    for (uint32_t i = 0; i < s->clients; i++) {
        if (s->client[i].at <= now) {
            s->client[i].at = now + 1 + swarm_below(s, 2 * s->think_ns);
            swarm_client_op(s, &s->client[i]);
        }
    }
    for (uint32_t i = 0; i < s->end_count;) {
        struct swarm_end e = s->ends[i];
        if (e.at > now) {
            i++;
            continue;
        }
        s->ends[i] = s->ends[--s->end_count];
        swarm_end(s, &e);
    }
    if (s->chaos_at <= now) {
        s->chaos_at = now + 1 + swarm_below(s, 2 * s->chaos_ns);
        swarm_blow(s);
    }
    swarm_stopped(s);
    if (s->hard.at <= now)
        swarm_hard_due(s, now);
    if (s->real.at <= now)
        swarm_real_due(s, now);
}

static void swarm_until(struct swarm *s, uint64_t end)
{
    while (s->c->failure == NULL && swarm_now(s) < end) {
        uint64_t at = snic_min_u64(swarm_next(s), end);
        if (at > swarm_now(s))
            cluster_run(s->c, at - swarm_now(s));
        swarm_due(s, swarm_now(s));
    }
}

/* ---- A run ---- */

static void swarm_choose(struct swarm *s, struct cluster_opts *o)
{
    static const uint64_t delays[] = {20000, 200000, 2000000, 20000000};
    static const uint32_t losses[] = {0, 0, 10000, 50000, 200000};
    memset(o, 0, sizeof(*o));
    o->seed = s->o.seed;
    o->nodes = 3 + (uint32_t)swarm_below(s, 3);
    o->min_full = s->o.seed % 3 == 0; /* 1, or the default */
    o->confirms = s->o.seed % 5 == 0;
    o->witness = swarm_below(s, 6) == 0;
    o->model = SNIC_DDP_SYNCH + (uint32_t)swarm_below(s, 5);
    if (s->o.model != 0)
        o->model = s->o.model;
    o->mix = (s->o.hard & (SWARM_LIES | SWARM_NO_LIES)) == 0 && s->o.seed / 2 % 2 != 0;
    o->ddp_flags = swarm_below(s, 4) == 0 ? (uint32_t)SNIC_DDP_PAPER : 0;
    if (swarm_below(s, 8) == 0)
        o->ddp_flags |= SNIC_DDP_VALC_AFTER_PERSIST;
    o->keys = 2 + (uint32_t)swarm_below(s, CLUSTER_KEYS - 1);
    o->keys_max = 16;
    o->segment_bytes = swarm_below(s, 4) == 0 ? 65536 : 16384;
    o->value_max = o->segment_bytes == 65536 ? 2000 : 400;
    o->flush_ns_max = 20000 + swarm_below(s, 4 * CLUSTER_MS);
    o->background_ns = CLUSTER_MS + swarm_below(s, 60 * CLUSTER_MS);
    o->checks = s->o.search ? 64 : 0;
    s->clients = 2 + (uint32_t)swarm_below(s, SWARM_CLIENTS - 1);
    s->think_ns = CLUSTER_MS * (2 + swarm_below(s, 60));
    s->reads = (uint32_t)swarm_below(s, 80);
    s->cas = (uint32_t)swarm_below(s, 15);
    s->deletes = (uint32_t)swarm_below(s, 10);
    s->chaos_ns = 50 * CLUSTER_MS + swarm_below(s, 1500 * (uint64_t)CLUSTER_MS);
    s->enabled = (uint32_t)snic_rng_next(&s->rng) | (uint32_t)snic_rng_next(&s->rng);
    s->victim = (uint32_t)swarm_below(s, o->nodes);
    s->link.delay_min_ns = 5000;
    s->link.delay_max_ns = 5000 + delays[swarm_below(s, SNIC_COUNTOF(delays))];
    s->link.loss_ppm = losses[swarm_below(s, SNIC_COUNTOF(losses))];
    s->link.duplicate_ppm = (uint32_t)swarm_below(s, 2) * 50000;
    s->link.corrupt_ppm = (uint32_t)swarm_below(s, 2) * 5000;
}

static void swarm_heal(struct swarm *s)
{
    static const struct snic_net_link calm = {.delay_min_ns = 10000, .delay_max_ns = 50000};
    struct cluster *c = s->c;
    if (s->o.print)
        printf("%12llu all is mended\n", (unsigned long long)swarm_now(s));
    s->end_count = 0;
    s->chaos_at = SNIC_NEVER;
    s->storm_until = 0;
    swarm_links(s, &calm);
    for (uint32_t a = 0; a < c->o.nodes; a++) {
        for (uint32_t b = 0; b < c->o.nodes; b++)
            snic_net_fabric_partition(c->fabric, a, b, 0);
        cluster_pause(c, a, 0);
        snic_disk_faults_clear(c->node[a].disk);
    }
    for (uint32_t a = 0; a < c->o.nodes; a++)
        cluster_up(c, a, 0);
    swarm_hard_heal(s);
    swarm_real_heal(s);
}

/* All are up, none is FULL, and a log is not good: an operator states that there are no others. */
static void swarm_operator(struct swarm *s)
{
    for (uint32_t i = 0; i < s->c->o.nodes; i++) {
        struct snic_replica_stats info;
        snic_replica_get_stats(s->c->node[i].r, &info);
        if (info.state == SNIC_REPLICA_RUNNING && info.member.state == SNIC_MEMBER_RESTARTING &&
            snic_replica_override(s->c->node[i].r, 0, 1) == 0)
            s->overrides++;
    }
}

static void swarm_status(struct swarm *s)
{
    for (uint32_t i = 0; i < s->c->o.nodes; i++) {
        struct snic_replica_stats f;
        snic_replica_get_stats(s->c->node[i].r, &f);
        printf("node %u state %u failure %d serves %u good %u member %u role %u vote %u inc %u "
               "hears %x missing %x epoch %u full %x learners %x | ddp epoch %u role %u serves %u "
               "writes %u learned %u records %u | wal opened %u dead %u writable %u full %u "
               "appended %llu durable %llu free %u no_room %llu\n",
               i, f.state, f.failure, f.serves, f.log_good, f.member.state, f.member.role,
               f.member.vote, f.member.incarnation, f.member.hears, f.member.missing,
               f.member.view.epoch, f.member.view.full, f.member.view.learners, f.ddp.epoch,
               f.ddp.role, f.ddp.serves, f.ddp.writes, f.ddp.learned, f.ddp.records, f.wal.opened,
               f.wal.dead, f.wal.writable, f.wal.full, (unsigned long long)f.wal.appended,
               (unsigned long long)f.wal.durable, f.wal.segments_free,
               (unsigned long long)f.no_room);
    }
}

/* No request is sent any more, and all are answered; 0: not without clients that continue. */
static int swarm_quiet(struct swarm *s)
{
    uint32_t clients = s->clients;
    s->clients = 0;
    cluster_run(s->c, 5 * SWARM_SECOND); /* a node with a full log may have to leave first */
    if (!swarm_hard_waits(s))
        return 1;
    s->clients = clients;
    return 0;
}

static void swarm_rest(struct swarm *s)
{
    for (uint32_t i = 0; s->c->failure == NULL; i++) {
        swarm_until(s, swarm_now(s) + SWARM_SECOND);
        int serve = cluster_settle(s->c, SWARM_SECOND);
        if (serve && swarm_quiet(s))
            break;
        if (i >= 6)
            swarm_operator(s);
        if (i == 30)
            swarm_status(s);
        if (i == 30)
            cluster_fail(s->c, serve ? "liveness: full logs stay full, whatever is deleted"
                                     : "liveness: not all serve after everything was mended");
    }
    for (uint32_t i = 0; i < s->c->o.nodes && s->c->failure == NULL; i++) {
        for (uint32_t k = 0; k < s->c->o.keys && cluster_serves(s->c, i); k++) {
            int r = cluster_do(s->c, i, SNIC_REPLICA_GET, k, NULL);
            if (r != 0 && r != SNIC_ENOENT)
                cluster_fail(s->c, "liveness: a read is not answered");
        }
    }
    if (s->c->failure == NULL)
        cluster_same(s->c);
    if (s->c->failure == NULL)
        swarm_hard_end(s);
}

void swarm_run(const struct swarm_opts *o, struct swarm_result *out)
{
    static struct swarm s;
    struct cluster_opts co;
    static char text[320];
    memset(&s, 0, sizeof(s));
    memset(out, 0, sizeof(*out));
    s.o = *o;
    snic_rng_init(&s.rng, o->seed);
    swarm_choose(&s, &co);
    swarm_hard_choose(&s, &co);
    swarm_real_choose(&s, &co);
    s.c = cluster_new(&co);
    s.c->quiet = o->quiet;
    for (uint32_t i = 0; i < co.nodes; i++)
        cluster_up(s.c, i, 1);
    if (!cluster_settle(s.c, 20 * SWARM_SECOND))
        cluster_fail(s.c, "the cluster does not begin");
    uint64_t start = swarm_now(&s);
    swarm_hard_begin(&s);
    swarm_real_begin(&s);
    swarm_links(&s, &s.link);
    for (uint32_t i = 0; i < s.clients; i++)
        s.client[i].at = start;
    s.chaos_at = start + swarm_below(&s, s.chaos_ns);
    swarm_until(&s, start + o->faults_ns);
    swarm_heal(&s);
    uint64_t healed = swarm_now(&s);
    swarm_rest(&s);
    out->settle_ns = swarm_now(&s) - healed;
    if ((o->hard & SWARM_WORSE_CLOCKS) != 0)
        out->stale = cluster_judge_stale(s.c);
    else
        cluster_judge(s.c, (int)o->search);
    out->simulated_ns = swarm_now(&s) - start;
    out->operations = s.c->answered;
    out->restarts = s.c->restart_count;
    out->epochs = s.c->epoch;
    out->deaths = s.deaths;
    out->overrides = s.overrides;
    out->model = co.model;
    out->full = s.hard.full;
    out->configs = s.hard.configs;
    out->emptied = s.hard.times;
    if (s.c->failure != NULL) {
        (void)snprintf(text, sizeof(text), "%s", s.c->failure);
        out->failure = text;
        s.c->failure = NULL;
    }
    cluster_down_all(s.c, CLUSTER_CRASH);
    out->events = s.c->events;
    out->steps = s.c->steps;
    out->hash = s.c->hash;
    cluster_free(s.c);
}
