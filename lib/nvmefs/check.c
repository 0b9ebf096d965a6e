/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* Both halves, between calls: every invariant of nvmefs_priv.h that can be seen from inside. */
#include "nvmefs/nvmefs_priv.h"

int snic_nvmefs_host_check(const struct snic_nvmefs_host *h)
{
    uint32_t depth = h->opts.depth;
    uint32_t sent = 0;
    uint32_t wanted = 0;
    uint32_t lost = 0;
    if (h->tail - h->head > depth || h->abort_cid != depth - 1)
        return SNIC_ECORRUPT; /* H1 */
    for (uint32_t i = 0; i < depth; i++) {
        const struct nvmefs_slot *s = &h->slots[i];
        sent += s->state == NVMEFS_SLOT_SENT;
        wanted += s->wanted;
        if (i < depth - 1 && (s->state == NVMEFS_SLOT_SENT) != (s->req != NULL))
            return SNIC_ECORRUPT;
    }
    for (const struct snic_node *n = h->lost.first; n != NULL; n = n->next)
        lost++;
    if (h->slots[depth - 1].state != (h->aborting ? NVMEFS_SLOT_SENT : NVMEFS_SLOT_FREE))
        return SNIC_ECORRUPT;
    if (h->free_count + sent - h->aborting != depth - 1 || wanted != h->wanted ||
        h->outstanding != sent - h->aborting + lost)
        return SNIC_ECORRUPT; /* H2, H3 */
    for (uint32_t i = 0; i < h->free_count; i++) {
        if (h->free[i] >= depth - 1 || h->slots[h->free[i]].state != NVMEFS_SLOT_FREE)
            return SNIC_ECORRUPT;
        for (uint32_t k = 0; k < i && depth <= 64; k++)
            if (h->free[k] == h->free[i])
                return SNIC_ECORRUPT;
    }
    return 0;
}

/** Members of a list; UINT32_MAX if one has another state. */
static uint32_t nvmefs_check_list(const struct snic_link *list, enum nvmefs_cmd_state state)
{
    uint32_t n = 0;
    for (const struct snic_link *l = list->next; l != list; l = l->next, n++) {
        const struct nvmefs_cmd *c = SNIC_CONTAINER(l, struct nvmefs_cmd, link);
        if (c->state != state || l->next->prev != l)
            return UINT32_MAX;
    }
    return n;
}

struct nvmefs_count {
    uint32_t states[NVMEFS_CMD_POSTING + 1];
    uint32_t chunks;
};

static int nvmefs_check_queue(const struct snic_nvmefs_dpu *d, const struct nvmefs_queue *q,
                              struct nvmefs_count *all)
{
    uint32_t busy = 0;
    uint32_t done = 0;
    uint32_t nexts = 0;
    for (uint32_t i = 0; i < d->opts.depth_max; i++) {
        const struct nvmefs_cmd *c = &q->cmds[i];
        if (c->state > NVMEFS_CMD_POSTING)
            return SNIC_ECORRUPT;
        all->states[c->state]++;
        all->chunks += c->chunk_count;
        busy += c->state != NVMEFS_CMD_FREE;
        done += c->state == NVMEFS_CMD_DONE;
        nexts += c->has_next;
        if (c->state == NVMEFS_CMD_FREE &&
            (c->chunk_count != 0 || c->has_next || !snic_link_alone(&c->link) ||
             !snic_link_alone(&c->cancel_link)))
            return SNIC_ECORRUPT;
        if (i >= q->depth && c->state != NVMEFS_CMD_FREE)
            return SNIC_ECORRUPT;
        for (uint32_t k = 0; k < c->chunk_count; k++)
            if (c->chunks[k] >= d->opts.chunks)
                return SNIC_ECORRUPT;
    }
    if (busy != q->busy || nexts != q->nexts ||
        done != nvmefs_check_list(&q->done, NVMEFS_CMD_DONE) ||
        q->refused_tail - q->refused_head + nexts > SNIC_NVMEFS__REFUSED)
        return SNIC_ECORRUPT; /* D1 */
    if (q->state == NVMEFS_QUEUE_CLOSED && (busy != 0 || q->steps != 0))
        return SNIC_ECORRUPT;
    if (q->looking && q->steps == 0)
        return SNIC_ECORRUPT;
    return 0;
}

int snic_nvmefs_dpu_check(const struct snic_nvmefs_dpu *d)
{
    struct nvmefs_count all;
    uint32_t free_steps = 0;
    uint32_t steps = 0;
    memset(&all, 0, sizeof(all));
    for (uint32_t i = 0; i < d->opts.queues_max; i++) {
        if (nvmefs_check_queue(d, &d->queues[i], &all) != 0)
            return SNIC_ECORRUPT;
        steps += d->queues[i].steps;
    }
    for (const struct snic_node *n = d->free_steps.first; n != NULL; n = n->next)
        free_steps++;
    if (free_steps + d->steps_out != d->opts.steps || steps != d->steps_out)
        return SNIC_ECORRUPT;
    if (all.states[NVMEFS_CMD_READY] != nvmefs_check_list(&d->ready, NVMEFS_CMD_READY) ||
        all.states[NVMEFS_CMD_STARVED] != nvmefs_check_list(&d->starved, NVMEFS_CMD_STARVED) ||
        all.states[NVMEFS_CMD_REQUEST] != nvmefs_check_list(&d->requests, NVMEFS_CMD_REQUEST) ||
        all.states[NVMEFS_CMD_USER] != d->with_user)
        return SNIC_ECORRUPT; /* D1 */
    if (all.chunks + d->free_count != d->opts.chunks)
        return SNIC_ECORRUPT; /* D2 */
    return 0;
}
