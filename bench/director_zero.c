/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * What zero copy is worth (the paper's Fig. 23): a client reads 1 to 128 KiB of a file through
 * director and offload engine, one read at a time (latency) and sixteen (CPU time of the node's
 * thread), in four ways:
 *   as_is     the reply leaves the buffer that the file was read into, by send
 *   copies    the same with the two copies that it saves: file buffer -> reply -> packet
 *   zc        by SEND_ZC, whether it pays or not: on loopback the kernel copies all the same
 *   default   the threshold that the net door has by itself
 */
#include "director_bench.h"

#include <arpa/inet.h>
#include <netinet/tcp.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

enum { ZERO_FILE = 16 << 20, ZERO_MESSAGE = 8, ZERO_HEAD = 8, ZERO_DEPTH = 16, ZERO_REPEATS = 5 };
enum { ZERO_SIZES = 5, ZERO_SAMPLES = 1 << 17 };
enum zero_mode { ZERO_AS_IS, ZERO_COPIES, ZERO_ZC, ZERO_DEFAULT, ZERO_MODES };

static const uint32_t zero_sizes[ZERO_SIZES] = {1 << 10, 4 << 10, 16 << 10, 64 << 10, 128 << 10};
static const char *const zero_names[ZERO_MODES] = {"as_is", "copies", "zc", "default"};

struct zero_node {
    struct snic_loop *loop;
    struct snic_net *net;
    struct snic_io *io;
    struct snic_files *files;
    struct snic_offload *offload;
    struct snic_director *d;
    void *files_mem, *offload_mem, *director_mem;
    unsigned char *scratch;
    struct snic_loop_msg stop;
    struct snic_net_addr at;
    pthread_t thread;
    uint64_t file;
    uint64_t zc_sends;
    const char *path;
    enum zero_mode mode;
    _Atomic int ready;
    int done;
};

/* ---- The user's functions: a message is {offset, size} ---- */

static int64_t zero_frame(void *ctx, const unsigned char *data, size_t size, uint64_t *state)
{
    (void)ctx;
    (void)data;
    (void)state;
    return size >= ZERO_MESSAGE ? ZERO_MESSAGE : 0;
}

static void zero_predicate(void *ctx, struct snic_offload *o, uint64_t *user,
                           const unsigned char *msg, uint32_t size,
                           struct snic_director_verdict *out)
{
    (void)ctx;
    (void)o;
    (void)user;
    (void)msg;
    (void)size;
    out->route = SNIC_DIRECTOR_DPU;
}

static int zero_func(void *ctx, const struct snic_offload *o, const struct snic_offload_msg *msg,
                     struct snic_offload_read *out, struct snic_offload_reply *reply)
{
    const struct zero_node *n = ctx;
    (void)o;
    (void)reply;
    out->file = n->file;
    out->offset = snic_get_le32(msg->data);
    out->size = snic_get_le32(msg->data + 4);
    return 0;
}

static enum snic_offload_verdict zero_reply(void *ctx, const struct snic_offload_msg *msg,
                                            const struct snic_offload_read *op,
                                            const unsigned char *data, int64_t result, uint64_t now,
                                            struct snic_offload_reply *out)
{
    const struct zero_node *n = ctx;
    (void)now;
    bench_check(result == op->size, "read");
    if (n->mode == ZERO_COPIES) {
        memcpy(n->scratch, data, op->size);
        memcpy((void *)(uintptr_t)data, n->scratch, op->size);
    }
    memcpy(out->header, msg->data, ZERO_HEAD);
    out->header_size = ZERO_HEAD;
    out->take = op->size;
    return SNIC_OFFLOAD_SEND;
}

/* ---- The node, on a thread of its own ---- */

static void zero_drained(void *ctx)
{
    ((struct zero_node *)ctx)->done = 1;
}

static void zero_stop(struct snic_loop_msg *m)
{
    struct zero_node *n = SNIC_CONTAINER(m, struct zero_node, stop);
    snic_director_drain(n->d, zero_drained, n);
}

static void zero_open_files(struct zero_node *n, const char *path)
{
    struct snic_io_uring_opts io = {
        .opts_size = sizeof(io), .path = path, .flags = SNIC_IO_OPEN_CREATE, .size = 64u << 20};
    struct snic_files_format_opts fo = {.opts_size = sizeof(fo)};
    struct snic_files_req r = {.op = SNIC_FILES_CREATE, .name = "f", .name_size = 1};
    struct snic_files_info info;
    int os = 0;
    bench_check(snic_io_uring_open(&n->io, n->loop, &io, &os) == 0, "file");
    bench_check(snic_files_format(n->io, &fo) == 0 && snic_files_probe(n->io, &info) == 0,
                "format");
    size_t size = snic_files_memsize(&info, NULL);
    n->files_mem = bench_memory(size);
    bench_check(snic_files_mount(&n->files, n->files_mem, size, n->io, NULL) == 0, "mount");
    bench_check(snic_files_run(n->files, &r) == 0, "create");
    n->file = r.id;
    memset(n->scratch, 'z', 1 << 20);
    for (uint64_t at = 0; at < ZERO_FILE; at += 1 << 20) {
        struct snic_files_req w = {.op = SNIC_FILES_WRITE,
                                   .file = n->file,
                                   .offset = at,
                                   .length = 1 << 20,
                                   .buf = {n->scratch, 1 << 20},
                                   .region = SNIC_NO_REGION};
        bench_check(snic_files_run(n->files, &w) == 1 << 20, "write");
    }
}

/* On the thread: the loop is its own from its first turn on. */
static void zero_begin(struct zero_node *n)
{
    static const uint32_t zc[ZERO_MODES] = {UINT32_MAX, UINT32_MAX, 1, 0};
    struct snic_net_uring_opts no = {.opts_size = sizeof(no), .zc_bytes_min = zc[n->mode]};
    struct snic_offload_user ou = {.func = zero_func, .reply = zero_reply, .ctx = n};
    struct snic_offload_opts oo = {.opts_size = sizeof(oo),
                                   .key_size = 8,
                                   .item_size = 8,
                                   .cache_capacity = 16,
                                   .contexts = 64,
                                   .read_max = 128 << 10};
    struct snic_director_user u = {.frame = zero_frame,
                                   .predicate = zero_predicate,
                                   .protocol_error = bench_refused,
                                   .host_gone = bench_host_gone,
                                   .ctx = n};
    struct snic_director_opts o = {.opts_size = sizeof(o),
                                   .flags = SNIC_DIRECTOR_IN_ORDER,
                                   .conns_max = 8,
                                   .conn_bytes = 8u << 20};
    bench_check(snic_net_uring_open(&n->net, n->loop, &no) == 0, "net");
    zero_open_files(n, n->path);
    size_t size = snic_offload_memsize(&oo);
    n->offload_mem = bench_memory(size);
    bench_check(snic_offload_init(&n->offload, n->offload_mem, size, n->loop, n->files, &ou, &oo) ==
                    0,
                "engine");
    size = snic_director_memsize(&o);
    n->director_mem = bench_memory(size);
    bench_check(snic_director_init(&n->d, n->director_mem, size, n->net, n->offload, &u, &o) == 0,
                "director");
    bench_check(snic_net_addr_parse(&n->at, "127.0.0.1:0") == 0, "address");
    bench_check(snic_director_listen(n->d, &n->at, 0, &n->at) == 0, "listen");
}

static void *zero_main(void *ctx)
{
    struct zero_node *n = ctx;
    zero_begin(n);
    atomic_store(&n->ready, 1);
    while (!n->done)
        (void)snic_loop_once(n->loop, SNIC_NEVER);
    free(snic_director_fini(n->d));
    free(snic_offload_fini(n->offload));
    (void)snic_files_unmount(n->files);
    free(n->files_mem);
    snic_io_close(n->io);
    n->zc_sends = n->net->stats.zc_sends;
    snic_net_shut(n->net);
    return NULL;
}

static void zero_open(struct zero_node *n, enum zero_mode mode, const char *path)
{
    memset(n, 0, sizeof(*n));
    n->mode = mode;
    n->path = path;
    n->scratch = bench_memory(1 << 20);
    n->stop.fn = zero_stop;
    bench_check(snic_loop_uring_open(&n->loop, NULL) == 0, "loop");
    bench_check(pthread_create(&n->thread, NULL, zero_main, n) == 0, "thread");
    while (!atomic_load(&n->ready))
        (void)sched_yield();
}

static void zero_close(struct zero_node *n)
{
    snic_loop_post(n->loop, &n->stop);
    (void)pthread_join(n->thread, NULL);
    snic_loop_close(n->loop);
    free(n->scratch);
}

/* ---- The client ---- */

static int zero_connect(const struct zero_node *n)
{
    struct sockaddr_in a = {.sin_family = AF_INET, .sin_port = htons(n->at.port)};
    int one = 1;
    memcpy(&a.sin_addr, n->at.ip, 4);
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    bench_check(fd >= 0 && connect(fd, (struct sockaddr *)&a, sizeof(a)) == 0, "connect");
    (void)setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
    return fd;
}

static void zero_request(int fd, uint64_t i, uint32_t size)
{
    unsigned char m[ZERO_MESSAGE];
    snic_put_le32(m, (uint32_t)(i * 7919 % (ZERO_FILE / size)) * size);
    snic_put_le32(m + 4, size);
    bench_check(send(fd, m, sizeof(m), MSG_NOSIGNAL) == (ssize_t)sizeof(m), "send");
}

static void zero_get(int fd, uint32_t size)
{
    static unsigned char in[(128 << 10) + ZERO_HEAD];
    bench_check(recv(fd, in, ZERO_HEAD + size, MSG_WAITALL) == (ssize_t)(ZERO_HEAD + size),
                "answer");
    bench_check(in[ZERO_HEAD + size - 1] == 'z', "content");
}

static int zero_by_size(const void *a, const void *b)
{
    uint32_t x = *(const uint32_t *)a;
    uint32_t y = *(const uint32_t *)b;
    return (x > y) - (x < y);
}

struct zero_result {
    double p50, p99, rate, cpu;
};

static void zero_latency(int fd, uint32_t size, double seconds, struct zero_result *out)
{
    static uint32_t ns[ZERO_SAMPLES];
    uint32_t count = 0;
    uint64_t end = bench_now(CLOCK_MONOTONIC) + (uint64_t)(seconds * 1e9);
    for (uint64_t t = 0; t < end && count < ZERO_SAMPLES; count++) {
        uint64_t t0 = bench_now(CLOCK_MONOTONIC);
        zero_request(fd, count, size);
        zero_get(fd, size);
        t = bench_now(CLOCK_MONOTONIC);
        ns[count] = (uint32_t)(t - t0);
    }
    qsort(ns, count, sizeof(*ns), zero_by_size);
    out->p50 = ns[count / 2] / 1e3;
    out->p99 = ns[count - 1 - count / 100] / 1e3;
}

static void zero_depth(const struct zero_node *n, int fd, uint32_t size, double seconds,
                       struct zero_result *out)
{
    clockid_t id;
    uint64_t requested = 0;
    uint64_t got = 0;
    bench_check(pthread_getcpuclockid(n->thread, &id) == 0, "clock");
    for (; requested < ZERO_DEPTH; requested++)
        zero_request(fd, requested, size);
    uint64_t c0 = bench_now(id);
    uint64_t t0 = bench_now(CLOCK_MONOTONIC);
    uint64_t end = t0 + (uint64_t)(seconds * 1e9);
    while (bench_now(CLOCK_MONOTONIC) < end) {
        zero_get(fd, size);
        got++;
        zero_request(fd, requested++, size);
    }
    out->cpu = (double)(bench_now(id) - c0) / 1e3 / (double)got;
    out->rate = (double)got / (double)(bench_now(CLOCK_MONOTONIC) - t0) * 1e9;
    for (; got < requested; got++)
        zero_get(fd, size);
}

static double zero_values[4][ZERO_SIZES][ZERO_MODES][ZERO_REPEATS];

static double zero_median(int what, int s, int m)
{
    return bench_median(zero_values[what][s][m], ZERO_REPEATS);
}

static void zero_print(void)
{
    for (int s = 0; s < ZERO_SIZES; s++) {
        unsigned kb = zero_sizes[s] >> 10;
        for (int m = 0; m < ZERO_MODES; m++) {
            printf("row director read_%uk_%s_p50 ours 1 %.1f us\n", kb, zero_names[m],
                   zero_median(0, s, m));
            printf("row director read_%uk_%s_p99 ours 1 %.1f us\n", kb, zero_names[m],
                   zero_median(1, s, m));
            printf("row director read_%uk_%s_qd16 ours 1 %.0f op/s\n", kb, zero_names[m],
                   zero_median(2, s, m));
            printf("row director read_%uk_%s_qd16_cpu ours 1 %.2f us/op\n", kb, zero_names[m],
                   zero_median(3, s, m));
        }
        for (int m = ZERO_COPIES; m < ZERO_MODES; m++) {
            printf("ratio director read_%uk_qd16 ours/%s 1 %.3f\n", kb, zero_names[m],
                   zero_median(2, s, ZERO_AS_IS) / zero_median(2, s, m));
            printf("ratio director read_%uk_qd16_cpu ours/%s 1 %.3f\n", kb, zero_names[m],
                   zero_median(3, s, m) / zero_median(3, s, ZERO_AS_IS));
        }
    }
}

void bench_zero(double seconds)
{
    char path[64] = "/tmp/bench_director.XXXXXX";
    int file = mkstemp(path);
    bench_check(file >= 0, "no temporary file");
    (void)close(file);
    double each = seconds / (ZERO_SIZES * ZERO_MODES * ZERO_REPEATS * 2);
    for (int k = 0; k < ZERO_REPEATS; k++)
        for (int m = 0; m < ZERO_MODES; m++) {
            static struct zero_node n;
            zero_open(&n, (enum zero_mode)m, path);
            int fd = zero_connect(&n);
            for (int s = 0; s < ZERO_SIZES; s++) {
                struct zero_result r;
                zero_latency(fd, zero_sizes[s], each, &r);
                zero_depth(&n, fd, zero_sizes[s], each, &r);
                zero_values[0][s][m][k] = r.p50;
                zero_values[1][s][m][k] = r.p99;
                zero_values[2][s][m][k] = r.rate;
                zero_values[3][s][m][k] = r.cpu;
            }
            (void)close(fd);
            zero_close(&n);
            bench_check(m != ZERO_ZC || n.zc_sends > 0, "no zero copy was tried");
        }
    (void)unlink(path);
    zero_print();
}
