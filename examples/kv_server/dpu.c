/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * The DPU role: what kv_server adds to server/dpu.h. After the drain it serves files until the host
 * has written out what it holds.
 */
#include "dpu.h"

#include "../server/memory.h"
#include "offload_user.h"
#include "qos.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

/* Less would take some writes, or none, and then refuse them for ever. */
#define KV_SEGMENTS_MIN 4u        /* one written, one sealed, two of compaction's reserve */
#define KV_META_BYTES (16u << 20) /* for the tables and the journal, which have 4 at this size */
#define KV_TICK_NS 500000000u
#define KV_TENANTS_SENT 64        /* per tick */
#define KV_LINGER_NS 10000000000u /* for a host that does not go after the drain */
#define KV_FULL_MS 10000u         /* a client at the hard limit that takes nothing for so long */
#define KV_SHARE_MS 60000u        /* one that holds its share of what is left for replies */
#define KV_TRIM_KEEP (64u << 20)  /* free memory for replies that is kept */
#define KV_TRIM_MOST (1u << 30)   /* most that goes back to the system in a tick */
#define KV_REPORT_NS 1000000000u  /* between lines about clients */

struct kv_dpu {
    struct ex_dpu base;
    const struct kv_config *config;
    struct snic_io *qos; /* the image's io handle, if a switch stands in front of it */
    struct ex_memory qos_memory;
    struct kv_offload user;
    uint64_t messages_sent;
    uint64_t hosts_seen;
    struct snic_director_stats reported; /* as of the last lines in the log */
    uint64_t reported_ns;
    uint64_t reply_bytes; /* most of replies that clients have not read yet */
    uint32_t tenant_next; /* where the next dpu_control_tenants() resumes */
    struct resp_out_limit limit;
};

static struct kv_dpu *dpu_of(struct ex_dpu *base)
{
    return SNIC_CONTAINER(base, struct kv_dpu, base);
}

/* ---- Figures ---- */

/* The switch, and some of the tenants in turn: a message each. */
static void dpu_control_tenants(struct kv_dpu *d)
{
    struct kv_control_device device;
    struct kv_control_tenant t;

    kv_qos_device(d->qos, &device);
    ex_dpu_send(&d->base, &device, sizeof(device));
    for (int n = 0; n < KV_TENANTS_SENT; n++) {
        if (kv_qos_tenant(d->qos, &d->tenant_next, &t) != 0) {
            d->tenant_next = 0;
            return;
        }
        ex_dpu_send(&d->base, &t, sizeof(t));
    }
}

static void dpu_control(struct kv_dpu *d, enum kv_control_kind kind)
{
    struct ex_dpu_figures f;
    struct kv_control m;

    ex_dpu_figures(&d->base, &f);
    m = (struct kv_control){
        .magic = KV_CONTROL_MAGIC,
        .kind = kind,
        .pid = (uint64_t)getpid(),
        .cpu_ns = ex_server_cpu_ns(d->base.server),
        .messages = f.director.messages,
        .offloaded = f.director.offloaded,
        .to_host = f.director.to_host,
        .cache_items = f.offload.items,
        .cache_tombstones = f.offload.tombstones,
        .cache_floor = f.offload.floor,
        .records_up = f.director.records_up,
        .records_down = f.director.records_down,
        .invalidations = f.director.invalidations,
        .read_errors = f.offload.read_errors,
        .offload_to_host = f.director.offload_to_host,
        .segments_free = f.files.segments_free,
        .file_reads = f.files.reads,
        .file_writes = f.files.writes,
        .cache_evicted = f.offload.evicted,
        .stalls = f.director.stalls,
        .hog_resets = f.director.hog_resets,
        .refused = f.director.refused,
        .idle_closed = f.director.idle_closed,
        .offload_busy = f.offload.refused_busy,
        .pool_free = f.offload.pool_free,
        .full_resets = f.director.full_resets,
        .share_resets = f.director.share_resets,
        .total_resets = f.director.total_resets,
        .query_resets = d->user.framing.query_limit,
    };
    d->messages_sent = f.director.messages;
    ex_dpu_send(&d->base, &m, sizeof(m));
    if (d->qos != NULL && kind == KV_CONTROL_STATS)
        dpu_control_tenants(d);
}

