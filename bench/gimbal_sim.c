/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * Clients, network, target and SSD model. Whatever has a fixed delay (the network) is a queue in
 * order of time, what has not is the device's, the scheduler's or a timer's deadline; each step
 * goes to the earliest of these and does, in a fixed order, all that is due then: completions of
 * the device, arrivals at the target, what the scheduler starts, answers at the clients, timers.
 */
#include "gimbal_sim.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#define SIM_HIST_US 250000u    /* latencies beyond 250 ms count as that */
#define SIM_SPAN (64ull << 30) /* of offsets of a worker */
#define SIM_JITTER_NS 200000u  /* workers do not start in the same nanosecond */
#define SIM_RATE_BURST_NS 1000000u

struct sim_io {
    struct sched_io s;
    struct snic_ssd_cmd cmd;
    struct snic_timer late;
    struct sim_io *next; /* on its worker's free list, or on the network */
    uint64_t at_ns;      /* when the network delivers it */
};

struct sim_net {
    struct sim_io *first;
    struct sim_io *last;
};

struct sim_worker {
    struct snic_timer timer;
    struct sim_io *free;
    uint32_t tenant;
    uint32_t group;
    uint32_t inflight;
    uint32_t weight;
    uint64_t start_ns;
    uint64_t stop_ns;
    uint64_t rate_next_ns;
    uint64_t offset;
    uint64_t bytes; /* while measuring */
};

struct sim_count {
    uint32_t *hist; /* end to end, by microseconds */
    uint64_t ios;
    uint64_t sum_ns;
    uint64_t sampled; /* bytes since the last sample */
};

struct sim {
    const struct sim_spec *spec;
    const struct sched_ops *ops;
    struct sched *sched;
    struct snic_ssd *ssd;
    void *ssd_mem;
    struct snic_wheel wheel;
    struct snic_rng rng;
    struct sim_worker *workers;
    struct sim_io *ios;
    uint32_t *weights;
    struct snic_gimbal_tenant_opts *tenants;
    uint32_t workers_count;
    uint64_t ios_count;
    uint64_t now;
    uint64_t end;
    uint64_t outside; /* sent and not answered */
    struct sim_net arrivals;
    struct sim_net answers;
    struct sim_count count[SIM_GROUPS];
    uint64_t sample_next;
    uint64_t age_next;
    uint64_t sample_device_ns[2];
    uint64_t sample_device_ios[2];
    struct sim_sample *samples;
    uint32_t samples_count;
    int sampling;
};

static void sim_must(int ok, const char *what)
{
    if (!ok) {
        fprintf(stderr, "gimbal_sim: %s\n", what);
        exit(1);
    }
}

static void *sim_zeroed(size_t count, size_t size)
{
    void *p = calloc(count > 0 ? count : 1, size);
    sim_must(p != NULL, "memory");
    return p;
}

static void sim_net_push(struct sim_net *n, struct sim_io *io, uint64_t at_ns)
{
    io->at_ns = at_ns;
    io->next = NULL;
    if (n->first == NULL)
        n->first = io;
    else
        n->last->next = io;
    n->last = io;
}

static struct sim_io *sim_net_pop(struct sim_net *n, uint64_t now)
{
    struct sim_io *io = n->first;
    if (io == NULL || io->at_ns > now)
        return NULL;
    n->first = io->next;
    return io;
}

/* ---- Clients ---- */

static int sim_measuring(const struct sim *m)
{
    return m->now >= m->spec->warm_ns && m->now < m->end;
}

static uint64_t sim_offset(struct sim *m, struct sim_worker *w, const struct sim_group *g)
{
    uint64_t offset = w->offset;
    if (g->sequential)
        w->offset = (w->offset + g->size) % SIM_SPAN;
    else
        offset = snic_rng_below(&m->rng, SIM_SPAN / g->size) * g->size;
    return w->tenant * SIM_SPAN + offset;
}

static void sim_send(struct sim *m, struct sim_worker *w)
{
    const struct sim_group *g = &m->spec->group[w->group];
    struct sim_io *io = w->free;
    w->free = io->next;
    w->inflight++;
    m->outside++;
    io->s.g.tenant = w->tenant;
    io->s.g.size = g->size;
    io->s.g.op = (uint8_t)g->op;
    io->s.g.priority = (uint8_t)g->priority;
    io->s.client_sent_ns = m->now;
    io->cmd.op = g->op == SNIC_GIMBAL_READ ? SNIC_SSD_READ : SNIC_SSD_WRITE;
    io->cmd.queue = w->tenant;
    io->cmd.length = g->size;
    io->cmd.offset = sim_offset(m, w, g);
    sim_net_push(&m->arrivals, io, m->now + SIM_NETWORK_NS);
}

