/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * Permissions: mode bits, ACLs (acl.c), sticky directories, and attributes of new inodes. The rules
 * are Linux's (fs/namei.c, fs/attr.c, fs/inode.c): a caller with uid 0 has all capabilities.
 * A request with SNIC_FSOP_CHECKED, and the engine's own operations, may do everything.
 */
#include "kvfs/ops.h"

int kvfs_may(struct kvfs_op *op, const struct snic_fsop_attr *a, uint32_t want)
{
    uint32_t mode = a->mode;
    if (kvfs_is_privileged(op))
        return 0;
    if (op->req->cred.uid == 0)
        return (want & KVFS_MAY_EXEC) != 0 && !kvfs_is_dir(a) && (mode & 0111) == 0 ? SNIC_EACCES
                                                                                    : 0;
    if (op->req->cred.uid == a->uid) {
        mode >>= 6;
    } else if ((a->flags & SNIC_KVFS_ATTR_ACL) != 0) {
        return kvfs_acl_may(op, a, want);
    } else if (kvfs_in_group(op, a->gid)) {
        mode >>= 3;
    }
    return (want & ~mode & 7u) != 0 ? SNIC_EACCES : 0;
}

int kvfs_may_delete(struct kvfs_op *op, const struct snic_fsop_attr *dir,
                    const struct snic_fsop_attr *victim)
{
    int rc = kvfs_may(op, dir, KVFS_MAY_WRITE | KVFS_MAY_EXEC);
    if (rc != 0)
        return rc;
    if ((dir->mode & KVFS_ISVTX) != 0 && !kvfs_is_owner(op, victim) && !kvfs_is_owner(op, dir))
        return SNIC_EPERM;
    return 0;
}

uint32_t kvfs_mode_killed(const struct kvfs_op *op, const struct snic_fsop_attr *a, int capable)
{
    uint32_t mode = a->mode;
    if (kvfs_is_dir(a))
        return mode;
    mode &= ~(uint32_t)KVFS_ISUID;
    if ((mode & 0010) != 0 || (!capable && !kvfs_in_group(op, a->gid)))
        mode &= ~(uint32_t)KVFS_ISGID;
    return mode;
}

int kvfs_make_attr(struct kvfs_op *op, const struct snic_fsop_attr *dir, uint64_t ino,
                   uint32_t mode, struct snic_fsop_attr *out)
{
    SNIC_ASSERT(op->req != NULL && kvfs_is_dir(dir));
    const struct snic_fsop_cred *c = &op->req->cred;
    struct snic_fsop_time now = kvfs_time(op);
    uint32_t type = mode & KVFS_IFMT;
    memset(out, 0, sizeof(*out));
    out->ino = ino;
    out->nlink = type == KVFS_IFDIR ? 2 : 1;
    out->uid = c->uid;
    out->gid = (dir->mode & KVFS_ISGID) != 0 ? dir->gid : c->gid;
    out->atime = out->mtime = out->ctime = out->btime = now;
    out->parent = dir->ino;
    if (type == KVFS_IFLNK) {
        out->mode = KVFS_IFLNK | 0777;
        return 0;
    }
    if (type == KVFS_IFDIR)
        mode = type | (mode & 01777u) | (dir->mode & KVFS_ISGID);
    else if ((mode & 02010) == 02010 && (dir->mode & KVFS_ISGID) != 0 && !kvfs_is_privileged(op) &&
             c->uid != 0 && !kvfs_in_group(op, dir->gid))
        mode &= ~(uint32_t)KVFS_ISGID;
    out->mode = type | (mode & 07777u);
    if ((dir->flags & SNIC_KVFS_ATTR_DEFAULT_ACL) != 0)
        return kvfs_acl_inherit(op, dir, out);
    out->mode &= ~(c->umask & 0777u);
    return 0;
}
