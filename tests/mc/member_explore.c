/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * The explorer of memberships by hand:
 *
 *     member_explore [beats N] [proposals N] [resends N] [silences N] [expiries N] [crashes N]
 *                    [boots N] [losses N] [doubles N] [waits N] [begin 0..9] [bug N]
 *                    [blind 1] [threads N] [suspects N] [nodes N] [links M] [types M]
 *                    [who_beats M] [founders M] [witness M] [changes N] [adds M] [removes M]
 *                    [replaces M] [misuse 1] [olds N] [confirms N] ... (member_world.h; M: bits)
 *
 * Exit code 0: clean, 1: a violation, 2: stopped at a limit.
 */
#include "member_world.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static struct mw_opts o;
static struct mc_opts mo;
static const struct {
    const char *name;
    uint32_t *at;
} options[] = {{"beats", &o.beats},
               {"proposals", &o.proposals},
               {"resends", &o.resends},
               {"silences", &o.silences},
               {"expiries", &o.expiries},
               {"crashes", &o.crashes},
               {"boots", &o.boots},
               {"losses", &o.losses},
               {"doubles", &o.doubles},
               {"waits", &o.waits},
               {"bug", &o.bug},
               {"blind", &o.blind},
               {"threads", &mo.threads},
               {"begin", &o.begin},
               {"exact", &mo.exact},
               {"suspects", &o.suspects},
               {"nodes", &o.nodes},
               {"links", &o.links},
               {"types", &o.types},
               {"who_beats", &o.who[MN_BEAT]},
               {"who_proposes", &o.who[MN_PROPOSE]},
               {"who_hears_not", &o.who[MN_SILENT]},
               {"who_expires", &o.who[MN_EXPIRE]},
               {"who_crashes", &o.who[MN_CRASH]},
               {"who_boots", &o.who[MN_BOOT]},
               {"ends", &o.ends},
               {"sure", &o.sure},
               {"lates", &o.lates},
               {"ppm0", (uint32_t *)&o.ppm[0]},
               {"ppm1", (uint32_t *)&o.ppm[1]},
               {"ppm2", (uint32_t *)&o.ppm[2]},
               {"losers", &o.losers},
               {"founders", &o.founders},
               {"witness", &o.witness},
               {"changes", &o.changes},
               {"adds", &o.change[0]},
               {"removes", &o.change[1]},
               {"replaces", &o.change[2]},
               {"add_witness", &o.add_witness},
               {"below", &o.below},
               {"clockless", &o.clockless},
               {"misuse", &o.misuse},
               {"olds", &o.olds},
               {"confirms", &o.confirms},
               {"who_changes", &o.who[MN_CHANGE]},
               {"who_confirms", &o.who[MN_CONFIRM]},
               {"who_waits", &o.who[MN_WAITED]}};

int main(int argc, char **argv)
{
    struct mw_world *w;
    struct mc_report r;
    size_t k;
    int i;

    for (i = 1; i + 1 < argc; i += 2) {
        for (k = 0; k < sizeof(options) / sizeof(options[0]); k++)
            if (strcmp(argv[i], options[k].name) == 0)
                break;
        if (k == sizeof(options) / sizeof(options[0])) {
            (void)fprintf(stderr, "what is %s?\n", argv[i]);
            return 2;
        }
        *options[k].at = (uint32_t)strtoul(argv[i + 1], NULL, 0);
    }
    w = mw_new(&o);
    mc_run(mw_model(w), &mo, &r);
    mc_report_print("member", &mo, &r);
    if (r.result == MC_VIOLATED)
        mc_script_print(mw_model(w), &r.script);
    mc_script_free(&r.script);
    mw_free(w);
    return r.result;
}
