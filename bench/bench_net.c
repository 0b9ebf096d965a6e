/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * The net door over loopback TCP: an echo server on io_uring against a plain epoll server, both
 * under the same client; zero-copy sends against copying ones, to find the size from which they
 * pay; trains of datagrams (net_dgram.c). Prints the rows of the benchmark contract: medians of
 * interleaved repeats, each rate with the server's CPU time per operation.
 *
 *   bench_net [--seconds N] [CASE]    N: measured time of one case; CASE: a part of case names
 */
#include "net_dgram.h"

#include "snicstore/net.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/tcp.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define REPEATS 5
#define CONNS 16
#define BUFFER (256 * 1024)

static uint64_t clock_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * UINT64_C(1000000000) + (uint64_t)t.tv_nsec;
}

static uint64_t cpu_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return (uint64_t)t.tv_sec * UINT64_C(1000000000) + (uint64_t)t.tv_nsec;
}

static void pin(int cpu)
{
    cpu_set_t set;
    CPU_ZERO(&set);
    CPU_SET((size_t)cpu, &set);
    (void)sched_setaffinity(0, sizeof(set), &set);
}

static void die(const char *what)
{
    (void)fprintf(stderr, "bench_net: %s\n", what);
    exit(1);
}

/* Memory that the server (a child process) and the client share. */
struct shared {
    volatile int port;        /* 0: not listening yet */
    volatile int stop;        /* set by the client when it has measured */
    volatile uint64_t cpu_ns; /* CPU time of the server since `mark` */
    volatile int mark;        /* set by the client after its warm-up: CPU time counts from here */
};

static struct shared *shared;

struct test {
    const char *name;
    int baseline; /* 0: the library, zero-copy if push; 1: the epoll server, or a copying push */
    int push;     /* 1: the server sends without requests, the client discards */
    uint32_t size;
    uint32_t conns;
    uint32_t depth;
};

/* ---- The library's server ---- */

struct echo {
    struct snic_net_send_req s;
    struct snic_iov iov;
    struct snic_net_buf *buf;
    struct echo *next;
};

struct ours {
    struct snic_net *net;
    const struct test *test;
    struct echo *free;
    struct echo echoes[4096];
    unsigned char *bytes;
};

static struct ours ours;

static void ours_echoed(struct snic_net_send_req *s)
{
    struct echo *e = SNIC_CONTAINER(s, struct echo, s);
    snic_net_put(ours.net, e->buf);
    e->next = ours.free;
    ours.free = e;
}

static void ours_recv(void *ctx, struct snic_net_conn *c, struct snic_net_buf *b)
{
    struct echo *e = ours.free;
    (void)ctx;
    if (e == NULL)
        die("the server has no free send request");
    ours.free = e->next;
    e->buf = b;
    e->iov.base = b->data;
    e->iov.size = b->size;
    e->s.done = ours_echoed;
    e->s.iov = &e->iov;
    e->s.iov_count = 1;
    e->s.region = SNIC_NO_REGION;
    if (snic_net_send(c, &e->s) != 1)
        ours_echoed(&e->s);
}

static void ours_push(struct snic_net_send_req *s)
{
    struct snic_net_conn *c = (struct snic_net_conn *)SNIC_CONTAINER(s, struct echo, s)->buf;
    if (s->result == 0)
        (void)snic_net_send(c, s);
}

static void ours_eof(void *ctx, struct snic_net_conn *c)
{
    (void)ctx;
    snic_net_abort(c);
}

static void ours_closed(void *ctx, struct snic_net_conn *c, int reason)
{
    (void)ctx;
    (void)c;
    (void)reason;
}

static void ours_accept(void *ctx, struct snic_net_conn *c, const struct snic_net_addr *peer)
{
    static const struct snic_net_stream_events events = {
        .recv = ours_recv, .eof = ours_eof, .closed = ours_closed};
    (void)ctx;
    (void)peer;
    snic_net_bind(c, &events, NULL);
    for (uint32_t i = 0; ours.test->push && i < ours.test->depth; i++) {
        struct echo *e = ours.free;
        ours.free = e->next;
        e->buf = (struct snic_net_buf *)c;
        e->iov.base = ours.bytes;
        e->iov.size = ours.test->size;
        e->s.done = ours_push;
        e->s.iov = &e->iov;
        e->s.iov_count = 1;
        e->s.flags = ours.test->baseline == 0 ? SNIC_NET_SEND_ZC : 0;
        e->s.region = SNIC_NO_REGION;
        (void)snic_net_send(c, &e->s);
    }
}

