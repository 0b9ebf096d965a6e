/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* Actions: what a step emits. There is room in the ring: I6, and ddp_room before each piece. */
#include "ddp_priv.h"

struct snic_ddp_action *ddp_act(struct snic_ddp *d, uint32_t type)
{
    return ddp_ring_push(&d->ring, d->actions, SNIC_DDP__RING, type);
}

struct snic_ddp_msg *ddp_send(struct snic_ddp *d, uint32_t type, uint16_t to,
                              const struct snic_ddp_key *key, uint64_t ts)
{
    static struct snic_ddp_msg *const none = NULL;
    if (to == 0 && (type == SNIC_DDP_VAL || type == SNIC_DDP_VAL_C || type == SNIC_DDP_VAL_P))
        return none; /* the only member */
    SNIC_ASSERT(to != 0 && (to & ~d->others) == 0);
    struct snic_ddp_action *a = ddp_act(d, SNIC_DDP_SEND);
    a->to = to;
    a->msg.type = (uint8_t)type;
    a->msg.src = (uint8_t)d->o.node;
    a->msg.epoch = d->epoch;
    a->msg.src_incarnation = d->incarnation[d->o.node];
    a->msg.key = *key;
    a->msg.ts = ts;
    return &a->msg;
}

void ddp_release(struct snic_ddp *d, uint64_t value)
{
    ddp_act(d, SNIC_DDP_RELEASE)->msg.value = value;
}

void ddp_flush(struct snic_ddp *d, uint32_t id)
{
    ddp_act(d, SNIC_DDP_FLUSH)->id = id;
}

/* The answer to a write or SYNC, for all FULL members of this epoch. */
struct snic_ddp_action *ddp_done_all(struct snic_ddp *d, uint64_t token, uint32_t copies_min)
{
    struct snic_ddp_action *a = ddp_act(d, SNIC_DDP_DONE);
    uint32_t copies = ddp_copies(d);
    a->token = token;
    a->copies = (uint16_t)copies;
    a->result = copies < copies_min ? SNIC_EUNKNOWN : 0;
    return a;
}

/* The answer to a read, or to what turned out to be one; without @p r only the result. */
void ddp_done(struct snic_ddp *d, uint64_t token, int result, const struct ddp_rec *r)
{
    struct snic_ddp_action *a = ddp_act(d, SNIC_DDP_DONE);
    a->token = token;
    a->result = result;
    if (r == NULL)
        return;
    a->flags = r->flags & SNIC_DDP_MSG_TOMBSTONE;
    a->msg.flags = (uint8_t)a->flags;
    a->msg.key = r->key;
    a->msg.ts = r->vts;
    a->msg.value = r->value;
    a->msg.length = r->length;
}

/*
 * A record's value is new or became readable, or (SNIC_DDP_REMOVED) the record will be removed.
 * @p flags: the action's, TOMBSTONE included.
 */
void ddp_changed(struct snic_ddp *d, const struct ddp_rec *r, uint64_t ts, uint64_t value,
                 uint32_t length, uint32_t flags)
{
    if ((d->o.flags & SNIC_DDP_CHANGES) == 0)
        return;
    struct snic_ddp_action *a = ddp_act(d, SNIC_DDP_CHANGED);
    int gone = (flags & SNIC_DDP_MSG_TOMBSTONE) != 0;
    a->id = ddp_rec_number(d, r);
    a->flags = flags | (d->serves ? 0 : (uint32_t)SNIC_DDP_IDLE);
    a->msg.key = r->key;
    a->msg.ts = ts;
    a->msg.value = gone ? 0 : value;
    a->msg.length = gone ? 0 : length;
}
