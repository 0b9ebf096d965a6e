/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * Floors on a simple simulated device: what a tenant or a group gets at least, whatever the others
 * do; what too many floors are cut to; that one unused costs nothing. On the SSD model:
 * tests/ssd/test_gimbal_floors_ssd.c.
 */
#include "test_gimbal_util.h"

static struct snic_gimbal_tenant_opts floor_opts(uint64_t bytes, uint64_t ios)
{
    return (struct snic_gimbal_tenant_opts){.opts_size = sizeof(struct snic_gimbal_tenant_opts),
                                            .floor_bytes_per_second = bytes,
                                            .floor_ios_per_second = ios};
}

/* A device of 1 GB/s and a switch that knows it. */
static void floor_sim(struct sim *s, uint32_t tenants)
{
    struct snic_gimbal_opts o = {.tenants_max = tenants,
                                 .groups_max = 2,
                                 .rate_start = SEC * 9 / 10,
                                 .rate_min = SEC * 9 / 10,
                                 .rate_max = SEC * 9 / 10};
    sim_open(s, &o);
}

static void floor_tenant(struct sim *s, uint32_t tenant, const struct snic_gimbal_tenant_opts *o)
{
    assert_int_equal(snic_gimbal_tenant_add(s->x.g, tenant, o), 0);
}

/* Fifteen others of weight 256, which leave a tenant of weight 1 next to nothing. */
static void floor_others(struct sim *s, uint32_t from, uint32_t to, uint8_t op, uint64_t to_ns)
{
    struct snic_gimbal_tenant_opts o = floor_opts(0, 0);
    o.weight = SNIC_GIMBAL_WEIGHT_MAX;
    for (uint32_t t = from; t < to; t++) {
        floor_tenant(s, t, &o);
        sim_client(s, t, op, 128 * KIB, 16, to_ns);
    }
}

/* The least that the tenant gets in a second, by windows that begin every 50 ms. */
static uint64_t floor_least(struct sim *s, uint32_t tenant, int ios, uint32_t seconds)
{
    uint64_t at[201];
    uint64_t least = SNIC_NEVER;
    uint32_t n = seconds * 20;
    assert_true(n < SNIC_COUNTOF(at));
    for (uint32_t i = 0; i <= n; i++) {
        struct snic_gimbal_tenant_view v = gx_tenant(&s->x, tenant);
        at[i] = ios ? v.ios[0] + v.ios[1] : v.bytes[0] + v.bytes[1];
        if (i >= 20)
            least = snic_min_u64(least, at[i] - at[i - 20]);
        sim_run(s, s->x.now + 50 * MS);
        assert_int_equal(snic_gimbal_check(s->x.g), 0);
    }
    return least;
}

static void test_gimbal_floors_bad_options_refused(void **state)
{
    (void)state;
    struct snic_gimbal_opts so = {.tenants_max = 1, .groups_max = 1};
    struct snic_gimbal_tenant_opts bad[] = {floor_opts((UINT64_C(1) << 40) + 1, 0),
                                            floor_opts(0, (UINT64_C(1) << 40) + 1),
                                            floor_opts(1001, 0), floor_opts(0, 11)};
    static const char *const wrong[] = {"floor_bytes_per_second", "floor_ios_per_second",
                                        "floor_bytes_per_second", "floor_ios_per_second"};
    struct gx x;
    bad[2].bytes_per_second = 1000;
    bad[3].ios_per_second = 10;
    gx_open(&x, &so);
    for (size_t i = 0; i < SNIC_COUNTOF(bad); i++) {
        const char *text = snic_gimbal_tenant_opts_wrong(&bad[i]);
        assert_non_null(text);
        assert_memory_equal(text, wrong[i], strlen(wrong[i]));
        assert_int_equal(snic_gimbal_tenant_add(x.g, 0, &bad[i]), SNIC_EINVAL);
        assert_int_equal(snic_gimbal_group_add(x.g, 1, &bad[i]), SNIC_EINVAL);
    }
    assert_true(gx_view(&x).floors == 0 && gx_view(&x).tenants == 0 && gx_view(&x).groups == 0);
    assert_int_equal(gx_view(&x).floor_part, SNIC_GIMBAL_FLOOR_ONE);
    gx_close(&x);
}

