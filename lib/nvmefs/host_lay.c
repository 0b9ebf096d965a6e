/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/**
 * How a command lies in its page: the answer at the beginning; the header ends where the page ends,
 * so that data at pages can follow it in PRPs; before it the write list, before that the read list.
 * What the DPU has to fetch before it knows anything is thus one run of bytes.
 */
#include "nvmefs/nvmefs_priv.h"

#define SNIC_NVMEFS__EXTENTS_MAX 256U

/** Room below @p *at in the page for @p bytes; 0 or SNIC_EMSGSIZE. */
static int nvmefs_lay_room(uint32_t *at, uint32_t bytes)
{
    if (*at < SNIC_NVMEFS__LISTS_AT + bytes)
        return SNIC_EMSGSIZE;
    *at -= bytes;
    return 0;
}

/** Pointers for @p n pieces; lists go below *@p at in @p page. */
static int nvmefs_lay_pointers(unsigned char *page, uint64_t page_address, uint32_t *at,
                               const struct snic_nvmefs_extent *pieces, uint32_t n,
                               uint64_t pointer[2], uint8_t *sgl)
{
    uint64_t e[SNIC_NVMEFS_LIST_MAX + 1];
    int count = snic_nvmefs_prp_encode(pieces, n, e, SNIC_COUNTOF(e));
    if (count == SNIC_E2BIG)
        return SNIC_EMSGSIZE;
    *sgl = count < 0;
    pointer[0] = pointer[1] = 0;
    if (count >= 0) {
        uint32_t list = count > 2 ? (uint32_t)count - 1 : 0;
        pointer[0] = count > 0 ? e[0] : 0;
        pointer[1] = count == 2 ? e[1] : 0;
        if (list == 0)
            return 0;
        if (nvmefs_lay_room(at, list * 8) != 0)
            return SNIC_EMSGSIZE;
        for (uint32_t i = 0; i < list; i++)
            snic_put_le64(page + *at + i * 8U, e[i + 1]);
        pointer[1] = page_address + *at;
        return 0;
    }
    if (n == 1) {
        snic_nvmefs_sgl_encode(pointer, pieces[0].address, pieces[0].size, 0);
        return 0;
    }
    if (nvmefs_lay_room(at, n * 16) != 0)
        return SNIC_EMSGSIZE;
    for (uint32_t i = 0; i < n; i++) {
        uint64_t w[2];
        snic_nvmefs_sgl_encode(w, pieces[i].address, pieces[i].size, 0);
        snic_put_le64(page + *at + i * 16U, w[0]);
        snic_put_le64(page + *at + i * 16U + 8, w[1]);
    }
    snic_nvmefs_sgl_encode(pointer, page_address + *at, n * 16, 1);
    return 0;
}

/** Bytes of private memory that the request names, or SNIC_E*. */
static int64_t nvmefs_lay_iov(const struct snic_nvmefs_host *h, const struct snic_fsop *op)
{
    uint64_t sum = 0;
    for (uint32_t i = 0; i < op->iov_count; i++) {
        if (op->iov[i].base == NULL && op->iov[i].size > 0)
            return SNIC_EINVAL;
        if (op->iov[i].size > h->opts.data_bytes - sum)
            return SNIC_EMSGSIZE;
        sum += op->iov[i].size;
    }
    return (int64_t)sum;
}

/** The pieces of the request's data behind @p pieces[*n]. Their bytes, or SNIC_E*. */
static int64_t nvmefs_lay_data(struct snic_nvmefs_host *h, const struct snic_nvmefs_req *req,
                               uint64_t data_address, struct snic_nvmefs_extent *pieces,
                               uint32_t *n)
{
    uint64_t sum = 0;
    if (req->extent_count > 0 && req->op.iov_count > 0)
        return SNIC_EINVAL;
    if (req->extent_count > SNIC_NVMEFS__EXTENTS_MAX)
        return SNIC_EMSGSIZE;
    if (req->op.iov_count > 0) {
        int64_t bytes = nvmefs_lay_iov(h, &req->op);
        if (bytes > 0)
            pieces[(*n)++] = (struct snic_nvmefs_extent){data_address, (uint32_t)bytes, 0};
        return bytes;
    }
    for (uint32_t i = 0; i < req->extent_count; i++) {
        if (req->extents[i].reserved != 0 || req->extents[i].size == 0)
            return SNIC_EINVAL;
        pieces[(*n)++] = req->extents[i];
        sum += req->extents[i].size;
    }
    return sum > SNIC_NVMEFS_DATA_MAX ? SNIC_EMSGSIZE : (int64_t)sum;
}

