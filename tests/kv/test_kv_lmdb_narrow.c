/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * The store on LMDB with an object file that accepts one request at a time: transfers and flushes
 * wait for its writable event, and each must continue when it comes.
 */
#include "kv_lmdb_util.h"

enum { NARROW_CALLS = 16, NARROW_BLOCKS = 8, NARROW_ROUNDS = 200 };

struct narrow_io {
    struct snic_io io;
    struct snic_io *inner;
    struct snic_io_room room;
    struct snic_io_req one; /* in flight in the file, for: */
    struct snic_io_req *req;
};

static int narrow_ready(const struct snic_io_room *r)
{
    return SNIC_CONTAINER(r, struct narrow_io, room)->req == NULL;
}

static void narrow_done(struct snic_io_req *one)
{
    struct narrow_io *self = SNIC_CONTAINER(one, struct narrow_io, one);
    struct snic_io_req *req = self->req;
    req->result = one->result;
    req->os_error = one->os_error;
    self->req = NULL;
    snic_io_room_freed(&self->room);
    req->done(req);
}

static int narrow_submit(struct snic_io *io, struct snic_io_req **reqs, uint32_t n)
{
    struct narrow_io *self = SNIC_CONTAINER(io, struct narrow_io, io);
    struct snic_io_req *one = &self->one;
    if (n == 0 || self->req != NULL || snic_io_room_taken(&self->room))
        return 0;
    self->one = *reqs[0];
    self->one.done = narrow_done;
    self->req = reqs[0];
    KVL_EQUAL(snic_io_submit(self->inner, &one, 1), 1);
    return 1;
}

static void narrow_cancel(struct snic_io *io, struct snic_io_req *req)
{
    (void)io;
    (void)req;
}

static void narrow_wait(struct snic_io *io, struct snic_io_waiter *w)
{
    snic_io_room_wait(&SNIC_CONTAINER(io, struct narrow_io, io)->room, w);
}

static void narrow_close(struct snic_io *io)
{
    struct narrow_io *self = SNIC_CONTAINER(io, struct narrow_io, io);
    while (!snic_io_room_idle(&self->room))
        KVL_CHECK(snic_loop_once(io->loop, SNIC_NEVER) >= 0);
    snic_io_close(self->inner);
    free(self);
}

static struct snic_io *narrow_wrap(void *ctx, struct snic_io *io)
{
    static const struct snic_io_ops ops = {.ops_size = sizeof(ops),
                                           .name = "narrow",
                                           .submit = narrow_submit,
                                           .cancel = narrow_cancel,
                                           .close = narrow_close,
                                           .wait = narrow_wait};
    struct narrow_io *self = calloc(1, sizeof(*self));
    (void)ctx;
    KVL_CHECK(self != NULL);
    self->io = *io;
    self->io.ops = &ops;
    self->inner = io;
    snic_io_room_init(&self->room, &self->io, narrow_ready);
    return &self->io;
}

struct narrow_call {
    struct kvl_call call;
    struct snic_iov piece;
    unsigned char *bytes;
};

/* Reads and writes of several blocks, some of them durable, all at the same time. */
static void narrow_begin(struct kvl *k, struct narrow_call *c, uint64_t object,
                         struct snic_rng *rng)
{
    static const uint32_t flags[] = {0, SNIC_KVOP_DIRECT, SNIC_KVOP_DURABLE,
                                     SNIC_KVOP_DURABLE | SNIC_KVOP_DIRECT};
    int write = snic_rng_below(rng, 3) != 0;
    uint64_t block = snic_rng_below(rng, NARROW_BLOCKS);
    uint64_t blocks = 1 + snic_rng_below(rng, NARROW_BLOCKS - block);
    c->piece = (struct snic_iov){c->bytes, blocks * KVL_BLOCK};
    kvl_fill(c->bytes, object, block * KVL_BLOCK, blocks * KVL_BLOCK, object);
    c->call.op = (struct snic_kvop){.kind = write ? SNIC_KVOP_OBJECT_WRITE : SNIC_KVOP_OBJECT_READ,
                                    .flags = flags[snic_rng_below(rng, write ? 4 : 2)],
                                    .object = object,
                                    .offset = block * KVL_BLOCK,
                                    .length = blocks * KVL_BLOCK,
                                    .iov = &c->piece,
                                    .iov_count = 1};
    kvl_begin(k, &c->call);
}

static void test_kv_lmdb_narrow_waiting_transfers_complete(void **state)
{
    static struct narrow_call calls[NARROW_CALLS];
    struct snic_rng rng;
    struct kvl k;
    char path[512];
    (void)state;
    snic_rng_init(&rng, support_seed());
    kvl_path(path, sizeof(path));
    struct snic_kv_lmdb_opts o = {
        .opts_size = sizeof(o), .path = path, .flags = SNIC_KV_OPEN_CREATE, .wrap = narrow_wrap};
    KVL_EQUAL(kvl_try(&k, &o, NULL), 0);
    for (uint32_t i = 0; i < NARROW_CALLS; i++) {
        calls[i].bytes = aligned_alloc(KVL_BLOCK, NARROW_BLOCKS * KVL_BLOCK);
        KVL_CHECK(calls[i].bytes != NULL);
    }
    for (uint32_t round = 0; round < NARROW_ROUNDS; round++) {
        for (uint32_t i = 0; i < NARROW_CALLS; i++)
            narrow_begin(&k, &calls[i], 100 + i, &rng);
        for (uint32_t i = 0; i < NARROW_CALLS; i++) {
            int64_t r = kvl_end(&k, &calls[i].call);
            assert_int_equal(r, calls[i].piece.size);
        }
    }
    kvl_close(&k);
    kvl_audit(path);
    for (uint32_t i = 0; i < NARROW_CALLS; i++)
        free(calls[i].bytes);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_kv_lmdb_narrow_waiting_transfers_complete),
    };
    return SUPPORT_MAIN(argc, argv, tests);
}