/* In bytes and in I/Os, of reads and writes, large and small: met to one percent and one I/O. */
static void test_gimbal_floors_hold_beside_heavy_tenants(void **state)
{
    (void)state;
    static const struct {
        uint64_t bytes, ios;
        uint32_t size;
        uint8_t op, their_op;
    } cases[] = {
        {200000000, 0, 4 * KIB, 0, 0},     {0, 20000, 4 * KIB, 0, 1},
        {300000000, 0, 128 * KIB, 0, 1},   {20000000, 0, 16 * KIB, 1, 1},
        {0, 100, 128 * KIB, 1, 0},         {0, 10, 4 * KIB, 0, 0},
        {400000000, 1000, 64 * KIB, 0, 0},
    };
    for (size_t i = 0; i < SNIC_COUNTOF(cases); i++) {
        struct sim s;
        struct snic_gimbal_tenant_opts o = floor_opts(cases[i].bytes, cases[i].ios);
        floor_sim(&s, 16);
        floor_tenant(&s, 0, &o);
        sim_client(&s, 0, cases[i].op, cases[i].size, 64, 5 * SEC);
        floor_others(&s, 1, 16, cases[i].their_op, 5 * SEC);
        sim_run(&s, SEC / 2);
        uint64_t floor = cases[i].bytes != 0 ? cases[i].bytes : cases[i].ios;
        uint64_t one = cases[i].bytes != 0 ? cases[i].size : 1;
        uint64_t least = floor_least(&s, 0, cases[i].bytes == 0, 4);
        if (least + floor / 100 + one < floor)
            fail_msg("case %zu: %llu of %llu", i, (unsigned long long)least,
                     (unsigned long long)floor);
        assert_true(gx_view(&s.x).floor_ios > 0);
        assert_int_equal(gx_view(&s.x).floor_part, SNIC_GIMBAL_FLOOR_ONE);
        sim_close(&s);
    }
}

/* A tenant whose share is more than its floor gets no more for having one. */
static void test_gimbal_floors_below_share_change_nothing(void **state)
{
    (void)state;
    uint64_t got[2];
    for (int with = 0; with < 2; with++) {
        struct sim s;
        struct snic_gimbal_tenant_opts o = floor_opts(with ? 100000000 : 0, 0);
        floor_sim(&s, 4);
        for (uint32_t t = 0; t < 4; t++) {
            floor_tenant(&s, t, t == 0 ? &o : NULL);
            sim_client(&s, t, SNIC_GIMBAL_READ, 64 * KIB, 32, 3 * SEC);
        }
        sim_run(&s, 3 * SEC);
        got[with] = sim_bytes(&s, 0);
        sim_close(&s);
    }
    assert_true(got[1] <= got[0] + got[0] / 100 && got[1] + got[0] / 100 >= got[0]);
}

/* Floors of tenants without I/Os: bit for bit what it is without floors. */
static void test_gimbal_floors_unused_cost_nothing(void **state)
{
    (void)state;
    uint64_t got[2][4];
    for (int with = 0; with < 2; with++) {
        struct sim s;
        struct snic_gimbal_tenant_opts o = floor_opts(with ? UINT64_C(1) << 39 : 0, 0);
        floor_sim(&s, 8);
        for (uint32_t t = 0; t < 8; t++) {
            floor_tenant(&s, t, t >= 4 ? &o : NULL);
            if (t < 4)
                sim_client(&s, t, t % 2, (4u << t) * KIB, 32, 2 * SEC);
        }
        sim_run(&s, 2 * SEC);
        for (uint32_t t = 0; t < 4; t++)
            got[with][t] = sim_bytes(&s, t);
        assert_int_equal(gx_view(&s.x).floor_part, SNIC_GIMBAL_FLOOR_ONE);
        sim_close(&s);
    }
    assert_memory_equal(got[0], got[1], sizeof(got[0]));
}

/* 2 GB/s promised of 0.9: each has the same part of its floor, the views show which, the others
 * still have an eighth; when one of them stops the rest have all of theirs. */
