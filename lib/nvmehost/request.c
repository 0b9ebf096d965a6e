/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * Requests: a slot each, one command at a time, on the best queue there is. P1.
 */
#include "nvmehost/nvmehost_priv.h"

#include "snicstore/nvme_wire.h"

static int nvmehost_changes(const struct snic_io_req *req)
{
    return req->op == SNIC_IO_WRITE || req->op == SNIC_IO_ZERO || req->op == SNIC_IO_DISCARD;
}

/* ---- States ---- */

static void nvmehost_slot_enter(struct nvmehost_slot *x, struct snic_nvmehost *s, uint8_t state)
{
    x->state = state;
    snic_link_remove(&x->link);
    if (state == NVMEHOST_SLOT_READY)
        snic_link_append(&s->ready, &x->link);
    else if (state == NVMEHOST_SLOT_DONE)
        snic_link_append(&s->done, &x->link);
}

static void nvmehost_slot_done(struct nvmehost_slot *x, struct snic_nvmehost *s, int64_t result)
{
    x->req->result = result;
    nvmehost_slot_enter(x, s, NVMEHOST_SLOT_DONE);
    nvmehost_kick(s);
}

/* It is tried no longer. */
static void nvmehost_slot_give_up(struct nvmehost_slot *x, struct snic_nvmehost *s)
{
    int some = nvmehost_changes(x->req) && (x->maybe || x->at > 0);
    nvmehost_slot_done(x, s, some ? SNIC_EUNKNOWN : x->error != 0 ? x->error : SNIC_EIO);
}

static int nvmehost_slot_old(const struct nvmehost_slot *x, const struct snic_nvmehost *s,
                             uint64_t now)
{
    return s->o.loss_ns != SNIC_NEVER && now - x->req->queued_ns >= s->o.loss_ns;
}

void nvmehost_slots_init(struct snic_nvmehost *s)
{
    for (uint32_t i = 0; i < s->o.depth; i++) {
        snic_link_init(&s->slots[i].link);
        snic_link_append(&s->free, &s->slots[i].link);
    }
}

/* ---- Submit ---- */

static void nvmehost_accept(struct snic_nvmehost *s, struct snic_io_req *req)
{
    struct nvmehost_slot *x = SNIC_CONTAINER(s->free.next, struct nvmehost_slot, link);
    x->req = req;
    x->conn = NULL;
    x->at = x->part = 0;
    x->error = 0;
    x->maybe = x->flight = 0;
    s->used++;
    req->backend[0] = (uint64_t)(uintptr_t)x;
    req->os_error = 0;
    req->credit = 0;
    req->queued_ns = req->device_ns = snic_loop_now(s->loop);
    s->io.stats.submitted++;
    s->io.stats.flushes += req->op == SNIC_IO_FLUSH;
    int r = snic_io_validate(&s->io, req);
    if (r != 0)
        nvmehost_slot_done(x, s, r);
    else
        nvmehost_slot_enter(x, s, NVMEHOST_SLOT_READY);
}

int nvmehost_submit(struct snic_io *io, struct snic_io_req **reqs, uint32_t n)
{
    struct snic_nvmehost *s = SNIC_CONTAINER(io, struct snic_nvmehost, io);
    uint32_t i = 0;
    if (s->closing)
        return SNIC_ECANCELED;
    if (snic_io_room_taken(&s->room))
        return 0;
    for (; i < n && !snic_link_alone(&s->free); i++)
        nvmehost_accept(s, reqs[i]);
    io->stats.queue_high = snic_max_u64(io->stats.queue_high, s->used);
    if (i > 0)
        nvmehost_kick(s);
    return (int)i;
}

void nvmehost_cancel(struct snic_io *io, struct snic_io_req *req)
{
    struct snic_nvmehost *s = SNIC_CONTAINER(io, struct snic_nvmehost, io);
    struct nvmehost_slot *x = (struct nvmehost_slot *)(uintptr_t)req->backend[0];
    if (x < s->slots || x >= s->slots + s->o.depth || x->req != req)
        return;
    if (x->state == NVMEHOST_SLOT_READY && !x->flight)
        nvmehost_slot_done(x, s, SNIC_ECANCELED);
}

/* ---- Commands ---- */

