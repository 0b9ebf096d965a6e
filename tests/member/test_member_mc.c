/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * The membership engine itself under the explorer (mc/member_world.h): every order of messages,
 * files, proposals, crashes and ends of leases in small scopes. The numbers of states are pinned: a
 * change of the engine that changes them must be explained. And with defects switched on, each of
 * which must be found (their numbers are test_member_teeth.c's), by a script of 40 steps at most.
 * Those that need several boots or proposals are found in scopes where only some nodes do some
 * things and some messages are always lost; the same scopes without the defect are clean. 1, 2 and
 * 18 are of clocks, which go there, as far apart as the option allows.
 */
#include "mc/member_world.h"
#include "support.h"

#include <stdio.h>
#include <string.h>

struct scope {
    const char *name;
    uint64_t states; /* 0: a defect is to be found */
    struct mw_opts o;
};

#define TYPE(t) (1u << SNIC_MEMBER_##t)
#define REGISTER (TYPE(PREPARE) | TYPE(PROMISE) | TYPE(ACCEPT))

/* The last node's clock is slow and the others' are fast; it hears only the first, and that one may
 * lose its messages. Some 450 ms: a lease and its grant. */
#define APART .ppm = {100000, 100000, -100000}, .ends = 48000, .sure = MW_BOTH(0, 1)
#define FIRST_ONLY .links = MW_BOTH(0, 1) | MW_BOTH(0, 2)
#define CLOCKS                                                                                     \
    APART, FIRST_ONLY, .begin = MW_FREE,                                                           \
                       .types = REGISTER | TYPE(ACCEPTED) | TYPE(HEARTBEAT) | TYPE(GRANT)

static const struct scope scopes[] = {
    {"a proposal", 11869, {.begin = MW_FREE, .proposals = 1, .silences = 1}},
    {"a proposal, a vote waits for leases", 3175, {.proposals = 1, .silences = 1}},
    {"a proposal after a boot", 45392, {.begin = MW_BOOTED, .proposals = 1, .silences = 1}},
    {"a learner comes", 7032, {.begin = MW_OUT, .proposals = 1}},
    {"a learner has caught up", 1785, {.begin = MW_LEARNER, .proposals = 1}},
    {"a learner has caught up, crash", 17709, {.begin = MW_LEARNER, .proposals = 1, .crashes = 1}},
    {"two lives", 14212, {.beats = 1, .crashes = 2, .boots = 2}},
    {"a run without its file", 1972, {.beats = 1, .crashes = 1, .boots = 1, .losses = 1}},
    {"one without its file comes",
     491563,
     {.begin = MW_OUT, .proposals = 1, .crashes = 1, .boots = 1, .losses = 1}},
    {"all boot", 10356, {.proposals = 1, .crashes = 3, .boots = 3, .waits = 1}},
    {"clocks apart", 486023, {.begin = MW_FREE, APART, FIRST_ONLY}},
};

/* The first node's confirmation, and the middle one that votes it out; clocks mean nothing. */
#define CONFIRMS                                                                                   \
    .begin = MW_FREE, .clockless = 1, .confirms = 1, .beats = 1, .proposals = 1, .silences = 1,    \
    .who = {[MN_BEAT] = 1, [MN_CONFIRM] = 1, [MN_PROPOSE] = 2, [MN_SILENT] = MW_PAIR(1, 0)},       \
    .types = REGISTER | TYPE(ACCEPTED) | TYPE(HEARTBEAT) | TYPE(GRANT)
/* The last node was replaced while it was down, and comes back with its file. */
#define COMES_BACK                                                                                 \
    .begin = MW_FREE, .changes = 1, .change = {0, 0, 4}, .crashes = 1, .boots = 1, .beats = 1,     \
    .proposals = 2, .who = {[MN_CRASH] = 4, [MN_BEAT] = 4, [MN_CHANGE] = 1, [MN_PROPOSE] = 1}

/* Nodes added, removed and replaced; founding. */
static const struct scope changes[] = {
    {"add",
     2375,
     {.begin = MW_FREE,
      .founders = 3,
      .changes = 1,
      .change = {4},
      .proposals = 2,
      .silences = 1,
      .who = {[MN_CHANGE] = 1, [MN_SILENT] = MW_BOTH(0, 1)}}},
    {"add: it comes", 20888, {.begin = MW_VACANT, .founders = 3, .proposals = 2}},
    {"add: it is FULL", 12708, {.begin = MW_ADDED, .founders = 3, .proposals = 2, .beats = 1}},
    {"add a witness",
     4747,
     {.begin = MW_FREE,
      .founders = 3,
      .add_witness = 1,
      .changes = 1,
      .change = {4},
      .proposals = 2,
      .silences = 1}},
    {"add a witness: it comes",
     16920,
     {.begin = MW_VACANT, .founders = 3, .add_witness = 1, .proposals = 2}},
    {"remove",
     181317,
     {.begin = MW_FREE, .changes = 1, .change = {0, 4}, .proposals = 1, .silences = 1}},
    {"remove one of two",
     36,
     {.begin = MW_FREE, .nodes = 2, .changes = 1, .change = {0, 2}, .proposals = 1}},
    {"replace",
     39680,
     {.begin = MW_FREE,
      .changes = 1,
      .change = {0, 0, 4},
      .proposals = 1,
      .crashes = 1,
      .boots = 1,
      .losses = 1,
      .losers = 4,
      .who = {[MN_CRASH] = 4, [MN_CHANGE] = 1, [MN_PROPOSE] = 1}}},
    {"replace: it comes", 20888, {.begin = MW_VACANT, .proposals = 2}},
    {"replace: it is FULL", 75544, {.begin = MW_ADDED, .proposals = 1, .beats = 1, .silences = 1}},
    {"replace while one crashes: it comes",
     2772,
     {.begin = MW_VACANT, .proposals = 1, .crashes = 1, .boots = 1, .who = {[MN_CRASH] = 2}}},
    {"replace while one crashes: it is FULL",
     4504,
     {.begin = MW_ADDED,
      .proposals = 1,
      .beats = 1,
      .crashes = 1,
      .boots = 1,
      .who = {[MN_CRASH] = 2, [MN_BEAT] = 4}}},
    {"replace twice",
     88400,
     {.begin = MW_VACANT, .changes = 1, .change = {0, 0, 4}, .proposals = 2}},
    {"replace twice: a learner",
     50640,
     {.begin = MW_ADDED, .changes = 1, .change = {0, 0, 4}, .proposals = 1, .beats = 1}},
    {"replace: the old disk comes back to a learner",
     18568,
     {.begin = MW_ADDED,
      .proposals = 1,
      .beats = 1,
      .crashes = 1,
      .boots = 1,
      .olds = 1,
      .who = {[MN_CRASH] = 4}}},
    {"replace a witness: the old disk comes back",
     615672,
     {.witness = 4, .links = MW_BOTH(0, 1) | MW_BOTH(0, 2), COMES_BACK}},
    {"a lease of the configuration before the last",
     2119,
     {.begin = MW_RENEWED, .proposals = 1, .silences = 1}},
    {"misuse of FOUND: a witness",
     10016,
     {.begin = MW_FREE,
      .witness = 4,
      .proposals = 1,
      .silences = 1,
      .crashes = 1,
      .boots = 1,
      .losses = 1,
      .losers = 4,
      .misuse = 1,
      .who = {[MN_CRASH] = 4, [MN_SILENT] = MW_PAIR(0, 1)}}},
    {"misuse of FOUND: before the first view",
     7978,
     {.begin = MW_NEW, .proposals = 1, .crashes = 1, .boots = 1, .losses = 1, .misuse = 1}},
    {"a confirmed read", 483587, {CONFIRMS}},
    /* Empty files whose numbers are below those of the files before. */
    {"a run without its file, below",
     2044,
     {.below = 1, .beats = 1, .crashes = 1, .boots = 1, .losses = 1}},
    {"one without its file comes, below",
     301573,
     {.below = 1,
      .begin = MW_OUT,
      .proposals = 1,
      .crashes = 1,
      .boots = 1,
      .losses = 1,
      .losers = 4}},
    {"replace, below",
     38320,
     {.below = 1,
      .begin = MW_FREE,
      .changes = 1,
      .change = {0, 0, 4},
      .proposals = 1,
      .crashes = 1,
      .boots = 1,
      .losses = 1,
      .losers = 4,
      .who = {[MN_CRASH] = 4, [MN_CHANGE] = 1, [MN_PROPOSE] = 1}}},
    {"replace, below: it comes", 20888, {.below = 1, .begin = MW_VACANT, .proposals = 2}},
    {"replace, below: the new disk is lost, too",
     1828,
     {.below = 1,
      .begin = MW_VACANT,
      .proposals = 1,
      .crashes = 1,
      .boots = 1,
      .losses = 1,
      .losers = 4,
      .who = {[MN_CRASH] = 4}}},
    {"misuse of FOUND, below: before the first view",
     7978,
     {.below = 1,
      .begin = MW_NEW,
      .proposals = 1,
      .crashes = 1,
      .boots = 1,
      .losses = 1,
      .misuse = 1}},
};

/* By night, too. */
static const struct scope night[] = {
    {"replace, node and proposer by chance",
     5796190,
     {.begin = MW_FREE,
      .changes = 1,
      .change = {0, 0, 4},
      .proposals = 1,
      .beats = 1,
      .crashes = 1,
      .boots = 1,
      .losses = 1,
      .losers = 4,
      .who = {[MN_CRASH] = 4, [MN_BEAT] = 4}}},
    {"misuse of FOUND: two proposers",
     2486561,
     {.begin = MW_NEW, .proposals = 2, .crashes = 1, .boots = 1, .losses = 1, .misuse = 1}},
    {"misuse of FOUND: a witness that is heard",
     1337521,
     {.begin = MW_FREE,
      .witness = 4,
      .proposals = 1,
      .beats = 1,
      .silences = 1,
      .crashes = 1,
      .boots = 1,
      .losses = 1,
      .losers = 4,
      .misuse = 1,
      .who = {[MN_CRASH] = 4, [MN_SILENT] = MW_PAIR(0, 1)}}},
    {"a confirmed read after a replacement",
     1379582,
     {.begin = MW_RENEWED,
      .clockless = 1,
      .confirms = 1,
      .proposals = 1,
      .silences = 1,
      .who = {[MN_CONFIRM] = 1}}},
    {"clocks apart, a boot", 4391120, {.begin = MW_BOOTED, APART, FIRST_ONLY}},
    {"clocks apart, two late", 944186, {.lates = 2, CLOCKS}},
};

static const struct scope bugs[] = {
    {"a vote does not wait for leases", 0, {.bug = 3, .proposals = 1, .silences = 1}},
    {"a booted node grants and votes at once",
     0,
     {.bug = 4, .begin = MW_BOOTED, .proposals = 1, .silences = 1}},
    {"a voter still grants to the node that it voted out",
     0,
     {.bug = 5, .begin = MW_FREE, .proposals = 1, .silences = 1, .beats = 1}},
    {"a vote is sent before it is stored",
     0,
     {.bug = 7, .begin = MW_FREE, .proposals = 1, .silences = 1}},
    {"a proposer ignores what was voted for",
     0,
     {.bug = 8, .begin = MW_FREE, .proposals = 2, .silences = 1}},
    {"a vote breaks a promise", 0, {.bug = 14, .begin = MW_FREE, .proposals = 2, .silences = 1}},
    {"one who was voted out comes back under its old incarnation",
     0,
     {.bug = 9, .begin = MW_OUT, .proposals = 1}},
    {"a booted node resumes its former role", 0, {.bug = 11, .beats = 1, .crashes = 1, .boots = 1}},
    {"a grant for another epoch",
     0,
     {.bug = 12, .begin = MW_FREE, .proposals = 1, .silences = 1, .beats = 1}},
    {"who votes itself out may take a lease all the same",
     0,
     {.bug = 20, .begin = MW_FREE, .proposals = 1, .silences = 1, .beats = 1}},
    {"a learner becomes FULL before it has caught up",
     0,
     {.bug = 22, .begin = MW_LEARNER, .proposals = 1}},
    {"an incarnation is sent before it is stored",
     0,
     {.bug = 23, .beats = 1, .crashes = 2, .boots = 2}},
    {"a majority founds",
     0,
     {.bug = 26,
      .begin = MW_NEW,
      .proposals = 2,
      .crashes = 1,
      .boots = 1,
      .losses = 1,
      .misuse = 1}},
    {"no quiet after another configuration",
     0,
     {.bug = 27, .begin = MW_RENEWED, .proposals = 1, .silences = 1}},
    {"votes are counted by the first configuration, and a removed node votes",
     0,
     {.bug = 28,
      .begin = MW_FREE,
      .changes = 1,
      .change = {0, 4},
      .proposals = 2,
      .silences = 1,
      .who = {[MN_CHANGE] = 1, [MN_PROPOSE] = 1, [MN_SILENT] = MW_PAIR(0, 1)}}},
    {"a replaced node's file gets its vote back",
     0,
     {.bug = 29, .witness = 4, .links = MW_BOTH(0, 1) | MW_BOTH(0, 2), COMES_BACK}},
    {"a vacant node votes", 0, {.bug = 30, .begin = MW_VACANT, .proposals = 1}},
    {"a voter confirms the node that it voted out", 0, {.bug = 31, CONFIRMS}},
    {"a learner is given a vote", 0, {.bug = 32, .begin = MW_ADDED, .proposals = 1, .beats = 1}},
    {"a configuration changes unannounced",
     0,
     {.bug = 33, .begin = MW_FREE, .changes = 1, .change = {0, 4}, .proposals = 1}},
    {"votes are counted by a configuration that is proposed",
     0,
     {.bug = 35, .begin = MW_FREE, .nodes = 2, .changes = 1, .change = {0, 2}, .proposals = 1}},
    {"one grant confirms", 0, {.bug = 37, CONFIRMS}},
    {"the quiet after a boot is one drift too short",
     0,
     {.bug = 18, .begin = MW_BOOTED, APART, .links = MW_BOTH(0, 1)}},
    {"clocks twice as bad as the option allows",
     0,
     {.begin = MW_FREE,
      .ends = 48000,
      .ppm = {200000, 200000, -200000},
      .sure = MW_BOTH(0, 1),
      FIRST_ONLY,
      .types = REGISTER | TYPE(ACCEPTED) | TYPE(HEARTBEAT) | TYPE(GRANT)}},
};

/* With the defect a violation, without it so many states. */
static const struct scope narrow[] = {
    {"a grant is counted for lease_ns, whatever the clocks", 44868, {.bug = 1, CLOCKS}},
    {"a lease counts from when the grant came", 240090, {.bug = 2, .lates = 1, CLOCKS}},
    {"a grant is one drift too short", 44868, {.bug = 18, CLOCKS}},
    {"a promise is sent before it is stored",
     2186,
     {.bug = 6,
      .begin = MW_FREE,
      .proposals = 2,
      .silences = 2,
      .crashes = 1,
      .boots = 1,
      .who = {[MN_PROPOSE] = 5, [MN_SILENT] = MW_BOTH(0, 2), [MN_CRASH] = 2},
      .links = MW_BOTH(0, 1) | MW_BOTH(1, 2),
      .types = REGISTER}},
    {"a restart takes learners",
     446092,
     {.bug = 10,
      .begin = MW_LEARNER,
      .beats = 2,
      .proposals = 1,
      .expiries = 1,
      .crashes = 2,
      .boots = 2,
      .waits = 1,
      .who = {[MN_BEAT] = 6, [MN_PROPOSE] = 2, [MN_EXPIRE] = 1, [MN_CRASH] = 6, [MN_WAITED] = 2},
      .links = MW_BOTH(1, 2),
      .types = REGISTER | TYPE(HEARTBEAT)}},
    {"a fence is acknowledged, not applied",
     15911,
     {.bug = 13,
      .beats = 2,
      .proposals = 1,
      .silences = 1,
      .who = {[MN_BEAT] = 3, [MN_PROPOSE] = 1, [MN_SILENT] = MW_PAIR(0, 2)},
      .types = REGISTER | TYPE(ACCEPTED) | TYPE(FENCE) | TYPE(FENCE_ACK)}},
    {"half is a majority",
     3,
     {.bug = 15, .begin = MW_FREE, .proposals = 1, .silences = 1, .nodes = 2}},
    {"ballots come again after a boot",
     462723,
     {.bug = 17,
      .begin = MW_FREE,
      .beats = 2,
      .proposals = 2,
      .silences = 1,
      .crashes = 1,
      .boots = 1,
      .who = {[MN_BEAT] = 3, [MN_PROPOSE] = 1, [MN_SILENT] = MW_PAIR(0, 2), [MN_CRASH] = 1},
      .links = MW_BOTH(0, 1) | MW_BOTH(0, 2),
      .types = REGISTER | TYPE(HEARTBEAT)}},
    {"a restart takes suspect logs",
     304861,
     {.bug = 21,
      .begin = MW_FREE,
      .beats = 3,
      .proposals = 1,
      .crashes = 2,
      .boots = 2,
      .suspects = 1,
      .waits = 1,
      .who = {[MN_BEAT] = 6, [MN_PROPOSE] = 2, [MN_CRASH] = 6, [MN_WAITED] = 2},
      .links = MW_BOTH(1, 2),
      .types = REGISTER | TYPE(HEARTBEAT)}},
    {"a node that lost its file votes",
     172172,
     {.bug = 24,
      .begin = MW_FREE,
      .beats = 1,
      .proposals = 2,
      .silences = 2,
      .crashes = 1,
      .boots = 1,
      .losses = 1,
      .who = {[MN_BEAT] = 2, [MN_PROPOSE] = 5, [MN_SILENT] = MW_BOTH(0, 2), [MN_CRASH] = 2},
      .links = MW_BOTH(0, 1) | MW_BOTH(1, 2),
      .types = REGISTER | TYPE(ACCEPTED) | TYPE(HEARTBEAT) | TYPE(DECIDED)}},
    {"a new file votes before a view names it",
     172172,
     {.bug = 34,
      .begin = MW_FREE,
      .beats = 1,
      .proposals = 2,
      .silences = 2,
      .crashes = 1,
      .boots = 1,
      .losses = 1,
      .who = {[MN_BEAT] = 2, [MN_PROPOSE] = 5, [MN_SILENT] = MW_BOTH(0, 2), [MN_CRASH] = 2},
      .links = MW_BOTH(0, 1) | MW_BOTH(1, 2),
      .types = REGISTER | TYPE(ACCEPTED) | TYPE(HEARTBEAT) | TYPE(DECIDED)}},
    {"the file of a node does not matter for its vote",
     172172,
     {.bug = 36,
      .begin = MW_FREE,
      .beats = 1,
      .proposals = 2,
      .silences = 2,
      .crashes = 1,
      .boots = 1,
      .losses = 1,
      .who = {[MN_BEAT] = 2, [MN_PROPOSE] = 5, [MN_SILENT] = MW_BOTH(0, 2), [MN_CRASH] = 2},
      .links = MW_BOTH(0, 1) | MW_BOTH(1, 2),
      .types = REGISTER | TYPE(ACCEPTED) | TYPE(HEARTBEAT) | TYPE(DECIDED)}},
    {"an empty log of a lost disk counts in a restart",
     1924,
     {.bug = 25,
      .begin = MW_STOPPED,
      .beats = 3,
      .proposals = 1,
      .boots = 2,
      .losses = 1,
      .losers = 2,
      .who = {[MN_PROPOSE] = 1},
      .links = MW_BOTH(0, 1) | MW_BOTH(0, 2),
      .types = REGISTER | TYPE(HEARTBEAT)}},
};

static void explore(const struct scope *c, struct mc_report *r)
{
    struct mc_opts mo = {0};
    struct mw_opts o = c->o;
    struct mw_world *w;

    o.blind = o.bug != 0; /* found from outside */
    w = mw_new(&o);
    mc_run(mw_model(w), &mo, r);
    mc_report_print(c->name, &mo, r);
    if (r->result == MC_VIOLATED && o.bug == 0)
        mc_script_print(mw_model(w), &r->script);
    else if (r->result == MC_VIOLATED)
        (void)printf("  %s, after %u steps\n", r->script.why, r->script.count);
    mw_free(w);
}

static void clean(const struct scope *c)
{
    struct scope without = *c;
    struct mc_report r;

    without.o.bug = 0;
    explore(&without, &r);
    mc_script_free(&r.script);
    assert_int_equal(r.result, MC_CLEAN);
    assert_int_equal(r.states, c->states);
}

static void found(const struct scope *c)
{
    struct mc_report r;

    explore(c, &r);
    assert_int_equal(r.result, MC_VIOLATED);
    assert_true(r.script.count <= 40);
    mc_script_free(&r.script);
}

static void test_member_mc_scopes_clean(void **state)
{
    size_t i;

    (void)state;
    for (i = 0; i < SNIC_COUNTOF(scopes); i++)
        clean(&scopes[i]);
    for (i = 0; i < SNIC_COUNTOF(narrow); i++)
        clean(&narrow[i]);
    for (i = 0; i < SNIC_COUNTOF(changes); i++)
        clean(&changes[i]);
    for (i = 0; i < SNIC_COUNTOF(night) && support_nightly(); i++)
        clean(&night[i]);
}

static void test_member_mc_each_defect_is_found(void **state)
{
    const uint64_t stride = support_stride(1, 3);
    uint64_t which = 0;
    size_t i;

    (void)state;
    for (i = support_turn(stride); i < SNIC_COUNTOF(bugs); i += stride) {
        found(&bugs[i]);
        which |= UINT64_C(1) << bugs[i].o.bug;
    }
    for (i = support_turn(stride); i < SNIC_COUNTOF(narrow); i += stride) {
        found(&narrow[i]);
        which |= UINT64_C(1) << narrow[i].o.bug;
    }
    /* 0 is clocks worse than the option; 18 is there twice */
    (void)printf("%d bugs tried, 0 not found\n", __builtin_popcountll(which & ~UINT64_C(1)));
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_member_mc_scopes_clean),
        cmocka_unit_test(test_member_mc_each_defect_is_found),
    };

    return SUPPORT_MAIN(argc, argv, tests);
}
