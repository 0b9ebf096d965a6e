/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* nvme-fs between threads (local) and processes (shm): several host threads with a queue each,
   sleep and bells on real loops, and the death of either process. */
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include "test_nvmefslink_util.h"

static struct snic_loop *loop_open(void)
{
    struct snic_loop *l = NULL;
    int r = snic_loop_uring_open(&l, NULL);
    if (r == SNIC_ENOTSUP || r == SNIC_EACCES)
        support_skip("no io_uring");
    assert_int_equal(r, 0);
    return l;
}

/* ---- Threads ---- */

struct server {
    struct snic_loop *loop;
    struct snic_dma *d;
    struct pat_dpu dpu;
    _Atomic(int) stop;
    uint32_t flags;
};

static void *server_run(void *arg)
{
    struct server *s = arg;
    while (!s->stop || !snic_nvmefslink_dpu_idle(s->dpu.link))
        (void)snic_loop_once(s->loop, 100000000);
    return NULL;
}

/** Keep requests in flight on all queues until @p rounds are done, sleeping in the loop. */
static void host_work(struct pat_host *h, struct snic_loop *loop, struct pat_queue *q, uint32_t n,
                      uint64_t rounds)
{
    static const uint8_t ops[3] = {SNIC_FSOP_READ, SNIC_FSOP_WRITE, SNIC_FSOP_GETATTR};
    uint64_t done = 0;
    uint64_t looks = 0;
    while (done < rounds && looks++ < 100 * rounds) {
        uint32_t burst = 1 + (uint32_t)snic_rng_below(&h->rng, 8);
        done = 0;
        for (uint32_t i = 0; i < n; i++) {
            for (uint32_t k = 0; k < burst; k++)
                (void)pat_submit(&q[i], i, (uint32_t)snic_rng_below(&h->rng, PAT_REQS),
                                 ops[snic_rng_below(&h->rng, 3)]);
            done += q[i].done;
        }
        uint32_t out = 0;
        for (uint32_t i = 0; i < n; i++)
            out += q[i].out;
        if (out > 0) /* for ever: a bell that is not rung hangs here */
            (void)snic_loop_once(loop, SNIC_NEVER);
    }
    for (uint32_t i = 0; i < n; i++)
        while (q[i].out > 0)
            (void)snic_loop_once(loop, SNIC_NEVER);
    for (uint32_t i = 0; i < n; i++) {
        assert_int_equal(q[i].out, 0);
        assert_int_equal(q[i].wrong, 0);
    }
}

static void host_end(struct snic_loop *loop, struct pat_queue *q, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++)
        snic_nvmefslink_end(q[i].q);
    for (uint32_t i = 0; i < n; i++)
        for (int k = 0; k < 1000 && q[i].q != NULL; k++)
            (void)snic_loop_once(loop, 1000000000);
    for (uint32_t i = 0; i < n; i++)
        assert_int_equal(q[i].closed, 1);
}

static void threads_run(uint32_t flags)
{
    struct snic_dma_events none = {NULL, NULL, NULL, NULL};
    struct server s = {.flags = flags};
    struct pat_host h;
    static struct pat_queue q[3];
    struct snic_dma *d = NULL;
    pthread_t t;
    struct snic_loop *loop = loop_open();
    s.loop = loop_open();
    assert_int_equal(snic_dma_local_open(&d, loop, &none, &s.d, s.loop, &none), 0);
    pat_open(&s.dpu, s.d, 3, flags);
    pat_host_open(&h, d, 3);
    for (uint32_t i = 0; i < 3; i++)
        pat_queue_open(&q[i], &h, 8U << i);
    assert_int_equal(pthread_create(&t, NULL, server_run, &s), 0);
    host_work(&h, loop, q, 3, support_rounds(3000, 100000));
    host_end(loop, q, 3);
    s.stop = 1;
    assert_int_equal(pthread_join(t, NULL), 0);
    assert_ptr_equal(snic_nvmefslink_dpu_fini(s.dpu.link), s.dpu.mem);
    support_guard_free(s.dpu.mem);
    pat_host_close(&h);
    snic_dma_close(s.d);
    snic_loop_close(loop);
    snic_loop_close(s.loop);
}