void nvmefs_host_copy(struct snic_nvmefs_host *h, const struct snic_fsop *op, unsigned char *data,
                      size_t bytes, int in)
{
    h->stats.copied += bytes;
    for (uint32_t i = 0; bytes > 0; i++) {
        SNIC_ASSERT(i < op->iov_count); /* nvmefs_lay_iov() has counted them */
        size_t n = (size_t)snic_min_u64(op->iov[i].size, bytes);
        if (n > 0)
            memcpy(in ? data : op->iov[i].base, in ? op->iov[i].base : data, n);
        data += n;
        bytes -= n;
    }
}

int nvmefs_host_lay(struct snic_nvmefs_host *h, struct snic_nvmefs_req *req, uint16_t cid,
                    struct snic_nvmefs_sqe *s)
{
    struct snic_nvmefs_extent pieces[2 + SNIC_NVMEFS__EXTENTS_MAX];
    uint64_t header[SNIC_NVMEFS_HEADER_MAX / 8];
    unsigned char *page = h->pages + (size_t)cid * SNIC_NVMEFS_PAGE;
    unsigned char *data = h->data + (size_t)cid * h->opts.data_bytes;
    uint64_t page_address = h->opts.address + (uint64_t)(page - h->bells);
    int kind = snic_nvmefs_op_data(req->op.kind);
    if (kind < 0 || (kind == 0 && (req->extent_count > 0 || req->op.iov_count > 0)))
        return SNIC_EINVAL;
    int size = snic_nvmefs_head_encode(&req->op, header, sizeof(header));
    if (size < 0)
        return size == SNIC_ENOTSUP ? SNIC_EINVAL : size;
    uint32_t at = SNIC_NVMEFS_PAGE - (uint32_t)size;
    uint32_t answer = snic_nvmefs_op_answer(req->op.kind);
    uint64_t data_address = h->opts.address + (uint64_t)(data - h->bells);

    uint32_t n = 0;
    pieces[n++] = (struct snic_nvmefs_extent){page_address + at, (uint32_t)size, 0};
    int64_t in = kind == 1 ? nvmefs_lay_data(h, req, data_address, pieces, &n) : 0;
    if (in < 0)
        return (int)in;
    int r = nvmefs_lay_pointers(page, page_address, &at, pieces, n, s->write, &s->write_sgl);
    if (r != 0)
        return r;
    n = 0;
    if (answer > 0)
        pieces[n++] = (struct snic_nvmefs_extent){page_address + SNIC_NVMEFS__ANSWER_AT, answer, 0};
    int64_t out = kind == 2 ? nvmefs_lay_data(h, req, data_address, pieces, &n) : 0;
    if (out < 0)
        return (int)out;
    r = nvmefs_lay_pointers(page, page_address, &at, pieces, n, s->read, &s->read_sgl);
    if (r != 0)
        return r;
    /* The lists are below the header, and both above the answer. */
    SNIC_ASSERT(at >= SNIC_NVMEFS__LISTS_AT && at <= SNIC_NVMEFS_PAGE - (uint32_t)size);
    memcpy(page + SNIC_NVMEFS_PAGE - size, header, (size_t)size);
    SNIC_ASSERT(req->op.iov_count == 0 || in + out <= h->opts.data_bytes);
    if (req->op.iov_count > 0 && in > 0)
        nvmefs_host_copy(h, &req->op, data, (size_t)in, 1);
    s->write_len = (uint32_t)size + (uint32_t)in;
    s->read_len = answer + (uint32_t)out;
    s->wh_len = (uint16_t)size;
    s->rh_len = (uint16_t)answer;
    h->slots[cid].room = (uint32_t)(in + out);
    h->stats.sgl += s->write_sgl || s->read_sgl;
    return 0;
}
