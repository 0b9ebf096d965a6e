/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * The codec. A header is judged field by field in the order of their offsets, so that the lowest
 * wrong one is named, as the specification wants it.
 *
 *      0 type  1 flags  2 HLEN  3 PDO  4 PLEN
 *      ICReq, ICResp     8 PFV  10 HPDA, CPDA  11 DGST  12 MAXR2T, MAXH2CDATA
 *      TermReq           8 FES  10 FEI
 *      CapsuleCmd        8 SQE                 CapsuleResp  8 CQE
 *      H2CData, C2HData  8 CCCID  10 TTAG (not of C2HData)  12 DATAO  16 DATAL
 *      R2T               8 CCCID  10 TTAG  12 R2TO  16 R2TL
 */
#include "nvmetcp/nvmetcp_priv.h"

enum { NVMETCP_HAS_HDGST = 1, NVMETCP_HAS_DATA = 2, NVMETCP_TO_HOST = 4 };

struct nvmetcp_kind {
    uint8_t hlen; /* 0: no such type */
    uint8_t has;
};

static const struct nvmetcp_kind nvmetcp_kinds[] = {
    [SNIC_NVMETCP_ICREQ] = {128, 0},
    [SNIC_NVMETCP_ICRESP] = {128, NVMETCP_TO_HOST},
    [SNIC_NVMETCP_H2C_TERM] = {24, 0},
    [SNIC_NVMETCP_C2H_TERM] = {24, NVMETCP_TO_HOST},
    [SNIC_NVMETCP_CAPSULE_CMD] = {72, NVMETCP_HAS_HDGST | NVMETCP_HAS_DATA},
    [SNIC_NVMETCP_CAPSULE_RESP] = {24, NVMETCP_HAS_HDGST | NVMETCP_TO_HOST},
    [SNIC_NVMETCP_H2C_DATA] = {24, NVMETCP_HAS_HDGST | NVMETCP_HAS_DATA},
    [SNIC_NVMETCP_C2H_DATA] = {24, NVMETCP_HAS_HDGST | NVMETCP_HAS_DATA | NVMETCP_TO_HOST},
    [SNIC_NVMETCP_R2T] = {24, NVMETCP_HAS_HDGST | NVMETCP_TO_HOST},
};

static const struct nvmetcp_kind *nvmetcp_kind_of(uint8_t type, int to_host)
{
    if (type >= SNIC_COUNTOF(nvmetcp_kinds) || nvmetcp_kinds[type].hlen == 0)
        return NULL;
    const struct nvmetcp_kind *k = &nvmetcp_kinds[type];
    return ((k->has & NVMETCP_TO_HOST) != 0) == (to_host != 0) ? k : NULL;
}

static int nvmetcp_wrong(struct snic_nvmetcp_pdu *out, uint16_t fes, uint32_t fei)
{
    out->fes = fes;
    out->fei = fei;
    return SNIC_EPROTO;
}

static int nvmetcp_is_term(uint8_t type)
{
    return type == SNIC_NVMETCP_H2C_TERM || type == SNIC_NVMETCP_C2H_TERM;
}

/* PDO and PLEN of a PDU that may have data. */
static int nvmetcp_decode_data(struct snic_nvmetcp_pdu *out, const struct snic_nvmetcp_params *p)
{
    uint32_t align = 4u * (p->pda + 1u);
    uint32_t digest = (p->digests & SNIC_NVMETCP_DDGST) != 0 ? 4 : 0;
    if (out->plen == out->head_size) { /* no data: PDO means nothing */
        out->pdo = 0;
        return 0;
    }
    if (out->plen < out->head_size)
        return nvmetcp_wrong(out, SNIC_NVMETCP_FES_HEADER, 4);
    if (((out->flags & SNIC_NVMETCP_DDGSTF) != 0) != (digest != 0))
        return nvmetcp_wrong(out, SNIC_NVMETCP_FES_HEADER, 1);
    if (out->pdo < out->head_size || out->pdo % align != 0 || out->pdo > out->plen)
        return nvmetcp_wrong(out, SNIC_NVMETCP_FES_HEADER, 3);
    if (out->plen - out->pdo <= digest)
        return nvmetcp_wrong(out, SNIC_NVMETCP_FES_HEADER, 4);
    out->pad_size = out->pdo - out->head_size;
    out->data_size = out->plen - out->pdo - digest;
    return 0;
}

