/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * COPY: a range of one file to another, or to another place in the same.
 *
 * In rounds: a hole of the source, or up to KVFS_COPY_CHUNK bytes through memory, is written as
 * WRITE would; the answer may be short. Within a round the phase is its progress.
 */
#include "kvfs/data_priv.h"

/* A chunk behind the bytes of a small file fits one commit. */
enum { KVFS_COPY_CHUNK = 61440, KVFS_COPY_ENOUGH = SNIC_FSOP_IO_MAX };
SNIC_STATIC_ASSERT(KVFS_COPY_CHUNK + SNIC_KVFS_SMALL_MAX <= SNIC_KVOP_VALUE_MAX,
                   "copies beside others");
enum {
    KVFS_COPY_READ = 0, /* a round begins */
    KVFS_COPY_WRITE,    /* the bytes are in memory */
    KVFS_COPY_HOLE,     /* the source has a hole */
    KVFS_COPY_BYTES,    /* commits: of bytes, of the size for a hole, of a conversion */
    KVFS_COPY_GROW,
    KVFS_COPY_CONVERT
};
/* op->s */
enum { KVFS_COPY_SO_FAR = 0, KVFS_COPY_NOW = 1, KVFS_COPY_ALL = 2 };
enum { KVFS_COPY_IO_READ = 0, KVFS_COPY_IO_SEEK = 1, KVFS_COPY_IO_PUNCH = 3 };

struct kvfs_copy {
    struct snic_fsop_attr from;
    struct snic_fsop_attr to;
    uint64_t offset; /* of this round */
    uint64_t offset2;
    uint64_t left;
    const struct kvfs_ahead *ahead;
    void *bytes;
};

static int kvfs_data_copy_lock(struct kvfs_op *op)
{
    uint64_t from = op->ino, to = op->ino2;
    int rc;
    if (from == to)
        return kvfs_lock(op, to, KVFS_EXCLUSIVE);
    rc = from < to ? kvfs_lock(op, from, KVFS_SHARED) : kvfs_lock(op, to, KVFS_EXCLUSIVE);
    if (rc != 0)
        return rc;
    return from < to ? kvfs_lock(op, to, KVFS_EXCLUSIVE) : kvfs_lock(op, from, KVFS_SHARED);
}

/* Before anything is copied: how much it will be. */
static int kvfs_data_copy_begin(struct kvfs_op *op, const struct kvfs_copy *c)
{
    const struct snic_fsop *req = op->req;
    uint64_t all = req->length;
    int rc = kvfs_data_file(op, &c->from, KVFS_MAY_READ);
    if (rc == 0)
        rc = kvfs_data_file(op, &c->to, KVFS_MAY_WRITE);
    if (rc != 0)
        return rc;
    if (req->offset + all < all || req->offset2 + all < all)
        return SNIC_EOVERFLOW;
    all = req->offset >= c->from.size ? 0 : snic_min_u64(all, c->from.size - req->offset);
    if (op->ino == op->ino2 && req->offset < req->offset2 + all && req->offset2 < req->offset + all)
        return SNIC_EINVAL;
    if (all > 0 && req->offset2 >= SNIC_KVFS_SIZE_MAX)
        return SNIC_EFBIG;
    op->s[KVFS_COPY_ALL] = all > 0 ? snic_min_u64(all, SNIC_KVFS_SIZE_MAX - req->offset2) : 0;
    return 0;
}

/* The hole at the offset, as far as it matters: op->s[KVFS_COPY_NOW], 0: there is data. */
static int kvfs_data_copy_seek(struct kvfs_op *op, const struct kvfs_copy *c)
{
    struct snic_kvop want = {.kind = SNIC_KVOP_OBJECT_SEEK, .object = op->ino, .offset = c->offset};
    const struct snic_kvop *got;
    uint64_t end = c->offset + c->left;
    int rc;
    op->s[KVFS_COPY_NOW] = 0;
    if ((c->from.flags & SNIC_KVFS_ATTR_BIG) == 0 || c->from.space >= c->from.size)
        return 0;
    rc = kvfs_data_io(op, KVFS_COPY_IO_SEEK, &want, &got);
    if (rc == 0)
        end = snic_min_u64(end, (uint64_t)got->result);
    else if (rc != SNIC_ENOENT)
        return rc;
    op->s[KVFS_COPY_NOW] = end - c->offset;
    return 0;
}

