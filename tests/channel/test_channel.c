/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/** channel in simulated worlds: over mapped and unmapped links, every mode, death at each step. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "conformance_channel.h"
#include "support.h"

/* ---- A world with both sides ---- */

struct run {
    struct snic_world *w;
    struct snic_loop *loop[2];
    struct chan_host_side h;
    struct chan_dpu_side u;
    int sim; /* dma sim; else local */
    uint32_t mode;
};

static void run_open(struct run *r, const struct chan_opts *o, int sim, uint32_t caps)
{
    memset(r, 0, sizeof(*r));
    struct snic_world_opts wo = {.opts_size = sizeof(wo), .seed = o->seed};
    struct snic_dma_events none = {NULL, NULL, NULL, NULL};
    assert_int_equal(snic_world_open(&r->w, &wo), 0);
    for (uint32_t i = 0; i < 2; i++)
        assert_int_equal(snic_world_loop(r->w, i, &r->loop[i]), 0);
    r->sim = sim;
    if (sim) {
        struct snic_dma_sim_opts so = {.opts_size = sizeof(so), .caps = caps, .chunk = 32};
        if (o->look_ns != 0) { /* a piece moves in about the time between two looks */
            so.delay_min_ns = 500;
            so.delay_max_ns = 4000;
        }
        assert_int_equal(
            snic_dma_sim_open(&r->h.s.d, r->loop[0], &none, &r->u.s.d, r->loop[1], &none, &so), 0);
    } else {
        assert_int_equal(
            snic_dma_local_open(&r->h.s.d, r->loop[0], &none, &r->u.s.d, r->loop[1], &none), 0);
    }
    r->h.s.loop = r->loop[0];
    r->u.s.loop = r->loop[1];
    chan_host_begin(&r->h, o);
    chan_dpu_begin(&r->u, o);
    chan_host_open(&r->h);
    assert_int_equal(r->h.s.bad, 0);
}

static void run_close(struct run *r)
{
    if (r->h.s.hub != NULL)
        chan_end(&r->h.s);
    if (r->u.s.hub != NULL)
        chan_end(&r->u.s);
    chan_host_free(&r->h);
    for (int i = 0; i < 2; i++)
        snic_loop_close(r->loop[i]);
    snic_world_close(r->w);
}

/** Until every request is answered; the world standing still before that is a lost wake-up. */
static void run_finish(struct run *r)
{
    while (!chan_host_done(&r->h)) {
        if (snic_world_step(r->w) == 0)
            fail_msg("seed %llu mode %u: stands still: %u sent, %u taken, %u answered",
                     (unsigned long long)r->h.s.o.seed, r->mode, r->h.pushed, r->u.requests,
                     r->h.replies);
        if (r->h.s.bad + r->u.s.bad > 0)
            fail_msg("host: %s; dpu: %s", r->h.s.bad ? r->h.s.why : "-",
                     r->u.s.bad ? r->u.s.why : "-");
    }
}

static struct chan_opts run_opts(uint64_t seed)
{
    return (struct chan_opts){.seed = seed,
                              .requests = 300,
                              .payload_max = 900,
                              .payload_align = 8,
                              .ring_bytes = 8192,
                              .gap_ns = 50000,
                              .hold_ns = 20000};
}

#define ALL_CAPS (SNIC_DMA_CAP_ORDERED_READ | SNIC_DMA_CAP_ATOMIC)

#define MODE_LOOKING 128U

/** One mode of the ring disciplines, deliveries and alignments. */
static struct chan_opts mode_opts(uint64_t seed, uint32_t mode)
{
    struct chan_opts o = run_opts(seed);
    if (mode & 1)
        o.flags |= SNIC_CHANNEL_UP_QUIESCENT;
    if (mode & 2)
        o.flags |= SNIC_CHANNEL_DOWN_ORDERED;
    if (mode & 4)
        o.batch_bytes = 600;
    if (mode & 8) {
        o.payload_align = 512;
        o.ring_bytes = 32768;
        o.payload_max = 4096;
    }
    if (mode & 16)
        o.hold_ns = 0;
    if (mode & 32)
        o.gap_ns = 0;
    if (mode & MODE_LOOKING) {
        o.look_ns = 150;
        o.gap_ns = o.gap_ns > 0 ? 3000 : 0;
        o.hold_ns = o.hold_ns > 0 ? 2000 : 0;
        o.requests = 60;
    }
    if (mode & 64) { /* one at a time: nothing that comes later repairs a lost wake-up */
        o.window = 1;
        o.gap_ns = mode & 32 ? 2000 : 5000;
    }
    return o;
}

