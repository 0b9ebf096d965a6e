/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* The switch in front of a simulated disk: the door's conformance, tenants, shares, credit. */
#include "conformance_io_util.h"
#include "iohog.h"

#include "test_qos_util.h"

/* ---- Set-up ---- */

struct rig {
    struct snic_world *world;
    struct snic_loop *loop;
    struct snic_disk *disk;
    struct snic_io *io;
};

/** A disk of 16 MiB whose requests take 50 to 100 us, and a switch with @p o. */
static void rig_open(struct rig *g, const struct snic_qos_opts *o)
{
    struct snic_world_opts w = {.opts_size = sizeof(w), .seed = support_seed()};
    struct snic_disk_opts d = {.opts_size = sizeof(d),
                               .size = 16u << 20,
                               .seed = support_seed(),
                               .delay_min_ns = 50000,
                               .delay_max_ns = 100000};
    struct snic_io *inner;
    assert_int_equal(snic_world_open(&g->world, &w), 0);
    assert_int_equal(snic_world_loop(g->world, 1, &g->loop), 0);
    assert_int_equal(snic_disk_open(&g->disk, &d), 0);
    assert_int_equal(snic_io_mem_open(&inner, g->loop, g->disk), 0);
    assert_int_equal(qx_open(&g->io, inner, o), 0);
}

static void rig_close(struct rig *g)
{
    assert_int_equal(snic_qos_check(g->io), 0);
    snic_io_close(g->io);
    snic_loop_close(g->loop);
    snic_world_close(g->world);
    snic_disk_close(g->disk);
}

static int64_t run(struct rig *g, enum snic_io_op op, uint32_t tenant, uint64_t offset, void *mem,
                   uint64_t length)
{
    struct request r;
    request_init(&r, g->io, op, offset, mem, length);
    r.req.tenant = tenant;
    return request_run(&r);
}

static void nothing(struct snic_timer *t, uint64_t now_ns)
{
    (void)t;
    (void)now_ns;
}

/** Time moves with events only. */
static void let_pass(struct rig *g, uint64_t ns)
{
    struct snic_timer t;
    snic_timer_init(&t, nothing);
    snic_loop_arm(g->loop, &t, snic_loop_now(g->loop) + ns);
    (void)snic_world_run(g->world, snic_loop_now(g->loop) + ns, UINT64_MAX);
}

/* ---- The door's conformance ---- */

static void open_mem(struct conformance_io *c, const struct conformance_io_backend *b,
                     uint32_t depth)
{
    struct snic_io *inner;
    struct snic_gimbal_tenant_opts t = {.opts_size = sizeof(t), .weight = 2};
    struct snic_qos_opts o = {.opts_size = sizeof(o), .depth = depth, .tenant = &t};
    conformance_io_open_mem_sim(c, b, (b->flags & 1) != 0 ? 1 : depth);
    if ((b->flags & 1) != 0) {
        o.part_bytes = 4096;
        o.parts = 1;
        o.flags = SNIC_QOS_AUTO | SNIC_QOS_WAITS;
        o.tenant_depth = depth; /* the door's contract: one user may fill it */
    }
    inner = c->io;
    assert_int_equal(qx_open(&c->io, inner, &o), 0);
}

static const struct conformance_io_backend backends[] = {
    {.name = "qos_mem", .open = open_mem},
    {.name = "qos_mem_slow", .open = open_mem, .delay_ns = 100000},
    {.name = "qos_small_parts", .open = open_mem, .delay_ns = 20000, .flags = 1},
    {.name = "qos_small_parts_aligned",
     .open = open_mem,
     .align = 512,
     .delay_ns = 20000,
     .flags = 1,
     .caps = SNIC_IO_CAP_REGISTERED | SNIC_IO_CAP_ZERO},
};

/* ---- Contract ---- */

