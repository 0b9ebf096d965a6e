/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * Sizes and space: truncation (also for SETATTR and OPEN), FALLOCATE, SEEK, STATFS.
 *
 * A file that grows past SNIC_KVFS_SMALL_MAX here becomes big; one that is truncated to
 * nothing becomes small; others stay what they are. Changes of bytes within the size of a big
 * file are one object operation with times and deferred space, all else ends in one commit.
 */
#include "kvfs/data_priv.h"

/* Io places. */
enum { KVFS_SPACE_CHANGE = KVFS_DATA_IO_OWN, KVFS_SPACE_STAT };
/* Steps of FALLOCATE: a small file that becomes big does so before the rest. */
enum { KVFS_FALLOC_ALL = 0, KVFS_FALLOC_CONVERT };

/* ---- Sizes ---- */

/* State of a truncation behind the size. */
struct kvfs_tail_cut {
    struct snic_kvop_guard guards[2];
    struct snic_kvop_change change;
};

/*
 * The object's truncation, if the attributes are still as they were read: bytes behind the size may
 * be part of the file now, appended by another session.
 */
static int kvfs_data_space_commit_cut(struct kvfs_op *op, uint64_t ino, uint64_t offset)
{
    struct kvfs_tail_cut *c = kvfs_alloc(op, sizeof(*c));
    struct snic_kvop want = {.kind = SNIC_KVOP_COMMIT, .flags = SNIC_KVOP_RESERVE};
    const struct snic_kvop *got;
    struct snic_kvop_key key;
    const void *body;
    uint32_t size;
    int rc;
    snic_kvfs_key(&key, ino, SNIC_KVFS_REC_ATTR);
    rc = c == NULL ? SNIC_ENOMEM : kvfs_get(op, &key, &body, &size);
    if (rc != 0)
        return rc;
    want.guards = c->guards;
    want.changes = &c->change;
    want.change_count = 1;
    if (op->place[KVFS_DATA_IO_CUT].state ==
        KVFS_PLACE_FREE) { /* else the store has borrowed them */
        want.guard_count = (uint32_t)kvfs_fence_guard(op->k, c->guards);
        c->guards[want.guard_count++] =
            (struct snic_kvop_guard){.key = key,
                                     .value = (const unsigned char *)body - SNIC_KVFS_HEAD,
                                     .size = size + SNIC_KVFS_HEAD};
        c->change = (struct snic_kvop_change){
            .kind = SNIC_KVOP_CHANGE_TRUNCATE, .object = ino, .offset = offset};
    }
    rc = kvfs_io(op, KVFS_DATA_IO_CUT, &want, &got);
    if (rc >= 0 || got->result != SNIC_ECANCELED || got->failed_guard == UINT32_MAX)
        return rc;
    if (kvfs_fence_failed(op->k, got))
        return SNIC_EIO;
    kvfs_cache_forget(op->k, &key, kvfs_key_hash(&key));
    kvfs_txn_retry(op);
    return op->again ? KVFS_PENDING : op->commit_error;
}

int kvfs_data_stat_space(struct kvfs_op *op, struct snic_fsop_attr *a, uint32_t place)
{
    struct snic_kvop want = {.kind = SNIC_KVOP_OBJECT_STAT, .object = a->ino};
    const struct snic_kvop *got;
    int rc = kvfs_data_io(op, place, &want, &got);
    if (rc == 0)
        a->space = kvfs_space_add(0, got->allocated);
    return rc;
}

int kvfs_data_cut_tail(struct kvfs_op *op, struct snic_fsop_attr *a)
{
    int big = (a->flags & SNIC_KVFS_ATTR_BIG) != 0;
    int rc = kvfs_data_space_commit_cut(op, a->ino, big ? a->size : 0);
    return rc != 0 || !big ? rc : kvfs_data_stat_space(op, a, KVFS_DATA_IO_CUT_STAT);
}

int kvfs_data_convert(struct kvfs_op *op, struct snic_fsop_attr *a, uint64_t size, uint32_t step)
{
    struct snic_kvop_key key;
    const void *old = NULL;
    uint32_t bytes = 0;
    int clean = kvfs_tail_is_clean(op, a->ino), rc = 0;
    if (a->size > 0)
        rc = kvfs_data_get_small(op, a, 1, &old, &bytes);
    if (rc == 0 && !clean)
        rc = kvfs_data_cut_tail(op, a);
    if (rc != 0)
        return rc;
    a->flags |= SNIC_KVFS_ATTR_BIG;
    a->size = size;
    a->space = bytes > 0 ? SNIC_KVOP_BLOCK : 0;
    snic_kvfs_key(&key, a->ino, SNIC_KVFS_REC_DATA);
    rc = kvfs_delete(op, &key);
    if (rc == 0)
        rc = kvfs_put_attr(op, a);
    if (rc == 0 && bytes > 0)
        rc = kvfs_change_object(op, SNIC_KVOP_CHANGE_WRITE, a->ino, 0, old, bytes);
    if (rc != 0)
        return rc;
    kvfs_data_commit_note(op, bytes > 0 ? (int64_t)SNIC_KVOP_BLOCK : 0, 1);
    op->s[KVFS_DATA_S_SPACE] = a->space;
    op->s[KVFS_DATA_S_FLAGS] = a->flags;
    return kvfs_data_commit(op, a->ino, 0, step);
}

