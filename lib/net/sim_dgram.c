/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * Datagrams of the simulated network: each may be lost, doubled, overtaken or damaged.
 *
 * A datagram is copied into a packet of the fabric when it is sent; the packet is a timer on
 * the destination's loop. Whether its port is open is decided when it arrives. Without a free
 * packet it is lost, and counted. Where the sender has wires it goes over switches (sim_hop.c).
 */
#include "net/sim_priv.h"

#include <stdlib.h>

static void net_sim_dgram_kick(struct net_sim_dgram *d)
{
    struct net_sim *n = (struct net_sim *)d->d.net;
    if (!d->kick.armed)
        snic_loop_arm(n->n.loop, &d->kick, snic_world_now(n->fabric->world));
}

/* Dones, then writable; a closing socket is gone afterwards. */
static void net_sim_dgram_report(struct net_sim_dgram *d)
{
    struct net_sim *n = (struct net_sim *)d->d.net;
    struct snic_queue dones = d->dones;
    memset(&d->dones, 0, sizeof(d->dones));
    for (struct snic_node *i = snic_queue_pop(&dones); i != NULL; i = snic_queue_pop(&dones)) {
        struct snic_net_train *t = SNIC_CONTAINER(i, struct snic_net_train, node);
        d->send_count--;
        t->done(t);
    }
    if (d->closing) {
        if (snic_queue_empty(&d->dones))
            d->used = 0;
        return;
    }
    if (d->full && d->send_count <= n->opts.send_queue / 2) {
        d->full = 0;
        if (d->ev.writable != NULL)
            d->ev.writable(d->ctx, &d->d);
    }
}

static void net_sim_dgram_kick_fire(struct snic_timer *t, uint64_t now_ns)
{
    (void)now_ns;
    net_sim_dgram_report(SNIC_CONTAINER(t, struct net_sim_dgram, kick));
}

/* The packets of all datagram sockets, when the first is opened. */
static int net_sim_packets_take(struct snic_net_fabric *f)
{
    if (f->packet_mem != NULL)
        return 0;
    f->packet_data = malloc((size_t)SNIC_NET__SIM_PACKETS * SNIC_NET__SIM_PACKET_BYTES);
    f->packet_mem = calloc(SNIC_NET__SIM_PACKETS, sizeof(*f->packet_mem));
    if (f->packet_data == NULL || f->packet_mem == NULL) {
        free(f->packet_data);
        free(f->packet_mem);
        f->packet_mem = NULL;
        return SNIC_ENOSPC;
    }
    for (uint32_t i = 0; i < SNIC_NET__SIM_PACKETS; i++) {
        struct net_sim_packet *p = &f->packet_mem[i];
        p->data = f->packet_data + (size_t)i * SNIC_NET__SIM_PACKET_BYTES;
        p->fabric = f;
        snic_link_init(&p->link);
        snic_queue_push(&f->packets, &p->node);
    }
    return 0;
}

int net_sim_dgram_open(struct snic_net *base, const struct snic_net_addr *local,
                       const struct snic_net_dgram_events *ev, void *ctx,
                       struct snic_net_dgram **out)
{
    struct net_sim *n = (struct net_sim *)base;
    struct net_sim_dgram *d = NULL;
    if (local->family != SNIC_NET_SIM)
        return SNIC_ENOTSUP;
    if (local->node != n->node || ev == NULL || ev->recv == NULL)
        return SNIC_EINVAL;
    for (struct snic_link *i = n->fabric->handles.next; i != &n->fabric->handles; i = i->next) {
        struct net_sim *o = SNIC_CONTAINER(i, struct net_sim, link);
        for (unsigned k = 0; o->node == n->node && k < o->opts.dgrams_max; k++) {
            if (o->dgrams[k].used && !o->dgrams[k].closing && o->dgrams[k].port == local->port)
                return SNIC_EADDRINUSE;
        }
    }
    for (unsigned i = 0; i < n->opts.dgrams_max && d == NULL; i++) {
        if (!n->dgrams[i].used)
            d = &n->dgrams[i];
    }
    if (d == NULL || net_sim_packets_take(n->fabric) < 0)
        return SNIC_ENOSPC;
    memset(d, 0, sizeof(*d));
    d->d.net = base;
    d->ev = *ev;
    d->ctx = ctx;
    d->port = local->port != 0 ? local->port : net_sim_port(n->fabric, n->node);
    d->used = 1;
    snic_timer_init(&d->kick, net_sim_dgram_kick_fire);
    *out = &d->d;
    return 0;
}

