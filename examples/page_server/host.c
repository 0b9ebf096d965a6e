/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * The host role: the engine, on files of the DPU and messages from its director. When the DPU
 * process dies the engine goes, too: all that was acknowledged is in the files, and the next DPU
 * gets an engine that has recovered from them.
 */
#include "roles.h"

#include "../image.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#define HOST_RETRY_NS 50000000u
#define HOST_PATIENCE 40u          /* attempts before it logs that there is no DPU role */
#define HOST_DRAIN_NS 10000000000u /* a DPU that does not drain is not waited for longer */

struct ps_host {
    const struct ps_config *config;
    struct snic_loop *loop;
    struct snic_channel_hub *hub;
    struct snic_dma *dma;
    struct snic_filelib *lib;
    struct snic_director_host *director;
    struct store store;
    struct engine *engine;
    void *hub_memory;
    void *lib_memory;
    struct snic_timer timer;
    uint64_t connect_ns; /* not before */
    unsigned missed;     /* attempts since the last connection */
    struct ex_stats *stats;
    int dead;
    int draining;
    uint64_t drain_ns; /* not later */
};

/* ---- From the engine ---- */

static int host_reply(void *ctx, uint64_t conn, uint64_t seq, const struct snic_iov *iov,
                      uint32_t count)
{
    struct ps_host *h = ctx;

    return snic_director_host_reply(h->director, conn, seq, iov, count, 0, 0);
}

static int host_entry(struct ps_host *h, uint64_t page, const struct page_item *item, uint64_t lsn)
{
    unsigned char key[8];
    struct snic_director_entry e = {key, item, lsn};

    if (h->director == NULL)
        return 0; /* during recovery: no client is served, and the cache is filled later */
    snic_put_le64(key, page);
    return snic_director_host_entries(h->director, &e, 1);
}

static int host_invalidate(void *ctx, uint64_t page, uint64_t lsn)
{
    return host_entry(ctx, page, NULL, lsn);
}

static int host_cache(void *ctx, uint64_t page, const struct page_item *item, uint64_t lsn)
{
    return host_entry(ctx, page, item, lsn);
}

static size_t host_stat(void *ctx, int of_dpu, char *out, size_t max)
{
    struct ps_host *h = ctx;

    (void)of_dpu; /* the DPU role answers those itself */
    return ps_engine_stat(h->config, "host", out, max);
}

static size_t host_metrics(void *ctx, struct ex_metric *out)
{
    struct ps_host *h = ctx;
    size_t n = h->engine != NULL ? ps_engine_metrics(h->engine, out) : 0;

    out[n++] = (struct ex_metric){"attached", h->director != NULL, 0};
    out[n++] = (struct ex_metric){"cpu_ns", ex_cpu_process_ns(), 1};
    return n;
}

/* ---- From the DPU ---- */

static void host_message(void *ctx, uint64_t conn, uint64_t seq, uint64_t user,
                         const unsigned char *msg, uint32_t size)
{
    struct ps_host *h = ctx;

    (void)user;
    engine_message(h->engine, conn, seq, msg, size);
}

static void host_closed(void *ctx, uint64_t conn)
{
    (void)ctx; /* replies to it are dropped by the director */
    (void)conn;
}

static void host_writable(void *ctx)
{
    struct ps_host *h = ctx;

    engine_writable(h->engine);
}

static void host_death(void *ctx)
{
    struct ps_host *h = ctx;

    h->dead = 1;
}

static void host_lib_closed(void *ctx, struct snic_filelib *g, int reason)
{
    (void)g;
    (void)reason;
    host_death(ctx);
}

static void host_hub_death(void *ctx, struct snic_channel_hub *hub, enum snic_dma_death cause)
{
    (void)hub;
    (void)cause;
    host_death(ctx);
}

/* ---- Attach, detach ---- */

static int host_attach_files(struct ps_host *h)
{
    struct snic_channel_hub_opts o = {.opts_size = sizeof(o)};
    struct snic_filelib_opts f = {.opts_size = sizeof(f)};
    size_t size;
    int r;

    o.channels_max = 4;
    o.death = host_hub_death;
    o.ctx = h;
    size = snic_channel_hub_memsize(&o);
    h->hub_memory = ex_memory(size, "channel hub");
    r = snic_channel_hub_init(&h->hub, h->hub_memory, size, h->dma, &o);
    if (r != 0)
        return r;
    f.depth = 1024;
    f.up_bytes = 8u << 20;
    f.down_bytes = 8u << 20;
    f.payload_align = STORE_ALIGN;
    f.closed = host_lib_closed;
    f.ctx = h;
    size = snic_filelib_memsize(&f);
    h->lib_memory = ex_memory(size, "file library");
    return snic_filelib_open(&h->lib, h->lib_memory, size, h->hub, &f);
}

static int host_open_engine(struct ps_host *h)
{
    const struct ps_config *c = h->config;
    struct engine_opts o;
    struct store_opts s;
    int r;

    memset(&o, 0, sizeof(o));
    memset(&s, 0, sizeof(s));
    o.store = &h->store;
    o.limits = c->limits;
    o.log_bytes = c->log_bytes;
    engine_sizes(&c->limits, c->log_bytes, s.sizes);
    s.check = engine_check_files;
    s.ctx = &o;
    r = store_open_lib(&h->store, h->lib, h->loop, &s);
    if (r == SNIC_ENOSPC)
        ex_die("the image is too small for the pages and the log: make a new one with a larger "
               "--size");
    if (r != 0)
        return r;
    o.buffers = (uint32_t)c->buffers;
    o.events.reply = host_reply;
    o.events.stat = host_stat;
    if (c->offload) {
        o.events.invalidate = host_invalidate;
        o.events.cache = host_cache;
    }
    o.events.ctx = h;
    return engine_open(&h->engine, &o);
}

