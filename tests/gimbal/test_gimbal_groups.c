/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * Groups of tenants: a group takes part as one tenant would, its tenants share by weight, and all
 * of it may change while I/Os are queued and on the device.
 */
#include "test_gimbal_util.h"

static struct snic_gimbal_tenant_opts group_opts(uint32_t weight, uint32_t group)
{
    return (struct snic_gimbal_tenant_opts){
        .opts_size = sizeof(struct snic_gimbal_tenant_opts), .weight = weight, .group = group};
}

static void group_sim(struct sim *s, uint32_t tenants)
{
    struct snic_gimbal_opts o = {
        .tenants_max = tenants, .groups_max = 3, .rate_start = SEC / 2, .rate_max = SEC};
    o.write_cost_worst = SNIC_GIMBAL_COST_ONE; /* bytes are costs */
    o.size_max = 1024 * KIB;                   /* the check allows tags no more than that */
    sim_open(s, &o);
}

static void group_tenant(struct sim *s, uint32_t tenant, uint32_t weight, uint32_t group)
{
    struct snic_gimbal_tenant_opts o = group_opts(weight, group);
    assert_int_equal(snic_gimbal_tenant_add(s->x.g, tenant, &o), 0);
}

/* Within @percent of @want of the sum of both. */
static void group_part(uint64_t a, uint64_t b, unsigned want, unsigned percent)
{
    double part = 100.0 * (double)a / (double)(a + b);
    if (part < want - percent || part > want + percent)
        fail_msg("%.1f %%, not %u", part, want);
}

static void test_gimbal_groups_errors_change_nothing(void **state)
{
    (void)state;
    struct snic_gimbal_opts o = {.tenants_max = 2, .groups_max = 2};
    struct snic_gimbal_tenant_opts t = group_opts(1, 1);
    struct snic_gimbal_tenant_opts plain = group_opts(2, 0);
    struct snic_gimbal_tenant_opts bad = group_opts(SNIC_GIMBAL_WEIGHT_MAX + 1, 0);
    struct snic_gimbal_tenant_view v;
    struct snic_gimbal_io io;
    struct gx x;
    gx_open(&x, &o);
    assert_int_equal(snic_gimbal_tenant_add(x.g, 0, &t), SNIC_EINVAL); /* no such group */
    assert_int_equal(snic_gimbal_group_add(x.g, 0, NULL), SNIC_EINVAL);
    assert_int_equal(snic_gimbal_group_add(x.g, 3, NULL), SNIC_EINVAL);
    assert_int_equal(snic_gimbal_group_add(x.g, 1, &t), SNIC_EINVAL); /* of a group */
    assert_int_equal(snic_gimbal_group_add(x.g, 1, &bad), SNIC_EINVAL);
    assert_int_equal(snic_gimbal_group_set(x.g, 1, &plain), SNIC_ENOENT);
    assert_int_equal(snic_gimbal_group_remove(x.g, 1), SNIC_ENOENT);
    assert_int_equal(snic_gimbal_get_group_view(x.g, 1, &v), SNIC_ENOENT);
    assert_int_equal(gx_view(&x).groups, 0);
    assert_int_equal(snic_gimbal_group_add(x.g, 1, &plain), 0);
    assert_int_equal(snic_gimbal_group_add(x.g, 1, &plain), SNIC_EEXIST);
    assert_int_equal(snic_gimbal_group_set(x.g, 1, &t), SNIC_EINVAL);
    assert_int_equal(snic_gimbal_group_set(x.g, 1, &bad), SNIC_EINVAL);
    assert_int_equal(snic_gimbal_tenant_add(x.g, 0, &t), 0);
    t.group = 2;
    assert_int_equal(snic_gimbal_tenant_set(x.g, 0, &t), SNIC_EINVAL);
    assert_int_equal(gx_tenant(&x, 0).group, 1);
    assert_int_equal(snic_gimbal_group_remove(x.g, 1), SNIC_EBUSY);
    assert_int_equal(snic_gimbal_get_group_view(x.g, 1, &v), 0);
    assert_true(v.members == 1 && v.weight == 2);
    /* It leaves with an I/O on the device: the group's slot is not free before that is back. */
    gx_submit(&x, &io, 0, SNIC_GIMBAL_READ, 4096);
    assert_ptr_equal(gx_next(&x), &io);
    assert_int_equal(snic_gimbal_tenant_set(x.g, 0, &plain), 0);
    assert_int_equal(snic_gimbal_group_remove(x.g, 1), SNIC_EBUSY);
    assert_int_equal(snic_gimbal_check(x.g), 0);
    assert_int_equal(gx_tenant(&x, 0).inflight, 1);
    snic_gimbal_complete(x.g, &io, 1, x.now);
    assert_int_equal(snic_gimbal_group_remove(x.g, 1), 0);
    assert_int_equal(gx_view(&x).groups, 0);
    gx_close(&x);
}

