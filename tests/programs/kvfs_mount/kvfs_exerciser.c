/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * kvfs_exerciser [OPTION...] DIRECTORY
 *
 * Random operations on one file against a copy in memory: read, write, both directly, mapped, with
 * O_APPEND, truncate, fallocate, punch and zero a range, copy_file_range, SEEK_DATA and SEEK_HOLE,
 * fsync, reopen. After each the size is right, at times all bytes are. A failure prints the seed,
 * the step, and the last steps; the same seed repeats them.
 *
 *   --seed N       default: of the time          --steps N     default 5000
 *   --size N       largest file, default 1 MiB   --io N        largest operation, default 64 KiB
 *   --align N      of O_DIRECT, default 4096; 0: no O_DIRECT
 *   --processes N  each with a file of its own   --check N     compare all bytes each N steps, 200
 *   --no NAME      leave an operation out; --list: their names
 */
#include <errno.h>
#include <fcntl.h>
#include <linux/falloc.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { LOG_LINES = 40, LOG_WIDTH = 100, PAGE = 4096 };

struct ex {
    uint64_t seed;
    uint64_t random;
    long steps, step;
    size_t size_max, io_max, align;
    long check;
    uint64_t off; /* operations left out, bits */
    char path[512];
    int fd;
    int direct;   /* -1: none */
    size_t size;  /* of the file */
    char *model;  /* size_max bytes; zero behind size */
    char *buffer; /* io_max and a page, aligned */
    char log[LOG_LINES][LOG_WIDTH];
};

static uint64_t ex_next(struct ex *e)
{
    uint64_t z = (e->random += 0x9E3779B97F4A7C15U);
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9U;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EBU;
    return z ^ (z >> 31);
}

static size_t ex_below(struct ex *e, size_t n)
{
    return n ? (size_t)(ex_next(e) % n) : 0;
}

static void ex_note(struct ex *e, const char *format, ...) __attribute__((format(printf, 2, 3)));
static void ex_note(struct ex *e, const char *format, ...)
{
    va_list a;
    va_start(a, format);
    vsnprintf(e->log[e->step % LOG_LINES], LOG_WIDTH, format, a);
    va_end(a);
}

static void ex_fail(struct ex *e, const char *format, ...) __attribute__((format(printf, 2, 3)));
static void ex_fail(struct ex *e, const char *format, ...)
{
    int error = errno;
    va_list a;
    printf("FAILED %s, seed %llu, step %ld: ", e->path, (unsigned long long)e->seed, e->step);
    va_start(a, format);
    vprintf(format, a);
    va_end(a);
    printf(" (errno %d, %s); file of %zu bytes; the last steps:\n", error, strerror(error),
           e->size);
    for (long s = e->step - LOG_LINES + 1; s <= e->step; s++) {
        if (s >= 0) {
            printf("  %ld %s\n", s, e->log[s % LOG_LINES]);
        }
    }
    fflush(stdout);
    _exit(1);
}

/* Where and how much: often at ends, at the limits of blocks, and beyond the end. */
static size_t ex_offset(struct ex *e, size_t most)
{
    size_t at;
    switch (ex_below(e, 8)) {
    case 0:
        at = 0;
        break;
    case 1:
        at = e->size;
        break;
    case 2:
        at = ex_below(e, most / 8192 + 1) * 8192 + ex_below(e, 3) - 1;
        break;
    case 3:
        at = ex_below(e, most / PAGE + 1) * PAGE;
        break;
    case 4:
        at = e->size + ex_below(e, 20000);
        break;
    default:
        at = ex_below(e, most);
    }
    return at < most ? at : most - 1;
}

static size_t ex_length(struct ex *e, size_t at, size_t most)
{
    size_t n;
    switch (ex_below(e, 6)) {
    case 0:
        n = 1 + ex_below(e, 16);
        break;
    case 1:
        n = 8192;
        break;
    case 2:
        n = PAGE * (1 + ex_below(e, 8));
        break;
    default:
        n = 1 + ex_below(e, most);
    }
    n = n < most ? n : most;
    return n < e->size_max - at ? n : e->size_max - at;
}

static void ex_fill(struct ex *e, size_t n)
{
    uint64_t x = ex_next(e);
    for (size_t i = 0; i < n; i++) {
        e->buffer[i] = (char)((x >> (i % 8 * 8)) + i / 8 + (uint64_t)e->step);
    }
}

