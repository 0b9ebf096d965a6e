/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * kvfs: what the records in memory are for. With more files than they have room for, as many
 * GETATTR need nothing of the store as an LRU of the same size would answer, nearly; that comes
 * back after a storm of names that are not there and after another mount was there; and every
 * answer is of the newest change.
 */
#include "test_kvfs_util.h"

#include "support/lru.h"

#include <stdio.h>
#include <string.h>

enum { CACHE_BYTES = 64 << 10, PLACES_MOST = 1000, KEYS_MOST = 10 * PLACES_MOST, STORM = 50000 };

struct useful {
    struct kvt t;
    struct snic_rng rng;
    struct draw draw;
    struct lru lru;
    uint64_t ino[KEYS_MOST];
    uint32_t version[KEYS_MOST]; /* the file's uid */
    uint32_t next;
    uint64_t reads, hits, lru_hits;
};

static struct useful u;

static uint64_t store_gets(void)
{
    struct snic_kvfs_stats s;

    snic_kvfs_get_stats(u.t.k, &s);
    return s.store_gets;
}

/* 1: without the store */
static int read_key(uint32_t key)
{
    struct snic_fsop_attr a;
    uint64_t before = store_gets();

    assert_int_equal(kvt_getattr(&u.t, u.ino[key], &a), 0);
    assert_int_equal(a.uid, u.version[key]);
    return store_gets() == before;
}

static void write_key(uint32_t key)
{
    struct snic_fsop_attr a;

    memset(&a, 0, sizeof(a));
    a.uid = u.version[key] = ++u.next;
    assert_int_equal(kvt_setattr(&u.t, u.ino[key], SNIC_FSOP_SET_UID, &a), 0);
}

static void make(uint32_t keys)
{
    struct snic_kvfs_opts o;
    uint64_t dir;

    memset(&u, 0, sizeof(u));
    snic_rng_init(&u.rng, 7 + support_seed());
    kvt_opts(&o);
    o.cache_bytes = CACHE_BYTES;
    o.flags = SNIC_KVFS_NO_ATIME;
    kvt_open(&u.t, &o);
    dir = kvt_mkdir(&u.t, SNIC_FSOP_ROOT, "dir", 0755);
    for (uint32_t k = 0; k < keys; k++) {
        char name[16];

        snprintf(name, sizeof(name), "f%u", k);
        u.ino[k] = kvt_file(&u.t, dir, name, 0644);
    }
    kvt_advance(&u.t, 2000000000); /* deferred times are written */
    kvt_settle(&u.t);
}

/* How many of the records that GETATTR wants there is room for. */
static uint32_t places(void)
{
    uint32_t n;

    make(PLACES_MOST);
    for (uint32_t k = 0; k < PLACES_MOST; k++)
        (void)read_key(k);
    for (n = 0; n < PLACES_MOST && read_key(PLACES_MOST - 1 - n); n++)
        ;
    assert_in_range(n, CACHE_BYTES / 320, PLACES_MOST - 1); /* 256 and a head each */
    kvt_close(&u.t);
    return n;
}

static void useful_open(uint32_t keys, uint32_t room, int zipf)
{
    make(keys);
    draw_open(&u.draw, keys, zipf);
    lru_open(&u.lru, keys, room);
}

static void useful_close(void)
{
    lru_close(&u.lru);
    draw_close(&u.draw);
    kvt_close(&u.t);
}

/* Points of hit rate behind the LRU in the next @ops operations, 10 % of them changes. */
static double useful_run(uint32_t ops)
{
    u.reads = u.hits = u.lru_hits = 0;
    for (uint32_t i = 0; i < ops; i++) {
        uint32_t key = draw_key(&u.draw, &u.rng);

        if (snic_rng_below(&u.rng, 10) == 0) {
            write_key(key);
            lru_put(&u.lru, key);
            continue;
        }
        u.reads++;
        u.hits += (uint64_t)read_key(key);
        u.lru_hits += (uint64_t)lru_get(&u.lru, key);
        lru_put(&u.lru, key);
    }
    return 100.0 * ((double)u.lru_hits - (double)u.hits) / (double)u.reads;
}

/** Hit rates at 0.9, 1.1, 2 and 10 times as many files as places. */
static void test_kvfs_records_hit_like_lru(void **state)
{
    static const uint32_t tenths[] = {9, 11, 20, 100};
    uint32_t room = places();
    (void)state;

    for (uint32_t i = 0; i < SNIC_COUNTOF(tenths); i++)
        for (int zipf = 0; zipf < 2; zipf++) {
            useful_open(room * tenths[i] / 10, room, zipf);
            (void)useful_run(20 * room);
            double behind = useful_run((uint32_t)support_rounds(20000, 500000));
            printf("  %u places, %4.1f x, %s: %.1f %%, LRU %.1f %%\n", room, tenths[i] / 10.0,
                   zipf ? "Zipf   " : "uniform", 100.0 * (double)u.hits / (double)u.reads,
                   100.0 * (double)u.lru_hits / (double)u.reads);
            assert_true(behind <= 5);
            useful_close();
        }
}

static void recovers(const char *what)
{
    double behind = 100;
    uint32_t ops;

    for (ops = 0; behind > 5 && ops < 1000000; ops += 1000)
        behind = useful_run(1000);
    printf("  %s: within 5 points of LRU after %u operations\n", what, ops);
    assert_true(behind <= 5);
}

/** Names that are not there, looked for and removed, and names that come and go. */
static void test_kvfs_records_recover_from_storm(void **state)
{
    uint32_t room = places();
    (void)state;

    for (int zipf = 0; zipf < 2; zipf++) {
        useful_open(2 * room, room, zipf);
        (void)useful_run(20 * room);
        uint64_t dir = kvt_lookup(&u.t, SNIC_FSOP_ROOT, "dir");
        for (uint32_t i = 0; i < (uint32_t)support_rounds(STORM / 10, STORM); i++) {
            char name[16];

            snprintf(name, sizeof(name), "no%u", i);
            if (i % 16 == 0)
                kvt_file(&u.t, dir, name, 0644);
            else
                assert_int_equal(kvt_try_lookup(&u.t, dir, name), SNIC_ENOENT);
            assert_int_equal(kvt_unlink(&u.t, dir, name), i % 16 == 0 ? 0 : SNIC_ENOENT);
        }
        recovers(zipf ? "Zipf" : "uniform");
        useful_close();
    }
}

/** All is dropped by mounting anew. */
static void test_kvfs_records_recover_from_drop(void **state)
{
    uint32_t room = places();
    (void)state;

    for (int zipf = 0; zipf < 2; zipf++) {
        useful_open(2 * room, room, zipf);
        (void)useful_run(20 * room);
        assert_int_equal(kvt_unmount(&u.t), 0);
        assert_int_equal(kvt_mount(&u.t), 0);
        recovers(zipf ? "Zipf" : "uniform");
        useful_close();
    }
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_kvfs_records_hit_like_lru),
        cmocka_unit_test(test_kvfs_records_recover_from_storm),
        cmocka_unit_test(test_kvfs_records_recover_from_drop),
    };
    return SUPPORT_MAIN(argc, argv, tests);
}
