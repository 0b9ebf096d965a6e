/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * The operations of FUSE as a table: arguments, names, data and result of each.
 *
 * Invariants
 *   R1 A row's `in` is the size of its member of union snic_fuse_in, `out` that of union
 *      snic_fuse_out; the short forms of RENAME, SETXATTR and INIT are in snic_fuse_in_size().
 *   R2 An operation without a row is refused with ENOSYS, which makes the kernel do without it.
 */
#include "fuse_priv.h"

#define SNIC_FUSE__IN(x) (uint16_t)sizeof(struct snic_fuse_##x##_in)
#define SNIC_FUSE__OUT(x) (uint16_t)sizeof(struct snic_fuse_##x##_out)

static const struct fuse_rule fuse_rules[SNIC_FUSE_OPCODES] = {
    [SNIC_FUSE_LOOKUP] = {"lookup", 0, SNIC_FUSE__OUT(entry), {FUSE_LOOKED_UP, 0}, 0, 0},
    [SNIC_FUSE_FORGET] = {"forget", SNIC_FUSE__IN(forget), 0, {0, 0}, 0, FUSE_NO_REPLY},
    [SNIC_FUSE_GETATTR] = {"getattr", SNIC_FUSE__IN(getattr), SNIC_FUSE__OUT(attr), {0, 0}, 0, 0},
    [SNIC_FUSE_SETATTR] = {"setattr", SNIC_FUSE__IN(setattr), SNIC_FUSE__OUT(attr), {0, 0}, 0, 0},
    [SNIC_FUSE_READLINK] = {"readlink", 0, 0, {0, 0}, 0, 0},
    [SNIC_FUSE_SYMLINK] =
        {"symlink", 0, SNIC_FUSE__OUT(entry), {FUSE_ENTRY, FUSE_TARGET}, 0, FUSE_EXTENDS},
    [SNIC_FUSE_MKNOD] =
        {"mknod", SNIC_FUSE__IN(mknod), SNIC_FUSE__OUT(entry), {FUSE_ENTRY, 0}, 0, FUSE_EXTENDS},
    [SNIC_FUSE_MKDIR] =
        {"mkdir", SNIC_FUSE__IN(mkdir), SNIC_FUSE__OUT(entry), {FUSE_ENTRY, 0}, 0, FUSE_EXTENDS},
    [SNIC_FUSE_UNLINK] = {"unlink", 0, 0, {FUSE_ENTRY, 0}, 0, 0},
    [SNIC_FUSE_RMDIR] = {"rmdir", 0, 0, {FUSE_ENTRY, 0}, 0, 0},
    [SNIC_FUSE_RENAME] = {"rename", 8, 0, {FUSE_ENTRY, FUSE_ENTRY}, 0, 0},
    [SNIC_FUSE_LINK] = {"link", SNIC_FUSE__IN(link), SNIC_FUSE__OUT(entry), {FUSE_ENTRY, 0}, 0, 0},
    [SNIC_FUSE_OPEN] = {"open", SNIC_FUSE__IN(open), SNIC_FUSE__OUT(open), {0, 0}, 0, 0},
    [SNIC_FUSE_READ] = {"read", SNIC_FUSE__IN(read), 0, {0, 0}, 0, 0},
    [SNIC_FUSE_WRITE] =
        {"write", SNIC_FUSE__IN(write), SNIC_FUSE__OUT(write), {0, 0}, FUSE_DATA_WRITE, 0},
    [SNIC_FUSE_STATFS] = {"statfs", 0, SNIC_FUSE__OUT(statfs), {0, 0}, 0, 0},
    [SNIC_FUSE_RELEASE] = {"release", SNIC_FUSE__IN(release), 0, {0, 0}, 0, 0},
    [SNIC_FUSE_FSYNC] = {"fsync", SNIC_FUSE__IN(fsync), 0, {0, 0}, 0, 0},
    [SNIC_FUSE_SETXATTR] =
        {"setxattr", SNIC_FUSE__IN(setxattr), 0, {FUSE_ATTRIBUTE, 0}, FUSE_DATA_SETXATTR, 0},
    [SNIC_FUSE_GETXATTR] = {"getxattr",
                            SNIC_FUSE__IN(getxattr),
                            SNIC_FUSE__OUT(getxattr),
                            {FUSE_ATTRIBUTE, 0},
                            0,
                            FUSE_XSIZE},
    [SNIC_FUSE_LISTXATTR] =
        {"listxattr", SNIC_FUSE__IN(getxattr), SNIC_FUSE__OUT(getxattr), {0, 0}, 0, FUSE_XSIZE},
    [SNIC_FUSE_REMOVEXATTR] = {"removexattr", 0, 0, {FUSE_ATTRIBUTE, 0}, 0, 0},
    [SNIC_FUSE_FLUSH] = {"flush", SNIC_FUSE__IN(flush), 0, {0, 0}, 0, 0},
    [SNIC_FUSE_INIT] = {"init", SNIC_FUSE__IN(init), SNIC_FUSE__OUT(init), {0, 0}, 0, 0},
    [SNIC_FUSE_OPENDIR] = {"opendir", SNIC_FUSE__IN(open), SNIC_FUSE__OUT(open), {0, 0}, 0, 0},
    [SNIC_FUSE_READDIR] = {"readdir", SNIC_FUSE__IN(read), 0, {0, 0}, 0, 0},
    [SNIC_FUSE_RELEASEDIR] = {"releasedir", SNIC_FUSE__IN(release), 0, {0, 0}, 0, 0},
    [SNIC_FUSE_FSYNCDIR] = {"fsyncdir", SNIC_FUSE__IN(fsync), 0, {0, 0}, 0, 0},
    [SNIC_FUSE_GETLK] = {"getlk", SNIC_FUSE__IN(lk), SNIC_FUSE__OUT(lk), {0, 0}, 0, 0},
    [SNIC_FUSE_SETLK] = {"setlk", SNIC_FUSE__IN(lk), 0, {0, 0}, 0, 0},
    [SNIC_FUSE_SETLKW] = {"setlkw", SNIC_FUSE__IN(lk), 0, {0, 0}, 0, 0},
    [SNIC_FUSE_ACCESS] = {"access", SNIC_FUSE__IN(access), 0, {0, 0}, 0, 0},
    [SNIC_FUSE_CREATE] =
        {"create", SNIC_FUSE__IN(create), SNIC_FUSE__OUT(create), {FUSE_ENTRY, 0}, 0, FUSE_EXTENDS},
    [SNIC_FUSE_INTERRUPT] = {"interrupt", SNIC_FUSE__IN(interrupt), 0, {0, 0}, 0, FUSE_NO_REPLY},
    [SNIC_FUSE_BMAP] = {"bmap", SNIC_FUSE__IN(bmap), SNIC_FUSE__OUT(bmap), {0, 0}, 0, 0},
    [SNIC_FUSE_DESTROY] = {"destroy", 0, 0, {0, 0}, 0, 0},
    [SNIC_FUSE_IOCTL] =
        {"ioctl", SNIC_FUSE__IN(ioctl), SNIC_FUSE__OUT(ioctl), {0, 0}, FUSE_DATA_IOCTL, 0},
    [SNIC_FUSE_POLL] = {"poll", SNIC_FUSE__IN(poll), SNIC_FUSE__OUT(poll), {0, 0}, 0, 0},
    [SNIC_FUSE_BATCH_FORGET] =
        {"batch_forget", SNIC_FUSE__IN(batch_forget), 0, {0, 0}, FUSE_DATA_FORGETS, FUSE_NO_REPLY},
    [SNIC_FUSE_FALLOCATE] = {"fallocate", SNIC_FUSE__IN(fallocate), 0, {0, 0}, 0, 0},
    [SNIC_FUSE_READDIRPLUS] = {"readdirplus", SNIC_FUSE__IN(read), 0, {0, 0}, 0, 0},
    [SNIC_FUSE_RENAME2] = {"rename2", SNIC_FUSE__IN(rename), 0, {FUSE_ENTRY, FUSE_ENTRY}, 0, 0},
    [SNIC_FUSE_LSEEK] = {"lseek", SNIC_FUSE__IN(lseek), SNIC_FUSE__OUT(lseek), {0, 0}, 0, 0},
    [SNIC_FUSE_COPY_FILE_RANGE] =
        {"copy_file_range", SNIC_FUSE__IN(copy_file_range), SNIC_FUSE__OUT(write), {0, 0}, 0, 0},
    [SNIC_FUSE_SYNCFS] = {"syncfs", SNIC_FUSE__IN(syncfs), 0, {0, 0}, 0, 0},
    /* The kernel's name of a file without one is "/". */
    [SNIC_FUSE_TMPFILE] =
        {"tmpfile", SNIC_FUSE__IN(create), SNIC_FUSE__OUT(create), {FUSE_ANY, 0}, 0, FUSE_EXTENDS},
    [SNIC_FUSE_STATX] = {"statx", SNIC_FUSE__IN(statx), SNIC_FUSE__OUT(statx), {0, 0}, 0, 0},
    [SNIC_FUSE_COPY_FILE_RANGE_64] = {"copy_file_range_64",
                                      SNIC_FUSE__IN(copy_file_range),
                                      SNIC_FUSE__OUT(copy_file_range),
                                      {0, 0},
                                      0,
                                      0},
};

