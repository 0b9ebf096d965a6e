/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * A header, from the struct to the wire.
 *
 * I1  All bytes in front of the body are written: nothing that was in memory before is sent.
 * I2  Nothing is written before everything has been checked.
 */
#include "ebs/ebs_priv.h"

void ebs_put_bound(unsigned char *at64, const struct snic_ebs_block *b)
{
    unsigned char *p = at64 - SNIC_EBS_RPC_BYTES;

    snic_put_be64(p + EBS_AT_VD_ID, b->vd_id);
    snic_put_be64(p + EBS_AT_SEG_ID, b->seg_id);
    snic_put_be16(p + EBS_AT_BLK_OFF, b->blk_off);
    snic_put_be16(p + EBS_AT_BLK_CNT, b->blk_cnt);
    p[EBS_AT_BLOCK_LOG2] = SNIC_EBS_BLOCK_LOG2; /* what 0 stands for */
    p[EBS_AT_OP] = b->op;
    snic_put_be16(p + EBS_AT_TENANT, b->tenant);
    snic_put_be64(p + EBS_AT_LBA, b->lba);
    snic_put_be64(p + EBS_AT_WVER, b->wver);
    snic_put_be32(p + EBS_AT_SEG_GEN, b->seg_gen);
    snic_put_be32(p + EBS_AT_DATA_CRC, b->data_crc);
}

static void encode_block(unsigned char *p, unsigned type, const struct snic_ebs_block *b)
{
    ebs_put_bound(p + SNIC_EBS_RPC_BYTES, b);
    snic_put_be32(p + EBS_AT_BIND_CRC, b->bind_crc);
    snic_put_be32(p + EBS_AT_AGG_CRC, b->agg_crc);
    snic_put_be64(p + EBS_AT_BY_TYPE, 0);
    if (type == SNIC_EBS_WRITE) {
        snic_put_be32(p + EBS_AT_BY_TYPE, b->guest_crc);
    } else if (type == SNIC_EBS_WACK) {
        snic_put_be32(p + EBS_AT_BY_TYPE, b->srv_crc);
    } else if (type == SNIC_EBS_READ_REQ) {
        snic_put_be64(p + EBS_AT_BY_TYPE, b->need_mask);
    } else if (type == SNIC_EBS_READ_RESP) {
        snic_put_be16(p + EBS_AT_BY_TYPE, b->addr_slot);
        snic_put_be16(p + EBS_AT_BY_TYPE + 2, b->addr_gen);
        snic_put_be32(p + EBS_AT_RESP_GUEST_CRC, b->guest_crc);
    }
}

static void encode_hello(unsigned char *p, const struct snic_ebs_hello *h)
{
    p[EBS_AT_HELLO_VER_MIN] = h->ver_min;
    p[EBS_AT_HELLO_VER_MAX] = h->ver_max;
    snic_put_be32(p + EBS_AT_HELLO_CONN_ID, h->conn_id);
    snic_put_be64(p + EBS_AT_HELLO_FEATURES, h->features);
    snic_put_be64(p + EBS_AT_HELLO_NONCE, h->nonce);
    snic_put_be64(p + EBS_AT_HELLO_TOKEN, h->reset_token);
    snic_put_be32(p + EBS_AT_HELLO_EPOCH, h->epoch);
    snic_put_be32(p + EBS_AT_HELLO_PAYLOAD, h->payload_max);
    snic_put_be64(p + EBS_AT_HELLO_CLIENT, h->client_id);
    snic_put_be32(p + EBS_AT_HELLO_KEY, h->key_id);
}

/* Bytes 64 ... 127, which are 0 so far where the part is not a block's. */
static void encode_part(unsigned char *p, unsigned part, const struct snic_ebs_header *h)
{
    if (part == EBS_BLOCK) {
        encode_block(p, h->type, &h->u.block);
    } else if (part == EBS_HELLO) {
        encode_hello(p, &h->u.hello);
    } else if (part == EBS_RESET) {
        snic_put_be64(p + EBS_AT_RESET_TOKEN, h->u.reset.token);
        p[EBS_AT_RESET_VER_MIN] = h->u.reset.ver_min;
        p[EBS_AT_RESET_VER_MAX] = h->u.reset.ver_max;
        snic_put_be32(p + EBS_AT_RESET_RETRY, h->u.reset.retry_us);
    } else if (part == EBS_PROBE) {
        snic_put_be32(p + EBS_AT_PROBE_BYTES, h->u.probe.probe_bytes);
        snic_put_be64(p + EBS_AT_PROBE_NONCE, h->u.probe.nonce);
    } else if (part == EBS_NAK) {
        snic_put_be32(p + EBS_AT_NAK_RETRY, h->u.nak.retry_us);
        snic_put_be16(p + EBS_AT_NAK_FLAGS, h->u.nak.bad_flags);
    }
}

static void encode_rpc(unsigned char *p, const struct snic_ebs_header *h, uint32_t body_at)
{
    p[EBS_AT_VERSION] = ebs_first_byte(body_at);
    p[EBS_AT_TYPE] = h->type;
    snic_put_be16(p + EBS_AT_FLAGS, h->flags);
    snic_put_be32(p + EBS_AT_CONN_ID, h->conn_id);
    snic_put_be64(p + EBS_AT_RPC_ID, h->rpc_id);
    snic_put_be16(p + EBS_AT_PKT_ID, h->pkt_id);
    snic_put_be16(p + EBS_AT_PKT_CNT, h->pkt_cnt);
    p[EBS_AT_PATH_ID] = h->path_id;
    p[EBS_AT_PATH_GEN] = h->path_gen;
    p[EBS_AT_ATTEMPT] = h->attempt;
    p[EBS_AT_CREDIT] = h->credit;
    snic_put_be32(p + EBS_AT_PATH_SEQ, h->path_seq);
    snic_put_be32(p + EBS_AT_TX_TS, h->tx_ts);
    snic_put_be32(p + EBS_AT_ECHO_TS, h->echo_ts);
    snic_put_be32(p + EBS_AT_HOLD_NS, h->hold_ns);
    snic_put_be32(p + EBS_AT_ACK_SEQ, h->ack_seq);
    snic_put_be32(p + EBS_AT_SRV_EPOCH, h->srv_epoch);
    snic_put_be16(p + EBS_AT_STATUS, h->status);
    p[EBS_AT_ACK_PATH_ID] = h->ack_path_id;
    p[EBS_AT_ACK_PATH_GEN] = h->ack_path_gen;
    snic_put_be32(p + EBS_AT_HDR_CRC, 0);
    snic_put_be64(p + EBS_AT_PN, h->pn);
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

    if (k == NULL || direction > (SNIC_EBS_STREAM | SNIC_EBS_TO_CLIENT) ||
        (header->flags & SNIC_EBS_MUST & ~SNIC_EBS_MUST_KNOWN) != 0 ||
        ebs_flags_bad(header->flags, direction) || ebs_fields_bad(header, k, direction))
        return SNIC_EINVAL;
    ebs_body_sizes(header, k, direction, &least, &most);
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
    snic_put_be32(scope, header->conn_id);
    snic_put_be32(scope + 4, direction);
    uint32_t crc = snic_crc32c(snic_crc32c(0, scope, sizeof(scope)), p, at.header_size);
    if (with_body)
        crc = snic_crc32c(crc, body, body_size);
    snic_put_be32(p + EBS_AT_HDR_CRC, crc);
    if (place != NULL)
        *place = at;
    return (int)at.body_at;
}
