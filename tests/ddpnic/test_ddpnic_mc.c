/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * The two halves themselves under the explorer (mc/ddpnic_world.h): every order of messages,
 * stores, drains, faults and timers in small scopes, for each model. The numbers of states are
 * pinned: a change of the engine that changes them must be explained. Compiled with
 * DDPNIC_WITHOUT_H1 this is another test: the paper's way to make a timestamp, which must be
 * caught.
 *
 * By day the scopes of ddpnic_scopes.h, in one test; under sanitizers the smaller ones. At night
 * those of ddpnic_night.h, a test each: one that passed is not run again when a night resumes after
 * an interruption.
 */
#include "mc/ddpnic_world.h"
#include "support.h"

#include <stdio.h>
#include <string.h>

#define MODELS 5

/* What takes no time of its own: OWN nothing but what changes nothing else. */
#define OWN (XN_FOLD_LOG | XN_FOLD_BACK)
#define V (OWN | XN_FOLD_VSTORE)
#define VD (V | XN_FOLD_DSTORE)

struct scope {
    const char *name;
    struct xw_opts o;
    uint32_t fold;
    uint32_t rows; /* which models, bits */
    uint32_t live_every;
    uint64_t states[MODELS]; /* 0: not pinned */
};

static const struct scope scopes[] = {
#include "mc/ddpnic_scopes.h"
};

#ifndef DDPNIC_WITHOUT_H1
struct night {
    const char *name;
    uint32_t live_every;
    uint64_t states; /* 0: not pinned */
    struct xw_opts o;
};

#define LOG (XN_FOLD_VSTORE | XN_FOLD_BACK)
#define PCIE (V & ~(uint32_t)XN_FOLD_BACK)
#define PAPER .node.flags = SNIC_DDP_PAPER
#define CRASH .crashes = 1, .locks = 1
#define EVICT .evictions = 1, .locks = 1
#define LOSS .losses = 1, .resends = 1, .locks = 1
#define NIGHT(name, n, k, m, f, live, states, ...)                                                 \
    {#name,                                                                                        \
     live,                                                                                         \
     states,                                                                                       \
     {.node = {.nodes = (n), .keys = (k), .model = SNIC_DDP_##m, .fold = (f)}, __VA_ARGS__}},
static const struct night nights[] = {
#include "mc/ddpnic_night.h"
};

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define STATES_MAX 50000u
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define STATES_MAX 50000u
#endif
#endif
#ifndef STATES_MAX
#define STATES_MAX UINT64_MAX
#endif
#endif

static const char *const models[] = {"synch", "strict", "renf", "event", "scope"};

static struct mc_report explore(const char *name, const struct xw_opts *o, uint32_t live_every)
{
    struct mc_opts mo = {0};
    struct mc_report r;
    struct xw_world *w = xw_new(o);

    mo.live_every = live_every;
    mo.memory_max = (uint64_t)14 << 30;
    mc_run(xw_model(w), &mo, &r);
    mc_report_print(name, &mo, &r);
    if (r.result == MC_VIOLATED)
        mc_script_print(xw_model(w), &r.script);
    xw_free(w);
    return r;
}

static struct mc_report explore_row(const struct scope *c, uint32_t row)
{
    struct xw_opts o = c->o;
    char name[64];

    o.node.model = 1 + row;
    o.node.fold = c->fold;
    if (o.node.model == SNIC_DDP_SCOPE && o.scopes == 0)
        o.scopes = 1;
    (void)snprintf(name, sizeof(name), "%s, %s", c->name, models[row]);
    return explore(name, &o, c->live_every);
}

#ifdef DDPNIC_WITHOUT_H1

/* The explorer would not see the defect for which this engine departs from the paper. */
static void test_ddpnic_without_h1_found(void **state)
{
    uint32_t row;

    (void)state;
    for (row = 0; row + 1 < MODELS; row++) {
        struct mc_report r = explore_row(&scopes[0], row);

        assert_int_equal(r.result, MC_VIOLATED);
        assert_true(strncmp(r.script.why, "R2", 2) == 0);
        assert_true(r.script.count <= 12);
        mc_script_free(&r.script);
    }
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_ddpnic_without_h1_found),
    };

    return SUPPORT_MAIN(argc, argv, tests);
}

#else

static void clean(struct mc_report *r, uint64_t states)
{
    mc_script_free(&r->script);
    assert_int_equal(r->result, MC_CLEAN);
    if (states != 0)
        assert_int_equal(r->states, states);
}

static void test_ddpnic_mc_scopes_clean(void **state)
{
    size_t i;
    uint32_t row;

    (void)state;
    for (i = 0; i < sizeof(scopes) / sizeof(scopes[0]); i++)
        for (row = 0; row < MODELS; row++) {
            struct mc_report r;

            if ((scopes[i].rows >> row & 1) == 0 || scopes[i].states[row] > STATES_MAX)
                continue;
            r = explore_row(&scopes[i], row);
            clean(&r, scopes[i].states[row]);
        }
}

static void test_ddpnic_mc_night(void **state)
{
    const struct night *n = *state;
    struct mc_report r;

    if (!support_nightly())
        support_skip("for the night");
    r = explore(n->name, &n->o, n->live_every);
    clean(&r, n->states);
}

#define NIGHTS (sizeof(nights) / sizeof(nights[0]))

int main(int argc, char **argv)
{
    struct CMUnitTest tests[1 + NIGHTS] = {cmocka_unit_test(test_ddpnic_mc_scopes_clean)};
    size_t i;

    for (i = 0; i < NIGHTS; i++) {
        tests[1 + i].name = nights[i].name;
        tests[1 + i].test_func = test_ddpnic_mc_night;
        tests[1 + i].initial_state = (void *)(uintptr_t)&nights[i];
    }
    return SUPPORT_MAIN(argc, argv, tests);
}

#endif
