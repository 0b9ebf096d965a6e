/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* The baseline: one process with its own sockets and plain files on io_uring, as without a DPU. */
#include "roles.h"

#include "front.h"

#include <string.h>

struct ps_plain {
    const struct ps_config *config;
    struct snic_loop *loop;
    struct snic_net *net;
    struct front *front;
    struct store store;
    struct engine *engine;
    int draining;
};

static size_t plain_stat(void *ctx, int of_dpu, char *out, size_t max)
{
    static const char none[] = "role=none\ncpu_us=0\nmessages=0\noffloaded=0\n";
    struct ps_plain *p = ctx;

    if (!of_dpu)
        return ps_engine_stat(p->config, "plain", out, max);
    SNIC_ASSERT(sizeof(none) <= max);
    memcpy(out, none, sizeof(none) - 1);
    return sizeof(none) - 1;
}

static size_t plain_metrics(void *ctx, struct ex_metric *out)
{
    struct ps_plain *p = ctx;
    size_t n = ps_engine_metrics(p->engine, out);

    out[n++] = (struct ex_metric){"connections_refused", front_refused(p->front), 1};
    out[n++] = (struct ex_metric){"connections_idle_closed", front_idle_closed(p->front), 1};
    out[n++] = (struct ex_metric){"cpu_ns", ex_cpu_process_ns(), 1};
    return n;
}

static int plain_reply(void *ctx, uint64_t conn, uint64_t seq, const struct snic_iov *iov,
                       uint32_t count)
{
    struct ps_plain *p = ctx;

    return front_reply(p->front, conn, seq, iov, count);
}

static void plain_drained(void *ctx)
{
    struct ps_plain *p = ctx;

    snic_loop_stop(p->loop);
}

static void plain_drain(void *ctx)
{
    struct ps_plain *p = ctx;

    if (p->draining)
        return;
    p->draining = 1;
    ex_log(EX_INFO, "draining");
    front_drain(p->front, plain_drained, p);
}

static void plain_open_front(struct ps_plain *p)
{
    const struct ps_config *c = p->config;
    struct front_opts o;
    char text[128];
    int r;

    memset(&o, 0, sizeof(o));
    p->net = ex_server_net(&c->server, p->loop);
    ex_address("listen", c->server.listen, &o.address);
    o.net = p->net;
    o.conns_max = (uint32_t)c->server.conns_max;
    o.conn_bytes = PS_CONN_BYTES;
    o.pending_max = PS_PENDING_MAX;
    o.idle_ns = c->server.timeout_s * 1000000000;
    r = front_open(&p->front, &o, &o.address);
    if (r != 0)
        ex_die("cannot listen on %s (--listen): %s", c->server.listen,
               ex_listen_error(c->server.listen, r));
    front_engine(p->front, p->engine);
    snic_net_addr_format(&o.address, text, sizeof(text));
    ex_log(EX_INFO, "serving %s from directory '%s'", text, c->server.directory);
}

/* Recovery runs the loop, so the engine comes before the first client. */
static void plain_open(struct ps_plain *p)
{
    const struct ps_config *c = p->config;
    struct store_opts s = {.directory = c->server.directory, .buffered = c->server.buffered};
    struct engine_opts o;

    memset(&o, 0, sizeof(o));
    p->loop = ex_loop_open(0);
    o.store = &p->store;
    o.limits = c->limits;
    o.log_bytes = c->log_bytes;
    engine_sizes(&c->limits, c->log_bytes, s.sizes);
    s.check = engine_check_files;
    s.ctx = &o;
    store_open_plain(&p->store, p->loop, &s);
    o.buffers = (uint32_t)c->buffers;
    o.events.reply = plain_reply;
    o.events.stat = plain_stat;
    o.events.ctx = p;
    if (engine_open(&p->engine, &o) != 0)
        ex_die("cannot serve the pages in directory '%s' (--dir): see the message above",
               c->server.directory);
    plain_open_front(p);
}

int ps_run_plain(const struct ps_config *c)
{
    static struct ps_plain plain;
    struct ps_plain *p = &plain;
    struct ex_stats *stats = NULL;
    int r;

    p->config = c;
    plain_open(p);
    ex_signals(p->loop, plain_drain, p);
    if (ex_stats_start(&stats, p->loop, p->net, "page", c->server.stats, c->server.metrics,
                       plain_metrics, p) != 0)
        return 1;
    r = snic_loop_run(p->loop);
    if (r != 0)
        ex_log(EX_ERROR, "waiting for events failed: %s", snic_strerror(r));
    ex_signals_off();
    ex_stats_stop(stats);
    engine_drain(p->engine);
    engine_stop(p->engine);
    store_close_plain(&p->store);
    engine_close(p->engine);
    front_close(p->front);
    snic_net_shut(p->net);
    snic_loop_close(p->loop);
    return r != 0;
}
