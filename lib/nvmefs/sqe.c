/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* Entries, pointers and control messages, bit by bit. */
#include "nvmefs/nvmefs_priv.h"

SNIC_STATIC_ASSERT(SNIC_NVMEFS_OPCODE == (0x3U | 0x8U << 2 | 1U << 7),
                   "bidirectional, function 01000b, vendor");

int snic_nvmefs_status_error(uint32_t status)
{
    switch (status) {
    case SNIC_NVMEFS_STATUS_OK:
        return 0;
    case SNIC_NVMEFS_STATUS_OPCODE:
    case SNIC_NVMEFS_STATUS_NO_SERVICE:
        return SNIC_ENOTSUP;
    case SNIC_NVMEFS_STATUS_FIELD:
    case SNIC_NVMEFS_STATUS_SGL_COUNT:
    case SNIC_NVMEFS_STATUS_SGL_LENGTH:
    case SNIC_NVMEFS_STATUS_SGL_TYPE:
    case SNIC_NVMEFS_STATUS_PRP:
        return SNIC_EINVAL;
    case SNIC_NVMEFS_STATUS_TRANSFER:
    case SNIC_NVMEFS_STATUS_ADDRESS:
        return SNIC_EFAULT;
    case SNIC_NVMEFS_STATUS_ABORTED:
        return SNIC_ECANCELED;
    case SNIC_NVMEFS_STATUS_DELETED:
        return SNIC_EUNKNOWN;
    case SNIC_NVMEFS_STATUS_VERSION:
        return SNIC_EVERSION;
    default:
        return SNIC_EPROTO;
    }
}

/* ---- Entries ---- */

void snic_nvmefs_sqe_encode(void *out, const struct snic_nvmefs_sqe *s)
{
    unsigned char *p = out;
    memset(p, 0, SNIC_NVMEFS_SQE_BYTES);
    snic_put_le32(p, (uint32_t)s->opcode | (uint32_t)s->distributed << 10 | (uint32_t)s->lap << 11 |
                         (uint32_t)s->write_sgl << 14 | (uint32_t)s->read_sgl << 15 |
                         (uint32_t)s->cid << 16);
    snic_put_le64(p + 8, s->write[0]);
    snic_put_le64(p + 16, s->write[1]);
    snic_put_le64(p + 24, s->read[0]);
    snic_put_le64(p + 32, s->read[1]);
    snic_put_le32(p + 40, s->write_len);
    snic_put_le32(p + 44, s->read_len);
    snic_put_le32(p + 52, (uint32_t)s->rh_len | (uint32_t)s->wh_len << 16);
}

uint32_t snic_nvmefs_sqe_decode(struct snic_nvmefs_sqe *s, const void *in)
{
    const unsigned char *p = in;
    uint32_t d0 = snic_get_le32(p);
    uint32_t d13 = snic_get_le32(p + 52);
    *s = (struct snic_nvmefs_sqe){.opcode = (uint8_t)d0,
                                  .distributed = (uint8_t)(d0 >> 10 & 1),
                                  .lap = (uint8_t)(d0 >> 11 & 1),
                                  .write_sgl = (uint8_t)(d0 >> 14 & 1),
                                  .read_sgl = (uint8_t)(d0 >> 15 & 1),
                                  .cid = (uint16_t)(d0 >> 16),
                                  .write = {snic_get_le64(p + 8), snic_get_le64(p + 16)},
                                  .read = {snic_get_le64(p + 24), snic_get_le64(p + 32)},
                                  .write_len = snic_get_le32(p + 40),
                                  .read_len = snic_get_le32(p + 44),
                                  .rh_len = (uint16_t)d13,
                                  .wh_len = (uint16_t)(d13 >> 16)};
    if (s->opcode != SNIC_NVMEFS_OPCODE && s->opcode != SNIC_NVMEFS_OPCODE_ABORT)
        return SNIC_NVMEFS_STATUS_OPCODE;
    if ((d0 & 0x3300) != 0 || snic_get_le32(p + 4) != 0 || snic_get_le32(p + 48) != 0 ||
        snic_get_le64(p + 56) != 0)
        return SNIC_NVMEFS_STATUS_FIELD;
    if (s->opcode == SNIC_NVMEFS_OPCODE_ABORT &&
        ((s->write[0] | s->write[1] | s->read[0] | s->read[1]) != 0 || s->read_len != 0 ||
         d13 != 0 || (d0 & 0xc400) != 0))
        return SNIC_NVMEFS_STATUS_FIELD;
    return SNIC_NVMEFS_STATUS_OK;
}

