/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * The two halves themselves under the explorer (mc/ddpnic_world.h): every order of messages,
 * stores, drains, faults and timers in small scopes, for each model. The numbers of states are
 * pinned: a change of the engine that changes them must be explained. Compiled with
 * DDPNIC_WITHOUT_H1 this is another test: the paper's way to make a timestamp, which must be
 * caught.
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
    uint32_t rows;    /* which models, bits */
    uint32_t nightly; /* which only at night */
    uint32_t live_every;
    uint64_t states[MODELS]; /* 0: not pinned */
};

static const struct scope scopes[] = {
#include "mc/ddpnic_scopes.h"
};

static const char *const models[] = {"synch", "strict", "renf", "event", "scope"};

static struct mc_report explore_row(const struct scope *c, uint32_t row)
{
    struct xw_opts o = c->o;
    struct mc_opts mo = {0};
    struct mc_report r;
    struct xw_world *w;
    char name[64];

    o.node.model = 1 + row;
    o.node.fold = c->fold;
    if (o.node.model == SNIC_DDP_SCOPE && o.scopes == 0)
        o.scopes = 1;
    w = xw_new(&o);
    mo.live_every = c->live_every;
    mo.memory_max = (uint64_t)10 << 30;
    (void)snprintf(name, sizeof(name), "%s, %s", c->name, models[row]);
    mc_run(xw_model(w), &mo, &r);
    mc_report_print(name, &mo, &r);
    if (r.result == MC_VIOLATED)
        mc_script_print(xw_model(w), &r.script);
    xw_free(w);
    return r;
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

static void explore_scopes(int night)
{
    size_t i;
    uint32_t row;

    for (i = 0; i < sizeof(scopes) / sizeof(scopes[0]); i++)
        for (row = 0; row < MODELS; row++) {
            struct mc_report r;

            if ((scopes[i].rows >> row & 1) == 0 || (int)(scopes[i].nightly >> row & 1) != night)
                continue;
            r = explore_row(&scopes[i], row);
            mc_script_free(&r.script);
            assert_int_equal(r.result, MC_CLEAN);
            if (scopes[i].states[row] != 0)
                assert_int_equal(r.states, scopes[i].states[row]);
        }
}

static void test_ddpnic_mc_scopes_clean(void **state)
{
    (void)state;
    explore_scopes(0);
    if (support_nightly())
        explore_scopes(1);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_ddpnic_mc_scopes_clean),
    };

    return SUPPORT_MAIN(argc, argv, tests);
}

#endif
