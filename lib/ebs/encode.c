/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * A header, from the struct to the wire.
 *
 * I1  All bytes in front of the body are written: no earlier contents of the memory are sent.
 * I2  Nothing is written before everything has been checked.
 *
 * Bytes are stored eight at a time: the checksum loads them eight at a time right afterwards, and a
 * processor forwards a store to a load of the same bytes, but not several stores to one load.
 */
#include "ebs/ebs_priv.h"

/* Fields of 32 and of 16 bits, the first one in front. */
static inline uint64_t encode_2x32(uint32_t a, uint32_t b)
{
    return (uint64_t)a << 32 | b;
}
static inline uint32_t encode_2x16(uint32_t a, uint32_t b)
{
    return a << 16 | b;
}

void ebs_put_bound(unsigned char *at64, const struct snic_ebs_block *b)
{
    unsigned char *p = at64 - SNIC_EBS_RPC_BYTES;
    /* block_log2 may be 0 in the struct: the only valid value. */
    uint32_t kind = encode_2x16(SNIC_EBS_BLOCK_LOG2 << 8 | b->op, b->tenant);

    snic_put_be64(p + EBS_AT_VD_ID, b->vd_id);
    snic_put_be64(p + EBS_AT_SEG_ID, b->seg_id);
    snic_put_be64(p + EBS_AT_BLK_OFF, encode_2x32(encode_2x16(b->blk_off, b->blk_cnt), kind));
    snic_put_be64(p + EBS_AT_LBA, b->lba);
    snic_put_be64(p + EBS_AT_WVER, b->wver);
    snic_put_be64(p + EBS_AT_SEG_GEN, encode_2x32(b->seg_gen, b->data_crc));
}

static void encode_block(unsigned char *p, unsigned type, const struct snic_ebs_block *b)
{
    uint64_t last = 0;

    if (type == SNIC_EBS_WRITE)
        last = encode_2x32(b->block_tag, 0);
    else if (type == SNIC_EBS_WACK)
        last = encode_2x32(b->srv_crc, 0);
    else if (type == SNIC_EBS_READ_REQ)
        last = b->need_mask;
    else if (type == SNIC_EBS_READ_RESP)
        last = encode_2x32(encode_2x16(b->addr_slot, b->addr_gen), b->block_tag);
    ebs_put_bound(p + SNIC_EBS_RPC_BYTES, b);
    snic_put_be64(p + EBS_AT_BIND_CRC, encode_2x32(b->bind_crc, b->agg_crc));
    snic_put_be64(p + EBS_AT_BY_TYPE, last);
}

static void encode_hello(unsigned char *p, unsigned type, const struct snic_ebs_hello *h)
{
    p[EBS_AT_HELLO_VER_MIN] = h->ver_min;
    p[EBS_AT_HELLO_VER_MAX] = h->ver_max;
    snic_put_be32(p + EBS_AT_HELLO_CONN_ID, h->conn_id);
    snic_put_be32(p + EBS_AT_HELLO_FEATURES, h->features);
    snic_put_be32(p + EBS_AT_HELLO_EPOCH, h->epoch);
    snic_put_be64(p + EBS_AT_HELLO_NONCE, h->nonce);
    snic_put_be64(p + EBS_AT_HELLO_TOKEN, h->reset_token);
    snic_put_be64(p + EBS_AT_HELLO_PROOF, h->proof);
    snic_put_be64(p + EBS_AT_HELLO_CLIENT, h->client_id);
    snic_put_be32(p + EBS_AT_HELLO_KEY, h->key_id);
    snic_put_be32(p + EBS_AT_HELLO_PAYLOAD, h->payload_max);
    snic_put_be64(p + EBS_AT_HELLO_BY_TYPE,
                  type == SNIC_EBS_HELLO ? encode_2x32(h->account, 0) : h->key_nonce);
}

/* Bytes 64 ... 127, which are 0 so far if the part is not a block's. */
static void encode_part(unsigned char *p, unsigned part, const struct snic_ebs_header *h)
{
    if (part == EBS_BLOCK) {
        encode_block(p, h->type, &h->u.block);
    } else if (part == EBS_HELLO) {
        encode_hello(p, h->type, &h->u.hello);
    } else if (part == EBS_RESET) {
        snic_put_be64(p + EBS_AT_RESET_TOKEN, h->u.reset.token);
        p[EBS_AT_RESET_VER_MIN] = h->u.reset.ver_min;
        p[EBS_AT_RESET_VER_MAX] = h->u.reset.ver_max;
        snic_put_be32(p + EBS_AT_RESET_RETRY, h->u.reset.retry_us);
    } else if (part == EBS_PROBE) {
        snic_put_be32(p + EBS_AT_PROBE_BYTES, h->u.probe.probe_bytes);
        snic_put_be32(p + EBS_AT_PROBE_HELD_SEQ, h->u.probe.held_seq);
        snic_put_be64(p + EBS_AT_PROBE_NONCE, h->u.probe.nonce);
        for (uint32_t i = 0; i < 4; i++)
            snic_put_be64(p + EBS_AT_PROBE_HELD + 8 * i, h->u.probe.held[i]);
        snic_put_be64(p + EBS_AT_PROBE_PROOF, h->u.probe.proof);
        snic_put_be32(p + EBS_AT_PROBE_KEY, h->u.probe.key_id);
        snic_put_be32(p + EBS_AT_PROBE_ACCOUNT, h->u.probe.account);
    } else if (part == EBS_NAK) {
        snic_put_be32(p + EBS_AT_NAK_RETRY, h->u.nak.retry_us);
        snic_put_be16(p + EBS_AT_NAK_FLAGS, h->u.nak.bad_flags);
        snic_put_be64(p + EBS_AT_NAK_PROOF, h->u.nak.proof);
    } else if (part == EBS_TOKEN) {
        memcpy(p + EBS_AT_TOKEN, h->u.token, SNIC_EBS_TOKEN_BYTES);
    }
}

