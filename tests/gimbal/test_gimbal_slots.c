/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * The paper's scheduler, with numbers worked out by hand: Algorithm 2's slots, credits, round robin
 * beside a model of ten lines.
 */
#include "gimbal/gimbal_priv.h"
#include "test_gimbal_util.h"

/* ---- Algorithm 2 ---- */

static struct snic_gimbal_io many[4096];

/* How many of @count I/Os of each of the tenants leave without a completion. */
static uint32_t leave(struct gx *x, uint32_t tenants, uint32_t count, uint8_t op, uint32_t size)
{
    uint32_t out = 0;
    for (uint32_t i = 0; i < count; i++)
        gx_submit(x, &many[i], i % tenants, op, size);
    while (gx_next(x) != NULL)
        out++;
    return out;
}

static void finish(struct gx *x, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++) {
        if (many[i].state == GIMBAL_IO_QUEUED)
            assert_int_equal(snic_gimbal_cancel(x->g, &many[i], x->now), 0);
        else if (many[i].state != GIMBAL_IO_FREE)
            snic_gimbal_complete(x->g, &many[i], 1, x->now);
    }
    gx_close(x);
}

/* Section 3.5: 8 slots over the tenants, at least one; 32 x 4 KiB or 1 x 128 KiB each. */
static void test_gimbal_slots_by_hand(void **state)
{
    (void)state;
    static const struct {
        uint32_t flags;
        uint32_t tenants;
        uint32_t size;
        uint8_t op;
        uint32_t out;
    } golden[] = {
        {0, 1, 128 * KIB, 0, 8},
        {0, 2, 128 * KIB, 0, 8},
        {0, 3, 128 * KIB, 0, 9}, /* rounded up: 8 / 3 slots would leave the device idle */
        {0, 5, 128 * KIB, 0, 10},
        {0, 7, 128 * KIB, 0, 14},
        {0, 16, 128 * KIB, 0, 16},
        {0, 1, 4 * KIB, 0, 256},
        {0, 2, 4 * KIB, 0, 256},
        {0, 16, 4 * KIB, 0, 512},
        {0, 1, 100 * KIB, 0, 16},
        {0, 16, 4 * KIB, 1, 64}, /* 4 x 36 KiB of cost */
        {0, 16, 128 * KIB, 1, 16},
        {SNIC_GIMBAL_SLOT_ABOVE, 1, 128 * KIB, 0, 16},
        {SNIC_GIMBAL_SLOT_ABOVE, 16, 4 * KIB, 0, 528},
        {0, 1, 8u << 20, 0, 8},
    };
    for (size_t i = 0; i < SNIC_COUNTOF(golden); i++) {
        struct snic_gimbal_opts o = {.flags = golden[i].flags | SNIC_GIMBAL_SLOT_BARRIER,
                                     .rate_start = SEC};
        struct gx x;
        gx_open(&x, &o);
        gx_tenants(&x, golden[i].tenants);
        assert_int_equal(leave(&x, golden[i].tenants, 1024, golden[i].op, golden[i].size),
                         golden[i].out);
        assert_int_equal(snic_gimbal_check(x.g), 0);
        finish(&x, 1024);
    }
}

/* A tenant that reads and writes has half a slot for each while both are on the device. */
static void test_gimbal_slots_halved_between_flows(void **state)
{
    (void)state;
    struct snic_gimbal_opts o = {
        .flags = SNIC_GIMBAL_SLOT_BARRIER, .slot_threshold = 1, .rate_start = SEC};
    static const uint32_t out[] = {32, 16, 32}; /* no write; one is out; one was */
    for (int k = 0; k < 3; k++) {
        struct snic_gimbal_io write;
        struct gx x;
        gx_open(&x, &o);
        gx_tenants(&x, 1);
        if (k > 0) {
            gx_submit(&x, &write, 0, SNIC_GIMBAL_WRITE, 4096);
            assert_ptr_equal(gx_next(&x), &write);
        }
        if (k == 2)
            snic_gimbal_complete(x.g, &write, 1, x.now);
        assert_int_equal(leave(&x, 1, 64, SNIC_GIMBAL_READ, 4096), out[k]);
        assert_int_equal(snic_gimbal_check(x.g), 0);
        if (k == 1)
            snic_gimbal_complete(x.g, &write, 1, x.now);
        finish(&x, 64);
    }
}

