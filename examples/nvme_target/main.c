/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* An NVMe/TCP target; this is its first loop (loops.c has the others). */
#include "target.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Connections of the net handle beyond the target's: those that it refuses, and scrapers. */
enum { CONNS_BESIDE = 64, RECV_BUFFERS = 8, RECV_BYTES = 32768 };

static struct {
    struct snic_loop *loop;
    struct snic_net *net;
    struct snic_nvmet *target;
    void *mem;
    struct ex_stats *stats;
    struct snic_timer timer;
    uint64_t refused; /* as logged last */
    uint64_t busy;
    uint64_t logged_ns;
} g;

/* At most a line in five seconds. */
static void watch(struct snic_timer *t, uint64_t now)
{
    struct snic_nvmet_stats s;
    snic_loop_arm(g.loop, t, now + UINT64_C(1000000000));
    tg_figures_tick(now);
    if (now < g.logged_ns)
        return;
    snic_nvmet_get_stats(g.target, &s);
    tg_loops_stats(&s);
    uint64_t refused = s.refused + s.evicted;
    if (refused != g.refused)
        ex_log(EX_WARNING,
               "%" PRIu64 " connections were refused, or ended before Connect, as all %" PRIu64
               " were in use: raise --connections",
               refused - g.refused, tg.connections);
    if (s.busy != g.busy)
        ex_log(EX_WARNING,
               "%" PRIu64 " Connects of hosts that had their most connections were refused: raise "
               "--host-connections",
               s.busy - g.busy);
    if (refused != g.refused || s.busy != g.busy)
        g.logged_ns = now + UINT64_C(5000000000);
    g.refused = refused;
    g.busy = s.busy;
}

static void network_opts(struct snic_net_uring_opts *out)
{
    uint32_t conns = (uint32_t)tg.connections;
    struct snic_net_uring_opts o = {.opts_size = sizeof(o),
                                    .conns_max = conns + CONNS_BESIDE,
                                    .recv_buffers = RECV_BUFFERS,
                                    .recv_size = RECV_BYTES,
                                    .taken_wait_ms = EX_TAKEN_WAIT_MS};
    o.pool_buffers = (uint32_t)snic_min_u64(32768, snic_pow2_up((uint64_t)conns * RECV_BUFFERS));
    *out = o;
}

static void open_network(void)
{
    struct snic_net_uring_opts o;
    network_opts(&o);
    ex_open_files("connections", (tg.connections + CONNS_BESIDE) * tg.loops + TG_NAMESPACES);
    int r = snic_net_uring_open(&g.net, g.loop, &o);
    if (r != 0)
        ex_die("cannot open the network: %s", snic_strerror(r));
}

static void open_target(void)
{
    struct snic_nvmet_opts o = {.opts_size = sizeof(o)};
    struct snic_net_uring_opts net;
    o.loops_max = (uint32_t)tg.loops;
    o.flags = tg.steer_cpu ? SNIC_NVMET_STEER_CPU : 0;
    o.conns_max = (uint32_t)tg.connections;
    o.host_conns_max = (uint32_t)tg.host_connections;
    for (uint32_t i = 0; i < TG_SUBSYSTEMS; i++)
        o.subsystems_max += tg.subs[i].nqn[0] != 0;
    if (tg.socket != NULL)
        o.subsystems_max = (uint32_t)snic_max_u64(o.subsystems_max, tg.subsystems);
    o.namespaces_max = (uint32_t)tg.namespaces;
    o.queues_max = (uint32_t)tg.queues;
    o.depth_max = (uint32_t)tg.depth;
    o.data_bytes = (uint32_t)tg.memory;
    o.data_max = (uint32_t)tg.transfer;
    o.greet_ns = tg.connect_seconds * UINT64_C(1000000000);
    tg_observe_begin(&o);
    size_t size = snic_nvmet_memsize(&o);
    if (size == 0)
        ex_die("cannot set up the target: %s", snic_nvmet_opts_wrong(&o));
    g.mem = aligned_alloc(SNIC_NVMET_ALIGN, size);
    if (g.mem == NULL)
        ex_die("cannot have %zu MiB for %" PRIu64 " connections: lower --connections or "
               "--memory-per-connection",
               size >> 20, tg.connections);
    int r = snic_nvmet_open(&g.target, g.mem, size, g.net, &o);
    if (r != 0)
        ex_die("cannot set up the target: %s", snic_strerror(r));
    tg_target_set(g.target, g.loop);
    tg_keys_begin(g.target);
    network_opts(&net);
    tg_loops_open(g.target, &o, &net);
}

/* Where something was named that is refused: "FILE:LINE: ", or nothing. */
static const char *where(unsigned line)
{
    static char text[4200];
    text[0] = 0;
    if (line != 0)
        (void)snprintf(text, sizeof(text), "%s:%u: ", tg.config, line);
    return text;
}

