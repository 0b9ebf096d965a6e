/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* The service on the store in memory, in a simulated world: order, room, ends, errors. */
#include "support.h"

#include "snicstore/fs.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- A door that is narrow, or dead, in front of the store ---- */

struct door {
    struct snic_kv kv;
    struct snic_kv *inner;
    uint32_t room; /* requests it takes at once, 0: all */
    uint32_t inside;
    uint32_t refused; /* times it was full */
    int dead;         /* what submit answers */
    int sole;
    struct snic_queue lent;
};

struct door_req {
    struct snic_kv_req r;
    struct snic_kv_req *user;
    struct door *door;
    struct snic_node node;
};

static void door_done(struct snic_kv_req *r)
{
    struct door_req *d = SNIC_CONTAINER(r, struct door_req, r);
    struct snic_kv_req *user = d->user;
    d->door->inside--;
    free(d);
    user->done(user);
}

static int door_submit(struct snic_kv *kv, struct snic_kv_req **reqs, uint32_t n)
{
    struct door *d = (struct door *)kv;
    uint32_t i;
    if (d->dead != 0)
        return d->dead;
    for (i = 0; i < n && (d->room == 0 || d->inside < d->room); i++) {
        struct door_req *q = calloc(1, sizeof(*q));
        struct snic_kv_req *r = &q->r;
        q->user = reqs[i];
        q->door = d;
        q->r.op = reqs[i]->op;
        q->r.done = door_done;
        d->inside++;
        if (snic_kv_submit(d->inner, &r, 1) != 1)
            abort();
    }
    d->refused += i < n;
    return (int)i;
}

static int door_sole(struct snic_kv *kv)
{
    return ((struct door *)kv)->sole;
}

static void door_cancel(struct snic_kv *kv, struct snic_kv_req *req)
{
    (void)kv;
    (void)req;
}

static void door_close(struct snic_kv *kv)
{
    (void)kv;
}

static const struct snic_kv_ops door_ops = {
    .ops_size = sizeof(door_ops),
    .name = "door",
    .submit = door_submit,
    .cancel = door_cancel,
    .sole = door_sole,
    .close = door_close,
};

/* ---- Set-up ---- */

struct rig {
    struct snic_world *world;
    struct snic_loop *loop;
    struct snic_kvmem *medium;
    struct snic_kv *kv;
    struct door door;
    struct snic_fs *fs;
    void *mem;
};

static int64_t wall(void *ctx)
{
    struct rig *g = ctx;
    return 1700000000000000000 + (int64_t)snic_loop_now(g->loop);
}

static struct snic_fs_opts options(struct rig *g)
{
    return (struct snic_fs_opts){
        .opts_size = sizeof(struct snic_fs_opts), .wall = wall, .ctx = g, .session_id = 77};
}

static void rig_fs(struct rig *g, const struct snic_fs_opts *o)
{
    size_t size = snic_fs_memsize(o);
    assert_true(size > 0);
    g->mem = support_guard_alloc(size, 16);
    assert_int_equal(snic_fs_init(&g->fs, g->mem, size, g->loop, &g->door.kv, o), 0);
}

static void rig_open(struct rig *g, uint32_t requests_max)
{
    struct snic_world_opts w = {.opts_size = sizeof(w), .seed = support_seed()};
    struct snic_kvmem_opts m = {.opts_size = sizeof(m),
                                .seed = support_seed(),
                                .delay_min_ns = 1000,
                                .delay_max_ns = 100000};
    struct snic_fs_opts o;
    memset(g, 0, sizeof(*g));
    assert_int_equal(snic_world_open(&g->world, &w), 0);
    assert_int_equal(snic_world_loop(g->world, 1, &g->loop), 0);
    assert_int_equal(snic_kvmem_open(&g->medium, &m), 0);
    assert_int_equal(snic_kv_mem_open(&g->kv, g->loop, g->medium), 0);
    g->door.inner = g->kv;
    g->door.kv = *g->kv;
    g->door.kv.ops = &door_ops;
    g->door.sole = 1;
    o = options(g);
    o.requests_max = requests_max;
    rig_fs(g, &o);
}

static void rig_made(struct rig *g, uint32_t requests_max)
{
    rig_open(g, requests_max);
    assert_int_equal(snic_fs_mkfs(g->fs, NULL), 0);
    assert_int_equal(snic_fs_mount(g->fs), 0);
}

