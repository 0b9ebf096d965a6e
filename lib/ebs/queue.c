/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * I/Os: submission, admission, deadlines.
 */
#include "ebs/queue_priv.h"

/* ---- Submission ---- */

static int ebs_io_pieces(const struct snic_ebs_io *io)
{
    uint64_t blocks = 0;
    for (uint32_t i = 0; i < io->iov_count; i++) {
        if (io->iov[i].size == 0 || io->iov[i].size % SNIC_EBS_BLOCK_BYTES != 0)
            return SNIC_EINVAL;
        blocks += io->iov[i].size / SNIC_EBS_BLOCK_BYTES;
    }
    return blocks == io->blocks ? 0 : SNIC_EINVAL;
}

static int ebs_io_valid(const struct ebs_disk *d, const struct snic_ebs_io *io)
{
    if (io->op > SNIC_EBS_IO_FLUSH)
        return SNIC_EINVAL;
    if (d->lost && io->op != SNIC_EBS_IO_READ)
        return SNIC_EROFS;
    if (io->flags != 0 && (io->flags != SNIC_EBS_IO_STATES || io->op != SNIC_EBS_IO_READ ||
                           io->blocks != 1 || io->lba % SNIC_EBS_SEGMENT_BLOCKS != 0))
        return SNIC_EINVAL;
    if (io->op == SNIC_EBS_IO_FLUSH)
        return 0;
    if (io->blocks == 0 || io->blocks > SNIC_EBS_IO_BLOCKS_MAX || io->lba >= d->blocks ||
        io->blocks > d->blocks - io->lba)
        return SNIC_EINVAL;
    if (ebs_io_writes(io->op) && snic_ebs_id_counter(d->wver) + d->inside >= SNIC_EBS_COUNTER_MAX)
        return SNIC_EOVERFLOW;
    return io->op == SNIC_EBS_IO_READ || io->op == SNIC_EBS_IO_WRITE ? ebs_io_pieces(io) : 0;
}

int ebs_queue_submit(struct ebs_queue *q, struct snic_ebs_io *io, uint64_t now_ns)
{
    if (io->disk >= q->o.disks_max || !q->disks[io->disk].used || q->halted)
        return SNIC_ENOENT;
    struct ebs_disk *d = &q->disks[io->disk];
    int r = ebs_io_valid(d, io);
    if (r != 0)
        return r;
    q->now_ns = snic_max_u64(q->now_ns, now_ns);
    io->result = 0;
    io->retries = 0;
    io->submitted_ns = q->now_ns;
    io->admitted_ns = 0;
    io->done_ns = 0;
    io->cursor = 0;
    io->rpcs = 0;
    io->piece = 0;
    io->piece_block = 0;
    io->wver = 0;
    io->state = EBS_IO_QUEUED;
    snic_link_init(&io->link);
    snic_link_init(&io->order);
    snic_link_append(&q->ages, &io->age);
    if (q->slow == &q->ages)
        q->slow = &io->age;
    q->s.inside++;
    d->inside++;
    if (io->op != SNIC_EBS_IO_READ)
        snic_link_append(&d->order, &io->order);
    if (io->op == SNIC_EBS_IO_FLUSH) {
        ebs_disk_flushes(q, d);
        return 0;
    }
    snic_link_append(&d->queue, &io->link);
    ebs_disk_turn(q, d);
    return 0;
}

/* ---- Admission ---- */

static void ebs_disk_needs(struct ebs_queue *q, struct ebs_disk *d, const struct snic_ebs_io *io,
                           uint64_t segment, uint32_t gen)
{
    if (d->need_segment != segment || d->need_ns < io->admitted_ns)
        d->need_ns = q->now_ns;
    d->need_segment = segment;
    d->need_gen = gen;
    snic_link_remove(&d->turn);
    ebs_disk_lookup(q, d);
}

static uint32_t ebs_io_bytes(const struct snic_ebs_io *io)
{
    uint64_t bytes = (uint64_t)io->blocks * SNIC_EBS_BLOCK_BYTES;
    return io->op <= SNIC_EBS_IO_WRITE ? (uint32_t)snic_min_u64(bytes, UINT32_MAX) : 0;
}

