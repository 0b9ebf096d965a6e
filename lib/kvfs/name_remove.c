/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * Requests unlink, rmdir and link, and the names recorded in an inode.
 *
 * I1. nlink is the number of names of a file; of a directory it is 2 plus the number of its
 *     subdirectories, and 0 once it is removed. A directory's `entries` counts the names in it.
 * I2. A file's inode records each of its names: one, the first, in the attributes
 *     (SNIC_KVFS_ATTR_PARENT), the others as 'P' records. There are nlink - 1 others, or nlink
 *     when the attributes have none, and SNIC_KVFS_ATTR_PARENTS is set iff there are any.
 * I3. After a crash the hash of the first name may be out of date, since a rename within a
 *     directory defers its update. So a name without a 'P' record is taken to be the first.
 * I4. No name is added to a directory whose nlink is 0.
 */
#include "kvfs/ops.h"

static void kvfs_name_remove_collect(struct kvfs_op *op, uint64_t ino)
{
    const struct kvfs_inode *i = kvfs_inode_find(op->k, ino);
    if (i == NULL || i->orphan)
        kvfs_collect(op->k, ino);
}

/* ---- Names recorded in an inode (I2) ---- */

/* The number of 'P' names. */
static uint64_t kvfs_name_remove_others(const struct snic_fsop_attr *a)
{
    return a->nlink - ((a->flags & SNIC_KVFS_ATTR_PARENT) != 0 ? 1u : 0u);
}

/* *count is the number of names that a 'P' record stands for; 0: no record. */
static int kvfs_name_remove_count(struct kvfs_op *op, const struct snic_kvop_key *key,
                                  uint32_t *count)
{
    const void *body;
    uint32_t size;
    int rc = kvfs_get(op, key, &body, &size);
    *count = 0;
    if (rc != 0)
        return rc == SNIC_ENOENT ? 0 : rc;
    *count = size == 4 ? snic_get_le32(body) : 0;
    if (*count != 0)
        return 0;
    kvfs_report_damage(op->k, key, "name record malformed");
    return SNIC_ECORRUPT;
}

static int kvfs_name_remove_record(struct kvfs_op *op, const struct snic_kvop_key *key,
                                   uint32_t count)
{
    unsigned char body[4];
    if (count == 0)
        return kvfs_delete(op, key);
    snic_put_le32(body, count);
    return kvfs_put(op, key, body, sizeof(body));
}

int kvfs_name_add(struct kvfs_op *op, struct snic_fsop_attr *a, uint64_t dir,
                  struct snic_fsop_hash h)
{
    struct snic_kvop_key key;
    uint32_t count = 0;
    int rc;
    if ((a->flags & SNIC_KVFS_ATTR_PARENT) == 0) {
        a->flags |= SNIC_KVFS_ATTR_PARENT;
        a->parent = dir;
        a->name = h;
        a->nlink++;
        return 0;
    }
    snic_kvfs_key_parent(&key, a->ino, dir, h);
    if ((a->flags & SNIC_KVFS_ATTR_PARENTS) != 0) {
        rc = kvfs_name_remove_count(op, &key, &count);
        if (rc != 0)
            return rc;
    }
    a->flags |= SNIC_KVFS_ATTR_PARENTS;
    a->nlink++;
    return kvfs_name_remove_record(op, &key, count + 1);
}

int kvfs_name_drop(struct kvfs_op *op, struct snic_fsop_attr *a, uint64_t dir,
                   struct snic_fsop_hash h)
{
    struct snic_kvop_key key;
    uint32_t count = 0;
    int rc = 0;
    if (a->nlink == 0)
        return kvfs_retry_torn(op, a->ino, "inode has a name, but nlink 0");
    if ((a->flags & SNIC_KVFS_ATTR_PARENTS) != 0) {
        snic_kvfs_key_parent(&key, a->ino, dir, h);
        rc = kvfs_name_remove_count(op, &key, &count);
        if (rc == 0 && count != 0)
            rc = kvfs_name_remove_record(op, &key, count - 1);
        if (rc != 0)
            return rc;
    }
    a->nlink--;
    if (count == 0) { /* I3 */
        a->flags &= ~SNIC_KVFS_ATTR_PARENT;
        a->parent = 0;
        memset(&a->name, 0, sizeof(a->name));
    }
    if (kvfs_name_remove_others(a) == 0)
        a->flags &= ~SNIC_KVFS_ATTR_PARENTS;
    return 0;
}

