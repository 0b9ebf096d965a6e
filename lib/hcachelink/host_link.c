/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* The host's half and its link: messages, wake-ups, silence, the end. */
#include "snicstore/hcachelink.h"

#include "hcachelink/host_priv.h"

static void hcachelink_finished(struct snic_hcachelink_host *h, struct snic_hcachelink_req *req)
{
    snic_queue_push(&h->finished, &req->node);
    hcachelink_host_kick(h);
}

/* ---- Sending ---- */

static int hcachelink_send_link(struct snic_hcachelink_host *h)
{
    struct hcachelink_message m = {.type = h->msg_due};
    if (h->msg_due == HCACHELINK_REGION) {
        m.a = h->key;
        m.b = h->region_bytes;
        m.c = h->epoch;
    }
    if (!hcachelink_host_send(h, &m))
        return 0;
    h->msg_due = 0;
    return 1;
}

static uint32_t hcachelink_slot_free(const struct snic_hcachelink_host *h)
{
    uint32_t i = 0;
    while (i < SNIC_HCACHELINK__TASKS_MAX && h->slots[i].req != NULL)
        i++;
    SNIC_ASSERT(i < SNIC_HCACHELINK__TASKS_MAX); /* the credit is no more */
    return i;
}

/** The next request's message: 1, or 0 no room. */
static int hcachelink_send_next(struct snic_hcachelink_host *h, struct snic_queue *q)
{
    struct snic_hcachelink_req *req = hcachelink_req_of(q->first);
    uint32_t i = hcachelink_slot_free(h);
    struct hcachelink_message m;
    hcachelink_req_message(req, &m);
    m.id = (uint64_t)(h->slots[i].generation + 1) << 16 | i;
    if (!hcachelink_host_send(h, &m))
        return 0;
    (void)snic_queue_pop(q);
    h->slots[i].generation++;
    h->slots[i].req = req;
    h->taken++;
    SNIC_ASSERT(h->taken <= h->credit);
    if (req->step == HCACHELINK_READ)
        SNIC_ASSERT(req->page.held != 0); /* L2 */
    h->fsyncs += req->step == HCACHELINK_FSYNC;
    req->slot = i;
    req->since_ns = snic_loop_now(h->dma->loop);
    h->stats.fills += req->step == HCACHELINK_READ;
    return 1;
}

void hcachelink_host_send_all(struct snic_hcachelink_host *h)
{
    int room = 1;
    if (h->msg_due != 0 && (h->msg_due == HCACHELINK_REGION || hcachelink_host_quiet(h)))
        room = hcachelink_send_link(h);
    while (room && !snic_queue_empty(&h->sending) && h->taken < h->credit)
        room = hcachelink_send_next(h, &h->sending);
    while (room && !snic_queue_empty(&h->syncing) && h->taken < h->credit &&
           h->fsyncs + 1 < h->credit) /* L3 */
        room = hcachelink_send_next(h, &h->syncing);
    if ((!room || !snic_queue_empty(&h->waiting)) && !h->retry.armed)
        snic_loop_arm(h->dma->loop, &h->retry, snic_loop_now(h->dma->loop) + h->opts.retry_ns);
    if (!h->tick.armed && (h->state == HCACHELINK_OPENING || h->state == HCACHELINK_ENDING ||
                           !hcachelink_host_quiet(h) || !snic_queue_empty(&h->waiting)))
        snic_loop_arm(h->dma->loop, &h->tick,
                      snic_loop_now(h->dma->loop) + h->opts.timeout_ns / 8 + 1);
}

/* ---- The end ---- */

void snic_hcachelink_host_end(struct snic_hcachelink_host *h)
{
    if (h->state != HCACHELINK_OPENING && h->state != HCACHELINK_OPEN)
        return;
    SNIC_ASSERT(hcachelink_host_quiet(h) && snic_queue_empty(&h->waiting));
    if (h->state == HCACHELINK_OPENING) { /* what is dirty already is flushed, too */
        h->ending = 1;
        return;
    }
    h->state = HCACHELINK_ENDING;
    h->since_ns = snic_loop_now(h->dma->loop);
    h->msg_due = HCACHELINK_END;
    hcachelink_host_send_all(h);
    hcachelink_host_kick(h);
}

static void hcachelink_abort_all(struct snic_hcachelink_host *h, struct snic_queue *q, int reason)
{
    struct snic_node *n;
    while ((n = snic_queue_pop(q)) != NULL) {
        hcachelink_req_abort(h, hcachelink_req_of(n), reason);
        hcachelink_finished(h, hcachelink_req_of(n));
    }
}