/* The first 8 bytes. */
static int nvmetcp_decode_common(struct snic_nvmetcp_pdu *out, const struct snic_nvmetcp_params *p,
                                 const unsigned char *b)
{
    out->type = b[0];
    out->flags = b[1];
    out->hlen = b[2];
    out->pdo = b[3];
    out->plen = snic_get_le32(b + 4);
    const struct nvmetcp_kind *k = nvmetcp_kind_of(out->type, p->to_host);
    if (k == NULL)
        return nvmetcp_wrong(out, SNIC_NVMETCP_FES_HEADER, 0);
    if (nvmetcp_is_term(out->type)) {
        out->head_size = 24;
        if (out->hlen != 24 || out->plen < 24 || out->plen > SNIC_NVMETCP__TERM_BYTES)
            return SNIC_ECONNRESET;
        out->pdo = 0;
        out->data_size = out->plen - 24;
        return 0;
    }
    int hdgst = (k->has & NVMETCP_HAS_HDGST) != 0 && (p->digests & SNIC_NVMETCP_HDGST) != 0;
    int ddgst = (k->has & NVMETCP_HAS_DATA) != 0 && (p->digests & SNIC_NVMETCP_DDGST) != 0;
    if ((k->has & NVMETCP_HAS_HDGST) != 0 &&
        (((out->flags & SNIC_NVMETCP_HDGSTF) != 0) != hdgst ||
         ((k->has & NVMETCP_HAS_DATA) != 0 && (out->flags & SNIC_NVMETCP_DDGSTF) != 0 && !ddgst)))
        return nvmetcp_wrong(out, SNIC_NVMETCP_FES_HEADER, 1);
    if (out->type == SNIC_NVMETCP_C2H_DATA && (out->flags & SNIC_NVMETCP_SUCCESS) != 0 &&
        (out->flags & SNIC_NVMETCP_LAST) == 0)
        return nvmetcp_wrong(out, SNIC_NVMETCP_FES_HEADER, 1);
    if (out->hlen != k->hlen)
        return nvmetcp_wrong(out, SNIC_NVMETCP_FES_HEADER, 2);
    out->head_size = k->hlen + (hdgst ? 4u : 0u);
    if ((k->has & NVMETCP_HAS_DATA) != 0)
        return nvmetcp_decode_data(out, p);
    out->pdo = 0;
    return out->plen == out->head_size ? 0 : nvmetcp_wrong(out, SNIC_NVMETCP_FES_HEADER, 4);
}

static int nvmetcp_decode_ic(struct snic_nvmetcp_pdu *out, const unsigned char *b)
{
    out->pfv = snic_get_le16(b + 8);
    out->pda = b[10];
    out->digests = b[11] & (SNIC_NVMETCP_HDGST | SNIC_NVMETCP_DDGST);
    out->limit = snic_get_le32(b + 12);
    if (out->pfv != 0)
        return nvmetcp_wrong(out, SNIC_NVMETCP_FES_PARAMETER, 8);
    if (out->pda > 31)
        return nvmetcp_wrong(out, SNIC_NVMETCP_FES_HEADER, 10);
    if (out->type == SNIC_NVMETCP_ICRESP && (out->limit < 4096 || out->limit % 4 != 0))
        return nvmetcp_wrong(out, SNIC_NVMETCP_FES_HEADER, 12);
    return 0;
}

int snic_nvmetcp_decode(struct snic_nvmetcp_pdu *out, const struct snic_nvmetcp_params *p,
                        const void *data, size_t size)
{
    const unsigned char *b = data;
    memset(out, 0, sizeof(*out));
    out->head_size = SNIC_NVMETCP__CH;
    if (size < SNIC_NVMETCP__CH)
        return SNIC_EAGAIN;
    int r = nvmetcp_decode_common(out, p, b);
    if (r != 0)
        return r;
    if (size < out->head_size)
        return SNIC_EAGAIN;
    if (out->head_size > out->hlen && snic_crc32c(0, b, out->hlen) != snic_get_le32(b + out->hlen))
        return nvmetcp_wrong(out, SNIC_NVMETCP_FES_DIGEST, snic_get_le32(b + out->hlen));
    switch (out->type) {
    case SNIC_NVMETCP_ICREQ:
    case SNIC_NVMETCP_ICRESP:
        return nvmetcp_decode_ic(out, b);
    case SNIC_NVMETCP_H2C_TERM:
    case SNIC_NVMETCP_C2H_TERM:
        out->fes = snic_get_le16(b + 8);
        out->fei = snic_get_le32(b + 10);
        return 0;
    case SNIC_NVMETCP_CAPSULE_CMD:
    case SNIC_NVMETCP_CAPSULE_RESP:
        out->capsule = b + 8;
        return 0;
    default: /* data, R2T */
        out->cccid = snic_get_le16(b + 8);
        out->ttag = out->type == SNIC_NVMETCP_C2H_DATA ? 0 : snic_get_le16(b + 10);
        out->offset = snic_get_le32(b + 12);
        out->length = snic_get_le32(b + 16);
        if (out->type != SNIC_NVMETCP_R2T && out->length != out->data_size)
            return nvmetcp_wrong(out, SNIC_NVMETCP_FES_HEADER, 16);
        return 0;
    }
}

