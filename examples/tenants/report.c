/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* What is printed: lines while it runs, the table and its JSON at the end. */
#include "tenants.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

/* ---- Figures of a tenant ---- */

static uint64_t report_ios(const struct tenant *t)
{
    return t->ios[SNIC_GIMBAL_READ] + t->ios[SNIC_GIMBAL_WRITE];
}

static uint64_t report_bytes(const struct tenant *t)
{
    return t->bytes[SNIC_GIMBAL_READ] + t->bytes[SNIC_GIMBAL_WRITE];
}

static double report_seconds(const struct tenant *t)
{
    return t->to_ns > t->from_ns ? (double)(t->to_ns - t->from_ns) / 1e9 : 0;
}

static double report_iops(const struct tenant *t)
{
    double s = report_seconds(t);

    return s > 0 ? (double)report_ios(t) / s : 0;
}

double report_rate(const struct tenant *t)
{
    double ns = t->to_ns > t->from_ns ? (double)(t->to_ns - t->from_ns) : 0;

    return ns > 0 ? (double)(t->bytes[0] + t->bytes[1]) * 1e9 / ns : 0;
}

double report_section_rate(const struct run *r, uint32_t section)
{
    double sum = 0;

    for (uint32_t i = 0; i < r->count; i++)
        if (r->tenants[i].section == section)
            sum += report_rate(&r->tenants[i]);
    return sum;
}

static double report_average_us(const struct tenant *t)
{
    return t->latency.count > 0 ? (double)t->latency.sum / (double)t->latency.count / 1000 : 0;
}

static double report_quantile_us(const struct tenant *t, uint32_t per_million)
{
    return (double)snic_hist_quantile(&t->latency, per_million) / 1000;
}

static uint64_t report_all_bytes(const struct run *r)
{
    uint64_t sum = 0;

    for (uint32_t i = 0; i < r->count; i++)
        sum += report_bytes(&r->tenants[i]);
    return sum;
}

/* Percent of all bytes. */
static double report_share(const struct run *r, const struct tenant *t)
{
    uint64_t all = report_all_bytes(r);

    return all > 0 ? 100 * (double)report_bytes(t) / (double)all : 0;
}

/* Its weight's part of what its section reaches alone, in bytes/s. */
static double report_fair(const struct report *p, const struct tenant *t)
{
    double weights = 0;

    for (uint32_t i = 0; i < p->run->count; i++)
        weights += p->run->tenants[i].job->weight;
    return p->solo[t->section] * t->job->weight / weights;
}

/* f-Util (section 5.1): 1 is fair. */
static double report_util(const struct report *p, const struct tenant *t)
{
    double fair = report_fair(p, t);

    return fair > 0 ? report_rate(t) / fair : 0;
}

/* "randread 4K x32" */
static const char *report_what(const struct job *j, char *out, size_t max)
{
    static const char *const kinds[] = {"read", "write", "rw"};
    uint32_t size = job_block_max(j);
    char percent[16] = "";

    if (j->kind == JOB_MIXED)
        snprintf(percent, sizeof(percent), "%u%%", j->read_percent);
    snprintf(out, max, "%s%s%s %s%" PRIu32 "%s x%" PRIu32, j->random ? "rand" : "", kinds[j->kind],
             percent, j->sizes > 1 ? "<=" : "", size % 1024 == 0 ? size / 1024 : size,
             size % 1024 == 0 ? "K" : "", j->depth);
    return out;
}

/* ---- The table ---- */

static void report_row(const struct report *p, const struct tenant *t, FILE *f)
{
    char what[64];

    fprintf(f, "%-20s %-20s %9.0f %9.2f %9.1f %9.1f %9.1f %9.1f %7.2f", t->name,
            report_what(t->job, what, sizeof(what)), report_iops(t), report_rate(t) / 1e6,
            report_average_us(t), report_quantile_us(t, 500000), report_quantile_us(t, 990000),
            report_quantile_us(t, 999000), report_share(p->run, t));
    if (p->solo != NULL)
        fprintf(f, " %9.2f %9.2f %7.3f", p->solo[t->section] / 1e6, report_fair(p, t) / 1e6,
                report_util(p, t));
    fprintf(f, "\n");
}

static void report_sums(const struct report *p, FILE *f)
{
    const struct run *r = p->run;
    double all = 0;
    double ios = 0;

    for (uint32_t s = 0; s < r->jobs->count; s++) {
        double section_ios = 0;
        char name[JOB_NAME_MAX + 8];

        for (uint32_t i = 0; i < r->count; i++)
            if (r->tenants[i].section == s)
                section_ios += report_iops(&r->tenants[i]);
        all += report_section_rate(r, s);
        ios += section_ios;
        snprintf(name, sizeof(name), "%s.all", r->jobs->jobs[s].name);
        if (r->jobs->jobs[s].count > 1)
            fprintf(f, "%-20s %-20s %9.0f %9.2f\n", name, "", section_ios,
                    report_section_rate(r, s) / 1e6);
    }
    fprintf(f, "%-20s %-20s %9.0f %9.2f\n", "all", "", ios, all / 1e6);
}

