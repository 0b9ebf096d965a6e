/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * The DPU role: sockets, director, offload engine with its cache, file service. One host at a
 * time: a new one reads the log when all that the one before had under way has ended.
 */
#include "roles.h"

#include "../image.h"
#include "offload_user.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define DPU_TICK_NS 100000000u
#define DPU_REPORT_NS 1000000000u /* between lines about clients */

struct ps_dpu {
    const struct ps_config *config;
    struct snic_loop *loop;
    struct snic_net *net;
    struct ex_image image;
    struct snic_offload *offload;
    struct snic_director *director;
    struct ps_offload user;
    struct snic_dma_listener *listener;
    struct snic_timer timer;
    struct ex_stats *stats;
    /* the host */
    struct snic_dma *dma;
    struct snic_channel_hub *hub;
    struct snic_files_server *server;
    void *hub_memory;
    void *server_memory;
    uint64_t refused;    /* clients beyond --connections, as last reported */
    uint64_t refused_ns; /* when                                    */
    int dead;
    int cut;
    int draining;
    int drained;
};

/* ---- Figures ---- */

static size_t dpu_metrics(void *ctx, struct ex_metric *out)
{
    struct ps_dpu *d = ctx;
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
        {"host_gone", ds.host_gone, 1},
        {"connections", ds.conns, 0},
        {"connections_refused", ds.refused, 1},
        {"connections_idle_closed", ds.idle_closed, 1},
        {"protocol_errors", ds.protocol_errors, 1},
        {"invalidations", ds.invalidations, 1},
        {"cache_items", os.items, 0},
        {"cache_tombstones", os.tombstones, 0},
        {"cache_puts", os.puts, 1},
        {"cache_puts_refused", os.puts_refused, 1},
        {"offload_read_errors", os.read_errors, 1},
        {"offload_busy", os.refused_busy, 1},
        {"file_reads", fs.reads, 1},
        {"file_writes", fs.writes, 1},
        {"file_flushes", fs.flushes, 1},
        {"file_bounced", fs.bounced, 1},
        {"cpu_ns", ex_cpu_process_ns(), 1},
    };

    memcpy(out, all, sizeof(all));
    return SNIC_COUNTOF(all);
}

/* What the predicate answers to STAT: it makes no system calls itself. */
static void dpu_stat(struct ps_dpu *d)
{
    struct snic_director_stats ds;
    struct snic_offload_stats os;
    int n;

    memset(&os, 0, sizeof(os));
    snic_director_get_stats(d->director, &ds);
    if (d->offload != NULL)
        snic_offload_get_stats(d->offload, &os);
    n = snprintf(d->user.stat, sizeof(d->user.stat),
                 "role=dpu\npid=%d\ncpu_us=%" PRIu64 "\nmessages=%" PRIu64 "\noffloaded=%" PRIu64
                 "\nto_host=%" PRIu64 "\noffload_to_host=%" PRIu64 "\ncache_items=%" PRIu64 "\n",
                 (int)getpid(), ex_cpu_process_ns() / 1000, ds.messages, ds.offloaded, ds.to_host,
                 ds.offload_to_host, os.items);
    d->user.stat_size = n > 0 && (size_t)n < sizeof(d->user.stat) ? (uint32_t)n : 0;
}

/*
 * A link that is cut is closed although its process lives, once two checks have found it cut: a
 * death that is being certified looks the same.
 */
static void dpu_look(struct ps_dpu *d)
{
    struct snic_dma_batch *none[1] = {NULL};

    if (d->dma == NULL || d->dead || snic_dma_submit(d->dma, none, 0) != SNIC_EPEERDEAD)
        return;
    d->dead = d->cut;
    d->cut = 1;
}

static void dpu_report(struct ps_dpu *d, uint64_t now)
{
    struct snic_director_stats s;

    snic_director_get_stats(d->director, &s);
    if (s.refused == d->refused || now - d->refused_ns < DPU_REPORT_NS)
        return;
    ex_log(EX_WARNING,
           "%" PRIu64 " clients were refused: all %" PRIu64
           " connections were in use; raise --connections, or close idle ones with --timeout",
           s.refused - d->refused, d->config->conns_max);
    d->refused = s.refused;
    d->refused_ns = now;
}

static void dpu_tick(struct snic_timer *t, uint64_t now)
{
    struct ps_dpu *d = SNIC_CONTAINER(t, struct ps_dpu, timer);

    dpu_stat(d);
    dpu_look(d);
    dpu_report(d, now);
    snic_loop_arm(d->loop, t, now + DPU_TICK_NS);
}

