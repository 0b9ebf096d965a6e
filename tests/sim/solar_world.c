/* SPDX-License-Identifier: Apache-2.0 OR MIT */
#include "solar_world_priv.h"

#include "eventheap.h"

#include <stdio.h>
#include <stdlib.h>

#define NONE UINT32_MAX

static struct world *world; /* one at a time, reused: its pages are warm */

void world_fail(struct world *w, const char *why)
{
    if (w->r.failure == NULL) {
        w->r.failure = why;
        fprintf(stderr, "seed %llu at %.3f ms, %llu I/Os: %s\n", (unsigned long long)w->o.seed,
                (double)w->now_ns / 1e6, (unsigned long long)w->done, why);
    }
}

int world_chance(struct world *w, uint32_t ppm)
{
    return ppm > 0 && snic_rng_next(&w->rng) % 1000000 < ppm;
}

/* ---- Events ---- */

void world_at(struct world *w, uint64_t at_ns, uint32_t type, uint32_t who, uint32_t index,
              uint32_t serial)
{
    struct event e = {at_ns, w->order++, type, who, index, serial};
    if (w->heap_count == EVENTS)
        world_fail(w, "too many events");
    else
        eventheap_push(w->heap, &w->heap_count, &e, sizeof(e));
}

static struct event world_next(struct world *w)
{
    struct event first;
    eventheap_pop(w->heap, &w->heap_count, &first, sizeof(first));
    return first;
}

/* ---- Fabric ---- */

/* Forward and back are hashed independently. */
static uint32_t spine_of(uint16_t port, uint32_t server, uint32_t direction)
{
    uint64_t h = ((uint64_t)port << 20 | server << 4 | direction) * UINT64_C(0x9e3779b97f4a7c15);
    h = (h ^ h >> 32) * UINT64_C(0xd6e8feb86659fd93);
    return (uint32_t)(h >> 40) % SPINES;
}

void world_release(struct world *w, uint32_t datagram)
{
    w->datagrams[datagram].next = w->free_datagram;
    w->free_datagram = datagram;
}

static int fabric_drops(struct world *w, const struct datagram *d, uint32_t direction,
                        uint32_t spine)
{
    if (w->now_ns >= w->o.dead_ns && (w->o.dead >> spine & 1) != 0)
        return 1;
    if (w->now_ns < w->hole_ns[direction][spine] || w->now_ns < w->servers[d->server].dark_until_ns)
        return 1;
    if (d->size > 1500 &&
        (w->now_ns < w->big_hole_ns[direction][spine] || (w->o.big_holes >> spine & 1) != 0))
        return 1;
    if (w->now_ns < w->lossy_ns[direction][spine] && world_chance(w, 300000))
        return 1;
    return world_chance(w, w->o.loss_ppm);
}

/* The spine's port: how fast it is, what it has sent, and what waits. */
static void fabric_stamp(struct world *w, struct datagram *d, uint32_t direction, uint32_t spine)
{
    struct snic_ebs_hop hop = {.speed = (uint8_t)snic_ebs_hop_speed(8 * w->o.bytes_per_s)};
    uint64_t busy = w->busy_ns[direction][spine];
    if (!w->o.stamps || d->size < SNIC_EBS_PREFIX_BYTES ||
        (snic_get_be16(d->bytes + 2) & SNIC_EBS_INT_REQ) == 0)
        return;
    hop.ts_ns = (uint32_t)(busy & 0xffffff);
    hop.tx_units = (uint32_t)(w->tx_bytes[direction][spine] / 128 & 0xfffff);
    hop.q_units = (uint32_t)((busy - w->now_ns) * w->o.bytes_per_s / WORLD_S / 80 & 0xffff);
    (void)snic_ebs_int_push(d->bytes + SNIC_EBS_HEADER_BYTES, &hop);
}

