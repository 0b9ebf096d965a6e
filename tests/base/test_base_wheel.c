/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* The timer wheel against a list that is searched for its least element. */
#include "support.h"
#include "snicstore/base.h"

#include <stdlib.h>

#define TICK ((uint64_t)1 << SNIC_WHEEL_TICK_SHIFT)
#define TIMERS_MAX 4096

/* ---- The model ---- */

static struct snic_wheel wheel;
static struct snic_timer timers[TIMERS_MAX];
static struct {
    int armed;
    uint64_t deadline;
    uint64_t sequence;
} model[TIMERS_MAX];
static uint64_t model_sequence;
static size_t model_count;
static uint64_t model_now; /* the latest time either has seen */

static size_t model_first(void)
{
    size_t first = model_count;
    for (size_t i = 0; i < model_count; i++) {
        if (model[i].armed && (first == model_count || model[i].deadline < model[first].deadline ||
                               (model[i].deadline == model[first].deadline &&
                                model[i].sequence < model[first].sequence)))
            first = i;
    }
    return first;
}

/* ---- Both, step by step ---- */

static void both_init(size_t count, uint64_t now)
{
    snic_wheel_init(&wheel, now);
    model_count = count;
    model_sequence = 0;
    model_now = now;
    memset(model, 0, count * sizeof(model[0]));
    for (size_t i = 0; i < count; i++)
        snic_timer_init(&timers[i], NULL);
}

static void both_arm(size_t i, uint64_t deadline)
{
    snic_wheel_arm(&wheel, &timers[i], deadline);
    model[i].armed = 1;
    model[i].deadline = deadline;
    model[i].sequence = model_sequence++;
}

static void both_cancel(size_t i)
{
    snic_wheel_cancel(&wheel, &timers[i]);
    model[i].armed = 0;
}

/* Pop once; 1 if a timer came out. */
static int both_pop(uint64_t now)
{
    struct snic_timer *t = snic_wheel_pop(&wheel, now);
    size_t first = model_first();
    model_now = snic_max_u64(model_now, now);
    /* Ahead of time every arm would crowd into one slot. */
    assert_true(wheel.now_tick <= model_now >> SNIC_WHEEL_TICK_SHIFT);
    if (first == model_count || model[first].deadline > now) {
        assert_null(t);
        return 0;
    }
    assert_ptr_equal(t, &timers[first]);
    assert_int_equal(t->armed, 0);
    assert_true(t->deadline_ns == model[first].deadline);
    model[first].armed = 0;
    return 1;
}

static uint64_t both_deadline(void)
{
    size_t first = model_first();
    uint64_t want = first == model_count ? SNIC_NEVER : model[first].deadline;
    assert_true(snic_wheel_deadline_ns(&wheel) == want);
    return want;
}

static void both_check(void)
{
    uint64_t armed = 0;
    for (size_t i = 0; i < model_count; i++)
        armed += (uint64_t)model[i].armed;
    assert_true(wheel.armed == armed);
    assert_int_equal(snic_wheel_check(&wheel), 0);
}

/* From deadline to deadline until nothing is armed. */
static void both_drain(void)
{
    while (wheel.armed > 0)
        assert_int_equal(both_pop(both_deadline()), 1);
    assert_true(both_deadline() == SNIC_NEVER);
    both_check();
}

/* ---- Contracts ---- */

/* An empty wheel has no deadline and gives nothing, at whatever time it starts. */
static void test_base_wheel_empty_pop_gives_nothing(void **state)
{
    (void)state;
    static const uint64_t starts[] = {0, 1, TICK, UINT64_MAX / 2, UINT64_MAX};
    for (size_t i = 0; i < SNIC_COUNTOF(starts); i++) {
        both_init(0, starts[i]);
        assert_int_equal(both_pop(starts[i]), 0);
        assert_int_equal(both_pop(UINT64_MAX), 0);
        assert_true(both_deadline() == SNIC_NEVER);
        both_check();
    }
}