/* ---- The host ---- */

static void dpu_server_gone(void *ctx, struct snic_files_server *s, int reason)
{
    struct ps_dpu *d = ctx;

    (void)s;
    (void)reason;
    d->dead = 1;
}

static void dpu_hub_death(void *ctx, struct snic_channel_hub *h, enum snic_dma_death cause)
{
    struct snic_director_mismatch m;
    struct ps_dpu *d = ctx;

    (void)h;
    if (snic_director_get_mismatch(d->director, &m))
        ex_log(EX_ERROR,
               "the host role was refused: its %s is %u, the DPU role's %u: start both from "
               "the same version",
               m.option, m.host, m.director);
    ex_log(d->draining ? EX_INFO : EX_WARNING, "the host role is gone (%s)",
           cause == SNIC_DMA_DEATH_EXIT ? "its process ended" : "it closed the link");
    d->dead = 1;
}

static int dpu_offer(void *ctx, struct snic_channel_hub *h, const struct snic_channel_offer *offer)
{
    struct ps_dpu *d = ctx;
    struct snic_files_server_opts o = {.opts_size = sizeof(o)};
    size_t size;
    int r;

    if (offer->kind == SNIC_DIRECTOR_CHANNEL_KIND)
        return snic_director_upstream_channel(d->director, h, offer);
    if (offer->kind != SNIC_FILES_CHANNEL_KIND || d->server != NULL)
        return SNIC_ECONNREFUSED;
    o.depth = 1024;
    o.channel_flags = SNIC_CHANNEL_REGIONS;
    o.gone = dpu_server_gone;
    o.ctx = d;
    size = snic_files_server_memsize(&o);
    if (size == 0 || posix_memalign(&d->server_memory, SNIC_CACHELINE, size) != 0)
        return SNIC_ENOMEM;
    r = snic_files_serve(&d->server, d->server_memory, size, d->image.files, h, offer, &o);
    if (r != 0) { /* it may offer again, any number of times */
        free(d->server_memory);
        d->server_memory = NULL;
    }
    return r;
}

static void dpu_accept(void *ctx, struct snic_dma *dma, uint32_t pid)
{
    struct ps_dpu *d = ctx;
    struct snic_channel_hub_opts o = {.opts_size = sizeof(o)};
    size_t size;
    int r = SNIC_EBUSY;

    o.channels_max = 4;
    o.accept = dpu_offer;
    o.death = dpu_hub_death;
    o.ctx = d;
    size = snic_channel_hub_memsize(&o);
    if (d->dma == NULL) {
        d->hub_memory = ex_memory(size, "channel hub");
        r = snic_channel_hub_init(&d->hub, d->hub_memory, size, dma, &o);
        if (r != 0)
            free(d->hub_memory);
    }
    if (r != 0) {
        snic_dma_close(dma);
        dpu_look(d); /* it will try again */
        return;
    }
    d->dma = dma;
    d->dead = d->cut = 0;
    ex_log(EX_INFO, "host process %u attached", pid);
}

/* Give back what a dead host used. At the top level only: closing runs the loop. */
static void dpu_reap(struct ps_dpu *d)
{
    if (d->dma == NULL || !d->dead)
        return;
    if (d->server != NULL)
        snic_files_server_close(d->server);
    if (snic_channel_hub_count(d->hub) > 0)
        snic_director_upstream_close(d->director);
    snic_channel_hub_fini(d->hub);
    free(d->server_memory);
    free(d->hub_memory);
    d->server = NULL;
    d->server_memory = d->hub_memory = NULL;
    d->hub = NULL;
    d->dma = NULL;
    d->dead = 0;
}

/* ---- Open ---- */

static void dpu_open_image(struct ps_dpu *d)
{
    struct ex_image_opts o = {.path = d->config->file, .buffered = d->config->buffered};
    uint64_t sizes[STORE_FILES];

    engine_sizes(&d->config->limits, d->config->log_bytes, sizes);
    o.least = sizes[STORE_PAGES] + sizes[STORE_LOG] + (32u << 20);
    o.size = d->config->size != 0 ? d->config->size : o.least;
    o.size_given = d->config->size != 0;
    o.why = "two copies of the pages, and the log";
    o.mount.opts_size = sizeof(o.mount);
    o.mount.depth = 1024;
    ex_image_open(&d->image, d->loop, &o);
}

