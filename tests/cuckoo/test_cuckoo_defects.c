/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * The defects of the published table, one test each (its false misses and torn reads under a
 * writer are test_cuckoo_threads.c and test_cuckoo_weak.c), and what a full or attacked table does.
 */
#include "test_cuckoo_util.h"

#include "cuckoo/cuckoo_priv.h"

#include <stdio.h>
#include <stdlib.h>

static const struct cuckoo_words words_8_8 = {1, 1, 1, 2, 1};

/* Insert keys first, first + 1, ... until one is refused; returns that one. */
static uint64_t fill(struct snic_cuckoo *t, uint64_t first)
{
    uint64_t key = first;
    uint64_t item = ~key;

    while (snic_cuckoo_put(t, &key, &item) == 0) {
        key++;
        item = ~key;
    }
    return key;
}

static void expect_range(struct snic_cuckoo *t, uint64_t first, uint64_t end)
{
    for (uint64_t key = first; key < end; key++) {
        uint64_t item = 0;

        assert_int_equal(snic_cuckoo_get(t, &key, &item), 0);
        assert_true(item == ~key);
    }
}

/* Is the key in its second bucket only by necessity of its first being another one? */
static int is_in_second(struct snic_cuckoo *t, uint64_t key)
{
    struct cuckoo_spot s = cuckoo_spot_of(t, &key, words_8_8);
    uint64_t h = cuckoo_load(cuckoo_header(t, s.bucket[1]));

    if (s.bucket[0] == s.bucket[1])
        return 0;
    for (uint32_t i = 0; i < SNIC_CUCKOO_BUCKET_SLOTS; i++) {
        if (cuckoo_tag(h, i) != 0 && cuckoo_key_equal(cuckoo_slot(t, s.bucket[1], i, 2), &key, 1))
            return 1;
    }
    return 0;
}

/*
 * Published: a failed insert undoes its displacements wrongly and 6 % of the lookups miss. Here a
 * refused insert must not have changed a byte of headers and slots.
 */
static void test_cuckoo_full_failed_insert_changes_nothing(void **state)
{
    struct util_table u;
    size_t from = sizeof(struct snic_cuckoo);
    unsigned char *before;
    uint64_t end;
    uint64_t refused = 0;

    (void)state;
    util_open(&u, 8, 8, 8192, support_seed());
    end = fill(u.t, 0);
    assert_true(end >= 8192 * 95 / 100);
    before = malloc(u.size);
    memcpy(before, u.mem, u.size);
    for (uint64_t key = end; key < end + 3000; key++) {
        uint64_t item = ~key;
        int r = snic_cuckoo_put(u.t, &key, &item);

        if (r == 0) {
            assert_int_equal(snic_cuckoo_del(u.t, &key), 0);
            memcpy(before, u.mem, u.size); /* entries may have moved */
            continue;
        }
        assert_int_equal(r, SNIC_ENOSPC);
        assert_memory_equal(before + from, (unsigned char *)u.mem + from, u.size - from);
        refused++;
    }
    assert_true(refused > 0);
    assert_int_equal(snic_cuckoo_count(u.t), end);
    expect_range(u.t, 0, end);
    assert_int_equal(snic_cuckoo_check(u.t), 0);
    free(before);
    util_close(&u);
}

/* A full table still replaces: an item of a resident key needs no room. */
static void test_cuckoo_full_replace_succeeds(void **state)
{
    struct util_table u;
    uint64_t end;

    (void)state;
    util_open(&u, 8, 8, 4096, support_seed());
    end = fill(u.t, 0);
    for (uint64_t key = 0; key < end; key++) {
        uint64_t item = key ^ 5;

        assert_int_equal(snic_cuckoo_put(u.t, &key, &item), 1);
        assert_int_equal(snic_cuckoo_get(u.t, &key, &item), 0);
        assert_true(item == (key ^ 5));
    }
    assert_int_equal(snic_cuckoo_check(u.t), 0);
    util_close(&u);
}