/** Operations per look, by the paper: one cursor read, one or two data reads, one head write. */
static void run_counts(const struct run *r, uint32_t mode, uint32_t caps)
{
    struct snic_channel_stats s;
    snic_channel_get_stats(r->u.s.c, &s);
    uint64_t news = s.looks - s.looks_empty;
    if ((mode & 1) == 0) /* the tail, then one or two reads of commit words */
        assert_in_range(s.dma_cursor_reads, s.looks, 3 * s.looks);
    else /* P and T at once, or one after the other */
        assert_int_equal(s.dma_cursor_reads,
                         s.looks * ((caps & SNIC_DMA_CAP_ORDERED_READ) != 0 ? 1 : 2));
    assert_in_range(s.dma_data_reads, 1, 2 * (news + 1));
    assert_in_range(s.dma_head_writes, 1, s.looks);
    assert_in_range(s.dma_flag_writes, 0, s.sleeps + s.full);
    assert_int_equal(s.received, r->u.requests);
}

static void run_mode(uint64_t seed, uint32_t mode, int sim, uint32_t caps, uint32_t accept_flags)
{
    static struct run r;
    struct chan_opts o = mode_opts(seed, mode);
    o.accept_flags = accept_flags;
    run_open(&r, &o, sim, caps);
    r.mode = mode;
    run_finish(&r);
    if (sim || accept_flags != 0)
        run_counts(&r, mode, sim ? caps : ALL_CAPS);
    /* An orderly end: the host closes, the DPU learns of it after the last message. */
    chan_give_all(&r.h.s);
    struct snic_channel_info info;
    snic_channel_get_info(r.u.s.c, &info);
    assert_int_equal(info.mapped, !sim && (accept_flags & SNIC_CHANNEL_UNMAPPED) == 0);
    assert_int_equal(info.kind, CHAN_KIND);
    assert_int_equal(info.id, 42);
    snic_loop_cancel(r.loop[0], &r.h.look);
    snic_channel_close(r.h.s.c);
    r.h.s.c = NULL;
    while (r.u.s.closed == 0)
        assert_int_equal(snic_world_step(r.w), 1);
    assert_int_equal(r.u.s.reason, 0);
    chan_give_all(&r.u.s);
    snic_channel_close(r.u.s.c);
    r.u.s.c = NULL;
    while (snic_world_step(r.w) > 0) {
    }
    assert_int_equal(snic_channel_hub_count(r.h.s.hub), 0);
    assert_int_equal(snic_channel_hub_count(r.u.s.hub), 0);
    assert_int_equal(r.h.s.bad + r.u.s.bad, 0);
    assert_int_equal(r.u.requests, o.requests);
    run_close(&r);
}

/** In place on mapped memory: every mode delivers each message once, whole and in order. */
static void test_channel_mapped_every_mode_delivers(void **state)
{
    (void)state;
    for (uint64_t seed = 0; seed < support_scale(1, 100); seed++)
        for (uint32_t mode = 0; mode < 128; mode += CHAN_STRIDE)
            run_mode(support_seed() + seed, mode, 0, 0, 0);
}

/** The same through mirrors, although the link is mapped: no caller may rely on in-place. */
static void test_channel_mirrored_every_mode_delivers(void **state)
{
    (void)state;
    for (uint64_t seed = 0; seed < support_scale(1, 100); seed++)
        for (uint32_t mode = 0; mode < 128; mode += CHAN_STRIDE)
            run_mode(support_seed() + seed, mode, 0, 0, SNIC_CHANNEL_UNMAPPED);
}

/** Over a link that reorders and tears, with and without ordered reads. */
static void test_channel_unmapped_every_mode_delivers(void **state)
{
    (void)state;
    const uint32_t caps[] = {0, ALL_CAPS};
    for (uint64_t seed = 0; seed < support_scale(1, 50); seed++)
        for (uint32_t mode = 0; mode < 128; mode += CHAN_STRIDE)
            for (int i = 0; i < 2; i++)
                run_mode(support_seed() + seed, mode, 1, caps[i], 0);
}

/** The same while the host looks all the time: it finds no word before what the word stands for. */
static void test_channel_unmapped_host_looking_sees_nothing_half_written(void **state)
{
    (void)state;
    for (uint64_t seed = 0; seed < support_scale(2, 100); seed++)
        for (uint32_t mode = 0; mode < 64; mode += CHAN_STRIDE)
            run_mode(support_seed() + seed, mode | MODE_LOOKING, 1, 0, 0);
}

/* ---- Death at each step ---- */

