/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/**
 * A file service on a simulated disk in a world of one loop, and one call per operation.
 * Every call runs the loop until its request is done.
 */
#ifndef SNIC_TESTS_FILEFIX_H
#define SNIC_TESTS_FILEFIX_H

#include "snicstore/files.h"

struct filefix {
    struct snic_world *world;
    struct snic_loop *loop;
    struct snic_disk *disk;
    struct snic_io *io;
    struct snic_files *files;
    void *mem;
    struct snic_files_mount_opts mount;
    struct snic_files_format_opts format;
    struct snic_disk_opts disk_opts;
};

/** A small disk (2 MiB, segments of 16 KiB) unless @p fx, zeroed before, sets others. */
void filefix_open(struct filefix *fx);
/** Format and mount. */
void filefix_fresh(struct filefix *fx);
int filefix_try_mount(struct filefix *fx);
void filefix_mount(struct filefix *fx);
int filefix_unmount(struct filefix *fx);
/** Close the handle and open another; not mounted. */
void filefix_reopen(struct filefix *fx);
void filefix_close(struct filefix *fx);

int64_t filefix_op(struct snic_files *f, struct snic_files_req *r);
int64_t filefix_write(struct snic_files *f, uint64_t file, uint64_t at, const void *p, size_t n,
                      unsigned flags);
int64_t filefix_read(struct snic_files *f, uint64_t file, uint64_t at, void *p, size_t n);
int filefix_create(struct snic_files *f, uint64_t dir, const char *name, uint64_t *id);
int filefix_mkdir(struct snic_files *f, const char *name, uint64_t *id);
int filefix_rmdir(struct snic_files *f, const char *name);
int filefix_delete(struct snic_files *f, uint64_t dir, const char *name);
int filefix_rename(struct snic_files *f, uint64_t dir, const char *name, uint64_t dir2,
                   const char *name2, unsigned flags);
int filefix_truncate(struct snic_files *f, uint64_t file, uint64_t size);
int filefix_prealloc(struct snic_files *f, uint64_t file, uint64_t at, uint64_t n);
int filefix_fsync(struct snic_files *f, uint64_t file);
int filefix_find(struct snic_files *f, uint64_t dir, const char *name, uint64_t *id,
                 uint64_t *size);
int filefix_stat(struct snic_files *f, uint64_t file, struct snic_files_req *out);

#endif /* SNIC_TESTS_FILEFIX_H */