static uint64_t sim_gap(struct sim *m, const struct sim_group *g)
{
    uint64_t mean = (uint64_t)g->size * 1000000000u / g->rate;
    if (!g->random_gaps)
        return mean;
    double u = ((double)(snic_rng_next(&m->rng) >> 11) + 0.5) / 9007199254740992.0;
    return (uint64_t)(-log(u) * (double)mean);
}

static void sim_worker_pump(struct sim *m, struct sim_worker *w)
{
    const struct sim_group *g = &m->spec->group[w->group];
    if (m->now < w->start_ns || m->now >= w->stop_ns)
        return;
    while (w->free != NULL) {
        if (g->rate > 0 && m->now < w->rate_next_ns) {
            snic_wheel_arm(&m->wheel, &w->timer, w->rate_next_ns);
            return;
        }
        if (m->ops->client_may_send != NULL &&
            !m->ops->client_may_send(m->sched, w->tenant, w->inflight, m->now))
            return;
        if (g->rate > 0) {
            uint64_t floor = m->now > SIM_RATE_BURST_NS ? m->now - SIM_RATE_BURST_NS : 0;
            w->rate_next_ns = snic_max_u64(w->rate_next_ns, floor) + sim_gap(m, g);
        }
        sim_send(m, w);
    }
}

static void sim_answered(struct sim *m, struct sim_io *io)
{
    struct sim_worker *w = &m->workers[io->s.g.tenant];
    struct sim_count *c = &m->count[w->group];
    uint64_t latency = m->now - io->s.client_sent_ns;
    if (sim_measuring(m)) {
        c->ios++;
        c->sum_ns += latency;
        c->hist[snic_min_u64(latency / 1000, SIM_HIST_US - 1)]++;
        w->bytes += io->s.g.size;
    }
    c->sampled += io->s.g.size;
    w->inflight--;
    m->outside--;
    io->next = w->free;
    w->free = io;
    if (m->ops->client_done != NULL)
        m->ops->client_done(m->sched, &io->s, m->now);
    sim_worker_pump(m, w);
}

static void sim_timer(struct snic_timer *t, uint64_t now_ns)
{
    (void)t;
    (void)now_ns;
}

/* ---- The target and its device ---- */

static int sim_stalled(const struct sim *m)
{
    return m->spec->stall_ns > 0 && m->now >= m->spec->stall_ns &&
           m->now < m->spec->stall_ns + m->spec->stall_for_ns;
}

static void sim_late(struct snic_timer *t, uint64_t now_ns)
{
    (void)t;
    (void)now_ns;
}

static void sim_completed(struct sim *m, struct sim_io *io)
{
    uint64_t device = m->now - io->at_ns; /* at_ns: when it was started, by now */
    m->ops->complete(m->sched, &io->s, m->now);
    m->sample_device_ns[io->s.g.op] += device;
    m->sample_device_ios[io->s.g.op]++;
    sim_net_push(&m->answers, io, m->now + SIM_NETWORK_NS);
}

static void sim_start(struct sim *m)
{
    struct sched_io *s;
    while ((s = m->ops->poll(m->sched, m->now)) != NULL) {
        struct sim_io *io = SNIC_CONTAINER(s, struct sim_io, s);
        io->at_ns = m->now;
        sim_must(snic_ssd_submit(m->ssd, &io->cmd, m->now) == 0, "the device refuses a command");
    }
}

static uint64_t sim_next(struct sim *m)
{
    uint64_t next = snic_ssd_deadline_ns(m->ssd);
    if (m->spec->stall_ns > 0 && sim_stalled(m))
        next = m->spec->stall_ns + m->spec->stall_for_ns;
    if (m->arrivals.first != NULL)
        next = snic_min_u64(next, m->arrivals.first->at_ns);
    if (m->answers.first != NULL)
        next = snic_min_u64(next, m->answers.first->at_ns);
    next = snic_min_u64(next, snic_wheel_deadline_ns(&m->wheel));
    next = snic_min_u64(next, m->sample_next);
    next = snic_min_u64(next, m->age_next);
    uint64_t turn = m->ops->deadline(m->sched);
    if (turn != SNIC_NEVER)
        next = snic_min_u64(next, snic_max_u64(turn, m->now + 1));
    return next;
}