/** Kill one end after @p steps events; the other learns of it once and lets go. 1 while busy. */
static int run_death(uint64_t seed, uint32_t mode, int victim, uint32_t steps)
{
    static struct run r;
    struct chan_opts o = mode_opts(seed, mode);
    o.requests = 40;
    run_open(&r, &o, 1, ALL_CAPS);
    for (uint32_t i = 0; i < steps && !chan_host_done(&r.h); i++)
        if (snic_world_step(r.w) == 0)
            break;
    int busy = !chan_host_done(&r.h);
    struct chan_side *dead = victim == 0 ? &r.h.s : &r.u.s;
    struct chan_side *left = victim == 0 ? &r.u.s : &r.h.s;
    snic_dma_sim_kill(dead->d);
    snic_world_pause(r.w, victim == 0 ? 0 : 1, 1); /* its code does not run any more */
    while (left->deaths == 0)
        assert_int_equal(snic_world_step(r.w), 1);
    assert_int_equal(left->closed, left->c != NULL);
    if (left->c != NULL)
        assert_int_equal(left->reason, SNIC_EPEERDEAD);
    if (left == &r.h.s) {
        struct snic_channel_slot slot;
        assert_int_equal(snic_channel_up_reserve(&r.h.sender, 1, 8, 8, &slot), SNIC_EPIPE);
    }
    for (int i = 0; i < 200; i++) /* what is held is returned as if nothing had happened */
        (void)snic_world_step(r.w);
    snic_world_pause(r.w, victim == 0 ? 0 : 1, 0);
    assert_int_equal(left->closed, left->c != NULL);
    assert_int_equal(left->bad, 0);
    run_close(&r);
    return busy;
}

/** Wherever either end dies, the other gets one closed event and nothing after it. */
static void test_channel_killed_at_each_step_ends_once(void **state)
{
    (void)state;
    uint32_t stride = support_nightly() ? 1 : 13 * CHAN_STRIDE;
    for (uint32_t mode = 0; mode < 8; mode++)
        for (int victim = 0; victim < 2; victim++)
            for (uint32_t steps = mode % stride;
                 run_death(support_seed() + mode, mode, victim, steps); steps += stride) {
            }
}

/** Close one end after @p steps events, in the middle of everything. 1 while busy. */
static int run_leave(uint64_t seed, uint32_t mode, int leaver, int sim, uint32_t steps)
{
    static struct run r;
    struct chan_opts o = mode_opts(seed, mode);
    o.requests = 40;
    o.accept_flags = mode & 4 ? SNIC_CHANNEL_UNMAPPED : 0;
    run_open(&r, &o, sim, 0);
    for (uint32_t i = 0; i < steps && !chan_host_done(&r.h); i++)
        if (snic_world_step(r.w) == 0)
            break;
    int busy = !chan_host_done(&r.h);
    struct chan_side *leave = leaver == 0 ? &r.h.s : &r.u.s;
    struct chan_side *stay = leaver == 0 ? &r.u.s : &r.h.s;
    if (leaver == 0)
        snic_loop_cancel(leave->loop, &r.h.push);
    if (steps % 2 == 0 && leave->c != NULL) { /* the channel only, the link stays */
        chan_give_all(leave);
        snic_channel_close(leave->c);
        leave->c = NULL;
        while (stay->closed == 0 && stay->c != NULL)
            assert_int_equal(snic_world_step(r.w), 1);
        while (snic_world_step(r.w) > 0) {
        }
        if (stay->closed)
            assert_int_equal(stay->reason, 0);
        assert_int_equal(stay->deaths, 0);
    } else { /* everything at once */
        chan_end(leave);
        while (stay->deaths == 0)
            assert_int_equal(snic_world_step(r.w), 1);
        assert_int_equal(stay->closed, stay->c != NULL);
    }
    assert_int_equal(stay->bad + leave->bad, 0);
    run_close(&r);
    return busy;
}

/** Either end may close at any moment; the other gets the reason and keeps what it holds. */
static void test_channel_closed_at_each_step_ends_once(void **state)
{
    (void)state;
    uint32_t stride = support_nightly() ? 1 : 17 * CHAN_STRIDE;
    for (uint32_t mode = 0; mode < 8; mode++)
        for (int leaver = 0; leaver < 2; leaver++)
            for (int sim = 0; sim < 2; sim++)
                for (uint32_t steps = mode % stride;
                     run_leave(support_seed() + mode, mode, leaver, sim, steps); steps += stride) {
                }
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_channel_mapped_every_mode_delivers),
        cmocka_unit_test(test_channel_mirrored_every_mode_delivers),
        cmocka_unit_test(test_channel_unmapped_every_mode_delivers),
        cmocka_unit_test(test_channel_unmapped_host_looking_sees_nothing_half_written),
        cmocka_unit_test(test_channel_killed_at_each_step_ends_once),
        cmocka_unit_test(test_channel_closed_at_each_step_ends_once),
    };
    return SUPPORT_MAIN(argc, argv, tests);
}