/* Bytes of this round to memory. */
static int kvfs_data_copy_read(struct kvfs_op *op, struct kvfs_copy *c)
{
    struct snic_kvop want = {.kind = SNIC_KVOP_OBJECT_READ,
                             .object = op->ino,
                             .offset = c->offset,
                             .length = snic_min_u64(c->left, KVFS_COPY_CHUNK),
                             .iov_count = 1};
    struct snic_iov *iov = kvfs_alloc(op, sizeof(*iov));
    const struct snic_kvop *got;
    const void *body;
    uint32_t size;
    int rc;
    if (iov == NULL)
        return SNIC_ENOMEM;
    op->s[KVFS_COPY_NOW] = want.length;
    if ((c->from.flags & SNIC_KVFS_ATTR_BIG) != 0) {
        iov->base = c->bytes;
        iov->size = (size_t)want.length;
        want.iov = iov;
        return kvfs_data_io(op, KVFS_COPY_IO_READ, &want, &got);
    }
    SNIC_ASSERT(want.length <= KVFS_COPY_CHUNK);
    rc = kvfs_data_get_small(op, &c->from, 0, &body, &size);
    if (rc == 0 && c->offset < size)
        memcpy(c->bytes, (const unsigned char *)body + c->offset,
               (size_t)snic_min_u64(want.length, size - c->offset));
    return rc;
}

static int kvfs_data_copy_write(struct kvfs_op *op, const struct kvfs_copy *c, uint64_t bytes)
{
    struct snic_iov *iov = kvfs_alloc(op, sizeof(*iov));
    struct snic_fsop_attr to = c->to;
    struct kvfs_write w = {.ino = op->ino2,
                           .ahead = c->ahead,
                           .iov = iov,
                           .count = 1,
                           .flags = op->req->flags & SNIC_FSOP_SYNC,
                           .offset = c->offset2,
                           .bytes = bytes,
                           .step = KVFS_COPY_BYTES};
    int rc;
    if (iov == NULL)
        return SNIC_ENOMEM;
    iov->base = c->bytes;
    iov->size = (size_t)bytes;
    rc = c->ahead->again ? KVFS_DATA_MORE : kvfs_data_inside(op, w.offset + bytes, &to);
    if (rc != KVFS_DATA_MORE)
        return rc != 0 ? rc : kvfs_data_overwrite(op, &w);
    return kvfs_data_write(op, &w, &to);
}

/* A hole of op->s[KVFS_COPY_NOW] bytes; less where the target needs several steps. */
static int kvfs_data_copy_hole(struct kvfs_op *op, const struct kvfs_copy *c)
{
    struct snic_kvop want = {
        .kind = SNIC_KVOP_OBJECT_PUNCH, .object = op->ino2, .offset = c->offset2};
    const struct snic_kvop *got;
    struct snic_fsop_attr to = c->to;
    uint64_t bytes = op->s[KVFS_COPY_NOW];
    int rc;
    if ((to.flags & SNIC_KVFS_ATTR_BIG) == 0 && c->offset2 < SNIC_KVFS_SMALL_MAX) {
        bytes = snic_min_u64(bytes, SNIC_KVFS_SMALL_MAX - c->offset2);
        op->s[KVFS_COPY_NOW] = bytes;
        return kvfs_data_copy_write(op, c, bytes);
    }
    rc = c->ahead->again ? KVFS_DATA_MORE : kvfs_data_inside(op, c->offset2 + 1, &to);
    if (rc == 0) {
        want.length = snic_min_u64(bytes, to.size - c->offset2);
        op->s[KVFS_COPY_NOW] = want.length;
        kvfs_data_send_ahead(op, op->ino2, 0);
        rc = kvfs_data_io(op, KVFS_COPY_IO_PUNCH, &want, &got);
        return rc != 0 ? rc : kvfs_data_defer_times(op, op->ino2, got->allocated);
    }
    if (rc != KVFS_DATA_MORE)
        return rc;
    if (c->offset2 < to.size) {
        bytes = snic_min_u64(bytes, KVFS_COPY_CHUNK);
        op->s[KVFS_COPY_NOW] = bytes;
        return kvfs_data_copy_write(op, c, bytes);
    }
    rc = kvfs_data_strip(op, &to, 1);
    if (rc != 0)
        return rc;
    to.mtime = kvfs_time(op);
    to.ctime = to.mtime;
    return kvfs_truncate(op, &to, c->offset2 + bytes, KVFS_COPY_GROW);
}

