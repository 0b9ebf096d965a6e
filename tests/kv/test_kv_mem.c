/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * What only the store in memory has: crashes that keep a prefix of the changes, fault plans, space
 * that ends, damage, copies, digests.
 */
#include "support.h"

#include "snicstore/kv.h"

#include <stdlib.h>
#include <string.h>

#define BLOCK SNIC_KVOP_BLOCK

static struct snic_kvmem *medium(uint64_t space, uint32_t caps)
{
    struct snic_kvmem *m = NULL;
    struct snic_kvmem_opts o = {.opts_size = sizeof(o),
                                .track = 1,
                                .space = space,
                                .caps = caps,
                                .stripe_bytes = 4 * BLOCK};
    assert_int_equal(snic_kvmem_open(&m, &o), 0);
    return m;
}

static struct snic_kvop_key key(uint64_t group, uint32_t n)
{
    struct snic_kvop_key k;
    unsigned char bytes[3] = {'k', (unsigned char)(n >> 8), (unsigned char)n};
    snic_kvop_key_set(&k, group, bytes, 3);
    return k;
}

static int64_t put(struct snic_kvmem *m, uint64_t group, uint32_t n, uint32_t size, uint32_t flags)
{
    static unsigned char value[SNIC_KVOP_VALUE_MAX];
    struct snic_kvop_change c = {
        .key = key(group, n), .kind = SNIC_KVOP_PUT, .value = value, .size = size};
    struct snic_kvop op = {
        .kind = SNIC_KVOP_COMMIT, .changes = &c, .change_count = 1, .flags = flags};
    memset(value, (int)(n + size), size);
    snic_kvmem_apply(m, &op);
    return op.result;
}

static int64_t drop(struct snic_kvmem *m, uint64_t group, uint32_t n)
{
    struct snic_kvop_change c = {.key = key(group, n), .kind = SNIC_KVOP_DELETE};
    struct snic_kvop op = {.kind = SNIC_KVOP_COMMIT, .changes = &c, .change_count = 1};
    snic_kvmem_apply(m, &op);
    return op.result;
}

static int64_t get(struct snic_kvmem *m, uint64_t group, uint32_t n)
{
    static unsigned char value[SNIC_KVOP_VALUE_MAX];
    struct snic_kvop_get g = {.key = key(group, n), .value = value, .room = sizeof(value)};
    struct snic_kvop op = {.kind = SNIC_KVOP_GET, .gets = &g, .get_count = 1};
    snic_kvmem_apply(m, &op);
    return op.result != 0 ? op.result : (int64_t)g.size;
}

static int64_t object(struct snic_kvmem *m, uint32_t kind, uint64_t name, uint64_t offset,
                      uint64_t length, int byte, uint32_t flags, uint64_t *bad)
{
    static unsigned char bytes[16 * BLOCK];
    struct snic_iov piece = {bytes, (size_t)length};
    struct snic_kvop op = {.kind = kind,
                           .object = name,
                           .offset = offset,
                           .length = length,
                           .iov = &piece,
                           .iov_count = 1,
                           .flags = flags};
    if (kind == SNIC_KVOP_OBJECT_WRITE)
        memset(bytes, byte, (size_t)length);
    snic_kvmem_apply(m, &op);
    if (bad != NULL)
        *bad = op.bad_offset;
    return op.result;
}

/* ---- Crashes ---- */

