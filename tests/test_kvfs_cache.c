/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * kvfs_mount's cache without a kernel and a link: requests as the kernel sends them, several at
 * once, go through it to a file system in simulated time, and every byte that is read is one that
 * may be there. Others come and go and change files meanwhile; the half at the other end dies.
 */
#include "test_hcachelink_util.h"

#include "../examples/common.h"
#include "../examples/kvfs_mount/mount.h"

#include <stdarg.h>

static int test_connect(struct snic_dma **out, struct snic_loop *l,
                        const struct snic_dma_shm_opts *o, const struct snic_dma_events *events);

#define snic_dma_shm_connect test_connect
#include "../examples/kvfs_mount/cache.c"
#include "../examples/kvfs_mount/cache_data.c"
#include "../examples/kvfs_mount/cache_link.c"
#include "../examples/kvfs_mount/cache_step.c"
#include "../examples/kvfs_mount/call.c"

enum { FILES = 4, FILE_MAX = 40 * KC_PAGE, OPS = 6 };

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
    struct snic_rng rng;
    uint64_t ino[FILES], handle[FILES], size[FILES];
    unsigned char model[FILES][FILE_MAX], now[FILES][FILE_MAX];
    uint64_t lost;
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

int remote_by_name(const struct snic_kvfs_req *k)
{
    (void)k;
    return 0;
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

static void travel_home(struct snic_timer *t, uint64_t now)
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

static void travel_done(struct snic_fs_req *r)
{
    struct km_call *c = SNIC_CONTAINER(r, struct km_call, r);
    struct travel *v = r->k.ctx;

    c->data = km_call_data(c);
    snic_timer_init(&v->timer, travel_home);
    snic_loop_arm(w.g.loop[0], &v->timer,
                  snic_loop_now(w.g.loop[0]) + snic_rng_below(&w.rng, 30000));
}

static void travel_there(struct snic_timer *t, uint64_t now)
{
    struct travel *v = SNIC_CONTAINER(t, struct travel, timer);

    (void)now;
    v->call->r.k.ctx = v;
    v->call->r.done = travel_done;
    snic_fs_submit(w.g.fs, &v->call->r);
}

static void world_submit(struct km *m, struct km_call *c)
{
    struct travel *v = calloc(1, sizeof(*v));

    (void)m;
    v->call = c;
    snic_timer_init(&v->timer, travel_there);
    snic_loop_arm(w.g.loop[1], &v->timer,
                  snic_loop_now(w.g.loop[1]) + snic_rng_below(&w.rng, 30000));
}

static int world_cancel(struct km *m, struct km_call *c)
{
    (void)m;
    (void)c;
    return 1;
}

const struct km_carrier remote_carrier = {.submit = world_submit, .cancel = world_cancel};

/* ---- The other end ---- */

static void world_reap(void)
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

static int test_connect(struct snic_dma **out, struct snic_loop *l,
                        const struct snic_dma_shm_opts *o, const struct snic_dma_events *events)
{
    struct snic_dma_events none = {NULL, NULL, NULL, NULL};
    struct snic_dma_sim_opts so = {.opts_size = sizeof(so), .caps = SNIC_DMA_CAP_ATOMIC};

    assert_int_equal(o->tag, 1);
    if (w.g.dpu != NULL)
        return SNIC_ECONNREFUSED;
    assert_int_equal(snic_dma_sim_open(out, l, events, &w.dma, w.g.loop[1], &none, &so), 0);
    w.g.d[1] = w.dma;
    rig_dpu(&w.g);
    return 0;
}

static void world_step(void)
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

static void world_kill(void)
{
    if (w.g.dpu == NULL || w.dying || w.m.cache->state != KC_ON)
        return;
    w.dying = 1; /* it stops where it is: locks and flights stay */
    snic_hcachelink_dpu_detach(w.g.dpu);
}

/* ---- Requests ---- */

static struct op *op_new(uint32_t kind, uint32_t file)
{
    struct op *o = &w.ops[w.count++];
    struct km_call *c = km_call_get(&w.m);

    assert_non_null(c);
    memset(&c->r, 0, sizeof(c->r));
    memset(&c->cached, 0, sizeof(c->cached));
    *o = (struct op){.call = c, .file = file};
    c->fuse = NULL;
    c->file = NULL;
    c->data = km_call_data(c);
    c->r.k.kind = kind;
    c->r.k.flags = SNIC_KVFS_CHECKED;
    c->r.k.ino = w.ino[file];
    c->r.k.handle = w.handle[file];
    return o;
}

static void op_go(struct op *o)
{
    w.m.carrier->submit(&w.m, o->call);
}

static struct op *op_bytes(uint32_t kind, uint32_t file, uint64_t offset, uint64_t length)
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
    for (uint64_t i = 0; kind == SNIC_KVFS_WRITE && i < length; i++)
        o->data[i] = (unsigned char)(1 + snic_rng_below(&w.rng, 255));
    return o;
}

