/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * hcache: what the cache is for. With more pages than entries its hit rate is nearly that of an LRU
 * of the same size, while pages are written and flushed, or dropped by direct writes; it comes back
 * after storms of drops and after pressure by dirty pages; and what it holds is never older than
 * the newest version.
 */
#include "snicstore/hcache.h"

#include "support.h"
#include "support/lru.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    PAGES = 1024,
    KEYS_MOST = 10 * PAGES,
    PAGE_BYTES = 512,
    FILES = 7,
    STORM = 100000,
    OP_NS = 20000,  /* time that passes with each access                      */
    KICKS_MOST = 16 /* of a host that finds no entry, before it does without */
};

struct cache {
    void *mem, *cmem;
    size_t size;
    struct snic_hcache_host host;
    struct snic_hcache_control *c;
    struct snic_rng rng;
    struct draw draw;
    struct lru lru;
    uint64_t now;
    int direct;    /* writes go to the store and drop the page */
    int store_bad; /* flushes fail: pages stay dirty            */
    uint64_t version;
    uint64_t newest[KEYS_MOST], stored[KEYS_MOST];
    uint64_t reads, hits, lru_hits, around, marks;
};

static struct cache k;

static uint64_t file_of(uint32_t key)
{
    return 1 + key % FILES;
}

static uint64_t page_of(uint32_t key)
{
    return key / FILES;
}

static uint32_t key_of(uint64_t ino, uint64_t lpn)
{
    return (uint32_t)(lpn * FILES + ino - 1);
}

static void page_fill(void *data, uint32_t key, uint64_t version)
{
    snic_put_le64(data, key);
    snic_put_le64((char *)data + 8, version);
    snic_put_le64((char *)data + PAGE_BYTES - 8, version);
}

static uint64_t page_version(const void *data, uint32_t key)
{
    uint64_t version = snic_get_le64((const char *)data + 8);

    assert_int_equal(snic_get_le64(data), key);
    assert_int_equal(snic_get_le64((const char *)data + PAGE_BYTES - 8), version);
    return version;
}

/* ---- The engine, whose operations are carried out at once ---- */

static void dma(struct snic_hcache_op *op)
{
    unsigned char *there = (unsigned char *)k.mem + op->offset;

    if (op->kind == SNIC_HCACHE_OP_READ) {
        memcpy(op->local, there, op->bytes);
    } else if (op->kind == SNIC_HCACHE_OP_WRITE) {
        memcpy(there, op->local, op->bytes);
    } else {
        op->value = snic_get_le64(there);
        if (op->kind == SNIC_HCACHE_OP_ADD)
            snic_put_le64(there, op->value + op->operand);
        else if (op->value == op->compare)
            snic_put_le64(there, op->operand);
    }
}

static void carry_out(struct snic_hcache_action *a, struct snic_hcache_event *ev)
{
    uint32_t key = key_of(a->ino, a->lpn);

    memset(ev, 0, sizeof(*ev));
    ev->id = a->id;
    switch (a->kind) {
    case SNIC_HCACHE_ACT_DMA:
        for (uint32_t i = 0; i < a->count; i++)
            dma(&a->ops[i]);
        ev->kind = SNIC_HCACHE_EV_DMA;
        break;
    case SNIC_HCACHE_ACT_FLUSH:
        ev->kind = SNIC_HCACHE_EV_FLUSHED;
        ev->result = k.store_bad ? SNIC_ENOSPC : 0;
        if (!k.store_bad) {
            assert_true(page_version(a->data, key) >= k.stored[key]);
            k.stored[key] = page_version(a->data, key);
        }
        break;
    case SNIC_HCACHE_ACT_FETCH:
        ev->kind = SNIC_HCACHE_EV_FETCHED;
        if (key < KEYS_MOST) {
            memset(a->data, 0, PAGE_BYTES);
            page_fill(a->data, key, k.stored[key]);
            ev->bytes = PAGE_BYTES;
        } else {
            ev->result = SNIC_ENOENT;
        }
        break;
    default:
        break;
    }
}

static void engine(uint32_t kind, uint32_t key)
{
    struct snic_hcache_event ev = {.kind = kind, .ino = file_of(key), .lpn = page_of(key)};
    struct snic_hcache_action a;

    ev.count = 1;
    assert_int_equal(snic_hcache_control_step(k.c, &ev, k.now), 0);
    while (snic_hcache_control_poll(k.c, &a, 1) != 0) {
        carry_out(&a, &ev);
        if (ev.kind != SNIC_HCACHE_EV_NONE)
            assert_int_equal(snic_hcache_control_step(k.c, &ev, k.now), 0);
    }
}

static void pass(uint64_t ns)
{
    k.now += ns;
    while (snic_hcache_control_deadline_ns(k.c) <= k.now)
        engine(SNIC_HCACHE_EV_NONE, 0);
}

/* ---- The host ---- */

/* The hash is always the same: where an LRU of all pages would give up none, because direct writes
 * leave some of its places empty, buckets of 16 do, and how many depends on how evenly it spreads
 * these few keys: 3 to 5 points. */
