/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * Rename: within a directory and across, over existing names, without replacing, exchanging.
 *
 * I1. Where a commit is limited to one group, a rename within a directory that replaces nothing
 *     changes only the directory's group: the inode's new ctime and name hash are deferred
 *     (kvfs_defer_times). Inodes with several known names are the exception. Elsewhere the inode's
 *     attributes are in the commit: that is cheaper than a commit of their own a second later.
 * I2. A move of a directory to another parent raises the record 'M', guarded. So such moves are
 *     serialised, in all sessions, and a path that was walked after 'M' was read is still that path
 *     when the commit happens. No directory is moved below itself.
 * I3. Phases: LOOK examines the request; when a walk is needed, WALK goes up KVFS_RENAME_PIECE
 *     directories a round; WALKED is LOOK again, but with the walk done, if nothing has changed.
 *     VERDICT checks once more whether a directory was moved, before it refuses.
 * I4. A walk of any length ends at the root, unless the store is damaged and parents form a cycle.
 *     The directory at the end of rounds 1, 2, 4, 8, ... is kept; a walk that reaches it again,
 *     with nothing moved since it began, is in a cycle (Brent's cycle detection).
 */
#include "kvfs/ops.h"

enum {
    KVFS_RENAME_LOOK = 0,
    KVFS_RENAME_WALK = 1,
    KVFS_RENAME_WALKED = 2,
    KVFS_RENAME_VERDICT = 3,
    KVFS_RENAME_PIECE = 48 /* directories in one round of the walk */
};
/* op->s */
enum {
    KVFS_RENAME_S_MOVES = 0, /* the record 'M' */
    KVFS_RENAME_S_AT = 1, /* the walk has reached this directory                                */
    KVFS_RENAME_S_SECOND = 2, /* 1: the walk from `from` for the target */
    KVFS_RENAME_S_SOURCE = 3, /* the inode that is searched for */
    KVFS_RENAME_S_TARGET = 4,
    KVFS_RENAME_S_ROUNDS = 5, /* of this walk */
    KVFS_RENAME_S_ERROR = 6,  /* result of the walk: enum below  */
    KVFS_RENAME_S_MARK = 7, /* I4: a directory where the walk was, 0 if none                      */
    KVFS_RENAME_S_GONE = 7  /* of the commit: the inode that lost its last name, 0 if none        */
};
/* Result of the walk. */
enum { KVFS_RENAME_BELOW = 0, KVFS_RENAME_NOT_EMPTY = 1, KVFS_RENAME_CIRCLE = 2 };

/* One side: a directory, a name in it, the inode it has. */
struct kvfs_name_rename_side {
    struct snic_fsop_attr *dir;
    const char *name;
    uint32_t size;
    int found;
    struct kvfs_found entry;
    struct snic_fsop_hash hash;
    struct snic_fsop_attr attr;
    int is_dir;
    int keep; /* I1: its attributes do not change in the commit                                */
};

struct kvfs_name_rename {
    struct snic_fsop_attr from_dir;
    struct snic_fsop_attr to_dir;
    struct kvfs_name_rename_side from;
    struct kvfs_name_rename_side to;
    int same; /* one directory                                                             */
    int exchange;
    int whiteout;
    int moving; /* a directory is moved to another parent (I2)                               */
    struct snic_fsop_time now;
};

/* ---- The request ---- */

static int kvfs_name_rename_check(const struct snic_fsop *req)
{
    const uint32_t not_exchanged = SNIC_FSOP_RENAME_NOREPLACE | SNIC_FSOP_RENAME_WHITEOUT;
    if ((req->flags & SNIC_FSOP_RENAME_EXCHANGE) != 0 && (req->flags & not_exchanged) != 0)
        return SNIC_EINVAL;
    if ((req->flags & SNIC_FSOP_RENAME_WHITEOUT) != 0 && (req->flags & SNIC_FSOP_CHECKED) == 0 &&
        req->cred.uid != 0)
        return SNIC_EPERM; /* as mknod() of a device */
    if (req->name_size == 0)
        return SNIC_ENOENT;
    if (kvfs_name_dots(req->name, req->name_size) != 0)
        return SNIC_EBUSY;
    if (kvfs_name_dots(req->name2, req->name2_size) != 0)
        return (req->flags & SNIC_FSOP_RENAME_NOREPLACE) != 0 ? SNIC_EEXIST : SNIC_EBUSY;
    return req->name_size > SNIC_FSOP_NAME_MAX ? SNIC_ENAMETOOLONG
                                               : kvfs_name_check(req->name2, req->name2_size);
}

static int kvfs_name_rename_lookup(struct kvfs_op *op, struct kvfs_name_rename_side *s)
{
    int rc = kvfs_entry_get(op, s->dir->ino, s->name, s->size, &s->entry);
    s->hash = kvfs_name_hash(op, s->name, s->size);
    s->found = rc == 0;
    s->is_dir = rc == 0 && s->entry.type == KVFS_IFDIR;
    return rc == SNIC_ENOENT ? 0 : rc;
}

/* Both directories and both names. */
static int kvfs_name_rename_read(struct kvfs_op *op, struct kvfs_name_rename *r)
{
    const struct snic_fsop *req = op->req;
    int rc;
    memset(r, 0, sizeof(*r));
    r->same = op->ino == op->ino2;
    r->exchange = (req->flags & SNIC_FSOP_RENAME_EXCHANGE) != 0;
    r->whiteout = (req->flags & SNIC_FSOP_RENAME_WHITEOUT) != 0;
    r->now = kvfs_time(op);
    r->from.dir = &r->from_dir;
    r->to.dir = r->same ? &r->from_dir : &r->to_dir;
    r->from.name = req->name;
    r->from.size = req->name_size;
    r->to.name = req->name2;
    r->to.size = req->name2_size;
    rc = kvfs_lock(op, op->ino, KVFS_EXCLUSIVE);
    if (rc == 0)
        rc = kvfs_lock(op, op->ino2, KVFS_EXCLUSIVE);
    if (rc != 0)
        return rc;
    kvfs_attr_prefetch(op, op->ino);
    kvfs_attr_prefetch(op, op->ino2);
    kvfs_entry_prefetch(op, op->ino, r->from.name, r->from.size);
    kvfs_entry_prefetch(op, op->ino2, r->to.name, r->to.size);
    rc = kvfs_get_attr(op, op->ino, r->from.dir);
    if (rc == 0 && !r->same)
        rc = kvfs_get_attr(op, op->ino2, r->to.dir);
    if (rc != 0)
        return rc;
    if (!kvfs_is_dir(r->from.dir) || !kvfs_is_dir(r->to.dir))
        return SNIC_ENOTDIR;
    rc = kvfs_may(op, r->from.dir, KVFS_MAY_EXEC);
    if (rc == 0 && !r->same)
        rc = kvfs_may(op, r->to.dir, KVFS_MAY_EXEC);
    if (rc == 0)
        rc = kvfs_name_rename_lookup(op, &r->from);
    if (rc == 0)
        rc = kvfs_name_rename_lookup(op, &r->to);
    return rc;
}

/* ---- No circles (I2) ---- */

/* The record of moves; guarded: raised, too. 0; KVFS_PENDING; SNIC_ECORRUPT. */
static int kvfs_name_rename_moves(struct kvfs_op *op, int guard, uint64_t *moves)
{
    struct snic_kvop_key key;
    const void *body;
    uint32_t size;
    int rc;
    snic_kvfs_key(&key, SNIC_KVFS_GROUP_SUPER, SNIC_KVFS_REC_MOVES);
    rc = guard ? kvfs_get(op, &key, &body, &size) : kvfs_peek(op, &key, &body, &size);
    *moves = 0;
    if (rc != 0)
        return rc == SNIC_ENOENT ? 0 : rc;
    if (size != 8) {
        kvfs_report_damage(op->k, &key, "record of directory moves malformed");
        return SNIC_ECORRUPT;
    }
    *moves = snic_get_le64(body);
    return 0;
}

static int kvfs_name_rename_raise(struct kvfs_op *op, uint64_t moves)
{
    struct snic_kvop_key key;
    unsigned char body[8];
    snic_kvfs_key(&key, SNIC_KVFS_GROUP_SUPER, SNIC_KVFS_REC_MOVES);
    snic_put_le64(body, moves + 1);
    return kvfs_put(op, &key, body, sizeof(body));
}

/* Begin the walk: from `to` upwards for the source, from `from` upwards for the target. */
static int kvfs_name_rename_walk_begin(struct kvfs_op *op, const struct kvfs_name_rename *r)
{
    uint64_t moves;
    int rc = kvfs_name_rename_moves(op, 0, &moves);
    if (rc != 0)
        return rc;
    op->s[KVFS_RENAME_S_MOVES] = moves;
    op->s[KVFS_RENAME_S_SECOND] = !r->from.is_dir;
    op->s[KVFS_RENAME_S_AT] = r->from.is_dir ? op->ino2 : op->ino;
    op->s[KVFS_RENAME_S_SOURCE] = r->from.entry.ino;
    op->s[KVFS_RENAME_S_TARGET] = r->to.is_dir ? r->to.entry.ino : 0;
    op->s[KVFS_RENAME_S_ROUNDS] = op->s[KVFS_RENAME_S_MARK] = 0;
    return kvfs_next(op, KVFS_RENAME_WALK);
}

/* The walk has reached the root, or its target (found). 0: continue with the second. */
static int kvfs_name_rename_walk_end(struct kvfs_op *op, int found)
{
    int second = op->s[KVFS_RENAME_S_SECOND] != 0;
    if (found) {
        int exchange = (op->req->flags & SNIC_FSOP_RENAME_EXCHANGE) != 0;
        op->s[KVFS_RENAME_S_ERROR] =
            second && !exchange ? KVFS_RENAME_NOT_EMPTY : KVFS_RENAME_BELOW;
        return kvfs_next(op, KVFS_RENAME_VERDICT);
    }
    if (second || op->s[KVFS_RENAME_S_TARGET] == 0)
        return kvfs_next(op, KVFS_RENAME_WALKED);
    op->s[KVFS_RENAME_S_SECOND] = 1;
    op->s[KVFS_RENAME_S_AT] = op->ino;
    op->s[KVFS_RENAME_S_ROUNDS] = op->s[KVFS_RENAME_S_MARK] = 0;
    return kvfs_next(op, KVFS_RENAME_WALK);
}

/* A piece of the walk, if nothing was moved since it began. */
static int kvfs_name_rename_walk(struct kvfs_op *op)
{
    uint64_t moves, at = op->s[KVFS_RENAME_S_AT];
    uint64_t look = op->s[KVFS_RENAME_S_SECOND] != 0 ? op->s[KVFS_RENAME_S_TARGET]
                                                     : op->s[KVFS_RENAME_S_SOURCE];
    struct snic_fsop_attr a;
    int rc = kvfs_name_rename_moves(op, 0, &moves);
    if (rc != 0)
        return rc;
    if (moves != op->s[KVFS_RENAME_S_MOVES])
        return kvfs_next(op, KVFS_RENAME_LOOK);
    for (uint32_t i = 0; i < KVFS_RENAME_PIECE; i++) {
        if (at == 0 || at == look)
            return kvfs_name_rename_walk_end(op, at == look);
        rc = kvfs_peek_attr(op, at, &a);
        if (rc == SNIC_ENOENT) {
            op->phase0 = KVFS_RENAME_LOOK; /* removed: the request is examined anew */
            return kvfs_retry_torn(op, at, "parent of a directory is missing");
        }
        if (rc != 0)
            return rc;
        at = a.parent;
    }
    op->s[KVFS_RENAME_S_AT] = at;
    if (at != 0 && at == op->s[KVFS_RENAME_S_MARK]) {
        op->s[KVFS_RENAME_S_ERROR] = KVFS_RENAME_CIRCLE;
        return kvfs_next(op, KVFS_RENAME_VERDICT);
    }
    op->s[KVFS_RENAME_S_ROUNDS]++;
    if (snic_is_pow2(op->s[KVFS_RENAME_S_ROUNDS]))
        op->s[KVFS_RENAME_S_MARK] = at; /* I4 */
    return kvfs_next(op, KVFS_RENAME_WALK);
}

/* The result of the walk is valid if nothing was moved meanwhile. */
static int kvfs_name_rename_verdict(struct kvfs_op *op)
{
    struct snic_kvop_key key;
    uint64_t moves;
    int rc = kvfs_name_rename_moves(op, 0, &moves);
    if (rc != 0)
        return rc;
    if (moves != op->s[KVFS_RENAME_S_MOVES])
        return kvfs_next(op, KVFS_RENAME_LOOK);
    if (op->s[KVFS_RENAME_S_ERROR] != KVFS_RENAME_CIRCLE)
        return op->s[KVFS_RENAME_S_ERROR] == KVFS_RENAME_NOT_EMPTY ? SNIC_ENOTEMPTY : SNIC_EINVAL;
    snic_kvfs_key(&key, op->s[KVFS_RENAME_S_AT], SNIC_KVFS_REC_ATTR);
    kvfs_report_damage(op->k, &key, "directory is below itself");
    return SNIC_ECORRUPT;
}

/* ---- Who may ---- */

/* Read the inodes and check the permissions. */
static int kvfs_name_rename_may(struct kvfs_op *op, struct kvfs_name_rename *r)
{
    int rc = kvfs_may_delete(op, r->from.dir, &r->from.attr);
    if (rc != 0)
        return rc;
    if (r->to.found) {
        rc = kvfs_may_delete(op, r->to.dir, &r->to.attr);
        if (rc == 0 && !r->exchange && r->from.is_dir != r->to.is_dir)
            rc = r->from.is_dir ? SNIC_ENOTDIR : SNIC_EISDIR;
    } else {
        rc = r->to.dir->nlink == 0 ? SNIC_ENOENT
                                   : kvfs_may(op, r->to.dir, KVFS_MAY_WRITE | KVFS_MAY_EXEC);
    }
    if (rc == 0 && r->from.is_dir && !r->same) /* its ".." changes */
        rc = kvfs_may(op, &r->from.attr, KVFS_MAY_WRITE);
    if (rc == 0 && r->exchange && r->to.is_dir && !r->same)
        rc = kvfs_may(op, &r->to.attr, KVFS_MAY_WRITE);
    if (rc != 0)
        return rc;
    if (!r->same && r->from.is_dir && !r->to.is_dir && r->to.dir->nlink >= SNIC_KVFS_LINK_MAX)
        return SNIC_EMLINK;
    if (!r->same && r->exchange && r->to.is_dir && !r->from.is_dir &&
        r->from.dir->nlink >= SNIC_KVFS_LINK_MAX)
        return SNIC_EMLINK;
    return !r->exchange && r->to.is_dir && r->to.attr.entries != 0 ? SNIC_ENOTEMPTY : 0;
}

/* Attributes of one side's inode, which is not part of the commit if possible (I1). */
static int kvfs_name_rename_attr(struct kvfs_op *op, const struct kvfs_name_rename *r,
                                 struct kvfs_name_rename_side *s, int replaced)
{
    const uint32_t names = SNIC_KVFS_ATTR_PARENT | SNIC_KVFS_ATTR_PARENTS;
    int rc = kvfs_lock(op, s->entry.ino, KVFS_EXCLUSIVE);
    if (rc != 0)
        return rc;
    if (r->same && !replaced && (op->k->o.caps & SNIC_KV_CAP_ATOMIC_MULTI) == 0) {
        rc = kvfs_peek_attr(op, s->entry.ino, &s->attr);
        if (rc == 0)
            s->keep = s->is_dir || (s->attr.flags & names) == SNIC_KVFS_ATTR_PARENT;
        else if (rc == SNIC_ENOENT)
            return kvfs_retry_torn(op, s->entry.ino, "inode of a name is missing");
    }
    if (rc == 0 && !s->keep)
        rc = kvfs_get_named(op, s->entry.ino, &s->attr);
    if (rc == 0 && s->is_dir != kvfs_is_dir(&s->attr))
        return kvfs_retry_torn(op, s->entry.ino, "inode has another type than its name");
    return rc;
}

/* ---- Changes ---- */

/* The inode of `s` gets the name of `to`. */
static int kvfs_name_rename_inode(struct kvfs_op *op, struct kvfs_name_rename *r,
                                  struct kvfs_name_rename_side *s,
                                  const struct kvfs_name_rename_side *to)
{
    uint32_t nlink = s->attr.nlink;
    int rc;
    s->attr.ctime = r->now;
    if (s->is_dir || s->keep) {
        s->attr.parent = to->dir->ino;
        s->attr.name = to->hash;
        return s->keep ? 0 : kvfs_put_attr(op, &s->attr);
    }
    rc = kvfs_name_drop(op, &s->attr, s->dir->ino, s->hash);
    if (rc == 0)
        rc = kvfs_name_add(op, &s->attr, to->dir->ino, to->hash);
    if (rc != 0)
        return rc;
    SNIC_ASSERT(s->attr.nlink == nlink);
    return kvfs_put_attr(op, &s->attr);
}

/* A directory loses a subdirectory. A damaged count must not wrap. */
static int kvfs_name_rename_lose(struct kvfs_op *op, struct snic_fsop_attr *dir)
{
    if (dir->nlink < 3)
        return kvfs_retry_torn(op, dir->ino, "directory has fewer links than subdirectories");
    dir->nlink--;
    return 0;
}

/* The inode whose name is replaced. */
static int kvfs_name_rename_victim(struct kvfs_op *op, struct kvfs_name_rename *r)
{
    struct snic_fsop_attr *a = &r->to.attr;
    int rc = 0;
    if (r->to.is_dir) {
        a->nlink = 0;
        rc = kvfs_name_rename_lose(op, r->to.dir);
    } else {
        rc = kvfs_name_drop(op, a, r->to.dir->ino, r->to.hash);
    }
    a->ctime = r->now;
    if (rc != 0)
        return rc;
    if (a->nlink != 0)
        return kvfs_put_attr(op, a);
    return r->to.is_dir ? kvfs_orphan(op, a) : kvfs_orphan_later(op, a);
}

static int kvfs_name_rename_dirs(struct kvfs_op *op, struct kvfs_name_rename *r)
{
    struct snic_fsop_attr *from = r->from.dir, *to = r->to.dir;
    int rc = 0;
    if (!r->exchange) {
        if (from->entries == 0)
            return kvfs_retry_torn(op, from->ino, "directory has more names than it counts");
        from->entries -= !r->whiteout;
        to->entries += !r->to.found;
    }
    if (!r->same && r->from.is_dir) {
        rc = kvfs_name_rename_lose(op, from);
        to->nlink++;
    }
    if (rc == 0 && !r->same && r->exchange && r->to.is_dir) {
        rc = kvfs_name_rename_lose(op, to);
        from->nlink++;
    }
    if (rc != 0)
        return rc;
    from->mtime = from->ctime = to->mtime = to->ctime = r->now;
    rc = kvfs_put_attr(op, from);
    return rc != 0 || r->same ? rc : kvfs_put_attr(op, to);
}

/* The whiteout that replaces the old name. */
static int kvfs_name_rename_whiteout(struct kvfs_op *op, struct kvfs_name_rename_side *s)
{
    struct snic_fsop_attr a;
    uint64_t ino;
    int rc = kvfs_new_ino(op, &ino);
    if (rc == 0)
        rc = kvfs_lock(op, ino, KVFS_EXCLUSIVE); /* unknown to others yet: granted at once */
    if (rc == 0)
        rc = kvfs_make_attr(op, s->dir, ino, KVFS_IFCHR, &a);
    if (rc != 0)
        return rc;
    a.name = s->hash;
    a.flags |= SNIC_KVFS_ATTR_PARENT;
    kvfs_mark_private(op, ino);
    rc = kvfs_put_attr(op, &a);
    return rc != 0 ? rc : kvfs_entry_put(op, s->dir->ino, s->name, s->size, ino, KVFS_IFCHR);
}

static int kvfs_name_rename_changes(struct kvfs_op *op, struct kvfs_name_rename *r)
{
    int rc = kvfs_entry_put(op, r->to.dir->ino, r->to.name, r->to.size, r->from.entry.ino,
                            r->from.entry.type);
    if (rc == 0)
        rc = r->exchange   ? kvfs_entry_put(op, r->from.dir->ino, r->from.name, r->from.size,
                                            r->to.entry.ino, r->to.entry.type)
             : r->whiteout ? kvfs_name_rename_whiteout(op, &r->from)
                           : kvfs_entry_delete(op, r->from.dir->ino, r->from.name, r->from.size);
    if (rc == 0)
        rc = kvfs_name_rename_inode(op, r, &r->from, &r->to);
    if (rc == 0 && r->to.found)
        rc = r->exchange ? kvfs_name_rename_inode(op, r, &r->to, &r->from)
                         : kvfs_name_rename_victim(op, r);
    return rc != 0 ? rc : kvfs_name_rename_dirs(op, r);
}

static int kvfs_name_rename_done(struct kvfs_op *op)
{
    if (op->s[KVFS_RENAME_S_GONE] != 0 && !kvfs_inode_hold(op, op->s[KVFS_RENAME_S_GONE]))
        kvfs_linger(op, op->s[KVFS_RENAME_S_GONE]);
    return 0;
}

static int kvfs_name_rename_commit(struct kvfs_op *op, struct kvfs_name_rename *r)
{
    int rc = kvfs_name_rename_changes(op, r);
    op->s[KVFS_RENAME_S_GONE] =
        r->to.found && !r->exchange && r->to.attr.nlink == 0 ? r->to.attr.ino : 0;
    if (rc == 0)
        rc = kvfs_commit(op, 0);
    if (rc != 0)
        return rc;
    if (r->from.keep)
        rc = kvfs_defer_times(op, &r->from.attr);
    if (rc == 0 && r->to.keep)
        rc = kvfs_defer_times(op, &r->to.attr);
    return rc == KVFS_PENDING ? rc : kvfs_name_rename_done(op);
}

/* The walk, and its place among all moves. 0: done, or not needed; KVFS_PENDING; SNIC_E*. */
static int kvfs_name_rename_order(struct kvfs_op *op, struct kvfs_name_rename *r)
{
    uint64_t moves, target = r->to.is_dir ? r->to.entry.ino : 0;
    int rc;
    r->moving = !r->same && (r->from.is_dir || (r->exchange && r->to.is_dir));
    if (r->same || (!r->from.is_dir && !r->to.is_dir))
        return 0;
    if (r->moving) { /* moves of this session wait for each other instead of failing */
        rc = kvfs_lock(op, SNIC_KVFS_GROUP_SUPER, KVFS_EXCLUSIVE);
        if (rc != 0)
            return rc;
    }
    if (op->phase != KVFS_RENAME_WALKED)
        return kvfs_name_rename_walk_begin(op, r);
    rc = kvfs_name_rename_moves(op, r->moving, &moves);
    if (rc != 0)
        return rc;
    if (moves != op->s[KVFS_RENAME_S_MOVES] || r->from.entry.ino != op->s[KVFS_RENAME_S_SOURCE] ||
        target != op->s[KVFS_RENAME_S_TARGET])
        return kvfs_next(op, KVFS_RENAME_LOOK);
    return r->moving ? kvfs_name_rename_raise(op, moves) : 0;
}

int kvfs_run_rename(struct kvfs_op *op)
{
    struct kvfs_name_rename r;
    int rc;
    if (kvfs_committed(op) && (op->k->o.caps & SNIC_KV_CAP_ATOMIC_MULTI) != 0)
        return kvfs_name_rename_done(op); /* I1: nothing is deferred */
    rc = kvfs_name_rename_check(op->req);
    if (rc != 0)
        return rc;
    if (op->phase == KVFS_RENAME_WALK)
        return kvfs_name_rename_walk(op);
    if (op->phase == KVFS_RENAME_VERDICT)
        return kvfs_name_rename_verdict(op);
    rc = kvfs_name_rename_read(op, &r);
    if (rc != 0)
        return rc;
    if (!r.from.found)
        return SNIC_ENOENT;
    if (r.to.found && (op->req->flags & SNIC_FSOP_RENAME_NOREPLACE) != 0)
        return SNIC_EEXIST;
    if (!r.to.found && r.exchange)
        return SNIC_ENOENT;
    if (r.to.found && r.from.entry.ino == r.to.entry.ino)
        return 0; /* two names of one inode: POSIX requires no action */
    rc = kvfs_name_rename_order(op, &r);
    if (rc == 0)
        rc = kvfs_name_rename_attr(op, &r, &r.from, 0);
    if (rc == 0 && r.to.found)
        rc = kvfs_name_rename_attr(op, &r, &r.to, !r.exchange);
    if (rc == 0)
        rc = kvfs_name_rename_may(op, &r);
    return rc != 0 ? rc : kvfs_name_rename_commit(op, &r);
}
