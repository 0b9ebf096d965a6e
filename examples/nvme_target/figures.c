/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * Statistics: the target's counters (--stats, --metrics, `ctl show stats`), and of each host and
 * each device what has labels on the page of --metrics. What a switch has is read on its loop.
 */
#include "target.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { POWERS = 22, PAIRS = 4096 }; /* of a histogram on the page; hosts at devices there */

static const char *const kind_names[TG_KINDS] = {"read", "write", "flush", "other"};

/* ---- Rates ---- */

struct rate {
    uint64_t ios; /* at the last tick */
    uint64_t bytes;
    uint64_t per_second[2]; /* since the one before: I/Os, bytes */
};

static struct {
    uint64_t ns;
    struct rate rates[TG_SEEN + 1][TG_KINDS];
} tick;

void tg_figures_tick(uint64_t now)
{
    uint32_t count;
    const struct tg_seen *seen = tg_seen_update(&count);
    uint64_t ns = tick.ns != 0 && now > tick.ns ? now - tick.ns : UINT64_C(1000000000);
    for (uint32_t i = 0; i < count; i++)
        for (uint32_t k = 0; k < TG_KINDS; k++) {
            struct rate *r = &tick.rates[i][k];
            const struct tg_tally *t = &seen[i].kinds[k];
            r->per_second[0] = (t->ios - r->ios) * UINT64_C(1000000) / (ns / 1000 + 1);
            r->per_second[1] = (t->bytes - r->bytes) * UINT64_C(1000) / (ns / 1000000 + 1);
            r->ios = t->ios;
            r->bytes = t->bytes;
        }
    tick.ns = now;
}

/* ---- The target ---- */

/* Bytes that connections may hold for data at most. */
static uint64_t memory_limit(void)
{
    return tg.connections * tg.loops * tg.memory;
}

static void sums(struct tg_tally out[TG_KINDS])
{
    uint32_t count;
    const struct tg_seen *seen = tg_seen_update(&count);
    memset(out, 0, TG_KINDS * sizeof(out[0]));
    for (uint32_t i = 0; i < count; i++)
        for (uint32_t k = 0; k < TG_KINDS; k++)
            tg_tally_add(&out[k], &seen[i].kinds[k]);
}

size_t tg_figures(void *ctx, struct ex_metric *m)
{
    static struct tg_tally t[TG_KINDS];
    struct snic_nvmet_stats s;
    (void)ctx;
    snic_nvmet_get_stats(tg_target(), &s);
    tg_loops_stats(&s);
    sums(t);
    const struct ex_metric all[] = {
        {"connections", s.conns, 0},
        {"queues", s.queues, 0},
        {"at_device", s.at_device, 0},
        {"memory_held_bytes", s.memory, 0},
        {"memory_limit_bytes", memory_limit(), 0},
        {"accepted", s.accepted, 1},
        {"refused", s.refused, 1},
        {"evicted", s.evicted, 1},
        {"busy", s.busy, 1},
        {"unknown", s.unknown, 1},
        {"violations", s.violations, 1},
        {"timeouts", s.timeouts, 1},
        {"denied", s.denied, 1},
        {"admin", s.admin, 1},
        {"reads", s.reads, 1},
        {"writes", s.writes, 1},
        {"flushes", t[TG_FLUSH].ios, 1},
        {"read_bytes", s.read_bytes, 1},
        {"write_bytes", s.write_bytes, 1},
        {"others", s.others, 1},
        {"errors", s.errors, 1},
        {"held", s.held, 1},
        {"memory_waits", s.waits, 1},
        {"device_waits", s.rooms, 1},
        {"reserved", s.reserved, 1},
        {"read_p50_us", tg_tally_quantile(&t[TG_READ], 500000) / 1000, 0},
        {"read_p99_us", tg_tally_quantile(&t[TG_READ], 990000) / 1000, 0},
        {"write_p50_us", tg_tally_quantile(&t[TG_WRITE], 500000) / 1000, 0},
        {"write_p99_us", tg_tally_quantile(&t[TG_WRITE], 990000) / 1000, 0},
        {"flush_p50_us", tg_tally_quantile(&t[TG_FLUSH], 500000) / 1000, 0},
        {"flush_p99_us", tg_tally_quantile(&t[TG_FLUSH], 990000) / 1000, 0},
    };
    memcpy(m, all, sizeof(all));
    return SNIC_COUNTOF(all);
}

