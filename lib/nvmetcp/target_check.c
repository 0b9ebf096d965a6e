/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * All invariants of a target at once; the numbers are those of nvmetcp_priv.h and target_priv.h.
 */
#include "nvmetcp/target_priv.h"

static uint32_t nvmetcp_queue_count(const struct snic_queue *q, uint32_t max)
{
    uint32_t n = 0;
    for (const struct snic_node *i = q->first; i != NULL && n <= max; i = i->next)
        n++;
    return n;
}

static int nvmetcp_check_slots(const struct snic_nvmetcp_target *t)
{
    uint32_t active = 0, grants = 0, inlines = 0, reserved = 0;
    for (uint32_t i = 0; i < t->o.depth_max; i++) {
        const struct nvmetcp_slot *s = &t->slots[i];
        if (s->state == NVMETCP_SLOT_FREE) {
            if (s->reply != NULL || s->inline_data != NULL || s->ev.type != 0)
                return SNIC_ECORRUPT; /* I2 */
            continue;
        }
        active++;
        reserved++;
        inlines += s->inline_data != NULL;
        grants += s->grants;
        if (s->reply == NULL || !s->reply->used || s->reply->out.queued ||
            (s->ev.type != 0) != (s->state == NVMETCP_SLOT_READY))
            return SNIC_ECORRUPT; /* I2, I3, J1 */
        if ((s->state == NVMETCP_SLOT_ARRIVING) != (s == t->arriving))
            return SNIC_ECORRUPT;
        if (s->granted > s->wanted || s->arrived > s->granted)
            return SNIC_ECORRUPT; /* J2 */
    }
    if (active != t->c.s.active || active > t->entries || grants != t->c.s.grants ||
        inlines != t->c.s.inlines)
        return SNIC_ECORRUPT; /* J1, J2 */
    if (nvmetcp_queue_count(&t->free_slots, t->o.depth_max) != t->o.depth_max - active ||
        nvmetcp_queue_count(&t->free_inlines, t->o.inline_buffers) != t->o.inline_buffers - inlines)
        return SNIC_ECORRUPT; /* I2 */
    return 0;
}

static int nvmetcp_check_grants(const struct snic_nvmetcp_target *t)
{
    uint32_t used = 0, open = 0, listed = 0;
    uint64_t last = 0;
    for (uint32_t i = 0; i < t->o.grants_max; i++) {
        const struct nvmetcp_grant *g = &t->grants[i];
        used += g->used;
        open += g->used && g->waits;
        if (!g->used && (g->ev.type != 0 || g->out.queued || !snic_link_alone(&g->open)))
            return SNIC_ECORRUPT; /* J3 */
        if (g->used && (g->waits == snic_link_alone(&g->open) || g->got > g->size ||
                        (g->waits && g->got == g->size)))
            return SNIC_ECORRUPT;
        if (g->used && !g->waits && g->ev.type == 0 && !g->out.queued)
            return SNIC_ECORRUPT; /* J3: it should have been freed */
    }
    for (const struct snic_link *l = t->open.next; l != &t->open; l = l->next) {
        const struct nvmetcp_grant *g = SNIC_CONTAINER(l, struct nvmetcp_grant, open);
        if (++listed > t->o.grants_max || g->expires_ns < last)
            return SNIC_ECORRUPT; /* J3 */
        last = g->expires_ns;
    }
    return open == t->c.s.grants && listed == open &&
                   nvmetcp_queue_count(&t->free_grants, t->o.grants_max) == t->o.grants_max - used
               ? 0
               : SNIC_ECORRUPT;
}

/* J4: each where the one before it ends, or at the begin of `heads`. */
static int nvmetcp_check_heads(const struct snic_nvmetcp_target *t)
{
    const unsigned char *end = NULL;
    size_t bytes = 0;
    for (const struct snic_node *n = t->c.outs.first; n != NULL; n = n->next) {
        const struct nvmetcp_out *o = SNIC_CONTAINER(n, struct nvmetcp_out, node);
        if (o->kind != NVMETCP_OUT_REPLY && o->kind != NVMETCP_OUT_R2T)
            continue;
        if (end != NULL && o->head != end && o->head != t->heads)
            return SNIC_ECORRUPT;
        if (o->tail_size > 0 && o->tail != o->head + o->head_size)
            return SNIC_ECORRUPT;
        end = o->head + o->head_size + o->tail_size;
        bytes += (size_t)o->head_size + o->tail_size;
    }
    if (end != NULL && end != t->heads + t->heads_at)
        return SNIC_ECORRUPT;
    return t->heads_at <= t->heads_size && bytes <= t->heads_size - 2 * SNIC_NVMETCP__HEAD_MAX
               ? 0
               : SNIC_ECORRUPT;
}

int snic_nvmetcp_target_check(const struct snic_nvmetcp_target *t)
{
    uint32_t used = 0, all = nvmetcp_target_replies(&t->o);
    for (uint32_t i = 0; i < all; i++) {
        used += t->replies[i].used;
        if (!t->replies[i].used && (t->replies[i].out.queued || t->replies[i].ev.type != 0))
            return SNIC_ECORRUPT;
    }
    if (nvmetcp_queue_count(&t->free_replies, all) != all - used)
        return SNIC_ECORRUPT; /* I2 */
    int r = nvmetcp_conn_check(&t->c);
    r = r == 0 ? nvmetcp_check_slots(t) : r;
    r = r == 0 ? nvmetcp_check_grants(t) : r;
    return r == 0 ? nvmetcp_check_heads(t) : r;
}
