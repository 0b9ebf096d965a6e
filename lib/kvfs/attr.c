/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * Attributes: getattr, setattr, access. Permissions and side effects are those of Linux's
 * setattr_prepare(), chown_common() and do_truncate().
 */
#include "kvfs/data_priv.h"

int kvfs_run_getattr(struct kvfs_op *op)
{
    struct snic_fsop_attr a;
    int rc = kvfs_peek_attr(op, op->ino, &a);
    if (rc == 0)
        kvfs_reply_attr(op, &a);
    return rc;
}

int kvfs_run_access(struct kvfs_op *op)
{
    struct snic_fsop_attr a;
    uint32_t type;
    int rc = (op->req->mode & ~7u) != 0 ? SNIC_EINVAL : kvfs_peek_attr(op, op->ino, &a);
    if (rc != 0)
        return rc;
    type = a.mode & KVFS_IFMT;
    if ((op->req->mode & KVFS_MAY_WRITE) != 0 && (op->k->o.flags & SNIC_KVFS_READ_ONLY) != 0 &&
        (type == KVFS_IFREG || type == KVFS_IFDIR || type == KVFS_IFLNK))
        return SNIC_EROFS;
    return kvfs_may(op, &a, op->req->mode);
}

/* ---- setattr ---- */

/* Owner or group is set; without any value, to the present one. */
static int kvfs_attr_is_chown(const struct snic_fsop *req)
{
    return (req->set_mask & (SNIC_FSOP_SET_UID | SNIC_FSOP_SET_GID)) != 0 ||
           (req->set_mask == 0 && (req->flags & SNIC_FSOP_KILL_PRIV) != 0);
}

/* Values that no caller may set. */
static int kvfs_attr_check_values(const struct snic_fsop *req, const struct snic_fsop_attr *a)
{
    uint32_t m = req->set_mask;
    const struct snic_fsop_attr *set = &req->attr;
    if ((m & ~((SNIC_FSOP_SET_CTIME << 1) - 1)) != 0)
        return SNIC_EINVAL;
    if (((m & SNIC_FSOP_SET_UID) != 0 && set->uid == UINT32_MAX) ||
        ((m & SNIC_FSOP_SET_GID) != 0 && set->gid == UINT32_MAX))
        return SNIC_EINVAL;
    if (((m & SNIC_FSOP_SET_ATIME) != 0 && set->atime.nsec >= 1000000000) ||
        ((m & SNIC_FSOP_SET_MTIME) != 0 && set->mtime.nsec >= 1000000000) ||
        ((m & SNIC_FSOP_SET_CTIME) != 0 && set->ctime.nsec >= 1000000000))
        return SNIC_EINVAL;
    if ((m & SNIC_FSOP_SET_SIZE) == 0 || kvfs_is_reg(a))
        return (m & SNIC_FSOP_SET_SIZE) != 0 && set->size > SNIC_KVFS_SIZE_MAX ? SNIC_EFBIG : 0;
    return kvfs_is_dir(a) ? SNIC_EISDIR : SNIC_EINVAL;
}

/* The caller's permission. For requests that were not CHECKED. */
static int kvfs_attr_check_caller(struct kvfs_op *op, const struct snic_fsop_attr *a)
{
    const struct snic_fsop *req = op->req;
    uint32_t m = req->set_mask;
    uint32_t times = m & (SNIC_FSOP_SET_ATIME | SNIC_FSOP_SET_ATIME_NOW | SNIC_FSOP_SET_MTIME |
                          SNIC_FSOP_SET_MTIME_NOW | SNIC_FSOP_SET_CTIME);
    int root = req->cred.uid == 0, owner = kvfs_is_owner(op, a);
    if ((m & SNIC_FSOP_SET_SIZE) != 0) {
        if (req->handle != 0 && (kvfs_handle_flags(req->handle) & SNIC_FSOP_OPEN_WRITE) == 0)
            return SNIC_EINVAL;
        if (req->handle == 0) {
            int rc = kvfs_may(op, a, KVFS_MAY_WRITE);
            if (rc != 0)
                return rc;
        }
    }
    if ((m & SNIC_FSOP_SET_UID) != 0 && !root && (!owner || req->attr.uid != a->uid))
        return SNIC_EPERM;
    if ((m & SNIC_FSOP_SET_GID) != 0 && !root &&
        (!owner || (req->attr.gid != a->gid && !kvfs_in_group(op, req->attr.gid))))
        return SNIC_EPERM;
    if ((m & SNIC_FSOP_SET_MODE) != 0 && !owner)
        return SNIC_EPERM;
    if (m == 0 && kvfs_attr_is_chown(req) && !owner && kvfs_mode_killed(op, a, 0) != a->mode)
        return SNIC_EPERM; /* it would be a chmod() */
    if (times == 0 || owner || (m & SNIC_FSOP_SET_SIZE) != 0)
        return 0;
    return times == (SNIC_FSOP_SET_ATIME_NOW | SNIC_FSOP_SET_MTIME_NOW)
               ? kvfs_may(op, a, KVFS_MAY_WRITE)
               : SNIC_EPERM;
}

