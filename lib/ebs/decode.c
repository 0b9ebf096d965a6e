/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * A header, from the wire to the struct. The bytes are hostile.
 *
 * I1  The header is copied once; the bytes that are checked are the bytes that are used.
 * I2  Outputs are written after all checks: all of them, or none. The checked fields are taken out
 *     of the copy first; filling in a whole struct and then copying it costs more.
 * I3  No field of a packet is used before hdr_crc matched, but those that determine the length of
 *     the headers: version, type and flags, which choose from a few lengths that are compared with
 *     the packet's.
 */
#include "ebs/ebs_priv.h"

/* The direction and the connection precede the header under its checksum. */
struct decode_copy {
    unsigned char scope[8];
    unsigned char p[SNIC_EBS_HEADER_BYTES];
};
SNIC_STATIC_ASSERT(sizeof(struct decode_copy) == 8 + SNIC_EBS_HEADER_BYTES, "one run of bytes");

static void decode_block(struct snic_ebs_block *b, const unsigned char *p, unsigned type)
{
    b->vd_id = snic_get_be64(p + EBS_AT_VD_ID);
    b->seg_id = snic_get_be64(p + EBS_AT_SEG_ID);
    b->lba = snic_get_be64(p + EBS_AT_LBA);
    b->wver = snic_get_be64(p + EBS_AT_WVER);
    b->seg_gen = snic_get_be32(p + EBS_AT_SEG_GEN);
    b->data_crc = snic_get_be32(p + EBS_AT_DATA_CRC);
    b->bind_crc = snic_get_be32(p + EBS_AT_BIND_CRC);
    b->agg_crc = snic_get_be32(p + EBS_AT_AGG_CRC);
    b->blk_off = snic_get_be16(p + EBS_AT_BLK_OFF);
    b->blk_cnt = snic_get_be16(p + EBS_AT_BLK_CNT);
    b->block_log2 = p[EBS_AT_BLOCK_LOG2];
    b->op = p[EBS_AT_OP];
    b->tenant = snic_get_be16(p + EBS_AT_TENANT);
    b->need_mask = 0;
    b->block_tag = 0;
    b->srv_crc = 0;
    b->addr_slot = 0;
    b->addr_gen = 0;
    b->pad = 0;
    if (type == SNIC_EBS_WRITE) {
        b->block_tag = snic_get_be32(p + EBS_AT_BY_TYPE);
    } else if (type == SNIC_EBS_WACK) {
        b->srv_crc = snic_get_be32(p + EBS_AT_BY_TYPE);
    } else if (type == SNIC_EBS_READ_REQ) {
        b->need_mask = snic_get_be64(p + EBS_AT_BY_TYPE);
    } else if (type == SNIC_EBS_READ_RESP) {
        b->addr_slot = snic_get_be16(p + EBS_AT_BY_TYPE);
        b->addr_gen = snic_get_be16(p + EBS_AT_BY_TYPE + 2);
        b->block_tag = snic_get_be32(p + EBS_AT_RESP_BLOCK_TAG);
    }
}

static void decode_hello(struct snic_ebs_hello *h, const unsigned char *p, unsigned type)
{
    uint64_t by_type = snic_get_be64(p + EBS_AT_HELLO_BY_TYPE);

    h->ver_min = p[EBS_AT_HELLO_VER_MIN];
    h->ver_max = p[EBS_AT_HELLO_VER_MAX];
    h->conn_id = snic_get_be32(p + EBS_AT_HELLO_CONN_ID);
    h->features = snic_get_be32(p + EBS_AT_HELLO_FEATURES);
    h->epoch = snic_get_be32(p + EBS_AT_HELLO_EPOCH);
    h->nonce = snic_get_be64(p + EBS_AT_HELLO_NONCE);
    h->reset_token = snic_get_be64(p + EBS_AT_HELLO_TOKEN);
    h->proof = snic_get_be64(p + EBS_AT_HELLO_PROOF);
    h->client_id = snic_get_be64(p + EBS_AT_HELLO_CLIENT);
    h->key_id = snic_get_be32(p + EBS_AT_HELLO_KEY);
    h->payload_max = snic_get_be32(p + EBS_AT_HELLO_PAYLOAD);
    h->account = type == SNIC_EBS_HELLO ? (uint32_t)(by_type >> 32) : 0;
    h->pad2 = 0;
    h->key_nonce = type == SNIC_EBS_HELLO ? 0 : by_type;
}

