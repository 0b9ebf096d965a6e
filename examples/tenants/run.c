/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * One run: every tenant keeps up to iodepth I/Os on their way, as far as its rate and the
 * scheduler's client side (credits, windows) let it. An I/O goes to the scheduler, from there to
 * the device when its turn comes; its latency counts from when the tenant sent it.
 */
#include "tenants.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#define RUN_BATCH 64
#define RUN_ERRORS_MAX 1000
#define RUN_RETRY_NS 1000000 /* a tenant held back with nothing in flight tries again */

struct tenant_io {
    struct sched_io s;
    struct snic_io_req req;
    struct tenant *tenant;
    struct tenant_io *next; /* free ones */
};

/* ---- What a tenant does next ---- */

static void tenant_draw(struct tenant *t)
{
    const struct job *j = t->job;
    uint32_t size = j->size[0].bytes;

    if (j->sizes > 1) {
        uint64_t at = snic_rng_below(&t->rng, 100);

        for (uint32_t i = 0, sum = 0; i < j->sizes && at >= sum; i++) {
            size = j->size[i].bytes;
            sum += j->size[i].percent;
        }
    }
    t->next_op = j->kind == JOB_WRITE ? SNIC_GIMBAL_WRITE : SNIC_GIMBAL_READ;
    if (j->kind == JOB_MIXED && snic_rng_below(&t->rng, 100) >= j->read_percent)
        t->next_op = SNIC_GIMBAL_WRITE;
    if (j->random) {
        t->next_offset = snic_rng_below(&t->rng, t->range / size) * size;
    } else {
        if (t->cursor + size > t->range)
            t->cursor = 0;
        t->next_offset = t->cursor;
        t->cursor += size;
    }
    t->next_offset += t->first;
    t->next_size = size;
}

/* When its rates let the drawn I/O go. */
static uint64_t tenant_ready_ns(const struct tenant *t)
{
    const struct job *j = t->job;
    uint64_t at = 0;

    if (t->run->opts.no_limits)
        return 0;
    if (j->rate_bytes != 0)
        at = snic_rate_ready_ns(&t->rate_bytes, t->next_size);
    if (j->rate_ios != 0)
        at = snic_max_u64(at, snic_rate_ready_ns(&t->rate_ios, 1));
    return at;
}

static void tenant_charge(struct tenant *t, uint64_t now)
{
    int r = 0;

    if (t->run->opts.no_limits)
        return;
    if (t->job->rate_bytes != 0)
        r = snic_rate_take(&t->rate_bytes, t->next_size, now);
    if (r == 0 && t->job->rate_ios != 0)
        r = snic_rate_take(&t->rate_ios, 1, now);
    SNIC_ASSERT(r == 0); /* as tenant_ready_ns() returned */
}

static void tenant_send(struct tenant *t, uint64_t now)
{
    struct run *r = t->run;
    struct tenant_io *io = t->free;

    t->free = io->next;
    memset(&io->s, 0, sizeof(io->s));
    io->s.g.tenant = t->index;
    io->s.g.size = t->next_size;
    io->s.g.op = (uint8_t)t->next_op;
    io->s.g.priority = (uint8_t)t->job->priority;
    io->s.client_sent_ns = now;
    io->req.op = t->next_op == SNIC_GIMBAL_READ ? SNIC_IO_READ : SNIC_IO_WRITE;
    io->req.priority = (uint8_t)t->job->priority;
    io->req.tenant = t->index;
    io->req.offset = t->next_offset;
    io->req.length = t->next_size;
    io->req.buf.size = t->next_size;
    t->next_size = 0;
    t->inflight++;
    r->inside++;
    r->opts.scheduler->submit(r->sched, &io->s, now);
}

static void tenant_go(struct tenant *t, uint64_t now)
{
    const struct sched_ops *ops = t->run->opts.scheduler;

    if (now < t->start_ns || now >= t->stop_ns)
        return;
    while (!t->run->over && t->free != NULL) {
        uint64_t at;

        if (ops->client_may_send != NULL &&
            !ops->client_may_send(t->run->sched, t->index, t->inflight, now)) {
            if (t->inflight == 0)
                snic_loop_arm(t->run->device->loop, &t->timer, now + RUN_RETRY_NS);
            return;
        }
        if (t->next_size == 0)
            tenant_draw(t);
        at = tenant_ready_ns(t);
        if (at > now) {
            snic_loop_arm(t->run->device->loop, &t->timer, at);
            return;
        }
        tenant_charge(t, now);
        tenant_send(t, now);
    }
}

