/* SPDX-License-Identifier: Apache-2.0 OR MIT */
#include "dpu.h"

#include "memory.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define EX_DPU_SILENT_NS 5000000000u /* a host that opens nothing for so long is none */
#define EX_DPU_REPORT_NS 1000000000u /* between lines of a kind */

/* ---- Figures ---- */

void ex_dpu_figures(const struct ex_dpu *d, struct ex_dpu_figures *out)
{
    memset(out, 0, sizeof(*out));
    snic_director_get_stats(d->director, &out->director);
    if (d->offload != NULL)
        snic_offload_get_stats(d->offload, &out->offload);
    snic_files_get_stats(d->image.files, &out->files);
}

static size_t ex_dpu_metrics(void *ctx, struct ex_metric *out)
{
    struct ex_dpu *d = ctx;
    struct ex_dpu_figures f;

    ex_dpu_figures(d, &f);
    const struct ex_metric all[EX_DPU_METRICS] = {
        {"messages", f.director.messages, 1},
        {"offloaded", f.director.offloaded, 1},
        {"to_host", f.director.to_host, 1},
        {"offload_to_host", f.director.offload_to_host, 1},
        {"barriers", f.director.barriers, 1},
        {"barrier_blocked", f.director.barrier_blocked, 1},
        {"host_gone", f.director.host_gone, 1},
        {"connections", f.director.conns, 0},
        {"protocol_errors", f.director.protocol_errors, 1},
        {"pauses", f.director.pauses, 1},
        {"stalls", f.director.stalls, 1},
        {"hog_resets", f.director.hog_resets, 1},
        {"output_limit_resets", f.director.full_resets, 1},
        {"clients_memory_resets", f.director.total_resets, 1},
        {"clients_share_resets", f.director.share_resets, 1},
        {"connections_refused", f.director.refused, 1},
        {"connections_idle_closed", f.director.idle_closed, 1},
        {"reply_blocks_free", f.director.blocks_free, 0},
        {"offload_copied_out", f.director.copied_out, 1},
        {"offload_pool_free", f.offload.pool_free, 0},
        {"received_bytes", f.director.recv_bytes, 1},
        {"sent_bytes", f.director.sent_bytes, 1},
        {"ring_records_up", f.director.records_up, 1},
        {"ring_records_down", f.director.records_down, 1},
        {"invalidations", f.director.invalidations, 1},
        {"cache_items", f.offload.items, 0},
        {"cache_tombstones", f.offload.tombstones, 0},
        {"cache_floor", f.offload.floor, 0},
        {"cache_puts", f.offload.puts, 1},
        {"cache_puts_refused", f.offload.puts_refused, 1},
        {"cache_evicted", f.offload.evicted, 1},
        {"offload_read_errors", f.offload.read_errors, 1},
        {"offload_busy", f.offload.refused_busy, 1},
        {"file_reads", f.files.reads, 1},
        {"file_writes", f.files.writes, 1},
        {"file_flushes", f.files.flushes, 1},
        {"file_bounced", f.files.bounced, 1},
        {"file_segments_free", f.files.segments_free, 0},
        {"cpu_ns", ex_server_cpu_ns(d->server), 1},
    };

    memcpy(out, all, sizeof(all));
    return EX_DPU_METRICS +
           (d->ops->metrics != NULL ? d->ops->metrics(d, out + EX_DPU_METRICS) : 0);
}

/* ---- The host ---- */

void ex_dpu_send(struct ex_dpu *d, const void *msg, uint32_t size)
{
    if (d->host.dma != NULL && !d->host.dead)
        (void)snic_dma_send(d->host.dma, msg, size);
}

/*
 * A link that is cut, or that no host has used since it was made, is closed although its process
 * lives: that has no memory of ours, and another host may be waiting. A cut link is closed only
 * after two checks, since a death that is being certified looks the same.
 */
