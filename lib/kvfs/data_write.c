/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * WRITE.
 *
 *   within the size of a big file     one object operation under a shared lock; deferred times
 *   small file that stays small       one commit of 'D' and attributes
 *   small file that becomes big       its bytes and the new ones to the object, then one commit
 *                                     that deletes 'D' and sets BIG; all in it where they fit
 *   big file that grows               bytes and attributes in one commit within the first stripe,
 *                                     else object operation, then commit
 *
 * Invariants
 *   1. The object of a small file is never read, and its bytes never become part of the file: a
 *      conversion writes all bytes up to its end, or empties the object first.
 *   2. A commit that fails leaves size, flag and 'D' as they were; bytes written ahead of it are
 *      behind the size, and are never taken for a hole (struct kvfs_ahead).
 *   3. A write is acknowledged after the commit that makes it part of the file.
 *   4. While others use the store, bytes behind the size are written in its commit or after it,
 *      wherever the store can do that: ahead of it they would overwrite bytes that another session
 *      has written there and committed. An append that is too large for a commit is written in
 *      pieces, each where the file ends then; for other writes the size is moved first, and the
 *      bytes are written within it.
 *   5. Where a commit cannot have them (RADOS, behind the first stripe) a write that begins within
 *      the size, or at its end, claims what is behind it: a commit moves the size, guarded by the
 *      attributes, so that no two writes get the same bytes; then it writes within the size.
 * Nothing is truncated first: bytes behind the size may be claimed by others already.
 */
#include "kvfs/data_priv.h"

enum {
    KVFS_WRITE_ALL = 0,
    KVFS_WRITE_GROW, /* invariant 4: the size alone */
    KVFS_WRITE_CLAIM /* invariant 5 */
};
/* op->s: bytes of earlier rounds, and with this one; where an append has claimed its bytes, 0:
 * nowhere. */
enum { KVFS_WRITE_SO_FAR = 0, KVFS_WRITE_COUNT, KVFS_WRITE_CLAIMED };
SNIC_STATIC_ASSERT((int)KVFS_WRITE_CLAIMED < (int)KVFS_DATA_S_SHARED,
                   "words of op->s are not those of changes");
/* Of a large append; each ends at a multiple of it. */
enum { KVFS_WRITE_PIECE = 65536 };
/* Io places. */
enum { KVFS_WRITE_HEAD = KVFS_DATA_IO_OWN, KVFS_WRITE_BYTES };

/* ---- Object bytes ---- */

static int kvfs_data_write_object(struct kvfs_op *op, const struct kvfs_write *w, int tail,
                                  int64_t *allocated)
{
    struct snic_kvop want = {.kind = SNIC_KVOP_OBJECT_WRITE,
                             .object = w->ino,
                             .offset = w->offset,
                             .length = w->bytes,
                             .iov = (struct snic_iov *)(uintptr_t)w->iov,
                             .iov_count = w->count};
    const struct snic_kvop *got;
    int rc;
    if ((w->flags & SNIC_FSOP_DIRECT) != 0)
        want.flags |= SNIC_KVOP_DIRECT;
    if ((w->flags & SNIC_FSOP_SYNC) != 0)
        want.flags |= SNIC_KVOP_DURABLE;
    kvfs_data_send_ahead(op, w->ino, tail);
    rc = kvfs_data_io(op, KVFS_WRITE_BYTES, &want, &got);
    if (rc == 0)
        *allocated = got->allocated;
    return rc;
}

int kvfs_data_overwrite(struct kvfs_op *op, const struct kvfs_write *w)
{
    int64_t allocated;
    int rc = kvfs_data_write_object(op, w, 0, &allocated);
    return rc != 0 ? rc : kvfs_data_defer_times(op, w->ino, allocated);
}

/* The bytes in one piece, for a commit: the caller's memory, or a copy. NULL: no memory. */
static const void *kvfs_data_write_flat(struct kvfs_op *op, const struct kvfs_write *w)
{
    void *flat;
    if (w->count == 1)
        return w->iov[0].base;
    flat = kvfs_alloc(op, (size_t)w->bytes);
    if (flat != NULL)
        kvfs_data_gather(w->iov, w->count, flat, w->bytes);
    return flat;
}