/*
 * Published: a delete in the second bucket leaves the slot busy for ever, so the table fills up.
 * Here whatever is deleted, wherever it was, makes room for as many others.
 */
static void test_cuckoo_second_bucket_delete_frees_slot(void **state)
{
    struct util_table u;
    uint64_t base = 0;
    uint64_t end;

    (void)state;
    util_open(&u, 8, 8, 4096, support_seed());
    end = fill(u.t, base);
    for (uint32_t round = 0; round < 20; round++) {
        uint64_t second = 0;
        uint64_t put = 0;
        uint64_t extra = end;

        for (uint64_t key = base; key < end; key++) {
            if (is_in_second(u.t, key)) {
                assert_int_equal(snic_cuckoo_del(u.t, &key), 0);
                assert_int_equal(snic_cuckoo_get(u.t, &key, NULL), SNIC_ENOENT);
                second++;
            }
        }
        assert_true(second > (end - base) / 4);
        for (; put < second; extra++) {
            uint64_t item = ~extra;

            if (snic_cuckoo_put(u.t, &extra, &item) == 0)
                put++;
            assert_true(extra < end + 2 * second); /* leaked slots would refuse here for ever */
        }
        assert_int_equal(snic_cuckoo_check(u.t), 0);
        snic_cuckoo_clear(u.t);
        base = extra;
        end = fill(u.t, base);
        assert_true(end - base >= 4096 * 94 / 100);
    }
    util_close(&u);
}

/*
 * Published: a key in its second bucket is inserted again into the first when that has a free
 * slot; a delete then uncovers the old item.
 */
static void test_cuckoo_resident_put_again_no_duplicate(void **state)
{
    struct util_table u;
    uint64_t end;
    uint64_t tried = 0;

    (void)state;
    util_open(&u, 8, 8, 4096, support_seed());
    end = fill(u.t, 0);
    for (uint64_t key = 0; key < end; key += 2) /* free slots everywhere */
        assert_int_equal(snic_cuckoo_del(u.t, &key), 0);
    for (uint64_t key = 1; key < end; key += 2) {
        uint64_t count = snic_cuckoo_count(u.t);
        uint64_t item = 99;

        tried += (uint64_t)is_in_second(u.t, key);
        assert_int_equal(snic_cuckoo_put(u.t, &key, &item), 1);
        assert_int_equal(snic_cuckoo_count(u.t), count);
        assert_int_equal(snic_cuckoo_del(u.t, &key), 0);
        assert_int_equal(snic_cuckoo_get(u.t, &key, &item), SNIC_ENOENT);
        assert_int_equal(snic_cuckoo_del(u.t, &key), SNIC_ENOENT);
    }
    assert_true(tried > 100);
    assert_int_equal(snic_cuckoo_count(u.t), 0);
    assert_int_equal(snic_cuckoo_check(u.t), 0);
    util_close(&u);
}

static uint64_t rotl64(uint64_t x, uint32_t n)
{
    return x << n | x >> (64 - n);
}

static uint64_t inverse_mod_2_64(uint64_t odd)
{
    uint64_t x = odd;

    for (int i = 0; i < 6; i++)
        x *= 2 - odd * x;
    return x;
}

/*
 * The 8-byte key whose XXH3-64 under seed 0 is 0, by running XXH3_rrmxmx() backwards: the last
 * xor-shift and multiplication keep 0; x ^ (x >> 35) + 8 = 0 has the solution 8; the first step
 * x ^ rotl(x, 49) ^ rotl(x, 24) has order 64, so 63 applications invert it.
 */
static uint64_t key_of_hash_zero(void)
{
    uint64_t x = 8 * inverse_mod_2_64(UINT64_C(0x9fb21c651e98df25));
    uint64_t flip = snic_get_le64(XXH3_kSecret + 8) ^ snic_get_le64(XXH3_kSecret + 16);

    for (int i = 0; i < 63; i++)
        x ^= rotl64(x, 49) ^ rotl64(x, 24);
    x ^= flip;
    return x << 32 | x >> 32; /* the hash reads the key's halves swapped */
}

