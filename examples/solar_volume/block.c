/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * A write has up to five steps: read and write the first block, if it is not whole; the last one,
 * likewise; and what is whole between them. A write waits for those before it that touch one of
 * its blocks if either of the two changes a part of a block only.
 */
#include "block.h"

enum { STEP_HEAD_READ, STEP_HEAD_WRITE, STEP_TAIL_READ, STEP_TAIL_WRITE, STEP_MIDDLE, STEP_OVER };

static void block_step(struct block_req *r);

void block_init(struct block_dev *d, struct snic_io *io)
{
    memset(d, 0, sizeof(*d));
    d->io = io;
    snic_link_init(&d->writes);
    snic_link_init(&d->waiting);
}

static int block_is_write(const struct block_req *r)
{
    return r->op != SNIC_IO_READ && r->op != SNIC_IO_FLUSH && r->op != BLOCK_STATES;
}

static int block_conflict(const struct snic_link *list, const struct block_req *r)
{
    for (const struct snic_link *l = list->next; l != list && l != &r->link; l = l->next) {
        const struct block_req *o = SNIC_CONTAINER(l, struct block_req, link);
        if (o->first < r->end && r->first < o->end && (o->partial || r->partial))
            return 1;
    }
    return 0;
}

static void block_begin(struct block_req *r)
{
    snic_link_append(&r->dev->writes, &r->link);
    block_step(r);
}

/* Resume requests that need not wait any more. */
static void block_wake(struct block_dev *d)
{
    struct snic_link *l = d->waiting.next;
    while (l != &d->waiting) {
        struct block_req *r = SNIC_CONTAINER(l, struct block_req, link);
        l = l->next;
        if (block_conflict(&d->writes, r) || block_conflict(&d->waiting, r))
            continue;
        snic_link_remove(&r->link);
        block_begin(r);
        l = d->waiting.next; /* it may be over already, and have woken others */
    }
}

static void block_over(struct block_req *r, int result)
{
    struct block_dev *d = r->dev;
    d->inside--;
    if (block_is_write(r)) {
        snic_link_remove(&r->link);
        block_wake(d);
    }
    r->done(r, result);
}

static int block_send(struct block_req *r)
{
    struct snic_io_req *q = &r->io;
    int n = r->op == BLOCK_STATES ? snic_volume_disk_states(r->dev->io, q)
                                  : snic_io_submit(r->dev->io, &q, 1);
    if (n == 0)
        snic_queue_push(&r->dev->full, &r->node);
    return n;
}

/* As many as there is room for: the first that finds none is the last that is tried. */
static void block_retry(struct block_dev *d)
{
    struct snic_queue q = d->full;
    struct snic_node *n;
    memset(&d->full, 0, sizeof(d->full));
    while (snic_queue_empty(&d->full) && (n = snic_queue_pop(&q)) != NULL) {
        struct block_req *r = SNIC_CONTAINER(n, struct block_req, node);
        int result = block_send(r);
        if (result < 0)
            block_over(r, result);
    }
    while ((n = snic_queue_pop(&q)) != NULL)
        snic_queue_push(&d->full, n);
}

/* The edge block is there: change what is to be changed. */
static void block_overlay(struct block_req *r, uint64_t block)
{
    uint64_t begin = snic_max_u64(r->offset, block * BLOCK_BYTES);
    uint64_t end = snic_min_u64(r->offset + r->length, (block + 1) * BLOCK_BYTES);
    unsigned char *to = r->edge + (begin - block * BLOCK_BYTES);
    if (r->op == SNIC_IO_WRITE)
        memcpy(to, r->data + (begin - r->offset), end - begin);
    else
        memset(to, 0, end - begin);
}

static void block_done(struct snic_io_req *q)
{
    struct block_req *r = SNIC_CONTAINER(q, struct block_req, io);
    struct block_dev *d = r->dev;
    int64_t result = q->result;
    if (result >= 0 && q->op != SNIC_IO_FLUSH && (uint64_t)result != q->length)
        result = SNIC_EIO;
    if (result < 0) {
        block_over(r, (int)result);
    } else if (!block_is_write(r)) {
        block_over(r, 0);
    } else {
        if (r->step == STEP_HEAD_READ)
            block_overlay(r, r->first);
        if (r->step == STEP_TAIL_READ)
            block_overlay(r, r->end - 1);
        r->step++;
        block_step(r);
    }
    block_retry(d);
}

