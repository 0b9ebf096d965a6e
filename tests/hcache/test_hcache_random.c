/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * DMA in pieces and out of order, a store; readers, writers, fills, direct writes, truncations,
 * fsyncs; the DPU and the host die now and then.
 *
 * The model is shadow[ino][lpn], the version written last. What must hold at each step: a locked
 * page is whole and of that version; what is not cached is in the store; an fsync that was answered
 * has everything that was written before it.
 */
#include "test_hcache_util.h"

#include <stdio.h>
#include <string.h>

enum { THREADS = 3, LPNS = 12, FSYNCS = 8 };
enum what { IDLE, READING, WRITING, FILLING, DIRECT, CUT_DROP, CUT_AGAIN };

struct thread {
    enum what what;
    struct snic_hcache_page page;
    uint64_t ino, lpn, cut, version;
};

struct run {
    struct hworld w;
    struct thread t[THREADS];
    uint64_t shadow[HW_INOS][LPNS];
    uint64_t cuts[HW_INOS]; /* truncations so far          */
    int cutting[HW_INOS];
    uint64_t version;
    struct {
        uint64_t id, ino, cuts;
        uint64_t at[LPNS];
    } fsync[FSYNCS];
    uint64_t fsyncs, answered, epoch, kills;
    uint64_t synced[HW_INOS][LPNS]; /* what fsync has promised     */
};

static struct run r;

static void idle(struct thread *t)
{
    t->what = IDLE;
}

static void check_page(const struct thread *t)
{
    uint64_t v = hw_version(t->page.data, r.w.info.page_bytes, t->ino, t->lpn);

    if (v == UINT64_MAX)
        fail_msg("torn page %u/%u", (unsigned)t->ino, (unsigned)t->lpn);
    if (!r.cutting[t->ino] && v != r.shadow[t->ino][t->lpn])
        fail_msg("page %u/%u is %u, written last was %u", (unsigned)t->ino, (unsigned)t->lpn,
                 (unsigned)v, (unsigned)r.shadow[t->ino][t->lpn]);
}

static void missing(const struct thread *t)
{
    if (!r.cutting[t->ino] && r.w.store[t->ino][t->lpn].version != r.shadow[t->ino][t->lpn])
        fail_msg("page %u/%u is not cached, and the store has %u instead of %u", (unsigned)t->ino,
                 (unsigned)t->lpn, (unsigned)r.w.store[t->ino][t->lpn].version,
                 (unsigned)r.shadow[t->ino][t->lpn]);
}

static void begin(struct thread *t, struct snic_hcache_host *h)
{
    uint64_t dice = snic_rng_below(&r.w.rng, 100);
    int rc;

    t->ino = snic_rng_below(&r.w.rng, HW_INOS);
    t->lpn = snic_rng_below(&r.w.rng, LPNS);
    if (dice < 45) {
        rc = snic_hcache_get(h, t->ino, t->lpn, &t->page);
        if (rc == 0) {
            check_page(t);
            if ((t->page.flags & SNIC_HCACHE_AHEAD) != 0)
                hw_event(&r.w, SNIC_HCACHE_EV_AHEAD, 0, t->ino, t->lpn);
            t->what = READING;
        } else if (rc == SNIC_ENOENT) {
            missing(t);
            hw_event(&r.w, SNIC_HCACHE_EV_MISS, 0, t->ino, t->lpn);
            rc = snic_hcache_lock(h, t->ino, t->lpn, SNIC_HCACHE_FILL, &t->page);
            if (rc == 0)
                t->what = FILLING;
        }
    } else if (dice < 80) {
        if (r.cutting[t->ino])
            return;
        rc = snic_hcache_lock(h, t->ino, t->lpn, 0, &t->page);
        if (rc == SNIC_EAGAIN)
            hw_event(&r.w, SNIC_HCACHE_EV_KICK, 0, 0, 0);
        if (rc != 0)
            return;
        if ((t->page.flags & SNIC_HCACHE_NEW) == 0)
            check_page(t);
        else
            missing(t);
        t->version = ++r.version;
        hw_fill(t->page.data, r.w.info.page_bytes / 2, t->ino, t->lpn, t->version);
        t->what = WRITING;
    } else if (dice < 88) {
        if (!r.cutting[t->ino] &&
            snic_hcache_lock(h, t->ino, t->lpn, SNIC_HCACHE_DIRECT, &t->page) == 0)
            t->what = DIRECT;
    } else if (dice < 91) {
        uint32_t i;

        for (i = 0; i < THREADS; i++)
            if (r.t[i].ino == t->ino && r.t[i].what >= WRITING && &r.t[i] != t)
                return;
        t->cut = t->lpn;
        r.cutting[t->ino] = 1;
        t->what = CUT_DROP;
    } else if (dice < 94) {
        struct snic_hcache_event ev = {.kind = SNIC_HCACHE_EV_FSYNC};
        uint64_t slot = r.fsyncs % FSYNCS;

        ev.id = ++r.fsyncs;
        ev.ino = t->ino;
        r.fsync[slot].id = ev.id;
        r.fsync[slot].ino = t->ino;
        r.fsync[slot].cuts = r.cuts[t->ino];
        memcpy(r.fsync[slot].at, r.shadow[t->ino], sizeof(r.fsync[slot].at));
        (void)hw_step(&r.w, &ev);
    }
}

