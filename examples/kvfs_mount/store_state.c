/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* The state of the store that this process has mounted: metrics, and whether its session is dead.
 */
#include "mount.h"

#include "../common.h"

#include <string.h>

size_t km_store_metrics(struct kvfs_store *store, struct ex_metric *out)
{
    struct snic_kvfs_stats s = {0};

    if (store->fs == NULL)
        return 0;
    snic_kvfs_get_stats(snic_fs_engine(store->fs), &s);
    const struct ex_metric all[] = {
        {"damages", store->damages, 1},
        {"requests", s.requests, 1},
        {"cache_hits", s.cache_hits, 1},
        {"cache_misses", s.cache_misses, 1},
        {"store_gets", s.store_gets, 1},
        {"store_commits", s.store_commits, 1},
        {"store_objects", s.store_objects, 1},
        {"retries", s.retries, 1},
        {"orphans", s.orphans, 1},
        {"sessions", s.sessions, 0},
        {"alone", s.alone, 0},
        {"inodes", s.inodes, 0},
        {"fenced", s.fenced, 1},
        {"fence_failures", s.fence_failures, 1},
    };

    memcpy(out, all, sizeof(all));
    return SNIC_COUNTOF(all);
}

/* It is tried again with each heartbeat: logged the first time, and when the count has doubled. */
static void store_judge_fences(struct kvfs_store *store, const struct snic_kvfs_stats *s)
{
    if (s->fence_failures == 0 || s->fence_failures < 2 * store->fence_failures)
        return;
    store->fence_failures = s->fence_failures;
    ex_log(
        EX_ERROR,
        "%s: cannot fence a mount that does not respond: %s%s; it is not declared dead, and its "
        "locks and open files stay",
        store->spec, snic_strerror((int)s->fence_error),
        s->fence_error == SNIC_EACCES
            ? " (this client's key needs mon 'profile rbd', or 'allow command \"osd blocklist\"')"
            : "");
}

void km_store_judge(struct kvfs_store *store, const struct snic_kvfs_stats *s, int *dead)
{
    store_judge_fences(store, s);
    if (s->sessions != 0 || *dead)
        return;
    *dead = 1;
    ex_log(EX_ERROR,
           "%s: this mount did not respond for so long that another one declared it dead: all its "
           "requests fail until it is unmounted and mounted again",
           store->spec);
}
