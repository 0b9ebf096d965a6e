/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * How long replies may be cached: by the kernel, and in pages of the hybrid cache.
 *
 *   V1 A validity that is handed to the kernel ends with what is proven of the session's lease
 *      (snic_kvfs_valid_until_ns()), by CLOCK_BOOTTIME, for others may declare the session dead
 *      after that while this process is stopped and cannot take it back.
 *   V2 The kernel counts from when it has the reply, in ticks, rounded up: what is proven is half
 *      a lease, so that the delay of a reply by up to the other half does no harm.
 *   V3 Its clock stands still while the machine is suspended, and a reply may be delayed by more
 *      than V2 allows if this process is stopped just then: so the names are invalidated when this
 *      process runs again and finds that the validity has ended.
 */
#include "mount.h"

int km_valid_set(struct km *m, int alone, uint64_t until_ns)
{
    int changed = alone != atomic_load_explicit(&m->alone, memory_order_relaxed);

    atomic_store_explicit(&m->alone, alone, memory_order_relaxed);
    if (until_ns != m->valid_ns)
        m->valid_expired = 0;
    m->valid_ns = until_ns;
    return changed;
}

/* ns; SNIC_NEVER: no limit. */
static uint64_t valid_left(const struct km *m)
{
    uint64_t now;

    if (!atomic_load_explicit(&m->alone, memory_order_relaxed))
        return 0;
    if (m->valid_ns == SNIC_NEVER)
        return SNIC_NEVER;
    now = snic_loop_clock(m->loop);
    return now < m->valid_ns ? m->valid_ns - now : 0;
}

double km_valid_seconds(const struct km *m)
{
    uint64_t left = valid_left(m); /* V1 */

    return left == SNIC_NEVER || (double)left > m->timeout * 1e9 ? m->timeout : (double)left / 1e9;
}

int km_valid_now(const struct km *m)
{
    return valid_left(m) > 0;
}

void km_valid_look(struct km *m)
{
    if (m->valid_expired || !atomic_load_explicit(&m->alone, memory_order_relaxed) ||
        km_valid_now(m))
        return;
    m->valid_expired = 1;
    if (m->se != NULL && m->mounted_here)
        (void)km_notify_expire(m); /* V3 */
}
