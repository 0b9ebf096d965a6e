/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/**
 * @file examples/tenants/tenants.h
 * What the parts of the program share: the device, one run of tenants on it, its results.
 */
#ifndef TENANTS_H
#define TENANTS_H

#include <signal.h>
#include <stdio.h>

#include "../common.h"
#include "job.h"
#include "../../bench/gimbal_peers/sched.h"

/* ---- Device: a file, a block device, or the model of an SSD ---- */

struct device {
    /* set by main */
    const char *path; /* NULL: the model */
    const char *model;
    uint64_t size; /* asked for; 0: whole, or the model's default. After device_open(): used */
    uint64_t seed;
    int direct;
    int writes; /* a tenant writes */
    int overwrite;
    /* the device's */
    struct snic_loop *loop;
    struct snic_io *io;
    uint32_t align; /* of offsets and lengths */
    uint32_t transfer_max;
    struct snic_world *world;
    struct snic_disk *disk;
    struct snic_ssd_opts ssd;
    unsigned char *pool; /* the I/Os' memory */
    size_t pool_bytes;
    int region; /* of the pool; SNIC_NO_REGION */
};

/** Set by Ctrl-C: the run ends. */
extern volatile sig_atomic_t device_interrupted;

/** Check, open, make the file if need be; exits with a clear line. @p depth: most I/Os at once. */
void device_open(struct device *d, uint32_t depth, size_t pool_bytes);
void device_close(struct device *d);
/** Before and after a run: the model begins afresh each time. */
void device_begin(struct device *d, uint32_t tenants);
void device_end(struct device *d);

/* ---- One run ---- */

struct run;

/** One tenant of a section, and what became of it. */
struct tenant {
    const struct job *job;
    struct run *run;
    char name[JOB_NAME_MAX + 8];
    uint32_t index;
    uint32_t section;
    uint64_t start_ns; /* on the loop's clock */
    uint64_t stop_ns;
    /* what it does next */
    struct snic_rng rng;
    uint64_t first; /* its range of the device */
    uint64_t range;
    uint64_t cursor;
    uint32_t next_size; /* 0: not drawn yet */
    uint32_t next_op;   /* enum snic_gimbal_op */
    uint64_t next_offset;
    struct snic_rate rate_bytes;
    struct snic_rate rate_ios;
    struct snic_timer timer; /* its start, its next token */
    uint32_t inflight;
    struct tenant_io *free;
    /* what was measured */
    uint64_t from_ns;
    uint64_t to_ns;
    uint64_t ios[2]; /* by enum snic_gimbal_op */
    uint64_t bytes[2];
    uint64_t errors;
    struct snic_hist latency;
    struct snic_hist live; /* since the last line of statistics */
    uint64_t live_bytes;
};

/** One bin of the picture: a section's bandwidth and latency in it. */
struct run_bin {
    uint64_t bytes;
    uint64_t ios;
    uint64_t average_ns;
    uint64_t p99_ns;
};

#define RUN_BINS_MAX 240

struct run_opts {
    const struct sched_ops *scheduler;
    const struct snic_gimbal_opts *gimbal;
    double device_scale;
    double parda_latency_ns;
    uint64_t seconds_ns;
    uint64_t warmup_ns; /* not in the results */
    uint64_t stats_ns;  /* a line so often; 0: none */
    uint64_t seed;
    int at_once;   /* all start at 0 and go on to the end */
    int only;      /* this section alone; -1: all */
    int no_limits; /* rates do not count */
};

struct run {
    struct device *device;
    const struct job_list *jobs;
    struct run_opts opts;
    struct sched *sched;
    struct tenant *tenants;
    uint32_t count;
    struct tenant_io *ios;
    uint32_t inside; /* I/Os sent and not completed */
    int over;
    int pumping;
    uint64_t begin_ns;
    uint64_t warm_ns;
    uint64_t end_ns;
    uint64_t errors;
    uint64_t cpu_ns; /* of the process, in the measured time */
    struct snic_timer sched_timer;
    struct snic_timer end_timer;
    struct snic_timer warm_timer;
    struct snic_timer stats_timer;
    struct snic_timer bin_timer;
    /* for the picture */
    uint64_t bin_ns;
    uint32_t bins;
    struct run_bin (*bin)[RUN_BINS_MAX]; /* [section][bin] */
    struct snic_hist *bin_latency;       /* [section], of the current bin */
    struct snic_gimbal_view view;        /* at the end, with gimbal */
    struct snic_gimbal_learned learned;  /* likewise */
    int has_view;
};

/** Run the jobs. @return 0; 1 interrupted. Exits when the device fails or memory is exhausted. */
int run_tenants(struct run *r, struct device *d, const struct job_list *jobs,
                const struct run_opts *o);
void run_free(struct run *r);

/* ---- Calibration ---- */

struct calibration {
    double read_ns;     /* 4 KiB reads one at a time: mean latency                        */
    double reads_per_s; /* 64 at a time                                                   */
};

/** @return 0; 1 interrupted */
int calibrate_speed(struct calibration *c, struct device *d, uint64_t seed);

/* ---- Reports ---- */

struct report {
    const struct run *run;
    const double *solo; /* per section: bytes/s of the section alone; NULL: not measured */
    const char *device;
};

/** Bytes per second that a tenant, a section (all its tenants) had. */
double report_rate(const struct tenant *t);
double report_section_rate(const struct run *r, uint32_t section);
void report_table(const struct report *p, FILE *f);
void report_json(const struct report *p, FILE *f);
void report_svg(const struct report *p, FILE *f);
/** One line of name=value pairs: what happened since the last. */
void report_line(struct run *r, uint64_t now);

#endif