/* ---- From the scheduler to the device ---- */

static void run_pump(struct run *r, uint64_t now)
{
    const struct sched_ops *ops = r->opts.scheduler;
    struct snic_io_req *batch[RUN_BATCH];
    uint64_t deadline;
    uint32_t n;

    do {
        struct sched_io *s;

        for (n = 0; n < RUN_BATCH && (s = ops->poll(r->sched, now)) != NULL; n++)
            batch[n] = &SNIC_CONTAINER(s, struct tenant_io, s)->req;
        for (uint32_t done = 0; done < n;) {
            int taken = snic_io_submit(r->device->io, batch + done, n - done);

            if (taken <= 0) /* it was opened deep enough for all */
                ex_die("cannot submit I/O to the device: %s", snic_strerror(taken));
            done += (uint32_t)taken;
        }
    } while (n == RUN_BATCH);
    deadline = ops->deadline(r->sched);
    if (deadline != SNIC_NEVER && (!r->sched_timer.armed || deadline < r->sched_timer.deadline_ns))
        snic_loop_arm(r->device->loop, &r->sched_timer, deadline);
}

/* Serve the tenant, then what the scheduler dispatches now. */
static void tenant_pump(struct tenant *t, uint64_t now)
{
    tenant_go(t, now);
    run_pump(t->run, now);
}

static void tenant_failed(struct tenant *t, const struct tenant_io *io)
{
    struct run *r = t->run;

    if (t->errors++ == 0)
        ex_log(EX_ERROR, "%s: %s of %" PRIu64 " bytes at %" PRIu64 ": %s", t->name,
               io->req.op == SNIC_IO_READ ? "read" : "write", io->req.length, io->req.offset,
               io->req.result < 0 ? snic_strerror((int)io->req.result) : "short I/O");
    if (++r->errors == RUN_ERRORS_MAX) {
        ex_log(EX_ERROR, "ending the run: %d I/Os have failed", RUN_ERRORS_MAX);
        r->over = 1;
    }
}

static void tenant_count(struct tenant *t, const struct tenant_io *io, uint64_t now)
{
    struct run *r = t->run;
    uint64_t latency = now - io->s.client_sent_ns;
    uint32_t op = io->s.g.op;

    if (now >= t->from_ns && now < t->to_ns) {
        t->ios[op]++;
        t->bytes[op] += io->s.g.size;
        snic_hist_record(&t->latency, latency);
    }
    if (r->opts.stats_ns != 0) {
        t->live_bytes += io->s.g.size;
        snic_hist_record(&t->live, latency);
    }
    if (r->bins < RUN_BINS_MAX) {
        r->bin[t->section][r->bins].bytes += io->s.g.size;
        snic_hist_record(&r->bin_latency[t->section], latency);
    }
}

static void tenant_io_done(struct snic_io_req *req)
{
    struct tenant_io *io = SNIC_CONTAINER(req, struct tenant_io, req);
    struct tenant *t = io->tenant;
    struct run *r = t->run;
    const struct sched_ops *ops = r->opts.scheduler;
    uint64_t now = snic_loop_clock(r->device->loop);
    int ok = req->result == (int64_t)req->length;

    if (ok || ops != &sched_gimbal)
        ops->complete(r->sched, &io->s, now);
    else /* the switch wants to know: a failed I/O measures nothing */
        snic_gimbal_complete(sched_gimbal_switch(r->sched), &io->s.g, 0, now);
    if (ops->client_done != NULL)
        ops->client_done(r->sched, &io->s, now);
    if (ok)
        tenant_count(t, io, now);
    else
        tenant_failed(t, io);
    t->inflight--;
    r->inside--;
    io->next = t->free;
    t->free = io;
    tenant_pump(t, now);
}

static void tenant_timer(struct snic_timer *timer, uint64_t now)
{
    struct tenant *t = SNIC_CONTAINER(timer, struct tenant, timer);

    tenant_pump(t, snic_max_u64(now, snic_loop_clock(t->run->device->loop)));
}

