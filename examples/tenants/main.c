/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * Tenants, as a job file describes them, share a device through a scheduler: Gimbal's switch, one
 * of those it is compared with, or none.
 *
 *     tenants --job FILE --device PATH | --ssd MODEL [OPTION]...
 *
 * Exit code: 0 all went well (also when interrupted), 1 it did not, 2 wrong usage or job file.
 */
#include "tenants.h"

#include "../output.h"
#include "../thresholds.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#define MAIN_JOB_BYTES_MAX (1u << 20)
#define MAIN_POOL_MAX ((size_t)256 << 20)
#define MAIN_POOL_MIN ((size_t)8 << 20)
#define MAIN_DEPTH_MAX 32768u
#define MAIN_SIZE_MAX (UINT64_C(1) << 50)
#define MAIN_DCT983_READS 407000.0 /* 4 KiB reads per second: device scale 1 */
#define MAIN_COST_MAX 32.0

struct options {
    const char *job;
    const char *scheduler;
    const char *svg;
    const char *json;
    uint64_t seconds;
    uint64_t warmup;
    uint64_t stats;
    uint64_t solo;
    uint64_t seed;
    uint64_t thresh_min_us;
    uint64_t thresh_max_us;
    double scale;      /* 0: measured */
    double write_cost; /* 0: learned */
};

/* ---- The job file ---- */

static void main_mistake(void *ctx, unsigned line, const char *text)
{
    fprintf(stderr, "%s:%u: %s\n", (const char *)ctx, line, text);
}

static void main_ignored(void *ctx, unsigned line, const char *text)
{
    fprintf(stderr, "%s:%u: note: %s\n", (const char *)ctx, line, text);
}

static const char *main_variable(void *ctx, const char *name)
{
    (void)ctx;
    return getenv(name);
}

static void main_read_jobs(struct job_list *jobs, const char *path)
{
    FILE *f = fopen(path, "rb");
    char *text = malloc(MAIN_JOB_BYTES_MAX + 1);
    size_t n;

    if (f == NULL)
        ex_die("cannot open job file %s: %s", path, strerror(errno));
    if (text == NULL)
        ex_die("out of memory for the job file");
    n = fread(text, 1, MAIN_JOB_BYTES_MAX + 1, f);
    if (ferror(f))
        ex_die("cannot read job file %s: %s", path, strerror(errno));
    if (n > MAIN_JOB_BYTES_MAX)
        ex_die("job file %s has more than %u bytes", path, MAIN_JOB_BYTES_MAX);
    fclose(f);
    const struct job_source source = {.mistake = main_mistake,
                                      .ignored = main_ignored,
                                      .variable = main_variable,
                                      .ctx = (void *)(uintptr_t)path};
    if (job_parse(jobs, text, n, &source) != 0)
        exit(2);
    free(text);
}

/* Do the jobs fit the device? All that do not are reported. */
static void main_check_jobs(const struct job_list *jobs, const char *path, const struct device *d,
                            uint64_t seconds)
{
    int bad = 0;

    for (unsigned i = 0; i < jobs->count; i++) {
        const struct job *j = &jobs->jobs[i];
        uint64_t end = j->offset + (j->range != 0 ? j->range : job_block_max(j));
        char beyond[128];
        const char *what = NULL;

        (void)snprintf(beyond, sizeof(beyond),
                       "ends beyond the end of the device: offset and size make %" PRIu64
                       " bytes, it has %" PRIu64,
                       end, d->size);
        if (end > d->size)
            what = beyond;
        else if (j->offset % d->align != 0)
            what = "offset is not a multiple of the device's block size";
        else if (job_block_max(j) > d->transfer_max)
            what = "bs is more than the device takes at once";
        else if (job_start_ns(j, j->count - 1) >= seconds * 1000000000)
            what = "starts after --seconds";
        for (uint32_t k = 0; k < j->sizes; k++)
            if (j->size[k].bytes % d->align != 0)
                what = "bs is not a multiple of the device's block size";
        if (what != NULL) {
            fprintf(stderr, "%s:%u: [%s]: %s\n", path, j->line, j->name, what);
            bad = 1;
        }
    }
    if (bad)
        exit(2);
}

/* @return most I/Os at once; *pool: what memory they want */
static uint32_t main_depth(const struct job_list *jobs, size_t *pool)
{
    uint64_t depth = 0;
    uint64_t bytes = 0;

    for (unsigned i = 0; i < jobs->count; i++) {
        const struct job *j = &jobs->jobs[i];

        depth += (uint64_t)j->depth * j->count;
        bytes += (uint64_t)j->depth * j->count * snic_align_up(job_block_max(j), 4096);
    }
    if (depth > MAIN_DEPTH_MAX) {
        fprintf(stderr, "tenants: iodepth of all tenants is %" PRIu64 ", the maximum is %u\n",
                depth, MAIN_DEPTH_MAX);
        exit(2);
    }
    *pool = (size_t)snic_max_u64(MAIN_POOL_MIN, snic_min_u64(bytes, MAIN_POOL_MAX));
    return (uint32_t)snic_max_u64(depth, 64);
}

