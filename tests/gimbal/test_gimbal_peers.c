/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/** The schedulers that Gimbal is compared with, against sequences computed by hand. */
#include <string.h>

#include "../../bench/gimbal_peers/sched.h"
#include "support.h"

#define KIB 1024u
#define IOS 64

struct fix {
    const struct sched_ops *ops;
    struct sched *s;
    struct sched_io ios[IOS];
    uint32_t used;
};

static void fix_open(struct fix *f, const char *name, const struct sched_opts *o)
{
    memset(f, 0, sizeof(*f));
    f->ops = sched_find(name);
    assert_non_null(f->ops);
    f->s = f->ops->open(o, 0);
    assert_non_null(f->s);
}

/* Queue @p count I/Os of a tenant at the target. */
static void fix_submit(struct fix *f, uint32_t tenant, uint8_t op, uint32_t size, uint32_t count,
                       uint64_t now)
{
    for (uint32_t i = 0; i < count; i++) {
        struct sched_io *io = &f->ios[f->used++];
        assert_true(f->used <= IOS);
        io->g.tenant = tenant;
        io->g.op = op;
        io->g.size = size;
        f->ops->submit(f->s, io, now);
    }
}

/* The tenants of what poll gives, in order, as a text of digits; all stay on the device. */
static const char *fix_take(struct fix *f, uint64_t now)
{
    static char text[IOS + 1];
    struct sched_io *io;
    size_t n = 0;
    while ((io = f->ops->poll(f->s, now)) != NULL) {
        assert_true(n < IOS);
        text[n++] = (char)('0' + io->g.tenant);
    }
    text[n] = '\0';
    return text;
}

/* A round trip of @p latency that ends at @p now, as the client sees it. */
static void fix_trip(struct fix *f, uint32_t tenant, uint32_t size, uint64_t latency, uint64_t now)
{
    struct sched_io io;
    memset(&io, 0, sizeof(io));
    io.g.tenant = tenant;
    io.g.size = size;
    io.client_sent_ns = now - latency;
    f->ops->client_done(f->s, &io, now);
}

/* The most that the client may have out. */
static uint32_t fix_window(struct fix *f, uint32_t tenant)
{
    uint32_t n = 0;
    while (f->ops->client_may_send(f->s, tenant, n, 0))
        n++;
    return n;
}

/* ---- Names ---- */

/* A name that finds another scheduler would put one's results under the other's name. */
static void test_gimbal_peers_find_each_name_its_scheduler(void **state)
{
    static const char *const names[] = {"fifo", "reflex", "parda", "flashfq", "gimbal"};
    (void)state;
    for (size_t i = 0; i < SNIC_COUNTOF(names); i++)
        assert_string_equal(sched_find(names[i])->name, names[i]);
    assert_null(sched_find("parda-n"));
    assert_null(sched_find(""));
}

/* ---- FIFO ---- */

static void test_gimbal_peers_fifo_any_order_of_arrival(void **state)
{
    struct sched_opts o = {.tenants = 3};
    struct fix f;
    (void)state;
    fix_open(&f, "fifo", &o);
    assert_true(f.ops->deadline(f.s) == SNIC_NEVER);
    fix_submit(&f, 2, SNIC_GIMBAL_WRITE, 128 * KIB, 2, 0);
    fix_submit(&f, 0, SNIC_GIMBAL_READ, 4 * KIB, 1, 0);
    fix_submit(&f, 2, SNIC_GIMBAL_READ, 4 * KIB, 1, 5);
    assert_true(f.ops->deadline(f.s) <= 5);
    assert_string_equal(fix_take(&f, 5), "2202");
    assert_true(f.ops->deadline(f.s) == SNIC_NEVER);
    f.ops->close(f.s);
}

/* ---- ReFlex: one token a microsecond, a write costs ten ---- */

static const struct sched_opts reflex_opts = {.tenants = 3, .reflex_rate = 1e6, .reflex_cost = 10};

/* Tokens come at the rate and not before; poll reports when. */
static void test_gimbal_peers_reflex_empty_bucket_paces(void **state)
{
    struct fix f;
    (void)state;
    fix_open(&f, "reflex", &reflex_opts);
    fix_submit(&f, 0, SNIC_GIMBAL_READ, 4 * KIB, 2, 0);
    fix_submit(&f, 0, SNIC_GIMBAL_WRITE, 4 * KIB, 1, 0);
    assert_string_equal(fix_take(&f, 0), "");
    assert_true(f.ops->deadline(f.s) == 1001);
    assert_string_equal(fix_take(&f, 999), "");
    assert_string_equal(fix_take(&f, 1001), "0");
    assert_string_equal(fix_take(&f, 2001), "0");
    assert_string_equal(fix_take(&f, 11990), "");
    assert_string_equal(fix_take(&f, 12010), "0");
    assert_true(f.ops->deadline(f.s) == SNIC_NEVER);
    f.ops->close(f.s);
}

