/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* The two judges of histories, on histories made by hand: right ones, and each way to be wrong. */
#include "lin.h"
#include "support.h"

#include "snicstore/base.h"

#include <string.h>

#define ALL (LIN_KEEPS_WRITTEN | LIN_KEEPS_READ)

static struct lin_op op(uint32_t kind, uint64_t call, uint64_t end, uint64_t value, uint64_t ts)
{
    struct lin_op o = {.kind = kind, .call = call, .end = end, .value = value, .ts = ts};
    o.synced = LIN_OPEN;
    return o;
}

static struct lin_op cas(uint64_t call, uint64_t end, uint64_t value, uint64_t ts, uint64_t expect,
                         uint64_t expect_ts)
{
    struct lin_op o = op(LIN_CAS, call, end, value, ts);
    o.expect = expect;
    o.expect_ts = expect_ts;
    return o;
}

static void good(const struct lin_op *ops, size_t n)
{
    const char *why = lin_check_ts(ops, n, NULL, 0, ALL, NULL);
    if (why != NULL)
        fail_msg("%s", why);
    assert_int_equal(lin_check_search(ops, n, 0, LIN_OPEN, NULL), LIN_GOOD);
}

static void bad(const struct lin_op *ops, size_t n)
{
    assert_non_null(lin_check_ts(ops, n, NULL, 0, ALL, NULL));
    assert_int_equal(lin_check_search(ops, n, 0, LIN_OPEN, NULL), LIN_BAD);
}

static void test_replica_lin_right_histories_pass(void **state)
{
    const struct lin_op apart[] = {op(LIN_READ, 1, 2, 0, 0), op(LIN_WRITE, 3, 4, 7, 10),
                                   op(LIN_READ, 5, 6, 7, 10), op(LIN_WRITE, 7, 8, 0, 20),
                                   op(LIN_READ, 9, 10, 0, 20)};
    const struct lin_op over[] = {op(LIN_WRITE, 1, 9, 7, 10), op(LIN_WRITE, 2, 8, 8, 20),
                                  op(LIN_READ, 3, 4, 7, 10), op(LIN_READ, 5, 6, 8, 20)};
    const struct lin_op open[] = {op(LIN_WRITE, 1, LIN_OPEN, 7, 10), op(LIN_READ, 2, 3, 0, 0),
                                  op(LIN_READ, 4, 5, 7, 10), op(LIN_WRITE, 6, LIN_OPEN, 8, 0)};
    const struct lin_op chain[] = {op(LIN_WRITE, 1, 2, 7, 10), cas(3, 4, 8, 11, 7, 10),
                                   cas(5, LIN_OPEN, 9, 12, 8, 11), op(LIN_READ, 6, 7, 9, 12)};
    (void)state;
    good(apart, SNIC_COUNTOF(apart));
    good(over, SNIC_COUNTOF(over));
    good(open, SNIC_COUNTOF(open));
    good(chain, SNIC_COUNTOF(chain));
}

static void test_replica_lin_wrong_histories_fail(void **state)
{
    const struct lin_op stale[] = {op(LIN_WRITE, 1, 2, 7, 10), op(LIN_WRITE, 3, 4, 8, 20),
                                   op(LIN_READ, 5, 6, 7, 10)};
    const struct lin_op back[] = {op(LIN_WRITE, 1, 2, 7, 10), op(LIN_WRITE, 3, 20, 8, 20),
                                  op(LIN_READ, 5, 6, 8, 20), op(LIN_READ, 7, 8, 7, 10)};
    const struct lin_op early[] = {op(LIN_READ, 1, 2, 7, 10), op(LIN_WRITE, 3, 4, 7, 10)};
    const struct lin_op gone[] = {op(LIN_WRITE, 1, 2, 7, 10), op(LIN_READ, 3, 4, 0, 0)};
    const struct lin_op between[] = {op(LIN_WRITE, 1, 2, 7, 10), op(LIN_WRITE, 3, 4, 8, 20),
                                     cas(5, 6, 9, 30, 7, 10)};
    const struct lin_op twice[] = {op(LIN_WRITE, 1, 2, 7, 10), cas(3, 4, 8, 11, 7, 10),
                                   cas(5, 6, 9, 12, 7, 10)};
    (void)state;
    bad(stale, SNIC_COUNTOF(stale));
    bad(back, SNIC_COUNTOF(back));
    bad(early, SNIC_COUNTOF(early));
    bad(gone, SNIC_COUNTOF(gone));
    bad(between, SNIC_COUNTOF(between));
    bad(twice, SNIC_COUNTOF(twice));
}

