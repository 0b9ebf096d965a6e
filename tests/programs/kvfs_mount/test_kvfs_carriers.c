/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * What carries kvfs_mount's requests out, without a kernel, a ring and a file system: what may be
 * lost with the file system's process, and requests that are cancelled on their way.
 */
#include "support.h"

#include "../../../examples/common.h"
#include "../../../examples/kvfs_mount/mount.h"

#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

static uint64_t test_now(const struct snic_loop *l);
static void test_post(struct snic_loop *l, struct snic_loop_msg *msg);
static void test_submit(struct snic_fs *fs, struct snic_fs_req *req);
static void test_cancel(struct snic_fs *fs, struct snic_fs_req *req);
static void test_arm(struct snic_loop *l, struct snic_timer *t, uint64_t when);
static int test_shm_connect(struct snic_dma **out, struct snic_loop *l,
                            const struct snic_dma_shm_opts *o, const struct snic_dma_events *e);

#define snic_loop_now test_now
#define snic_loop_clock test_now
#define snic_loop_post test_post
#define snic_fs_submit test_submit
#define snic_fs_cancel test_cancel
#include "../../../examples/kvfs_mount/validity.c"
#include "../../../examples/kvfs_mount/local.c"
#include "../../../examples/kvfs_mount/remote.c"
#include "../../../examples/kvfs_mount/remote_lost.c"
#define snic_dma_shm_connect test_shm_connect
#include "../../../examples/kvfs_mount/cache.c"
#define snic_loop_arm test_arm
#include "../../../examples/kvfs_mount/remote_link.c"
static int test_once(struct snic_loop *l, uint64_t ns);
static void test_half_stats(const struct snic_hcachelink_dpu *h,
                            struct snic_hcachelink_dpu_stats *out);
static const struct snic_hcache_control *test_half_engine(const struct snic_hcachelink_dpu *half);
static void test_half_detach(struct snic_hcachelink_dpu *half);
static int test_half_idle(const struct snic_hcachelink_dpu *half);
static void *test_half_fini(struct snic_hcachelink_dpu *half);
static void test_half_close(struct snic_dma *dma);
#define snic_loop_once test_once
#define snic_hcachelink_dpu_get_stats test_half_stats
#define snic_hcachelink_dpu_engine test_half_engine
#define snic_hcachelink_dpu_detach test_half_detach
#define snic_hcachelink_dpu_idle test_half_idle
#define snic_hcachelink_dpu_fini test_half_fini
#define snic_dma_close test_half_close
#include "../../../examples/kvfs_mount/dpu_cache.c"

/* ---- The world around them ---- */

static struct {
    struct km m;
    uint64_t number; /* of the last one sent */
    int refuse;      /* what the link answers the next one */
    int absent;      /* no process of the file system listens */
    unsigned sent;
    unsigned done;
    unsigned put;
    unsigned submitted; /* to the file system of this process */
    unsigned cancelled;
    unsigned expired; /* the kernel's names, invalidated */
    int64_t result;
    uint64_t now;
    struct snic_loop_msg *posted;
    int in_post; /* the loop's thread asks for a cancellation meanwhile */
    int cancel;  /* what it heard */
    struct km_call *call;
} world;

static int world_send(struct km_remote *r, struct km_call *c)
{
    int rc = world.refuse;
    (void)r;
    world.refuse = 0;
    if (rc == 0) {
        world.number = c->number;
        world.sent++;
    }
    return rc;
}

static int world_connect(struct km_remote *r)
{
    (void)r;
    return world.absent ? SNIC_ECONNREFUSED : 0;
}

static void world_disconnect(struct km_remote *r, int orderly)
{
    (void)r;
    (void)orderly;
}

static const struct kr_link world_link = {
    .connect = world_connect, .close = world_disconnect, .send = world_send};
const struct kr_link remote_ring, remote_nvmefs;

static uint64_t test_now(const struct snic_loop *l)
{
    (void)l;
    return world.now;
}

