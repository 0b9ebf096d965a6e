/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * The world's streams. A send's bytes are read from where they lie when they arrive, as a network
 * card does, or when one end gives up the connection and they are in the network already; so a
 * block that is returned too early is seen. What is on its way to a server may still come there
 * after the agent has closed; what a server had in its queue is lost with it.
 */
#include "luna_world_priv.h"

#include <stdlib.h>

/* ---- Chunks ---- */

static void chunk_fill(struct world *w, struct chunk *k)
{
    size_t at = 0;
    k->bytes = malloc(k->size);
    if (k->bytes == NULL)
        abort();
    for (uint32_t i = 0; i < k->send->iov_count && at < k->size; i++) {
        size_t size = k->send->iov[i].size < k->size - at ? k->send->iov[i].size : k->size - at;
        memcpy(k->bytes + at, k->send->iov[i].base, size);
        at += size;
    }
    if (k->size > 0 && world_chance(w, w->o.corrupt_ppm)) {
        uint64_t bit = snic_rng_below(&w->rng, (uint64_t)k->size * 8);
        if (snic_rng_below(&w->rng, 2) == 0) /* headers are few, but worth more */
            bit %= 8 * 384;
        if (bit < (uint64_t)k->size * 8)
            k->bytes[bit / 8] ^= (unsigned char)(1u << bit % 8);
    }
}

static void chunk_give_back(struct world *w, struct link *l, uint32_t dir, struct chunk *k)
{
    struct snic_luna_send *s = k->send;
    k->send = NULL;
    if (s == NULL)
        return;
    if (dir == UP && w->agent_up && l->incarnation == w->incarnation)
        snic_luna_sent(w->c, s, w->now_ns);
    else if (dir == DOWN && w->servers[l->server].serial == l->server_serial)
        world_server_sent(w, l->server, s);
    if (dir == UP)
        world_agent_soon(w, w->now_ns);
    else
        world_server_soon(w, l->server);
}

static void chunk_free(struct chunk *k)
{
    free(k->bytes);
    free(k);
}

/* All that is under way comes no more. */
static void way_drop(struct world *w, struct link *l, uint32_t dir)
{
    struct way *y = &l->way[dir];
    while (y->first != NULL) {
        struct chunk *k = y->first;
        y->first = k->next;
        chunk_give_back(w, l, dir, k);
        chunk_free(k);
    }
    y->last = NULL;
}

static void way_forget(struct way *y)
{
    while (y->arrived != NULL) {
        struct chunk *k = y->arrived;
        y->arrived = k->next;
        chunk_free(k);
    }
    y->arrived_last = NULL;
}

/* What is under way is in the network: its bytes do not need the sender any more. */
static void way_detach(struct world *w, struct link *l, uint32_t dir)
{
    for (struct chunk *k = l->way[dir].first; k != NULL; k = k->next) {
        if (k->send == NULL)
            continue;
        chunk_fill(w, k);
        chunk_give_back(w, l, dir, k);
    }
}

static void link_settle(struct world *w, struct link *l)
{
    if (l->agent_open != 0 || l->target_open)
        return;
    for (uint32_t dir = 0; dir < 2; dir++) {
        way_drop(w, l, dir);
        way_forget(&l->way[dir]);
    }
    l->used = 0;
}

/* ---- Sending ---- */

static void way_schedule(struct world *w, struct link *l, uint32_t dir)
{
    struct way *y = &l->way[dir];
    if (y->first != NULL)
        world_at(w, snic_max_u64(y->first->at_ns, y->hole_ns), EV_STREAM, (uint32_t)(l - w->links),
                 dir, l->serial);
}

void stream_send(struct world *w, struct link *l, uint32_t dir, struct snic_luna_send *s)
{
    struct way *y = &l->way[dir];
    struct chunk *k = calloc(1, sizeof(*k));
    if (k == NULL)
        abort();
    w->r.sends++;
    w->r.hash = (w->r.hash ^ (w->now_ns + s->bytes)) * UINT64_C(0x100000001b3);
    k->send = s;
    k->size = s->bytes;
    if (y->over) { /* it is broken, which the sender has not been notified of yet */
        chunk_give_back(w, l, dir, k);
        chunk_free(k);
        return;
    }
    k->at_ns = w->now_ns + 10 * WORLD_US + s->bytes / 4;
    if (w->o.jitter_ns != 0)
        k->at_ns += snic_rng_below(&w->rng, w->o.jitter_ns);
    k->at_ns = y->last_ns = snic_max_u64(k->at_ns, y->last_ns);
    if (y->last == NULL)
        y->first = k;
    else
        y->last->next = k;
    y->last = k;
    if (snic_rng_below(&w->rng, 2) == 0) { /* a kernel copies */
        chunk_fill(w, k);
        chunk_give_back(w, l, dir, k);
    }
    if (y->first == k)
        way_schedule(w, l, dir);
}

