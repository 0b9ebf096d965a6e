/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * The rules of the format that encoder and decoder share, so that both accept the same packets.
 *
 * I1  The length of a packet follows from its type, its flags, and for some types from one more
 *     field; nothing in a packet is an offset.
 * I2  blk_off is lba modulo 512: a segment begins at a multiple of 512 blocks.
 */
#include "ebs/ebs_priv.h"

#define SNIC_EBS__UP 1u   /* to the server */
#define SNIC_EBS__DOWN 2u /* to the client */

static const struct ebs_kind ebs_kinds[SNIC_EBS_TYPE_END] = {
    [SNIC_EBS_WRITE] = {EBS_BLOCK, EBS_BODY_DATA, SNIC_EBS__UP},
    [SNIC_EBS_WACK] = {EBS_BLOCK, EBS_BODY_NONE, SNIC_EBS__DOWN},
    [SNIC_EBS_READ_REQ] = {EBS_BLOCK, EBS_BODY_SLOTS, SNIC_EBS__UP},
    [SNIC_EBS_READ_RESP] = {EBS_BLOCK, EBS_BODY_DATA, SNIC_EBS__DOWN},
    [SNIC_EBS_ACKV] = {EBS_NONE, EBS_BODY_ACKS, SNIC_EBS__UP | SNIC_EBS__DOWN},
    [SNIC_EBS_PROBE] = {EBS_PROBE, EBS_BODY_PADDING, SNIC_EBS__UP},
    [SNIC_EBS_PROBE_ACK] = {EBS_PROBE, EBS_BODY_PADDING, SNIC_EBS__DOWN},
    [SNIC_EBS_RESET] = {EBS_RESET, EBS_BODY_NONE, SNIC_EBS__UP | SNIC_EBS__DOWN},
    [SNIC_EBS_HELLO] = {EBS_HELLO, EBS_BODY_PADDING, SNIC_EBS__UP},
    [SNIC_EBS_HELLO_ACK] = {EBS_HELLO, EBS_BODY_PADDING, SNIC_EBS__DOWN},
    [SNIC_EBS_FENCE] = {EBS_BLOCK, EBS_BODY_NONE, SNIC_EBS__UP},
    [SNIC_EBS_FENCE_ACK] = {EBS_BLOCK, EBS_BODY_NONE, SNIC_EBS__DOWN},
    [SNIC_EBS_NAK] = {EBS_NAK, EBS_BODY_NONE, SNIC_EBS__DOWN},
    [SNIC_EBS_TOKEN] = {EBS_TOKEN, EBS_BODY_NONE, SNIC_EBS__UP},
};

const struct ebs_kind *ebs_kind_of(unsigned type, unsigned direction)
{
    if (type == 0 || type >= SNIC_EBS_TYPE_END)
        return NULL;
    const struct ebs_kind *k = &ebs_kinds[type];
    if ((k->directions >> (direction & SNIC_EBS_TO_CLIENT) & 1) == 0)
        return NULL;
    if ((direction & SNIC_EBS_STREAM) != 0 && type == SNIC_EBS_ACKV)
        return NULL;
    return k;
}

int ebs_flags_bad(unsigned flags, unsigned direction)
{
    unsigned both = SNIC_EBS_INT_REQ | SNIC_EBS_INT;

    if ((direction & SNIC_EBS_STREAM) != 0)
        return (flags & (both | SNIC_EBS_AUTH)) != 0;
    return (flags & both) == both;
}

/* The most blocks of one packet or frame. */
static uint32_t ebs_count_max(const struct ebs_terms *t, unsigned direction)
{
    if (t->type == SNIC_EBS_READ_REQ || (direction & SNIC_EBS_STREAM) != 0)
        return SNIC_EBS_RPC_BLOCKS;
    return t->op == SNIC_EBS_DATA ? 1 : SNIC_EBS_SEGMENT_BLOCKS;
}

