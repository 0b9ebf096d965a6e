/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* SipHash, random numbers, histogram, rates. */
#include "support.h"
#include "snicstore/base.h"
#include "base/simd.h"

#include <stdlib.h>

/* A number of random size: every power of two is equally likely. */
static uint64_t any_size(struct snic_rng *r)
{
    uint64_t n = snic_rng_next(r);
    return n >> snic_rng_below(r, 64);
}

/* ---- SipHash ---- */

/*
 * Names of connections last over a restart, and what the key keeps secret is a promise of the
 * paper: the hash is the published one. The vector of 15 bytes is the paper's (appendix A), the
 * others, which end where a word begins, ends, or is not begun, are of its authors' program.
 */
static void test_base_siphash_published_vectors_match(void **state)
{
    (void)state;
    static const struct {
        size_t size;
        uint64_t want;
    } rows[] = {
        {0, UINT64_C(0x726fdb47dd0e0e31)},  {1, UINT64_C(0x74f839c593dc67fd)},
        {7, UINT64_C(0xab0200f58b01d137)},  {8, UINT64_C(0x93f5f5799a932462)},
        {15, UINT64_C(0xa129ca6149be45e5)}, {16, UINT64_C(0x3f2acc7f57c29bdb)},
        {63, UINT64_C(0x958a324ceb064572)},
    };
    unsigned char key[16], data[63];
    for (unsigned i = 0; i < sizeof(data); i++)
        data[i] = (unsigned char)i;
    memcpy(key, data, sizeof(key));
    for (size_t i = 0; i < SNIC_COUNTOF(rows); i++)
        assert_true(snic_siphash(key, data, rows[i].size) == rows[i].want);
    assert_true(snic_siphash(key, NULL, 0) == rows[0].want);
}

/* The first two vectors of the reference code's table for 128 bits. */
static void test_base_siphash128_published_vectors_match(void **state)
{
    static const unsigned char want[2][16] = {{0xa3, 0x81, 0x7f, 0x04, 0xba, 0x25, 0xa8, 0xe6, 0x6d,
                                               0xf6, 0x72, 0x14, 0xc7, 0x55, 0x02, 0x93},
                                              {0xda, 0x87, 0xc1, 0xd8, 0x6b, 0x99, 0xaf, 0x44, 0x34,
                                               0x76, 0x59, 0x11, 0x9b, 0x22, 0xfc, 0x45}};
    unsigned char key[16], data[1] = {0}, got[16];
    uint64_t out[2];
    (void)state;
    for (unsigned i = 0; i < 16; i++)
        key[i] = (unsigned char)i;
    for (unsigned n = 0; n < 2; n++) {
        snic_siphash128(key, data, n, out);
        snic_put_le64(got, out[0]);
        snic_put_le64(got + 8, out[1]);
        assert_memory_equal(got, want[n], 16);
    }
}

/* A zero more at the end is another message, also after 256 of them, where the size's byte is the
 * same again; each bit of the key and of the message counts. */
static void test_base_siphash_any_change_is_another_hash(void **state)
{
    (void)state;
    unsigned char key[16] = {0}, data[300] = {0};
    uint64_t seen[300 + 128 + 128];
    size_t n = 0;
    for (size_t size = 0; size < sizeof(data); size++)
        seen[n++] = snic_siphash(key, data, size);
    for (unsigned bit = 0; bit < 128; bit++) {
        key[bit / 8] ^= (unsigned char)(1u << bit % 8);
        seen[n++] = snic_siphash(key, data, 16);
        key[bit / 8] ^= (unsigned char)(1u << bit % 8);
        data[bit / 8] ^= (unsigned char)(1u << bit % 8);
        seen[n++] = snic_siphash(key, data, 16);
        data[bit / 8] ^= (unsigned char)(1u << bit % 8);
    }
    assert_int_equal(n, SNIC_COUNTOF(seen));
    for (size_t i = 0; i < n; i++)
        for (size_t k = 0; k < i; k++)
            assert_true(seen[i] != seen[k]);
}

/* ---- Random numbers ---- */

