/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * The device's loop: started commands of the connections of all loops, in steps of one request
 * each: the ranges of a DISCARD, the pieces of a VERIFY, what follows a short transfer, and the
 * flush that makes a command with FUA durable where the device has no such write.
 *
 * D1  dev->inside counts commands that a switch has reserved or that were started here, and flushes
 *     of connections, until they are returned.
 * D2  Of a command only the fields below "the device's loop's" are written here, and its link.
 */
#include "nvmet/nvmet_priv.h"

static void nvmet_device_step(struct nvmet_cmd *cmd);
static void nvmet_device_offer(struct nvmet_cmd *cmd);
static void nvmet_device_begin(struct nvmet_cmd *cmd);

static struct nvmet_dev *nvmet_device_of(const struct nvmet_cmd *cmd)
{
    return cmd->ns->dev;
}

/* T6 */
static int nvmet_device_barred(const struct nvmet_cmd *cmd)
{
    const struct nvmet_conn *c = cmd->c;
    /* Pairs with the store of nvmet_conn_stop(). */
    return atomic_load_explicit(&c->gone, memory_order_acquire) != 0 ||
           snic_nvmesub_io_ended(nvmet_device_of(cmd)->sub->view, &c->mark);
}

static void nvmet_busy_leave(struct nvmet_cmd *cmd)
{
    snic_link_remove(&cmd->link);
    nvmet_device_of(cmd)->busy_count -= cmd->where == NVMET_AT_BUSY;
    cmd->where = NVMET_AT_NONE;
}

/* A request has left the device: one that was refused with SNIC_EBUSY is offered again. Such a
 * tenant has requests inside, so there is always a next time. */
static void nvmet_busy_again(struct nvmet_dev *dev)
{
    dev->leaves++;
    if (dev->again) /* the one that is offered has ended at once */
        return;
    dev->again = 1;
    for (; dev->leaves > 0 && !snic_link_alone(&dev->busy); dev->leaves--) {
        struct nvmet_cmd *cmd = SNIC_CONTAINER(dev->busy.next, struct nvmet_cmd, link);
        nvmet_busy_leave(cmd);
        nvmet_device_offer(cmd);
    }
    dev->leaves = 0;
    dev->again = 0;
}

/* ---- Ends ---- */

static void nvmet_device_return(struct nvmet_cmd *cmd, uint8_t result)
{
    cmd->result = result;
    nvmet_mail_send(nvmet_device_of(cmd)->s, cmd->c->s, &cmd->mail, nvmet_inside_back);
}

static void nvmet_device_end(struct nvmet_cmd *cmd, uint32_t status, uint32_t credit)
{
    struct nvmet_dev *dev = nvmet_device_of(cmd);
    nvmet_busy_leave(cmd);
    SNIC_ASSERT(dev->inside > 0);
    dev->inside--;
    cmd->status = status;
    cmd->credit = credit;
    nvmet_device_return(cmd, NVMET_BACK_DONE);
    nvmet_busy_again(dev);
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
    uint32_t caps = nvmet_device_of(cmd)->io->caps;
    int durable = op->kind == SNIC_NVMESUB_WRITE && (caps & SNIC_IO_CAP_FUA) != 0;
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
        uint32_t status = snic_nvmesub_io_range(nvmet_device_of(cmd)->sub->view, &cmd->op,
                                                cmd->data, cmd->range++, &range);
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
    struct nvmet_dev *dev = nvmet_device_of(cmd);
    uint8_t where = cmd->where;
    if (where == NVMET_AT_REJECTED) {
        nvmet_device_end(cmd, SNIC_NVME_SC_ABORT_REQUESTED, 0);
        return;
    }
    SNIC_ASSERT(dev->inside > 0);
    dev->inside--;
    cmd->where = where == NVMET_AT_GRANTED ? NVMET_AT_REVOKED : NVMET_AT_NONE;
    if (where == NVMET_AT_SWITCH) /* else when the mail arrives here */
        nvmet_device_return(cmd, NVMET_BACK_RETURNED);
    nvmet_busy_again(dev);
}

