/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/**
 * Reading submission entries, and when to be rung for them.
 *
 * A look reads a few entries at the head; those whose lap bit is this round's are new. The host
 * writes that bit's word last, so with reads in ascending order a new one is whole; without, the
 * entries are read a second time behind the first.
 *
 * Being rung costs the host a system call, an empty look costs a read. So the host rings until a
 * look finds a queue that is busy. Then sq_event is set to NEVER, and looks follow each other; when
 * they find nothing it is set to ALWAYS, and the same step, fenced behind that, looks once more:
 * the entries of a host that did not see ALWAYS are found by this look.
 */
#include "nvmefs/nvmefs_priv.h"

#define SNIC_NVMEFS__BUSY 4U /* commands that make a queue busy, where looks are not cheap */
#define SNIC_NVMEFS__EMPTIES 8U

struct nvmefs_step *nvmefs_look_begin(struct snic_nvmefs_dpu *d, struct nvmefs_queue *q)
{
    if (!q->want_look || q->looking)
        return NULL;
    uint32_t at = q->head & (q->depth - 1);
    SNIC_ASSERT(q->refused_tail - q->refused_head + q->nexts <= SNIC_NVMEFS__REFUSED);
    uint32_t room = SNIC_NVMEFS__REFUSED - (q->refused_tail - q->refused_head) - q->nexts;
    uint32_t n = (uint32_t)snic_min_u64(snic_max_u64(2, q->found * UINT64_C(2)), d->opts.look_max);
    n = (uint32_t)snic_min_u64(n, q->depth + 1 - at); /* the copy of entry 0 is behind the last */
    if (n > room)
        return NULL;
    struct nvmefs_step *s = nvmefs_step_take(d, NVMEFS_STEP_LOOK, nvmefs_queue_number(d, q));
    if (s == NULL)
        return NULL;
    q->want_look = 0;
    q->looking = 1;
    s->first = q->head;
    s->n = n;
    if (q->turn != 0) {
        uint32_t event = q->turn == 1 ? SNIC_NVMEFS_RING_ALWAYS : SNIC_NVMEFS_RING_NEVER;
        snic_put_le32(&s->event, event);
        s->arms = 1 + event;
        nvmefs_step_add(d, s, 2, 0, q->bells + SNIC_NVMEFS_OFF_SQ_EVENT, &s->event, 4);
        q->turn = 0;
        d->stats.arms += event == SNIC_NVMEFS_RING_ALWAYS;
        d->stats.disarms += event == SNIC_NVMEFS_RING_NEVER;
    }
    uint64_t from = q->sq + (uint64_t)at * SNIC_NVMEFS_SQE_BYTES;
    uint8_t fence = s->user.count > 0 ? 2 : 0;
    nvmefs_step_add(d, s, 1, fence, from, s->bytes, n * SNIC_NVMEFS_SQE_BYTES);
    if ((d->opts.flags & SNIC_NVMEFS_DPU_ORDERED) == 0)
        nvmefs_step_add(d, s, 1, 2, from, s->second, n * SNIC_NVMEFS_SQE_BYTES);
    d->stats.looks++;
    return s;
}

/** What the outcome of a look means for the next one. */
static void nvmefs_look_next(struct snic_nvmefs_dpu *d, struct nvmefs_queue *q, uint32_t found,
                             uint32_t n)
{
    int eager = (d->opts.flags & SNIC_NVMEFS_DPU_EAGER) != 0;
    q->empties = found > 0 ? 0 : q->empties + 1;
    if (found > 0)
        q->found = found;
    else
        d->stats.looks_empty++;
    if (found == n)
        q->want_look = 1;
    if (!q->never) {
        if (found > 0 && (eager || q->busy >= SNIC_NVMEFS__BUSY)) {
            q->turn = 2;
            q->want_look = 1;
        }
        return;
    }
    if (eager)
        return; /* tick and sleep decide when */
    q->want_look = 1;
    if (q->empties >= SNIC_NVMEFS__EMPTIES || (q->empties >= 2 && q->busy < 2))
        q->turn = 1;
}

void nvmefs_look_done(struct snic_nvmefs_dpu *d, struct nvmefs_step *s, int result)
{
    struct nvmefs_queue *q = &d->queues[s->queue];
    const unsigned char *entries =
        (d->opts.flags & SNIC_NVMEFS_DPU_ORDERED) != 0 ? s->bytes : s->second;
    uint32_t found = 0;
    q->looking = 0;
    if (q->state != NVMEFS_QUEUE_OPEN)
        return;
    if (result != 0) {
        nvmefs_queue_fail(d, q, result);
        return;
    }
    if (s->arms != 0)
        q->never = s->arms - 1 == SNIC_NVMEFS_RING_NEVER;
    for (; found < s->n; found++) {
        size_t at = (size_t)found * SNIC_NVMEFS_SQE_BYTES;
        uint32_t lap = snic_get_le32(s->bytes + at) >> 11 & 1;
        if (lap != nvmefs_turn(q->head, q->shift))
            break;
        q->head++;
        nvmefs_cmd_begin(d, q, entries + at);
    }
    nvmefs_look_next(d, q, found, s->n);
}