static void ex_compare(struct ex *e, const char *found, size_t at, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        if (found[i] != e->model[at + i]) {
            size_t wrong = 0, zero = 0;
            for (size_t k = i; k < n; k++) {
                wrong += found[k] != e->model[at + k];
                zero += found[k] != e->model[at + k] && !found[k];
            }
            ex_fail(e, "byte %zu is 0x%02x, not 0x%02x; %zu of %zu bytes differ, %zu of them zero",
                    at + i, (unsigned char)found[i], (unsigned char)e->model[at + i], wrong, n,
                    zero);
        }
    }
}

static void ex_grown(struct ex *e, size_t end)
{
    if (end > e->size) {
        e->size = end;
    }
}

/* ---- Operations ---- */

static void ex_read_from(struct ex *e, int fd, const char *how, size_t at, size_t n)
{
    size_t expected = at >= e->size ? 0 : n < e->size - at ? n : e->size - at;
    ex_note(e, "%s %zu+%zu", how, at, n);
    ssize_t got = pread(fd, e->buffer, n, (off_t)at);
    if (got != (ssize_t)expected) {
        ex_fail(e, "%s: %zd, expected %zu", how, got, expected);
    }
    ex_compare(e, e->buffer, at, expected);
}

static void ex_read(struct ex *e)
{
    size_t at = ex_offset(e, e->size_max);
    ex_read_from(e, e->fd, "read", at, ex_length(e, at, e->io_max));
}

static void ex_write_to(struct ex *e, int fd, const char *how, size_t at, size_t n)
{
    ex_note(e, "%s %zu+%zu", how, at, n);
    ex_fill(e, n);
    ssize_t put = pwrite(fd, e->buffer, n, (off_t)at);
    if (put != (ssize_t)n) {
        ex_fail(e, "%s: %zd, expected %zu", how, put, n);
    }
    memcpy(e->model + at, e->buffer, n);
    ex_grown(e, at + n);
}

static void ex_write(struct ex *e)
{
    size_t at = ex_offset(e, e->size_max);
    ex_write_to(e, e->fd, "write", at, ex_length(e, at, e->io_max));
}

static int ex_aligned(struct ex *e, size_t *at, size_t *n)
{
    *at = ex_offset(e, e->size_max) / e->align * e->align;
    *n = (1 + ex_below(e, e->io_max / e->align)) * e->align;
    return e->direct != -1 && *at + *n <= e->size_max;
}

static void ex_read_direct(struct ex *e)
{
    size_t at, n;
    if (ex_aligned(e, &at, &n)) {
        ex_read_from(e, e->direct, "read directly", at, n);
    }
}

static void ex_write_direct(struct ex *e)
{
    size_t at, n;
    if (ex_aligned(e, &at, &n)) {
        ex_write_to(e, e->direct, "write directly", at, n);
    }
}

static void ex_append(struct ex *e)
{
    size_t n = ex_length(e, e->size, e->io_max);
    if (!n) {
        return;
    }
    ex_note(e, "append %zu at %zu", n, e->size);
    ex_fill(e, n);
    int fd = open(e->path, O_WRONLY | O_APPEND | O_CLOEXEC);
    if (fd == -1 || write(fd, e->buffer, n) != (ssize_t)n || close(fd) == -1) {
        ex_fail(e, "append");
    }
    memcpy(e->model + e->size, e->buffer, n);
    e->size += n;
}

/* A mapping of part of the file, which is read or written; sometimes synced. */
static void ex_mapped(struct ex *e, int write)
{
    size_t at = ex_offset(e, e->size_max);
    if (at >= e->size) {
        return;
    }
    size_t n = ex_length(e, at, e->io_max);
    n = n < e->size - at ? n : e->size - at;
    size_t from = at / PAGE * PAGE, sync = ex_below(e, 2);
    ex_note(e, "%s mapped %zu+%zu%s", write ? "write" : "read", at, n,
            write && sync ? ", sync" : "");
    char *m = mmap(NULL, at - from + n, PROT_READ | (write ? PROT_WRITE : 0), MAP_SHARED, e->fd,
                   (off_t)from);
    if (m == MAP_FAILED) {
        ex_fail(e, "mmap");
    }
    if (write) {
        ex_fill(e, n);
        memcpy(m + (at - from), e->buffer, n);
        memcpy(e->model + at, e->buffer, n);
        if (sync && msync(m, at - from + n, MS_SYNC) == -1) {
            ex_fail(e, "msync");
        }
    } else {
        ex_compare(e, m + (at - from), at, n);
        size_t page_end = (e->size + PAGE - 1) / PAGE * PAGE; /* zeros behind the end */
        for (size_t i = e->size; at + n == e->size && i < page_end; i++) {
            if (m[i - from]) {
                ex_fail(e, "byte %zu behind the end is 0x%02x", i, (unsigned char)m[i - from]);
            }
        }
    }
    if (munmap(m, at - from + n) == -1) {
        ex_fail(e, "munmap");
    }
}