struct fairness {
    uint32_t count; /* tenants looked at */
    double least;
    double most;
    double deviation; /* the largest |f-Util - 1| */
    double jain;
};

/* A tenant that requests less than its share, or is capped, does not count in fairness. */
static int report_limited(const struct job *j)
{
    return j->rate_bytes != 0 || j->rate_ios != 0 || j->cap_bytes != 0 || j->cap_ios != 0;
}

/* Of those without limits, or of all if there are none. */
static struct fairness report_fairness(const struct report *p)
{
    struct fairness x = {0, HUGE_VAL, 0, 0, 0};
    double sum = 0;
    double squares = 0;
    int all = 1;

    for (uint32_t i = 0; i < p->run->count; i++)
        all &= report_limited(p->run->tenants[i].job);
    for (uint32_t i = 0; i < p->run->count; i++) {
        double u = report_util(p, &p->run->tenants[i]);

        if (!all && report_limited(p->run->tenants[i].job))
            continue;
        x.count++;
        x.least = fmin(x.least, u);
        x.most = fmax(x.most, u);
        x.deviation = fmax(x.deviation, fabs(u - 1));
        sum += u;
        squares += u * u;
    }
    x.jain = squares > 0 ? sum * sum / (squares * x.count) : 0;
    return x;
}

static void report_switch(const struct run *r, FILE *f)
{
    static const char *const states[] = {"under-utilised", "avoidance", "congested", "overloaded"};
    const struct snic_gimbal_view *v = &r->view;

    fprintf(f, "switch: target %.1f MB/s, completed %.1f MB/s, write cost %.2f\n",
            (double)v->target_rate / 1e6, (double)v->completion_rate / 1e6,
            (double)v->write_cost / SNIC_GIMBAL_COST_ONE);
    for (unsigned op = 0; op < 2; op++)
        fprintf(f, "%s: %s, latency %.1f us, threshold %.1f us\n", op == 0 ? "reads" : "writes",
                states[v->state[op] & 3], (double)v->ewma_ns[op] / 1000,
                (double)v->thresh_ns[op] / 1000);
}

void report_table(const struct report *p, FILE *f)
{
    const struct run *r = p->run;
    uint64_t ios = 0;

    fprintf(f, "%s under %s, %.3f s\n", p->device, r->opts.scheduler->name,
            (double)(r->end_ns > r->warm_ns ? r->end_ns - r->warm_ns : 0) / 1e9);
    fprintf(f, "%-20s %-20s %9s %9s %9s %9s %9s %9s %7s", "tenant", "what", "IO/s", "MB/s",
            "avg_us", "p50_us", "p99_us", "p99.9_us", "share%");
    fprintf(f, "%s\n", p->solo != NULL ? "     alone      fair  f-Util" : "");
    for (uint32_t i = 0; i < r->count; i++) {
        report_row(p, &r->tenants[i], f);
        ios += report_ios(&r->tenants[i]);
    }
    report_sums(p, f);
    if (p->solo != NULL) {
        struct fairness x = report_fairness(p);

        fprintf(f, "f-Util%s: %.3f to %.3f, largest deviation %.1f %%",
                x.count < r->count ? " of those without a limit" : "", x.least, x.most,
                100 * x.deviation);
        if (x.least > 0)
            fprintf(f, ", max/min - 1 = %.1f %%", 100 * (x.most / x.least - 1));
        fprintf(f, ", Jain's index %.4f\n", x.jain);
    }
    if (r->has_view)
        report_switch(r, f);
    if (r->device->path != NULL && ios > 0) /* meaningless in simulated time */
        fprintf(f, "cpu: %.3f us per I/O\n", (double)r->cpu_ns / 1000 / (double)ios);
    if (r->errors > 0)
        fprintf(f, "errors: %" PRIu64 "\n", r->errors);
    fflush(f);
}

/* ---- JSON ---- */

/* A string's content: what is no plain ASCII becomes \u00XX. */
static void report_json_text(const char *s, FILE *f)
{
    for (; *s != 0; s++) {
        unsigned char c = (unsigned char)*s;

        if (c < 32 || c > 126 || c == '"' || c == '\\')
            fprintf(f, "\\u%04x", c);
        else
            fputc(c, f);
    }
}

