/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * Files through the library: a host thread and a DPU thread over dma/local. The same reads and
 * writes twice, interleaved, over sizes:
 *
 *     mapped       the device moves ring memory itself (MAPPED dma, registered regions), and reads
 *                  are lent to the host where they lie
 *     copying_dma  copies forced: the DPU's dma copies requests in and responses out, and the host
 *                  copies reads into its memory
 *
 * and what a memcpy of that size costs by itself. Then small reads one by one, and what both ends
 * burn when idle. All of it twice: on the device, and, as rows *_ram, on a file in
 * memory, where no device's limit hides what the path costs.
 *
 *     bench_filelib [--seconds N] [--path FILE]      N: time for everything
 */
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "files_image.h"
#include "snicstore/filelib.h"

#define RING_BYTES ((uint64_t)32 << 20)
#define WAYS 2

static const uint32_t sizes[] = {1024, 4096, 16384, 65536, 131072, 524288};
#define RAM_PATH "/dev/shm/snic_bench_filelib.img"

static const char *const way_names[WAYS] = {"mapped", "copying_dma"};

struct way {
    struct bench_host *host;
    int copying;
    struct snic_dma *dma[2]; /* host, DPU */
    struct snic_channel_hub *hub[2];
    struct snic_files_server *server;
    struct snic_filelib *group;
};

struct bench_host {
    struct bench *b;
    struct snic_loop *loop;
    struct way ways[WAYS];
    atomic_int state; /* 1 host loop open, 2 links open, 3 host done */
    unsigned char *buf;
    const char *suffix; /* of the rows */
};

/* ---- The DPU's end ---- */

static int way_accept(void *ctx, struct snic_channel_hub *h, const struct snic_channel_offer *offer)
{
    struct way *w = ctx;
    struct snic_files_server_opts o;
    size_t size;
    memset(&o, 0, sizeof(o));
    o.opts_size = sizeof(o);
    o.channel_flags = SNIC_CHANNEL_REGIONS;
    if (w->copying)
        o.channel_flags |= SNIC_CHANNEL_UNMAPPED;
    size = snic_files_server_memsize(&o);
    return snic_files_serve(&w->server, bench_memory(size, SNIC_CACHELINE), size, w->host->b->files,
                            h, offer, &o);
}

static struct snic_channel_hub *way_hub(struct way *w, int dpu)
{
    struct snic_channel_hub_opts o;
    struct snic_channel_hub *h = NULL;
    size_t size;
    memset(&o, 0, sizeof(o));
    o.opts_size = sizeof(o);
    o.accept = dpu ? way_accept : NULL;
    o.ctx = w;
    size = snic_channel_hub_memsize(&o);
    (void)bench_must("hub", snic_channel_hub_init(&h, bench_memory(size, SNIC_CACHELINE), size,
                                                  w->dma[dpu], &o));
    return h;
}

static void way_open_dpu(struct bench_host *t, struct way *w)
{
    struct snic_dma_events none;
    memset(&none, 0, sizeof(none));
    w->host = t;
    w->copying = w != &t->ways[0];
    (void)bench_must(
        "link", snic_dma_local_open(&w->dma[0], t->loop, &none, &w->dma[1], t->b->loop, &none));
    w->hub[1] = way_hub(w, 1);
}

/* Whether the host has gone; then the server has, too. */
static int way_gone(struct way *w)
{
    struct snic_channel_info info;
    if (w->server == NULL)
        return 1;
    snic_channel_get_info(snic_files_server_channel(w->server), &info);
    if (!info.closed)
        return 0;
    free(snic_files_server_close(w->server));
    w->server = NULL;
    return 1;
}

/* ---- The host's end ---- */

static void way_open_host(struct way *w)
{
    struct snic_filelib_opts o;
    size_t size;
    w->hub[0] = way_hub(w, 0);
    memset(&o, 0, sizeof(o));
    o.opts_size = sizeof(o);
    o.payload_align = 4096;
    o.up_bytes = RING_BYTES;
    o.down_bytes = RING_BYTES;
    size = snic_filelib_memsize(&o);
    (void)bench_must("group", snic_filelib_open(&w->group, bench_memory(size, SNIC_FILELIB_ALIGN),
                                                size, w->hub[0], &o));
}

static void way_close_host(struct way *w, struct snic_loop *loop)
{
    free(snic_filelib_close(w->group));
    while (snic_channel_hub_count(w->hub[0]) != 0)
        (void)snic_loop_once(loop, 1000000);
    free(snic_channel_hub_fini(w->hub[0]));
}

struct load {
    struct way *w;
    uint8_t op;
    uint32_t bytes;
    uint64_t done;
    uint32_t open;
    int stop;
};

