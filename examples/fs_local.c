/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * A file system inside a program, in the least code: no mount, no other process. A file is put,
 * read back, and a directory made, with the calls of snicstore/fs.h.
 *
 *     fs_local [FOLDER]
 *
 * Without FOLDER the store is in memory; with it, it is LMDB's in that folder, made when missing.
 * Exit code: 0 all went well, 1 it did not, 2 wrong usage.
 */
#include "snicstore/fs.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <time.h>

static int64_t wall(void *ctx)
{
    struct timespec t;
    (void)ctx;
    (void)clock_gettime(CLOCK_REALTIME, &t);
    return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

static int failed(const char *what, int64_t rc)
{
    if (rc < 0)
        (void)fprintf(stderr, "fs_local: %s: %s\n", what, snic_strerror((int)rc));
    return rc < 0;
}

/* One by one, until one fails. */
static int use(struct snic_fs *fs)
{
    struct snic_fsop mkdir = {
        .kind = SNIC_FSOP_MKDIR, .ino = SNIC_FSOP_ROOT, .name = "dir", .name_size = 3};
    struct snic_fsop sync = {.kind = SNIC_FSOP_SYNCFS};
    char text[64];
    int64_t n;
    mkdir.mode = 0755;
    n = snic_fs_call(fs, &mkdir);
    if (n != SNIC_EEXIST &&
        failed("cannot make directory /dir", n)) /* it is there when this ran before */
        return 1;
    if (failed("cannot write /dir/hello",
               snic_fs_put(fs, "/dir/hello", "hello, world", 12, 0644)) ||
        failed("cannot sync the file system",
               snic_fs_call(fs, &sync))) /* from here on it survives a loss of power */
        return 1;
    n = snic_fs_get(fs, "/dir/hello", text, sizeof(text));
    if (failed("cannot read /dir/hello", n))
        return 1;
    (void)printf("/dir/hello has %lld bytes: %.*s\n", (long long)n, (int)n, text);
    return failed("cannot read /none (as expected)", snic_fs_get(fs, "/none", text, 1)) ? 0 : 1;
}

/* The first mount of a new store needs a file system on it. */
static int mount_and_use(struct snic_fs *fs)
{
    int rc = snic_fs_mount(fs), bad;
    if (rc == SNIC_ENOENT) {
        rc = snic_fs_mkfs(fs, NULL);
        if (rc == 0)
            rc = snic_fs_mount(fs);
    }
    if (failed("cannot mount the file system", rc))
        return 1;
    bad = use(fs);
    return failed("cannot unmount the file system", snic_fs_unmount(fs)) || bad;
}

static int serve(struct snic_loop *loop, struct snic_kv *kv)
{
    struct snic_fs_opts o = {.opts_size = sizeof(o), .wall = wall};
    struct snic_fs *fs = NULL;
    size_t size;
    void *memory;
    int bad;
    if (getrandom(&o.session_id, sizeof(o.session_id), 0) != (ssize_t)sizeof(o.session_id))
        return failed("cannot get random numbers", SNIC_EIO);
    size = snic_fs_memsize(&o); /* 0: the options are wrong */
    memory = size == 0 ? NULL : malloc(size);
    if (memory == NULL)
        return failed("cannot allocate the file system's memory", SNIC_ENOMEM);
    bad = failed("cannot set up the file system", snic_fs_init(&fs, memory, size, loop, kv, &o));
    if (!bad) {
        bad = mount_and_use(fs);
        (void)snic_fs_fini(fs); /* before its store and its loop */
    }
    free(memory);
    return bad;
}

int main(int argc, char **argv)
{
    struct snic_kv_lmdb_opts o = {.opts_size = sizeof(o), .flags = SNIC_KV_OPEN_CREATE};
    struct snic_kvmem_opts mo = {.opts_size = sizeof(mo)};
    struct snic_kvmem *medium = NULL;
    struct snic_loop *loop = NULL;
    struct snic_kv *kv = NULL;
    char why[256] = "";
    int error = 0, bad, rc;
    if (argc > 2 || (argc == 2 && argv[1][0] == '-')) {
        int help = argc == 2 && strcmp(argv[1], "--help") == 0;
        (void)fprintf(help ? stdout : stderr,
                      "Usage: fs_local [FOLDER]\nA file system in the store FOLDER, or in memory "
                      "without one.\n");
        return help ? 0 : 2;
    }
    if (failed("cannot set up io_uring", snic_loop_uring_open(&loop, NULL)))
        return 1;
    o.path = argv[1];
    if (argc == 2)
        rc = snic_kv_lmdb_open(&kv, loop, &o, &error, why, sizeof(why));
    else if ((rc = snic_kvmem_open(&medium, &mo)) == 0)
        rc = snic_kv_mem_open(&kv, loop, medium);
    if (rc != 0)
        (void)fprintf(stderr, "fs_local: %s: %s\n", argc == 2 ? argv[1] : "store in memory",
                      argc == 2 ? why : snic_strerror(rc));
    bad = rc != 0 || serve(loop, kv);
    snic_kv_close(kv);
    if (medium != NULL)
        snic_kvmem_close(medium);
    snic_loop_close(loop);
    return bad;
}
