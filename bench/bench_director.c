/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * The director on loopback TCP: small pipelined messages from many connections, answered by the
 * predicate (the director alone), by a host thread over a channel, by a server behind a net
 * upstream, and, as the baseline, by that server directly. Prints requests per second and the CPU
 * time of all threads per request.
 *
 * Then what it directs per core (director_flow.c), 10,000 connections (director_crowd.c), what a
 * flood does to others (director_turns.c), and what zero copy is worth (director_zero.c).
 *
 *   bench_director [--seconds N] [--only small|flow|crowd|turns|zero]
 */
#include "director_bench.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <time.h>

#define CONNS 50
#define PIPELINE 16
#define REQUEST 40
#define REPLY 80
#define REPEATS BENCH_REPEATS

enum mode { MODE_SERVER, MODE_ANSWER, MODE_CHANNEL, MODE_NET, MODES };
static const char *const mode_case[MODES] = {"direct", "answer", "channel", "net"};
static const char *const mode_who[MODES] = {"server", "ours", "ours", "ours"};

static unsigned char reply_bytes[REPLY];

/* ---- A role: a loop on a thread ---- */

struct role {
    struct snic_loop *loop;
    struct snic_loop_msg stop;
    void (*begin)(struct role *r); /* on the thread */
    void (*end)(struct role *r);
    struct bench *b;
    pthread_t thread;
    _Atomic(int) ready;
    int running;
};

static void role_stop(struct snic_loop_msg *m)
{
    struct role *r = SNIC_CONTAINER(m, struct role, stop);
    r->running = 0;
}

static void *role_main(void *p)
{
    struct role *r = p;
    r->running = 1;
    r->begin(r);
    atomic_store(&r->ready, 1);
    while (r->running)
        (void)snic_loop_once(r->loop, SNIC_NEVER);
    r->end(r);
    return NULL;
}

struct bench {
    enum mode mode;
    struct role server, dpu, host;
    struct snic_net_addr server_addr, addr;
    struct snic_net *server_net, *dpu_net, *client_net;
    struct snic_dma *dma[2];
    struct snic_channel_hub *hub[2];
    void *hub_mem[2], *director_mem;
    struct snic_director *d;
    struct snic_director_host *h;
    _Atomic(int) attached;
};

/* ---- The server: answers every REQUEST bytes with REPLY bytes ---- */

struct served {
    struct snic_net_send_req send;
    struct snic_iov iov[64];
    struct snic_net *net;
    struct snic_net_conn *c;
    uint32_t owed;
    uint32_t partial;
    int busy;
};

static void served_flush(struct served *s);

static void served_sent(struct snic_net_send_req *r)
{
    struct served *s = SNIC_CONTAINER(r, struct served, send);
    s->busy = 0;
    served_flush(s);
}

static void served_flush(struct served *s)
{
    uint32_t n = s->owed < 64 ? s->owed : 64;
    if (s->busy || n == 0)
        return;
    for (uint32_t i = 0; i < n; i++)
        s->iov[i] = (struct snic_iov){reply_bytes, REPLY};
    s->send.done = served_sent;
    s->send.iov = s->iov;
    s->send.iov_count = n;
    s->send.region = SNIC_NO_REGION;
    if (snic_net_send(s->c, &s->send) == 1) {
        s->busy = 1;
        s->owed -= n;
    }
}

static void served_recv(void *ctx, struct snic_net_conn *c, struct snic_net_buf *b)
{
    struct served *s = ctx;
    (void)c;
    s->partial += b->size;
    s->owed += s->partial / REQUEST;
    s->partial %= REQUEST;
    snic_net_put(s->net, b);
    served_flush(s);
}

static void served_closed(void *ctx, struct snic_net_conn *c, int reason)
{
    (void)c;
    (void)reason;
    free(ctx);
}

static void served_eof(void *ctx, struct snic_net_conn *c)
{
    (void)ctx;
    snic_net_close(c);
}

static void server_accept(void *ctx, struct snic_net_conn *c, const struct snic_net_addr *peer)
{
    static const struct snic_net_stream_events ev = {
        .recv = served_recv, .eof = served_eof, .closed = served_closed};
    struct served *s = calloc(1, sizeof(*s));
    (void)peer;
    bench_check(s != NULL, "memory");
    s->net = ctx;
    s->c = c;
    snic_net_bind(c, &ev, s);
}