static void fabric_send(struct world *w, uint32_t index)
{
    struct datagram *d = &w->datagrams[index];
    uint32_t direction = !d->to_server, spine = spine_of(d->port, d->server, direction);
    uint64_t at = w->now_ns + 10 * WORLD_US;
    w->r.datagrams++;
    if (fabric_drops(w, d, direction, spine)) {
        world_release(w, index);
        return;
    }
    if (w->o.bytes_per_s != 0) {
        uint64_t *busy = &w->busy_ns[direction][spine];
        if (*busy > w->now_ns + WORLD_MS) { /* the queue is full */
            world_release(w, index);
            return;
        }
        *busy = snic_max_u64(*busy, w->now_ns) + d->size * WORLD_S / w->o.bytes_per_s;
        at += *busy - w->now_ns;
        w->tx_bytes[direction][spine] += d->size;
        w->queued += d->to_server != 0;
        w->queued_ns += d->to_server ? *busy - w->now_ns : 0;
        fabric_stamp(w, d, direction, spine);
    }
    if (w->o.jitter_ns != 0)
        at += snic_rng_below(&w->rng, w->o.jitter_ns);
    at += spine * w->o.skew_ns;
    if (w->now_ns < w->servers[d->server].hold_until_ns) {
        uint64_t half = w->o.late_ns != 0 ? w->o.late_ns / 2 : 25 * WORLD_MS;
        at += half + snic_rng_below(&w->rng, half);
    }
    if (d->to_server && w->o.server_ns != 0) {
        uint64_t *busy = &w->servers[d->server].busy_ns;
        *busy = snic_max_u64(*busy, at);
        if (*busy > at + 256 * w->o.server_ns) {
            world_release(w, index);
            return;
        }
        *busy += w->o.server_ns;
        at = *busy;
    }
    if (world_chance(w, w->o.corrupt_ppm)) {
        uint64_t bit = snic_rng_below(&w->rng, (uint64_t)d->size * 8);
        d->bytes[bit / 8] ^= (unsigned char)(1u << bit % 8);
    }
    world_at(w, at, EV_DATAGRAM, d->server, index, 0);
}

static uint32_t fabric_copy(struct world *w, const struct datagram *from)
{
    uint32_t i = w->free_datagram;
    if (i == NONE)
        return NONE;
    w->free_datagram = w->datagrams[i].next;
    memcpy(&w->datagrams[i], from, offsetof(struct datagram, bytes) + from->size);
    return i;
}

/* A packet number is used once on a path by an agent: they are a nonce, if packets are sealed. */
static void check_number(struct world *w, const struct datagram *d)
{
    uint64_t pn = snic_get_be64(d->bytes + 56);
    uint64_t *of = w->numbers[d->server][d->bytes[20] % SNIC_EBS_PATHS];
    uint64_t *last = &of[pn % SNIC_COUNTOF(w->numbers[0][0])];
    if (d->to_server && *last == pn)
        world_fail(w, "a packet number came twice");
    if (d->to_server)
        *last = pn;
}

/* Where a datagram of the agent comes from: its port, with what an answer has to find it by, and
   its host, which a proof is for. */
struct snic_ebs_peer world_peer(const struct world *w, const struct datagram *d)
{
    struct snic_ebs_peer peer = {{0, 0, 0}};
    peer.word[0] = (uint64_t)d->incarnation << 36 | (uint64_t)d->port << 20 | d->path << 16;
    peer.word[0] |= d->gen & 0xffff;
    peer.word[1] = w->o.nat ? d->port : 0;
    return peer;
}

void world_transmit(struct world *w, const struct snic_solar_train *t, int to_server, uint32_t s)
{
    uint32_t piece = 0;
    size_t at = 0;
    w->r.hash = (w->r.hash ^ (w->now_ns + t->bytes)) * WORLD_PRIME;
    for (uint32_t i = 0; i < t->packets; i++) {
        uint32_t n = w->free_datagram;
        if (n == NONE)
            return; /* a full queue */
        struct datagram *d = &w->datagrams[n];
        w->free_datagram = d->next;
        d->size = 0;
        while (d->size < t->segment && piece < t->iov_count) {
            size_t left = t->iov[piece].size - at;
            size_t size = left < t->segment - d->size ? left : t->segment - d->size;
            memcpy(d->bytes + d->size, (const unsigned char *)t->iov[piece].base + at, size);
            d->size += (uint32_t)size;
            at += size;
            if (at == t->iov[piece].size) {
                piece++;
                at = 0;
            }
        }
        d->to_server = (uint32_t)to_server;
        d->server = s;
        d->incarnation = to_server ? w->incarnation : (uint32_t)(t->peer.word[0] >> 36);
        d->path = to_server ? t->path : (uint32_t)(t->peer.word[0] >> 16 & 0xf);
        d->gen = to_server ? t->gen : (uint32_t)(t->peer.word[0] & 0xffff);
        d->port = to_server ? w->ports[s][t->path] : (uint16_t)(t->peer.word[0] >> 20);
        check_number(w, d);
        if (world_chance(w, w->o.dup_ppm)) {
            uint32_t copy = fabric_copy(w, d);
            if (copy != NONE)
                fabric_send(w, copy);
        }
        fabric_send(w, n);
    }
    if (piece != t->iov_count)
        world_fail(w, "a train's pieces are not its datagrams");
}

