/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * I/Os: from submission through admission to their end.
 *
 * Disks take turns (deficit round robin); the I/Os of one disk are admitted in order, so versions
 * grow in that order, too.
 */
#include "luna/luna_priv.h"

enum { LUNA_IO_QUEUED = 1, LUNA_IO_OUT, LUNA_IO_OVER };

/* A server may hold half of all RPCs, so that one that is silent does not silence the others; and
   so may those whose place is not known. */
uint32_t luna_server_share(const struct snic_luna *c, uint32_t server)
{
    return c->o.servers_max == 1 && server == 0 ? c->o.rpcs_max : c->o.rpcs_max / 2;
}

void luna_disk_turn(struct snic_luna *c, struct luna_disk *d)
{
    if (snic_link_alone(&d->queue) || d->say_map || d->map_said)
        return;
    if (snic_link_alone(&d->turn)) {
        snic_link_append(&c->turns, &d->turn);
        c->dirty = 1;
    }
}

/* ---- Submission ---- */

static int luna_io_pieces(const struct snic_luna_io *io)
{
    uint64_t blocks = 0;
    for (uint32_t i = 0; i < io->iov_count; i++) {
        if (io->iov[i].size == 0 || io->iov[i].size % SNIC_EBS_BLOCK_BYTES != 0)
            return SNIC_EINVAL;
        blocks += io->iov[i].size / SNIC_EBS_BLOCK_BYTES;
    }
    return blocks == io->blocks ? 0 : SNIC_EINVAL;
}

static int luna_io_valid(const struct luna_disk *d, const struct snic_luna_io *io)
{
    if (io->op > SNIC_LUNA_FLUSH)
        return SNIC_EINVAL;
    if (d->lost && io->op != SNIC_LUNA_READ)
        return SNIC_EROFS;
    if (io->op == SNIC_LUNA_FLUSH)
        return 0;
    if (io->blocks == 0 || io->blocks > SNIC_LUNA_IO_BLOCKS_MAX || io->lba >= d->blocks ||
        io->blocks > d->blocks - io->lba)
        return SNIC_EINVAL;
    if (luna_is_write(io->op) && snic_ebs_id_counter(d->wver) + d->inside >= SNIC_EBS_COUNTER_MAX)
        return SNIC_EOVERFLOW;
    return io->op == SNIC_LUNA_READ || io->op == SNIC_LUNA_WRITE ? luna_io_pieces(io) : 0;
}

static void luna_flushes(struct snic_luna *c, struct luna_disk *d)
{
    while (!snic_link_alone(&d->order)) {
        struct snic_luna_io *io = SNIC_CONTAINER(d->order.next, struct snic_luna_io, order);
        if (io->op != SNIC_LUNA_FLUSH)
            return;
        luna_io_done(c, io);
    }
}

int snic_luna_submit(struct snic_luna *c, struct snic_luna_io *io, uint64_t now_ns)
{
    if (io->disk >= c->o.disks_max || !c->disks[io->disk].used || c->halted)
        return SNIC_ENOENT;
    struct luna_disk *d = &c->disks[io->disk];
    int r = luna_io_valid(d, io);
    if (r != 0)
        return r;
    c->now_ns = snic_max_u64(c->now_ns, now_ns);
    io->result = 0;
    io->retries = 0;
    io->submitted_ns = c->now_ns;
    io->admitted_ns = 0;
    io->done_ns = 0;
    io->cursor = 0;
    io->rpcs = 0;
    io->piece = 0;
    io->piece_block = 0;
    io->wver = 0;
    io->state = LUNA_IO_QUEUED;
    snic_link_init(&io->link);
    snic_link_init(&io->order);
    snic_link_append(&c->ages, &io->age);
    if (c->slow == &c->ages)
        c->slow = &io->age;
    c->s.inside++;
    d->inside++;
    if (io->op != SNIC_LUNA_READ)
        snic_link_append(&d->order, &io->order);
    if (io->op == SNIC_LUNA_FLUSH) {
        luna_flushes(c, d);
        return 0;
    }
    snic_link_append(&d->queue, &io->link);
    luna_disk_turn(c, d);
    return 0;
}

/* ---- The end ---- */

static void luna_io_forget_age(struct snic_luna *c, struct snic_luna_io *io)
{
    if (c->slow == &io->age)
        c->slow = io->age.next;
    snic_link_remove(&io->age);
}

void luna_io_done(struct snic_luna *c, struct snic_luna_io *io)
{
    struct luna_disk *d = &c->disks[io->disk];
    SNIC_ASSERT(io->rpcs == 0 && io->state != LUNA_IO_OVER);
    io->state = LUNA_IO_OVER;
    io->done_ns = c->now_ns;
    luna_io_forget_age(c, io);
    snic_link_remove(&io->order);
    snic_link_remove(&io->link);
    snic_link_append(&c->done, &io->link);
    d->inside--;
}