/* 1: [0, end) or a part of it may be in a commit, as one step of the store. */
static int kvfs_data_write_fits_commit(const struct kvfs_op *op, uint64_t bytes, uint64_t end)
{
    return bytes <= SNIC_KVOP_VALUE_MAX &&
           (end <= op->k->o.stripe_bytes || (op->k->o.caps & SNIC_KV_CAP_ATOMIC_OBJECT) != 0);
}

static int kvfs_data_write_sync(const struct kvfs_write *w)
{
    return (w->flags & SNIC_FSOP_SYNC) != 0;
}

/* ---- Small files ---- */

/* A piece of memory with the old bytes [0, size), zeros up to the offset, then the new ones. */
static unsigned char *kvfs_data_write_compose(struct kvfs_op *op, const struct kvfs_write *w,
                                              const void *old, uint32_t size, size_t room)
{
    unsigned char *flat = kvfs_alloc(op, room);
    if (flat == NULL)
        return NULL;
    SNIC_ASSERT(size <= room);
    SNIC_ASSERT(w->offset <= room && w->bytes <= room - w->offset);
    if (size > 0)
        memcpy(flat, old, size);
    if (w->offset > size)
        memset(flat + size, 0, (size_t)w->offset - size);
    kvfs_data_gather(w->iov, w->count, flat + w->offset, w->bytes);
    return flat;
}

/* The record, unless all its bytes are overwritten. */
static int kvfs_data_write_read_old(struct kvfs_op *op, const struct kvfs_write *w,
                                    const struct snic_fsop_attr *a, const void **old,
                                    uint32_t *size)
{
    *old = NULL;
    *size = 0;
    if (a->size == 0 || (w->offset == 0 && w->bytes >= a->size))
        return 0;
    return kvfs_data_get_small(op, a, 1, old, size);
}

static int kvfs_data_write_small(struct kvfs_op *op, const struct kvfs_write *w,
                                 struct snic_fsop_attr *a)
{
    struct snic_kvop_key key;
    const void *old, *body;
    uint32_t size;
    uint64_t end = w->offset + w->bytes;
    int rc = kvfs_data_write_read_old(op, w, a, &old, &size);
    if (rc != 0)
        return rc;
    if (size == 0 && w->offset == 0 && w->count == 1)
        body = w->iov[0].base;
    else
        body = kvfs_data_write_compose(op, w, old, size, SNIC_KVFS_SMALL_MAX);
    if (body == NULL)
        return SNIC_ENOMEM;
    size = (uint32_t)snic_max_u64(size, end);
    snic_kvfs_key(&key, w->ino, SNIC_KVFS_REC_DATA);
    rc = kvfs_put(op, &key, body, size);
    a->size = snic_max_u64(a->size, end);
    a->space = kvfs_data_small_space(size);
    if (rc == 0)
        rc = kvfs_put_attr(op, a);
    if (rc != 0)
        return rc;
    kvfs_data_commit_note(op, INT64_MIN, 0);
    return kvfs_data_commit(op, w->ino, kvfs_data_write_sync(w), w->step);
}

/* ---- From small to big ---- */

/* Note that attributes get BIG and 'D' is deleted. */
static int kvfs_data_write_make_big(struct kvfs_op *op, struct snic_fsop_attr *a, uint64_t size,
                                    uint64_t space)
{
    struct snic_kvop_key key;
    int rc = 0;
    if (a->size > 0) {
        snic_kvfs_key(&key, a->ino, SNIC_KVFS_REC_DATA);
        rc = kvfs_delete(op, &key);
    }
    a->flags |= SNIC_KVFS_ATTR_BIG;
    a->size = size;
    a->space = space;
    return rc != 0 ? rc : kvfs_put_attr(op, a);
}