static void rig_close(struct rig *g)
{
    assert_ptr_equal(snic_fs_fini(g->fs), g->mem);
    support_guard_free(g->mem);
    snic_kv_close(g->kv);
    snic_kvmem_close(g->medium);
    snic_loop_close(g->loop);
    snic_world_close(g->world);
}

/* ---- Requests that count ---- */

struct item {
    struct snic_fs_req r;
    int done_count;
};

static int submitting; /* a done inside submit is an error */

static void item_done(struct snic_fs_req *r)
{
    assert_int_equal(submitting, 0);
    SNIC_CONTAINER(r, struct item, r)->done_count++;
}

static void item_submit(struct rig *g, struct item *i, uint32_t kind, uint64_t ino,
                        const char *name)
{
    memset(i, 0, sizeof(*i));
    i->r.done = item_done;
    i->r.op.kind = kind;
    i->r.op.ino = ino;
    i->r.op.name = name;
    i->r.op.name_size = name != NULL ? (uint32_t)strlen(name) : 0;
    submitting = 1;
    snic_fs_submit(g->fs, &i->r);
    submitting = 0;
}

static void item_wait(struct rig *g, struct item *i)
{
    while (!i->done_count)
        assert_true(snic_loop_once(g->loop, SNIC_NEVER) > 0);
}

/* ---- Tests ---- */

/* What was put is there, also for the next session. */
static void test_fs_put_unmount_mount_is_there(void **state)
{
    static unsigned char data[3u << 20], back[(3u << 20) + 1];
    struct snic_rng rng;
    struct snic_fs_opts o;
    struct rig g;
    (void)state;
    snic_rng_init(&rng, support_seed());
    snic_rng_fill(&rng, data, sizeof(data));
    rig_made(&g, 0);
    assert_int_equal(snic_fs_put(g.fs, "/hello", "world", 5, 0644), 0);
    assert_int_equal(snic_fs_put(g.fs, "large", data, sizeof(data), 0600), 0);
    assert_int_equal(snic_fs_put(g.fs, "/hello", "you", 3, 0644), 0); /* anew */
    assert_int_equal(snic_fs_put(g.fs, "/none/hello", "x", 1, 0644), SNIC_ENOENT);
    assert_int_equal(snic_fs_put(g.fs, "/hello/x", "x", 1, 0644), SNIC_ENOTDIR);
    assert_int_equal(snic_fs_put(g.fs, "/", "x", 1, 0644), SNIC_EISDIR);
    assert_int_equal(snic_fs_put(g.fs, "", "x", 1, 0644), SNIC_EISDIR);
    assert_int_equal(snic_fs_unmount(g.fs), 0);
    assert_ptr_equal(snic_fs_fini(g.fs), g.mem);
    support_guard_free(g.mem);
    o = options(&g);
    o.session_id = 78;
    rig_fs(&g, &o);
    assert_int_equal(snic_fs_mount(g.fs), 0);
    memset(back, 0x5a, sizeof(back));
    assert_int_equal(snic_fs_get(g.fs, "/hello", back, 2), 3);
    assert_memory_equal(back, "yo\x5a", 3);
    assert_int_equal(snic_fs_get(g.fs, "//large", back, sizeof(back)), sizeof(data));
    assert_memory_equal(back, data, sizeof(data));
    assert_int_equal(snic_fs_get(g.fs, "/none", back, sizeof(back)), SNIC_ENOENT);
    assert_int_equal(snic_fs_unmount(g.fs), 0);
    rig_close(&g);
}

static void test_fs_empty_store_mount_enoent_mkfs_twice_eexist(void **state)
{
    struct rig g;
    (void)state;
    rig_open(&g, 0);
    assert_int_equal(snic_fs_mount(g.fs), SNIC_ENOENT);
    assert_int_equal(snic_fs_mkfs(g.fs, NULL), 0);
    assert_int_equal(snic_fs_mkfs(g.fs, NULL), SNIC_EEXIST);
    assert_int_equal(snic_fs_mount(g.fs), 0);
    assert_int_equal(snic_fs_unmount(g.fs), 0);
    rig_close(&g);
}

