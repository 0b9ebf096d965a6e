/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * One director of the proxy: a loop, sockets, memory. Nothing of it is touched by another thread
 * but the counters that it publishes and the messages posted to its loop.
 */
#include "proxy.h"

#include <stdlib.h>

static void proxy_drained(void *ctx)
{
    ((struct proxy_part *)ctx)->done = 1;
}

static void proxy_drain(struct snic_loop_msg *m)
{
    struct proxy_part *p = SNIC_CONTAINER(m, struct proxy_part, stop);
    snic_director_drain(p->director, proxy_drained, p);
}

void proxy_part_stop(struct proxy_part *p)
{
    p->stop.fn = proxy_drain;
    snic_loop_post(p->loop, &p->stop);
}

/* Once per iteration: publish, and notice when the server fails clients. */
static int proxy_look(struct snic_loop_poller *poller, int sleeping)
{
    struct proxy_part *p = SNIC_CONTAINER(poller, struct proxy_part, poller);
    struct snic_director_stats s;
    (void)sleeping;
    snic_director_get_stats(p->director, &s);
    const uint64_t now[PROXY_COUNTS] = {
        [PROXY_CONNECTIONS] = s.conns,
        [PROXY_ACCEPTED] = s.accepted,
        [PROXY_MESSAGES] = s.messages,
        [PROXY_ANSWERED] = s.answered,
        [PROXY_TO_SERVER] = s.to_host,
        [PROXY_PASSED] = s.passed_through,
        [PROXY_REFUSED] = s.refused,
        [PROXY_IDLE_CLOSED] = s.idle_closed,
        [PROXY_SERVER_GONE] = s.host_gone,
        [PROXY_SERVER_ENDED] = s.host_refused + s.host_ended,
        [PROXY_PROTOCOL_ERRORS] = s.protocol_errors,
        [PROXY_PAUSES] = s.pauses,
        [PROXY_RECV_BYTES] = s.recv_bytes,
        [PROXY_SENT_BYTES] = s.sent_bytes,
    };
    for (int i = 0; i < PROXY_COUNTS; i++)
        atomic_store_explicit(&p->counts[i], now[i], memory_order_relaxed);
    ex_report_refused(&p->refused, s.refused, p->proxy->conns, snic_loop_now(p->loop));
    if (p->failures != now[PROXY_SERVER_ENDED]) {
        p->failures = now[PROXY_SERVER_ENDED];
        proxy_server_missed(p);
    }
    return 0;
}

void proxy_part_open(struct proxy_part *p)
{
    struct proxy *proxy = p->proxy;
    struct snic_net_uring_opts no = {
        .opts_size = sizeof(no), .taken_wait_ms = EX_TAKEN_WAIT_MS, .sent_ms = UINT32_MAX};
    struct snic_director_opts o = {.opts_size = sizeof(o), .flags = SNIC_DIRECTOR_IN_ORDER};
    struct snic_director_user u;
    uint32_t flags = 0;
    o.conns_max = (uint32_t)proxy->conns;
    o.idle_ms = (uint32_t)proxy->timeout_s * 1000;
    o.message_max = (uint32_t)proxy->message_max;
    no.conns_max = (uint32_t)proxy->conns * 2 + 16; /* one each to the server, and our own */
    no.pool_buffers = 4096;
    if (proxy->parts_count > 1)
        flags = SNIC_NET_REUSEPORT | (proxy->steer ? SNIC_NET_STEER_CPU(proxy->parts_count) : 0);
    p->loop = ex_loop_open(0);
    int r = snic_net_uring_open(&p->net, p->loop, &no);
    if (r != 0)
        ex_die("cannot open the network: %s", snic_strerror(r));
    size_t size = snic_director_memsize(&o);
    if (size == 0)
        ex_die("cannot set up the director: %s", snic_director_opts_wrong(&o));
    if (posix_memalign(&p->mem, SNIC_DIRECTOR_ALIGN, size) != 0)
        ex_die("out of memory for %u connections (--connections) with requests of up to "
               "--message-max bytes",
               o.conns_max);
    proxy_user(p, &u);
    r = snic_director_init(&p->director, p->mem, size, p->net, NULL, &u, &o);
    if (r != 0)
        ex_die("cannot set up the director: %s", snic_strerror(r));
    snic_director_upstream_net(p->director, &proxy->server_addr);
    r = snic_director_listen(p->director, &proxy->listen_addr, flags, &proxy->listen_addr);
    if (r != 0)
        ex_die("cannot listen on %s (--listen): %s", proxy->listen,
               ex_listen_error(proxy->listen, r));
    if (proxy->steer && p->net->stats.steered == 0)
        ex_log(EX_WARNING,
               "--steer-cpu: permission denied by the kernel: clients are spread by hash instead");
    snic_loop_poller_init(&p->poller, proxy_look);
    snic_loop_poller_add(p->loop, &p->poller);
}

void proxy_part_run(struct proxy_part *p)
{
    while (!p->done) {
        int r = snic_loop_once(p->loop, SNIC_NEVER);

        if (r < 0)
            ex_die("waiting for events failed: %s", snic_strerror(r));
    }
    if (p->number > 0) { /* where they were used */
        snic_loop_poller_remove(p->loop, &p->poller);
        free(snic_director_fini(p->director));
        snic_net_shut(p->net);
    }
}

/* All threads have ended: none posts to the loop any more. */
void proxy_part_close(struct proxy_part *p)
{
    if (p->number == 0) {
        snic_loop_poller_remove(p->loop, &p->poller);
        free(snic_director_fini(p->director));
        snic_net_shut(p->net);
    }
    snic_loop_close(p->loop);
}