/* All bytes of the new file in the commit. */
static int kvfs_data_write_convert_at_once(struct kvfs_op *op, const struct kvfs_write *w,
                                           struct snic_fsop_attr *a, const void *old, uint32_t size)
{
    uint64_t end = w->offset + w->bytes;
    const void *flat;
    int rc;
    if (size == 0 && w->offset == 0 && w->count == 1)
        flat = w->iov[0].base;
    else
        flat = kvfs_data_write_compose(op, w, old, size, (size_t)end);
    if (flat == NULL)
        return SNIC_ENOMEM;
    rc = kvfs_data_write_make_big(op, a, end, snic_align_up(end, SNIC_KVOP_BLOCK));
    if (rc == 0)
        rc = kvfs_change_object(op, SNIC_KVOP_CHANGE_WRITE, w->ino, 0, flat, (uint32_t)end);
    if (rc != 0)
        return rc;
    kvfs_data_commit_note(op, INT64_MIN, 0);
    return kvfs_data_commit(op, w->ino, kvfs_data_write_sync(w), w->step);
}

/* The old bytes, and zeros up to the new ones if those begin in the first block, to the object. */
static int kvfs_data_write_head(struct kvfs_op *op, const struct kvfs_write *w, const void *old,
                                uint32_t size, int64_t *allocated)
{
    struct snic_kvop want = {.kind = SNIC_KVOP_OBJECT_WRITE, .object = w->ino, .iov_count = 1};
    const struct snic_kvop *got;
    struct snic_iov *iov;
    unsigned char *head;
    uint64_t n = w->offset <= SNIC_KVFS_SMALL_MAX ? w->offset : size;
    int rc;
    *allocated = 0;
    if (n == 0)
        return 0;
    iov = kvfs_alloc(op, sizeof(*iov));
    head = kvfs_alloc(op, SNIC_KVFS_SMALL_MAX);
    if (iov == NULL || head == NULL)
        return SNIC_ENOMEM;
    SNIC_ASSERT(n <= SNIC_KVFS_SMALL_MAX);
    if (size > 0)
        memcpy(head, old, snic_min_u64(n, size));
    iov->base = head;
    iov->size = (size_t)n;
    want.iov = iov;
    want.length = n;
    if ((w->flags & SNIC_FSOP_SYNC) != 0)
        want.flags |= SNIC_KVOP_DURABLE;
    kvfs_data_send_ahead(op, w->ino, 1);
    rc = kvfs_data_io(op, KVFS_WRITE_HEAD, &want, &got);
    if (rc == 0)
        *allocated = got->allocated;
    return rc;
}

static int kvfs_data_write_convert(struct kvfs_op *op, const struct kvfs_write *w,
                                   struct snic_fsop_attr *a)
{
    const void *old;
    uint32_t size;
    uint64_t end = w->offset + w->bytes, space;
    int64_t head = 0, body = 0;
    int gap = w->offset > SNIC_KVFS_SMALL_MAX, clean = w->ahead->clean;
    int rc = kvfs_data_write_read_old(op, w, a, &old, &size);
    if (rc != 0)
        return rc;
    if (!gap && kvfs_data_write_fits_commit(op, end, end))
        return kvfs_data_write_convert_at_once(op, w, a, old, size);
    if (gap && !clean) {
        rc = kvfs_data_cut_tail(op, a);
        clean = 1;
    }
    if (rc == 0)
        rc = kvfs_data_write_head(op, w, old, size, &head);
    if (rc == 0)
        rc = kvfs_data_write_object(op, w, 1, &body);
    if (rc != 0)
        return rc;
    space =
        gap ? kvfs_space_add(kvfs_space_add(0, head), body) : snic_align_up(end, SNIC_KVOP_BLOCK);
    rc = kvfs_data_write_make_big(op, a, end, space);
    if (rc != 0)
        return rc;
    kvfs_data_commit_note(op, INT64_MIN, clean);
    return kvfs_data_commit(op, w->ino, kvfs_data_write_sync(w), w->step);
}

/* ---- Big files ---- */

