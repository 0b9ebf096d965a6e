/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* The io door's conformance suite: what must be refused. */
#include "conformance_io_util.h"

/* ---- Refusals ---- */

struct refusals {
    struct conformance_io *c;
    struct request r;
    unsigned char *mem;
    uint64_t unit;
};

static void refused(struct refusals *x, int expect)
{
    struct snic_io_stats before = x->c->io->stats;
    assert_int_equal(snic_io_validate(x->c->io, &x->r.req), expect);
    assert_int_equal(request_run(&x->r), expect); /* through the loop, like every result */
    assert_int_equal(x->c->io->stats.submitted, before.submitted + 1);
    assert_int_equal(x->c->io->stats.completed, before.completed + 1);
    assert_int_equal(x->c->io->stats.errors, before.errors + 1);
    assert_int_equal(x->c->io->stats.write_bytes, before.write_bytes);
}

static void refused_fresh(struct refusals *x, enum snic_io_op op)
{
    request_init(&x->r, x->c->io, op, 0, x->mem, x->unit);
}

static void refuse_ranges(struct refusals *x)
{
    static const enum snic_io_op ops[] = {SNIC_IO_READ, SNIC_IO_WRITE};
    for (size_t i = 0; i < 2; i++) {
        refused_fresh(x, ops[i]);
        x->r.req.offset = CONFORMANCE_IO_BYTES;
        refused(x, SNIC_ERANGE);
        refused_fresh(x, ops[i]);
        x->r.req.offset = CONFORMANCE_IO_BYTES - x->unit;
        x->r.req.length = x->r.req.buf.size = 2 * x->unit;
        refused(x, SNIC_ERANGE);
        refused_fresh(x, ops[i]);
        x->r.req.offset = snic_align_down(UINT64_MAX, x->unit);
        refused(x, SNIC_ERANGE);
        refused_fresh(x, ops[i]);
        x->r.req.length = 0;
        refused(x, SNIC_EINVAL);
        refused_fresh(x, ops[i]);
        x->r.req.length = x->r.req.buf.size =
            snic_align_up((uint64_t)x->c->io->geometry.transfer_max + 1, x->unit);
        refused(x, SNIC_EMSGSIZE);
        refused_fresh(x, ops[i]);
        x->r.req.length = x->r.req.buf.size = snic_align_down(UINT64_MAX, x->unit);
        refused(x, SNIC_EMSGSIZE);
    }
    refused_fresh(x, SNIC_IO_FLUSH);
    x->r.req.offset = x->unit;
    x->r.req.length = snic_align_down(UINT64_MAX, x->unit); /* the sum wraps around */
    refused(x, SNIC_ERANGE);
    refused_fresh(x, SNIC_IO_FLUSH);
    x->r.req.offset = CONFORMANCE_IO_BYTES + 1;
    x->r.req.length = 0;
    refused(x, SNIC_ERANGE);
}

static void refuse_pieces(struct refusals *x)
{
    struct snic_iov iov[SNIC_IO_IOV_MAX + 1];
    for (size_t i = 0; i < SNIC_COUNTOF(iov); i++)
        iov[i] = (struct snic_iov){.base = x->mem, .size = x->unit};
#define PIECES(n, len)                                                                             \
    refused_fresh(x, SNIC_IO_WRITE);                                                               \
    x->r.req.iov = iov;                                                                            \
    x->r.req.iov_count = (n);                                                                      \
    x->r.req.length = (len)
    refused_fresh(x, SNIC_IO_WRITE);
    x->r.req.buf.base = NULL;
    refused(x, SNIC_EINVAL);
    refused_fresh(x, SNIC_IO_WRITE);
    x->r.req.buf.size = 2 * x->unit; /* not length */
    refused(x, SNIC_EINVAL);
    refused_fresh(x, SNIC_IO_WRITE);
    x->r.req.iov_count = 1; /* without a list */
    refused(x, SNIC_EINVAL);
    PIECES(0, x->unit);
    refused(x, SNIC_EINVAL);
    PIECES(SNIC_IO_IOV_MAX + 1, (SNIC_IO_IOV_MAX + 1) * x->unit);
    refused(x, SNIC_EINVAL);
    PIECES(2, x->unit);
    refused(x, SNIC_EINVAL);
    PIECES(2, 3 * x->unit);
    refused(x, SNIC_EINVAL);
    iov[1].size = 0;
    PIECES(2, x->unit);
    refused(x, SNIC_EINVAL);
    iov[1] = (struct snic_iov){.base = NULL, .size = x->unit};
    PIECES(2, 2 * x->unit);
    refused(x, SNIC_EINVAL);
    iov[1] = (struct snic_iov){.base = x->mem, /* the sum wraps around to length */
                               .size = (size_t)(0 - x->unit)};
    iov[2].size = x->unit;
    PIECES(3, x->unit);
    refused(x, SNIC_EINVAL);
#undef PIECES
}