/* QoS, then the version. @return 0, or SNIC_EAGAIN: the disk waits for its limits */
static int ebs_io_charge(struct ebs_queue *q, struct ebs_disk *d, struct snic_ebs_io *io)
{
    int r = d->limited ? snic_ebs_qos_admit(q->qos, d->index, ebs_io_bytes(io), q->now_ns) : 0;
    if (r == SNIC_ECORRUPT) { /* the entry is rebuilt from the disk's own copy */
        q->s.tables++;
        (void)!snic_ebs_qos_set(q->qos, d->index, &d->limits, q->now_ns);
        r = snic_ebs_qos_admit(q->qos, d->index, ebs_io_bytes(io), q->now_ns);
    }
    if (r == SNIC_EAGAIN) {
        q->qos_ns = snic_min_u64(q->qos_ns, snic_ebs_qos_ready_ns(q->qos, d->index));
        snic_link_remove(&d->turn);
        snic_link_append(&q->limited, &d->turn);
        return SNIC_EAGAIN;
    }
    d->charged = 1;
    io->admitted_ns = q->now_ns;
    io->state = EBS_IO_OUT;
    if (ebs_io_writes(io->op))
        io->wver = ++d->wver; /* Q3: submit has checked that one is left */
    return 0;
}

static void ebs_io_advance(struct snic_ebs_io *io, uint32_t blocks)
{
    io->cursor += blocks;
    if (io->op > SNIC_EBS_IO_WRITE)
        return;
    io->piece_block += blocks;
    while (io->piece < io->iov_count &&
           io->piece_block >= io->iov[io->piece].size / SNIC_EBS_BLOCK_BYTES) {
        io->piece_block -= (uint32_t)(io->iov[io->piece].size / SNIC_EBS_BLOCK_BYTES);
        io->piece++;
    }
}

/* Blocks of an I/O from its cursor on that are in one segment. */
static uint32_t ebs_io_here(const struct snic_ebs_io *io)
{
    uint32_t at = (uint32_t)((io->lba + io->cursor) % SNIC_EBS_SEGMENT_BLOCKS);
    return (uint32_t)snic_min_u64(SNIC_EBS_SEGMENT_BLOCKS - at, io->blocks - io->cursor);
}

/* If all of it is admitted, the next one is the disk's first, and to be charged. */
static void ebs_io_admitted(struct ebs_disk *d, struct snic_ebs_io *io)
{
    if (io->cursor < io->blocks)
        return;
    d->charged = 0;
    snic_link_remove(&io->link);
}

void ebs_io_zero(const struct snic_ebs_io *io, uint32_t piece, uint32_t block, uint32_t blocks)
{
    if (io->op != SNIC_EBS_IO_READ)
        return;
    const struct snic_iov *iov = io->iov + piece;
    uint64_t from = (uint64_t)block * SNIC_EBS_BLOCK_BYTES;
    for (uint64_t left = (uint64_t)blocks * SNIC_EBS_BLOCK_BYTES; left != 0; iov++, from = 0) {
        uint64_t n = snic_min_u64(left, iov->size - from);
        memset((unsigned char *)iov->base + from, 0, (size_t)n);
        left -= n;
    }
}

/* Without an RPC, so that it needs no free one. If its limits delay it the lookup is repeated. */
void ebs_disk_hole(struct ebs_queue *q, struct ebs_disk *d)
{
    struct snic_ebs_io *io = SNIC_CONTAINER(d->queue.next, struct snic_ebs_io, link);
    uint32_t count = ebs_io_here(io);
    d->map_reported = 0;
    d->map_pending = 0;
    if (!d->charged && ebs_io_charge(q, d, io) != 0)
        return;
    ebs_io_zero(io, io->piece, io->piece_block, count);
    q->s.blocks_read += io->op == SNIC_EBS_IO_READ ? count : 0;
    ebs_io_advance(io, count);
    ebs_io_admitted(d, io);
    ebs_io_progress(q, io);
    ebs_disk_turn(q, d);
}

/* The rest of the disk's first I/O can not be requested: it ends with its RPCs. */
static void ebs_io_refuse(struct ebs_queue *q, struct ebs_disk *d, int result)
{
    struct snic_ebs_io *io = SNIC_CONTAINER(d->queue.next, struct snic_ebs_io, link);
    d->charged = 0;
    snic_link_remove(&io->link);
    io->cursor = io->blocks;
    if (io->result == 0)
        io->result = result;
    ebs_io_progress(q, io);
}

void ebs_disk_refuse(struct ebs_queue *q, struct ebs_disk *d, int result)
{
    d->map_reported = 0;
    d->map_pending = 0;
    ebs_io_refuse(q, d, result);
    ebs_disk_turn(q, d);
}

enum ebs_turn { EBS_TURN_MORE, EBS_TURN_NEXT, EBS_TURN_OFF, EBS_TURN_STOP };

/*
 * The server's share of RPCs is used up, and some of them have had no answer for error_ns. If these
 * are all of it, or the server is SUSPECT, I/Os queued behind one for this server must not wait for
 * it, too. But a server that responds frees RPCs: a segment whose fence it refuses is no reason to
 * fail others.
 */
static int ebs_server_silent(const struct ebs_queue *q, uint32_t server)
{
    const struct ebs_load *l = &q->loads[server];
    return l->abandoned != 0 && (l->suspect || l->abandoned >= ebs_share(q, server));
}

