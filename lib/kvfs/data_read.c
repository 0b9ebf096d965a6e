/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * READ, and code shared by all data operations.
 *
 * A read of a big file is one object operation into the caller's memory under a shared lock. While
 * other sessions use the store, attributes and bytes are read one after the other, and a file may
 * be truncated, or change from small to big, between the two. Then bytes are read as zeros: an
 * answer that ends with a zero, or for which a 'D' record was too short, is returned only if the
 * attributes are still the same afterwards.
 */
#include "kvfs/data_priv.h"

enum { KVFS_DATA_READ_FIRST = 0, KVFS_DATA_READ_RECHECK };     /* op->phase */
enum { KVFS_DATA_READ_S_VERSION = 0, KVFS_DATA_READ_S_BYTES }; /* op->s: of the first read */

int kvfs_data_length(const struct snic_fsop *req, uint64_t *bytes)
{
    uint64_t sum = 0;
    if (req->iov_count > SNIC_KVOP_IOV_MAX)
        return SNIC_EINVAL;
    for (uint32_t i = 0; i < req->iov_count; i++) {
        if (req->iov[i].size > SNIC_FSOP_IO_MAX)
            return SNIC_EINVAL;
        sum += req->iov[i].size;
    }
    if (sum > SNIC_FSOP_IO_MAX)
        return SNIC_EINVAL;
    *bytes = sum;
    return 0;
}

int kvfs_data_handle(const struct kvfs_op *op, uint64_t ino, uint32_t need)
{
    uint64_t handle = op->req->handle;
    if (handle == 0)
        return 0;
    if (kvfs_handle_ino(handle) != ino || (kvfs_handle_flags(handle) & need) != need ||
        kvfs_inode_opens(op->k, ino) == 0)
        return SNIC_EBADF;
    return 0;
}

int kvfs_data_file(struct kvfs_op *op, const struct snic_fsop_attr *a, uint32_t want)
{
    if (kvfs_is_dir(a))
        return SNIC_EISDIR;
    if (!kvfs_is_reg(a))
        return SNIC_EINVAL;
    return want == 0 ? 0 : kvfs_may(op, a, want);
}

const struct snic_iov *kvfs_data_cut(struct kvfs_op *op, const struct snic_iov *iov,
                                     uint32_t *count, uint64_t at, uint64_t bytes)
{
    struct snic_iov *cut;
    uint64_t sum = 0;
    uint32_t n = 0, kept = 0, all = 0;
    for (; at > 0 && at >= iov->size; iov++, (*count)--)
        at -= iov->size;
    bytes += at;
    while (n < *count && sum < bytes) {
        all += iov[n].size > 0;
        sum += iov[n++].size;
    }
    SNIC_DASSERT(sum >= bytes); /* kvfs_data_length() counted them */
    *count = all;
    if (sum == bytes && all == n && at == 0)
        return iov;
    cut = kvfs_alloc(op, all * sizeof(*cut));
    if (cut == NULL)
        return NULL;
    for (uint32_t i = 0; i < n; i++) {
        if (iov[i].size > 0)
            cut[kept++] = iov[i];
    }
    SNIC_DASSERT(kept == all && kept > 0);
    cut[kept - 1].size -= (size_t)(sum - bytes);
    cut[0].base = (unsigned char *)cut[0].base + at;
    cut[0].size -= (size_t)at;
    return cut;
}

/* Bytes into pieces, from their `at` on; NULL: zeros. */
static void kvfs_data_scatter(const struct snic_iov *iov, uint32_t count, uint64_t at,
                              const void *from, uint64_t bytes)
{
    const unsigned char *p = from;
    for (uint32_t i = 0; i < count && bytes > 0; i++) {
        size_t n;
        if (at >= iov[i].size) {
            at -= iov[i].size;
            continue;
        }
        n = (size_t)snic_min_u64(iov[i].size - at, bytes);
        if (p == NULL) {
            memset((unsigned char *)iov[i].base + at, 0, n);
        } else {
            memcpy((unsigned char *)iov[i].base + at, p, n);
            p += n;
        }
        bytes -= n;
        at = 0;
    }
}

void kvfs_data_gather(const struct snic_iov *iov, uint32_t count, void *to, uint64_t bytes)
{
    unsigned char *p = to;
    for (uint32_t i = 0; i < count && bytes > 0; i++) {
        size_t n = (size_t)snic_min_u64(iov[i].size, bytes);
        if (n == 0)
            continue;
        memcpy(p, iov[i].base, n);
        p += n;
        bytes -= n;
    }
}

int kvfs_data_io(struct kvfs_op *op, uint32_t place, const struct snic_kvop *want,
                 const struct snic_kvop **got)
{
    int rc = kvfs_io(op, place, want, got);
    if (rc == SNIC_ECORRUPT)
        kvfs_report_object_damage(op->k, want->object, (*got)->bad_offset,
                                  "checksum of object bytes is wrong");
    return rc;
}

int kvfs_data_get_small(struct kvfs_op *op, const struct snic_fsop_attr *a, int guard,
                        const void **body, uint32_t *size)
{
    struct snic_kvop_key key;
    int rc;
    *body = NULL;
    snic_kvfs_key(&key, a->ino, SNIC_KVFS_REC_DATA);
    rc = guard ? kvfs_get(op, &key, body, size) : kvfs_peek(op, &key, body, size);
    if (rc == SNIC_ENOENT) {
        *size = 0;
        return 0;
    }
    if (rc == 0 && *size > SNIC_KVFS_SMALL_MAX) {
        kvfs_report_damage(op->k, &key, "data of a small file is too long");
        return SNIC_ECORRUPT;
    }
    if (rc == 0)
        *size = (uint32_t)snic_min_u64(*size, a->size);
    return rc;
}