static void test_arm(struct snic_loop *l, struct snic_timer *t, uint64_t when)
{
    (void)l;
    (void)t;
    (void)when;
}

static void test_post(struct snic_loop *l, struct snic_loop_msg *msg)
{
    (void)l;
    if (world.in_post)
        world.cancel = world.m.carrier->cancel(&world.m, world.call);
    world.posted = msg;
}

static void test_submit(struct snic_fs *fs, struct snic_fs_req *req)
{
    (void)fs;
    req->msg.fn = world.posted->fn; /* any */
    world.submitted++;
}

static void test_cancel(struct snic_fs *fs, struct snic_fs_req *req)
{
    (void)fs;
    (void)req;
    world.cancelled++;
}

static int test_shm_connect(struct snic_dma **out, struct snic_loop *l,
                            const struct snic_dma_shm_opts *o, const struct snic_dma_events *e)
{
    (void)out, (void)l, (void)o, (void)e;
    return SNIC_ENOTSUP;
}

void km_call_done(struct km_call *c)
{
    world.done++;
    world.result = c->r.op.result;
}

void km_call_put(struct km_call *c)
{
    world.put++;
    (void)c;
}

void km_call_clear(struct km_call *c)
{
    (void)c;
}

uint64_t km_notify_expire(struct km *m)
{
    (void)m;
    world.expired++;
    return 0;
}

void km_store_judge(struct kvfs_store *store, const struct snic_kvfs_stats *s, int *dead)
{
    (void)store;
    (void)s;
    (void)dead;
}

int64_t kvfs_store_wall(void *ctx)
{
    (void)ctx;
    return 0;
}

int kvfs_store_open(struct kvfs_store *s)
{
    (void)s;
    return 0;
}

int kvfs_store_mount(struct kvfs_store *s, int make)
{
    (void)s;
    (void)make;
    return 0;
}

void kvfs_store_close(struct kvfs_store *s)
{
    (void)s;
}

void ex_log(enum ex_level level, const char *format, ...)
{
    (void)level;
    (void)format;
}

/* ---- No cache ---- */

struct km_call *km_call_get(struct km *m)
{
    (void)m;
    return NULL;
}

uint64_t km_tag(const struct km_config *config)
{
    (void)config;
    return 0;
}

void km_notify_invalid(const struct km *m, uint64_t ino)
{
    (void)m;
    (void)ino;
}

int km_refresh_start(struct km *m, int fd)
{
    (void)m;
    (void)fd;
    return -1;
}

pid_t km_refresh_end(struct km *m)
{
    (void)m;
    return 0;
}

/* ---- The remote one ---- */

static void world_open(const struct km_carrier *carrier)
{
    memset(&world, 0, sizeof(world));
    world.m.carrier = carrier;
    world.m.remote = calloc(1, sizeof(*world.m.remote));
    world.call = calloc(1, KM_BLOCK);
    assert_true(world.m.remote != NULL && world.call != NULL);
    world.call->m = &world.m;
    world.m.remote->m = &world.m;
    world.m.remote->link = &world_link;
    world.m.remote->state = KR_UP;
    world.m.remote->free_slots[0] = 3;
    world.m.remote->free_count = 1;
}

static void world_close(void)
{
    free(world.m.remote->handles);
    remote_lost_close(world.m.remote);
    free(world.m.remote);
    free(world.call);
}

/* Send a request and respond with 0. @return the request's result; handles go in and out */
static int64_t call(enum snic_fsop_kind kind, uint64_t ino, uint64_t *handle)
{
    struct km_call *c = world.call;
    unsigned sent = world.sent, done = world.done;
    memset(&c->r, 0, sizeof(c->r));
    c->r.op.kind = kind;
    c->r.op.ino = ino;
    c->r.op.handle = handle != NULL ? *handle : 0;
    c->r.op.length = 10;
    c->iov.size = 10;
    if (kind == SNIC_FSOP_WRITE) {
        c->r.op.iov = &c->iov;
        c->r.op.iov_count = 1;
    }
    world.m.carrier->submit(&world.m, c);
    if (world.sent > sent) {
        struct km_down d = {.number = world.number, .handle = 5};
        d.result = kind == SNIC_FSOP_WRITE ? 10 : 0;
        remote_answer(world.m.remote, &d, NULL, 0);
    }
    assert_int_equal(world.done, done + 1);
    if (kind == SNIC_FSOP_OPEN)
        *handle = c->r.op.handle;
    return world.result;
}