static int host_attach(struct ps_host *h)
{
    const struct snic_director_host_events ev = {host_message, host_closed, host_writable,
                                                 host_death, h};
    struct snic_director_host_opts o = {.opts_size = sizeof(o)};
    int r;

    r = host_attach_files(h);
    if (r == 0)
        r = host_open_engine(h);
    if (r != 0)
        return r;
    o.message_max = PS_MESSAGE_MAX;
    o.key_size = 8;
    o.item_size = sizeof(struct page_item);
    o.version = engine_version(h->engine);
    r = snic_director_host_open(&h->director, h->hub, &ev, &o);
    if (r != 0)
        return r;
    ex_log(EX_INFO, "attached to the DPU role; newest LSN %" PRIu64, o.version);
    engine_fill_cache(h->engine);
    return 0;
}

/* At the top level only: closing runs the loop. */
static void host_detach(struct ps_host *h)
{
    if (h->engine != NULL)
        engine_stop(h->engine);
    if (h->director != NULL)
        snic_director_host_close(h->director);
    if (h->lib != NULL)
        snic_filelib_close(h->lib); /* no request of the engine uses it any more */
    if (h->engine != NULL)
        engine_close(h->engine);
    if (h->hub != NULL)
        snic_channel_hub_fini(h->hub);
    else if (h->dma != NULL)
        snic_dma_close(h->dma);
    free(h->hub_memory);
    free(h->lib_memory);
    h->engine = NULL;
    h->director = NULL;
    h->lib = NULL;
    h->hub = NULL;
    h->dma = NULL;
    h->hub_memory = h->lib_memory = NULL;
    h->dead = 0;
}

/* Connect to the DPU process, or find that it is not there yet. */
static void host_connect(struct ps_host *h)
{
    struct snic_dma_shm_opts o = {.opts_size = sizeof(o)};
    struct snic_dma_events none;
    int r;

    memset(&none, 0, sizeof(none));
    o.path = h->config->socket;
    r = snic_dma_shm_connect(&h->dma, h->loop, &o, &none);
    if (r != 0) {
        h->dma = NULL;
        if (r != SNIC_ECONNREFUSED && r != SNIC_ENOENT)
            ex_log(EX_WARNING, "cannot connect to the DPU role at '%s': %s", o.path,
                   snic_strerror(r));
        else if (++h->missed == HOST_PATIENCE)
            ex_log(EX_INFO, "waiting for the DPU role at '%s' (page_server --role dpu)", o.path);
        return;
    }
    h->missed = 0;
    r = host_attach(h);
    if (r != 0) {
        ex_log(EX_WARNING, "cannot attach to the DPU role at '%s': %s", o.path, snic_strerror(r));
        host_detach(h);
    }
}

/* ---- Run ---- */

static void host_tick(struct snic_timer *t, uint64_t now)
{
    (void)t;
    (void)now; /* only makes the loop go round */
}

static void host_drain(void *ctx)
{
    struct ps_host *h = ctx;

    if (h->draining)
        return;
    h->draining = 1;
    h->drain_ns = snic_loop_now(h->loop) + HOST_DRAIN_NS;
    snic_loop_arm(h->loop, &h->timer, h->drain_ns);
}

/* The DPU goes first: its clients' requests are answered. */
static int host_over(const struct ps_host *h)
{
    return h->draining && (h->dma == NULL || h->dead || snic_loop_now(h->loop) >= h->drain_ns);
}

/* One attempt per HOST_RETRY_NS. */
static void host_keep_attached(struct ps_host *h)
{
    uint64_t now = snic_loop_clock(h->loop);

    if (h->dead) {
        ex_log(h->draining ? EX_INFO : EX_WARNING, "the DPU role is gone");
        host_detach(h);
    }
    if (h->dma != NULL || h->draining)
        return;
    if (now >= h->connect_ns) {
        h->connect_ns = now + HOST_RETRY_NS;
        host_connect(h);
    }
    if (h->dma == NULL)
        snic_loop_arm(h->loop, &h->timer, h->connect_ns);
}

int ps_run_host(const struct ps_config *c)
{
    static struct ps_host host;
    struct ps_host *h = &host;
    int r = 0;

    h->config = c;
    h->loop = ex_loop_open(0);
    snic_timer_init(&h->timer, host_tick);
    if (c->stats > 0 &&
        ex_stats_start(&h->stats, h->loop, NULL, "page_host", c->stats, NULL, host_metrics, h) != 0)
        return 1;
    ex_signals(h->loop, host_drain, h);
    while (r >= 0 && !host_over(h)) {
        host_keep_attached(h);
        if (!h->dead && !host_over(h))
            r = snic_loop_once(h->loop, SNIC_NEVER);
    }
    if (r < 0)
        ex_log(EX_ERROR, "waiting for events failed: %s", snic_strerror(r));
    ex_signals_off();
    ex_stats_stop(h->stats);
    host_detach(h); /* unanswered requests are not acknowledged */
    snic_loop_cancel(h->loop, &h->timer);
    snic_loop_close(h->loop);
    return r < 0;
}