void kvfs_data_prefetch(struct kvfs_op *op, uint64_t ino)
{
    struct snic_kvop_key key;
    if (kvfs_alone(op->k))
        return;
    snic_kvfs_key(&key, ino, SNIC_KVFS_REC_DATA);
    kvfs_prefetch(op, &key);
}

/* ---- READ ---- */

/* Zeros at the end may be bytes that were removed after the attributes were read. */
static int kvfs_data_read_is_doubtful(const struct kvfs_op *op, const struct snic_iov *iov,
                                      uint32_t count, uint64_t bytes)
{
    if (kvfs_alone(op->k))
        return 0;
    for (uint32_t i = 0; i < count; i++) {
        if (bytes <= iov[i].size)
            return ((const unsigned char *)iov[i].base)[bytes - 1] == 0;
        bytes -= iov[i].size;
    }
    return 0;
}

static int kvfs_data_read_end(struct kvfs_op *op, uint64_t bytes)
{
    struct snic_fsop_attr a;
    int rc = 0;
    if ((op->req->flags & SNIC_FSOP_NOATIME) == 0) {
        rc = kvfs_peek_attr(op, op->ino, &a);
        if (rc == 0 && kvfs_relatime(op, &a))
            rc = kvfs_defer_times(op, &a);
        if (rc == 0)
            rc = kvfs_commit(op, 0);
    }
    if (rc == 0)
        op->req->result = (int64_t)bytes;
    return rc;
}

static int kvfs_data_read_small(struct kvfs_op *op, const struct snic_fsop_attr *a, uint64_t bytes)
{
    const struct snic_fsop *req = op->req;
    const void *body;
    uint32_t size;
    uint64_t there;
    int rc = kvfs_data_get_small(op, a, 0, &body, &size);
    if (rc != 0)
        return rc;
    there = req->offset >= size ? 0 : snic_min_u64(bytes, size - req->offset);
    if (there > 0)
        kvfs_data_scatter(req->iov, req->iov_count, 0, (const unsigned char *)body + req->offset,
                          there);
    kvfs_data_scatter(req->iov, req->iov_count, there, NULL, bytes - there);
    return 0;
}

static int kvfs_data_read_big(struct kvfs_op *op, uint64_t bytes)
{
    const struct snic_fsop *req = op->req;
    struct snic_kvop want = {.kind = SNIC_KVOP_OBJECT_READ,
                             .object = op->ino,
                             .offset = req->offset,
                             .length = bytes,
                             .iov_count = req->iov_count};
    const struct snic_kvop *got;
    const struct snic_iov *iov = kvfs_data_cut(op, req->iov, &want.iov_count, 0, bytes);
    if (iov == NULL)
        return SNIC_ENOMEM;
    want.iov = (struct snic_iov *)(uintptr_t)iov;
    if ((req->flags & SNIC_FSOP_DIRECT) != 0)
        want.flags = SNIC_KVOP_DIRECT;
    return kvfs_data_io(op, 0, &want, &got);
}

/* Read the attributes again. */
static int kvfs_data_read_recheck(struct kvfs_op *op)
{
    struct snic_fsop_attr a;
    int rc = kvfs_peek_attr(op, op->ino, &a);
    if (rc != 0)
        return rc;
    if (a.version != op->s[KVFS_DATA_READ_S_VERSION])
        return kvfs_next(op, KVFS_DATA_READ_FIRST);
    return kvfs_data_read_end(op, op->s[KVFS_DATA_READ_S_BYTES]);
}

int kvfs_run_read(struct kvfs_op *op)
{
    const struct snic_fsop *req = op->req;
    struct snic_fsop_attr a;
    uint64_t bytes = 0;
    int rc = kvfs_data_length(req, &bytes);
    if (rc == 0)
        rc = kvfs_data_handle(op, op->ino, SNIC_FSOP_OPEN_READ);
    if (rc == 0)
        rc = kvfs_lock(op, op->ino, KVFS_SHARED);
    if (rc != 0)
        return rc;
    if (op->phase == KVFS_DATA_READ_RECHECK)
        return kvfs_data_read_recheck(op);
    kvfs_data_prefetch(op, op->ino);
    rc = kvfs_peek_attr(op, op->ino, &a);
    if (rc == 0)
        rc = kvfs_data_file(op, &a, req->handle == 0 ? KVFS_MAY_READ : 0);
    if (rc != 0)
        return rc;
    if (bytes == 0)
        return 0;
    if (req->offset >= a.size)
        return kvfs_data_read_end(op, 0);
    bytes = snic_min_u64(bytes, a.size - req->offset);
    rc = (a.flags & SNIC_KVFS_ATTR_BIG) != 0 ? kvfs_data_read_big(op, bytes)
                                             : kvfs_data_read_small(op, &a, bytes);
    if (rc != 0)
        return rc;
    if (kvfs_data_read_is_doubtful(op, req->iov, req->iov_count, bytes)) {
        op->s[KVFS_DATA_READ_S_VERSION] = a.version;
        op->s[KVFS_DATA_READ_S_BYTES] = bytes;
        return kvfs_next(op, KVFS_DATA_READ_RECHECK);
    }
    return kvfs_data_read_end(op, bytes);
}
