/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * The file library for real: submitting threads, a host loop and a DPU loop on threads of one
 * process; and two processes, of which the DPU's is killed. The device is a file.
 */
#include "snicstore/filelib.h"
#include "support.h"

#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#define THREADS 4u
#define DISK_BYTES (16u << 20)

/* ---- The DPU role ---- */

struct dpu {
    char path[256];
    struct snic_loop *loop;
    struct snic_io *io;
    struct snic_dma *dma;
    struct snic_files *files;
    void *files_mem;
    struct snic_channel_hub *hub;
    void *hub_mem;
    struct snic_files_server *server;
    void *server_mem;
    uint32_t channel_flags;
    int gone;
    int bad;
    uint64_t turns;
    uint64_t version[THREADS]; /* the last one of each key */
    atomic_int ready;          /* 1 loop open, 2 link open, 3 serving */
};

static void *memory(size_t size, size_t align)
{
    void *p = aligned_alloc(align, snic_align_up(size, align));
    if (p == NULL)
        abort();
    return p;
}

/* A dma/shm handle frees itself in the loop after it was closed. */
static void loop_finish(struct snic_loop *l)
{
    int i;
    for (i = 0; i < 50; i++)
        (void)snic_loop_once(l, 0);
    snic_loop_close(l);
}

static void dpu_gone(void *ctx, struct snic_files_server *s, int reason)
{
    (void)s;
    (void)reason;
    ((struct dpu *)ctx)->gone = 1;
}

static int dpu_accept(void *ctx, struct snic_channel_hub *h, const struct snic_channel_offer *offer)
{
    struct dpu *d = ctx;
    struct snic_files_server_opts o;
    size_t size;
    memset(&o, 0, sizeof(o));
    o.opts_size = sizeof(o);
    o.channel_flags = d->channel_flags;
    o.gone = dpu_gone;
    o.ctx = d;
    size = snic_files_server_memsize(&o);
    d->server_mem = memory(size, SNIC_CACHELINE);
    return snic_files_serve(&d->server, d->server_mem, size, d->files, h, offer, &o);
}

/* Each thread's invalidations come in its order. */
static int dpu_invalidate(void *ctx, const void *keys, uint32_t key_size, uint32_t count,
                          uint64_t version)
{
    struct dpu *d = ctx;
    uint32_t key;
    if (key_size != 4 || count != 1)
        return SNIC_EINVAL;
    memcpy(&key, keys, 4);
    if (key >= THREADS || version != d->version[key] + 1)
        d->bad++;
    else
        d->version[key] = version;
    return 0;
}

static int dpu_storage(struct dpu *d, int format)
{
    struct snic_io_uring_opts io;
    struct snic_files_format_opts fo;
    struct snic_files_mount_opts mo;
    struct snic_files_info info;
    size_t size;
    int rc;
    memset(&io, 0, sizeof(io));
    io.opts_size = sizeof(io);
    io.flags = SNIC_IO_OPEN_CREATE | SNIC_IO_OPEN_TRY_DIRECT;
    io.path = d->path;
    io.size = DISK_BYTES;
    rc = snic_io_uring_open(&d->io, d->loop, &io, NULL);
    if (rc != 0)
        return rc;
    memset(&fo, 0, sizeof(fo));
    fo.opts_size = sizeof(fo);
    fo.segment_bytes = 65536;
    fo.files_max = 64;
    if (format)
        rc = snic_files_format(d->io, &fo);
    if (rc == 0)
        rc = snic_files_probe(d->io, &info);
    if (rc != 0)
        return rc;
    memset(&mo, 0, sizeof(mo));
    mo.opts_size = sizeof(mo);
    mo.hooks.invalidate = dpu_invalidate;
    mo.hooks.ctx = d;
    size = snic_files_memsize(&info, &mo);
    d->files_mem = memory(size, SNIC_FILES_ALIGN);
    return snic_files_mount(&d->files, d->files_mem, size, d->io, &mo);
}

