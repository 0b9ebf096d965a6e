/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* The baseline: one role with its own sockets and plain files on io_uring. */
#include "files_plain.h"
#include "front.h"
#include "roles.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

struct kv_monolith {
    struct snic_loop *loop;
    struct snic_net *net;
    struct kv_front *front;
    struct kv_engine *engine;
    int draining;
};

static void monolith_drained(void *ctx)
{
    struct kv_monolith *m = ctx;

    snic_loop_stop(m->loop);
}

static void monolith_drain(void *ctx)
{
    struct kv_monolith *m = ctx;

    if (m->draining)
        return;
    m->draining = 1;
    ex_log(EX_INFO, "draining");
    kv_front_drain(m->front, monolith_drained, m);
}

static void monolith_shutdown(void *ctx, int nosave)
{
    (void)nosave; /* what is in memory is always written: the log is the store */
    monolith_drain(ctx);
}

static size_t monolith_info(void *ctx, char *out, size_t max)
{
    struct kv_monolith *m = ctx;
    struct kv_front_stats f;
    int n;

    kv_front_get_stats(m->front, &f);
    n = snprintf(out, max,
                 "snicstore_role:monolith\r\noffloaded_share:0\r\nhost_cpu_us:%" PRIu64
                 "\r\ntotal_cpu_us:%" PRIu64 "\r\noutput_limit_resets:%" PRIu64
                 "\r\nclients_memory_resets:%" PRIu64 "\r\nquery_limit_resets:%" PRIu64 "\r\n",
                 ex_cpu_process_ns() / 1000, ex_cpu_process_ns() / 1000, f.output_limit,
                 f.clients_memory, f.query_limit);
    return n < 0 ? 0 : (size_t)n < max ? (size_t)n : max - 1;
}

static size_t monolith_metrics(void *ctx, struct ex_metric *out)
{
    struct kv_monolith *m = ctx;
    struct kv_engine_stats s;
    struct kv_front_stats f;
    size_t n;

    kv_engine_get_stats(m->engine, &s);
    kv_front_get_stats(m->front, &f);
    n = kv_engine_metrics(&s, out);
    out[n++] = (struct ex_metric){"connections", f.conns, 0};
    out[n++] = (struct ex_metric){"messages", f.messages, 1};
    out[n++] = (struct ex_metric){"output_limit_resets", f.output_limit, 1};
    out[n++] = (struct ex_metric){"clients_memory_resets", f.clients_memory, 1};
    out[n++] = (struct ex_metric){"query_limit_resets", f.query_limit, 1};
    out[n++] = (struct ex_metric){"protocol_errors", f.protocol_errors, 1};
    out[n++] = (struct ex_metric){"cpu_ns", ex_cpu_process_ns(), 1};
    return n;
}

static int monolith_reply(void *ctx, uint64_t client, uint64_t seq, const struct snic_iov *iov,
                          uint32_t count, uint32_t flags, uint64_t user)
{
    const struct kv_monolith *m = ctx;

    return kv_front_reply(m->front, client, seq, iov, count, flags, user);
}

static void monolith_changed(void *ctx, const struct kv_settings *s)
{
    const struct kv_monolith *m = ctx;

    kv_front_settings(m->front, s);
}

static int monolith_kill(void *ctx, uint64_t client)
{
    const struct kv_monolith *m = ctx;

    return kv_front_kill(m->front, client);
}

static int monolith_facts(void *ctx, uint64_t client, struct kv_client_facts *out)
{
    const struct kv_monolith *m = ctx;

    return kv_front_facts(m->front, client, out);
}

static void monolith_no_evict(void *ctx, uint64_t client, int on)
{
    const struct kv_monolith *m = ctx;

    kv_front_no_evict(m->front, client, on);
}

static void monolith_open(struct kv_monolith *m, const struct kv_config *c, struct kv_plain *files)
{
    struct kv_front_opts front;
    struct kv_engine_opts o;
    char error[256];
    int r;

    m->net = ex_server_net(&c->server, m->loop);
    kv_engine_options(&o, c);
    o.loop = m->loop;
    o.files = &kv_plain_ops;
    o.files_ctx = files;
    o.events.reply = monolith_reply;
    o.info = monolith_info;
    o.shutdown = monolith_shutdown;
    o.changed = monolith_changed;
    o.kill = monolith_kill;
    o.facts = monolith_facts;
    o.no_evict = monolith_no_evict;
    o.ctx = m;
    memset(&front, 0, sizeof(front));
    front.net = m->net;
    front.conns_max = (uint32_t)c->server.conns_max;
    front.settings = c->settings;
    front.pending_max = KV_PENDING_MAX;
    front.limits.bulk_max = KV_VALUE_MAX;
    front.limits.message_max = (uint32_t)c->message_max;
    ex_address("listen", c->server.listen, &front.address);
    /* The recovery runs the loop, so the engine comes before the first client. */
    o.events.ctx = m;
    r = kv_engine_open(&m->engine, &o, error, sizeof(error));
    if (r != 0)
        ex_die("cannot open the store in '%s': %s", c->server.directory, error);
    r = kv_front_open(&m->front, &front, &front.address);
    if (r != 0)
        ex_die("cannot listen on %s (--listen): %s", c->server.listen,
               ex_listen_error(c->server.listen, r));
    kv_front_engine(m->front, m->engine);
    snic_net_addr_format(&front.address, error, sizeof(error));
    ex_log(EX_INFO, "monolith serves %s from '%s'", error, c->server.directory);
}

int kv_run_monolith(const struct kv_config *c)
{
    struct kv_monolith m;
    struct kv_plain *files;
    struct ex_stats *stats = NULL;
    char error[256];
    int r;

    memset(&m, 0, sizeof(m));
    m.loop = ex_loop_open((uint32_t)c->server.spin_us);
    if (kv_plain_open(&files, m.loop, c->server.directory, !c->server.buffered, error,
                      sizeof(error)) != 0)
        ex_die("%s", error);
    monolith_open(&m, c, files);
    ex_signals(m.loop, monolith_drain, &m);
    if (ex_stats_start(&stats, m.loop, m.net, "kv", c->server.stats, c->server.metrics,
                       monolith_metrics, &m) != 0)
        return 1;
    r = snic_loop_run(m.loop);
    if (r != 0)
        ex_log(EX_ERROR, "waiting for events failed: %s", snic_strerror(r));
    ex_signals_off();
    ex_stats_stop(stats);
    r = kv_engine_close(m.engine);
    if (r != 0)
        ex_log(EX_ERROR, "cannot write the last records to '%s': %s; they may be lost",
               c->server.directory, snic_strerror(r));
    kv_front_close(m.front);
    snic_net_shut(m.net);
    kv_plain_close(files);
    snic_loop_close(m.loop);
    return r != 0;
}
