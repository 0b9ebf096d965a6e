/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/**
 * What the tests share: the main program around cmocka, seeds, scopes, skips,
 * exact-size guarded memory, expected aborts, temporary files, ports, threads.
 *
 * A test program ends with
 *
 *     int main(int argc, char **argv)
 *     {
 *         const struct CMUnitTest tests[] = {cmocka_unit_test(test_ring_full_push_refused)};
 *         return SUPPORT_MAIN(argc, argv, tests);
 *     }
 *
 * and understands `[--seed N] [--list] [FILTER]`, FILTER being a part of a test's
 * name or a pattern with * and ?. The exit code is 0, 1 when a test failed, or
 * 77 when something was skipped and nothing failed: ctest then shows a skip.
 */
#ifndef SNIC_TESTS_SUPPORT_H
#define SNIC_TESTS_SUPPORT_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

/* ---- Main, seed, scope, skip ---- */

#define SUPPORT_MAIN(argc, argv, tests)                                                            \
    support_main(argc, argv, tests, sizeof(tests) / sizeof((tests)[0]))

int support_main(int argc, char **argv, const struct CMUnitTest *tests, size_t count);

/** The seed of this run: --seed N, else SNIC_SEED, else 1 (fresh under SNIC_NIGHTLY). */
uint64_t support_seed(void);
/** 1 when the environment has SNIC_NIGHTLY set to something but "" and "0". */
int support_nightly(void);
/** The everyday or the nightly size of a test's scope. */
uint64_t support_scale(uint64_t everyday, uint64_t nightly);
/** 1 where a sanitizer makes everything several times as slow: its everyday scopes are smaller. */
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define SUPPORT_SANITIZED 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define SUPPORT_SANITIZED 1
#endif
#endif
#ifndef SUPPORT_SANITIZED
#define SUPPORT_SANITIZED 0
#endif
/** The same for rounds of chance, each as good as the next: a quarter of them under a sanitizer. */
uint64_t support_rounds(uint64_t everyday, uint64_t nightly);
/**
 * For an enumeration that takes every n-th case by day: its n, which is 1 in a nightly run,
 * @p sanitized under a sanitizer, else @p everyday.
 */
uint64_t support_stride(uint64_t everyday, uint64_t sanitized);
/**
 * Which of @p n cases it begins with: SNIC_TURN modulo @p n (tests/run.sh makes it of the commit),
 * or the seed. From commit to commit the samples differ, and in time they are all cases.
 */
uint64_t support_turn(uint64_t n);
/** Leave the running cmocka test as skipped; the reason is printed, the program exits 77. */
void support_skip(const char *reason) __attribute__((noreturn));
/** End the whole program as skipped: exit code 77. */
void support_skip_program(const char *reason) __attribute__((noreturn));

/* ---- Guarded memory ---- */

/**
 * Exactly @p size bytes aligned to @p align (a power of two <= 4096), filled
 * with 0xa5. A page that cannot be touched follows; the few bytes between the
 * end of the block and that page (alignment) and the bytes before the block
 * hold a pattern that support_guard_free() checks. Never NULL. [any]
 */
void *support_guard_alloc(size_t size, size_t align);
/** An options' text of what is wrong is there and begins with the option's name. */
void support_names(const char *wrong, const char *option);

/** Check both sides of the block and unmap it; fails the test if either was written. [any] */
void support_guard_free(void *block);
/** Check every live block; fails the test if one is damaged. [any] */
void support_guard_check(void);
/** Blocks not freed. support_main() reports a non-zero count as a failure. [any] */
size_t support_guard_live(void);

/* ---- Processes ---- */

typedef void (*support_body_fn)(void *ctx);
/**
 * How a forked child that runs @p body ended, as by waitpid(); its stderr is
 * dropped. The body uses no cmocka assertion: those belong to the parent.
 */
int support_fork(support_body_fn body, void *ctx);
/** 1 when @p body ends in abort(), in a forked child. */
int support_aborts(support_body_fn body, void *ctx);
/**
 * Fail the test unless @p body aborts. Does nothing where the library was built
 * with SNIC_NO_ASSERT: a broken contract is undefined there.
 */
#if defined(SUPPORT_NO_ASSERT)
#define SUPPORT_EXPECT_ABORT(body, ctx) ((void)(body), (void)(ctx))
#else
#define SUPPORT_EXPECT_ABORT(body, ctx) assert_true(support_aborts(body, ctx))
#endif
/** The same for SNIC_DASSERT(), which only SNIC_DEBUG builds have. */
#if defined(SNIC_DEBUG)
#define SUPPORT_EXPECT_DEBUG_ABORT(body, ctx) SUPPORT_EXPECT_ABORT(body, ctx)
#else
#define SUPPORT_EXPECT_DEBUG_ABORT(body, ctx) ((void)(body), (void)(ctx))
#endif

/* ---- Files and ports ---- */

/** The path of a fresh directory, removed with its contents when the program ends. */
const char *support_tmpdir(void);
/** Write to @p path (of @p size bytes) the name of a file in support_tmpdir(); does not create. */
void support_tmpname(char *path, size_t size, const char *name);
/** Create a zeroed file of @p bytes there and return its descriptor, opened O_RDWR. */
int support_tmpfile(char *path, size_t size, const char *name, uint64_t bytes);
/** A TCP port on 127.0.0.1 that had no listener a moment ago. */
uint16_t support_free_port(void);

/* ---- Threads ---- */

typedef void (*support_thread_fn)(void *ctx, unsigned index);
/** Run @p count threads, released together, and join them. cmocka asserts only after the join. */
void support_threads(unsigned count, support_thread_fn fn, void *ctx);
/** CPUs this process may use. */
unsigned support_cpus(void);
/** Pin the calling thread to the @p index-th usable CPU, modulo their number; 0 or -1. */
int support_pin(unsigned index);

#endif /* SNIC_TESTS_SUPPORT_H */
