/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * The switch's contract: options and memory, every error with nothing changed, I/Os in and out,
 * tenants that come and go, priorities, credits, the deadline.
 */
#include "test_gimbal_util.h"

static void test_gimbal_opts_out_of_range_refused(void **state)
{
    (void)state;
    static const struct {
        struct snic_gimbal_opts o;
        const char *wrong;
    } bad[] = {
        {{.flags = 1u << 7}, "flags"},
        {{.tenants_max = SNIC_GIMBAL_TENANTS_MAX + 1}, "tenants_max"},
        {{.queue_max = SNIC_GIMBAL_QUEUE_MAX + 1}, "queue_max"},
        {{.size_max = SNIC_GIMBAL_SIZE_MAX + 1}, "size_max"},
        {{.slot_bytes = 511}, "slot_bytes"},
        {{.slot_bytes = SNIC_GIMBAL_SLOT_MAX + 1}, "slot_bytes"},
        {{.slot_threshold = 65}, "slot_threshold"},
        {{.quantum_bytes = 511}, "quantum_bytes"},
        {{.quantum_bytes = SNIC_GIMBAL_SLOT_MAX + 1}, "quantum_bytes"},
        {{.thresh_min_ns = 1500000}, "thresh_min_ns"},
        {{.thresh_max_ns = 250000}, "thresh_min_ns"},
        {{.thresh_max_ns = 1}, "thresh_max_ns"},
        {{.thresh_max_ns = SNIC_GIMBAL_NS_MAX + 1}, "thresh_max_ns"},
        {{.alpha_d_shift = 9}, "alpha_d_shift"},
        {{.alpha_t_shift = 9}, "alpha_t_shift"},
        {{.beta = 1025}, "beta"},
        {{.write_cost_worst = SNIC_GIMBAL_COST_ONE - 1}, "write_cost_worst"},
        {{.write_cost_worst = SNIC_GIMBAL_COST_MAX + 1}, "write_cost_worst"},
        {{.write_cost_delta = SNIC_GIMBAL_COST_MAX + 1}, "write_cost_delta"},
        {{.bucket_bytes = 511}, "bucket_bytes"},
        {{.bucket_bytes = SNIC_GIMBAL_SIZE_MAX + 1}, "bucket_bytes"},
        {{.rate_start = 3999999}, "rate_start"},
        {{.rate_start = UINT64_C(8000000001)}, "rate_start"},
        {{.rate_min = 50000001}, "rate_start"},
        {{.rate_max = SNIC_GIMBAL_RATE_MAX + 1}, "rate_max"},
        {{.cost_period_ns = SNIC_GIMBAL_NS_MAX + 1}, "cost_period_ns"},
        {{.rate_window_ns = SNIC_GIMBAL_NS_MAX + 1}, "rate_window_ns"},
        {{.lost_ns = SNIC_GIMBAL_NS_MAX + 1}, "lost_ns"},
        {{.idle_ns = SNIC_GIMBAL_NS_MAX + 1}, "idle_ns"},
        {{.slot_overlap = 16 * SNIC_GIMBAL_OVERLAP_ONE + 1}, "slot_overlap"},
        {{.groups_max = SNIC_GIMBAL_GROUPS_MAX + 1}, "groups_max"},
    };
    static _Alignas(SNIC_GIMBAL_ALIGN) unsigned char mem[SNIC_GIMBAL_ALIGN];
    for (size_t i = 0; i < SNIC_COUNTOF(bad); i++) {
        struct snic_gimbal_opts o = bad[i].o;
        struct snic_gimbal *g = (void *)mem;
        o.opts_size = sizeof(o);
        support_names(snic_gimbal_opts_wrong(&o), bad[i].wrong);
        assert_int_equal(snic_gimbal_memsize(&o), 0);
        assert_int_equal(snic_gimbal_init(&g, mem, sizeof(mem), &o, 0), SNIC_EINVAL);
        assert_ptr_equal(g, mem);
    }
    struct snic_gimbal_opts short_of = {.opts_size = 3};
    assert_int_equal(snic_gimbal_memsize(&short_of), 0);
    support_names(snic_gimbal_opts_wrong(&short_of), "opts_size");
    short_of.opts_size = sizeof(short_of);
    assert_null(snic_gimbal_opts_wrong(&short_of));
    struct snic_gimbal_tenant_opts t = {.opts_size = sizeof(t)};
    assert_null(snic_gimbal_tenant_opts_wrong(NULL));
    assert_null(snic_gimbal_tenant_opts_wrong(&t));
    t.ios_per_second = ((uint64_t)1 << 40) + 1;
    support_names(snic_gimbal_tenant_opts_wrong(&t), "ios_per_second");
    t.bytes_per_second = ((uint64_t)1 << 40) + 1;
    support_names(snic_gimbal_tenant_opts_wrong(&t), "bytes_per_second");
    t.weight = SNIC_GIMBAL_WEIGHT_MAX + 1;
    support_names(snic_gimbal_tenant_opts_wrong(&t), "weight");
    t.opts_size = 3;
    support_names(snic_gimbal_tenant_opts_wrong(&t), "opts_size");
}

