/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * Requests into parts and back: Q2, Q4, Q5 of qos_priv.h.
 *
 * A part needs no list of its own: it is a run of whole pieces, which the caller's array holds
 * side by side, or bytes of one piece. So the last part before a large piece may be short.
 */
#include "qos/qos_priv.h"

/* ---- Cutting ---- */

/** The extent of the next part of a READ or WRITE; the cursor moves on. */
static void part_cut(const struct qos *q, struct qos_slot *slot, struct snic_io_req *out)
{
    const struct snic_io_req *req = slot->req;
    const struct snic_iov *v = req->iov != NULL ? req->iov : &req->buf;
    uint32_t max = q->opts.part_bytes;
    uint32_t first = slot->piece;
    uint32_t n = 0;
    uint64_t size = 0;
    if (req->length <= max) { /* the most common: as it is */
        out->length = req->length;
        return;
    }
    if (slot->piece_at == 0) {
        uint32_t count = req->iov != NULL ? req->iov_count : 1;
        while (first + n < count && v[first + n].size <= max - size)
            size += v[first + n++].size;
    }
    if (n > 0) {
        out->iov = req->iov != NULL ? req->iov + first : NULL;
        out->iov_count = req->iov != NULL ? n : 0;
        out->buf = v[first];
        slot->piece += n;
    } else {
        size = snic_min_u64(v[first].size - slot->piece_at, max);
        out->iov = NULL;
        out->iov_count = 0;
        out->buf.base = (unsigned char *)v[first].base + slot->piece_at;
        out->buf.size = (size_t)size;
        slot->piece_at += size;
        if (slot->piece_at == v[first].size) {
            slot->piece++;
            slot->piece_at = 0;
        }
    }
    out->length = size;
}

static void part_fill(const struct qos *q, struct qos_slot *slot, struct qos_part *part)
{
    const struct snic_io_req *req = slot->req;
    struct snic_io_req *out = &part->req; /* its done is as set at open; results are set later */
    out->op = req->op;
    out->priority = req->priority;
    out->flags = req->flags;
    out->tenant = req->tenant;
    out->offset = req->offset + slot->next;
    out->buf = req->buf;
    out->iov = req->iov;
    out->iov_count = req->iov_count;
    out->region = req->region;
    if (req->op == SNIC_IO_READ || req->op == SNIC_IO_WRITE)
        part_cut(q, slot, out);
    else if (req->op == SNIC_IO_ZERO) /* a device without such a command writes them */
        out->length = snic_min_u64(req->length - slot->next, q->opts.part_bytes);
    else
        out->length = req->length;
    slot->next += out->length;
}

/* ---- The pool ---- */

/** A part for one more piece of the request, or NULL. No tenant takes more than is left. */
static struct qos_part *part_take(struct qos *q, struct qos_slot *slot)
{
    struct qos_tenant *t = &q->tenants[slot->tenant];
    if (slot->first.state == QOS_PART_FREE)
        return &slot->first;
    if (slot->count >= SNIC_QOS__WINDOW || t->pool >= q->pool_free)
        return NULL;
    q->pool_free--;
    t->pool++;
    return SNIC_CONTAINER(snic_queue_pop(&q->pool), struct qos_part, node);
}

static void part_put(struct qos *q, struct qos_part *part)
{
    part->state = QOS_PART_FREE;
    if (part == &part->slot->first)
        return;
    q->tenants[part->slot->tenant].pool--;
    q->pool_free++;
    snic_queue_push(&q->pool, &part->node);
}

static void part_out(struct qos_slot *slot, struct qos_part *part, enum qos_part_state state)
{
    part->slot = slot;
    part->state = state;
    snic_link_append(&slot->parts, &part->link);
    slot->count++;
    slot->made++;
}

/* ---- In ---- */

