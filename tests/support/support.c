/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * Shared test code. Guarded memory is one mapping per block:
 *
 *     | header page | pattern ... | block | pattern | PROT_NONE page |
 *
 * The block ends as close to the last page as its alignment permits.
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "support.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <ftw.h>
#include <limits.h>
#include <malloc.h>
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define SUPPORT_PATTERN 0x5e
#define SUPPORT_FILL 0xa5
#define SUPPORT_MAGIC UINT64_C(0x6775617264656421)

static uint64_t support_seed_value;
static int support_seed_known;
static int support_skipped;
static int support_is_child; /* of support_fork(): cmocka's way out would run the parent's rest */

/* ---- Main, seed, scope, skip ---- */

static void support_usage(const char *program, const char *bad)
{
    fprintf(stderr, "%s: '%s'?\nusage: %s [--seed N] [--list] [FILTER]\n", program, bad, program);
    exit(2);
}

static uint64_t support_number(const char *program, const char *text)
{
    char *end = NULL;
    uint64_t n = text != NULL ? strtoull(text, &end, 0) : 0;

    if (text == NULL || *text == '\0' || *end != '\0')
        support_usage(program, text != NULL ? text : "--seed");
    return n;
}

static uint64_t support_default_seed(void)
{
    const char *env = getenv("SNIC_SEED");

    if (env != NULL && *env != '\0')
        return strtoull(env, NULL, 0);
    if (support_nightly()) {
        struct timespec t;

        clock_gettime(CLOCK_REALTIME, &t);
        return (uint64_t)t.tv_sec * 1000003u + (uint64_t)t.tv_nsec + (uint64_t)getpid();
    }
    return 1;
}

/* Returns the filter, or NULL; *list is whether --list was set. */
static const char *support_parse(int argc, char **argv, int *list)
{
    const char *filter = NULL;

    *list = 0;
    for (int i = 1; i < argc; i++) {
        if (strcmp(argv[i], "--seed") == 0) {
            support_seed_value = support_number(argv[0], i + 1 < argc ? argv[i + 1] : NULL);
            support_seed_known = 1;
            i++;
        } else if (strcmp(argv[i], "--list") == 0) {
            *list = 1;
        } else if (argv[i][0] == '-' || filter != NULL) {
            support_usage(argv[0], argv[i]);
        } else {
            filter = argv[i];
        }
    }
    return filter;
}

uint64_t support_seed(void)
{
    if (!support_seed_known) {
        support_seed_value = support_default_seed();
        support_seed_known = 1;
    }
    return support_seed_value;
}

int support_nightly(void)
{
    const char *env = getenv("SNIC_NIGHTLY");

    return env != NULL && strcmp(env, "") != 0 && strcmp(env, "0") != 0;
}

uint64_t support_scale(uint64_t everyday, uint64_t nightly)
{
    return support_nightly() ? nightly : everyday;
}

uint64_t support_rounds(uint64_t everyday, uint64_t nightly)
{
    return support_scale(SUPPORT_SANITIZED ? (everyday + 3) / 4 : everyday, nightly);
}

uint64_t support_stride(uint64_t everyday, uint64_t sanitized)
{
    return support_nightly() ? 1 : SUPPORT_SANITIZED ? sanitized : everyday;
}

uint64_t support_turn(uint64_t n)
{
    const char *env = getenv("SNIC_TURN");
    uint64_t turn = env != NULL && *env != '\0' ? strtoull(env, NULL, 0) : support_seed();

    return n > 1 ? turn % n : 0;
}

void support_skip(const char *reason)
{
    printf("skip: %s\n", reason);
    fflush(stdout);
    support_skipped++;
    skip();
    abort(); /* skip() leaves the test */
}

void support_skip_program(const char *reason)
{
    printf("skip: %s\n", reason);
    fflush(stdout);
    exit(77);
}