/* One RPC of the disk's first I/O. Blocks of unknown location wait PARKED, and nothing behind them
   waits: a server may be gone, or the pool full, for long. But if RPCs without a location have used
   up their share, the disk waits for the lookup. */
static enum ebs_turn ebs_disk_step(struct ebs_queue *q, struct ebs_disk *d)
{
    struct snic_ebs_where w;
    struct snic_ebs_io *io = SNIC_CONTAINER(d->queue.next, struct snic_ebs_io, link);
    uint64_t segment = (io->lba + io->cursor) >> SNIC_EBS_SEGMENT_LOG2;
    uint32_t count = (uint32_t)snic_min_u64(ebs_io_here(io), SNIC_EBS_RPC_BLOCKS);
    if (ebs_segment_abandoned(q, d, segment)) {
        ebs_io_refuse(q, d, SNIC_EIO);
        return EBS_TURN_MORE;
    }
    if (q->rpcs_free == 0)
        return EBS_TURN_STOP;
    memset(&w, 0, sizeof(w));
    int r = snic_ebs_map_get(d->map, segment, &w);
    q->s.tables += r == SNIC_ECORRUPT;
    int known = r == 0 && w.server < q->o.servers_max && q->loads[w.server].used;
    if (!known)
        w.server = ebs_server_none(q);
    if (q->loads[w.server].rpcs >= ebs_share(q, w.server)) {
        if (known && ebs_server_silent(q, w.server)) {
            ebs_io_refuse(q, d, SNIC_EIO);
            return EBS_TURN_MORE;
        }
        if (known)
            return EBS_TURN_NEXT;
        ebs_disk_needs(q, d, io, segment, w.seg_gen);
        return EBS_TURN_OFF;
    }
    if (known && q->loads[w.server].backlog >= SNIC_EBS__BACKLOG)
        return EBS_TURN_NEXT;
    if (!d->charged && ebs_io_charge(q, d, io) != 0)
        return EBS_TURN_OFF;
    io->rpcs++;
    ebs_rpc_new(q, io, count, &w);
    ebs_io_advance(io, count);
    d->deficit -= (int64_t)count * SNIC_EBS_BLOCK_BYTES;
    ebs_io_admitted(d, io);
    return EBS_TURN_MORE;
}

/* @return 1 something was admitted, or will be after more rounds: the debt of one RPC is bounded */
static int ebs_disk_serve(struct ebs_queue *q, struct ebs_disk *d, int *stop)
{
    enum ebs_turn turn = EBS_TURN_NEXT;
    if (d->deficit <= 0)
        d->deficit += SNIC_EBS__QUANTUM;
    int any = d->deficit <= 0;
    while (d->deficit > 0 && !snic_link_alone(&d->queue)) {
        turn = ebs_disk_step(q, d);
        if (turn != EBS_TURN_MORE)
            break;
        any = 1;
    }
    *stop = turn == EBS_TURN_STOP;
    if (snic_link_alone(&d->queue)) {
        d->deficit = 0;
        snic_link_remove(&d->turn);
    } else if (turn == EBS_TURN_MORE || turn == EBS_TURN_NEXT) {
        snic_link_remove(&d->turn);
        snic_link_append(&q->turns, &d->turn);
    }
    return any;
}

void ebs_queue_admit(struct ebs_queue *q)
{
    int stop = 0;
    struct ebs_disk *idle = NULL; /* the first without progress since the last with some */
    if (q->now_ns >= q->qos_ns) {
        q->qos_ns = SNIC_NEVER;
        while (!snic_link_alone(&q->limited)) {
            struct snic_link *l = q->limited.next;
            snic_link_remove(l);
            snic_link_append(&q->turns, l);
        }
    }
    while (!stop && !snic_link_alone(&q->turns)) {
        struct ebs_disk *d = SNIC_CONTAINER(q->turns.next, struct ebs_disk, turn);
        if (d == idle)
            break;
        if (ebs_disk_serve(q, d, &stop))
            idle = NULL;
        else if (idle == NULL && q->turns.prev == &d->turn) /* it is still on the list */
            idle = d;
    }
}

/* ---- Deadlines ---- */

static void ebs_io_expire(struct ebs_queue *q, struct snic_ebs_io *io)
{
    struct ebs_disk *d = &q->disks[io->disk];
    int first = !snic_link_alone(&io->link) && d->queue.next == &io->link;
    ebs_io_forget_age(q, io);
    if (io->op == SNIC_EBS_IO_FLUSH) /* ends with the writes before it */
        return;
    if (io->cursor < io->blocks) {
        if (first) {
            d->charged = 0;
            d->map_reported = 0;
            d->map_pending = 0; /* no lookup for its segment */
        }
        snic_link_remove(&io->link);
        io->cursor = io->blocks;
        if (io->result == 0)
            io->result = SNIC_EIO;
        if (snic_link_alone(&d->queue))
            snic_link_remove(&d->turn);
        else if (first)
            ebs_disk_turn(q, d);
    }
    io->rpcs++; /* so that it does not complete before the loop ends */
    for (struct snic_link *l = d->rpcs.next, *next; l != &d->rpcs; l = next) {
        struct ebs_rpc *r = SNIC_CONTAINER(l, struct ebs_rpc, of_disk);
        next = l->next;
        if (r->io == io && !ebs_rpc_is_over(r))
            q->ops->give_up(q, r, SNIC_EIO);
    }
    io->rpcs--;
    ebs_io_progress(q, io);
}

