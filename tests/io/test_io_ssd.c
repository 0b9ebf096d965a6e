/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * A disk behind the SSD model: the conformance suite in a world, then that the times are the
 * model's, tenants are its queues, and the disk's faults and power cuts still apply.
 */
#include "conformance_io.h"

#include "snicstore/ssd.h"

#include <string.h>

enum { BLOCK = 4096, MANY = 64 };

struct rig {
    struct snic_world *world;
    struct snic_loop *loop;
    struct snic_disk *disk;
    struct snic_io *io;
};

struct call {
    struct snic_io_req req;
    unsigned char mem[BLOCK];
    int done;
    uint32_t order;
};

static uint32_t calls_done;

static void call_done(struct snic_io_req *req)
{
    struct call *c = SNIC_CONTAINER(req, struct call, req);
    c->done++;
    c->order = calls_done++;
}

static struct snic_ssd_opts device(uint32_t queues)
{
    struct snic_ssd_opts o;
    snic_ssd_opts_dct983(&o);
    o.queues = queues;
    o.jitter = 0;
    return o;
}

static struct rig rig_open(const struct snic_ssd_opts *o)
{
    struct rig g = {0};
    struct snic_world_opts w = {.opts_size = sizeof(w), .seed = 5};
    struct snic_disk_opts d = {.opts_size = sizeof(d), .size = 1 << 22, .seed = 9};
    d.delay_min_ns = 7; /* not used */
    d.delay_max_ns = 9000000;
    assert_int_equal(snic_world_open(&g.world, &w), 0);
    assert_int_equal(snic_world_loop(g.world, 0, &g.loop), 0);
    assert_int_equal(snic_disk_open(&g.disk, &d), 0);
    assert_int_equal(snic_io_ssd_open(&g.io, g.loop, g.disk, o), 0);
    calls_done = 0;
    return g;
}

static void rig_close(struct rig *g)
{
    snic_io_close(g->io);
    snic_loop_close(g->loop);
    snic_disk_close(g->disk);
    snic_world_close(g->world);
}

static void start(struct rig *g, struct call *c, enum snic_io_op op, uint64_t offset,
                  uint32_t tenant)
{
    struct snic_io_req *one = &c->req;
    snic_io_req_init(&c->req);
    c->done = 0;
    c->req.done = call_done;
    c->req.op = (uint8_t)op;
    c->req.tenant = tenant;
    c->req.offset = offset;
    c->req.length = op == SNIC_IO_FLUSH ? 0 : BLOCK;
    c->req.buf.base = c->mem;
    c->req.buf.size = BLOCK;
    assert_int_equal(snic_io_submit(g->io, &one, 1), 1);
    assert_int_equal(c->done, 0);
}

static int64_t finish(struct rig *g, struct call *c)
{
    while (c->done == 0)
        assert_true(snic_loop_once(g->loop, SNIC_NEVER) >= 0);
    assert_int_equal(c->done, 1);
    return c->req.result;
}

static uint64_t took(const struct call *c)
{
    return c->req.done_ns - c->req.queued_ns;
}

/* ---- Open ---- */

/* Options of the model are checked as the model checks them; nothing leaks. */
static void test_io_ssd_bad_options_open_refused(void **state)
{
    (void)state;
    struct snic_ssd_opts good = device(4), o;
    struct rig g = rig_open(&good);
    struct snic_io *io = NULL;
    o = good;
    o.dies = 0;
    assert_int_equal(snic_io_ssd_open(&io, g.loop, g.disk, &o), SNIC_EINVAL);
    o = good;
    o.opts_size = 2;
    assert_int_equal(snic_io_ssd_open(&io, g.loop, g.disk, &o), SNIC_EINVAL);
    assert_null(io);
    o = good;
    o.depth = 1; /* the disk's counts */
    o.length_max = 10000;
    assert_int_equal(snic_io_ssd_open(&io, g.loop, g.disk, &o), 0);
    assert_int_equal(io->depth_max, 1024);
    assert_int_equal(io->geometry.transfer_max, 10000);
    snic_io_close(io);
    rig_close(&g);
    struct snic_disk_opts d = {.opts_size = sizeof(d), .size = 1 << 20, .align = 4096};
    struct snic_disk *aligned = NULL;
    g = rig_open(&good);
    assert_int_equal(snic_disk_open(&aligned, &d), 0);
    assert_int_equal(snic_io_ssd_open(&io, g.loop, aligned, &o), 0);
    assert_int_equal(io->geometry.transfer_max, 8192);
    snic_io_close(io);
    o.length_max = 4095;
    assert_int_equal(snic_io_ssd_open(&io, g.loop, aligned, &o), SNIC_EINVAL);
    snic_disk_close(aligned);
    rig_close(&g);
}

