/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * Operations on an RPC that all transports share: it is made and freed, parked, moved, and fenced.
 */
#include "ebs/queue_priv.h"

#define SNIC_EBS__MS UINT64_C(1000000)
#define SNIC_EBS__FENCE_NS (2 * SNIC_EBS__MS)
#define SNIC_EBS__FENCE_LATER_NS (128 * SNIC_EBS__MS) /* least interval after a refusal */
#define SNIC_EBS__FENCE_LAST_NS (1000 * SNIC_EBS__MS)

/* ---- Lookups ---- */

void ebs_rpc_wait_begin(struct ebs_queue *q, struct ebs_rpc *r)
{
    ebs_lookup_begin(&q->lookups, &r->lookup, q->loads[r->server].suspect, q->now_ns);
}

static void ebs_rpc_wait_parked(struct ebs_queue *q, struct ebs_rpc *r)
{
    r->lookup.sent = 0;
    ebs_lookup_enqueue(&q->lookups, &r->lookup);
}

/* ---- Made and freed ---- */

void ebs_rpc_new(struct ebs_queue *q, struct snic_ebs_io *io, uint32_t count,
                 const struct snic_ebs_where *w)
{
    struct ebs_disk *d = &q->disks[io->disk];
    struct ebs_rpc *r = SNIC_CONTAINER(q->free.next, struct ebs_rpc, link);
    uint64_t counter = snic_ebs_id_counter(r->id);
    snic_link_remove(&r->link);
    SNIC_ASSERT(q->rpcs_free > 0 && count >= 1 && count <= SNIC_EBS_RPC_BLOCKS);
    /* The lower bits name the slot, the others count its uses. */
    counter = counter == 0 ? r->slot + ((uint64_t)1 << q->slot_bits)
                           : counter + ((uint64_t)1 << q->slot_bits);
    r->id = snic_ebs_id(q->o.client_epoch, counter);
    r->io = io;
    r->lba = io->lba + io->cursor;
    r->seg_id = w->seg_id;
    r->seg_gen = w->seg_gen;
    r->server = w->server;
    r->wver = io->wver;
    r->made_ns = q->now_ns;
    r->disk = io->disk;
    r->op = io->op;
    r->count = (uint8_t)count;
    r->all = count == 64 ? UINT64_MAX : ((uint64_t)1 << count) - 1;
    r->acked = 0;
    r->sent = 0;
    r->refs = 0;
    r->result = 0;
    r->piece = io->piece;
    r->piece_block = io->piece_block;
    ebs_rpc_wait_begin(q, r);
    q->rpcs_free--;
    q->s.rpcs++;
    q->s.rpcs_high = (uint32_t)snic_max_u64(q->s.rpcs_high, q->s.rpcs);
    q->loads[r->server].rpcs++;
    q->loads[r->server].busy.used_ns = q->now_ns;
    snic_link_append(&d->rpcs, &r->of_disk);
    q->ops->made(q, r);
    if (r->server == ebs_server_none(q)) {
        ebs_rpc_move(r, &q->parked, EBS_RPC_PARKED);
        ebs_rpc_wait_parked(q, r);
    }
}

static void ebs_rpc_release(struct ebs_queue *q, struct ebs_rpc *r)
{
    struct snic_ebs_io *io = r->io;
    uint64_t uses = snic_ebs_id_counter(r->id) >> q->slot_bits;
    q->disks[r->disk].abandoned -= io == &q->orphan;
    q->loads[r->server].abandoned -= io == &q->orphan;
    if (io->result == 0)
        io->result = r->result;
    q->loads[r->server].rpcs--;
    q->s.rpcs--;
    snic_link_remove(&r->of_disk);
    snic_link_remove(&r->link);
    r->where = EBS_RPC_FREE;
    r->io = NULL;
    /* A slot whose numbers are used up is never free again: ids are not reused. */
    if (uses < (SNIC_EBS_COUNTER_MAX >> q->slot_bits)) {
        snic_link_append(q->free.next, &r->link); /* before the first: it is in the cache */
        q->rpcs_free++;
    }
    io->rpcs--;
    q->dirty = 1;
    ebs_io_progress(q, io);
}

void ebs_rpc_end(struct ebs_queue *q, struct ebs_rpc *r, int result)
{
    r->acked = r->all;
    r->result = result;
    snic_wheel_cancel(&q->wheel, &r->timer);
    ebs_lookup_end(&r->lookup);
    ebs_rpc_move(r, &q->outs, EBS_RPC_ENDED);
    if (r->refs == 0)
        ebs_rpc_release(q, r);
}

void ebs_rpc_unref(struct ebs_queue *q, struct ebs_rpc *r)
{
    SNIC_ASSERT(r->refs > 0);
    if (--r->refs == 0 && r->where == EBS_RPC_ENDED)
        ebs_rpc_release(q, r);
}

/* ---- Locations ---- */

int ebs_rpc_park(struct ebs_queue *q, struct ebs_rpc *r)
{
    q->s.stale_gens++;
    if (r->where == EBS_RPC_PARKED)
        return 0;
    (void)snic_ebs_map_invalidate(q->disks[r->disk].map, ebs_segment_of(r), r->seg_gen);
    snic_wheel_cancel(&q->wheel, &r->timer);
    ebs_rpc_move(r, &q->parked, EBS_RPC_PARKED);
    ebs_rpc_wait_parked(q, r);
    return 1;
}