/* ---- A device: copied on its loop ---- */

struct at_device {
    struct tg_namespace *ns;
    struct snic_qos_view v;
    uint32_t count;
    struct snic_qos_tenant_view tenants[TG_SEEN + 1];
    struct snic_gimbal_tenant_view shares[TG_SHARES];
};

static void view_there(void *ctx)
{
    struct at_device *d = ctx;
    uint32_t cursor = 0;
    d->count = 0;
    snic_qos_get_view(d->ns->io, &d->v);
    while (d->count < SNIC_COUNTOF(d->tenants) &&
           snic_qos_tenant_next(d->ns->io, &cursor, &d->tenants[d->count]) == 0) {
        const struct snic_qos_tenant_view *t = &d->tenants[d->count];
        d->count += t->completed + t->requests + t->busy > 0;
    }
    for (uint32_t i = 0; i < TG_SHARES; i++)
        if (tg.shares[i].name[0] == 0 ||
            snic_qos_get_group_view(d->ns->io, i + 1, &d->shares[i]) != 0)
            memset(&d->shares[i], 0, sizeof(d->shares[i]));
}

/* @return 0: it has no switch */
static const struct at_device *view(struct tg_namespace *ns)
{
    static struct at_device d;
    if (!ns->used || ns->gone || ns->qos == NULL)
        return NULL;
    d.ns = ns;
    tg_loops_call(ns, view_there, &d);
    return &d;
}

static const char *name_of(const struct tg_seen *seen, uint32_t count, uint32_t tenant, char *out,
                           size_t size)
{
    for (uint32_t i = 0; i < count; i++)
        if (seen[i].tenant == tenant && i < TG_SEEN)
            return seen[i].name;
    if (tenant == SNIC_QOS_DEFAULT)
        (void)snprintf(out, size, "default");
    else
        (void)snprintf(out, size, "tenant-%08" PRIx32, tenant);
    return out;
}

static const char *state_name(uint32_t state)
{
    static const char *const names[] = {"under-utilised", "avoidance", "congested", "overloaded"};
    return state < SNIC_COUNTOF(names) ? names[state] : "?";
}

/* ---- The page ---- */

/* {A="...",B="... */
static void page_labels(struct tg_text *out, const char *const *names, const char *const *values,
                        uint32_t count)
{
    for (uint32_t i = 0; i < count; i++) {
        tg_text_add(out, "%s%s=\"", i == 0 ? "{" : ",", names[i]);
        for (const char *p = values[i]; *p != 0; p++)
            tg_text_add(out, "%s%c", *p == '"' || *p == '\\' ? "\\" : "", *p);
        tg_text_add(out, "\"");
    }
}

static void page_head(struct tg_text *out, const char *name, const char *type, const char *help)
{
    tg_text_add(out, "# HELP nvme_target_%s %s\n# TYPE nvme_target_%s %s\n", name, help, name,
                type);
}

static void page_kind(struct tg_text *out, const char *what, const struct tg_seen *h, uint32_t k)
{
    static const char *const names[] = {"host", "op"};
    const char *values[] = {h->name, kind_names[k]};
    tg_text_add(out, "nvme_target_host_%s", what);
    page_labels(out, names, values, 2);
}