/* Each limit itself is accepted, all of them together, and all defaults. */
static void test_gimbal_opts_at_limits_accepted(void **state)
{
    (void)state;
    struct snic_gimbal_opts o = {.tenants_max = 3,
                                 .queue_max = SNIC_GIMBAL_QUEUE_MAX,
                                 .size_max = SNIC_GIMBAL_SIZE_MAX,
                                 .slot_bytes = SNIC_GIMBAL_SLOT_MAX,
                                 .slot_threshold = 64,
                                 .quantum_bytes = SNIC_GIMBAL_SLOT_MAX,
                                 .write_cost_worst = SNIC_GIMBAL_COST_MAX,
                                 .bucket_bytes = SNIC_GIMBAL_SIZE_MAX,
                                 .cost_period_ns = SNIC_GIMBAL_NS_MAX,
                                 .rate_window_ns = SNIC_GIMBAL_NS_MAX,
                                 .rate_max = SNIC_GIMBAL_RATE_MAX,
                                 .slot_overlap = 16 * SNIC_GIMBAL_OVERLAP_ONE};
    struct gx x;
    struct snic_gimbal_io io[4];
    struct snic_gimbal_tenant_opts heavy = {.opts_size = sizeof(heavy),
                                            .weight = SNIC_GIMBAL_WEIGHT_MAX};
    gx_open(&x, &o);
    assert_int_equal(snic_gimbal_tenant_add(x.g, 2, &heavy), 0);
    assert_int_equal(snic_gimbal_tenant_add(x.g, 0, NULL), 0);
    for (int i = 0; i < 4; i++) /* 2 GiB of cost each */
        gx_submit(&x, &io[i], i < 2 ? 0 : 2, SNIC_GIMBAL_WRITE, SNIC_GIMBAL_SIZE_MAX);
    for (int i = 0; i < 4; i++) {
        struct snic_gimbal_io *next = gx_next(&x);
        assert_non_null(next);
        assert_int_equal(next->weighted, UINT32_C(1) << 31);
        assert_int_equal(snic_gimbal_check(x.g), 0);
        snic_gimbal_complete(x.g, next, 1, ++x.now);
    }
    gx_close(&x);
}

static void test_gimbal_memory_one_byte_short_refused(void **state)
{
    (void)state;
    struct snic_gimbal_opts o = {.opts_size = sizeof(o), .tenants_max = 5};
    size_t size = snic_gimbal_memsize(&o);
    unsigned char *mem = support_guard_alloc(size + 1, SNIC_GIMBAL_ALIGN);
    struct snic_gimbal *g = NULL;
    assert_int_equal(size % SNIC_GIMBAL_ALIGN, 0); /* aligned_alloc() asks for that */
    assert_int_equal(snic_gimbal_init(&g, mem, size - 1, &o, 0), SNIC_ENOSPC);
    assert_int_equal(snic_gimbal_init(&g, mem + 1, size, &o, 0), SNIC_EINVAL);
    assert_null(g);
    support_guard_free(mem);
}

/* A tenant with queue_max I/Os: the others do not notice, and it has a place again when one of its
   own has completed. */