/* A switch that polls for room wakes its loop a thousand times a second. */
static void test_qos_inner_full_waits_without_polling(void **state)
{
    struct conformance_io_backend b = {.name = "inner"};
    struct conformance_io c = {0};
    struct iohog h;
    struct request r;
    struct snic_qos_view v;
    unsigned char *mem = buffer(4096);
    (void)state;
    conformance_io_open_mem_sim(&c, &b, 1);
    struct snic_io *inner = c.io;
    struct snic_qos_opts o = {.opts_size = sizeof(o), .depth = 4};
    assert_int_equal(qx_open(&c.io, inner, &o), 0);
    iohog_hold(&h, c.disk, inner);
    uint64_t from = snic_loop_now(c.loop), work = iohog_work(c.loop);
    request_init(&r, c.io, SNIC_IO_READ, 0, mem, 4096);
    assert_int_equal(request_run(&r), 4096);
    assert_true(snic_loop_now(c.loop) - from >= IOHOG_NS);
    snic_qos_get_view(c.io, &v);
    assert_int_equal(v.inner_full, 1);
    iohog_end(&h, c.loop, work);
    conformance_io_close(&c);
    free(mem);
}

/* A switch opened with what cannot work would fail later, under load. */
static void test_qos_bad_options_refused_inner_stays(void **state)
{
    struct rig g;
    struct snic_qos_opts good = {.opts_size = sizeof(good)};
    struct snic_gimbal_opts gimbal = {.opts_size = sizeof(gimbal), .beta = 1};
    struct snic_gimbal_tenant_opts tenant = {.opts_size = sizeof(tenant), .weight = 100000};
    struct {
        struct snic_qos_opts o;
        const char *wrong;
    } bad[] = {
        {{.opts_size = 3}, "opts_size"},
        {{.opts_size = sizeof(good), .flags = 4}, "flags"},
        {{.opts_size = sizeof(good), .tenants_max = SNIC_GIMBAL_TENANTS_MAX}, "tenants_max"},
        {{.opts_size = sizeof(good), .depth = 65537}, "depth"},
        {{.opts_size = sizeof(good), .depth = 4, .tenant_depth = 5}, "tenant_depth"},
        {{.opts_size = sizeof(good), .parts = 65537}, "parts"},
        {{.opts_size = sizeof(good), .part_bytes = 2048}, "part_bytes"},
        {{.opts_size = sizeof(good), .part_bytes = 5000}, "part_bytes"},
        {{.opts_size = sizeof(good), .part_bytes = 16u << 20}, "part_bytes"},
        {{.opts_size = sizeof(good), .tenant = &tenant}, "weight"},
    };
    (void)state;
    rig_open(&g, NULL);
    for (size_t i = 0; i < SNIC_COUNTOF(bad); i++) {
        struct snic_io *out = NULL;
        support_names(snic_qos_opts_wrong(g.io, &bad[i].o), bad[i].wrong);
        assert_int_equal(snic_qos_memsize(g.io, &bad[i].o), 0);
        assert_int_equal(qx_open(&out, g.io, &bad[i].o), SNIC_EINVAL);
        assert_null(out);
    }
    assert_null(snic_qos_opts_wrong(g.io, NULL));
    assert_null(snic_qos_opts_wrong(g.io, &good));
    unsigned char *mem = buffer(4096);
    assert_int_equal(run(&g, SNIC_IO_READ, 0, 0, mem, 4096), 4096); /* the inner one still works */
    good.gimbal = &gimbal;
    struct snic_io *outer;
    assert_int_equal(qx_open(&outer, g.io, &good), 0); /* a switch before a switch */
    g.io = outer;
    assert_int_equal(run(&g, SNIC_IO_READ, 0, 0, mem, 4096), 4096);
    rig_close(&g);
    free(mem);
}

