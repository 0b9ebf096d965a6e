/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * The store on LMDB: writes through the page cache and O_DIRECT ones, of blocks that are neighbours
 * in the object file, never at the same time: Linux may keep old bytes then, and fails the next
 * fdatasync.
 */
#include "kv_lmdb_util.h"

enum { WAYS_GRANULE = 2 << 20, WAYS_GRANULES = 64, WAYS_CALLS = 24, WAYS_BLOCKS = 4 };

/* Writes under way in each part that a folio can have, through the cache and directly. */
static struct {
    uint32_t under_way[WAYS_GRANULES][2];
    uint64_t writes[2];
    uint64_t mixed;
} ways;

struct ways_io {
    struct snic_io io;
    struct snic_io *inner;
    int direct;
};

struct ways_req {
    struct snic_io_req inner;
    struct snic_io_req *req;
    struct ways_io *io;
};

static void ways_count(struct ways_io *io, const struct snic_io_req *r, int more)
{
    if (r->op != SNIC_IO_WRITE)
        return;
    uint64_t last = (r->offset + r->length - 1) / WAYS_GRANULE;
    for (uint64_t g = r->offset / WAYS_GRANULE; g <= last && g < WAYS_GRANULES; g++) {
        ways.under_way[g][io->direct] += (uint32_t)more;
        ways.mixed += ways.under_way[g][0] > 0 && ways.under_way[g][1] > 0;
    }
    ways.writes[io->direct] += more > 0;
}

static void ways_done(struct snic_io_req *inner)
{
    struct ways_req *w = SNIC_CONTAINER(inner, struct ways_req, inner);
    ways_count(w->io, w->req, -1);
    w->req->result = inner->result;
    w->req->os_error = inner->os_error;
    struct snic_io_req *req = w->req;
    free(w);
    req->done(req);
}

static int ways_submit(struct snic_io *io, struct snic_io_req **reqs, uint32_t n)
{
    struct ways_io *self = SNIC_CONTAINER(io, struct ways_io, io);
    for (uint32_t i = 0; i < n; i++) {
        struct ways_req *w = malloc(sizeof(*w));
        KVL_CHECK(w != NULL);
        w->inner = *reqs[i];
        w->inner.done = ways_done;
        w->req = reqs[i];
        w->io = self;
        struct snic_io_req *inner = &w->inner;
        int taken = snic_io_submit(self->inner, &inner, 1);
        if (taken != 1) {
            free(w);
            return i > 0 ? (int)i : taken;
        }
        ways_count(self, reqs[i], 1);
    }
    return (int)n;
}

static void ways_cancel(struct snic_io *io, struct snic_io_req *req)
{
    (void)io;
    (void)req;
}

static void ways_wait(struct snic_io *io, struct snic_io_waiter *w)
{
    snic_io_wait(SNIC_CONTAINER(io, struct ways_io, io)->inner, w);
}

static void ways_close(struct snic_io *io)
{
    struct ways_io *self = SNIC_CONTAINER(io, struct ways_io, io);
    snic_io_close(self->inner);
    free(self);
}

static struct snic_io *ways_wrap(void *ctx, struct snic_io *io)
{
    static const struct snic_io_ops ops = {.ops_size = sizeof(ops),
                                           .name = "ways",
                                           .submit = ways_submit,
                                           .cancel = ways_cancel,
                                           .close = ways_close,
                                           .wait = ways_wait};
    struct ways_io *self = calloc(1, sizeof(*self));
    (void)ctx;
    KVL_CHECK(self != NULL);
    self->io = *io;
    self->io.ops = &ops;
    self->inner = io;
    self->direct = (io->caps & SNIC_IO_CAP_DIRECT) != 0;
    return &self->io;
}

struct ways_call {
    struct kvl_call call;
    struct snic_iov piece;
    uint64_t object;
    uint64_t block;
    uint64_t seed; /* of the bytes there, once it is done */
    unsigned char *bytes;
};

static void ways_begin(struct kvl *k, struct ways_call *c, struct snic_rng *rng)
{
    c->block = snic_rng_below(rng, WAYS_BLOCKS);
    c->seed = snic_rng_next(rng);
    kvl_fill(c->bytes, c->object, c->block * KVL_BLOCK, KVL_BLOCK, c->seed);
    c->piece = (struct snic_iov){c->bytes, KVL_BLOCK};
    c->call.op = (struct snic_kvop){.kind = SNIC_KVOP_OBJECT_WRITE,
                                    .flags = snic_rng_below(rng, 2) ? SNIC_KVOP_DIRECT : 0,
                                    .object = c->object,
                                    .offset = c->block * KVL_BLOCK,
                                    .length = KVL_BLOCK,
                                    .iov = &c->piece,
                                    .iov_count = 1};
    kvl_begin(k, &c->call);
}

/* Each call has an object of its own, so what a block holds is what was written to it last. */
static void test_kv_lmdb_ways_neighbours(void **state)
{
    struct kvl k;
    struct snic_rng rng;
    static struct ways_call calls[WAYS_CALLS];
    static uint64_t seeds[WAYS_CALLS][WAYS_BLOCKS];
    char path[512];
    (void)state;
    memset(&ways, 0, sizeof(ways));
    memset(seeds, 0, sizeof(seeds));
    snic_rng_init(&rng, support_seed());
    kvl_path(path, sizeof(path));
    struct snic_kv_lmdb_opts o = {
        .opts_size = sizeof(o), .path = path, .flags = SNIC_KV_OPEN_CREATE, .wrap = ways_wrap};
    KVL_EQUAL(kvl_try(&k, &o, NULL), 0);
    for (uint32_t i = 0; i < WAYS_CALLS; i++) {
        calls[i].object = 100 + i;
        calls[i].bytes = aligned_alloc(KVL_BLOCK, KVL_BLOCK);
        KVL_CHECK(calls[i].bytes != NULL);
    }
    int rounds = support_nightly() ? 20000 : 1500;
    for (int round = 0; round < rounds; round++) {
        for (uint32_t i = 0; i < WAYS_CALLS; i++)
            ways_begin(&k, &calls[i], &rng);
        for (uint32_t i = 0; i < WAYS_CALLS; i++) {
            KVL_EQUAL(kvl_end(&k, &calls[i].call), KVL_BLOCK);
            seeds[i][calls[i].block] = calls[i].seed;
        }
        if (round % 16 == 0)
            KVL_EQUAL(kvl_sync(&k), 0);
        uint32_t i = (uint32_t)snic_rng_below(&rng, WAYS_CALLS);
        uint64_t b = snic_rng_below(&rng, WAYS_BLOCKS);
        if (seeds[i][b] != 0) {
            KVL_EQUAL(kvl_object(&k, SNIC_KVOP_OBJECT_READ, 0, calls[i].object, b * KVL_BLOCK,
                                 KVL_BLOCK, calls[i].bytes),
                      KVL_BLOCK);
            KVL_CHECK(
                kvl_filled(calls[i].bytes, calls[i].object, b * KVL_BLOCK, KVL_BLOCK, seeds[i][b]));
        }
    }
    KVL_EQUAL(kvl_sync(&k), 0);
    kvl_close(&k);
    for (uint32_t i = 0; i < WAYS_CALLS; i++)
        free(calls[i].bytes);
    if (ways.writes[1] == 0)
        support_skip_program("no direct writes here");
    assert_int_equal(ways.mixed, 0);
    assert_true(ways.writes[0] > 0);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_kv_lmdb_ways_neighbours),
    };
    return SUPPORT_MAIN(argc, argv, tests);
}