static void ops_end(void)
{
    for (unsigned i = 0; i < w.count; i++) {
        for (int n = 0; n < 20000000 && !w.ops[i].done; n++)
            world_step();
        assert_true(w.ops[i].done);
    }
}

static void ops_free(void)
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

static void check_read(const struct op *o, uint64_t old_size, uint64_t new_size)
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

static void check_all(uint32_t file)
{
    struct snic_kvfs_attr a = {.ino = w.ino[file]};
    struct op *o = op_new(SNIC_KVFS_GETATTR, file);

    op_go(o);
    ops_end();
    assert_int_equal(o->result, 0);
    a = o->call->r.k.attr;
    km_cache_amend(&w.m, &a);
    assert_int_equal(a.size, w.size[file]);
    ops_free();
    o = op_bytes(SNIC_KVFS_READ, file, 0, FILE_MAX);
    if (snic_rng_below(&w.rng, 2))
        o->call->r.k.flags |= SNIC_KVFS_DIRECT;
    op_go(o);
    ops_end();
    check_read(o, w.size[file], w.size[file]);
    ops_free();
}

/* After a flush the file system itself has all. */
static void check_store(uint32_t file)
{
    static unsigned char all[FILE_MAX];
    char name[3] = {'/', (char)('a' + file), 0};

    assert_int_equal(op_alone(op_new(SNIC_KVFS_FLUSH, file)), 0);
    assert_int_equal(snic_fs_get(w.g.fs, name, all, sizeof(all)), w.size[file]);
    assert_memory_equal(all, w.model[file], (size_t)w.size[file]);
}

/* ---- Rounds ---- */

static void now_write(struct op *o)
{
    uint64_t end = o->offset + o->length;

    memcpy(w.now[o->file] + o->offset, o->data, o->length);
    w.size[o->file] = snic_max_u64(w.size[o->file], end);
}

static void round_writes(uint32_t file)
{
    unsigned n = 1 + (unsigned)snic_rng_below(&w.rng, 3);

    for (unsigned i = 0; i < n; i++) { /* each in a part of its own */
        uint64_t part = FILE_MAX / n;
        uint64_t offset = i * part + snic_rng_below(&w.rng, part / 2);
        uint64_t length = 1 + snic_rng_below(&w.rng, snic_rng_below(&w.rng, 3) ? 9000 : part / 2);
        struct op *o;

        if (snic_rng_below(&w.rng, 3) == 0) {
            offset = snic_align_down(offset, 4096);
            length = snic_align_up(length, 4096);
        }
        length = snic_min_u64(length, (i + 1) * part - offset);
        o = op_bytes(SNIC_KVFS_WRITE, file, offset, length);
        if (snic_rng_below(&w.rng, 3) == 0)
            o->call->r.k.flags |= SNIC_KVFS_DIRECT;
        else if (snic_rng_below(&w.rng, 8) == 0)
            o->call->r.k.flags |= SNIC_KVFS_SYNC;
        now_write(o);
    }
}