/* Memory one byte short is refused; exactly enough is enough, and nothing beyond is touched. */
static void test_qos_memory_short_or_unaligned_refused(void **state)
{
    struct rig g;
    struct snic_qos_opts o = {.opts_size = sizeof(o), .flags = SNIC_QOS_WAITS, .parts = 3};
    struct snic_io *out = NULL;
    unsigned char *bytes = buffer(4096);
    (void)state;
    rig_open(&g, NULL);
    size_t size = snic_qos_memsize(g.io, &o);
    unsigned char *mem = support_guard_alloc(size + SNIC_QOS_ALIGN, SNIC_QOS_ALIGN);
    assert_int_equal(snic_qos_open(&out, mem, size - 1, g.io, &o), SNIC_ENOSPC);
    assert_int_equal(snic_qos_open(&out, mem + 64, size, g.io, &o), SNIC_EINVAL);
    assert_null(out);
    support_guard_free(mem);
    mem = support_guard_alloc(size, SNIC_QOS_ALIGN);
    assert_int_equal(snic_qos_open(&out, mem, size, g.io, &o), 0);
    g.io = out;
    assert_int_equal(run(&g, SNIC_IO_READ, 0, 0, bytes, 4096), 4096);
    rig_close(&g);
    support_guard_free(mem);
    free(bytes);
}

/* Every error of the tenants' calls, and what a view shows after each. */
static void test_qos_tenants_added_set_removed(void **state)
{
    struct rig g;
    struct snic_qos_opts o = {.opts_size = sizeof(o), .tenants_max = 2};
    struct snic_gimbal_tenant_opts t = {.opts_size = sizeof(t), .weight = 3};
    struct snic_gimbal_tenant_opts bad = {.opts_size = sizeof(bad), .weight = 9999};
    struct snic_qos_tenant_view v;
    uint32_t cursor = 0;
    (void)state;
    rig_open(&g, &o);
    assert_int_equal(snic_qos_tenant_add(g.io, SNIC_QOS_DEFAULT, &t), SNIC_EINVAL);
    assert_int_equal(snic_qos_tenant_add(g.io, 5, &bad), SNIC_EINVAL);
    assert_int_equal(snic_qos_get_tenant_view(g.io, 5, &v), SNIC_ENOENT);
    assert_int_equal(snic_qos_tenant_add(g.io, 5, &t), 0);
    assert_int_equal(snic_qos_tenant_add(g.io, 5, &t), SNIC_EEXIST);
    assert_int_equal(snic_qos_tenant_add(g.io, 0, NULL), 0);
    assert_int_equal(snic_qos_tenant_add(g.io, 6, NULL), SNIC_ENOSPC);
    assert_int_equal(snic_qos_get_tenant_view(g.io, 5, &v), 0);
    assert_int_equal(v.engine.weight, 3);
    t.weight = 7;
    assert_int_equal(snic_qos_tenant_set(g.io, 5, &t), 0);
    assert_int_equal(snic_qos_tenant_set(g.io, 5, &bad), SNIC_EINVAL);
    assert_int_equal(snic_qos_tenant_set(g.io, 6, &t), SNIC_ENOENT);
    assert_int_equal(snic_qos_tenant_set(g.io, SNIC_QOS_DEFAULT, &t), 0);
    assert_int_equal(snic_qos_get_tenant_view(g.io, 5, &v), 0);
    assert_int_equal(v.engine.weight, 7);
    uint32_t seen = 0;
    while (snic_qos_tenant_next(g.io, &cursor, &v) == 0)
        seen += v.id == SNIC_QOS_DEFAULT ? 1 : v.id == 5 ? 10 : v.id == 0 ? 100 : 1000;
    assert_int_equal(seen, 111);
    assert_int_equal(snic_qos_tenant_remove(g.io, SNIC_QOS_DEFAULT), SNIC_EINVAL);
    assert_int_equal(snic_qos_tenant_remove(g.io, 6), SNIC_ENOENT);
    assert_int_equal(snic_qos_tenant_remove(g.io, 0), 0);
    assert_int_equal(snic_qos_tenant_remove(g.io, 0), SNIC_ENOENT);
    assert_int_equal(snic_qos_tenant_add(g.io, 6, NULL), 0);
    rig_close(&g);
}