static void ex_read_mapped(struct ex *e)
{
    ex_mapped(e, 0);
}

static void ex_write_mapped(struct ex *e)
{
    ex_mapped(e, 1);
}

static void ex_truncate(struct ex *e)
{
    size_t to = ex_offset(e, e->size_max), by_path = ex_below(e, 2);
    ex_note(e, "%s to %zu from %zu", by_path ? "truncate" : "ftruncate", to, e->size);
    if ((by_path ? truncate(e->path, (off_t)to) : ftruncate(e->fd, (off_t)to)) == -1) {
        ex_fail(e, "truncate");
    }
    if (to < e->size) {
        memset(e->model + to, 0, e->size - to);
    }
    e->size = to;
}

static void ex_space(struct ex *e, int mode, const char *how)
{
    size_t at = ex_offset(e, e->size_max), n = ex_length(e, at, e->io_max);
    int keep = mode & FALLOC_FL_KEEP_SIZE || ex_below(e, 2);
    ex_note(e, "%s %zu+%zu%s", how, at, n, keep ? ", size kept" : "");
    if (fallocate(e->fd, mode | (keep ? FALLOC_FL_KEEP_SIZE : 0), (off_t)at, (off_t)n) == -1) {
        ex_fail(e, "%s", how);
    }
    if (mode & (FALLOC_FL_PUNCH_HOLE | FALLOC_FL_ZERO_RANGE)) {
        memset(e->model + at, 0, n);
    }
    if (!keep) {
        ex_grown(e, at + n);
    }
}

static void ex_allocate(struct ex *e)
{
    ex_space(e, 0, "allocate");
}

static void ex_punch(struct ex *e)
{
    ex_space(e, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, "punch");
}

static void ex_zero(struct ex *e)
{
    ex_space(e, FALLOC_FL_ZERO_RANGE, "zero");
}

static void ex_copy(struct ex *e)
{
    size_t from = ex_offset(e, e->size_max), to = ex_offset(e, e->size_max);
    size_t n = ex_length(e, from > to ? from : to, e->io_max);
    if (from >= e->size || (from < to + n && to < from + n)) {
        return;
    }
    n = n < e->size - from ? n : e->size - from;
    ex_note(e, "copy %zu+%zu to %zu", from, n, to);
    for (size_t done = 0; done < n;) {
        off_t a = (off_t)(from + done), b = (off_t)(to + done);
        ssize_t got = copy_file_range(e->fd, &a, e->fd, &b, n - done, 0);
        if (got <= 0) {
            ex_fail(e, "copy_file_range: %zd after %zu", got, done);
        }
        done += (size_t)got;
    }
    memmove(e->model + to, e->model + from, n);
    ex_grown(e, to + n);
}

/* What is reported as a hole must be zeros in the copy; data may be anywhere. */
static void ex_seek(struct ex *e)
{
    size_t at = ex_offset(e, e->size_max);
    ex_note(e, "seek from %zu", at);
    off_t data = lseek(e->fd, (off_t)at, SEEK_DATA);
    size_t until = data == -1 ? e->size : (size_t)data;
    if (data == -1 && errno != ENXIO) {
        ex_fail(e, "SEEK_DATA");
    }
    if (data != -1 && (until < at || until >= e->size)) {
        ex_fail(e, "SEEK_DATA: %zu", until);
    }
    for (size_t i = at; i < until; i++) {
        if (e->model[i]) {
            ex_fail(e, "byte %zu is data, and passed over by SEEK_DATA, which found %lld", i,
                    (long long)data);
        }
    }
    off_t hole = lseek(e->fd, (off_t)at, SEEK_HOLE);
    if (at >= e->size ? hole != -1 || errno != ENXIO : hole < (off_t)at || hole > (off_t)e->size) {
        ex_fail(e, "SEEK_HOLE: %lld", (long long)hole);
    }
    if (hole != -1 && (size_t)hole < e->size && e->model[hole]) {
        ex_fail(e, "SEEK_HOLE: %lld is data", (long long)hole);
    }
}

