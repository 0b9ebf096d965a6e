/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * Datagrams out: the membership's messages and nothing else, so that no value is ever in front of a
 * heartbeat. Messages to a node are gathered into one until the step that sends them ends, or it is
 * full. Without a free one they are lost, and sent again by the engine.
 *
 * With ciphers they are sealed under keys of the last connection; before there is one an empty
 * datagram is sent, which shows the other node that this one has none (dgram_in.c).
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

/* The clock, as late as possible. */
static void replica_dgram_times(struct snic_replica *r, const struct replica_peer *p,
                                unsigned char *at)
{
    struct replica_times t = {.stamp = snic_loop_clock(r->o.loop), .echo = p->stamp};
    t.held_ns = p->stamp != 0 ? t.stamp - p->stamp_ns : 0;
    t.flush_us = (uint32_t)snic_min_u64(r->pace.flush_ns / 1000, UINT32_MAX);
    t.flushing_us = (uint32_t)snic_min_u64(replica_log_running(r) / 1000, UINT32_MAX);
    replica_put_times(at, &t);
}

/* Header and, with ciphers, seal. 0, or the cipher's error. */
static int replica_dgram_wrap(struct snic_replica *r, uint32_t to, struct replica_send *s)
{
    struct replica_peer *p = &r->peers[to];
    struct replica_session *x = &p->session[0];
    struct replica_packet h = {.src = r->o.node, .dst = to, .cluster = r->o.cluster};
    h.lowest = r->wire_lowest;
    h.highest = r->wire_highest;
    h.version = (uint32_t)snic_min_u64(h.highest, p->highest); /* 0: not known yet */
    h.version = (uint32_t)snic_max_u64(h.version, h.lowest);
    h.session = (uint32_t)r->boot;
    replica_dgram_times(r, p, s->data + SNIC_REPLICA__PACKET + SNIC_REPLICA__FRAME);
    if (r->o.sec != NULL && !x->used)
        s->used = SNIC_REPLICA__PACKET;
    if (r->o.sec != NULL && x->used) {
        h.flags = REPLICA_SEALED;
        h.session = x->number;
        h.counter = ++x->out.count;
    }
    replica_put_packet(s->data, &h);
    if (h.flags != 0) {
        int result = replica_seal(r, &x->out, s->data + 4, SNIC_REPLICA__PACKET - 4,
                                  s->data + SNIC_REPLICA__PACKET, s->used - SNIC_REPLICA__PACKET);
        if (result != 0)
            return result;
        s->used += SNIC_REPLICA__TAG;
    }
    replica_put_packet_crc(s->data, s->used);
    return 0;
}

static void replica_dgram_seal(struct snic_replica *r, uint32_t to)
{
    struct replica_peer *p = &r->peers[to];
    if (p->open == SNIC_REPLICA__NIL)
        return;
    struct replica_send *s = &r->sends[p->open];
    SNIC_ASSERT(s->used > SNIC_REPLICA__PACKET && s->used <= SNIC_REPLICA__DATAGRAM); /* L1 */
    p->open = SNIC_REPLICA__NIL;
    int result = replica_dgram_wrap(r, to, s);
    memset(&s->train, 0, sizeof(s->train));
    s->train.done = replica_sent;
    s->train.peer = p->addr;
    s->iov.base = s->data;
    s->iov.size = s->used;
    s->train.iov = &s->iov;
    s->train.iov_count = 1;
    s->train.segment = s->used;
    if (result != 0 || snic_net_dgram_send(r->dgram, &s->train) != 1) {
        r->lost_sends++;
        replica_send_free(r, s);
    }
}

/* All that was gathered leaves. */
void replica_dgram_flush(struct snic_replica *r)
{
    for (uint32_t n = 0; r->to_flush != 0; n++) {
        if ((r->to_flush >> n & 1) != 0)
            replica_dgram_seal(r, n);
        r->to_flush &= (uint16_t) ~(1u << n);
    }
}

/* Room for a frame of @p size bytes to that node, its header written; NULL: lost. */
static unsigned char *replica_dgram_frame(struct snic_replica *r, uint32_t to, uint32_t kind,
                                          uint32_t size)
{
    struct replica_peer *p = &r->peers[to];
    uint32_t bytes = SNIC_REPLICA__FRAME + size + SNIC_REPLICA__TAG;
    if (p->open != SNIC_REPLICA__NIL && r->sends[p->open].used + bytes > SNIC_REPLICA__DATAGRAM)
        replica_dgram_seal(r, to);
    if (p->open == SNIC_REPLICA__NIL) {
        if (r->send_free == SNIC_REPLICA__NIL) {
            r->lost_sends++;
            return NULL;
        }
        p->open = r->send_free;
        r->send_free = r->sends[p->open].next;
        replica_put_frame(r->sends[p->open].data + SNIC_REPLICA__PACKET, REPLICA_TIMES, 0,
                          SNIC_REPLICA__TIMES);
        r->sends[p->open].used = SNIC_REPLICA__PACKET + SNIC_REPLICA__FRAME + SNIC_REPLICA__TIMES;
        r->sends_used++;
    }
    struct replica_send *s = &r->sends[p->open];
    unsigned char *at = s->data + s->used;
    SNIC_ASSERT(s->used + bytes <= SNIC_REPLICA__DATAGRAM);
    s->used += SNIC_REPLICA__FRAME + size;
    r->to_flush |= (uint16_t)(1u << to);
    replica_put_frame(at, kind, 0, size);
    return at + SNIC_REPLICA__FRAME;
}

void replica_link_member(struct snic_replica *r, uint16_t to, const struct snic_member_msg *m)
{
    unsigned char bytes[SNIC_REPLICA__MEMBER + SNIC_REPLICA__VIEW_MAX];
    uint32_t size = replica_put_member(bytes, m);
    for (uint32_t n = 0; n < SNIC_MEMBER_NODES_MAX; n++) {
        unsigned char *at = NULL;
        if ((to & r->others) >> n & 1)
            at = replica_dgram_frame(r, n, REPLICA_MEMBER, size);
        if (at != NULL)
            memcpy(at, bytes, size);
    }
}

/* What was gathered for that node is not sent. */
void replica_dgram_forget(struct snic_replica *r, uint32_t to)
{
    struct replica_peer *p = &r->peers[to];
    if (p->open == SNIC_REPLICA__NIL)
        return;
    replica_send_free(r, &r->sends[p->open]);
    p->open = SNIC_REPLICA__NIL;
}
