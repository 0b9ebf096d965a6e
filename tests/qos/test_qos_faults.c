/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* Splitting and gathering, faults, cancels, stalls, lost devices; random work against bytes. */
#include "support.h"

#include <stdlib.h>
#include <string.h>

#include "test_qos_util.h"

#define PART 4096u
#define DISK_BYTES (4u << 20)

struct rig {
    struct snic_world *world;
    struct snic_loop *loop;
    struct snic_disk *disk;
    struct snic_io *io;
};

struct call {
    struct snic_io_req req;
    struct rig *rig;
    int done;
};

static int submitting;

static void call_done(struct snic_io_req *req)
{
    struct call *c = SNIC_CONTAINER(req, struct call, req);
    assert_false(submitting);
    c->done++;
}

static void rig_open(struct rig *g, uint32_t depth, uint64_t delay_ns,
                     const struct snic_qos_opts *in)
{
    struct snic_world_opts w = {.opts_size = sizeof(w), .seed = support_seed()};
    struct snic_disk_opts d = {.opts_size = sizeof(d),
                               .sector = 512,
                               .size = DISK_BYTES,
                               .seed = support_seed(),
                               .delay_min_ns = delay_ns / 2,
                               .delay_max_ns = delay_ns,
                               .depth = depth};
    struct snic_qos_opts o = {.opts_size = sizeof(o), .depth = 64, .part_bytes = PART, .parts = 8};
    struct snic_io *inner;
    memset(g, 0, sizeof(*g));
    assert_int_equal(snic_world_open(&g->world, &w), 0);
    assert_int_equal(snic_world_loop(g->world, 1, &g->loop), 0);
    assert_int_equal(snic_disk_open(&g->disk, &d), 0);
    assert_int_equal(snic_io_mem_open(&inner, g->loop, g->disk), 0);
    assert_int_equal(qx_open(&g->io, inner, in != NULL ? in : &o), 0);
}

static void rig_close(struct rig *g)
{
    assert_int_equal(snic_qos_check(g->io), 0);
    snic_io_close(g->io);
    snic_loop_close(g->loop);
    snic_world_close(g->world);
    snic_disk_close(g->disk);
}

static void call_init(struct call *c, struct rig *g, enum snic_io_op op, uint64_t offset, void *mem,
                      uint64_t length)
{
    memset(c, 0, sizeof(*c));
    snic_io_req_init(&c->req);
    c->rig = g;
    c->req.done = call_done;
    c->req.op = (uint8_t)op;
    c->req.offset = offset;
    c->req.length = length;
    c->req.buf.base = mem;
    c->req.buf.size = length;
}

static int call_submit(struct call *c)
{
    struct snic_io_req *one = &c->req;
    submitting = 1;
    int r = snic_io_submit(c->rig->io, &one, 1);
    submitting = 0;
    assert_int_equal(snic_qos_check(c->rig->io), 0);
    return r;
}

static void step(struct rig *g)
{
    assert_true(snic_loop_once(g->loop, SNIC_NEVER) > 0);
    assert_int_equal(snic_qos_check(g->io), 0);
}

/* With nothing to do the switch has no timer that runs for ever, or it would keep a CPU busy. */
static void quiet(struct rig *g)
{
    uint32_t events = 0;
    while (snic_world_step(g->world) != 0)
        assert_true(++events < 1000);
}

static int64_t call_wait(struct call *c)
{
    while (c->done == 0)
        step(c->rig);
    assert_int_equal(c->done, 1);
    return c->req.result;
}

static int64_t call_run(struct call *c)
{
    assert_int_equal(call_submit(c), 1);
    return call_wait(c);
}

static void fill(unsigned char *p, size_t n, uint64_t seed)
{
    struct snic_rng rng;
    snic_rng_init(&rng, seed);
    snic_rng_fill(&rng, p, n);
}

static void fault(struct rig *g, struct snic_fault f)
{
    assert_int_equal(snic_disk_fault(g->disk, &f), 0);
}

/* ---- Splitting ---- */