static int ebs_block_bad(const struct ebs_terms *t, unsigned direction)
{
    if (t->block_log2 != SNIC_EBS_BLOCK_LOG2 || t->op >= SNIC_EBS_OP_END)
        return 1;
    if (t->type == SNIC_EBS_FENCE || t->type == SNIC_EBS_FENCE_ACK)
        return 0;
    if (t->pkt_cnt == 0 || t->pkt_cnt > SNIC_EBS_RPC_BLOCKS || t->pkt_id >= t->pkt_cnt)
        return 1;
    if (t->lba >= SNIC_EBS_LBA_END || t->blk_off != (t->lba & (SNIC_EBS_SEGMENT_BLOCKS - 1)))
        return 1; /* I2 */
    if (t->blk_cnt == 0 || t->blk_cnt > ebs_count_max(t, direction) ||
        t->blk_off + t->blk_cnt > SNIC_EBS_SEGMENT_BLOCKS)
        return 1;
    if (t->op == SNIC_EBS_STATES &&
        (t->type != SNIC_EBS_READ_REQ || t->blk_cnt != 1 || t->blk_off != 0))
        return 1;
    if (t->type != SNIC_EBS_READ_REQ || (direction & SNIC_EBS_STREAM) != 0)
        return 0;
    /* Bits of existing blocks, and not too many. */
    return (t->op != SNIC_EBS_DATA && t->op != SNIC_EBS_STATES) || t->pkt_cnt != t->blk_cnt ||
           t->need_mask == 0 || (t->blk_cnt < 64 && t->need_mask >> t->blk_cnt != 0) ||
           __builtin_popcountll(t->need_mask) > SNIC_EBS_READ_BLOCKS;
}

int ebs_fields_bad(const struct ebs_terms *t, const struct ebs_kind *k, unsigned direction)
{
    if (k->part == EBS_BLOCK)
        return ebs_block_bad(t, direction);
    if (k->body == EBS_BODY_ACKS)
        return t->pkt_cnt == 0 || t->pkt_cnt > SNIC_EBS_ACKS;
    if (k->part == EBS_HELLO)
        return t->ver_min == 0 || t->ver_min > t->ver_max || t->ver_max > 15 || t->conn_id == 0;
    if (k->part == EBS_RESET)
        return t->ver_min > t->ver_max || t->ver_max > 15;
    return 0;
}

void ebs_body_sizes(const struct ebs_terms *t, const struct ebs_kind *k, unsigned direction,
                    uint32_t *least, uint32_t *most)
{
    uint32_t size = 0;
    int stream = (direction & SNIC_EBS_STREAM) != 0;

    *least = 0;
    if (k->body == EBS_BODY_DATA && t->op == SNIC_EBS_DATA &&
        (t->type == SNIC_EBS_WRITE || t->status == SNIC_EBS_OK))
        size = stream ? t->blk_cnt * (4u + SNIC_EBS_BLOCK_BYTES) : SNIC_EBS_BLOCK_BYTES;
    else if (k->body == EBS_BODY_ACKS)
        size = t->pkt_cnt * (uint32_t)SNIC_EBS_ACK_BYTES;
    else if (k->body == EBS_BODY_SLOTS && !stream)
        size = (uint32_t)__builtin_popcountll(t->need_mask) * SNIC_EBS_SLOT_BYTES;
    *most = size;
    if (k->body == EBS_BODY_PADDING)
        *most = stream ? 0 : SNIC_EBS_BLOCK_BYTES;
    else
        *least = size;
}

void ebs_place(struct snic_ebs_place *p, uint32_t header_size, unsigned flags, uint32_t body_size)
{
    p->header_size = header_size;
    p->int_at = 0;
    p->body_at = header_size;
    if ((flags & (SNIC_EBS_INT_REQ | SNIC_EBS_INT)) != 0) {
        p->int_at = header_size;
        p->body_at += SNIC_EBS_INT_BYTES;
    }
    p->body_size = body_size;
    p->tag_at = 0;
    p->size = p->body_at + body_size;
    if ((flags & SNIC_EBS_AUTH) != 0) {
        p->tag_at = p->size;
        p->size += SNIC_EBS_TAG_BYTES;
    }
}