/* Recorded seeds must replay for ever: the sequence is the published one. */
static void test_base_rng_published_vectors_match(void **state)
{
    (void)state;
    struct snic_rng r;
    snic_rng_init(&r, 1234567);
    assert_true(r.s[0] == UINT64_C(6457827717110365317)); /* splitmix64 */
    assert_true(r.s[1] == UINT64_C(3203168211198807973));
    assert_true(r.s[2] == UINT64_C(9817491932198370423));
    assert_true(r.s[3] == UINT64_C(4593380528125082431));
    static const uint64_t want[] = {UINT64_C(11520), UINT64_C(0), UINT64_C(1509978240),
                                    UINT64_C(1215971899390074240), UINT64_C(1216172134540287360)};
    for (unsigned i = 0; i < 4; i++)
        r.s[i] = i + 1;
    for (size_t i = 0; i < SNIC_COUNTOF(want); i++)
        assert_true(snic_rng_next(&r) == want[i]);
}

/* Any seed works; equal seeds replay, different ones do not. */
static void test_base_rng_seed_names_sequence(void **state)
{
    (void)state;
    struct snic_rng a;
    struct snic_rng b;
    struct snic_rng c;
    snic_rng_init(&a, 0);
    snic_rng_init(&b, 0);
    snic_rng_init(&c, 1);
    unsigned same = 0;
    for (int i = 0; i < 1000; i++) {
        uint64_t v = snic_rng_next(&a);
        assert_true(v == snic_rng_next(&b));
        same += v == snic_rng_next(&c);
    }
    assert_int_equal(same, 0);
}

/* below() stays below and hits every value; a modulo would favour the small ones. */
static void test_base_rng_below_is_uniform(void **state)
{
    (void)state;
    struct snic_rng r;
    snic_rng_init(&r, support_seed());
    for (uint64_t bound = 1; bound <= 33; bound++) {
        uint32_t seen[33] = {0};
        for (int i = 0; i < 8000; i++) {
            uint64_t v = snic_rng_below(&r, bound);
            assert_true(v < bound);
            seen[v]++;
        }
        /* Expected at least 242 each, standard deviation at most 44 (8 of them allowed). */
        for (uint64_t v = 0; v < bound; v++) {
            double expected = 8000.0 / (double)bound;
            double off = (double)seen[v] - expected;
            assert_true(off * off < 64 * expected);
        }
    }
    /* Of bound 3 * 2^62 a quarter of the raw values is biased: v % 3 == 0 would be 1/2. */
    uint64_t bound = UINT64_C(3) << 62;
    unsigned low = 0;
    unsigned third = 0;
    for (int i = 0; i < 30000; i++) {
        uint64_t v = snic_rng_below(&r, bound);
        assert_true(v < bound);
        low += v < bound / 3;
        third += v % 3 == 0;
    }
    assert_in_range(low, 9300, 10700); /* 10000, standard deviation 82 */
    assert_in_range(third, 9300, 10700);
    for (int i = 0; i < 1000; i++)
        assert_true(snic_rng_below(&r, UINT64_MAX) < UINT64_MAX);
}

/* fill() is next() in little-endian bytes and writes not one byte more. */
static void test_base_rng_fill_writes_little_endian(void **state)
{
    (void)state;
    for (size_t size = 0; size < 40; size++) {
        struct snic_rng a;
        struct snic_rng b;
        snic_rng_init(&a, support_seed());
        b = a;
        unsigned char *p = support_guard_alloc(size + 1, 1);
        p[size] = 0x5a;
        snic_rng_fill(&a, p, size);
        assert_int_equal(p[size], 0x5a);
        uint64_t v = 0;
        for (size_t i = 0; i < size; i++) {
            if (i % 8 == 0)
                v = snic_rng_next(&b);
            assert_int_equal(p[i], (unsigned char)(v >> 8 * (i % 8)));
        }
        assert_memory_equal(&a, &b, sizeof(a));
        support_guard_free(p);
    }
}

/* ---- Histogram ---- */

static struct snic_hist hist_a;
static struct snic_hist hist_b;

/* The bound [v, v + v/32] must hold for a value of any size, alone in its bucket. */
static void hist_expect_bound(uint64_t v)
{
    snic_hist_reset(&hist_a);
    snic_hist_record(&hist_a, v);
    snic_hist_record(&hist_a, UINT64_MAX);
    uint64_t q = snic_hist_quantile(&hist_a, 500000);
    assert_true(q >= v);
    assert_true(q - v <= v / 32);
    assert_true(hist_a.min == v && hist_a.max == UINT64_MAX && hist_a.count == 2);
}

