/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * The DPU role. It runs until both clients and hosts are gone: after the drain it
 * serves files until the host has written out what it holds.
 */
#include "dpu.h"

#include "../image.h"
#include "qos.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define KV_LINKS 1
/* Less would take some writes, or none, and then refuse them for ever. */
#define KV_SEGMENTS_MIN 4u        /* one written, one sealed, two of compaction's reserve */
#define KV_META_BYTES (16u << 20) /* for the tables and the journal, which have 4 at this size */
#define KV_TICK_NS 500000000u
#define KV_TENANTS_TOLD 64        /* per tick */
#define KV_LINGER_NS 10000000000u /* for a host that does not go after the drain */
#define KV_SILENT_NS 5000000000u  /* a host that opens nothing for so long is none */
#define KV_FULL_MS 10000u         /* a client at the hard limit that takes nothing for so long */
#define KV_SHARE_MS 60000u        /* one that holds its share of what is left for replies */
#define KV_TRIM_KEEP (64u << 20)  /* free memory for replies that is kept */
#define KV_TRIM_MOST (1u << 30)   /* most that goes back to the system in a tick */
#define KV_REPORT_NS 1000000000u  /* between lines about clients */
#define KV_REFUSED_NS 1000000000u /* between lines about refused hosts */

/* One host. */
struct kv_link {
    struct kv_dpu *dpu;
    struct snic_dma *dma;
    struct snic_channel_hub *hub;
    struct snic_files_server *server;
    void *hub_memory;
    void *server_memory;
    uint64_t since_ns;
    int cut; /* seen without a peer, while none is certified dead */
    int dead;
};

struct kv_dpu {
    const struct kv_config *config;
    struct snic_loop *loop;
    struct snic_net *net;
    struct ex_image image;
    struct snic_io *qos; /* the image's io handle, if a switch stands in front of it */
    void *qos_memory;
    struct snic_offload *offload;
    struct snic_director *director;
    struct kv_offload user;
    struct snic_dma_listener *listener;
    struct kv_link links[KV_LINKS];
    struct snic_timer timer;
    struct ex_stats *stats;
    uint64_t messages_told;
    uint64_t hosts_told;
    struct snic_director_stats reported; /* as of the last lines in the log */
    uint64_t reported_ns;
    uint64_t reply_bytes;    /* most of replies that clients have not read yet */
    uint64_t query_reported; /* clients ended for client-query-buffer-limit, as of the last line */
    uint32_t tenant_told;    /* where the next dpu_control_tenants() resumes */
    uint64_t drained_ns;
    uint64_t refused_ns;
    struct kv_out_limit limit;
    int draining;
    int drained;
};

/* ---- Figures ---- */

static uint64_t dpu_cpu_ns(const struct kv_dpu *d)
{
    return d->config->role == KV_ROLE_SINGLE ? ex_cpu_thread_ns() : ex_cpu_process_ns();
}

/* Send to the hosts; without room a message is dropped: the next one has newer figures. */
static void dpu_tell(struct kv_dpu *d, const void *msg, uint32_t size)
{
    for (int i = 0; i < KV_LINKS; i++)
        if (d->links[i].dma != NULL && !d->links[i].dead)
            (void)snic_dma_send(d->links[i].dma, msg, size);
}

/* The switch, and some of the tenants in turn: a message each. */
static void dpu_control_tenants(struct kv_dpu *d)
{
    struct kv_control_device device;
    struct kv_control_tenant t;

    kv_qos_device(d->qos, &device);
    dpu_tell(d, &device, sizeof(device));
    for (int n = 0; n < KV_TENANTS_TOLD; n++) {
        if (kv_qos_tenant(d->qos, &d->tenant_told, &t) != 0) {
            d->tenant_told = 0;
            return;
        }
        dpu_tell(d, &t, sizeof(t));
    }
}

