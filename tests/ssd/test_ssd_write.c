/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* The SSD model's writes and what they do to dies, with times worked out by hand (jitter 0). */
#include "test_ssd_util.h"

#include "ssd/ssd_priv.h"

/* The buffer takes what fits, then writes wait for programs, in order. */
static void test_ssd_buffer_full_write_waits_for_program(void **state)
{
    (void)state;
    struct snic_ssd_opts o = ssd_plain(SNIC_SSD_CLEAN);
    o.dies = 1;
    o.length_max = 16384;
    o.buffer_bytes = 32768;
    struct snic_ssd *d = ssd_open(&o);
    struct snic_ssd_cmd c[5];
    struct snic_ssd_stats s;
    for (uint32_t i = 0; i < 4; i++)
        ssd_send(d, &c[i], SNIC_SSD_WRITE, 0, 0, 16384, 0);
    ssd_send(d, &c[4], SNIC_SSD_WRITE, 0, 0, 1, 0); /* small, but behind the others */
    SSD_EXPECT(d, &c[0], 2000 + 4000 + 20);         /* fetch, link; its program begins at 6000 */
    SSD_EXPECT(d, &c[1], 6000 + 4000 + 20);
    snic_ssd_get_stats(d, &s);
    assert_int_equal(s.buffered, 32768);
    SSD_EXPECT(d, &c[2], 6000 + 100000 + 20);
    SSD_EXPECT(d, &c[3], 6000 + 200000 + 20);
    SSD_EXPECT(d, &c[4], 6000 + 300000 + 20);
    while (ssd_wait(d) != NULL)
        ;
    snic_ssd_get_stats(d, &s);
    assert_int_equal(s.programs, 4);
    assert_int_equal(s.buffered, 1); /* fills no unit, stays */
    ssd_close(d);
}

/* Units go to the die with the fewest; a die takes program_queue of them and no more. */
static void test_ssd_units_go_to_the_emptiest_die(void **state)
{
    (void)state;
    struct snic_ssd_opts o = ssd_plain(SNIC_SSD_CLEAN);
    o.dies = 2;
    o.buffer_bytes = 10 * 16384;
    struct snic_ssd *d = ssd_open(&o);
    struct snic_ssd_cmd c[3];
    for (uint32_t i = 0; i < 3; i++)
        ssd_send(d, &c[i], SNIC_SSD_WRITE, 0, 0, i == 2 ? 16384 : 32768, 0);
    assert_ptr_equal(ssd_wait(d), &c[0]);
    assert_int_equal(d->dies[0].programs, 1);
    assert_int_equal(d->dies[1].programs, 1);
    assert_ptr_equal(ssd_wait(d), &c[1]);
    assert_ptr_equal(ssd_wait(d), &c[2]);
    assert_int_equal(d->dies[0].programs, 2);
    assert_int_equal(d->dies[1].programs, 2);
    assert_int_equal(d->ready, 16384);
    assert_null(snic_ssd_poll(d, 110000)); /* one each is programmed */
    assert_int_equal(d->dies[0].programs + d->dies[1].programs, 3);
    assert_int_equal(d->ready, 0);
    while (ssd_wait(d) != NULL)
        ;
    ssd_close(d);
}

/* Keep both classes waiting at the one die for so long; the time each got. */
static void share_of(uint32_t share, uint32_t switch_ns, uint64_t *reading, uint64_t *writing)
{
    struct snic_ssd_opts o = ssd_plain(SNIC_SSD_CLEAN);
    struct snic_ssd_cmd r[4], w[4];
    struct snic_ssd_stats s;
    o.dies = 1;
    o.write_share = share;
    o.switch_ns = switch_ns;
    o.length_max = 16384;
    o.buffer_bytes = 32768;
    struct snic_ssd *d = ssd_open(&o);
    for (uint32_t i = 0; i < 4; i++) {
        ssd_send(d, &w[i], SNIC_SSD_WRITE, 1, 0, 16384, 0);
        ssd_send(d, &r[i], SNIC_SSD_READ, 0, 0, 4096, 0);
    }
    uint64_t now = 0;
    while (now < 1000000000) {
        struct snic_ssd_cmd *c = ssd_wait(d);
        now = c->done_ns;
        ssd_send(d, c, c->op, c->queue, 0, c->length, now);
    }
    snic_ssd_get_stats(d, &s);
    *reading = s.pieces * 51000;
    *writing = s.programs * 100000 + s.switches * switch_ns;
    ssd_drop(d);
}

/* The weights are the shares of time that each class gets while both wait. */
static void test_ssd_die_time_is_shared_by_weight(void **state)
{
    (void)state;
    static const uint32_t shares[3] = {256, 512, 768};
    for (uint32_t i = 0; i < 3; i++) {
        uint64_t r, w;
        share_of(shares[i], 0, &r, &w);
        assert_in_range(w * 1024 / (r + w), shares[i] - 5, shares[i] + 5);
        assert_in_range(r + w, 995000000, 1000200000);
        share_of(shares[i], 150000, &r, &w); /* turning round counts as writing */
        assert_in_range(w * 1024 / (r + w), shares[i] - 5, shares[i] + 5);
        assert_in_range(r + w, 995000000, 1000300000);
    }
}