/* One nanosecond early is too early, on every level; on time is not late. */
static void test_base_wheel_any_level_never_fires_early(void **state)
{
    (void)state;
    for (unsigned bit = 0; bit < 64; bit++) {
        for (int d = -1; d <= 1; d++) {
            uint64_t deadline = ((uint64_t)1 << bit) + (uint64_t)d;
            both_init(1, 0);
            both_arm(0, deadline);
            both_check();
            if (deadline > 0)
                assert_int_equal(both_pop(deadline - 1), 0);
            both_check();
            assert_true(both_deadline() == deadline);
            assert_int_equal(both_pop(deadline), 1);
            both_check();
        }
    }
    both_init(1, 0);
    both_arm(0, SNIC_NEVER);
    assert_int_equal(both_pop(UINT64_MAX - 1), 0);
    assert_true(both_deadline() == SNIC_NEVER);
    both_check();
    both_cancel(0);
    both_check();
}

/* A deadline in the past is due at once, and the earlier one first. */
static void test_base_wheel_past_deadlines_due_at_once_in_order(void **state)
{
    (void)state;
    uint64_t now = 1000 * TICK;
    both_init(4, now);
    both_arm(0, now);
    both_arm(1, now - 500 * TICK);
    both_arm(2, 0);
    both_arm(3, now - 1);
    both_check();
    for (int i = 0; i < 4; i++)
        assert_int_equal(both_pop(now), 1);
    both_check();
}

/* Equal deadlines leave in arming order; re-arming goes to the back. */
static void test_base_wheel_equal_deadlines_leave_in_arming_order(void **state)
{
    (void)state;
    static const uint64_t far[] = {5, 100 * TICK, 5000 * TICK, TICK << 30};
    for (size_t f = 0; f < SNIC_COUNTOF(far); f++) {
        both_init(8, 0);
        for (size_t i = 0; i < 8; i++)
            both_arm(7 - i, far[f]);
        both_arm(3, far[f]);
        both_cancel(5);
        both_cancel(5);
        both_check();
        both_drain();
    }
}

/* A timer that was never armed, popped or cancelled can be cancelled again. */
static void test_base_wheel_unarmed_timer_cancel_is_harmless(void **state)
{
    (void)state;
    both_init(2, 0);
    both_cancel(0);
    both_arm(0, 10);
    both_arm(1, 10);
    assert_int_equal(both_pop(10), 1);
    both_cancel(0);
    both_check();
    assert_true(both_deadline() == 10);
    both_cancel(1);
    assert_true(both_deadline() == SNIC_NEVER);
    both_check();
}

/* check() must see damage, or it proves nothing in the other tests. */
static void test_base_wheel_damaged_check_reports(void **state)
{
    (void)state;
    both_init(3, 0);
    both_arm(0, 5);
    both_arm(1, 100 * TICK);
    both_arm(2, TICK << 20);
    both_check();
    struct snic_wheel copy = wheel;
    wheel.armed++;
    assert_int_equal(snic_wheel_check(&wheel), SNIC_ECORRUPT);
    wheel.armed = copy.armed;
    wheel.occupied[3] ^= 2;
    assert_int_equal(snic_wheel_check(&wheel), SNIC_ECORRUPT);
    wheel.occupied[3] = copy.occupied[3];
    wheel.now_tick = 101;
    assert_int_equal(snic_wheel_check(&wheel), SNIC_ECORRUPT);
    wheel.now_tick = copy.now_tick;
    timers[1].slot++;
    assert_int_equal(snic_wheel_check(&wheel), SNIC_ECORRUPT);
    timers[1].slot--;
    wheel.next_ns = 4;
    assert_int_equal(snic_wheel_check(&wheel), SNIC_ECORRUPT);
    wheel.next_ns = copy.next_ns;
    timers[0].deadline_ns = 3;
    assert_int_equal(snic_wheel_check(&wheel), SNIC_ECORRUPT);
    timers[0].deadline_ns = 5;
    both_check();
    both_drain();
}

