/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * Extended attributes: a record each, in the inode's group, found by the name's hash. The body
 * is u16 name size, name, value; the name is verified, since hashes may be equal.
 *
 * I1. While an inode has such a record, SNIC_KVFS_ATTR_XATTR is set in its attributes; the flag may
 *     stay when the last one is removed.
 * I2. Each change raises the attributes' version, so that an operation guarded by the attributes
 *     has read the right extended attributes, too.
 */
#include "kvfs/ops.h"

enum kvfs_xattr_space {
    KVFS_XATTR_NONE = 0,
    KVFS_XATTR_USER,
    KVFS_XATTR_TRUSTED,
    KVFS_XATTR_SECURITY,
    KVFS_XATTR_ACL_ACCESS,
    KVFS_XATTR_ACL_DEFAULT
};

static enum kvfs_xattr_space kvfs_xattr_space_of(const char *name, uint32_t size)
{
    static const struct {
        const char *prefix;
        uint32_t size;
        enum kvfs_xattr_space space;
    } spaces[] = {{"user.", 5, KVFS_XATTR_USER},
                  {"trusted.", 8, KVFS_XATTR_TRUSTED},
                  {"security.", 9, KVFS_XATTR_SECURITY}};
    int acl = kvfs_acl_name(name, size);
    if (acl != 0)
        return acl == KVFS_ACL_ACCESS ? KVFS_XATTR_ACL_ACCESS : KVFS_XATTR_ACL_DEFAULT;
    for (uint32_t i = 0; i < sizeof(spaces) / sizeof(spaces[0]); i++) {
        if (size >= spaces[i].size && memcmp(name, spaces[i].prefix, spaces[i].size) == 0)
            return spaces[i].space;
    }
    return KVFS_XATTR_NONE;
}

/* The request's name. 0; SNIC_ERANGE; SNIC_EINVAL; SNIC_ENOTSUP. */
static int kvfs_xattr_name_check(const struct snic_fsop *req, enum kvfs_xattr_space *space)
{
    if (req->name_size == 0 || req->name_size > SNIC_FSOP_XATTR_NAME_MAX)
        return SNIC_ERANGE;
    if (memchr(req->name, 0, req->name_size) != NULL)
        return SNIC_EINVAL;
    *space = kvfs_xattr_space_of(req->name, req->name_size);
    if (*space == KVFS_XATTR_NONE)
        return SNIC_ENOTSUP;
    return req->name[req->name_size - 1] == '.' &&
                   memchr(req->name, '.', req->name_size) == req->name + req->name_size - 1
               ? SNIC_EINVAL /* a prefix alone */
               : 0;
}

/* Permissions; not for ACLs. 0; KVFS_PENDING; SNIC_EPERM, SNIC_ENODATA, SNIC_EACCES. */
static int kvfs_xattr_may(struct kvfs_op *op, const struct snic_fsop_attr *a,
                          enum kvfs_xattr_space space, int write)
{
    int root = op->req->cred.uid == 0 || (op->req->flags & SNIC_FSOP_CHECKED) != 0;
    if (space == KVFS_XATTR_SECURITY)
        return write && !root ? SNIC_EPERM : 0;
    if (space == KVFS_XATTR_TRUSTED) {
        if (op->req->cred.uid == 0)
            return 0;
        return write ? SNIC_EPERM : SNIC_ENODATA;
    }
    if (!kvfs_is_reg(a) && !kvfs_is_dir(a))
        return write ? SNIC_EPERM : SNIC_ENODATA;
    if (write && kvfs_is_dir(a) && (a->mode & KVFS_ISVTX) != 0 && !kvfs_is_owner(op, a))
        return SNIC_EPERM;
    return kvfs_may(op, a, write ? KVFS_MAY_WRITE : KVFS_MAY_READ);
}

/* The request's value in one piece. 0; SNIC_E2BIG; SNIC_ENOMEM. */
static int kvfs_xattr_gather(struct kvfs_op *op, const void **value, uint32_t *size)
{
    const struct snic_fsop *req = op->req;
    unsigned char *to;
    size_t all = 0;
    for (uint32_t i = 0; i < req->iov_count; i++) {
        if (req->iov[i].size > SNIC_FSOP_XATTR_VALUE_MAX - all)
            return SNIC_E2BIG;
        all += req->iov[i].size;
    }
    *size = (uint32_t)all;
    *value = req->iov_count == 0 ? NULL : req->iov[0].base;
    if (req->iov_count <= 1 || all == 0)
        return 0;
    to = kvfs_alloc(op, all);
    if (to == NULL)
        return SNIC_ENOMEM;
    *value = to;
    for (uint32_t i = 0; i < req->iov_count; i++) {
        if (req->iov[i].size != 0)
            memcpy(to, req->iov[i].base, req->iov[i].size);
        to += req->iov[i].size;
    }
    return 0;
}

