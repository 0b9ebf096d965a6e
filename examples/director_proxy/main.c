/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * A performance-enhancing proxy in front of an unmodified server that speaks the Redis protocol:
 * directors with a net upstream. Connections of clients end here; each has one of its own to the
 * server. Requests and replies are cut and put back in order, so that what the proxy answers
 * itself (PING, as an example) fits between what the server answers.
 *
 * Several directors, each with a loop on a thread of its own, share the port (SO_REUSEPORT): a
 * client, its connection to the server and all that is known of them stay with one of them.
 */
#include "proxy.h"

#include <errno.h>
#include <netinet/in.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

static const char summary[] =
    "director_proxy: a proxy in front of a server that speaks the Redis protocol.\n\n"
    "Ends clients' connections, keeps the order of pipelined replies, answers PING\n"
    "itself. Refuses commands whose replies never end (SUBSCRIBE, MONITOR, ...).";

struct program {
    struct proxy proxy;
    struct ex_stats *stats;
    const char *metrics;
    uint64_t stats_seconds;
};

/* ---- Statistics ---- */

static uint64_t proxy_count(const struct proxy_part *p, enum proxy_count what)
{
    return atomic_load_explicit(&p->counts[what], memory_order_relaxed);
}

static size_t proxy_metrics(void *ctx, struct ex_metric *out)
{
    static const char *const names[PROXY_COUNTS] = {
        [PROXY_CONNECTIONS] = "connections",
        [PROXY_ACCEPTED] = "accepted",
        [PROXY_MESSAGES] = "messages",
        [PROXY_ANSWERED] = "answered",
        [PROXY_TO_SERVER] = "to_server",
        [PROXY_PASSED] = "passed_through",
        [PROXY_REFUSED] = "connections_refused",
        [PROXY_IDLE_CLOSED] = "connections_idle_closed",
        [PROXY_SERVER_GONE] = "server_gone",
        [PROXY_SERVER_ENDED] = "server_ended",
        [PROXY_PROTOCOL_ERRORS] = "protocol_errors",
        [PROXY_PAUSES] = "pauses",
        [PROXY_RECV_BYTES] = "recv_bytes",
        [PROXY_SENT_BYTES] = "sent_bytes",
    };
    static char accepted[PROXY_PARTS_MAX][32];
    struct proxy *p = ctx;
    size_t n = 0;
    for (; n < PROXY_COUNTS; n++) {
        out[n] = (struct ex_metric){names[n], 0, n != PROXY_CONNECTIONS};
        for (uint64_t i = 0; i < p->parts_count; i++)
            out[n].value += proxy_count(&p->parts[i], (enum proxy_count)n);
    }
    for (uint64_t i = 0; i < p->parts_count && p->parts_count > 1; i++) {
        (void)snprintf(accepted[i], sizeof(accepted[i]), "director%u_accepted", (unsigned)i);
        out[n++] = (struct ex_metric){accepted[i], proxy_count(&p->parts[i], PROXY_ACCEPTED), 1};
    }
    return n;
}

/* ---- Threads ---- */

/* Run on the CPUs whose connections this part gets; 0 if there is none of them. */
static int proxy_pin(const struct proxy_part *p, int now)
{
    cpu_set_t may;
    cpu_set_t own;
    if (sched_getaffinity(0, sizeof(may), &may) != 0)
        return 0;
    CPU_ZERO(&own);
    for (size_t c = p->number; c < CPU_SETSIZE; c += p->proxy->parts_count)
        if (CPU_ISSET(c, &may))
            CPU_SET(c, &own);
    if (CPU_COUNT(&own) == 0)
        return 0;
    return !now || sched_setaffinity(0, sizeof(own), &own) == 0;
}

static void *proxy_thread(void *ctx)
{
    struct proxy_part *p = ctx;
    if (p->proxy->steer)
        (void)proxy_pin(p, 1);
    proxy_part_run(p);
    return NULL;
}

