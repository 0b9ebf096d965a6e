/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* Jobs: what each puts together, and the ring of actions to be handed out. */
#include "snicstore/hcache.h"

#include "hcache/control_priv.h"

#include <string.h>

struct hcache_job *hcache_job_start(struct snic_hcache_control *c, enum hcache_job_kind kind,
                                    uint64_t bucket)
{
    struct hcache_job *j;

    SNIC_ASSERT(bucket < c->g.buckets);
    if (c->jobs_busy == c->jobs_max)
        return NULL;
    j = &c->jobs[c->free_jobs[c->jobs_max - 1 - c->jobs_busy]];
    c->jobs_busy++;
    SNIC_ASSERT(j->kind == SNIC_HCACHE__JOB_NONE);
    j->kind = (uint8_t)kind;
    j->bucket = bucket;
    j->op_count = 0;
    j->tries = 0;
    j->result = 0;
    j->probe = 0;
    j->generation++;
    return j;
}

void hcache_job_end(struct snic_hcache_control *c, struct hcache_job *j)
{
    SNIC_ASSERT(j->kind != SNIC_HCACHE__JOB_NONE && c->jobs_busy > 0);
    SNIC_ASSERT(j->emit == 0 && j->waits == 0); /* else an event would come for the next job */
    j->kind = SNIC_HCACHE__JOB_NONE;
    c->jobs_busy--;
    c->free_jobs[c->jobs_max - 1 - c->jobs_busy] = j->index;
}

void hcache_job_out(struct snic_hcache_control *c, uint32_t what)
{
    uint32_t size = c->jobs_max + SNIC_HCACHE__OUT_EXTRA;

    SNIC_ASSERT(c->out_count < size);
    c->out[(c->out_head + c->out_count++) % size] = what;
}

void hcache_job_emit(struct snic_hcache_control *c, struct hcache_job *j, uint32_t action,
                     uint32_t step)
{
    static const uint8_t event[] = {0, SNIC_HCACHE_EV_DMA, SNIC_HCACHE_EV_FLUSHED,
                                    SNIC_HCACHE_EV_FETCHED};

    SNIC_ASSERT(action >= SNIC_HCACHE_ACT_DMA && action <= SNIC_HCACHE_ACT_FETCH);
    SNIC_ASSERT(j->emit == 0 && j->waits == 0);
    SNIC_ASSERT(action != SNIC_HCACHE_ACT_DMA || j->op_count > 0);
    j->emit = (uint8_t)action;
    j->waits = event[action];
    j->step = (uint8_t)step;
    hcache_job_out(c, j->index);
}

struct snic_hcache_op *hcache_job_op(struct hcache_job *j, uint32_t kind, uint32_t flags,
                                     uint64_t offset, void *local, uint64_t bytes)
{
    struct snic_hcache_op *op;

    SNIC_ASSERT(j->op_count < SNIC_HCACHE_OPS_MAX);
    op = &j->ops[j->op_count];
    memset(op, 0, sizeof(*op));
    op->kind = kind;
    op->flags = j->op_count != 0 ? flags : 0;
    op->offset = offset;
    op->local = local;
    op->bytes = bytes;
    j->op_count++;
    return op;
}

void hcache_job_cas(struct hcache_job *j, uint32_t flags, uint64_t offset, uint64_t compare,
                    uint64_t operand)
{
    struct snic_hcache_op *op = hcache_job_op(j, SNIC_HCACHE_OP_CAS, flags, offset, NULL, 8);

    op->compare = compare;
    op->operand = operand;
}

void hcache_job_add(struct hcache_job *j, uint32_t flags, uint64_t offset, uint64_t operand)
{
    hcache_job_op(j, SNIC_HCACHE_OP_ADD, flags, offset, NULL, 8)->operand = operand;
}

void hcache_progress(struct snic_hcache_control *c)
{
    if (!c->waiting || c->wake_queued)
        return;
    c->waiting = 0;
    c->wake_queued = 1;
    hcache_job_out(c, SNIC_HCACHE__OUT_WAKE);
}

void hcache_later(struct snic_hcache_control *c, uint64_t bucket)
{
    if (c->later.set == 0)
        c->later_ns = c->now_ns + c->retry_ns;
    hcache_bit_set(&c->later, bucket);
}
