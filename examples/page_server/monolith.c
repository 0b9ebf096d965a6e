/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* The baseline: the engine on plain files, without a DPU. */
#include "../server/monolith.h"

#include "offload_user.h"
#include "roles.h"

#include <string.h>

struct ps_monolith {
    struct ex_monolith base;
    const struct ps_config *config;
    struct ps_offload user; /* for framing */
    struct store store;
    struct engine *engine;
};

static size_t monolith_stat(void *ctx, int of_dpu, char *out, size_t max)
{
    static const char none[] = "role=none\ncpu_us=0\nmessages=0\noffloaded=0\n";
    struct ps_monolith *p = ctx;

    if (!of_dpu)
        return ps_engine_stat(p->config, "plain", out, max);
    SNIC_ASSERT(sizeof(none) <= max);
    memcpy(out, none, sizeof(none) - 1);
    return sizeof(none) - 1;
}

static size_t monolith_metrics(struct ex_monolith *base, struct ex_metric *out)
{
    return ps_engine_metrics(SNIC_CONTAINER(base, struct ps_monolith, base)->engine, out);
}

static int monolith_reply(void *ctx, uint64_t conn, uint64_t seq, const struct snic_iov *iov,
                          uint32_t count)
{
    struct ps_monolith *p = ctx;

    ex_front_reply(p->base.front, conn, seq, iov, count, 0);
    return 0;
}

static int monolith_message(void *ctx, uint64_t conn, uint64_t seq, const unsigned char *msg,
                            size_t size)
{
    struct ps_monolith *p = ctx;

    engine_message(p->engine, conn, seq, msg, size);
    return 0;
}

/* Recovery runs the loop, so the engine comes before the first client. */
static void monolith_open_engine(struct ps_monolith *p)
{
    const struct ps_config *c = p->config;
    struct store_opts s = {.directory = c->server.directory, .buffered = c->server.buffered};
    struct engine_opts o;

    memset(&o, 0, sizeof(o));
    o.store = &p->store;
    o.limits = c->limits;
    o.log_bytes = c->log_bytes;
    engine_sizes(&c->limits, c->log_bytes, s.sizes);
    s.check = engine_check_files;
    s.ctx = &o;
    store_open_plain(&p->store, p->base.loop, &s);
    o.buffers = (uint32_t)c->buffers;
    o.events.reply = monolith_reply;
    o.events.stat = monolith_stat;
    o.events.ctx = p;
    if (engine_open(&p->engine, &o) != 0)
        ex_die("cannot serve the pages in directory '%s' (--dir): see the message above",
               c->server.directory);
}

static void monolith_listen(struct ps_monolith *p)
{
    struct ex_front_opts o;

    memset(&o, 0, sizeof(o));
    p->user.limits = p->config->limits;
    o.pending_max = PS_PENDING_MAX;
    o.limits.hard = PS_CONN_BYTES;
    o.user = ps_director_user(&p->user);
    o.message = monolith_message;
    o.ctx = p;
    ex_monolith_listen(&p->base, &o);
}

int ps_run_monolith(const struct ps_config *c)
{
    static struct ps_monolith monolith = {.base.metrics = monolith_metrics};
    struct ps_monolith *p = &monolith;
    int r;

    p->config = c;
    ex_monolith_open(&p->base, &c->server);
    monolith_open_engine(p);
    monolith_listen(p);
    r = ex_monolith_run(&p->base);
    engine_drain(p->engine);
    engine_stop(p->engine);
    store_close_plain(&p->store);
    engine_close(p->engine);
    ex_monolith_close(&p->base);
    return r != 0;
}
