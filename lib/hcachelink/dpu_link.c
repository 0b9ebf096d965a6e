/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* The DPU's half and its link: the region's offer, messages, doorbells, death, answers. */
#include "snicstore/hcachelink.h"

#include "hcachelink/dpu_priv.h"

/* ---- A region is offered ---- */

static void hcachelink_offer_answer(struct snic_hcachelink_dpu *d, int result)
{
    d->msg_due = HCACHELINK_REGION;
    d->msg_result = result;
    d->state = result == 0 ? HCACHELINK_D_RUN : HCACHELINK_D_NONE;
    hcachelink_dpu_kick(d);
}

static void hcachelink_header_done(struct snic_dma_batch *b)
{
    struct snic_hcachelink_dpu *d = SNIC_CONTAINER(b, struct snic_hcachelink_dpu, fetch_header);
    struct snic_hcache_event begin = {.kind = SNIC_HCACHE_EV_NONE};
    int r = b->result;
    d->header_busy = 0;
    if (d->state != HCACHELINK_D_HEADER) {
        hcachelink_dpu_kick(d);
        return;
    }
    if (r == 0)
        r = snic_hcache_geometry(d->header, d->bytes, &d->info);
    if (r == 0)
        r = hcachelink_engine_open(d);
    hcachelink_offer_answer(d, r);
    if (r == 0)
        hcachelink_engine_step(d, &begin);
}