/* A 'D' record of `bytes` bytes, or none. */
static int kvfs_data_space_put(struct kvfs_op *op, struct snic_fsop_attr *a, const void *body,
                               uint32_t bytes)
{
    struct snic_kvop_key key;
    a->space = kvfs_data_small_space(bytes);
    snic_kvfs_key(&key, a->ino, SNIC_KVFS_REC_DATA);
    return bytes == 0 ? kvfs_delete(op, &key) : kvfs_put(op, &key, body, bytes);
}

static int kvfs_data_space_truncate_small(struct kvfs_op *op, struct snic_fsop_attr *a,
                                          uint64_t size, uint32_t step)
{
    const void *old = NULL;
    uint32_t bytes = 0;
    int rc = 0;
    if (size < a->size) {
        if (size > 0)
            rc = kvfs_data_get_small(op, a, 1, &old, &bytes);
        if (rc == 0 && (size == 0 || size < bytes))
            rc = kvfs_data_space_put(op, a, old, (uint32_t)size);
    }
    a->size = size;
    if (rc == 0)
        rc = kvfs_put_attr(op, a);
    if (rc != 0)
        return rc;
    kvfs_data_commit_note(op, INT64_MIN, 0);
    op->s[KVFS_DATA_S_SPACE] = a->space;
    op->s[KVFS_DATA_S_FLAGS] = a->flags;
    return kvfs_data_commit(op, a->ino, 0, step);
}

static int kvfs_data_space_truncate_big(struct kvfs_op *op, struct snic_fsop_attr *a, uint64_t size,
                                        uint32_t step)
{
    uint64_t space = snic_min_u64(a->space, snic_align_up(size, SNIC_KVOP_BLOCK));
    int64_t allocated = 0;
    int clean = 0, rc = 0;
    if (size > a->size) {
        if (!kvfs_tail_is_clean(op, a->ino)) {
            rc = kvfs_data_cut_tail(op, a);
            clean = 1;
        }
    } else if (size < a->size || space < a->space) {
        rc = kvfs_change_object(op, SNIC_KVOP_CHANGE_TRUNCATE, a->ino, size, NULL, 0);
        allocated = size == 0 ? INT64_MIN : (int64_t)(space - a->space);
        a->space = space;
        clean = 1;
    }
    if (size == 0)
        a->flags &= ~(uint32_t)SNIC_KVFS_ATTR_BIG;
    a->size = size;
    if (rc == 0)
        rc = kvfs_put_attr(op, a);
    if (rc != 0)
        return rc;
    kvfs_data_commit_note(op, allocated, clean);
    op->s[KVFS_DATA_S_SPACE] = a->space;
    op->s[KVFS_DATA_S_FLAGS] = a->flags;
    return kvfs_data_commit(op, a->ino, 0, step);
}

int kvfs_truncate(struct kvfs_op *op, struct snic_fsop_attr *a, uint64_t size, uint32_t step)
{
    int rc;
    if (kvfs_data_commits(op, step)) {
        a->size = size;
        a->space = op->s[KVFS_DATA_S_SPACE];
        a->flags = (uint32_t)op->s[KVFS_DATA_S_FLAGS];
        return kvfs_data_commit(op, a->ino, 0, step);
    }
    if (size > SNIC_KVFS_SIZE_MAX)
        return SNIC_EFBIG;
    rc = kvfs_data_strip(op, a, 0);
    if (rc != 0)
        return rc;
    if (size < a->size)
        op->reserve = 1; /* it frees space */
    if ((a->flags & SNIC_KVFS_ATTR_BIG) != 0)
        return kvfs_data_space_truncate_big(op, a, size, step);
    if (size <= SNIC_KVFS_SMALL_MAX)
        return kvfs_data_space_truncate_small(op, a, size, step);
    return kvfs_data_convert(op, a, size, step);
}

/* ---- FALLOCATE ---- */

struct kvfs_fallocate {
    uint64_t offset;
    uint64_t end;
    uint64_t size; /* of the file afterwards */
    int keep;
    int punch;
    int zero;
};

