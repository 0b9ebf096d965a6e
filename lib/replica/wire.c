/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * Bytes on the wire and of the membership file: FORMAT.md.
 *
 * A packet that is wrong anywhere in its framing is dropped whole; a message that is wrong is left
 * to the engines, which check its fields, if it can be represented at all.
 */
#include "replica_priv.h"

#define REPLICA_MAGIC 0x5244
#define REPLICA_WIRE_VERSION 2
#define REPLICA_RECORD_VERSION 1

SNIC_STATIC_ASSERT(sizeof(struct snic_ddp_msg) == 80, "the wire has every field of it");
SNIC_STATIC_ASSERT(sizeof(struct snic_member_msg) == SNIC_REPLICA__MEMBER, "and of this");
SNIC_STATIC_ASSERT(sizeof(struct snic_member_record) == SNIC_REPLICA__RECORD - 12, "and this");

/* Does it have a value, that is, a handle and bytes? */
int replica_carries(const struct snic_ddp_msg *m)
{
    return (m->type == SNIC_DDP_INV || m->type == SNIC_DDP_NACK || m->type == SNIC_DDP_RECORD) &&
           (m->flags & SNIC_DDP_MSG_TOMBSTONE) == 0;
}

/* The header of a packet of @p size bytes, whose frames are there. */
void replica_put_packet(unsigned char *p, uint32_t size, uint32_t src, uint64_t cluster)
{
    snic_put_le16(p + 4, REPLICA_MAGIC);
    p[6] = REPLICA_WIRE_VERSION;
    p[7] = (unsigned char)src;
    snic_put_le64(p + 8, cluster);
    snic_put_le32(p, snic_crc32c(0, p + 4, size - 4));
}

/* 0; SNIC_EPROTO no packet of this cluster; SNIC_EVERSION; SNIC_ECORRUPT. */
int replica_get_packet(const unsigned char *p, size_t size, uint64_t cluster, uint32_t *src)
{
    if (size < SNIC_REPLICA__PACKET || snic_get_le16(p + 4) != REPLICA_MAGIC)
        return SNIC_EPROTO;
    if (p[6] != REPLICA_WIRE_VERSION)
        return SNIC_EVERSION;
    if (snic_get_le32(p) != snic_crc32c(0, p + 4, size - 4))
        return SNIC_ECORRUPT;
    if (p[7] >= SNIC_DDP_NODES_MAX || snic_get_le64(p + 8) != cluster)
        return SNIC_EPROTO;
    *src = p[7];
    return 0;
}

void replica_put_frame(unsigned char *p, uint32_t kind, uint32_t size)
{
    p[0] = (unsigned char)kind;
    p[1] = 0;
    snic_put_le16(p + 2, (uint16_t)size);
}

/* The next part, from *at on (16: the first): 1; 0 at the end; SNIC_EPROTO. */
int replica_get_part(const unsigned char *p, size_t size, size_t *at, struct replica_part *out)
{
    if (*at == size)
        return 0;
    if (size - *at < SNIC_REPLICA__FRAME)
        return SNIC_EPROTO;
    const unsigned char *f = p + *at;
    uint32_t length = snic_get_le16(f + 2);
    if (f[0] < REPLICA_DDP || f[0] > REPLICA_PIECE || f[1] != 0 ||
        length > size - *at - SNIC_REPLICA__FRAME)
        return SNIC_EPROTO;
    out->kind = f[0];
    out->size = length;
    out->data = f + SNIC_REPLICA__FRAME;
    *at += SNIC_REPLICA__FRAME + length;
    return 1;
}

/* ---- The data path ---- */