/* A class that was away gets no credit for it, and turning to write costs the penalty once. */
static void test_ssd_idle_class_returns_without_credit(void **state)
{
    (void)state;
    struct snic_ssd_opts o = ssd_plain(SNIC_SSD_CLEAN);
    o.dies = 1;
    o.switch_ns = 30000;
    struct snic_ssd *d = ssd_open(&o);
    struct snic_ssd_cmd w[3], r[3];
    ssd_send(d, &r[0], SNIC_SSD_READ, 0, 0, 4096, 0);
    SSD_EXPECT(d, &r[0], 1000 + 51000 + 1010);
    for (uint32_t i = 0; i < 3; i++)
        ssd_send(d, &w[i], SNIC_SSD_WRITE, 0, 0, 16384, 1000000);
    for (uint32_t i = 0; i < 3; i++)
        ssd_send(d, &r[i], SNIC_SSD_READ, 1, 0, 4096, 1010000);
    for (uint32_t i = 0; i < 3; i++)
        assert_ptr_equal(ssd_wait(d), &w[i]);
    /* A program from 1006000, after turning, for which reads, away when it began, are owed
       nothing; a read; so many reads as fit into the program and turn after that; ... */
    SSD_EXPECT(d, &r[0], 1006000 + 130000 + 51000 + 1010);
    SSD_EXPECT(d, &r[1], 1006000 + 2 * 130000 + 2 * 51000 + 1010);
    SSD_EXPECT(d, &r[2], 1006000 + 2 * 130000 + 3 * 51000 + 1010);
    while (ssd_wait(d) != NULL)
        ;
    struct snic_ssd_stats s;
    snic_ssd_get_stats(d, &s);
    assert_int_equal(s.switches, 3);
    assert_int_equal(s.programs, 3);
    ssd_close(d);
}

/* The same the other way: after reads alone, programs are owed nothing for that time. */
static void test_ssd_long_reads_leave_no_debt_to_writes(void **state)
{
    (void)state;
    struct snic_ssd_opts o = ssd_plain(SNIC_SSD_CLEAN);
    o.dies = 1;
    struct snic_ssd *d = ssd_open(&o);
    struct snic_ssd_cmd w, r[2];
    uint64_t now = 0;
    for (uint32_t i = 0; i < 20; i++) {
        ssd_send(d, &r[0], SNIC_SSD_READ, 0, 0, 4096, now);
        assert_ptr_equal(ssd_wait(d), &r[0]);
        now = r[0].done_ns;
    }
    ssd_send(d, &r[0], SNIC_SSD_READ, 0, 0, 4096, 2000000);
    ssd_send(d, &r[1], SNIC_SSD_READ, 0, 0, 4096, 2000000);
    ssd_send(d, &w, SNIC_SSD_WRITE, 1, 0, 16384, 2000000);
    assert_ptr_equal(ssd_wait(d), &w); /* its program waits since 2007000 */
    SSD_EXPECT(d, &r[0], 2001000 + 51000 + 1010);
    SSD_EXPECT(d, &r[1], 2001000 + 2 * 51000 + 1010);
    while (ssd_wait(d) != NULL)
        ;
    ssd_close(d);
}

/* Only turning round costs: a die that keeps writing pays once. */
static void test_ssd_programs_in_a_row_turn_once(void **state)
{
    (void)state;
    struct snic_ssd_opts o = ssd_plain(SNIC_SSD_CLEAN);
    o.dies = 1;
    o.length_max = 16384;
    o.buffer_bytes = 32768;
    o.switch_ns = 30000;
    struct snic_ssd *d = ssd_open(&o);
    struct snic_ssd_cmd c[5];
    ssd_send(d, &c[0], SNIC_SSD_READ, 0, 0, 4096, 0);
    SSD_EXPECT(d, &c[0], 1000 + 51000 + 1010);
    for (uint32_t i = 0; i < 5; i++)
        ssd_send(d, &c[i], SNIC_SSD_WRITE, 0, 0, 16384, 1000000);
    SSD_EXPECT(d, &c[0], 1006020);
    SSD_EXPECT(d, &c[1], 1010020);
    for (uint32_t i = 2; i < 5; i++)
        SSD_EXPECT(d, &c[i], 1006000 + 30000 + (i - 1) * 100000 + 20);
    while (ssd_wait(d) != NULL)
        ;
    ssd_close(d);
}

