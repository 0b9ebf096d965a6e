/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* The client half of the credit protocol against Algorithm 3 written down plainly. */
#include "snicstore/credit.h"
#include "support.h"

#include <stdatomic.h>
#include <stdio.h>

static void same(const struct snic_credit *c, uint64_t total, uint64_t inflight)
{
    assert_int_equal(snic_credit_total(c), total);
    assert_int_equal(snic_credit_inflight(c), inflight);
    uint64_t room = total > inflight ? total - inflight : inflight == 0;
    assert_int_equal(snic_credit_room(c), room);
}

/* A client that could not begin would never learn its credit. */
static void test_credit_fresh_lets_at_least_one_go(void **state)
{
    struct snic_credit c;
    (void)state;
    snic_credit_init(&c, 0);
    same(&c, 1, 0);
    assert_int_equal(snic_credit_take(&c), 1);
    same(&c, 1, 1);
    assert_int_equal(snic_credit_take(&c), 0);
    same(&c, 1, 1);
    snic_credit_init(&c, 3);
    for (int i = 0; i < 3; i++)
        assert_int_equal(snic_credit_take(&c), 1);
    assert_int_equal(snic_credit_take(&c), 0);
    same(&c, 3, 3);
}

/* C1: a grant of 0 must not stop a client for ever, nor let two requests go. */
static void test_credit_granted_zero_goes_one_by_one(void **state)
{
    struct snic_credit c;
    (void)state;
    snic_credit_init(&c, 2);
    assert_int_equal(snic_credit_take(&c), 1);
    assert_int_equal(snic_credit_take(&c), 1);
    snic_credit_return(&c, 0);
    same(&c, 0, 1);
    assert_int_equal(snic_credit_take(&c), 0); /* one is still out: it will bring news */
    snic_credit_return(&c, 0);
    for (int i = 0; i < 5; i++) {
        same(&c, 0, 0);
        assert_int_equal(snic_credit_take(&c), 1);
        assert_int_equal(snic_credit_take(&c), 0);
        snic_credit_return(&c, 0);
    }
    assert_int_equal(snic_credit_take(&c), 1);
    snic_credit_return(&c, 4);
    same(&c, 4, 0);
}

/* C2, C3: grants replace each other, and a lower one waits for those that are out. */
static void test_credit_lower_grant_holds_until_others_return(void **state)
{
    struct snic_credit c;
    (void)state;
    snic_credit_init(&c, 8);
    for (int i = 0; i < 8; i++)
        assert_int_equal(snic_credit_take(&c), 1);
    for (unsigned i = 7; i >= 3; i--) {
        snic_credit_return(&c, 3);
        same(&c, 3, i);
        assert_int_equal(snic_credit_room(&c), 0);
    }
    snic_credit_return(&c, 3);
    same(&c, 3, 2);
    assert_int_equal(snic_credit_take(&c), 1);
    assert_int_equal(snic_credit_take(&c), 0);
    snic_credit_return(&c, 5); /* a late, older one: the last returned counts */
    same(&c, 5, 2);
}

/* C4: what could not be sent, or came back without credit, leaves the total alone. */
static void test_credit_cancelled_total_stays(void **state)
{
    struct snic_credit c;
    (void)state;
    snic_credit_init(&c, 2);
    assert_int_equal(snic_credit_take(&c), 1);
    assert_int_equal(snic_credit_take(&c), 1);
    snic_credit_cancel(&c);
    same(&c, 2, 1);
    assert_int_equal(snic_credit_take(&c), 1);
    assert_int_equal(snic_credit_take(&c), 0);
}

/* The halves of the word must not run into each other. */
static void test_credit_largest_values_stay_apart(void **state)
{
    struct snic_credit c;
    (void)state;
    snic_credit_init(&c, SNIC_CREDIT_UNLIMITED);
    for (int i = 0; i < 1000; i++)
        assert_int_equal(snic_credit_take(&c), 1);
    same(&c, UINT32_MAX, 1000);
    snic_credit_return(&c, UINT32_MAX);
    same(&c, UINT32_MAX, 999);
    c.word = (uint64_t)UINT32_MAX << 32 | (UINT32_MAX - 1);
    assert_int_equal(snic_credit_take(&c), 1);
    same(&c, UINT32_MAX, UINT32_MAX);
    assert_int_equal(snic_credit_take(&c), 0);
    snic_credit_cancel(&c);
    same(&c, UINT32_MAX, UINT32_MAX - 1);
    snic_credit_return(&c, 1);
    same(&c, 1, UINT32_MAX - 2);
}

static void return_too_many(void *ctx)
{
    (void)ctx;
    struct snic_credit c;
    snic_credit_init(&c, 4);
    snic_credit_return(&c, 4);
}

static void cancel_too_many(void *ctx)
{
    (void)ctx;
    struct snic_credit c;
    snic_credit_init(&c, 4);
    snic_credit_cancel(&c);
}

/* A completion too many would make inflight 2^32 - 1 and stop the client. */
static void test_credit_nothing_in_flight_return_asserts(void **state)
{
    (void)state;
    SUPPORT_EXPECT_ABORT(return_too_many, NULL);
    SUPPORT_EXPECT_ABORT(cancel_too_many, NULL);
}