/* Every list of up to 4 pieces of 1 to 3 half parts must move exactly its bytes. */
static void test_qos_all_small_lists_split_right(void **state)
{
    enum { HALF = PART / 2 };
    struct rig g;
    struct call c;
    struct snic_iov iov[4];
    unsigned char *mem = malloc(12 * HALF), *seen = malloc(12 * HALF);
    (void)state;
    rig_open(&g, 32, 1000, NULL);
    for (uint32_t count = 1; count <= 4; count++) {
        uint32_t all = count == 1 ? 3 : count == 2 ? 9 : count == 3 ? 27 : 81;
        for (uint32_t word = 0; word < all; word++) {
            uint32_t rest = word;
            size_t n = 0;
            fill(mem, 12 * HALF, support_seed() + word + count * 100);
            for (uint32_t i = 0; i < count; i++, rest /= 3) {
                iov[i] = (struct snic_iov){mem + n, (1 + rest % 3) * (size_t)HALF};
                n += iov[i].size;
            }
            memset(snic_disk_bytes(g.disk), 0, 16 * HALF);
            call_init(&c, &g, SNIC_IO_WRITE, HALF, NULL, n);
            c.req.iov = iov;
            c.req.iov_count = count;
            assert_int_equal(call_run(&c), n);
            assert_memory_equal(snic_disk_bytes(g.disk) + HALF, mem, n);
            assert_int_equal(snic_disk_bytes(g.disk)[HALF - 1], 0);
            assert_int_equal(snic_disk_bytes(g.disk)[HALF + n], 0);
            memcpy(seen, mem, n);
            memset(mem, 0, 12 * HALF);
            call_init(&c, &g, SNIC_IO_READ, HALF, NULL, n);
            c.req.iov = iov;
            c.req.iov_count = count;
            assert_int_equal(call_run(&c), n);
            assert_memory_equal(mem, seen, n);
        }
    }
    rig_close(&g);
    free(mem);
    free(seen);
}

/* The parts of one request must not become one write that power loss tears without notice. */
static void test_qos_parts_not_larger_than_part_bytes(void **state)
{
    struct rig g;
    struct call c;
    struct snic_qos_view v;
    unsigned char *mem = calloc(1, 64 * PART);
    (void)state;
    rig_open(&g, 32, 1000, NULL);
    assert_true(g.io->geometry.atomic_write <= PART);
    call_init(&c, &g, SNIC_IO_WRITE, 0, mem, 64 * PART);
    assert_int_equal(call_run(&c), 64 * PART);
    snic_qos_get_view(g.io, &v);
    assert_int_equal(v.parts, 64);
    assert_int_equal(snic_disk_op_count(g.disk), 64);
    assert_int_equal(c.req.done_ns >= c.req.device_ns && c.req.device_ns >= c.req.queued_ns, 1);
    call_init(&c, &g, SNIC_IO_ZERO, 0, NULL, 64 * PART); /* costs its length, as a write */
    assert_int_equal(call_run(&c), 64 * PART);
    assert_int_equal(snic_disk_op_count(g.disk), 128);
    call_init(&c, &g, SNIC_IO_DISCARD, 0, NULL, 64 * PART); /* not split */
    assert_int_equal(call_run(&c), 64 * PART);
    assert_int_equal(snic_disk_op_count(g.disk), 129);
    struct snic_qos_tenant_view t;
    assert_int_equal(snic_qos_get_tenant_view(g.io, SNIC_QOS_DEFAULT, &t), 0);
    assert_int_equal(t.errors, 0);
    assert_int_equal(t.engine.errors, 0); /* neither was an error */
    rig_close(&g);
    free(mem);
}

/* ---- Gathering ---- */

/* Each part in turn short or failing: the lowest decides, what is below it was done. */
static void test_qos_lowest_part_not_whole_decides(void **state)
{
    enum { PARTS = 5 };
    struct rig g;
    struct call c;
    unsigned char *mem = malloc(PARTS * PART);
    (void)state;
    for (int kind = 0; kind < 3; kind++) {
        for (uint32_t at = 0; at < PARTS; at++) {
            rig_open(&g, 32, 2000, NULL);
            fill(mem, PARTS * PART, support_seed() + at);
            if (kind != 1)
                fault(&g, (struct snic_fault){.kind = SNIC_FAULT_SHORT,
                                              .after = 1,
                                              .offset = (uint64_t)at * PART,
                                              .length = 1,
                                              .bytes = 512});
            if (kind != 0 && at + (kind == 2) < PARTS)
                fault(&g, (struct snic_fault){.kind = SNIC_FAULT_ERROR,
                                              .after = 1,
                                              .offset = (uint64_t)(at + (kind == 2)) * PART,
                                              .length = 1,
                                              .error = SNIC_ENOSPC});
            call_init(&c, &g, SNIC_IO_WRITE, 0, mem, PARTS * PART);
            int64_t result = call_run(&c);
            assert_int_equal(result, kind == 1 ? SNIC_ENOSPC : (int64_t)at * PART + 512);
            size_t good = (size_t)at * PART + (kind == 1 ? 0 : 512);
            assert_memory_equal(snic_disk_bytes(g.disk), mem, good);
            assert_int_equal(g.io->stats.errors, kind == 1);
            rig_close(&g);
        }
    }
    free(mem);
}

