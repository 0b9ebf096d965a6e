/* SPDX-License-Identifier: Apache-2.0 OR MIT */
#include "monolith.h"

#include <stdlib.h>
#include <string.h>

void ex_monolith_open(struct ex_monolith *m, const struct ex_server *s)
{
    m->server = s;
    m->loop = ex_loop_open((uint32_t)s->spin_us);
}

void ex_monolith_listen(struct ex_monolith *m, struct ex_front_opts *o)
{
    struct snic_net_addr bound;
    char text[128];
    int r;

    m->net = ex_server_net(m->server, m->loop);
    o->server = m->server;
    o->net = m->net;
    r = ex_front_open(&m->front, o, &bound);
    if (r != 0)
        ex_die("cannot listen on %s (--listen): %s", m->server->listen,
               ex_listen_error(m->server->listen, r));
    snic_net_addr_format(&bound, text, sizeof(text));
    ex_log(EX_INFO, "serving %s from directory '%s'", text, m->server->directory);
}

static size_t ex_monolith_metrics(void *ctx, struct ex_metric *out)
{
    struct ex_monolith *m = ctx;
    struct ex_front_stats f;

    ex_front_get_stats(m->front, &f);
    const struct ex_metric all[EX_MONOLITH_METRICS] = {
        {"messages", f.messages, 1},
        {"connections", f.conns, 0},
        {"protocol_errors", f.protocol_errors, 1},
        {"pauses", f.pauses, 1},
        {"connections_refused", f.refused, 1},
        {"connections_idle_closed", f.idle_closed, 1},
        {"cpu_ns", ex_cpu_process_ns(), 1},
    };

    memcpy(out, all, sizeof(all));
    return EX_MONOLITH_METRICS +
           (m->metrics != NULL ? m->metrics(m, out + EX_MONOLITH_METRICS) : 0);
}

static void ex_monolith_drained(void *ctx)
{
    struct ex_monolith *m = ctx;

    snic_loop_stop(m->loop);
}

void ex_monolith_drain(void *ctx)
{
    struct ex_monolith *m = ctx;

    if (m->draining)
        return;
    m->draining = 1;
    ex_log(EX_INFO, "draining");
    ex_front_drain(m->front, ex_monolith_drained, m);
}

int ex_monolith_run(struct ex_monolith *m)
{
    const struct ex_server *s = m->server;
    struct ex_stats *stats = NULL;
    int r;

    ex_signals(m->loop, ex_monolith_drain, m);
    r = ex_stats_start(&stats, m->loop, m->net, s->name, s->stats, s->metrics, ex_monolith_metrics,
                       m);
    if (r != 0)
        exit(1);
    r = snic_loop_run(m->loop);
    if (r != 0)
        ex_log(EX_ERROR, "waiting for events failed: %s", snic_strerror(r));
    ex_signals_off();
    ex_stats_stop(stats);
    return r;
}

void ex_monolith_close(struct ex_monolith *m)
{
    ex_front_close(m->front);
    snic_net_shut(m->net);
    snic_loop_close(m->loop);
}
