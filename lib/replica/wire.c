/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * Bytes on the wire and of the membership file: FORMAT.md.
 *
 * A packet that is wrong anywhere in its framing is dropped whole; a message that is wrong is left
 * to the engines, which check its fields, if it can be represented at all.
 */
#include "replica_priv.h"

#define REPLICA_MAGIC 0x5244
#define REPLICA_DDP_MORE 8 /* of version 4, which only a test speaks */
#define REPLICA_RECORD_VERSION 2
#define REPLICA_SAME_HOST 255 /* instead of a family: the host of the address before it */

SNIC_STATIC_ASSERT(sizeof(struct snic_ddp_msg) == 80, "the wire has every field of it");
SNIC_STATIC_ASSERT(sizeof(struct snic_member_msg) == 624, "and of this");
SNIC_STATIC_ASSERT(sizeof(struct snic_member_record) == 1128, "and of this");
SNIC_STATIC_ASSERT(sizeof(struct snic_member_view) == 544, "and of this");

/* Why a hello or datagram is refused. */
const char *replica_refusal(int why)
{
    switch (why) {
    case SNIC_EPERM:
        return "cluster: it belongs to another cluster, or to a new one with the same addresses";
    case SNIC_EVERSION:
        return "version: it understands no version of the protocol that this node does";
    case SNIC_EACCES:
        return "key: it has another cluster key, or only one of the two has one";
    default:
        return "options: its address, model or value_max differs from this node's options";
    }
}

/* Addresses of one machine, whatever the port. */
int replica_same_host(const struct snic_net_addr *a, const struct snic_net_addr *b)
{
    if (a->family != b->family)
        return 0;
    if (a->family == SNIC_NET_SIM)
        return a->node == b->node;
    if (a->family == SNIC_NET_UNIX)
        return 1; /* of a client there is none */
    return memcmp(a->ip, b->ip, a->family == SNIC_NET_IPV4 ? 4 : 16) == 0;
}

/* Does it have a value, that is, a handle and bytes? */
int replica_carries(const struct snic_ddp_msg *m)
{
    return (m->type == SNIC_DDP_INV || m->type == SNIC_DDP_NACK || m->type == SNIC_DDP_RECORD) &&
           (m->flags & SNIC_DDP_MSG_TOMBSTONE) == 0;
}

/* Does its receiver append to its log? */
int replica_logs(const struct snic_ddp_msg *m)
{
    return m->type == SNIC_DDP_INV || m->type == SNIC_DDP_NACK || m->type == SNIC_DDP_RECORD ||
           m->type == SNIC_DDP_PERSIST || m->type == SNIC_DDP_PULLED || m->type == SNIC_DDP_OFFER;
}

uint32_t replica_channel_of(const struct snic_ddp_msg *m)
{
    if (m->type == SNIC_DDP_RECORD || m->type == SNIC_DDP_PULLED || m->type == SNIC_DDP_OFFER)
        return REPLICA_CH_RECORDS;
    return replica_logs(m) ? REPLICA_CH_WRITES : REPLICA_CH_CONTROL;
}

/* ---- Datagrams ---- */

void replica_put_packet(unsigned char *p, const struct replica_packet *h)
{
    snic_put_le32(p, 0);
    snic_put_le16(p + 4, REPLICA_MAGIC);
    p[6] = (unsigned char)h->version;
    p[7] = (unsigned char)h->src;
    snic_put_le64(p + 8, h->cluster);
    p[16] = (unsigned char)h->lowest;
    p[17] = (unsigned char)h->highest;
    p[18] = (unsigned char)h->flags;
    p[19] = (unsigned char)h->dst;
    snic_put_le32(p + 20, h->session);
    snic_put_le64(p + 24, h->counter);
}

/* When all @p size bytes are as they will be sent. */
void replica_put_packet_crc(unsigned char *p, uint32_t size)
{
    snic_put_le32(p, snic_crc32c(0, p + 4, size - 4));
}

