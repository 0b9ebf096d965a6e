/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/** What the files of the io door's conformance suite share. */
#ifndef SNIC_TESTS_CONFORMANCE_IO_UTIL_H
#define SNIC_TESTS_CONFORMANCE_IO_UTIL_H

#include "conformance_io.h"

#include <stdlib.h>
#include <string.h>

/* ---- Requests that know what became of them ---- */

struct request {
    struct snic_io_req req;
    int done;
    int in_submit; /* done was called from inside submit */
    struct request *chain;
    struct snic_io *io;
    void *owner;
};

static int submitting;
static int request_done_refused; /* the chain's next is not accepted */

static inline void request_done(struct snic_io_req *req)
{
    struct request *r = SNIC_CONTAINER(req, struct request, req);
    r->done++;
    r->in_submit |= submitting;
    if (r->chain != NULL) { /* submitting from inside done is allowed */
        struct snic_io_req *next = &r->chain->req;
        r->chain = NULL;
        submitting = 1;
        int taken = snic_io_submit(r->io, &next, 1);
        submitting = 0;
        if (taken != !request_done_refused)
            r->in_submit = 2;
    }
}

static inline void request_init(struct request *r, struct snic_io *io, enum snic_io_op op,
                                uint64_t offset, void *mem, uint64_t length)
{
    memset(r, 0, sizeof(*r));
    snic_io_req_init(&r->req);
    r->io = io;
    r->req.done = request_done;
    r->req.op = (uint8_t)op;
    r->req.offset = offset;
    r->req.length = length;
    r->req.buf.base = mem;
    r->req.buf.size = mem == NULL ? 0 : length;
}

static inline int request_submit(struct request *r)
{
    struct snic_io_req *one = &r->req;
    submitting = 1;
    int taken = snic_io_submit(r->io, &one, 1);
    submitting = 0;
    return taken;
}

static inline void request_wait(struct request *r)
{
    while (r->done == 0)
        assert_true(snic_loop_once(r->io->loop, SNIC_NEVER) >= 0);
    assert_int_equal(r->done, 1);
    assert_int_equal(r->in_submit, 0);
}

static inline int64_t request_run(struct request *r)
{
    assert_int_equal(request_submit(r), 1);
    request_wait(r);
    return r->req.result;
}

/* ---- Set-up ---- */

static inline const struct conformance_io_backend *open_backend(struct conformance_io *c,
                                                                void **state, uint32_t depth)
{
    const struct conformance_io_backend *b = *state;
    memset(c, 0, sizeof(*c));
    b->open(c, b, depth);
    assert_non_null(c->io);
    assert_ptr_equal(c->io->loop, c->loop);
    assert_int_equal(c->io->depth_max, depth);
    assert_int_equal(c->io->geometry.size, CONFORMANCE_IO_BYTES);
    return b;
}

/** Bytes that suit every geometry. */
static inline unsigned char *buffer(size_t size)
{
    unsigned char *p = aligned_alloc(4096, snic_align_up(size, 4096));
    assert_non_null(p);
    memset(p, 0xee, size);
    return p;
}

static inline void pattern(unsigned char *p, size_t size, uint64_t seed)
{
    struct snic_rng rng;
    snic_rng_init(&rng, seed);
    snic_rng_fill(&rng, p, size);
}

/* The unit every transfer here is a multiple of. */
static inline uint64_t unit_of(const struct snic_io *io)
{
    const struct snic_io_geometry *g = &io->geometry;
    uint64_t u = snic_max_u64(g->offset_align, g->length_align);
    u = snic_max_u64(u, g->block);
    assert_true(snic_is_pow2(g->block) && snic_is_pow2(g->memory_align));
    assert_true(snic_is_pow2(g->offset_align) && snic_is_pow2(g->length_align));
    assert_true(u <= 4096 && g->transfer_max >= 4096 && g->atomic_write >= 1);
    return snic_max_u64(u, 512);
}

/** Defined in conformance_io_refuse.c. */
void conformance_io_refusals(void **state);

/* Defined in conformance_io_room.c. */
void conformance_io_room_full_reported_once(void **state);
void conformance_io_room_there_reported_all_the_same(void **state);
void conformance_io_room_greedy_starves_none(void **state);
void conformance_io_room_users_take_turns(void **state);
void conformance_io_room_left_passes_on(void **state);
void conformance_io_room_closed_reported(void **state);

#endif /* SNIC_TESTS_CONFORMANCE_IO_UTIL_H */
