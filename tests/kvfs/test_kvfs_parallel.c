/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * Long random runs: many requests in flight on several files, completions of the store in random
 * order. A file is in use by one request that may change all of it, or by several that keep
 * to slots of their own; slots are no multiples of blocks, so neighbours share one.
 */
#include "test_kvfs_bytes.h"

#include <stdlib.h>
#include <string.h>

enum { FILES = 5, SLOT = 7000, SLOTS = 24, FLIGHT = 24, WHOLE = SLOTS };

struct flight {
    int busy;
    struct snic_fsop req;
    struct snic_iov iov[3];
    unsigned file;
    unsigned slot;   /* WHOLE: all of the file */
    int64_t want;    /* the result */
    uint64_t expect; /* READ: where in the file */
    unsigned char *bytes;
};

struct run {
    struct kvt t;
    struct kvb file[FILES];
    uint32_t used[FILES]; /* bit set of slots; all: WHOLE */
    struct flight flight[FLIGHT];
    uint64_t tag;
};

static uint64_t below(struct run *r, uint64_t n)
{
    return snic_rng_below(&r->t.rng, n);
}

/* The memory of a request in up to three pieces. */
static void pieces(struct run *r, struct flight *f, uint64_t size)
{
    uint64_t a = below(r, size + 1), b = below(r, size + 1);
    if (a > b) {
        uint64_t c = a;
        a = b;
        b = c;
    }
    f->iov[0] = (struct snic_iov){.base = f->bytes, .size = a};
    f->iov[1] = (struct snic_iov){.base = f->bytes + a, .size = b - a};
    f->iov[2] = (struct snic_iov){.base = f->bytes + b, .size = size - b};
    f->req.iov = f->iov;
    f->req.iov_count = 3;
    if (below(r, 2) == 0) {
        f->iov[0].size = size;
        f->req.iov_count = 1;
    }
}

static void write_at(struct run *r, struct flight *f, uint64_t offset, uint64_t size)
{
    struct kvb *b = &r->file[f->file];
    f->req.kind = SNIC_FSOP_WRITE;
    f->req.offset = offset;
    kvb_fill(f->bytes, size, ++r->tag);
    if (below(r, 8) == 0)
        memset(f->bytes, 0, size);
    pieces(r, f, size);
    kvb_put(b, offset, f->bytes, size);
    f->want = (int64_t)size;
}

static void read_at(struct run *r, struct flight *f, uint64_t offset, uint64_t size)
{
    const struct kvb *b = &r->file[f->file];
    f->req.kind = SNIC_FSOP_READ;
    f->req.offset = offset;
    memset(f->bytes, 0xee, size);
    pieces(r, f, size);
    f->want = offset >= b->size ? 0 : (int64_t)snic_min_u64(size, b->size - offset);
    f->expect = offset;
}

/* One that may do anything to its file. */
static void whole(struct run *r, struct flight *f)
{
    struct kvb *b = &r->file[f->file];
    uint64_t max = below(r, 3) == 0 ? 10000 : (uint64_t)SLOT * SLOTS;
    uint64_t offset = below(r, max), size = 1 + below(r, max - offset);
    uint32_t flags[] = {SNIC_FSOP_FALLOC_PUNCH | SNIC_FSOP_FALLOC_KEEP_SIZE, SNIC_FSOP_FALLOC_ZERO,
                        SNIC_FSOP_FALLOC_ZERO | SNIC_FSOP_FALLOC_KEEP_SIZE, 0,
                        SNIC_FSOP_FALLOC_KEEP_SIZE};
    unsigned kind = (unsigned)below(r, 12);
    f->want = 0;
    if (kind < 5) {
        write_at(r, f, offset, size);
    } else if (kind < 6) {
        size = snic_min_u64(size, KVB_MAX - b->size);
        if (size == 0) {
            read_at(r, f, offset, 1);
            return;
        }
        write_at(r, f, b->size, size);
        f->req.flags |= SNIC_FSOP_APPEND;
        f->req.offset = 0;
    } else if (kind < 8) {
        f->req.kind = SNIC_FSOP_SETATTR;
        f->req.set_mask = SNIC_FSOP_SET_SIZE;
        f->req.attr.size = below(r, 4) == 0 ? 0 : offset;
        kvb_cut(b, f->req.attr.size);
    } else if (kind < 10) {
        unsigned n = (unsigned)below(r, SNIC_COUNTOF(flags));
        uint64_t before = b->size;
        f->req.kind = SNIC_FSOP_FALLOCATE;
        f->req.offset = offset;
        f->req.length = size;
        f->req.flags |= flags[n];
        if (n < 3)
            kvb_zero(b, offset, size, n != 1);
        else if (n == 3)
            b->size = snic_max_u64(before, offset + size);
    } else {
        read_at(r, f, offset, size);
    }
}