/* FUA: each part is on the medium when the whole completes. */
static void test_qos_fua_holds_for_each_part(void **state)
{
    struct rig g;
    struct call c;
    unsigned char *mem = malloc(9 * PART);
    (void)state;
    rig_open(&g, 32, 2000, NULL);
    fill(mem, 9 * PART, support_seed());
    call_init(&c, &g, SNIC_IO_WRITE, PART, mem, 9 * PART);
    c.req.flags = SNIC_IO_FUA;
    assert_int_equal(call_run(&c), 9 * PART);
    assert_int_equal(snic_disk_unsynced(g.disk, NULL, 0), 0);
    snic_disk_power_cut(g.disk, SNIC_FAULT_KEEP_NONE);
    assert_memory_equal(snic_disk_bytes(g.disk) + PART, mem, 9 * PART);
    rig_close(&g);
    free(mem);
}

/* A FLUSH covers what completed before it, also with a queue of writes in front of it. */
static void test_qos_flush_behind_queue_covers_completed(void **state)
{
    enum { COUNT = 40 };
    struct rig g;
    struct call first, w[COUNT], f;
    struct snic_gimbal_opts e = {
        .opts_size = sizeof(e), .rate_start = 4u << 20, .rate_max = 4u << 20};
    struct snic_qos_opts o = {
        .opts_size = sizeof(o), .depth = 64, .part_bytes = 64u << 10, .gimbal = &e};
    unsigned char *mem = malloc(64u << 10);
    (void)state;
    rig_open(&g, 32, 100000, &o);
    fill(mem, 64u << 10, support_seed());
    call_init(&first, &g, SNIC_IO_WRITE, 0, mem, PART);
    assert_int_equal(call_run(&first), PART);
    for (uint32_t i = 0; i < COUNT; i++) {
        call_init(&w[i], &g, SNIC_IO_WRITE, 1u << 20, mem, 64u << 10);
        assert_int_equal(call_submit(&w[i]), 1);
    }
    call_init(&f, &g, SNIC_IO_FLUSH, 0, NULL, 0);
    assert_int_equal(call_run(&f), 0);
    uint32_t waiting = 0;
    for (uint32_t i = 0; i < COUNT; i++)
        waiting += w[i].done == 0;
    assert_true(waiting > COUNT / 2); /* it did not wait for them */
    snic_disk_power_cut(g.disk, SNIC_FAULT_KEEP_NONE);
    assert_memory_equal(snic_disk_bytes(g.disk), mem, PART);
    for (uint32_t i = 0; i < COUNT; i++) {
        int64_t r = call_wait(&w[i]);
        assert_true(r == SNIC_EIO || r == 64 << 10);
    }
    rig_close(&g);
    free(mem);
}

/* ---- Cancel, loss, stalls ---- */

/* What waits in the switch ends at once; what is on the device ends truly. */
static void test_qos_cancelled_queued_end_from_loop(void **state)
{
    enum { COUNT = 50 };
    struct rig g;
    struct call c[COUNT];
    struct snic_gimbal_opts e = {
        .opts_size = sizeof(e), .rate_start = 4u << 20, .rate_max = 4u << 20};
    struct snic_qos_opts o = {
        .opts_size = sizeof(o), .depth = 64, .part_bytes = 64u << 10, .gimbal = &e};
    unsigned char *mem = calloc(1, 256u << 10);
    (void)state;
    rig_open(&g, 32, 100000, &o);
    for (uint32_t i = 0; i < COUNT; i++) {
        call_init(&c[i], &g, SNIC_IO_READ, 0, mem, i % 2 ? 4096 : 256u << 10);
        assert_int_equal(call_submit(&c[i]), 1);
    }
    uint64_t before = snic_loop_now(g.loop);
    for (uint32_t i = 0; i < COUNT; i++) {
        snic_io_cancel(g.io, &c[i].req);
        assert_int_equal(c[i].done, 0);
        assert_int_equal(snic_qos_check(g.io), 0);
        snic_io_cancel(g.io, &c[i].req); /* twice is harmless */
    }
    uint32_t cancelled = 0;
    for (uint32_t i = 0; i < COUNT; i++) {
        int64_t r = call_wait(&c[i]);
        assert_true(r == SNIC_ECANCELED || (r >= 0 && r <= (int64_t)c[i].req.length));
        cancelled += r == SNIC_ECANCELED;
    }
    assert_true(cancelled > COUNT / 2);
    assert_true(snic_loop_now(g.loop) - before < 1000000); /* not at 4 MiB/s */
    rig_close(&g);
    free(mem);
}

