/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * Names: lookup, and creation of inodes.
 *
 * A lookup takes no lock: it reads an entry, then the attributes of its inode. Between the two the
 * name may be removed; then the attributes are missing, and it starts over.
 */
#include "kvfs/ops.h"

enum {
    KVFS_NAME_RESOLVE_STEPS = 16, /* names resolved before memory is released                 */
    KVFS_NAME_RESOLVE_MAX = 65536 /* bytes of a path                                          */
};
enum { KVFS_NAME_RESOLVE_BEGIN = 0, KVFS_NAME_RESOLVE_MORE }; /* op->phase */
enum { KVFS_NAME_AT = 0, KVFS_NAME_OFFSET };                  /* op->s: inode, offset in the path */

/* ---- Lookup ---- */

/* Look `name` up in `dir`, "." and ".." included. */
static int kvfs_name_lookup(struct kvfs_op *op, uint64_t dir, const char *name, uint32_t size,
                            struct snic_fsop_attr *out)
{
    struct snic_fsop_attr parent;
    struct kvfs_found found = {0};
    struct snic_kvop_key key;
    int dots = kvfs_name_dots(name, size), rc, found_rc = 0;
    if (!dots) {
        kvfs_entry_key(op->k, dir, name, size, &key, &found.hash);
        found_rc = kvfs_entry_peek_cached(op, &key, name, size, &found);
    }
    rc = kvfs_peek_attr_cached(op, dir, &parent); /* requested together */
    if (rc != 0)
        return rc;
    if (!kvfs_is_dir(&parent))
        return SNIC_ENOTDIR;
    rc = kvfs_may(op, &parent, KVFS_MAY_EXEC);
    if (rc != 0)
        return rc;
    if (dots == 1)
        found.ino = dir;
    else if (dots == 2)
        found.ino = dir == 0 ? 0 : parent.parent;
    else if (found_rc != 0)
        return found_rc;
    rc = kvfs_peek_attr_cached(op, found.ino, out);
    /* The entry exists, the inode does not: it was removed since, or the store is damaged. */
    return rc == SNIC_ENOENT ? kvfs_retry_torn(op, found.ino, "inode of a name is missing") : rc;
}

int kvfs_run_lookup(struct kvfs_op *op)
{
    struct snic_fsop_attr attr;
    int rc = kvfs_name_check(op->req->name, op->req->name_size);
    if (rc != 0)
        return rc;
    rc = kvfs_name_lookup(op, op->ino, op->req->name, op->req->name_size, &attr);
    if (rc == 0)
        kvfs_reply_attr(op, &attr);
    return rc;
}

/* ---- Resolve ---- */

/* The next name of the path at *at, "" at its end. */
static uint32_t kvfs_name_next(const struct snic_fsop *req, uint64_t *at)
{
    uint64_t from = *at, to;
    while (from < req->name_size && req->name[from] == '/')
        from++;
    for (to = from; to < req->name_size && req->name[to] != '/';)
        to++;
    *at = from;
    return (uint32_t)(to - from);
}

int kvfs_run_resolve(struct kvfs_op *op)
{
    const struct snic_fsop *req = op->req;
    struct snic_fsop_attr attr;
    uint64_t ino, at;
    uint32_t size;
    int rc;
    if (req->name_size == 0)
        return SNIC_ENOENT;
    if (req->name_size > KVFS_NAME_RESOLVE_MAX)
        return SNIC_ENAMETOOLONG;
    if (op->phase == KVFS_NAME_RESOLVE_BEGIN && req->name[0] != '/')
        op->s[KVFS_NAME_AT] = op->ino;
    ino = op->s[KVFS_NAME_AT];
    at = op->s[KVFS_NAME_OFFSET];
    for (uint32_t steps = 0;; steps++) {
        size = kvfs_name_next(req, &at);
        if (size == 0)
            break;
        if (size > SNIC_FSOP_NAME_MAX)
            return SNIC_ENAMETOOLONG;
        if (steps == KVFS_NAME_RESOLVE_STEPS) {
            op->s[KVFS_NAME_AT] = ino;
            op->s[KVFS_NAME_OFFSET] = at;
            return kvfs_next(op, KVFS_NAME_RESOLVE_MORE);
        }
        rc = kvfs_name_lookup(op, ino, req->name + at, size, &attr);
        if (rc != 0)
            return rc;
        ino = attr.ino;
        at += size;
    }
    rc = kvfs_peek_attr(op, ino, &attr);
    if (rc != 0)
        return rc;
    if (req->name[req->name_size - 1] == '/' && !kvfs_is_dir(&attr))
        return SNIC_ENOTDIR;
    kvfs_reply_attr(op, &attr);
    return 0;
}

/* ---- Making ---- */