/* Seven tenants of a group beside one: half for each, and a seventh of a half for each of them. */
static void test_gimbal_groups_count_as_one_tenant(void **state)
{
    (void)state;
    static const uint32_t sizes[] = {4 * KIB, 128 * KIB};
    for (size_t k = 0; k < 2; k++) {
        for (uint8_t op = 0; op < 2; op++) {
            struct sim s;
            uint64_t sum = 0;
            uint64_t least = SNIC_NEVER;
            uint64_t most = 0;
            group_sim(&s, 8);
            assert_int_equal(snic_gimbal_group_add(s.x.g, 1, NULL), 0);
            for (uint32_t t = 0; t < 8; t++) {
                group_tenant(&s, t, 1, t > 0);
                sim_client(&s, t, op, sizes[k], 64, 3 * SEC);
            }
            sim_run(&s, 3 * SEC);
            for (uint32_t t = 1; t < 8; t++) {
                sum += sim_bytes(&s, t);
                least = snic_min_u64(least, sim_bytes(&s, t));
                most = snic_max_u64(most, sim_bytes(&s, t));
            }
            group_part(sim_bytes(&s, 0), sum, 50, 3);
            assert_true(most <= least + least / 20);
            sim_close(&s);
        }
    }
}

/* Weights 3 and 1 inside, group against group 2 to 1; large and small I/Os. */
static void test_gimbal_groups_weights_on_both_levels(void **state)
{
    (void)state;
    struct sim s;
    struct snic_gimbal_tenant_opts heavy = group_opts(2, 0);
    group_sim(&s, 4);
    assert_int_equal(snic_gimbal_group_add(s.x.g, 1, &heavy), 0);
    assert_int_equal(snic_gimbal_group_add(s.x.g, 2, NULL), 0);
    for (uint32_t t = 0; t < 4; t++) {
        group_tenant(&s, t, t % 2 ? 1 : 3, 1 + t / 2);
        sim_client(&s, t, SNIC_GIMBAL_READ, t % 2 ? 16 * KIB : 64 * KIB, 64, 4 * SEC);
    }
    sim_run(&s, 4 * SEC);
    uint64_t first = sim_bytes(&s, 0) + sim_bytes(&s, 1);
    uint64_t second = sim_bytes(&s, 2) + sim_bytes(&s, 3);
    group_part(first, second, 67, 4);
    group_part(sim_bytes(&s, 0), sim_bytes(&s, 1), 75, 3);
    group_part(sim_bytes(&s, 2), sim_bytes(&s, 3), 75, 3);
    sim_close(&s);
}

/* Clients of a capped group, of its tenants 0 and 1. */
struct group_client {
    uint32_t tenant;
    uint8_t op;
    uint32_t size;
    uint32_t depth;
};

