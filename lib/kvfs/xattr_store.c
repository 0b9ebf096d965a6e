/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * The record of an extended attribute, in the inode's group, found by the name's hash. Its body is
 * u16 name size, name, value; the name is verified, since hashes may be equal.
 */
#include "kvfs/ops.h"

void kvfs_xattr_key(const struct kvfs_op *op, struct snic_kvop_key *key, uint64_t ino,
                    const char *name, uint32_t name_size)
{
    snic_kvfs_key_hash(key, ino, SNIC_KVFS_REC_XATTR, kvfs_name_hash(op, name, name_size));
}

/* Name and value of a body. 0; SNIC_ECORRUPT. */
int kvfs_xattr_decode(const void *body, uint32_t body_size, const char **name, uint32_t *name_size,
                      const void **value, uint32_t *size)
{
    const unsigned char *p = body;
    uint32_t n = body_size < 2 ? 0 : snic_get_le16(p);
    if (n == 0 || n > SNIC_FSOP_XATTR_NAME_MAX || n + 2 > body_size ||
        body_size - n - 2 > SNIC_FSOP_XATTR_VALUE_MAX || memchr(p + 2, 0, n) != NULL)
        return SNIC_ECORRUPT;
    *name = (const char *)p + 2;
    *name_size = n;
    *value = p + 2 + n;
    *size = body_size - n - 2;
    return 0;
}

/* 0; SNIC_ENODATA no record; SNIC_EEXIST another name has this hash; KVFS_PENDING; SNIC_E*. */
int kvfs_xattr_lookup(struct kvfs_op *op, uint64_t ino, const char *name, uint32_t name_size,
                      int guard, const void **value, uint32_t *size)
{
    struct snic_kvop_key key;
    const void *body;
    const char *found;
    uint32_t body_size, found_size;
    int rc;
    kvfs_xattr_key(op, &key, ino, name, name_size);
    rc = guard ? kvfs_get(op, &key, &body, &body_size) : kvfs_peek(op, &key, &body, &body_size);
    if (rc != 0)
        return rc == SNIC_ENOENT ? SNIC_ENODATA : rc;
    if (kvfs_xattr_decode(body, body_size, &found, &found_size, value, size) != 0) {
        kvfs_report_damage(op->k, &key, "extended attribute malformed");
        return SNIC_ECORRUPT;
    }
    return found_size == name_size && memcmp(found, name, name_size) == 0 ? 0 : SNIC_EEXIST;
}

int kvfs_xattr_find(struct kvfs_op *op, uint64_t ino, const char *name, uint32_t name_size,
                    int guard, const void **value, uint32_t *size)
{
    int rc = kvfs_xattr_lookup(op, ino, name, name_size, guard, value, size);
    return rc == SNIC_EEXIST ? SNIC_ENODATA : rc;
}

int kvfs_xattr_put(struct kvfs_op *op, uint64_t ino, const char *name, uint32_t name_size,
                   const void *value, uint32_t size)
{
    struct snic_kvop_key key;
    SNIC_ASSERT(name_size <= SNIC_FSOP_XATTR_NAME_MAX && size <= SNIC_FSOP_XATTR_VALUE_MAX);
    unsigned char *body = kvfs_alloc(op, 2u + name_size + size);
    if (body == NULL)
        return SNIC_ENOMEM;
    snic_put_le16(body, (uint16_t)name_size);
    memcpy(body + 2, name, name_size);
    if (size != 0)
        memcpy(body + 2 + name_size, value, size);
    kvfs_xattr_key(op, &key, ino, name, name_size);
    return kvfs_put(op, &key, body, 2 + name_size + size);
}