static int kvfs_data_space_fallocate_args(const struct kvfs_op *op, struct kvfs_fallocate *f)
{
    const struct snic_fsop *req = op->req;
    f->keep = (req->flags & SNIC_FSOP_FALLOC_KEEP_SIZE) != 0;
    f->punch = (req->flags & SNIC_FSOP_FALLOC_PUNCH) != 0;
    f->zero = (req->flags & SNIC_FSOP_FALLOC_ZERO) != 0;
    f->offset = req->offset;
    f->end = req->offset + req->length;
    if (req->length == 0)
        return SNIC_EINVAL;
    if (f->punch && (!f->keep || f->zero))
        return SNIC_ENOTSUP;
    if (f->end < f->offset || f->end > SNIC_KVFS_SIZE_MAX)
        return SNIC_EFBIG;
    return kvfs_data_handle(op, op->ino, SNIC_FSOP_OPEN_WRITE);
}

/* Times, size, and the mode bits that a write clears; then the commit. */
static int kvfs_data_space_fallocate_commit(struct kvfs_op *op, struct snic_fsop_attr *a,
                                            const struct kvfs_fallocate *f, int clean)
{
    int rc = kvfs_data_strip(op, a, 1);
    if (rc != 0)
        return rc;
    a->mtime = kvfs_time(op);
    a->ctime = a->mtime;
    a->size = f->size;
    rc = kvfs_put_attr(op, a);
    if (rc != 0)
        return rc;
    kvfs_data_commit_note(op, INT64_MIN, clean);
    return kvfs_data_commit(op, a->ino, 0, KVFS_FALLOC_ALL);
}

static int kvfs_data_space_fallocate_small(struct kvfs_op *op, struct snic_fsop_attr *a,
                                           const struct kvfs_fallocate *f)
{
    const void *old;
    unsigned char *flat = kvfs_alloc(op, SNIC_KVFS_SMALL_MAX);
    uint32_t bytes;
    int rc;
    if (flat == NULL)
        return SNIC_ENOMEM;
    rc = kvfs_data_get_small(op, a, 1, &old, &bytes);
    if (rc != 0)
        return rc;
    SNIC_ASSERT(bytes <= SNIC_KVFS_SMALL_MAX);
    memset(flat, 0, SNIC_KVFS_SMALL_MAX);
    if (bytes > 0)
        memcpy(flat, old, bytes);
    if ((f->punch || f->zero) && f->offset < SNIC_KVFS_SMALL_MAX)
        memset(flat + f->offset, 0,
               (size_t)(snic_min_u64(f->end, SNIC_KVFS_SMALL_MAX) - f->offset));
    if (!f->punch)
        bytes = (uint32_t)snic_max_u64(bytes, snic_min_u64(f->end, f->size));
    else if (f->end >= bytes)
        bytes = (uint32_t)snic_min_u64(bytes, f->offset);
    rc = kvfs_data_space_put(op, a, flat, bytes);
    return rc != 0 ? rc : kvfs_data_space_fallocate_commit(op, a, f, 0);
}

static int kvfs_data_space_fallocate_big(struct kvfs_op *op, struct snic_fsop_attr *a,
                                         const struct kvfs_fallocate *f)
{
    struct snic_kvop want = {.kind = f->punch  ? SNIC_KVOP_OBJECT_PUNCH
                                     : f->zero ? SNIC_KVOP_OBJECT_ZERO
                                               : SNIC_KVOP_OBJECT_ALLOC,
                             .object = a->ino,
                             .offset = f->offset,
                             .length = f->end - f->offset};
    static const struct snic_kvop nothing;
    const struct snic_kvop *got = &nothing; /* a store that cannot reserve space */
    const struct kvfs_ahead *ahead = kvfs_data_ahead(op, a->ino);
    int rc = ahead == NULL ? SNIC_ENOMEM : 0, clean = 0;
    if (f->punch) {
        want.flags = SNIC_KVOP_RESERVE; /* it frees space */
        op->reserve = 1;
    }
    if (rc == 0 && f->size > a->size && !ahead->clean) {
        rc = kvfs_data_cut_tail(op, a);
        clean = 1;
    }
    if (rc == 0 && (f->punch || f->zero || (op->k->o.caps & SNIC_KV_CAP_ALLOC) != 0)) {
        kvfs_data_send_ahead(op, a->ino, 0); /* it leaves zeros behind the size */
        rc = kvfs_data_io(op, KVFS_SPACE_CHANGE, &want, &got);
    }
    if (rc != 0)
        return rc;
    if (f->size == a->size && !ahead->again) {
        rc = kvfs_data_inside(op, 0, a);
        if (rc != KVFS_DATA_MORE)
            return rc != 0 ? rc : kvfs_data_defer_times(op, a->ino, got->allocated);
    }
    a->space = kvfs_space_add(a->space, got->allocated);
    if (ahead->again) {
        rc = kvfs_data_stat_space(op, a, KVFS_SPACE_STAT);
        if (rc != 0)
            return rc;
    }
    return kvfs_data_space_fallocate_commit(op, a, f, clean);
}