/* No request may wait for ever for a device that is no more. */
static void test_qos_device_gone_everything_ends(void **state)
{
    enum { COUNT = 60 };
    struct rig g;
    struct call c[COUNT], late;
    unsigned char *mem = calloc(1, 16 * PART);
    (void)state;
    for (uint32_t when = 1; when < 40; when += 3) {
        rig_open(&g, 4, 20000, NULL);
        fault(&g, (struct snic_fault){.kind = SNIC_FAULT_POWER, .after = when});
        for (uint32_t i = 0; i < COUNT; i++) {
            call_init(&c[i], &g, i % 7 == 6 ? SNIC_IO_FLUSH : SNIC_IO_READ, 0, mem,
                      i % 7 == 6   ? 0
                      : i % 3 == 0 ? 16 * PART
                                   : PART);
            assert_int_equal(call_submit(&c[i]), 1);
        }
        uint32_t lost = 0;
        for (uint32_t i = 0; i < COUNT; i++)
            lost += call_wait(&c[i]) == SNIC_EIO;
        assert_true(lost > 0);
        call_init(&late, &g, SNIC_IO_READ, 0, mem, PART);
        int r = call_submit(&late);
        if (r == 1)
            assert_int_equal(call_wait(&late), SNIC_EIO); /* that is how it finds out */
        call_init(&late, &g, SNIC_IO_READ, 0, mem, PART);
        assert_int_equal(call_submit(&late), SNIC_EIO);
        quiet(&g);
        rig_close(&g);
    }
    free(mem);
}

/* A device that hangs for 10 s and returns: nothing lost, and the rate comes back. */
static void test_qos_stall_of_ten_seconds_recovers(void **state)
{
    enum { COUNT = 64 };
    struct rig g;
    struct call c[COUNT];
    unsigned char *mem = calloc(1, 8 * PART);
    uint32_t i;
    (void)state;
    rig_open(&g, 16, 100000, NULL);
    fault(&g, (struct snic_fault){
                  .kind = SNIC_FAULT_DELAY, .after = 20, .repeat = 15, .delay_ns = 10000000000u});
    for (i = 0; i < COUNT; i++) {
        call_init(&c[i], &g, i % 2 ? SNIC_IO_READ : SNIC_IO_WRITE, 0, mem, 8 * PART);
        assert_int_equal(call_submit(&c[i]), 1);
    }
    for (i = 0; i < COUNT; i++)
        assert_int_equal(call_wait(&c[i]), 8 * PART);
    uint64_t after = snic_loop_now(g.loop);
    for (i = 0; i < COUNT; i++) {
        call_init(&c[i], &g, SNIC_IO_READ, 0, mem, 8 * PART);
        assert_int_equal(call_submit(&c[i]), 1);
    }
    for (i = 0; i < COUNT; i++)
        assert_int_equal(call_wait(&c[i]), 8 * PART);
    assert_true(snic_loop_now(g.loop) - after < 1000000000);
    quiet(&g);
    rig_close(&g);
    free(mem);
}

/* ---- Random ---- */

enum { AREAS = 24, AREA = 16 * PART, TENANTS = 6 };

struct area {
    struct call call;
    unsigned char mem[AREA];
    unsigned char model[AREA];
    unsigned char unknown[AREA];
    struct snic_iov iov[32];
    int busy;
};

struct work {
    struct rig g;
    struct snic_rng rng;
    struct area *areas;
    uint64_t accepted;
    uint64_t completed;
    uint64_t moved[2];
};