static void block_io(struct block_req *r, uint8_t op, uint64_t offset, uint64_t length, void *data)
{
    struct snic_io_req *q = &r->io;
    snic_io_req_init(q);
    q->done = block_done;
    q->op = op;
    q->offset = offset;
    q->length = length;
    q->buf.base = data;
    q->buf.size = length;
    if (r->fua && op == SNIC_IO_WRITE)
        q->flags = SNIC_IO_FUA;
    int n = block_send(r);
    if (n < 0)
        block_over(r, n);
}

static void block_step(struct block_req *r)
{
    uint64_t first = r->first * BLOCK_BYTES, end = r->end * BLOCK_BYTES;
    int head = r->partial && r->offset != first;
    int tail = r->partial && r->offset + r->length != end;
    if (r->first + 1 == r->end && r->partial) { /* one block */
        head = 1;
        tail = 0;
    }
    if (r->step <= STEP_HEAD_WRITE && !head)
        r->step = STEP_TAIL_READ;
    if (r->step >= STEP_TAIL_READ && r->step <= STEP_TAIL_WRITE && !tail)
        r->step = STEP_MIDDLE;
    uint64_t from = first + (head ? BLOCK_BYTES : 0), to = end - (tail ? BLOCK_BYTES : 0);
    if (r->step == STEP_HEAD_READ || r->step == STEP_TAIL_READ)
        block_io(r, SNIC_IO_READ, r->step == STEP_HEAD_READ ? first : end - BLOCK_BYTES,
                 BLOCK_BYTES, r->edge);
    else if (r->step == STEP_HEAD_WRITE || r->step == STEP_TAIL_WRITE)
        block_io(r, SNIC_IO_WRITE, r->step == STEP_HEAD_WRITE ? first : end - BLOCK_BYTES,
                 BLOCK_BYTES, r->edge);
    else if (r->step == STEP_MIDDLE && from < to)
        block_io(r, r->op, from, to - from,
                 r->op == SNIC_IO_WRITE ? r->data + (from - r->offset) : NULL);
    else
        block_over(r, 0);
}

void block_submit(struct block_dev *d, struct block_req *r)
{
    r->dev = d;
    r->step = STEP_HEAD_READ;
    r->partial = (r->offset | r->length) % BLOCK_BYTES != 0;
    r->first = r->offset / BLOCK_BYTES;
    r->end = (r->offset + r->length + BLOCK_BYTES - 1) / BLOCK_BYTES;
    snic_link_init(&r->link);
    d->inside++;
    if (r->op == BLOCK_STATES) {
        block_io(r, SNIC_IO_READ, r->offset, BLOCK_BYTES, r->edge);
        return;
    }
    d->unaligned += r->op != SNIC_IO_FLUSH && r->partial;
    if (r->op == SNIC_IO_FLUSH) {
        block_io(r, SNIC_IO_FLUSH, 0, 0, NULL);
        return;
    }
    if (r->op == SNIC_IO_READ) {
        r->bytes = r->data + r->offset % BLOCK_BYTES;
        block_io(r, SNIC_IO_READ, r->first * BLOCK_BYTES, (r->end - r->first) * BLOCK_BYTES,
                 r->data);
        return;
    }
    if (r->op == SNIC_IO_DISCARD && r->partial) { /* a hint: for whole blocks */
        r->first = (r->offset + BLOCK_BYTES - 1) / BLOCK_BYTES;
        r->end = snic_max_u64((r->offset + r->length) / BLOCK_BYTES, r->first);
        r->partial = 0;
    }
    if (block_conflict(&d->writes, r) || block_conflict(&d->waiting, r))
        snic_link_append(&d->waiting, &r->link);
    else
        block_begin(r);
}