/* ---- Faults ---- */

static void world_fault(struct world *w)
{
    uint32_t kind = (uint32_t)snic_rng_below(&w->rng, WORLD_FAULTS);
    uint32_t dir = (uint32_t)snic_rng_below(&w->rng, 2);
    uint32_t spine = (uint32_t)snic_rng_below(&w->rng, SPINES);
    uint32_t s = (uint32_t)snic_rng_below(&w->rng, w->o.servers);
    uint64_t until = w->now_ns + (5 + snic_rng_below(&w->rng, 100)) * WORLD_MS;
    uint64_t next = WORLD_MS * (1 + snic_rng_below(&w->rng, 2 * w->o.faults));
    world_at(w, w->now_ns + next, EV_FAULT, 0, 0, 0);
    if (w->calm || (w->o.kinds >> kind & 1) == 0)
        return;
    w->r.faults[kind]++;
    if (w->o.print)
        printf("%.3f ms: fault %u, server %u, spine %u\n", (double)w->now_ns / 1e6, kind, s, spine);
    switch (kind) {
    case WORLD_HOLE:
        w->hole_ns[dir][spine] = until;
        break;
    case WORLD_BIG_HOLE:
        w->big_hole_ns[dir][spine] = until;
        break;
    case WORLD_LOSSY:
        w->lossy_ns[dir][spine] = until;
        break;
    case WORLD_SERVER:
        world_server_die(w, s);
        break;
    case WORLD_AGENT:
        world_agent_die(w);
        break;
    case WORLD_MOVE:
        world_move(w);
        break;
    case WORLD_STALL:
        w->asleep_ns = w->now_ns + snic_rng_below(&w->rng, 20 * WORLD_MS);
        break;
    case WORLD_STORE:
        w->servers[s].slow_until_ns = until;
        break;
    case WORLD_HOLD:
        w->servers[s].hold_until_ns = until;
        break;
    default:
        w->servers[s].dark_until_ns = until;
        break;
    }
}

static void world_heal(struct world *w)
{
    w->calm = 1;
    w->calm_ns = w->now_ns;
    memset(w->hole_ns, 0, sizeof(w->hole_ns));
    memset(w->big_hole_ns, 0, sizeof(w->big_hole_ns));
    memset(w->lossy_ns, 0, sizeof(w->lossy_ns));
    for (uint32_t i = 0; i < SERVERS; i++) {
        w->servers[i].slow_until_ns = 0;
        w->servers[i].dark_until_ns = 0;
        w->servers[i].hold_until_ns = 0;
    }
}

/* ---- A run ---- */

static void world_event(struct world *w, const struct event *e)
{
    struct datagram *d = &w->datagrams[e->index % DATAGRAMS];
    switch (e->type) {
    case EV_DATAGRAM:
        if (d->to_server)
            world_server_deliver(w, d->server, e->index);
        else
            world_agent_deliver(w, e->index);
        break;
    case EV_AGENT:
        if (e->who == w->incarnation && w->agent_up && e->at_ns >= w->wake_ns)
            world_agent_run(w);
        break;
    case EV_SERVER:
        if (e->serial == w->servers[e->who].serial)
            world_server_wake(w, e->who);
        break;
    case EV_STORED:
        if (e->serial == w->servers[e->who].serial)
            world_stored(w, e->who, e->index);
        else {
            w->requests[e->index].used = w->free_request;
            w->free_request = e->index;
        }
        break;
    case EV_TRAIN:
        if (e->who == w->incarnation && w->agent_up) {
            unsigned char *at = (unsigned char *)w->mem + (size_t)e->index * 8;
            struct snic_solar_train *t = (void *)at;
            if (e->serial == 0)
                world_transmit(w, t, 1, t->server);
            snic_solar_sent(w->c, t, w->now_ns);
            world_agent_soon(w, snic_max_u64(snic_solar_deadline_ns(w->c), w->now_ns));
        }
        break;
    case EV_FAULT:
        world_fault(w);
        break;
    case EV_SERVER_UP:
        world_server_start(w, e->who);
        break;
    case EV_AGENT_DOWN:
        if (w->calm || e->who != w->incarnation)
            break;
        w->r.faults[WORLD_AGENT]++;
        world_agent_die(w);
        break;
    default:
        world_agent_start(w);
        break;
    }
}