/* ---- Timers of the run ---- */

static void run_sched_timer(struct snic_timer *timer, uint64_t now)
{
    struct run *r = SNIC_CONTAINER(timer, struct run, sched_timer);

    run_pump(r, snic_max_u64(now, snic_loop_clock(r->device->loop)));
}

static void run_end_timer(struct snic_timer *timer, uint64_t now)
{
    struct run *r = SNIC_CONTAINER(timer, struct run, end_timer);

    if (r->stats_timer.armed && r->stats_timer.deadline_ns <= r->end_ns)
        report_line(r, now); /* the last line and the end are due together */
    r->over = 1;
}

static void run_warm_timer(struct snic_timer *timer, uint64_t now)
{
    (void)now;
    SNIC_CONTAINER(timer, struct run, warm_timer)->cpu_ns = ex_cpu_process_ns();
}

static void run_stats_timer(struct snic_timer *timer, uint64_t now)
{
    struct run *r = SNIC_CONTAINER(timer, struct run, stats_timer);

    if (r->over)
        return;
    report_line(r, now);
    snic_loop_arm(r->device->loop, timer, timer->deadline_ns + r->opts.stats_ns);
}

static void run_bin_timer(struct snic_timer *timer, uint64_t now)
{
    struct run *r = SNIC_CONTAINER(timer, struct run, bin_timer);

    (void)now;
    for (uint32_t s = 0; s < r->jobs->count; s++) {
        struct run_bin *b = &r->bin[s][r->bins];
        struct snic_hist *h = &r->bin_latency[s];

        b->ios = h->count;
        b->average_ns = h->count > 0 ? h->sum / h->count : 0;
        b->p99_ns = snic_hist_quantile(h, 990000);
        snic_hist_reset(h);
    }
    if (++r->bins < RUN_BINS_MAX)
        snic_loop_arm(r->device->loop, timer, timer->deadline_ns + r->bin_ns);
}

/* ---- Setting up ---- */

static void *run_memory(size_t count, size_t size)
{
    void *p = calloc(count > 0 ? count : 1, size);

    if (p == NULL)
        ex_die("out of memory: %zu x %zu bytes for the tenants", count, size);
    return p;
}

static void tenant_setup(struct run *r, struct tenant *t, uint32_t section, unsigned clone)
{
    const struct job *j = &r->jobs->jobs[section];
    uint32_t align = job_block_min(j);
    uint64_t stop = r->opts.at_once ? UINT64_MAX : job_stop_ns(j, clone);

    t->job = j;
    t->run = r;
    t->index = (uint32_t)(t - r->tenants);
    t->section = section;
    if (j->count > 1)
        snprintf(t->name, sizeof(t->name), "%s.%u", j->name, clone);
    else
        snprintf(t->name, sizeof(t->name), "%s", j->name);
    t->start_ns = r->begin_ns + (r->opts.at_once ? 0 : job_start_ns(j, clone));
    t->stop_ns = stop == UINT64_MAX ? r->end_ns : snic_min_u64(r->begin_ns + stop, r->end_ns);
    t->from_ns = snic_max_u64(t->start_ns, r->warm_ns);
    t->to_ns = t->stop_ns;
    t->first = j->offset;
    t->range = j->range != 0 ? j->range : r->device->size - j->offset;
    /* Those of a section that go along the device begin at different places. */
    t->cursor = t->range / j->count / align * align * clone;
    snic_rng_init(&t->rng, r->opts.seed * UINT64_C(0x9e3779b97f4a7c15) + section * 65536 + clone);
    if ((j->rate_bytes != 0 &&
         snic_rate_init(&t->rate_bytes, j->rate_bytes,
                        snic_max_u64(job_block_max(j), j->rate_bytes / 100), t->start_ns) != 0) ||
        (j->rate_ios != 0 && snic_rate_init(&t->rate_ios, j->rate_ios,
                                            snic_max_u64(1, j->rate_ios / 100), t->start_ns) != 0))
        ex_die("[%s]: rate is out of range", j->name);
    snic_timer_init(&t->timer, tenant_timer);
    snic_loop_arm(r->device->loop, &t->timer, t->start_ns);
}

