/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/** The history checker: known verdicts, agreement with brute force, and large histories. */
#include <stdlib.h>
#include <string.h>

#include "history.h"
#include "snicstore/base.h"
#include "support.h"

/* ---- By hand: {call, end, value, write} ---- */

struct hand {
    uint64_t call, end, value;
    int write;
};

static enum history_verdict judge(const struct hand *ops, size_t n)
{
    struct history h = {0};
    for (size_t i = 0; i < n; i++) {
        struct history_op op = {.call = ops[i].call,
                                .end = ops[i].end,
                                .key = 7,
                                .value = ops[i].value,
                                .after = HISTORY_NONE,
                                .write = (uint8_t)ops[i].write};
        (void)history_add(&h, &op);
    }
    uint64_t key = 0;
    enum history_verdict v = history_check(&h, &key);
    assert_int_equal(v, history_check_slow(&h, NULL));
    assert_true(v == HISTORY_GOOD || key == 7);
    history_free(&h);
    return v;
}

#define GOOD(...)                                                                                  \
    do {                                                                                           \
        const struct hand ops[] = {__VA_ARGS__};                                                   \
        assert_int_equal(judge(ops, sizeof(ops) / sizeof(ops[0])), HISTORY_GOOD);                  \
    } while (0)
#define BAD(...)                                                                                   \
    do {                                                                                           \
        const struct hand ops[] = {__VA_ARGS__};                                                   \
        assert_int_equal(judge(ops, sizeof(ops) / sizeof(ops[0])), HISTORY_BAD);                   \
    } while (0)
#define OPEN HISTORY_OPEN

/** The verdicts that are beyond dispute. */
static void test_history_known_cases_are_judged(void **state)
{
    (void)state;
    GOOD({0, 1, 0, 0});
    BAD({0, 1, 5, 0});                                           /* out of nowhere */
    GOOD({0, 1, 5, 1}, {2, 3, 5, 0});                            /* read what was written */
    BAD({0, 1, 5, 1}, {2, 3, 0, 0});                             /* lost write */
    BAD({2, 3, 5, 1}, {0, 1, 5, 0});                             /* from the future */
    GOOD({0, 9, 5, 1}, {1, 2, 0, 0}, {3, 4, 5, 0});              /* takes effect in between */
    BAD({0, 9, 5, 1}, {1, 2, 5, 0}, {3, 4, 0, 0});               /* and back again */
    BAD({0, 1, 5, 1}, {2, 3, 6, 1}, {4, 5, 5, 0});               /* stale */
    GOOD({0, 1, 5, 1}, {2, 9, 6, 1}, {4, 5, 5, 0});              /* not yet */
    BAD({0, 1, 5, 1}, {2, 9, 6, 1}, {4, 5, 6, 0}, {6, 7, 5, 0}); /* new, then old */
    GOOD({0, 9, 5, 1}, {0, 9, 6, 1}, {10, 11, 5, 0});
    GOOD({0, 9, 5, 1}, {0, 9, 6, 1}, {10, 11, 6, 0});
    BAD({0, 9, 5, 1}, {0, 9, 6, 1}, {10, 11, 6, 0}, {12, 13, 5, 0});
    GOOD({0, 1, 5, 1}, {2, 3, 0, 1}, {4, 5, 0, 0}); /* deleted */
    BAD({0, 1, 5, 1}, {2, 3, 0, 1}, {4, 5, 5, 0});
    GOOD({0, OPEN, 5, 1}, {2, 3, 0, 0}, {4, 5, 0, 0}); /* unknown: never */
    GOOD({0, OPEN, 5, 1}, {2, 3, 0, 0}, {4, 5, 5, 0}); /* unknown: late */
    BAD({0, OPEN, 5, 1}, {2, 3, 5, 0}, {4, 5, 0, 0});  /* unknown: not twice */
    BAD({2, OPEN, 5, 1}, {0, 1, 5, 0});
}

/** Program order of pipelined requests counts although their times overlap. */
static void test_history_program_order_counts(void **state)
{
    struct history h = {0};
    struct history_op w = {0, 9, 1, 5, HISTORY_NONE, 1};
    (void)state;
    size_t i = history_add(&h, &w);
    struct history_op r = {1, 8, 1, 0, HISTORY_NONE, 0};
    (void)history_add(&h, &r);
    assert_int_equal(history_check(&h, NULL), HISTORY_GOOD);
    h.ops[1].after = i;
    assert_int_equal(history_check(&h, NULL), HISTORY_BAD);
    h.ops[1].value = 5;
    assert_int_equal(history_check(&h, NULL), HISTORY_GOOD);
    history_free(&h);
}

/* ---- Brute force ---- */

