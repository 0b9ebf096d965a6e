/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * How a datagram goes from port to port, and what faults do to it on the way.
 *
 * Each wire has a queue in front of it, which is a number of bytes and the time at which the port
 * has sent them: a datagram's timer is first the end of its sending, then its arrival. So ports
 * serve in order of arrival, and a hop's telemetry knows what waits behind. Timers of all places
 * but the last are on the fabric's own loop; arrival at a node is on the node's, which may sleep.
 */
#include "net/sim_priv.h"

static void net_sim_step_fire(struct snic_timer *t, uint64_t now_ns);

static int net_sim_draw(struct snic_net_fabric *f, uint32_t ppm)
{
    return ppm > 0 && snic_rng_below(f->rng, 1000000) < ppm;
}

void net_sim_damage(struct snic_net_fabric *f, struct net_sim_packet *p)
{
    uint64_t bit = snic_rng_below(f->rng, 8);
    p->data[snic_rng_below(f->rng, p->size)] ^= (unsigned char)(1u << bit);
}

/* ---- Faults ---- */

static int net_sim_fault_meets(const struct snic_net_fault *x, const struct net_sim_flow *w,
                               uint32_t place, uint32_t wire, uint32_t size)
{
    return (x->wire == SNIC_NET_ANY || x->wire == wire) &&
           (x->place == SNIC_NET_ANY || x->place == place) &&
           (x->from == SNIC_NET_ANY || x->from == w->from) &&
           (x->to == SNIC_NET_ANY || x->to == w->to) && size >= x->size_min &&
           (x->size_max == 0 || size <= x->size_max) &&
           (w->from_port & x->port_mask) == x->port_value &&
           (x->buckets == 0 || net_sim_flow_hash(x->seed, w) % x->buckets == x->bucket);
}

static void net_sim_fault_do(const struct snic_net_fault *x, struct net_sim_fate *fate)
{
    switch (x->action) {
    case SNIC_NET_DROP:
        fate->drop = 1;
        fate->fault = 1;
        break;
    case SNIC_NET_DUPLICATE:
        fate->copies++;
        break;
    case SNIC_NET_CORRUPT:
        fate->corrupt++;
        break;
    case SNIC_NET_DELAY:
        fate->extra_ns += x->delay_ns;
        break;
    default:
        fate->mark = 1;
        break;
    }
}

/* All faults, in order, until one drops it. */
void net_sim_faults(struct snic_net_fabric *f, struct net_sim_fate *fate,
                    const struct net_sim_flow *w, uint32_t place, uint32_t wire, uint32_t size)
{
    for (uint32_t i = 0; i < f->fault_count && !fate->drop; i++) {
        struct net_sim_fault *r = &f->faults[i];
        if (!r->on || !net_sim_fault_meets(&r->x, w, place, wire, size) ||
            (r->x.chance_ppm > 0 && !net_sim_draw(f, r->x.chance_ppm)))
            continue;
        if (r->seen++ < r->x.skip)
            continue;
        r->hits++;
        if (r->hits == r->x.limit)
            r->on = 0;
        net_sim_fault_do(&r->x, fate);
    }
}

int snic_net_fabric_fault(struct snic_net_fabric *f, const struct snic_net_fault *x, uint32_t *out)
{
    if (x->action > SNIC_NET_MARK || x->chance_ppm > 1000000 || x->delay_ns > 3600000000000u ||
        (x->size_max != 0 && x->size_max < x->size_min) ||
        (x->buckets > 0 && x->bucket >= x->buckets) || (x->port_value & ~x->port_mask) != 0)
        return SNIC_EINVAL;
    if (f->fault_count == SNIC_NET__SIM_FAULTS)
        return SNIC_ENOSPC;
    struct net_sim_fault *r = &f->faults[f->fault_count];
    memset(r, 0, sizeof(*r));
    r->x = *x;
    r->on = 1;
    *out = f->fault_count++;
    return 0;
}

int snic_net_fabric_fault_set(struct snic_net_fabric *f, uint32_t fault, int on)
{
    if (fault >= f->fault_count)
        return SNIC_ENOENT;
    f->faults[fault].on = on != 0;
    return 0;
}

uint64_t snic_net_fabric_fault_hits(const struct snic_net_fabric *f, uint32_t fault)
{
    return fault < f->fault_count ? f->faults[fault].hits : 0;
}

/* ---- Ports ---- */

/* The last wire is passed: at the node, when it is awake. */
static void net_sim_deliver_at(struct snic_net_fabric *f, struct net_sim_packet *p, uint64_t at_ns)
{
    p->to = net_sim_dgram_route(f, p->flow.to, p->flow.to_port);
    if (p->to == NULL) {
        net_sim_packet_free(p);
        return;
    }
    f->graph.stats.delivered++;
    snic_link_remove(&p->link);
    snic_link_append(&p->to->packets, &p->link); /* F2 */
    snic_timer_init(&p->arrive, net_sim_packet_fire);
    snic_loop_arm(p->to->n.loop, &p->arrive, at_ns);
}

static int net_sim_wire_works(const struct net_sim_graph *g, const struct net_sim_wire *w)
{
    return w->state == SNIC_NET_UP && g->places[w->from].state == SNIC_NET_UP &&
           g->places[w->to].state == SNIC_NET_UP;
}

