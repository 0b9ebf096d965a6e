/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* What a transport lends to the network: trains or sends. One that is free, built, queued, lent. */
#include "ebs/queue_priv.h"

struct snic_node *ebs_pool_take(struct ebs_pool *p)
{
    struct snic_node *n = snic_queue_pop(&p->free);
    p->free_count -= n != NULL;
    return n;
}

void ebs_pool_queue(struct ebs_pool *p, struct snic_node *n)
{
    snic_queue_push(&p->queue, n);
    p->queued++;
}

struct snic_node *ebs_pool_next(struct ebs_pool *p)
{
    struct snic_node *n = snic_queue_pop(&p->queue);
    p->queued -= n != NULL;
    return n;
}

void ebs_pool_free(struct ebs_pool *p, struct snic_node *n)
{
    /* The one that was used last is in the cache. */
    n->next = p->free.first;
    p->free.first = n;
    if (p->free.last == NULL)
        p->free.last = n;
    p->free_count++;
}

uint32_t ebs_pool_out(const struct ebs_pool *p)
{
    return p->max - p->free_count - p->queued;
}

static int ebs_pool_list_ok(const struct snic_queue *q, uint32_t count)
{
    uint32_t n = 0;
    for (const struct snic_node *i = q->first; i != NULL && n <= count; i = i->next)
        n++;
    return n == count;
}

int ebs_pool_check(const struct ebs_pool *p, const uint32_t states[EBS_LENT_STATES])
{
    return ebs_pool_list_ok(&p->free, p->free_count) && ebs_pool_list_ok(&p->queue, p->queued) &&
                   states[EBS_LENT_FREE] == p->free_count && states[EBS_LENT_QUEUED] == p->queued
               ? 0
               : SNIC_ECORRUPT;
}
