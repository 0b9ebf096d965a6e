/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * Requests on their way through the store, of either transport. A group is up to
 * SNIC_VOLUME__GROUP writes of one segment that arrived together: one write of the store, and each
 * is answered by its own block. A write is of one block, ZERO and TRIM, too, with either transport.
 */
#include "volume/volume_priv.h"

/* ---- The pools ---- */

void volume_ops_init(struct snic_volume_server *s, struct volume_ops *p, struct volume_op *op,
                     uint32_t count, unsigned char *data)
{
    p->op = op;
    p->count = count;
    p->out = 0;
    p->free = SNIC_VOLUME__NIL;
    for (uint32_t i = count; i-- > 0;) {
        memset(&op[i], 0, offsetof(struct volume_op, block));
        op[i].s = s;
        if (data != NULL)
            op[i].data = data + (size_t)i * SNIC_VOLUME__GROUP * SNIC_EBS_BLOCK_BYTES;
        op[i].next = p->free;
        p->free = i;
    }
}

static struct volume_op *request_take(struct volume_ops *p)
{
    if (p->free == SNIC_VOLUME__NIL)
        return NULL;
    struct volume_op *op = &p->op[p->free];
    p->free = op->next;
    p->out++;
    op->used = 1;
    op->count = 0;
    op->trains = 0;
    op->waits_ns = 0;
    memset(&op->req, 0, sizeof(op->req));
    return op;
}

static void request_free(struct volume_ops *p, struct volume_op *op)
{
    SNIC_ASSERT(op->used && p->out > 0);
    op->used = 0;
    op->next = p->free;
    p->free = (uint32_t)(op - p->op);
    p->out--;
}

/* ---- Answers ---- */

static void request_answer(struct snic_volume_server *s, const struct volume_req *q,
                           uint32_t status)
{
    if (s->closing)
        return; /* V3 */
    if (status == SNIC_EBS_BUSY)
        s->stats.busy++;
    q->front->answer(s, q, status);
    volume_server_soon(s);
}

static uint32_t request_error(struct snic_volume_server *s, int result)
{
    switch (result) {
    case SNIC_ENOENT:
        s->stats.no_segment++;
        return SNIC_EBS_NO_SEGMENT;
    case SNIC_ESTALE:
        s->stats.stale++;
        return SNIC_EBS_STALE_GEN;
    case SNIC_EAGAIN:
        return SNIC_EBS_BUSY;
    default:
        s->stats.failed++;
        return SNIC_EBS_IO;
    }
}

static uint32_t request_status(struct snic_volume_server *s, const struct volume_op *op,
                               const struct snic_segments_block *b)
{
    static const uint8_t statuses[] = {[SNIC_SEGMENTS_DONE] = SNIC_EBS_OK,
                                       [SNIC_SEGMENTS_DUP] = SNIC_EBS_OK,
                                       [SNIC_SEGMENTS_SUPERSEDED] = SNIC_EBS_SUPERSEDED,
                                       [SNIC_SEGMENTS_FENCED] = SNIC_EBS_FENCED,
                                       [SNIC_SEGMENTS_BAD_CRC] = SNIC_EBS_BAD_CRC,
                                       [SNIC_SEGMENTS_DAMAGED] = SNIC_EBS_DAMAGED};
    int r = op->req.result;
    if (r != 0 && (op->req.refused == 0 || (r != SNIC_ESTALE && r != SNIC_ECORRUPT)))
        return request_error(s, r);
    return b->status < SNIC_COUNTOF(statuses) ? statuses[b->status] : SNIC_EBS_IO;
}

/* Governed: 1 if it is of a lease that no client can have yet. A fence is one above the version
 * that it ends, which may be the last of its lease. */
static int request_unissued(const struct snic_volume_server *s, const struct volume_req *q,
                            const struct snic_segments_stat *g)
{
    uint64_t wver = q->r.wver;
    if ((s->o.flags & SNIC_VOLUME_GOVERNED) == 0)
        return 0;
    if (q->r.op == SNIC_EBS_DO_READ || wver == 0)
        wver = 1;
    return q->r.seg_gen >> 16 > g->gen >> 16 ||
           snic_ebs_id_epoch(wver - (q->r.op == SNIC_EBS_DO_FENCE)) > g->gen >> 16;
}