void replica_put_ddp(unsigned char *p, const struct snic_ddp_msg *m)
{
    p[0] = m->type;
    p[1] = m->flags;
    p[2] = m->src;
    p[3] = m->dst;
    snic_put_le32(p + 4, m->epoch);
    snic_put_le32(p + 8, m->src_incarnation);
    snic_put_le32(p + 12, m->dst_incarnation);
    snic_put_le64(p + 16, m->key.w[0]);
    snic_put_le64(p + 24, m->key.w[1]);
    snic_put_le64(p + 32, m->ts);
    snic_put_le64(p + 40, m->scope);
    snic_put_le32(p + 48, m->length);
    snic_put_le32(p + 52, m->index);
    snic_put_le64(p + 56, m->seen[0]);
    snic_put_le64(p + 64, m->seen[1]);
}

/* The value's bytes stay where they are; the message has no handle yet. */
int replica_get_ddp(const unsigned char *p, size_t size, uint32_t value_max, struct snic_ddp_msg *m,
                    const unsigned char **value)
{
    struct snic_ddp_msg x;
    if (size < SNIC_REPLICA__DDP)
        return SNIC_EPROTO;
    memset(&x, 0, sizeof(x));
    x.type = p[0];
    x.flags = p[1];
    x.src = p[2];
    x.dst = p[3];
    x.epoch = snic_get_le32(p + 4);
    x.src_incarnation = snic_get_le32(p + 8);
    x.dst_incarnation = snic_get_le32(p + 12);
    x.key.w[0] = snic_get_le64(p + 16);
    x.key.w[1] = snic_get_le64(p + 24);
    x.ts = snic_get_le64(p + 32);
    x.scope = snic_get_le64(p + 40);
    x.length = snic_get_le32(p + 48);
    x.index = snic_get_le32(p + 52);
    x.seen[0] = snic_get_le64(p + 56);
    x.seen[1] = snic_get_le64(p + 64);
    size_t bytes = replica_carries(&x) ? x.length : 0;
    if (x.type < SNIC_DDP_INV || x.type > SNIC_DDP_PURGE || bytes > value_max ||
        size != SNIC_REPLICA__DDP + bytes)
        return SNIC_EPROTO;
    *m = x;
    *value = p + SNIC_REPLICA__DDP;
    return 0;
}

/* ---- The membership ---- */

static unsigned char *replica_put_view(unsigned char *p, const struct snic_member_view *v)
{
    snic_put_le32(p, v->epoch);
    snic_put_le16(p + 4, v->full);
    snic_put_le16(p + 6, v->learners);
    snic_put_le32(p + 8, v->donor);
    snic_put_le32(p + 12, v->restart);
    for (uint32_t n = 0; n < SNIC_MEMBER_NODES_MAX; n++)
        snic_put_le32(p + 16 + 4 * n, v->incarnation[n]);
    return p + 16 + 4 * SNIC_MEMBER_NODES_MAX;
}

static const unsigned char *replica_get_view(const unsigned char *p, struct snic_member_view *v)
{
    v->epoch = snic_get_le32(p);
    v->full = snic_get_le16(p + 4);
    v->learners = snic_get_le16(p + 6);
    v->donor = snic_get_le32(p + 8);
    v->restart = snic_get_le32(p + 12);
    for (uint32_t n = 0; n < SNIC_MEMBER_NODES_MAX; n++)
        v->incarnation[n] = snic_get_le32(p + 16 + 4 * n);
    return p + 16 + 4 * SNIC_MEMBER_NODES_MAX;
}

void replica_put_member(unsigned char *p, const struct snic_member_msg *m)
{
    p[0] = m->type;
    p[1] = m->src;
    snic_put_le16(p + 2, m->hears);
    snic_put_le16(p + 4, m->configured);
    snic_put_le16(p + 6, m->witness);
    snic_put_le32(p + 8, m->flags);
    snic_put_le32(p + 12, m->epoch);
    snic_put_le32(p + 16, m->src_incarnation);
    snic_put_le32(p + 20, m->dst_incarnation);
    snic_put_le64(p + 24, m->seq);
    snic_put_le64(p + 32, m->ballot);
    snic_put_le64(p + 40, m->accepted);
    snic_put_le64(p + 48, m->lease_ns);
    (void)replica_put_view(p + 56, &m->view);
}