static void server_begin(struct role *r)
{
    struct bench *b = r->b;
    struct snic_net_addr at;
    struct snic_net_listener *l = NULL;
    bench_check(snic_net_uring_open(&b->server_net, r->loop, NULL) == 0, "net");
    bench_check(snic_net_addr_parse(&at, "127.0.0.1:0") == 0, "address");
    bench_check(snic_net_listen(b->server_net, &at, 0, server_accept, b->server_net, &l) == 0,
                "listen");
    bench_check(snic_net_listen_addr(l, &b->server_addr) == 0, "address");
}

static void server_end(struct role *r)
{
    snic_net_shut(r->b->server_net);
}

/* ---- The director ---- */

static int64_t user_frame(void *ctx, const unsigned char *data, size_t size, uint64_t *state)
{
    (void)ctx;
    (void)data;
    (void)state;
    return size >= REQUEST ? REQUEST : 0;
}

static void user_predicate(void *ctx, struct snic_offload *o, uint64_t *user,
                           const unsigned char *msg, uint32_t size,
                           struct snic_director_verdict *out)
{
    const struct bench *b = ctx;
    (void)o;
    (void)user;
    (void)msg;
    (void)size;
    if (b->mode == MODE_ANSWER) {
        out->route = SNIC_DIRECTOR_ANSWER;
        out->reply_size = REPLY;
        memcpy(out->reply, reply_bytes, REPLY);
    }
}

static uint32_t user_error(void *ctx, int error, const unsigned char *data, size_t size, char *out,
                           uint32_t max)
{
    (void)ctx;
    (void)error;
    (void)data;
    (void)size;
    memset(out, 'e', max < REPLY ? max : REPLY);
    return max < REPLY ? max : REPLY;
}

static uint32_t user_gone(void *ctx, const unsigned char *msg, uint32_t size, char *out,
                          uint32_t max)
{
    return user_error(ctx, 0, msg, size, out, max);
}

static int64_t user_frame_reply(void *ctx, const unsigned char *data, size_t size, uint64_t *state,
                                int *done)
{
    (void)ctx;
    (void)data;
    uint64_t n = REPLY - *state;
    n = n < size ? n : size;
    *state += n;
    *done = *state == REPLY;
    return (int64_t)n;
}

static int dpu_accept(void *ctx, struct snic_channel_hub *h, const struct snic_channel_offer *o)
{
    struct bench *b = ctx;
    return snic_director_upstream_channel(b->d, h, o);
}

static struct snic_channel_hub *hub_open(struct bench *b, int i)
{
    struct snic_channel_hub_opts o = {
        .opts_size = sizeof(o), .accept = i == 1 ? dpu_accept : NULL, .ctx = b};
    size_t n = snic_channel_hub_memsize(&o);
    b->hub_mem[i] = bench_memory(n);
    bench_check(snic_channel_hub_init(&b->hub[i], b->hub_mem[i], n, b->dma[i], &o) == 0, "hub");
    return b->hub[i];
}

static void dpu_begin(struct role *r)
{
    struct bench *b = r->b;
    struct snic_director_user u = {.frame = user_frame,
                                   .predicate = user_predicate,
                                   .protocol_error = user_error,
                                   .host_gone = user_gone,
                                   .frame_reply = user_frame_reply,
                                   .ctx = b};
    struct snic_director_opts o = {.opts_size = sizeof(o), .flags = SNIC_DIRECTOR_IN_ORDER};
    struct snic_net_addr at;
    size_t n = snic_director_memsize(&o);
    b->director_mem = bench_memory(n);
    bench_check(snic_net_uring_open(&b->dpu_net, r->loop, NULL) == 0, "net");
    bench_check(snic_director_init(&b->d, b->director_mem, n, b->dpu_net, NULL, &u, &o) == 0,
                "director");
    bench_check(snic_net_addr_parse(&at, "127.0.0.1:0") == 0, "address");
    bench_check(snic_director_listen(b->d, &at, 0, &b->addr) == 0, "listen");
    if (b->mode == MODE_NET)
        snic_director_upstream_net(b->d, &b->server_addr);
    if (b->mode == MODE_CHANNEL)
        (void)hub_open(b, 1);
}

static void drained(void *ctx)
{
    *(int *)ctx = 1;
}

static void dpu_end(struct role *r)
{
    struct bench *b = r->b;
    int done = 0;
    snic_director_drain(b->d, drained, &done);
    while (!done)
        (void)snic_loop_once(r->loop, SNIC_NEVER);
    free(snic_director_fini(b->d));
    snic_net_shut(b->dpu_net);
    if (b->mode == MODE_CHANNEL)
        free(snic_channel_hub_fini(b->hub[1]));
}

