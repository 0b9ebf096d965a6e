/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/**
 * The cache without a kernel and a link: requests as kvfs_mount makes them go through it to a file
 * system in simulated time; a model knows which bytes may be read.
 */
#ifndef SNIC_TEST_FSCACHE_WORLD_H
#define SNIC_TEST_FSCACHE_WORLD_H

#include "hcachelink/test_hcachelink_util.h"

#include "fscache/fscache_priv.h"

#ifndef WORLD_PAGES
#define WORLD_PAGES 40 /* of a file, at most */
#endif

enum {
    FILES = 4,
    FILE_MAX = WORLD_PAGES * FSCACHE_PAGE,
    OPS = 6,
    CALL_DATA = 1 << 20,
    REGION_PAGES = 128
};

/* A request, and where its data are. */
struct call {
    struct snic_fs_req r;
    struct snic_fscache_req cached;
    struct snic_iov iov;
    void *data;
    struct call *next; /* of the free ones */
    struct snic_timer timer;
    unsigned char buffer[CALL_DATA];
};

struct op {
    struct call *call;
    uint32_t file;
    uint64_t offset;
    uint64_t length;
    unsigned char *data;
    int done;
    int64_t result;
};

static struct {
    struct rig g;
    struct snic_fscache *fc;
    struct snic_fscache_opts opts;
    void *memory;
    struct call *free;
    int alone;
    int deaths;
    struct snic_dma *dma; /* the other end's, with g.dpu on it */
    int dying;
    int refuses;        /* the next process does not take the cache */
    uint32_t slow_kind; /* answers of this kind need so long more, */
    uint64_t slow_ns;
    int slow_now;   /* and one is on its way */
    uint32_t fails; /* requests of this kind are answered SNIC_EIO */
    struct snic_rng rng;
    uint64_t ino[FILES], handle[FILES], size[FILES];
    unsigned char model[FILES][FILE_MAX], now[FILES][FILE_MAX];
    uint64_t lost, invalid;
    struct snic_fscache_handle handles[64];
    uint64_t space; /* of the next run's store */
    struct op ops[OPS];
    unsigned count;
} w;

/* ---- Memory of requests ---- */

static inline struct call *call_get(void)
{
    struct call *c = w.free;

    if (c != NULL)
        w.free = c->next;
    else
        c = malloc(sizeof(*c));
    if (c == NULL)
        abort();
    memset(&c->r, 0, sizeof(c->r));
    memset(&c->cached, 0, sizeof(c->cached));
    c->data = c->buffer;
    c->cached.k = &c->r.op;
    c->cached.data = c->buffer;
    c->cached.buffer = c->buffer;
    return c;
}

static inline void call_put(struct call *c)
{
    c->next = w.free;
    w.free = c;
}

static inline void calls_free(void)
{
    while (w.free != NULL) {
        struct call *c = w.free;

        w.free = c->next;
        free(c);
    }
}

static inline struct call *call_of(struct snic_fscache_req *req)
{
    return SNIC_CONTAINER(req, struct call, cached);
}

/* ---- The world around the cache ---- */

static inline void call_done(struct snic_fscache_req *req)
{
    struct call *c = call_of(req);

    c->data = req->data;
    for (unsigned i = 0; i < w.count; i++)
        if (w.ops[i].call == c) {
            w.ops[i].done = 1;
            w.ops[i].result = c->r.op.result;
            return;
        }
    fail_msg("an answer to nothing");
}

static inline void travel_home(struct snic_timer *t, uint64_t now)
{
    struct call *c = SNIC_CONTAINER(t, struct call, timer);

    (void)now;
    snic_fscache_answer(w.fc, &c->cached, c->buffer);
}

static inline void travel_done(struct snic_fs_req *r)
{
    struct call *c = SNIC_CONTAINER(r, struct call, r);
    int slow = w.slow_ns != 0 && r->op.kind == w.slow_kind;

    if (w.fails != 0 && r->op.kind == w.fails)
        r->op.result = SNIC_EIO;
    w.slow_now |= slow;
    snic_timer_init(&c->timer, travel_home);
    snic_loop_arm(w.g.loop[0], &c->timer,
                  snic_loop_now(w.g.loop[0]) + snic_rng_below(&w.rng, 30000) +
                      (slow ? w.slow_ns : 0));
}

