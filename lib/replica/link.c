/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * Datagrams out. Messages to a node are gathered into one datagram until the step that sends
 * them ends, or it is full. Without a free one they are lost, and sent again by the engine that
 * waits for an answer. Of large messages see replica.h, "Why datagrams".
 *
 * All pieces of a message may be more than there is room for, here or at the net's door, and the
 * same ones each time. So each sending of a large message to a node begins with the piece that was
 * lost first in the last one, or went last and may have been lost at the door unseen; the engine
 * sends again until there is an answer, so all pieces arrive, in whatever order.
 *
 * L1  A send is free, open at one peer, or the door's.
 */
#include "replica_priv.h"

static void replica_send_free(struct snic_replica *r, struct replica_send *s)
{
    SNIC_ASSERT(s->used != 0 && r->sends_used > 0); /* L1 */
    s->used = 0;
    s->next = r->send_free;
    r->send_free = (uint32_t)(s - r->sends);
    r->sends_used--;
}

static void replica_sent(struct snic_net_train *t)
{
    struct replica_send *s = SNIC_CONTAINER(t, struct replica_send, train);
    replica_send_free(s->r, s);
}

static void replica_link_seal(struct snic_replica *r, uint32_t to)
{
    struct replica_peer *p = &r->peers[to];
    if (p->open == SNIC_REPLICA__NIL)
        return;
    struct replica_send *s = &r->sends[p->open];
    SNIC_ASSERT(s->used > SNIC_REPLICA__PACKET && s->used <= r->o.datagram_max); /* L1 */
    p->open = SNIC_REPLICA__NIL;
    replica_put_packet(s->data, s->used, r->o.node, r->o.cluster);
    memset(&s->train, 0, sizeof(s->train));
    s->train.done = replica_sent;
    s->train.peer = p->addr;
    s->iov.base = s->data;
    s->iov.size = s->used;
    s->train.iov = &s->iov;
    s->train.iov_count = 1;
    s->train.segment = s->used;
    if (snic_net_dgram_send(r->dgram, &s->train) != 1) {
        r->lost_sends++;
        replica_send_free(r, s);
    }
}

/* All that was gathered leaves. */
void replica_link_flush(struct snic_replica *r)
{
    for (uint32_t n = 0; r->to_flush != 0; n++) {
        if ((r->to_flush >> n & 1) != 0)
            replica_link_seal(r, n);
        r->to_flush &= (uint16_t) ~(1u << n);
    }
}

/* Room for a frame of @p size bytes to that node, its header written; NULL: lost. */
static unsigned char *replica_link_frame(struct snic_replica *r, uint32_t to, uint32_t kind,
                                         uint32_t size)
{
    struct replica_peer *p = &r->peers[to];
    uint32_t bytes = SNIC_REPLICA__FRAME + size;
    SNIC_ASSERT(SNIC_REPLICA__PACKET + bytes <= r->o.datagram_max);
    if (p->open != SNIC_REPLICA__NIL && r->sends[p->open].used + bytes > r->o.datagram_max)
        replica_link_seal(r, to);
    if (p->open == SNIC_REPLICA__NIL) {
        if (r->send_free == SNIC_REPLICA__NIL) {
            r->lost_sends++;
            return NULL;
        }
        p->open = r->send_free;
        r->send_free = r->sends[p->open].next;
        r->sends[p->open].used = SNIC_REPLICA__PACKET;
        r->sends_used++;
    }
    struct replica_send *s = &r->sends[p->open];
    unsigned char *at = s->data + s->used;
    s->used += bytes;
    r->to_flush |= (uint16_t)(1u << to);
    replica_put_frame(at, kind, size);
    return at + SNIC_REPLICA__FRAME;
}

/* The bytes [offset, offset + size) of what is in two parts. */
static void replica_link_slice(unsigned char *to, const unsigned char *head, uint32_t head_size,
                               const unsigned char *body, uint32_t offset, uint32_t size)
{
    if (offset < head_size) {
        uint32_t n = (uint32_t)snic_min_u64(size, head_size - offset);
        memcpy(to, head + offset, n);
        to += n;
        offset += n;
        size -= n;
    }
    if (size > 0)
        memcpy(to, body + (offset - head_size), size);
}

static uint32_t replica_link_room(uint32_t datagram_max)
{
    uint32_t room = datagram_max - SNIC_REPLICA__PACKET - SNIC_REPLICA__FRAME - SNIC_REPLICA__PIECE;
    return room - room % SNIC_REPLICA__GRAIN;
}

