/* SPDX-License-Identifier: Apache-2.0 OR MIT */
#include "filefix.h"

#include "support.h"

void filefix_open(struct filefix *fx)
{
    struct snic_world_opts w;
    memset(&w, 0, sizeof(w));
    w.opts_size = sizeof(w);
    w.seed = support_seed();
    assert_int_equal(snic_world_open(&fx->world, &w), 0);
    assert_int_equal(snic_world_loop(fx->world, 0, &fx->loop), 0);
    fx->disk_opts.opts_size = sizeof(fx->disk_opts);
    if (fx->disk_opts.size == 0)
        fx->disk_opts.size = 2u << 20;
    fx->disk_opts.seed = support_seed();
    assert_int_equal(snic_disk_open(&fx->disk, &fx->disk_opts), 0);
    assert_int_equal(snic_io_mem_open(&fx->io, fx->loop, fx->disk), 0);
    fx->format.opts_size = sizeof(fx->format);
    if (fx->format.segment_bytes == 0)
        fx->format.segment_bytes = 16384;
    if (fx->format.files_max == 0)
        fx->format.files_max = 32;
    if (fx->format.dirs_max == 0)
        fx->format.dirs_max = 8;
    if (fx->format.journal_bytes == 0)
        fx->format.journal_bytes = 131072;
    if (fx->format.image_id == 0)
        fx->format.image_id = 77;
    fx->mount.opts_size = sizeof(fx->mount);
}

int filefix_try_mount(struct filefix *fx)
{
    struct snic_files_info info;
    size_t size;
    int rc = snic_files_probe(fx->io, &info);
    if (rc != 0)
        return rc;
    size = snic_files_memsize(&info, &fx->mount);
    assert_true(size != 0);
    fx->mem = support_guard_alloc(size, SNIC_FILES_ALIGN);
    rc = snic_files_mount(&fx->files, fx->mem, size, fx->io, &fx->mount);
    if (rc != 0) {
        support_guard_free(fx->mem);
        fx->mem = NULL;
        fx->files = NULL;
    }
    return rc;
}

void filefix_mount(struct filefix *fx)
{
    assert_int_equal(filefix_try_mount(fx), 0);
    assert_int_equal(snic_files_check(fx->files), 0);
}

void filefix_fresh(struct filefix *fx)
{
    filefix_open(fx);
    assert_int_equal(snic_files_format(fx->io, &fx->format), 0);
    filefix_mount(fx);
}

int filefix_unmount(struct filefix *fx)
{
    int rc = snic_files_unmount(fx->files);
    support_guard_free(fx->mem);
    fx->files = NULL;
    fx->mem = NULL;
    return rc;
}

void filefix_reopen(struct filefix *fx)
{
    snic_io_close(fx->io);
    assert_int_equal(snic_io_mem_open(&fx->io, fx->loop, fx->disk), 0);
}

void filefix_close(struct filefix *fx)
{
    if (fx->files != NULL)
        (void)filefix_unmount(fx);
    snic_io_close(fx->io);
    snic_disk_close(fx->disk);
    snic_loop_close(fx->loop);
    snic_world_close(fx->world);
}

int64_t filefix_op(struct snic_files *f, struct snic_files_req *r)
{
    r->region = SNIC_NO_REGION;
    return snic_files_run(f, r);
}

static void filefix_data(struct snic_files_req *r, int op, uint64_t file, uint64_t at, void *p,
                         size_t n)
{
    memset(r, 0, sizeof(*r));
    r->op = (uint8_t)op;
    r->file = file;
    r->offset = at;
    r->length = n;
    r->buf.base = p;
    r->buf.size = n;
}

int64_t filefix_write(struct snic_files *f, uint64_t file, uint64_t at, const void *p, size_t n,
                      unsigned flags)
{
    struct snic_files_req r;
    filefix_data(&r, SNIC_FILES_WRITE, file, at, (void *)(uintptr_t)p, n);
    r.flags = (uint16_t)flags;
    return filefix_op(f, &r);
}

int64_t filefix_read(struct snic_files *f, uint64_t file, uint64_t at, void *p, size_t n)
{
    struct snic_files_req r;
    filefix_data(&r, SNIC_FILES_READ, file, at, p, n);
    return filefix_op(f, &r);
}

static int filefix_named(struct snic_files *f, int op, uint64_t dir, const char *name, uint64_t *id,
                         uint64_t *size)
{
    struct snic_files_req r;
    int64_t rc;
    memset(&r, 0, sizeof(r));
    r.op = (uint8_t)op;
    r.dir = dir;
    r.name = name;
    r.name_size = (uint32_t)strlen(name);
    rc = filefix_op(f, &r);
    if (rc == 0 && id != NULL)
        *id = r.id;
    if (rc == 0 && size != NULL)
        *size = r.size;
    return (int)rc;
}

int filefix_create(struct snic_files *f, uint64_t dir, const char *name, uint64_t *id)
{
    return filefix_named(f, SNIC_FILES_CREATE, dir, name, id, NULL);
}

int filefix_mkdir(struct snic_files *f, const char *name, uint64_t *id)
{
    return filefix_named(f, SNIC_FILES_MKDIR, 0, name, id, NULL);
}

int filefix_rmdir(struct snic_files *f, const char *name)
{
    return filefix_named(f, SNIC_FILES_RMDIR, 0, name, NULL, NULL);
}

int filefix_delete(struct snic_files *f, uint64_t dir, const char *name)
{
    return filefix_named(f, SNIC_FILES_DELETE, dir, name, NULL, NULL);
}

int filefix_find(struct snic_files *f, uint64_t dir, const char *name, uint64_t *id, uint64_t *size)
{
    return filefix_named(f, SNIC_FILES_OPEN, dir, name, id, size);
}

int filefix_rename(struct snic_files *f, uint64_t dir, const char *name, uint64_t dir2,
                   const char *name2, unsigned flags)
{
    struct snic_files_req r;
    memset(&r, 0, sizeof(r));
    r.op = SNIC_FILES_RENAME;
    r.flags = (uint16_t)flags;
    r.dir = dir;
    r.dir2 = dir2;
    r.name = name;
    r.name_size = (uint32_t)strlen(name);
    r.name2 = name2;
    r.name2_size = (uint32_t)strlen(name2);
    return (int)filefix_op(f, &r);
}

static int filefix_range(struct snic_files *f, int op, uint64_t file, uint64_t at, uint64_t n)
{
    struct snic_files_req r;
    memset(&r, 0, sizeof(r));
    r.op = (uint8_t)op;
    r.file = file;
    r.offset = at;
    r.length = n;
    return (int)filefix_op(f, &r);
}

int filefix_truncate(struct snic_files *f, uint64_t file, uint64_t size)
{
    return filefix_range(f, SNIC_FILES_TRUNCATE, file, 0, size);
}

int filefix_prealloc(struct snic_files *f, uint64_t file, uint64_t at, uint64_t n)
{
    return filefix_range(f, SNIC_FILES_PREALLOC, file, at, n);
}

int filefix_fsync(struct snic_files *f, uint64_t file)
{
    return filefix_range(f, SNIC_FILES_FSYNC, file, 0, 0);
}

int filefix_stat(struct snic_files *f, uint64_t file, struct snic_files_req *out)
{
    memset(out, 0, sizeof(*out));
    out->op = SNIC_FILES_STAT;
    out->file = file;
    return (int)filefix_op(f, out);
}
