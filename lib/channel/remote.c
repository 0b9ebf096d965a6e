/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/**
 * The DPU end over DMA: the rings' remote steps carried out in batches.
 *
 * Each direction is an engine with at most one batch in flight. A completion leaves a mark;
 * the channel's poller looks at the result and decides on the next batch.
 *
 *   up     A look is: [head write] [arm write] cursor reads, then what the ring asks for. A look
 *          that finds something is followed by another when all of it is delivered; one
 *          that finds nothing by one that arms the doorbell; an armed one that finds
 *          nothing by sleep, until the bell or until the head is to be written.
 *   down   A delivery is: data writes, tail write, and behind them the read of the head and the
 *          sleep flag. A full ring: arm write, then that read.
 *
 * Invariants
 *   R1 The cursor read of a look is fenced behind the head write and the arm write of the same
 *      batch: a sender that armed too late to be seen finds the space, and one that committed
 *      too early to ring is found.
 *   R2 armed means: the arm write is complete and the bell has not rung since. A look that ends
 *      empty while armed may be the last.
 *   R3 A bell that comes while an arming batch is in flight counts: what it announced may have
 *      happened after the batch looked.
 */
#include "channel/channel_priv.h"

/* ---- Engines ---- */

static void channel_engine_done(struct snic_dma_batch *b)
{
    struct channel_engine *e = SNIC_CONTAINER(b, struct channel_engine, batch);
    e->busy = 0;
    e->completed = 1;
}

static void channel_engine_submit(struct snic_channel *c, struct channel_engine *e)
{
    struct snic_dma_batch *list = &e->batch;
    int r = snic_dma_submit(c->hub->dma, &list, 1);
    e->waiting = r == 0;
    if (r < 0) {
        e->busy = 0;
        c->dpu.cut = 1;
    }
}

/** Add a ring's operation; @p fence: behind all before it in the batch. */
static void channel_engine_add(struct snic_channel *c, struct channel_engine *e,
                               const struct snic_ring_op *op, int fence)
{
    struct channel_dpu *u = &c->dpu;
    const struct snic_ring_info *info = e == &u->up ? &c->up : &c->down;
    int read = op->kind == SNIC_RING_OP_READ;
    SNIC_ASSERT(e->batch.count < SNIC_CHANNEL__OPS);
    e->ops[e->batch.count++] = (struct snic_dma_op){
        .kind = read ? SNIC_DMA_READ : SNIC_DMA_WRITE,
        .flags = fence || (op->flags & SNIC_RING_OP_FENCE) != 0 ? SNIC_DMA_FENCE : 0,
        .length = (uint32_t)op->bytes,
        .key = e == &u->up ? u->up_key : u->down_key,
        .offset = op->offset,
        .local = op->local};
    if (read && op->offset >= info->data_offset) {
        c->stats.dma_data_reads++;
        c->stats.copied_bytes += op->bytes;
    } else if (read && e == &u->down) {
        c->stats.dma_sync_reads++;
    } else if (read) {
        c->stats.dma_cursor_reads++;
    } else if (op->offset >= info->data_offset) {
        c->stats.dma_data_writes++;
        c->stats.copied_bytes += op->bytes;
    } else if (op->offset == SNIC_RING_OFF_HEAD) {
        c->stats.dma_head_writes++;
    } else if (op->offset == SNIC_RING_OFF_TAIL || op->offset >= info->commit_offset) {
        c->stats.dma_tail_writes++;
    } else {
        c->stats.dma_flag_writes++;
    }
}

static void channel_engine_begin(struct channel_engine *e)
{
    SNIC_ASSERT(!e->busy && !e->completed);
    e->batch.done = channel_engine_done;
    e->batch.ops = e->ops;
    e->batch.count = 0;
}

static void channel_engine_go(struct snic_channel *c, struct channel_engine *e)
{
    e->busy = 1;
    channel_engine_submit(c, e);
}

/** Take the result of a batch. 1 good; 0 nothing, or it failed. */
static int channel_engine_take(struct snic_channel *c, struct channel_engine *e)
{
    if (!e->completed)
        return 0;
    e->completed = 0;
    if (e->batch.result == 0)
        return 1;
    if (e->batch.result == SNIC_EPEERDEAD || e->batch.result == SNIC_ECANCELED)
        c->dpu.cut = 1; /* the death event follows */
    else
        channel_fail(c, e->batch.result == SNIC_EFAULT ? SNIC_EPROTO : SNIC_EIO);
    return 0;
}

/* ---- Opening ---- */

int channel_remote_begin(struct snic_channel *c)
{
    struct channel_dpu *u = &c->dpu;
    channel_engine_begin(&u->up);
    for (uint32_t i = 0; i < 2; i++)
        u->up.ops[u->up.batch.count++] =
            (struct snic_dma_op){.kind = SNIC_DMA_READ,
                                 .length = SNIC_CHANNEL__FETCH,
                                 .key = i == 0 ? u->up_key : u->down_key,
                                 .local = u->fetch[i]};
    channel_engine_go(c, &u->up);
    return c->dpu.cut ? SNIC_EPEERDEAD : 0;
}