/* The I/Os of all tenants, each with a piece of the pool; pieces are shared when there are
   more I/Os than memory: the data read are not used. */
static void run_setup_ios(struct run *r)
{
    size_t at = 0;
    uint32_t n = 0;

    for (uint32_t i = 0; i < r->count; i++)
        n += r->tenants[i].job->depth;
    r->ios = run_memory(n, sizeof(*r->ios));
    n = 0;
    for (uint32_t i = 0; i < r->count; i++) {
        struct tenant *t = &r->tenants[i];
        size_t size = (size_t)snic_align_up(job_block_max(t->job), 4096);

        for (uint32_t k = 0; k < t->job->depth; k++) {
            struct tenant_io *io = &r->ios[n++];

            if (at + size > r->device->pool_bytes)
                at = 0;
            snic_io_req_init(&io->req);
            io->req.buf.base = r->device->pool + at;
            io->req.region = r->device->region;
            io->req.done = tenant_io_done;
            io->tenant = t;
            io->next = t->free;
            t->free = io;
            at += size;
        }
    }
}

/* Is it more to the switch than a weight? */
static int run_limited(const struct job *j)
{
    return j->cap_bytes != 0 || j->cap_ios != 0 || j->floor_bytes != 0 || j->floor_ios != 0 ||
           j->group != 0;
}

static void run_setup_sched(struct run *r)
{
    struct sched_opts o = {.tenants = r->count,
                           .gimbal = r->opts.gimbal,
                           .device_scale = r->opts.device_scale,
                           .parda_latency_ns = r->opts.parda_latency_ns};
    struct snic_gimbal_opts gimbal = {.opts_size = sizeof(gimbal)};
    uint32_t *weight = run_memory(r->count, sizeof(*weight));

    if (r->opts.gimbal != NULL) /* else another scheduler's, or the defaults */
        gimbal = *r->opts.gimbal;
    for (uint32_t i = 0; i < r->count; i++) {
        weight[i] = r->tenants[i].job->weight;
        if (gimbal.groups_max < r->tenants[i].job->group)
            gimbal.groups_max = r->tenants[i].job->group;
    }
    o.gimbal = &gimbal;
    o.weight = weight;
    r->sched = r->opts.scheduler->open(&o, r->begin_ns);
    free(weight);
    if (r->sched == NULL)
        ex_die("cannot set up the scheduler: out of memory, or --thresh-min and --thresh-max out "
               "of range");
    for (uint32_t i = 0; i < r->count; i++) {
        const struct job *j = r->tenants[i].job;
        struct snic_gimbal_tenant_opts t = {.opts_size = sizeof(t),
                                            .weight = j->weight,
                                            .bytes_per_second = j->cap_bytes,
                                            .ios_per_second = j->cap_ios,
                                            .floor_bytes_per_second = j->floor_bytes,
                                            .floor_ios_per_second = j->floor_ios,
                                            .group = j->group};

        if (r->opts.scheduler != &sched_gimbal || !run_limited(j))
            continue;
        int rc = snic_gimbal_tenant_set(sched_gimbal_switch(r->sched), i, &t);

        if (rc != 0)
            ex_die("[%s]: the switch refuses its caps, floors or group: %s", j->name,
                   snic_strerror(rc));
    }
}

