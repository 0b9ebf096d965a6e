/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * I/Os: from submission through admission to their end, and the map that says where they go.
 *
 * Disks take turns (deficit round robin); the I/Os of one disk are admitted in order, so versions
 * grow in that order, too.
 */
#include "solar/solar_priv.h"

enum { SOLAR_IO_QUEUED = 1, SOLAR_IO_OUT, SOLAR_IO_OVER };

/* A server may hold half of all RPCs, so that one that is silent does not silence the others; and
   so may those whose place is not known. */
static uint32_t solar_server_share(const struct snic_solar *c, uint32_t server)
{
    return c->o.servers_max == 1 && server == 0 ? c->o.rpcs_max : c->o.rpcs_max / 2;
}

void solar_disk_turn(struct snic_solar *c, struct solar_disk *d)
{
    if (snic_link_alone(&d->queue) || d->say_map || d->map_said)
        return;
    if (snic_link_alone(&d->turn)) {
        snic_link_append(&c->turns, &d->turn);
        c->dirty = 1;
    }
}

/* ---- Submission ---- */

static int solar_io_pieces(const struct snic_solar_io *io)
{
    uint64_t blocks = 0;
    for (uint32_t i = 0; i < io->iov_count; i++) {
        if (io->iov[i].size == 0 || io->iov[i].size % SNIC_EBS_BLOCK_BYTES != 0)
            return SNIC_EINVAL;
        blocks += io->iov[i].size / SNIC_EBS_BLOCK_BYTES;
    }
    return blocks == io->blocks ? 0 : SNIC_EINVAL;
}

static int solar_io_valid(const struct solar_disk *d, const struct snic_solar_io *io)
{
    if (io->op > SNIC_SOLAR_FLUSH)
        return SNIC_EINVAL;
    if (d->lost && io->op != SNIC_SOLAR_READ)
        return SNIC_EROFS;
    if (io->op == SNIC_SOLAR_FLUSH)
        return 0;
    if (io->blocks == 0 || io->blocks > SNIC_SOLAR_IO_BLOCKS_MAX || io->lba >= d->blocks ||
        io->blocks > d->blocks - io->lba)
        return SNIC_EINVAL;
    if (solar_is_write(io->op) && snic_ebs_id_counter(d->wver) + d->inside >= SNIC_EBS_COUNTER_MAX)
        return SNIC_EOVERFLOW;
    return io->op == SNIC_SOLAR_READ || io->op == SNIC_SOLAR_WRITE ? solar_io_pieces(io) : 0;
}

static void solar_flushes(struct snic_solar *c, struct solar_disk *d)
{
    while (!snic_link_alone(&d->order)) {
        struct snic_solar_io *io = SNIC_CONTAINER(d->order.next, struct snic_solar_io, order);
        if (io->op != SNIC_SOLAR_FLUSH)
            return;
        solar_io_done(c, io);
    }
}

int snic_solar_submit(struct snic_solar *c, struct snic_solar_io *io, uint64_t now_ns)
{
    if (io->disk >= c->o.disks_max || !c->disks[io->disk].used || c->halted)
        return SNIC_ENOENT;
    struct solar_disk *d = &c->disks[io->disk];
    int r = solar_io_valid(d, io);
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
    io->state = SOLAR_IO_QUEUED;
    snic_link_init(&io->link);
    snic_link_init(&io->order);
    snic_link_append(&c->ages, &io->age);
    if (c->slow == &c->ages)
        c->slow = &io->age;
    c->s.inside++;
    d->inside++;
    if (io->op != SNIC_SOLAR_READ)
        snic_link_append(&d->order, &io->order);
    if (io->op == SNIC_SOLAR_FLUSH) {
        solar_flushes(c, d);
        return 0;
    }
    snic_link_append(&d->queue, &io->link);
    solar_disk_turn(c, d);
    return 0;
}

/* ---- The end ---- */

static void solar_io_forget_age(struct snic_solar *c, struct snic_solar_io *io)
{
    if (c->slow == &io->age)
        c->slow = io->age.next;
    snic_link_remove(&io->age);
}

void solar_io_done(struct snic_solar *c, struct snic_solar_io *io)
{
    struct solar_disk *d = &c->disks[io->disk];
    SNIC_ASSERT(io->rpcs == 0 && io->state != SOLAR_IO_OVER);
    io->state = SOLAR_IO_OVER;
    io->done_ns = c->now_ns;
    solar_io_forget_age(c, io);
    snic_link_remove(&io->order);
    snic_link_remove(&io->link);
    snic_link_append(&c->done, &io->link);
    d->inside--;
}

void solar_io_progress(struct snic_solar *c, struct snic_solar_io *io)
{
    struct solar_disk *d = &c->disks[io->disk];
    if (io->rpcs > 0 || io->cursor < io->blocks)
        return;
    solar_io_done(c, io);
    solar_flushes(c, d);
}

/* ---- Admission ---- */

