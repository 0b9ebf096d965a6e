/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * A performance-enhancing proxy in front of an unmodified server that speaks the
 * Redis protocol: the director with a net upstream. Connections of clients end
 * here; each has one of its own to the server. Requests and replies are cut and
 * put back in order, so that what the proxy answers itself (PING, as an example)
 * fits between what the server answers.
 *
 * What the server says unasked cannot be told apart from a reply, so SUBSCRIBE,
 * MONITOR and the like are refused; --pass lets everything through untouched.
 */
#include "common.h"
#include "kv_server/resp.h"

#include <stdlib.h>
#include <string.h>
#include <strings.h>

static const char summary[] =
    "director_proxy: a proxy in front of a server that speaks the Redis protocol.\n\n"
    "Ends clients' connections, keeps the order of pipelined replies, answers PING\n"
    "itself. Refuses commands whose replies never end (SUBSCRIBE, MONITOR, ...).";

#define PROXY_PROBE_NS 1000000000u

struct proxy {
    struct snic_loop *loop;
    struct snic_net *net;
    struct snic_director *director;
    struct ex_stats *stats;
    struct snic_net_conn *probe; /* one of our own, which learns why the server is away */
    struct snic_timer probe_timer;
    struct snic_net_addr server_addr;
    int away; /* said so, and not yet that it is there again */
    struct resp_limits limits;
    uint64_t conns;
    uint64_t message_max;
    uint64_t stats_seconds;
    const char *listen;
    const char *server;
    const char *metrics;
    int pass;
    int draining;
    int done;
};

/* ---- The server: there or away ---- */

static void proxy_probe_connected(void *ctx, struct snic_net_conn *c, int error)
{
    struct proxy *p = ctx;
    if (error == 0) {
        if (p->away)
            ex_log(EX_INFO, "server %s: there again", p->server);
        p->away = 0;
        snic_net_close(c);
        return;
    }
    if (!p->away)
        ex_log(EX_WARNING, "server %s: %s", p->server, snic_strerror(error));
    p->away = 1;
}

static void proxy_probe_recv(void *ctx, struct snic_net_conn *c, struct snic_net_buf *b)
{
    struct proxy *p = ctx;
    (void)c;
    snic_net_put(p->net, b);
}

static void proxy_probe_closed(void *ctx, struct snic_net_conn *c, int reason)
{
    struct proxy *p = ctx;
    (void)c;
    (void)reason;
    p->probe = NULL;
    if (p->away && !p->done)
        snic_loop_arm(p->loop, &p->probe_timer, snic_loop_now(p->loop) + PROXY_PROBE_NS);
}

static void proxy_probe(struct snic_timer *t, uint64_t now)
{
    static const struct snic_net_stream_events events = {
        .connected = proxy_probe_connected, .recv = proxy_probe_recv, .closed = proxy_probe_closed};
    struct proxy *p = SNIC_CONTAINER(t, struct proxy, probe_timer);
    if (p->probe == NULL && snic_net_connect(p->net, &p->server_addr, &events, p, &p->probe) != 0)
        snic_loop_arm(p->loop, t, now + PROXY_PROBE_NS);
}

/* Is it away? Until the answer is there, and while it is yes, nothing new is asked. */
static void proxy_look(struct proxy *p)
{
    if (!p->away && p->probe == NULL)
        snic_loop_arm(p->loop, &p->probe_timer, snic_loop_now(p->loop));
}

static void proxy_probe_stop(struct proxy *p)
{
    snic_loop_cancel(p->loop, &p->probe_timer);
    if (p->probe != NULL)
        snic_net_abort(p->probe);
    while (p->probe != NULL)
        if (snic_loop_once(p->loop, SNIC_NEVER) < 0)
            return;
}

/* ---- Requests ---- */

static int64_t proxy_frame(void *ctx, const unsigned char *data, size_t size, uint64_t *state)
{
    struct proxy *p = ctx;
    int64_t n = SNIC_EMSGSIZE;
    if (!resp_skipping(*state))
        n = resp_frame(data, size, &p->limits, state);
    if (n != SNIC_EMSGSIZE)
        return n;
    n = resp_discard(data, size, state);
    if (n <= 0 && *state != 0)
        return n;
    return *state == 0 ? SNIC_DIRECTOR_REFUSE(n) : SNIC_DIRECTOR_DROP(n);
}

