/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * Started commands at the device, in steps of one request each: the ranges of a DISCARD, the pieces
 * of a VERIFY, what follows a short transfer, and the flush that makes a command with FUA durable
 * where the device has no such write.
 */
#include "nvmet/nvmet_priv.h"

static void nvmet_device_step(struct nvmet_cmd *cmd);
static void nvmet_device_offer(struct nvmet_cmd *cmd);

static void nvmet_busy_leave(struct nvmet_cmd *cmd)
{
    snic_link_remove(&cmd->link);
    cmd->ns->busy_count -= cmd->busy;
    cmd->busy = 0;
}

/* A request has left the device: one that was refused with SNIC_EBUSY is offered again. Such a
 * tenant has requests inside, so there is always a next time. */
static void nvmet_busy_again(struct nvmet_ns *ns)
{
    if (snic_link_alone(&ns->busy))
        return;
    struct nvmet_cmd *cmd = SNIC_CONTAINER(ns->busy.next, struct nvmet_cmd, link);
    nvmet_busy_leave(cmd);
    nvmet_device_offer(cmd);
}

/* ---- Ends ---- */

void nvmet_quiesced(struct nvmet_ns *ns)
{
    struct nvmet_sub *sub = ns->sub;
    uint32_t nsid = ns->nsid;
    if (!ns->quiesce || ns->quiesce_left > 0 || (ns->removal && ns->inside > 0))
        return;
    ns->quiesce = 0;
    if (ns->removal) {
        struct snic_io *io = ns->io;
        snic_io_unwait(&ns->waiter);
        ns->io = NULL;
        ns->removal = 0;
        if (ns->removed != NULL)
            ns->removed(ns->removed_ctx, io);
    }
    snic_nvmesub_quiesced(sub->engine, nsid, ns->quiesce_sequence);
    nvmet_sub_poll(sub);
}

static void nvmet_device_count(struct nvmet_cmd *cmd, uint32_t status)
{
    struct snic_nvmet_stats *n = &cmd->c->s->stats;
    n->at_device--;
    if (status != 0)
        return;
    if (cmd->op.kind == SNIC_NVMESUB_READ) {
        n->reads++;
        n->read_bytes += cmd->op.bytes;
    } else if (cmd->op.kind == SNIC_NVMESUB_WRITE) {
        n->writes++;
        n->write_bytes += cmd->op.bytes;
    } else {
        n->others++;
    }
}

void nvmet_device_end(struct nvmet_cmd *cmd, uint32_t status, uint32_t credit)
{
    struct nvmet_conn *c = cmd->c;
    struct nvmet_ns *ns = cmd->ns;
    struct snic_nvme_cqe cqe;
    int read = cmd->op.kind == SNIC_NVMESUB_READ && status == 0;
    nvmet_busy_leave(cmd);
    nvmet_device_count(cmd, status);
    snic_nvmesub_io_done(c->sub->view, &c->queue, cmd->op.cid, status, credit, &cqe);
    SNIC_ASSERT(c->active > 0 && ns->inside > 0);
    c->active--;
    ns->inside--;
    ns->quiesce_left -= cmd->quiesced;
    if (c->stopping)
        nvmet_cmd_free(cmd);
    else
        nvmet_cmd_finish(cmd, &cqe, read ? cmd->op.bytes : 0);
    nvmet_busy_again(ns);
    nvmet_quiesced(ns);
    nvmet_conn_check(c);
}

static uint32_t nvmet_device_error(const struct nvmet_cmd *cmd, int error)
{
    if (error != SNIC_EIO)
        return snic_nvme_error_status(error);
    switch (cmd->op.kind) {
    case SNIC_NVMESUB_READ:
    case SNIC_NVMESUB_COMPARE:
    case SNIC_NVMESUB_VERIFY:
        return SNIC_NVME_SC_READ_ERROR;
    default:
        return SNIC_NVME_SC_WRITE_FAULT;
    }
}

/* ---- Steps ---- */

/* All bytes have been moved. */
static void nvmet_device_whole(struct nvmet_cmd *cmd, uint32_t credit)
{
    const struct snic_nvmesub_op *op = &cmd->op;
    int durable = op->kind == SNIC_NVMESUB_WRITE && (cmd->ns->io->caps & SNIC_IO_CAP_FUA) != 0;
    int writes = op->kind == SNIC_NVMESUB_WRITE || op->kind == SNIC_NVMESUB_ZEROES;
    uint32_t status = 0;
    if (op->fua && writes && !durable && !cmd->flushing) {
        cmd->flushing = 1;
        nvmet_device_step(cmd);
        return;
    }
    if (op->kind == SNIC_NVMESUB_COMPARE &&
        memcmp(cmd->data - op->bytes, cmd->data, op->bytes) != 0)
        status = SNIC_NVMET__FAIL(COMPARE);
    nvmet_device_end(cmd, status, credit);
}

