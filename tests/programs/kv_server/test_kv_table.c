/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* server/memory.h: where large tables lie, and that they go back whole. */
#include "memory.h"
#include "snicstore/base.h"
#include "support.h"

#include <errno.h>
#include <setjmp.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>

#define MIB ((size_t)1 << 20)

static jmp_buf died;

void ex_die(const char *format, ...);
__attribute__((noreturn)) void ex_die(const char *format, ...)
{
    (void)format;
    longjmp(died, 1);
}

/** Every size around a change of how memory is had. */
static void test_kv_table_lies_on_a_boundary_and_is_whole(void **state)
{
    static const size_t sizes[] = {1,        4095,         4096,     2 * MIB - 1,  2 * MIB,
                                   5 * MIB,  64 * MIB - 1, 64 * MIB, 64 * MIB + 1, 65 * MIB,
                                   66 * MIB, 66 * MIB + 1, 300 * MIB};
    (void)state;
    for (size_t i = 0; i < SNIC_COUNTOF(sizes); i++) {
        struct ex_memory m;
        unsigned char *p = ex_memory(&m, sizes[i], "test");

        assert_ptr_equal(m.at, p);
        assert_int_equal(m.size, sizes[i]);
        assert_int_equal((uintptr_t)p % (sizes[i] < 2 * MIB ? 4096 : 2 * MIB), 0);
        p[0] = 1;
        p[sizes[i] / 2] = 1;
        p[sizes[i] - 1] = 1;
        ex_memory_free(&m);
        assert_null(m.at);
        assert_int_equal(m.size, 0);
        ex_memory_free(&m);
    }
}

/** Not the allocator's, which would keep it or, with a sanitizer, go over each of its bytes. */
static void test_kv_table_that_is_large_goes_back_to_the_system(void **state)
{
    const size_t size = 64 * MIB + 4096;
    struct ex_memory m;
    unsigned char *p = ex_memory(&m, size, "test");

    (void)state;
    assert_int_equal(p[size - 1], 0);
    p[8 * MIB] = 1;
    ex_memory_release(NULL, p + 8 * MIB, 4096);
    assert_int_equal(p[8 * MIB], 0);
    assert_int_equal(msync(p, 66 * MIB, MS_ASYNC), 0);
    ex_memory_free(&m);
    for (size_t at = 0; at < 66 * MIB; at += 2 * MIB) {
        assert_int_equal(msync(p + at, 4096, MS_ASYNC), -1);
        assert_int_equal(errno, ENOMEM);
    }
}

static void test_kv_table_without_memory_exits(void **state)
{
    static const size_t sizes[] = {0, SIZE_MAX, SIZE_MAX / 2, (size_t)1 << 60};
    struct ex_memory m;

    (void)state;
    for (volatile size_t i = 0; i < SNIC_COUNTOF(sizes); i++)
        if (setjmp(died) == 0) {
            (void)ex_memory(&m, sizes[i], "test");
            fail_msg("there were %zu bytes", sizes[i]);
        }
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_kv_table_lies_on_a_boundary_and_is_whole),
        cmocka_unit_test(test_kv_table_that_is_large_goes_back_to_the_system),
        cmocka_unit_test(test_kv_table_without_memory_exits),
    };

    return SUPPORT_MAIN(argc, argv, tests);
}