/** A store of another loop cannot be joined: two threads would run one file system. */
static void test_fs_store_of_other_loop_refused(void **state)
{
    struct snic_fs *fs = NULL;
    struct snic_loop *other;
    struct rig g;
    (void)state;
    rig_open(&g, 0);
    struct snic_fs_opts o = options(&g);
    size_t size = snic_fs_memsize(&o);
    void *mem = support_guard_alloc(size, 16);
    assert_int_equal(snic_world_loop(g.world, 9, &other), 0);
    assert_int_equal(snic_fs_init(&fs, mem, size, other, g.kv, &o), SNIC_EINVAL);
    assert_null(fs);
    assert_int_equal(snic_fs_init(&fs, mem, size, g.loop, g.kv, &o), 0);
    assert_ptr_equal(snic_fs_fini(fs), mem);
    support_guard_free(mem);
    snic_loop_close(other);
    rig_close(&g);
}

static void test_fs_bad_options_refused(void **state)
{
    struct snic_fs_opts o;
    struct rig g;
    size_t size;
    void *mem;
    (void)state;
    rig_open(&g, 0);
    o = options(&g);
    size = snic_fs_memsize(&o);
    mem = support_guard_alloc(size, 16);
    struct snic_fs *fs = NULL;
    assert_int_equal(snic_fs_init(&fs, mem, size - 1, g.loop, g.kv, &o), SNIC_ENOSPC);
    o.wall = NULL;
    assert_int_equal(snic_fs_init(&fs, mem, size, g.loop, g.kv, &o), SNIC_EINVAL);
    assert_null(fs);
    support_guard_free(mem);
    {
        struct snic_fs_opts good = options(&g);
        assert_null(snic_fs_opts_wrong(&good));
#define WRONG(field, value, name)                                                                  \
    do {                                                                                           \
        struct snic_fs_opts bad = good;                                                            \
        bad.field = value;                                                                         \
        support_names(snic_fs_opts_wrong(&bad), name);                                             \
        assert_int_equal(snic_fs_memsize(&bad), 0);                                                \
    } while (0)
        WRONG(opts_size, 3, "opts_size");
        WRONG(wall, NULL, "wall");
        WRONG(reserved, 1, "reserved");
        WRONG(session_id, 0, "session_id");
        WRONG(flags, 1u << 31, "flags");
        WRONG(requests_max, 65537, "requests_max");
        WRONG(inodes_max, (1u << 30) + 1, "inodes_max");
        WRONG(locks_max, (1u << 30) + 1, "locks_max");
        WRONG(cache_bytes, (1ull << 40) + 1, "cache_bytes");
        WRONG(times_ns, (1ull << 62) + 1, "times_ns");
        WRONG(lease_ns, (1ull << 62) + 1, "lease_ns");
        WRONG(lease_ns, 1000000000, "heartbeat_ns");
        WRONG(heartbeat_ns, 10000000000, "heartbeat_ns");
#undef WRONG
    }
    rig_close(&g);
}

/* More requests than the engine takes, through a door that takes few: each completes once. */
static void test_fs_many_requests_narrow_door_each_done_once(void **state)
{
    enum { N = 300, LOOKS = 50 };
    static struct item items[N], looks[LOOKS];
    static char names[N][16];
    struct rig g;
    (void)state;
    rig_made(&g, 8);
    g.door.room = 1;
    for (int i = 0; i < N; i++) {
        (void)snprintf(names[i], sizeof(names[i]), "d%d", i / 2); /* half of them exist already */
        item_submit(&g, &items[i], SNIC_FSOP_MKDIR, SNIC_FSOP_ROOT, names[i]);
        items[i].r.op.mode = 0755;
    }
    for (int i = 0; i < LOOKS; i++) /* these proceed side by side */
        item_submit(&g, &looks[i], SNIC_FSOP_STATFS, SNIC_FSOP_ROOT, NULL);
    for (int i = 0; i < N; i++)
        item_wait(&g, &items[i]);
    for (int i = 0; i < LOOKS; i++) {
        item_wait(&g, &looks[i]);
        assert_int_equal(looks[i].done_count, 1);
    }
    for (int i = 0; i < N; i += 2) {
        int64_t a = items[i].r.op.result;
        int64_t b = items[i + 1].r.op.result;
        assert_int_equal(items[i].done_count + items[i + 1].done_count, 2);
        assert_true((a == 0 && b == SNIC_EEXIST) || (a == SNIC_EEXIST && b == 0));
    }
    assert_true(g.door.refused > 0);
    assert_int_equal(snic_kvfs_check(snic_fs_engine(g.fs)), 0);
    assert_int_equal(snic_fs_unmount(g.fs), 0);
    rig_close(&g);
}