static void hcachelink_offer(struct snic_hcachelink_dpu *d, const struct hcachelink_message *m)
{
    struct snic_dma_batch *b = &d->fetch_header;
    if (d->state != HCACHELINK_D_NONE || d->msg_due != 0) {
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
        (struct snic_dma_batch){.done = hcachelink_header_done, .ops = &d->header_op, .count = 1};
    if ((d->dma->caps & SNIC_DMA_CAP_ATOMIC) == 0 || snic_dma_submit(d->dma, &b, 1) != 1) {
        hcachelink_offer_answer(d, SNIC_ENOTSUP);
        return;
    }
    d->header_busy = 1;
    d->state = HCACHELINK_D_HEADER;
}

/* ---- Messages ---- */

/** Flush all, and rest. */
static void hcachelink_drain(struct snic_hcachelink_dpu *d, uint8_t state)
{
    struct snic_hcache_event ev = {.kind = SNIC_HCACHE_EV_KICK};
    struct snic_hcache_control_stats s;
    d->state = state;
    d->drain_error = 0;
    d->progress_ns = snic_loop_now(d->dma->loop);
    /* one look may be half done */
    snic_hcache_control_get_stats(d->engine, &s);
    d->look_due = s.looks + 2;
    hcachelink_engine_step(d, &ev);
}

void snic_hcachelink_dpu_recv(void *ctx, const void *msg, uint32_t size)
{
    struct snic_hcachelink_dpu *d = ctx;
    struct hcachelink_message m;
    int r = hcachelink_decode(&m, msg, size);
    if (r != 0 || d->dead) {
        d->stats.refused++;
        return;
    }
    if (m.type == HCACHELINK_REGION) {
        hcachelink_offer(d, &m);
    } else if (m.type == HCACHELINK_READ || m.type == HCACHELINK_FSYNC ||
               m.type == HCACHELINK_TRUNCATE) {
        hcachelink_task_begin(d, &m);
    } else if (m.type == HCACHELINK_END && d->state == HCACHELINK_D_RUN) {
        hcachelink_drain(d, HCACHELINK_D_DRAIN);
    } else if (m.type == HCACHELINK_AHEAD && d->state == HCACHELINK_D_RUN) {
        struct snic_hcache_event ev = {.kind = SNIC_HCACHE_EV_AHEAD, .ino = m.ino, .lpn = m.a};
        hcachelink_engine_step(d, &ev);
    } else if (m.type == HCACHELINK_ALIVE &&
               (d->state == HCACHELINK_D_RUN || d->state == HCACHELINK_D_DRAIN)) {
        d->alive_due = 1;
    } else if (m.type == HCACHELINK_MISSED && d->state == HCACHELINK_D_RUN) {
        struct snic_hcache_event ev = {.kind = SNIC_HCACHE_EV_MISS,
                                       .ino = m.ino,
                                       .lpn = m.a,
                                       .count = (uint32_t)snic_min_u64(m.b, UINT32_MAX)};
        hcachelink_engine_step(d, &ev);
    } else {
        d->stats.refused++;
    }
    hcachelink_dpu_kick(d);
}

void snic_hcachelink_dpu_doorbell(void *ctx, uint32_t id)
{
    struct snic_hcachelink_dpu *d = ctx;
    struct snic_hcache_event ev = {.kind = SNIC_HCACHE_EV_KICK};
    if (id == d->opts.bell && d->engine != NULL && d->state != HCACHELINK_D_STOP)
        hcachelink_engine_step(d, &ev);
}

void snic_hcachelink_dpu_death(void *ctx, enum snic_dma_death cause)
{
    struct snic_hcachelink_dpu *d = ctx;
    struct snic_hcache_event ev = {.kind = SNIC_HCACHE_EV_HOST_DEAD};
    (void)cause;
    d->dead = 1;
    d->msg_due = 0;
    if (d->mapped == NULL || d->failed != 0 || d->state == HCACHELINK_D_STOP) {
        hcachelink_dpu_stop(d);
        return;
    }
    d->give_up_ns = snic_loop_now(d->dma->loop) + d->opts.salvage_ns;
    d->salvage_from = d->stats.writes;
    hcachelink_engine_step(d, &ev);
    hcachelink_drain(d, HCACHELINK_D_SALVAGE);
}

/* ---- Sending ---- */

static int hcachelink_dpu_send(struct snic_hcachelink_dpu *d, const struct hcachelink_message *m)
{
    unsigned char msg[SNIC_HCACHELINK__BYTES];
    hcachelink_encode(msg, m);
    return d->dead || snic_dma_send(d->dma, msg, sizeof(msg)) != 0;
}

static int hcachelink_send_due(struct snic_hcachelink_dpu *d)
{
    struct hcachelink_message m = {.type = d->msg_due == HCACHELINK_FAILED ? HCACHELINK_FAILED
                                                                           : HCACHELINK_DONE,
                                   .result = d->msg_result,
                                   .a = d->msg_due == HCACHELINK_REGION ? d->opts.tasks : 0};
    if (d->msg_due == 0)
        return 1;
    if (!hcachelink_dpu_send(d, &m))
        return 0;
    d->msg_due = 0;
    return 1;
}

/** 1, or 0: no room. */
static int hcachelink_send_refused(struct snic_hcachelink_dpu *d)
{
    struct hcachelink_message m = {.type = HCACHELINK_REFUSED, .result = d->refused};
    if (d->refused == d->refused_sent || d->state != HCACHELINK_D_RUN)
        return 1;
    if (!hcachelink_dpu_send(d, &m))
        return 0;
    d->refused_sent = d->refused;
    return 1;
}

/** 1: all is sent; 0: no room. */
static int hcachelink_dpu_send_all(struct snic_hcachelink_dpu *d)
{
    if (!hcachelink_send_due(d))
        return 0;
    if (d->alive_due) {
        struct hcachelink_message m = {.type = HCACHELINK_ALIVE};
        if (!hcachelink_dpu_send(d, &m))
            return 0;
        d->alive_due = 0;
    }
    if (!hcachelink_send_refused(d))
        return 0;
    while (!snic_queue_empty(&d->answers)) {
        struct hcachelink_task *t = SNIC_CONTAINER(d->answers.first, struct hcachelink_task, node);
        struct hcachelink_message m = {.type = HCACHELINK_DONE, .id = t->id, .result = t->result};
        if (!hcachelink_dpu_send(d, &m))
            return 0;
        (void)snic_queue_pop(&d->answers);
        t->type = 0; /* D2 */
        d->tasks_busy--;
    }
    return 1;
}

/* ---- The poller ---- */

/** END: the store takes nothing any more. What is dirty stays with the host. */
static int hcachelink_drain_fails(const struct snic_hcachelink_dpu *d, uint64_t now)
{
    return d->drain_error != 0 && now - snic_min_u64(d->progress_ns, now) > d->opts.salvage_ns;
}

/** Is it time to go on to the next state? */
static int hcachelink_advance(struct snic_hcachelink_dpu *d)
{
    uint64_t now = snic_loop_now(d->dma->loop);
    if (d->failed != 0 && d->state > HCACHELINK_D_HEADER && d->state < HCACHELINK_D_STOP) {
        if (!d->dead) {
            d->msg_due = HCACHELINK_FAILED;
            d->msg_result = d->failed;
        }
        hcachelink_dpu_stop(d);
        return 1;
    }
    if (d->state == HCACHELINK_D_DRAIN && d->tasks_busy == 0 && hcachelink_engine_rests(d)) {
        hcachelink_task_end(d);
        return 1;
    }
    if (d->state == HCACHELINK_D_DRAIN && d->tasks_busy == 0 && hcachelink_drain_fails(d, now)) {
        d->msg_result = d->drain_error;
        d->ended = 1;
        hcachelink_dpu_stop(d);
        return 1;
    }
    if (d->state == HCACHELINK_D_SALVAGE && (hcachelink_engine_rests(d) || now >= d->give_up_ns)) {
        d->stats.salvaged += d->stats.writes - d->salvage_from;
        hcachelink_dpu_stop(d);
        return 1;
    }
    if (d->state != HCACHELINK_D_STOP || d->runs_busy != 0 || d->tasks_busy != 0 ||
        d->header_busy != 0)
        return 0;
    hcachelink_engine_close(d);
    if (d->ended && !d->dead)
        d->msg_due = HCACHELINK_END;
    d->ended = 0;
    d->state = d->dead ? HCACHELINK_D_GONE : HCACHELINK_D_NONE;
    d->gone_due = 1;
    return 1;
}

static void hcachelink_dpu_timer(struct snic_hcachelink_dpu *d, int sent)
{
    uint64_t at = SNIC_NEVER;
    if (d->engine != NULL && d->state != HCACHELINK_D_STOP)
        at = snic_hcache_control_deadline_ns(d->engine);
    if (d->state == HCACHELINK_D_SALVAGE)
        at = snic_min_u64(at, d->give_up_ns);
    if (!sent)
        at = snic_min_u64(at, snic_loop_now(d->dma->loop) + 100000);
    if (at == SNIC_NEVER)
        snic_loop_cancel(d->dma->loop, &d->timer);
    else if (!d->timer.armed || d->timer.deadline_ns != at)
        snic_loop_arm(d->dma->loop, &d->timer, at);
}

int hcachelink_dpu_poll(struct snic_loop_poller *p, int sleeping)
{
    struct snic_hcachelink_dpu *d = SNIC_CONTAINER(p, struct snic_hcachelink_dpu, poller);
    int did, sent;
    if (sleeping)
        return !snic_queue_empty(&d->local); /* what could not be sent has a timer */
    did = hcachelink_engine_pump(d);
    did |= hcachelink_task_pump(d);
    did |= hcachelink_advance(d);
    if (d->refused != 0 && d->state == HCACHELINK_D_RUN && snic_hcache_control_idle(d->engine))
        d->refused = 0; /* nothing is left that could show it */
    sent = hcachelink_dpu_send_all(d);
    hcachelink_dpu_timer(d, sent);
    if (did)
        hcachelink_dpu_kick(d);
    if (d->gone_due && sent) {
        d->gone_due = 0;
        if (d->opts.gone != NULL)
            d->opts.gone(d->opts.ctx, d); /* it may be gone */
        return 1;
    }
    return did;
}