void ebs_rpc_retarget(struct ebs_queue *q, struct ebs_rpc *r, const struct snic_ebs_where *w)
{
    int fencing = r->where == EBS_RPC_FENCING;
    if (r->where == EBS_RPC_ENDED ||
        (r->seg_gen == w->seg_gen && r->server == w->server && r->where != EBS_RPC_PARKED))
        return;
    if (fencing && w->seg_gen > r->seg_gen) { /* all copies are refused from now on */
        q->ops->end(q, r, r->result);
        return;
    }
    q->ops->leave(q, r);
    q->loads[r->server].rpcs--;
    q->loads[w->server].rpcs++;
    q->loads[r->server].abandoned -= r->io == &q->orphan;
    q->loads[w->server].abandoned += r->io == &q->orphan;
    q->loads[w->server].busy.used_ns = q->now_ns;
    r->server = w->server;
    r->seg_id = w->seg_id;
    r->seg_gen = w->seg_gen;
    ebs_rpc_wait_begin(q, r);
    if (fencing)
        return;
    snic_wheel_cancel(&q->wheel, &r->timer);
    snic_link_remove(&r->link);
    r->where = EBS_RPC_FREE;
    q->ops->begin(q, r);
}

void ebs_rpc_back_off(struct ebs_queue *q, struct ebs_rpc *r, uint32_t retry_us)
{
    if (!r->timer.armed)
        snic_wheel_arm(&q->wheel, &r->timer,
                       q->now_ns + snic_max_u64(snic_min_u64(retry_us, 100000), 100) * 1000);
}

/* ---- Fences ---- */

void ebs_rpc_fence(struct ebs_queue *q, struct ebs_rpc *r, int result)
{
    r->result = result;
    r->fence_ns = SNIC_EBS__FENCE_NS;
    q->s.fences++;
    ebs_rpc_move(r, &q->outs, EBS_RPC_FENCING);
    snic_wheel_arm(&q->wheel, &r->timer, q->now_ns);
}

/*
 * A fence refuses all versions of the segment up to its RPC's, and a write that is refused so is
 * taken for one without the lease. When a write has passed its deadline, those with smaller
 * versions have, too; but beside a write that the server refused, smaller versions may be in
 * flight, and RPCs of its own I/O, which have the same version. 1: wait for these.
 */
static int ebs_rpc_hopes(const struct ebs_queue *q, const struct ebs_rpc *r)
{
    const struct ebs_disk *d = &q->disks[r->disk];
    if (r->io->cursor < r->io->blocks)
        return 1;
    for (const struct snic_link *l = d->rpcs.next; l != &d->rpcs; l = l->next) {
        const struct ebs_rpc *o = SNIC_CONTAINER(l, struct ebs_rpc, of_disk);
        if (o->op != SNIC_EBS_IO_READ && o->wver <= r->wver && o->where != EBS_RPC_FENCING &&
            o->where != EBS_RPC_ENDED && ebs_segment_of(o) == ebs_segment_of(r))
            return 1;
    }
    return 0;
}

/*
 * Its I/O has waited for error_ns and ends; the RPC stays, and its fence is still sent. No I/O may
 * read the segment before the fence is acknowledged: a copy in flight could change it afterwards.
 * So give_up() is called for all else that waits for the segment, and new I/O for it is refused
 * (ebs_segment_abandoned()).
 */
static void ebs_rpc_abandon(struct ebs_queue *q, struct ebs_rpc *r)
{
    struct ebs_disk *d = &q->disks[r->disk];
    struct snic_ebs_io *io = r->io;
    if (q->o.error_ns == 0 || io == &q->orphan || r->refs != 0 ||
        q->now_ns < io->submitted_ns + q->o.error_ns)
        return;
    r->io = &q->orphan;
    q->orphan.rpcs++;
    d->abandoned++;
    q->loads[r->server].abandoned++;
    q->s.abandoned++;
    for (struct snic_link *l = d->rpcs.next, *next; l != &d->rpcs; l = next) {
        struct ebs_rpc *o = SNIC_CONTAINER(l, struct ebs_rpc, of_disk);
        next = l->next;
        if (!ebs_rpc_is_over(o) && ebs_segment_of(o) == ebs_segment_of(r))
            q->ops->give_up(q, o, SNIC_EIO);
    }
    if (io->result == 0)
        io->result = r->result;
    io->rpcs--;
    ebs_io_progress(q, io);
}

int ebs_segment_abandoned(const struct ebs_queue *q, const struct ebs_disk *d, uint64_t segment)
{
    if (d->abandoned == 0)
        return 0;
    for (const struct snic_link *l = d->rpcs.next; l != &d->rpcs; l = l->next) {
        const struct ebs_rpc *r = SNIC_CONTAINER(l, struct ebs_rpc, of_disk);
        if (r->io == &q->orphan && ebs_segment_of(r) == segment)
            return 1;
    }
    return 0;
}

uint32_t ebs_rpc_fence_retry(struct ebs_queue *q, struct ebs_rpc *r, uint64_t max_ns)
{
    ebs_rpc_abandon(q, r);
    uint32_t copies = r->fence_ns < max_ns ? 1 : 3;
    snic_wheel_arm(&q->wheel, &r->timer, q->now_ns + r->fence_ns);
    if (r->fence_ns < max_ns)
        r->fence_ns = snic_min_u64(2 * r->fence_ns, max_ns);
    return ebs_rpc_hopes(q, r) ? 0 : copies;
}

/* The server responds, but can not fence: more frequent retries do not help. */
void ebs_rpc_fence_refused(struct ebs_queue *q, struct ebs_rpc *r)
{
    r->fence_ns = snic_max_u64(2 * r->fence_ns, SNIC_EBS__FENCE_LATER_NS);
    r->fence_ns = snic_min_u64(r->fence_ns, SNIC_EBS__FENCE_LAST_NS);
    snic_wheel_arm(&q->wheel, &r->timer, q->now_ns + r->fence_ns);
}