static void page_histogram(struct tg_text *out, const struct tg_seen *h, uint32_t k)
{
    const struct tg_tally *t = &h->kinds[k];
    if (t->ios == 0)
        return;
    for (uint32_t i = 0; i <= POWERS; i++) {
        page_kind(out, "latency_seconds_bucket", h, k);
        tg_text_add(out, ",le=\"%.9f\"} %" PRIu64 "\n",
                    (double)(UINT64_C(1) << (TG_BUCKET_SHIFT + i)) / 1e9, tg_tally_below(t, i));
    }
    uint64_t all = tg_tally_below(t, POWERS) + t->buckets[TG_BUCKETS - 1];
    page_kind(out, "latency_seconds_bucket", h, k);
    tg_text_add(out, ",le=\"+Inf\"} %" PRIu64 "\n", all);
    page_kind(out, "latency_seconds_sum", h, k);
    tg_text_add(out, "} %.9f\n", (double)t->ns / 1e9);
    page_kind(out, "latency_seconds_count", h, k);
    tg_text_add(out, "} %" PRIu64 "\n", all);
}

static void page_hosts(struct tg_text *out, const struct tg_seen *seen, uint32_t count)
{
    static const char *const host[] = {"host"};
    page_head(out, "host_latency_seconds", "histogram",
              "time from a command's capsule to its completion");
    for (uint32_t i = 0; i < count; i++)
        for (uint32_t k = 0; k < TG_KINDS; k++)
            page_histogram(out, &seen[i], k);
    page_head(out, "host_ios", "counter", "commands that ended well");
    for (uint32_t i = 0; i < count; i++)
        for (uint32_t k = 0; k < TG_KINDS; k++) {
            page_kind(out, "ios", &seen[i], k);
            tg_text_add(out, "} %" PRIu64 "\n", seen[i].kinds[k].ios);
        }
    page_head(out, "host_bytes", "counter", "bytes of these");
    for (uint32_t i = 0; i < count; i++)
        for (uint32_t k = 0; k < TG_KINDS; k++) {
            page_kind(out, "bytes", &seen[i], k);
            tg_text_add(out, "} %" PRIu64 "\n", seen[i].kinds[k].bytes);
        }
    page_head(out, "host_errors", "counter", "commands that the device failed");
    for (uint32_t i = 0; i < count; i++) {
        const char *values[] = {seen[i].name};
        tg_text_add(out, "nvme_target_host_errors");
        page_labels(out, host, values, 1);
        tg_text_add(out, "} %" PRIu64 "\n", seen[i].errors);
    }
}

/* Lines of one metric must follow each other, so each has a text of its own. */
static const struct page_metric {
    const char *name;
    const char *type;
    const char *help;
} device_metrics[] =
    {
        {"device_target_rate", "gauge", "bytes per second that the switch lets pass"},
        {"device_completion_rate", "gauge", "bytes per second that the device completed"},
        {"device_write_cost", "gauge", "reads of its size that a write costs"},
        {"device_slots", "gauge", "virtual slots of a host, per weight"},
        {"device_queued", "gauge", "parts of requests that wait in the switch"},
        {"device_inflight", "gauge", "parts of requests at the device"},
        {"device_requests", "gauge", "requests inside"},
        {"device_active", "gauge", "hosts that share the device now"},
        {"device_floor_part", "gauge", "part of each floor that holds now"},
        {"device_refused", "counter", "requests refused for want of a place"},
},
  side_metrics[] =
      {
          {"device_state", "gauge", "0 under-utilised, 1 avoidance, 2 congested, 3 overloaded"},
          {"device_ewma_seconds", "gauge", "latency"},
          {"device_threshold_seconds", "gauge",
           "latency from which the device counts as congested"},
          {"device_headroom", "gauge", "bytes per second of the target rate"},
},
  pair_metrics[] = {
      {"host_credit", "gauge", "requests that a host may have under way at a device"},
      {"host_queued", "gauge", "parts of requests that wait in the switch"},
      {"host_inflight", "gauge", "parts of requests at the device"},
      {"host_requests", "gauge", "requests inside"},
      {"host_refused", "counter", "requests refused for want of a place"},
};

enum {
    DEVICES = SNIC_COUNTOF(device_metrics),
    SIDES = SNIC_COUNTOF(side_metrics),
    PAIR = SNIC_COUNTOF(pair_metrics)
};

