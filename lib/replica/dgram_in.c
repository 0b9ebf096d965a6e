/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * Datagrams in. What goes out is in dgram.c.
 *
 * A datagram of another process of that node than the connection's, or one under keys that are not
 * known here, is a hint that the connection's other end is gone, though nothing has shown it yet:
 * the connection is probed (conn.c). Hints can be forged, so they do no more than that, once a
 * second. With ciphers all else that is not sealed, or under other keys, is counted, and no more.
 */
#include "replica_priv.h"

/* Of a peer's address; without ciphers nothing better shows that it is the peer's. */
static void replica_dgram_blame(struct snic_replica *r, struct replica_peer *p, int why)
{
    replica_link_count(r, why);
    if (r->o.sec == NULL)
        replica_link_name(r, p, why);
}

static int replica_same_addr(const struct snic_net_addr *a, const struct snic_net_addr *b)
{
    return a->port == b->port && replica_same_host(a, b) &&
           (a->family != SNIC_NET_UNIX || memcmp(a->path, b->path, sizeof(a->path)) == 0);
}

static void replica_dgram_part(struct snic_replica *r, struct replica_peer *p,
                               const struct replica_part *part)
{
    struct snic_member_msg m;
    struct snic_member_event ev = {.type = SNIC_MEMBER_MESSAGE, .msg = &m};
    struct replica_times t;
    if (part->kind == REPLICA_MEMBER && replica_get_member(part->data, part->size, &m) == 0 &&
        m.src == replica_link_number(r, p)) {
        (void)replica_step_member(r, &ev);
    } else if (part->kind == REPLICA_TIMES && replica_get_times(part->data, part->size, &t) == 0) {
        replica_pace_rtt(r, p, &t);
        replica_pace_update(r);
    } else {
        r->refused++;
    }
}

/* The keys it is sealed with, and its body opened; NULL: none are known, or it is refused. */
static struct replica_session *replica_dgram_open(struct snic_replica *r, struct replica_peer *p,
                                                  const struct snic_net_msg *in,
                                                  const struct replica_packet *h,
                                                  unsigned char *body)
{
    struct replica_session *s = NULL;
    for (uint32_t i = 0; i < 2 && s == NULL; i++) {
        if (p->session[i].used && p->session[i].number == h->session)
            s = &p->session[i];
    }
    if (s == NULL) {
        replica_link_probe(r, p);
        return NULL;
    }
    struct replica_key key = s->in;
    key.count = h->counter;
    if (!replica_replay_fresh(s, h->counter)) {
        r->refused++;
        return NULL;
    }
    if (replica_open(r, &key, in->data + 4, SNIC_REPLICA__PACKET - 4, body,
                     in->data + SNIC_REPLICA__PACKET,
                     (uint32_t)(in->size - SNIC_REPLICA__PACKET - SNIC_REPLICA__TAG)) != 0) {
        replica_link_count(r, SNIC_EACCES);
        return NULL;
    }
    replica_replay_note(s, h->counter);
    return s;
}

/* The sender of a datagram; NULL: it is refused. */
static struct replica_peer *replica_dgram_peer(struct snic_replica *r,
                                               const struct snic_net_msg *in,
                                               struct replica_packet *h)
{
    int result = replica_get_packet(in->data, in->size, h);
    if ((result != 0 && result != SNIC_EVERSION) || (r->others >> h->src & 1) == 0 ||
        !replica_same_addr(&in->peer, &r->peers[h->src].addr)) {
        r->refused++;
        return NULL;
    }
    struct replica_peer *p = &r->peers[h->src];
    if (result == SNIC_EVERSION || h->lowest > r->wire_highest || h->highest < r->wire_lowest) {
        replica_dgram_blame(r, p, SNIC_EVERSION);
        return NULL;
    }
    if (h->cluster != r->o.cluster) {
        replica_dgram_blame(r, p, SNIC_EPERM);
        return NULL;
    }
    if (h->dst != r->o.node || h->version < r->wire_lowest || h->version > r->wire_highest) {
        r->refused++;
        return NULL;
    }
    return p;
}

static void replica_dgram_packet(struct snic_replica *r, const struct snic_net_msg *in)
{
    unsigned char body[SNIC_REPLICA__DATAGRAM];
    struct replica_packet h = {.src = 0};
    struct replica_part part;
    const unsigned char *at = in->data + SNIC_REPLICA__PACKET;
    size_t size = in->size - SNIC_REPLICA__PACKET, next = 0;
    int more;
    r->packets++;
    struct replica_peer *p = replica_dgram_peer(r, in, &h);
    if (p == NULL)
        return;
    if ((h.flags != 0) != (r->o.sec != NULL) && size > 0) {
        replica_dgram_blame(r, p, SNIC_EACCES);
        return;
    }
    if (r->o.sec != NULL) {
        if (size > sizeof(body) || size < SNIC_REPLICA__TAG) {
            replica_link_probe(r, p);
            return;
        }
        if (replica_dgram_open(r, p, in, &h, body) == NULL)
            return;
        at = body;
        size -= SNIC_REPLICA__TAG;
    } else if (p->conn != NULL && h.session != (uint32_t)p->boot) {
        replica_link_probe(r, p);
    }
    p->highest = h.highest;
    p->heard_ns = replica_clock(r);
    if (p->conn == NULL)
        replica_link_heard(r, p);
    while ((more = replica_get_part(at, size, &next, &part)) == 1 &&
           r->state == SNIC_REPLICA_RUNNING)
        replica_dgram_part(r, p, &part);
    r->refused += more < 0;
}

void replica_dgram_recv(void *ctx, struct snic_net_dgram *d, const struct snic_net_msg *msgs,
                        uint32_t count)
{
    struct snic_replica *r = ctx;
    (void)d;
    for (uint32_t i = 0; i < count && r->state == SNIC_REPLICA_RUNNING; i++)
        replica_dgram_packet(r, &msgs[i]);
    replica_settle(r);
}