/* Garbage collection: debt per unit, collected at the threshold, in chunks, before programs. */
static void test_ssd_debt_is_collected_before_programs(void **state)
{
    (void)state;
    struct snic_ssd_opts o = ssd_plain(SNIC_SSD_FRAGMENTED);
    o.dies = 1;
    o.length_max = 16384;
    o.buffer_bytes = 32768;
    o.write_amplification = 200; /* one program and four reads per unit: 100 + 4 x 50 us */
    o.gc_read_ns = 50000;
    o.gc_debt_ns = 600000; /* two units */
    o.gc_chunk_ns = 250000;
    struct snic_ssd *d = ssd_open(&o);
    struct snic_ssd_cmd c[6], r;
    struct snic_ssd_stats s;
    for (uint32_t i = 0; i < 6; i++)
        ssd_send(d, &c[i], SNIC_SSD_WRITE, 0, 0, 16384, 0);
    SSD_EXPECT(d, &c[0], 6020);
    SSD_EXPECT(d, &c[1], 10020);
    SSD_EXPECT(d, &c[2], 106020);
    SSD_EXPECT(d, &c[3], 206020); /* the second is programmed: 600 us of debt */
    ssd_send(d, &r, SNIC_SSD_READ, 1, 0, 4096, 210000);
    SSD_EXPECT(d, &r, 456000 + 51000 + 1010); /* after one chunk of 250 us */
    SSD_EXPECT(d, &c[4], 206000 + 600000 + 51000 + 100000 + 20);
    snic_ssd_get_stats(d, &s);
    assert_int_equal(s.collected_ns, 600000);
    SSD_EXPECT(d, &c[5], 206000 + 600000 + 51000 + 200000 + 20);
    while (ssd_wait(d) != NULL)
        ;
    snic_ssd_get_stats(d, &s);
    assert_int_equal(s.collected_ns, 1800000);
    assert_int_equal(s.programs, 6);
    ssd_close(d);
}

/* A clean device collects nothing, whatever its write amplification would be. */
static void test_ssd_clean_device_never_collects(void **state)
{
    (void)state;
    struct snic_ssd_opts o;
    snic_ssd_opts_dct983(&o);
    o.stall_odds = 1u << 20;
    o.stall_pool_bytes = 0;
    struct snic_ssd *d = ssd_open(&o);
    struct snic_ssd_cmd c;
    struct snic_ssd_stats s;
    uint64_t now = 0;
    for (uint32_t i = 0; i < 1000; i++) {
        ssd_send(d, &c, SNIC_SSD_WRITE, 0, 0, 131072, now);
        assert_ptr_equal(ssd_wait(d), &c);
        now = c.done_ns;
    }
    snic_ssd_get_stats(d, &s);
    assert_true(s.programs > 7000);
    assert_int_equal(s.collected_ns, 0);
    assert_int_equal(s.stalls, 0);
    ssd_drop(d);
}

/* Foreground collection: nothing while the pool lasts, then a stall; the pool fills with time. */
static void test_ssd_empty_pool_stalls_the_die(void **state)
{
    (void)state;
    struct snic_ssd_opts o = ssd_plain(SNIC_SSD_FRAGMENTED);
    o.dies = 1;
    o.length_max = 16384;
    o.buffer_bytes = 32768;
    o.gc_debt_ns = 1000000;
    o.stall_ns = 5000000;
    o.stall_odds = 1u << 20;
    o.stall_pool_bytes = 2 * 16384;
    o.stall_pool_rate = 1; /* a byte per us: 16384 us for a unit */
    struct snic_ssd *d = ssd_open(&o);
    struct snic_ssd_cmd c[4], r;
    struct snic_ssd_stats s;
    for (uint32_t i = 0; i < 4; i++)
        ssd_send(d, &c[i], SNIC_SSD_WRITE, 0, 0, 16384, 0);
    SSD_EXPECT(d, &c[0], 6020);
    SSD_EXPECT(d, &c[1], 10020);
    SSD_EXPECT(d, &c[2], 106020);
    SSD_EXPECT(d, &c[3], 206020);
    ssd_send(d, &r, SNIC_SSD_READ, 1, 0, 4096, 310000);
    SSD_EXPECT(d, &r, 306000 + 5000000 + 51000 + 1010); /* the third program left nothing */
    while (ssd_wait(d) != NULL)
        ;
    snic_ssd_get_stats(d, &s);
    assert_int_equal(s.programs, 4);
    assert_int_equal(s.stalls, 2);
    ssd_send(d, &c[0], SNIC_SSD_WRITE, 0, 0, 16384, 60000000); /* 49 ms later: two units */
    while (ssd_wait(d) != NULL)
        ;
    snic_ssd_get_stats(d, &s);
    assert_int_equal(s.programs, 5);
    assert_int_equal(s.stalls, 2);
    ssd_close(d);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_ssd_buffer_full_write_waits_for_program),
        cmocka_unit_test(test_ssd_units_go_to_the_emptiest_die),
        cmocka_unit_test(test_ssd_die_time_is_shared_by_weight),
        cmocka_unit_test(test_ssd_idle_class_returns_without_credit),
        cmocka_unit_test(test_ssd_long_reads_leave_no_debt_to_writes),
        cmocka_unit_test(test_ssd_programs_in_a_row_turn_once),
        cmocka_unit_test(test_ssd_debt_is_collected_before_programs),
        cmocka_unit_test(test_ssd_clean_device_never_collects),
        cmocka_unit_test(test_ssd_empty_pool_stalls_the_die),
    };
    return SUPPORT_MAIN(argc, argv, tests);
}
