/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * Long random runs: tenants come, change and go, I/Os of all sizes are submitted, cancelled, lost
 * for a while, completed in any order, with errors, under all flags, while time passes, jumps or
 * stands still. After each event the whole switch is checked (with thousands of tenants: now and
 * then) and compared with where each I/O should be; at the end everything must have come out.
 */
#include "test_gimbal_util.h"

enum { NOWHERE, QUEUED, OUT };

struct run {
    struct gx x;
    struct snic_rng r;
    struct snic_gimbal_io *ios;
    uint8_t *where;
    uint32_t *pick[3]; /* I/Os by where they are */
    uint32_t *place;   /* of each in its list */
    uint32_t count[3];
    uint32_t total;
    uint32_t tenants;
    uint32_t size_max;
    uint64_t sent;
};

static uint64_t rnd(struct run *q, uint64_t bound)
{
    return snic_rng_below(&q->r, bound);
}

static void move(struct run *q, uint32_t i, uint8_t to)
{
    uint8_t from = q->where[i];
    uint32_t last = q->pick[from][--q->count[from]];
    q->pick[from][q->place[i]] = last;
    q->place[last] = q->place[i];
    q->where[i] = to;
    q->place[i] = q->count[to];
    q->pick[to][q->count[to]++] = i;
}

static void run_open(struct run *q, uint64_t seed, uint32_t tenants, uint32_t total)
{
    memset(q, 0, sizeof(*q));
    snic_rng_init(&q->r, seed);
    q->tenants = tenants;
    q->total = total;
    q->size_max = 1u << (13 + rnd(q, 11));
    struct snic_gimbal_opts o = {.tenants_max = tenants,
                                 .groups_max = rnd(q, 2) == 0 ? 0 : 3,
                                 .flags = (uint32_t)rnd(q, 128),
                                 .queue_max = 1 + (uint32_t)rnd(q, 200),
                                 .size_max = q->size_max,
                                 .slot_bytes = 4096u << rnd(q, 7),
                                 .slot_threshold = 1 + (uint32_t)rnd(q, 64),
                                 .quantum_bytes = 512u << rnd(q, 10),
                                 .bucket_bytes = 4096u << rnd(q, 8),
                                 .slot_overlap = (uint32_t)rnd(q, 600),
                                 .idle_ns = 1 + rnd(q, 3 * MS),
                                 .lost_ns = 3 * MS + rnd(q, 3 * SEC)};
    gx_open(&q->x, &o);
    q->ios = calloc(total, sizeof(*q->ios));
    q->where = calloc(total, 1);
    q->place = calloc(total, sizeof(uint32_t));
    assert_true(q->ios != NULL && q->where != NULL && q->place != NULL);
    for (int k = 0; k < 3; k++) {
        q->pick[k] = calloc(total, sizeof(uint32_t));
        assert_non_null(q->pick[k]);
    }
    for (uint32_t i = 0; i < total; i++)
        q->pick[NOWHERE][i] = q->place[i] = i;
    q->count[NOWHERE] = total;
}

static void run_group(struct run *q, const struct snic_gimbal_tenant_opts *o)
{
    uint32_t group = (uint32_t)rnd(q, 5);
    switch (rnd(q, 4)) {
    case 0:
        (void)!snic_gimbal_group_remove(q->x.g, group);
        break;
    case 1:
        (void)!snic_gimbal_group_set(q->x.g, group, o);
        break;
    default:
        (void)!snic_gimbal_group_add(q->x.g, group, o);
        break;
    }
}

