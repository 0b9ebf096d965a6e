/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/**
 * The io door on a simulated disk (disk.c), on any loop.
 *
 * A request is judged by the fault plan when it is accepted and takes effect
 * when it completes: at once with the next messages, or when its timer fires.
 * Between the two it is in flight: a power cut may tear it.
 *
 * Invariants
 *   M1 A slot is FREE; or its request is in flight and it is on `active`, in the
 *      order of acceptance, with its message deferred (QUEUED), its timer armed
 *      (TIMED) or in the hands of `timing` (AWAITED), or refused (REFUSED, message
 *      deferred) and not on `active`.
 *   M2 done is called from io_mem_finish() alone, once per request, from the loop.
 *   M3 Once `dead` is set no request of the handle touches the disk.
 *   M4 A flush in flight is counted in disk->flushes; io_mem_leave() ends it.
 */
#include <stdlib.h>

#include "io/io_priv.h"
#include "io/mem_priv.h"

/** What a discarded range reads as; users may rely on nothing. */
#define SNIC_IO_MEM__DISCARDED 0xd5

/* ---- Completion ---- */

/** The request is in flight no more; a flush takes effect if @p done. */
static void io_mem_leave(struct io_mem_slot *slot, int done)
{
    const struct snic_io_req *req = slot->req;
    snic_link_remove(&slot->link);
    if (req->op == SNIC_IO_FLUSH)
        disk_flush_end(slot->mem->disk, slot->covers, req->offset, req->length, done); /* M4 */
}

static void io_mem_finish(struct io_mem_slot *slot, int64_t result)
{
    struct io_mem *m = slot->mem;
    struct snic_io_req *req = slot->req;
    SNIC_ASSERT(slot->state != IO_MEM_FREE && m->in_flight > 0); /* M2 */
    SNIC_ASSERT(snic_link_alone(&slot->link));
    slot->state = IO_MEM_FREE;
    slot->req = NULL;
    slot->next_free = m->free;
    m->free = slot;
    m->in_flight--;
    snic_io_room_freed(&m->room);
    io_req_finish(&m->io, req, result, 0);
}

/** The request takes effect: its first @p bytes, all of it for a FLUSH. */
static int64_t io_mem_apply(struct io_mem_slot *slot, uint64_t bytes)
{
    struct snic_disk *d = slot->mem->disk;
    const struct snic_io_req *req = slot->req;
    switch (req->op) {
    case SNIC_IO_READ:
        disk_read(d, req, bytes);
        break;
    case SNIC_IO_WRITE:
        disk_write(d, req, bytes);
        if ((req->flags & SNIC_IO_FUA) != 0)
            disk_settle(d, req->offset, bytes);
        break;
    case SNIC_IO_ZERO:
        disk_fill(d, req->offset, bytes, 0);
        break;
    case SNIC_IO_DISCARD:
        disk_fill(d, req->offset, bytes, SNIC_IO_MEM__DISCARDED);
        break;
    default:
        return 0; /* FLUSH: io_mem_leave() did it */
    }
    return (int64_t)bytes;
}

/** The power goes while this request takes effect; a torn write leaves its first sectors. */
static void io_mem_power(struct io_mem_slot *slot)
{
    struct snic_disk *d = slot->mem->disk;
    const struct snic_io_req *req = slot->req;
    if (slot->verdict.kind == SNIC_FAULT_TORN) {
        uint64_t bytes = snic_min_u64(slot->verdict.bytes, req->length);
        uint64_t end = req->offset + bytes;
        if (bytes < req->length)
            end = snic_align_down(end, d->opts.sector);
        if (end > req->offset) {
            disk_write(d, req, end - req->offset);
            disk_settle(d, req->offset, end - req->offset);
        }
    }
    snic_disk_power_cut(d, slot->verdict.seed);
}

/** The sync fails, and what it covers is lost; a write is in the cache all the same. */
static void io_mem_lost(struct io_mem_slot *slot)
{
    struct snic_disk *d = slot->mem->disk;
    const struct snic_io_req *req = slot->req;
    uint64_t covers = slot->covers;
    if (req->op == SNIC_IO_WRITE) {
        disk_write(d, req, req->length);
        covers = d->writes;
    }
    disk_lose(d, covers, req->offset, req->length, slot->verdict.seed);
}