/** One random operation; 1 when it made everything durable. */
static int workload_step(struct snic_kvmem *m, struct snic_rng *rng)
{
    uint64_t name = snic_rng_below(rng, 3);
    uint64_t offset = snic_rng_below(rng, 12 * BLOCK);
    uint64_t length = 1 + snic_rng_below(rng, 3 * BLOCK);
    uint32_t n = (uint32_t)snic_rng_below(rng, 20);
    switch (snic_rng_below(rng, 9)) {
    case 0:
    case 1:
        assert_int_equal(put(m, name, n, 1 + (uint32_t)length % 300, 0), 0);
        return 0;
    case 2:
        assert_int_equal(drop(m, name, n), 0);
        return 0;
    case 3:
        (void)object(m, SNIC_KVOP_OBJECT_ZERO, name, offset, length, 0, 0, NULL);
        return 0;
    case 4:
        (void)object(m, SNIC_KVOP_OBJECT_PUNCH, name, offset, length, 0, 0, NULL);
        return 0;
    case 5:
        (void)object(m, n % 2 ? SNIC_KVOP_OBJECT_TRUNCATE : SNIC_KVOP_OBJECT_ALLOC, name, offset,
                     length, 0, 0, NULL);
        return 0;
    case 6: { /* records of several groups, object bytes and a truncation together */
        static unsigned char bytes[3 * BLOCK];
        memset(bytes, (int)n, sizeof(bytes));
        struct snic_kvop_change c[4] = {
            {.key = key(0, n), .kind = SNIC_KVOP_PUT, .value = bytes, .size = 50},
            {.key = key(n % 3 == 0 ? 0 : 1, n + 1), .kind = SNIC_KVOP_DELETE},
            {.kind = SNIC_KVOP_CHANGE_WRITE,
             .object = 0,
             .offset = offset % (4 * BLOCK),
             .value = bytes,
             .size = (uint32_t)length},
            {.kind = SNIC_KVOP_CHANGE_TRUNCATE, .object = 2, .offset = offset}};
        struct snic_kvop op = {.kind = SNIC_KVOP_COMMIT, .changes = c, .change_count = 4};
        snic_kvmem_apply(m, &op);
        assert_int_equal(op.result, 0);
        return 0;
    }
    default:
        assert_int_equal(object(m, SNIC_KVOP_OBJECT_WRITE, name, offset, length, (int)n, 0, NULL),
                         (int64_t)length);
        return 0;
    }
}

enum { CRASH_STEPS = 60 };

/*
 * Whatever number of changes survives: the store is then what it was when that many had been made.
 * Between two operations that is known by its digest; within one at least it must be in order.
 */
static void test_kv_mem_crash_keeps_a_prefix(void **state)
{
    (void)state;
    uint64_t seed = support_seed();
    uint64_t digests[CRASH_STEPS + 1];
    uint64_t at[CRASH_STEPS + 1];
    struct snic_rng rng;
    struct snic_kvmem *m = medium(0, 0);
    snic_rng_init(&rng, seed);
    for (int i = 0; i < 20; i++)
        (void)workload_step(m, &rng);
    struct snic_rng middle = rng;
    struct snic_kvop sync = {.kind = SNIC_KVOP_SYNC};
    snic_kvmem_apply(m, &sync);
    assert_int_equal(snic_kvmem_unsynced(m), 0);
    struct snic_kvmem *synced = NULL;
    assert_int_equal(snic_kvmem_clone(m, &synced), 0);
    for (int i = 0; i <= CRASH_STEPS; i++) {
        digests[i] = snic_kvmem_digest(m);
        at[i] = snic_kvmem_unsynced(m);
        (void)workload_step(m, &rng);
    }
    snic_kvmem_close(m);
    for (uint64_t keep = 0; keep <= at[CRASH_STEPS]; keep++) {
        assert_int_equal(snic_kvmem_clone(synced, &m), 0);
        rng = middle;
        for (int i = 0; i < CRASH_STEPS; i++)
            (void)workload_step(m, &rng);
        assert_int_equal(snic_kvmem_unsynced(m), at[CRASH_STEPS]);
        snic_kvmem_crash(m, keep);
        assert_int_equal(snic_kvmem_check(m), 0);
        assert_int_equal(snic_kvmem_unsynced(m), 0);
        for (int i = 0; i <= CRASH_STEPS; i++) {
            if (at[i] == keep)
                assert_int_equal(snic_kvmem_digest(m), digests[i]);
        }
        assert_int_equal(get(m, 0, 0), SNIC_EPEERDEAD);
        snic_kvmem_restart(m);
        assert_true(get(m, 0, 0) != SNIC_EPEERDEAD);
        for (int i = 0; i < 5; i++)
            (void)workload_step(m, &rng);
        assert_int_equal(snic_kvmem_check(m), 0);
        snic_kvmem_close(m);
    }
    snic_kvmem_close(synced);
}

