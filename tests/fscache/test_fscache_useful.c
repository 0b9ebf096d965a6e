/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * The cache: what it is for. Reads and writes of single pages, as the kernel sends them,
 * of more pages than the cache has: nearly as many reads are answered from it as from an LRU of the
 * same size; it comes back after a storm of truncations behind the end and direct writes, and after
 * others had the store; and every byte that is read is the newest.
 */
#define WORLD_PAGES 320
#include "test_fscache_world.h"

#include "support/lru.h"

enum { PLACES = 128, PIECE = 16 };

static struct draw draw;
static struct lru lru;
static uint64_t reads, hits, lru_hits;

static int64_t write_pages(uint32_t key, uint32_t pages, uint32_t flags)
{
    struct op *o = op_bytes(SNIC_FSOP_WRITE, key % FILES, (uint64_t)key / FILES * FSCACHE_PAGE,
                            (uint64_t)pages * FSCACHE_PAGE);

    o->call->r.op.flags |= flags;
    now_write(o);
    memcpy(w.model[o->file] + o->offset, o->data, o->length);
    return op_alone(o);
}

static void read_page(uint32_t key)
{
    struct op *o =
        op_bytes(SNIC_FSOP_READ, key % FILES, (uint64_t)key / FILES * FSCACHE_PAGE, FSCACHE_PAGE);
    uint64_t size = w.size[o->file], before = w.fc->stats.read_hits;

    op_go(o);
    ops_end();
    check_read(o, size, size);
    ops_free();
    reads++;
    hits += w.fc->stats.read_hits - before;
    lru_hits += (uint64_t)lru_get(&lru, key);
    lru_put(&lru, key);
}

/* Points of hit rate behind the LRU in the next @ops operations, 10 % of them writes. */
static double useful_run(uint32_t ops)
{
    reads = hits = lru_hits = 0;
    for (uint32_t i = 0; i < ops; i++) {
        uint32_t key = draw_key(&draw, &w.rng);

        if (snic_rng_below(&w.rng, 10) == 0) {
            assert_int_equal(write_pages(key, 1, 0), FSCACHE_PAGE);
            lru_put(&lru, key);
        } else {
            read_page(key);
        }
    }
    return 100.0 * ((double)lru_hits - (double)hits) / (double)reads;
}

static void cache_on(void)
{
    for (int n = 0; n < 20000000 && w.fc->state != FSCACHE_ON; n++)
        world_step();
    assert_int_equal(w.fc->state, FSCACHE_ON);
}

static void useful_open(uint32_t keys, int zipf, int write_back)
{
    world_open(7 + support_seed(), write_back, 0);
    for (uint32_t f = 0; f < FILES; f++) /* they have all of their bytes, by the link */
        for (uint32_t page = 0; page < WORLD_PAGES; page += PIECE)
            assert_int_equal(write_pages(page * FILES + f, PIECE, SNIC_FSOP_DIRECT),
                             PIECE * FSCACHE_PAGE);
    cache_on();
    draw_open(&draw, keys, zipf);
    lru_open(&lru, keys, PLACES);
}

static void useful_close(void)
{
    lru_close(&lru);
    draw_close(&draw);
    world_close();
}

/** Hit rates at 0.9, 1.1, 2 and 10 times as many pages as places. */
static void test_fscache_hits_like_lru(void **state)
{
    static const uint32_t tenths[] = {9, 11, 20, 100};
    (void)state;

    /* Of half of them a sanitizer sees as much. */
    for (uint32_t i = SUPPORT_SANITIZED; i < SNIC_COUNTOF(tenths); i += 1 + SUPPORT_SANITIZED)
        for (int n = 0; n < 4; n++) {
            useful_open(PLACES * tenths[i] / 10, n & 1, n >> 1);
            (void)useful_run(16 * PLACES);
            double behind = useful_run((uint32_t)support_scale(2500, 50000));
            printf("  %4.1f x, %s, %s: %.1f %%, LRU %.1f %%\n", tenths[i] / 10.0,
                   n & 1 ? "Zipf   " : "uniform", n >> 1 ? "writes wait  " : "write-through",
                   100.0 * (double)hits / (double)reads, 100.0 * (double)lru_hits / (double)reads);
            assert_true(behind <= 5);
            useful_close();
        }
}

static void recovers(const char *what)
{
    double behind = 100;
    uint32_t ops;

    for (ops = 0; behind > 5 && ops < 1000000; ops += 500)
        behind = useful_run(500);
    printf("  %s: within 5 points of LRU after %u operations\n", what, ops);
    assert_true(behind <= 5);
}

/** Direct writes, truncations to the present size; then others have the store for a while. */
static void test_fscache_recovers(void **state)
{
    (void)state;
    for (int zipf = 0; zipf < 2; zipf++) {
        useful_open(2 * PLACES, zipf, 1);
        (void)useful_run(8 * PLACES);
        for (uint32_t i = 0; i < 500; i++) {
            struct op *o = op_new(SNIC_FSOP_SETATTR, i % FILES);

            o->call->r.op.set_mask = SNIC_FSOP_SET_SIZE;
            o->call->r.op.attr.size = w.size[i % FILES];
            assert_int_equal(op_alone(o), 0);
            assert_int_equal(write_pages(2 * PLACES + i % 500, 1, SNIC_FSOP_DIRECT), FSCACHE_PAGE);
        }
        recovers(zipf ? "Zipf, drops" : "uniform, drops");
        w.alone = 0;
        for (int n = 0; n < 20000000 && w.fc->state != FSCACHE_OFF; n++)
            world_step();
        assert_int_equal(w.fc->state, FSCACHE_OFF);
        w.alone = 1;
        cache_on();
        recovers(zipf ? "Zipf, others" : "uniform, others");
        useful_close();
    }
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_fscache_hits_like_lru),
        cmocka_unit_test(test_fscache_recovers),
    };
    return SUPPORT_MAIN(argc, argv, tests);
}
