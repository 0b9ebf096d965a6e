/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * Both halves as processes over dma's shm backend, the store on LMDB, and SIGKILL for either, or
 * both, at random moments.
 *
 * What was requested, what was answered and what was fsynced of each page stands in memory that all
 * processes share, so a successor and the parent can judge what they find:
 *   a page is whole, its own, and of a version that was submitted for;
 *   DPU killed              nothing is lost: the page is of the last version;
 *   host killed             the page is of the last version that was answered, from the dead one's
 *                           memory; if it died in the page, of no older one than was fsynced;
 *   both                    of no older one than was fsynced.
 */
#include <signal.h>
#include <stdatomic.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "test_hcachelink_util.h"

enum { FILES = 3, PAGES = 40, FLIGHT = 8, BYTES = RIG_PAGE };

struct place {
    _Atomic(uint64_t) submitted, answered, synced;
};

/** Shared by all processes. */
static struct journal {
    struct place p[FILES][PAGES];
    uint64_t ino[FILES];
    _Atomic(uint64_t) version, ops, fsyncs, looked, salvaged, moved;
    _Atomic(int) stop;  /* the host ends in order */
    _Atomic(int) lossy; /* the host's successor: what was not fsynced may be gone */
    _Atomic(int) wrong; /* line */
    char store[256], socket[256];
} * j;

