/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* The engine's actions: its DMA through the door, its pages to and from the file system. */
#include "snicstore/hcachelink.h"

#include "hcachelink/dpu_priv.h"

SNIC_STATIC_ASSERT((int)SNIC_HCACHE_OP_READ == (int)SNIC_DMA_READ &&
                       (int)SNIC_HCACHE_OP_WRITE == (int)SNIC_DMA_WRITE &&
                       (int)SNIC_HCACHE_OP_CAS == (int)SNIC_DMA_CAS &&
                       (int)SNIC_HCACHE_OP_ADD == (int)SNIC_DMA_ADD &&
                       SNIC_HCACHE_OP_ORDERED == SNIC_DMA_ORDERED &&
                       SNIC_HCACHE_OP_FENCE == SNIC_DMA_FENCE,
                   "the engine's numbers are dma's");

static void hcachelink_run_end(struct hcachelink_run *u, struct snic_hcache_event *ev)
{
    struct snic_hcachelink_dpu *d = u->d;
    SNIC_ASSERT(u->busy && d->runs_busy > 0);
    ev->id = u->a.id;
    if (ev->kind == SNIC_HCACHE_EV_FLUSHED) {
        d->refused = ev->result;
        if (ev->result < 0)
            d->drain_error = ev->result;
    }
    u->busy = 0;
    d->runs_busy--;
    snic_queue_push(&d->free_runs, &u->node);
    hcachelink_engine_step(d, ev);
}

static void hcachelink_run_dma_end(struct hcachelink_run *u, int32_t result)
{
    struct snic_hcache_event ev = {.kind = SNIC_HCACHE_EV_DMA, .result = result};
    for (uint32_t i = 0; i < u->a.count; i++)
        u->a.ops[i].value = u->ops[i].value;
    if (result < 0 && u->d->failed == 0)
        u->d->failed = result;
    hcachelink_run_end(u, &ev);
}

static void hcachelink_run_dma_done(struct snic_dma_batch *b)
{
    hcachelink_run_dma_end(SNIC_CONTAINER(b, struct hcachelink_run, batch), b->result);
}

/** The host is dead, so there is no other access: plain loads and stores. D3: the engine's places
 *  were computed from the checked geometry. */
static void hcachelink_run_local(struct hcachelink_run *u)
{
    unsigned char *base = u->d->mapped;
    for (uint32_t i = 0; i < u->a.count; i++) {
        struct snic_dma_op *o = &u->ops[i];
        unsigned char *at = base + o->offset;
        SNIC_ASSERT(o->offset <= u->d->info.memory_bytes &&
                    o->length <= u->d->info.memory_bytes - o->offset);
        if (o->kind == SNIC_DMA_READ) {
            memcpy(o->local, at, o->length);
        } else if (o->kind == SNIC_DMA_WRITE) {
            memcpy(at, o->local, o->length);
        } else {
            o->value = snic_get_le64(at);
            if (o->kind == SNIC_DMA_ADD)
                snic_put_le64(at, o->value + o->operand);
            else if (o->value == o->compare)
                snic_put_le64(at, o->operand);
        }
    }
    snic_queue_push(&u->d->local, &u->node);
}

/** 0: the door has no room. */
static int hcachelink_run_submit(struct hcachelink_run *u)
{
    struct snic_dma_batch *b = &u->batch;
    int r;
    if (u->d->dead) {
        if (u->d->mapped != NULL && !u->d->detached)
            hcachelink_run_local(u);
        else
            hcachelink_run_dma_end(u, SNIC_EPEERDEAD);
        return 1;
    }
    r = snic_dma_submit(u->d->dma, &b, 1);
    if (r < 0) { /* the death event follows, and looks at it again */
        snic_queue_push(&u->d->full, &u->node);
        return 1;
    }
    return r;
}

static void hcachelink_run_dma(struct hcachelink_run *u)
{
    SNIC_ASSERT(u->a.count <= SNIC_HCACHE_OPS_MAX);
    for (uint32_t i = 0; i < u->a.count; i++) {
        const struct snic_hcache_op *o = &u->a.ops[i];
        u->ops[i] = (struct snic_dma_op){.kind = (uint8_t)o->kind,
                                         .flags = (uint8_t)o->flags,
                                         .length = (uint32_t)o->bytes,
                                         .key = u->d->key,
                                         .offset = o->offset,
                                         .local = o->local,
                                         .compare = o->compare,
                                         .operand = o->operand};
    }
    u->batch = (struct snic_dma_batch){
        .done = hcachelink_run_dma_done, .ops = u->ops, .count = u->a.count};
    if (!snic_queue_empty(&u->d->full) || !hcachelink_run_submit(u))
        snic_queue_push(&u->d->full, &u->node);
}

static void hcachelink_run_stored(struct hcachelink_run *u)
{
    u->d->stats.writes++;
    u->d->progress_ns = snic_loop_now(u->d->dma->loop);
}

static void hcachelink_run_flushed(struct snic_fs_req *r)
{
    struct hcachelink_run *u = SNIC_CONTAINER(r, struct hcachelink_run, fs);
    struct snic_hcache_event ev = {.kind = SNIC_HCACHE_EV_FLUSHED};
    if (r->op.result == SNIC_ENOENT || r->op.result == SNIC_ESTALE)
        u->d->stats.orphans++; /* the file is gone, and what was written to it with it */
    else if (r->op.result < 0)
        ev.result = (int32_t)r->op.result;
    else if (r->op.result != (int64_t)u->iov.size)
        ev.result = SNIC_EIO;
    else
        hcachelink_run_stored(u);
    hcachelink_run_end(u, &ev);
}