static void test_gimbal_queue_full_is_its_tenants_alone(void **state)
{
    (void)state;
    struct snic_gimbal_opts o = {.tenants_max = 2, .queue_max = 4};
    struct snic_gimbal_io io[4], others[4], more;
    struct gx x;
    gx_open(&x, &o);
    gx_tenants(&x, 2);
    for (uint32_t i = 0; i < 4; i++)
        gx_submit(&x, &io[i], 0, SNIC_GIMBAL_READ, 4096);
    gx_fill(&more, 0, SNIC_GIMBAL_READ, 4096);
    for (uint32_t i = 0; i < 40; i++)
        assert_int_equal(snic_gimbal_submit(x.g, &more, x.now), SNIC_EBUSY);
    for (uint32_t i = 0; i < 4; i++)
        gx_submit(&x, &others[i], 1, SNIC_GIMBAL_READ, 4096);
    struct snic_gimbal_io *out = gx_next(&x);
    while (out->tenant != 0) {
        snic_gimbal_complete(x.g, out, 1, x.now);
        out = gx_next(&x);
    }
    assert_int_equal(snic_gimbal_submit(x.g, &more, x.now), SNIC_EBUSY); /* it is out */
    snic_gimbal_complete(x.g, out, 1, x.now);
    assert_int_equal(snic_gimbal_submit(x.g, &more, x.now), 0);
    gx_fill(out, 0, SNIC_GIMBAL_READ, 4096);
    assert_int_equal(snic_gimbal_submit(x.g, out, x.now), SNIC_EBUSY);
    while ((out = gx_next(&x)) != NULL)
        snic_gimbal_complete(x.g, out, 1, x.now);
    gx_close(&x);
}

static void test_gimbal_errors_change_nothing(void **state)
{
    (void)state;
    struct snic_gimbal_opts o = {.opts_size = sizeof(o), .tenants_max = 4, .queue_max = 2};
    size_t size = snic_gimbal_memsize(&o);
    struct gx x;
    struct snic_gimbal_io io[4];
    gx_open(&x, &o);
    gx_tenants(&x, 2);
    assert_int_equal(snic_gimbal_tenant_add(x.g, 2, NULL), 0);
    gx_submit(&x, &io[0], 0, SNIC_GIMBAL_READ, 4096);
    gx_submit(&x, &io[1], 0, SNIC_GIMBAL_READ, 4096);
    gx_submit(&x, &io[2], 2, SNIC_GIMBAL_READ, 4096);
    assert_int_equal(snic_gimbal_tenant_remove(x.g, 2), 0);

    unsigned char *before = malloc(size);
    assert_non_null(before);
    memcpy(before, x.g, size);
    struct snic_gimbal_tenant_opts t = {.opts_size = sizeof(t),
                                        .weight = SNIC_GIMBAL_WEIGHT_MAX + 1};
    assert_int_equal(snic_gimbal_tenant_add(x.g, 3, &t), SNIC_EINVAL);
    assert_int_equal(snic_gimbal_tenant_set(x.g, 0, &t), SNIC_EINVAL);
    t.weight = 2;
    t.bytes_per_second = SNIC_GIMBAL_RATE_MAX + 1;
    assert_int_equal(snic_gimbal_tenant_add(x.g, 3, &t), SNIC_EINVAL);
    assert_int_equal(snic_gimbal_tenant_set(x.g, 0, &t), SNIC_EINVAL);
    t.bytes_per_second = 0;
    assert_int_equal(snic_gimbal_tenant_add(x.g, 4, NULL), SNIC_EINVAL);
    assert_int_equal(snic_gimbal_tenant_add(x.g, 0, NULL), SNIC_EEXIST);
    assert_int_equal(snic_gimbal_tenant_add(x.g, 2, NULL), SNIC_EBUSY);
    assert_int_equal(snic_gimbal_tenant_set(x.g, 2, &t), SNIC_ENOENT);
    assert_int_equal(snic_gimbal_tenant_set(x.g, 3, &t), SNIC_ENOENT);
    assert_int_equal(snic_gimbal_tenant_set(x.g, 4, &t), SNIC_ENOENT);
    assert_int_equal(snic_gimbal_tenant_remove(x.g, 2), SNIC_ENOENT);
    assert_int_equal(snic_gimbal_tenant_remove(x.g, 3), SNIC_ENOENT);

    static const struct {
        uint32_t tenant;
        uint32_t size;
        uint8_t op;
        uint8_t priority;
        int result;
    } bad[] = {
        {0, 0, 0, 0, SNIC_EINVAL},    {0, (8u << 20) + 1, 0, 0, SNIC_EINVAL},
        {0, 4096, 2, 0, SNIC_EINVAL}, {0, 4096, 0, 8, SNIC_EINVAL},
        {4, 4096, 0, 0, SNIC_ENOENT}, {3, 4096, 0, 0, SNIC_ENOENT},
        {2, 4096, 0, 0, SNIC_ENOENT}, {0, 4096, 0, 0, SNIC_EBUSY},
    };
    for (size_t i = 0; i < SNIC_COUNTOF(bad); i++) {
        struct snic_gimbal_io copy;
        gx_fill(&io[3], bad[i].tenant, bad[i].op, bad[i].size);
        io[3].priority = bad[i].priority;
        copy = io[3];
        assert_int_equal(snic_gimbal_submit(x.g, &io[3], x.now + 5), bad[i].result);
        assert_memory_equal(&copy, &io[3], sizeof(copy));
    }
    struct snic_gimbal_tenant_view v;
    assert_int_equal(snic_gimbal_get_tenant_view(x.g, 3, &v), SNIC_ENOENT);
    assert_int_equal(snic_gimbal_get_tenant_view(x.g, 4, &v), SNIC_ENOENT);
    assert_int_equal(snic_gimbal_wait_max_ns(x.g, 3, 0), 0);
    assert_memory_equal(before, x.g, size);
    free(before);

    struct snic_gimbal_io *out = gx_next(&x);
    assert_int_equal(snic_gimbal_cancel(x.g, out, x.now), SNIC_EBUSY);
    snic_gimbal_complete(x.g, out, 1, x.now);
    while ((out = gx_next(&x)) != NULL)
        snic_gimbal_complete(x.g, out, 1, x.now);
    gx_close(&x);
}