static void dpu_control(struct kv_dpu *d, enum kv_control_kind kind)
{
    struct snic_director_stats ds;
    struct snic_offload_stats os;
    struct snic_files_stats fs;
    struct kv_control m;

    memset(&os, 0, sizeof(os));
    snic_director_get_stats(d->director, &ds);
    if (d->offload != NULL)
        snic_offload_get_stats(d->offload, &os);
    snic_files_get_stats(d->image.files, &fs);
    m = (struct kv_control){
        .magic = KV_CONTROL_MAGIC,
        .kind = kind,
        .pid = (uint64_t)getpid(),
        .cpu_ns = dpu_cpu_ns(d),
        .messages = ds.messages,
        .offloaded = ds.offloaded,
        .to_host = ds.to_host,
        .cache_items = os.items,
        .cache_tombstones = os.tombstones,
        .cache_floor = os.floor,
        .records_up = ds.records_up,
        .records_down = ds.records_down,
        .invalidations = ds.invalidations,
        .read_errors = os.read_errors,
        .offload_to_host = ds.offload_to_host,
        .segments_free = fs.segments_free,
        .file_reads = fs.reads,
        .file_writes = fs.writes,
        .cache_evicted = os.evicted,
        .stalls = ds.stalls,
        .hog_resets = ds.hog_resets,
        .refused = ds.refused,
        .idle_closed = ds.idle_closed,
        .offload_busy = os.refused_busy,
        .pool_free = os.pool_free,
        .full_resets = ds.full_resets,
        .share_resets = ds.share_resets,
        .total_resets = ds.total_resets,
        .query_resets = d->user.query_limit,
    };
    d->messages_told = ds.messages;
    dpu_tell(d, &m, sizeof(m));
    if (d->qos != NULL && kind == KV_CONTROL_STATS)
        dpu_control_tenants(d);
}

static size_t dpu_metrics(void *ctx, struct ex_metric *out)
{
    struct kv_dpu *d = ctx;
    struct snic_director_stats ds;
    struct snic_offload_stats os;
    struct snic_files_stats fs;

    memset(&os, 0, sizeof(os));
    snic_director_get_stats(d->director, &ds);
    if (d->offload != NULL)
        snic_offload_get_stats(d->offload, &os);
    snic_files_get_stats(d->image.files, &fs);
    const struct ex_metric all[] = {
        {"messages", ds.messages, 1},
        {"offloaded", ds.offloaded, 1},
        {"to_host", ds.to_host, 1},
        {"offload_to_host", ds.offload_to_host, 1},
        {"barriers", ds.barriers, 1},
        {"barrier_blocked", ds.barrier_blocked, 1},
        {"host_gone", ds.host_gone, 1},
        {"connections", ds.conns, 0},
        {"protocol_errors", ds.protocol_errors, 1},
        {"pauses", ds.pauses, 1},
        {"stalls", ds.stalls, 1},
        {"hog_resets", ds.hog_resets, 1},
        {"output_limit_resets", ds.full_resets, 1},
        {"clients_memory_resets", ds.total_resets, 1},
        {"clients_share_resets", ds.share_resets, 1},
        {"query_limit_resets", d->user.query_limit, 1},
        {"connections_refused", ds.refused, 1},
        {"connections_idle_closed", ds.idle_closed, 1},
        {"reply_blocks_free", ds.blocks_free, 0},
        {"offload_copied_out", ds.copied_out, 1},
        {"offload_pool_free", os.pool_free, 0},
        {"received_bytes", ds.recv_bytes, 1},
        {"sent_bytes", ds.sent_bytes, 1},
        {"ring_records_up", ds.records_up, 1},
        {"ring_records_down", ds.records_down, 1},
        {"invalidations", ds.invalidations, 1},
        {"cache_items", os.items, 0},
        {"cache_tombstones", os.tombstones, 0},
        {"cache_floor", os.floor, 0},
        {"cache_puts", os.puts, 1},
        {"cache_puts_refused", os.puts_refused, 1},
        {"cache_evicted", os.evicted, 1},
        {"offload_read_errors", os.read_errors, 1},
        {"offload_busy", os.refused_busy, 1},
        {"file_reads", fs.reads, 1},
        {"file_writes", fs.writes, 1},
        {"file_flushes", fs.flushes, 1},
        {"file_bounced", fs.bounced, 1},
        {"file_segments_free", fs.segments_free, 0},
        {"cpu_ns", dpu_cpu_ns(d), 1},
    };

    memcpy(out, all, sizeof(all));
    if (d->qos == NULL)
        return SNIC_COUNTOF(all);
    return SNIC_COUNTOF(all) + kv_qos_metrics(d->config, d->qos, out + SNIC_COUNTOF(all),
                                              EX_METRICS_MAX - SNIC_COUNTOF(all));
}

