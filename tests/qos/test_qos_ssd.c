/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * The switch in front of the SSD model: the door's conformance, and what the module is for, in
 * simulated time and so the same on every machine: a flood of one tenant beside a quiet one.
 */
#include "conformance_io_util.h"

#include "test_qos_util.h"

static void open_device(struct conformance_io *c, uint64_t size, uint32_t depth, uint32_t condition)
{
    struct snic_world_opts w = {.opts_size = sizeof(w), .seed = support_seed()};
    struct snic_disk_opts d = {.opts_size = sizeof(d), .size = size, .depth = depth};
    struct snic_ssd_opts o;
    snic_ssd_opts_dct983(&o);
    o.seed = support_seed();
    o.condition = condition;
    o.queues = 1;            /* as a file has: nothing but the switch distinguishes tenants */
    o.length_max = 2u << 20; /* the suite reads the whole device at once */
    o.buffer_bytes = 4u << 20;
    memset(c, 0, sizeof(*c));
    assert_int_equal(snic_world_open(&c->world, &w), 0);
    assert_int_equal(snic_world_loop(c->world, 1, &c->loop), 0);
    assert_int_equal(snic_disk_open(&c->disk, &d), 0);
    assert_int_equal(snic_io_ssd_open(&c->io, c->loop, c->disk, &o), 0);
}

static void open_ssd(struct conformance_io *c, const struct conformance_io_backend *b,
                     uint32_t depth)
{
    struct snic_qos_opts o = {.opts_size = sizeof(o), .depth = depth};
    open_device(c, CONFORMANCE_IO_BYTES, depth, b->flags);
    assert_int_equal(qx_open(&c->io, c->io, &o), 0);
}

static const struct conformance_io_backend backends[] = {
    {.name = "qos_ssd_clean", .open = open_ssd, .flags = SNIC_SSD_CLEAN},
    {.name = "qos_ssd_fragmented", .open = open_ssd, .flags = SNIC_SSD_FRAGMENTED},
};

/* ---- A flood beside a quiet tenant ---- */

enum { DISK_BYTES = 64 << 20, FLOOD = 256 };

/** Requests that are submitted again as soon as they complete. */
struct load {
    struct request r[FLOOD];
    struct conformance_io *c;
    struct snic_rng rng;
    struct snic_hist latency;
    unsigned char *mem;
    uint32_t tenant;
    uint32_t size;
    enum snic_io_op op;
    int stopped;
};

static void load_start(struct load *l, struct request *r);

static void load_done(struct snic_io_req *req)
{
    struct request *r = SNIC_CONTAINER(req, struct request, req);
    struct load *l = r->owner;
    assert_int_equal(req->result, l->size);
    snic_hist_record(&l->latency, req->done_ns - req->queued_ns);
    if (!l->stopped)
        load_start(l, r);
}

static void load_start(struct load *l, struct request *r)
{
    struct snic_io_req *one = &r->req;
    uint64_t at = snic_rng_below(&l->rng, DISK_BYTES / l->size) * l->size;
    request_init(r, l->c->io, l->op, at, l->mem, l->size);
    r->owner = l;
    r->req.done = load_done;
    r->req.tenant = l->tenant;
    assert_int_equal(snic_io_submit(l->c->io, &one, 1), 1);
}

static void load_begin(struct load *l, struct conformance_io *c, uint32_t tenant,
                       enum snic_io_op op, uint32_t size, uint32_t n)
{
    memset(l, 0, sizeof(*l));
    l->c = c;
    l->tenant = tenant;
    l->op = op;
    l->size = size;
    l->mem = buffer(size);
    snic_rng_init(&l->rng, support_seed() + tenant);
    for (uint32_t i = 0; i < n; i++)
        load_start(l, &l->r[i]);
}

static void run_for(struct conformance_io *c, uint64_t ns)
{
    (void)snic_world_run(c->world, snic_loop_now(c->loop) + ns, UINT64_MAX);
}

