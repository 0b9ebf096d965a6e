/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * Both halves as threads of one process over dma's local backend: random reads, writes,
 * truncations, drops and fsyncs of several files at once in a region that holds a fraction of them,
 * against a copy. In the end the file system has, byte for byte, what the copy has.
 */
#include <pthread.h>
#include <time.h>

#include "test_hcachelink_util.h"

enum { FILES = 8, FILE_MAX = 48 * 4096, IO_MAX = 5 * 4096, SLOTS = 24 };

struct server {
    struct snic_loop *loop;
    struct snic_dma *d;
    struct snic_hcachelink_dpu *dpu;
    struct snic_hcachelink_dpu_opts o;
    uint64_t ino[FILES];
    unsigned char *got[FILES];
    int64_t size[FILES];
    _Atomic(int) ready, stop, wrong;
};

struct known {
    uint64_t ino;
    uint64_t size;
    unsigned char bytes[FILE_MAX];
    uint32_t readers, writers; /* requests in flight */
};

struct slot {
    struct snic_hcachelink_req req;
    struct known *f;
    unsigned char buffer[IO_MAX];
    int busy;
};

static struct {
    struct known file[FILES];
    struct slot slot[SLOTS];
    struct snic_hcachelink_host *host;
    struct snic_loop *loop;
    struct snic_rng rng;
    uint64_t done, busy, wrong, closed;
    int reason;
} s;

