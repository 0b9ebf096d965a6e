/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* When an agent looks up a segment: each promise of lookup.h, each edge. */
#include "support.h"
#include "ebs/lookup.h"

#define SLOW UINT64_C(1000000000)
#define SOON UINT64_C(10000000)
#define T0 UINT64_C(5000000000)

/* Linked to itself: made where it stays. */
#define CLOCK(name)                                                                                \
    struct ebs_lookups name;                                                                       \
    memset(&(name), 0xa5, sizeof(name));                                                           \
    ebs_lookups_init(&(name), SLOW)

static void test_ebs_lookup_none_waits_none_due(void **state)
{
    (void)state;
    CLOCK(s);
    assert_true(s.due_ns == SNIC_NEVER);
    assert_int_equal(ebs_lookups_scan_due(&s, 0), 0);
    assert_int_equal(ebs_lookups_scan_due(&s, SNIC_NEVER - 1), 0);
    assert_null(ebs_lookups_first(&s));
}

/* A look resets due_ns: each entry that is examined sets it again. */
static void test_ebs_lookup_due_after_slow_ns(void **state)
{
    (void)state;
    struct ebs_lookup k;
    CLOCK(s);
    ebs_lookup_init(&k);
    ebs_lookup_begin(&s, &k, 0, T0);
    assert_true(s.due_ns == T0 + SLOW);
    assert_int_equal(ebs_lookups_scan_due(&s, T0 + SLOW - 1), 0);
    assert_true(s.due_ns == T0 + SLOW);
    assert_int_equal(ebs_lookup_due(&s, &k, 0, T0 + SLOW - 1), 0);
    assert_int_equal(ebs_lookups_scan_due(&s, T0 + SLOW), 1);
    assert_true(s.due_ns == SNIC_NEVER);
    assert_int_equal(ebs_lookup_due(&s, &k, 0, T0 + SLOW), 1);
    assert_true(s.due_ns == SNIC_NEVER);
    assert_null(ebs_lookups_first(&s)); /* the agent puts a due entry in */
}

static void test_ebs_lookup_not_due_scheduled(void **state)
{
    (void)state;
    struct ebs_lookup k[2];
    CLOCK(s);
    for (uint32_t i = 0; i < 2; i++) {
        ebs_lookup_init(&k[i]);
        ebs_lookup_begin(&s, &k[i], 0, T0 + 7 * i);
    }
    assert_true(s.due_ns == T0 + SLOW); /* the first */
    assert_int_equal(ebs_lookups_scan_due(&s, T0 + SLOW), 1);
    assert_int_equal(ebs_lookup_due(&s, &k[1], 0, T0 + SLOW), 0);
    assert_true(s.due_ns == T0 + SLOW + 7);
    ebs_lookup_begin(&s, &k[0], 0, T0 + SLOW); /* later does not put it off */
    assert_true(s.due_ns == T0 + SLOW + 7);
}

/* A suspect server: soon, together, and once; then as others. */
static void test_ebs_lookup_suspect_server_due_soon(void **state)
{
    (void)state;
    struct snic_rng rng;
    struct ebs_lookup k;
    CLOCK(s);
    snic_rng_init(&rng, support_seed());
    ebs_lookup_init(&k);
    ebs_lookup_begin(&s, &k, 1, T0);
    assert_true(s.due_ns == T0 + SOON);
    assert_true(k.due_ns == T0 + SLOW); /* if it recovers meanwhile */
    assert_int_equal(ebs_lookups_scan_due(&s, T0 + SOON), 1);
    assert_int_equal(ebs_lookup_due(&s, &k, 0, T0 + SOON), 0);
    assert_int_equal(ebs_lookup_due(&s, &k, 1, T0 + SOON), 1);
    ebs_lookup_sent(&s, &k, 0, &rng, T0 + SOON);
    assert_int_equal(ebs_lookup_due(&s, &k, 1, k.due_ns - 1), 0);
    assert_int_equal(ebs_lookup_due(&s, &k, 1, k.due_ns), 1);
}

static void test_ebs_lookup_expired_scanned_now(void **state)
{
    (void)state;
    struct ebs_lookup k;
    CLOCK(s);
    ebs_lookup_init(&k);
    ebs_lookup_begin(&s, &k, 0, T0);
    ebs_lookups_expire_now(&s, T0 + 5);
    assert_true(s.due_ns == T0 + 5);
    ebs_lookups_expire_now(&s, T0 + 9); /* never later */
    assert_true(s.due_ns == T0 + 5);
    assert_int_equal(ebs_lookups_scan_due(&s, T0 + 5), 1);
}

