/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * POSIX access control lists (POSIX.1e draft 17, as Linux has them).
 *
 * They are kept as the extended attributes system.posix_acl_access and system.posix_acl_default in
 * Linux's wire format: u32 version 2, then entries of u16 tag, u16 permissions, u32 id, ordered by
 * tag.
 *
 * I1. An access ACL equivalent to the mode bits is not kept; SNIC_KVFS_ATTR_ACL is set iff one is
 *     kept.
 * I2. Of a kept access ACL the entries for owner, mask and others mean what the mode bits mean (a
 *     kept one has a mask, so that the group bits are the mask). Each reader of the record overlays
 *     them; so chmod changes the attributes alone.
 * I3. SNIC_KVFS_ATTR_DEFAULT_ACL is set iff a default ACL is kept; directories only.
 */
#include "kvfs/ops.h"

enum {
    KVFS_ACL_USER_OBJ = 0x01,
    KVFS_ACL_USER = 0x02,
    KVFS_ACL_GROUP_OBJ = 0x04,
    KVFS_ACL_GROUP = 0x08,
    KVFS_ACL_MASK = 0x10,
    KVFS_ACL_OTHER = 0x20,
    KVFS_ACL_END = 0x40,
    KVFS_ACL_HEAD = 4,
    KVFS_ACL_ENTRY = 8,
    KVFS_ACL_VERSION = 2
};

static const char kvfs_acl_access[] = "system.posix_acl_access";
static const char kvfs_acl_default[] = "system.posix_acl_default";

struct kvfs_acl_entry {
    uint32_t tag;
    uint32_t perm;
    uint32_t id;
};

static struct kvfs_acl_entry kvfs_acl_at(const unsigned char *value, uint32_t i)
{
    const unsigned char *p = value + KVFS_ACL_HEAD + (size_t)i * KVFS_ACL_ENTRY;
    struct kvfs_acl_entry e = {snic_get_le16(p), snic_get_le16(p + 2), snic_get_le32(p + 4)};
    return e;
}

static void kvfs_acl_set_perm(unsigned char *value, uint32_t i, uint32_t perm)
{
    snic_put_le16(value + KVFS_ACL_HEAD + (size_t)i * KVFS_ACL_ENTRY + 2, (uint16_t)perm);
}

static uint32_t kvfs_acl_count(uint32_t size)
{
    return (size - KVFS_ACL_HEAD) / KVFS_ACL_ENTRY;
}

/* An ACL's equivalent in mode bits, and whether it has more entries than those. */
struct kvfs_acl_sum {
    uint32_t count;
    uint32_t mode;
    int extended;
};

/* The next tag's place in the order: 0 if it is not permitted there. */
static uint32_t kvfs_acl_state(uint32_t state, const struct kvfs_acl_entry *e, int *extended)
{
    if (e->perm > 7)
        return 0;
    switch (e->tag) {
    case KVFS_ACL_USER_OBJ:
        return state == KVFS_ACL_USER_OBJ ? KVFS_ACL_USER : 0;
    case KVFS_ACL_USER:
    case KVFS_ACL_GROUP:
        *extended |= 1;
        return state == e->tag && e->id != UINT32_MAX ? state : 0;
    case KVFS_ACL_GROUP_OBJ:
        return state == KVFS_ACL_USER ? KVFS_ACL_GROUP : 0;
    case KVFS_ACL_MASK:
        *extended |= 2;
        return state == KVFS_ACL_GROUP ? KVFS_ACL_OTHER : 0;
    case KVFS_ACL_OTHER:
        return state == KVFS_ACL_OTHER || (state == KVFS_ACL_GROUP && (*extended & 1) == 0)
                   ? KVFS_ACL_END
                   : 0;
    default:
        return 0;
    }
}

/* 0; SNIC_ENOTSUP another version; SNIC_EINVAL. No entries at all are fine: count 0. */
static int kvfs_acl_parse(const unsigned char *value, uint32_t size, struct kvfs_acl_sum *sum)
{
    uint32_t state = KVFS_ACL_USER_OBJ;
    memset(sum, 0, sizeof(*sum));
    if (size < KVFS_ACL_HEAD)
        return SNIC_EINVAL;
    if (snic_get_le32(value) != KVFS_ACL_VERSION)
        return SNIC_ENOTSUP;
    if ((size - KVFS_ACL_HEAD) % KVFS_ACL_ENTRY != 0)
        return SNIC_EINVAL;
    sum->count = kvfs_acl_count(size);
    for (uint32_t i = 0; i < sum->count; i++) {
        struct kvfs_acl_entry e = kvfs_acl_at(value, i);
        state = kvfs_acl_state(state, &e, &sum->extended);
        if (state == 0)
            return SNIC_EINVAL;
        if (e.tag == KVFS_ACL_USER_OBJ)
            sum->mode |= e.perm << 6;
        else if (e.tag == KVFS_ACL_MASK)
            sum->mode = (sum->mode & ~070u) | e.perm << 3;
        else if (e.tag == KVFS_ACL_GROUP_OBJ)
            sum->mode |= e.perm << 3;
        else if (e.tag == KVFS_ACL_OTHER)
            sum->mode |= e.perm;
    }
    return sum->count == 0 || state == KVFS_ACL_END ? 0 : SNIC_EINVAL;
}