/* What both were sent in two seconds under a cap of 100 MB/s, from a device that takes so long. */
static void group_capped(const struct group_client *clients, size_t count, uint32_t weight,
                         uint64_t latency_ns, uint64_t bytes[2])
{
    struct sim s;
    struct snic_gimbal_tenant_opts cap = group_opts(1, 0);
    struct snic_gimbal_opts o = {.tenants_max = 3, .groups_max = 1, .rate_start = SEC / 2};
    sim_open(&s, &o);
    s.latency_ns = latency_ns;
    cap.bytes_per_second = 100000000;
    assert_int_equal(snic_gimbal_group_add(s.x.g, 1, &cap), 0);
    group_tenant(&s, 0, weight, 1);
    group_tenant(&s, 1, 1, 1);
    for (size_t i = 0; i < count; i++)
        sim_client(&s, clients[i].tenant, clients[i].op, clients[i].size, clients[i].depth,
                   SEC * 3);
    sim_run(&s, SEC);
    for (uint32_t t = 0; t < 2; t++)
        bytes[t] = sim_bytes(&s, t);
    for (uint64_t to = SEC; to < 3 * SEC; to += 10 * MS) {
        sim_run(&s, to);
        assert_int_equal(snic_gimbal_check(s.x.g), 0);
    }
    sim_run(&s, 3 * SEC);
    for (uint32_t t = 0; t < 2; t++)
        bytes[t] = sim_bytes(&s, t) - bytes[t];
    sim_close(&s);
    assert_in_range(bytes[0] + bytes[1], 198000000, 202500000);
}

/* Under a group's cap its tenants have bytes by weight, whatever the sizes of their I/Os, whether
 * they read or write, and although the small ones' queue is empty now and then. */
static void test_gimbal_groups_cap_in_bytes_by_weight(void **state)
{
    (void)state;
    enum { R = SNIC_GIMBAL_READ, W = SNIC_GIMBAL_WRITE };
    static const struct {
        struct group_client c[3];
        uint32_t latency_us;
    } cases[] = {
        {{{0, R, 4 * KIB, 32}, {1, R, 128 * KIB, 32}}, 80},
        {{{0, R, 4 * KIB, 128}, {1, W, 128 * KIB, 32}}, 80},
        {{{0, W, 4 * KIB, 32}, {1, R, 128 * KIB, 32}}, 80},
        {{{0, R, 4 * KIB, 32}, {0, W, 4 * KIB, 32}, {1, R, 128 * KIB, 32}}, 80},
        {{{0, R, 4 * KIB, 32}, {1, R, 128 * KIB, 16}, {1, W, 128 * KIB, 16}}, 80},
        {{{0, R, 4 * KIB, 4}, {1, R, 128 * KIB, 32}}, 80},    /* 1.3 would do for 50 MB/s */
        {{{0, R, 4 * KIB, 16}, {1, R, 128 * KIB, 32}}, 1000}, /* 13 */
        {{{0, R, 4 * KIB, 16}, {1, W, 128 * KIB, 32}}, 1000},
        {{{0, R, 4 * KIB, 64}, {1, R, 512 * KIB, 8}}, 80},
    };
    uint64_t bytes[2];
    for (size_t i = 0; i < SNIC_COUNTOF(cases); i++) {
        size_t count = cases[i].c[2].size > 0 ? 3 : 2;
        group_capped(cases[i].c, count, 1, cases[i].latency_us * UINT64_C(1000), bytes);
        group_part(bytes[0], bytes[1], 50, 2);
    }
    group_capped(cases[0].c, 2, 3, 80000, bytes);
    group_part(bytes[0], bytes[1], 75, 2);
    group_capped(cases[1].c, 2, 3, 80000, bytes);
    group_part(bytes[0], bytes[1], 75, 2);
}

/* One with too few I/Os for its share has nearly what it has alone, the other has the rest. */
static void test_gimbal_groups_cap_lone_reader_beside_large(void **state)
{
    (void)state;
    static const struct group_client clients[] = {{0, SNIC_GIMBAL_READ, 4 * KIB, 1},
                                                  {1, SNIC_GIMBAL_READ, 128 * KIB, 32}};
    uint64_t bytes[2];
    group_capped(clients, 2, 1, 150000, bytes);
    assert_true(bytes[0] >= UINT64_C(2) * 4096 * SEC / 154000 * 8 / 10);
}

