/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * The operations of file systems as a table: name, flags, names and data of each.
 *
 * Invariants
 *   V1 Every kind below SNIC_FSOP_KINDS has a row.
 *   V2 A row permits the flags that its operation reads, and CHECKED, and no others.
 */
#include "snicstore/fsop.h"

enum {
    FSOP_NAME = 1,   /* has name                                             */
    FSOP_NAME2 = 2,  /* has name2                                            */
    FSOP_PATH = 4,   /* name is longer than a name                           */
    FSOP_TARGET = 8, /* name2 is the target of a symbolic link               */
    FSOP_IN = 1,
    FSOP_OUT = 2,
    FSOP_FL_ONE = SNIC_FSOP_CHECKED,
    FSOP_FL_READ = FSOP_FL_ONE | SNIC_FSOP_DIRECT | SNIC_FSOP_NOATIME,
    FSOP_FL_WRITE =
        FSOP_FL_ONE | SNIC_FSOP_DIRECT | SNIC_FSOP_APPEND | SNIC_FSOP_SYNC | SNIC_FSOP_KILL_PRIV,
    FSOP_FL_OPEN = FSOP_FL_WRITE | SNIC_FSOP_EXCL | SNIC_FSOP_TRUNC | SNIC_FSOP_OPEN_READ |
                   SNIC_FSOP_OPEN_WRITE | SNIC_FSOP_NOATIME,
    FSOP_FL_RENAME = FSOP_FL_ONE | SNIC_FSOP_RENAME_NOREPLACE | SNIC_FSOP_RENAME_EXCHANGE |
                     SNIC_FSOP_RENAME_WHITEOUT | SNIC_FSOP_HOLD,
    FSOP_FL_FALLOC = FSOP_FL_ONE | SNIC_FSOP_FALLOC_KEEP_SIZE | SNIC_FSOP_FALLOC_PUNCH |
                     SNIC_FSOP_FALLOC_ZERO | SNIC_FSOP_KILL_PRIV,
    FSOP_FL_SETXATTR =
        FSOP_FL_ONE | SNIC_FSOP_XATTR_CREATE | SNIC_FSOP_XATTR_REPLACE | SNIC_FSOP_KILL_PRIV
};

struct fsop_rule {
    const char *name;
    uint32_t flags;
    uint8_t names;
    uint8_t data;
};