/* ---- unlink, rmdir ---- */

enum { KVFS_NAME_REMOVE_S_GONE = 0 }; /* op->s: the inode that lost its last name, 0: none */

/* Lock and read the directory and the name's inode, and check that the caller may remove it.
 * @return 0; KVFS_PENDING; SNIC_E* */
static int kvfs_name_remove_find(struct kvfs_op *op, struct snic_fsop_attr *dir,
                                 struct snic_fsop_attr *victim, struct kvfs_found *found)
{
    const struct snic_fsop *req = op->req;
    int rc = kvfs_lock(op, op->ino, KVFS_EXCLUSIVE);
    if (rc != 0)
        return rc;
    kvfs_entry_prefetch(op, op->ino, req->name, req->name_size);
    rc = kvfs_get_attr(op, op->ino, dir);
    if (rc != 0)
        return rc;
    if (!kvfs_is_dir(dir))
        return SNIC_ENOTDIR;
    rc = kvfs_may(op, dir, KVFS_MAY_EXEC);
    if (rc == 0)
        rc = kvfs_entry_get(op, op->ino, req->name, req->name_size, found);
    if (rc == 0)
        rc = kvfs_lock(op, found->ino, KVFS_EXCLUSIVE);
    if (rc == 0)
        rc = kvfs_get_named(op, found->ino, victim);
    if (rc == 0)
        rc = kvfs_may_delete(op, dir, victim);
    return rc;
}

/* After the commit: collect the removed inode, unless it is still open. */
static int kvfs_name_remove_done(struct kvfs_op *op)
{
    if (op->s[KVFS_NAME_REMOVE_S_GONE] != 0 && !kvfs_inode_hold(op, op->s[KVFS_NAME_REMOVE_S_GONE]))
        kvfs_name_remove_collect(op, op->s[KVFS_NAME_REMOVE_S_GONE]);
    return 0;
}

/* Remove the name and store the inode's new attributes *victim, or orphan it when nlink is 0. */
static int kvfs_name_remove_commit(struct kvfs_op *op, struct snic_fsop_attr *dir,
                                   const struct snic_fsop_attr *victim)
{
    const struct snic_fsop *req = op->req;
    int rc = kvfs_entry_delete(op, op->ino, req->name, req->name_size);
    if (rc != 0)
        return rc;
    if (dir->entries == 0)
        return kvfs_retry_torn(op, dir->ino, "directory has more names than it counts");
    dir->entries--;
    dir->mtime = dir->ctime = kvfs_time(op);
    rc = kvfs_put_attr(op, dir);
    if (rc == 0)
        rc = victim->nlink == 0 ? kvfs_orphan(op, victim) : kvfs_put_attr(op, victim);
    op->reserve = 1;
    op->s[KVFS_NAME_REMOVE_S_GONE] = victim->nlink == 0 ? victim->ino : 0;
    if (rc == 0)
        rc = kvfs_commit(op, 0);
    return rc != 0 ? rc : kvfs_name_remove_done(op);
}

int kvfs_run_unlink(struct kvfs_op *op)
{
    struct snic_fsop_attr dir, victim;
    struct kvfs_found found;
    int rc;
    if (kvfs_committed(op))
        return kvfs_name_remove_done(op);
    if (op->req->name_size == 0)
        return SNIC_ENOENT;
    if (kvfs_name_dots(op->req->name, op->req->name_size) != 0)
        return SNIC_EISDIR;
    rc = kvfs_name_remove_find(op, &dir, &victim, &found);
    if (rc != 0)
        return rc;
    if (kvfs_is_dir(&victim))
        return SNIC_EISDIR;
    rc = kvfs_name_drop(op, &victim, dir.ino, found.hash);
    if (rc != 0)
        return rc;
    victim.ctime = kvfs_time(op);
    return kvfs_name_remove_commit(op, &dir, &victim);
}