/* Every sequence of 9 steps (take, return 0..3, cancel) from every start 0..3. */
static void test_credit_all_short_sequences_match_model(void **state)
{
    enum { STEPS = 9, KINDS = 6 };
    (void)state;
    uint32_t all = 1;
    for (int i = 0; i < STEPS; i++)
        all *= KINDS;
    for (uint32_t start = 0; start <= 3; start++) {
        for (uint32_t word = start; word < all; word += support_nightly() ? 1 : 7) {
            struct snic_credit c;
            uint32_t total = start == 0 ? 1 : start;
            uint32_t inflight = 0;
            uint32_t rest = word;
            snic_credit_init(&c, start);
            for (int i = 0; i < STEPS; i++, rest /= KINDS) {
                uint32_t kind = rest % KINDS;
                if (kind == 0) {
                    int go = total > inflight || inflight == 0;
                    if (snic_credit_take(&c) != go)
                        fail_msg("start %u word %u step %d", start, word, i);
                    inflight += (uint32_t)go;
                } else if (inflight > 0) {
                    if (kind == 5) {
                        snic_credit_cancel(&c);
                    } else {
                        snic_credit_return(&c, kind - 1);
                        total = kind - 1;
                    }
                    inflight--;
                }
                if (snic_credit_total(&c) != total || snic_credit_inflight(&c) != inflight)
                    fail_msg("start %u word %u step %d", start, word, i);
            }
        }
    }
}

/* ---- Threads ---- */

enum { SENDERS = 3, SENT = 20000, CREDIT_MAX = 5 };

struct wire {
    struct snic_credit credit;
    atomic_int out; /* taken, not yet returned */
    atomic_int high;
    atomic_int held; /* takes that returned 0 */
};

/*
 * Each thread sends and completes its own: a holder brings back a random grant. Never may
 * more be out than the largest grant; none may be stuck.
 */
static void sender(void *ctx, unsigned index)
{
    struct wire *w = ctx;
    struct snic_rng rng;
    snic_rng_init(&rng, support_seed() + index);
    for (int done = 0; done < SENT;) {
        if (!snic_credit_take(&w->credit)) {
            atomic_fetch_add(&w->held, 1);
            continue;
        }
        int out = atomic_fetch_add(&w->out, 1) + 1;
        int high = atomic_load(&w->high);
        while (out > high && !atomic_compare_exchange_weak(&w->high, &high, out)) {
        }
        done++;
        atomic_fetch_sub(&w->out, 1);
        if (snic_rng_below(&rng, 8) == 0)
            snic_credit_cancel(&w->credit);
        else
            snic_credit_return(&w->credit, (uint32_t)snic_rng_below(&rng, CREDIT_MAX + 1));
    }
}

/* Two threads that both send on the last credit would overrun the target. */
static void test_credit_threads_never_exceed_largest_grant(void **state)
{
    static struct wire w;
    (void)state;
    snic_credit_init(&w.credit, 2);
    atomic_init(&w.out, 0);
    atomic_init(&w.high, 0);
    atomic_init(&w.held, 0);
    support_threads(SENDERS, sender, &w);
    assert_int_equal(snic_credit_inflight(&w.credit), 0);
    assert_int_equal(atomic_load(&w.out), 0);
    assert_in_range(atomic_load(&w.high), 1, CREDIT_MAX);
}

/* Total 1 among threads is a lock: what it guards must not tear. */
static void lock_user(void *ctx, unsigned index)
{
    struct wire *w = ctx;
    (void)index;
    for (int done = 0; done < SENT;) {
        if (!snic_credit_take(&w->credit))
            continue;
        int before = atomic_load_explicit(&w->out, memory_order_relaxed);
        atomic_store_explicit(&w->out, before + 1, memory_order_relaxed);
        if (atomic_load_explicit(&w->out, memory_order_relaxed) != before + 1)
            atomic_fetch_add(&w->held, 1);
        atomic_store_explicit(&w->out, before, memory_order_relaxed);
        snic_credit_return(&w->credit, 1);
        done++;
    }
}

static void test_credit_threads_one_credit_one_in_flight(void **state)
{
    static struct wire w;
    (void)state;
    snic_credit_init(&w.credit, 1);
    atomic_init(&w.out, 0);
    atomic_init(&w.held, 0);
    support_threads(SENDERS, lock_user, &w);
    assert_int_equal(snic_credit_inflight(&w.credit), 0);
    assert_int_equal(atomic_load(&w.held), 0);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_credit_fresh_lets_at_least_one_go),
        cmocka_unit_test(test_credit_granted_zero_goes_one_by_one),
        cmocka_unit_test(test_credit_lower_grant_holds_until_others_return),
        cmocka_unit_test(test_credit_cancelled_total_stays),
        cmocka_unit_test(test_credit_largest_values_stay_apart),
        cmocka_unit_test(test_credit_nothing_in_flight_return_asserts),
        cmocka_unit_test(test_credit_all_short_sequences_match_model),
        cmocka_unit_test(test_credit_threads_never_exceed_largest_grant),
        cmocka_unit_test(test_credit_threads_one_credit_one_in_flight),
    };
    return SUPPORT_MAIN(argc, argv, tests);
}