/* A latency may be reported up to 1/32 too high and never too low. */
static void test_base_hist_any_value_within_bound(void **state)
{
    (void)state;
    struct snic_rng r;
    snic_rng_init(&r, support_seed());
    for (uint64_t v = 0; v < 3000; v++)
        hist_expect_bound(v);
    for (unsigned i = 0; i < 64; i++) {
        for (uint64_t d = 0; d < 5; d++)
            hist_expect_bound(((uint64_t)1 << i) + d - 2);
    }
    for (int i = 0; i < 20000; i++)
        hist_expect_bound(any_size(&r));
    hist_expect_bound(UINT64_MAX);
}

static int by_value(const void *a, const void *b)
{
    uint64_t x = *(const uint64_t *)a;
    uint64_t y = *(const uint64_t *)b;
    return (x > y) - (x < y);
}

/* Every quantile is that of the sorted list, within the bound. */
static void test_base_hist_quantiles_follow_sorted_list(void **state)
{
    (void)state;
    struct snic_rng r;
    static uint64_t values[1000];
    snic_rng_init(&r, support_seed() + 1);
    for (int round = 0; round < 50; round++) {
        size_t n = (size_t)snic_rng_below(&r, 1000) + 1;
        uint64_t spread = any_size(&r) | 1;
        uint64_t sum = 0;
        snic_hist_reset(&hist_a);
        for (size_t i = 0; i < n; i++) {
            values[i] = snic_rng_below(&r, spread);
            sum = sum > UINT64_MAX - values[i] ? UINT64_MAX : sum + values[i];
            snic_hist_record(&hist_a, values[i]);
        }
        qsort(values, n, sizeof(values[0]), by_value);
        assert_true(hist_a.sum == sum && hist_a.count == n);
        assert_true(hist_a.min == values[0] && hist_a.max == values[n - 1]);
        for (uint32_t pm = 0; pm <= 1000000; pm += 12500) {
            uint64_t rank = (n * (uint64_t)pm + 999999) / 1000000;
            uint64_t truth = values[rank == 0 ? 0 : rank - 1];
            uint64_t q = snic_hist_quantile(&hist_a, pm);
            assert_true(q >= truth && q - truth <= truth / 32 && q <= hist_a.max);
        }
        assert_true(snic_hist_quantile(&hist_a, 1000000) == values[n - 1]);
        assert_true(snic_hist_quantile(&hist_a, UINT32_MAX) == values[n - 1]);
    }
}

/* Per-thread histograms merge into what one would have recorded. */
static void test_base_hist_merged_equals_recorded(void **state)
{
    (void)state;
    struct snic_rng r;
    static struct snic_hist all;
    snic_rng_init(&r, support_seed() + 2);
    snic_hist_reset(&hist_a);
    snic_hist_reset(&hist_b);
    snic_hist_reset(&all);
    assert_true(snic_hist_quantile(&all, 500000) == 0);
    snic_hist_merge(&all, &hist_a); /* empty into empty */
    assert_memory_equal(&all, &hist_a, sizeof(all));
    for (int i = 0; i < 1000; i++) {
        uint64_t v = any_size(&r) / 4 + 10;
        snic_hist_record(&all, v);
        snic_hist_record(i % 3 ? &hist_a : &hist_b, v);
    }
    static struct snic_hist sum;
    snic_hist_reset(&sum);
    snic_hist_merge(&sum, &hist_a);
    assert_memory_equal(&sum, &hist_a, sizeof(sum));
    snic_hist_merge(&sum, &hist_b);
    assert_memory_equal(&sum, &all, sizeof(sum));
    snic_hist_reset(&hist_b);
    snic_hist_merge(&sum, &hist_b); /* an empty one adds nothing, not even min 0 */
    assert_memory_equal(&sum, &all, sizeof(sum));
}

/* Counts beyond 2^44 times a million exceed 64 bits: the rank must not wrap. */
static void test_base_hist_huge_counts_do_not_wrap(void **state)
{
    (void)state;
    snic_hist_reset(&hist_a);
    snic_hist_record(&hist_a, 10);
    snic_hist_record(&hist_a, 20);
    snic_hist_record(&hist_a, 30);
    for (int i = 0; i < 60; i++) {
        hist_b = hist_a;
        snic_hist_merge(&hist_a, &hist_b);
        assert_int_equal(snic_hist_quantile(&hist_a, 333000), 10);
        assert_int_equal(snic_hist_quantile(&hist_a, 500000), 20);
        assert_int_equal(snic_hist_quantile(&hist_a, 999999), 30);
    }
    assert_true(hist_a.count == UINT64_C(3) << 60);
    assert_true(hist_a.sum == UINT64_MAX); /* saturated */
}