/* What only timestamps show. */
static void test_replica_lin_timestamps_out_of_order_fail(void **state)
{
    const struct lin_op below[] = {op(LIN_WRITE, 1, 2, 7, 20), op(LIN_WRITE, 3, 4, 8, 10)};
    const struct lin_op same[] = {op(LIN_WRITE, 1, 4, 7, 10), op(LIN_WRITE, 2, 3, 8, 10)};
    const struct lin_op other[] = {op(LIN_WRITE, 1, 2, 7, 10), op(LIN_READ, 3, 4, 8, 10)};
    const struct lin_op unwritten[] = {op(LIN_READ, 3, 4, 8, 10)};
    (void)state;
    assert_non_null(lin_check_ts(below, 2, NULL, 0, ALL, NULL));
    assert_non_null(lin_check_ts(same, 2, NULL, 0, ALL, NULL));
    assert_non_null(lin_check_ts(other, 2, NULL, 0, ALL, NULL));
    assert_non_null(lin_check_ts(unwritten, 1, NULL, 0, ALL, NULL));
}

/* A restart may lose what the model does not keep, and nothing else. */
static void test_replica_lin_restart_loses_what_it_may(void **state)
{
    struct lin_op h[] = {op(LIN_WRITE, 1, 2, 7, 10), op(LIN_WRITE, 3, 4, 8, 20),
                         op(LIN_READ, 20, 21, 7, 10)};
    struct lin_op read[] = {op(LIN_WRITE, 1, 2, 7, 10), op(LIN_WRITE, 3, LIN_OPEN, 8, 20),
                            op(LIN_READ, 5, 6, 8, 20), op(LIN_READ, 20, 21, 7, 10)};
    const uint64_t at[] = {15};
    const char *why;
    (void)state;
    assert_null(lin_check_ts(h, 3, at, 1, 0, NULL));
    assert_null(lin_check_ts(h, 3, at, 1, LIN_KEEPS_READ, NULL));
    assert_non_null(lin_check_ts(h, 3, at, 1, LIN_KEEPS_WRITTEN, NULL));
    assert_null(lin_check_ts(h, 3, at, 1, LIN_KEEPS_SYNCED, NULL));
    h[1].synced = 5;
    assert_non_null(lin_check_ts(h, 3, at, 1, LIN_KEEPS_SYNCED, NULL));
    h[1].synced = LIN_OPEN;
    h[0].synced = 5;
    assert_null(lin_check_ts(h, 3, at, 1, LIN_KEEPS_SYNCED, NULL));
    why = lin_check_ts(read, 4, at, 1, LIN_KEEPS_WRITTEN, NULL);
    assert_null(why);
    assert_non_null(lin_check_ts(read, 4, at, 1, LIN_KEEPS_READ, NULL));
}

/* Of two CAS that compared with the same, the one that was answered is lost in a restart, and the
 * other one, whose outcome is not known, comes back. Both seen without a restart between is wrong.
 */
static void test_replica_lin_restart_brings_back_what_lost_a_race(void **state)
{
    struct lin_op h[] = {op(LIN_WRITE, 1, 2, 7, 10), cas(3, 6, 8, 12, 7, 10),
                         cas(3, LIN_OPEN, 9, 11, 7, 10), op(LIN_READ, 20, 21, 9, 11),
                         op(LIN_READ, 22, 23, 9, 11)};
    const uint64_t at[] = {15};
    (void)state;
    assert_null(lin_check_ts(h, 5, at, 1, 0, NULL));
    assert_null(lin_check_ts(h, 5, at, 1, LIN_KEEPS_SYNCED, NULL));
    assert_non_null(lin_check_ts(h, 5, at, 1, LIN_KEEPS_WRITTEN, NULL));
    h[4] = op(LIN_READ, 22, 23, 8, 12);
    assert_non_null(lin_check_ts(h, 5, at, 1, 0, NULL));
    h[4] = op(LIN_READ, 4, 5, 9, 11);
    assert_non_null(lin_check_ts(h, 5, at, 1, 0, NULL));
    h[3] = op(LIN_READ, 20, 21, 8, 12);
    assert_non_null(lin_check_ts(h, 5, at, 1, 0, NULL));
}

/* The last deletion was purged, and the only log that is left has an earlier one: the key is gone
 * all the same. It is not where a value came after that, or the later deletion had not begun. */