int net_sim_dgram_addr(const struct snic_net_dgram *base, struct snic_net_addr *out)
{
    memset(out, 0, sizeof(*out));
    out->family = SNIC_NET_SIM;
    out->node = ((struct net_sim *)base->net)->node;
    out->port = ((const struct net_sim_dgram *)base)->port;
    return 0;
}

/* One copy of a datagram, out of the pieces from (*at, *off) on; the cursor stays for the next. */
static void net_sim_packet_fill(struct net_sim_packet *p, const struct snic_net_train *t,
                                uint64_t offset)
{
    uint32_t got = 0;
    for (uint32_t i = 0; i < t->iov_count && got < p->size; i++) {
        const struct snic_iov *v = &t->iov[i];
        if (offset >= v->size) {
            offset -= v->size;
            continue;
        }
        size_t n = snic_min_u64(v->size - offset, p->size - got);
        memcpy(p->data + got, (const unsigned char *)v->base + offset, n);
        got += (uint32_t)n;
        offset = 0;
    }
    SNIC_ASSERT(got == p->size);
}

/* A packet with the datagram at @offset of a train, on its way nowhere yet; NULL: none is free. */
static struct net_sim_packet *net_sim_packet_make(struct net_sim_dgram *d,
                                                  const struct snic_net_train *t, uint64_t offset,
                                                  uint32_t size)
{
    struct net_sim *n = (struct net_sim *)d->d.net;
    struct snic_node *node = snic_queue_pop(&n->fabric->packets);
    if (node == NULL) {
        n->n.stats.dgrams_lost++;
        return NULL;
    }
    struct net_sim_packet *p = SNIC_CONTAINER(node, struct net_sim_packet, node);
    p->to = NULL;
    p->port = t->peer.port;
    p->size = size;
    p->ecn = t->ecn;
    p->hops = 0;
    p->error = 0;
    p->extra_ns = 0;
    p->queued = 0;
    p->flow = (struct net_sim_flow){n->node, t->peer.node, d->port, t->peer.port};
    (void)net_sim_dgram_addr(&d->d, &p->peer);
    net_sim_packet_fill(p, t, offset);
    return p;
}

/* Over the pair's link: one copy, if it is not lost. */
static void net_sim_packet_over(struct net_sim_dgram *d, const struct snic_net_train *t,
                                uint64_t offset, uint32_t size, struct net_sim_path *path,
                                const struct net_sim_fate *fate)
{
    struct snic_net_fabric *f = ((struct net_sim *)d->d.net)->fabric;
    const struct snic_net_link *l = path != NULL ? &path->link : &f->link;
    struct net_sim *to = net_sim_dgram_route(f, t->peer.node, t->peer.port);
    uint64_t queued = net_sim_path_queued(f, path);
    uint64_t at = net_sim_path_arrival(f, path, size);
    int lost = snic_rng_below(f->rng, 1000000) < l->loss_ppm;
    int damaged = snic_rng_below(f->rng, 1000000) < l->corrupt_ppm;
    if (lost || at == SNIC_NEVER || to == NULL || (path != NULL && path->cut) ||
        (l->size_max != 0 && size > l->size_max))
        return;
    struct net_sim_packet *p = net_sim_packet_make(d, t, offset, size);
    if (p == NULL)
        return;
    if (damaged)
        net_sim_damage(f, p);
    for (int i = 0; i < fate->corrupt; i++)
        net_sim_damage(f, p);
    if (l->reorder_ppm > 0 && snic_rng_below(f->rng, 1000000) < l->reorder_ppm)
        at += l->reorder_ns;
    if ((fate->mark || (l->mark_bytes > 0 && queued > l->mark_bytes)) &&
        (p->ecn == 1 || p->ecn == 2))
        p->ecn = 3;
    p->to = to;
    snic_link_append(&to->packets, &p->link);
    snic_timer_init(&p->arrive, net_sim_packet_fire);
    snic_loop_arm(to->n.loop, &p->arrive, at + fate->extra_ns);
}

