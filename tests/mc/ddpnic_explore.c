/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * The explorer of MINOS-O by hand: one scope, or a script again.
 *
 *     ddpnic_explore [nodes N] [keys N] [writes N] [deletes N] [scopes N] [crashes N]
 *                    [evictions N] [doubles N] [losses N] [resends N] [locks N] [fifo N]
 *                    [fold MASK] [flags F] [model 1..5] [live N] [wide 1] [exact 1] [threads N]
 *                    [save FILE | replay FILE]
 *
 * Without model: all of them. Exit code 0: clean, 1: a violation (printed, and saved), 2: stopped
 * at a limit.
 */
#include "ddpnic_world.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char *const models[] = {"?", "synch", "strict", "renf", "event", "scope"};

struct explore {
    struct xw_opts o;
    struct mc_opts mo;
    uint32_t model; /* UINT32_MAX: all */
    const char *save, *replay;
};

static int explore(const struct explore *x, const struct xw_opts *o)
{
    struct xw_world *w = xw_new(o);
    struct mc_script script;
    struct mc_report r;
    int result;

    if (x->replay != NULL) {
        if (mc_script_load(&script, x->replay) != 0) {
            perror(x->replay);
            exit(2);
        }
        result = mc_script_run(xw_model(w), &script, 10000, 1, NULL);
        mc_script_free(&script);
        xw_free(w);
        return result < 0 ? 2 : result;
    }
    mc_run(xw_model(w), &x->mo, &r);
    mc_report_print(models[o->node.model], &x->mo, &r);
    if (r.result == MC_VIOLATED) {
        mc_script_print(xw_model(w), &r.script);
        if (x->save != NULL && mc_script_save(xw_model(w), &r.script, x->save) != 0)
            perror(x->save);
    }
    mc_script_free(&r.script);
    xw_free(w);
    return r.result;
}

static int explore_option(struct explore *x, const char *name, const char *value)
{
    const struct {
        const char *name;
        uint32_t *at;
    } options[] = {
        {"nodes", &x->o.node.nodes}, {"keys", &x->o.node.keys},      {"writes", &x->o.writes},
        {"deletes", &x->o.deletes},  {"scopes", &x->o.scopes},       {"crashes", &x->o.crashes},
        {"doubles", &x->o.doubles},  {"evictions", &x->o.evictions}, {"losses", &x->o.losses},
        {"resends", &x->o.resends},  {"locks", &x->o.locks},         {"fifo", &x->o.node.fifo},
        {"fold", &x->o.node.fold},   {"flags", &x->o.node.flags},    {"model", &x->model},
        {"live", &x->mo.live_every}, {"wide", &x->mo.wide},          {"exact", &x->mo.exact},
        {"threads", &x->mo.threads},
    };
    size_t i;

    if (strcmp(name, "save") == 0) {
        x->save = value;
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
                        .model = UINT32_MAX};
    int i, worst = 0;
    uint32_t m;

    x.o.node.fold = XN_FOLD_LOG | XN_FOLD_BACK;
    for (i = 1; i + 1 < argc; i += 2)
        if (explore_option(&x, argv[i], argv[i + 1]) != 0)
            return 2;
    for (m = SNIC_DDP_SYNCH; m <= SNIC_DDP_SCOPE; m++) {
        struct xw_opts o = x.o;
        int r;

        if (x.model != UINT32_MAX && x.model != m)
            continue;
        o.node.model = m;
        if (m != SNIC_DDP_SCOPE)
            o.scopes = 0;
        else if (o.scopes == 0)
            o.scopes = 1;
        r = explore(&x, &o);
        worst = r > worst ? r : worst;
    }
    return worst;
}