static void solar_disk_ask_map(struct snic_solar *c, struct solar_disk *d,
                               const struct snic_solar_io *io, uint64_t segment, uint32_t gen)
{
    if (d->need_segment != segment || d->need_ns < io->admitted_ns)
        d->need_ns = c->now_ns;
    d->need_segment = segment;
    d->need_gen = gen;
    snic_link_remove(&d->turn);
    solar_ask_disk(c, d);
}

static uint32_t solar_io_bytes(const struct snic_solar_io *io)
{
    uint64_t bytes = (uint64_t)io->blocks * SNIC_EBS_BLOCK_BYTES;
    return io->op <= SNIC_SOLAR_WRITE ? (uint32_t)snic_min_u64(bytes, UINT32_MAX) : 0;
}

/* QoS, then the version. @return 0, or SNIC_EAGAIN: the disk waits for its limits */
static int solar_io_charge(struct snic_solar *c, struct solar_disk *d, struct snic_solar_io *io)
{
    int r = d->limited ? snic_ebs_qos_admit(c->qos, d->index, solar_io_bytes(io), c->now_ns) : 0;
    if (r == SNIC_ECORRUPT) { /* the entry is set anew, from what the disk knows */
        c->s.tables++;
        (void)!snic_ebs_qos_set(c->qos, d->index, &d->limits, c->now_ns);
        r = snic_ebs_qos_admit(c->qos, d->index, solar_io_bytes(io), c->now_ns);
    }
    if (r == SNIC_EAGAIN) {
        c->qos_ns = snic_min_u64(c->qos_ns, snic_ebs_qos_ready_ns(c->qos, d->index));
        snic_link_remove(&d->turn);
        snic_link_append(&c->limited, &d->turn);
        return SNIC_EAGAIN;
    }
    d->charged = 1;
    io->admitted_ns = c->now_ns;
    io->state = SOLAR_IO_OUT;
    if (solar_is_write(io->op))
        io->wver = ++d->wver; /* I5: submit saw to it that there is one left */
    return 0;
}

static void solar_io_advance(struct snic_solar_io *io, uint32_t blocks)
{
    io->cursor += blocks;
    if (io->op > SNIC_SOLAR_WRITE)
        return;
    io->piece_block += blocks;
    while (io->piece < io->iov_count &&
           io->piece_block >= io->iov[io->piece].size / SNIC_EBS_BLOCK_BYTES) {
        io->piece_block -= (uint32_t)(io->iov[io->piece].size / SNIC_EBS_BLOCK_BYTES);
        io->piece++;
    }
}

enum solar_turn { SOLAR_TURN_MORE, SOLAR_TURN_NEXT, SOLAR_TURN_OFF, SOLAR_TURN_STOP };

/* One RPC of the disk's first I/O. What has no place yet waits by itself, and nothing behind it
   does: not all places may be known, when a server is gone, or the pool is full. */
static enum solar_turn solar_disk_step(struct snic_solar *c, struct solar_disk *d)
{
    struct snic_ebs_where w;
    struct snic_solar_io *io = SNIC_CONTAINER(d->queue.next, struct snic_solar_io, link);
    uint64_t lba = io->lba + io->cursor, segment = lba >> SNIC_EBS_SEGMENT_LOG2;
    uint32_t left = SNIC_EBS_SEGMENT_BLOCKS - (uint32_t)(lba % SNIC_EBS_SEGMENT_BLOCKS);
    uint32_t count =
        (uint32_t)snic_min_u64(snic_min_u64(left, io->blocks - io->cursor), SNIC_EBS_RPC_BLOCKS);
    if (c->rpcs_free == 0)
        return SOLAR_TURN_STOP;
    memset(&w, 0, sizeof(w));
    int r = snic_ebs_map_get(d->map, segment, &w);
    c->s.tables += r == SNIC_ECORRUPT;
    int known = r == 0 && w.server < c->o.servers_max && c->servers[w.server].used;
    if (!known)
        w.server = solar_nowhere(c);
    if (c->servers[w.server].rpcs >= solar_server_share(c, w.server)) {
        if (known)
            return SOLAR_TURN_NEXT;
        solar_disk_ask_map(c, d, io, segment, w.seg_gen);
        return SOLAR_TURN_OFF;
    }
    if (known && c->servers[w.server].backlog >= SNIC_SOLAR__BACKLOG)
        return SOLAR_TURN_NEXT;
    if (!d->charged && solar_io_charge(c, d, io) != 0)
        return SOLAR_TURN_OFF;
    io->rpcs++;
    (void)solar_rpc_new(c, io, count, &w);
    solar_io_advance(io, count);
    d->deficit -= (int64_t)count * SNIC_EBS_BLOCK_BYTES;
    if (io->cursor == io->blocks) {
        d->charged = 0;
        snic_link_remove(&io->link);
    }
    return SOLAR_TURN_MORE;
}