/* DURABLE is a promise about this change, and with it about all before. */
static void test_kv_mem_durable_survives(void **state)
{
    (void)state;
    struct snic_kvmem *m = medium(0, 0);
    assert_int_equal(put(m, 1, 1, 10, 0), 0);
    assert_int_equal(snic_kvmem_unsynced(m), 1);
    assert_int_equal(put(m, 1, 2, 10, SNIC_KVOP_DURABLE), 0);
    assert_int_equal(snic_kvmem_unsynced(m), 0);
    assert_int_equal(put(m, 1, 3, 10, 0), 0);
    assert_int_equal(snic_kvmem_changes(m), 3);
    snic_kvmem_crash(m, 0);
    snic_kvmem_restart(m);
    assert_int_equal(get(m, 1, 1), 10);
    assert_int_equal(get(m, 1, 2), 10);
    assert_int_equal(get(m, 1, 3), SNIC_ENOENT);
    snic_kvmem_close(m);
}

/* A write of several blocks may survive in part: the first blocks. */
static void test_kv_mem_crash_tears_writes_by_block(void **state)
{
    (void)state;
    for (uint64_t keep = 0; keep <= 3; keep++) {
        struct snic_kvmem *m = medium(0, 0);
        assert_int_equal(object(m, SNIC_KVOP_OBJECT_WRITE, 1, 100, 2 * BLOCK, 7, 0, NULL),
                         2 * BLOCK);
        assert_int_equal(snic_kvmem_unsynced(m), 3);
        snic_kvmem_crash(m, keep);
        snic_kvmem_restart(m);
        struct snic_kvop op = {.kind = SNIC_KVOP_OBJECT_STAT, .object = 1};
        snic_kvmem_apply(m, &op);
        assert_int_equal(op.allocated, keep * BLOCK);
        snic_kvmem_close(m);
    }
}

/* Bytes of the group's own first stripe are one step with the records, others come before them if
 * the store's caps do not state otherwise. */
static void test_kv_mem_commit_takes_the_steps_it_must(void **state)
{
    static const struct {
        uint64_t guard_group;
        uint64_t object;
        uint64_t offset;
        uint64_t changes;
        uint32_t caps;
    } cases[] = {{1, 1, 10, 1, 0},
                 {1, 1, 2 * BLOCK, 1, 0},
                 {1, 1, 2 * BLOCK + 1, 4, 0},
                 {1, 2, 10, 4, 0},
                 {2, 1, 10, 4, 0},
                 {2, 1, 2 * BLOCK + 1, 1, SNIC_KV_CAP_ATOMIC_MULTI | SNIC_KV_CAP_ATOMIC_OBJECT}};
    static unsigned char bytes[2 * BLOCK];
    (void)state;
    for (size_t i = 0; i < SNIC_COUNTOF(cases); i++) {
        struct snic_kvmem *m = medium(0, cases[i].caps); /* stripes of 4 blocks */
        struct snic_kvop_guard g = {.key = key(cases[i].guard_group, 7)};
        struct snic_kvop_change c[2] = {
            {.key = key(1, 1), .kind = SNIC_KVOP_PUT, .value = bytes, .size = 5},
            {.kind = SNIC_KVOP_CHANGE_WRITE,
             .object = cases[i].object,
             .offset = cases[i].offset,
             .value = bytes,
             .size = sizeof(bytes)}};
        struct snic_kvop op = {.kind = SNIC_KVOP_COMMIT,
                               .guards = &g,
                               .guard_count = 1,
                               .changes = c,
                               .change_count = 2};
        snic_kvmem_apply(m, &op);
        assert_int_equal(op.result, 0);
        assert_int_equal(snic_kvmem_unsynced(m), cases[i].changes);
        assert_int_equal(snic_kvmem_check(m), 0);
        snic_kvmem_crash(m, cases[i].changes - 1); /* the records come last */
        snic_kvmem_restart(m);
        assert_int_equal(get(m, 1, 1), SNIC_ENOENT);
        snic_kvmem_close(m);
    }
}

