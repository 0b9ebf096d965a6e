/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * Can the simulation see a defect? The module's sources are compiled once more here, with defects
 * that a number switches on; each must be found within a few thousand seeds. So must clocks that
 * are worse than the option allows. What is found is found from outside: the engine's own check is
 * off, but for 17, which needs more luck. 6 (a promise is sent before it is stored) and 23 (an
 * incarnation is) are too rare here, and are caught by test_member.c.
 */
#include "test_member_rename.h"

static unsigned teeth_bug;
#define SNIC_MEMBER__BUG(n) (teeth_bug == (n))

#include "member/check.c"
#include "member/config.c"
#include "member/lease.c"
#include "member/policy.c"
#include "member/proposer.c"
#include "member/register.c"
#include "member/view.c"
#include "member/member.c"

#include "test_member_sim.h"

#include "support.h"

#include <stdio.h>

static struct sim sim;

struct teeth_case {
    unsigned bug;
    uint32_t excess;
    const char *what;
};

static const struct teeth_case cases[] = {
    {1, 0, "a grant is counted for lease_ns, whatever the clocks"},
    {2, 0, "a lease counts from when the grant came"},
    {3, 0, "a vote does not wait for leases"},
    {4, 0, "a booted node grants and votes at once"},
    {5, 0, "a voter still grants to the node that it voted out"},
    {7, 0, "a vote is sent before it is stored"},
    {8, 0, "a proposer ignores what was voted for"},
    {9, 0, "one who was voted out comes back under its old incarnation"},
    {10, 0, "a restart takes learners"},
    {11, 0, "a booted node resumes its former role"},
    {12, 0, "a grant for another epoch"},
    {13, 0, "a fence is acknowledged, not applied"},
    {14, 0, "a vote breaks a promise"},
    {15, 0, "half is a majority"},
    {17, 0, "ballots come again after a boot"},
    {18, 0, "a grant is one drift too short"},
    {20, 0, "who votes itself out may take a lease all the same"},
    {21, 0, "a restart takes suspect logs"},
    {22, 0, "a learner becomes FULL before it has caught up"},
    {24, 0, "a node that lost its file votes"},
    {25, 0, "an empty log of a lost disk counts in a restart"},
    {28, 0, "votes are counted by the first configuration, and a removed node votes"},
    {29, 0, "a dead file gets its vote back"},
    {30, 0, "a vacant node votes"},
    {32, 0, "a learner gets a vote"},
    {33, 0, "a configuration changes unannounced"},
    {34, 0, "a new file votes before a view names it"},
    {36, 0, "the file of a node does not matter for its vote"},
    {37, 0, "an empty log passes for that of the file before"},
    {0, 8, "clocks eight times worse than the option allows"},
};

/* Seeds until the first safety failure, 0: none. */
static uint64_t teeth_hunt(const struct teeth_case *c, uint64_t seeds)
{
    teeth_bug = c->bug;
    for (uint64_t i = 1; i <= seeds; i++) {
        struct sim_opts o = {.seed = i * 7919, .excess = c->excess, .blind = c->bug != 17};
        const char *why = sim_run(&sim, &o);
        if (why != NULL && memcmp(why, "not well", 8) != 0 && memcmp(why, "well,", 5) != 0) {
            printf("%2u %-60s seed %5llu: %s\n", c->bug, c->what, (unsigned long long)i, why);
            return i;
        }
    }
    printf("%2u %-60s not found\n", c->bug, c->what);
    return 0;
}

static void test_member_teeth_each_defect_is_found(void **state)
{
    const uint64_t stride = support_stride(2, 6);
    int missed = 0, tried = 0;
    (void)state;
    for (size_t i = support_turn(stride); i < sizeof(cases) / sizeof(cases[0]); i += stride) {
        missed += teeth_hunt(&cases[i], 4000) == 0;
        tried++;
    }
    printf("%d bugs tried, %d not found\n", tried, missed);
    assert_int_equal(missed, 0);
}

/* And without a defect nothing is found in the same seeds. */
static void test_member_teeth_no_defect_nothing_found(void **state)
{
    struct teeth_case none = {0, 0, "none"};
    (void)state;
    assert_int_equal(teeth_hunt(&none, 500), 0);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_member_teeth_each_defect_is_found),
        cmocka_unit_test(test_member_teeth_no_defect_nothing_found),
    };
    return SUPPORT_MAIN(argc, argv, tests);
}