static void cache_open(uint32_t keys, int zipf, int direct, const struct snic_hcache_policy *policy)
{
    struct snic_hcache_opts o = {.opts_size = sizeof(o),
                                 .page_bytes = PAGE_BYTES,
                                 .mode = SNIC_HCACHE_MODE_WRITE,
                                 .pages = PAGES,
                                 .seed = 8};
    struct snic_hcache_control_opts co = {.opts_size = sizeof(co), .policy = policy};
    struct snic_hcache_info info;
    size_t need;

    memset(&k, 0, sizeof(k));
    snic_rng_init(&k.rng, 7 + support_seed());
    draw_open(&k.draw, keys, zipf);
    lru_open(&k.lru, KEYS_MOST, PAGES);
    k.direct = direct;
    k.version = 1;
    for (uint32_t i = 0; i < KEYS_MOST; i++)
        k.newest[i] = k.stored[i] = 1;
    k.size = snic_hcache_memsize(&o);
    k.mem = support_guard_alloc(k.size, SNIC_HCACHE_ALIGN);
    assert_int_equal(snic_hcache_init(k.mem, k.size, &o), 0);
    assert_int_equal(snic_hcache_geometry(k.mem, k.size, &info), 0);
    assert_int_equal(snic_hcache_host_attach(&k.host, k.mem, k.size, 1, 1), 0);
    need = snic_hcache_control_memsize(&info, &co);
    k.cmem = support_guard_alloc(need, SNIC_CACHELINE);
    k.now = 1000000;
    assert_int_equal(snic_hcache_control_init(&k.c, k.cmem, need, &info, &co, k.now), 0);
    engine(SNIC_HCACHE_EV_NONE, 0);
}

static void cache_close(void)
{
    assert_int_equal(snic_hcache_check(k.mem, k.size, NULL), 0);
    assert_int_equal(snic_hcache_control_check(k.c), 0);
    (void)snic_hcache_control_fini(k.c);
    support_guard_free(k.cmem);
    support_guard_free(k.mem);
    lru_close(&k.lru);
    draw_close(&k.draw);
}

/* 0 and a locked page, or SNIC_EAGAIN: no entry could be had. */
static int cache_lock(uint32_t key, uint32_t flags, struct snic_hcache_page *page)
{
    int rc = SNIC_EAGAIN;

    for (int i = 0; i < KICKS_MOST; i++) {
        rc = snic_hcache_lock(&k.host, file_of(key), page_of(key), flags, page);
        if (rc == 0)
            return 0;
        assert_true(rc == SNIC_EAGAIN || rc == SNIC_EBUSY);
        engine(SNIC_HCACHE_EV_KICK, 0);
    }
    assert_int_equal(rc, SNIC_EAGAIN);
    k.around++;
    return rc;
}

static void cache_write(uint32_t key)
{
    struct snic_hcache_page page;
    int rc = cache_lock(key, k.direct ? SNIC_HCACHE_DIRECT : 0, &page);

    k.newest[key] = ++k.version;
    if (k.direct || rc != 0)
        k.stored[key] = k.version;
    if (rc == 0 && !k.direct)
        page_fill(page.data, key, k.version);
    if (rc == 0)
        assert_int_equal(
            snic_hcache_unlock(&k.host, &page,
                               k.direct ? SNIC_HCACHE_UNLOCK_DROP : SNIC_HCACHE_UNLOCK_DIRTY),
            0);
    if (k.direct)
        lru_remove(&k.lru, key);
    else
        lru_put(&k.lru, key);
}

static void cache_read(uint32_t key)
{
    struct snic_hcache_page page;
    int rc = snic_hcache_get(&k.host, file_of(key), page_of(key), &page);

    k.reads++;
    k.lru_hits += (uint64_t)lru_get(&k.lru, key);
    lru_put(&k.lru, key);
    if (rc == 0) {
        k.hits++;
        assert_int_equal(page_version(page.data, key), k.newest[key]);
        assert_int_equal(snic_hcache_put(&k.host, &page), 0);
        if ((page.flags & SNIC_HCACHE_AHEAD) != 0) {
            k.marks++;
            engine(SNIC_HCACHE_EV_AHEAD, key);
        }
        return;
    }
    assert_int_equal(rc, SNIC_ENOENT);
    assert_int_equal(k.stored[key], k.newest[key]); /* what is not cached is in the store */
    if (cache_lock(key, SNIC_HCACHE_FILL, &page) == 0) {
        page_fill(page.data, key, k.stored[key]);
        assert_int_equal(snic_hcache_unlock(&k.host, &page, SNIC_HCACHE_UNLOCK_FILLED), 0);
    }
    engine(SNIC_HCACHE_EV_MISS, key);
}

/* Points of hit rate that it is behind the LRU in the next @ops accesses, 10 % of them writes. */
static double cache_run(uint32_t ops)
{
    k.reads = k.hits = k.lru_hits = 0;
    for (uint32_t i = 0; i < ops; i++) {
        uint32_t key = draw_key(&k.draw, &k.rng);

        pass(OP_NS);
        if (snic_rng_below(&k.rng, 10) == 0)
            cache_write(key);
        else
            cache_read(key);
    }
    return 100.0 * ((double)k.lru_hits - (double)k.hits) / (double)k.reads;
}