/* A group of which one tenant alone has I/Os gives it all of the group's share. */
static void test_gimbal_groups_share_of_idle_is_the_others(void **state)
{
    (void)state;
    struct sim s;
    group_sim(&s, 10);
    assert_int_equal(snic_gimbal_group_add(s.x.g, 1, NULL), 0);
    for (uint32_t t = 0; t < 10; t++)
        group_tenant(&s, t, 1, t > 0);
    sim_client(&s, 0, SNIC_GIMBAL_READ, 128 * KIB, 64, 2 * SEC);
    sim_client(&s, 4, SNIC_GIMBAL_READ, 128 * KIB, 64, 2 * SEC);
    sim_run(&s, 2 * SEC);
    group_part(sim_bytes(&s, 0), sim_bytes(&s, 4), 50, 2);
    sim_close(&s);
}

/* From group to group and out of them, with I/Os everywhere, ten thousand times: nothing is lost,
 * every invariant holds, and at the end the shares are those of where each is. */
static void test_gimbal_groups_moved_under_load(void **state)
{
    (void)state;
    struct sim s;
    struct snic_rng r;
    snic_rng_init(&r, support_seed());
    group_sim(&s, 6);
    for (uint32_t k = 1; k <= 3; k++)
        assert_int_equal(snic_gimbal_group_add(s.x.g, k, NULL), 0);
    for (uint32_t t = 0; t < 6; t++) {
        group_tenant(&s, t, 1, t % 4);
        sim_client(&s, t, t % 2, t % 3 ? 128 * KIB : 4 * KIB, 32, 5 * SEC);
        sim_client(&s, t, SNIC_GIMBAL_READ, 16 * KIB, 8, 5 * SEC);
    }
    for (int i = 0; i < 10000; i++) {
        struct snic_gimbal_tenant_opts o =
            group_opts(1 + (uint32_t)snic_rng_below(&r, 4), (uint32_t)snic_rng_below(&r, 4));
        if (snic_rng_below(&r, 4) == 0)
            o.bytes_per_second = 50000000;
        if (snic_rng_below(&r, 3) == 0)
            o.floor_ios_per_second = 1000;
        assert_int_equal(snic_gimbal_tenant_set(s.x.g, (uint32_t)snic_rng_below(&r, 6), &o), 0);
        sim_run(&s, s.x.now + snic_rng_below(&r, 200000));
        assert_int_equal(snic_gimbal_check(s.x.g), 0);
    }
    for (uint32_t t = 0; t < 6; t++) {
        struct snic_gimbal_tenant_opts o = group_opts(1, t > 0);
        assert_int_equal(snic_gimbal_tenant_set(s.x.g, t, &o), 0);
    }
    sim_run(&s, s.x.now + SEC / 2);
    uint64_t before[2] = {sim_bytes(&s, 0), 0};
    for (uint32_t t = 1; t < 6; t++)
        before[1] += sim_bytes(&s, t);
    sim_run(&s, s.x.now + SEC);
    uint64_t after = 0;
    for (uint32_t t = 1; t < 6; t++)
        after += sim_bytes(&s, t);
    group_part(sim_bytes(&s, 0) - before[0], after - before[1], 50, 12);
    sim_close(&s);
}

/* What the tenant is sent from now to @to_ns. */
static uint64_t group_sent(struct sim *s, uint32_t tenant, uint64_t to_ns)
{
    uint64_t before = sim_bytes(s, tenant);
    sim_run(s, to_ns);
    return sim_bytes(s, tenant) - before;
}

/* What a tenant received in one group is not counted in the next: it has its share at once, after
 * a short time there and after a long one. */
static void test_gimbal_groups_moved_tenant_has_share_at_once(void **state)
{
    (void)state;
    for (uint64_t from = SEC / 8; from <= SEC; from *= 8) {
        struct sim s;
        struct snic_gimbal_opts o = {.tenants_max = 4, .groups_max = 2, .rate_start = SEC / 2};
        struct snic_gimbal_tenant_opts cap = group_opts(1, 0);
        struct snic_gimbal_tenant_opts to = group_opts(1, 1);
        sim_open(&s, &o);
        cap.bytes_per_second = 50000000;
        assert_int_equal(snic_gimbal_group_add(s.x.g, 1, &cap), 0);
        assert_int_equal(snic_gimbal_group_add(s.x.g, 2, NULL), 0);
        for (uint32_t t = 0; t < 2; t++) {
            group_tenant(&s, t, 1, 1 + t);
            sim_client(&s, t, SNIC_GIMBAL_READ, 128 * KIB, 16, 4 * SEC);
        }
        sim_run(&s, from);
        assert_true(sim_bytes(&s, 1) > 5 * sim_bytes(&s, 0));
        assert_int_equal(snic_gimbal_tenant_set(s.x.g, 1, &to), 0);
        assert_int_equal(snic_gimbal_check(s.x.g), 0);
        sim_run(&s, from + SEC / 10); /* those on the device are completed */
        uint64_t before = sim_bytes(&s, 0);
        uint64_t moved = group_sent(&s, 1, from + SEC);
        group_part(sim_bytes(&s, 0) - before, moved, 50, 2);
        sim_close(&s);
    }
}