static void start(struct run *r, struct flight *f)
{
    struct kvb *b;
    f->file = (unsigned)below(r, FILES);
    f->slot = (unsigned)below(r, SLOTS + 1);
    if (f->slot != WHOLE && below(r, 3) == 0)
        f->slot = WHOLE;
    b = &r->file[f->file];
    if (f->slot == WHOLE ? r->used[f->file] != 0 : (r->used[f->file] >> f->slot & 1) != 0)
        return;
    if (f->slot != WHOLE && (uint64_t)(f->slot + 1) * SLOT > b->size)
        return;
    kvt_req(&r->t, &f->req, SNIC_FSOP_READ, b->ino, NULL);
    f->req.ctx = f;
    if (f->slot == WHOLE) {
        r->used[f->file] = UINT32_MAX;
        whole(r, f);
    } else {
        uint64_t offset = below(r, SLOT), size = 1 + below(r, SLOT - offset);
        r->used[f->file] |= 1u << f->slot;
        if (below(r, 2) == 0)
            write_at(r, f, (uint64_t)f->slot * SLOT + offset, size);
        else
            read_at(r, f, (uint64_t)f->slot * SLOT + offset, size);
    }
    if (below(r, 10) == 0)
        f->req.flags |= SNIC_FSOP_SYNC;
    if (below(r, 10) == 0)
        f->req.flags |= SNIC_FSOP_DIRECT;
    f->busy = 1;
    kvt_submit(&r->t, &f->req);
}

static void finish(struct run *r, struct snic_fsop *req)
{
    struct flight *f = req->ctx;
    assert_int_equal(req->result, f->want);
    if (req->kind == SNIC_FSOP_READ && f->want > 0)
        assert_memory_equal(f->bytes, r->file[f->file].bytes + f->expect, (size_t)f->want);
    if (f->slot == WHOLE)
        r->used[f->file] = 0;
    else
        r->used[f->file] &= ~(1u << f->slot);
    f->busy = 0;
}

static void drain(struct run *r)
{
    for (unsigned i = 0; i < FLIGHT; i++) {
        while (r->flight[i].busy) {
            struct snic_fsop *req = kvt_wait(&r->t);
            assert_non_null(req);
            finish(r, req);
        }
    }
    for (unsigned i = 0; i < FILES; i++)
        kvb_check(&r->t, &r->file[i]);
    kvt_check(&r->t);
}

static void run(const struct snic_kvfs_opts *o, unsigned rounds)
{
    struct run *r = calloc(1, sizeof(*r));
    char name[2] = "a";
    assert_non_null(r);
    kvt_open(&r->t, o);
    r->t.random = 1;
    for (unsigned i = 0; i < FILES; i++) {
        name[0] = (char)('a' + i);
        r->file[i].ino = kvt_create(&r->t, SNIC_FSOP_ROOT, name, 0644);
    }
    for (unsigned i = 0; i < FLIGHT; i++)
        r->flight[i].bytes = malloc(KVB_MAX);
    for (unsigned n = 0; n < rounds; n++) {
        struct flight *f = &r->flight[below(r, FLIGHT)];
        struct snic_fsop *req;
        if (!f->busy)
            start(r, f);
        for (uint64_t k = below(r, 4); k > 0; k--)
            (void)kvt_step(&r->t);
        while ((req = snic_kvfs_poll_done(r->t.k)) != NULL)
            finish(r, req);
        if (n % 500 == 0)
            drain(r);
        if (n % 100 == 0)
            kvt_advance(&r->t, 300000000); /* deferred times and space leave now and then */
    }
    drain(r);
    for (unsigned i = 0; i < FILES; i++)
        assert_int_equal(
            kvt_release(&r->t, r->file[i].ino, SNIC_FSOP_OPEN_READ | SNIC_FSOP_OPEN_WRITE), 0);
    assert_int_equal(kvt_unmount(&r->t), 0);
    assert_int_equal(kvt_mount(&r->t), 0);
    for (unsigned i = 0; i < FILES; i++)
        kvb_check(&r->t, &r->file[i]);
    kvt_close(&r->t);
    for (unsigned i = 0; i < FLIGHT; i++)
        free(r->flight[i].bytes);
    free(r);
}

/* Lost updates of neighbours in a block, stale reads, zeros for data, a wrong st_blocks. */
static void test_kvfs_parallel_random_as_arrays(void **state)
{
    (void)state;
    run(NULL, (unsigned)support_scale(40000, 1000000));
}

/* The same with hardly any memory: operations wait for it and start over. */
static void test_kvfs_parallel_little_memory_as_arrays(void **state)
{
    struct snic_kvfs_opts o;
    (void)state;
    kvt_opts(&o);
    o.requests_max = FLIGHT;
    o.inodes_max = 8;
    o.cache_bytes = 4096;
    o.stripe_bytes = 65536;
    run(&o, (unsigned)support_scale(20000, 300000));
    o.times_ns = SNIC_KVFS_TIMES_AT_ONCE;
    run(&o, (unsigned)support_scale(20000, 300000));
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_kvfs_parallel_random_as_arrays),
        cmocka_unit_test(test_kvfs_parallel_little_memory_as_arrays),
    };
    return SUPPORT_MAIN(argc, argv, tests);
}