/*
 * 0; SNIC_EPROTO no packet of a replica; SNIC_ECORRUPT; SNIC_EVERSION, with the source. Of another
 * version no more than the first 8 bytes are known to be as here.
 */
int replica_get_packet(const unsigned char *p, size_t size, struct replica_packet *h)
{
    if (size < 8 || snic_get_le16(p + 4) != REPLICA_MAGIC)
        return SNIC_EPROTO;
    if (snic_get_le32(p) != snic_crc32c(0, p + 4, size - 4))
        return SNIC_ECORRUPT;
    memset(h, 0, sizeof(*h));
    h->version = p[6];
    h->src = p[7];
    if (h->src >= SNIC_DDP_NODES_MAX)
        return SNIC_EPROTO;
    if (h->version < SNIC_REPLICA__WIRE_LOWEST || h->version > SNIC_REPLICA__WIRE_HIGHEST)
        return SNIC_EVERSION;
    if (size < SNIC_REPLICA__PACKET)
        return SNIC_EPROTO;
    h->cluster = snic_get_le64(p + 8);
    h->lowest = p[16];
    h->highest = p[17];
    h->flags = p[18];
    h->dst = p[19];
    h->session = snic_get_le32(p + 20);
    h->counter = snic_get_le64(p + 24);
    if (h->lowest > h->highest || (h->flags & ~(uint32_t)REPLICA_SEALED) != 0)
        return SNIC_EPROTO;
    return 0;
}

/* ---- Blocks of a stream ---- */

void replica_put_block(unsigned char *p, uint32_t body, uint32_t flags)
{
    snic_put_le16(p, (uint16_t)body);
    p[2] = (unsigned char)flags;
    p[3] = 0;
    snic_put_le32(p + 4, 0);
}

void replica_put_block_crc(unsigned char *p, uint32_t body)
{
    snic_put_le32(p + 4, snic_crc32c(0, p + SNIC_REPLICA__BLOCK, body));
}

/* Of the header alone: 0, SNIC_EPROTO. */
int replica_get_block(const unsigned char *p, uint32_t *body, uint32_t *flags)
{
    *body = snic_get_le16(p);
    *flags = p[2];
    if (*body < SNIC_REPLICA__FRAME || *body > SNIC_REPLICA__BODY || p[3] != 0 ||
        (*flags & ~(uint32_t)REPLICA_SEALED) != 0)
        return SNIC_EPROTO;
    return 0;
}

int replica_get_block_crc(const unsigned char *p, uint32_t body)
{
    uint32_t crc = snic_crc32c(0, p + SNIC_REPLICA__BLOCK, body);
    return snic_get_le32(p + 4) == crc ? 0 : SNIC_ECORRUPT;
}

/* ---- Frames ---- */

void replica_put_frame(unsigned char *p, uint32_t kind, uint32_t channel, uint32_t size)
{
    p[0] = (unsigned char)kind;
    p[1] = (unsigned char)channel;
    snic_put_le16(p + 2, (uint16_t)size);
}

/* The next part, from *at on: 1; 0 at the end; SNIC_EPROTO. */
int replica_get_part(const unsigned char *p, size_t size, size_t *at, struct replica_part *out)
{
    if (*at == size)
        return 0;
    if (size - *at < SNIC_REPLICA__FRAME)
        return SNIC_EPROTO;
    const unsigned char *f = p + *at;
    uint32_t length = snic_get_le16(f + 2);
    int bytes = f[0] == REPLICA_BYTES;
    if (f[0] < REPLICA_DDP || f[0] >= REPLICA_FRAMES || f[1] >= REPLICA_CHANNELS ||
        bytes != (f[1] != 0) || length > size - *at - SNIC_REPLICA__FRAME)
        return SNIC_EPROTO;
    out->kind = f[0];
    out->channel = f[1];
    out->size = length;
    out->data = f + SNIC_REPLICA__FRAME;
    *at += SNIC_REPLICA__FRAME + length;
    return 1;
}

