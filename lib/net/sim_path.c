/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * Paths between the nodes of the simulated network, and the ports that a node has in use.
 */
#include "net/sim_priv.h"

#include <stdlib.h>

#include "base/simd.h"

static uint32_t net_sim_bucket(uint32_t from, uint32_t to)
{
    return (from * 0x9e3779b1u ^ to * 0x85ebca6bu) % SNIC_NET__SIM_BUCKETS;
}

struct net_sim_path *net_sim_path_find(struct snic_net_fabric *f, uint32_t from, uint32_t to)
{
    struct net_sim_path *p = f->paths[net_sim_bucket(from, to)];
    while (p != NULL && (p->from != from || p->to != to))
        p = p->next;
    return p;
}

struct net_sim_path *net_sim_path_make(struct snic_net_fabric *f, uint32_t from, uint32_t to)
{
    struct net_sim_path **bucket = &f->paths[net_sim_bucket(from, to)];
    struct net_sim_path *p = net_sim_path_find(f, from, to);
    if (p != NULL)
        return p;
    p = calloc(1, sizeof(*p));
    if (p == NULL)
        return NULL;
    p->from = from;
    p->to = to;
    p->link = f->link;
    p->next = *bucket;
    *bucket = p;
    return p;
}

uint64_t net_sim_path_delay(struct snic_net_fabric *f, const struct net_sim_path *p)
{
    const struct snic_net_link *l = p != NULL ? &p->link : &f->link;
    uint64_t span = l->delay_max_ns - l->delay_min_ns;
    return l->delay_min_ns + (span > 0 ? snic_rng_below(f->rng, span + 1) : 0);
}

/* Bytes that wait for the link. */
uint64_t net_sim_path_queued(const struct snic_net_fabric *f, const struct net_sim_path *p)
{
    uint64_t now = snic_world_now(f->world);
    if (p == NULL || p->link.bytes_per_s == 0 || p->busy_ns <= now)
        return 0;
    return (uint64_t)((base_u128)(p->busy_ns - now) * p->link.bytes_per_s / 1000000000u);
}

/* When @bytes sent now are there; accounts for the rate. SNIC_NEVER: the queue is full. */
uint64_t net_sim_path_arrival(struct snic_net_fabric *f, struct net_sim_path *p, uint64_t bytes)
{
    uint64_t now = snic_world_now(f->world);
    uint64_t delay = net_sim_path_delay(f, p);
    if (p == NULL || p->link.bytes_per_s == 0)
        return now + delay;
    uint64_t rate = p->link.bytes_per_s;
    uint64_t backlog_ns = p->busy_ns > now ? p->busy_ns - now : 0;
    base_u128 queued = (base_u128)backlog_ns * rate / 1000000000u;
    if (queued + bytes > p->link.queue_bytes && backlog_ns > 0)
        return SNIC_NEVER;
    p->busy_ns = now + backlog_ns + (bytes * 1000000000u + rate - 1) / rate;
    return p->busy_ns + delay;
}

int net_sim_link_read(struct snic_net_link *out, const struct snic_net_link *in)
{
    static const struct snic_net_link zero;
    struct snic_net_link l = *in;
    if (memcmp(in, &zero, sizeof(zero)) == 0) {
        l.delay_min_ns = 10000;
        l.delay_max_ns = 50000;
    }
    if (l.queue_bytes == 0)
        l.queue_bytes = 1u << 20;
    if (l.delay_max_ns < l.delay_min_ns || l.delay_max_ns > 3600000000000u ||
        l.bytes_per_s > (uint64_t)1 << 40 || l.loss_ppm > 1000000 || l.duplicate_ppm > 1000000 ||
        l.corrupt_ppm > 1000000 || l.reorder_ppm > 1000000 || l.reorder_ns > 3600000000000u ||
        l.reserved != 0)
        return SNIC_EINVAL;
    *out = l;
    return 0;
}

int net_sim_cut(const struct net_sim_conn *c)
{
    return (c->out != NULL && c->out->cut) || (c->in != NULL && c->in->cut);
}

/* ---- Ports ---- */

struct net_sim_listener *net_sim_listener_of(struct net_sim *n, uint32_t port)
{
    for (unsigned i = 0; i < SNIC_NET__SIM_LISTENERS; i++) {
        struct net_sim_listener *l = &n->listeners[i];
        if (l->used && !l->dead && l->port == port)
            return l;
    }
    return NULL;
}

/* How many listeners of @node at @port there are that listened before @before. */
uint64_t net_sim_listeners(struct snic_net_fabric *f, uint32_t node, uint32_t port, uint64_t before)
{
    uint64_t count = 0;
    for (struct snic_link *i = f->handles.next; i != &f->handles; i = i->next) {
        struct net_sim *n = SNIC_CONTAINER(i, struct net_sim, link);
        struct net_sim_listener *l = n->node == node ? net_sim_listener_of(n, port) : NULL;
        count += l != NULL && l->serial < before;
    }
    return count;
}

/* A port above 49152 that no listener and no datagram socket of @node has. */
uint16_t net_sim_port(struct snic_net_fabric *f, uint32_t node)
{
    for (;;) {
        uint16_t port = (uint16_t)(49152 + f->next_port++ % 16384);
        int taken = net_sim_listeners(f, node, port, UINT64_MAX) > 0;
        for (struct snic_link *i = f->handles.next; i != &f->handles; i = i->next) {
            struct net_sim *n = SNIC_CONTAINER(i, struct net_sim, link);
            for (unsigned k = 0; n->node == node && k < n->opts.dgrams_max; k++)
                taken |= n->dgrams[k].used && n->dgrams[k].port == port;
        }
        if (!taken)
            return port;
    }
}
