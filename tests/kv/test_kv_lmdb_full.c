/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* The store on LMDB is opened where the disk has little or no space left: a small tmpfs in a mount
 * namespace of the test's own. */
#include "kv_lmdb_util.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <stdio.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <unistd.h>

enum { FULL_PAGE = 4096, FULL_DISK = 32 << 20, FULL_SKIPPED = 77, FULL_STEPS = 48 };

static void full_path(char *out, size_t max, const char *folder, const char *name)
{
    KVL_CHECK(snprintf(out, max, "%s/%s", folder, name) < (int)max);
}

/** Take all space but @p pages. */
static void full_take(const char *folder, uint32_t pages)
{
    static const unsigned char page[FULL_PAGE];
    char path[600];
    off_t size = 0;
    full_path(path, sizeof(path), folder, "taken");
    int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0600);
    KVL_CHECK(fd >= 0);
    while (write(fd, page, sizeof(page)) == (ssize_t)sizeof(page))
        size += FULL_PAGE;
    KVL_CHECK(errno == ENOSPC && size >= (off_t)pages * FULL_PAGE);
    KVL_EQUAL(ftruncate(fd, size - (off_t)pages * FULL_PAGE), 0);
    KVL_EQUAL(close(fd), 0);
}

static void full_give(const char *folder)
{
    char path[600];
    full_path(path, sizeof(path), folder, "taken");
    KVL_EQUAL(unlink(path), 0);
}

/** A full disk of this process' own at @p folder, or the end of the process. */
static void full_disk(const char *folder)
{
    char options[32];
    KVL_CHECK(snprintf(options, sizeof(options), "size=%d", FULL_DISK) < (int)sizeof(options));
    if (unshare(CLONE_NEWNS) != 0 || mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL) != 0 ||
        mount("tmpfs", folder, "tmpfs", 0, options) != 0)
        _exit(FULL_SKIPPED);
}

static int full_open(struct kvl *k, const char *path, uint64_t flags, char *text)
{
    struct snic_kv_lmdb_opts o = {.opts_size = sizeof(o),
                                  .path = path,
                                  .flags = (uint32_t)flags,
                                  .object_bytes = 4096ULL * KVL_BLOCK,
                                  .map_bytes = 64 << 20};
    return kvl_try(k, &o, text);
}

/** With each number of free pages: the store is opened, or an error names the space. */
static void full_new_store(void *ctx)
{
    const char *folder = ctx;
    char path[600];
    char text[256];
    uint32_t opened = 0;
    full_disk(folder);
    for (uint32_t pages = 0; pages < FULL_STEPS; pages++) {
        struct kvl k;
        char name[32];
        KVL_CHECK(snprintf(name, sizeof(name), "s%u", pages) < (int)sizeof(name));
        full_path(path, sizeof(path), folder, name);
        full_take(folder, pages);
        int r = full_open(&k, path, SNIC_KV_OPEN_CREATE, text);
        if (r == 0) {
            opened++;
            (void)kvl_put(&k, 1, 1, 1, SNIC_KVOP_DURABLE);
            kvl_close(&k);
        } else {
            KVL_EQUAL(r, SNIC_ENOSPC);
            KVL_CHECK(strstr(text, "No space left") != NULL);
        }
        full_give(folder);
        /* What is half made is finished when there is space. */
        r = full_open(&k, path, SNIC_KV_OPEN_CREATE, text);
        if (r != 0)
            (void)fprintf(stderr, "%u free pages, then many: %s\n", pages, text);
        KVL_EQUAL(r, 0);
        KVL_EQUAL(kvl_put(&k, 1, 1, 1, SNIC_KVOP_DURABLE), 0);
        kvl_close(&k);
        char remove[700];
        KVL_CHECK(snprintf(remove, sizeof(remove), "rm -r '%s'", path) < (int)sizeof(remove));
        KVL_EQUAL(system(remove), 0);
    }
    KVL_CHECK(opened > 0 && opened < FULL_STEPS);
}

/** A store whose files of locks have lost their blocks, as after a copy, and one that has them. */
static void full_old_store(void *ctx)
{
    static const char *const files[] = {"session.lock", "lock.mdb", NULL};
    const char *folder = ctx;
    char path[600];
    char text[256];
    full_disk(folder);
    full_path(path, sizeof(path), folder, "store");
    for (uint32_t i = 0; i < SNIC_COUNTOF(files); i++) {
        struct kvl k;
        char file[640];
        KVL_EQUAL(full_open(&k, path, SNIC_KV_OPEN_CREATE, text), 0);
        KVL_EQUAL(kvl_put(&k, 1, 7, 8, SNIC_KVOP_DURABLE), 0);
        kvl_close(&k);
        if (files[i] != NULL) {
            full_path(file, sizeof(file), path, files[i]);
            int fd = open(file, O_WRONLY | O_TRUNC);
            KVL_CHECK(fd >= 0);
            KVL_EQUAL(close(fd), 0);
        }
        full_take(folder, 0);
        int r = full_open(&k, path, 0, text);
        if (files[i] != NULL) {
            KVL_EQUAL(r, SNIC_ENOSPC);
            KVL_CHECK(strstr(text, "No space left") != NULL);
            KVL_CHECK(strstr(text, files[i]) != NULL);
        } else {
            KVL_EQUAL(r, 0);
            KVL_EQUAL(kvl_get(&k, 1, 7, 0), 8);
            kvl_close(&k);
        }
        full_give(folder);
    }
}

static void full_run(void (*body)(void *ctx))
{
    char folder[512];
    kvl_path(folder, sizeof(folder));
    KVL_CHECK(mkdir(folder, 0700) == 0 || errno == EEXIST);
    int status = kvl_wait(kvl_fork(body, folder));
    if (WIFEXITED(status) && WEXITSTATUS(status) == FULL_SKIPPED)
        skip();
    assert_int_equal(status, 0);
}

static void test_kv_lmdb_full_disk_new_store_is_opened_or_refused(void **state)
{
    (void)state;
    full_run(full_new_store);
}

static void test_kv_lmdb_full_disk_old_store_is_opened_or_refused(void **state)
{
    (void)state;
    full_run(full_old_store);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_kv_lmdb_full_disk_new_store_is_opened_or_refused),
        cmocka_unit_test(test_kv_lmdb_full_disk_old_store_is_opened_or_refused),
    };
    return SUPPORT_MAIN(argc, argv, tests);
}