static void die(void)
{
    remote_lose(world.m.remote);
}

static uint64_t written(uint64_t ino)
{
    uint64_t h = 0;
    assert_int_equal(call(SNIC_FSOP_OPEN, ino, &h), 0);
    assert_int_equal(call(SNIC_FSOP_WRITE, ino, &h), 10);
    return h;
}

/* A close that no later call checks, and an fsync() through another descriptor. */
static void test_kvfs_carriers_closed_then_death_is_reported_at_fsync(void **state)
{
    (void)state;
    world_open(&remote_carrier);
    uint64_t h = written(20), other = 0;
    assert_int_equal(call(SNIC_FSOP_RELEASE, 20, &h), 0);
    die();
    assert_int_equal(call(SNIC_FSOP_OPEN, 20, &other), 0);
    assert_int_equal(call(SNIC_FSOP_FSYNC, 21, NULL), 0);
    assert_int_equal(call(SNIC_FSOP_FSYNC, 20, &other), SNIC_EIO);
    assert_int_equal(call(SNIC_FSOP_FSYNC, 20, &other), 0); /* once */
    world_close();
}

/* What an fsync() has made durable, or is old, is not lost. */
static void test_kvfs_carriers_durable_then_death_is_no_loss(void **state)
{
    (void)state;
    world_open(&remote_carrier);
    uint64_t h = written(20);
    assert_int_equal(call(SNIC_FSOP_RELEASE, 20, &h), 0);
    assert_int_equal(call(SNIC_FSOP_FSYNC, 21, NULL), 0); /* is for all */
    h = written(22);
    assert_int_equal(call(SNIC_FSOP_FSYNC, 22, &h), 0);
    assert_int_equal(call(SNIC_FSOP_RELEASE, 22, &h), 0);
    die();
    h = written(23);
    assert_int_equal(call(SNIC_FSOP_RELEASE, 23, &h), 0);
    world.now += KR_CHANGE_NS + 1;
    die();
    for (uint64_t ino = 20; ino <= 23; ino++)
        assert_int_equal(call(SNIC_FSOP_FSYNC, ino, NULL), 0);
    assert_int_equal(call(SNIC_FSOP_SYNCFS, 1, NULL), 0);
    world_close();
}

/* The death comes between the last close(), which was well, and the kernel's word of it. */
static void test_kvfs_carriers_released_after_death_is_reported_at_fsync(void **state)
{
    (void)state;
    world_open(&remote_carrier);
    uint64_t h = written(20), timed_out = written(21), flushed = written(22);
    assert_int_equal(call(SNIC_FSOP_FLUSH, 20, &h), 0);
    die();
    assert_int_equal(call(SNIC_FSOP_RELEASE, 20, &h), 0);
    assert_int_equal(call(SNIC_FSOP_FSYNC, 20, NULL), SNIC_EIO);
    world.m.remote->state = KR_DOWN; /* no answer for long */
    world.call->r.op.kind = SNIC_FSOP_RELEASE;
    world.call->r.op.handle = timed_out;
    remote_end(world.call, SNIC_ETIMEDOUT);
    world.m.remote->state = KR_UP;
    assert_int_equal(call(SNIC_FSOP_FSYNC, 21, NULL), SNIC_EIO);
    assert_int_equal(call(SNIC_FSOP_FLUSH, 22, &flushed), SNIC_EIO);
    assert_int_equal(call(SNIC_FSOP_RELEASE, 22, &flushed), 0);
    assert_int_equal(call(SNIC_FSOP_FSYNC, 22, NULL), 0);
    world_close();
}