/* ---- Rates ---- */

#define UNIT UINT64_C(1000000000)
#define MOST ((uint64_t)1 << 40)

/* Options out of range are refused and leave the bucket as it was. */
static void test_base_rate_bad_numbers_refused(void **state)
{
    (void)state;
    struct snic_rate r = {1, 2, 3, 4, 5};
    struct snic_rate before = r;
    assert_int_equal(snic_rate_init(&r, 1, 0, 9), SNIC_EINVAL);
    assert_int_equal(snic_rate_init(&r, 1, MOST + 1, 9), SNIC_EINVAL);
    assert_int_equal(snic_rate_init(&r, MOST + 1, 1, 9), SNIC_EINVAL);
    assert_int_equal(snic_rate_set(&r, MOST + 1, 9), SNIC_EINVAL);
    assert_int_equal(snic_rate_take(&r, 3, 9), SNIC_EINVAL);
    assert_memory_equal(&r, &before, sizeof(r));
    assert_int_equal(snic_rate_init(&r, MOST, MOST, 9), 0);
    assert_int_equal(snic_rate_take(&r, MOST, 9), 0);
    assert_int_equal(snic_rate_take(&r, 0, 9), 0);
    assert_int_equal(snic_rate_take(&r, 1, 9), SNIC_EAGAIN);
}

/* Speed 0 grants the burst once and nothing ever after. */
static void test_base_rate_zero_speed_grants_burst_once(void **state)
{
    (void)state;
    struct snic_rate r;
    assert_int_equal(snic_rate_init(&r, 0, 5, 100), 0);
    assert_true(snic_rate_ready_ns(&r, 5) == 100);
    assert_true(snic_rate_ready_ns(&r, 6) == SNIC_NEVER);
    assert_int_equal(snic_rate_take(&r, 5, 100), 0);
    assert_true(snic_rate_ready_ns(&r, 1) == SNIC_NEVER);
    assert_int_equal(snic_rate_take(&r, 1, UINT64_MAX), SNIC_EAGAIN);
    assert_int_equal(snic_rate_set(&r, 1000, UINT64_MAX - 2000000), 0); /* time back: no gain */
    assert_int_equal(snic_rate_take(&r, 1, UINT64_MAX), SNIC_EAGAIN);
}

/* The model: all tokens in units of 1e-9, in 128 bits. */
struct model {
    base_u128 units;
    uint64_t per_second;
    uint64_t burst;
    uint64_t last;
};

static void model_to(struct model *m, uint64_t now)
{
    base_u128 full = (base_u128)m->burst * UNIT;
    if (now > m->last) {
        m->units += (base_u128)(now - m->last) * m->per_second;
        m->last = now;
    }
    if (m->units > full)
        m->units = full;
}

static void expect_same(const struct snic_rate *r, const struct model *m)
{
    assert_true((base_u128)r->tokens * UNIT + r->fraction == m->units);
    assert_true(r->fraction < UNIT && r->tokens <= r->burst);
    assert_true(r->last_ns == m->last);
}

/* ready_ns is the first nanosecond that grants, and the one before does not. */
static void expect_ready_exact(const struct snic_rate *r, uint64_t tokens)
{
    uint64_t ready = snic_rate_ready_ns(r, tokens);
    struct snic_rate copy = *r;
    if (ready != SNIC_NEVER) {
        assert_int_equal(snic_rate_take(&copy, tokens, ready), 0);
        copy = *r;
        if (ready > r->last_ns)
            assert_int_equal(snic_rate_take(&copy, tokens, ready - 1), SNIC_EAGAIN);
    } else if (tokens <= r->burst) {
        assert_int_equal(snic_rate_take(&copy, tokens, UINT64_MAX - 1), SNIC_EAGAIN);
    }
}