/* Published: hash value 0 means an empty slot. Here every part of a hash may be 0. */
static void test_cuckoo_hash_zero_key_is_kept(void **state)
{
    struct util_table u;
    uint64_t zero = key_of_hash_zero();
    uint64_t item = 77;
    uint64_t out = 0;
    uint32_t found = 0;

    (void)state;
    util_open(&u, 8, 8, 4096, 0);
    assert_true(XXH3_64bits_withSeed(&zero, 8, 0) == 0);
    assert_int_equal(cuckoo_spot_of(u.t, &zero, words_8_8).bucket[0], 0);
    assert_int_equal(snic_cuckoo_put(u.t, &zero, &item), 0);
    assert_int_equal(snic_cuckoo_put(u.t, &zero, &item), 1);
    assert_int_equal(snic_cuckoo_get(u.t, &zero, &out), 0);
    assert_int_equal(out, 77);
    for (uint64_t key = 0; found < 300; key++) { /* the tag byte of the hash is 0 */
        if ((XXH3_64bits_withSeed(&key, 8, 0) & 0xff) != 0)
            continue;
        assert_int_equal(snic_cuckoo_put(u.t, &key, &key), 0);
        assert_int_equal(snic_cuckoo_get(u.t, &key, &out), 0);
        assert_true(out == key);
        found++;
    }
    assert_int_equal(snic_cuckoo_count(u.t), 301);
    assert_int_equal(snic_cuckoo_check(u.t), 0);
    assert_int_equal(snic_cuckoo_del(u.t, &zero), 0);
    assert_int_equal(snic_cuckoo_get(u.t, &zero, &out), SNIC_ENOENT);
    util_close(&u);
}

/*
 * Keys that differ in one byte only, at every position and size, must not be one key. The table is
 * so small that most of them share a bucket, and many a tag.
 */
static void test_cuckoo_keys_one_byte_apart_stay_apart(void **state)
{
    (void)state;
    for (uint32_t size = 1; size <= SNIC_CUCKOO_KEY_MAX; size++) {
        for (uint32_t at = 0; at < size; at++) {
            unsigned char key[SNIC_CUCKOO_KEY_MAX] = {0};
            struct util_table u;
            uint64_t item = 1;
            uint64_t full = 0;

            util_open(&u, size, 8, 1, support_seed());
            for (uint32_t i = 0; i < 256 && full == 0; i++) {
                key[at] = (unsigned char)i;
                assert_int_equal(snic_cuckoo_get(u.t, key, NULL), SNIC_ENOENT);
                full = snic_cuckoo_put(u.t, key, &item) == SNIC_ENOSPC ? i : 0;
            }
            assert_int_equal(snic_cuckoo_count(u.t), full);
            for (uint32_t i = 0; i < 256; i++) {
                key[at] = (unsigned char)i;
                assert_int_equal(snic_cuckoo_get(u.t, key, NULL), i < full ? 0 : SNIC_ENOENT);
            }
            assert_int_equal(snic_cuckoo_check(u.t), 0);
            util_close(&u);
        }
    }
}

/* The promise of the header: plan with a load of .95, for any seed and for unlucky sizes. */
static void test_cuckoo_load_reaches_95_percent(void **state)
{
    (void)state;
    for (uint64_t i = 0; i < support_scale(12, 200); i++) {
        struct util_table u;
        struct snic_cuckoo_stats s;
        uint64_t slots = 8192 + i * 1237; /* a power of two is not needed */

        util_open(&u, 8, 8, slots, support_seed() + i);
        fill(u.t, 0);
        snic_cuckoo_get_stats(u.t, &s);
        assert_true(s.count >= s.capacity_slots * 95 / 100);
        assert_int_equal(s.refused, 1);
        assert_true(s.paths[1] > 0 && s.paths[2] > 0);
        assert_int_equal(snic_cuckoo_check(u.t), 0);
        util_close(&u);
    }
}