/* ---- Fault plans ---- */

struct rig {
    struct snic_world *world;
    struct snic_loop *loop;
    struct snic_kvmem *medium;
    struct snic_kv *kv;
};

static struct rig rig_open(struct snic_kvmem *m)
{
    struct rig g = {.medium = m};
    assert_int_equal(snic_world_open(&g.world, NULL), 0);
    assert_int_equal(snic_world_loop(g.world, 0, &g.loop), 0);
    assert_int_equal(snic_kv_mem_open(&g.kv, g.loop, m), 0);
    return g;
}

static void rig_close(struct rig *g)
{
    snic_kv_close(g->kv);
    snic_loop_close(g->loop);
    snic_world_close(g->world);
    snic_kvmem_close(g->medium);
}

struct call {
    struct snic_kv_req req;
    struct snic_kvop op;
    struct snic_kvop_change change;
    int done;
};

static void call_done(struct snic_kv_req *req)
{
    SNIC_CONTAINER(req, struct call, req)->done++;
}

static void call_start(struct rig *g, struct call *c, uint32_t n, uint64_t timeout_ns)
{
    struct snic_kv_req *one = &c->req;
    memset(c, 0, sizeof(*c));
    c->req.done = call_done;
    c->req.op = &c->op;
    c->req.timeout_ns = timeout_ns;
    c->change = (struct snic_kvop_change){
        .key = key(1, n), .kind = SNIC_KVOP_PUT, .value = "value", .size = 5};
    c->op = (struct snic_kvop){.kind = SNIC_KVOP_COMMIT, .changes = &c->change, .change_count = 1};
    assert_int_equal(snic_kv_submit(g->kv, &one, 1), 1);
    assert_int_equal(c->done, 0);
}

static int64_t call_end(struct rig *g, struct call *c)
{
    while (c->done == 0)
        assert_int_equal(snic_loop_once(g->loop, SNIC_NEVER), 1);
    assert_int_equal(c->done, 1);
    return c->op.result;
}

static void test_kv_mem_faults_strike_as_planned(void **state)
{
    (void)state;
    struct rig g = rig_open(medium(0, 0));
    struct call c;
    struct snic_kv_fault f = {.kind = SNIC_KV_FAULT_ERROR,
                              .kinds = 1U << SNIC_KVOP_COMMIT,
                              .after = 2,
                              .repeat = 1,
                              .error = SNIC_EIO};
    assert_int_equal(snic_kvmem_fault(g.medium, &f), 0);
    for (uint32_t i = 0; i < 5; i++) {
        (void)get(g.medium, 1, i); /* another kind */
        call_start(&g, &c, i, 0);
        assert_int_equal(call_end(&g, &c), i == 1 || i == 2 ? SNIC_EIO : 0);
        assert_int_equal(get(g.medium, 1, i), i == 1 || i == 2 ? SNIC_ENOENT : 5);
    }
    f = (struct snic_kv_fault){.kind = SNIC_KV_FAULT_UNKNOWN, .after = 1};
    assert_int_equal(snic_kvmem_fault(g.medium, &f), 0);
    call_start(&g, &c, 10, 0);
    assert_int_equal(call_end(&g, &c), SNIC_EUNKNOWN);
    assert_int_equal(get(g.medium, 1, 10), 5);
    f = (struct snic_kv_fault){.kind = SNIC_KV_FAULT_DELAY, .after = 1, .delay_ns = 5000};
    assert_int_equal(snic_kvmem_fault(g.medium, &f), 0);
    uint64_t before = snic_loop_now(g.loop);
    call_start(&g, &c, 11, 0);
    assert_int_equal(call_end(&g, &c), 0);
    assert_true(snic_loop_now(g.loop) >= before + 5000);
    f.kind = 9;
    assert_int_equal(snic_kvmem_fault(g.medium, &f), SNIC_EINVAL);
    f = (struct snic_kv_fault){
        .kind = SNIC_KV_FAULT_ERROR, .after = 1, .repeat = UINT64_MAX, .error = SNIC_ENOSPC};
    for (uint32_t i = 0; i < 64; i++)
        assert_int_equal(snic_kvmem_fault(g.medium, &f), 0);
    assert_int_equal(snic_kvmem_fault(g.medium, &f), SNIC_ENOSPC);
    assert_int_equal(get(g.medium, 1, 10), SNIC_ENOSPC);
    snic_kvmem_faults_clear(g.medium);
    assert_int_equal(get(g.medium, 1, 10), 5);
    rig_close(&g);
}