static void proxy_stop(void *ctx)
{
    struct proxy *p = ctx;
    if (p->draining)
        return;
    ex_log(EX_INFO, "draining");
    p->draining = 1;
    for (uint64_t i = 0; i < p->parts_count; i++)
        proxy_part_stop(&p->parts[i]);
}

/*
 * Directors share a port (SO_REUSEPORT) with any process that shares it: a proxy left running would
 * take its part of the clients. Binding a socket that does not share detects it.
 */
static void proxy_port_is_free(const struct proxy *p)
{
    const struct snic_net_addr *a = &p->listen_addr;
    struct sockaddr_in6 six = {.sin6_family = AF_INET6, .sin6_port = htons(a->port)};
    struct sockaddr_in four = {.sin_family = AF_INET, .sin_port = htons(a->port)};
    int is_four = a->family == SNIC_NET_IPV4;
    int one = 1;
    int fd = socket(is_four ? AF_INET : AF_INET6, SOCK_STREAM | SOCK_CLOEXEC, 0);
    int r;
    memcpy(&four.sin_addr, a->ip, sizeof(four.sin_addr));
    memcpy(&six.sin6_addr, a->ip, sizeof(six.sin6_addr));
    if (fd < 0)
        return;                                                        /* listening reports it */
    (void)setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one)); /* not REUSEPORT */
    r = is_four ? bind(fd, (struct sockaddr *)&four, sizeof(four))
                : bind(fd, (struct sockaddr *)&six, sizeof(six));
    if (r != 0)
        ex_die("cannot listen on %s (--listen): %s", p->listen, strerror(errno));
    (void)close(fd);
}

/* A client has a connection to the server, too. */
static void proxy_open_files(const struct proxy *p)
{
    struct rlimit r;
    rlim_t need = p->parts_count * (2 * p->conns + 32);

    if (getrlimit(RLIMIT_NOFILE, &r) != 0 || r.rlim_cur >= need)
        return;
    r.rlim_cur = need < r.rlim_max ? need : r.rlim_max;
    if (setrlimit(RLIMIT_NOFILE, &r) != 0 || r.rlim_cur < need)
        ex_log(EX_WARNING,
               "the limit of open files is %llu, and %llu clients need %llu: raise it (ulimit -n, "
               "LimitNOFILE=) or lower --connections",
               (unsigned long long)r.rlim_max, (unsigned long long)(p->parts_count * p->conns),
               (unsigned long long)need);
}

static void proxy_open(struct proxy *p)
{
    char text[160];
    ex_address("listen", p->listen, &p->listen_addr);
    ex_address("server", p->server, &p->server_addr);
    proxy_open_files(p);
    if (p->parts_count > 1 && p->listen_addr.family == SNIC_NET_UNIX)
        ex_usage("--directors: a UNIX socket (--listen %s) cannot be shared: use an IP address, or "
                 "--directors 1",
                 p->listen);
    if (p->parts_count > 1)
        proxy_port_is_free(p);
    p->limits.message_max = (uint32_t)p->message_max;
    p->limits.bulk_max = (uint32_t)p->message_max;
    p->parts = aligned_alloc(SNIC_CACHELINE, p->parts_count * sizeof(*p->parts));
    if (p->parts == NULL)
        ex_die("out of memory for %u directors (--directors)", (unsigned)p->parts_count);
    memset(p->parts, 0, p->parts_count * sizeof(*p->parts));
    for (uint32_t i = 0; i < p->parts_count; i++) { /* in order: the kernel counts them so */
        p->parts[i].proxy = p;
        p->parts[i].number = i;
        if (p->steer && !proxy_pin(&p->parts[i], 0))
            ex_usage("--steer-cpu: director %u of %u has no CPU of its own: lower --directors", i,
                     (unsigned)p->parts_count);
        proxy_part_open(&p->parts[i]);
    }
    (void)snic_net_addr_format(&p->listen_addr, text, sizeof(text));
    ex_log(EX_INFO, "listening on %s, server at %s", text, p->server);
}