/* The type and permissions of the new inode, 0: not permitted. */
static uint32_t kvfs_name_mode(const struct snic_fsop *req)
{
    uint32_t type = req->mode & KVFS_IFMT;
    uint32_t bits = req->mode & 07777U;
    switch (req->kind) {
    case SNIC_FSOP_MKDIR:
        return KVFS_IFDIR | bits;
    case SNIC_FSOP_SYMLINK:
        return KVFS_IFLNK | 0777U;
    case SNIC_FSOP_CREATE:
        return KVFS_IFREG | bits;
    default:
        if (type == 0)
            type = KVFS_IFREG;
        return type == KVFS_IFREG || type == KVFS_IFIFO || type == KVFS_IFCHR ||
                       type == KVFS_IFBLK || type == KVFS_IFSOCK
                   ? type | bits
                   : 0;
    }
}

static int kvfs_name_make_check(const struct snic_fsop *req)
{
    int rc = kvfs_name_check(req->name, req->name_size);
    if (rc != 0)
        return rc;
    if (kvfs_name_dots(req->name, req->name_size))
        return SNIC_EEXIST;
    if (kvfs_name_mode(req) == 0)
        return SNIC_EINVAL;
    if (req->kind != SNIC_FSOP_SYMLINK)
        return 0;
    if (req->name2_size == 0)
        return SNIC_ENOENT;
    return req->name2_size > SNIC_FSOP_SYMLINK_MAX ? SNIC_ENAMETOOLONG : 0;
}

/* The directory, and an inode that has the name already: read together. */
static int kvfs_name_make_read(struct kvfs_op *op, const struct snic_kvop_key *key,
                               struct snic_fsop_attr *dir, struct kvfs_found *found)
{
    const struct snic_fsop *req = op->req;
    int found_rc = kvfs_entry_get_at(op, key, req->name, req->name_size, found);
    int rc = kvfs_get_attr(op, op->ino, dir);
    if (rc != 0)
        return rc;
    if (!kvfs_is_dir(dir))
        return SNIC_ENOTDIR;
    if (dir->nlink == 0)
        return SNIC_ENOENT;
    if (found_rc == SNIC_ENOENT)
        found->ino = 0;
    return found_rc == SNIC_ENOENT ? 0 : found_rc;
}

/* The directory with one more name. */
static int kvfs_name_make_dir(struct kvfs_op *op, struct snic_fsop_attr *dir, uint32_t mode)
{
    if ((mode & KVFS_IFMT) == KVFS_IFDIR) {
        if (dir->nlink >= SNIC_KVFS_LINK_MAX)
            return SNIC_EMLINK;
        dir->nlink++;
    }
    dir->entries++;
    dir->mtime = kvfs_time(op);
    dir->ctime = dir->mtime;
    return kvfs_put_attr(op, dir);
}

static int kvfs_name_make_inode(struct kvfs_op *op, const struct snic_fsop_attr *dir, uint64_t ino,
                                struct snic_fsop_hash hash, struct snic_fsop_attr *out)
{
    const struct snic_fsop *req = op->req;
    struct snic_kvop_key key;
    int rc = kvfs_make_attr(op, dir, ino, kvfs_name_mode(req), out);
    if (rc != 0)
        return rc;
    out->parent = op->ino;
    out->name = hash;
    out->flags |= SNIC_KVFS_ATTR_PARENT;
    out->rdev = req->kind == SNIC_FSOP_MKNOD ? req->rdev : 0;
    if (req->kind == SNIC_FSOP_SYMLINK) {
        out->size = req->name2_size;
        snic_kvfs_key(&key, ino, SNIC_KVFS_REC_TARGET);
        rc = kvfs_put(op, &key, req->name2, req->name2_size);
        if (rc != 0)
            return rc;
    }
    kvfs_mark_private(op, ino);
    rc = kvfs_put_attr(op, out);
    out->version++;
    return rc;
}

/* Commit all changes of a new name. The answer is filled in before it. */
static int kvfs_name_make_commit(struct kvfs_op *op, const struct snic_kvop_key *key,
                                 struct snic_fsop_attr *dir, struct snic_fsop_hash hash)
{
    const struct snic_fsop *req = op->req;
    struct snic_fsop_attr before = *dir, attr;
    uint64_t ino;
    int rc = kvfs_new_ino(op, &ino);
    if (rc == 0)
        rc = kvfs_lock(op, ino, KVFS_EXCLUSIVE); /* unknown to others yet: granted at once */
    if (rc == 0)
        rc = kvfs_name_make_dir(op, dir, kvfs_name_mode(req));
    if (rc == 0)
        rc = kvfs_name_make_inode(op, &before, ino, hash, &attr);
    if (rc == 0)
        rc = kvfs_entry_put_at(op, key, req->name, req->name_size, ino, attr.mode);
    if (rc != 0)
        return rc;
    kvfs_reply_attr(op, &attr);
    return kvfs_commit(op, 0);
}