/* The next range that is not empty. @return a status; 0 with left 0: that was all */
static uint32_t nvmet_device_range(struct nvmet_cmd *cmd)
{
    struct snic_nvmesub_op range;
    while (cmd->left == 0 && cmd->range < cmd->op.count) {
        uint32_t status =
            snic_nvmesub_io_range(cmd->c->sub->view, &cmd->op, cmd->data, cmd->range++, &range);
        if (status != 0)
            return status;
        cmd->at = range.offset;
        cmd->left = range.length;
    }
    return 0;
}

static void nvmet_device_next(struct nvmet_cmd *cmd, uint32_t credit)
{
    uint32_t status = 0;
    if (cmd->op.kind == SNIC_NVMESUB_DISCARD && !cmd->flushing)
        status = nvmet_device_range(cmd);
    if (status != 0)
        nvmet_device_end(cmd, status, credit);
    else if (cmd->left > 0)
        nvmet_device_step(cmd);
    else
        nvmet_device_whole(cmd, credit);
}

/* The switch returns a request that was cancelled or refused before it was committed. */
static void nvmet_reserve_ended(struct nvmet_cmd *cmd)
{
    struct nvmet_conn *c = cmd->c;
    struct nvmet_ns *ns = cmd->ns;
    cmd->reserved = NVMET_NOT_RESERVED;
    c->active--;
    ns->inside--;
    nvmet_cmd_returned(cmd);
    nvmet_busy_again(ns);
    nvmet_quiesced(ns);
    nvmet_conn_check(c);
}

static void nvmet_device_done(struct snic_io_req *req)
{
    struct nvmet_cmd *cmd = SNIC_CONTAINER(req, struct nvmet_cmd, u.io);
    struct nvmet_ns *ns = cmd->ns;
    int moves = req->op != SNIC_IO_FLUSH;
    if (cmd->reserved) {
        nvmet_reserve_ended(cmd);
        return;
    }
    SNIC_ASSERT(cmd->state == NVMET_CMD_DEVICE);
    if (req->result == SNIC_EBUSY && !cmd->c->stopping && ns->inside > ns->busy_count + 1) {
        cmd->c->s->stats.rooms++;
        cmd->state = NVMET_CMD_ROOM;
        cmd->busy = 1;
        ns->busy_count++;
        snic_link_append(&ns->busy, &cmd->link);
        return;
    }
    if (req->result < 0) {
        nvmet_device_end(cmd, nvmet_device_error(cmd, (int)req->result), req->credit);
        return;
    }
    if (moves && req->result == 0) { /* nothing at all: a file that became shorter */
        nvmet_device_end(cmd, nvmet_device_error(cmd, SNIC_EIO), req->credit);
        return;
    }
    if (moves) {
        SNIC_ASSERT((uint64_t)req->result <= cmd->left);
        cmd->at += (uint64_t)req->result;
        cmd->left -= (uint64_t)req->result;
    }
    if (cmd->c->stopping) /* T2 */
        nvmet_device_end(cmd, SNIC_NVME_SC_ABORT_REQUESTED, 0);
    else
        nvmet_device_next(cmd, req->credit);
}

static void nvmet_device_request(struct nvmet_cmd *cmd)
{
    struct snic_io_req *r = &cmd->u.io;
    const struct snic_nvmesub_op *op = &cmd->op;
    snic_io_req_init(r);
    r->done = nvmet_device_done;
    r->tenant = cmd->c->tenant;
    if (cmd->flushing || op->kind == SNIC_NVMESUB_FLUSH) {
        r->op = SNIC_IO_FLUSH;
        return;
    }
    r->offset = cmd->at;
    r->length = cmd->left;
    switch (op->kind) {
    case SNIC_NVMESUB_ZEROES:
        r->op = SNIC_IO_ZERO;
        return;
    case SNIC_NVMESUB_DISCARD:
        r->op = SNIC_IO_DISCARD;
        return;
    case SNIC_NVMESUB_WRITE:
        r->op = SNIC_IO_WRITE;
        r->flags = op->fua && (cmd->ns->io->caps & SNIC_IO_CAP_FUA) != 0 ? SNIC_IO_FUA : 0;
        break;
    default:
        r->op = SNIC_IO_READ;
        break;
    }
    r->buf.base = cmd->data + (cmd->at - op->offset);
    if (op->kind == SNIC_NVMESUB_COMPARE)
        r->buf.base = cmd->data - op->bytes + (cmd->at - op->offset);
    if (op->kind == SNIC_NVMESUB_VERIFY) {
        r->buf.base = cmd->data;
        r->length = snic_min_u64(cmd->left, cmd->c->s->o.data_max);
    }
    r->buf.size = r->length;
}