static void busy_fini(void *ctx)
{
    struct gx *x = ctx;
    (void)snic_gimbal_fini(x->g);
}

static void complete_queued(void *ctx)
{
    struct snic_gimbal_io *io = ctx;
    struct gx x;
    gx_open(&x, NULL);
    gx_tenants(&x, 1);
    gx_submit(&x, io, 0, SNIC_GIMBAL_READ, 1);
    snic_gimbal_complete(x.g, io, 1, x.now);
}

static void test_gimbal_contract_broken_aborts(void **state)
{
    (void)state;
    struct gx x;
    struct snic_gimbal_io io;
    gx_open(&x, NULL);
    gx_tenants(&x, 1);
    gx_submit(&x, &io, 0, SNIC_GIMBAL_READ, 4096);
    SUPPORT_EXPECT_ABORT(busy_fini, &x);
    assert_int_equal(snic_gimbal_cancel(x.g, &io, x.now), 0);
    SUPPORT_EXPECT_ABORT(complete_queued, &io);
    gx_close(&x);
}

/* The first I/O waits for its tokens alone, 4 KiB at 45 of 50 MB/s; at the deadline it leaves. */
static void test_gimbal_deadline_token_time_exact(void **state)
{
    (void)state;
    struct gx x;
    struct snic_gimbal_io io;
    gx_open(&x, NULL);
    gx_tenants(&x, 1);
    assert_true(snic_gimbal_deadline_ns(x.g) == SNIC_NEVER);
    gx_submit(&x, &io, 0, SNIC_GIMBAL_READ, 4096);
    assert_int_equal(snic_gimbal_deadline_ns(x.g), x.now);
    assert_null(snic_gimbal_poll(x.g, x.now));
    uint64_t wait = snic_gimbal_deadline_ns(x.g) - x.now;
    uint64_t exact = 4096 * SEC / 45000000;
    assert_true(wait >= exact && wait <= exact + exact / 4096 + 2);
    assert_null(snic_gimbal_poll(x.g, x.now + exact - 1));
    assert_null(snic_gimbal_poll(x.g, x.now)); /* a clock that goes back changes nothing */
    x.now = snic_gimbal_deadline_ns(x.g);
    assert_ptr_equal(snic_gimbal_poll(x.g, x.now), &io);
    assert_int_equal(io.queued_ns, 1000);
    assert_int_equal(io.sent_ns, x.now);
    assert_null(snic_gimbal_poll(x.g, x.now));
    assert_true(snic_gimbal_deadline_ns(x.g) == SNIC_NEVER); /* nothing is queued */
    snic_gimbal_complete(x.g, &io, 1, x.now + 100);
    gx_close(&x);
}