/* What one death lost is not forgotten by other changes, an fsync() of theirs, or the next death.
 */
static void test_kvfs_carriers_two_deaths_report_both(void **state)
{
    (void)state;
    world_open(&remote_carrier);
    assert_int_equal(call(SNIC_FSOP_SETATTR, 20, NULL), 0);
    die();
    for (uint64_t i = 0; i < KR_CHANGES * 2; i++)
        assert_int_equal(call(SNIC_FSOP_SETATTR, 21 + i, NULL), 0);
    assert_int_equal(call(SNIC_FSOP_FSYNC, 21, NULL), 0);
    world.now += KR_CHANGE_NS * 2;
    die();
    assert_int_equal(call(SNIC_FSOP_FSYNC, 20, NULL), SNIC_EIO);
    assert_int_equal(call(SNIC_FSOP_FSYNC, 20, NULL), 0);
    world_close();
}

/* More changes than the ring has room for, none of them durable: the first of them may be lost as
   well as the last, and no fsync() of the earlier ones may report success. What comes later is
   not lost, and each inode's loss is reported once. */
static void test_kvfs_carriers_more_changes_than_recorded_all_reported(void **state)
{
    (void)state;
    for (uint64_t more = 0; more < 3; more++) {
        world_open(&remote_carrier);
        uint64_t ring = KR_CHANGES + more - 1;
        for (uint64_t i = 0; i < ring; i++)
            assert_int_equal(call(SNIC_FSOP_SETATTR, 20 + i, NULL), 0);
        die();
        assert_int_equal(world.m.remote->overflows, ring > KR_CHANGES);
        for (uint64_t i = 0; i < ring; i++)
            assert_int_equal(call(SNIC_FSOP_FSYNC, 20 + i, NULL), SNIC_EIO);
        uint64_t other = 10, h = 0; /* not changed as far as the ring knows */
        assert_int_equal(call(SNIC_FSOP_FSYNC, other, NULL), ring > KR_CHANGES ? SNIC_EIO : 0);
        assert_int_equal(call(SNIC_FSOP_FSYNC, other, NULL), 0);
        assert_int_equal(call(SNIC_FSOP_OPEN, 21, &h), 0);
        assert_int_equal(call(SNIC_FSOP_FSYNC, 21, &h), 0);
        assert_int_equal(call(SNIC_FSOP_SETATTR, 20 + ring, NULL), 0); /* made later */
        assert_int_equal(call(SNIC_FSOP_FSYNC, 20 + ring, NULL), 0);
        assert_int_equal(call(SNIC_FSOP_SYNCFS, 1, NULL), SNIC_EIO);
        assert_int_equal(call(SNIC_FSOP_SYNCFS, 1, NULL), 0);
        assert_int_equal(call(SNIC_FSOP_SETATTR, 22, NULL), 0); /* the next death reports, too */
        die();
        assert_int_equal(call(SNIC_FSOP_FSYNC, 22, NULL), SNIC_EIO);
        assert_int_equal(call(SNIC_FSOP_FSYNC, 22, NULL), 0);
        world_close();
    }
}

/* What left the ring, and was durable or old by then, is no reason. */
static void test_kvfs_carriers_what_left_the_ring_durable_is_no_loss(void **state)
{
    (void)state;
    for (int old = 0; old < 2; old++) {
        world_open(&remote_carrier);
        for (uint64_t i = 0; i < KR_CHANGES; i++)
            assert_int_equal(call(SNIC_FSOP_SETATTR, 20 + i, NULL), 0);
        if (old)
            world.now += KR_CHANGE_NS + 1;
        else
            assert_int_equal(call(SNIC_FSOP_FSYNC, 20, NULL), 0);
        for (uint64_t i = 0; i < KR_CHANGES; i++)
            assert_int_equal(call(SNIC_FSOP_SETATTR, 20 + KR_CHANGES + i, NULL), 0);
        die();
        assert_int_equal(world.m.remote->overflows, 0);
        assert_int_equal(call(SNIC_FSOP_FSYNC, 20, NULL), 0);
        assert_int_equal(call(SNIC_FSOP_FSYNC, 20 + KR_CHANGES, NULL), SNIC_EIO);
        world_close();
    }
}