/* Beside a floor the others share what it leaves, although the queue of one is empty between its
 * I/Os; and when the floor is gone, its tenant has its share at once. */
static void test_gimbal_groups_cap_shared_beside_floor(void **state)
{
    (void)state;
    for (uint8_t op = 0; op < 2; op++) {
        struct sim s;
        struct snic_gimbal_opts o = {.tenants_max = 4, .groups_max = 1, .rate_start = SEC / 2};
        struct snic_gimbal_tenant_opts cap = group_opts(1, 0);
        struct snic_gimbal_tenant_opts floor = group_opts(1, 1);
        sim_open(&s, &o);
        cap.bytes_per_second = 100000000;
        floor.floor_bytes_per_second = 60000000;
        assert_int_equal(snic_gimbal_group_add(s.x.g, 1, &cap), 0);
        assert_int_equal(snic_gimbal_tenant_add(s.x.g, 0, &floor), 0);
        group_tenant(&s, 1, 1, 1);
        group_tenant(&s, 2, 1, 1);
        for (uint32_t t = 0; t < 3; t++)
            sim_client(&s, t, op, 128 * KIB, t < 2 ? 32 : 1, 8 * SEC);
        sim_run(&s, 2 * SEC);
        uint64_t before[2] = {sim_bytes(&s, 0), sim_bytes(&s, 1)};
        uint64_t lone = group_sent(&s, 2, 4 * SEC);
        uint64_t first = sim_bytes(&s, 0) - before[0];
        group_part(sim_bytes(&s, 1) - before[1], lone, 50, 6);
        floor.floor_bytes_per_second = 0;
        assert_int_equal(snic_gimbal_tenant_set(s.x.g, 0, &floor), 0);
        before[1] = sim_bytes(&s, 1);
        first = group_sent(&s, 0, 4 * SEC + SEC / 2);
        group_part(sim_bytes(&s, 1) - before[1], first, 50, 6);
        sim_close(&s);
    }
}

/*
 * A tenant's floor holds under its group's cap, whatever its kind of I/O and the others': what it
 * waits for while they use the cap is owed to it.
 */
static void test_gimbal_groups_floor_under_cap(void **state)
{
    (void)state;
    for (unsigned mix = 0; mix < 32; mix++) {
        uint32_t theirs = mix & 16 ? 4 * KIB : 128 * KIB;
        struct sim s;
        struct snic_gimbal_opts o = {.tenants_max = 4, .groups_max = 1, .rate_start = SEC / 2};
        struct snic_gimbal_tenant_opts cap = group_opts(1, 0);
        struct snic_gimbal_tenant_opts floor = group_opts(1, 1);
        sim_open(&s, &o);
        cap.bytes_per_second = 100000000;
        floor.floor_bytes_per_second = 60000000;
        assert_int_equal(snic_gimbal_group_add(s.x.g, 1, &cap), 0);
        assert_int_equal(snic_gimbal_tenant_add(s.x.g, 0, &floor), 0);
        group_tenant(&s, 1, 1, 1);
        group_tenant(&s, 2, 1, 1);
        sim_client(&s, 0, mix & 1, mix & 8 ? 4 * KIB : 128 * KIB, 256, 8 * SEC);
        sim_client(&s, 1, mix >> 1 & 1, theirs, 32, 8 * SEC);
        sim_client(&s, 2, mix >> 2 & 1, theirs, 32, 8 * SEC);
        sim_run(&s, SEC);
        uint64_t before = sim_bytes(&s, 1) + sim_bytes(&s, 2);
        uint64_t sent = group_sent(&s, 0, 3 * SEC);
        uint64_t others = sim_bytes(&s, 1) + sim_bytes(&s, 2) - before;
        if (sent < 2 * UINT64_C(59400000) - 2 * 128 * KIB)
            fail_msg("mix %u: %.1f MB/s, others %.1f", mix, (double)sent / 2e6,
                     (double)others / 2e6);
        assert_int_equal(gx_view(&s.x).floor_part, SNIC_GIMBAL_FLOOR_ONE);
        assert_true(sent + others >= 2 * UINT64_C(98000000));
        sim_close(&s);
    }
}