void stream_due(struct world *w, uint32_t link, uint32_t dir)
{
    struct link *l = &w->links[link];
    struct way *y = &l->way[dir];
    if (y->first == NULL || w->now_ns < y->first->at_ns)
        return;
    if (w->now_ns < y->hole_ns) {
        way_schedule(w, l, dir);
        return;
    }
    struct chunk *k = y->first;
    y->first = k->next;
    if (y->first == NULL)
        y->last = NULL;
    k->next = NULL;
    if (k->send != NULL) {
        chunk_fill(w, k);
        chunk_give_back(w, l, dir, k);
    }
    if (y->arrived_last == NULL)
        y->arrived = k;
    else
        y->arrived_last->next = k;
    y->arrived_last = k;
    w->r.late_sends += dir == UP && l->agent_open == 0;
    way_schedule(w, l, dir);
    if (dir == UP)
        world_server_soon(w, l->server);
    else
        world_agent_soon(w, w->now_ns + 2 * WORLD_US);
}

/* ---- Receiving ---- */

size_t stream_peek(struct world *w, struct link *l, uint32_t dir, const unsigned char **p,
                   int *over)
{
    struct way *y = &l->way[dir];
    while (y->arrived != NULL && y->arrived->used == y->arrived->size) {
        struct chunk *k = y->arrived;
        y->arrived = k->next;
        if (y->arrived == NULL)
            y->arrived_last = NULL;
        chunk_free(k);
    }
    *over = y->arrived == NULL && y->first == NULL && y->over;
    if (y->arrived == NULL)
        return 0;
    size_t size = y->arrived->size - y->arrived->used;
    if (w->o.cut != 0)
        size = snic_min_u64(size, 1 + snic_rng_below(&w->rng, w->o.cut));
    *p = y->arrived->bytes + y->arrived->used;
    return size;
}

void stream_read(struct world *w, struct link *l, uint32_t dir, size_t size)
{
    w->r.pieces++;
    l->way[dir].arrived->used += size;
}

/* ---- Connections ---- */

void stream_connect(struct world *w, uint32_t server, uint32_t conn, uint32_t gen)
{
    struct link *l = NULL;
    for (uint32_t i = 0; i < LINKS && l == NULL; i++)
        if (!w->links[i].used)
            l = &w->links[i];
    if (l == NULL) {
        world_fail(w, "too many connections");
        return;
    }
    memset(l, 0, sizeof(*l));
    l->used = 1;
    l->serial = ++w->serials;
    l->server = server;
    l->conn = conn;
    l->gen = gen;
    l->incarnation = w->incarnation;
    l->agent_open = 1;
    if (w->now_ns < w->servers[server].dark_until_ns)
        return; /* its SYN is lost: no answer, ever */
    world_at(w, w->now_ns + 20 * WORLD_US, EV_CONNECT, (uint32_t)(l - w->links), 0, l->serial);
}

void stream_connected(struct world *w, uint32_t link)
{
    struct link *l = &w->links[link];
    struct server *v = &w->servers[l->server];
    if (l->agent_open != 1)
        return;
    if (!v->up || snic_luna_target_opened(v->t, &l->handle, w->now_ns) != 0) {
        snic_luna_closed(w->c, l->server, l->conn, l->gen, SNIC_ECONNREFUSED, w->now_ns);
        l->agent_open = 0;
        link_settle(w, l);
        if (v->up)
            world_server_soon(w, l->server);
    } else {
        l->server_serial = v->serial;
        l->target_open = 1;
        l->agent_open = 2;
        if (snic_luna_connected(w->c, l->server, l->conn, l->gen, w->now_ns) != 0)
            world_fail(w, "connected");
    }
    world_agent_soon(w, w->now_ns);
}