/* As many requests as the disk allows, whatever the model's options. */
static void test_io_ssd_small_model_depth_does_not_count(void **state)
{
    (void)state;
    struct snic_ssd_opts o = device(1);
    o.depth = 1;
    struct rig g = rig_open(&o);
    static struct call c[MANY];
    for (uint32_t i = 0; i < MANY; i++)
        start(&g, &c[i], SNIC_IO_READ, 0, i);
    for (uint32_t i = 0; i < MANY; i++)
        assert_int_equal(finish(&g, &c[i]), BLOCK);
    rig_close(&g);
}

/* ---- Times ---- */

/* The model's own times, hand-computed in test_ssd: 84.28 us for a read, 70.08 us for a write. */
static void test_io_ssd_request_takes_the_models_time(void **state)
{
    (void)state;
    struct snic_ssd_opts o = device(1);
    struct rig g = rig_open(&o);
    static struct call c;
    memset(c.mem, 7, BLOCK);
    start(&g, &c, SNIC_IO_WRITE, 8192, 0);
    assert_int_equal(finish(&g, &c), BLOCK);
    assert_int_equal(took(&c), 3800 + 1280 + 65000);
    memset(c.mem, 0, BLOCK);
    start(&g, &c, SNIC_IO_READ, 8192, 0);
    assert_int_equal(finish(&g, &c), BLOCK);
    assert_int_equal(took(&c), 2000 + 78000 + 1280 + 3000);
    assert_int_equal(c.mem[0] + c.mem[BLOCK - 1], 14);
    static const enum snic_io_op others[] = {SNIC_IO_FLUSH, SNIC_IO_ZERO, SNIC_IO_DISCARD};
    for (uint32_t i = 0; i < 3; i++) {
        start(&g, &c, others[i], 0, 0);
        assert_int_equal(finish(&g, &c), i == 0 ? 0 : BLOCK);
        assert_int_equal(took(&c), 3800 + 65000);
    }
    rig_close(&g);
}

/* A crowd through the door ends when the same crowd on the bare model does, in its order. */
static void test_io_ssd_many_requests_equal_the_bare_model(void **state)
{
    (void)state;
    static struct call c[MANY];
    static struct snic_ssd_cmd cmd[MANY];
    struct snic_ssd_opts o = device(4);
    struct snic_rng r;
    struct snic_ssd *d = NULL;
    o.jitter = 82;
    o.condition = SNIC_SSD_FRAGMENTED;
    struct rig g = rig_open(&o);
    o.depth = 1024;
    size_t size = snic_ssd_memsize(&o);
    void *mem = support_guard_alloc(size, SNIC_SSD_ALIGN);
    assert_int_equal(snic_ssd_init(&d, mem, size, &o), 0);
    uint64_t now = snic_loop_now(g.loop);
    snic_rng_init(&r, support_seed());
    for (uint32_t i = 0; i < MANY; i++) {
        int write = snic_rng_below(&r, 3) == 0;
        uint64_t offset = snic_rng_below(&r, 1000) * BLOCK;
        uint32_t tenant = (uint32_t)snic_rng_below(&r, 100);
        start(&g, &c[i], write ? SNIC_IO_WRITE : SNIC_IO_READ, offset, tenant);
        cmd[i] = (struct snic_ssd_cmd){.op = write ? SNIC_SSD_WRITE : SNIC_SSD_READ,
                                       .queue = tenant % 4,
                                       .length = BLOCK,
                                       .offset = offset};
        assert_int_equal(snic_ssd_submit(d, &cmd[i], now), 0);
    }
    for (uint32_t i = 0; i < MANY; i++)
        assert_int_equal(finish(&g, &c[i]), BLOCK);
    for (uint32_t i = 0; i < MANY;) {
        struct snic_ssd_cmd *m = snic_ssd_poll(d, snic_ssd_deadline_ns(d));
        if (m == NULL)
            continue;
        assert_int_equal(c[m - cmd].order, i++);
        assert_int_equal(c[m - cmd].req.done_ns, m->done_ns);
    }
    assert_ptr_equal(snic_ssd_fini(d), mem);
    support_guard_free(mem);
    rig_close(&g);
}

/* Tenants are queues: one with a crowd of requests holds another's first up by one fetch. */
static void test_io_ssd_tenant_picks_the_queue(void **state)
{
    (void)state;
    static struct call c[MANY];
    struct snic_ssd_opts o = device(2);
    struct rig g = rig_open(&o);
    for (uint32_t i = 0; i < 8; i++)
        start(&g, &c[i], SNIC_IO_WRITE, 0, 4);
    start(&g, &c[8], SNIC_IO_WRITE, 0, 6); /* the same queue */
    start(&g, &c[9], SNIC_IO_WRITE, 0, 7); /* the other */
    for (uint32_t i = 0; i < 10; i++)
        assert_int_equal(finish(&g, &c[i]), BLOCK);
    assert_int_equal(c[8].order, 9);
    assert_int_equal(c[9].order, 2); /* one in the fetcher, one next in turn */
    rig_close(&g);
}

