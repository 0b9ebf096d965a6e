/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/**
 * Inner events, in a heap: by time, and of one moment by number.
 */
#include "ssd/ssd_priv.h"

void ssd_event_down(struct snic_ssd *d, struct ssd_event e)
{
    struct ssd_event *h = d->heap;
    uint32_t i = 0, n = d->events;
    for (;;) {
        uint32_t c = 4 * i + 1;
        if (c >= n)
            break;
        uint32_t best = c, end = c + 4 < n ? c + 4 : n;
        for (uint32_t k = c + 1; k < end; k++)
            best = ssd_before(h[k], h[best]) ? k : best;
        if (!ssd_before(h[best], e))
            break;
        h[i] = h[best];
        i = best;
    }
    h[i] = e;
}

void ssd_event_add(struct snic_ssd *d, uint64_t at, uint32_t what)
{
    struct ssd_event e = {.at = at, .what = what};
    struct ssd_event *h = d->heap;
    if (d->hole) { /* most events replace the one that is being handled */
        d->hole = 0;
        ssd_event_down(d, e);
        return;
    }
    SNIC_ASSERT(d->events < d->o.dies + 2 + d->o.window); /* ssd_layout() */
    uint32_t i = d->events++;
    while (i > 0 && ssd_before(e, h[(i - 1) / 4])) {
        h[i] = h[(i - 1) / 4];
        i = (i - 1) / 4;
    }
    h[i] = e;
}