static void world_open(struct world *w, const struct world_opts *o)
{
    uint64_t *versions = w->versions;
    memset(w, 0, offsetof(struct world, requests));
    w->o = *o;
    w->versions = realloc(versions, (o->ios + SPAN * DISKS + 2) * sizeof(*versions));
    if (w->versions == NULL)
        abort();
    snic_rng_init(&w->rng, o->seed);
    w->free_datagram = NONE;
    w->free_request = NONE;
    for (uint32_t i = DATAGRAMS; i-- > 0;)
        world_release(w, i);
    for (uint32_t i = REQUESTS; i-- > 0;) {
        w->requests[i].used = w->free_request;
        w->free_request = i;
    }
    for (uint32_t d = 0; d < DISKS; d++) {
        w->epoch[d] = o->epoch != 0 ? o->epoch : 1;
        for (uint32_t i = 0; i < SEGMENTS; i++) {
            struct segment *s = &w->segments[d][i];
            s->seg_id = 100 * (d + 1) + i;
            s->server = (d + i) % o->servers;
            s->gen = 1;
        }
    }
    w->now_ns = 5 * WORLD_S;
    for (uint32_t i = 0; i < o->servers; i++)
        world_server_start(w, i);
    world_agent_start(w);
    if (o->faults != 0)
        world_at(w, w->now_ns + 10 * WORLD_MS, EV_FAULT, 0, 0, 0);
}

static void world_close(struct world *w)
{
    if (w->c != NULL) {
        snic_solar_get_stats(w->c, &w->r.agent);
        for (uint32_t i = 0; i < 2 * w->o.paths; i++)
            (void)!snic_solar_get_path(w->c, 0, i, &w->r.path[i]);
        if (w->r.agent.packets > 0)
            w->r.wrong_lost = w->r.agent.spurious * 1000000 / w->r.agent.packets;
    }
    if (w->servers[0].t != NULL)
        snic_solar_target_get_stats(w->servers[0].t, &w->r.target);
    free(w->mem);
    w->mem = NULL;
    for (uint32_t i = 0; i < w->o.servers; i++) {
        free(w->servers[i].mem);
        w->servers[i].mem = NULL;
    }
}

void world_run(const struct world_opts *o, struct world_result *r)
{
    if (world == NULL)
        world = calloc(1, sizeof(*world));
    struct world *w = world;
    if (w == NULL)
        abort();
    world_open(w, o);
    uint64_t began = w->now_ns, limit = began + 1000000 * WORLD_S;
    while (w->r.failure == NULL && !world_over(w) && w->heap_count > 0) {
        struct event e = world_next(w);
        w->now_ns = snic_max_u64(w->now_ns, e.at_ns);
        w->r.events++;
        world_event(w, &e);
        if (!w->calm && w->started >= o->ios)
            world_heal(w);
        if (w->now_ns > limit)
            world_fail(w, "no end");
    }
    if (!world_over(w))
        world_fail(w, "nothing moves any more");
    if (o->again_ppm != 0) {
        snic_solar_get_stats(w->c, &w->r.agent);
        if (w->r.agent.retransmits * 1000000 > w->r.agent.packets * o->again_ppm)
            world_fail(w, "blocks are sent again that nothing had lost");
    }
    w->r.ios = w->done;
    w->r.simulated_ns = w->now_ns - began;
    w->r.queue_ns = w->queued_ns / (w->queued + 1);
    world_close(w);
    *r = w->r;
}

