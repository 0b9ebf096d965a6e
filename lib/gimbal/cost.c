/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * Write cost (section 3.4): once a period, additive decrease while writes are fast, else half of
 * the way to the worst. A period is judged by the first completion after it; one without writes
 * changes nothing.
 *
 * I1  SNIC_GIMBAL_COST_ONE <= write_cost <= write_cost_worst.
 */
#include "gimbal/gimbal_priv.h"

void gimbal_cost_init(struct snic_gimbal *g)
{
    /* Unknown yet: what is dearer than it seems would be let in too fast. */
    g->write_cost = g->o.write_cost_worst;
    g->cost_ns = g->now_ns + g->o.cost_period_ns;
}

void gimbal_cost_done(struct snic_gimbal *g, const struct snic_gimbal_io *io, uint64_t now)
{
    uint32_t cost = g->write_cost;
    g->cost_writes += io->op == SNIC_GIMBAL_WRITE;
    if (SNIC_LIKELY(now < g->cost_ns))
        return;
    g->cost_ns = now + g->o.cost_period_ns;
    if (g->cost_writes == 0)
        return;
    g->cost_writes = 0;
    if (g->monitor[SNIC_GIMBAL_WRITE].ewma_ns >= g->o.thresh_min_ns)
        cost = (cost + g->o.write_cost_worst + 1) / 2; /* up, or it never gets there */
    else if (cost > SNIC_GIMBAL_COST_ONE + g->o.write_cost_delta)
        cost -= g->o.write_cost_delta;
    else
        cost = SNIC_GIMBAL_COST_ONE; /* I1 */
    if (cost == g->write_cost)
        return;
    g->write_cost = cost;
    gimbal_bucket_share(g);
}
