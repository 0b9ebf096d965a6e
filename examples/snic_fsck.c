/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * Check an image of the file service: walk everything, change nothing, say what is there and
 * what is wrong, and list the files.
 *
 *     snic_fsck [--list] IMAGE
 *
 * Exit code: 0 the image is whole, 1 it is damaged or not an image, 2 it could not be read.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "snicstore/files.h"

#define LOCK_TRIES 60 /* of 50 ms */

static const char usage[] =
    "usage: snic_fsck [--list] IMAGE\n"
    "Check an image of the file service, which nobody uses; with --list name its files.\n"
    "Exit code: 0 the image is whole, 1 it is damaged or not an image, 2 it could not be read.\n";

static void finding(void *ctx, int error, const char *what, uint64_t number)
{
    (void)ctx;
    (void)printf("%s %s %llu%s%s\n", error != 0 ? "error" : "found", what,
                 (unsigned long long)number, error != 0 ? ": " : "",
                 error != 0 ? snic_strerror(error) : "");
}

/* The next entries of a directory: their bytes, 0 at the end. */
static size_t list_page(struct snic_files *f, uint64_t dir, uint64_t *cursor, void *buf,
                        size_t size)
{
    struct snic_files_req r;
    memset(&r, 0, sizeof(r));
    r.op = SNIC_FILES_LIST;
    r.dir = dir;
    r.offset = *cursor;
    r.buf.base = buf;
    r.buf.size = size;
    r.length = size;
    if (snic_files_run(f, &r) <= 0)
        return 0;
    *cursor = r.cursor;
    return (size_t)r.result;
}

static void list_entry(const char *dir, int dir_size, const struct snic_files_entry *e)
{
    (void)printf("%s %.*s%s%.*s id %llx size %llu\n", e->kind == SNIC_FILES_DIR ? "dir " : "file",
                 dir_size, dir, dir_size != 0 ? "/" : "", (int)e->name_size, e->name,
                 (unsigned long long)e->id, (unsigned long long)e->size);
}

static void list_dir(struct snic_files *f, const struct snic_files_entry *dir)
{
    static unsigned char buf[65536];
    struct snic_files_entry e;
    uint64_t cursor = 0;
    size_t size;
    while ((size = list_page(f, dir->id, &cursor, buf, sizeof(buf))) > 0) {
        size_t pos = 0;
        while (snic_files_entry_next(buf, size, &pos, &e) == 1)
            list_entry(dir->name, (int)dir->name_size, &e);
    }
}

static void list_all(struct snic_files *f)
{
    static unsigned char buf[65536];
    struct snic_files_entry e;
    uint64_t cursor = 0;
    size_t size;
    while ((size = list_page(f, SNIC_FILES_ROOT, &cursor, buf, sizeof(buf))) > 0) {
        size_t pos = 0;
        while (snic_files_entry_next(buf, size, &pos, &e) == 1) {
            list_entry("", 0, &e);
            if (e.kind == SNIC_FILES_DIR)
                list_dir(f, &e);
        }
    }
}

static int check(struct snic_io *io, const char *path, int list)
{
    struct snic_files_info info;
    struct snic_files *f = NULL;
    size_t size;
    void *mem;
    int rc = snic_files_probe(io, &info);
    if (rc != 0) {
        (void)fprintf(stderr, "snic_fsck: %s: %s\n", path,
                      rc == SNIC_ENOENT   ? "holds no image"
                      : rc == SNIC_ERANGE ? "cut off: the file is shorter than the image in it"
                                          : snic_strerror(rc));
        return rc == SNIC_EIO ? 2 : 1;
    }
    (void)printf("image %llx, %llu segments of %u bytes, journal %llu bytes\n",
                 (unsigned long long)info.image_id, (unsigned long long)info.segments,
                 info.segment_bytes, (unsigned long long)info.journal_bytes);
    size = snic_files_memsize(&info, NULL);
    mem = aligned_alloc(SNIC_FILES_ALIGN, (size_t)snic_align_up(size, SNIC_FILES_ALIGN));
    if (mem == NULL) {
        (void)fprintf(stderr, "snic_fsck: %s\n", snic_strerror(SNIC_ENOMEM));
        return 2;
    }
    rc = snic_files_examine(io, mem, size, finding, NULL);
    (void)printf("%s\n", rc == 0 ? "clean" : "damaged");
    if (rc == 0 && list && snic_files_mount(&f, mem, size, io, NULL) == 0) {
        list_all(f);
        (void)snic_files_unmount(f);
    }
    free(mem);
    if (rc == 0)
        return 0;
    return rc == SNIC_EIO ? 2 : 1;
}

/* The kernel lets go of a killed process's lock some time after it: only one that lasts counts. */
static int open_locked(struct snic_io **io, struct snic_loop *loop,
                       const struct snic_io_uring_opts *o, int *os_error)
{
    const struct timespec pause = {0, 50000000};
    int rc = snic_io_uring_open(io, loop, o, os_error);
    for (int i = 0; rc == SNIC_EBUSY && i < LOCK_TRIES; i++) {
        (void)nanosleep(&pause, NULL);
        rc = snic_io_uring_open(io, loop, o, os_error);
    }
    return rc;
}

int main(int argc, char **argv)
{
    struct snic_io_uring_opts o;
    struct snic_loop *loop = NULL;
    struct snic_io *io = NULL;
    int list = argc == 3 && strcmp(argv[1], "--list") == 0;
    int os_error = 0;
    int status;
    int rc;
    if (argc == 2 && (strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "-h") == 0)) {
        (void)fputs(usage, stdout);
        return 0;
    }
    if (argc != 2 + list || argv[argc - 1][0] == '-') {
        (void)fputs(usage, stderr);
        return 2;
    }
    memset(&o, 0, sizeof(o));
    o.opts_size = sizeof(o);
    /* Listing mounts, which may finish a checkpoint that was cut off. */
    o.flags = SNIC_IO_OPEN_LOCK | (list ? 0 : SNIC_IO_OPEN_READONLY);
    o.path = argv[argc - 1];
    rc = snic_loop_uring_open(&loop, NULL);
    if (rc != 0) {
        (void)fprintf(stderr, "snic_fsck: no io_uring: %s\n", snic_strerror(rc));
        return 2;
    }
    rc = open_locked(&io, loop, &o, &os_error);
    if (rc != 0) {
        (void)fprintf(stderr, "snic_fsck: %s: %s\n", o.path,
                      rc == SNIC_EBUSY ? "in use by another process"
                      : os_error != 0  ? strerror(abs(os_error))
                                       : snic_strerror(rc));
        snic_loop_close(loop);
        return 2;
    }
    status = check(io, o.path, list);
    snic_io_close(io);
    snic_loop_close(loop);
    return status;
}