/* ---- Exhaustive small ---- */

#define SMALL_OPS 10
#if defined(SNIC_DEBUG) /* sanitizer builds are slow */
#define SMALL_LENGTH 5
#else
#define SMALL_LENGTH 6
#endif

static void small_step(unsigned op, uint64_t *now)
{
    uint64_t level1 = *now + 70 * TICK;
    switch (op) {
    case 0:
        both_arm(0, *now);
        break;
    case 1:
        both_arm(0, level1);
        break;
    case 2:
        both_arm(1, level1);
        break;
    case 3:
        both_arm(1, level1 - 1);
        break;
    case 4:
        both_arm(2, *now + (TICK << 12));
        break;
    case 5:
        both_arm(2, *now / 2);
        break;
    case 6:
        both_cancel(0);
        break;
    case 7:
        (void)both_deadline();
        break;
    case 8:
        *now += TICK - 1;
        (void)both_pop(*now);
        break;
    default:
        *now += 66 * TICK;
        (void)both_pop(*now);
        break;
    }
}

/* Every sequence of ten kinds of step; shorter ones come first, so only the end is checked. */
static void test_base_wheel_all_short_sequences_follow_model(void **state)
{
    (void)state;
    unsigned longest = (unsigned)support_scale(SMALL_LENGTH, SMALL_LENGTH + 1);
    uint64_t sequences = 1;
    for (unsigned length = 1; length <= longest; length++) {
        sequences *= SMALL_OPS;
        for (uint64_t code = 0; code < sequences; code++) {
            uint64_t now = 60 * TICK;
            uint64_t rest = code;
            both_init(3, now);
            for (unsigned i = 0; i < length; i++, rest /= SMALL_OPS)
                small_step((unsigned)(rest % SMALL_OPS), &now);
            both_check();
            both_drain();
        }
    }
}

/* ---- Long random ---- */

static uint64_t later(uint64_t now, uint64_t span)
{
    return span > UINT64_MAX - now ? UINT64_MAX : now + span;
}

static void random_run(struct snic_rng *r, size_t count, unsigned bits, uint64_t steps)
{
    uint64_t now = snic_rng_next(r);
    now >>= snic_rng_below(r, 64);
    both_init(count, now);
    for (uint64_t step = 0; step < steps; step++) {
        size_t i = (size_t)snic_rng_below(r, count);
        uint64_t span = snic_rng_next(r), from;
        span >>= 63 - snic_rng_below(r, bits);
        switch (snic_rng_below(r, 8)) {
        case 0:
            both_cancel(i);
            break;
        case 1:
            now = later(now, span >> snic_rng_below(r, 20));
            while (both_pop(now)) {
            }
            break;
        case 2:
            now = snic_max_u64(now, snic_min_u64(both_deadline(), UINT64_MAX - 1));
            (void)both_pop(now);
            break;
        case 3:
            both_arm(i, span < now ? now - span : 0);
            break;
        case 4: /* next to or upon another timer */
            from = model[snic_rng_below(r, count)].deadline;
            both_arm(i, from ^ snic_rng_below(r, 4));
            break;
        case 5:
            (void)both_pop(now);
            break;
        default:
            both_arm(i, later(now, span));
            break;
        }
        if (step % 16 == 0)
            both_check();
        if (now > UINT64_MAX - ((uint64_t)1 << 40))
            break;
    }
    both_drain();
}

/* Any mix of spans from 1 ns to centuries, jumps included. */
static void test_base_wheel_long_random_follows_model(void **state)
{
    (void)state;
    struct snic_rng r;
    snic_rng_init(&r, support_seed());
    uint64_t rounds = support_scale(4, 100);
    for (uint64_t round = 0; round < rounds; round++) {
        for (unsigned bits = 4; bits <= 64; bits += 4) {
            random_run(&r, 2, bits, 2000);
            random_run(&r, 50, bits, 4000);
        }
    }
}

