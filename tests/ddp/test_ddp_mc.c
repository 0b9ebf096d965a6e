/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * The replication engine itself under the explorer (mc/ddp_world.h): every order of messages, log
 * completions, faults and timers in small scopes, for each model, in the FAST and the PAPER mode.
 * The numbers of states are pinned: a change of the engine that changes them must be explained. In
 * small scopes states that count as equal are tried with each event (mc/ddp_twins.c).
 *
 * By day the scopes of ddp_scopes.h, in one test; under sanitizers the smaller half of them, which
 * has each kind of event. At night those of ddp_night.h, a test each: one that passed is not run
 * again when a night resumes after an interruption.
 */
#include "mc/ddp_world.h"
#include "support.h"

#include <stdio.h>
#include <string.h>

#define ROWS 10 /* models, each fast and paper */

struct scope {
    const char *name;
    struct dw_opts o;
    uint32_t rows; /* which, bits: 2 * (model - 1) + paper */
    uint32_t live_every;
    uint64_t states[ROWS]; /* 0: not pinned */
};

struct night {
    const char *name;
    uint32_t live_every;
    uint64_t states; /* 0: not pinned */
    struct dw_opts o;
    uint32_t lean;
};

#define ALL 0x3ffu
#define SYNCH 0x3u
#define STRICT 0xcu
#define SCOPE 0x300u

/* Mixes of durabilities. */
#define MEMORY (1u << SNIC_DDP_DURABILITY_MEMORY)
#define HERE (1u << SNIC_DDP_DURABILITY_HERE)
#define DURABLE (1u << SNIC_DDP_DURABILITY_ALL)
#define SCOPED (1u << SNIC_DDP_DURABILITY_SCOPE)

static const struct scope scopes[] = {
#include "mc/ddp_scopes.h"
};

#define CRASH .crashes = 1, .locks = 1
#define REJOIN .crashes = 1, .rejoins = 1
#define LOCK .locks = 1
#define FULL .node.room = 2, .begin = DW_BEGIN_FULL
#define FAST 0
#define PAPER SNIC_DDP_PAPER
#define ROW(name, lean, n, k, m, f, live, states, ...)                                             \
    {name,                                                                                         \
     live,                                                                                         \
     states,                                                                                       \
     {.node = {.nodes = (n), .keys = (k), .model = m, .flags = (f)}, __VA_ARGS__},                 \
     lean},
#define NIGHT(name, n, k, m, f, live, states, ...)                                                 \
    ROW(#name, 0, n, k, SNIC_DDP_##m, f, live, states, __VA_ARGS__)
#define NIGHT_LEAN(name, n, k, m, f, live, states, ...)                                            \
    ROW(#name, 1, n, k, SNIC_DDP_##m, f, live, states, __VA_ARGS__)
static const struct night nights[] = {
#include "mc/ddp_night.h"
};

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define STATES_MAX 12000u
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define STATES_MAX 12000u
#endif
#endif
#ifndef STATES_MAX
#define STATES_MAX UINT64_MAX
#endif

static const char *const models[] = {"?", "synch", "strict", "renf", "event", "scope"};

static void explore(const char *name, const struct dw_opts *o, uint32_t live_every, uint64_t states,
                    uint32_t lean)
{
    struct mc_opts mo = {0};
    struct mc_report r;
    struct dw_opts with = *o;
    struct dw_world *w;
    const char *event = NULL;

    with.node.twins = states != 0 && states <= (support_nightly() ? 300000 : 20000);
    w = dw_new(&with);
    mo.live_every = live_every;
    mo.lean = lean;
    mo.memory_max = (uint64_t)14 << 30;
    mc_run(dw_model(w), &mo, &r);
    mc_report_print(name, &mo, &r);
    if (r.result == MC_VIOLATED && lean)
        print_error("%s, %u steps away\n", r.script.why, r.depth);
    else if (r.result == MC_VIOLATED)
        mc_script_print(dw_model(w), &r.script);
    if (dn_twins_differ(dw_space(w), &event) != 0)
        fail_msg("%s: states that count as equal differ: %s", name, event);
    mc_script_free(&r.script);
    dw_free(w);
    assert_int_equal(r.result, MC_CLEAN);
    if (states != 0)
        assert_int_equal(r.states, states);
}

static void explore_row(const struct scope *c, uint32_t row)
{
    struct dw_opts o = c->o;
    char name[96];

    if ((c->rows >> row & 1) == 0 || c->states[row] > STATES_MAX)
        return;
    o.node.model = 1 + row / 2;
    o.node.flags = (row & 1) != 0 ? (uint32_t)SNIC_DDP_PAPER : 0;
    if (o.node.model == SNIC_DDP_SCOPE && o.scopes == 0)
        o.scopes = 1;
    (void)snprintf(name, sizeof(name), "%s, %s %s", c->name, models[o.node.model],
                   (row & 1) != 0 ? "paper" : "fast");
    explore(name, &o, c->live_every, c->states[row], 0);
}

static void test_ddp_mc_scopes_clean(void **state)
{
    size_t i;
    uint32_t row;

    (void)state;
    for (i = 0; i < sizeof(scopes) / sizeof(scopes[0]); i++)
        for (row = 0; row < ROWS; row++)
            explore_row(&scopes[i], row);
}

static void test_ddp_mc_night(void **state)
{
    const struct night *n = *state;

    if (!support_nightly())
        support_skip("for the night");
    explore(n->name, &n->o, n->live_every, n->states, n->lean);
}

#define NIGHTS (sizeof(nights) / sizeof(nights[0]))

int main(int argc, char **argv)
{
    struct CMUnitTest tests[1 + NIGHTS] = {cmocka_unit_test(test_ddp_mc_scopes_clean)};
    size_t i;

    for (i = 0; i < NIGHTS; i++) {
        tests[1 + i].name = nights[i].name;
        tests[1 + i].test_func = test_ddp_mc_night;
        tests[1 + i].initial_state = (void *)(uintptr_t)&nights[i];
    }
    return SUPPORT_MAIN(argc, argv, tests);
}