/* The quantum is 8 tokens: eight small reads or one of 32 KiB. */
static void test_gimbal_peers_reflex_sizes_take_turns_by_tokens(void **state)
{
    struct fix f;
    (void)state;
    fix_open(&f, "reflex", &reflex_opts);
    fix_submit(&f, 0, SNIC_GIMBAL_READ, 4 * KIB, 18, 0);
    fix_submit(&f, 1, SNIC_GIMBAL_READ, 32 * KIB, 3, 0);
    assert_string_equal(fix_take(&f, 1000000), "000000001"
                                               "000000001"
                                               "00"
                                               "1");
    f.ops->close(f.s);
}

/* A write of 10 tokens waits for its second visit, and keeps the 6 that are left for the next. */
static void test_gimbal_peers_reflex_write_needs_several_visits(void **state)
{
    struct fix f;
    (void)state;
    fix_open(&f, "reflex", &reflex_opts);
    fix_submit(&f, 0, SNIC_GIMBAL_WRITE, 4 * KIB, 2, 0);
    fix_submit(&f, 1, SNIC_GIMBAL_READ, 4 * KIB, 24, 0);
    /* 0 has 8, 1 has its turn, 0 has 16: sends, keeps 6; 1's turn; 0 has 14: sends. */
    assert_string_equal(fix_take(&f, 1000000), "11111111"
                                               "0"
                                               "11111111"
                                               "0"
                                               "11111111");
    f.ops->close(f.s);
}

/* What an emptied queue did not use of its turn is not there for its next one. */
static void test_gimbal_peers_reflex_emptied_queue_forgets_deficit(void **state)
{
    struct fix f;
    (void)state;
    fix_open(&f, "reflex", &reflex_opts);
    fix_submit(&f, 0, SNIC_GIMBAL_READ, 4 * KIB, 1, 0);
    assert_string_equal(fix_take(&f, 1000000), "0");
    fix_submit(&f, 0, SNIC_GIMBAL_READ, 4 * KIB, 10, 1000000);
    fix_submit(&f, 1, SNIC_GIMBAL_READ, 4 * KIB, 1, 1000000);
    assert_string_equal(fix_take(&f, 2000000), "00000000"
                                               "1"
                                               "00");
    f.ops->close(f.s);
}

/* A weight multiplies the quantum. */
static void test_gimbal_peers_reflex_weight_longer_turns(void **state)
{
    static const uint32_t weight[3] = {1, 2, 1};
    struct sched_opts o = reflex_opts;
    struct fix f;
    (void)state;
    o.weight = weight;
    fix_open(&f, "reflex", &o);
    fix_submit(&f, 0, SNIC_GIMBAL_READ, 16 * KIB, 4, 0);
    fix_submit(&f, 1, SNIC_GIMBAL_READ, 16 * KIB, 8, 0);
    assert_string_equal(fix_take(&f, 1000000), "001111001111");
    f.ops->close(f.s);
}

/* However long nothing was asked for, a burst is 1 ms of tokens; a larger I/O leaves a debt. */
static void test_gimbal_peers_reflex_idle_then_burst_is_bounded(void **state)
{
    struct sched_opts o = reflex_opts;
    struct fix f;
    (void)state;
    o.reflex_rate = 10000; /* 10 tokens in 1 ms */
    fix_open(&f, "reflex", &o);
    fix_submit(&f, 0, SNIC_GIMBAL_READ, 4 * KIB, 12, 0);
    assert_string_equal(fix_take(&f, 10000000000u), "0000000000");
    assert_true(f.ops->deadline(f.s) > 10000000000u);
    assert_string_equal(fix_take(&f, 10000200001u), "00");
    fix_submit(&f, 0, SNIC_GIMBAL_WRITE, 8 * KIB, 1, 20000000000u); /* 20 of the bucket's 10 */
    assert_string_equal(fix_take(&f, 20000000000u), "0");
    fix_submit(&f, 0, SNIC_GIMBAL_READ, 4 * KIB, 1, 20000000000u);
    assert_string_equal(fix_take(&f, 20001000000u), "");
    assert_string_equal(fix_take(&f, 20001100001u), "0");
    f.ops->close(f.s);
}