static void test_kvfs_carriers_syncfs_after_loss_reported_once(void **state)
{
    (void)state;
    world_open(&remote_carrier);
    assert_int_equal(call(SNIC_FSOP_SETATTR, 20, NULL), 0);
    die();
    assert_int_equal(call(SNIC_FSOP_SYNCFS, 1, NULL), SNIC_EIO);
    assert_int_equal(call(SNIC_FSOP_SYNCFS, 1, NULL), 0);
    (void)written(21);
    die();
    assert_int_equal(call(SNIC_FSOP_SYNCFS, 1, NULL), SNIC_EIO);
    world_close();
}

/* What the link can never carry ends with its word; what it cannot carry now waits. */
static void test_kvfs_carriers_refused_by_the_link_ends(void **state)
{
    (void)state;
    world_open(&remote_carrier);
    world.refuse = SNIC_E2BIG;
    assert_int_equal(call(SNIC_FSOP_SETXATTR, 20, NULL), SNIC_E2BIG);
    assert_int_equal(world.sent, 0);
    assert_true(world.m.remote->first == NULL && world.m.remote->free_count == 1);
    world.refuse = SNIC_EAGAIN;
    world.call->r.op.kind = SNIC_FSOP_GETATTR;
    world.m.carrier->submit(&world.m, world.call);
    assert_true(world.m.remote->first == world.call && world.done == 1);
    remote_flush(world.m.remote);
    assert_true(world.m.remote->first == NULL && world.sent == 1);
    world_close();
}

/* An answer that comes when the cache was closed, which gives up what takes too long. */
static void test_kvfs_carriers_answer_after_the_cache_ended(void **state)
{
    struct km_down d = {.result = 0};
    (void)state;
    world_open(&remote_carrier);
    world.call->r.op.kind = SNIC_FSOP_GETATTR;
    cache_forward(&world.m, &world.call->cached);
    assert_int_equal(world.sent, 1);
    km_cache_close(&world.m); /* it has none any more */
    d.number = world.number;
    remote_answer(world.m.remote, &d, NULL, 0);
    assert_int_equal(world.put, 1);
    assert_int_equal(world.done, 0);
    world_close();
}

/* A call that finds no slot waits, each is sent in its turn. */
static void test_kvfs_carriers_more_calls_than_slots_wait(void **state)
{
    static const unsigned counts[] = {1, 2, 10};
    (void)state;
    for (size_t n = 0; n < SNIC_COUNTOF(counts); n++) {
        struct km_call *calls[10];
        world_open(&remote_carrier); /* with one slot */
        for (unsigned i = 0; i < counts[n]; i++) {
            calls[i] = calloc(1, KM_BLOCK);
            assert_non_null(calls[i]);
            calls[i]->m = &world.m;
            calls[i]->r.op.kind = SNIC_FSOP_GETATTR;
            calls[i]->r.op.ino = 20 + i;
            world.m.carrier->submit(&world.m, calls[i]);
            assert_int_equal(world.sent, 1);
        }
        for (unsigned i = 0; i < counts[n]; i++) {
            struct km_down d = {.number = world.number};
            assert_int_equal(world.sent, i + 1);
            assert_ptr_equal(world.m.remote->slots[(uint32_t)world.number], calls[i]);
            remote_answer(world.m.remote, &d, NULL, 0);
            remote_flush(world.m.remote);
            assert_int_equal(world.done, i + 1);
        }
        assert_true(world.m.remote->first == NULL && world.m.remote->free_count == 1);
        for (unsigned i = 0; i < counts[n]; i++)
            free(calls[i]);
        world_close();
    }
}

/*
 * The process is gone and no other comes: calls wait 30 s for it, at the end of the mount 2 s, then
 * end with SNIC_ETIMEDOUT, as do those that come later. A process that comes serves the next.
 */