static int64_t wall(void *ctx)
{
    struct timespec t;
    (void)ctx;
    clock_gettime(CLOCK_REALTIME, &t);
    return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

static void wrong(int line)
{
    if (j->wrong == 0)
        j->wrong = line;
}

#define MUST(c)                                                                                    \
    do {                                                                                           \
        if (!(c)) {                                                                                \
            wrong(__LINE__);                                                                       \
            _exit(3);                                                                              \
        }                                                                                          \
    } while (0)

/* ---- Pages: version 0 is zeroes ---- */

static void page_make(unsigned char *p, uint64_t ino, uint64_t lpn, uint64_t version)
{
    struct snic_rng rng;
    if (version == 0) {
        memset(p, 0, BYTES);
        return;
    }
    snic_rng_init(&rng, version * 1000003 + ino * 1009 + lpn);
    snic_put_le64(p, version);
    for (uint32_t i = 8; i < BYTES; i += 8)
        snic_put_le64(p + i, snic_rng_next(&rng));
}

/** UINT64_MAX: torn, or another's. */
static uint64_t page_version(const unsigned char *p, uint64_t ino, uint64_t lpn)
{
    unsigned char right[BYTES];
    uint64_t v = snic_get_le64(p);
    page_make(right, ino, lpn, v);
    return memcmp(right, p, BYTES) == 0 ? v : UINT64_MAX;
}

/* ---- The store, in whatever process ---- */

struct store {
    struct snic_loop *loop;
    struct snic_kv *kv;
    struct snic_fs *fs;
};

static void store_open(struct store *t, int make)
{
    struct snic_kv_lmdb_opts lo = {.opts_size = sizeof(lo),
                                   .flags = make ? SNIC_KV_OPEN_CREATE : 0,
                                   .path = j->store,
                                   .map_bytes = 1 << 28};
    struct snic_fs_opts o = {.opts_size = sizeof(o),
                             .wall = wall,
                             .session_id = (uint64_t)getpid() << 32 | (uint64_t)(wall(NULL) | 1),
                             .requests_max = 256,
                             .inodes_max = 256,
                             .locks_max = 64,
                             .cache_bytes = 1 << 20,
                             .lease_ns = 400000000,
                             .heartbeat_ns = 100000000};
    char text[256] = "";
    int error = 0;
    MUST(snic_loop_uring_open(&t->loop, NULL) == 0);
    MUST(snic_kv_lmdb_open(&t->kv, t->loop, &lo, &error, text, sizeof(text)) == 0);
    MUST(snic_fs_init(&t->fs, malloc(snic_fs_memsize(&o)), snic_fs_memsize(&o), t->loop, t->kv,
                      &o) == 0);
    if (make)
        MUST(snic_fs_mkfs(t->fs, NULL) == 0);
    MUST(snic_fs_mount(t->fs) == 0);
}

static void store_close(struct store *t)
{
    MUST(snic_fs_unmount(t->fs) == 0);
    free(snic_fs_fini(t->fs));
    snic_kv_close(t->kv);
    snic_loop_close(t->loop);
}

static void file_name(char *name, int i)
{
    (void)snprintf(name, 8, "/f%d", i);
}

static void store_make(void *ctx)
{
    static unsigned char zero[PAGES * BYTES];
    struct store t;
    (void)ctx;
    store_open(&t, 1);
    for (int i = 0; i < FILES; i++) {
        char name[8];
        struct snic_fsop k = {.kind = SNIC_FSOP_RESOLVE,
                              .flags = SNIC_FSOP_CHECKED,
                              .ino = SNIC_FSOP_ROOT,
                              .name = name};
        file_name(name, i);
        k.name_size = (uint32_t)strlen(name);
        MUST(snic_fs_put(t.fs, name, zero, sizeof(zero), 0644) == 0);
        MUST(snic_fs_call(t.fs, &k) == 0);
        j->ino[i] = k.attr.ino;
    }
    store_close(&t);
    _exit(0);
}

/** The parent's last look: without any cache. */
static void store_judge(void *ctx)
{
    static unsigned char bytes[PAGES * BYTES];
    const int *exact = ctx;
    struct store t;
    store_open(&t, 0);
    for (int i = 0; i < FILES; i++) {
        char name[8];
        file_name(name, i);
        MUST(snic_fs_get(t.fs, name, bytes, sizeof(bytes)) == (int64_t)sizeof(bytes));
        for (uint64_t n = 0; n < PAGES; n++) {
            uint64_t v = page_version(bytes + n * BYTES, j->ino[i], n);
            struct place *p = &j->p[i][n];
            MUST(v != UINT64_MAX);
            MUST(v >= p->synced && v <= p->submitted);
            if (*exact)
                MUST(v == p->submitted && v == p->answered);
        }
    }
    store_close(&t);
    _exit(0);
}

/* ---- The DPU's process ---- */

static struct {
    struct store t;
    struct snic_hcachelink_dpu *dpu;
    struct snic_dma *d;
    void *mem;
    size_t size;
    struct snic_hcachelink_dpu_opts o;
    int gone;
} u;

static void dpu_gone(void *ctx, struct snic_hcachelink_dpu *d)
{
    (void)ctx;
    j->salvaged += rig_dpu_stats(d).salvaged;
    u.gone = 1;
}

static void dpu_accept(void *ctx, struct snic_dma *d, uint32_t pid)
{
    (void)ctx;
    (void)pid;
    if (u.dpu != NULL) { /* the one before is still being taken leave of */
        snic_dma_close(d);
        return;
    }
    MUST(snic_hcachelink_dpu_init(&u.dpu, u.mem, u.size, d, u.t.fs, &u.o) == 0);
    u.d = d;
}

static void dpu_process(void *ctx)
{
    const int *ready = ctx;
    struct snic_dma_shm_opts so = {.opts_size = sizeof(so), .path = j->socket};
    struct snic_dma_listener *l = NULL;
    store_open(&u.t, 0);
    u.o = (struct snic_hcachelink_dpu_opts){.opts_size = sizeof(u.o), .gone = dpu_gone};
    u.o.control.opts_size = sizeof(u.o.control);
    u.o.control.flush_ns = 5000000;
    u.size = snic_hcachelink_dpu_memsize(&u.o);
    MUST(posix_memalign(&u.mem, SNIC_CACHELINE, u.size) == 0);
    MUST(snic_dma_shm_listen(&l, u.t.loop, &so, dpu_accept, NULL) == 0);
    MUST(write(*ready, "x", 1) == 1);
    while (j->stop < 2) {
        (void)snic_loop_once(u.t.loop, 20000000);
        if (u.dpu != NULL)
            MUST(snic_hcachelink_dpu_check(u.dpu) == 0);
        if (!u.gone || !snic_hcachelink_dpu_idle(u.dpu) || !u.d->dead)
            continue;
        (void)snic_hcachelink_dpu_fini(u.dpu);
        snic_dma_close(u.d);
        u.dpu = NULL;
        u.gone = 0;
    }
    snic_dma_shm_unlisten(l);
    if (u.dpu != NULL && snic_hcachelink_dpu_idle(u.dpu)) {
        (void)snic_hcachelink_dpu_fini(u.dpu);
        snic_dma_close(u.d);
    }
    store_close(&u.t);
    _exit(0);
}

/* ---- The host's process ---- */

struct flight {
    struct snic_hcachelink_req req;
    unsigned char bytes[BYTES];
    uint64_t version, was[PAGES];
    int file, busy, again;
    uint64_t lpn;
};

static struct {
    struct snic_loop *loop;
    struct snic_dma *d;
    struct snic_hcachelink_host *host;
    struct flight f[FLIGHT];
    struct snic_rng rng;
    uint8_t held[FILES][PAGES];
    int opened, closed, reason, busy;
} h;

static void host_opened(void *ctx, struct snic_hcachelink_host *host)
{
    (void)ctx;
    (void)host;
    h.opened = 1;
}

static void host_closed(void *ctx, struct snic_hcachelink_host *host, int reason)
{
    (void)ctx;
    (void)host;
    h.closed = 1;
    h.reason = reason;
}

static void host_attach(void)
{
    struct snic_dma_shm_opts so = {.opts_size = sizeof(so), .path = j->socket};
    struct snic_dma_events none = {NULL, NULL, NULL, NULL};
    struct snic_dma *d = NULL;
    while (snic_dma_shm_connect(&d, h.loop, &so, &none) != 0)
        (void)usleep(2000);
    h.closed = 0;
    h.opened = 0;
    MUST(snic_hcachelink_host_attach(h.host, d) == 0);
    if (h.d != NULL)
        snic_dma_close(h.d);
    h.d = d;
}

static void flight_end(struct flight *x)
{
    struct place *p = &j->p[x->file][x->lpn];
    struct snic_hcachelink_req *r = &x->req;
    if (r->result == SNIC_EPEERDEAD) {
        x->again = 1;
        return;
    }
    x->busy = 0;
    h.busy--;
    j->ops++;
    switch (r->op) {
    case SNIC_HCACHELINK_WRITE:
        MUST(r->result == BYTES);
        p->answered = x->version;
        break;
    case SNIC_HCACHELINK_READ:
        MUST(r->result == BYTES);
        MUST(page_version(x->bytes, r->ino, x->lpn) == p->answered);
        break;
    default:
        MUST(r->result == 0);
        j->fsyncs++;
        for (int i = 0; i < PAGES; i++)
            if (j->p[x->file][i].synced < x->was[i])
                j->p[x->file][i].synced = x->was[i];
        return;
    }
    h.held[x->file][x->lpn] = 0;
}

static void flight_done(struct snic_hcachelink_req *req)
{
    flight_end(SNIC_CONTAINER(req, struct flight, req));
}

static void flight_submit(struct flight *x)
{
    int r;
    if (x->req.op == SNIC_HCACHELINK_FSYNC)
        for (int i = 0; i < PAGES; i++)
            x->was[i] = j->p[x->file][i].answered;
    r = snic_hcachelink_submit(h.host, &x->req);
    x->again = r == SNIC_EPIPE; /* the link has just died */
    if (r == 1)
        flight_end(x);
    else
        MUST(r == 0 || r == SNIC_EPIPE);
}

static void flight_start(struct flight *x)
{
    uint64_t what = snic_rng_below(&h.rng, 40);
    x->file = (int)snic_rng_below(&h.rng, FILES);
    x->lpn = snic_rng_below(&h.rng, PAGES);
    x->req = (struct snic_hcachelink_req){.op = SNIC_HCACHELINK_FSYNC,
                                          .ino = j->ino[x->file],
                                          .offset = x->lpn * BYTES,
                                          .length = BYTES,
                                          .data = x->bytes,
                                          .done = flight_done};
    if (what != 0) {
        if (h.held[x->file][x->lpn])
            return;
        h.held[x->file][x->lpn] = 1;
        x->req.op = what < 18 ? SNIC_HCACHELINK_WRITE : SNIC_HCACHELINK_READ;
    }
    if (x->req.op == SNIC_HCACHELINK_WRITE) {
        x->version = ++j->version;
        page_make(x->bytes, x->req.ino, x->lpn, x->version);
        j->p[x->file][x->lpn].submitted = x->version;
    }
    x->busy = 1;
    h.busy++;
    flight_submit(x);
}

static void host_round(int more)
{
    if (h.closed) {
        MUST(h.reason == SNIC_EPEERDEAD);
        host_attach();
    }
    for (int i = 0; i < FLIGHT; i++) {
        struct flight *x = &h.f[i];
        if (x->busy && x->again)
            flight_submit(x);
        else if (!x->busy && more)
            flight_start(x);
    }
    (void)snic_loop_once(h.loop, h.busy != 0 || !more ? 10000000 : 0);
    MUST(snic_hcachelink_host_check(h.host) == 0);
}

static void look_done(struct snic_hcachelink_req *req)
{
    SNIC_CONTAINER(req, struct flight, req)->file = 0;
}

/** What the predecessor has left. */
static void host_look(void)
{
    struct flight *x = &h.f[0];
    for (int i = 0; i < FILES; i++)
        for (uint64_t n = 0; n < PAGES; n++) {
            struct place *p = &j->p[i][n];
            uint64_t v;
            int r = SNIC_EPIPE;
            do {
                x->req = (struct snic_hcachelink_req){.op = SNIC_HCACHELINK_READ,
                                                      .ino = j->ino[i],
                                                      .offset = n * BYTES,
                                                      .length = BYTES,
                                                      .data = x->bytes,
                                                      .done = look_done};
                x->busy = x->again = 0;
                if (h.closed)
                    host_attach();
                x->file = -1;
                r = snic_hcachelink_submit(h.host, &x->req);
                while (r == 0 && x->file == -1)
                    (void)snic_loop_once(h.loop, 10000000);
            } while (r == SNIC_EPIPE || x->req.result == SNIC_EPEERDEAD);
            MUST(x->req.result == BYTES);
            v = page_version(x->bytes, j->ino[i], n);
            MUST(v != UINT64_MAX);
            MUST(v >= p->synced && v <= p->submitted);
            if (!j->lossy && p->submitted == p->answered)
                MUST(v == p->answered);
            p->answered = p->submitted = v;
            j->looked++;
        }
}

static void host_process(void *ctx)
{
    struct snic_hcachelink_host_opts o = {.opts_size = sizeof(o),
                                          .cache = {.opts_size = sizeof(o.cache),
                                                    .page_bytes = BYTES,
                                                    .ways = 8,
                                                    .mode = SNIC_HCACHE_MODE_WRITE,
                                                    .pages = 64},
                                          .events = {host_opened, host_closed, NULL}};
    (void)ctx;
    snic_rng_init(&h.rng, (uint64_t)wall(NULL));
    MUST(snic_loop_uring_open(&h.loop, NULL) == 0);
    MUST(snic_hcachelink_host_init(&h.host, malloc(snic_hcachelink_host_memsize(&o)),
                                   snic_hcachelink_host_memsize(&o), &o) == 0);
    host_attach();
    host_look();
    while (j->stop == 0)
        host_round(1);
    while (h.busy != 0)
        host_round(0);
    while (!h.opened)
        host_round(0);
    snic_hcachelink_host_end(h.host);
    while (!h.closed)
        (void)snic_loop_once(h.loop, 10000000);
    MUST(h.reason == 0);
    j->moved += rig_host_stats(h.host).moved;
    (void)snic_hcachelink_host_fini(h.host);
    snic_dma_close(h.d);
    snic_loop_close(h.loop);
    _exit(0);
}

/* ---- The parent ---- */

static pid_t start(void (*body)(void *), void *ctx)
{
    pid_t pid;
    (void)fflush(NULL);
    pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        (void)prctl(PR_SET_PDEATHSIG, SIGKILL); /* no process stays when the test fails */
        body(ctx);
    }
    return pid;
}