/* ---- PARDA: L is 100 us; b = 0.25, g = 0.5, a = 0.1, a period of 10 ms ---- */

static void test_gimbal_peers_parda_low_latency_window_grows(void **state)
{
    struct sched_opts o = {.tenants = 2, .parda_latency_ns = 100000};
    struct fix f;
    (void)state;
    fix_open(&f, "parda", &o);
    assert_int_equal(fix_window(&f, 0), 1);
    fix_trip(&f, 0, 4 * KIB, 50000, 9000000); /* not a period yet */
    assert_int_equal(fix_window(&f, 0), 1);
    fix_trip(&f, 0, 4 * KIB, 50000, 10000000); /* 0.5 + 0.5 (2 + 0.25) = 1.625 */
    assert_int_equal(fix_window(&f, 0), 1);
    fix_trip(&f, 0, 4 * KIB, 50000, 19000000);
    assert_int_equal(fix_window(&f, 0), 1);
    fix_trip(&f, 0, 4 * KIB, 50000, 20000000); /* 0.8125 + 0.5 (3.25 + 0.25) = 2.5625 */
    assert_int_equal(fix_window(&f, 0), 2);
    fix_trip(&f, 0, 4 * KIB, 50000, 30000000); /* 1.28125 + 0.5 (5.125 + 0.25) = 3.96875 */
    assert_int_equal(fix_window(&f, 0), 3);
    fix_trip(&f, 0, 4 * KIB, 50000, 40000000); /* 1.984375 + 0.5 (7.9375 + 0.25) = 6.078125 */
    assert_int_equal(fix_window(&f, 0), 6);
    assert_int_equal(fix_window(&f, 1), 1);
    f.ops->close(f.s);
}

static void test_gimbal_peers_parda_high_latency_window_shrinks_to_one(void **state)
{
    struct sched_opts o = {.tenants = 1, .parda_latency_ns = 100000};
    struct fix f;
    (void)state;
    fix_open(&f, "parda", &o);
    for (uint64_t k = 1; k <= 4; k++)
        fix_trip(&f, 0, 4 * KIB, 50000, k * 10000000);
    assert_int_equal(fix_window(&f, 0), 6);
    /* The average becomes 0.9 * 50 + 0.1 * 1550 = 200 us: 3.0390625 + 0.5 (3.0390625 + 0.25). */
    fix_trip(&f, 0, 4 * KIB, 1550000, 50000000);
    assert_int_equal(fix_window(&f, 0), 4);
    for (uint64_t k = 6; k <= 40; k++)
        fix_trip(&f, 0, 4 * KIB, 100000000, k * 10000000 + 100000000);
    assert_int_equal(fix_window(&f, 0), 1);
    f.ops->close(f.s);
}

/* By size, 128 KiB in 800 us is as good as 8 KiB in 50 us; plainly it is congestion. */
static void test_gimbal_peers_parda_sized_large_io_is_many(void **state)
{
    struct sched_opts o = {.tenants = 1, .parda_latency_ns = 100000};
    (void)state;
    for (int sized = 0; sized < 2; sized++) {
        struct fix f;
        o.parda_sized = sized;
        fix_open(&f, "parda", &o);
        for (uint64_t k = 1; k <= 4; k++)
            fix_trip(&f, 0, 128 * KIB, 800000, k * 10000000);
        assert_int_equal(fix_window(&f, 0), sized ? 6 : 1);
        f.ops->close(f.s);
    }
}

/* A weight multiplies b: 0.5 + 0.5 (2 + 1) = 2, where weight 1 has 1.625. */
static void test_gimbal_peers_parda_weight_larger_window(void **state)
{
    static const uint32_t weight[2] = {1, 4};
    struct sched_opts o = {.tenants = 2, .weight = weight, .parda_latency_ns = 100000};
    struct fix f;
    (void)state;
    fix_open(&f, "parda", &o);
    fix_trip(&f, 0, 4 * KIB, 50000, 10000000);
    fix_trip(&f, 1, 4 * KIB, 50000, 10000000);
    assert_int_equal(fix_window(&f, 0), 1);
    assert_int_equal(fix_window(&f, 1), 2);
    f.ops->close(f.s);
}

/* ---- FlashFQ: 4 KiB cost 85, 128 KiB cost 209 ---- */

