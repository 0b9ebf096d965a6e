/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * For LD_PRELOAD: cuts the power of the file system at the step of the number SNIC_CUT, which
 * counts opens for writing, writes, fsyncs, renames and unlinks of files whose names contain
 * SNIC_CUT_NAME. What was not made durable by then is undone, in the way that a journal may leave
 * it, and the process is killed: a file that was not fsynced is empty a rename or unlink whose
 * folder was not fsynced has not happened SNIC_CUT_LIE: fsync of files (1) or of folders (2) does
 * nothing, as a planted bug. The number of steps is appended to the file SNIC_CUT_LOG as bytes.
 */
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { CUT_FILES = 64, CUT_UNDO = 64 };

static struct {
    pthread_mutex_t lock;
    long steps;
    struct {
        int fd; /* open for writing */
        int dirty;
        char path[PATH_MAX];
    } files[CUT_FILES];
    struct { /* of a name, since the folder was fsynced last */
        char path[PATH_MAX];
        char kept[PATH_MAX]; /* what it was before; empty: nothing */
    } undo[CUT_UNDO];
    int undos;
} cut = {.lock = PTHREAD_MUTEX_INITIALIZER};

/* The function of that name behind this file. */
#define REAL(name)                                                                                 \
    static __typeof__(&name) real;                                                                 \
    if (real == NULL)                                                                              \
    *(void **)&real = dlsym(RTLD_NEXT, #name)

static int cut_mine(const char *path)
{
    const char *name = getenv("SNIC_CUT_NAME");
    return name != NULL && strstr(path, name) != NULL;
}

static int cut_lies(int bit)
{
    const char *lie = getenv("SNIC_CUT_LIE");
    return lie != NULL && (strtol(lie, NULL, 10) & bit) != 0;
}

static void cut_power(void)
{
    REAL(rename);
    for (int i = 0; i < CUT_FILES; i++)
        if (cut.files[i].path[0] != 0 && cut.files[i].dirty && truncate(cut.files[i].path, 0) != 0)
            cut.files[i].dirty = 0; /* it is not there any more */
    for (int i = cut.undos; i-- > 0;) {
        if (cut.undo[i].kept[0] != 0)
            (void)real(cut.undo[i].kept, cut.undo[i].path);
        else
            (void)remove(cut.undo[i].path);
    }
    (void)kill(getpid(), SIGKILL);
    for (;;)
        (void)pause();
}

/* One step more, under the lock. */
static void cut_step(void)
{
    const char *at = getenv("SNIC_CUT");
    cut.steps++;
    if (at != NULL && cut.steps == strtol(at, NULL, 10))
        cut_power();
}

static int cut_find(const char *path)
{
    for (int i = 0; i < CUT_FILES; i++)
        if (strcmp(cut.files[i].path, path) == 0)
            return i;
    return -1;
}

static int cut_open(const char *path, int flags, mode_t mode)
{
    REAL(open);
    int mine = (flags & O_ACCMODE) != O_RDONLY && cut_mine(path);
    if (!mine)
        return real(path, flags, mode);
    (void)pthread_mutex_lock(&cut.lock);
    cut_step();
    int fd = real(path, flags, mode), i = cut_find(path);
    for (int k = 0; fd >= 0 && i < 0 && k < CUT_FILES; k++)
        if (cut.files[k].path[0] == 0)
            i = k;
    if (fd >= 0 && i >= 0) {
        cut.files[i].fd = fd;
        cut.files[i].dirty = 1;
        (void)snprintf(cut.files[i].path, PATH_MAX, "%s", path);
    }
    (void)pthread_mutex_unlock(&cut.lock);
    return fd;
}

int open(const char *path, int flags, ...)
{
    va_list ap;
    va_start(ap, flags);
    mode_t mode = (flags & O_CREAT) != 0 ? (mode_t)va_arg(ap, int) : 0;
    va_end(ap);
    return cut_open(path, flags, mode);
}

int open64(const char *path, int flags, ...) __attribute__((alias("open")));

static int cut_of(int fd)
{
    for (int i = 0; i < CUT_FILES; i++)
        if (cut.files[i].path[0] != 0 && cut.files[i].fd == fd)
            return i;
    return -1;
}

ssize_t write(int fd, const void *data, size_t size)
{
    REAL(write);
    (void)pthread_mutex_lock(&cut.lock);
    int i = cut_of(fd);
    if (i >= 0) {
        cut_step();
        cut.files[i].dirty = 1;
    }
    (void)pthread_mutex_unlock(&cut.lock);
    return real(fd, data, size);
}

int close(int fd)
{
    REAL(close);
    (void)pthread_mutex_lock(&cut.lock);
    int i = cut_of(fd);
    if (i >= 0)
        cut.files[i].fd = -1;
    (void)pthread_mutex_unlock(&cut.lock);
    return real(fd);
}

int fsync(int fd)
{
    REAL(fsync);
    struct stat s;
    int folder = fstat(fd, &s) == 0 && S_ISDIR(s.st_mode);
    (void)pthread_mutex_lock(&cut.lock);
    int i = cut_of(fd);
    if (i >= 0 || folder)
        cut_step();
    if (i >= 0 && !cut_lies(1))
        cut.files[i].dirty = 0;
    for (int k = 0; folder && !cut_lies(2) && k < cut.undos; k++)
        if (cut.undo[k].kept[0] != 0)
            (void)unlink(cut.undo[k].kept);
    if (folder && !cut_lies(2))
        cut.undos = 0;
    (void)pthread_mutex_unlock(&cut.lock);
    return real(fd);
}

/* The name @p path is about to change. */
static void cut_keep(const char *path)
{
    struct stat s;
    if (cut.undos == CUT_UNDO)
        abort();
    int k = cut.undos;
    (void)snprintf(cut.undo[k].path, PATH_MAX, "%s", path);
    cut.undo[k].kept[0] = 0;
    if (stat(path, &s) == 0) {
        (void)snprintf(cut.undo[k].kept, PATH_MAX, "%.*s.kept%ld", PATH_MAX - 32, path, cut.steps);
        if (link(path, cut.undo[k].kept) != 0)
            abort();
    }
    cut.undos++;
}

int rename(const char *from, const char *to)
{
    REAL(rename);
    if (!cut_mine(to))
        return real(from, to);
    (void)pthread_mutex_lock(&cut.lock);
    cut_step();
    cut_keep(to);
    int i = cut_find(from), old = cut_find(to);
    int r = real(from, to);
    if (r == 0 && old >= 0)
        cut.files[old].path[0] = 0;
    if (r == 0 && i >= 0)
        (void)snprintf(cut.files[i].path, PATH_MAX, "%s", to);
    (void)pthread_mutex_unlock(&cut.lock);
    return r;
}

int unlink(const char *path)
{
    REAL(unlink);
    struct stat s;
    if (!cut_mine(path) || strstr(path, ".kept") != NULL || stat(path, &s) != 0)
        return real(path);
    (void)pthread_mutex_lock(&cut.lock);
    cut_step();
    cut_keep(path);
    int r = real(path);
    (void)pthread_mutex_unlock(&cut.lock);
    return r;
}