static int main_writes(const struct job_list *jobs)
{
    int writes = 0;

    for (unsigned i = 0; i < jobs->count; i++)
        writes |= jobs->jobs[i].kind != JOB_READ;
    return writes;
}

/* ---- Options ---- */

static int main_scheduler_parse(void *target, const char *text)
{
    if (sched_find(text) == NULL)
        return -1;
    *(const char **)target = text;
    return 0;
}

static int main_real_parse(void *target, const char *text, double least, double most)
{
    char *end = NULL;
    double v = strtod(text, &end);

    if (end == text || *end != 0 || !(v >= least) || !(v <= most))
        return -1;
    *(double *)target = v;
    return 0;
}

static int main_scale_parse(void *target, const char *text)
{
    return main_real_parse(target, text, 0.0001, 10000);
}

static int main_cost_parse(void *target, const char *text)
{
    return main_real_parse(target, text, 1, MAIN_COST_MAX);
}

static const char main_summary[] =
    "Tenants share a device, as a job file describes. Its sections, [name], have lines of\n\n"
    "  rw=WHAT                   read, write, rw, randread, randwrite or randrw; default read\n"
    "  rwmixread=N               percent of reads; default 50\n"
    "  bs=N                      bytes of an I/O, or READS,WRITES; default 4K\n"
    "  bssplit=N/%:N/%           several sizes\n"
    "  iodepth=N                 I/Os in flight; default 1\n"
    "  numjobs=N                 so many alike; default 1\n"
    "  weight=N                  of its share; default 1\n"
    "  priority=N                0 to 7, the most urgent; default 0\n"
    "  offset=N                  of its part of the device; default 0\n"
    "  size=N                    of its part, or N%; default all\n"
    "  rate=N                    bytes a second that it requests at most\n"
    "  rate_iops=N               I/Os a second that it requests at most\n"
    "  cap_bytes=N               bytes a second that gimbal grants at most\n"
    "  cap_iops=N                I/Os a second that gimbal grants at most\n"
    "  floor_bytes=N             bytes a second that gimbal grants at least\n"
    "  floor_iops=N              I/Os a second that gimbal grants at least\n"
    "  group=N                   1 to 64: those of a group share as one tenant\n"
    "  start=T                   when it begins\n"
    "  stop=T                    when it ends, or runtime=T\n"
    "  start_step=T              later start of each further one of numjobs\n"
    "  stop_step=T               later stop of each further one\n\n"
    "A section [global] in front of them is for all. Bytes may have K, M, G or T behind them\n"
    "(powers of 1024), times us, ms, s (the default), m or h. ${NAME} is a variable of the\n"
    "environment. fio's job files can be read: options of fio that have no meaning here are\n"
    "named and ignored.";