static void part_submit(struct qos *q, struct qos_slot *slot, struct qos_part *part)
{
    struct snic_gimbal_io *g = &part->gio;
    int r;
    memset(g, 0, sizeof(*g));
    g->tenant = slot->tenant;
    g->size = (uint32_t)snic_min_u64(part->req.length, q->opts.part_bytes);
    g->size = g->size > SNIC_QOS__PAGE ? g->size : SNIC_QOS__PAGE;
    g->op = slot->req->op == SNIC_IO_READ ? SNIC_GIMBAL_READ : SNIC_GIMBAL_WRITE;
    g->priority = (uint8_t)snic_min_u64(slot->req->priority, SNIC_GIMBAL_PRIORITIES - 1);
    r = snic_gimbal_submit(q->gimbal, g, q->now_ns);
    if (r == SNIC_ENOENT) { /* the tenant was removed meanwhile */
        g->tenant = 0;
        r = snic_gimbal_submit(q->gimbal, g, q->now_ns);
    }
    SNIC_ASSERT(r == 0); /* sizes and the limit of the queues are ours */
}

void qos_feed(struct qos *q, struct qos_slot *slot)
{
    while (slot->next < slot->req->length && slot->stop == UINT64_MAX && slot->cancelled == 0) {
        struct qos_part *part = part_take(q, slot);
        if (part == NULL)
            return;
        part_fill(q, slot, part);
        part_out(slot, part, QOS_PART_QUEUED);
        part_submit(q, slot, part);
    }
}

void qos_feed_flush(struct qos *q, struct qos_slot *slot)
{
    struct qos_part *part = &slot->first;
    part_fill(q, slot, part);
    part_out(slot, part, QOS_PART_READY);
    snic_queue_push(&q->ready, &part->node);
    q->ready_count++;
}

/* ---- Out ---- */

void qos_part_end(struct qos *q, struct qos_part *part, int64_t result, int32_t os_error)
{
    struct qos_slot *slot = part->slot;
    uint64_t at = part->req.offset - slot->req->offset;
    int flush = slot->req->op == SNIC_IO_FLUSH;
    int whole = flush ? result >= 0 : result == (int64_t)part->req.length;
    if (!whole && at < slot->stop) { /* Q5 */
        slot->stop = at;
        slot->stop_result = result < 0 ? result : (int64_t)at + result;
        slot->os_error = os_error;
    }
    snic_link_remove(&part->link);
    slot->count--;
    part_put(q, part);
}

/* A part on `ready`: out of there. Rare, so the queue is walked. */
static void part_unready(struct qos *q, const struct qos_part *part)
{
    struct snic_queue kept = {NULL, NULL};
    struct snic_node *n;
    while ((n = snic_queue_pop(&q->ready)) != NULL)
        if (n != &part->node)
            snic_queue_push(&kept, n);
    q->ready = kept;
    q->ready_count--;
}

void qos_withdraw(struct qos *q, struct qos_slot *slot, int error)
{
    struct snic_link *l = slot->parts.next;
    if (slot->cancelled == 0)
        slot->cancelled = error;
    while (l != &slot->parts) {
        struct qos_part *part = SNIC_CONTAINER(l, struct qos_part, link);
        int back = 1;
        l = l->next;
        if (part->state == QOS_PART_QUEUED) {
            back = snic_gimbal_cancel(q->gimbal, &part->gio, q->now_ns) == 0;
            SNIC_ASSERT(back); /* Q2 */
        } else if (part->state == QOS_PART_READY) {
            part_unready(q, part);
            if (slot->req->op != SNIC_IO_FLUSH)
                snic_gimbal_complete(q->gimbal, &part->gio, SNIC_GIMBAL_UNTIMED, q->now_ns);
        } else if (part->state == QOS_PART_HELD) {
            snic_gimbal_complete(q->gimbal, &part->gio, SNIC_GIMBAL_UNTIMED, q->now_ns);
        } else {
            continue;
        }
        qos_part_end(q, part, error, 0);
    }
}

