/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * kvfs_meta DIRECTORY OPERATION FIRST COUNT FOLDERS THREADS
 *
 * One operation on the files FIRST .. FIRST+COUNT-1, file i being in folder i mod FOLDERS; the
 * threads share them out. Prints operations and seconds.
 *
 *   prepare   make the folders           fsync    create, write 4 KiB, fsync, close
 *   create    and close, empty           stat     lstat
 *   rename    to another name            readdir  list all folders: an operation is an entry
 *   unlink    of the other name          list     the same with lstat of each
 *   clear     remove the folders         unsync   unlink what fsync made
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

enum { META_THREADS = 256 };

struct meta {
    pthread_t thread;
    const char *op;
    long first, count, folders, threads, index;
    long done;
};

static char meta_block[4096];

static void meta_die(const char *op, const char *path)
{
    fprintf(stderr, "kvfs_meta: %s %s: %s\n", op, path, strerror(errno));
    exit(1);
}

static int meta_create(const char *path, int sync)
{
    int fd = open(path, O_CREAT | O_EXCL | O_WRONLY | O_CLOEXEC, 0644);
    if (fd == -1) {
        return -1;
    }
    if (sync && (write(fd, meta_block, sizeof(meta_block)) != (ssize_t)sizeof(meta_block) ||
                 fsync(fd) == -1)) {
        close(fd);
        return -1;
    }
    return close(fd);
}

static int meta_one(const char *op, long folder, long i)
{
    char path[64], other[64];
    struct stat st;
    snprintf(path, sizeof(path), "f%ld/file.%ld", folder, i);
    snprintf(other, sizeof(other), "f%ld/renamed.%ld", folder, i);
    if (strcmp(op, "create") == 0) {
        return meta_create(path, 0);
    }
    if (strcmp(op, "stat") == 0) {
        return lstat(path, &st);
    }
    if (strcmp(op, "rename") == 0) {
        return rename(path, other);
    }
    if (strcmp(op, "unlink") == 0) {
        return unlink(other);
    }
    snprintf(path, sizeof(path), "f%ld/synced.%ld", folder, i);
    return strcmp(op, "fsync") == 0 ? meta_create(path, 1) : unlink(path);
}

static long meta_list(const char *op, long folder)
{
    char path[64];
    struct stat st;
    long n = 0;
    snprintf(path, sizeof(path), "f%ld", folder);
    DIR *d = opendir(path);
    if (!d) {
        meta_die(op, path);
    }
    for (struct dirent *e; (e = readdir(d)) != NULL; n++) {
        if (op[0] == 'l' && fstatat(dirfd(d), e->d_name, &st, AT_SYMLINK_NOFOLLOW) == -1) {
            meta_die(op, e->d_name);
        }
    }
    closedir(d);
    return n;
}

static void *meta_run(void *ctx)
{
    struct meta *m = ctx;
    char path[64];
    int folders = strcmp(m->op, "prepare") == 0 || strcmp(m->op, "clear") == 0;
    int lists = strcmp(m->op, "readdir") == 0 || strcmp(m->op, "list") == 0;
    if (folders || lists) {
        for (long f = m->index; f < m->folders; f += m->threads) {
            snprintf(path, sizeof(path), "f%ld", f);
            m->done += lists ? meta_list(m->op, f) : 1;
            if (folders && (m->op[0] == 'p' ? mkdir(path, 0755) : rmdir(path)) == -1) {
                meta_die(m->op, path);
            }
        }
        return NULL;
    }
    for (long i = m->first + m->index; i < m->first + m->count; i += m->threads, m->done++) {
        if (meta_one(m->op, i % m->folders, i) == -1) {
            snprintf(path, sizeof(path), "file %ld", i);
            meta_die(m->op, path);
        }
    }
    return NULL;
}

int main(int argc, char **argv)
{
    static struct meta m[META_THREADS];
    struct timespec a, b;
    long done = 0;
    if (argc != 7) {
        fprintf(stderr, "kvfs_meta DIRECTORY OPERATION FIRST COUNT FOLDERS THREADS\n");
        return 2;
    }
    long threads = strtol(argv[6], NULL, 10), folders = strtol(argv[5], NULL, 10);
    if (threads < 1 || threads > META_THREADS || folders < 1 || chdir(argv[1]) == -1) {
        fprintf(stderr, "kvfs_meta: %s, %s folders, %s threads?\n", argv[1], argv[5], argv[6]);
        return 2;
    }
    clock_gettime(CLOCK_MONOTONIC, &a);
    for (long t = 0; t < threads; t++) {
        m[t] = (struct meta){.op = argv[2],
                             .first = strtol(argv[3], NULL, 10),
                             .count = strtol(argv[4], NULL, 10),
                             .folders = folders,
                             .threads = threads,
                             .index = t};
        if (pthread_create(&m[t].thread, NULL, meta_run, &m[t]) != 0) {
            meta_die(argv[2], "thread");
        }
    }
    for (long t = 0; t < threads; t++) {
        pthread_join(m[t].thread, NULL);
        done += m[t].done;
    }
    clock_gettime(CLOCK_MONOTONIC, &b);
    printf("%ld %.6f\n", done,
           (double)(b.tv_sec - a.tv_sec) + (double)(b.tv_nsec - a.tv_nsec) / 1e9);
    return 0;
}