static void run_tenant(struct run *q)
{
    struct snic_gimbal_tenant_opts o = {.opts_size = sizeof(o)};
    uint32_t tenant = (uint32_t)rnd(q, q->tenants + 1);
    o.weight = rnd(q, 4) == 0 ? (uint32_t)rnd(q, SNIC_GIMBAL_WEIGHT_MAX + 1) : 0;
    if (rnd(q, 4) == 0) {
        o.bytes_per_second = rnd(q, 3) == 0 ? 0 : 1 + rnd(q, UINT64_C(1) << rnd(q, 41));
        o.ios_per_second = rnd(q, 3) == 0 ? 0 : 1 + rnd(q, UINT64_C(1) << rnd(q, 20));
    }
    if (q->x.g != NULL && rnd(q, 4) == 0) {
        uint64_t most = o.bytes_per_second != 0 ? o.bytes_per_second : UINT64_C(1) << rnd(q, 31);
        o.floor_bytes_per_second = rnd(q, most + 1);
        most = o.ios_per_second != 0 ? o.ios_per_second : 100000;
        o.floor_ios_per_second = rnd(q, 2) == 0 ? 0 : rnd(q, most + 1);
    }
    if (rnd(q, 8) == 0) {
        run_group(q, &o);
        return;
    }
    o.group = rnd(q, 2) == 0 ? 0 : (uint32_t)rnd(q, 5);
    for (int p = 0; p < 8; p++)
        o.priority_weight[p] = (uint8_t)(rnd(q, 3) == 0 ? rnd(q, 256) : 0);
    switch (rnd(q, 5)) {
    case 0:
        (void)!snic_gimbal_tenant_remove(q->x.g, tenant);
        break;
    case 1:
        (void)!snic_gimbal_tenant_set(q->x.g, tenant, &o);
        break;
    default:
        (void)!snic_gimbal_tenant_add(q->x.g, tenant, rnd(q, 3) == 0 ? NULL : &o);
        break;
    }
}

static void run_submit(struct run *q)
{
    if (q->count[NOWHERE] == 0)
        return;
    uint32_t i = q->pick[NOWHERE][rnd(q, q->count[NOWHERE])];
    uint64_t limit = rnd(q, 8) == 0 ? q->size_max : snic_min_u64(q->size_max, 8192);
    uint32_t tenant = (uint32_t)rnd(q, rnd(q, 2) == 0 ? q->tenants : (q->tenants + 7) / 8);
    gx_fill(&q->ios[i], tenant, (uint8_t)rnd(q, 2), 1 + (uint32_t)rnd(q, limit));
    q->ios[i].priority = (uint8_t)rnd(q, 8);
    int r = snic_gimbal_submit(q->x.g, &q->ios[i], q->x.now);
    assert_true(r == 0 || r == SNIC_ENOENT || r == SNIC_EBUSY);
    if (r == 0)
        move(q, i, QUEUED);
}

static void run_cancel(struct run *q)
{
    uint8_t from = rnd(q, 4) == 0 ? OUT : QUEUED;
    if (q->count[from] == 0)
        return;
    uint32_t i = q->pick[from][rnd(q, q->count[from])];
    int r = snic_gimbal_cancel(q->x.g, &q->ios[i], q->x.now);
    assert_int_equal(r, from == OUT ? SNIC_EBUSY : 0);
    if (r == 0)
        move(q, i, NOWHERE);
}

/* The oldest half are likely to stay out for long. */
static void run_complete(struct run *q)
{
    if (q->count[OUT] == 0)
        return;
    uint32_t n = q->count[OUT];
    uint32_t i =
        q->pick[OUT][rnd(q, 4) != 0 ? n - 1 - (uint32_t)rnd(q, (n + 1) / 2) : (uint32_t)rnd(q, n)];
    snic_gimbal_complete(q->x.g, &q->ios[i], rnd(q, 8) != 0, q->x.now);
    assert_int_equal(q->ios[i].state, 0);
    move(q, i, NOWHERE);
}

static void run_poll(struct run *q)
{
    struct snic_gimbal_io *io;
    for (uint32_t n = 1 + (uint32_t)rnd(q, 64); n > 0; n--) {
        io = snic_gimbal_poll(q->x.g, q->x.now);
        if (io == NULL) {
            uint64_t deadline = snic_gimbal_deadline_ns(q->x.g);
            assert_true(deadline > q->x.now);
            assert_true(q->count[QUEUED] > 0 || deadline == SNIC_NEVER);
            return;
        }
        uint32_t i = (uint32_t)(io - q->ios);
        assert_true(i < q->total && q->where[i] == QUEUED); /* once */
        assert_true(io->sent_ns == q->x.now && io->queued_ns <= q->x.now);
        move(q, i, OUT);
        q->sent++;
    }
}