/* @return 0 the device is full */
static int nvmet_device_submit(struct nvmet_cmd *cmd)
{
    struct snic_io_req *r = &cmd->u.io;
    int n = snic_io_submit(cmd->ns->io, &r, 1);
    if (n == 0)
        return 0;
    if (n < 0)
        nvmet_device_end(cmd, SNIC_NVME_SC_INTERNAL, 0);
    return 1;
}

static void nvmet_device_offer(struct nvmet_cmd *cmd)
{
    struct nvmet_ns *ns = cmd->ns;
    cmd->state = NVMET_CMD_DEVICE;
    if (snic_link_alone(&ns->room) && nvmet_device_submit(cmd))
        return;
    cmd->c->s->stats.rooms++;
    cmd->state = NVMET_CMD_ROOM;
    snic_link_append(&ns->room, &cmd->link);
    snic_io_wait(ns->io, &ns->waiter);
}

static void nvmet_device_step(struct nvmet_cmd *cmd)
{
    nvmet_device_request(cmd);
    nvmet_device_offer(cmd);
}

void nvmet_device_room(struct snic_io_waiter *w)
{
    struct nvmet_ns *ns = SNIC_CONTAINER(w, struct nvmet_ns, waiter);
    while (!snic_link_alone(&ns->room)) {
        struct nvmet_cmd *cmd = SNIC_CONTAINER(ns->room.next, struct nvmet_cmd, link);
        snic_link_remove(&cmd->link);
        cmd->state = NVMET_CMD_DEVICE;
        if (nvmet_device_submit(cmd))
            continue;
        cmd->state = NVMET_CMD_ROOM;
        snic_link_append(ns->room.next, &cmd->link); /* before the first: its place */
        snic_io_wait(ns->io, w);
        return;
    }
}

void nvmet_device_start(struct nvmet_cmd *cmd)
{
    const struct snic_nvmesub_op *op = &cmd->op;
    uint32_t caps = cmd->ns->io->caps;
    cmd->at = op->offset;
    cmd->left = op->length;
    if (op->kind == SNIC_NVMESUB_DISCARD && (caps & SNIC_IO_CAP_DISCARD) == 0)
        nvmet_device_end(cmd, 0, 0); /* a hint that this device has no use for */
    else if (op->kind == SNIC_NVMESUB_FLUSH)
        nvmet_device_step(cmd);
    else
        nvmet_device_next(cmd, 0);
}

/* ---- The switch ---- */

static void nvmet_reserve_granted(struct snic_io_req *req)
{
    struct nvmet_cmd *cmd = SNIC_CONTAINER(req, struct nvmet_cmd, u.io);
    if (cmd->reserved == NVMET_IS_RESERVED && cmd->state == NVMET_CMD_RESERVED)
        nvmet_cmd_granted(cmd);
}

int nvmet_device_reserve(struct nvmet_cmd *cmd)
{
    struct nvmet_ns *ns = cmd->ns;
    if (cmd->kind != NVMET_KIND_IO || cmd->op.kind != SNIC_NVMESUB_WRITE || ns->reserve == NULL ||
        cmd->reserved || cmd->refused)
        return 0;
    cmd->at = cmd->op.offset;
    cmd->left = cmd->op.length;
    nvmet_device_request(cmd);
    if (ns->reserve(ns->io, &cmd->u.io, nvmet_reserve_granted) != 1) {
        cmd->refused = 1; /* it waits for room when its data are there */
        return 0;
    }
    cmd->reserved = NVMET_IS_RESERVED;
    cmd->c->s->stats.reserved++;
    cmd->c->active++;
    ns->inside++;
    nvmet_cmd_enter(cmd, NVMET_CMD_RESERVED, NULL);
    return 1;
}

