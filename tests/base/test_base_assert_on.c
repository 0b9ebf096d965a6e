/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* The assertion macros with both kinds on and a handler of our own, for test_base_assert.c. */
#undef SNIC_NO_ASSERT
#ifndef SNIC_DEBUG
#define SNIC_DEBUG
#endif
#include <setjmp.h>
#include <string.h>

static jmp_buf assert_on_jump;
static const char *assert_on_text;
static int assert_on_line;

static __attribute__((noreturn)) void assert_on_fail(const char *file, int line, const char *text)
{
    assert_on_text = strstr(file, "test_base_assert_on.c") != NULL ? text : "wrong file";
    assert_on_line = line;
    longjmp(assert_on_jump, 1);
}
#define SNIC_ASSERT_FAIL(file, line, text) assert_on_fail(file, line, text)
#include "snicstore/base.h"

const char *test_base_assert_on(int value, int debug, int *calls, int *line);

static int assert_on_is(int value, int expected, int *calls)
{
    (*calls)++;
    return value == expected;
}

/* The text of the assertion that failed, or NULL; value 1 satisfies it. */
const char *test_base_assert_on(int value, int debug, int *calls, int *line)
{
    *line = 0;
    if (setjmp(assert_on_jump) != 0) {
        *line = assert_on_line - __LINE__;
        return assert_on_text;
    }
    if (debug)
        SNIC_DASSERT(value == 1 ? assert_on_is(value, 1, calls) : assert_on_is(value, 1, calls));
    else
        SNIC_ASSERT(assert_on_is(value, 1, calls));
    return NULL;
}
