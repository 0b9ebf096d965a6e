/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* Requests of the host: pages for its misses, fsync, truncation, the end. */
#include "snicstore/hcachelink.h"

#include "hcachelink/dpu_priv.h"

void hcachelink_task_finish(struct hcachelink_task *t, int64_t result)
{
    struct snic_hcachelink_dpu *d = t->d;
    SNIC_ASSERT(t->type != 0 && !t->in_flight);
    t->result = result < 0 ? (int32_t)result : 0;
    snic_queue_push(&d->answers, &t->node);
    hcachelink_dpu_kick(d);
}

static void hcachelink_task_fs(struct hcachelink_task *t, snic_fs_done_fn done)
{
    t->in_flight = 1;
    t->fs.done = done;
    snic_fs_submit(t->d->fs, &t->fs);
}

static void hcachelink_task_fs_done(struct snic_fs_req *r)
{
    struct hcachelink_task *t = SNIC_CONTAINER(r, struct hcachelink_task, fs);
    t->in_flight = 0;
    hcachelink_task_finish(t, r->op.result);
}

void hcachelink_dpu_stop(struct snic_hcachelink_dpu *d)
{
    if (d->state == HCACHELINK_D_GONE || d->state == HCACHELINK_D_STOP)
        return;
    d->state = HCACHELINK_D_STOP;
    /* fsyncs that the engine will not answer any more */
    for (uint32_t i = 0; i < d->opts.tasks; i++) {
        struct hcachelink_task *t = &d->tasks[i];
        if (t->type != HCACHELINK_FSYNC || !t->in_flight || t->fs.done != NULL)
            continue;
        t->in_flight = 0;
        hcachelink_task_finish(t, SNIC_EPIPE);
    }
    hcachelink_dpu_kick(d);
}

/* ---- READ ---- */

static void hcachelink_task_sent(struct snic_dma_batch *b)
{
    struct hcachelink_task *t = SNIC_CONTAINER(b, struct hcachelink_task, batch);
    SNIC_ASSERT(t->type == HCACHELINK_READ && t->in_flight);
    t->in_flight = 0;
    hcachelink_task_finish(t, b->result);
}

/** 0: the door has no room. */
static int hcachelink_task_submit(struct hcachelink_task *t)
{
    struct snic_dma_batch *b = &t->batch;
    int r = t->d->dead ? SNIC_EPEERDEAD : snic_dma_submit(t->d->dma, &b, 1);
    if (r >= 0)
        return r;
    t->in_flight = 0;
    hcachelink_task_finish(t, SNIC_EPEERDEAD);
    return 1;
}

static void hcachelink_task_read_done(struct snic_fs_req *r)
{
    struct hcachelink_task *t = SNIC_CONTAINER(r, struct hcachelink_task, fs);
    struct snic_hcachelink_dpu *d = t->d;
    if (r->op.result < 0 || d->state == HCACHELINK_D_STOP) {
        t->in_flight = 0;
        hcachelink_task_finish(t, r->op.result < 0 ? r->op.result : SNIC_EPIPE);
        return;
    }
    SNIC_ASSERT(r->op.result <= (int64_t)d->info.page_bytes);
    memset(t->page + r->op.result, 0, d->info.page_bytes - (size_t)r->op.result);
    t->op = (struct snic_dma_op){.kind = SNIC_DMA_WRITE,
                                 .length = d->info.page_bytes,
                                 .key = d->key,
                                 .offset = d->info.data_offset + t->index * d->info.page_bytes,
                                 .local = t->page};
    t->batch = (struct snic_dma_batch){.done = hcachelink_task_sent, .ops = &t->op, .count = 1};
    d->stats.reads++;
    if (!snic_queue_empty(&d->full_tasks) || !hcachelink_task_submit(t))
        snic_queue_push(&d->full_tasks, &t->node);
}

static void hcachelink_task_read(struct hcachelink_task *t, const struct hcachelink_message *m)
{
    struct snic_hcachelink_dpu *d = t->d;
    t->index = m->b;
    if (m->b >= d->info.pages || m->a > SNIC_KVFS_SIZE_MAX / d->info.page_bytes - 1) {
        hcachelink_task_finish(t, SNIC_EINVAL);
        return;
    }
    hcachelink_fs_req(&t->fs, SNIC_FSOP_READ, m->ino);
    t->iov = (struct snic_iov){.base = t->page, .size = d->info.page_bytes};
    t->fs.op.offset = m->a * d->info.page_bytes;
    t->fs.op.iov = &t->iov;
    t->fs.op.iov_count = 1;
    hcachelink_task_fs(t, hcachelink_task_read_done);
    if (m->c != 0) {
        struct snic_hcache_event ev = {
            .kind = SNIC_HCACHE_EV_MISS, .ino = m->ino, .lpn = m->a, .count = 1};
        hcachelink_engine_step(d, &ev);
    }
}