/* No drift: after any sequence of spans and takes the units are exact. */
static void test_base_rate_random_spans_are_exact(void **state)
{
    (void)state;
    struct snic_rng rng;
    snic_rng_init(&rng, support_seed() + 3);
    uint64_t rounds = support_scale(2000, 100000);
    for (uint64_t round = 0; round < rounds; round++) {
        struct snic_rate r;
        struct model m = {.per_second = any_size(&rng) % (MOST + 1)};
        m.burst = any_size(&rng) % MOST + 1;
        m.last = any_size(&rng) / 2;
        uint64_t now = m.last;
        m.units = (base_u128)m.burst * UNIT;
        assert_int_equal(snic_rate_init(&r, m.per_second, m.burst, now), 0);
        for (int step = 0; step < 100; step++) {
            uint64_t span = any_size(&rng);
            span >>= snic_rng_below(&rng, 64);
            uint64_t want = any_size(&rng) % (m.burst + 1);
            now = now > SNIC_NEVER - 1 - span ? SNIC_NEVER - 1 : now + span;
            model_to(&m, now);
            int fits = (base_u128)want * UNIT <= m.units;
            assert_int_equal(snic_rate_take(&r, want, now), fits ? 0 : SNIC_EAGAIN);
            if (fits)
                m.units -= (base_u128)want * UNIT;
            expect_same(&r, &m);
            expect_ready_exact(&r, any_size(&rng) % (m.burst + 1));
            if (snic_rng_below(&rng, 8) == 0) {
                uint64_t speed = any_size(&rng) % (MOST + 1);
                now = snic_max_u64(now, snic_rate_ready_ns(&r, m.burst) / 2);
                model_to(&m, now);
                assert_int_equal(snic_rate_set(&r, speed, now), 0);
                m.per_second = speed;
                expect_same(&r, &m);
            }
        }
    }
}

/* The last bits of 64: a product that fits and a sum with the fraction that does not. */
static void test_base_rate_product_at_64_bits_is_exact(void **state)
{
    (void)state;
    struct snic_rate r;
    assert_int_equal(snic_rate_init(&r, 3, MOST, 0), 0);
    assert_int_equal(snic_rate_take(&r, MOST, 0), 0);
    assert_int_equal(snic_rate_take(&r, 0, 100), 0);
    assert_int_equal(r.fraction, 300);
    assert_int_equal(snic_rate_take(&r, 0, 100 + UINT64_MAX / 3), 0);
    base_u128 units = (base_u128)UINT64_MAX + 300;
    assert_true(r.tokens == (uint64_t)(units / UNIT));
    assert_true(r.fraction == (uint64_t)(units % UNIT));
}

/* Called every nanosecond or once, a span earns the same: 3 tokens/s for 100 s. */
static void test_base_rate_cut_span_earns_the_same(void **state)
{
    (void)state;
    struct snic_rng rng;
    struct snic_rate r;
    snic_rng_init(&rng, support_seed() + 4);
    assert_int_equal(snic_rate_init(&r, 3, 1000, 0), 0);
    assert_int_equal(snic_rate_take(&r, 1000, 0), 0);
    for (uint64_t now = 0; now < 100 * UNIT;) {
        now = snic_min_u64(now + snic_rng_below(&rng, 1000000), 100 * UNIT);
        assert_int_equal(snic_rate_take(&r, 0, now), 0);
    }
    assert_int_equal(r.tokens, 300);
    assert_int_equal(r.fraction, 0);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_base_siphash_published_vectors_match),
        cmocka_unit_test(test_base_siphash128_published_vectors_match),
        cmocka_unit_test(test_base_siphash_any_change_is_another_hash),
        cmocka_unit_test(test_base_rng_published_vectors_match),
        cmocka_unit_test(test_base_rng_seed_names_sequence),
        cmocka_unit_test(test_base_rng_below_is_uniform),
        cmocka_unit_test(test_base_rng_fill_writes_little_endian),
        cmocka_unit_test(test_base_hist_any_value_within_bound),
        cmocka_unit_test(test_base_hist_quantiles_follow_sorted_list),
        cmocka_unit_test(test_base_hist_merged_equals_recorded),
        cmocka_unit_test(test_base_hist_huge_counts_do_not_wrap),
        cmocka_unit_test(test_base_rate_bad_numbers_refused),
        cmocka_unit_test(test_base_rate_zero_speed_grants_burst_once),
        cmocka_unit_test(test_base_rate_random_spans_are_exact),
        cmocka_unit_test(test_base_rate_product_at_64_bits_is_exact),
        cmocka_unit_test(test_base_rate_cut_span_earns_the_same),
    };
    return SUPPORT_MAIN(argc, argv, tests);
}