struct link *stream_find(struct world *w, uint32_t server, uint32_t conn, uint32_t gen)
{
    for (uint32_t i = 0; i < LINKS; i++) {
        struct link *l = &w->links[i];
        if (l->used && l->agent_open != 0 && l->incarnation == w->incarnation &&
            l->server == server && l->conn == conn && l->gen == gen)
            return l;
    }
    return NULL;
}

struct link *stream_of(struct world *w, uint32_t server, uint32_t handle)
{
    for (uint32_t i = 0; i < LINKS; i++) {
        struct link *l = &w->links[i];
        if (l->used && l->target_open && l->server == server && l->handle == handle)
            return l;
    }
    return NULL;
}

void stream_agent_ends(struct world *w, struct link *l)
{
    l->agent_open = 0;
    way_detach(w, l, UP);
    if (snic_rng_below(&w->rng, 2) == 0)
        way_drop(w, l, UP); /* a reset overtakes nothing, but sockets are emptied */
    l->way[UP].over = 1;
    way_drop(w, l, DOWN);
    way_forget(&l->way[DOWN]);
    if (l->target_open)
        world_server_soon(w, l->server);
    link_settle(w, l);
}

void stream_target_ends(struct world *w, struct link *l)
{
    l->target_open = 0;
    way_detach(w, l, DOWN);
    if (snic_rng_below(&w->rng, 2) == 0)
        way_drop(w, l, DOWN);
    l->way[DOWN].over = 1;
    way_drop(w, l, UP);
    way_forget(&l->way[UP]);
    if (l->agent_open != 0)
        world_agent_soon(w, w->now_ns + 10 * WORLD_US);
    link_settle(w, l);
}

/* It breaks: of what is under way each side gets the beginning, to any byte. */
void stream_reset(struct world *w, struct link *l)
{
    for (uint32_t dir = 0; dir < 2; dir++) {
        struct way *y = &l->way[dir];
        struct chunk *k = y->first;
        way_detach(w, l, dir);
        if (k != NULL) {
            y->first = k->next;
            k->next = NULL;
            way_drop(w, l, dir);
            k->size = snic_rng_below(&w->rng, k->size);
            if (y->arrived_last == NULL)
                y->arrived = k;
            else
                y->arrived_last->next = k;
            y->arrived_last = k;
        }
        y->over = 1;
    }
    world_agent_soon(w, w->now_ns);
    world_server_soon(w, l->server);
}

void stream_hole(struct world *w, struct link *l, uint64_t until_ns)
{
    uint64_t ways = 1 + snic_rng_below(&w->rng, 3);
    for (uint32_t dir = 0; dir < 2; dir++)
        if ((ways >> dir & 1) != 0)
            l->way[dir].hole_ns = snic_max_u64(l->way[dir].hole_ns, until_ns);
}

void stream_agent_died(struct world *w)
{
    for (uint32_t i = 0; i < LINKS; i++) {
        struct link *l = &w->links[i];
        if (l->used && l->incarnation == w->incarnation && l->agent_open != 0) {
            way_detach(w, l, UP);
            stream_agent_ends(w, l);
        }
    }
}

/* Silent: a machine without power notifies no peer. */
void stream_server_died(struct world *w, uint32_t server, int silent)
{
    for (uint32_t i = 0; i < LINKS; i++) {
        struct link *l = &w->links[i];
        if (!l->used || l->server != server || !l->target_open)
            continue;
        way_detach(w, l, DOWN);
        stream_target_ends(w, l);
        if (silent && l->used) {
            l->way[DOWN].over = 0;
            way_drop(w, l, DOWN);
        }
    }
}

void stream_heal(struct world *w)
{
    for (uint32_t i = 0; i < LINKS; i++) {
        struct link *l = &w->links[i];
        for (uint32_t dir = 0; l->used && dir < 2; dir++) {
            l->way[dir].hole_ns = 0;
            way_schedule(w, l, dir);
        }
    }
}

void stream_clear(struct world *w)
{
    for (uint32_t i = 0; i < LINKS; i++)
        for (uint32_t dir = 0; dir < 2; dir++) {
            struct way *y = &w->links[i].way[dir];
            while (y->first != NULL) {
                struct chunk *k = y->first;
                y->first = k->next;
                if (k->send != NULL && dir == DOWN)
                    free((void *)(uintptr_t)k->send->cookie);
                chunk_free(k);
            }
            way_forget(y);
        }
}