static size_t dpu_metrics(struct ex_dpu *base, struct ex_metric *out)
{
    struct kv_dpu *d = dpu_of(base);
    size_t n = 0;

    out[n++] = (struct ex_metric){"query_limit_resets", d->user.framing.query_limit, 1};
    if (d->qos != NULL)
        n += kv_qos_metrics(d->config, d->qos, out + n, EX_METRICS_MAX - EX_DPU_METRICS - n);
    return n;
}

static void dpu_wall(struct kv_dpu *d)
{
    struct timespec t;

    clock_gettime(CLOCK_REALTIME, &t);
    d->user.wall_offset_ms = (uint64_t)t.tv_sec * 1000 + (uint64_t)t.tv_nsec / 1000000 -
                             snic_loop_now(d->base.loop) / 1000000u;
}

/* What clients must not notice without a word here; at most one line of each kind a second. */
static void dpu_report(struct kv_dpu *d, const struct snic_director_stats *s, uint64_t now)
{
    if (now - d->reported_ns < KV_REPORT_NS)
        return;
    if (s->hog_resets > d->reported.hog_resets)
        ex_log(EX_WARNING,
               "%" PRIu64 " clients were disconnected: they did not read their replies, and the "
               "memory for replies (%" PRIu64 " bytes) was used up",
               s->hog_resets - d->reported.hog_resets, d->reply_bytes);
    if (s->total_resets > d->reported.total_resets)
        ex_log(EX_WARNING,
               "%" PRIu64 " clients were disconnected: the unread replies of all clients exceeded "
               "maxmemory-clients, and these held most",
               s->total_resets - d->reported.total_resets);
    if (s->full_resets > d->reported.full_resets)
        ex_log(EX_WARNING,
               "%" PRIu64 " clients were disconnected: their unread replies exceeded "
               "client-output-buffer-limit for longer than its time",
               s->full_resets - d->reported.full_resets);
    if (s->share_resets > d->reported.share_resets)
        ex_log(EX_WARNING,
               "%" PRIu64 " clients were disconnected: their unread replies exceeded a fair share "
               "of maxmemory-clients for %u s",
               s->share_resets - d->reported.share_resets, KV_SHARE_MS / 1000);
    if (s->stalls > d->reported.stalls)
        ex_log(EX_WARNING,
               "replies of the host role waited %" PRIu64
               " times for memory: clients read them too slowly (--maxmemory-clients)",
               s->stalls - d->reported.stalls);
    resp_framing_report(&d->user.framing);
    d->reported = *s;
    d->reported_ns = now;
}

/*
 * client-output-buffer-limit: a client is not read from while it holds the hard limit, and is reset
 * when it takes nothing then, or nothing for the soft time above the soft limit. 0 means no limit
 * but the director's.
 */
static uint32_t dpu_conn_bytes(const struct resp_out_limit *l)
{
    uint64_t most = 1u << 30;

    if (l->hard != 0)
        most = snic_min_u64(most, l->hard);
    return (uint32_t)snic_max_u64(most, 64u << 10);
}

static void dpu_tick(struct ex_dpu *base, uint64_t now)
{
    struct kv_dpu *d = dpu_of(base);
    struct snic_director *director = base->director;
    struct snic_director_stats ds;

    dpu_wall(d);
    (void)snic_director_reset_full(director, dpu_conn_bytes(&d->limit), KV_FULL_MS);
    (void)snic_director_reset_full(director, 0, KV_SHARE_MS);
    if (d->limit.soft != 0)
        (void)snic_director_reset_full(director, d->limit.soft, d->limit.soft_s * 1000);
    (void)snic_director_trim(director, KV_TRIM_KEEP, KV_TRIM_MOST, ex_memory_release, NULL);
    snic_director_get_stats(director, &ds);
    dpu_report(d, &ds, now);
    if (ds.hosts != d->hosts_seen && ds.message_max < d->config->message_max)
        ex_log(EX_WARNING,
               "the host takes messages up to %" PRIu64 " bytes, this role up to %" PRIu64
               " (--message-max): the smaller counts",
               ds.message_max, d->config->message_max);
    d->hosts_seen = ds.hosts;
    d->user.framing.limits.message_max = (uint32_t)ds.message_max;
    if (ds.messages != d->messages_sent) /* an idle host is not woken */
        dpu_control(d, KV_CONTROL_STATS);
    if (base->drained)
        dpu_control(d, KV_CONTROL_DRAINED);
}