static void dpu_wall(struct kv_dpu *d)
{
    struct timespec t;

    clock_gettime(CLOCK_REALTIME, &t);
    d->user.wall_offset_ms = (uint64_t)t.tv_sec * 1000 + (uint64_t)t.tv_nsec / 1000000 -
                             snic_loop_now(d->loop) / 1000000u;
}

/*
 * A link that is cut, or that no host has used since it was made, is closed although its process
 * lives: that has no memory of ours, and another host may be waiting. A cut link is closed only
 * after two checks, since a death that is being certified looks the same.
 */
static void dpu_look(struct kv_dpu *d)
{
    for (int i = 0; i < KV_LINKS; i++) {
        struct kv_link *l = &d->links[i];
        struct snic_dma_batch *none[1] = {NULL};

        if (l->dma == NULL || l->dead)
            continue;
        if (snic_dma_submit(l->dma, none, 0) == SNIC_EPEERDEAD) {
            l->dead = l->cut;
            l->cut = 1;
        } else if (l->server == NULL && d->config->role != KV_ROLE_SINGLE &&
                   snic_loop_now(d->loop) - l->since_ns >= KV_SILENT_NS) {
            l->dead = 1;
        }
        if (l->dead)
            ex_log(EX_WARNING, "closing the link to the host role: %s",
                   l->cut ? "it was cut" : "it did not attach in time");
    }
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
    if (d->user.query_limit > d->query_reported)
        ex_log(EX_WARNING,
               "%" PRIu64 " clients were closed: their unfinished command is longer than "
               "client-query-buffer-limit",
               d->user.query_limit - d->query_reported);
    d->query_reported = d->user.query_limit;
    if (s->refused > d->reported.refused)
        ex_log(EX_WARNING,
               "%" PRIu64 " clients were refused: all %" PRIu64
               " connections were in use; raise --connections, or close idle ones with --timeout",
               s->refused - d->reported.refused, d->config->conns_max);
    d->reported = *s;
    d->reported_ns = now;
}

/*
 * client-output-buffer-limit: a client is not read from while it holds the hard limit, and is reset
 * when it takes nothing then, or nothing for the soft time above the soft limit. 0 means no limit
 * but the director's.
 */
static uint32_t dpu_conn_bytes(const struct kv_out_limit *l)
{
    uint64_t most = 1u << 30;

    if (l->hard != 0)
        most = snic_min_u64(most, l->hard);
    return (uint32_t)snic_max_u64(most, 64u << 10);
}