/* The RPC header, hdr_crc 0. */
static void encode_rpc(unsigned char *p, const struct snic_ebs_header *h, uint32_t body_at)
{
    uint32_t first = encode_2x16((uint32_t)ebs_first_byte(body_at) << 8 | h->type, h->flags);
    uint32_t path =
        encode_2x16((uint32_t)h->path_id << 8 | h->path_gen, (uint32_t)h->attempt << 8 | h->credit);
    uint32_t status = encode_2x16(h->status, (uint32_t)h->ack_path_id << 8 | h->ack_path_gen);

    snic_put_be64(p + EBS_AT_VERSION, encode_2x32(first, h->conn_id));
    snic_put_be64(p + EBS_AT_RPC_ID, h->rpc_id);
    snic_put_be64(p + EBS_AT_PKT_ID, encode_2x32(encode_2x16(h->pkt_id, h->pkt_cnt), path));
    snic_put_be64(p + EBS_AT_PATH_SEQ, encode_2x32(h->path_seq, h->tx_ts));
    snic_put_be64(p + EBS_AT_ECHO_TS, encode_2x32(h->echo_ts, h->hold_ns));
    snic_put_be64(p + EBS_AT_ACK_SEQ, encode_2x32(h->ack_seq, h->srv_epoch));
    snic_put_be64(p + EBS_AT_STATUS, encode_2x32(status, 0));
    snic_put_be64(p + EBS_AT_PN, h->pn);
}

/* The fields that the rules check. */
static void encode_terms(struct ebs_terms *t, const struct snic_ebs_header *h, unsigned part)
{
    memset(t, 0, sizeof(*t));
    t->type = h->type;
    t->status = h->status;
    t->pkt_id = h->pkt_id;
    t->pkt_cnt = h->pkt_cnt;
    if (part == EBS_BLOCK) {
        t->lba = h->u.block.lba;
        t->need_mask = h->u.block.need_mask;
        t->blk_off = h->u.block.blk_off;
        t->blk_cnt = h->u.block.blk_cnt;
        t->op = h->u.block.op;
        t->block_log2 = h->u.block.block_log2 == 0 ? SNIC_EBS_BLOCK_LOG2 : h->u.block.block_log2;
    } else if (part == EBS_HELLO) {
        t->conn_id = h->u.hello.conn_id;
        t->ver_min = h->u.hello.ver_min;
        t->ver_max = h->u.hello.ver_max;
    } else if (part == EBS_RESET) {
        t->ver_min = h->u.reset.ver_min;
        t->ver_max = h->u.reset.ver_max;
    }
}

int snic_ebs_encode(void *out, size_t size, struct snic_ebs_place *place, unsigned direction,
                    const struct snic_ebs_header *header, const void *body, size_t body_size)
{
    unsigned char *p = (unsigned char *)out;
    const struct ebs_kind *k = ebs_kind_of(header->type, direction);
    unsigned char scope[8];
    uint32_t least;
    uint32_t most;
    struct snic_ebs_place at;
    struct ebs_terms t;

    if (k == NULL || direction > (SNIC_EBS_STREAM | SNIC_EBS_TO_CLIENT) ||
        (header->flags & SNIC_EBS_MUST & ~SNIC_EBS_MUST_KNOWN) != 0 ||
        ebs_flags_bad(header->flags, direction))
        return SNIC_EINVAL;
    encode_terms(&t, header, k->part);
    if (ebs_fields_bad(&t, k, direction))
        return SNIC_EINVAL;
    ebs_body_sizes(&t, k, direction, &least, &most);
    if (body_size < least || body_size > most)
        return SNIC_EINVAL;
    ebs_place(&at, ebs_header_size(k), header->flags, (uint32_t)body_size);
    int with_body = ebs_crc_has_body(k, header->flags, direction) && body_size > 0;
    if (with_body && body == NULL)
        return SNIC_EINVAL;
    if (size < at.body_at)
        return SNIC_ENOSPC;

    if (k->part != EBS_BLOCK || at.int_at != 0) /* a block's part has no gaps; I1 */
        memset(p + SNIC_EBS_RPC_BYTES, 0, at.body_at - SNIC_EBS_RPC_BYTES);
    encode_rpc(p, header, at.body_at);
    encode_part(p, k->part, header);
    snic_put_be64(scope, encode_2x32(header->conn_id, direction));
    uint32_t crc = snic_crc32c(snic_crc32c(0, scope, sizeof(scope)), p, at.header_size);
    if (with_body)
        crc = snic_crc32c(crc, body, body_size);
    snic_put_be32(p + EBS_AT_HDR_CRC, crc);
    if (place != NULL)
        *place = at;
    return (int)at.body_at;
}