/* After the commit. The inode is in memory, by its lock: it can be opened. */
static int kvfs_name_make_done(struct kvfs_op *op)
{
    struct snic_fsop *req = op->req;
    int rc = 0;
    if (req->kind == SNIC_FSOP_CREATE) {
        rc = kvfs_inode_open(op, req->attr.ino);
        req->handle = kvfs_handle(req->attr.ino, req->flags);
        kvfs_tail_set(op, req->attr.ino, 1);
    }
    return rc;
}

/*
 * The name is this operation's own, by its number: an earlier commit of it, assumed to have failed,
 * has happened.
 */
static int kvfs_name_make_late(struct kvfs_op *op)
{
    struct snic_fsop_attr attr;
    int rc = kvfs_lock(op, op->numbers[0], KVFS_EXCLUSIVE);
    if (rc == 0)
        rc = kvfs_peek_attr(op, op->numbers[0], &attr);
    if (rc != 0)
        return rc;
    kvfs_reply_attr(op, &attr);
    return kvfs_name_make_done(op);
}

/*
 * The name exists, its inode does not, or has no name any more: another session has removed it
 * meanwhile, or the store is damaged.
 */
static int kvfs_name_run_open(struct kvfs_op *op)
{
    int rc = kvfs_run_open(op);
    if (rc != SNIC_ENOENT && rc != SNIC_ESTALE)
        return rc;
    rc = kvfs_retry_torn(op, op->ino,
                         rc == SNIC_ENOENT ? "inode of a name is missing"
                                           : "inode has a name, but nlink 0");
    op->run = kvfs_run_make;
    op->ino = op->req->ino == SNIC_FSOP_ROOT ? 0 : op->req->ino;
    return rc;
}

/* CREATE of an existing name: it is opened, with the directory still locked. */
static int kvfs_name_create_open(struct kvfs_op *op, uint64_t ino)
{
    op->ino = ino;
    op->run = kvfs_name_run_open;
    return kvfs_restart(op);
}

int kvfs_run_make(struct kvfs_op *op)
{
    const struct snic_fsop *req = op->req;
    struct snic_fsop_attr dir;
    struct snic_kvop_key key;
    struct kvfs_found found = {0};
    int rc;
    if (kvfs_committed(op))
        return kvfs_name_make_done(op);
    rc = kvfs_name_make_check(req);
    if (rc == 0)
        rc = kvfs_lock(op, op->ino, KVFS_EXCLUSIVE);
    if (rc != 0)
        return rc;
    kvfs_entry_key(op->k, op->ino, req->name, req->name_size, &key, &found.hash);
    rc = kvfs_name_make_read(op, &key, &dir, &found);
    if (rc == 0)
        rc = kvfs_may(op, &dir, KVFS_MAY_EXEC);
    if (rc != 0)
        return rc;
    if (found.ino != 0) {
        if (op->number_count > 0 && found.ino == op->numbers[0])
            return kvfs_name_make_late(op);
        if (req->kind != SNIC_FSOP_CREATE || (req->flags & SNIC_FSOP_EXCL) != 0)
            return SNIC_EEXIST;
        return kvfs_name_create_open(op, found.ino);
    }
    rc = kvfs_may(op, &dir, KVFS_MAY_WRITE);
    if (rc == 0)
        rc = kvfs_name_make_commit(op, &key, &dir, found.hash);
    return rc == 0 ? kvfs_name_make_done(op) : rc;
}

/* ---- Readlink ---- */

int kvfs_run_readlink(struct kvfs_op *op)
{
    struct snic_fsop *req = op->req;
    struct snic_fsop_attr attr;
    struct snic_kvop_key key;
    const void *body;
    uint32_t size;
    int rc;
    if (req->iov_count == 0)
        return SNIC_EINVAL;
    snic_kvfs_key(&key, op->ino, SNIC_KVFS_REC_TARGET);
    kvfs_prefetch(op, &key);
    rc = kvfs_peek_attr(op, op->ino, &attr);
    if (rc != 0)
        return rc;
    if ((attr.mode & KVFS_IFMT) != KVFS_IFLNK)
        return SNIC_EINVAL;
    rc = kvfs_peek(op, &key, &body, &size);
    if (rc == SNIC_ENOENT) {
        kvfs_report_damage(op->k, &key, "target of a symbolic link is missing");
        return SNIC_ECORRUPT;
    }
    if (rc != 0)
        return rc;
    if (size > req->iov[0].size)
        size = (uint32_t)req->iov[0].size;
    memcpy(req->iov[0].base, body, size);
    req->result = size;
    return 0;
}