static void dpu_open_offload(struct ps_dpu *d)
{
    struct snic_offload_opts o = {.opts_size = sizeof(o)};
    struct snic_offload_user user = ps_offload_user(&d->user);
    struct snic_files_hooks hooks;
    size_t size;
    int r;

    o.key_size = 8;
    o.item_size = sizeof(struct page_item);
    o.cache_capacity = snic_min_u64(d->config->limits.pages * 5 / 4 + 1024, PS_CACHE_MAX);
    o.read_max = d->config->limits.page_bytes;
    o.contexts = 4096; /* floods of many clients do not take all of them */
    o.pool_bytes = 64u << 20;
    o.read_align = d->image.io->geometry.offset_align;
    size = snic_offload_memsize(&o);
    if (size == 0)
        ex_die("cannot set up the offload engine: %s", snic_offload_opts_wrong(&o));
    r = snic_offload_init(&d->offload, ex_memory(size, "cache table (--pages)"), size, d->loop,
                          d->image.files, &user, &o);
    if (r != 0)
        ex_die("cannot set up the offload engine: %s", snic_strerror(r));
    hooks = snic_offload_hooks(d->offload);
    snic_files_set_hooks(d->image.files, &hooks);
}

static void dpu_open_director(struct ps_dpu *d)
{
    const struct ps_config *c = d->config;
    struct snic_net_uring_opts net = {
        .opts_size = sizeof(net), .taken_wait_ms = EX_TAKEN_WAIT_MS, .sent_ms = UINT32_MAX};
    struct snic_director_opts o = {.opts_size = sizeof(o)};
    struct snic_director_user user = ps_director_user(&d->user);
    struct snic_net_addr a;
    char text[128];
    size_t size;
    int r;

    net.conns_max = (uint32_t)c->conns_max + 16;
    r = snic_net_uring_open(&d->net, d->loop, &net);
    if (r != 0)
        ex_die("cannot open the network: %s", snic_strerror(r));
    o.conns_max = (uint32_t)c->conns_max;
    o.idle_ms = (uint32_t)c->timeout_s * 1000;
    o.message_max = PS_MESSAGE_MAX;
    o.pending_max = PS_PENDING_MAX;
    o.conn_bytes = PS_CONN_BYTES;
    size = snic_director_memsize(&o);
    if (size == 0)
        ex_die("cannot set up the director: %s", snic_director_opts_wrong(&o));
    r = snic_director_init(&d->director, ex_memory(size, "director (--connections)"), size, d->net,
                           d->offload, &user, &o);
    if (r != 0)
        ex_die("cannot set up the director: %s", snic_strerror(r));
    ex_address("listen", c->listen, &a);
    r = snic_director_listen(d->director, &a, 0, &a);
    if (r != 0)
        ex_die("cannot listen on %s (--listen): %s", c->listen, ex_listen_error(c->listen, r));
    snic_net_addr_format(&a, text, sizeof(text));
    ex_log(EX_INFO, "serving %s from image '%s', offload %s", text, c->file,
           d->offload != NULL ? "on" : "off");
}

static void dpu_listen(struct ps_dpu *d)
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
    struct ps_dpu *d = ctx;

    d->drained = 1;
}

static void dpu_drain(void *ctx)
{
    struct ps_dpu *d = ctx;

    if (d->draining)
        return;
    d->draining = 1;
    ex_log(EX_INFO, "draining");
    snic_director_drain(d->director, dpu_drained, d);
}

static int dpu_close(struct ps_dpu *d)
{
    void *director;
    void *offload;
    int r;

    ex_signals_off();
    ex_stats_stop(d->stats);
    snic_dma_shm_unlisten(d->listener);
    d->dead = d->dma != NULL;
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
    return r != 0;
}

int ps_run_dpu(const struct ps_config *c)
{
    static struct ps_dpu dpu;
    struct ps_dpu *d = &dpu;
    int r = 0;

    d->config = c;
    d->user.limits = c->limits;
    d->loop = ex_loop_open(0);
    dpu_open_image(d);
    if (c->offload)
        dpu_open_offload(d);
    dpu_open_director(d);
    dpu_listen(d);
    if (ex_stats_start(&d->stats, d->loop, d->net, "page_dpu", c->stats, c->metrics, dpu_metrics,
                       d) != 0)
        return 1;
    snic_timer_init(&d->timer, dpu_tick);
    dpu_tick(&d->timer, snic_loop_now(d->loop));
    ex_signals(d->loop, dpu_drain, d);
    while (r >= 0 && !d->drained) { /* the host needs nothing more: what it had to keep is kept */
        r = snic_loop_once(d->loop, SNIC_NEVER);
        dpu_reap(d);
    }
    if (r < 0)
        ex_log(EX_ERROR, "waiting for events failed: %s", snic_strerror(r));
    return dpu_close(d);
}