/* A request whose time is up has not happened and will not. */
static void test_kv_mem_time_out_leaves_nothing(void **state)
{
    (void)state;
    struct rig g = rig_open(medium(0, 0));
    struct call c, d;
    struct snic_kv_fault f = {
        .kind = SNIC_KV_FAULT_DELAY, .after = 1, .repeat = 1, .delay_ns = 60000000000ULL};
    assert_int_equal(snic_kvmem_fault(g.medium, &f), 0);
    call_start(&g, &c, 1, 1000);
    call_start(&g, &d, 2, 0); /* the handle's 30 s */
    assert_int_equal(call_end(&g, &c), SNIC_ETIMEDOUT);
    assert_int_equal(d.done, 0);
    assert_int_equal(call_end(&g, &d), SNIC_ETIMEDOUT);
    assert_int_equal(get(g.medium, 1, 1), SNIC_ENOENT);
    assert_int_equal(get(g.medium, 1, 2), SNIC_ENOENT);
    rig_close(&g);
}

static void test_kv_mem_cancel_ends_a_delay(void **state)
{
    (void)state;
    struct rig g = rig_open(medium(0, 0));
    struct call c;
    struct snic_kv_fault f = {.kind = SNIC_KV_FAULT_DELAY, .after = 1, .delay_ns = 10000000000ULL};
    assert_int_equal(snic_kvmem_fault(g.medium, &f), 0);
    uint64_t before = snic_loop_now(g.loop);
    call_start(&g, &c, 1, 0);
    assert_int_equal(snic_loop_once(g.loop, 0), 1);
    assert_int_equal(c.done, 0);
    snic_kv_cancel(g.kv, &c.req);
    assert_int_equal(call_end(&g, &c), SNIC_ECANCELED);
    assert_true(snic_loop_now(g.loop) < before + 1000000000);
    assert_int_equal(get(g.medium, 1, 1), SNIC_ENOENT);
    rig_close(&g);
}