static void round_append(uint32_t file)
{
    uint64_t room = FILE_MAX - w.size[file];
    struct op *o;

    if (room == 0)
        return;
    o = op_bytes(SNIC_KVFS_WRITE, file, w.size[file],
                 1 + snic_rng_below(&w.rng, snic_min_u64(room, 9000)));
    o->call->r.k.flags |= SNIC_KVFS_APPEND;
    o->call->r.k.offset = 0;
    now_write(o);
}

static void round_truncate(uint32_t file)
{
    struct op *o = op_new(SNIC_KVFS_SETATTR, file);
    uint64_t size = snic_rng_below(&w.rng, 4) == 0 ? 0 : snic_rng_below(&w.rng, FILE_MAX);

    o->call->r.k.set_mask = SNIC_KVFS_SET_SIZE;
    o->call->r.k.attr.size = size;
    memset(w.now[file] + size, 0, FILE_MAX - size);
    w.size[file] = size;
}

static void round_punch(uint32_t file)
{
    struct op *o = op_new(SNIC_KVFS_FALLOCATE, file);
    uint64_t offset = snic_rng_below(&w.rng, FILE_MAX);
    uint64_t length = 1 + snic_rng_below(&w.rng, FILE_MAX - offset);

    o->call->r.k.flags |= SNIC_KVFS_FALLOC_KEEP_SIZE | SNIC_KVFS_FALLOC_PUNCH;
    o->call->r.k.offset = offset;
    o->call->r.k.length = length;
    memset(w.now[file] + offset, 0, length);
}

static void round_copy(uint32_t file)
{
    uint32_t from = (file + 1) % FILES;
    uint64_t at = snic_rng_below(&w.rng, w.size[from] + 1);
    uint64_t to = snic_rng_below(&w.rng, FILE_MAX / 2);
    uint64_t length = snic_min_u64(w.size[from] - at, FILE_MAX - to);
    struct op *o;

    length = snic_min_u64(length, 50000); /* in one piece */
    if (length == 0)
        return;
    o = op_new(SNIC_KVFS_COPY, from);
    o->call->r.k.offset = at;
    o->call->r.k.ino2 = w.ino[file];
    o->call->r.k.offset2 = to;
    o->call->r.k.length = length;
    o->length = length;
    memcpy(w.now[file] + to, w.model[from] + at, length);
    w.size[file] = snic_max_u64(w.size[file], to + length);
}

/* The region is over, and not left yet: what is asked now finds it. */
static int cache_falls(void)
{
    return w.m.cache->over && w.m.cache->tidying;
}

/* Some requests at once; those that read may see the file before and after. */
static void round_run(uint32_t file)
{
    uint64_t old = w.size[file];
    uint64_t what = snic_rng_below(&w.rng, 12);
    struct kc_inode *known = kc_inode_find(w.m.cache, w.ino[file]);

    if (known != NULL && !known->dirty && snic_rng_below(&w.rng, 6) == 0)
        known->sized = 0; /* as after a change that failed */
    memcpy(w.now[file], w.model[file], FILE_MAX);
    if (what < 6)
        round_writes(file);
    else if (what == 6)
        round_append(file);
    else if (what == 7)
        round_truncate(file);
    else if (what == 8)
        round_punch(file);
    else if (what == 9)
        round_copy(file);
    while (w.count < OPS - 1 && snic_rng_below(&w.rng, 4) != 0) {
        uint64_t at = snic_rng_below(&w.rng, FILE_MAX);
        struct op *o =
            op_bytes(SNIC_KVFS_READ, file, at, 1 + snic_rng_below(&w.rng, FILE_MAX - at));
        if (snic_rng_below(&w.rng, 4) == 0)
            o->call->r.k.flags |= SNIC_KVFS_DIRECT;
    }
    if (snic_rng_below(&w.rng, 6) == 0)
        (void)op_new(snic_rng_below(&w.rng, 2) ? SNIC_KVFS_FSYNC : SNIC_KVFS_FLUSH, file);
    for (unsigned i = 0; i < w.count; i++) {
        op_go(&w.ops[(i + what) % w.count]);
        for (uint64_t n = snic_rng_below(&w.rng, 40); n > 0 && !cache_falls(); n--)
            world_step();
        if (w.config.threads == 1 && snic_rng_below(&w.rng, 150) == 0)
            world_kill();
        if (snic_rng_below(&w.rng, 150) == 0)
            atomic_store(&w.m.alone, 0);
    }
    ops_end();
    for (unsigned i = 0; i < w.count; i++) {
        const struct op *o = &w.ops[i];

        if (o->call->r.k.kind == SNIC_KVFS_READ)
            check_read(o, old, w.size[file]);
        else
            assert_int_equal(o->result, o->length);
    }
    ops_free();
    memcpy(w.model[file], w.now[file], FILE_MAX);
}