/* Requests of ids that were not added must not be lost, nor make tenants without end. */
static void test_qos_unknown_ids_default_or_automatic(void **state)
{
    struct rig g;
    struct snic_qos_view v;
    struct snic_qos_tenant_view t;
    unsigned char *mem = buffer(4096);
    (void)state;
    rig_open(&g, NULL);
    assert_int_equal(run(&g, SNIC_IO_READ, 77, 0, mem, 4096), 4096);
    snic_qos_get_view(g.io, &v);
    assert_int_equal(v.unknown, 1);
    assert_int_equal(snic_qos_get_tenant_view(g.io, SNIC_QOS_DEFAULT, &t), 0);
    assert_int_equal(t.completed, 1);
    assert_int_equal(t.engine.ios[SNIC_GIMBAL_READ], 1);
    rig_close(&g);

    struct snic_qos_opts o = {.opts_size = sizeof(o),
                              .flags = SNIC_QOS_AUTO | SNIC_QOS_WAITS,
                              .tenants_max = 2,
                              .idle_ns = 1000000};
    rig_open(&g, &o);
    assert_int_equal(run(&g, SNIC_IO_READ, 77, 0, mem, 4096), 4096);
    assert_int_equal(run(&g, SNIC_IO_READ, 78, 0, mem, 4096), 4096);
    assert_int_equal(run(&g, SNIC_IO_READ, 79, 0, mem, 4096), 4096); /* 77 was there just now */
    snic_qos_get_view(g.io, &v);
    assert_int_equal(v.automatic, 2);
    assert_int_equal(v.unknown, 1);
    assert_int_equal(v.evicted, 0);
    let_pass(&g, 2000000);
    assert_int_equal(run(&g, SNIC_IO_READ, 79, 0, mem, 4096), 4096);
    snic_qos_get_view(g.io, &v);
    assert_int_equal(v.evicted, 1);
    assert_int_equal(snic_qos_get_tenant_view(g.io, 77, &t), SNIC_ENOENT); /* idle longest */
    assert_int_equal(snic_qos_get_tenant_view(g.io, 78, &t), 0);
    assert_int_equal(snic_qos_get_tenant_view(g.io, 79, &t), 0);
    assert_int_equal(snic_qos_check(g.io), 0);
    assert_int_equal(snic_qos_tenant_add(g.io, 79, NULL), 0); /* stays from now on */
    struct snic_gimbal_tenant_opts bad = {.opts_size = sizeof(bad),
                                          .weight = SNIC_GIMBAL_WEIGHT_MAX + 1};
    assert_int_equal(snic_qos_tenant_add(g.io, 80, &bad), SNIC_EINVAL);
    assert_int_equal(snic_qos_get_tenant_view(g.io, 78, &t), 0); /* nothing changed */
    assert_int_equal(snic_qos_tenant_add(g.io, 80, NULL), 0);    /* 78 makes room at once */
    assert_int_equal(snic_qos_get_tenant_view(g.io, 78, &t), SNIC_ENOENT);
    assert_int_equal(snic_qos_tenant_add(g.io, 81, NULL), SNIC_ENOSPC);
    rig_close(&g);
    free(mem);
}

