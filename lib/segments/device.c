/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/**
 * Requests to the devices, and requests of the caller's that end; a device that has died.
 *
 * What goes to a device waits in a queue until the device takes it. Whatever ends a request of a
 * caller's puts it on `finished` or on `waiting`; `done` is called from there.
 */
#include "segments/segments_priv.h"

void segments_kick(struct snic_segments *s)
{
    if (s->message_on)
        return;
    s->message_on = 1;
    snic_loop_defer(s->loop, &s->message);
}

/* ---- Requests to the device ---- */

static void segments_io_done(struct snic_io_req *req)
{
    struct segments_io *io = SNIC_CONTAINER(req, struct segments_io, req);
    struct segments_disk *d = io->disk;
    SNIC_ASSERT(d->out > 0);
    d->out--;
    io->then(io);
    segments_kick(d->store);
}

void segments_io_fill(struct segments_io *io, uint8_t op, uint64_t offset, void *bytes,
                      uint64_t length)
{
    snic_io_req_init(&io->req);
    io->req.done = segments_io_done;
    io->req.op = op;
    io->req.offset = offset;
    io->req.length = length;
    io->req.buf.base = bytes;
    io->req.buf.size = (size_t)length;
}

void segments_io_queue(struct segments_disk *d, struct segments_io *io)
{
    SNIC_ASSERT(io->then != NULL);
    io->disk = d;
    snic_queue_push(&d->queue, &io->node);
    segments_kick(d->store);
}

/* ---- Requests of the caller's ---- */

void segments_finish(struct snic_segments_req *q, int result)
{
    SNIC_ASSERT(snic_link_alone(&q->link));
    if (q->result == 0 || result == SNIC_EIO || result == SNIC_ENOENT)
        q->result = result;
    snic_link_append(&q->store->finished, &q->link);
    segments_kick(q->store);
}

void segments_await(struct segments_disk *d, struct snic_segments_req *q, uint64_t position)
{
    struct snic_link *after = d->waiting.prev;
    if (d->state == SEGMENTS_DEAD) {
        segments_finish(q, SNIC_EIO);
        return;
    }
    if (position <= snic_wal_durable(d->wal)) {
        segments_finish(q, 0);
        return;
    }
    SNIC_ASSERT(snic_link_alone(&q->link));
    q->wait = position;
    while (after != &d->waiting &&
           SNIC_CONTAINER(after, struct snic_segments_req, link)->wait > position)
        after = after->prev;
    snic_link_append(after->next, &q->link);
}

void segments_deliver(struct snic_segments *s)
{
    while (!snic_link_alone(&s->finished)) {
        struct snic_segments_req *q =
            SNIC_CONTAINER(s->finished.next, struct snic_segments_req, link);
        snic_link_remove(&q->link);
        SNIC_ASSERT(s->in_flight > 0);
        s->in_flight--;
        q->done(q);
    }
}

/** Those whose position the log has announced. */
static void segments_release(struct segments_disk *d, uint64_t up_to)
{
    while (!snic_link_alone(&d->waiting)) {
        struct snic_segments_req *q =
            SNIC_CONTAINER(d->waiting.next, struct snic_segments_req, link);
        if (q->wait > up_to)
            return;
        snic_link_remove(&q->link);
        segments_finish(q, d->state == SEGMENTS_DEAD ? SNIC_EIO : 0);
    }
}

void segments_report_room(struct snic_segments *s)
{
    if (!s->refused || s->closing)
        return;
    s->refused = 0;
    if (s->events.room != NULL)
        s->events.room(s->ctx);
}

/* ---- The result of opening, and the end ---- */

void segments_load_end(struct segments_disk *d, int result)
{
    SNIC_ASSERT(d->state == SEGMENTS_OPENING && !d->loaded);
    d->loaded = 1;
    d->result = result;
    d->state = result == 0 ? SEGMENTS_OPEN : SEGMENTS_DEAD;
}

void segments_loaded(struct segments_disk *d, int result)
{
    if (d->loaded)
        return;
    segments_load_end(d, result);
    d->store->open_step(d->store);
}

/** What waits for memory to read into ends. */
static void segments_read_abandon(struct segments_disk *d)
{
    while (!snic_link_alone(&d->bouncing)) {
        struct snic_segments_req *q =
            SNIC_CONTAINER(d->bouncing.next, struct snic_segments_req, link);
        snic_link_remove(&q->link);
        segments_finish(q, SNIC_EIO);
    }
}

void segments_die(struct segments_disk *d, int error)
{
    struct snic_segments *s = d->store;
    if (d->state == SEGMENTS_DEAD)
        return;
    if (d->state == SEGMENTS_OPENING) {
        segments_loaded(d, error);
        return;
    }
    d->state = SEGMENTS_DEAD;
    segments_release(d, UINT64_MAX);
    segments_read_abandon(d);
    segments_kick(s);
    if (!s->closing && s->opened && s->events.failed != NULL)
        s->events.failed(s->ctx, d->number, error);
    segments_report_room(s); /* it has an answer now: SNIC_EIO */
}

/* ---- The queue, and the log's events ---- */

static void segments_io_refuse(struct segments_io *io, int error)
{
    io->req.result = error;
    io->then(io);
}

void segments_io_pump(struct segments_disk *d)
{
    while (!snic_queue_empty(&d->queue)) {
        struct segments_io *io = SNIC_CONTAINER(d->queue.first, struct segments_io, node);
        struct snic_io_req *req = &io->req;
        if (d->state == SEGMENTS_DEAD) {
            (void)snic_queue_pop(&d->queue);
            segments_io_refuse(io, SNIC_EIO);
            continue;
        }
        if (snic_io_waits(&d->room))
            return;
        int n = snic_io_submit(d->io, &req, 1);
        if (n == 0) {
            snic_io_wait(d->io, &d->room);
            return;
        }
        (void)snic_queue_pop(&d->queue);
        if (n < 0) { /* gone */
            segments_die(d, n);
            segments_io_refuse(io, n);
        } else {
            d->out++;
        }
    }
}

void segments_wal_durable(void *ctx, uint64_t up_to)
{
    struct segments_disk *d = ctx;
    segments_release(d, up_to);
    segments_deliver(d->store);
    segments_kick(d->store);
}

void segments_wal_room(void *ctx)
{
    struct segments_disk *d = ctx;
    segments_report_room(d->store);
}

void segments_wal_failed(void *ctx, int error)
{
    segments_die(ctx, error);
}