/* Copy bytes to the caller: their number; SNIC_ERANGE. Without a buffer: the number alone. */
static int kvfs_xattr_answer(struct kvfs_op *op, const void *bytes, uint32_t size)
{
    const struct snic_fsop *req = op->req;
    if (req->iov_count != 0 && req->iov[0].size != 0) {
        if (req->iov[0].size < size)
            return SNIC_ERANGE;
        if (size != 0)
            memcpy(req->iov[0].base, bytes, size);
    }
    op->req->result = size;
    return 0;
}

/* ---- How many there may be ---- */

enum { KVFS_XATTR_BEGIN = 0, KVFS_XATTR_MORE /* pages of records */ }; /* op->phase */
/* op->s: bytes of names so far; the hash of the last record seen; of the attributes. */
enum { KVFS_XATTR_USED = 0, KVFS_XATTR_HIGH, KVFS_XATTR_LOW, KVFS_XATTR_VERSION };

/* Bytes of a page's names in a list. Damaged records are in no list. 0; KVFS_PENDING. */
static int kvfs_xattr_count_page(struct kvfs_op *op, const struct snic_kvop *page, uint64_t *used)
{
    struct snic_kvop_key key;
    for (const struct snic_kvop_record *r = snic_kvop_first(page); r != NULL;
         r = snic_kvop_next(page, r)) {
        const void *body, *value;
        const char *name;
        uint32_t size, name_size, value_size;
        int rc = kvfs_scan_record(op, page, r, &key, &body, &size);
        if (rc == 0 && kvfs_xattr_decode(body, size, &name, &name_size, &value, &value_size) == 0)
            *used += name_size + 1;
        if (rc == KVFS_PENDING)
            return rc;
    }
    return 0;
}

/*
 * Check that the list has space for the request's name, which is new. One page of records in each
 * round; all belong to one version of the attributes (I2), else it counts anew. All names count,
 * also those hidden from the caller. 0; SNIC_ENOSPC; KVFS_PENDING; SNIC_E*.
 */
static int kvfs_xattr_fits(struct kvfs_op *op, const struct snic_fsop_attr *a)
{
    struct snic_fsop_hash last = {0, 0};
    const struct snic_kvop *page;
    struct snic_kvop_key after;
    uint64_t used = 0;
    int rc;
    if ((a->flags & SNIC_KVFS_ATTR_XATTR) == 0)
        return 0;
    memset(&after, 0, sizeof(after));
    if (op->phase == KVFS_XATTR_MORE && op->s[KVFS_XATTR_VERSION] == a->version) {
        last = (struct snic_fsop_hash){op->s[KVFS_XATTR_HIGH], op->s[KVFS_XATTR_LOW]};
        snic_kvfs_key_hash(&after, op->ino, SNIC_KVFS_REC_XATTR, last);
        used = op->s[KVFS_XATTR_USED];
    }
    rc = kvfs_scan(op, op->ino, SNIC_KVFS_REC_XATTR, &after, UINT32_MAX, &page);
    if (rc == 0)
        rc = kvfs_xattr_count_page(op, page, &used);
    if (rc != 0)
        return rc;
    if (used + op->req->name_size + 1 > SNIC_FSOP_XATTR_LIST_MAX)
        return SNIC_ENOSPC;
    if (page->end)
        return 0;
    kvfs_scan_last(page, &last);
    op->s[KVFS_XATTR_USED] = used;
    op->s[KVFS_XATTR_HIGH] = last.high;
    op->s[KVFS_XATTR_LOW] = last.low;
    op->s[KVFS_XATTR_VERSION] = a->version;
    kvfs_io_forget(op, 0);
    return kvfs_next(op, KVFS_XATTR_MORE);
}

static int kvfs_xattr_set_acl(struct kvfs_op *op, struct snic_fsop_attr *a, int which,
                              const void *value, uint32_t size)
{
    uint32_t flag = which == KVFS_ACL_ACCESS ? SNIC_KVFS_ATTR_ACL : SNIC_KVFS_ATTR_DEFAULT_ACL;
    int rc = size == 0 || (a->flags & flag) != 0 ? 0 : kvfs_xattr_fits(op, a);
    return rc != 0 ? rc : kvfs_acl_set(op, a, which, value, size);
}