static void main_options(struct options *o, struct device *d, int argc, char **argv)
{
    const struct ex_option options[] = {
        {"job", EX_TEXT, &o->job, "FILE", "who the tenants are; examples/tenants/*.ini are some", 0,
         0, NULL},
        {"device", EX_TEXT, &d->path, "PATH",
         "a file or block device; a file that does not exist is made, with --size", 0, 0, NULL},
        {"direct", EX_FLAG, &d->direct, NULL, "past the page cache (O_DIRECT)", 0, 0, NULL},
        {"overwrite", EX_FLAG, &d->overwrite, NULL,
         "tenants that write may do so to a block device or a file that is not empty", 0, 0, NULL},
        {"ssd", EX_TEXT, &d->model, "MODEL",
         "instead of a device: dct983 or p3600, then ,clean or ,fragmented; in simulated time", 0,
         0, NULL},
        {"size", EX_SIZE, &d->size, "BYTES",
         "use so much of the device; default all, or 256M of a model", 4096, MAIN_SIZE_MAX, NULL},
        {"scheduler", EX_PARSE, &o->scheduler, "gimbal|fifo|reflex|parda|flashfq",
         "the scheduler of the tenants' I/Os; default gimbal", 0, 0, main_scheduler_parse},
        {"thresh-min", EX_NUMBER, &o->thresh_min_us, "US",
         "gimbal: the latency that means no congestion, a little above the highest with one I/O "
         "at a time; default: learned; from 1500 on set --thresh-max, too",
         1, 10000000, NULL},
        {"thresh-max", EX_NUMBER, &o->thresh_max_us, "US",
         "gimbal: the latency that means overload, above the lowest at full load; default: "
         "learned; up to 250 set --thresh-min, too",
         1, 10000000, NULL},
        {"write-cost", EX_PARSE, &o->write_cost, "1..32",
         "gimbal: what a write costs at worst, in reads of its size; default: 9, or what was "
         "learned if "
         "it is more",
         0, 0, main_cost_parse},
        {"device-scale", EX_PARSE, &o->scale, "0.0001..10000",
         "reflex, parda: the device's speed, 1 being the DCT983; default: measured for 2 s", 0, 0,
         main_scale_parse},
        {"seconds", EX_NUMBER, &o->seconds, "N", "of the run; default 10", 1, 86400, NULL},
        {"warmup", EX_NUMBER, &o->warmup, "SECONDS",
         "first seconds that the table leaves out; default 0", 0, 86400, NULL},
        {"solo", EX_NUMBER, &o->solo, "SECONDS",
         "first run each section alone for so long, so that the table has fair shares", 1, 86400,
         NULL},
        {"stats", EX_NUMBER, &o->stats, "SECONDS", "print a line of name=value pairs so often", 1,
         86400, NULL},
        {"svg", EX_TEXT, &o->svg, "FILE", "draw bandwidth and latency over time", 0, 0, NULL},
        {"json", EX_TEXT, &o->json, "FILE", "write the table as JSON, too", 0, 0, NULL},
        {"seed", EX_NUMBER, &o->seed, "N", "of places, mixes and the model; default 1", 0,
         UINT64_MAX, NULL},
    };

    ex_output_must(1);
    ex_options(argc, argv, options, SNIC_COUNTOF(options), main_summary);
}

static void main_check_options(const struct options *o, const struct device *d)
{
    int set = o->thresh_min_us != 0 || o->thresh_max_us != 0 || o->write_cost != 0;

    if (o->job == NULL)
        ex_usage("--job FILE is missing");
    if ((d->path == NULL) == (d->model == NULL))
        ex_usage("either --device PATH or --ssd MODEL is needed");
    if (d->path == NULL && (d->direct || d->overwrite))
        ex_usage("--direct and --overwrite need --device");
    if (o->warmup >= o->seconds)
        ex_usage("--warmup must be less than --seconds");
    if (strcmp(o->scheduler, "gimbal") != 0 && set)
        ex_usage("--thresh-min, --thresh-max and --write-cost need --scheduler gimbal");
    ex_thresholds_check(o->thresh_min_us, o->thresh_max_us);
}

/* ---- Calibration ---- */

/* @return 0; 1 interrupted */
static int main_calibrate(const struct options *o, struct device *d, struct run_opts *run)
{
    int known = d->model != NULL && strncmp(d->model, "dct983", 6) == 0;
    int scaled = strcmp(o->scheduler, "reflex") == 0 || strcmp(o->scheduler, "parda") == 0;
    struct calibration c;

    run->device_scale = o->scale != 0 ? o->scale : 1;
    if (scaled && o->scale == 0 && !known) {
        if (calibrate_speed(&c, d, o->seed) != 0)
            return 1;
        run->device_scale = c.reads_per_s / MAIN_DCT983_READS;
        run->parda_latency_ns = c.read_ns;
        printf("device scale %.3f: %.0f reads of 4 KiB per second; one takes %.0f us\n",
               run->device_scale, c.reads_per_s, c.read_ns / 1000);
    }
    return 0;
}

static void main_print_learned(const struct snic_gimbal_learned *l)
{
    printf("thresholds %" PRIu64 " us and %" PRIu64 " us, worst write cost %.2f, %" PRIu32
           " slots: a read of 128 KiB takes %" PRIu64 " us alone, a write %" PRIu64 " us\n",
           (l->thresh_min_ns + 500) / 1000, (l->thresh_max_ns + 500) / 1000,
           (double)l->write_cost_worst / SNIC_GIMBAL_COST_ONE, l->slot_threshold,
           (l->profile.read_ns + 500) / 1000, (l->profile.write_ns + 500) / 1000);
}

/* ---- Main ---- */

/* Each section alone, without a scheduler. @return 0; 1 interrupted */
static int main_solo(const struct options *o, struct device *d, const struct job_list *jobs,
                     double *solo)
{
    struct run_opts run = {.scheduler = &sched_fifo,
                           .seconds_ns = o->solo * 1000000000,
                           .seed = o->seed,
                           .at_once = 1,
                           .no_limits = 1};

    for (unsigned i = 0; i < jobs->count; i++) {
        struct run r;
        int interrupted;

        run.only = (int)i;
        interrupted = run_tenants(&r, d, jobs, &run);
        solo[i] = report_section_rate(&r, i);
        run_free(&r);
        if (interrupted)
            return 1;
    }
    return 0;
}