static void test_kv_mem_crash_kills_handles(void **state)
{
    (void)state;
    struct rig g = rig_open(medium(0, 0));
    struct call calls[5];
    struct snic_kv *other = NULL;
    struct snic_kv_fault f = {.kind = SNIC_KV_FAULT_CRASH, .after = 3, .keep = 1};
    assert_int_equal(snic_kv_sole(g.kv), 1);
    assert_int_equal(snic_kvmem_fault(g.medium, &f), 0);
    for (uint32_t i = 0; i < 5; i++)
        call_start(&g, &calls[i], i, 0);
    for (uint32_t i = 0; i < 5; i++)
        assert_int_equal(call_end(&g, &calls[i]), i < 2 ? 0 : SNIC_EPEERDEAD);
    assert_int_equal(snic_kv_mem_open(&other, g.loop, g.medium), SNIC_EBUSY);
    snic_kvmem_restart(g.medium);
    for (uint32_t i = 0; i < 5; i++)
        assert_int_equal(get(g.medium, 1, i), i < 1 ? 5 : SNIC_ENOENT);
    call_start(&g, &calls[0], 9, 0); /* the old handle stays dead */
    assert_int_equal(call_end(&g, &calls[0]), SNIC_EPEERDEAD);
    assert_int_equal(snic_kv_mem_open(&other, g.loop, g.medium), 0);
    assert_int_equal(snic_kv_sole(other), 0);
    snic_kv_close(g.kv);
    assert_int_equal(snic_kv_sole(other), 1);
    g.kv = other;
    call_start(&g, &calls[0], 9, 0);
    assert_int_equal(call_end(&g, &calls[0]), 0);
    rig_close(&g);
}

/* ---- Space, damage, options ---- */

/* A full store must still remove things, and list its contents. */
static void test_kv_mem_full_store_reports_no_space(void **state)
{
    (void)state;
    struct snic_kvmem *m = medium(64 * BLOCK, 0);
    uint64_t n = 0;
    while (object(m, SNIC_KVOP_OBJECT_WRITE, 5, n * BLOCK, BLOCK, 1, 0, NULL) > 0)
        n++;
    assert_true(n == 62);
    uint64_t digest = snic_kvmem_digest(m);
    assert_int_equal(object(m, SNIC_KVOP_OBJECT_WRITE, 5, 100 * BLOCK - 5, 10, 1, 0, NULL),
                     SNIC_ENOSPC);
    assert_int_equal(object(m, SNIC_KVOP_OBJECT_ALLOC, 5, 0, 1ULL << 61, 1, 0, NULL), SNIC_ENOSPC);
    assert_int_equal(object(m, SNIC_KVOP_OBJECT_ZERO, 6, 0, BLOCK, 1, 0, NULL), SNIC_ENOSPC);
    assert_int_equal(put(m, 1, 1, 5000, 0), SNIC_ENOSPC);
    assert_int_equal(snic_kvmem_digest(m), digest);
    assert_int_equal(snic_kvmem_check(m), 0);
    struct snic_kvop op = {.kind = SNIC_KVOP_SPACE};
    snic_kvmem_apply(m, &op);
    assert_int_equal(op.space, 64 * BLOCK);
    assert_true(op.space_free < BLOCK);
    assert_int_equal(object(m, SNIC_KVOP_OBJECT_WRITE, 5, 0, 10, 1, 0, NULL), 10); /* in place */
    assert_int_equal(put(m, 1, 1, 5000, SNIC_KVOP_RESERVE), 0);
    assert_int_equal(drop(m, 1, 1), 0);
    assert_int_equal(object(m, SNIC_KVOP_OBJECT_PUNCH, 5, 0, BLOCK, 1, 0, NULL), 0);
    assert_int_equal(put(m, 1, 1, 5000, 0), 0);
    assert_int_equal(snic_kvmem_check(m), 0);
    snic_kvmem_close(m);
}

/* A handle that another one has fenced is refused all, what is in flight included; the other one is
 * served. */
