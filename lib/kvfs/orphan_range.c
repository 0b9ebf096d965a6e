/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * Inodes that a session made and never named, if it is dead, or if it ends and the store did not
 * answer it. They exist where a commit cannot name several groups: a new inode's group is written
 * ahead of its directory's.
 *
 * R1 The commit that would name such an inode is guarded by its directory's attributes. So once
 *    those have been rewritten (with a raised version) after the session was declared dead, no
 *    late commit of it can name the inode any more.
 * R2 A rename within a directory defers the new name's hash, so the entry may have another hash
 *    than the inode records: it is without a name only if no entry of the directory refers to it.
 */
#include "kvfs/session_priv.h"

enum {
    KVFS_ORPHAN_RANGE_FIND = 0,
    KVFS_ORPHAN_RANGE_NAMED,
    KVFS_ORPHAN_RANGE_FENCE,
    KVFS_ORPHAN_RANGE_SCAN,
    KVFS_ORPHAN_RANGE_LIST,
    KVFS_ORPHAN_RANGE_UNLINK
};
enum { KVFS_ORPHAN_RANGE_BATCH = 32, KVFS_ORPHAN_RANGE_PAGE = 256 };

static int kvfs_orphan_range_step(struct kvfs_op *op, uint64_t at, uint64_t step)
{
    op->s[KVFS_ORPHAN_RANGE_S_AT] = at;
    op->s[KVFS_ORPHAN_RANGE_S_STEP] = step;
    op->s[KVFS_ORPHAN_RANGE_S_HIGH] = 0;
    op->s[KVFS_ORPHAN_RANGE_S_LOW] = 0;
    kvfs_unlock_all(op);
    return kvfs_next(op, op->phase);
}

/* Find the next number that is an inode. */
static int kvfs_orphan_range_find(struct kvfs_op *op, uint64_t first, uint64_t count)
{
    uint64_t at = op->s[KVFS_ORPHAN_RANGE_S_AT];
    uint64_t end = snic_min_u64(at + KVFS_ORPHAN_RANGE_BATCH, count);
    struct snic_kvop_key key;
    const void *body;
    uint32_t size;
    if (at >= count)
        return 0;
    for (uint64_t i = at; i < end; i++) {
        snic_kvfs_key(&key, first + i, SNIC_KVFS_REC_ATTR);
        kvfs_prefetch(op, &key);
    }
    for (uint64_t i = at; i < end; i++) {
        snic_kvfs_key(&key, first + i, SNIC_KVFS_REC_ATTR);
        int rc = kvfs_peek(op, &key, &body, &size);
        if (rc == 0)
            return kvfs_orphan_range_step(op, i, KVFS_ORPHAN_RANGE_NAMED);
        if (rc != SNIC_ENOENT && rc != SNIC_ECORRUPT)
            return rc;
    }
    return kvfs_orphan_range_step(op, end, KVFS_ORPHAN_RANGE_FIND);
}

static int kvfs_orphan_range_has(const void *record, uint32_t size, uint64_t ino)
{
    struct snic_kvfs_entry e;
    uint32_t at = 0;
    while (snic_kvfs_entry_next(record, size, &at, &e) == 1)
        if (e.ino == ino)
            return 1;
    return 0;
}