/* Into the switches; a node's own wire is the first. */
static void net_sim_packet_into(struct net_sim_dgram *d, const struct snic_net_train *t,
                                uint64_t offset, uint32_t size, const struct net_sim_place *at)
{
    struct snic_net_fabric *f = ((struct net_sim *)d->d.net)->fabric;
    const struct net_sim_path *path = net_sim_path_find(f, at->id, t->peer.node);
    if (path != NULL && path->cut)
        return;
    struct net_sim_packet *p = net_sim_packet_make(d, t, offset, size);
    if (p == NULL) {
        f->graph.stats.lost_pool++;
        return;
    }
    snic_link_append(&f->graph.transit, &p->link);
    net_sim_depart(f, p, at);
}

static void net_sim_packet_send(struct net_sim_dgram *d, const struct snic_net_train *t,
                                uint64_t offset, uint32_t size)
{
    struct net_sim *n = (struct net_sim *)d->d.net;
    struct snic_net_fabric *f = n->fabric;
    const struct net_sim_place *at =
        t->peer.node != n->node ? net_sim_place_find(&f->graph, n->node) : NULL;
    struct net_sim_fate fate;
    n->n.stats.dgrams_out++;
    n->n.stats.dgram_sends++;
    if (at != NULL) {
        net_sim_packet_into(d, t, offset, size, at);
        return;
    }
    struct net_sim_path *path = net_sim_path_find(f, n->node, t->peer.node);
    const struct snic_net_link *l = path != NULL ? &path->link : &f->link;
    const struct net_sim_flow flow = {n->node, t->peer.node, d->port, t->peer.port};
    unsigned copies = snic_rng_below(f->rng, 1000000) < l->duplicate_ppm ? 2 : 1;
    memset(&fate, 0, sizeof(fate));
    net_sim_faults(f, &fate, &flow, n->node, SNIC_NET__SIM_NONE, size);
    for (copies += (unsigned)fate.copies; copies > 0 && !fate.drop; copies--)
        net_sim_packet_over(d, t, offset, size, path, &fate);
}

int net_sim_dgram_send(struct snic_net_dgram *base, struct snic_net_train *t)
{
    struct net_sim_dgram *d = (struct net_sim_dgram *)base;
    struct net_sim *n = (struct net_sim *)base->net;
    uint64_t count = net_train_count(t);
    uint64_t bytes = net_iov_bytes(t->iov, t->iov_count);
    if (count == 0 || t->peer.family != SNIC_NET_SIM || t->peer.port == 0)
        return SNIC_EINVAL;
    if (t->segment > SNIC_NET__SIM_PACKET_BYTES || count > SNIC_NET_TRAIN_MAX)
        return SNIC_EMSGSIZE;
    if (d->send_count >= n->opts.send_queue) {
        d->full = 1;
        return 0;
    }
    for (uint64_t off = 0; off < bytes; off += t->segment)
        net_sim_packet_send(d, t, off, (uint32_t)snic_min_u64(t->segment, bytes - off));
    d->send_count++;
    t->result = (int32_t)count;
    snic_queue_push(&d->dones, &t->node);
    net_sim_dgram_kick(d);
    return 1;
}

void net_sim_dgram_close(struct snic_net_dgram *base)
{
    struct net_sim_dgram *d = (struct net_sim_dgram *)base;
    d->closing = 1;
    net_sim_dgram_kick(d);
}

/* The handle closes: report what is sent, forget what is on its way here. */
void net_sim_dgram_shut(struct net_sim *n)
{
    for (unsigned i = 0; i < n->opts.dgrams_max; i++) {
        struct net_sim_dgram *d = &n->dgrams[i];
        if (!d->used)
            continue;
        d->closing = 1;
        snic_loop_cancel(n->n.loop, &d->kick);
        while (d->used)
            net_sim_dgram_report(d);
    }
    while (!snic_link_alone(&n->packets)) {
        struct net_sim_packet *p = SNIC_CONTAINER(n->packets.next, struct net_sim_packet, link);
        snic_loop_cancel(n->n.loop, &p->arrive);
        net_sim_packet_free(p);
    }
}