static void io_mem_execute(struct io_mem_slot *slot)
{
    struct io_mem *m = slot->mem;
    if (slot->state == IO_MEM_REFUSED) {
        io_mem_finish(slot, slot->refusal);
        return;
    }
    if (m->dead) { /* M3: power_lost() took it off `active` */
        io_mem_finish(slot, SNIC_EIO);
        return;
    }
    const struct disk_verdict *v = &slot->verdict;
    int fine = !slot->cancelled && (v->kind == 0 || v->kind == SNIC_FAULT_SHORT);
    io_mem_leave(slot, fine);
    if (slot->cancelled) {
        io_mem_finish(slot, SNIC_ECANCELED);
        return;
    }
    m->disk->op_count++;
    if (fine) {
        uint64_t bytes = slot->req->length;
        if (v->kind == SNIC_FAULT_SHORT)
            bytes = snic_min_u64(bytes, v->bytes);
        io_mem_finish(slot, io_mem_apply(slot, bytes));
    } else if (v->kind == SNIC_FAULT_ERROR || v->kind == SNIC_FAULT_LOST) {
        if (v->kind == SNIC_FAULT_LOST)
            io_mem_lost(slot);
        io_mem_finish(slot, v->error);
    } else {
        io_mem_power(slot);
        io_mem_finish(slot, SNIC_EIO);
    }
}

static void io_mem_message(struct snic_loop_msg *msg)
{
    io_mem_execute(SNIC_CONTAINER(msg, struct io_mem_slot, msg));
}

static void io_mem_arm(struct io_mem_slot *slot, uint64_t at_ns)
{
    slot->state = IO_MEM_TIMED;
    snic_loop_arm(slot->mem->io.loop, &slot->timer, at_ns);
}

void io_mem_arrived(struct io_mem_slot *slot, uint64_t now_ns)
{
    SNIC_ASSERT(slot->state == IO_MEM_AWAITED);
    if (slot->verdict.delay_ns > 0 && !slot->cancelled && !slot->mem->dead)
        io_mem_arm(slot, now_ns + slot->verdict.delay_ns);
    else
        io_mem_execute(slot);
}

static void io_mem_timer(struct snic_timer *t, uint64_t now_ns)
{
    (void)now_ns;
    io_mem_execute(SNIC_CONTAINER(t, struct io_mem_slot, timer));
}

/** Have a slot whose timer runs complete with the next messages. */
static void io_mem_hasten(struct io_mem_slot *slot)
{
    struct snic_loop *l = slot->mem->io.loop;
    if (slot->state != IO_MEM_TIMED)
        return;
    snic_loop_cancel(l, &slot->timer);
    slot->state = IO_MEM_QUEUED;
    snic_loop_defer(l, &slot->msg);
}

/** The handles die: all their requests complete with SNIC_EIO. */
static void io_mem_power_lost(struct snic_disk *d, uint64_t seed, struct snic_rng *rng)
{
    for (struct snic_link *h = d->handles.next; h != &d->handles; h = h->next) {
        struct io_mem *m = SNIC_CONTAINER(h, struct io_mem, link);
        while (!snic_link_alone(&m->active)) {
            struct io_mem_slot *slot = SNIC_CONTAINER(m->active.next, struct io_mem_slot, link);
            const struct snic_io_req *req = slot->req;
            if (req->op == SNIC_IO_WRITE && slot->verdict.kind == 0 && !slot->cancelled)
                disk_cut_write(d, req, rng, seed);
            io_mem_leave(slot, 0);
            io_mem_hasten(slot);
        }
        m->dead = 1;
    }
}

void snic_disk_power_cut(struct snic_disk *d, uint64_t seed)
{
    struct snic_rng rng;
    snic_rng_init(&rng, seed);
    disk_cut(d, &rng, seed);
    io_mem_power_lost(d, seed, &rng);
}

void snic_disk_power_cut_keep(struct snic_disk *d, const uint64_t *keep, uint64_t n)
{
    disk_cut_keep(d, keep, n);
    io_mem_power_lost(d, SNIC_FAULT_KEEP_NONE, NULL);
}

/* ---- Ops ---- */

static uint64_t io_mem_delay(struct io_mem_slot *slot, uint64_t now_ns)
{
    struct io_mem *m = slot->mem;
    const struct snic_disk_opts *o = &m->disk->opts;
    if (m->timing != NULL)
        return m->timing->start(m->timing, slot, now_ns);
    if (o->delay_max_ns == o->delay_min_ns)
        return o->delay_min_ns;
    return o->delay_min_ns + snic_rng_below(&m->disk->rng, o->delay_max_ns - o->delay_min_ns + 1);
}

static void io_mem_start(struct io_mem_slot *slot, uint64_t now_ns)
{
    struct io_mem *m = slot->mem;
    struct snic_disk *d = m->disk;
    slot->cancelled = 0;
    slot->refusal = snic_io_validate(&m->io, slot->req);
    if (slot->refusal != 0) {
        slot->state = IO_MEM_REFUSED;
        snic_loop_defer(m->io.loop, &slot->msg);
        return;
    }
    snic_link_append(&m->active, &slot->link);
    slot->verdict = disk_judge(d, slot->req);
    if (slot->req->op == SNIC_IO_FLUSH)
        slot->covers = disk_flush_begin(d);
    uint64_t delay = io_mem_delay(slot, now_ns);
    if (delay == SNIC_NEVER) {
        slot->state = IO_MEM_AWAITED;
        return;
    }
    delay += slot->verdict.delay_ns;
    if (delay == 0) {
        slot->state = IO_MEM_QUEUED;
        snic_loop_defer(m->io.loop, &slot->msg);
    } else {
        io_mem_arm(slot, now_ns + delay);
    }
}