void replica_put_hello(unsigned char *p, const struct replica_hello *h)
{
    p[0] = (unsigned char)h->lowest;
    p[1] = (unsigned char)h->highest;
    p[2] = (unsigned char)h->src;
    p[3] = (unsigned char)h->dst;
    p[4] = (unsigned char)h->flags;
    p[5] = (unsigned char)h->model;
    snic_put_le16(p + 6, 0);
    snic_put_le32(p + 8, (uint32_t)h->refusal);
    snic_put_le32(p + 12, h->value_max);
    snic_put_le64(p + 16, h->cluster);
    snic_put_le64(p + 24, h->boot);
    memcpy(p + 32, h->nonce, 16);
    memcpy(p + 48, h->echo, 16);
    memcpy(p + 64, h->mac, 16);
}

int replica_get_hello(const unsigned char *p, size_t size, struct replica_hello *h)
{
    if (size != SNIC_REPLICA__HELLO)
        return SNIC_EPROTO;
    h->lowest = p[0];
    h->highest = p[1];
    h->src = p[2];
    h->dst = p[3];
    h->flags = p[4];
    h->model = p[5];
    h->refusal = (int32_t)snic_get_le32(p + 8);
    h->value_max = snic_get_le32(p + 12);
    h->cluster = snic_get_le64(p + 16);
    h->boot = snic_get_le64(p + 24);
    memcpy(h->nonce, p + 32, 16);
    memcpy(h->echo, p + 48, 16);
    memcpy(h->mac, p + 64, 16);
    return h->lowest <= h->highest && h->src < SNIC_DDP_NODES_MAX && snic_get_le16(p + 6) == 0 &&
                   (h->flags & ~(uint32_t)(REPLICA_SEALED | REPLICA_REPLY)) == 0
               ? 0
               : SNIC_EPROTO;
}

void replica_put_credit(unsigned char *p, const struct replica_credit *c)
{
    snic_put_le64(p, c->limit[0]);
    snic_put_le64(p + 8, c->limit[1]);
    for (uint32_t i = 0; i < REPLICA_CHANNELS; i++)
        snic_put_le32(p + 16 + 4 * i, c->taken[i]);
    snic_put_le32(p + 28, c->stalls);
}

int replica_get_credit(const unsigned char *p, size_t size, struct replica_credit *c)
{
    if (size != SNIC_REPLICA__CREDIT)
        return SNIC_EPROTO;
    c->limit[0] = snic_get_le64(p);
    c->limit[1] = snic_get_le64(p + 8);
    for (uint32_t i = 0; i < REPLICA_CHANNELS; i++)
        c->taken[i] = snic_get_le32(p + 16 + 4 * i);
    c->stalls = snic_get_le32(p + 28);
    return 0;
}

void replica_put_times(unsigned char *p, const struct replica_times *t)
{
    snic_put_le64(p, t->stamp);
    snic_put_le64(p + 8, t->echo);
    snic_put_le64(p + 16, t->held_ns);
    snic_put_le32(p + 24, t->flush_us);
    snic_put_le32(p + 28, t->flushing_us);
}

int replica_get_times(const unsigned char *p, size_t size, struct replica_times *t)
{
    if (size != SNIC_REPLICA__TIMES)
        return SNIC_EPROTO;
    t->stamp = snic_get_le64(p);
    t->echo = snic_get_le64(p + 8);
    t->held_ns = snic_get_le64(p + 16);
    t->flush_us = snic_get_le32(p + 24);
    t->flushing_us = snic_get_le32(p + 28);
    return 0;
}

/* ---- The data path ---- */

/* Bytes of a message without its value. */
uint32_t replica_ddp_size(uint32_t version)
{
    return version > 3 ? SNIC_REPLICA__DDP + REPLICA_DDP_MORE : SNIC_REPLICA__DDP;
}