/*
 * Floors that add up to more than their group's cap: each has its part of the cap in proportion to
 * its floor, whatever its kind of I/O and the other's, also with one I/O at a time, and no floor is
 * cut for that. They have 7/8 of the cap at least beside a third tenant, and one left alone
 * soon has its floor and no more.
 */
static void test_gimbal_groups_floors_above_cap(void **state)
{
    (void)state;
    for (unsigned mix = 0; mix < 64; mix++) {
        struct sim s;
        struct snic_gimbal_opts o = {.tenants_max = 4, .groups_max = 1, .rate_start = SEC / 2};
        struct snic_gimbal_tenant_opts cap = group_opts(1, 0);
        struct snic_gimbal_tenant_opts floor = group_opts(1, 1);
        sim_open(&s, &o);
        cap.bytes_per_second = 80000000;
        assert_int_equal(snic_gimbal_group_add(s.x.g, 1, &cap), 0);
        floor.floor_bytes_per_second = 60000000;
        assert_int_equal(snic_gimbal_tenant_add(s.x.g, 0, &floor), 0);
        floor.floor_bytes_per_second = mix & 16 ? 30000000 : 60000000;
        assert_int_equal(snic_gimbal_tenant_add(s.x.g, 1, &floor), 0);
        group_tenant(&s, 2, 1, 1);
        sim_client(&s, 0, mix & 1, mix & 4 ? 4 * KIB : 128 * KIB, mix & 4 ? 256 : 1, 5 * SEC);
        sim_client(&s, 1, mix >> 1 & 1, mix & 8 ? 4 * KIB : 128 * KIB, mix & 8 ? 256 : 32, 3 * SEC);
        sim_client(&s, 2, mix & 1, mix & 32 ? 4 * KIB : 128 * KIB, 32, 5 * SEC);
        sim_run(&s, SEC);
        uint64_t before = sim_bytes(&s, 1);
        uint64_t first = group_sent(&s, 0, 2 * SEC);
        uint64_t second = sim_bytes(&s, 1) - before;
        assert_int_equal(snic_gimbal_check(s.x.g), 0);
        assert_int_equal(gx_view(&s.x).floor_part, SNIC_GIMBAL_FLOOR_ONE);
        group_part(first, second, mix & 16 ? 67 : 50, 1);
        if (first + second < 69000000)
            fail_msg("mix %u: %.1f and %.1f MB/s", mix, (double)first / 1e6, (double)second / 1e6);
        sim_run(&s, 4 * SEC + SEC / 2); /* what it is late by is made up for */
        first = group_sent(&s, 0, 5 * SEC);
        if (first < 29500000 || first > 33500000)
            fail_msg("mix %u: %.1f MB/s alone", mix, (double)first / 5e5);
        sim_close(&s);
    }
}

