/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* Files as arrays of bytes. */
#include "test_kvfs_bytes.h"

#include <stdlib.h>
#include <string.h>

void kvb_put(struct kvb *f, uint64_t offset, const void *bytes, uint64_t size)
{
    assert_true(offset + size <= KVB_MAX);
    memcpy(f->bytes + offset, bytes, size);
    if (offset + size > f->size)
        f->size = offset + size;
}

void kvb_cut(struct kvb *f, uint64_t size)
{
    assert_true(size <= KVB_MAX);
    if (size < f->size)
        memset(f->bytes + size, 0, f->size - size);
    f->size = size;
}

void kvb_zero(struct kvb *f, uint64_t offset, uint64_t size, int keep)
{
    uint64_t end = offset + size;
    assert_true(end <= KVB_MAX);
    memset(f->bytes + offset, 0, size);
    if (!keep && end > f->size)
        f->size = end;
}

void kvb_fill(void *out, size_t size, uint64_t tag)
{
    unsigned char *p = out;
    for (size_t i = 0; i < size; i++)
        p[i] = (unsigned char)(1 + (tag * 101 + i * 7 + i / 251) % 255);
}

/* ---- Calls ---- */

int64_t kvb_fallocate(struct kvt *t, uint64_t ino, uint64_t offset, uint64_t size, uint32_t flags)
{
    struct snic_fsop req;
    kvt_req(t, &req, SNIC_FSOP_FALLOCATE, ino, NULL);
    req.offset = offset;
    req.length = size;
    req.flags |= flags;
    return kvt_call(t, &req);
}

int64_t kvb_seek(struct kvt *t, uint64_t ino, uint64_t offset, uint32_t flag)
{
    struct snic_fsop req;
    kvt_req(t, &req, SNIC_FSOP_SEEK, ino, NULL);
    req.offset = offset;
    req.flags |= flag;
    return kvt_call(t, &req);
}

int64_t kvb_copy(struct kvt *t, uint64_t ino, uint64_t offset, uint64_t ino2, uint64_t offset2,
                 uint64_t size)
{
    struct snic_fsop req;
    kvt_req(t, &req, SNIC_FSOP_COPY, ino, NULL);
    req.offset = offset;
    req.ino2 = ino2;
    req.offset2 = offset2;
    req.length = size;
    return kvt_call(t, &req);
}

int64_t kvb_append(struct kvt *t, uint64_t ino, const void *bytes, size_t size)
{
    struct snic_fsop req;
    struct snic_iov iov = {.base = (void *)(uintptr_t)bytes, .size = size};
    kvt_req(t, &req, SNIC_FSOP_WRITE, ino, NULL);
    req.flags |= SNIC_FSOP_APPEND;
    req.offset = 12345;
    req.iov = &iov;
    req.iov_count = 1;
    return kvt_call(t, &req);
}

int64_t kvb_simple(struct kvt *t, enum snic_fsop_kind kind, uint64_t ino)
{
    struct snic_fsop req;
    kvt_req(t, &req, kind, ino, NULL);
    return kvt_call(t, &req);
}

/* ---- Comparing ---- */

int kvb_equal(struct kvt *t, const struct kvb *f)
{
    static unsigned char got[KVB_MAX + 64];
    struct snic_fsop_attr a;
    int64_t n;
    if (kvt_getattr(t, f->ino, &a) != 0 || a.size != f->size)
        return 0;
    memset(got, 0xee, sizeof(got));
    n = kvt_read(t, f->ino, 0, got, sizeof(got));
    return n == (int64_t)f->size && memcmp(got, f->bytes, f->size) == 0 && got[f->size] == 0xee;
}

uint64_t kvb_object(struct kvt *t, uint64_t ino)
{
    struct snic_kvop op = {.kind = SNIC_KVOP_OBJECT_STAT, .object = ino};
    snic_kvmem_apply(t->m, &op);
    assert_int_equal(op.result, 0);
    return (uint64_t)op.allocated;
}

uint64_t kvb_space(struct kvt *t, uint64_t ino)
{
    unsigned char value[SNIC_KVFS_HEAD + SNIC_KVFS_SMALL_MAX];
    struct snic_kvop_get get = {.value = value, .room = sizeof(value)};
    struct snic_kvop op = {.kind = SNIC_KVOP_GET, .gets = &get, .get_count = 1};
    uint64_t object = kvb_object(t, ino);
    snic_kvfs_key(&get.key, ino, SNIC_KVFS_REC_DATA);
    snic_kvmem_apply(t->m, &op);
    if (get.result == SNIC_ENOENT)
        return object;
    assert_int_equal(get.result, 0);
    assert_int_equal(object, 0);
    return (get.size - SNIC_KVFS_HEAD + 511) / 512 * 512;
}

void kvb_check(struct kvt *t, const struct kvb *f)
{
    struct snic_fsop_attr a;
    assert_int_equal(kvt_getattr(t, f->ino, &a), 0);
    assert_int_equal(a.size, f->size);
    assert_true(kvb_equal(t, f));
    assert_int_equal(a.space, kvb_space(t, f->ino));
    if ((a.flags & SNIC_KVFS_ATTR_BIG) == 0)
        assert_true(a.size <= SNIC_KVFS_SMALL_MAX);
}