/* One tenant beyond its limit gets an error; the others do not notice. */
static void test_qos_tenant_depth_busy(void **state)
{
    enum { COUNT = 12, LIMIT = 4 };
    struct rig g;
    struct request r[COUNT], other;
    struct snic_qos_tenant_view v;
    struct snic_qos_opts o = {
        .opts_size = sizeof(o), .flags = SNIC_QOS_AUTO, .depth = 16, .tenant_depth = LIMIT};
    unsigned char *mem = buffer(4096);
    (void)state;
    rig_open(&g, &o);
    for (int i = 0; i < COUNT; i++) {
        request_init(&r[i], g.io, SNIC_IO_READ, 0, mem, 4096);
        r[i].req.tenant = 1;
        assert_int_equal(request_submit(&r[i]), 1);
    }
    request_init(&other, g.io, SNIC_IO_READ, 0, mem, 4096);
    other.req.tenant = 2;
    assert_int_equal(request_run(&other), 4096);
    for (int i = 0; i < COUNT; i++) {
        request_wait(&r[i]);
        assert_int_equal(r[i].req.result, i < LIMIT ? 4096 : SNIC_EBUSY);
        assert_int_equal(r[i].req.credit > 0, i < LIMIT);
    }
    assert_int_equal(snic_qos_get_tenant_view(g.io, 1, &v), 0);
    assert_int_equal(v.busy, COUNT - LIMIT);
    assert_int_equal(v.completed, LIMIT);
    rig_close(&g);
    free(mem);
}

/* A FLUSH is a request as the others: a tenant that sends nothing else is refused beyond its limit,
 * and leaves the others their places. */
static void test_qos_flush_counts_in_tenant_depth(void **state)
{
    enum { COUNT = 32, LIMIT = 8 };
    struct rig g;
    struct request r[COUNT];
    struct snic_qos_tenant_view v;
    struct snic_qos_opts o = {
        .opts_size = sizeof(o), .flags = SNIC_QOS_AUTO, .depth = COUNT, .tenant_depth = LIMIT};
    unsigned char *mem = buffer(4096);
    (void)state;
    rig_open(&g, &o);
    for (int i = 0; i < COUNT - 1; i++) {
        request_init(&r[i], g.io, SNIC_IO_FLUSH, 0, NULL, 0);
        r[i].req.tenant = 1;
        assert_int_equal(request_submit(&r[i]), 1);
    }
    assert_int_equal(run(&g, SNIC_IO_READ, 2, 0, mem, 4096), 4096);
    for (int i = 0; i < COUNT - 1; i++) {
        request_wait(&r[i]);
        assert_int_equal(r[i].req.result, i < LIMIT ? 0 : SNIC_EBUSY);
    }
    assert_int_equal(snic_qos_get_tenant_view(g.io, 1, &v), 0);
    assert_int_equal(v.busy, COUNT - 1 - LIMIT);
    assert_int_equal(v.errors, 0);
    assert_int_equal(v.requests, 0);
    rig_close(&g);
    free(mem);
}

/* Without an option a tenant that is alone may have the whole depth; beside others no tenant takes
 * the last place, however many it asks for. */
static void test_qos_default_depth_leaves_places(void **state)
{
    enum { DEPTH = 24 };
    struct rig g;
    struct request r[DEPTH], others[DEPTH];
    struct snic_qos_opts o = {.opts_size = sizeof(o), .flags = SNIC_QOS_AUTO, .depth = DEPTH};
    unsigned char *mem = buffer(4096);
    (void)state;
    for (uint32_t tenants = 1; tenants <= 3; tenants++) {
        uint32_t taken[4] = {0}, refused = 0;
        rig_open(&g, &o);
        for (uint32_t t = 1; t < tenants; t++) /* known, and idle */
            assert_int_equal(run(&g, SNIC_IO_READ, t, 0, mem, 4096), 4096);
        for (uint32_t i = 0; i < DEPTH; i++) {
            request_init(&r[i], g.io, SNIC_IO_READ, 0, mem, 4096);
            r[i].req.tenant = SNIC_QOS_DEFAULT;
            assert_int_equal(request_submit(&r[i]), 1);
            if (tenants > 1 && i == DEPTH / 2 - 1)
                break; /* what is refused beyond has a place until its done, too */
        }
        uint32_t first = tenants > 1 ? DEPTH / 2 : DEPTH;
        for (uint32_t t = 1, n = 0; t < tenants; t++, n++) {
            request_init(&others[n], g.io, SNIC_IO_READ, 0, mem, 4096);
            others[n].req.tenant = t;
            assert_int_equal(request_submit(&others[n]), 1);
        }
        struct request more;
        if (tenants > 1) {
            request_init(&more, g.io, SNIC_IO_READ, 0, mem, 4096);
            more.req.tenant = SNIC_QOS_DEFAULT;
            assert_int_equal(request_submit(&more), 1);
            request_wait(&more);
            refused += more.req.result == SNIC_EBUSY;
        }
        for (uint32_t i = 0; i < first; i++) {
            request_wait(&r[i]);
            taken[0] += r[i].req.result == 4096;
        }
        for (uint32_t n = 0; n + 1 < tenants; n++) {
            request_wait(&others[n]);
            assert_int_equal(others[n].req.result, 4096);
        }
        assert_int_equal(taken[0], first);
        assert_int_equal(refused, tenants > 1);
        rig_close(&g);
    }
    free(mem);
}