/* The port has sent all of @p. */
static void net_sim_sent_off(struct snic_net_fabric *f, struct net_sim_packet *p, uint64_t now_ns)
{
    struct net_sim_graph *g = &f->graph;
    struct net_sim_wire *w = &g->wires[p->wire];
    const struct net_sim_place *from = &g->places[w->from];
    w->stats.queue_bytes -= p->queued ? p->size : 0;
    p->queued = 0;
    if (!net_sim_wire_works(g, w)) {
        w->stats.lost_state++;
        net_sim_packet_free(p);
        return;
    }
    w->stats.datagrams++;
    w->stats.bytes += p->size;
    if (g->hop != NULL && from->target == SNIC_NET__SIM_NONE) {
        struct snic_net_hop h = {
            now_ns, w->stats.bytes, w->stats.queue_bytes, w->link.bytes_per_s, from->id, p->wire};
        g->hop(g->hop_ctx, &h, p->data, p->size);
    }
    uint64_t span = w->link.delay_max_ns - w->link.delay_min_ns;
    uint64_t at = now_ns + w->link.delay_min_ns + p->extra_ns;
    at += span > 0 ? snic_rng_below(f->rng, span + 1) : 0;
    p->extra_ns = 0;
    if (g->places[w->to].target != SNIC_NET__SIM_NONE)
        net_sim_deliver_at(f, p, at);
    else
        snic_loop_arm(g->loop, &p->arrive, at);
}

/* Into the queue of its wire, or dropped. */
static void net_sim_enqueue(struct snic_net_fabric *f, struct net_sim_packet *p)
{
    struct net_sim_wire *w = &f->graph.wires[p->wire];
    uint64_t now = snic_world_now(f->world);
    uint64_t queued = w->stats.queue_bytes;
    if (w->link.bytes_per_s == 0) {
        net_sim_sent_off(f, p, now);
        return;
    }
    if (queued > 0 && queued + p->size > w->link.queue_bytes) {
        w->stats.lost_queue++;
        net_sim_packet_free(p);
        return;
    }
    if (w->link.mark_bytes > 0 && queued > w->link.mark_bytes && (p->ecn == 1 || p->ecn == 2)) {
        p->ecn = 3;
        w->stats.marked++;
    }
    w->stats.queue_bytes += p->size;
    w->stats.queue_high = snic_max_u64(w->stats.queue_high, w->stats.queue_bytes);
    w->busy_ns = snic_max_u64(w->busy_ns, now) +
                 (p->size * UINT64_C(1000000000) + w->link.bytes_per_s - 1) / w->link.bytes_per_s;
    p->queued = 1;
    snic_loop_arm(f->graph.loop, &p->arrive, w->busy_ns);
}

/* What the wire's own options do to a datagram, after faults. */
static void net_sim_wire_fate(struct snic_net_fabric *f, struct net_sim_wire *w,
                              struct net_sim_fate *fate, uint32_t size)
{
    if (fate->drop) {
        w->stats.lost_fault++;
    } else if (w->link.size_max != 0 && size > w->link.size_max) {
        w->stats.lost_size++;
        fate->drop = 1;
    } else if (net_sim_draw(f, w->link.loss_ppm)) {
        w->stats.lost++;
        fate->drop = 1;
    } else {
        fate->copies += net_sim_draw(f, w->link.duplicate_ppm);
        fate->corrupt += net_sim_draw(f, w->link.corrupt_ppm);
        if (net_sim_draw(f, w->link.reorder_ppm)) {
            fate->extra_ns += w->link.reorder_ns;
            w->stats.reordered++;
        }
    }
}

/* @p is at @at, which is not where it goes: on, over the wire that its flow takes. */
void net_sim_depart(struct snic_net_fabric *f, struct net_sim_packet *p,
                    const struct net_sim_place *at)
{
    struct net_sim_graph *g = &f->graph;
    struct net_sim_fate fate;
    uint32_t wire = net_sim_route(g, at, &p->flow);
    if (wire == SNIC_NET__SIM_NONE || p->hops == SNIC_NET__SIM_HOPS) {
        g->stats.lost_route += wire == SNIC_NET__SIM_NONE;
        g->stats.lost_hops += wire != SNIC_NET__SIM_NONE;
        net_sim_packet_free(p);
        return;
    }
    struct net_sim_wire *w = &g->wires[wire];
    g->stats.datagrams += p->hops == 0;
    p->hops++;
    p->wire = wire;
    snic_timer_init(&p->arrive, net_sim_step_fire);
    if (!net_sim_wire_works(g, w)) {
        w->stats.lost_state++;
        net_sim_packet_free(p);
        return;
    }
    memset(&fate, 0, sizeof(fate));
    net_sim_faults(f, &fate, &p->flow, at->id, wire, p->size);
    net_sim_wire_fate(f, w, &fate, p->size);
    if (fate.drop) {
        net_sim_packet_free(p);
        return;
    }
    if (fate.mark && (p->ecn == 1 || p->ecn == 2)) {
        p->ecn = 3;
        w->stats.marked++;
    }
    w->stats.duplicated += (uint64_t)fate.copies;
    w->stats.corrupted += fate.corrupt > 0;
    for (; fate.copies > 0; fate.copies--) {
        struct net_sim_packet *copy = net_sim_packet_copy(f, p);
        if (copy == NULL) {
            g->stats.lost_pool++;
            continue;
        }
        snic_timer_init(&copy->arrive, net_sim_step_fire);
        net_sim_enqueue(f, copy);
    }
    for (; fate.corrupt > 0; fate.corrupt--)
        net_sim_damage(f, p);
    p->extra_ns = fate.extra_ns;
    net_sim_enqueue(f, p);
}

/* A datagram has left its port, or is at the next switch. */
static void net_sim_step_fire(struct snic_timer *t, uint64_t now_ns)
{
    struct net_sim_packet *p = SNIC_CONTAINER(t, struct net_sim_packet, arrive);
    struct snic_net_fabric *f = p->fabric;
    if (p->queued)
        net_sim_sent_off(f, p, now_ns);
    else
        net_sim_depart(f, p, &f->graph.places[f->graph.wires[p->wire].to]);
}
