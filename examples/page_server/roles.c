/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* What the roles share: the figures of the engine. */
#include "roles.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

size_t ps_engine_stat(const struct ps_config *c, const char *role, char *out, size_t max)
{
    int n = snprintf(out, max,
                     "role=%s\npid=%d\ncpu_us=%" PRIu64 "\npages=%" PRIu64
                     "\npage_bytes=%u\nremote=%d\n",
                     role, (int)getpid(), ex_cpu_process_ns() / 1000, c->limits.pages,
                     c->limits.page_bytes, c->limits.remote);

    return n < 0 ? 0 : snic_min_u64((uint64_t)n, max - 1);
}

size_t ps_engine_metrics(const struct engine *e, struct ex_metric *out)
{
    struct engine_stats s;

    engine_get_stats(e, &s);
    const struct ex_metric all[] = {
        {"gets", s.gets, 1},
        {"get_waits", s.get_waits, 1},
        {"logs", s.logs, 1},
        {"log_writes", s.log_writes, 1},
        {"log_bytes", s.log_bytes, 1},
        {"replays", s.replays, 1},
        {"replayed", s.replayed, 1},
        {"read_retries", s.retries, 1},
        {"busy", s.busy, 1},
        {"errors", s.errors, 1},
        {"damaged_pages", s.damaged, 0},
        {"mended_pages", s.mended, 1},
        {"dropped_updates", s.dropped, 1},
    };

    memcpy(out, all, sizeof(all));
    return SNIC_COUNTOF(all);
}
