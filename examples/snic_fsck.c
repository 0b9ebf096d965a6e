/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * Check an image of the file service: walk everything, change nothing, report the contents, and
 * what is wrong and where, and list the files. snic_dump shows what lies in it.
 *
 *     snic_fsck [--list] IMAGE
 *
 * Exit code, as of fsck(8): 0 the image is whole, 4 it is damaged, 8 it could not be checked, 16 a
 * mistake on the command line.
 */
#include <stdio.h>
#include <string.h>

#include "output.h"
#include "tool_image.h"
#include "version.h"

static const char usage[] =
    "Check an image of the file service, which no process may have open.\n\n"
    "Usage: snic_fsck [--list] IMAGE\n\n"
    "  --list     name its files, too\n"
    "  --help     print this and exit\n"
    "  --version  print the version and exit\n\n"
    "Exit code, as of fsck(8): 0 the image is whole, 4 it is damaged, 8 it could not be checked\n"
    "or is not an image, 16 a mistake on the command line.\n";

enum { FSCK_DAMAGED = 4, FSCK_ERROR = 8, FSCK_USAGE = 16 };

static void finding(void *ctx, int error, const char *what, uint64_t number)
{
    *(int *)ctx |= error != 0;
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

static int check(struct tool_image *m, int list)
{
    struct snic_files *f = NULL;
    int errors = 0;
    int rc;
    if (m->probed == SNIC_ENOENT) {
        tool_image_refused(m);
        return FSCK_ERROR;
    }
    if (m->probed == 0)
        (void)printf("image %llx, %llu segments of %u bytes, journal %llu bytes\n",
                     (unsigned long long)m->info.image_id, (unsigned long long)m->info.segments,
                     m->info.segment_bytes, (unsigned long long)m->info.journal_bytes);
    rc = snic_files_examine(m->io, m->mem, m->size, finding, &errors);
    (void)printf("%s\n", rc != 0       ? "damaged"
                         : errors != 0 ? "damaged, and can be mounted all the same"
                                       : "clean");
    if (m->probed != 0) {
        tool_image_refused(m);
        return m->probed == SNIC_EIO ? FSCK_ERROR : FSCK_DAMAGED;
    }
    if (rc == 0 && list && snic_files_mount(&f, m->mem, m->size, m->io, NULL) == 0) {
        list_all(f);
        (void)snic_files_unmount(f);
    }
    return rc == SNIC_EIO ? FSCK_ERROR : rc != 0 || errors != 0 ? FSCK_DAMAGED : 0;
}

int main(int argc, char **argv)
{
    struct tool_image m;
    int list = argc == 3 && strcmp(argv[1], "--list") == 0;
    int status;
    ex_output_must(FSCK_ERROR);
    if (argc == 2 && (strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "-h") == 0)) {
        (void)fputs(usage, stdout);
        return 0;
    }
    if (argc == 2 && strcmp(argv[1], "--version") == 0) {
        ex_version("snic_fsck");
        return 0;
    }
    if (argc != 2 + list || argv[argc - 1][0] == '-') {
        (void)fputs(usage, stderr);
        return FSCK_USAGE;
    }
    /* Listing mounts, which may finish a checkpoint that was cut off. */
    if (tool_image_open(&m, "snic_fsck", argv[argc - 1],
                        list ? 0 : (uint32_t)SNIC_IO_OPEN_READONLY) != 0)
        return FSCK_ERROR;
    status = check(&m, list);
    tool_image_close(&m);
    return status;
}
