/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * The host role: the engine, on files of the DPU and messages from its director. When the DPU
 * process dies the engine goes, too: all that was acknowledged is in the files, and the next DPU
 * gets an engine that has recovered from them.
 */
#include "roles.h"

#include "../server/host.h"

#include <inttypes.h>
#include <string.h>

#define PS_DRAIN_NS 10000000000u /* a DPU that does not drain is not waited for longer */

struct ps_host {
    struct ex_host base;
    const struct ps_config *config;
    struct store store;
    struct engine *engine;
};

static struct ps_host *host_of(struct ex_host *base)
{
    return SNIC_CONTAINER(base, struct ps_host, base);
}

/* ---- From the engine ---- */

static int host_reply(void *ctx, uint64_t conn, uint64_t seq, const struct snic_iov *iov,
                      uint32_t count)
{
    struct ps_host *h = ctx;

    return snic_director_host_reply(h->base.director, conn, seq, iov, count, 0, 0);
}

static int host_entry(struct ps_host *h, uint64_t page, const struct page_item *item, uint64_t lsn)
{
    unsigned char key[8];
    struct snic_director_entry e = {key, item, lsn};

    if (h->base.director == NULL)
        return 0; /* during recovery: no client is served, and the cache is filled later */
    snic_put_le64(key, page);
    return snic_director_host_entries(h->base.director, &e, 1);
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

static size_t host_metrics(struct ex_host *base, struct ex_metric *out)
{
    struct ps_host *h = host_of(base);

    return h->engine != NULL ? ps_engine_metrics(h->engine, out) : 0;
}

/* ---- From the DPU ---- */

static void host_message(struct ex_host *base, uint64_t conn, uint64_t seq, uint64_t user,
                         const unsigned char *msg, uint32_t size)
{
    (void)user;
    engine_message(host_of(base)->engine, conn, seq, msg, size);
}

static void host_writable(struct ex_host *base)
{
    engine_writable(host_of(base)->engine);
}

/* ---- Attach, detach ---- */

static int host_open_store(struct ps_host *h, struct engine_opts *o)
{
    struct store_opts s;
    int r;

    memset(&s, 0, sizeof(s));
    engine_sizes(&o->limits, o->log_bytes, s.sizes);
    s.check = engine_check_files;
    s.ctx = o;
    r = store_open_lib(&h->store, h->base.files, h->base.loop, &s);
    if (r == SNIC_ENOSPC)
        ex_die("the image is too small for the pages and the log: make a new one with a larger "
               "--size");
    return r;
}

static int host_open_engine(struct ps_host *h)
{
    const struct ps_config *c = h->config;
    struct engine_opts o;
    int r;

    memset(&o, 0, sizeof(o));
    o.store = &h->store;
    o.limits = c->limits;
    o.log_bytes = c->log_bytes;
    r = host_open_store(h, &o);
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

static int host_attach(struct ex_host *base, struct snic_director_host_opts *o)
{
    struct ps_host *h = host_of(base);
    int r = host_open_engine(h);

    if (r != 0)
        return r;
    o->message_max = PS_MESSAGE_MAX;
    o->key_size = 8;
    o->item_size = sizeof(struct page_item);
    o->version = engine_version(h->engine);
    ex_log(EX_INFO, "the engine is open; newest LSN %" PRIu64, o->version);
    return 0;
}

static void host_attached(struct ex_host *base)
{
    engine_fill_cache(host_of(base)->engine);
}

static void host_detach(struct ex_host *base)
{
    struct ps_host *h = host_of(base);

    if (h->engine != NULL)
        engine_stop(h->engine);
}

/* No request of the engine uses the file library any more. */
static void host_detached(struct ex_host *base)
{
    struct ps_host *h = host_of(base);

    if (h->engine != NULL)
        engine_close(h->engine);
    h->engine = NULL;
}

static const struct ex_host_ops host_ops = {
    .drain_ns = PS_DRAIN_NS,
    .attach = host_attach,
    .attached = host_attached,
    .detach = host_detach,
    .detached = host_detached,
    .metrics = host_metrics,
    .message = host_message, /* replies to a closed connection are dropped by the director */
    .writable = host_writable,
};

int ps_run_host(const struct ps_config *c)
{
    static struct ps_host host;
    int r;

    host.config = c;
    ex_host_open(&host.base, &c->server, &host_ops);
    if (ex_host_start(&host.base) != 0)
        return 1;
    r = ex_host_run(&host.base);
    ex_host_close(&host.base); /* unanswered requests are not acknowledged */
    return r < 0;
}
