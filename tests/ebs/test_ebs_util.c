/* SPDX-License-Identifier: Apache-2.0 OR MIT */
#include "test_ebs_util.h"

const unsigned char ebs_sample_token[SNIC_EBS_TOKEN_BYTES] = {
    0x01, 0x05, 0x00, 0x00, 0x00, 0x00, 0x51, 0x67, 0x01, 0x02, 0x03, 0x04, 0x05, 0x06, 0x07, 0x08,
    0x00, 0x03, 0x00, 0x00, 0xac, 0xc0, 0x00, 0x01, 0x00, 0x00, 0x00, 0x00, 0x6f, 0x5e, 0x4d, 0x3c,
    0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00,
    0x97, 0x81, 0xd3, 0x5a, 0x42, 0xd8, 0x2f, 0x82, 0x71, 0xc3, 0xd1, 0x09, 0x46, 0x82, 0xb8, 0xa3,
};

unsigned ebs_way(unsigned type)
{
    switch (type) {
    case SNIC_EBS_WRITE:
    case SNIC_EBS_READ_REQ:
    case SNIC_EBS_PROBE:
    case SNIC_EBS_HELLO:
    case SNIC_EBS_FENCE:
    case SNIC_EBS_TOKEN:
        return SNIC_EBS_TO_SERVER;
    default:
        return SNIC_EBS_TO_CLIENT;
    }
}

static void sample_block(struct snic_ebs_header *h, unsigned type)
{
    struct snic_ebs_block *b = &h->u.block;
    int fence = type == SNIC_EBS_FENCE || type == SNIC_EBS_FENCE_ACK;

    b->vd_id = UINT64_C(0x0102030405060708);
    b->seg_id = UINT64_C(0xf1f2f3f4f5f6f7f8);
    b->lba = fence ? 0 : UINT64_C(0x1122334455);
    b->blk_off = fence ? 0 : 0x55;
    b->blk_cnt = fence ? 0 : type == SNIC_EBS_READ_REQ ? 9 : 1;
    b->block_log2 = 12;
    b->tenant = 0xbeef;
    b->wver = UINT64_C(0x0003000000000777);
    b->seg_gen = 0xcafe;
    b->data_crc = fence || type == SNIC_EBS_READ_REQ ? 0 : 0xed96b643;
    b->bind_crc = snic_ebs_bind_crc(b);
    b->agg_crc = 0x76543210;
    b->need_mask = type == SNIC_EBS_READ_REQ ? 0x103 : 0;
    b->srv_crc = type == SNIC_EBS_WACK ? 0x0badf00d : 0;
    if (type == SNIC_EBS_WRITE || type == SNIC_EBS_READ_RESP)
        b->block_tag = 0xaabbccdd;
    if (type == SNIC_EBS_READ_RESP) {
        b->addr_slot = 0x1234;
        b->addr_gen = 0x5678;
    }
}

static void sample_hello(struct snic_ebs_hello *h, unsigned type)
{
    h->ver_min = 1;
    h->ver_max = 2;
    h->conn_id = 0xfeedface;
    h->features = 0xf;
    h->nonce = UINT64_C(0x0f1e2d3c4b5a6978);
    h->reset_token = UINT64_C(0x8877665544332211);
    h->epoch = type == SNIC_EBS_HELLO ? 7 : 0;
    h->payload_max = 4320;
    h->client_id = UINT64_C(0x1020304050607080);
    h->key_id = 0x99;
    h->proof = UINT64_C(0x0ddc0ffeebadf00d);
    if (type == SNIC_EBS_HELLO)
        h->account = 0xacc00001;
    else
        h->key_nonce = UINT64_C(0x5eed000000000002);
}

static void sample_part(struct snic_ebs_header *h, unsigned type)
{
    switch (type) {
    case SNIC_EBS_HELLO:
    case SNIC_EBS_HELLO_ACK:
        sample_hello(&h->u.hello, type);
        break;
    case SNIC_EBS_RESET:
        h->u.reset.token = UINT64_C(0x8877665544332211);
        h->u.reset.ver_min = 1;
        h->u.reset.ver_max = 3;
        h->u.reset.retry_us = 2500;
        h->status = SNIC_EBS_NO_CONN;
        break;
    case SNIC_EBS_PROBE:
    case SNIC_EBS_PROBE_ACK:
        h->u.probe.probe_bytes = 224;
        h->u.probe.nonce = UINT64_C(0x0f1e2d3c4b5a6978);
        h->u.probe.proof = UINT64_C(0x0ddc0ffeebadf00d);
        h->u.probe.key_id = 0x99;
        h->u.probe.account = 0xacc00001;
        break;
    case SNIC_EBS_NAK:
        h->u.nak.retry_us = 1500;
        h->u.nak.bad_flags = 0x8000;
        h->u.nak.proof = UINT64_C(0x0ddc0ffeebadf00d);
        h->status = SNIC_EBS_BUSY;
        break;
    case SNIC_EBS_TOKEN:
        memcpy(h->u.token, ebs_sample_token, sizeof(h->u.token));
        break;
    case SNIC_EBS_ACKV:
        h->pkt_id = 0;
        h->pkt_cnt = 2;
        break;
    default:
        sample_block(h, type);
        break;
    }
}