static int channel_remote_attach(struct snic_channel *c)
{
    struct channel_dpu *u = &c->dpu;
    int ordered = (c->hub->dma->caps & SNIC_DMA_CAP_ORDERED_READ) != 0;
    int r = channel_dpu_geometry(c, u->fetch[0], 0, &c->up);
    if (r == 0)
        r = channel_dpu_geometry(c, u->fetch[1], 1, &c->down);
    if (r == 0)
        r = channel_dpu_aux(c);
    if (r == 0)
        r = snic_ring_consumer_attach_remote(
            &u->consumer, u->fetch[0], c->up.memory_bytes, u->fetch[0] + SNIC_RING_OFF_HEAD,
            u->up_mirror, (size_t)c->up.mirror_bytes, u->up_aux, (size_t)c->up.aux_bytes,
            ordered ? SNIC_RING_ORDERED_READ : 0);
    if (r == 0)
        r = snic_ring_responder_attach_remote(
            &u->responder, u->fetch[1], c->down.memory_bytes, u->fetch[1] + SNIC_RING_OFF_TAIL,
            u->down_mirror, (size_t)c->down.mirror_bytes, u->down_aux, (size_t)c->down.aux_bytes);
    return r == SNIC_ECORRUPT ? SNIC_EPROTO : r;
}

static void channel_remote_open(struct snic_channel *c)
{
    if (!channel_engine_take(c, &c->dpu.up))
        return;
    int r = channel_remote_attach(c);
    if (r == 0)
        channel_dpu_opened(c);
    else
        channel_fail(c, r);
}

/* ---- Up ---- */

/** Hand over the next operations of the look under way. */
static void channel_remote_fetch(struct snic_channel *c, const struct snic_ring_op *ops, int n)
{
    struct channel_engine *e = &c->dpu.up;
    for (int i = 0; i < n; i++)
        channel_engine_add(c, e, &ops[i], i == 0 && e->batch.count > 0); /* R1 */
    channel_engine_go(c, e);
}

/** Begin a look if there is a reason to. 1 if so. */
static int channel_remote_look(struct snic_channel *c)
{
    struct channel_dpu *u = &c->dpu;
    struct snic_ring_op ops[SNIC_RING_FETCH_OPS];
    struct snic_ring_op op;
    int head = snic_ring_head_op(&u->consumer, &op);
    c->released = 0;
    if (!head && (u->asleep || c->stalled))
        return 0;
    channel_engine_begin(&u->up);
    if (head)
        channel_engine_add(c, &u->up, &op, 0);
    u->look_heads = head != 0;
    u->look_arms = u->arm_next && !c->armed;
    u->arm_next = 0;
    if (u->look_arms && snic_ring_sleep_arm(&u->consumer, &op) == 1) {
        channel_engine_add(c, &u->up, &op, 0);
        c->stats.sleeps++;
        c->belled = 0; /* older bells are answered by this look */
    }
    if (u->drain == 1 && !c->stalled)
        u->drain = 2;
    c->stats.looks++;
    int n = snic_ring_fetch(&u->consumer, ops);
    SNIC_ASSERT(n > 0); /* a fresh look begins with reading cursors, unless broken */
    channel_remote_fetch(c, ops, n);
    return 1;
}

/** A look has ended with @p r: 0 news, SNIC_EAGAIN none. */
static void channel_remote_looked(struct snic_channel *c, int r)
{
    struct channel_dpu *u = &c->dpu;
    if (u->look_arms) {
        c->armed = !c->belled; /* R2, R3 */
        u->look_arms = 0;
    }
    if (u->look_heads && snic_ring_space_notify(&u->consumer))
        channel_ring_bell(c);
    if (r == 0) {
        u->asleep = 0;
        if (u->drain == 2)
            u->drain = 1;
        return;
    }
    c->stats.looks_empty++;
    if (u->drain == 2) {
        channel_fail(c, 0); /* C2 */
        return;
    }
    if (c->armed && !c->belled)
        u->asleep = u->drain == 0;
    else
        u->arm_next = 1;
}

/** Deliver records that are here. Messages delivered. */
static uint32_t channel_remote_receive(struct snic_channel *c)
{
    struct channel_dpu *u = &c->dpu;
    uint32_t n = channel_deliver(c);
    while (n < u->budget && c->stash_at == c->stash_end && !c->stalled && !c->ending) {
        int k = snic_ring_peek(&u->consumer, c->stash, SNIC_CHANNEL__STASH);
        if (k < 0)
            channel_fail(c, SNIC_EPROTO);
        if (k <= 0)
            break;
        c->stash_at = 0;
        c->stash_end = (uint32_t)k;
        n += channel_deliver(c);
    }
    return n;
}