static inline void travel_there(struct snic_timer *t, uint64_t now)
{
    struct call *c = SNIC_CONTAINER(t, struct call, timer);

    (void)now;
    c->r.done = travel_done;
    snic_fs_submit(w.g.fs, &c->r);
}

static inline void world_submit(void *ctx, struct snic_fscache_req *req)
{
    struct call *c = call_of(req);

    (void)ctx;
    snic_timer_init(&c->timer, travel_there);
    snic_loop_arm(w.g.loop[1], &c->timer,
                  snic_loop_now(w.g.loop[1]) + snic_rng_below(&w.rng, 30000));
}

static inline struct snic_fscache_req *world_get(void *ctx)
{
    (void)ctx;
    return &call_get()->cached;
}

static inline void world_put(void *ctx, struct snic_fscache_req *req)
{
    (void)ctx;
    call_put(call_of(req));
}

static inline struct snic_fscache_handle *world_handle(void *ctx, uint64_t handle)
{
    (void)ctx;
    return &w.handles[handle % SNIC_COUNTOF(w.handles)];
}

static inline int world_by_name(void *ctx, const struct snic_fsop *k)
{
    (void)ctx;
    (void)k;
    return 0;
}

static inline void world_lost(void *ctx, uint64_t ino)
{
    (void)ctx;
    (void)ino;
    w.lost++;
}

static inline void world_invalid(void *ctx, uint64_t ino)
{
    (void)ctx;
    (void)ino;
    w.invalid++;
}

static inline int64_t world_wall(void *ctx)
{
    (void)ctx;
    return rig_wall(&w.g);
}

/* ---- The other end ---- */

static inline void world_reap(void)
{
    if (w.g.dpu == NULL || !(w.g.gone || w.dying) || !snic_hcachelink_dpu_idle(w.g.dpu))
        return;
    support_guard_free(snic_hcachelink_dpu_fini(w.g.dpu));
    if (w.dying)
        snic_dma_sim_kill(w.dma);
    snic_dma_close(w.dma);
    w.g.dpu = NULL;
    w.dying = 0;
    w.g.gone = 0;
}

static inline int world_connect(void *ctx, struct snic_dma **out)
{
    struct snic_dma_events none = {NULL, NULL, NULL, NULL};
    struct snic_dma_sim_opts so = {.opts_size = sizeof(so), .caps = SNIC_DMA_CAP_ATOMIC};

    (void)ctx;
    if (w.g.dpu != NULL || w.refuses)
        return SNIC_ECONNREFUSED;
    assert_int_equal(snic_dma_sim_open(out, w.g.loop[0], &none, &w.dma, w.g.loop[1], &none, &so),
                     0);
    w.g.d[1] = w.dma;
    rig_dpu(&w.g);
    return 0;
}

static inline void world_update(void)
{
    snic_fscache_update(w.fc, SNIC_FSCACHE_UP | (w.alone ? SNIC_FSCACHE_ALONE : 0));
}

static inline void world_step(void)
{
    static unsigned steps;

    if (++steps % 64 == 0)
        world_update();
    if (!snic_world_step(w.g.w))
        world_update();
    if (steps % 64 == 0 && w.g.dpu != NULL)
        assert_int_equal(snic_hcachelink_dpu_check(w.g.dpu), 0);
    if (steps % 64 == 0 && w.fc->half != NULL)
        assert_int_equal(snic_hcachelink_host_check(w.fc->half), 0);
    if (steps % 64 == 0)
        assert_int_equal(snic_fscache_check(w.fc), 0);
    world_reap();
}

static inline void world_kill(void)
{
    if (w.g.dpu == NULL || w.dying || w.fc->state != FSCACHE_ON)
        return;
    w.dying = 1; /* it stops where it is: locks and flights stay */
    snic_hcachelink_dpu_detach(w.g.dpu);
}

/* ---- Requests ---- */

static inline struct op *op_new(uint32_t kind, uint32_t file)
{
    struct op *o = &w.ops[w.count++];
    struct call *c = call_get();

    *o = (struct op){.call = c, .file = file};
    c->cached.done = call_done;
    c->r.op.kind = kind;
    c->r.op.flags = SNIC_FSOP_CHECKED;
    c->r.op.ino = w.ino[file];
    c->r.op.handle = w.handle[file];
    return o;
}