static void dpu_tick(struct snic_timer *t, uint64_t now)
{
    struct kv_dpu *d = SNIC_CONTAINER(t, struct kv_dpu, timer);
    struct snic_director_stats ds;

    dpu_wall(d);
    dpu_look(d);
    (void)snic_director_reset_full(d->director, dpu_conn_bytes(&d->limit), KV_FULL_MS);
    (void)snic_director_reset_full(d->director, 0, KV_SHARE_MS);
    if (d->limit.soft != 0)
        (void)snic_director_reset_full(d->director, d->limit.soft, d->limit.soft_s * 1000);
    (void)snic_director_trim(d->director, KV_TRIM_KEEP, KV_TRIM_MOST, ex_memory_release, NULL);
    snic_director_get_stats(d->director, &ds);
    dpu_report(d, &ds, now);
    if (ds.hosts != d->hosts_told && ds.message_max < d->config->message_max)
        ex_log(EX_WARNING,
               "the host takes messages up to %" PRIu64 " bytes, this role up to %" PRIu64
               " (--message-max): the smaller counts",
               ds.message_max, d->config->message_max);
    d->hosts_told = ds.hosts;
    d->user.limits.message_max = (uint32_t)ds.message_max;
    if (ds.messages != d->messages_told) /* an idle host is not woken */
        dpu_control(d, KV_CONTROL_STATS);
    if (d->drained)
        dpu_control(d, KV_CONTROL_DRAINED);
    snic_loop_arm(d->loop, t, now + KV_TICK_NS);
}

/* ---- Hosts ---- */

static void dpu_server_gone(void *ctx, struct snic_files_server *s, int reason)
{
    struct kv_link *l = ctx;

    (void)s;
    if (reason != 0 && reason != SNIC_EPEERDEAD)
        ex_log(EX_WARNING, "the file channel of the host role ended: %s", snic_strerror(reason));
    l->dead = 1;
}

static void dpu_hub_death(void *ctx, struct snic_channel_hub *h, enum snic_dma_death cause)
{
    struct snic_director_mismatch m;
    struct kv_link *l = ctx;

    (void)h;
    if (snic_director_get_mismatch(l->dpu->director, &m))
        ex_log(EX_ERROR,
               "the host role was refused: its %s is %u, the DPU role's %u: start both from "
               "the same version",
               m.option, m.host, m.director);
    ex_log(l->dpu->draining ? EX_INFO : EX_WARNING, "the host role is gone (%s)",
           cause == SNIC_DMA_DEATH_EXIT ? "its process ended" : "it closed the link");
    l->dead = 1;
}

static int dpu_offer(void *ctx, struct snic_channel_hub *h, const struct snic_channel_offer *offer)
{
    struct kv_link *l = ctx;
    struct snic_files_server_opts o = {.opts_size = sizeof(o)};
    size_t size;
    int r;

    if (offer->kind == SNIC_DIRECTOR_CHANNEL_KIND)
        return snic_director_upstream_channel(l->dpu->director, h, offer);
    if (offer->kind != SNIC_FILES_CHANNEL_KIND || l->server != NULL)
        return SNIC_ECONNREFUSED;
    o.depth = 1024;
    o.channel_flags = SNIC_CHANNEL_REGIONS;
    if (l->dpu->qos != NULL)
        o.tenants = kv_tenants_count(&l->dpu->config->tenants);
    o.gone = dpu_server_gone;
    o.ctx = l;
    size = snic_files_server_memsize(&o);
    if (size == 0 || posix_memalign(&l->server_memory, SNIC_CACHELINE, size) != 0)
        return SNIC_ENOMEM;
    r = snic_files_serve(&l->server, l->server_memory, size, l->dpu->image.files, h, offer, &o);
    if (r != 0) { /* it may offer again, any number of times */
        free(l->server_memory);
        l->server_memory = NULL;
    }
    return r;
}

/* CONFIG SET */
static void dpu_settings(struct kv_dpu *d, const struct kv_control *m)
{
    d->user.password = m->messages != 0;
    d->limit = (struct kv_out_limit){m->cpu_ns, m->offloaded, m->to_host};
    d->user.query_max = m->records_down;
    snic_director_set_total_bytes(d->director, m->records_up);
    if (snic_director_set_conn_bytes(d->director, dpu_conn_bytes(&d->limit)) != 0)
        ex_log(EX_WARNING, "cannot change client-output-buffer-limit: the value is out of range");
}