static void proxy_answer(struct snic_director_verdict *v, const char *text)
{
    v->route = SNIC_DIRECTOR_ANSWER;
    v->reply_size = (uint32_t)strlen(text);
    memcpy(v->reply, text, v->reply_size);
}

static int proxy_is(const struct resp_arg *a, const char *name)
{
    return a->size == strlen(name) && strncasecmp((const char *)a->data, name, a->size) == 0;
}

static void proxy_predicate(void *ctx, struct snic_offload *o, uint64_t *user,
                            const unsigned char *msg, uint32_t size,
                            struct snic_director_verdict *out)
{
    static const char *const endless[] = {"subscribe", "psubscribe", "ssubscribe", "monitor",
                                          "sync",      "psync",      "reset"};
    unsigned char scratch[256];
    struct resp_arg args[2];
    (void)ctx;
    (void)o;
    if (msg[0] != '*' && size > sizeof(scratch))
        return; /* a long inline command: the server's business */
    int64_t n = resp_args(msg, size, args, 2, scratch);
    if (n == 0)
        proxy_answer(out, ""); /* an empty line gets no reply */
    if (n <= 0)
        return;
    if (proxy_is(&args[0], "multi"))
        *user = 1; /* in a transaction the server queues everything */
    else if (proxy_is(&args[0], "exec") || proxy_is(&args[0], "discard"))
        *user = 0;
    if (n == 1 && *user == 0 && proxy_is(&args[0], "ping"))
        proxy_answer(out, "+PONG\r\n");
    for (size_t i = 0; i < SNIC_COUNTOF(endless); i++)
        if (proxy_is(&args[0], endless[i]))
            proxy_answer(out, "-ERR this command does not work through the proxy\r\n");
}

static uint32_t proxy_put(char *out, uint32_t max, const char *text, size_t n)
{
    n = n < max ? n : max;
    memcpy(out, text, n);
    return (uint32_t)n;
}

static uint32_t proxy_protocol_error(void *ctx, int error, const unsigned char *data, size_t size,
                                     char *out, uint32_t max)
{
    struct proxy *p = ctx;
    char text[RESP_ERROR_MAX] = "-ERR message too long\r\n";
    size_t n = strlen(text);
    if (error != SNIC_EMSGSIZE)
        n = resp_error(data, size, &p->limits, text);
    return proxy_put(out, max, text, n);
}

static uint32_t proxy_host_gone(void *ctx, const unsigned char *msg, uint32_t size, char *out,
                                uint32_t max)
{
    static const char text[] = "-ERR the server is not there\r\n";
    proxy_look(ctx);
    (void)msg;
    (void)size;
    return proxy_put(out, max, text, sizeof(text) - 1);
}

/* ---- Replies ---- */

/*
 * The state of a reply: how many elements are still to come (less one), and how many bytes of
 * the one at hand. Arrays of arrays need no stack: each head only adds to what is to come.
 */
#define PROXY_BYTES_BITS 32

/* One line at @data: its size with CRLF, 0 when it is not whole. */
static size_t proxy_line(const unsigned char *data, size_t size)
{
    const unsigned char *end = memchr(data, '\n', size);
    return end == NULL ? 0 : (size_t)(end - data) + 1;
}

static int64_t proxy_number(const unsigned char *line, size_t size)
{
    int64_t n = 0;
    int negative = size > 1 && line[1] == '-';
    if (size > 14)
        return -1;
    for (size_t i = 1 + (size_t)negative; i < size && line[i] >= '0' && line[i] <= '9'; i++)
        n = n * 10 + (line[i] - '0');
    return negative ? -1 : n;
}

