/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * Where is a segment? The owner is asked when the map does not say, when the server that it says
 * refuses, and when that one says nothing: a segment may have moved while we could not be told, and
 * a server that is gone refuses nobody. When, and when again, is what ebs_ask.h says; here is who
 * waits: RPCs, those of a segment together, and the first I/O of a disk.
 */
#include "solar/solar_priv.h"

void solar_ask_begin(struct snic_solar *c, struct solar_rpc *r)
{
    snic_ebs_ask_begin(&c->asks, &r->ask, c->servers[r->server].told, c->now_ns);
}

void solar_ask_heard(struct snic_solar *c, struct solar_rpc *r)
{
    if (r->where != SOLAR_PARKED)
        solar_ask_begin(c, r);
}

void solar_ask_parked(struct snic_solar *c, struct solar_rpc *r)
{
    r->ask.asks = 0;
    snic_ebs_ask_put(&c->asks, &r->ask);
}

void solar_ask_disk(struct snic_solar *c, struct solar_disk *d)
{
    d->say_map = 1;
    if (snic_link_alone(&d->event))
        snic_link_append(&c->disk_events, &d->event);
}

uint64_t solar_ask_deadline(const struct snic_solar *c)
{
    return c->s.inside == 0 ? SNIC_NEVER : c->asks.due_ns;
}

static void solar_ask_rpcs(struct snic_solar *c, struct solar_disk *d)
{
    for (struct snic_link *l = d->rpcs.next; l != &d->rpcs; l = l->next) {
        struct solar_rpc *r = SNIC_CONTAINER(l, struct solar_rpc, of_disk);
        if (r->where == SOLAR_ENDED)
            continue;
        if (snic_ebs_ask_due(&c->asks, &r->ask, c->servers[r->server].told, c->now_ns))
            snic_ebs_ask_put(&c->asks, &r->ask);
    }
}

void solar_ask_again(struct snic_solar *c)
{
    if (!snic_ebs_asks_look(&c->asks, c->now_ns))
        return;
    for (uint32_t i = 0; i < c->o.disks_max; i++) {
        struct solar_disk *d = &c->disks[i];
        if (!d->used)
            continue;
        solar_ask_rpcs(c, d);
        if (!d->map_said)
            continue;
        if (snic_ebs_ask_due(&c->asks, &d->ask, 0, c->now_ns))
            solar_ask_disk(c, d);
    }
}

/* ---- What is said ---- */

/* The next after @p r, or the first, of those that wait for its segment; NULL. */
static struct solar_rpc *solar_ask_with(struct snic_solar *c, const struct solar_rpc *r,
                                        struct solar_rpc *after)
{
    struct snic_link *rpcs = &c->disks[r->disk].rpcs;
    struct snic_link *l = after != NULL ? after->of_disk.next : rpcs->next;
    for (; l != rpcs; l = l->next) {
        struct solar_rpc *q = SNIC_CONTAINER(l, struct solar_rpc, of_disk);
        if (q->lba >> SNIC_EBS_SEGMENT_LOG2 == r->lba >> SNIC_EBS_SEGMENT_LOG2)
            return q;
    }
    return NULL;
}

int solar_ask_say(struct snic_solar *c, struct snic_solar_action *a)
{
    struct snic_ebs_ask *k = snic_ebs_asks_first(&c->asks);
    uint32_t most = 0;
    if (k == NULL)
        return 0;
    struct solar_rpc *r = SNIC_CONTAINER(k, struct solar_rpc, ask);
    a->type = SNIC_SOLAR_MAP;
    a->disk = r->disk;
    a->segment = r->lba >> SNIC_EBS_SEGMENT_LOG2;
    a->gen32 = r->seg_gen;
    for (struct solar_rpc *q = NULL; (q = solar_ask_with(c, r, q)) != NULL;)
        most = (uint32_t)snic_max_u64(most, q->ask.asks);
    snic_ebs_ask_said(&c->asks, k, most, &c->rng, c->now_ns);
    for (struct solar_rpc *q = NULL; (q = solar_ask_with(c, r, q)) != NULL;)
        snic_ebs_ask_join(&q->ask, k);
    return 1;
}

void solar_ask_say_disk(struct snic_solar *c, struct solar_disk *d, struct snic_solar_action *a)
{
    snic_ebs_ask_said(&c->asks, &d->ask, d->map_said ? d->ask.asks : 0, &c->rng, c->now_ns);
    d->say_map = 0;
    d->map_said = 1;
    a->type = SNIC_SOLAR_MAP;
    a->segment = d->need_segment;
    a->gen32 = d->need_gen;
}

/* Of RPCs the first is the oldest. What waits behind them for a place has no RPC. */
int snic_solar_get_wait(const struct snic_solar *c, uint32_t disk, struct snic_ebs_wait *out)
{
    if (disk >= c->o.disks_max || !c->disks[disk].used)
        return SNIC_ENOENT;
    const struct solar_disk *d = &c->disks[disk];
    const struct snic_link *l = d->rpcs.next;
    while (l != &d->rpcs && SNIC_CONTAINER(l, struct solar_rpc, of_disk)->where == SOLAR_ENDED)
        l = l->next;
    if (l != &d->rpcs) {
        const struct solar_rpc *r = SNIC_CONTAINER(l, struct solar_rpc, of_disk);
        out->segment = r->lba >> SNIC_EBS_SEGMENT_LOG2;
        out->since_ns = r->made_ns;
        out->server = r->server < c->o.servers_max ? r->server : UINT32_MAX;
        out->place = r->where == SOLAR_PARKED;
        return 1;
    }
    if (!d->map_said || snic_link_alone(&d->queue))
        return 0;
    const struct snic_solar_io *io = SNIC_CONTAINER(d->queue.next, struct snic_solar_io, link);
    out->segment = d->need_segment;
    out->since_ns = io->cursor == 0 ? io->submitted_ns : d->need_ns;
    out->server = UINT32_MAX;
    out->place = 1;
    return 1;
}