static void sim_turn(struct sim *m)
{
    struct snic_ssd_cmd *cmd;
    struct sim_io *io;
    struct snic_timer *t;
    while (!sim_stalled(m) && (cmd = snic_ssd_poll(m->ssd, m->now)) != NULL) {
        io = SNIC_CONTAINER(cmd, struct sim_io, cmd);
        if (m->spec->slow_ns == 0 || m->now < m->spec->slow_ns) {
            sim_completed(m, io);
            continue;
        }
        snic_timer_init(&io->late, sim_late);
        snic_wheel_arm(&m->wheel, &io->late,
                       m->now + (m->now - io->at_ns) * (m->spec->slow_times - 1));
    }
    while ((io = sim_net_pop(&m->arrivals, m->now)) != NULL)
        m->ops->submit(m->sched, &io->s, m->now);
    sim_start(m);
    while ((io = sim_net_pop(&m->answers, m->now)) != NULL)
        sim_answered(m, io);
    while ((t = snic_wheel_pop(&m->wheel, m->now)) != NULL) {
        if (t->fn == sim_late)
            sim_completed(m, SNIC_CONTAINER(t, struct sim_io, late));
        else
            sim_worker_pump(m, SNIC_CONTAINER(t, struct sim_worker, timer));
    }
}

/* ---- Samples and results ---- */

static void sim_sample(struct sim *m)
{
    struct sim_sample *s = &m->samples[m->samples_count];
    double per_us = 1e3 / (double)m->spec->sample_ns; /* bytes to MB/s */
    memset(s, 0, sizeof(*s));
    for (uint32_t g = 0; g < SIM_GROUPS; g++) {
        s->mbps[g] = (float)((double)m->count[g].sampled * per_us);
        m->count[g].sampled = 0;
    }
    for (int op = 0; op < 2; op++) {
        if (m->sample_device_ios[op] > 0)
            s->device_us[op] =
                (float)((double)m->sample_device_ns[op] / (double)m->sample_device_ios[op] / 1e3);
        m->sample_device_ios[op] = 0;
        m->sample_device_ns[op] = 0;
    }
    if (m->ops == &sched_gimbal) {
        struct snic_gimbal_view v;
        snic_gimbal_get_view(sched_gimbal_switch(m->sched), &v);
        for (int op = 0; op < 2; op++) {
            s->ewma_us[op] = (float)v.ewma_ns[op] / 1e3f;
            s->thresh_us[op] = (float)v.thresh_ns[op] / 1e3f;
        }
        s->write_cost = (float)v.write_cost / SNIC_GIMBAL_COST_ONE;
        struct snic_gimbal_learned l;
        snic_gimbal_get_learned(sched_gimbal_switch(m->sched), &l);
        s->limits_us[0] = (float)l.thresh_min_ns / 1e3f;
        s->limits_us[1] = (float)l.thresh_max_ns / 1e3f;
    }
    if (m->sampling) /* the first time only clears the counters */
        m->samples_count++;
    m->sampling = 1;
    m->sample_next =
        m->samples_count < SIM_SAMPLES ? m->sample_next + m->spec->sample_ns : SNIC_NEVER;
}

static double sim_quantile(const struct sim_count *c, double share)
{
    uint64_t need = (uint64_t)((double)c->ios * share);
    uint64_t below = 0;
    for (uint32_t us = 0; us < SIM_HIST_US; us++) {
        below += c->hist[us];
        if (below > need)
            return us + 0.5;
    }
    return 0;
}

static void sim_group_result(const struct sim *m, uint32_t g, struct sim_group_result *out)
{
    const struct sim_count *c = &m->count[g];
    double seconds = (double)m->spec->time_ns / 1e9;
    double sum = 0;
    double share_sum = 0;
    double share_squares = 0;
    uint32_t n = 0;
    for (uint32_t i = 0; i < m->workers_count; i++) {
        const struct sim_worker *w = &m->workers[i];
        if (w->group != g)
            continue;
        double mbps = (double)w->bytes / seconds / 1e6;
        double share = mbps / w->weight;
        sum += mbps;
        share_sum += share;
        share_squares += share * share;
        n++;
    }
    out->mbps = sum;
    out->jain = share_squares > 0 ? share_sum * share_sum / (n * share_squares) : 0;
    if (c->ios == 0)
        return;
    out->iops = (double)c->ios / seconds;
    out->mean_us = (double)c->sum_ns / (double)c->ios / 1e3;
    out->p95_us = sim_quantile(c, 0.95);
    out->p99_us = sim_quantile(c, 0.99);
    out->p999_us = sim_quantile(c, 0.999);
}

