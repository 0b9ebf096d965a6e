/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/**
 * What every io backend shares: the validation of requests. One function, so
 * that a request is refused for the same reason whatever it is sent to.
 */
#include "snicstore/io.h"

static int io_aligned(uint64_t v, uint32_t align)
{
    return (v & (align - 1)) == 0;
}

/** One piece: present, aligned, inside the region if one is named. */
static int io_validate_piece(const struct snic_io *io, const struct snic_io_req *req,
                             const struct snic_iov *piece)
{
    if (piece->base == NULL || piece->size == 0)
        return SNIC_EINVAL;
    if (!io_aligned((uintptr_t)piece->base, io->geometry.memory_align) ||
        !io_aligned(piece->size, io->geometry.length_align))
        return SNIC_EINVAL;
    if (req->region != SNIC_NO_REGION &&
        !snic_loop_region_holds(io->loop, req->region, piece->base, piece->size))
        return SNIC_EFAULT;
    return 0;
}

/** The pieces of a READ or WRITE, whose sum must be length. */
static int io_validate_pieces(const struct snic_io *io, const struct snic_io_req *req)
{
    const struct snic_iov *pieces = req->iov != NULL ? req->iov : &req->buf;
    uint32_t count = req->iov != NULL ? req->iov_count : 1;
    if (count == 0 || count > SNIC_IO_IOV_MAX || (req->iov == NULL && req->iov_count != 0))
        return SNIC_EINVAL;
    uint64_t left = req->length;
    for (uint32_t i = 0; i < count; i++) {
        int r = io_validate_piece(io, req, &pieces[i]);
        if (r != 0)
            return r;
        if (pieces[i].size > left)
            return SNIC_EINVAL;
        left -= pieces[i].size;
    }
    return left == 0 ? 0 : SNIC_EINVAL;
}

/** Op, flags and capabilities: what does not depend on the range. */
static int io_validate_op(const struct snic_io *io, const struct snic_io_req *req)
{
    if (req->op < SNIC_IO_READ || req->op > SNIC_IO_DISCARD ||
        (req->flags & ~(unsigned)SNIC_IO_FUA) != 0 || req->region < SNIC_NO_REGION)
        return SNIC_EINVAL;
    if ((req->flags & SNIC_IO_FUA) != 0 && req->op != SNIC_IO_WRITE)
        return SNIC_EINVAL;
    int transfers = req->op == SNIC_IO_READ || req->op == SNIC_IO_WRITE;
    uint32_t needs = 0;
    if (req->op == SNIC_IO_ZERO)
        needs |= SNIC_IO_CAP_ZERO;
    if (req->op == SNIC_IO_DISCARD)
        needs |= SNIC_IO_CAP_DISCARD;
    if ((req->flags & SNIC_IO_FUA) != 0)
        needs |= SNIC_IO_CAP_FUA;
    if (transfers && req->region != SNIC_NO_REGION)
        needs |= SNIC_IO_CAP_REGISTERED;
    if ((needs & ~io->caps) != 0)
        return SNIC_ENOTSUP;
    if ((io->caps & SNIC_IO_CAP_READONLY) != 0 && req->op != SNIC_IO_READ &&
        req->op != SNIC_IO_FLUSH)
        return SNIC_EPERM;
    return 0;
}

int snic_io_validate(const struct snic_io *io, const struct snic_io_req *req)
{
    const struct snic_io_geometry *g = &io->geometry;
    int r = io_validate_op(io, req);
    if (r != 0)
        return r;
    if (req->op == SNIC_IO_READ || req->op == SNIC_IO_WRITE) {
        if (req->length > g->transfer_max)
            return SNIC_EMSGSIZE;
        if (!io_aligned(req->offset, g->offset_align) || !io_aligned(req->length, g->length_align))
            return SNIC_EINVAL;
        r = io_validate_pieces(io, req);
        if (r != 0)
            return r;
    } else if (req->op != SNIC_IO_FLUSH) {
        if (!io_aligned(req->offset, g->block) || !io_aligned(req->length, g->block))
            return SNIC_EINVAL;
    }
    if (req->length == 0 && req->op != SNIC_IO_FLUSH)
        return SNIC_EINVAL;
    if (req->offset > g->size || req->length > g->size - req->offset)
        return SNIC_ERANGE;
    return 0;
}
