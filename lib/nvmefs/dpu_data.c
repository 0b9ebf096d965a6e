/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/**
 * Where a command's bytes are. PRP and SGL are the same thing here: pieces, in order, of a private
 * copy. All of them are checked before any is used; pieces that lie behind each other are one run
 * and one operation.
 */
#include "nvmefs/nvmefs_priv.h"

/** Bytes in the first page of a PRP. */
static uint32_t nvmefs_prp_first(const struct nvmefs_dir *r)
{
    uint64_t room = SNIC_NVMEFS_PAGE - (r->pointer[0] & (SNIC_NVMEFS_PAGE - 1));
    return (uint32_t)snic_min_u64(room, r->length);
}

/** Piece @p i. 1; 0 there is none. */
static int nvmefs_dir_piece(const struct nvmefs_dir *r, uint32_t i, uint64_t *address,
                            uint32_t *length)
{
    if (r->sgl) {
        if (r->list_bytes == 0) {
            *address = r->pointer[0];
            *length = r->length;
            return i == 0 && r->length > 0;
        }
        if (i >= r->list_bytes / 16)
            return 0;
        *address = snic_get_le64(r->list + i * 16U);
        *length = snic_get_le32(r->list + i * 16U + 8);
        return 1;
    }
    uint32_t first = nvmefs_prp_first(r);
    if (i == 0) {
        *address = r->pointer[0];
        *length = first;
        return r->length > 0;
    }
    uint64_t done = first + (uint64_t)(i - 1) * SNIC_NVMEFS_PAGE;
    if (done >= r->length)
        return 0;
    *address = r->list_bytes == 0 ? r->pointer[1] : snic_get_le64(r->list + (i - 1) * 8U);
    *length = (uint32_t)snic_min_u64(SNIC_NVMEFS_PAGE, r->length - done);
    return 1;
}

static uint32_t nvmefs_sgl_init(struct nvmefs_dir *r, uint64_t *list_at)
{
    uint32_t length = (uint32_t)r->pointer[1];
    uint32_t rest = (uint32_t)(r->pointer[1] >> 32);
    uint32_t type = rest >> 24;
    if ((rest & 0xffffff) != 0 || (type != SNIC_NVMEFS__SGL_DATA && type != SNIC_NVMEFS__SGL_LAST))
        return SNIC_NVMEFS_STATUS_SGL_TYPE;
    if (type == SNIC_NVMEFS__SGL_DATA)
        return length == r->length ? SNIC_NVMEFS_STATUS_OK : SNIC_NVMEFS_STATUS_SGL_LENGTH;
    if (length == 0 || length % 16 != 0 || length > SNIC_NVMEFS__CTL_BYTES ||
        (r->pointer[0] & 7) != 0)
        return SNIC_NVMEFS_STATUS_SGL_COUNT;
    r->list_bytes = length;
    *list_at = r->pointer[0];
    return SNIC_NVMEFS_STATUS_OK;
}

uint32_t nvmefs_dir_init(const struct snic_nvmefs_dpu *d, struct nvmefs_dir *r,
                         const uint64_t pointer[2], int sgl, uint32_t length, uint64_t *list_at)
{
    *r = (struct nvmefs_dir){
        .pointer = {pointer[0], pointer[1]}, .length = length, .sgl = (uint8_t)sgl};
    uint32_t status = SNIC_NVMEFS_STATUS_OK;
    if (length == 0)
        return status;
    if (sgl) {
        status = nvmefs_sgl_init(r, list_at);
    } else {
        uint32_t rest = length - nvmefs_prp_first(r);
        uint32_t pages = (rest + SNIC_NVMEFS_PAGE - 1) / SNIC_NVMEFS_PAGE;
        uint64_t inside = pointer[1] & (SNIC_NVMEFS_PAGE - 1);
        if (pages == 1 && inside != 0)
            return SNIC_NVMEFS_STATUS_PRP;
        if (pages > 1) {
            if ((inside & 7) != 0 || inside + pages * UINT64_C(8) > SNIC_NVMEFS_PAGE)
                return SNIC_NVMEFS_STATUS_PRP;
            r->list_bytes = pages * 8;
            *list_at = pointer[1];
        }
    }
    if (status == SNIC_NVMEFS_STATUS_OK && r->list_bytes > 0 &&
        !nvmefs_window_holds(d, *list_at, r->list_bytes))
        return SNIC_NVMEFS_STATUS_ADDRESS;
    return status;
}

uint32_t nvmefs_dir_check(const struct snic_nvmefs_dpu *d, const struct nvmefs_dir *r)
{
    uint64_t sum = 0;
    uint64_t address;
    uint32_t length;
    for (uint32_t i = 0; nvmefs_dir_piece(r, i, &address, &length); i++) {
        if (r->sgl && r->list_bytes > 0 && snic_get_le32(r->list + i * 16U + 12) != 0)
            return SNIC_NVMEFS_STATUS_SGL_TYPE;
        if (length == 0)
            return SNIC_NVMEFS_STATUS_SGL_LENGTH;
        if (!r->sgl && i > 0 && (address & (SNIC_NVMEFS_PAGE - 1)) != 0)
            return SNIC_NVMEFS_STATUS_PRP;
        if (!nvmefs_window_holds(d, address, length))
            return SNIC_NVMEFS_STATUS_ADDRESS;
        sum += length;
    }
    return sum == r->length ? SNIC_NVMEFS_STATUS_OK : SNIC_NVMEFS_STATUS_SGL_LENGTH;
}