static void test_kv_mem_fenced_handle_is_refused(void **state)
{
    (void)state;
    struct rig g = rig_open(medium(0, SNIC_KV_CAP_SHARED | SNIC_KV_CAP_FENCE));
    struct snic_kv *first = g.kv, *second = NULL;
    struct call c;
    assert_int_equal(snic_kv_mem_open(&second, g.loop, g.medium), 0);
    assert_true(first->identity_size > 0 && first->identity_size == second->identity_size);
    assert_memory_not_equal(first->identity, second->identity, first->identity_size);
    assert_int_equal(snic_kvmem_fenced(g.medium, second->identity, second->identity_size), 0);
    struct snic_iov iov = {second->identity, second->identity_size};
    struct snic_kvop fence = {
        .kind = SNIC_KVOP_FENCE, .iov = &iov, .iov_count = 1, .length = iov.size};
    g.kv = second;
    call_start(&g, &c, 1, 0);
    snic_kvmem_apply(g.medium, &fence);
    assert_int_equal(fence.result, 0);
    assert_int_equal(snic_kvmem_fenced(g.medium, second->identity, second->identity_size), 1);
    assert_int_equal(call_end(&g, &c), SNIC_ESHUTDOWN);
    assert_int_equal(get(g.medium, 1, 1), SNIC_ENOENT);
    call_start(&g, &c, 1, 0);
    assert_int_equal(call_end(&g, &c), SNIC_ESHUTDOWN);
    g.kv = first;
    call_start(&g, &c, 1, 0);
    assert_int_equal(call_end(&g, &c), 0);
    snic_kv_close(second);
    rig_close(&g);
    struct snic_kvmem *m = medium(0, 0); /* without the capability */
    snic_kvmem_apply(m, &fence);
    assert_int_equal(fence.result, SNIC_ENOTSUP);
    snic_kvmem_close(m);
}

static void test_kv_mem_damage_is_found(void **state)
{
    (void)state;
    struct snic_kvmem *m = medium(0, 0);
    uint64_t bad = 0;
    assert_int_equal(object(m, SNIC_KVOP_OBJECT_WRITE, 5, 0, 4 * BLOCK, 1, 0, NULL), 4 * BLOCK);
    assert_int_equal(snic_kvmem_damage(m, 6, 0), SNIC_ENOENT);
    assert_int_equal(snic_kvmem_damage(m, 5, 4 * BLOCK), SNIC_ENOENT);
    assert_int_equal(snic_kvmem_damage(m, 5, 2 * BLOCK + 77), 0);
    assert_int_equal(object(m, SNIC_KVOP_OBJECT_READ, 5, 0, 2 * BLOCK, 0, 0, NULL), 2 * BLOCK);
    assert_int_equal(object(m, SNIC_KVOP_OBJECT_READ, 5, 10, 3 * BLOCK, 0, 0, &bad), SNIC_ECORRUPT);
    assert_int_equal(bad, 2 * BLOCK);
    bad = 0; /* a part of a block cannot be replaced where the rest is wrong */
    assert_int_equal(object(m, SNIC_KVOP_OBJECT_WRITE, 5, 2 * BLOCK + 10, 5, 0, 0, &bad),
                     SNIC_ECORRUPT);
    assert_int_equal(bad, 2 * BLOCK);
    assert_int_equal(object(m, SNIC_KVOP_OBJECT_TRUNCATE, 5, 2 * BLOCK + 10, 0, 0, 0, NULL),
                     SNIC_ECORRUPT);
    assert_int_equal(object(m, SNIC_KVOP_OBJECT_WRITE, 5, 2 * BLOCK, BLOCK, 0, 0, NULL), BLOCK);
    assert_int_equal(object(m, SNIC_KVOP_OBJECT_READ, 5, 0, 4 * BLOCK, 0, 0, NULL), 4 * BLOCK);
    snic_kvmem_close(m);
}

static void test_kv_mem_clone_is_apart(void **state)
{
    (void)state;
    struct snic_kvmem *m = medium(0, 0);
    struct snic_kvmem *copy = NULL;
    struct snic_rng rng;
    snic_rng_init(&rng, 3);
    for (int i = 0; i < 300; i++)
        (void)workload_step(m, &rng);
    uint64_t digest = snic_kvmem_digest(m);
    assert_int_equal(snic_kvmem_clone(m, &copy), 0);
    assert_int_equal(snic_kvmem_digest(copy), digest);
    assert_int_equal(snic_kvmem_check(copy), 0);
    assert_int_equal(put(copy, 1, 1, 77, 0), 0);
    assert_true(snic_kvmem_digest(copy) != digest);
    assert_int_equal(snic_kvmem_digest(m), digest);
    snic_kvmem_close(copy);
    snic_kvmem_close(m);
}