static void go_on(struct thread *t, struct snic_hcache_host *h)
{
    uint32_t bytes = r.w.info.page_bytes;
    uint64_t i;

    switch (t->what) {
    case IDLE:
        begin(t, h);
        return;
    case READING:
        check_page(t);
        assert_int_equal(snic_hcache_put(h, &t->page), 0);
        break;
    case FILLING:
        hw_fill(t->page.data, bytes, t->ino, t->lpn, r.w.store[t->ino][t->lpn].version);
        assert_int_equal(snic_hcache_unlock(h, &t->page, SNIC_HCACHE_UNLOCK_FILLED), 0);
        break;
    case WRITING:
        hw_fill(t->page.data, bytes, t->ino, t->lpn, t->version);
        assert_int_equal(snic_hcache_unlock(h, &t->page, SNIC_HCACHE_UNLOCK_DIRTY), 0);
        r.shadow[t->ino][t->lpn] = t->version;
        break;
    case DIRECT:
        r.w.store[t->ino][t->lpn].version = r.shadow[t->ino][t->lpn] = ++r.version;
        assert_int_equal(snic_hcache_unlock(h, &t->page, SNIC_HCACHE_UNLOCK_DROP), 0);
        break;
    case CUT_DROP:
        if (snic_hcache_drop(h, t->ino, &t->lpn, LPNS - 1) != 0)
            return;
        for (i = t->cut; i < LPNS; i++)
            r.w.store[t->ino][i].version = r.shadow[t->ino][i] = r.synced[t->ino][i] = 0;
        r.cuts[t->ino]++;
        t->lpn = t->cut;
        t->what = CUT_AGAIN;
        return;
    case CUT_AGAIN:
        if (snic_hcache_drop(h, t->ino, &t->lpn, LPNS - 1) != 0)
            return;
        r.cutting[t->ino] = 0;
        break;
    }
    idle(t);
}

static void answered(void)
{
    uint64_t slot = (r.w.synced_id + FSYNCS - 1) % FSYNCS;
    uint64_t ino = r.fsync[slot].ino;
    uint32_t i;

    if (r.w.syncs == r.answered)
        return;
    r.answered = r.w.syncs;
    if (r.fsync[slot].id != r.w.synced_id || r.fsync[slot].cuts != r.cuts[ino] || r.cutting[ino] ||
        r.w.synced_result != 0)
        return;
    for (i = 0; i < LPNS; i++) {
        if (r.w.store[ino][i].version < r.fsync[slot].at[i])
            fail_msg("fsync of %u answered, page %u has %u instead of %u", (unsigned)ino, i,
                     (unsigned)r.w.store[ino][i].version, (unsigned)r.fsync[slot].at[i]);
        r.synced[ino][i] = snic_max_u64(r.synced[ino][i], r.fsync[slot].at[i]);
    }
}

