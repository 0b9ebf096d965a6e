/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* The storage switch under the image, and its figures on both sides. */
#include "qos.h"

#include "../devices.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Requests in the switch: the file service's, and some that it makes beside them. */
#define KV_QOS_DEPTH 8192u
/* Where probing begins: the recovery at the start shall not wait for it. */
#define KV_QOS_RATE_START ((uint64_t)400 << 20)
/*
 * The quantum of a tenant: one small read. At the default of 128 KiB a flood would have 32 in a
 * row, and a single read of another tenant waits for all of them.
 */
#define KV_QOS_QUANTUM (4u << 10)

SNIC_STATIC_ASSERT(sizeof(struct kv_control_device) <= SNIC_DMA_MSG_MAX, "one control message");
SNIC_STATIC_ASSERT(sizeof(struct kv_control_tenant) <= SNIC_DMA_MSG_MAX, "one control message");

/* ---- DPU role ---- */

static const struct kv_tenant *qos_listed(const struct kv_tenants *t, uint32_t number)
{
    for (uint32_t i = 0; i < t->count; i++)
        if (t->list[i].number == number)
            return &t->list[i];
    return NULL;
}

struct snic_io *kv_qos_open(const struct kv_config *c, struct snic_io *io, struct ex_memory *memory)
{
    const struct kv_tenants *t = &c->tenants;
    struct snic_qos_opts o = {.opts_size = sizeof(o), .flags = SNIC_QOS_WAITS};
    struct snic_gimbal_opts g = {.opts_size = sizeof(g),
                                 .flags = SNIC_GIMBAL_LEARN,
                                 .rate_start = KV_QOS_RATE_START,
                                 .quantum_bytes = KV_QOS_QUANTUM,
                                 .thresh_min_ns = c->thresh_min_us * 1000,
                                 .thresh_max_ns = c->thresh_max_us * 1000,
                                 .write_cost_worst =
                                     (uint32_t)c->write_cost * SNIC_GIMBAL_COST_ONE};
    const char *wrong;
    struct snic_io *out;
    size_t size;
    int r;

    o.tenants_max = kv_tenants_count(t) - 1; /* the server's is the default tenant */
    o.depth = KV_QOS_DEPTH;
    o.gimbal = &g;
    wrong = snic_qos_opts_wrong(io, &o);
    if (wrong != NULL)
        ex_die("cannot set up the storage switch (--qos): %s", wrong);
    size = snic_qos_memsize(io, &o);
    r = snic_qos_open(&out, ex_memory(memory, size, "storage switch"), size, io, &o);
    for (uint32_t n = 1; r == 0 && n <= o.tenants_max; n++) {
        const struct kv_tenant *k = qos_listed(t, n);
        struct snic_gimbal_tenant_opts opts = {.opts_size = sizeof(opts)};

        if (k != NULL) {
            opts.weight = k->weight;
            opts.bytes_per_second = k->bytes;
            opts.ios_per_second = k->ios;
        }
        r = snic_qos_tenant_add(out, n, &opts);
    }
    if (r != 0)
        ex_die("cannot set up the storage switch (--qos): %s", snic_strerror(r));
    ex_devices_begin(c->devices, c->server.file, out);
    return out;
}

void kv_qos_keep(const struct kv_config *c, const struct snic_io *io)
{
    ex_devices_keep(c->devices, c->server.file, io);
}

void kv_qos_uncap(struct snic_io *io)
{
    struct snic_qos_tenant_view v;
    uint32_t cursor = 0;

    while (snic_qos_tenant_next(io, &cursor, &v) == 0) {
        struct snic_gimbal_tenant_opts o = {.opts_size = sizeof(o), .weight = v.engine.weight};
        int r = snic_qos_tenant_set(io, v.id, &o);

        if (r != 0)
            ex_log(EX_WARNING, "cannot lift the caps of tenant %" PRIu32 ": %s", v.id,
                   snic_strerror(r));
    }
}

void kv_qos_device(const struct snic_io *io, struct kv_control_device *out)
{
    struct snic_qos_view v;

    snic_qos_get_view(io, &v);
    memset(out, 0, sizeof(*out));
    out->magic = KV_CONTROL_DEVICE;
    out->write_cost = v.device.write_cost;
    out->rate = v.device.target_rate;
    out->completed_rate = v.device.completion_rate;
    for (int i = 0; i < 2; i++) {
        out->state[i] = v.device.state[i];
        out->latency_ns[i] = v.device.ewma_ns[i];
        out->thresh_ns[i] = v.device.thresh_ns[i];
    }
    out->active = v.device.active;
    out->slots = v.device.slots;
    out->queued = v.device.queued;
    out->inflight = v.device.inflight;
    out->lost = v.device.lost;
    out->parts = v.parts;
}