static void test_replica_lin_earlier_tombstone_is_shown(void **state)
{
    struct lin_op h[] = {op(LIN_WRITE, 1, 2, 0, 20), op(LIN_WRITE, 3, 4, 8, 30),
                         op(LIN_WRITE, 5, 6, 0, 40), op(LIN_READ, 7, 8, 0, 0),
                         op(LIN_READ, 20, 21, 0, 20)};
    const uint64_t at[] = {15};
    (void)state;
    assert_null(lin_check_ts(h, 5, at, 1, ALL, NULL));
    assert_non_null(lin_check_ts(h, 5, NULL, 0, ALL, NULL));
    h[2] = op(LIN_WRITE, 22, 23, 0, 40);
    assert_non_null(lin_check_ts(h, 5, at, 1, ALL, NULL));
    h[2] = op(LIN_WRITE, 5, 6, 9, 40);
    h[3] = op(LIN_READ, 7, 8, 9, 40);
    assert_non_null(lin_check_ts(h, 5, at, 1, ALL, NULL));
}

struct sim_register {
    struct snic_rng rng;
    struct lin_op ops[LIN_WINDOW];
    size_t count;
};

/* A register whose operations take effect at a time of their own choice within their span. */
static void sim_register_run(struct sim_register *s, uint32_t clients)
{
    struct {
        struct lin_op op;
        uint64_t effect;
        int used;
    } c[8];
    uint64_t value = 0, ts = 0, next = 0;
    memset(c, 0, sizeof(c));
    for (uint64_t t = 1; s->count < LIN_WINDOW - 8; t++) {
        uint32_t i = (uint32_t)snic_rng_below(&s->rng, clients);
        if (!c[i].used) {
            c[i].op = op(LIN_READ + (uint32_t)snic_rng_below(&s->rng, 2), t, 0, 0, 0);
            c[i].used = 1;
            c[i].effect = 0;
        } else if (c[i].effect == 0) {
            c[i].effect = t;
            if (c[i].op.kind == LIN_WRITE) {
                value = ++next;
                ts += 16;
            }
            c[i].op.value = value;
            c[i].op.ts = ts;
        } else {
            c[i].op.end = t;
            s->ops[s->count++] = c[i].op;
            c[i].used = 0;
        }
    }
    for (uint32_t i = 0; i < clients; i++) {
        if (!c[i].used || c[i].effect == 0 || c[i].op.kind != LIN_WRITE)
            continue;
        c[i].op.end = LIN_OPEN;
        s->ops[s->count++] = c[i].op;
    }
}

/* Random histories of a right register pass both; one read changed to an older value fails both. */
static void test_replica_lin_random_both_judge_alike(void **state)
{
    static struct sim_register s;
    uint32_t caught = 0, tried = 0;
    (void)state;
    for (uint64_t i = 0; i < support_scale(100, 3000); i++) {
        memset(&s, 0, sizeof(s));
        snic_rng_init(&s.rng, support_seed() + i);
        sim_register_run(&s, 1 + (uint32_t)(i % 6));
        good(s.ops, s.count);
        struct lin_op *o = &s.ops[20 + snic_rng_below(&s.rng, s.count - 20)];
        if (o->kind != LIN_READ || o->value < 2)
            continue;
        uint64_t back = 1 + snic_rng_below(&s.rng, snic_min_u64(o->value - 1, 6));
        o->value -= back;
        o->ts -= 16 * back;
        tried++;
        int ts = lin_check_ts(s.ops, s.count, NULL, 0, ALL, NULL) != NULL;
        int search = lin_check_search(s.ops, s.count, 0, LIN_OPEN, NULL) == LIN_BAD;
        if (search) /* a history that no order explains is not explained by this one */
            assert_true(ts);
        caught += search != 0;
    }
    assert_true(caught * 2 > tried);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_replica_lin_right_histories_pass),
        cmocka_unit_test(test_replica_lin_wrong_histories_fail),
        cmocka_unit_test(test_replica_lin_timestamps_out_of_order_fail),
        cmocka_unit_test(test_replica_lin_restart_loses_what_it_may),
        cmocka_unit_test(test_replica_lin_earlier_tombstone_is_shown),
        cmocka_unit_test(test_replica_lin_restart_brings_back_what_lost_a_race),
        cmocka_unit_test(test_replica_lin_random_both_judge_alike),
    };
    return SUPPORT_MAIN(argc, argv, tests);
}