/* Governed: 1 if the control plane has not yet set its generation here: requests with it are not
 * refused for ever, only until it has. */
static int request_ahead(const struct snic_volume_server *s, const struct volume_req *q,
                         const struct snic_segments_stat *g)
{
    return (s->o.flags & SNIC_VOLUME_GOVERNED) != 0 && q->r.seg_gen > g->gen;
}

/* The client's rights on the request's disk. Checked before the store is consulted, so that a
 * refusal is the same whether or not the segment exists. */
static uint32_t request_rights(struct snic_volume_server *s, const struct volume_req *q)
{
    if (s->o.token_key != NULL)
        return volume_grants_rights(s, q);
    if (s->o.secret_of == NULL)
        return SNIC_VOLUME_MAY_READ | SNIC_VOLUME_MAY_WRITE;
    if (s->e.rights == NULL)
        return 0;
    return s->e.rights(s->ctx, q->r.account, q->r.vd_id); /* there is SOLAR only */
}

/* An enum snic_ebs_status. */
static uint32_t request_forbidden(struct snic_volume_server *s, const struct volume_req *q)
{
    if (s->o.token_key != NULL)
        return volume_grants_check(s, q);
    uint32_t needs = q->r.op == SNIC_EBS_DO_READ ? SNIC_VOLUME_MAY_READ : SNIC_VOLUME_MAY_WRITE;
    return (request_rights(s, q) & needs) != 0 ? SNIC_EBS_OK : SNIC_EBS_FORBIDDEN;
}

/* OK if the request fits the segment and its present generation; else why not. */
static uint32_t request_refused(struct snic_volume_server *s, const struct volume_req *q)
{
    struct snic_segments_stat g;
    uint32_t lease = q->r.seg_gen >> 16;
    if (q->r.seg_id == SNIC_VOLUME_META || snic_segments_find(s->store, q->r.seg_id, &g) != 0) {
        s->stats.no_segment++;
        return SNIC_EBS_NO_SEGMENT;
    }
    uint32_t most = q->r.op == SNIC_EBS_DO_WRITE ? 1 : SNIC_EBS_SEGMENT_BLOCKS;
    if ((s->o.secret_of != NULL || s->o.token_key != NULL) && q->r.vd_id != g.vd_id) {
        s->stats.no_segment++; /* do not disclose that it is another disk's */
        return SNIC_EBS_NO_SEGMENT;
    }
    if (q->r.vd_id != g.vd_id ||
        (q->r.op != SNIC_EBS_DO_FENCE &&
         (q->r.lba != g.base_lba + q->r.block || q->r.count == 0 || q->r.count > most ||
          q->r.block + (uint32_t)q->r.count > SNIC_EBS_SEGMENT_BLOCKS ||
          (q->r.kind == SNIC_EBS_STATES && (q->r.op != SNIC_EBS_DO_READ || q->r.need != 1))))) {
        s->stats.invalid++;
        return SNIC_EBS_INVALID;
    }
    if (q->r.op == SNIC_EBS_DO_WRITE && snic_ebs_id_epoch(q->r.wver) < lease)
        lease = snic_ebs_id_epoch(q->r.wver);
    if (lease < g.gen >> 16) {
        s->stats.no_lease++;
        return SNIC_EBS_NO_LEASE;
    }
    if (q->r.op == SNIC_EBS_DO_FENCE && request_ahead(s, q, &g)) {
        s->stats.ahead++;
        return SNIC_EBS_GEN_AHEAD;
    }
    if (request_unissued(s, q, &g)) {
        s->stats.no_lease++;
        return SNIC_EBS_NO_LEASE;
    }
    if (q->r.seg_gen < g.gen || request_ahead(s, q, &g)) {
        s->stats.stale++;
        return SNIC_EBS_STALE_GEN;
    }
    return SNIC_EBS_OK;
}

/* A server without a control plane learns of a later lease from requests only: the first request
 * that has one fences those before it, in the store, before it is answered; but a client that may
 * only read fences none. */