/* As cp: another descriptor, whose extents of data are all that is not zeros. */
static void ex_extents(struct ex *e)
{
    ex_note(e, "extents");
    int fd = open(e->path, O_RDONLY | O_CLOEXEC);
    size_t at = 0;
    if (fd == -1) {
        ex_fail(e, "open to read");
    }
    while (at < e->size) {
        off_t data = lseek(fd, (off_t)at, SEEK_DATA);
        if (data == -1 && errno != ENXIO) {
            ex_fail(e, "SEEK_DATA at %zu", at);
        }
        size_t until = data == -1 ? e->size : (size_t)data;
        if (until < at || until > e->size) {
            ex_fail(e, "SEEK_DATA at %zu: %zu", at, until);
        }
        for (; at < until; at++) {
            if (e->model[at]) {
                ex_fail(e, "byte %zu is data, and in a hole that ends at %zu", at, until);
            }
        }
        if (at < e->size) {
            off_t hole = lseek(fd, data, SEEK_HOLE);
            if (hole <= data || hole > (off_t)e->size) {
                ex_fail(e, "SEEK_HOLE at %lld: %lld", (long long)data, (long long)hole);
            }
            at = (size_t)hole;
        }
    }
    close(fd);
}

static void ex_sync(struct ex *e)
{
    size_t data = ex_below(e, 2);
    ex_note(e, data ? "fdatasync" : "fsync");
    if ((data ? fdatasync(e->fd) : fsync(e->fd)) == -1) {
        ex_fail(e, "fsync");
    }
}

static void ex_open(struct ex *e)
{
    e->fd = open(e->path, O_RDWR | O_CREAT | O_CLOEXEC, 0644);
    e->direct = e->align ? open(e->path, O_RDWR | O_DIRECT | O_CLOEXEC) : -1;
    if (e->fd == -1 || (e->align && e->direct == -1)) {
        ex_fail(e, "open");
    }
}

static void ex_reopen(struct ex *e)
{
    size_t forget = ex_below(e, 2);
    ex_note(e, "reopen%s", forget ? ", cached pages forgotten" : "");
    if (forget && (fsync(e->fd) == -1 || posix_fadvise(e->fd, 0, 0, POSIX_FADV_DONTNEED) != 0)) {
        ex_fail(e, "fadvise");
    }
    if (close(e->fd) == -1 || (e->direct != -1 && close(e->direct) == -1)) {
        ex_fail(e, "close");
    }
    ex_open(e);
}

static void ex_whole(struct ex *e)
{
    for (size_t at = 0; at < e->size_max; at += e->io_max) {
        size_t n = at < e->size ? e->size - at : 0;
        n = n < e->io_max ? n : e->io_max;
        ssize_t got = pread(e->fd, e->buffer, e->io_max, (off_t)at);
        if (got != (ssize_t)n) {
            ex_fail(e, "read of all: %zd at %zu, expected %zu", got, at, n);
        }
        ex_compare(e, e->buffer, at, n);
    }
}

static const struct {
    const char *name;
    void (*run)(struct ex *e);
    unsigned weight;
} ex_ops[] = {
    {"read", ex_read, 12},
    {"write", ex_write, 14},
    {"read_direct", ex_read_direct, 8},
    {"write_direct", ex_write_direct, 8},
    {"append", ex_append, 3},
    {"read_mapped", ex_read_mapped, 8},
    {"write_mapped", ex_write_mapped, 8},
    {"truncate", ex_truncate, 8},
    {"allocate", ex_allocate, 4},
    {"punch", ex_punch, 6},
    {"zero", ex_zero, 4},
    {"copy", ex_copy, 5},
    {"seek", ex_seek, 5},
    {"extents", ex_extents, 3},
    {"sync", ex_sync, 3},
    {"reopen", ex_reopen, 2},
};
enum { EX_OPS = sizeof(ex_ops) / sizeof(ex_ops[0]) };