static void test_gimbal_floors_too_many_cut_in_proportion(void **state)
{
    (void)state;
    static const uint64_t floors[] = {800000000, 400000000, 800000000};
    struct sim s;
    uint64_t before[4], got[4];
    floor_sim(&s, 4);
    for (uint32_t t = 0; t < 3; t++) {
        struct snic_gimbal_tenant_opts o = floor_opts(floors[t], 0);
        floor_tenant(&s, t, &o);
        sim_client(&s, t, SNIC_GIMBAL_READ, t == 1 ? 16 * KIB : 64 * KIB, 64,
                   t == 1 ? 20 * SEC : 6 * SEC);
    }
    floor_others(&s, 3, 4, SNIC_GIMBAL_READ, 20 * SEC);
    sim_run(&s, 3 * SEC);
    for (uint32_t t = 0; t < 4; t++)
        before[t] = sim_bytes(&s, t);
    sim_run(&s, 5 * SEC);
    uint32_t part = gx_view(&s.x).floor_part;
    assert_in_range(part, SNIC_GIMBAL_FLOOR_ONE * 30 / 100, SNIC_GIMBAL_FLOOR_ONE * 46 / 100);
    for (uint32_t t = 0; t < 4; t++)
        got[t] = (sim_bytes(&s, t) - before[t]) / 2;
    for (uint32_t t = 0; t < 3; t++) {
        uint64_t now = gx_tenant(&s.x, t).floor_bytes_per_second;
        assert_true(now >= floors[t] / 100 * 30 && now <= floors[t] / 100 * 46);
        assert_true(got[t] >= floors[t] / 100 * 34 && got[t] <= floors[t] / 100 * 46);
    }
    assert_true(got[0] >= got[2] - got[2] / 50 && got[0] <= got[2] + got[2] / 50);
    assert_true(got[0] >= got[1] * 19 / 10 && got[0] <= got[1] * 21 / 10);
    assert_true(got[3] >= 900000000 / 10);
    sim_run(&s, 9 * SEC); /* tenant 1's is left */
    assert_int_equal(gx_view(&s.x).floor_part, SNIC_GIMBAL_FLOOR_ONE);
    before[1] = sim_bytes(&s, 1);
    sim_run(&s, 10 * SEC);
    assert_true(sim_bytes(&s, 1) - before[1] >= floors[1] / 100 * 99);
    sim_close(&s);
}

/* A group's floor is its tenants' together; a tenant's holds inside its group, too. */
static void test_gimbal_floors_of_groups_and_members(void **state)
{
    (void)state;
    struct sim s;
    struct snic_gimbal_tenant_opts group = floor_opts(300000000, 0);
    struct snic_gimbal_tenant_opts member = floor_opts(100000000, 0);
    struct snic_gimbal_tenant_view v;
    floor_sim(&s, 14);
    assert_int_equal(snic_gimbal_group_add(s.x.g, 1, &group), 0);
    member.group = 1;
    floor_tenant(&s, 0, &member);
    member.floor_bytes_per_second = 0;
    member.weight = 40;
    floor_tenant(&s, 1, &member);
    floor_tenant(&s, 2, &member);
    for (uint32_t t = 0; t < 3; t++)
        sim_client(&s, t, SNIC_GIMBAL_READ, 32 * KIB, 32, 4 * SEC);
    floor_others(&s, 3, 14, SNIC_GIMBAL_READ, 4 * SEC);
    sim_run(&s, SEC / 2);
    uint64_t least = floor_least(&s, 0, 0, 3);
    assert_int_equal(snic_gimbal_get_group_view(s.x.g, 1, &v), 0);
    assert_true(least >= 98900000);
    assert_int_equal(v.members, 3);
    assert_int_equal(v.floor_bytes_per_second, 300000000);
    assert_true(v.bytes[0] >= 34 * UINT64_C(29700000)); /* in 3.5 s, less one percent */
    sim_close(&s);
}

/* A tenant that comes to a group with I/Os queued is owed nothing for the time in which the group
 * had none, but for one percent of a second. */