static void page_line(struct tg_text *out, const struct page_metric *m,
                      const struct tg_namespace *ns, const char *name, const char *value, double x)
{
    static char nsid[16];
    const char *names[] = {"subsystem", "nsid", name};
    const char *values[] = {tg.subs[ns->subsystem].nqn, nsid, value};
    (void)snprintf(nsid, sizeof(nsid), "%" PRIu32, ns->nsid);
    if (out->size == 0)
        page_head(out, m->name, m->type, m->help);
    tg_text_add(out, "nvme_target_%s", m->name);
    page_labels(out, names, values, name != NULL ? 3 : 2);
    tg_text_add(out, "} %.9g\n", x);
}

static void page_device(struct tg_text *out, const struct at_device *d)
{
    const struct snic_gimbal_view *g = &d->v.device;
    const double x[DEVICES] = {(double)g->target_rate,
                               (double)g->completion_rate,
                               (double)g->write_cost / SNIC_GIMBAL_COST_ONE,
                               g->slots,
                               g->queued,
                               g->inflight,
                               d->v.requests,
                               g->active,
                               (double)g->floor_part / SNIC_GIMBAL_FLOOR_ONE,
                               (double)d->v.busy};
    for (uint32_t i = 0; i < DEVICES; i++)
        page_line(&out[i], &device_metrics[i], d->ns, NULL, NULL, x[i]);
    for (uint32_t k = 0; k < 2; k++) {
        const double y[SIDES] = {g->state[k], (double)g->ewma_ns[k] / 1e9,
                                 (double)g->thresh_ns[k] / 1e9,
                                 (double)(k == 0 ? g->read_headroom : g->write_headroom)};
        for (uint32_t i = 0; i < SIDES; i++)
            page_line(&out[DEVICES + i], &side_metrics[i], d->ns, "op", kind_names[k], y[i]);
    }
}

static void page_pair(struct tg_text *out, const struct at_device *d, uint32_t i, const char *name)
{
    const struct snic_qos_tenant_view *t = &d->tenants[i];
    const double x[PAIR] = {t->engine.credit, t->engine.queued, t->engine.inflight, t->requests,
                            (double)t->busy};
    for (uint32_t k = 0; k < PAIR; k++)
        page_line(&out[DEVICES + SIDES + k], &pair_metrics[k], d->ns, "host", name, x[k]);
}

char *tg_figures_page(void *ctx, size_t *size)
{
    struct tg_text out = {0}, parts[DEVICES + SIDES + PAIR];
    char text[32];
    uint32_t count, pairs = 0;
    const struct tg_seen *seen = tg_seen_update(&count);
    (void)ctx;
    memset(parts, 0, sizeof(parts));
    page_hosts(&out, seen, count);
    for (uint32_t i = 0; i < TG_NAMESPACES; i++) {
        const struct at_device *d = view(&tg.ns[i]);
        if (d == NULL)
            continue;
        page_device(parts, d);
        for (uint32_t k = 0; k < d->count && pairs < PAIRS; k++, pairs++)
            page_pair(parts, d, k, name_of(seen, count, d->tenants[k].id, text, sizeof(text)));
    }
    for (uint32_t i = 0; i < SNIC_COUNTOF(parts); i++) {
        if (parts[i].size > 0)
            tg_text_add(&out, "%s", parts[i].data);
        out.failed |= parts[i].failed;
        tg_text_free(&parts[i]);
    }
    if (out.failed)
        tg_text_free(&out);
    *size = out.size;
    return out.data;
}

/* ---- For people ---- */

static void show_target(struct tg_text *out)
{
    struct snic_nvmet_stats s;
    snic_nvmet_get_stats(tg_target(), &s);
    tg_loops_stats(&s);
    tg_text_add(out,
                "connections: %u of %" PRIu64 ", %u I/O queues, %u commands at devices, %" PRIu64
                " bytes held of %" PRIu64 "\n",
                s.conns, tg.connections * tg.loops, s.queues, s.at_device, s.memory,
                memory_limit());
    tg_text_add(out,
                "refused: %" PRIu64 " for want of a place, %" PRIu64
                " Connects of a host with its most, %" PRIu64 " of an unknown subsystem\n",
                s.refused, s.busy, s.unknown);
    tg_text_add(out,
                "ended: %" PRIu64 " to make room, %" PRIu64 " for what the host sent, %" PRIu64
                " by timeout, %" PRIu64 " for authentication\n",
                s.evicted, s.violations, s.timeouts, s.denied);
}