/** The quiet tenant's p99 in ns beside a flood of @p op, with a switch or without. */
static uint64_t quiet_p99(int with_switch, enum snic_io_op op, uint32_t size, uint64_t *flooded)
{
    static struct load flood, quiet;
    struct conformance_io c;
    open_device(&c, DISK_BYTES, 1024, SNIC_SSD_FRAGMENTED);
    if (with_switch) {
        struct snic_qos_opts o = {.opts_size = sizeof(o), .flags = SNIC_QOS_AUTO};
        assert_int_equal(qx_open(&c.io, c.io, &o), 0);
    }
    load_begin(&flood, &c, 1, op, size, FLOOD);
    run_for(&c, 500000000); /* the rate finds its place */
    load_begin(&quiet, &c, 0, SNIC_IO_READ, 4096, 1);
    snic_hist_reset(&flood.latency);
    run_for(&c, 500000000);
    if (with_switch)
        assert_int_equal(snic_qos_check(c.io), 0);
    flood.stopped = quiet.stopped = 1;
    *flooded = flood.latency.count;
    uint64_t p99 = snic_hist_quantile(&quiet.latency, 990000);
    conformance_io_close(&c);
    free(flood.mem);
    free(quiet.mem);
    return p99;
}

/* A flood of large reads: behind it in the device's queue a small one waits ten times as long. */
static void test_qos_ssd_flood_of_reads_quiet_reader_served(void **state)
{
    uint64_t with_bytes, without_bytes;
    (void)state;
    uint64_t without = quiet_p99(0, SNIC_IO_READ, 128u << 10, &without_bytes);
    uint64_t with = quiet_p99(1, SNIC_IO_READ, 128u << 10, &with_bytes);
    assert_true(with * 3 < without);
    assert_true(with_bytes * 10 > without_bytes * 7); /* and the flood keeps most of its rate */
}

/*
 * With writes, which a fragmented device can take only few of: the model lets reads pass those that
 * wait for its buffer, so there is little to win, and nothing may be lost.
 */
static void test_qos_ssd_flood_of_writes_quiet_reader_served(void **state)
{
    uint64_t with_bytes, without_bytes;
    (void)state;
    uint64_t without = quiet_p99(0, SNIC_IO_WRITE, 128u << 10, &without_bytes);
    uint64_t with = quiet_p99(1, SNIC_IO_WRITE, 128u << 10, &with_bytes);
    assert_true(without < 3000000 && with < 3000000);
    assert_true(with_bytes * 10 > without_bytes * 9);
}

/* What one handle has learned the next begins with, and checks. */
static void test_qos_ssd_learns_the_device_next_handle_begins_with_it(void **state)
{
    static struct load flood;
    struct snic_gimbal_opts g = {.opts_size = sizeof(g), .flags = SNIC_GIMBAL_LEARN};
    struct snic_qos_opts o = {.opts_size = sizeof(o), .flags = SNIC_QOS_AUTO, .gimbal = &g};
    struct snic_gimbal_profile kept = {0};
    (void)state;
    for (unsigned k = 0; k < 2; k++) {
        struct snic_gimbal_learned l;
        struct conformance_io c;
        open_device(&c, DISK_BYTES, 1024, SNIC_SSD_CLEAN);
        assert_int_equal(qx_open(&c.io, c.io, &o), 0);
        assert_int_equal(snic_qos_profile_set(c.io, &kept), k == 0 ? SNIC_EINVAL : 0);
        snic_qos_get_learned(c.io, &l);
        assert_int_equal(l.stored, k);
        assert_int_equal(l.profile.read_ns, kept.read_ns);
        load_begin(&flood, &c, 1, SNIC_IO_READ, 128u << 10, FLOOD);
        run_for(&c, 800000000);
        assert_int_equal(snic_qos_check(c.io), 0);
        snic_qos_get_learned(c.io, &l);
        assert_in_range(l.profile.read_ns, 190000, 220000);
        assert_in_range(l.profile.read_rate[1], 3000000000, 3300000000);
        assert_in_range(l.thresh_min_ns, 235000, 275000);
        assert_true(l.batches >= 1 && l.stored == 0);
        kept = l.profile;
        flood.stopped = 1;
        conformance_io_close(&c);
        free(flood.mem);
    }
}

int main(int argc, char **argv)
{
    static const struct CMUnitTest own[] = {
        cmocka_unit_test(test_qos_ssd_flood_of_reads_quiet_reader_served),
        cmocka_unit_test(test_qos_ssd_flood_of_writes_quiet_reader_served),
        cmocka_unit_test(test_qos_ssd_learns_the_device_next_handle_begins_with_it),
    };
    struct CMUnitTest tests[64];
    size_t n = SNIC_COUNTOF(own);
    memcpy(tests, own, sizeof(own));
    n += conformance_io_tests(tests + n, SNIC_COUNTOF(tests) - n, backends, SNIC_COUNTOF(backends));
    int r = support_main(argc, argv, tests, n);
    qx_free();
    return r;
}