void snic_nvmefs_cqe_encode(void *out, const struct snic_nvmefs_cqe *c)
{
    unsigned char *p = out;
    snic_put_le64(p, (uint64_t)c->result);
    snic_put_le32(p + 8, (uint32_t)c->sq_head | (uint32_t)c->queue << 16);
    snic_put_le32(p + 12,
                  (uint32_t)c->cid | (uint32_t)(c->phase & 1) << 16 | (uint32_t)c->status << 17);
}

void snic_nvmefs_cqe_decode(struct snic_nvmefs_cqe *c, const void *in)
{
    const unsigned char *p = in;
    uint32_t d2 = snic_get_le32(p + 8);
    uint32_t d3 = snic_get_le32(p + 12);
    *c = (struct snic_nvmefs_cqe){.result = (int64_t)snic_get_le64(p),
                                  .sq_head = (uint16_t)d2,
                                  .queue = (uint16_t)(d2 >> 16),
                                  .cid = (uint16_t)d3,
                                  .phase = (uint8_t)(d3 >> 16 & 1),
                                  .status = (uint16_t)(d3 >> 17)};
}

/* ---- Pointers ---- */

void snic_nvmefs_sgl_encode(uint64_t out[2], uint64_t address, uint32_t length, int segment)
{
    unsigned char b[16] = {0};
    snic_put_le64(b, address);
    snic_put_le32(b + 8, length);
    b[15] = segment ? SNIC_NVMEFS__SGL_LAST : SNIC_NVMEFS__SGL_DATA;
    out[0] = snic_get_le64(b);
    out[1] = snic_get_le64(b + 8);
}

int snic_nvmefs_prp_encode(const struct snic_nvmefs_extent *pieces, uint32_t n, uint64_t *out,
                           uint32_t max)
{
    const uint64_t mask = SNIC_NVMEFS_PAGE - 1;
    uint32_t count = 0;
    for (uint32_t i = 0; i < n; i++) {
        uint64_t at = pieces[i].address;
        uint64_t end = at + pieces[i].size;
        if (pieces[i].size == 0 || (i > 0 && (at & mask) != 0) || (i + 1 < n && (end & mask) != 0))
            return SNIC_EINVAL;
        for (; at < end; at = (at | mask) + 1) {
            if (count == max)
                return SNIC_E2BIG;
            out[count++] = at;
        }
    }
    return (int)count;
}

/* ---- Control messages ---- */

void snic_nvmefs_ctl_encode(void *out, const struct snic_nvmefs_ctl *c)
{
    unsigned char *p = out;
    memset(p, 0, SNIC_NVMEFS_CTL_BYTES);
    snic_put_le32(p, SNIC_NVMEFS_CTL_MAGIC);
    snic_put_le16(p + 4, SNIC_NVMEFS_VERSION);
    snic_put_le16(p + 6, c->type);
    snic_put_le16(p + 8, c->queue);
    snic_put_le16(p + 10, c->window);
    snic_put_le32(p + 12, c->generation);
    snic_put_le32(p + 16, (uint32_t)c->error);
    snic_put_le32(p + 20, c->depth);
    snic_put_le32(p + 24, c->data_max);
    snic_put_le64(p + 32, c->key);
    snic_put_le64(p + 40, c->size);
    snic_put_le64(p + 48, c->sq);
    snic_put_le64(p + 56, c->cq);
    snic_put_le64(p + 64, c->bells);
}

int snic_nvmefs_ctl_decode(struct snic_nvmefs_ctl *c, const void *in, size_t size)
{
    const unsigned char *p = in;
    if (size < 8 || snic_get_le32(p) != SNIC_NVMEFS_CTL_MAGIC)
        return SNIC_ENOENT;
    if (snic_get_le16(p + 4) != SNIC_NVMEFS_VERSION)
        return SNIC_EVERSION;
    if (size != SNIC_NVMEFS_CTL_BYTES || snic_get_le32(p + 28) != 0 || snic_get_le64(p + 72) != 0)
        return SNIC_EPROTO;
    uint16_t type = snic_get_le16(p + 6);
    if (type < SNIC_NVMEFS_CTL_WINDOW || type > SNIC_NVMEFS_CTL_FAILED)
        return SNIC_EPROTO;
    *c = (struct snic_nvmefs_ctl){.type = type,
                                  .queue = snic_get_le16(p + 8),
                                  .window = snic_get_le16(p + 10),
                                  .generation = snic_get_le32(p + 12),
                                  .error = (int32_t)snic_get_le32(p + 16),
                                  .depth = snic_get_le32(p + 20),
                                  .data_max = snic_get_le32(p + 24),
                                  .key = snic_get_le64(p + 32),
                                  .size = snic_get_le64(p + 40),
                                  .sq = snic_get_le64(p + 48),
                                  .cq = snic_get_le64(p + 56),
                                  .bells = snic_get_le64(p + 64)};
    return 0;
}
