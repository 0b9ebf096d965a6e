/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * Names in directories. A record holds all names of the directory that have one hash: one, except
 * for crafted collisions, which are slow, never wrong.
 */
#include "kvfs/ops.h"

/* ---- Names ---- */

int kvfs_name_check(const char *name, uint32_t size)
{
    if (size == 0)
        return SNIC_ENOENT;
    if (size > SNIC_FSOP_NAME_MAX)
        return SNIC_ENAMETOOLONG;
    return memchr(name, '/', size) != NULL || memchr(name, 0, size) != NULL ? SNIC_EINVAL : 0;
}

struct snic_fsop_hash kvfs_name_hash(const struct kvfs_op *op, const char *name, uint32_t size)
{
    return snic_kvfs_hash_name(op->k->session.super.seed, name, size);
}

void kvfs_entry_key(const struct snic_kvfs *k, uint64_t dir, const char *name, uint32_t size,
                    struct snic_kvop_key *key, struct snic_fsop_hash *hash)
{
    *hash = snic_kvfs_hash_name(k->session.super.seed, name, size);
    snic_kvfs_key_hash(key, dir, SNIC_KVFS_REC_ENTRY, *hash);
}

void kvfs_entry_prefetch(struct kvfs_op *op, uint64_t dir, const char *name, uint32_t size)
{
    struct snic_kvop_key key;
    struct snic_fsop_hash hash;
    if (size > SNIC_FSOP_NAME_MAX)
        return;
    kvfs_entry_key(op->k, dir, name, size, &key, &hash);
    kvfs_prefetch(op, &key);
}

static int kvfs_entry_is(const struct snic_kvfs_entry *e, const char *name, uint32_t size)
{
    return e->name_size == size && memcmp(e->name, name, size) == 0;
}

/* The entry of a name in a record's body. 0; SNIC_ENOENT; SNIC_ECORRUPT (reported). */
static int kvfs_entry_in(struct kvfs_op *op, const struct snic_kvop_key *key, const void *body,
                         uint32_t body_size, const char *name, uint32_t size,
                         struct snic_kvfs_entry *out)
{
    const unsigned char *record = (const unsigned char *)body - SNIC_KVFS_HEAD;
    struct snic_kvfs_entry e;
    uint32_t at = 0;
    int rc;
    while ((rc = snic_kvfs_entry_next(record, body_size + SNIC_KVFS_HEAD, &at, &e)) == 1) {
        if (kvfs_entry_is(&e, name, size)) {
            *out = e;
            return 0;
        }
    }
    if (rc == 0)
        return SNIC_ENOENT;
    kvfs_report_damage(op->k, key, "directory entry malformed");
    return rc;
}

static int kvfs_entry_found(struct kvfs_op *op, const struct snic_kvop_key *key, const void *body,
                            uint32_t body_size, const char *name, uint32_t size,
                            struct kvfs_found *out)
{
    struct snic_kvfs_entry e;
    int rc = kvfs_entry_in(op, key, body, body_size, name, size, &e);
    if (rc != 0)
        return rc;
    out->ino = e.ino;
    out->type = e.type;
    return 0;
}

int kvfs_entry_get_at(struct kvfs_op *op, const struct snic_kvop_key *key, const char *name,
                      uint32_t size, struct kvfs_found *out)
{
    const void *body;
    uint32_t body_size;
    int rc = kvfs_get(op, key, &body, &body_size);
    return rc != 0 ? rc : kvfs_entry_found(op, key, body, body_size, name, size, out);
}

int kvfs_entry_peek_cached(struct kvfs_op *op, const struct snic_kvop_key *key, const char *name,
                           uint32_t size, struct kvfs_found *out)
{
    const void *body;
    uint32_t body_size;
    int rc = kvfs_peek_cached(op, key, &body, &body_size);
    return rc != 0 ? rc : kvfs_entry_found(op, key, body, body_size, name, size, out);
}

