/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * Datagrams on their way: where they arrive, and the reports of closed ports.
 */
#include "net/sim_priv.h"

#define SNIC_NET__SIM_GATHER 64u /* datagrams handed in at once */

/* To the front: the next one takes what is in the cache, of 64 MiB of packets. */
void net_sim_packet_free(struct net_sim_packet *p)
{
    struct snic_queue *q = &p->fabric->packets;
    snic_link_remove(&p->link);
    p->node.next = q->first;
    q->first = &p->node;
    if (q->last == NULL)
        q->last = &p->node;
}

static struct net_sim_dgram *net_sim_dgram_at(struct net_sim *n, uint32_t port)
{
    for (unsigned i = 0; i < n->opts.dgrams_max; i++) {
        if (n->dgrams[i].used && !n->dgrams[i].closing && n->dgrams[i].port == port)
            return &n->dgrams[i];
    }
    return NULL;
}

/* The handle whose loop a datagram for @node and @port arrives at: the socket's, else the first. */
struct net_sim *net_sim_dgram_route(struct snic_net_fabric *f, uint32_t node, uint32_t port)
{
    struct net_sim *found = NULL;
    for (struct snic_link *i = f->handles.next; i != &f->handles; i = i->next) {
        struct net_sim *n = SNIC_CONTAINER(i, struct net_sim, link);
        if (n->node != node)
            continue;
        if (net_sim_dgram_at(n, port) != NULL)
            return n;
        if (found == NULL)
            found = n;
    }
    return found;
}

/* @p's port is closed: report it to a sender that requests reports, over the pair's link. */
static void net_sim_packet_refuse(struct net_sim_packet *p, uint64_t now_ns)
{
    struct snic_net_fabric *f = p->fabric;
    struct net_sim *to = net_sim_dgram_route(f, p->flow.from, p->flow.from_port);
    struct net_sim_dgram *d = to != NULL ? net_sim_dgram_at(to, p->flow.from_port) : NULL;
    struct net_sim_path *path = net_sim_path_find(f, p->flow.to, p->flow.from);
    if (p->error != 0 || d == NULL || d->ev.unreachable == NULL || (path != NULL && path->cut)) {
        net_sim_packet_free(p);
        return;
    }
    snic_link_remove(&p->link);
    p->error = SNIC_ECONNREFUSED;
    p->peer.node = p->flow.to;
    p->peer.port = p->flow.to_port;
    p->port = p->flow.from_port;
    p->to = to;
    snic_link_append(&to->packets, &p->link);
    snic_timer_init(&p->arrive, net_sim_packet_fire);
    snic_loop_arm(to->n.loop, &p->arrive, now_ns + net_sim_path_delay(f, path));
}

/* @p first and those that are about to come to the same socket, in the order in which they would.
 */
static uint32_t net_sim_packet_gather(struct net_sim_packet *first, uint64_t now_ns,
                                      struct net_sim_packet **out)
{
    uint64_t gather_ns = first->fabric->gather_ns;
    uint32_t n = 1;
    out[0] = first;
    if (gather_ns == 0)
        return 1;
    for (struct snic_link *l = first->to->packets.next; l != &first->to->packets; l = l->next) {
        struct net_sim_packet *p = SNIC_CONTAINER(l, struct net_sim_packet, link);
        uint32_t at = n;
        if (p == first || p->port != first->port || p->error != 0 || !p->arrive.armed ||
            p->arrive.deadline_ns > now_ns + gather_ns || n == SNIC_NET__SIM_GATHER)
            continue;
        for (; at > 1 && out[at - 1]->arrive.deadline_ns > p->arrive.deadline_ns; at--)
            out[at] = out[at - 1];
        out[at] = p;
        n++;
    }
    for (uint32_t i = 1; i < n; i++)
        snic_loop_cancel(first->to->n.loop, &out[i]->arrive);
    return n;
}

static void net_sim_packet_deliver(struct net_sim_dgram *d, struct net_sim_packet *first,
                                   uint64_t now_ns)
{
    struct net_sim_packet *p[SNIC_NET__SIM_GATHER];
    struct snic_net_msg m[SNIC_NET__SIM_GATHER];
    uint32_t count = net_sim_packet_gather(first, now_ns, p), i = 0;
    do {
        memset(&m[i], 0, sizeof(m[i]));
        m[i].peer = p[i]->peer;
        m[i].data = p[i]->data;
        m[i].size = p[i]->size;
        m[i].ecn = p[i]->ecn;
        m[i].time_ns = now_ns;
    } while (++i < count);
    d->d.net->stats.dgrams_in += count;
    d->d.net->stats.dgram_recvs++;
    d->ev.recv(d->ctx, &d->d, m, count);
    for (i = 0; i < count; i++)
        net_sim_packet_free(p[i]);
}

void net_sim_packet_fire(struct snic_timer *t, uint64_t now_ns)
{
    struct net_sim_packet *p = SNIC_CONTAINER(t, struct net_sim_packet, arrive);
    struct net_sim_dgram *d = net_sim_dgram_at(p->to, p->port);
    if (d == NULL) {
        net_sim_packet_refuse(p, now_ns);
        return;
    }
    if (p->error != 0) {
        d->d.net->stats.unreachable++;
        if (d->ev.unreachable != NULL)
            d->ev.unreachable(d->ctx, &d->d, &p->peer, p->error);
        net_sim_packet_free(p);
    } else {
        net_sim_packet_deliver(d, p, now_ns);
    }
}

struct net_sim_packet *net_sim_packet_copy(struct snic_net_fabric *f,
                                           const struct net_sim_packet *p)
{
    struct snic_node *node = snic_queue_pop(&f->packets);
    if (node == NULL)
        return NULL;
    struct net_sim_packet *c = SNIC_CONTAINER(node, struct net_sim_packet, node);
    unsigned char *data = c->data;
    *c = *p;
    c->data = data;
    memcpy(data, p->data, p->size);
    snic_link_init(&c->link);
    snic_link_append(&f->graph.transit, &c->link);
    return c;
}