/* Taken back from everywhere: queued, next in turn, held for tokens; others keep their order. */
static void test_gimbal_cancel_any_queued_leaves_the_rest(void **state)
{
    (void)state;
    struct gx x;
    struct snic_gimbal_io io[5];
    for (int gone = 0; gone < 5; gone++) {
        gx_open(&x, NULL);
        gx_tenants(&x, 1);
        for (int i = 0; i < 5; i++)
            gx_submit(&x, &io[i], 0, SNIC_GIMBAL_READ, 4096);
        assert_null(snic_gimbal_poll(x.g, x.now)); /* the first is held */
        assert_int_equal(snic_gimbal_check(x.g), 0);
        assert_int_equal(snic_gimbal_cancel(x.g, &io[gone], x.now), 0);
        assert_int_equal(io[gone].state, 0);
        assert_int_equal(snic_gimbal_check(x.g), 0);
        for (int i = 0; i < 5; i++) {
            if (i != gone)
                assert_ptr_equal(gx_next(&x), &io[i]);
        }
        assert_null(gx_next(&x));
        for (int i = 0; i < 5; i++) {
            if (i != gone)
                snic_gimbal_complete(x.g, &io[i], 1, x.now);
        }
        gx_close(&x);
    }
}

/* A held request larger than its bucket made the bucket grow; gone, the bucket is small again. */
static void test_gimbal_request_larger_than_bucket_passes(void **state)
{
    (void)state;
    struct gx x;
    struct snic_gimbal_io io[2];
    for (int cancel = 0; cancel < 2; cancel++) {
        gx_open(&x, NULL);
        gx_tenants(&x, 1);
        gx_submit(&x, &io[0], 0, SNIC_GIMBAL_WRITE, 8u << 20);
        assert_null(snic_gimbal_poll(x.g, x.now));
        uint64_t deadline = snic_gimbal_deadline_ns(x.g);
        if (cancel) {
            x.now = deadline - deadline / 1000;
            assert_null(snic_gimbal_poll(x.g, x.now));
            assert_int_equal(snic_gimbal_cancel(x.g, &io[0], x.now), 0);
            assert_int_equal(snic_gimbal_check(x.g), 0);
        } else {
            /* The other bucket overflows into this one: all but 256 KiB of what is earned. */
            uint64_t exact = ((8u << 20) + 262144) * SEC / 50000000;
            assert_true(deadline - x.now >= exact && deadline - x.now <= exact + exact / 4096);
            assert_ptr_equal(gx_next(&x), &io[0]);
            assert_int_equal(x.now, deadline);
            snic_gimbal_complete(x.g, &io[0], 1, x.now);
        }
        gx_close(&x);
    }
}

/* With nothing but time between, a removed tenant's I/Os still leave; then the index is free. */
static void test_gimbal_tenant_removed_with_ios_drains(void **state)
{
    (void)state;
    struct gx x;
    struct snic_gimbal_io io[6];
    gx_open(&x, NULL);
    gx_tenants(&x, 2);
    for (int i = 0; i < 6; i++)
        gx_submit(&x, &io[i], (uint32_t)i % 2, SNIC_GIMBAL_READ, 4096);
    struct snic_gimbal_io *out = gx_next(&x);
    assert_int_equal(snic_gimbal_tenant_remove(x.g, 0), 0);
    assert_int_equal(gx_tenant(&x, 0).draining, 1);
    for (int left = 5;; left--) {
        assert_int_equal(snic_gimbal_check(x.g), 0);
        snic_gimbal_complete(x.g, out, 1, ++x.now);
        if (left == 0)
            break;
        out = gx_next(&x);
        assert_non_null(out);
    }
    struct snic_gimbal_tenant_view v;
    assert_int_equal(snic_gimbal_get_tenant_view(x.g, 0, &v), SNIC_ENOENT);
    assert_int_equal(snic_gimbal_tenant_add(x.g, 0, NULL), 0);
    assert_int_equal(gx_tenant(&x, 0).ios[0], 0); /* a new one */
    assert_int_equal(gx_tenant(&x, 1).ios[0], 3);
    gx_close(&x);
}