const struct fuse_rule *fuse_rule_of(uint32_t opcode)
{
    if (opcode >= SNIC_FUSE_OPCODES || fuse_rules[opcode].name == NULL)
        return NULL;
    return &fuse_rules[opcode];
}

int fuse_name_valid(const char *name, uint32_t size)
{
    if (size > SNIC_FUSE_NAME_MAX)
        return SNIC_ENAMETOOLONG;
    if (size == 0 || memchr(name, '/', size) != NULL || memchr(name, 0, size) != NULL)
        return SNIC_EINVAL;
    return 0;
}

const char *snic_fuse_name(uint32_t opcode)
{
    const struct fuse_rule *r = fuse_rule_of(opcode);
    return r != NULL ? r->name : "?";
}

int snic_fuse_in_size(uint32_t opcode, const struct snic_fuse_conn *conn)
{
    const struct fuse_rule *r = fuse_rule_of(opcode);
    if (r == NULL)
        return -1;
    if (opcode == SNIC_FUSE_SETXATTR && (conn->flags & SNIC_FUSE_SETXATTR_EXT) == 0)
        return 8;
    return r->in;
}

int snic_fuse_has_reply(uint32_t opcode)
{
    const struct fuse_rule *r = fuse_rule_of(opcode);
    return opcode != SNIC_FUSE_NOTIFY_REPLY && (r == NULL || (r->flags & FUSE_NO_REPLY) == 0);
}

int32_t snic_fuse_error(int64_t result)
{
    if (result >= 0)
        return 0;
    return result > -512 ? (int32_t)result : SNIC_EIO; /* the kernel takes no others */
}

int32_t snic_fuse_refusal(int result, uint32_t opcode)
{
    enum { FUSE_ENOTTY = -25, FUSE_ENOSYS = -38 }; /* of Linux */

    switch (result) {
    case SNIC_ENOTSUP:
        return opcode == SNIC_FUSE_IOCTL ? FUSE_ENOTTY : FUSE_ENOSYS;
    case SNIC_ENOTCONN:
    case SNIC_EPROTO:
    case SNIC_EVERSION:
        return SNIC_EIO;
    case SNIC_EMSGSIZE:
        return SNIC_EINVAL;
    default:
        return snic_fuse_error(result);
    }
}