static int dpu_hub(struct dpu *d)
{
    struct snic_channel_hub_opts o;
    size_t size;
    memset(&o, 0, sizeof(o));
    o.opts_size = sizeof(o);
    o.accept = dpu_accept;
    o.ctx = d;
    size = snic_channel_hub_memsize(&o);
    d->hub_mem = memory(size, SNIC_CACHELINE);
    return snic_channel_hub_init(&d->hub, d->hub_mem, size, d->dma, &o);
}

static void dpu_end(struct dpu *d)
{
    free(snic_files_server_close(d->server));
    if (snic_files_check(d->files) != 0 || snic_files_unmount(d->files) != 0)
        d->bad++;
    snic_io_close(d->io);
    free(snic_channel_hub_fini(d->hub));
    free(d->files_mem);
    loop_finish(d->loop);
}

static void *dpu_thread(void *arg)
{
    struct dpu *d = arg;
    struct snic_loop_stats st;
    if (snic_loop_uring_open(&d->loop, NULL) != 0) {
        atomic_store(&d->ready, -1);
        return NULL;
    }
    atomic_store(&d->ready, 1);
    while (atomic_load(&d->ready) != 2)
        (void)sched_yield();
    if (dpu_storage(d, 1) != 0 || dpu_hub(d) != 0)
        abort();
    atomic_store(&d->ready, 3);
    while (!d->gone)
        (void)snic_loop_once(d->loop, SNIC_NEVER);
    snic_loop_get_stats(d->loop, &st);
    d->turns = st.iterations;
    dpu_end(d);
    return NULL;
}

/* ---- The host role ---- */

struct host {
    struct snic_loop *loop;
    struct snic_dma *dma;
    struct snic_channel_hub *hub;
    void *hub_mem;
    struct snic_filelib *group;
    void *group_mem;
};

static void host_group(struct host *h, uint32_t flags, uint32_t threads)
{
    struct snic_channel_hub_opts o;
    struct snic_filelib_opts g;
    size_t size;
    memset(&o, 0, sizeof(o));
    o.opts_size = sizeof(o);
    size = snic_channel_hub_memsize(&o);
    h->hub_mem = memory(size, SNIC_CACHELINE);
    assert_int_equal(snic_channel_hub_init(&h->hub, h->hub_mem, size, h->dma, &o), 0);
    memset(&g, 0, sizeof(g));
    g.opts_size = sizeof(g);
    g.depth = 12; /* fewer than the threads keep open */
    g.up_bytes = 131072;
    g.down_bytes = 131072;
    g.payload_align = 512;
    g.channel_flags = flags;
    g.threads = threads;
    size = snic_filelib_memsize(&g);
    h->group_mem = memory(size, SNIC_FILELIB_ALIGN);
    assert_int_equal(snic_filelib_open(&h->group, h->group_mem, size, h->hub, &g), 0);
}

static void host_end(struct host *h)
{
    free(snic_filelib_close(h->group));
    free(snic_channel_hub_fini(h->hub));
    loop_finish(h->loop);
}

static struct snic_loop *loop_open(void)
{
    struct snic_loop *l = NULL;
    int r = snic_loop_uring_open(&l, NULL);
    if (r == SNIC_ENOTSUP || r == SNIC_EACCES)
        support_skip("no io_uring");
    assert_int_equal(r, 0);
    return l;
}

/* ---- Submitting threads ---- */

struct worker {
    struct host *h;
    uint32_t index;
    uint64_t file;
    uint32_t rounds;
    atomic_int *running;
    uint32_t bad;
};

struct job {
    struct snic_filelib_req req;
    atomic_int done;
    unsigned char bytes[5000];
};

static void job_done(struct snic_filelib_req *r)
{
    /* Release pairs with the acquire of job_wait. */
    atomic_store_explicit(&SNIC_CONTAINER(r, struct job, req)->done, 1, memory_order_release);
}

static void job_wait(struct job *j)
{
    while (!atomic_load_explicit(&j->done, memory_order_acquire))
        (void)sched_yield();
}

static void job_set(struct job *j, const struct worker *w, uint8_t op, uint32_t round, uint32_t k)
{
    memset(&j->req, 0, sizeof(j->req));
    atomic_store_explicit(&j->done, 0, memory_order_relaxed);
    j->req.op = op;
    j->req.file = w->file;
    j->req.offset = (uint64_t)k * sizeof(j->bytes);
    j->req.length = sizeof(j->bytes);
    j->req.buf.base = j->bytes;
    j->req.buf.size = sizeof(j->bytes);
    j->req.done = job_done;
    if (op == SNIC_FILES_WRITE)
        memset(j->bytes, (int)(w->index * 50 + round + k), sizeof(j->bytes));
    else
        memset(j->bytes, 0, sizeof(j->bytes));
}