static void dpu_recv(void *ctx, struct snic_channel_hub *h, const void *msg, uint32_t size)
{
    struct kv_link *l = ctx;
    struct kv_control m;

    (void)h;
    if (size != sizeof(m))
        return;
    memcpy(&m, msg, sizeof(m));
    if (m.magic != KV_CONTROL_MAGIC)
        return;
    if (m.kind == KV_CONTROL_SHUTDOWN)
        kv_dpu_drain(l->dpu);
    else if (m.kind == KV_CONTROL_SETTINGS)
        dpu_settings(l->dpu, &m);
    else if (m.kind == KV_CONTROL_KILL) /* one that has gone is no error */
        (void)snic_director_conn_reset(l->dpu->director, m.messages);
    else if (m.kind == KV_CONTROL_KEEP)
        (void)snic_director_conn_keep(l->dpu->director, m.messages, m.offloaded != 0);
}

static int dpu_hosts(const struct kv_dpu *d)
{
    int n = 0;

    for (int i = 0; i < KV_LINKS; i++)
        n += d->links[i].dma != NULL;
    return n;
}

int kv_dpu_link(struct kv_dpu *d, struct snic_dma *dma)
{
    struct snic_channel_hub_opts o = {.opts_size = sizeof(o)};
    struct kv_link *l = NULL;
    size_t size;
    int r;

    /*
     * One host at a time: a new one reads the log only when everything that the one
     * before had under way has ended. Otherwise a write of the dead could reach the
     * log, and the cache, after the new host has looked.
     */
    if (dpu_hosts(d) > 0)
        return SNIC_EBUSY;
    l = &d->links[0];
    o.channels_max = 4;
    o.accept = dpu_offer;
    o.recv = dpu_recv;
    o.death = dpu_hub_death;
    o.ctx = l;
    size = snic_channel_hub_memsize(&o);
    memset(l, 0, sizeof(*l));
    l->dpu = d;
    if (posix_memalign(&l->hub_memory, SNIC_CACHELINE, size) != 0)
        return SNIC_ENOMEM;
    r = snic_channel_hub_init(&l->hub, l->hub_memory, size, dma, &o);
    if (r != 0) {
        free(l->hub_memory);
        return r;
    }
    l->dma = dma;
    l->since_ns = snic_loop_now(d->loop);
    return 0;
}

static void dpu_accept(void *ctx, struct snic_dma *dma, uint32_t pid)
{
    struct kv_dpu *d = ctx;
    uint64_t now = snic_loop_now(d->loop);
    int r = kv_dpu_link(d, dma);

    if (r != 0) {
        if (d->refused_ns == 0 || now - d->refused_ns >= KV_REFUSED_NS) {
            ex_log(EX_WARNING, "host process %u is refused: %s", pid, snic_strerror(r));
            d->refused_ns = now;
        }
        snic_dma_close(dma);
        dpu_look(d); /* it will try again */
        return;
    }
    ex_log(EX_INFO, "host process %u attached", pid);
}

/* Give back what a dead host used. At the top level only: closing runs the loop. */
static void dpu_reap(struct kv_dpu *d)
{
    for (int i = 0; i < KV_LINKS; i++) {
        struct kv_link *l = &d->links[i];

        if (l->dma == NULL || !l->dead)
            continue;
        if (l->server != NULL)
            snic_files_server_close(l->server);
        if (snic_channel_hub_count(l->hub) > 0)
            snic_director_upstream_close(d->director);
        snic_channel_hub_fini(l->hub);
        kv_offload_forget_memory(&d->user); /* its memory is gone, its log is there */
        free(l->server_memory);
        free(l->hub_memory);
        memset(l, 0, sizeof(*l));
    }
}

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
    struct ex_image_opts o = {.path = c->file, .size = c->size, .buffered = c->buffered};
    char why[96];

    (void)snprintf(why, sizeof(why), "%u segments of %" PRIu64 " MiB (--segment) and tables",
                   KV_SEGMENTS_MIN, c->segment >> 20);
    o.size_given = c->size_given;
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
    }
    ex_image_open(&d->image, d->loop, &o);
}