/* Blocks that a write behind the size takes, if those were holes: exact except in rare cases. */
static int64_t kvfs_data_write_guess(const struct kvfs_write *w, const struct snic_fsop_attr *a)
{
    uint64_t end = snic_align_up(w->offset + w->bytes, SNIC_KVOP_BLOCK);
    uint64_t from = snic_max_u64(snic_align_up(a->size, SNIC_KVOP_BLOCK),
                                 snic_align_down(w->offset, SNIC_KVOP_BLOCK));
    return end > from ? (int64_t)(end - from) : 0;
}

static int kvfs_data_write_big(struct kvfs_op *op, const struct kvfs_write *w,
                               struct snic_fsop_attr *a)
{
    uint64_t end = w->offset + w->bytes;
    int64_t allocated = INT64_MIN;
    int clean = w->ahead->clean, rc = 0;
    if (w->offset > a->size && !clean) {
        rc = kvfs_data_cut_tail(op, a);
        clean = 1;
    }
    if (rc != 0)
        return rc;
    if (end > a->size && kvfs_data_write_fits_commit(op, w->bytes, end)) {
        const void *flat = kvfs_data_write_flat(op, w);
        if (flat == NULL)
            return SNIC_ENOMEM;
        rc = kvfs_change_object(op, SNIC_KVOP_CHANGE_WRITE, w->ino, w->offset, flat,
                                (uint32_t)w->bytes);
        allocated = kvfs_data_write_guess(w, a);
        a->space = kvfs_space_add(a->space, allocated);
    } else {
        int64_t taken = 0;
        rc = kvfs_data_write_object(op, w, end > a->size, &taken);
        a->space = kvfs_space_add(a->space, taken);
        if (rc == 0 && w->ahead->again)
            rc = kvfs_data_stat_space(op, a, KVFS_WRITE_HEAD);
    }
    a->size = snic_max_u64(a->size, end);
    if (rc == 0)
        rc = kvfs_put_attr(op, a);
    if (rc != 0)
        return rc;
    kvfs_data_commit_note(op, allocated, clean);
    return kvfs_data_commit(op, w->ino, kvfs_data_write_sync(w), w->step);
}

int kvfs_data_write(struct kvfs_op *op, const struct kvfs_write *w, struct snic_fsop_attr *a)
{
    int rc = kvfs_data_strip(op, a, 1);
    if (rc != 0)
        return rc;
    a->mtime = kvfs_time(op);
    a->ctime = a->mtime;
    if ((a->flags & SNIC_KVFS_ATTR_BIG) != 0)
        return kvfs_data_write_big(op, w, a);
    if (w->offset + w->bytes <= SNIC_KVFS_SMALL_MAX)
        return kvfs_data_write_small(op, w, a);
    return kvfs_data_write_convert(op, w, a);
}

/* ---- WRITE ---- */

/* The pieces of memory. 0; SNIC_ENOMEM. */
static int kvfs_data_write_cut(struct kvfs_op *op, struct kvfs_write *w)
{
    w->count = op->req->iov_count;
    w->iov = kvfs_data_cut(op, op->req->iov, &w->count, op->s[KVFS_WRITE_SO_FAR], w->bytes);
    op->s[KVFS_WRITE_COUNT] = op->s[KVFS_WRITE_SO_FAR] + w->bytes;
    return w->iov == NULL ? SNIC_ENOMEM : 0;
}

/* The offset and the length. 0; SNIC_EFBIG; SNIC_ENOMEM. */
static int kvfs_data_write_place(struct kvfs_op *op, struct kvfs_write *w,
                                 const struct snic_fsop_attr *a)
{
    if (op->s[KVFS_WRITE_CLAIMED] != 0)
        w->offset = op->s[KVFS_WRITE_CLAIMED];
    else if ((w->flags & SNIC_FSOP_APPEND) != 0)
        w->offset = a->size;
    if (w->offset >= SNIC_KVFS_SIZE_MAX)
        return SNIC_EFBIG;
    w->bytes = snic_min_u64(w->bytes, SNIC_KVFS_SIZE_MAX - w->offset);
    return kvfs_data_write_cut(op, w);
}