void luna_io_progress(struct snic_luna *c, struct snic_luna_io *io)
{
    struct luna_disk *d = &c->disks[io->disk];
    if (io->rpcs > 0 || io->cursor < io->blocks)
        return;
    luna_io_done(c, io);
    luna_flushes(c, d);
}

/* ---- Admission ---- */

static void luna_disk_ask_map(struct snic_luna *c, struct luna_disk *d,
                              const struct snic_luna_io *io, uint64_t segment, uint32_t gen)
{
    if (d->need_segment != segment || d->need_ns < io->admitted_ns)
        d->need_ns = c->now_ns;
    d->need_segment = segment;
    d->need_gen = gen;
    snic_link_remove(&d->turn);
    luna_ask_disk(c, d);
}

static uint32_t luna_io_bytes(const struct snic_luna_io *io)
{
    uint64_t bytes = (uint64_t)io->blocks * SNIC_EBS_BLOCK_BYTES;
    return io->op <= SNIC_LUNA_WRITE ? (uint32_t)snic_min_u64(bytes, UINT32_MAX) : 0;
}

/* QoS, then the version. @return 0, or SNIC_EAGAIN: the disk waits for its limits */
static int luna_io_charge(struct snic_luna *c, struct luna_disk *d, struct snic_luna_io *io)
{
    int r = d->limited ? snic_ebs_qos_admit(c->qos, d->index, luna_io_bytes(io), c->now_ns) : 0;
    if (r == SNIC_ECORRUPT) { /* the entry is set anew, from what the disk knows */
        c->s.tables++;
        (void)!snic_ebs_qos_set(c->qos, d->index, &d->limits, c->now_ns);
        r = snic_ebs_qos_admit(c->qos, d->index, luna_io_bytes(io), c->now_ns);
    }
    if (r == SNIC_EAGAIN) {
        c->qos_ns = snic_min_u64(c->qos_ns, snic_ebs_qos_ready_ns(c->qos, d->index));
        snic_link_remove(&d->turn);
        snic_link_append(&c->limited, &d->turn);
        return SNIC_EAGAIN;
    }
    d->charged = 1;
    io->admitted_ns = c->now_ns;
    io->state = LUNA_IO_OUT;
    if (luna_is_write(io->op))
        io->wver = ++d->wver; /* I5: submit saw to it that there is one left */
    return 0;
}

static void luna_io_advance(struct snic_luna_io *io, uint32_t blocks)
{
    io->cursor += blocks;
    if (io->op > SNIC_LUNA_WRITE)
        return;
    io->piece_block += blocks;
    while (io->piece < io->iov_count &&
           io->piece_block >= io->iov[io->piece].size / SNIC_EBS_BLOCK_BYTES) {
        io->piece_block -= (uint32_t)(io->iov[io->piece].size / SNIC_EBS_BLOCK_BYTES);
        io->piece++;
    }
}

enum luna_turn { LUNA_TURN_MORE, LUNA_TURN_NEXT, LUNA_TURN_OFF, LUNA_TURN_STOP };

/* One RPC of the disk's first I/O. What has no place yet waits by itself, and nothing behind it
   does: not all places may be known, when a server is gone, or the pool is full. */
static enum luna_turn luna_disk_step(struct snic_luna *c, struct luna_disk *d)
{
    struct snic_ebs_where w;
    struct snic_luna_io *io = SNIC_CONTAINER(d->queue.next, struct snic_luna_io, link);
    uint64_t lba = io->lba + io->cursor, segment = lba >> SNIC_EBS_SEGMENT_LOG2;
    uint32_t left = SNIC_EBS_SEGMENT_BLOCKS - (uint32_t)(lba % SNIC_EBS_SEGMENT_BLOCKS);
    uint32_t count =
        (uint32_t)snic_min_u64(snic_min_u64(left, io->blocks - io->cursor), SNIC_EBS_RPC_BLOCKS);
    if (c->rpcs_free == 0)
        return LUNA_TURN_STOP;
    memset(&w, 0, sizeof(w));
    int r = snic_ebs_map_get(d->map, segment, &w);
    c->s.tables += r == SNIC_ECORRUPT;
    int known = r == 0 && w.server < c->o.servers_max && c->servers[w.server].used;
    if (!known)
        w.server = luna_nowhere(c);
    if (c->servers[w.server].rpcs >= luna_server_share(c, w.server)) {
        if (known)
            return LUNA_TURN_NEXT;
        luna_disk_ask_map(c, d, io, segment, w.seg_gen);
        return LUNA_TURN_OFF;
    }
    if (known && c->servers[w.server].backlog >= SNIC_LUNA__BACKLOG)
        return LUNA_TURN_NEXT;
    if (!d->charged && luna_io_charge(c, d, io) != 0)
        return LUNA_TURN_OFF;
    io->rpcs++;
    luna_rpc_new(c, io, count, &w);
    luna_io_advance(io, count);
    d->deficit -= (int64_t)count * SNIC_EBS_BLOCK_BYTES;
    if (io->cursor == io->blocks) {
        d->charged = 0;
        snic_link_remove(&io->link);
    }
    return LUNA_TURN_MORE;
}

