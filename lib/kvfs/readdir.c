/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * Directories are listed in the order of their names' hashes, so that a cookie is a stable
 * position, whatever names are added and removed around it.
 *
 * I1. The cookie of an entry is its hash's first 63 bits; 1 is "." and 2 is "..". A request with a
 *     cookie gets the entries of greater cookies.
 * I2. Entries of one cookie (a group) are in one answer, or in none.
 * I3. Each round processes one page of the store; the state between rounds is in op->s.
 * I4. An entry that exists from the first call to the last is delivered once: its position does not
 *     change. One that is added or removed meanwhile is delivered at most once.
 */
#include "kvfs/ops.h"

enum {
    KVFS_READDIR_FIRST = 0, /* op->phase: the dots, and the first page                       */
    KVFS_READDIR_MORE,      /* further pages                                                 */
    KVFS_READDIR_ATIME      /* the answer is complete                                        */
};
enum {
    KVFS_READDIR_S_USED = 0, /* op->s: struct kvfs_readdir_fill                              */
    KVFS_READDIR_S_WHOLE,
    KVFS_READDIR_S_COOKIE,
    KVFS_READDIR_S_HIGH,
    KVFS_READDIR_S_LOW,
    KVFS_READDIR_S_WIDE /* pages need the most memory                                        */
};
enum {
    KVFS_READDIR_BATCH = 64, /* records of a page whose attributes are wanted: one GET       */
    KVFS_READDIR_SCAN = 256
};

/* The state of an answer. */
struct kvfs_readdir_fill {
    uint64_t used;   /* bytes                                                                */
    uint64_t whole;  /* bytes before the present group                                       */
    uint64_t cookie; /* of the present group                                                 */
    struct snic_fsop_hash last;
    int full;
};

/* Where a listing from this cookie continues: behind the last hash it can stand for (I1). */
static void kvfs_readdir_after(struct snic_kvop_key *after, uint64_t dir, uint64_t cookie)
{
    struct snic_fsop_hash h = {(cookie << 1) | 1, UINT64_MAX};
    memset(after, 0, sizeof(*after));
    if (cookie > 2)
        snic_kvfs_key_hash(after, dir, SNIC_KVFS_REC_ENTRY, h);
}

static void kvfs_readdir_load(const struct kvfs_op *op, struct kvfs_readdir_fill *f)
{
    f->used = op->s[KVFS_READDIR_S_USED];
    f->whole = op->s[KVFS_READDIR_S_WHOLE];
    f->cookie = op->s[KVFS_READDIR_S_COOKIE];
    f->last.high = op->s[KVFS_READDIR_S_HIGH];
    f->last.low = op->s[KVFS_READDIR_S_LOW];
    f->full = 0;
}

static int kvfs_readdir_next(struct kvfs_op *op, const struct kvfs_readdir_fill *f, uint32_t phase)
{
    op->s[KVFS_READDIR_S_USED] = f->used;
    op->s[KVFS_READDIR_S_WHOLE] = f->whole;
    op->s[KVFS_READDIR_S_COOKIE] = f->cookie;
    op->s[KVFS_READDIR_S_HIGH] = f->last.high;
    op->s[KVFS_READDIR_S_LOW] = f->last.low;
    kvfs_io_forget(op, 0);
    return kvfs_next(op, phase);
}

/* Append an entry; without space, the answer is full and ends before its group (I2). */
static void kvfs_readdir_add(struct kvfs_op *op, struct kvfs_readdir_fill *f, uint64_t cookie,
                             const struct snic_kvfs_entry *e, const struct snic_fsop_attr *attr)
{
    size_t room = op->req->iov_count == 0 ? 0 : op->req->iov[0].size;
    uint64_t bytes = snic_align_up(sizeof(struct snic_fsop_dirent) + e->name_size + 1, 8);
    struct snic_fsop_dirent d;
    unsigned char *to;
    if (f->cookie != cookie) {
        f->cookie = cookie;
        f->whole = f->used;
    }
    SNIC_DASSERT(f->used <= room && f->whole <= f->used);
    if (f->full || bytes > room - f->used) {
        f->full = 1;
        f->used = f->whole;
        return;
    }
    memset(&d, 0, sizeof(d));
    d.bytes = (uint32_t)bytes;
    d.name_size = e->name_size;
    d.ino = kvfs_ino_out(e->ino);
    d.cookie = cookie;
    d.type = e->type;
    if (attr != NULL) {
        d.has_attr = 1;
        d.attr = *attr;
        d.attr.ino = kvfs_ino_out(attr->ino);
        d.attr.parent = kvfs_ino_out(attr->parent);
    }
    to = (unsigned char *)op->req->iov[0].base + f->used;
    memcpy(to, &d, sizeof(d));
    memcpy(to + sizeof(d), e->name, e->name_size);
    memset(to + sizeof(d) + e->name_size, 0, (size_t)bytes - sizeof(d) - e->name_size);
    f->used += bytes;
}

