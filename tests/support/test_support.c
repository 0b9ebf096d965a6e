/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* The shared test code itself: a helper that cannot fail would hide every bug it is meant to show.
 */
#include "support.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

static void support_body_abort(void *ctx)
{
    (void)ctx;
    abort();
}

static void support_body_return(void *ctx)
{
    (void)ctx;
}

struct support_poke {
    size_t size;
    size_t align;
    ptrdiff_t offset;
};

/* Writes one byte at an offset from a guarded block, then frees it. */
static void support_body_poke(void *ctx)
{
    const struct support_poke *p = ctx;
    volatile unsigned char *block = support_guard_alloc(p->size, p->align);

    block[p->offset] = 0;
    support_guard_free((void *)(uintptr_t)block);
}

static int support_poke_kills(size_t size, size_t align, ptrdiff_t offset)
{
    struct support_poke p = {size, align, offset};

    return support_fork(support_body_poke, &p) != 0;
}

/* Touches a freed block. */
static void support_body_late(void *ctx)
{
    const struct support_poke *p = ctx;
    volatile unsigned char *block = support_guard_alloc(p->size, p->align);

    support_guard_free((void *)(uintptr_t)block);
    block[p->offset] = 0;
}

/* What is freed cannot be touched, and comes back filled anew, its guard page in place. */
static void test_support_guard_freed_untouchable_and_new_again(void **state)
{
    static const size_t sizes[] = {1, 4096, 100000, 5000000, 50000000};

    (void)state;
    for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
        struct support_poke late = {sizes[i], 64, 0};

        assert_true(support_fork(support_body_late, &late) != 0);
        for (int round = 0; round < 3; round++) {
            unsigned char *p = support_guard_alloc(sizes[i], 64);

            for (size_t at = 0; at < sizes[i]; at += 4096)
                assert_int_equal(p[at], 0xa5);
            assert_int_equal(p[sizes[i] - 1], 0xa5);
            memset(p, 0, sizes[i]);
            support_guard_free(p);
            assert_true(support_poke_kills(sizes[i], 1, (ptrdiff_t)sizes[i]));
        }
        assert_true(support_fork(support_body_late, &late) != 0);
    }
}

/* A guard that misses a stray byte on either side lets a module outgrow its memsize. */
static void test_support_guard_stray_byte_noticed(void **state)
{
    (void)state;
    assert_false(support_poke_kills(100, 64, 0));
    assert_false(support_poke_kills(100, 64, 99));
    assert_true(support_poke_kills(100, 64, 100));
    assert_true(support_poke_kills(100, 64, 127));
    assert_true(support_poke_kills(100, 64, 128));
    assert_true(support_poke_kills(100, 64, -1));
    assert_true(support_poke_kills(4096, 4096, 4096));
    assert_true(support_poke_kills(4096, 4096, -1));
    assert_false(support_poke_kills(4096, 4096, 4095));
    assert_true(support_poke_kills(1, 1, 1));
}

/* A block that is not aligned, not filled or not counted would make other tests lie. */
static void test_support_guard_blocks_aligned_filled_counted(void **state)
{
    (void)state;
    for (size_t align = 1; align <= 4096; align *= 2) {
        for (size_t size = 1; size < 300; size += 37) {
            unsigned char *p = support_guard_alloc(size, align);

            assert_int_equal((uintptr_t)p % align, 0);
            assert_int_equal(p[0], 0xa5);
            assert_int_equal(p[size - 1], 0xa5);
            assert_int_equal(support_guard_live(), 1);
            support_guard_check();
            support_guard_free(p);
        }
    }
    assert_int_equal(support_guard_live(), 0);
}

/* If a plain return counted as an abort, no assertion test could fail. */
static void test_support_child_outcomes_distinguished(void **state)
{
    (void)state;
    assert_true(support_aborts(support_body_abort, NULL));
    assert_false(support_aborts(support_body_return, NULL));
    assert_int_equal(support_fork(support_body_return, NULL), 0);
}

/* Files must be at the stated path, of the size asked for, and zero. */
static void test_support_tmpfile_created_zeroed(void **state)
{
    char path[512];
    char data[16];
    struct stat st;
    int fd = support_tmpfile(path, sizeof(path), "a", 8192);

    (void)state;
    assert_int_equal(fstat(fd, &st), 0);
    assert_int_equal(st.st_size, 8192);
    assert_int_equal(pread(fd, data, sizeof(data), 8000), (ssize_t)sizeof(data));
    assert_memory_equal(data, "\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0", sizeof(data));
    close(fd);
    assert_int_not_equal(support_free_port(), 0);
}

static void support_count_one(void *ctx, unsigned index)
{
    unsigned *seen = ctx;

    (void)support_pin(index);
    seen[index]++;
}

/* Each thread runs once, with its own index. */
static void test_support_threads_each_run_once(void **state)
{
    unsigned seen[9] = {0};

    (void)state;
    support_threads(9, support_count_one, seen);
    for (unsigned i = 0; i < 9; i++)
        assert_int_equal(seen[i], 1);
    assert_true(support_cpus() >= 1);
}

static int support_child_main(const char *arg1, const char *arg2, const struct CMUnitTest *tests,
                              size_t count)
{
    int status = 0;
    pid_t pid = fork();

    if (pid == 0) {
        char name[] = "child";
        char *argv[4] = {name, strdup(arg1), strdup(arg2), NULL};

        if (freopen("/dev/null", "w", stdout) == NULL || freopen("/dev/null", "w", stderr) == NULL)
            _exit(99);
        _exit(support_main(3, argv, tests, count));
    }
    assert_true(pid > 0);
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_true(WIFEXITED(status));
    return WEXITSTATUS(status);
}

static void support_passes(void **state)
{
    (void)state;
    assert_int_equal(support_seed(), 77);
}

static void support_fails(void **state)
{
    (void)state;
    fail();
}

static void support_skips(void **state)
{
    (void)state;
    support_skip("on purpose");
}

/* The exit codes are what ctest sees: 0 passed, 1 failed, 77 skipped and nothing failed. */
static void test_support_main_exit_codes(void **state)
{
    const struct CMUnitTest good[] = {cmocka_unit_test(support_passes)};
    const struct CMUnitTest bad[] = {cmocka_unit_test(support_fails),
                                     cmocka_unit_test(support_skips)};
    const struct CMUnitTest skips[] = {cmocka_unit_test(support_passes),
                                       cmocka_unit_test(support_skips)};

    (void)state;
    assert_int_equal(support_child_main("--seed", "77", good, 1), 0);
    assert_int_equal(support_child_main("--seed", "78", good, 1), 1);
    assert_int_equal(support_child_main("--seed", "77", bad, 2), 1);
    assert_int_equal(support_child_main("--seed", "77", skips, 2), 77);
    assert_int_equal(support_child_main("--sed", "77", good, 1), 2);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_support_guard_stray_byte_noticed),
        cmocka_unit_test(test_support_guard_freed_untouchable_and_new_again),
        cmocka_unit_test(test_support_guard_blocks_aligned_filled_counted),
        cmocka_unit_test(test_support_child_outcomes_distinguished),
        cmocka_unit_test(test_support_tmpfile_created_zeroed),
        cmocka_unit_test(test_support_threads_each_run_once),
        cmocka_unit_test(test_support_main_exit_codes),
    };

    return SUPPORT_MAIN(argc, argv, tests);
}