static void sim_results(const struct sim *m, struct sim_result *out)
{
    memset(out, 0, sizeof(*out));
    for (uint32_t g = 0; g < SIM_GROUPS; g++)
        if (m->spec->group[g].workers > 0) {
            sim_group_result(m, g, &out->group[g]);
            out->mbps += out->group[g].mbps;
        }
    out->samples = m->samples_count;
    if (m->ops == &sched_gimbal) {
        struct snic_gimbal_view v;
        snic_gimbal_get_view(sched_gimbal_switch(m->sched), &v);
        double seconds = (double)m->end / 1e9;
        out->floor_part = (double)v.floor_part / SNIC_GIMBAL_FLOOR_ONE;
        out->floor_iops = (double)v.floor_ios / seconds;
        out->overloaded = (double)v.entered[SNIC_GIMBAL_OVERLOADED] / seconds;
        out->congested = (double)v.entered[SNIC_GIMBAL_CONGESTED] / seconds;
        snic_gimbal_get_learned(sched_gimbal_switch(m->sched), &out->learned);
    }
}

/* ---- Setting up ---- */

/* No device on sale: 14 GB/s, 4 KiB in 20 us, low-latency flash. */
static void sim_fast(struct snic_ssd_opts *o)
{
    o->fetch_read_ns = 250;
    o->fetch_write_ns = 400;
    o->split_ns = 400;
    o->window = 4096;
    o->link_read = 14000;
    o->link_write = 14000;
    o->post_read_ns = 2000;
    o->post_write_ns = 10000;
    o->buffer_bytes = 16u << 20;
    o->dies = 128;
    o->read_ns = 15000;
    o->read_part_ns = 1500;
    o->read_unit = 16384;
    o->program_ns = 150000;
    o->switch_ns = 20000;
    o->write_amplification = 350;
    o->gc_read_ns = 16500;
    o->gc_debt_ns = 2000000;
    o->gc_chunk_ns = 100000;
    o->stall_ns = 2000000;
    o->stall_pool_rate = 1000;
}

static void sim_open_device(struct sim *m)
{
    struct snic_ssd_opts o;
    if (m->spec->device == SIM_P3600)
        snic_ssd_opts_p3600(&o);
    else
        snic_ssd_opts_dct983(&o);
    if (m->spec->device >= SIM_FIT_A && m->spec->device <= SIM_FIT_C) {
        /* Share of writing in 1/1024, nanoseconds. */
        static const uint32_t fits[][2] = {{410, 400000}, {512, 300000}, {461, 350000}};
        o.write_share = fits[m->spec->device - SIM_FIT_A][0];
        o.gc_chunk_ns = fits[m->spec->device - SIM_FIT_A][1];
        o.write_amplification = 435;
    }
    if (m->spec->device == SIM_FAST)
        sim_fast(&o);
    o.condition = m->spec->condition;
    if (o.condition == SNIC_SSD_AGEING) {
        o.age_fill = 1000;
        o.age_overwrites = m->spec->age_before;
    }
    o.seed = m->spec->seed;
    o.queues = m->workers_count;
    o.depth = 65536;
    size_t size = snic_ssd_memsize(&o);
    sim_must(size > 0 && posix_memalign(&m->ssd_mem, SNIC_SSD_ALIGN, size) == 0 &&
                 snic_ssd_init(&m->ssd, m->ssd_mem, size, &o) == 0,
             "the device's options");
}

static void sim_open_sched(struct sim *m)
{
    const struct sim_spec *s = m->spec;
    struct sched_opts o = {.tenants = m->workers_count, .weight = m->weights, .tenant = m->tenants};
    struct snic_gimbal_opts g = s->gimbal;
    g.opts_size = sizeof(g);
    o.gimbal = &g;
    o.parda_latency_ns = s->parda_latency_ns;
    o.parda_sized = (int)s->parda_sized;
    o.flashfq_depth = s->flashfq_depth;
    m->sched = m->ops->open(&o, 0);
    sim_must(m->sched != NULL, "the scheduler's options");
    if (s->profile.opts_size != 0)
        sim_must(snic_gimbal_profile_set(sched_gimbal_switch(m->sched), &s->profile) == 0,
                 "the profile");
}