static void ex_dpu_look(struct ex_dpu *d)
{
    struct snic_dma_batch *none[1] = {NULL};

    if (d->host.dma == NULL || d->host.dead)
        return;
    if (snic_dma_submit(d->host.dma, none, 0) == SNIC_EPEERDEAD) {
        d->host.dead = d->host.cut;
        d->host.cut = 1;
    } else if (d->host.server == NULL && d->server->role != EX_ROLE_SINGLE &&
               snic_loop_now(d->loop) - d->host.since_ns >= EX_DPU_SILENT_NS) {
        d->host.dead = 1;
    }
    if (d->host.dead)
        ex_log(EX_WARNING, "closing the link to the host role: %s",
               d->host.cut ? "it was cut" : "it did not attach in time");
}

static void ex_dpu_server_gone(void *ctx, struct snic_files_server *s, int reason)
{
    struct ex_dpu *d = ctx;

    (void)s;
    if (reason != 0 && reason != SNIC_EPEERDEAD)
        ex_log(EX_WARNING, "the file channel of the host role ended: %s", snic_strerror(reason));
    d->host.dead = 1;
}

static void ex_dpu_hub_death(void *ctx, struct snic_channel_hub *h, enum snic_dma_death cause)
{
    struct snic_director_mismatch m;
    struct ex_dpu *d = ctx;

    (void)h;
    if (snic_director_get_mismatch(d->director, &m))
        ex_log(EX_ERROR,
               "the host role was refused: its %s is %u, the DPU role's %u: start both from "
               "the same version",
               m.option, m.host, m.director);
    ex_log(d->draining ? EX_INFO : EX_WARNING, "the host role is gone (%s)",
           cause == SNIC_DMA_DEATH_EXIT ? "its process ended" : "it closed the link");
    d->host.dead = 1;
}

static int ex_dpu_offer(void *ctx, struct snic_channel_hub *h,
                        const struct snic_channel_offer *offer)
{
    struct ex_dpu *d = ctx;
    struct snic_files_server_opts o = {.opts_size = sizeof(o)};
    size_t size;
    int r;

    if (offer->kind == SNIC_DIRECTOR_CHANNEL_KIND)
        return snic_director_upstream_channel(d->director, h, offer);
    if (offer->kind != SNIC_FILES_CHANNEL_KIND || d->host.server != NULL)
        return SNIC_ECONNREFUSED;
    o.depth = 1024;
    o.channel_flags = SNIC_CHANNEL_REGIONS;
    o.tenants = d->tenants;
    o.gone = ex_dpu_server_gone;
    o.ctx = d;
    size = snic_files_server_memsize(&o);
    if (size == 0 || posix_memalign(&d->host.server_memory, SNIC_CACHELINE, size) != 0)
        return SNIC_ENOMEM;
    r = snic_files_serve(&d->host.server, d->host.server_memory, size, d->image.files, h, offer,
                         &o);
    if (r != 0) { /* it may offer again, any number of times */
        free(d->host.server_memory);
        d->host.server_memory = NULL;
    }
    return r;
}

static void ex_dpu_recv(void *ctx, struct snic_channel_hub *h, const void *msg, uint32_t size)
{
    struct ex_dpu *d = ctx;

    (void)h;
    if (d->ops->recv != NULL)
        d->ops->recv(d, msg, size);
}

int ex_dpu_link(struct ex_dpu *d, struct snic_dma *dma)
{
    struct snic_channel_hub_opts o = {.opts_size = sizeof(o)};
    size_t size;
    int r;

    if (d->host.dma != NULL)
        return SNIC_EBUSY;
    o.channels_max = 4;
    o.accept = ex_dpu_offer;
    o.recv = ex_dpu_recv;
    o.death = ex_dpu_hub_death;
    o.ctx = d;
    size = snic_channel_hub_memsize(&o);
    memset(&d->host, 0, sizeof(d->host));
    if (posix_memalign(&d->host.hub_memory, SNIC_CACHELINE, size) != 0)
        return SNIC_ENOMEM;
    r = snic_channel_hub_init(&d->host.hub, d->host.hub_memory, size, dma, &o);
    if (r != 0) {
        free(d->host.hub_memory);
        return r;
    }
    d->host.dma = dma;
    d->host.since_ns = snic_loop_now(d->loop);
    return 0;
}