/* Time of a read of 32 KiB. */
static uint64_t read_32k(struct rig *g, struct call *c)
{
    static unsigned char mem[8 * BLOCK];
    struct snic_io_req *one = &c->req;
    snic_io_req_init(&c->req);
    c->done = 0;
    c->req.done = call_done;
    c->req.op = SNIC_IO_READ;
    c->req.length = sizeof(mem);
    c->req.buf.base = mem;
    c->req.buf.size = sizeof(mem);
    assert_int_equal(snic_io_submit(g->io, &one, 1), 1);
    assert_int_equal(finish(g, c), sizeof(mem));
    return took(c);
}

/* The map gets what is written and trimmed: pages written backwards lie scattered, a range
 * that holds nothing is read as one piece. */
static void test_io_ssd_writes_and_discards_reach_the_map(void **state)
{
    (void)state;
    static struct call c;
    struct snic_ssd_opts o = device(1);
    o.condition = SNIC_SSD_AGEING;
    static const enum snic_io_op ops[] = {SNIC_IO_DISCARD, SNIC_IO_ZERO};
    for (size_t k = 0; k < SNIC_COUNTOF(ops); k++) {
        struct rig g = rig_open(&o);
        uint64_t empty = read_32k(&g, &c);
        for (uint32_t i = 8; i-- > 0;) {
            start(&g, &c, SNIC_IO_WRITE, (uint64_t)i * BLOCK, 0);
            assert_int_equal(finish(&g, &c), BLOCK);
        }
        assert_int_not_equal(read_32k(&g, &c), empty);
        for (uint32_t i = 0; i < 8; i++) {
            start(&g, &c, ops[k], (uint64_t)i * BLOCK, 0);
            assert_true(finish(&g, &c) >= 0);
        }
        assert_int_equal(read_32k(&g, &c), empty);
        rig_close(&g);
    }
}

/* ---- Faults ---- */

/* The fault plan of the disk applies, and a delay comes on top of the model's time. */
static void test_io_ssd_faults_of_the_disk_apply(void **state)
{
    (void)state;
    struct snic_ssd_opts o = device(1);
    struct rig g = rig_open(&o);
    static struct call c;
    struct snic_fault error = {.kind = SNIC_FAULT_ERROR, .after = 1, .error = SNIC_EIO};
    struct snic_fault delay = {.kind = SNIC_FAULT_DELAY, .after = 2, .delay_ns = 1000000};
    struct snic_fault cut = {.kind = SNIC_FAULT_SHORT, .after = 3, .bytes = 100};
    assert_int_equal(snic_disk_fault(g.disk, &error), 0);
    assert_int_equal(snic_disk_fault(g.disk, &delay), 0);
    assert_int_equal(snic_disk_fault(g.disk, &cut), 0);
    start(&g, &c, SNIC_IO_READ, 0, 0);
    assert_int_equal(finish(&g, &c), SNIC_EIO);
    assert_int_equal(took(&c), 84280);
    start(&g, &c, SNIC_IO_READ, 0, 0);
    assert_int_equal(finish(&g, &c), BLOCK);
    assert_int_equal(took(&c), 1084280);
    start(&g, &c, SNIC_IO_READ, 0, 0);
    assert_int_equal(finish(&g, &c), 100);
    rig_close(&g);
}

/* What the device acknowledged is still the disk's to lose; what is in flight ends, once. */
static void test_io_ssd_power_cut_ends_everything(void **state)
{
    (void)state;
    struct snic_ssd_opts o = device(1);
    struct rig g = rig_open(&o);
    static struct call c[4];
    memset(c[0].mem, 1, BLOCK);
    start(&g, &c[0], SNIC_IO_WRITE, 0, 0);
    assert_int_equal(finish(&g, &c[0]), BLOCK);
    start(&g, &c[0], SNIC_IO_FLUSH, 0, 0);
    assert_int_equal(finish(&g, &c[0]), 0);
    start(&g, &c[0], SNIC_IO_WRITE, BLOCK, 0);
    assert_int_equal(finish(&g, &c[0]), BLOCK);
    memset(c[1].mem, 2, BLOCK);
    start(&g, &c[1], SNIC_IO_WRITE, 2 * BLOCK, 0);
    start(&g, &c[2], SNIC_IO_READ, 0, 0);
    snic_disk_power_cut(g.disk, SNIC_FAULT_KEEP_NONE);
    assert_int_equal(finish(&g, &c[1]), SNIC_EIO);
    assert_int_equal(finish(&g, &c[2]), SNIC_EIO);
    struct snic_io_req *one = &c[3].req;
    assert_int_equal(snic_io_submit(g.io, &one, 1), SNIC_EIO);
    const unsigned char *bytes = snic_disk_bytes(g.disk);
    assert_int_equal(bytes[0], 1);
    assert_int_equal(bytes[BLOCK], 0);
    assert_int_equal(bytes[2 * BLOCK], 0);
    snic_io_close(g.io);
    assert_int_equal(snic_io_ssd_open(&g.io, g.loop, g.disk, &o), 0);
    memset(c[1].mem, 3, BLOCK); /* in flight, kept: each sector reaches the medium */
    start(&g, &c[1], SNIC_IO_WRITE, 2 * BLOCK, 0);
    snic_disk_power_cut(g.disk, SNIC_FAULT_KEEP_ALL);
    assert_int_equal(finish(&g, &c[1]), SNIC_EIO);
    assert_int_equal(bytes[2 * BLOCK], 3);
    rig_close(&g);
}