void qos_leaving_queued(struct qos *q, struct qos_slot *slot)
{
    if (slot->tenant == SNIC_QOS__NONE || q->tenants[slot->tenant].state != QOS_TENANT_LEAVING)
        return;
    for (struct snic_link *l = slot->parts.next; l != &slot->parts; l = l->next) {
        struct qos_part *part = SNIC_CONTAINER(l, struct qos_part, link);
        if (part->state != QOS_PART_QUEUED)
            continue;
        int r = snic_gimbal_cancel(q->gimbal, &part->gio, q->now_ns);
        SNIC_ASSERT(r == 0); /* Q2 */
        (void)r;
        part_submit(q, slot, part);
    }
}

int qos_over(const struct qos_slot *slot)
{
    return slot->count == 0 &&
           (slot->next >= slot->req->length || slot->stop != UINT64_MAX || slot->cancelled != 0);
}

int64_t qos_result(const struct qos_slot *slot)
{
    uint64_t stop = slot->stop;
    int64_t result = slot->stop_result;
    if (slot->req->op == SNIC_IO_FLUSH && stop == UINT64_MAX)
        return 0;
    if (stop == UINT64_MAX && slot->next == slot->req->length)
        return (int64_t)slot->next;
    if (stop == UINT64_MAX) { /* cancelled with all that was out whole */
        stop = slot->next;
        result = slot->cancelled;
    }
    return result == SNIC_ECANCELED && stop > 0 ? (int64_t)stop : result;
}

/* ---- Check ---- */

static int part_check_slot(const struct qos *q, const struct qos_slot *slot, uint32_t *sent,
                           uint32_t *pool)
{
    uint32_t n = 0;
    for (const struct snic_link *l = slot->parts.next; l != &slot->parts; l = l->next) {
        const struct qos_part *part = SNIC_CONTAINER(l, const struct qos_part, link);
        if (part->slot != slot || part->state == QOS_PART_FREE)
            return SNIC_ECORRUPT;
        *sent += part->state == QOS_PART_SENT;
        *pool += part != &slot->first;
        if (slot->granted == NULL ? part->state == QOS_PART_HELD
                                  : part->state == QOS_PART_READY || part->state == QOS_PART_SENT)
            return SNIC_ECORRUPT; /* Q9 */
        n++;
    }
    if (n != slot->count || (slot->state != QOS_SLOT_ACTIVE && n > 0))
        return SNIC_ECORRUPT; /* Q1 */
    if (slot->state == QOS_SLOT_ACTIVE && n == 0)
        return SNIC_ECORRUPT; /* Q4 */
    return slot->tenant != SNIC_QOS__NONE && slot->tenant > q->opts.tenants_max ? SNIC_ECORRUPT : 0;
}

int qos_parts_check(const struct qos *q)
{
    uint32_t requests = 0;
    uint32_t sent = 0;
    uint32_t pool = 0;
    uint32_t ready = 0;
    uint32_t had = 0;
    for (uint32_t i = 0; i < q->opts.depth; i++) {
        const struct qos_slot *slot = &q->slots[i];
        if (slot->state == QOS_SLOT_FREE)
            continue;
        requests++;
        if (part_check_slot(q, slot, &sent, &pool) != 0)
            return SNIC_ECORRUPT;
    }
    for (const struct snic_node *n = q->ready.first; n != NULL; n = n->next)
        ready += SNIC_CONTAINER(n, const struct qos_part, node)->state == QOS_PART_READY;
    for (uint32_t i = 0; i <= q->opts.tenants_max; i++)
        had += q->tenants[i].pool;
    if (had != pool || had + q->pool_free != q->opts.parts)
        return SNIC_ECORRUPT;
    for (const struct snic_node *n = q->pool.first; n != NULL; n = n->next)
        pool += SNIC_CONTAINER(n, const struct qos_part, node)->state == QOS_PART_FREE;
    return requests == q->requests && sent == q->sent && ready == q->ready_count &&
                   pool == q->opts.parts
               ? 0
               : SNIC_ECORRUPT;
}