/* A slot is free when the last of its I/Os is done; its credit is what it held. */
static void test_gimbal_slot_waits_for_its_last(void **state)
{
    (void)state;
    struct snic_gimbal_opts o = {.flags = SNIC_GIMBAL_SLOT_BARRIER | SNIC_GIMBAL_CREDIT_LATEST,
                                 .rate_start = SEC};
    struct gx x;
    gx_open(&x, &o);
    gx_tenants(&x, 9);
    assert_int_equal(leave(&x, 9, 9 * 40, 0, 8 * KIB), 9 * 16);
    assert_int_equal(gx_tenant(&x, 0).deferred, 1);
    for (uint32_t i = 1; i < 16; i++) { /* all but the first of tenant 0 */
        snic_gimbal_complete(x.g, &many[9 * i], 1, ++x.now);
        assert_int_equal(many[9 * i].credit, 32); /* as at the start */
        assert_null(gx_next(&x));
    }
    snic_gimbal_complete(x.g, &many[0], 1, ++x.now);
    assert_int_equal(many[0].credit, 16);
    for (uint32_t i = 16; i < 32; i++)
        assert_ptr_equal(gx_next(&x), &many[9 * i]);
    assert_null(gx_next(&x));
    finish(&x, 9 * 40);
}

/* Credit rises with a slot of more I/Os at once, and falls by an eighth a slot, rounded up. */
static void test_gimbal_credit_falls_slowly(void **state)
{
    (void)state;
    static const struct {
        uint32_t size;
        uint32_t ios;
        uint32_t credit;
    } slot[] = {{128 * KIB, 1, 28}, {128 * KIB, 1, 24}, {128 * KIB, 1, 21}, {8 * KIB, 16, 18},
                {8 * KIB, 16, 16},  {8 * KIB, 16, 16},  {2 * KIB, 64, 64},  {4 * KIB, 32, 56}};
    struct snic_gimbal_opts o = {
        .flags = SNIC_GIMBAL_SLOT_BARRIER, .slot_threshold = 1, .rate_start = SEC};
    struct snic_gimbal_io io[64];
    struct gx x;
    gx_open(&x, &o);
    gx_tenants(&x, 1); /* as if slots of 32 had completed */
    for (size_t k = 0; k < SNIC_COUNTOF(slot); k++) {
        x.now += SEC;
        for (uint32_t i = 0; i < slot[k].ios; i++) {
            gx_submit(&x, &io[i], 0, 0, slot[k].size);
            assert_ptr_equal(gx_next(&x), &io[i]);
        }
        for (uint32_t i = 0; i < slot[k].ios; i++)
            snic_gimbal_complete(x.g, &io[i], 1, x.now);
        assert_int_equal(io[slot[k].ios - 1].credit, slot[k].credit);
        assert_int_equal(snic_gimbal_check(x.g), 0);
    }
    gx_close(&x);
}

/* Small reads alone: a slot more opens when fewer than 1.25 slots are out. */
static void test_gimbal_slots_overlap_among_small_reads(void **state)
{
    (void)state;
    struct snic_gimbal_opts o = {.rate_start = SEC};
    struct gx x;
    gx_open(&x, &o);
    gx_tenants(&x, 9);
    assert_int_equal(leave(&x, 9, 9 * 100, 0, 4 * KIB), 9 * 64); /* 32 are fewer than 40 */
    for (uint32_t i = 0; i < 24; i++) {
        snic_gimbal_complete(x.g, &many[9 * i], 1, ++x.now);
        assert_int_equal(many[9 * i].credit, 40);
        assert_null(gx_next(&x));
    }
    snic_gimbal_complete(x.g, &many[9 * 24], 1, ++x.now); /* 39 are out */
    for (uint32_t i = 64; i < 96; i++)
        assert_ptr_equal(gx_next(&x), &many[9 * i]);
    assert_null(gx_next(&x));
    finish(&x, 9 * 100);
}

