/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* The DPU's half and its link: the region's offer, messages, doorbells, death, answers. */
#include "snicstore/hcachelink.h"

#include "hcachelink/dpu_priv.h"

/* ---- A region is offered ---- */

static void hca_offer_answer(struct snic_hcachelink_dpu *d, int result)
{
    d->msg_due = HCA_REGION;
    d->msg_result = result;
    d->state = result == 0 ? HCA_D_RUN : HCA_D_NONE;
    hca_dpu_kick(d);
}

static void hca_header_done(struct snic_dma_batch *b)
{
    struct snic_hcachelink_dpu *d = SNIC_CONTAINER(b, struct snic_hcachelink_dpu, fetch_header);
    struct snic_hcache_event begin = {.kind = SNIC_HCACHE_EV_NONE};
    int r = b->result;
    d->header_busy = 0;
    if (d->state != HCA_D_HEADER) {
        hca_dpu_kick(d);
        return;
    }
    if (r == 0)
        r = snic_hcache_geometry(d->header, d->bytes, &d->info);
    if (r == 0)
        r = hca_engine_open(d);
    hca_offer_answer(d, r);
    if (r == 0)
        hca_engine_step(d, &begin);
}

static void hca_offer(struct snic_hcachelink_dpu *d, const struct hca_message *m)
{
    struct snic_dma_batch *b = &d->fetch_header;
    if (d->state != HCA_D_NONE || d->msg_due != 0) {
        d->stats.refused++;
        return;
    }
    d->key = m->a;
    d->bytes = m->b;
    d->epoch = m->c;
    d->failed = 0;
    d->header_op = (struct snic_dma_op){
        .kind = SNIC_DMA_READ, .length = sizeof(d->header), .key = d->key, .local = d->header};
    d->fetch_header =
        (struct snic_dma_batch){.done = hca_header_done, .ops = &d->header_op, .count = 1};
    if ((d->dma->caps & SNIC_DMA_CAP_ATOMIC) == 0 || snic_dma_submit(d->dma, &b, 1) != 1) {
        hca_offer_answer(d, SNIC_ENOTSUP);
        return;
    }
    d->header_busy = 1;
    d->state = HCA_D_HEADER;
}

/* ---- Messages ---- */

/** Flush all, and rest. */
static void hca_drain(struct snic_hcachelink_dpu *d, uint8_t state)
{
    struct snic_hcache_event ev = {.kind = SNIC_HCACHE_EV_KICK};
    d->state = state;
    d->drain_error = 0;
    d->progress_ns = snic_loop_now(d->dma->loop);
    /* one look may be half done */
    d->look_due = snic_hcache_control_counters(d->engine)->looks + 2;
    hca_engine_step(d, &ev);
}

void snic_hcachelink_dpu_recv(void *ctx, const void *msg, uint32_t size)
{
    struct snic_hcachelink_dpu *d = ctx;
    struct hca_message m;
    int r = hca_decode(&m, msg, size);
    if (r != 0 || d->dead) {
        d->stats.refused++;
        return;
    }
    if (m.type == HCA_REGION) {
        hca_offer(d, &m);
    } else if (m.type == HCA_READ || m.type == HCA_FSYNC || m.type == HCA_TRUNCATE) {
        hca_task_begin(d, &m);
    } else if (m.type == HCA_END && d->state == HCA_D_RUN) {
        hca_drain(d, HCA_D_DRAIN);
    } else if (m.type == HCA_AHEAD && d->state == HCA_D_RUN) {
        struct snic_hcache_event ev = {.kind = SNIC_HCACHE_EV_AHEAD, .ino = m.ino, .lpn = m.a};
        hca_engine_step(d, &ev);
    } else if (m.type == HCA_ALIVE && (d->state == HCA_D_RUN || d->state == HCA_D_DRAIN)) {
        d->alive_due = 1;
    } else if (m.type == HCA_MISSED && d->state == HCA_D_RUN) {
        struct snic_hcache_event ev = {.kind = SNIC_HCACHE_EV_MISS,
                                       .ino = m.ino,
                                       .lpn = m.a,
                                       .count = (uint32_t)snic_min_u64(m.b, UINT32_MAX)};
        hca_engine_step(d, &ev);
    } else {
        d->stats.refused++;
    }
    hca_dpu_kick(d);
}

void snic_hcachelink_dpu_doorbell(void *ctx, uint32_t id)
{
    struct snic_hcachelink_dpu *d = ctx;
    struct snic_hcache_event ev = {.kind = SNIC_HCACHE_EV_KICK};
    if (id == d->opts.bell && d->engine != NULL && d->state != HCA_D_STOP)
        hca_engine_step(d, &ev);
}

void snic_hcachelink_dpu_death(void *ctx, enum snic_dma_death cause)
{
    struct snic_hcachelink_dpu *d = ctx;
    struct snic_hcache_event ev = {.kind = SNIC_HCACHE_EV_HOST_DEAD};
    (void)cause;
    d->dead = 1;
    d->msg_due = 0;
    if (d->mapped == NULL || d->failed != 0 || d->state == HCA_D_STOP) {
        hca_dpu_stop(d);
        return;
    }
    d->give_up_ns = snic_loop_now(d->dma->loop) + d->opts.salvage_ns;
    d->salvage_from = d->stats.writes;
    hca_engine_step(d, &ev);
    hca_drain(d, HCA_D_SALVAGE);
}

/* ---- Sending ---- */