/* The pieces of the command, a cut of the request's. */
static void nvmehost_pieces(struct nvmehost_slot *x)
{
    const struct snic_io_req *req = x->req;
    const struct snic_iov *from = req->iov != NULL ? req->iov : &req->buf;
    uint64_t skip = x->at, left = x->part;
    x->cmd.iov = from;
    x->cmd.iov_count = req->iov != NULL ? req->iov_count : 1;
    if (skip == 0 && left == req->length)
        return;
    uint32_t n = 0;
    for (; left > 0; from++) {
        if (skip >= from->size) {
            skip -= from->size;
            continue;
        }
        x->iov[n].base = (unsigned char *)from->base + skip;
        x->iov[n].size = (size_t)snic_min_u64(from->size - skip, left);
        left -= x->iov[n++].size;
        skip = 0;
    }
    x->cmd.iov = x->iov;
    x->cmd.iov_count = n;
}

static uint8_t nvmehost_opcode(const struct snic_io_req *req)
{
    switch (req->op) {
    case SNIC_IO_READ:
        return SNIC_NVME_IO_READ;
    case SNIC_IO_WRITE:
        return SNIC_NVME_IO_WRITE;
    case SNIC_IO_ZERO:
        return SNIC_NVME_IO_WRITE_ZEROES;
    case SNIC_IO_DISCARD:
        return SNIC_NVME_IO_DSM;
    default:
        return SNIC_NVME_IO_FLUSH;
    }
}

static void nvmehost_command(struct nvmehost_slot *x, const struct nvmehost_path *p)
{
    const struct snic_nvmehost *s = p->s;
    const struct snic_io_req *req = x->req;
    struct snic_nvme_sqe e = {.opcode = nvmehost_opcode(req), .nsid = s->o.nsid};
    uint64_t left = req->length - x->at, lba = (req->offset + x->at) >> p->shift;
    int durable =
        (req->flags & SNIC_IO_FUA) != 0 || (p->vwc && (s->o.flags & SNIC_NVMEHOST_VOLATILE) == 0);
    memset(&x->cmd, 0, sizeof(x->cmd));
    x->part = left;
    if (req->op == SNIC_IO_READ || req->op == SNIC_IO_WRITE) {
        x->part = snic_min_u64(left, snic_align_down(p->part, p->ns.block));
        nvmehost_pieces(x);
        x->cmd.size = (uint32_t)x->part;
    } else if (req->op == SNIC_IO_ZERO) {
        x->part = snic_min_u64(left, (uint64_t)p->zero_blocks << p->shift);
    } else if (req->op == SNIC_IO_DISCARD) {
        x->part = snic_min_u64(left, UINT64_C(1) << 30);
        snic_put_le32(&x->range.attributes, 0);
        snic_put_le32(&x->range.blocks, (uint32_t)(x->part >> p->shift));
        snic_put_le64(&x->range.lba, lba);
        x->range_iov.base = &x->range;
        x->range_iov.size = sizeof(x->range);
        x->cmd.iov = &x->range_iov;
        x->cmd.iov_count = 1;
        x->cmd.size = sizeof(x->range);
        e.cdw11 = SNIC_NVME_DSM_DEALLOCATE;
    }
    if (req->op != SNIC_IO_FLUSH && req->op != SNIC_IO_DISCARD) {
        e.cdw10 = (uint32_t)lba;
        e.cdw11 = (uint32_t)(lba >> 32);
        e.cdw12 = (uint32_t)(x->part >> p->shift) - 1;
        if (req->op != SNIC_IO_READ && durable)
            e.cdw12 |= SNIC_NVME_RW_FUA;
    }
    snic_nvme_sqe_store(x->cmd.sqe, &e);
}

/* ---- Dispatch ---- */

static int nvmehost_room(const struct nvmehost_conn *c)
{
    return c->usable && c->inflight < c->room;
}

/* The queue with the least in flight; from the one after the last, so that equals take turns. */
static struct nvmehost_conn *nvmehost_choose(struct snic_nvmehost *s)
{
    struct nvmehost_conn *best = NULL;
    uint32_t all = s->o.addr_count * s->o.queues;
    uint8_t ana = SNIC_NVME_ANA_NON_OPTIMIZED;
    for (uint32_t i = 0; i < s->o.addr_count; i++)
        if (nvmehost_path_usable(&s->paths[i]))
            ana = (uint8_t)snic_min_u64(ana, s->paths[i].ana);
    for (uint32_t i = 1; i <= all; i++) {
        uint32_t k = (s->turn + i) % all;
        struct nvmehost_path *p = &s->paths[k / s->o.queues];
        struct nvmehost_conn *c = &p->conns[1 + k % s->o.queues];
        if (!nvmehost_path_usable(p) || p->ana != ana || !nvmehost_room(c) ||
            snic_credit_room(&p->credit) == 0)
            continue;
        if (best == NULL || c->inflight < best->inflight)
            best = c;
    }
    return best;
}

/* The queue takes no command, whatever is free of it (SQ flow control of a target that was asked
 * for none): not before one has ended, which, when none is there, is never. */