/* The new mode: the value set, without bits that other changes clear. */
static uint32_t kvfs_attr_new_mode(const struct kvfs_op *op, const struct snic_fsop_attr *old,
                                   uint32_t gid)
{
    const struct snic_fsop *req = op->req;
    uint32_t m = req->set_mask, mode = old->mode;
    int checked = (req->flags & SNIC_FSOP_CHECKED) != 0;
    if (kvfs_attr_is_chown(req))
        mode = kvfs_mode_killed(op, old, req->cred.uid == 0);
    else if ((m & SNIC_FSOP_SET_SIZE) != 0 &&
             ((req->flags & SNIC_FSOP_KILL_PRIV) != 0 || (!checked && req->cred.uid != 0)))
        mode = kvfs_mode_killed(op, old, 0);
    if ((m & SNIC_FSOP_SET_MODE) == 0)
        return mode;
    mode = (mode & KVFS_IFMT) | (req->attr.mode & 07777u);
    if (!checked && req->cred.uid != 0 && !kvfs_in_group(op, gid))
        mode &= ~(uint32_t)KVFS_ISGID;
    return mode;
}

static void kvfs_attr_apply(const struct kvfs_op *op, struct snic_fsop_attr *a)
{
    const struct snic_fsop_attr *set = &op->req->attr;
    struct snic_fsop_time now = kvfs_time(op);
    uint32_t m = op->req->set_mask;
    uint32_t gid = (m & SNIC_FSOP_SET_GID) != 0 ? set->gid : a->gid;
    a->mode = kvfs_attr_new_mode(op, a, gid);
    a->gid = gid;
    if ((m & SNIC_FSOP_SET_UID) != 0)
        a->uid = set->uid;
    a->ctime = now;
    if ((m & (SNIC_FSOP_SET_MTIME_NOW | SNIC_FSOP_SET_SIZE)) != 0)
        a->mtime = now;
    if ((m & SNIC_FSOP_SET_ATIME_NOW) != 0)
        a->atime = now;
    if ((m & SNIC_FSOP_SET_ATIME) != 0 && (m & SNIC_FSOP_SET_ATIME_NOW) == 0)
        a->atime = set->atime;
    if ((m & SNIC_FSOP_SET_MTIME) != 0 && (m & SNIC_FSOP_SET_MTIME_NOW) == 0)
        a->mtime = set->mtime;
    if ((m & SNIC_FSOP_SET_CTIME) != 0)
        a->ctime = set->ctime;
}

/*
 * A chown() that sets nothing. CHECKED does not cover this (the kernel sends the same before it
 * changes bytes): from others than the owner it has no effect.
 */
static int kvfs_attr_takes_privileges(const struct kvfs_op *op, const struct snic_fsop_attr *a)
{
    const struct snic_fsop *req = op->req;
    return kvfs_attr_is_chown(req) && !kvfs_is_dir(a) &&
           ((req->flags & SNIC_FSOP_CHECKED) == 0 || req->cred.uid == 0 || req->cred.uid == a->uid);
}

int kvfs_run_setattr(struct kvfs_op *op)
{
    struct snic_fsop_attr a;
    int rc = kvfs_lock(op, op->ino, KVFS_EXCLUSIVE);
    if (rc == 0)
        rc = kvfs_get_attr(op, op->ino, &a);
    if (rc == 0 &&
        !kvfs_data_commits(op, KVFS_DATA_ONLY_STEP)) { /* later the owner may have changed */
        rc = kvfs_attr_check_values(op->req, &a);
        if (rc == 0 && (op->req->flags & SNIC_FSOP_CHECKED) == 0)
            rc = kvfs_attr_check_caller(op, &a);
    }
    if (rc != 0)
        return rc;
    if (op->req->set_mask == 0 && !kvfs_attr_takes_privileges(op, &a)) {
        kvfs_reply_attr(op, &a);
        return 0;
    }
    kvfs_attr_apply(op, &a);
    if ((op->req->set_mask & SNIC_FSOP_SET_SIZE) == 0) {
        if (kvfs_attr_is_chown(op->req) && !kvfs_is_dir(&a))
            rc = kvfs_data_strip(op, &a, 0);
        if (rc == 0)
            rc = kvfs_put_attr(op, &a);
        return rc != 0 ? rc : kvfs_commit_reply(op, &a);
    }
    rc = kvfs_truncate(op, &a, op->req->attr.size, KVFS_DATA_ONLY_STEP);
    if (rc == 0)
        kvfs_reply_attr(op, &a);
    return rc;
}