static void again(struct snic_fs_req *r)
{
    struct item *i = SNIC_CONTAINER(r, struct item, r);
    struct rig *g = r->op.ctx;
    if (++i->done_count == 100)
        return;
    submitting = 1;
    snic_fs_submit(g->fs, r); /* from inside done: completed later, not inside */
    submitting = 0;
}

/* A done may submit its own request anew. */
static void test_fs_submit_from_done(void **state)
{
    struct rig g;
    struct item i;
    (void)state;
    rig_made(&g, 0);
    memset(&i, 0, sizeof(i));
    i.r.done = again;
    i.r.op.ctx = &g;
    i.r.op.kind = SNIC_FSOP_GETATTR;
    i.r.op.ino = SNIC_FSOP_ROOT;
    snic_fs_submit(g.fs, &i.r);
    assert_int_equal(i.done_count, 0);
    while (i.done_count < 100)
        assert_true(snic_loop_once(g.loop, SNIC_NEVER) > 0);
    assert_int_equal(snic_fs_unmount(g.fs), 0);
    rig_close(&g);
}

static void test_fs_unknown_kind_einval(void **state)
{
    struct snic_fsop q = {.kind = SNIC_FSOP_KINDS};
    struct rig g;
    (void)state;
    rig_made(&g, 0);
    assert_int_equal(snic_fs_call(g.fs, &q), SNIC_EINVAL);
    assert_int_equal(snic_fs_unmount(g.fs), 0);
    rig_close(&g);
}

/* A store that dies ends requests with its error; none hangs. */
static void test_fs_dead_door_requests_end(void **state)
{
    struct snic_fsop q = {
        .kind = SNIC_FSOP_LOOKUP, .ino = SNIC_FSOP_ROOT, .name = "x", .name_size = 1};
    struct rig g;
    (void)state;
    rig_made(&g, 0);
    g.door.dead = SNIC_EIO;
    assert_int_equal(snic_fs_call(g.fs, &q), SNIC_EIO);
    assert_true(snic_fs_unmount(g.fs) < 0);
    rig_close(&g);
}

static uint64_t open_file(struct rig *g, uint64_t *ino)
{
    struct snic_fsop q = {.kind = SNIC_FSOP_CREATE,
                          .ino = SNIC_FSOP_ROOT,
                          .name = "f",
                          .name_size = 1,
                          .mode = 0100644,
                          .flags = SNIC_FSOP_OPEN_READ | SNIC_FSOP_OPEN_WRITE};
    assert_int_equal(snic_fs_call(g->fs, &q), 0);
    *ino = q.attr.ino;
    return q.handle;
}

static void lock_item(struct item *i, uint64_t ino, uint64_t handle, uint64_t owner)
{
    memset(i, 0, sizeof(*i));
    i->r.done = item_done;
    i->r.op.kind = SNIC_FSOP_SETLK;
    i->r.op.flags = SNIC_FSOP_LOCK_WAIT;
    i->r.op.ino = ino;
    i->r.op.handle = handle;
    i->r.op.lock.owner = owner;
    i->r.op.lock.end = UINT64_MAX;
    i->r.op.lock.type = SNIC_FSOP_WRLCK;
}

/* A lock that waits ends with EINTR when cancelled: in the engine, posted, or queued for room. */
static void test_fs_lock_waits_cancel_eintr(void **state)
{
    struct snic_fsop r = {.kind = SNIC_FSOP_RELEASE};
    struct item held, waits, posted;
    uint64_t ino;
    struct rig g;
    (void)state;
    rig_made(&g, 0);
    r.handle = open_file(&g, &ino);
    r.ino = ino;
    lock_item(&held, ino, r.handle, 1);
    snic_fs_submit(g.fs, &held.r);
    item_wait(&g, &held);
    assert_int_equal(held.r.op.result, 0);
    lock_item(&waits, ino, r.handle, 2);
    snic_fs_submit(g.fs, &waits.r);
    for (int i = 0; i < 100 && snic_loop_once(g.loop, 0) > 0; i++)
        assert_int_equal(waits.done_count, 0);
    lock_item(&posted, ino, r.handle, 3);
    snic_fs_post(g.fs, &posted.r);
    snic_fs_cancel(g.fs, &posted.r);
    snic_fs_cancel(g.fs, &waits.r);
    assert_int_equal(waits.done_count + posted.done_count, 0);
    item_wait(&g, &waits);
    item_wait(&g, &posted);
    assert_int_equal(waits.r.op.result, SNIC_EINTR);
    assert_int_equal(posted.r.op.result, SNIC_EINTR);
    snic_fs_cancel(g.fs, &waits.r); /* harmless */
    r.lock.owner = 1;
    assert_int_equal(snic_fs_call(g.fs, &r), 0);
    assert_int_equal(snic_fs_unmount(g.fs), 0);
    rig_close(&g);
}