/*
 * Pages of a mapping are written beside a direct write or a truncation of the same bytes: what
 * comes of it is one of the two, but the same for all that look.
 */
static void round_overlap(uint32_t file)
{
    static unsigned char all[FILE_MAX];
    uint64_t at = snic_rng_below(&w.rng, FILE_MAX / 2);
    char name[3] = {'/', (char)('a' + file), 0};
    struct op *o;
    int64_t size;

    for (uint64_t i = 2 + snic_rng_below(&w.rng, 3); i > 0; i--) {
        if (snic_rng_below(&w.rng, 5) == 0) {
            o = op_new(SNIC_KVFS_SETATTR, file);
            o->call->r.k.set_mask = SNIC_KVFS_SET_SIZE;
            o->call->r.k.attr.size = at + snic_rng_below(&w.rng, 9000);
        } else {
            o = op_bytes(SNIC_KVFS_WRITE, file, at + snic_rng_below(&w.rng, 9000),
                         1 + snic_rng_below(&w.rng, 20000));
            o->call->r.k.flags |= snic_rng_below(&w.rng, 2) ? SNIC_KVFS_DIRECT : 0;
        }
    }
    for (unsigned i = 0; i < w.count; i++) {
        op_go(&w.ops[i]);
        for (uint64_t n = snic_rng_below(&w.rng, 20); n > 0; n--)
            world_step();
    }
    ops_end();
    ops_free();
    assert_int_equal(op_alone(op_new(SNIC_KVFS_FLUSH, file)), 0);
    size = snic_fs_get(w.g.fs, name, all, sizeof(all));
    assert_true(size >= (int64_t)at);
    assert_memory_equal(all, w.model[file], (size_t)snic_min_u64(at, w.size[file]));
    w.size[file] = (uint64_t)size;
    memset(w.model[file], 0, FILE_MAX);
    memcpy(w.model[file], all, (size_t)size);
    memcpy(w.now[file], w.model[file], FILE_MAX);
    check_all(file);
}

/* Others have the store, and change it. */
static void round_others(void)
{
    if (atomic_load(&w.m.alone) || snic_rng_below(&w.rng, 4) != 0)
        return;
    for (int n = 0; n < 20000000 && w.m.cache->state != KC_OFF; n++)
        world_step();
    assert_int_equal(w.m.cache->state, KC_OFF);
    for (uint32_t f = 0; f < FILES; f++) {
        char name[3] = {'/', (char)('a' + f), 0};

        w.size[f] = snic_rng_below(&w.rng, FILE_MAX);
        for (uint64_t i = 0; i < w.size[f]; i++)
            w.model[f][i] = (unsigned char)snic_rng_below(&w.rng, 256);
        memset(w.model[f] + w.size[f], 0, FILE_MAX - w.size[f]);
        assert_int_equal(snic_fs_put(w.g.fs, name, w.model[f], w.size[f], 0644), 0);
        check_all(f);
    }
    atomic_store(&w.m.alone, 1);
}

/* ---- A life ---- */