/* Invariant 5. KVFS_DATA_MORE: another round writes the bytes; PENDING; SNIC_E*. */
static int kvfs_data_write_claim(struct kvfs_op *op, const struct kvfs_write *w,
                                 struct snic_fsop_attr *a)
{
    int rc = kvfs_data_strip(op, a, 1);
    if (rc != 0)
        return rc;
    SNIC_ASSERT(w->offset > 0 && w->offset <= a->size);
    a->mtime = kvfs_time(op);
    a->ctime = a->mtime;
    a->size = w->offset + w->bytes;
    rc = kvfs_put_attr(op, a);
    if (rc != 0)
        return rc;
    if ((w->flags & SNIC_FSOP_APPEND) != 0)
        op->s[KVFS_WRITE_CLAIMED] = w->offset; /* undone if this round starts over */
    kvfs_data_commit_note(op, INT64_MIN, w->ahead->clean);
    rc = kvfs_data_commit(op, w->ino, kvfs_data_write_sync(w), KVFS_WRITE_CLAIM);
    return rc != 0 ? rc : KVFS_DATA_MORE;
}

/* Claimed bytes that another session has truncated since are not written: its truncation is the
 * later one of the two. 0; SNIC_ENOMEM. */
static int kvfs_data_write_claimed(struct kvfs_op *op, struct kvfs_write *w,
                                   const struct snic_fsop_attr *a)
{
    uint64_t all = w->bytes;
    int rc = 0;
    if (w->offset + all <= a->size)
        return 0;
    w->bytes = a->size > w->offset ? a->size - w->offset : 0;
    if (w->bytes > 0)
        rc = kvfs_data_write_cut(op, w);
    op->s[KVFS_WRITE_COUNT] = op->s[KVFS_WRITE_SO_FAR] + all;
    return rc;
}

/* Invariants 4, 5. 0: w, possibly shortened, is to be written; KVFS_DATA_MORE: the size has been
 * moved, and another round continues; PENDING; SNIC_E*. */
static int kvfs_data_write_shared(struct kvfs_op *op, struct kvfs_write *w,
                                  struct snic_fsop_attr *a)
{
    uint64_t end = w->offset + w->bytes, stripe = op->k->o.stripe_bytes;
    int big = (a->flags & SNIC_KVFS_ATTR_BIG) != 0, rc;
    int append = (w->flags & SNIC_FSOP_APPEND) != 0;
    int behind = !kvfs_data_write_fits_commit(op, 0, end); /* the first stripe */
    if (end <= (big ? a->size : SNIC_KVFS_SMALL_MAX) ||
        kvfs_data_write_fits_commit(op, big ? w->bytes : end, end))
        return 0;
    if (behind && (!append || w->offset >= stripe))
        return big && w->offset > 0 && w->offset <= a->size ? kvfs_data_write_claim(op, w, a) : 0;
    if (append) {
        w->bytes = KVFS_WRITE_PIECE - w->offset % KVFS_WRITE_PIECE;
        if (behind)
            w->bytes = snic_min_u64(w->bytes, stripe - w->offset);
        return kvfs_data_write_cut(op, w);
    }
    rc = kvfs_data_strip(op, a, 1);
    if (rc != 0)
        return rc;
    a->mtime = kvfs_time(op);
    a->ctime = a->mtime;
    rc = kvfs_truncate(op, a, end, KVFS_WRITE_GROW);
    return rc != 0 ? rc : KVFS_DATA_MORE;
}