static void add_all(void)
{
    struct tg_error e;
    for (uint32_t i = 0; i < TG_SUBSYSTEMS; i++)
        if (tg.subs[i].nqn[0] != 0 && tg_subsystem_up(&tg.subs[i], &e) != 0)
            ex_die("%s%s", where(tg.subs[i].line), e.text);
    for (uint32_t i = 0; i < TG_NAMESPACES; i++)
        if (tg.ns[i].used && tg_namespace_up(&tg.ns[i], 0, &e) != 0)
            ex_die("%s%s", where(tg.ns[i].line), e.text);
    for (uint32_t i = 0; i < TG_NAMESPACES; i++)
        if (tg.ns[i].used && tg_record_restore(&tg.ns[i], &e) != 0)
            ex_die("--config: %s", e.text);
}

static int is_wildcard(const struct snic_net_addr *a)
{
    static const unsigned char none[16];
    return memcmp(a->ip, none, a->family == SNIC_NET_IPV6 ? 16 : 4) == 0;
}

/* @return its number in the target */
static uint32_t add_listener(const struct tg_listen *l)
{
    const char *advertise = l->shown[0] != 0 ? l->shown : tg.advertise;
    struct snic_net_addr a, shown;
    ex_address("listen", l->at, &a);
    if (a.family == SNIC_NET_UNIX)
        ex_usage("--listen %s: NVMe/TCP needs a TCP address", l->at);
    if (advertise != NULL)
        ex_address("advertise", advertise, &shown);
    if (advertise == NULL && is_wildcard(&a))
        ex_usage("--listen %s: the discovery log needs an address that hosts can use: --advertise "
                 "ADDRESS:PORT",
                 l->at);
    int r = snic_nvmet_listen(g.target, &a, advertise != NULL ? &shown : NULL);
    if (r < 0)
        ex_die("cannot listen on %s (--listen): %s", l->at, ex_listen_error(l->at, r));
    tg_loops_share((uint32_t)r);
    return (uint32_t)r;
}

static void listen_all(void)
{
    uint32_t numbers[SNIC_COUNTOF(tg.listen)];
    struct snic_net_addr a;
    struct tg_error e;
    char at[160];
    for (uint32_t i = 0; i < tg.listens; i++)
        numbers[i] = add_listener(&tg.listen[i]);
    if (tg_solar_begin(&e) != 0)
        ex_die("cannot keep the lease of a virtual disk: %s", e.text);
    for (uint32_t i = 0; i < tg.listens; i++) {
        if (snic_nvmet_listen_addr(g.target, numbers[i], &a) == 0)
            (void)snic_net_addr_format(&a, at, sizeof(at));
        printf("ready %s\n", at);
        fflush(stdout);
    }
}

static void stop(void *ctx)
{
    (void)ctx;
    snic_loop_stop(g.loop);
}

int main(int argc, char **argv)
{
    if (argc > 1 && strcmp(argv[1], "ctl") == 0)
        return tg_ctl(argc - 1, argv + 1);
    tg_options(argc, argv);
    g.loop = ex_loop_open(0);
    open_network();
    open_target();
    add_all();
    if (ex_stats_start(&g.stats, g.loop, g.net, "nvme_target", tg.stats, tg.metrics, tg_figures,
                       NULL) != 0)
        return 1;
    ex_stats_page(g.stats, tg_figures_page);
    if (tg.socket != NULL) {
        tg_files_begin(g.loop);
        tg_control_begin(g.loop, g.net, tg.socket);
    }
    ex_signals(g.loop, stop, NULL); /* who reads "ready" may end it at once */
    listen_all();
    snic_timer_init(&g.timer, watch);
    snic_loop_arm(g.loop, &g.timer, snic_loop_now(g.loop) + UINT64_C(1000000000));
    tg_loops_run();
    tg_loops_pin(0);
    int r = snic_loop_run(g.loop);
    tg_loops_stop();
    ex_stats_stop(g.stats);
    snic_loop_cancel(g.loop, &g.timer);
    tg_control_end();
    void *mem = snic_nvmet_close(g.target);
    tg_target_set(NULL, g.loop);
    tg_loops_close();
    tg_observe_end();
    tg_keys_end();
    free(mem);
    if (tg.socket != NULL)
        tg_files_end();
    for (uint32_t i = 0; i < TG_NAMESPACES; i += (uint32_t)tg.loops)
        if (tg.ns[i].used)
            tg_close(&tg.ns[i]);
    tg_solar_end(0);
    snic_net_shut(g.net);
    ex_signals_off();
    snic_loop_close(g.loop);
    return r == 0 ? 0 : 1;
}