/* A user, trusted or security attribute, noted as a change. */
static int kvfs_xattr_set_plain(struct kvfs_op *op, struct snic_fsop_attr *a,
                                enum kvfs_xattr_space space, const void *value, uint32_t size)
{
    const struct snic_fsop *req = op->req;
    const void *old;
    uint32_t old_size;
    int rc = kvfs_xattr_may(op, a, space, 1);
    if (rc != 0)
        return rc;
    rc = kvfs_xattr_lookup(op, a->ino, req->name, req->name_size, 1, &old, &old_size);
    if (rc == 0 && (req->flags & SNIC_FSOP_XATTR_CREATE) != 0)
        return SNIC_EEXIST;
    if (rc == SNIC_ENODATA && (req->flags & SNIC_FSOP_XATTR_REPLACE) != 0)
        return SNIC_ENODATA;
    if (rc == SNIC_EEXIST) /* another name with this hash has the record */
        return SNIC_ENOSPC;
    if (rc == SNIC_ENODATA)
        rc = kvfs_xattr_fits(op, a);
    if (rc != 0)
        return rc;
    a->flags |= SNIC_KVFS_ATTR_XATTR;
    return kvfs_xattr_put(op, a->ino, req->name, req->name_size, value, size);
}

int kvfs_run_setxattr(struct kvfs_op *op)
{
    struct snic_fsop_attr a;
    enum kvfs_xattr_space space;
    const void *value;
    uint32_t size;
    int rc = kvfs_xattr_name_check(op->req, &space);
    if (rc == 0)
        rc = kvfs_xattr_gather(op, &value, &size);
    if (rc == 0)
        rc = kvfs_lock(op, op->ino, KVFS_EXCLUSIVE);
    if (rc == 0)
        rc = kvfs_get_attr(op, op->ino, &a);
    if (rc != 0)
        return rc;
    if (space == KVFS_XATTR_ACL_ACCESS)
        rc = kvfs_xattr_set_acl(op, &a, KVFS_ACL_ACCESS, value, size);
    else if (space == KVFS_XATTR_ACL_DEFAULT)
        rc = kvfs_xattr_set_acl(op, &a, KVFS_ACL_DEFAULT, value, size);
    else
        rc = kvfs_xattr_set_plain(op, &a, space, value, size);
    if (rc != 0)
        return rc;
    a.ctime = kvfs_time(op);
    rc = kvfs_put_attr(op, &a);
    return rc != 0 ? rc : kvfs_commit(op, 0);
}

int kvfs_run_getxattr(struct kvfs_op *op)
{
    struct snic_fsop_attr a;
    enum kvfs_xattr_space space;
    const void *value;
    uint32_t size;
    int rc = kvfs_xattr_name_check(op->req, &space);
    if (rc == 0)
        rc = kvfs_peek_attr(op, op->ino, &a);
    if (rc != 0)
        return rc;
    if (space == KVFS_XATTR_ACL_ACCESS || space == KVFS_XATTR_ACL_DEFAULT) {
        rc = kvfs_acl_get(op, &a,
                          space == KVFS_XATTR_ACL_ACCESS ? KVFS_ACL_ACCESS : KVFS_ACL_DEFAULT,
                          &value, &size);
    } else {
        rc = kvfs_xattr_may(op, &a, space, 0);
        if (rc == 0 && (a.flags & SNIC_KVFS_ATTR_XATTR) == 0)
            rc = SNIC_ENODATA;
        if (rc == 0)
            rc = kvfs_xattr_find(op, op->ino, op->req->name, op->req->name_size, 0, &value, &size);
    }
    return rc != 0 ? rc : kvfs_xattr_answer(op, value, size);
}

/* 1: it is in the list that this caller sees. */
static int kvfs_xattr_seen(const struct kvfs_op *op, const struct snic_fsop_attr *a,
                           const char *name, uint32_t size)
{
    switch (kvfs_xattr_space_of(name, size)) {
    case KVFS_XATTR_TRUSTED:
        return op->req->cred.uid == 0;
    case KVFS_XATTR_ACL_ACCESS:
        return (a->flags & SNIC_KVFS_ATTR_ACL) != 0;
    case KVFS_XATTR_ACL_DEFAULT:
        return (a->flags & SNIC_KVFS_ATTR_DEFAULT_ACL) != 0;
    case KVFS_XATTR_USER:
        return kvfs_is_reg(a) || kvfs_is_dir(a);
    case KVFS_XATTR_SECURITY:
        return 1;
    case KVFS_XATTR_NONE:
    default:
        return 0;
    }
}