static int64_t proxy_frame_reply(void *ctx, const unsigned char *data, size_t size, uint64_t *state,
                                 int *done)
{
    uint64_t bytes = *state & UINT32_MAX;
    uint64_t more = *state >> PROXY_BYTES_BITS; /* elements behind this one */
    size_t used = 0;
    int ended = 0;
    (void)ctx;
    while (!ended && used < size) {
        if (bytes == 0) {
            size_t line = proxy_line(data + used, size - used);
            int64_t n;
            if (line == 0) {
                if (size - used > 3500)
                    return SNIC_EPROTO; /* no head is so long; texts of that length are rare */
                break;
            }
            n = proxy_number(data + used, line);
            switch (data[used]) {
            case '$':
            case '=':
                bytes = n < 0 ? 0 : (uint64_t)n + 2;
                break;
            case '*':
            case '~':
            case '>':
                more += n > 0 ? (uint64_t)n : 0;
                break;
            case '%':
                more += n > 0 ? 2 * (uint64_t)n : 0;
                break;
            case '+':
            case '-':
            case ':':
            case '_':
            case ',':
            case '#':
            case '(':
                break;
            default:
                return SNIC_EPROTO;
            }
            if (bytes > UINT32_MAX || more > UINT32_MAX)
                return SNIC_EPROTO;
            used += line;
        }
        if (bytes > 0) {
            uint64_t n = bytes < size - used ? bytes : size - used;
            used += (size_t)n;
            bytes -= n;
        }
        if (bytes == 0) {
            ended = more == 0;
            more -= more > 0;
        }
    }
    *state = more << PROXY_BYTES_BITS | bytes;
    *done = ended;
    return (int64_t)used;
}

/* ---- The program ---- */

static size_t proxy_metrics(void *ctx, struct ex_metric *out)
{
    struct proxy *p = ctx;
    struct snic_director_stats s;
    size_t n = 0;
    snic_director_get_stats(p->director, &s);
    out[n++] = (struct ex_metric){"connections", s.conns, 0};
    out[n++] = (struct ex_metric){"accepted", s.accepted, 1};
    out[n++] = (struct ex_metric){"messages", s.messages, 1};
    out[n++] = (struct ex_metric){"answered", s.answered, 1};
    out[n++] = (struct ex_metric){"to_server", s.to_host, 1};
    out[n++] = (struct ex_metric){"server_gone", s.host_gone, 1};
    out[n++] = (struct ex_metric){"protocol_errors", s.protocol_errors, 1};
    out[n++] = (struct ex_metric){"pauses", s.pauses, 1};
    out[n++] = (struct ex_metric){"recv_bytes", s.recv_bytes, 1};
    out[n++] = (struct ex_metric){"sent_bytes", s.sent_bytes, 1};
    return n;
}

static void proxy_drained(void *ctx)
{
    ((struct proxy *)ctx)->done = 1;
}

static void proxy_stop(void *ctx)
{
    struct proxy *p = ctx;
    if (p->draining)
        return;
    ex_log(EX_INFO, "draining");
    p->draining = 1;
    snic_director_drain(p->director, proxy_drained, p);
}