int replica_get_member(const unsigned char *p, size_t size, struct snic_member_msg *m)
{
    if (size != SNIC_REPLICA__MEMBER)
        return SNIC_EPROTO;
    memset(m, 0, sizeof(*m));
    m->type = p[0];
    m->src = p[1];
    m->hears = snic_get_le16(p + 2);
    m->configured = snic_get_le16(p + 4);
    m->witness = snic_get_le16(p + 6);
    m->flags = snic_get_le32(p + 8);
    m->epoch = snic_get_le32(p + 12);
    m->src_incarnation = snic_get_le32(p + 16);
    m->dst_incarnation = snic_get_le32(p + 20);
    m->seq = snic_get_le64(p + 24);
    m->ballot = snic_get_le64(p + 32);
    m->accepted = snic_get_le64(p + 40);
    m->lease_ns = snic_get_le64(p + 48);
    (void)replica_get_view(p + 56, &m->view);
    return 0;
}

/* ---- Pieces ---- */

void replica_put_cut(unsigned char *p, const struct replica_cut *c)
{
    snic_put_le32(p, c->crc);
    snic_put_le32(p + 4, c->total);
    snic_put_le32(p + 8, c->offset);
}

/* Of a frame of @p size bytes, its header and the rest. */
int replica_get_cut(const unsigned char *p, size_t size, uint32_t whole_max,
                    struct replica_cut *out)
{
    if (size <= SNIC_REPLICA__PIECE)
        return SNIC_EPROTO;
    struct replica_cut c = {snic_get_le32(p), snic_get_le32(p + 4), snic_get_le32(p + 8)};
    uint64_t length = size - SNIC_REPLICA__PIECE;
    if (c.total > whole_max || c.offset % SNIC_REPLICA__GRAIN != 0 || c.offset + length > c.total ||
        (length % SNIC_REPLICA__GRAIN != 0 && c.offset + length != c.total))
        return SNIC_EPROTO;
    *out = c;
    return 0;
}

/* ---- The membership's record, in the log's meta slot ---- */

void replica_put_record(unsigned char *p, const struct snic_member_record *r)
{
    snic_put_le32(p + 4, REPLICA_RECORD_VERSION);
    snic_put_le32(p + 8, SNIC_REPLICA__RECORD);
    snic_put_le32(p + 12, r->flags);
    snic_put_le32(p + 16, r->incarnation);
    snic_put_le32(p + 20, r->since);
    snic_put_le32(p + 24, r->pad);
    snic_put_le64(p + 28, r->promised);
    snic_put_le64(p + 36, r->accepted);
    unsigned char *q = replica_put_view(p + 44, &r->decided);
    (void)replica_put_view(q, &r->proposal);
    snic_put_le32(p, snic_crc32c(0, p + 4, SNIC_REPLICA__RECORD - 4));
}

int replica_get_record(const unsigned char *p, size_t size, struct snic_member_record *r)
{
    if (size < SNIC_REPLICA__RECORD)
        return SNIC_EPROTO;
    if (snic_get_le32(p) != snic_crc32c(0, p + 4, SNIC_REPLICA__RECORD - 4))
        return SNIC_ECORRUPT;
    if (snic_get_le32(p + 4) != REPLICA_RECORD_VERSION ||
        snic_get_le32(p + 8) != SNIC_REPLICA__RECORD)
        return SNIC_EVERSION;
    memset(r, 0, sizeof(*r));
    r->flags = snic_get_le32(p + 12);
    r->incarnation = snic_get_le32(p + 16);
    r->since = snic_get_le32(p + 20);
    r->pad = snic_get_le32(p + 24);
    r->promised = snic_get_le64(p + 28);
    r->accepted = snic_get_le64(p + 36);
    const unsigned char *q = replica_get_view(p + 44, &r->decided);
    (void)replica_get_view(q, &r->proposal);
    return 0;
}

#undef REPLICA_MAGIC
#undef REPLICA_WIRE_VERSION
#undef REPLICA_RECORD_VERSION
