/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/**
 * What the DPU's half does next, as its parts put it together: steps, windows of the host's memory,
 * completions of refused entries, and the end of a queue that is deleted.
 */
#include "nvmefs/nvmefs_priv.h"

struct nvmefs_step *nvmefs_step_take(struct snic_nvmefs_dpu *d, enum nvmefs_step_kind kind,
                                     uint32_t queue)
{
    SNIC_ASSERT(queue < d->opts.queues_max);
    struct snic_node *n = snic_queue_pop(&d->free_steps);
    if (n == NULL)
        return NULL;
    struct nvmefs_step *s = SNIC_CONTAINER(n, struct nvmefs_step, user.node);
    s->user.count = 0;
    s->kind = (uint8_t)kind;
    s->queue = (uint16_t)queue;
    s->retried = 0;
    s->n = 0;
    s->arms = 0;
    d->steps_out++;
    d->queues[queue].steps++;
    return s;
}

int nvmefs_window_holds(const struct snic_nvmefs_dpu *d, uint64_t address, uint64_t size)
{
    uint64_t w = address >> 48;
    uint64_t offset = address & SNIC_NVMEFS__OFFSET_MASK;
    if (w >= SNIC_NVMEFS_WINDOWS_MAX)
        return 0;
    return size <= d->windows[w].size && offset <= d->windows[w].size - size;
}

void nvmefs_step_add(struct snic_nvmefs_dpu *d, struct nvmefs_step *s, uint8_t kind, uint8_t flags,
                     uint64_t address, void *local, uint32_t length)
{
    SNIC_ASSERT(s->user.count < SNIC_NVMEFS_STEP_OPS);
    s->user.ops[s->user.count++] =
        (struct snic_nvmefs_op){.kind = kind,
                                .flags = flags,
                                .length = length,
                                .key = d->windows[address >> 48].key,
                                .offset = address & SNIC_NVMEFS__OFFSET_MASK,
                                .local = local};
}

void nvmefs_refuse(struct nvmefs_queue *q, uint16_t cid, uint32_t status, int64_t result)
{
    SNIC_ASSERT(q->refused_tail - q->refused_head <
                SNIC_NVMEFS__REFUSED); /* a look reserves them */
    q->refused[q->refused_tail++ % SNIC_NVMEFS__REFUSED] =
        (struct nvmefs_refusal){.result = result, .cid = cid, .status = (uint16_t)status};
}

void nvmefs_queue_settle(struct snic_nvmefs_dpu *d, struct nvmefs_queue *q)
{
    if (q->state != NVMEFS_QUEUE_DELETING || q->busy != 0 || q->steps != 0)
        return;
    q->state = NVMEFS_QUEUE_CLOSED;
    q->ctl_due = d->detached ? 0 : SNIC_NVMEFS_CTL_DELETED;
    q->error = 0;
}