static void decode_part(struct snic_ebs_header *h, unsigned part, const unsigned char *p)
{
    if (part == EBS_BLOCK) {
        decode_block(&h->u.block, p, h->type);
        return;
    }
    memset(&h->u, 0, sizeof(h->u));
    if (part == EBS_HELLO) {
        decode_hello(&h->u.hello, p, h->type);
    } else if (part == EBS_RESET) {
        h->u.reset.token = snic_get_be64(p + EBS_AT_RESET_TOKEN);
        h->u.reset.ver_min = p[EBS_AT_RESET_VER_MIN];
        h->u.reset.ver_max = p[EBS_AT_RESET_VER_MAX];
        h->u.reset.retry_us = snic_get_be32(p + EBS_AT_RESET_RETRY);
    } else if (part == EBS_PROBE) {
        h->u.probe.probe_bytes = snic_get_be32(p + EBS_AT_PROBE_BYTES);
        h->u.probe.held_seq = snic_get_be32(p + EBS_AT_PROBE_HELD_SEQ);
        h->u.probe.nonce = snic_get_be64(p + EBS_AT_PROBE_NONCE);
        for (uint32_t i = 0; i < 4; i++)
            h->u.probe.held[i] = snic_get_be64(p + EBS_AT_PROBE_HELD + 8 * i);
        h->u.probe.proof = snic_get_be64(p + EBS_AT_PROBE_PROOF);
        h->u.probe.key_id = snic_get_be32(p + EBS_AT_PROBE_KEY);
        h->u.probe.account = snic_get_be32(p + EBS_AT_PROBE_ACCOUNT);
    } else if (part == EBS_NAK) {
        h->u.nak.retry_us = snic_get_be32(p + EBS_AT_NAK_RETRY);
        h->u.nak.bad_flags = snic_get_be16(p + EBS_AT_NAK_FLAGS);
        h->u.nak.proof = snic_get_be64(p + EBS_AT_NAK_PROOF);
    } else if (part == EBS_TOKEN) {
        memcpy(h->u.token, p + EBS_AT_TOKEN, SNIC_EBS_TOKEN_BYTES);
    }
}

static void decode_rpc(struct snic_ebs_header *h, const unsigned char *p)
{
    h->type = p[EBS_AT_TYPE];
    h->flags = snic_get_be16(p + EBS_AT_FLAGS);
    h->conn_id = snic_get_be32(p + EBS_AT_CONN_ID);
    h->rpc_id = snic_get_be64(p + EBS_AT_RPC_ID);
    h->pkt_id = snic_get_be16(p + EBS_AT_PKT_ID);
    h->pkt_cnt = snic_get_be16(p + EBS_AT_PKT_CNT);
    h->path_id = p[EBS_AT_PATH_ID];
    h->path_gen = p[EBS_AT_PATH_GEN];
    h->attempt = p[EBS_AT_ATTEMPT];
    h->credit = p[EBS_AT_CREDIT];
    h->path_seq = snic_get_be32(p + EBS_AT_PATH_SEQ);
    h->tx_ts = snic_get_be32(p + EBS_AT_TX_TS);
    h->echo_ts = snic_get_be32(p + EBS_AT_ECHO_TS);
    h->hold_ns = snic_get_be32(p + EBS_AT_HOLD_NS);
    h->ack_seq = snic_get_be32(p + EBS_AT_ACK_SEQ);
    h->srv_epoch = snic_get_be32(p + EBS_AT_SRV_EPOCH);
    h->status = snic_get_be16(p + EBS_AT_STATUS);
    h->ack_path_id = p[EBS_AT_ACK_PATH_ID];
    h->ack_path_gen = p[EBS_AT_ACK_PATH_GEN];
    h->pad = 0;
    h->pad2 = 0;
    h->pn = snic_get_be64(p + EBS_AT_PN);
}

/* The fields that the rules check. */
static void decode_terms(struct ebs_terms *t, unsigned part, const unsigned char *p)
{
    memset(t, 0, sizeof(*t));
    t->type = p[EBS_AT_TYPE];
    t->status = snic_get_be16(p + EBS_AT_STATUS);
    t->pkt_id = snic_get_be16(p + EBS_AT_PKT_ID);
    t->pkt_cnt = snic_get_be16(p + EBS_AT_PKT_CNT);
    if (part == EBS_BLOCK) {
        t->lba = snic_get_be64(p + EBS_AT_LBA);
        t->need_mask = snic_get_be64(p + EBS_AT_BY_TYPE);
        t->blk_off = snic_get_be16(p + EBS_AT_BLK_OFF);
        t->blk_cnt = snic_get_be16(p + EBS_AT_BLK_CNT);
        t->op = p[EBS_AT_OP];
        t->block_log2 = p[EBS_AT_BLOCK_LOG2];
    } else if (part == EBS_HELLO) {
        t->conn_id = snic_get_be32(p + EBS_AT_HELLO_CONN_ID);
        t->ver_min = p[EBS_AT_HELLO_VER_MIN];
        t->ver_max = p[EBS_AT_HELLO_VER_MAX];
    } else if (part == EBS_RESET) {
        t->ver_min = p[EBS_AT_RESET_VER_MIN];
        t->ver_max = p[EBS_AT_RESET_VER_MAX];
    }
}