static void nvmehost_queue_full(struct nvmehost_conn *c, int error)
{
    c->room = c->inflight;
    if (error != SNIC_EAGAIN)
        nvmehost_path_fail(c->p, SNIC_ECONNRESET, 0);
    else if (c->inflight == 0)
        nvmehost_path_fail(c->p, SNIC_EPROTO, 0);
}

/* @return 0 nothing changed; 1 it was sent, or the queue is chosen no more */
static int nvmehost_send(struct snic_nvmehost *s, struct nvmehost_slot *x, struct nvmehost_conn *c)
{
    struct nvmehost_path *p = c->p;
    uint64_t now = snic_loop_now(s->loop);
    nvmehost_command(x, p);
    if (!snic_credit_take(&p->credit))
        return 0;
    int r = snic_nvmetcp_host_submit(c->e, &x->cmd, now);
    if (r != 0) {
        snic_credit_cancel(&p->credit);
        nvmehost_queue_full(c, r);
        return 1;
    }
    nvmehost_slot_enter(x, s, NVMEHOST_SLOT_SENT);
    s->stats.commands++;
    s->stats.resent += x->flight > 1;
    if (x->flight == 0)
        x->req->device_ns = now;
    x->flight = 1;
    x->conn = c;
    x->sent_ns = now;
    c->inflight++;
    s->turn = (uint32_t)(p - s->paths) * s->o.queues + c->qid - 1U;
    return 1;
}

void nvmehost_dispatch(struct snic_nvmehost *s)
{
    while (!snic_link_alone(&s->ready)) {
        struct nvmehost_slot *x = SNIC_CONTAINER(s->ready.next, struct nvmehost_slot, link);
        if (nvmehost_slot_old(x, s, snic_loop_now(s->loop))) {
            nvmehost_slot_give_up(x, s);
            continue;
        }
        struct nvmehost_conn *c = nvmehost_choose(s);
        if (c == NULL || !nvmehost_send(s, x, c))
            return;
    }
}

/* ---- The end of a command ---- */

/* Again, later. */
static void nvmehost_slot_later(struct snic_nvmehost *s, struct nvmehost_slot *x, int error)
{
    x->error = error;
    x->flight = 2;
    s->stats.retries++;
    nvmehost_slot_enter(x, s, NVMEHOST_SLOT_LATER);
    x->retry_ns = snic_loop_now(s->loop) + 2 * SNIC_NVMEHOST__TICK_NS;
}

static void nvmehost_slot_lost(struct snic_nvmehost *s, struct nvmehost_slot *x)
{
    x->error = SNIC_EIO;
    x->flight = 2;
    if (nvmehost_changes(x->req)) {
        x->maybe = 1;
        nvmehost_slot_enter(x, s, NVMEHOST_SLOT_LIMBO);
        return;
    }
    nvmehost_slot_enter(x, s, NVMEHOST_SLOT_READY);
}

static void nvmehost_slot_status(struct snic_nvmehost *s, struct nvmehost_slot *x)
{
    struct nvmehost_path *p = x->conn->p;
    uint32_t status = x->cmd.status;
    int error = snic_nvme_status_error(status);
    x->req->os_error = (int32_t)(status & SNIC_NVME_SCT_SC);
    if (SNIC_NVME_SCT(status) == 3 && p->has_ana) {
        p->want_ana = 1;
        if ((status & SNIC_NVME_SCT_SC) >= SNIC_NVME_SC_ANA_LOSS &&
            (status & SNIC_NVME_SCT_SC) <= SNIC_NVME_SC_ANA_CHANGE)
            p->ana = SNIC_NVME_ANA_CHANGE; /* until the log was read */
        nvmehost_slot_later(s, x, SNIC_EIO);
        return;
    }
    if ((status & SNIC_NVME_DNR) == 0 && error == SNIC_EAGAIN) {
        nvmehost_slot_later(s, x, SNIC_EIO);
        return;
    }
    x->error = error == SNIC_EAGAIN || error == SNIC_ECANCELED || error >= 0 ? SNIC_EIO : error;
    nvmehost_slot_give_up(x, s);
}