/* I2: owner, mask and others from the mode; without a mask, the group. */
static void kvfs_acl_overlay(unsigned char *value, uint32_t size, uint32_t mode)
{
    uint32_t count = kvfs_acl_count(size);
    uint32_t group = UINT32_MAX;
    for (uint32_t i = 0; i < count; i++) {
        struct kvfs_acl_entry e = kvfs_acl_at(value, i);
        if (e.tag == KVFS_ACL_USER_OBJ)
            kvfs_acl_set_perm(value, i, (mode >> 6) & 7);
        else if (e.tag == KVFS_ACL_MASK || (e.tag == KVFS_ACL_GROUP_OBJ && group == UINT32_MAX))
            group = i;
        else if (e.tag == KVFS_ACL_OTHER)
            kvfs_acl_set_perm(value, i, mode & 7);
    }
    if (group != UINT32_MAX)
        kvfs_acl_set_perm(value, group, (mode >> 3) & 7);
}

/* A kept one, verified. 0; SNIC_ENODATA; KVFS_PENDING; SNIC_E*. */
static int kvfs_acl_find(struct kvfs_op *op, uint64_t ino, int is_default,
                         const unsigned char **value, uint32_t *size, struct kvfs_acl_sum *sum)
{
    const void *found;
    struct snic_kvop_key key;
    const char *name = is_default ? kvfs_acl_default : kvfs_acl_access;
    uint32_t name_size = (uint32_t)strlen(name);
    int rc = kvfs_xattr_find(op, ino, name, name_size, 0, &found, size);
    if (rc != 0)
        return rc;
    *value = found;
    if (kvfs_acl_parse(found, *size, sum) != 0 || sum->count == 0) {
        kvfs_xattr_key(op, &key, ino, name, name_size);
        kvfs_report_damage(op->k, &key, "access control list malformed");
        return SNIC_ECORRUPT;
    }
    return 0;
}

int kvfs_acl_may(struct kvfs_op *op, const struct snic_fsop_attr *a, uint32_t want)
{
    const unsigned char *value;
    uint32_t size, mask = (a->mode >> 3) & 7u;
    struct kvfs_acl_sum sum;
    int member = 0;
    int rc = kvfs_acl_find(op, a->ino, 0, &value, &size, &sum);
    if (rc != 0)
        return rc == SNIC_ENODATA
                   ? kvfs_retry_torn(op, a->ino, "access control list missing, but flagged")
                   : rc;
    for (uint32_t i = 0; i < sum.count; i++) {
        struct kvfs_acl_entry e = kvfs_acl_at(value, i);
        if (e.tag == KVFS_ACL_USER && e.id == op->req->cred.uid)
            return (want & ~(e.perm & mask) & 7u) != 0 ? SNIC_EACCES : 0;
        if ((e.tag == KVFS_ACL_GROUP_OBJ && kvfs_in_group(op, a->gid)) ||
            (e.tag == KVFS_ACL_GROUP && kvfs_in_group(op, e.id))) {
            member = 1;
            if ((want & ~e.perm & 7u) == 0) /* the first that grants decides, under the mask */
                return (want & ~mask & 7u) != 0 ? SNIC_EACCES : 0;
        }
    }
    return member || (want & ~a->mode & 7u) != 0 ? SNIC_EACCES : 0;
}

int kvfs_acl_inherit(struct kvfs_op *op, const struct snic_fsop_attr *dir,
                     struct snic_fsop_attr *out)
{
    const unsigned char *value;
    unsigned char *copy;
    uint32_t size;
    struct kvfs_acl_sum sum;
    int rc = kvfs_acl_find(op, dir->ino, 1, &value, &size, &sum);
    if (rc != 0)
        return rc == SNIC_ENODATA
                   ? kvfs_retry_torn(op, dir->ino, "access control list missing, but flagged")
                   : rc;
    out->mode &= sum.mode | ~0777u;
    if (sum.extended) {
        copy = kvfs_alloc(op, size);
        if (copy == NULL)
            return SNIC_ENOMEM;
        memcpy(copy, value, size);
        kvfs_acl_overlay(copy, size, out->mode);
        rc = kvfs_xattr_put(op, out->ino, kvfs_acl_access, sizeof(kvfs_acl_access) - 1, copy, size);
        if (rc != 0)
            return rc;
        out->flags |= SNIC_KVFS_ATTR_ACL | SNIC_KVFS_ATTR_XATTR;
    }
    if (!kvfs_is_dir(out))
        return 0;
    out->flags |= SNIC_KVFS_ATTR_DEFAULT_ACL | SNIC_KVFS_ATTR_XATTR;
    return kvfs_xattr_put(op, out->ino, kvfs_acl_default, sizeof(kvfs_acl_default) - 1, value,
                          size);
}