/* The engine's credit counts parts; a client counts its own requests. */
static void test_qos_credit_is_in_requests(void **state)
{
    struct rig g;
    struct request r;
    unsigned char *mem = buffer(2u << 20);
    (void)state;
    rig_open(&g, NULL);
    for (int i = 0; i < 100; i++) { /* fills slots of small ones */
        request_init(&r, g.io, SNIC_IO_READ, 0, mem, 4096);
        assert_int_equal(request_run(&r), 4096);
        assert_true(r.req.credit >= 1);
    }
    uint32_t small = r.req.credit;
    assert_true(small >= 32); /* a slot of 128 KiB holds 32 of them, and there are several */
    for (int i = 0; i < 4; i++) {
        request_init(&r, g.io, SNIC_IO_READ, 0, mem, 2u << 20);
        assert_int_equal(request_run(&r), 2u << 20);
    }
    assert_true(r.req.credit >= 1 && r.req.credit < small / 8);
    for (int i = 0; i < 4; i++) { /* two parts each */
        request_init(&r, g.io, SNIC_IO_READ, 0, mem, 256u << 10);
        assert_int_equal(request_run(&r), 256u << 10);
    }
    struct snic_qos_tenant_view v;
    assert_int_equal(snic_qos_get_tenant_view(g.io, SNIC_QOS_DEFAULT, &v), 0);
    assert_true(v.engine.credit >= 4);
    assert_int_equal(r.req.credit, v.engine.credit / 2);
    request_init(&r, g.io, SNIC_IO_FLUSH, 0, NULL, 0);
    assert_int_equal(request_run(&r), 0);
    assert_int_equal(r.req.credit, 0);
    rig_close(&g);
    free(mem);
}

/* ---- Shares, in simulated time: the same on every machine ---- */

enum { LOAD_MAX = 256 };

/** Requests that are submitted again as soon as they complete. */
struct load {
    struct request r[LOAD_MAX];
    struct rig *rig;
    unsigned char *mem;
    uint64_t bytes;
    uint64_t wait_max;
    uint64_t next;
    uint32_t tenant;
    uint32_t size;
    int stopped;
};

static void load_start(struct load *l, struct request *r);

static void load_done(struct snic_io_req *req)
{
    struct request *r = SNIC_CONTAINER(req, struct request, req);
    struct load *l = r->owner;
    assert_int_equal(req->result, l->size);
    l->bytes += l->size;
    l->wait_max = snic_max_u64(l->wait_max, req->done_ns - req->queued_ns);
    if (!l->stopped)
        load_start(l, r);
}

static void load_start(struct load *l, struct request *r)
{
    struct snic_io_req *one = &r->req;
    request_init(r, l->rig->io, SNIC_IO_READ, l->next % 8 * (1u << 20), l->mem, l->size);
    l->next++;
    r->owner = l;
    r->req.done = load_done;
    r->req.tenant = l->tenant;
    assert_int_equal(snic_io_submit(l->rig->io, &one, 1), 1);
}