static void report_json_tenant(const struct report *p, const struct tenant *t, FILE *f)
{
    char what[64];

    fprintf(f, "    {\"name\": \"%s\", \"section\": \"%s\", \"what\": \"%s\", \"weight\": %u,\n",
            t->name, t->job->name, report_what(t->job, what, sizeof(what)), t->job->weight);
    fprintf(f, "     \"seconds\": %.6f, \"ios_per_second\": %.3f, \"bytes_per_second\": %.1f,\n",
            report_seconds(t), report_iops(t), report_rate(t));
    fprintf(f,
            "     \"reads\": %" PRIu64 ", \"writes\": %" PRIu64 ", \"read_bytes\": %" PRIu64
            ", \"write_bytes\": %" PRIu64 ", \"errors\": %" PRIu64 ",\n",
            t->ios[0], t->ios[1], t->bytes[0], t->bytes[1], t->errors);
    fprintf(f,
            "     \"average_us\": %.3f, \"p50_us\": %.3f, \"p99_us\": %.3f, \"p999_us\": %.3f,\n",
            report_average_us(t), report_quantile_us(t, 500000), report_quantile_us(t, 990000),
            report_quantile_us(t, 999000));
    fprintf(f, "     \"share_percent\": %.4f", report_share(p->run, t));
    if (p->solo != NULL)
        fprintf(f, ",\n     \"section_alone\": %.1f, \"fair\": %.1f, \"f_util\": %.5f",
                p->solo[t->section], report_fair(p, t), report_util(p, t));
    fprintf(f, "}");
}

void report_json(const struct report *p, FILE *f)
{
    const struct run *r = p->run;
    uint64_t ios = 0;

    fprintf(f, "{\n  \"device\": \"");
    report_json_text(p->device, f);
    fprintf(f,
            "\",\n  \"scheduler\": \"%s\",\n  \"seed\": %" PRIu64 ",\n  \"errors\": %" PRIu64
            ",\n  \"tenants\": [\n",
            r->opts.scheduler->name, r->opts.seed, r->errors);
    for (uint32_t i = 0; i < r->count; i++) {
        report_json_tenant(p, &r->tenants[i], f);
        fprintf(f, "%s\n", i + 1 < r->count ? "," : "");
        ios += report_ios(&r->tenants[i]);
    }
    fprintf(f, "  ]");
    if (r->has_view)
        fprintf(f,
                ",\n  \"switch\": {\"target_rate\": %" PRIu64 ", \"completion_rate\": %" PRIu64
                ", \"write_cost\": %.4f}",
                r->view.target_rate, r->view.completion_rate,
                (double)r->view.write_cost / SNIC_GIMBAL_COST_ONE);
    if (r->device->path != NULL && ios > 0)
        fprintf(f, ",\n  \"cpu_us_per_io\": %.4f", (double)r->cpu_ns / 1000 / (double)ios);
    fprintf(f, "\n}\n");
}

/* ---- A line while it runs ---- */

/* A name of letters, digits and '_'. */
static void report_metric(const struct tenant *t, const char *what, double value)
{
    printf(" ");
    for (const char *c = t->name; *c != 0; c++)
        putchar(*c == '-' || *c == '.' ? '_' : *c);
    printf("_%s=%.0f", what, value);
}

void report_line(struct run *r, uint64_t now)
{
    double seconds = (double)r->opts.stats_ns / 1e9;

    printf("time_ms=%" PRIu64, (now - r->begin_ns) / 1000000);
    for (uint32_t i = 0; i < r->count; i++) {
        struct tenant *t = &r->tenants[i];
        struct snic_hist *h = &t->live;

        report_metric(t, "ios_per_second", (double)h->count / seconds);
        report_metric(t, "bytes_per_second", (double)t->live_bytes / seconds);
        report_metric(t, "average_us", h->count > 0 ? (double)h->sum / (double)h->count / 1000 : 0);
        report_metric(t, "p99_us", (double)snic_hist_quantile(h, 990000) / 1000);
        snic_hist_reset(h);
        t->live_bytes = 0;
    }
    if (r->opts.scheduler == &sched_gimbal) {
        struct snic_gimbal_view v;

        snic_gimbal_get_view(sched_gimbal_switch(r->sched), &v);
        printf(" target_bytes_per_second=%" PRIu64 " write_cost_percent=%" PRIu32
               " read_threshold_us=%" PRIu64 " write_threshold_us=%" PRIu64,
               v.target_rate, v.write_cost * 100 / SNIC_GIMBAL_COST_ONE, v.thresh_ns[0] / 1000,
               v.thresh_ns[1] / 1000);
    }
    printf("\n");
    fflush(stdout);
}