int kvfs_acl_name(const char *name, uint32_t size)
{
    if (size == sizeof(kvfs_acl_access) - 1 && memcmp(name, kvfs_acl_access, size) == 0)
        return KVFS_ACL_ACCESS;
    if (size == sizeof(kvfs_acl_default) - 1 && memcmp(name, kvfs_acl_default, size) == 0)
        return KVFS_ACL_DEFAULT;
    return 0;
}

/* Remove it; a missing one is no error and changes nothing. */
static int kvfs_acl_remove(struct kvfs_op *op, struct snic_fsop_attr *a, int which)
{
    uint32_t flag = which == KVFS_ACL_ACCESS ? SNIC_KVFS_ATTR_ACL : SNIC_KVFS_ATTR_DEFAULT_ACL;
    const char *name = which == KVFS_ACL_ACCESS ? kvfs_acl_access : kvfs_acl_default;
    struct snic_kvop_key key;
    if ((a->flags & flag) == 0)
        return 0;
    kvfs_xattr_key(op, &key, a->ino, name, (uint32_t)strlen(name));
    a->flags &= ~flag;
    return kvfs_delete(op, &key);
}

static int kvfs_acl_set_access(struct kvfs_op *op, struct snic_fsop_attr *a, const void *value,
                               uint32_t size, const struct kvfs_acl_sum *sum)
{
    int kill = (op->req->flags & SNIC_FSOP_KILL_PRIV) != 0 ||
               ((op->req->flags & SNIC_FSOP_CHECKED) == 0 && op->req->cred.uid != 0);
    a->mode = (a->mode & ~0777u) | sum->mode;
    if (kill && !kvfs_in_group(op, a->gid))
        a->mode &= ~(uint32_t)KVFS_ISGID;
    if (!sum->extended) /* I1 */
        return kvfs_acl_remove(op, a, KVFS_ACL_ACCESS);
    a->flags |= SNIC_KVFS_ATTR_ACL | SNIC_KVFS_ATTR_XATTR;
    return kvfs_xattr_put(op, a->ino, kvfs_acl_access, sizeof(kvfs_acl_access) - 1, value, size);
}

int kvfs_acl_set(struct kvfs_op *op, struct snic_fsop_attr *a, int which, const void *value,
                 uint32_t size)
{
    struct kvfs_acl_sum sum = {0, 0, 0};
    int rc = size == 0 ? 0 : kvfs_acl_parse(value, size, &sum);
    if (rc != 0)
        return rc;
    if ((a->mode & KVFS_IFMT) == KVFS_IFLNK)
        return SNIC_ENOTSUP;
    if (which == KVFS_ACL_DEFAULT && !kvfs_is_dir(a))
        return sum.count != 0 ? SNIC_EACCES : 0;
    if (!kvfs_is_owner(op, a))
        return SNIC_EPERM;
    if (sum.count == 0)
        return kvfs_acl_remove(op, a, which);
    if (which == KVFS_ACL_ACCESS)
        return kvfs_acl_set_access(op, a, value, size, &sum);
    a->flags |= SNIC_KVFS_ATTR_DEFAULT_ACL | SNIC_KVFS_ATTR_XATTR;
    return kvfs_xattr_put(op, a->ino, kvfs_acl_default, sizeof(kvfs_acl_default) - 1, value, size);
}

int kvfs_acl_get(struct kvfs_op *op, const struct snic_fsop_attr *a, int which, const void **value,
                 uint32_t *size)
{
    uint32_t flag = which == KVFS_ACL_ACCESS ? SNIC_KVFS_ATTR_ACL : SNIC_KVFS_ATTR_DEFAULT_ACL;
    const unsigned char *found;
    struct kvfs_acl_sum sum;
    unsigned char *copy;
    int rc;
    if ((a->flags & flag) == 0)
        return SNIC_ENODATA;
    rc = kvfs_acl_find(op, a->ino, which == KVFS_ACL_DEFAULT, &found, size, &sum);
    if (rc != 0)
        return rc;
    *value = found;
    if (which == KVFS_ACL_DEFAULT)
        return 0;
    copy = kvfs_alloc(op, *size);
    if (copy == NULL)
        return SNIC_ENOMEM;
    memcpy(copy, found, *size);
    kvfs_acl_overlay(copy, *size, a->mode);
    *value = copy;
    return 0;
}
