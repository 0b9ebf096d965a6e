/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * What a device can do, for those who need to know beforehand: the static models of ReFlex and
 * PARDA, and whoever lets --auto choose Gimbal's thresholds. A second of reads each.
 */
#include "tenants.h"

#include <string.h>

#define CALIBRATE_NS UINT64_C(1000000000)

static void calibrate_job(struct job_list *l, uint32_t bytes, uint32_t depth)
{
    memset(l, 0, sizeof(*l));
    l->count = 1;
    l->tenants = 1;
    memcpy(l->jobs[0].name, "calibrate", sizeof("calibrate"));
    l->jobs[0].random = 1;
    l->jobs[0].sizes = 1;
    l->jobs[0].size[0].bytes = bytes;
    l->jobs[0].size[0].percent = 100;
    l->jobs[0].depth = depth;
    l->jobs[0].count = 1;
    l->jobs[0].weight = 1;
    l->jobs[0].stop_ns = UINT64_MAX;
}

int calibrate_device(struct calibration *c, struct device *d, uint64_t seed)
{
    static const struct {
        uint32_t bytes;
        uint32_t depth;
    } steps[] = {{4096, 1}, {131072, 1}, {131072, 8}, {4096, 64}};
    struct run_opts o = {.scheduler = &sched_fifo,
                         .seconds_ns = CALIBRATE_NS,
                         .seed = seed,
                         .only = -1,
                         .at_once = 1};
    struct job_list jobs;

    memset(c, 0, sizeof(*c));
    for (size_t i = 0; i < SNIC_COUNTOF(steps); i++) {
        struct run r;
        const struct snic_hist *h;
        int interrupted;

        calibrate_job(&jobs, (uint32_t)snic_min_u64(steps[i].bytes, d->size), steps[i].depth);
        interrupted = run_tenants(&r, d, &jobs, &o);
        h = &r.tenants[0].latency;
        if (!interrupted && h->count > 0) {
            double mean = (double)h->sum / (double)h->count;

            if (i == 0)
                c->alone_4k_ns = mean;
            else if (i == 1) /* the highest, but for one in a hundred */
                c->alone_128k_ns = (double)snic_hist_quantile(h, 990000);
            else if (i == 2)
                c->full_128k_ns = (double)snic_hist_quantile(h, 990000);
            else
                c->reads_per_s = run_rate(&r.tenants[0]) / 4096;
        }
        run_free(&r);
        if (interrupted)
            return 1;
    }
    return 0;
}