/* Start tags 0 85 170 255 340 and 0 209 418; equal ones by tenant. */
static void test_gimbal_peers_flashfq_start_tags_order(void **state)
{
    struct sched_opts o = {.tenants = 2};
    struct fix f;
    (void)state;
    fix_open(&f, "flashfq", &o);
    fix_submit(&f, 1, SNIC_GIMBAL_READ, 128 * KIB, 3, 0);
    fix_submit(&f, 0, SNIC_GIMBAL_WRITE, 4 * KIB, 5, 0);
    assert_string_equal(fix_take(&f, 0), "01001001");
    f.ops->close(f.s);
}

/* Weight 2 halves the cost: tags 0 85 170 and 0 42.5 85 127.5 170. */
static void test_gimbal_peers_flashfq_weight_halves_cost(void **state)
{
    static const uint32_t weight[2] = {1, 2};
    struct sched_opts o = {.tenants = 2, .weight = weight};
    struct fix f;
    (void)state;
    fix_open(&f, "flashfq", &o);
    fix_submit(&f, 0, SNIC_GIMBAL_READ, 4 * KIB, 3, 0);
    fix_submit(&f, 1, SNIC_GIMBAL_READ, 4 * KIB, 5, 0);
    assert_string_equal(fix_take(&f, 0), "01101101");
    f.ops->close(f.s);
}

/* No more than D are on the device. */
static void test_gimbal_peers_flashfq_depth_throttles(void **state)
{
    struct sched_opts o = {.tenants = 1, .flashfq_depth = 3};
    struct fix f;
    (void)state;
    fix_open(&f, "flashfq", &o);
    fix_submit(&f, 0, SNIC_GIMBAL_READ, 4 * KIB, 8, 0);
    assert_string_equal(fix_take(&f, 0), "000");
    assert_true(f.ops->deadline(f.s) == SNIC_NEVER);
    f.ops->complete(f.s, &f.ios[0], 10);
    f.ops->complete(f.s, &f.ios[1], 10);
    assert_true(f.ops->deadline(f.s) <= 10);
    assert_string_equal(fix_take(&f, 10), "00");
    f.ops->close(f.s);
}

/* Tenant 1 has had one I/O (finish tag 85) when v is beyond; back soon, it is first; late, v. */
static void test_gimbal_peers_flashfq_turnaround_keeps_its_tag(void **state)
{
    struct sched_opts o = {.tenants = 2, .flashfq_depth = 8};
    (void)state;
    for (uint64_t late = 0; late < 2; late++) {
        uint64_t back = late ? 200000 : 50000;
        struct fix f;
        fix_open(&f, "flashfq", &o);
        fix_submit(&f, 1, SNIC_GIMBAL_READ, 4 * KIB, 1, 0);
        assert_string_equal(fix_take(&f, 0), "1");
        f.ops->complete(f.s, &f.ios[0], 1000);
        fix_submit(&f, 0, SNIC_GIMBAL_READ, 4 * KIB, 12, 1000);
        /* tags 0 85 ... 935: eight leave, v = 595; the ninth has 680 */
        assert_string_equal(fix_take(&f, 1000), "00000000");
        fix_submit(&f, 1, SNIC_GIMBAL_READ, 4 * KIB, 4, back);
        /* in time 85 170 255 340, late 595 680 765 850, each before 680 765 850 935 or after */
        for (uint32_t i = 1; i <= 8; i++)
            f.ops->complete(f.s, &f.ios[i], back);
        assert_string_equal(fix_take(&f, back), late ? "10101010" : "11110000");
        f.ops->close(f.s);
    }
}

/* ---- Gimbal's client ---- */

/* Without credit one I/O may be out all the same; more only as the last completion allows. */
static void test_gimbal_peers_gimbal_credit_limits_the_client(void **state)
{
    struct sched_opts o = {.tenants = 2};
    struct sched_io io;
    struct fix f;
    (void)state;
    fix_open(&f, "gimbal", &o);
    memset(&io, 0, sizeof(io));
    io.g.tenant = 1;
    io.g.credit = 5;
    f.ops->client_done(f.s, &io, 0);
    assert_int_equal(fix_window(&f, 1), 5);
    io.g.credit = 0;
    f.ops->client_done(f.s, &io, 0);
    assert_int_equal(fix_window(&f, 1), 1);
    assert_non_null(sched_gimbal_switch(f.s));
    f.ops->close(f.s);
}