/* @return 1 something was admitted, or will be some rounds later: the debt of one RPC is bounded */
static int solar_disk_serve(struct snic_solar *c, struct solar_disk *d, int *stop)
{
    enum solar_turn turn = SOLAR_TURN_NEXT;
    if (d->deficit <= 0)
        d->deficit += SNIC_SOLAR__QUANTUM;
    int any = d->deficit <= 0;
    while (d->deficit > 0 && !snic_link_alone(&d->queue)) {
        turn = solar_disk_step(c, d);
        if (turn != SOLAR_TURN_MORE)
            break;
        any = 1;
    }
    *stop = turn == SOLAR_TURN_STOP;
    if (snic_link_alone(&d->queue)) {
        d->deficit = 0;
        snic_link_remove(&d->turn);
    } else if (turn == SOLAR_TURN_MORE || turn == SOLAR_TURN_NEXT) {
        snic_link_remove(&d->turn);
        snic_link_append(&c->turns, &d->turn);
    }
    return any;
}

void solar_admit(struct snic_solar *c)
{
    int stop = 0;
    struct solar_disk *idle = NULL; /* the first that could not, since the last that could */
    if (c->now_ns >= c->qos_ns) {
        c->qos_ns = SNIC_NEVER;
        while (!snic_link_alone(&c->limited)) {
            struct snic_link *l = c->limited.next;
            snic_link_remove(l);
            snic_link_append(&c->turns, l);
        }
    }
    while (!stop && !snic_link_alone(&c->turns)) {
        struct solar_disk *d = SNIC_CONTAINER(c->turns.next, struct solar_disk, turn);
        if (d == idle)
            break;
        if (solar_disk_serve(c, d, &stop))
            idle = NULL;
        else if (idle == NULL && c->turns.prev == &d->turn) /* it has a turn still */
            idle = d;
    }
    solar_read_credit(c);
}

/* ---- Time runs out ---- */

static void solar_io_expire(struct snic_solar *c, struct snic_solar_io *io)
{
    struct solar_disk *d = &c->disks[io->disk];
    int first = !snic_link_alone(&io->link) && d->queue.next == &io->link;
    solar_io_forget_age(c, io);
    if (io->op == SNIC_SOLAR_FLUSH) /* ends with the writes before it */
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
            solar_disk_turn(c, d);
    }
    io->rpcs++; /* so that it is not over before all is given up */
    for (struct snic_link *l = d->rpcs.next, *next; l != &d->rpcs; l = next) {
        struct solar_rpc *r = SNIC_CONTAINER(l, struct solar_rpc, of_disk);
        next = l->next;
        if (r->io == io)
            solar_rpc_give_up(c, r, SNIC_EIO);
    }
    io->rpcs--;
    solar_io_progress(c, io);
}

uint64_t solar_age_deadline(const struct snic_solar *c)
{
    uint64_t due = SNIC_NEVER;
    if (!snic_link_alone(&c->ages))
        due = SNIC_CONTAINER(c->ages.next, struct snic_solar_io, age)->submitted_ns +
              c->o.deadline_ns;
    if (c->slow != &c->ages)
        due = snic_min_u64(due, SNIC_CONTAINER(c->slow, struct snic_solar_io, age)->submitted_ns +
                                    c->o.slow_ns);
    return due;
}

void solar_age(struct snic_solar *c)
{
    while (!snic_link_alone(&c->ages)) {
        struct snic_solar_io *io = SNIC_CONTAINER(c->ages.next, struct snic_solar_io, age);
        if (c->now_ns < io->submitted_ns + c->o.deadline_ns)
            return;
        solar_io_expire(c, io);
    }
}

/* ---- The map ---- */

int snic_solar_map(struct snic_solar *c, uint32_t disk, uint64_t segment, uint64_t seg_id,
                   uint32_t server, uint32_t gen, uint64_t now_ns)
{
    struct snic_ebs_where w;
    if (disk >= c->o.disks_max || !c->disks[disk].used || server >= c->o.servers_max ||
        !c->servers[server].used)
        return SNIC_ENOENT;
    struct solar_disk *d = &c->disks[disk];
    memset(&w, 0, sizeof(w));
    w.seg_id = seg_id;
    w.server = server;
    w.seg_gen = gen;
    int r = snic_ebs_map_set(d->map, segment, &w);
    if (r != 0)
        return r == SNIC_ERANGE ? SNIC_EINVAL : r;
    c->now_ns = snic_max_u64(c->now_ns, now_ns);
    for (struct snic_link *l = d->rpcs.next, *next; l != &d->rpcs; l = next) {
        struct solar_rpc *rpc = SNIC_CONTAINER(l, struct solar_rpc, of_disk);
        next = l->next;
        if (rpc->lba >> SNIC_EBS_SEGMENT_LOG2 == segment)
            solar_rpc_retarget(c, rpc, &w);
    }
    if ((d->map_said || d->say_map) &&
        (d->need_segment == segment ||
         c->servers[solar_nowhere(c)].rpcs < solar_server_share(c, solar_nowhere(c)))) {
        d->map_said = 0;
        d->say_map = 0;
        solar_disk_turn(c, d);
    }
    return 0;
}
