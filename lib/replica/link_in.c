/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * Datagrams in. What goes out is in link.c.
 *
 * L2  A collection is known by source, length and checksum of the whole. It is used only if the
 *     whole has that checksum. A new one evicts the least recently used, but not while its pieces
 *     may still be arriving between those of others: when more messages than there are
 *     collections come mixed, each would end the next one's, and none would ever be whole.
 */
#include "replica_priv.h"

static int replica_same_addr(const struct snic_net_addr *a, const struct snic_net_addr *b)
{
    if (a->family != b->family || a->port != b->port)
        return 0;
    if (a->family == SNIC_NET_SIM)
        return a->node == b->node;
    if (a->family == SNIC_NET_UNIX)
        return memcmp(a->path, b->path, sizeof(a->path)) == 0;
    return memcmp(a->ip, b->ip, a->family == SNIC_NET_IPV4 ? 4 : 16) == 0;
}

/* A message of the data path, whole. */
static void replica_link_take(struct snic_replica *r, uint32_t src, const unsigned char *p,
                              size_t size)
{
    struct snic_ddp_msg m;
    const unsigned char *value;
    struct snic_ddp_event ev = {.type = SNIC_DDP_MESSAGE, .msg = &m};
    if (replica_get_ddp(p, size, r->o.value_max, &m, &value) != 0 || m.src != src) {
        r->refused++;
        return;
    }
    int logs = m.type == SNIC_DDP_INV || m.type == SNIC_DDP_NACK || m.type == SNIC_DDP_RECORD ||
               m.type == SNIC_DDP_PERSIST;
    if (logs && replica_log_room(r, replica_carries(&m) ? REPLICA_ROOM_RECORD
                                                        : REPLICA_ROOM_TOMBSTONE) != 0) {
        r->no_room++;
        return;
    }
    if (replica_carries(&m)) {
        uint32_t n;
        SNIC_ASSERT(m.length <= r->o.value_max);
        m.value = replica_value_new(&r->values, m.length);
        if (m.value == 0) {
            r->no_room++;
            return;
        }
        memcpy(replica_value_at(&r->values, m.value, &n), value, m.length);
        replica_value_give(&r->values, m.value);
    }
    if (replica_step_ddp(r, &ev) != 0 && replica_carries(&m))
        replica_value_release(&r->values, m.value);
}

/* NULL: all are needed. */
static struct replica_whole *replica_whole_find(struct snic_replica *r, uint32_t src,
                                                const struct replica_cut *c)
{
    struct replica_whole *best = &r->wholes[0];
    for (uint32_t i = 0; i < r->o.pieces_max; i++) {
        struct replica_whole *w = &r->wholes[i];
        if (w->used && w->src == src && w->crc == c->crc && w->total == c->total)
            return w;
        if (!best->used)
            continue;
        if (!w->used || w->touched < best->touched)
            best = w;
    }
    uint64_t all =
        (uint64_t)r->o.pieces_max * replica_link_count(r->o.datagram_max, r->o.value_max);
    if (best->used && r->touched - best->touched < 4 * all)
        return NULL;
    r->lost_pieces += best->used;
    best->used = 1;
    best->src = src;
    best->crc = c->crc;
    best->total = c->total;
    best->missing = (c->total + SNIC_REPLICA__GRAIN - 1) / SNIC_REPLICA__GRAIN;
    memset(best->have, 0, (size_t)(best->missing + 63) / 64 * 8);
    return best;
}

static void replica_link_piece(struct snic_replica *r, uint32_t src,
                               const struct replica_part *part)
{
    struct replica_cut c;
    uint32_t max = SNIC_REPLICA__DDP + r->o.value_max;
    if (replica_get_cut(part->data, part->size, max, &c) != 0) {
        r->refused++;
        return;
    }
    struct replica_whole *w = replica_whole_find(r, src, &c);
    uint32_t length = part->size - SNIC_REPLICA__PIECE;
    r->touched++;
    if (w == NULL) {
        r->lost_pieces++;
        return;
    }
    w->touched = r->touched;
    SNIC_ASSERT(w->total <= max && c.offset + length <= w->total);
    memcpy(w->data + c.offset, part->data + SNIC_REPLICA__PIECE, length);
    uint32_t end = (c.offset + length + SNIC_REPLICA__GRAIN - 1) / SNIC_REPLICA__GRAIN;
    for (uint32_t g = c.offset / SNIC_REPLICA__GRAIN; g < end; g++) {
        uint64_t bit = UINT64_C(1) << g % 64;
        w->missing -= (w->have[g / 64] & bit) == 0;
        w->have[g / 64] |= bit;
    }
    SNIC_ASSERT(w->used && w->missing <= (max + SNIC_REPLICA__GRAIN - 1) / SNIC_REPLICA__GRAIN);
    if (w->missing != 0)
        return;
    w->used = 0;
    if (snic_crc32c(0, w->data, w->total) == w->crc) /* L2 */
        replica_link_take(r, src, w->data, w->total);
    else
        r->refused++;
}

static void replica_link_packet(struct snic_replica *r, const struct snic_net_msg *in)
{
    uint32_t src;
    size_t at = SNIC_REPLICA__PACKET;
    struct replica_part part;
    int more;
    r->packets++;
    if (replica_get_packet(in->data, in->size, r->o.cluster, &src) != 0 || src == r->o.node ||
        (r->o.configured >> src & 1) == 0 || !replica_same_addr(&in->peer, &r->peers[src].addr)) {
        r->refused++;
        return;
    }
    while ((more = replica_get_part(in->data, in->size, &at, &part)) == 1 &&
           r->state == SNIC_REPLICA_RUNNING) {
        struct snic_member_msg m;
        struct snic_member_event ev = {.type = SNIC_MEMBER_MESSAGE, .msg = &m};
        if (part.kind == REPLICA_DDP)
            replica_link_take(r, src, part.data, part.size);
        else if (part.kind == REPLICA_PIECE)
            replica_link_piece(r, src, &part);
        else if (replica_get_member(part.data, part.size, &m) == 0 && m.src == src)
            (void)replica_step_member(r, &ev);
        else
            r->refused++;
    }
    r->refused += more < 0;
}

void replica_link_recv(void *ctx, struct snic_net_dgram *d, const struct snic_net_msg *msgs,
                       uint32_t count)
{
    struct snic_replica *r = ctx;
    (void)d;
    for (uint32_t i = 0; i < count && r->state == SNIC_REPLICA_RUNNING; i++)
        replica_link_packet(r, &msgs[i]);
    replica_settle(r);
}
