/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * Lookups of segments. The owner gets one when the map has no location, when its server refuses,
 * and when that one does not respond: a segment may have moved while the agent was unreachable, and
 * a server that is gone refuses nothing. lookup.h decides when, and when again; the waiters are
 * here: RPCs, those of a segment together, and the first I/O of a disk.
 */
#include "ebs/queue_priv.h"

void ebs_rpc_answered(struct ebs_queue *q, struct ebs_rpc *r)
{
    if (r->where != EBS_RPC_PARKED)
        ebs_rpc_wait_begin(q, r);
}

void ebs_queue_lease_lost(struct ebs_queue *q, uint32_t disk)
{
    struct ebs_disk *d = &q->disks[disk];
    if (d->lost)
        return;
    d->lost = 1;
    d->lease_pending = 1;
    ebs_disk_event(q, d);
}

static void ebs_lookup_rpcs(struct ebs_queue *q, struct ebs_disk *d)
{
    for (struct snic_link *l = d->rpcs.next; l != &d->rpcs; l = l->next) {
        struct ebs_rpc *r = SNIC_CONTAINER(l, struct ebs_rpc, of_disk);
        if (r->where == EBS_RPC_ENDED)
            continue;
        if (ebs_lookup_due(&q->lookups, &r->lookup, q->loads[r->server].suspect, q->now_ns))
            ebs_lookup_enqueue(&q->lookups, &r->lookup);
    }
}

void ebs_queue_lookups(struct ebs_queue *q)
{
    if (!ebs_lookups_scan_due(&q->lookups, q->now_ns))
        return;
    for (uint32_t i = 0; i < q->o.disks_max; i++) {
        struct ebs_disk *d = &q->disks[i];
        if (!d->used)
            continue;
        ebs_lookup_rpcs(q, d);
        if (!d->map_reported)
            continue;
        if (ebs_lookup_due(&q->lookups, &d->lookup, 0, q->now_ns))
            ebs_disk_lookup(q, d);
    }
}

/* ---- Notifications ---- */

/* The next after @p r, or the first, of those that wait for its segment; NULL. */
static struct ebs_rpc *ebs_lookup_next(struct ebs_queue *q, const struct ebs_rpc *r,
                                       struct ebs_rpc *after)
{
    struct snic_link *rpcs = &q->disks[r->disk].rpcs;
    struct snic_link *l = after != NULL ? after->of_disk.next : rpcs->next;
    for (; l != rpcs; l = l->next) {
        struct ebs_rpc *o = SNIC_CONTAINER(l, struct ebs_rpc, of_disk);
        if (ebs_segment_of(o) == ebs_segment_of(r))
            return o;
    }
    return NULL;
}

static int ebs_event_rpc(struct ebs_queue *q, struct ebs_event *out)
{
    struct ebs_lookup *k = ebs_lookups_first(&q->lookups);
    uint32_t most = 0;
    if (k == NULL)
        return 0;
    struct ebs_rpc *r = SNIC_CONTAINER(k, struct ebs_rpc, lookup);
    out->disk = r->disk;
    out->segment = ebs_segment_of(r);
    out->gen32 = r->seg_gen;
    for (struct ebs_rpc *o = NULL; (o = ebs_lookup_next(q, r, o)) != NULL;)
        most = (uint32_t)snic_max_u64(most, o->lookup.sent);
    ebs_lookup_sent(&q->lookups, k, most, &q->rng, q->now_ns);
    for (struct ebs_rpc *o = NULL; (o = ebs_lookup_next(q, r, o)) != NULL;)
        ebs_lookup_join(&o->lookup, k);
    return 1;
}

static void ebs_event_disk(struct ebs_queue *q, struct ebs_disk *d, struct ebs_event *out)
{
    ebs_lookup_sent(&q->lookups, &d->lookup, d->map_reported ? d->lookup.sent : 0, &q->rng,
                    q->now_ns);
    d->map_pending = 0;
    d->map_reported = 1;
    out->segment = d->need_segment;
    out->gen32 = d->need_gen;
}

/* Lookups of RPCs, then the disks' notifications; one that has none any more is skipped. */
int ebs_queue_event(struct ebs_queue *q, struct ebs_event *out)
{
    int any = 0;
    memset(out, 0, sizeof(*out));
    if (ebs_event_rpc(q, out))
        return 1;
    while (!any && !snic_link_alone(&q->disk_events)) {
        struct ebs_disk *d = SNIC_CONTAINER(q->disk_events.next, struct ebs_disk, event);
        any = d->lease_pending || d->token_pending || d->map_pending;
        out->disk = d->index;
        out->lease = d->lease_pending;
        out->token = !d->lease_pending && d->token_pending;
        if (d->lease_pending)
            d->lease_pending = 0;
        else if (d->token_pending)
            d->token_pending = 0;
        else if (d->map_pending)
            ebs_event_disk(q, d, out);
        if (!d->lease_pending && !d->token_pending && !d->map_pending)
            snic_link_remove(&d->event);
    }
    return any;
}

