/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * The explorer (mc/mc.h) on models whose numbers are known: it must count them right in every mode,
 * and find what was planted.
 */
#include "mc/mc.h"
#include "support.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- Counters: each of `count` is raised by one at a time until `top` ---- */

struct counters {
    uint32_t count, top;
    uint32_t bad_sum; /* planted: this sum is a violation, 0: none */
    uint32_t bad_end; /* planted: ending is wrong */
    uint32_t rewind;  /* planted: the calm suffix never ends once the first is there */
};

static size_t counters_init(void *ctx, uint32_t i, void *state)
{
    const struct counters *c = ctx;

    memset(state, 0, c->count);
    return i == 0 ? c->count : 0;
}

static uint32_t counters_actions(void *ctx, const void *state, size_t len, uint64_t *out)
{
    const struct counters *c = ctx;
    const unsigned char *s = state;
    uint32_t i, n = 0;

    (void)len;
    for (i = 0; i < c->count; i++)
        if (s[i] < c->top || (i == 0 && c->rewind != 0 && s[0] == c->top))
            out[n++] = i;
    return n;
}

static size_t counters_apply(void *ctx, const void *state, size_t len, uint64_t action, void *out)
{
    const struct counters *c = ctx;
    unsigned char *s = out;

    memcpy(out, state, len);
    if (s[action] < c->top)
        s[action]++;
    else
        s[action]--;
    return len;
}

static const char *counters_check(void *ctx, const void *state, size_t len)
{
    const struct counters *c = ctx;
    const unsigned char *s = state;
    uint32_t sum = 0, i;

    for (i = 0; i < len; i++)
        sum += s[i];
    return c->bad_sum != 0 && s[0] == 2 && s[1] == 3 && sum >= c->bad_sum ? "planted sum" : NULL;
}

static const char *counters_dead(void *ctx, const void *state, size_t len)
{
    (void)state;
    (void)len;
    return ((const struct counters *)ctx)->bad_end != 0 ? "planted end" : NULL;
}

static int counters_calm(void *ctx, const void *state, size_t len, uint64_t *action)
{
    uint64_t all[8];

    if (counters_actions(ctx, state, len, all) == 0)
        return 0;
    *action = all[0];
    return 1;
}

static const char *counters_settled(void *ctx, const void *state, size_t len)
{
    (void)ctx;
    (void)state;
    (void)len;
    return NULL;
}

static void counters_print(void *ctx, const void *state, size_t len, uint64_t action, char *text,
                           size_t size)
{
    (void)ctx;
    (void)len;
    (void)snprintf(text, size, "raise %u from %u", (unsigned)action,
                   ((const unsigned char *)state)[action]);
}

static struct mc_model counters_model(struct counters *c)
{
    struct mc_model m = {"counters",       c,
                         counters_init,    counters_actions,
                         counters_apply,   counters_check,
                         counters_dead,    counters_calm,
                         counters_settled, counters_print};

    return m;
}

static void run(struct counters *c, const struct mc_opts *o, struct mc_report *r)
{
    struct mc_model m = counters_model(c);

    mc_run(&m, o, r);
    mc_report_print("counters", o, r);
}

/* (top + 1)^count states; each has an edge for each counter below the top. */
static void test_mc_counters_counts_exact(void **state)
{
    struct counters c = {6, 6, 0, 0, 0};
    uint32_t mode;

    (void)state;
    for (mode = 0; mode < 5; mode++) {
        struct mc_opts o = {0};
        struct mc_report r;

        o.threads = 1 + (mode & 1);
        o.wide = mode == 2;
        o.exact = mode == 3;
        o.lean = mode == 4;
        o.live_every = 1000;
        run(&c, &o, &r);
        assert_int_equal(r.result, MC_CLEAN);
        assert_int_equal(r.states, 117649);
        assert_int_equal(r.edges, 6 * 6 * 16807);
        assert_int_equal(r.depth, 36);
        assert_int_equal(r.ends, 1);
        assert_int_equal(r.fan_max, 6);
        assert_int_equal(r.collided, 0);
    }
}

/* A frontier beyond its memory goes to a file and comes back. */
static void test_mc_counters_spilled_frontier_counts(void **state)
{
    struct counters c = {7, 6, 0, 0, 0};
    struct mc_opts o = {0};
    struct mc_report r;

    (void)state;
    o.front_max = 1;
    o.dir = support_tmpdir();
    run(&c, &o, &r);
    assert_int_equal(r.states, 823543);
    assert_int_equal(r.edges, 7 * 6 * 117649);
    assert_true(r.spilled > 0);
}

/* Lean: what is wrong and how far away, without the way. */
static void test_mc_counters_lean_planted_found(void **state)
{
    struct counters c = {5, 6, 9, 0, 0};
    struct mc_opts o = {.lean = 1};
    struct mc_report r;

    (void)state;
    run(&c, &o, &r);
    assert_int_equal(r.result, MC_VIOLATED);
    assert_string_equal(r.script.why, "planted sum");
    assert_int_equal(r.depth + 1, 9); /* found on the way to that level */
    assert_int_equal(r.script.count, 0);
    mc_script_free(&r.script);
}