static void area_start(struct work *w, uint32_t index)
{
    struct area *a = &w->areas[index];
    static const uint8_t ops[] = {SNIC_IO_READ,  SNIC_IO_READ,    SNIC_IO_READ,
                                  SNIC_IO_WRITE, SNIC_IO_WRITE,   SNIC_IO_WRITE,
                                  SNIC_IO_ZERO,  SNIC_IO_DISCARD, SNIC_IO_FLUSH};
    uint64_t n = 512 * (1 + snic_rng_below(&w->rng, AREA / 512));
    uint64_t at = 512 * snic_rng_below(&w->rng, (AREA - n) / 512 + 1);
    uint8_t op = ops[snic_rng_below(&w->rng, SNIC_COUNTOF(ops))];
    if (snic_rng_below(&w->rng, 2) == 0)
        n = snic_min_u64(n, PART);
    call_init(&a->call, &w->g, op, (uint64_t)index * AREA + at, a->mem, n);
    a->call.req.tenant = (uint32_t)snic_rng_below(&w->rng, TENANTS);
    a->call.req.priority = (uint8_t)snic_rng_below(&w->rng, 10);
    if (op == SNIC_IO_WRITE) {
        fill(a->mem, n, snic_rng_next(&w->rng));
        if (snic_rng_below(&w->rng, 4) == 0)
            a->call.req.flags = SNIC_IO_FUA;
    }
    if (op <= SNIC_IO_WRITE && snic_rng_below(&w->rng, 3) == 0) {
        uint32_t pieces = 0;
        for (uint64_t i = 0; i < n; pieces++) {
            uint64_t k = 512 * (1 + snic_rng_below(&w->rng, (n - i) / 512));
            if (pieces == 31)
                k = n - i;
            a->iov[pieces] = (struct snic_iov){a->mem + i, k};
            i += k;
        }
        a->call.req.iov = a->iov;
        a->call.req.iov_count = pieces;
    }
    if (call_submit(&a->call) == 1) {
        a->busy = 1;
        w->accepted++;
    }
}

/** What a result shows about the bytes; behind a short or failed change they are unknown. */
static void area_judge(struct work *w, struct area *a)
{
    const struct snic_io_req *r = &a->call.req;
    uint64_t at = r->offset % AREA;
    uint64_t n = r->result > 0 ? (uint64_t)r->result : 0;
    assert_int_equal(a->call.done, 1);
    assert_true(r->result <= (int64_t)r->length);
    a->busy = 0;
    w->completed++;
    switch (r->op) {
    case SNIC_IO_READ:
        for (uint64_t i = 0; i < n; i++)
            assert_true(a->unknown[at + i] || a->mem[i] == a->model[at + i]);
        w->moved[0] += n;
        break;
    case SNIC_IO_WRITE:
        memcpy(a->model + at, a->mem, r->length);
        memset(a->unknown + at, 0, n);
        memset(a->unknown + at + n, 1, r->length - n);
        w->moved[1] += n;
        break;
    case SNIC_IO_ZERO:
    case SNIC_IO_DISCARD:
        memset(a->model + at, 0, r->length);
        memset(a->unknown + at, r->op == SNIC_IO_DISCARD, n);
        memset(a->unknown + at + n, 1, r->length - n);
        break;
    default:
        assert_true(r->result == 0 || r->result == SNIC_EIO || r->result == SNIC_ECANCELED ||
                    r->result == SNIC_EBUSY);
        break;
    }
}

static void work_tenants(struct work *w)
{
    struct snic_gimbal_tenant_opts t = {.opts_size = sizeof(t)};
    uint32_t id = (uint32_t)snic_rng_below(&w->rng, TENANTS);
    t.weight = 1 + (uint32_t)snic_rng_below(&w->rng, 8);
    if (snic_rng_below(&w->rng, 4) == 0)
        t.ios_per_second = 1000 + snic_rng_below(&w->rng, 10000);
    int r = 0;
    switch (snic_rng_below(&w->rng, 3)) {
    case 0:
        r = snic_qos_tenant_add(w->g.io, id, &t);
        assert_true(r == 0 || r == SNIC_EEXIST || r == SNIC_ENOSPC);
        break;
    case 1:
        r = snic_qos_tenant_remove(w->g.io, id);
        assert_true(r == 0 || r == SNIC_ENOENT);
        break;
    default:
        r = snic_qos_tenant_set(w->g.io, id, &t);
        assert_true(r == 0 || r == SNIC_ENOENT);
        break;
    }
    assert_int_equal(snic_qos_check(w->g.io), 0);
}