uint32_t nvmefs_dir_next(const struct nvmefs_dir *r, struct nvmefs_cursor *k, uint32_t most,
                         uint64_t *address)
{
    uint32_t n = 0;
    uint64_t at;
    uint32_t length;
    while (n < most && nvmefs_dir_piece(r, k->index, &at, &length)) {
        if (n > 0 && (at != *address + n || ((at ^ *address) >> 48) != 0))
            break;
        if (n == 0)
            *address = at + k->inside;
        uint32_t take = (uint32_t)snic_min_u64(length - k->inside, most - n);
        n += take;
        k->inside += take;
        if (k->inside == length) {
            k->index++;
            k->inside = 0;
        }
    }
    k->at += n;
    return n;
}

uint32_t nvmefs_dir_first(const struct nvmefs_dir *r, uint64_t *address)
{
    struct nvmefs_cursor k = {0, 0, 0};
    if (r->list_bytes > 0 && r->sgl)
        return 0; /* the list has to be here first */
    if (r->list_bytes > 0) {
        *address = r->pointer[0];
        return nvmefs_prp_first(r);
    }
    return nvmefs_dir_next(r, &k, UINT32_MAX, address);
}

/* ---- Chunks ---- */

int nvmefs_chunks_take(struct snic_nvmefs_dpu *d, struct nvmefs_cmd *c)
{
    uint32_t bytes = c->in_bytes + c->out_bytes; /* one of them is 0 */
    uint32_t n = (bytes + d->opts.chunk_bytes - 1) / d->opts.chunk_bytes;
    SNIC_ASSERT(n <= SNIC_NVMEFS_PIECES_MAX && c->chunk_count == 0);
    if (n > d->free_count)
        return 0;
    for (uint32_t i = 0; i < n; i++) {
        c->chunks[i] = d->free_chunks[--d->free_count];
        c->iov[i].base = d->chunk_mem + (size_t)c->chunks[i] * d->opts.chunk_bytes;
        c->iov[i].size = (size_t)snic_min_u64(bytes, d->opts.chunk_bytes);
        bytes -= (uint32_t)c->iov[i].size;
    }
    c->chunk_count = n;
    c->user.req.op.iov = c->iov;
    c->user.req.op.iov_count = n;
    c->user.data_size = c->in_bytes + c->out_bytes;
    return 1;
}

void nvmefs_chunks_give(struct snic_nvmefs_dpu *d, struct nvmefs_cmd *c)
{
    SNIC_ASSERT(d->free_count + c->chunk_count <= d->opts.chunks);
    for (uint32_t i = c->chunk_count; i-- > 0;)
        d->free_chunks[d->free_count++] = c->chunks[i];
    c->chunk_count = 0;
    c->user.req.op.iov_count = 0;
}

/* ---- Operations ---- */

uint32_t nvmefs_data_ops(struct snic_nvmefs_dpu *d, struct nvmefs_cmd *c, struct nvmefs_step *s,
                         uint32_t room)
{
    int in = c->phase == NVMEFS_DATA_IN;
    const struct nvmefs_dir *r = in ? &c->write : &c->read;
    unsigned char *header =
        in ? (unsigned char *)c->ctl + c->header_at : (unsigned char *)c->answer;
    uint32_t header_bytes = in ? c->wh_len : c->answer_bytes;
    uint32_t end = in ? c->write.length : c->answer_bytes + c->send;
    uint32_t ops = 0;
    while (ops < room && c->cursor.at < end) {
        uint32_t at = c->cursor.at;
        uint64_t address = 0;
        unsigned char *local = header + at;
        uint32_t most = header_bytes - at;
        if (at >= header_bytes) {
            uint32_t offset = at - header_bytes;
            uint32_t chunk = c->chunks[offset / d->opts.chunk_bytes];
            uint32_t inside = offset % d->opts.chunk_bytes;
            local = d->chunk_mem + (size_t)chunk * d->opts.chunk_bytes + inside;
            most = d->opts.chunk_bytes - inside;
        }
        most = (uint32_t)snic_min_u64(most, end - at);
        uint32_t n = nvmefs_dir_next(r, &c->cursor, most, &address);
        SNIC_ASSERT(n > 0); /* the pieces were counted: D3 */
        nvmefs_step_add(d, s, in ? 1 : 2, 0, address, local, n);
        ops++;
    }
    if (in)
        d->stats.reads_data += ops;
    else
        d->stats.writes_data += ops;
    return ops;
}

uint32_t nvmefs_out_count(const struct snic_nvmefs_dpu *d, const struct nvmefs_cmd *c)
{
    struct nvmefs_cursor k = {0, 0, 0};
    uint32_t end = c->answer_bytes + c->send;
    uint32_t ops = 0;
    while (k.at < end) {
        uint64_t address;
        uint32_t most = c->answer_bytes - k.at;
        if (k.at >= c->answer_bytes)
            most = d->opts.chunk_bytes - (k.at - c->answer_bytes) % d->opts.chunk_bytes;
        ops++;
        if (nvmefs_dir_next(&c->read, &k, (uint32_t)snic_min_u64(most, end - k.at), &address) == 0)
            break;
    }
    return ops;
}