int support_main(int argc, char **argv, const struct CMUnitTest *tests, size_t count)
{
    static char pattern[256];
    int list;
    const char *filter = support_parse(argc, argv, &list);
    const char *group = strrchr(argv[0], '/');
    int failed;

    if (list) {
        for (size_t i = 0; i < count; i++)
            printf("%s\n", tests[i].name);
        return 0;
    }
    if (filter != NULL) {
        int is_pattern = strpbrk(filter, "*?") != NULL;

        for (size_t i = 0; i < count; i++) /* a whole name is that test alone */
            is_pattern |= strcmp(tests[i].name, filter) == 0;
        snprintf(pattern, sizeof(pattern), is_pattern ? "%s" : "*%s*", filter);
        cmocka_set_test_filter(pattern);
    }
    /* Tests allocate disks, images and copies of them again and again. Freed memory is kept, so
       that the kernel hands out each page once, and not once for each use. */
    (void)mallopt(M_MMAP_MAX, 0);
    (void)mallopt(M_TRIM_THRESHOLD, INT_MAX);
    (void)mallopt(M_TOP_PAD, 1 << 22);
    printf("seed %llu\n", (unsigned long long)support_seed());
    fflush(stdout);
    failed = _cmocka_run_group_tests(group != NULL ? group + 1 : argv[0], tests, count, NULL, NULL);
    if (support_guard_live() != 0) {
        fprintf(stderr, "guarded blocks never freed: %zu\n", support_guard_live());
        failed++;
    }
    if (failed != 0) {
        fprintf(stderr, "failed with seed %llu\n", (unsigned long long)support_seed());
        return 1;
    }
    return support_skipped != 0 ? 77 : 0;
}

/* ---- Guarded memory ---- */

struct support_block {
    uint64_t magic;
    struct support_block *next;
    struct support_block *prev;
    unsigned char *start; /* of the block */
    unsigned char *limit; /* of the writable bytes: the guard page */
    size_t size;
    size_t mapped;
};

static pthread_mutex_t support_blocks_lock = PTHREAD_MUTEX_INITIALIZER;
enum { SUPPORT_PARKED = 8, SUPPORT_PARKED_BYTES = 32 << 20, SUPPORT_HUGE_BYTES = 4 << 20 };
static struct {
    void *base; /* NULL: none */
    size_t mapped;
} support_parked[SUPPORT_PARKED];
static struct support_block *support_blocks;
static size_t support_blocks_live;

static void support_die(const char *what)
{
    fprintf(stderr, "support: %s\n", what);
    abort();
}

static void support_damaged(const char *what)
{
    if (support_is_child)
        support_die(what);
    fail_msg("%s", what);
}

/* New memory of a block, in huge pages where the kernel has them: making the pages of a large block
 * one by one takes longer than most tests do. */