static void ours_serve(const struct test *t)
{
    struct snic_net_uring_opts o;
    struct snic_loop *l = NULL;
    struct snic_net_listener *li = NULL;
    struct snic_net_addr a;
    uint64_t start = 0;
    memset(&o, 0, sizeof(o));
    o.opts_size = sizeof(o);
    o.zc_bytes_min = 1;
    o.recv_size = 65536;
    if (snic_loop_uring_open(&l, NULL) != 0 || snic_net_uring_open(&ours.net, l, &o) != 0)
        die("cannot open the loop or the net on io_uring");
    ours.test = t;
    ours.bytes = calloc(1, t->size);
    for (size_t i = 0; i < SNIC_COUNTOF(ours.echoes); i++) {
        ours.echoes[i].next = ours.free;
        ours.free = &ours.echoes[i];
    }
    if (snic_net_addr_parse(&a, "127.0.0.1:0") != 0 ||
        snic_net_listen(ours.net, &a, 0, ours_accept, NULL, &li) != 0)
        die("cannot listen");
    (void)snic_net_listen_addr(li, &a);
    shared->port = a.port;
    while (!shared->stop) {
        (void)snic_loop_once(l, 10000000);
        if (shared->mark && start == 0)
            start = cpu_ns();
    }
    shared->cpu_ns = cpu_ns() - start;
    snic_net_shut(ours.net);
    snic_loop_close(l);
}

/* ---- The baseline: a plain epoll server ---- */

struct plain {
    int fd;
    size_t from;
    size_t to;
    unsigned char bytes[BUFFER];
};

static struct plain plain[CONNS];

static void plain_watch(int ep, struct plain *p, int op, uint32_t events)
{
    struct epoll_event ev = {.events = events, .data.ptr = p};
    if (epoll_ctl(ep, op, p->fd, &ev) != 0)
        die("epoll_ctl failed");
}

/* Echo all received bytes; when the send buffer is full, continue at EPOLLOUT. */
static void plain_echo(int ep, struct plain *p)
{
    int waiting = p->from < p->to;
    for (;;) {
        while (p->from < p->to) {
            ssize_t n = send(p->fd, p->bytes + p->from, p->to - p->from, MSG_NOSIGNAL);
            if (n < 0) {
                if (errno == EAGAIN && !waiting)
                    plain_watch(ep, p, EPOLL_CTL_MOD, EPOLLOUT);
                return;
            }
            p->from += (size_t)n;
        }
        ssize_t n = recv(p->fd, p->bytes, sizeof(p->bytes), 0);
        if (n == 0)
            (void)epoll_ctl(ep, EPOLL_CTL_DEL, p->fd, NULL);
        if (n <= 0)
            break;
        p->from = 0;
        p->to = (size_t)n;
    }
    if (waiting)
        plain_watch(ep, p, EPOLL_CTL_MOD, EPOLLIN);
}

static int plain_listen(void)
{
    struct sockaddr_in a;
    socklen_t size = sizeof(a);
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    memset(&a, 0, sizeof(a));
    a.sin_family = AF_INET;
    a.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    if (fd < 0 || bind(fd, (struct sockaddr *)&a, sizeof(a)) != 0 || listen(fd, 128) != 0 ||
        getsockname(fd, (struct sockaddr *)&a, &size) != 0)
        die("cannot listen");
    shared->port = ntohs(a.sin_port);
    return fd;
}