static void request_raise(struct snic_volume_server *s, const struct volume_req *q,
                          struct snic_segments_req *req)
{
    uint32_t gen = q->r.seg_gen;
    uint64_t least = snic_ebs_id(gen >> 16, 0);
    struct snic_segments_stat g;
    if ((s->o.flags & SNIC_VOLUME_GOVERNED) != 0 ||
        snic_segments_find(s->store, req->seg_id, &g) != 0 || gen >> 16 <= g.gen >> 16 ||
        (request_rights(s, q) & SNIC_VOLUME_MAY_WRITE) == 0)
        return;
    req->flags |= SNIC_SEGMENTS_RAISE;
    req->min_wver = snic_max_u64(req->min_wver, least);
}

/* ---- Writes ---- */

static void request_group_done(struct snic_segments_req *req)
{
    struct volume_op *op = SNIC_CONTAINER(req, struct volume_op, req);
    struct snic_volume_server *s = op->s;
    for (uint32_t i = 0; i < op->count; i++)
        request_answer(s, &op->q[i], request_status(s, op, &op->block[i]));
    request_free(&s->writes, op);
}

void volume_request_flush(struct snic_volume_server *s)
{
    struct volume_op *op = s->group;
    if (op == NULL)
        return;
    s->group = NULL;
    op->req.op = SNIC_SEGMENTS_WRITE;
    op->req.done = request_group_done;
    op->req.seg_id = op->q[0].r.seg_id;
    op->req.gen = op->q[0].r.seg_gen;
    op->req.flags = SNIC_SEGMENTS_CRC_CHECKED; /* the engine has compared it */
    op->req.blocks = op->block;
    op->req.count = (uint16_t)op->count;
    request_raise(s, &op->q[0], &op->req);
    s->stats.groups++;
    int r = snic_segments_submit(s->store, &op->req);
    if (r == 0)
        return;
    for (uint32_t i = 0; i < op->count; i++)
        request_answer(s, &op->q[i], request_error(s, r));
    request_free(&s->writes, op);
}

static uint8_t request_kind(const struct volume_req *q)
{
    if (q->r.kind == SNIC_EBS_DATA && q->r.data != NULL)
        return SNIC_SEGMENTS_DATA;
    return q->r.kind == SNIC_EBS_TRIM ? SNIC_SEGMENTS_TRIM : SNIC_SEGMENTS_ZERO;
}

static int request_joins(const struct volume_op *op, const struct volume_req *q, uint32_t most)
{
    if (op->count >= most || op->q[0].r.seg_id != q->r.seg_id || op->q[0].r.seg_gen != q->r.seg_gen)
        return 0;
    for (uint32_t i = 0; i < op->count; i++)
        if (op->block[i].block == q->r.block)
            return 0;
    return 1;
}

static void request_block(struct snic_volume_server *s, const struct volume_req *q)
{
    uint32_t most = s->list_max < SNIC_VOLUME__GROUP ? s->list_max : SNIC_VOLUME__GROUP;
    if (s->group != NULL && !request_joins(s->group, q, most))
        volume_request_flush(s);
    if (s->group == NULL)
        s->group = request_take(&s->writes);
    struct volume_op *op = s->group;
    if (op == NULL) {
        request_answer(s, q, SNIC_EBS_BUSY);
        return;
    }
    struct snic_segments_block *b = &op->block[op->count];
    memset(b, 0, sizeof(*b));
    b->wver = q->r.wver;
    b->kind = request_kind(q);
    if (b->kind == SNIC_SEGMENTS_DATA) {
        b->data = (void *)(uintptr_t)q->r.data;
        if (s->opened_data != NULL)
            b->data = memcpy(s->opened_data + (size_t)op->count * SNIC_EBS_BLOCK_BYTES, q->r.data,
                             SNIC_EBS_BLOCK_BYTES);
        b->data_crc = q->r.data_crc;
    }
    b->block_tag = q->r.block_tag;
    b->block = q->r.block;
    op->q[op->count++] = *q;
    s->stats.writes++;
}

/* ---- Fences ---- */