static void load_begin(struct load *l, struct rig *g, uint32_t tenant, uint32_t size, uint32_t n)
{
    memset(l, 0, sizeof(*l));
    l->rig = g;
    l->tenant = tenant;
    l->size = size;
    l->mem = buffer(size);
    for (uint32_t i = 0; i < n; i++)
        load_start(l, &l->r[i]);
}

static void load_run(struct rig *g, uint64_t ns)
{
    (void)snic_world_run(g->world, snic_loop_now(g->loop) + ns, UINT64_MAX);
    assert_int_equal(snic_qos_check(g->io), 0);
}

/** A device that gives @p rate bytes/s, shared by the two tenants. */
static void shares_open(struct rig *g, uint64_t rate, uint32_t weight0, uint32_t weight1)
{
    struct snic_gimbal_opts e = {.opts_size = sizeof(e), .rate_start = rate, .rate_max = rate};
    struct snic_qos_opts o = {.opts_size = sizeof(o), .gimbal = &e};
    struct snic_gimbal_tenant_opts t = {.opts_size = sizeof(t)};
    rig_open(g, &o);
    t.weight = weight0;
    assert_int_equal(snic_qos_tenant_add(g->io, 0, &t), 0);
    t.weight = weight1;
    assert_int_equal(snic_qos_tenant_add(g->io, 1, &t), 0);
}

/* What the module is for: bytes by weight, whatever the sizes and the number of requests. */
static void test_qos_backlogged_tenants_share_by_weight(void **state)
{
    static struct load a, b;
    struct rig g;
    (void)state;
    shares_open(&g, 100u << 20, 1, 3);
    load_begin(&a, &g, 0, 1u << 20, 64); /* split into parts */
    load_begin(&b, &g, 1, 4096, 128);
    load_run(&g, 200000000);
    a.bytes = b.bytes = 0;
    load_run(&g, 1000000000);
    double ratio = (double)b.bytes / (double)a.bytes;
    assert_true(ratio > 2.7 && ratio < 3.3);
    a.stopped = b.stopped = 1;
    rig_close(&g);
    free(a.mem);
    free(b.mem);
}

/* A flood of one tenant must not make the other wait as long as a queue would. */
static void test_qos_flood_leaves_quiet_tenant_alone(void **state)
{
    static struct load flood, quiet;
    struct rig g;
    (void)state;
    shares_open(&g, 40u << 20, 1, 1);
    load_begin(&flood, &g, 1, 64u << 10, 250);
    load_run(&g, 500000000);
    load_begin(&quiet, &g, 0, 4096, 1);
    load_run(&g, 500000000);
    /* 250 x 64 KiB at 40 MiB/s are 390 ms of queue */
    assert_true(quiet.wait_max < 20000000);
    assert_true(quiet.bytes > 100 * 4096);
    assert_true(flood.wait_max > 200000000);
    flood.stopped = quiet.stopped = 1;
    rig_close(&g);
    free(flood.mem);
    free(quiet.mem);
}

/* Caps of one tenant: configured through the handle, kept by the engine. */
static void test_qos_capped_tenant_stays_below_cap(void **state)
{
    static struct load a;
    struct rig g;
    struct snic_gimbal_tenant_opts t = {.opts_size = sizeof(t), .bytes_per_second = 8u << 20};
    (void)state;
    shares_open(&g, 100u << 20, 1, 1);
    assert_int_equal(snic_qos_tenant_set(g.io, 0, &t), 0);
    load_begin(&a, &g, 0, 16384, 32);
    load_run(&g, 1000000000);
    a.bytes = 0;
    load_run(&g, 1000000000);
    assert_in_range(a.bytes, (8u << 20) * 97 / 100, (8u << 20) * 103 / 100);
    a.stopped = 1;
    /* Without the cap it continues at once, not at the time that the cap had named. */
    t.bytes_per_second = 0;
    t.ios_per_second = 1;
    assert_int_equal(snic_qos_tenant_set(g.io, 0, &t), 0);
    let_pass(&g, 3000000);
    t.ios_per_second = 0;
    assert_int_equal(snic_qos_tenant_set(g.io, 0, &t), 0);
    let_pass(&g, 100000000);
    struct snic_qos_view v;
    snic_qos_get_view(g.io, &v);
    assert_int_equal(v.requests, 0);
    rig_close(&g);
    free(a.mem);
}