/* @return 1 something was admitted, or will be some rounds later: the debt of one RPC is bounded */
static int luna_disk_serve(struct snic_luna *c, struct luna_disk *d, int *stop)
{
    enum luna_turn turn = LUNA_TURN_NEXT;
    if (d->deficit <= 0)
        d->deficit += SNIC_LUNA__QUANTUM;
    int any = d->deficit <= 0;
    while (d->deficit > 0 && !snic_link_alone(&d->queue)) {
        turn = luna_disk_step(c, d);
        if (turn != LUNA_TURN_MORE)
            break;
        any = 1;
    }
    *stop = turn == LUNA_TURN_STOP;
    if (snic_link_alone(&d->queue)) {
        d->deficit = 0;
        snic_link_remove(&d->turn);
    } else if (turn == LUNA_TURN_MORE || turn == LUNA_TURN_NEXT) {
        snic_link_remove(&d->turn);
        snic_link_append(&c->turns, &d->turn);
    }
    return any;
}

void luna_admit(struct snic_luna *c)
{
    int stop = 0;
    struct luna_disk *idle = NULL; /* the first that could not, since the last that could */
    if (c->now_ns >= c->qos_ns) {
        c->qos_ns = SNIC_NEVER;
        while (!snic_link_alone(&c->limited)) {
            struct snic_link *l = c->limited.next;
            snic_link_remove(l);
            snic_link_append(&c->turns, l);
        }
    }
    while (!stop && !snic_link_alone(&c->turns)) {
        struct luna_disk *d = SNIC_CONTAINER(c->turns.next, struct luna_disk, turn);
        if (d == idle)
            break;
        if (luna_disk_serve(c, d, &stop))
            idle = NULL;
        else if (idle == NULL && c->turns.prev == &d->turn) /* it has a turn still */
            idle = d;
    }
}

/* ---- Time runs out ---- */

static void luna_io_expire(struct snic_luna *c, struct snic_luna_io *io)
{
    struct luna_disk *d = &c->disks[io->disk];
    int first = !snic_link_alone(&io->link) && d->queue.next == &io->link;
    luna_io_forget_age(c, io);
    if (io->op == SNIC_LUNA_FLUSH) /* ends with the writes before it */
        return;
    if (io->cursor < io->blocks) {
        if (first) {
            d->charged = 0;
            d->map_said = 0;
        }
        snic_link_remove(&io->link);
        io->cursor = io->blocks;
        io->result = SNIC_EIO;
        if (snic_link_alone(&d->queue))
            snic_link_remove(&d->turn);
        else if (first)
            luna_disk_turn(c, d);
    }
    io->rpcs++; /* so that it is not over before all is given up */
    for (struct snic_link *l = d->rpcs.next, *next; l != &d->rpcs; l = next) {
        struct luna_rpc *r = SNIC_CONTAINER(l, struct luna_rpc, of_disk);
        next = l->next;
        if (r->io == io)
            luna_rpc_give_up(c, r, SNIC_EIO);
    }
    io->rpcs--;
    luna_io_progress(c, io);
}

uint64_t luna_age_deadline(const struct snic_luna *c)
{
    uint64_t due = SNIC_NEVER;
    if (!snic_link_alone(&c->ages))
        due =
            SNIC_CONTAINER(c->ages.next, struct snic_luna_io, age)->submitted_ns + c->o.deadline_ns;
    if (c->slow != &c->ages)
        due = snic_min_u64(due, SNIC_CONTAINER(c->slow, struct snic_luna_io, age)->submitted_ns +
                                    c->o.slow_ns);
    return due;
}

void luna_age(struct snic_luna *c)
{
    while (!snic_link_alone(&c->ages)) {
        struct snic_luna_io *io = SNIC_CONTAINER(c->ages.next, struct snic_luna_io, age);
        if (c->now_ns < io->submitted_ns + c->o.deadline_ns)
            return;
        luna_io_expire(c, io);
    }
}