/* Check whether its name refers to it. */
static int kvfs_orphan_range_named(struct kvfs_op *op, uint64_t ino)
{
    struct snic_fsop_attr a;
    struct snic_kvop_key key;
    const void *body;
    uint32_t size;
    int rc = kvfs_peek_attr(op, ino, &a);
    if (rc == KVFS_PENDING)
        return rc;
    if (rc != 0 || (a.flags & SNIC_KVFS_ATTR_PARENTS) != 0)
        return kvfs_orphan_range_step(op, op->s[KVFS_ORPHAN_RANGE_S_AT] + 1,
                                      KVFS_ORPHAN_RANGE_FIND); /* it was linked: it had a name */
    if (a.nlink == 0)
        return kvfs_orphan_range_step(op, op->s[KVFS_ORPHAN_RANGE_S_AT], KVFS_ORPHAN_RANGE_LIST);
    if ((a.flags & SNIC_KVFS_ATTR_PARENT) == 0 && !kvfs_is_dir(&a))
        return kvfs_orphan_range_step(op, op->s[KVFS_ORPHAN_RANGE_S_AT], KVFS_ORPHAN_RANGE_LIST);
    snic_kvfs_key_hash(&key, a.parent, SNIC_KVFS_REC_ENTRY, a.name);
    rc = kvfs_peek(op, &key, &body, &size);
    if (rc != 0 && rc != SNIC_ENOENT)
        return rc;
    if (rc == 0 && kvfs_orphan_range_has((const unsigned char *)body - SNIC_KVFS_HEAD,
                                         size + SNIC_KVFS_HEAD, ino))
        return kvfs_orphan_range_step(op, op->s[KVFS_ORPHAN_RANGE_S_AT] + 1,
                                      KVFS_ORPHAN_RANGE_FIND);
    return kvfs_orphan_range_step(op, op->s[KVFS_ORPHAN_RANGE_S_AT], KVFS_ORPHAN_RANGE_FENCE);
}

static int kvfs_orphan_range_fence(struct kvfs_op *op, uint64_t ino)
{
    struct snic_fsop_attr a, dir;
    int rc = kvfs_peek_attr(op, ino, &a);
    if (rc == SNIC_ENOENT)
        return kvfs_orphan_range_step(op, op->s[KVFS_ORPHAN_RANGE_S_AT] + 1,
                                      KVFS_ORPHAN_RANGE_FIND);
    if (rc == 0)
        rc = kvfs_lock(op, a.parent, KVFS_EXCLUSIVE);
    if (rc == 0)
        rc = kvfs_get_attr(op, a.parent, &dir);
    if (rc == SNIC_ENOENT)
        return kvfs_orphan_range_step(op, op->s[KVFS_ORPHAN_RANGE_S_AT],
                                      KVFS_ORPHAN_RANGE_LIST); /* its directory was removed */
    if (rc == 0)
        rc = kvfs_put_attr(op, &dir); /* R1 */
    if (rc == 0)
        rc = kvfs_commit(op, 0);
    return rc != 0
               ? rc
               : kvfs_orphan_range_step(op, op->s[KVFS_ORPHAN_RANGE_S_AT], KVFS_ORPHAN_RANGE_SCAN);
}

/* Scan a page of the directory (R2). */
static int kvfs_orphan_range_scan(struct kvfs_op *op, uint64_t ino)
{
    const struct snic_kvop *page;
    struct snic_fsop_hash last = {.high = op->s[KVFS_ORPHAN_RANGE_S_HIGH],
                                  .low = op->s[KVFS_ORPHAN_RANGE_S_LOW]};
    struct snic_kvop_key key = {.size = 0};
    struct snic_fsop_attr a;
    int rc = kvfs_peek_attr(op, ino, &a);
    if (rc == SNIC_ENOENT)
        return kvfs_orphan_range_step(op, op->s[KVFS_ORPHAN_RANGE_S_AT] + 1,
                                      KVFS_ORPHAN_RANGE_FIND);
    if (last.high != 0 || last.low != 0)
        snic_kvfs_key_hash(&key, a.parent, SNIC_KVFS_REC_ENTRY, last);
    if (rc == 0)
        rc = kvfs_scan(op, a.parent, SNIC_KVFS_REC_ENTRY, &key, KVFS_ORPHAN_RANGE_PAGE, &page);
    if (rc != 0)
        return rc;
    for (const struct snic_kvop_record *r = snic_kvop_first(page); r != NULL;
         r = snic_kvop_next(page, r)) {
        const void *body;
        uint32_t size;
        rc = kvfs_scan_record(op, page, r, &key, &body, &size);
        if (rc == 0 && kvfs_orphan_range_has((const unsigned char *)body - SNIC_KVFS_HEAD,
                                             size + SNIC_KVFS_HEAD, ino))
            return kvfs_orphan_range_step(op, op->s[KVFS_ORPHAN_RANGE_S_AT] + 1,
                                          KVFS_ORPHAN_RANGE_FIND);
        if (rc != 0 && rc != SNIC_ENOENT)
            return rc;
        if (key.size == 17) {
            last.high = snic_get_be64(key.bytes + 1);
            last.low = snic_get_be64(key.bytes + 9);
        }
    }
    if (page->end || page->out_count == 0)
        return kvfs_orphan_range_step(op, op->s[KVFS_ORPHAN_RANGE_S_AT], KVFS_ORPHAN_RANGE_LIST);
    op->s[KVFS_ORPHAN_RANGE_S_HIGH] = last.high;
    op->s[KVFS_ORPHAN_RANGE_S_LOW] = last.low;
    return kvfs_next(op, op->phase);
}