static void *worker_thread(void *arg)
{
    struct worker *w = arg;
    struct job *jobs = calloc(8, sizeof(*jobs));
    struct snic_filelib_req *p[8];
    uint64_t version = 0;
    uint32_t round;
    uint32_t k;
    for (round = 0; jobs != NULL && round < w->rounds; round++) {
        uint8_t op = round % 2 == 0 ? SNIC_FILES_WRITE : SNIC_FILES_READ;
        for (k = 0; k < 8; k++) {
            job_set(&jobs[k], w, op, round, k);
            p[k] = &jobs[k].req;
        }
        snic_filelib_submit(w->h->group, p, 8);
        for (k = 0; k < 8; k++) {
            job_wait(&jobs[k]);
            w->bad += jobs[k].req.result != (int64_t)sizeof(jobs[k].bytes);
            w->bad += jobs[k].bytes[4999] != (unsigned char)(w->index * 50 + round / 2 * 2 + k);
        }
        for (k = 0; k < 8; k++) {
            memset(&jobs[k].req, 0, sizeof(jobs[k].req));
            atomic_store_explicit(&jobs[k].done, 0, memory_order_relaxed);
            jobs[k].req.op = SNIC_FILELIB_INVALIDATE;
            jobs[k].req.keys = &w->index;
            jobs[k].req.key_size = 4;
            jobs[k].req.count = 1;
            jobs[k].req.version = ++version;
            jobs[k].req.done = job_done;
        }
        snic_filelib_submit(w->h->group, p, 5);
        snic_filelib_submit(w->h->group, p + 5, 3);
        for (k = 0; k < 8; k++) {
            job_wait(&jobs[k]);
            w->bad += jobs[k].req.result != 0;
        }
    }
    free(jobs);
    (void)atomic_fetch_sub(w->running, 1);
    snic_loop_wake(w->h->loop);
    return NULL;
}

static void workers_run(struct host *h, uint32_t rounds)
{
    struct worker w[THREADS];
    pthread_t t[THREADS];
    atomic_int running = THREADS;
    uint32_t i;
    for (i = 0; i < THREADS; i++) {
        struct snic_filelib_req r;
        char name[8];
        memset(&r, 0, sizeof(r));
        (void)snprintf(name, sizeof(name), "f%u", i);
        r.op = SNIC_FILES_CREATE;
        r.name = name;
        r.name_size = (uint32_t)strlen(name);
        assert_int_equal(snic_filelib_run(h->group, &r), 0);
        memset(&w[i], 0, sizeof(w[i]));
        w[i].h = h;
        w[i].index = i;
        w[i].file = r.id;
        w[i].rounds = rounds;
        w[i].running = &running;
        assert_int_equal(pthread_create(&t[i], NULL, worker_thread, &w[i]), 0);
    }
    while (atomic_load(&running) > 0)
        (void)snic_loop_once(h->loop, SNIC_NEVER);
    for (i = 0; i < THREADS; i++) {
        assert_int_equal(pthread_join(t[i], NULL), 0);
        assert_int_equal(w[i].bad, 0);
    }
}

static void pair_open(struct dpu *d, struct host *h, pthread_t *t, uint32_t channel_flags)
{
    struct snic_dma_events none;
    memset(d, 0, sizeof(*d));
    memset(h, 0, sizeof(*h));
    memset(&none, 0, sizeof(none));
    support_tmpname(d->path, sizeof(d->path), "threads");
    d->channel_flags = channel_flags;
    h->loop = loop_open();
    assert_int_equal(pthread_create(t, NULL, dpu_thread, d), 0);
    while (atomic_load(&d->ready) == 0)
        (void)sched_yield();
    assert_int_equal(atomic_load(&d->ready), 1);
    assert_int_equal(snic_dma_local_open(&h->dma, h->loop, &none, &d->dma, d->loop, &none), 0);
    atomic_store(&d->ready, 2);
    while (atomic_load(&d->ready) != 3)
        (void)sched_yield();
}