/* The target is small and gets a gap while others use the store (data_write.c, 4). */
static int kvfs_data_copy_converts_first(struct kvfs_op *op, const struct kvfs_copy *c)
{
    return (c->to.flags & SNIC_KVFS_ATTR_BIG) == 0 && c->offset2 > SNIC_KVFS_SMALL_MAX &&
           kvfs_data_shared(op);
}

static int kvfs_data_copy_round(struct kvfs_op *op, struct kvfs_copy *c)
{
    int rc = 0;
    if (kvfs_data_commits(op, KVFS_COPY_BYTES))
        return kvfs_data_commit(op, op->ino2, 0, KVFS_COPY_BYTES);
    if (kvfs_data_commits(op, KVFS_COPY_CONVERT))
        return kvfs_data_commit(op, op->ino2, 0, KVFS_COPY_CONVERT);
    c->ahead = kvfs_data_ahead(op, op->ino2);
    c->bytes = kvfs_alloc(op, KVFS_COPY_CHUNK);
    if (c->ahead == NULL || c->bytes == NULL)
        return SNIC_ENOMEM;
    if (op->phase == KVFS_COPY_READ) {
        rc = kvfs_data_copy_seek(op, c);
        if (rc != 0)
            return rc;
        if (op->s[KVFS_COPY_NOW] == 0)
            rc = kvfs_data_copy_read(op, c);
        else
            op->phase = KVFS_COPY_HOLE;
        if (rc != 0)
            return rc;
        kvfs_io_forget(op, KVFS_COPY_IO_READ);
        kvfs_io_forget(op, KVFS_COPY_IO_SEEK);
        if (op->phase == KVFS_COPY_READ)
            op->phase = KVFS_COPY_WRITE;
    }
    if (op->phase == KVFS_COPY_WRITE && kvfs_data_copy_converts_first(op, c)) {
        struct snic_fsop_attr to = c->to;
        op->s[KVFS_COPY_NOW] = 0; /* for the next round */
        return kvfs_data_convert(op, &to, to.size, KVFS_COPY_CONVERT);
    }
    if (op->phase == KVFS_COPY_WRITE)
        return kvfs_data_copy_write(op, c, op->s[KVFS_COPY_NOW]);
    return kvfs_data_copy_hole(op, c);
}

static int kvfs_data_copy_end(struct kvfs_op *op, uint64_t copied)
{
    struct snic_fsop_attr a;
    int rc = kvfs_peek_attr(op, op->ino, &a);
    if (rc == 0 && kvfs_relatime(op, &a))
        rc = kvfs_defer_times(op, &a);
    if (rc == 0)
        rc = kvfs_commit(op, 0);
    if (rc == 0)
        op->req->result = (int64_t)copied;
    return rc;
}

int kvfs_run_copy(struct kvfs_op *op)
{
    struct kvfs_copy c = {.bytes = NULL};
    uint64_t copied = op->s[KVFS_COPY_SO_FAR];
    int rc = kvfs_data_copy_lock(op);
    if (rc == 0)
        rc = kvfs_peek_attr(op, op->ino, &c.from);
    if (rc == 0)
        rc = kvfs_get_attr(op, op->ino2, &c.to);
    if (rc == 0 && op->phase == KVFS_COPY_READ && copied == 0)
        rc = kvfs_data_copy_begin(op, &c);
    if (rc != 0)
        return rc;
    c.offset = op->req->offset + copied;
    c.offset2 = op->req->offset2 + copied;
    c.left = op->s[KVFS_COPY_ALL] - copied;
    if (op->phase == KVFS_COPY_READ &&
        (c.left == 0 || copied >= KVFS_COPY_ENOUGH || c.offset >= c.from.size))
        return kvfs_data_copy_end(op, copied);
    rc = kvfs_data_copy_round(op, &c);
    if (rc == KVFS_PENDING)
        return rc;
    if (rc != 0) {
        if (copied == 0)
            return rc;
        op->req->result = (int64_t)copied;
        return 0;
    }
    op->s[KVFS_COPY_SO_FAR] = copied + op->s[KVFS_COPY_NOW];
    op->s[KVFS_DATA_S_SHARED] = 0;
    return kvfs_next(op, KVFS_COPY_READ);
}