static void kvfs_readdir_dots(struct kvfs_op *op, struct kvfs_readdir_fill *f,
                              const struct snic_fsop_attr *dir)
{
    struct snic_kvfs_entry e = {dir->ino, KVFS_IFDIR, 1, "."};
    if (op->req->offset < 1)
        kvfs_readdir_add(op, f, 1, &e, NULL);
    e.ino = dir->ino == 0 ? 0 : dir->parent;
    e.name_size = 2;
    e.name = "..";
    if (op->req->offset < 2)
        kvfs_readdir_add(op, f, 2, &e, NULL);
}

/* The next entry of a record with this body. 1; 0; SNIC_ECORRUPT. */
static int kvfs_readdir_entry(const void *body, uint32_t size, uint32_t *at,
                              struct snic_kvfs_entry *e)
{
    return snic_kvfs_entry_next((const unsigned char *)body - SNIC_KVFS_HEAD, size + SNIC_KVFS_HEAD,
                                at, e);
}

/* Request the attributes of all entries of a page at once. */
static int kvfs_readdir_prefetch(struct kvfs_op *op, const struct snic_kvop *page)
{
    for (const struct snic_kvop_record *r = snic_kvop_first(page); r != NULL;
         r = snic_kvop_next(page, r)) {
        struct snic_kvfs_entry e;
        struct snic_kvop_key key;
        const void *body;
        uint32_t size, at = 0;
        int rc = kvfs_scan_record(op, page, r, &key, &body, &size);
        if (rc == SNIC_ENOENT)
            continue;
        if (rc != 0)
            return rc;
        while (kvfs_readdir_entry(body, size, &at, &e) == 1)
            kvfs_attr_prefetch(op, e.ino);
    }
    return 0;
}

/* The entries of one record: names of one hash. */
static int kvfs_readdir_record(struct kvfs_op *op, struct kvfs_readdir_fill *f,
                               const struct snic_kvop_key *key, const void *body, uint32_t size)
{
    uint64_t cookie = snic_kvfs_cookie(kvfs_scan_hash(key->bytes));
    int plus = (op->req->flags & SNIC_FSOP_READDIR_PLUS) != 0;
    struct snic_kvfs_entry e;
    struct snic_fsop_attr attr;
    uint32_t at = 0;
    int rc = 0;
    while (!f->full && (rc = kvfs_readdir_entry(body, size, &at, &e)) == 1) {
        int known = 0;
        if (plus) {
            rc = kvfs_peek_attr(op, e.ino, &attr);
            if (rc == KVFS_PENDING || rc == SNIC_ENOMEM)
                return rc;
            known = rc == 0; /* else it has just been removed, or is damaged and reported */
        }
        kvfs_readdir_add(op, f, cookie, &e, known ? &attr : NULL);
    }
    if (!f->full && rc < 0)
        kvfs_report_damage(op->k, key, "directory entry malformed");
    return f->full || rc >= 0 ? 0 : rc;
}