/* One tenant's slots of fewer I/Os, or with a write, and all wait again. */
static void test_gimbal_slots_overlap_for_all_or_none(void **state)
{
    (void)state;
    static const struct {
        uint32_t size;
        uint8_t op;
        uint32_t ios;
    } other[] = {{128 * KIB, 0, 4}, {4 * KIB, 1, 4}, {64 * KIB, 0, 4}, {16 * KIB, 0, 8}};
    for (size_t k = 0; k < SNIC_COUNTOF(other); k++) {
        struct snic_gimbal_opts o = {.rate_start = 8 * SEC};
        struct snic_gimbal_io io[8];
        struct gx x;
        gx_open(&x, &o);
        gx_tenants(&x, 10);
        for (uint32_t i = 0; i < other[k].ios; i++) {
            gx_submit(&x, &io[i], 9, other[k].op, other[k].size);
            assert_ptr_equal(gx_next(&x), &io[i]);
        }
        for (uint32_t i = 0; i < other[k].ios; i++)
            snic_gimbal_complete(x.g, &io[i], 1, x.now);
        assert_int_equal(leave(&x, 9, 9 * 40, 0, 4 * KIB), 9 * 32);
        x.now += 2 * MS; /* no more active */
        assert_int_equal(leave(&x, 1, 0, 0, 0), 0);
        uint32_t more = 0;
        snic_gimbal_complete(x.g, &many[0], 1, ++x.now);
        while (gx_next(&x) != NULL)
            more++;
        assert_int_equal(more, 8); /* all that tenant 0 has */
        finish(&x, 9 * 40);
    }
}

/* A lone tenant's slots go back to it idle_ns after its neighbour's last I/O, not before. */
static void test_gimbal_idle_neighbour_keeps_slots_for_a_while(void **state)
{
    (void)state;
    struct snic_gimbal_opts o = {.rate_start = SEC};
    struct snic_gimbal_io io;
    struct gx x;
    gx_open(&x, &o);
    gx_tenants(&x, 2);
    gx_submit(&x, &io, 1, 0, 4096);
    assert_ptr_equal(gx_next(&x), &io);
    snic_gimbal_complete(x.g, &io, 1, x.now);
    uint64_t idle = x.now;
    for (uint32_t i = 0; i < 16; i++)
        gx_submit(&x, &many[i], 0, 0, 128 * KIB);
    uint32_t out = 0;
    for (; gx_view(&x).slots == 4; out += snic_gimbal_poll(x.g, x.now) != NULL) {
        uint64_t deadline = snic_gimbal_deadline_ns(x.g);
        assert_true(deadline != SNIC_NEVER && out <= 4);
        x.now = deadline;
    }
    assert_int_equal(x.now, idle + MS);
    while (gx_next(&x) != NULL)
        out++;
    assert_int_equal(out, 8);
    finish(&x, 16);
}

/* ---- Round robin ---- */

struct model_flow {
    uint32_t costs[64];
    uint32_t count;
    uint32_t next;
    uint64_t deficit;
};

/* One round of the textbook: what each tenant sends of each op. A tenant's two flows split its
 * quantum while both have I/Os. */
static uint32_t model_round(struct model_flow f[8][2], const uint32_t *quantum, uint32_t want[8][2])
{
    uint32_t sent = 0;
    memset(want, 0, 8 * sizeof(want[0]));
    for (uint32_t i = 0; i < 8; i++) {
        int both = f[i][0].next < f[i][0].count && f[i][1].next < f[i][1].count;
        for (uint32_t op = 0; op < 2; op++) {
            struct model_flow *m = &f[i][op];
            if (m->next == m->count)
                continue;
            m->deficit += quantum[i] >> both;
            while (m->next < m->count && m->costs[m->next] <= m->deficit) {
                m->deficit -= m->costs[m->next++];
                want[i][op]++;
                sent++;
            }
        }
    }
    return sent;
}

/*
 * Textbook deficit round robin, round by round, beside ours: in each round each flow
 * sends the same I/Os. (Within a round, ours visits flows in the order in which they were put
 * there.) Sizes from 1 byte to 8 MiB, so that some wait for hundreds of rounds.
 */