static void proxy_open(struct proxy *p)
{
    struct snic_net_uring_opts no = {.opts_size = sizeof(no)};
    struct snic_director_opts o = {.opts_size = sizeof(o), .flags = SNIC_DIRECTOR_IN_ORDER};
    struct snic_director_user u = {.frame = proxy_frame,
                                   .predicate = proxy_predicate,
                                   .protocol_error = proxy_protocol_error,
                                   .host_gone = proxy_host_gone,
                                   .frame_reply = p->pass ? NULL : proxy_frame_reply,
                                   .ctx = p};
    struct snic_net_addr at;
    char text[160];
    void *mem = NULL;
    if (snic_net_addr_parse(&at, p->listen) != 0)
        ex_die("--listen %s: not an address", p->listen);
    if (snic_net_addr_parse(&p->server_addr, p->server) != 0)
        ex_die("--server %s: not an address", p->server);
    p->limits.message_max = (uint32_t)p->message_max;
    p->limits.bulk_max = (uint32_t)p->message_max;
    o.conns_max = (uint32_t)p->conns;
    o.message_max = (uint32_t)p->message_max;
    no.conns_max = (uint32_t)p->conns * 2 + 1; /* each client has one to the server, and we */
    no.pool_buffers = 4096;
    int r = snic_loop_uring_open(&p->loop, NULL);
    if (r == 0)
        r = snic_net_uring_open(&p->net, p->loop, &no);
    if (r != 0)
        ex_die("cannot start: %s", snic_strerror(r));
    size_t size = snic_director_memsize(&o);
    if (size == 0 || posix_memalign(&mem, SNIC_DIRECTOR_ALIGN, size) != 0)
        ex_die("not enough memory for %u connections", o.conns_max);
    r = snic_director_init(&p->director, mem, size, p->net, NULL, &u, &o);
    if (r != 0)
        ex_die("cannot start: %s", snic_strerror(r));
    snic_director_upstream_net(p->director, &p->server_addr);
    r = snic_director_listen(p->director, &at, 0, &at);
    if (r != 0)
        ex_die("cannot listen at %s: %s", p->listen, snic_strerror(r));
    if (ex_stats_start(&p->stats, p->loop, p->net, "director_proxy", p->stats_seconds, p->metrics,
                       proxy_metrics, p) != 0)
        exit(1);
    ex_signals(p->loop, proxy_stop, p);
    (void)snic_net_addr_format(&at, text, sizeof(text));
    ex_log(EX_INFO, "listening at %s, server at %s", text, p->server);
    snic_timer_init(&p->probe_timer, proxy_probe);
    proxy_look(p);
}

static void proxy_run(struct proxy *p)
{
    proxy_open(p);
    while (!p->done)
        if (snic_loop_once(p->loop, SNIC_NEVER) < 0)
            ex_die("the loop failed");
    proxy_probe_stop(p);
    ex_stats_stop(p->stats);
    ex_signals_off();
    free(snic_director_fini(p->director));
    snic_net_shut(p->net);
    snic_loop_close(p->loop);
    ex_log(EX_INFO, "done");
}

int main(int argc, char **argv)
{
    static struct proxy p = {.listen = "127.0.0.1:6380",
                             .server = "127.0.0.1:6379",
                             .conns = 1024,
                             .message_max = 16u << 20};
    enum ex_level level = EX_INFO;
    const struct ex_option options[] = {
        {.name = "listen",
         .kind = EX_TEXT,
         .target = &p.listen,
         .value = "ADDR:PORT",
         .help = "where clients connect (127.0.0.1:6380)"},
        {.name = "server",
         .kind = EX_TEXT,
         .target = &p.server,
         .value = "ADDR:PORT",
         .help = "the server behind (127.0.0.1:6379)"},
        {.name = "pass",
         .kind = EX_FLAG,
         .target = &p.pass,
         .help = "pass every byte through untouched"},
        {.name = "conns",
         .kind = EX_NUMBER,
         .target = &p.conns,
         .value = "N",
         .help = "most clients at once (1024)",
         .min = 1,
         .max = 30000},
        {.name = "message-max",
         .kind = EX_SIZE,
         .target = &p.message_max,
         .value = "BYTES",
         .help = "longest request (16M)",
         .min = 4096,
         .max = 512u << 20},
        {.name = "stats",
         .kind = EX_NUMBER,
         .target = &p.stats_seconds,
         .value = "SECONDS",
         .help = "print statistics (never)",
         .min = 0,
         .max = 86400},
        {.name = "metrics",
         .kind = EX_TEXT,
         .target = &p.metrics,
         .value = "ADDR:PORT",
         .help = "serve them as a Prometheus page"},
        {.name = "log-level",
         .kind = EX_PARSE,
         .target = &level,
         .value = "LEVEL",
         .help = "error, warning, info (default) or debug",
         .parse = ex_log_parse},
        {.name = "log",
         .kind = EX_PARSE,
         .target = &level,
         .value = "LEVEL",
         .help = "the same",
         .parse = ex_log_parse},
    };
    ex_options(argc, argv, options, SNIC_COUNTOF(options), summary);
    ex_log_set(level, "proxy");
    proxy_run(&p);
    return 0;
}
