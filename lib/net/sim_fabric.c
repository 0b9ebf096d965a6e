/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * Switches and wires of the simulated network, and the routes over them.
 *
 * A place is a switch, or a node that has a wire. `far` holds the distance in wires from each place
 * to each node. A datagram takes one of the wires that lead nearer to its destination, chosen by
 * its flow hash, so no ECMP groups are kept. Routes are computed at once when a wire is added, and
 * converge_ns after a wire or switch goes down or comes up.
 *
 * F1  A wire known to be down is never taken; a dead one is, until it is set DOWN. Each wire taken
 *     reduces the distance by one, so there are no loops unless a change is not yet in the routes.
 * F2  A packet is on the list `transit` while it is among switches, then on its handle's list.
 * F3  Memory is allocated when places and wires are made, never when a packet is sent.
 */
#include "net/sim_priv.h"

#include <stdlib.h>

/* ---- Hashes ---- */

static uint64_t net_sim_mix(uint64_t x)
{
    x = (x ^ x >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
    x = (x ^ x >> 27) * UINT64_C(0x94d049bb133111eb);
    return x ^ x >> 31;
}

/* The hashes of the two directions of a flow are independent. */
uint64_t net_sim_flow_hash(uint64_t seed, const struct net_sim_flow *w)
{
    uint64_t h = net_sim_mix(seed + UINT64_C(0x9e3779b97f4a7c15));
    h = net_sim_mix(h ^ ((uint64_t)w->from << 32 | w->to));
    return net_sim_mix(h + ((uint64_t)w->from_port << 16 | w->to_port));
}

/* ---- Places and wires ---- */

struct net_sim_place *net_sim_place_find(const struct net_sim_graph *g, uint32_t id)
{
    for (uint32_t i = 0; i < g->place_count; i++) {
        if (g->places[i].id == id)
            return &g->places[i];
    }
    return NULL;
}

/* Grow *mem, which holds *max elements of @size bytes, when @count of them are used. */
static int net_sim_grow(void **mem, uint32_t count, uint32_t *max, size_t size)
{
    if (count < *max)
        return 0;
    uint32_t more = *max == 0 ? 16 : 2 * *max;
    void *p = realloc(*mem, more * size);
    if (p == NULL)
        return SNIC_ENOMEM;
    *mem = p;
    *max = more;
    return 0;
}

/* Grow the routing tables to @places and @targets, and one target more. */
static int net_sim_tables(struct net_sim_graph *g, uint32_t places, uint32_t targets)
{
    unsigned char *far = realloc(g->far, (size_t)places * (targets + 1));
    if (far == NULL)
        return SNIC_ENOMEM;
    g->far = far;
    uint32_t *turn = realloc(g->turn, places * sizeof(*turn));
    if (turn == NULL)
        return SNIC_ENOMEM;
    g->turn = turn;
    return 0;
}

static int net_sim_place_make(struct net_sim_graph *g, uint32_t id)
{
    uint32_t node = id < SNIC_NET_SWITCH;
    void *mem = g->places;
    if (net_sim_grow(&mem, g->place_count, &g->place_max, sizeof(*g->places)) < 0)
        return SNIC_ENOMEM;
    g->places = mem;
    if (net_sim_tables(g, g->place_count + 1, g->targets + node) < 0)
        return SNIC_ENOMEM;
    struct net_sim_place *p = &g->places[g->place_count++];
    memset(p, 0, sizeof(*p));
    p->id = id;
    p->seed = id;
    p->first = SNIC_NET__SIM_NONE;
    p->last = SNIC_NET__SIM_NONE;
    p->target = SNIC_NET__SIM_NONE;
    if (node)
        p->target = g->targets++;
    return 0;
}

/* ---- Routes ---- */

/* Distances to one node, by breadth-first search; nodes do not forward. */
static void net_sim_route_to(struct net_sim_graph *g, uint32_t node)
{
    uint32_t column = g->places[node].target;
    uint32_t tail = 0;
    for (uint32_t i = 0; i < g->place_count; i++)
        g->far[(size_t)i * g->targets + column] = SNIC_NET__SIM_FAR;
    g->far[(size_t)node * g->targets + column] = 0;
    g->turn[tail++] = node;
    for (uint32_t head = 0; head < tail; head++) {
        uint32_t at = g->turn[head];
        uint32_t far = g->far[(size_t)at * g->targets + column];
        if ((at != node && g->places[at].target != SNIC_NET__SIM_NONE) ||
            far + 1 >= SNIC_NET__SIM_FAR)
            continue;
        for (uint32_t i = 0; i < g->wire_count; i++) {
            const struct net_sim_wire *w = &g->wires[i];
            unsigned char *from = &g->far[(size_t)w->from * g->targets + column];
            if (w->to != at || *from != SNIC_NET__SIM_FAR || w->known_down)
                continue;
            *from = (unsigned char)(far + 1);
            g->turn[tail++] = w->from;
        }
    }
}

static void net_sim_routes(struct net_sim_graph *g)
{
    g->stats.routed++;
    for (uint32_t i = 0; i < g->wire_count; i++) {
        struct net_sim_wire *w = &g->wires[i];
        w->known_down = w->state == SNIC_NET_DOWN || g->places[w->from].state == SNIC_NET_DOWN ||
                        g->places[w->to].state == SNIC_NET_DOWN;
    }
    for (uint32_t i = 0; i < g->place_count; i++) {
        if (g->places[i].target != SNIC_NET__SIM_NONE)
            net_sim_route_to(g, i);
    }
}

static void net_sim_converge_fire(struct snic_timer *t, uint64_t now_ns)
{
    (void)now_ns;
    net_sim_routes(SNIC_CONTAINER(t, struct net_sim_graph, converge));
}

/* 1 if the wire leads one nearer from a place at distance @far. */
static int net_sim_leads(const struct net_sim_graph *g, const struct net_sim_wire *w,
                         uint32_t column, uint32_t far)
{
    return !w->known_down && g->far[(size_t)w->to * g->targets + column] + 1u == far;
}

/* The wire that a datagram takes from @at; SNIC_NET__SIM_NONE: no route. */
uint32_t net_sim_route(const struct net_sim_graph *g, const struct net_sim_place *at,
                       const struct net_sim_flow *w)
{
    const struct net_sim_place *to = net_sim_place_find(g, w->to);
    uint32_t count = 0;
    if (to == NULL || at == to)
        return SNIC_NET__SIM_NONE;
    uint32_t far = g->far[(size_t)(at - g->places) * g->targets + to->target];
    if (far == SNIC_NET__SIM_FAR)
        return SNIC_NET__SIM_NONE;
    for (uint32_t i = at->first; i != SNIC_NET__SIM_NONE; i = g->wires[i].next)
        count += (uint32_t)net_sim_leads(g, &g->wires[i], to->target, far);
    if (count == 0)
        return SNIC_NET__SIM_NONE;
    uint64_t pick = net_sim_flow_hash(at->seed, w) % count;
    for (uint32_t i = at->first; i != SNIC_NET__SIM_NONE; i = g->wires[i].next) {
        if (net_sim_leads(g, &g->wires[i], to->target, far) && pick-- == 0)
            return i;
    }
    return SNIC_NET__SIM_NONE;
}

/* ---- Public functions ---- */

static int net_sim_graph_open(struct snic_net_fabric *f)
{
    struct net_sim_graph *g = &f->graph;
    if (g->loop != NULL)
        return 0;
    int r = snic_world_loop(f->world, SNIC_NET_FABRIC_NODE, &g->loop);
    if (r < 0)
        return r == SNIC_ENOMEM ? SNIC_ENOMEM : SNIC_ENOSPC;
    snic_timer_init(&g->converge, net_sim_converge_fire);
    return 0;
}

void net_sim_graph_close(struct snic_net_fabric *f)
{
    struct net_sim_graph *g = &f->graph;
    while (!snic_link_alone(&g->transit)) {
        struct net_sim_packet *p = SNIC_CONTAINER(g->transit.next, struct net_sim_packet, link);
        snic_loop_cancel(g->loop, &p->arrive);
        net_sim_packet_free(p);
    }
    if (g->loop != NULL) {
        snic_loop_cancel(g->loop, &g->converge);
        snic_loop_close(g->loop);
    }
    free(g->places);
    free(g->wires);
    free(g->far);
    free(g->turn);
}

int snic_net_fabric_switch(struct snic_net_fabric *f, uint32_t *out)
{
    struct net_sim_graph *g = &f->graph;
    if (g->switches == SNIC_NET__SIM_SWITCHES)
        return SNIC_ENOSPC;
    int r = net_sim_graph_open(f);
    if (r == 0)
        r = net_sim_place_make(g, SNIC_NET_SWITCH + g->switches);
    if (r < 0)
        return r;
    *out = SNIC_NET_SWITCH + g->switches++;
    net_sim_routes(g); /* the table of distances has another layout now */
    return 0;
}

int snic_net_fabric_hash(struct snic_net_fabric *f, uint32_t place, uint64_t seed)
{
    struct net_sim_place *p = net_sim_place_find(&f->graph, place);
    if (p == NULL)
        return SNIC_ENOENT;
    p->seed = seed;
    return 0;
}

/* The index of the place @id; a node's place is made if missing. */
static int net_sim_place_get(struct net_sim_graph *g, uint32_t id, uint32_t *out)
{
    struct net_sim_place *p = net_sim_place_find(g, id);
    if (p == NULL && id >= SNIC_NET_SWITCH)
        return SNIC_ENOENT;
    if (p == NULL && net_sim_place_make(g, id) < 0)
        return SNIC_ENOMEM;
    *out = p != NULL ? (uint32_t)(p - g->places) : g->place_count - 1;
    return 0;
}

int snic_net_fabric_wire(struct snic_net_fabric *f, uint32_t from, uint32_t to,
                         const struct snic_net_link *l, uint32_t *out)
{
    struct net_sim_graph *g = &f->graph;
    struct net_sim_wire w;
    memset(&w, 0, sizeof(w));
    if (from == to || (from < SNIC_NET_SWITCH && to < SNIC_NET_SWITCH) ||
        net_sim_link_read(&w.link, l) < 0)
        return SNIC_EINVAL;
    if (g->wire_count == SNIC_NET__SIM_WIRES)
        return SNIC_ENOSPC;
    if ((from >= SNIC_NET_SWITCH && net_sim_place_find(g, from) == NULL) ||
        (to >= SNIC_NET_SWITCH && net_sim_place_find(g, to) == NULL))
        return SNIC_ENOENT;
    void *mem = g->wires;
    if (net_sim_grow(&mem, g->wire_count, &g->wire_max, sizeof(*g->wires)) < 0)
        return SNIC_ENOMEM;
    g->wires = mem;
    int r = net_sim_place_get(g, from, &w.from);
    if (r == 0)
        r = net_sim_place_get(g, to, &w.to);
    if (r < 0) {
        net_sim_routes(g); /* a place may have been made, and with it another layout */
        return r;
    }
    w.next = SNIC_NET__SIM_NONE;
    struct net_sim_place *p = &g->places[w.from];
    if (p->first == SNIC_NET__SIM_NONE)
        p->first = g->wire_count;
    else
        g->wires[p->last].next = g->wire_count;
    p->last = g->wire_count;
    g->wires[g->wire_count] = w;
    *out = g->wire_count++;
    net_sim_routes(g);
    return 0;
}

int snic_net_fabric_wire_set(struct snic_net_fabric *f, uint32_t wire,
                             const struct snic_net_link *l)
{
    struct snic_net_link link;
    if (net_sim_link_read(&link, l) < 0)
        return SNIC_EINVAL;
    if (wire >= f->graph.wire_count)
        return SNIC_ENOENT;
    f->graph.wires[wire].link = link;
    return 0;
}

int snic_net_fabric_state(struct snic_net_fabric *f, uint32_t what, enum snic_net_state state)
{
    struct net_sim_graph *g = &f->graph;
    struct net_sim_place *p = what >= SNIC_NET_SWITCH ? net_sim_place_find(g, what) : NULL;
    if (state != SNIC_NET_UP && state != SNIC_NET_DOWN && state != SNIC_NET_DEAD)
        return SNIC_EINVAL;
    if (what >= SNIC_NET_SWITCH ? p == NULL : what >= g->wire_count)
        return SNIC_ENOENT;
    enum snic_net_state *now = p != NULL ? &p->state : &g->wires[what].state;
    int carrier_changed = (*now == SNIC_NET_DOWN) != (state == SNIC_NET_DOWN);
    *now = state;
    if (carrier_changed && !g->converge.armed)
        snic_loop_arm(g->loop, &g->converge, snic_world_now(f->world) + g->converge_ns);
    return 0;
}

int snic_net_fabric_way(struct snic_net_fabric *f, uint32_t from, uint16_t from_port, uint32_t to,
                        uint16_t to_port, uint32_t *wires, uint32_t max)
{
    const struct net_sim_graph *g = &f->graph;
    const struct net_sim_place *at = net_sim_place_find(g, from);
    struct net_sim_flow w = {from, to, from_port, to_port};
    uint32_t count = 0;
    while (at != NULL && at->id != to && count < SNIC_NET__SIM_HOPS) {
        uint32_t wire = net_sim_route(g, at, &w);
        if (wire == SNIC_NET__SIM_NONE)
            return SNIC_EHOSTUNREACH;
        if (count < max)
            wires[count] = wire;
        count++;
        at = &g->places[g->wires[wire].to];
    }
    return at != NULL && at->id == to && count > 0 ? (int)count : SNIC_EHOSTUNREACH;
}

int snic_net_fabric_wire_stats(const struct snic_net_fabric *f, uint32_t wire,
                               struct snic_net_wire_stats *out)
{
    if (wire >= f->graph.wire_count)
        return SNIC_ENOENT;
    *out = f->graph.wires[wire].stats;
    return 0;
}

void snic_net_fabric_get_stats(const struct snic_net_fabric *f, struct snic_net_fabric_stats *out)
{
    *out = f->graph.stats;
}

void snic_net_fabric_on_hop(struct snic_net_fabric *f, snic_net_hop_fn fn, void *ctx)
{
    f->graph.hop = fn;
    f->graph.hop_ctx = ctx;
}
