/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * kvfs_stress [--seed N] [--processes N] [--steps N] DIRECTORY
 *
 * Several processes in the same folders. Each has names of its own, of which it knows at all times
 * what they are (a model: type, size, links, mode, attribute), and all have names in common, where
 * anything may happen. At the end all names are what they should be, a walk over the tree
 * finds link counts, listings and bytes right, and everything can be removed.
 *
 * The bytes of a file follow from its inode number and the offset, or are zero: so a byte of
 * another file, of a former one, or at another place is found by any reader.
 *
 * The choices of a process follow from the seed; what the others do meanwhile does not.
 */
#include "kvfs_stress.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/falloc.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { CHAOS_NAMES = 12 };

void st_fail(const struct st *s, const char *format, ...)
{
    int error = errno;
    va_list a;
    printf("FAILED seed %llu, process %d, step %ld, %s: ", (unsigned long long)s->seed, s->id,
           s->step, s->doing);
    va_start(a, format);
    vprintf(format, a);
    va_end(a);
    printf(" (errno %d, %s)\n", error, strerror(error));
    fflush(stdout);
    _exit(1);
}

uint64_t st_mix(uint64_t z)
{
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9U;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EBU;
    return z ^ (z >> 31);
}

unsigned st_below(struct st *s, unsigned n)
{
    return (unsigned)(st_mix(s->random += 0x9E3779B97F4A7C15U) % n);
}

/* ---- Bytes ---- */

static uint64_t st_word(uint64_t ino, uint64_t offset)
{
    return st_mix(ino * 0x9E3779B97F4A7C15U + offset) | 1;
}

void st_fill(struct st *s, uint64_t ino, size_t at, size_t n)
{
    for (size_t i = 0; i < n; i += 8) {
        uint64_t w = st_word(ino, at + i);
        memcpy(s->buffer + i, &w, 8);
    }
}

/* Each word is right or zero; in a file without writers, each block is wholly one of them. */
static void st_compare(const struct st *s, uint64_t ino, size_t at, size_t n, int quiet,
                       const char *path)
{
    size_t zeros = 0;
    for (size_t i = 0; i + 8 <= n; i += 8) {
        uint64_t w;
        memcpy(&w, s->buffer + i, 8);
        if (w != 0 && w != st_word(ino, at + i)) {
            st_fail(s, "%s, inode %llu: foreign bytes at %zu", path, (unsigned long long)ino,
                    at + i);
        }
        zeros = i % BLOCK ? zeros + !w : !w;
        if (quiet && i % BLOCK == BLOCK - 8 && zeros != 0 && zeros != BLOCK / 8) {
            st_fail(s, "%s, inode %llu: half a block at %zu", path, (unsigned long long)ino,
                    at + i);
        }
    }
}

void st_read(struct st *s, int fd, uint64_t ino, int quiet, const char *path)
{
    ssize_t n = pread(fd, s->buffer, sizeof(s->buffer), 0);
    if (n == -1) {
        st_fail(s, "%s: read", path);
    }
    st_compare(s, ino, 0, (size_t)n, quiet, path);
}

/* Write, through the descriptor or a mapping, or take bytes away. */
void st_change(struct st *s, int fd, uint64_t ino, size_t at, size_t n, const char *path)
{
    off_t from = (off_t)(at * BLOCK);
    size_t bytes = n * BLOCK;
    unsigned how = st_below(s, 8);
    if (how == 0) {
        if (fallocate(fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, from, (off_t)bytes) == -1) {
            st_fail(s, "%s: punch", path);
        }
        return;
    }
    st_fill(s, ino, at * BLOCK, bytes);
    if (pwrite(fd, s->buffer, bytes, from) != (ssize_t)bytes) {
        st_fail(s, "%s: write", path);
    }
    if (how == 1 && fsync(fd) == -1) {
        st_fail(s, "%s: fsync", path);
    }
}

/* ---- Names of all ---- */

static struct st_name st_common(struct st *s)
{
    struct st_name n;
    unsigned a = st_below(s, CHAOS_NAMES), b = st_below(s, CHAOS_NAMES), deep = st_below(s, 3);
    if (deep == 0) {
        snprintf(n.text, sizeof(n.text), "common/c%u", a);
    } else if (deep == 1) {
        snprintf(n.text, sizeof(n.text), "common/c%u/c%u", a, b);
    } else {
        snprintf(n.text, sizeof(n.text), "common/c%u/c%u/c%u", a, b, st_below(s, CHAOS_NAMES));
    }
    return n;
}

/* What may come of a race; all else is a defect. */
static void st_maybe(const struct st *s, int rc, const char *what, const char *a, const char *b)
{
    static const int fine[] = {ENOENT, EEXIST, ENOTDIR, EISDIR, ENOTEMPTY,
                               EINVAL, ENXIO,  EPERM,   ELOOP};
    for (size_t i = 0; rc == -1 && i < sizeof(fine) / sizeof(fine[0]); i++) {
        if (errno == fine[i]) {
            return;
        }
    }
    if (rc == -1) {
        st_fail(s, "%s %s %s", what, a, b);
    }
}