static pid_t start_dpu(void)
{
    int ready[2];
    char byte;
    pid_t pid;
    assert_int_equal(pipe(ready), 0);
    pid = start(dpu_process, &ready[1]);
    (void)close(ready[1]);
    (void)!read(ready[0], &byte, 1);
    (void)close(ready[0]);
    return pid;
}

static void ended(pid_t pid, int by)
{
    int how = 0;
    assert_int_equal(waitpid(pid, &how, 0), pid);
    if (j->wrong != 0)
        fail_msg("a process saw something wrong: line %d", j->wrong);
    if (by == 0)
        assert_true(WIFEXITED(how) && WEXITSTATUS(how) == 0);
    else
        assert_true(WIFSIGNALED(how) && WTERMSIG(how) == by);
}

static void killed(pid_t pid)
{
    assert_int_equal(kill(pid, SIGKILL), 0);
    ended(pid, SIGKILL);
}

enum { KILL_DPU = 1, KILL_HOST = 2 };

static void run(const char *name, int who, uint64_t rounds)
{
    struct snic_rng rng;
    struct snic_loop *loop = NULL;
    pid_t dpu, host;
    int exact = 1;
    int r = snic_loop_uring_open(&loop, NULL);
    if (r != 0)
        support_skip("no io_uring");
    snic_loop_close(loop);
    j = mmap(NULL, sizeof(*j), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    assert_true(j != MAP_FAILED);
    support_tmpname(j->store, sizeof(j->store), name);
    support_tmpname(j->socket, sizeof(j->socket), "s");
    snic_rng_init(&rng, support_seed());
    ended(start(store_make, NULL), 0);
    dpu = start_dpu();
    host = start(host_process, NULL);
    for (uint64_t i = 0; i < rounds && j->wrong == 0; i++) {
        int now = who == 3 ? 1 + (int)snic_rng_below(&rng, 3) : who;
        (void)usleep(5000 + (useconds_t)snic_rng_below(&rng, 60000));
        j->lossy = now == 3 || (who == 3 && j->lossy);
        if (now == 3)
            assert_int_equal(kill(dpu, SIGKILL), 0);
        if (now & KILL_HOST)
            killed(host);
        if (now == 3)
            ended(dpu, SIGKILL);
        else if (now & KILL_DPU)
            killed(dpu);
        if (now & KILL_DPU)
            dpu = start_dpu();
        if (now & KILL_HOST)
            host = start(host_process, NULL);
    }
    (void)usleep(50000);
    j->stop = 1;
    ended(host, 0);
    j->stop = 2;
    ended(dpu, 0);
    ended(start(store_judge, &exact), 0);
    print_message("%u kills: %u requests, %u fsyncs, %u pages looked at, %u salvaged, %u moves\n",
                  (unsigned)rounds, (unsigned)j->ops, (unsigned)j->fsyncs, (unsigned)j->looked,
                  (unsigned)j->salvaged, (unsigned)j->moved);
    (void)munmap(j, sizeof(*j));
}

static void test_hcachelink_dpu_killed(void **state)
{
    (void)state;
    run("dpu", KILL_DPU, support_scale(12, 300));
}

static void test_hcachelink_host_killed(void **state)
{
    (void)state;
    run("host", KILL_HOST, support_scale(12, 300));
}

static void test_hcachelink_either_or_both_killed(void **state)
{
    (void)state;
    run("both", KILL_HOST | KILL_DPU, support_scale(16, 400));
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_hcachelink_dpu_killed),
        cmocka_unit_test(test_hcachelink_host_killed),
        cmocka_unit_test(test_hcachelink_either_or_both_killed),
    };
    return SUPPORT_MAIN(argc, argv, tests);
}