struct slot {
    struct snic_filelib_req r;
    struct load *l;
    unsigned char *buf;
};

static void slot_send(struct slot *s);

static void slot_done(struct snic_filelib_req *r)
{
    struct slot *s = SNIC_CONTAINER(r, struct slot, r);
    (void)bench_must("request", r->result);
    s->l->done++;
    s->l->open--;
    if (!s->l->stop)
        slot_send(s);
}

static void slot_send(struct slot *s)
{
    struct load *l = s->l;
    struct bench *b = l->w->host->b;
    struct snic_filelib_req *r = &s->r;
    memset(r, 0, sizeof(*r));
    r->op = l->op;
    r->done = slot_done;
    r->file = b->file;
    r->flags = l->op == SNIC_FILES_READ && !l->w->copying ? SNIC_FILELIB_LEND : 0;
    r->offset = snic_rng_below(&b->rng, BENCH_FILE_BYTES / l->bytes) * l->bytes;
    r->length = l->bytes;
    r->buf.base = s->buf;
    r->buf.size = l->bytes;
    l->open++;
    snic_filelib_submit(l->w->group, &r, 1);
}

/* Requests per second; CPU microseconds of both threads per request in *cpu. */
static double load_run(struct way *w, uint8_t op, uint32_t bytes, uint32_t depth, double seconds,
                       double *cpu)
{
    static struct slot slots[BENCH_DEPTH_MAX];
    struct load l = {w, op, bytes, 0, 0, 0};
    double start = bench_now();
    double used = bench_cpu();
    uint32_t i;
    for (i = 0; i < depth; i++) {
        slots[i].l = &l;
        slots[i].buf = w->host->buf + (size_t)i * BENCH_IO_MAX;
        slot_send(&slots[i]);
    }
    while (l.open > 0) {
        (void)snic_loop_once(w->host->loop, SNIC_NEVER);
        l.stop |= bench_now() - start >= seconds;
    }
    start = bench_now() - start;
    *cpu = (bench_cpu() - used) * 1e6 / (double)l.done;
    return (double)l.done / start;
}

/* ---- Rows ---- */

static void size_text(char *text, size_t room, uint32_t bytes)
{
    (void)snprintf(text, room, "%uK", bytes / 1024);
}

static void bench_sizes(struct bench_host *t, uint8_t op, uint32_t bytes)
{
    double rate[WAYS][BENCH_REPEATS];
    double cpu[WAYS][BENCH_REPEATS];
    uint32_t depth = bytes >= 65536 ? 16 : 32;
    char name[32];
    char name_cpu[40];
    char size[16];
    int i;
    int w;
    size_text(size, sizeof(size), bytes);
    (void)snprintf(name, sizeof(name), "%s_%s_d%u%s", op == SNIC_FILES_READ ? "read" : "write",
                   size, depth, t->suffix);
    for (i = 0; i < BENCH_REPEATS; i++)
        for (w = 0; w < WAYS; w++)
            rate[w][i] = load_run(&t->ways[w], op, bytes, depth, t->b->seconds, &cpu[w][i]);
    for (w = 0; w < WAYS; w++)
        bench_row("filelib", name, way_names[w], 2, rate[w], cpu[w]);
    bench_ratio("filelib", name, "copying_dma", 2, rate[0], rate[1]);
    (void)snprintf(name_cpu, sizeof(name_cpu), "%s_cpu", name);
    bench_ratio("filelib", name_cpu, "copying_dma", 2, cpu[1], cpu[0]);
}

/* One copy, over memory that is larger than the caches, as requests find it. */
static void bench_memcpy(struct bench_host *t, uint32_t bytes)
{
    size_t half = (size_t)BENCH_DEPTH_MAX / 2 * BENCH_IO_MAX;
    double us[BENCH_REPEATS];
    char size[16];
    int i;
    size_text(size, sizeof(size), bytes);
    for (i = 0; i < BENCH_REPEATS; i++) {
        double used = bench_cpu_thread();
        size_t at;
        for (at = 0; at < half; at += bytes)
            memcpy(t->buf + half + at, t->buf + at, bytes);
        us[i] = (bench_cpu_thread() - used) * 1e6 / (double)(half / bytes);
    }
    (void)printf("row filelib memcpy_%s_cpu memcpy 1 %.3f us/op\n", size,
                 bench_median(us, BENCH_REPEATS));
}

static void bench_single(struct bench_host *t)
{
    double rate[BENCH_REPEATS];
    double cpu[BENCH_REPEATS];
    char name[32];
    int i;
    (void)snprintf(name, sizeof(name), "read_4K_d1%s", t->suffix);
    for (i = 0; i < BENCH_REPEATS; i++)
        rate[i] = load_run(&t->ways[0], SNIC_FILES_READ, BENCH_BLOCK, 1, t->b->seconds, &cpu[i]);
    bench_row("filelib", name, "mapped", 2, rate, cpu);
}