static inline void op_go(struct op *o)
{
    snic_fscache_submit(w.fc, &o->call->cached);
}

static inline struct op *op_bytes(uint32_t kind, uint32_t file, uint64_t offset, uint64_t length)
{
    struct op *o = op_new(kind, file);
    struct call *c = o->call;

    o->offset = offset;
    o->length = length;
    o->data = c->buffer;
    c->iov = (struct snic_iov){.base = o->data, .size = length};
    c->r.op.iov = &c->iov;
    c->r.op.iov_count = 1;
    c->r.op.offset = offset;
    c->r.op.length = length;
    for (uint64_t i = 0; kind == SNIC_FSOP_WRITE && i < length; i++)
        o->data[i] = (unsigned char)(1 + snic_rng_below(&w.rng, 255));
    return o;
}

static inline void ops_end(void)
{
    for (unsigned i = 0; i < w.count; i++) {
        for (int n = 0; n < 20000000 && !w.ops[i].done; n++)
            world_step();
        assert_true(w.ops[i].done);
    }
}

static inline void ops_free(void)
{
    for (unsigned i = 0; i < w.count; i++)
        call_put(w.ops[i].call);
    w.count = 0;
}

static int64_t op_alone(struct op *o)
{
    int64_t result;

    op_go(o);
    ops_end();
    result = o->result;
    ops_free();
    return result;
}

/* ---- What may be read ---- */

static inline void check_read(const struct op *o, uint64_t old_size, uint64_t new_size)
{
    uint64_t low = snic_min_u64(old_size, new_size);
    uint64_t high = snic_max_u64(old_size, new_size);
    uint64_t least = low > o->offset ? snic_min_u64(o->length, low - o->offset) : 0;
    uint64_t most = high > o->offset ? snic_min_u64(o->length, high - o->offset) : 0;

    if (o->result < (int64_t)least || o->result > (int64_t)most)
        fail_msg("read at %llu: %lld bytes of %llu to %llu", (unsigned long long)o->offset,
                 (long long)o->result, (unsigned long long)least, (unsigned long long)most);
    for (int64_t i = 0; i < o->result; i++) {
        uint64_t at = o->offset + (uint64_t)i;
        unsigned char got = ((const unsigned char *)o->call->data)[i];

        if (got != w.model[o->file][at] && got != w.now[o->file][at] && (got != 0 || at < low))
            fail_msg("file %u at %llu: %u, not %u or %u", o->file, (unsigned long long)at, got,
                     w.model[o->file][at], w.now[o->file][at]);
    }
}

static inline void check_all(uint32_t file)
{
    struct snic_fsop_attr a = {.ino = w.ino[file]};
    struct op *o = op_new(SNIC_FSOP_GETATTR, file);

    op_go(o);
    ops_end();
    assert_int_equal(o->result, 0);
    a = o->call->r.op.attr;
    snic_fscache_amend(w.fc, &a);
    assert_int_equal(a.size, w.size[file]);
    ops_free();
    o = op_bytes(SNIC_FSOP_READ, file, 0, FILE_MAX);
    if (snic_rng_below(&w.rng, 2))
        o->call->r.op.flags |= SNIC_FSOP_DIRECT;
    op_go(o);
    ops_end();
    check_read(o, w.size[file], w.size[file]);
    ops_free();
}

/* After a flush the file system itself has all. */
static inline void check_store(uint32_t file)
{
    static unsigned char all[FILE_MAX];
    char name[3] = {'/', (char)('a' + file), 0};

    assert_int_equal(op_alone(op_new(SNIC_FSOP_FLUSH, file)), 0);
    assert_int_equal(snic_fs_get(w.g.fs, name, all, sizeof(all)), w.size[file]);
    assert_memory_equal(all, w.model[file], (size_t)w.size[file]);
}

static inline void now_write(struct op *o)
{
    uint64_t end = o->offset + o->length;

    memcpy(w.now[o->file] + o->offset, o->data, o->length);
    w.size[o->file] = snic_max_u64(w.size[o->file], end);
}

/* ---- Beginning and end ---- */