static void plain_serve(void)
{
    struct epoll_event ev[CONNS + 1];
    struct plain listener = {.fd = plain_listen()};
    uint64_t start = 0;
    int one = 1;
    int count = 0;
    int ep = epoll_create1(EPOLL_CLOEXEC);
    plain_watch(ep, &listener, EPOLL_CTL_ADD, EPOLLIN);
    while (!shared->stop) {
        int n = epoll_wait(ep, ev, CONNS + 1, 10);
        if (shared->mark && start == 0)
            start = cpu_ns();
        for (int i = 0; i < n; i++) {
            struct plain *p = ev[i].data.ptr;
            if (p != &listener) {
                plain_echo(ep, p);
                continue;
            }
            int fd = accept4(listener.fd, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
            if (fd < 0 || count == CONNS)
                continue;
            (void)setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
            plain[count].fd = fd;
            plain_watch(ep, &plain[count++], EPOLL_CTL_ADD, EPOLLIN);
        }
    }
    shared->cpu_ns = cpu_ns() - start;
}

/* ---- The client, the same for both ---- */

struct client {
    int fd;
    uint64_t sent;
    uint64_t received;
};

static struct client clients[CONNS];
static unsigned char client_bytes[4u << 20];

static void client_connect(int ep, uint32_t i)
{
    struct sockaddr_in a;
    struct epoll_event ev = {.events = EPOLLIN, .data.u32 = i};
    int one = 1;
    memset(&a, 0, sizeof(a));
    a.sin_family = AF_INET;
    a.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    a.sin_port = htons((uint16_t)shared->port);
    memset(&clients[i], 0, sizeof(clients[i]));
    clients[i].fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (connect(clients[i].fd, (struct sockaddr *)&a, sizeof(a)) != 0)
        die("cannot connect");
    (void)setsockopt(clients[i].fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
    (void)fcntl(clients[i].fd, F_SETFL, O_NONBLOCK);
    if (epoll_ctl(ep, EPOLL_CTL_ADD, clients[i].fd, &ev) != 0)
        die("epoll_ctl failed");
}

/* Keep `depth` messages in flight. */
static void client_send(const struct test *t, struct client *c)
{
    while (!t->push) {
        uint64_t room = c->received + (uint64_t)t->depth * t->size - c->sent;
        if (room == 0)
            return;
        ssize_t n =
            send(c->fd, client_bytes, room < sizeof(client_bytes) ? room : BUFFER, MSG_NOSIGNAL);
        if (n <= 0)
            return; /* send buffer full: retried after the next echo */
        c->sent += (uint64_t)n;
    }
}

static void client_recv(const struct test *t, struct client *c)
{
    /* The kernel discards a push (MSG_TRUNC), so that the client does not limit the sender. */
    ssize_t n = recv(c->fd, client_bytes, sizeof(client_bytes), t->push ? MSG_TRUNC : 0);
    if (n > 0)
        c->received += (uint64_t)n;
}

struct result {
    double rate;   /* operations per second */
    double cpu_us; /* CPU time of the server per operation */
};

static struct result client_run(const struct test *t, double seconds)
{
    struct epoll_event ev[CONNS];
    uint64_t base = 0;
    uint64_t bytes = 0;
    int ep = epoll_create1(EPOLL_CLOEXEC);
    while (shared->port == 0)
        (void)usleep(1000);
    for (uint32_t i = 0; i < t->conns; i++)
        client_connect(ep, i);
    uint64_t start = clock_ns();
    uint64_t begin = start + (uint64_t)(seconds * 2e8); /* a fifth of the time to warm up */
    uint64_t end = begin + (uint64_t)(seconds * 1e9);
    for (uint32_t i = 0; i < t->conns; i++)
        client_send(t, &clients[i]);
    while (clock_ns() < end) {
        int n = epoll_wait(ep, ev, CONNS, 10);
        for (int i = 0; i < n; i++) {
            client_recv(t, &clients[ev[i].data.u32]);
            client_send(t, &clients[ev[i].data.u32]);
        }
        if (base == 0 && clock_ns() >= begin) {
            for (uint32_t i = 0; i < t->conns; i++)
                base += clients[i].received;
            base += base == 0;
            begin = clock_ns();
            shared->mark = 1;
        }
    }
    for (uint32_t i = 0; i < t->conns; i++)
        bytes += clients[i].received;
    double took = (double)(clock_ns() - begin) / 1e9;
    shared->stop = 1;
    for (uint32_t i = 0; i < t->conns; i++)
        (void)close(clients[i].fd);
    (void)close(ep);
    /* cpu_us is the number of operations until run() divides by it. */
    struct result r = {(double)(bytes - base) / t->size / took, (double)(bytes - base) / t->size};
    return r;
}

static struct result run(const struct test *t, double seconds)
{
    int status = 0;
    memset(shared, 0, sizeof(*shared));
    pid_t pid = fork();
    if (pid < 0)
        die("fork failed");
    if (pid == 0) {
        pin(0);
        if (t->baseline == 0 || t->push)
            ours_serve(t);
        else
            plain_serve();
        _exit(0);
    }
    pin(1);
    struct result r = client_run(t, seconds);
    if (waitpid(pid, &status, 0) != pid || status != 0)
        die("the server process failed");
    r.cpu_us = r.cpu_us > 0 ? (double)shared->cpu_ns / 1000.0 / r.cpu_us : 0;
    return r;
}

/* ---- Rows ---- */

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a;
    double y = *(const double *)b;
    return (x > y) - (x < y);
}

static double median(double *v)
{
    qsort(v, REPEATS, sizeof(*v), by_value);
    return v[REPEATS / 2];
}

/* The spread of a fixed computation: how much the machine itself varies between repeats. */
static void noise(void)
{
    double v[REPEATS];
    for (int i = 0; i < REPEATS; i++) {
        volatile uint64_t x = 1;
        uint64_t start = clock_ns();
        for (int k = 0; k < 20000000; k++)
            x = x * UINT64_C(6364136223846793005) + 1442695040888963407u;
        v[i] = (double)(clock_ns() - start);
    }
    double m = median(v);
    printf("row net noise - - %.1f %%\n", (v[REPEATS - 1] - v[0]) / m * 100);
}

static void compare(struct test t, const char *peer, const char *unit, double seconds)
{
    double rate[2][REPEATS];
    double cpu[2][REPEATS];
    const char *names[2] = {"ours", peer};
    for (int i = 0; i < REPEATS; i++) {
        for (t.baseline = 0; t.baseline < 2; t.baseline++) {
            struct result r = run(&t, seconds);
            rate[t.baseline][i] = r.rate;
            cpu[t.baseline][i] = r.cpu_us;
        }
    }
    double r[2] = {median(rate[0]), median(rate[1])};
    double c[2] = {median(cpu[0]), median(cpu[1])};
    for (int k = 0; k < 2; k++) {
        printf("row net %s %s 1 %.0f %s\n", t.name, names[k], r[k], unit);
        printf("row net %s_cpu %s 1 %.3f us/op\n", t.name, names[k], c[k]);
    }
    printf("ratio net %s ours/%s 1 %.2f\n", t.name, peer, r[0] / r[1]);
    printf("ratio net %s_cpu ours/%s 1 %.2f\n", t.name, peer, c[1] / c[0]);
    (void)fflush(stdout);
}

int main(int argc, char **argv)
{
    static const struct test tests[] = {
        {"echo_64B_c16_d1", 0, 0, 64, 16, 1},    {"echo_64B_c16_d16", 0, 0, 64, 16, 16},
        {"echo_64B_c1_d1", 0, 0, 64, 1, 1},      {"echo_4KiB_c16_d4", 0, 0, 4096, 16, 4},
        {"echo_64KiB_c4_d2", 0, 0, 65536, 4, 2}, {"push_zc_16KiB", 0, 1, 16384, 1, 16},
        {"push_zc_64KiB", 0, 1, 65536, 1, 16},   {"push_zc_256KiB", 0, 1, 262144, 1, 8},
        {"push_zc_1MiB", 0, 1, 1048576, 1, 4},
    };
    const char *only = "";
    double seconds = 0.4;
    for (int i = 1; i < argc; i++) {
        if (strcmp(argv[i], "--seconds") == 0 && i + 1 < argc)
            seconds = strtod(argv[++i], NULL) / REPEATS / 2;
        else
            only = argv[i];
    }
    if (seconds <= 0)
        die("--seconds needs a number above 0");
    (void)signal(SIGPIPE, SIG_IGN);
    shared = mmap(NULL, sizeof(*shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (shared == MAP_FAILED)
        die("mmap failed");
    noise();
    for (size_t i = 0; i < SNIC_COUNTOF(tests); i++) {
        if (strstr(tests[i].name, only) != NULL)
            compare(tests[i], tests[i].push ? "copying" : "epoll", "op/s", seconds);
    }
    if (strstr("dgram_train", only) != NULL)
        net_dgram_rows(seconds);
    return 0;
}