static void ex_dpu_accept(void *ctx, struct snic_dma *dma, uint32_t pid)
{
    struct ex_dpu *d = ctx;
    uint64_t now = snic_loop_now(d->loop);
    int r = ex_dpu_link(d, dma);

    if (r != 0) {
        if (d->turned_ns == 0 || now - d->turned_ns >= EX_DPU_REPORT_NS) {
            ex_log(EX_WARNING, "host process %u is refused: %s", pid, snic_strerror(r));
            d->turned_ns = now;
        }
        snic_dma_close(dma);
        ex_dpu_look(d); /* it will try again */
        return;
    }
    ex_log(EX_INFO, "host process %u attached", pid);
}

/* Free what a dead host used. At the top level only: closing runs the loop. */
static void ex_dpu_reap(struct ex_dpu *d)
{
    if (d->host.dma == NULL || !d->host.dead)
        return;
    if (d->host.server != NULL)
        snic_files_server_close(d->host.server);
    if (snic_channel_hub_count(d->host.hub) > 0)
        snic_director_upstream_close(d->director);
    snic_channel_hub_fini(d->host.hub);
    if (d->ops->host_gone != NULL)
        d->ops->host_gone(d);
    free(d->host.server_memory);
    free(d->host.hub_memory);
    memset(&d->host, 0, sizeof(d->host));
}

/* ---- Ticks ---- */

static void ex_dpu_tick(struct snic_timer *t, uint64_t now)
{
    struct ex_dpu *d = SNIC_CONTAINER(t, struct ex_dpu, timer);
    struct snic_director_stats s;

    ex_dpu_look(d);
    snic_director_get_stats(d->director, &s);
    ex_report_refused(&d->refused, s.refused, d->server->conns_max, now);
    d->ops->tick(d, now);
    snic_loop_arm(d->loop, t, now + d->ops->tick_ns);
}

/* ---- Open ---- */

void ex_dpu_open(struct ex_dpu *d, const struct ex_server *s, const struct ex_dpu_ops *ops)
{
    d->server = s;
    d->ops = ops;
    d->loop = ex_loop_open((uint32_t)s->spin_us);
}

void ex_dpu_open_image(struct ex_dpu *d, const struct ex_image_opts *o)
{
    ex_image_open(&d->image, d->loop, o);
}

void ex_dpu_open_offload(struct ex_dpu *d, struct snic_offload_opts *o,
                         const struct snic_offload_user *user, const char *option)
{
    struct snic_files_hooks hooks;
    size_t size;
    int r;

    o->read_align = d->image.io->geometry.offset_align;
    size = snic_offload_memsize(o);
    if (size == 0)
        ex_die("cannot set up the offload engine: %s", snic_offload_opts_wrong(o));
    r = snic_offload_init(&d->offload, ex_memory(&d->offload_memory, size, option), size, d->loop,
                          d->image.files, user, o);
    if (r != 0)
        ex_die("cannot set up the offload engine: %s", snic_strerror(r));
    hooks = snic_offload_hooks(d->offload);
    snic_files_set_hooks(d->image.files, &hooks);
}

static void ex_dpu_listen_clients(struct ex_dpu *d)
{
    struct snic_net_addr a;
    char text[128];
    int r;

    ex_address("listen", d->server->listen, &a);
    r = snic_director_listen(d->director, &a, 0, &a);
    if (r != 0)
        ex_die("cannot listen on %s (--listen): %s", d->server->listen,
               ex_listen_error(d->server->listen, r));
    snic_net_addr_format(&a, text, sizeof(text));
    ex_log(EX_INFO, "serving %s from image '%s', offload %s", text, d->server->file,
           d->offload != NULL ? "on" : "off");
}