static void test_kvfs_carriers_no_next_process_ends_calls(void **state)
{
    static const uint64_t limits[] = {KR_GIVE_UP_NS, KR_STOPPING_NS};
    (void)state;
    for (uint64_t i = 0; i < 6; i++) {
        uint64_t limit = limits[i % 2];
        uint64_t wait = i < 2 ? limit : i < 4 ? limit + 1 : 10 * limit;
        world_open(&remote_carrier);
        world.now = 1;
        world.absent = 1;
        world.m.remote->fresh_fd = -1;
        world.call->r.op.kind = SNIC_FSOP_GETATTR;
        world.m.carrier->submit(&world.m, world.call);
        assert_int_equal(world.sent, 1);
        world.m.remote->cut = 1;
        remote_look(&world.m.remote->timer, world.now);
        assert_int_equal(world.m.remote->state, KR_DOWN);
        atomic_store(&world.m.stopping, (int)(i % 2));
        world.now += wait;
        remote_look(&world.m.remote->timer, world.now);
        assert_int_equal(world.done, wait > limit);
        if (wait > limit) {
            assert_int_equal(world.result, SNIC_ETIMEDOUT);
            world.m.carrier->submit(&world.m, world.call);
            remote_look(&world.m.remote->timer, world.now);
            assert_int_equal(world.done, 2);
            assert_int_equal(world.result, SNIC_ETIMEDOUT);
            world.m.carrier->submit(&world.m, world.call);
        }
        assert_int_equal(world.sent, 1);
        world.absent = 0;
        remote_look(&world.m.remote->timer, world.now);
        assert_int_equal(world.m.remote->state, KR_UP);
        assert_int_equal(world.sent, 2);
        world_close();
    }
}

/*
 * What the kernel may cache ends with the lease as the file system's process has stated it, also
 * when that process is silent; then the kernel's names are invalidated, once, and nothing is served
 * from the cache's pages.
 */
static void test_kvfs_carriers_validity_ends_with_the_lease(void **state)
{
    const uint64_t second = 1000000000;
    (void)state;
    world_open(&remote_carrier);
    struct km *m = &world.m;
    m->timeout = 60;
    m->se = (struct fuse_session *)(void *)&world;
    m->mounted_here = 1;
    world.now = 100 * second;
    assert_true(km_valid_seconds(m) == 0);
    remote_alone(m->remote, 1, world.now + 5 * second);
    assert_int_equal(world.expired, 1); /* others have left: what is known of then is void */
    assert_true(km_valid_seconds(m) == 5);
    world.now += 4 * second;
    assert_true(km_valid_seconds(m) == 1);
    assert_true(km_valid_now(m));
    remote_alone(m->remote, 1, world.now + 5 * second);
    assert_true(km_valid_seconds(m) == 5);
    m->timeout = 2;
    assert_true(km_valid_seconds(m) == 2);
    for (unsigned i = 0; i < 20; i++) {
        world.now += second / 2;
        remote_look(&m->remote->timer, world.now);
        assert_int_equal(km_valid_now(m), i < 9);
        assert_int_equal(world.expired, i < 9 ? 1 : 2);
    }
    assert_true(km_valid_seconds(m) == 0);
    remote_alone(m->remote, 1, SNIC_NEVER);
    assert_true(km_valid_seconds(m) == 2);
    remote_alone(m->remote, 0, 0);
    assert_int_equal(world.expired, 3);
    assert_true(km_valid_seconds(m) == 0);
    world_close();
}

/* ---- The cache's half at the file system's process ---- */

static struct {
    struct kd d;
    struct snic_hcachelink_dpu_stats stats;
    uint64_t gone_ns; /* when its host is gone for certain */
    unsigned detached;
    unsigned ended;
} half;

static int test_once(struct snic_loop *l, uint64_t ns)
{
    (void)l;
    world.now += ns;
    if (world.now >= half.gone_ns)
        cache_gone(&half.d, half.d.cache.half);
    return 0;
}