/* slow, 2, 4, 8, 8 ... slow, each with up to a quarter more; the number stays at 255. */
static void test_ebs_lookup_sent_backs_off(void **state)
{
    (void)state;
    struct snic_rng rng;
    struct ebs_lookup k;
    uint64_t now = T0, extra = 0;
    CLOCK(s);
    snic_rng_init(&rng, support_seed());
    ebs_lookup_init(&k);
    ebs_lookup_begin(&s, &k, 0, now);
    for (uint32_t i = 1; i <= 300; i++) {
        uint64_t pause = SLOW * (i == 1 ? 1 : i == 2 ? 2 : i == 3 ? 4 : 8);
        now = k.due_ns;
        assert_int_equal(ebs_lookups_scan_due(&s, now), 1);
        assert_int_equal(ebs_lookup_due(&s, &k, 0, now), 1);
        ebs_lookup_enqueue(&s, &k);
        assert_ptr_equal(ebs_lookups_first(&s), &k);
        ebs_lookup_sent(&s, &k, k.sent, &rng, now);
        assert_null(ebs_lookups_first(&s));
        assert_int_equal(k.sent, i < 255 ? i : 255);
        assert_in_range(k.due_ns - now, pause, pause + pause / 4);
        assert_true(s.due_ns == k.due_ns);
        extra = snic_max_u64(extra, (k.due_ns - now - pause) * 100 / pause);
    }
    assert_in_range(extra, 20, 25);   /* by chance, and not always little */
    ebs_lookup_begin(&s, &k, 0, now); /* heard: from the beginning */
    assert_int_equal(k.sent, 0);
    assert_true(k.due_ns == now + SLOW);
}

/* One number of the generator each time, bounded by the pause: replays are the same. */
static void test_ebs_lookup_sent_draws_one_number(void **state)
{
    (void)state;
    struct snic_rng rng, copy;
    struct ebs_lookup k;
    static const uint64_t slow[] = {1, 3, 4, SLOW, UINT64_C(86400000000000)};
    for (size_t i = 0; i < SNIC_COUNTOF(slow); i++) {
        struct ebs_lookups s;
        ebs_lookups_init(&s, slow[i]);
        snic_rng_init(&rng, support_seed() + i);
        copy = rng;
        ebs_lookup_init(&k);
        ebs_lookup_sent(&s, &k, 1, &rng, T0);
        uint64_t pause = 2 * slow[i];
        assert_true(k.due_ns == T0 + pause + snic_rng_below(&copy, pause / 4 + 1));
        assert_true(snic_rng_next(&rng) == snic_rng_next(&copy));
    }
}

/* The most patient of a segment counts, and all of them wait alike afterwards. */
static void test_ebs_lookup_join_shares_lookup(void **state)
{
    (void)state;
    struct snic_rng rng;
    struct ebs_lookup k[3];
    CLOCK(s);
    snic_rng_init(&rng, support_seed());
    for (uint32_t i = 0; i < 3; i++) {
        ebs_lookup_init(&k[i]);
        ebs_lookup_begin(&s, &k[i], 0, T0);
        k[i].sent = i;
        ebs_lookup_enqueue(&s, &k[i]);
        ebs_lookup_enqueue(&s, &k[i]); /* once is enough */
    }
    assert_ptr_equal(ebs_lookups_first(&s), &k[0]); /* in order */
    ebs_lookup_sent(&s, &k[0], 2, &rng, T0);
    assert_int_equal(k[0].sent, 3);
    assert_in_range(k[0].due_ns - T0, 4 * SLOW, 5 * SLOW);
    assert_ptr_equal(ebs_lookups_first(&s), &k[1]);
    for (uint32_t i = 0; i < 3; i++) {
        ebs_lookup_join(&k[i], &k[0]); /* itself, too */
        assert_int_equal(k[i].sent, 3);
        assert_true(k[i].due_ns == k[0].due_ns);
        assert_true(snic_link_alone(&k[i].link));
    }
    assert_null(ebs_lookups_first(&s));
}

/* Entries that are answered or over are not looked up any more; the others stay in order. */
static void test_ebs_lookup_end_leaves_the_list(void **state)
{
    (void)state;
    struct ebs_lookup k[3];
    CLOCK(s);
    for (uint32_t i = 0; i < 3; i++) {
        ebs_lookup_init(&k[i]);
        ebs_lookup_end(&k[i]); /* it never waited */
        ebs_lookup_enqueue(&s, &k[i]);
    }
    ebs_lookup_end(&k[0]);
    assert_ptr_equal(ebs_lookups_first(&s), &k[1]);
    ebs_lookup_begin(&s, &k[1], 0, T0);
    assert_ptr_equal(ebs_lookups_first(&s), &k[2]);
    ebs_lookup_enqueue(&s, &k[0]);
    assert_ptr_equal(ebs_lookups_first(&s), &k[2]);
    ebs_lookup_end(&k[2]);
    ebs_lookup_end(&k[2]);
    assert_ptr_equal(ebs_lookups_first(&s), &k[0]);
    ebs_lookup_end(&k[0]);
    assert_null(ebs_lookups_first(&s));
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_ebs_lookup_none_waits_none_due),
        cmocka_unit_test(test_ebs_lookup_due_after_slow_ns),
        cmocka_unit_test(test_ebs_lookup_not_due_scheduled),
        cmocka_unit_test(test_ebs_lookup_suspect_server_due_soon),
        cmocka_unit_test(test_ebs_lookup_expired_scanned_now),
        cmocka_unit_test(test_ebs_lookup_sent_backs_off),
        cmocka_unit_test(test_ebs_lookup_sent_draws_one_number),
        cmocka_unit_test(test_ebs_lookup_join_shares_lookup),
        cmocka_unit_test(test_ebs_lookup_end_leaves_the_list),
    };
    return SUPPORT_MAIN(argc, argv, tests);
}