static void pair_close(struct dpu *d, struct host *h, pthread_t t)
{
    host_end(h);
    assert_int_equal(pthread_join(t, NULL), 0);
    assert_int_equal(d->bad, 0);
    (void)unlink(d->path);
}

/* Four threads submit, two loops work: nothing lost, each thread's order kept, bytes right; a
 * thread with nothing to do sleeps. One mode has a place for one thread of the four. */
static void test_filelib_threads_submit_all_completed(void **state)
{
    unsigned mode;
    (void)state;
    for (mode = 0; mode < 3; mode++) {
        static struct dpu d;
        struct host h;
        struct snic_loop_stats st;
        struct snic_filelib_stats fs;
        struct snic_filelib_req *none_done;
        pthread_t t;
        pair_open(&d, &h, &t,
                  mode == 1   ? SNIC_CHANNEL_UNMAPPED
                  : mode == 2 ? SNIC_CHANNEL_REGIONS
                              : 0);
        host_group(&h, mode == 2 ? SNIC_CHANNEL_DOWN_ORDERED : 0, mode == 1 ? 1 : THREADS);
        workers_run(&h, (uint32_t)support_scale(30, 1000));
        /* Nothing outstanding: waiting is sleeping. */
        assert_int_equal(snic_filelib_wait(h.group, &none_done, 1, 2000000), 0);
        snic_loop_get_stats(h.loop, &st);
        assert_true(st.sleeps > 0);
        snic_filelib_get_stats(h.group, &fs);
        assert_true(mode == 1 || fs.crowded == 0);
        pair_close(&d, &h, t);
        assert_int_equal(d.version[0], 8 * support_scale(30, 1000));
    }
}

/* An open group that is unused for a while: the iterations of both loops are those of opening, one
 * request and closing. Polling every millisecond would make hundreds more. */
static void test_filelib_threads_idle_no_turns(void **state)
{
    static struct dpu d;
    struct host h;
    struct snic_loop_stats st;
    struct snic_filelib_req *none_done;
    struct snic_filelib_req r;
    pthread_t t;
    (void)state;
    pair_open(&d, &h, &t, SNIC_CHANNEL_REGIONS);
    host_group(&h, 0, 0);
    memset(&r, 0, sizeof(r));
    r.op = SNIC_FILES_CREATE;
    r.name = "a";
    r.name_size = 1;
    assert_int_equal(snic_filelib_run(h.group, &r), 0);
    assert_int_equal(snic_filelib_wait(h.group, &none_done, 1, 500000000), 0);
    snic_loop_get_stats(h.loop, &st);
    assert_true(st.iterations < 150);
    pair_close(&d, &h, t);
    /* Format and mount are some hundred device requests, one by one. */
    print_message("turns: host %llu, DPU %llu\n", (unsigned long long)st.iterations,
                  (unsigned long long)d.turns);
    assert_true(d.turns < 300);
}

/* ---- Two processes ---- */

static void process_accept(void *ctx, struct snic_dma *dma, uint32_t pid)
{
    struct dpu *d = ctx;
    (void)pid;
    d->dma = dma;
    if (dpu_hub(d) != 0)
        _exit(103);
}

/* The DPU process: serves one host, until it is killed or the host has gone. */
static pid_t process_start(const char *socket, const char *path, int format)
{
    char byte = 0;
    int listening[2];
    pid_t pid;
    (void)fflush(NULL);
    assert_int_equal(pipe(listening), 0);
    pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        int rc;
        static struct dpu d;
        struct snic_dma_listener *listener;
        struct snic_dma_shm_opts o;
        memset(&d, 0, sizeof(d));
        memset(&o, 0, sizeof(o));
        o.opts_size = sizeof(o);
        o.path = socket;
        (void)snprintf(d.path, sizeof(d.path), "%s", path);
        if (snic_loop_uring_open(&d.loop, NULL) != 0 || dpu_storage(&d, format) != 0)
            _exit(101);
        /* The kernel takes the io_uring of a killed process apart some time after its death,
         * and the listening socket that is held by it. */
        while ((rc = snic_dma_shm_listen(&listener, d.loop, &o, process_accept, &d)) ==
               SNIC_EADDRINUSE)
            (void)usleep(1000);
        if (rc != 0 || write(listening[1], "x", 1) != 1)
            _exit(102);
        while (!d.gone)
            (void)snic_loop_once(d.loop, SNIC_NEVER);
        snic_dma_shm_unlisten(listener);
        dpu_end(&d);
        _exit(d.bad != 0 ? 104 : 0);
    }
    (void)close(listening[1]);
    if (read(listening[0], &byte, 1) != 1)
        fail_msg("the DPU process does not start");
    (void)close(listening[0]);
    return pid;
}