int kvfs_entry_get(struct kvfs_op *op, uint64_t dir, const char *name, uint32_t size,
                   struct kvfs_found *out)
{
    struct snic_kvop_key key;
    if (size > SNIC_FSOP_NAME_MAX)
        return SNIC_ENAMETOOLONG;
    kvfs_entry_key(op->k, dir, name, size, &key, &out->hash);
    return kvfs_entry_get_at(op, &key, name, size, out);
}

/* Copy the entries of a record except one name's, and append `put`, if any. */
static int kvfs_entry_rewrite(struct kvfs_op *op, const struct snic_kvop_key *key, const void *body,
                              uint32_t body_size, const struct snic_kvfs_entry *drop,
                              const struct snic_kvfs_entry *put)
{
    const unsigned char *record =
        body_size == 0 ? NULL : (const unsigned char *)body - SNIC_KVFS_HEAD;
    uint32_t room = SNIC_KVFS_HEAD + body_size + (put != NULL ? 32 + put->name_size : 0);
    uint32_t size = 0, at = 0;
    struct snic_kvfs_entry e;
    SNIC_DASSERT(drop->name_size > 0 && drop->name_size <= SNIC_FSOP_NAME_MAX);
    unsigned char *out = kvfs_alloc(op, room);
    int rc = 0;
    if (out == NULL)
        return SNIC_ENOMEM;
    while (body_size != 0 &&
           (rc = snic_kvfs_entry_next(record, body_size + SNIC_KVFS_HEAD, &at, &e)) == 1) {
        if (!kvfs_entry_is(&e, drop->name, drop->name_size) &&
            snic_kvfs_entry_append(out, &size, room, &e) != 0)
            return SNIC_EMSGSIZE;
    }
    if (rc < 0) {
        kvfs_report_damage(op->k, key, "directory entry malformed");
        return rc;
    }
    if (put != NULL && snic_kvfs_entry_append(out, &size, room, put) != 0)
        return SNIC_EMSGSIZE;
    if (size == 0)
        return kvfs_delete(op, key);
    return kvfs_put(op, key, out + SNIC_KVFS_HEAD, size - SNIC_KVFS_HEAD);
}

int kvfs_entry_put_at(struct kvfs_op *op, const struct snic_kvop_key *key, const char *name,
                      uint32_t size, uint64_t ino, uint32_t type)
{
    struct snic_kvfs_entry e = {
        .ino = ino, .type = type & KVFS_IFMT, .name_size = size, .name = name};
    const void *body = NULL;
    uint32_t body_size = 0;
    int rc = kvfs_get(op, key, &body, &body_size);
    if (rc != 0 && rc != SNIC_ENOENT)
        return rc;
    return kvfs_entry_rewrite(op, key, body, rc == 0 ? body_size : 0, &e, &e);
}

int kvfs_entry_put(struct kvfs_op *op, uint64_t dir, const char *name, uint32_t size, uint64_t ino,
                   uint32_t type)
{
    struct snic_kvop_key key;
    struct snic_fsop_hash hash;
    if (size > SNIC_FSOP_NAME_MAX)
        return SNIC_ENAMETOOLONG;
    kvfs_entry_key(op->k, dir, name, size, &key, &hash);
    return kvfs_entry_put_at(op, &key, name, size, ino, type);
}

int kvfs_entry_delete(struct kvfs_op *op, uint64_t dir, const char *name, uint32_t size)
{
    struct snic_kvfs_entry e = {.name_size = size, .name = name};
    struct snic_kvop_key key;
    struct snic_fsop_hash hash;
    const void *body = NULL;
    uint32_t body_size = 0;
    int rc;
    kvfs_entry_key(op->k, dir, name, size, &key, &hash);
    rc = kvfs_get(op, &key, &body, &body_size);
    if (rc != 0)
        return rc;
    return kvfs_entry_rewrite(op, &key, body, body_size, &e, NULL);
}

int kvfs_get_named(struct kvfs_op *op, uint64_t ino, struct snic_fsop_attr *out)
{
    int rc = kvfs_get_attr(op, ino, out);
    return rc == SNIC_ENOENT ? kvfs_retry_torn(op, ino, "inode of a name is missing") : rc;
}