void ebs_sample(struct snic_ebs_header *h, unsigned type)
{
    memset(h, 0, sizeof(*h));
    h->type = (uint8_t)type;
    h->conn_id = 0xc0ffee01;
    h->rpc_id = UINT64_C(0x0007000000000123);
    h->pkt_id = 5;
    h->pkt_cnt = 9;
    h->path_id = 3;
    h->path_gen = 0xfe;
    h->attempt = 2;
    h->credit = 0x15;
    h->path_seq = 0x11223344;
    h->tx_ts = 0x55667788;
    h->echo_ts = 0x99aabbcc;
    h->hold_ns = 0xfffe;
    h->ack_seq = 0x22334455;
    h->srv_epoch = 0x66778899;
    h->ack_path_id = 1;
    h->ack_path_gen = 0xfd;
    h->pn = UINT64_C(0x00000001deadbeef);
    if (type == SNIC_EBS_WRITE)
        h->flags = SNIC_EBS_FUA | SNIC_EBS_RETX | SNIC_EBS_INT_REQ | SNIC_EBS_XTS;
    else if (type == SNIC_EBS_WACK)
        h->flags = SNIC_EBS_DUP | SNIC_EBS_CE_ECHO;
    else if (type == SNIC_EBS_READ_RESP)
        h->flags = SNIC_EBS_LAST_PKT;
    else if (type == SNIC_EBS_FENCE_ACK)
        h->status = SNIC_EBS_STALE_GEN;
    sample_part(h, type);
}

uint32_t ebs_sample_body(unsigned char *body, unsigned type)
{
    memset(body, 0, SNIC_EBS_BLOCK_BYTES);
    switch (type) {
    case SNIC_EBS_WRITE:
    case SNIC_EBS_READ_RESP:
        for (unsigned i = 0; i < SNIC_EBS_BLOCK_BYTES; i++)
            body[i] = (unsigned char)(i * 7 + 3);
        return SNIC_EBS_BLOCK_BYTES;
    case SNIC_EBS_READ_REQ:
        snic_ebs_slot_put(body, 0, 1, 2);
        snic_ebs_slot_put(body, 1, 0x300, 4);
        snic_ebs_slot_put(body, 2, 0xffff, 0x8001);
        return 12;
    case SNIC_EBS_ACKV:
        for (unsigned i = 0; i < 2; i++) {
            struct snic_ebs_ack a = {.rpc_id = UINT64_C(0x0007000000000123) + i,
                                     .pkt_id = (uint16_t)(5 + i),
                                     .status = (uint16_t)i,
                                     .path_seq = 0x11223344 + i,
                                     .echo_ts = 0x55667788 + i,
                                     .hold_ns = 0x100 + i,
                                     .srv_crc = 0x0badf00d + i,
                                     .path_id = (uint8_t)(3 + i),
                                     .path_gen = 0xfe,
                                     .flags = (uint16_t)(i << 9)};
            snic_ebs_ack_put(body, i, &a);
        }
        return 64;
    case SNIC_EBS_PROBE:
    case SNIC_EBS_PROBE_ACK:
        return 96;
    case SNIC_EBS_HELLO:
    case SNIC_EBS_HELLO_ACK:
        return 64;
    default:
        return 0;
    }
}

uint32_t ebs_sample_packet(unsigned char *out, unsigned type, struct snic_ebs_place *place)
{
    static unsigned char body[SNIC_EBS_BLOCK_BYTES];
    struct snic_ebs_header h;
    uint32_t size = ebs_sample_body(body, type);

    ebs_sample(&h, type);
    int r = snic_ebs_encode(out, SNIC_EBS_PACKET_BYTES, place, ebs_way(type), &h, body, size);
    if (r < 0)
        return 0;
    memcpy(out + r, body, size);
    return (uint32_t)r + size;
}

void ebs_forge(unsigned char *packet, const struct snic_ebs_place *place, unsigned direction)
{
    unsigned char scope[8];
    unsigned type = packet[1];

    memcpy(scope, packet + 4, 4);
    snic_put_be32(scope + 4, direction);
    snic_put_be32(packet + 52, 0);
    uint32_t crc = snic_crc32c(0, scope, 8);
    crc = snic_crc32c(crc, packet, place->header_size);
    if (type != SNIC_EBS_WRITE && type != SNIC_EBS_READ_RESP && place->tag_at == 0 &&
        (direction & SNIC_EBS_STREAM) == 0)
        crc = snic_crc32c(crc, packet + place->body_at, place->body_size);
    snic_put_be32(packet + 52, crc);
}