static void sim_open_workers(struct sim *m)
{
    uint32_t n = 0;
    uint64_t used = 0;
    for (uint32_t g = 0; g < SIM_GROUPS; g++) {
        m->workers_count += m->spec->group[g].workers;
        m->ios_count += (uint64_t)m->spec->group[g].workers * m->spec->group[g].depth;
        m->count[g].hist = sim_zeroed(SIM_HIST_US, sizeof(uint32_t));
    }
    m->workers = sim_zeroed(m->workers_count, sizeof(*m->workers));
    m->weights = sim_zeroed(m->workers_count, sizeof(*m->weights));
    m->tenants = sim_zeroed(m->workers_count, sizeof(*m->tenants));
    m->ios = sim_zeroed(m->ios_count, sizeof(*m->ios));
    for (uint32_t g = 0; g < SIM_GROUPS; g++) {
        const struct sim_group *s = &m->spec->group[g];
        for (uint32_t i = 0; i < s->workers; i++, n++) {
            struct sim_worker *w = &m->workers[n];
            w->tenant = n;
            w->group = g;
            w->weight = s->weight > 0 ? s->weight : 1;
            m->weights[n] = w->weight;
            m->tenants[n].opts_size = sizeof(m->tenants[n]);
            m->tenants[n].bytes_per_second = s->cap_bytes;
            m->tenants[n].floor_bytes_per_second = s->floor_bytes;
            m->tenants[n].floor_ios_per_second = s->floor_ios;
            m->tenants[n].group = s->in_group;
            w->start_ns = s->start_ns + i * s->start_step_ns;
            w->start_ns += snic_rng_below(&m->rng, SIM_JITTER_NS);
            w->stop_ns = s->stop_ns > 0 ? s->stop_ns + i * s->stop_step_ns : m->end;
            w->offset = snic_rng_below(&m->rng, SIM_SPAN / s->size) * s->size;
            for (uint32_t d = 0; d < s->depth; d++, used++) {
                m->ios[used].next = w->free;
                w->free = &m->ios[used];
            }
            snic_timer_init(&w->timer, sim_timer);
            snic_wheel_arm(&m->wheel, &w->timer, w->start_ns);
        }
    }
}

void sim_run(const struct sim_spec *spec, struct sim_result *out, struct sim_sample *samples)
{
    struct sim *m = sim_zeroed(1, sizeof(*m));
    m->spec = spec;
    m->ops = spec->ops;
    m->end = spec->warm_ns + spec->time_ns;
    m->samples = samples;
    m->sample_next = samples != NULL && spec->sample_ns > 0 ? spec->sample_from_ns : SNIC_NEVER;
    m->age_next = spec->age_ns > 0 ? spec->age_ns : SNIC_NEVER;
    snic_wheel_init(&m->wheel, 0);
    snic_rng_init(&m->rng, spec->seed * 0x9e3779b97f4a7c15u + 1);
    sim_open_workers(m);
    sim_open_device(m);
    sim_open_sched(m);
    while (m->now < m->end) {
        m->now = snic_min_u64(sim_next(m), m->end);
        if (m->now >= m->sample_next)
            sim_sample(m);
        if (m->now >= m->age_next) {
            sim_must(snic_ssd_precondition(m->ssd, 1000, m->spec->age_after) == 0, "ageing");
            m->age_next = SNIC_NEVER;
        }
        sim_turn(m);
    }
    sim_results(m, out);
    m->sample_next = SNIC_NEVER;
    while (m->outside > 0) { /* no client sends any more: drain what is in flight */
        uint64_t next = sim_next(m);
        sim_must(next != SNIC_NEVER, "an I/O is lost");
        m->now = next;
        sim_turn(m);
    }
    m->ops->close(m->sched);
    snic_ssd_fini(m->ssd);
    free(m->ssd_mem);
    for (uint32_t g = 0; g < SIM_GROUPS; g++)
        free(m->count[g].hist);
    free(m->ios);
    free(m->weights);
    free(m->tenants);
    free(m->workers);
    free(m);
}