void replica_put_ddp(unsigned char *p, uint32_t version, const struct snic_ddp_msg *m)
{
    if (version > 3)
        memset(p + SNIC_REPLICA__DDP, 0, REPLICA_DDP_MORE);
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

/* Of a whole head, its key only, unchecked. */
void replica_get_key(const unsigned char *p, struct snic_ddp_key *out)
{
    out->w[0] = snic_get_le64(p + 16);
    out->w[1] = snic_get_le64(p + 24);
}

/* Of a whole head; the message has no handle yet. 0; SNIC_EPROTO. */
int replica_get_ddp(const unsigned char *p, uint32_t version, uint32_t value_max,
                    struct snic_ddp_msg *m)
{
    struct snic_ddp_msg x;
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
    if (version > 3 && snic_get_le64(p + SNIC_REPLICA__DDP) != 0)
        return SNIC_EPROTO;
    if (x.type < SNIC_DDP_INV || x.type > SNIC_DDP_OFFER ||
        (replica_carries(&x) && x.length > value_max))
        return SNIC_EPROTO;
    *m = x;
    return 0;
}

/* ---- The membership ---- */

/* Bytes of an address without the zeros at its end. */
static uint32_t replica_addr_bytes(const uint8_t *addr)
{
    uint32_t n = SNIC_MEMBER_ADDR_MAX;
    while (n > 0 && addr[n - 1] == 0)
        n--;
    return n;
}

/* A view: its head, then the nodes of which anything is not zero. */
static unsigned char *replica_put_view(unsigned char *p, const struct snic_member_view *v)
{
    unsigned char *at = p + SNIC_REPLICA__VIEW;
    uint32_t nodes = 0;
    snic_put_le32(p, v->epoch);
    snic_put_le16(p + 4, v->full);
    snic_put_le16(p + 6, v->learners);
    snic_put_le32(p + 8, v->donor);
    snic_put_le32(p + 12, v->restart);
    snic_put_le16(p + 16, v->configured);
    snic_put_le16(p + 18, v->witness);
    snic_put_le16(p + 20, v->vacant);
    snic_put_le16(p + 22, v->pad);
    snic_put_le32(p + 24, v->config_epoch);
    snic_put_le32(p + 28, v->reserved);
    for (uint32_t n = 0; n < SNIC_MEMBER_NODES_MAX; n++) {
        uint32_t bytes = replica_addr_bytes(v->addr[n]);
        if (v->incarnation[n] == 0 && v->voter[n] == 0 && bytes == 0)
            continue;
        nodes |= 1u << n;
        snic_put_le32(at, v->incarnation[n]);
        snic_put_le32(at + 4, v->voter[n]);
        at[8] = (unsigned char)bytes;
        memcpy(at + SNIC_REPLICA__VIEW_NODE, v->addr[n], bytes);
        at += SNIC_REPLICA__VIEW_NODE + bytes;
    }
    snic_put_le16(p + 32, (uint16_t)nodes);
    return at;
}

/* What follows the view; NULL: it does not end before @p end, or has two encodings. */
static const unsigned char *replica_get_view(const unsigned char *p, const unsigned char *end,
                                             struct snic_member_view *v)
{
    if (end - p < SNIC_REPLICA__VIEW)
        return NULL;
    v->epoch = snic_get_le32(p);
    v->full = snic_get_le16(p + 4);
    v->learners = snic_get_le16(p + 6);
    v->donor = snic_get_le32(p + 8);
    v->restart = snic_get_le32(p + 12);
    v->configured = snic_get_le16(p + 16);
    v->witness = snic_get_le16(p + 18);
    v->vacant = snic_get_le16(p + 20);
    v->pad = snic_get_le16(p + 22);
    v->config_epoch = snic_get_le32(p + 24);
    v->reserved = snic_get_le32(p + 28);
    uint32_t nodes = snic_get_le16(p + 32);
    p += SNIC_REPLICA__VIEW;
    for (uint32_t n = 0; n < SNIC_MEMBER_NODES_MAX; n++) {
        if ((nodes >> n & 1) == 0)
            continue;
        if (end - p < SNIC_REPLICA__VIEW_NODE || p[8] > SNIC_MEMBER_ADDR_MAX ||
            end - p - SNIC_REPLICA__VIEW_NODE < p[8])
            return NULL;
        v->incarnation[n] = snic_get_le32(p);
        v->voter[n] = snic_get_le32(p + 4);
        memcpy(v->addr[n], p + SNIC_REPLICA__VIEW_NODE, p[8]);
        if (replica_addr_bytes(v->addr[n]) != p[8] ||
            (v->incarnation[n] == 0 && v->voter[n] == 0 && p[8] == 0))
            return NULL;
        p += SNIC_REPLICA__VIEW_NODE + p[8];
    }
    return p;
}

/* Its bytes; those of a view only where the message has one. */
uint32_t replica_put_member(unsigned char *p, const struct snic_member_msg *m)
{
    unsigned char *end = p + SNIC_REPLICA__MEMBER;
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
    snic_put_le64(p + 56, m->cluster);
    snic_put_le64(p + 64, m->flush_ns);
    snic_put_le32(p + 72, m->since);
    snic_put_le32(p + 76, m->pad);
    if (m->view.epoch != 0)
        end = replica_put_view(end, &m->view);
    return (uint32_t)(end - p);
}

int replica_get_member(const unsigned char *p, size_t size, struct snic_member_msg *m)
{
    const unsigned char *end = p + size;
    if (size < SNIC_REPLICA__MEMBER)
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
    m->cluster = snic_get_le64(p + 56);
    m->flush_ns = snic_get_le64(p + 64);
    m->since = snic_get_le32(p + 72);
    m->pad = snic_get_le32(p + 76);
    p += SNIC_REPLICA__MEMBER;
    if (p != end)
        p = replica_get_view(p, end, &m->view);
    return p == end && (size == SNIC_REPLICA__MEMBER || m->view.epoch != 0) ? 0 : SNIC_EPROTO;
}

/* ---- The membership's record, in the log's meta slot ---- */

/* Its bytes, at most SNIC_REPLICA__RECORD. */
uint32_t replica_put_record(unsigned char *p, const struct snic_member_record *r)
{
    snic_put_le32(p + 4, REPLICA_RECORD_VERSION);
    snic_put_le32(p + 12, r->flags);
    snic_put_le32(p + 16, r->incarnation);
    snic_put_le32(p + 20, r->since);
    snic_put_le32(p + 24, r->pad);
    snic_put_le64(p + 28, r->cluster);
    snic_put_le64(p + 36, r->promised);
    snic_put_le64(p + 44, r->accepted);
    unsigned char *end = replica_put_view(p + SNIC_REPLICA__RECORD_HEAD, &r->decided);
    end = replica_put_view(end, &r->proposal);
    uint32_t size = (uint32_t)(end - p);
    SNIC_ASSERT(size <= SNIC_REPLICA__RECORD);
    snic_put_le32(p + 8, size);
    snic_put_le32(p, snic_crc32c(0, p + 4, size - 4));
    return size;
}

/* SNIC_EPROTO no record; SNIC_ECORRUPT damaged; SNIC_EVERSION written by another version. */
int replica_get_record(const unsigned char *p, size_t size, struct snic_member_record *r)
{
    if (size < 12)
        return SNIC_EPROTO;
    uint32_t length = snic_get_le32(p + 8);
    if (length < 12 || length > size)
        return SNIC_EPROTO;
    if (snic_get_le32(p) != snic_crc32c(0, p + 4, length - 4))
        return SNIC_ECORRUPT;
    if (snic_get_le32(p + 4) != REPLICA_RECORD_VERSION)
        return SNIC_EVERSION;
    if (length < SNIC_REPLICA__RECORD_HEAD)
        return SNIC_EPROTO;
    memset(r, 0, sizeof(*r));
    r->flags = snic_get_le32(p + 12);
    r->incarnation = snic_get_le32(p + 16);
    r->since = snic_get_le32(p + 20);
    r->pad = snic_get_le32(p + 24);
    r->cluster = snic_get_le64(p + 28);
    r->promised = snic_get_le64(p + 36);
    r->accepted = snic_get_le64(p + 44);
    const unsigned char *end = p + length;
    p = replica_get_view(p + SNIC_REPLICA__RECORD_HEAD, end, &r->decided);
    if (p != NULL)
        p = replica_get_view(p, end, &r->proposal);
    return p == end ? 0 : SNIC_EPROTO;
}

/* ---- Addresses, as a view has them ---- */

/* Bytes of the family, port and host that begin here; 0: none. */
static uint32_t replica_host_end(const uint8_t *p)
{
    if (p[0] == REPLICA_SAME_HOST)
        return 3;
    if (p[0] == SNIC_NET_IPV4 || p[0] == SNIC_NET_SIM)
        return 3 + 4;
    return p[0] == SNIC_NET_IPV6 ? 3 + 16 : 0;
}

/* 0: it has no bytes in a view, a UNIX path; @p out is zeros then. */
int replica_put_addr(uint8_t *out, const struct snic_net_addr *a)
{
    memset(out, 0, SNIC_MEMBER_ADDR_MAX);
    if (a->family != SNIC_NET_IPV4 && a->family != SNIC_NET_IPV6 && a->family != SNIC_NET_SIM)
        return 0;
    out[0] = (uint8_t)a->family;
    snic_put_le16(out + 1, a->port);
    if (a->family == SNIC_NET_SIM)
        snic_put_le32(out + 3, a->node);
    else
        memcpy(out + 3, a->ip, a->family == SNIC_NET_IPV4 ? 4 : 16);
    return 1;
}

/* 0: none. */
int replica_get_addr(const uint8_t *p, struct snic_net_addr *out)
{
    if (p[0] != SNIC_NET_IPV4 && p[0] != SNIC_NET_IPV6 && p[0] != SNIC_NET_SIM)
        return 0;
    memset(out, 0, sizeof(*out));
    out->family = p[0];
    out->port = snic_get_le16(p + 1);
    if (out->family == SNIC_NET_SIM)
        out->node = snic_get_le32(p + 3);
    else
        memcpy(out->ip, p + 3, out->family == SNIC_NET_IPV4 ? 4 : 16);
    return 1;
}

/* The address for clients, behind that at @p p. 0: it has no port, or does not fit. */
int replica_put_client(uint8_t *p, const struct snic_net_addr *a)
{
    uint8_t bytes[SNIC_MEMBER_ADDR_MAX];
    uint32_t at = replica_host_end(p);
    if (at == 0 || a->port == 0 || !replica_put_addr(bytes, a))
        return 0;
    uint32_t size = replica_host_end(bytes);
    if (p[0] == bytes[0] && memcmp(p + 3, bytes + 3, at - 3) == 0) {
        bytes[0] = REPLICA_SAME_HOST;
        size = 3;
    }
    if (size > SNIC_MEMBER_ADDR_MAX - at)
        return 0;
    memset(p + at, 0, SNIC_MEMBER_ADDR_MAX - at);
    memcpy(p + at, bytes, size);
    return 1;
}

/* 0: none. */
int replica_get_client(const uint8_t *p, struct snic_net_addr *out)
{
    uint8_t bytes[SNIC_MEMBER_ADDR_MAX] = {0};
    uint32_t at = replica_host_end(p);
    if (at == 0 || p[0] == REPLICA_SAME_HOST || p[at] == 0 ||
        replica_host_end(p + at) > SNIC_MEMBER_ADDR_MAX - at)
        return 0;
    memcpy(bytes, p + at, SNIC_MEMBER_ADDR_MAX - at);
    if (bytes[0] == REPLICA_SAME_HOST) {
        bytes[0] = p[0];
        memcpy(bytes + 3, p + 3, at - 3);
    }
    return replica_get_addr(bytes, out) && out->port != 0;
}

#undef REPLICA_MAGIC
#undef REPLICA_SAME_HOST
#undef REPLICA_RECORD_VERSION
#undef REPLICA_DDP_MORE