static const struct fsop_rule fsop_rules[SNIC_FSOP_KINDS] = {
    [SNIC_FSOP_LOOKUP] = {"lookup", FSOP_FL_ONE, FSOP_NAME, 0},
    [SNIC_FSOP_FORGET] = {"forget", FSOP_FL_ONE, 0, 0},
    [SNIC_FSOP_GETATTR] = {"getattr", FSOP_FL_ONE, 0, 0},
    [SNIC_FSOP_SETATTR] = {"setattr", FSOP_FL_ONE | SNIC_FSOP_KILL_PRIV, 0, 0},
    [SNIC_FSOP_READLINK] = {"readlink", FSOP_FL_ONE, 0, FSOP_OUT},
    [SNIC_FSOP_MKNOD] = {"mknod", FSOP_FL_ONE, FSOP_NAME, 0},
    [SNIC_FSOP_CREATE] = {"create", FSOP_FL_OPEN, FSOP_NAME, 0},
    [SNIC_FSOP_MKDIR] = {"mkdir", FSOP_FL_ONE, FSOP_NAME, 0},
    [SNIC_FSOP_SYMLINK] = {"symlink", FSOP_FL_ONE, FSOP_NAME | FSOP_TARGET, 0},
    [SNIC_FSOP_UNLINK] = {"unlink", FSOP_FL_ONE | SNIC_FSOP_HOLD, FSOP_NAME, 0},
    [SNIC_FSOP_RMDIR] = {"rmdir", FSOP_FL_ONE | SNIC_FSOP_HOLD, FSOP_NAME, 0},
    [SNIC_FSOP_RENAME] = {"rename", FSOP_FL_RENAME, FSOP_NAME | FSOP_NAME2, 0},
    [SNIC_FSOP_LINK] = {"link", FSOP_FL_ONE, FSOP_NAME2, 0},
    [SNIC_FSOP_OPEN] = {"open", FSOP_FL_OPEN, 0, 0},
    [SNIC_FSOP_RELEASE] = {"release", FSOP_FL_ONE, 0, 0},
    [SNIC_FSOP_FLUSH] = {"flush", FSOP_FL_ONE, 0, 0},
    [SNIC_FSOP_FSYNC] = {"fsync", FSOP_FL_ONE | SNIC_FSOP_FSYNC_DATA, 0, 0},
    [SNIC_FSOP_READ] = {"read", FSOP_FL_READ, 0, FSOP_OUT},
    [SNIC_FSOP_WRITE] = {"write", FSOP_FL_WRITE, 0, FSOP_IN},
    [SNIC_FSOP_FALLOCATE] = {"fallocate", FSOP_FL_FALLOC, 0, 0},
    [SNIC_FSOP_SEEK] = {"seek", FSOP_FL_ONE | SNIC_FSOP_SEEK_DATA | SNIC_FSOP_SEEK_HOLE, 0, 0},
    [SNIC_FSOP_COPY] = {"copy", FSOP_FL_ONE | SNIC_FSOP_KILL_PRIV, 0, 0},
    [SNIC_FSOP_OPENDIR] = {"opendir", FSOP_FL_OPEN, 0, 0},
    [SNIC_FSOP_READDIR] = {"readdir", FSOP_FL_READ | SNIC_FSOP_READDIR_PLUS, 0, FSOP_OUT},
    [SNIC_FSOP_RELEASEDIR] = {"releasedir", FSOP_FL_ONE, 0, 0},
    [SNIC_FSOP_STATFS] = {"statfs", FSOP_FL_ONE, 0, 0},
    [SNIC_FSOP_SETXATTR] = {"setxattr", FSOP_FL_SETXATTR, FSOP_NAME, FSOP_IN},
    [SNIC_FSOP_GETXATTR] = {"getxattr", FSOP_FL_ONE, FSOP_NAME, FSOP_OUT},
    [SNIC_FSOP_LISTXATTR] = {"listxattr", FSOP_FL_ONE, 0, FSOP_OUT},
    [SNIC_FSOP_REMOVEXATTR] = {"removexattr", FSOP_FL_ONE, FSOP_NAME, 0},
    [SNIC_FSOP_ACCESS] = {"access", FSOP_FL_ONE, 0, 0},
    [SNIC_FSOP_GETLK] = {"getlk", FSOP_FL_ONE, 0, 0},
    [SNIC_FSOP_SETLK] = {"setlk", FSOP_FL_ONE | SNIC_FSOP_LOCK_WAIT, 0, 0},
    [SNIC_FSOP_FLOCK] = {"flock", FSOP_FL_ONE | SNIC_FSOP_LOCK_WAIT, 0, 0},
    [SNIC_FSOP_SYNCFS] = {"syncfs", FSOP_FL_ONE, 0, 0},
    [SNIC_FSOP_RESOLVE] = {"resolve", FSOP_FL_ONE, FSOP_NAME | FSOP_PATH, 0},
    [SNIC_FSOP_MKFS] = {"mkfs", FSOP_FL_ONE, FSOP_NAME | FSOP_PATH, 0},
    [SNIC_FSOP_MOUNT] = {"mount", FSOP_FL_ONE, 0, 0},
    [SNIC_FSOP_UNMOUNT] = {"unmount", FSOP_FL_ONE, 0, 0},
};

static const struct fsop_rule *fsop_rule_of(uint32_t kind)
{
    return kind > 0 && kind < SNIC_FSOP_KINDS ? &fsop_rules[kind] : NULL;
}

const char *snic_fsop_name(uint32_t kind)
{
    const struct fsop_rule *r = fsop_rule_of(kind);
    return r != NULL ? r->name : "?";
}

int snic_fsop_data(uint32_t kind)
{
    const struct fsop_rule *r = fsop_rule_of(kind);
    return r != NULL ? r->data : SNIC_ENOTSUP;
}

int snic_fsop_validate(const struct snic_fsop *op)
{
    const struct fsop_rule *r = fsop_rule_of(op->kind);
    if (r == NULL)
        return SNIC_ENOTSUP;
    if ((op->flags & ~r->flags) != 0 || ((r->names & FSOP_NAME) == 0 && op->name_size != 0) ||
        ((r->names & (FSOP_NAME2 | FSOP_TARGET)) == 0 && op->name2_size != 0))
        return SNIC_EINVAL;
    uint32_t name2_max = (r->names & FSOP_TARGET) != 0 ? SNIC_FSOP_SYMLINK_MAX : SNIC_FSOP_NAME_MAX;
    if (((r->names & FSOP_PATH) == 0 && op->name_size > SNIC_FSOP_NAME_MAX) ||
        op->name2_size > name2_max)
        return SNIC_ENAMETOOLONG;
    return op->cred.group_count > SNIC_FSOP_GROUPS_MAX ? SNIC_E2BIG : 0;
}