static int64_t wall(void *ctx)
{
    struct timespec t;
    (void)ctx;
    clock_gettime(CLOCK_REALTIME, &t);
    return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
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

static void file_name(char *name, int i)
{
    (void)snprintf(name, 8, "/f%d", i);
}

/* ---- The DPU's thread ---- */

static void *server_run(void *arg)
{
    struct server *v = arg;
    struct snic_kvmem_opts m = {.opts_size = sizeof(m), .seed = support_seed()};
    struct snic_fs_opts o = {.opts_size = sizeof(o), .wall = wall, .session_id = 5};
    size_t size = snic_fs_memsize(&o);
    void *fs_mem = malloc(size);
    void *mem = support_guard_alloc(snic_hcachelink_dpu_memsize(&v->o), SNIC_CACHELINE);
    struct snic_kvmem *medium = NULL;
    struct snic_kv *kv = NULL;
    struct snic_fs *fs = NULL;
    char name[8];
    int bad = snic_kvmem_open(&medium, &m) != 0 || snic_kv_mem_open(&kv, v->loop, medium) != 0 ||
              snic_fs_init(&fs, fs_mem, size, v->loop, kv, &o) != 0 ||
              snic_fs_mkfs(fs, NULL) != 0 || snic_fs_mount(fs) != 0;
    for (int i = 0; i < FILES && !bad; i++) {
        struct snic_fsop k = {.kind = SNIC_FSOP_RESOLVE,
                              .flags = SNIC_FSOP_CHECKED,
                              .ino = SNIC_FSOP_ROOT,
                              .name = name};
        file_name(name, i);
        k.name_size = (uint32_t)strlen(name);
        bad = snic_fs_put(fs, name, "", 0, 0644) != 0 || snic_fs_call(fs, &k) != 0;
        v->ino[i] = k.attr.ino;
    }
    bad = bad || snic_hcachelink_dpu_init(&v->dpu, mem, snic_hcachelink_dpu_memsize(&v->o), v->d,
                                          fs, &v->o) != 0;
    v->wrong = bad;
    v->ready = 1;
    while (!bad && (!v->stop || !snic_hcachelink_dpu_idle(v->dpu)))
        (void)snic_loop_once(v->loop, 100000000);
    if (bad)
        return NULL;
    v->wrong += snic_hcachelink_dpu_check(v->dpu) != 0;
    for (int i = 0; i < FILES; i++) {
        file_name(name, i);
        v->got[i] = malloc(FILE_MAX);
        v->size[i] = snic_fs_get(fs, name, v->got[i], FILE_MAX);
    }
    support_guard_free(snic_hcachelink_dpu_fini(v->dpu));
    v->wrong += snic_fs_unmount(fs) != 0;
    free(snic_fs_fini(fs));
    snic_kv_close(kv);
    snic_kvmem_close(medium);
    return NULL;
}

/* ---- The host ---- */

static void judge(struct slot *x)
{
    struct snic_hcachelink_req *r = &x->req;
    struct known *f = x->f;
    switch (r->op) {
    case SNIC_HCACHELINK_READ:
        s.wrong += r->result != (int64_t)r->length ||
                   memcmp(x->buffer, f->bytes + r->offset, r->length) != 0;
        f->readers--;
        break;
    case SNIC_HCACHELINK_WRITE:
        s.wrong += r->result != (int64_t)r->length;
        memcpy(f->bytes + r->offset, x->buffer, r->length);
        f->size = snic_max_u64(f->size, r->offset + r->length);
        f->writers--;
        break;
    case SNIC_HCACHELINK_TRUNCATE:
        s.wrong += r->result != 0;
        if (r->length < f->size)
            memset(f->bytes + r->length, 0, f->size - r->length);
        f->size = r->length;
        f->writers--;
        break;
    default:
        s.wrong += r->result != 0;
        f->readers -= r->op == SNIC_HCACHELINK_FSYNC;
        f->writers -= r->op != SNIC_HCACHELINK_FSYNC;
        break;
    }
    x->busy = 0;
    s.busy--;
    s.done++;
}

static void request_done(struct snic_hcachelink_req *req)
{
    judge(SNIC_CONTAINER(req, struct slot, req));
}

static void start(struct slot *x, uint32_t op, struct known *f)
{
    struct snic_hcachelink_req *r = &x->req;
    int e;
    memset(r, 0, sizeof(*r));
    x->f = f;
    r->op = op;
    r->ino = f->ino;
    r->done = request_done;
    r->data = x->buffer;
    r->length = 1 + snic_rng_below(&s.rng, snic_rng_below(&s.rng, 2) ? 300 : IO_MAX);
    r->offset = snic_rng_below(&s.rng, FILE_MAX - r->length);
    if (snic_rng_below(&s.rng, 4) == 0)
        r->offset &= ~UINT64_C(4095);
    for (uint64_t i = 0; op == SNIC_HCACHELINK_WRITE && i < r->length; i++)
        x->buffer[i] = (unsigned char)(snic_rng_next(&s.rng) >> 11);
    if (op == SNIC_HCACHELINK_TRUNCATE)
        r->length = snic_rng_below(&s.rng, f->size + 3000 < FILE_MAX ? f->size + 3000 : FILE_MAX);
    x->busy = 1;
    s.busy++;
    f->readers += op == SNIC_HCACHELINK_READ || op == SNIC_HCACHELINK_FSYNC;
    f->writers += op != SNIC_HCACHELINK_READ && op != SNIC_HCACHELINK_FSYNC;
    if (snic_rng_below(&s.rng, 4) == 0) {
        snic_hcachelink_post(s.host, s.loop, r);
        return;
    }
    e = snic_hcachelink_submit(s.host, r);
    s.wrong += e < 0;
    if (e != 0)
        judge(x);
}

/* DROP loses what was not flushed: only after an fsync of the same file, with no other user. */
static void maybe_start(struct slot *x)
{
    static const uint8_t ops[16] = {1, 1, 1, 1, 1, 1, 1, 2, 2, 2, 2, 2, 2, 3, 4, 1};
    struct known *f = &s.file[snic_rng_below(&s.rng, FILES)];
    uint32_t op = ops[snic_rng_below(&s.rng, 16)];
    int writes = op == SNIC_HCACHELINK_WRITE || op == SNIC_HCACHELINK_TRUNCATE;
    if (f->writers != 0 || (writes && f->readers != 0))
        return;
    start(x, op, f);
}

static void closed(void *ctx, struct snic_hcachelink_host *h, int reason)
{
    (void)ctx;
    (void)h;
    s.closed++;
    s.reason = reason;
}

/** fsync and drop everything of a file: what comes back is the store's. */
static void drop_all(struct snic_loop *loop, struct known *f)
{
    struct slot *x = &s.slot[0];
    static const uint32_t ops[2] = {SNIC_HCACHELINK_FSYNC, SNIC_HCACHELINK_DROP};
    for (int i = 0; i < 2; i++) {
        while (s.busy > 0)
            (void)snic_loop_once(loop, SNIC_NEVER);
        start(x, ops[i], f);
    }
    while (s.busy > 0)
        (void)snic_loop_once(loop, SNIC_NEVER);
}

static void work(struct snic_loop *loop, uint64_t rounds)
{
    while (s.done < rounds && s.wrong == 0) {
        for (int i = 0; i < SLOTS; i++)
            if (!s.slot[i].busy)
                maybe_start(&s.slot[i]);
        if (snic_rng_below(&s.rng, 200) == 0)
            drop_all(loop, &s.file[snic_rng_below(&s.rng, FILES)]);
        (void)snic_loop_once(loop, s.busy > 0 ? SNIC_NEVER : 0);
        assert_int_equal(snic_hcachelink_host_check(s.host), 0);
    }
    while (s.busy > 0)
        (void)snic_loop_once(loop, SNIC_NEVER);
}

static void run(uint64_t pages, uint32_t page_bytes)
{
    struct snic_dma_events none = {NULL, NULL, NULL, NULL};
    struct server v = {.o = {.opts_size = sizeof(v.o)}};
    struct snic_hcachelink_host_opts ho = {.opts_size = sizeof(ho),
                                           .cache = {.opts_size = sizeof(ho.cache),
                                                     .page_bytes = page_bytes,
                                                     .ways = 8,
                                                     .mode = SNIC_HCACHE_MODE_WRITE,
                                                     .pages = pages},
                                           .events = {NULL, closed, NULL}};
    struct snic_loop *loop = loop_open();
    struct snic_dma *d = NULL;
    struct snic_hcache_counts c;
    uint64_t epoch;
    const void *region;
    size_t size = snic_hcachelink_host_memsize(&ho);
    void *mem = support_guard_alloc(size, 16);
    pthread_t t;
    memset(&s, 0, sizeof(s));
    snic_rng_init(&s.rng, support_seed());
    s.loop = loop;
    v.loop = loop_open();
    v.o.control.opts_size = sizeof(v.o.control);
    v.o.control.jobs = 16;
    v.o.control.flush_ns = 3000000;
    assert_int_equal(snic_dma_local_open(&d, loop, &none, &v.d, v.loop, &none), 0);
    assert_int_equal(pthread_create(&t, NULL, server_run, &v), 0);
    while (!v.ready)
        (void)snic_loop_once(loop, 1000000);
    assert_int_equal(v.wrong, 0);
    for (int i = 0; i < FILES; i++)
        s.file[i].ino = v.ino[i];
    assert_int_equal(snic_hcachelink_host_init(&s.host, mem, size, &ho), 0);
    assert_int_equal(snic_hcachelink_host_attach(s.host, d), 0);
    work(loop, support_rounds(6000, 300000));
    assert_int_equal(s.wrong, 0);
    snic_hcachelink_host_end(s.host);
    while (s.closed == 0)
        (void)snic_loop_once(loop, SNIC_NEVER);
    assert_int_equal(s.reason, 0);
    region = snic_hcachelink_host_region(s.host, &size, &epoch);
    assert_int_equal(snic_hcache_check(region, size, &c), 0);
    assert_int_equal(c.dirty + c.invalid + c.write_locked + c.read_locked + c.flights + c.guards,
                     0);
    print_message("%u hits, %u fills, %u waits, %u wakes\n", (unsigned)rig_host_stats(s.host).hits,
                  (unsigned)rig_host_stats(s.host).fills, (unsigned)rig_host_stats(s.host).waits,
                  (unsigned)rig_host_stats(s.host).wakes);
    v.stop = 1;
    assert_int_equal(pthread_join(t, NULL), 0);
    assert_int_equal(v.wrong, 0);
    for (int i = 0; i < FILES; i++) {
        assert_int_equal(v.size[i], s.file[i].size);
        assert_memory_equal(v.got[i], s.file[i].bytes, s.file[i].size);
        free(v.got[i]);
    }
    support_guard_free(snic_hcachelink_host_fini(s.host));
    snic_dma_close(d);
    snic_dma_close(v.d);
    snic_loop_close(loop);
    snic_loop_close(v.loop);
}

static void test_hcachelink_threads_small_region(void **state)
{
    (void)state;
    run(64, 4096);
}

static void test_hcachelink_threads_large_pages(void **state)
{
    (void)state;
    run(128, 8192);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_hcachelink_threads_small_region),
        cmocka_unit_test(test_hcachelink_threads_large_pages),
    };
    return SUPPORT_MAIN(argc, argv, tests);
}