static int kvfs_data_write_run(struct kvfs_op *op, struct kvfs_write *w)
{
    struct snic_fsop_attr a;
    int claimed = op->s[KVFS_WRITE_CLAIMED] != 0;
    int append = (w->flags & SNIC_FSOP_APPEND) != 0 && !claimed;
    int rc = kvfs_lock(op, w->ino, append ? KVFS_EXCLUSIVE : KVFS_SHARED);
    if (rc != 0)
        return rc;
    w->ahead = kvfs_data_ahead(op, w->ino);
    if (w->ahead == NULL)
        return SNIC_ENOMEM;
    if (append || (w->offset > 0 && w->offset < SNIC_KVFS_SMALL_MAX))
        kvfs_data_prefetch(op, w->ino);
    rc = kvfs_peek_attr(op, w->ino, &a);
    if (rc == 0)
        rc = kvfs_data_file(op, &a, op->req->handle == 0 ? KVFS_MAY_WRITE : 0);
    if (rc != 0 || w->bytes == 0)
        return rc;
    rc = kvfs_data_write_place(op, w, &a);
    if (rc == 0 && claimed)
        rc = kvfs_data_write_claimed(op, w, &a);
    if (rc != 0 || w->bytes == 0)
        return rc;
    if (!append && !w->ahead->again) {
        rc = kvfs_data_inside(op, w->offset + w->bytes, &a);
        if (rc != KVFS_DATA_MORE)
            return rc != 0 ? rc : kvfs_data_overwrite(op, w);
    }
    rc = kvfs_lock(op, w->ino, KVFS_EXCLUSIVE);
    if (rc == 0)
        rc = kvfs_get_attr(op, w->ino, &a);
    if (rc == 0 && kvfs_data_shared(op))
        rc = kvfs_data_write_shared(op, w, &a);
    return rc != 0 ? rc : kvfs_data_write(op, w, &a);
}

/* One round: all of it, a piece, or the size moved (KVFS_DATA_MORE). */
static int kvfs_data_write_round(struct kvfs_op *op, uint64_t all)
{
    const struct snic_fsop *req = op->req;
    struct kvfs_write w = {.ino = op->ino,
                           .flags = req->flags,
                           .offset = req->offset + op->s[KVFS_WRITE_SO_FAR],
                           .bytes = all - op->s[KVFS_WRITE_SO_FAR],
                           .step = KVFS_WRITE_ALL};
    struct snic_fsop_attr a = {.ino = op->ino};
    int rc;
    if (kvfs_data_commits(op, KVFS_WRITE_GROW)) {
        rc = kvfs_truncate(op, &a, 0, KVFS_WRITE_GROW);
        return rc != 0 ? rc : KVFS_DATA_MORE;
    }
    if (kvfs_data_commits(op, KVFS_WRITE_CLAIM)) {
        rc = kvfs_data_commit(op, w.ino, kvfs_data_write_sync(&w), KVFS_WRITE_CLAIM);
        return rc != 0 ? rc : KVFS_DATA_MORE;
    }
    if (kvfs_data_commits(op, KVFS_WRITE_ALL))
        return kvfs_data_commit(op, w.ino, kvfs_data_write_sync(&w), KVFS_WRITE_ALL);
    rc = kvfs_data_handle(op, op->ino, SNIC_FSOP_OPEN_WRITE);
    return rc != 0 ? rc : kvfs_data_write_run(op, &w);
}

int kvfs_run_write(struct kvfs_op *op)
{
    uint64_t all;
    int rc = kvfs_data_length(op->req, &all);
    if (rc == 0)
        rc = kvfs_data_write_round(op, all);
    if (kvfs_runs_again(op, rc))
        return rc;
    if (rc == KVFS_DATA_MORE || (rc == 0 && op->s[KVFS_WRITE_COUNT] < all)) {
        if (rc == 0) {
            op->s[KVFS_WRITE_SO_FAR] = op->s[KVFS_WRITE_COUNT];
            op->s[KVFS_WRITE_CLAIMED] = 0;
        }
        op->s[KVFS_DATA_S_SHARED] = 0;
        return kvfs_next(op, KVFS_WRITE_ALL);
    }
    if (rc == 0)
        op->req->result = (int64_t)op->s[KVFS_WRITE_COUNT];
    if (rc == 0 || op->s[KVFS_WRITE_SO_FAR] == 0)
        return rc;
    op->req->result = (int64_t)op->s[KVFS_WRITE_SO_FAR]; /* a later piece has failed */
    return 0;
}