static void work_fault(struct work *w)
{
    struct snic_fault f = {.after = 1 + snic_rng_below(&w->rng, 20)};
    switch (snic_rng_below(&w->rng, 3)) {
    case 0:
        f.kind = SNIC_FAULT_ERROR;
        f.error = SNIC_EIO;
        break;
    case 1:
        f.kind = SNIC_FAULT_SHORT;
        f.bytes = 512 * snic_rng_below(&w->rng, 8);
        break;
    default:
        f.kind = SNIC_FAULT_DELAY;
        f.delay_ns = snic_rng_below(&w->rng, 3000000);
        break;
    }
    snic_disk_faults_clear(w->g.disk);
    fault(&w->g, f);
}

static void work_run(struct work *w, uint64_t steps, int faults)
{
    for (uint64_t i = 0; i < steps; i++) {
        uint32_t k = (uint32_t)snic_rng_below(&w->rng, AREAS);
        uint64_t draw = snic_rng_below(&w->rng, 100);
        if (draw < 50 && !w->areas[k].busy)
            area_start(w, k);
        else if (draw < 55 && w->areas[k].busy)
            snic_io_cancel(w->g.io, &w->areas[k].call.req);
        else if (draw < 58)
            work_tenants(w);
        else if (draw < 60 && faults)
            work_fault(w);
        else
            (void)snic_loop_once(w->g.loop, 0);
        for (k = 0; k < AREAS; k++)
            if (w->areas[k].busy && w->areas[k].call.done != 0)
                area_judge(w, &w->areas[k]);
    }
    snic_disk_faults_clear(w->g.disk);
    for (uint32_t k = 0; k < AREAS; k++) {
        if (w->areas[k].busy) {
            (void)call_wait(&w->areas[k].call);
            area_judge(w, &w->areas[k]);
        }
    }
}

/* Anything wrong with splitting, gathering, cancelling or tenants shows in the bytes or the counts.
 */
static void test_qos_random_work_matches_bytes(void **state)
{
    static const struct {
        uint32_t depth, parts;
        uint32_t flags;
    } shapes[] = {{1, 1, SNIC_QOS_AUTO}, {8, 4, 0}, {64, 64, SNIC_QOS_AUTO | SNIC_QOS_WAITS}};
    (void)state;
    for (uint32_t i = 0; i < SNIC_COUNTOF(shapes); i++) {
        struct work w;
        memset(&w, 0, sizeof(w));
        struct snic_qos_opts o = {.opts_size = sizeof(o),
                                  .flags = shapes[i].flags,
                                  .tenants_max = TENANTS - 2,
                                  .depth = AREAS - 4,
                                  .tenant_depth = AREAS / 2,
                                  .parts = shapes[i].parts,
                                  .idle_ns = 1000,
                                  .part_bytes = PART};
        rig_open(&w.g, shapes[i].depth, 100000, &o);
        w.areas = calloc(AREAS, sizeof(*w.areas));
        snic_rng_init(&w.rng, support_seed() + i);
        work_run(&w, support_scale(4000, 400000), 0);
        work_run(&w, support_scale(6000, 600000), 1);
        assert_int_equal(w.accepted, w.completed);
        assert_int_equal(w.g.io->stats.completed, w.accepted);
        quiet(&w.g);
        assert_int_equal(w.g.io->stats.read_bytes, w.moved[0]);
        assert_int_equal(w.g.io->stats.write_bytes, w.moved[1]);
        assert_true(w.moved[0] > 0 && w.moved[1] > 0);
        rig_close(&w.g);
        free(w.areas);
    }
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_qos_all_small_lists_split_right),
        cmocka_unit_test(test_qos_parts_not_larger_than_part_bytes),
        cmocka_unit_test(test_qos_lowest_part_not_whole_decides),
        cmocka_unit_test(test_qos_fua_holds_for_each_part),
        cmocka_unit_test(test_qos_flush_behind_queue_covers_completed),
        cmocka_unit_test(test_qos_cancelled_queued_end_from_loop),
        cmocka_unit_test(test_qos_device_gone_everything_ends),
        cmocka_unit_test(test_qos_stall_of_ten_seconds_recovers),
        cmocka_unit_test(test_qos_random_work_matches_bytes),
    };
    int r = SUPPORT_MAIN(argc, argv, tests);
    qx_free();
    return r;
}