/* The list's record first: if the inode has a name it is only deleted again. */
static int kvfs_orphan_range_list(struct kvfs_op *op, uint64_t ino)
{
    struct snic_kvfs_orphan o = {.count = 0};
    unsigned char record[SNIC_KVFS_HEAD + 8];
    struct snic_kvop_key key;
    const void *body;
    uint32_t size = snic_kvfs_orphan_encode(record, &o);
    snic_kvfs_key_number(&key, SNIC_KVFS_GROUP_ORPHANS, SNIC_KVFS_REC_ORPHAN, ino);
    uint32_t bytes;
    int rc = kvfs_get(op, &key, &body, &bytes);
    if (rc == SNIC_ENOENT)
        rc = kvfs_put(op, &key, record + SNIC_KVFS_HEAD, size - SNIC_KVFS_HEAD);
    if (rc == 0)
        rc = kvfs_commit(op, 0);
    return rc != 0 ? rc
                   : kvfs_orphan_range_step(op, op->s[KVFS_ORPHAN_RANGE_S_AT],
                                            KVFS_ORPHAN_RANGE_UNLINK);
}

static int kvfs_orphan_range_unlink(struct kvfs_op *op, uint64_t ino)
{
    struct snic_fsop_attr a;
    int rc = kvfs_lock(op, ino, KVFS_EXCLUSIVE);
    if (rc == 0)
        rc = kvfs_get_attr(op, ino, &a);
    if (rc == 0 && a.nlink != 0) {
        a.nlink = 0;
        a.flags &= ~SNIC_KVFS_ATTR_PARENT;
        rc = kvfs_put_attr(op, &a);
        if (rc == 0)
            rc = kvfs_commit(op, 0);
    }
    return rc != 0 && rc != SNIC_ENOENT
               ? rc
               : kvfs_orphan_range_step(op, op->s[KVFS_ORPHAN_RANGE_S_AT] + 1,
                                        KVFS_ORPHAN_RANGE_FIND);
}

int kvfs_orphan_range(struct kvfs_op *op, uint64_t first, uint64_t count)
{
    uint64_t ino = first + op->s[KVFS_ORPHAN_RANGE_S_AT];
    switch (op->s[KVFS_ORPHAN_RANGE_S_STEP]) {
    case KVFS_ORPHAN_RANGE_NAMED:
        return kvfs_orphan_range_named(op, ino);
    case KVFS_ORPHAN_RANGE_FENCE:
        return kvfs_orphan_range_fence(op, ino);
    case KVFS_ORPHAN_RANGE_SCAN:
        return kvfs_orphan_range_scan(op, ino);
    case KVFS_ORPHAN_RANGE_LIST:
        return kvfs_orphan_range_list(op, ino);
    case KVFS_ORPHAN_RANGE_UNLINK:
        return kvfs_orphan_range_unlink(op, ino);
    default:
        return kvfs_orphan_range_find(op, first, count);
    }
}