static void run_time(struct run *q)
{
    static const uint64_t steps[] = {100, 10000, 300000, 5 * MS, 4 * SEC};
    uint64_t deadline = snic_gimbal_deadline_ns(q->x.g);
    if (rnd(q, 4) == 0 && deadline != SNIC_NEVER && deadline > q->x.now)
        q->x.now = deadline;
    else if (rnd(q, 100) != 0)
        q->x.now += rnd(q, steps[rnd(q, 3)]);
    else
        q->x.now += rnd(q, steps[rnd(q, SNIC_COUNTOF(steps))]);
}

static void run_event(struct run *q)
{
    switch (rnd(q, 16)) {
    case 0:
        if (rnd(q, 4) == 0)
            run_tenant(q);
        break;
    case 1:
    case 2:
        run_time(q);
        break;
    case 3:
        run_cancel(q);
        break;
    case 4:
    case 5:
    case 6:
        run_poll(q);
        break;
    case 7:
    case 8:
    case 9:
    case 10:
        run_complete(q);
        break;
    default:
        run_submit(q);
        break;
    }
}

/* Nothing stays inside once the device answers. */
static void run_close(struct run *q)
{
    for (uint32_t turns = 0; q->count[QUEUED] + q->count[OUT] > 0; turns++) {
        assert_true(turns < 1000000);
        struct snic_gimbal_io *io;
        while ((io = snic_gimbal_poll(q->x.g, q->x.now)) != NULL)
            move(q, (uint32_t)(io - q->ios), OUT);
        uint64_t deadline = snic_gimbal_deadline_ns(q->x.g);
        if (q->count[OUT] > 0) {
            uint32_t i = q->pick[OUT][0];
            snic_gimbal_complete(q->x.g, &q->ios[i], 1, q->x.now += 100);
            move(q, i, NOWHERE);
        } else if (q->count[QUEUED] > 0) {
            assert_true(deadline != SNIC_NEVER); /* no tenant is forgotten */
            q->x.now = deadline;
        }
    }
    assert_int_equal(gx_view(&q->x).lost, 0);
    gx_close(&q->x);
    for (int k = 0; k < 3; k++)
        free(q->pick[k]);
    free(q->place);
    free(q->where);
    free(q->ios);
}

static void run_random(uint64_t seed, uint32_t tenants, uint32_t total, uint64_t events,
                       uint32_t every)
{
    struct run q;
    run_open(&q, seed, tenants, total);
    for (uint32_t i = 0; i < tenants; i++)
        run_tenant(&q);
    for (uint64_t e = 1; e <= events; e++) {
        run_event(&q);
        if (e % every != 0)
            continue;
        if (snic_gimbal_check(q.x.g) != 0)
            fail_msg("check: seed %llu, %u tenants, event %llu", (unsigned long long)seed, tenants,
                     (unsigned long long)e);
        struct snic_gimbal_view v = gx_view(&q.x);
        assert_true(v.queued == q.count[QUEUED] && v.inflight == q.count[OUT]);
    }
    run_close(&q);
    assert_true(q.sent > 0 || events < 1000);
}

static void test_gimbal_random_few_tenants(void **state)
{
    (void)state;
    for (uint64_t i = 0; i < support_scale(80, 1000); i++)
        run_random(support_seed() * 1000 + i, 1 + (uint32_t)(i % 6), 40, 10000, 1);
}

static void test_gimbal_random_many_tenants(void **state)
{
    (void)state;
    for (uint64_t i = 0; i < support_scale(3, 30); i++)
        run_random(support_seed() * 1000 + i, 64, 2000, 100000, 50);
}

static void test_gimbal_random_4096_tenants(void **state)
{
    (void)state;
    run_random(support_seed(), 4096, 20000, support_scale(200000, 5000000), 10000);
}

/* Others at each commit. */
static void test_gimbal_random_other_seeds(void **state)
{
    (void)state;
    uint64_t from = support_turn(UINT64_C(1) << 32) * 1000 + 500;
    for (uint64_t i = 0; i < support_scale(40, 400); i++)
        run_random(from + i, 1 + (uint32_t)(i % 6), 40, 10000, 1);
}

/*
 * A group with a cap, whose tenants have clients that saturate it, with I/Os and floors of any
 * kind, on a device that is fast enough: while the floors fit into 7/8 of the cap (what the lane
 * has beside turns) each is met, less one percent and one I/O; else each is cut by the same part.
 */