static int io_mem_submit(struct snic_io *io, struct snic_io_req **reqs, uint32_t n)
{
    struct io_mem *m = SNIC_CONTAINER(io, struct io_mem, io);
    if (m->dead || m->closing)
        return m->dead ? SNIC_EIO : SNIC_ECANCELED;
    if (snic_io_room_taken(&m->room))
        return 0;
    uint64_t now = snic_loop_clock(io->loop);
    uint32_t i = 0;
    for (; i < n && m->free != NULL; i++) {
        struct io_mem_slot *slot = m->free;
        SNIC_ASSERT(slot->state == IO_MEM_FREE); /* M1 */
        m->free = slot->next_free;
        m->in_flight++;
        slot->req = reqs[i];
        io_req_accept(io, reqs[i], now);
        reqs[i]->backend[0] = (uint64_t)(uintptr_t)slot;
        io_mem_start(slot, now);
    }
    io->stats.queue_high = snic_max_u64(io->stats.queue_high, m->in_flight);
    return (int)i;
}

static void io_mem_cancel(struct snic_io *io, struct snic_io_req *req)
{
    struct io_mem *m = SNIC_CONTAINER(io, struct io_mem, io);
    struct io_mem_slot *slot = (struct io_mem_slot *)(uintptr_t)req->backend[0];
    if (slot < m->slots || slot >= m->slots + io->depth_max || slot->req != req)
        return; /* it has completed */
    if (slot->state == IO_MEM_REFUSED || m->dead)
        return;
    slot->cancelled = 1;
    io_mem_hasten(slot);
}

static void io_mem_close(struct snic_io *io)
{
    struct io_mem *m = SNIC_CONTAINER(io, struct io_mem, io);
    m->closing = 1;
    while (m->in_flight > 0 || !snic_io_room_idle(&m->room)) {
        int r = snic_loop_once(io->loop, SNIC_NEVER);
        SNIC_ASSERT(r > 0 || snic_loop_world(io->loop) == NULL); /* else the node is paused */
        SNIC_ASSERT(r >= 0);
    }
    snic_link_remove(&m->link);
    if (m->timing != NULL)
        m->timing->close(m->timing);
    free(m);
}

static int io_mem_ready(const struct snic_io_room *r)
{
    return SNIC_CONTAINER(r, struct io_mem, room)->free != NULL;
}

static void io_mem_wait(struct snic_io *io, struct snic_io_waiter *w)
{
    snic_io_room_wait(&SNIC_CONTAINER(io, struct io_mem, io)->room, w);
}

static const struct snic_io_ops io_mem_ops = {
    .ops_size = sizeof(struct snic_io_ops),
    .name = "mem",
    .submit = io_mem_submit,
    .cancel = io_mem_cancel,
    .close = io_mem_close,
    .wait = io_mem_wait,
};

int io_mem_create(struct io_mem **out, struct snic_loop *l, struct snic_disk *d)
{
    uint32_t depth = d->opts.depth;
    struct io_mem *m = calloc(1, sizeof(*m) + depth * sizeof(m->slots[0]));
    if (m == NULL)
        return SNIC_ENOMEM;
    m->io.ops = &io_mem_ops;
    m->io.loop = l;
    m->io.geometry = (struct snic_io_geometry){.size = d->opts.size,
                                               .block = d->opts.align,
                                               .memory_align = d->opts.align,
                                               .offset_align = d->opts.align,
                                               .length_align = d->opts.align,
                                               .transfer_max = d->opts.transfer_max,
                                               .atomic_write = d->opts.sector};
    m->io.caps = d->opts.caps;
    m->io.depth_max = depth;
    m->disk = d;
    snic_io_room_init(&m->room, &m->io, io_mem_ready);
    snic_link_init(&m->active);
    snic_link_append(&d->handles, &m->link);
    for (uint32_t i = depth; i-- > 0;) {
        struct io_mem_slot *slot = &m->slots[i];
        snic_link_init(&slot->link);
        slot->msg.fn = io_mem_message;
        snic_timer_init(&slot->timer, io_mem_timer);
        slot->mem = m;
        slot->next_free = m->free;
        m->free = slot;
    }
    *out = m;
    return 0;
}

int snic_io_mem_open(struct snic_io **out, struct snic_loop *l, struct snic_disk *d)
{
    struct io_mem *m = NULL;
    int r = io_mem_create(&m, l, d);
    if (r == 0)
        *out = &m->io;
    return r;
}
