/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/**
 * kvfs_mount's cache without a kernel and a link: requests as the kernel sends them go through it
 * to a file system in simulated time; a model knows which bytes may be read.
 */
#ifndef SNIC_TEST_KVFS_CACHE_WORLD_H
#define SNIC_TEST_KVFS_CACHE_WORLD_H

#include "hcachelink/test_hcachelink_util.h"

#include "../../../examples/common.h"
#include "../../../examples/kvfs_mount/mount.h"

#include <stdarg.h>

static inline int test_connect(struct snic_dma **out, struct snic_loop *l,
                               const struct snic_dma_shm_opts *o,
                               const struct snic_dma_events *events);

#define snic_dma_shm_connect test_connect
#include "../../../examples/kvfs_mount/cache.c"
#include "../../../examples/kvfs_mount/cache_data.c"
#include "../../../examples/kvfs_mount/cache_link.c"
#include "../../../examples/kvfs_mount/cache_step.c"
#include "../../../examples/kvfs_mount/call.c"

#ifndef WORLD_PAGES
#define WORLD_PAGES 40 /* of a file, at most */
#endif

enum { FILES = 4, FILE_MAX = WORLD_PAGES * KC_PAGE, OPS = 6 };

struct op {
    struct km_call *call;
    struct snic_timer timer;
    uint32_t file;
    uint64_t offset;
    uint64_t length;
    unsigned char *data;
    int done;
    int64_t result;
};

static struct {
    struct rig g;
    struct km m;
    struct km_config config;
    struct km_remote remote;
    struct snic_dma *dma; /* the other end's, with g.dpu on it */
    int dying;
    int refuses; /* the next process does not take the cache */
    struct snic_rng rng;
    uint64_t ino[FILES], handle[FILES], size[FILES];
    unsigned char model[FILES][FILE_MAX], now[FILES][FILE_MAX];
    uint64_t lost, doubts;
    uint32_t told[64]; /* by handle */
    uint64_t space;    /* the next life's store's */
    struct op ops[OPS];
    unsigned count;
} w;

/* ---- The world around the cache ---- */

void ex_log(enum ex_level level, const char *format, ...)
{
    (void)level;
    (void)format;
}

_Noreturn void ex_die(const char *format, ...)
{
    (void)format;
    abort();
}

uint64_t km_tag(const struct km_config *config)
{
    (void)config;
    return 1;
}

void remote_heard(struct km_remote *r)
{
    (void)r;
}

void remote_wrote(struct km_remote *r, const struct km_call *c)
{
    (void)r;
    (void)c;
}

int remote_writes(struct km_remote *r, const struct km_call *c)
{
    (void)r;
    (void)c;
    return 1;
}

int remote_by_name(const struct snic_fsop *k)
{
    (void)k;
    return 0;
}

uint32_t *remote_told(struct km_remote *r, const struct km_call *c)
{
    (void)r;
    return &w.told[c->r.k.handle % SNIC_COUNTOF(w.told)];
}

void km_session_doubt(const struct km *m, uint64_t ino)
{
    (void)m;
    (void)ino;
    w.doubts++;
}

void remote_lost_note(struct km_remote *r, uint64_t ino)
{
    (void)r;
    (void)ino;
    w.lost++;
}

void km_call_done(struct km_call *c)
{
    for (unsigned i = 0; i < w.count; i++)
        if (w.ops[i].call == c) {
            w.ops[i].done = 1;
            w.ops[i].result = c->r.k.result;
            return;
        }
    fail_msg("an answer to nothing");
}

struct travel {
    struct snic_timer timer;
    struct km_call *call;
};

static inline void travel_home(struct snic_timer *t, uint64_t now)
{
    struct travel *v = SNIC_CONTAINER(t, struct travel, timer);
    struct km_call *c = v->call;

    (void)now;
    free(v);
    if (c->cached.home != NULL)
        c->cached.home(c);
    else
        km_call_done(c);
}

static inline void travel_done(struct snic_fs_req *r)
{
    struct km_call *c = SNIC_CONTAINER(r, struct km_call, r);
    struct travel *v = r->k.ctx;

    c->data = km_call_data(c);
    snic_timer_init(&v->timer, travel_home);
    snic_loop_arm(w.g.loop[0], &v->timer,
                  snic_loop_now(w.g.loop[0]) + snic_rng_below(&w.rng, 30000));
}

static inline void travel_there(struct snic_timer *t, uint64_t now)
{
    struct travel *v = SNIC_CONTAINER(t, struct travel, timer);

    (void)now;
    v->call->r.k.ctx = v;
    v->call->r.done = travel_done;
    snic_fs_submit(w.g.fs, &v->call->r);
}

static inline void world_submit(struct km *m, struct km_call *c)
{
    struct travel *v = calloc(1, sizeof(*v));

    (void)m;
    v->call = c;
    snic_timer_init(&v->timer, travel_there);
    snic_loop_arm(w.g.loop[1], &v->timer,
                  snic_loop_now(w.g.loop[1]) + snic_rng_below(&w.rng, 30000));
}

static inline int world_cancel(struct km *m, struct km_call *c)
{
    (void)m;
    (void)c;
    return 1;
}

const struct km_carrier remote_carrier = {.submit = world_submit, .cancel = world_cancel};

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

static inline int test_connect(struct snic_dma **out, struct snic_loop *l,
                               const struct snic_dma_shm_opts *o,
                               const struct snic_dma_events *events)
{
    struct snic_dma_events none = {NULL, NULL, NULL, NULL};
    struct snic_dma_sim_opts so = {.opts_size = sizeof(so), .caps = SNIC_DMA_CAP_ATOMIC};

    assert_int_equal(o->tag, 1);
    if (w.g.dpu != NULL || w.refuses)
        return SNIC_ECONNREFUSED;
    assert_int_equal(snic_dma_sim_open(out, l, events, &w.dma, w.g.loop[1], &none, &so), 0);
    w.g.d[1] = w.dma;
    rig_dpu(&w.g);
    return 0;
}

