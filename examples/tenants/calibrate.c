/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * Measures what a device can do, for users that need it beforehand: the static models of ReFlex and
 * PARDA. Each step takes a second.
 */
#include "tenants.h"

#include <string.h>

#define CALIBRATE_NS UINT64_C(1000000000)

/* What one step measured. */
struct calibrate_step {
    double mean_ns;
    double bytes_per_s;
};

/* A second of random I/Os of one kind and size. @return 0; 1 interrupted */
static int calibrate_run(struct calibrate_step *out, struct device *d, uint64_t seed, uint32_t kind,
                         uint32_t bytes, uint32_t depth)
{
    static struct job_list jobs;
    struct job *j = &jobs.jobs[0];
    struct run_opts o = {.scheduler = &sched_fifo,
                         .seconds_ns = CALIBRATE_NS,
                         .seed = seed,
                         .only = -1,
                         .at_once = 1};
    struct run r;
    int interrupted;

    memset(&jobs, 0, sizeof(jobs));
    jobs.count = 1;
    jobs.tenants = 1;
    memcpy(j->name, "calibrate", sizeof("calibrate"));
    j->kind = kind;
    j->random = 1;
    j->sizes = 1;
    j->size[0].bytes = (uint32_t)snic_min_u64(snic_min_u64(bytes, d->transfer_max), d->size);
    j->size[0].percent = 100;
    j->depth = depth;
    j->count = 1;
    j->weight = 1;
    j->stop_ns = UINT64_MAX;
    interrupted = run_tenants(&r, d, &jobs, &o);
    if (!interrupted) {
        const struct snic_hist *h = &r.tenants[0].latency;

        if (h->count == 0)
            ex_die("the device has not completed an I/O for a second");
        out->mean_ns = (double)h->sum / (double)h->count;
        out->bytes_per_s = report_rate(&r.tenants[0]);
    }
    run_free(&r);
    return interrupted;
}

int calibrate_speed(struct calibration *c, struct device *d, uint64_t seed)
{
    struct calibrate_step alone;
    struct calibrate_step full;

    if (calibrate_run(&alone, d, seed, JOB_READ, 4096, 1) != 0 ||
        calibrate_run(&full, d, seed, JOB_READ, 4096, 64) != 0)
        return 1;
    c->read_ns = alone.mean_ns;
    c->reads_per_s = full.bytes_per_s / 4096;
    return 0;
}
