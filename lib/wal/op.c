/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/**
 * What all parts of a log use: requests to the device are begun here (wal.c submits them), the
 * loop's message and timer are armed, and the owner gets the result of opening, or the failure.
 */
#include "wal/wal_priv.h"

void wal_op_begin(struct snic_wal *w, struct wal_op *op, uint8_t code, uint64_t offset,
                  unsigned char *bytes, uint64_t length, wal_then_fn then)
{
    SNIC_ASSERT(op->state == WAL_OP_IDLE);
    SNIC_ASSERT(then != NULL && (code == SNIC_IO_FLUSH || length > 0));
    op->w = w;
    op->then = then;
    op->bytes = bytes;
    op->offset = offset;
    op->length = length;
    op->done = 0;
    op->flags = code == SNIC_IO_WRITE && op == &w->write && w->fua ? SNIC_IO_FUA : 0;
    op->req.op = code;
    op->state = WAL_OP_READY;
}

void wal_kick(struct snic_wal *w)
{
    if (w->message_on)
        return;
    w->message_on = 1;
    snic_loop_defer(w->loop, &w->message);
}

void wal_arm(struct snic_wal *w)
{
    if (w->window_ns == SNIC_NEVER)
        snic_loop_cancel(w->loop, &w->timer);
    else
        snic_loop_arm(w->loop, &w->timer, w->window_ns);
}

void wal_opened(struct snic_wal *w, int result)
{
    w->doing = NULL;
    w->info.opening_total = w->info.opening_bytes;
    if (result == 0) {
        w->phase = WAL_OPEN;
        w->info.opened = 1;
        w->writable = w->report.verdict == SNIC_WAL_CLEAN;
    } else {
        w->phase = WAL_DEAD;
    }
    w->events.opened(w->ctx, result, &w->report);
}

void wal_die(struct snic_wal *w, int error)
{
    uint32_t phase = w->phase;
    if (phase == WAL_DEAD || w->closing)
        return;
    w->phase = WAL_DEAD;
    w->refusal = 0;
    snic_loop_cancel(w->loop, &w->timer);
    snic_io_unwait(&w->room);
    snic_loop_cancel(w->loop, &w->retry);
    w->report.reason = phase == WAL_OPENING ? w->doing : NULL;
    if (phase == WAL_OPENING)
        wal_opened(w, error);
    else
        w->events.failed(w->ctx, error);
}