/* A cancelled request takes no effect and ends when the model is through with it. */
static void test_io_ssd_cancel_completes_once_without_effect(void **state)
{
    (void)state;
    struct snic_ssd_opts o = device(1);
    struct rig g = rig_open(&o);
    static struct call c;
    memset(c.mem, 4, BLOCK);
    start(&g, &c, SNIC_IO_WRITE, 0, 0);
    snic_io_cancel(g.io, &c.req);
    assert_int_equal(finish(&g, &c), SNIC_ECANCELED);
    assert_int_equal(snic_disk_bytes(g.disk)[0], 0);
    start(&g, &c, SNIC_IO_WRITE, 0, 0); /* the slot is whole again */
    snic_io_close(g.io);
    assert_int_equal(c.done, 1);
    assert_int_equal(c.req.result, BLOCK);
    assert_int_equal(snic_io_ssd_open(&g.io, g.loop, g.disk, &o), 0);
    rig_close(&g);
}

/* ---- Conformance ---- */

static void open_ssd(struct conformance_io *c, const struct conformance_io_backend *b,
                     uint32_t depth)
{
    struct snic_world_opts w = {.opts_size = sizeof(w), .seed = support_seed()};
    struct snic_disk_opts d = {.opts_size = sizeof(d),
                               .size = CONFORMANCE_IO_BYTES,
                               .depth = depth,
                               .align = b->align,
                               .caps = b->caps};
    struct snic_ssd_opts o;
    snic_ssd_opts_dct983(&o);
    o.seed = support_seed();
    o.condition = b->flags;
    o.length_max = 2u << 20; /* the suite reads the whole device at once */
    o.buffer_bytes = 4u << 20;
    if (b->delay_ns > 0)
        o.dies = 1;
    assert_int_equal(snic_world_open(&c->world, &w), 0);
    assert_int_equal(snic_world_loop(c->world, 1, &c->loop), 0);
    assert_int_equal(snic_disk_open(&c->disk, &d), 0);
    assert_int_equal(snic_io_ssd_open(&c->io, c->loop, c->disk, &o), 0);
}

static const struct conformance_io_backend backends[] = {
    {.name = "ssd_clean", .open = open_ssd, .flags = SNIC_SSD_CLEAN},
    {.name = "ssd_fragmented", .open = open_ssd, .flags = SNIC_SSD_FRAGMENTED},
    {.name = "ssd_one_die", .open = open_ssd, .flags = SNIC_SSD_FRAGMENTED, .delay_ns = 1},
    {.name = "ssd_aligned",
     .open = open_ssd,
     .align = 4096,
     .caps = SNIC_IO_CAP_REGISTERED | SNIC_IO_CAP_DIRECT | SNIC_IO_CAP_FUA},
};

int main(int argc, char **argv)
{
    const struct CMUnitTest own[] = {
        cmocka_unit_test(test_io_ssd_bad_options_open_refused),
        cmocka_unit_test(test_io_ssd_small_model_depth_does_not_count),
        cmocka_unit_test(test_io_ssd_request_takes_the_models_time),
        cmocka_unit_test(test_io_ssd_many_requests_equal_the_bare_model),
        cmocka_unit_test(test_io_ssd_tenant_picks_the_queue),
        cmocka_unit_test(test_io_ssd_writes_and_discards_reach_the_map),
        cmocka_unit_test(test_io_ssd_faults_of_the_disk_apply),
        cmocka_unit_test(test_io_ssd_power_cut_ends_everything),
        cmocka_unit_test(test_io_ssd_cancel_completes_once_without_effect),
    };
    static struct CMUnitTest tests[SNIC_COUNTOF(own) + 200];
    size_t n = SNIC_COUNTOF(own);
    memcpy(tests, own, sizeof(own));
    n += conformance_io_tests(tests + n, SNIC_COUNTOF(tests) - n, backends, SNIC_COUNTOF(backends));
    return support_main(argc, argv, tests, n);
}