static int channel_remote_up(struct snic_channel *c)
{
    struct channel_dpu *u = &c->dpu;
    struct snic_ring_op ops[SNIC_RING_FETCH_OPS];
    int did = 0;
    if (u->up.busy || c->ending || u->cut)
        return 0;
    if (u->up.completed && channel_engine_take(c, &u->up)) {
        did = 1;
        int n = snic_ring_fetch(&u->consumer, ops);
        if (n > 0) {
            channel_engine_begin(&u->up);
            channel_remote_fetch(c, ops, n);
            return 1;
        }
        if (n != 0 && n != SNIC_EAGAIN)
            channel_fail(c, SNIC_EPROTO);
        else
            channel_remote_looked(c, n);
    }
    if (c->ending || u->cut)
        return 1;
    uint32_t n = channel_remote_receive(c);
    /* More may be here: the budget ran out, or the user stalled. Heads are written anyway. */
    int whole = c->stash_at == c->stash_end && n < u->budget;
    if (!c->ending && (whole || c->stalled))
        did |= channel_remote_look(c);
    return did || n > 0;
}

/* ---- Down ---- */

static void channel_remote_delivered(struct snic_channel *c)
{
    struct channel_dpu *u = &c->dpu;
    if (snic_ring_resp_synced(&u->responder) != 0) {
        channel_fail(c, SNIC_EPROTO);
        return;
    }
    if (snic_ring_resp_notify(&u->responder))
        channel_ring_bell(c);
    if (u->arming) {
        u->arming = 0;
        u->blocked = u->belled ? 0 : 2; /* R3 */
        c->writable_due = 1;            /* the user tries once more */
    } else if (u->want_sync && u->blocked == 2) {
        u->blocked = 0;
        c->writable_due = 1;
    }
    u->want_sync = 0;
}

static int channel_remote_down(struct snic_channel *c)
{
    struct channel_dpu *u = &c->dpu;
    struct snic_ring_op ops[16];
    struct snic_ring_op op;
    int did = 0;
    if (u->down.busy || c->ending || u->cut)
        return 0;
    if (u->down.completed && channel_engine_take(c, &u->down)) {
        did = 1;
        channel_remote_delivered(c);
    }
    if (c->ending || u->cut)
        return 1;
    if (!u->want_flush && !u->want_sync && u->blocked != 1)
        return did;
    channel_engine_begin(&u->down);
    if (u->blocked == 1) {
        if (snic_ring_resp_wait_arm(&u->responder, &op) == 1)
            channel_engine_add(c, &u->down, &op, 0);
        u->arming = 1;
        u->belled = 0;
    }
    if (u->want_flush) {
        int n = snic_ring_resp_flush(&u->responder, ops, SNIC_COUNTOF(ops));
        if (n < 0) {
            channel_fail(c, SNIC_EPROTO);
            return 1;
        }
        for (int i = 0; i < n; i++)
            channel_engine_add(c, &u->down, &ops[i], 0);
        u->want_flush = n > 0; /* until nothing is left */
        c->stats.flushes += n > 0;
    }
    if (u->down.batch.count == 0 && !u->want_sync)
        return did;
    snic_ring_resp_sync(&u->responder, &op);
    channel_engine_add(c, &u->down, &op, 1);
    channel_engine_go(c, &u->down);
    return 1;
}

/* ---- The poller ---- */

static void channel_remote_bells(struct snic_channel *c)
{
    struct channel_dpu *u = &c->dpu;
    if (!c->belled)
        return;
    if (u->arming)
        u->belled = 1;
    if (u->blocked == 2)
        u->want_sync = 1;
    u->asleep = 0;
    if (!u->look_arms)
        c->belled = 0;
}

/** Would another round do anything? */
static int channel_remote_work(const struct snic_channel *c)
{
    const struct channel_dpu *u = &c->dpu;
    if ((u->up.completed && !u->up.busy) || (u->down.completed && !u->down.busy))
        return !u->cut;
    if (!c->opened || c->ending || u->cut)
        return 0;
    if (c->belled && !u->look_arms)
        return 1;
    if (!u->down.busy && (u->want_flush || u->want_sync || u->blocked == 1))
        return 1;
    return !u->up.busy && ((!c->stalled && !u->asleep) || c->released);
}

int channel_remote_poll(struct snic_channel *c, int sleeping)
{
    struct channel_dpu *u = &c->dpu;
    struct channel_engine *engines[2] = {&u->up, &u->down};
    if (c->opened && channel_flush_due(c, sleeping || c->lingering)) {
        u->want_flush = 1;
        u->unflushed = 0;
    }
    if (sleeping)
        return channel_remote_work(c);
    u->quiet = 1;
    for (int i = 0; i < 2; i++)
        if (engines[i]->waiting)
            channel_engine_submit(c, engines[i]);
    if (!c->opened) {
        if (!c->lingering)
            channel_remote_open(c);
        return c->opened || c->ending;
    }
    channel_remote_bells(c);
    int did = channel_remote_down(c);
    if (!c->lingering)
        did |= channel_remote_up(c);
    return did;
}

int channel_remote_lingers(const struct snic_channel *c)
{
    const struct channel_dpu *u = &c->dpu;
    if (u->up.busy || u->down.busy)
        return 1;
    return c->opened && !c->ending && !u->cut && (u->want_flush || u->unflushed > 0);
}