/* The first violation is a shortest one: 2 + 3 raises and what the sum needs besides. */
static void test_mc_counters_planted_found_shortest(void **state)
{
    struct counters c = {5, 6, 9, 0, 0};
    struct mc_model m = counters_model(&c);
    struct mc_opts o = {0};
    struct mc_report r;
    struct mc_script s;
    char path[512], why[MC_TEXT];

    (void)state;
    run(&c, &o, &r);
    assert_int_equal(r.result, MC_VIOLATED);
    assert_string_equal(r.script.why, "planted sum");
    assert_int_equal(r.found, 9);
    assert_int_equal(r.script.count, 9);
    support_tmpname(path, sizeof(path), "script");
    assert_int_equal(mc_script_save(&m, &r.script, path), 0);
    assert_int_equal(mc_script_load(&s, path), 0);
    assert_int_equal(s.count, 9);
    assert_int_equal(mc_script_run(&m, &s, 100, 0, why), 1);
    assert_string_equal(why, "planted sum");
    c.bad_sum = 0; /* the repaired model */
    assert_int_equal(mc_script_run(&m, &s, 100, 0, why), 0);
    (void)snprintf(s.line[3], MC_TEXT, "raise 4 from 77");
    assert_int_equal(mc_script_run(&m, &s, 100, 0, why), -1);
    mc_script_free(&s);
    mc_script_free(&r.script);
}

/* A script with superfluous lines loses them. */
static void test_mc_script_shrinks(void **state)
{
    struct counters c = {5, 6, 5, 0, 0};
    struct mc_model m = counters_model(&c);
    struct mc_script s = {0};
    static char line[9][MC_TEXT];
    uint32_t i;

    (void)state;
    for (i = 0; i < 9; i++)
        (void)snprintf(line[i], MC_TEXT, "raise %u from %u",
                       i < 4   ? 3u
                       : i < 6 ? 0u
                               : 1u,
                       i < 4   ? i
                       : i < 6 ? i - 4
                               : i - 6);
    s.count = 9;
    s.line = calloc(9, sizeof(*s.line));
    assert_non_null(s.line);
    memcpy(s.line, line, sizeof(line));
    (void)snprintf(s.why, sizeof(s.why), "planted sum");
    assert_int_equal(mc_script_run(&m, &s, 100, 0, NULL), 1);
    mc_script_shrink(&m, &s, 100);
    assert_int_equal(s.count, 5);
    mc_script_free(&s);
}

static void test_mc_counters_end_is_deadlock(void **state)
{
    struct counters c = {3, 4, 0, 1, 0};
    struct mc_model m = counters_model(&c);
    struct mc_opts o = {0};
    struct mc_report r;

    (void)state;
    run(&c, &o, &r);
    assert_int_equal(r.result, MC_VIOLATED);
    assert_string_equal(r.script.why, "planted end");
    assert_int_equal(r.script.count, 12);
    assert_int_equal(mc_script_run(&m, &r.script, 100, 0, NULL), 1);
    mc_script_free(&r.script);
}

static void test_mc_counters_endless_calm_is_livelock(void **state)
{
    struct counters c = {3, 4, 0, 0, 1};
    struct mc_opts o = {0};
    struct mc_report r;

    (void)state;
    o.live_every = 1;
    o.live_steps = 200;
    run(&c, &o, &r);
    assert_int_equal(r.result, MC_VIOLATED);
    assert_int_equal(r.script.live, 1);
    assert_int_equal(r.script.count, 0);
    assert_non_null(strstr(r.script.why, "livelock"));
    mc_script_free(&r.script);
}

static void test_mc_counters_limits_stop(void **state)
{
    struct counters c = {7, 6, 0, 0, 0};
    struct mc_opts o = {0};
    struct mc_report r;

    (void)state;
    o.states_max = 100000;
    run(&c, &o, &r);
    assert_int_equal(r.result, MC_LIMIT);
    o.states_max = 0;
    o.memory_max = 4 << 20;
    run(&c, &o, &r);
    assert_int_equal(r.result, MC_LIMIT);
}

/* Every bit of the input changes about half of the bits; no length is a prefix of another. */
static void test_mc_fingerprint_spreads(void **state)
{
    unsigned char a[80] = {0};
    uint32_t n, bit;

    (void)state;
    for (n = 1; n < sizeof(a); n++) {
        struct mc_print128 f = mc_fingerprint(a, n);

        assert_true(mc_fingerprint(a, n - 1).lo != f.lo && mc_fingerprint(a, n - 1).hi != f.hi);
        for (bit = 0; bit < n * 8; bit++) {
            struct mc_print128 g;
            int lo, hi;

            a[bit / 8] ^= (unsigned char)(1u << bit % 8);
            g = mc_fingerprint(a, n);
            a[bit / 8] ^= (unsigned char)(1u << bit % 8);
            lo = __builtin_popcountll(f.lo ^ g.lo);
            hi = __builtin_popcountll(f.hi ^ g.hi);
            assert_true(lo > 8 && lo < 56 && hi > 8 && hi < 56);
        }
    }
}

/* Speed, printed only; many states only at night. */
static void test_mc_counters_many(void **state)
{
    struct counters c = {support_nightly() ? 8 : 7, 7, 0, 0, 0};
    struct mc_opts o = {0};
    struct mc_report r;

    (void)state;
    run(&c, &o, &r);
    assert_int_equal(r.states, support_nightly() ? 16777216 : 2097152);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_mc_counters_counts_exact),
        cmocka_unit_test(test_mc_counters_spilled_frontier_counts),
        cmocka_unit_test(test_mc_counters_lean_planted_found),
        cmocka_unit_test(test_mc_counters_planted_found_shortest),
        cmocka_unit_test(test_mc_script_shrinks),
        cmocka_unit_test(test_mc_counters_end_is_deadlock),
        cmocka_unit_test(test_mc_counters_endless_calm_is_livelock),
        cmocka_unit_test(test_mc_counters_limits_stop),
        cmocka_unit_test(test_mc_fingerprint_spreads),
        cmocka_unit_test(test_mc_counters_many),
    };

    return SUPPORT_MAIN(argc, argv, tests);
}