void nvmehost_slot_ended(struct nvmehost_slot *x)
{
    struct nvmehost_path *p = x->conn->p;
    struct snic_nvmehost *s = p->s;
    uint32_t credit = (uint32_t)(x->cmd.result >> 32);
    int error = x->cmd.error;
    SNIC_ASSERT(x->state == NVMEHOST_SLOT_SENT);
    if (error == 0 && p->has_credit && credit != 0)
        snic_credit_return(&p->credit, credit);
    else
        snic_credit_cancel(&p->credit);
    if (error == SNIC_ECANCELED) {
        nvmehost_slot_lost(s, x);
    } else if (error != 0) {
        nvmehost_slot_later(s, x,
                            SNIC_EIO); /* damaged, or incomplete: it has ended at the target */
    } else if (x->cmd.status != 0) {
        nvmehost_slot_status(s, x);
    } else {
        x->req->os_error = 0;
        x->req->credit = p->has_credit ? credit : 0;
        x->at += x->part;
        x->flight = 1;
        if (x->at < x->req->length && x->req->op != SNIC_IO_FLUSH)
            nvmehost_slot_enter(x, s, NVMEHOST_SLOT_READY);
        else
            nvmehost_slot_done(x, s, x->req->op == SNIC_IO_FLUSH ? 0 : (int64_t)x->req->length);
    }
}

void nvmehost_slots_freed(struct nvmehost_path *p, int proved)
{
    struct snic_nvmehost *s = p->s;
    for (uint32_t i = 0; i < s->o.depth; i++) {
        struct nvmehost_slot *x = &s->slots[i];
        if (x->state != NVMEHOST_SLOT_LIMBO || x->conn->p != p)
            continue;
        if (proved) {
            nvmehost_slot_enter(x, s, NVMEHOST_SLOT_READY);
            continue;
        }
        x->retry_ns = snic_loop_now(s->loop) + s->o.fence_ns;
        s->stats.fenced++;
        nvmehost_slot_enter(x, s, NVMEHOST_SLOT_HELD);
    }
}

/* ---- Time, results ---- */

void nvmehost_tick(struct snic_nvmehost *s, uint64_t now)
{
    for (uint32_t i = 0; i < s->o.depth; i++) {
        struct nvmehost_slot *x = &s->slots[i];
        if ((x->state == NVMEHOST_SLOT_HELD || x->state == NVMEHOST_SLOT_LATER) &&
            now >= x->retry_ns)
            nvmehost_slot_enter(x, s, NVMEHOST_SLOT_READY);
        if ((x->state == NVMEHOST_SLOT_READY || x->state == NVMEHOST_SLOT_LATER) &&
            nvmehost_slot_old(x, s, now))
            nvmehost_slot_give_up(x, s);
        else if (x->state == NVMEHOST_SLOT_SENT && now - x->sent_ns >= s->o.io_ns)
            nvmehost_path_fail(x->conn->p, SNIC_ETIMEDOUT, 0);
    }
}

void nvmehost_finish(struct snic_nvmehost *s)
{
    struct snic_link now;
    snic_link_init(&now);
    while (!snic_link_alone(&s->done)) {
        struct snic_link *l = s->done.next;
        snic_link_remove(l);
        snic_link_append(&now, l);
    }
    while (!snic_link_alone(&now)) {
        struct nvmehost_slot *x = SNIC_CONTAINER(now.next, struct nvmehost_slot, link);
        struct snic_io_req *req = x->req;
        snic_link_remove(&x->link);
        snic_link_append(&s->free, &x->link);
        x->state = NVMEHOST_SLOT_FREE;
        x->req = NULL;
        s->used--;
        req->done_ns = snic_loop_now(s->loop);
        s->io.stats.completed++;
        if (req->result < 0)
            s->io.stats.errors++;
        else if (req->op == SNIC_IO_READ)
            s->io.stats.read_bytes += (uint64_t)req->result;
        else if (req->op == SNIC_IO_WRITE)
            s->io.stats.write_bytes += (uint64_t)req->result;
        snic_io_room_freed(&s->room);
        req->done(req);
    }
}

int nvmehost_slots_check(const struct snic_nvmehost *s)
{
    uint32_t used = 0, sent = 0, inflight = 0;
    for (uint32_t i = 0; i < s->o.depth; i++) {
        const struct nvmehost_slot *x = &s->slots[i];
        used += x->state != NVMEHOST_SLOT_FREE;
        sent += x->state == NVMEHOST_SLOT_SENT;
        if ((x->state == NVMEHOST_SLOT_FREE) != (x->req == NULL))
            return SNIC_ECORRUPT;
        if ((x->state == NVMEHOST_SLOT_SENT || x->state == NVMEHOST_SLOT_LIMBO ||
             x->state == NVMEHOST_SLOT_HELD || x->state == NVMEHOST_SLOT_LATER) !=
            (snic_link_alone(&x->link) != 0))
            return SNIC_ECORRUPT; /* P1 */
    }
    for (uint32_t i = 0; i < s->o.addr_count; i++)
        for (uint32_t k = 1; k <= s->o.queues; k++)
            inflight += s->paths[i].conns[k].inflight;
    return used == s->used && sent == inflight ? 0 : SNIC_ECORRUPT;
}