/* ---- The host ---- */

static void host_message(void *ctx, uint64_t conn, uint64_t seq, uint64_t user,
                         const unsigned char *msg, uint32_t size)
{
    struct bench *b = ctx;
    struct snic_iov v = {reply_bytes, REPLY};
    (void)user;
    (void)msg;
    (void)size;
    bench_check(snic_director_host_reply(b->h, conn, seq, &v, 1, 0, 0) == 0, "reply");
}

static void host_begin(struct role *r)
{
    struct bench *b = r->b;
    struct snic_director_host_events ev = {.message = host_message, .ctx = b};
    struct snic_director_host_opts o = {.opts_size = sizeof(o)};
    bench_check(snic_director_host_open(&b->h, hub_open(b, 0), &ev, &o) == 0, "host");
}

static void host_end(struct role *r)
{
    struct bench *b = r->b;
    snic_director_host_close(b->h);
    free(snic_channel_hub_fini(b->hub[0]));
}

/* ---- Clients: all on the main thread ---- */

struct client {
    struct snic_net_send_req send;
    struct snic_iov iov;
    struct snic_net_conn *c;
    struct snic_net *net;
    unsigned char out[REQUEST * PIPELINE];
    uint32_t got;
    uint64_t *count;
    int *live;
};

static void client_go(struct client *c);

static void client_sent(struct snic_net_send_req *r)
{
    (void)r;
}

static void client_go(struct client *c)
{
    c->iov = (struct snic_iov){c->out, sizeof(c->out)};
    c->send.done = client_sent;
    c->send.iov = &c->iov;
    c->send.iov_count = 1;
    c->send.region = SNIC_NO_REGION;
    (void)snic_net_send(c->c, &c->send);
}

static void client_connected(void *ctx, struct snic_net_conn *n, int error)
{
    (void)n;
    bench_check(error == 0, "connect");
    client_go(ctx);
}

static void client_recv(void *ctx, struct snic_net_conn *n, struct snic_net_buf *b)
{
    struct client *c = ctx;
    (void)n;
    c->got += b->size;
    snic_net_put(c->net, b);
    if (c->got == REPLY * PIPELINE) { /* a whole batch, as redis-benchmark does */
        c->got = 0;
        *c->count += PIPELINE;
        client_go(c);
    }
}

static void client_closed(void *ctx, struct snic_net_conn *n, int reason)
{
    struct client *c = ctx;
    (void)n;
    (void)reason;
    (*c->live)--;
}

static double clients_run(struct bench *b, double seconds, double *cpu_us)
{
    static const struct snic_net_stream_events ev = {
        .connected = client_connected, .recv = client_recv, .closed = client_closed};
    static struct client clients[CONNS];
    struct snic_loop *l = NULL;
    struct snic_net *net = NULL;
    uint64_t count = 0;
    int live = CONNS;
    const struct snic_net_addr *to = b->mode == MODE_SERVER ? &b->server_addr : &b->addr;
    bench_check(snic_loop_uring_open(&l, NULL) == 0, "loop");
    bench_check(snic_net_uring_open(&net, l, NULL) == 0, "net");
    for (int i = 0; i < CONNS; i++) {
        struct client *c = &clients[i];
        memset(c, 0, sizeof(*c));
        c->net = net;
        c->count = &count;
        c->live = &live;
        bench_check(snic_net_connect(net, to, &ev, c, &c->c) == 0, "connect");
    }
    uint64_t warm = bench_now(CLOCK_MONOTONIC) + (uint64_t)(seconds * 2e8);
    while (bench_now(CLOCK_MONOTONIC) < warm)
        (void)snic_loop_once(l, 1000000);
    uint64_t c0 = bench_now(CLOCK_PROCESS_CPUTIME_ID);
    uint64_t m0 = bench_now(CLOCK_THREAD_CPUTIME_ID);
    uint64_t t0 = bench_now(CLOCK_MONOTONIC);
    uint64_t n0 = count;
    while (bench_now(CLOCK_MONOTONIC) - t0 < (uint64_t)(seconds * 1e9))
        (void)snic_loop_once(l, 1000000);
    double n = (double)(count - n0);
    double took = (double)(bench_now(CLOCK_MONOTONIC) - t0);
    uint64_t client_cpu = bench_now(CLOCK_THREAD_CPUTIME_ID) - m0;
    *cpu_us = (double)(bench_now(CLOCK_PROCESS_CPUTIME_ID) - c0 - client_cpu) / 1e3 / n;
    for (int i = 0; i < CONNS; i++)
        snic_net_abort(clients[i].c);
    while (live > 0)
        (void)snic_loop_once(l, SNIC_NEVER);
    snic_net_shut(net);
    snic_loop_close(l);
    return n / took * 1e9;
}