/* Append a page's names to the *used bytes; beyond the caller's space they are counted. */
static int kvfs_xattr_list_page(struct kvfs_op *op, const struct snic_fsop_attr *a,
                                const struct snic_kvop *page, uint64_t *used)
{
    const struct snic_fsop *req = op->req;
    size_t room = req->iov_count == 0 ? 0 : req->iov[0].size;
    struct snic_kvop_key key;
    for (const struct snic_kvop_record *r = snic_kvop_first(page); r != NULL;
         r = snic_kvop_next(page, r)) {
        const void *body, *value;
        const char *name;
        uint32_t size, name_size, value_size;
        int rc = kvfs_scan_record(op, page, r, &key, &body, &size);
        if (rc == SNIC_ENOENT)
            continue;
        if (rc == 0 && kvfs_xattr_decode(body, size, &name, &name_size, &value, &value_size) != 0) {
            kvfs_report_damage(op->k, &key, "extended attribute malformed");
            rc = SNIC_ECORRUPT;
        }
        if (rc != 0)
            return rc;
        if (!kvfs_xattr_seen(op, a, name, name_size))
            continue;
        if (*used + name_size + 1 <= room) {
            memcpy((char *)req->iov[0].base + *used, name, name_size);
            ((char *)req->iov[0].base)[*used + name_size] = 0;
        }
        *used += name_size + 1;
    }
    return 0;
}

/* One page of records in each round. */
int kvfs_run_listxattr(struct kvfs_op *op)
{
    const struct snic_fsop *req = op->req;
    size_t room = req->iov_count == 0 ? 0 : req->iov[0].size;
    struct snic_fsop_hash last = {op->s[KVFS_XATTR_HIGH], op->s[KVFS_XATTR_LOW]};
    const struct snic_kvop *page;
    struct snic_kvop_key after;
    struct snic_fsop_attr a;
    uint64_t used = op->s[KVFS_XATTR_USED];
    int rc = kvfs_peek_attr(op, op->ino, &a);
    if (rc != 0)
        return rc;
    memset(&after, 0, sizeof(after));
    if (op->phase == KVFS_XATTR_MORE)
        snic_kvfs_key_hash(&after, op->ino, SNIC_KVFS_REC_XATTR, last);
    if ((a.flags & SNIC_KVFS_ATTR_XATTR) != 0) {
        rc = kvfs_scan(op, op->ino, SNIC_KVFS_REC_XATTR, &after, UINT32_MAX, &page);
        if (rc == 0)
            rc = kvfs_xattr_list_page(op, &a, page, &used);
        if (rc != 0)
            return rc;
        if (!page->end) {
            kvfs_scan_last(page, &last);
            op->s[KVFS_XATTR_USED] = used;
            op->s[KVFS_XATTR_HIGH] = last.high;
            op->s[KVFS_XATTR_LOW] = last.low;
            kvfs_io_forget(op, 0);
            return kvfs_next(op, KVFS_XATTR_MORE);
        }
    }
    if (room != 0 && used > room)
        return room >= SNIC_FSOP_XATTR_LIST_MAX ? SNIC_E2BIG : SNIC_ERANGE;
    op->req->result = (int64_t)used;
    return 0;
}

int kvfs_run_removexattr(struct kvfs_op *op)
{
    const struct snic_fsop *req = op->req;
    struct snic_fsop_attr a;
    struct snic_kvop_key key;
    enum kvfs_xattr_space space;
    const void *value;
    uint32_t size, flags;
    int rc = kvfs_xattr_name_check(req, &space);
    if (rc == 0)
        rc = kvfs_lock(op, op->ino, KVFS_EXCLUSIVE);
    if (rc == 0)
        rc = kvfs_get_attr(op, op->ino, &a);
    if (rc != 0)
        return rc;
    op->reserve = 1;
    flags = a.flags;
    if (space == KVFS_XATTR_ACL_ACCESS || space == KVFS_XATTR_ACL_DEFAULT) {
        rc = kvfs_acl_set(
            op, &a, space == KVFS_XATTR_ACL_ACCESS ? KVFS_ACL_ACCESS : KVFS_ACL_DEFAULT, NULL, 0);
        if (rc != 0 || flags == a.flags) /* there was none: nothing changes */
            return rc;
    } else {
        rc = kvfs_xattr_may(op, &a, space, 1);
        if (rc == 0)
            rc = kvfs_xattr_find(op, op->ino, req->name, req->name_size, 1, &value, &size);
        if (rc == 0) {
            kvfs_xattr_key(op, &key, op->ino, req->name, req->name_size);
            rc = kvfs_delete(op, &key);
        }
        if (rc != 0)
            return rc;
    }
    a.ctime = kvfs_time(op);
    rc = kvfs_put_attr(op, &a);
    return rc != 0 ? rc : kvfs_commit(op, 0);
}