static void kill_host(void)
{
    uint64_t before = r.w.recovered;
    int torn[HW_INOS][LPNS];
    uint64_t cut[HW_INOS];
    uint32_t i, k, rounds = 0;

    memset(torn, 0, sizeof(torn));
    for (i = 0; i < HW_INOS; i++) {
        r.cuts[i]++; /* the requester of an fsync is dead */
        cut[i] = LPNS;
    }
    for (i = 0; i < THREADS; i++) {
        if (r.t[i].what == WRITING)
            torn[r.t[i].ino][r.t[i].lpn] = 1;
        if (r.t[i].what == CUT_DROP || r.t[i].what == CUT_AGAIN) {
            r.cutting[r.t[i].ino] = 0; /* the DPU truncated, or did not */
            cut[r.t[i].ino] = snic_min_u64(cut[r.t[i].ino], r.t[i].cut);
        }
        if (r.t[i].what == DIRECT) /* a lock and nothing else: but locked means dropped */
            torn[r.t[i].ino][r.t[i].lpn] = 1;
        if (r.t[i].what == CUT_DROP)
            for (k = (uint32_t)r.t[i].cut; k < LPNS; k++)
                torn[r.t[i].ino][k] = 1; /* some are dropped already */
        idle(&r.t[i]);
    }
    hw_event(&r.w, SNIC_HCACHE_EV_HOST_DEAD, 0, 0, 0);
    while (r.w.recovered == before) {
        if (!hw_work(&r.w))
            hw_pass(&r.w, SNIC_NEVER);
        assert_true(rounds++ < 1000000);
    }
    hw_settle(&r.w, 10000000000);
    assert_true(snic_hcache_control_idle(r.w.c));
    answered();
    r.epoch++;
    for (i = 0; i < HW_HOSTS; i++)
        assert_int_equal(snic_hcache_host_attach(&r.w.host[i], r.w.mem, r.w.size, i + 1, r.epoch),
                         0);
    for (i = 0; i < HW_INOS; i++) /* the successor drops behind what was being cut */
        if (cut[i] < LPNS)
            assert_int_equal(snic_hcache_drop(&r.w.host[0], i, &cut[i], LPNS - 1), 0);
    for (i = 0; i < HW_INOS; i++)
        for (k = 0; k < LPNS; k++) {
            if (r.w.store[i][k].version < r.synced[i][k])
                fail_msg("page %u/%u was fsynced and is lost", i, k);
            if (torn[i][k])
                r.shadow[i][k] = r.w.store[i][k].version;
            else if (r.w.store[i][k].version != r.shadow[i][k])
                fail_msg("page %u/%u was whole and is lost", i, k);
        }
    r.kills++;
}

static void one(uint64_t rounds, int deaths)
{
    uint64_t i;

    for (i = 0; i < rounds; i++) {
        uint64_t dice = snic_rng_below(&r.w.rng, 1000);

        if (dice < 500) {
            uint64_t t = snic_rng_below(&r.w.rng, THREADS);

            go_on(&r.t[t], &r.w.host[t]);
        } else if (dice < 940) {
            (void)hw_work(&r.w);
        } else if (dice < 998) {
            hw_pass(&r.w, r.w.now + 50000);
        } else if (deaths && dice == 998) {
            hw_kill_dpu(&r.w);
            r.w.syncs = r.answered;
            hw_restart(&r.w);
            r.kills++;
        } else if (deaths && snic_rng_below(&r.w.rng, 4) == 0) {
            kill_host();
        }
        answered();
        if (r.w.failure != NULL)
            fail_msg("%s", r.w.failure);
        if (i % 64 == 0)
            assert_int_equal(snic_hcache_check(r.w.mem, r.w.size, NULL), 0);
    }
}

static void run(const struct snic_hcache_opts *o, const struct snic_hcache_control_opts *co,
                uint64_t seed, uint64_t rounds, int deaths)
{
    struct snic_hcache_counts c;
    uint64_t i, k;

    memset(&r, 0, sizeof(r));
    r.epoch = 1;
    hw_open(&r.w, o, co, seed);
    one(rounds, deaths);
    while (r.t[0].what != IDLE || r.t[1].what != IDLE || r.t[2].what != IDLE) {
        for (i = 0; i < THREADS; i++)
            if (r.t[i].what != IDLE)
                go_on(&r.t[i], &r.w.host[i]);
        if (!hw_work(&r.w))
            hw_pass(&r.w, r.w.now + 50000);
    }
    hw_settle(&r.w, 10000000000);
    answered();
    assert_true(snic_hcache_control_idle(r.w.c));
    for (i = 0; i < HW_INOS; i++)
        for (k = 0; k < LPNS; k++)
            if (r.w.store[i][k].version != r.shadow[i][k])
                fail_msg("seed %u: page %u/%u ends as %u, written last was %u", (unsigned)seed,
                         (unsigned)i, (unsigned)k, (unsigned)r.w.store[i][k].version,
                         (unsigned)r.shadow[i][k]);
    assert_int_equal(snic_hcache_check(r.w.mem, r.w.size, &c), 0);
    assert_int_equal(c.dirty + c.invalid + c.read_locked + c.write_locked + c.flights + c.guards,
                     0);
    if (!deaths)
        assert_int_equal(c.header_free, c.free);
    hw_close(&r.w);
}