/* ---- The others ---- */

static void hcachelink_task_fsync(struct hcachelink_task *t, const struct hcachelink_message *m)
{
    struct snic_hcache_event ev = {
        .kind = SNIC_HCACHE_EV_FSYNC, .id = (uint64_t)(t - t->d->tasks), .ino = m->ino};
    int r = m->a > 1 ? SNIC_EINVAL
                     : snic_hcache_control_step(t->d->engine, &ev, snic_loop_now(t->d->dma->loop));
    t->index = m->a;
    hcachelink_fs_req(&t->fs, SNIC_FSOP_FSYNC, m->ino);
    if (r != 0)
        hcachelink_task_finish(t, r);
    else
        t->in_flight = 1;
}

void hcachelink_task_synced(struct snic_hcachelink_dpu *d, uint64_t index, int32_t result)
{
    struct hcachelink_task *t = &d->tasks[index];
    SNIC_ASSERT(index < d->opts.tasks && t->type == HCACHELINK_FSYNC && t->in_flight);
    t->in_flight = 0;
    if (result < 0 || t->index != 0)
        hcachelink_task_finish(t, result);
    else
        hcachelink_task_fs(t, hcachelink_task_fs_done);
}

static void hcachelink_task_truncate(struct hcachelink_task *t, const struct hcachelink_message *m)
{
    hcachelink_fs_req(&t->fs, SNIC_FSOP_SETATTR, m->ino);
    t->fs.op.set_mask = SNIC_FSOP_SET_SIZE;
    t->fs.op.attr.size = m->a;
    hcachelink_task_fs(t, hcachelink_task_fs_done);
}

static void hcachelink_task_end_done(struct snic_fs_req *r)
{
    struct hcachelink_task *t = SNIC_CONTAINER(r, struct hcachelink_task, fs);
    struct snic_hcachelink_dpu *d = t->d;
    t->in_flight = 0;
    t->type = 0;
    d->tasks_busy--;
    d->msg_result = r->op.result < 0 ? (int32_t)r->op.result : 0;
    d->ended = 1;
    hcachelink_dpu_stop(d);
}

void hcachelink_task_end(struct snic_hcachelink_dpu *d)
{
    struct hcachelink_task *t = &d->tasks[SNIC_HCACHELINK__END_TASK];
    if (t->type != 0)
        return;
    t->d = d;
    t->type = HCACHELINK_END;
    d->tasks_busy++;
    hcachelink_fs_req(&t->fs, SNIC_FSOP_SYNCFS, SNIC_FSOP_ROOT);
    hcachelink_task_fs(t, hcachelink_task_end_done);
}

void hcachelink_task_begin(struct snic_hcachelink_dpu *d, const struct hcachelink_message *m)
{
    struct hcachelink_task *t = NULL;
    for (uint32_t i = 0; i < d->opts.tasks && t == NULL; i++)
        t = d->tasks[i].type == 0 ? &d->tasks[i] : NULL;
    if (t == NULL || d->state != HCACHELINK_D_RUN) { /* it violates the protocol */
        d->stats.refused++;
        /* After END: what is left might wait for a page that is held for this request, for ever. */
        if (d->state == HCACHELINK_D_DRAIN)
            d->failed = SNIC_EPROTO;
        return;
    }
    t->d = d;
    t->id = m->id;
    t->type = m->type;
    t->in_flight = 0;
    d->tasks_busy++;
    if (m->type == HCACHELINK_READ)
        hcachelink_task_read(t, m);
    else if (m->type == HCACHELINK_FSYNC)
        hcachelink_task_fsync(t, m);
    else
        hcachelink_task_truncate(t, m);
}

int hcachelink_task_pump(struct snic_hcachelink_dpu *d)
{
    struct snic_queue now = d->full_tasks;
    struct snic_node *n;
    int did = 0;
    d->full_tasks = (struct snic_queue){NULL, NULL};
    while ((n = snic_queue_pop(&now)) != NULL) {
        struct hcachelink_task *t = SNIC_CONTAINER(n, struct hcachelink_task, node);
        if (!snic_queue_empty(&d->full_tasks) || !hcachelink_task_submit(t))
            snic_queue_push(&d->full_tasks, n);
        else
            did = 1;
    }
    return did;
}
