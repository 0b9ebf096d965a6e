/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/**
 * Completion entries. A step takes what is done in a queue, as much as its operations allow:
 * answers and data of all of them, and fenced behind these the entries, which lie together.
 *
 * The places of entries are assigned when the step is made. If it fails (data out went to memory
 * that is not there) its entries are written once more, alone and with a status; if that fails too,
 * the queue can not be written to.
 */
#include "nvmefs/nvmefs_priv.h"

static void nvmefs_post_entry(struct snic_nvmefs_dpu *d, struct nvmefs_queue *q,
                              struct nvmefs_step *s, struct nvmefs_cmd *c, uint16_t cid,
                              uint16_t status, int64_t result)
{
    struct snic_nvmefs_cqe e = {.result = status != SNIC_NVMEFS_STATUS_OK ? 0 : result,
                                .sq_head = (uint16_t)q->head,
                                .queue = s->queue,
                                .cid = cid,
                                .status = status,
                                .phase = (uint8_t)nvmefs_turn(q->cq_tail, q->shift)};
    snic_nvmefs_cqe_encode(s->bytes + (size_t)s->n * SNIC_NVMEFS_CQE_BYTES, &e);
    s->cmds[s->n++] = c;
    q->cq_tail++;
    d->stats.statuses += status != SNIC_NVMEFS_STATUS_OK;
}

/** Operations that write the entries; behind what the step has. */
static void nvmefs_post_ops(struct snic_nvmefs_dpu *d, struct nvmefs_queue *q,
                            struct nvmefs_step *s)
{
    uint8_t fence = s->user.count > 0 ? 2 : 0;
    for (uint32_t i = 0; i < s->n;) {
        uint32_t at = (s->first + i) & (q->depth - 1);
        uint32_t n = (uint32_t)snic_min_u64(s->n - i, q->depth - at);
        nvmefs_step_add(d, s, 2, fence, q->cq + (uint64_t)at * SNIC_NVMEFS_CQE_BYTES,
                        s->bytes + (size_t)i * SNIC_NVMEFS_CQE_BYTES, n * SNIC_NVMEFS_CQE_BYTES);
        d->stats.writes_cqe++;
        s->arms++;
        i += n;
    }
}

struct nvmefs_step *nvmefs_post_begin(struct snic_nvmefs_dpu *d, struct nvmefs_queue *q)
{
    struct nvmefs_step *s = nvmefs_step_take(d, NVMEFS_STEP_POST, nvmefs_queue_number(d, q));
    uint32_t most = (uint32_t)snic_min_u64(SNIC_NVMEFS__POST_MAX, q->depth);
    if (s == NULL)
        return NULL;
    s->first = q->cq_tail;
    while (s->n < most && !snic_link_alone(&q->done)) {
        struct nvmefs_cmd *c = SNIC_CONTAINER(q->done.next, struct nvmefs_cmd, link);
        if (!c->sent) {
            if (nvmefs_out_count(d, c) > SNIC_NVMEFS_STEP_OPS - 2 - s->user.count)
                break; /* the next step has room for it */
            c->phase = NVMEFS_DATA_OUT;
            (void)nvmefs_data_ops(d, c, s, SNIC_NVMEFS_STEP_OPS - 2 - s->user.count);
        }
        snic_link_remove(&c->link);
        c->state = NVMEFS_CMD_POSTING;
        nvmefs_post_entry(d, q, s, c, c->user.req.cid, c->status, c->result);
    }
    while (s->n < most && q->refused_head != q->refused_tail) {
        const struct nvmefs_refusal *r = &q->refused[q->refused_head++ % SNIC_NVMEFS__REFUSED];
        nvmefs_post_entry(d, q, s, NULL, r->cid, r->status, r->result);
    }
    SNIC_ASSERT(s->n > 0);
    nvmefs_post_ops(d, q, s);
    return s;
}

void nvmefs_post_again(struct nvmefs_step *s)
{
    uint32_t n = s->arms;
    for (uint32_t i = 0; i < n; i++) {
        s->user.ops[i] = s->user.ops[s->user.count - n + i];
        s->user.ops[i].flags = 0;
    }
    s->user.count = n;
    s->retried = 1;
    for (uint32_t i = 0; i < s->n; i++) {
        unsigned char *at = s->bytes + (size_t)i * SNIC_NVMEFS_CQE_BYTES;
        struct snic_nvmefs_cqe e;
        if (s->cmds[i] == NULL)
            continue;
        snic_nvmefs_cqe_decode(&e, at);
        if (e.status != SNIC_NVMEFS_STATUS_OK)
            continue;
        e.status = SNIC_NVMEFS_STATUS_TRANSFER;
        e.result = 0;
        snic_nvmefs_cqe_encode(at, &e);
    }
}

void nvmefs_post_done(struct snic_nvmefs_dpu *d, struct nvmefs_step *s, int result)
{
    struct nvmefs_queue *q = &d->queues[s->queue];
    for (uint32_t i = 0; i < s->n; i++) {
        struct nvmefs_cmd *c = s->cmds[i];
        if (c == NULL)
            continue;
        int next = c->has_next;
        nvmefs_cmd_free(d, c);
        if (next && result == 0 && q->state == NVMEFS_QUEUE_OPEN)
            nvmefs_cmd_begin(d, q, c->next);
    }
    if (result != 0) {
        nvmefs_queue_fail(d, q, result);
        return;
    }
    if (q->state != NVMEFS_QUEUE_OPEN)
        return;
    q->unrung = 1;
    if (q->armed) {
        q->armed = q->unrung = 0;
        d->bells |= 1U << s->queue;
    }
}