/* Thousands in one slot, all orders of arming: leaves sorted, ties included. */
static void test_base_wheel_crowded_slot_leaves_sorted(void **state)
{
    (void)state;
    struct snic_rng r;
    snic_rng_init(&r, support_seed() + 1);
    for (int shape = 0; shape < 5; shape++) {
        uint64_t base = (TICK << 13) * (uint64_t)(shape + 1);
        both_init(TIMERS_MAX, 0);
        for (size_t i = 0; i < TIMERS_MAX; i++) {
            uint64_t deadline = base;
            if (shape == 1)
                deadline += TICK - 1 - i / 4;
            else if (shape == 2)
                deadline += snic_rng_below(&r, TICK);
            else if (shape == 3)
                deadline += snic_rng_below(&r, 3);
            else if (shape == 4)
                deadline += snic_rng_below(&r, TICK << 10);
            both_arm(i, deadline);
        }
        both_check();
        for (int i = 0; i < 100; i++) { /* the slot is still far away */
            both_cancel(model_first());
            size_t timer = i % 3 == 0 ? (size_t)snic_rng_below(&r, TIMERS_MAX) : 0;
            if (i % 3 == 0)
                both_arm(timer, base + snic_rng_below(&r, TICK));
            (void)both_deadline();
            if (i % 20 == 0)
                both_check();
        }
        assert_int_equal(both_pop(base - 1), 0);
        for (int i = 0; i < 500; i++) {
            assert_int_equal(both_pop(later(base, TICK << 12)), 1);
            size_t timer = i % 5 == 0 ? (size_t)snic_rng_below(&r, TIMERS_MAX) : 0;
            if (i % 5 == 0)
                both_arm(timer, base + snic_rng_below(&r, TICK) / 2);
            if (i % 50 == 0)
                both_check();
        }
        /* The rest without the model, whose search is slow: order alone. */
        uint64_t last_deadline = 0;
        uint64_t last_sequence = 0;
        for (struct snic_timer *t; (t = snic_wheel_pop(&wheel, UINT64_MAX)) != NULL;) {
            assert_true(t->deadline_ns > last_deadline ||
                        (t->deadline_ns == last_deadline && t->sequence > last_sequence));
            last_deadline = t->deadline_ns;
            last_sequence = t->sequence;
        }
        assert_true(wheel.armed == 0);
        assert_int_equal(snic_wheel_check(&wheel), 0);
    }
}

/* A clock that lags behind what the wheel has seen fires nothing early. */
static void test_base_wheel_earlier_time_fires_nothing_early(void **state)
{
    (void)state;
    struct snic_rng r;
    snic_rng_init(&r, support_seed() + 2);
    for (int round = 0; round < 200; round++) {
        both_init(16, 0);
        for (int step = 0; step < 200; step++) {
            uint64_t now = snic_rng_below(&r, TICK << 14);
            if (snic_rng_below(&r, 3) == 0)
                (void)both_pop(now);
            else
                both_arm((size_t)snic_rng_below(&r, 16), now);
            both_check();
        }
        both_drain();
    }
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_base_wheel_empty_pop_gives_nothing),
        cmocka_unit_test(test_base_wheel_any_level_never_fires_early),
        cmocka_unit_test(test_base_wheel_past_deadlines_due_at_once_in_order),
        cmocka_unit_test(test_base_wheel_equal_deadlines_leave_in_arming_order),
        cmocka_unit_test(test_base_wheel_unarmed_timer_cancel_is_harmless),
        cmocka_unit_test(test_base_wheel_damaged_check_reports),
        cmocka_unit_test(test_base_wheel_all_short_sequences_follow_model),
        cmocka_unit_test(test_base_wheel_long_random_follows_model),
        cmocka_unit_test(test_base_wheel_crowded_slot_leaves_sorted),
        cmocka_unit_test(test_base_wheel_earlier_time_fires_nothing_early),
    };
    return SUPPORT_MAIN(argc, argv, tests);
}
