/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* Actions of both halves: what a step emits, and how a variant splits it when it is polled. */
#include "ddpnic_priv.h"

struct snic_ddp_action *ddpnic_host_act(struct snic_ddpnic *d, uint32_t type)
{
    struct snic_ddp_action *a =
        ddp_ring_push(&d->host.ring, d->host_actions, SNIC_DDPNIC__HOST_RING, type);
    a->msg.src = (uint8_t)d->o.node;
    return a;
}

struct snic_ddp_action *ddpnic_act(struct snic_ddpnic *d, uint32_t type)
{
    struct snic_ddp_action *a =
        ddp_ring_push(&d->nic.ring, d->nic_actions, SNIC_DDPNIC__RING, type);
    a->msg.src = (uint8_t)d->o.node;
    return a;
}

/* NULL: no receiver. */
struct snic_ddp_msg *ddpnic_send(struct snic_ddpnic *d, uint32_t type, uint16_t to,
                                 const struct snic_ddp_key *key, uint64_t ts)
{
    static struct snic_ddp_msg *const none = NULL;
    if (to == 0)
        return none;
    SNIC_ASSERT((to & ~d->common.others) == 0); /* N7 */
    struct snic_ddp_action *a = ddpnic_act(d, SNIC_DDP_SEND);
    a->to = to;
    a->msg.type = (uint8_t)type;
    a->msg.epoch = d->common.epoch;
    a->msg.src_incarnation = d->nic.incarnation[d->o.node];
    a->msg.key = *key;
    a->msg.ts = ts;
    return &a->msg;
}

void ddpnic_release(struct snic_ddpnic *d, uint64_t value)
{
    ddpnic_act(d, SNIC_DDP_RELEASE)->msg.value = value;
}

static uint32_t ddpnic_lowest(uint32_t mask)
{
    return mask & (~mask + 1);
}

/* The ring's first; of one that stands for several (the variants) the first of those. */
void ddpnic_pop(struct snic_ddp_action *actions, uint32_t size, struct ddp_ring *at, uint32_t flags,
                struct snic_ddp_action *out)
{
    struct snic_ddp_action *a = &actions[at->first];
    *out = *a;
    if (a->type == SNIC_DDP_SEND && (flags & SNIC_DDPNIC_UNICAST) != 0) {
        out->to = (uint16_t)ddpnic_lowest(a->to);
        a->to &= (uint16_t)~out->to;
        if (a->to != 0)
            return;
    }
    if (a->type == SNIC_DDPNIC_PCIE && (flags & SNIC_DDPNIC_UNBATCHED) != 0) {
        int down = a->msg.type == SNIC_DDP_INV || a->msg.type == SNIC_DDP_PERSIST;
        out->msg.index = ddpnic_lowest(a->msg.index);
        a->msg.index &= ~out->msg.index;
        if (down) {
            for (uint32_t left = a->msg.index; left != 0; left &= left - 1)
                out->msg.seen[0]++;
            a->msg.seen[1]++;
        }
        if (a->msg.index != 0) {
            if (!down)
                out->msg.seen[0] = 0; /* not the last */
            return;
        }
    }
    at->first = (at->first + 1) % size;
    at->count--;
}