/*
 * 10^6 keys fill FLOOD_SLOTS to .93, where inserts displace a lot. Instrumented and emulated builds
 * take a tenth of both.
 */
enum { FLOOD_KEYS = 1000000, FLOOD_SLOTS = 1075268, FLOOD_TRIED = 20000 };

static uint64_t flood_rotate(uint64_t x, uint32_t by)
{
    by %= 64;
    return by == 0 ? x : x << by | x >> (64 - by);
}

/*
 * The key of 8 bytes that XXH3 under seed 0 gives this hash: each of its steps is undone. The
 * first, x ^ rotl(x, 49) ^ rotl(x, 24), is its own 63rd power's inverse, as its 64th is the
 * identity (squaring doubles the distances).
 */
static uint64_t flood_key(uint64_t hash)
{
    uint64_t multiplier = UINT64_C(0x9fb21c651e98df25);
    uint64_t inverse = multiplier; /* right to 3 bits, then to twice as many per round */
    uint64_t x = hash ^ hash >> 28 ^ hash >> 56;

    for (uint32_t i = 0; i < 5; i++)
        inverse *= 2 - multiplier * inverse;
    x *= inverse;
    x ^= (x >> 35) + 8;
    x *= inverse;
    for (uint32_t power = 1; power < 64; power *= 2)
        x = x ^ flood_rotate(x, 49 * power) ^ flood_rotate(x, 24 * power);
    x = flood_rotate(x ^ UINT64_C(0xc73ab174c5ecd5a2), 32);
    return x;
}

/* Keys that under seed 0 all have one tag and share a 1/1024 of the first buckets. */
static void flood_choose(uint64_t *keys, uint64_t n)
{
    struct snic_rng rng;

    snic_rng_init(&rng, support_seed());
    for (uint64_t i = 0; i < n; i++) {
        uint64_t hash = (snic_rng_next(&rng) >> 42) << 32 | (i << 8 | 0x5a);

        keys[i] = flood_key(hash);
        assert_true(XXH3_64bits_withSeed(&keys[i], 8, 0) == hash);
    }
}

static struct snic_cuckoo_stats flood_fill(const uint64_t *keys, uint64_t n, uint64_t slots,
                                           uint64_t seed)
{
    struct snic_cuckoo_stats s;
    struct util_table u;
    uint64_t found = 0;
    uint64_t item;

    util_open(&u, 8, 8, slots, seed);
    for (uint64_t i = 0; i < n; i++)
        (void)!snic_cuckoo_put(u.t, &keys[i], &keys[i]);
    for (uint64_t i = 0; i < n; i++)
        found += (uint64_t)(snic_cuckoo_get(u.t, &keys[i], &item) == 0 && item == keys[i]);
    snic_cuckoo_get_stats(u.t, &s);
    assert_true(found == s.count && s.count + s.refused == n);
    util_close(&u);
    return s;
}

/* Equal but for chance: the counts are in the thousands, so 5% and 200 are many deviations. */
static void flood_expect_alike(uint64_t a, uint64_t b)
{
    uint64_t most = snic_max_u64(a, b);

    assert_true(most - snic_min_u64(a, b) <= most / 20 + 200);
}

/*
 * Hash flooding: an attacker who knows the seed can compute keys for any bucket and tag. A table of
 * that seed is full at once, and spends its time in path searches. In one with a seed that he does
 * not know they are keys like any: no more refused, displaced or searched for than with random
 * ones.
 */