int kv_qos_tenant(const struct snic_io *io, uint32_t *cursor, struct kv_control_tenant *out)
{
    struct snic_qos_tenant_view v;

    do
        if (snic_qos_tenant_next(io, cursor, &v) != 0)
            return -1;
    while (v.completed == 0 && v.requests == 0);
    memset(out, 0, sizeof(*out));
    out->magic = KV_CONTROL_TENANT;
    out->number = v.id == SNIC_QOS_DEFAULT ? KV_TENANT_SERVER : v.id;
    out->weight = v.engine.weight;
    out->credit = v.engine.credit;
    out->queued = v.engine.queued;
    out->inflight = v.engine.inflight;
    for (int i = 0; i < 2; i++) {
        out->ops[i] = v.engine.ios[i];
        out->bytes[i] = v.engine.bytes[i];
    }
    out->wait_ns = v.engine.wait_ns;
    out->device_ns = v.engine.device_ns;
    out->wait_p50_ns = v.wait_p50_ns;
    out->wait_p99_ns = v.wait_p99_ns;
    out->errors = v.errors;
    return 0;
}

/* Names live as long as the program: a page is printed after the call. */
static const char *qos_metric_name(const struct kv_config *c, uint32_t number, const char *what)
{
    static char names[EX_METRICS_MAX][KV_TENANT_NAME_MAX + 32];
    static uint32_t used;
    char tenant[KV_TENANT_NAME_MAX];
    char *out = names[used++ % EX_METRICS_MAX];

    kv_tenant_name(&c->tenants, number, tenant);
    for (char *p = tenant; *p != 0; p++)
        if (!kv_tenant_alnum(*p))
            *p = '_';
    snprintf(out, sizeof(names[0]), "tenant_%s_%s", tenant, what);
    return out;
}

size_t kv_qos_metrics(const struct kv_config *c, const struct snic_io *io, struct ex_metric *out,
                      size_t max)
{
    struct kv_control_device d;
    struct kv_control_tenant t;
    enum { TENANT_METRICS = 6 };
    uint32_t cursor = 0;
    uint64_t left_out = 0;
    size_t n = 0;

    kv_qos_device(io, &d);
    const struct ex_metric device[] = {
        {"device_rate_bytes", d.rate, 0},
        {"device_completed_rate_bytes", d.completed_rate, 0},
        {"device_read_state", d.state[0], 0},
        {"device_write_state", d.state[1], 0},
        {"device_read_latency_ns", d.latency_ns[0], 0},
        {"device_write_latency_ns", d.latency_ns[1], 0},
        {"device_write_cost_sixteenths", d.write_cost, 0},
        {"device_queued", d.queued, 0},
        {"device_inflight", d.inflight, 0},
        {"device_lost", d.lost, 0},
    };
    for (size_t i = 0; i < SNIC_COUNTOF(device) && n < max; i++)
        out[n++] = device[i];
    while (n + TENANT_METRICS < max && kv_qos_tenant(io, &cursor, &t) == 0) {
        const struct ex_metric tenant[] = {
            {qos_metric_name(c, t.number, "reads"), t.ops[0], 1},
            {qos_metric_name(c, t.number, "writes"), t.ops[1], 1},
            {qos_metric_name(c, t.number, "bytes"), t.bytes[0] + t.bytes[1], 1},
            {qos_metric_name(c, t.number, "wait_ns"), t.wait_ns, 1},
            {qos_metric_name(c, t.number, "queued"), t.queued, 0},
            {qos_metric_name(c, t.number, "credit"), t.credit, 0},
        };

        SNIC_STATIC_ASSERT(SNIC_COUNTOF(tenant) == TENANT_METRICS, "room for it");
        memcpy(out + n, tenant, sizeof(tenant));
        n += SNIC_COUNTOF(tenant);
    }
    while (kv_qos_tenant(io, &cursor, &t) == 0)
        left_out++;
    if (n < max)
        out[n++] = (struct ex_metric){"tenants_not_shown", left_out, 0};
    return n;
}