/* ---- Runs ---- */

static void role_open(struct role *r, struct bench *b, void (*begin)(struct role *),
                      void (*end)(struct role *))
{
    r->b = b;
    r->begin = begin;
    r->end = end;
    r->stop.fn = role_stop;
    bench_check(snic_loop_uring_open(&r->loop, NULL) == 0, "loop");
}

static void role_start(struct role *r)
{
    bench_check(pthread_create(&r->thread, NULL, role_main, r) == 0, "thread");
    while (!atomic_load(&r->ready))
        (void)sched_yield();
}

static void role_join(struct role *r)
{
    snic_loop_post(r->loop, &r->stop);
    (void)pthread_join(r->thread, NULL);
}

static double run(enum mode mode, double seconds, double *cpu_us)
{
    static struct bench b;
    struct snic_dma_events none = {NULL, NULL, NULL, NULL};
    memset(&b, 0, sizeof(b));
    b.mode = mode;
    int server = mode == MODE_SERVER || mode == MODE_NET;
    if (server) {
        role_open(&b.server, &b, server_begin, server_end);
        role_start(&b.server);
    }
    if (mode != MODE_SERVER)
        role_open(&b.dpu, &b, dpu_begin, dpu_end);
    if (mode == MODE_CHANNEL) {
        role_open(&b.host, &b, host_begin, host_end);
        bench_check(
            snic_dma_local_open(&b.dma[0], b.host.loop, &none, &b.dma[1], b.dpu.loop, &none) == 0,
            "dma");
    }
    if (mode != MODE_SERVER)
        role_start(&b.dpu);
    if (mode == MODE_CHANNEL)
        role_start(&b.host);
    double rate = clients_run(&b, seconds, cpu_us);
    if (mode == MODE_CHANNEL)
        role_join(&b.host);
    if (mode != MODE_SERVER)
        role_join(&b.dpu);
    if (server)
        role_join(&b.server);
    struct role *roles[3] = {&b.host, &b.dpu, &b.server};
    for (int i = 0; i < 3; i++)
        if (roles[i]->loop != NULL)
            snic_loop_close(roles[i]->loop);
    return rate;
}

static void bench_small(double seconds)
{
    double rate[MODES][REPEATS];
    double cpu[MODES][REPEATS];
    double each = seconds / (MODES * REPEATS) / 1.2;
    memset(reply_bytes, 'r', sizeof(reply_bytes));
    for (int k = 0; k < REPEATS; k++)
        for (int m = 0; m < MODES; m++)
            rate[m][k] = run((enum mode)m, each, &cpu[m][k]);
    for (int m = 0; m < MODES; m++) {
        printf("row director %s_c50_p16 %s 1 %.0f op/s\n", mode_case[m], mode_who[m],
               bench_median(rate[m], REPEATS));
        printf("row director %s_c50_p16_cpu %s 1 %.3f us/op\n", mode_case[m], mode_who[m],
               bench_median(cpu[m], REPEATS));
    }
    for (int m = 1; m < MODES; m++)
        printf("ratio director %s_c50_p16 ours/server 1 %.3f\n", mode_case[m],
               rate[m][REPEATS / 2] / rate[0][REPEATS / 2]);
}

int main(int argc, char **argv)
{
    double seconds = 10;
    const char *only = NULL;
    for (int i = 1; i + 1 < argc; i++) {
        if (strcmp(argv[i], "--seconds") == 0)
            seconds = strtod(argv[i + 1], NULL);
        if (strcmp(argv[i], "--only") == 0)
            only = argv[i + 1];
    }
    if (only == NULL || strcmp(only, "small") == 0)
        bench_small(seconds);
    if (only == NULL || strcmp(only, "flow") == 0)
        bench_flow(seconds);
    if (only == NULL || strcmp(only, "crowd") == 0)
        bench_crowd();
    if (only == NULL || strcmp(only, "turns") == 0)
        bench_turns(seconds);
    if (only == NULL || strcmp(only, "zero") == 0)
        bench_zero(seconds);
    return 0;
}