/* ---- Hosts ---- */

/* CONFIG SET */
static void dpu_settings(struct kv_dpu *d, const struct kv_control *m)
{
    d->user.password = m->messages != 0;
    d->limit = (struct resp_out_limit){m->cpu_ns, m->offloaded, m->to_host};
    d->user.framing.query_max = m->records_down;
    snic_director_set_total_bytes(d->base.director, m->records_up);
    if (snic_director_set_conn_bytes(d->base.director, dpu_conn_bytes(&d->limit)) != 0)
        ex_log(EX_WARNING, "cannot change client-output-buffer-limit: the value is out of range");
}

static void dpu_recv(struct ex_dpu *base, const void *msg, uint32_t size)
{
    struct kv_control m;

    if (size != sizeof(m))
        return;
    memcpy(&m, msg, sizeof(m));
    if (m.magic != KV_CONTROL_MAGIC)
        return;
    if (m.kind == KV_CONTROL_SHUTDOWN)
        ex_dpu_drain(base);
    else if (m.kind == KV_CONTROL_SETTINGS)
        dpu_settings(dpu_of(base), &m);
    else if (m.kind == KV_CONTROL_KILL) /* one that has gone is no error */
        (void)snic_director_conn_reset(base->director, m.messages);
    else if (m.kind == KV_CONTROL_KEEP)
        (void)snic_director_conn_keep(base->director, m.messages, m.offloaded != 0);
}

/* Its memory is gone, its log is there. */
static void dpu_host_gone(struct ex_dpu *base)
{
    kv_offload_forget_memory(&dpu_of(base)->user);
}

static void dpu_drain(struct ex_dpu *base)
{
    struct kv_dpu *d = dpu_of(base);

    if (d->qos != NULL) {
        kv_qos_keep(d->config, d->qos);
        kv_qos_uncap(d->qos);
    }
}

static void dpu_drained(struct ex_dpu *base)
{
    dpu_control(dpu_of(base), KV_CONTROL_DRAINED);
}

static const struct ex_dpu_ops dpu_ops = {
    .tick_ns = KV_TICK_NS,
    .linger_ns = KV_LINGER_NS,
    .tick = dpu_tick,
    .metrics = dpu_metrics,
    .recv = dpu_recv,
    .host_gone = dpu_host_gone,
    .drain = dpu_drain,
    .drained = dpu_drained,
};

/* ---- Open ---- */

static struct snic_io *dpu_wrap(void *ctx, struct snic_io *io)
{
    struct kv_dpu *d = ctx;

    d->qos = kv_qos_open(d->config, io, &d->qos_memory);
    return d->qos;
}

static void dpu_open_image(struct kv_dpu *d)
{
    const struct kv_config *c = d->config;
    struct ex_image_opts o = {.path = c->server.file,
                              .auth_keys = c->server.auth_keys,
                              .size = c->size,
                              .buffered = c->server.buffered};
    char why[96];

    (void)snprintf(why, sizeof(why), "%u segments of %" PRIu64 " MiB (--segment) and tables",
                   KV_SEGMENTS_MIN, c->segment >> 20);
    o.size_set = c->size_set;
    o.depth = (uint32_t)c->device_depth;
    o.least = KV_SEGMENTS_MIN * c->segment + KV_META_BYTES;
    o.why = why;
    o.mount.opts_size = sizeof(o.mount);
    o.mount.depth = 1024;
    o.mount.bounce_count = 512; /* records lie anywhere: the host's reads of them are unaligned */
    o.mount.bounce_bytes = 32u << 10;
    if (c->tenants.on) { /* what waits in the switch holds a request of the file service */
        o.mount.depth = 4096;
        o.mount.bounce_count = 1024;
        o.wrap = dpu_wrap;
        o.ctx = d;
        d->base.tenants = kv_tenants_count(&c->tenants);
    }
    ex_dpu_open_image(&d->base, &o);
}