int kvfs_run_rmdir(struct kvfs_op *op)
{
    struct snic_fsop_attr dir, victim;
    struct kvfs_found found;
    int dots = kvfs_name_dots(op->req->name, op->req->name_size);
    int rc;
    if (kvfs_committed(op))
        return kvfs_name_remove_done(op);
    if (op->req->name_size == 0)
        return SNIC_ENOENT;
    if (dots != 0)
        return dots == 1 ? SNIC_EINVAL : SNIC_ENOTEMPTY;
    rc = kvfs_name_remove_find(op, &dir, &victim, &found);
    if (rc != 0)
        return rc;
    if (!kvfs_is_dir(&victim))
        return SNIC_ENOTDIR;
    if (victim.entries != 0)
        return SNIC_ENOTEMPTY;
    if (dir.nlink < 3)
        return kvfs_retry_torn(op, dir.ino, "directory has fewer links than subdirectories");
    dir.nlink--;
    victim.nlink = 0;
    victim.ctime = kvfs_time(op);
    return kvfs_name_remove_commit(op, &dir, &victim);
}

/* ---- link ---- */

static int kvfs_name_remove_may_link(struct kvfs_op *op, const struct snic_fsop_attr *dir,
                                     const struct snic_fsop_attr *file)
{
    int rc;
    if (dir->nlink == 0) /* I4 */
        return SNIC_ENOENT;
    rc = kvfs_may(op, dir, KVFS_MAY_WRITE | KVFS_MAY_EXEC);
    if (rc != 0)
        return rc;
    if (kvfs_is_dir(file))
        return SNIC_EPERM;
    if (file->nlink == 0)
        return SNIC_ENOENT;
    return file->nlink >= SNIC_KVFS_LINK_MAX ? SNIC_EMLINK : 0;
}

int kvfs_run_link(struct kvfs_op *op)
{
    const struct snic_fsop *req = op->req;
    struct snic_fsop_attr dir, file;
    struct kvfs_found found;
    int rc = kvfs_name_dots(req->name2, req->name2_size) != 0
                 ? SNIC_EEXIST
                 : kvfs_name_check(req->name2, req->name2_size);
    if (rc == 0)
        rc = kvfs_lock(op, op->ino, KVFS_EXCLUSIVE);
    if (rc == 0)
        rc = kvfs_lock(op, op->ino2, KVFS_EXCLUSIVE);
    if (rc != 0)
        return rc;
    kvfs_attr_prefetch(op, op->ino);
    kvfs_entry_prefetch(op, op->ino2, req->name2, req->name2_size);
    rc = kvfs_get_attr(op, op->ino2, &dir);
    if (rc == 0)
        rc = kvfs_get_attr(op, op->ino, &file);
    if (rc == 0)
        rc = kvfs_is_dir(&dir) ? kvfs_may(op, &dir, KVFS_MAY_EXEC) : SNIC_ENOTDIR;
    if (rc != 0)
        return rc;
    rc = kvfs_entry_get(op, op->ino2, req->name2, req->name2_size, &found);
    if (rc != SNIC_ENOENT)
        return rc == 0 ? SNIC_EEXIST : rc;
    rc = kvfs_name_remove_may_link(op, &dir, &file);
    if (rc == 0)
        rc = kvfs_name_add(op, &file, dir.ino, kvfs_name_hash(op, req->name2, req->name2_size));
    if (rc == 0)
        rc = kvfs_entry_put(op, dir.ino, req->name2, req->name2_size, file.ino,
                            file.mode & KVFS_IFMT);
    if (rc != 0)
        return rc;
    dir.entries++;
    dir.mtime = dir.ctime = file.ctime = kvfs_time(op);
    rc = kvfs_put_attr(op, &dir);
    if (rc == 0)
        rc = kvfs_put_attr(op, &file);
    return rc != 0 ? rc : kvfs_commit_reply(op, &file);
}
