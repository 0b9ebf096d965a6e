/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * How much a director directs (the paper's Fig. 21): messages of several sizes from 16 connections
 * through one director, or two that share the port, to a server that answers 8 bytes to each.
 * With fewer cores than threads the rate is the machine's; what a core of a director would carry
 * is the traffic by the CPU time of the directors' threads.
 */
#include "director_bench.h"

#include <stdio.h>
#include <stdlib.h>

enum { FLOW_CONNS = 16, FLOW_ACK = 8, FLOW_BATCH = 65536, FLOW_PARTS = 2, FLOW_SIZES = 4 };

static const uint32_t flow_sizes[FLOW_SIZES] = {64, 1024, 16384, 131072};
static const char *const flow_names[FLOW_SIZES] = {"64", "1K", "16K", "128K"};

enum flow_mode { FLOW_ONE, FLOW_TWO, FLOW_PASS, FLOW_MODES };

static unsigned char flow_bytes[131072];

/* ---- The server: a thread that counts bytes and answers ---- */

struct flow_served {
    struct snic_net_send_req send;
    struct snic_iov iov;
    struct snic_net *net;
    struct snic_net_conn *c;
    uint32_t size; /* of a message */
    uint64_t got;
    uint64_t owed; /* bytes of answers */
    int busy;
};

struct flow_server {
    struct snic_loop *loop;
    struct snic_net *net;
    struct snic_net_addr at;
    struct snic_loop_msg stop;
    pthread_t thread;
    uint32_t size;
    int done;
};

static void flow_served_send(struct flow_served *s);

static void flow_served_sent(struct snic_net_send_req *r)
{
    struct flow_served *s = SNIC_CONTAINER(r, struct flow_served, send);
    s->busy = 0;
    flow_served_send(s);
}

static void flow_served_send(struct flow_served *s)
{
    if (s->busy || s->owed == 0)
        return;
    uint64_t n = s->owed < sizeof(flow_bytes) ? s->owed : sizeof(flow_bytes);
    s->iov = (struct snic_iov){flow_bytes, n};
    s->send.done = flow_served_sent;
    s->send.iov = &s->iov;
    s->send.iov_count = 1;
    s->send.region = SNIC_NO_REGION;
    if (snic_net_send(s->c, &s->send) == 1) {
        s->busy = 1;
        s->owed -= n;
    }
}

static void flow_served_recv(void *ctx, struct snic_net_conn *c, struct snic_net_buf *b)
{
    struct flow_served *s = ctx;
    (void)c;
    uint64_t before = s->got / s->size;
    s->got += b->size;
    s->owed += (s->got / s->size - before) * FLOW_ACK;
    snic_net_put(s->net, b);
    flow_served_send(s);
}

static void flow_served_eof(void *ctx, struct snic_net_conn *c)
{
    (void)ctx;
    snic_net_close(c);
}

static void flow_served_closed(void *ctx, struct snic_net_conn *c, int reason)
{
    (void)c;
    (void)reason;
    free(ctx);
}

static void flow_server_accept(void *ctx, struct snic_net_conn *c, const struct snic_net_addr *peer)
{
    static const struct snic_net_stream_events ev = {
        .recv = flow_served_recv, .eof = flow_served_eof, .closed = flow_served_closed};
    struct flow_server *v = ctx;
    struct flow_served *s = calloc(1, sizeof(*s));
    (void)peer;
    bench_check(s != NULL, "memory");
    s->net = v->net;
    s->c = c;
    s->size = v->size;
    snic_net_bind(c, &ev, s);
}

static void flow_server_stop(struct snic_loop_msg *m)
{
    SNIC_CONTAINER(m, struct flow_server, stop)->done = 1;
}

static void *flow_server_main(void *ctx)
{
    struct flow_server *v = ctx;
    while (!v->done)
        (void)snic_loop_once(v->loop, SNIC_NEVER);
    snic_net_shut(v->net);
    return NULL;
}

static void flow_server_open(struct flow_server *v, uint32_t size)
{
    struct snic_net_listener *l = NULL;
    memset(v, 0, sizeof(*v));
    v->size = size;
    v->stop.fn = flow_server_stop;
    bench_check(snic_loop_uring_open(&v->loop, NULL) == 0, "loop");
    bench_check(snic_net_uring_open(&v->net, v->loop, NULL) == 0, "net");
    bench_check(snic_net_addr_parse(&v->at, "127.0.0.1:0") == 0, "address");
    bench_check(snic_net_listen(v->net, &v->at, 0, flow_server_accept, v, &l) == 0, "listen");
    bench_check(snic_net_listen_addr(l, &v->at) == 0, "address");
    bench_check(pthread_create(&v->thread, NULL, flow_server_main, v) == 0, "thread");
}

static void flow_server_close(struct flow_server *v)
{
    snic_loop_post(v->loop, &v->stop);
    (void)pthread_join(v->thread, NULL);
    snic_loop_close(v->loop);
}

/* ---- The user's functions ---- */

static int64_t flow_frame(void *ctx, const unsigned char *data, size_t size, uint64_t *state)
{
    uint32_t n = *(const uint32_t *)ctx;
    (void)data;
    (void)state;
    return size >= n ? n : 0;
}

static void flow_predicate(void *ctx, struct snic_offload *o, uint64_t *user,
                           const unsigned char *msg, uint32_t size,
                           struct snic_director_verdict *out)
{
    (void)ctx;
    (void)o;
    (void)user;
    (void)msg;
    (void)size;
    (void)out; /* to the host */
}

static int64_t flow_frame_reply(void *ctx, const unsigned char *data, size_t size, uint64_t *state,
                                int *done)
{
    uint64_t n = FLOW_ACK - *state;
    (void)ctx;
    (void)data;
    n = n < size ? n : size;
    *state += n;
    *done = *state == FLOW_ACK;
    return (int64_t)n;
}

/* ---- Clients: on the main thread, two batches under way on each connection ---- */

struct flow_client {
    struct snic_net_send_req send[2];
    struct snic_iov iov[2][64];
    struct snic_net *net;
    struct snic_net_conn *c;
    uint64_t *bytes;
    uint32_t size;
    uint32_t batch; /* messages */
    uint32_t got;
    int *live;
    uint8_t busy[2];
};

static void flow_client_sent(struct snic_net_send_req *r)
{
    (void)r;
}

static void flow_client_go(struct flow_client *c, int i)
{
    for (uint32_t k = 0; k < c->batch; k++)
        c->iov[i][k] = (struct snic_iov){flow_bytes, c->size};
    c->send[i].done = flow_client_sent;
    c->send[i].iov = c->iov[i];
    c->send[i].iov_count = c->batch;
    c->send[i].region = SNIC_NO_REGION;
    (void)snic_net_send(c->c, &c->send[i]);
}

static void flow_client_connected(void *ctx, struct snic_net_conn *n, int error)
{
    (void)n;
    bench_check(error == 0, "connect");
    flow_client_go(ctx, 0);
    flow_client_go(ctx, 1);
}

static void flow_client_recv(void *ctx, struct snic_net_conn *n, struct snic_net_buf *b)
{
    struct flow_client *c = ctx;
    uint32_t whole = c->batch * FLOW_ACK;
    (void)n;
    uint32_t before = c->got / whole;
    c->got += b->size;
    snic_net_put(c->net, b);
    for (uint32_t k = before; k < c->got / whole; k++) { /* the first of the two is answered */
        *c->bytes += (uint64_t)c->batch * c->size;
        flow_client_go(c, (int)(k % 2));
    }
    if (c->got >= 2 * whole)
        c->got -= 2 * whole;
}

static void flow_client_closed(void *ctx, struct snic_net_conn *n, int reason)
{
    (void)n;
    (void)reason;
    (*((struct flow_client *)ctx)->live)--;
}

struct flow_result {
    double gbits;      /* per second */
    double core_gbits; /* per second of the directors' CPU time */
    double cpu;        /* seconds of all threads per GB */
};

static uint64_t flow_parts_cpu(const struct bench_part *parts, int count)
{
    uint64_t sum = 0;
    for (int i = 0; i < count; i++)
        sum += bench_part_cpu(&parts[i]);
    return sum;
}

static void flow_clients(struct flow_result *out, const struct bench_part *parts, int count,
                         const struct snic_net_addr *to, uint32_t size, double seconds)
{
    static const struct snic_net_stream_events ev = {
        .connected = flow_client_connected, .recv = flow_client_recv, .closed = flow_client_closed};
    static struct flow_client clients[FLOW_CONNS];
    struct snic_loop *l = NULL;
    struct snic_net *net = NULL;
    uint64_t bytes = 0;
    int live = FLOW_CONNS;
    bench_check(snic_loop_uring_open(&l, NULL) == 0, "loop");
    bench_check(snic_net_uring_open(&net, l, NULL) == 0, "net");
    for (int i = 0; i < FLOW_CONNS; i++) {
        struct flow_client *c = &clients[i];
        memset(c, 0, sizeof(*c));
        c->net = net;
        c->bytes = &bytes;
        c->live = &live;
        c->size = size;
        c->batch = size >= FLOW_BATCH ? 1 : FLOW_BATCH / size < 64 ? FLOW_BATCH / size : 64;
        bench_check(snic_net_connect(net, to, &ev, c, &c->c) == 0, "connect");
    }
    uint64_t warm = bench_now(CLOCK_MONOTONIC) + (uint64_t)(seconds * 2e8);
    while (bench_now(CLOCK_MONOTONIC) < warm)
        (void)snic_loop_once(l, 1000000);
    uint64_t n0 = bytes;
    uint64_t p0 = flow_parts_cpu(parts, count);
    uint64_t c0 = bench_now(CLOCK_PROCESS_CPUTIME_ID);
    uint64_t t0 = bench_now(CLOCK_MONOTONIC);
    while (bench_now(CLOCK_MONOTONIC) - t0 < (uint64_t)(seconds * 1e9))
        (void)snic_loop_once(l, 1000000);
    double n = (double)(bytes - n0);
    out->gbits = n * 8 / (double)(bench_now(CLOCK_MONOTONIC) - t0);
    out->core_gbits = n * 8 / (double)(flow_parts_cpu(parts, count) - p0);
    out->cpu = (double)(bench_now(CLOCK_PROCESS_CPUTIME_ID) - c0) / n;
    for (int i = 0; i < FLOW_CONNS; i++)
        snic_net_abort(clients[i].c);
    while (live > 0)
        (void)snic_loop_once(l, SNIC_NEVER);
    snic_net_shut(net);
    snic_loop_close(l);
}

static struct flow_result flow_run(enum flow_mode mode, uint32_t size, double seconds)
{
    static struct bench_part parts[FLOW_PARTS];
    struct flow_server server;
    struct flow_result r;
    struct snic_net_addr at;
    int count = mode == FLOW_TWO ? 2 : 1;
    flow_server_open(&server, size);
    struct bench_part_opts o = {.user = {.frame = flow_frame,
                                         .predicate = flow_predicate,
                                         .frame_reply = mode == FLOW_PASS ? NULL : flow_frame_reply,
                                         .ctx = &size},
                                .director = {.flags = SNIC_DIRECTOR_IN_ORDER, .conns_max = 64},
                                .host = &server.at,
                                .listen_flags = count > 1 ? SNIC_NET_REUSEPORT : 0,
                                .cpu = -1};
    bench_check(snic_net_addr_parse(&at, "127.0.0.1:0") == 0, "address");
    for (int i = 0; i < count; i++)
        bench_part_open(&parts[i], &o, &at);
    flow_clients(&r, parts, count, &at, size, seconds);
    for (int i = 0; i < count; i++)
        bench_part_close(&parts[i]);
    flow_server_close(&server);
    return r;
}

void bench_flow(double seconds)
{
    static const char *const who[FLOW_MODES] = {"flow", "flow", "pass"};
    static const int threads[FLOW_MODES] = {1, 2, 1};
    double each = seconds / (FLOW_SIZES * FLOW_MODES * BENCH_REPEATS * 1.2);
    static double rate[FLOW_SIZES][FLOW_MODES][BENCH_REPEATS];
    static double core[FLOW_SIZES][FLOW_MODES][BENCH_REPEATS];
    static double cpu[FLOW_SIZES][FLOW_MODES][BENCH_REPEATS];
    for (int k = 0; k < BENCH_REPEATS; k++)
        for (int s = 0; s < FLOW_SIZES; s++)
            for (int m = 0; m < FLOW_MODES; m++) {
                struct flow_result r = flow_run((enum flow_mode)m, flow_sizes[s], each);
                rate[s][m][k] = r.gbits;
                core[s][m][k] = r.core_gbits;
                cpu[s][m][k] = r.cpu;
            }
    for (int s = 0; s < FLOW_SIZES; s++) {
        double per_core[FLOW_MODES];
        for (int m = 0; m < FLOW_MODES; m++) {
            per_core[m] = bench_median(core[s][m], BENCH_REPEATS);
            printf("row director %s_%s ours %d %.2f Gb/s\n", who[m], flow_names[s], threads[m],
                   bench_median(rate[s][m], BENCH_REPEATS));
            printf("row director %s_%s_per_core ours %d %.2f Gb/s\n", who[m], flow_names[s],
                   threads[m], per_core[m]);
            printf("row director %s_%s_cpu ours %d %.3f s/GB\n", who[m], flow_names[s], threads[m],
                   bench_median(cpu[s][m], BENCH_REPEATS));
        }
        printf("ratio director flow_%s_per_core_two ours/one 2 %.3f\n", flow_names[s],
               per_core[FLOW_TWO] / per_core[FLOW_ONE]);
    }
    printf("row director flow_per_core paper 1 6.4 Gb/s\n");
}