static void run_setup(struct run *r)
{
    struct snic_loop *loop; /* the model has one only from device_begin() on */
    uint32_t n = 0;

    for (uint32_t s = 0; s < r->jobs->count; s++)
        if (r->opts.only < 0 || r->opts.only == (int)s)
            r->count += r->jobs->jobs[s].count;
    r->tenants = run_memory(r->count, sizeof(*r->tenants));
    r->bin = run_memory(r->jobs->count, sizeof(*r->bin));
    r->bin_latency = run_memory(r->jobs->count, sizeof(*r->bin_latency));
    device_begin(r->device, r->count);
    loop = r->device->loop;
    r->begin_ns = snic_loop_clock(loop);
    r->end_ns = r->begin_ns + r->opts.seconds_ns;
    r->warm_ns = r->begin_ns + r->opts.warmup_ns;
    r->bin_ns = snic_max_u64(r->opts.seconds_ns / RUN_BINS_MAX + 1, 10000000);
    for (uint32_t s = 0; s < r->jobs->count; s++)
        for (unsigned i = 0; i < r->jobs->jobs[s].count; i++)
            if (r->opts.only < 0 || r->opts.only == (int)s)
                tenant_setup(r, &r->tenants[n++], s, i);
    run_setup_ios(r);
    run_setup_sched(r);
    snic_timer_init(&r->sched_timer, run_sched_timer);
    snic_timer_init(&r->end_timer, run_end_timer);
    snic_timer_init(&r->warm_timer, run_warm_timer);
    snic_timer_init(&r->stats_timer, run_stats_timer);
    snic_timer_init(&r->bin_timer, run_bin_timer);
    r->cpu_ns = ex_cpu_process_ns();
    snic_loop_arm(loop, &r->end_timer, r->end_ns);
    snic_loop_arm(loop, &r->warm_timer, r->warm_ns);
    snic_loop_arm(loop, &r->bin_timer, r->begin_ns + r->bin_ns);
    if (r->opts.stats_ns != 0)
        snic_loop_arm(loop, &r->stats_timer, r->begin_ns + r->opts.stats_ns);
}

/* ---- Running ---- */

/* A tenant with a cap of a few bytes a second would delay the end by what it has queued. */
static void run_uncap(struct run *r)
{
    for (uint32_t i = 0; i < r->count; i++) {
        const struct job *j = r->tenants[i].job;
        struct snic_gimbal_tenant_opts t = {.opts_size = sizeof(t), .weight = j->weight};

        int rc = 0;

        if (j->cap_bytes != 0 || j->cap_ios != 0)
            rc = snic_gimbal_tenant_set(sched_gimbal_switch(r->sched), i, &t);
        if (rc != 0)
            ex_die("[%s]: cannot lift its caps: %s", j->name, snic_strerror(rc));
    }
}

/* No more I/Os; those in flight complete, uncounted. */
static void run_drain(struct run *r)
{
    struct snic_loop *loop = r->device->loop;
    uint64_t now = snic_loop_clock(loop);

    r->over = 1;
    r->cpu_ns = ex_cpu_process_ns() - r->cpu_ns;
    r->end_ns = snic_min_u64(r->end_ns, now);
    for (uint32_t i = 0; i < r->count; i++) {
        r->tenants[i].to_ns = snic_min_u64(r->tenants[i].to_ns, now);
        snic_loop_cancel(loop, &r->tenants[i].timer);
    }
    snic_loop_cancel(loop, &r->end_timer);
    snic_loop_cancel(loop, &r->warm_timer);
    snic_loop_cancel(loop, &r->stats_timer);
    snic_loop_cancel(loop, &r->bin_timer);
    if (r->opts.scheduler == &sched_gimbal) {
        snic_gimbal_get_view(sched_gimbal_switch(r->sched), &r->view);
        snic_gimbal_get_learned(sched_gimbal_switch(r->sched), &r->learned);
        r->has_view = 1;
        run_uncap(r);
        run_pump(r, now);
    }
    while (r->inside > 0) {
        int rc = snic_loop_once(loop, 100000000);

        if (rc < 0)
            ex_die("waiting for events failed: %s", snic_strerror(rc));
    }
    snic_loop_cancel(loop, &r->sched_timer);
}

int run_tenants(struct run *r, struct device *d, const struct job_list *jobs,
                const struct run_opts *o)
{
    memset(r, 0, sizeof(*r));
    r->device = d;
    r->jobs = jobs;
    r->opts = *o;
    run_setup(r);
    while (!r->over && !device_interrupted) {
        int rc = snic_loop_once(d->loop, SNIC_NEVER);

        if (rc < 0)
            ex_die("waiting for events failed: %s", snic_strerror(rc));
    }
    run_drain(r);
    r->opts.scheduler->close(r->sched);
    r->sched = NULL;
    free(r->ios);
    r->ios = NULL;
    device_end(d);
    return device_interrupted != 0;
}

void run_free(struct run *r)
{
    free(r->tenants);
    free(r->bin);
    free(r->bin_latency);
    memset(r, 0, sizeof(*r));
}
