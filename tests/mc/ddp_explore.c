/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * The explorer by hand: one scope, or a script again.
 *
 *     ddp_explore [nodes N] [keys N] [writes N] [deletes N] [swaps N] [scopes N] [crashes N]
 *                 [evictions N] [rejoins N] [restarts N] [doubles N] [losses N] [resends N]
 *                 [locks N] [model 1..5] [paper 0|1] [live N] [wide 1] [exact 1] [lean 1] [threads
 * N] [waits N] [room N] [reads N] [keeps 1] [overrides N] [double MESSAGE_TYPE]
 *                 [begin full|learn|LINES] [mix BITS] [read_mix BITS] [large 1] [copies N] [twins
 * 1] [save FILE | replay FILE]
 *
 * Without model or paper: all of them. Exit code 0: clean, 1: a violation (printed, and saved),
 * 2: stopped at a limit. twins 1: 1 also if states that count as equal are not (ddp_twins.c).
 */
#include "ddp_world.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char *const models[] = {"?", "synch", "strict", "renf", "event", "scope"};

struct explore {
    struct dw_opts o;
    struct mc_opts mo;
    uint32_t model, paper; /* UINT32_MAX: all */
    const char *save, *replay;
};

static int explore(const struct explore *x, const struct dw_opts *o)
{
    struct dw_world *w = dw_new(o);
    struct mc_script script;
    struct mc_report r;
    const char *event = NULL;
    char title[64];
    int result;

    if (x->replay != NULL) {
        if (mc_script_load(&script, x->replay) != 0) {
            perror(x->replay);
            exit(2);
        }
        result = mc_script_run(dw_model(w), &script, 10000, 1, NULL);
        mc_script_free(&script);
        dw_free(w);
        return result < 0 ? 2 : result;
    }
    (void)snprintf(title, sizeof(title), "%s %s", models[o->node.model],
                   (o->node.flags & SNIC_DDP_PAPER) != 0 ? "paper" : "fast");
    mc_run(dw_model(w), &x->mo, &r);
    mc_report_print(title, &x->mo, &r);
    if (r.result == MC_VIOLATED) {
        mc_script_print(dw_model(w), &r.script);
        if (x->save != NULL && mc_script_save(dw_model(w), &r.script, x->save) != 0)
            perror(x->save);
    }
    if (dn_twins_differ(dw_space(w), &event) != 0) {
        (void)printf("ddp: states that count as equal differ, after 1 steps: %s\n", event);
        r.result = MC_VIOLATED;
    }
    mc_script_free(&r.script);
    dw_free(w);
    return r.result;
}

static int explore_option(struct explore *x, const char *name, const char *value)
{
    const struct {
        const char *name;
        uint32_t *at;
    } options[] = {
        {"nodes", &x->o.node.nodes},
        {"keys", &x->o.node.keys},
        {"writes", &x->o.writes},
        {"deletes", &x->o.deletes},
        {"swaps", &x->o.swaps},
        {"scopes", &x->o.scopes},
        {"crashes", &x->o.crashes},
        {"evictions", &x->o.evictions},
        {"rejoins", &x->o.rejoins},
        {"restarts", &x->o.restarts},
        {"doubles", &x->o.doubles},
        {"losses", &x->o.losses},
        {"resends", &x->o.resends},
        {"locks", &x->o.locks},
        {"model", &x->model},
        {"paper", &x->paper},
        {"live", &x->mo.live_every},
        {"wide", &x->mo.wide},
        {"exact", &x->mo.exact},
        {"lean", &x->mo.lean},
        {"threads", &x->mo.threads},
        {"waits", &x->o.node.waits},
        {"reads", &x->o.reads},
        {"keeps", &x->o.keeps},
        {"double", &x->o.double_type},
        {"room", &x->o.node.room},
        {"mix", &x->o.mix},
        {"read_mix", &x->o.read_mix},
        {"large", &x->o.node.large},
        {"copies", &x->o.node.copies},
        {"overrides", &x->o.overrides},
        {"twins", &x->o.node.twins},
    };
    size_t i;

    if (strcmp(name, "save") == 0) {
        x->save = value;
        return 0;
    }
    if (strcmp(name, "begin") == 0) {
        x->o.begin = strcmp(value, "full") == 0    ? DW_BEGIN_FULL
                     : strcmp(value, "learn") == 0 ? DW_BEGIN_LEARN
                                                   : value;
        return 0;
    }
    if (strcmp(name, "replay") == 0) {
        x->replay = value;
        return 0;
    }
    for (i = 0; i < sizeof(options) / sizeof(options[0]); i++)
        if (strcmp(name, options[i].name) == 0) {
            *options[i].at = (uint32_t)strtoul(value, NULL, 0);
            return 0;
        }
    (void)fprintf(stderr, "what is %s?\n", name);
    return -1;
}

int main(int argc, char **argv)
{
    struct explore x = {.o = {.node = {.nodes = 2, .keys = 1}, .writes = 2},
                        .mo = {.live_every = 100},
                        .model = UINT32_MAX,
                        .paper = UINT32_MAX};
    int i, worst = 0;
    uint32_t m, p;

    for (i = 1; i + 1 < argc; i += 2)
        if (explore_option(&x, argv[i], argv[i + 1]) != 0)
            return 2;
    for (m = SNIC_DDP_SYNCH; m <= SNIC_DDP_SCOPE; m++)
        for (p = 0; p < 2; p++) {
            struct dw_opts o = x.o;
            int r;

            if ((x.model != UINT32_MAX && x.model != m) || (x.paper != UINT32_MAX && x.paper != p))
                continue;
            o.node.model = m;
            o.node.flags = p != 0 ? (uint32_t)SNIC_DDP_PAPER : 0;
            if (m != SNIC_DDP_SCOPE && (o.mix >> SNIC_DDP_DURABILITY_SCOPE & 1) == 0)
                o.scopes = 0;
            else if (o.scopes == 0)
                o.scopes = 1;
            r = explore(&x, &o);
            worst = r > worst ? r : worst;
        }
    return worst;
}
