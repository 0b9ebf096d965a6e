/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * The store on LMDB: what large transfers of some objects cost those of others. Counted is what the
 * store hands to its disk before them: that order is the store's own. When transfers end, and when
 * the loop hears of it, depends on the kernel's threads and on who else has the CPUs.
 */
#include "kv_lmdb_util.h"

enum { MIB = 1 << 20, LARGE = 24, FEW = 2, SMALL = KVL_BLOCK, ONE = 1, OTHER = 2, FIRST = 3 };

/** Between the store and a handle of its object file: passes all on, and counts. */
struct fair_io {
    struct snic_io io;
    struct snic_io *inner;
    struct fair *f;
};

struct fair {
    struct kvl k;
    uint64_t large_bytes; /* handed to the disk: of the large ones */
    uint64_t few_bytes;   /* of the others */
    uint64_t few_behind;  /* large_bytes when the last of them was */
    unsigned char *bytes; /* LARGE + 1 MiB */
    struct kvl_call large[LARGE];
    struct snic_iov large_piece[LARGE];
    struct kvl_call few[FEW];
    struct snic_iov few_piece[FEW];
};

static void fair_count(struct fair *f, const struct snic_io_req *req)
{
    const unsigned char *memory = req->iov != NULL ? req->iov[0].base : req->buf.base;

    if (req->op == SNIC_IO_FLUSH)
        return;
    assert_in_range(memory - f->bytes, 0, (LARGE + 1) * MIB - 1); /* no copy in between */
    if (memory < f->bytes + (size_t)LARGE * MIB) {
        f->large_bytes += req->length;
    } else {
        f->few_bytes += req->length;
        f->few_behind = f->large_bytes;
    }
}

static int fair_io_submit(struct snic_io *io, struct snic_io_req **reqs, uint32_t n)
{
    struct fair_io *self = SNIC_CONTAINER(io, struct fair_io, io);
    int taken = snic_io_submit(self->inner, reqs, n);

    for (int i = 0; i < taken; i++)
        fair_count(self->f, reqs[i]);
    return taken;
}

static void fair_io_cancel(struct snic_io *io, struct snic_io_req *req)
{
    snic_io_cancel(SNIC_CONTAINER(io, struct fair_io, io)->inner, req);
}

static void fair_io_wait(struct snic_io *io, struct snic_io_waiter *w)
{
    snic_io_wait(SNIC_CONTAINER(io, struct fair_io, io)->inner, w);
}

static void fair_io_close(struct snic_io *io)
{
    struct fair_io *self = SNIC_CONTAINER(io, struct fair_io, io);

    snic_io_close(self->inner);
    free(self);
}

static struct snic_io *fair_wrap(void *ctx, struct snic_io *inner)
{
    static const struct snic_io_ops ops = {.ops_size = sizeof(ops),
                                           .name = "fair",
                                           .submit = fair_io_submit,
                                           .cancel = fair_io_cancel,
                                           .close = fair_io_close,
                                           .wait = fair_io_wait};
    struct fair_io *self = calloc(1, sizeof(*self));

    assert_non_null(self);
    *self = (struct fair_io){.io = *inner, .inner = inner, .f = ctx};
    self->io.ops = &ops;
    return &self->io;
}

static void fair_open(struct fair *f)
{
    char path[4096];
    struct snic_kv_lmdb_opts o = {.opts_size = sizeof(o),
                                  .path = path,
                                  .flags = SNIC_KV_OPEN_CREATE,
                                  .wrap = fair_wrap,
                                  .wrap_ctx = f};

    f->bytes = aligned_alloc(4096, (size_t)(LARGE + 1) * MIB);
    assert_non_null(f->bytes);
    kvl_path(path, sizeof(path));
    assert_int_equal(kvl_try(&f->k, &o, NULL), 0);
    memset(f->bytes, 'x', (size_t)(LARGE + 1) * MIB);
    /* All have bytes, so that both reads and writes go to the disk. */
    for (uint64_t object = ONE; object < FIRST + LARGE; object++)
        for (uint64_t at = 0; at < (object == ONE ? LARGE : FEW); at++)
            assert_int_equal(
                kvl_object(&f->k, SNIC_KVOP_OBJECT_WRITE, 0, object, at * MIB, MIB, f->bytes), MIB);
    assert_int_equal(kvl_sync(&f->k), 0);
}

static void fair_close(struct fair *f)
{
    kvl_close(&f->k);
    free(f->bytes);
}

static void fair_begin(struct fair *f, struct kvl_call *c, struct snic_iov *piece, uint32_t kind,
                       uint64_t object, uint64_t at, uint64_t length, unsigned char *memory)
{
    *piece = (struct snic_iov){memory, length};
    memset(c, 0, sizeof(*c));
    c->op = (struct snic_kvop){.kind = kind,
                               .flags = SNIC_KVOP_DIRECT,
                               .object = object,
                               .offset = at,
                               .length = length,
                               .iov = piece,
                               .iov_count = 1};
    kvl_begin(&f->k, c);
    assert_true(!c->done || c->op.result == (int64_t)length);
}

/* @p count transfers of @p length of object OTHER behind LARGE ones of @p of objects, or of ONE.
 * The loop does not run until all have begun.
 * @return how many bytes of the large ones went to the disk before the last of theirs */
static uint64_t fair_behind(struct fair *f, uint32_t kind, int one, uint32_t count, uint64_t length)
{
    f->large_bytes = f->few_bytes = f->few_behind = 0;
    for (uint32_t i = 0; i < LARGE; i++)
        fair_begin(f, &f->large[i], &f->large_piece[i], kind, one ? ONE : FIRST + i,
                   one ? (uint64_t)i * MIB : 0, MIB, f->bytes + (size_t)i * MIB);
    for (uint32_t i = 0; i < count; i++)
        fair_begin(f, &f->few[i], &f->few_piece[i], kind, OTHER, i * length, length,
                   f->bytes + (size_t)LARGE * MIB);
    for (uint32_t i = 0; i < count; i++)
        assert_int_equal(kvl_end(&f->k, &f->few[i]), length);
    for (uint32_t i = 0; i < LARGE; i++)
        assert_int_equal(kvl_end(&f->k, &f->large[i]), MIB);
    assert_int_equal(f->few_bytes, count * length);
    assert_int_equal(f->large_bytes, (uint64_t)LARGE * MIB);
    return f->few_behind;
}

/* A small transfer behind 24 MiB of others' waits for one or two of them, not for all. */
static void test_kv_lmdb_fair_small_behind_large(void **state)
{
    static struct fair f;
    (void)state;
    fair_open(&f);
    for (uint32_t kind = SNIC_KVOP_OBJECT_READ; kind <= SNIC_KVOP_OBJECT_WRITE; kind++)
        for (int one = 0; one < 2; one++)
            assert_in_range(fair_behind(&f, kind, one, 1, SMALL), 0, 2 * MIB);
    fair_close(&f);
}

/* So does a large one behind those of one object: objects take turns. */
static void test_kv_lmdb_fair_objects_take_turns(void **state)
{
    static struct fair f;
    (void)state;
    fair_open(&f);
    for (uint32_t kind = SNIC_KVOP_OBJECT_READ; kind <= SNIC_KVOP_OBJECT_WRITE; kind++)
        assert_in_range(fair_behind(&f, kind, 1, FEW, MIB), 0, 4 * MIB);
    fair_close(&f);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_kv_lmdb_fair_small_behind_large),
        cmocka_unit_test(test_kv_lmdb_fair_objects_take_turns),
    };
    return SUPPORT_MAIN(argc, argv, tests);
}