/* ---- All ---- */

#define CROWD_TENANTS 5u
#define CROWD_DEPTH 12u

/* Whatever comes in goes out once, per tenant in order, and deadlines lead there. */
static void crowd(const char *name, struct snic_rng *rng, uint64_t ios)
{
    static struct sched_io io[CROWD_TENANTS][CROWD_DEPTH];
    static uint32_t given[CROWD_TENANTS], taken[CROWD_TENANTS], done[CROWD_TENANTS];
    const struct sched_ops *ops = sched_find(name);
    struct sched_opts o = {.tenants = CROWD_TENANTS};
    uint64_t now = 0, in = 0, out = 0;
    struct sched *s = ops->open(&o, now);
    assert_non_null(s);
    memset(io, 0, sizeof(io));
    memset(given, 0, sizeof(given));
    memset(taken, 0, sizeof(taken));
    memset(done, 0, sizeof(done));
    while (out < ios) {
        uint32_t t = (uint32_t)snic_rng_below(rng, CROWD_TENANTS);
        struct sched_io *next;
        if (in < ios && given[t] - done[t] < CROWD_DEPTH && snic_rng_below(rng, 2) == 0) {
            next = &io[t][given[t]++ % CROWD_DEPTH];
            memset(next, 0, sizeof(*next));
            next->g.tenant = t;
            next->g.op = (uint8_t)(t % 2); /* ours orders reads and writes by themselves */
            next->g.size = (uint32_t)(1 + snic_rng_below(rng, 32)) * 4 * KIB;
            ops->submit(s, next, now);
            in++;
        } else if (taken[t] != done[t]) {
            ops->complete(s, &io[t][done[t]++ % CROWD_DEPTH], now);
            out++;
        } else {
            uint64_t at = ops->deadline(s);
            now = at != SNIC_NEVER && at > now ? at : now + 1;
        }
        while ((next = ops->poll(s, now)) != NULL) {
            t = next->g.tenant;
            assert_true(taken[t] < given[t]);
            assert_ptr_equal(next, &io[t][taken[t]++ % CROWD_DEPTH]);
        }
        if (ops == &sched_gimbal)
            assert_int_equal(snic_gimbal_check(sched_gimbal_switch(s)), 0);
    }
    assert_true(in == out);
    ops->close(s);
}

static void test_gimbal_peers_all_random_load_nothing_lost_or_reordered(void **state)
{
    static const char *const names[] = {"fifo", "reflex", "parda", "flashfq", "gimbal"};
    struct snic_rng rng;
    (void)state;
    snic_rng_init(&rng, support_seed());
    for (size_t i = 0; i < SNIC_COUNTOF(names); i++)
        crowd(names[i], &rng, support_scale(20000, 2000000));
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_gimbal_peers_find_each_name_its_scheduler),
        cmocka_unit_test(test_gimbal_peers_fifo_any_order_of_arrival),
        cmocka_unit_test(test_gimbal_peers_reflex_empty_bucket_paces),
        cmocka_unit_test(test_gimbal_peers_reflex_sizes_take_turns_by_tokens),
        cmocka_unit_test(test_gimbal_peers_reflex_write_needs_several_visits),
        cmocka_unit_test(test_gimbal_peers_reflex_emptied_queue_forgets_deficit),
        cmocka_unit_test(test_gimbal_peers_reflex_weight_longer_turns),
        cmocka_unit_test(test_gimbal_peers_reflex_idle_then_burst_is_bounded),
        cmocka_unit_test(test_gimbal_peers_parda_low_latency_window_grows),
        cmocka_unit_test(test_gimbal_peers_parda_high_latency_window_shrinks_to_one),
        cmocka_unit_test(test_gimbal_peers_parda_sized_large_io_is_many),
        cmocka_unit_test(test_gimbal_peers_parda_weight_larger_window),
        cmocka_unit_test(test_gimbal_peers_flashfq_start_tags_order),
        cmocka_unit_test(test_gimbal_peers_flashfq_weight_halves_cost),
        cmocka_unit_test(test_gimbal_peers_flashfq_depth_throttles),
        cmocka_unit_test(test_gimbal_peers_flashfq_turnaround_keeps_its_tag),
        cmocka_unit_test(test_gimbal_peers_gimbal_credit_limits_the_client),
        cmocka_unit_test(test_gimbal_peers_all_random_load_nothing_lost_or_reordered),
    };
    return SUPPORT_MAIN(argc, argv, tests);
}