/* Closing waits for what is inside, but not at a byte a second: caps end with it. */
static void test_qos_close_does_not_wait_for_caps(void **state)
{
    enum { COUNT = 48 };
    struct snic_gimbal_tenant_opts t = {.opts_size = sizeof(t), .bytes_per_second = 1};
    unsigned char *mem = calloc(1, 512u << 10);
    struct request r[COUNT];
    struct rig g;
    (void)state;
    shares_open(&g, 100u << 20, 2, 1);
    for (uint32_t i = 0; i < 2; i++)
        assert_int_equal(snic_qos_tenant_set(g.io, i, &t), 0);
    assert_int_equal(snic_qos_tenant_set(g.io, SNIC_QOS_DEFAULT, &t), 0);
    for (uint32_t i = 0; i < COUNT; i++) {
        request_init(&r[i], g.io, SNIC_IO_READ, 0, mem, i % 2 != 0 ? 4096 : 512u << 10);
        r[i].req.tenant = i % 3;
        assert_int_equal(request_submit(&r[i]), 1);
    }
    assert_int_equal(snic_qos_tenant_remove(g.io, 1), 0); /* with large requests half sent */
    let_pass(&g, 5000000);
    struct snic_qos_view v;
    snic_qos_get_view(g.io, &v);
    assert_true(v.requests > COUNT / 2);
    uint64_t before = snic_loop_now(g.loop);
    assert_int_equal(snic_qos_check(g.io), 0);
    snic_io_close(g.io);
    assert_true(snic_loop_now(g.loop) - before < UINT64_C(10000000000));
    for (uint32_t i = 0; i < COUNT; i++)
        assert_int_equal(r[i].req.result, (int64_t)r[i].req.length);
    snic_loop_close(g.loop);
    snic_world_close(g.world);
    snic_disk_close(g.disk);
    free(mem);
}

int main(int argc, char **argv)
{
    static const struct CMUnitTest own[] = {
        cmocka_unit_test(test_qos_inner_full_waits_without_polling),
        cmocka_unit_test(test_qos_bad_options_refused_inner_stays),
        cmocka_unit_test(test_qos_memory_short_or_unaligned_refused),
        cmocka_unit_test(test_qos_tenants_added_set_removed),
        cmocka_unit_test(test_qos_unknown_ids_default_or_automatic),
        cmocka_unit_test(test_qos_tenant_depth_busy),
        cmocka_unit_test(test_qos_flush_counts_in_tenant_depth),
        cmocka_unit_test(test_qos_default_depth_leaves_places),
        cmocka_unit_test(test_qos_credit_is_in_requests),
        cmocka_unit_test(test_qos_backlogged_tenants_share_by_weight),
        cmocka_unit_test(test_qos_flood_leaves_quiet_tenant_alone),
        cmocka_unit_test(test_qos_capped_tenant_stays_below_cap),
        cmocka_unit_test(test_qos_close_does_not_wait_for_caps),
    };
    struct CMUnitTest tests[128];
    size_t n = SNIC_COUNTOF(own);
    memcpy(tests, own, sizeof(own));
    n += conformance_io_tests(tests + n, SNIC_COUNTOF(tests) - n, backends, SNIC_COUNTOF(backends));
    int r = support_main(argc, argv, tests, n);
    qx_free();
    return r;
}