static uint64_t ebs_age_deadline(const struct ebs_queue *q)
{
    uint64_t due = SNIC_NEVER;
    if (!snic_link_alone(&q->ages))
        due =
            SNIC_CONTAINER(q->ages.next, struct snic_ebs_io, age)->submitted_ns + q->o.deadline_ns;
    if (q->slow != &q->ages)
        due = snic_min_u64(due, SNIC_CONTAINER(q->slow, struct snic_ebs_io, age)->submitted_ns +
                                    q->o.slow_ns);
    return due;
}

void ebs_queue_expire(struct ebs_queue *q)
{
    while (!snic_link_alone(&q->ages)) {
        struct snic_ebs_io *io = SNIC_CONTAINER(q->ages.next, struct snic_ebs_io, age);
        if (q->now_ns < io->submitted_ns + q->o.deadline_ns)
            return;
        ebs_io_expire(q, io);
    }
}

/* ---- Notifications ---- */

struct snic_ebs_io *ebs_queue_done(struct ebs_queue *q)
{
    if (snic_link_alone(&q->done))
        return NULL;
    struct snic_ebs_io *io = SNIC_CONTAINER(q->done.next, struct snic_ebs_io, link);
    snic_link_remove(&io->link);
    q->s.ios[io->op]++;
    q->s.failed += io->result != 0;
    q->s.inside--;
    return io;
}

struct snic_ebs_io *ebs_queue_slow(struct ebs_queue *q)
{
    if (q->slow == &q->ages)
        return NULL;
    struct snic_ebs_io *io = SNIC_CONTAINER(q->slow, struct snic_ebs_io, age);
    if (q->now_ns < io->submitted_ns + q->o.slow_ns)
        return NULL;
    q->slow = io->age.next;
    q->s.slow++;
    return io;
}

uint64_t ebs_queue_deadline_ns(struct ebs_queue *q)
{
    if (!snic_link_alone(&q->done))
        return q->now_ns;
    if (q->halted)
        return SNIC_NEVER;
    if (q->dirty || ebs_lookups_first(&q->lookups) != NULL || !snic_link_alone(&q->disk_events) ||
        !snic_link_alone(&q->server_events))
        return q->now_ns;
    uint64_t due = snic_min_u64(ebs_age_deadline(q), q->qos_ns);
    due = snic_min_u64(due, snic_wheel_deadline_ns(&q->wheel));
    return q->s.inside == 0 ? due : snic_min_u64(due, q->lookups.due_ns);
}

void ebs_queue_halt(struct ebs_queue *q)
{
    q->halted = 1;
    while (!snic_link_alone(&q->ages)) {
        struct snic_ebs_io *io = SNIC_CONTAINER(q->ages.next, struct snic_ebs_io, age);
        struct ebs_disk *d = &q->disks[io->disk];
        ebs_io_forget_age(q, io);
        if (io->op == SNIC_EBS_IO_FLUSH)
            continue;
        if (io->cursor < io->blocks) {
            io->cursor = io->blocks;
            if (io->result == 0) /* the first failure counts */
                io->result = SNIC_EUNKNOWN;
            snic_link_remove(&io->link);
        }
        io->rpcs++;
        for (struct snic_link *l = d->rpcs.next, *next; l != &d->rpcs; l = next) {
            struct ebs_rpc *r = SNIC_CONTAINER(l, struct ebs_rpc, of_disk);
            next = l->next;
            if (r->io == io && r->where != EBS_RPC_ENDED)
                q->ops->end(q, r, SNIC_EUNKNOWN);
        }
        io->rpcs--;
        ebs_io_progress(q, io);
    }
    /* RPCs that were abandoned before, and wait for their fence, belong to no I/O in ages. */
    for (uint32_t i = 0; i < q->o.disks_max; i++)
        for (struct snic_link *l = q->disks[i].rpcs.next, *next; l != &q->disks[i].rpcs; l = next) {
            struct ebs_rpc *r = SNIC_CONTAINER(l, struct ebs_rpc, of_disk);
            next = l->next;
            if (r->where != EBS_RPC_ENDED)
                q->ops->end(q, r, SNIC_EUNKNOWN);
        }
}