static void proxy_run(struct program *g)
{
    struct proxy *p = &g->proxy;
    struct proxy_part *first;
    proxy_open(p);
    first = &p->parts[0];
    if (ex_stats_start(&g->stats, first->loop, first->net, "director_proxy", g->stats_seconds,
                       g->metrics, proxy_metrics, p) != 0)
        exit(1);
    ex_signals(first->loop, proxy_stop, p);
    proxy_server_start(p);
    for (uint64_t i = 1; i < p->parts_count; i++) {
        int r = pthread_create(&p->parts[i].thread, NULL, proxy_thread, &p->parts[i]);

        if (r != 0)
            ex_die("cannot start the thread of director %u: %s", (unsigned)i, strerror(r));
    }
    (void)proxy_thread(first);
    for (uint64_t i = 1; i < p->parts_count; i++)
        (void)pthread_join(p->parts[i].thread, NULL);
    proxy_server_stop(p);
    ex_stats_stop(g->stats);
    ex_signals_off();
    for (uint64_t i = 0; i < p->parts_count; i++)
        proxy_part_close(&p->parts[i]);
    free(p->parts);
    ex_log(EX_INFO, "done");
}

static void proxy_options(struct program *g, enum ex_level *level, int argc, char **argv)
{
    struct proxy *p = &g->proxy;
    const struct ex_option options[] = {
        {.name = "listen",
         .kind = EX_TEXT,
         .target = &p->listen,
         .value = "ADDRESS:PORT",
         .help = "where clients connect (127.0.0.1:6380)"},
        {.name = "server",
         .kind = EX_TEXT,
         .target = &p->server,
         .value = "ADDRESS:PORT",
         .help = "the server behind (127.0.0.1:6379)"},
        {.name = "directors",
         .kind = EX_NUMBER,
         .target = &p->parts_count,
         .value = "N",
         .help = "threads that share the port only (1)",
         .min = 1,
         .max = PROXY_PARTS_MAX},
        {.name = "steer-cpu",
         .kind = EX_FLAG,
         .target = &p->steer,
         .help = "a client goes to the director of the CPU its packets come in on"},
        {.name = "pass",
         .kind = EX_FLAG,
         .target = &p->pass,
         .help = "pass every byte through untouched"},
        {.name = "connections",
         .kind = EX_NUMBER,
         .target = &p->conns,
         .value = "N",
         .help = "most clients of a director at once (1024)",
         .min = 1,
         .max = 30000},
        {"timeout", EX_NUMBER, &p->timeout_s, "SECONDS", "close idle clients; default 0: never", 0,
         4000000, NULL},
        {.name = "message-max",
         .kind = EX_SIZE,
         .target = &p->message_max,
         .value = "BYTES",
         .help = "longest request (16M)",
         .min = 4096,
         .max = 512u << 20},
        {.name = "stats",
         .kind = EX_NUMBER,
         .target = &g->stats_seconds,
         .value = "SECONDS",
         .help = "print statistics (never)",
         .min = 0,
         .max = 86400},
        {"metrics", EX_TEXT, &g->metrics, "ADDRESS:PORT", "serve them as a Prometheus page", 0, 0,
         NULL},
        {.name = "log-level",
         .kind = EX_PARSE,
         .target = level,
         .value = "error|warning|info|debug",
         .help = "default info",
         .parse = ex_log_parse},
        {.name = "conns", .kind = EX_RENAMED, .value = "connections"},
        {.name = "log", .kind = EX_RENAMED, .value = "log-level"},
    };
    ex_options(argc, argv, options, SNIC_COUNTOF(options), summary);
}

int main(int argc, char **argv)
{
    static struct program g = {.proxy = {.listen = "127.0.0.1:6380",
                                         .server = "127.0.0.1:6379",
                                         .conns = 1024,
                                         .parts_count = 1,
                                         .message_max = 16u << 20}};
    enum ex_level level = EX_INFO;
    proxy_options(&g, &level, argc, argv);
    ex_log_set(level, "proxy");
    proxy_run(&g);
    return 0;
}