int kvfs_run_fallocate(struct kvfs_op *op)
{
    struct snic_fsop_attr a;
    struct kvfs_fallocate f;
    int rc = kvfs_data_space_fallocate_args(op, &f);
    if (rc == 0)
        rc = kvfs_lock(op, op->ino, KVFS_EXCLUSIVE);
    if (rc == 0)
        rc = kvfs_get_attr(op, op->ino, &a);
    if (rc == 0)
        rc = kvfs_data_file(op, &a, op->req->handle == 0 ? KVFS_MAY_WRITE : 0);
    if (rc != 0)
        return rc;
    f.size = f.keep ? a.size : snic_max_u64(a.size, f.end);
    if (kvfs_data_commits(op, KVFS_FALLOC_ALL))
        return kvfs_data_commit(op, op->ino, 0, KVFS_FALLOC_ALL);
    if (kvfs_data_commits(op, KVFS_FALLOC_CONVERT))
        rc = kvfs_data_commit(op, op->ino, 0, KVFS_FALLOC_CONVERT);
    else if ((a.flags & SNIC_KVFS_ATTR_BIG) != 0)
        return kvfs_data_space_fallocate_big(op, &a, &f);
    else if (!f.punch && f.end > SNIC_KVFS_SMALL_MAX && !(f.zero && f.keep))
        rc = kvfs_data_convert(op, &a, a.size, KVFS_FALLOC_CONVERT);
    else
        return kvfs_data_space_fallocate_small(op, &a, &f);
    return rc != 0 ? rc : kvfs_next(op, KVFS_FALLOC_ALL);
}

/* ---- SEEK ---- */

static int kvfs_data_space_seek_small(struct kvfs_op *op, const struct snic_fsop_attr *a, int hole)
{
    uint64_t offset = op->req->offset;
    const void *body;
    uint32_t size;
    int rc = kvfs_data_get_small(op, a, 0, &body, &size);
    if (rc != 0)
        return rc;
    if (!hole && offset >= size)
        return SNIC_ENXIO;
    op->req->result = (int64_t)(hole && offset < size ? size : offset);
    return 0;
}

int kvfs_run_seek(struct kvfs_op *op)
{
    struct snic_fsop *req = op->req;
    struct snic_kvop want = {
        .kind = SNIC_KVOP_OBJECT_SEEK, .object = op->ino, .offset = req->offset};
    uint32_t which = req->flags & (SNIC_FSOP_SEEK_DATA | SNIC_FSOP_SEEK_HOLE);
    int hole = which == SNIC_FSOP_SEEK_HOLE;
    const struct snic_kvop *got;
    struct snic_fsop_attr a;
    int rc = which == SNIC_FSOP_SEEK_DATA || hole ? 0 : SNIC_EINVAL;
    if (rc == 0)
        rc = kvfs_data_handle(op, op->ino, 0);
    if (rc == 0)
        rc = kvfs_lock(op, op->ino, KVFS_SHARED);
    if (rc == 0)
        rc = kvfs_peek_attr(op, op->ino, &a);
    if (rc == 0)
        rc = kvfs_data_file(op, &a, req->handle == 0 ? KVFS_MAY_READ : 0);
    if (rc != 0)
        return rc;
    if (req->offset >= a.size)
        return SNIC_ENXIO;
    if ((a.flags & SNIC_KVFS_ATTR_BIG) == 0)
        return kvfs_data_space_seek_small(op, &a, hole);
    if (hole)
        want.flags = SNIC_KVOP_SEEK_HOLE;
    rc = kvfs_data_io(op, 0, &want, &got);
    if (rc == SNIC_ENOENT || (rc == 0 && !hole && (uint64_t)got->result >= a.size))
        return SNIC_ENXIO;
    if (rc == 0)
        req->result = (int64_t)snic_min_u64((uint64_t)got->result, a.size);
    return rc;
}

/* ---- STATFS ---- */

int kvfs_run_statfs(struct kvfs_op *op)
{
    struct snic_kvop want = {.kind = SNIC_KVOP_SPACE};
    struct snic_fsop_statfs *out = &op->req->statfs;
    const struct snic_kvop *got;
    int rc = kvfs_io(op, 0, &want, &got);
    if (rc != 0)
        return rc;
    out->bytes = got->space;
    out->bytes_free = got->space_free;
    out->files = SNIC_KVFS_INO_MAX;
    out->files_free = SNIC_KVFS_INO_MAX - snic_min_u64(op->k->ino_next, SNIC_KVFS_INO_MAX);
    return 0;
}