static void test_nvmefslink_threads_over_local(void **state)
{
    (void)state;
    threads_run(0);
    threads_run(SNIC_NVMEFSLINK_UNMAPPED);
}

/* ---- A thread per queue ---- */

struct direct {
    struct snic_nvmefslink_queue *q;
    _Atomic(int) opened;
    _Atomic(int) closed;
    _Atomic(int) bells;
    _Atomic(int) finished;
    uint64_t done;
    uint64_t wrong;
    uint64_t rounds;
};

static void direct_opened(void *ctx, struct snic_nvmefslink_queue *q)
{
    struct direct *x = ctx;
    (void)q;
    x->opened = 1;
}

static void direct_bell(void *ctx, struct snic_nvmefslink_queue *q)
{
    struct direct *x = ctx;
    (void)q;
    x->bells++;
}

static void direct_closed(void *ctx, struct snic_nvmefslink_queue *q, int reason)
{
    struct direct *x = ctx;
    (void)q;
    (void)reason;
    x->closed = 1;
}

/** A host thread with a queue of its own: no loop, it looks by itself and yields. */
static void *direct_run(void *arg)
{
    struct direct *x = arg;
    struct snic_nvmefs_host *h = snic_nvmefslink_engine(x->q);
    struct snic_nvmefs_req r[6];
    memset(r, 0, sizeof(r));
    while (x->done < x->rounds) {
        for (int i = 0; i < 6; i++) {
            if (r[i].op.ctx != NULL)
                continue;
            r[i].op.kind = SNIC_FSOP_GETATTR;
            r[i].op.ino = x->done + (uint64_t)i;
            r[i].op.ctx = x;
            if (snic_nvmefs_host_submit(h, &r[i]) != 0)
                r[i].op.ctx = NULL;
        }
        if (snic_nvmefs_host_kick(h))
            snic_nvmefslink_ring(x->q);
        struct snic_nvmefs_req *got;
        while ((got = snic_nvmefs_host_reap(h)) != NULL) {
            x->wrong += got->op.result != 0 || got->op.attr.size != got->op.ino * 3;
            got->op.ctx = NULL;
            x->done++;
        }
        (void)sched_yield();
    }
    while (snic_nvmefs_host_outstanding(h) > 0)
        if (snic_nvmefs_host_reap(h) == NULL)
            (void)sched_yield();
    x->wrong += snic_nvmefs_host_check(h) != 0;
    x->finished = 1;
    return NULL;
}

static void test_nvmefslink_a_queue_per_thread(void **state)
{
    enum { N = 3 };
    struct snic_dma_events none = {NULL, NULL, NULL, NULL};
    struct server s = {.flags = 0};
    struct pat_host h;
    static struct direct x[N];
    pthread_t t[N + 1];
    struct snic_dma *d = NULL;
    struct snic_loop *loop = loop_open();
    (void)state;
    s.loop = loop_open();
    assert_int_equal(snic_dma_local_open(&d, loop, &none, &s.d, s.loop, &none), 0);
    pat_open(&s.dpu, s.d, N, 0);
    pat_host_open(&h, d, N);
    memset(x, 0, sizeof(x));
    assert_int_equal(pthread_create(&t[N], NULL, server_run, &s), 0);
    for (int i = 0; i < N; i++) {
        struct snic_nvmefslink_queue_opts o = {
            .opts_size = sizeof(o), .flags = SNIC_NVMEFSLINK_DIRECT, .depth = 8};
        struct snic_nvmefslink_events e = {direct_opened, NULL, direct_bell, direct_closed, &x[i]};
        x[i].rounds = support_rounds(2000, 100000);
        assert_int_equal(snic_nvmefslink_open(&x[i].q, h.link, &o, &e), 0);
    }
    for (int i = 0; i < N; i++) {
        for (int k = 0; k < 30000 && !x[i].opened; k++)
            (void)snic_loop_once(loop, 10000000);
        assert_int_equal(x[i].opened, 1);
        assert_int_equal(pthread_create(&t[i], NULL, direct_run, &x[i]), 0);
    }
    for (int i = 0; i < N; i++) {
        while (!x[i].finished)
            (void)snic_loop_once(loop, 10000000);
        assert_int_equal(pthread_join(t[i], NULL), 0);
        assert_int_equal(x[i].wrong, 0);
        snic_nvmefslink_end(x[i].q);
        for (int k = 0; k < 30000 && !x[i].closed; k++)
            (void)snic_loop_once(loop, 10000000);
        snic_nvmefslink_close(x[i].q);
    }
    s.stop = 1;
    assert_int_equal(pthread_join(t[N], NULL), 0);
    assert_ptr_equal(snic_nvmefslink_dpu_fini(s.dpu.link), s.dpu.mem);
    support_guard_free(s.dpu.mem);
    pat_host_close(&h);
    snic_dma_close(s.d);
    snic_loop_close(loop);
    snic_loop_close(s.loop);
}