/* The engine's own deadlines are kept without requests: it is never behind. */
static void test_fs_time_passes_engine_advances(void **state)
{
    struct rig g;
    uint64_t due;
    (void)state;
    rig_made(&g, 0);
    due = snic_kvfs_deadline_ns(snic_fs_engine(g.fs));
    assert_true(due != UINT64_MAX);
    for (int i = 0; i < 5; i++) {
        (void)snic_world_run(g.world, due + 1000000u, 100000);
        assert_true(snic_kvfs_deadline_ns(snic_fs_engine(g.fs)) > snic_world_now(g.world));
        due += 1000000000u;
    }
    assert_int_equal(snic_fs_unmount(g.fs), 0);
    rig_close(&g);
}

struct heard {
    int count;
    int alone;
    int joined; /* the other one is in */
    int late;   /* heard after that     */
};
static struct heard heard;

static void on_alone(void *ctx, int alone)
{
    (void)ctx;
    heard.count++;
    heard.alone = alone;
    heard.late += heard.joined;
}

/* A client that caches answers hears of others before they proceed, and when they have gone. */
static void test_fs_others_notified_before_they_proceed(void **state)
{
    struct rig g;
    (void)state;
    rig_open(&g, 0);
    struct snic_fs_opts o = options(&g);
    (void)snic_fs_fini(g.fs);
    support_guard_free(g.mem);
    o.alone = on_alone;
    g.door.sole = 0;
    rig_fs(&g, &o);
    memset(&heard, 0, sizeof(heard));
    assert_int_equal(snic_fs_mkfs(g.fs, NULL), 0);
    assert_int_equal(snic_fs_mount(g.fs), 0);
    assert_int_equal(heard.count, 1);
    assert_int_equal(heard.alone, 1);

    struct snic_fs *other;
    o.alone = NULL;
    o.session_id = 78;
    size_t size = snic_fs_memsize(&o);
    void *mem = support_guard_alloc(size, 16);
    assert_int_equal(snic_fs_init(&other, mem, size, g.loop, &g.door.kv, &o), 0);
    assert_int_equal(snic_fs_mount(other), 0);
    heard.joined = 1;
    assert_int_equal(heard.count, 2);
    assert_int_equal(heard.alone, 0);
    assert_int_equal(snic_fs_unmount(other), 0);
    (void)snic_fs_fini(other);
    support_guard_free(mem);
    for (int i = 0; i < 100 && heard.count < 3; i++)
        (void)snic_world_run(g.world, snic_world_now(g.world) + 1000000000u, 1000000);
    assert_int_equal(heard.count, 3);
    assert_int_equal(heard.alone, 1);
    assert_int_equal(snic_fs_unmount(g.fs), 0);
    rig_close(&g);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_fs_put_unmount_mount_is_there),
        cmocka_unit_test(test_fs_empty_store_mount_enoent_mkfs_twice_eexist),
        cmocka_unit_test(test_fs_others_notified_before_they_proceed),
        cmocka_unit_test(test_fs_bad_options_refused),
        cmocka_unit_test(test_fs_store_of_other_loop_refused),
        cmocka_unit_test(test_fs_many_requests_narrow_door_each_done_once),
        cmocka_unit_test(test_fs_submit_from_done),
        cmocka_unit_test(test_fs_unknown_kind_einval),
        cmocka_unit_test(test_fs_dead_door_requests_end),
        cmocka_unit_test(test_fs_lock_waits_cancel_eintr),
        cmocka_unit_test(test_fs_time_passes_engine_advances),
    };
    return SUPPORT_MAIN(argc, argv, tests);
}