static inline void world_step(void)
{
    static unsigned steps;

    if (++steps % 64 == 0)
        km_cache_look(&w.m);
    if (!snic_world_step(w.g.w))
        km_cache_look(&w.m);
    if (steps % 64 == 0 && w.g.dpu != NULL)
        assert_int_equal(snic_hcachelink_dpu_check(w.g.dpu), 0);
    if (steps % 64 == 0 && w.m.cache->half != NULL)
        assert_int_equal(snic_hcachelink_host_check(w.m.cache->half), 0);
    world_reap();
}

static inline void world_kill(void)
{
    if (w.g.dpu == NULL || w.dying || w.m.cache->state != KC_ON)
        return;
    w.dying = 1; /* it stops where it is: locks and flights stay */
    snic_hcachelink_dpu_detach(w.g.dpu);
}

/* ---- Requests ---- */

static inline struct op *op_new(uint32_t kind, uint32_t file)
{
    struct op *o = &w.ops[w.count++];
    struct km_call *c = km_call_get(&w.m);

    assert_non_null(c);
    if (c == NULL) /* the compiler does not know that the assertion ends the test */
        abort();
    memset(&c->r, 0, sizeof(c->r));
    memset(&c->cached, 0, sizeof(c->cached));
    *o = (struct op){.call = c, .file = file};
    c->fuse = NULL;
    c->file = NULL;
    c->data = km_call_data(c);
    c->r.k.kind = kind;
    c->r.k.flags = SNIC_FSOP_CHECKED;
    c->r.k.ino = w.ino[file];
    c->r.k.handle = w.handle[file];
    return o;
}

static inline void op_go(struct op *o)
{
    w.m.carrier->submit(&w.m, o->call);
}

static inline struct op *op_bytes(uint32_t kind, uint32_t file, uint64_t offset, uint64_t length)
{
    struct op *o = op_new(kind, file);
    struct km_call *c = o->call;

    o->offset = offset;
    o->length = length;
    o->data = km_call_data(c);
    c->iov = (struct snic_iov){.base = o->data, .size = length};
    c->r.k.iov = &c->iov;
    c->r.k.iov_count = 1;
    c->r.k.offset = offset;
    c->r.k.length = length;
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
        km_call_put(w.ops[i].call);
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
    a = o->call->r.k.attr;
    km_cache_amend(&w.m, &a);
    assert_int_equal(a.size, w.size[file]);
    ops_free();
    o = op_bytes(SNIC_FSOP_READ, file, 0, FILE_MAX);
    if (snic_rng_below(&w.rng, 2))
        o->call->r.k.flags |= SNIC_FSOP_DIRECT;
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

/* ---- A life ---- */

static inline void life_open(uint64_t seed, int write_back, int deaths)
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
    w.config = (struct km_config){.cache_bytes = 1u << 20,
                                  .write_back = write_back,
                                  .prefetch = seed % 3 != 0,
                                  .threads = (uint64_t)deaths,
                                  .socket = "none"};
    w.m.config = &w.config;
    w.m.loop = w.g.loop[0];
    w.m.remote = &w.remote;
    w.remote.m = &w.m;
    w.remote.state = KR_UP;
    atomic_store(&w.m.alone, 1);
    assert_int_equal(km_calls_open(&w.m), 0);
    assert_int_equal(km_cache_open(&w.m), 0);
    for (uint32_t f = 0; f < FILES; f++) {
        struct op *o = op_new(SNIC_FSOP_CREATE, f);
        char name[2] = {(char)('a' + f), 0};

        o->call->r.k.ino = SNIC_FSOP_ROOT;
        o->call->r.k.handle = 0;
        o->call->r.k.flags |= SNIC_FSOP_OPEN_READ | SNIC_FSOP_OPEN_WRITE;
        o->call->r.k.mode = S_IFREG | 0644;
        o->call->r.k.name = name;
        o->call->r.k.name_size = 1;
        op_go(o);
        ops_end();
        assert_int_equal(o->result, 0);
        w.ino[f] = o->call->r.k.attr.ino;
        w.handle[f] = o->call->r.k.handle;
        ops_free();
    }
}

static inline void life_close(void)
{
    for (uint32_t f = 0; f < FILES; f++)
        assert_int_equal(op_alone(op_new(SNIC_FSOP_RELEASE, f)), 0);
    w.m.cache->closing = 1;
    for (int n = 0; n < 20000000 && w.m.cache->state != KC_OFF; n++)
        world_step();
    assert_int_equal(w.m.cache->marked, 0);
    for (uint32_t s = 0; s < KC_HASH; s++)
        assert_null(w.m.cache->inodes[s]);
    for (int n = 0; n < 1000000 && w.g.dpu != NULL; n++)
        world_step();
    assert_null(w.g.dpu);
    km_cache_close(&w.m);
    assert_int_equal(snic_fs_unmount(w.g.fs), 0);
    support_guard_free(snic_fs_fini(w.g.fs));
    snic_kv_close(w.g.kv);
    snic_kvmem_close(w.g.medium);
    for (int i = 0; i < 2; i++)
        snic_loop_close(w.g.loop[i]);
    snic_world_close(w.g.w);
    km_calls_close(&w.m);
}

#endif /* SNIC_TEST_KVFS_CACHE_WORLD_H */