/* The group waits for its cap's time for a large I/O of tenant 1, tenant 0 for its own cap. */
static void group_parked(struct gx *x, struct snic_gimbal_io *io)
{
    struct snic_gimbal_opts o = {
        .tenants_max = 2, .groups_max = 2, .flags = SNIC_GIMBAL_NO_EXPRESS};
    struct snic_gimbal_tenant_opts cap = group_opts(1, 0);
    struct snic_gimbal_tenant_opts own = group_opts(1, 1);
    struct snic_gimbal_tenant_opts plain = group_opts(1, 1);
    struct snic_gimbal_tenant_view v;
    gx_open(x, &o);
    cap.bytes_per_second = 1000000;
    own.bytes_per_second = 10000;
    assert_int_equal(snic_gimbal_group_add(x->g, 1, &cap), 0);
    assert_int_equal(snic_gimbal_group_add(x->g, 2, NULL), 0);
    assert_int_equal(snic_gimbal_tenant_add(x->g, 0, &own), 0);
    assert_int_equal(snic_gimbal_tenant_add(x->g, 1, &plain), 0);
    gx_submit(x, &io[0], 0, SNIC_GIMBAL_READ, 128 * KIB);
    assert_ptr_equal(gx_next(x), &io[0]);
    gx_submit(x, &io[1], 0, SNIC_GIMBAL_READ, 4 * KIB);
    gx_submit(x, &io[2], 1, SNIC_GIMBAL_READ, 512 * KIB);
    assert_null(snic_gimbal_poll(x->g, x->now));
    assert_int_equal(snic_gimbal_get_group_view(x->g, 1, &v), 0);
    assert_true(v.parked && gx_tenant(x, 0).parked);
}

static void group_parked_close(struct gx *x, struct snic_gimbal_io *io, uint32_t count)
{
    uint32_t left = 0;
    snic_gimbal_complete(x->g, &io[0], 1, x->now);
    for (struct snic_gimbal_io *next; (next = gx_next(x)) != NULL; left++)
        snic_gimbal_complete(x->g, next, 1, x->now);
    assert_int_equal(left, count);
    gx_close(x);
}

/* A group whose only I/O that may go is cancelled, or moves, while it waits: it takes the next. */
static void test_gimbal_groups_emptied_while_parked(void **state)
{
    (void)state;
    struct snic_gimbal_tenant_opts away = group_opts(1, 2);
    struct snic_gimbal_io io[4];
    struct gx x;
    for (int moved = 0; moved < 2; moved++) {
        group_parked(&x, io);
        if (moved)
            assert_int_equal(snic_gimbal_tenant_set(x.g, 1, &away), 0);
        else
            assert_int_equal(snic_gimbal_cancel(x.g, &io[2], x.now), 0);
        assert_int_equal(snic_gimbal_check(x.g), 0);
        gx_submit(&x, &io[3], 0, SNIC_GIMBAL_READ, 4 * KIB);
        assert_int_equal(snic_gimbal_check(x.g), 0);
        group_parked_close(&x, io, 2 + (uint32_t)moved);
    }
}

/* A group with a cap of 10 MB/s waits until its bucket is full, for an I/O of tenant 1; of tenant 0
 * small ones have left. */
static void group_waits_for_large(struct gx *x, struct snic_gimbal_io *io, uint32_t smalls,
                                  uint64_t own_bytes_per_second)
{
    struct snic_gimbal_opts o = {
        .tenants_max = 2, .groups_max = 1, .flags = SNIC_GIMBAL_NO_EXPRESS};
    struct snic_gimbal_tenant_opts cap = group_opts(1, 0);
    struct snic_gimbal_tenant_opts t = group_opts(1, 1);
    gx_open(x, &o);
    cap.bytes_per_second = 10000000;
    assert_int_equal(snic_gimbal_group_add(x->g, 1, &cap), 0);
    assert_int_equal(snic_gimbal_tenant_add(x->g, 1, &t), 0);
    t.bytes_per_second = own_bytes_per_second;
    assert_int_equal(snic_gimbal_tenant_add(x->g, 0, &t), 0);
    x->now = SEC;
    for (uint32_t i = 0; i < smalls; i++)
        gx_submit(x, &io[i], 0, SNIC_GIMBAL_READ, 4 * KIB);
    for (uint32_t i = 0; i < 2; i++)
        assert_ptr_equal(snic_gimbal_poll(x->g, SEC), &io[i]);
    assert_null(snic_gimbal_poll(x->g, SEC));
    gx_submit(x, &io[smalls], 1, SNIC_GIMBAL_READ, 64 * KIB);
    assert_ptr_equal(snic_gimbal_poll(x->g, SEC), &io[smalls]);
    gx_submit(x, &io[smalls + 1], 1, SNIC_GIMBAL_READ, 128 * KIB);
    assert_null(snic_gimbal_poll(x->g, SEC));
}

