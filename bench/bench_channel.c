/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * The message pipe end to end: requests per second and CPU time per request for a host that keeps
 * a window of requests open against a DPU that answers each, between threads and between
 * processes, in place and mirrored, each beside a baseline in the same run: the same exchange
 * over a socket pair (one message per write and read).
 *
 *     bench_channel [--seconds N]      N: time per case, over all repeats
 */
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "snicstore/channel.h"

enum { REPEATS = 5 };

struct bench_case {
    const char *name;
    uint32_t payload; /* bytes of request and of answer */
    uint32_t window;
};

static const struct bench_case cases[] = {
    {"echo_64B_w1", 64, 1},
    {"echo_64B_w64", 64, 64},
    {"echo_1K_w64", 1024, 64},
    {"echo_16K_w16", 16384, 16},
};

/** What a way to exchange messages reports. */
struct bench_result {
    double rate; /* requests per second */
    double cpu;  /* microseconds of all threads per request */
};

static double bench_now(void)
{
    struct timespec t;
    (void)clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static double bench_cpu(int who)
{
    struct rusage u;
    (void)getrusage(who, &u);
    return (double)(u.ru_utime.tv_sec + u.ru_stime.tv_sec) +
           (double)(u.ru_utime.tv_usec + u.ru_stime.tv_usec) * 1e-6;
}

static void bench_pin(unsigned index)
{
    cpu_set_t all;
    cpu_set_t one;
    unsigned seen = 0;
    if (sched_getaffinity(0, sizeof(all), &all) != 0 || CPU_COUNT(&all) == 0)
        return;
    index %= (unsigned)CPU_COUNT(&all);
    for (size_t i = 0; i < CPU_SETSIZE; i++) {
        if (!CPU_ISSET(i, &all) || seen++ != index)
            continue;
        CPU_ZERO(&one);
        CPU_SET(i, &one);
        (void)sched_setaffinity(0, sizeof(one), &one);
        return;
    }
}

static void bench_die(const char *what, int r)
{
    fprintf(stderr, "bench_channel: %s: %s\n", what, snic_strerror(r));
    exit(1);
}

/* ---- DPU: answers each request with as many bytes ---- */

struct bench_dpu {
    struct snic_loop *loop;
    struct snic_dma *d;
    struct snic_channel_hub *hub;
    struct snic_channel *c;
    uint32_t flags;
    int over;
};

static int dpu_message(void *ctx, struct snic_channel *c, const struct snic_channel_msg *m)
{
    struct snic_channel_slot slot;
    (void)ctx;
    int r = snic_channel_down_reserve(c, m->type, m->header_bytes, m->payload_bytes, &slot);
    if (r != 0)
        return r == SNIC_EAGAIN ? SNIC_EAGAIN : 1;
    memcpy(slot.header, m->header, m->header_bytes);
    memcpy(slot.payload, m->payload, m->payload_bytes);
    snic_channel_down_commit(c, &slot, m->payload_bytes);
    return 1;
}

static void dpu_writable(void *ctx, struct snic_channel *c)
{
    (void)ctx;
    snic_channel_resume(c);
}

static void dpu_closed(void *ctx, struct snic_channel *c, int reason)
{
    struct bench_dpu *u = ctx;
    (void)reason;
    snic_channel_close(c);
    u->over = 1;
}

static int dpu_accept(void *ctx, struct snic_channel_hub *h, const struct snic_channel_offer *o)
{
    struct bench_dpu *u = ctx;
    struct snic_channel_accept_opts a = {.opts_size = sizeof(a), .flags = u->flags};
    struct snic_channel_events e = {dpu_message, NULL, dpu_writable, dpu_closed, u};
    return snic_channel_accept(&u->c, h, o, &a, &e);
}

static void dpu_hub(struct bench_dpu *u)
{
    struct snic_channel_hub_opts o = {.opts_size = sizeof(o), .accept = dpu_accept, .ctx = u};
    size_t size = snic_channel_hub_memsize(&o);
    int r = snic_channel_hub_init(&u->hub, malloc(size), size, u->d, &o);
    if (r != 0)
        bench_die("hub", r);
}

static void dpu_serve(struct bench_dpu *u)
{
    while (!u->over)
        (void)snic_loop_once(u->loop, SNIC_NEVER);
    while (snic_channel_hub_count(u->hub) != 0)
        (void)snic_loop_once(u->loop, 1000000);
    free(snic_channel_hub_fini(u->hub));
}

/* ---- Host: keeps a window open ---- */

struct bench_host {
    struct snic_loop *loop;
    struct snic_dma *d;
    struct snic_channel_hub *hub;
    struct snic_channel *c;
    struct snic_channel_sender sender;
    const struct bench_case *k;
    uint64_t answers;
    uint32_t open;
    unsigned char *payload;
};

static void host_fill(struct bench_host *h)
{
    uint64_t head[3] = {h->answers, 0, 0};
    struct snic_iov iov = {h->payload, h->k->payload};
    while (h->open < h->k->window &&
           snic_channel_up_push(&h->sender, 1, head, sizeof(head), &iov, 1) == 0)
        h->open++;
}

static int host_message(void *ctx, struct snic_channel *c, const struct snic_channel_msg *m)
{
    struct bench_host *h = ctx;
    (void)c;
    memcpy(h->payload, m->payload, m->payload_bytes);
    h->answers++;
    h->open--;
    if (h->open <= h->k->window / 2)
        host_fill(h);
    return 1;
}

static void host_writable(void *ctx, struct snic_channel *c)
{
    (void)c;
    host_fill(ctx);
}

static void host_closed(void *ctx, struct snic_channel *c, int reason)
{
    (void)ctx;
    (void)c;
    bench_die("closed", reason);
}

static void host_open(struct bench_host *h)
{
    struct snic_channel_hub_opts o = {.opts_size = sizeof(o), .ctx = h};
    struct snic_channel_opts co = {.opts_size = sizeof(co), .kind = 1};
    struct snic_channel_events e = {host_message, NULL, host_writable, host_closed, h};
    size_t size = snic_channel_hub_memsize(&o);
    int r = snic_channel_hub_init(&h->hub, malloc(size), size, h->d, &o);
    if (r == 0)
        r = snic_channel_open(&h->c, h->hub, &co, &e);
    if (r == 0)
        r = snic_channel_sender_init(&h->sender, h->c);
    if (r != 0)
        bench_die("open", r);
    h->payload = calloc(1, h->k->payload);
}

/** Requests answered in @p seconds. */
static uint64_t host_run(struct bench_host *h, double seconds)
{
    double until = bench_now() + seconds;
    uint64_t from = h->answers;
    do {
        host_fill(h);
        for (int i = 0; i < 64; i++)
            (void)snic_loop_once(h->loop, 1000000);
    } while (bench_now() < until);
    return h->answers - from;
}

static void host_close(struct bench_host *h)
{
    while (h->open > 0) {
        h->k = &(const struct bench_case){"drain", h->k->payload, 0};
        (void)snic_loop_once(h->loop, 1000000);
    }
    snic_channel_close(h->c);
    while (snic_channel_hub_count(h->hub) != 0)
        (void)snic_loop_once(h->loop, 1000000);
    free(snic_channel_hub_fini(h->hub));
    free(h->payload);
    for (int i = 0; i < 10; i++)
        (void)snic_loop_once(h->loop, 0);
    snic_loop_close(h->loop);
}

/* ---- Two threads ---- */

static struct snic_loop *loop_open(void)
{
    struct snic_loop *l = NULL;
    int r = snic_loop_uring_open(&l, NULL);
    if (r != 0)
        bench_die("io_uring", r);
    return l;
}

static void *threads_dpu(void *arg)
{
    bench_pin(1);
    dpu_serve(arg);
    return NULL;
}

static struct bench_result bench_threads(const struct bench_case *k, uint32_t flags, double seconds)
{
    struct bench_host h = {.k = k};
    struct bench_dpu u = {.flags = flags};
    struct snic_dma_events none = {NULL, NULL, NULL, NULL};
    pthread_t t;
    h.loop = loop_open();
    u.loop = loop_open();
    int r = snic_dma_local_open(&h.d, h.loop, &none, &u.d, u.loop, &none);
    if (r != 0)
        bench_die("dma local", r);
    dpu_hub(&u);
    host_open(&h);
    if (pthread_create(&t, NULL, threads_dpu, &u) != 0)
        exit(1);
    (void)host_run(&h, seconds / 5);
    double cpu = bench_cpu(RUSAGE_SELF);
    double at = bench_now();
    uint64_t n = host_run(&h, seconds);
    struct bench_result res = {(double)n / (bench_now() - at),
                               (bench_cpu(RUSAGE_SELF) - cpu) * 1e6 / (double)(n > 0 ? n : 1)};
    host_close(&h);
    (void)pthread_join(t, NULL);
    snic_loop_close(u.loop);
    return res;
}

static struct bench_result bench_threads_mapped(const struct bench_case *k, double seconds)
{
    return bench_threads(k, 0, seconds);
}

static struct bench_result bench_threads_mirror(const struct bench_case *k, double seconds)
{
    return bench_threads(k, SNIC_CHANNEL_UNMAPPED, seconds);
}

/* ---- Two processes ---- */

static void process_accept(void *ctx, struct snic_dma *d, uint32_t pid)
{
    struct bench_dpu *u = ctx;
    (void)pid;
    u->d = d;
    dpu_hub(u);
}

static void process_dpu(const struct snic_dma_shm_opts *so, int ready)
{
    struct bench_dpu u = {.flags = 0};
    struct snic_dma_listener *l = NULL;
    bench_pin(1);
    u.loop = loop_open();
    int r = snic_dma_shm_listen(&l, u.loop, so, process_accept, &u);
    if (r != 0)
        bench_die("listen", r);
    (void)!write(ready, "x", 1);
    while (u.hub == NULL)
        (void)snic_loop_once(u.loop, SNIC_NEVER);
    dpu_serve(&u);
    snic_dma_shm_unlisten(l);
    _exit(0);
}

static struct bench_result bench_processes(const struct bench_case *k, double seconds)
{
    char path[64];
    char byte;
    int ready[2];
    struct snic_dma_shm_opts so = {.opts_size = sizeof(so), .path = path};
    struct snic_dma_events none = {NULL, NULL, NULL, NULL};
    struct bench_host h = {.k = k};
    (void)snprintf(path, sizeof(path), "/tmp/bench_channel.%d", (int)getpid());
    (void)fflush(NULL);
    if (pipe(ready) != 0)
        exit(1);
    pid_t pid = fork();
    if (pid == 0)
        process_dpu(&so, ready[1]);
    (void)!read(ready[0], &byte, 1);
    (void)close(ready[0]);
    (void)close(ready[1]);
    h.loop = loop_open();
    int r = snic_dma_shm_connect(&h.d, h.loop, &so, &none);
    if (r != 0)
        bench_die("connect", r);
    host_open(&h);
    double child = bench_cpu(RUSAGE_CHILDREN);
    double cpu = bench_cpu(RUSAGE_SELF);
    double at = bench_now();
    uint64_t n = host_run(&h, seconds);
    double took = bench_now() - at;
    cpu = bench_cpu(RUSAGE_SELF) - cpu;
    host_close(&h);
    (void)waitpid(pid, NULL, 0);
    cpu += bench_cpu(RUSAGE_CHILDREN) - child;
    return (struct bench_result){(double)n / took, cpu * 1e6 / (double)(n > 0 ? n : 1)};
}

/* ---- The baseline: a socket pair ---- */

struct bench_socket {
    int fd;
    uint32_t bytes;
};

static void *socket_echo(void *arg)
{
    const struct bench_socket *s = arg;
    unsigned char *buf = malloc(s->bytes);
    bench_pin(1);
    for (;;) {
        ssize_t n = recv(s->fd, buf, s->bytes, 0);
        if (n <= 0 || send(s->fd, buf, (size_t)n, MSG_NOSIGNAL) != n)
            break;
    }
    free(buf);
    return NULL;
}

static struct bench_result bench_socketpair(const struct bench_case *k, double seconds)
{
    int fd[2];
    pthread_t t;
    uint32_t bytes = k->payload + 24;
    unsigned char *buf = calloc(1, bytes);
    if (socketpair(AF_UNIX, SOCK_SEQPACKET, 0, fd) != 0)
        exit(1);
    for (int i = 0; i < 2; i++) {
        int size = 1 << 22;
        (void)setsockopt(fd[i], SOL_SOCKET, SO_SNDBUF, &size, sizeof(size));
    }
    struct bench_socket s = {fd[1], bytes};
    if (pthread_create(&t, NULL, socket_echo, &s) != 0)
        exit(1);
    uint32_t window = k->window < 8 ? k->window : 8; /* what the kernel's buffers take for sure */
    for (uint32_t i = 0; i < window; i++)
        (void)!send(fd[0], buf, bytes, 0);
    double cpu = bench_cpu(RUSAGE_SELF);
    double at = bench_now();
    uint64_t n = 0;
    do {
        for (int i = 0; i < 64; i++, n++)
            if (recv(fd[0], buf, bytes, 0) <= 0 || send(fd[0], buf, bytes, 0) <= 0)
                exit(1);
    } while (bench_now() < at + seconds);
    struct bench_result res = {(double)n / (bench_now() - at),
                               (bench_cpu(RUSAGE_SELF) - cpu) * 1e6 / (double)n};
    (void)shutdown(fd[0], SHUT_RDWR);
    (void)pthread_join(t, NULL);
    (void)close(fd[0]);
    (void)close(fd[1]);
    free(buf);
    return res;
}

/* ---- Rows ---- */

struct bench_way {
    const char *who;
    struct bench_result (*run)(const struct bench_case *k, double seconds);
};

static const struct bench_way ways[] = {
    {"ours", bench_threads_mapped},
    {"ours_mirrored", bench_threads_mirror},
    {"ours_two_processes", bench_processes},
    {"socketpair", bench_socketpair},
};
enum { WAYS = sizeof(ways) / sizeof(ways[0]) };

static int bench_compare(const void *a, const void *b)
{
    double x = *(const double *)a;
    double y = *(const double *)b;
    return (x > y) - (x < y);
}

static double bench_median(double *v)
{
    qsort(v, REPEATS, sizeof(*v), bench_compare);
    return v[REPEATS / 2];
}

static void bench_case_run(const struct bench_case *k, double seconds)
{
    double rate[WAYS][REPEATS];
    double cpu[WAYS][REPEATS];
    double median[WAYS];
    for (int r = 0; r < REPEATS; r++) {
        for (int w = 0; w < WAYS; w++) {
            struct bench_result res = ways[w].run(k, seconds / REPEATS / WAYS);
            rate[w][r] = res.rate;
            cpu[w][r] = res.cpu;
        }
    }
    for (int w = 0; w < WAYS; w++) {
        median[w] = bench_median(rate[w]);
        printf("row channel %s %s 2 %.0f op/s\n", k->name, ways[w].who, median[w]);
        printf("row channel %s_cpu %s 2 %.3f us/op\n", k->name, ways[w].who, bench_median(cpu[w]));
    }
    printf("ratio channel %s ours/socketpair 2 %.2f\n", k->name, median[0] / median[WAYS - 1]);
    printf("ratio channel %s ours_two_processes/socketpair 2 %.2f\n", k->name,
           median[2] / median[WAYS - 1]);
    (void)fflush(stdout);
}

int main(int argc, char **argv)
{
    double seconds = 2;
    if (argc == 3 && strcmp(argv[1], "--seconds") == 0)
        seconds = strtod(argv[2], NULL);
    if ((argc != 1 && argc != 3) || !(seconds > 0)) {
        fprintf(stderr, "usage: bench_channel [--seconds N]\n");
        return 2;
    }
    bench_pin(0);
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
        bench_case_run(&cases[i], seconds);
    return 0;
}