static void test_gimbal_floors_idle_group_makes_up_for_nothing(void **state)
{
    (void)state;
    struct sim s;
    struct snic_gimbal_tenant_opts o = floor_opts(300000000, 0);
    floor_sim(&s, 4);
    assert_int_equal(snic_gimbal_group_add(s.x.g, 1, &o), 0);
    floor_tenant(&s, 0, NULL);
    sim_client(&s, 0, SNIC_GIMBAL_READ, 128 * KIB, 64, 2 * SEC);
    floor_others(&s, 1, 4, SNIC_GIMBAL_READ, 2 * SEC);
    sim_run(&s, SEC);
    o = floor_opts(0, 0);
    o.group = 1;
    assert_int_equal(snic_gimbal_tenant_set(s.x.g, 0, &o), 0);
    assert_int_equal(snic_gimbal_check(s.x.g), 0);
    uint64_t before = sim_bytes(&s, 0);
    sim_run(&s, s.x.now + 100 * MS);
    assert_in_range(sim_bytes(&s, 0) - before, 29000000, 36000000);
    sim_close(&s);
}

/* Given, changed and taken away under load, and with a cap. */
static void test_gimbal_floors_changed_live(void **state)
{
    (void)state;
    struct sim s;
    uint64_t before;
    struct snic_gimbal_tenant_opts o = floor_opts(0, 0);
    floor_sim(&s, 16);
    floor_tenant(&s, 0, &o);
    sim_client(&s, 0, SNIC_GIMBAL_READ, 16 * KIB, 64, 10 * SEC);
    floor_others(&s, 1, 16, SNIC_GIMBAL_READ, 10 * SEC);
    sim_run(&s, SEC);
    assert_true(sim_bytes(&s, 0) < 50000000);
    for (int i = 0; i < 1000; i++) { /* any number of times */
        o.floor_bytes_per_second = 100000000 + (uint64_t)(i % 7) * 10000000;
        o.bytes_per_second = i % 2 ? 0 : 200000000;
        assert_int_equal(snic_gimbal_tenant_set(s.x.g, 0, &o), 0);
        sim_run(&s, s.x.now + MS);
    }
    before = sim_bytes(&s, 0);
    assert_true(before >= 99000000 && before <= 250000000);
    o.bytes_per_second = o.floor_bytes_per_second = 150000000; /* both: exactly so much */
    assert_int_equal(snic_gimbal_tenant_set(s.x.g, 0, &o), 0);
    before = sim_bytes(&s, 0);
    sim_run(&s, s.x.now + 2 * SEC);
    assert_in_range(sim_bytes(&s, 0) - before, 295000000, 303000000);
    o = floor_opts(0, 0);
    assert_int_equal(snic_gimbal_tenant_set(s.x.g, 0, &o), 0);
    assert_int_equal(gx_view(&s.x).floors, 0);
    before = sim_bytes(&s, 0);
    sim_run(&s, s.x.now + SEC);
    assert_true(sim_bytes(&s, 0) - before < 50000000);
    sim_close(&s);
}

/* All that others wait stays within the bound while a floor takes what it may. */
static void test_gimbal_floors_leave_others_within_bound(void **state)
{
    (void)state;
    struct sim s;
    struct snic_gimbal_tenant_opts o = floor_opts(UINT64_C(1) << 40, 0);
    floor_sim(&s, 3);
    floor_tenant(&s, 0, &o);
    floor_tenant(&s, 1, NULL);
    floor_tenant(&s, 2, NULL);
    sim_client(&s, 0, SNIC_GIMBAL_READ, 128 * KIB, 64, 2 * SEC);
    sim_client(&s, 1, SNIC_GIMBAL_WRITE, 1u << 20, 8, 2 * SEC);
    sim_client(&s, 2, SNIC_GIMBAL_READ, 4 * KIB, 8, 2 * SEC);
    uint64_t bound = snic_gimbal_wait_max_ns(s.x.g, 2, 10 * MS);
    sim_run(&s, 2 * SEC);
    assert_true(s.wait_max_ns <= bound * 64); /* the n-th within n times */
    uint64_t others = sim_bytes(&s, 1) + sim_bytes(&s, 2);
    assert_true(others >= sim_bytes(&s, 0) / 30); /* of costs an eighth: writes cost nine times */
    sim_close(&s);
}

