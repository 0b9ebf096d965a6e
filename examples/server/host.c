/* SPDX-License-Identifier: Apache-2.0 OR MIT */
#include "host.h"

#include "memory.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define EX_HOST_RETRY_NS 50000000u
#define EX_HOST_PATIENCE 40u /* attempts before it logs that there is no DPU role */

/* ---- Events ---- */

static void ex_host_message(void *ctx, uint64_t conn, uint64_t seq, uint64_t user,
                            const unsigned char *msg, uint32_t size)
{
    struct ex_host *h = ctx;

    h->ops->message(h, conn, seq, user, msg, size);
}

static void ex_host_closed(void *ctx, uint64_t conn)
{
    struct ex_host *h = ctx;

    if (h->ops->closed != NULL)
        h->ops->closed(h, conn);
}

static void ex_host_writable(void *ctx)
{
    struct ex_host *h = ctx;

    h->ops->writable(h);
}

static void ex_host_death(void *ctx)
{
    struct ex_host *h = ctx;

    h->dead = 1;
}

static void ex_host_files_closed(void *ctx, struct snic_filelib *g, int reason)
{
    (void)g;
    (void)reason;
    ex_host_death(ctx);
}

static void ex_host_hub_death(void *ctx, struct snic_channel_hub *hub, enum snic_dma_death cause)
{
    (void)hub;
    (void)cause;
    ex_host_death(ctx);
}

static void ex_host_recv(void *ctx, struct snic_channel_hub *hub, const void *msg, uint32_t size)
{
    struct ex_host *h = ctx;

    (void)hub;
    if (h->ops->recv != NULL)
        h->ops->recv(h, msg, size);
}

static size_t ex_host_metrics(void *ctx, struct ex_metric *out)
{
    struct ex_host *h = ctx;
    size_t n = h->ops->metrics(h, out);

    out[n++] = (struct ex_metric){"attached", h->director != NULL, 0};
    out[n++] = (struct ex_metric){"attachments", h->attachments, 1};
    out[n++] = (struct ex_metric){"cpu_ns", ex_server_cpu_ns(h->server), 1};
    return n;
}

/* ---- Attach, detach ---- */

static int ex_host_attach_files(struct ex_host *h)
{
    struct snic_channel_hub_opts o = {.opts_size = sizeof(o)};
    struct snic_filelib_opts f = {.opts_size = sizeof(f)};
    size_t size;
    int r;

    o.channels_max = 4;
    o.recv = ex_host_recv;
    o.death = ex_host_hub_death;
    o.ctx = h;
    size = snic_channel_hub_memsize(&o);
    (void)ex_memory(&h->hub_memory, size, "channel hub");
    r = snic_channel_hub_init(&h->hub, h->hub_memory.at, size, h->dma, &o);
    if (r != 0)
        return r;
    f.depth = 1024;
    f.up_bytes = 8u << 20;
    f.down_bytes = 8u << 20;
    f.payload_align = 4096;
    f.tenants = h->tenants;
    f.credit = h->credit;
    f.closed = ex_host_files_closed;
    f.ctx = h;
    size = snic_filelib_memsize(&f);
    (void)ex_memory(&h->files_memory, size, "file library");
    return snic_filelib_open(&h->files, h->files_memory.at, size, h->hub, &f);
}

static int ex_host_attach(struct ex_host *h)
{
    const struct snic_director_host_events events = {ex_host_message, ex_host_closed,
                                                     ex_host_writable, ex_host_death, h};
    struct snic_director_host_opts o = {.opts_size = sizeof(o)};
    int r;

    h->attachments++;
    r = ex_host_attach_files(h);
    if (r == 0)
        r = h->ops->attach(h, &o);
    if (r == 0)
        r = snic_director_host_open(&h->director, h->hub, &events, &o);
    if (r != 0)
        return r;
    ex_log(EX_INFO, "attached to the DPU role");
    h->ops->attached(h);
    return 0;
}

void ex_host_detach(struct ex_host *h)
{
    h->ops->detach(h);
    if (h->director != NULL)
        snic_director_host_close(h->director);
    h->director = NULL;
    if (h->files != NULL)
        snic_filelib_close(h->files);
    h->files = NULL;
    if (h->ops->detached != NULL)
        h->ops->detached(h);
    if (h->hub != NULL)
        snic_channel_hub_fini(h->hub);
    else if (h->dma != NULL)
        snic_dma_close(h->dma);
    h->hub = NULL;
    h->dma = NULL;
    ex_memory_free(&h->hub_memory);
    ex_memory_free(&h->files_memory);
    h->dead = 0;
}