/* Of RPCs the first is the oldest. An I/O that waits for a lookup behind them has no RPC. */
int ebs_queue_get_wait(const struct ebs_queue *q, uint32_t disk, struct snic_ebs_wait *out)
{
    if (disk >= q->o.disks_max || !q->disks[disk].used)
        return SNIC_ENOENT;
    const struct ebs_disk *d = &q->disks[disk];
    const struct snic_link *l = d->rpcs.next;
    while (l != &d->rpcs && SNIC_CONTAINER(l, struct ebs_rpc, of_disk)->where == EBS_RPC_ENDED)
        l = l->next;
    if (l != &d->rpcs) {
        const struct ebs_rpc *r = SNIC_CONTAINER(l, struct ebs_rpc, of_disk);
        out->segment = ebs_segment_of(r);
        out->since_ns = r->made_ns;
        out->server = r->server < q->o.servers_max ? r->server : UINT32_MAX;
        out->place = r->where == EBS_RPC_PARKED;
        return 1;
    }
    if (!d->map_reported || snic_link_alone(&d->queue))
        return 0;
    const struct snic_ebs_io *io = SNIC_CONTAINER(d->queue.next, struct snic_ebs_io, link);
    out->segment = d->need_segment;
    out->since_ns = io->cursor == 0 ? io->submitted_ns : d->need_ns;
    out->server = UINT32_MAX;
    out->place = 1;
    return 1;
}

/* ---- Segments that were never written ---- */

/* The disk's first I/O, if it waits for the segment without an RPC; or NULL. */
static const struct snic_ebs_io *ebs_waits_first(const struct ebs_disk *d, uint64_t segment)
{
    if ((!d->map_reported && !d->map_pending) || d->need_segment != segment ||
        snic_link_alone(&d->queue))
        return NULL;
    return SNIC_CONTAINER(d->queue.next, struct snic_ebs_io, link);
}

/* Only a write needs the segment to exist. What had a location before (gen != 0) waits for the
 * next one. */
static int ebs_rpc_in_hole(const struct ebs_rpc *r)
{
    return r->op != SNIC_EBS_IO_WRITE && r->where == EBS_RPC_PARKED && r->seg_gen == 0;
}

static int ebs_io_in_hole(const struct ebs_disk *d, const struct snic_ebs_io *io)
{
    return io->op != SNIC_EBS_IO_WRITE && d->need_gen == 0;
}

uint32_t ebs_queue_waits(const struct ebs_queue *q, uint32_t disk, uint64_t segment)
{
    uint32_t waits = 0;
    if (disk >= q->o.disks_max || !q->disks[disk].used)
        return 0;
    const struct ebs_disk *d = &q->disks[disk];
    const struct snic_ebs_io *io = ebs_waits_first(d, segment);
    if (io != NULL)
        waits = ebs_io_in_hole(d, io) ? SNIC_EBS_WAITS_HOLE : SNIC_EBS_WAITS_PLACE;
    for (const struct snic_link *l = d->rpcs.next; l != &d->rpcs; l = l->next) {
        const struct ebs_rpc *r = SNIC_CONTAINER(l, struct ebs_rpc, of_disk);
        if (r->where != EBS_RPC_ENDED && ebs_segment_of(r) == segment)
            waits |= ebs_rpc_in_hole(r) ? SNIC_EBS_WAITS_HOLE : SNIC_EBS_WAITS_PLACE;
    }
    return waits;
}

int ebs_queue_hole(struct ebs_queue *q, uint32_t disk, uint64_t segment, uint64_t lookup_ns,
                   uint64_t now_ns)
{
    if (disk >= q->o.disks_max || !q->disks[disk].used)
        return SNIC_ENOENT;
    struct ebs_disk *d = &q->disks[disk];
    uint32_t nowhere = ebs_server_none(q);
    q->now_ns = snic_max_u64(q->now_ns, now_ns);
    for (struct snic_link *l = d->rpcs.next, *next; l != &d->rpcs; l = next) {
        struct ebs_rpc *r = SNIC_CONTAINER(l, struct ebs_rpc, of_disk);
        next = l->next;
        if (ebs_segment_of(r) != segment || !ebs_rpc_in_hole(r) || r->io->submitted_ns > lookup_ns)
            continue;
        ebs_io_zero(r->io, r->piece, r->piece_block, r->count);
        q->s.blocks_read += r->op == SNIC_EBS_IO_READ ? r->count : 0;
        q->ops->end(q, r, 0);
    }
    const struct snic_ebs_io *io = ebs_waits_first(d, segment);
    if (io != NULL && ebs_io_in_hole(d, io) && io->submitted_ns <= lookup_ns)
        ebs_disk_hole(q, d);
    else if (q->loads[nowhere].rpcs < ebs_share(q, nowhere)) /* RPCs that ended are free */
        ebs_disk_resume(q, d, segment);
    return 0;
}

int ebs_queue_refuse(struct ebs_queue *q, uint32_t disk, uint64_t segment, int result,
                     uint64_t now_ns)
{
    if (disk >= q->o.disks_max || !q->disks[disk].used)
        return SNIC_ENOENT;
    struct ebs_disk *d = &q->disks[disk];
    q->now_ns = snic_max_u64(q->now_ns, now_ns);
    for (struct snic_link *l = d->rpcs.next, *next; l != &d->rpcs; l = next) {
        struct ebs_rpc *r = SNIC_CONTAINER(l, struct ebs_rpc, of_disk);
        next = l->next;
        if (ebs_segment_of(r) == segment && r->where == EBS_RPC_PARKED && r->seg_gen == 0)
            q->ops->end(q, r, result);
    }
    const struct snic_ebs_io *io = ebs_waits_first(d, segment);
    if (io != NULL && d->need_gen == 0)
        ebs_disk_refuse(q, d, result);
    else
        ebs_disk_resume(q, d, segment);
    return 0;
}

int ebs_queue_get_busy(const struct ebs_queue *q, uint32_t server, struct snic_ebs_busy *out)
{
    if (server >= q->o.servers_max || !q->loads[server].used)
        return SNIC_ENOENT;
    *out = q->loads[server].busy;
    return 0;
}
