/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * Where is a segment? The owner is asked when the map does not say, when the server that it says
 * refuses, and when that one says nothing: a segment may have moved while we could not be told, and
 * a server that is gone refuses nobody.
 *
 * Who waits longer asks again, for an owner may forget, or not know better yet: after slow_ns, then
 * after twice as long each time, up to SNIC_SOLAR__ASK_DOUBLE times that, and a bit of chance, so
 * that many who lose one server do not ask as one. All RPCs of a segment ask together. RPCs have no
 * timers for it: all are looked at when the first may have something to ask, which is once in
 * slow_ns where everything is well.
 */
#include "solar/solar_priv.h"

#define SNIC_SOLAR__ASK_DOUBLE 8u
/* Those that begin while their server is suspect ask soon, and together. */
#define SNIC_SOLAR__ASK_SOON_NS (10 * SNIC_SOLAR__MS)

static void solar_ask_at(struct snic_solar *c, uint64_t due_ns)
{
    c->ask_ns = snic_min_u64(c->ask_ns, due_ns);
}

/* When to ask for the time after @p asks. */
static uint64_t solar_ask_next(struct snic_solar *c, uint32_t asks)
{
    uint64_t pause = c->o.slow_ns * (asks <= 3 ? 1u << (asks - 1) : SNIC_SOLAR__ASK_DOUBLE);
    uint64_t due = c->now_ns + pause + snic_rng_below(&c->rng, pause / 4 + 1);
    solar_ask_at(c, due);
    return due;
}

void solar_ask_begin(struct snic_solar *c, struct solar_rpc *r)
{
    snic_link_remove(&r->ask);
    r->asks = 0;
    r->ask_ns = c->now_ns + c->o.slow_ns;
    solar_ask_at(c, c->servers[r->server].told ? c->now_ns + SNIC_SOLAR__ASK_SOON_NS : r->ask_ns);
}

void solar_ask_heard(struct snic_solar *c, struct solar_rpc *r)
{
    if (r->where != SOLAR_PARKED)
        solar_ask_begin(c, r);
}

void solar_ask(struct snic_solar *c, struct solar_rpc *r)
{
    if (snic_link_alone(&r->ask))
        snic_link_append(&c->asks, &r->ask);
}

void solar_ask_disk(struct snic_solar *c, struct solar_disk *d)
{
    d->say_map = 1;
    if (snic_link_alone(&d->event))
        snic_link_append(&c->disk_events, &d->event);
}

void solar_ask_suspect(struct snic_solar *c)
{
    c->ask_ns = c->now_ns;
}

uint64_t solar_ask_deadline(const struct snic_solar *c)
{
    return c->s.inside == 0 ? SNIC_NEVER : c->ask_ns;
}

static void solar_ask_rpcs(struct snic_solar *c, struct solar_disk *d)
{
    for (struct snic_link *l = d->rpcs.next; l != &d->rpcs; l = l->next) {
        struct solar_rpc *r = SNIC_CONTAINER(l, struct solar_rpc, of_disk);
        if (r->where == SOLAR_ENDED)
            continue;
        if (c->now_ns >= r->ask_ns || (r->asks == 0 && c->servers[r->server].told))
            solar_ask(c, r);
        else
            solar_ask_at(c, r->ask_ns);
    }
}

void solar_ask_again(struct snic_solar *c)
{
    if (c->now_ns < c->ask_ns)
        return;
    c->ask_ns = SNIC_NEVER;
    for (uint32_t i = 0; i < c->o.disks_max; i++) {
        struct solar_disk *d = &c->disks[i];
        if (!d->used)
            continue;
        solar_ask_rpcs(c, d);
        if (!d->map_said)
            continue;
        if (c->now_ns >= d->ask_ns)
            solar_ask_disk(c, d);
        else
            solar_ask_at(c, d->ask_ns);
    }
}

/* ---- What is said ---- */

int solar_ask_say(struct snic_solar *c, struct snic_solar_action *a)
{
    uint32_t asks = 0;
    if (snic_link_alone(&c->asks))
        return 0;
    struct solar_rpc *r = SNIC_CONTAINER(c->asks.next, struct solar_rpc, ask);
    struct snic_link *rpcs = &c->disks[r->disk].rpcs;
    a->type = SNIC_SOLAR_MAP;
    a->disk = r->disk;
    a->segment = r->lba >> SNIC_EBS_SEGMENT_LOG2;
    a->gen32 = r->seg_gen;
    for (struct snic_link *l = rpcs->next; l != rpcs; l = l->next) {
        struct solar_rpc *q = SNIC_CONTAINER(l, struct solar_rpc, of_disk);
        if (q->lba >> SNIC_EBS_SEGMENT_LOG2 == a->segment)
            asks = (uint32_t)snic_max_u64(asks, q->asks);
    }
    asks = asks < 255 ? asks + 1 : 255;
    uint64_t due = solar_ask_next(c, asks);
    for (struct snic_link *l = rpcs->next; l != rpcs; l = l->next) {
        struct solar_rpc *q = SNIC_CONTAINER(l, struct solar_rpc, of_disk);
        if (q->lba >> SNIC_EBS_SEGMENT_LOG2 != a->segment)
            continue;
        snic_link_remove(&q->ask);
        q->asks = (uint8_t)asks;
        q->ask_ns = due;
    }
    return 1;
}

void solar_ask_say_disk(struct snic_solar *c, struct solar_disk *d, struct snic_solar_action *a)
{
    d->asks = d->map_said ? d->asks + (d->asks < 255) : 1;
    d->ask_ns = solar_ask_next(c, d->asks);
    d->say_map = 0;
    d->map_said = 1;
    a->type = SNIC_SOLAR_MAP;
    a->segment = d->need_segment;
    a->gen32 = d->need_gen;
}