static void ex_step(struct ex *e)
{
    unsigned all = 0;
    for (size_t i = 0; i < EX_OPS; i++) {
        all += e->off >> i & 1 ? 0 : ex_ops[i].weight;
    }
    size_t pick = ex_below(e, all), i = 0;
    for (;; i++) {
        unsigned w = e->off >> i & 1 ? 0 : ex_ops[i].weight;
        if (pick < w) {
            break;
        }
        pick -= w;
    }
    ex_note(e, "nothing (%s)", ex_ops[i].name);
    ex_ops[i].run(e);
    struct stat st;
    if (fstat(e->fd, &st) == -1 || st.st_size != (off_t)e->size) {
        ex_fail(e, "size %lld, expected %zu", (long long)st.st_size, e->size);
    }
}

static int ex_run(struct ex *e)
{
    e->random = e->seed;
    e->model = calloc(1, e->size_max);
    if (!e->model || posix_memalign((void **)&e->buffer, PAGE, e->io_max + PAGE) != 0) {
        return 2;
    }
    unlink(e->path);
    ex_open(e);
    for (e->step = 0; e->step < e->steps; e->step++) {
        ex_step(e);
        if (e->step % e->check == e->check - 1) {
            ex_whole(e);
        }
    }
    e->step--;
    ex_reopen(e);
    ex_whole(e);
    close(e->fd);
    if (e->direct != -1) {
        close(e->direct);
    }
    return unlink(e->path) == -1;
}

static uint64_t ex_number(const char *text)
{
    char *end;
    uint64_t n = strtoull(text, &end, 0);
    uint64_t unit = *end == 'k' ? 1024 : *end == 'm' ? 1 << 20 : 1;
    if (end == text || (*end && unit == 1)) {
        fprintf(stderr, "'%s' is no number\n", text);
        exit(2);
    }
    return n * unit;
}

static void ex_leave_out(struct ex *e, const char *name)
{
    for (size_t i = 0; i < EX_OPS; i++) {
        if (strcmp(ex_ops[i].name, name) == 0) {
            e->off |= 1U << i;
            return;
        }
    }
    fprintf(stderr, "no operation '%s'\n", name);
    exit(2);
}

static void ex_option(struct ex *e, long *processes, const char *name, const char *value)
{
    if (strcmp(name, "--no") == 0) {
        ex_leave_out(e, value);
        return;
    }
    uint64_t n = ex_number(value);
    if (strcmp(name, "--seed") == 0) {
        e->seed = n;
    } else if (strcmp(name, "--steps") == 0) {
        e->steps = (long)n;
    } else if (strcmp(name, "--size") == 0) {
        e->size_max = n;
    } else if (strcmp(name, "--io") == 0) {
        e->io_max = n;
    } else if (strcmp(name, "--align") == 0) {
        e->align = n;
    } else if (strcmp(name, "--check") == 0) {
        e->check = (long)n;
    } else if (strcmp(name, "--processes") == 0) {
        *processes = (long)n;
    } else {
        fprintf(stderr, "no option '%s'\n", name);
        exit(2);
    }
}

int main(int argc, char **argv)
{
    struct ex e = {
        .steps = 5000, .size_max = 1 << 20, .io_max = 65536, .align = PAGE, .check = 200};
    long processes = 1;
    int i = 1, failed = 0;
    e.seed = (uint64_t)time(NULL) * 1000 + (uint64_t)getpid();
    for (; i < argc && argv[i][0] == '-'; i += 2) {
        if (strcmp(argv[i], "--list") == 0) {
            for (size_t k = 0; k < EX_OPS; k++) {
                printf("%s\n", ex_ops[k].name);
            }
            return 0;
        }
        ex_option(&e, &processes, argv[i], i + 1 < argc ? argv[i + 1] : "");
    }
    if (i != argc - 1 || e.size_max < e.io_max || !e.check) {
        fprintf(stderr,
                "kvfs_exerciser [OPTION...] DIRECTORY; options: see the head of its source\n");
        return 2;
    }
    printf("seed %llu, %ld steps, %ld processes\n", (unsigned long long)e.seed, e.steps, processes);
    fflush(stdout);
    for (long p = 0; p < processes; p++) {
        snprintf(e.path, sizeof(e.path), "%s/exerciser.%ld", argv[i], p);
        pid_t pid = fork();
        if (pid == 0) {
            e.seed += (uint64_t)p;
            _exit(ex_run(&e));
        }
    }
    for (int status; wait(&status) != -1;) {
        failed |= status != 0;
    }
    printf(failed ? "failed\n" : "ok\n");
    return failed;
}