static void refuse_flags(struct refusals *x)
{
    refused_fresh(x, SNIC_IO_READ);
    x->r.req.op = 0;
    refused(x, SNIC_EINVAL);
    refused_fresh(x, SNIC_IO_READ);
    x->r.req.op = SNIC_IO_DISCARD + 1;
    refused(x, SNIC_EINVAL);
    refused_fresh(x, SNIC_IO_READ);
    x->r.req.op = 255;
    refused(x, SNIC_EINVAL);
    refused_fresh(x, SNIC_IO_WRITE);
    x->r.req.flags = 0x8000;
    refused(x, SNIC_EINVAL);
    refused_fresh(x, SNIC_IO_READ);
    x->r.req.flags = SNIC_IO_FUA;
    refused(x, SNIC_EINVAL);
    refused_fresh(x, SNIC_IO_READ);
    x->r.req.region = -2;
    refused(x, SNIC_EINVAL);
    if ((x->c->io->caps & SNIC_IO_CAP_FUA) == 0) {
        refused_fresh(x, SNIC_IO_WRITE);
        x->r.req.flags = SNIC_IO_FUA;
        refused(x, SNIC_ENOTSUP);
    }
    if ((x->c->io->caps & SNIC_IO_CAP_ZERO) == 0) {
        refused_fresh(x, SNIC_IO_ZERO);
        refused(x, SNIC_ENOTSUP);
    } else {
        refused_fresh(x, SNIC_IO_ZERO);
        x->r.req.length = 0;
        refused(x, SNIC_EINVAL);
    }
    if ((x->c->io->caps & SNIC_IO_CAP_DISCARD) == 0) {
        refused_fresh(x, SNIC_IO_DISCARD);
        refused(x, SNIC_ENOTSUP);
    } else {
        refused_fresh(x, SNIC_IO_DISCARD);
        x->r.req.offset = CONFORMANCE_IO_BYTES;
        refused(x, SNIC_ERANGE);
    }
}

static void refuse_alignments(struct refusals *x)
{
    const struct snic_io_geometry *g = &x->c->io->geometry;
    if (g->offset_align > 1) {
        refused_fresh(x, SNIC_IO_READ);
        x->r.req.offset = g->offset_align / 2;
        refused(x, SNIC_EINVAL);
        refused_fresh(x, SNIC_IO_WRITE);
        x->r.req.offset = 1;
        refused(x, SNIC_EINVAL);
    }
    if (g->length_align > 1) {
        refused_fresh(x, SNIC_IO_READ);
        x->r.req.length = x->r.req.buf.size = g->length_align / 2;
        refused(x, SNIC_EINVAL);
    }
    if (g->memory_align > 1) {
        refused_fresh(x, SNIC_IO_READ);
        x->r.req.buf.base = x->mem + g->memory_align / 2;
        refused(x, SNIC_EINVAL);
    }
    if (g->block > 1 && (x->c->io->caps & SNIC_IO_CAP_ZERO) != 0) {
        refused_fresh(x, SNIC_IO_ZERO);
        x->r.req.offset = 1;
        refused(x, SNIC_EINVAL);
        refused_fresh(x, SNIC_IO_ZERO);
        x->r.req.length = 1;
        refused(x, SNIC_EINVAL);
    }
}

/* A request that got through unchecked would damage data or memory. */
void conformance_io_refusals(void **state)
{
    struct conformance_io c;
    (void)open_backend(&c, state, 4);
    struct refusals x = {.c = &c, .unit = unit_of(c.io)};
    unsigned char *seen = buffer(4 * x.unit);
    x.mem = buffer(4 * x.unit);
    refuse_ranges(&x);
    refuse_pieces(&x);
    refuse_flags(&x);
    refuse_alignments(&x);
    request_init(&x.r, c.io, SNIC_IO_READ, 0, seen, 4 * x.unit);
    assert_int_equal(request_run(&x.r), 4 * x.unit);
    for (uint64_t i = 0; i < 4 * x.unit; i++)
        assert_int_equal(seen[i], 0); /* and nothing happened */
    conformance_io_close(&c);
    free(x.mem);
    free(seen);
}