static void dpu_open_offload(struct kv_dpu *d)
{
    struct snic_offload_opts o = {.opts_size = sizeof(o)};
    struct snic_offload_user user = kv_offload_user(&d->user);
    struct snic_files_hooks hooks;
    size_t size;
    int r;

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
    o.read_align = d->image.io->geometry.offset_align;
    if (d->qos != NULL) {
        o.tenants = kv_tenants_count(&d->config->tenants);
        o.contexts = 4096; /* half of them for one tenant: fewer than the file service's requests */
        o.pool_bytes = 64u << 20;
    }
    size = snic_offload_memsize(&o);
    if (size == 0)
        ex_die("cannot set up the offload engine: %s", snic_offload_opts_wrong(&o));
    r = snic_offload_init(&d->offload, ex_memory(size, "cache table (--cache-entries)"), size,
                          d->loop, d->image.files, &user, &o);
    if (r != 0)
        ex_die("cannot set up the offload engine: %s", snic_strerror(r));
    hooks = snic_offload_hooks(d->offload);
    snic_files_set_hooks(d->image.files, &hooks);
}

/*
 * Memory for replies on their way, touched as far as it is needed: maxmemory-clients or what
 * CONFIG SET may make of it, half of the machine's.
 */
static uint64_t dpu_reply_bytes(const struct kv_config *c)
{
    uint64_t least = 2 * c->message_max + (64u << 20) + c->conns_max * 16384;
    struct kv_settings half = {.clients = -50};

    least = snic_max_u64(least, kv_settings_clients(&half));
    return snic_max_u64(least, kv_settings_clients(&c->settings));
}

static void dpu_open_director(struct kv_dpu *d)
{
    const struct kv_config *c = d->config;
    struct snic_net_uring_opts net = {
        .opts_size = sizeof(net), .taken_wait_ms = EX_TAKEN_WAIT_MS, .sent_ms = UINT32_MAX};
    struct snic_director_opts o = {.opts_size = sizeof(o)};
    struct snic_director_user user = kv_director_user(&d->user);
    struct snic_net_addr a;
    char text[128];
    size_t size;
    int r;

    net.conns_max = (uint32_t)c->conns_max + 16;
    r = snic_net_uring_open(&d->net, d->loop, &net);
    if (r != 0)
        ex_die("cannot open the network: %s", snic_strerror(r));
    d->limit = c->settings.out[0];
    d->user.query_max = c->settings.query;
    o.flags = SNIC_DIRECTOR_IN_ORDER;
    o.conns_max = (uint32_t)c->conns_max;
    o.message_max = (uint32_t)c->message_max;
    o.pending_max = KV_PENDING_MAX;
    o.conn_bytes = dpu_conn_bytes(&d->limit);
    o.idle_ms = (uint32_t)c->timeout_s * 1000;
    o.pool_bytes = d->reply_bytes = dpu_reply_bytes(c);
    size = snic_director_memsize(&o);
    if (size == 0)
        ex_die("cannot set up the director: %s", snic_director_opts_wrong(&o));
    r = snic_director_init(&d->director,
                           ex_memory(size, "director (--connections, --message-max, --memory)"),
                           size, d->net, d->offload, &user, &o);
    if (r != 0)
        ex_die("cannot set up the director: %s", snic_strerror(r));
    snic_director_set_total_bytes(d->director, kv_settings_clients(&c->settings));
    ex_address("listen", c->listen, &a);
    r = snic_director_listen(d->director, &a, 0, &a);
    if (r != 0)
        ex_die("cannot listen on %s (--listen): %s", c->listen, ex_listen_error(c->listen, r));
    snic_net_addr_format(&a, text, sizeof(text));
    ex_log(EX_INFO, "serving %s from image '%s', offload %s", text, c->file,
           d->offload != NULL ? "on" : "off");
}

struct kv_dpu *kv_dpu_open(const struct kv_config *c)
{
    struct kv_dpu *d = calloc(1, sizeof(*d));

