/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * What real machines have, in some of the default runs: links of a bandwidth, values that take
 * several blocks, little memory for values, disks that take up to 5 s for a flush, connections that
 * break for no reason, bursts of writes, and a cluster key. By dice of its own.
 */
#include "swarm_priv.h"

#include <stdio.h>
#include <string.h>

enum {
    REAL_BANDWIDTH = 1 << 0,
    REAL_VALUES = 1 << 1,
    REAL_POOL = 1 << 2,
    REAL_BREAKS = 1 << 3,
    REAL_BURSTS = 1 << 4
};

static uint64_t real_below(struct swarm *s, uint64_t n)
{
    return snic_rng_below(&s->real.rng, n);
}

void swarm_real_choose(struct swarm *s, struct cluster_opts *o)
{
    struct swarm_real *x = &s->real;
    x->at = SNIC_NEVER;
    if (s->o.hard != 0)
        return;
    snic_rng_init(&x->rng, s->o.seed ^ UINT64_C(0x5ea1));
    x->has = (uint32_t)snic_rng_next(&x->rng) & (uint32_t)snic_rng_next(&x->rng);
    x->slow = real_below(s, 6) == 0;
    if (real_below(s, 3) == 0) {
        x->secret.bytes[0] = s->o.seed;
        o->sec = &solar_toy_ops;
        o->secret = &x->secret;
        for (uint32_t i = 0; i < CLUSTER_NODES; i++)
            o->gcm[i] = &x->gcm[i];
    }
    if ((x->has & REAL_BANDWIDTH) != 0)
        s->link.bytes_per_s = UINT64_C(500000) << real_below(s, 9);
    if ((x->has & REAL_VALUES) != 0 && real_below(s, 4) == 0) {
        o->segment_bytes = 1 << 20;
        o->value_max = 32000;
    }
    if ((x->has & REAL_POOL) != 0)
        o->values_bytes = (o->keys_max + 40) * snic_pow2_up(o->value_max + 127);
}

/* The end of the network's patience, or of a load balancer's. */
static void real_break(struct swarm *s)
{
    struct cluster_node *n = &s->c->node[real_below(s, s->c->o.nodes)];
    uint32_t other = (uint32_t)real_below(s, s->c->o.nodes);
    if (!n->up || n->paused || other == n->number || s->o.sever == NULL)
        return;
    if (s->o.print)
        printf("%12llu the connection of %u and %u breaks\n", (unsigned long long)swarm_now(s),
               n->number, other);
    s->o.sever(n, other);
}

/* As many writes as a node takes, of which nothing is expected but that they are right. */
static void real_burst(struct swarm *s)
{
    struct cluster *c = s->c;
    uint32_t node = (uint32_t)real_below(s, c->o.nodes);
    for (uint32_t i = 0; i < 24 && c->op_count + 1024 < CLUSTER_OPS / 2; i++)
        (void)cluster_submit(c, node, SNIC_REPLICA_PUT, i % c->o.keys, NULL, NULL);
}

void swarm_real_begin(struct swarm *s)
{
    if ((s->real.has & (REAL_BREAKS | REAL_BURSTS)) != 0)
        s->real.at = swarm_now(s) + real_below(s, SWARM_SECOND);
}

void swarm_real_due(struct swarm *s, uint64_t now)
{
    s->real.at = now + 1 + real_below(s, SWARM_SECOND);
    if ((s->real.has & REAL_BREAKS) != 0)
        real_break(s);
    if ((s->real.has & REAL_BURSTS) != 0 && real_below(s, 4) == 0)
        real_burst(s);
}

/* How long a fault of a disk lasts, and how often it comes. */
void swarm_real_disk(struct swarm *s, struct snic_fault *f)
{
    if (!s->real.slow)
        return;
    f->ops = 1u << SNIC_IO_FLUSH | 1u << SNIC_IO_WRITE;
    f->repeat = real_below(s, 6);
    f->delay_ns = real_below(s, 5 * SWARM_SECOND);
}

/* All is mended: what a disk has begun may still take as long. */
void swarm_real_heal(struct swarm *s)
{
    s->real.at = SNIC_NEVER;
    if (s->real.slow)
        cluster_run(s->c, 6 * SWARM_SECOND);
}