/* Connect to the DPU process, or find that it does not listen yet. */
static void ex_host_connect(struct ex_host *h)
{
    struct snic_dma_shm_opts o = {.opts_size = sizeof(o)};
    struct snic_dma_events none;
    int r = 0;

    memset(&none, 0, sizeof(none));
    o.path = h->server->socket;
    h->dma = h->fresh;
    h->fresh = NULL;
    if (h->dma == NULL)
        r = snic_dma_shm_connect(&h->dma, h->loop, &o, &none);
    if (r == 0) {
        h->missed = 0;
        r = ex_host_attach(h);
        if (r != 0) {
            ex_log(EX_WARNING, "cannot attach to the DPU role at '%s': %s", o.path,
                   snic_strerror(r));
            ex_host_detach(h);
        }
        return;
    }
    h->dma = NULL;
    if (r != SNIC_ECONNREFUSED && r != SNIC_ENOENT)
        ex_log(EX_WARNING, "cannot connect to the DPU role at '%s': %s", o.path, snic_strerror(r));
    else if (++h->missed == EX_HOST_PATIENCE)
        ex_log(EX_INFO, "waiting for the DPU role at '%s' (%s --role dpu)", o.path,
               program_invocation_short_name);
}

static void ex_host_report_gone(const struct ex_host *h)
{
    struct snic_director_mismatch m;

    if (h->director != NULL && snic_director_host_get_mismatch(h->director, &m))
        ex_log(EX_ERROR,
               "the DPU role refused this one: %s is %u here, %u there: start both from the same "
               "version",
               m.option, m.host, m.director);
    else
        ex_log(h->draining ? EX_INFO : EX_WARNING, "the DPU role is gone");
}

/* One attempt per EX_HOST_RETRY_NS, also when links are made and lost at once. */
static void ex_host_keep_attached(struct ex_host *h)
{
    uint64_t now = snic_loop_clock(h->loop);
    int single = h->server->role == EX_ROLE_SINGLE;

    if (h->dead) {
        ex_host_report_gone(h);
        ex_host_detach(h);
    }
    if (h->dma != NULL || h->draining || (single && h->fresh == NULL))
        return;
    if (now >= h->connect_ns) {
        h->connect_ns = now + EX_HOST_RETRY_NS;
        ex_host_connect(h);
        if (h->dma == NULL && single)
            ex_die("cannot link the host role to the DPU role");
    }
    if (h->dma == NULL)
        snic_loop_arm(h->loop, &h->timer, h->connect_ns);
}

/* ---- Open, run ---- */

static void ex_host_fire(struct snic_timer *t, uint64_t now)
{
    (void)t;
    (void)now; /* only makes the loop return */
}

void ex_host_open(struct ex_host *h, const struct ex_server *s, const struct ex_host_ops *ops)
{
    h->server = s;
    h->ops = ops;
    h->loop = ex_loop_open((uint32_t)s->spin_us);
    snic_timer_init(&h->timer, ex_host_fire);
}

void ex_host_use(struct ex_host *h, struct snic_dma *dma)
{
    h->fresh = dma;
}

int ex_host_start(struct ex_host *h)
{
    int r = 0;

    (void)snprintf(h->prefix, sizeof(h->prefix), "%s_host", h->server->name);
    if (h->server->stats > 0)
        r = ex_stats_start(&h->stats, h->loop, NULL, h->prefix, h->server->stats, NULL,
                           ex_host_metrics, h);
    if (r == 0)
        ex_signals(h->loop, ex_host_drain, h);
    return r;
}

void ex_host_drain(void *ctx)
{
    struct ex_host *h = ctx;

    if (h->draining)
        return;
    h->draining = 1;
    h->drain_ns = snic_loop_now(h->loop);
    snic_loop_arm(h->loop, &h->timer, h->drain_ns + h->ops->drain_ns);
}

/* The DPU role goes first, or lets this one go: until then its clients' requests are answered. */
static int ex_host_over(const struct ex_host *h)
{
    return h->draining && (h->done || h->director == NULL || h->dead ||
                           snic_loop_now(h->loop) - h->drain_ns >= h->ops->drain_ns);
}

int ex_host_run(struct ex_host *h)
{
    int r = 0;

    while (r >= 0 && !ex_host_over(h)) {
        ex_host_keep_attached(h);
        if (!h->dead && !ex_host_over(h))
            r = snic_loop_once(h->loop, SNIC_NEVER);
    }
    if (r < 0)
        ex_log(EX_ERROR, "waiting for events failed: %s", snic_strerror(r));
    if (h->dead) {
        ex_host_report_gone(h);
        ex_host_detach(h);
    }
    if (h->server->role == EX_ROLE_HOST)
        ex_signals_off(); /* in a single process they are the DPU thread's */
    return r;
}

void ex_host_close(struct ex_host *h)
{
    ex_host_detach(h);
    ex_stats_stop(h->stats);
    snic_loop_cancel(h->loop, &h->timer);
    snic_loop_close(h->loop);
}
