/* SPDX-License-Identifier: Apache-2.0 OR MIT */
#include "support.h"
#include "snicstore/base.h"

#include <signal.h>
#include <stdio.h>
#include <sys/wait.h>
#include <unistd.h>

int test_base_assert_off(int *calls);
const char *test_base_assert_on(int value, int debug, int *calls, int *line);

struct pipe_ends {
    int fd[2];
};

static void body_fail(void *ctx)
{
    struct pipe_ends *p = ctx;
    dup2(p->fd[1], 2);
    snic_assert_fail("some/file.c", 42, "left < right");
}

/* A failed contract must name its place and stop the process; a silent exit hides the bug. */
static void test_base_assert_default_handler_prints_and_aborts(void **state)
{
    (void)state;
    struct pipe_ends p;
    char text[256] = {0};
    assert_int_equal(pipe(p.fd), 0);
    int status = support_fork(body_fail, &p);
    close(p.fd[1]);
    ssize_t n = read(p.fd[0], text, sizeof(text) - 1);
    close(p.fd[0]);
    assert_true(WIFSIGNALED(status));
    assert_int_equal(WTERMSIG(status), SIGABRT);
    assert_true(n > 0);
    /* An emulator may add a line of its own about the signal. */
    static const char expected[] = "some/file.c:42: assertion failed: left < right\n";
    assert_memory_equal(text, expected, sizeof(expected) - 1);
}

/* A true condition costs one evaluation and no call of the handler. */
static void test_base_assert_true_condition_passes(void **state)
{
    (void)state;
    int calls = 0;
    int line = 0;
    assert_null(test_base_assert_on(1, 0, &calls, &line));
    assert_int_equal(calls, 1);
    assert_null(test_base_assert_on(1, 1, &calls, &line));
    assert_int_equal(calls, 2);
}

/* A false one reaches the handler that the build defined, once, with text and line. */
static void test_base_assert_false_condition_reaches_own_handler(void **state)
{
    (void)state;
    int calls = 0;
    int line = 0;
    assert_string_equal(test_base_assert_on(0, 0, &calls, &line), "assert_on_is(value, 1, calls)");
    assert_int_equal(calls, 1);
    assert_true(line > 0 && line < 10);
    assert_non_null(test_base_assert_on(0, 1, &calls, &line));
    assert_int_equal(calls, 2);
}

/* With assertions off the program behaves the same: conditions are not evaluated at all. */
static void test_base_assert_disabled_not_evaluated(void **state)
{
    (void)state;
    int calls = 0;
    assert_int_equal(test_base_assert_off(&calls), 1);
    assert_int_equal(calls, 100);
}

static void body_below_zero(void *ctx)
{
    struct snic_rng r;
    (void)ctx;
    snic_rng_init(&r, 1);
    (void)snic_rng_below(&r, 0);
}
static void body_arena_align(void *ctx)
{
    struct snic_arena a = {NULL, 0, 0};
    (void)ctx;
    (void)snic_arena_take(&a, 1, 1, 3);
}
static void body_opts_small(void *ctx)
{
    uint32_t src = 4;
    uint32_t dst = 0;
    (void)ctx;
    (void)!snic_opts_copy(&dst, 3, &src);
}

/* The contracts that base states are checked in every build that has assertions. */
static void test_base_assert_broken_contract_aborts(void **state)
{
    (void)state;
    SUPPORT_EXPECT_ABORT(body_below_zero, NULL);
    SUPPORT_EXPECT_ABORT(body_arena_align, NULL);
    SUPPORT_EXPECT_ABORT(body_opts_small, NULL);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_base_assert_default_handler_prints_and_aborts),
        cmocka_unit_test(test_base_assert_true_condition_passes),
        cmocka_unit_test(test_base_assert_false_condition_reaches_own_handler),
        cmocka_unit_test(test_base_assert_disabled_not_evaluated),
        cmocka_unit_test(test_base_assert_broken_contract_aborts),
    };
    return SUPPORT_MAIN(argc, argv, tests);
}