/* Removed wherever it may be: listed, current, deferred, parked, lingering. */
static void test_gimbal_tenant_removed_anywhere_is_freed(void **state)
{
    (void)state;
    struct snic_gimbal_opts o = {.tenants_max = 2,
                                 .slot_threshold = 1,
                                 .flags = SNIC_GIMBAL_SLOT_BARRIER,
                                 .rate_start = SNIC_GIMBAL_RATE_MAX,
                                 .rate_max = SNIC_GIMBAL_RATE_MAX};
    struct snic_gimbal_tenant_opts capped = {.opts_size = sizeof(capped), .ios_per_second = 1};
    for (int where = 0; where < 5; where++) {
        struct gx x;
        struct snic_gimbal_io io[3];
        gx_open(&x, &o);
        assert_int_equal(snic_gimbal_tenant_add(x.g, 0, where == 3 ? &capped : NULL), 0);
        x.now += MS;
        for (int i = 0; i < 3; i++)
            gx_submit(&x, &io[i], 0, SNIC_GIMBAL_READ, 128 * KIB);
        if (where >= 1)
            assert_ptr_equal(snic_gimbal_poll(x.g, x.now), &io[0]);
        if (where == 2 || where == 3)
            assert_null(snic_gimbal_poll(x.g, x.now));
        if (where >= 1)
            snic_gimbal_complete(x.g, &io[0], 1, x.now);
        if (where == 3) {
            assert_null(snic_gimbal_poll(x.g, x.now));
            assert_int_equal(gx_tenant(&x, 0).parked, 1);
        }
        if (where == 4) { /* idle, but still counted */
            assert_int_equal(snic_gimbal_cancel(x.g, &io[1], x.now), 0);
            assert_int_equal(snic_gimbal_cancel(x.g, &io[2], x.now), 0);
        }
        assert_int_equal(snic_gimbal_tenant_remove(x.g, 0), 0);
        for (int i = where == 0 ? 0 : 1; i < 3 && where != 4; i++)
            assert_int_equal(snic_gimbal_cancel(x.g, &io[i], x.now), 0);
        assert_int_equal(gx_view(&x).tenants, 0);
        assert_int_equal(gx_view(&x).active, 0);
        gx_close(&x);
    }
}

/* Priorities 7, 3 and 0 with weights 4, 2, 1: cycles of 4, 2, 1, each in order of submission. */
static void test_gimbal_priorities_cycled_by_weight(void **state)
{
    (void)state;
    struct snic_gimbal_opts o = {.flags = SNIC_GIMBAL_NO_EXPRESS,
                                 .rate_start = SNIC_GIMBAL_RATE_MAX,
                                 .rate_max = SNIC_GIMBAL_RATE_MAX};
    struct snic_gimbal_tenant_opts t = {.opts_size = sizeof(t),
                                        .priority_weight = {1, 0, 0, 2, 0, 0, 0, 4}};
    static const uint8_t prio[3] = {0, 3, 7};
    static const char want[] = "777733077773307777330";
    struct gx x;
    struct snic_gimbal_io io[36];
    uint32_t last[8] = {0};
    gx_open(&x, &o);
    assert_int_equal(snic_gimbal_tenant_add(x.g, 0, &t), 0);
    x.now += MS;
    for (uint32_t i = 0; i < 36; i++) {
        gx_fill(&io[i], 0, SNIC_GIMBAL_READ, 512);
        io[i].priority = prio[i % 3];
        assert_int_equal(snic_gimbal_submit(x.g, &io[i], x.now), 0);
    }
    for (uint32_t n = 0; n < 36; n++) {
        struct snic_gimbal_io *next = gx_next(&x);
        assert_non_null(next);
        uint32_t i = (uint32_t)(next - io);
        if (n < 21)
            assert_int_equal(next->priority, want[n] - '0');
        assert_true(last[next->priority] == 0 || i > last[next->priority]);
        last[next->priority] = i;
        snic_gimbal_complete(x.g, next, 1, x.now);
    }
    gx_close(&x);
}