static void request_fence_done(struct snic_segments_req *req)
{
    struct volume_op *op = SNIC_CONTAINER(req, struct volume_op, req);
    struct snic_volume_server *s = op->s;
    request_answer(s, &op->q[0], req->result == 0 ? SNIC_EBS_OK : request_error(s, req->result));
    request_free(&s->writes, op);
}

static void request_fence(struct snic_volume_server *s, const struct volume_req *q)
{
    struct volume_op *op = request_take(&s->writes);
    int r = SNIC_EAGAIN;
    if (op != NULL) {
        op->q[0] = *q;
        op->count = 1;
        op->req.op = SNIC_SEGMENTS_FENCE;
        op->req.done = request_fence_done;
        op->req.seg_id = q->r.seg_id;
        op->req.gen = q->r.seg_gen;
        op->req.min_wver = q->r.wver;
        request_raise(s, q, &op->req);
        r = snic_segments_submit(s->store, &op->req);
        if (r != 0)
            request_free(&s->writes, op);
    }
    if (r != 0)
        request_answer(s, q, request_error(s, r));
}

/* ---- Reads ---- */

static void request_read_show(struct volume_op *op)
{
    struct snic_volume_server *s = op->s;
    struct snic_ebs_read_block blocks[SNIC_VOLUME__GROUP];
    if (s->closing) {
        request_free(&s->reads, op);
        return;
    }
    for (uint32_t i = 0; i < op->req.count; i++) {
        const struct snic_segments_block *b = &op->block[i];
        struct snic_ebs_read_block *to = &blocks[i];
        memset(to, 0, sizeof(*to));
        to->status = request_status(s, op, b);
        s->stats.damaged += to->status == SNIC_EBS_DAMAGED;
        to->wver = b->wver;
        to->data_crc = b->data_crc;
        to->block_tag = b->block_tag;
        if (b->wver != 0 && b->kind == SNIC_SEGMENTS_DATA)
            to->data = b->data;
    }
    const struct volume_req *q = &op->q[0];
    int r = q->front->read_done(s, q, blocks, (uint64_t)(op - s->reads.op) + 1);
    if (r == SNIC_EAGAIN) {
        s->stats.read_waits += op->waits_ns == 0;
        if (op->waits_ns == 0)
            op->waits_ns = volume_server_now(s);
        snic_queue_push(&s->for_train, &op->node);
        return;
    }
    SNIC_ASSERT(r >= 0);
    op->trains = (uint32_t)r;
    if (r == 0)
        request_free(&s->reads, op);
    volume_server_soon(s);
}

SNIC_STATIC_ASSERT((int)SNIC_EBS_STATE_DATA == 1 + (int)SNIC_SEGMENTS_DATA &&
                       (int)SNIC_EBS_STATE_ZERO == 1 + (int)SNIC_SEGMENTS_ZERO &&
                       (int)SNIC_EBS_STATE_TRIM == 1 + (int)SNIC_SEGMENTS_TRIM,
                   "states are kinds, and 1");

/* The first block was read, which fences as a read does; the answer is the states of all blocks. */
static void request_read_states(struct volume_op *op)
{
    struct snic_segments_block *b = &op->block[0];
    memset(op->data, 0, SNIC_EBS_BLOCK_BYTES);
    op->req.result = snic_segments_states(op->s->store, op->req.seg_id, op->data);
    op->req.refused = 0;
    b->status = SNIC_SEGMENTS_DONE;
    b->kind = SNIC_SEGMENTS_DATA;
    b->wver = snic_max_u64(b->wver, 1);
    b->block_tag = 0;
    b->data = op->data;
    b->data_crc = snic_crc32c(0, op->data, SNIC_EBS_BLOCK_BYTES);
}

static void request_read_done(struct snic_segments_req *req)
{
    struct volume_op *op = SNIC_CONTAINER(req, struct volume_op, req);
    struct snic_volume_server *s = op->s;
    int read = req->result == 0 || (req->refused != 0 && req->result == SNIC_ECORRUPT);
    if (read && op->q[0].r.kind == SNIC_EBS_STATES)
        request_read_states(op);
    if (req->result == 0 || (req->refused != 0 && req->result == SNIC_ECORRUPT)) {
        request_read_show(op);
        return;
    }
    request_answer(s, &op->q[0], request_error(s, req->result));
    request_free(&s->reads, op);
}

