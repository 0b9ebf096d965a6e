/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * How many I/Os a client needs out to get its floor: part of the credit that goes with a completed
 * I/O.
 *
 * I1  floor_out is at most SNIC_GIMBAL_QUEUE_MAX.
 */
#include "gimbal/gimbal_priv.h"

#define SNIC_GIMBAL__FLOOR_NETWORK 100000 /* ns */

/* What an I/O like this one takes of the floor's time, the shortest of both kinds; 0: no floor. */
static uint64_t floor_time(const struct gimbal_tenant *t, const struct snic_gimbal_io *io)
{
    uint64_t time = 0;
    for (unsigned i = 0; i < 2; i++) {
        const struct gimbal_pace *p = &t->floor[i];
        uint64_t one = gimbal_cap_time(p, i == 0 ? io->size : 1);
        if (p->mantissa != 0 && (time == 0 || one < time))
            time = one > 0 ? one : 1;
    }
    return time;
}

/* How many I/Os like this one, which has completed, a client needs out to get its floor: twice what
 * the time on the device, and some on a network, take. Falls slowly: latencies vary. */
static uint32_t floor_out(const struct snic_gimbal *g, struct gimbal_tenant *t,
                          const struct snic_gimbal_io *io)
{
    uint64_t time = floor_time(t, io);
    if (time == 0)
        return 0;
    uint64_t out = 2 * (g->now_ns - io->sent_ns + SNIC_GIMBAL__FLOOR_NETWORK);
    /* The one 32-bit division: below 2^9 ns exactly enough, above to one part in 2^7. */
    unsigned shift = time >> 8 != 0 ? 56 - (unsigned)__builtin_clzll(time) : 0;
    out = snic_min_u64(out >> shift, UINT32_MAX);
    out = (uint32_t)out / (uint32_t)(time >> shift) + 1;
    out = snic_max_u64(out, t->floor_out - (t->floor_out + 255) / 256);
    t->floor_out = (uint32_t)snic_min_u64(out, SNIC_GIMBAL_QUEUE_MAX);
    return t->floor_out;
}

/* The credit that goes with the completed I/O, for the floors of its tenant and of its group. */
uint32_t gimbal_floor_credit(const struct snic_gimbal *g, struct gimbal_tenant *t,
                             const struct snic_gimbal_io *io)
{
    uint64_t out = floor_out(g, t, io);
    struct gimbal_tenant *group = t->group;
    if (group != NULL && (group->flags & GIMBAL_FLOORED) != 0) {
        uint32_t all = floor_out(g, group, io);
        if (group->busy_weight > t->weight) /* below 2^29 */
            all = (all * t->weight + group->busy_weight - 1) / group->busy_weight;
        out = snic_max_u64(out, all);
    }
    return (uint32_t)snic_min_u64(out, g->o.queue_max);
}