/* May it be written to? Not what the run reads, nor a device: that needs --overwrite. */
static void main_check_output(const char *path, const char *const *taken, size_t count)
{
    struct stat own;
    struct stat other;

    if (stat(path, &own) != 0)
        return;
    if (S_ISBLK(own.st_mode))
        ex_die("%s is a block device: results are not written to it", path);
    for (size_t i = 0; i < count; i++)
        if (taken[i] != NULL && stat(taken[i], &other) == 0 && own.st_dev == other.st_dev &&
            own.st_ino == other.st_ino)
            ex_die("%s is the file of another option too", path);
}

/* Opened before the run, so that a name that cannot be written to is reported at once. */
static FILE *main_create(const char *path)
{
    FILE *f = path != NULL ? fopen(path, "w") : NULL;

    if (path != NULL && f == NULL)
        ex_die("cannot create %s: %s", path, strerror(errno));
    return f;
}

static void main_write(FILE *f, const char *path, const struct report *p,
                       void (*fn)(const struct report *p, FILE *f))
{
    if (f == NULL)
        return;
    fn(p, f);
    if (ferror(f) != 0 || fclose(f) != 0)
        ex_die("cannot write %s: %s", path, strerror(errno));
}

static void main_note_caps(const struct job_list *jobs, const char *scheduler)
{
    if (strcmp(scheduler, "gimbal") == 0)
        return;
    for (unsigned i = 0; i < jobs->count; i++) {
        const struct job *j = &jobs->jobs[i];

        if (j->cap_bytes != 0 || j->cap_ios != 0)
            ex_log(EX_WARNING, "[%s]: its caps are ignored: %s has none", j->name, scheduler);
        if (j->floor_bytes != 0 || j->floor_ios != 0)
            ex_log(EX_WARNING, "[%s]: its floors are ignored: %s has none", j->name, scheduler);
        if (j->group != 0)
            ex_log(EX_WARNING, "[%s]: its group is ignored: %s has none", j->name, scheduler);
    }
}

int main(int argc, char **argv)
{
    static struct options o = {.scheduler = "gimbal", .seconds = 10, .seed = 1};
    static struct device d;
    static struct job_list jobs;
    static double solo[JOB_SECTIONS_MAX];
    struct snic_gimbal_opts gimbal = {.opts_size = sizeof(gimbal), .flags = SNIC_GIMBAL_LEARN};
    struct run_opts run = {.only = -1, .gimbal = &gimbal};
    struct run r;
    struct report p = {.run = &r};
    FILE *svg;
    FILE *json;
    uint32_t depth;
    size_t pool;
    int status;

    main_options(&o, &d, argc, argv);
    main_check_options(&o, &d);
    ex_log_set(EX_INFO, NULL);
    main_read_jobs(&jobs, o.job);
    main_note_caps(&jobs, o.scheduler);
    depth = main_depth(&jobs, &pool);
    d.writes = main_writes(&jobs);
    d.seed = o.seed;
    device_open(&d, depth, pool);
    job_place(&jobs, d.size, d.align > 4096 ? d.align : 4096);
    main_check_jobs(&jobs, o.job, &d, o.seconds);
    const char *const taken[] = {o.job, d.path, o.svg};
    if (o.svg != NULL)
        main_check_output(o.svg, taken, 2);
    svg = main_create(o.svg);
    if (o.json != NULL)
        main_check_output(o.json, taken, 3);
    json = main_create(o.json);
    gimbal.thresh_min_ns = o.thresh_min_us * 1000;
    gimbal.thresh_max_ns = o.thresh_max_us * 1000;
    gimbal.write_cost_worst = (uint32_t)(o.write_cost * SNIC_GIMBAL_COST_ONE + 0.5);
    run.scheduler = sched_find(o.scheduler);
    run.seconds_ns = o.seconds * 1000000000;
    run.warmup_ns = o.warmup * 1000000000;
    run.stats_ns = o.stats * 1000000000;
    run.seed = o.seed;
    if (main_calibrate(&o, &d, &run) != 0 || (o.solo > 0 && main_solo(&o, &d, &jobs, solo) != 0))
        ex_die("interrupted before the run");
    run_tenants(&r, &d, &jobs, &run);
    p.solo = o.solo > 0 ? solo : NULL;
    p.device = d.path != NULL ? d.path : d.model;
    report_table(&p, stdout);
    if (r.has_view)
        main_print_learned(&r.learned);
    main_write(svg, o.svg, &p, report_svg);
    main_write(json, o.json, &p, report_json);
    status = r.errors > 0;
    run_free(&r);
    device_close(&d);
    return status;
}