void nvmet_device_commit(struct nvmet_cmd *cmd)
{
    SNIC_ASSERT(cmd->reserved == NVMET_IS_RESERVED);
    cmd->reserved = NVMET_NOT_RESERVED;
    cmd->state = NVMET_CMD_DEVICE;
    cmd->ns->commit(cmd->ns->io, &cmd->u.io);
}

void nvmet_device_release(struct nvmet_cmd *cmd)
{
    if (cmd->state != NVMET_CMD_DATA || cmd->complete || cmd->c->stopping)
        nvmet_cmd_enter(cmd, NVMET_CMD_RESERVED, NULL);
    if (cmd->reserved == NVMET_IS_RESERVED)
        snic_io_cancel(cmd->ns->io, &cmd->u.io);
    cmd->reserved = NVMET_CANCELLED;
}

/* ---- Quiesce, flush ---- */

static uint32_t nvmet_quiesce_status(const struct snic_nvmesub_action *a)
{
    return a->removal ? SNIC_NVMET__FAIL(INVALID_NS) : SNIC_NVME_SC_PREEMPT_ABORT;
}

static void nvmet_quiesce_cmd(struct nvmet_cmd *cmd, const struct snic_nvmesub_action *a,
                              struct nvmet_ns *ns)
{
    if (cmd->state == NVMET_CMD_ROOM || cmd->state == NVMET_CMD_DEVICE) {
        ns->quiesce_left += !cmd->quiesced;
        cmd->quiesced = 1;
    } else if (cmd->state != NVMET_CMD_SENDING) {
        cmd->verdict = (uint16_t)nvmet_quiesce_status(a); /* nvmet_cmd_start() gives it */
        if (cmd->reserved)
            nvmet_device_release(cmd);
    }
}

void nvmet_device_quiesce(struct nvmet_sub *sub, const struct snic_nvmesub_action *a)
{
    struct nvmet_ns *ns = &sub->ns[a->nsid - 1];
    SNIC_ASSERT(ns->io != NULL && !ns->quiesce);
    ns->quiesce = 1;
    ns->removal = a->removal;
    ns->quiesce_sequence = a->sequence;
    for (uint32_t i = 0; i < sub->s->o.conns_max; i++) {
        struct nvmet_conn *c = sub->conns[i];
        if (c == NULL || c->kind != NVMET_CONN_IO)
            continue;
        if (!a->removal && (a->hosts[c->queue.host / 64] >> c->queue.host % 64 & 1U) == 0)
            continue;
        for (uint32_t k = 0; k < sub->s->cmds; k++)
            if (c->cmds[k].state != NVMET_CMD_FREE && c->cmds[k].kind == NVMET_KIND_IO &&
                c->cmds[k].op.nsid == a->nsid)
                nvmet_quiesce_cmd(&c->cmds[k], a, ns);
    }
    nvmet_quiesced(ns);
}

static void nvmet_flush_end(struct nvmet_conn *c)
{
    struct nvmet_ns *ns = &c->sub->ns[c->flush_next - 1];
    c->active--;
    ns->inside--;
    nvmet_quiesced(ns);
    nvmet_conn_check(c);
}

static void nvmet_flush_done(struct snic_io_req *req)
{
    nvmet_flush_end(SNIC_CONTAINER(req, struct nvmet_conn, flush));
}

void nvmet_flush_room(struct snic_io_waiter *w)
{
    struct nvmet_conn *c = SNIC_CONTAINER(w, struct nvmet_conn, waiter);
    struct nvmet_ns *ns = &c->sub->ns[c->flush_next - 1];
    struct snic_io_req *r = &c->flush;
    snic_io_req_init(r);
    r->done = nvmet_flush_done;
    r->op = SNIC_IO_FLUSH;
    r->tenant = c->tenant;
    int n = snic_io_submit(ns->io, &r, 1);
    if (n == 0)
        snic_io_wait(ns->io, w);
    else if (n < 0)
        nvmet_flush_end(c);
}

int nvmet_device_flush(struct nvmet_conn *c)
{
    while (c->flush_next < c->s->o.namespaces_max) {
        struct nvmet_ns *ns = &c->sub->ns[c->flush_next++];
        if (ns->io == NULL || ns->removal)
            continue;
        c->active++;
        ns->inside++;
        nvmet_flush_room(&c->waiter);
        return 1;
    }
    return 0;
}