static void nvmet_device_done(struct snic_io_req *req)
{
    struct nvmet_cmd *cmd = SNIC_CONTAINER(req, struct nvmet_cmd, u.io);
    struct nvmet_dev *dev = nvmet_device_of(cmd);
    int moves = req->op != SNIC_IO_FLUSH;
    if (cmd->where != NVMET_AT_DEVICE) {
        nvmet_reserve_ended(cmd);
        return;
    }
    if (req->result == SNIC_EBUSY && !cmd->cancelled && !nvmet_device_barred(cmd) &&
        dev->inside > dev->busy_count + 1) {
        dev->s->stats.rooms++;
        cmd->where = NVMET_AT_BUSY;
        dev->busy_count++;
        snic_link_append(&dev->busy, &cmd->link);
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
    if (cmd->cancelled)
        nvmet_device_end(cmd, SNIC_NVME_SC_ABORT_REQUESTED, 0);
    else
        nvmet_device_next(cmd, req->credit);
}

static void nvmet_device_request(struct nvmet_cmd *cmd)
{
    struct snic_io_req *r = &cmd->u.io;
    const struct snic_nvmesub_op *op = &cmd->op;
    uint32_t caps = nvmet_device_of(cmd)->io->caps;
    /* Field by field: to zero the whole would cost as much as all the rest of this. */
    r->done = nvmet_device_done;
    r->priority = 0;
    r->flags = 0;
    r->tenant = cmd->c->tenant;
    r->offset = 0;
    r->length = 0;
    r->buf.base = NULL;
    r->buf.size = 0;
    r->iov = NULL;
    r->iov_count = 0;
    r->region = SNIC_NO_REGION;
    r->os_error = 0;
    r->credit = 0;
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
        r->flags = op->fua && (caps & SNIC_IO_CAP_FUA) != 0 ? SNIC_IO_FUA : 0;
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
    if (nvmet_device_barred(cmd)) {
        nvmet_device_end(cmd, SNIC_NVME_SC_ABORT_REQUESTED, 0);
        return 1;
    }
    int n = snic_io_submit(nvmet_device_of(cmd)->io, &r, 1);
    if (n == 0)
        return 0;
    if (n < 0)
        nvmet_device_end(cmd, SNIC_NVME_SC_INTERNAL, 0);
    return 1;
}

static void nvmet_device_offer(struct nvmet_cmd *cmd)
{
    struct nvmet_dev *dev = nvmet_device_of(cmd);
    cmd->where = NVMET_AT_DEVICE;
    if (snic_link_alone(&dev->room) && nvmet_device_submit(cmd))
        return;
    dev->s->stats.rooms++;
    cmd->where = NVMET_AT_ROOM;
    snic_link_append(&dev->room, &cmd->link);
    snic_io_wait(dev->io, &dev->waiter);
}

static void nvmet_device_step(struct nvmet_cmd *cmd)
{
    nvmet_device_request(cmd);
    nvmet_device_offer(cmd);
}

void nvmet_device_room(struct snic_io_waiter *w)
{
    struct nvmet_dev *dev = SNIC_CONTAINER(w, struct nvmet_dev, waiter);
    while (!snic_link_alone(&dev->room)) {
        struct nvmet_cmd *cmd = SNIC_CONTAINER(dev->room.next, struct nvmet_cmd, link);
        snic_link_remove(&cmd->link);
        cmd->where = NVMET_AT_DEVICE;
        if (nvmet_device_submit(cmd))
            continue;
        cmd->where = NVMET_AT_ROOM;
        snic_link_append(dev->room.next, &cmd->link); /* before the first: its place */
        snic_io_wait(dev->io, w);
        return;
    }
}

/* ---- Commands arrive ---- */

static void nvmet_device_begin(struct nvmet_cmd *cmd)
{
    const struct snic_nvmesub_op *op = &cmd->op;
    uint32_t caps = nvmet_device_of(cmd)->io->caps;
    nvmet_device_of(cmd)->inside++;
    cmd->at = op->offset;
    cmd->left = op->length;
    cmd->range = 0;
    cmd->flushing = 0;
    cmd->cancelled = 0;
    cmd->where = NVMET_AT_NONE;
    if (op->kind == SNIC_NVMESUB_DISCARD && (caps & SNIC_IO_CAP_DISCARD) == 0)
        nvmet_device_end(cmd, 0, 0); /* a hint that this device has no use for */
    else if (op->kind == SNIC_NVMESUB_FLUSH)
        nvmet_device_step(cmd);
    else
        nvmet_device_next(cmd, 0);
}

void nvmet_device_start(struct nvmet_mail *m)
{
    nvmet_device_begin(SNIC_CONTAINER(m, struct nvmet_cmd, mail));
}

void nvmet_device_cancel(struct nvmet_mail *m)
{
    struct nvmet_cmd *cmd = SNIC_CONTAINER(m, struct nvmet_cmd, cancel);
    struct nvmet_dev *dev = nvmet_device_of(cmd);
    switch (cmd->where) {
    case NVMET_AT_ROOM:
    case NVMET_AT_BUSY:
        nvmet_device_end(cmd, SNIC_NVME_SC_ABORT_REQUESTED, 0);
        break;
    case NVMET_AT_DEVICE:
    case NVMET_AT_SWITCH:
        cmd->cancelled = 1;
        snic_io_cancel(dev->io, &cmd->u.io);
        break;
    default: /* on its way back, or to be released */
        break;
    }
    nvmet_mail_send(dev->s, cmd->c->s, m, nvmet_inside_cancelled);
}

/* ---- The switch ---- */

static void nvmet_reserve_granted(struct snic_io_req *req)
{
    struct nvmet_cmd *cmd = SNIC_CONTAINER(req, struct nvmet_cmd, u.io);
    if (cmd->where != NVMET_AT_SWITCH || cmd->cancelled)
        return;
    cmd->where = NVMET_AT_GRANTED;
    nvmet_device_return(cmd, NVMET_BACK_GRANTED);
}

void nvmet_device_reserve(struct nvmet_mail *m)
{
    struct nvmet_cmd *cmd = SNIC_CONTAINER(m, struct nvmet_cmd, mail);
    struct nvmet_dev *dev = nvmet_device_of(cmd);
    cmd->at = cmd->op.offset;
    cmd->left = cmd->op.length;
    cmd->flushing = 0;
    cmd->cancelled = 0;
    cmd->where = NVMET_AT_SWITCH;
    nvmet_device_request(cmd);
    if (dev->reserve(dev->io, &cmd->u.io, nvmet_reserve_granted) == 1) {
        dev->s->stats.reserved++;
        dev->inside++;
        return;
    }
    cmd->where = NVMET_AT_NONE;
    nvmet_device_return(cmd, NVMET_BACK_RETURNED); /* it waits for room when its data are there */
}

void nvmet_device_commit(struct nvmet_mail *m)
{
    struct nvmet_cmd *cmd = SNIC_CONTAINER(m, struct nvmet_cmd, mail);
    struct nvmet_dev *dev = nvmet_device_of(cmd);
    if (cmd->where == NVMET_AT_REVOKED) {
        nvmet_device_begin(cmd);
        return;
    }
    SNIC_ASSERT(cmd->where == NVMET_AT_GRANTED);
    if (nvmet_device_barred(cmd)) {
        cmd->where = NVMET_AT_REJECTED;
        snic_io_cancel(dev->io, &cmd->u.io);
        return;
    }
    cmd->where = NVMET_AT_DEVICE;
    dev->commit(dev->io, &cmd->u.io);
}

void nvmet_device_release(struct nvmet_mail *m)
{
    struct nvmet_cmd *cmd = SNIC_CONTAINER(m, struct nvmet_cmd, mail);
    struct nvmet_dev *dev = nvmet_device_of(cmd);
    if (cmd->where == NVMET_AT_REVOKED) {
        cmd->where = NVMET_AT_NONE;
        nvmet_device_return(cmd, NVMET_BACK_RETURNED);
        return;
    }
    SNIC_ASSERT(cmd->where == NVMET_AT_GRANTED);
    cmd->where = NVMET_AT_SWITCH;
    cmd->cancelled = 1;
    snic_io_cancel(dev->io, &cmd->u.io);
}

/* ---- Flushes of connections, removal ---- */

static void nvmet_flush_end(struct nvmet_conn *c)
{
    struct nvmet_dev *dev = c->flush_dev;
    dev->inside--;
    nvmet_mail_send(dev->s, c->s, &c->flush_mail, nvmet_inside_flushed);
    nvmet_busy_again(dev);
}

static void nvmet_flush_done(struct snic_io_req *req)
{
    nvmet_flush_end(SNIC_CONTAINER(req, struct nvmet_conn, flush));
}

void nvmet_flush_room(struct snic_io_waiter *w)
{
    struct nvmet_conn *c = SNIC_CONTAINER(w, struct nvmet_conn, waiter);
    struct snic_io *io = c->flush_dev->io;
    struct snic_io_req *r = &c->flush;
    snic_io_req_init(r);
    r->done = nvmet_flush_done;
    r->op = SNIC_IO_FLUSH;
    r->tenant = c->tenant;
    int n = snic_io_submit(io, &r, 1);
    if (n == 0)
        snic_io_wait(io, w);
    else if (n < 0)
        nvmet_flush_end(c);
}

void nvmet_device_flush(struct nvmet_mail *m)
{
    struct nvmet_conn *c = SNIC_CONTAINER(m, struct nvmet_conn, flush_mail);
    c->flush_dev->inside++;
    nvmet_flush_room(&c->waiter);
}

void nvmet_device_remove(struct nvmet_mail *m)
{
    struct nvmet_dev *dev = SNIC_CONTAINER(m, struct nvmet_dev, mail);
    struct snic_io *io = dev->io;
    SNIC_ASSERT(dev->inside == 0);
    snic_io_unwait(&dev->waiter);
    dev->io = NULL;
    if (dev->removed != NULL)
        dev->removed(dev->removed_ctx, io);
    nvmet_mail_send(dev->s, dev->sub->s, m, nvmet_seat_removed);
}