static unsigned char *support_map(size_t mapped)
{
    void *base = mmap(NULL, mapped, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

    if (base == MAP_FAILED)
        support_die("support_guard_alloc: mmap failed");
    if (mapped >= SUPPORT_HUGE_BYTES)
        (void)madvise(base, mapped, MADV_HUGEPAGE);
    return base;
}

/*
 * A freed block's mapping is kept, inaccessible, for the next of its size: to have the pages of a
 * large one made anew costs more than most tests do with it.
 */
static void support_park(void *base, size_t mapped)
{
    static size_t turn;
    void *old = base;
    size_t old_mapped = mapped;

    pthread_mutex_lock(&support_blocks_lock);
    if (mapped <= SUPPORT_PARKED_BYTES && mprotect(base, mapped, PROT_NONE) == 0) {
        size_t i = turn++ % SUPPORT_PARKED;

        old = support_parked[i].base;
        old_mapped = support_parked[i].mapped;
        support_parked[i].base = base;
        support_parked[i].mapped = mapped;
    }
    pthread_mutex_unlock(&support_blocks_lock);
    if (old != NULL)
        munmap(old, old_mapped);
}

static void *support_unpark(size_t mapped)
{
    void *base = NULL;

    pthread_mutex_lock(&support_blocks_lock);
    for (size_t i = 0; i < SUPPORT_PARKED && base == NULL; i++) {
        if (support_parked[i].base != NULL && support_parked[i].mapped == mapped) {
            base = support_parked[i].base;
            support_parked[i].base = NULL;
        }
    }
    pthread_mutex_unlock(&support_blocks_lock);
    return base;
}

void *support_guard_alloc(size_t size, size_t align)
{
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    size_t body, mapped;
    unsigned char *base;
    struct support_block *b;

    if (align == 0 || (align & (align - 1)) != 0 || align > page || size > SIZE_MAX / 4)
        support_die("support_guard_alloc: bad size or alignment");
    body = (size + align + page - 1) / page * page;
    mapped = page + body + page;
    base = support_unpark(mapped);
    if (base == NULL)
        base = support_map(mapped);
    else if (mprotect(base, mapped, PROT_READ | PROT_WRITE) != 0)
        support_die("support_guard_alloc: mprotect failed");
    if (mprotect(base + page + body, page, PROT_NONE) != 0)
        support_die("support_guard_alloc: mprotect failed");
    b = (struct support_block *)(void *)base;
    b->magic = SUPPORT_MAGIC;
    b->limit = base + page + body;
    b->size = size;
    b->mapped = mapped;
    b->start = (unsigned char *)((uintptr_t)(b->limit - size) & ~(uintptr_t)(align - 1));
    memset(base + sizeof(*b), SUPPORT_PATTERN, (size_t)(b->start - base) - sizeof(*b));
    memset(b->start, SUPPORT_FILL, size);
    memset(b->start + size, SUPPORT_PATTERN, (size_t)(b->limit - b->start) - size);
    pthread_mutex_lock(&support_blocks_lock);
    b->prev = NULL;
    b->next = support_blocks;
    if (support_blocks != NULL)
        support_blocks->prev = b;
    support_blocks = b;
    support_blocks_live++;
    pthread_mutex_unlock(&support_blocks_lock);
    return b->start;
}

/* What is wrong with b, or NULL. */
static const char *support_block_damage(const struct support_block *b)
{
    const unsigned char *base = (const unsigned char *)b;

    for (const unsigned char *p = base + sizeof(*b); p < b->start; p++) {
        if (*p != SUPPORT_PATTERN)
            return "a byte before a guarded block was written";
    }
    for (const unsigned char *p = b->start + b->size; p < b->limit; p++) {
        if (*p != SUPPORT_PATTERN)
            return "a byte after a guarded block was written";
    }
    return NULL;
}

void support_guard_free(void *block)
{
    struct support_block *b;
    const char *damage;

    if (block == NULL)
        return;
    pthread_mutex_lock(&support_blocks_lock);
    for (b = support_blocks; b != NULL && b->start != block; b = b->next)
        ;
    if (b == NULL || b->magic != SUPPORT_MAGIC)
        support_die("support_guard_free: not a live guarded block");
    if (b->prev != NULL)
        b->prev->next = b->next;
    else
        support_blocks = b->next;
    if (b->next != NULL)
        b->next->prev = b->prev;
    support_blocks_live--;
    pthread_mutex_unlock(&support_blocks_lock);
    damage = support_block_damage(b);
    support_park(b, b->mapped);
    if (damage != NULL)
        support_damaged(damage);
}

void support_guard_check(void)
{
    const char *damage = NULL;

    pthread_mutex_lock(&support_blocks_lock);
    for (const struct support_block *b = support_blocks; b != NULL && damage == NULL; b = b->next)
        damage = support_block_damage(b);
    pthread_mutex_unlock(&support_blocks_lock);
    if (damage != NULL)
        support_damaged(damage);
}

size_t support_guard_live(void)
{
    size_t n;

    pthread_mutex_lock(&support_blocks_lock);
    n = support_blocks_live;
    pthread_mutex_unlock(&support_blocks_lock);
    return n;
}

/* ---- Processes ---- */

int support_fork(support_body_fn body, void *ctx)
{
    int status = 0;
    pid_t pid;

    fflush(NULL);
    pid = fork();
    if (pid == 0) {
        const struct rlimit no_core = {0, 0};
        int null = open("/dev/null", O_WRONLY);

        support_is_child = 1;
        setrlimit(RLIMIT_CORE, &no_core);
        if (null >= 0)
            dup2(null, 2);
        /* cmocka catches these to fail the test; the child must really die of them. */
        signal(SIGABRT, SIG_DFL);
        signal(SIGSEGV, SIG_DFL);
        signal(SIGBUS, SIG_DFL);
        signal(SIGILL, SIG_DFL);
        signal(SIGFPE, SIG_DFL);
        body(ctx);
        _exit(0);
    }
    if (pid < 0 || waitpid(pid, &status, 0) != pid)
        support_die("support_fork: fork or waitpid failed");
    return status;
}

int support_aborts(support_body_fn body, void *ctx)
{
    int status = support_fork(body, ctx);

    return WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT;
}

/* ---- Files and ports ---- */

static char support_dir[256];
static pid_t support_dir_owner;

static int support_unlink(const char *path, const struct stat *st, int kind, struct FTW *ftw)
{
    (void)st;
    (void)kind;
    (void)ftw;
    return remove(path);
}

static void support_rmdir(void)
{
    if (support_dir_owner == getpid())
        nftw(support_dir, support_unlink, 16, FTW_DEPTH | FTW_PHYS);
}

const char *support_tmpdir(void)
{
    const char *parent = getenv("TMPDIR");

    if (support_dir_owner == 0) {
        snprintf(support_dir, sizeof(support_dir), "%s/snic.XXXXXX",
                 parent != NULL && *parent != '\0' ? parent : "/tmp");
        if (mkdtemp(support_dir) == NULL)
            support_die("support_tmpdir: mkdtemp failed");
        support_dir_owner = getpid();
        atexit(support_rmdir);
    }
    return support_dir;
}

void support_tmpname(char *path, size_t size, const char *name)
{
    int n = snprintf(path, size, "%s/%s", support_tmpdir(), name);

    if (n < 0 || (size_t)n >= size)
        support_die("support_tmpname: path too long");
}

int support_tmpfile(char *path, size_t size, const char *name, uint64_t bytes)
{
    int fd;

    support_tmpname(path, size, name);
    fd = open(path, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    if (fd < 0 || ftruncate(fd, (off_t)bytes) != 0)
        support_die("support_tmpfile: cannot create the file");
    return fd;
}

uint16_t support_free_port(void)
{
    struct sockaddr_in a;
    socklen_t len = sizeof(a);
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

    memset(&a, 0, sizeof(a));
    a.sin_family = AF_INET;
    a.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    if (fd < 0 || bind(fd, (struct sockaddr *)&a, sizeof(a)) != 0 ||
        getsockname(fd, (struct sockaddr *)&a, &len) != 0)
        support_die("support_free_port: no port");
    close(fd);
    return ntohs(a.sin_port);
}

/* ---- Threads ---- */

struct support_start {
    pthread_barrier_t *barrier;
    support_thread_fn fn;
    void *ctx;
    unsigned index;
};

static void *support_thread(void *arg)
{
    struct support_start *s = arg;

    pthread_barrier_wait(s->barrier);
    s->fn(s->ctx, s->index);
    return NULL;
}

void support_threads(unsigned count, support_thread_fn fn, void *ctx)
{
    pthread_barrier_t barrier;
    pthread_t *threads = calloc(count, sizeof(*threads));
    struct support_start *starts = calloc(count, sizeof(*starts));

    if (count == 0 || threads == NULL || starts == NULL ||
        pthread_barrier_init(&barrier, NULL, count) != 0)
        support_die("support_threads: no memory");
    for (unsigned i = 0; i < count; i++) {
        starts[i] = (struct support_start){&barrier, fn, ctx, i};
        if (pthread_create(&threads[i], NULL, support_thread, &starts[i]) != 0)
            support_die("support_threads: pthread_create failed");
    }
    for (unsigned i = 0; i < count; i++)
        pthread_join(threads[i], NULL);
    pthread_barrier_destroy(&barrier);
    free(threads);
    free(starts);
}

unsigned support_cpus(void)
{
    cpu_set_t set;

    if (sched_getaffinity(0, sizeof(set), &set) != 0)
        return 1;
    return (unsigned)CPU_COUNT(&set);
}

int support_pin(unsigned index)
{
    cpu_set_t all, one;
    unsigned left = index % support_cpus();

    if (sched_getaffinity(0, sizeof(all), &all) != 0)
        return -1;
    for (unsigned cpu = 0; cpu < CPU_SETSIZE; cpu++) {
        if (!CPU_ISSET(cpu, &all) || left-- != 0)
            continue;
        CPU_ZERO(&one);
        CPU_SET(cpu, &one);
        return pthread_setaffinity_np(pthread_self(), sizeof(one), &one) == 0 ? 0 : -1;
    }
    return -1;
}

void support_names(const char *wrong, const char *option)
{
    size_t n = strlen(option);
    if (wrong == NULL || strncmp(wrong, option, n) != 0 || (wrong[n] != ':' && wrong[n] != ','))
        fail_msg("option %s is wrong, and the text is: %s", option,
                 wrong == NULL ? "(none)" : wrong);
}