/*
 * The length of the headers, and all checks that precede hdr_crc; fills in the copy, and the place
 * of a body that fills the rest (STREAM: of none).
 */
static int decode_begin(struct decode_copy *c, const struct ebs_kind **kind,
                        struct snic_ebs_place *at, unsigned direction, const unsigned char *packet,
                        size_t size)
{
    if (size < SNIC_EBS_RPC_BYTES)
        return SNIC_EMSGSIZE;
    memcpy(c->p, packet, SNIC_EBS_RPC_BYTES); /* I1 */
    if (c->p[EBS_AT_VERSION] >> 4 != SNIC_EBS_VERSION)
        return SNIC_EVERSION;
    const struct ebs_kind *k = ebs_kind_of(c->p[EBS_AT_TYPE], direction);
    unsigned flags = snic_get_be16(c->p + EBS_AT_FLAGS);
    if (k == NULL || ebs_flags_bad(flags, direction))
        return SNIC_EPROTO;
    ebs_place(at, ebs_header_size(k), flags, 0);
    if (c->p[EBS_AT_VERSION] != ebs_first_byte(at->body_at))
        return SNIC_EPROTO;
    if (size < at->size)
        return SNIC_EMSGSIZE;
    size_t rest = size - at->size;
    if ((direction & SNIC_EBS_STREAM) == 0) {
        if (rest > SNIC_EBS_BLOCK_BYTES)
            return SNIC_EOVERFLOW;
        ebs_place(at, at->header_size, flags, (uint32_t)rest);
    }
    if (k->part != EBS_NONE)
        memcpy(c->p + SNIC_EBS_RPC_BYTES, packet + SNIC_EBS_RPC_BYTES,
               SNIC_EBS_HEADER_BYTES - SNIC_EBS_RPC_BYTES);
    *kind = k;
    return 0;
}

static int decode_crc_bad(struct decode_copy *c, const struct ebs_kind *k,
                          const struct snic_ebs_place *at, unsigned direction,
                          const unsigned char *packet)
{
    unsigned flags = snic_get_be16(c->p + EBS_AT_FLAGS);
    uint64_t conn_id = snic_get_be32(c->p + EBS_AT_CONN_ID);
    uint64_t last = snic_get_be64(c->p + EBS_AT_STATUS); /* eight at a time: see encode.c */
    uint32_t stored = (uint32_t)last;

    snic_put_be64(c->scope, conn_id << 32 | direction);
    snic_put_be64(c->p + EBS_AT_STATUS, last - stored);
    uint32_t crc = snic_crc32c(0, c, sizeof(c->scope) + at->header_size);
    if (at->body_size > 0 && ebs_crc_has_body(k, flags, direction))
        crc = snic_crc32c(crc, packet + at->body_at, at->body_size);
    return crc != stored;
}

int snic_ebs_decode(struct snic_ebs_header *header, struct snic_ebs_place *place,
                    unsigned direction, const void *packet, size_t size)
{
    const struct ebs_kind *k;
    struct decode_copy c;
    struct snic_ebs_place at;
    struct ebs_terms t;
    uint32_t least;
    uint32_t most;

    int r = decode_begin(&c, &k, &at, direction, (const unsigned char *)packet, size);
    if (r != 0)
        return r;
    if (decode_crc_bad(&c, k, &at, direction, (const unsigned char *)packet))
        return SNIC_ECORRUPT;
    decode_terms(&t, k->part, c.p); /* I3 */
    if (ebs_fields_bad(&t, k, direction))
        return SNIC_ERANGE;
    ebs_body_sizes(&t, k, direction, &least, &most);
    unsigned flags = snic_get_be16(c.p + EBS_AT_FLAGS);
    if ((direction & SNIC_EBS_STREAM) != 0)
        ebs_place(&at, at.header_size, flags, least);
    else if (at.body_size < least || at.body_size > most)
        return SNIC_EOVERFLOW;
    decode_rpc(header, c.p); /* I2 */
    decode_part(header, k->part, c.p);
    *place = at;
    return (flags & SNIC_EBS_MUST & ~SNIC_EBS_MUST_KNOWN) != 0 ? SNIC_ENOTSUP : 0;
}

int snic_ebs_peek(struct snic_ebs_start *p, const void *packet, size_t size)
{
    const unsigned char *b = (const unsigned char *)packet;

    if (size < 16)
        return SNIC_EMSGSIZE;
    p->version = b[EBS_AT_VERSION] >> 4;
    p->type = b[EBS_AT_TYPE];
    p->pad = 0;
    p->conn_id = snic_get_be32(b + EBS_AT_CONN_ID);
    p->rpc_id = snic_get_be64(b + EBS_AT_RPC_ID);
    return 0;
}