static void test_gimbal_rounds_beside_model(void **state)
{
    (void)state;
    struct snic_rng r;
    snic_rng_init(&r, support_seed());
    for (uint32_t run = 0; run < support_scale(300, 5000); run++) {
        static struct model_flow f[8][2];
        struct snic_gimbal_opts o = {.tenants_max = 8,
                                     .flags = SNIC_GIMBAL_NO_EXPRESS,
                                     .quantum_bytes = 512 + (uint32_t)snic_rng_below(&r, 200000),
                                     .rate_start = SNIC_GIMBAL_RATE_MAX,
                                     .rate_min = SNIC_GIMBAL_RATE_MAX,
                                     .rate_max = SNIC_GIMBAL_RATE_MAX,
                                     .cost_period_ns = SNIC_GIMBAL_NS_MAX};
        uint32_t quantum[8];
        uint32_t left = 0;
        struct gx x;
        gx_open(&x, &o);
        memset(f, 0, sizeof(f));
        for (uint32_t i = 0; i < 8; i++) {
            struct snic_gimbal_tenant_opts to = {.opts_size = sizeof(to)};
            uint32_t count = (uint32_t)snic_rng_below(&r, 60);
            to.weight = 1 + (uint32_t)snic_rng_below(&r, 4);
            quantum[i] = o.quantum_bytes * to.weight;
            left += count;
            assert_int_equal(snic_gimbal_tenant_add(x.g, i, &to), 0);
            for (uint32_t k = 0; k < count; k++) {
                uint32_t bits = (uint32_t)snic_rng_below(&r, 24);
                uint32_t size = 1 + (uint32_t)snic_rng_below(&r, UINT64_C(1) << bits);
                uint8_t op = (uint8_t)snic_rng_below(&r, 2);
                f[i][op].costs[f[i][op].count++] = op ? size * 9 : size;
                gx_submit(&x, &many[64 * i + k], i, op, size);
            }
        }
        for (uint32_t round = 1; left > 0; round++) {
            uint32_t want[8][2];
            uint32_t sent = model_round(f, quantum, want);
            left -= sent;
            for (; sent > 0; sent--) {
                struct snic_gimbal_io *io = gx_next(&x);
                assert_non_null(io);
                assert_int_equal(x.g->round, round);
                assert_true(want[io->tenant][io->op]-- > 0);
                assert_int_equal(snic_gimbal_check(x.g), 0);
                snic_gimbal_complete(x.g, io, 1, x.now); /* so that slots do not matter */
            }
        }
        assert_null(snic_gimbal_poll(x.g, x.now));
        gx_close(&x);
    }
}

/* An urgent small read does not wait for the hundreds of rounds that a large write needs. */
static void test_gimbal_urgent_read_before_large_write(void **state)
{
    (void)state;
    struct snic_gimbal_opts o = {.rate_start = SNIC_GIMBAL_RATE_MAX,
                                 .rate_max = SNIC_GIMBAL_RATE_MAX};
    struct gx x;
    gx_open(&x, &o);
    gx_tenants(&x, 2);
    x.now += 100 * MS;
    gx_submit(&x, &many[0], 0, SNIC_GIMBAL_WRITE, 8u << 20); /* 576 rounds */
    for (uint32_t i = 1; i < 300; i++)
        gx_submit(&x, &many[i], 1, SNIC_GIMBAL_READ, 4096);
    for (uint32_t i = 1; i < 40; i++) { /* the first rounds are the neighbour's */
        struct snic_gimbal_io *io = gx_next(&x);
        assert_int_equal(io->tenant, 1);
        snic_gimbal_complete(x.g, io, 1, x.now);
    }
    gx_fill(&many[300], 0, SNIC_GIMBAL_READ, 4096);
    many[300].priority = 7;
    assert_int_equal(snic_gimbal_submit(x.g, &many[300], x.now), 0);
    assert_int_equal(snic_gimbal_check(x.g), 0);
    uint32_t before = 0;
    struct snic_gimbal_io *io;
    while ((io = gx_next(&x)) != &many[300]) {
        assert_int_equal(io->tenant, 1);
        snic_gimbal_complete(x.g, io, 1, x.now);
        before++;
    }
    snic_gimbal_complete(x.g, io, 1, x.now);
    assert_true(before <= 64); /* the rest of this round, and one more */
    finish(&x, 301);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_gimbal_slots_by_hand),
        cmocka_unit_test(test_gimbal_slots_halved_between_flows),
        cmocka_unit_test(test_gimbal_slot_waits_for_its_last),
        cmocka_unit_test(test_gimbal_credit_falls_slowly),
        cmocka_unit_test(test_gimbal_slots_overlap_among_small_reads),
        cmocka_unit_test(test_gimbal_slots_overlap_for_all_or_none),
        cmocka_unit_test(test_gimbal_idle_neighbour_keeps_slots_for_a_while),
        cmocka_unit_test(test_gimbal_rounds_beside_model),
        cmocka_unit_test(test_gimbal_urgent_read_before_large_write),
    };
    return SUPPORT_MAIN(argc, argv, tests);
}