/* ---- Processes ---- */

static void process_accept(void *ctx, struct snic_dma *d, uint32_t pid)
{
    struct pat_dpu *u = ctx;
    (void)pid;
    pat_open(u, d, 2, 0);
}

/** The DPU's process: serves one host until it has gone. */
static void process_dpu(const struct snic_dma_shm_opts *so, int ready)
{
    struct snic_loop *loop = NULL;
    struct snic_dma_listener *l = NULL;
    static struct pat_dpu u;
    int r = snic_loop_uring_open(&loop, NULL);
    if (r == 0)
        r = snic_dma_shm_listen(&l, loop, so, process_accept, &u);
    if (r != 0) {
        (void)fprintf(stderr, "the DPU's process: %s\n", snic_strerror(r));
        _exit(3);
    }
    (void)!write(ready, "x", 1);
    while (u.deaths == 0 || !snic_nvmefslink_dpu_idle(u.link))
        (void)snic_loop_once(loop, 1000000000);
    if (snic_nvmefs_dpu_check(snic_nvmefslink_dpu_engine(u.link)) != 0)
        _exit(4);
    snic_dma_shm_unlisten(l);
    (void)snic_nvmefslink_dpu_fini(u.link);
    snic_dma_close(u.d);
    _exit(0);
}

static pid_t process_start(const struct snic_dma_shm_opts *so)
{
    int ready[2];
    char byte;
    (void)fflush(NULL);
    assert_int_equal(pipe(ready), 0);
    pid_t pid = fork();
    if (pid == 0)
        process_dpu(so, ready[1]);
    (void)close(ready[1]);
    assert_int_equal(read(ready[0], &byte, 1), 1);
    (void)close(ready[0]);
    return pid;
}

static void test_nvmefslink_processes_over_shm(void **state)
{
    char path[256];
    struct snic_dma_shm_opts so = {.opts_size = sizeof(so), .path = path};
    struct snic_dma_events none = {NULL, NULL, NULL, NULL};
    struct pat_host h;
    static struct pat_queue q[2];
    struct snic_dma *d = NULL;
    int how = 0;
    (void)state;
    snic_loop_close(loop_open()); /* skips before the fork */
    support_tmpname(path, sizeof(path), "nvmefs");
    pid_t pid = process_start(&so);
    struct snic_loop *loop = loop_open();
    assert_int_equal(snic_dma_shm_connect(&d, loop, &so, &none), 0);
    pat_host_open(&h, d, 2);
    for (uint32_t i = 0; i < 2; i++)
        pat_queue_open(&q[i], &h, 16);
    host_work(&h, loop, q, 2, support_rounds(3000, 100000));
    assert_int_equal(snic_nvmefslink_reset(q[0].q), 0);
    for (int k = 0; k < 1000 && q[0].opened < 2; k++)
        (void)snic_loop_once(loop, 1000000000);
    assert_int_equal(q[0].opened, 2);
    host_work(&h, loop, q, 2, 4000);
    host_end(loop, q, 2);
    pat_host_close(&h);
    for (int i = 0; i < 10; i++)
        (void)snic_loop_once(loop, 0);
    snic_loop_close(loop);
    assert_int_equal(waitpid(pid, &how, 0), pid);
    assert_true(WIFEXITED(how) && WEXITSTATUS(how) == 0);
}