static void test_half_stats(const struct snic_hcachelink_dpu *h,
                            struct snic_hcachelink_dpu_stats *out)
{
    (void)h;
    *out = half.stats;
}

static const struct snic_hcache_control *test_half_engine(const struct snic_hcachelink_dpu *h)
{
    (void)h;
    return NULL;
}

static void test_half_detach(struct snic_hcachelink_dpu *h)
{
    (void)h;
    half.detached++;
}

static int test_half_idle(const struct snic_hcachelink_dpu *h)
{
    (void)h;
    return 1;
}

static void *test_half_fini(struct snic_hcachelink_dpu *h)
{
    (void)h;
    half.ended++;
    return NULL;
}

static void test_half_close(struct snic_dma *dma)
{
    (void)dma;
}

/* The next host waits for the pages of one that has gone, but 20 s at most for one that has not. */
static void test_kvfs_carriers_host_that_stays_is_detached(void **state)
{
    static const uint64_t gone[] = {0, 19, 21, 200}; /* s */
    static struct snic_dma dma;
    (void)state;
    for (size_t i = 0; i < SNIC_COUNTOF(gone); i++) {
        memset(&world, 0, sizeof(world));
        memset(&half, 0, sizeof(half));
        half.gone_ns = gone[i] * 1000000000;
        half.d.cache.half = (struct snic_hcachelink_dpu *)(void *)&half.stats; /* any */
        half.d.cache.dma = &dma;
        dpu_cache_reap(&half.d);
        assert_int_equal(half.detached, gone[i] > 20);
        assert_int_equal(half.ended, 1);
        assert_null(half.d.cache.half);
        assert_true(world.now <= KD_CACHE_WAIT_NS &&
                    world.now + 20000000 >= snic_min_u64(half.gone_ns, KD_CACHE_WAIT_NS));
    }
}

/* ---- The local one ---- */

/* Until the request has come to the loop's thread, that does not look at what is in it. */
static void test_kvfs_carriers_cancelled_while_posted_retries(void **state)
{
    (void)state;
    world_open(&local_carrier);
    world.in_post = 1; /* m.owner is no thread: this is a reader's thread */
    world.m.carrier->submit(&world.m, world.call);
    assert_int_equal(world.cancel, 0);
    assert_int_equal(world.cancelled, 0);
    assert_true(world.call->r.msg.fn == NULL);
    world.posted->fn(world.posted);
    assert_int_equal(world.submitted, 1);
    assert_int_equal(world.m.carrier->cancel(&world.m, world.call), 1);
    assert_int_equal(world.cancelled, 1);
    world_close();
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_kvfs_carriers_closed_then_death_is_reported_at_fsync),
        cmocka_unit_test(test_kvfs_carriers_durable_then_death_is_no_loss),
        cmocka_unit_test(test_kvfs_carriers_released_after_death_is_reported_at_fsync),
        cmocka_unit_test(test_kvfs_carriers_two_deaths_report_both),
        cmocka_unit_test(test_kvfs_carriers_more_changes_than_recorded_all_reported),
        cmocka_unit_test(test_kvfs_carriers_what_left_the_ring_durable_is_no_loss),
        cmocka_unit_test(test_kvfs_carriers_syncfs_after_loss_reported_once),
        cmocka_unit_test(test_kvfs_carriers_refused_by_the_link_ends),
        cmocka_unit_test(test_kvfs_carriers_answer_after_the_cache_ended),
        cmocka_unit_test(test_kvfs_carriers_more_calls_than_slots_wait),
        cmocka_unit_test(test_kvfs_carriers_no_next_process_ends_calls),
        cmocka_unit_test(test_kvfs_carriers_validity_ends_with_the_lease),
        cmocka_unit_test(test_kvfs_carriers_host_that_stays_is_detached),
        cmocka_unit_test(test_kvfs_carriers_cancelled_while_posted_retries),
    };
    return SUPPORT_MAIN(argc, argv, tests);
}