/* Datagrams of a message with a value of that size. */
uint32_t replica_link_count(uint32_t datagram_max, uint32_t value_size)
{
    uint32_t room = replica_link_room(datagram_max);
    return (SNIC_REPLICA__DDP + value_size + room - 1) / room;
}

/* With fewer datagrams under way a large value, or the digests of a restart, would never arrive. */
uint32_t replica_link_least(const struct snic_replica_opts *o)
{
    uint32_t one = SNIC_REPLICA__FRAME + SNIC_REPLICA__DDP;
    uint32_t in = (o->datagram_max - SNIC_REPLICA__PACKET) / one;
    uint32_t digests = (SNIC_REPLICA__DIGESTS + in - 1) / in;
    digests *= (uint32_t)__builtin_popcount(o->configured);
    return (uint32_t)snic_max_u64(replica_link_count(o->datagram_max, o->value_max), digests);
}

static void replica_link_pieces(struct snic_replica *r, uint32_t to, const unsigned char *head,
                                const unsigned char *body, uint32_t body_size)
{
    uint32_t room = replica_link_room(r->o.datagram_max);
    uint32_t count = replica_link_count(r->o.datagram_max, body_size);
    uint32_t first = r->peers[to].piece % count;
    uint64_t lost = r->lost_sends;
    struct replica_cut c = {snic_crc32c(snic_crc32c(0, head, SNIC_REPLICA__DDP), body, body_size),
                            SNIC_REPLICA__DDP + body_size, 0};
    for (uint32_t i = 0; i < count; i++) {
        c.offset = (first + i) % count * room;
        uint32_t n = (uint32_t)snic_min_u64(room, c.total - c.offset);
        unsigned char *at = replica_link_frame(r, to, REPLICA_PIECE, SNIC_REPLICA__PIECE + n);
        r->peers[to].piece = (first + i) % count;
        if (at == NULL)
            return;
        replica_put_cut(at, &c);
        replica_link_slice(at + SNIC_REPLICA__PIECE, head, SNIC_REPLICA__DDP, body, c.offset, n);
        if (r->lost_sends != lost) { /* the piece before, as this one took its place */
            r->peers[to].piece = (first + i + count - 1) % count;
            return;
        }
    }
}

/* SEND of the data path: dst and its incarnation are filled in here. */
void replica_link_ddp(struct snic_replica *r, uint16_t to, const struct snic_ddp_msg *msg)
{
    struct snic_ddp_msg m = *msg;
    uint32_t size = 0;
    const unsigned char *value = NULL;
    unsigned char head[SNIC_REPLICA__DDP];
    if (replica_carries(&m)) {
        value = replica_value_at(&r->values, m.value, &size);
        SNIC_ASSERT(size == m.length);
    }
    for (uint32_t n = 0; n < SNIC_DDP_NODES_MAX; n++) {
        if ((to >> n & 1) == 0)
            continue;
        m.dst = (uint8_t)n;
        m.dst_incarnation = r->view.incarnation[n];
        replica_put_ddp(head, &m);
        uint32_t whole = SNIC_REPLICA__DDP + size;
        if (SNIC_REPLICA__PACKET + SNIC_REPLICA__FRAME + whole > r->o.datagram_max) {
            replica_link_pieces(r, n, head, value, size);
            continue;
        }
        unsigned char *at = replica_link_frame(r, n, REPLICA_DDP, whole);
        if (at == NULL)
            continue;
        memcpy(at, head, SNIC_REPLICA__DDP);
        if (size > 0)
            memcpy(at + SNIC_REPLICA__DDP, value, size);
    }
}

void replica_link_member(struct snic_replica *r, uint16_t to, const struct snic_member_msg *m)
{
    for (uint32_t n = 0; n < SNIC_MEMBER_NODES_MAX; n++) {
        unsigned char *at = NULL;
        if ((to >> n & 1) != 0)
            at = replica_link_frame(r, n, REPLICA_MEMBER, SNIC_REPLICA__MEMBER);
        if (at != NULL)
            replica_put_member(at, m);
    }
}

/* What was gathered for that node is not sent. */
void replica_link_forget(struct snic_replica *r, uint32_t to)
{
    struct replica_peer *p = &r->peers[to];
    if (p->open == SNIC_REPLICA__NIL)
        return;
    replica_send_free(r, &r->sends[p->open]);
    p->open = SNIC_REPLICA__NIL;
}