static void test_kv_mem_bad_options_refused(void **state)
{
    (void)state;
    struct snic_kvmem *m = NULL;
    const struct snic_kvmem_opts bad[] = {
        {.opts_size = 3},
        {.opts_size = sizeof(bad[0]), .track = 2},
        {.opts_size = sizeof(bad[0]), .delay_min_ns = 2, .delay_max_ns = 1},
        {.opts_size = sizeof(bad[0]), .stripe_bytes = 1000},
        {.opts_size = sizeof(bad[0]), .caps = 1U << 30},
    };
    for (size_t i = 0; i < SNIC_COUNTOF(bad); i++)
        assert_int_equal(snic_kvmem_open(&m, &bad[i]), SNIC_EINVAL);
    assert_null(m);
    m = medium(0, SNIC_KV_CAP_READONLY);
    assert_int_equal(put(m, 1, 1, 5, 0), SNIC_EPERM);
    assert_int_equal(object(m, SNIC_KVOP_OBJECT_WRITE, 1, 0, 5, 0, 0, NULL), SNIC_EPERM);
    assert_int_equal(get(m, 1, 1), SNIC_ENOENT);
    snic_kvmem_close(m);
}

/* Many records: leaves and inner nodes split, empty, and go. */
static void test_kv_mem_large_tree_stays_in_order(void **state)
{
    (void)state;
    struct snic_kvmem_opts o = {.opts_size = sizeof(o)};
    struct snic_kvmem *m = NULL;
    uint32_t count = (uint32_t)support_scale(30000, 300000);
    struct snic_rng rng;
    assert_int_equal(snic_kvmem_open(&m, &o), 0);
    for (int order = 0; order < 3; order++) {
        for (uint32_t i = 0; i < count; i++) {
            uint32_t n = order == 0 ? i : order == 1 ? count - 1 - i : (i * 7919U) % count;
            assert_int_equal(put(m, n / 50, n, 9, 0), 0);
        }
        assert_int_equal(snic_kvmem_check(m), 0);
        snic_rng_init(&rng, support_seed());
        for (uint32_t i = 0; i < count; i++) { /* about two thirds of them, at random */
            uint32_t n = (uint32_t)snic_rng_below(&rng, count);
            assert_int_equal(drop(m, n / 50, n), 0);
        }
        assert_int_equal(snic_kvmem_check(m), 0);
        for (uint32_t i = 0; i < count; i++) {
            uint32_t n = order == 1 ? i : count - 1 - i;
            assert_int_equal(drop(m, n / 50, n), 0);
        }
        assert_int_equal(snic_kvmem_check(m), 0);
    }
    snic_kvmem_close(m);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_kv_mem_crash_keeps_a_prefix),
        cmocka_unit_test(test_kv_mem_durable_survives),
        cmocka_unit_test(test_kv_mem_crash_tears_writes_by_block),
        cmocka_unit_test(test_kv_mem_commit_takes_the_steps_it_must),
        cmocka_unit_test(test_kv_mem_faults_strike_as_planned),
        cmocka_unit_test(test_kv_mem_cancel_ends_a_delay),
        cmocka_unit_test(test_kv_mem_time_out_leaves_nothing),
        cmocka_unit_test(test_kv_mem_crash_kills_handles),
        cmocka_unit_test(test_kv_mem_full_store_reports_no_space),
        cmocka_unit_test(test_kv_mem_fenced_handle_is_refused),
        cmocka_unit_test(test_kv_mem_damage_is_found),
        cmocka_unit_test(test_kv_mem_clone_is_apart),
        cmocka_unit_test(test_kv_mem_bad_options_refused),
        cmocka_unit_test(test_kv_mem_large_tree_stays_in_order),
    };
    return SUPPORT_MAIN(argc, argv, tests);
}
