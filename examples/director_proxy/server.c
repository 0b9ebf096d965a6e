/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * Is the server reachable? Probed with a connection of our own when one of a client's failed, on
 * the first part's loop, at most once a second; its loss and its return are logged once each.
 * Probed twice: a process that dies may lose the connections it has before it refuses new ones, so
 * that the first probe may still succeed.
 */
#include "proxy.h"

#define PROXY_PROBE_NS 1000000000u
#define PROXY_PROBES 2
#define PROXY_PATIENCE_MS 3000 /* a server that answers nothing at all is not reachable, too */

static void proxy_probe_connected(void *ctx, struct snic_net_conn *c, int error)
{
    struct proxy *p = ctx;
    if (error == 0) {
        if (p->away)
            ex_log(EX_INFO, "server %s is reachable again", p->server);
        p->away = 0;
        snic_net_close(c);
        return;
    }
    if (!p->away)
        ex_log(EX_WARNING, "server %s is not reachable: %s; clients get an error until it is",
               p->server, snic_strerror(error));
    p->away = 1;
}

static void proxy_probe_recv(void *ctx, struct snic_net_conn *c, struct snic_net_buf *b)
{
    (void)ctx;
    snic_net_put(c->net, b);
}

static void proxy_probe_closed(void *ctx, struct snic_net_conn *c, int reason)
{
    struct proxy *p = ctx;
    struct snic_loop *l = p->parts[0].loop;
    (void)c;
    (void)reason;
    p->probe = NULL;
    if (p->probes > 0)
        p->probes--;
    if ((p->away || p->probes > 0) && !p->ended)
        snic_loop_arm(l, &p->probe_timer, snic_loop_now(l) + PROXY_PROBE_NS);
}

static void proxy_probe(struct snic_timer *t, uint64_t now)
{
    static const struct snic_net_stream_events events = {
        .connected = proxy_probe_connected, .recv = proxy_probe_recv, .closed = proxy_probe_closed};
    struct proxy *p = SNIC_CONTAINER(t, struct proxy, probe_timer);
    struct proxy_part *first = &p->parts[0];
    p->probed_ns = now;
    if (p->probe != NULL)
        return;
    if (snic_net_connect(first->net, &p->server_addr, &events, p, &p->probe) != 0)
        snic_loop_arm(first->loop, t, now + PROXY_PROBE_NS);
    else
        (void)snic_net_patience(p->probe, PROXY_PATIENCE_MS); /* a UNIX socket needs none */
}

/* While the server is away it is probed again anyway. */
void proxy_server_look(struct proxy *p)
{
    struct snic_loop *l = p->parts[0].loop;
    p->probes = PROXY_PROBES + (p->probe != NULL);
    if (!p->away && p->probe == NULL && !p->probe_timer.armed && !p->ended)
        snic_loop_arm(l, &p->probe_timer,
                      snic_max_u64(snic_loop_now(l), p->probed_ns + PROXY_PROBE_NS));
}

static void proxy_missed_run(struct snic_loop_msg *m)
{
    struct proxy_part *p = SNIC_CONTAINER(m, struct proxy_part, missed);
    atomic_store(&p->missed_queued, 0);
    proxy_server_look(p->proxy);
}

void proxy_server_missed(struct proxy_part *p)
{
    if (p->number == 0) {
        proxy_server_look(p->proxy);
    } else if (!atomic_exchange(&p->missed_queued, 1)) {
        p->missed.fn = proxy_missed_run;
        snic_loop_post(p->proxy->parts[0].loop, &p->missed);
    }
}

void proxy_server_start(struct proxy *p)
{
    snic_timer_init(&p->probe_timer, proxy_probe);
    snic_loop_arm(p->parts[0].loop, &p->probe_timer, snic_loop_now(p->parts[0].loop));
}

void proxy_server_stop(struct proxy *p)
{
    p->ended = 1;
    snic_loop_cancel(p->parts[0].loop, &p->probe_timer);
    if (p->probe != NULL)
        snic_net_abort(p->probe);
    while (p->probe != NULL)
        if (snic_loop_once(p->parts[0].loop, SNIC_NEVER) < 0)
            return;
}