void hcachelink_host_over(struct snic_hcachelink_host *h, int reason)
{
    if (h->state == HCACHELINK_OVER || h->state == HCACHELINK_NONE)
        return;
    SNIC_ASSERT(!h->closed_due);
    h->state = HCACHELINK_OVER; /* L4 */
    h->reason = reason;
    h->msg_due = 0;
    h->ending = 0;
    h->opened_due = 0;
    for (uint32_t i = 0; i < SNIC_HCACHELINK__TASKS_MAX; i++) {
        struct snic_hcachelink_req *req = h->slots[i].req;
        if (req == NULL)
            continue;
        h->slots[i].req = NULL;
        hcachelink_req_abort(h, req, reason);
        hcachelink_finished(h, req);
    }
    h->taken = 0;
    h->fsyncs = 0;
    hcachelink_abort_all(h, &h->sending, reason);
    hcachelink_abort_all(h, &h->syncing, reason);
    hcachelink_abort_all(h, &h->waiting, reason);
    snic_loop_cancel(h->dma->loop, &h->retry);
    snic_loop_cancel(h->dma->loop, &h->tick);
    snic_dma_unregister(h->dma, h->key);
    h->closed_due = 1;
    hcachelink_host_kick(h);
}

/* ---- Time ---- */

void hcachelink_host_retry(struct snic_timer *t, uint64_t now_ns)
{
    struct snic_hcachelink_host *h = SNIC_CONTAINER(t, struct snic_hcachelink_host, retry);
    (void)now_ns;
    h->retry_due = 1;
    hcachelink_host_kick(h);
}

static int hcachelink_late(const struct snic_hcachelink_host *h, uint64_t since_ns, uint64_t now_ns)
{
    return now_ns - snic_min_u64(since_ns, now_ns) > h->opts.timeout_ns;
}

/** Nothing has been received since the oldest of @p q was queued. */
static int hcachelink_queue_late(const struct snic_hcachelink_host *h, const struct snic_queue *q,
                                 uint64_t now_ns)
{
    return !snic_queue_empty(q) &&
           hcachelink_late(h, snic_max_u64(hcachelink_req_of(q->first)->since_ns, h->received_ns),
                           now_ns);
}

/** The DPU is silent, though it owes an answer. */
static int hcachelink_silent(const struct snic_hcachelink_host *h, uint64_t now_ns)
{
    int late = h->state == HCACHELINK_OPENING && hcachelink_late(h, h->since_ns, now_ns);
    late |= h->state == HCACHELINK_ENDING &&
            hcachelink_late(h, snic_max_u64(h->since_ns, h->received_ns), now_ns);
    for (uint32_t i = 0; i < SNIC_HCACHELINK__TASKS_MAX; i++)
        late |= h->slots[i].req != NULL &&
                hcachelink_late(h, snic_max_u64(h->slots[i].req->since_ns, h->received_ns), now_ns);
    return late || hcachelink_queue_late(h, &h->sending, now_ns) ||
           hcachelink_queue_late(h, &h->syncing, now_ns);
}

void hcachelink_host_tick(struct snic_timer *t, uint64_t now_ns)
{
    struct snic_hcachelink_host *h = SNIC_CONTAINER(t, struct snic_hcachelink_host, tick);
    struct snic_queue waiting = h->waiting;
    struct snic_node *n;
    struct hcachelink_message alive = {.type = HCACHELINK_ALIVE};
    if (hcachelink_silent(h, now_ns)) { /* L2: what it may still write is not ours any more */
        hcachelink_host_over(h, SNIC_ETIMEDOUT);
        return;
    }
    if (h->state == HCACHELINK_ENDING ||
        h->taken != 0) /* what it does may take it longer than that */
        (void)hcachelink_host_send(h, &alive);
    h->waiting = (struct snic_queue){NULL, NULL};
    while ((n = snic_queue_pop(&waiting)) != NULL) {
        struct snic_hcachelink_req *req = hcachelink_req_of(n);
        if (!hcachelink_late(h, req->since_ns, now_ns)) {
            snic_queue_push(&h->waiting, n);
            continue;
        }
        hcachelink_req_abort(h, req, SNIC_ETIMEDOUT);
        hcachelink_finished(h, req);
    }
    hcachelink_host_send_all(h); /* the next tick */
}

/* ---- The poller ---- */

/** Did something; -1: the closed event, after which the half may be gone. */
static int hcachelink_deliver(struct snic_hcachelink_host *h)
{
    struct snic_queue now = h->finished;
    struct snic_node *n;
    int did = 0;
    h->finished = (struct snic_queue){NULL, NULL};
    for (; (n = snic_queue_pop(&now)) != NULL; did++) {
        struct snic_hcachelink_req *req = hcachelink_req_of(n);
        req->done(req);
    }
    if (h->opened_due) {
        h->opened_due = 0;
        did++;
        if (h->opts.events.opened != NULL)
            h->opts.events.opened(h->opts.events.ctx, h);
    }
    if (h->closed_due && snic_queue_empty(&h->finished)) {
        h->closed_due = 0;
        if (h->opts.events.closed != NULL)
            h->opts.events.closed(h->opts.events.ctx, h, h->reason);
        return -1;
    }
    return did;
}

