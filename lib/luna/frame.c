/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * Frames in and out, as far as both sides share the code: sends and their pool, and the header of a
 * frame, assembled from the pieces in which it is received.
 *
 * A send's headers are contiguous in its memory, so that frames without blocks are one piece
 * however many they are.
 */
#include "luna/luna_priv.h"

SNIC_STATIC_ASSERT(SNIC_LUNA__BLOCKS == SNIC_EBS_RPC_BLOCKS, "a whole RPC fits in a send");

/* ---- Out ---- */

void luna_pool_init(struct luna_pool *p, struct luna_out *outs, unsigned char *cipher, uint32_t max)
{
    memset(p, 0, sizeof(*p));
    p->outs = outs;
    p->p.max = max;
    for (uint32_t i = max; i-- > 0;) {
        outs[i].s.index = i;
        outs[i].cipher =
            cipher == NULL ? NULL : cipher + (size_t)i * SNIC_LUNA__CIPHERS * SNIC_EBS_BLOCK_BYTES;
        snic_link_init(&outs[i].lent);
        ebs_pool_free(&p->p, &outs[i].s.node);
    }
}

struct luna_out *luna_out_take(struct luna_pool *p)
{
    struct snic_node *n = ebs_pool_take(&p->p);
    if (n == NULL)
        return NULL;
    struct luna_out *o = SNIC_CONTAINER(n, struct luna_out, s.node);
    o->s.iov = o->iov;
    o->s.iov_count = 0;
    o->s.bytes = 0;
    o->s.frames = 0;
    o->s.cookie = 0;
    o->s.state = EBS_LENT_BUILT;
    o->head_used = 0;
    o->blocks = 0;
    o->ciphers = 0;
    o->last = 0;
    return o;
}

void luna_out_queue(struct luna_pool *p, struct luna_out *o)
{
    SNIC_ASSERT(o->s.iov_count > 0);
    o->s.state = EBS_LENT_QUEUED;
    ebs_pool_queue(&p->p, &o->s.node);
}

struct luna_out *luna_out_next(struct luna_pool *p)
{
    struct snic_node *n = ebs_pool_next(&p->p);
    if (n == NULL)
        return NULL;
    struct luna_out *o = SNIC_CONTAINER(n, struct luna_out, s.node);
    o->s.state = EBS_LENT_OUT;
    return o;
}

void luna_out_free(struct luna_pool *p, struct luna_out *o)
{
    SNIC_ASSERT(o->s.state == EBS_LENT_OUT || o->s.state == EBS_LENT_BUILT);
    o->s.state = EBS_LENT_FREE;
    ebs_pool_free(&p->p, &o->s.node);
}

void luna_out_bytes(struct luna_out *o, const void *data, size_t size)
{
    struct snic_iov *last = o->s.iov_count > 0 ? &o->iov[o->s.iov_count - 1] : NULL;
    o->s.bytes += (uint32_t)size;
    if (last != NULL && (const unsigned char *)last->base + last->size == data) {
        last->size += size;
        return;
    }
    SNIC_ASSERT(o->s.iov_count < SNIC_LUNA_IOV_MAX);
    uintptr_t bytes = (uintptr_t)data; /* a sender only reads it, but an iovec is not const */
    o->iov[o->s.iov_count].base = (void *)bytes;
    o->iov[o->s.iov_count++].size = size;
}

void luna_out_frame(struct luna_out *o, unsigned direction, const struct snic_ebs_header *h,
                    const uint32_t *list)
{
    uint32_t count = list == NULL ? 0 : h->u.block.blk_cnt;
    uint32_t size = SNIC_EBS_HEADER_BYTES + 4 * count;
    unsigned char *p = o->head + o->head_used;
    SNIC_ASSERT(o->s.frames < SNIC_LUNA_FRAMES_MAX && o->blocks + count <= SNIC_LUNA__BLOCKS);
    SNIC_ASSERT(o->head_used + size <= sizeof(o->head));
    for (uint32_t i = 0; i < count; i++)
        snic_put_be32(p + SNIC_EBS_HEADER_BYTES + (size_t)4 * i, list[i]);
    int n = snic_ebs_encode(p, SNIC_EBS_HEADER_BYTES, NULL, direction, h, NULL,
                            (size_t)count * (4 + SNIC_EBS_BLOCK_BYTES));
    SNIC_ASSERT(n == SNIC_EBS_HEADER_BYTES);
    luna_out_bytes(o, p, size);
    o->head_used += size;
    o->blocks += count;
    o->rpc[o->s.frames] = NULL;
    o->held[o->s.frames] = SNIC_LUNA__NONE;
    o->s.frames++;
}

int luna_pool_check(const struct luna_pool *p)
{
    uint32_t states[EBS_LENT_STATES] = {0, 0, 0, 0};
    for (uint32_t i = 0; i < p->p.max; i++) {
        const struct luna_out *o = &p->outs[i];
        size_t bytes = 0;
        if (o->s.state >= EBS_LENT_STATES || o->s.index != i)
            return SNIC_ECORRUPT;
        states[o->s.state]++;
        for (uint32_t k = 0; o->s.state != EBS_LENT_FREE && k < o->s.iov_count; k++)
            bytes += o->iov[k].size;
        if (o->s.state != EBS_LENT_FREE && (bytes != o->s.bytes || o->s.frames == 0))
            return SNIC_ECORRUPT;
    }
    return states[EBS_LENT_BUILT] == 0 ? ebs_pool_check(&p->p, states) : SNIC_ECORRUPT;
}

/* ---- In ---- */

int luna_in_gather(struct luna_in *in, unsigned char *into, uint32_t want,
                   const unsigned char **data, size_t *size)
{
    uint32_t take = (uint32_t)snic_min_u64(want - in->have, *size);
    if (take > 0)
        memcpy(into + in->have, *data, take);
    in->have += take;
    *data += take;
    *size -= take;
    return in->have == want;
}

int luna_in_head(struct luna_in *in, unsigned direction, const unsigned char **data, size_t *size)
{
    const unsigned char *head = in->head;
    if (in->have == 0 && *size >= SNIC_EBS_HEADER_BYTES) {
        head = *data; /* complete: no copy is needed to decode it */
        *data += SNIC_EBS_HEADER_BYTES;
        *size -= SNIC_EBS_HEADER_BYTES;
    } else if (!luna_in_gather(in, in->head, SNIC_EBS_HEADER_BYTES, data, size)) {
        return 0;
    }
    in->have = 0;
    in->done = 0;
    int r = snic_ebs_decode(&in->h, &in->place, direction, head, SNIC_EBS_HEADER_BYTES);
    if (r == SNIC_EVERSION)
        in->version = head[0] >> 4;
    if (r != 0)
        return r;
    /* A gap, or a frame of another stream. */
    if (in->h.path_seq != in->seq + 1)
        return SNIC_EPROTO;
    in->seq++;
    return 1;
}

int luna_in_list_good(const struct luna_in *in)
{
    const struct snic_ebs_block *b = &in->h.u.block;
    uint32_t agg = 0;
    for (uint32_t i = 0; i < b->blk_cnt; i++)
        agg = snic_ebs_agg_add(agg, snic_get_be32(in->list + (size_t)4 * i));
    return agg == b->agg_crc && snic_crc32c(0, in->list, (size_t)4 * b->blk_cnt) == b->data_crc;
}