static inline void world_cache(int write_back, int prefetch)
{
    size_t size;

    w.opts = (struct snic_fscache_opts){.opts_size = sizeof(w.opts),
                                        .flags = (write_back ? SNIC_FSCACHE_WRITE_BACK : 0) |
                                                 (prefetch ? SNIC_FSCACHE_PREFETCH : 0),
                                        .inodes_max = 16,
                                        .pages_max = REGION_PAGES,
                                        .ops = {.submit = world_submit,
                                                .get = world_get,
                                                .put = world_put,
                                                .handle = world_handle,
                                                .by_name = world_by_name,
                                                .connect = world_connect,
                                                .lost = world_lost,
                                                .invalid = world_invalid,
                                                .wall = world_wall}};
    assert_null(snic_fscache_opts_wrong(&w.opts));
    size = snic_fscache_memsize(&w.opts);
    w.memory = support_guard_alloc(size, SNIC_FSCACHE_ALIGN);
    assert_int_equal(snic_fscache_init(&w.fc, w.memory, size, w.g.loop[0], &w.opts), 0);
}

static inline void world_open(uint64_t seed, int write_back, int deaths)
{
    struct snic_world_opts wo = {.opts_size = sizeof(wo), .seed = seed};

    uint64_t space = w.space;

    memset(&w, 0, sizeof(w));
    snic_rng_init(&w.rng, seed);
    rig_defaults(&w.g);
    w.g.space = space;
    w.g.po.control.prefetch_max = seed % 3 == 0 ? SNIC_HCACHE_NO_PREFETCH : 8;
    assert_int_equal(snic_world_open(&w.g.w, &wo), 0);
    for (uint32_t i = 0; i < 2; i++)
        assert_int_equal(snic_world_loop(w.g.w, i, &w.g.loop[i]), 0);
    rig_fs(&w.g);
    w.alone = 1;
    w.deaths = deaths;
    world_cache(write_back, seed % 3 != 0);
    for (uint32_t f = 0; f < FILES; f++) {
        struct op *o = op_new(SNIC_FSOP_CREATE, f);
        char name[2] = {(char)('a' + f), 0};

        o->call->r.op.ino = SNIC_FSOP_ROOT;
        o->call->r.op.handle = 0;
        o->call->r.op.flags |= SNIC_FSOP_OPEN_READ | SNIC_FSOP_OPEN_WRITE;
        o->call->r.op.mode = S_IFREG | 0644;
        o->call->r.op.name = name;
        o->call->r.op.name_size = 1;
        op_go(o);
        ops_end();
        assert_int_equal(o->result, 0);
        w.ino[f] = o->call->r.op.attr.ino;
        w.handle[f] = o->call->r.op.handle;
        ops_free();
    }
}

/* The cache is closed. */
static inline void world_end(void)
{
    for (int n = 0; n < 1000000 && w.g.dpu != NULL; n++) {
        (void)snic_world_step(w.g.w);
        world_reap();
    }
    assert_null(w.g.dpu);
    assert_int_equal(snic_fscache_check(w.fc), 0);
    assert_int_equal(w.fc->marked, 0);
    for (uint32_t s = 0; s < FSCACHE_HASH; s++)
        assert_null(w.fc->inodes[s]);
    support_guard_free(snic_fscache_fini(w.fc));
    assert_int_equal(snic_fs_unmount(w.g.fs), 0);
    support_guard_free(snic_fs_fini(w.g.fs));
    snic_kv_close(w.g.kv);
    snic_kvmem_close(w.g.medium);
    for (int i = 0; i < 2; i++)
        snic_loop_close(w.g.loop[i]);
    snic_world_close(w.g.w);
    calls_free();
}

static inline void world_close(void)
{
    for (uint32_t f = 0; f < FILES; f++)
        assert_int_equal(op_alone(op_new(SNIC_FSOP_RELEASE, f)), 0);
    w.fc->closing = 1;
    for (int n = 0; n < 20000000 && w.fc->state != FSCACHE_OFF; n++)
        world_step();
    assert_int_equal(w.fc->marked, 0);
    for (uint32_t s = 0; s < FSCACHE_HASH; s++)
        assert_null(w.fc->inodes[s]);
    snic_fscache_close(w.fc);
    world_end();
}

#endif /* SNIC_TEST_FSCACHE_WORLD_H */
