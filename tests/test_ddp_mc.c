/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * The replication engine itself under the explorer (mc/ddp_world.h): every order of messages, log
 * completions, faults and timers in small scopes, for each model, in the FAST and the PAPER mode.
 * The numbers of states are pinned: a change of the engine that changes them must be explained.
 */
#include "mc/ddp_world.h"
#include "support.h"

#include <stdio.h>
#include <string.h>

#define ROWS 10 /* models, each fast and paper */

struct scope {
    const char *name;
    struct dw_opts o;
    uint32_t rows;    /* which, bits: 2 * (model - 1) + paper */
    uint32_t nightly; /* which only at night */
    uint32_t live_every;
    uint64_t states[ROWS]; /* 0: not pinned */
};

#define ALL 0x3ffu
#define SYNCH 0x3u
#define STRICT 0xcu
#define SCOPE 0x300u

static const struct scope scopes[] = {
#include "mc/ddp_scopes.h"
};

static const char *const models[] = {"?", "synch", "strict", "renf", "event", "scope"};

static void explore_row(const struct scope *c, uint32_t row)
{
    struct dw_opts o = c->o;
    struct mc_opts mo = {0};
    struct mc_report r;
    struct dw_world *w;
    char name[64];

    o.node.model = 1 + row / 2;
    o.node.flags = (row & 1) != 0 ? (uint32_t)SNIC_DDP_PAPER : 0;
    if (o.node.model == SNIC_DDP_SCOPE && o.scopes == 0)
        o.scopes = 1;
    w = dw_new(&o);
    mo.live_every = c->live_every;
    mo.memory_max = (uint64_t)10 << 30;
    (void)snprintf(name, sizeof(name), "%s, %s %s", c->name, models[o.node.model],
                   (row & 1) != 0 ? "paper" : "fast");
    mc_run(dw_model(w), &mo, &r);
    mc_report_print(name, &mo, &r);
    if (r.result == MC_VIOLATED)
        mc_script_print(dw_model(w), &r.script);
    mc_script_free(&r.script);
    dw_free(w);
    assert_int_equal(r.result, MC_CLEAN);
    if (c->states[row] != 0)
        assert_int_equal(r.states, c->states[row]);
}

static void explore_scopes(int night)
{
    size_t i;
    uint32_t row;

    for (i = 0; i < sizeof(scopes) / sizeof(scopes[0]); i++)
        for (row = 0; row < ROWS; row++)
            if ((scopes[i].rows >> row & 1) != 0 && (int)(scopes[i].nightly >> row & 1) == night)
                explore_row(&scopes[i], row);
}

static void test_ddp_mc_scopes_clean(void **state)
{
    (void)state;
    explore_scopes(0);
    if (support_nightly())
        explore_scopes(1);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_ddp_mc_scopes_clean),
    };

    return SUPPORT_MAIN(argc, argv, tests);
}