/* Every order of a subset that contains all operations but unknown writes. */
static int brute(const struct history_op *ops, size_t n, uint32_t done, uint64_t value)
{
    int all = 1;
    for (size_t i = 0; i < n; i++)
        all &= (done >> i & 1) || ops[i].end == HISTORY_OPEN;
    if (all)
        return 1;
    for (size_t i = 0; i < n; i++) {
        int may = !(done >> i & 1) && (ops[i].write || ops[i].value == value);
        for (size_t j = 0; j < n; j++)
            may &= (done >> j & 1) || j == i || ops[j].end >= ops[i].call;
        if (ops[i].after != HISTORY_NONE)
            may &= (int)(done >> ops[i].after & 1);
        if (may && brute(ops, n, done | 1u << i, ops[i].write ? ops[i].value : value))
            return 1;
        if (may && ops[i].end == HISTORY_OPEN && brute(ops, n, done | 1u << i, value))
            return 1; /* it never happened; the search continues behind it */
    }
    return 0;
}

/** Small random histories, with equal values, deletes, unknown outcomes and program order. */
static void test_history_agrees_with_brute_force(void **state)
{
    struct snic_rng rng;
    uint32_t bad = 0, runs = (uint32_t)support_rounds(60000, 2000000);
    (void)state;
    snic_rng_init(&rng, support_seed());
    for (uint32_t k = 0; k < runs; k++) {
        struct history h = {0};
        size_t n = 2 + snic_rng_below(&rng, 6);
        int unique = snic_rng_below(&rng, 2) == 0;
        for (size_t i = 0; i < n; i++) {
            struct history_op op = {.key = 1, .after = HISTORY_NONE};
            op.call = snic_rng_below(&rng, 12);
            op.end = op.call + snic_rng_below(&rng, 6);
            op.write = (uint8_t)snic_rng_below(&rng, 2);
            op.value = op.write && unique ? i + 1 : snic_rng_below(&rng, unique ? n + 1 : 3);
            if (op.write && snic_rng_below(&rng, 4) == 0)
                op.end = HISTORY_OPEN;
            if (i > 0 && !unique && snic_rng_below(&rng, 4) == 0)
                op.after = snic_rng_below(&rng, i);
            (void)history_add(&h, &op);
        }
        int good = brute(h.ops, n, 0, 0);
        bad += !good;
        assert_int_equal(history_check_slow(&h, NULL), good ? HISTORY_GOOD : HISTORY_BAD);
        assert_int_equal(history_check(&h, NULL), good ? HISTORY_GOOD : HISTORY_BAD);
        history_free(&h);
    }
    assert_true(bad > runs / 10 && bad < runs - runs / 10);
}

/* ---- Large ---- */

/* Clients against registers that really are atomic: each takes effect at a time in between. */
static void simulate(struct history *h, struct snic_rng *rng, size_t n, int unique)
{
    enum { CLIENTS = 8, LKEYS = 10 };
    uint64_t value[LKEYS] = {0};
    uint64_t now[CLIENTS] = {0};
    uint64_t last = 0;
    for (size_t i = 0; i < n; i++) {
        uint32_t c = (uint32_t)snic_rng_below(rng, CLIENTS);
        struct history_op op = {.key = snic_rng_below(rng, LKEYS), .after = HISTORY_NONE};
        uint64_t at = last + 1 + snic_rng_below(rng, 3); /* effects in order of i */
        op.write = (uint8_t)(snic_rng_below(rng, 3) == 0);
        op.call = now[c] > at ? at : now[c] + snic_rng_below(rng, at - now[c] + 1);
        op.end = at + snic_rng_below(rng, 30);
        if (op.write) {
            op.value = unique ? i + 1 : snic_rng_below(rng, 4);
            value[op.key] = op.value;
            if (snic_rng_below(rng, 200) == 0)
                op.end = HISTORY_OPEN;
        } else {
            op.value = value[op.key];
        }
        if (op.end != HISTORY_OPEN)
            now[c] = op.end;
        last = at;
        if (op.call <= op.end)
            (void)history_add(h, &op);
    }
}

/** Histories of an atomic store are good; with one read made stale they are bad. */
static void test_history_large_histories_are_judged(void **state)
{
    struct snic_rng rng;
    (void)state;
    snic_rng_init(&rng, support_seed());
    for (uint32_t k = 0; k < support_rounds(12, 200); k++) {
        struct history h = {0};
        int unique = k % 2 == 0;
        simulate(&h, &rng, unique ? 50000 : 3000, unique);
        assert_int_equal(history_check(&h, NULL), HISTORY_GOOD);
        for (size_t i = h.count - 1; i > 0; i--) { /* a read long after another write */
            struct history_op *r = &h.ops[i];
            if (r->write || r->call < 2000)
                continue;
            uint64_t old = HISTORY_OPEN;
            uint32_t writes = 0;
            for (size_t j = i; j > 0 && old == HISTORY_OPEN; j--)
                if (h.ops[j].write && h.ops[j].key == r->key && h.ops[j].end < r->call &&
                    writes++ >= 6)
                    old = h.ops[j].value;
            if (old == HISTORY_OPEN || !unique)
                continue;
            r->value = old;
            assert_int_equal(history_check(&h, NULL), HISTORY_BAD);
            break;
        }
        history_free(&h);
    }
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_history_known_cases_are_judged),
        cmocka_unit_test(test_history_program_order_counts),
        cmocka_unit_test(test_history_agrees_with_brute_force),
        cmocka_unit_test(test_history_large_histories_are_judged),
    };
    return SUPPORT_MAIN(argc, argv, tests);
}