static void rounds_of(const char *name, uint32_t ways, uint64_t pages, int deaths)
{
    struct snic_hcache_opts o = {sizeof(o), 512, ways, SNIC_HCACHE_MODE_WRITE, pages, 3};
    struct snic_hcache_control_opts co = {.opts_size = sizeof(co),
                                          .jobs = 6,
                                          .prefetch_max = 4,
                                          .look_ns = 20000,
                                          .flush_ns = 1000000};
    uint64_t n = support_rounds(60, 3000);
    uint64_t i, fsyncs = 0, kills = 0, flushes = 0;

    for (i = 0; i < n; i++) {
        co.jobs = 2 + (uint32_t)(i % 7);
        co.policy = i % 3 == 0 ? snic_hcache_policy_clock() : NULL;
        o.seed = i;
        run(&o, &co, support_seed() * 1000 + i, 6000, deaths);
        fsyncs += r.answered;
        kills += r.kills;
        flushes += r.w.flushes;
    }
    print_message("%s: %u runs, %u flushes, %u fsyncs answered, %u deaths\n", name, (unsigned)n,
                  (unsigned)flushes, (unsigned)fsyncs, (unsigned)kills);
}

static void test_hcache_random_shadow(void **state)
{
    (void)state;
    rounds_of("2 pages", 2, 2, 0);
    rounds_of("16 pages", 4, 16, 0);
    rounds_of("32 pages", 16, 32, 0);
}

static void test_hcache_random_shadow_with_deaths(void **state)
{
    (void)state;
    rounds_of("2 pages", 2, 2, 1);
    rounds_of("16 pages", 4, 16, 1);
}

/* A reader that stops has two batches of prefetch_max pages ahead of it at most. */
static void test_hcache_random_reader_stops_prefetch_bounded(void **state)
{
    static const uint32_t most[] = {1, 2, 8, 15};

    (void)state;
    for (size_t i = 0; i < SNIC_COUNTOF(most); i++) {
        struct snic_hcache_opts o = {sizeof(o), 512, 8, SNIC_HCACHE_MODE_WRITE, 512, 7};
        struct snic_hcache_control_opts co = {.opts_size = sizeof(co),
                                              .jobs = 8,
                                              .prefetch_max = most[i],
                                              .look_ns = 100000,
                                              .flush_ns = 1000000};
        struct hworld w;
        uint64_t lpn, ahead = 0;

        hw_open(&w, &o, &co, support_seed());
        hw_settle(&w, 1000000);
        for (lpn = 0; lpn < HW_LPNS; lpn++)
            w.store[3][lpn].version = 1000 + lpn;
        for (lpn = 0; lpn < HW_LPNS; lpn++) {
            unsigned char out[512];
            int got = snic_hcache_read(&w.host[0], 3, lpn, 0, 512, out);

            if (lpn >= HW_LPNS / 2) {
                ahead += got != SNIC_ENOENT;
                continue; /* the engine does not hear of these */
            }
            if (got == SNIC_ENOENT || got == SNIC_HCACHE_AHEAD)
                hw_event(&w, got == SNIC_ENOENT ? SNIC_HCACHE_EV_MISS : SNIC_HCACHE_EV_AHEAD, 0, 3,
                         lpn);
            hw_settle(&w, 300000);
        }
        assert_in_range(ahead, 1, 2 * (uint64_t)most[i]);
        hw_close(&w);
    }
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_hcache_random_reader_stops_prefetch_bounded),
        cmocka_unit_test(test_hcache_random_shadow),
        cmocka_unit_test(test_hcache_random_shadow_with_deaths),
    };
    return SUPPORT_MAIN(argc, argv, tests);
}
