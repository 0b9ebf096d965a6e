/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * Two threads, a loop and a handle each, that meet only through sockets and posted messages: for
 * the thread sanitizer, and for echo without copying.
 */
#include <stdatomic.h>
#include <stdlib.h>

#include "snicstore/net.h"
#include "support.h"

#define CONNS 8
#define PIECE 1500

/* ---- The server echoes out of the buffers that it is lent ---- */

struct echo {
    struct snic_net_send_req s; /* first free member of a pool of its own */
    struct snic_iov iov;
    struct snic_net_buf *buf;
    struct server_conn *conn;
};

struct server_conn {
    struct server *server;
    struct snic_net_conn *c;
    struct echo echoes[16]; /* at least recv_buffers */
    int eof;
};

struct server {
    struct snic_net *net;
    struct server_conn conns[CONNS];
    uint32_t accepted;
    uint32_t closed;
    uint32_t bad;
};

static void echo_done(struct snic_net_send_req *s)
{
    struct echo *e = SNIC_CONTAINER(s, struct echo, s);
    snic_net_put(e->conn->server->net, e->buf);
    e->buf = NULL;
}

static void echo_recv(void *ctx, struct snic_net_conn *c, struct snic_net_buf *b)
{
    struct server_conn *v = ctx;
    struct echo *e = v->echoes;
    while (e->buf != NULL)
        e++;
    e->buf = b;
    e->conn = v;
    e->iov.base = b->data;
    e->iov.size = b->size;
    memset(&e->s, 0, sizeof(e->s));
    e->s.done = echo_done;
    e->s.iov = &e->iov;
    e->s.iov_count = 1;
    e->s.region = SNIC_NO_REGION;
    if (snic_net_send(c, &e->s) != 1)
        v->server->bad++;
}

static void echo_eof(void *ctx, struct snic_net_conn *c)
{
    (void)ctx;
    snic_net_shutdown(c);
}

static void echo_closed(void *ctx, struct snic_net_conn *c, int reason)
{
    struct server_conn *v = ctx;
    (void)c;
    v->server->closed++;
    v->server->bad += reason != 0;
}

static void echo_accept(void *ctx, struct snic_net_conn *c, const struct snic_net_addr *peer)
{
    static const struct snic_net_stream_events events = {
        .recv = echo_recv, .eof = echo_eof, .closed = echo_closed};
    struct server *s = ctx;
    struct server_conn *v = &s->conns[s->accepted++];
    (void)peer;
    v->server = s;
    v->c = c;
    snic_net_bind(c, &events, v);
}

/* ---- The client sends and compares ---- */

struct client_conn {
    struct client *client;
    struct snic_net_conn *c;
    struct snic_net_send_req s;
    struct snic_iov iov;
    unsigned char bytes[PIECE];
    uint64_t sent;
    uint64_t received;
    uint8_t seed;
};

struct client {
    struct snic_net *net;
    struct client_conn conns[CONNS];
    uint64_t bytes;
    uint32_t closed;
    uint32_t bad;
};

static void client_send(struct client_conn *k)
{
    uint64_t left = k->client->bytes - k->sent;
    size_t size = left < PIECE ? (size_t)left : PIECE;
    if (size == 0) {
        snic_net_shutdown(k->c);
        return;
    }
    for (size_t i = 0; i < size; i++)
        k->bytes[i] = (unsigned char)((k->sent + i) * 11 + k->seed);
    k->iov.base = k->bytes;
    k->iov.size = size;
    k->sent += size;
    if (snic_net_send(k->c, &k->s) != 1)
        k->client->bad++;
}

static void client_done(struct snic_net_send_req *s)
{
    struct client_conn *k = SNIC_CONTAINER(s, struct client_conn, s);
    k->client->bad += s->result != 0;
    client_send(k);
}

static void client_connected(void *ctx, struct snic_net_conn *c, int error)
{
    struct client_conn *k = ctx;
    (void)c;
    k->client->bad += error != 0;
    if (error == 0)
        client_send(k);
}