/* ---- Host role ---- */

void kv_qos_hear_init(struct kv_qos_heard *h, const struct kv_config *c)
{
    memset(h, 0, sizeof(*h));
    if (!c->tenants.on)
        return;
    h->count = kv_tenants_count(&c->tenants);
    h->tenants = calloc(h->count, sizeof(*h->tenants));
    if (h->tenants == NULL)
        ex_die("out of memory for the tenants' statistics");
}

int kv_qos_hear(struct kv_qos_heard *h, const void *msg, uint32_t size)
{
    struct kv_control_tenant t;
    uint32_t magic = 0;

    if (h->count == 0 || size < sizeof(magic))
        return 0;
    memcpy(&magic, msg, sizeof(magic));
    if (magic == KV_CONTROL_DEVICE && size == sizeof(h->device)) {
        memcpy(&h->device, msg, size);
        return 1;
    }
    if (magic != KV_CONTROL_TENANT || size != sizeof(t))
        return 0;
    memcpy(&t, msg, size);
    if (t.number < h->count)
        h->tenants[t.number] = t;
    return 1;
}

void kv_qos_hear_fini(struct kv_qos_heard *h)
{
    free(h->tenants);
    memset(h, 0, sizeof(*h));
}

/* Where the text ends after snprintf() at @p at returned @p n. */
static size_t qos_end(size_t at, size_t max, int n)
{
    return n < 0 ? at : snic_min_u64(at + (size_t)n, max - 1);
}

static size_t qos_info_device(const struct kv_control_device *d, char *out, size_t max)
{
    static const char *const states[] = {"underutilised", "avoidance", "congested", "overloaded"};

    if (d->magic == 0)
        return 0;
    return qos_end(
        0, max,
        snprintf(
            out, max,
            "rate:%" PRIu64 "\r\ncompleted_rate:%" PRIu64
            "\r\nread_state:%s\r\nwrite_state:%s\r\nwrite_cost:%.3f\r\nread_latency_us:%" PRIu64
            "\r\nwrite_latency_us:%" PRIu64 "\r\nread_threshold_us:%" PRIu64
            "\r\nwrite_threshold_us:%" PRIu64
            "\r\nactive_tenants:%u\r\nslots_per_tenant:%u\r\nqueued:%u\r\ninflight:%u\r\n"
            "lost:%" PRIu64 "\r\nparts:%" PRIu64 "\r\n",
            d->rate, d->completed_rate, states[d->state[0] & 3], states[d->state[1] & 3],
            (double)d->write_cost / SNIC_GIMBAL_COST_ONE, d->latency_ns[0] / 1000,
            d->latency_ns[1] / 1000, d->thresh_ns[0] / 1000, d->thresh_ns[1] / 1000, d->active,
            d->slots, d->queued, d->inflight, d->lost, d->parts));
}

size_t kv_qos_info(const struct kv_qos_heard *h, const struct kv_config *c, const char *section,
                   char *out, size_t max)
{
    size_t at = 0;

    if (strcmp(section, "device") == 0)
        return qos_info_device(&h->device, out, max);
    for (uint32_t i = 0; i < h->count; i++) {
        const struct kv_control_tenant *t = &h->tenants[i];
        uint64_t ops = t->ops[0] + t->ops[1];
        char name[KV_TENANT_NAME_MAX];

        if (t->magic == 0)
            continue;
        if (max - at < 2 * KV_TENANT_NAME_MAX + 384)
            break; /* whole lines only */
        kv_tenant_name(&c->tenants, i, name);
        at = qos_end(at, max,
                     snprintf(out + at, max - at,
                              "%s:ops=%" PRIu64 ",bytes=%" PRIu64 ",wait_p50_us=%" PRIu64
                              ",wait_p99_us=%" PRIu64 ",part_wait_mean_us=%" PRIu64
                              ",device_mean_us=%" PRIu64
                              ",queued=%u,inflight=%u,credit=%u,weight=%u,errors=%" PRIu64 "\r\n",
                              name, ops, t->bytes[0] + t->bytes[1], t->wait_p50_ns / 1000,
                              t->wait_p99_ns / 1000, ops > 0 ? t->wait_ns / ops / 1000 : 0,
                              ops > 0 ? t->device_ns / ops / 1000 : 0, t->queued, t->inflight,
                              t->credit, t->weight, t->errors));
    }
    return at;
}
