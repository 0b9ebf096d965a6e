/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * Command capsules: a slot, a reserved reply and, for in-capsule data, a buffer; and the command's
 * data as its SGL describes them. I4, I5.
 */
#include "nvmetcp/target_priv.h"

/* The data block of @p sqe, which has data. @return a status, 0 */
static uint16_t nvmetcp_judge_sgl(const struct snic_nvmetcp_target *t, struct nvmetcp_slot *s,
                                  uint32_t in_capsule)
{
    uint64_t address = snic_get_le64(s->sqe + 24);
    uint32_t length = snic_get_le32(s->sqe + 32);
    uint8_t type = s->sqe[39];
    if (type == SNIC_NVMETCP__SGL_INLINE) {
        if (s->dir != NVMETCP_DIR_IN)
            return SNIC_NVMETCP__INVALID_FIELD;
        if (address > in_capsule)
            return SNIC_NVMETCP__SGL_OFFSET;
        if (length > in_capsule - address)
            return SNIC_NVMETCP__SGL_LENGTH;
        s->inline_size = length;
        return 0;
    }
    if (type != SNIC_NVMETCP__SGL_DATA)
        return SNIC_NVMETCP__SGL_TYPE;
    if (in_capsule > 0 || length > t->o.transfer_max)
        return SNIC_NVMETCP__INVALID_FIELD;
    s->wanted = length;
    return 0;
}

/* @return a status with which the engine answers, 0: it is the owner's */
static uint16_t nvmetcp_judge(const struct snic_nvmetcp_target *t, struct nvmetcp_slot *s,
                              uint32_t in_capsule)
{
    int fabrics = s->sqe[0] == SNIC_NVMETCP__FABRICS;
    int connect = fabrics && s->sqe[4] == SNIC_NVMETCP__FC_CONNECT;
    if (connect == t->connected || (connect && t->connecting != NULL))
        return SNIC_NVMETCP__SEQUENCE;
    if (!fabrics && s->sqe[1] >> 6 != 1)
        return SNIC_NVMETCP__INVALID_FIELD;
    if (s->dir == NVMETCP_DIR_IN || s->dir == NVMETCP_DIR_OUT)
        return nvmetcp_judge_sgl(t, s, in_capsule);
    return in_capsule > 0 ? SNIC_NVMETCP__INVALID_FIELD : 0;
}

int nvmetcp_target_capsule(struct snic_nvmetcp_target *t)
{
    struct nvmetcp_in *in = &t->c.in;
    if (in->pdu.data_size > t->inline_max)
        return nvmetcp_conn_refuse(&t->c, SNIC_NVMETCP_FES_LIMIT, 0);
    if (t->c.s.active >= t->entries)
        return SNIC_EOVERFLOW;
    if (snic_queue_empty(&t->free_replies) ||
        (in->pdu.data_size > 0 && snic_queue_empty(&t->free_inlines)))
        return SNIC_EAGAIN;
    struct snic_node *n = snic_queue_pop(&t->free_slots);
    struct nvmetcp_slot *s = SNIC_CONTAINER(n, struct nvmetcp_slot, free);
    n = snic_queue_pop(&t->free_replies);
    s->reply = SNIC_CONTAINER(n, struct nvmetcp_reply, free);
    s->reply->used = 1;
    s->state = NVMETCP_SLOT_ARRIVING;
    memcpy(s->sqe, in->pdu.capsule, SNIC_NVMETCP_SQE_BYTES);
    s->cid = snic_get_le16(s->sqe + 2);
    s->dir = (uint8_t)nvmetcp_dir_of(s->sqe);
    s->inline_size = 0;
    s->wanted = 0;
    s->granted = 0;
    s->arrived = 0;
    s->corrupt = 0;
    t->c.s.active++;
    t->c.s.active_max = (uint32_t)snic_max_u64(t->c.s.active_max, t->c.s.active);
    t->c.s.commands++;
    s->status = nvmetcp_judge(t, s, in->pdu.data_size);
    t->arriving = s;
    if (s->status == 0 && !t->connected)
        t->connecting = s;
    if (in->pdu.data_size > 0 && s->status == 0) {
        n = snic_queue_pop(&t->free_inlines);
        s->inline_data = t->inlines + (size_t)(n - t->inline_nodes) *
                                          (size_t)snic_align_up(t->o.inline_max, 4096);
        in->one.base = s->inline_data;
        in->one.size = in->pdu.data_size;
        in->dest.iov = &in->one;
        in->dest.skip = 0;
        t->c.s.inlines++;
    }
    return 0;
}

void nvmetcp_target_capsule_done(struct snic_nvmetcp_target *t, int good)
{
    struct nvmetcp_slot *s = t->arriving;
    t->arriving = NULL;
    if (!good && s->status == 0)
        s->status = SNIC_NVMETCP__TRANSPORT;
    if (s->status != 0) {
        struct snic_nvmetcp_completion c = {.status = s->status};
        t->c.s.refused++;
        nvmetcp_target_respond(t, s, &c);
        return;
    }
    s->state = NVMETCP_SLOT_READY;
    uint32_t type = SNIC_NVMETCP_COMMAND;
    if (s->sqe[0] == SNIC_NVMETCP__FABRICS)
        type = s->sqe[4] == SNIC_NVMETCP__FC_CONNECT ? SNIC_NVMETCP_CONNECT : SNIC_NVMETCP_FABRICS;
    nvmetcp_event(&t->c, &s->ev, type);
}