static void process_connect(struct host *h, const char *socket)
{
    struct snic_dma_shm_opts o;
    struct snic_dma_events none;
    int rc;
    memset(&o, 0, sizeof(o));
    memset(&none, 0, sizeof(none));
    o.opts_size = sizeof(o);
    o.path = socket;
    o.timeout_ms = 60000;
    h->loop = loop_open();
    rc = snic_dma_shm_connect(&h->dma, h->loop, &o, &none);
    assert_int_equal(rc, 0);
    host_group(h, 0, 0);
}

/* kill -9 of the DPU while requests are out: each completes once, what was acknowledged under
 * SYNC is there for the next process, and the rest can be issued again. */
static void test_filelib_dpu_killed_acknowledged_there(void **state)
{
    char socket[256];
    char path[256];
    uint64_t rounds = support_scale(4, 100);
    uint64_t round;
    static struct job jobs[64];
    (void)state;
    support_tmpname(socket, sizeof(socket), "link");
    support_tmpname(path, sizeof(path), "disk");
    snic_loop_close(loop_open()); /* skips where there is no io_uring */
    for (round = 0; round <= rounds; round++) {
        struct host h;
        struct worker w;
        struct snic_filelib_req r;
        struct snic_filelib_req *p[64];
        uint64_t turns = round * 7;
        int status;
        uint32_t k;
        pid_t pid = process_start(socket, path, round == 0);
        memset(&h, 0, sizeof(h));
        memset(&w, 0, sizeof(w));
        process_connect(&h, socket);
        memset(&r, 0, sizeof(r));
        r.op = SNIC_FILES_CREATE;
        r.flags = SNIC_FILES_REPLACE;
        r.name = "a";
        r.name_size = 1;
        assert_int_equal(snic_filelib_run(h.group, &r), 0);
        w.file = r.id;
        for (k = 0; round > 0 && k < 64; k++) { /* the results of the round before */
            struct job back;
            int64_t result = jobs[k].req.result;
            job_set(&back, &w, SNIC_FILES_READ, 0, k);
            back.req.done = NULL;
            assert_true(result == 5000 || result == SNIC_EPEERDEAD);
            if (result == 5000) {
                assert_int_equal(snic_filelib_run(h.group, &back.req), 5000);
                assert_memory_equal(back.bytes, jobs[k].bytes, 5000);
            }
        }
        for (k = 0; k < 64; k++) {
            job_set(&jobs[k], &w, SNIC_FILES_WRITE, (uint32_t)round, k);
            jobs[k].req.flags = SNIC_FILES_SYNC;
            p[k] = &jobs[k].req;
        }
        if (round == rounds) {
            host_end(&h);
        } else {
            snic_filelib_submit(h.group, p, 64);
            while (turns-- > 0)
                (void)snic_loop_once(h.loop, 100000);
            assert_int_equal(kill(pid, SIGKILL), 0);
            for (k = 0; k < 64; k++)
                while (!atomic_load(&jobs[k].done))
                    (void)snic_loop_once(h.loop, SNIC_NEVER);
            host_end(&h);
        }
        assert_int_equal(waitpid(pid, &status, 0), pid);
        if (round == rounds)
            assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    }
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_filelib_threads_submit_all_completed),
        cmocka_unit_test(test_filelib_threads_idle_no_turns),
        cmocka_unit_test(test_filelib_dpu_killed_acknowledged_there),
    };
    return SUPPORT_MAIN(argc, argv, tests);
}
