/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* The DPU role: what the page server adds to server/dpu.h. */
#include "roles.h"

#include "../server/dpu.h"
#include "offload_user.h"

#include <inttypes.h>
#include <stdio.h>
#include <unistd.h>

#define PS_TICK_NS 100000000u /* between two updates of the reply to STAT */

struct ps_dpu {
    struct ex_dpu base;
    const struct ps_config *config;
    struct ps_offload user;
};

/* What the predicate answers to STAT: it makes no system calls itself. */
static void dpu_stat(struct ps_dpu *d)
{
    struct ex_dpu_figures f;
    int n;

    ex_dpu_figures(&d->base, &f);
    n = snprintf(d->user.stat, sizeof(d->user.stat),
                 "role=dpu\npid=%d\ncpu_us=%" PRIu64 "\nmessages=%" PRIu64 "\noffloaded=%" PRIu64
                 "\nto_host=%" PRIu64 "\noffload_to_host=%" PRIu64 "\ncache_items=%" PRIu64 "\n",
                 (int)getpid(), ex_cpu_process_ns() / 1000, f.director.messages,
                 f.director.offloaded, f.director.to_host, f.director.offload_to_host,
                 f.offload.items);
    d->user.stat_size = n > 0 && (size_t)n < sizeof(d->user.stat) ? (uint32_t)n : 0;
}

static void dpu_tick(struct ex_dpu *base, uint64_t now)
{
    (void)now;
    dpu_stat(SNIC_CONTAINER(base, struct ps_dpu, base));
}

/* The host needs nothing more after the drain: what it had to keep is kept. */
static const struct ex_dpu_ops dpu_ops = {.tick_ns = PS_TICK_NS, .tick = dpu_tick};

static void dpu_open_image(struct ps_dpu *d)
{
    const struct ps_config *c = d->config;
    struct ex_image_opts o = {
        .path = c->server.file, .auth_keys = c->server.auth_keys, .buffered = c->server.buffered};
    uint64_t sizes[STORE_FILES];

    engine_sizes(&c->limits, c->log_bytes, sizes);
    o.least = sizes[STORE_PAGES] + sizes[STORE_LOG] + (32u << 20);
    o.size = c->size != 0 ? c->size : o.least;
    o.size_set = c->size != 0;
    o.why = "two copies of the pages, and the log";
    o.mount.opts_size = sizeof(o.mount);
    o.mount.depth = 1024;
    ex_dpu_open_image(&d->base, &o);
}

static void dpu_open_offload(struct ps_dpu *d)
{
    struct snic_offload_opts o = {.opts_size = sizeof(o)};
    struct snic_offload_user user = ps_offload_user(&d->user);

    o.key_size = 8;
    o.item_size = sizeof(struct page_item);
    o.cache_capacity = snic_min_u64(d->config->limits.pages * 5 / 4 + 1024, PS_CACHE_MAX);
    o.read_max = d->config->limits.page_bytes;
    o.contexts = 4096; /* floods of many clients do not take all of them */
    o.pool_bytes = 64u << 20;
    ex_dpu_open_offload(&d->base, &o, &user, "cache table (--pages)");
}

static void dpu_open_director(struct ps_dpu *d)
{
    struct snic_director_opts o = {.opts_size = sizeof(o)};
    struct snic_director_user user = ps_director_user(&d->user);

    o.message_max = PS_MESSAGE_MAX;
    o.pending_max = PS_PENDING_MAX;
    o.conn_bytes = PS_CONN_BYTES;
    ex_dpu_open_director(&d->base, &o, &user, "director (--connections)");
}

int ps_run_dpu(const struct ps_config *c)
{
    static struct ps_dpu dpu;
    struct ps_dpu *d = &dpu;

    d->config = c;
    d->user.limits = c->limits;
    d->user.flags = WIRE_BY_DPU;
    ex_dpu_open(&d->base, &c->server, &dpu_ops);
    dpu_open_image(d);
    if (c->offload)
        dpu_open_offload(d);
    dpu_open_director(d);
    ex_dpu_start(&d->base);
    ex_dpu_listen(&d->base);
    ex_signals(d->base.loop, ex_dpu_drain, &d->base);
    return ex_dpu_run(&d->base);
}
