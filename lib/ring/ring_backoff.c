/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * How a side of a ring waits: pause, then yield, then sleep. A miss costs more the longer nothing
 * comes: pauses double up to 64, so that the cache lines polled stay with their writers; then the
 * processor is offered to a thread that may need it in order to produce; then sleep is due. The
 * caller yields and sleeps: this module makes no system call.
 */
#include "snicstore/ring.h"

#include "base/simd.h"

#define SNIC_RING__SPINS 12U
#define SNIC_RING__YIELDS 8U
#define SNIC_RING__PAUSES_SHIFT 6U

int snic_ring_backoff_next(struct snic_ring_backoff *b)
{
    uint32_t spins = b->spins_max != 0 ? b->spins_max : SNIC_RING__SPINS;
    uint32_t yields = b->yields_max != 0 ? b->yields_max : SNIC_RING__YIELDS;
    uint32_t miss = b->misses;
    uint32_t pauses;

    if (b->misses != UINT32_MAX)
        b->misses++;
    if (miss >= spins)
        return miss - spins < yields ? SNIC_RING_YIELD : SNIC_RING_SLEEP;
    for (pauses = UINT32_C(1) << (miss < SNIC_RING__PAUSES_SHIFT ? miss : SNIC_RING__PAUSES_SHIFT);
         pauses > 0; pauses--)
        simd_cpu_relax();
    return SNIC_RING_LOOK;
}

#undef SNIC_RING__SPINS
#undef SNIC_RING__YIELDS
#undef SNIC_RING__PAUSES_SHIFT