/* The large I/O is cancelled: a small one behind it leaves at once, as the cap allows. */
static void test_gimbal_groups_cancel_of_large_frees_small(void **state)
{
    (void)state;
    struct snic_gimbal_io io[5];
    struct gx x;
    group_waits_for_large(&x, io, 2, 0);
    gx_submit(&x, &io[4], 1, SNIC_GIMBAL_READ, 4 * KIB);
    assert_null(snic_gimbal_poll(x.g, SEC));
    assert_int_equal(snic_gimbal_cancel(x.g, &io[3], SEC), 0);
    assert_int_equal(snic_gimbal_check(x.g), 0);
    assert_ptr_equal(snic_gimbal_poll(x.g, SEC), &io[4]);
    for (int i = 0; i < 5; i++)
        if (i != 3)
            snic_gimbal_complete(x.g, &io[i], 1, SEC);
    gx_close(&x);
}

/* A small I/O whose tenant's own cap lets it go does not wait for the time of the large one. */
static void test_gimbal_groups_small_passes_when_its_own_cap_allows(void **state)
{
    (void)state;
    struct snic_gimbal_io io[5];
    struct gx x;
    group_waits_for_large(&x, io, 3, 1000000);
    assert_ptr_equal(gx_next(&x), &io[2]);
    assert_in_range(x.now, SEC + 2 * MS, SEC + 3 * MS); /* the bucket is full after 7.8 */
    assert_ptr_equal(gx_next(&x), &io[4]);
    for (int i = 0; i < 5; i++)
        snic_gimbal_complete(x.g, &io[i], 1, x.now);
    gx_close(&x);
}

/* The wait of any I/O of a tenant in a group stays within the bound. */
static void test_gimbal_groups_wait_within_bound(void **state)
{
    (void)state;
    struct sim s;
    group_sim(&s, 9);
    assert_int_equal(snic_gimbal_group_add(s.x.g, 1, NULL), 0);
    for (uint32_t t = 0; t < 9; t++) {
        group_tenant(&s, t, 1 + t % 3, t > 2);
        sim_client(&s, t, t % 2, t == 8 ? 4096 : 1u << 20, t == 8 ? 1 : 16, SEC);
    }
    uint64_t bound = snic_gimbal_wait_max_ns(s.x.g, 8, MS);
    assert_true(bound > snic_gimbal_wait_max_ns(s.x.g, 0, MS));
    sim_run(&s, SEC);
    struct snic_gimbal_tenant_view v = gx_tenant(&s.x, 8);
    assert_true(v.ios[0] > 10 && v.wait_ns / v.ios[0] <= bound);
    sim_close(&s);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_gimbal_groups_errors_change_nothing),
        cmocka_unit_test(test_gimbal_groups_count_as_one_tenant),
        cmocka_unit_test(test_gimbal_groups_weights_on_both_levels),
        cmocka_unit_test(test_gimbal_groups_cap_in_bytes_by_weight),
        cmocka_unit_test(test_gimbal_groups_cap_lone_reader_beside_large),
        cmocka_unit_test(test_gimbal_groups_share_of_idle_is_the_others),
        cmocka_unit_test(test_gimbal_groups_moved_under_load),
        cmocka_unit_test(test_gimbal_groups_moved_tenant_has_share_at_once),
        cmocka_unit_test(test_gimbal_groups_cap_shared_beside_floor),
        cmocka_unit_test(test_gimbal_groups_floor_under_cap),
        cmocka_unit_test(test_gimbal_groups_floors_above_cap),
        cmocka_unit_test(test_gimbal_groups_emptied_while_parked),
        cmocka_unit_test(test_gimbal_groups_cancel_of_large_frees_small),
        cmocka_unit_test(test_gimbal_groups_small_passes_when_its_own_cap_allows),
        cmocka_unit_test(test_gimbal_groups_wait_within_bound),
    };
    return SUPPORT_MAIN(argc, argv, tests);
}