static void show_host(struct tg_text *out, const struct tg_seen *h, uint32_t row)
{
    tg_text_add(out, "host %s: %" PRIu64 " errors\n", h->name, h->errors);
    for (uint32_t k = 0; k < TG_KINDS; k++) {
        const struct tg_tally *t = &h->kinds[k];
        if (t->ios == 0)
            continue;
        tg_text_add(out,
                    "  %s: %" PRIu64 " I/Os and %" PRIu64 " bytes a second, %" PRIu64
                    " and %" PRIu64 " in all; mean %" PRIu64 " us, p50 %" PRIu64 ", p99 %" PRIu64
                    "\n",
                    kind_names[k], tick.rates[row][k].per_second[0],
                    tick.rates[row][k].per_second[1], t->ios, t->bytes, t->ns / t->ios / 1000,
                    tg_tally_quantile(t, 500000) / 1000, tg_tally_quantile(t, 990000) / 1000);
    }
}

static void show_device(struct tg_text *out, const struct at_device *d, const struct tg_seen *seen,
                        uint32_t count)
{
    const struct snic_gimbal_view *g = &d->v.device;
    char text[32];
    tg_text_add(out,
                "device of namespace %" PRIu32 " of %s: target rate %" PRIu64
                " bytes a second, completed %" PRIu64 ", write cost %u.%02u, slots %u, active %u, "
                "%u queued, %u at the device\n",
                d->ns->nsid, tg.subs[d->ns->subsystem].nqn, g->target_rate, g->completion_rate,
                g->write_cost / SNIC_GIMBAL_COST_ONE,
                g->write_cost % SNIC_GIMBAL_COST_ONE * 100 / SNIC_GIMBAL_COST_ONE, g->slots,
                g->active, g->queued, g->inflight);
    for (uint32_t k = 0; k < 2; k++)
        tg_text_add(out, "  %ss: %s, latency %" PRIu64 " us, threshold %" PRIu64 " us\n",
                    kind_names[k], state_name(g->state[k]), g->ewma_ns[k] / 1000,
                    g->thresh_ns[k] / 1000);
    for (uint32_t i = 0; i < d->count; i++) {
        const struct snic_qos_tenant_view *t = &d->tenants[i];
        tg_text_add(out,
                    "  host %s: credit %u, %u requests, %u queued, %u at the device, %" PRIu64
                    " refused\n",
                    name_of(seen, count, t->id, text, sizeof(text)), t->engine.credit, t->requests,
                    t->engine.queued, t->engine.inflight, t->busy);
    }
    for (uint32_t i = 0; i < TG_SHARES; i++) {
        const struct snic_gimbal_tenant_view *s = &d->shares[i];
        if (s->weight != 0)
            tg_text_add(out,
                        "  group %s: %" PRIu64 " reads, %" PRIu64 " writes, %" PRIu64
                        " bytes, %u hosts, %u queued, %u at the device\n",
                        tg.shares[i].name, s->ios[0], s->ios[1], s->bytes[0] + s->bytes[1],
                        s->members, s->queued, s->inflight);
    }
}

void tg_figures_show(struct tg_text *out)
{
    uint32_t count;
    const struct tg_seen *seen = tg_seen_update(&count);
    show_target(out);
    for (uint32_t i = 0; i < count; i++)
        show_host(out, &seen[i], i);
    for (uint32_t i = 0; i < TG_NAMESPACES; i++) {
        const struct at_device *d = view(&tg.ns[i]);
        if (d != NULL)
            show_device(out, d, seen, count);
    }
}