    if (d == NULL)
        ex_die("out of memory for the DPU role");
    d->config = c;
    d->loop = ex_loop_open((uint32_t)c->spin_us);
    d->user.loop = d->loop;
    d->user.tenants = &c->tenants;
    d->user.password = c->settings.password[0] != 0;
    memcpy(d->user.hash_seed, c->hash_seed, sizeof(d->user.hash_seed));
    d->user.limits.bulk_max = KV_VALUE_MAX;
    d->user.limits.message_max = (uint32_t)c->message_max;
    dpu_wall(d);
    dpu_open_image(d);
    dpu_open_offload(d);
    dpu_open_director(d);
    if (ex_stats_start(&d->stats, d->loop, d->net, "kv_dpu", c->stats, c->metrics, dpu_metrics,
                       d) != 0)
        exit(1);
    snic_timer_init(&d->timer, dpu_tick);
    snic_loop_arm(d->loop, &d->timer, snic_loop_now(d->loop) + KV_TICK_NS);
    return d;
}

struct snic_loop *kv_dpu_loop(struct kv_dpu *d)
{
    return d->loop;
}

/* Listen for hosts on config->socket. */
static void dpu_listen(struct kv_dpu *d)
{
    struct snic_dma_shm_opts o = {.opts_size = sizeof(o)};
    int r;

    o.path = d->config->socket;
    r = snic_dma_shm_listen(&d->listener, d->loop, &o, dpu_accept, d);
    if (r != 0)
        ex_die("cannot listen for the host role on socket '%s' (--socket): %s", o.path,
               ex_listen_error(o.path, r));
}

/* ---- Run ---- */

static void dpu_drained(void *ctx)
{
    struct kv_dpu *d = ctx;

    d->drained = 1;
    d->drained_ns = snic_loop_now(d->loop);
    dpu_control(d, KV_CONTROL_DRAINED);
}

void kv_dpu_drain(void *dpu)
{
    struct kv_dpu *d = dpu;

    if (d->draining)
        return;
    d->draining = 1;
    ex_log(EX_INFO, "draining");
    if (d->qos != NULL)
        kv_qos_uncap(d->qos);
    snic_director_drain(d->director, dpu_drained, d);
}

static int dpu_over(const struct kv_dpu *d)
{
    if (!d->drained)
        return 0;
    return dpu_hosts(d) == 0 || snic_loop_now(d->loop) - d->drained_ns > KV_LINGER_NS;
}

int kv_dpu_run(struct kv_dpu *d)
{
    void *director;
    void *offload;
    int r = 0;

    while (r >= 0 && !dpu_over(d)) {
        r = snic_loop_once(d->loop, SNIC_NEVER);
        dpu_reap(d);
    }
    if (r < 0)
        ex_log(EX_ERROR, "waiting for events failed: %s", snic_strerror(r));
    ex_signals_off();
    ex_stats_stop(d->stats);
    if (d->listener != NULL)
        snic_dma_shm_unlisten(d->listener);
    for (int i = 0; i < KV_LINKS; i++)
        d->links[i].dead = d->links[i].dma != NULL;
    dpu_reap(d);
    snic_loop_cancel(d->loop, &d->timer);
    director = snic_director_fini(d->director);
    snic_net_shut(d->net);
    offload = d->offload != NULL ? snic_offload_fini(d->offload) : NULL;
    r = ex_image_close(&d->image);
    if (r != 0)
        ex_log(EX_ERROR, "cannot unmount image '%s': %s", d->config->file, snic_strerror(r));
    snic_loop_close(d->loop);
    free(director);
    free(offload);
    free(d->qos_memory);
    free(d);
    return r != 0;
}

int kv_run_dpu(const struct kv_config *c)
{
    struct kv_dpu *d = kv_dpu_open(c);

    dpu_listen(d);
    ex_signals(d->loop, kv_dpu_drain, d);
    return kv_dpu_run(d);
}