/* Options that are 0, by the seed: each run is of another kind. */
void world_random(struct world_opts *o, uint64_t seed)
{
    static const uint32_t losses[] = {0, 0, 0, 1000, 10000, 50000, 200000, 500000, 750000, 900000};
    static const uint32_t spans[] = {16, 64, 512, 700, 4096};
    struct snic_rng g;
    snic_rng_init(&g, seed * 7919 + 13);
    o->seed = seed;
    o->servers = 1 + (uint32_t)snic_rng_below(&g, SERVERS);
    o->disks = 1 + (uint32_t)snic_rng_below(&g, DISKS);
    o->paths = snic_rng_below(&g, 4) == 0 ? 1 + (uint32_t)snic_rng_below(&g, 8) : 4;
    o->depth = 1u << snic_rng_below(&g, 7);
    o->blocks = 1u << snic_rng_below(&g, snic_rng_below(&g, 4) == 0 ? 9 : 4);
    o->span = spans[snic_rng_below(&g, 5)];
    o->loss_ppm = losses[snic_rng_below(&g, SNIC_COUNTOF(losses))];
    if (o->loss_ppm >= 500000 && o->depth < 32)
        o->depth = 32; /* or the time goes by in probes */
    /* A block is a datagram and its answer, again and again until both arrive. */
    uint64_t kept = 1000000 - o->loss_ppm;
    while (o->datagrams != 0 && o->blocks > 1 &&
           o->ios * o->blocks * 1000000 / kept * 1000000 / kept > o->datagrams)
        o->blocks /= 2;
    o->dup_ppm = snic_rng_below(&g, 2) == 0 ? 0 : 20000;
    o->corrupt_ppm = snic_rng_below(&g, 3) == 0 ? 5000 : 0;
    o->jitter_ns = snic_rng_below(&g, 2) == 0 ? 0 : snic_rng_below(&g, 100 * WORLD_US);
    o->store_ns = snic_rng_below(&g, 200 * WORLD_US) + 1;
    o->deadline_ns = snic_rng_below(&g, 4) == 0 ? 30 * WORLD_MS : 0;
    o->faults = 5 + (uint32_t)snic_rng_below(&g, 50);
    o->kinds = (uint32_t)snic_rng_below(&g, WORLD_ALL_FAULTS + 1);
    o->reads = (uint32_t)snic_rng_below(&g, 101);
    o->flags = snic_rng_below(&g, 4) == 0 ? SNIC_SOLAR_INT : 0;
    o->qos = snic_rng_below(&g, 8) == 0 ? 20000 : 0;
    o->nat = seed % 4 == 0;
    o->auth = snic_rng_below(&g, 4) == 0;
    /* Half of all lost both ways: nothing is promised but that it ends. */
    o->hang_ns = o->loss_ppm >= 500000 ? 20 * WORLD_S : 2 * WORLD_S;
    if (o->loss_ppm >= 900000) {
        o->hang_ns = 60 * WORLD_S;
        if (o->deadline_ns == 0)
            o->deadline_ns = 60 * WORLD_S; /* the default: it comes to that */
    }
    if (o->qos != 0)
        o->hang_ns = 20 * WORLD_S;
    /* Where so much is lost a path carries a block an RTO (8 ms), and of its copies as many arrive
       and are answered as are not lost on either way: what waits behind others has their time. */
    uint64_t queue = (uint64_t)o->depth * o->blocks;
    queue = queue * 1000000 / kept * 1000000 / kept / o->paths;
    if (o->loss_ppm >= 200000)
        o->hang_ns += queue * 8 * WORLD_MS;
    /* While faults last: so many of them are there at once, at a server; and where packets or
       stores are late a path carries a block a round, of 37 or 10 ms in the mean. */
    uint64_t late = (o->kinds >> WORLD_HOLD & 1) * 37 + (o->kinds >> WORLD_STORE & 1) * 10;
    uint64_t kinds = o->kinds & ~(1u << WORLD_MOVE | 1u << WORLD_AGENT);
    uint64_t every = (uint64_t)o->faults * WORLD_FAULTS * o->servers;
    o->faulty_ns = 2 * WORLD_S * 55 * (uint64_t)__builtin_popcountll(kinds) / every;
    o->faulty_ns += 2 * queue * late * WORLD_MS * 55 / (55 + every);
}