/** Hit rates at 0.9, 1.1, 2 and 10 times as many pages as entries. */
static void test_hcache_hits_like_lru(void **state)
{
    static const uint32_t tenths[] = {9, 11, 20, 100};
    (void)state;

    for (int policy = 0; policy < 2; policy++)
        for (uint32_t i = 0; i < SNIC_COUNTOF(tenths); i++)
            for (int n = 0; n < 4; n++) {
                int zipf = n & 1, direct = n >> 1;

                cache_open(PAGES / 10 * tenths[i], zipf, direct,
                           policy ? snic_hcache_policy_clock() : NULL);
                (void)cache_run(20 * PAGES);
                double behind = cache_run((uint32_t)support_rounds(60000, 1000000));
                printf("  %s, %4.1f x, %s, %s: %.1f %%, LRU %.1f %%; %llu around\n",
                       policy ? "CLOCK  " : "default", tenths[i] / 10.0,
                       zipf ? "Zipf   " : "uniform", direct ? "direct " : "buffered",
                       100.0 * (double)k.hits / (double)k.reads,
                       100.0 * (double)k.lru_hits / (double)k.reads, (unsigned long long)k.around);
                assert_true(behind <= 5);
                cache_close();
            }
}

/** Drops of pages that are not there, singly and by ranges: nothing else goes. */
static void test_hcache_absent_drops_cost_nothing(void **state)
{
    (void)state;
    for (int zipf = 0; zipf < 2; zipf++) {
        cache_open(2 * PAGES, zipf, 0, NULL);
        (void)cache_run(20 * PAGES);
        for (uint64_t i = 0; i < STORM; i++) {
            uint64_t lpn = KEYS_MOST + i;

            assert_int_equal(
                snic_hcache_drop(&k.host, 1 + i % FILES, &lpn, lpn + (i % 100 == 0 ? 9 : 0)), 0);
            if (i % 100 == 0)
                pass(OP_NS);
        }
        double behind = cache_run(20000);
        printf("  %s: %.1f points behind LRU at once\n", zipf ? "Zipf" : "uniform", behind);
        assert_true(behind <= 5);
        cache_close();
    }
}

/** Everything is dropped; everything is dirty and the store full: it comes back. */
static void test_hcache_recovers(void **state)
{
    (void)state;
    for (int zipf = 0; zipf < 2; zipf++) {
        cache_open(2 * PAGES, zipf, 0, NULL);
        for (int round = 0; round < 3; round++) {
            uint32_t ops = 0;
            double behind = 100;

            (void)cache_run(20 * PAGES);
            for (int i = 0; i < 1000 && snic_hcache_dirty(&k.host) != 0; i++)
                pass(1000000);
            assert_int_equal(snic_hcache_dirty(&k.host), 0);
            if (round == 0) {
                for (uint64_t ino = 1; ino <= FILES; ino++) {
                    uint64_t lpn = 0;
                    assert_int_equal(snic_hcache_drop(&k.host, ino, &lpn, UINT64_MAX), 0);
                }
            } else {
                k.store_bad = 1;
                for (uint32_t key = 0; key < k.draw.keys; key++) {
                    pass(OP_NS);
                    cache_write(key);
                }
                k.store_bad = 0;
                assert_true(k.around > 0);
            }
            while (behind > 5 && ops < 1000000) {
                behind = cache_run(5000);
                ops += 5000;
            }
            printf("  %s, %s: within 5 points of LRU after %u operations\n",
                   zipf ? "Zipf" : "uniform", round ? "all dirty" : "dropped", ops);
            assert_true(behind <= 5);
        }
        cache_close();
    }
}

/** Pages read ahead of random reads bring nothing; those ahead of a sequence come nonetheless. */
static void test_hcache_reads_ahead_of_sequences_after_random_reads(void **state)
{
    (void)state;
    cache_open(PAGES / 10 * 11, 0, 0, NULL);
    assert_true(cache_run(60000) <= 5);
    k.reads = k.hits = k.marks = 0;
    for (uint32_t page = 300; page < 1400; page++) {
        if (page == 1000)
            k.marks = 0; /* batches are large again */
        pass(OP_NS);
        cache_read(page * FILES);
    }
    printf("  %.1f %% of a sequence were there, the last 400 in %llu batches\n",
           100.0 * (double)k.hits / (double)k.reads, (unsigned long long)k.marks);
    assert_true(k.hits * 10 >= k.reads * 9 && k.marks <= 60);
    cache_close();
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_hcache_hits_like_lru),
        cmocka_unit_test(test_hcache_absent_drops_cost_nothing),
        cmocka_unit_test(test_hcache_recovers),
        cmocka_unit_test(test_hcache_reads_ahead_of_sequences_after_random_reads),
    };
    return SUPPORT_MAIN(argc, argv, tests);
}