static void life_open(uint64_t seed, int write_back, int deaths)
{
    struct snic_world_opts wo = {.opts_size = sizeof(wo), .seed = seed};

    memset(&w, 0, sizeof(w));
    snic_rng_init(&w.rng, seed);
    rig_defaults(&w.g);
    w.g.po.control.prefetch_max = seed % 3 == 0 ? SNIC_HCACHE_NO_PREFETCH : 8;
    assert_int_equal(snic_world_open(&w.g.w, &wo), 0);
    for (uint32_t i = 0; i < 2; i++)
        assert_int_equal(snic_world_loop(w.g.w, i, &w.g.loop[i]), 0);
    rig_fs(&w.g);
    w.config = (struct km_config){.cache_mb = 1,
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
        struct op *o = op_new(SNIC_KVFS_CREATE, f);
        char name[2] = {(char)('a' + f), 0};

        o->call->r.k.ino = SNIC_KVFS_ROOT;
        o->call->r.k.handle = 0;
        o->call->r.k.flags |= SNIC_KVFS_OPEN_READ | SNIC_KVFS_OPEN_WRITE;
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

static void life_close(void)
{
    for (uint32_t f = 0; f < FILES; f++)
        assert_int_equal(op_alone(op_new(SNIC_KVFS_RELEASE, f)), 0);
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

static void lives(int write_back, int deaths)
{
    uint64_t rounds = support_nightly() ? 40 : 2;
    uint64_t hits = 0, off = 0;

    for (uint64_t r = 0; r < rounds; r++) {
        life_open(support_seed() * 1000 + r, write_back, deaths);
        for (int n = 0; n < 150; n++) {
            uint32_t file = (uint32_t)snic_rng_below(&w.rng, FILES);

            round_run(file);
            if (snic_rng_below(&w.rng, 3) == 0)
                check_all(file);
            if (snic_rng_below(&w.rng, 8) == 0)
                check_store(file);
            if (snic_rng_below(&w.rng, 4) == 0)
                round_overlap(file);
            off += w.m.cache->state != KC_ON;
            round_others();
        }
        hits += w.m.cache->hit_reads;
        assert_int_equal(w.lost, 0);
        life_close();
    }
    print_message("%llu reads were hits, %llu rounds without a cache\n", (unsigned long long)hits,
                  (unsigned long long)off);
    assert_true(hits > rounds * 20);
}

static void test_kvfs_cache_writes_go_to_both(void **state)
{
    (void)state;
    lives(0, 0);
}

static void test_kvfs_cache_writes_wait(void **state)
{
    (void)state;
    lives(1, 0);
}

static void test_kvfs_cache_other_end_dies(void **state)
{
    (void)state;
    lives(1, 1);
    lives(0, 1);
}

/* Pages are locked for a fetch when the region's end has been told, and not been seen to. */
static void test_kvfs_cache_read_at_the_end(void **state)
{
    struct op *read;
    struct op *write;

    (void)state;
    life_open(support_seed(), 1, 1);
    for (int n = 0; n < 20000000 && w.m.cache->state != KC_ON; n++)
        world_step();
    write = op_bytes(SNIC_KVFS_WRITE, 0, 0, 20000);
    write->call->r.k.flags |= SNIC_KVFS_DIRECT; /* no page has it */
    now_write(write);
    assert_int_equal(op_alone(write), 20000);
    memcpy(w.model[0], w.now[0], 20000);
    assert_int_equal(op_alone(op_bytes(SNIC_KVFS_READ, 0, 0, 1)), 1); /* the size, a page */
    world_kill();
    for (int n = 0; n < 20000000 && !cache_falls(); n++)
        world_step();
    assert_true(cache_falls());
    read = op_bytes(SNIC_KVFS_READ, 0, 0, 20000);
    op_go(read);
    assert_int_not_equal(w.m.cache->busy, 0);
    write = op_bytes(SNIC_KVFS_WRITE, 0, 5000, 8000);
    op_go(write);
    ops_end();
    assert_int_equal(read->result, 20000);
    assert_int_equal(write->result, 8000);
    now_write(write);
    ops_free();
    memcpy(w.model[0], w.now[0], 20000);
    check_all(0);
    check_store(0);
    life_close();
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_kvfs_cache_writes_go_to_both),
        cmocka_unit_test(test_kvfs_cache_writes_wait),
        cmocka_unit_test(test_kvfs_cache_other_end_dies),
        cmocka_unit_test(test_kvfs_cache_read_at_the_end),
    };
    return SUPPORT_MAIN(argc, argv, tests);
}