/* What the lane sends while the round robin has nothing is not charged to it: after ten seconds
 * beside reads of the express lane alone, the floor holds from the moment at which others come. */
static void test_gimbal_floors_alone_run_up_no_debt(void **state)
{
    (void)state;
    struct sim s;
    struct snic_gimbal_tenant_opts o = floor_opts(300000000, 0);
    floor_sim(&s, 21);
    s.latency_ns = MS; /* its share of slots is less than the floor */
    floor_tenant(&s, 0, &o);
    sim_client(&s, 0, SNIC_GIMBAL_READ, 128 * KIB, 64, 12 * SEC);
    for (uint32_t t = 1; t < 17; t++) {
        floor_tenant(&s, t, NULL);
        sim_client(&s, t, SNIC_GIMBAL_READ, 4 * KIB, 1, 12 * SEC);
    }
    sim_run(&s, 10 * SEC);
    uint64_t lane = gx_view(&s.x).floor_ios * 128 * KIB;
    assert_true(lane >= sim_bytes(&s, 0) / 10 * 9 && lane >= 2900000000);
    floor_others(&s, 17, 21, SNIC_GIMBAL_READ, 12 * SEC);
    uint64_t before = sim_bytes(&s, 0);
    sim_run(&s, s.x.now + SEC / 4);
    assert_true(sim_bytes(&s, 0) - before >= 300000000 / 4 / 100 * 97);
    sim_close(&s);
}

/* Under its group's cap, beside others' single small reads, which pass turns, also when the owner
 * polls late. */
static void test_gimbal_floors_capped_beside_single_reads(void **state)
{
    static const uint64_t polls[] = {1, 20000, 50000};
    (void)state;
    for (unsigned mix = 0; mix < 36; mix++) {
        struct snic_gimbal_tenant_opts cap = floor_opts(0, 0);
        struct snic_gimbal_tenant_opts floor = floor_opts(60000000, 0);
        struct snic_gimbal_tenant_opts other = floor_opts(0, 0);
        struct sim s;
        floor_sim(&s, 32);
        s.poll_ns = polls[mix / 12];
        cap.bytes_per_second = 80000000;
        floor.group = other.group = 1;
        assert_int_equal(snic_gimbal_group_add(s.x.g, 1, &cap), 0);
        floor_tenant(&s, 0, &floor);
        sim_client(&s, 0, mix & 1, mix & 2 ? 4 * KIB : 128 * KIB, 256, 3 * SEC);
        for (uint32_t t = 1; t <= 1u << 2 * (mix / 4 % 3); t++) {
            floor_tenant(&s, t, &other);
            sim_client(&s, t, SNIC_GIMBAL_READ, 4 * KIB, 1, 3 * SEC);
        }
        sim_run(&s, SEC);
        uint64_t sent = sim_bytes(&s, 0);
        sim_run(&s, 2 * SEC);
        sent = sim_bytes(&s, 0) - sent;
        if (sent < 59269000 || sent > 61000000) /* less one percent and one I/O */
            fail_msg("mix %u: %.1f MB/s", mix, (double)sent / 1e6);
        assert_int_equal(snic_gimbal_check(s.x.g), 0);
        sim_close(&s);
    }
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_gimbal_floors_bad_options_refused),
        cmocka_unit_test(test_gimbal_floors_hold_beside_heavy_tenants),
        cmocka_unit_test(test_gimbal_floors_below_share_change_nothing),
        cmocka_unit_test(test_gimbal_floors_unused_cost_nothing),
        cmocka_unit_test(test_gimbal_floors_too_many_cut_in_proportion),
        cmocka_unit_test(test_gimbal_floors_of_groups_and_members),
        cmocka_unit_test(test_gimbal_floors_idle_group_makes_up_for_nothing),
        cmocka_unit_test(test_gimbal_floors_changed_live),
        cmocka_unit_test(test_gimbal_floors_leave_others_within_bound),
        cmocka_unit_test(test_gimbal_floors_alone_run_up_no_debt),
        cmocka_unit_test(test_gimbal_floors_capped_beside_single_reads),
    };
    return SUPPORT_MAIN(argc, argv, tests);
}