/* Add the page at op->s to the answer: 0 the answer is complete. */
static int kvfs_readdir_page(struct kvfs_op *op, struct kvfs_readdir_fill *f)
{
    int plus = (op->req->flags & SNIC_FSOP_READDIR_PLUS) != 0;
    size_t room = op->req->iov_count == 0 ? 0 : op->req->iov[0].size;
    uint64_t left = room - f->used, max = left / (sizeof(struct snic_fsop_dirent) + 8) + 1;
    uint64_t scan_room = snic_align_up(left - left / 4 + KVFS_READDIR_SCAN, 16);
    const struct snic_kvop *page;
    struct snic_kvop_key after, key;
    int rc;
    if (op->phase == KVFS_READDIR_FIRST)
        kvfs_readdir_after(&after, op->ino, op->req->offset);
    else
        snic_kvfs_key_hash(&after, op->ino, SNIC_KVFS_REC_ENTRY, f->last);
    if (op->s[KVFS_READDIR_S_WIDE] != 0 || scan_room > KVFS_SCAN_BYTES)
        scan_room = KVFS_SCAN_BYTES;
    rc = kvfs_scan_in(op, op->ino, SNIC_KVFS_REC_ENTRY, &after,
                      (uint32_t)snic_min_u64(max, plus ? KVFS_READDIR_BATCH : 4096),
                      (uint32_t)scan_room, &page);
    if (rc == SNIC_EMSGSIZE && scan_room < KVFS_SCAN_BYTES) { /* one record that is so large */
        op->s[KVFS_READDIR_S_WIDE] = 1;
        kvfs_io_forget(op, 0);
        return kvfs_next(op, op->phase);
    }
    if (rc == 0 && plus)
        rc = kvfs_readdir_prefetch(op, page);
    for (const struct snic_kvop_record *r = rc == 0 ? snic_kvop_first(page) : NULL;
         r != NULL && !f->full; r = snic_kvop_next(page, r)) {
        const void *body;
        uint32_t size;
        rc = kvfs_scan_record(op, page, r, &key, &body, &size);
        if (rc == 0)
            rc = kvfs_readdir_record(op, f, &key, body, size);
        if (rc != 0 && rc != SNIC_ENOENT)
            return rc;
        rc = 0;
    }
    if (rc != 0 || f->full || page->end)
        return rc;
    kvfs_scan_last(page, &f->last);
    return kvfs_readdir_next(op, f, KVFS_READDIR_MORE);
}

/* The answer is in the caller's memory; now the directory's atime. */
static int kvfs_readdir_atime(struct kvfs_op *op)
{
    struct snic_fsop_attr dir;
    int rc = kvfs_lock(op, op->ino, KVFS_EXCLUSIVE);
    if (rc == 0)
        rc = kvfs_peek_attr(op, op->ino, &dir);
    if (rc == KVFS_PENDING)
        return rc;
    if (rc == 0 && kvfs_relatime(op, &dir))
        rc = kvfs_defer_times(op, &dir);
    op->req->result = (int64_t)op->s[KVFS_READDIR_S_USED];
    return rc == KVFS_PENDING ? rc : 0; /* an error of the time is no reason to fail */
}

int kvfs_run_readdir(struct kvfs_op *op)
{
    struct kvfs_readdir_fill f;
    struct snic_fsop_attr dir;
    int rc;
    if (op->phase == KVFS_READDIR_ATIME)
        return kvfs_readdir_atime(op);
    kvfs_readdir_load(op, &f);
    rc = kvfs_peek_attr(op, op->ino, &dir);
    if (rc != 0)
        return rc;
    if (op->phase == KVFS_READDIR_FIRST) {
        if (!kvfs_is_dir(&dir))
            return SNIC_ENOTDIR;
        if (dir.nlink == 0)
            return SNIC_ENOENT;
        if (op->req->handle == 0 && (rc = kvfs_may(op, &dir, KVFS_MAY_READ)) != 0)
            return rc;
        kvfs_readdir_dots(op, &f, &dir);
    }
    rc = f.full ? 0 : kvfs_readdir_page(op, &f);
    if (rc != 0)
        return rc;
    if (f.full && f.used == 0)
        return SNIC_EINVAL;
    if (kvfs_relatime(op, &dir))
        return kvfs_readdir_next(op, &f, KVFS_READDIR_ATIME);
    op->req->result = (int64_t)f.used;
    return 0;
}

int kvfs_run_opendir(struct kvfs_op *op)
{
    struct snic_fsop_attr dir;
    int rc = kvfs_lock(op, op->ino, KVFS_SHARED);
    if (rc == 0)
        rc = kvfs_peek_attr(op, op->ino, &dir);
    if (rc != 0)
        return rc;
    if (!kvfs_is_dir(&dir))
        return SNIC_ENOTDIR;
    rc = kvfs_may(op, &dir, KVFS_MAY_READ);
    if (rc == 0)
        rc = kvfs_inode_open(op, op->ino);
    if (rc != 0)
        return rc;
    op->req->handle = kvfs_handle(op->ino, SNIC_FSOP_OPEN_READ);
    kvfs_reply_attr(op, &dir);
    return 0;
}