static void dpu_open_offload(struct kv_dpu *d)
{
    struct snic_offload_opts o = {.opts_size = sizeof(o)};
    struct snic_offload_user user = kv_offload_user(&d->user);

    d->user.all = d->config->offload == KV_OFFLOAD_ALL;
    kv_offload_forget_memory(&d->user);
    if (d->config->offload == KV_OFFLOAD_OFF)
        return;
    o.key_size = 16;
    o.item_size = sizeof(struct kv_item);
    o.cache_capacity = d->config->cache_entries;
    o.cache_seed = d->config->hash_seed[0] ^ d->config->hash_seed[1];
    o.read_max = 128u << 10;
    o.pool_bytes = 32u << 20;
    if (d->qos != NULL) {
        o.tenants = kv_tenants_count(&d->config->tenants);
        o.contexts = 4096; /* half of them for one tenant: fewer than the file service's requests */
        o.pool_bytes = 64u << 20;
    }
    ex_dpu_open_offload(&d->base, &o, &user, "cache table (--cache-entries)");
}

/*
 * Memory for replies on their way, touched as far as it is needed: maxmemory-clients or what
 * CONFIG SET may make of it, half of the machine's.
 */
static uint64_t dpu_reply_bytes(const struct kv_config *c)
{
    uint64_t least = 2 * c->message_max + (64u << 20) + c->server.conns_max * 16384;
    struct resp_settings half = {.clients = -50};

    least = snic_max_u64(least, resp_settings_clients(&half));
    return snic_max_u64(least, resp_settings_clients(&c->settings));
}

static void dpu_open_director(struct kv_dpu *d)
{
    const struct kv_config *c = d->config;
    struct snic_director_opts o = {.opts_size = sizeof(o)};
    struct snic_director_user user = kv_director_user(&d->user);

    d->limit = c->settings.out[0];
    d->user.framing.query_max = c->settings.query;
    o.flags = SNIC_DIRECTOR_IN_ORDER;
    o.message_max = (uint32_t)c->message_max;
    o.pending_max = KV_PENDING_MAX;
    o.conn_bytes = dpu_conn_bytes(&d->limit);
    o.pool_bytes = d->reply_bytes = dpu_reply_bytes(c);
    ex_dpu_open_director(&d->base, &o, &user, "director (--connections, --message-max, --memory)");
    snic_director_set_total_bytes(d->base.director, resp_settings_clients(&c->settings));
}

struct ex_dpu *kv_dpu_open(const struct kv_config *c)
{
    struct kv_dpu *d = calloc(1, sizeof(*d));

    if (d == NULL)
        ex_die("out of memory for the DPU role");
    d->config = c;
    ex_dpu_open(&d->base, &c->server, &dpu_ops);
    d->user.loop = d->base.loop;
    d->user.tenants = &c->tenants;
    d->user.password = c->settings.password[0] != 0;
    memcpy(d->user.hash_seed, c->hash_seed, sizeof(d->user.hash_seed));
    d->user.framing.limits.bulk_max = KV_VALUE_MAX;
    d->user.framing.limits.message_max = (uint32_t)c->message_max;
    dpu_wall(d);
    dpu_open_image(d);
    dpu_open_offload(d);
    dpu_open_director(d);
    ex_dpu_start(&d->base);
    return &d->base;
}

int kv_dpu_run(struct ex_dpu *base)
{
    struct kv_dpu *d = dpu_of(base);
    int r;

    ex_signals(base->loop, ex_dpu_drain, base);
    r = ex_dpu_run(base);
    ex_memory_free(&d->qos_memory);
    free(d);
    return r;
}

int kv_run_dpu(const struct kv_config *c)
{
    struct ex_dpu *base = kv_dpu_open(c);

    ex_dpu_listen(base);
    return kv_dpu_run(base);
}