/* With an idle tenant the next burst begins with the most urgent, wherever the cycle stood. */
static void test_gimbal_priority_urgent_first_after_idle(void **state)
{
    (void)state;
    struct gx x;
    struct snic_gimbal_io io[2];
    gx_open(&x, NULL);
    gx_tenants(&x, 1);
    for (int round = 0; round < 20; round++) {
        gx_fill(&io[0], 0, SNIC_GIMBAL_READ, 512);
        gx_fill(&io[1], 0, SNIC_GIMBAL_READ, 512);
        io[0].priority = 0;
        io[1].priority = 5;
        assert_int_equal(snic_gimbal_submit(x.g, &io[1], x.now), 0);
        assert_int_equal(snic_gimbal_submit(x.g, &io[0], x.now), 0);
        for (int i = 1; i >= 0; i--) {
            assert_ptr_equal(gx_next(&x), &io[i]);
            snic_gimbal_complete(x.g, &io[i], 1, x.now);
        }
    }
    gx_close(&x);
}

static void test_gimbal_tenant_view_counts(void **state)
{
    (void)state;
    struct gx x;
    struct snic_gimbal_io io[3];
    gx_open(&x, NULL);
    gx_tenants(&x, 1);
    gx_submit(&x, &io[0], 0, SNIC_GIMBAL_READ, 4096);
    gx_submit(&x, &io[1], 0, SNIC_GIMBAL_WRITE, 512);
    gx_submit(&x, &io[2], 0, SNIC_GIMBAL_READ, 4096);
    uint64_t wait = 0;
    for (int i = 0; i < 3; i++) {
        assert_non_null(gx_next(&x));
        wait += x.now - 1000;
    }
    struct snic_gimbal_tenant_view v = gx_tenant(&x, 0);
    assert_int_equal(v.inflight, 3);
    assert_int_equal(v.queued, 0);
    uint64_t sent = io[0].sent_ns + io[1].sent_ns + io[2].sent_ns;
    x.now += 70000;
    for (int i = 0; i < 3; i++)
        snic_gimbal_complete(x.g, &io[i], i != 2, x.now);
    v = gx_tenant(&x, 0);
    assert_int_equal(v.bytes[SNIC_GIMBAL_READ], 4096);
    assert_int_equal(v.bytes[SNIC_GIMBAL_WRITE], 512);
    assert_int_equal(v.ios[SNIC_GIMBAL_READ], 1);
    assert_int_equal(v.errors, 1);
    assert_int_equal(v.wait_ns, wait);
    assert_int_equal(v.device_ns, 3 * x.now - sent);
    assert_int_equal(io[0].credit, v.credit);
    gx_close(&x);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_gimbal_opts_out_of_range_refused),
        cmocka_unit_test(test_gimbal_opts_at_limits_accepted),
        cmocka_unit_test(test_gimbal_memory_one_byte_short_refused),
        cmocka_unit_test(test_gimbal_errors_change_nothing),
        cmocka_unit_test(test_gimbal_queue_full_is_its_tenants_alone),
        cmocka_unit_test(test_gimbal_contract_broken_aborts),
        cmocka_unit_test(test_gimbal_deadline_token_time_exact),
        cmocka_unit_test(test_gimbal_cancel_any_queued_leaves_the_rest),
        cmocka_unit_test(test_gimbal_request_larger_than_bucket_passes),
        cmocka_unit_test(test_gimbal_tenant_removed_with_ios_drains),
        cmocka_unit_test(test_gimbal_tenant_removed_anywhere_is_freed),
        cmocka_unit_test(test_gimbal_priorities_cycled_by_weight),
        cmocka_unit_test(test_gimbal_priority_urgent_first_after_idle),
        cmocka_unit_test(test_gimbal_tenant_view_counts),
    };
    return SUPPORT_MAIN(argc, argv, tests);
}