/** Where a page is in its file; 0: nowhere. */
static int hcachelink_run_offset(const struct hcachelink_run *u, uint64_t *offset)
{
    *offset = u->a.lpn * u->d->info.page_bytes;
    return u->a.lpn <= SNIC_KVFS_SIZE_MAX / u->d->info.page_bytes - 1;
}

static void hcachelink_run_flush(struct hcachelink_run *u)
{
    const struct snic_hcache_seal *seal =
        u->d->opts.control.seal != NULL ? u->d->opts.control.seal : snic_hcache_seal_crc();
    struct snic_hcache_event ev = {.kind = SNIC_HCACHE_EV_FLUSHED};
    uint64_t offset;
    if (!hcachelink_run_offset(u, &offset)) {
        ev.result = SNIC_EFBIG;
    } else if (seal->sum != NULL && seal->sum(u->d->opts.control.seal_ctx, u->a.ino, u->a.lpn,
                                              u->a.data, u->a.bytes) != u->a.sum) {
        u->d->stats.mismatches++;
        ev.result = SNIC_ECORRUPT;
    }
    if (ev.result != 0) {
        hcachelink_run_end(u, &ev);
        return;
    }
    hcachelink_fs_req(&u->fs, SNIC_FSOP_WRITE, u->a.ino);
    u->iov = (struct snic_iov){.base = u->a.data, .size = u->a.end};
    u->fs.op.offset = offset;
    u->fs.op.iov = &u->iov;
    u->fs.op.iov_count = 1;
    u->fs.done = hcachelink_run_flushed;
    snic_fs_submit(u->d->fs, &u->fs);
}

static void hcachelink_run_fetched(struct snic_fs_req *r)
{
    struct hcachelink_run *u = SNIC_CONTAINER(r, struct hcachelink_run, fs);
    struct snic_hcache_event ev = {.kind = SNIC_HCACHE_EV_FETCHED, .bytes = u->a.bytes};
    SNIC_ASSERT(r->op.result <= (int64_t)u->a.bytes);
    if (r->op.result < 0)
        ev.result = (int32_t)r->op.result;
    else if (r->op.result == 0)
        ev.result = SNIC_ENOENT;
    else
        memset((unsigned char *)u->a.data + r->op.result, 0, u->a.bytes - (size_t)r->op.result);
    u->d->stats.fetches += r->op.result > 0;
    hcachelink_run_end(u, &ev);
}

static void hcachelink_run_fetch(struct hcachelink_run *u)
{
    struct snic_hcache_event ev = {.kind = SNIC_HCACHE_EV_FETCHED, .result = SNIC_ENOENT};
    uint64_t offset;
    if (!hcachelink_run_offset(u, &offset)) {
        hcachelink_run_end(u, &ev);
        return;
    }
    hcachelink_fs_req(&u->fs, SNIC_FSOP_READ, u->a.ino);
    u->fs.op.flags |= SNIC_FSOP_NOATIME;
    u->iov = (struct snic_iov){.base = u->a.data, .size = u->a.bytes};
    u->fs.op.offset = offset;
    u->fs.op.iov = &u->iov;
    u->fs.op.iov_count = 1;
    u->fs.done = hcachelink_run_fetched;
    snic_fs_submit(u->d->fs, &u->fs);
}

static void hcachelink_run_start(struct snic_hcachelink_dpu *d, const struct snic_hcache_action *a)
{
    struct snic_node *n = snic_queue_pop(&d->free_runs);
    struct hcachelink_run *u;
    SNIC_ASSERT(n != NULL); /* a job has one action in flight at a time */
    u = SNIC_CONTAINER(n, struct hcachelink_run, node);
    u->a = *a;
    u->busy = 1;
    d->runs_busy++;
    if (a->kind == SNIC_HCACHE_ACT_DMA)
        hcachelink_run_dma(u);
    else if (a->kind == SNIC_HCACHE_ACT_FLUSH)
        hcachelink_run_flush(u);
    else
        hcachelink_run_fetch(u);
}

static int hcachelink_waiting_pump(struct snic_hcachelink_dpu *d)
{
    struct snic_node *n;
    int did = 0;
    while ((n = snic_queue_pop(&d->local)) != NULL) {
        hcachelink_run_dma_end(SNIC_CONTAINER(n, struct hcachelink_run, node), 0);
        did = 1;
    }
    while (!snic_queue_empty(&d->full) && (d->dead || !d->dma->dead)) {
        struct snic_queue rest = d->full;
        n = snic_queue_pop(&rest);
        d->full = (struct snic_queue){NULL, NULL};
        if (!hcachelink_run_submit(SNIC_CONTAINER(n, struct hcachelink_run, node))) {
            snic_queue_push(&d->full, n);
            while ((n = snic_queue_pop(&rest)) != NULL)
                snic_queue_push(&d->full, n);
            return did;
        }
        if (!snic_queue_empty(&d->full)) { /* the peer has gone: wait for the event */
            while ((n = snic_queue_pop(&rest)) != NULL)
                snic_queue_push(&d->full, n);
            return did;
        }
        d->full = rest;
        did = 1;
    }
    return did;
}

int hcachelink_engine_pump(struct snic_hcachelink_dpu *d)
{
    struct snic_hcache_action a;
    int did = hcachelink_waiting_pump(d);
    if (d->state == HCACHELINK_D_STOP || d->engine == NULL)
        return did;
    while (snic_hcache_control_poll(d->engine, &a, 1) != 0) {
        did = 1;
        if (a.kind <= SNIC_HCACHE_ACT_FETCH)
            hcachelink_run_start(d, &a);
        else if (a.kind == SNIC_HCACHE_ACT_SYNC)
            hcachelink_task_synced(d, a.id, a.result);
        else if (a.kind == SNIC_HCACHE_ACT_WAKE && !d->dead)
            (void)snic_dma_ring(d->dma, d->opts.bell);
    }
    return did;
}