void volume_request_returned(struct snic_volume_server *s, uint64_t cookie)
{
    if (cookie != 0) {
        struct volume_op *op = &s->reads.op[cookie - 1];
        SNIC_ASSERT(cookie <= s->reads.count && op->used && op->trains > 0);
        if (--op->trains == 0)
            request_free(&s->reads, op); /* V4 */
    }
    struct snic_queue q = s->for_train;
    memset(&s->for_train, 0, sizeof(s->for_train));
    for (struct snic_node *n = snic_queue_pop(&q); n != NULL; n = snic_queue_pop(&q))
        request_read_show(SNIC_CONTAINER(n, struct volume_op, node));
}

/* A client that does not receive what it has read must not block reads of others: when all places
 * are taken, the read that has waited for too long is answered BUSY, to be retried. */
static struct volume_op *request_read_place(struct snic_volume_server *s)
{
    if (s->reads.free == SNIC_VOLUME__NIL && !snic_queue_empty(&s->for_train)) {
        struct volume_op *op = SNIC_CONTAINER(s->for_train.first, struct volume_op, node);
        if (volume_server_now(s) - op->waits_ns >= SNIC_VOLUME__PATIENCE_NS) {
            (void)snic_queue_pop(&s->for_train);
            request_answer(s, &op->q[0], SNIC_EBS_BUSY);
            request_free(&s->reads, op);
        }
    }
    return request_take(&s->reads);
}

static void request_read(struct snic_volume_server *s, const struct volume_req *q)
{
    struct volume_op *op = request_read_place(s);
    uint32_t n = 0;
    if (op == NULL) {
        request_answer(s, q, SNIC_EBS_BUSY);
        return;
    }
    op->q[0] = *q;
    op->count = 1;
    for (uint64_t left = q->r.need; left != 0 && n < SNIC_VOLUME__GROUP; left &= left - 1, n++) {
        struct snic_segments_block *b = &op->block[n];
        memset(b, 0, sizeof(*b));
        b->block = (uint16_t)(q->r.block + (uint32_t)__builtin_ctzll(left));
        b->data = op->data + (size_t)n * SNIC_EBS_BLOCK_BYTES;
    }
    s->stats.reads += n;
    op->req.op = SNIC_SEGMENTS_READ;
    op->req.done = request_read_done;
    op->req.seg_id = q->r.seg_id;
    op->req.gen = q->r.seg_gen;
    op->req.blocks = op->block;
    op->req.count = (uint16_t)n;
    request_raise(s, q, &op->req);
    int r = snic_segments_submit(s->store, &op->req);
    if (r == 0)
        return;
    request_answer(s, q, request_error(s, r));
    request_free(&s->reads, op);
}

void volume_request(struct snic_volume_server *s, const struct volume_req *q)
{
    if (q->r.op == SNIC_EBS_DO_TOKEN) {
        request_answer(s, q, volume_grants_show(s, q));
        return;
    }
    uint32_t status = request_forbidden(s, q);
    s->stats.forbidden += status == SNIC_EBS_FORBIDDEN;
    s->stats.no_token += status == SNIC_EBS_NO_TOKEN;
    s->stats.no_lease += status == SNIC_EBS_NO_LEASE;
    if (status != SNIC_EBS_OK) {
        request_answer(s, q, status);
        return;
    }
    status = request_refused(s, q);
    /* Writes accepted before must not be refused by a generation that this request may raise. */
    if (s->group != NULL && s->group->q[0].r.seg_id == q->r.seg_id &&
        s->group->q[0].r.seg_gen != q->r.seg_gen)
        volume_request_flush(s);
    if (status != SNIC_EBS_OK)
        request_answer(s, q, status);
    else if (q->r.op == SNIC_EBS_DO_READ)
        request_read(s, q);
    else if (q->r.op == SNIC_EBS_DO_FENCE)
        request_fence(s, q);
    else
        request_block(s, q);
}