static void st_common_file(struct st *s, const char *path)
{
    int fd = open(
        path, O_RDWR | O_NONBLOCK | O_NOFOLLOW | O_CLOEXEC | (st_below(s, 2) ? O_CREAT : 0), 0644);
    struct stat st;
    st_maybe(s, fd, "open", path, "");
    if (fd == -1) {
        return;
    }
    if (fstat(fd, &st) == -1) {
        st_fail(s, "%s: fstat", path);
    }
    if (S_ISREG(st.st_mode)) {
        size_t at = st_below(s, BLOCKS), n = 1 + st_below(s, 32);
        n = n < BLOCKS - at ? n : BLOCKS - at;
        unsigned how = st_below(s, 4);
        if (how == 0 && ftruncate(fd, (off_t)(at * BLOCK)) == -1) {
            st_fail(s, "%s: truncate", path);
        } else if (how == 1) {
            st_change(s, fd, st.st_ino, at, n, path);
        } else {
            st_read(s, fd, st.st_ino, 0, path);
        }
    }
    if (close(fd) == -1) {
        st_fail(s, "%s: close", path);
    }
}

static void st_chaos(struct st *s)
{
    static const unsigned how[] = {0, 0, 0, RENAME_NOREPLACE, RENAME_EXCHANGE};
    struct st_name a = st_common(s), b = st_common(s);
    struct stat st;
    switch (st_below(s, 9)) {
    case 0:
        st_maybe(s, mkdir(a.text, 0755), "mkdir", a.text, "");
        break;
    case 1:
        st_maybe(s, rmdir(a.text), "rmdir", a.text, "");
        break;
    case 2:
        st_maybe(s, unlink(a.text), "unlink", a.text, "");
        break;
    case 3:
    case 4:
        st_maybe(s, renameat2(AT_FDCWD, a.text, AT_FDCWD, b.text, how[st_below(s, 5)]), "rename",
                 a.text, b.text);
        break;
    case 5:
        st_maybe(s, link(a.text, b.text), "link", a.text, b.text);
        break;
    case 6:
        st_maybe(s, lstat(a.text, &st), "lstat", a.text, "");
        break;
    default:
        st_common_file(s, a.text);
    }
}

static int st_run(struct st *s)
{
    static const struct {
        const char *name;
        void (*run)(struct st *);
        unsigned weight;
    } ops[] = {{"create", st_create, 12},
               {"remove", st_remove, 7},
               {"rename", st_rename, 12},
               {"link", st_link, 4},
               {"attributes", st_attributes, 4},
               {"data", st_data, 14},
               {"list", st_list, 3},
               {"look", st_look, 12},
               {"chaos", st_chaos, 32}};
    memset(s->key, -1, sizeof(s->key));
    for (s->step = 0; s->step < s->steps; s->step++) {
        unsigned pick = st_below(s, 100);
        for (size_t i = 0;; i++) {
            if (pick < ops[i].weight) {
                s->doing = ops[i].name;
                ops[i].run(s);
                break;
            }
            pick -= ops[i].weight;
        }
    }
    s->doing = "last look";
    for (int k = 0; k < KEYS; k++) {
        st_verify(s, k);
    }
    return 0;
}

static void st_prepare(const char *directory)
{
    char name[16];
    if (chdir(directory) == -1 || mkdir("stress", 0755) == -1 || chdir("stress") == -1 ||
        mkdir("common", 0755) == -1) {
        perror(directory);
        exit(2);
    }
    for (int i = 0; i < DIRS; i++) {
        snprintf(name, sizeof(name), "d%d", i);
        if (mkdir(name, 0755) == -1) {
            perror(name);
            exit(2);
        }
    }
}

int main(int argc, char **argv)
{
    static struct st s = {.steps = 2500, .processes = 4, .id = -1, .doing = "start"};
    int i = 1, failed = 0;
    s.seed = (uint64_t)time(NULL) * 1000 + (uint64_t)getpid();
    for (; i + 1 < argc && argv[i][0] == '-'; i += 2) {
        unsigned long long n = strtoull(argv[i + 1], NULL, 0);
        if (strcmp(argv[i], "--seed") == 0) {
            s.seed = n;
        } else if (strcmp(argv[i], "--steps") == 0) {
            s.steps = (long)n;
        } else if (strcmp(argv[i], "--processes") == 0) {
            s.processes = (int)n;
        } else {
            i = argc;
        }
    }
    if (i != argc - 1) {
        fprintf(stderr, "kvfs_stress [--seed N] [--processes N] [--steps N] DIRECTORY\n");
        return 2;
    }
    printf("seed %llu, %d processes, %ld steps\n", (unsigned long long)s.seed, s.processes,
           s.steps);
    fflush(stdout);
    umask(0);
    st_prepare(argv[i]);
    for (int p = 0; p < s.processes; p++) {
        if (fork() == 0) {
            s.id = p;
            s.random = st_mix(s.seed + (uint64_t)p);
            _exit(st_run(&s));
        }
    }
    for (int status; wait(&status) != -1;) {
        failed |= status != 0;
    }
    if (!failed) {
        st_after(&s);
    }
    printf(failed ? "failed\n" : "ok\n");
    return failed;
}