static int hca_dpu_send(struct snic_hcachelink_dpu *d, const struct hca_message *m)
{
    unsigned char msg[SNIC_HCACHELINK__BYTES];
    hca_encode(msg, m);
    return d->dead || snic_dma_send(d->dma, msg, sizeof(msg)) != 0;
}

static int hca_send_due(struct snic_hcachelink_dpu *d)
{
    struct hca_message m = {.type = d->msg_due == HCA_FAILED ? HCA_FAILED : HCA_DONE,
                            .result = d->msg_result,
                            .a = d->msg_due == HCA_REGION ? d->opts.tasks : 0};
    if (d->msg_due == 0)
        return 1;
    if (!hca_dpu_send(d, &m))
        return 0;
    d->msg_due = 0;
    return 1;
}

/** 1, or 0: no room. */
static int hca_send_refused(struct snic_hcachelink_dpu *d)
{
    struct hca_message m = {.type = HCA_REFUSED, .result = d->refused};
    if (d->refused == d->refused_sent || d->state != HCA_D_RUN)
        return 1;
    if (!hca_dpu_send(d, &m))
        return 0;
    d->refused_sent = d->refused;
    return 1;
}

/** 1: all is sent; 0: no room. */
static int hca_dpu_send_all(struct snic_hcachelink_dpu *d)
{
    if (!hca_send_due(d))
        return 0;
    if (d->alive_due) {
        struct hca_message m = {.type = HCA_ALIVE};
        if (!hca_dpu_send(d, &m))
            return 0;
        d->alive_due = 0;
    }
    if (!hca_send_refused(d))
        return 0;
    while (!snic_queue_empty(&d->answers)) {
        struct hca_task *t = SNIC_CONTAINER(d->answers.first, struct hca_task, node);
        struct hca_message m = {.type = HCA_DONE, .id = t->id, .result = t->result};
        if (!hca_dpu_send(d, &m))
            return 0;
        (void)snic_queue_pop(&d->answers);
        t->type = 0; /* D2 */
        d->tasks_busy--;
    }
    return 1;
}

/* ---- The poller ---- */

/** END: the store takes nothing any more. What is dirty stays with the host. */
static int hca_drain_fails(const struct snic_hcachelink_dpu *d, uint64_t now)
{
    return d->drain_error != 0 && now - snic_min_u64(d->progress_ns, now) > d->opts.salvage_ns;
}

/** Is it time to go on to the next state? */
static int hca_advance(struct snic_hcachelink_dpu *d)
{
    uint64_t now = snic_loop_now(d->dma->loop);
    if (d->failed != 0 && d->state > HCA_D_HEADER && d->state < HCA_D_STOP) {
        if (!d->dead) {
            d->msg_due = HCA_FAILED;
            d->msg_result = d->failed;
        }
        hca_dpu_stop(d);
        return 1;
    }
    if (d->state == HCA_D_DRAIN && d->tasks_busy == 0 && hca_engine_rests(d)) {
        hca_task_end(d);
        return 1;
    }
    if (d->state == HCA_D_DRAIN && d->tasks_busy == 0 && hca_drain_fails(d, now)) {
        d->msg_result = d->drain_error;
        d->ended = 1;
        hca_dpu_stop(d);
        return 1;
    }
    if (d->state == HCA_D_SALVAGE && (hca_engine_rests(d) || now >= d->give_up_ns)) {
        d->stats.salvaged += d->stats.writes - d->salvage_from;
        hca_dpu_stop(d);
        return 1;
    }
    if (d->state != HCA_D_STOP || d->runs_busy != 0 || d->tasks_busy != 0 || d->header_busy != 0)
        return 0;
    hca_engine_close(d);
    if (d->ended && !d->dead)
        d->msg_due = HCA_END;
    d->ended = 0;
    d->state = d->dead ? HCA_D_GONE : HCA_D_NONE;
    d->gone_due = 1;
    return 1;
}

static void hca_dpu_timer(struct snic_hcachelink_dpu *d, int sent)
{
    uint64_t at = SNIC_NEVER;
    if (d->engine != NULL && d->state != HCA_D_STOP)
        at = snic_hcache_control_deadline_ns(d->engine);
    if (d->state == HCA_D_SALVAGE)
        at = snic_min_u64(at, d->give_up_ns);
    if (!sent)
        at = snic_min_u64(at, snic_loop_now(d->dma->loop) + 100000);
    if (at == SNIC_NEVER)
        snic_loop_cancel(d->dma->loop, &d->timer);
    else if (!d->timer.armed || d->timer.deadline_ns != at)
        snic_loop_arm(d->dma->loop, &d->timer, at);
}

int hca_dpu_poll(struct snic_loop_poller *p, int sleeping)
{
    struct snic_hcachelink_dpu *d = SNIC_CONTAINER(p, struct snic_hcachelink_dpu, poller);
    int did, sent;
    if (sleeping)
        return !snic_queue_empty(&d->local); /* what could not be sent has a timer */
    did = hca_engine_pump(d);
    did |= hca_task_pump(d);
    did |= hca_advance(d);
    if (d->refused != 0 && d->state == HCA_D_RUN && snic_hcache_control_idle(d->engine))
        d->refused = 0; /* nothing is left that could show it */
    sent = hca_dpu_send_all(d);
    hca_dpu_timer(d, sent);
    if (did)
        hca_dpu_kick(d);
    if (d->gone_due && sent) {
        d->gone_due = 0;
        if (d->opts.gone != NULL)
            d->opts.gone(d->opts.ctx, d); /* it may be gone */
        return 1;
    }
    return did;
}