/* Both threads sleep in their loops, two groups open: what that burns per second. */
static void bench_idle(struct bench_host *t)
{
    struct snic_filelib_req *none[1];
    double seconds = t->b->seconds * 10 < 1 ? 1 : t->b->seconds * 10;
    double used;
    (void)snic_filelib_wait(t->ways[0].group, none, 1, 50000000); /* what is left to do is done */
    used = bench_cpu();
    (void)snic_filelib_wait(t->ways[0].group, none, 1, (uint64_t)(seconds * 1e9));
    (void)printf("row filelib idle_cpu mapped 2 %.1f us/s\n", (bench_cpu() - used) * 1e6 / seconds);
}

/* The calling thread to cores [first, end); what is not there is ignored. */
static void pin(size_t first, size_t end)
{
    cpu_set_t set;
    CPU_ZERO(&set);
    for (; first < end; first++)
        CPU_SET(first, &set);
    (void)sched_setaffinity(0, sizeof(set), &set);
}

static void *host_thread(void *arg)
{
    struct bench_host *t = arg;
    size_t k;
    int i;
    pin(1, 2); /* many in flight: a core for each thread */
    (void)bench_must("loop", snic_loop_uring_open(&t->loop, NULL));
    atomic_store(&t->state, 1);
    while (atomic_load(&t->state) != 2)
        (void)sched_yield();
    for (i = 0; i < WAYS; i++)
        way_open_host(&t->ways[i]);
    for (k = 0; k < SNIC_COUNTOF(sizes); k++) {
        if (t->suffix[0] == 0)
            bench_memcpy(t, sizes[k]);
        bench_sizes(t, SNIC_FILES_READ, sizes[k]);
        bench_sizes(t, SNIC_FILES_WRITE, sizes[k]);
    }
    pin(0, 1); /* one in flight: they take turns, and waking another core costs most */
    bench_single(t);
    if (t->suffix[0] == 0)
        bench_idle(t);
    for (i = 0; i < WAYS; i++)
        way_close_host(&t->ways[i], t->loop);
    atomic_store(&t->state, 3);
    snic_loop_wake(t->b->loop);
    snic_loop_close(t->loop);
    return NULL;
}

static void bench_place(const char *path, const char *suffix, double seconds)
{
    static struct bench_host t;
    struct bench b;
    pthread_t thread;
    int i;
    memset(&t, 0, sizeof(t));
    memset(&b, 0, sizeof(b));
    b.path = path;
    b.seconds = seconds / (BENCH_REPEATS * (SNIC_COUNTOF(sizes) * 2 * WAYS + 3));
    snic_rng_init(&b.rng, 1);
    bench_open(&b);
    t.b = &b;
    t.suffix = suffix;
    t.buf = bench_memory((size_t)BENCH_DEPTH_MAX * BENCH_IO_MAX, 4096);
    memset(t.buf, 0x5a, (size_t)BENCH_DEPTH_MAX * BENCH_IO_MAX);
    if (pthread_create(&thread, NULL, host_thread, &t) != 0)
        (void)bench_must("thread", SNIC_ENOMEM);
    while (atomic_load(&t.state) != 1)
        (void)sched_yield();
    for (i = 0; i < WAYS; i++)
        way_open_dpu(&t, &t.ways[i]);
    atomic_store(&t.state, 2);
    while (atomic_load(&t.state) != 3) {
        (void)snic_loop_once(b.loop, SNIC_NEVER);
        for (i = 0; i < WAYS; i++)
            (void)way_gone(&t.ways[i]);
    }
    (void)pthread_join(thread, NULL);
    for (i = 0; i < WAYS; i++) {
        while (!way_gone(&t.ways[i]))
            (void)snic_loop_once(b.loop, 1000000);
        free(snic_channel_hub_fini(t.ways[i].hub[1]));
    }
    bench_close(&b);
    free(t.buf);
    (void)unlink(path);
}

int main(int argc, char **argv)
{
    const char *path = "bench_filelib.img";
    double seconds = 20;
    int i;
    pin(0, 1);
    for (i = 1; i + 1 < argc; i += 2) {
        if (strcmp(argv[i], "--seconds") == 0)
            seconds = strtod(argv[i + 1], NULL);
        else if (strcmp(argv[i], "--path") == 0)
            path = argv[i + 1];
    }
    bench_place(path, "", seconds / 2);
    if (access("/dev/shm", W_OK) == 0)
        bench_place(RAM_PATH, "_ram", seconds / 2);
    return 0;
}