static void nvmetcp_encode_fields(unsigned char *b, const struct snic_nvmetcp_pdu *pdu)
{
    switch (pdu->type) {
    case SNIC_NVMETCP_ICREQ:
    case SNIC_NVMETCP_ICRESP:
        snic_put_le16(b + 8, pdu->pfv);
        b[10] = pdu->pda;
        b[11] = pdu->digests;
        snic_put_le32(b + 12, pdu->limit);
        break;
    case SNIC_NVMETCP_H2C_TERM:
    case SNIC_NVMETCP_C2H_TERM:
        snic_put_le16(b + 8, pdu->fes);
        snic_put_le32(b + 10, pdu->fei);
        break;
    case SNIC_NVMETCP_CAPSULE_CMD:
        memcpy(b + 8, pdu->capsule, SNIC_NVMETCP_SQE_BYTES);
        break;
    case SNIC_NVMETCP_CAPSULE_RESP:
        memcpy(b + 8, pdu->capsule, SNIC_NVMETCP_CQE_BYTES);
        break;
    default:
        snic_put_le16(b + 8, pdu->cccid);
        snic_put_le16(b + 10, pdu->ttag);
        snic_put_le32(b + 12, pdu->offset);
        snic_put_le32(b + 16, pdu->length);
        break;
    }
}

int snic_nvmetcp_encode(void *out, struct snic_nvmetcp_pdu *pdu,
                        const struct snic_nvmetcp_params *p)
{
    unsigned char *b = out;
    const struct nvmetcp_kind *k = nvmetcp_kind_of(pdu->type, p->to_host);
    uint32_t digest = 0;
    if (k == NULL || (pdu->data_size > 0 && (k->has & NVMETCP_HAS_DATA) == 0 &&
                      (!nvmetcp_is_term(pdu->type) || pdu->data_size > SNIC_NVMETCP__TERM_DATA)))
        return SNIC_EINVAL;
    pdu->flags &= SNIC_NVMETCP_LAST | SNIC_NVMETCP_SUCCESS;
    pdu->hlen = k->hlen;
    pdu->head_size = k->hlen;
    pdu->pdo = 0;
    pdu->pad_size = 0;
    if ((k->has & NVMETCP_HAS_HDGST) != 0 && (p->digests & SNIC_NVMETCP_HDGST) != 0) {
        pdu->flags |= SNIC_NVMETCP_HDGSTF;
        pdu->head_size += 4;
    }
    if ((k->has & NVMETCP_HAS_DATA) != 0 && pdu->data_size > 0) {
        uint32_t align = 4u * (p->pda + 1u), rest = pdu->head_size % align;
        pdu->pad_size = rest > 0 ? align - rest : 0;
        pdu->pdo = (uint8_t)(pdu->head_size + pdu->pad_size);
        if ((p->digests & SNIC_NVMETCP_DDGST) != 0) {
            pdu->flags |= SNIC_NVMETCP_DDGSTF;
            digest = 4;
        }
    }
    pdu->plen = pdu->head_size + pdu->pad_size + pdu->data_size + digest;
    if (k->hlen == 24) /* of a constant size it is three stores */
        memset(b, 0, 24);
    else
        memset(b, 0, k->hlen);
    b[0] = pdu->type;
    b[1] = pdu->flags;
    b[2] = pdu->hlen;
    b[3] = pdu->pdo;
    snic_put_le32(b + 4, pdu->plen);
    nvmetcp_encode_fields(b, pdu);
    if (pdu->head_size > pdu->hlen)
        snic_put_le32(b + pdu->hlen, snic_crc32c(0, b, pdu->hlen));
    return (int)pdu->head_size;
}