/* The DPU's process is killed with requests under way: they come home, once each. */
static void test_nvmefslink_the_dpus_process_is_killed(void **state)
{
    char path[256];
    struct snic_dma_shm_opts so = {.opts_size = sizeof(so), .path = path};
    struct snic_dma_events none = {NULL, NULL, NULL, NULL};
    (void)state;
    snic_loop_close(loop_open());
    for (int round = 0; round < 5; round++) {
        struct pat_host h;
        static struct pat_queue q[2];
        struct snic_dma *d = NULL;
        char name[16];
        (void)snprintf(name, sizeof(name), "nvmefsk%d", round);
        support_tmpname(path, sizeof(path), name);
        pid_t pid = process_start(&so);
        struct snic_loop *loop = loop_open();
        assert_int_equal(snic_dma_shm_connect(&d, loop, &so, &none), 0);
        pat_host_open(&h, d, 2);
        for (uint32_t i = 0; i < 2; i++)
            pat_queue_open(&q[i], &h, 16);
        host_work(&h, loop, q, 2, 50 + (uint64_t)round * 100);
        for (uint32_t k = 0; k < 4; k++)
            (void)pat_submit(&q[0], 0, k, SNIC_FSOP_SETLK); /* these wait for ever */
        for (int k = 0; k < round; k++)
            (void)snic_loop_once(loop, 0);
        assert_int_equal(kill(pid, SIGKILL), 0);
        for (int k = 0; k < 1000 && (q[0].q != NULL || q[1].q != NULL); k++)
            (void)snic_loop_once(loop, 1000000000);
        assert_int_equal(waitpid(pid, NULL, 0), pid);
        for (int i = 0; i < 2; i++)
            assert_true(q[i].closed == 1 && q[i].reason == SNIC_EPEERDEAD && q[i].out == 0 &&
                        q[i].wrong == 0);
        assert_int_equal(q[0].unknown, 4);
        pat_host_close(&h);
        for (int i = 0; i < 10; i++)
            (void)snic_loop_once(loop, 0);
        snic_loop_close(loop);
    }
}

/* The host's process is killed: the DPU's cancels what waits, and ends in order. */
static void test_nvmefslink_the_hosts_process_is_killed(void **state)
{
    char path[256];
    struct snic_dma_shm_opts so = {.opts_size = sizeof(so), .path = path};
    int how = 0;
    (void)state;
    snic_loop_close(loop_open());
    support_tmpname(path, sizeof(path), "nvmefsh");
    pid_t dpu = process_start(&so);
    (void)fflush(NULL);
    pid_t host = fork();
    if (host == 0) {
        struct snic_dma_events none = {NULL, NULL, NULL, NULL};
        struct pat_host h;
        static struct pat_queue q[2];
        struct snic_dma *d = NULL;
        struct snic_loop *loop = NULL;
        if (snic_loop_uring_open(&loop, NULL) != 0 ||
            snic_dma_shm_connect(&d, loop, &so, &none) != 0)
            _exit(3);
        pat_host_open(&h, d, 2);
        for (uint32_t i = 0; i < 2; i++)
            pat_queue_open(&q[i], &h, 16);
        for (uint32_t k = 0; k < 4; k++)
            (void)pat_submit(&q[0], 0, k, SNIC_FSOP_SETLK);
        for (uint32_t i = 0;; i++) {
            for (uint32_t k = 4; k < 12; k++)
                (void)pat_submit(&q[1], 1, k, SNIC_FSOP_READ);
            (void)snic_loop_once(loop, 1000000);
            if (i == 500)
                (void)raise(SIGKILL);
        }
    }
    assert_int_equal(waitpid(host, &how, 0), host);
    assert_true(WIFSIGNALED(how) && WTERMSIG(how) == SIGKILL);
    assert_int_equal(waitpid(dpu, &how, 0), dpu);
    assert_true(WIFEXITED(how) && WEXITSTATUS(how) == 0);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_nvmefslink_threads_over_local),
        cmocka_unit_test(test_nvmefslink_a_queue_per_thread),
        cmocka_unit_test(test_nvmefslink_processes_over_shm),
        cmocka_unit_test(test_nvmefslink_the_dpus_process_is_killed),
        cmocka_unit_test(test_nvmefslink_the_hosts_process_is_killed),
    };
    return SUPPORT_MAIN(argc, argv, tests);
}