static void hcachelink_try_again(struct snic_hcachelink_host *h)
{
    struct snic_queue now = h->waiting;
    struct snic_node *n;
    h->retry_due = 0;
    h->waiting = (struct snic_queue){NULL, NULL};
    while ((n = snic_queue_pop(&now)) != NULL)
        if (hcachelink_req_run(h, hcachelink_req_of(n)))
            hcachelink_finished(h, hcachelink_req_of(n));
}

int hcachelink_host_poll(struct snic_loop_poller *p, int sleeping)
{
    struct snic_hcachelink_host *h = SNIC_CONTAINER(p, struct snic_hcachelink_host, poller);
    int did = 0;
    int r;
    if (sleeping)
        return !snic_queue_empty(&h->finished) || h->closed_due || h->opened_due ||
               (h->retry_due && !snic_queue_empty(&h->waiting));
    if (h->retry_due && h->state != HCACHELINK_OVER) {
        did = !snic_queue_empty(&h->waiting);
        hcachelink_try_again(h);
        hcachelink_host_send_all(h);
    }
    r = hcachelink_deliver(h);
    if (r >= 0 && h->state != HCACHELINK_OVER)
        hcachelink_host_send_all(h);
    return did || r != 0;
}

/* ---- What we hear ---- */

static void hcachelink_opened(struct snic_hcachelink_host *h, const struct hcachelink_message *m)
{
    if (m->result < 0) {
        h->keep = 1;
        hcachelink_host_over(h, m->result);
        return;
    }
    if (m->a < 2 || m->a > SNIC_HCACHELINK__TASKS_MAX) {
        hcachelink_host_over(h, SNIC_EPROTO);
        return;
    }
    h->credit = (uint32_t)snic_min_u64(m->a, h->opts.requests_max);
    h->state = HCACHELINK_OPEN;
    h->opened_due = !h->ending;
    if (h->ending) {
        h->ending = 0;
        snic_hcachelink_host_end(h);
    }
}

static void hcachelink_done(struct snic_hcachelink_host *h, const struct hcachelink_message *m)
{
    uint64_t i = m->id & 0xffff;
    struct snic_hcachelink_req *req;
    if (m->id == 0 && h->state == HCACHELINK_OPENING && h->msg_due == 0) {
        hcachelink_opened(h, m);
        return;
    }
    if (m->id == 0 && h->state == HCACHELINK_ENDING && h->msg_due == 0) {
        h->keep = m->result < 0;
        hcachelink_host_over(h, m->result);
        return;
    }
    if (i >= SNIC_HCACHELINK__TASKS_MAX || h->slots[i].req == NULL ||
        m->id >> 16 != h->slots[i].generation) {
        hcachelink_host_over(h, SNIC_EPROTO);
        return;
    }
    req = h->slots[i].req;
    h->slots[i].req = NULL;
    h->taken--;
    h->fsyncs -= req->step == HCACHELINK_FSYNC;
    h->retry_due = 1;
    if (hcachelink_req_answered(h, req, m->result))
        hcachelink_finished(h, req);
}

static void hcachelink_refused(struct snic_hcachelink_host *h, int32_t result)
{
    h->refused = result;
    h->retry_due = 1; /* L7 */
    h->stats.refusals += result < 0;
}

void snic_hcachelink_host_recv(void *ctx, const void *msg, uint32_t size)
{
    struct snic_hcachelink_host *h = ctx;
    struct hcachelink_message m;
    int r = hcachelink_decode(&m, msg, size);
    if (h->state == HCACHELINK_OVER || h->state == HCACHELINK_NONE)
        return;
    if (r == SNIC_ENOENT) {
        h->stats.strays++;
        return;
    }
    h->received_ns = snic_loop_now(h->dma->loop);
    if (r == 0 && m.type == HCACHELINK_DONE)
        hcachelink_done(h, &m);
    else if (r == 0 && m.type == HCACHELINK_ALIVE)
        return;
    else if (r == 0 && m.type == HCACHELINK_REFUSED)
        hcachelink_refused(h, m.result);
    else if (r == 0 && m.type == HCACHELINK_FAILED && m.result < 0)
        hcachelink_host_over(h, m.result);
    else
        hcachelink_host_over(h, SNIC_EPROTO);
    if (h->state != HCACHELINK_OVER)
        hcachelink_host_send_all(h);
    hcachelink_host_kick(h);
}

void snic_hcachelink_host_doorbell(void *ctx, uint32_t id)
{
    struct snic_hcachelink_host *h = ctx;
    if (id != h->opts.bell)
        return;
    h->stats.wakes++;
    h->retry_due = 1;
    hcachelink_host_kick(h);
}

void snic_hcachelink_host_death(void *ctx, enum snic_dma_death cause)
{
    (void)cause;
    hcachelink_host_over(ctx, SNIC_EPEERDEAD);
}