static void run_floors(uint64_t seed)
{
    static const uint32_t sizes[] = {4 * KIB, 16 * KIB, 64 * KIB, 128 * KIB};
    uint64_t floors[4] = {0};
    uint64_t before[4];
    uint32_t largest[4] = {0};
    uint64_t sum = 0;
    struct snic_gimbal_opts o = {.tenants_max = 4, .groups_max = 1, .rate_start = SEC / 2};
    struct snic_gimbal_tenant_opts cap = {.opts_size = sizeof(cap)};
    struct snic_rng r;
    struct sim s;
    snic_rng_init(&r, seed);
    sim_open(&s, &o);
    cap.bytes_per_second = 20000000 + snic_rng_below(&r, 80000000);
    assert_int_equal(snic_gimbal_group_add(s.x.g, 1, &cap), 0);
    uint32_t tenants = 2 + (uint32_t)snic_rng_below(&r, 3);
    for (uint32_t t = 0; t < tenants; t++) {
        struct snic_gimbal_tenant_opts m = {.opts_size = sizeof(m), .group = 1};
        if (t == 0 || snic_rng_below(&r, 2) == 0)
            floors[t] = 1 + snic_rng_below(&r, cap.bytes_per_second);
        m.floor_bytes_per_second = floors[t];
        sum += floors[t];
        m.weight = 1 + (uint32_t)snic_rng_below(&r, 4);
        assert_int_equal(snic_gimbal_tenant_add(s.x.g, t, &m), 0);
        for (uint64_t n = 1 + snic_rng_below(&r, 2); n > 0; n--) {
            uint32_t size = sizes[snic_rng_below(&r, SNIC_COUNTOF(sizes))];
            largest[t] = (uint32_t)snic_max_u64(largest[t], size);
            sim_client(&s, t, (uint8_t)snic_rng_below(&r, 2), size, 64, 2 * SEC);
        }
    }
    sim_run(&s, SEC);
    for (uint32_t t = 0; t < tenants; t++)
        before[t] = sim_bytes(&s, t);
    sim_run(&s, 2 * SEC);
    uint64_t most = snic_max_u64(sum, cap.bytes_per_second * 7 / 8);
    for (uint32_t t = 0; t < tenants; t++) {
        uint64_t sent = sim_bytes(&s, t) - before[t];
        uint64_t want = floors[t] * (cap.bytes_per_second * 7 / 8) / most;
        if (sent + want / 100 + largest[t] < want)
            fail_msg("seed %llu: tenant %u has %llu of %llu bytes", (unsigned long long)seed, t,
                     (unsigned long long)sent, (unsigned long long)want);
    }
    assert_int_equal(gx_view(&s.x).floor_part, SNIC_GIMBAL_FLOOR_ONE);
    assert_int_equal(snic_gimbal_check(s.x.g), 0);
    sim_close(&s);
}

static void test_gimbal_random_floors_under_caps(void **state)
{
    (void)state;
    for (uint64_t i = 0; i < support_scale(12, 200); i++)
        run_floors(support_seed() * 1000 + i);
}

/* Same seed, same I/Os at the same times. */
static void test_gimbal_random_replays(void **state)
{
    (void)state;
    uint64_t hash[2] = {0, 0};
    for (int twice = 0; twice < 2; twice++) {
        struct run q;
        run_open(&q, support_seed(), 5, 100);
        for (int e = 0; e < 20000; e++) {
            run_event(&q);
            uint64_t deadline = snic_gimbal_deadline_ns(q.x.g);
            hash[twice] = hash[twice] * 31 + q.sent * 7 + (deadline ^ deadline >> 32);
        }
        run_close(&q);
    }
    assert_true(hash[0] == hash[1]);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_gimbal_random_few_tenants),
        cmocka_unit_test(test_gimbal_random_many_tenants),
        cmocka_unit_test(test_gimbal_random_4096_tenants),
        cmocka_unit_test(test_gimbal_random_other_seeds),
        cmocka_unit_test(test_gimbal_random_floors_under_caps),
        cmocka_unit_test(test_gimbal_random_replays),
    };
    return SUPPORT_MAIN(argc, argv, tests);
}