static void client_recv(void *ctx, struct snic_net_conn *c, struct snic_net_buf *b)
{
    struct client_conn *k = ctx;
    for (uint32_t i = 0; i < b->size; i++)
        k->client->bad += b->data[i] != (unsigned char)((k->received + i) * 11 + k->seed);
    k->received += b->size;
    snic_net_put(c->net, b);
}

static void client_closed(void *ctx, struct snic_net_conn *c, int reason)
{
    struct client_conn *k = ctx;
    (void)c;
    k->client->closed++;
    k->client->bad += reason != 0 || k->received != k->client->bytes;
}

/* ---- The threads ---- */

struct town {
    struct snic_net_addr addr; /* written before `ready`, read after */
    atomic_int ready;          /* 1: listening, -1: it cannot */
    atomic_int bad;
    uint64_t bytes;
};

static void serve(struct town *t, struct snic_loop *l)
{
    struct server *s = calloc(1, sizeof(*s));
    struct snic_net_listener *li = NULL;
    struct snic_net_addr a;
    int e = snic_net_uring_open(&s->net, l, NULL);
    if (e == 0)
        e = snic_net_addr_parse(&a, "127.0.0.1:0");
    if (e == 0)
        e = snic_net_listen(s->net, &a, 0, echo_accept, s, &li);
    if (e == 0)
        (void)snic_net_listen_addr(li, &t->addr);
    /* Release pairs with the acquire in talk(): the address is seen. */
    atomic_store_explicit(&t->ready, e == 0 ? 1 : -1, memory_order_release);
    while (e == 0 && s->closed < CONNS)
        (void)snic_loop_once(l, 10000000);
    atomic_fetch_add_explicit(&t->bad, (int)s->bad + (e != 0), memory_order_relaxed);
    snic_net_shut(s->net);
    free(s);
}

static void talk(struct town *t, struct snic_loop *l)
{
    static const struct snic_net_stream_events events = {
        .connected = client_connected, .recv = client_recv, .closed = client_closed};
    struct client *k = calloc(1, sizeof(*k));
    int ready = 0;
    while (ready == 0) /* acquire pairs with the release in serve() */
        ready = atomic_load_explicit(&t->ready, memory_order_acquire);
    k->bytes = t->bytes;
    int e = ready < 0 ? SNIC_EIO : snic_net_uring_open(&k->net, l, NULL);
    for (uint32_t i = 0; i < CONNS && e == 0; i++) {
        struct client_conn *c = &k->conns[i];
        c->client = k;
        c->seed = (uint8_t)i;
        c->s.done = client_done;
        c->s.iov = &c->iov;
        c->s.iov_count = 1;
        c->s.region = SNIC_NO_REGION;
        e = snic_net_connect(k->net, &t->addr, &events, c, &c->c);
    }
    while (e == 0 && k->closed < CONNS)
        (void)snic_loop_once(l, 10000000);
    atomic_fetch_add_explicit(&t->bad, (int)k->bad + (e != 0), memory_order_relaxed);
    snic_net_shut(k->net);
    free(k);
}

static void town_body(void *ctx, unsigned index)
{
    struct town *t = ctx;
    struct snic_loop *l = NULL;
    int e = snic_loop_uring_open(&l, NULL);
    if (e != 0) {
        atomic_store_explicit(&t->ready, -1, memory_order_release); /* as in serve() */
        atomic_fetch_add_explicit(&t->bad, 1000000, memory_order_relaxed);
        return;
    }
    if (index == 0)
        serve(t, l);
    else
        talk(t, l);
    snic_loop_close(l);
}

/* Handles of different loops would share something they must not. */
static void test_net_two_threads_echo_intact(void **state)
{
    struct town t;
    (void)state;
    memset(&t.addr, 0, sizeof(t.addr));
    t.bytes = support_scale(300000, 30000000);
    atomic_init(&t.ready, 0);
    atomic_init(&t.bad, 0);
    support_threads(2, town_body, &t);
    int bad = atomic_load_explicit(&t.bad, memory_order_relaxed); /* the threads are joined */
    if (bad >= 1000000)
        support_skip("no io_uring");
    assert_int_equal(bad, 0);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_net_two_threads_echo_intact)};
    return SUPPORT_MAIN(argc, argv, tests);
}