static void test_cuckoo_flood_chosen_for_seed_0_harmless_elsewhere(void **state)
{
    uint64_t share = support_scale(UTIL_SLOW ? 10 : 1, 1);
    uint64_t n = FLOOD_KEYS / share;
    uint64_t slots = FLOOD_SLOTS / share;
    uint64_t *keys = calloc(2 * n, sizeof(*keys));
    struct snic_cuckoo_stats chosen;
    struct snic_cuckoo_stats random;
    struct snic_rng rng;
    uint64_t seed;

    (void)state;
    assert_non_null(keys);
    flood_choose(keys, n);
    snic_rng_init(&rng, support_seed() + 1);
    seed = snic_rng_next(&rng);
    for (uint64_t i = n; i < 2 * n; i++)
        keys[i] = snic_rng_next(&rng);

    chosen = flood_fill(keys, FLOOD_TRIED / share, slots, 0);
    random = flood_fill(keys + n, FLOOD_TRIED / share, slots, 0);
    assert_int_equal(random.refused, 0);
    assert_true(chosen.refused > FLOOD_TRIED / share / 2); /* the attack is one */
    assert_true(chosen.searched > 1000 * (random.searched + 1));

    chosen = flood_fill(keys, n, slots, seed);
    random = flood_fill(keys + n, n, slots, seed);
    printf("  %llu keys, chosen against random: %llu and %llu displaced, %llu and %llu searched\n",
           (unsigned long long)n, (unsigned long long)chosen.displacements,
           (unsigned long long)random.displacements, (unsigned long long)chosen.searched,
           (unsigned long long)random.searched);
    assert_int_equal(chosen.refused, 0);
    assert_int_equal(random.refused, 0);
    flood_expect_alike(chosen.displacements, random.displacements);
    flood_expect_alike(chosen.searched, random.searched);
    for (uint32_t i = 0; i <= SNIC_CUCKOO_PATH_MAX; i++)
        flood_expect_alike(chosen.paths[i], random.paths[i]);
    free(keys);
}

/* check() must see what it is for: each planted corruption is reported. */
static void test_cuckoo_damaged_check_reports(void **state)
{
    struct util_table u;
    uint64_t key = 5;
    uint64_t item = 6;
    struct cuckoo_spot s;
    _Atomic uint64_t *h;
    uint64_t good;
    uint32_t i = 0;

    (void)state;
    util_open(&u, 8, 8, 64, 3);
    assert_int_equal(snic_cuckoo_put(u.t, &key, &item), 0);
    s = cuckoo_spot_of(u.t, &key, words_8_8);
    h = cuckoo_header(u.t, s.bucket[0]);
    good = cuckoo_load(h);
    assert_int_equal(cuckoo_tag(good, i), s.tag);
    cuckoo_store(h, good ^ 1); /* another tag */
    assert_int_equal(snic_cuckoo_check(u.t), SNIC_ECORRUPT);
    cuckoo_store(h, cuckoo_with_tag(good, i, 0)); /* lost */
    assert_int_equal(snic_cuckoo_check(u.t), SNIC_ECORRUPT);
    cuckoo_store(h, good + SNIC_CUCKOO__SEQ_ODD); /* left in the middle of an update */
    assert_int_equal(snic_cuckoo_check(u.t), SNIC_ECORRUPT);
    cuckoo_store(h, cuckoo_with_tag(good, 1, s.tag)); /* twice */
    cuckoo_store(cuckoo_slot(u.t, s.bucket[0], 1, 2), key);
    atomic_store_explicit(&u.t->counters.inserts, 2, memory_order_relaxed);
    assert_int_equal(snic_cuckoo_check(u.t), SNIC_ECORRUPT);
    util_close(&u);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_cuckoo_full_failed_insert_changes_nothing),
        cmocka_unit_test(test_cuckoo_full_replace_succeeds),
        cmocka_unit_test(test_cuckoo_second_bucket_delete_frees_slot),
        cmocka_unit_test(test_cuckoo_resident_put_again_no_duplicate),
        cmocka_unit_test(test_cuckoo_hash_zero_key_is_kept),
        cmocka_unit_test(test_cuckoo_keys_one_byte_apart_stay_apart),
        cmocka_unit_test(test_cuckoo_load_reaches_95_percent),
        cmocka_unit_test(test_cuckoo_flood_chosen_for_seed_0_harmless_elsewhere),
        cmocka_unit_test(test_cuckoo_damaged_check_reports),
    };
    return SUPPORT_MAIN(argc, argv, tests);
}