void ex_dpu_open_director(struct ex_dpu *d, struct snic_director_opts *o,
                          const struct snic_director_user *user, const char *option)
{
    size_t size;
    int r;

    d->net = ex_server_net(d->server, d->loop);
    o->conns_max = (uint32_t)d->server->conns_max;
    o->idle_ms = (uint32_t)d->server->timeout_s * 1000;
    size = snic_director_memsize(o);
    if (size == 0)
        ex_die("cannot set up the director: %s", snic_director_opts_wrong(o));
    r = snic_director_init(&d->director, ex_memory(&d->director_memory, size, option), size, d->net,
                           d->offload, user, o);
    if (r != 0)
        ex_die("cannot set up the director: %s", snic_strerror(r));
    ex_dpu_listen_clients(d);
}

void ex_dpu_start(struct ex_dpu *d)
{
    (void)snprintf(d->prefix, sizeof(d->prefix), "%s_dpu", d->server->name);
    if (ex_stats_start(&d->stats, d->loop, d->net, d->prefix, d->server->stats, d->server->metrics,
                       ex_dpu_metrics, d) != 0)
        exit(1);
    snic_timer_init(&d->timer, ex_dpu_tick);
    ex_dpu_tick(&d->timer, snic_loop_now(d->loop));
}

void ex_dpu_listen(struct ex_dpu *d)
{
    struct snic_dma_shm_opts o = {.opts_size = sizeof(o)};
    int r;

    o.path = d->server->socket;
    r = snic_dma_shm_listen(&d->listener, d->loop, &o, ex_dpu_accept, d);
    if (r != 0)
        ex_die("cannot listen for the host role on socket '%s' (--socket): %s", o.path,
               ex_listen_error(o.path, r));
}

/* ---- Run ---- */

static void ex_dpu_drained(void *ctx)
{
    struct ex_dpu *d = ctx;

    d->drained = 1;
    d->drained_ns = snic_loop_now(d->loop);
    if (d->ops->drained != NULL)
        d->ops->drained(d);
}

void ex_dpu_drain(void *ctx)
{
    struct ex_dpu *d = ctx;

    if (d->draining)
        return;
    d->draining = 1;
    ex_log(EX_INFO, "draining");
    if (d->ops->drain != NULL)
        d->ops->drain(d);
    snic_director_drain(d->director, ex_dpu_drained, d);
}

static int ex_dpu_over(const struct ex_dpu *d)
{
    return d->drained && (d->host.dma == NULL || d->ops->linger_ns == 0 ||
                          snic_loop_now(d->loop) - d->drained_ns > d->ops->linger_ns);
}

static int ex_dpu_close(struct ex_dpu *d)
{
    int r;

    ex_signals_off();
    ex_stats_stop(d->stats);
    if (d->listener != NULL)
        snic_dma_shm_unlisten(d->listener);
    d->host.dead = d->host.dma != NULL;
    ex_dpu_reap(d);
    snic_loop_cancel(d->loop, &d->timer);
    (void)snic_director_fini(d->director);
    snic_net_shut(d->net);
    if (d->offload != NULL)
        (void)snic_offload_fini(d->offload);
    r = ex_image_close(&d->image);
    if (r != 0)
        ex_log(EX_ERROR, "cannot unmount image '%s': %s", d->server->file, snic_strerror(r));
    snic_loop_close(d->loop);
    ex_memory_free(&d->director_memory);
    ex_memory_free(&d->offload_memory);
    return r != 0;
}

int ex_dpu_run(struct ex_dpu *d)
{
    int r = 0;

    while (r >= 0 && !ex_dpu_over(d)) {
        r = snic_loop_once(d->loop, SNIC_NEVER);
        ex_dpu_reap(d);
    }
    if (r < 0)
        ex_log(EX_ERROR, "waiting for events failed: %s", snic_strerror(r));
    return ex_dpu_close(d);
}
