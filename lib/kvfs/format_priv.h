/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* Records: what the public header of their format does not have. */
#ifndef SNIC_KVFS_FORMAT_PRIV_H
#define SNIC_KVFS_FORMAT_PRIV_H

#include "snicstore/kvfs.h"
#include "snicstore/kvfs_format.h"

/* Mode bits, as in every POSIX. */
enum {
    KVFS_IFMT = 0170000,
    KVFS_IFIFO = 0010000,
    KVFS_IFCHR = 0020000,
    KVFS_IFDIR = 0040000,
    KVFS_IFBLK = 0060000,
    KVFS_IFREG = 0100000,
    KVFS_IFLNK = 0120000,
    KVFS_IFSOCK = 0140000,
    KVFS_ISUID = 04000,
    KVFS_ISGID = 02000,
    KVFS_ISVTX = 01000
};
static inline int kvfs_is_dir(const struct snic_fsop_attr *a)
{
    return (a->mode & KVFS_IFMT) == KVFS_IFDIR;
}
static inline int kvfs_is_reg(const struct snic_fsop_attr *a)
{
    return (a->mode & KVFS_IFMT) == KVFS_IFREG;
}

/* An attribute record, verified before: of a directory without entries? */
int kvfs_attr_is_empty_dir(const void *record, uint32_t size);

#endif /* SNIC_KVFS_FORMAT_PRIV_H */
